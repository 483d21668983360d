"""Writes numbers, counts, units and arguments as a person or a model reads them."""

import math
import re
from typing import Any

import numpy as np

# Of an argument in a prompt, and of an array in it: what is longer is data.
MOST_CHARACTERS, MOST_NUMBERS = 2000, 64


def number_text(value: float) -> str:
    """Returns a number as one says it: whole if it is large, else with three significant digits.

    Example:
        >>> number_text(15360), number_text(-0.01234), number_text(81.26)
        ('15 360', '-0.0123', '81.3')
    """
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def count_text(number: int, one: str, many: str) -> str:
    """Returns so many of something.

    Example:
        >>> count_text(1, "step", "steps"), count_text(0, "step", "steps")
        ('1 step', '0 steps')
    """
    return f"{number} {one if number == 1 else many}"


def fixed_text(value: float | None, decimals: int) -> str:
    """Returns a number with so many decimals as it is printed in a table, with a real minus sign; nothing for None."""
    if value is None:
        return ""
    # + 0.0: a small negative number would be rounded to -0.
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace(",", "\N{NO-BREAK SPACE}").replace("-", "\N{MINUS SIGN}")


def short_number(value: float, decimals: int) -> str:
    """Returns a number with at most so many decimals.

    Example:
        >>> short_number(1.5, 3), short_number(-0.001, 2)
        ('1.5', '0')
    """
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def decimals_of(width: float) -> int:
    """Returns how many decimals, at most 6, tell about a twentieth of a range from the next."""
    return min(6, max(0, 1 - math.floor(math.log10(width / 2)))) if width > 0 else 2


def scaled(unit: str) -> tuple[float, str]:
    """Splits "7.5 m/s" into its number and its unit."""
    number, _, rest = unit.partition(" ")
    return (float(number), rest) if re.fullmatch(r"[\d.]+", number) and rest else (1.0, unit)


def unit_text(unit: str) -> str:
    """Returns a unit as it stands behind a number, with the space before it.

    Example:
        >>> unit_text("m"), unit_text("7.5 m/s"), unit_text("1")
        (' m', ' (x 7.5 m/s)', '')
    """
    factor, rest = scaled(unit)
    return "" if unit == "1" else f" (x {unit})" if factor != 1 else f" {rest}"


def arguments_words(arguments: dict[str, Any]) -> str:
    """Returns arguments as one writes them in a call; only what is numbers, text, small arrays or containers of them.

    Example:
        >>> arguments_words({"fee": 0.1, "sides": [-1, None], "prices": object(), "rule": max})
        'fee=0.1, sides=[-1, None]'
    """
    plain = {name: repr(value) for name, value in arguments.items() if _is_plain(value)}
    return ", ".join(f"{name}={words}" for name, words in plain.items() if len(words) <= MOST_CHARACTERS)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, (*value.keys(), *value.values())))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "fiubU" and value.size <= MOST_NUMBERS
    return value is None or isinstance(value, bool | int | float | str)
