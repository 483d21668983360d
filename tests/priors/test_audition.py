"""llmwrappers/priors/audition.py: who teaches and why, what an episode holds, what a teacher would do."""

import json
import re
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from llmwrappers.priors.audition import CHANCE, NOTHING, Episode, Teacher, Verdict, audition, contestants
from llmwrappers.priors.measurement import random_actions


class Push(gym.Env):
    """The reward is the action. Observes the step and the last action, in one buffer into which it writes."""

    def __init__(self, space: gym.Space | None = None, steps: int = 5, terminates: bool = False):
        self.action_space = Box(-2.0, 2.0, (1,), np.float32) if space is None else space
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.steps, self.terminates, self.buffer = steps, terminates, np.zeros(2)

    def _observe(self, step, action):
        self.step_number = self.buffer[0] = step
        self.buffer[1] = action
        return self.buffer, {"minus": -self.buffer[:1]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(0, 0.0)

    def step(self, action):
        value = float(np.asarray(action).ravel()[0])
        observation, info = self._observe(self.step_number + 1, value)
        is_over = self.step_number == self.steps
        return observation, value, is_over and self.terminates, is_over and not self.terminates, info


def teacher(policy, env=None, observe=np.asarray, prior_input=None) -> Teacher:
    return Teacher(env or Push(), policy, observe, prior_input, radius=0.3)


def constant(value):
    return lambda observation: [value]


def hold(clone_steps=10_000, env=None, chance=None, seed=0, **priors):
    """An audition of priors by name: how many episodes each played, who teaches, and the sentence."""
    env = env or Push()
    policies = {CHANCE: chance or random_actions(env.action_space, seed), **priors}
    contestants = {name: teacher(policy, env) for name, policy in policies.items()}
    found = audition(contestants, clone_steps, np.random.default_rng(seed))
    return {name: len(episodes) for name, episodes in found.played.items()}, found.teacher, str(found.verdict)


# ------------------------------------------------------------------------------------------------ the verdict


def test_the_best_prior_teaches():
    counts, best, verdict = hold(middling=constant(0.5), good=constant(2.0), bad=constant(-2.0))
    assert best == "good"
    assert verdict.startswith("Teacher: good. It returned 10.0 (3 episodes), random actions ")
    assert counts == {CHANCE: 3, "middling": 1, "good": 3, "bad": 1}


@pytest.mark.parametrize("priors", [1, 5])
def test_long_episodes_leave_the_clone_its_steps(priors):
    """All are cut at the same step, so that their returns can be compared."""
    env = Push(steps=100_000)
    named = {f"prior {i}": teacher(constant(0.1 * i), env) for i in range(priors)}
    found = audition({CHANCE: teacher(random_actions(env.action_space, 0), env), **named}, 2000, np.random.default_rng(0))
    assert found.steps <= 0.9 * 2000
    assert len({len(episode.rewards) for episodes in found.played.values() for episode in episodes}) == 1


def test_a_harmful_prior_is_refused():
    counts, best, verdict = hold(bad=constant(-2.0))
    assert best == ""
    assert verdict.startswith("No teacher: bad returned -10.0 (10 episodes), random actions ")
    assert verdict.endswith(": not significantly above random actions. The agent learns alone.")
    assert counts == {CHANCE: 10, "bad": 10}


def test_other_random_actions_are_no_prior():
    results = [hold(random=random_actions(Push().action_space, seed + 100), seed=seed)[1] for seed in range(40)]
    assert results.count("random") <= 8  # at most 4 are expected, of two looks, and more than 8 in one of fifty such tests


def test_a_prior_that_fails_once_is_out():
    def moody(observation):
        return [2.0 / (observation[0] != 3.0)]

    with np.errstate(divide="ignore"):
        counts, best, verdict = hold(moody=moody, good=constant(1.5))
    assert (counts["moody"], best) == (1, "good")
    assert verdict.startswith("Teacher: good.")


def test_a_prior_that_fails_later_is_out_then():
    episodes = 0

    def tires(observation):
        nonlocal episodes
        episodes += observation[0] == 0
        return [2.0] if episodes < 2 else None

    counts, best, _ = hold(tires=tires, good=constant(1.5))
    assert (counts["tires"], counts["good"], best) == (2, 3, "good")


def test_all_fail():
    counts, best, verdict = hold(a=constant(np.nan), b=lambda observation: observation)
    reasons = "a: ValueError: the prior returned [nan]; b: ValueError: the prior returned shape (2,), the action space has (1,)"
    assert (best, verdict) == ("", f"No teacher: all priors failed ({reasons}). The agent learns alone.")
    assert counts == {CHANCE: 1, "a": 1, "b": 1}


@pytest.mark.parametrize(("value", "best"), [(1.0, ""), (0.5, ""), (1.5, "prior")])
def test_where_no_return_varies_the_greater_mean_decides(value, best):
    assert hold(chance=constant(1.0), prior=constant(value))[1] == best


def test_a_prior_that_was_lucky_once_is_overtaken():
    episodes = 0

    def lucky(observation):
        nonlocal episodes
        episodes += observation[0] == 0
        return [2.0 if episodes == 1 else -2.0]

    counts, best, _ = hold(lucky=lucky, good=constant(1.5))
    assert (counts["lucky"], counts["good"], best) == (2, 3, "good")


@pytest.mark.parametrize(
    ("clone_steps", "chance", "good"), [(1, 2, 2), (50, 2, 2), (51, 2, 3), (58, 2, 3), (59, 3, 3), (10_000, 3, 3)]
)
def test_the_steps_stay_within_what_is_promised(clone_steps, chance, good):
    """An episode each of four contestants and a second one of two of them are 30 steps, which is 60 % of 50."""
    counts, best, _ = hold(clone_steps, good=constant(2.0), a=constant(0.1), b=constant(0.2))
    assert (counts, best) == ({CHANCE: chance, "good": good, "a": 1, "b": 1}, "good")


def noisy(mean, seed):
    rng = np.random.default_rng(seed)
    return lambda observation: [rng.normal(mean, 1.0)]


def test_what_three_episodes_do_not_tell_ten_do():
    """Means of 2.5 and 0 an episode, deviations of some 2: three episodes of each tell them apart in one case of three."""
    found = [hold(chance=noisy(0.0, seed), prior=noisy(0.5, 100 + seed), seed=seed) for seed in range(20)]
    assert {tuple(counts.values()) for counts, _, _ in found} == {(3, 3), (10, 10)}
    assert [best for _, best, _ in found].count("prior") >= 13


def test_other_noise_about_doing_nothing_does_not_teach():
    """Nothing is noisy here, too, as it is where starts differ: one episode of it says little."""
    appointed = 0
    for seed in range(20):
        teachers = contestants(Push(), {"zero": noisy(0.0, seed)}, np.asarray, None, 0.3, seed=1)
        teachers[CHANCE].policy, teachers[NOTHING].policy = noisy(-1.5, 100 + seed), noisy(0.0, 200 + seed)
        appointed += bool(audition(teachers, 10_000, np.random.default_rng(seed)).teacher)
    assert appointed <= 7  # of two looks at both sides at most 4 are expected


@pytest.mark.parametrize(("worst", "beats_nothing"), [(-1.0, False), (1.0, True)])
def test_a_prior_that_does_no_better_than_nothing_is_told_apart(worst, beats_nothing):
    """Nothing returns 0; both priors beat the random actions, which return -1.5 an action here."""
    teachers = contestants(Push(Box(-3.0, 3.0, (1,), np.float32)), {"prior": constant(worst)}, np.asarray, None, 0.3, seed=1)
    assert list(teachers) == [CHANCE, NOTHING, "prior"]
    teachers[CHANCE].policy = lambda observation: [np.random.default_rng(int(observation[0])).normal(-1.5, 0.1)]
    found = audition(teachers, 10_000, np.random.default_rng(0))
    assert (found.teacher, found.beats_nothing) == ("prior", beats_nothing)
    assert str(found.verdict).endswith("explores more, because its teacher returned less than doing nothing.") != beats_nothing
    assert "doing nothing 0.0" in str(found.verdict)


def test_a_prior_that_is_as_good_as_nothing_does_not_teach():
    teachers = contestants(Push(), {"zero": constant(0.0)}, np.asarray, None, 0.3, seed=1)
    teachers[CHANCE].policy = lambda observation: [np.random.default_rng(int(observation[0])).normal(-1.5, 0.1)]
    found = audition(teachers, 10_000, np.random.default_rng(0))
    assert found.teacher == ""
    assert str(found.verdict).startswith("No teacher: zero returned 0.0 (10 episodes)")
    assert str(found.verdict).endswith(": not significantly different from doing nothing. The agent learns alone.")


def test_on_a_discrete_space_there_is_no_doing_nothing():
    teachers = contestants(gym.make("CartPole-v1"), {}, np.asarray, None, 0.3, seed=1)
    assert list(teachers) == [CHANCE]
    with pytest.raises(ValueError, match="prior_input"):
        contestants(gym.make("CartPole-v1"), {}, np.asarray, "nonesuch", 0.3, seed=1)


def test_the_same_stream_is_the_same_audition():
    first, again, other = (hold(seed=seed, good=constant(1.0)) for seed in (1, 1, 2))
    assert first == again != other


# ------------------------------------------------------------------------------------------------ a Discrete space


def test_on_a_discrete_space_one_of_the_allowed_actions_is_played():
    counts, best, verdict = hold(env=Push(Discrete(3, start=1)), low=lambda obs: {1}, high=lambda obs: {3})
    assert best == "high"
    assert verdict.startswith("Teacher: high. It returned 15.0 (3 episodes)")
    assert counts == {CHANCE: 3, "low": 1, "high": 3}


@pytest.mark.parametrize(
    ("answer", "shares"),
    [
        ({2, 3}, [0, 0.5, 0.5]),
        ({1}, [1, 0, 0]),
        (np.array([1, 0, 1], np.int8), [0.5, 0, 0.5]),
        (set(), [np.nan] * 3),
        ({4}, [np.nan] * 3),
        (2, [0, 1, 0]),
        (4, [np.nan] * 3),
    ],
)
def test_advice_on_a_discrete_space_is_the_share_of_each_action(answer, shares):
    (advice,) = teacher(lambda obs: answer, Push(Discrete(3, start=1))).advice([np.zeros(2)])
    assert advice.dtype == np.float32
    np.testing.assert_array_equal(advice, np.array(shares, np.float32))


# ------------------------------------------------------------------------------------------------ teacher and episode


@pytest.mark.parametrize(
    ("answer", "advice"), [([0.5], 0.5), (0.5, 0.5), ([9.0], 2.0), ([np.nan], np.nan), ([0.0, 0.0], np.nan), (None, np.nan)]
)
def test_advice_is_native_and_clipped(answer, advice):
    (given,) = teacher(lambda obs: answer).advice([np.zeros(2)])
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given, [np.float32(advice)])


def test_where_a_prior_fails_the_middle_is_played_and_counted():
    episode = teacher(lambda obs: [2.0] if obs[0] != 3 else "left").play(seed=0, most_steps=1000)
    assert (episode.rewards, episode.faults) == ([2.0, 2.0, 2.0, 0.0, 2.0], 1)
    assert episode.episodic_return == 8.0


@pytest.mark.parametrize("terminates", [True, False])
def test_an_episode_keeps_what_the_environment_writes_over(terminates):
    player = teacher(lambda obs: [0.1 * obs[0]], Push(terminates=terminates), observe=lambda obs: obs)
    episode = player.play(seed=0, most_steps=1000)
    player.play(seed=1, most_steps=1000)
    expected = np.array([[t, max(0, 0.1 * (t - 1))] for t in range(6)])
    np.testing.assert_allclose(episode.observations, expected[:-1], rtol=1e-6)
    np.testing.assert_array_equal(episode.handed, episode.observations)
    np.testing.assert_allclose(episode.last_observation, expected[-1], rtol=1e-6)
    np.testing.assert_allclose(episode.rewards, expected[1:, 1], rtol=1e-6)
    assert episode.terminated is terminates


def test_a_prior_that_writes_into_what_it_is_given_harms_nobody():
    def vandal(observation):
        observation[:] = 7.0
        return [0.0]

    player = teacher(vandal)
    episode = player.play(seed=0, most_steps=1000)
    player.advice(episode.handed)
    assert [handed[0] for handed in episode.handed] == [0, 1, 2, 3, 4]


def test_what_is_handed_is_the_prior_input_and_what_is_kept_is_observed():
    player = teacher(lambda minus: minus, observe=lambda obs: 2 * obs, prior_input="minus")
    episode = player.play(seed=0, most_steps=1000)
    assert [handed.tolist() for handed in episode.handed] == [[0], [-1], [-2], [-3], [-4]]
    assert [observation[0] for observation in episode.observations] == [0, 2, 4, 6, 8]
    assert episode.rewards == [0, -1, -2, -2, -2]
    assert [advice.tolist() for advice in player.advice(episode.handed)] == [[0], [-1], [-2], [-2], [-2]]


def test_a_prior_input_that_is_nowhere_is_named_at_once():
    with pytest.raises(ValueError, match=r"got 'qpos'; info has \['minus'\]"):
        teacher(constant(0.0), prior_input="qpos")


class Counting:
    """Pushes harder at every call of an episode."""

    calls = 0

    def __call__(self, observation):
        self.calls += 1
        return [0.3 * self.calls]

    def reset(self):
        self.calls = 0


def test_the_advice_of_an_episode_is_what_was_said_while_it_was_played():
    episode = teacher(Counting()).play(seed=0, most_steps=1000)
    np.testing.assert_allclose(np.ravel(episode.advice), 0.3 * np.arange(1, 6), rtol=1e-6)
    np.testing.assert_allclose(np.ravel(episode.advice), episode.rewards, rtol=1e-6)


def test_advice_on_anothers_episode_is_asked_for_in_order_from_a_first_state_on():
    player = teacher(Counting())
    player.play(seed=0, most_steps=1000)
    for _ in range(2):
        np.testing.assert_allclose(np.ravel(player.advice([np.zeros(2)] * 3)), [0.3, 0.6, 0.9], rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "keeps_state"),
    [(Counting(), True), (lambda obs: [0.1 * obs[0]], False), (lambda obs: [np.nan if obs[0] else 1.0], False)],
)
def test_who_answers_otherwise_when_asked_about_a_state_alone_keeps_state(policy, keeps_state):
    player = teacher(policy)
    assert player.keeps_state(player.play(seed=0, most_steps=1000)) == keeps_state


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (constant(0.9), r"its network cannot tell apart .*, or clone_steps are too few\.$"),
        (Counting(), r"the teacher answers differently when asked about the same state alone, .*TimeAwareObservation"),
    ],
)
def test_a_clone_that_falls_short_is_told_why(policy, why):
    """Both teachers return 4.5 and random actions here -7.5, so half way is -1.5."""
    teachers = {name: teacher(policy) for name, policy in {CHANCE: constant(-1.5), "prior": policy}.items()}
    found = audition(teachers, 10_000, np.random.default_rng(0))
    assert (found.teacher, found.mean_return(CHANCE), round(found.mean_return("prior"), 5)) == ("prior", -7.5, 4.5)
    before = found.verdict
    assert before.shortfall == found.verdict_on_copy(teachers, -1.4).shortfall == ""
    verdict = found.verdict_on_copy(teachers, -1.6)
    said = verdict.shortfall
    assert str(verdict) == str(found.verdict) == f"{before} {said}"
    assert Verdict(**json.loads(json.dumps(asdict(verdict)))) == verdict
    assert said.startswith("The clone returns -1.6, less than half way from random actions (-7.5) to its teacher (4.5): ")
    assert re.search(why, said)


def test_a_clone_is_not_measured_by_episodes_that_the_audition_cut():
    """Whole episodes have 5 steps; these have 1."""
    teachers = {name: teacher(constant(value)) for name, value in {CHANCE: -1.5, "prior": 0.9}.items()}
    verdict = audition(teachers, 7, np.random.default_rng(0)).verdict_on_copy(teachers, -100.0)
    assert (verdict.cut_after, verdict.falls_short) == (1, False)
    assert ", cut after 1 steps)" in str(verdict)


def test_where_nobody_teaches_no_clone_falls_short():
    teachers = {name: teacher(policy) for name, policy in {CHANCE: constant(1.0), "prior": constant(-1.0)}.items()}
    assert audition(teachers, 10_000, np.random.default_rng(0)).verdict_on_copy(teachers, -100.0).shortfall == ""


@pytest.mark.parametrize("terminated", [True, False])
def test_returns_are_the_discounted_sum_and_go_on_where_time_cut_them_off(terminated):
    rewards, gamma, scale, last_value = [1.0, -2.0, 3.0, 0.5], 0.9, 0.25, 7.0
    episode = Episode(rewards=rewards)
    episode.end(np.zeros(2), terminated, truncated=not terminated)
    future = 0.0 if terminated else last_value
    direct = [
        sum(gamma**k * scale * reward for k, reward in enumerate(rewards[t:])) + gamma ** (len(rewards) - t) * future
        for t in range(len(rewards))
    ]
    np.testing.assert_allclose(episode.returns(gamma, scale, last_value), direct, rtol=1e-6)
