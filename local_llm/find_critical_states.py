"""Finds the critical states of an agent's episodes with a language model: ask, check every entry, write a table and code.

::

    python -m local_llm.find_critical_states --trajectories trajectories.npz                # a model on this machine
    python -m local_llm.find_critical_states --trajectories trajectories.npz --server http://localhost:11434/v1
    python -m local_llm.find_critical_states --trajectories trajectories.npz --rounds 2     # tries the table, asks again
    python -m local_llm.find_critical_states --trajectories trajectories.npz --ask code     # of a stuck agent: code alone
    python -m local_llm.find_critical_states --replay                                       # rebuilds the shipped tables

The model is asked four times, each time with one prompt that needs no other (``prompts/ultra_*.md``): for the critical states,
for the actions, for the rewards, and for a Python function that generalises them. The output folder has the form of a shipped
table (prompt-*.txt, reply-*.md, table.json, critical.py, provenance.json) and is one:
``LLMActionOverride(env, critical_states="tables/Hopper-v4")``. Beside it: ledger.json.

With ``--ask code`` it is asked once, for a function that leads a stuck agent on, also in states that no episode shows
(``prompts/ultra_function.md``). The folder then holds no table. ``--prompts-only`` writes the first prompt and ends.

With ``--rounds 2`` the agent, whose agent.pt lies beside its trajectories, goes on learning with that table for a while. Then
the model is shown what each entry was worth and what the agent does now, and answers for a second table. The first one is kept
as table-1.json and critical-1.py, what the trial gave as entries.json and trajectories-2.npz; the names of the second round's
prompts and replies end in -2.

Reference:
    Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
    arXiv 2505.20671.
"""

import argparse
import hashlib
import json
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from llmwrappers import CriticalStates, PolicyRejected, Trajectories
from llmwrappers.critical_states.guidance import SHIPPED
from llmwrappers.critical_states.table import spread
from llmwrappers.files import folder_name
from llmwrappers.priors.measurement import make
from local_llm.command import (
    Overwriting,
    UserError,
    add_model_options,
    circumstances,
    claim_output,
    command_line,
    exit_status,
    make_backend,
    recordings,
    save_text,
    sha256,
    take_sampling,
)
from local_llm.episode_prompts import Case, Episodes, Settings
from local_llm.models.recorded import UNREADABLE, Recorded, write_json
from local_llm.models.reply import Backend, Sampling
from local_llm.questions import Finder
from local_llm.reply_text import ExtractionError
from local_llm.trial import Trial, read_trial, try_by_training

TABLES = Path("tables")
FIRST_PROMPTS = {"all": "prompt-states.txt", "code": "prompt-function.txt"}


def find_critical_states(
    trajectories: Trajectories,
    env: gym.Env,
    backend: Backend,
    sampling: Sampling,
    folder: Path,
    settings: Settings | None = None,
    command: str = "find_critical_states(...)",
    try_table: Callable[[Path], Trial] | None = None,
) -> CriticalStates | None:
    """Returns the table of critical states that a model finds; writes it, the code and all that they rest on to a folder.

    None where code alone is asked for (``settings.ask``).

    The first ``settings.episodes`` episodes are shown to the model and make the table; on the others its tolerance is set, so
    that the share ``settings.hit_rate`` of their steps matches.

    Args:
        trajectories: episodes of the agent that is to be guided
        env: the environment they are from, for its spaces and facts, and to probe the code in
        backend: what answers (see ``local_llm.models.reply.Backend``)
        sampling: how replies are drawn
        folder: where to write; made if it is not there
        settings: how much the model is shown and asked for; the defaults if None
        command: what to name as the origin in provenance.json
        try_table: for a second round, plays a table in a file, as ``local_llm.trial.try_by_training`` does

    Raises:
        ValueError: trajectories that do not fit the environment or the settings; as ExtractionError, no usable answer
        ModelError: a reply does not come; those that came are in the folder
    """
    settings = settings or Settings()
    if (settings.rounds == 2) != (try_table is not None):
        raise ValueError(f"try_table is for settings.rounds = 2 and needed there, got {try_table!r} for {settings.rounds}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    finder = Finder(Episodes(trajectories, env, settings), backend, sampling, folder)
    facts = {
        "environment": trajectories.env_id,
        "serves": [trajectories.env_id],
        "settings": asdict(settings),
        "trajectories": _description(trajectories),
        **dict.fromkeys(("table", "code", "accepted", "refused", "changed")),
        "exchanges": finder.exchanges,
        **circumstances(backend, sampling, command),
    }
    if settings.ask == "code":
        _keep_code(facts, folder, *finder.write_function(env))
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
        finder.episodes, finder.suffix = Episodes(trial.trajectories, env, settings), "-2"
        prompt = finder.episodes.round_prompt(table, trial, trajectories.returns.mean())
        cases, kept = finder.states_again(prompt, trial.helpful)
        old = [(table.observations[i], *table.advice(i), {**table.notes[i], "round": 1}) for i in kept]
        table = _make_table(finder, cases, old, env, facts)
    print(f"\n{finder.metered.ledger}")
    return table


def _make_table(finder: Finder, cases: list[Case], old: list[tuple], env: gym.Env, facts: dict[str, Any]) -> CriticalStates:
    """Asks for actions, rewards and code; writes the table, of old entries (observation, action, reward, note) and new ones."""
    episodes, folder = finder.episodes, finder.folder
    shown, settings = episodes.shown, episodes.settings
    cases = finder.judge(finder.suggest_actions(cases))
    texts = ("episode", "step", "rationale", "reasoning", "analysis")
    entries = list(old)
    for case in cases:
        row = episodes.index(case)
        note = {**{name: getattr(case, name) for name in texts}, "agent_action": shown.actions[row].tolist()}
        entries.append((shown.observations[row].ravel(), case.action, case.reward, note))
    observations, actions, rewards, notes = zip(*entries, strict=True)
    table = CriticalStates(
        np.array(observations),
        np.array(actions),
        rewards,
        scale=spread(shown.observations),
        tolerance=1.0,
        environment=facts["environment"],
        notes=notes,
    ).calibrated(episodes.held_out.observations, settings.hit_rate)
    assert table.calibration is not None
    table.calibration["table_episodes"] = settings.episodes
    table.require_fits(env)
    table.save(folder / "table.json")
    (folder / "critical.py").unlink(missing_ok=True)  # that of another table
    print(f"table: {len(table)} states, {table.calibration['reached']:.1%} of the held-out steps match", flush=True)
    facts |= {
        "table": {"table_sha256": sha256(folder / "table.json"), "states": len(table)},
        "code": {"refused": "not asked for yet"},
        "accepted": {sieve.name: len(sieve.accepted) for sieve in finder.sieves},
        "refused": [note for sieve in finder.sieves for note in sieve.refused],
        "changed": [note for sieve in finder.sieves for note in sieve.changed],
    }
    write_json(folder / "provenance.json", facts)
    try:
        if shown.observations.ndim != 2:
            raise PolicyRejected(None, "not asked for: the observations are no vectors")
        _keep_code(facts, folder, *finder.write_code(cases, env))
    except (ExtractionError, PolicyRejected) as error:
        facts["code"] = {"refused": str(error)}
        print(f"code: none, the table stands without it: {error}", flush=True)
        write_json(folder / "provenance.json", facts)
    return table


def _keep_code(facts: dict[str, Any], folder: Path, source: str, hit_rate: float) -> None:
    save_text(folder / "critical.py", source)
    facts["code"] = {"critical_sha256": sha256(folder / "critical.py"), "hit_rate": hit_rate}
    print(f"code: checked and probed, {hit_rate:.1%} of the held-out steps are critical", flush=True)
    write_json(folder / "provenance.json", facts)


def _of_first_round(path: Path) -> Path:
    """Where a file of the first round is kept."""
    return path.with_stem(f"{path.stem}-1")


def _description(trajectories: Trajectories) -> dict[str, Any]:
    return {
        "episodes": len(trajectories),
        "steps": len(trajectories.observations),
        "arrays_sha256": _arrays_sha256(trajectories),
    }


def _arrays_sha256(trajectories: Trajectories) -> str:
    """Returns a hash of the numbers alone: that of the file depends on how it was compressed."""
    digest = hashlib.sha256()
    for item in fields(trajectories):
        digest.update(np.ascontiguousarray(getattr(trajectories, item.name)).tobytes())
    return digest.hexdigest()


def rebuild(folder: Path, output: Path) -> None:
    """Makes a table again from the trajectories and the replies in its folder, and compares the two.

    Raises:
        UserError: the folder lacks something, or another table or code came of it
    """
    try:
        facts = json.loads((folder / "provenance.json").read_text("utf-8"))
        env_id, settings, sampling = facts["environment"], Settings(**facts["settings"]), Sampling(**(facts["sampling"] or {}))
    except UNREADABLE as error:
        raise UserError(f"{folder} holds no table that can be rebuilt: {type(error).__name__}: {error}") from error
    trajectories, env = Trajectories.load(folder / "trajectories.npz"), make(env_id)
    first = FIRST_PROMPTS[settings.ask]
    claim_output(output, Episodes(trajectories, env, settings).first_prompt(), folder, first, "critical states")
    backend = Overwriting(Recorded(None, folder, "replay"), output, first)
    recorded = (lambda _: read_trial(folder / "entries.json", folder / "trajectories-2.npz")) if settings.rounds == 2 else None
    find_critical_states(trajectories, env, backend, sampling, output, settings, f"rebuilt from {folder}", recorded)
    env.close()
    for name in ("table.json", "critical.py", "table-1.json", "critical-1.py"):
        old, new = ((place / name).read_bytes() if (place / name).is_file() else None for place in (folder, output))
        if old != new:
            raise UserError(f"{output / name} is not what {folder / name} is")
    print(f"{output} is {folder}, byte for byte")


def run(args: argparse.Namespace) -> None:
    """Does what the command line asks for.

    Raises:
        UserError, ModelError, ValueError, gymnasium.error.Error, OSError: what is wrong, and what would be right
    """
    if args.trajectories is None:
        for folder in rebuilt(args):
            rebuild(folder, args.output or TABLES / folder.name)
        return
    trajectories = Trajectories.load(args.trajectories)
    args.env_id = args.env_id or trajectories.env_id
    env = make(args.env_id)
    name = folder_name(args.env_id)
    args.shipped, output = SHIPPED / name, args.output or TABLES / name
    try_table = None
    if args.settings.rounds == 2:
        agent = args.trajectories.with_name("agent.pt")
        if not agent.is_file():
            raise UserError(
                f"--rounds 2: the agent goes on learning, so {agent} must be there, of the run that wrote its episodes"
            )
        try_table = partial(
            try_by_training,
            agent=agent,
            env_id=args.env_id,
            episodes=len(trajectories),
            seed=args.seed,
            timesteps=args.settings.round_timesteps,
        )
    prompt, first = Episodes(trajectories, env, args.settings).first_prompt(), FIRST_PROMPTS[args.settings.ask]
    claim_output(output, prompt, recordings(args), first, "critical states")
    if args.prompts_only:
        output.mkdir(parents=True, exist_ok=True)
        save_text(output / first, prompt)
        print(f"prompt: {output / first}")
        return
    backend = Overwriting(make_backend(args), output, first)
    command = command_line("local_llm.find_critical_states", args.argv)
    find_critical_states(trajectories, env, backend, args.sampling, output, args.settings, command, try_table)
    env.close()
    guidance = "code" if (output / "critical.py").is_file() else "table"
    agent = args.trajectories.with_name("agent.pt")
    print(
        f"\nuse it: python cleanrl_scripts/ppo_ultra.py --env-id {args.env_id} --agent {agent if agent.is_file() else 'none'} "
        f"--arm a --guidance {guidance} --critical-states {output}"
    )


def rebuilt(args: argparse.Namespace) -> list[Path]:
    """Returns the folders of the tables that --replay alone rebuilds."""
    if args.replay is None:
        raise UserError("--trajectories is needed: episodes of the agent, as cleanrl_scripts/ppo_ultra.py writes them")
    if args.replay != Path():
        return [args.replay]
    name = args.env_id and folder_name(args.env_id)
    folders = sorted(path.parent for path in SHIPPED.glob("*/critical.py") if name in (None, path.parent.name))
    if not folders:
        raise UserError(f"--replay: no table is shipped{f' for {args.env_id}' if name else ''}")
    if args.output and len(folders) > 1:
        raise UserError("--output is one folder; name one table with --env-id")
    return folders


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m local_llm.find_critical_states",
        description="Asks a language model for the critical states in an agent's episodes, and for actions and rewards there.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--trajectories", metavar="FILE", type=Path, help="episodes of the agent (.npz)")
    parser.add_argument("--env-id", help="the environment they are from; with --replay alone, the shipped table to rebuild")
    parser.add_argument("--output", metavar="DIR", type=Path, help="the folder to write (tables/ENV_ID if not given)")
    parser.add_argument("--episodes", type=int, default=Settings.episodes, help="that are shown; the others set the tolerance")
    parser.add_argument(
        "--states-per-episode", type=int, default=Settings.states_per_episode, help="critical states to ask for, at most"
    )
    parser.add_argument("--token-budget", type=int, default=Settings.token_budget, help="for the episodes in a prompt")
    parser.add_argument(
        "--hit-rate", type=float, default=Settings.hit_rate, help="share of the other episodes' steps that are to match"
    )
    parser.add_argument(
        "--rounds", type=int, default=Settings.rounds, help="2: tries the table on agent.pt beside FILE, and asks again"
    )
    parser.add_argument("--ask", choices=("all", "code"), default=Settings.ask, help="code: for a function alone, once")
    parser.add_argument("--prompts-only", action="store_true", help="writes the first prompt to the folder, and ends")
    parser.add_argument("--round-timesteps", metavar="N", type=int, default=Settings.round_timesteps, help="of that trial")
    parser.add_argument("--seed", type=int, default=0, help="of the replies, and of the trial")
    add_model_options(parser, shipped="those that are shipped; without --trajectories, rebuild that table, or all of them")
    args = parser.parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    take_sampling(parser, args)
    try:
        args.settings = Settings(**{item.name: getattr(args, item.name) for item in fields(Settings)})
    except ValueError as error:
        parser.error(str(error))
    return args


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return exit_status("find_critical_states", run, parse_args(argv))


if __name__ == "__main__":
    # As an exception, so that the model's processes end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
