"""The file of a table of critical states: JSON with a line for each state, the same bytes for the same table."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATE_FIELDS = ("observation", "action", "reward")
STATE = frozenset(STATE_FIELDS)


def to_json(table: Any) -> str:
    """Returns the text of a file for a CriticalStates."""
    notes = table.notes or ({},) * len(table)
    states = [
        _json({"observation": observation, "action": action, "reward": reward, **note})
        for observation, action, reward, note in zip(
            table.observations.tolist(), table.actions.tolist(), table.rewards.tolist(), notes, strict=True
        )
    ]
    lines = [
        "{",
        f'"environment": {_json(table.environment)},',
        f'"tolerance": {_json(table.tolerance)},',
        f'"calibration": {_json(table.calibration)},',
        f'"scale": {_json(table.scale.tolist())},',
        '"states": [',
        ",\n".join(states),
        "]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def from_json(text: str) -> dict[str, Any]:
    """Returns the arguments of the CriticalStates that a text holds.

    Raises:
        ValueError: names the field
    """
    table = json.loads(text, parse_constant=_refuse_constant)
    states = _field(table, "states", list, "the table")
    columns = [
        (
            _numbers(_field(state, "observation", list, f"states[{index}]"), f"states[{index}].observation"),
            _numbers(_field(state, "action", object, f"states[{index}]"), f"states[{index}].action"),
            _numbers(_field(state, "reward", float | int, f"states[{index}]"), f"states[{index}].reward"),
        )
        for index, state in enumerate(states)
    ]
    if not columns:
        raise ValueError("states is empty")
    stacked = [_stacked(name, c) for name, c in zip(STATE_FIELDS, zip(*columns, strict=True), strict=True)]
    notes = [{key: value for key, value in state.items() if key not in STATE} for state in states]
    return {
        **dict(zip(("observations", "actions", "rewards"), stacked, strict=True)),
        "scale": _numbers(_field(table, "scale", list, "the table"), "scale"),
        "tolerance": _field(table, "tolerance", float | int, "the table"),
        "environment": _field(table, "environment", str | None, "the table"),
        "notes": notes if any(notes) else (),
        "calibration": _field(table, "calibration", dict | None, "the table"),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is no number")


def _field(table: Any, key: str, kind: Any, where: str) -> Any:
    if not isinstance(table, dict) or key not in table:
        raise ValueError(f"{where} must be an object with {key!r}, got {str(table)[:80]}")
    value = table[key]
    if not isinstance(value, kind) or (kind == float | int and isinstance(value, bool)):
        raise ValueError(f"{key!r} of {where} has the wrong type, got {str(value)[:80]}")
    return value


def _numbers(value: Any, name: str) -> NDArray:
    """An array of the numbers in JSON; text and truth values are none."""
    try:
        array = np.array(value)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "if":
        raise ValueError(f"{name} must hold numbers, got {str(value)[:80]}")
    return array


def _stacked(name: str, parts: Sequence[NDArray]) -> NDArray:
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"the states differ in the shape of {name!r}: {sorted(shapes)}")
    return np.array(parts)
