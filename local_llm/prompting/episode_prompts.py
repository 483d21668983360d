"""Puts the episodes that a model is to find critical states in into its prompts, ``prompts/ultra_*.md``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from llmwrappers import CriticalStates, Trajectories
from local_llm.models.reply import Backend, count_tokens
from local_llm.prompting.facts import load_facts
from local_llm.prompting.interpret import Interpreter
from local_llm.prompting.render import environment_values, facts_values, fill_file
from local_llm.prompting.space_words import flattened_entries
from local_llm.prompting.wording import number_text
from local_llm.selection.trial import Trial

# Steps shown before and after a critical one: as many as the token budget allows.
WINDOWS = ((4, 8), (3, 6), (2, 4), (1, 2), (0, 1), (0, 0))
# The prompt for code shows an observation as numbers up to this size.
MOST_NUMBERS = 200
ROLLOUT = 2048  # steps, the default of ppo_ultra.py
# Characters of an episode whose tokens are counted.
SAMPLE = 20_000
Key = tuple[int, int]
"""Episode and step."""
Entry = tuple[Any, Any, float, dict[str, Any]]
"""Of a table: observation, action, reward and note."""


@dataclass(frozen=True)
class Settings:
    """How much the model is shown and asked for.

    Raises:
        ValueError: a value outside its range
    """

    episodes: int = 5  # that the model is shown and the table is made of; the others set its tolerance
    states_per_episode: int = 5
    token_budget: int = 12_000  # for the episodes in a prompt
    hit_rate: float = 0.05  # share of the other episodes' steps that are to match
    rounds: int = 1  # 2: the table is tried, and the model asked again
    round_timesteps: int = 100_000  # of the trial
    ask: str = "all"  # code: for a function alone, with one prompt that shows every number

    def __post_init__(self) -> None:
        for name in ("episodes", "states_per_episode", "token_budget", "round_timesteps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.rounds not in (1, 2):
            raise ValueError(f"rounds must be 1 or 2, got {self.rounds}")
        if self.rounds == 2 and self.round_timesteps < ROLLOUT:
            raise ValueError(f"round_timesteps must be at least {ROLLOUT}, one rollout of PPO, got {self.round_timesteps}")
        if self.ask not in ("all", "code"):
            raise ValueError(f"ask must be all or code, got {self.ask!r}")
        if self.ask == "code" and self.rounds == 2:
            raise ValueError("rounds must be 1 where ask is code: a second round tries a table, got 2")
        if not 0 < self.hit_rate < 1:
            raise ValueError(f"hit_rate must lie in (0, 1), got {self.hit_rate}")


@dataclass
class Case:
    """What the model said about one critical state."""

    episode: int
    step: int
    rationale: str
    reasoning: str = ""
    action: Any = None
    analysis: str = ""
    reward: float = 0.0

    @property
    def key(self) -> Key:
        """Where it is."""
        return self.episode, self.step

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}"


def flattened_as(trajectories: Trajectories, env: gym.Env) -> gym.Env:
    """Returns an environment that observes vectors, if the trajectories hold such: ppo_ultra.py flattens what is none."""
    space = env.observation_space
    is_flat = isinstance(space, Box) and len(space.shape) == 1
    return env if is_flat or trajectories.observations.ndim != 2 else gym.wrappers.FlattenObservation(env)


class Episodes:
    """Puts the episodes that a model is shown, and the environment they come from, into words.

    Args:
        trajectories: the episodes
        env: the environment they are from
        settings: how much is shown; a budget is in tokens of the model, where the backend can count them
        backend: what is to be asked

    Raises:
        ValueError: trajectories of another environment, with actions that it does not take, or with no episodes to spare
        FactsError, TypeError: as ``local_llm.prompting.render`` does
    """

    def __init__(self, trajectories: Trajectories, env: gym.Env, settings: Settings, backend: Backend | None = None):
        if env.spec is not None and env.spec.id != trajectories.env_id.rpartition(":")[2]:
            raise ValueError(f"the trajectories are of {trajectories.env_id}, got the environment {env.spec.id}")
        if trajectories.observations.shape[1:] != env.observation_space.shape:
            raise ValueError(
                f"the trajectories have observations of shape {trajectories.observations.shape[1:]}, got the environment's "
                f"{env.observation_space}"
            )
        actions, space, fits = trajectories.actions, env.action_space, True
        if isinstance(space, Discrete):
            fits = actions.dtype == np.int64 and bool(((actions >= space.start) & (actions < space.start + space.n)).all())
        elif isinstance(space, Box):
            fits = actions.shape[1:] == space.shape and np.allclose(actions, actions.clip(space.low, space.high), atol=1e-6)
        if not fits:
            raise ValueError(
                f"the trajectories have actions of shape {actions.shape[1:]} from {actions.min():g} to {actions.max():g}, got "
                f"the environment's {space}; record what the environment executed, in its own units"
            )
        if len(trajectories) <= settings.episodes:
            raise ValueError(
                f"episodes must be less than the {len(trajectories)} of the trajectories, because the others set the "
                f"tolerance; got {settings.episodes}"
            )
        self.trajectories, self.env, self.settings, self.space = trajectories, env, settings, env.action_space
        self.shown, self.held_out = trajectories.split(settings.episodes)
        names = [name for part in flattened_entries(env) for name in _entry_names(*part)]
        self.interpreter = Interpreter(load_facts(env), self.shown, names)
        self._lines: dict[int, list[str]] = {}
        # Numbers above all, of which a token holds fewer characters than of words.
        sample = "\n".join(self.lines(0))[:SAMPLE] if backend else ""
        if tokens := count_tokens(backend, sample):
            self.interpreter.characters_per_token = len(sample) / tokens
        self.values = {
            **environment_values(env),
            **facts_values(self.interpreter.facts),
            "legend": self.interpreter.legend(),
            "action_size": int(np.prod(self.space.shape)) if isinstance(self.space, Box) else None,
            "states_per_episode": settings.states_per_episode,
            "share": f"{settings.hit_rate:.0%}",
        }

    def render(self, name: str, **values: Any) -> str:
        """Returns the prompt that a template makes."""
        return fill_file(f"ultra_{name}.md", {**self.values, **values})

    def first_prompt(self) -> str:
        """Returns the prompt that is asked first."""
        return self.states_prompt("function" if self.settings.ask == "code" else "states")

    def states_prompt(self, name: str = "states", **values: Any) -> str:
        """Returns a prompt that shows the episodes."""
        lengths = self.shown.lengths.tolist()
        budget = self.settings.token_budget // len(lengths)
        try:
            texts = [self.interpreter.episode(i, budget) for i in range(len(lengths))]
        except ValueError as error:
            total = self.settings.token_budget
            raise ValueError(f"token_budget {total}, for {len(lengths)} episodes {budget} each: {error}") from None
        steps = "; ".join(f"episode {i}, step 0 to {length - 1}" for i, length in enumerate(lengths))
        return self.render(name, episodes="\n\n".join(texts), steps=steps, **values)

    def round_prompt(self, table: CriticalStates, trial: Trial, return_before: float) -> str:
        """Returns the first prompt of the second round, about a table that was tried; these are the episodes since then."""
        return self.states_prompt(
            "round",
            entries="\n\n".join(self.entry_text(table, entry, trial) for entry in range(len(table))),
            n_entries=len(table),
            timesteps=number_text(self.settings.round_timesteps),
            return_before=number_text(return_before),
            return_now=number_text(trial.trajectories.returns.mean()),
            helpful=", ".join(map(str, trial.helpful)) or None,
        )

    def entry_text(self, table: CriticalStates, entry: int, trial: Trial) -> str:
        """Returns what the second round's prompt says of one entry of the table."""
        note = table.notes[entry]
        lines = [
            f"## Entry {entry}",
            f"Why it was critical: {note['rationale']}",
            self.interpreter.state(table.observations[entry]),
            f"Action: {self.action(table.actions[entry])}. {note['reasoning']}",
            trial.worth(entry),
        ]
        return "\n".join(lines)

    def cases_prompt(self, name: str, cases: list[Case], kept: Sequence[Entry] = ()) -> str:
        """Returns the prompt about critical states that were accepted: for their actions, their rewards or code.

        Args:
            kept: entries of an earlier table, which code is to generalise, too
        """
        budget = self.settings.token_budget // len(cases)
        if isinstance(self.space, Box):
            # Of no agent: an example is easily copied.
            low, high = self.space.low.ravel().astype(float), self.space.high.ravel().astype(float)
            example: Any = np.round(low + np.resize([0.7, 0.3, 0.6], len(low)) * (high - low), 2).tolist()
        else:
            example = self.values["first_action"]
        return self.render(
            name,
            states="\n\n".join([*(self.case_text(name, case, budget) for case in cases), *map(self.kept_text, kept)]),
            steps="; ".join(map(str, cases)),
            n_states=len(cases),
            first_episode=cases[0].episode,
            first_step=cases[0].step,
            example_action=example,
        )

    def case_text(self, name: str, case: Case, budget: int) -> str:
        """Returns what one of these prompts says of one critical state."""
        if name == "code":
            observation, previous = self.shown.observations[self.index(case)], self.previous(case.episode, case.step)
            return self._for_code(str(case), observation, previous, case.action, case.reward, vars(case))
        lines = [f"## Critical state: {case}", f"Why it is critical: {case.rationale}"]
        most = budget * self.interpreter.characters_per_token
        windows = (self.window(case, before, after) for before, after in WINDOWS)
        lines.append(next((text for text in windows if len(text) <= most), self.window(case, 0, 0)))
        if name != "actions":
            lines.append(f"Suggested action: {self.action(case.action)}. {case.reasoning}")
        return "\n".join(lines)

    def kept_text(self, entry: Entry) -> str:
        """Returns what the prompt for code says of an entry that is kept from before."""
        observation, action, reward, note = entry
        return self._for_code("of earlier episodes; it helped", observation, None, action, reward, note)

    def _for_code(self, where: str, observation: Any, previous: Any, action: Any, reward: float, said: dict[str, Any]) -> str:
        lines = [f"## Critical state: {where}", f"Why it is critical: {said['rationale']}"]
        lines.append(self.interpreter.state(observation, previous))
        if observation.size <= MOST_NUMBERS:
            lines.append(f"obs = {_numbers(observation)}")
        lines.append(f"Suggested action: {self.action(action)}. {said['reasoning']}")
        lines.append(f"Reward for being here: {reward:g}. {said['analysis']}")
        return "\n".join(lines)

    def window(self, case: Case, before: int, after: int) -> str:
        """Returns how an episode went, the steps around a critical one, and this one in full."""
        summary, *steps, final = self.lines(case.episode)
        steps[case.step] = f"--> {steps[case.step]}"
        around = [*steps, final][max(case.step - before, 0) : case.step + after + 1]
        index = self.index(case)
        state = self.interpreter.state(self.shown.observations[index], self.previous(case.episode, case.step))
        action = self.action(self.shown.actions[index])
        return "\n".join([summary, *around, f"At step {case.step}: {state} The agent's action: {action}."])

    def lines(self, episode: int) -> list[str]:
        """Returns the text of a whole episode: a summary, a line for each step, and the last observation."""
        if episode not in self._lines:
            self._lines[episode] = self.interpreter.episode(episode, sys.maxsize).split("\n")
        return self._lines[episode]

    def action(self, action: Any) -> str:
        """Returns an action as one must write it in an answer; of a discrete one, what it means, too."""
        return self.interpreter.action(action) if isinstance(self.space, Discrete) else _numbers(action)

    def index(self, case: Case) -> int:
        """Returns the row of a critical state."""
        return self.shown.episode(case.episode).start + case.step

    def previous(self, episode: int, step: int) -> Any:
        """Returns the observation before a step, None at the first."""
        return self.shown.observations[self.shown.episode(episode).start + step - 1] if step else None


def _entry_names(name: str, words: str, start: int, end: int) -> list[str]:
    """What the numbers of one part of a flattened observation are called; they are vectors of numbers, whatever they were."""
    return [name] if name and end == start + 1 else [f"{name or 'observation'}[{i}]" for i in range(end - start)]


def _numbers(array: Any) -> str:
    return str([float(f"{number:.3g}") for number in np.ravel(array)])
