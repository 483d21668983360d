"""A batch whose rows are handed over as they end, here of a generator of numbers."""

import re
import sys
import threading

import numpy as np
import pytest

from local_llm.models.rows import Rows

END, PAD = 1, 0
PROMPT = [7, 7, 7]
DRAWN = [[5, 5, 5, 5, 5], [5, END, PAD, PAD, PAD], [5, 5, 5, END, PAD]]


def generate(rows, breaks_at=None, was_at=None):
    """Draws a token for each row in every step, as transformers does."""
    ids = np.array([PROMPT] * len(DRAWN))
    for step in range(len(DRAWN[0])):
        if step == breaks_at:
            raise MemoryError
        if was_at is not None:
            was_at.append(step)
        ids = np.concatenate([ids, [[drawn[step]] for drawn in DRAWN]], axis=1)
        if rows(ids, None):
            break
    return ids


def watched(clock=(), monkeypatch=None):
    if monkeypatch:
        times = iter(clock)
        monkeypatch.setattr("local_llm.models.rows.time.perf_counter", lambda: next(times))
    return Rows(len(DRAWN), len(PROMPT), [END])


def test_short_rows_come_first_without_padding_and_a_row_that_is_cut_comes_last():
    rows = watched()
    assert [tokens for tokens, _ in rows.drawn(lambda: generate(rows))] == [[5, END], [5, 5, 5, END], [5] * 5]


def test_what_ended_before_an_error_is_handed_over():
    rows, tokens = watched(), []
    with pytest.raises(MemoryError):
        tokens.extend(row for row, _ in rows.drawn(lambda: generate(rows, breaks_at=2)))
    assert tokens == [[5, END]]


def test_whoever_wants_no_more_ends_the_drawing():
    rows, steps, go = watched(), [], threading.Event()

    def slowly():
        return generate(lambda *step: rows(*step) or (len(steps) > 2 and not go.wait(10)), was_at=steps)

    drawn, before = rows.drawn(slowly), threading.active_count()
    assert next(drawn)[0] == [5, END]
    assert threading.active_count() == before + 1
    rows.stopped = True
    go.set()
    drawn.close()
    assert threading.active_count() == before
    assert steps[-1] < 4


def test_each_step_is_shared_by_the_rows_that_are_open(monkeypatch):
    rows = watched([0.0, 3.0, 6.0, 8.0, 10.0, 11.0], monkeypatch)
    seconds = [share for _, share in rows.drawn(lambda: generate(rows))]
    assert seconds == [2.0, 4.0, 5.0]  # 11 in all
    assert sum(seconds) == 11.0


def test_reading_the_prompt_is_said_at_once_and_does_not_count_as_speed(monkeypatch, capsys):
    rows = watched([0.0, 30.0, 31.0, 32.0, 33.0, 34.0], monkeypatch)
    assert capsys.readouterr().err == "reading the prompt of 3 tokens\n"
    list(rows.drawn(lambda: generate(rows)))
    assert capsys.readouterr().err == "3 replies, 11 tokens, 34.0 s, 2.0 tokens/s\n"


def test_a_terminal_shows_it_on_the_way(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    rows = watched([0.0, 30.0, 31.0, 32.0, 33.0, 34.0], monkeypatch)
    list(rows.drawn(lambda: generate(rows)))
    lines = capsys.readouterr().err.split("\r")[1:]
    assert [re.findall(r"^3 replies, (\d+) tokens", line)[0] for line in lines] == ["3", "6", "8", "10", "11", "11"]
