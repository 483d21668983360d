"""Makes environments from an id and the arguments of a command line; errors name what is wrong and the way out."""

import contextlib
import difflib
import importlib
import importlib.metadata
import json
import math
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Tuple
from gymnasium.wrappers import FilterObservation

from llmwrappers.action_spaces import require_action_space
from llmwrappers.bounded_episodes import bounded
from llmwrappers.files import make_importable

# From this version on, gymnasium-robotics' Fetch and hand environments cannot be made.
NEW_MUJOCO = (3, 12)
# Three axes are an image if two of them are at least this long; smaller arrays are boards, which networks read as vectors.
IMAGE_SIDE = 32
# Height and width of the images that the convolutional network of the PPO scripts takes.
NETWORK_IMAGE = (80, 80)
OF_RENDERING = ("render_mode", "camera_name")
# Prefix of a package's ids: the module that registers them, and the pip extra that installs it.
PACKAGES = {"ALE/": ("ale_py", "environments"), "MiniGrid-": ("minigrid", "grid"), "BabyAI-": ("minigrid", "grid")}


def env_kwargs_of(text: str) -> dict[str, Any]:
    """Returns the environment's arguments from the text of ``--env-kwargs``.

    Raises:
        ValueError: the text is not a JSON object

    Example:
        >>> env_kwargs_of('{"g": 1.62}')
        {'g': 1.62}
    """
    try:
        kwargs = json.loads(text)
    except ValueError:
        kwargs = None
    if not isinstance(kwargs, dict):
        raise ValueError(f"""--env-kwargs must be a JSON object, such as '{{"obs_type": "ram"}}', got {text!r}""")
    return kwargs


def way_out(error: Exception, rendering: bool = False) -> str:
    """Returns advice on an error that making or rendering an environment raised, or ""."""
    said = str(error)
    if isinstance(error, TypeError):  # an unknown or a missing argument
        is_missing = "required positional argument" in said
        return (
            " (give it with --env-kwargs, or, if it is no JSON, register an environment that passes it)" if is_missing else ""
        )
    if "NumPy 2.0" in said:
        return " (its package is for NumPy 1: pip install 'numpy<2')"
    if isinstance(error, gym.error.DependencyNotInstalled):  # its message names what to install
        return ' (pip install "llmwrappers[environments]")' if "box2d" in said.lower() else ""
    # Some environments render to observe. OpenGL is loaded without mujoco if MuJoCo imported it and then failed.
    if {"mujoco", "OpenGL"} & sys.modules.keys() and (rendering or "OpenGL" in said):
        gl = os.environ.get("MUJOCO_GL", "its default")
        return f" (MuJoCo renders with MUJOCO_GL={gl}; without a display set MUJOCO_GL=egl, which needs libegl1, or osmesa)"
    if "mujoco" not in sys.modules:
        is_of_display = "display" in f"{type(error).__name__} {said}".lower() and not has_display()
        return " (it needs a display: put xvfb-run -a before the command)" if is_of_display else ""
    version = importlib.metadata.version("mujoco")
    major, minor = map(int, version.split(".")[:2])
    if (major, minor) < NEW_MUJOCO:
        return ""
    return f" (MuJoCo {version} breaks environments of gymnasium-robotics and others that 3.8 runs: pip install 'mujoco<3.9')"


def make_rendering(env_id: str, /, render_mode: str = "rgb_array", **make_kwargs) -> gym.Env:
    """Makes an environment that renders, also on a machine without a display; its camera follows the moving body.

    It renders once here, so that a missing package raises before there is work to lose.

    Raises:
        gymnasium.error.Error: the environment cannot be rendered; and the errors of ``make_for_agent``
    """
    render_without_display()
    try:  # MuJoCo environments' default camera loses sight of the moving body
        env = make_for_agent(env_id, **make_kwargs, render_mode=render_mode, camera_name="track")
    except TypeError:
        env = make_for_agent(env_id, **make_kwargs, render_mode=render_mode)
    try:
        env.reset(seed=0)
        env.render()
        if env.render_mode != render_mode:
            raise ValueError(f"made with render_mode={render_mode!r} it has {env.render_mode!r}; its __init__ must keep it")
    except Exception as error:
        why = f"{type(error).__name__}: {error}{way_out(error, rendering=True)}"
        raise gym.error.Error(f"{env_id} cannot be rendered: {why}") from None
    return env


def alike(name: str, names: Iterable[str]) -> str:
    """Returns "; did you mean A, B, C?", with at most three similar names, or "" if none is similar.

    Example:
        >>> alike("Hoper-v4", ["Ant-v4", "Hopper-v4", "Hopper-v5"])
        '; did you mean Hopper-v4, Hopper-v5?'
    """
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.75)
    return f"; did you mean {', '.join(close)}?" if close else ""


def import_module_of(env_id: str) -> None:
    """Imports the module of ``module:Id``, which registers the environment, and checks that the environment exists.

    Raises:
        gymnasium.error.Error: the module or the environment does not exist; the message names the way out

    Example:
        >>> import_module_of("Hoper-v4")
        Traceback (most recent call last):
        ...
        gymnasium.error.UnregisteredEnv: no environment is called Hoper-v4; did you mean Hopper-v4, Hopper-v5, Hopper-v3?
    """
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            make_importable(Path.cwd())  # as python -m has it; a script has its own folder instead
            importlib.import_module(module)
    except Exception as error:  # pyglet without a display raises its own
        cause = f"{error}" if isinstance(error, ImportError) else f"{type(error).__name__}: {error}{way_out(error)}"
        raise gym.error.UnregisteredEnv(f"cannot import {module}, which should register {name}: {cause}") from None
    with contextlib.suppress(gym.error.Error):
        gym.spec(name)  # without a version, the name means the newest one
        return
    prefix = next((prefix for prefix in PACKAGES if name.startswith(prefix)), None)
    hint = alike(name, gym.registry)
    if prefix and not module:
        package, extra = PACKAGES[prefix]
        hint = f'; {package} registers such ids: {package}:{name} (pip install "llmwrappers[{extra}]")'
    elif not hint:
        hint = registered_by(module, name) if module else f"; if a package registers it, name the package, too: module:{name}"
    raise gym.error.UnregisteredEnv(f"no environment is called {name}{hint}")


def registered_by(module: str, name: str) -> str:
    """Returns the ids that an imported module registers instead of ``name``; if there are none, what may register it.

    Example:
        >>> print(registered_by("gymnasium", "Nowhere-v0"))
        ; gymnasium registers CartPole-v0, CartPole-v1, MountainCar-v0 and others
    """
    package = module.partition(".")[0]
    ids = [spec.id for spec in gym.registry.values() if _package_of(spec.entry_point) == package]
    if ids:
        return f"; {module} registers {', '.join(ids[:3])}{' and others' if len(ids) > 3 else ''}"
    inside = [part.name for part in pkgutil.iter_modules(getattr(sys.modules[module], "__path__", []))]
    likely = [f"{module}.{part}:{name}" for part in inside if "env" in part.lower()]
    instead = f"name the module in it that does ({' or '.join(likely)}), or " if likely else ""
    return f"; importing {module} registers nothing: {instead}write a file that registers it, and name that file's module"


def _package_of(entry_point: Any) -> str:
    where = entry_point if isinstance(entry_point, str) else getattr(entry_point, "__module__", None) or ""
    return where.partition(":")[0].partition(".")[0]


def has_display() -> bool:
    """Returns whether a window can be shown here."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def render_without_display() -> None:
    """Makes MuJoCo render without a display if there is none, unless ``MUJOCO_GL`` is set; call it before MuJoCo renders."""
    if not has_display():
        os.environ.setdefault("MUJOCO_GL", "egl")


def made_with(env: gym.Env) -> dict[str, Any]:
    """Returns the arguments of an environment that differ from its registered ones, except those of rendering.

    Example:
        >>> made_with(gym.make("Pendulum-v1", g=1.62))
        {'g': 1.62}
    """
    if env.spec is None:
        return {}
    registered = gym.registry[env.spec.id].kwargs if env.spec.id in gym.registry else {}
    given = {name: value for name, value in env.spec.kwargs.items() if name not in OF_RENDERING}
    return {
        name: value for name, value in given.items() if name not in registered or not np.array_equal(registered[name], value)
    }


def without_text(env: gym.Env) -> gym.Env:
    """Returns the environment without the text entries of a Dict observation: no policy and no network here reads them.

    Example:
        >>> env = gym.make("CartPole-v1")
        >>> without_text(env) is env
        True
    """
    parts = env.observation_space.spaces if isinstance(env.observation_space, Dict) else {}
    texts = [key for key, part in parts.items() if part.dtype == np.dtype(str)]
    if not texts or len(texts) == len(parts):
        return env
    warnings.warn(f"text is left out of the observation: {', '.join(texts)}", stacklevel=3)
    return FilterObservation(env, [key for key in parts if key not in texts])


def accept_older_versions() -> None:
    """Silences Gymnasium's warnings of newer versions: the papers and the shipped priors use v4."""
    warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)


def made(env_id: str, /, **make_kwargs) -> gym.Env:
    """Makes an environment as Gymnasium does.

    Raises:
        gymnasium.error.Error: the environment does not exist, cannot be made, or a package that it needs is missing
        TypeError: the environment does not take these arguments, or needs others
    """
    import_module_of(env_id)
    try:
        return gym.make(env_id, **make_kwargs)
    except (gym.error.Error, ImportError):
        raise
    except TypeError as error:
        raise TypeError(f"{error}{way_out(error)}") from error
    except Exception as error:
        raise gym.error.Error(
            f"{env_id} cannot be made: {type(error).__name__}: {error}{way_out(error, 'render_mode' in make_kwargs)}"
        ) from error


def make(env_id: str, /, **make_kwargs) -> gym.Env:
    """Makes an environment in which a prior can act: ``without_text``, with ``bounded`` episodes.

    Raises:
        gymnasium.error.Error: the environment does not exist, cannot be made, or a package that it needs is missing
        TypeError: the environment does not take these arguments
        ValueError: the action space is neither Discrete nor a Box of floats with finite bounds
    """
    env = make_for_agent(env_id, **make_kwargs)
    require_action_space(env.action_space)
    return env


def make_for_agent(env_id: str, /, **make_kwargs) -> gym.Env:
    """Makes the same with any action space: PPO needs no finite bounds."""
    with warnings.catch_warnings():
        accept_older_versions()
        return bounded(without_text(made(env_id, **make_kwargs)))


def is_image(space: gym.Space) -> bool:
    """Returns whether a space holds images.

    Example:
        >>> is_image(Box(0, 255, (240, 320, 3), np.uint8)), is_image(Box(0, 9, (5, 5, 3), np.uint8))
        (True, False)
    """
    return isinstance(space, Box) and len(space.shape) == 3 and sorted(space.shape)[1] >= IMAGE_SIDE


def image_refusal(space: gym.Space) -> str:
    """Returns why no network here takes the images of an observation space, and the way out; "" if one does.

    Example:
        >>> image_refusal(Box(0, 255, (2, 80, 80), np.uint8))
        ''
        >>> image_refusal(Dict(camera=Box(0, 255, (240, 320, 3), np.uint8), speed=Box(-1, 1, (2,))))
        "the image 'camera' in the observation would be 230400 numbers of a vector; register the environment with \
gymnasium.wrappers.FilterObservation, which leaves out entries, or with a wrapper that makes the image smaller than 32 x 32"
    """
    if is_image(space):
        if space.dtype == np.uint8 and space.shape is not None and space.shape[1:] == NETWORK_IMAGE:
            return ""
        return (
            f"images must be uint8 of shape (channels, 80, 80), got {space}; register the environment with wrappers of "
            "Gymnasium that make them so"
        )
    images = {key: [*_images(part)] for key, part in _parts(space)}
    names = ", ".join(repr(key) for key in images if images[key])
    if not names:
        return ""
    size = sum(math.prod(image.shape) for found in images.values() for image in found)
    return (
        f"the image {names} in the observation would be {size} numbers of a vector; register the environment with "
        "gymnasium.wrappers.FilterObservation, which leaves out entries, or with a wrapper that makes the image smaller than "
        f"{IMAGE_SIDE} x {IMAGE_SIDE}"
    )


def _images(space: gym.Space) -> Iterator[Any]:
    if is_image(space):
        yield space
    for _, part in _parts(space):
        yield from _images(part)


def _parts(space: gym.Space) -> Iterable[tuple[Any, gym.Space]]:
    return space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces) if isinstance(space, Tuple) else ()
