"""The shared parts of the commands that ask a model: options, backend, output folder, exit status."""

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym

from llmwrappers.errors import UserError
from llmwrappers.files import sha256
from llmwrappers.making import accept_older_versions, env_kwargs_of
from local_llm.models.recorded import Recorded
from local_llm.models.reply import Backend, Message, ModelError, Reply, Sampling, count_tokens
from local_llm.replies.extract import policy_hashes
from local_llm.replies.reply_text import StillThinking, Truncated, for_the_user
from local_llm.selection.training import TrainingFailed

MOST_RETRIES = 2
SHIPPED_REPLIES = Path()  # this very object is --replay without a folder
API_KEY = "LLMWRAPPERS_API_KEY"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
# The files of a run that the next run in the same output folder deletes: all but its first prompt and training runs.
MADE = ("prompt-*.txt", "reply-*.md", "policy-*.py", "table*.json", "critical*.py", "entries.json", "trajectories-2.npz")
HASHED = ("policy-*.py", "table*.json", "critical*.py")  # by provenance.json; the first are known from the replies, too
MADE += ("provenance.json", "ledger.json")  # choice.json and report.html stay until there are new ones


def add_model_options(parser: argparse.ArgumentParser, shipped: str) -> None:
    """Adds the options of the model; ``shipped`` says what --replay reads without a folder."""
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--model",
        help="a Hugging Face Hub name, a folder, a .gguf file, or the server's name of the model; if not given, by memory size",
    )
    group.add_argument("--revision", help="a branch, tag or commit of the model")
    group.add_argument("--quantization", choices=("4bit", "8bit"), help="loads the weights in 4 or 8 bits (needs bitsandbytes)")
    group.add_argument(
        "--server", metavar="URL",
        help=f"an OpenAI-compatible server, e.g. http://localhost:11434/v1; if it needs a key, set {API_KEY}",
    )  # fmt: skip
    group.add_argument(
        "--temperature", type=float, default=Sampling.temperature, help="randomness of the replies; 0 makes all the same"
    )
    group.add_argument(
        "--top-p", type=float, default=Sampling.top_p, help="share of the most probable tokens to sample from, in (0, 1]"
    )
    group.add_argument("--max-new-tokens", type=int, default=Sampling.max_new_tokens, help="most tokens of an answer")
    group.add_argument("--thinking", metavar="TOKENS", type=int, default=0, help="most tokens of thinking before the answer")

    group = parser.add_argument_group("recorded replies")
    group.add_argument(
        "--replay", metavar="DIR", nargs="?", const=SHIPPED_REPLIES, type=Path,
        help=f"ask no model: read the replies from this folder, or {shipped}",
    )  # fmt: skip
    group.add_argument(
        "--recording",
        choices=("auto", "record", "off"),
        default="auto",
        help="auto: read recorded replies, ask for the others and record them; record: ask again and overwrite; off: neither",
    )
    group.add_argument(
        "--recordings", metavar="DIR", type=Path, default=CACHE / "llmwrappers" / "replies",
        help="where replies are recorded",
    )  # fmt: skip


def add_env_options(parser: argparse.ArgumentParser, help: str, required: bool) -> None:
    """Adds the options of the environment."""
    parser.add_argument("--env-id", required=required, help=help)
    parser.add_argument(
        "--env-kwargs", metavar="JSON", default="{}", help='arguments of gym.make, as a JSON object: \'{"obs_type": "ram"}\''
    )


def take_env_kwargs(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Reads ``args.env_kwargs``; ends the program if it is no JSON object."""
    try:
        args.env_kwargs = env_kwargs_of(args.env_kwargs)
    except ValueError as error:
        parser.error(str(error))


def env_words(env_id: str, env_kwargs: dict[str, Any]) -> str:
    """Returns the options that name the environment, as one types them."""
    return shlex.join(["--env-id", env_id, *(["--env-kwargs", json.dumps(env_kwargs)] if env_kwargs else [])])


def use_in_training(env_id: str, env_kwargs: dict[str, Any], prior: Path) -> str:
    """Returns the command that trains an agent with a prior.

    Example:
        >>> print(use_in_training("Pendulum-v1", {"g": 1.62}, Path("my policies")))
        llmwrappers train ppo-camel --env-id Pendulum-v1 --env-kwargs '{"g": 1.62}' --prior 'my policies'
    """
    return f"llmwrappers train ppo-camel {env_words(env_id, env_kwargs)} --prior {shlex.quote(str(prior))}"


def use_in_python(env_id: str, env_kwargs: dict[str, Any], prior: Path) -> str:
    """Returns the lines of Python that make an environment whose actions a prior masks.

    Example:
        >>> print(use_in_python("Pendulum-v1", {"g": 1.62}, Path("policy-1.py")))
        from llmwrappers import LLMActionMask
        from llmwrappers.making import make
        <BLANKLINE>
        env = LLMActionMask(make('Pendulum-v1', **{'g': 1.62}), prior='policy-1.py')
    """
    # Not gym.make, which leaves in the text of an observation, that the policy was not written for.
    made = f"make({env_id!r}{f', **{env_kwargs!r}' if env_kwargs else ''})"
    imports = "from llmwrappers import LLMActionMask\nfrom llmwrappers.making import make"
    return f"{imports}\n\nenv = LLMActionMask({made}, prior={str(prior)!r})"


def take_sampling(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Puts the sampling that the options ask for into ``args.sampling``; ends the program where it cannot be."""
    try:
        args.sampling = Sampling(args.temperature, args.top_p, args.max_new_tokens, args.seed, args.thinking)
    except ValueError as error:
        parser.error(str(error))


def recordings(args: argparse.Namespace) -> Path | None:
    """Returns the folder that replies are read from; None if they are not recorded.

    Raises:
        UserError: --replay names no folder, or, alone, ``args.shipped`` is none
    """
    if args.replay is None:
        return args.recordings if args.recording != "off" else None
    folder = args.shipped if args.replay is SHIPPED_REPLIES else args.replay
    if not folder.is_dir():
        raise UserError(
            f"--replay: no folder {folder}" if args.replay is not SHIPPED_REPLIES else
            f"--replay: no replies are shipped for {args.env_id}; name the folder of a recording, --replay DIR"
        )  # fmt: skip
    return folder


def make_backend(args: argparse.Namespace) -> Backend:
    """Returns what answers: a recording, a server or a model on this machine, the last two recorded.

    Raises:
        UserError: an option that has no meaning beside --replay or --server, or see ``recordings``
    """
    local = ("revision", "quantization")  # of a model on this machine
    for option, useless in (("replay", ("server", "model", *local)), ("server", local)):
        for name in useless if getattr(args, option) is not None else ():
            if (value := getattr(args, name)) is not None:
                raise UserError(f"--{name} {value}: of no use beside --{option}; leave one of them out")
    if args.replay is not None:
        folder = recordings(args)
        assert folder is not None
        return Recorded(None, folder, "replay")
    if args.server is not None:
        from local_llm.models.server import Server

        backend: Backend = Server(args.server, args.model, os.environ.get(API_KEY))
    else:
        from local_llm.models.transformers_model import TransformersModel, default_model

        if not args.model:
            print("looking for the model that suits this machine's memory", file=sys.stderr, flush=True)
        model, quantization = (args.model, args.quantization) if args.model else default_model()
        print(f"loading {model}{f' ({quantization})' if quantization else ''}", file=sys.stderr, flush=True)
        backend = TransformersModel(model, args.revision, quantization=args.quantization or quantization)
    return Recorded(backend, args.recordings, args.recording)


def exit_status(name: str, run: Callable[[argparse.Namespace], object], args: argparse.Namespace) -> int:
    """Runs a command; prints its error, if there is one; returns its exit status."""
    accept_older_versions()
    try:
        run(args)
    except (UserError, ModelError, TrainingFailed, gym.error.Error, ValueError, TypeError, ImportError, OSError) as error:
        print(f"{name}: error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: stopped{how_to_go_on(args)}", file=sys.stderr)
        return 130
    return 0


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Makes SIGTERM an exception, so that the model's and the training's processes end, too; ignores a second one."""

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def how_to_go_on(args: argparse.Namespace) -> str:
    """Returns how to continue a command that was stopped."""
    asks_nothing_twice = args.replay is not None or args.recording == "auto"
    return "; the same command continues from there" if asks_nothing_twice else ""


def why_refused(error: Exception, reply: Reply, sampling: Sampling) -> str:
    """Returns the error of a reply for the user; if its length was at its limit, with the options that set the limit.

    Example:
        >>> print(why_refused(StillThinking("..."), Reply("<think>", "length", 9, 700, 1.0), Sampling(max_new_tokens=700)))
        the model was still thinking when its tokens ended; raise --max-new-tokens (now 700)
    """
    if reply.finish_reason != "length" or (reply.text.strip() and not isinstance(error, Truncated)):
        return for_the_user(error)
    doing = "writing" if reply.text.strip() and not isinstance(error, StillThinking) else "thinking"
    budget = f" or --thinking (now {sampling.thinking})" if sampling.thinking else ""
    limit = f"--max-new-tokens (now {sampling.max_new_tokens})"
    return f"the model was still {doing} when its tokens ended; raise {limit}{budget}"


def claim_output(
    folder: Path, prompt: str | None, recorded: Path | None, name: str = "prompt.txt", outputs: str = "policies"
) -> None:
    """Makes the output folder and writes the (first) prompt; refuses a folder that holds something else.

    A prompt that is not known yet (None) is neither compared nor written.

    Raises:
        UserError: the folder cannot be written, is the one of the recorded replies, belongs to another prompt, or has replies
            that are not in the folder ``recorded``, or code or tables of the user's own
    """
    if recorded is not None and recorded.resolve() == folder.resolve():
        raise UserError(f"--output {folder} is where the recorded replies are; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, holds_more = folder / name, any(other.name != name for other in folder.iterdir())
        if holds_more and not path.exists():
            raise UserError(
                f"--output {folder} is not empty, and has no {name}: something else wrote it, or this command with other "
                "arguments; name another folder"
            )
        if prompt is None:
            return
        if holds_more and path.read_bytes() != prompt.encode():
            raise UserError(f"--output {folder} holds the {outputs} of another prompt; name another folder, or delete it")
        if replies := sorted(folder.glob("reply-*.md")):
            known = Recorded(None, recorded).texts() if recorded is not None and recorded.is_dir() else set()
            lost = [reply.name for reply in replies if reply.read_bytes().decode("utf-8", "replace") not in known]
            if lost:
                where = "nothing is recorded" if recorded is None else f"{recorded} has no recording of it"
                raise UserError(f"--output {folder} holds {lost[0]}, and {where}; name another folder")
        is_done = (provenance := folder / "provenance.json").exists()  # an interrupted run has no more than its replies
        written = provenance.read_text("utf-8") if is_done else policy_hashes(replies)
        made = sorted(path for pattern in HASHED[: None if is_done else 1] for path in folder.glob(pattern))
        if own := [path.name for path in made if sha256(path) not in written]:
            what = f"--output {folder} holds {own[0]}, which this command did not write, or which was changed since"
            raise UserError(f"{what}; name another folder, or move the file")
        save_text(path, prompt)
    except OSError as error:
        raise UserError(f"--output {folder} cannot be written: {error.strerror or error}") from None


class Overwriting:
    """Asks a backend; with the first reply, and not before, what an earlier run left in the output folder is deleted.

    The replies among it are recorded, or shipped (see ``claim_output``); the rest is made from them. The first line that a
    command prints says so where replies are read from a recording.
    """

    def __init__(self, backend: Backend, folder: Path, prompt: str = "prompt.txt") -> None:
        self.backend, self.model, self.revision = backend, backend.model, backend.revision
        self.old = {path for pattern in MADE for path in folder.glob(pattern)} - {folder / prompt}
        self.is_said = False
        if isinstance(backend, Recorded) and backend.mode == "replay":
            self._say(backend, "no model is asked")

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields the backend's replies."""
        for reply in self.backend.ask(messages, n, sampling, schema, first):
            while self.old:
                self.old.pop().unlink(missing_ok=True)
            if reply.replayed and isinstance(self.backend, Recorded):
                self._say(self.backend, "only what is missing is asked for (--recording record asks anew)")
            yield reply

    def count_tokens(self, text: str) -> int | None:
        """Returns the backend's count."""
        return count_tokens(self.backend, text)

    def _say(self, recorded: Recorded, what: str) -> None:
        if not self.is_said:
            self.is_said = True
            print(f"replies are read from the recordings in {recorded.name} (model: {recorded.model}); {what}", flush=True)


def read_prompt(path: Path) -> str:
    """Returns the text of --prompt."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--prompt {path} must be a text file in UTF-8: {error}") from None
    if not text.strip():
        raise UserError(f"--prompt {path} is empty; without --prompt one is rendered from the environment's documentation")
    return text


def save_text(path: Path, text: str) -> None:
    """Writes a text to the byte: as UTF-8, with its own line ends."""
    path.write_text(text, "utf-8", newline="")


def command_line(program: str, argv: list[str]) -> str:
    """Returns what to type to run the command again."""
    return shlex.join(["python", "-m", program, *argv])


def circumstances(backend: Backend, sampling: Sampling, command: str) -> dict[str, Any]:
    """Returns what one needs to know of a run to trust and to repeat it: model, sampling, command, date, versions.

    Of replies that were replayed: whence and when (see ``Recorded.made``).
    """
    versions = {"python": platform.python_version()}
    for package in ("llmwrappers", "gymnasium", "numpy", "mujoco", "torch", "transformers"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    asked: Any = backend
    while not isinstance(asked, Recorded) and hasattr(asked, "backend"):
        asked = asked.backend
    made = asked.made() if isinstance(asked, Recorded) else {"date": datetime.date.today().isoformat()}
    return {
        "model": backend.model,
        "revision": backend.revision,
        "sampling": asdict(sampling),
        "command": command,
        **made,
        "versions": versions,
    }
