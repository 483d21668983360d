"""Stop: a run ends when it is told to, whatever the environment does with exceptions."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import ROOT

from cleanrl_scripts.common.stop import run_script, stop

# Steps that drop whatever is raised in them; after `hang` steps one never returns.
ENVIRONMENT = """
import time
import gymnasium as gym
import numpy as np

class Swallowing(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, hang):
        self.hang, self.steps = hang, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps, self.length = self.steps + 1, self.length + 1
        while True:
            try:
                if self.steps == 200:
                    print("under way", flush=True)
                time.sleep(0.01 if self.steps >= 200 else 0)
            except BaseException:
                print("swallowed", flush=True)
            if not self.hang or self.steps < 200:
                return self.observation_space.sample(), 1.0, False, self.length == 20, {}

gym.register("Swallowing-v0", Swallowing, kwargs={"hang": False})
gym.register("Hanging-v0", Swallowing, kwargs={"hang": True})
"""


@pytest.fixture
def start(tmp_path):
    (tmp_path / "swallowing.py").write_text(ENVIRONMENT)
    started = []

    def started_run(script: str, env_id: str) -> subprocess.Popen:
        command = [sys.executable, str(ROOT / "cleanrl_scripts" / script), "--env-id", f"swallowing:{env_id}"]
        command += [
            "--prior",
            "none",
            "--eval-episodes",
            "1",
            "--no-cuda",
            "--compile",
            "off",
            "--runs-dir",
            str(tmp_path / "runs"),
        ]
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        while started[-1].stdout.readline() != "under way\n":
            assert started[-1].poll() is None
        return started[-1]

    yield started_run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("script", ["td3_camel.py", "ppo_camel.py"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_that_the_environment_swallows_ends_the_run_after_that_step(start, script, number):
    process = start(script, "Swallowing-v0")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "stopped at global_step" in out
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_step_that_never_returns(start, number):
    process = start("ppo_camel.py", "Hanging-v0")
    process.send_signal(number)
    while process.stdout.readline() != "swallowed\n":
        assert process.poll() is None
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number


def test_a_script_that_has_ended_leaves_the_process_as_it_was():
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(SystemExit) as leaving:
        run_script(lambda: signal.raise_signal(signal.SIGTERM), "script.py")
    assert leaving.value.code == 143
    assert [signal.getsignal(number) for number in numbers] == before
    stop.check()
