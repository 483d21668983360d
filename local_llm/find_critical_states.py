"""Finds the critical states of an agent's episodes with a language model: ask, check every entry, write a table and code.

::

    python -m local_llm.find_critical_states --trajectories trajectories.npz                # a model on this machine
    python -m local_llm.find_critical_states --trajectories trajectories.npz --server http://localhost:11434/v1
    python -m local_llm.find_critical_states --trajectories trajectories.npz --rounds 2     # tries the table, asks again
    python -m local_llm.find_critical_states --trajectories trajectories.npz --ask code     # for a stuck agent: code alone
    python -m local_llm.find_critical_states --replay                                       # rebuilds the shipped tables

The model is asked four times, each time with one prompt that needs no other (``prompts/ultra_*.md``): for the critical states,
for the actions, for the rewards, and for a Python function that generalises them. The output folder is guidance like the
shipped one (prompt-*.txt, reply-*.md, table.json, critical.py, provenance.json):
``LLMActionOverride(env, critical_states="tables/Hopper-v4")``. It also has ledger.json.

With ``--ask code`` it is asked once, for a function that guides a stuck agent, also in states that no episode shows
(``prompts/ultra_function.md``). The folder then holds no table. ``--prompts-only`` writes the first prompt and ends.

With ``--rounds 2`` the agent (agent.pt beside its trajectories) trains with that table for a while. Then the model reads what
each entry was worth and how the agent plays now, and answers with a second table. The first one becomes table-1.json and
critical-1.py, the results of the trial are entries.json and trajectories-2.npz, and the names of the second round's prompts
and replies end in -2.

Reference:
    Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
    arXiv 2505.20671.
"""

import argparse
import shlex
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

from llmwrappers import PolicyRejected, Trajectories
from llmwrappers.critical_states.guidance import SHIPPED
from llmwrappers.errors import UserError
from llmwrappers.files import folder_name
from llmwrappers.making import env_kwargs_of, make
from local_llm.command import (
    SHIPPED_REPLIES,
    Overwriting,
    add_env_options,
    add_model_options,
    claim_output,
    command_line,
    env_words,
    exit_status,
    make_backend,
    recordings,
    stopped_by_sigterm,
    take_env_kwargs,
    take_sampling,
)
from local_llm.guidance_folder import FIRST_PROMPTS, find_critical_states, rebuild
from local_llm.models.reply import PromptTooLong
from local_llm.prompting.episode_prompts import Episodes, Settings, flattened_as
from local_llm.replies.reply_text import ExtractionError, for_the_user
from local_llm.selection.trial import try_by_training

TABLES = Path("tables")


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
    if args.env_id == trajectories.env_id:
        args.env_kwargs = args.env_kwargs or env_kwargs_of(trajectories.env_kwargs)
    if args.settings.ask == "code" and trajectories.observations.ndim != 2:
        raise UserError(
            f"--ask code: code reads vectors; an observation here has shape {trajectories.observations.shape[1:]}; --ask all "
            "makes a table of them; for Pong take episodes of llmwrappers/PongObjects-v0, whose code serves PongGrid, too"
        )
    env = flattened_as(trajectories, make(args.env_id, **args.env_kwargs))
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
            env_kwargs=args.env_kwargs,
            episodes=len(trajectories),
            seed=args.seed,
            timesteps=args.settings.round_timesteps,
        )
    # What is wrong with them is said before a model is loaded, by whose tokens the prompt is made again.
    prompt, first = Episodes(trajectories, env, args.settings).first_prompt(), FIRST_PROMPTS[args.settings.ask]
    claim_output(output, prompt if args.prompts_only else None, recordings(args), first, "critical states")
    if args.prompts_only:
        print(f"prompt: {output / first}")
        return
    backend = make_backend(args)
    episodes = Episodes(trajectories, env, args.settings, backend)
    claim_output(output, episodes.first_prompt(), recordings(args), first, "critical states")
    command = command_line("local_llm.find_critical_states", args.argv)
    backend = Overwriting(backend, output, first)
    try:
        find_critical_states(episodes, backend, args.sampling, output, command, try_table)
    except PromptTooLong as error:
        error.add_note(
            "A shorter prompt: a smaller --token-budget, fewer --episodes. Room for less of an answer: --max-new-tokens."
        )
        raise
    except (ExtractionError, PolicyRejected) as error:
        raise UserError(
            f"none of the replies to a question could be used: {for_the_user(error)}\n"
            f"All are in {output}. Ask again with another --seed, or a larger model."
        ) from error
    env.close()
    guidance = "code" if (output / "critical.py").is_file() else "table"
    agent = args.trajectories.with_name("agent.pt")
    files = ["--agent", str(agent) if agent.is_file() else "none", "--arm", "a", "--guidance", guidance]
    files += ["--critical-states", str(output)]
    print(f"\nuse it: llmwrappers train ppo-ultra {env_words(args.env_id, args.env_kwargs)} {shlex.join(files)}")


def rebuilt(args: argparse.Namespace) -> list[Path]:
    """Returns the folders of the tables that --replay alone rebuilds."""
    if args.replay is None:
        raise UserError("--trajectories is needed: episodes of the agent, RUN_DIR/trajectories.npz of ppo_ultra.py")
    if args.replay is not SHIPPED_REPLIES:
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
        prog="llmwrappers find-critical-states",
        description="Asks a language model for the critical states in an agent's episodes, and for actions and rewards there.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--trajectories", metavar="FILE", type=Path, help="the agent's episodes (.npz)")
    add_env_options(
        parser, "the environment of the episodes; with --replay alone, the shipped table to rebuild", required=False
    )
    parser.add_argument("--output", metavar="DIR", type=Path, help="the output folder (tables/ENV_ID if not given)")
    parser.add_argument(
        "--episodes",
        type=int,
        default=Settings.episodes,
        help="episodes that the model reads; the others set what counts as near",
    )
    parser.add_argument(
        "--states-per-episode",
        type=int,
        default=Settings.states_per_episode,
        help="most critical states to ask for, per episode",
    )
    parser.add_argument("--token-budget", type=int, default=Settings.token_budget, help="tokens for the episodes in a prompt")
    parser.add_argument(
        "--hit-rate", type=float, default=Settings.hit_rate, help="share of the other episodes' steps that must match"
    )
    parser.add_argument(
        "--rounds", type=int, default=Settings.rounds, help="2: trains agent.pt beside FILE with the table, then asks again"
    )
    parser.add_argument("--ask", choices=("all", "code"), default=Settings.ask, help="all: a table and code; code: code alone")
    parser.add_argument("--prompts-only", action="store_true", help="writes the first prompt to the folder, and ends")
    parser.add_argument(
        "--round-timesteps", metavar="N", type=int, default=Settings.round_timesteps, help="steps of that training"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the replies and of that training")
    add_model_options(parser, shipped="those that are shipped; without --trajectories, rebuild that table, or all of them")
    args = parser.parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    take_sampling(parser, args)
    take_env_kwargs(parser, args)
    if args.seed < 0:
        parser.error(f"--seed must not be negative, got {args.seed}")
    try:
        args.settings = Settings(**{item.name: getattr(args, item.name) for item in fields(Settings)})
    except ValueError as error:
        parser.error(str(error))
    return args


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return exit_status("find_critical_states", run, parse_args(argv))


if __name__ == "__main__":
    with stopped_by_sigterm():
        sys.exit(main())
