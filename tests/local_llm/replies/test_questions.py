"""What a model answers is checked entry by entry, and what is wrong goes back to it."""

import re

import gymnasium as gym
import pytest
from scripted import ACTIONS, CODE, PLACES, REWARDS, SETTINGS, SOURCE, STATES, Scripted, answer, entry, facts, find, play

from llmwrappers import CriticalStates
from llmwrappers.critical_states.guidance import SHIPPED
from local_llm.find_critical_states import find_critical_states
from local_llm.models.reply import ModelError, Sampling
from local_llm.prompting.episode_prompts import Episodes
from local_llm.replies.reply_text import ExtractionError, Truncated

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")


@pytest.fixture(scope="module")
def trajectories():
    return play("Pendulum-v1")


@pytest.fixture
def env():
    return gym.make("Pendulum-v1")


def test_entries_are_refused_one_by_one_and_kept_with_the_reason(trajectories, env, tmp_path, capsys):
    states = [entry(0, 7), entry(5, 0), entry(0, 200), entry(0, -1), entry("0", 7.0), "x", {"step": 3}, entry(1, 2),
              entry(0, 9), entry(0, 10), entry(1, 3), entry(True, 4), entry(1, 4.5)]  # fmt: skip
    actions = [entry(0, 7, action=[9]), entry(0, 9, action=[1, 2]), entry(1, 2, action=["0.25"]),
               entry(1, 3, action=[float("nan")]), entry(1, 4, action=[1]), entry(1, 2, action=[1])]  # fmt: skip
    rewards = [entry(0, 7, reward=1.5), entry(1, 2, reward="-1")]
    texts = [answer("critical_states", *states), answer("actions", *actions), answer("rewards", *rewards), CODE]
    table, _ = find(trajectories, env, tmp_path, *texts)
    assert [(note["episode"], note["step"]) for note in table.notes] == [(1, 2)]
    assert (table.actions.tolist(), table.rewards.tolist()) == ([[0.25]], [-1.0])
    kept = facts(tmp_path)
    assert [(note["answer"], note["reason"]) for note in kept["refused"]] == [
        ("states", "there is no episode 5; 0 to 1 were shown"),
        ("states", "episode 0 has no step 200; it has 0 to 199"),
        ("states", "episode 0 has no step -1; it has 0 to 199"),
        ("states", "it is no JSON object"),
        ("states", "episode must be a finite number, got 'None'"),
        ("states", "at most 2 states were asked for in an episode"),
        ("states", "episode must be a finite number, got 'True'"),
        ("states", "step must be a whole number, got 4.5"),
        ("actions", "action must be 1 numbers, got [1, 2]"),
        ("actions", "each entry of action must be a finite number, got 'nan'"),
        ("actions", "episode 1, step 4 is none of the critical states that were given"),
        ("actions", "the critical state is left out, because it has no usable entry"),
        ("actions", "the critical state is left out, because it has no usable entry"),
        ("rewards", "reward must lie in [-1, 1], got 1.5"),
        ("rewards", "the critical state is left out, because it has no usable entry"),
    ]
    assert [note["entry"] for note in kept["refused"]][9] == entry(1, 3, action=["NaN"])
    assert [(note["answer"], note["entry"], note["reason"]) for note in kept["changed"]] == [
        ("states", entry("0", 7.0), "merged with the first entry for this state, which stands"),
        ("actions", entry(0, 7, action=[9]), "action clipped to [2.0]"),
        ("actions", entry(1, 2, action=[1]), "merged with the first entry for this state, which stands"),
    ]
    out = capsys.readouterr().out
    assert "states: 4 accepted, 8 refused, 1 changed" in out
    assert "rewards: 1 accepted, 2 refused, 0 changed" in out
    assert '  refused {"episode": 0, "step": 7, "reward": 1.5}: reward must lie in [-1, 1], got 1.5' in out


def test_numbers_outside_their_bounds_go_back(trajectories, env, tmp_path):
    outside = answer("rewards", *(entry(*place, analysis="Bad.", reward=-20) for place in PLACES))
    table, backend = find(trajectories, env, tmp_path, STATES, ACTIONS, outside, REWARDS, CODE)
    assert len(table) == 3
    wrong = "None of your entries can be used: reward must lie in [-1, 1], got -20."
    assert f"{outside}\n\n# What is wrong with it\n{wrong}" in backend.prompts[3]


def test_what_is_wrong_goes_back_and_the_retry_counts(trajectories, env, tmp_path):
    broken = ACTIONS.replace("0.5", "1/2")
    table, backend = find(trajectories, env, tmp_path, STATES[:70] + "CUT", STATES, broken, "No.", ACTIONS, REWARDS, CODE)
    assert len(table) == 3
    states, shorter, actions, second, third, *_ = backend.prompts
    assert shorter.startswith(f"{states}\n\nYour reply reached the limit")
    assert "CUT" not in shorter
    assert second.startswith(
        f"{actions}\n\n# Your last reply, which cannot be used\n{broken}\n\n# What is wrong with it\nYour JSON"
    )
    assert "1/2' is no number" in second
    assert third.startswith(f"{actions}\n\n# Your last reply, which cannot be used\nNo.\n")
    assert broken not in third
    kept = facts(tmp_path)["exchanges"]
    assert [exchange["reply"] for exchange in kept] == [
        "reply-states.md",
        "reply-states-retry-1.md",
        "reply-actions.md",
        "reply-actions-retry-1.md",
        "reply-actions-retry-2.md",
        "reply-rewards.md",
        "reply-code.md",
    ]
    assert ["refused" in exchange for exchange in kept] == [True, False, True, True, False, False, False]
    assert kept[0]["finish_reason"] == "length"


def test_a_repaired_answer_is_marked(trajectories, env, tmp_path):
    find(trajectories, env, tmp_path, STATES, ACTIONS.replace("}]", "},]"), REWARDS, CODE)
    assert [exchange.get("repaired") for exchange in facts(tmp_path)["exchanges"]] == [False, True, False, None]


def test_an_answer_without_one_usable_entry_goes_back_with_the_reasons(trajectories, env, tmp_path):
    useless = answer("rewards", *(entry(*place, reward=3) for place in PLACES))
    _, backend = find(trajectories, env, tmp_path, STATES, ACTIONS, useless, answer("rewards"), REWARDS, CODE)
    assert "None of your entries can be used: reward must lie in [-1, 1], got 3. Reply with one JSON" in backend.prompts[3]
    assert "None of your entries can be used: the list is empty." in backend.prompts[4]
    assert facts(tmp_path)["refused"] == []


def test_the_example_of_the_task_is_no_answer(trajectories, env, tmp_path):
    """A weak model copies it word for word, and it names a state that is there."""
    copied = answer("critical_states", entry(0, 37, rationale="Why the action matters here, and what went wrong or right."))
    action = answer("actions", entry(*PLACES[0], reasoning="What happens here, and what the action must do.", action=[0.8]))
    texts = [copied, STATES, action, ACTIONS, REWARDS, CODE]
    _, backend = find(trajectories, env, tmp_path, *texts)
    for asked in (backend.prompts[1], backend.prompts[3]):
        assert "None of your entries can be used: it repeats the example of the task" in asked


def test_after_two_retries_it_ends_and_every_reply_is_kept(trajectories, env, tmp_path):
    with pytest.raises(ExtractionError, match='No JSON object has the key "actions"'):
        find(trajectories, env, tmp_path, STATES, "a", "b", "c")
    assert [(tmp_path / f"reply-actions{suffix}.md").read_text() for suffix in ("", "-retry-1", "-retry-2")] == [
        "a",
        "b",
        "c",
    ]
    assert not (tmp_path / "table.json").exists()


def test_the_same_question_asks_for_another_reply(trajectories, env, tmp_path):
    backend = Scripted(*["x CUT"] * 3)
    with pytest.raises(Truncated):
        find_critical_states(Episodes(trajectories, env, SETTINGS, backend), backend, Sampling(), tmp_path)
    assert backend.prompts[1] == backend.prompts[2] != backend.prompts[0]
    assert backend.indices == [0, 0, 1]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os\ndef critical(obs):\n    return True, [os.getpid()], 0.0", "line 1: import of os, which"),
        ("def critical(obs):\n    return obs[0] > 0.9, [0.0, 1.0], 0.0", "the action must have 1 numbers"),
        ("def critical(obs):\n    return obs[0] > 0.9, [0.0], 2.0", r"the reward must lie in \[-1, 1\]"),
        ("def critical(obs):\n    return obs[0] > 5.0, [0.0], 0.0", "it is true in 0.00% of the agent's steps"),
        ("def critical(obs):\n    return True, [0.0], 0.0", "it is true in 100.00% of the agent's steps"),
        ("def critical(obs):\n    return obs[0] > 0", "it fails"),
        ("def policy(obs):\n    return obs", "contains no Python code that defines critical"),
    ],
)
def test_code_is_refused_and_the_reason_goes_back(trajectories, env, tmp_path, code, reason):
    _, backend = find(trajectories, env, tmp_path, STATES, ACTIONS, REWARDS, f"```python\n{code}\n```", CODE)
    assert re.search(reason, backend.prompts[4].partition("# What is wrong with it")[2])
    assert backend.prompts[4].endswith(
        "defines critical(obs), with the imports and helpers it needs and no example of its use."
    )
    assert (tmp_path / "critical.py").read_text() == SOURCE


def test_without_code_the_table_stands(trajectories, env, tmp_path, capsys):
    bad = "```python\nimport os\ndef critical(obs):\n    return True, [os.getpid()], 0.0\n```"
    table, _ = find(trajectories, env, tmp_path, STATES, ACTIONS, REWARDS, bad, bad, bad)
    assert len(CriticalStates.load(tmp_path / "table.json")) == len(table) == 3
    assert not (tmp_path / "critical.py").exists()
    assert "import of os, which a policy cannot use" in facts(tmp_path)["code"]["refused"]
    assert len(facts(tmp_path)["exchanges"]) == 6
    assert "code: none, the table stands without it: line 1: import of os" in capsys.readouterr().out


def test_a_model_that_fails_at_the_code_leaves_a_table(trajectories, env, tmp_path):
    with pytest.raises(ModelError, match="gone"):
        find(trajectories, env, tmp_path, STATES, ACTIONS, REWARDS, ModelError("gone"))
    assert (tmp_path / "table.json").exists()
    assert facts(tmp_path)["code"] == {"refused": "not asked for yet"}


@pytest.mark.parametrize("name", sorted(path.parent.name for path in SHIPPED.glob("*/table.json")))
def test_constrained_decoding_can_follow_the_schemas(name):
    import llguidance

    schemas = [exchange["schema"] for exchange in facts(SHIPPED / name)["exchanges"]]
    assert [schema is None for schema in schemas] == [False, False, False, True]
    for schema in filter(None, schemas):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        assert llguidance.LLMatcher.validate_grammar(grammar) == ""
