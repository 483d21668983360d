"""Measuring a policy: what cannot be measured is said in a sentence."""

import json
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest

from llmwrappers.making import make
from llmwrappers.priors.__main__ import main
from llmwrappers.priors.measurement import keep_returns, measure


def test_rewards_that_are_vectors_are_one_sentence():
    env = gym.wrappers.TransformReward(make("llmwrappers-tests/OneStep-v0"), lambda reward: np.array([reward, 1.0]))
    with pytest.raises(ValueError, match=r"rewards must be numbers, got array.*mo_gymnasium\.wrappers\.LinearReward"):
        measure(env, lambda obs: [0.0], episodes=1, seed=0)


def test_the_returns_of_a_policy_that_was_there_are_replaced(tmp_path):
    path = tmp_path / "new" / "alone.csv"
    for policy, value in (("prior", 1.0), ("other", 2.0), ("prior", 3.0)):
        keep_returns(path, "Pendulum-v1", policy, [value], seed=0)
    assert path.read_text().splitlines()[1:] == ["Pendulum-v1,other,0,2.0", "Pendulum-v1,prior,0,3.0"]


def test_the_command_keeps_each_return(tmp_path, capsys):
    path = tmp_path / "alone.csv"
    main(["--env-id", "Pendulum-v1", "--prior", "Pendulum-v1", "--episodes", "2", "--seed", "5", "--csv", str(path)])
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    assert [row[:3] for row in rows] == [["Pendulum-v1", "prior", "5"], ["Pendulum-v1", "prior", "6"]]
    mean = sum(float(row[3]) for row in rows) / 2
    assert f"{mean:.1f} +-" in capsys.readouterr().out


def test_a_row_is_called_after_its_file_and_what_is_replaced_is_said(tmp_path, capsys):
    path = tmp_path / "alone.csv"
    for name in ("zero", "one", "zero"):
        prior = tmp_path / f"{name}.py"
        prior.write_text("def policy(obs):\n    return [0.0]\n")
        main(["--env-id", "Pendulum-v1", "--prior", str(prior), "--episodes", "2", "--csv", str(path)])
    assert capsys.readouterr().out.count("replaced 2 rows of zero in Pendulum-v1") == 1
    assert [line.split(",")[1] for line in path.read_text().splitlines()[1:]] == ["one", "one", "zero", "zero"]


def test_a_csv_of_something_else_stays(tmp_path, capsys):
    path = tmp_path / "curves.csv"
    path.write_text("env_id,arm\nHopper-v4,none\n")
    with pytest.raises(SystemExit):
        main(["--env-id", "Pendulum-v1", "--prior", "Pendulum-v1", "--episodes", "1", "--csv", str(path)])
    said = capsys.readouterr()
    assert "has the columns env_id, arm" in said.err
    assert said.out == ""  # nothing was played for nothing
    assert path.read_text() == "env_id,arm\nHopper-v4,none\n"


def test_endings_are_numbers_of_python(tmp_path):
    class Cut(gym.Wrapper):
        def step(self, action):
            observation, reward, _, truncated, info = self.env.step(action)
            return observation, reward, np.bool_(observation[0] > -2), truncated, info

    measurement = measure(Cut(gym.make("Pendulum-v1")), lambda obs: [0.0], episodes=2, seed=0)
    assert json.loads(json.dumps(asdict(measurement)))["terminated"] == 2
