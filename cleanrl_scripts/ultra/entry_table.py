"""Records the advantages of each entry after each rollout, and writes what each entry was worth into a table."""

import re
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

import gymnasium as gym
import numpy as np

from llmwrappers import CriticalFunction, CriticalStates, EntryWorth
from llmwrappers.critical_states.guidance import Guidance


def record_rollout(
    worth: EntryWorth, entries: np.ndarray, overridden: np.ndarray, advantages: np.ndarray, dones: np.ndarray
) -> None:
    """Records, for each episode of a rollout, the mean advantage of the steps in which an entry was played, and was withheld.

    The steps of an episode are not independent: one episode in which the agent walks in a circle to its end would otherwise
    outweigh a hundred in which the entry helped. Arrays of shape (steps, environments); ``entries`` is -1 where none matched.
    """
    episodes = np.cumsum(dones, axis=0) - dones
    told = defaultdict(list)
    for step, env in zip(*np.nonzero(entries >= 0), strict=True):
        told[entries[step, env], overridden[step, env], env, episodes[step, env]].append(float(advantages[step, env]))
    for (entry, played, *_), of_episode in told.items():
        worth.record(int(entry), bool(played), fmean(of_episode))


def disable(worth: EntryWorth, envs: Iterable[gym.Env | None]) -> None:
    """Disables the entries that cost return in all environments."""
    for env in filter(None, envs):
        env.set_wrapper_attr("disabled", worth.disabled, force=False)


def entry_table(worth: EntryWorth, guidance: Guidance) -> list[dict]:
    """What each entry was worth, with the LLM's action and reward, and the episode or the line that it comes from."""
    rows = worth.table()
    if isinstance(guidance, CriticalStates):
        notes = guidance.notes or ({},) * len(rows)
        for row, action, reward, note in zip(rows, guidance.actions.tolist(), guidance.rewards.tolist(), notes, strict=True):
            row |= {"action": action, "reward": reward} | {name: note[name] for name in ("episode", "step") if name in note}
    if isinstance(guidance, CriticalFunction):
        lines = re.split(r"\r\n|\r|\n", guidance.source)  # as Python counts them; splitlines() also splits at form feeds
        for row, line in zip(rows, guidance.lines, strict=True):
            row |= {"line": line, "code": lines[line - 1].strip()}
    return rows
