"""Draws what a report shows: film strips of the candidates, and curves of what agents learned with them."""

import base64
import math
import struct
import zlib
from collections.abc import Iterable
from html import escape
from statistics import fmean
from typing import Any

import numpy as np

from llmwrappers.making import make_rendering
from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import play
from local_llm.choose import Candidate, Choice
from local_llm.wording import count_text, fixed_text, number_text

FRAMES = 8
# Frames are made this high, or as high as lets all of them together stay small.
FRAME_HEIGHTS = (160, 120, 90, 60)
MOST_FRAME_BYTES = 800_000

# The colours of the curves: without a prior, of an agent that began as a copy, of the policy alone.
NONE, AGENT, ALONE = "#555555", "#0072b2", "#d55e00"


def _number(value: float) -> str:
    """A number for a table, with a real minus sign."""
    return number_text(value).replace("-", "\N{MINUS SIGN}")


# -------------------------------------------------------------------------------------------------------- film strips


def films(env_id: str, candidates: list[Candidate], choice: Choice) -> str:
    """Returns a film strip of each candidate that ran; where the environment cannot be rendered, why."""
    filmed, problem = {}, ""
    for candidate in candidates:
        measured = choice.measurements.get(candidate.number)
        if candidate.policy is not None and measured and not measured.faults:
            try:
                filmed[candidate.number] = film(env_id, candidate.policy, measured.steps[0], choice.seed, choice.env_kwargs)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                break
    images = {}
    for height in FRAME_HEIGHTS:
        images = {
            number: [(caption, base64.b64encode(png(shrink(frame, height))).decode()) for caption, frame in frames]
            for number, frames in filmed.items()
        }
        if sum(len(image) for frames in images.values() for _, image in frames) <= MOST_FRAME_BYTES:
            break
    parts = []
    for number, frames in images.items():
        steps, episodic_return = choice.measurements[number].steps[0], choice.measurements[number].returns[0]
        episode = f"the episode with seed {choice.seed}: {_number(steps)} steps, return {_number(episodic_return)}"
        pictures = "".join(
            f'<div><img alt="{caption}" src="data:image/png;base64,{image}">{caption}</div>' for caption, image in frames
        )
        parts.append(
            f"<figure><figcaption><b>Candidate {number}</b>&ensp;{episode}</figcaption>"
            f'<div class="strip">{pictures}</div></figure>'
        )
    if problem:
        parts.append(f"<p>No film: {escape(env_id)} cannot be rendered here ({escape(problem)}).</p>")
    return f"<h2>What they do</h2>{''.join(parts)}" if parts else ""


def film(
    env_id: str, policy: PriorPolicy, steps: int, seed: int, env_kwargs: dict[str, Any] | None = None
) -> list[tuple[str, np.ndarray]]:
    """Plays an episode of so many steps, and returns frames spread over it, each with a caption.

    Raises:
        Exception: whatever the environment raises where it cannot be rendered
    """
    wanted = set(np.linspace(1, steps, min(FRAMES, steps)).round().astype(int).tolist())
    env = make_rendering(env_id, **(env_kwargs or {}))
    try:
        frames = []
        for t, step in enumerate(play(env, policy, seed), start=1):
            if t in wanted:
                frame = env.render()
                if not (isinstance(frame, np.ndarray) and frame.ndim == 3):
                    raise TypeError(f"render() returned {type(frame).__name__} instead of an image")
                position = step.next_info.get("x_position")
                at = "" if position is None else f" at {fixed_text(float(position), 1)} m"
                frames.append((f"step {_number(t)}{at}", frame))
        return frames
    finally:
        env.close()


def shrink(image: np.ndarray, height: int) -> np.ndarray:
    """Makes an image (height, width, 3) about so high, by averaging squares of its pixels.

    Example:
        >>> shrink(np.zeros((480, 640, 3), np.uint8), height=160).shape
        (160, 213, 3)
    """
    n = max(1, round(image.shape[0] / height))
    rows, columns = image.shape[0] // n, image.shape[1] // n
    blocks = image[: rows * n, : columns * n, :3].reshape(rows, n, columns, n, 3)
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)


def png(image: np.ndarray) -> bytes:
    """Encodes an image (height, width, 3) of bytes as PNG.

    Example:
        >>> png(np.zeros((2, 3, 3), np.uint8))[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'
    """
    height, width, _ = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    # Filter 2: each row is stored as its difference to the row above.
    above = np.concatenate([np.zeros((1, *image.shape[1:]), np.uint8), image[:-1]])
    rows = np.concatenate([np.full((height, 1), 2, np.uint8), (image - above).reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    )


# ------------------------------------------------------------------------------------------------------------- curves


def curves(choice: Choice) -> str:
    """Returns one panel a trained candidate: what agents that began as its copies return, beside those without a prior."""
    numbers = list(dict.fromkeys(run.candidate for run in choice.runs if run.candidate is not None))
    if not numbers:
        return ""
    # Those that were trained longest first.
    numbers.sort(key=lambda number: (number != choice.best, -sum(run.candidate == number for run in choice.runs), number))
    alone = [fmean(choice.measurements[number].returns) for number in numbers]
    values = [value for run in choice.runs for value in run.returns] + alone
    panels = [_panel(choice, number, min(values), max(values)) for number in numbers]
    line = '<svg width="30" height="10"><line x1="1" x2="29" y1="5" y2="5" stroke="{}" stroke-width="{}" {}/></svg>'
    legend = "".join(
        f"<span>{line.format(color, width, dash)}{text}</span>"
        for color, width, dash, text in (
            (AGENT, 2.6, "", "the agent that began as a copy of the policy"),
            (NONE, 2.6, "", "no prior"),
            (ALONE, 1.3, 'stroke-dasharray="1.5 2.5"', "the policy alone"),
        )
    )
    steps, clone_steps = (_number(choice.settings[name]) for name in ("total_timesteps", "clone_steps"))
    return (
        f'<h2>What agents learned with them</h2><p class="legend">{legend}</p><div class="panels">{"".join(panels)}</div>'
        f'<p class="small">Evaluated return over {steps} steps of training. Thin lines are runs, thick ones their mean. In '
        f"the shaded {clone_steps} steps the agent becomes a copy of the policy; the bar below the axis marks the last third, "
        "which is what is compared.</p>"
    )


def _panel(choice: Choice, number: int, low: float, high: float) -> str:
    left, top, width, height = 58, 30, 296, 180
    total = choice.settings["total_timesteps"]
    y_ticks, x_ticks = ticks(low, high), ticks(0, total)
    low, high = min(low, y_ticks[0]), max(high, y_ticks[-1])

    def x(step: float) -> float:
        return left + width * step / total

    def y(value: float) -> float:
        return top + height * (1 - (value - low) / ((high - low) or 1))

    def line(points: Iterable[tuple[float, float]], style: str) -> str:
        path = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
        return f'<polyline points="{path}" fill="none" stroke-linejoin="round" {style}/>'

    def text(across: float, down: float, words: str, anchor: str, extra: str = "") -> str:
        return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" {extra}>{escape(words)}</text>'

    bottom, right = top + height, left + width
    cloning = width * choice.settings["clone_steps"] / total
    parts = [f'<rect x="{left}" y="{top}" width="{cloning:.1f}" height="{height}" fill="#f4efe4"/>']
    for tick in y_ticks:
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e3e3e3"/>')
        parts.append(text(left - 6, y(tick) + 3.5, _number(tick), "end"))
    for tick in x_ticks:
        parts.append(text(x(tick), bottom + 20, _number(tick), "middle"))
    parts.append(
        f'<rect x="{x(2 * total / 3):.1f}" y="{bottom + 3}" width="{right - x(2 * total / 3):.1f}" height="3" fill="#999"/>'
    )
    parts.append(f'<line x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="#1c1c1c"/>')
    alone = fmean(choice.measurements[number].returns)
    parts.append(line([(0, alone), (total, alone)], f'stroke="{ALONE}" stroke-width="1.3" stroke-dasharray="1.5 2.5"'))
    for arm, color in ((None, NONE), (number, AGENT)):
        curves = [dict(zip(run.steps, run.returns, strict=True)) for run in choice.runs if run.candidate == arm]
        parts += [line(curve.items(), f'stroke="{color}" stroke-width="0.9" opacity="0.5"') for curve in curves]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        mean = [(step, fmean(curve[step] for curve in curves)) for step in steps]
        parts.append(line(mean, f'stroke="{color}" stroke-width="2.4"'))
    runs = sum(run.candidate == number for run in choice.runs)
    none = sum(run.candidate is None for run in choice.runs)
    title = f"Candidate {number}{', chosen' if number == choice.candidate else ''}"
    parts.append(text(left, 16, title, "start", 'font-size="13" font-weight="600" fill="#1c1c1c"'))
    parts.append(text(right, 16, f"{count_text(runs, 'run', 'runs')}, {none} without a prior", "end"))
    return f'<svg viewBox="0 0 {right + 14} {bottom + 30}" font-size="10.5" fill="#555">{"".join(parts)}</svg>'


def ticks(low: float, high: float) -> list[float]:
    """Returns three to six round numbers that span an interval or nearly so.

    Example:
        >>> ticks(-38.0, 1831.0), ticks(0.0, 15360.0)
        ([0, 500, 1000, 1500], [0, 5000, 10000, 15000])
    """
    span = (high - low) or abs(high) or 1.0
    rounds = (factor * 10.0**power for power in range(-12, 16) for factor in (1, 2, 5))
    step = next((step for step in rounds if span / step < 4.5), span)
    values = (k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1))
    return [int(value) if step >= 1 else value for value in values]
