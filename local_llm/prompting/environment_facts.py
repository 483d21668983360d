"""What an environment knows of itself beyond its spaces: control time step, time limit, names of actions, MuJoCo model.

Nothing is stated that may be wrong: an attribute of the right name is believed where something else agrees with it.
"""

import dataclasses
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Dict, Discrete

from local_llm.prompting.bare_model import bare_model

# A model with its meshes named is some ten thousand characters; what is longer would crowd out the rest of a prompt.
LONGEST_MODEL = 60_000


def control_step(env: gym.Env) -> float | None:
    """Returns the seconds between two actions; None if it is not sure: ``dt`` may be that of the physics below.

    Example:
        >>> control_step(gym.make("InvertedPendulum-v5"))
        0.04
        >>> control_step(gym.make("CartPole-v1"))
    """
    simulator: Any = env.unwrapped
    dt, frames_a_second = getattr(simulator, "dt", None), simulator.metadata.get("render_fps")
    frames = getattr(simulator, "frame_skip", getattr(simulator, "n_substeps", None))
    time_step = getattr(getattr(getattr(simulator, "model", None), "opt", None), "timestep", None)
    known = [1 / frames_a_second] if frames_a_second else []
    known += [time_step * frames] if time_step and frames else []
    if (adapted := of_dm_control(env)) is not None:
        return float(adapted.control_timestep())
    return dt if isinstance(dt, float) and any(math.isclose(dt, step, rel_tol=0.02) for step in known) else None


def of_dm_control(env: gym.Env) -> Any:
    """Returns dm_control's environment that this one makes Gymnasium's; None of any other."""
    held = getattr(env.unwrapped, "_env", None)
    return held if type(held).__module__.startswith("dm_control.") else None


def step_limit(env: gym.Env) -> int | None:
    """Returns after how many steps an episode is cut off, by a wrapper or by the environment's own count; None if unknown.

    Example:
        >>> step_limit(gym.make("CartPole-v1")), step_limit(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 20))
        (500, 20)
    """
    limits = list(_limits(env))
    return min(limits) if limits else None


def _limits(env: gym.Env) -> Iterator[int]:
    layer, own = env, env.unwrapped
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit):
            yield int(layer._max_episode_steps)
        layer = layer.env
    # MiniGrid's, Meta-World's, dm_control's; highway-env's is in seconds.
    config = getattr(own, "config", None)
    config = config if isinstance(config, dict) else {}
    counts = [getattr(own, "max_steps", None), getattr(own, "max_path_length", None)]
    counts.append(getattr(getattr(own, "_env", None), "_step_limit", None))
    if "duration" in config and "policy_frequency" in config:
        counts.append(config["duration"] * config["policy_frequency"])
    yield from (int(count) for count in counts if isinstance(count, int | float) and 0 < count < math.inf)


def action_names(env: gym.Env) -> str | None:
    """Returns what the actions of a Discrete space are called, as Atari, highway-env, MiniGrid and Tetris tell; or None.

    Example:
        >>> action_names(gym.make("CartPole-v1"))
    """
    space, own = env.action_space, env.unwrapped
    if not isinstance(space, Discrete):
        return None
    names: Any = None
    meanings: Any = getattr(own, "get_action_meanings", None)
    if meanings is not None:
        names = dict(enumerate(meanings()))
    elif isinstance(of_highway := getattr(getattr(own, "action_type", None), "actions", None), dict):
        names = of_highway
    elif isinstance(of_minigrid := getattr(getattr(own, "actions", None), "__members__", None), Mapping):
        values = {name: getattr(value, "value", value) for name, value in of_minigrid.items()}
        names = {value: name for name, value in values.items() if isinstance(value, int)}
    elif dataclasses.is_dataclass(of_tetris := getattr(own, "actions", None)):
        names = {value: name for name, value in vars(of_tetris).items() if isinstance(value, int)}
    if names is None or set(names) != set(range(int(space.start), int(space.start + space.n))):
        return None
    return ", ".join(f"{number} {names[number]}" for number in sorted(names))


def grid_words(env: gym.Env) -> str | None:
    """Returns what the numbers in a MiniGrid's image are, which its documentation leaves to its source; None of another image.

    Example:
        >>> grid_words(gym.make("CartPole-v1"))
    """
    own: Any = env.unwrapped
    image = _image(env.observation_space)
    numbers: Any = sys.modules.get("minigrid.core.constants")
    if image is None or numbers is None or image is not _image(own.observation_space) or not hasattr(own, "agent_view_size"):
        return None

    def listed(table: dict[str, int]) -> str:
        return ", ".join(f"{number} {name}" for name, number in table.items())

    size = int(own.agent_view_size)
    return (
        f"`obs['image'][i, j]` is (object, colour, state) of a cell in the agent's view, which is turned with it: the agent is "
        f"at i = {size // 2}, j = {size - 1} and looks towards j = 0; i grows to its right. What it carries stands in its own "
        f"cell. Objects: {listed(numbers.OBJECT_TO_IDX)}. Colours: {listed(numbers.COLOR_TO_IDX)}. States, of doors: "
        f"{listed(numbers.STATE_TO_IDX)}. Directions: 0 right, 1 down, 2 left, 3 up."
    )


def _image(space: gym.Space) -> gym.Space | None:
    return space.spaces.get("image") if isinstance(space, Dict) else None


def model_xml(env: gym.Env, shown: dict[str, str] | None) -> str | None:
    """Returns the MuJoCo model that the environment runs, what it includes put in place; without what only a picture needs.

    With ``shown`` it is the file as it is, or what ``shown`` has for a file of its name.
    """
    text = _model_text(env, shown or {})
    if text and shown is None:
        text = bare_model(text)
    return text if text and len(text) <= LONGEST_MODEL else None


def _model_text(env: gym.Env, shown: dict[str, str]) -> str | None:
    own: Any = env.unwrapped
    text, path = None, getattr(own, "fullpath", None)
    if path:
        path = Path(path)
        text = path.with_name(shown.get(path.name, path.name)).read_text("utf-8")
        if "<include" not in text:
            return text
    adapted = of_dm_control(env)
    model = getattr(own, "model", None) if adapted is None else adapted.physics.model.ptr
    if not type(model).__module__.startswith("mujoco"):
        return text
    import mujoco

    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        try:
            mujoco.mj_saveLastXML(file.name, model)  # pyright: ignore[reportAttributeAccessIssue]
        except Exception:  # made by other means than from XML
            return text
        return Path(file.name).read_text("utf-8")
