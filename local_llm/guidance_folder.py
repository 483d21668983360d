"""Makes a folder that guides an agent from a model's answers: a table, code, and all that they rest on.

``rebuild`` makes a folder again from the episodes, prompts and replies in it. It asks the recorded prompts unchanged: today's
templates may differ, and the replies answer the recorded prompts.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from llmwrappers import CriticalStates, PolicyRejected, Trajectories
from llmwrappers.critical_states.table import spread
from llmwrappers.errors import UserError
from llmwrappers.files import sha256
from llmwrappers.making import made_with, make
from local_llm.command import Overwriting, circumstances, claim_output, save_text
from local_llm.models.recorded import UNREADABLE, Recorded, write_json
from local_llm.models.reply import Backend, Sampling
from local_llm.prompting.episode_prompts import Case, Entry, Episodes, Settings, flattened_as
from local_llm.replies.questions import Finder
from local_llm.replies.reply_text import ExtractionError, for_the_user
from local_llm.selection.trial import Trial, read_trial

FIRST_PROMPTS = {"all": "prompt-states.txt", "code": "prompt-function.txt"}


def find_critical_states(
    episodes: Episodes,
    backend: Backend,
    sampling: Sampling,
    folder: Path,
    command: str = "find_critical_states(...)",
    try_table: Callable[[Path], Trial] | None = None,
    recorded: Path | None = None,
) -> CriticalStates | None:
    """Returns the table of critical states that a model finds; writes it, its code and all that they rest on to a folder.

    The model sees the first ``settings.episodes`` episodes, and the table comes from them. The other episodes set the table's
    tolerance: the share ``settings.hit_rate`` of their steps matches.

    Args:
        episodes: of the agent to guide, as the backend sees them; the code is probed in their environment
        backend: the model to ask (see ``local_llm.models.reply.Backend``)
        sampling: how replies are drawn
        folder: where to write; created if it does not exist
        command: the origin to name in provenance.json
        try_table: for a second round; plays the table in a file, as ``local_llm.selection.trial.try_by_training`` does
        recorded: a folder whose prompts are asked unchanged in place of today's

    Raises:
        ValueError: ``try_table`` without a second round, or the reverse; as ExtractionError, no answer is usable
        ModelError: a reply does not arrive; the replies before it are in the folder
    """
    trajectories, env, settings = episodes.trajectories, episodes.env, episodes.settings
    if (settings.rounds == 2) != (try_table is not None):
        raise ValueError(f"try_table is for settings.rounds = 2 and needed there, got {try_table!r} for {settings.rounds}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    finder = Finder(episodes, backend, sampling, folder, recorded)
    facts = {
        "environment": trajectories.env_id,
        "env_kwargs": made_with(env),
        "serves": [trajectories.env_id],
        "settings": asdict(settings),
        "trajectories": _description(trajectories),
        **dict.fromkeys(("table", "code", "accepted", "refused", "changed")),
        "exchanges": finder.exchanges,
        "command": command,
    }
    if settings.ask == "code":
        _keep_code(facts, finder, *finder.write_function(env))
        print(f"\n{finder.metered.ledger}")
        return None
    table = _make_table(finder, finder.states(), [], env, facts)
    if try_table:
        for name in ("table.json", "critical.py"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, _of_first_round(folder / name))
        trial = try_table(_of_first_round(folder / "table.json"))
        write_json(folder / "entries.json", trial.entries)
        trial.trajectories.save(folder / "trajectories-2.npz")
        facts["first_round"] = {"table": facts["table"], "code": facts["code"]}
        facts["trial"] = {"entries_sha256": sha256(folder / "entries.json"), **_description(trial.trajectories)}
        finder.episodes, finder.suffix = Episodes(trial.trajectories, env, settings, backend), "-2"
        prompt = finder.episodes.round_prompt(table, trial, trajectories.returns.mean())
        cases, kept = finder.states_again(prompt, trial.helpful)
        old = [(table.observations[i], *table.advice(i), {**table.notes[i], "round": 1}) for i in kept]
        table = _make_table(finder, cases, old, env, facts)
    print(f"\n{finder.metered.ledger}")
    return table


def _make_table(finder: Finder, cases: list[Case], old: list[Entry], env: gym.Env, facts: dict[str, Any]) -> CriticalStates:
    """Asks for actions, rewards and code; writes a table of old entries (observation, action, reward, note) and new ones."""
    episodes, folder = finder.episodes, finder.folder
    shown, settings, states = episodes.shown, episodes.settings, episodes.shown.matched
    cases = finder.judge(finder.suggest_actions(cases))
    texts = ("episode", "step", "rationale", "reasoning", "analysis")
    entries = list(old)
    for case in cases:
        row = episodes.index(case)
        note = {**{name: getattr(case, name) for name in texts}, "agent_action": shown.actions[row].tolist()}
        entries.append((states[row], case.action, case.reward, note))
    observations, actions, rewards, notes = zip(*entries, strict=True)
    table = CriticalStates(
        np.array(observations),
        np.array(actions),
        rewards,
        scale=spread(states),
        tolerance=1.0,
        environment=facts["environment"],
        notes=notes,
    ).calibrated(episodes.held_out.matched, settings.hit_rate)
    assert table.calibration is not None
    table.calibration["table_episodes"] = settings.episodes
    table.require_fits(env, states.shape[1:])
    table.save(folder / "table.json")
    (folder / "critical.py").unlink(missing_ok=True)  # it belongs to another table
    print(f"table: {len(table)} states, {table.calibration['reached']:.1%} of the held-out steps match", flush=True)
    facts |= {
        "table": {"table_sha256": sha256(folder / "table.json"), "states": len(table)},
        "code": {"refused": "not asked for yet"},
        "accepted": {sieve.name: len(sieve.accepted) for sieve in finder.sieves},
        "refused": [note for sieve in finder.sieves for note in sieve.refused],
        "changed": [note for sieve in finder.sieves for note in sieve.changed],
    }
    _save(facts, finder)
    try:
        if shown.observations.ndim != 2:
            raise PolicyRejected(None, "not asked for: the observations are not vectors")
        _keep_code(facts, finder, *finder.write_code(cases, env, old))
    except (ExtractionError, PolicyRejected) as error:
        facts["code"] = {"refused": str(error)}
        print(f"code: none, the table stands without it: {for_the_user(error)}", flush=True)
        _save(facts, finder)
    return table


def _save(facts: dict[str, Any], finder: Finder) -> None:
    made = circumstances(finder.backend, finder.sampling, facts["command"])
    write_json(finder.folder / "provenance.json", {**facts, **made})


def _keep_code(facts: dict[str, Any], finder: Finder, source: str, hit_rate: float) -> None:
    code = finder.folder / "critical.py"
    save_text(code, source)
    facts["code"] = {"critical_sha256": sha256(code), "hit_rate": hit_rate}
    print(f"code: checked and probed, {hit_rate:.1%} of the held-out steps are critical", flush=True)
    _save(facts, finder)


def _of_first_round(path: Path) -> Path:
    """Returns where a file of the first round is kept."""
    return path.with_stem(f"{path.stem}-1")


def _description(trajectories: Trajectories) -> dict[str, Any]:
    return {
        "episodes": len(trajectories),
        "steps": len(trajectories.observations),
        "arrays_sha256": _arrays_sha256(trajectories),
    }


def _arrays_sha256(trajectories: Trajectories) -> str:
    """Returns a hash of the numbers alone: the file's hash depends on its compression."""
    digest = hashlib.sha256()
    for item in fields(trajectories):
        digest.update(np.ascontiguousarray(getattr(trajectories, item.name)).tobytes())
    return digest.hexdigest()


def rebuild(folder: Path, output: Path) -> None:
    """Makes a table again from the trajectories and the replies in its folder, and compares the two.

    Raises:
        UserError: a file is missing or damaged, or the new table or code differs
    """
    try:
        facts = json.loads((folder / "provenance.json").read_text("utf-8"))
        env_id, settings, sampling = facts["environment"], Settings(**facts["settings"]), Sampling(**(facts["sampling"] or {}))
        first = FIRST_PROMPTS[settings.ask]
        first_prompt = (folder / first).read_bytes().decode("utf-8")
    except UNREADABLE as error:
        raise UserError(f"{folder} holds no table that can be rebuilt: {type(error).__name__}: {error}") from error
    trajectories = Trajectories.load(folder / "trajectories.npz")
    env = flattened_as(trajectories, make(env_id, **facts.get("env_kwargs", {})))
    claim_output(output, first_prompt, folder, first, "critical states")
    backend = Overwriting(Recorded(None, folder, "replay"), output, first)
    trial = (lambda _: read_trial(folder / "entries.json", folder / "trajectories-2.npz")) if settings.rounds == 2 else None
    episodes = Episodes(trajectories, env, settings, backend)
    find_critical_states(episodes, backend, sampling, output, f"rebuilt from {folder}", trial, folder)
    env.close()
    for name in ("table.json", "critical.py", "table-1.json", "critical-1.py"):
        old, new = ((place / name).read_bytes() if (place / name).is_file() else None for place in (folder, output))
        if old != new:
            raise UserError(f"{output / name} is not what {folder / name} is")
    print(f"{output} is {folder}, byte for byte")
