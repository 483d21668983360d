"""The whole way: from episodes through a model or a recording to a folder that is a table of critical states."""

import dataclasses
import hashlib
import json
import re
import shutil

import gymnasium as gym
import numpy as np
import pytest
from scripted import (
    ACTIONS,
    CODE,
    GOOD,
    OPTIONS,
    PLACES,
    PLACES_2,
    REWARDS,
    ROUND_2,
    SETTINGS,
    SOURCE,
    SOURCE_2,
    STATES,
    STATES_2,
    Scripted,
    answer,
    entry,
    facts,
    find,
    play,
)

from llmwrappers import CriticalStates, LLMActionOverride, Trajectories
from llmwrappers.critical_states.function import CriticalFunction
from llmwrappers.envs.pong import locate
from local_llm import find_critical_states as command
from local_llm import guidance_folder
from local_llm.find_critical_states import find_critical_states, main
from local_llm.models.recorded import Recorded
from local_llm.models.reply import ModelError, PromptTooLong, Sampling
from local_llm.prompting import episode_prompts
from local_llm.prompting.episode_prompts import Episodes
from local_llm.prompting.render import fill_file
from local_llm.replies.reply_text import ExtractionError
from local_llm.selection.trial import Trial

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")


@pytest.fixture(scope="module")
def trajectories():
    return play("Pendulum-v1")


@pytest.fixture
def env():
    return gym.make("Pendulum-v1")


@pytest.fixture
def saved(tmp_path, trajectories, monkeypatch):
    """The file of the trajectories, in the working directory."""
    monkeypatch.chdir(tmp_path)
    trajectories.save(tmp_path / "trajectories.npz")
    return tmp_path / "trajectories.npz"


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("FrozenLake-v1", "observation[15]"),
        ("Blackjack-v1", "[1][10]"),
        ("llmwrappers-tests/DictOneStep-v0", "goal[1]"),
    ],
)
def test_episodes_of_observations_that_ppo_ultra_flattens_are_read(tmp_path, monkeypatch, capsys, env_id, name):
    monkeypatch.chdir(tmp_path)
    play(env_id, wrap=gym.wrappers.FlattenObservation).save("trajectories.npz")
    assert main(["--trajectories", "trajectories.npz", "--prompts-only", "--output", "out", "--episodes", "2"]) == 0
    prompt = (tmp_path / "out" / "prompt-states.txt").read_text()
    assert f" {name}; usual" in prompt
    assert "flattened; whatever" in prompt


class TestTable:
    def test_good_answers_become_a_table_and_code(self, trajectories, env, tmp_path, capsys):
        table, _ = find(trajectories, env, tmp_path / "out", *GOOD)
        folder = tmp_path / "out"
        rows = [trajectories.episode(episode).start + step for episode, step in PLACES]
        np.testing.assert_array_equal(table.observations, trajectories.observations[rows].astype(float))
        assert table.actions.tolist() == [[-0.5], [0.5], [1.5]]
        assert table.rewards.tolist() == [-0.5, 0.0, 0.5]
        assert [(note["episode"], note["step"]) for note in table.notes] == PLACES
        assert table.notes[0] == {
            "episode": 0,
            "step": 7,
            "rationale": "It swings (0, 7).",
            "reasoning": "Push 0.",
            "analysis": "Case 0.",
            "agent_action": trajectories.actions[7].tolist(),
        }
        _, held_out = trajectories.split(2)
        assert table.hit_rate(held_out.observations) == pytest.approx(0.05, abs=0.006)
        assert table.calibration == {"hit_rate": 0.05, "reached": 0.05, "held_out_steps": 200, "table_episodes": 2}
        again = CriticalStates.load(folder / "table.json")
        np.testing.assert_array_equal(again.observations, table.observations)
        assert (folder / "critical.py").read_text() == SOURCE
        assert CriticalFunction(SOURCE, env.action_space)(np.array([-1.0, 0.1, 0.0])) == (pytest.approx([-0.2]), 0.5)
        guided = LLMActionOverride(env, str(folder))
        guided.reset(seed=0)
        assert guided.step(env.action_space.sample())[4]["critical"] in (True, False)
        assert facts(folder)["accepted"] == {"states": 3, "actions": 3, "rewards": 3}
        assert 0 < facts(folder)["code"]["hit_rate"] < 0.5
        assert facts(folder)["refused"] == facts(folder)["changed"] == []
        assert "states: 3 accepted, 0 refused, 0 changed" in capsys.readouterr().out
        (row,) = json.loads((folder / "ledger.json").read_text())
        assert (row["calls"], row["prompt_tokens"], row["seconds"]) == (4, 40, 2.0)

    def test_the_exchanges_are_named_with_their_hashes(self, trajectories, env, tmp_path):
        _, backend = find(trajectories, env, tmp_path, *GOOD)
        exchanges = facts(tmp_path)["exchanges"]
        assert [exchange["prompt"] for exchange in exchanges] == [
            f"prompt-{name}.txt" for name in ("states", "actions", "rewards", "code")
        ]
        for exchange, prompt, text, schema in zip(exchanges, backend.prompts, GOOD, backend.schemas, strict=True):
            assert (tmp_path / exchange["prompt"]).read_bytes() == prompt.encode()
            assert (tmp_path / exchange["reply"]).read_bytes() == text.encode()
            assert exchange["prompt_sha256"] == hashlib.sha256(prompt.encode()).hexdigest()
            assert exchange["reply_sha256"] == hashlib.sha256(text.encode()).hexdigest()
            assert exchange["schema"] == schema
        assert backend.schemas[3] is None

    def test_discrete_actions(self, tmp_path):
        trajectories, env = play("llmwrappers-tests/CriticalTurns-v0"), gym.make("llmwrappers-tests/CriticalTurns-v0")
        actions = answer("actions", entry(0, 5, action=4), entry(1, 6, action=5))
        texts = [
            answer("critical_states", entry(0, 5), entry(1, 6)),
            actions,
            answer("rewards", entry(0, 5, reward=1)),
            "```python\ndef critical(obs):\n    return 0.2 < obs[0] < 0.4, 3, -1.0\n```",
        ]
        table, backend = find(trajectories, env, tmp_path, *texts)
        assert table.actions.tolist() == [4]
        assert table.is_discrete
        reasons = [note["reason"] for note in facts(tmp_path)["refused"]]
        assert reasons == [
            "action must be one of 3 integers from 2 on, got 5",
            "the critical state is left out, because it has no usable entry",
        ]
        assert backend.schemas[1]["properties"]["actions"]["items"]["properties"]["action"] == {
            "type": "integer",
            "minimum": 2,
            "maximum": 4,
        }
        assert "one of the 3 integers from 2 on" in backend.prompts[1]

    def test_pongs_grids_are_matched_by_their_objects(self, tmp_path):
        env = gym.make("llmwrappers/PongGrid-v0")
        trajectories = play(env.spec.id, wrap=lambda env: gym.wrappers.TimeLimit(env, 120))
        texts = [
            answer("critical_states", entry(0, 80), entry(1, 100)),
            answer("actions", entry(0, 80, action=2), entry(1, 100, action=3)),
            answer("rewards", entry(0, 80, reward=1), entry(1, 100, reward=0)),
        ]
        table, backend = find(trajectories, env, tmp_path, *texts)
        assert facts(tmp_path)["code"] == {"refused": "not asked for: the observations are not vectors"}
        before, now = trajectories.observations[80]
        np.testing.assert_array_equal(table.observations[0], locate(now, before))
        guided = LLMActionOverride(env, str(tmp_path), info_key="objects")
        guided.reset(seed=0)
        assert "critical" in guided.step(0)[4]
        trial = Trial([row(0, 30, 31, 2.0, 0.5, 3.5), row(1, 0, 0)], trajectories)
        text = Episodes(trajectories, env, SETTINGS).entry_text(table, 0, trial)
        assert backend.prompts[1].count(text.splitlines()[2].partition(" Remarks")[0]) >= 1

    def test_the_same_answers_give_the_same_bytes(self, trajectories, env, tmp_path):
        for name in "ab":
            find(trajectories, env, tmp_path / name, *GOOD)
        names = sorted(path.name for path in (tmp_path / "a").iterdir())
        assert len(names) == 12
        for name in names:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


HISTORY = (STATES[:90] + "CUT", STATES[:70] + "CUT", STATES.replace("\n", "\r\n"), "No.", ACTIONS, REWARDS, "No code.", CODE)


class TestReplay:
    @pytest.fixture
    def folder(self, saved, trajectories, env):
        """A table as it is shipped, with a history of retries."""
        folder = saved.parent / "shipped" / "Pendulum-v1"
        find(trajectories, env, folder, *HISTORY)
        shutil.move(saved, folder)
        return folder

    def same(self, folder, output):
        names = {path.name for path in folder.iterdir()} - {"trajectories.npz", "provenance.json", "ledger.json"}
        assert len(names) == 18
        assert names | {"provenance.json", "ledger.json"} == {path.name for path in output.iterdir()}
        for name in names:
            assert (output / name).read_bytes() == (folder / name).read_bytes()

    def test_a_folder_is_rebuilt_byte_for_byte(self, folder, tmp_path, capsys):
        assert main(["--replay", str(folder), "--output", "again"]) == 0
        self.same(folder, tmp_path / "again")
        assert "byte for byte" in capsys.readouterr().out
        old, new = facts(folder), facts(tmp_path / "again")
        for key in ("exchanges", "table", "code", "settings", "trajectories", "model", "refused", "changed"):
            assert old[key] == new[key]
        assert all(row["replayed"] for row in json.loads((tmp_path / "again" / "ledger.json").read_text()))
        assert main(["--replay", "again"]) == 1  # it holds no trajectories
        shutil.copy(folder / "trajectories.npz", "again")
        assert main(["--replay", "again", "--output", "again"]) == 1
        assert "is where the recorded replies are" in capsys.readouterr().err
        assert main(["--replay", "again", "--output", "third"]) == 0
        self.same(folder, tmp_path / "third")

    def test_prompts_that_are_worded_otherwise_today_are_asked_as_they_were(self, folder, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(episode_prompts, "fill_file", lambda name, values: f"Be brief.\n{fill_file(name, values)}")
        assert main(["--replay", str(folder), "--output", "again"]) == 0
        self.same(folder, tmp_path / "again")
        assert "prompt-code-retry-1.txt is asked as it was; today it would be worded otherwise" in capsys.readouterr().out
        shutil.copy(folder / "trajectories.npz", "mine.npz")
        assert main(["--trajectories", "mine.npz", "--replay", str(folder), *OPTIONS, "--output", "out"]) == 1
        assert "+Be brief." in capsys.readouterr().err  # new episodes deserve the new prompt

    def test_replay_alone_rebuilds_all_that_is_shipped(self, folder, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(command, "SHIPPED", folder.parent)
        shutil.copytree(folder, folder.with_name("Another-v1"))
        capsys.readouterr()
        assert main(["--replay", "--env-id", "Pendulum-v1"]) == 0
        first = f"replies are read from the recordings in {folder} (model: scripted); no model is asked\n"
        assert capsys.readouterr().out.startswith(first)
        self.same(folder, tmp_path / "tables" / "Pendulum-v1")
        assert not (tmp_path / "tables" / "Another-v1").exists()
        assert main(["--replay"]) == 0
        self.same(folder, tmp_path / "tables" / "Another-v1")
        assert main(["--replay", "--env-id", "Hopper-v4"]) == 1
        assert main(["--replay", "--output", "x"]) == 1
        errors = capsys.readouterr().err
        assert "no table is shipped for Hopper-v4" in errors
        assert "--output is one folder; name one table with --env-id" in errors

    def test_shipped_replies_answer_new_trajectories_of_the_same_episodes(self, folder, tmp_path):
        shutil.copy(folder / "trajectories.npz", "mine.npz")
        assert main(["--trajectories", "mine.npz", "--replay", str(folder), *OPTIONS, "--output", "out"]) == 0
        self.same(folder, tmp_path / "out")
        assert "--trajectories mine.npz" in facts(tmp_path / "out")["command"]

    @pytest.mark.parametrize(
        ("name", "old", "new", "message"),
        [
            ("table.json", b"-0.5", b"-0.4", "table.json is not what"),
            ("critical.py", b"0.95", b"0.94", "critical.py is not what"),
            ("reply-rewards.md", b"Case 0", b"Case 9", "reply-rewards.md is not the file that provenance.json describes"),
            ("prompt-code.txt", b"pure", b"fine", "prompt-code.txt is not the file that provenance.json describes"),
            ("provenance.json", b'"hit_rate": 0.05', b'"hit_rate": 0.25', "table.json is not what"),
            ("provenance.json", b'"settings"', b'"setting"', "holds no table that can be rebuilt: KeyError"),
            ("provenance.json", b'"reply-code.md"', b'"../reply-code.md"', "is no file in this folder"),
            ("provenance.json", b'"length"', b'"short"', "finish_reason is 'short'"),
        ],
    )
    def test_what_was_changed_is_named(self, folder, capsys, name, old, new, message):
        data = (folder / name).read_bytes()
        assert old in data
        (folder / name).write_bytes(data.replace(old, new, 1))
        assert main(["--replay", str(folder), "--output", "again"]) == 1
        assert message in capsys.readouterr().err


class TestCommand:
    def run(self, monkeypatch, backend, *arguments):
        monkeypatch.setattr(command, "make_backend", lambda args: backend)
        return main(["--trajectories", "trajectories.npz", *OPTIONS, *arguments])

    def test_a_model_is_asked_and_the_table_named(self, saved, monkeypatch, capsys):
        assert self.run(monkeypatch, Scripted(*GOOD), "--hit-rate", "0.1", "--seed", "3") == 0
        folder = saved.parent / "tables" / "Pendulum-v1"
        assert CriticalStates.load(folder / "table.json").calibration["hit_rate"] == 0.1
        assert facts(folder)["sampling"]["seed"] == 3
        assert facts(folder)["settings"]["hit_rate"] == 0.1
        assert "--critical-states tables/Pendulum-v1" in capsys.readouterr().out

    def test_an_environment_that_a_module_registers(self, saved, monkeypatch, capsys):
        trajectories = Trajectories.load("trajectories.npz")
        dataclasses.replace(trajectories, env_id="gymnasium:Pendulum-v1").save("trajectories.npz")
        assert self.run(monkeypatch, Scripted(*GOOD)) == 0
        table = CriticalStates.load(saved.parent / "tables" / "gymnasium-Pendulum-v1" / "table.json")
        table.require_fits(gym.make("gymnasium:Pendulum-v1"))
        assert "--env-id gymnasium:Pendulum-v1" in capsys.readouterr().out

    def test_what_the_environment_is_made_with_goes_everywhere(self, saved, monkeypatch, capsys):
        backend = Scripted(*GOOD)
        assert self.run(monkeypatch, backend, "--env-kwargs", '{"g": 1.62}', "--output", "moon") == 0
        assert all("This environment was made with g=1.62; where" in prompt for prompt in backend.prompts)
        assert """--env-id Pendulum-v1 --env-kwargs '{"g": 1.62}' --agent""" in capsys.readouterr().out
        assert facts(saved.parent / "moon")["env_kwargs"] == {"g": 1.62}
        shutil.copy("trajectories.npz", "moon")
        made = []
        monkeypatch.setattr(guidance_folder, "make", lambda env_id, **kwargs: made.append(kwargs) or gym.make(env_id, **kwargs))
        assert main(["--replay", "moon", "--output", "again"]) == 0
        assert made == [{"g": 1.62}]
        assert facts(saved.parent / "again")["env_kwargs"] == {"g": 1.62}

    def test_what_the_episodes_were_played_in_is_known(self, saved, monkeypatch, capsys):
        dataclasses.replace(Trajectories.load("trajectories.npz"), env_kwargs='{"g": 1.62}').save("trajectories.npz")
        backend = Scripted(*GOOD)
        assert self.run(monkeypatch, backend) == 0
        assert all("This environment was made with g=1.62; where" in prompt for prompt in backend.prompts)
        assert """--env-id Pendulum-v1 --env-kwargs '{"g": 1.62}' --agent""" in capsys.readouterr().out
        assert facts(saved.parent / "tables" / "Pendulum-v1")["env_kwargs"] == {"g": 1.62}

    def test_what_came_is_recorded_and_the_same_command_goes_on(self, saved, monkeypatch, capsys):
        backend = Scripted(*GOOD[:2], ModelError("the server is down"))
        assert self.run(monkeypatch, Recorded(backend, "recordings"), "--recordings", "recordings") == 1
        assert "the server is down" in capsys.readouterr().err
        backend = Scripted(*GOOD[2:])
        assert self.run(monkeypatch, Recorded(backend, "recordings"), "--recordings", "recordings") == 0
        assert len(backend.prompts) == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "--trajectories is needed"),
            (["--trajectories", "missing.npz"], "missing.npz"),
            (
                ["--trajectories", "trajectories.npz", "--env-id", "Acrobot-v1"],
                "the trajectories are of Pendulum-v1, got the environment",
            ),
            (["--trajectories", "trajectories.npz", "--episodes", "3"], "episodes must be less than the 3 of the trajectories"),
            (
                ["--trajectories", "trajectories.npz", "--episodes", "2", "--token-budget", "5"],
                "token_budget 5, for 2 episodes 2 each: token_budget must be at least",
            ),
            (["--trajectories", "trajectories.npz", "--replay", *OPTIONS], "no replies are shipped for Pendulum-v1"),
            (["--trajectories", "trajectories.npz", "--replay", "none", *OPTIONS], "--replay: no folder none"),
            (
                ["--trajectories", "trajectories.npz", "--output", ".", *OPTIONS],
                "is not empty, and has no prompt",
            ),
            (["--replay", "none"], "none holds no table that can be rebuilt: FileNotFoundError"),
        ],
    )
    def test_bad_input_says_why_and_ends_with_1(self, saved, monkeypatch, capsys, arguments, message):
        monkeypatch.setattr(command, "SHIPPED", saved.parent / "nothing")
        assert main(arguments) == 1
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--episodes", "0"], "episodes must be at least 1, got 0"),
            (["--hit-rate", "1"], "hit_rate must lie in (0, 1), got 1.0"),
            (["--rounds", "3"], "rounds must be 1 or 2, got 3"),
            (["--round-timesteps", "0"], "round_timesteps must be at least 1, got 0"),
            (["--rounds", "2", "--round-timesteps", "1000"], "at least 2048, one rollout of PPO, got 1000"),
            (["--temperature", "-1"], "temperature must be finite and at least 0, got -1.0"),
        ],
    )
    def test_wrong_arguments_end_with_2(self, capsys, arguments, message):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert message in capsys.readouterr().err

    def test_a_prompt_that_is_too_long_names_what_shortens_it(self, saved, monkeypatch, capsys):
        assert self.run(monkeypatch, Scripted(PromptTooLong("the prompt has 9,000 tokens, and it takes 8,192"))) == 1
        error = capsys.readouterr().err
        assert error.startswith("find_critical_states: error: the prompt has 9,000 tokens, and it takes 8,192\n")
        assert all(option in error for option in ("--token-budget", "--episodes", "--max-new-tokens"))

    def test_what_is_wrong_is_told_to_the_user_not_to_the_model(self, saved, monkeypatch, capsys):
        assert self.run(monkeypatch, Scripted("a", "b", "c")) == 1
        said = capsys.readouterr()
        assert 'states: refused: No JSON object has the key "critical_states".\n' in said.out
        assert "another --seed, or a larger model" in said.err
        assert not any("Reply with" in text for text in said)

    def test_a_prompt_that_was_looked_at_gives_way_to_one_by_the_tokens_of_the_model(self, saved, monkeypatch):
        class Counting(Scripted):
            def count_tokens(self, text):
                return len(text) // 2

        arguments = ["--trajectories", "trajectories.npz", *OPTIONS, "--output", "out"]
        assert main([*arguments, "--prompts-only"]) == 0
        looked_at = (saved.parent / "out" / "prompt-states.txt").read_text()
        backend = Counting(*GOOD)
        assert self.run(monkeypatch, backend, "--output", "out") == 0
        assert len(backend.prompts[0]) < len(looked_at)
        assert (saved.parent / "out" / "prompt-states.txt").read_text() == backend.prompts[0]

    def test_another_output_is_left_alone(self, saved, monkeypatch, capsys):
        assert self.run(monkeypatch, Scripted(*GOOD), "--output", "out") == 0
        table = (saved.parent / "out" / "table.json").read_bytes()
        backend = Scripted(*GOOD)
        assert self.run(monkeypatch, backend, "--output", "out", "--token-budget", "2500") == 1
        assert "holds the critical states of another prompt" in capsys.readouterr().err
        assert self.run(monkeypatch, backend, "--output", "out", "--recording", "off") == 1
        assert "holds reply-actions.md, and nothing is recorded; name another folder" in capsys.readouterr().err
        assert backend.prompts == []
        assert (saved.parent / "out" / "table.json").read_bytes() == table


def row(number, played, withheld, advantage=None, low=None, high=None, disabled=False):
    return {
        "entry": number, "played": played, "withheld": withheld, "advantage": advantage, "low": low, "high": high,
        "disabled": disabled,
    }  # fmt: skip


class TestSecondRound:
    ROUNDS = dataclasses.replace(SETTINGS, rounds=2, round_timesteps=50_000)
    HARMED = row(0, 40, 12, -3.0, -5.0, -1.0, True)
    HELPED = row(2, 30, 31, 2.0, 0.5, 3.5)

    def find(self, trajectories, env, folder, rows, *texts):
        """Finds with a trial that gave these rows and other episodes."""
        tried = []

        def try_table(path):
            tried.append((path.name, path.read_bytes()))
            return Trial(rows, play("Pendulum-v1", first_seed=50))

        backend = Scripted(*texts)
        table = find_critical_states(
            Episodes(trajectories, env, self.ROUNDS, backend), backend, Sampling(), folder, try_table=try_table
        )
        assert backend.texts == []
        assert tried == [("table-1.json", (folder / "table-1.json").read_bytes())]
        return table, backend

    def test_the_second_answer_becomes_the_table_and_the_first_is_kept_beside_it(self, trajectories, env, tmp_path):
        first, _ = find(trajectories, env, tmp_path / "one", *GOOD)
        rows = [self.HARMED, row(1, 0, 0), row(2, 3, 2, 0.75)]
        table, _ = self.find(trajectories, env, tmp_path / "two", rows, *GOOD, *ROUND_2)
        for old, new in (("table.json", "table-1.json"), ("critical.py", "critical-1.py")):
            assert (tmp_path / "one" / old).read_bytes() == (tmp_path / "two" / new).read_bytes()
        for path in (tmp_path / "one").glob("*-*"):  # prompts and replies
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        later = play("Pendulum-v1", first_seed=50)
        expected = [later.observations[later.episode(episode).start + step] for episode, step in PLACES_2]
        np.testing.assert_array_equal(table.observations, np.array(expected, float))
        assert table.actions.tolist() == [[-1.0], [-1.0]]
        assert table.rewards.tolist() == [-0.25, -0.25]
        assert table.hit_rate(later.split(2)[1].observations) == pytest.approx(0.05, abs=0.006)
        assert (tmp_path / "two" / "critical.py").read_text() == SOURCE_2
        assert json.loads((tmp_path / "two" / "entries.json").read_text()) == rows
        kept = facts(tmp_path / "two")
        names = [f"prompt-{name}{suffix}.txt" for suffix in ("", "-2") for name in ("states", "actions", "rewards", "code")]
        assert [exchange["prompt"] for exchange in kept["exchanges"]] == names
        assert kept["accepted"] == {
            "states": 3, "actions": 3, "rewards": 3, "states-2": 2, "actions-2": 2, "rewards-2": 2
        }  # fmt: skip
        assert kept["first_round"] == {key: facts(tmp_path / "one")[key] for key in ("table", "code")}
        assert len(first) == kept["first_round"]["table"]["states"] == 3

    def test_the_prompt_tells_what_each_entry_was_worth_and_what_the_agent_does_now(self, trajectories, env, tmp_path):
        rows = [self.HARMED, row(1, 3, 2, 0.75), self.HELPED]
        keep = STATES_2.replace('"analysis"', '"keep": [], "analysis"')
        _, backend = self.find(trajectories, env, tmp_path, rows, *GOOD, keep, *ROUND_2[1:])
        prompt = backend.prompts[4]
        assert not re.search(r"<<|>>|\{[a-z_]+\}|None", prompt)
        assert "went on learning for 50 000 steps" in prompt
        later = play("Pendulum-v1", first_seed=50)
        before, now = (f"{x.returns.mean():,.0f}".replace(",", " ") for x in (trajectories, later))
        assert f"returned {before} on average; now {now}" in prompt
        told = prompt.partition("# What came of your entries")[2]
        assert told.count("\n## Entry ") == 3
        assert "## Entry 0\nWhy it was critical: It swings (0, 7).\ncos(theta) = " in told
        assert "\nAction: [-0.5]. Push 0.\nPlayed in 40 episodes, withheld in 12. Worth -3 [-5, -1]: it was disabled." in told
        assert "Played in 3 episodes, withheld in 2. Met too rarely to tell its worth." in told
        assert "Worth +2 [+0.5, +3.5]: it surely helped." in told
        assert Episodes(later, env, SETTINGS).interpreter.episode(1, 1500) in told
        assert '"keep": [2],' in told
        assert backend.prompts[5].count("It stalls") == 2  # of the new episodes alone
        (example,) = re.findall(r"```json\n(\{.*?\n\})\n```", prompt, re.DOTALL)
        assert list(json.loads(example)) == backend.schemas[4]["required"] == ["analysis", "keep", "critical_states"]

    def test_an_entry_that_surely_helped_may_be_kept_and_no_other(self, trajectories, env, tmp_path):
        rows = [self.HARMED, row(1, 30, 30, 1.0, -0.5, 2.5), self.HELPED]
        keep = STATES_2.replace('"analysis"', '"keep": [2, 0, 1, 2, "two"], "analysis"')
        table, backend = self.find(trajectories, env, tmp_path, rows, *GOOD, STATES_2, keep, *ROUND_2[1:])
        assert 'No JSON object has the key "keep"' in backend.prompts[5]
        first = CriticalStates.load(tmp_path / "table-1.json")
        assert table.observations[0].tolist() == first.observations[2].tolist()
        assert table.actions.tolist() == [[1.5], [-1.0], [-1.0]]
        assert table.rewards.tolist() == [0.5, -0.25, -0.25]
        assert table.notes[0] == {**first.notes[2], "round": 1}
        note, told = first.notes[2], backend.prompts[-1].partition("## Critical state: of earlier episodes; it helped\n")[2]
        assert told.startswith(f"Why it is critical: {note['rationale']}\ncos(theta) = ")
        assert f"Suggested action: [1.5]. {note['reasoning']}\nReward for being here: 0.5. {note['analysis']}" in told
        assert "round" not in table.notes[1]
        assert [note["reason"] for note in facts(tmp_path)["refused"]] == [
            "keep must name entries that surely helped, [2], got 0",
            "keep must name entries that surely helped, [2], got 1",
            "keep must be a finite number, got 'two'",
        ]

    def test_where_nothing_surely_helped_there_is_nothing_to_keep(self, trajectories, env, tmp_path):
        rows = [self.HARMED, row(1, 0, 0), row(2, 30, 31, 2.0, -0.5, 4.5)]
        _, backend = self.find(trajectories, env, tmp_path, rows, *GOOD, *ROUND_2)
        assert "keep" not in backend.schemas[4]["properties"]
        assert '"keep"' not in backend.prompts[4]
        assert "Met too rarely to tell its worth." in backend.prompts[4]
        assert "Worth +2 [-0.5, +4.5]: that may be chance." in backend.prompts[4]

    def test_without_a_usable_second_answer_the_first_table_stands(self, trajectories, env, tmp_path):
        with pytest.raises(ExtractionError):
            self.find(trajectories, env, tmp_path, [row(i, 0, 0) for i in range(3)], *GOOD, "a", "b", "c")
        assert (tmp_path / "table.json").read_bytes() == (tmp_path / "table-1.json").read_bytes()
        assert (tmp_path / "critical.py").read_text() == SOURCE

    def test_code_of_the_first_round_does_not_stand_for_the_second(self, trajectories, env, tmp_path):
        rows = [row(i, 0, 0) for i in range(3)]
        self.find(trajectories, env, tmp_path, rows, *GOOD, *ROUND_2[:3], "No.", "No.", "No.")
        assert not (tmp_path / "critical.py").exists()
        assert (tmp_path / "critical-1.py").read_text() == SOURCE

    def test_it_needs_a_trial(self, trajectories, env, tmp_path):
        with pytest.raises(ValueError, match="try_table is for settings.rounds = 2 and needed there, got None for 2"):
            find_critical_states(Episodes(trajectories, env, self.ROUNDS), Scripted(), Sampling(), tmp_path)


class TestCode:
    """``--ask code``: one prompt, a function that leads on, no table."""

    ALWAYS = SOURCE.replace("-0.95", "9.95")

    def run(self, monkeypatch, backend, *arguments):
        monkeypatch.setattr(command, "make_backend", lambda args: backend)
        return main(["--trajectories", "trajectories.npz", "--ask", "code", *OPTIONS, *arguments])

    def test_one_reply_becomes_code_that_may_speak_everywhere(self, saved, monkeypatch, capsys):
        broken = CODE.replace(SOURCE, "import os\nHERE = os.getcwd()\n" + SOURCE)
        backend = Scripted(broken, CODE.replace(SOURCE, self.ALWAYS))
        (saved.parent / "agent.pt").touch()
        assert self.run(monkeypatch, backend, "--output", "out") == 0
        folder = saved.parent / "out"
        assert (folder / "critical.py").read_text() == self.ALWAYS
        assert facts(folder)["code"]["hit_rate"] == 1.0
        assert [exchange["reply"] for exchange in facts(folder)["exchanges"]] == [
            "reply-function.md",
            "reply-function-retry-1.md",
        ]
        assert "line 1: import of os, which a policy cannot use; it may import numpy, math, " in backend.prompts[1]
        assert not list(folder.glob("table*"))
        use = "use it: llmwrappers train ppo-ultra --env-id Pendulum-v1 --agent agent.pt --arm a --guidance code "
        assert f"{use}--critical-states out" in capsys.readouterr().out
        shutil.copy(saved, folder)
        assert main(["--replay", "out", "--output", "again"]) == 0
        assert (saved.parent / "again" / "critical.py").read_text() == self.ALWAYS

    def test_code_with_state_begins_every_episode_anew(self, saved, monkeypatch, trajectories):
        source = "n = 0\n\ndef critical(obs):\n    global n\n    n += 1\n    return n == 1, [0.5], 0.0\n"
        assert self.run(monkeypatch, Scripted(f"```python\n{source}```"), "--output", "out") == 0
        held_out = trajectories.split(SETTINGS.episodes)[1]
        assert facts(saved.parent / "out")["code"]["hit_rate"] == len(held_out) / len(held_out.observations)

    def test_the_prompt_holds_the_notes_and_can_be_had_alone(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        play("llmwrappers/KeyCorridor-v0").save(tmp_path / "trajectories.npz")
        assert self.run(monkeypatch, None, "--prompts-only", "--output", "out") == 0
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["prompt-function.txt"]
        prompt = (tmp_path / "out" / "prompt-function.txt").read_text()
        assert "- The grid has 7 x 7 cells." in prompt
        assert "carried kind" in prompt
        assert "which none of these episodes shows" in prompt
        assert "prompt: out/prompt-function.txt" in capsys.readouterr().out

    def test_images_are_refused_before_a_model_is_asked(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        play("llmwrappers/PongGrid-v0", wrap=lambda env: gym.wrappers.TimeLimit(env, 20)).save(tmp_path / "trajectories.npz")
        assert self.run(monkeypatch, None, "--output", "out") == 1
        assert "--ask code: code reads vectors; an observation here has shape (2, 80, 80)" in capsys.readouterr().err

    def test_a_second_round_is_for_tables(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            main(["--ask", "code", "--rounds", "2"])
        assert "a second round tries a table, got 2" in capsys.readouterr().err


@pytest.mark.skipif(
    not gym.__version__.startswith("1.4."), reason="other versions of Gymnasium word the documentation otherwise"
)
@pytest.mark.parametrize("name", sorted(path.parent.name for path in command.SHIPPED.glob("*/critical.py")))
def test_what_is_shipped_is_rebuilt_byte_for_byte(name, tmp_path, capsys):
    env_id = facts(command.SHIPPED / name)["environment"]
    assert main(["--replay", "--env-id", env_id, "--output", str(tmp_path / "again")]) == 0
    assert "byte for byte" in capsys.readouterr().out
    for path in (command.SHIPPED / name).glob("*-*.*"):  # prompts and replies
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    assert facts(tmp_path / "again")["refused"] == facts(command.SHIPPED / name)["refused"]
