"""local_llm/selection/processes.py: how trainings are run, and what is said meanwhile."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

from local_llm.selection import processes
from local_llm.selection.processes import Progress, run_commands


class TestProgress:
    @pytest.fixture
    def clock(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr(processes.time, "monotonic", lambda: now[0])
        return now

    def write(self, folder: Path, *steps: int) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "log.txt").write_text("".join(f"global_step {step}/1000  return 1  SPS 9\r" for step in steps))

    def test_it_says_how_long_the_rest_takes(self, tmp_path, clock):
        """Four runs of 1000 steps; 200 steps are made in the ten seconds after the first."""
        lines, folders = [], [tmp_path / "a", tmp_path / "b"]
        progress = Progress(4, 1000, lines.append)
        for seconds, steps in ((4, 0), (6, 0), (8, 100), (18, 200)):
            clock[0] = seconds
            for folder in folders:
                self.write(folder, 1, steps) if steps else None
            progress.update(0, folders)
        assert lines == ["  about 0:03:00 left"]
        progress.update(0, folders)
        assert len(lines) == 1
        clock[0] += 61
        progress.update(1, folders[:1])
        assert re.fullmatch(r"  about \d:\d\d:\d\d left", lines[1])

    def test_runs_that_stand_still_say_nothing(self, tmp_path, clock):
        lines = []
        progress = Progress(4, 1000, lines.append)
        self.write(tmp_path / "a", 100)
        for seconds in range(0, 600, 10):
            clock[0] = seconds
            progress.update(0, [tmp_path / "a"])
        assert lines == []


class TestRunCommands:
    def test_the_time_left_is_a_live_line_on_a_terminal(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        # The line comes 3 seconds after the first look, at 5 seconds or when the run has printed something.
        code = "import time\nfor step in range(120): print(f'global_step {step}/120', flush=True); time.sleep(0.1)"
        assert run_commands({tmp_path / "run": [sys.executable, "-c", code]}, 1, print, steps=120, later=1) == {}
        out = capsys.readouterr().out
        assert re.search(r"  about 0:00:\d\d left\r +\r", out)
        assert out.endswith("  1 of 1: run finished\n")

    def test_every_command_runs_and_failures_keep_their_last_lines(self, tmp_path):
        code = "import os; print('threads', os.environ['OMP_NUM_THREADS'])"
        good = {tmp_path / f"good-{k}": [sys.executable, "-c", code] for k in range(3)}
        bad = {tmp_path / "bad": [sys.executable, "-c", "print('first'); raise MemoryError('too large')"]}
        lines = []
        failures = run_commands({**bad, **good}, 2, lines.append)
        assert list(failures) == list(bad)
        assert failures[tmp_path / "bad"].startswith("exit status 1, ")
        assert failures[tmp_path / "bad"].endswith("MemoryError: too large")
        assert {path.parent for path in tmp_path.glob("*/finished")} == set(good)
        assert all((folder / "log.txt").read_text() == "threads 1\n" for folder in good)
        assert len(lines) == 4
        assert lines[-1].startswith("  4 of 4: ")

    def test_whatever_ends_it_ends_the_commands(self, tmp_path):
        sleeper = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
        commands = {
            tmp_path / "sleeper": [sys.executable, "-c", sleeper, str(tmp_path / "pid")],
            tmp_path / "quick": [
                sys.executable,
                "-c",
                f"import os, time\nwhile not os.path.exists({str(tmp_path / 'pid')!r}): pass",
            ],
        }

        def interrupt(line):
            raise KeyboardInterrupt

        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run_commands(commands, 2, interrupt)
        assert time.monotonic() - start < 30
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)

    def test_what_outlives_a_kill_is_not_trained_over(self, tmp_path):
        """Two processes would write into one run folder."""
        pid = tmp_path / "pid"
        sleeper = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        commands = {tmp_path / "run": [sys.executable, "-c", sleeper]}
        program = "import sys; from pathlib import Path; from local_llm.selection.processes import run_commands\n"
        program += f"run_commands({{Path({str(tmp_path / 'run')!r}): {commands[tmp_path / 'run']!r}}}, 1, print)"
        parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
        deadline = time.monotonic() + 60
        while not (pid.exists() and pid.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        parent.kill()
        parent.wait()
        failures = run_commands(commands, 1, print)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        assert failures[tmp_path / "run"].startswith("another process is still at work in ")
