"""entry_table: what became of each entry of the LLM's table, or of each return of its code."""

from llmwrappers import CriticalFunction, CriticalStates, EntryWorth
from llmwrappers.critical_states.guidance import Guidance


def entry_table(worth: EntryWorth, guidance: Guidance) -> list[dict]:
    """What each entry was worth, with what the LLM said there, and in which of its episodes or lines that was."""
    rows = worth.table()
    if isinstance(guidance, CriticalStates):
        notes = guidance.notes or ({},) * len(rows)
        for row, action, reward, note in zip(rows, guidance.actions.tolist(), guidance.rewards.tolist(), notes, strict=True):
            row |= {"action": action, "reward": reward} | {name: note[name] for name in ("episode", "step") if name in note}
    if isinstance(guidance, CriticalFunction):
        lines = guidance.source.splitlines()
        for row, line in zip(rows, guidance.lines, strict=True):
            row |= {"line": line, "code": lines[line - 1].strip()}
    return rows
