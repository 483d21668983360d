"""The ledger: sums by model, replayed replies apart, and the file."""

import json

import pytest

from local_llm.models.ledger import Ledger, Metered, Usage
from local_llm.models.reply import Reply, Sampling


@pytest.fixture
def ledger():
    ledger = Ledger()
    ledger.add("a", [Reply("x", "stop", 10, 5, 1.5), Reply("y", "length", 10, 7, 2.5)])
    ledger.add("b", [Reply("x", "stop", None, None, 1.0), Reply("x", "stop", 3, 4, 1.0, replayed=True)])
    ledger.add("a", iter([Reply("z", "stop", 20, 1, 1.0)]))
    return ledger


def test_sums_are_kept_by_model_and_replayed_replies_apart(ledger):
    assert ledger.usage == {
        ("a", False): Usage(calls=3, prompt_tokens=40, reply_tokens=13, seconds=5.0),
        ("b", False): Usage(calls=1, seconds=1.0, unmetered=1),
        ("b", True): Usage(calls=1, prompt_tokens=3, reply_tokens=4, seconds=1.0),
    }


def test_the_table_has_aligned_columns_and_marks_what_is_a_lower_bound(ledger):
    header, *rows = str(ledger).splitlines()
    assert [row.split() for row in rows] == [
        ["a", "3", "40", "13", "5.0"],
        ["b", "1", "0+", "0+", "1.0"],
        ["b", "(replayed)", "1", "3", "4", "1.0"],
    ]
    assert {len(row) for row in rows} == {len(header)}
    assert len(str(Ledger()).splitlines()) == 1


def test_a_saved_ledger_replaces_the_old_one_whole(ledger, tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text("old")
    ledger.save(path)
    saved = json.loads(path.read_text())
    assert [(row["model"], row["replayed"], row["calls"]) for row in saved] == [
        ("a", False, 3),
        ("b", False, 1),
        ("b", True, 1),
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.json"]


def test_a_failure_to_save_leaves_the_old_file(ledger, tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    path.write_text("old")

    def no_space(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", no_space)
    with pytest.raises(OSError, match="No space"):
        ledger.save(path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"ledger.json": "old"}


class Counting:
    """Answers with the number of the reply."""

    model, revision = "counting", None

    def ask(self, messages, n, sampling, schema=None, first=0):
        for index in range(first, first + n):
            yield Reply(str(index), "stop", 1, 1, 0.5)


def test_what_was_asked_before_goes_on_with_its_series_and_every_reply_is_counted(tmp_path):
    metered, question, other = Metered(Counting(), tmp_path / "ledger.json"), [{"role": "user", "content": "?"}], []

    def ask(messages, n, schema=None):
        return [reply.text for reply in metered.ask(messages, n, Sampling(), schema)]

    assert ask(question, 2) == ["0", "1"]
    assert ask(other, 1) == ask(question, 1, {"type": "object"}) == ["0"]
    assert ask([{**question[0]}], 2) == ["2", "3"]
    (row,) = json.loads((tmp_path / "ledger.json").read_text())
    assert row["calls"] == 6
