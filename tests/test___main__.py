"""The command llmwrappers: every word leads to its module; what is missing is named with its extra."""

import importlib.util
import os
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from llmwrappers.__main__ import COMMANDS, main


def run(*arguments, **environment):
    command = [sys.executable, "-m", "llmwrappers", *arguments]
    environment = {**os.environ, "WANDB_MODE": "offline", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # by another test
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code in (0, None)
    assert f"usage: llmwrappers {name} " in capsys.readouterr().out


def test_without_a_command_they_are_listed(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"llmwrappers {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"), [(["trian", "ppo-camel"], "'trian'"), (["train"], "'train'"), (["train", "sac"], "'train sac'")]
)
def test_an_unknown_command_is_said(words, said, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"llmwrappers: error: no command {said}\n")


def test_it_does_what_the_module_does():
    done = run("priors", "--env-id", "Pendulum-v1", "--candidate", "1", "--episodes", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Pendulum-v1, episodes seeded 0 to 0" in done.stdout


def test_the_older_versions_of_the_papers_are_no_news():
    done = run("prompt", "--env-id", "Hopper-v4")
    assert (done.returncode, "out of date" in done.stderr) == (0, False)


def test_an_error_of_the_module_keeps_its_exit_code():
    done = run("train", "td3-camel", "--env-id", "CartPole-v1", "--prior", "none")
    assert done.returncode == 1
    assert "error: --env-id CartPole-v1: TD3 needs a Box action space" in done.stderr


def test_ctrl_c_ends_a_command_in_one_sentence():
    command = [sys.executable, "-m", "llmwrappers", "priors", "--env-id", "Hopper-v4", "--episodes", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("Hopper-v4, episodes seeded"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "llmwrappers priors: stopped\n")


def test_a_command_that_cannot_render_says_so_before_anything_else(tmp_path):
    hidden = {"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa", "LD_LIBRARY_PATH": str(tmp_path), "DISPLAY": ""}
    (tmp_path / "libOSMesa.so").write_text("not a library")
    (tmp_path / "libOSMesa.so.8").write_text("not a library")
    for command in (["demo"], ["watch", "--env-id", "Hopper-v4"]):
        done = run(*command, **hidden)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith("without a display set MUJOCO_GL=egl, which needs libegl1, or osmesa)\n")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "missing", "extra"), [("compare", "tyro", "train"), ("train ppo-camel", "torch", "train")])
def test_a_missing_package_is_named_with_its_extra(name, missing, extra, monkeypatch, capsys):
    module = COMMANDS[name][0]
    for loaded in [key for key in sys.modules if key.partition(".")[0] in ("local_llm", "cleanrl_scripts")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, missing, None)
    assert importlib.util.find_spec(module)
    assert main(name.split()) == 2
    assert capsys.readouterr().err == f'llmwrappers {name}: error: it needs {missing}: pip install "llmwrappers[{extra}]"\n'


def test_a_package_that_an_environment_misses_is_not_taken_for_ours(monkeypatch):
    monkeypatch.setattr("runpy.run_module", lambda *_, **__: __import__("missing_physics"))  # from this file
    with pytest.raises(ModuleNotFoundError, match="missing_physics"):
        main(["train", "ppo-camel"])


def test_the_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for _, _, extra in COMMANDS.values()} - {""} <= set(extras)


@pytest.mark.slow
def test_the_wheel_holds_all_that_the_commands_need(tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{module.replace('.', '/')}.py" for module, _, _ in COMMANDS.values()} <= held
    assert {"prompts/camel.md", "llmwrappers/critical_states/shipped/Hopper-v4/agent.pt"} <= held
    assert {Path(name).parts[0] for name in held if ".dist-info" not in name} == {
        "llmwrappers", "local_llm", "prompts", "cleanrl_scripts",
    }  # fmt: skip
    assert not [name for name in held if name.endswith("trajectories.npz")]
