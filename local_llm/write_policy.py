"""Takes an environment from its documentation to a chosen, safe prior: ask, extract, vet, choose, report.

::

    python -m local_llm.write_policy --env-id Hopper-v4                                    # a model on this machine
    python -m local_llm.write_policy --env-id Hopper-v4 --server http://localhost:11434/v1
    python -m local_llm.write_policy --env-id Hopper-v4 --replay                           # the shipped replies

The output folder is a prior like the shipped ones (prompt.txt, reply-N.md, policy-N.py, provenance.json):
``LLMActionMask(env, prior="policies/Hopper-v4")``. It also has report.html, choice.json (all data of the choice) and
ledger.json.
"""

import argparse
import hashlib
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from llmwrappers import PolicyRejected, priors, vet_policy
from llmwrappers.errors import UserError
from llmwrappers.files import folder_name, sha256
from llmwrappers.making import make
from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import Measurement, choose, measure, random_actions
from llmwrappers.priors.probe import is_readable
from llmwrappers.priors.written_for import env_facts
from local_llm.command import (
    MOST_RETRIES,
    Overwriting,
    add_env_options,
    add_model_options,
    circumstances,
    claim_output,
    command_line,
    exit_status,
    how_to_go_on,
    make_backend,
    read_prompt,
    recordings,
    save_text,
    stopped_by_sigterm,
    take_env_kwargs,
    take_sampling,
    use_in_training,
    why_refused,
)
from local_llm.models.ledger import Metered
from local_llm.models.recorded import write_json
from local_llm.models.reply import Backend, Message, ModelError, Reply, Sampling
from local_llm.prompting.render import render_prompt
from local_llm.prompting.space_words import without_addresses
from local_llm.replies.extract import extract_policy
from local_llm.replies.reply_text import SEND, ExtractionError, Truncated, refusal
from local_llm.selection.candidate import Candidate, Refused
from local_llm.selection.choose import BUDGET_STEPS, Choice, choose_candidate
from local_llm.selection.episode_pools import CHOOSING_EPISODES, HELD_OUT_EPISODES
from local_llm.selection.feedback import report_text
from local_llm.selection.report import write_report
from local_llm.selection.training import TrainingFailed, require_trainable

# In so many episodes each candidate plays while policies are written; a report shows what it did there.
EPISODES = 10
# --refine ends after so many rounds in a row without a better candidate.
PATIENCE = 2
IMPROVE = "Write a better policy: the same rules hold. First reason about what went wrong and why, then give the complete code."


@dataclass
class Writer:
    """Asks a model for policies and turns its replies into candidates; writes every reply to the output folder at once."""

    backend: Backend
    sampling: Sampling
    env: gym.Env
    folder: Path
    seed: int = 0  # of the first of the episodes that a policy must play without a fault
    measurements: dict[int, Measurement] = field(default_factory=dict)  # of the candidates, in these episodes
    candidates: list[Candidate] = field(default_factory=list)
    conversations: dict[int, list[Message]] = field(default_factory=dict)  # with each candidate's reply as the last message
    played: int = 0  # episodes, those of refused replies too
    lacks_retries: bool = False  # the model did not answer one of them

    def __post_init__(self) -> None:
        self.metered = Metered(self.backend, self.folder / "ledger.json")

    def write(self, messages: list[Message], n: int) -> list[Candidate]:
        """Returns the next n candidates, each with at most two retries.

        Raises:
            ModelError: a first reply to ``messages`` does not come; those that came before it are in the folder
        """
        first, replies = len(self.candidates) + 1, []
        for reply in self.metered.ask(messages, n, self.sampling):
            replies.append(reply)
            self._save(f"reply-{first + len(replies) - 1}.md", reply.text)
        return [self._candidate(first + i, messages, reply) for i, reply in enumerate(replies)]

    def _candidate(self, number: int, messages: list[Message], reply: Reply) -> Candidate:
        candidate = Candidate(number, "", self.folder / f"policy-{number}.py")
        self.candidates.append(candidate)
        for retry in range(MOST_RETRIES + 1):
            self.conversations[number] = [*messages, {"role": "assistant", "content": reply.text}]
            source = ""
            try:
                candidate.source = source = extract_policy(reply.text, reply.finish_reason)
                candidate.policy = self._vetted(number, candidate.source)
            except (ExtractionError, PolicyRejected) as error:
                candidate.rejected = why_refused(error, reply, self.sampling)
                candidate.refused.append(Refused(reply.text, source, candidate.rejected))
                if retry == MOST_RETRIES:
                    break
                try:
                    (reply,) = self.metered.ask(retry_messages(messages, reply, error), 1, self.sampling)
                except ModelError as unavailable:
                    self.lacks_retries = True
                    candidate.rejected += f" (no retry: {str(unavailable).splitlines()[0]})"
                    break
                self._save(f"reply-{number}-retry-{retry + 1}.md", reply.text)
            else:
                candidate.rejected = ""
                self._save(candidate.path.name, candidate.source)
                break
        print(f"candidate {number}: {candidate.rejected or 'checked and probed'}", flush=True)
        return candidate

    def _vetted(self, number: int, source: str) -> PriorPolicy:
        policy = vet_policy(source, self.env.observation_space, self.env.action_space, env=self.env)
        measured = measure(self.env, policy, EPISODES, self.seed)
        self.played += EPISODES
        if measured.faults:
            steps = f"{measured.faults} of the {sum(measured.steps)} steps of {EPISODES} episodes"
            raise PolicyRejected(None, f"it fails in {steps} that it plays: {measured.first_fault}")
        self.measurements[number] = measured
        return policy

    def _save(self, name: str, text: str) -> None:
        save_text(self.folder / name, text)


def retry_messages(messages: list[Message], reply: Reply, error: ExtractionError | PolicyRejected) -> list[Message]:
    """Returns what to ask after a reply without a usable policy: the error goes back to the model.

    Example:
        >>> asked = [{"role": "user", "content": "Write policy(obs)."}]
        >>> reply = Reply("import os", "stop", 5, 2, 0.1)
        >>> error = PolicyRejected(1, "import of os, which a policy cannot use")
        >>> retry_messages(asked, reply, error)[-1]["content"][:60]
        'Your code was refused: line 1: import of os, which a policy '
    """
    if isinstance(error, Truncated):
        # What was cut off would only fill the context again.
        *before, last = messages
        return [*before, {**last, "content": f"{last['content']}\n\n{error}"}]
    return [*messages, {"role": "assistant", "content": reply.text}, {"role": "user", "content": refusal(error, SEND)}]


def refine(writer: Writer, args: argparse.Namespace) -> None:
    """Sends the report of the best candidate to the model, in up to ``args.refine`` rounds."""
    rounds, seed, measurements = args.refine, args.seed, writer.measurements
    random = measure(writer.env, random_actions(writer.env.action_space, seed), EPISODES, seed)
    failures = 0
    for number in range(1, rounds + 1):
        best = choose(measurements)
        if best is None:
            print("refine: no candidate runs without faults, so there is none to improve")
            return
        candidate = next(candidate for candidate in writer.candidates if candidate.number == best)
        report = report_text(args.env_id, candidate, measurements[best], random, seed, args.env_kwargs)
        messages = [*writer.conversations[best], {"role": "user", "content": f"{report}\n\n{IMPROVE}"}]
        try:
            (better,) = writer.write(messages, 1)
        except ModelError as error:
            print(f"refine: stopped before round {number}: {error}")
            return
        failures = 0 if choose(measurements) == better.number else failures + 1
        print(f"refine: round {number} of {rounds} brought {'nothing better' if failures else 'a better policy'}", flush=True)
        if failures == PATIENCE:
            return


def provenance(args: argparse.Namespace, prompt: str, writer: Writer, choice: Choice | None) -> dict[str, Any]:
    """Returns what is needed to trust and to repeat an output folder."""
    candidates = {}
    for candidate in writer.candidates:
        reply = writer.folder / f"reply-{candidate.number}.md"
        retries = sorted(writer.folder.glob(f"reply-{candidate.number}-retry-*.md"))
        candidates[str(candidate.number)] = {"reply_sha256": sha256(reply)}
        if candidate.number > args.candidates:
            candidates[str(candidate.number)]["refined"] = True  # the reply is to a report, not to the prompt
        if retries:
            candidates[str(candidate.number)]["retries_sha256"] = [sha256(retry) for retry in retries]
        if candidate.policy is not None:
            candidates[str(candidate.number)]["policy_sha256"] = sha256(candidate.path)
        else:
            candidates[str(candidate.number)]["rejected"] = candidate.rejected
    return {
        "environment": args.env_id,
        "env_kwargs": args.env_kwargs,
        "serves": [args.env_id],
        "spaces": {args.env_id: env_facts(writer.env)},
        "replies": f"{len(writer.candidates)} candidates, each with at most {MOST_RETRIES} retries; --refine {args.refine}",
        "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest(),
        "candidates": candidates,
        "episodes": {"to write": writer.played, "to choose": args.episodes, "held out": args.held_out_episodes},
        "default": {
            "candidate": choice and choice.candidate,
            "rule": choice and choice.rule,
            "measured": choice and choice.verdict,
        },
        **circumstances(writer.backend, writer.sampling, command_line("local_llm.write_policy", args.argv)),
    }


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="llmwrappers write-policy",
        description="Asks a language model for policies of an environment, vets them, and chooses the one that helps, if any.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_env_options(parser, "any Gymnasium environment, e.g. Hopper-v4 or my_package:MyEnv-v0", required=True)
    parser.add_argument("--prompt", metavar="FILE", type=Path, help="a prompt to use instead of the rendered one")
    parser.add_argument("--candidates", type=int, default=5, help="number of policies to ask for")
    parser.add_argument(
        "--refine",
        metavar="K",
        type=int,
        default=0,
        help="rounds in which the model reads the best candidate's report and improves it",
    )
    parser.add_argument("--output", metavar="DIR", type=Path, help="the output folder (policies/ENV_ID if not given)")

    add_model_options(parser, shipped="those shipped for the environment")
    group = parser.add_argument_group("choosing")
    group.add_argument(
        "--select",
        choices=("return", "probe"),
        default="return",
        help="return: choose by short training; probe: by episodes alone",
    )
    group.add_argument("--budget-steps", type=int, default=BUDGET_STEPS, help="training steps of all runs together")
    group.add_argument("--jobs", type=int, help="training runs at a time (default: one for each core)")
    group.add_argument("--episodes", type=int, default=CHOOSING_EPISODES, help="episodes that each candidate is chosen by")
    group.add_argument(
        "--held-out-episodes",
        type=int,
        default=HELD_OUT_EPISODES,
        help="episodes in which the best one is measured after the choice",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of the episodes, the training and the replies")
    args = parser.parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    at_least = {"candidates": 1, "refine": 0, "budget_steps": 1, "jobs": 1, "episodes": 2, "held_out_episodes": 1, "seed": 0}
    for name, least in at_least.items():
        value = getattr(args, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, got {value}")
    take_sampling(parser, args)
    take_env_kwargs(parser, args)
    args.shipped = priors.SHIPPED / folder_name(args.env_id)
    args.output = args.output or Path("policies") / folder_name(args.env_id)
    return args


def run(args: argparse.Namespace) -> Choice:
    """Runs the command with its arguments.

    Raises:
        UserError, ModelError, TrainingFailed, gymnasium.error.Error, ValueError: the error, and the way out
    """
    env = make(args.env_id, **args.env_kwargs)
    if not is_readable(env.observation_space):
        raise UserError(
            f"--env-id {args.env_id}: policies are written for observations that are arrays or a Dict of arrays, got "
            f"{without_addresses(str(env.observation_space))}; register the environment with a wrapper of Gymnasium: "
            "FilterObservation leaves out entries, FlattenObservation makes one vector of all"
        )
    if args.select == "return":
        require_trainable(args.candidates + args.refine, args.budget_steps, env)  # before a model is asked
    prompt = read_prompt(args.prompt) if args.prompt else render_prompt(args.env_id, **args.env_kwargs)
    claim_output(args.output, prompt, recordings(args))
    measure(env, random_actions(env.action_space, args.seed), 1, args.seed)  # also refuses environments that no policy can play
    writer = Writer(Overwriting(make_backend(args), args.output), args.sampling, env, args.output, args.seed)
    try:
        choice = write_and_choose(args, prompt, writer)
    except (ModelError, TrainingFailed) as error:
        if writer.metered.ledger.usage:
            error.add_note(f"The replies that came are in {args.output}{how_to_go_on(args)}.")
            if (args.output / "report.html").exists():
                error.add_note("report.html and choice.json there are those of the run before.")
        raise
    env.close()
    return choice


def write_and_choose(args: argparse.Namespace, prompt: str, writer: Writer) -> Choice:
    """Fills the claimed folder.

    Raises:
        UserError: no reply could be used; the folder is filled all the same
        ModelError, TrainingFailed: what went wrong and what would be right
    """
    writer.write([{"role": "user", "content": prompt}], args.candidates)
    if args.refine:
        refine(writer, args)
    write_json(args.output / "provenance.json", provenance(args, prompt, writer, None))
    choice = choose_candidate(
        args.env_id,
        writer.candidates,
        env_kwargs=args.env_kwargs,
        select=args.select,
        budget_steps=args.budget_steps,
        episodes=args.episodes,
        held_out_episodes=args.held_out_episodes,
        seed=args.seed,
        run_dir=args.output / "training",
        jobs=args.jobs,
    )
    facts = provenance(args, prompt, writer, choice)
    write_json(args.output / "provenance.json", facts)
    report = args.output / "report.html"
    names = ("model", "revision", "replies", "sampling", "command", "date", "replayed_from", "replayed", "episodes", "versions")
    shown = {name: facts[name] for name in names if facts.get(name) is not None}
    write_report(report, args.env_id, prompt, writer.candidates, choice, ledger=str(writer.metered.ledger), provenance=shown)
    write_json(args.output / "choice.json", asdict(choice))
    print(f"\n{writer.metered.ledger}\n\nreport: {report}")
    if choice.best is None:
        way_out = "Ask again, for more, or a larger model"
        if writer.lacks_retries:
            way_out = f"The model stopped answering{how_to_go_on(args)}"
        raise UserError(f"no candidate could be used; report.html says why. {way_out}")
    if choice.candidate is not None:
        print(f"prior:  {args.output / f'policy-{choice.candidate}.py'}")
        print(f"use it: {use_in_training(args.env_id, args.env_kwargs, args.output)}")
    return choice


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return exit_status("write_policy", run, parse_args(argv))


if __name__ == "__main__":
    with stopped_by_sigterm():
        sys.exit(main())
