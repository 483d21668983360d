"""ppo_camel.py with one part changed: --change PART, and all arguments of ppo_camel.py.

    python benchmarks/ppo_camel_ablations.py --change critic --env-id Hopper-v4

audition: no audition; the one candidate teaches, whatever it returns (--prior must name one, as shipped does)
critic: behaviour cloning trains the actor alone
frozen: the observation normaliser is updated after cloning, too
pull: a Kullback-Leibler divergence keeps the policy near the clone; its weight falls to 0 until step 200 000
quiet: PPO alone (--prior none) with a clone's settings: its exploration noise, discount factor, minibatches and warm-up
nothing: ppo_camel.py unchanged, the baseline

ppo_camel.py itself takes PPO's settings instead of a clone's: --clone-gamma 0.99, --clone-minibatches 32, --warmup-steps 0.
"""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import torch
from gymnasium.spaces import Box

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the scripts do, from anywhere

from cleanrl_scripts import ppo_camel
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.learning.actor_critic import ActorCritic
from llmwrappers.errors import UserError
from llmwrappers.priors.audition import CHANCE, NOTHING, Audition
from llmwrappers.priors.dagger import DAgger


def without_audition() -> None:
    def appoint(teachers, clone_steps, rng):
        teacher, *others = set(teachers) - {CHANCE, NOTHING}
        if others:
            raise UserError(f"--change audition: --prior must name one policy, got {len(others) + 1}")
        played = {teacher: [teachers[teacher].play(int(rng.integers(2**31)), most_steps=clone_steps // 2)]}
        return Audition(played, teacher, "better", beats_nothing=True)

    ppo_camel.audition = appoint


def without_critic() -> None:
    def unknown(self):
        return np.full(sum(len(episode.rewards) for episode, _ in self.episodes), np.nan, np.float32)

    DAgger.returns = unknown  # where the return is unknown, the critic learns nothing


def without_frozen() -> None:
    normalized = ActorCritic.normalized

    def drifting(self, observation, update=False):
        if update and self.is_frozen:
            self.observations.update(observation.ravel())
        return normalized(self, observation, update)

    ActorCritic.normalized = drifting


PULL, PULL_UNTIL = 0.05, 200_000  # what steadied Hopper while the normaliser drifted


def with_pull() -> None:
    finish, update, loss, save, load = (
        DAgger.finish,
        ppo_camel.PPO.update,
        ppo_camel.PPO.loss,
        ActorCritic.state_dict,
        ActorCritic.load_state_dict,
    )

    def finish_and_keep(self):
        finish(self)
        self.agent.copied, self.agent.steps = copy.deepcopy(self.agent.actor), self.clone_steps

    def update_and_count(self, learning_rate):
        update(self, learning_rate)
        if self.agent.is_copy:
            self.agent.steps += self.args.num_envs * self.args.num_steps

    def loss_and_pull(self, observations, actions, advantages, returns, old_values, old_log_probs):
        total, parts = loss(self, observations, actions, advantages, returns, old_values, old_log_probs)
        agent = self.agent
        if agent.is_copy and agent.steps < PULL_UNTIL:
            with torch.no_grad():
                means = agent.copied(observations)
            # KL(clone || policy) of two Gaussians of the same deviation
            divergence = 0.5 * ((agent(observations)[0] - means) / agent.log_std.exp()).square().sum(dim=1).mean()
            total = total + PULL * (1 - agent.steps / PULL_UNTIL) * divergence
        return total, parts

    def save_with_copy(self):
        state = save(self)
        return {**state, "copied": self.copied.state_dict(), "steps": self.steps} if self.is_copy else state

    def load_with_copy(self, state):
        load(self, state)
        if self.is_copy:
            self.copied, self.steps = copy.deepcopy(self.actor), state["steps"]
            self.copied.load_state_dict(state["copied"])

    DAgger.finish, ppo_camel.PPO.update, ppo_camel.PPO.loss = (
        finish_and_keep,
        update_and_count,
        loss_and_pull,
    )
    ActorCritic.state_dict, ActorCritic.load_state_dict = save_with_copy, load_with_copy


def quiet() -> None:
    begin = ppo_camel.PPO.__init__

    def begin_quiet(self, args, envs, agent, *others):
        if args.prior != "none":
            raise UserError(f"--change quiet is PPO alone: it needs --prior none, got --prior {args.prior}")
        begin(self, args, envs, agent, *others)
        agent.is_copy = True  # of nobody, but with a copy's settings
        if isinstance(space := envs[0].action_space, Box):
            half_range = torch.from_numpy((space.high - space.low).ravel() / 2).to(agent.device)
            agent.log_std.data.copy_((args.clone_std * half_range).log())

    ppo_camel.PPO.__init__ = begin_quiet  # pyright: ignore[reportAttributeAccessIssue]


PARTS = {
    "audition": without_audition,
    "critic": without_critic,
    "frozen": without_frozen,
    "pull": with_pull,
    "quiet": quiet,
    "nothing": lambda: None,
}


def main() -> None:
    arguments = [part for word in sys.argv[1:] for part in (word.split("=", 1) if word.startswith("--") else [word])]
    command = arguments
    if "--resume" in arguments[:-1]:
        path = Path(arguments[arguments.index("--resume") + 1]) / "args.json"
        try:
            command = json.loads(path.read_text())["command"]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"--resume: no run of this script: {path}: {error}") from None
    part = command[command.index("--change") + 1] if "--change" in command[:-1] else None
    if part not in PARTS:
        raise UserError(f"--change must be one of {', '.join(PARTS)}, got {part}")
    PARTS[part]()
    if "--change" in arguments:
        del arguments[(at := arguments.index("--change")) : at + 2]
    if "--resume" not in arguments:  # a change may come in the course of a run, and would need another compilation
        arguments = ["--compile", "off", *arguments]
    ppo_camel.main(arguments)


if __name__ == "__main__":
    run_script(main, "ppo_camel_ablations.py")
