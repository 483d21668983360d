"""The info contract and transition_info in vector environments, under both autoreset modes."""

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from llmwrappers import LLMActionMask, interval_around, to_native, transition_info

LOW, HIGH, RADIUS = np.float32(-2.0), np.float32(5.0), 0.4

# From Python 3.12 on a fork warns where another library has started threads.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def prior(observation):
    return 4 * np.sin(observation[1:])


def allowed(observation):
    return {int(5 * observation[0]) % 4}


def bounds(observation):
    return interval_around(prior(observation).astype(np.float32), RADIUS * (HIGH - LOW) / 2, LOW, HIGH)


def make_box(steps):
    return lambda: LLMActionMask(Echo(LOW, HIGH, steps=steps), prior, radius=RADIUS, mask_epsilon=1.0)


def make_discrete(steps):
    return lambda: LLMActionMask(Turns(steps=steps), allowed)


def vector(make, kind, num_envs, mode):
    # Episodes of different lengths, so that one environment resets while another does not.
    return kind([make(steps) for steps in (3, 4, 5)[:num_envs]], autoreset_mode=mode)


every_vector = pytest.mark.parametrize(
    ("kind", "num_envs", "mode"),
    [
        (kind, num_envs, mode)
        for kind in (SyncVectorEnv, AsyncVectorEnv)
        for num_envs in (1, 3)
        for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)


@every_vector
def test_executed_action_is_x_mapped_into_the_bounds_published_one_tuple_before(kind, num_envs, mode):
    envs = vector(make_box, kind, num_envs, mode)
    rng = np.random.default_rng(0)
    transitions = finals = 0
    try:
        observations, infos = envs.reset(seed=0)
        done = np.zeros(num_envs, dtype=bool)
        for _ in range(14):
            low, high = infos["action_low"], infos["action_high"]
            np.testing.assert_allclose((low, high), np.stack([bounds(row) for row in observations], axis=1), rtol=1e-6)
            x = rng.uniform(-1.2, 1.2, (num_envs, 2)).astype(np.float32)
            observations, _, terminations, truncations, infos = envs.step(x)
            # NEXT_STEP's dummy row makes no transition.
            made = ~done if mode is AutoresetMode.NEXT_STEP else np.ones(num_envs, dtype=bool)
            done = terminations | truncations
            if made.any():
                executed = transition_info(infos, "executed_action")
                assert executed.shape == (num_envs, 2)
                np.testing.assert_allclose(executed[made], to_native(x, low, high)[made], rtol=1e-6, atol=1e-6)
                np.testing.assert_array_equal(executed[made], transition_info(infos, "received")[made])
                assert np.isnan(executed[~made]).all()
                transitions += made.sum()
            # The bounds after the transition belong to the observation after it, the last one of an episode included.
            after = np.stack([transition_info(infos, key) for key in ("action_low", "action_high")])
            for row in range(num_envs):
                last = mode is AutoresetMode.SAME_STEP and done[row]
                finals += last
                observation = infos["final_obs"][row] if last else observations[row]
                np.testing.assert_allclose(after[:, row], bounds(observation), rtol=1e-6)
    finally:
        envs.close()
    if mode is AutoresetMode.SAME_STEP:
        assert transitions == 14 * num_envs
        assert finals == sum((14 // 3, 14 // 4, 14 // 5)[:num_envs])
    else:
        assert transitions == sum(14 - 14 // (steps + 1) for steps in (3, 4, 5)[:num_envs])


@every_vector
def test_discrete_actions(kind, num_envs, mode):
    envs = vector(make_discrete, kind, num_envs, mode)
    try:
        observations, infos = envs.reset(seed=0)
        done = np.zeros(num_envs, dtype=bool)
        for _ in range(9):
            masks = infos["action_mask"]
            assert masks.dtype == np.int8
            assert [set(np.flatnonzero(mask)) for mask in masks] == [allowed(row) for row in observations]
            observations, _, terminations, truncations, infos = envs.step(envs.action_space.sample())
            made = ~done if mode is AutoresetMode.NEXT_STEP else np.ones(num_envs, dtype=bool)
            done = terminations | truncations
            if made.any():
                executed = transition_info(infos, "executed_action")
                assert (executed[made] == masks.argmax(axis=1)[made]).all()
                assert (executed[made] == transition_info(infos, "received")[made]).all()
    finally:
        envs.close()


@every_vector
def test_no_info_becomes_an_array_of_objects(kind, num_envs, mode):
    envs = vector(make_box, kind, num_envs, mode)
    dtypes = {"action_low": "f4", "action_high": "f4", "executed_action": "f4", "mask_active": "?", "prior_faults": "i8"}
    seen = set()
    try:
        envs.reset(seed=0)
        for _ in range(4):
            *_, infos = envs.step(np.zeros((num_envs, 2), np.float32))
            for place in (infos, infos.get("final_info", {})):
                for key in dtypes.keys() & place.keys():
                    assert place[key].dtype == dtypes[key], key
                    seen.add(key)
    finally:
        envs.close()
    assert seen == set(dtypes)


class TestTransitionInfo:
    INFOS = {  # noqa: RUF012
        "reward_part": np.array([1.0, 0.0, 3.0]),
        "_reward_part": np.array([True, False, True]),
        "final_info": {"reward_part": np.array([0.0, 9.0, 0.0]), "_reward_part": np.array([False, True, False])},
    }

    def test_final_rows_are_put_back(self):
        assert transition_info(self.INFOS, "reward_part").tolist() == [1.0, 9.0, 3.0]

    def test_the_result_is_a_copy(self):
        for infos in (self.INFOS, {"reward_part": self.INFOS["reward_part"]}, {"final_info": self.INFOS["final_info"]}):
            transition_info(infos, "reward_part")[:] = np.nan
        assert transition_info(self.INFOS, "reward_part").tolist() == [1.0, 9.0, 3.0]

    def test_a_row_without_the_key_is_0(self):
        infos = {"final_info": self.INFOS["final_info"]}
        assert transition_info(infos, "reward_part").tolist() == [0.0, 9.0, 0.0]

    def test_a_dict_says_where_it_is(self):
        infos = {"final_info": {"episode": {"r": np.array([1.0])}, "_episode": np.array([True])}}
        with pytest.raises(TypeError, match=r"'episode' is a dict in infos.*infos\['final_info'\]\['episode'\]"):
            transition_info(infos, "episode")

    def test_an_unknown_key_says_what_there_is(self):
        with pytest.raises(KeyError, match=r"no environment reported 'executed'; reported: .*'reward_part'"):
            transition_info(self.INFOS, "executed")


def test_one_environment_and_three_run_the_same():
    """The first of three environments sees what a single one with its seed sees."""
    runs = []
    for num_envs in (1, 3):
        envs = vector(make_box, SyncVectorEnv, num_envs, AutoresetMode.SAME_STEP)
        observations, infos = envs.reset(seed=7)
        rows = [observations[0], infos["action_low"][0]]
        for _ in range(5):
            observations, _, _, _, infos = envs.step(np.full((num_envs, 2), 0.3, np.float32))
            rows += [observations[0], infos["action_low"][0], transition_info(infos, "executed_action")[0]]
        runs.append(np.concatenate(rows))
    np.testing.assert_array_equal(*runs)


def test_a_mask_in_gym_make_vec():
    envs = gym.make_vec(
        "llmwrappers-tests/Echo-v0",
        num_envs=2,
        vectorization_mode="sync",
        wrappers=[lambda env: LLMActionMask(env, prior, radius=RADIUS)],
    )
    _, infos = envs.reset(seed=0)
    assert infos["mask_active"].all()
    assert envs.single_action_space.low.tolist() == [-1.0, -1.0]
