"""ppo_camel.py with one part taken out: --without PART, and all arguments of ppo_camel.py.

    python benchmarks/ppo_camel_ablations.py --without critic --env-id Hopper-v4

audition: the one candidate teaches, whatever it returns (--prior must name one, as shipped does); it plays a single episode
critic: the clone fits the actor alone
frozen: the normaliser of observations goes on learning
nothing: ppo_camel.py as it is, to compare with

What PPO alone has instead of a copy's own settings, ppo_camel.py takes itself: --clone-gamma 0.99, --clone-minibatches 32,
--warmup-steps 0.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the scripts do, from anywhere

from cleanrl_scripts import ppo_camel
from cleanrl_scripts.common.actor_critic import ActorCritic
from cleanrl_scripts.common.audition import CHANCE, NOTHING, Audition
from cleanrl_scripts.common.errors import UserError, run_script


def without_audition() -> None:
    def appoint(teachers, clone_steps, rng):
        teacher, *others = set(teachers) - {CHANCE, NOTHING}
        if others:
            raise UserError(f"--without audition: --prior must name one policy, got {len(others) + 1}")
        played = {teacher: [teachers[teacher].play(seed=int(rng.integers(2**31)))]}
        return Audition(played, teacher, f"The agent begins as a copy of {teacher}: there was no audition.", True)

    ppo_camel.audition = appoint


def without_critic() -> None:
    def unknown(self):
        return np.full(sum(len(episode.rewards) for episode, _ in self.episodes), np.nan, np.float32)

    ppo_camel.Clone.returns = unknown  # where the return is unknown, the critic learns nothing


def without_frozen() -> None:
    normalized = ActorCritic.normalized

    def drifting(self, observation, update=False):
        if update and self.is_frozen:
            self.observations.update(observation.ravel())
        return normalized(self, observation, update)

    ActorCritic.normalized = drifting


PARTS = {"audition": without_audition, "critic": without_critic, "frozen": without_frozen, "nothing": lambda: None}


def main() -> None:
    arguments = sys.argv[1:]
    command = arguments
    if "--resume" in arguments:
        run_dir = Path(arguments[arguments.index("--resume") + 1])
        command = json.loads((run_dir / "args.json").read_text())["command"]
    part = command[command.index("--without") + 1] if "--without" in command[:-1] else None
    if part not in PARTS:
        raise UserError(f"--without must be one of {', '.join(PARTS)}, got {part}")
    PARTS[part]()
    if "--without" in arguments:
        del arguments[(at := arguments.index("--without")) : at + 2]
    ppo_camel.main(arguments)


if __name__ == "__main__":
    run_script(main, "ppo_camel_ablations.py")
