"""Tests of local_llm.render: the prompts as recorded, every fact against its environment, and what goes wrong."""

import inspect
import re
import tomllib

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT
from gymnasium.spaces import Box

from llmwrappers import LLMActionMask
from llmwrappers.sandbox.generated_policy import PolicyRejected, check_policy
from local_llm import render
from local_llm.render import FactsDoNotFit, FactsError, MissingFact, fill, load_facts, main, render_prompt

PRIORS = ROOT / "llmwrappers" / "priors" / "shipped"
SERVED = {id: path.name for path in render.PROMPTS.glob("*.toml") for id in tomllib.loads(path.read_text())["serves"]}
MUJOCO = sorted(
    id for id in SERVED if id.startswith(("Hopper", "Walker", "Ant", "HalfC", "Humanoid", "Swimmer", "InvertedPendulum"))
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings into a file in the working directory


@pytest.fixture
def facts_folder(tmp_path, monkeypatch):
    """A copy of the prompts' folder in which only Pendulum has facts."""
    for name in ("camel.md", "Pendulum-v1.toml"):
        (tmp_path / name).write_text((render.PROMPTS / name).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(render, "PROMPTS", tmp_path)
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


PROGRAMS = {
    "while": "while obs[0] > 0:\n        pass",
    "try": "try:\n        x = 1\n    except ValueError:\n        x = 2",
    "with": "with obs:\n        x = 1",
    "global": "global x\n    x = 1",
    "classes": "class A:\n        pass",
    "decorators": "@np.sin\n    def f(x):\n        return x",
    "recursion": "policy(obs)",
    "printing": "print(obs)",
}


def test_what_the_prompt_does_not_allow_is_what_the_check_refuses():
    assert re.findall(r"\w+", render.NOT_ALLOWED) == list(PROGRAMS)
    for program in PROGRAMS.values():
        with pytest.raises(PolicyRejected):
            check_policy(f"import numpy as np\ndef policy(obs):\n    {program}\n    return [0.0]\n")


def test_an_environment_without_facts_is_described_by_its_documentation_and_its_spaces():
    prompt = render_prompt("CartPole-v1")
    assert "A pole is attached by an un-actuated joint to a cart" in prompt
    assert "- Action: one of 2 discrete actions, numbered from 0." in prompt
    assert "- Each entry of the observation lies in its own interval (low [-4.8, -inf, -0.418879, -inf], high [4.8," in prompt
    assert "\n- An episode lasts at most 500 steps.\n" in prompt
    assert "It must collect as much reward as possible" in prompt
    assert "of shape (2,) of 0 and 1: which actions are allowed" in prompt
    assert "clipped to" not in prompt
    assert "half-width" not in prompt


def test_an_environment_without_documentation_says_so():
    class Silent(gym.Env):
        observation_space = Box(-1, 1, (2,), np.float32)
        action_space = Box(np.float32([-1, 0]), np.float32([1, 3]))

    gym.register("llmwrappers-tests/Silent-v0", entry_point=Silent)
    try:
        prompt = render_prompt("llmwrappers-tests/Silent-v0")
    finally:
        del gym.registry["llmwrappers-tests/Silent-v0"]
    assert "# Environment documentation\nThis environment has no documentation.\n" in prompt
    assert "- Each entry of the observation lies in [-1, 1]." in prompt
    assert "each entry in its own interval (low [-1, 0], high [1, 3])." in prompt
    assert "half-width [0.3, 0.45] around" in prompt
    assert "\n- An episode lasts until it terminates.\n" in prompt


def test_an_observation_that_is_no_box_is_described_by_its_space():
    prompt = render_prompt("llmwrappers-tests/DictOneStep-v0")
    assert "- Observation: Dict('goal': Box(" in prompt


def test_an_older_version_is_documented_by_the_newest_one():
    prompt = render_prompt("Reacher-v4")
    assert "## Observation Space" in prompt
    assert '<mujoco model="reacher">' in prompt


def test_arguments_are_stated():
    assert "was made with g=1.62; where" in render_prompt("Pendulum-v1", g=1.62)
    assert "An episode lasts at most 50 steps." in render_prompt("Pendulum-v1", max_episode_steps=50)


# ------------------------------------------------------------------------------------------------------------------ facts


@pytest.mark.parametrize("env_id", SERVED)
def test_the_facts_fit_the_environment(env_id):
    env = make(env_id)
    facts = load_facts(env)
    assert facts is not None
    spec = env.spec
    assert spec is not None
    kwargs = spec.kwargs
    if env_id.startswith("ALE/"):
        assert facts.episode_steps == kwargs["max_num_frames_per_episode"] / kwargs["frameskip"]
        assert facts.time_step == pytest.approx(kwargs["frameskip"] / 60)
        assert [entry.name for entry in facts.action] == env.unwrapped.get_action_meanings()
    else:
        assert facts.episode_steps == spec.max_episode_steps
    if (own := getattr(env.unwrapped, "dt", None)) is not None:
        assert facts.time_step in (None, own)
    elif "Walker-" in env_id or "Lander" in env_id:
        assert facts.time_step == 1 / inspect.getmodule(type(env.unwrapped)).FPS
    assert len({entry.name for entry in facts.observation}) == len(facts.observation)
    assert len({entry.name for entry in facts.action}) == len(facts.action)
    env.close()


LEGS = {"1": "front left", "2": "front right", "3": "back left", "4": "back right"}
CALLED = {
    "Hopper": lambda joint: joint.removesuffix("_joint"),
    "Walker2d": lambda joint: f"{'left' if '_left' in joint else 'right'} {joint.split('_')[0]}",
    "Ant": lambda joint: f"{LEGS[joint[-1]]} {joint[:-2]}",
    "HalfCheetah": lambda joint: {"b": "back ", "f": "front "}[joint[0]] + joint[1:],
    "Humanoid": lambda joint: re.sub(r"(\d)", r" \1", joint.replace("_", " ")),
    "Swimmer": {"free_body_rot": "front", "motor1_rot": "first rotor", "motor2_rot": "second rotor"}.get,
    "InvertedPendulum": {"hinge": "pole"}.get,
}


def described(env_id):
    """Returns an environment, its facts by index, and how many of the positions the observation leaves out."""
    env = make(env_id)
    facts = load_facts(env)
    assert facts is not None
    model = env.unwrapped.model
    positions = next(entry.index[0] for entry in facts.observation if "velocity" in entry.name)
    return env.unwrapped, {entry.index[0]: entry for entry in facts.observation}, facts.action, model.nq - positions


@pytest.mark.parametrize("env_id", MUJOCO)
def test_the_facts_name_the_joints_in_the_models_order(env_id):
    env, entries, actions, hidden = described(env_id)
    model, called = env.model, CALLED[env_id.partition("-")[0]]
    hinges = [
        model.joint(j) for j in range(model.njnt) if model.jnt_type[j] == 3 and not model.joint(j).name.startswith("root")
    ]
    assert len(hinges) >= 1
    position, velocity = {}, {}
    for joint in hinges:
        position[called(joint.name)] = index = int(joint.qposadr[0]) - hidden
        velocity[called(joint.name)] = int(joint.dofadr[0]) + model.nq - hidden
        if text := re.search(r"range (\S+) to (\S+)", entries[index].meaning):
            assert [float(bound) for bound in text.groups()] == pytest.approx(joint.range, abs=1e-3)
    assert {name: entries[index].name for name, index in position.items()} == {name: f"{name} angle" for name in position}
    assert {name: entries[index].name for name, index in velocity.items()} == {
        name: f"{name} angular velocity" for name in velocity
    }
    for name, index in velocity.items():
        if "of observation" in entries[index].meaning:
            assert entries[index].meaning == f"of observation {position[name]}"
    for number, action in enumerate(actions):
        assert float(action.unit.split()[0]) == model.actuator_gear[number, 0]
        if not env_id.startswith("InvertedPendulum"):
            driven = called(model.joint(model.actuator_trnid[number, 0]).name)
            assert action.name == f"{driven} torque"
            assert action.meaning.startswith("motor at ") or action.meaning == f"drives observation {position[driven]}"
    env.close()


@pytest.mark.parametrize("env_id", [id for id in MUJOCO if not id.startswith(("HalfC", "Swimmer"))])
def test_the_episode_ends_where_the_facts_say(env_id):
    env, entries, _, hidden = described(env_id)
    ends = [entry for entry in entries.values() if entry.terminates_outside]
    assert ends
    env.reset(seed=0)
    for entry in ends:
        for bound, outwards in zip(entry.terminates_outside, (-1, 1), strict=True):
            if np.isfinite(bound):
                for sign in (-1, 1):
                    qpos = env.init_qpos.copy()
                    qpos[entry.index[0] + hidden] = bound + sign * outwards * 0.01
                    env.set_state(qpos, 0 * env.init_qvel)
                    healthy = getattr(env, "is_healthy", None)
                    ended = env.step(0 * env.action_space.low)[2] if healthy is None else not healthy
                    assert ended == (sign > 0), (entry, bound, sign)
    env.close()


@pytest.mark.parametrize(
    ("env_id", "body"), [("Hopper-v4", "torso"), ("HalfCheetah-v4", "torso"), ("InvertedPendulum-v4", "pole")]
)
def test_a_positive_angle_leans_forward(env_id, body):
    env = make(env_id).unwrapped
    env.reset(seed=0)
    qpos = env.init_qpos.copy()
    qpos[1 if body == "pole" else 2] = 0.1
    env.set_state(qpos, 0 * env.init_qvel)
    assert env.data.body(body).xmat.reshape(3, 3)[0, 2] == pytest.approx(np.sin(0.1))
    env.close()


@pytest.mark.parametrize("env_id", ["Ant-v4", "Ant-v5"])
def test_the_ants_legs_stand_where_the_facts_say(env_id):
    env, entries, _, _ = described(env_id)
    env.set_state(env.init_qpos, env.init_qvel)
    for index in range(5, 13):
        joint = env.model.joint(list(env.model.jnt_qposadr).index(index + 2))
        x, y = (env.data.xanchor[joint.id] - env.data.body("torso").xpos)[:2]
        assert f"({'+' if x > 0 else '-'}x, {'+' if y > 0 else '-'}y)" in entries[index].meaning
    env.close()


def test_the_lunar_landers_engines_legs_and_units():
    env = gym.make("LunarLanderContinuous-v3", disable_env_checker=True).unwrapped

    def change(action, steps=8):
        before = env.reset(seed=3)[0]
        for _ in range(steps):
            after = env.step(np.array(action, np.float32))[0]
        return after - before

    coasting = change([0, 0.5])
    np.testing.assert_array_equal(coasting, change([-1, -0.5]))
    assert change([0.01, 0])[3] > coasting[3] + 0.05
    assert change([-1, 1])[5] < coasting[5] - 0.1 < coasting[5] + 0.1 < change([-1, -1])[5]
    assert change([-1, 1])[2] > coasting[2] > change([-1, -1])[2]
    assert env.legs[0].position.x > env.lander.position.x > env.legs[1].position.x
    facts = load_facts(gym.make("LunarLanderContinuous-v3"))
    observation = env.step(np.zeros(2, np.float32))[0]
    position, velocity = env.lander.position, env.lander.linearVelocity
    real = [position.x - 10, position.y - env.helipad_y - 18 / 30, velocity.x, velocity.y]
    scales = [float(entry.unit.split()[0]) for entry in facts.observation[:4]]
    np.testing.assert_allclose(observation[:4] * scales, real, rtol=1e-3, atol=1e-4)
    for beyond in (-0.1, 0.1):
        before = 20 - env.lander.position.x
        for part in (env.lander, *env.legs):
            part.position = (part.position.x + before + beyond, part.position.y)
        env.lander.linearVelocity = (0.0, 0.0)
        assert env.step(np.zeros(2, np.float32))[2] == (beyond > 0)
    env.close()


def test_the_bipedal_walkers_units_and_torques():
    env = gym.make("BipedalWalker-v3", disable_env_checker=True).unwrapped
    facts = load_facts(gym.make("BipedalWalker-v3"))
    for action, index in enumerate((5, 7, 10, 12)):
        for sign in (-1, 1):
            env.reset(seed=3)
            observation, *_ = env.step(sign * np.eye(4, dtype=np.float32)[action])
            assert sign * observation[index] > 0
    hull = env.hull
    real = [hull.angularVelocity, hull.linearVelocity.x, hull.linearVelocity.y]
    scales = [float(entry.unit.split()[0]) for entry in facts.observation[1:4]]
    np.testing.assert_allclose(observation[1:4] * scales, real, rtol=1e-3, atol=1e-5)
    env.close()


def test_pongs_pixels_and_actions():
    render_prompt("ALE/Pong-v5")  # imports the module that registers it
    env = gym.make("ALE/Pong-v5", repeat_action_probability=0.0)
    env.reset(seed=0)
    for _ in range(60):
        image, *_ = env.step(0)
    field = image[34:194]
    assert (image[24:34] == 236).all()
    assert (image[194:] == 236).all()
    assert {tuple(pixel) for pixel in field[:, 140:144].reshape(-1, 3)} <= {(92, 186, 92), (144, 72, 17), (236, 236, 236)}
    assert (field == (213, 130, 74)).all(-1).any(0).nonzero()[0].tolist() == [16, 17, 18, 19]
    assert (field == (236, 236, 236)).all(-1).sum() == 8

    def paddle(action):
        for _ in range(4):
            image, *_ = env.step(action)
        rows, columns = (image[34:194] == (92, 186, 92)).all(-1).nonzero()
        assert set(columns) == {140, 141, 142, 143}
        return rows.mean()

    at_rest, up, down = paddle(1), paddle(2), paddle(3)
    assert up < at_rest
    assert down > up
    env.close()


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
    for key in ("goal", "reason", "expertise", "without_memory", "episode_steps", "serves"):
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


def test_an_unknown_environment_raises_gymnasiums_own_error():
    with pytest.raises(gym.error.NameNotFound, match="NoSuchEnvironment"):
        render_prompt("NoSuchEnvironment-v0")


def test_a_package_that_is_missing_is_named(facts_folder):
    path = facts_folder / "Pendulum-v1.toml"
    path.write_text('module = "no_such_package"\n' + path.read_text())
    with pytest.raises(gym.error.DependencyNotInstalled, match=r"Pendulum-v1 needs a package.*no_such_package"):
        render_prompt("Pendulum-v1")
    with pytest.raises(gym.error.DependencyNotInstalled, match="no_such_module"):
        render_prompt("no_such_module:CartPole-v1")


def test_an_action_space_that_no_mask_serves_is_refused():
    with pytest.raises(TypeError, match="needs a bounded Box or a Discrete action space, llmwrappers-tests/Unbounded-v0 has"):
        render_prompt("llmwrappers-tests/Unbounded-v0")


def test_a_template_may_only_ask_for_what_there_is(facts_folder):
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
    assert re.fullmatch(r"python -m local_llm.render: NameNotFound: .*\n", err)
    with pytest.raises(SystemExit, match="2"):
        main([])
