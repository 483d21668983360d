"""BoundedEpisodes: an episode that never ends is cut, counted and said."""

import gymnasium as gym
import pytest
from conftest import Endless

from llmwrappers.bounded_episodes import BoundedEpisodes, bounded
from llmwrappers.making import make
from llmwrappers.priors.measurement import measure, random_actions


@pytest.fixture(autouse=True)
def registered():
    gym.register("Endless-v0", Endless)
    gym.register("Limited-v0", Endless, max_episode_steps=20_000)
    yield
    for env_id in ("Endless-v0", "Limited-v0"):
        del gym.registry[env_id]


def test_an_endless_episode_is_cut_and_said_once():
    env = make("Endless-v0")
    with pytest.warns(UserWarning, match="an episode of Endless-v0 was cut after 10000 steps") as warned:
        measurement = measure(env, random_actions(env.action_space, seed=0), episodes=2, seed=0)
    assert len(warned) == 1
    assert measurement.steps == [10_000, 10_000]
    assert env.get_wrapper_attr("cut_episodes") == 2
    assert measurement.survival is None  # the bound is no time limit of the environment
    assert env.spec.max_episode_steps is None


def test_an_environment_that_ends_its_episodes_is_left_alone():
    env = BoundedEpisodes(Endless(own_end=3), max_episode_steps=3)
    for _ in range(2):
        env.reset()
        assert [env.step(env.action_space.sample())[3] for _ in range(3)] == [False, False, True]
    assert env.cut_episodes == 0


def test_a_time_limit_of_its_own_counts_even_where_it_is_longer():
    env = gym.make("Limited-v0")
    assert bounded(env) is env


def test_gymnasium_makes_it_again_from_its_spec():
    """As Minari's recover_environment does."""
    again = gym.make(BoundedEpisodes(gym.make("Endless-v0"), max_episode_steps=7).spec)
    assert again.get_wrapper_attr("max_episode_steps") == 7
