"""Makes environments from an id and arguments, as command lines give them; says what is wrong where that fails."""

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
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.wrappers import FilterObservation

from llmwrappers.bounded_episodes import bounded

# From here on gymnasium-robotics' Fetch and hands cannot be made.
NEW_MUJOCO = (3, 12)
# Three axes are an image where two of them are at least so long; smaller ones are boards, and vectors to a network.
IMAGE_SIDE = 32
# What the convolutional network of the PPO scripts takes, behind the channels.
NETWORK_IMAGE = (80, 80)
# So many combinations of a MultiDiscrete or MultiBinary space may be numbered as one Discrete.
MOST_COMBINATIONS = 4096
OF_RENDERING = ("render_mode", "camera_name")
# How the ids of packages begin, which module registers them, and which extra of pip brings it.
PACKAGES = {"ALE/": ("ale_py", "environments"), "MiniGrid-": ("minigrid", "grid"), "BabyAI-": ("minigrid", "grid")}


def env_kwargs_of(text: str) -> dict[str, Any]:
    """Returns the arguments of an environment that ``--env-kwargs`` gives.

    Raises:
        ValueError: it is no JSON object

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
    """Returns what to say after an environment could not be made, or not rendered, by what was raised."""
    said = str(error)
    if isinstance(error, TypeError):  # an argument that it does not take, or misses
        is_missing = "required positional argument" in said
        return " (--env-kwargs gives it; if it is no JSON, register an environment of your own with it)" if is_missing else ""
    if "NumPy 2.0" in said:
        return " (its package is for NumPy 1: pip install 'numpy<2')"
    if isinstance(error, gym.error.DependencyNotInstalled):  # Gymnasium says what to install
        return ' (pip install "llmwrappers[environments]")' if "box2d" in said.lower() else ""
    # Some render what they observe. OpenGL alone is there where MuJoCo asked it and could not be imported.
    if {"mujoco", "OpenGL"} & sys.modules.keys() and (rendering or "OpenGL" in said):
        gl = os.environ.get("MUJOCO_GL", "its default")
        return f" (MuJoCo renders by MUJOCO_GL={gl}; without a display set MUJOCO_GL=egl, which needs libegl1, or osmesa)"
    if "mujoco" not in sys.modules:
        is_of_display = "display" in f"{type(error).__name__} {said}".lower() and not has_display()
        return " (it needs a display: put xvfb-run -a before the command)" if is_of_display else ""
    version = importlib.metadata.version("mujoco")
    major, minor = map(int, version.split(".")[:2])
    if (major, minor) < NEW_MUJOCO:
        return ""
    return f" (MuJoCo {version} breaks environments of gymnasium-robotics and others that 3.8 runs: pip install 'mujoco<3.9')"


def make_rendering(env_id: str, render_mode: str = "rgb_array", **make_kwargs) -> gym.Env:
    """Makes an environment that renders, also on a machine without a display, with a camera that follows what moves.

    It has rendered once, so that what is missing is said before there is something to lose.

    Raises:
        gymnasium.error.Error: it cannot be rendered; and as ``make``
    """
    render_without_display()
    try:  # the camera that MuJoCo environments use by default loses sight of what moves
        env = make(env_id, **make_kwargs, render_mode=render_mode, camera_name="track")
    except TypeError:
        env = make(env_id, **make_kwargs, render_mode=render_mode)
    try:
        env.reset(seed=0)
        env.render()
    except Exception as error:
        why = f"{type(error).__name__}: {error}{way_out(error, rendering=True)}"
        raise gym.error.Error(f"{env_id} cannot be rendered: {why}") from None
    return env


def alike(name: str, names: Iterable[str]) -> str:
    """Returns "; did you mean A, B, C?", at most three of the names, or "" where none is like it.

    Example:
        >>> alike("Hoper-v4", ["Ant-v4", "Hopper-v4", "Hopper-v5"])
        '; did you mean Hopper-v4, Hopper-v5?'
    """
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.75)
    return f"; did you mean {', '.join(close)}?" if close else ""


def import_module_of(env_id: str) -> None:
    """Imports the module of ``module:Id``, which registers it, and checks that there is such an environment.

    Raises:
        gymnasium.error.Error: no module or no environment of that name, with the way out

    Example:
        >>> import_module_of("Hoper-v4")
        Traceback (most recent call last):
        ...
        gymnasium.error.UnregisteredEnv: no environment is called Hoper-v4; did you mean Hopper-v4, Hopper-v5, Hopper-v3?
    """
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
    except Exception as error:  # importing pyglet without a display raises one of its own
        cause = f"{error}" if isinstance(error, ImportError) else f"{type(error).__name__}: {error}{way_out(error)}"
        raise gym.error.UnregisteredEnv(f"{module} cannot be imported, which is to register {name}: {cause}") from None
    with contextlib.suppress(gym.error.Error):
        gym.spec(name)  # without a version, it is the newest
        return
    prefix = next((prefix for prefix in PACKAGES if name.startswith(prefix)), None)
    hint = alike(name, gym.registry)
    if prefix and not module:
        package, extra = PACKAGES[prefix]
        hint = f'; {package} registers such ids: {package}:{name} (pip install "llmwrappers[{extra}]")'
    elif not hint:
        hint = registered_by(module, name) if module else f"; one that a package registers is named with it: module:{name}"
    raise gym.error.UnregisteredEnv(f"no environment is called {name}{hint}")


def registered_by(module: str, name: str) -> str:
    """Returns what an imported module registers where it does not register ``name``; and, if that is nothing, what may.

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
    """Has MuJoCo render on machines without a display, unless ``MUJOCO_GL`` says how; to be called before it renders."""
    if not has_display():
        os.environ.setdefault("MUJOCO_GL", "egl")


def made_with(env: gym.Env) -> dict[str, Any]:
    """Returns the arguments that an environment was made with and is not registered with, but for how it is rendered.

    Example:
        >>> made_with(gym.make("Pendulum-v1", g=1.62))
        {'g': 1.62}
    """
    if env.spec is None:
        return {}
    registered = gym.registry[env.spec.id].kwargs if env.spec.id in gym.registry else {}
    given = {name: value for name, value in env.spec.kwargs.items() if name not in OF_RENDERING}
    return {name: value for name, value in given.items() if name not in registered or registered[name] != value}


def without_text(env: gym.Env) -> gym.Env:
    """Returns the environment without what is text in a Dict observation: no policy and no network here reads it.

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
    """Has Gymnasium no longer warn that an environment has a newer version: the papers and the shipped priors are of v4."""
    warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)


def made(env_id: str, **make_kwargs) -> gym.Env:
    """Makes an environment as Gymnasium does.

    Raises:
        gymnasium.error.Error: the environment does not exist, cannot be made, or a package that it needs is missing
        TypeError: it does not take these arguments, or misses some
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


def make(env_id: str, **make_kwargs) -> gym.Env:
    """Makes an environment that can be measured: ``without_text``, its episodes ``bounded``.

    Raises:
        gymnasium.error.Error: the environment does not exist, cannot be made, or a package that it needs is missing
        TypeError: it does not take these arguments
        ValueError: the action space is neither Discrete nor a Box of floats with finite bounds
    """
    with warnings.catch_warnings():
        accept_older_versions()
        env = bounded(without_text(made(env_id, **make_kwargs)))
    require_action_space(env.action_space)
    return env


def require_action_space(space: gym.Space) -> None:
    """Refuses the action spaces that no policy is written for, and says what to wrap the environment with.

    Raises:
        ValueError: it is neither Discrete nor a Box of floats with finite bounds

    Example:
        >>> require_action_space(MultiDiscrete([3, 2]))
        Traceback (most recent call last):
        ...
        ValueError: needs a Discrete action space or a Box of floats with finite bounds, got MultiDiscrete([3 2]); register \
the environment with gymnasium.wrappers.TransformAction and Discrete(6), which numbers the combinations: \
lambda i: np.array(np.unravel_index(i, (3, 2)))
    """
    is_bounded = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded("both")
    if not (is_bounded or isinstance(space, Discrete)):
        served = "a Discrete action space or a Box of floats with finite bounds"
        raise ValueError(f"needs {served}, got {space}; {transformed_actions(space)}")


def transformed_actions(space: gym.Space) -> str:
    """Returns what to wrap an environment with whose action space nothing here serves.

    Example:
        >>> print(transformed_actions(Box(0, 5, (2,), np.int64)))
        register the environment with gymnasium.wrappers.TransformAction and a Box of floats with finite bounds, which are \
rounded: lambda action: np.rint(action).astype(np.int64)
    """
    if isinstance(space, Box):
        way_out = "a Box of floats with finite bounds"
        if not np.issubdtype(space.dtype, np.floating):
            way_out += f", which are rounded: lambda action: np.rint(action).astype(np.{space.dtype})"
    else:
        counts: tuple[int, ...] = ()
        if isinstance(space, MultiDiscrete) and not space.start.any():
            counts = tuple(space.nvec.ravel().tolist())
        elif isinstance(space, MultiBinary):
            counts = (2,) * math.prod(space.shape)
        way_out = "Discrete(n), which numbers the actions to choose among"
        if counts and math.prod(counts) <= MOST_COMBINATIONS:
            number = f"Discrete({math.prod(counts)}), which numbers the combinations"
            dtype = "" if space.dtype == np.int64 else f", np.{space.dtype}"
            shape = f".reshape{space.shape}" if len(space.shape or ()) > 1 else ""
            way_out = f"{number}: lambda i: np.array(np.unravel_index(i, {counts}){dtype}){shape}"
        elif isinstance(space, Tuple | Dict):
            way_out += ", or a Box of floats that holds the parts one after the other"
    return f"register the environment with gymnasium.wrappers.TransformAction and {way_out}"


def is_image(space: gym.Space) -> bool:
    """Returns whether a space is one of images.

    Example:
        >>> is_image(Box(0, 255, (240, 320, 3), np.uint8)), is_image(Box(0, 9, (5, 5, 3), np.uint8))
        (True, False)
    """
    return isinstance(space, Box) and len(space.shape) == 3 and sorted(space.shape)[1] >= IMAGE_SIDE


def image_refusal(space: gym.Space) -> str:
    """Returns why no network here takes the images in an observation space, with the way out; "" where it does.

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
