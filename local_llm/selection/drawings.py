"""Draws what a report shows: films of the candidates, and curves of what agents learned with them."""

import base64
import itertools
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from html import escape
from statistics import fmean
from typing import Any

import gymnasium as gym
import numpy as np

from llmwrappers.making import make_rendering
from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import play
from local_llm.prompting.wording import count_text, fixed_text, number_text
from local_llm.selection.candidate import Candidate
from local_llm.selection.choose import Choice

FRAMES = 8
# Frames are made this high, or as high as lets all of them together stay small.
FRAME_HEIGHTS = (160, 120, 90, 60)
MOST_FRAME_BYTES = 800_000
# The moving picture shows the first steps of an episode, as fast as they happen, or slower where the time step is long.
MOVING_FRAMES, MOVING_FPS = 48, 10
MOST_MOVING_BYTES = 390_000

# The colours of the curves: PPO alone, PPO warm-started from the policy, the policy alone.
NONE, AGENT, ALONE = "#555555", "#0072b2", "#d55e00"


def _number(value: float) -> str:
    """A number for a table, with a real minus sign."""
    return number_text(value).replace("-", "\N{MINUS SIGN}")


# -------------------------------------------------------------------------------------------------------- film strips


def films(env_id: str, candidates: list[Candidate], choice: Choice) -> str:
    """Returns a film strip of each candidate that ran, and a moving picture of the best one; else why there is none."""
    filmed, moving, problem = {}, "", ""
    for candidate in candidates:
        measured = choice.measurements.get(candidate.number)
        if candidate.policy is not None and measured and not measured.faults:
            try:
                is_best, episode = candidate.number == choice.best, (measured.steps[0], choice.first_episode, choice.env_kwargs)
                filmed[candidate.number], beginning, pause = film(env_id, candidate.policy, *episode, moving=is_best)
                moving = _moving(beginning, pause) if is_best else moving
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                break
    images: dict[int, list[tuple[str, str]]] = {}
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
        episode = f"the episode with seed {choice.first_episode}: {_number(steps)} steps, return {_number(episodic_return)}"
        pictures = "".join(
            f'<div><img alt="{caption}" src="data:image/png;base64,{image}">{caption}</div>' for caption, image in frames
        )
        parts.append(
            f"<figure><figcaption><b>Candidate {number}</b>&ensp;{episode}</figcaption>"
            f'{moving if number == choice.best else ""}<div class="strip">{pictures}</div></figure>'
        )
    if problem:
        parts.append(f"<p>No film: {escape(env_id)} cannot be rendered here ({escape(problem)}).</p>")
    return f"<h2>What they do</h2>{''.join(parts)}" if parts else ""


def _moving(frames: list[np.ndarray], milliseconds: int) -> str:
    """The moving picture, or why there is none; who prefers no motion sees the film strip alone."""
    for height in FRAME_HEIGHTS:
        image = base64.b64encode(animated_png([shrink(frame, height) for frame in frames], milliseconds)).decode()
        if len(image) <= MOST_MOVING_BYTES:
            return f'<img class="moving" alt="the policy in motion" src="data:image/png;base64,{image}">'
    return f'<p class="small">No moving picture: it would take more than {number_text(MOST_MOVING_BYTES)} bytes.</p>'


def film(
    env_id: str,
    policy: PriorPolicy,
    steps: int,
    seed: int,
    env_kwargs: dict[str, Any] | None = None,
    moving: bool = False,
) -> tuple[list[tuple[str, np.ndarray]], list[np.ndarray], int]:
    """Plays an episode of so many steps.

    Returns frames spread over it, each with a caption; if ``moving``, the frames of its beginning; and for how many
    milliseconds each of these is shown.

    Raises:
        Exception: whatever the environment raises where it cannot be rendered
    """
    strip = np.linspace(1, steps, min(FRAMES, steps)).round().astype(int).tolist()
    with closing(make_rendering(env_id, **(env_kwargs or {}))) as env:
        steps_a_second = env.metadata.get("render_fps") or MOVING_FPS
        every = max(1, round(steps_a_second / MOVING_FPS))
        beginning = range(1, steps + 1, every)[:MOVING_FRAMES] if moving else ()
        frames = dict(_frames(env, policy, seed, {*strip, *beginning}))
    milliseconds = min(1000, round(1000 * every / steps_a_second))
    return [frames[t] for t in strip if t in frames], [frames[t][1] for t in beginning if t in frames], milliseconds


def _frames(
    env: gym.Env, policy: PriorPolicy, seed: int, wanted: Collection[int]
) -> Iterator[tuple[int, tuple[str, np.ndarray]]]:
    """Plays an episode as far as the last of the wanted steps, and yields each of these with its caption and image."""
    for t, step in enumerate(play(env, policy, seed), start=1):
        if t in wanted:
            frame = env.render()
            if not (isinstance(frame, np.ndarray) and frame.ndim == 3):
                raise TypeError(f"render() returned {type(frame).__name__} instead of an image")
            position = step.next_info.get("x_position")
            at = "" if position is None else f" at {fixed_text(float(position), 1)} m"
            yield t, (f"step {_number(t)}{at}", frame)
        if t == max(wanted):
            return


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
    above = np.concatenate([np.zeros((1, *image.shape[1:]), np.uint8), image[:-1]])
    # Filter 2: each row is stored as its difference to the row above.
    return _png(image.shape, _chunk(b"IDAT", _rows(image - above, 2)))


def animated_png(images: Sequence[np.ndarray], milliseconds: int) -> bytes:
    """Encodes images of one size as an endless PNG, each shown for so long; colours have five bits, which halves its size."""
    height, width, _ = images[0].shape
    chunks, count = [_chunk(b"acTL", struct.pack(">II", len(images), 0))], itertools.count()
    for index, image in enumerate(images):
        control = struct.pack(">IIIIIHHBB", next(count), width, height, 0, 0, milliseconds, 1000, 0, 0)
        rows = _rows(image & 0xF8 | image >> 5, 0)  # black and white stay what they are
        # Who knows no animation shows the first image, which is stored as in any PNG.
        data = _chunk(b"fdAT", struct.pack(">I", next(count)) + rows) if index else _chunk(b"IDAT", rows)
        chunks += [_chunk(b"fcTL", control), data]
    return _png(images[0].shape, *chunks)


def _png(shape: tuple[int, ...], *chunks: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", shape[1], shape[0], 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + b"".join(chunks) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _rows(image: np.ndarray, filter_type: int) -> bytes:
    marks = np.full((len(image), 1), filter_type, np.uint8)
    return zlib.compress(np.concatenate([marks, image.reshape(len(image), -1)], axis=1).tobytes(), 9)


# ------------------------------------------------------------------------------------------------------------- curves


def curves(choice: Choice) -> str:
    """Returns one panel for each trained candidate: curves of PPO warm-started from it, and of PPO without a prior."""
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
            (AGENT, 2.6, "", "PPO warm-started from the policy"),
            (NONE, 2.6, "", "no prior"),
            (ALONE, 1.3, 'stroke-dasharray="1.5 2.5"', "the policy alone"),
        )
    )
    steps, clone_steps = (_number(choice.settings[name]) for name in ("total_timesteps", "clone_steps"))
    return (
        f'<h2>What agents learned with them</h2><p class="legend">{legend}</p><div class="panels">{"".join(panels)}</div>'
        f'<p class="small">Evaluated return over {steps} steps of training. Thin lines are runs, thick ones their mean. In '
        f"the shaded {clone_steps} steps the agent clones the policy. The bar below the axis marks the last third, over which "
        "the runs are compared.</p>"
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
