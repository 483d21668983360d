"""cleanrl_scripts/demo.py: what is refused before a minute of training."""

import gymnasium as gym
import numpy as np
import pytest

from cleanrl_scripts import demo
from llmwrappers.agent import save_agent
from llmwrappers.errors import UserError


@pytest.mark.parametrize("name", ["--episodes", "--steps", "--every", "--side", "--total-timesteps"])
def test_a_number_that_makes_no_film_is_refused_first(name, monkeypatch):
    monkeypatch.setattr(demo, "train", lambda steps: pytest.fail("it trained"))
    with pytest.raises(UserError, match=f"{name} must be at least 1, got 0"):
        demo.main([name, "0"])


def test_a_run_is_one_of_the_walker(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "make_rendering", lambda env_id: gym.make(env_id))
    with pytest.raises(UserError, match="nowhere"):
        demo.main(["--run", str(tmp_path / "nowhere")])
    facts = {"env_id": "Pendulum-v1", "env_kwargs": "{}", "script": "ppo_camel", "head": "gaussian"}
    layers = [("Linear", [np.zeros((1, 3), np.float32), np.zeros(1, np.float32)], {})]
    save_agent(tmp_path, facts, layers, gym.make("Pendulum-v1").action_space, {})
    with pytest.raises(UserError, match="--run .* is of Pendulum-v1; the film is of Walker2d-v4"):
        demo.main(["--run", str(tmp_path)])


def test_the_agent_is_the_one_just_trained_whatever_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "Walker2d-v4__ppo_camel__auto__1__kept").mkdir(parents=True)

    class Ended:
        returncode = 0

    def run(command, check):
        (tmp_path / "runs" / "Walker2d-v4__ppo_camel__auto__1__1795786501").mkdir()
        return Ended()

    monkeypatch.setattr(demo.subprocess, "run", run)
    assert demo.train(1000).name == "Walker2d-v4__ppo_camel__auto__1__1795786501"
