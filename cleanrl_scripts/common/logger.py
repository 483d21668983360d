"""Logger: metrics to a CSV file, TensorBoard and W&B; a progress bar, or a line from time to time."""

import csv
import dataclasses
import datetime
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.run_folder import how_to_resume
from llmwrappers.agent import AGENT_FILE
from llmwrappers.errors import UserError
from llmwrappers.files import write_atomically


class Logger:
    """Writes every metric to metrics.csv and TensorBoard, and to W&B with --track; shows the progress of the run.

    A context: if the run is stopped in it, it prints the command that continues the run.

    Args:
        arm: the arm of a comparison; W&B groups by it
        total_timesteps: the last step of the run
        hardware: what the run computes on
        checkpoint: of an interrupted run; it holds what ``state_dict`` returned
    """

    def __init__(self, args: RunArgs, run_dir: Path, arm: str, total_timesteps: int, hardware: str, checkpoint: dict | None):
        before = checkpoint["logger"] if checkpoint else {"csv_bytes": 0, "seconds": 0.0, "global_step": 0}
        self.run_dir, self.global_step, csv_bytes = run_dir, before["global_step"], before["csv_bytes"]
        path = run_dir / "metrics.csv"
        if csv_bytes and (not path.exists() or path.stat().st_size < csv_bytes):
            raise UserError(f"{path} is shorter than the checkpoint beside it says")
        self.file = open(path, "a", newline="")  # noqa: SIM115
        self.file.truncate(csv_bytes)  # an interrupted run writes again what came after its last checkpoint
        self.csv = csv.writer(self.file, lineterminator="\n")
        if not csv_bytes:
            self.csv.writerow(["global_step", "metric", "value"])
        self.tensorboard = SummaryWriter(str(run_dir), purge_step=self.global_step + 1 if csv_bytes else 0)
        self.wandb = wandb_run(args, run_dir, arm) if args.track else None
        rows = "\n".join(f"|{name}|{value}|" for name, value in vars(args).items())
        self.tensorboard.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}", self.global_step)
        (run_dir / "summary.json").unlink(missing_ok=True)  # a finished run that is resumed starts from its last checkpoint

        self.start_step, self.start_time, self.last_line = self.global_step, time.monotonic(), time.monotonic()
        self.seconds_before, self.total = before["seconds"], total_timesteps
        self.deterministic_return: float | None = None
        self.bar = tqdm(total=self.total, initial=self.global_step, unit="step", dynamic_ncols=True, disable=None)
        print(f"{'resuming' if csv_bytes else 'training'} {run_dir} on {hardware}", flush=True)

    def log(self, global_step: int, values: dict[str, float]) -> None:
        """Writes metrics of a step."""
        for name, value in values.items():
            self.csv.writerow([global_step, name, repr(float(value))])
            self.tensorboard.add_scalar(name, value, global_step)
        self.file.flush()
        if self.wandb:
            films = self.films(global_step) if "eval/episodic_return" in values else {}
            self.wandb.log({**values, **films}, step=global_step)

    def films(self, global_step: int) -> dict[str, list]:
        """The film of an evaluation for W&B, if --capture-video recorded it."""
        import wandb

        paths = sorted((self.run_dir / "videos").glob(f"step-{global_step}-*.mp4"))
        return {"eval/video": [wandb.Video(str(path), path.stem, format="mp4") for path in paths]} if paths else {}

    def progress(self, global_step: int, last_return: float) -> None:
        """Shows the progress of the run."""
        self.global_step = global_step
        if not self.bar.disable:
            self.bar.set_postfix_str(f"return {last_return:.0f}", refresh=False)
            self.bar.update(global_step - self.bar.n)
        elif time.monotonic() - self.last_line > 15:
            self.last_line = time.monotonic()
            rate = self.steps_per_second
            left = datetime.timedelta(seconds=int((self.total - global_step) / rate))
            self.print(f"global_step {global_step}/{self.total}  return {last_return:.0f}  SPS {rate:.0f}  left {left}")

    def print(self, line: str) -> None:
        """Prints a line above the bar."""
        self.bar.write(line)
        sys.stdout.flush()

    @property
    def seconds(self) -> float:
        """How long the run has taken, the time before it was resumed included."""
        return self.seconds_before + time.monotonic() - self.start_time

    @property
    def steps_per_second(self) -> float:
        return max(self.global_step - self.start_step, 1) / max(time.monotonic() - self.start_time, 1e-9)

    def write_summary(self, global_step: int, values: dict, verdict: str = "") -> None:
        """Writes summary.json, the sign of a finished run; the verdict goes to W&B and into the last line."""
        summary = {"global_step": global_step, "seconds": round(self.seconds, 1), **values}
        write_atomically(self.run_dir / "summary.json", json.dumps(summary, indent=2, default=float))
        if self.wandb:
            self.wandb.summary.update(summary | ({"verdict": verdict} if verdict else {}))
        self.deterministic_return = values.get("eval/deterministic_return")
        words = f"; {verdict}" if verdict else ""
        self.print(f"return of the agent alone at the end: {values.get('eval/episodic_return', math.nan):.1f}{words}")

    def state_dict(self) -> dict:
        """The logger's state for a checkpoint; writes the metrics so far to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return {"csv_bytes": self.file.tell(), "seconds": self.seconds, "global_step": self.global_step}

    def __enter__(self) -> "Logger":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if kind and issubclass(kind, KeyboardInterrupt | SystemExit):
            self.print(f"stopped at global_step {self.global_step}: {how_to_resume(self.run_dir)}")
        self.file.close()
        if kind is None:
            self.tensorboard.close()
            if self.wandb:
                self.wandb.finish()
            self.bar.update(self.total - self.bar.n)
            self.bar.close()
            print(f"finished in {self.run_dir}")
            if (self.run_dir / AGENT_FILE).exists():
                sampled = self.deterministic_return is not None  # what counts is the return of sampled actions
                option, arguments = (" --sampled", "observation, rng") if sampled else ("", "observation")
                print(f"see it play: llmwrappers watch --run {shlex.quote(str(self.run_dir))}{option}")
                print(f'use it: agent = llmwrappers.load_agent("{self.run_dir}"); action = agent({arguments})')
                if sampled:
                    print(
                        "rng = numpy.random.default_rng() draws the actions, as the evaluation did; without rng or --sampled, "
                        f"the most probable actions, which returned {self.deterministic_return:.1f}"
                    )


def wandb_run(args: RunArgs, run_dir: Path, arm: str):
    """The run in W&B, the same one if it is resumed."""
    arm = args.wandb_arm or arm
    try:
        import wandb

        return wandb.init(
            project=args.wandb_project_name,
            entity=args.wandb_entity,
            group=f"{args.env_id}-{arm}",
            tags=[*args.wandb_tags, args.env_id, arm],
            config={**dataclasses.asdict(args), "arm": arm},
            name=run_dir.name,
            id=json.loads((run_dir / "args.json").read_text()).get("wandb_id", run_dir.name),  # older runs have none
            resume="allow",
            allow_val_change=True,  # a resumed run may have more total_timesteps
            dir=str(run_dir),
        )
    except Exception as error:
        raise UserError(f"--track: {error} (WANDB_MODE=offline needs neither account nor network)") from None
