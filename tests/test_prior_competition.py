"""PriorCompetition: who plays, who is dropped, how often that is wrong, and what is said of it."""

import math

import numpy as np
import pytest

from llmwrappers import PriorCompetition
from llmwrappers.discounted_returns import DiscountedReturns, difference


def play(means: dict, episodes: int, seed: int = 0, spread: float = 1.0, mask_epsilon: float = 1.0) -> PriorCompetition:
    """A competition of arms with normal returns."""
    competition = PriorCompetition([name for name in means if name is not None])
    rng = np.random.default_rng(seed)
    for _ in range(episodes):
        arm = competition.choose(rng, mask_epsilon)
        competition.record(arm, rng.normal(means[arm], spread))
    return competition


def test_the_good_one_stays_and_plays_most():
    competition = play({None: 0.0, "good": 10.0, "bad": -10.0, "worse": -50.0}, 200)
    assert "good" in competition.alive
    assert competition.leader == "good"
    assert competition.episodes["good"] > 0.7 * 200
    assert competition.episodes["bad"] + competition.episodes["worse"] < 8
    worth, low, high = competition.worth("good")
    assert low < 10.0 < high
    assert worth == pytest.approx(10.0, abs=2.0)


def test_when_all_harm_all_are_dropped():
    competition = play({None: 0.0, "bad": -40.0, "worse": -50.0}, 60)
    assert competition.alive == []
    assert competition.leader is None
    assert competition.choose(np.random.default_rng(0)) is None
    assert competition.episodes["bad"] + competition.episodes["worse"] < 20


def test_equal_arms_are_dropped_as_rarely_as_promised():
    dropped = sum(len(play({None: 0.0, "a": 0.0, "b": 0.0}, 150, seed).alive) < 2 for seed in range(100))
    assert dropped <= 5


def test_the_error_is_divided_among_pairs_and_looks():
    """After the k-th episode each of the n (n + 1) comparisons may err with probability error_rate / (n (n + 1) k (k + 1))."""
    competition, rng, k = PriorCompetition(["a", "b"], error_rate=0.05, discount=1.0), np.random.default_rng(0), 0
    returns = {arm: DiscountedReturns() for arm in ("a", "b", None)}
    means = {"a": 0.0, "b": -1.2, None: 0.0}
    while "b" in competition.alive:
        for arm, mean in means.items():
            value, k = float(rng.normal(mean, 1.0)), k + 1
            returns[arm].add(value)
            competition.record(arm, value)
            played = {arm: kept for arm, kept in returns.items() if kept.count > 0}
            best = max(played, key=lambda arm: played[arm].mean)
            is_worse = (
                best != "b" and "b" in played and difference(played["b"], played[best], 0.05 / (2 * 3 * k * (k + 1)))[2] < 0
            )
            assert ("b" not in competition.alive) == is_worse
            if is_worse:
                break
    assert k > 30


def test_arms_that_are_alike_so_far_are_both_played():
    """Thompson sampling tries what may be the best: more so the less is known of it, not the greatest mean alone."""
    competition, rng = PriorCompetition(["a", "b"], discount=1.0), np.random.default_rng(0)
    for noise in (-1.0, 0.0, 1.0, -1.0, 1.0):
        for arm, mean in (("a", 0.1), ("b", 0.0), (None, -20.0)):
            competition.record(arm, mean + noise)
    played = [arm for arm in (competition.choose(rng) for _ in range(300)) if arm is not None]
    assert 0.3 < played.count("b") / len(played) < 0.5  # its mean is a sixth of a standard error of the difference lower


def test_it_notices_when_the_agent_has_overtaken():
    competition, rng = PriorCompetition(["prior"]), np.random.default_rng(0)
    for episode in range(300):
        arm = competition.choose(rng)
        competition.record(arm, rng.normal(10.0 if arm else 0.1 * episode, 1.0))
    assert competition.alive == []
    assert "; dropped: the agent without it is better." in competition.verdict()


def test_none_plays_at_least_its_share_and_alone_once_the_mask_has_faded():
    means = {None: 0.0, "good": 10.0}
    assert 0.1 < play(means, 300).episodes[None] / 300 < 0.3
    assert 0.65 < play(means, 300, mask_epsilon=0.25).episodes[None] / 300 < 0.85
    assert play(means, 50, mask_epsilon=0.0).episodes == {None: 50, "good": 0}


def test_arms_that_are_equal_to_the_last_digit():
    """Returns without any spread: the difference is certain after the first episodes."""
    competition = play({None: 0.0, "good": 1.0, "bad": -1.0}, 40, spread=0.0)
    assert competition.alive == ["good"]
    assert competition.worth("good") == (1.0, 1.0, 1.0)


def test_the_verdict_says_who_helped_by_how_much_and_how_sure_that_is():
    lines = play({None: 0.0, "good": 10.0, "bad": -50.0}, 100).verdict().splitlines()
    assert lines[0].startswith("good helped: an episode returned ")
    assert "more than without it (95 % interval" in lines[0]
    assert lines[1].startswith("bad ")
    assert "less than without it" in lines[1]
    assert lines[1].endswith("; dropped: good is better.")
    new = PriorCompetition(["new"])
    assert new.verdict() == "new was never played."
    new.record("new", 3.0)
    too_few = "new perhaps helped: an episode returned 3.0 more than without it (too few episodes for an interval, 1 with it)."
    assert new.verdict() == too_few


def test_the_worths_of_all_candidates_hold_at_once():
    one, three = PriorCompetition(["a"]), PriorCompetition(["a", "b", "c"])
    for value in np.random.default_rng(0).normal(size=12):
        for competition in (one, three):
            competition.record("a", float(value) + 1)
            competition.record(None, float(value))
    assert three.worth("a")[0] == one.worth("a")[0]
    assert three.worth("a") == difference(three.returns["a"], three.returns[None], 0.05 / 3)
    assert three.worth("a")[1] < one.worth("a")[1]


def test_a_candidate_is_measured_by_the_agent_that_it_has_not_taught():
    competition, rng = PriorCompetition(["prior"]), np.random.default_rng(0)
    for episode in range(60):
        if episode == 20:
            competition.begin_learning()
        arm = competition.choose(rng)
        competition.record(arm, rng.normal(10.0 if arm or episode >= 20 else 0.0, 1.0))
    worth, low, high = competition.worth("prior")
    assert low < 10.0 < high
    assert competition.verdict().startswith(
        f"prior helped: an episode returned {worth:.1f} more than that of an untaught agent"
    )


def test_a_short_mask_is_not_spent_on_episodes_without_it():
    competition, rng = PriorCompetition(["prior"]), np.random.default_rng(0)
    competition.record(competition.choose(rng), 0.0)
    competition.begin_learning()
    assert competition.choose(rng) == "prior"


def test_learning_may_begin_before_an_episode_without_a_prior():
    for seed in range(20):
        competition, rng = PriorCompetition(["prior"]), np.random.default_rng(seed)
        competition.begin_learning()
        for _ in range(20):
            competition.record(competition.choose(rng), rng.normal())
        assert competition.episodes[None] > 0


def test_a_checkpoint_goes_on():
    a = play({None: 0.0, "good": 10.0, "bad": -10.0}, 30)
    b = PriorCompetition(["good", "bad"])
    b.load_state(a.state())
    draws = [np.random.default_rng(5) for _ in range(2)]
    assert [a.choose(draws[0]) for _ in range(20)] == [b.choose(draws[1]) for _ in range(20)]
    assert a.verdict() == b.verdict()


def test_a_checkpoint_is_all_there_is():
    competition = PriorCompetition(["a"])
    competition.record(None, 1.0)
    before = competition.state()
    competition.begin_learning()
    competition.record(None, 3.0)
    competition.load_state(before)
    assert competition.state() == before


def test_a_candidate_can_be_withdrawn():
    competition = PriorCompetition(["a", "b"])
    competition.drop("a", "it failed")
    competition.record("a", 1.0)  # the episode in which it failed
    assert competition.alive == ["b"]


@pytest.mark.parametrize("candidates", [[], ["a", "a"], "ab"])
def test_bad_candidates(candidates):
    with pytest.raises(ValueError, match="candidates must be names"):
        PriorCompetition(candidates)


@pytest.mark.parametrize("error_rate", [0.0, 1.0, math.nan])
def test_bad_error_rate(error_rate):
    with pytest.raises(ValueError, match="error_rate must lie in"):
        PriorCompetition(["a"], error_rate)
