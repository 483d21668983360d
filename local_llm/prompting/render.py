"""Renders the prompt that asks a language model for a policy: documentation, MuJoCo model and facts of one environment.

::

    llmwrappers prompt --env-id Hopper-v4

The text is ``prompts/camel.md``. There ``{name}`` is a value, and what stands between ``<<`` and ``>>`` is left out where
one of its values is missing. What the environment's documentation lacks comes from its file of facts (``facts.py``); without
one, the prompt is made of the documentation and the spaces alone. Spaces, time step and length of an episode are the
environment's own wherever it knows them.
"""

import argparse
import contextlib
import ctypes
import importlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box, Discrete

from llmwrappers.action_spaces import require_action_space
from llmwrappers.containment.lint import MODULES
from llmwrappers.containment.policy import SLOWEST_CALL
from llmwrappers.making import OF_RENDERING, accept_older_versions, made, made_with, without_text
from local_llm.command import add_env_options, take_env_kwargs
from local_llm.prompting.documentation import documentation
from local_llm.prompting.environment_facts import action_names, control_step, grid_words, model_xml, step_limit
from local_llm.prompting.facts import PROMPTS, Facts, FactsError, MissingFact, load_facts, serving
from local_llm.prompting.rollouts import Rollouts, roll_out
from local_llm.prompting.space_words import bounds_words, flattened_entries, number_words, observation_words
from local_llm.prompting.wording import arguments_words

# LLMActionMask's default, a fraction of half the action range.
RADIUS = 0.3
# What the prompts forbade whose replies are recorded, and what is in their place now.
NOT_ALLOWED = "`while`, `try`, `with`, `global`, classes, decorators, recursion, printing"
RULES = {
    "modules": ", ".join(name for name in MODULES if name != "__future__"),
    "milliseconds": f"{1000 * SLOWEST_CALL:.0f}",
}


def render_prompt(env_id: str, /, **make_kwargs: Any) -> str:
    """Returns the prompt for an environment as ``gym.make(env_id, **make_kwargs)`` makes it.

    Raises:
        MissingFact: a file of facts lacks a key
        FactsDoNotFit: with ``make_kwargs`` the spaces are others than those that the facts describe
        FactsError: a file of facts is not valid
        ValueError: an action space that is neither Discrete nor a Box of floats with finite bounds
        gymnasium.error.Error: no such environment, or a package that it needs is not installed

    Example:
        >>> print(render_prompt("Pendulum-v1")[:109])
        You are an expert in control. Write a hand-coded controller for the Gymnasium environment `Pendulum-v1`.
        <BLANKLINE>
        # E
    """
    module = next((facts.module for _, facts in serving(env_id) if facts.module), None)
    try:
        if module:
            importlib.import_module(module)
        env = without_text(made(env_id, disable_env_checker=True, **make_kwargs))
    except ImportError as error:
        raise DependencyNotInstalled(f"{env_id} needs a package that is not installed as it should be: {error}") from error
    try:
        try:
            require_action_space(env.action_space)
        except ValueError as error:
            raise ValueError(f"{env_id} {error}") from None
        return fill_file("camel.md", {**environment_values(env), **facts_values(load_facts(env))})
    finally:
        env.close()


def fill_file(name: str, values: dict[str, Any]) -> str:
    """Puts values into a template of ``prompts/``, as ``fill`` does."""
    return fill((PROMPTS / name).read_text("utf-8").removesuffix("\n"), values)


def fill(template: str, values: dict[str, Any]) -> str:
    """Puts values into a template; what stands between ``<<`` and ``>>`` is left out where one of its values is None.

    Example:
        >>> fill("{a}<< and {b}>>.", {"a": 1, "b": 2}), fill("{a}<< and {b}>>.", {"a": 1, "b": None})
        ('1 and 2.', '1.')
    """
    placeholder = re.compile(r"\{(\w+)\}")
    for key in placeholder.findall(template):
        if key not in values:
            raise MissingFact(f"the template asks for {{{key}}}, which is none of {', '.join(values)}")

    def part(match: re.Match) -> str:
        return "" if any(values[key] is None for key in placeholder.findall(match[1])) else match[1]

    # The values go in last and at once: they may hold << and { themselves.
    template = re.sub(r"<<(.*?)>>", part, template, flags=re.DOTALL)
    return placeholder.sub(lambda match: str(values[match[1]]), template)


# ---------------------------------------------------------------------------------------------------------------- values


def facts_values(facts: Facts | None) -> dict[str, Any]:
    """Returns the part of the values that comes from facts; without any, words that hold for every environment."""
    if facts is None:
        return {
            "expertise": "control",
            "goal": "collect as much reward as possible",
            "reason": "what each entry of the observation is, what each action does and with which sign, which behaviour the "
            "reward asks for, which targets and gains are sensible, what to do when things go wrong",
            **RULES,
            **dict.fromkeys(("observation_note", "notes", "entries", "without_memory", "recorded", "not_allowed")),
        }
    is_recorded = facts.without_memory is not None
    return {
        **{key: getattr(facts, key) for key in ("expertise", "goal", "reason", "without_memory", "observation_note")},
        "not_allowed": NOT_ALLOWED if is_recorded and facts.states_not_allowed else None,
        "recorded": "" if is_recorded else None,
        **(dict.fromkeys(RULES) if is_recorded else RULES),
        "notes": "\n".join(f"- {note}" for note in facts.notes) or None,
        "entries": _tables(facts) if facts.lists_entries else None,
    }


def environment_values(env: gym.Env) -> dict[str, Any]:
    """Returns the part of the values that comes from the environment itself, as far as it knows or, without facts, plays."""
    facts = load_facts(env)
    rollouts = None if facts else roll_out(env)
    seen = rollouts.ranges if rollouts else {}
    constants = ", ".join(f"{name} = {words}" for name, words in rollouts.constants.items()) if rollouts else ""
    observations, actions = env.observation_space, env.action_space
    time_step = getattr(env.unwrapped, "dt", facts.time_step) if facts else control_step(env)
    made = made_with(env) if facts else env.spec.kwargs if env.spec else {}
    values = {
        "env_id": env.spec.id if env.spec else type(env.unwrapped).__name__,
        "documentation": documentation(env, facts.sections_left_out if facts else [], with_source=facts is None),
        "xml": model_xml(env, facts.model_shown if facts else None),
        "action_names": None if facts else action_names(env),
        "observation": observation_words(env, seen),
        "time_step": f"{time_step:.3g}" if isinstance(time_step, float) else None,
        "episode_length": _episode_length(env, facts, rollouts),
        "grid": None if facts else grid_words(env),
        "constants": constants or None,
        "arguments": arguments_words({name: value for name, value in made.items() if name not in OF_RENDERING}) or None,
        **dict.fromkeys(("observation_bounds", "action_shape", "action_bounds", "half_width", "n_actions", "first_action")),
        **dict.fromkeys(("discrete_answer", "discrete_return")),
    }
    is_explained = facts is not None or bool(flattened_entries(env))
    if isinstance(observations, Box) and not is_explained and (observations.bounded_below | observations.bounded_above).any():
        values["observation_bounds"] = bounds_words(observations, seen.get(()))
    if isinstance(actions, Discrete):
        n, first = int(actions.n), int(actions.start)
        return {
            **values,
            "n_actions": n,
            "first_action": first,
            "discrete_answer": f"the action to take, or which of the {n} actions are allowed",
            "discrete_return": f"Return an integer from {first} to {first + n - 1}, the action; or a set of those that are "
            f"allowed; or a numpy array of shape ({n},) of 0 and 1: which actions are allowed. At least one is.",
        }
    require_action_space(actions)
    assert isinstance(actions, Box)
    half_width = number_words(RADIUS * (actions.high.astype(float) - actions.low) / 2)
    return {**values, "action_shape": actions.shape, "action_bounds": bounds_words(actions), "half_width": half_width}


def _episode_length(env: gym.Env, facts: Facts | None, rollouts: Rollouts | None) -> str:
    stated = (env.spec.max_episode_steps if env.spec else None) or (facts.episode_steps if facts else None)
    limit = stated or step_limit(env)
    if rollouts and (limit is None or max(rollouts.lengths) > limit):  # what seemed to be a limit is none
        return rollouts.length_words()
    # The environment's own count may start at 1 or be compared with > in place of >=.
    is_exact = stated or (rollouts and rollouts.end_at(limit))
    return f"at most {'' if is_exact else 'about '}{limit} steps" if limit else "until the environment ends it"


def _tables(facts: Facts) -> str:
    """Writes the entries of the observation and of the action as two Markdown tables."""
    rows = [("Observation", "Name", "Unit", "Meaning", "Episode ends outside"), ("---",) * 5]
    for entry in facts.observation:
        ends = str(entry.terminates_outside) if entry.terminates_outside else ""
        rows.append((_index(entry.index), entry.name, entry.unit, entry.meaning, ends))
    if not any(row[-1] for row in rows[2:]):
        rows = [row[:-1] for row in rows]
    rows += [(), ("Action", "Name", "Unit", "Meaning"), ("---",) * 4]
    rows += [(_index(entry.index), entry.name, entry.unit, entry.meaning) for entry in facts.action]
    return "\n".join(f"| {' | '.join(row)} |" if row else "" for row in rows)


def _index(index: range) -> str:
    return f"{index[0]} to {index[-1]}" if len(index) > 1 else f"{index[0]}"


def main(arguments: list[str] | None = None) -> int:
    """Prints a prompt; returns the exit status."""
    parser = argparse.ArgumentParser(prog="llmwrappers prompt", description="Prints the prompt for an environment.")
    add_env_options(parser, "a Gymnasium id, for example Hopper-v4", required=True)
    args = parser.parse_args(arguments)
    take_env_kwargs(parser, args)
    accept_older_versions()
    try:
        with printing_to_stderr():
            prompt = render_prompt(args.env_id, **args.env_kwargs)
    except (gym.error.Error, FactsError, TypeError, ValueError) as error:
        print(f"{parser.prog}: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(prompt)
    return 0


@contextlib.contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Sends to stderr what libraries print while an environment is made and stepped, those in C too."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(OSError, AttributeError, TypeError):  # what C still holds back, where that can be told
            ctypes.CDLL(None).fflush(None)
        os.dup2(stdout, 1)
        os.close(stdout)


if __name__ == "__main__":
    sys.exit(main())
