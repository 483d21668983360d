"""Weights and Biases: the evaluations of tracked runs of a project, and the report as a separate run."""

import math
from collections.abc import Iterator
from pathlib import Path

from cleanrl_scripts.comparison.curves import LOGGED, PLAIN, Evaluation
from cleanrl_scripts.comparison.description import description_of
from cleanrl_scripts.comparison.tables import Report
from llmwrappers.errors import UserError

History = dict[int, dict[str, float]]  # step -> metric -> return


def online_runs(project: str) -> Iterator[tuple[str, dict, History]]:
    """Name, arguments and evaluations of the runs of a project on W&B's server, the newest first."""
    import wandb

    try:
        for run in wandb.Api().runs(project, order="-created_at"):
            history: History = {}
            for name, metric in LOGGED.items():
                for row in run.scan_history(keys=["_step", name]):
                    history.setdefault(int(row["_step"]), {})[metric] = float(row[name])
            yield run.name, dict(run.config), history
    except Exception as error:
        ways_out = "give entity/project; of runs tracked offline, `wandb sync` them first, or give their curves with --from-csv"
        raise UserError(f"--from-wandb {project}: {error}; {ways_out}") from None


def from_wandb(project: str) -> list[Evaluation]:
    """The evaluations of a project's finished runs; a note names each run that is left out, and why."""
    runs: dict[tuple[str, str, int], list[Evaluation]] = {}
    for name, config, history in online_runs(project):
        why = unusable(config, history)
        if not why and (config["env_id"], config["arm"], config["seed"]) in runs:
            why = "has the environment, arm and seed of a later run"
        if why:
            print(f"note: {project}: {name} {why}: left out")
            continue
        key = config["env_id"], config["arm"], config["seed"]
        runs[key] = [Evaluation(*key, step, returns, name) for step, returns in sorted(history.items())]
    if not runs:
        raise UserError(f"--from-wandb {project}: no finished run with evaluations")
    return [e for run in runs.values() for e in run]


def unusable(config: dict, history: History) -> str:
    """Why a run's evaluations are of no use; "" if they are."""
    if not history or not {"env_id", "seed", "arm"} <= set(config) or any(PLAIN not in values for values in history.values()):
        return "is no run of the scripts with evaluations"
    # PPO ends with its last whole rollout.
    rollout = config.get("num_envs", 1) * config.get("num_steps", 1)
    if max(history) <= config.get("total_timesteps", 0) - rollout:
        return f"ends at step {max(history)} of {config['total_timesteps']}"
    for step, values in sorted(history.items()):
        for metric, value in values.items():
            if not math.isfinite(value):
                return f"has eval/{metric} {value} at step {step}"
    return ""


def track(project: str, entity: str | None, folder: Path, report: Report) -> None:
    """Sends tables and figures to W&B."""
    import wandb

    try:
        settings = {"name": folder.name, "dir": str(folder), "config": description_of(folder)}
        run = wandb.init(project=project, entity=entity, job_type="compare", **settings)
        for title, header, rows in report.tables:
            run.log({f"compare/{title}": wandb.Table(columns=[*header], data=rows)})
        run.log({f"compare/{name}": wandb.Image(str(folder / f"{name}.png")) for name in ("curves", "summary")})
        run.finish()
    except Exception as error:
        raise UserError(f"--track: {error} (WANDB_MODE=offline needs neither account nor network)") from None
