"""Checks that a prior plays in the environment that it was written for, and reads its observations."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from gymnasium.envs.registration import parse_env_id
from gymnasium.spaces import Box, Dict, Discrete, Tuple

WAY_OUT = "prior_of_another_env=True (--prior-of-another-env) plays it all the same"


def family(env_id: str) -> tuple[str | None, str]:
    """Returns an environment's namespace and name: its id without module and version.

    Example:
        >>> family("my_package:mine/Push-v2")
        ('mine', 'Push')
    """
    return parse_env_id(env_id.rpartition(":")[2])[:2]


def space_facts(space: gym.Space, with_bounds: bool = False) -> Any:
    """Returns the facts of a space that a prior's code depends on, in JSON's types: shapes, names, sizes; an action's bounds.

    Example:
        >>> space_facts(Dict(speed=Box(-1, 1, (3,)), gear=Discrete(5)))
        {'gear': {'n': 5, 'start': 0}, 'speed': {'shape': [3]}}
        >>> space_facts(Box(-2, 2, (1,)), with_bounds=True)
        {'shape': [1], 'low': -2.0, 'high': 2.0}
    """
    if isinstance(space, Dict):  # without text, which no prior here was shown
        parts = {key: part for key, part in sorted(space.spaces.items()) if part.dtype != np.dtype(str)}
        return {key: space_facts(part, with_bounds) for key, part in parts.items()}
    if isinstance(space, Tuple):
        return [space_facts(part, with_bounds) for part in space.spaces]
    if isinstance(space, Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    facts: dict[str, Any] = {"shape": None if space.shape is None else list(space.shape)}
    if isinstance(space, Box) and with_bounds:
        for name, bound in (("low", space.low), ("high", space.high)):
            numbers = np.unique(bound)
            facts[name] = float(numbers[0]) if len(numbers) == 1 else bound.tolist()
    return facts


def env_facts(env: gym.Env) -> dict[str, Any]:
    """Returns the facts of both spaces of an environment, as ``provenance.json`` keeps them."""
    return {"observation": space_facts(env.observation_space), "action": space_facts(env.action_space, with_bounds=True)}


def warn_of_changed_units(env: gym.Env, prior_input: str | None, prior_of_another_env: bool) -> None:
    """Warns if a prior reads observations that are normalised, rescaled or stacked, or if its actions would be rescaled."""
    if not prior_of_another_env:
        warn_of_rescaled_actions(env, "LLMActionMask", "Leave it out: the mask itself takes actions in [-1, 1]", stacklevel=4)
    if prior_input is None:
        around = "the mask (with begin_as: a VecNormalize around the environments)"
        warn_of_changed_observations(env, "LLMActionMask", "the prior", around, stacklevel=4)


def warn_of_changed_observations(env: gym.Env, wrapper: str, reader: str, around: str = "it", stacklevel: int = 3) -> None:
    """Warns if observations are normalised, rescaled or stacked before a wrapper hands them to a prior or guidance."""
    changing = wrappers.NormalizeObservation, wrappers.RescaleObservation, wrappers.FrameStackObservation
    for name in found_below(env, changing):
        warnings.warn(
            f"{name} lies below {wrapper}, so {reader} is handed what {name} makes of an observation. Put it around "
            f"{around}, unless {reader} was written for it",
            stacklevel=stacklevel,
        )


def warn_of_rescaled_actions(env: gym.Env, wrapper: str, way_out: str, stacklevel: int = 3) -> None:
    """Warns if an action in the environment's own units would be scaled once more on its way there."""
    for name in found_below(env, (wrappers.RescaleAction,)):
        warnings.warn(
            f"{name} lies below {wrapper}, which then takes actions in the units of {name}, not in the environment's. "
            f"{way_out}, unless the actions were written for it",
            stacklevel=stacklevel,
        )


def found_below(env: gym.Env, classes: tuple[type[gym.Wrapper], ...]) -> Iterator[str]:
    """Yields the names of an environment's wrappers of these classes, as far as gym.make's OrderEnforcing.

    What lies below that belongs to the environment, and what was written for it knows its units.
    """
    while isinstance(env, gym.Wrapper) and not isinstance(env, wrappers.OrderEnforcing):
        if isinstance(env, classes):
            yield type(env).__name__
        env = env.env


def require_written_for(folder: Path, env: gym.Env, prior_input: str | None, name: str) -> None:
    """Raises a ValueError if ``provenance.json`` says that a prior was written for another environment, or for other spaces.

    That is so if none of the environments that it serves has the id, in any version, or none has the spaces.
    """
    facts = json.loads((folder / "provenance.json").read_text("utf-8"))
    serves, written_for = facts.get("serves"), facts.get("spaces")
    env_id = env.spec.id if env.spec else None
    if serves and env_id and family(env_id) not in map(family, serves):
        raise ValueError(f"the prior {name!r} was written for {', '.join(serves)}, not for {env_id}; {WAY_OUT}")
    found = env_facts(env)
    parts = ("action",) if prior_input else ("observation", "action")
    if written_for and not any(all(spaces[part] == found[part] for part in parts) for spaces in written_for.values()):
        known = [{part: spaces[part] for part in parts} for spaces in written_for.values()]
        different = [part for part in parts if all(spaces[part] != found[part] for spaces in known)] or parts
        said = "; ".join(
            f"its {part} is {' or '.join(dict.fromkeys(json.dumps(spaces[part]) for spaces in known))}, here it is "
            f"{json.dumps(found[part])}"
            for part in different
        )
        raise ValueError(
            f"the prior {name!r} was written for another form of {env_id or 'this environment'}: {said}; {WAY_OUT}"
        )
