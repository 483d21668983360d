"""cleanrl_scripts/common/evaluation.py: the episodes of an evaluation."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.environments import make_env
from cleanrl_scripts.common.evaluation import evaluate
from llmwrappers.bounded_episodes import BoundedEpisodes


def test_an_evaluation_begins_differently_each_episode_and_alike_each_time():
    env, seen = gym.make("llmwrappers-tests/Reach-v0"), []

    def act(observation):
        seen.append(observation)
        return np.zeros(2, np.float32)

    for _ in range(2):
        evaluate(env, act, seed=1, episodes=3)
    first = np.array(seen[::25])  # of each episode's 25
    assert len(np.unique(first[:3], axis=0)) == 3
    np.testing.assert_array_equal(first[:3], first[3:])
    evaluate(env, act, seed=2, episodes=3)  # of the next run: nothing in common
    assert len(np.unique(seen[::25], axis=0)) == 6


def test_what_an_llm_added_to_the_rewards_is_not_counted():
    class Paid(gym.Wrapper):
        def step(self, action):
            observation, reward, *rest, info = self.env.step(action)
            return observation, reward + 0.5, *rest, {**info, "llm_reward": 0.5}

    env = gym.make("llmwrappers-tests/OneStep-v0")  # the reward is -(action - 0.8)^2
    assert evaluate(Paid(env), lambda observation: np.array([0.8], np.float32), seed=1, episodes=2) == 0.0


@pytest.mark.filterwarnings("ignore:an episode of")
def test_cut_episodes_are_counted(capsys):
    env = BoundedEpisodes(PendulumEnv(), max_episode_steps=5)
    for _ in range(2):
        evaluate(env, lambda observation: np.zeros(1, np.float32), seed=1, episodes=2)
        assert capsys.readouterr().out == "note: 2 of 2 episodes of the evaluation were cut (--max-episode-steps)\n"


def test_a_film_is_there_when_its_evaluation_has_ended(tmp_path):
    """Also of an evaluation of one episode, which no reset follows."""
    args = RunArgs(env_id="Pendulum-v1", eval_episodes=1)
    env = make_env(args, tmp_path / "videos")
    for name in ("first", "second"):
        evaluate(env, lambda observation: [0.0], seed=1, episodes=1, video_name=name)
        assert list(tmp_path.glob(f"videos/{name}-episode-*.mp4"))
    env.close()
    assert len(list(tmp_path.glob("videos/*.mp4"))) == 2
