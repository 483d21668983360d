"""A corridor with a key, a door and a goal, observed as named whole numbers; reward 0 until the goal behind the door."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

CORRIDOR = "llmwrappers-tests/Corridor-v0"
NAMES = (
    "agent x", "heading", "ahead", "carried", "door state", "key x", "door x", "key distance", "door distance",
    "goal distance", "wall ahead", "wall behind", "key ahead", "door ahead", "goal ahead", "steps left",
)  # fmt: skip
ACTIONS = ("left", "right", "forward", "pick up", "drop", "toggle", "done")
FACTS = f"""
serves = ["{CORRIDOR}"]
expertise = "planning in grids"
goal = "pick up the key, open the door with it and go to the goal behind it"
reason = "what comes first"
without_memory = "What is carried is in the observation."
episode_steps = 300
notes = ["Only whoever carries the key opens the door.", "Forward into a wall, a key or a closed door does nothing."]
observation = [
""" + "".join(
    f'    {{ index = {i}, name = "{name}", unit = "1", meaning = "of the corridor" }},\n' for i, name in enumerate(NAMES)
)
FACTS += "]\naction = [\n" + "".join(
    f'    {{ index = {i}, name = "{name}", unit = "1", meaning = "as its name says" }},\n' for i, name in enumerate(ACTIONS)
)
FACTS += "]\n"


class Corridor(gym.Env):
    """Twelve cells in a row: the key lies in cell 3, the door is cell 8, the goal cell 11; the agent starts in cell 5."""

    def __init__(self, steps=300):
        self.observation_space, self.action_space = Box(-12, 300, (len(NAMES),), np.int16), Discrete(len(ACTIONS))
        self.steps = steps

    def observe(self):
        way = 1 - 2 * self.heading
        ahead = self.x + way
        place = 1 if not 0 <= ahead <= 11 else {self.key: 2, 8: 3 + self.is_open, 11: 5}.get(ahead, 0)
        walls = (11 - self.x, self.x)[:: 1 if way > 0 else -1]
        return np.array(
            [self.x, self.heading, place, self.has_key, self.is_open, self.key, 8, self.key - self.x, 8 - self.x, 11 - self.x,
             *walls, ahead == self.key, ahead == 8, ahead == 11, self.steps - self.t], np.int16
        )  # fmt: skip

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.heading, self.key, self.has_key, self.is_open, self.t = 5, 0, 3, 0, 0, 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        ahead = self.x + 1 - 2 * self.heading
        name = ACTIONS[action]
        if name in ("left", "right"):
            self.heading = 1 - self.heading
        elif name == "forward" and 0 <= ahead <= 11 and ahead != self.key and (ahead != 8 or self.is_open):
            self.x = ahead
        elif name == "pick up" and ahead == self.key:
            self.has_key, self.key = 1, -1
        elif name == "drop" and self.has_key and 0 <= ahead <= 7:
            self.has_key, self.key = 0, ahead
        elif name == "toggle" and self.has_key and ahead == 8:
            self.is_open = 1 - self.is_open
        reached = self.x == 11
        return self.observe(), float(reached), reached, self.t >= self.steps, {}


gym.register(CORRIDOR, entry_point=Corridor, disable_env_checker=True)
