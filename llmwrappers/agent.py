"""load_agent: the trained agent of a script's run, as a policy that needs NumPy alone."""

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten
from numpy.typing import NDArray

from llmwrappers.action_masks.intervals import to_native
from llmwrappers.files import write_atomically
from llmwrappers.making import env_kwargs_of, make_for_agent, make_rendering

Layer = tuple[str, Sequence[NDArray], dict[str, Any]]
"""A layer: its name in torch.nn, its parameters, its options."""
AGENT_FILE = "agent.npz"


def numpy_layer(kind: str, parameters: Sequence[NDArray], options: dict[str, Any]) -> Callable[[NDArray], NDArray]:
    """Returns a layer of torch.nn in NumPy, on the same memory: for a few inputs torch's overhead is most of the time.

    Raises:
        KeyError, ValueError: the kind of layer is unknown here, or its options are

    Example:
        >>> numpy_layer("ReLU", [], {})(np.array([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """
    return _LAYERS[kind](*parameters, **options)


def _linear(weight, bias):
    return lambda x, w=weight.T: x @ w + bias


def _layer_norm(weight, bias, normalized_shape, eps):
    _require(len(normalized_shape) == 1)

    def normalize(x):
        centered = x - x.mean(-1, keepdims=True)
        return weight * centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + eps) + bias

    return normalize


def _conv(weight, bias, stride, padding, dilation, groups):
    _require((tuple(padding), tuple(dilation), groups) == ((0, 0), (1, 1), 1))

    def convolve(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
        windows = windows[:, :, :: stride[0], :: stride[1]]
        return np.moveaxis(np.tensordot(windows, weight, ([1, 4, 5], [1, 2, 3])), -1, 1) + bias[:, None, None]

    return convolve


def _flatten(start_dim, end_dim):
    _require((start_dim, end_dim) == (1, -1))
    return lambda x: x.reshape(len(x), -1)


def _require(is_known: bool) -> None:
    if not is_known:
        raise ValueError("a layer with these options has no form in NumPy here")


OPTIONS = {
    "LayerNorm": ("normalized_shape", "eps"),
    "Conv2d": ("stride", "padding", "dilation", "groups"),
    "ELU": ("alpha",),
    "Flatten": ("start_dim", "end_dim"),
}
"""The options of the layers that have some, attributes of torch's."""
_LAYERS: dict[str, Callable[..., Callable]] = {
    "Linear": _linear,
    "LayerNorm": _layer_norm,
    "Conv2d": _conv,
    "Tanh": lambda: np.tanh,
    "ReLU": lambda: lambda x: np.maximum(x, 0.0),
    "ELU": lambda alpha: lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))),
    "SiLU": lambda: lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),
    "Flatten": _flatten,
}


class Agent:
    """Takes a trained agent's most probable action, or on a Discrete space a sample; without mask, prior or LLM.

    The scripts' evaluations take the most probable one; ppo_ultra.py on Discrete spaces samples.

    Attributes:
        env_id, env_kwargs: the environment of its training
        script: the script that trained it
    """

    def __init__(self, arrays: dict[str, NDArray]):
        facts = json.loads(str(arrays["facts"]))
        self.env_id, self.env_kwargs, self.script = facts["env_id"], facts["env_kwargs"], facts["script"]
        self._head, self._start, self._arrays, self._space = facts["head"], facts["start"], arrays, None
        self._steps = [
            numpy_layer(kind, [arrays[f"{i}.{j}"] for j in range(size)], options)
            for i, (kind, size, options) in enumerate(facts["layers"])
        ]
        self._size = next(arrays[f"{i}.0"].shape[-1] for i, (_, size, _) in enumerate(facts["layers"]) if size)  # of the input

    def __call__(self, observation: Any, rng: np.random.Generator | None = None) -> Any:
        """Returns the native action at one raw observation: on a Box an array of its shape, on a Discrete space an int.

        Args:
            rng: draws a sample instead of the most probable action; on a Discrete space only

        Raises:
            ValueError: the observation has another size or form than those of its training, or NaN or Inf in it; or ``rng`` is
                given on a Box
            TypeError: ``rng`` is no generator
        """
        if not isinstance(rng, np.random.Generator | None):
            raise TypeError(f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(0), got {rng!r}")
        if rng is not None and self._head != "categorical":
            raise ValueError(f"rng samples on Discrete spaces only; the actions of {self.env_id} are a Box: leave it out")
        x, arrays = self._vector(observation)[None], self._arrays
        if "mean" in arrays:
            z = (x - arrays["mean"]) * arrays["inverse_std"]
            x = np.minimum(np.maximum(z, -10.0), 10.0).astype(np.float32)
        for step in self._steps:
            x = step(x)
        if self._head == "categorical":
            # The largest logit plus Gumbel noise is a sample of the softmax.
            logits = x[0] if rng is None else x[0] + rng.gumbel(size=x[0].shape)
            return int(logits.argmax()) + self._start
        low, high = arrays["low"], arrays["high"]
        if self._head == "tanh":
            return to_native(np.tanh(x[0]).reshape(low.shape), low, high)
        return np.minimum(np.maximum(x[0].reshape(low.shape), low), high)

    def make(self, **kwargs: Any) -> gym.Env:
        """Makes the agent's environment, as ``gym.make`` does: ``agent.make(render_mode="human")``."""
        made = make_rendering if kwargs.get("render_mode") else make_for_agent
        return made(self.env_id, **{**env_kwargs_of(self.env_kwargs), **kwargs})

    def __reduce__(self):
        return Agent, (self._arrays,)

    def __repr__(self) -> str:
        return f"Agent({self.env_id!r}, trained by {self.script})"

    def _vector(self, observation: Any) -> NDArray[np.float32]:
        """What the network observes: an image, divided by 255, or the observation flattened."""
        if "image" in self._arrays:
            return np.asarray(observation, np.float32) / np.float32(255.0)
        if not isinstance(observation, np.ndarray) or observation.size != self._size:  # its order and one-hot form: the space's
            if self._space is None:
                env = self.make()
                self._space = env.observation_space
                env.close()
            try:
                observation = flatten(self._space, observation)
            except Exception as error:
                what = f"the agent of {self.env_id} reads observations of {self._space}, not this one"
                raise ValueError(f"{what} ({type(error).__name__}: {error})") from None
        observation = np.ravel(observation)
        if observation.size != self._size:
            raise ValueError(f"the agent of {self.env_id} reads {self._size} numbers, the observation has {observation.size}")
        if not np.isfinite(observation).all():
            i = np.isfinite(observation).argmin()
            raise ValueError(
                f"the agent of {self.env_id} reads finite numbers, entry {i} of the observation is {observation[i]}"
            )
        return observation if "mean" in self._arrays else observation.astype(np.float32)


def load_agent(path: str | Path) -> Agent:
    """Returns the agent of a finished run of ppo_camel.py, td3_camel.py or ppo_ultra.py, in the environment's own units.

    It needs NumPy and Gymnasium alone.

    Args:
        path: the run folder, or its ``agent.npz``

    Raises:
        FileNotFoundError: no such file: the run has not finished, was made with ``--no-save-model``, or its agent was edited
        ValueError: a file that is no agent

    Example:
        >>> import tempfile
        >>> facts = {"env_id": "Pendulum-v1", "env_kwargs": "{}", "script": "td3_camel", "head": "tanh"}
        >>> layers = [("Linear", [np.ones((1, 3), np.float32), np.zeros(1, np.float32)], {})]
        >>> with tempfile.TemporaryDirectory() as folder:  # stands in for a run folder
        ...     save_agent(Path(folder), facts, layers, gym.make("Pendulum-v1").action_space, {})
        ...     agent = load_agent(folder)
        >>> agent, agent(np.float32([0.5, -0.5, 0.0])).tolist()
        (Agent('Pendulum-v1', trained by td3_camel), [0.0])
    """
    path = Path(path)
    path = path / AGENT_FILE if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(
            f"no agent at {path}: a finished run leaves {AGENT_FILE} in its folder, unless it had --no-save-model, a layer "
            "without a form in NumPy (llmwrappers/agent.py), or an agent that was edited to act otherwise"
        )
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:  # NumPy leaves a broken one open
            return Agent(dict(arrays))
    except (ValueError, KeyError, TypeError, StopIteration, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is no {AGENT_FILE} of these scripts ({error}); give the run's folder") from None


def save_agent(
    folder: Path, facts: dict[str, Any], layers: Sequence[Layer], space: gym.Space, arrays: dict[str, NDArray]
) -> None:
    """Writes ``agent.npz``.

    Args:
        facts: ``env_id``, ``env_kwargs`` (JSON), ``script``, and ``head``: "gaussian", "tanh" or "categorical"
        layers: the network's, in order
        space: the environment's own actions
        arrays: ``mean`` and ``inverse_std`` of a normaliser; ``image`` where images are observed
    """
    saved = dict(arrays)
    for i, (_, parameters, _) in enumerate(layers):
        saved |= {f"{i}.{j}": parameter for j, parameter in enumerate(parameters)}
    if isinstance(space, gym.spaces.Box):
        saved |= {"low": space.low, "high": space.high}
    start = int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
    kinds = [(kind, len(parameters), options) for kind, parameters, options in layers]
    saved["facts"] = np.array(json.dumps({**facts, "start": start, "layers": kinds}))
    buffer = io.BytesIO()
    np.savez(buffer, **saved)  # pyright: ignore[reportArgumentType]
    write_atomically(folder / AGENT_FILE, buffer.getbuffer())
