"""table.md, the figures and index.html of a folder that holds curves.csv."""

import html
import itertools
import shlex
from pathlib import Path

from cleanrl_scripts.comparison.alone import returns_alone
from cleanrl_scripts.comparison.curves import from_csv
from cleanrl_scripts.comparison.description import description_of
from cleanrl_scripts.comparison.figures import curves_figure, image, summary_figure
from cleanrl_scripts.comparison.tables import Report, duration, explanation, make_report, markdown
from cleanrl_scripts.comparison.verdict import arms_explained, verdict
from llmwrappers.files import write_atomically


def html_page(report: Report, name: str, description: dict, figures: dict[str, str]) -> str:
    """The report as one self-contained HTML file."""
    parts = []
    for title, header, rows in report.tables:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
        parts.append(f"<h2>{html.escape(title)}</h2>\n<table><tr>{head}</tr>\n{body}</table>\n")
    drawn = "\n".join(f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in figures.values())
    arms = "".join(
        f"<li><b>{html.escape(arm)}</b>{html.escape(words)} <code>{html.escape(flags)}</code></li>\n"
        for arm, words, flags in arms_explained(report, description)
    )
    arms = f"<h2>The arms</h2>\n<ul>{arms}</ul>" if arms else ""
    notes = "".join(f"<li>{html.escape(note)}</li>\n" for note in report.notes)
    notes = f"<h2>To know</h2>\n<ul>{notes}</ul>" if notes else ""
    how = ""
    if command := description.get("command"):
        command = ["python", *command] if command[0].endswith(".py") else command  # before there was llmwrappers compare
        commit = description.get("commit")
        since = f"<p>At commit {html.escape(commit)}: the scripts no longer take these arguments.</p>\n" if commit else ""
        how = f"<h2>Command</h2>\n{since}<pre>{html.escape(shlex.join(command))}</pre>"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(name)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; overflow-wrap: break-word }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }}
th, td {{ text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #8884 }} td {{ white-space: nowrap }}
th {{ vertical-align: bottom }} th:first-child, td:first-child {{ text-align: left }}
figure {{ margin: 1.5rem 0; overflow-x: auto }} svg {{ min-width: 40rem; max-width: 100%; height: auto }}
.verdict {{ font-size: 20px; line-height: 1.4; max-width: 60rem }}
pre {{ white-space: pre-wrap; background: #8882; padding: .7rem }}
@media (prefers-color-scheme: dark) {{ body {{ background: #17191e; color: #ddd }} a {{ color: #8ab4f8 }} }}
</style></head><body>
<h1>{html.escape(name)}</h1>
<p class="verdict">{html.escape(verdict(report))}</p>
{arms}
{drawn}
{"".join(parts)}
{notes}
<h2>How to read it</h2>
{"".join(f"<p>{html.escape(sentence)}</p>" for sentence in explanation(report))}
{how}
</body></html>
"""


def hours_of_a_step(description: dict) -> dict[tuple[str, str], float]:
    """The mean hours of a step of each environment and arm, over the runs whose hours are known."""
    hours = {}
    for env_id, arms in description.get("runs", {}).items():
        for arm, seeds in arms.items():
            known = [note["hours"] / description["total_timesteps"] for note in seeds.values() if "hours" in note]
            if known:
                hours[env_id, arm] = sum(known) / len(known)
    return hours


def cost(description: dict, runs: int) -> list[str]:
    """A note on the cost of the runs, if it is known; runs: how many have curves."""
    environments = description.get("runs", {}).values()
    notes = [(arm, note) for arms in environments for arm, seeds in arms.items() for note in seeds.values()]
    runs += sum("left_out" in note for _, note in notes)
    hours = {arm: [note["hours"] for of, note in notes if of == arm and "hours" in note] for arm in description.get("arms", ())}
    every = [value for values in hours.values() for value in values]
    if not every:
        return []
    known, length = len(every), description["total_timesteps"]
    each = ", ".join(f"{arm} {duration(sum(hours[arm]) / len(hours[arm]))}" for arm in hours if hours[arm])
    note = f"Cost: {known} runs of {length:,} steps, {known * length:,} in all, took {duration(sum(every))} (a run: {each})."
    return [note if known == runs else f"{note} The hours of the other {runs - known} are not known."]


def write_report(folder: Path, threshold: float | None) -> Report:
    description = description_of(folder)
    threshold = description.get("threshold") if threshold is None else threshold
    evaluations = from_csv(folder / "curves.csv", ())
    seen = {(e.env_id, e.arm, e.seed) for e in evaluations}
    names = [description.get(name, []) for name in ("env_ids", "arms", "seeds")]
    missing: dict[str, dict[str, list[str]]] = {}
    for env_id, arm, seed in itertools.product(*names):
        if (env_id, arm, seed) not in seen:
            run = description.get("runs", {}).get(env_id, {}).get(arm, {}).get(str(seed), {})
            why = f"Left out, which may flatter its arm ({run['left_out']})" if "left_out" in run else "Not finished"
            missing.setdefault(why, {}).setdefault(f"{env_id} {arm}", []).append(str(seed))
    notes = []
    for why, runs in missing.items():
        listed = (f"{name} seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" for name, seeds in runs.items())
        notes.append(f"{why}: {'; '.join(listed)}.")
    arms, hours = description.get("arms", ()), hours_of_a_step(description)
    report = make_report(evaluations, arms, threshold, notes, hours, returns_alone(folder))
    report.notes += cost(description, len(seen))
    write_atomically(folder / "table.md", markdown(report))
    figures: dict[str, str] = {}
    for name, figure in (("curves", curves_figure(report)), ("summary", summary_figure(report))):
        images = {kind: image(figure, kind) for kind in ("png", "svg")}
        for kind, data in images.items():
            write_atomically(folder / f"{name}.{kind}", data)
        figures[name] = images["svg"].decode()
    write_atomically(folder / "index.html", html_page(report, folder.name, description, figures))
    return report
