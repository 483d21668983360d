"""Run: one environment, arm and seed of a comparison; which arguments it gets, and got if it has started."""

import itertools
import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llmwrappers.errors import UserError
from llmwrappers.files import folder_name

REPOSITORY = Path(__file__).resolve().parents[2]

# The flags of an arm in the scripts without --arm. A name means the same in every table.
ARMS = {
    "ppo_camel.py": {
        "none": ["--prior", "none"],
        "llm": ["--prior", "shipped"],
        "auto": ["--prior", "auto"],
        "random": ["--prior", "random"],
        "bad": ["--prior", "auto:{repository}/benchmarks/bad_priors"],
    },
    "td3_camel.py": {
        "td3": ["--prior", "none"],
        "paper": ["--prior", "shipped"],
        "paper-random": ["--prior", "random"],
        "paper-expert": ["--prior", "expert:{expert_model}"],
    },
}
# What each arm is; ppo_ultra.py has --arm NAME.
MEANINGS = {
    "ppo_camel.py": {
        "none": "PPO alone, no prior",
        "llm": "PPO warm-started from the default prior of the environment",
        "auto": "PPO warm-started from one of the shipped candidates, which an audition chooses",
        "random": "PPO with random actions as its prior, which the audition may refuse",
        "bad": "PPO with five bad priors, which the audition may refuse",
    },
    "td3_camel.py": {
        "td3": "TD3 alone, no prior",
        "paper": "TD3 in a mask around the default prior of the environment, which fades (CAMEL)",
        "paper-random": "TD3 in a mask around random actions, which fades",
        "paper-expert": "TD3 in a mask around the best agent of td3, which fades",
    },
    "ppo_ultra.py": {
        "none": "PPO alone continues, without guidance",
        "a": "PPO with the LLM's actions in critical states",
        "r": "PPO with the LLM's rewards in critical states",
        "ra": "PPO with the LLM's actions and rewards in critical states",
        "random": "the control: PPO with random guidance instead of the LLM's",
        "rnd": "PPO with a novelty bonus in the LLM's critical states",
        "statemask": "PPO with a novelty bonus in the states that a learned mask network calls critical",
    },
}
EXPERT = "td3"  # the arm whose best run is the expert

# The flags that compare.py gives to every run, and which of its own arguments sets each.
SET = {"--env-id": "--env-ids", "--seed": "--seeds", "--total-timesteps": "one for all runs", "--runs-dir": "--output"}
SET |= {"--resume": "nothing: the same command continues every interrupted run"}


@dataclass(frozen=True)
class Run:
    """One environment, arm and seed; its folder holds the script's run folder, its log and a lock."""

    env_id: str
    arm: str
    seed: int
    total_timesteps: int
    folder: Path
    script: Path
    flags: tuple[str, ...]
    expert: Path | None = None  # this run waits for the agent of the best run of EXPERT, which goes here

    @property
    def name(self) -> str:
        return f"{self.env_id} {self.arm} seed {self.seed}"

    @property
    def run_dir(self) -> Path | None:
        """The script's run folder, if the run has been started."""
        found = sorted(path.parent for path in self.folder.glob("*/args.json"))
        if len(found) > 1:
            raise UserError(f"{self.folder} holds {len(found)} runs, {' and '.join(path.name for path in found)}: keep one")
        return found[0] if found else None

    @property
    def is_finished(self) -> bool:
        return self.run_dir is not None and (self.run_dir / "summary.json").exists()

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"


def parse_seeds(text: str) -> list[int]:
    """Reads 1-8, or 1,3,5, or 4."""
    seeds = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UserError(f"--seeds {text}: {part!r} is no seed or range; give 1-8, or 1,3,5, or 4")
        seeds += range(first, last + 1)
    return sorted(set(seeds))


def usual_flags(arm: str, script: str) -> list[str] | None:
    """The flags of an arm that is given by its name alone; None if the script has no such arm."""
    name = Path(script).name
    return ARMS[name].get(arm) if name in ARMS else ["--arm", arm]


def meaning(arm: str, flags: list[str], script: str) -> str:
    """What an arm is; "" if it has flags of its own."""
    return MEANINGS.get(Path(script).name, {}).get(arm, "") if flags == usual_flags(arm, script) else ""


def parse_arms(arms: Iterable[str], script: str) -> dict[str, list[str]]:
    """The flags of every arm."""
    flags = {}
    for arm in arms:
        name, has_flags, own = arm.partition("=")
        usual = usual_flags(name, script)
        if not re.fullmatch(r"\w[\w.-]*", name) or (has_flags and not own.startswith("--")):
            raise UserError(f'--arms {arm!r}: give a name, or name and flags as in "wide=--prior shipped --radius 0.6"')
        if name in flags:
            raise UserError(f"--arms names {name} twice")
        if not has_flags and usual is None:
            has = ", ".join(ARMS[Path(script).name])
            raise UserError(f'--arms {name}: {script} has {has}; give an arm of your own with its flags: "{name}=--prior ..."')
        try:
            flags[name] = shlex.split(own) if has_flags else usual
        except ValueError as error:
            raise UserError(f"--arms {arm!r}: {error}") from None
    if not flags:
        raise UserError("--arms: name at least one")
    return flags


def by_name(flags: Iterable[str]) -> dict[str, str]:
    """--name value --other -> {"--name": "value", "--other": ""}."""
    named: dict[str, list[str]] = {}
    name = ""
    for flag in flags:
        if re.match(r"--?[a-zA-Z]", flag):
            name, equals, value = flag.partition("=")
            name = name.replace("_", "-")
            named[name] = [value] if equals else []
        else:
            named.setdefault(name, []).append(flag)
    return {name: " ".join(values) for name, values in named.items()}


TRACKING = "--track", "--no-track", "--wandb-project-name", "--wandb-entity", "--wandb-arm"


def different(now: dict[str, str], before: dict[str, str]) -> list[str]:
    """The first flag that differs, as given now and as given before, but for tracking; [] if all are the same."""
    for name in {**now, **before}:
        if name not in TRACKING and now.get(name) != before.get(name):
            return [f"{name} {flags[name]}".strip() if name in flags else f"no {name}" for flags in (now, before)]
    return []


NO_TRAINING = "__init__.py", "compare.py", "watch.py", "demo.py"
"""Files beside the training scripts."""


def find_script(name: str) -> Path:
    folder = REPOSITORY / "cleanrl_scripts"
    scripts = sorted(path.name for path in folder.glob("*.py") if path.name not in NO_TRAINING)
    paths = [folder / name, Path(name)] if Path(name).name == name else [Path(name)]  # ./td3_camel.py is the user's copy
    script = next((path.resolve() for path in paths if path.is_file()), None)
    if script is None or script in [folder / name for name in NO_TRAINING]:
        raise UserError(f"--script {name}: no such script; {folder} has {', '.join(scripts)}")
    return script


def is_ours(name: str) -> bool:
    """Whether this is a script of this folder, not the user's own, which may be gone by now."""
    try:
        return find_script(name).parent == REPOSITORY / "cleanrl_scripts"
    except UserError:
        return False


def refuse_flags(arms: dict[str, list[str]], extra: list[str]) -> None:
    """Refuses a flag that compare.py sets itself, and a common flag that an arm sets, too."""
    common = by_name(extra)
    own = {arm: by_name(flags) for arm, flags in arms.items()}
    for given, instead in ((common, SET | {"--arm": "--arms"}), *((flags, SET) for flags in own.values())):
        for name in given.keys() & instead.keys():
            raise UserError(f"{name} {given[name]}: compare.py sets it for every run; give {instead[name]}")
    for arm, flags in own.items():
        for name in flags.keys() & common.keys():
            raise UserError(f"{name} {common[name]}: the arm {arm} sets it, too")


def plan(asked: dict, output: Path) -> list[Run]:
    """All runs of a comparison; ``asked`` is what comparison.json holds."""
    arms, extra, expert_models = asked["arms"], asked["flags"], asked["expert_models"]
    refuse_flags(arms, extra)
    script, runs = find_script(asked["script"]), []
    for seed, env_id, (arm, arm_flags) in itertools.product(asked["seeds"], asked["env_ids"], arms.items()):
        folder = folder_name(env_id)
        model = output.absolute() / "experts" / f"{folder}.npz"
        if expert_models is not None:
            model = Path(expert_models.replace("{env_id}", env_id)).absolute()
        needs_expert = any("{expert_model}" in flag for flag in arm_flags)
        if needs_expert and not model.exists() and expert_models is not None:
            raise UserError(f"--expert-models {expert_models}: there is no {model}")
        if needs_expert and not model.exists() and EXPERT not in arms:
            raise UserError(f"--arms {arm} needs `{EXPERT}` among the arms, whose best run is the expert, or --expert-models")
        flags = arm_flags
        for word, meaning in (("{expert_model}", model), ("{env_id}", env_id), ("{repository}", REPOSITORY)):
            flags = [flag.replace(word, str(meaning)) for flag in flags]
        flags = ["--env-id", env_id, *flags, "--seed", str(seed), "--total-timesteps", str(asked["total_timesteps"]), *extra]
        flags += ["--wandb-arm", arm] if "--track" in extra else []
        path = output.absolute() / "runs" / folder / arm / str(seed)
        expert = model if needs_expert and expert_models is None else None
        runs.append(Run(env_id, arm, seed, asked["total_timesteps"], path, script, tuple(flags), expert))
    return runs


def refuse_other_arguments(run: Run) -> None:
    """Refuses other arguments than those that the run was started with."""
    if run.run_dir is None:
        return
    path = run.run_dir / "args.json"
    try:
        made = json.loads(path.read_text())
        before = by_name(made["command"][1:])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): remove {run.run_dir}, and the run starts again") from None
    before.pop("--runs-dir", None)
    asked = by_name(run.flags)
    places = [str(REPOSITORY), *([str(run.expert)] if run.expert else [])]
    for name in [name for name, value in asked.items() if any(place in value for place in places)]:
        before[name] = asked[name]  # an arm's {repository} or {expert_model}: the clone or the comparison may have moved
    for name in asked.keys() - before.keys():  # defaults count, too
        if str(made.get("args", {}).get(name.strip("-").replace("-", "_"))) == asked[name]:
            before[name] = asked[name]
    if other := different(asked, before):
        given, had = other
        raise UserError(f"two runs of one name with different arguments: {given} is asked for, {had} is in {run.run_dir}")
