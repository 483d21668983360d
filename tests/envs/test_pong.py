"""Pong as objects: locate against drawn fields and the game's own memory, PongObjects and PongGrid against ALE/Pong-v5."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from llmwrappers.envs.pong import BALL, FIELD, OPPONENT, OWN, OWN_AT_FIRST, locate
from local_llm.prompting.facts import load_facts

OBJECTS, GRID = "llmwrappers/PongObjects-v0", "llmwrappers/PongGrid-v0"
both = pytest.mark.parametrize("env_id", [OBJECTS, GRID])
NOOP, UP, DOWN = 0, 2, 3


@pytest.fixture
def make():
    """gym.make for environments that are closed in the end."""
    made = []

    def make(env_id, **kwargs):
        made.append(gym.make(env_id, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def ale(env):
    return env.unwrapped._env.unwrapped.ale


def follow(observation):
    """Moves the paddle to where the ball is going to be; a step's lead, because the paddle glides on."""
    in_play, _, y, _, vy, own_y, own_vy, *_ = observation
    ahead = (y + vy) - (own_y + own_vy)
    return NOOP if not in_play or abs(ahead) < 3 else DOWN if ahead > 0 else UP


def played(env, policy, steps, seed=0):
    """Yields (observation, reward, info) of the steps and resets of a game."""
    observation, info = env.reset(seed=seed)
    yield observation, 0.0, info
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        yield observation, reward, info
        if terminated or truncated:
            observation, info = env.reset()
            yield observation, 0.0, info


def at_random(seed=0, hold=1):
    """Draws actions; each is held for some steps, so that the paddle comes to both walls."""
    rng, t, action = np.random.default_rng(seed), 0, 0

    def policy(observation):
        nonlocal t, action
        if t % hold == 0:
            action = int(rng.integers(6))
        t += 1
        return action

    return policy


# ----------------------------------------------------------------------------------------------------------------- locate


def draw(ball=None, own=60, opponent=40, own_colour=OWN):
    """A field as the screen shows it: each object by its top row, the ball by (top, left), in pixels."""
    screen = np.full((210, 160), 87, np.uint8)

    def rectangle(top, left, height, width, colour):
        screen[34 + top : 34 + top + height, left : left + width] = colour

    for top, left, colour in ((own, 140, own_colour), (opponent, 16, OPPONENT)):
        if top is not None:
            rectangle(top, left, 16, 4, colour)
    if ball is not None:
        rectangle(*ball, 4, 2, BALL)
    screen[24:34] = screen[194:] = BALL  # the walls hide what lies in them
    return screen[FIELD]


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ({}, [0, 0, 0, 0, 0, 34, 0, 24, 0]),
        ({"ball": (82, 78)}, [1, 39.5, 42, 0, 0, 34, 0, 24, 0]),
        ({"ball": (0, 78)}, [1, 39.5, 1, 0, 0, 34, 0, 24, 0]),
        ({"ball": (156, 0)}, [1, 0.5, 79, 0, 0, 34, 0, 24, 0]),
        ({"ball": (-2, 78)}, [1, 39.5, 0, 0, 0, 34, 0, 24, 0]),
        ({"ball": (158, 158)}, [1, 79.5, 80, 0, 0, 34, 0, 24, 0]),
        ({"ball": (-4, 78)}, [0, 0, 0, 0, 0, 34, 0, 24, 0]),
        ({"own": -10, "opponent": 156}, [0, 0, 0, 0, 0, -1, 0, 82, 0]),
        ({"own": 148, "opponent": -14}, [0, 0, 0, 0, 0, 78, 0, -3, 0]),
        ({"own": None, "opponent": None}, [0, 0, 0, 0, 0, -4, 0, -4, 0]),
        ({"own": 76, "own_colour": OWN_AT_FIRST}, [0, 0, 0, 0, 0, 42, 0, 24, 0]),
    ],
)
def test_objects_in_a_drawn_field(drawn, expected):
    field = draw(**drawn)
    objects = locate(field)
    assert (objects.shape, objects.dtype) == ((9,), np.float32)
    assert objects.tolist() == expected
    assert locate(field[::2, ::2]).tolist() == expected


@pytest.mark.parametrize("left", range(138, 146))
@pytest.mark.parametrize("top", [56, 60, 66, 74])
def test_a_ball_in_front_of_a_paddle_hides_nothing(top, left):
    for shift, entry in ((0, 5), (-124, 7)):
        field = draw((top, left + shift), own=60, opponent=60)
        assert locate(field)[[0, 1, 2, entry]].tolist() == [1, (left + shift + 1) / 2, (top + 2) / 2, 34]
        assert locate(field[::2, ::2])[[0, 2, entry]].tolist() == [1, (top + 2) / 2, 34]


def test_velocities_are_differences_and_0_for_what_appears():
    now, before = draw((90, 60), own=50, opponent=2), draw((82, 64), own=54, opponent=0)
    assert locate(now, before)[[3, 4, 6, 8]].tolist() == [-2, 4, -2, 1]
    assert locate(now, draw())[3:5].tolist() == [0, 0]
    assert locate(draw(), before)[:5].tolist() == [0, 0, 0, 0, 0]
    hidden = draw(own=None, opponent=None)
    assert locate(now, hidden)[[6, 8]].tolist() == [0, 0]
    assert locate(hidden, before)[7:9].tolist() == [-4, -8]


def test_the_small_image_places_objects_up_to_half_a_cell_less_exactly():
    for top in range(1, 155):
        field = draw((top, top), own=(top + 7) % 145, opponent=(top + 70) % 145)
        difference = locate(field[::2, ::2]) - locate(field)
        assert np.abs(difference).max() <= 0.5


@pytest.mark.parametrize(
    "field",
    [
        np.zeros((210, 160), np.uint8),
        np.zeros((40, 40), np.uint8),
        np.zeros((2, 80, 80), np.uint8),
        np.zeros((80, 80)),
        np.zeros(6400, np.uint8),
    ],
    ids=["screen", "(40, 40)", "two", "float", "flat"],
)
def test_another_image_is_refused(field):
    with pytest.raises(ValueError, match=rf"got {field.dtype} of shape \({field.shape[0]}"):
        locate(field)


@pytest.mark.parametrize("policy", [follow, at_random(1, hold=8)], ids=["follow", "random"])
def test_positions_are_those_in_the_games_memory(make, policy):
    env = make(OBJECTS)
    balls, paddles, missing, at_walls = [], [], 0, set()
    for observation, *_ in played(env, policy, steps=1500, seed=3):
        memory = ale(env).getRAM().astype(int)
        ball_x, ball_y, own, opponent = memory[[49, 54, 51, 50]]
        if observation[0]:
            balls.append(2 * observation[1:3] - (ball_x - 48, ball_y - 46.5))
        elif ball_y > 48 and ale(env).getEpisodeFrameNumber() > 0:
            missing += 1
        paddles.append(2 * observation[5] - (own - 39.5))
        if observation[7] > -4:
            assert 2 * observation[7] == opponent - 41
        at_walls |= {-1, 82} & {float(observation[5])}
    assert len(balls) > 400
    assert np.abs(balls).max() <= 1  # half a cell
    assert np.abs(paddles).max() <= 1
    assert missing == 0
    assert policy is follow or at_walls == {-1, 82}


def test_the_walls_lie_outside_the_field(make):
    env = make(OBJECTS)
    ball = set()
    for t, _ in enumerate(played(env, follow, steps=800)):
        if t:  # the first image has colours of its own
            screen = ale(env).getScreenGrayscale()
            assert (screen[24:34] == BALL).all()
            assert (screen[194:] == BALL).all()
            ball.add(int((screen[FIELD] == BALL).sum()))
    assert {0, 8} <= ball
    assert max(ball) <= 10


# ----------------------------------------------------------------------------------------------------------- environments


@both
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_gymnasiums_check_env_passes(make, env_id, render_mode):
    check_env(make(env_id, render_mode=render_mode).unwrapped, skip_render_check=True)


@both
def test_it_is_ales_pong_but_for_the_observation(make, env_id):
    ours, theirs = make(env_id, render_mode="rgb_array"), make("ALE/Pong-v5", render_mode="rgb_array")
    assert (ours.action_space, ours.spec.max_episode_steps) == (theirs.action_space, 108_000 / 4)
    for env in (ours, theirs):
        env.reset(seed=5)
    policy, ends = at_random(5), False
    while not ends:
        action = policy(None)
        observation, *result, info = ours.step(action)
        image, *expected, their_info = theirs.step(action)
        assert observation in ours.observation_space
        assert result == expected
        assert info["frame_number"] == their_info["frame_number"]
        ends = result[1]
    assert type(result[0]) is float
    np.testing.assert_array_equal(ours.render(), image)


def test_the_first_steps(make):
    env = make(OBJECTS)
    observations = [observation for observation, *_ in played(env, lambda observation: NOOP, steps=40)]
    assert observations[0].tolist() == [0, 0, 0, 0, 0, 35, 0, -4, 0]
    served = next(t for t, observation in enumerate(observations) if observation[0])
    assert observations[served][3:5].tolist() == [0, 0]
    for before, now in zip(observations[served:], observations[served + 1 :], strict=False):
        assert now[3:5].tolist() == (now[1:3] - before[1:3]).tolist() != [0, 0]
        assert now[6] == now[5] - before[5]
        assert now[8] == now[7] - before[7]


def test_the_grids_and_the_objects_are_those_of_the_same_step(make):
    grid, objects = make(GRID), make(OBJECTS)
    games = [played(env, at_random(2), 1100, seed=2) for env in (grid, objects)]  # more than a game
    newest, resets, seen = None, 0, 0
    for (pair, _, info), (observation, *_) in zip(*games, strict=True):
        np.testing.assert_array_equal(info["objects"], observation)
        field = ale(grid).getScreenGrayscale()[FIELD]
        np.testing.assert_array_equal(pair[1], field[::2, ::2])
        if "seeds" in info or info["episode_frame_number"] == 0:
            np.testing.assert_array_equal(pair[0], pair[1])
            resets += 1
        else:
            np.testing.assert_array_equal(pair[0], newest)
        newest = pair[1].copy()
        from_grids = locate(pair[1], pair[0])
        if from_grids[0] == observation[0]:
            np.testing.assert_allclose(from_grids[[1, 2, 5, 7]], observation[[1, 2, 5, 7]], atol=0.75)
            seen += 1
    assert resets == 2
    assert seen > 1090


@both
def test_the_same_seed_is_the_same_game(make, env_id):
    first = list(played(make(env_id), at_random(), 100, seed=1))
    again = make(EnvSpec.from_json(make(env_id).spec.to_json()))
    assert data_equivalence(list(played(again, at_random(), 100, seed=1)), first, exact=True)
    assert not data_equivalence(list(played(again, at_random(), 100, seed=2)), first)


@pytest.mark.parametrize("autoreset", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_objects_of_a_vector_environment(vector, autoreset):
    envs = vector([lambda: gym.make(GRID, max_episode_steps=20)] * 2, autoreset_mode=autoreset)
    same_step = autoreset is AutoresetMode.SAME_STEP
    _, infos = envs.reset(seed=0)
    ends = []
    for t in range(1, 45):
        observations, _, _, truncations, infos = envs.step(np.array([UP, DOWN]))
        pairs = [*zip(observations, infos["objects"], strict=True)]
        if truncations.all():
            ends.append(t)
            if same_step:
                assert (infos["objects"][:, 5] == 35).all()
                pairs += zip(infos["final_obs"], infos["final_info"]["objects"], strict=True)
        assert infos["objects"].shape == (2, 9)
        for observation, objects in pairs:
            np.testing.assert_allclose(locate(observation[1], observation[0])[5:7], objects[5:7], atol=1)
    assert ends == ([20, 40] if same_step else [20, 41])
    assert len(pairs) == 2
    envs.close()


@both
def test_without_ale_py(monkeypatch, env_id):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(DependencyNotInstalled, match="pip install ale-py"):
        gym.make(env_id)


# ---------------------------------------------------------------------------------------------------------------- knowing


def test_following_the_ball_holds_the_opponent_and_acting_at_random_does_not(make):
    env = make(OBJECTS)
    points = {
        name: [reward for seed in range(2) for _, reward, _ in played(env, policy, 1000, seed) if reward]
        for name, policy in {"follow": follow, "random": at_random()}.items()
    }
    lost = {name: sum(reward < 0 for reward in rewards) for name, rewards in points.items()}
    assert lost["random"] >= 40
    assert 4 * lost["follow"] < lost["random"]
    assert sum(points["follow"]) > -5


def test_the_facts_fit(make):
    env = make(OBJECTS)
    facts = load_facts(env)
    assert facts is not None
    assert [entry.name for entry in facts.action] == env.unwrapped._env.unwrapped.get_action_meanings()
    names = [entry.name for entry in facts.observation]
    assert names == [
        *("ball in play", "ball x", "ball y", "ball vx", "ball vy", "own paddle y", "own paddle vy"),
        *("opponent paddle y", "opponent paddle vy"),
    ]
    assert load_facts(make(GRID)) is None


def test_what_the_facts_say_of_the_actions(make):
    env = make(OBJECTS)

    def moved(action):
        env.reset(seed=0)
        for _ in range(10):
            observation, *_ = env.step(NOOP)
        start = observation[5]
        for _ in range(3):
            observation, *_ = env.step(action)
        assert np.sign(observation[6]) == np.sign(observation[5] - start)
        return observation[5] - start

    assert [np.sign(moved(action)) for action in range(6)] == [0, 0, -1, 1, -1, 1]
