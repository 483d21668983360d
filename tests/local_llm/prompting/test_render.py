"""Tests of local_llm.prompting.render: the prompts as recorded, and what goes wrong."""

import inspect
import os
import re
import subprocess
import sys
import tomllib

import ale_py  # noqa: F401  it registers ALE/Pong-v5
import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT
from gymnasium.spaces import Box

from llmwrappers import LLMActionMask
from llmwrappers.containment.lint import MODULES
from local_llm.prompting import facts, render
from local_llm.prompting.facts import FactsDoNotFit, FactsError, MissingFact
from local_llm.prompting.render import fill, main, render_prompt

PRIORS = ROOT / "llmwrappers" / "priors" / "shipped"
SERVED = {id: path.name for path in facts.FACTS_FOLDER.glob("*.toml") for id in tomllib.loads(path.read_text())["serves"]}
MUJOCO = sorted(
    id
    for id in SERVED
    if id.rpartition("/")[2].startswith(("Hopper", "Walker", "Ant", "HalfC", "Humanoid", "Swimmer", "InvertedPendulum"))
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings into a file in the working directory


@pytest.fixture
def facts_folder(tmp_path, monkeypatch):
    """A folder of facts in which only Pendulum has some."""
    (tmp_path / "Pendulum-v1.toml").write_text((facts.FACTS_FOLDER / "Pendulum-v1.toml").read_text("utf-8"), "utf-8")
    monkeypatch.setattr(facts, "FACTS_FOLDER", tmp_path)
    return tmp_path


def make(env_id):
    return gym.make(env_id, disable_env_checker=True)


# ---------------------------------------------------------------------------------------------------------------- prompts


@pytest.mark.skipif(
    not gym.__version__.startswith("1.4."), reason="other versions of Gymnasium word the documentation otherwise"
)
@pytest.mark.parametrize("env_id", ["Hopper-v4", "Walker2d-v4", "Ant-v4"])
def test_the_prompts_that_have_recorded_replies_come_out_byte_for_byte(env_id):
    assert render_prompt(env_id).encode() == (PRIORS / env_id / "prompt.txt").read_bytes()


@pytest.mark.parametrize("env_id", SERVED)
def test_every_environment_with_facts_has_a_prompt(env_id):
    make(env_id).close()
    prompt = render_prompt(env_id)
    assert f"environment `{env_id}`" in prompt
    assert not re.search(r"<<|>>|\{\w+\}", prompt.split("# Facts")[1])
    assert "None" not in prompt.split("# Facts")[1]
    for heading in ("Arguments", "Version History", "Credits", "References"):
        assert f"## {heading}" not in prompt
    assert ("# MuJoCo model (XML)\n```xml\n" in prompt) == (env_id in MUJOCO)
    headings = [line for line in prompt.splitlines() if line.startswith("# ")]
    assert [heading for heading in headings if "MuJoCo" not in heading and "Entries" not in heading] == [
        "# Environment documentation",
        "# Facts",
        "# Task",
        "# Rules for the code",
    ]


def test_action_bounds_and_half_width_are_native():
    prompt = render_prompt("Humanoid-v4")
    assert "- Action: numpy array of shape (17,), each entry in [-0.4, 0.4]." in prompt
    assert "a box of half-width 0.12 around your action" in prompt
    assert "- Return a numpy array of shape (17,), clipped to [-0.4, 0.4]." in prompt


def test_the_half_width_is_the_masks():
    assert inspect.signature(LLMActionMask).parameters["radius"].default == render.RADIUS


def test_what_the_code_may_do_is_what_the_process_lets_it():
    rules = render_prompt("CartPole-v1").split("# Rules for the code\n")[1]
    (modules,) = re.findall(r"^- You may import (.*); nothing else is there\.$", rules, re.MULTILINE)
    assert modules.split(", ") == [name for name in MODULES if name != "__future__"]
    assert "- A call may take 20 ms.\n" in rules
    assert "`policy(obs)` may keep state" in rules
    assert "Not allowed" not in rules


def test_the_prompts_that_have_recorded_replies_keep_their_rules():
    rules = render_prompt("Pendulum-v1").split("# Rules for the code\n")[1]
    assert "- Only `import numpy as np` and `import math` are allowed.\n" in rules
    assert "is a pure function of `obs`: no global state" in rules
    assert f"- The code is checked before it runs. Not allowed: {render.NOT_ALLOWED}.\n" in rules
    assert "Not allowed" not in render_prompt("Hopper-v4")
    assert "may keep state" not in rules
    assert " ms." not in rules


def test_an_environment_without_facts_is_described_by_its_documentation_and_its_spaces():
    prompt = render_prompt("CartPole-v1")
    assert "A pole is attached by an un-actuated joint to a cart" in prompt
    assert "- Action: one of 2 discrete actions, numbered from 0." in prompt
    assert "- Each entry of the observation lies in its own interval (low [-4.8, -inf, -0.418879, -inf], high [4.8," in prompt
    assert "\n- An episode lasts at most 500 steps.\n" in prompt
    assert "It must collect as much reward as possible" in prompt
    assert "returns the action to take, or which of the 2 actions are allowed." in prompt
    assert (
        "- Return an integer from 0 to 1, the action; or a set of those that are allowed; or a numpy array of shape" in prompt
    )
    assert "of shape (2,) of 0 and 1: which actions are allowed" in prompt
    assert "clipped to" not in prompt
    assert "half-width" not in prompt


def test_an_environment_without_docstring_shows_its_source():
    class Silent(gym.Env):
        observation_space = Box(-1, 1, (2,), np.float32)
        action_space = Box(np.float32([-1, 0]), np.float32([1, 3]))

    gym.register("llmwrappers-tests/Silent-v0", entry_point=Silent)
    try:
        prompt = render_prompt("llmwrappers-tests/Silent-v0")
    finally:
        del gym.registry["llmwrappers-tests/Silent-v0"]
    assert "Its source:\n\n```python\nclass Silent(gym.Env):\n    observation_space = Box(-1, 1, (2,), np.float32)\n" in prompt
    assert "- Each entry of the observation lies in [-1, 1]." in prompt
    assert "each entry in its own interval (low [-1, 0], high [1, 3])." in prompt
    assert "half-width [0.3, 0.45] around" in prompt
    assert "\n- An episode lasts until the environment ends it.\n" in prompt


class Costly(gym.Wrapper):
    """Takes a price off the reward of every step."""

    def __init__(self, env, price=0.5):
        super().__init__(env)
        self.price = price


def test_wrappers_tell_what_they_change():
    """The user's own with their words, Gymnasium's by their names; in the order in which they were put on."""

    def make():
        return gym.wrappers.ClipReward(Costly(gym.make("Pendulum-v1", disable_env_checker=True), price=2.0), min_reward=-1.0)

    gym.register("llmwrappers-tests/Costly-v0", entry_point=make, max_episode_steps=50)
    prompt = render_prompt("llmwrappers-tests/Costly-v0")
    costly = "## Wrapper Costly(price=2.0)\n\nTakes a price off the reward of every step.\n"
    assert costly in prompt
    assert prompt.index(costly) < prompt.index("## Wrapper ClipReward(min_reward=-1.0, max_reward=None)\n")
    assert "TimeLimit" not in prompt
    assert "The environment is wrapped" not in render_prompt("Pendulum-v1")


def test_a_dict_observation_is_described_key_by_key():
    prompt = render_prompt("llmwrappers-tests/DictOneStep-v0")
    assert (
        "- Observation: a dict of numpy arrays, of which a policy reads what it needs by key:\n"
        "  - `obs['goal']`: array of shape (2,), each entry in [-1, 1]\n"
        "  - `obs['position']`: array of shape (1,), each entry in [-1, 1]\n- Action"
    ) in prompt


def test_a_flattened_dict_tells_where_each_key_lies():
    def make():
        return gym.wrappers.FlattenObservation(gym.make("llmwrappers-tests/DictOneStep-v0"))

    gym.register("llmwrappers-tests/FlatOneStep-v0", entry_point=make, disable_env_checker=True)
    prompt = render_prompt("llmwrappers-tests/FlatOneStep-v0")
    assert (
        "- Observation: numpy float32 array of shape (3,), flattened; whatever the documentation lists first, its entries are "
        "in this order:\n  - `obs[0:2]`: goal, array of shape (2,), each entry in [-1, 1]\n"
        "  - `obs[2:3]`: position, array of shape (1,), each entry in [-1, 1]\n- Action"
    ) in prompt


def test_an_older_version_is_documented_by_the_newest_one():
    prompt = render_prompt("Reacher-v4")
    assert "## Observation Space" in prompt
    assert '<mujoco model="reacher">' in prompt


def test_arguments_are_stated():
    assert "was made with g=1.62; where" in render_prompt("Pendulum-v1", g=1.62)
    assert "An episode lasts at most 50 steps." in render_prompt("Pendulum-v1", max_episode_steps=50)


def test_what_an_environment_is_registered_with_is_stated_where_there_are_no_facts():
    breakout = render_prompt("ALE/Breakout-v5", obs_type="ram")
    assert "was made with game='breakout', repeat_action_probability=0.25, " in breakout
    assert ", obs_type='ram'; where" in breakout
    assert "was made with" not in render_prompt("Hopper-v4")
    assert "was made with" not in render_prompt("Acrobot-v1", render_mode="rgb_array")


def test_what_an_environment_is_made_with_is_stated_where_it_is_plain():
    """The repr of an object is no fact: a table of prices is cut in its middle, a function has an address."""

    class Table:
        def __repr__(self):
            return "PRICES"

    gym.register("llmwrappers-tests/Trading-v0", entry_point=lambda **_: gym.make("llmwrappers-tests/OneStep-v0"))
    plain = {"fee": 0.1, "name": "BTC", "is_free": False, "sides": [-1, 0, {"up": (1, None)}], "weights": np.array([1, 2])}
    other = {"prices": Table(), "rule": max, "tables": [Table()], "noise": np.zeros(2000), "kind": Table}
    prompt = render_prompt("llmwrappers-tests/Trading-v0", **plain, **other)
    words = "fee=0.1, name='BTC', is_free=False, sides=[-1, 0, {'up': (1, None)}], weights=array([1, 2])"
    assert f"- This environment was made with {words}; where" in prompt
    assert "PRICES" not in prompt


# ----------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("env_id", "arguments"),
    [
        ("Hopper-v4", {"exclude_current_positions_from_observation": False}),
        ("Ant-v4", {"use_contact_forces": True}),
        ("Ant-v5", {"include_cfrc_ext_in_observation": False}),
        ("LunarLanderContinuous-v3", {"continuous": False}),
    ],
)
def test_arguments_that_change_the_spaces_are_refused_where_there_are_facts(env_id, arguments):
    make(env_id).close()
    with pytest.raises(FactsDoNotFit, match=rf"no facts fit {env_id} as it was made: {SERVED[env_id]} describes"):
        render_prompt(env_id, **arguments)


def test_a_missing_fact_names_the_file_and_the_key(facts_folder):
    path = facts_folder / "Pendulum-v1.toml"
    text = path.read_text()
    for key in ("goal", "reason", "expertise", "episode_steps", "serves"):
        path.write_text(re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE))
        with pytest.raises(MissingFact, match=rf"Pendulum-v1.toml lacks the key '{key}'"):
            render_prompt("Pendulum-v1")
    for key in ("observation", "action"):
        path.write_text(re.sub(rf"^{key} = \[.*?^\]\n", "", text, flags=re.MULTILINE | re.DOTALL))
        with pytest.raises(MissingFact, match=rf"Pendulum-v1.toml lacks the key '{key}'"):
            render_prompt("Pendulum-v1")
    path.write_text(text.replace('unit = "rad/s", ', ""))
    with pytest.raises(MissingFact, match="lacks the key 'unit' in the entry of observation at 2"):
        render_prompt("Pendulum-v1")


def test_what_is_no_fact_is_refused(facts_folder):
    path = facts_folder / "Pendulum-v1.toml"
    text = path.read_text()
    for wrong, message in [
        ('gaol = "stand"\n' + text, "Pendulum-v1.toml has an unknown key 'gaol'; known are serves, "),
        (text.replace("unit = ", "units = "), "unknown key 'units' in the entry of observation at 0"),
        (text.replace("index = 2", "index = 3"), "Pendulum-v1.toml: an index of 2 should come next in observation, got 3"),
        (text + "goal =", "Pendulum-v1.toml is not valid TOML: "),
    ]:
        path.write_text(wrong)
        with pytest.raises(FactsError, match=re.escape(message)):
            render_prompt("Pendulum-v1")


def test_facts_without_entries_do_not_fit(facts_folder):
    path = facts_folder / "Pendulum-v1.toml"
    path.write_text(re.sub(r"observation = \[.*?^\]\n", "observation = []\n", path.read_text(), flags=re.MULTILINE | re.DOTALL))
    with pytest.raises(FactsDoNotFit, match=re.escape("observation of shape (0,)")):
        render_prompt("Pendulum-v1")


def test_several_files_may_serve_an_environment_that_its_arguments_change(facts_folder):
    text = (facts_folder / "Pendulum-v1.toml").read_text()
    (facts_folder / "A.toml").write_text(re.sub(r"    \{ index = 2,.*\n", "", text).replace("swing the pendulum", "SWING"))
    assert "It must swing the pendulum up" in render_prompt("Pendulum-v1")


def test_an_unknown_environment_is_refused_as_everywhere():
    with pytest.raises(gym.error.UnregisteredEnv, match=r"no environment is called NoSuchEnvironment-v0; .* module:"):
        render_prompt("NoSuchEnvironment-v0")


def test_a_package_that_is_missing_is_named(facts_folder):
    path = facts_folder / "Pendulum-v1.toml"
    path.write_text('module = "no_such_package"\n' + path.read_text())
    with pytest.raises(gym.error.DependencyNotInstalled, match=r"Pendulum-v1 needs a package.*no_such_package"):
        render_prompt("Pendulum-v1")
    with pytest.raises(gym.error.UnregisteredEnv, match="cannot import no_such_module, which should register CartPole-v1"):
        render_prompt("no_such_module:CartPole-v1")


def test_an_environment_that_cannot_be_made_is_one_line(capsys):
    def broken():
        raise RuntimeError("no simulator")

    gym.register("llmwrappers-tests/Unmade-v0", entry_point=broken)
    assert main(["--env-id", "llmwrappers-tests/Unmade-v0"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r".*Error: llmwrappers-tests/Unmade-v0 cannot be made: RuntimeError: no simulator.*\n", err)


def test_an_action_space_that_no_mask_serves_is_refused():
    with pytest.raises(ValueError, match=r"llmwrappers-tests/Unbounded-v0 needs a Discrete action space or a Box of floats"):
        render_prompt("llmwrappers-tests/Unbounded-v0")


def test_an_action_space_is_refused_before_anything_is_made_of_the_environment(monkeypatch, capsys):
    monkeypatch.setattr(render, "environment_values", lambda *_: pytest.fail("rendered"))
    monkeypatch.setattr(render, "roll_out", lambda *_: pytest.fail("played"))
    env = gym.make("llmwrappers-tests/OneStep-v0")
    env.action_space = Box(0, 9, (2,), np.int64)
    gym.register("llmwrappers-tests/Whole-v0", entry_point=lambda: env)
    assert main(["--env-id", "llmwrappers-tests/Whole-v0"]) == 2
    assert (
        "got Box(0, 9, (2,), int64); register the environment with gymnasium.wrappers.TransformAction"
        in capsys.readouterr().err
    )


def test_a_template_may_only_ask_for_what_there_is(facts_folder, monkeypatch):
    monkeypatch.setattr(render, "PROMPTS", facts_folder)
    (facts_folder / "camel.md").write_text("{goal} {colour}\n")
    with pytest.raises(MissingFact, match=r"asks for \{colour\}, which is none of "):
        render_prompt("Pendulum-v1")


def test_values_are_not_read_as_template():
    assert fill("{a}<< {b}>>", {"a": "<<{b}>>", "b": "{a}"}) == "<<{b}>> {a}"


def test_the_command_prints_a_prompt_or_one_line(capsys):
    assert main(["--env-id", "Pendulum-v1"]) == 0
    assert capsys.readouterr().out == render_prompt("Pendulum-v1") + "\n"
    assert main(["--env-id", "NoSuchEnvironment-v0"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"llmwrappers prompt: UnregisteredEnv: .*\n", err)
    with pytest.raises(SystemExit, match="2"):
        main([])


LOUD = """
import ctypes, gymnasium as gym
from conftest import OneStep

class Loud(OneStep):
    def __init__(self):
        super().__init__()
        print("python made it")
        ctypes.CDLL(None).printf(b"C made it\\n")

    def step(self, action):
        print("python stepped it")
        ctypes.CDLL(None).printf(b"C stepped it\\n")
        return super().step(action)

gym.register("Loud-v0", entry_point=Loud, disable_env_checker=True)
"""


def test_what_a_library_prints_is_no_part_of_the_prompt(tmp_path):
    """From C, too, which holds back what it writes to a file until the process ends."""
    (tmp_path / "loud.py").write_text(LOUD)
    paths = os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "tests")])
    command = [sys.executable, "-m", "local_llm.prompting.render", "--env-id", "loud:Loud-v0"]
    with open(tmp_path / "prompt.txt", "w") as prompt:
        done = subprocess.run(
            command, stdout=prompt, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "prompt.txt").read_text()
    assert text.startswith("You are an expert in control.")
    assert text.rstrip().endswith("- A call may take 20 ms.")
    facts = text.partition("# Facts")[2]
    for words in ("made it", "stepped it"):
        assert words not in facts
        assert f"python {words}" in done.stderr
        assert f"C {words}" in done.stderr
