"""entry_table: what became of each entry of a table of critical states."""

from llmwrappers import CriticalStates, EntryWorth
from llmwrappers.critical_states.guidance import Guidance


def entry_table(worth: EntryWorth, guidance: Guidance) -> list[dict]:
    """What each entry was worth, with what the LLM said there and where in its episodes that was."""
    rows = worth.table()
    if isinstance(guidance, CriticalStates):
        notes = guidance.notes or ({},) * len(rows)
        for row, action, reward, note in zip(rows, guidance.actions.tolist(), guidance.rewards.tolist(), notes, strict=True):
            row |= {"action": action, "reward": reward} | {name: note[name] for name in ("episode", "step") if name in note}
    return rows
