"""A model that answers from a script about critical states, its good answers, and episodes for them."""

import json

import gymnasium as gym
import numpy as np
from conftest import Turns

from llmwrappers import Trajectories
from local_llm.find_critical_states import find_critical_states
from local_llm.models.reply import Reply, Sampling
from local_llm.prompting.episode_prompts import Episodes, Settings

gym.register(
    "llmwrappers-tests/CriticalTurns-v0", entry_point=Turns, kwargs={"n": 3, "start": 2, "steps": 20}, disable_env_checker=True
)
SETTINGS = Settings(episodes=2, states_per_episode=2, token_budget=3000, hit_rate=0.05)
OPTIONS = ["--episodes", "2", "--states-per-episode", "2", "--token-budget", "3000"]


class Scripted:
    """Answers with given texts, cut off where they end in CUT, and remembers what it was asked."""

    def __init__(self, *texts: str | Exception):
        self.model, self.revision, self.texts = "scripted", None, list(texts)
        self.prompts, self.schemas, self.indices = [], [], []

    def ask(self, messages, n, sampling, schema=None, first=0):
        assert (n, [message["role"] for message in messages]) == (1, ["user"])
        self.prompts.append(messages[0]["content"])
        self.schemas.append(schema)
        self.indices.append(first)
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        yield Reply(text, "length" if text.endswith("CUT") else "stop", 10, 20, 0.5)


def answer(key, *entries, **more):
    return f"I reason.\n```json\n{json.dumps({**more, key: entries})}\n```\n"


def entry(episode, step, **more):
    return {"episode": episode, "step": step, **more}


PLACES = [(0, 7), (0, 120), (1, 33)]
STATES = answer(
    "critical_states", *(entry(*place, rationale=f"It swings {place}.") for place in reversed(PLACES)), analysis="So."
)
ACTIONS = answer("actions", *(entry(*place, reasoning=f"Push {i}.", action=[i - 0.5]) for i, place in enumerate(PLACES)))
REWARDS = answer("rewards", *(entry(*place, analysis=f"Case {i}.", reward=i / 2 - 0.5) for i, place in enumerate(PLACES)))
SOURCE = "def critical(obs):\n    return obs[0] < -0.95, [-2.0 * obs[1]], 0.5\n"
CODE = f"The top matters.\n```python\n{SOURCE}```\n"
GOOD = (STATES, ACTIONS, REWARDS, CODE)


def play(env_id, episodes=3, first_seed=0, wrap=lambda env: env):
    """Episodes of random actions."""
    env = wrap(gym.make(env_id))
    env.action_space.seed(first_seed)
    observations, actions, rewards, lengths, terminations, finals = [], [], [], [], [], []
    for seed in range(first_seed, first_seed + episodes):
        observation, _ = env.reset(seed=seed)
        lengths.append(0)
        done = False
        while not done:
            action = env.action_space.sample()
            observations.append(observation)
            actions.append(action)
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(reward)
            lengths[-1] += 1
            done = terminated or truncated
        terminations.append(terminated)
        finals.append(observation)
    return Trajectories(
        env_id,
        np.array(observations),
        np.array(actions),
        np.array(rewards),
        lengths=np.array(lengths),
        terminations=np.array(terminations, bool),
        final_observations=np.array(finals),
        seeds=np.arange(first_seed, first_seed + episodes),
    )


def find(trajectories, env, folder, *texts, settings=SETTINGS):
    backend = Scripted(*texts)
    table = find_critical_states(Episodes(trajectories, env, settings, backend), backend, Sampling(), folder)
    assert backend.texts == []
    return table, backend


def facts(folder):
    return json.loads((folder / "provenance.json").read_text("utf-8"))


# What ultra_round.md is answered with: other states, and entries to keep.
PLACES_2 = [(0, 11), (1, 150)]
STATES_2 = answer("critical_states", *(entry(*place, rationale=f"It stalls {place}.") for place in PLACES_2), analysis="So.")
ACTIONS_2 = answer("actions", *(entry(*place, reasoning="Pull.", action=[-1.0]) for place in PLACES_2))
REWARDS_2 = answer("rewards", *(entry(*place, analysis="Slow.", reward=-0.25) for place in PLACES_2))
SOURCE_2 = SOURCE.replace("obs[0] < -0.95", "abs(obs[2]) < 0.5")
ROUND_2 = (STATES_2, ACTIONS_2, REWARDS_2, CODE.replace(SOURCE, SOURCE_2))
