"""Candidate: a policy that a model wrote, and the replies that were refused before."""

from dataclasses import dataclass, field
from pathlib import Path

from llmwrappers.priors import PriorPolicy


@dataclass
class Refused:
    """A reply that could not be used, the code in it ("" if there is none), and why."""

    reply: str
    source: str
    why: str


@dataclass
class Candidate:
    """A policy that a model wrote: its code, its file, the function or why there is none, and the replies refused before."""

    number: int
    source: str
    path: Path
    policy: PriorPolicy | None = None
    rejected: str = ""
    refused: list[Refused] = field(default_factory=list)
