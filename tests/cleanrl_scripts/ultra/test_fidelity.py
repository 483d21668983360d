"""fidelity: it tells a state in which the action matters from one in which it does not."""

import gymnasium as gym
import pytest
from conftest import Careful, crossing_table

from cleanrl_scripts.ultra.fidelity import fidelity
from llmwrappers import CriticalFunction


def test_fidelity_tells_a_critical_state_from_others():
    env = gym.make("llmwrappers-tests/Crossing-v0")

    def lost(states) -> dict[str, list[float]]:
        lines = fidelity(env, Careful(), crossing_table(states), None, episodes=60, seed=1).splitlines()[1:]
        numbers = ("".join(c if c in "-.0123456789" else " " for c in line).split()[-3:] for line in lines)
        return dict(zip(("agent", "critical", "random", "difference"), ([float(x) for x in n] for n in numbers), strict=True))

    right, wrong = lost([5.0]), lost([2.0])
    assert right["agent"] == wrong["agent"] == [10.0, 10.0, 10.0]
    assert right["critical"][0] == pytest.approx(3.0, abs=0.8)  # three of four random actions lose the last four steps
    assert right["difference"][1] > 0
    assert wrong["critical"] == [0.0, 0.0, 0.0]
    assert wrong["difference"][2] <= 0


def test_guidance_begins_every_episode():
    source = "n = 0\n\ndef critical(obs):\n    global n\n    n += 1\n    return n <= 2, 0, 0.0\n"
    env = gym.make("llmwrappers-tests/Crossing-v0")
    lines = fidelity(env, Careful(), CriticalFunction(source, env.action_space), None, episodes=10, seed=1).splitlines()
    share = float(lines[0].split("random actions at ")[1].split(" %")[0])
    assert share > 10  # two of at most ten steps of every episode
