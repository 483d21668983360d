"""The priors that ``--prior`` stands for: shipped ones, files, folders, trained experts, random actions."""

import hashlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.spaces.utils import flatten

from cleanrl_scripts.common.arguments import CommonArgs
from llmwrappers import PriorPolicy, load_agent, load_prior
from llmwrappers.agent import AGENT_FILE
from llmwrappers.errors import UserError
from llmwrappers.priors import NoPrior, load_candidates, shipped_priors
from llmwrappers.priors.measurement import play
from llmwrappers.priors.prior_input import read_prior_input, require_prior_input
from llmwrappers.priors.written_for import family


@dataclass(frozen=True)
class PriorSource:
    """What ``--prior`` stands for: no prior, random actions, an agent, all candidates, trusted code, or contained code.

    Attributes:
        path: of a file or a folder, or a shipped prior's name; "" where there is none
    """

    kind: Literal["none", "random", "expert", "auto", "trusted", "code"]
    path: str = ""

    @classmethod
    def parse(cls, prior: str) -> "PriorSource":
        """Reads KIND or KIND:PATH; whatever is neither is the name or the path of code.

        Example:
            >>> PriorSource.parse("expert:runs/td3"), PriorSource.parse("my_package:mine/Env-v0")  # doctest: +ELLIPSIS
            (PriorSource(kind='expert', path='runs/td3'), PriorSource(kind='code', path='my_package:mine/Env-v0'))
        """
        kind, colon, path = prior.partition(":")
        if prior in ("none", "random", "expert", "auto"):
            return cls(prior)
        if colon and kind in ("expert", "auto", "trusted"):
            return cls(kind, path)
        return cls("code", prior)

    @property
    def name(self) -> str:
        """Its name: that of its file or folder, or its kind."""
        if self.kind == "expert" or not self.path:
            return self.kind
        path = Path(self.path)
        return path.stem if path.suffix == ".py" else path.name


@dataclass
class PriorArgs(CommonArgs):
    # The prior
    prior: str = "shipped"
    """shipped (env_id's) | none | random | a shipped prior's name | FILE.py | trusted:FILE.py | FOLDER | expert:RUN_DIR"""
    candidate: int | None = None
    """which candidate of a shipped prior, or of a folder of write-policy (if not given: the default)"""
    prior_of_another_env: bool = False
    """if toggled, a prior that was written for another environment is allowed"""
    prior_input: str | None = None
    """what the prior reads instead of the observation: ram (Atari's), simulator (MuJoCo's qpos and qvel), or a key of info"""
    radius: float = 0.3
    """half-width of the interval around the prior's action, as a fraction of half the action range, in (0, 2]"""

    @property
    def prior_source(self) -> PriorSource:
        """What ``prior`` stands for."""
        return PriorSource.parse(self.prior)


FIRST_STEPS = 200
"""Before training, a prior that the user named is tried for so many steps."""
PRIOR_RANGES = {"in (0, 2]": ("radius",)}


def arm_name(args: PriorArgs) -> str:
    """none | random | expert | auto | llm, or the name of the user's own file or folder."""
    return "llm" if args.prior == args.env_id or args.prior in shipped_priors() else args.prior_source.name


def check_prior(args: PriorArgs) -> None:
    """Replaces "shipped" with the environment's id, and refuses arguments of the prior that do not fit together."""
    if args.prior == "shipped":
        args.prior = args.env_id
    kind = args.prior_source.kind
    if args.candidate is not None and kind in ("none", "random", "auto", "expert"):
        raise UserError(f"--candidate {args.candidate} needs a shipped prior or a folder, got --prior {args.prior}")
    if args.prior_input is not None and kind in ("none", "random", "expert"):
        raise UserError(f"--prior-input {args.prior_input} needs a prior that is code, got --prior {args.prior}")


def load_priors(args: PriorArgs, env: gym.Env) -> dict[str, PriorPolicy]:
    """The policies that --prior stands for, by name: one, or with ``auto`` all candidates; none for ``none``.

    Args:
        env: the policies read its raw observations and return its native actions

    Raises:
        UserError: there is no such prior, or it does not fit this environment
    """
    observations, space = env.observation_space, env.action_space
    source = args.prior_source
    try:
        if source.kind == "none":
            return {}
        if source.kind == "random":
            return {"random": random_prior(observations, space, args.seed)}
        require_prior_input(env, args.prior_input)
        written_for = (env, args.prior_of_another_env, args.prior_input)
        if source.kind == "auto":
            return load_candidates(source.path or args.env_id, *written_for)
        name = source.name if args.candidate is None else f"policy-{args.candidate}"
        is_expert = source.kind == "expert"
        policy = expert_prior(source.path, args.env_id) if is_expert else load_prior(args.prior, args.candidate, *written_for)
        if args.prior_input is not None:
            read_prior_input(env, args.prior_input, *env.reset(seed=args.seed))  # refuses a key that info lacks
    except (ValueError, TypeError, OSError, gym.error.Error) as error:
        without = "; --prior none trains without one" if isinstance(error, NoPrior) else ""
        raise UserError(f"--env-id {args.env_id} --prior {args.prior}: {error}{without}") from None
    # An error of the environment is none of the prior, and keeps its traceback.
    first_steps = itertools.islice(play(env, policy, args.seed, args.prior_input), FIRST_STEPS)
    require_no_fault(args, {name: next((step.fault for step in first_steps if step.fault), "")})
    return {name: policy}


def require_no_fault(args: PriorArgs, faults: dict[str, str]) -> None:
    """Refuses a prior that the user named, with its first fault; with ``auto`` such a prior only leaves the audition."""
    for name, fault in faults.items():
        if fault and args.prior_source.kind != "auto":
            raise UserError(
                f"--env-id {args.env_id} --prior {args.prior}: {name} failed ({fault}). Mend it, or "
                "train without one: --prior none"
            )


def prior_files(args: PriorArgs) -> dict[str, str]:
    """The hash of the file or folder of the prior, if it is the user's own."""
    if not args.prior_source.path:
        return {}
    path = Path(args.prior_source.path)
    names = "*.py", "provenance.json", AGENT_FILE  # policies, which of them is the default, an expert
    files = [path] if path.is_file() else sorted(file for name in names for file in path.glob(name))
    return {"prior": hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()} if files else {}


def random_prior(observation_space: gym.Space, action_space: gym.Space, seed: int) -> PriorPolicy:
    """CAMEL's random mask: a uniformly random action, fixed for each observation so that a resumed run sees it again."""

    def policy(observation):
        digest = hashlib.blake2b(np.asarray(flatten(observation_space, observation)).tobytes(), digest_size=8).digest()
        rng = np.random.default_rng((seed, int.from_bytes(digest, "little")))
        if isinstance(action_space, Discrete):
            return {int(action_space.start + rng.integers(action_space.n))}
        return rng.uniform(action_space.low, action_space.high)  # pyright: ignore[reportAttributeAccessIssue]

    return policy


def expert_prior(path: str, env_id: str) -> PriorPolicy:
    """CAMEL's expert mask: the final agent of a run of these scripts on the same environment, in any version of it."""
    try:
        agent = load_agent(path)
    except (OSError, ValueError) as error:
        raise UserError(f"--prior expert:{path}: {error}") from None
    if family(agent.env_id) != family(env_id):
        raise UserError(f"--prior expert:{path}: its env_id is {agent.env_id}, --env-id is {env_id}")
    # On a Discrete space a prior answers with the set of the actions that it allows.
    return lambda observation: {action} if isinstance(action := agent(observation), int) else action
