"""CriticalStateRewarder: both forms of the reward, and that the potential form cannot change which policy is best."""

import math

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.spaces import Box, Discrete

from llmwrappers import CriticalStateRewarder, CriticalStates, LLMActionMask

# Echo observes (step, last action); Turns observes step / 5.
AT_1_AND_3 = CriticalStates(
    [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]],
    actions=[[0.5, -0.5], [1.0, 0.25]],
    rewards=[1.0, -0.5],
    scale=[1.0, 100.0, 100.0],
    tolerance=0.1,
)
TURNS_AT_2 = CriticalStates([[0.4]], actions=[3], rewards=[0.5], scale=[1.0], tolerance=0.01)


class Walk(gym.Env):
    """Observes the step; ends after n steps as it is told, with reward 1 a step."""

    def __init__(self, steps=3, terminates=True):
        self.action_space, self.observation_space = Discrete(2), Box(0, 100, (1,), np.float64)
        self.steps, self.terminates, self.info = steps, terminates, {"mine": 1}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.0]), self.info

    def step(self, action):
        self.t += 1
        ended = self.t >= self.steps
        return np.array([float(self.t)]), 1, ended and self.terminates, ended and not self.terminates, self.info


def told(rewards):
    """Guidance in every state whose number is a key."""
    return lambda observation: (0, rewards[observation[0]]) if observation[0] in rewards else None


def played(env, steps, action=0):
    env.reset(seed=0)
    return [env.step(action) for _ in range(steps)]


class TestPaper:
    def test_the_reward_is_that_of_the_state_acted_in(self):
        steps = played(CriticalStateRewarder(Walk(), told({0: 1.0, 2: -0.5, 3: 1.0}), alpha=0.5), 3)
        assert [reward for _, reward, *_ in steps] == [1.5, 1.0, 0.75]
        assert [info["llm_reward"] for *_, info in steps] == [0.5, 0.0, -0.25]
        assert [info["critical"] for *_, info in steps] == [True, False, True]

    @pytest.mark.parametrize(("alpha", "bonus"), [(0, 0), (0.1, 0.1), (3, 3)])
    def test_alpha_weighs_it(self, alpha, bonus):
        ((_, reward, _, _, info),) = played(CriticalStateRewarder(Walk(), told({0: 1}), alpha=alpha), 1)
        assert (reward, info["llm_reward"]) == (1 + bonus, bonus)

    def test_the_reward_is_a_float_of_pythons_own(self):
        steps = played(CriticalStateRewarder(Walk(), told({0: np.float64(1)})), 3)
        assert {type(reward) for _, reward, *_ in steps} == {float}

    @pytest.mark.parametrize("reward", [1.5, -2, np.nan, None, "much", np.array([0.5, 0.1])])
    def test_another_reward_is_an_error(self, reward):
        with pytest.raises(ValueError, match=r"the suggested reward must be a number in \[-1, 1\]"):
            played(CriticalStateRewarder(Walk(), told({0: reward})), 1)

    def test_an_array_of_one_number_is_a_reward(self):
        steps = played(CriticalStateRewarder(Walk(), told({0: np.array([1.0])}), alpha=0.5), 1)
        assert steps[0][1] == 1.5

    def test_the_info_received_is_not_changed(self):
        env = CriticalStateRewarder(Walk(), told({0: 1.0}))
        assert played(env, 2)[0][4]["mine"] == 1
        assert env.unwrapped.info == {"mine": 1}

    @pytest.mark.parametrize("shaping", ["paper", "potential"])
    def test_a_table_serves_box_and_discrete(self, shaping):
        arguments = {"alpha": 0.5, "shaping": shaping, "gamma": 0.5}
        box = played(CriticalStateRewarder(Echo(), AT_1_AND_3, **arguments), 5, np.zeros(2, np.float32))
        discrete = played(CriticalStateRewarder(Turns(), TURNS_AT_2, **arguments), 5)
        expected = {
            "paper": ([0, 0.5, 0, -0.25, 0], [0, 0, 0.25, 0, 0]),
            "potential": ([0.25, -0.5, -0.125, 0.25, 0], [0, 0.125, -0.25, 0, 0]),
        }
        assert ([info["llm_reward"] for *_, info in box], [info["llm_reward"] for *_, info in discrete]) == expected[shaping]


def test_a_disabled_entry_gives_no_reward():
    env = CriticalStateRewarder(Echo(), AT_1_AND_3, alpha=0.5)
    action = np.zeros(2, np.float32)
    assert [info["critical_entry"] for *_, info in played(env, 5, action)] == [-1, 0, -1, 1, -1]
    env.disabled = {0}
    steps = played(env, 5, action)
    assert [info["llm_reward"] for *_, info in steps] == [0, 0, 0, -0.25, 0]
    assert [(info["critical"], info["critical_entry"]) for *_, info in steps] == [(False, -1)] * 3 + [(True, 1), (False, -1)]


PHI = {0: 0.5, 1: -1.0, 2: 0.25, 3: 1.0}


class TestPotential:
    @pytest.mark.parametrize("terminates", [True, False])
    def test_what_it_adds_to_the_return_is_known_whatever_happens_between(self, terminates):
        """The discounted sum telescopes: -Phi(first) if the episode terminates, + gamma^T Phi(last) if it is truncated."""
        gamma, alpha = 0.9, 0.5
        env = CriticalStateRewarder(Walk(terminates=terminates), told(PHI), alpha, "potential", gamma)
        added = sum(gamma**t * info["llm_reward"] for t, (*_, info) in enumerate(played(env, 3)))
        assert added == pytest.approx(-alpha * 0.5 + (0 if terminates else gamma**3 * alpha * 1.0))

    def test_each_step_is_the_difference_of_potentials(self):
        env = CriticalStateRewarder(Walk(), told(PHI), alpha=1.0, shaping="potential", gamma=0.5)
        steps = played(env, 3)
        assert [info["llm_reward"] for *_, info in steps] == [0.5 * -1 - 0.5, 0.5 * 0.25 + 1, -0.25]
        assert [reward for _, reward, *_ in steps] == [1 + info["llm_reward"] for *_, info in steps]
        assert all(info["critical"] for *_, info in steps)

    def test_it_may_be_added_where_the_state_acted_in_is_not_critical(self):
        first, second, _ = played(CriticalStateRewarder(Walk(), told({1: 1.0}), 1.0, "potential", 0.5), 3)
        assert (first[4]["llm_reward"], first[4]["critical"]) == (0.5, False)
        assert (second[4]["llm_reward"], second[4]["critical"]) == (-1, True)


class Chain(gym.Env):
    """Left or right from 2 of 0..4, one unit a step; the right end pays 1, the left 0.2; both end the episode."""

    def __init__(self):
        self.action_space, self.observation_space = Discrete(2), Box(0, 4, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = (options or {}).get("x", 2)
        return np.array([float(self.x)]), {}

    def step(self, action):
        self.x += 2 * action - 1
        return np.array([float(self.x)]), {0: 0.2, 4: 1.0}.get(self.x, 0.0), self.x in (0, 4), False, {}


def best_actions(shaping, misleading, gamma=0.9):
    """Q-iteration on the shaped rewards of the chain."""
    env = CriticalStateRewarder(Chain(), told(misleading), alpha=1.0, shaping=shaping, gamma=gamma)
    values = np.zeros((5, 2))
    for _ in range(200):
        for x in (1, 2, 3):
            for action in (0, 1):
                env.reset(options={"x": x})
                observation, reward, terminated, *_ = env.step(action)
                values[x, action] = reward + (0 if terminated else gamma * values[int(observation[0])].max())
    return values[1:4].argmax(axis=1).tolist()


def test_the_paper_form_can_change_the_best_policy_and_the_potential_form_cannot():
    assert best_actions("paper", {}) == [1, 1, 1]
    misleading = {1: 1.0, 2: 0.5, 3: -1.0}  # praises the way to the poor end
    assert best_actions("paper", misleading) != [1, 1, 1]
    assert best_actions("potential", misleading) == [1, 1, 1]


class TestPatience:
    def test_it_fails_where_nothing_was_critical(self):
        env = CriticalStateRewarder(Walk(steps=100), told({}), patience_steps=3)
        played(env, 3)
        with pytest.raises(RuntimeError, match="first 3 steps under a function"):
            env.step(0)

    def test_hits_are_counted_over_episodes(self):
        env = CriticalStateRewarder(Walk(), told({1: 0.0, 3: 1.0}), patience_steps=2)
        for _ in range(4):
            played(env, 3)
        assert (env.hit_count, env.step_count) == (4, 12)


def test_it_works_below_and_above_a_mask():
    action = np.zeros(2, np.float32)
    for env in (
        LLMActionMask(CriticalStateRewarder(Echo(), AT_1_AND_3), lambda observation: [0.0, 0.0]),
        CriticalStateRewarder(LLMActionMask(Echo(), lambda observation: [0.0, 0.0]), AT_1_AND_3),
    ):
        assert [info["llm_reward"] for *_, info in played(env, 5, action)] == [0, 0.1, 0, -0.05, 0]
        assert all("executed_action" in info for *_, info in played(env, 5, action))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("alpha", -0.1), ("alpha", math.nan), ("alpha", math.inf), ("gamma", 1.1), ("gamma", -0.1), ("gamma", math.nan),
        ("shaping", "none"), ("patience_steps", -1),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(argument, value):
    with pytest.raises(ValueError, match=rf"{argument} must .*got '?{value}"):
        CriticalStateRewarder(Walk(), told({}), **{argument: value})
