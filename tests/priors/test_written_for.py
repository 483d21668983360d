"""A prior is refused in an environment that it was not written for, with the difference in the message."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text, Tuple

from llmwrappers import LLMActionMask, priors
from llmwrappers.priors import load_candidates, load_prior
from llmwrappers.priors.written_for import env_facts, family, require_written_for, space_facts

PROVENANCE = {path.parent.name: json.loads(path.read_text("utf-8")) for path in priors.SHIPPED.glob("*/provenance.json")}
SERVED = [(name, env_id) for name, facts in sorted(PROVENANCE.items()) for env_id in facts["serves"]]

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")


def hopper_with_its_position():
    return gym.make("Hopper-v4", exclude_current_positions_from_observation=False)


@pytest.mark.parametrize(("name", "env_id"), SERVED)
def test_the_spaces_of_a_shipped_prior_are_those_of_the_environments_that_it_serves(name, env_id):
    env = gym.make(env_id)
    assert PROVENANCE[name]["spaces"][env_id] == env_facts(env)
    assert list(PROVENANCE[name]["spaces"]) == PROVENANCE[name]["serves"]
    assert callable(load_prior(env_id, candidate=1, env=env))
    env.close()


@pytest.mark.parametrize(
    ("make", "prior", "message"),
    [
        (
            hopper_with_its_position,
            "Hopper-v4",
            r"the prior 'Hopper-v4' was written for another form of Hopper-v4: "
            r'its observation is \{"shape": \[11\]\}, here it is \{"shape": \[12\]\}; prior_of_another_env=True ',
        ),
        (
            lambda: gym.make("Walker2d-v4"),
            "HalfCheetah-v4",
            r"the prior 'HalfCheetah-v4' was written for HalfCheetah-v4, HalfCheetah-v5, not for Walker2d-v4; ",
        ),
        (
            lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1)),
            "Pendulum-v1",
            r'its action is \{"shape": \[1\], "low": -2\.0, "high": 2\.0\}, here it is \{"shape": \[1\], "low": -1\.0,',
        ),
    ],
    ids=["another observation", "another environment", "another action"],
)
def test_it_is_refused_unless_it_is_asked_for(make, prior, message):
    env = make()
    with pytest.raises(ValueError, match=message):
        load_prior(prior, env=env, candidate=1)
    with pytest.raises(ValueError, match=message):
        load_candidates(prior, env)
    with pytest.raises(ValueError, match=message):
        LLMActionMask(env, prior, candidate=1)
    assert callable(load_prior(prior, 1, env, prior_of_another_env=True))
    assert len(load_candidates(prior, env, prior_of_another_env=True)) == 5
    masked = LLMActionMask(env, prior, candidate=1, prior_of_another_env=True)
    assert masked.reset(seed=0)[1]["prior_faults"] == 0
    masked.close()


def test_a_mask_that_is_made_from_its_spec_asks_no_more_than_before():
    masked = LLMActionMask(hopper_with_its_position(), "Hopper-v4", prior_of_another_env=True)
    again = gym.make(masked.spec)
    assert again.get_wrapper_attr("reset")(seed=0)[1]["mask_active"]


def test_what_the_prior_is_handed_in_place_of_the_observation_is_its_own_business():
    env = hopper_with_its_position()
    assert callable(load_prior("Hopper-v4", env=env, prior_input="simulator"))
    with pytest.raises(ValueError, match="not for Walker2d-v4"):
        load_prior("Hopper-v4", env=gym.make("Walker2d-v4"), prior_input="simulator")


def test_code_of_ones_own_is_never_refused(tmp_path):
    path = tmp_path / "Hopper-v4.py"
    path.write_text("def policy(obs):\n    return obs[:1]\n")
    for prior in (path, f"trusted:{path}", lambda observation: observation):
        assert callable(load_prior(prior, env=gym.make("Pendulum-v1")))


class Named(gym.Env):
    """Observes a dict; has no id."""

    action_space = Discrete(3, start=1)

    def __init__(self, **parts):
        self.observation_space = Dict(parts)


def write(folder, serves, env):
    facts = {"serves": serves, "spaces": dict.fromkeys(serves, env_facts(env))}
    (folder / "provenance.json").write_text(json.dumps(facts))


def test_text_does_not_count_which_no_prior_was_shown(tmp_path):
    write(tmp_path, ["Car-v1"], Named(speed=Box(-1, 1, (3,))))
    require_written_for(tmp_path, Named(mission=Text(9), speed=Box(-1, 1, (3,))), None, "mine")


def test_the_names_in_a_dict_count(tmp_path):
    written_for = Named(speed=Box(-1, 1, (3,)), gear=Discrete(5))
    write(tmp_path, ["Car-v1"], written_for)
    require_written_for(tmp_path, Named(gear=Discrete(5), speed=Box(-9, 9, (3,))), None, "mine")  # in any order and bounds
    for other, said in (
        (Named(velocity=Box(-1, 1, (3,)), gear=Discrete(5)), '"velocity": {"shape": [3]}'),
        (Named(speed=Box(-1, 1, (3,))), '{"speed": {"shape": [3]}}'),
        (Named(speed=Box(-1, 1, (2,)), gear=Discrete(5)), '"speed": {"shape": [2]}'),
        (Named(speed=Box(-1, 1, (3,)), gear=Discrete(5, start=1)), '"gear": {"n": 5, "start": 1}'),
    ):
        with pytest.raises(ValueError, match="'mine' was written for another form of this environment: its obs") as error:
            require_written_for(tmp_path, other, None, "mine")
        assert said in str(error.value).partition("here it is")[2]
        assert '"gear": {"n": 5, "start": 0}, "speed": {"shape": [3]}' in str(error.value).partition("here it is")[0]
        require_written_for(tmp_path, other, "objects", "mine")  # it is handed something else


def test_another_version_and_another_module_are_the_same_environment(tmp_path):
    env = gym.make("Pendulum-v1")
    for serves in (["Pendulum-v0"], ["module:Pendulum-v7"], ["Pendulum"], ["Other-v0", "Pendulum-v1"]):
        write(tmp_path, serves, env)
        require_written_for(tmp_path, env, None, "mine")
    for serves in (["mine/Pendulum-v1"], ["Pendulums-v1"]):
        write(tmp_path, serves, env)
        with pytest.raises(ValueError, match="not for Pendulum-v1"):
            require_written_for(tmp_path, env, None, "mine")


def test_a_provenance_that_says_nothing_refuses_nothing(tmp_path):
    (tmp_path / "provenance.json").write_text("{}")
    require_written_for(tmp_path, gym.make("Pendulum-v1"), None, "mine")


def test_the_family_of_an_id():
    assert family("A/Push-v1") == family("module:A/Push-v2") == family("A/Push") == ("A", "Push")
    assert family("Push-v1") == (None, "Push") != family("A/Push-v1")


@pytest.mark.parametrize(
    ("space", "facts"),
    [
        (Box(np.float32([-1, 0]), np.float32([1, 1])), {"shape": [2], "low": [-1.0, 0.0], "high": 1.0}),
        (Box(0, 255, (2, 3), np.uint8), {"shape": [2, 3], "low": 0.0, "high": 255.0}),
        (Tuple((Discrete(3), Box(-1, 1, ()))), [{"n": 3, "start": 0}, {"shape": [], "low": -1.0, "high": 1.0}]),
        (Dict(b=MultiBinary(2), a=Discrete(3)), {"a": {"n": 3, "start": 0}, "b": {"shape": [2]}}),
        (gym.spaces.Text(5), {"shape": None}),
    ],
)
def test_the_facts_of_a_space_are_json(space, facts):
    found = space_facts(space, with_bounds=True)
    assert json.loads(json.dumps(found)) == found == facts
    assert list(found) == list(facts)
