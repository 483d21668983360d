"""From a stuck agent through a model's answers to an agent that they guide, on observations that are no vectors."""

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, load_script
from gymnasium.spaces import Box, Discrete
from scripted import Scripted, answer, entry

from llmwrappers import Trajectories
from local_llm import find_critical_states as command

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")

SHORT = ["--num-steps", "100", "--num-minibatches", "4", "--update-epochs", "1", "--eval-episodes", "1", "--no-cuda"]


class Table(gym.Env):
    """Observes ten rows of five numbers, as highway-env does."""

    observation_space, action_space = Box(-1.0, 1.0, (10, 5)), Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        return self._observe(), float(action), False, False, {}

    def _observe(self):
        return self.np_random.uniform(-1, 1, (10, 5)).astype(np.float32)


gym.register("llmwrappers-tests/Table-v0", entry_point=Table, max_episode_steps=20)


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Blackjack-v1", "llmwrappers-tests/Table-v0"])
def test_an_agent_that_observes_no_vectors_is_guided_to_the_end(env_id, tmp_path, monkeypatch):
    ultra = load_script(ROOT / "cleanrl_scripts" / "ppo_ultra.py")
    pretraining = ["--pretrain-timesteps", "100", "--trajectory-episodes", "12", "--runs-dir", str(tmp_path / "stuck")]
    ultra.main(["--env-id", env_id, *pretraining, *SHORT])
    (path,) = tmp_path.glob("stuck/*/trajectories.npz")
    shown, _ = Trajectories.load(path).split(8)
    shares = (shown.observations > 0.5).mean(0)
    assert shares.ndim == 1
    sometimes = int(np.argmax(shares * (shares < 0.5)))
    places = [(0, 0), (1, 0)]
    backend = Scripted(
        answer("critical_states", *(entry(*place, rationale="It begins.") for place in places), analysis="So."),
        answer("actions", *(entry(*place, reasoning="Stay.", action=0) for place in places)),
        answer("rewards", *(entry(*place, analysis="Fine.", reward=0.5) for place in places)),
        f"```python\ndef critical(obs):\n    return obs[{sometimes}] > 0.5, 1, 0.5\n```",
    )
    monkeypatch.setattr(command, "make_backend", lambda args: backend)
    output = tmp_path / "guidance"
    assert command.main(["--trajectories", str(path), "--output", str(output), "--episodes", "8"]) == 0
    assert backend.texts == []
    guided = ["--agent", str(path.with_name("agent.pt")), "--arm", "ra", "--total-timesteps", "100"]
    for guidance in ("table", "code"):
        where = ["--guidance", guidance, "--critical-states", str(output), "--runs-dir", str(tmp_path / guidance)]
        ultra.main(["--env-id", env_id, *guided, *where, *SHORT])
        (metrics,) = tmp_path.glob(f"{guidance}/*/metrics.csv")
        assert "ultra/advised" in metrics.read_text()
