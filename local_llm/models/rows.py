"""Rows: yields each reply of a batch when it ends, without waiting for the others."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any


class Rows:
    """Watches a batch as its stopping criterion; ``drawn`` generates the batch in its own thread.

    When a row ends, ``drawn`` yields its tokens (the last one is an end token, unless the row was cut off) and its share of the
    seconds (each step's seconds are divided among the open rows). A line on the standard error reports progress from the start;
    on a terminal, it also shows how fast tokens come.

    Args:
        rows: the number of rows
        prompt_tokens: the tokens of the prompt of each row
        ends: the tokens that end a row
    """

    def __init__(self, rows: int, prompt_tokens: int, ends: list[int]) -> None:
        self.rows, self.prompt_tokens, self.ends = rows, prompt_tokens, set(ends)
        self.open, self.tokens, self.share, self.stopped = list(range(rows)), 0, 0.0, False
        self.start = self.last = time.perf_counter()
        self.first = self.shown = 0.0  # when the first tokens came, and when the line was last shown
        self._ended: queue.SimpleQueue[tuple[list[int], float] | BaseException | None] = queue.SimpleQueue()
        print(f"reading the prompt of {prompt_tokens} tokens", file=sys.stderr, flush=True)

    def drawn(self, generate: Callable[[], Any]) -> Generator[tuple[list[int], float]]:
        """Yields the tokens and the seconds of each row when it ends; ends the thread in every case.

        Raises:
            Exception: the error of ``generate``, after the rows that had ended
        """

        def run() -> None:
            try:
                output = generate()
                for row in self.open:
                    self._ended.put((output[row, self.prompt_tokens :].tolist(), self.share))
            except BaseException as error:
                self._ended.put(error)
            else:
                self._ended.put(None)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            while (ended := self._ended.get()) is not None:
                if isinstance(ended, BaseException):
                    raise ended
                yield ended
        finally:
            self.stopped = True
            thread.join()
            ended = None  # an error's traceback keeps the batch's arrays in memory
            if self.tokens:
                self._show(end="\n")

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> bool:
        """Hands over the rows that end with the latest tokens; returns whether to stop."""
        now = time.perf_counter()
        self.share += (now - self.last) / len(self.open)
        self.last, self.first = now, self.first or now
        self.tokens += len(self.open)
        lasts = input_ids[:, -1].tolist()
        for row in [row for row in self.open if lasts[row] in self.ends]:
            self.open.remove(row)
            self._ended.put((input_ids[row, self.prompt_tokens :].tolist(), self.share))
        if sys.stderr.isatty() and now - self.shown > 0.5:
            self.shown = now
            self._show(end="")
        return self.stopped

    def _show(self, end: str) -> None:
        line = f"{self.rows} replies, {self.tokens} tokens, {self.last - self.start:.1f} s"
        if self.last > self.first:  # reading the prompt does not count
            line += f", {(self.tokens - self.rows) / (self.last - self.first):.1f} tokens/s"
        print(("\r" if sys.stderr.isatty() else "") + line, end=end, file=sys.stderr, flush=True)
