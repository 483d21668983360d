"""llmwrappers/priors/minari_dataset.py: what is kept, what the recovered environment replays, what is refused."""

import gymnasium as gym
import minari
import numpy as np
import pytest
from conftest import Echo

from llmwrappers import CriticalStates, LLMActionMask, LLMActionOverride, load_prior
from llmwrappers.priors.__main__ import main
from llmwrappers.priors.minari_dataset import record_dataset


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v5", "CartPole-v1"])
def test_the_recovered_environment_replays_every_episode_to_the_last_bit(env_id):
    policy = (lambda obs: int(obs[2] + obs[3] > 0)) if env_id == "CartPole-v1" else load_prior(env_id)
    record_dataset(gym.make(env_id), policy, "tests/prior-v0", episodes=3, seed=7, algorithm_name="a prior")
    dataset = minari.load_dataset("tests/prior-v0")
    env = dataset.recover_environment()
    assert (env.spec.id, dataset.total_episodes) == (env_id, 3)
    for number, episode in enumerate(dataset.iterate_episodes()):
        observations = [env.reset(seed=7 + number)[0]]
        for action, reward in zip(episode.actions, episode.rewards, strict=True):
            observation, again, terminated, truncated, _ = env.step(action)
            observations.append(observation)
            assert again == reward
        assert (terminated, truncated) == (episode.terminations[-1], episode.truncations[-1])
        assert terminated or truncated
        assert np.array_equal(observations, episode.observations)
        np.testing.assert_allclose(episode.actions[0], policy(observations[0]), rtol=1e-6)


class OneArray(Echo):
    """Returns the same array at every step, with new numbers in it."""

    def __init__(self):
        super().__init__()
        self.array = np.zeros(3)

    def _observe(self, action):
        self.array[:] = super()._observe(action)
        return self.array


@pytest.mark.filterwarnings("ignore:.*The obs.* is the same object")
def test_an_environment_may_write_into_the_observation_that_it_returned():
    gym.register("llmwrappers-tests/OneArray-v0", entry_point=f"{__name__}:OneArray")
    env = gym.make("llmwrappers-tests/OneArray-v0", disable_env_checker=True)
    dataset = record_dataset(env, lambda obs: [obs[0] / 10, 0.5], "tests/array-v0", 1, 0, "its steps")
    (episode,) = dataset.iterate_episodes()
    assert episode.observations[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(episode.observations[1:, 1:], episode.actions)


def test_infos_of_masks_and_overrides_can_be_recorded(tmp_path):
    """Minari refuses infos whose keys differ between reset and step."""
    table = CriticalStates([[1.0, 0.0, 0.0]], actions=[[0.5]], rewards=[1.0], scale=[1.0, 1.0, 4.0], tolerance=1.0)
    table.save(tmp_path / "table.json")
    env = LLMActionOverride(gym.make("Pendulum-v1"), tmp_path / "table.json", patience_steps=0)
    collector = minari.DataCollector(LLMActionMask(env, "Pendulum-v1"), record_infos=True)
    collector.reset(seed=0)
    executed = [collector.step(collector.action_space.sample())[4]["executed_action"] for _ in range(200)]
    with pytest.warns(UserWarning, match="is set to None"):
        dataset = collector.create_dataset(dataset_id="tests/infos-v0")
    collector.close()
    (episode,) = dataset.iterate_episodes()
    assert np.isnan(episode.infos["executed_action"][0]).all()
    assert np.array_equal(episode.infos["executed_action"][1:], executed)
    assert episode.infos["mask_active"].dtype == bool


def test_the_command(capsys):
    main(["--env-id", "Pendulum-v1", "--candidate", "1", "--episodes", "2", "--minari", "tests/command-v0"])
    assert "tests/command-v0: 2 episodes, 400 steps, return -" in capsys.readouterr().out
    assert minari.load_dataset("tests/command-v0").spec.env_spec.id == "Pendulum-v1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env-id", "Pendulum-v1", "--minari", "tests/taken-v0"], "there is a dataset 'tests/taken-v0' already"),
        (["--env-id", "Pendulum-v1", "--minari", "prior"], "a Minari dataset is called NAMESPACE/NAME-vNUMBER, as in"),
        (["--minari", "tests/prior-v0"], "--minari needs one --env-id"),
    ],
)
def test_bad_names_are_refused_before_anything_is_played(arguments, message, capsys, monkeypatch):
    if "taken" in arguments[-1]:
        record_dataset(gym.make("Pendulum-v1"), lambda obs: [0.0], "tests/taken-v0", 1, 0, "nothing")
    monkeypatch.setattr("llmwrappers.priors.minari_dataset.play", None)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_environment_that_cannot_be_made_again_is_refused():
    with pytest.raises(ValueError, match="needs an environment made with gym.make, got <Echo"):
        record_dataset(Echo(), lambda obs: [0.0, 0.0], "tests/echo-v0", 1, 0, "nothing")


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'pip install "llmwrappers\[minari\]"'):
        record_dataset(gym.make("Pendulum-v1"), lambda obs: [0.0], "tests/none-v0", 1, 0, "nothing")


def test_a_policy_that_fails_is_not_recorded(tmp_path, capsys):
    prior = tmp_path / "prior.py"
    prior.write_text("n = 0\ndef policy(obs):\n    global n\n    n += 1\n    return [1 / (n % 2)]\n")
    with pytest.raises(SystemExit):
        main(["--env-id", "Pendulum-v1", "--prior", str(prior), "--episodes", "2", "--minari", "tests/fails-v0"])
    assert "200 of 400 calls of the policy failed, the first with: line 5: ZeroDivisionError" in capsys.readouterr().err
    assert "tests/fails-v0" not in minari.list_local_datasets()
