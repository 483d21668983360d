"""comparison.json: the arguments of a comparison, the versions, and each run's time and final result."""

import contextlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cleanrl_scripts.comparison.curves import Evaluation, curves_of
from cleanrl_scripts.comparison.runs import REPOSITORY, Run, by_name, different, is_ours, refuse_other_arguments, usual_flags
from llmwrappers.errors import UserError
from llmwrappers.files import folder_name, sha256, write_atomically
from llmwrappers.physics import note_on_returns

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

OF_A_FOLDER = "*.py", "*.json", "agent.npz", "agent.pt"
"""What a folder of priors, of critical states or of a run holds that runs depend on."""


@contextlib.contextmanager
def its_turn(output: Path) -> Iterator[None]:
    """Waits for any other compare.py in the same folder, because each adds to what the other wrote."""
    try:
        (output / "runs").mkdir(parents=True, exist_ok=True)
        lock = open(output / "runs" / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"--output {output}: cannot write there ({error.strerror})") from None
    with lock:
        if fcntl:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def description_of(folder: Path) -> dict:
    path = folder / "comparison.json"
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from None


def write(description: dict, output: Path) -> None:
    write_atomically(output / "comparison.json", json.dumps(description, indent=2) + "\n")


def versions() -> dict[str, str | None]:
    installed = {package.name: package.version for package in importlib.metadata.distributions()}
    packages = ("llmwrappers", "numpy", "torch", "gymnasium", "mujoco")
    return {"python": platform.python_version(), **{package: installed.get(package) for package in packages}}


def describe(asked: dict, runs: list[Run], external: list[Evaluation], output: Path) -> None:
    """Writes the arguments; refuses a folder with another comparison, and imported curves of a trained arm."""
    with its_turn(output):
        curves = curves_of(output)
        before = without_unbegun(description_of(output), curves, output)
        trained = {*before.get("arms", ()), *(folder.name for folder in output.glob("runs/*/*"))}
        if imported := sorted({e.arm for e in curves} & set(asked["arms"]) - trained):
            where = f"{output / 'curves.csv'} has it from --from-csv or --from-wandb"
            raise UserError(f"--arms {imported[0]}: {where}; give the arm another name")
        now = {**asked, "versions": versions()} | ({"files": files} if (files := files_of(runs)) else {})
        if before and (curves or any(output.glob("runs/*/*/*/*/args.json"))):
            now = added(before, now, output)
        for run in runs:
            refuse_other_arguments(run)
        if taken := [e for e in external if e.arm in now["arms"]]:
            raise UserError(f"{taken[0].source}: {taken[0].arm} is an arm that is trained here; give the curves another name")
        write({**now, "command": command(now, output)}, output)


def without_unbegun(before: dict, curves: list[Evaluation], output: Path) -> dict:
    """The description without environments, arms and seeds of which no run began: a mistyped one does not stay."""
    begun = {path.parts[-5:-2] for path in output.glob("runs/*/*/*/*/args.json")}
    begun |= {(folder_name(e.env_id), e.arm, str(e.seed)) for e in curves if e.arm in before.get("arms", ())}
    if not (before and begun):
        return before
    envs, arms, seeds = map(set, zip(*begun, strict=True))
    kept = {"env_ids": [env_id for env_id in before["env_ids"] if folder_name(env_id) in envs]}
    kept |= {"arms": {arm: flags for arm, flags in before["arms"].items() if arm in arms}}
    kept |= {"seeds": [seed for seed in before["seeds"] if str(seed) in seeds]}
    return before | kept if all(kept.values()) else before


def name_again(asked: dict, output: Path) -> None:
    """Names this command's runs after training: another command leaves out those that had not begun when it came."""
    description = description_of(output)
    description |= _environments_and_seeds(description, asked)
    description["arms"] = description["arms"] | asked["arms"] | description["arms"]  # in the order of before, with its flags
    write({**description, "command": command(description, output)}, output)


def _environments_and_seeds(before: dict, now: dict) -> dict:
    """Those of both, in the order of before."""
    env_ids = list(dict.fromkeys([*before["env_ids"], *now["env_ids"]]))
    return {"env_ids": env_ids, "seeds": sorted({*before["seeds"], *now["seeds"]})}


def added(before: dict, now: dict, output: Path) -> dict:
    """Adds environments, arms and seeds to a comparison that has runs; refuses any other change.

    The first arm is the baseline, and stays it unless a command names another arm before it.
    """
    if "commit" in before:
        raise UserError(f"the comparison in {output} was made at commit {before['commit']}; give another --output")
    if other := different(constant(now), constant(before)):
        raise UserError(f"{other[0]}: the comparison in {output} has {other[1]}; give another --output")
    for arm in now["arms"].keys() & before["arms"].keys():
        given, had = (shlex.join(description["arms"][arm]) for description in (now, before))
        if given != had:
            raise UserError(f"--arms {arm}={given}: the comparison in {output} has {had}; give the arm another name")
    had, has = (description.get("files", {}) for description in (before, now))
    if is_ours(now["script"]) != is_ours(before["script"]):  # they have the same name
        raise UserError(
            f"--script {now['script']}: the comparison in {output} has another file, {before['script']}; give another --output"
        )
    if other := [name for name in had.keys() & has.keys() if had[name] != has[name]]:
        raise UserError(
            f"the file of {other[0]} is another now than in {output}; give the arm another name, or another --output"
        )
    if changed := [f"{name} {version}" for name, version in before["versions"].items() if now["versions"].get(name) != version]:
        print("note: this comparison began with other versions:", ", ".join(changed))
    mujoco = before["versions"].get("mujoco"), now["versions"].get("mujoco")
    if note := note_on_returns([*before["env_ids"], *now["env_ids"]], *mujoco):
        print(note)
    is_moved = next(iter(before["arms"])) in list(now["arms"])[1:]
    merged = {
        **_environments_and_seeds(before, now),
        "arms": now["arms"] | before["arms"] if is_moved else before["arms"] | now["arms"],
        "threshold": before["threshold"] if now["threshold"] is None else now["threshold"],
    }
    for name in ("from_csv", "from_wandb"):
        merged[name] = list(dict.fromkeys([*before.get(name, ()), *now[name]]))
    merged |= {"files": had | has} if had or has else {}
    return before | now | merged | {"versions": before["versions"]}


def files_of(runs: list[Run]) -> dict[str, str]:
    """The hashes of the user's script, and of the files that arms name, as in "Hopper-v4 mine --prior" -> SHA-256."""
    hashes = {}
    for run in {(run.env_id, run.arm): run for run in runs}.values():  # all seeds read the same files
        if run.script.parent != REPOSITORY / "cleanrl_scripts":
            hashes["--script"] = sha256(run.script)
        for flag, value in by_name(run.flags).items():
            path, files = Path(re.sub(r"^(trusted|auto|expert):", "", value)), []
            if os.path.isfile(path):  # unlike Path's, False for a value that is too long for a path
                files = [path]
            elif value and os.path.isdir(path):
                files = sorted(file for name in OF_A_FOLDER for file in path.glob(name))
            if files:
                hashes[f"{run.env_id} {run.arm} {flag}"] = " ".join(map(sha256, files))
    return hashes


def constant(description: dict) -> dict[str, str]:
    """The flags that are the same for all runs of a comparison."""
    flags = {"--script": Path(description["script"]).name, "--total-timesteps": str(description["total_timesteps"])}
    expert_models = description["expert_models"]
    return flags | ({"--expert-models": expert_models} if expert_models else {}) | by_name(description["flags"])


def command(description: dict, output: Path) -> list[str]:
    """The one command that trains the whole comparison, even if several commands made it."""
    script, seeds = description["script"], description["seeds"]
    arms = [
        name if flags == usual_flags(name, script) else f"{name}={shlex.join(flags)}"
        for name, flags in description["arms"].items()
    ]
    is_range = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
    words = ["llmwrappers", "compare", "--script", script, "--env-ids", *description["env_ids"], "--arms", *arms]
    words += ["--seeds", f"{seeds[0]}-{seeds[-1]}" if is_range else ",".join(map(str, seeds))]
    words += ["--total-timesteps", str(description["total_timesteps"]), *description["flags"]]
    for name in ("expert_models", "threshold"):
        if description[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(description[name])]
    words += ["--output", str(output)]
    for name in ("from_csv", "from_wandb"):
        if description[name]:
            words += [f"--{name.replace('_', '-')}", *description[name]]
    return words


def finished_runs(output: Path) -> list[Run]:
    """All finished runs of a comparison, including those that this command does not name."""
    description, runs = description_of(output), []
    for env_id, arm, seed in itertools.product(*(description[name] for name in ("env_ids", "arms", "seeds"))):
        folder = output / "runs" / folder_name(env_id) / arm / str(seed)
        runs.append(Run(env_id, arm, seed, description["total_timesteps"], folder, Path(description["script"]), ()))
    return [run for run in runs if run.is_finished]


def record_runs(output: Path, runs: list[Run], left_out: dict[Run, str]) -> None:
    """Records each run's time, versions and final result, because its folder is not kept."""
    description = description_of(output)
    for run in runs:
        assert run.run_dir is not None
        try:
            summary, made = (json.loads((run.run_dir / name).read_text()) for name in ("summary.json", "args.json"))
        except ValueError as error:
            raise UserError(f"a summary.json or args.json in {run.run_dir} is damaged: {error}; remove that folder") from None
        others = {name: v for name, v in made.get("versions", {}).items() if v != description["versions"].get(name)}
        note = {
            "hours": round(summary["seconds"] / 3600, 3) if "seconds" in summary else None,
            "commit": made.get("git_commit"),
            "versions": others or None,
            "left_out": left_out.get(run),
            # The last of a run that was made when a summary held a sentence.
            **{name: summary.get(name) for name in ("audition", "entries", "verdict")},
        }
        note = {name: value for name, value in note.items() if value is not None}
        description.setdefault("runs", {}).setdefault(run.env_id, {}).setdefault(run.arm, {})[str(run.seed)] = note
    if runs:
        write(description, output)
