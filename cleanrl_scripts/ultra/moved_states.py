"""random_states, placed: move a table to other states of the episodes that it was made from."""

import numpy as np

from llmwrappers import CriticalStates, Trajectories


def random_states(table: CriticalStates, trajectories: Trajectories, rng: np.random.Generator) -> CriticalStates:
    """The table's actions and rewards at as many random states of the same episodes."""
    shown, held_out = split(table, trajectories)
    return placed(table, shown, held_out, rng.permutation(len(shown.observations)))


def split(table: CriticalStates, trajectories: Trajectories) -> tuple[Trajectories, Trajectories]:
    """The episodes from which the table was made, and those that set its tolerance."""
    return trajectories.split(int((table.calibration or {}).get("table_episodes", len(trajectories) // 2)))


def placed(table: CriticalStates, shown: Trajectories, held_out: Trajectories, order: np.ndarray) -> CriticalStates:
    """The table, moved to the first states in this order, with the same hit rate."""
    states = held_out.matched
    moved = table.moved_to(shown.matched[order[: len(table)]])
    return moved.calibrated(states, max(table.hit_rate(states), 1 / len(states)))
