"""Weights and Biases: the evaluations of tracked runs, from folders or a server, and the report as a run of its own."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from cleanrl_scripts.common.errors import UserError
from cleanrl_scripts.comparison.curves import LOGGED, Evaluation, number
from cleanrl_scripts.comparison.description import description_of
from cleanrl_scripts.comparison.tables import Report

History = dict[int, dict[str, float]]  # step -> metric -> return


def wandb_records(path: Path) -> Iterator:
    """The records of a .wandb file: a header of 7 bytes, then LevelDB's log format, 32 KiB blocks of pieces of records."""
    from wandb.proto import wandb_internal_pb2

    data, record = path.read_bytes(), b""
    at = 7 if data.startswith(b":W&B") else len(data)
    while at + 7 <= len(data):
        left_in_block = 32768 - at % 32768
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if left_in_block < 7 or kind == 0:
            at += left_in_block
            continue
        if at + 7 + length > len(data):
            return  # cut while it was written
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last piece
            message = wandb_internal_pb2.Record()  # pyright: ignore[reportAttributeAccessIssue]
            message.ParseFromString(record)
            yield message
            record = b""


def offline_runs(folder: Path) -> Iterator[tuple[str, dict, History]]:
    """Name, arguments and evaluations of the W&B runs below a folder; a resumed run has several files."""
    configs: dict[str, dict] = {}
    histories: dict[str, History] = {}
    for path in sorted(folder.rglob("*.wandb")):
        run_id = ""
        for record in wandb_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run_id = record.run.run_id
                config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                configs[run_id] = configs.get(run_id, {}) | config
            elif kind == "history":
                items = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
                values = {metric: float(json.loads(items[name])) for name, metric in LOGGED.items() if name in items}
                if values:
                    histories.setdefault(run_id, {})[int(json.loads(items["_step"]))] = values
    for run_id, config in configs.items():
        yield run_id, config, histories.get(run_id, {})


def online_runs(project: str) -> Iterator[tuple[str, dict, History]]:
    """The same of a project on W&B's server."""
    import wandb

    try:
        for run in wandb.Api().runs(project):
            history: History = {}
            for name, metric in LOGGED.items():
                for row in run.scan_history(keys=["_step", name]):
                    history.setdefault(int(row["_step"]), {})[metric] = float(row[name])
            yield run.name, dict(run.config), history
    except Exception as error:
        raise UserError(f"--from-wandb {project}: neither a folder nor a project that W&B shows: {error}") from None


def from_wandb(source: str) -> list[Evaluation]:
    evaluations = []
    for name, config, history in offline_runs(Path(source)) if Path(source).is_dir() else online_runs(source):
        if not history or not {"env_id", "seed", "arm"} <= set(config):
            print(f"note: {source}: {name} is no run of the scripts with evaluations: left out")
            continue
        # PPO ends with its last whole rollout.
        rollout = config.get("num_envs", 1) * config.get("num_steps", 1)
        if max(history) <= config.get("total_timesteps", 0) - rollout:
            print(f"note: {source}: {name} ends at step {max(history)} of {config['total_timesteps']}: left out")
            continue
        for step, returns in sorted(history.items()):
            for metric, value in returns.items():
                number(str(value), f"eval/{metric} at step {step}", f"{source}, {name}")
            evaluations.append(Evaluation(config["env_id"], config["arm"], config["seed"], step, returns, name))
    if not evaluations:
        raise UserError(f"--from-wandb {source}: no finished run with evaluations")
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
