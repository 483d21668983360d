"""Policies that an LLM wrote, each shipped with its prompt and the verbatim reply that it was taken from.

There is one folder for each environment: ``prompt.txt`` (all that the LLM was given), ``reply-N.md`` (one reply, unedited),
``policy-N.py`` (the code block of that reply, unedited) and ``provenance.json`` (who wrote it, which environments it
serves, the hashes, the default candidate and why). ``python -m llmwrappers.priors`` measures every candidate.
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym

from llmwrappers.containment.errors import PolicyRejected
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.containment.program import Program, makes_objects
from llmwrappers.files import sha256
from llmwrappers.making import alike
from llmwrappers.priors.contract import PriorObject, PriorPolicy
from llmwrappers.priors.trusted_imports import let_import
from llmwrappers.priors.written_for import require_written_for

SHIPPED = (Path(__file__).parent / "shipped").resolve()
TRUSTED = "trusted:"


class NoPrior(ValueError):
    """There is no prior by that name or path."""


def load_prior(
    prior: str | os.PathLike[str] | PriorPolicy | type,
    candidate: int | None = None,
    env: gym.Env | None = None,
    prior_of_another_env: bool = False,
    prior_input: str | None = None,
) -> PriorPolicy:
    """Returns the prior policy that a name, a path to a Python file or a callable stands for.

    A name is the id of an environment with a shipped prior ("Ant-v4"; the same code serves "Ant-v5"), and ``candidate``
    chooses among the policies shipped for it. A path names a Python file that defines ``policy(obs)`` or a class ``Policy``,
    or a folder that ``local_llm.write_policy`` wrote, with its own candidates.

    A shipped policy runs in this process. So does ``"trusted:path/to/policy.py"``, with your rights, for code that you have
    read. All other code runs in a locked process, where it can compute and do nothing else (see ContainedPolicy). A callable
    is returned unchanged; a class, or an object with ``act``, is made callable. A prior with state has a ``reset()``,
    which begins an episode.

    Args:
        prior: a name, a path (a string that ends in .py is always a path), a callable, or a class
        candidate: which policy of a name or a folder, counted from 1; the default of ``provenance.json`` if None
        env: the environment to play in; a prior that was written for another one is refused
        prior_of_another_env: if true, such a prior is allowed
        prior_input: what the prior is handed, if not the observation (see LLMActionMask)

    Raises:
        NoPrior: a string is neither a shipped name nor a file; this is a ValueError, too
        ValueError: an unknown ``candidate``, a ``candidate`` with a path or a callable, a prior that was written for another
            environment
        PolicyRejected: a file has no policy, or needs a module that a policy cannot have; this is a ValueError, too
        FileNotFoundError: the file of a path does not exist
        TypeError: ``prior`` is neither a string, a path, a callable, nor an object that acts

    Example:
        >>> import numpy as np
        >>> policy = load_prior("Hopper-v4")
        >>> policy(np.zeros(11)).shape
        (3,)
        >>> load_prior("Hopper-v4", env=gym.make("Walker2d-v4"))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: the prior 'Hopper-v4' was written for Hopper-v4, Hopper-v5, not for Walker2d-v4; ...
    """
    if folder := _folder(prior):
        _candidates(folder)  # refuses a broken provenance
        if env is not None and not prior_of_another_env:
            require_written_for(folder, env, prior_input, str(prior))
        return _load_file(folder / f"policy-{_chosen(folder, candidate, prior)}.py")
    if candidate is not None:
        raise ValueError(
            f"candidate chooses among the policies of a shipped prior or of a folder, got candidate={candidate!r} with "
            f"prior={prior!r}"
        )
    if not isinstance(prior, str | os.PathLike):
        acts = makes_objects(prior) or not callable(prior) or callable(getattr(prior, "act", None))
        return PriorObject(prior) if acts else prior
    is_trusted = isinstance(prior, str) and prior.startswith(TRUSTED)
    path = Path(str(prior).removeprefix(TRUSTED))
    if not path.is_file():
        if isinstance(prior, str) and path.suffix != ".py":
            raise _no_prior(path, prior)
        raise FileNotFoundError(f"no file at {str(path)!r}; prior must be a Python file that defines policy(obs)")
    return _load_trusted(path) if is_trusted else _load_file(path)


def load_candidates(
    prior: str | os.PathLike[str],
    env: gym.Env | None = None,
    prior_of_another_env: bool = False,
    prior_input: str | None = None,
) -> dict[str, PriorPolicy]:
    """Returns all candidates of a name or a folder, by name, good and bad.

    A name is the id of an environment with shipped replies. A folder is one that ``local_llm.write_policy`` wrote, or any
    folder of Python files with a policy each; these are named after their files. A file without a policy is left out, with a
    warning. The other arguments are those of ``load_prior``.

    Raises:
        NoPrior: there is neither a shipped name nor a folder, or the folder has no Python file with a policy
        ValueError: the prior was written for another environment than ``env``; NoPrior is a ValueError, too

    Example:
        >>> list(load_candidates("Hopper-v4"))
        ['policy-1', 'policy-2', 'policy-3', 'policy-4', 'policy-5']
    """
    folder = _folder(prior) or Path(prior)
    if (folder / "provenance.json").is_file():
        paths = [folder / f"policy-{number}.py" for number in _candidates(folder)[0]]
        if env is not None and not prior_of_another_env:
            require_written_for(folder, env, prior_input, str(prior))
    else:
        paths = sorted(folder.glob("*.py"))
    candidates = {}
    for path in paths:
        try:
            candidates[path.stem] = _load_file(path)
        except PolicyRejected as rejected:
            warnings.warn(f"left out: {rejected}", stacklevel=2)
    if not candidates:
        raise _no_prior(folder, str(prior))
    return candidates


def _no_prior(path: Path, name: str) -> NoPrior:
    if path.is_file():
        return NoPrior(
            f"{name!r} is one file, candidates are a folder: give its folder, or load it with load_prior (--prior FILE)"
        )
    if files := sorted(path.glob("*.py")):
        held = ", ".join(file.name for file in files)
        return NoPrior(f"no provenance.json in the folder {name!r}, which holds {held}: give a file, {str(files[0])!r}")
    if path.is_dir():
        return NoPrior(
            f"no prior in the folder {name!r}: write-policy leaves policy-1.py, ... and provenance.json; else any NAME.py"
        )
    if name.rpartition(":")[2] in gym.registry:
        return NoPrior(
            f"no prior is shipped for {name}: have a model write one (llmwrappers write-policy --env-id {name}), or give a "
            "file that defines policy(obs), my_policy.py"
        )
    return NoPrior(f"no prior named {name!r}: it is no file, and none is shipped by that name{alike(name, _folders())}")


def shipped_priors() -> list[str]:
    """Returns the ids of the environments that a shipped prior serves by default, sorted.

    Example:
        >>> shipped_priors()[:4]
        ['Ant-v4', 'Ant-v5', 'BipedalWalker-v3', 'HalfCheetah-v4']
    """
    return sorted(env_id for env_id, folder in _folders().items() if _candidates(folder)[1] is not None)


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


def _folder(prior: Any) -> Path | None:
    """The folder of a name or a path."""
    folder = _folders().get(prior) if isinstance(prior, str) else None
    if folder is None and isinstance(prior, str | os.PathLike) and (Path(prior) / "provenance.json").is_file():
        return Path(prior)
    return folder


def _chosen(folder: Path, candidate: int | None, prior: Any) -> int:
    candidates, default = _candidates(folder)
    if candidate is None and default is None:
        raise ValueError(
            f"no candidate of {str(prior)!r} is its default: name one with candidate, of {candidates} (ppo_camel.py --prior "
            "auto chooses among them)"
        )
    chosen = default if candidate is None else candidate
    if chosen not in candidates:
        raise ValueError(f"candidate must be one of {candidates} for the prior {prior!r}, got {candidate!r}")
    return chosen


def _is_as_shipped(path: Path) -> bool:
    """Whether a file is shipped and unchanged: then its code is the library's own."""
    if not path.resolve().is_relative_to(SHIPPED):
        return False
    facts = json.loads((path.parent / "provenance.json").read_text("utf-8"))["candidates"]
    return any(hashes.get("policy_sha256") == sha256(path) for hashes in facts.values())


def _load_file(path: Path) -> PriorPolicy:
    try:
        source = path.read_text("utf-8-sig")
        return Program(source, str(path)) if _is_as_shipped(path) else ContainedPolicy(source)
    except UnicodeDecodeError as error:
        raise PolicyRejected(
            None,
            f"{str(path)!r} is not text in UTF-8, so it is no Python file: {error}. A Python file may load a saved model and "
            "play it in policy(obs): trusted:my_policy.py",
        ) from None
    except PolicyRejected as rejected:
        raise rejected.in_file(path) from None


def _load_trusted(path: Path) -> PriorPolicy:
    try:
        let_import(path)
        return Program(path.read_bytes(), str(path))
    except PolicyRejected as rejected:
        raise rejected.in_file(path, is_trusted=True) from rejected
