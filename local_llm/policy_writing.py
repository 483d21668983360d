"""PolicyWriting: an environment whose agents act in text: they write policies for another environment."""

import string
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

from llmwrappers import PolicyRejected, vet_policy
from llmwrappers.containment.lint import MAX_CHARACTERS
from llmwrappers.making import make
from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import measure, random_actions
from llmwrappers.priors.probe import is_readable
from local_llm.prompting.render import render_prompt
from local_llm.replies.extract import extract_policy
from local_llm.replies.reply_text import ExtractionError
from local_llm.selection.candidate import Candidate
from local_llm.selection.episode_pools import (
    CHOOSING_EPISODES,
    CHOOSING_SEED,
    HELD_OUT_EPISODES,
    HELD_OUT_SEED,
    WRITING_EPISODES,
)
from local_llm.selection.feedback import report_text

LONGEST_OBSERVATION = 200_000


class PolicyWriting(gym.Env):
    """Rewards the text of a policy for its improvement over the best policy so far.

    ======================  ============================================================================================
    observation             the prompt that ``llmwrappers prompt`` prints for the environment; after each step the report on
                            the policy, or why it was refused
    action                  a reply with the text of a policy, in any form that ``local_llm.replies.extract`` understands
    reward                  max(0, R - best) / max(1, abs(random)): R is the mean return of the policy's episodes; best is
                            the greatest R so far; random is the mean return of uniformly random actions in the episodes of
                            all steps, and the first best
    terminated              after ``attempts`` steps
    info                    ``best_return``, ``random_return``, ``refused`` (the number of refused policies); after a step
                            ``mean_return``, unless the policy was refused. After the last step also ``chosen`` (the number
                            of the step whose policy is best in the hidden episodes; None if all were refused), and
                            ``held_out_return`` and ``held_out_faults`` of that policy
    ======================  ============================================================================================

    The rewards of an episode add up to (last best - random) / max(1, abs(random)). The policy plays in a locked process,
    like all code that models write. Every step has its own seeds, which are the same after every reset.

    Compare agents by ``held_out_return``, not by the rewards, which rest on few episodes that the agent has seen. The protocol
    is EvoPolicyGym's. It has 128 episodes to write (16 policies of 8 episodes). Every accepted policy plays again in 64 hidden
    episodes, and the best mean return there chooses the policy (the latest of equals). Only the chosen policy plays in the 256
    held-out episodes. No two of these sets share a seed (see ``episode_pools``).

    Args:
        env_id: the environment to write policies for
        attempts: steps of an episode
        episodes: episodes that the policy of a step plays
        hidden_episodes: episodes that choose among the policies after the last step
        held_out_episodes: episodes that measure the chosen policy
        env_kwargs: the arguments to make the environment with

    Raises:
        ValueError: a number of steps or episodes is below 1

    Example:
        >>> import llmwrappers
        >>> few = {"attempts": 2, "episodes": 3, "hidden_episodes": 2, "held_out_episodes": 4}
        >>> env = gym.make("llmwrappers/PolicyWriting-v0", env_id="Pendulum-v1", **few)
        >>> prompt, info = env.reset()
        >>> "Write one Python function `policy(obs)`" in prompt
        True
        >>> report, reward, *_ = env.step("```python\\nimport os\\n\\ndef policy(obs):\\n    return [os.getpid()]\\n```")
        >>> reward, report  # doctest: +ELLIPSIS
        (0.0, 'The policy was refused: line 1: import of os, which a policy cannot use; it may import numpy, math, ...
        >>> swing_up = "-10 * s - 2 * w if c > 0.8 else w * (5 - 5 * c - w * w / 6)"  # hold near the top, else add energy
        >>> report, reward, terminated, _, info = env.step(f"def policy(obs):\\n    c, s, w = obs\\n    return [{swing_up}]")
        >>> reward > 0, terminated, info["refused"], info["chosen"], info["held_out_faults"]
        (True, True, 1, 2, 0)

    Reference:
        In the spirit of MLGym: Nathani et al., "MLGym: A New Framework and Benchmark for Advancing AI Research Agents",
        arXiv 2502.14499. Protocol: Wang et al., "EvoPolicyGym: Evaluating Autonomous Policy Evolution in Interactive
        Environments", arXiv 2607.02440.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        env_id: str,
        attempts: int = 16,
        episodes: int = WRITING_EPISODES // 16,
        hidden_episodes: int = CHOOSING_EPISODES,
        held_out_episodes: int = HELD_OUT_EPISODES,
        env_kwargs: dict[str, Any] | None = None,
    ):
        numbers = {"attempts": attempts, "episodes": episodes}
        numbers |= {"hidden_episodes": hidden_episodes, "held_out_episodes": held_out_episodes}
        for name, value in numbers.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        self.env_id, self.attempts, self.episodes = env_id, attempts, episodes
        self.hidden_episodes, self.held_out_episodes = hidden_episodes, held_out_episodes
        self.env_kwargs = env_kwargs or {}
        self._env = make(env_id, **self.env_kwargs)
        if not is_readable(self._env.observation_space):
            raise ValueError(f"env_id must name an environment with arrays or a Dict of arrays as observations, got {env_id!r}")
        self._prompt = render_prompt(env_id, **self.env_kwargs)
        # Any text that a model may write: Latin, Greek, arrows, mathematics.
        characters = frozenset(string.printable) | {chr(code) for code in range(0xA0, 0x3000)} | frozenset(self._prompt)
        self.action_space = Text(MAX_CHARACTERS, min_length=0, charset=characters)
        self.observation_space = Text(LONGEST_OBSERVATION, charset=characters)
        self._random = measure(self._env, random_actions(self._env.action_space, seed=0), attempts * episodes, seed=0)
        self.random_return = float(np.mean(self._random.returns))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Forgets all policies; the observation is the prompt."""
        super().reset(seed=seed, options=options)
        self._steps, self._best = 0, self.random_return
        self._accepted: dict[int, PriorPolicy] = {}
        return self._prompt, self._info()

    def step(self, action: str):
        """Plays the policy in a reply; the observation is the report. After the last step it chooses and measures."""
        self._steps += 1
        reward, played = 0.0, {}
        try:
            source = extract_policy(action)
            policy = vet_policy(source, self._env.observation_space, self._env.action_space, env=self._env)
        except (ExtractionError, PolicyRejected) as error:
            report = f"The policy was refused: {error}"
        else:
            self._accepted[self._steps] = policy
            first = (self._steps - 1) * self.episodes
            measurement = measure(self._env, policy, self.episodes, first)
            mean_return = played["mean_return"] = float(np.mean(measurement.returns))
            reward = max(0.0, mean_return - self._best) / max(1.0, abs(self.random_return))
            self._best = max(self._best, mean_return)
            candidate = Candidate(self._steps, source, Path("policy.py"), policy)
            report = report_text(self.env_id, candidate, measurement, self._random, first, self.env_kwargs)
        terminated = self._steps == self.attempts
        info = {**self._info(), **played, **(self._held_out() if terminated else {})}
        return self._text(report), reward, terminated, False, info

    def _held_out(self) -> dict[str, Any]:
        """Chooses a policy by the hidden episodes, and measures it in the held-out ones."""

        def hidden_return(number: int) -> tuple[float, int]:
            returns = measure(self._env, self._accepted[number], self.hidden_episodes, CHOOSING_SEED).returns
            return float(np.mean(returns)), number

        chosen = max(self._accepted, key=hidden_return, default=None)
        if chosen is None:
            return {"chosen": None}
        measured = measure(self._env, self._accepted[chosen], self.held_out_episodes, HELD_OUT_SEED)
        mean_return = float(np.mean(measured.returns))
        return {"chosen": chosen, "held_out_return": mean_return, "held_out_faults": measured.faults}

    def close(self):
        """Closes the environment that the policies play in."""
        self._env.close()

    def _info(self) -> dict[str, Any]:
        refused = self._steps - len(self._accepted)
        return {"best_return": self._best, "random_return": self.random_return, "refused": refused}

    def _text(self, text: str) -> str:
        """Returns the text within the observation space: an error may quote any character."""
        known = self.observation_space.character_set  # type: ignore[attr-defined]
        return "".join(character if character in known else "?" for character in text)[:LONGEST_OBSERVATION]
