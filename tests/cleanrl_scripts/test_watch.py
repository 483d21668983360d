"""cleanrl_scripts/watch.py: who plays, and the film of it."""

import json
import re
import sys

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, load_script
from gymnasium.spaces import Box, Discrete
from imageio_ffmpeg import count_frames_and_secs
from PIL import Image, ImageSequence

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


class Canvas(gym.Env):
    """Draws each picture into the same array; observes a list."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space, action_space = Box(0, 1, (1,), np.float32), Discrete(2)

    def __init__(self, render_mode=None, env_id="", colours=3):
        self.render_mode, self.steps = render_mode, 0
        self.canvas = np.zeros((16, 16, colours) if colours else (16, 16), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return [0.0], {}

    def step(self, action):
        self.steps += 1
        return [self.steps / 8], float(action), self.steps == 8, False, {}

    def render(self):
        self.canvas[:] = 30 * self.steps
        return self.canvas


@pytest.mark.filterwarnings("ignore")  # Gymnasium's, of lists and of pictures that are not RGB
@pytest.mark.parametrize("colours", [0, 1, 3, 4])
@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_every_picture_of_a_canvas_is_in_the_film(watch, tmp_path, capsys, colours, name):
    gym.register("llmwrappers-tests/Canvas-v0", entry_point=Canvas)
    prior = tmp_path / "prior.py"
    prior.write_text("def policy(obs):\n    return int(obs.sum() > 0.5)\n")
    arguments = ["--env-id", "llmwrappers-tests/Canvas-v0", "--prior", f"trusted:{prior}"]
    kwargs = json.dumps({"colours": colours, "env_id": "an argument of the environment's own"})
    watch([*arguments, "--env-kwargs", kwargs, "--output", str(tmp_path / "new" / name)])
    assert "return 3.0, 8 steps\n" in capsys.readouterr().out
    if name.endswith("gif"):
        with Image.open(tmp_path / "new" / name) as film:
            shades = [np.asarray(picture.convert("L")).mean() for picture in ImageSequence.Iterator(film)]
        np.testing.assert_allclose(shades, 30 * np.arange(1, 9), atol=4)


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_played(watch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        watch(["--env-id", "Pendulum-v1", "--output", str(tmp_path / "file" / "film.gif")])
    assert not capsys.readouterr().out


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
