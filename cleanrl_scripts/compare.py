# Compares the arms of a script: one command trains all runs, and makes tables and figures with confidence intervals.
#
#   for every environment, arm and seed:
#       finished or in curves.csv: skip;  interrupted: resume;  else: start   processes of one thread, or tasks of a Ray cluster
#   curves.csv <- the evaluations of all finished runs, of imported CSVs, of runs in W&B
#   table.md, curves.png, summary.png, index.html <- curves.csv       interquartile means, 95 % bootstrap intervals over seeds
#
#   python cleanrl_scripts/compare.py --env-ids Hopper-v4 Walker2d-v4 --arms none llm auto random bad --seeds 1-8 \
#       --total-timesteps 300000 --eval-every 10000                   arguments that it does not know go to the script
#
# Many machines: the same command with --ray auto on a Ray cluster (pip install 'llmwrappers[ray]'); --output must be on a disk
# that all nodes share. In a Slurm job script one line (Ray 2.49 or newer) starts the cluster, compares, and stops the cluster:
#   srun --ntasks-per-node=1 ray symmetric-run --address $(hostname):6379 --min-nodes $SLURM_NNODES \
#       --num-cpus $SLURM_CPUS_ON_NODE -- python cleanrl_scripts/compare.py --ray auto ...
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from cleanrl_scripts.common.arguments import with_whole_numbers
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.comparison.curves import (
    Evaluation,
    curves_of,
    from_csv,
    from_runs,
    keep_curves,
    merge,
    refuse_unaligned,
)
from cleanrl_scripts.comparison.description import describe, description_of, finished_runs, its_turn, name_again, record_runs
from cleanrl_scripts.comparison.report import write_report
from cleanrl_scripts.comparison.runs import REPOSITORY, parse_arms, parse_seeds, plan
from cleanrl_scripts.comparison.tables import markdown
from cleanrl_scripts.comparison.tracking import from_wandb, track
from cleanrl_scripts.comparison.training import train
from llmwrappers.__main__ import program
from llmwrappers.errors import UserError
from llmwrappers.files import folder_name


@dataclass
class Args:
    """Trains the arms of a script with several seeds, and makes tables and figures with confidence intervals.

    Example: llmwrappers compare --env-ids Hopper-v4 --arms none auto --seeds 1-3 --total-timesteps 100000
    """

    env_ids: tuple[str, ...] = ()
    """the ids of the environments"""
    arms: tuple[str, ...] = ("none", "auto")
    """the arms, the baseline first. ppo_camel.py: none, llm, auto, random, bad; td3_camel.py: td3, paper, paper-random,
    paper-expert (the best run of `td3`); other scripts: the values of --arm. Your own arm is a name with flags:
    "wide=--prior shipped --radius 0.6"; {env_id} stands for the environment's id, {expert_model} for the expert's agent.npz"""
    seeds: str = "1-3"
    """seeds: 1-8, or 1,3,5, or 4"""
    total_timesteps: int = 1000000
    """total timesteps of each run"""
    script: str = "ppo_camel.py"
    """a script of this folder, or the path of one that writes the same run folder; it gets all arguments not listed here"""
    expert_models: str | None = None
    """path of the experts' agent.npz, such as experts/{env_id}.npz, instead of the best run of `td3`"""
    output: str | None = None
    """the folder of the comparison (default: comparisons/SCRIPT-ENVIRONMENTS)"""
    jobs: int | None = None
    """runs at a time on this machine (default: one for each core)"""
    ray: str | None = None
    """trains on a Ray cluster: auto, or its address; --output must be on a disk that all nodes share"""
    threshold: float | None = None
    """the return that the column "steps to" is about (default: the mean final return of the baseline, in each environment)"""
    report_only: bool = False
    """trains nothing; makes table, figures and page from the curves.csv in --output (default: benchmarks/comparisons/*)"""
    from_csv: tuple[str, ...] = ()
    """CSV files of curves to add: columns step, episodic_return, seed and, if there are several, env_id, arm"""
    from_wandb: tuple[str, ...] = ()
    """W&B projects (entity/project) with tracked runs of the scripts to add"""
    track: bool = False
    """if toggled, runs, table and figures go to Weights and Biases (WANDB_MODE=offline needs no account)"""
    wandb_project_name: str = "llmwrappers"
    """the wandb's project name"""
    wandb_entity: str | None = None
    """the entity (team) of wandb's project"""


def folders_of_curves(output: str | None) -> list[Path]:
    """The folders that --report-only shows."""
    committed = sorted(path.parent for path in (REPOSITORY / "benchmarks" / "comparisons").glob("*/curves.csv"))
    folders = [Path(output)] if output else committed
    if not folders:
        raise UserError("--report-only: there is no benchmarks/comparisons/*/curves.csv; name a folder with --output")
    if not (folders[0] / "curves.csv").is_file():
        raise UserError(
            f"--report-only --output {folders[0]}: there is no curves.csv in it; compare.py without --report-only trains what "
            "is missing, and writes it"
        )
    return folders


def read_curves(args: Args) -> list[Evaluation]:
    """The imported curves."""
    external = [e for source in args.from_wandb for e in from_wandb(source)]
    env_ids = [*args.env_ids, *(e.env_id for e in external)]
    return external + [e for source in args.from_csv for e in from_csv(Path(source), env_ids)]


def import_curves(args: Args) -> Path:
    """Writes a folder of imported curves alone."""
    output = Path(args.output or f"comparisons/from-{Path([*args.from_csv, *args.from_wandb][0]).stem}")
    if (output / "comparison.json").exists():
        raise UserError(f"--output {output} holds a comparison: name its --env-ids, or another --output")
    external = read_curves(args)
    with its_turn(output):
        curves = merge(curves_of(output), [], external)
        arms = list(dict.fromkeys(e.arm for e in curves))
        if (missing := [arm for arm in args.arms if arm not in arms]) and args.arms != Args.arms:
            raise UserError(f"--arms {missing[0]}: no curve that you add is of this arm; there are {', '.join(arms)}")
        keep_curves(output, curves, {} if missing else {"arms": args.arms})
    return output


def asked_for(args: Args, extra: list[str]) -> dict:
    """The comparison that the arguments ask for; extra: those of the script."""
    as_given = ("script", "total_timesteps", "expert_models", "threshold", "from_csv", "from_wandb")
    asked = {name: getattr(args, name) for name in as_given}
    asked |= {"env_ids": list(dict.fromkeys(args.env_ids)), "seeds": parse_seeds(args.seeds)}
    tracking = ["--track", "--wandb-project-name", args.wandb_project_name] if args.track else []
    tracking += ["--wandb-entity", args.wandb_entity] if args.track and args.wandb_entity else []
    return asked | {"arms": parse_arms(args.arms, args.script), "flags": [*extra, *tracking]}


def compare(args: Args, extra: list[str]) -> tuple[Path, int]:
    """Trains the missing runs and adds their curves; returns the folder, and how many runs failed."""
    asked = asked_for(args, extra)
    output = Path(args.output or f"comparisons/{Path(args.script).stem}-{folder_name('_'.join(asked['env_ids']))}")
    external, runs = read_curves(args), plan(asked, output)
    for env_id, arm in dict.fromkeys((e.env_id, e.arm) for e in external if e.env_id in asked["env_ids"]):
        first = min(e.step for e in external if (e.env_id, e.arm) == (env_id, arm))
        if first > args.total_timesteps:
            raise UserError(
                f"--total-timesteps {args.total_timesteps}: the curves of {arm} that you add in {env_id} begin at step {first}"
            )
    refuse_unaligned(external)
    describe(asked, runs, external, output)
    done = {(e.env_id, e.arm, e.seed) for e in curves_of(output)}
    todo = [run for run in runs if run.run_dir or (run.env_id, run.arm, run.seed) not in done]
    if len(todo) < len(runs):
        print(f"{len(runs) - len(todo)} of {len(runs)} runs are in {output / 'curves.csv'} already")
    try:
        failures = train(todo, output, args.jobs, args.ray)
    except (KeyboardInterrupt, SystemExit):
        print("stopped; the same command continues from the last checkpoints", flush=True)
        raise
    with its_turn(output):
        name_again(asked, output)
        finished = finished_runs(output)
        evaluations, left_out = from_runs(finished)
        record_runs(output, finished, left_out)
        keep_curves(output, merge(curves_of(output), evaluations, external), description_of(output))
    return output, len(failures)


def main(argv: list[str] | None = None) -> int:
    args, extra = tyro.cli(Args, prog=program(), args=with_whole_numbers(Args, argv), return_unknown_args=True)
    sources = [*args.from_csv, *args.from_wandb]
    if extra and (args.report_only or not args.env_ids):
        raise UserError(f"{shlex.join(extra)}: not an argument of compare.py, and no script is run that could take it")
    if args.report_only and (args.env_ids or sources):
        raise UserError("--report-only shows what is in a folder, or all committed: name it with --output, and nothing else")
    if not (args.report_only or args.env_ids or sources):
        raise UserError("--env-ids: name at least one environment, or curves to show: --from-csv, --from-wandb")
    if args.threshold is not None and not math.isfinite(args.threshold):
        raise UserError(f"--threshold must be finite, got {args.threshold}")
    for name, value in (("--total-timesteps", args.total_timesteps), ("--jobs", args.jobs)):
        if value is not None and value < 1:
            raise UserError(f"{name} must be at least 1, got {value}")
    if args.jobs is not None and args.ray:
        raise UserError(f"--jobs {args.jobs} is for this machine; with --ray the cluster decides: leave it out")
    failures = 0
    if args.report_only:
        folders = folders_of_curves(args.output)
    elif args.env_ids:
        output, failures = compare(args, extra)
        folders = [output]
    else:
        folders = [import_curves(args)]
    for folder in folders:
        with its_turn(folder):
            report = write_report(folder, args.threshold)
        print(f"\n{markdown(report)}\n{folder / 'index.html'}: the same with figures; {folder / 'curves.csv'}: the curves")
        if args.track:
            track(args.wandb_project_name, args.wandb_entity, folder, report)
    if failures:
        print(f"{failures} runs failed; the same command tries them again", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    run_script(main, "compare.py")
