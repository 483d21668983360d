"""llmwrappers/sb3: what the buffers hold, evaluation alone, deployment, PPO warm-started from a prior."""

import copy
import math
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from conftest import Echo, Line, linear
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from llmwrappers import (
    CriticalStateRewarder,
    EpsilonMaskSchedule,
    LLMActionMask,
    LLMActionOverride,
    to_native,
    to_normalized,
)
from llmwrappers.sb3 import (
    ExecutedActionDictReplayBuffer,
    ExecutedActionHerReplayBuffer,
    ExecutedActionNStepReplayBuffer,
    ExecutedActionReplayBuffer,
    alone,
    begin_as,
    continue_schedule,
    unmasked,
)
from llmwrappers.sb3.warm_start import FrozenMeanStd


def small():
    """Small networks; a new dict each, for SAC writes into the one that it is given."""
    return {"policy_kwargs": {"net_arch": [8]}}


class Received(gym.Wrapper):
    """Keeps every action that the environment receives."""

    def __init__(self, env):
        super().__init__(env)
        self.actions = []

    def step(self, action):
        self.actions.append(np.array(action))
        return self.env.step(action)


class Goal(gym.Env):
    """Echo with a goal, as HerReplayBuffer wants one."""

    action_space = Box(-2.0, 6.0, (2,), np.float32)
    observation_space = DictSpace({key: Box(-9, 9, (2,)) for key in ("observation", "achieved_goal", "desired_goal")})

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return {key: self.np_random.normal(size=2).astype(np.float32) for key in self.observation_space}, {}

    def step(self, action):
        self.t += 1
        observation = {key: np.asarray(action, np.float32) for key in self.observation_space}
        return observation, 0.0, False, self.t == 5, {}


def wander(obs):
    """A prior of Echo and Goal that moves with what it sees."""
    first = obs["observation"] if isinstance(obs, dict) else obs
    return np.sin(7 * np.asarray(first)[:2])


# ------------------------------------------------------------------------------------------------ what the learner stores


@pytest.mark.parametrize("mapping", ["rescale", "clip"])
@pytest.mark.parametrize(
    "learner", [stable_baselines3.TD3, stable_baselines3.DDPG, stable_baselines3.SAC, sb3_contrib.TQC, sb3_contrib.CrossQ]
)
def test_the_buffer_holds_what_the_environments_received(learner, mapping):
    envs = [Received(Echo(-2.0, 6.0)) for _ in range(2)]
    vector = DummyVecEnv([lambda env=env: Monitor(LLMActionMask(env, wander, 0.2, 0.7, mapping)) for env in envs])
    model = learner(
        "MlpPolicy", vector, 1e-3, 1000, **small(), seed=0, learning_starts=20,
        replay_buffer_class=ExecutedActionReplayBuffer,
    )  # fmt: skip
    for env in envs:
        env.actions.clear()
    model.learn(60)
    received = np.stack([env.actions for env in envs], axis=1)
    assert len(received) == 30
    stored = model.replay_buffer.actions[: len(received)]
    np.testing.assert_allclose(to_native(stored, np.float32(-2), np.float32(6)), received, atol=1e-5)
    assert received.std() > 0.1


@pytest.mark.parametrize("buffer", [ExecutedActionDictReplayBuffer, ExecutedActionHerReplayBuffer])
def test_buffers_of_dict_observations(buffer):
    env = Received(Goal())
    model = stable_baselines3.SAC(
        "MultiInputPolicy", LLMActionMask(env, wander, 0.2, mapping="clip"), 1e-3, 200, **small(), seed=0,
        learning_starts=20, replay_buffer_class=buffer,
    )  # fmt: skip
    model.learn(40)
    stored = model.replay_buffer.actions[:40, 0]
    np.testing.assert_allclose(to_native(stored, np.float32(-2), np.float32(6)), env.actions, atol=1e-5)


def test_the_buffer_of_dqn_holds_what_the_environments_received():
    """The mask allows one action; DQN, which chooses at random here, would store the other one in half of the steps."""
    envs = [Received(gym.make("CartPole-v1")) for _ in range(2)]
    vector = DummyVecEnv([lambda env=env: LLMActionMask(env, lambda obs: int(obs[2] + obs[3] > 0)) for env in envs])
    model = stable_baselines3.DQN(
        "MlpPolicy", vector, buffer_size=200, seed=0, exploration_fraction=1.0, exploration_final_eps=1.0,
        replay_buffer_class=ExecutedActionReplayBuffer,
    )  # fmt: skip
    for env in envs:
        env.actions.clear()
    model.learn(80)
    assert model.replay_buffer.actions[:40, :, 0].tolist() == np.stack([env.actions for env in envs], axis=1).tolist()


@pytest.mark.parametrize("n_steps", [1, 3])
def test_n_steps_of_executed_actions(n_steps):
    env = Received(Echo(-2.0, 6.0))
    buffer = {
        "replay_buffer_class": ExecutedActionNStepReplayBuffer,
        "replay_buffer_kwargs": {"n_steps": n_steps, "gamma": 0.5},
    }
    model = stable_baselines3.SAC("MlpPolicy", LLMActionMask(env, wander, 0.2), buffer_size=100, **small(), **buffer)
    model.learn(40)
    np.testing.assert_allclose(to_native(model.replay_buffer.actions[:40, 0], -2, 6), env.actions, atol=1e-5)
    sampled = model.replay_buffer.sample(50)
    assert sampled.discounts.min() == pytest.approx(0.5**n_steps)


def test_the_buffer_around_an_override_alone_holds_what_the_environment_received():
    """Stable-Baselines3 stores actions of [-2, 6] in [-1, 1]."""
    env = Received(Echo(-2.0, 6.0))
    guided = LLMActionOverride(env, lambda obs: (wander(obs), 1.0) if obs[1] > 1 else None, patience_steps=0)
    model = stable_baselines3.SAC(
        "MlpPolicy", guided, buffer_size=100, **small(), replay_buffer_class=ExecutedActionReplayBuffer, learning_starts=20
    )
    model.learn(40)
    np.testing.assert_allclose(to_native(model.replay_buffer.actions[:40, 0], -2, 6), env.actions, atol=1e-5)


def test_an_override_in_a_rescale_action_is_refused_though_each_executed_action_lies_in_it():
    guided = LLMActionOverride(Echo(-0.4, 0.4), lambda obs: ([0.4, 0.4], 1.0), patience_steps=0)
    rescaled = gym.wrappers.RescaleAction(guided, np.float32(-1), np.float32(1))
    model = stable_baselines3.SAC("MlpPolicy", rescaled, buffer_size=100, replay_buffer_class=ExecutedActionReplayBuffer)
    with pytest.raises(ValueError, match="the action space of the mask or the override, got Box.*leave that wrapper out"):
        model.learn(40)


def test_a_buffer_without_a_mask_is_refused():
    model = stable_baselines3.TD3("MlpPolicy", Echo(), replay_buffer_class=ExecutedActionReplayBuffer, buffer_size=100)
    with pytest.raises(
        ValueError, match=r"needs an LLMActionMask or an LLMActionOverride, got an environment whose infos hold"
    ):
        model.learn(5)


def test_a_mask_whose_action_space_was_replaced_is_refused():
    env = gym.wrappers.RescaleAction(masked(), np.float32(-1), np.float32(1))
    model = stable_baselines3.TD3("MlpPolicy", env, replay_buffer_class=ExecutedActionReplayBuffer, buffer_size=100)
    for use, space in (
        (lambda: model.learn(5), "the action space of the mask"),
        (lambda: unmasked(model), "LLMActionMask's action"),
    ):
        with pytest.raises(ValueError, match=f"needs {space}.*got Box.*leave that wrapper out"):
            use()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_a_copy_of_the_action_space_knows_the_native_one(copied):
    space = copied(LLMActionMask(Echo(-2.0, 6.0), wander).action_space)
    assert space == Box(-1.0, 1.0, (2,), np.float32)
    assert space.native_space == Box(-2.0, 6.0, (2,), np.float32)


# ------------------------------------------------------------------------------------------------ evaluation and deployment


def masked(total_timesteps=1000):
    return EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), lambda obs: [obs[1]]), total_timesteps)


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_alone_turns_the_mask_off_in_a_vector(vector):
    envs = vector([lambda: Monitor(masked())] * 2)
    assert alone(envs) is envs
    envs.reset()
    for _ in range(5):
        assert not any(info["mask_active"] for info in envs.step(np.zeros((2, 1), np.float32))[3])
    assert envs.env_method("get_wrapper_attr", "mask_epsilon") == [0.0, 0.0]
    envs.close()


def test_alone_turns_a_mask_without_a_schedule_off():
    env = alone(Monitor(LLMActionMask(gym.make("Pendulum-v1"), lambda obs: [obs[1]])))
    assert not env.reset(seed=0)[1]["mask_active"]
    with pytest.raises(ValueError, match="alone needs an environment with an LLMActionMask, or with an LLM's guidance, got"):
        alone(gym.make("Pendulum-v1"))


@pytest.mark.parametrize("is_masked", [False, True])
def test_alone_turns_the_guidance_off(is_masked):
    def guided():
        env = CriticalStateRewarder(
            LLMActionOverride(Echo(), lambda obs: ([1.0, 1.0], 1.0)), lambda obs: ([0, 0], 1.0), alpha=9.0
        )
        return Monitor(LLMActionMask(env, wander) if is_masked else env)

    for envs in (DummyVecEnv([guided] * 2), alone(DummyVecEnv([guided] * 2))):
        envs.reset()
        _, rewards, _, infos = envs.step(np.full((2, 2), -0.5, np.float32))
        is_alone = not infos[0]["critical"]
        assert infos[0]["executed_action"].tolist() == ([-0.5, -0.5] if is_alone else [1.0, 1.0])
        assert rewards.tolist() == ([-1.0, -1.0] if is_alone else [11.0, 11.0])
    assert is_alone


def test_alone_names_the_way_for_a_vector_of_gymnasium():
    with pytest.raises(TypeError, match=r"or a VecEnv of Stable-Baselines3, got SyncVectorEnv.*make each alone"):
        alone(gym.vector.SyncVectorEnv([masked]))
    envs = gym.vector.SyncVectorEnv([lambda: alone(masked())] * 2)
    assert envs.reset(seed=0)[1]["mask_active"].tolist() == [False, False]


def test_alone_where_the_environment_itself_counts_its_steps():
    class Counts(gym.Wrapper):
        elapsed_steps = 7

    bare = Counts(gym.make("Pendulum-v1"))
    with pytest.raises(ValueError, match="needs an environment with an LLMActionMask"):
        alone(bare)
    masked = LLMActionMask(bare, lambda obs: [1.0])
    for env in (alone(masked), alone(EpsilonMaskSchedule(masked, total_timesteps=100))):
        assert not env.reset(seed=0)[1]["mask_active"]
        assert not env.step(env.action_space.sample())[4]["mask_active"]
    assert bare.elapsed_steps == 7


def test_eval_callback_evaluates_the_agent_alone():
    evaluated = []

    class Seen(gym.Wrapper):
        def step(self, action):
            *result, info = self.env.step(action)
            evaluated.append(bool(info["mask_active"]))
            return *result, info

    model = stable_baselines3.TD3("MlpPolicy", masked(), **small(), buffer_size=500, seed=0)
    model.learn(60, callback=EvalCallback(Monitor(Seen(alone(masked()))), n_eval_episodes=1, eval_freq=30, verbose=0))
    assert len(evaluated) == 400
    assert not any(evaluated)


def test_a_loaded_model_goes_on_with_its_schedule(tmp_path):
    envs = make_vec_env(lambda: masked(total_timesteps=500), n_envs=2)  # 1000 in all: the mask fades over 200
    model = stable_baselines3.TD3("MlpPolicy", envs, **small(), buffer_size=500)
    model.learn(100).save(tmp_path / "model")
    envs.close()
    fresh = make_vec_env(lambda: masked(total_timesteps=500), n_envs=2)
    model = stable_baselines3.TD3.load(tmp_path / "model", fresh)
    continue_schedule(model)
    assert fresh.env_method("get_wrapper_attr", "mask_epsilon") == pytest.approx([0.5, 0.5])
    with pytest.raises(ValueError, match="continue_schedule needs a model whose environments have an EpsilonMaskSchedule"):
        continue_schedule(stable_baselines3.TD3.load(tmp_path / "model"))


@pytest.mark.parametrize("normalised", [False, True])
def test_unmasked_is_the_agent_on_the_bare_environment_to_the_last_bit(tmp_path, normalised):
    envs = make_vec_env(lambda: alone(masked()))
    envs = VecNormalize(envs) if normalised else envs
    model = stable_baselines3.TD3("MlpPolicy", envs, **small(), buffer_size=500, seed=0).learn(50)
    model.save(tmp_path / "model")
    agent = unmasked(model if normalised else stable_baselines3.TD3.load(tmp_path / "model"))
    bare, alike = gym.make("Pendulum-v1"), alone(masked())
    first, _ = bare.reset(seed=3)
    second, _ = alike.reset(seed=3)
    for _ in range(50):
        assert np.array_equal(first, second)
        first = bare.step(agent(first))[0]
        normal = envs.normalize_obs(second) if normalised else second
        second = alike.step(model.predict(normal, deterministic=True)[0])[0]


def test_unmasked_around_an_override_alone_is_the_agent():
    guided = LLMActionOverride(Echo(-2.0, 6.0), lambda obs: None, patience_steps=0)
    model = stable_baselines3.SAC("MlpPolicy", guided, **small())
    observation, _ = Echo().reset(seed=0)
    assert unmasked(model)(observation).tolist() == model.predict(observation, deterministic=True)[0].tolist()


def test_unmasked_knows_no_units_but_the_environment_s():
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    with pytest.raises(ValueError, match="whose actions RescaleAction rescales: play it in RescaleAction"):
        unmasked(stable_baselines3.PPO("MlpPolicy", env))


def test_a_recurrent_agent_keeps_its_state_until_its_reset():
    model = sb3_contrib.RecurrentPPO("MlpLstmPolicy", alone(masked()), seed=0)
    agent, observation = unmasked(model), np.array([1.0, 0.0, 0.0], np.float32)
    first, second = model.predict(observation, deterministic=True)
    second = model.predict(observation, second, deterministic=True)[0]
    assert not np.array_equal(first, second)
    for _ in range(2):
        assert np.array_equal(agent(observation), 2 * first)
        assert np.array_equal(agent(observation), 2 * second)
        agent.reset()
    assert not hasattr(unmasked(stable_baselines3.PPO("MlpPolicy", masked())), "reset")


def test_a_maskable_agent_takes_the_legal_actions():
    model = sb3_contrib.MaskablePPO("MlpPolicy", LLMActionMask(gym.make("CartPole-v1"), lambda obs: {0, 1}), seed=0)
    for legal in ([True, False], [False, True]):
        assert unmasked(model)(np.zeros(4, np.float32), action_masks=np.array(legal)) == legal.index(True)


# --------------------------------------------------------------------------------------- PPO warm-started from a prior


class PaidLine(Line):
    """Pays for playing as ``linear`` does."""

    def step(self, action):
        reward = -float(np.abs(action - linear(self.x)).sum())
        observation, _, *rest = super().step(action)
        return observation, reward, *rest


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("learner", [stable_baselines3.PPO, stable_baselines3.A2C, sb3_contrib.TRPO])
def test_the_model_begins_as_its_prior(learner, normalised):
    """To within 6 % of half the action range, in states that it has not seen."""
    envs = make_vec_env(PaidLine)
    envs = VecNormalize(envs, gamma=0.5) if normalised else envs
    model = learner("MlpPolicy", envs, gamma=0.5, n_steps=128, seed=0, device="cpu")
    found = begin_as(model, linear, total_timesteps=8000, clone_steps=4000, warmup_steps=2000)
    assert str(found.verdict).startswith("Teacher: prior.")
    assert model.num_timesteps == 4000
    fresh = [PaidLine().reset(seed=seed)[0] for seed in range(1000, 1200)]
    agent = unmasked(model)
    errors = np.array([agent(observation) - linear(observation) for observation in fresh]) / 3.0
    assert np.sqrt(np.mean(errors**2)) < 0.06
    assert model.policy.log_std.exp().tolist() == pytest.approx([0.2 * 3.0] * 2)
    if normalised:
        before = agent(fresh[0])
        assert isinstance(envs.obs_rms, FrozenMeanStd)
        assert FrozenMeanStd(envs.obs_rms, np.array([False, True, False])).var.tolist() == [
            envs.obs_rms.var[0],
            1.0,
            envs.obs_rms.var[2],
        ]
        envs.obs_rms.update(np.full((100, 3), 1e6))
        assert np.array_equal(agent(fresh[0]), before)
    rates = []
    schedule = model.lr_schedule
    model.lr_schedule = lambda progress: rates.append(schedule(progress)) or rates[-1]
    model.learn(8000 - model.num_timesteps, reset_num_timesteps=False)
    assert rates[0] == pytest.approx(rates[-1] * 128 / 2000)
    assert rates[len(rates) // 4] == pytest.approx(rates[-1] / 2, rel=0.2)
    assert model.num_timesteps >= 8000


def test_its_critic_knows_the_returns():
    """The prior loses nothing and random deviations of 0.2 little: returns near the sum of what its own noise costs."""
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(PaidLine), gamma=0.5, seed=0, device="cpu")
    begin_as(model, linear, total_timesteps=8000, clone_steps=4000)
    states = torch.as_tensor(np.stack([PaidLine().reset(seed=seed)[0] for seed in range(200)]))
    values = model.policy.predict_values(states).detach().numpy()
    # Two components, each |N(0, 0.6)| = 0.48 off on the average, times 1 + 1/2 + ...; the prior's own episodes lose nothing.
    assert -2.1 < values.mean() < -0.4


def test_an_action_of_one_value_only_is_cloned_too():
    class Fixed(Line):
        action_space = Box(np.float32([-2.0, 1.0]), np.float32([4.0, 1.0]))

        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, float(action[0]), *rest

    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(Fixed), seed=0, device="cpu")
    assert begin_as(model, lambda observation: [4.0, 1.0], total_timesteps=8000, clone_steps=1000).teacher == "prior"
    assert all(value.isfinite().all() for value in model.policy.state_dict().values())


def test_a_prior_that_is_no_better_than_chance_leaves_the_model_as_it_was():
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(PaidLine), seed=0, device="cpu")
    before = copy.deepcopy(model.policy.state_dict())
    found = begin_as(model, lambda observation: [4.0, -2.0], total_timesteps=8000, clone_steps=1000)
    assert (found.teacher, str(found.verdict).startswith("No teacher")) == ("", True)
    assert all(torch.equal(before[name], value) for name, value in model.policy.state_dict().items())
    assert 0 < model.num_timesteps == found.steps <= 1000


@pytest.mark.parametrize(("envs", "rollouts"), [(1, 4), (2, 4), (1, 1)])
def test_the_warm_up_goes_on_in_another_learn_and_after_loading(tmp_path, envs, rollouts):
    """32 rollouts of 128 steps: the k-th update has k / 32 of the learning rate, as in ppo_camel.py."""
    vector = make_vec_env(PaidLine, n_envs=envs)
    model = stable_baselines3.PPO("MlpPolicy", vector, learning_rate=0.01, n_steps=128 // envs, seed=0, device="cpu")
    begin_as(model, linear, total_timesteps=9000, clone_steps=1000, warmup_steps=4096)
    rates = []
    for _ in range(3):
        model.learn(rollouts * 128, reset_num_timesteps=False)
        rates.append(model.policy.optimizer.param_groups[0]["lr"])
        model.save(tmp_path / "model")
        model = stable_baselines3.PPO.load(tmp_path / "model", vector, device="cpu")
    assert rates == pytest.approx([0.01 * rollouts * n / 32 for n in (1, 2, 3)])


def test_a_prior_that_fails_is_an_error():
    """As in ppo_camel.py; of several candidates one that fails only leaves the audition."""
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(PaidLine), seed=0, device="cpu")
    with pytest.raises(ValueError, match=r"the prior failed \(IndexError.*\)"):
        begin_as(model, lambda observation: observation["speed"], total_timesteps=8000, clone_steps=1000)
    assert model.num_timesteps == 0


def test_a_candidate_that_fails_leaves_the_audition_whatever_its_file_is_called(tmp_path):
    (tmp_path / "prior.py").write_text("def policy(obs):\n    return obs['speed']\n")
    (tmp_path / "sound.py").write_text("def policy(obs):\n    return [0.0, 0.0]\n")
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(PaidLine), seed=0, device="cpu")
    found = begin_as(model, tmp_path, total_timesteps=8000, clone_steps=1000)
    assert list(found.faults) == ["prior"]


def test_a_prior_of_another_environment_plays_where_that_is_allowed():
    gym.register("llmwrappers-tests/Swing-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=200)
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env("llmwrappers-tests/Swing-v0"), seed=0, device="cpu")
    arguments = {"prior": "Pendulum-v1", "candidate": 1, "total_timesteps": 4000, "clone_steps": 3000}
    with pytest.raises(ValueError, match="prior_of_another_env=True"):
        begin_as(model, **arguments)
    assert begin_as(model, **arguments, prior_of_another_env=True).teacher == "prior"


def test_what_begin_as_returns_says_the_verdict_and_not_every_observation():
    """A notebook shows what the last line of a cell returns."""
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env("CartPole-v1"), seed=0, device="cpu")
    found = begin_as(model, lambda obs: int(obs[2] + obs[3] > 0), total_timesteps=9000, clone_steps=2000)
    played = f"copy_return={found.copy_return}, keeps_state=False"
    assert repr(found) == f"Audition(best='prior', reason='better', beats_nothing=True, {played})"


def test_a_clone_that_falls_short_and_actions_far_from_0_are_said():
    """A network whose outputs are actions does not reach 2000 in 1000 steps."""

    class Heater(PaidLine):
        action_space = Box(0.0, 2000.0, (2,), np.float32)

        def step(self, action):
            observation, _, *rest = Line.step(self, action)
            return observation, -float(np.abs(action - 2000.0).sum()), *rest

    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(Heater), seed=0, device="cpu")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = begin_as(model, lambda observation: [2000.0, 2000.0], total_timesteps=8000, clone_steps=1000)
    far, short = (str(warning.message) for warning in said)
    assert far.startswith("the actions are in Box(0.0, 2000.0")
    assert short.startswith("The clone returns -")
    assert short.endswith("or clone_steps are too few.")
    assert str(found.verdict).endswith(short)


def test_a_clone_that_never_ends_an_episode_ends_the_audition_of_it(monkeypatch):
    """A clone sees no key in its hand, so it walks to the key again and again; the environment has no time limit."""

    class KeyFirst(gym.Env):
        observation_space, action_space = Box(0.0, 1.0, (5,), np.float32), Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x, self.has_key = 2, False
            return self.observation_space.high * (np.arange(5) == self.x), {}

        def step(self, action):
            self.x = int(np.clip(self.x + (1 if action else -1), 0, 4))
            self.has_key |= self.x == 0
            done = self.has_key and self.x == 4
            return self.observation_space.high * (np.arange(5) == self.x), -1.0, done, False, {}

    class KeyThenGoal:
        def reset(self):
            self.has_key = False

        def act(self, obs):
            self.has_key |= bool(obs[0])
            return int(self.has_key)

    monkeypatch.setattr("llmwrappers.sb3.warm_start.EPISODES", 1)
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env(KeyFirst), seed=0, device="cpu")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        begin_as(model, KeyThenGoal(), total_timesteps=2000, clone_steps=800)
    cut, short = (str(warning.message) for warning in said)
    assert cut.startswith("an episode of KeyFirst was cut after 10000 steps")
    assert "keeps state that the observation does not show" in short


def test_a_prior_in_rescaled_actions_is_cloned_without_a_warning():
    envs = make_vec_env(lambda: gym.wrappers.RescaleAction(PaidLine(), np.float32(-1), np.float32(1)))
    model = stable_baselines3.PPO("MlpPolicy", envs, seed=0, device="cpu")
    found = begin_as(model, lambda obs: (linear(obs) - 1.0) / 3.0, total_timesteps=4000, clone_steps=1000)
    assert found.teacher == "prior"


def test_a_prior_of_a_discrete_space():
    model = stable_baselines3.PPO("MlpPolicy", make_vec_env("CartPole-v1"), seed=0, device="cpu")
    found = begin_as(model, lambda obs: int(obs[2] + obs[3] > 0), total_timesteps=9000, clone_steps=3000)
    assert found.teacher == "prior"
    env, agent, returned = gym.make("CartPole-v1"), unmasked(model), 0.0
    observation, done = env.reset(seed=5)[0], False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(int(agent(observation)))
        returned, done = returned + float(reward), terminated or truncated
    assert returned > 150  # random actions: 22


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (lambda: stable_baselines3.TD3("MlpPolicy", PaidLine(), buffer_size=10), {}, "needs a PPO, A2C or TRPO with MlpPolicy"),
        (lambda: stable_baselines3.PPO("MlpPolicy", PaidLine(), use_sde=True), {}, "without gSDE"),
        (lambda: stable_baselines3.PPO("MlpPolicy", masked()), {}, "without an LLMActionMask"),
        (
            lambda: stable_baselines3.PPO("MlpPolicy", CriticalStateRewarder(PaidLine(), lambda obs: None)),
            {},
            "without an LLM's guidance",
        ),
        (lambda: sb3_contrib.RecurrentPPO("MlpLstmPolicy", PaidLine()), {}, "needs a PPO, A2C or TRPO with MlpPolicy"),
        (lambda: stable_baselines3.PPO("MlpPolicy", SubprocVecEnv([PaidLine])), {}, "the first environment of a DummyVecEnv"),
        (lambda: stable_baselines3.PPO("MultiInputPolicy", Goal()), {}, "Box observations .a Dict: FlattenObservation"),
        (lambda: stable_baselines3.A2C("MlpPolicy", PaidLine()).learn(5), {}, "an untrained model, got one of 5 steps"),
        (
            lambda: stable_baselines3.PPO("MlpPolicy", PaidLine()),
            {"clone_steps": 500},
            "clone_steps < total_timesteps, got",
        ),
        (lambda: stable_baselines3.PPO("MlpPolicy", PaidLine()), {"prior": "Ant-v9"}, "no prior named 'Ant-v9'"),
        (lambda: stable_baselines3.PPO("MlpPolicy", PaidLine()), {"total_timesteps": "500"}, "must be whole numbers, .*'500'"),
        (lambda: stable_baselines3.PPO("MlpPolicy", PaidLine()), {"std": 0}, "std must be a number above 0, .*got 0"),
        (lambda: stable_baselines3.PPO("MlpPolicy", PaidLine()), {"poor_std": None}, "poor_std must be .*got None"),
        (lambda: stable_baselines3.PPO("MlpPolicy", PaidLine()), {"warmup_steps": -3}, "warmup_steps must be .*got -3"),
    ],
)
def test_what_cannot_begin_is_refused(make, arguments, message):
    model = make()
    with pytest.raises((TypeError, ValueError), match=message):
        begin_as(model, **{"prior": linear, "total_timesteps": 500, "clone_steps": 100, **arguments})
    model.get_env().close()


def test_infinity_ends_a_schedule():
    env = masked()
    env.elapsed_steps = math.inf
    env.reset(seed=0)
    assert not env.step(np.zeros(1, np.float32))[4]["mask_active"]
    assert env.elapsed_steps == math.inf
    with pytest.raises(ValueError, match="elapsed_steps must not be negative, got nan"):
        env.elapsed_steps = math.nan


def test_normalised_and_native_are_inverse():
    low, high = np.float32([-2.0, 0.5]), np.float32([6.0, 0.75])
    x = np.float32([-0.25, 1.0])
    np.testing.assert_allclose(to_normalized(to_native(x, low, high), low, high), x, atol=1e-6)
