"""Reports to a model how its policy did, so that it writes a better one: numbers, what to improve, an episode."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import gymnasium as gym
import numpy as np

from llmwrappers.making import make
from llmwrappers.priors.measurement import Measurement, Step, play
from local_llm.prompting.space_words import leaf, leaves
from local_llm.prompting.wording import count_text, number_text
from local_llm.selection.candidate import Candidate

# How many numbers of states and actions a text shows in all, and how many of one observation or action.
NUMBERS_SHOWN, OBSERVATION_SHOWN = 600, 120


def report_text(
    env_id: str,
    candidate: Candidate,
    measurement: Measurement,
    random: Measurement,
    seed: int = 0,
    env_kwargs: dict[str, Any] | None = None,
) -> str:
    """Returns the report on a policy for the model that is to improve it: numbers, what to improve, an episode.

    Args:
        env_id: the environment
        candidate: the policy; it plays one more episode
        measurement: of the policy
        random: the measurement of random actions
        seed: the seed of the first episode of ``measurement``
        env_kwargs: the arguments to make the environment with

    Raises:
        ValueError: the candidate was rejected and has no policy

    Example:
        >>> from pathlib import Path
        >>> candidate = Candidate(1, "", Path("policy.py"), lambda obs: [2.0])
        >>> from llmwrappers.priors.measurement import measure, random_actions
        >>> env = make("Pendulum-v1")
        >>> policies = candidate.policy, random_actions(env.action_space, seed=0)
        >>> measurement, random = (measure(env, policy, episodes=2, seed=0) for policy in policies)
        >>> print(report_text("Pendulum-v1", candidate, measurement, random))  # doctest: +ELLIPSIS
        Your policy for Pendulum-v1 was run alone for 2 episodes.
        <BLANKLINE>
        return: -... +- ... (random actions: -... +- ...)
        ...
        - 100% of the action components are at a bound: lower the gains, so that the actions can still differ.
        ...
    """
    if candidate.policy is None:
        raise ValueError(f"candidate {candidate.number} has no policy to report on, it was rejected: {candidate.rejected}")
    worst = int(np.argmin(measurement.returns))
    env = make(env_id, **(env_kwargs or {}))
    try:
        steps = list(play(env, candidate.policy, seed + worst))
    finally:
        env.close()
    lines = [f"Your policy for {env_id} was run alone for {count_text(len(measurement.returns), 'episode', 'episodes')}.", ""]
    lines += _numbers(measurement, random)
    lines += ["", "What to improve:"]
    lines += [f"- {advice}" for advice in _advice(measurement, random)]
    total = _plain(sum(step.reward for step in steps))
    lines += ["", f"The worst episode: return {total} in {len(steps)} steps, {_ending(env, steps)}."]
    terms = _reward_terms(steps)
    if terms:
        lines.append("Its reward, mean a step: " + ", ".join(f"{name} {_plain(value)}" for name, value in terms.items()) + ".")
    lines += _states(env, steps)
    return "\n".join(lines)


def _plain(value: float) -> str:
    return number_text(value).replace(" ", "")


def _numbers(m: Measurement, random: Measurement) -> list[str]:
    def spread(values: Sequence[float]) -> str:
        return f"{_plain(fmean(values))} +- {_plain(float(np.std(values)))}"

    lines = [f"return: {spread(m.returns)} (random actions: {spread(random.returns)})"]
    limit = "" if m.survival is None else f", {m.survival:.0%} of the time limit"
    lines.append(
        f"length: {spread(m.steps)} steps{limit}; terminated by the environment: {m.terminated} of {len(m.steps)} episodes"
    )
    if m.distances:
        lines.append(f"forward distance: {spread(m.distances)} m")
    if m.steadiness is not None:
        lines.append(f"steadiness of the forward speed: {m.steadiness:.0%} (100% is a constant speed)")
    if m.saturation is not None:
        lines.append(f"action components at a bound: {m.saturation:.0%}")
    if m.chatter is not None:
        lines.append(f"change of the action from one step to the next: {m.chatter:.1%} of its range")
    lines.append(f"calls that failed: {m.faults}" + (f", the first with {m.first_fault}" if m.faults else ""))
    return lines


def _advice(m: Measurement, random: Measurement) -> list[str]:
    """Returns what stands out in the numbers, worst first."""
    advice = []
    if m.faults:
        advice.append(
            f"{m.faults} calls failed ({m.first_fault}): return finite numbers of the right shape for every observation."
        )
    if m.terminated and (m.survival is None or m.survival < 0.95):
        advice.append(
            f"The environment ended {m.terminated} of {len(m.steps)} episodes, after {_plain(fmean(m.steps))} steps on "
            "average. Unless that is the goal, staying alive comes first: the last states below show what went wrong."
        )
    if fmean(m.returns) <= fmean(random.returns):
        advice.append("It is no better than random actions: check the signs of the gains and the order of the components.")
    if m.distances and fmean(m.distances) <= 0:
        advice.append("It does not move forward at all.")
    elif m.steadiness is not None and m.steadiness < 0.5:
        advice.append("Its forward speed is not steady: it stands still, or moves in bursts, for a part of the episode.")
    if m.saturation is not None and m.saturation > 0.5:
        share = f"{m.saturation:.0%}"
        advice.append(
            f"{share} of the action components are at a bound: lower the gains, so that the actions can still differ."
        )
    if m.chatter is not None and m.chatter > 0.2:
        advice.append("The action jumps from one step to the next: damp it, or switch more smoothly.")
    # Nothing of the time of a call, which depends on the machine's load: equal policies must get equal reports, so that the
    # model is asked once. The probe refuses slow policies.
    return advice or ["Nothing is broken; do more of what the reward pays for."]


def _ending(env: gym.Env, steps: list[Step]) -> str:
    """Returns what ended the episode that an environment has just played: the environment, its time limit, or our bound."""
    if steps[-1].terminated:
        return "the environment ended it (terminated)"
    if env.has_wrapper_attr("cut_episodes") and env.get_wrapper_attr("cut_episodes"):
        return "at which it was cut: nothing else ended it"
    limit = env.spec.max_episode_steps if env.spec else None
    return "the time limit ended it" if limit == len(steps) else "the environment ended it (truncated)"


def _reward_terms(steps: list[Step]) -> dict[str, float]:
    """Returns the terms of the reward, if the environment writes them into info, as MuJoCo's do."""
    names = [
        name
        for name, value in steps[-1].next_info.items()
        if name.startswith("reward") and isinstance(value, int | float | np.number)
    ]
    return {name: fmean(float(step.next_info.get(name, 0.0)) for step in steps) for name in names}


def _states(env: gym.Env, steps: list[Step]) -> list[str]:
    """Returns some steps of an episode as lines of numbers, the first and the last among them."""

    def numbers(values: np.ndarray, most: int) -> str:
        shown = " ".join(f"{value:.3g}" for value in values[:most])
        return f"[{shown}{' ...' if len(values) > most else ''}]"

    def entries(observation: Any) -> np.ndarray:
        """All its numbers; integers as the policy gets them, not as one-hot vectors."""
        return np.concatenate([np.ravel(leaf(observation, path)) for path, _ in leaves(env.observation_space)])

    observations = [entries(step.observation) for step in steps]
    actions = [np.asarray(step.action, dtype=np.float64).ravel() for step in steps]
    size = min(len(observations[0]), OBSERVATION_SHOWN) + len(actions[0])
    shown = sorted(set(np.linspace(0, len(steps) - 1, min(max(NUMBERS_SHOWN // size, 3), 8)).round().astype(int).tolist()))
    lines = ["Some of its steps (step | observation | executed action | reward):"]
    for t in shown:
        observation, action = numbers(observations[t], OBSERVATION_SHOWN), numbers(actions[t], OBSERVATION_SHOWN)
        lines.append(f"{t} | {observation} | {action} | {steps[t].reward:.3g}")
    return lines
