"""Answers as models write them: what is read, what is mended, and what goes back because reading it would be guessing."""

import builtins
import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from local_llm.replies.answers import (
    BrokenAnswer,
    NoAnswer,
    action_within,
    exact_integer,
    exact_number,
    extract_answer,
)
from local_llm.replies.reply_text import ExtractionError, Truncated

ENTRIES = [{"episode": 0, "step": 3, "reward": -0.5}, {"episode": 1, "step": 12, "reward": 0.25}]
GOOD = json.dumps({"rewards": ENTRIES})
OTHER = '{"rewards": [{"episode": 9, "step": 9, "reward": 1}]}'


def rewards(reply, finish_reason="stop"):
    return extract_answer(reply, finish_reason, "rewards")


def fenced(text, tag="json"):
    return f"First I reason.\n```{tag}\n{text}\n```\n"


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        fenced(GOOD),
        fenced(GOOD, ""),
        fenced(json.dumps({"rewards": ENTRIES}, indent=4)).replace("\n", "\r\n"),
        f"A draft: {OTHER}\nBetter:\n{fenced(GOOD)}",
        f"<think>{OTHER} or {{not JSON</think>{GOOD}",
        f'The set {{0, 1}} of [states], then {GOOD} and {{that}} is all, as "rewards" go.',
        json.dumps({"analysis": 'it {falls} at "0.7', "rewards": ENTRIES, "note": "]}"}),
        GOOD + "<|im_end|>",
        json.dumps([{"rewards": ENTRIES}]),
    ],
)
def test_valid_json_is_read_wherever_it_stands(reply):
    assert rewards(reply) == (ENTRIES, False)
    assert rewards(reply, "length") == (ENTRIES, False)


REPAIRABLE = {
    "trailing commas": GOOD.replace("}", ",}").replace("]", ",]"),
    "single quotes": GOOD.replace('"', "'"),
    "no comma between objects": GOOD.replace("}, {", "} {"),
    "typographic quotes": GOOD.replace('"', "\u201c"),
    "a typographic minus": GOOD.replace("-0.5", "\u22120.5"),
    "a number without zero": GOOD.replace("-0.5", "-.5"),
    "a plus": GOOD.replace("0.25", "+0.25"),
    "Python's constants": GOOD.replace('"step": 3', '"step": 3, "sure": True'),
    "quotes in a string": GOOD.replace('"step": 3', '"step": 3, "why": "it "falls" at 0.7"'),
    "after a valid draft": f"{OTHER}\n{GOOD.replace('}', ',}')}",
}


@pytest.mark.parametrize("name", REPAIRABLE)
def test_invalid_json_is_repaired_where_nothing_is_lost(name):
    entries = [
        {key: entry[key] for key in ("episode", "step", "reward")} for entry in rewards(fenced(REPAIRABLE[name])).entries
    ]
    assert entries == ENTRIES


@pytest.mark.parametrize("name", ["trailing commas", "single quotes", "quotes in a string"])
def test_a_truncated_reply_is_never_repaired(name):
    with pytest.raises(Truncated, match=r'before the answer was complete: be briefer\. .* the key "rewards"'):
        rewards(fenced(REPAIRABLE[name]), "length")


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
@pytest.mark.parametrize("reply", [fenced(GOOD), *(fenced(text) for text in REPAIRABLE.values() if OTHER not in text)])
def test_no_beginning_of_a_reply_gives_a_shorter_list(reply, finish_reason):
    read = 0
    for end in range(len(reply)):
        try:
            assert len(rewards(reply[:end], finish_reason).entries) == 2
            read += 1
        except ExtractionError:
            continue
    assert read <= 5  # only where nothing but the end of the fence is missing


# json_repair reads 1, 2, 10, 0.5, -1, ... and shorter lists in these.
@pytest.mark.parametrize(
    "number",
    ["1 / 2", "-1/2", "2*3", "0.1-0.2", "about 0.5", "0.5f", "1,5", "\u00bd", "0x10", "1 2", "<0.5>", "0.5 // 0.7", "..."],
)
def test_a_repair_that_could_change_a_number_is_refused(number):
    with pytest.raises((BrokenAnswer, Truncated)) as caught:
        rewards(GOOD.replace("0.25", number))
    assert str(caught.value).startswith("Your JSON")


@pytest.mark.parametrize(
    "reply",
    [
        GOOD.replace("}]}", "}, ...]}"),
        GOOD.replace("}]}", "}, {...}]}"),
        GOOD.replace("]}", "}"),
        GOOD.replace('"reward": -0.5}', '"reward": -0.5'),
        '{"rewards": [{"episode": 0, "step": 3, "reward": 1}, {"episode": 0, "st',
    ],
)
def test_what_lacks_a_part_goes_back(reply):
    with pytest.raises((BrokenAnswer, Truncated)):
        rewards(fenced(reply))


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        ("I cannot.", NoAnswer, 'No JSON object has the key "rewards"'),
        ("", NoAnswer, "No JSON object"),
        (json.dumps({"reward": 1}), NoAnswer, "No JSON object"),
        (json.dumps(ENTRIES), NoAnswer, "No JSON object"),
        (json.dumps({"rewards": {"0": 1}}), NoAnswer, "must hold a list"),
        (f"<think>{GOOD}", Truncated, "ended inside its reasoning"),
        ("{" * 5000 + '"rewards": [', Truncated, "ends before it is complete"),
        ("[" * 100_000, NoAnswer, "No JSON object"),
        ("x" * 1_000_001, ExtractionError, "1,000,001 characters"),
    ],
)
def test_what_holds_no_answer_says_so(reply, error, message):
    with pytest.raises(error, match=message) as caught:
        rewards(reply)
    assert str(caught.value).endswith('Reply with one JSON object of the form that the task describes, with the key "rewards", '
                                      "in one ```json block.")  # fmt: skip
    assert "policy" not in str(caught.value)


def test_nothing_but_the_limit_on_length_is_a_truncated_reply():
    with pytest.raises(Truncated):
        rewards("I reason and reason", "length")


def test_where_json_repair_is_not_installed_the_error_goes_back(monkeypatch):
    def refuse(name, *args, **kwargs):
        if name == "json_repair":
            raise ImportError(name)
        return importing(name, *args, **kwargs)

    importing = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert rewards(GOOD).entries == ENTRIES
    with pytest.raises(BrokenAnswer, match=r"Your JSON is not valid: .*line 1 column \d+"):
        rewards(REPAIRABLE["trailing commas"])


# --------------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("value", "number"), [(1, 1.0), (-0.5, -0.5), ("0.5", 0.5), (" -1e-1 ", -0.1), ("+.5", 0.5), ("2.", 2.0)]
)
def test_numbers_that_are_exact(value, number):
    assert exact_number(value, "x") == number


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [1],
        {},
        "",
        "-1/2",
        "NaN",
        "1_0",
        "0x1",
        "1,5",
        "one",
        float("nan"),
        float("inf"),
        10**400,
        "1e999",
        "9" * 5000,
    ],
)
def test_what_is_no_exact_number(value):
    with pytest.raises(ValueError, match=r"^x must be a finite number, got "):
        exact_number(value, "x")


def test_whole_numbers():
    assert (exact_integer(3, "x"), exact_integer(3.0, "x"), exact_integer("3", "x")) == (3, 3, 3)
    with pytest.raises(ValueError, match=r"x must be a whole number, got 3\.5"):
        exact_integer(3.5, "x")


def test_actions_in_a_box():
    space = Box(np.array([-1, -2], np.float32), np.array([1, 0.4], np.float32))
    action, is_clipped = action_within(space, [0.5, "-1"])
    assert (action.tolist(), is_clipped) == ([0.5, -1.0], False)
    action, is_clipped = action_within(space, [3, 0.4])
    assert (action.tolist(), is_clipped) == ([1.0, 0.4], True)
    assert space.contains(action.astype(np.float32))
    assert action_within(Box(-1, 1, (1,)), 0.5)[0].tolist() == [0.5]
    assert action_within(Box(-1, 1, (2, 2)), [0, 1, 2, 3])[0].tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("value", [None, 0.5, [0.5], [1, 2, 3], ["a", 1], [float("nan"), 0], [[0.5, 1]], "[0.5, 1]", {"x": 1}])
def test_what_is_no_action_of_a_box(value):
    with pytest.raises(ValueError, match="action"):
        action_within(Box(-1, 1, (2,)), value)


def test_discrete_actions():
    space = Discrete(3, start=2)
    assert [action_within(space, value) for value in (2, 4.0, "3")] == [(2, False), (4, False), (3, False)]
    for value in (1, 5, 2.5, "RIGHT", [2], None, True):
        with pytest.raises(ValueError, match="action must be"):
            action_within(space, value)


@pytest.mark.parametrize("comment", ["// falls at step 4", "/* 2 of 3, it's bad */"])
def test_numbers_in_a_comment_are_none_of_the_answer(comment):
    pytest.importorskip("json_repair")
    reply = f'{{"rewards": [{{"episode": 0, "step": 3, "reward": -0.5}}, {comment}\n]}}'
    assert extract_answer(reply, "stop", "rewards").entries == [{"episode": 0, "step": 3, "reward": -0.5}]
