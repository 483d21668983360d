"""CriticalStates: the match against a plain nearest neighbour, the file, the calibration, and what fits where."""

import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.spaces import Box
from gymnasium.wrappers import RescaleAction
from hypothesis import given, settings
from hypothesis import strategies as st

from llmwrappers import CriticalStates, LLMActionMask
from llmwrappers.critical_states.table import spread


def table(n=20, d=4, seed=0, offset=0.0, tolerance=0.5, action_shape=(2,), **kwargs):
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.1, 10, d)
    return CriticalStates(
        scale * rng.standard_normal((n, d)) + offset,
        rng.uniform(-1, 1, (n, *action_shape)),
        rng.uniform(-1, 1, n),
        scale=scale,
        tolerance=tolerance,
        **kwargs,
    )


def discrete(n=4, **kwargs):
    return CriticalStates(np.arange(n)[:, None] / 5, np.arange(n) % 4, np.zeros(n), scale=[1.0], tolerance=0.01, **kwargs)


def nearest(states, observation):
    """What match is to return, in plain terms."""
    distances = [np.sqrt(np.mean(((observation - state) / states.scale) ** 2)) for state in states.observations]
    return int(np.argmin(distances)), min(distances)


class TestMatch:
    @settings(max_examples=60, deadline=None)
    @given(
        n=st.integers(1, 60),
        d=st.integers(1, 40),
        seed=st.integers(0, 1000),
        offset=st.sampled_from([0.0, 3.0, -1e4, 1e7]),
        tolerance=st.sampled_from([1e-6, 0.1, 0.7, 1.5]),
    )
    def test_it_is_the_nearest_neighbour_within_the_tolerance(self, n, d, seed, offset, tolerance):
        states = table(n, d, seed, offset, tolerance)
        rng = np.random.default_rng(seed + 1)
        for state in states.observations:
            observation = state + tolerance * states.scale * rng.standard_normal(d) * rng.choice([0.5, 1.0, 1.5])
            index, distance = nearest(states, observation)
            if abs(distance - tolerance) > 1e-9 * tolerance:
                assert states.match(observation) == (index if distance <= tolerance else -1)

    @pytest.mark.parametrize("offset", [0.0, 1e5, 1e9])
    @pytest.mark.parametrize("tolerance", [1e-9, 1.0, 100.0])
    def test_a_state_matches_itself(self, offset, tolerance):
        states = table(200, 27, offset=offset, tolerance=tolerance)
        assert [states.match(observation) for observation in states.observations] == list(range(200))

    def test_states_closer_than_float32_can_tell_are_told_apart(self):
        rng = np.random.default_rng(0)
        near = rng.standard_normal((10, 1, 27)) + 1e-5 * rng.standard_normal((10, 20, 27))
        for tolerance in (1e-6, 0.1):
            states = CriticalStates(near.reshape(200, 27), np.zeros((200, 1)), np.zeros(200), np.ones(27), tolerance)
            assert [states.match(observation) for observation in states.observations] == list(range(200))

    @pytest.mark.parametrize("gap", [-1e-7, 1e-7])
    def test_at_the_edge_exact_arithmetic_decides(self, gap):
        states = CriticalStates([[0.0, 0.0], [100.0, 100.0]], np.zeros((2, 1)), np.zeros(2), scale=[1.0, 2.0], tolerance=0.25)
        observation = np.array([100.0 + 0.25 * (1 + gap), 100.0 + 0.5 * (1 + gap)])
        assert states.match(observation) == (1 if gap < 0 else -1)

    def test_the_number_of_entries_does_not_change_the_distance(self):
        for d in (1, 9, 400):
            states = CriticalStates(np.zeros((1, d)), [[0.0]], [0.0], scale=np.full(d, 2.0), tolerance=0.5)
            assert [states.match(np.full(d, x)) for x in (0.99, 1.01)] == [0, -1]

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e39])
    @pytest.mark.parametrize("entries", [[0], [0, 1, 2, 3]])
    def test_what_is_not_finite_or_absurd_matches_nothing(self, value, entries):
        observation = np.zeros(4)
        observation[entries] = value
        assert table(tolerance=1e4).match(observation) == -1
        assert table(tolerance=1e4).match(np.zeros(4)) >= 0

    def test_observations_of_any_shape_and_dtype_are_flattened(self):
        grids = np.random.default_rng(0).integers(0, 255, (3, 2, 4, 4), np.uint8)
        states = CriticalStates(grids, [1, 2, 3], [0, 0, 0], scale=np.ones(32), tolerance=0.1)
        assert [states.match(grid) for grid in grids] == [0, 1, 2]

    def test_another_size_is_refused(self):
        with pytest.raises(ValueError, match=r"4 entries, got shape \(1,\)"):
            table().match(np.zeros(1))

    def test_actions_are_copies_and_of_the_right_kind(self):
        states = table()
        action, reward = states(states.observations[3])
        assert isinstance(reward, float)
        action += 1
        np.testing.assert_array_equal(states(states.observations[3])[0], action - 1)
        action, _ = discrete()(np.array([0.2]))
        assert (type(action), action) == (int, 1)
        assert discrete()(np.array([0.1])) is None

    def test_a_copy_matches_alike(self):
        states = table(300, 11)
        observations = np.random.default_rng(5).standard_normal((50, 11)) * states.scale
        again = pickle.loads(pickle.dumps(states))
        assert [again.match(o) for o in observations] == [states.match(o) for o in observations]


class TestTable:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"observations": np.zeros((0, 2))}, "observations must hold at least one"),
            ({"observations": np.zeros(2)}, "observations must have shape"),
            ({"observations": [[np.nan, 0], [0, 0]]}, "observations must be finite, got nan in row 0"),
            ({"observations": [[0, 0], [1]]}, r"observations must be an array of numbers, got \[\[0, 0\], \[1\]\]"),
            ({"actions": [[0.0]]}, r"actions .* 2 states, got shape \(1, 1\)"),
            ({"actions": [[0.0], [np.inf]]}, "actions must be finite, got inf in row 1"),
            ({"rewards": [0.0]}, "rewards"),
            ({"rewards": [0.0, -1.5]}, r"rewards\[1\] = -1.5"),
            ({"rewards": [np.nan, 0.0]}, "rewards must be finite"),
            ({"scale": [1.0, 0.0]}, "scale must hold 2 positive"),
            ({"scale": [1.0]}, "scale must hold 2 positive"),
            ({"scale": [1e-30, 1.0]}, "scale must suit"),
            ({"scale": [1e-320, 1.0]}, "scale must suit"),
            ({"tolerance": 0.0}, "tolerance must be a positive number, got 0.0"),
            ({"tolerance": np.nan}, "tolerance"),
            ({"tolerance": "1"}, "tolerance"),
            ({"environment": 3}, "environment"),
            ({"notes": [{}]}, "notes must hold one dict for each"),
            ({"notes": [{"reward": 1}, {}]}, "notes"),
            ({"calibration": 3}, "calibration"),
        ],
    )
    def test_wrong_arguments_are_named(self, changed, message):
        right = {
            "observations": [[0, 0], [1, 1]],
            "actions": [[0.0], [1.0]],
            "rewards": [0, 1],
            "scale": [1, 1],
            "tolerance": 1,
        }
        CriticalStates(**right)
        with pytest.raises(ValueError, match=message):
            CriticalStates(**right | changed)

    def test_spread_leaves_constant_entries_alone(self):
        observations = np.random.default_rng(0).standard_normal((1000, 2, 2)) * [[1.0, 5.0], [0.0, 1e-3]] + 0.1
        np.testing.assert_allclose(spread(observations), [1, 5, 1, 1e-3], rtol=0.1)
        assert spread(observations)[2] == 1

    def test_moved_to_keeps_everything_but_the_states(self):
        states = table(notes=[{"episode": i} for i in range(20)], calibration={"hit_rate": 0.05}, environment="Ant-v4")
        elsewhere = table(seed=1).observations
        moved = states.moved_to(elsewhere)
        np.testing.assert_array_equal(moved.observations, elsewhere)
        for name in ("actions", "rewards", "scale", "tolerance", "environment"):
            np.testing.assert_array_equal(getattr(moved, name), getattr(states, name))
        assert (moved.notes, moved.calibration) == ((), None)
        with pytest.raises(ValueError, match="20"):
            table(19).moved_to(elsewhere)


class TestCalibration:
    @pytest.mark.parametrize("hit_rate", [0.01, 0.05, 0.5, 0.999])
    def test_that_share_of_the_observations_matches(self, hit_rate):
        states, observations = table(d=6), np.random.default_rng(7).standard_normal((1000, 2, 3)) * 3
        calibrated = states.calibrated(observations, hit_rate)
        assert calibrated.hit_rate(observations) == pytest.approx(hit_rate)
        expected = {"hit_rate": hit_rate, "reached": pytest.approx(hit_rate), "held_out_steps": 1000}
        assert calibrated.calibration == expected
        assert states.calibration is None
        with pytest.raises(ValueError, match="got none"):
            states.hit_rate(observations[:0])

    def test_the_share_is_rounded_up(self):
        observations = np.random.default_rng(7).standard_normal((30, 4))
        assert table().calibrated(observations, 0.05).hit_rate(observations) == pytest.approx(2 / 30)
        observations = np.random.default_rng(7).standard_normal((100, 4))
        assert 0.07 * 100 > 7  # by rounding alone
        assert table().calibrated(observations, 0.07).hit_rate(observations) == pytest.approx(7 / 100)
        assert table().calibrated(observations, 1e-12).hit_rate(observations) == pytest.approx(1 / 100)

    def test_where_many_are_equally_near_all_of_them_match(self):
        states = table()
        calibrated = states.calibrated(np.concatenate([states.observations] * 3), 0.05)
        assert calibrated.calibration["reached"] == 1
        assert 0 < calibrated.tolerance < 1e-6

    @pytest.mark.parametrize(
        ("observations", "hit_rate", "message"),
        [
            (np.zeros((0, 4)), 0.05, "got none"),
            (np.zeros((9, 4)), 0.0, "hit_rate .* got 0.0"),
            (np.zeros((9, 4)), 1.0, "hit_rate .* got 1.0"),
            (np.full((9, 4), np.nan), 0.5, "finite"),
            (np.zeros((9, 1)), 0.5, "4 entries"),
        ],
    )
    def test_what_cannot_be_calibrated_is_refused(self, observations, hit_rate, message):
        with pytest.raises(ValueError, match=message):
            table().calibrated(observations, hit_rate)


class TestFile:
    @pytest.mark.parametrize(
        "states",
        [
            table(notes=[{"rationale": 'füllt \n "x"', "episode": i} for i in range(20)], environment="Ant-v4"),
            table(1, 1, action_shape=(1,), calibration={"hit_rate": 0.05}),
            table(3, action_shape=(2, 2)),
            table(3, action_shape=()),
            discrete(environment="ALE/Pong-v5"),
        ],
        ids=["notes", "one", "matrix", "scalar", "discrete"],
    )
    def test_a_file_gives_back_what_was_saved(self, tmp_path, states):
        states.save(tmp_path / "table.json")
        loaded = CriticalStates.load(tmp_path / "table.json")
        for name in ("observations", "actions", "rewards", "scale"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(states, name))
            assert getattr(loaded, name).dtype == getattr(states, name).dtype
        for name in ("tolerance", "environment", "notes", "calibration", "is_discrete"):
            assert getattr(loaded, name) == getattr(states, name)
        loaded.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == (tmp_path / "table.json").read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["again.json", "table.json"]

    def test_it_is_json_with_one_object_a_state(self, tmp_path):
        discrete(notes=[{"rationale": f"reason {i}"} for i in range(4)]).save(tmp_path / "table.json")
        content = json.loads((tmp_path / "table.json").read_text("utf-8"))
        assert content["states"][1] == {"observation": [0.2], "action": 1, "reward": 0.0, "rationale": "reason 1"}
        assert set(content) == {"environment", "tolerance", "calibration", "scale", "states"}

    def test_an_interrupted_save_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "table.json"
        table().save(path)
        before = path.read_bytes()

        def interrupted(source, target):
            assert path.read_bytes() == before
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            discrete().save(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.99])
    def test_half_a_file_is_refused(self, tmp_path, share):
        path = tmp_path / "table.json"
        table().save(path)
        text = path.read_text("utf-8")
        path.write_text(text[: int(share * len(text))], "utf-8")
        with pytest.raises(ValueError, match=r"table\.json"):
            CriticalStates.load(path)

    @pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[" * 100_000, b"[]", b"3", b"{}"])
    def test_what_is_no_table_is_named(self, tmp_path, content):
        if content is not None:
            (tmp_path / "table.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"table\.json"):
            CriticalStates.load(tmp_path / "table.json")

    @pytest.mark.parametrize(
        ("where", "value", "message"),
        [
            (["tolerance"], None, "'tolerance'"),
            (["tolerance"], True, "'tolerance'"),
            (["tolerance"], -1, "tolerance must be a positive"),
            (["environment"], 4, "'environment'"),
            (["calibration"], [], "'calibration'"),
            (["scale"], "1", "'scale'"),
            (["scale"], ["1"], "scale must hold numbers"),
            (["states"], {}, "'states'"),
            (["states"], [], "states is empty"),
            (["states", 2], 7, r"states\[2\]"),
            (["states", 2, "reward"], 1.5, r"rewards\[2\] = 1.5"),
            (["states", 2, "reward"], "1", r"'reward' of states\[2\]"),
            (["states", 2, "reward"], float("nan"), "NaN"),
            (["states", 2, "action"], None, r"states\[2\].action"),
            (["states", 2, "action"], [True], r"states\[2\].action"),
            (["states", 2, "action"], [0.5, 1.0], "shape of 'action'"),
            (["states", 2, "observation"], [0.0, 0.0], "shape of 'observation'"),
            (["states", 2, "observation"], [[0.0], 0.0], r"states\[2\].observation"),
            (["states", 2, "observation"], [float("inf")], "Infinity"),
        ],
    )
    def test_a_wrong_field_is_named(self, tmp_path, where, value, message):
        path = tmp_path / "table.json"
        table(4, 1, action_shape=(1,)).save(path)
        content = json.loads(path.read_text("utf-8"))
        place = content
        for key in where[:-1]:
            place = place[key]
        place[where[-1]] = value
        path.write_text(json.dumps(content), "utf-8")
        with pytest.raises(ValueError, match=rf"table\.json.*{message}"):
            CriticalStates.load(path)

    @pytest.mark.parametrize("where", [["tolerance"], ["states"], ["scale"], ["environment"], ["states", 2, "reward"]])
    def test_a_missing_field_is_named(self, tmp_path, where):
        path = tmp_path / "table.json"
        table(4).save(path)
        content = json.loads(path.read_text("utf-8"))
        place = content
        for key in where[:-1]:
            place = place[key]
        del place[where[-1]]
        path.write_text(json.dumps(content), "utf-8")
        with pytest.raises(ValueError, match=rf"table\.json.*{where[-1]}"):
            CriticalStates.load(path)


class TestFit:
    def test_what_fits_is_accepted(self):
        table(d=3, environment="llmwrappers-tests/Echo-v0").require_fits(gym.make("llmwrappers-tests/Echo-v0"))
        table(d=3, environment="Ant-v4").require_fits(Echo())  # no spec: nothing to compare with
        discrete(3).require_fits(Turns())

    @pytest.mark.parametrize("bound", [0.1, 40.1, 1000.1])
    def test_an_action_at_its_bound_fits(self, bound):
        env = gym.make("Pendulum-v1")
        env.action_space = Box(-bound, bound, (1,))
        states = CriticalStates([[1.0, 0.0, 0.0]], actions=[[bound]], rewards=[1.0], scale=[1.0, 1.0, 1.0], tolerance=0.1)
        states.require_fits(env)
        env.action_space = Box(-bound, bound * 0.9999, (1,))
        with pytest.raises(ValueError, match="must lie in"):
            states.require_fits(env)

    @pytest.mark.parametrize(
        ("states", "env", "message"),
        [
            (table(d=3, environment="Ant-v4"), gym.make("llmwrappers-tests/Echo-v0"), "'Ant-v4', got .*Echo-v0"),
            (table(d=4), Echo(), r"4 entries, got observations of \(3,\)"),
            (table(d=3, action_shape=(1,)), Echo(), r"shape \(1,\)"),
            (discrete(), Echo(shape=(0,)), "Discrete"),
            (table(d=1, action_shape=()), Turns(), "Box"),
            (discrete(), Turns(n=3), "got 3 for state 3"),
            (discrete(), Turns(n=4, start=1), "got 0 for state 0"),
            (table(d=3), Echo(low=-0.5), "must lie in"),
            (table(d=3), gym.make("llmwrappers-tests/DictOneStep-v0"), "arrays.*FlattenObservation"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, states, env, message):
        with pytest.raises(ValueError, match=message):
            states.require_fits(env)

    def test_a_rounding_error_outside_the_space_is_none(self):
        states = CriticalStates(np.zeros((1, 3)), [[1 + 5e-7, -1 - 5e-7]], [0], scale=np.ones(3), tolerance=1)
        states.require_fits(Echo())
        for action in ([1 + 5e-6, 0], [0, -1 - 5e-6]):
            with pytest.raises(ValueError, match="must lie in"):
                CriticalStates(np.zeros((1, 3)), [action], [0], scale=np.ones(3), tolerance=1).require_fits(Echo())

    def test_above_a_mask_the_native_actions_count(self):
        states = CriticalStates(np.zeros((1, 3)), [[1.9]], [0], scale=np.ones(3), tolerance=1)
        pendulum = gym.make("Pendulum-v1")
        states.require_fits(LLMActionMask(pendulum, lambda observation: [0.0]))
        with pytest.raises(ValueError, match="must lie in"):
            states.require_fits(RescaleAction(pendulum, np.float32(-1), np.float32(1)))

    def test_a_table_of_another_environment_may_be_matched_with_something_else(self):
        states = table(d=9, environment="Ant-v4")
        states.require_fits(gym.make("llmwrappers-tests/Echo-v0"), observation_shape=(9,))
        with pytest.raises(ValueError, match="9 entries"):
            states.require_fits(gym.make("llmwrappers-tests/Echo-v0"), observation_shape=(8,))
