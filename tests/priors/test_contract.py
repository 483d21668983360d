"""What the answers of a prior mean, what may be a prior, and that its state lives for an episode."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from llmwrappers import LLMActionMask
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.containment.program import Program
from llmwrappers.priors import load_prior
from llmwrappers.priors.contract import PriorObject, allowed_actions, begin_episode, fault_text, native_action

LOW, HIGH = np.float32([-2.0, -1.0]), np.float32([2.0, 3.0])


class TestNativeAction:
    @pytest.mark.parametrize(
        "answer",
        [
            [0.5, -0.5],
            (0.5, -0.5),
            [np.float32(0.5), np.array(-0.5)],
            np.array([0.5, -0.5], np.float16),
            np.array([[0.5, -0.5]]),
            np.array([[0.5], [-0.5]]),
        ],
        ids=repr,
    )
    def test_numbers_in_any_form_of_the_shape(self, answer):
        action = native_action(answer, LOW, HIGH)
        assert (action.dtype, action.shape, action.tolist()) == (np.float64, (2,), [0.5, -0.5])

    @pytest.mark.parametrize("shape", [(1,), (), (1, 1)])
    @pytest.mark.parametrize("answer", [1, 1.0, True, np.int8(1), np.array(1.0), [1], [[1.0]]], ids=repr)
    def test_a_number_is_an_action_of_one_number(self, answer, shape):
        action = native_action(answer, np.full(shape, -2.0), np.full(shape, 2.0))
        assert (action.shape, action.item()) == (shape, 1.0)

    def test_it_is_clipped_before_it_is_cast(self):
        assert native_action([9.0, -1e300], LOW, HIGH).tolist() == [2.0, -1.0]
        assert native_action(np.array([-(10**12), 10**12]), LOW, HIGH).tolist() == [-2.0, 3.0]

    def test_what_was_answered_stays_as_it_is(self):
        answer = np.array([9.0, 0.0])
        action = native_action(answer, LOW, HIGH)
        action[:] = 7.0
        assert answer.tolist() == [9.0, 0.0]

    @pytest.mark.parametrize(
        ("answer", "error", "message"),
        [
            # what the predict of Stable-Baselines3 returns
            (
                (np.zeros(2), None),
                ValueError,
                r"returned \(array\(.*None\); .*\(2,\); if your policy returns an \(action, state\) pair",
            ),
            (0.5, ValueError, r"returned shape \(\), the action space has \(2,\)"),
            ([0.5], ValueError, r"returned shape \(1,\), the action space has \(2,\)"),
            ([0.5, 0.5, 0.5], ValueError, r"returned shape \(3,\)"),
            (np.zeros((2, 2)), ValueError, r"returned shape \(2, 2\)"),
            ([], ValueError, r"returned shape \(0,\)"),
            ([0.5, np.nan], ValueError, r"returned \[0\.5 nan\]"),
            ([-np.inf, 0.5], ValueError, r"returned \[-inf  0\.5\]"),
            ([[1.0], [1.0, 2.0]], ValueError, "inhomogeneous"),
            (None, TypeError, "returned None; the action space takes numbers"),
            ({0.5, 1.0}, TypeError, r"returned \{.*\}; the action space takes numbers of shape \(2,\)"),
            ({"x": 0.5}, TypeError, "the action space takes numbers"),
            ([0.5, 1j], TypeError, "complex"),
            ("left", TypeError, "left"),
        ],
        ids=repr,
    )
    def test_what_is_no_action(self, answer, error, message):
        with pytest.raises(error, match=message):
            native_action(answer, LOW, HIGH)

    def test_a_matrix_is_not_turned(self):
        low, high = np.full((2, 3), -1.0), np.full((2, 3), 1.0)
        assert native_action(np.ones((2, 3)), low, high).shape == (2, 3)
        with pytest.raises(ValueError, match=r"returned shape \(3, 2\), the action space has \(2, 3\)"):
            native_action(np.ones((3, 2)), low, high)


class TestAllowedActions:
    @pytest.mark.parametrize("start", [0, 1, -3])
    @pytest.mark.parametrize("form", [int, float, np.int64, np.uint8, np.float32, np.array, lambda n: [n], lambda n: {n}])
    def test_one_action(self, form, start):
        if start >= 0 or form is not np.uint8:
            mask = allowed_actions(form(start + 2), Discrete(4, start=start))
            assert (mask.dtype, mask.tolist()) == (np.int8, [0, 0, 1, 0])

    @pytest.mark.parametrize(("answer", "mask"), [(False, [1, 0]), (True, [0, 1]), (np.True_, [0, 1])])
    def test_a_truth_value_is_action_0_or_1(self, answer, mask):
        assert allowed_actions(answer, Discrete(2)).tolist() == mask

    @pytest.mark.parametrize("answer", [{1, 3}, frozenset({1, 3}), {1.0, 3.0}, {np.int64(1), np.int64(3)}], ids=repr)
    def test_a_set_of_actions(self, answer):
        assert allowed_actions(answer, Discrete(3, start=1)).tolist() == [1, 0, 1]

    @pytest.mark.parametrize("start", [0, 1])
    @pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8, np.float16, np.float64])
    @pytest.mark.parametrize("form", [np.array, lambda values, dtype: np.array(values, dtype).tolist()], ids=["array", "list"])
    def test_a_vector_of_truth_values_of_any_type(self, form, dtype, start):
        mask = allowed_actions(form([1, 0, 1], dtype), Discrete(3, start=start))
        assert (mask.dtype, mask.tolist()) == (np.int8, [1, 0, 1])

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (0, r"answered with action 0, which is not in Discrete\(3, start=1\)"),
            (4, "action 4, which is not in"),
            (1.5, r"action 1\.5, which is not in"),
            (np.nan, "action nan, which is not in"),
            (np.inf, "action inf, which is not in"),
            ({1, 4}, "action 4, which is not in"),
            ({"left"}, "a set of actions, or a vector of 3 truth values"),
            (set(), "allowed no action at all"),
            (frozenset(), "allowed no action at all"),
            ([0, 0, 0], "allowed no action at all"),
            (np.zeros(3, bool), "allowed no action at all"),
            ([1, 0, 2], "must be an action of Discrete"),
            ([0.5, 0.0, 1.0], "must be an action of Discrete"),
            ([1, 3], "must be an action of Discrete"),
            ([1, 0, 1, 0], "must be an action of Discrete"),
            (np.ones((3, 1)), "must be an action of Discrete"),
            ([], "must be an action of Discrete"),
            (None, "returned None; it must be an action of Discrete"),
            ("2", "returned '2'; it must be an action of Discrete"),
            ({"action": 2}, "must be an action of Discrete"),
            ((2, None), r"returned \(2, None\), .*an \(action, state\) pair, return only the action"),
        ],
        ids=repr,
    )
    def test_what_allows_nothing(self, answer, message):
        with pytest.raises(ValueError, match=message):
            allowed_actions(answer, Discrete(3, start=1))

    def test_an_action_and_a_state_are_not_the_truth_values_of_two_actions(self):
        with pytest.raises(ValueError, match=r"returned \(1, 0\), .*return only the action"):
            allowed_actions((1, 0), Discrete(2))
        assert allowed_actions((True, False), Discrete(2)).tolist() == allowed_actions([1, 0], Discrete(2)).tolist() == [1, 0]


class Acting:
    """Counts."""

    def __init__(self):
        self.n = 0

    def act(self, observation):
        self.n += 1
        return [self.n, observation]


class Calling(Acting):
    """Counts by calls, and is not to be asked with ``act``, which is for something else."""

    act = None  # type: ignore[assignment]

    def __call__(self, observation):
        return Acting.act(self, observation)


class Resetting(Acting):
    """Counts, and knows how often it was made."""

    made = 0

    def __init__(self):
        Resetting.made += 1
        self.reset()

    def reset(self):
        self.n = 0


class TestPriorObject:
    def test_a_class_that_cannot_act_is_refused(self):
        with pytest.raises(TypeError, match=r"a class with act\(obs\), got <class .*Silent'> of type type$"):
            PriorObject(type("Silent", (), {}))

    def test_act_is_asked_also_where_the_object_can_be_called(self):
        class Network(torch.nn.Module):
            def forward(self, obs):
                return obs

            def act(self, obs):
                return 2 * obs

        assert PriorObject(Network)(1.5) == load_prior(Network())(1.5) == 3.0

    @pytest.mark.parametrize("cls", [Acting, Calling, Resetting])
    def test_a_class_begins_anew_at_every_episode(self, cls):
        prior = PriorObject(cls)
        for _ in range(2):
            begin_episode(prior)
            assert [prior("o"), prior("p")] == [[1, "o"], [2, "p"]]

    def test_a_partial_class_is_a_class_and_its_missing_arguments_are_named(self):
        class Gained(Acting):
            def __init__(self, gain, /, offset=0):
                super().__init__()
                self.n = gain

        prior = load_prior(functools.partial(Gained, 4))
        for _ in range(2):
            begin_episode(prior)
            assert [prior("o"), prior("p")] == [[5, "o"], [6, "p"]]
        with pytest.raises(TypeError, match=r"Gained'> needs arguments, \(gain, /, offset=0\); .* functools\.partial"):
            load_prior(Gained)

    def test_a_reset_is_called_in_place_of_another_object(self):
        prior, made = PriorObject(Resetting), Resetting.made
        for _ in range(3):
            begin_episode(prior)
        assert Resetting.made == made

    def test_an_object_is_asked_itself(self):
        counter = Resetting()
        prior = PriorObject(counter)
        assert [prior(0)[0], prior(0)[0], counter.n] == [1, 2, 2]
        begin_episode(prior)
        assert counter.n == 0

    def test_an_object_without_reset_goes_on(self):
        prior = PriorObject(Acting())
        prior(0)
        begin_episode(prior)
        assert prior(0)[0] == 2

    def test_its_name_is_that_of_what_it_plays(self):
        assert repr(PriorObject(Acting)) == f"PriorObject({Acting!r})"


COUNTERS = {
    "globals": "n = 0\ndef policy(obs):\n    global n\n    n += 1\n    return [n]\n",
    "reset of the module": "n = [0]\ndef reset(seed=None):\n    n[0] = 0\ndef policy(obs):\n    n[0] += 1\n    return n\n",
    "class": "class Policy:\n  n = 0\n  def __call__(self, obs):\n    self.n += 1\n    return [self.n]\n",
    "reset of the class": (
        "class Policy:\n  def reset(self):\n    self.n = 0\n  def act(self, obs):\n    self.n += 1\n    return [self.n]\n"
    ),
}


class TestBeginEpisode:
    def test_a_function_may_have_none(self):
        begin_episode(lambda observation: observation)

    def test_of_a_method_its_object_begins_one(self):
        class Counter:
            n = 0

            def act(self, observation):
                self.n += 1
                return [self.n]

            def reset(self):
                self.n = 0

        act = Counter().act
        for _ in range(2):
            begin_episode(act)
            assert act(None) == [1]

    def test_also_of_a_partial_one(self):
        controller = Resetting()
        prior = functools.partial(functools.partial(controller.act), observation=0)
        assert prior() == [1, 0]
        begin_episode(prior)
        assert prior() == [1, 0]

    def test_of_an_environments_method_none_is_begun(self):
        class Solved(gym.Env):
            def act(self, observation):
                return [1.0]

            def reset(self, *, seed=None, options=None):
                raise AssertionError("resets the environment within its own reset")

        begin_episode(Solved().act)

    def test_a_reset_that_needs_arguments_has_another_purpose(self):
        class Targeted:
            def act(self, observation):
                return [1.0]

            def reset(self, target):
                raise AssertionError

        begin_episode(Targeted())
        begin_episode(PriorObject(Targeted()))

    def test_a_compiled_reset_that_does_not_tell_its_arguments_is_called(self):
        class Compiled:
            def __init__(self):
                self.state = {"phase": 0.3}
                self.reset = self.state.clear  # inspect cannot read it in every Python

            def act(self, observation):
                return [1.0]

        compiled = Compiled()
        begin_episode(compiled)
        assert not compiled.state

    def test_what_is_called_reset_and_is_no_function_is_left_alone(self):
        def policy(observation):
            return observation

        policy.reset = "no function"
        begin_episode(policy)

    @pytest.mark.parametrize("play", [Program, ContainedPolicy])
    @pytest.mark.parametrize("source", COUNTERS.values(), ids=COUNTERS)
    def test_code_begins_anew(self, play, source):
        policy = play(source)
        for _ in range(2):
            begin_episode(policy)
            assert [float(policy(np.zeros(1))[0]) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("part", ["env", "simulator", "outermost"])
def test_the_copy_of_a_controller_reads_the_environment_that_is_played(part):
    class Simulated(gym.Env):
        observation_space, action_space = Box(-1, 1, (1,)), Box(-9, 9, (1,))
        simulator: dict

        def __init__(self):
            self.simulator = {"time": 0.0}

        def reset(self, *, seed=None, options=None):
            self.simulator["time"] = 0.0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.simulator["time"] += 1.0
            return np.zeros(1, np.float32), 0.0, False, False, {}

    class Expert:
        count = 0

        def reset(self):
            self.count = 0

        def act(self, observation):
            self.count += 1
            seen = self.sees if isinstance(self.sees, dict) else self.sees.unwrapped.simulator
            return [seen["time"]]

    env = gym.wrappers.TimeLimit(Simulated(), 10)
    expert = Expert()
    expert.sees = {"env": env.unwrapped, "simulator": env.unwrapped.simulator, "outermost": env}[part]
    masked = LLMActionMask(env, expert, radius=0.0001)
    masked.reset(seed=0)
    executed = [masked.step(np.zeros(1, np.float32))[4]["executed_action"].item() for _ in range(3)]
    assert executed == pytest.approx([0.0, 1.0, 2.0], abs=0.01)
    assert expert.count == 0  # the state is the copy's


def test_a_fault_names_the_line_of_code():
    source = "def policy(obs):\n    scale = obs[0]\n    return 1 / int(scale)\n"
    for play in (Program, ContainedPolicy):
        policy = play(source)
        with pytest.raises(Exception, match="division by zero") as caught:
            policy(np.zeros(1))
        assert fault_text(caught.value, policy) == "line 3: ZeroDivisionError: division by zero"
    assert fault_text(ValueError("no"), lambda observation: None) == "ValueError: no"
