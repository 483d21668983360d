"""Measures priors alone, over seeded episodes, and says which one the rule chooses by these.

::

    python -m llmwrappers.priors                                        # every candidate of every shipped prior
    python -m llmwrappers.priors --env-id Ant-v5 --candidate 3
    python -m llmwrappers.priors --env-id Pendulum-v1 --prior path/to/policy.py
    python -m llmwrappers.priors --env-id Pendulum-v1 --env-kwargs '{"g": 1.62}'
    python -m llmwrappers.priors --env-id Hopper-v4 --minari hopper/prior-v0 --episodes 100
    python -m llmwrappers.priors --env-id Hopper-v4 --prior Hopper-v4 --episodes 100 --csv comparisons/mine/alone.csv

``measurement.py`` says what is measured, and why by that rule. A call faults if the policy raises or returns a wrong shape,
NaN or Inf; the middle of the action space is executed instead (any action, where the space is Discrete).
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

from llmwrappers.making import env_kwargs_of, make
from llmwrappers.priors import TRUSTED, _candidates, _folders, load_prior
from llmwrappers.priors.measurement import HEADER, RULE, Measurement, choose, keep_returns, measure, row
from llmwrappers.priors.minari_dataset import record_dataset


def main(argv: list[str] | None = None) -> None:
    """Runs the command; the arguments are the command line's if ``argv`` is None."""
    parser = argparse.ArgumentParser(
        prog="llmwrappers priors",
        description="Measures prior policies alone, over seeded episodes; +- is the standard deviation over episodes.",
        epilog=f"The rule: {RULE}. Some defaults were chosen by training instead; a note then says why.",
    )
    parser.add_argument("--env-id", nargs="+", help="Gymnasium environments (default: those of the shipped priors)")
    parser.add_argument("--env-kwargs", metavar="JSON", default="{}", help="what they are made with, a JSON object")
    parser.add_argument("--prior", help="measure it alone: a shipped name, FILE.py, trusted:FILE.py or a folder")
    parser.add_argument("--prior-of-another-env", action="store_true", help="measure it, whatever it was written for")
    parser.add_argument("--candidate", type=int, metavar="N", help="only this one of the candidates")
    parser.add_argument("--episodes", type=int, default=20, help="episodes per policy (default: %(default)s)")
    parser.add_argument("--minari", metavar="NAME", help="keep the episodes as a Minari dataset: hopper/prior-v0")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write each episode's return: alone.csv, for compare.py")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.episodes < 1:
        parser.error(f"--episodes must be at least 1, got {args.episodes}")
    if args.seed < 0:
        parser.error(f"--seed must not be negative, got {args.seed}")
    try:
        env_kwargs = env_kwargs_of(args.env_kwargs)
    except ValueError as error:
        parser.error(str(error))
    if env_kwargs and not args.env_id:
        parser.error("--env-kwargs needs --env-id, the environment that is made with them")
    if args.prior and not args.env_id:
        parser.error("--prior needs --env-id, the environment to measure it in")
    if args.minari and args.csv:
        parser.error("--csv and --minari: give one of them; a dataset holds the returns, too")
    if args.minari and len(args.env_id or ()) != 1:
        parser.error("--minari needs one --env-id, the environment that its episodes are from")

    folders = _folders()
    env_ids = args.env_id or sorted({folder.name for folder in folders.values()})
    for env_id in env_ids:
        try:
            env = make(env_id, **env_kwargs)
            if args.prior or args.candidate is not None:
                load_prior(args.prior or env_id, args.candidate, env, args.prior_of_another_env)
            env.close()
        except (gym.error.Error, ImportError, OSError, TypeError, ValueError) as error:
            parser.error(f"{env_id}: {error}")
        if not args.prior and env_id not in folders:
            parser.error(f"{env_id}: no prior is shipped for it; measure one of yours with --prior my_policy.py")

    if args.minari:
        env, source = make(env_ids[0], **env_kwargs), args.prior or env_ids[0]
        policy = load_prior(source, args.candidate, env, args.prior_of_another_env)
        words = f"prior {source}" + (f", candidate {args.candidate}" if args.candidate else "")
        try:
            dataset = record_dataset(env, policy, args.minari, args.episodes, args.seed, words)
        except ValueError as error:
            parser.error(f"--minari {args.minari}: {error}")
        returns = [float(episode.rewards.sum()) for episode in dataset.iterate_episodes()]
        print(f"{args.minari}: {len(returns)} episodes, {dataset.total_steps} steps, return {statistics.fmean(returns):.1f}")
        print(f'minari.load_dataset("{args.minari}"), in {dataset.storage.data_path.parent}')
        return

    def keep(env_id: str, policy: str, measured: Measurement) -> None:
        try:
            if args.csv and (replaced := keep_returns(args.csv, env_id, policy, measured.returns, args.seed)):
                print(f"note: {args.csv}: replaced {replaced} rows of {policy} in {env_id}")
        except (OSError, ValueError) as error:
            parser.error(f"--csv {args.csv}: {error}")

    keep(env_ids[0], "", Measurement())  # refuses a file that cannot take the returns before anything is played
    if not args.prior and args.candidate is None:
        print(f"The rule: {RULE}.\n")
    for env_id in env_ids:
        env = make(env_id, **env_kwargs)
        last_seed = args.seed + args.episodes - 1
        made_with = f" {json.dumps(env_kwargs)}" if env_kwargs else ""
        print(f"{env_id}{made_with}, episodes seeded {args.seed} to {last_seed}\n{HEADER}", flush=True)
        if args.prior:
            measured = measure(env, load_prior(args.prior, args.candidate), args.episodes, args.seed)
            if measured.faults == sum(measured.steps):
                parser.error(f"--prior {args.prior} failed in every call, so it has no return: {measured.first_fault}")
            print(row("yours", measured))
            numbered = "prior" if args.candidate is None else f"policy-{args.candidate}"
            is_file = args.prior.endswith(".py")
            keep(env_id, Path(args.prior.removeprefix(TRUSTED)).stem if is_file else numbered, measured)
        else:
            candidates, default = _candidates(folders[env_id])
            measurements = {}
            for number in candidates if args.candidate is None else [args.candidate]:
                measurements[number] = measure(env, load_prior(env_id, number), args.episodes, args.seed)
                mark = "   default" if number == default else ""
                print(row(str(number), measurements[number], mark), flush=True)
                keep(env_id, f"policy-{number}", measurements[number])
            if args.candidate is None:
                provenance = json.loads((folders[env_id] / "provenance.json").read_text("utf-8"))
                print_choice(choose(measurements), provenance["default"])
        print()
        env.close()


def print_choice(winner: int | None, default: dict[str, Any]) -> None:
    """Prints which candidate the rule takes, and why the default is another, where it is.

    Args:
        default: what ``provenance.json`` says of it
    """
    candidate = default["candidate"]
    if candidate is None:
        print(f"The rule takes {winner}; none of them is a default, because training has not shown that one helps.")
    elif winner == candidate:
        print(f"The rule takes {candidate}, the shipped default.")
    else:
        takes = (
            f"by these episodes the rule takes {winner}" if winner else "every candidate faults here, so the rule takes none"
        )
        print(f"note: {takes}. The default is {candidate}, by what was measured when it was chosen: {default['measured']}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("llmwrappers priors: stopped", file=sys.stderr)
        sys.exit(130)
