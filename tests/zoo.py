"""Twenty environments of ten packages, as strangers would bring them: wrapped, trained for 2000 steps, their prompts rendered.

::

    pip install -e ".[test,zoo]"
    pytest tests/zoo.py -m slow          # what trains must train, what is refused must be refused in one sentence
    python tests/zoo.py                  # the table in docs/environments.md

Packages that are not installed are skipped with a note.
"""

import importlib.util
import json
import os
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, load_script
from gymnasium.spaces import Box, Dict

from cleanrl_scripts.common.errors import UserError
from llmwrappers import LLMActionMask
from llmwrappers.making import make
from local_llm.prompting.render import render_prompt

LONGEST_CELL = 80
TRAINING = {
    "prior": "random", "total-timesteps": 2000, "clone-steps": 500, "num-steps": 250, "num-minibatches": 5,
    "clone-minibatches": 5, "eval-episodes": 1, "eval-every": 2000,
}  # fmt: skip


@dataclass(frozen=True)
class Animal:
    """An environment: who brings it, how it is made, and, if it cannot be trained, the reason that is given."""

    package: str
    env_id: str
    env_kwargs: dict = field(default_factory=dict)
    refused: str = ""

    @property
    def module(self) -> str:
        return self.env_id.partition(":")[0] if ":" in self.env_id else "gymnasium"


IMAGES, VECTORS = "images must be uint8 of shape", "rewards must be numbers"
ZOO = [
    Animal("gymnasium", "Acrobot-v1"),
    Animal("gymnasium", "Taxi-v4"),
    Animal("gymnasium", "Blackjack-v1"),
    Animal("gymnasium", "Pusher-v5"),
    Animal("gymnasium", "CarRacing-v3", refused=IMAGES),
    Animal("gymnasium-robotics", "gymnasium_robotics:FetchReach-v4"),
    Animal("gymnasium-robotics", "gymnasium_robotics:PointMaze_UMaze-v3"),
    Animal("gymnasium-robotics", "gymnasium_robotics:FrankaKitchen-v1"),
    Animal("minigrid", "minigrid:MiniGrid-DoorKey-5x5-v0"),
    Animal("minigrid", "minigrid:MiniGrid-FourRooms-v0"),
    Animal("highway-env", "highway_env:highway-fast-v0"),
    Animal("highway-env", "highway_env:parking-v0"),
    Animal("shimmy, dm_control", "shimmy:dm_control/walker-walk-v0"),
    Animal("shimmy, dm_control", "shimmy:dm_control/cartpole-swingup-v0"),
    Animal("panda-gym", "panda_gym:PandaReach-v3"),
    Animal("ale-py", "ale_py:ALE/Breakout-v5", refused=IMAGES),
    Animal("ale-py", "ale_py:ALE/Breakout-v5", {"obs_type": "ram"}),
    Animal("metaworld", "metaworld:Meta-World/MT1", {"env_name": "reach-v3"}),
    Animal("gym-pusht", "gym_pusht:gym_pusht/PushT-v0"),
    Animal("mo-gymnasium", "mo_gymnasium:deep-sea-treasure-v0", refused=VECTORS),
]


def visit(animal: Animal, folder: Path) -> tuple[gym.Env, str]:
    """Wraps, renders and trains; returns the environment, and what the training said where it refused it."""
    env = make(animal.env_id, **animal.env_kwargs)
    prompt = render_prompt(animal.env_id, **animal.env_kwargs)
    assert "Write one Python function `policy(obs)`" in prompt
    assert " at 0x" not in prompt
    space = env.action_space
    center = (space.low + space.high) / 2 if isinstance(space, Box) else np.ones(space.n)
    masked = LLMActionMask(env, lambda observation: center, radius=0.5)
    masked.action_space.seed(0)
    _, info = masked.reset(seed=0)
    for _ in range(5):
        assert info["mask_active"]
        _, _, terminated, truncated, info = masked.step(masked.action_space.sample())
        assert info["prior_faults"] == 0
        if terminated or truncated:
            break
    arguments = ["--env-id", animal.env_id, "--env-kwargs", json.dumps(animal.env_kwargs), "--runs-dir", str(folder)]
    arguments += [word for name, value in TRAINING.items() for word in (f"--{name}", str(value))]
    try:
        load_script(ROOT / "cleanrl_scripts" / "ppo_camel.py").main([*arguments, "--no-cuda", "--no-save-model"])
    except UserError as error:
        return env, str(error)
    return env, ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # other packages' own
@pytest.mark.parametrize("animal", ZOO, ids=[f"{animal.env_id}{animal.env_kwargs or ''}" for animal in ZOO])
def test_a_strangers_environment_trains_or_is_refused_in_one_sentence(animal, tmp_path):
    if importlib.util.find_spec(animal.module) is None:
        pytest.skip(f"{animal.package} is not installed")
    env, said = visit(animal, tmp_path)
    env.close()
    assert bool(said) == bool(animal.refused), said
    assert animal.refused in said


def brief(space: gym.Space) -> str:
    """A space in a few words: of a Dict with much in it the keys alone."""
    if isinstance(space, Dict):
        whole = f"Dict({', '.join(f'{key}: {brief(part)}' for key, part in space.spaces.items())})"
        return whole if len(whole) <= LONGEST_CELL else f"Dict({', '.join(space.spaces)})"
    if space.dtype is not None and space.dtype.kind == "U":
        return "text"
    return f"Box{space.shape}" if isinstance(space, Box) else str(space)


def main() -> None:
    """Prints the table."""
    table = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed, by libraries in C, too
    print("| environment | package | observation | action | what happened |\n| --- | --- | --- | --- | --- |", file=table)
    for animal in ZOO:
        name = f"`{animal.env_id}`" + (f" `{json.dumps(animal.env_kwargs)}`" if animal.env_kwargs else "")
        row = [name, animal.package, "", "", "not installed here, skipped"]
        if importlib.util.find_spec(animal.module) is not None:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other packages' own
                env, said = visit(animal, Path(folder))
            row[2:] = brief(env.observation_space), brief(env.action_space), "wrapped, trained, prompt rendered"
            if said:
                row[-1] = f"refused: {said.removeprefix(f'--env-id {animal.env_id}: ')}"
            env.close()
        print(f"| {' | '.join(row)} |".replace("\n", " "), file=table, flush=True)


if __name__ == "__main__":
    main()
