"""LLMActionMask, seen from outside, from the environment below it and from the prior."""

import functools
import pickle
import re
import threading

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import InvalidBound, InvalidProbability
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.spaces import Dict as DictSpace
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import RescaleAction, TransformAction, TransformObservation

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, interval_around, to_native

SPACES = {
    "symmetric": Box(-1.0, 1.0, (2,), np.float32),
    "asymmetric": Box(np.array([-2.0, 0.0], np.float32), np.array([6.0, 0.1], np.float32)),
    "matrix": Box(-3.0, 5.0, (2, 3), np.float32),
    "scalar": Box(-2.0, 1.0, (), np.float32),
    "float64": Box(-2.0, 1.0, (2,), np.float64),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
every_mapping = pytest.mark.parametrize("mapping", ["rescale", "clip"])


class Recorder(gym.Env):
    """Keeps what it receives; observes what it is given, at first the number of the step."""

    def __init__(self, action_space, observation=None):
        self.action_space = action_space
        self.observation_space = Box(-np.inf, np.inf, (1,), np.float64)
        self.observation = observation
        self.received = []

    def _observe(self):
        return np.array([float(len(self.received))]) if self.observation is None else self.observation

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        self.received.append(action)
        return self._observe(), 0.0, False, False, {}


class Prior:
    """Returns what it is told to, an exception by raising it, and counts its calls."""

    def __init__(self, *answers):
        self.answers = answers
        self.calls = 0

    def __call__(self, observation):
        answer = self.answers[self.calls % len(self.answers)]
        self.calls += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def wandering(space):
    """A prior whose centre moves with the observation, at times outside the space."""
    return lambda observation: np.full(space.shape, 2.0 * np.sin(observation.sum()), dtype=np.float64)


def echo(steps=1_000_000, **kwargs):
    return gym.make("llmwrappers-tests/Echo-v0", steps=steps, **kwargs)


def run_gates(env, steps, **reset):
    """Returns mask_active of the reset and of the steps after it."""
    _, info = env.reset(**reset)
    infos = [info, *(env.step(np.zeros(2, np.float32))[4] for _ in range(steps))]
    return [bool(info["mask_active"]) for info in infos]


class TestMapping:
    @every_space
    @every_mapping
    @pytest.mark.parametrize("epsilon", [0.5, 1.0])
    def test_the_environment_receives_the_action_mapped_into_the_bounds_published_before(self, space, mapping, epsilon):
        env = Recorder(space)
        masked = LLMActionMask(env, wandering(space), radius=0.4, mapping=mapping, mask_epsilon=epsilon)
        assert masked.action_space == Box(-1.0, 1.0, space.shape, space.dtype.type)
        observation, info = masked.reset(seed=3)
        rng = np.random.default_rng(0)
        for _ in range(20):
            low, high = info["action_low"], info["action_high"]
            if info["mask_active"]:
                expected = interval_around(wandering(space)(observation), 0.2 * (space.high - space.low), space.low, space.high)
            else:
                expected = space.low, space.high
            np.testing.assert_allclose((low, high), expected, rtol=1e-6, atol=1e-6)
            x = rng.uniform(-1.5, 1.5, space.shape).astype(space.dtype)
            observation, _, _, _, info = masked.step(x)
            executed = info["executed_action"]
            if mapping == "rescale":
                expected = to_native(np.clip(x, -1, 1), low, high)
            else:
                expected = np.clip(to_native(np.clip(x, -1, 1), space.low, space.high), low, high)
            np.testing.assert_allclose(executed, expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(executed, env.received[-1])
            assert np.all(low <= executed)
            assert np.all(executed <= high)

    @every_space
    def test_arrays_have_the_dtype_and_the_shape_of_the_action_space(self, space):
        env = Recorder(space)
        masked = LLMActionMask(env, wandering(space))
        _, info = masked.reset(seed=0)
        _, _, _, _, after = masked.step(masked.action_space.sample())
        arrays = [info["action_low"], info["action_high"], after["executed_action"], env.received[0]]
        assert all(isinstance(array, np.ndarray) for array in arrays), [type(array) for array in arrays]
        assert {(array.dtype, array.shape) for array in arrays} == {(space.dtype, space.shape)}

    @pytest.mark.parametrize(("mapping", "executed"), [("rescale", [2.75, 0.0]), ("clip", [2.5, 0.0])])
    def test_rescale_spans_the_interval_and_clip_the_space(self, mapping, executed):
        env = Recorder(Box(np.float32([-2.0, -1.0]), np.float32([6.0, 1.0])))
        masked = LLMActionMask(env, Prior([2.5, 0.0]), radius=0.125, mapping=mapping)
        _, info = masked.reset()
        assert (info["action_low"].tolist(), info["action_high"].tolist()) == ([2.0, -0.125], [3.0, 0.125])
        x = np.array([0.5, 0.0] if mapping == "rescale" else [0.125, 0.0], np.float32)
        assert masked.step(x)[4]["executed_action"].tolist() == executed

    @pytest.mark.parametrize(("x", "executed"), [(7.0, 1.0), (-7.0, 0.0), (np.inf, 1.0), (-np.inf, 0.0)])
    @every_mapping
    def test_x_outside_its_box_is_clipped(self, x, executed, mapping):
        masked = LLMActionMask(Recorder(Box(-2.0, 2.0, (1,))), Prior([0.5]), radius=0.25, mapping=mapping)
        masked.reset()
        assert masked.step(np.array([x], np.float32))[4]["executed_action"] == executed

    @every_mapping
    @pytest.mark.parametrize("off", [{"radius": 2.0}, {"mask_epsilon": 0.0}])
    @pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-2.0, 6.0)])
    def test_radius_2_or_epsilon_0_equals_rescale_action(self, off, mapping, low, high):
        masked = LLMActionMask(echo(low=low, high=high), lambda obs: 9 * np.sin(obs[1:]), mapping=mapping, **off)
        rescaled = RescaleAction(echo(low=low, high=high), np.float32(-1), np.float32(1))
        observations = [env.reset(seed=5)[0] for env in (masked, rescaled)]
        np.testing.assert_array_equal(*observations)
        for x in np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32):
            ours, theirs = masked.step(x), rescaled.step(x)
            assert (ours[4]["action_low"] == low).all()
            assert (ours[4]["action_high"] == high).all()
            np.testing.assert_allclose(ours[4]["received"], theirs[4]["received"], rtol=1e-6, atol=1e-6)
            if high == 1:
                np.testing.assert_array_equal(ours[4]["received"], x)
                np.testing.assert_array_equal(ours[0], theirs[0])
                assert ours[1:4] == theirs[1:4]

    def test_an_action_of_another_shape_is_refused(self):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)))
        masked.reset()
        with pytest.raises(ValueError, match=r"action must have shape \(2,\), got \(1, 2\)"):
            masked.step(np.zeros((1, 2), np.float32))

    @every_space
    @every_mapping
    def test_nan_never_reaches_the_environment(self, space, mapping):
        env = Recorder(space)
        masked = LLMActionMask(env, Prior(np.zeros(space.shape)), mapping=mapping)
        masked.reset()
        action = np.zeros(space.shape, space.dtype)
        action.flat[-1] = np.nan
        with pytest.raises(ValueError, match="action must hold no NaN, got"):
            masked.step(action)
        assert not env.received

    @pytest.mark.parametrize("answer", [0.5, np.float32(0.5), [0.5], np.array(0.5), [[0.5]]])
    def test_a_number_is_an_action_of_one_number(self, answer):
        masked = LLMActionMask(Recorder(Box(-2.0, 2.0, (1,))), Prior(answer), radius=0.25)
        _, info = masked.reset()
        assert (info["action_low"].tolist(), info["action_high"].tolist(), info["prior_faults"]) == ([0.0], [1.0], 0)

    def test_bounds_is_the_hook_for_another_rule(self):
        class UpperHalf(LLMActionMask):
            def bounds(self, observation):
                return np.zeros(2, np.float32), np.ones(2, np.float32)

        masked = UpperHalf(echo(), Prior(np.zeros(2)))
        masked.reset()
        assert masked.step(np.array([-1.0, 0.0], np.float32))[4]["executed_action"].tolist() == [0.0, 0.5]

    def test_another_rule_is_kept_in_the_space(self):
        class Wide(LLMActionMask):
            def bounds(self, observation):
                return [-100.0, 0.5], [0.0, 100.0]

        _, info = Wide(echo(), Prior(None)).reset()
        for key, expected in (("action_low", [-1.0, 0.5]), ("action_high", [0.0, 1.0])):
            assert (info[key].dtype, info[key].tolist()) == (np.float32, expected)

    @pytest.mark.parametrize(
        "answer",
        [
            ([np.nan, 0.0], [1.0, 1.0]),
            ([0.5, 0.0], [0.0, 1.0]),
            ([2.0, 0.0], [3.0, 1.0]),
            ([0.0], [1.0, 1.0]),
            None,
            (0.0, 1.0),
        ],
        ids=repr,
    )
    def test_what_is_no_interval_in_the_space_is_a_fault_of_another_rule(self, answer):
        class Rule(LLMActionMask):
            def bounds(self, observation):
                return answer

        masked = Rule(echo(), Prior(None))
        with pytest.warns(UserWarning, match="the prior failed"):
            _, info = masked.reset()
        assert (info["mask_active"], info["prior_faults"]) == (False, 1)
        assert (info["action_low"].tolist(), info["action_high"].tolist()) == ([-1.0, -1.0], [1.0, 1.0])


class TestWarnings:
    @pytest.mark.parametrize(
        "change",
        [
            gym.wrappers.NormalizeObservation,
            lambda env: gym.wrappers.RescaleObservation(env, env.observation_space.low, env.observation_space.high),
            lambda env: gym.wrappers.TimeLimit(gym.wrappers.FrameStackObservation(env, 3), 10),
        ],
        ids=["NormalizeObservation", "RescaleObservation", "FrameStackObservation"],
    )
    def test_observations_that_a_prior_was_not_written_for(self, change, request):
        name = request.node.callspec.id
        with pytest.warns(UserWarning, match=f"{name} lies below LLMActionMask, .* Put it around the mask"):
            LLMActionMask(change(gym.make("Pendulum-v1")), lambda obs: [0.0])
        around = change(LLMActionMask(gym.make("Pendulum-v1"), lambda obs: [0.0]))  # and here it does not warn
        LLMActionMask(change(pendulum()), lambda state: [0.0], prior_input="simulator")
        assert around.reset(seed=0)[1]["mask_active"]

    def test_actions_that_would_be_rescaled(self):
        rescaled = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
        with pytest.warns(UserWarning, match="RescaleAction lies below LLMActionMask, .* Leave it out: the mask itself"):
            LLMActionMask(rescaled, lambda obs: [1.5])

    @pytest.mark.parametrize(
        "made",
        [
            lambda: gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1")),
            lambda: RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1)),
        ],
    )
    def test_none_of_wrappers_that_are_part_of_a_registered_environment(self, made):
        env = gym.make(gym.envs.registration.EnvSpec("Wrapped-v0", entry_point=made))
        assert LLMActionMask(env, lambda obs: [0.0]).reset(seed=0)[1]["mask_active"]

    def test_an_environment_that_allows_nothing_of_the_priors(self):
        env = Recorder(Discrete(4))
        env.reset = lambda **_: (np.zeros(1), {"action_mask": np.int8([1, 0, 0, 0])})
        masked = LLMActionMask(env, lambda obs: 3)
        masked.reset()
        with pytest.warns(UserWarning, match="was never active: the environment allowed none of its actions"):
            masked.close()


class TestInfo:
    def test_keys_and_types(self):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)))
        _, info = masked.reset()
        assert set(info) == {"action_low", "action_high", "mask_active", "prior_faults", "executed_action"}
        assert np.isnan(info["executed_action"]).all()
        _, _, _, _, after = masked.step(np.zeros(2, np.float32))
        assert set(after) == {*info, "received"}

    def test_the_innermost_writer_of_executed_action_wins(self):
        class Overriding(gym.Wrapper):
            def step(self, action):
                observation, *rest, info = self.env.step(np.float32([0.25, 0.25]))
                return observation, *rest, {**info, "executed_action": np.float32([0.25, 0.25])}

        masked = LLMActionMask(Overriding(echo()), Prior(np.zeros(2)))
        masked.reset()
        info = masked.step(np.ones(2, np.float32))[4]
        assert info["executed_action"].tolist() == info["received"].tolist() == [0.25, 0.25]

    def test_an_environment_that_reuses_its_info_does_not_repeat_an_old_executed_action(self):
        class OneInfo(Recorder):
            info: dict = {}  # noqa: RUF012

            def step(self, action):
                return *super().step(action)[:4], self.info

        masked = LLMActionMask(OneInfo(Box(-1.0, 1.0, (1,))), Prior([0.0]), radius=2.0)
        masked.reset()
        for x in (0.25, -0.75):
            assert masked.step(np.float32([x]))[4]["executed_action"] == x

    def test_an_environment_that_writes_into_its_action_does_not_change_executed_action(self):
        class Writing(Recorder):
            def step(self, action):
                result = super().step(action.copy())
                action *= 100
                return result

        env = Writing(Box(-1.0, 1.0, (1,)))
        masked = LLMActionMask(env, Prior([0.0]), radius=2.0)
        masked.reset()
        x = np.float32([0.25])
        assert masked.step(x)[4]["executed_action"] == env.received[0] == x == 0.25

    @pytest.mark.parametrize("epsilon", [0.0, 1.0])
    def test_every_call_returns_new_arrays(self, epsilon):
        masked = LLMActionMask(echo(), Prior(np.zeros(2, np.float32)), mask_epsilon=epsilon)
        infos = [masked.reset()[1], *(masked.step(np.zeros(2, np.float32))[4] for _ in range(2)), masked.reset()[1]]
        arrays = [array for info in infos for array in info.values() if isinstance(array, np.ndarray)]
        inside = [masked.action_space.low, masked.env.action_space.low, masked.env.action_space.high]
        for index, array in enumerate(arrays):
            assert not any(np.shares_memory(array, other) for other in arrays[:index] + inside)

    @pytest.mark.parametrize("epsilon", [0.0, 1.0])
    def test_writing_into_info_changes_nothing(self, epsilon):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)), radius=0.5, mask_epsilon=epsilon)
        width = 0.5 if epsilon else 1.0
        _, info = masked.reset()
        for _ in range(3):
            for key in {"action_low", "action_high", "executed_action"} & set(info):
                info[key][:] = np.nan
            info = masked.step(np.ones(2, np.float32))[4]
            assert info["executed_action"].tolist() == [width, width]
            assert info["action_high"].tolist() == [width, width]


class TestObservation:
    def test_a_dict_is_handed_over_unflattened_and_as_a_copy(self):
        def prior(observation):
            assert set(observation) == {"position", "inner"}
            center = observation["inner"]["velocity"].copy()
            observation["position"][:] = np.nan
            observation["inner"]["velocity"][:] = np.nan
            observation.clear()
            return center

        given = {"position": np.array([0.5]), "inner": {"velocity": np.array([0.25])}}
        env = Recorder(Box(-1.0, 1.0, (1,)), given)
        box = Box(-1.0, 1.0, (1,), np.float64)
        env.observation_space = DictSpace(position=box, inner=DictSpace(velocity=box))
        masked = LLMActionMask(env, prior, radius=0.25)
        observation, info = masked.reset()
        assert (info["action_low"], info["action_high"], info["prior_faults"]) == (0.0, 0.5, 0)
        assert observation == {"position": 0.5, "inner": {"velocity": 0.25}}
        assert masked.step(np.zeros(1, np.float32))[0] == observation

    def test_code_is_not_handed_minigrids_mission(self, tmp_path):
        path = tmp_path / "forward.py"
        path.write_text("def policy(obs):\n    return 2 * (sorted(obs) == ['direction', 'image'])\n")
        masked = LLMActionMask(gym.make("minigrid:MiniGrid-DoorKey-5x5-v0"), prior=path)
        with pytest.warns(UserWarning, match="left out: mission"):
            _, info = masked.reset(seed=0)
        observation, *_, info = masked.step(0)
        assert (int(info["executed_action"]), int(info["prior_faults"])) == (2, 0)
        assert "mission" in observation
        masked.close()

    def test_a_prior_may_write_into_an_array(self):
        def prior(observation):
            observation *= np.nan
            return np.zeros(2)

        masked, plain = LLMActionMask(echo(), prior, radius=2.0), echo()
        np.testing.assert_array_equal(masked.reset(seed=1)[0], plain.reset(seed=1)[0])
        x = np.float32([0.5, -0.5])
        np.testing.assert_array_equal(masked.step(x)[0], plain.step(x)[0])

    def test_an_integer_observation_is_handed_over(self):
        masked = LLMActionMask(Recorder(Box(-1.0, 1.0, (1,)), observation=3), lambda observation: [observation / 4], radius=0.5)
        assert masked.reset()[1]["action_low"] == 0.25


class Spoiling:
    """A prior that keeps what it is handed, and then writes into it."""

    def __init__(self, answer):
        self.answer = answer
        self.inputs = []

    def __call__(self, given):
        self.inputs.append(given.copy())
        given[...] = 99
        return self.answer


class Telling(Recorder):
    """Observes a dict without arrays; tells the number of the step in info."""

    def __init__(self, **always):
        super().__init__(Box(-1.0, 1.0, (1,)), {"step": 0})
        self.observation_space = DictSpace(step=Discrete(1))
        self.always = always

    def _info(self):
        return {"objects": np.array([len(self.received) / 8, 0.5]), **self.always}

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self._info()

    def step(self, action):
        return *super().step(action)[:4], self._info()


def pendulum(steps=1000):
    return gym.make("InvertedPendulum-v5", max_episode_steps=steps, disable_env_checker=True)


def blind(env):
    """The environment, of which the agent sees nothing."""
    return TransformObservation(env, lambda observation: np.zeros(1), Box(0.0, 0.0, (1,), np.float64))


def balanced(env, radius=0.5, prior_input=None):
    """A mask whose prior can balance the pole."""
    return LLMActionMask(env, "InvertedPendulum-v4", radius, candidate=2, prior_input=prior_input)


def run_vector(vector, make):
    """Returns the infos of 25 steps of two environments that autoreset in the same step."""
    envs = vector([make, make], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    try:
        infos = [envs.reset(seed=0)[1]]
        rng = np.random.default_rng(0)
        infos += [envs.step(rng.uniform(-1, 1, (2, 1)).astype(np.float32))[4] for _ in range(25)]
    finally:
        envs.close()
    return infos


class TestPriorInput:
    def test_simulator_is_the_state_of_the_observation(self):
        prior = Spoiling(np.zeros(1))
        masked, plain = LLMActionMask(blind(pendulum()), prior, radius=2.0, prior_input="simulator"), pendulum()
        rng = np.random.default_rng(0)
        seen = []
        for episode in range(2):
            seed = 5 if episode == 0 else None
            assert masked.reset(seed=seed)[0] == 0
            seen.append(plain.reset(seed=seed)[0])
            for _ in range(5):
                x = rng.uniform(-1, 1, 1).astype(np.float32)
                executed = masked.step(x)[4]["executed_action"]
                seen.append(plain.step(executed)[0])
        # InvertedPendulum observes its whole state; equal ones show, too, that the prior could not write into it.
        np.testing.assert_array_equal(prior.inputs, seen)
        assert {array.dtype for array in prior.inputs} == {np.dtype(np.float64)}

    def test_ram_is_the_state_of_the_observation(self):
        gym.register_envs(ale_py)
        prior = Spoiling({3})
        masked = LLMActionMask(gym.make("ALE/Pong-v5", obs_type="grayscale"), prior, prior_input="ram")
        plain = gym.make("ALE/Pong-v5", obs_type="ram")
        masked.reset(seed=5)
        seen = [plain.reset(seed=5)[0]]
        for _ in range(40):
            masked.step(0)
            seen.append(plain.step(3)[0])
        np.testing.assert_array_equal(prior.inputs, seen)
        assert {(array.dtype, array.shape) for array in prior.inputs} == {(np.dtype(np.uint8), (128,))}

    def test_any_other_string_is_a_key_of_info(self):
        prior = Spoiling(np.zeros(1))
        masked = LLMActionMask(Telling(), prior, prior_input="objects")
        infos = [masked.reset()[1], *(masked.step(np.zeros(1, np.float32))[4] for _ in range(3))]
        expected = [[0.0, 0.5], [0.125, 0.5], [0.25, 0.5], [0.375, 0.5]]
        assert [array.tolist() for array in prior.inputs] == [info["objects"].tolist() for info in infos] == expected

    def test_a_missing_key_is_an_error_and_no_fault_of_the_prior(self):
        prior = Prior(np.zeros(1))
        for epsilon in (0.0, 1.0):  # however rarely the prior is asked
            masked = LLMActionMask(Telling(), prior, mask_epsilon=epsilon, prior_input="object")
            with pytest.raises(ValueError, match=r"prior_input must .* every info, got 'object'; info has \['objects'\]"):
                masked.reset()
            assert (masked.prior_faults.total, prior.calls) == (0, 0)

    def test_a_vector_environment_is_refused(self):
        envs = gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
        with pytest.raises(TypeError, match=r"wraps one environment, as of .*; of a vector, wrap each one; got SyncVectorEnv"):
            LLMActionMask(envs, "Pendulum-v1")

    def test_an_id_is_no_environment(self):
        with pytest.raises(TypeError, match=r"as of gym.make\(id\); of a vector, wrap each one; got 'Hopper-v4'"):
            LLMActionMask("Hopper-v4", "Hopper-v4")

    def test_code_needs_arrays_only_where_it_looks(self, tmp_path):
        path, said = tmp_path / "policy.py", Telling()
        said.observation_space, said.observation = gym.spaces.Text(5), "hello"
        path.write_text("def policy(obs):\n    return [obs[0] + obs[1]]")
        masked = LLMActionMask(said, path)
        with pytest.warns(UserWarning, match="the prior failed .the observation holds text"):
            masked.reset()
        with pytest.warns(UserWarning, match="LLMActionMask was never active: the prior failed, 1 times in all"):
            masked.close()
        masked.close()
        masked = LLMActionMask(said, path, radius=0.125, prior_input="objects")
        masked.reset()
        info = masked.step(np.zeros(1, np.float32))[4]
        assert (info["action_low"], info["action_high"], info["prior_faults"]) == (0.5, 0.75, 0)
        masked.close()

    def test_the_prior_balances_what_the_agent_does_not_see(self):
        masked = balanced(blind(pendulum()), radius=0.01, prior_input="simulator")
        masked.reset(seed=0)
        for _ in range(200):
            _, _, terminated, _, info = masked.step(np.zeros(1, np.float32))
            assert (terminated, info["mask_active"], info["prior_faults"]) == (False, True, 0)

    def test_closing_ends_the_process(self, tmp_path):
        (tmp_path / "policy.py").write_text("def policy(obs):\n    return obs[:3]")
        masked = LLMActionMask(gym.make("Hopper-v4"), tmp_path / "policy.py")
        masked.reset(seed=0)
        worker = masked._prior._worker.process
        assert worker.poll() is None
        masked.close()
        assert worker.poll() is not None

    def test_a_spec_holds_numpys_numbers_as_pythons(self):
        env = LLMActionMask(gym.make("Hopper-v4"), "Hopper-v4", mask_epsilon=np.float32(0.5), candidate=np.int64(2))
        env = EpsilonMaskSchedule(env, total_timesteps=np.int64(100), mask_fraction=np.float32(0.5))
        again = gym.make(EnvSpec.from_json(env.spec.to_json()))
        assert again.get_wrapper_attr("mask_epsilon") == 1.0

    def test_a_prior_that_cannot_be_copied_plays(self):
        class Controller:
            def __init__(self):
                self.lock = threading.Lock()

            def act(self, observation):
                with self.lock:
                    return [1.0]

            def reset(self):  # what has one is copied, if it can be
                pass

        controller, below = Controller(), gym.make("Pendulum-v1")
        env = LLMActionMask(below, controller)
        assert env.reset(seed=0)[1]["mask_active"]
        assert "prior" in env.spec.additional_wrappers[-1].kwargs
        LLMActionMask(below, controller)
        with pytest.warns(UserWarning, match=r"plays in two environments, which share its state: .*lock"):
            LLMActionMask(gym.make("Pendulum-v1"), controller)

    @pytest.mark.parametrize("given", [lambda policy: policy, functools.partial])
    def test_a_function_with_a_reset_is_not_shared_without_a_word(self, given):
        def policy(observation):
            return [1.0]

        policy.reset = lambda: None
        prior = given(policy)
        env = LLMActionMask(gym.make("Pendulum-v1"), prior)
        assert env.reset(seed=0)[1]["mask_active"]
        with pytest.warns(UserWarning, match=r"which share its state: it cannot be copied \(it is a function\)"):
            LLMActionMask(gym.make("Pendulum-v1"), prior)

    @pytest.mark.parametrize("given", [lambda controller: controller, lambda controller: controller.act])
    def test_each_environment_has_a_prior_of_its_own(self, given):
        class Controller:
            asked = 0

            def act(self, observation):
                self.asked += 1
                return [0.1 * self.asked]

            def reset(self):
                self.asked = 0

        controller = given(Controller())
        spec = LLMActionMask(gym.make("Pendulum-v1"), controller).spec
        for envs in (
            gym.make_vec(spec, num_envs=3, vectorization_mode="sync"),
            gym.vector.SyncVectorEnv([lambda: LLMActionMask(gym.make("Pendulum-v1"), controller)] * 3),
        ):
            low = [envs.reset(seed=0)[1]["action_low"], envs.step(np.zeros((3, 1), np.float32))[4]["action_low"]]
            low.append(envs.reset(seed=0)[1]["action_low"])
            np.testing.assert_allclose(np.squeeze(low) + 0.6, [[0.1] * 3, [0.2] * 3, [0.1] * 3], rtol=1e-5)

    def test_a_spec_and_a_pickle_rebuild_it(self):
        masked = balanced(pendulum(), prior_input="simulator")
        assert masked.spec is not None
        again = gym.make(EnvSpec.from_json(masked.spec.to_json()))
        copied = pickle.loads(pickle.dumps(masked))
        first = masked.reset(seed=3)[1]
        assert first["mask_active"]
        for env in (again, copied):
            assert env.get_wrapper_attr("prior_input") == "simulator"
            again = env.reset(seed=3)[1]
            assert again.keys() == first.keys()
            for key, value in first.items():
                np.testing.assert_array_equal(again[key], value)

    # From Python 3.12 on a fork warns where another library has started threads.
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    @pytest.mark.parametrize("vector", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
    def test_bounds_in_vector_environments_are_those_of_a_prior_that_sees_the_observation(self, vector):
        unseen = run_vector(vector, lambda: balanced(blind(pendulum(steps=10)), prior_input="simulator"))
        seen = run_vector(vector, lambda: balanced(pendulum(steps=10)))
        assert [infos.pop("final_obs", None) is not None for infos in unseen + seen].count(True) == 4
        for infos in unseen + seen:
            infos["executed_action"] = np.nan_to_num(infos["executed_action"])  # at reset it is NaN, which is never equal
        assert data_equivalence(unseen, seen, exact=True)
        assert [step for step, infos in enumerate(unseen) if "final_info" in infos] == [10, 20]
        assert len({infos["action_low"][row].item() for infos in unseen for row in range(2)}) > 20


class Terminating(gym.Wrapper):
    """Ends by termination where the environment is truncated."""

    def step(self, action):
        observation, reward, _, truncated, info = self.env.step(action)
        return observation, reward, truncated, False, info


class TestGate:
    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.9])
    def test_per_step_it_is_open_as_often_as_epsilon_says(self, epsilon):
        gates = run_gates(LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=epsilon), 2000, seed=0)
        assert np.mean(gates) == pytest.approx(epsilon, abs=0.05)
        assert np.mean(np.array(gates[1:]) & gates[:-1]) == pytest.approx(epsilon**2, abs=0.05)

    @pytest.mark.parametrize("epsilon", [0.2, 0.7])
    def test_per_episode_it_is_constant_within_one_and_open_as_often_as_epsilon_says(self, epsilon):
        masked = LLMActionMask(echo(steps=3), Prior(np.zeros(2)), mask_epsilon=epsilon, gate="episode")
        episodes = [run_gates(masked, 3, seed=0 if episode == 0 else None) for episode in range(500)]
        assert all(len(set(gates)) == 1 for gates in episodes)
        assert np.mean(episodes) == pytest.approx(epsilon, abs=0.08)

    @pytest.mark.parametrize("end", [lambda env: env, Terminating], ids=["truncated", "terminated"])
    def test_per_episode_it_is_drawn_again_where_a_wrapper_below_begins_an_episode(self, end):
        env = gym.wrappers.Autoreset(end(echo(steps=3)))  # the step after the last one of an episode resets
        gates = run_gates(LLMActionMask(env, Prior(np.zeros(2)), mask_epsilon=0.5, gate="episode"), 4 * 500 - 1, seed=0)
        episodes = np.reshape(gates, (500, 4))
        assert (episodes == episodes[:, :1]).all()
        assert np.mean(episodes[:, 0]) == pytest.approx(0.5, abs=0.08)

    def test_it_is_reproducible_under_reset_seed(self):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.5)
        first = run_gates(masked, 50, seed=3)
        assert run_gates(masked, 50, seed=3) == first
        assert run_gates(LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.5), 50, seed=3) == first
        assert run_gates(masked, 50, seed=4) != first

    def test_reset_without_a_seed_continues_the_stream(self):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.5)
        one_long = run_gates(masked, 59, seed=3)
        assert run_gates(masked, 29, seed=3) + run_gates(masked, 29) == one_long

    def test_unseeded_masks_differ(self):
        first, second = (run_gates(LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.5), 60) for _ in range(2))
        assert first != second

    @pytest.mark.parametrize("gate", ["step", "episode"])
    def test_it_leaves_the_environments_random_stream_alone(self, gate):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.5, gate=gate)
        plain = echo()
        for episode in range(4):
            seed = 11 if episode == 0 else None
            np.testing.assert_array_equal(masked.reset(seed=seed)[0], plain.reset(seed=seed)[0])
            masked.step(np.zeros(2, np.float32))
        assert masked.unwrapped.np_random.bit_generator.state == plain.unwrapped.np_random.bit_generator.state

    def test_its_stream_is_not_the_environments(self):
        gates = run_gates(LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.5), 99, seed=3)
        assert gates != (np.random.default_rng(3).random(100) < 0.5).tolist()


class TestWhenThePriorIsAsked:
    @pytest.mark.parametrize("gate", ["step", "episode"])
    @pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0])
    def test_once_for_each_observation_also_while_the_gate_is_closed(self, gate, epsilon):
        prior = Prior(np.zeros(2))
        masked = LLMActionMask(echo(), prior, mask_epsilon=epsilon, gate=gate)
        gates = [run_gates(masked, 4, seed=seed) for seed in range(10)]
        assert np.any(gates) or epsilon < 0.1
        assert np.all(gates) == (epsilon == 1.0)
        assert prior.calls == 50

    @pytest.mark.parametrize("gate", ["step", "episode"])
    def test_never_at_epsilon_0(self, gate):
        prior = Prior(np.zeros(2))
        masked = LLMActionMask(echo(), prior, mask_epsilon=0.0, gate=gate)
        assert not any(run_gates(masked, 20) + run_gates(masked, 20))
        assert (prior.calls, masked.prior_answer) == (0, None)

    def test_never_again_from_the_next_episode_on_once_it_is_switched_off(self):
        prior = Prior(np.zeros(2))
        masked = LLMActionMask(echo(), prior)
        run_gates(masked, 4)
        masked.mask_epsilon = 0.0
        # Drawn at the observation before, the gate of the next action is what it was.
        assert masked.step(np.ones(2, np.float32))[4]["executed_action"].tolist() == pytest.approx([0.3, 0.3])
        assert masked.step(np.ones(2, np.float32))[4]["executed_action"].tolist() == [1.0, 1.0]
        assert prior.calls == 7
        assert not any(run_gates(masked, 20))
        assert prior.calls == 7

    def test_in_an_episode_that_began_at_epsilon_0_from_where_it_rises(self):
        prior = Prior(np.zeros(2))
        masked = LLMActionMask(echo(), prior, mask_epsilon=0.0)
        run_gates(masked, 4)
        masked.mask_epsilon = 1.0
        assert masked.step(np.zeros(2, np.float32))[4]["mask_active"]
        assert prior.calls == 1

    @pytest.mark.parametrize(("epsilon", "gate"), [(0.01, "step"), (0.01, "episode"), (1.0, "step")])
    def test_what_it_said_is_kept_and_a_fault_is_not(self, epsilon, gate):
        masked = LLMActionMask(echo(), Prior([9.0, 0.0], ValueError("broken"), "left"), mask_epsilon=epsilon, gate=gate)
        assert masked.prior_answer is None
        masked.reset(seed=1)
        assert masked.prior_answer == [9.0, 0.0]
        with pytest.warns(UserWarning, match="broken"):
            masked.step(np.zeros(2, np.float32))
        assert masked.prior_answer is None
        assert masked.step(np.zeros(2, np.float32))[4]["prior_faults"] == 2
        assert masked.prior_answer is None

    def test_the_observation_comes_in_its_own_dtype(self, tmp_path):
        path = tmp_path / "policy.py"
        path.write_text("def policy(obs):\n    return [obs.dtype.itemsize / 10]\n")
        for dtype, size in ((np.float32, 0.4), (np.float64, 0.8), (np.uint8, 0.1)):
            for prior in (path, f"trusted:{path}"):
                masked = LLMActionMask(Recorder(Box(-1.0, 1.0, (1,)), np.zeros(3, dtype)), prior)
                masked.reset()
                assert masked.prior_answer == pytest.approx([size])
                masked.close()


COUNTER = {
    "globals": "n = 0\n\ndef policy(obs):\n    global n\n    n += 1\n    return n / 100, obs[0] / 100\n",
    "reset": "n = [0]\n\ndef reset():\n    n[0] = 0\n\ndef policy(obs):\n    n[0] += 1\n    return n[0] / 100, obs[0] / 100\n",
    "class": "class Policy:\n  n = 0\n  def act(self, obs):\n    self.n += 1\n    return self.n / 100, obs[0] / 100\n",
}


class Counter:
    """Answers with how often it was asked, and at what."""

    n = 0

    def __call__(self, observation):
        self.n += 1
        return [self.n / 100, observation[0] / 100]


class Resettable(Counter):
    """An object, which would count on for ever."""

    def reset(self):
        self.n = 0


def counters(tmp_path):
    """Every form of a prior that counts its calls of an episode."""
    for name, source in COUNTER.items():
        (tmp_path / f"{name}.py").write_text(source)
    files = [tmp_path / f"{name}.py" for name in COUNTER]
    return [*files, *(f"trusted:{file}" for file in files), Counter, Resettable, Resettable()]


class TestState:
    """Echo observes the step: ``prior_answer`` tells how often the prior was asked in this episode, and at which step."""

    @pytest.mark.parametrize("form", range(9))
    @pytest.mark.parametrize("gate", ["step", "episode"])
    def test_a_counter_is_asked_in_order_and_begins_anew_at_each_reset(self, tmp_path, form, gate):
        masked = LLMActionMask(echo(), counters(tmp_path)[form], mask_epsilon=0.3, gate=gate)
        gates = []
        for steps in (7, 3, 7):
            gates.append(bool(masked.reset(seed=steps)[1]["mask_active"]))
            answers = [np.round(np.multiply(masked.prior_answer, 100)).tolist()]
            for _ in range(steps):
                gates.append(bool(masked.step(np.zeros(2, np.float32))[4]["mask_active"]))
                answers.append(np.round(np.multiply(masked.prior_answer, 100)).tolist())
            assert answers == [[n + 1, n] for n in range(steps + 1)]
        assert set(gates) == {True, False}
        masked.close()

    @pytest.mark.parametrize("form", range(7))
    def test_two_masks_around_the_same_file_or_class_each_have_their_own(self, tmp_path, form):
        prior = counters(tmp_path)[form]
        first, second = (LLMActionMask(echo(), prior) for _ in range(2))
        said = []
        for masked in (first, second):
            masked.reset(seed=0)
        for masked in (first, first, second, first, second):
            masked.step(np.zeros(2, np.float32))
            said.append(round(100 * masked.prior_answer[0]))
        first.reset()
        second.step(np.zeros(2, np.float32))
        said += [round(100 * masked.prior_answer[0]) for masked in (first, second)]
        assert said == [2, 3, 2, 4, 3, 1, 4]
        for masked in (first, second):
            masked.close()

    def test_it_begins_anew_where_a_wrapper_below_begins_an_episode(self):
        masked = LLMActionMask(gym.wrappers.Autoreset(echo(steps=2)), Counter)
        masked.reset(seed=0)
        said = []
        for _ in range(6):
            masked.step(np.zeros(2, np.float32))
            said.append(round(100 * masked.prior_answer[0]))
        assert said == [2, 3, 1, 2, 3, 1]

    def test_a_reset_that_fails_is_a_fault(self):
        class Broken(Counter):
            def reset(self):
                raise ValueError("no")

        masked = LLMActionMask(echo(), Broken())
        with pytest.warns(UserWarning, match="the prior failed .ValueError in its reset: no."):
            assert masked.reset()[1]["prior_faults"] == 1


FAULTS = {
    "exception": ZeroDivisionError("by zero"),
    "assertion": AssertionError("no"),
    "shape": np.zeros(3),
    "scalar": 0.0,  # of two numbers
    "nan": np.array([0.0, np.nan]),
    "inf": np.array([0.0, -np.inf]),
    "none": None,
    "string": "left",
    "ragged": [[1.0], [1.0, 2.0]],
}


class TestFaults:
    @pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
    def test_the_whole_space_is_allowed_and_the_fault_counted_and_warned_of_once(self, fault):
        masked = LLMActionMask(echo(low=-2.0, high=4.0), Prior(fault))
        with pytest.warns(UserWarning, match=r"the prior failed \(\w+: .*the whole action space is allowed"):
            _, info = masked.reset()
        for faults in range(1, 4):
            assert (info["action_low"].tolist(), info["action_high"].tolist()) == ([-2.0, -2.0], [4.0, 4.0])
            assert (info["mask_active"], info["prior_faults"]) == (False, faults)
            info = masked.step(np.ones(2, np.float32))[4]
            assert info["executed_action"].tolist() == [4.0, 4.0]

    def test_after_ten_in_a_row_the_mask_stays_off_with_a_second_warning(self):
        prior = Prior(ValueError("broken"))
        masked = LLMActionMask(echo(), prior)
        with pytest.warns(UserWarning, match="broken"):
            masked.reset()
        for _ in range(8):
            masked.step(np.zeros(2, np.float32))
        with pytest.warns(UserWarning, match="failed 10 times in a row; the mask stays off"):
            masked.step(np.zeros(2, np.float32))
        prior.answers = (np.zeros(2),)
        assert not any(run_gates(masked, 5, seed=0) + run_gates(masked, 5))
        assert prior.calls == masked.reset()[1]["prior_faults"] == 10

    def test_a_success_in_between_resets_the_row(self):
        prior = Prior(*9 * [ValueError("broken")], np.zeros(2))
        masked = LLMActionMask(echo(), prior)
        with pytest.warns(UserWarning, match="broken") as caught:
            gates = run_gates(masked, 39)
        assert len(caught) == 1
        assert gates == 4 * (9 * [False] + [True])
        assert masked.step(np.zeros(2, np.float32))[4]["prior_faults"] == 37

    def test_an_interrupt_is_no_fault(self):
        def prior(observation):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            LLMActionMask(echo(), prior).reset()

    def test_a_fault_of_the_environment_is_not_swallowed(self):
        masked = LLMActionMask(echo(), Prior(np.zeros(2)))
        with pytest.raises(gym.error.ResetNeeded):
            masked.step(np.zeros(2, np.float32))


class TestDiscrete:
    @pytest.mark.parametrize("start", [0, 5])
    @pytest.mark.parametrize("form", [set, frozenset, list, np.array])
    def test_a_set_or_a_boolean_vector(self, form, start):
        vector = [True, False, False, True]
        env = Recorder(Discrete(4, start=start))
        masked = LLMActionMask(env, Prior(form([start, start + 3] if form in (set, frozenset) else vector)))
        assert masked.action_space == env.action_space
        _, info = masked.reset()
        assert set(info) == {"action_mask", "mask_active", "prior_faults", "executed_action"}
        assert (info["action_mask"].dtype, info["action_mask"].tolist()) == (np.int8, [1, 0, 0, 1])
        assert (info["mask_active"], info["prior_faults"]) == (True, 0)
        assert (masked.action_masks().dtype, masked.action_masks().tolist()) == (np.bool_, vector)

    @pytest.mark.parametrize("start", [0, 5])
    def test_a_disallowed_action_is_replaced_as_the_docstring_says(self, start):
        env = Recorder(Discrete(5, start=start))
        allowed = [start, start + 3]
        masked = LLMActionMask(env, Prior(set(allowed)))
        masked.reset()
        for action in range(start, start + 5):
            info = masked.step(np.int64(action))[4]
            expected = action if action in allowed else allowed[(action - start) % len(allowed)]
            assert info["executed_action"] == env.received[-1] == expected

    def test_an_action_outside_the_space_never_reaches_the_environment(self):
        env = Recorder(Discrete(3))
        masked = LLMActionMask(env, Prior({0, 2}))
        masked.reset()
        for action in (-1, 3, 1.9, np.float32(0.0), np.zeros(2, int)):
            with pytest.raises(ValueError, match=r"action must be in Discrete\(3\), got"):
                masked.step(action)
        assert not env.received

    def test_masks_are_new_each_time(self):
        masked = LLMActionMask(Recorder(Discrete(3)), Prior({0, 1}))
        infos = [masked.reset()[1], masked.step(0)[4], masked.step(0)[4]]
        for mask in (*(info["action_mask"] for info in infos), masked.action_masks()):
            mask[:] = 0
        assert masked.action_masks().tolist() == [True, True, False]
        masked.mask_epsilon = 0.0
        masked.step(0)[4]["action_mask"][:] = 0
        assert masked.step(2)[4]["executed_action"] == 2

    def test_the_mask_belongs_to_the_observation_of_the_same_tuple(self):
        masked = LLMActionMask(Recorder(Discrete(3)), lambda observation: {int(observation[0]) % 3})
        _, info = masked.reset()
        for step in range(6):
            assert np.flatnonzero(info["action_mask"]).tolist() == np.flatnonzero(masked.action_masks()).tolist() == [step % 3]
            info = masked.step(0)[4]
            assert info["executed_action"] == step % 3

    @pytest.mark.parametrize(
        "answer",
        [
            set(),
            {4},
            {-1},
            {0, "left"},
            {1.5},
            np.zeros(3, bool),
            np.ones(4, bool),
            np.ones((3, 1), bool),
            np.array([0, 2]),
            np.array([1.0, 0.0, 0.5]),
            3,
            -1,
            0.5,
            None,
            KeyError("x"),
        ],
        ids=repr,
    )
    def test_faults(self, answer):
        masked = LLMActionMask(Recorder(Discrete(3)), Prior(answer))
        with pytest.warns(UserWarning, match="the prior failed"):
            _, info = masked.reset()
        assert (info["action_mask"].tolist(), info["mask_active"], info["prior_faults"]) == ([1, 1, 1], False, 1)
        assert masked.step(2)[4]["executed_action"] == 2

    @pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint8, np.float16, np.float32, np.float64])
    def test_truth_values_of_any_type(self, dtype):
        masked = LLMActionMask(Recorder(Discrete(3)), Prior(np.array([1, 0, 1], dtype)))
        assert masked.reset()[1]["action_mask"].tolist() == [1, 0, 1]

    @pytest.mark.parametrize("start", [0, 5])
    @pytest.mark.parametrize("form", [int, float, np.int64, lambda n: [n], lambda n: np.array(n)])
    def test_one_action(self, form, start):
        masked = LLMActionMask(Recorder(Discrete(3, start=start)), Prior(form(start + 1)))
        assert masked.reset()[1]["action_mask"].tolist() == [0, 1, 0]
        assert masked.step(start)[4]["executed_action"] == start + 1

    @pytest.mark.parametrize(
        ("prior", "active", "published", "executed"),
        [
            ({0, 1}, True, [0, 1, 0], [1, 1, 1]),  # the prior's without what is not legal
            ({0}, False, [0, 1, 1], [0, 1, 2]),  # nothing is left of it
            (ValueError(), False, [0, 1, 1], [0, 1, 2]),
        ],
        ids=repr,
    )
    @pytest.mark.filterwarnings("ignore:LLMActionMask. the prior failed")
    def test_an_action_mask_of_the_environments_own_stays(self, prior, active, published, executed):
        class Legal(Recorder):
            legal = np.array([0, 1, 1], np.int8)

            def reset(self, *, seed=None, options=None):
                return super().reset(seed=seed)[0], {"action_mask": self.legal}

            def step(self, action):
                return *super().step(action)[:4], {"action_mask": self.legal}

        masked = LLMActionMask(env := Legal(Discrete(3)), Prior(prior))
        infos = [masked.reset()[1], *(masked.step(action)[4] for action in range(3))]
        for info in infos:
            assert (info["mask_active"], info["action_mask"].tolist()) == (active, published)
        assert masked.action_masks().tolist() == [bool(allowed) for allowed in published]
        # Where no prior masks, what is not legal is the environment's to deal with.
        assert env.received == executed
        assert env.legal.tolist() == [0, 1, 1]

    @pytest.mark.parametrize(("prior", "published"), [({0, 2}, [0, 0, 1]), (0, [0, 1, 1])])
    def test_the_method_action_masks_of_the_environment_counts_too(self, prior, published):
        """MaskablePPO asks the outermost action_masks(), which is this wrapper's."""

        class Legal(gym.Wrapper):
            def action_masks(self):
                return [False, True, True]

        three = gym.wrappers.TransformAction(gym.make("CartPole-v1"), lambda action: action % 2, Discrete(3))
        masked = LLMActionMask(Legal(three), lambda obs: prior)
        for info in (masked.reset(seed=0)[1], masked.step(2)[4]):
            assert info["action_mask"].tolist() == published
        narrower = gym.wrappers.TransformObservation(Legal(three), lambda obs: obs, three.observation_space)
        narrower.reset = lambda **_: (np.zeros(4, np.float32), {"action_mask": [1, 1, 0]})
        assert LLMActionMask(narrower, lambda obs: {1, 2}).reset()[1]["action_mask"].tolist() == [0, 1, 0]
        three.action_masks = np.array([1, 1, 1])  # what cannot be called is something else
        LLMActionMask(three, lambda obs: prior).reset()
        assert masked.action_masks().tolist() == [bool(allowed) for allowed in published]

    @pytest.mark.parametrize("legal", [[0, 2], [0.5, 1, 1], [[0, 1, 1]], [0, 1, 2], 1, None, ["a", "b", "c"]])
    def test_what_is_no_action_mask_is_refused(self, legal):
        """A list of the legal actions, for example."""
        env = Recorder(Discrete(3))
        env.reset = lambda **_: (np.zeros(1), {"action_mask": legal})
        with pytest.raises(ValueError, match=r"info\['action_mask'\], or its action_masks\(\), must hold 3 truth values"):
            LLMActionMask(env, Prior({0})).reset()

    @pytest.mark.parametrize(
        "legal", [[0, 1, 1], [False, True, True], np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], np.uint8)]
    )
    def test_truth_values_of_any_type_are_an_action_mask(self, legal):
        env = Recorder(Discrete(3))
        env.reset = lambda **_: (np.zeros(1), {"action_mask": legal})
        assert LLMActionMask(env, Prior({0, 1})).reset()[1]["action_mask"].tolist() == [0, 1, 0]

    def test_epsilon_0_allows_everything(self):
        prior = Prior({0})
        masked = LLMActionMask(Recorder(Discrete(3)), prior, mask_epsilon=0.0)
        assert masked.reset()[1]["action_mask"].tolist() == [1, 1, 1]
        assert masked.step(2)[4]["executed_action"] == 2
        assert prior.calls == 0

    def test_before_the_first_reset_everything_is_allowed(self):
        assert LLMActionMask(Recorder(Discrete(3)), Prior({0})).action_masks().tolist() == [True, True, True]

    def test_action_masks_on_a_box_says_where_to_look(self):
        with pytest.raises(TypeError, match=r"Discrete.*info\['action_low'\]"):
            LLMActionMask(echo(), Prior(np.zeros(2))).action_masks()


class TestConstructor:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"radius": 0}, InvalidBound, r"radius must lie in \(0, 2\].*got 0$"),
            ({"radius": -0.5}, InvalidBound, r"radius .*got -0.5"),
            ({"radius": 2.1}, InvalidBound, r"radius .*got 2.1"),
            ({"radius": float("nan")}, InvalidBound, r"radius .*got nan"),
            ({"radius": "0.3"}, InvalidBound, r"radius .*got '0.3'"),
            ({"mask_epsilon": None}, InvalidProbability, r"mask_epsilon .*got None"),
            ({"mask_epsilon": 1.5}, InvalidProbability, r"mask_epsilon must lie in \[0, 1\], got 1.5"),
            ({"mask_epsilon": -0.1}, InvalidProbability, r"mask_epsilon .*got -0.1"),
            ({"mask_epsilon": float("nan")}, InvalidProbability, r"mask_epsilon .*got nan"),
            ({"mapping": "wrap"}, ValueError, r"mapping must be 'rescale' or 'clip', got 'wrap'"),
            ({"gate": "never"}, ValueError, r"gate must be 'step' or 'episode', got 'never'"),
            ({"prior": "Antt-v4"}, ValueError, r"no prior named 'Antt-v4'.*Ant-v4"),
            ({"prior": "Ant-v4", "candidate": 9}, ValueError, r"written for Ant-v4, Ant-v5, not for llmwrappers-tests/Echo-v0"),
            (
                {"prior": "Ant-v4", "candidate": 9, "prior_of_another_env": True},
                ValueError,
                r"candidate must be one of .*got 9",
            ),
            ({"candidate": 2}, ValueError, r"got candidate=2"),
            (
                {"prior": "Ant-v4", "candidate": 2.7, "prior_of_another_env": True},
                ValueError,
                r"candidate must be one of \[1, .*got 2\.7",
            ),
            (
                {"prior": "Ant-v4", "candidate": "two", "prior_of_another_env": True},
                ValueError,
                r"candidate must be one of \[1, .*got 'two'",
            ),
            ({"prior": "missing.py"}, FileNotFoundError, r"missing\.py"),
            ({"prior": 3}, TypeError, r"prior must be .*got 3 of type int"),
            ({"prior_input": "ram"}, ValueError, r"'ram' needs an Atari environment \(env.unwrapped.ale\), got <.*Echo"),
            ({"prior_input": "simulator"}, ValueError, r"'simulator' needs a MuJoCo environment .*, got <.*Echo"),
        ],
    )
    def test_wrong_arguments(self, arguments, error, message):
        with pytest.raises(error, match=message):
            LLMActionMask(echo(), **{"prior": Prior(np.zeros(2)), **arguments})

    @pytest.mark.parametrize(
        ("space", "error", "message"),
        [
            (Box(-np.inf, np.inf, (2,)), ValueError, r"action space with finite bounds, got Box\(-inf, inf"),
            (Box(0.0, np.inf, (2,)), ValueError, r"action space with finite bounds, got Box\(0.0, inf"),
            (Box(0, 255, (2,), np.uint8), TypeError, r"Box action space of floats, got Box\(0, 255.*TransformAction and a Box"),
            (MultiBinary(3), TypeError, r"Discrete action spaces, got MultiBinary\(3\); .*TransformAction and Discrete\(8\)"),
        ],
    )
    def test_spaces_it_cannot_serve(self, space, error, message):
        with pytest.raises(error, match=message):
            LLMActionMask(Recorder(space), Prior(np.zeros(2)))

    @pytest.mark.parametrize("space", [MultiBinary(3), MultiDiscrete([2, 3])])
    def test_the_way_out_of_a_space_works_as_it_stands(self, space):
        with pytest.raises(TypeError) as error:
            LLMActionMask(Recorder(space), Prior(4))
        n, function = re.search(r"Discrete\((\d+)\), .*: (lambda .*)", str(error.value)).groups()
        transformed = TransformAction(Recorder(space), eval(function, {"np": np}), Discrete(int(n)))
        masked = LLMActionMask(transformed, Prior(4))
        masked.reset(seed=0)
        assert masked.step(1)[-1]["executed_action"] == 4
        assert masked.unwrapped.received[0] in space

    def test_the_limits_are_allowed(self):
        for arguments in ({"radius": 2}, {"radius": 1e-9}, {"mask_epsilon": 0}, {"mask_epsilon": 1}):
            LLMActionMask(echo(), Prior(np.zeros(2)), **arguments).reset()


class TestMaskEpsilon:
    def test_an_attribute_that_is_checked(self):
        env = gym.Wrapper(LLMActionMask(echo(), Prior(np.zeros(2)), mask_epsilon=0.25))
        assert env.get_wrapper_attr("mask_epsilon") == 0.25
        assert env.set_wrapper_attr("mask_epsilon", 1, force=False)
        assert env.get_wrapper_attr("mask_epsilon") == 1.0
        with pytest.raises(InvalidProbability, match=r"mask_epsilon must lie in \[0, 1\], got 2"):
            env.set_wrapper_attr("mask_epsilon", 2, force=False)
        assert env.get_wrapper_attr("mask_epsilon") == 1.0

    # From Python 3.12 on a fork warns where another library has started threads.
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    @pytest.mark.parametrize("vector", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
    def test_it_is_set_through_vector_environments(self, vector):
        def make():
            return LLMActionMask(echo(), lambda observation: np.zeros(2), radius=0.5)

        envs = vector([make, make])
        try:
            assert envs.reset()[1]["mask_active"].tolist() == [True, True]
            envs.unwrapped.set_attr("mask_epsilon", [0.0, 1.0])
            assert envs.unwrapped.get_attr("mask_epsilon") == (0.0, 1.0)
            _, _, _, _, infos = envs.step(np.ones((2, 2), np.float32))
            assert infos["mask_active"].tolist() == [False, True]
            envs.unwrapped.set_attr("mask_epsilon", 0.0)
            assert not envs.reset()[1]["mask_active"].any()
        finally:
            envs.close()


def test_a_mask_can_open_while_it_is_used():
    env = LLMActionMask(gym.make("Pendulum-v1"), prior=lambda obs: [0.0], radius=0.25)
    _, info = env.reset(seed=0)
    assert info["action_high"][0] == 0.5
    env.set_wrapper_attr("radius", 0.5, force=False)
    *_, info = env.step(np.array([1.0], np.float32))
    assert info["executed_action"][0] == 0.5
    assert info["action_high"][0] == 1.0
    with pytest.raises(InvalidBound, match="radius must lie in"):
        env.set_wrapper_attr("radius", 0.0, force=False)
    assert env.get_wrapper_attr("radius") == 0.5
