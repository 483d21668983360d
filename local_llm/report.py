"""Reports what became of the candidates: one HTML file for a person, a text for the model that is to do better.

The HTML file is complete in itself: no script, nothing is loaded from elsewhere, and everything that a model wrote is escaped.
"""

import base64
import json
import math
import os
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten

from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import WINDOWS, Measurement, Step, make, play
from local_llm.choose import Candidate, Choice
from local_llm.training import Run
from local_llm.wording import count_text, fixed_text, number_text

FRAMES = 8
# Frames are made this high, or as high as lets all of them together stay small.
FRAME_HEIGHTS = (160, 120, 90, 60)
MOST_FRAME_BYTES = 800_000
# How many numbers of states and actions a text for the model shows, and how many of one observation.
NUMBERS_SHOWN, OBSERVATION_SHOWN = 600, 120

NONE, AGENT, ALONE = "#555555", "#0072b2", "#d55e00"
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { max-width: 70rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; color: #1c1c1c; background: #fff;
  font: 1rem/1.55 Charter, "Bitstream Charter", "Sitka Text", Cambria, Georgia, "Liberation Serif", serif; }
h1 { font-size: 1.05rem; font-weight: normal; color: #555; margin: 0 0 1rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 .75rem; }
p { max-width: 46rem; margin: .5rem 0 1rem; }
.verdict { font-size: 1.5rem; line-height: 1.4; max-width: 54rem; margin: 0; padding-left: 1.1rem;
  border-left: 5px solid #777; }
.helps { border-color: #0072b2; }
.small, figcaption, table, .legend, summary, svg { font-family: "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial,
  sans-serif; }
.small, figcaption, .legend { font-size: .8rem; line-height: 1.45; color: #555; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; line-height: 1.35; font-variant-numeric: tabular-nums lining-nums; }
th, td { text-align: right; vertical-align: top; padding: .38rem .15rem .38rem .8rem; border-bottom: 1px solid #ddd; }
th { font-weight: 600; vertical-align: bottom; border-bottom: 1.5px solid #1c1c1c; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: .4rem; }
.groups th { border: 0; padding-bottom: 0; font-weight: normal; color: #555; }
th.group { text-align: center; padding-left: 1rem; }
th.group span { display: block; border-bottom: 1px solid #bbb; }
td.spread { text-align: left; padding-left: .25rem; color: #666; }
th.text, td.text { text-align: left; padding-left: 1.4rem; white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
th.pair { text-align: center; }
tr.chosen td { background: #e8f2f9; font-weight: 600; }
tr.chosen td.spread { font-weight: normal; }
tr.reference td { color: #555; font-style: italic; }
figure { margin: 0 0 1.6rem; break-inside: avoid; }
figcaption { margin-bottom: .35rem; }
figcaption b { color: #1c1c1c; font-size: .9rem; }
.strip { display: grid; grid-template-columns: repeat(8, 1fr); gap: 3px; }
.strip div { font: .68rem/1.6 "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; color: #666; }
.strip img { display: block; width: 100%; border: 1px solid #e3e3e3; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem 1.5rem; }
.panels svg { width: 100%; height: auto; display: block; }
.legend { max-width: none; }
.legend span { display: inline-block; margin-right: 1.6rem; white-space: nowrap; }
.legend svg { vertical-align: middle; margin-right: .4rem; }
details { border-top: 1px solid #ddd; padding: .5rem 0; }
summary { cursor: pointer; font-size: .9rem; }
pre { font: .76rem/1.5 "SF Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; background: #f6f6f4;
  padding: .9rem 1rem; margin: .6rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts { margin-top: 1rem; }
.facts td { text-align: left; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts td:first-child { white-space: nowrap; color: #555; padding-right: 1.5rem; }
@media print { body { padding: 0; font-size: 10pt; } h2 { break-after: avoid; } pre { break-inside: auto; }
  .verdict { font-size: 1.3rem; } }
"""


# --------------------------------------------------------------------------------------------------------------- HTML


def write_report(
    path: Path,
    env_id: str,
    prompt: str,
    candidates: list[Candidate],
    choice: Choice,
    *,
    ledger: str = "",
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Writes the report of a choice as one self-contained HTML file: verdict, numbers, film strips, curves, code, prompt.

    Each candidate that ran is played once more, in this process, to film it. Where the environment cannot be rendered, the
    report says why.

    Args:
        path: the file, which is overwritten; its folder is made
        env_id: the environment
        prompt: what the model was asked
        candidates: all of them, the rejected ones too
        choice: what ``choose_candidate`` returned for them
        ledger: what asking has cost, as text
        provenance: what one needs to know to repeat it, such as the model and versions

    Raises:
        OSError: the file cannot be written

    Example:
        >>> import tempfile
        >>> from local_llm.choose import choose_candidate
        >>> source = "def policy(obs): return [-2.0 * obs[1] - 0.5 * obs[2]]"
        >>> candidates = [Candidate(1, source, Path("policy-1.py"), lambda obs: [-2.0 * obs[1] - 0.5 * obs[2]])]
        >>> choice = choose_candidate("Pendulum-v1", candidates, select="probe", episodes=2, log=lambda line: None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(Path(folder) / "report.html", "Pendulum-v1", "Write policy(obs).", candidates, choice)
        ...     choice.verdict in (Path(folder) / "report.html").read_text()
        True
    """
    # The best one first, then in order.
    ordered = sorted(candidates, key=lambda candidate: (candidate.number != choice.best, candidate.number))
    parts = [
        f"<h1>{escape(env_id)}: {count_text(len(candidates), 'policy', 'policies')} written by a language model</h1>",
        f'<p class="verdict{" helps" if choice.candidate is not None else ""}">{escape(choice.verdict)}</p>',
        f'<h2>The candidates</h2><div class="wide">{_table(candidates, choice)}</div>',
        f'<p class="small">{escape(_table_notes(choice))}</p>',
        _films(env_id, ordered, choice),
        _curves(choice),
        f"<h2>How it was decided</h2><p>{escape(choice.rule)}</p>",
        "<h2>The code</h2>",
        *(
            _details(f"Candidate {candidate.number}: {choice.outcomes[candidate.number]}", candidate.source or "no code")
            for candidate in ordered
        ),
        "<h2>Where it comes from</h2>",
        _details("The prompt", prompt),
        _details("What asking has cost", ledger) if ledger else "",
        _facts({**(provenance or {}), "seed": choice.seed, **({"training": choice.settings} if choice.settings else {})}),
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Were some text of a model not escaped, it could neither run nor load anything.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f"<title>{escape(env_id)}: {escape(choice.verdict.split(':')[0])}</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")


def _number(value: float) -> str:
    """A number for a table, with a real minus sign."""
    return number_text(value).replace("-", "\N{MINUS SIGN}")


def _details(summary: str, text: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def _facts(facts: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, indent=1, default=str)

    rows = "".join(f"<tr><td>{escape(str(name))}</td><td>{escape(text(value))}</td></tr>" for name, value in facts.items())
    return f'<table class="facts">{rows}</table>'


def _table(candidates: list[Candidate], choice: Choice) -> str:
    """One row a candidate, one for random actions and, where something was trained, one for no prior."""

    def runs_of(number: int | None) -> list[Run]:
        return [run for run in choice.runs if run.candidate == number]

    rows: list[tuple[str, Measurement, list[Run], str, str]] = []
    for candidate in candidates:
        n = candidate.number
        measured = choice.measurements.get(n, Measurement())
        rows.append((f"Candidate {n}", measured, runs_of(n), choice.outcomes[n], "chosen" if n == choice.candidate else ""))
    rows.append(("Random actions", choice.random, [], "", "reference"))
    if choice.nothing:
        rows.append(("Doing nothing", choice.nothing, [], "", "reference"))
    if choice.runs:
        rows.append(("No prior", Measurement(), runs_of(None), "what an agent learns by itself", "reference"))

    def over_episodes(name: str, statistic: Callable) -> list[float | None]:
        return [statistic(values) if (values := getattr(m, name)) else None for _, m, *_ in rows]

    def single(name: str, factor: float = 1.0) -> list[float | None]:
        values = [getattr(m, name) if m.returns else None for _, m, *_ in rows]
        return [None if value is None else factor * value for value in values]

    # Heading, a value a row, a standard deviation a row if there are any.
    alone = [
        ("return", over_episodes("returns", fmean), over_episodes("returns", np.std)),
        ("forward, m", over_episodes("distances", fmean), over_episodes("distances", np.std)),
        ("steps", over_episodes("steps", fmean), None),
        ("survived, %", single("survival", 100), None),
        ("steady, %", single("steadiness", 100), None),
        ("saturated, %", single("saturation", 100), None),
        ("chatter, %", single("chatter", 100), None),
        ("\N{MICRO SIGN}s / call", single("microseconds"), None),
        ("faults", single("faults"), None),
    ]
    learned = [fmean(run.learned() for run in runs) if runs else None for _, _, runs, *_ in rows]
    groups = [
        (title, [column for column in columns if any(value is not None for value in column[1])])
        for title, columns in (("alone", alone), ("agents", [("learned", learned, None)]))
    ]
    heads, subheads, cells = ["<th></th>"], ["<th></th>"], [[f"<td>{escape(name)}</td>"] for name, *_ in rows]
    for title, columns in groups:
        if columns:
            width = sum(2 if spreads else 1 for _, _, spreads in columns)
            heads.append(f'<th class="group" colspan="{width}"><span>{title}</span></th>')
        for heading, values, spreads in columns:
            subheads.append(f'<th class="pair" colspan="2">{heading}</th>' if spreads else f"<th>{heading}</th>")
            whole = heading.endswith("%") or heading == "faults"
            decimals = 0 if whole else _decimals([value for value in values if value is not None])
            for row, value, spread in zip(cells, values, spreads or values, strict=True):
                row.append(f"<td>{fixed_text(value, decimals)}</td>")
                if spreads:
                    shown = "" if spread is None else f"\N{PLUS-MINUS SIGN} {fixed_text(spread, decimals)}"
                    row.append(f'<td class="spread">{shown}</td>')
    body = "".join(
        f'<tr class="{kind}">{"".join(row)}<td class="text">{escape(outcome)}</td></tr>'
        for row, (_, _, _, outcome, kind) in zip(cells, rows, strict=True)
    )
    heads.append("<th></th>")
    subheads.append('<th class="text">what became of it</th>')
    return f'<table><tr class="groups">{"".join(heads)}</tr><tr>{"".join(subheads)}</tr>{body}</table>'


def _decimals(values: Sequence[float]) -> int:
    """How many decimals give the largest of some values three digits, at most three."""
    largest = max(map(abs, values), default=0.0)
    return 0 if largest >= 100 else 1 if largest >= 10 else 2 if largest >= 1 else 3


def _table_notes(choice: Choice) -> str:
    episodes = len(choice.random.returns)
    notes = [f"Each policy alone, {episodes} episodes; \N{PLUS-MINUS SIGN} is the standard deviation over episodes."]
    if any(m.survival is not None for m in choice.measurements.values()):
        notes.append("Survived: length of the episodes as a share of their time limit.")
    if any(m.steadiness is not None for m in choice.measurements.values()):
        notes.append(
            f"Steady: 100 for a constant forward speed over {WINDOWS} windows of an episode, 0 for none or for bursts."
        )
    if any(m.saturation is not None for m in choice.measurements.values()):
        notes.append("Saturated: share of the action components at a bound.")
        notes.append("Chatter: mean change of the action from one step to the next, as a share of its range.")
    elif choice.measurements:
        notes.append("Chatter: how often the action changes; where the policy allows several, one is drawn.")
    if choice.runs:
        notes.append(
            "Agents: mean return of an agent that began as a copy of the policy, over the evaluations in the last third of a "
            "run and over all runs."
        )
    return " ".join(notes)


# -------------------------------------------------------------------------------------------------------- film strips


def _films(env_id: str, candidates: list[Candidate], choice: Choice) -> str:
    films, problem = {}, ""
    for candidate in candidates:
        measured = choice.measurements.get(candidate.number)
        if candidate.policy is not None and measured and not measured.faults:
            try:
                films[candidate.number] = film(env_id, candidate.policy, measured.steps[0], choice.seed)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                break
    images = {}
    for height in FRAME_HEIGHTS:
        images = {
            number: [(caption, base64.b64encode(png(shrink(frame, height))).decode()) for caption, frame in frames]
            for number, frames in films.items()
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


def film(env_id: str, policy: PriorPolicy, steps: int, seed: int) -> list[tuple[str, np.ndarray]]:
    """Plays an episode of so many steps, and returns frames spread over it, each with a caption.

    Raises:
        Exception: whatever the environment raises where it cannot be rendered
    """
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")
    wanted = set(np.linspace(1, steps, min(FRAMES, steps)).round().astype(int).tolist())
    try:
        # The camera that MuJoCo environments use by default loses sight of what moves.
        env = make(env_id, render_mode="rgb_array", camera_name="track")
    except TypeError:
        env = make(env_id, render_mode="rgb_array")
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


def _curves(choice: Choice) -> str:
    """One panel a trained candidate: what agents that began as its copies return, beside those without a prior."""
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


# --------------------------------------------------------------------------------------------------------------- text


def report_text(env_id: str, candidate: Candidate, measurement: Measurement, random: Measurement, seed: int = 0) -> str:
    """Returns what a model is told of its policy, so that it writes a better one: numbers, an episode, what to improve.

    Args:
        env_id: the environment
        candidate: the policy; it is played once more
        measurement: what it did
        random: what random actions did in the same episodes
        seed: the seed of the first of them

    Raises:
        ValueError: the candidate was rejected and has no policy

    Example:
        >>> candidate = Candidate(1, "", Path("policy.py"), lambda obs: [2.0])
        >>> from llmwrappers.priors.measurement import measure, random_actions
        >>> env = make("Pendulum-v1")
        >>> policies = candidate.policy, random_actions(env.action_space, seed=0)
        >>> measurement, random = (measure(env, policy, episodes=2, seed=0) for policy in policies)
        >>> print(report_text("Pendulum-v1", candidate, measurement, random))  # doctest: +ELLIPSIS
        Your policy for Pendulum-v1 was run alone for 2 episodes.
        <BLANKLINE>
        return: -... +- ... (random actions: -... +- ...)
        ...
        - 100% of the action components are at a bound: lower the gains, so that the actions can still differ.
        ...
    """
    if candidate.policy is None:
        raise ValueError(f"candidate {candidate.number} has no policy to report on, it was rejected: {candidate.rejected}")
    worst = int(np.argmin(measurement.returns))
    env = make(env_id)
    try:
        steps = list(play(env, candidate.policy, seed + worst))
    finally:
        env.close()
    lines = [f"Your policy for {env_id} was run alone for {count_text(len(measurement.returns), 'episode', 'episodes')}.", ""]
    lines += _numbers(measurement, random)
    lines += ["", "What to improve:"]
    lines += [f"- {advice}" for advice in _advice(measurement, random)]
    ending = "the environment ended it (terminated)" if steps[-1].terminated else "the time limit ended it"
    lines += ["", f"The worst episode: return {_plain(sum(step.reward for step in steps))} in {len(steps)} steps, {ending}."]
    terms = _reward_terms(steps)
    if terms:
        lines.append("Its reward, mean a step: " + ", ".join(f"{name} {_plain(value)}" for name, value in terms.items()) + ".")
    lines += _states(env, steps)
    return "\n".join(lines)


def _plain(value: float) -> str:
    return number_text(value).replace(" ", "")


def _numbers(m: Measurement, random: Measurement) -> list[str]:
    def spread(values: Sequence[float]) -> str:
        return f"{_plain(fmean(values))} +- {_plain(float(np.std(values)))}"

    lines = [f"return: {spread(m.returns)} (random actions: {spread(random.returns)})"]
    limit = "" if m.survival is None else f", {m.survival:.0%} of the time limit"
    lines.append(
        f"length: {spread(m.steps)} steps{limit}; terminated by the environment: {m.terminated} of {len(m.steps)} episodes"
    )
    if m.distances:
        lines.append(f"forward distance: {spread(m.distances)} m")
    if m.steadiness is not None:
        lines.append(f"steadiness of the forward speed: {m.steadiness:.0%} (100% is a constant speed)")
    if m.saturation is not None:
        lines.append(f"action components at a bound: {m.saturation:.0%}")
    if m.chatter is not None:
        lines.append(f"change of the action from one step to the next: {m.chatter:.1%} of its range")
    lines.append(f"calls that failed: {m.faults}" + (f", the first with {m.first_fault}" if m.faults else ""))
    return lines


def _advice(m: Measurement, random: Measurement) -> list[str]:
    """What stands out in the numbers, worst first."""
    advice = []
    if m.faults:
        advice.append(
            f"{m.faults} calls failed ({m.first_fault}): return finite numbers of the right shape for every observation."
        )
    if m.terminated and (m.survival is None or m.survival < 0.95):
        advice.append(
            f"The environment ended {m.terminated} of {len(m.steps)} episodes, after {_plain(fmean(m.steps))} steps on "
            "average. Unless that is the goal, staying alive comes first: the last states below show what went wrong."
        )
    if fmean(m.returns) <= fmean(random.returns):
        advice.append("It is no better than random actions: check the signs of the gains and the order of the components.")
    if m.distances and fmean(m.distances) <= 0:
        advice.append("It does not move forward at all.")
    elif m.steadiness is not None and m.steadiness < 0.5:
        advice.append("Its forward speed is not steady: it stands still, or moves in bursts, for a part of the episode.")
    if m.saturation is not None and m.saturation > 0.5:
        share = f"{m.saturation:.0%}"
        advice.append(
            f"{share} of the action components are at a bound: lower the gains, so that the actions can still differ."
        )
    if m.chatter is not None and m.chatter > 0.2:
        advice.append("The action jumps from one step to the next: damp it, or switch more smoothly.")
    if m.microseconds is not None and m.microseconds > 1000:
        # Without the time itself, which is never the same twice: the same policy is to be told the same, and asked for once.
        advice.append("A call takes more than a millisecond, too long to train with: compute less.")
    return advice or ["Nothing is broken; do more of what the reward pays for."]


def _reward_terms(steps: list[Step]) -> dict[str, float]:
    """The terms of the reward, where the environment tells them in info, as MuJoCo's do."""
    names = [
        name
        for name, value in steps[-1].next_info.items()
        if name.startswith("reward") and isinstance(value, int | float | np.number)
    ]
    return {name: fmean(float(step.next_info.get(name, 0.0)) for step in steps) for name in names}


def _states(env: gym.Env, steps: list[Step]) -> list[str]:
    """Some steps of an episode, the first and the last among them, as lines of numbers."""

    def numbers(values: np.ndarray, most: int) -> str:
        shown = " ".join(f"{value:.3g}" for value in values[:most])
        return f"[{shown}{' ...' if len(values) > most else ''}]"

    observations = [np.asarray(flatten(env.observation_space, step.observation)).ravel() for step in steps]
    actions = [np.asarray(step.action, dtype=np.float64).ravel() for step in steps]
    size = min(len(observations[0]), OBSERVATION_SHOWN) + len(actions[0])
    shown = sorted(set(np.linspace(0, len(steps) - 1, min(max(NUMBERS_SHOWN // size, 3), 8)).round().astype(int).tolist()))
    lines = ["Some of its steps (step | observation | executed action | reward):"]
    for t in shown:
        observation, action = numbers(observations[t], OBSERVATION_SHOWN), numbers(actions[t], OBSERVATION_SHOWN)
        lines.append(f"{t} | {observation} | {action} | {steps[t].reward:.3g}")
    return lines
