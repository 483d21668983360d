"""cleanrl_scripts/watch.py: who plays, and the film of it."""

import re
import sys

import pytest
from conftest import ROOT, load_script
from imageio_ffmpeg import count_frames_and_secs

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


def test_what_rendering_needs_is_said_in_one_sentence(watch, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match=r"^Pendulum-v1 cannot be rendered: .*pip install"):
        watch(["--env-id", "Pendulum-v1", "--output", str(tmp_path / "film.mp4")])
