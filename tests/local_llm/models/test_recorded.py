"""Recordings: what is asked, what is written, what is read back, and what a broken or foreign folder does."""

import datetime
import hashlib
import json
import shutil
from dataclasses import asdict, replace

import pytest

import llmwrappers.priors
from local_llm.models.recorded import Recorded
from local_llm.models.reply import ModelError, Reply, Sampling

PRIORS = llmwrappers.priors.SHIPPED
SAMPLING = Sampling(seed=3)


def user(text):
    return [{"role": "user", "content": text}]


class Echo:
    """Answers with the sample's number, and breaks off where told."""

    revision = None

    def __init__(self, model="echo", breaks_at=None):
        self.model, self.breaks_at, self.asked = model, breaks_at, []

    def ask(self, messages, n, sampling, schema=None, first=0):
        for index in range(first, first + n):
            if index == self.breaks_at:
                raise ModelError("the line is dead")
            self.asked.append(index)
            yield Reply(f"{self.model}: {messages[-1]['content']} {index}", "stop", 7, index, 0.5)


def texts(replies):
    return [reply.text for reply in replies]


@pytest.fixture
def folder(tmp_path):
    """Holds replies 0 to 2 of echo to "hello"."""
    list(Recorded(Echo(), tmp_path).ask(user("hello"), 3, SAMPLING))
    return tmp_path


class TestAuto:
    def test_nothing_is_asked_twice(self, folder):
        backend = Echo()
        recorded = Recorded(backend, folder, "auto")
        first, again = (list(recorded.ask(user("hello"), 5, SAMPLING)) for _ in range(2))
        assert backend.asked == [3, 4]
        assert texts(first) == texts(again) == [f"echo: hello {index}" for index in range(5)]
        assert [reply.replayed for reply in first] == [True] * 3 + [False] * 2
        assert all(reply.replayed for reply in again)
        assert replace(again[4], replayed=False) == first[4]

    def test_the_dates_and_what_a_server_refused_are_those_of_the_replies(self, folder):
        today, early = datetime.date.today().isoformat(), "2026-01-02"
        (path, *_) = sorted(folder.glob("reply-*.json"))
        content = json.loads(path.read_text())
        assert content["reply"]["date"] == today
        content["reply"] |= {"date": early, "left_out": ["seed"]}
        path.write_text(json.dumps(content))
        recorded = Recorded(Echo(), folder)
        assert recorded.made() == {"sampling": None, "date": None}
        list(recorded.ask(user("another"), 1, SAMPLING))
        sampling = asdict(SAMPLING)
        assert recorded.made() == {"sampling": sampling, "date": today}
        list(recorded.ask(user("hello"), 3, SAMPLING))
        whence = {"replayed_from": str(folder), "replayed": today}
        assert recorded.made() == {"sampling": sampling, "left_out": ["seed"], "date": [early, today], **whence}
        del content["reply"]["date"]  # as recordings were before
        path.write_text(json.dumps(content))
        older = Recorded(None, folder)
        list(older.ask(user("hello"), 3, SAMPLING))
        assert older.made() == {"sampling": sampling, "left_out": ["seed"], "date": None, **whence}

    def test_holes_are_filled_in_order(self, folder):
        list(Recorded(Echo(), folder).ask(user("hello"), 1, SAMPLING, first=5))
        backend = Echo()
        assert texts(Recorded(backend, folder).ask(user("hello"), 7, SAMPLING)) == [f"echo: hello {i}" for i in range(7)]
        assert backend.asked == [3, 4, 6]

    @pytest.mark.parametrize(
        "change",
        [
            {"backend": "other"},
            {"messages": user("hullo")},
            {"messages": [{"role": "system", "content": "hello"}]},
            {"sampling": replace(SAMPLING, seed=4)},
            {"sampling": replace(SAMPLING, temperature=0.1)},
            {"schema": {"type": "object"}},
            {"revision": "main"},
        ],
        ids=str,
    )
    def test_another_request_is_asked(self, folder, change):
        backend = Echo(change.get("backend", "echo"))
        backend.revision = change.get("revision")
        arguments = change.get("messages", user("hello")), 3, change.get("sampling", SAMPLING), change.get("schema")
        assert not any(reply.replayed for reply in Recorded(backend, folder).ask(*arguments))
        assert backend.asked == [0, 1, 2]
        assert len(list(folder.iterdir())) == 6

    def test_replies_before_a_failure_are_kept(self, tmp_path):
        arrived = []
        with pytest.raises(ModelError, match="the line is dead"):
            arrived += Recorded(Echo(breaks_at=2), tmp_path).ask(user("hello"), 4, SAMPLING)
        backend = Echo()
        assert len(list(Recorded(backend, tmp_path).ask(user("hello"), 4, SAMPLING))) == 4
        assert backend.asked == [2, 3]

    def test_a_reply_is_written_before_it_is_handed_on(self, tmp_path):
        replies = Recorded(Echo(), tmp_path).ask(user("hello"), 3, SAMPLING)
        for count in (1, 2, 3):
            next(replies)
            assert len(list(tmp_path.iterdir())) == count

    @pytest.mark.filterwarnings("default")
    def test_a_full_disk_costs_no_reply(self, tmp_path, monkeypatch):
        def no_space(*_):
            raise OSError("No space left on device")

        monkeypatch.setattr("os.replace", no_space)
        with pytest.warns(UserWarning, match="cannot record .*No space left"):
            assert len(list(Recorded(Echo(), tmp_path).ask(user("hello"), 2, SAMPLING))) == 2
        assert list(tmp_path.iterdir()) == []


class TestTokens:
    """Prompts are made to a measure of tokens, so that what was counted is recorded with the replies."""

    class Counting(Echo):
        def count_tokens(self, text):
            self.asked.append(text)
            return len(text)

    def test_nothing_is_counted_twice(self, tmp_path):
        backend = self.Counting()
        assert [Recorded(backend, tmp_path).count_tokens(text) for text in ("four", "four", "three")] == [4, 4, 5]
        assert backend.asked == ["four", "three"]
        assert Recorded(self.Counting("other"), tmp_path).count_tokens("four") == 4

    def test_a_replay_counts_as_was_counted_then(self, tmp_path):
        Recorded(self.Counting(), tmp_path).count_tokens("four")
        assert Recorded(None, tmp_path).count_tokens("four") == 4
        assert Recorded(None, tmp_path).count_tokens("three") is None

    def test_of_several_models_counts_a_replay_takes_the_one_that_its_replies_were_asked_by(self, tmp_path):
        """Else the prompt comes out at another length than any that was asked by that model."""
        for model in ("long", "short", "longer"):
            backend = self.Counting(model)
            backend.count_tokens = lambda text, model=model: len(text) * len(model)
            recorded = Recorded(backend, tmp_path)
            recorded.count_tokens("four")
            if model == "short":
                list(recorded.ask(user("hello"), 1, SAMPLING))
        assert Recorded(None, tmp_path).count_tokens("four") == 20
        list(recorded.ask(user("hello"), 1, SAMPLING))  # of two, the last to count
        assert Recorded(None, tmp_path).count_tokens("four") == 24

    def test_a_backend_that_cannot_count(self, tmp_path):
        assert Recorded(Echo(), tmp_path).count_tokens("four") is None
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("nonsense", ["{", "[]", '{"tokens": 3}', '{"tokens": -4, "text_sha256": "%s"}'])
    def test_a_file_that_holds_no_count_is_passed_over(self, tmp_path, nonsense):
        Recorded(self.Counting(), tmp_path).count_tokens("four")
        (path,) = tmp_path.iterdir()
        path.write_text(nonsense.replace("%s", hashlib.sha256(b"four").hexdigest()))
        assert Recorded(None, tmp_path).count_tokens("four") is None
        assert Recorded(self.Counting(), tmp_path).count_tokens("four") == 4

    def test_off_neither_reads_nor_writes(self, tmp_path):
        backend = self.Counting()
        assert [Recorded(backend, tmp_path / "missing", "off").count_tokens("four") for _ in range(2)] == [4, 4]
        assert backend.asked == ["four"] * 2
        assert not (tmp_path / "missing").exists()


class TestFile:
    def test_it_holds_the_request_the_reply_and_the_versions_as_json(self, folder):
        path = min(folder.iterdir(), key=lambda path: json.loads(path.read_text())["request"]["index"])
        content = json.loads(path.read_text())
        assert content["request"] == {
            "model": "echo",
            "revision": None,
            "messages": user("hello"),
            "sampling": {"temperature": 0.8, "top_p": 0.95, "max_new_tokens": 8192, "seed": 3, "thinking": 0},
            "schema": None,
            "index": 0,
        }
        assert content["reply"] == {
            "text": "echo: hello 0",
            "finish_reason": "stop",
            "prompt_tokens": 7,
            "reply_tokens": 0,
            "seconds": 0.5,
            "date": datetime.date.today().isoformat(),
        }
        assert "python" in content["versions"]

    def test_an_edited_prompt_is_another_request(self, folder):
        for path in folder.iterdir():
            path.write_text(path.read_text().replace('"content": "hello"', '"content": "bye"'))
        backend = Echo()
        assert texts(Recorded(None, folder).ask(user("bye"), 1, SAMPLING)) == ["echo: hello 0"]
        list(Recorded(backend, folder).ask(user("hello"), 1, SAMPLING))
        assert backend.asked == [0]


class TestRecordAndOff:
    def test_record_always_asks_and_replaces(self, folder):
        backend = Echo()
        recorded = Recorded(backend, folder, "record")
        for _ in range(2):
            assert not any(reply.replayed for reply in recorded.ask(user("hello"), 3, SAMPLING))
        assert backend.asked == [0, 1, 2] * 2
        assert len(list(folder.iterdir())) == 3

    def test_off_neither_reads_nor_writes(self, folder, tmp_path):
        backend = Echo()
        recorded = Recorded(backend, folder, "off")
        assert not any(reply.replayed for reply in recorded.ask(user("hello"), 3, SAMPLING))
        list(Recorded(backend, tmp_path / "missing", "off").ask(user("hello"), 1, SAMPLING))
        assert backend.asked == [0, 1, 2, 0]
        assert not (tmp_path / "missing").exists()

    @pytest.mark.parametrize(("backend", "mode"), [(None, "off"), (None, "record"), (Echo(), "rerecord")])
    def test_a_mode_that_cannot_work_is_refused(self, tmp_path, backend, mode):
        with pytest.raises(ValueError, match="mode"):
            Recorded(backend, tmp_path, mode)

    @pytest.mark.parametrize("mode", ["record", "auto"])
    def test_a_folder_that_cannot_be_written_is_named_before_anything_is_asked(self, tmp_path, mode):
        (tmp_path / "file").write_text("")
        with pytest.raises(ModelError, match=r"cannot record in .*file"):
            Recorded(Echo(), tmp_path / "file" / "folder", mode)

    def test_a_read_only_folder_too(self, tmp_path, monkeypatch):
        def denied(**_):
            raise PermissionError("Permission denied")

        monkeypatch.setattr("tempfile.TemporaryFile", denied)
        with pytest.raises(ModelError, match=r"cannot record in .*Permission denied"):
            Recorded(Echo(), tmp_path)


class TestReplay:
    def test_without_a_backend_the_messages_decide(self, folder):
        list(Recorded(Echo("other"), folder).ask(user("hi"), 1, SAMPLING))
        recorded = Recorded(None, folder, "replay")
        assert recorded.model == "echo, other"
        assert texts(recorded.ask(user("hello"), 3, Sampling(seed=99))) == [f"echo: hello {index}" for index in range(3)]
        assert texts(recorded.ask(user("hello"), 2, SAMPLING, first=1)) == ["echo: hello 1", "echo: hello 2"]
        assert texts(recorded.ask(user("hi"), 1, SAMPLING)) == ["other: hi 0"]

    def test_the_sampling_asked_for_comes_first_and_series_stay_together(self, folder):
        warmer = replace(SAMPLING, temperature=1.0)
        list(Recorded(Echo("another"), folder).ask(user("hello"), 2, warmer))
        recorded = Recorded(None, folder)
        assert texts(recorded.ask(user("hello"), 5, SAMPLING)) == [
            *(f"echo: hello {index}" for index in range(3)),
            *(f"another: hello {index}" for index in range(2)),
        ]
        assert texts(recorded.ask(user("hello"), 2, warmer)) == ["another: hello 0", "another: hello 1"]

    def test_with_a_backend_its_model_decides_and_nothing_is_asked(self, folder):
        backend = Echo()
        assert len(list(Recorded(backend, folder, "replay").ask(user("hello"), 3, Sampling()))) == 3
        assert backend.asked == []
        with pytest.raises(ModelError, match="by other, only by echo"):
            list(Recorded(Echo("other"), folder, "replay").ask(user("hello"), 3, SAMPLING))

    def test_a_miss_shows_what_differs_from_the_nearest_prompt(self, folder):
        poem = "roses are red\nviolets are blue\nsugar is sweet\n"
        list(Recorded(Echo(), folder).ask(user(poem), 1, SAMPLING))
        with pytest.raises(ModelError) as caught:
            list(Recorded(None, folder).ask(user(poem.replace("blue", "grey")), 1, SAMPLING))
        message = str(caught.value)
        assert "-violets are blue\n+violets are grey\n" in message
        assert "hello" not in message
        assert str(folder) in message
        assert 'mode "auto"' in message

    def test_a_long_difference_is_cut(self, folder):
        with pytest.raises(ModelError, match=r"\n\.\.\. \d+ lines more\n") as caught:
            list(Recorded(None, folder).ask(user("\n".join("x" * 500 for _ in range(500))), 1, SAMPLING))
        assert len(str(caught.value)) < 5000

    def test_too_few_replies_are_counted(self, folder):
        with pytest.raises(ModelError, match=r"3 replies to this prompt are recorded in .*, 4 were asked for"):
            list(Recorded(None, folder).ask(user("hello"), 4, SAMPLING))

    def test_another_schema_is_told(self, folder):
        with pytest.raises(ModelError, match="another schema"):
            list(Recorded(None, folder).ask(user("hello"), 1, SAMPLING, {"type": "object"}))

    def test_an_empty_and_a_missing_folder_are_named(self, tmp_path):
        with pytest.raises(ModelError, match="no reply is recorded in"):
            list(Recorded(None, tmp_path).ask(user("hello"), 1, SAMPLING))
        with pytest.raises(ModelError, match="there is no such folder"):
            Recorded(None, tmp_path / "missing")


BROKEN = {
    "not JSON": lambda content: "{",
    "not text": lambda content: b"\xff\xfe\x00",
    "a list": lambda content: "[]",
    "foreign": lambda content: '{"name": "value"}',
    "deep": lambda content: "[" * 100_000,
    "no text": lambda content: json.dumps(content | {"reply": content["reply"] | {"text": None}}),
    "a number as messages": lambda content: json.dumps(content | {"request": content["request"] | {"messages": 3}}),
    "a text as index": lambda content: json.dumps(content | {"request": content["request"] | {"index": "1"}}),
    "half a surrogate pair": lambda content: json.dumps(content | {"reply": content["reply"] | {"text": "\ud800"}}),
    "negative seconds": lambda content: json.dumps(content | {"reply": content["reply"] | {"seconds": -1}}),
    "another finish": lambda content: json.dumps(content | {"reply": content["reply"] | {"finish_reason": "x"}}),
    "a key more": lambda content: json.dumps(content | {"request": content["request"] | {"url": "x"}}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_is_no_recording_is_skipped_and_named(folder, what):
    path = min(folder.iterdir())
    broken = BROKEN[what](json.loads(path.read_text()))
    path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    with pytest.warns(UserWarning, match=f"skipped .*{path.name}"):
        recorded = Recorded(None, folder)
    assert len(list(recorded.ask(user("hello"), 2, SAMPLING))) == 2
    with pytest.raises(ModelError, match=f"Skipped .*{path.name}"):
        list(recorded.ask(user("hello"), 3, SAMPLING))


def test_other_files_are_let_alone(folder):
    (folder / "ledger.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    assert len(list(Recorded(None, folder).ask(user("hello"), 3, SAMPLING))) == 3


class TestShippedPrior:
    @pytest.mark.parametrize("env_id", ["Hopper-v4", "Walker2d-v4", "Ant-v4"])
    def test_its_replies_answer_its_prompt(self, env_id):
        prompt = (PRIORS / env_id / "prompt.txt").read_bytes().decode()
        recorded = Recorded(None, PRIORS / env_id, "replay")
        replies = list(recorded.ask(user(prompt), 5, SAMPLING))
        assert [reply.text.encode() for reply in replies] == [
            (PRIORS / env_id / f"reply-{number}.md").read_bytes() for number in range(1, 6)
        ]
        assert all(reply.replayed for reply in replies)
        assert recorded.model == json.loads((PRIORS / env_id / "provenance.json").read_text("utf-8"))["model"]

    def test_another_prompt_is_a_miss(self):
        prompt = (PRIORS / "Hopper-v4" / "prompt.txt").read_text("utf-8")
        recorded = Recorded(None, PRIORS / "Hopper-v4")
        for other in (prompt + "\n", prompt.replace("Hopper", "Walker")):
            with pytest.raises(ModelError, match="no reply to this prompt is recorded"):
                list(recorded.ask(user(other), 5, SAMPLING))

    def test_a_folder_whose_replies_are_of_several_days_is_read(self, tmp_path):
        folder = shutil.copytree(PRIORS / "Hopper-v4", tmp_path / "prior")
        facts = json.loads((folder / "provenance.json").read_text("utf-8"))
        (folder / "provenance.json").write_text(json.dumps({**facts, "date": ["2026-01-02", "2026-01-03"]}))
        recorded = Recorded(None, folder)
        assert len(list(recorded.ask(user((folder / "prompt.txt").read_bytes().decode()), 5, SAMPLING))) == 5
        assert recorded.made()["date"] is None

    @pytest.mark.parametrize("name", ["reply-3.md", "prompt.txt"])
    def test_a_changed_file_is_named(self, tmp_path, name):
        folder = shutil.copytree(PRIORS / "Hopper-v4", tmp_path / "prior")
        with open(folder / name, "a") as file:
            file.write("x")
        with pytest.raises(ModelError, match=f"{name} is not the file that provenance.json describes"):
            Recorded(None, folder)

    def test_a_missing_file_is_named(self, tmp_path):
        folder = shutil.copytree(PRIORS / "Hopper-v4", tmp_path / "prior")
        (folder / "reply-2.md").unlink()
        with pytest.raises(ModelError, match=r"cannot read the replies .*reply-2\.md"):
            Recorded(None, folder)

    def test_a_folder_with_an_answer_to_a_retry_points_at_the_recordings(self, tmp_path):
        folder = shutil.copytree(PRIORS / "Hopper-v4", tmp_path / "prior")
        facts = json.loads((folder / "provenance.json").read_text())
        facts["candidates"]["2"]["retries_sha256"] = ["0" * 64]
        (folder / "provenance.json").write_text(json.dumps(facts))
        with pytest.raises(ModelError, match=r"candidate 2 answers a retry, .*; name the folder of the recordings"):
            Recorded(None, folder)


class TestShippedTable:
    @pytest.fixture
    def table(self, tmp_path):
        """A folder with two exchanges, the first cut off, the second with a schema."""
        exchanges = []
        for name, finish_reason, schema in (("states", "length", None), ("states-retry-1", "stop", {"type": "object"})):
            exchange = {"finish_reason": finish_reason, "schema": schema}
            for kind, file in (("prompt", f"prompt-{name}.txt"), ("reply", f"reply-{name}.md")):
                data = f"{kind} of {name}\r\n".encode()
                (tmp_path / file).write_bytes(data)
                exchange |= {kind: file, f"{kind}_sha256": hashlib.sha256(data).hexdigest()}
            exchanges.append(exchange)
        (tmp_path / "provenance.json").write_text(json.dumps({"model": "echo", "exchanges": exchanges}))
        return tmp_path

    def test_its_replies_answer_its_prompts(self, table):
        recorded = Recorded(None, table)
        assert recorded.model == "echo"
        (first,) = recorded.ask(user("prompt of states\r\n"), 1, SAMPLING)
        (second,) = recorded.ask(user("prompt of states-retry-1\r\n"), 1, SAMPLING, {"type": "object"})
        assert first == Reply("reply of states\r\n", "length", None, None, 0.0, replayed=True)
        assert (second.text, second.finish_reason) == ("reply of states-retry-1\r\n", "stop")

    @pytest.mark.parametrize(("text", "schema"), [("prompt of states", None), ("prompt of states\r\n", {"type": "object"})])
    def test_another_prompt_or_schema_is_a_miss(self, table, text, schema):
        with pytest.raises(ModelError, match="no reply to this prompt is recorded"):
            list(Recorded(None, table).ask(user(text), 1, SAMPLING, schema))

    @pytest.mark.parametrize("name", ["prompt-states.txt", "reply-states-retry-1.md"])
    def test_a_changed_file_is_named(self, table, name):
        (table / name).write_bytes(b"changed")
        with pytest.raises(ModelError, match=f"{name} is not the file that provenance.json describes"):
            Recorded(None, table)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"prompt": "../prompt.txt"}, r"'\.\./prompt\.txt' is no file in this folder"),
            ({"finish_reason": "eos"}, "finish_reason is 'eos'"),
            ({"reply": "reply-gone.md"}, "FileNotFoundError"),
            ({"schema": None, "reply_sha256": 3}, "is not the file"),
        ],
    )
    def test_what_cannot_be_read_is_said(self, table, change, message):
        facts = json.loads((table / "provenance.json").read_text())
        facts["exchanges"][1] |= change
        (table / "provenance.json").write_text(json.dumps(facts))
        with pytest.raises(ModelError, match=message):
            Recorded(None, table)
