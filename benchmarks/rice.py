"""RICE (arXiv 2405.03064) on ppo_ultra.py, a baseline: episodes begin in critical states, and novelty is rewarded.

    python benchmarks/rice.py --env-id llmwrappers/KeyCorridor-v0

With probability 1/2 an episode begins where the stuck agent's action matters most, in one of its episodes, as a mask network
says; else where the environment begins. To get there, the stuck agent's actions are replayed from the same seed: they count
as part of the episode, but not as training steps. All arguments of ppo_ultra.py but --arm and --critical-states.
"""

import copy
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the scripts do, from anywhere

from cleanrl_scripts import ppo_ultra
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.ultra.critical_state_sources import trajectories_path
from cleanrl_scripts.ultra.statemask import importance
from llmwrappers import Trajectories
from llmwrappers.errors import UserError

PROBABILITY, START_STREAM = 0.5, 5


class CriticalStarts(gym.Wrapper):
    """Begins some episodes where the action of ``agent`` matters most in an episode that it plays."""

    def __init__(self, env: gym.Env, agent, matters):
        super().__init__(env)
        self.agent, self.matters = agent, matters

    def reset(self, *, seed=None, options=None):
        assert seed is not None  # PPO gives one to every episode
        rng = np.random.default_rng((seed, START_STREAM))  # a checkpoint has what draws the seeds, and no more
        observation, info = self.env.reset(seed=seed, options=options)
        if rng.random() < PROBABILITY:
            observations, actions, done = [observation], [], False
            while not done:
                actions.append(self.agent.act(observations[-1], rng))
                observation, _, terminated, truncated, _ = self.env.step(actions[-1])
                observations.append(observation)
                done = terminated or truncated
            critical = int(np.argmax(self.matters(np.array(observations[:-1]))))
            observation, info = self.env.reset(seed=seed, options=options)
            for action in actions[:critical]:
                observation, _, _, _, info = self.env.step(action)
        return observation, info


def main() -> None:
    arguments = [*sys.argv[1:]]
    if "--resume" not in arguments:
        arguments += ["--arm", "rnd", "--critical-states", "everywhere"]
    load, guide = ppo_ultra.load_critical_states, ppo_ultra.guide
    starts: list = []

    def load_and_learn(args, env, agent, rng, learner):
        if (path := trajectories_path(args)) is None:
            raise UserError("--agent none: RICE begins where an agent is stuck, so it needs one")
        reward = float(np.abs(Trajectories.load(path).rewards).mean()) or 1.0
        starts[:] = copy.deepcopy(agent), importance(args, env, agent, reward, rng, learner)
        return load(args, env, agent, rng, learner)

    ppo_ultra.load_critical_states = load_and_learn
    ppo_ultra.guide = lambda env, *rest: guide(CriticalStarts(env, *starts), *rest)
    ppo_ultra.main(arguments)


if __name__ == "__main__":
    run_script(main, "rice.py")
