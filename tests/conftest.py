"""Shared by the tests: the scripts as modules, and small environments whose answers are known."""

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small networks; set before torch is imported

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace

ROOT = Path(__file__).parents[1]


class Echo(gym.Env):
    """Observes (step, last action...) and returns the action it received in info; n steps an episode."""

    def __init__(self, low=-1.0, high=1.0, shape=(2,), steps=5):
        self.action_space = Box(low, high, shape, np.float32)
        self.observation_space = Box(-np.inf, np.inf, (1 + int(np.prod(shape)),), np.float64)
        self.steps = steps

    def _observe(self, action):
        return np.concatenate([[float(self.t)], action.ravel()]).astype(np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(self.np_random.uniform(-1, 1, self.action_space.shape)), {}

    def step(self, action):
        self.t += 1
        info = {"received": np.array(action, dtype=np.float32)}
        return self._observe(action), float(np.sum(action)), False, self.t >= self.steps, info


gym.register("llmwrappers-tests/Echo-v0", entry_point=Echo, disable_env_checker=True)


class OneStep(gym.Env):
    """One step an episode; the reward is -(action - optimum)^2, so the best return is known."""

    def __init__(self, optimum=0.8):
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = Box(-1.0, 1.0, (2,), np.float64)
        self.optimum = optimum

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(2), {}

    def step(self, action):
        return np.ones(2), -float((action[0] - self.optimum) ** 2), True, False, {}


gym.register("llmwrappers-tests/OneStep-v0", entry_point=OneStep, disable_env_checker=True)


class DictOneStep(OneStep):
    """The same with a Dict observation."""

    def __init__(self):
        super().__init__()
        self.observation_space = DictSpace({"position": Box(-1.0, 1.0, (1,)), "goal": Box(-1.0, 1.0, (2,))})

    def _observe(self):
        return {"position": np.full(1, 0.25, np.float32), "goal": np.ones(2, np.float32)}

    def reset(self, *, seed=None, options=None):
        return self._observe(), super().reset(seed=seed)[1]

    def step(self, action):
        return self._observe(), *super().step(action)[1:]


gym.register("llmwrappers-tests/DictOneStep-v0", entry_point=DictOneStep, disable_env_checker=True)


gym.register(
    "llmwrappers-tests/Rescaled-v0",
    entry_point=lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-5.0), np.float32(5.0)),
    disable_env_checker=True,
)


class Unbounded(OneStep):
    """An action space that no mask can serve."""

    def __init__(self):
        super().__init__()
        self.action_space = Box(-np.inf, np.inf, (1,), np.float32)


gym.register("llmwrappers-tests/Unbounded-v0", entry_point=Unbounded, disable_env_checker=True)


class Turns(gym.Env):
    """Observes the step as a fraction of the episode, in [0, 1]; n actions from start on, n steps an episode."""

    def __init__(self, n=4, start=0, steps=5):
        self.action_space = Discrete(n, start=start)
        self.observation_space = Box(0.0, 1.0, (1,), np.float32)
        self.steps = steps

    def _observe(self):
        return np.array([self.t / self.steps], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        return self._observe(), float(action), False, self.t >= self.steps, {"received": int(action)}


gym.register("llmwrappers-tests/Turns-v0", entry_point=Turns, disable_env_checker=True)


def load_script(path: Path):
    """Imports a single-file script, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def td3_camel():
    return load_script(ROOT / "cleanrl_scripts" / "td3_camel.py")
