"""What the commands that ask a model share: its options, what answers, the output folder, and what to know of a run."""

import argparse
import datetime
import hashlib
import importlib.metadata
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from local_llm.recorded import Recorded
from local_llm.reply import Backend, Sampling

MOST_RETRIES = 2


class UserError(Exception):
    """What the user gave cannot work; the message says why and what would."""


def add_model_options(parser: argparse.ArgumentParser, shipped: str) -> None:
    """Adds the options that say what answers, and how; ``shipped`` is what --replay reads without a folder."""
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--model", help="a name on the Hugging Face Hub, a folder, or a server's name for it; by the memory found if not given"
    )
    group.add_argument("--revision", help="a branch, tag or commit of the model")
    group.add_argument("--quantization", choices=("4bit", "8bit"), help="needs bitsandbytes")
    group.add_argument("--server", metavar="URL", help="an OpenAI-compatible server, e.g. http://localhost:11434/v1")
    group.add_argument("--temperature", type=float, default=Sampling.temperature, help="0 makes all replies alike")
    group.add_argument("--top-p", type=float, default=Sampling.top_p, help="in (0, 1]")
    group.add_argument("--max-new-tokens", type=int, default=Sampling.max_new_tokens, help="of an answer")
    group.add_argument("--thinking", metavar="TOKENS", type=int, default=0, help="budget for thinking before the answer")

    group = parser.add_argument_group("recorded replies")
    group.add_argument(
        "--replay", metavar="DIR", nargs="?", const=Path(), type=Path,
        help=f"ask nothing: replies from this folder, or {shipped}",
    )  # fmt: skip
    group.add_argument("--recording", choices=("auto", "record", "off"), default="auto", help="auto asks nothing twice")
    group.add_argument(
        "--recordings", metavar="DIR", type=Path, default=Path.home() / ".cache" / "llmwrappers" / "replies",
        help="where replies are recorded",
    )  # fmt: skip


def take_sampling(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Puts the sampling that the options ask for into ``args.sampling``; ends the program where it cannot be."""
    try:
        args.sampling = Sampling(args.temperature, args.top_p, args.max_new_tokens, args.seed, args.thinking)
    except ValueError as error:
        parser.error(str(error))


def make_backend(args: argparse.Namespace) -> Backend:
    """Returns what answers: a recording, a server or a model on this machine, the last two recorded.

    Raises:
        UserError: --replay names no folder, or, alone, ``args.shipped`` is none
    """
    if args.replay is not None:
        folder = args.replay if args.replay != Path() else args.shipped
        if not folder.is_dir():
            raise UserError(
                f"--replay: no folder {folder}" if args.replay != Path() else
                f"--replay: no replies are shipped for {args.env_id}; name the folder of a recording, --replay DIR"
            )  # fmt: skip
        return Recorded(None, folder, "replay")
    if args.server:
        from local_llm.server import Server

        backend: Backend = Server(args.server, args.model)
    else:
        from local_llm.transformers_model import TransformersModel, default_model

        model, quantization = (args.model, args.quantization) if args.model else default_model()
        print(f"loading {model}{f' ({quantization})' if quantization else ''}", flush=True)
        backend = TransformersModel(model, args.revision, quantization=args.quantization or quantization)
    return Recorded(backend, args.recordings, args.recording)


def claim_output(folder: Path, prompt: str, recorded: bool, name: str = "prompt.txt", outputs: str = "policies") -> None:
    """Makes the output folder and writes the (first) prompt; refuses a folder that holds something else.

    Raises:
        UserError: it cannot be written, belongs to another prompt, or holds replies that are not ``recorded``
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        if path.exists() and path.read_text("utf-8") != prompt:
            raise UserError(f"--output {folder} holds the {outputs} of another prompt; name another folder, or delete it")
        if not path.exists() and any(folder.iterdir()):
            raise UserError(f"--output {folder} is not empty, and not an output of this command; name another folder")
        if not recorded and any(folder.glob("reply-*.md")):
            raise UserError(f"--output {folder} holds replies; with --recording off name another folder")
        save_text(path, prompt)
        made = (
            "prompt-*.txt",
            "reply-*.md",
            "policy-*.py",
            "table*.json",
            "critical*.py",
            "entries.json",
            "trajectories-2.npz",
        )
        for pattern in made:
            for old in folder.glob(pattern):
                if old != path:
                    old.unlink()  # the replies are recorded, or shipped; the rest is made from them
    except OSError as error:
        raise UserError(f"--output {folder} cannot be written: {error.strerror or error}") from None


def require_other_folder(output: Path, replayed: Path) -> None:
    """Raises a UserError if the replies that are to be replayed lie in the output folder, which ``claim_output`` empties."""
    if replayed.resolve() == output.resolve():
        raise UserError(f"--output {output} is what --replay reads; name another folder")


def save_text(path: Path, text: str) -> None:
    """Writes a text to the byte: as UTF-8, with its own line ends."""
    path.write_text(text, "utf-8", newline="")


def sha256(path: Path) -> str:
    """Returns the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def circumstances(backend: Backend, sampling: Sampling, command: str) -> dict[str, Any]:
    """Returns what one needs to know of a run to trust and to repeat it: model, sampling, command, date, versions."""
    versions = {"python": platform.python_version()}
    for package in ("llmwrappers", "gymnasium", "numpy", "mujoco", "torch", "transformers"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "model": backend.model,
        "revision": backend.revision,
        "sampling": asdict(sampling),
        "command": command,
        "date": datetime.date.today().isoformat(),
        "versions": versions,
    }
