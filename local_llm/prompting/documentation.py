"""What a prompt shows of an environment's documentation, and of its source where the documentation leaves it to that.

It is the docstring of the environment's class. Where that does not speak of both observations and actions, the source of the
class and of its bases follows, without Gymnasium's own bases and without what renders; then that of the objects of its package
which it holds. Where only a base has a docstring, the source of the classes below it follows; of a wrapper without one, too.
"""

import ast
import contextlib
import dataclasses
import enum
import inspect
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium import wrappers
from gymnasium.envs.registration import load_env_creator, parse_env_id
from gymnasium.utils import RecordConstructorArgs

from local_llm.prompting.environment_facts import of_dm_control
from local_llm.prompting.wording import arguments_words

# Sections of a docstring that are no help to a policy.
LEFT_OUT = ("Arguments", "Version History", "References", "Credits")
# Wrappers that change nothing that a policy would have to know.
PLAIN = (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker, wrappers.TimeLimit, wrappers.RecordEpisodeStatistics)
# Modules whose classes are no particular environment.
OF_GYMNASIUM = ("gymnasium.core", "gymnasium.utils", "gymnasium.envs.mujoco.mujoco_env", "gymnasium.experimental")
# Of source code: the longest of a single environment that was met, and some six thousand tokens.
MOST_CHARACTERS = 24_000
CUT = "\n# The rest is too long to be shown."


def documentation(env: gym.Env, left_out: list[str], with_source: bool = True) -> str:
    """Returns what is known of an environment: docstring, source and wrappers, without what is no help to a policy.

    Gymnasium documents the versions of an environment together, in the class of the newest: where the class has no
    docstring of its own, the newest version that has one speaks for it; then the bases, the module, and what it adapts.

    Args:
        left_out: headings of sections that do not hold
        with_source: whether to show source where the docstring does not speak of both observations and actions

    Example:
        >>> print(documentation(gym.make("CartPole-v1"), [])[:14])
        ## Description
    """
    adapted = of_dm_control(env)  # the adapter's class speaks of itself
    text = _words(env, left_out, with_source) if adapted is None else _task_words(adapted.task, adapted.physics)
    return text + _wrappers(env)


def _words(env: gym.Env, left_out: list[str], with_source: bool) -> str:
    layers = list(_adapted(env.unwrapped)) if with_source else [env.unwrapped]
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    docstrings = [_docstring(type(layer), name if layer is env.unwrapped else None) for layer in layers]
    text = "\n\n".join(_without_sections(docstring, left_out) for docstring in docstrings if docstring)
    speaks = all(re.search(word, text, re.IGNORECASE) for word in (r"\bobs(erv|\b|_)", r"\baction"))
    changing = [kind for layer in layers for kind in _changing(layer)]
    source = "" if not with_source else _listing(changing, text) if speaks else _source_of(layers, text)
    if with_source and not (text or source):
        warnings.warn(
            f"{name} has neither documentation nor source that can be read, so the prompt says no more than its spaces; "
            "write a docstring for its class",
            stacklevel=2,
        )
    text = text or "This environment has no documentation.\n"
    heading = "Its source, which may change what is said above" if speaks else "Its source"
    return f"{text.rstrip()}\n\n{heading}:\n\n```python\n{source}\n```\n" if source else text


def _adapted(own: Any) -> Iterator[Any]:
    """An environment, and those that it makes Gymnasium's, each held by the one before."""
    seen = []
    while own is not None and own not in seen:
        yield own
        seen.append(own)
        held = [value.unwrapped for value in vars(own).values() if _is_environment(value)]
        own = held[0] if len(held) == 1 else None


def _is_environment(value: Any) -> bool:
    return (
        not isinstance(value, type)
        and all(hasattr(value, name) for name in ("reset", "step", "unwrapped"))
        and hasattr(value, "__dict__")
    )


def _classes(kind: type) -> list[type]:
    """A class and its bases, but for those that are no particular environment."""
    bases = [base for base in kind.__mro__ if not base.__module__.startswith(OF_GYMNASIUM)]
    return [base for base in bases if base.__module__ not in ("builtins", "typing", "abc")]


def _docstring(kind: type, env_id: str | None) -> str | None:
    bases = _classes(kind)
    newest = _newest_docstring(env_id) if env_id else None
    modules = (sys.modules[base.__module__].__doc__ for base in bases if base.__module__ in sys.modules)
    return next(filter(None, (kind.__doc__, newest, *(base.__doc__ for base in bases), *modules)), None)


def _changing(own: Any) -> list[type]:
    """The classes without a docstring below the base whose docstring speaks for them, if they define anything of their own."""
    kinds = _classes(type(own))
    documented = next((i for i, kind in enumerate(kinds) if kind.__doc__ or kind.__module__.startswith("gymnasium.")), 0)
    return [kind for kind in kinds[:documented] if any(n == "__init__" or n[:2] != "__" for n in vars(kind))]


def _without_sections(text: str, left_out: list[str]) -> str:
    sections = re.split(r"^(?=## )", re.sub(r"<!--.*?-->", "", inspect.cleandoc(text), flags=re.DOTALL), flags=re.MULTILINE)
    headings = {f"## {name}" for name in (*LEFT_OUT, *left_out)}
    return "".join(section for section in sections if section.partition("\n")[0].strip() not in headings)


def _source_of(layers: list[Any], documented: str) -> str:
    """Returns the source of environments, and of what they hold of their own package, as far as there is room."""
    classes = [kind for layer in layers for kind in _classes(type(layer))]
    listing = _listing(classes, documented)
    packages = [_package(type(layer)) for layer in layers]
    for kind in {type(value): None for layer in layers for value in vars(layer).values()}:
        if kind not in classes and _package(kind) in packages:
            longer = _listing([*classes, kind], documented)
            if not longer.endswith(CUT):
                classes, listing = [*classes, kind], longer
    return listing


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _listing(classes: list[type], documented: str) -> str:
    """Returns the source of classes, as far as it can be read, and what it uses of their modules: numbers, data, functions.

    Data are enumerations, and dataclasses of defaults, of the same package: codes of actions and rewards may stand there.
    """
    sources, numbers, data, functions = [], {}, {}, {}
    for kind in classes:
        with contextlib.suppress(OSError, TypeError, SyntaxError):  # it cannot be read
            sources.append(_source(kind, documented))
            held = vars(sys.modules[kind.__module__])
            numbers |= {name: value for name, value in held.items() if type(value) in (int, float)}
            data |= {name: value for name, value in held.items() if _is_data(value, kind)}
            functions |= {n: f for n, f in held.items() if inspect.isfunction(f) and f.__module__ == kind.__module__}
    code = "\n\n".join(sources)
    for name, function in functions.items():
        if re.search(rf"\b{name}\b", code):
            with contextlib.suppress(OSError):
                sources.append(inspect.getsource(function).rstrip())
    code = "\n\n".join(sources)
    named = []
    for name, value in data.items():
        if re.search(rf"\b{name}\b", code):
            with contextlib.suppress(OSError):
                named.append(inspect.getsource(value).rstrip())
    used = [f"{name} = {value}" for name, value in numbers.items() if re.search(rf"\b{name}\b", code)]
    listing = "\n\n".join(["\n".join(used), *named, code]).strip()
    if len(listing) > MOST_CHARACTERS:
        listing = listing[:MOST_CHARACTERS].rpartition("\n")[0] + CUT
    return listing


def _is_data(value: Any, user: type) -> bool:
    if not inspect.isclass(value) or _package(value) != _package(user):
        return False
    if dataclasses.is_dataclass(value):
        return all(field.default is not dataclasses.MISSING for field in dataclasses.fields(value))
    return issubclass(value, enum.Enum)


def _source(kind: type, documented: str) -> str:
    """Returns the source of a class without the methods that render, and without a docstring that is shown already."""
    source = textwrap.dedent(inspect.getsource(kind))
    definition = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    dropped: list[ast.stmt] = [n for n in definition.body if isinstance(n, ast.FunctionDef) and "render" in n.name]
    if (docstring := ast.get_docstring(definition)) and docstring in documented:
        dropped.append(definition.body[0])
    left_out: set[int] = set()
    for node in dropped:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        left_out |= set(range(first, (node.end_lineno or first) + 1))
    return "\n".join(line for i, line in enumerate(source.split("\n"), 1) if i not in left_out).rstrip()


def _task_words(task: Any, physics: Any) -> str:
    """Says what a task of dm_control is: its domain's words, its settings, and the source of what it observes and rewards."""
    kind, domain = type(task), sys.modules[type(task).__module__]
    words = [f"The task {kind.__name__} of {kind.__module__}, adapted to Gymnasium.", domain.__doc__]
    words += [f"Its attribute {name} is {value}." for name, value in vars(task).items() if type(value) in (int, float)]
    if listing := _listing([cls for cls in (kind, type(physics)) if cls.__module__ == domain.__name__], ""):
        words.append(f"```python\n{listing}\n```")
    return "\n\n".join(inspect.cleandoc(text) for text in words if text) + "\n"


def _wrappers(env: gym.Env) -> str:
    """Returns what the wrappers around an environment say of themselves, the innermost first; nothing of our own and of PLAIN.

    The arguments of a constructor are those that it recorded, or kept as attributes of the same names.
    """
    parts = []
    while isinstance(env, gym.Wrapper):
        kind, layer, env = type(env), env, env.env
        if isinstance(layer, PLAIN) or kind.__module__.startswith("llmwrappers."):
            continue
        kept = layer._saved_kwargs if isinstance(layer, RecordConstructorArgs) else vars(layer)
        names = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "env") and name in kept]
        arguments = arguments_words({name: kept[name] for name in names}) or ""
        told = [inspect.cleandoc(kind.__doc__ or "")] if not kind.__module__.startswith("gymnasium.") else []
        unread = [kept[name] for name in names if inspect.isfunction(kept[name])] + [kind] * (told == [""])
        for source in unread:
            with contextlib.suppress(OSError, TypeError):
                told.append(f"```python\n{textwrap.dedent(inspect.getsource(source)).rstrip()}\n```")
        parts.append("\n\n".join([f"\n## Wrapper {kind.__name__}({arguments})", *filter(None, told)]) + "\n")
    if not parts:
        return ""
    return f"\nThe environment is wrapped; what follows changes what is said above.\n{''.join(reversed(parts))}"


def _newest_docstring(env_id: str) -> str | None:
    namespace, name, _ = parse_env_id(env_id)
    specs = [spec for spec in gym.registry.values() if (spec.namespace, spec.name) == (namespace, name)]
    for spec in sorted(specs, key=lambda spec: spec.version or 0, reverse=True):
        creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        if inspect.isclass(creator) and creator.__doc__:
            return creator.__doc__
    return None
