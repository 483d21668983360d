"""cleanrl_scripts/watch.py: who plays, and the film of it."""

import re
import sys

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, load_script
from gymnasium.spaces import Box, Discrete
from imageio_ffmpeg import count_frames_and_secs

from llmwrappers.agent import save_agent
from llmwrappers.errors import UserError


@pytest.fixture
def watch(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    return load_script(ROOT / "cleanrl_scripts" / "watch.py").main


def test_a_film_shows_at_most_25_pictures_a_second_and_lasts_as_long_as_the_episode(watch, tmp_path, capsys):
    watch(["--env-id", "LunarLanderContinuous-v3", "--output", str(tmp_path / "film.mp4")])  # 50 steps a second
    found = re.search(r", seed 0: return \S+, (\d+) steps", capsys.readouterr().out)
    assert found
    frames, seconds = count_frames_and_secs(str(tmp_path / "film.mp4"))
    assert frames == -(-int(found[1]) // 2)
    assert seconds == pytest.approx(frames / 25, abs=0.05)


@pytest.mark.parametrize("also", [["--prior", "x.py"], ["--candidate", "2"], ["--env-kwargs", '{"g": 1.6}']])
def test_a_run_brings_its_agent_and_its_environment(watch, also):
    with pytest.raises(UserError, match=f"{also[0] if also[0] == '--env-kwargs' else '--prior'}"):
        watch(["--run", "runs/some", *also])


def test_the_agent_of_a_run_samples_on_discrete_actions_if_told_to(watch, tmp_path, capsys):
    layers = [("Linear", [np.zeros((2, 4), np.float32), np.float32([0.1, 0.0])], {})]
    facts = {"env_id": "CartPole-v1", "env_kwargs": "{}", "script": "ppo_ultra", "head": "categorical"}
    save_agent(tmp_path, facts, layers, Discrete(2), {})
    output = ["--output", str(tmp_path / "film.gif")]
    watch(["--run", str(tmp_path), *output])
    watch(["--run", str(tmp_path), "--sampled", *output])
    first, second = re.findall(r"return (\S+),", capsys.readouterr().out)
    assert float(first) < 12 < float(second)  # always to the left; a coin
    with pytest.raises(UserError, match="--sampled is for the agent of a --run"):
        watch(["--env-id", "CartPole-v1", "--sampled", *output])
    layers[0] = ("Linear", [np.zeros((1, 3), np.float32), np.zeros(1, np.float32)], {})
    save_agent(tmp_path, {**facts, "env_id": "Pendulum-v1", "head": "tanh"}, layers, Box(-2, 2, (1,)), {})
    with pytest.raises(UserError, match="--sampled is for Discrete actions"):
        watch(["--run", str(tmp_path), "--sampled", *output])


def test_the_way_out_for_a_prior_of_another_environment_is_an_option(watch, tmp_path, capsys):
    film = tmp_path / "film.gif"
    arguments = ["--env-id", "InvertedPendulum-v4", "--prior", "Pendulum-v1", "--output", str(film)]
    with pytest.raises(UserError, match="--prior-of-another-env"):
        watch(arguments)
    watch([*arguments, "--prior-of-another-env"])
    assert film.exists()


def test_a_seed_is_not_negative(watch):
    with pytest.raises(UserError, match="--seed must be at least 0, got -1"):
        watch(["--env-id", "Pendulum-v1", "--seed", "-1"])


@pytest.mark.filterwarnings("ignore:.*No render fps was declared")
def test_actions_that_nothing_plays_are_refused(watch, tmp_path):
    gym.register("llmwrappers-tests/Buttons-v0", entry_point=Buttons)
    with pytest.raises(UserError, match="needs a Discrete action space or a Box of floats with finite bounds, got MultiBinary"):
        watch(["--env-id", "llmwrappers-tests/Buttons-v0", "--output", str(tmp_path / "film.mp4")])


class Buttons(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": None}  # noqa: RUF012
    observation_space, action_space = gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.MultiBinary(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, True, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


@pytest.mark.filterwarnings("ignore:.*No render fps was declared")
def test_an_environment_without_a_frame_rate_is_filmed_at_30(watch, tmp_path):
    gym.register("llmwrappers-tests/Button-v0", entry_point=Button)
    watch(["--env-id", "llmwrappers-tests/Button-v0", "--output", str(tmp_path / "film.gif")])
    assert (tmp_path / "film.gif").exists()


class Button(Buttons):
    action_space = gym.spaces.Discrete(2)


def test_what_rendering_needs_is_said_in_one_sentence(watch, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match=r"^Pendulum-v1 cannot be rendered: .*pip install"):
        watch(["--env-id", "Pendulum-v1", "--output", str(tmp_path / "film.mp4")])


def test_a_prior_that_fails_is_not_filmed_without_a_word(watch, tmp_path, capsys):
    prior, film = tmp_path / "prior.py", tmp_path / "film.gif"
    arguments = ["--env-id", "Pendulum-v1", "--prior", str(prior), "--output", str(film)]
    prior.write_text("def policy(obs):\n    return [0.1], None\n")
    with pytest.raises(UserError, match=r"failed in every step, .*the policy returned \(\[0\.1\], None\), .*only the action"):
        watch(arguments)
    assert not film.exists()
    prior.write_text("n = 0\ndef policy(obs):\n    global n\n    n += 1\n    return [1 / (n - 3)]\n")
    watch(arguments)
    assert "200 steps; 1 calls failed, the first with: line 5: ZeroDivisionError" in capsys.readouterr().out
