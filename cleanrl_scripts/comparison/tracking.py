"""Weights and Biases: the evaluations of tracked runs of a project, and the report as a separate run."""

from collections.abc import Iterator
from pathlib import Path

from cleanrl_scripts.comparison.curves import LOGGED, Evaluation, number
from cleanrl_scripts.comparison.description import description_of
from cleanrl_scripts.comparison.tables import Report
from llmwrappers.errors import UserError

History = dict[int, dict[str, float]]  # step -> metric -> return


def online_runs(project: str) -> Iterator[tuple[str, dict, History]]:
    """Name, arguments and evaluations of the runs of a project on W&B's server."""
    import wandb

    try:
        for run in wandb.Api().runs(project):
            history: History = {}
            for name, metric in LOGGED.items():
                for row in run.scan_history(keys=["_step", name]):
                    history.setdefault(int(row["_step"]), {})[metric] = float(row[name])
            yield run.name, dict(run.config), history
    except Exception as error:
        ways_out = "give entity/project; of runs tracked offline, `wandb sync` them first, or give their curves with --from-csv"
        raise UserError(f"--from-wandb {project}: {error}; {ways_out}") from None


def from_wandb(project: str) -> list[Evaluation]:
    evaluations = []
    for name, config, history in online_runs(project):
        if not history or not {"env_id", "seed", "arm"} <= set(config):
            print(f"note: {project}: {name} is no run of the scripts with evaluations: left out")
            continue
        # PPO ends with its last whole rollout.
        rollout = config.get("num_envs", 1) * config.get("num_steps", 1)
        if max(history) <= config.get("total_timesteps", 0) - rollout:
            print(f"note: {project}: {name} ends at step {max(history)} of {config['total_timesteps']}: left out")
            continue
        for step, returns in sorted(history.items()):
            for metric, value in returns.items():
                number(str(value), f"eval/{metric} at step {step}", f"{project}, {name}")
            evaluations.append(Evaluation(config["env_id"], config["arm"], config["seed"], step, returns, name))
    if not evaluations:
        raise UserError(f"--from-wandb {project}: no finished run with evaluations")
    return evaluations


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
