"""PriorCompetition: decides by returns which prior masks the next episode, and drops those that lose."""

import copy
import math
from collections.abc import Sequence

import numpy as np

from llmwrappers.discounted_returns import DiscountedReturns, difference


class PriorCompetition:
    """Lets priors compete with each other and with none of them, an episode at a time, while the agent learns.

    An arm is a candidate, or None: an episode without a mask. ``choose`` plays None five times, each candidate thrice, and then

    - None in a share of the episodes that is at least ``NONE_SHARE`` and at least ``1 - mask_epsilon``, since what a prior is
      worth is measured against it;
    - else the arm that Thompson sampling picks: the greatest of one draw from ``Normal(mean_i, variance_i / count_i)`` each.

    None's five end early if ``begin_learning`` is called, and a candidate's three wait for their share then. The agent
    changes, so means, variances and counts are discounted (discounted Thompson sampling, Raj and Kalyani, arXiv 1707.09727):
    they remember about the last ``1 / (1 - discount)`` episodes of an arm.

    A candidate is dropped for good when the interval of its mean return less that of the best arm lies below 0. After the k-th
    episode that interval may miss with probability ``error_rate / (n (n + 1) k (k + 1))``, for n candidates: a union bound over
    looks and pairs. So with probability ``1 - error_rate`` no candidate is dropped while none is better, as far as means of
    returns are normal. They are not where returns take two values (a goal reached or not, a fall or none): three that happen to
    be alike look sure, and candidates that are no worse are dropped far more often. One that sampling passes over is not
    dropped, for it costs nothing more.

    Args:
        candidates: their names, at least one, all different
        error_rate: probability in (0, 1) of ever dropping a candidate that is not worse
        discount: what an older episode counts against the next one of its arm, in (0, 1]

    Raises:
        ValueError: no candidates, two of one name, ``error_rate`` or ``discount`` out of range

    Example:
        >>> competition, rng = PriorCompetition(["good", "bad"]), np.random.default_rng(0)
        >>> for _ in range(60):
        ...     arm = competition.choose(rng)
        ...     competition.record(arm, {"good": 10.0, "bad": -90.0, None: 0.0}[arm] + rng.normal())
        >>> competition.alive, competition.leader
        (['good'], 'good')
        >>> print(competition.verdict())
        good helped: an episode returned 9.7 more than without it (95 % interval 8.6 to 10.8).
        bad hurt: an episode returned 90.0 less than without it (95 % interval 86.4 to 93.7); dropped: good is better.

    Change log:
        * v0.1.0 - added
    """

    NONE_SHARE = 0.2
    FIRST_EPISODES, FIRST_UNMASKED_EPISODES = 3, 5

    def __init__(self, candidates: Sequence[str], error_rate: float = 0.05, discount: float = 0.9):
        if isinstance(candidates, str) or not candidates or len(set(candidates)) < len(candidates):
            raise ValueError(f"candidates must be names, at least one and all different, got {candidates!r}")
        if not 0 < error_rate < 1:
            raise ValueError(f"error_rate must lie in (0, 1), got {error_rate!r}")
        self.error_rate = error_rate
        self.candidates = list(candidates)
        self.alive = list(candidates)
        self.returns: dict[str | None, DiscountedReturns] = {
            arm: DiscountedReturns(discount) for arm in (None, *self.candidates)
        }
        self.untaught: DiscountedReturns | None = None
        self.dropped: dict[str, str] = {}  # and why
        self.episodes: dict[str | None, int] = dict.fromkeys(self.returns, 0)

    def choose(self, rng: np.random.Generator, mask_epsilon: float = 1.0) -> str | None:
        """Returns the arm of the next episode; ``mask_epsilon`` is the greatest share of masked ones."""
        arms = (None, *self.alive)
        if mask_epsilon == 0 or not self.alive:
            return None
        if self.untaught is None and self.episodes[None] < self.FIRST_UNMASKED_EPISODES:
            return None
        rarest = min(self.alive, key=self.episodes.__getitem__)
        is_new = self.episodes[rarest] < self.FIRST_EPISODES
        if is_new and self.untaught is None:
            return rarest
        if rng.random() < max(self.NONE_SHARE, 1 - mask_epsilon):
            return None
        if is_new:
            return rarest
        draws = {arm: self._draw(self.returns[arm], rng) for arm in arms}
        return max(draws, key=draws.__getitem__)

    def record(self, arm: str | None, episodic_return: float) -> None:
        """Takes in the return of a whole episode, and drops the candidates that have lost."""
        self.returns[arm].forget()
        self.returns[arm].add(episodic_return)
        self.episodes[arm] += 1
        n, k = len(self.candidates), sum(self.episodes.values())
        error_rate = self.error_rate / (n * (n + 1) * k * (k + 1))
        arms = [arm for arm in (None, *self.alive) if self.episodes[arm] > 0]
        best = max(arms, key=lambda arm: self.returns[arm].mean, default=None)
        for candidate in [arm for arm in arms if arm is not None and arm != best]:
            if difference(self.returns[candidate], self.returns[best], error_rate)[2] < 0:
                self.drop(candidate, f"{best or 'the agent without it'} is better")

    def drop(self, candidate: str, why: str) -> None:
        """Takes a candidate out for good, whatever it returned."""
        self.alive.remove(candidate)
        self.dropped[candidate] = why

    def begin_learning(self) -> None:
        """Keeps the returns of None so far as those of an untaught agent; what candidates are worth is measured by them.

        An agent that learns from a prior comes to be as good as it, which does not make the prior worthless.
        """
        self.untaught = copy.copy(self.returns[None])

    @property
    def leader(self) -> str | None:
        """The candidate in the running with the greatest mean return, None if none has been played."""
        played = [arm for arm in self.alive if self.episodes[arm] > 0]
        return max(played, key=lambda arm: self.returns[arm].mean, default=None)

    @property
    def baseline(self) -> DiscountedReturns:
        """What candidates are measured by: the returns of None, since ``begin_learning`` those from before it."""
        return self.untaught or self.returns[None]

    def worth(self, candidate: str) -> tuple[float, float, float]:
        """Returns masked minus unmasked return, with the ends of an interval that holds for all candidates at once."""
        return difference(self.returns[candidate], self.baseline, self.error_rate / len(self.candidates))

    def verdict(self) -> str:
        """Returns one sentence a candidate: whether it helped, by how much, and how sure that is."""
        return "\n".join(self._sentence(candidate) for candidate in self.candidates)

    def _sentence(self, candidate: str) -> str:
        worth, low, high = self.worth(candidate)
        episodes = self.episodes[candidate]
        dropped = f"; dropped: {self.dropped[candidate]}" if candidate in self.dropped else ""
        if episodes == 0:
            return f"{candidate} was never played{dropped}."
        agent = "that of an untaught agent" if self.untaught else "without it"
        gained = f"an episode returned {abs(worth):.1f} {'less' if worth < 0 else 'more'} than {agent}"
        if not math.isfinite(low):
            perhaps = f"{candidate} perhaps {'hurt' if worth < 0 else 'helped'}"
            return f"{perhaps}: {gained} (too few episodes for an interval, {episodes} with it){dropped}."
        what = "helped" if low > 0 else "hurt" if high < 0 else "made no difference that can be told from chance"
        low, high = (-high, -low) if worth < 0 else (low, high)
        return f"{candidate} {what}: {gained} ({100 * (1 - self.error_rate):g} % interval {low:.1f} to {high:.1f}){dropped}."

    def state(self) -> dict:
        """Returns what a checkpoint keeps."""
        return {
            "alive": list(self.alive),
            "dropped": dict(self.dropped),
            "arms": [(self.episodes[arm], self.returns[arm].state()) for arm in self.returns],
            "untaught": self.untaught and self.untaught.state(),
        }

    def load_state(self, state: dict) -> None:
        """Goes on from what ``state`` returned."""
        self.alive, self.dropped = list(state["alive"]), dict(state["dropped"])
        for arm, (episodes, returns) in zip(self.returns, state["arms"], strict=True):
            self.episodes[arm] = episodes
            self.returns[arm].load_state(returns)
        self.untaught = None
        if state["untaught"] is not None:
            self.untaught = copy.copy(self.returns[None])
            self.untaught.load_state(state["untaught"])

    @staticmethod
    def _draw(returns: DiscountedReturns, rng: np.random.Generator) -> float:
        # An arm of which nothing is known is worth a try.
        if not math.isfinite(returns.variance):
            return math.inf
        return rng.normal(returns.mean, math.sqrt(returns.variance / returns.count))
