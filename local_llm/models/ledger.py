"""Ledger: what asking has cost; Metered: asks a backend and keeps the ledger."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from local_llm.models.recorded import write_json
from local_llm.models.reply import Backend, Message, Reply, Sampling


@dataclass
class Usage:
    """Sums over calls, one per reply; ``unmetered`` counts the replies without a token count."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    seconds: float = 0.0
    unmetered: int = 0


@dataclass
class Ledger:
    """Counts calls, tokens and seconds by model, and replayed replies separately, because they cost nothing now.

    Example:
        >>> ledger = Ledger()
        >>> ledger.add("Qwen/Qwen3.5-9B", [Reply("...", "stop", 1200, 300, 6.0), Reply("...", "length", 1200, 400, 8.0)])
        >>> ledger.add("Qwen/Qwen3.5-9B", [Reply("...", "stop", None, None, 5.0, replayed=True)])
        >>> print(ledger)
        model                       calls  prompt tokens  reply tokens  seconds
        Qwen/Qwen3.5-9B                 2           2400           700     14.0
        Qwen/Qwen3.5-9B (replayed)      1             0+            0+      5.0
    """

    usage: dict[tuple[str, bool], Usage] = field(default_factory=dict)  # (model, whether replayed) -> sums

    def add(self, model: str, replies: Iterable[Reply]) -> None:
        """Adds replies of one model; replayed replies have their own sums."""
        for reply in replies:
            sums = self.usage.setdefault((model, reply.replayed), Usage())
            sums.calls += 1
            sums.prompt_tokens += reply.prompt_tokens or 0
            sums.reply_tokens += reply.reply_tokens or 0
            sums.seconds += reply.seconds
            sums.unmetered += reply.prompt_tokens is None or reply.reply_tokens is None

    def __str__(self) -> str:
        names = [f"{model} (replayed)" if replayed else model for model, replayed in self.usage]
        width = max(map(len, ["model", *names]))
        lines = [f"{'model':<{width}}{'calls':>7}{'prompt tokens':>15}{'reply tokens':>14}{'seconds':>9}"]
        for name, sums in zip(names, self.usage.values(), strict=True):
            more = "+" if sums.unmetered else ""
            prompt, reply = f"{sums.prompt_tokens}{more}", f"{sums.reply_tokens}{more}"
            lines.append(f"{name:<{width}}{sums.calls:>7}{prompt:>15}{reply:>14}{sums.seconds:>9.1f}")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the sums as JSON, all or nothing; raises OSError if it cannot."""
        rows = [{"model": model, "replayed": replayed, **asdict(sums)} for (model, replayed), sums in self.usage.items()]
        write_json(Path(path), rows)


class Metered:
    """Asks a backend and saves the ledger with every reply.

    If the same messages are asked again (after two replies that were cut off, for example), their series of replies continues:
    its first replies would be the same again.
    """

    def __init__(self, backend: Backend, path: Path) -> None:
        self.backend, self.path, self.ledger = backend, path, Ledger()
        self._asked: list[tuple[list[Message], dict | None]] = []  # one for every reply

    def ask(self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None) -> Iterator[Reply]:
        """Yields the next n replies to these messages.

        Raises:
            ModelError: the backend's
        """
        question = (messages, schema)
        for reply in self.backend.ask(messages, n, sampling, schema, self._asked.count(question)):
            self._asked.append(question)
            self.ledger.add(self.backend.model, [reply])
            self.ledger.save(self.path)
            yield reply
