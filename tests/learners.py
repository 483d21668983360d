"""Learners of other libraries, each in a virtual environment of its own: trained in the mask, evaluated alone, deployed.

::

    pytest tests/learners.py -m slow             # minutes each: installs, then plays tests/learner_scripts/with_NAME.py
    pytest tests/learners.py -m slow -k TorchRL

docs/guides/learners.md shows parts of these scripts, which must be in them. Stable-Baselines3, sb3-contrib and SBX are in
tests/sb3/test_sb3.py.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT


@dataclass(frozen=True)
class Learner:
    """A library: what is imported, what pip is told to install, which Gymnasium that brings."""

    name: str
    module: str
    requirements: tuple[str, ...]

    @property
    def script(self) -> Path:
        return ROOT / "tests" / "learner_scripts" / f"with_{self.module}.py"


MUJOCO = "gymnasium[mujoco]>=1.2,<2"
LEARNERS = [
    Learner("TorchRL", "torchrl", ("torchrl==0.14.1", MUJOCO)),
    Learner("Tianshou", "tianshou", ("tianshou==2.0.1", MUJOCO)),
    Learner("skrl", "skrl", ("skrl==2.1.1", MUJOCO)),
    Learner("AgileRL", "agilerl", ("agilerl==2.58.0", "peft==0.21.2")),
    Learner("RLlib", "ray", ("ray[rllib]==2.60.0",)),
    Learner("d3rlpy", "d3rlpy", ("d3rlpy==2.8.1", "minari[hdf5]==0.5.4", "pillow")),
]


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_it_trains_stores_what_was_played_and_acts_alone(learner, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MINARI_DATASETS_PATH": str(tmp_path), "WANDB_MODE": "offline"}
    record = ["-m", "llmwrappers.priors", "--env-id", "Pendulum-v1", "--minari", "pendulum/prior-v0"]
    subprocess.run([sys.executable, *record], env=environment, check=True)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "-q", "torch>=2.6,<2.14", *learner.requirements], check=True)
    played = subprocess.run(
        [venv / "bin" / "python", learner.script],
        env={**environment, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr[-4000:]
    assert "alone:" in played.stdout
