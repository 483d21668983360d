"""Reports the choice among candidates to a person, as one HTML file.

The file loads nothing from elsewhere, escapes everything that a model wrote, and lets a browser run one script alone: the one
that copies code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from llmwrappers.files import write_atomically
from llmwrappers.priors.measurement import WINDOWS, Measurement
from local_llm.command import use_in_python, use_in_training
from local_llm.prompting.wording import count_text, fixed_text
from local_llm.selection import code_blocks
from local_llm.selection.candidate import Candidate
from local_llm.selection.choose import Choice
from local_llm.selection.code_blocks import code_block
from local_llm.selection.drawings import curves, films
from local_llm.selection.training import Trained

MOST_OF_A_REPLY = 10_000  # characters shown of a reply without code
STYLE = """
html { background: #fff; }
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
.groups th.deciding { color: #1c1c1c; font-weight: 600; } .groups th.deciding span { border-bottom: 2px solid #0072b2; }
tr.chosen td { background: #e8f2f9; font-weight: 600; }
tr.chosen td.spread { font-weight: normal; }
tr.reference td { color: #555; font-style: italic; }
figure { margin: 0 0 1.6rem; break-inside: avoid; }
figcaption { margin-bottom: .35rem; }
figcaption b { color: #1c1c1c; font-size: .9rem; }
.strip { display: grid; grid-template-columns: repeat(8, 1fr); gap: 3px; }
@media (max-width: 40rem) { .strip { grid-template-columns: repeat(4, 1fr); } }
.strip div { font: .68rem/1.6 "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; color: #666; }
.strip img { display: block; width: 100%; border: 1px solid #e3e3e3; }
.moving { display: block; width: 15rem; margin-bottom: .5rem; border: 1px solid #e3e3e3; }
@media (prefers-reduced-motion: reduce) { .moving { display: none; } }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem 1.5rem; }
.panels svg { width: 100%; height: auto; display: block; }
.legend { max-width: none; }
.legend span { display: inline-block; margin-right: 1.6rem; white-space: nowrap; }
.legend svg { vertical-align: middle; margin-right: .4rem; }
details { border-top: 1px solid #ddd; padding: .5rem 0; }
summary { cursor: pointer; font-size: .9rem; }
pre { font: .76rem/1.5 "SF Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; background: #f6f6f4;
  padding: .9rem 1rem; margin: .6rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
details > .small { margin: 1rem 0 0; }
.facts { margin-top: 1rem; }
.facts td { text-align: left; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts td:first-child { white-space: nowrap; color: #555; padding-right: 1.5rem; }
@media screen and (prefers-color-scheme: dark) { html { filter: invert(.9) hue-rotate(180deg); }
  .strip img, .moving { filter: invert(1) hue-rotate(180deg); } }
@media print { body { padding: 0; font-size: 10pt; } h2 { break-after: avoid; } pre { break-inside: auto; }
  .verdict { font-size: 1.3rem; } .moving { display: none; } }
"""
STYLE += code_blocks.STYLE


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
    """Writes the report of a choice as one self-contained HTML file: verdict, use, numbers, films, curves, code, prompt.

    Each candidate that ran plays again, in this process, to be filmed. If the environment cannot be rendered, the report says
    why.

    Args:
        path: the file; it is replaced as a whole, and its folder is made
        env_id: the environment
        prompt: what the model was asked
        candidates: all of them, the rejected ones too
        choice: what ``choose_candidate`` returned for them
        ledger: the cost of asking, as text
        provenance: what is needed to repeat it, such as the model and versions

    Raises:
        OSError: the file cannot be written

    Example:
        >>> import tempfile
        >>> from local_llm.selection.choose import choose_candidate
        >>> source = "def policy(obs): return [-2.0 * obs[1] - 0.5 * obs[2]]"
        >>> candidates = [Candidate(1, source, Path("policy-1.py"), lambda obs: [-2.0 * obs[1] - 0.5 * obs[2]])]
        >>> few = {"episodes": 2, "held_out_episodes": 1, "log": lambda line: None}
        >>> choice = choose_candidate("Pendulum-v1", candidates, select="probe", **few)
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
        _use(candidates, choice),
        f'<h2>The candidates</h2><div class="wide">{_table(candidates, choice)}</div>',
        f'<p class="small">{escape(_table_notes(choice))}</p>',
        films(env_id, ordered, choice),
        curves(choice),
        f"<h2>How it was decided</h2><p>{escape(choice.rule)}</p>",
        "<h2>The code</h2>",
        *(_code(candidate, str(choice.outcomes[candidate.number])) for candidate in ordered),
        "<h2>Where it comes from</h2>",
        _details("The prompt", prompt),
        _details("What asking has cost", ledger) if ledger else "",
        _facts({**(provenance or {}), "seed": choice.seed, **({"training": choice.settings} if choice.settings else {})}),
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Were some text of a model not escaped, it could neither run nor load anything.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f'script-src {code_blocks.SCRIPT_SOURCE}">'
        f"<title>{escape(env_id)}: {escape(choice.verdict.split(':')[0])}</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(part for part in parts if part)
        + f"\n<script>{code_blocks.SCRIPT}</script></body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)


def _use(candidates: list[Candidate], choice: Choice) -> str:
    """How to use the chosen candidate; nothing if none was chosen."""
    chosen = next((candidate for candidate in candidates if candidate.number == choice.candidate), None)
    if chosen is None:
        return ""
    prior = choice.env_id, choice.env_kwargs, chosen.path.resolve()
    return (
        f"<h2>Use it</h2><p>Train an agent with candidate {chosen.number}:</p>"
        f"{code_block(use_in_training(*prior), is_python=False)}"
        f"<p>Or mask the actions of your own agent with it:</p>{code_block(use_in_python(*prior))}"
    )


def _code(candidate: Candidate, outcome: str) -> str:
    """The code of each reply of a candidate, in order, and why it could not be used, if it could not."""
    parts = []
    for number, refused in enumerate(candidate.refused, start=1):
        parts.append(f'<p class="small"><b>Reply {number}</b> could not be used: {escape(refused.why)}</p>')
        if refused.source:
            parts.append(code_block(refused.source))
        else:
            cut = " [...]" if len(refused.reply) > MOST_OF_A_REPLY else ""
            parts.append(f"<pre>{escape(refused.reply[:MOST_OF_A_REPLY])}{cut}</pre>")
    if candidate.policy is not None and parts:
        parts.append(f'<p class="small"><b>Reply {len(candidate.refused) + 1}</b> is the candidate:</p>')
    if candidate.policy is not None or not parts:
        parts.append(code_block(candidate.source) if candidate.source else "<p>No code.</p>")
    return f"<details><summary>Candidate {candidate.number}: {escape(outcome)}</summary>{''.join(parts)}</details>"


def _details(summary: str, text: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def _facts(facts: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, indent=1, default=str)

    rows = "".join(f"<tr><td>{escape(str(name))}</td><td>{escape(text(value))}</td></tr>" for name, value in facts.items())
    return f'<table class="facts">{rows}</table>'


def _table(candidates: list[Candidate], choice: Choice) -> str:
    """One row for each candidate, for random actions and, if something was trained, for no prior."""

    def runs_of(number: int | None) -> list[Trained]:
        return [run for run in choice.runs if run.candidate == number]

    rows: list[tuple[str, Measurement, list[Trained], str, str]] = []
    for candidate in candidates:
        n = candidate.number
        measured = choice.measurements.get(n, Measurement())
        mark, outcome = "chosen" if n == choice.candidate else "", str(choice.outcomes[n])
        rows.append((f"Candidate {n}", measured, runs_of(n), outcome, mark))
    rows.append(("Random actions", choice.random, [], "", "reference"))
    if choice.nothing:
        rows.append(("Doing nothing", choice.nothing, [], "", "reference"))
    if choice.runs:
        rows.append(("No prior", Measurement(), runs_of(None), "PPO alone", "reference"))

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
    agents = [("learned", learned, None)]
    deciding, rest = (agents, alone) if choice.runs else (alone[:1], alone[1:])
    groups = [
        (title, [column for column in columns if any(value is not None for value in column[1])])
        for title, columns in (("this decided", deciding), ("alone", rest))
    ]
    heads, subheads, cells = ["<th></th>"], ["<th></th>"], [[f"<td>{escape(name)}</td>"] for name, *_ in rows]
    for title, columns in groups:
        if columns:
            width = sum(2 if spreads else 1 for _, _, spreads in columns)
            kind = "group deciding" if columns[0] in deciding else "group"
            heads.append(f'<th class="{kind}" colspan="{width}"><span>{title}</span></th>')
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
    if choice.held_out:
        mean, spread = fmean(choice.held_out.returns), float(np.std(choice.held_out.returns))
        decimals = _decimals([mean])
        notes.append(
            f"Held out: in {len(choice.held_out.returns)} more episodes, which nothing was chosen by, candidate {choice.best} "
            f"returns {fixed_text(mean, decimals)} \N{PLUS-MINUS SIGN} {fixed_text(spread, decimals)}; "
            f"{count_text(choice.held_out.faults, 'call', 'calls')} failed."
        )
    if choice.runs:
        notes.append(
            "Learned: mean return of the agent alone, PPO warm-started from the policy, over the evaluations in the last third "
            "of a run and over all runs."
        )
    return " ".join(notes)
