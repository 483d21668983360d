"""Tests of cleanrl_scripts.common.environments: environments as the scripts make them."""

import pytest
from gymnasium.spaces import Discrete

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.environments import make_env, refuse_action_space
from cleanrl_scripts.common.errors import UserError


def arguments(env_id, env_kwargs="{}"):
    return RunArgs("test", env_id=env_id, env_kwargs=env_kwargs)


def test_an_environment_is_made_with_its_arguments():
    assert make_env(arguments("Pendulum-v1", '{"g": 1.62}')).unwrapped.g == 1.62


def test_a_discrete_action_space_is_sent_to_the_script_that_takes_it():
    with pytest.raises(UserError, match=r"got Discrete\(2\); ppo_camel.py takes it"):
        refuse_action_space("CartPole-v1", "TD3", Discrete(2), discrete=False, bounded=True)
    refuse_action_space("CartPole-v1", "this PPO", Discrete(2), discrete=True, bounded=False)


@pytest.mark.parametrize(
    ("env_kwargs", "message"),
    [
        ("g=1.62", "--env-kwargs must be a JSON object, such as '{\"obs_type\": \"ram\"}', got 'g=1.62'"),
        ("[1.62]", "--env-kwargs must be a JSON object"),
        ('{"h": 1.62}', """--env-id Pendulum-v1 --env-kwargs '{"h": 1.62}': TypeError: """),
    ],
)
def test_arguments_that_cannot_be_are_one_sentence(env_kwargs, message):
    with pytest.raises(UserError) as error:
        make_env(arguments("Pendulum-v1", env_kwargs))
    assert str(error.value).startswith(message)
