"""Environments of other packages, as strangers would bring them: trained for 2000 steps, wrapped, their prompts rendered.

::

    pip install -e ".[test,zoo]"
    pytest tests/zoo.py -m slow          # what trains must train, what is refused must be refused in one sentence
    python tests/zoo.py [PACKAGE ...]    # the table in docs/environments.md, or some packages' part of it

Packages that are not installed are skipped with a note; docs/environments.md says how to install what the extra leaves out.
"""

import importlib.metadata
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, load_script
from gymnasium.spaces import Box, Dict, Tuple

from llmwrappers import LLMActionMask
from llmwrappers.errors import UserError
from llmwrappers.making import make, render_without_display
from local_llm.prompting.render import render_prompt

LONGEST_CELL = 80
TRAINING = {
    "prior": "random", "total-timesteps": 2000, "clone-steps": 500, "num-steps": 250, "num-minibatches": 5,
    "clone-minibatches": 5, "eval-episodes": 1, "eval-every": 2000,
}  # fmt: skip


@dataclass(frozen=True)
class Animal:
    """An environment: the packages it needs, how it is made, and, if it cannot be trained, the reason that is given."""

    packages: str
    env_id: str
    env_kwargs: dict = field(default_factory=dict)
    refused: str = ""

    @property
    def versions(self) -> str | None:
        """The packages with their versions; None where one is not installed."""
        try:
            return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.packages.split(", "))
        except importlib.metadata.PackageNotFoundError:
            return None


IMAGES, VECTORS, ACTIONS = "images must be uint8 of shape", "rewards must be numbers", "gymnasium.wrappers.TransformAction"
IMAGE_IN_DICT = "gymnasium.wrappers.FilterObservation"
BOARD = {"num_rows": 6, "num_cols": 6, "num_colours": 4, "num_moves": 20, "colourless_specials": [], "colour_specials": []}
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
    Animal("gym_electric_motor", "gym_electric_motor:Cont-CC-PMSM-v0"),
    Animal("gym_electric_motor", "gym_electric_motor:Finite-CC-PermExDc-v0"),
    Animal("PyFlyt", "PyFlyt.gym_envs:PyFlyt/QuadX-Hover-v4"),
    Animal("popgym", "popgym:popgym-AutoencodeEasy-v0"),
    Animal("popgym", "popgym:popgym-BattleshipEasy-v0", refused=ACTIONS),
    Animal("gym-anytrading", "gym_anytrading:stocks-v0"),
    Animal("tetris-gymnasium", "tetris_gymnasium.envs:tetris_gymnasium/Tetris"),
    Animal("flappy-bird-gymnasium", "flappy_bird_gymnasium:FlappyBird-v0"),
    Animal("gymnasium-snake-game", "gymnasium_snake_game:Snake-v1"),
    Animal("gymnasium-2048", "gymnasium_2048:gymnasium_2048/TwentyFortyEight-v0"),
    Animal("gymnasium-search-race", "gymnasium_search_race:gymnasium_search_race/SearchRaceDiscrete-v3"),
    Animal("gymnasium-cartpole-swingup", "gymnasium_cartpole_swingup:CartPoleSwingUp-v0"),
    Animal("gym-simplegrid", "gym_simplegrid:SimpleGrid-4x4-v0"),
    Animal("mazegym", "mazegym:Maze5x5Fixed-v0"),
    Animal("tile-match-gym", "tile_match_gym:TileMatch-v0", BOARD),
    Animal("gym-multigrid", "gym_multigrid:multigrid-collect-single-v0", refused="pip install 'numpy<2'"),
    Animal("lbforaging", "lbforaging:Foraging-8x8-2p-1f-v3", refused=ACTIONS),
    Animal("rware", "rware:rware-tiny-2ag-v2", refused=ACTIONS),
    Animal("vizdoom", "vizdoom.gymnasium_wrapper:VizdoomBasic-v1", refused=IMAGE_IN_DICT),
    Animal("gym-hil", "gym_hil:gym_hil/PandaPickCubeBase-v0"),
    Animal("gym-sailing", "gym_sailing:Sailboat-v0"),
    Animal("gym-invmgmt", "gym_invmgmt:GymInvMgmt/Serial-v0"),
    Animal("stokasta", "stokasta:stokasta/DynamicInventory-v0"),
    Animal("glucosim", "glucosim:glucosim/BasalControl-v0"),
    Animal("crosswalk-env", "crosswalk_env:crosswalk-v1"),
    Animal("carl-bench", "carl:carl/CARLPendulum-v0"),
    Animal("pybullet-envs-gymnasium", "pybullet_envs_gymnasium:HopperBulletEnv-v0"),
    Animal("racingenv", "racingenv:Racing-features-v2", refused="pip install 'numpy<2'"),
    Animal("memory-gym", "memory_gym:MysteryPath-Grid-v0", refused=IMAGES),
    Animal("gl-gym", "gl_gym:gl_gym/GreenLightTomato-v0"),
    Animal("gym-xarm", "gym_xarm:gym_xarm/XarmLift-v0"),
    Animal("miniworld", "miniworld:MiniWorld-Hallway-v0", refused="xvfb-run -a"),
    Animal("gym-trading-env", "gym_trading_env:TradingEnv", refused="register an environment of your own with it"),
    Animal("gym-trading-env", "strangers:Trading-v0"),
]


def spaces(animal: Animal) -> tuple[str, str]:
    """The spaces in a few words, also of what is refused; nothing of what cannot be made."""
    try:
        env = gym.make(animal.env_id, disable_env_checker=True, **animal.env_kwargs)
    except Exception:
        return "", ""
    env.close()
    return brief(env.observation_space), brief(env.action_space)


def brief(space: gym.Space) -> str:
    """A space in a few words: of a Dict with much in it the keys alone."""
    if isinstance(space, Dict):
        whole = f"Dict({', '.join(f'{key}: {brief(part)}' for key, part in space.spaces.items())})"
        return whole if len(whole) <= LONGEST_CELL else f"Dict({', '.join(space.spaces)})"
    if isinstance(space, Tuple):
        return f"Tuple({', '.join(map(brief, space.spaces))})"
    if space.dtype is not None and space.dtype.kind == "U":
        return "text"
    return f"Box{space.shape}" if isinstance(space, Box) else str(space)


def train(animal: Animal, folder: Path) -> str:
    """Trains; returns the sentence that refused it, or ""."""
    arguments = ["--env-id", animal.env_id, "--env-kwargs", json.dumps(animal.env_kwargs), "--runs-dir", str(folder)]
    arguments += [word for name, value in TRAINING.items() for word in (f"--{name}", str(value))]
    try:
        load_script(ROOT / "cleanrl_scripts" / "ppo_camel.py").main([*arguments, "--no-cuda", "--no-save-model"])
    except UserError as error:
        return str(error)
    return ""


def visit(animal: Animal, folder: Path) -> str:
    """Trains, renders and wraps; returns the sentence with which training was refused, or ""."""
    render_without_display()  # gym-hil renders before it plays; not at import, for every collection of the tests imports this
    said = train(animal, folder)
    try:
        prompt = render_prompt(animal.env_id, **animal.env_kwargs)
    except (gym.error.Error, TypeError, ValueError):
        if said:
            return said
        raise
    env = make(animal.env_id, **animal.env_kwargs)  # not before: memory-gym's close() ends all of its environments
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
    env.close()
    return said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # other packages' own
@pytest.mark.parametrize("animal", ZOO, ids=[f"{animal.env_id}{animal.env_kwargs or ''}" for animal in ZOO])
def test_a_strangers_environment_trains_or_is_refused_in_one_sentence(animal, tmp_path):
    if animal.versions is None:
        pytest.skip(f"{animal.packages} is not installed")
    said = visit(animal, tmp_path)
    assert bool(said) == bool(animal.refused), said
    assert animal.refused in said
    assert "\n" not in said


def rows(packages: list[str]) -> Iterator[list[str]]:
    """The rows of the table, of all packages or of those named."""
    for animal in ZOO:
        if packages and not set(animal.packages.split(", ")) & set(packages):
            continue
        name = f"`{animal.env_id}`" + (f" `{json.dumps(animal.env_kwargs)}`" if animal.env_kwargs else "")
        if animal.versions is None:
            yield [name, animal.packages, "", "", "not installed here, skipped"]
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other packages' own
            said = visit(animal, Path(folder)).removeprefix(f"--env-id {animal.env_id}: ")
            yield [name, animal.versions, *spaces(animal), f"refused: {said}" if said else "trains"]


def main() -> None:
    """Prints the table."""
    table = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed, by libraries in C, too
    print("| environment | packages | observation | action | what happened |\n| --- | --- | --- | --- | --- |", file=table)
    for row in rows(sys.argv[1:]):
        print(f"| {' | '.join(row)} |".replace("\n", " "), file=table, flush=True)


if __name__ == "__main__":
    main()
