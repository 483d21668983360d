"""Policies that an LLM wrote, shipped with the prompt and the verbatim reply that each was taken from.

One folder an environment: ``prompt.txt`` (everything the LLM was given), ``reply-N.md`` (one reply, unedited),
``policy-N.py`` (the code block of that reply, unedited) and ``provenance.json`` (who wrote it, which environments it
serves, the hashes, the default candidate and why). ``python -m llmwrappers.priors`` measures every candidate.
"""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmwrappers.sandbox.generated_policy import GeneratedPolicy
from llmwrappers.sandbox.language import PolicyRejected

PriorPolicy = Callable[[Any], Any]
"""An observation (raw, usually an array) -> an action in native units; on a Discrete space, the allowed actions."""


SHIPPED = Path(__file__).parent / "shipped"
TRUSTED = "trusted:"


def load_prior(
    prior: str | os.PathLike[str] | PriorPolicy,
    candidate: int | None = None,
    isolation: str = "inprocess",
    action_dim: int | tuple[int, ...] | None = None,
) -> PriorPolicy:
    """Returns the prior policy that a name, a path to a Python file or a callable stands for.

    A name is the id of an environment with a shipped prior ("Ant-v4"; the same code serves "Ant-v5"), and ``candidate``
    chooses among the policies shipped for it. A path names a Python file that defines ``policy``, or a folder that
    ``local_llm.write_policy`` wrote, with candidates of its own. All are played by a
    GeneratedPolicy, which refuses code that could do anything but compute. For code of your own that does more, write
    ``"trusted:path/to/policy.py"``: it is executed as it is, with your rights. A callable is returned as it is.

    Args:
        prior: a name, a path (a string that ends in .py is always a path) or a callable
        candidate: which policy of a name or a folder, counted from 1; the default of ``provenance.json`` if None
        isolation: "inprocess" or "process": where the code of a name or a path is played (see GeneratedPolicy)
        action_dim: how many numbers an action has, or its shape; "process" needs it

    Raises:
        ValueError: a string that is neither a shipped name nor a file, an unknown ``candidate``, a ``candidate`` with
            a path or a callable, an unknown ``isolation``, "process" with a trusted file or a callable, a trusted file that
            cannot be executed or does not define a callable ``policy``
        PolicyRejected: a file whose code is not written in the language of policies; a ValueError, too
        FileNotFoundError: a path to a file that does not exist
        TypeError: ``prior`` is neither a string, a path nor a callable

    Example:
        >>> import numpy as np
        >>> policy = load_prior("Hopper-v4")
        >>> policy(np.zeros(11)).shape
        (3,)
    """
    if isolation not in ("inprocess", "process"):
        raise ValueError(f"isolation must be 'inprocess' or 'process', got {isolation!r}")
    folder = _folders().get(prior) if isinstance(prior, str) else None
    if folder is None and isinstance(prior, str | os.PathLike) and (Path(prior) / "provenance.json").is_file():
        folder = Path(prior)
    if folder is not None:
        candidates, default = _candidates(folder)
        if candidate is None and default is None:
            raise ValueError(f"none of the candidates of {str(prior)!r} was chosen; name one with candidate, of {candidates}")
        chosen = default if candidate is None else candidate
        if chosen not in candidates:
            raise ValueError(f"candidate must be one of {candidates} for the prior {prior!r}, got {candidate!r}")
        return _load_file(folder / f"policy-{chosen}.py", isolation, action_dim)
    is_trusted = isinstance(prior, str) and prior.startswith(TRUSTED)
    path = Path(str(prior).removeprefix(TRUSTED)) if isinstance(prior, str | os.PathLike) else None
    if path is not None and not path.is_file():
        if isinstance(prior, str) and path.suffix != ".py":
            raise ValueError(
                f"no prior named {prior!r}: it is not a file, and the shipped ones are {', '.join(shipped_priors())}"
            )
        raise FileNotFoundError(f"no file at {str(path)!r}; prior must be a Python file that defines policy(obs)")
    if path is None and not callable(prior):
        raise TypeError(
            f"prior must be the name of a shipped prior, a path to a Python file or a callable, got {prior!r} "
            f"of type {type(prior).__name__}"
        )
    if candidate is not None:
        raise ValueError(
            f"candidate chooses among the policies of a shipped prior or of a folder, got candidate={candidate!r} with "
            f"prior={prior!r}"
        )
    if isolation == "process" and (is_trusted or callable(prior)):
        raise ValueError(f"isolation='process' is for code from a name or a file that is checked, got prior={prior!r}")
    if not isinstance(prior, str | os.PathLike):
        return prior
    assert path is not None
    return _execute_file(path) if is_trusted else _load_file(path, isolation, action_dim)


def load_candidates(
    prior: str | os.PathLike[str], isolation: str = "inprocess", action_dim: int | tuple[int, ...] | None = None
) -> dict[str, PriorPolicy]:
    """Returns all the candidates that a name or a folder holds, by name, good and bad.

    A name is the id of an environment with shipped replies; a folder is one that ``local_llm.write_policy`` wrote, or any that
    holds Python files with a ``policy`` each, which are named after their files. A file whose code is refused is warned of, and
    left out. The other arguments are those of ``load_prior``.

    Raises:
        ValueError: neither a shipped name nor a folder, or a folder without a Python file that is not refused

    Example:
        >>> list(load_candidates("Hopper-v4"))
        ['policy-1', 'policy-2', 'policy-3', 'policy-4', 'policy-5']
    """
    folder = (_folders().get(prior) if isinstance(prior, str) else None) or Path(prior)
    if (folder / "provenance.json").is_file():
        paths = [folder / f"policy-{number}.py" for number in _candidates(folder)[0]]
    else:
        paths = sorted(folder.glob("*.py"))
    candidates = {}
    for path in paths:
        try:
            candidates[path.stem] = _load_file(path, isolation, action_dim)
        except PolicyRejected as rejected:
            warnings.warn(f"left out: {rejected}", stacklevel=2)
    if not candidates:
        served = ", ".join(sorted(_folders()))
        raise ValueError(
            f"no candidates at {str(prior)!r}: it is no folder with policies, and replies are shipped for {served}"
        )
    return candidates


def shipped_priors() -> list[str]:
    """Returns the ids of the environments that a shipped prior serves by default, sorted.

    Example:
        >>> shipped_priors()[:4]
        ['Ant-v4', 'Ant-v5', 'BipedalWalker-v3', 'HalfCheetah-v4']
    """
    return sorted(env_id for env_id, folder in _folders().items() if _candidates(folder)[1] is not None)


def served_by(prior: str | os.PathLike[str]) -> list[str] | None:
    """Returns the ids of the environments that a prior folder was written for; None if it is no such folder, or does not say.

    Example:
        >>> served_by(SHIPPED / "Ant-v4"), served_by("Ant-v4")
        (['Ant-v4', 'Ant-v5'], None)
    """
    path = Path(prior) / "provenance.json"
    return json.loads(path.read_text("utf-8")).get("serves") if path.is_file() else None


def _folders() -> dict[str, Path]:
    """Maps each served environment id to its folder."""
    return {
        env_id: path.parent
        for path in SHIPPED.glob("*/provenance.json")
        for env_id in json.loads(path.read_text("utf-8"))["serves"]
    }


def _candidates(folder: Path) -> tuple[list[int], int | None]:
    """Returns the numbers of a folder's candidates that have a policy, and the default one, if one was chosen."""
    path = folder / "provenance.json"
    try:
        provenance = json.loads(path.read_text("utf-8"))
        numbers = (int(number) for number, facts in provenance["candidates"].items() if "policy_sha256" in facts)
        return sorted(numbers), provenance["default"]["candidate"]
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{str(path)!r} must name 'candidates' and a 'default', as local_llm.write_policy writes it, got "
            f"{type(error).__name__}: {error}; without this file a folder is its Python files"
        ) from None


def _load_file(path: Path, isolation: str, action_dim: int | tuple[int, ...] | None) -> PriorPolicy:
    try:
        return GeneratedPolicy(path.read_text("utf-8"), action_dim, isolation)
    except UnicodeDecodeError as error:
        raise PolicyRejected(None, f"{str(path)!r} is not text in UTF-8: {error}") from None
    except PolicyRejected as rejected:
        raise PolicyRejected(
            rejected.line,
            f"{rejected.reason} (in {str(path)!r}; if you wrote this file and trust it, 'trusted:{path}' executes it as it is)",
        ) from None


def _execute_file(path: Path) -> PriorPolicy:
    try:
        # dont_inherit: this module's __future__ imports must never change what the file means.
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
        exec(code, namespace)
    except Exception as error:
        raise ValueError(f"cannot execute {str(path)!r}: {type(error).__name__}: {error}") from error
    policy = namespace.get("policy")
    if not callable(policy):
        found = "no policy" if policy is None else f"policy = {policy!r}"
        raise ValueError(f"{str(path)!r} must define a function policy(obs), found {found}")
    return policy
