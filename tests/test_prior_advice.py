"""PriorAdvice: what each prior would do, and nothing else."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo

from llmwrappers import LLMActionMask, PriorAdvice, load_candidates


def make(priors, **options) -> gym.Env:
    return PriorAdvice(gym.make("Pendulum-v1"), priors, **options)


PUSHES = {"up": lambda obs: [1.5], "down": lambda obs: [-9.0], "damp": lambda obs: -obs[2:]}


def test_advice_is_about_the_observation_beside_it():
    env = make(PUSHES)
    observation, info = env.reset(seed=0)
    for _ in range(5):
        np.testing.assert_allclose(info["prior_actions"][:, 0], [1.5, -2.0, np.clip(-observation[2], -2, 2)], rtol=1e-6)
        assert info["prior_actions"].dtype == np.float32
        observation, _, _, _, info = env.step(np.array([0.5], np.float32))


def test_nothing_else_changes():
    plain, advised = gym.make("Pendulum-v1"), make(PUSHES)
    np.testing.assert_array_equal(plain.reset(seed=3)[0], advised.reset(seed=3)[0])
    for _ in range(20):
        action = plain.action_space.sample()
        a, b = plain.step(action), advised.step(action)
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:4] == b[1:4]


def test_a_mask_goes_around_the_chosen_one():
    env = LLMActionMask(make(PUSHES), prior=lambda action: action, radius=0.25, prior_input="prior_action")
    _, info = env.reset(seed=0)
    assert (info["action_low"][0], info["action_high"][0]) == (1.0, 2.0)
    env.set_wrapper_attr("chosen", "down", force=False)
    *_, info = env.step(np.array([0.0], np.float32))
    assert (info["action_low"][0], info["action_high"][0]) == (-2.0, -1.5)


def test_the_chosen_one_must_be_there():
    env = make(PUSHES)
    with pytest.raises(ValueError, match=r"chosen must be one of \['up', 'down', 'damp'\], got 'left'"):
        env.chosen = "left"
    assert env.chosen == "up"


def test_closing_ends_the_processes():
    env = PriorAdvice(gym.make("Hopper-v4"), "Hopper-v4", isolation="process")
    env.reset(seed=0)
    workers = [policy._worker.process for policy in env._policies.values()]
    assert [worker.poll() for worker in workers] == [None] * 5
    env.close()
    assert None not in [worker.poll() for worker in workers]


def test_only_those_that_are_asked_are_called():
    calls = []
    env = make({"a": lambda obs: calls.append("a") or [0.0], "b": lambda obs: calls.append("b") or [0.0]})
    env.set_wrapper_attr("asked", ["b"], force=False)
    _, info = env.reset(seed=0)
    assert calls == ["b"]
    assert np.isnan(info["prior_actions"][0]).all()
    env.set_wrapper_attr("asked", [], force=False)
    env.step(np.array([0.0], np.float32))
    assert calls == ["b"]


@pytest.mark.parametrize("fault", [[0.0, 0.0], [np.nan], [np.inf], "left", None])
def test_a_fault_is_counted_and_the_others_go_on(fault):
    env = make({"broken": lambda obs: fault, "fine": lambda obs: [1.0]})
    with pytest.warns(UserWarning, match=r"the prior broken failed \(.*Error: .*\); its advice for that state is NaN"):
        _, info = env.reset(seed=0)
    assert np.isnan(info["prior_actions"][0]).all()
    assert info["prior_actions"][1] == 1.0
    for _ in range(8):
        env.step(np.array([0.0], np.float32))
    with pytest.warns(UserWarning, match="the prior broken failed 10 times in a row"):
        env.step(np.array([0.0], np.float32))
    env.step(np.array([0.0], np.float32))
    assert env.get_wrapper_attr("asked") == ["fine"]
    assert env.get_wrapper_attr("fault_counts") == {"broken": 10, "fine": 0}


@pytest.mark.filterwarnings("ignore:.*the prior moody failed:UserWarning")
def test_a_success_in_between_resets_the_row():
    calls = iter(range(100))
    zero = np.zeros(2, np.float32)
    env = PriorAdvice(Echo(steps=99), {"moody": lambda observation: zero if next(calls) % 10 == 9 else None})
    infos = [env.reset(seed=0)[1], *(env.step(zero)[4] for _ in range(39))]
    assert env.asked == ["moody"]
    assert env.fault_counts == {"moody": 36}
    assert [bool(np.isfinite(info["prior_actions"]).all()) for info in infos] == 4 * (9 * [False] + [True])


def test_a_prior_that_writes_into_its_input_harms_nobody():
    def vandal(obs):
        obs[:] = 7.0
        return [0.0]

    env = make({"vandal": vandal, "reads": lambda obs: obs[:1]})
    observation, info = env.reset(seed=0)
    assert info["prior_actions"][1, 0] == observation[0] != 7.0


def test_priors_read_the_prior_input():
    env = PriorAdvice(gym.make("InvertedPendulum-v4"), {"cart": lambda state: state[:1]}, prior_input="simulator")
    observation, info = env.reset(seed=0)
    assert info["prior_action"][0] == pytest.approx(observation[0], rel=1e-6)


def test_all_candidates_of_a_name_and_of_a_folder(tmp_path):
    env = PriorAdvice(gym.make("Hopper-v4"), "Hopper-v4")
    assert env.names == [f"policy-{number}" for number in range(1, 6)]
    assert env.reset(seed=0)[1]["prior_actions"].shape == (5, 3)
    (tmp_path / "left.py").write_text("def policy(obs):\n    return [-1.0]\n")
    (tmp_path / "right.py").write_text("def policy(obs):\n    return [1.0]\n")
    assert list(load_candidates(tmp_path)) == ["left", "right"]
    (tmp_path / "evil.py").write_text("import os\n\n\ndef policy(obs):\n    return [1.0]\n")
    with pytest.warns(UserWarning, match=r"left out: .*evil\.py"):
        assert list(load_candidates(tmp_path)) == ["left", "right"]


def test_a_stack_with_names_can_be_rebuilt_from_its_spec():
    env = PriorAdvice(gym.make("Hopper-v4"), "Hopper-v4")
    rebuilt = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    np.testing.assert_array_equal(env.reset(seed=1)[1]["prior_actions"], rebuilt.reset(seed=1)[1]["prior_actions"])


def test_bad_input(tmp_path):
    with pytest.raises(TypeError, match="needs a Box action space of floats"):
        PriorAdvice(gym.make("CartPole-v1"), PUSHES)
    for priors in (["Pendulum-v1"], {"a": "Pendulum-v1"}):
        with pytest.raises(TypeError, match="priors must be a shipped name, a folder, or policies that can be called"):
            make(priors)
    with pytest.raises(ValueError, match="at least one policy"):
        make({})
    with pytest.raises(ValueError, match="no candidates at"):
        make(str(tmp_path))
    with pytest.raises(ValueError, match="no candidates at 'Nonesuch-v4'"):
        make("Nonesuch-v4")
    with pytest.raises(ValueError, match="needs an Atari environment"):
        make(PUSHES, prior_input="ram")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = LLMActionMask(gym.make("Pendulum-v1"), lambda obs: [0.0])
    with pytest.raises(ValueError, match="belongs below"):
        PriorAdvice(env, PUSHES)
