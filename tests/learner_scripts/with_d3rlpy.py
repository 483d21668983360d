"""Behaviour cloning by d3rlpy of a prior's Minari dataset; MINARI_DATASETS_PATH says where the dataset lies.

Recorded with: python -m llmwrappers.priors --env-id Pendulum-v1 --minari pendulum/prior-v0 --episodes 20
"""

import d3rlpy
import minari
import numpy as np
from d3rlpy.algos import BCConfig
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.metrics import evaluate_qlearning_with_environment
from d3rlpy.preprocessing import MinMaxActionScaler

recorded = minari.load_dataset("pendulum/prior-v0")
env, episodes = recorded.recover_environment(), list(recorded)
dataset = d3rlpy.dataset.MDPDataset(
    # Minari keeps the observation after the last step, too
    observations=np.concatenate([episode.observations[:-1] for episode in episodes]),
    actions=np.concatenate([episode.actions for episode in episodes]),
    rewards=np.concatenate([episode.rewards for episode in episodes]),
    terminals=np.concatenate([episode.terminations for episode in episodes]),
    timeouts=np.concatenate([episode.truncations for episode in episodes]),
)
for stored, episode in zip(dataset.episodes, episodes, strict=True):
    assert np.array_equal(stored.observations, episode.observations[:-1])
    assert np.array_equal(stored.actions, episode.actions)

d3rlpy.seed(0)
agent = BCConfig(action_scaler=MinMaxActionScaler(env.action_space.low, env.action_space.high)).create()
agent.fit(dataset, n_steps=2000, n_steps_per_epoch=2000, logger_adapter=NoopAdapterFactory(), show_progress=False)
obs, _ = env.reset(seed=0)
env.step(agent.predict(obs[None])[0])  # the recovered environment is the bare one; actions are native
alone = evaluate_qlearning_with_environment(agent, env, n_trials=10)
print("alone:", alone, "the prior:", np.mean([episode.rewards.sum() for episode in episodes]))
assert alone > -500  # random actions return about -1200
