"""Tests of local_llm.prompting.facts: every fact against its environment."""

import inspect
import re
import tomllib

import ale_py  # noqa: F401  it registers ALE/Pong-v5
import gymnasium as gym
import numpy as np
import pytest

from local_llm.prompting.facts import FACTS_FOLDER, load_facts
from local_llm.prompting.render import render_prompt

SERVED = [id for path in sorted(FACTS_FOLDER.glob("*.toml")) for id in tomllib.loads(path.read_text())["serves"]]
MUJOCO = sorted(
    id for id in SERVED if id.startswith(("Hopper", "Walker", "Ant", "HalfC", "Humanoid", "Swimmer", "InvertedPendulum"))
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings into a file in the working directory


def make(env_id):
    return gym.make(env_id, disable_env_checker=True)


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
