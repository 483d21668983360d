"""Records the advantages of each entry after each rollout, and writes what each entry was worth into a table."""

import re
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

import gymnasium as gym
import numpy as np

from llmwrappers import CriticalFunction, CriticalStates, EntryWorth
from llmwrappers.critical_states.guidance import Guidance


class EpisodeAdvantages:
    """Records, for each episode, the mean advantage of the steps in which an entry was played, and was withheld.

    The steps of an episode are not independent: one episode in which the agent walks in a circle to its end would otherwise
    outweigh a hundred in which the entry helped. An episode may last for many rollouts.
    """

    def __init__(self):
        self.current: dict[int, dict] = defaultdict(lambda: defaultdict(list))  # of each environment

    def add(
        self, worth: EntryWorth, entries: np.ndarray, overridden: np.ndarray, advantages: np.ndarray, dones: np.ndarray
    ) -> dict[str, float]:
        """Adds a rollout, arrays of shape (steps, environments), ``entries`` -1 where none matched; returns its metrics."""
        for step, env in zip(*np.nonzero((entries >= 0) | dones), strict=True):
            if entries[step, env] >= 0:
                kind = int(entries[step, env]), bool(overridden[step, env])
                self.current[env][kind].append(float(advantages[step, env]))
            if dones[step, env]:
                self._end(worth, env)
        wheres = {"played": overridden, "withheld": (entries >= 0) & ~overridden}
        return {f"ultra/advantage_{name}": float(advantages[at].mean()) for name, at in wheres.items() if at.any()}

    def end(self, worth: EntryWorth | None) -> None:
        """Ends all episodes, as a checkpoint does."""
        while self.current and worth:
            self._end(worth, next(iter(self.current)))

    def _end(self, worth: EntryWorth, env: int) -> None:
        for (entry, played), of_episode in self.current.pop(env, {}).items():
            worth.record(entry, played, fmean(of_episode))


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
