"""Tests of local_llm.prompting.interpret: what is said of a state, and which steps of an episode are kept."""

import re

import gymnasium as gym
import numpy as np
import pytest

from llmwrappers import load_prior
from llmwrappers.critical_states.trajectories import Trajectories
from llmwrappers.envs.pong import BALL, OPPONENT, OWN
from local_llm.prompting import interpret
from local_llm.prompting.facts import load_facts, serving
from local_llm.prompting.interpret import Interpreter

HOPPER = np.array([1.2, 0, -0.4, -0.5, 0.1, 1.0, 0.0, 0, 0, 0, 0])
HOPPER_SPREAD = np.array([0.05, 0.04, 0.2, 0.2, 0.2, 0.3, 0.4, 1, 1, 1, 1])


def facts(env_id):
    return serving(env_id)[0][1]


def episodes(env_id, observations, actions=None, rewards=None, terminated=True, final=None):
    """One episode, or several of the same kind one after the other, as trajectories."""
    observations = np.asarray(observations)
    steps = len(observations)
    return Trajectories(
        env_id=env_id,
        observations=observations,
        actions=np.zeros((steps, 3), np.float32) if actions is None else np.asarray(actions),
        rewards=np.ones(steps, np.float32) if rewards is None else np.asarray(rewards, np.float32),
        lengths=np.array([steps]),
        terminations=np.array([terminated]),
        final_observations=np.asarray(observations[-1] if final is None else final)[None],
        seeds=np.array([0]),
    )


def hopping(steps=300, **kwargs):
    """Hopper, within a range that is usual by definition."""
    rng = np.random.default_rng(0)
    return episodes("Hopper-v4", HOPPER + HOPPER_SPREAD * rng.uniform(-1, 1, (steps, 11)), **kwargs)


@pytest.fixture(scope="module")
def hopper():
    return Interpreter(facts("Hopper-v4"), hopping())


def shown(text):
    return [int(step) for step in re.findall(r"^step (\d+):", text, re.MULTILINE)]


def left_out(text):
    gaps = re.findall(r"^\(steps? (\d+)(?: to (\d+))? left out", text, re.MULTILINE)
    return [step for first, last in gaps for step in range(int(first), int(last or first) + 1)]


def with_entry(**entries):
    state = HOPPER.copy()
    for index, value in entries.items():
        state[int(index.removeprefix("o"))] = value
    return state


# --------------------------------------------------------------------------------------------------------------- states


def test_a_usual_state_is_names_values_and_units_alone(hopper):
    text = hopper.state(HOPPER)
    assert text.startswith("torso height = 1.2 m, torso angle = 0 rad, thigh angle = -0.4 rad,")
    assert text.endswith("foot angular velocity = 0 rad/s.")
    assert text.count(" = ") == 11


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (with_entry(o1=0.17), "torso angle 0.17 rad (leans forward), 0.03 from its end bound 0.2, unusually high"),
        (with_entry(o1=-0.17), "torso angle -0.17 rad (leans back), 0.03 from its end bound -0.2, unusually low"),
        (with_entry(o0=0.75), "torso height 0.75 m, 0.05 from its end bound 0.7, unusually low"),
        (with_entry(o0=0.6), "torso height 0.6 m, beyond its end bound 0.7, unusually low"),
        (with_entry(o6=-0.3), "Remarks: falling at 0.3 m/s."),
        (with_entry(o6=-1.2), "falling at 1.2 m/s, unusually low"),
        (with_entry(o5=-0.5), "moving back at 0.5 m/s, unusually low"),
        (with_entry(o10=6.0), "foot angular velocity 6 rad/s, unusually high"),
    ],
)
def test_what_is_unusual_is_said_in_words(hopper, state, said):
    assert said in hopper.state(state)


@pytest.mark.parametrize("state", [with_entry(o1=0.03), with_entry(o6=0.3), with_entry(o6=-0.01), with_entry(o2=-2.0 / 8)])
def test_what_is_usual_is_not_remarked_on(hopper, state):
    assert "Remarks" not in hopper.state(state)


def test_a_value_outside_its_usual_range_stands_beside_that_range(hopper):
    assert re.search(r"foot angular velocity = 6 rad/s \(usual -0.97 to 0.98\)", hopper.state(with_entry(o10=6.0)))


def test_the_step_before_tells_changes_and_when_a_bound_is_reached(hopper):
    text = hopper.state(with_entry(o1=0.1), with_entry(o1=0.06))
    assert "torso angle 0.1 rad (leans forward), 0.1 from its end bound 0.2, there in 3 steps" in text
    assert "end bound" not in hopper.state(with_entry(o1=0.1), with_entry(o1=0.14))  # on its way back
    assert "foot angular velocity 0.9 rad/s, up 3 in one step" in hopper.state(with_entry(o10=0.9), with_entry(o10=-2.1))


def test_units_that_carry_a_number_are_converted_where_a_speed_is_said():
    states = np.random.default_rng(0).uniform(-0.1, 0.1, (200, 8))
    interpreter = Interpreter(facts("LunarLanderContinuous-v3"), episodes("LunarLanderContinuous-v3", states))
    state = np.zeros(8)
    state[3] = -0.4
    assert "vertical velocity = -0.4 (x 7.5 m/s)" in interpreter.state(state)
    assert "falling at 3 m/s" in interpreter.state(state)


def test_a_block_of_entries_is_summed_up_and_never_remarked_on():
    states = np.random.default_rng(0).uniform(-0.1, 0.1, (50, 376)) + np.eye(1, 376) * 1.4
    interpreter = Interpreter(facts("Humanoid-v4"), episodes("Humanoid-v4", states))
    state = np.zeros(376)
    state[0], state[300] = 1.4, 99.0
    text = interpreter.state(state)
    assert "contact forces from 0 to 99 N m, N" in text
    assert "Remarks" not in text
    assert "292 to 375 contact forces" in interpreter.legend()


def test_without_facts_an_entry_is_called_by_its_index():
    states = np.random.default_rng(0).uniform(-0.1, 0.1, (500, 4))
    interpreter = Interpreter(None, episodes("CartPole-v1", states, actions=np.zeros(500, int)))
    assert "observation[3] = 0.52 (usual -0.099 to 0.098)" in interpreter.state(np.array([0, 0, 0, 0.52]))
    assert "observation[3] 0.52, unusually high" in interpreter.state(np.array([0, 0, 0, 0.52]))
    assert interpreter.action(1) == "1"
    assert "a whole number" in interpreter.legend()


# -------------------------------------------------------------------------------------------------------------- actions


def test_actions_have_names_values_and_units(hopper):
    text = hopper.action(np.array([0.5, -1.0, 0.255], np.float32))
    assert text == "thigh torque = 0.5 (x 200 N m), leg torque = -1 (x 200 N m), foot torque = 0.25 (x 200 N m)"


def test_actions_without_facts_are_called_by_their_index():
    assert Interpreter(None, hopping()).action([0.5, -1, 0]) == "action[0] = 0.5, action[1] = -1, action[2] = 0"


# --------------------------------------------------------------------------------------------------------------- legend


def test_the_legend_names_every_entry_and_lists_the_columns_in_order(hopper):
    legend = hopper.legend()
    for entry in facts("Hopper-v4").observation:
        assert f"{entry.index[0]} {entry.name} [{entry.unit}]: {entry.meaning}" in legend
    for entry in facts("Hopper-v4").action:
        assert f"{entry.index[0]} {entry.name} [200 N m], -1 to 1: {entry.meaning}" in legend
    assert "the episode ends below 0.7;" in legend
    assert "the episode ends outside -0.2 to 0.2;" in legend
    columns = re.search(r"step number: (.*?) \| action", legend)
    assert columns
    assert columns[1].split(", ") == [entry.name for entry in facts("Hopper-v4").observation]
    line = next(line for line in hopper.episode(0, 50_000).splitlines() if line.startswith("step 7:"))
    values, action, reward = line.removeprefix("step 7: ").split(" | ")[:3]
    assert len(values.split()) == 11
    assert action == "0 0 0"
    assert reward == "1, 293"


def test_a_line_shows_every_number_that_has_a_name():
    states = np.random.default_rng(0).uniform(-1, 1, (50, 105))
    legend = Interpreter(facts("Ant-v5"), episodes("Ant-v5", states, actions=np.zeros((50, 8)))).legend()
    columns = re.search(r"step number: (.*?) \| action", legend)
    assert columns
    single = [entry.name for entry in facts("Ant-v5").observation if len(entry.index) == 1]
    assert columns[1].split(", ") == single
    assert len(single) == 27
    assert "named only where they are unusual" in legend  # the blocks of contact forces


# ------------------------------------------------------------------------------------------------------------- episodes


@pytest.mark.parametrize("terminated", [True, False])
@pytest.mark.parametrize("budget", [220, 300, 800, 3000, 50_000])
def test_an_episode_keeps_to_its_budget_and_accounts_for_every_step(budget, terminated):
    text = Interpreter(facts("Hopper-v4"), hopping(terminated=terminated)).episode(0, budget)
    assert len(text) <= 3 * budget
    assert sorted(shown(text) + left_out(text)) == list(range(300))
    assert {0, 299} <= set(shown(text))
    if budget in (300, 800):
        assert len(text) > 2 * budget  # what there is, is used
    assert (left_out(text) == []) == (budget == 50_000)


def test_an_episode_says_what_came_of_it():
    final = with_entry(o0=0.68, o1=0.1)
    text = Interpreter(facts("Hopper-v4"), hopping(final=final)).episode(0, 800)
    assert text.startswith("Episode 0: 300 steps, return 300; it terminated: torso height 0.68 m is below 0.7.\nstep 0: ")
    assert text.splitlines()[-1].startswith("after it: 0.68 0.1 ")
    text = Interpreter(facts("Hopper-v4"), hopping(terminated=False)).episode(0, 800)
    assert text.startswith("Episode 0: 300 steps, return 300; it was truncated, not terminated.\n")


def test_rewards_and_return_to_come_are_those_of_the_episode_alone():
    states = np.random.default_rng(0).uniform(-1, 1, (7, 2))
    two = Trajectories(
        env_id="Two-v0",
        observations=states,
        actions=np.arange(7),
        rewards=np.array([1, 2, 3, 10, 20, 30, 40], np.float32),
        lengths=np.array([3, 4]),
        terminations=np.array([False, True]),
        final_observations=np.zeros((2, 2)),
        seeds=np.array([0, 1]),
    )
    first, second = (Interpreter(None, two).episode(i, 10_000) for i in (0, 1))
    assert [re.sub(r".*?\| (\d+) \| (\S+), (\S+).*", r"\1 \2 \3", line) for line in first.splitlines()[1:4]] == [
        "0 1 6",
        "1 2 5",
        "2 3 3",
    ]
    assert re.search(r"^step 1: .* \| 4 \| 20, 90", second, re.MULTILINE)
    # The change from one episode to the next is none.
    assert "in one step" not in second.splitlines()[1]


def test_steps_lie_densely_before_a_termination_and_sparsely_before():
    terminated, truncated = (
        np.array(shown(Interpreter(facts("Hopper-v4"), hopping(terminated=ends)).episode(0, 800))) for ends in (True, False)
    )
    assert {297, 298, 299} <= set(terminated.tolist())
    assert np.mean(terminated >= 270) > np.mean(terminated < 150)
    assert np.mean(truncated >= 270) < np.mean(truncated < 150)


def test_steps_lie_densely_before_a_rare_reward_but_not_before_a_high_plateau():
    point, plateau = np.zeros(300), np.zeros(300)
    point[150] = 1
    plateau[146:156] = [0.1, 0.3, 0.5, 0.7, 0.9, 0.9, 0.7, 0.5, 0.3, 0.1]
    at_point, at_plateau = (
        np.array(shown(Interpreter(None, hopping(rewards=rewards, terminated=False)).episode(0, 800)))
        for rewards in (point, plateau)
    )
    assert np.sum((at_point > 140) & (at_point <= 150)) > np.sum((at_plateau > 140) & (at_plateau <= 150))
    assert np.sum((at_point > 140) & (at_point <= 150)) > 2 * np.sum((at_point > 150) & (at_point <= 160))


def test_a_step_that_stands_out_is_kept():
    played = hopping(terminated=False)
    played.observations[123, 1] = 0.19
    text = Interpreter(facts("Hopper-v4"), played).episode(0, 500)
    assert 123 in shown(text)
    assert "0.01 from its end bound 0.2" in text


def test_a_rare_reward_is_kept_and_said():
    rewards = np.zeros(300)
    rewards[[120, 240]] = -1, 1
    text = Interpreter(facts("Hopper-v4"), hopping(rewards=rewards, terminated=False)).episode(0, 500)
    assert {120, 240} <= set(shown(text))
    assert re.search(r"^step 120: .*-1, 0 \|.*unusually low reward", text, re.MULTILINE)
    assert re.search(r"^step 240: .*1, 1 \|.*unusually high reward", text, re.MULTILINE)


def test_of_many_remarks_the_reward_and_the_most_unusual_are_said():
    rewards = np.zeros(300)
    rewards[150] = -1
    played = hopping(rewards=rewards, terminated=False)
    played.observations[150] = HOPPER + 5 * HOPPER_SPREAD
    line = next(line for line in Interpreter(facts("Hopper-v4"), played).episode(0, 800).splitlines() if "step 150:" in line)
    remarks = line.split(" | ")[3].split("; ")
    assert len(remarks) == interpret.MOST_REMARKS
    assert remarks[0] == "unusually low reward"
    assert remarks[1].startswith("torso angle 0.2 rad (leans forward), 0 from its end bound 0.2, there in 1 step")


def test_small_numbers_are_not_shown_as_0():
    observations = np.linspace(0, 4e-5, 100)[:, None] * [1, -1]
    rewards, actions = np.linspace(-6e-5, 6e-5, 100), np.linspace(-1e-3, 1e-3, 100)[:, None]
    text = Interpreter(None, episodes("Small-v0", observations, actions=actions, rewards=rewards)).episode(0, 9000)
    line = next(line for line in text.splitlines() if line.startswith("step 99:"))
    assert line.startswith("step 99: 0.00004 -0.00004 | 0.001 | 0.00006, 0.00006")


def test_what_is_left_out_is_summed_up():
    rewards = np.arange(300) / 100
    text = Interpreter(facts("Hopper-v4"), hopping(rewards=rewards)).episode(0, 800)
    gaps = re.findall(r"\((?:steps? (\d+)(?: to (\d+))?) left out: (.*), reward (\S+) in all\)", text)
    assert len(gaps) > 3
    for first, last, what, reward in gaps:
        assert float(reward) == pytest.approx(rewards[int(first) : int(last or first) + 1].sum(), abs=0.06)
        assert re.fullmatch(r"nothing unusual|unusual|\d+ of them unusual", what)


def test_steps_that_are_all_alike_and_a_single_one_have_a_text():
    assert "nothing unusual" in Interpreter(None, episodes("Still-v0", np.zeros((99, 2)))).episode(0, 100)
    text = Interpreter(None, episodes("Short-v0", np.zeros((1, 2)))).episode(0, 100)
    assert shown(text) == [0]


def test_a_budget_that_is_too_small_and_an_episode_that_is_not_there_are_refused(hopper):
    with pytest.raises(ValueError, match=r"^token_budget must be at least \d+ for episode 0, got 10$") as error:
        hopper.episode(0, 10)
    least = int(re.findall(r"\d+", str(error.value))[0])
    assert shown(hopper.episode(0, least)) == [0, 297, 298, 299]
    with pytest.raises(ValueError):
        hopper.episode(0, least - 1)
    with pytest.raises(IndexError):
        hopper.episode(1, 800)


def test_the_same_trajectories_have_the_same_text(hopper):
    again = Interpreter(facts("Hopper-v4"), hopping())
    assert again.legend() == hopper.legend()
    assert again.episode(0, 800) == hopper.episode(0, 800)


@pytest.mark.filterwarnings("ignore:.*mujoco.*")
@pytest.mark.parametrize("prior", [None, "Hopper-v4"])
def test_episodes_that_were_played_are_described(prior, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = gym.make("Hopper-v4", max_episode_steps=200, disable_env_checker=True)
    env.action_space.seed(0)
    policy = load_prior(prior) if prior else lambda obs: env.action_space.sample()
    observations, actions, rewards = [env.reset(seed=0)[0]], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        actions.append(np.asarray(policy(observations[-1]), np.float32))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        observations.append(observation)
        rewards.append(reward)
    played = episodes("Hopper-v4", observations[:-1], actions, rewards, terminated, observations[-1])
    text = Interpreter(load_facts(env), played).episode(0, 800)
    assert len(text) <= 2400
    assert sorted(shown(text) + left_out(text)) == list(range(len(rewards)))
    assert ("it terminated: torso" in text) == terminated == (prior is None)
    if terminated:
        assert "from its end bound" in text.splitlines()[-2]


# ---------------------------------------------------------------------------------------------------------------- shapes


def test_facts_and_observations_that_do_not_fit_are_refused(hopper):
    with pytest.raises(ValueError, match=r"the facts describe observations of 27 numbers, got 11"):
        Interpreter(facts("Ant-v4"), hopping())
    with pytest.raises(ValueError, match=r"must be vectors, .*got the shape \(4, 4\) of "):
        Interpreter(None, episodes("Images-v0", np.zeros((5, 4, 4))))
    with pytest.raises(ValueError, match=r"or the grids of llmwrappers/PongGrid-v0, .* of Images-v0; write critical"):
        Interpreter(None, episodes("Images-v0", np.zeros((5, 2, 80, 80), np.uint8)))
    with pytest.raises(ValueError, match=r"must have the shape \(11,\), got \(10,\)"):
        hopper.state(HOPPER[:10])


# ------------------------------------------------------------------------------------------------------------------ Pong

RALLY = [
    # ball in play, x, y, vx, vy, own y, own vy, opponent y, opponent vy
    [0, 0, 0, 0, 0, 40, 0, -4, 0],
    [1, 40, 40, 0, 0, 40, 0, 40, 0],
    [1, 37.5, 42, -2.5, 2, 40, 0, 40, 0],
    [1, 49.5, 40, 2, 0, 40, 0, 40, 0],
    [1, 49.5, 40, 2, 3, 40, 0, 40, 0],
    [1, 49.5, 40, 2, -5, 40, 0, 40, 0],
    [1, 65.5, 40, 4, 0, 10, 0, 40, 0],
    [1, 76, 40, 4, 0, 10, 0, 40, 0],
]


@pytest.fixture(scope="module")
def pong():
    played = episodes("llmwrappers/PongObjects-v0", np.array(RALLY, np.float32), actions=np.array([0, 1, 2, 3, 4, 5, 0, 0]))
    return Interpreter(facts("llmwrappers/PongObjects-v0"), played)


@pytest.mark.parametrize(
    ("state", "previous", "text"),
    [
        (0, None, "no ball, your paddle 40 v 0, opponent's -4 v 0."),
        (1, 0, "Remarks: the ball appears."),
        (2, 1, "ball (37.5, 42) v (-2.5, 2), your paddle 40 v 0, opponent's 40 v 0. Remarks: the ball moves away from you."),
        (
            3,
            2,
            "the opponent returned the ball; the ball meets your paddle's column in 10 steps at y 40, where your paddle is.",
        ),
        (2, 3, "you returned the ball; the ball moves away from you."),
        # 40 + 30 = 70; 40 - 50 = -10, which the upper wall, at 1 for the ball's centre, turns into 12.
        (4, None, "in 10 steps at y 70, your paddle is 30 too high."),
        (5, None, "in 10 steps at y 12 after 1 bounce, your paddle is 28 too low."),
        (6, None, "in 1 step at y 40, your paddle is 30 too high and cannot get there."),
        (7, None, "the ball is past your paddle."),
    ],
)
def test_pong_says_where_the_ball_and_the_paddle_meet(pong, state, previous, text):
    said = pong.state(np.array(RALLY[state]), None if previous is None else np.array(RALLY[previous]))
    assert said.endswith(text)


def test_pong_names_its_actions(pong):
    assert pong.action(2) == "2 (RIGHT: move the paddle up, towards smaller y)"
    assert re.search(r"^step 3: .* \| 3 LEFT \| ", pong.episode(0, 2000), re.MULTILINE)


def grid(ball, own, opponent):
    field = np.full((80, 80), 87, np.uint8)
    field[own - 4 : own + 4, 70:72], field[opponent - 4 : opponent + 4, 8:10] = OWN, OPPONENT
    field[ball[1] - 1 : ball[1] + 1, ball[0]] = BALL
    return field


def test_pongs_grids_are_described_as_its_objects():
    fields = [grid((40 + 2 * i, 40 + i), 30 + 2 * i, 40) for i in range(6)]
    grids = np.array([[fields[i], fields[i + 1]] for i in range(5)])
    interpreter = Interpreter(None, episodes("llmwrappers/PongGrid-v0", grids, actions=np.arange(5)))
    assert interpreter.state(grids[2]) == (
        "ball (46.5, 43) v (2, 1), your paddle 36 v 2, opponent's 40 v 0. Remarks: the ball meets your paddle's column in "
        "12 steps at y 54, your paddle is 18 too high."
    )
    assert interpreter.action(3).startswith("3 (LEFT: ")
    legend = interpreter.legend()
    assert "5 own paddle y [cells]" in legend
    assert re.search(r"^step 4: ball \(50.5, 45\) v \(2, 1\)", interpreter.episode(0, 2000), re.MULTILINE)


def test_every_number_is_shown_and_what_hardly_ever_changes_first():
    """A key picked up at step 57 of 400, and a number that changes at every step."""
    states = np.random.default_rng(0).integers(0, 9, (400, 30)).astype(float)
    states[:, 29] = np.arange(400) >= 57
    line = re.search(r"step 57: (.*?) \|", Interpreter(None, episodes("Key-v0", states)).episode(0, 1500))
    assert line is not None
    assert line[1].split() == [f"{int(number)}" for number in states[57]]
