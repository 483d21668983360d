"""LLMActionOverride: what the environment receives, what info says of it, and when it gives up."""

import threading

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.error import InvalidProbability
from gymnasium.spaces import Box, Discrete, MultiBinary
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from llmwrappers import (
    CriticalFunction,
    CriticalStateRewarder,
    CriticalStates,
    LLMActionMask,
    LLMActionOverride,
    transition_info,
)
from llmwrappers.critical_states.guidance import GuidanceCounts, NothingCritical

# Echo observes (step, last action): critical are the steps 1 and 3, whatever the action was.
AT_1_AND_3 = CriticalStates(
    [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]],
    actions=[[0.5, -0.5], [1.0, 0.25]],
    rewards=[1.0, -0.5],
    scale=[1.0, 100.0, 100.0],
    tolerance=0.1,
)
# Turns observes step / 5.
TURNS_AT_2 = CriticalStates([[0.4]], actions=[3], rewards=[0.5], scale=[1.0], tolerance=0.01)
SUGGESTED = {1: [0.5, -0.5], 3: [1.0, 0.25]}


def played(env, action, steps=5):
    """Returns the tuples of a first episode."""
    return [env.reset(seed=0), *(env.step(action) for _ in range(steps))]


class Keeper(gym.Wrapper):
    """Keeps the info dict that it returned, and how it was."""

    def step(self, action):
        *result, info = self.env.step(action)
        self.returned, self.was = info, dict(info)
        return *result, info


class TestBox:
    def test_the_environment_receives_the_suggested_action_in_critical_states_alone(self):
        own = np.array([0.1, 0.2], np.float32)
        _, *steps = played(LLMActionOverride(Echo(), AT_1_AND_3), own)
        for step, (*_, info) in enumerate(steps):
            expected = np.float32(SUGGESTED.get(step, own))
            np.testing.assert_array_equal(info["received"], expected)
            np.testing.assert_array_equal(info["executed_action"], expected)
            assert info["executed_action"].dtype == np.float32
            assert info["action_overridden"] == info["critical"] == (step in SUGGESTED)
            assert info["critical_entry"] == {1: 0, 3: 1}.get(step, -1)

    def test_the_first_state_of_an_episode_may_be_critical(self):
        states = CriticalStates(np.zeros((1, 3)), [[1.0, 1.0]], [0.0], scale=[1.0, 100.0, 100.0], tolerance=0.1)
        env = LLMActionOverride(Echo(steps=2), states)
        for _ in range(2):
            _, first, second = played(env, np.zeros(2, np.float32), steps=2)
            assert first[4]["received"].tolist() == [1, 1]
            assert second[4]["received"].tolist() == [0, 0]

    def test_what_it_publishes_belongs_to_nobody_else(self):
        env = LLMActionOverride(keeper := Keeper(Echo()), AT_1_AND_3)
        own = np.zeros(2, np.float32)
        for _, *_, info in played(env, own)[1:]:
            assert keeper.returned.keys() == keeper.was.keys() == {"received"}
            assert not np.shares_memory(info["executed_action"], own)
            info["executed_action"] += 1
        np.testing.assert_array_equal(AT_1_AND_3.actions, [[0.5, -0.5], [1.0, 0.25]])

    def test_an_environment_that_writes_into_its_action_changes_nothing(self):
        class Writer(Echo):
            def step(self, action):
                result = super().step(action)
                action += 1
                return result

        _, *steps = played(LLMActionOverride(Writer(), AT_1_AND_3), np.zeros(2, np.float32), steps=2)
        assert steps[1][4]["executed_action"].tolist() == [0.5, -0.5]
        _, *steps = played(LLMActionOverride(Writer(), AT_1_AND_3), np.zeros(2, np.float32), steps=2)
        assert steps[1][4]["received"].tolist() == [0.5, -0.5]

    def test_a_wrapper_below_that_wrote_the_executed_action_wins(self):
        class Below(gym.Wrapper):
            def step(self, action):
                *result, info = self.env.step(action)
                return *result, {**info, "executed_action": np.full(2, 9, np.float32)}

        _, *steps = played(LLMActionOverride(Below(Echo()), AT_1_AND_3), np.zeros(2, np.float32), steps=2)
        assert all(info["executed_action"].tolist() == [9, 9] for *_, info in steps)

    @pytest.mark.parametrize(("suggested", "received"), [([7.0, -7.0], [1, -1]), ((0.5, 0), [0.5, 0])])
    def test_what_a_callable_suggests_is_clipped_into_the_space(self, suggested, received):
        env = LLMActionOverride(Echo(), lambda observation: (suggested, 0.0))
        assert played(env, np.zeros(2, np.float32), steps=1)[1][4]["received"].tolist() == received

    @pytest.mark.parametrize("suggested", [0.5, [0.5], [np.nan, 0.0], [[0.5, 0.5]], None, "left"])
    def test_another_shape_or_nan_is_an_error(self, suggested):
        env = LLMActionOverride(Echo(), lambda observation: (suggested, 0.0))
        with pytest.raises(ValueError, match="the suggested action must be in Box"):
            played(env, np.zeros(2, np.float32), steps=1)


class TestDiscrete:
    def test_the_environment_receives_the_suggested_action_in_critical_states_alone(self):
        _, *steps = played(LLMActionOverride(Turns(), TURNS_AT_2), np.int64(1))
        assert [info["received"] for *_, info in steps] == [1, 1, 3, 1, 1]
        assert [info["executed_action"] for *_, info in steps] == [1, 1, 3, 1, 1]
        assert [info["action_overridden"] for *_, info in steps] == [False, False, True, False, False]

    @pytest.mark.parametrize("suggested", [4, -1, 1.5, None, np.nan, np.inf, "left", [1, 2]])
    def test_what_is_not_in_the_space_is_an_error(self, suggested):
        env = LLMActionOverride(Turns(), lambda observation: (suggested, 0.0))
        with pytest.raises(ValueError, match=r"the suggested action must be in Discrete\(4\), got "):
            played(env, 0, steps=1)

    @pytest.mark.parametrize("suggested", [2, 2.0, np.int64(2), np.array(2), np.array([2]), [2]])
    def test_a_number_in_any_form_is_an_action(self, suggested):
        _, step = played(LLMActionOverride(Turns(), lambda observation: (suggested, 0.0)), 0, steps=1)
        assert step[4]["received"] == 2


def test_a_number_is_an_action_of_one_component():
    env = LLMActionOverride(gym.make("Pendulum-v1"), lambda observation: (0.5, 0.0))
    assert played(env, np.zeros(1, np.float32), steps=1)[1][4]["executed_action"].tolist() == [0.5]


class TestInfoKey:
    class Objects(Turns):
        """The same in pixels; what the table is about is in the info."""

        def _split(self, observation, info):
            return np.zeros((2, 3, 3), np.uint8), {**info, "objects": observation}

        def __init__(self):
            super().__init__()
            self.observation_space = Box(0, 255, (2, 3, 3), np.uint8)

        def reset(self, **kwargs):
            return self._split(*super().reset(**kwargs))

        def step(self, action):
            observation, *result, info = super().step(action)
            observation, info = self._split(observation, info)
            return observation, *result, info

    def test_that_array_is_matched_instead_of_the_observation(self):
        _, *steps = played(LLMActionOverride(self.Objects(), TURNS_AT_2, info_key="objects"), 0)
        assert [info["received"] for *_, info in steps] == [0, 0, 3, 0, 0]
        with pytest.raises(ValueError, match="1 entries"):
            LLMActionOverride(self.Objects(), TURNS_AT_2)

    def test_a_missing_key_and_another_size_are_errors(self):
        with pytest.raises(ValueError, match=r"info_key .* 'things'; info has \['objects'\]"):
            LLMActionOverride(self.Objects(), TURNS_AT_2, info_key="things").reset()
        with pytest.raises(ValueError, match=r"3 entries, got shape \(2,\)"):
            LLMActionOverride(Keys(), AT_1_AND_3, info_key="two").reset()


class Keys(Echo):
    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"two": np.zeros(2)}


class TestPatience:
    NOWHERE = CriticalStates([[99.0, 0.0, 0.0]], [[0.0, 0.0]], [0.0], scale=np.ones(3), tolerance=0.1)

    def test_it_fails_where_nothing_was_critical(self):
        env = LLMActionOverride(Echo(steps=100), self.NOWHERE, patience_steps=7)
        played(env, np.zeros(2, np.float32), steps=7)
        with pytest.raises(
            NothingCritical, match=r"first 7 steps .*CriticalStates \(1 states, tolerance 0.1\).* tolerance too small"
        ):
            env.step(np.zeros(2, np.float32))

    def test_it_names_the_failure_of_code_that_was_given_up(self, tmp_path):
        (tmp_path / "critical.py").write_text("def critical(obs):\n    return True, [obs[7]], 0.5\n")
        env = LLMActionOverride(Echo(steps=100), tmp_path / "critical.py", patience_steps=20)
        with pytest.warns(UserWarning, match="failed"):
            played(env, np.zeros(2, np.float32), steps=20)
        with pytest.raises(NothingCritical, match=r"its code failed too often.*first failure, line 2: IndexError"):
            env.step(np.zeros(2, np.float32))

    def test_it_names_the_file(self, tmp_path):
        self.NOWHERE.save(tmp_path / "table.json")
        env = LLMActionOverride(Echo(steps=100), tmp_path / "table.json", patience_steps=1)
        played(env, np.zeros(2, np.float32), steps=1)
        with pytest.raises(NothingCritical, match=r"table\.json"):
            env.step(np.zeros(2, np.float32))

    def test_one_critical_state_in_time_is_enough(self):
        env = LLMActionOverride(Echo(steps=100), AT_1_AND_3, patience_steps=2)
        played(env, np.zeros(2, np.float32), steps=20)
        assert (env.hit_count, env.step_count) == (2, 20)

    def test_steps_without_guidance_do_not_try_patience(self):
        env = LLMActionOverride(Echo(steps=100), self.NOWHERE, patience_steps=7)
        env.reset(seed=0)
        env.is_guided = False
        for _ in range(20):
            env.step(np.zeros(2, np.float32))
        env.is_guided = True
        for _ in range(7):
            env.step(np.zeros(2, np.float32))
        assert env.step_count == 7
        with pytest.raises(NothingCritical, match="in the first 7 steps"):
            env.step(np.zeros(2, np.float32))

    def test_patience_0_never_ends(self):
        env = LLMActionOverride(Echo(steps=100), self.NOWHERE, patience_steps=0)
        played(env, np.zeros(2, np.float32), steps=50)
        assert (env.hit_count, env.step_count) == (0, 50)

    @pytest.mark.parametrize("patience", [-1, 2.5, True, None])
    def test_other_patience_is_refused(self, patience):
        with pytest.raises(ValueError, match="patience_steps must be a whole number"):
            LLMActionOverride(Echo(), AT_1_AND_3, patience_steps=patience)


class TestWithhold:
    EVERYWHERE = CriticalStates(np.zeros((1, 3)), [[1.0, 1.0]], [0.5], scale=[1.0, 100.0, 100.0], tolerance=1e4)

    def test_that_share_of_the_actions_is_the_agents_own_in_critical_states(self):
        env = LLMActionOverride(Echo(steps=4000), self.EVERYWHERE, control_probability=0.25)
        _, *steps = played(env, np.zeros(2, np.float32), steps=4000)
        overridden = np.array([info["action_overridden"] for *_, info in steps])
        assert overridden.mean() == pytest.approx(0.75, abs=0.03)
        for played_it, (*_, info) in zip(overridden, steps, strict=True):
            assert info["received"].tolist() == info["executed_action"].tolist() == ([1, 1] if played_it else [0, 0])
            assert info["critical"]
            assert info["critical_entry"] == 0

    def test_the_seed_of_the_reset_decides_which(self):
        env = LLMActionOverride(Echo(steps=99), self.EVERYWHERE, control_probability=0.5)

        def overridden(seed):
            env.reset(seed=seed)
            return [env.step(np.zeros(2, np.float32))[4]["action_overridden"] for _ in range(40)]

        first = overridden(7)
        assert overridden(7) == first
        assert overridden(8) != first
        assert overridden(None) != overridden(None)

    def test_the_environments_random_stream_is_left_alone(self):
        states = []
        for control_probability in (0.0, 0.5):
            env = LLMActionOverride(Echo(), self.EVERYWHERE, control_probability=control_probability)
            played(env, np.zeros(2, np.float32))
            env.reset()
            states.append(env.unwrapped.np_random.bit_generator.state)
        assert states[0] == states[1]

    def test_its_stream_is_not_the_environments(self):
        env = LLMActionOverride(Echo(steps=99), self.EVERYWHERE, control_probability=0.5)
        env.reset(seed=3)
        withheld = [not env.step(np.zeros(2, np.float32))[4]["action_overridden"] for _ in range(60)]
        assert withheld != (np.random.default_rng(3).random(60) < 0.5).tolist()

    @pytest.mark.parametrize("control_probability", [-0.1, 1.0, np.nan])
    def test_other_probabilities_are_refused(self, control_probability):
        with pytest.raises(InvalidProbability, match=rf"control_probability must lie in \[0, 1\), got {control_probability}"):
            LLMActionOverride(Echo(), AT_1_AND_3, control_probability=control_probability)


class TestSilent:
    def test_a_disabled_entry_is_as_if_it_were_not_critical(self):
        env = LLMActionOverride(Echo(), AT_1_AND_3)
        assert env.disabled == frozenset()
        env.disabled = [1]
        _, *steps = played(env, np.zeros(2, np.float32))
        assert [info["received"].tolist() for *_, info in steps] == [[0, 0], [0.5, -0.5], [0, 0], [0, 0], [0, 0]]
        assert [info["action_overridden"] for *_, info in steps] == [False, True, False, False, False]
        assert [info["critical"] for *_, info in steps] == [False, True, False, False, False]
        assert [info["critical_entry"] for *_, info in steps] == [-1, 0, -1, -1, -1]
        assert env.hit_count == 1

    def test_its_states_do_not_go_to_the_next_nearest_entry(self):
        near = CriticalStates([[0.0, 0, 0], [1.0, 0, 0]], [[1.0, 1.0], [0.5, 0.5]], [0, 0], [1.0, 100.0, 100.0], tolerance=9.0)
        env = LLMActionOverride(Echo(), near)
        env.disabled = {0}
        _, first, second = played(env, np.zeros(2, np.float32), steps=2)
        assert (first[4]["critical_entry"], second[4]["critical_entry"]) == (-1, 1)

    def test_it_may_be_set_from_outside_and_through_a_vector(self):
        env = LLMActionOverride(Echo(), AT_1_AND_3)
        outside = gym.wrappers.RecordEpisodeStatistics(env)
        outside.set_wrapper_attr("disabled", [0], force=False)
        assert env.disabled == {0}
        envs = AsyncVectorEnv([make_stack(5), make_stack(5)])
        try:
            envs.set_attr("disabled", frozenset({1}))
            assert envs.call("disabled") == ({1}, {1})
        finally:
            envs.close()

    @pytest.mark.parametrize("outer_first", [False, True])
    def test_both_wrappers_of_a_stack_are_disabled(self, outer_first):
        outer, inner = (CriticalStateRewarder, LLMActionOverride) if outer_first else (LLMActionOverride, CriticalStateRewarder)
        env = outer(inner(Echo(), AT_1_AND_3), AT_1_AND_3)
        env.set_wrapper_attr("disabled", {0}, force=False)
        _, *steps = played(env, np.zeros(2, np.float32))
        assert [info["critical_entry"] for *_, info in steps] == [-1, -1, -1, 1, -1]
        assert [info["critical"] for *_, info in steps] == [False, False, False, True, False]
        assert [info["llm_reward"] for *_, info in steps] == pytest.approx([0, 0, 0, -0.05, 0])
        assert [info["action_overridden"] for *_, info in steps] == [False, False, False, True, False]

    def test_guidance_that_is_no_table_is_one_entry(self):
        env = LLMActionOverride(Echo(), lambda observation: ([1.0, 1.0], 0.0) if observation[0] == 1 else None)
        own = np.zeros(2, np.float32)
        assert [info["critical_entry"] for *_, info in played(env, own)[1:]] == [-1, 0, -1, -1, -1]
        env.disabled = {0}
        assert [info["critical_entry"] for *_, info in played(env, own)[1:]] == [-1] * 5

    def test_a_table_all_of_which_was_disabled_does_not_run_out_of_patience(self):
        env = LLMActionOverride(Echo(steps=100), AT_1_AND_3, patience_steps=7)
        env.disabled = {0, 1}
        played(env, np.zeros(2, np.float32), steps=20)
        assert env.hit_count == 0

    @pytest.mark.parametrize("entries", [[2], [-1], [0, 7]])
    def test_other_entries_are_refused(self, entries):
        env = LLMActionOverride(Echo(), AT_1_AND_3)
        with pytest.raises(ValueError, match=r"disabled must hold entries of the guidance, 0 to 1, got \["):
            env.disabled = entries
        assert env.disabled == frozenset()


class TestStack:
    def test_a_mask_above_maps_into_native_units_and_the_override_has_the_last_word(self):
        env = LLMActionMask(
            LLMActionOverride(Echo(low=-2.0, high=2.0), AT_1_AND_3), lambda observation: [1.0, 1.0], radius=0.25
        )
        _, *steps = played(env, np.zeros(2, np.float32))
        for step, (*_, info) in enumerate(steps):
            assert info["received"].tolist() == SUGGESTED.get(step, [1, 1])
            assert info["executed_action"].tolist() == SUGGESTED.get(step, [1, 1])
            assert info["action_low"].tolist() == [0.5, 0.5]

    def test_above_a_mask_it_is_refused(self):
        with pytest.raises(ValueError, match="belongs below LLMActionMask"):
            LLMActionOverride(LLMActionMask(Echo(), lambda observation: [0.0, 0.0]), AT_1_AND_3)

    def test_other_action_spaces_are_refused(self):
        class Bits(Echo):
            def __init__(self):
                super().__init__()
                self.action_space = MultiBinary(2)

        with pytest.raises(
            TypeError, match=r"got MultiBinary\(2\); register the environment with .*TransformAction and Discrete\(4\)"
        ):
            LLMActionOverride(Bits(), AT_1_AND_3)

    def test_actions_that_would_be_rescaled(self):
        rescaled = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
        normalised = gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1"))
        for wrapper in (LLMActionOverride, CriticalStateRewarder):
            with pytest.warns(UserWarning, match=f"NormalizeObservation lies below {wrapper.__name__}, .*Put it around it"):
                wrapper(normalised, lambda observation: None)
        with pytest.warns(UserWarning, match="RescaleAction lies below LLMActionOverride, .* Put it around the override"):
            LLMActionOverride(rescaled, lambda obs: None)

    def test_a_box_of_whole_numbers_is_refused_because_they_would_be_cut(self):
        class Stock(Echo):
            def __init__(self):
                super().__init__()
                self.action_space = Box(0, 5, (2,), np.int64)

        with pytest.raises(TypeError, match=r"Boxes of floats, got Box\(0, 5, \(2,\), int64\); .*rint"):
            LLMActionOverride(Stock(), AT_1_AND_3)

    def test_the_step_that_only_resets_below_is_in_no_state(self):
        env = LLMActionOverride(gym.wrappers.Autoreset(Turns()), lambda observation: (1, 1.0))
        env = CriticalStateRewarder(env, lambda observation: (1, 1.0), alpha=1.0, shaping="potential")
        *_, last, resets, first = played(env, np.int64(0), 5 + 1 + 1)
        for _, _, _, _, info in (last, first):
            assert info["llm_reward"] == pytest.approx(0.99 - 1.0)
            assert info["action_overridden"]
        assert not any(resets[4][key] for key in ("llm_reward", "action_overridden", "critical"))
        assert env.step_count == env.hit_count == 6

    @pytest.mark.parametrize("outer_first", [False, True])
    def test_with_the_rewarder_in_both_orders(self, outer_first):
        if outer_first:
            env = CriticalStateRewarder(LLMActionOverride(Echo(), AT_1_AND_3), AT_1_AND_3, alpha=0.5)
        else:
            env = LLMActionOverride(CriticalStateRewarder(Echo(), AT_1_AND_3, alpha=0.5), AT_1_AND_3)
        _, *steps = played(env, np.zeros(2, np.float32))
        assert [reward for _, reward, *_ in steps] == [0, 0 + 0.5, 0, 1.25 - 0.25, 0]
        assert [info["llm_reward"] for *_, info in steps] == [0, 0.5, 0, -0.25, 0]
        assert [info["critical"] for *_, info in steps] == [False, True, False, True, False]
        assert [info["action_overridden"] for *_, info in steps] == [False, True, False, True, False]

    def test_a_state_is_critical_if_either_table_says_so(self):
        only_3 = AT_1_AND_3.moved_to([[9.0, 0, 0], [3.0, 0, 0]])
        for env in (
            CriticalStateRewarder(LLMActionOverride(Echo(), AT_1_AND_3), only_3),
            LLMActionOverride(CriticalStateRewarder(Echo(), AT_1_AND_3), only_3),
        ):
            _, *steps = played(env, np.zeros(2, np.float32))
            assert [info["critical"] for *_, info in steps] == [False, True, False, True, False]

    def test_a_second_one_is_refused(self):
        env = gym.wrappers.OrderEnforcing(LLMActionOverride(Echo(), AT_1_AND_3))
        with pytest.raises(ValueError, match="has an LLMActionOverride already"):
            LLMActionOverride(env, AT_1_AND_3)

    def test_two_rewarders_add_up(self):
        env = CriticalStateRewarder(CriticalStateRewarder(Echo(), AT_1_AND_3, alpha=0.5), AT_1_AND_3, alpha=0.25)
        _, *steps = played(env, np.zeros(2, np.float32))
        assert [info["llm_reward"] for *_, info in steps] == [reward for _, reward, *_ in steps] == [0, 0.75, 0, -0.375, 0]

    def test_a_callable_may_write_into_what_it_is_given(self):
        def guidance(observation):
            observation[:] = 7.0

        for wrapper in (LLMActionOverride, CriticalStateRewarder):
            assert wrapper(Echo(), guidance).reset(seed=0)[0][0] == 0.0

    def test_attributes_of_the_environment_are_left_alone(self):
        class Busy(Echo):
            disabled, counts = True, {"mine": 1}

        env = LLMActionOverride(CriticalStateRewarder(Busy(), AT_1_AND_3), AT_1_AND_3)
        env.disabled, env.counts = {0}, GuidanceCounts(5, 1)
        assert (env.env.disabled, env.env.counts) == ({0}, GuidanceCounts(5, 1))
        assert (env.unwrapped.disabled, env.unwrapped.counts) == (True, {"mine": 1})

    def test_of_two_tables_that_of_the_override_names_the_entry(self):
        only_3 = AT_1_AND_3.moved_to([[3.0, 0, 0], [9.0, 0, 0]])
        for env, entries in (
            (CriticalStateRewarder(LLMActionOverride(Echo(), AT_1_AND_3), only_3), [-1, 0, -1, 1, -1]),
            (LLMActionOverride(CriticalStateRewarder(Echo(), only_3), AT_1_AND_3), [-1, 0, -1, 1, -1]),
            (CriticalStateRewarder(LLMActionOverride(Echo(), only_3), AT_1_AND_3), [-1, -1, -1, 0, -1]),
            (LLMActionOverride(CriticalStateRewarder(Echo(), AT_1_AND_3), only_3), [-1, -1, -1, 0, -1]),
            (CriticalStateRewarder(CriticalStateRewarder(Echo(), AT_1_AND_3), only_3), [-1, 0, -1, 0, -1]),
        ):
            _, *steps = played(env, np.zeros(2, np.float32))
            assert [info["critical_entry"] for *_, info in steps] == entries

    def test_entries_that_one_of_the_tables_lacks_silence_none(self):
        one = CriticalStates([[3.0, 0, 0]], [[0.5, 0.5]], [1.0], scale=np.ones(3), tolerance=0.1)
        for env in (
            CriticalStateRewarder(LLMActionOverride(Echo(), one), AT_1_AND_3),
            CriticalStateRewarder(LLMActionOverride(Echo(), AT_1_AND_3), one),
        ):
            with pytest.raises(ValueError, match="0 to 0, got"):
                env.disabled = {1}
            assert env.disabled == env.env.disabled == frozenset()


def make_stack(steps):
    return lambda: LLMActionMask(
        CriticalStateRewarder(LLMActionOverride(Echo(steps=steps), AT_1_AND_3), AT_1_AND_3, alpha=0.5), prior, radius=0.1
    )


def prior(observation):
    return np.array([0.125, 0.125])


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_every_transition_of_a_vector_is_told_of_in_full(num_envs, mode, vector):
    lengths = [4, 2, 5][:num_envs]
    envs = vector([make_stack(length) for length in lengths], autoreset_mode=mode)
    try:
        observations, _ = envs.reset(seed=0)
        done, hits, transitions = np.zeros(num_envs, bool), 0, 0
        for _ in range(14):
            before, was_done = observations, done
            observations, rewards, terminated, truncated, infos = envs.step(np.zeros((num_envs, 2), np.float32))
            done = terminated | truncated
            real = np.ones(num_envs, bool) if mode == AutoresetMode.SAME_STEP else ~was_done
            if not real.any():
                continue
            executed, critical, llm_reward, overridden = (
                transition_info(infos, key) for key in ("executed_action", "critical", "llm_reward", "action_overridden")
            )
            for row in np.flatnonzero(real):
                step = int(before[row, 0])
                expected = SUGGESTED.get(step, [0.125, 0.125])
                assert executed[row].tolist() == expected
                assert critical[row] == overridden[row] == (step in SUGGESTED)
                assert transition_info(infos, "critical_entry")[row] == {1: 0, 3: 1}.get(step, -1)
                assert llm_reward[row] == {1: 0.5, 3: -0.25}.get(step, 0)
                assert rewards[row] == pytest.approx(sum(expected) + llm_reward[row])
                hits += step in SUGGESTED
                transitions += 1
            assert {critical.dtype, executed.dtype, llm_reward.dtype} <= {np.dtype(t) for t in (bool, "f4", "f8")}
        counts = envs.call("hit_count") if vector is AsyncVectorEnv else [e.get_wrapper_attr("hit_count") for e in envs.envs]
        assert sum(counts) == hits > 0
        counts = envs.call("step_count") if vector is AsyncVectorEnv else [e.get_wrapper_attr("step_count") for e in envs.envs]
        assert sum(counts) == transitions
    finally:
        envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_discrete_actions_in_a_vector(num_envs, mode):
    table = CriticalStates([[0.2], [0.8]], actions=[3, 0], rewards=[1.0, -1.0], scale=[1.0], tolerance=0.05)
    lengths = [5, 10, 5][:num_envs]
    envs = SyncVectorEnv(
        [lambda n=n: CriticalStateRewarder(LLMActionOverride(Turns(steps=n), table), table, alpha=0.5) for n in lengths],
        autoreset_mode=mode,
    )
    observations, _ = envs.reset(seed=0)
    done, overridden = np.zeros(num_envs, bool), 0
    for _ in range(24):
        before, was_done = observations, done
        observations, rewards, terminated, truncated, infos = envs.step(np.ones(num_envs, np.int64))
        done = terminated | truncated
        for row in range(num_envs):
            if mode == AutoresetMode.NEXT_STEP and was_done[row]:
                continue
            action, llm_reward = {0.2: (3, 0.5), 0.8: (0, -0.5)}.get(round(float(before[row, 0]), 3), (1, 0.0))
            assert transition_info(infos, "received")[row] == transition_info(infos, "executed_action")[row] == action
            assert transition_info(infos, "action_overridden")[row] == (action != 1)
            assert rewards[row] == pytest.approx(action + llm_reward)
            overridden += action != 1
    assert overridden >= 6
    envs.close()


class Told(gym.Env):
    """Observes what no array of numbers can hold."""

    def __init__(self, space, observation):
        self.observation_space, self.action_space, self.observation = space, Box(-1.0, 1.0, (1,)), observation

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "observation", "found"),
    [
        (gym.spaces.Dict({"word": gym.spaces.Text(5)}), {"word": "hi"}, "holds text; gymnasium.wrappers.FilterObservation"),
        (gym.spaces.Tuple((Discrete(3), gym.spaces.Text(5))), (1, "hi"), "holds text; gymnasium.wrappers.FilterObservation"),
        (
            gym.spaces.Graph(Box(-1, 1, (2,)), None),
            gym.spaces.GraphInstance(np.zeros((1, 2), np.float32), None, None),
            "holds a NoneType that is no array",
        ),
    ],
)
def test_what_is_no_number_is_a_fault_of_the_code_not_the_end_of_the_run(space, observation, found):
    function = CriticalFunction("def critical(obs):\n    return True, [0.5], 0.0\n", Box(-1.0, 1.0, (1,)))
    env = LLMActionOverride(Told(space, observation), function)
    with pytest.warns(UserWarning, match=found):
        env.reset(seed=0)
    *_, info = env.step(np.zeros(1, np.float32))
    assert not info["action_overridden"]


@pytest.mark.parametrize(
    ("space", "observation", "at"),
    [
        (gym.spaces.Tuple((Discrete(3), Box(-1, 1, (2,)))), (1, np.zeros(2, np.float32)), "obs[0] + obs[1][0]"),
        (gym.spaces.Dict(a=Discrete(3), b=Box(-1, 1, (2,))), {"a": 1, "b": np.zeros(2, np.float32)}, "obs['a'] + obs['b'][1]"),
    ],
)
def test_code_reads_the_parts_of_an_observation(space, observation, at):
    function = CriticalFunction(f"def critical(obs):\n    return {at} == 1, [0.5], 0.0\n", Box(-1.0, 1.0, (1,)))
    env = LLMActionOverride(Told(space, observation), function)
    env.reset(seed=0)
    *_, info = env.step(np.zeros(1, np.float32))
    assert (info["action_overridden"], info["executed_action"].tolist()) == (True, [0.5])


def test_guidance_begins_anew_where_a_wrapper_below_begins_an_episode():
    source = "n = 0\n\ndef critical(obs):\n    global n\n    n += 1\n    return n == 2, [0.5, 0.5], 0.0\n"
    env = LLMActionOverride(gym.wrappers.Autoreset(Echo(steps=3)), CriticalFunction(source, Box(-1.0, 1.0, (2,), np.float32)))
    infos = [info for *_, info in played(env, np.zeros(2, np.float32), steps=8)]
    assert [bool(info["action_overridden"]) for info in infos] == [False, False, True, False, False, False, True, False, False]


def test_an_action_between_two_actions_is_refused():
    env = LLMActionOverride(gym.make("CartPole-v1"), lambda obs: (1.9, 0.0))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="the suggested action must be in"):
        env.step(0)


def test_guidance_that_cannot_be_copied_acts():
    class Guide:
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, observation):
            with self.lock:
                return np.float32([1.5]), 0.0

        def reset(self):  # what has one is copied, if it can be
            pass

    env = LLMActionOverride(gym.make("Pendulum-v1"), Guide())
    env.reset(seed=0)
    assert env.step(np.float32([0.0]))[4]["executed_action"] == 1.5
    assert "critical_states" in env.spec.additional_wrappers[-1].kwargs
