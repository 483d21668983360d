"""cleanrl_scripts/compare.py: runs that are skipped, resumed or refused; statistics; other people's curves; the report."""

import csv
import fcntl
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from conftest import ROOT

COMPARE = ROOT / "cleanrl_scripts" / "compare.py"
QUICK = [
    *("--learning-starts", "150", "--batch-size", "32", "--eval-every", "300", "--eval-episodes", "1", "--no-cuda"),
    *("--env-ids", "Pendulum-v1"),
]

# A script that writes the same run folder in no time: its return is a known function of arm, seed and step.
SCRIPT = """\
import argparse, json, pathlib, platform, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to stop"))
parser = argparse.ArgumentParser(allow_abbrev=False)
for name in ("--env-id", "--arm", "--runs-dir", "--resume", "--slow-arm", "--broken-arm", "--learning-rate"):
    parser.add_argument(name)
parser.add_argument("--seed", type=int)
parser.add_argument("--total-timesteps", type=int)
given = parser.parse_args()
if given.resume:
    run_dir = pathlib.Path(given.resume)
    given = argparse.Namespace(**json.loads((run_dir / "args.json").read_text())["args"])
elif given.arm == "nonesuch":
    sys.exit("invalid choice: 'nonesuch'")
else:
    run_dir = pathlib.Path(given.runs_dir) / f"{given.env_id}__{given.arm}__{given.seed}"
    run_dir.mkdir()
    (run_dir / "metrics.csv").write_text("global_step,metric,value\\n")
    versions = {"python": platform.python_version()}
    (run_dir / "args.json").write_text(json.dumps({"args": vars(given), "command": sys.argv, "versions": versions}))
with open(run_dir / "starts.txt", "a") as file:
    file.write("start\\n")
done = len((run_dir / "metrics.csv").read_text().splitlines()) - 1
for step in range(0, given.total_timesteps + 1, given.total_timesteps // 10)[done:]:
    value = 100 * given.seed + step * len(given.arm)
    with open(run_dir / "metrics.csv", "a") as file:
        file.write(f"{step},eval/episodic_return,{value:.1f}\\n")
    print(f"eval at global_step {step}: return {value:.1f}", flush=True)
    print(f"global_step {step}/{given.total_timesteps}  return 7  SPS 10  left 0:00:10", flush=True)
    if given.arm == given.slow_arm:
        time.sleep(0.3)
    if given.arm == given.broken_arm and step > 0:
        sys.exit("the disk is full")
summary = {"global_step": step, "seconds": 36, "eval/episodic_return": value, "verdict": "it went well"}
(run_dir / "summary.json").write_text(json.dumps(summary))
"""


@pytest.fixture
def script(tmp_path) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return ["--script", str(path), "--output", str(tmp_path / "out"), "--total-timesteps", "100", "--env-ids", "A-v0"]


def run(*arguments: str, code: int = 0, **options) -> str:
    """Runs compare.py, which must end with that code and without a traceback; returns what it printed."""
    done = subprocess.run(
        [sys.executable, str(COMPARE), *arguments], capture_output=True, text=True, check=False, timeout=300, **options
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.stdout + done.stderr


def metrics_of(output: Path) -> dict[str, list[list[str]]]:
    """All runs' metrics but those that are times."""
    found = {}
    for path in sorted(output.glob("runs/*/*/*/*/metrics.csv")):
        with open(path, newline="") as file:
            found[str(path.parents[1].relative_to(output))] = [row for row in csv.reader(file) if row[1] != "charts/SPS"]
    return found


def starts(output: Path) -> list[int]:
    """How often each run was started."""
    return [len(path.read_text().splitlines()) for path in sorted(output.glob("runs/*/*/*/*/starts.txt"))]


def processes_of(folder: Path) -> list[str]:
    """The processes whose command line names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and str(os.getpid()) != path.parent.name:
            found.append(words.replace("\0", " "))
    return found


def wait_until(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def without_cost(table: Path) -> list[str]:
    """The lines of a report that follow from its curves; hours do not."""
    return [line for line in table.read_text().splitlines() if not line.startswith("- Cost: ")]


# ----------------------------------------------------------------------------------------------------------- running


def test_one_command_trains_all_arms_and_a_second_starts_nothing(tmp_path):
    """With the script itself: the expert is the best run of `none` and waits for all of them."""
    output = tmp_path / "out"
    command = [*QUICK, "--arms", "none", "random", "expert", "--seeds", "1,2", "--total-timesteps", "300", "--jobs", "2"]
    printed = run(*command, "--output", str(output))
    assert {path.name for path in output.iterdir() if path.is_file()} == {
        "comparison.json", "curves.csv", "table.md", "curves.png", "curves.svg", "summary.png", "summary.svg", "index.html",
    }  # fmt: skip
    assert (output / "table.md").read_text() in printed
    summaries = {path: json.loads(path.read_text()) for path in output.glob("runs/Pendulum-v1/*/*/*/summary.json")}
    assert len(summaries) == 6
    assert all(summary["global_step"] == 300 for summary in summaries.values())
    best = max((p for p in summaries if p.parts[-4] == "none"), key=lambda path: summaries[path]["eval/episodic_return"])
    assert (output / "experts" / "Pendulum-v1.pt").read_bytes() == (best.parent / "model.pt").read_bytes()
    assert printed.index("finished: Pendulum-v1 none seed 2") < printed.index("finished: Pendulum-v1 expert seed 1")
    rows = [line.split(" | ")[0] for line in (output / "table.md").read_text().splitlines() if line.startswith("| ")]
    assert rows == ["| arm", "| ---", "| none", "| random", "| expert"]
    assert "final return with the mask" in (output / "table.md").read_text()

    before = {path: path.read_bytes() for path in output.iterdir() if path.suffix in (".md", ".csv", ".svg")}
    assert "all runs are finished; nothing to train" in run(*command, "--output", str(output))
    assert before == {path: path.read_bytes() for path in before}


def test_kill_9_midway_leaves_no_process_and_a_third_call_ends_with_equal_numbers(tmp_path):
    command = [*QUICK, "--arms", "none", "random", "--seeds", "1", "--total-timesteps", "1500", "--checkpoint-every", "100"]
    run(*command, "--output", str(tmp_path / "whole"))

    output = tmp_path / "killed"
    arguments = [sys.executable, str(COMPARE), *command, "--output", str(output), "--jobs", "2"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    wait_until(lambda: list(output.glob("runs/*/*/*/*/checkpoint.pt")) or process.poll() is not None)
    assert len(processes_of(output)) >= 2
    process.kill()
    process.wait()
    wait_until(lambda: not processes_of(output), 10)
    assert not list(output.glob("runs/*/*/*/*/summary.json"))
    run(*command, "--output", str(output))

    assert metrics_of(output) == metrics_of(tmp_path / "whole")
    assert any("resuming" in path.read_text() for path in output.glob("runs/*/*/1/log.txt"))
    assert (output / "curves.csv").read_bytes() == (tmp_path / "whole" / "curves.csv").read_bytes()
    assert without_cost(output / "table.md") == without_cost(tmp_path / "whole" / "table.md")


def test_what_is_in_curves_csv_is_not_trained_again(script, tmp_path):
    """As on a clone, which has the curves of a comparison and not its runs."""
    run(*script, "--arms", "a", "bb", "--seeds", "1-2")
    output, whole = tmp_path / "out", tmp_path / "whole"
    output.rename(whole)
    output.mkdir()
    for name in ("comparison.json", "curves.csv"):
        shutil.copy(whole / name, output)
    assert "4 of 6 runs are in" in run(*script, "--arms", "a", "bb", "--seeds", "1-3")
    assert sorted(path.parts[-3:-1] for path in output.glob("runs/*/*/*/log.txt")) == [("a", "3"), ("bb", "3")]
    lines = (output / "curves.csv").read_text().splitlines()
    assert set((whole / "curves.csv").read_text().splitlines()) < set(lines)
    assert len(lines) == len(set(lines))
    notes = json.loads((output / "comparison.json").read_text())["runs"]["A-v0"]
    note = {"hours": 0.01, "verdict": "it went well"}
    assert notes == {arm: {str(seed): note for seed in (1, 2, 3)} for arm in ("a", "bb")}
    for name in ("index.html", "table.md"):
        assert "6 runs of 100 steps, 600 in all, took 0.06 hours (a run: a 0.01, bb 0.01)." in (output / name).read_text()


def test_another_script_is_told_its_arm(tmp_path):
    output = tmp_path / "out"
    run(
        *("--script", "ppo_ultra.py", "--env-ids", "Pendulum-v1", "--arms", "none", "--seeds", "4", "--agent", "none"),
        *("--total-timesteps", "256", "--num-steps", "128", "--num-minibatches", "4", "--update-epochs", "1"),
        *("--eval-every", "128", "--eval-episodes", "1", "--trajectory-episodes", "0", "--output", str(output)),
    )
    (args,) = output.glob("runs/Pendulum-v1/none/4/*/args.json")
    assert json.loads(args.read_text())["args"]["num_steps"] == 128
    assert "No interval from fewer than three seeds" in (output / "table.md").read_text()


def test_seeds_and_arms_may_be_added(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1-2")
    printed = run(*script, "--arms", "a", "bbb", "--seeds", "2-3")
    assert "training 3 of 4 runs" in printed
    assert starts(tmp_path / "out") == [1] * 5
    table = (tmp_path / "out" / "table.md").read_text()
    assert "Not finished: A-v0 bbb seed 1." in table
    assert "A-v0: bbb has no seed 1" in table
    assert "| a | 3 | 300 [200, 400] |" in table
    assert "| bbb | 2 | 550 |" in table


def test_two_at_once_never_train_the_same_run(script, tmp_path):
    command = [sys.executable, str(COMPARE), *script, "--arms", "a", "--seeds", "1-4", "--slow-arm", "a", "--jobs", "2"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    for process in both:
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0, printed
    assert starts(tmp_path / "out") == [1] * 4
    assert all(len(rows) == 12 for rows in metrics_of(tmp_path / "out").values())


def test_what_another_writes_meanwhile_is_kept(script, tmp_path):
    """As in a job array, where all end at the same time: each waits for its turn, and adds to what it finds then."""
    output, other = tmp_path / "out", tmp_path / "other"
    run(*script, "--arms", "bb", "--seeds", "2", "--output", str(other))
    command = [sys.executable, str(COMPARE), *script, "--arms", "a", "--seeds", "1", "--slow-arm", "a"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(lambda: starts(output))
    with open(output / "runs" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_until(lambda: list(output.glob("runs/*/*/*/*/summary.json")))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        assert not (output / "curves.csv").exists()
        description = json.loads((output / "comparison.json").read_text())
        theirs = json.loads((other / "comparison.json").read_text())
        description |= {"arms": description["arms"] | theirs["arms"], "seeds": [1, 2], "runs": theirs["runs"]}
        (output / "comparison.json").write_text(json.dumps(description))
        shutil.copy(other / "curves.csv", output)
    assert process.wait(120) == 0
    with open(output / "curves.csv", newline="") as file:
        assert [(row["arm"], row["seed"]) for row in csv.DictReader(file)] == [("a", "1")] * 11 + [("bb", "2")] * 11
    notes = json.loads((output / "comparison.json").read_text())["runs"]["A-v0"]
    assert {arm: list(seeds) for arm, seeds in notes.items()} == {"a": ["1"], "bb": ["2"]}
    assert "2 runs of 100 steps" in (output / "table.md").read_text()


def test_stopping_stops_the_runs_and_the_same_command_goes_on(script, tmp_path):
    command = [*script, "--arms", "a", "--seeds", "1-2", "--slow-arm", "a", "--jobs", "2"]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen([sys.executable, str(COMPARE), *command], stdout=subprocess.PIPE, text=True)
        already = sum(starts(tmp_path / "out"))
        wait_until(lambda already=already: sum(starts(tmp_path / "out")) == already + 2)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=30)
        assert process.returncode == code
        assert "the same command goes on" in printed
        wait_until(lambda: not processes_of(tmp_path / "out"), 10)
    assert [path.read_text().count("asked to stop") for path in tmp_path.glob("out/runs/A-v0/a/*/log.txt")] == [2, 2]
    run(*command)
    assert starts(tmp_path / "out") == [3, 3]
    assert all(len(rows) == 12 for rows in metrics_of(tmp_path / "out").values())


def test_a_run_that_fails_is_shown_and_the_others_go_on(script, tmp_path):
    printed = run(*script, "--arms", "a", "bbb", "--seeds", "1-2", "--broken-arm", "bbb", code=1)
    assert printed.count("the disk is full") == 2
    assert "failed: A-v0 bbb seed 1: exit code 1" in printed
    assert "2 runs failed; the same command tries them again" in printed
    assert "Not finished: A-v0 bbb seed 1, A-v0 bbb seed 2." in (tmp_path / "out" / "table.md").read_text()


def test_a_typo_starts_one_run_only(script, tmp_path):
    printed = run(*script, "--arms", "a", "bbb", "--seeds", "1-8", "--learning-rat", "3", "--jobs", "8", code=1)
    assert "unrecognized arguments: --learning-rat 3" in printed
    assert len(list(tmp_path.glob("out/runs/*/*/*"))) == 1


def test_an_arm_that_the_script_refuses_is_shown_once(script, tmp_path):
    printed = run(*script, "--arms", "a", "nonesuch", "--seeds", "1-3", "--jobs", "1", code=1)
    assert printed.count("invalid choice: 'nonesuch'") == 1
    assert "failed: A-v0 nonesuch seed 3: not started" in printed
    assert starts(tmp_path / "out") == [1] * 3


def test_there_is_nothing_to_report_when_no_run_finishes(script):
    assert "is finished: there is nothing to compare" in run(*script, "--arms", "a", "--broken-arm", "a", code=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--total-timesteps", "200"], "--total-timesteps 200: the comparison in"),
        (["--learning-rate", "1"], "--learning-rate 1: the comparison in"),
        (["--arms", "b", "a=--arm a --learning-rate 2"], "--arms a=--arm a --learning-rate 2: the comparison in"),
    ],
)
def test_a_folder_holds_one_comparison(script, compare, arguments, message):
    run(*script, "--arms", "a", "--seeds", "1")
    with pytest.raises(compare.UserError) as error:
        compare.main([*script, "--arms", "a", "--seeds", "1", *arguments])
    assert message in str(error.value)


def test_a_command_that_started_no_run_leaves_the_folder_free(script, tmp_path):
    assert "did not start" in run(*script, "--arms", "a", "--seeds", "1", "--typo", "3", code=1)
    run(*script, "--arms", "a", "--seeds", "1", "--learning-rate", "3")
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["flags"] == ["--learning-rate", "3"]


def test_the_first_arm_that_is_named_is_the_baseline(script, tmp_path):
    def arms() -> list[str]:
        first = [line.split(",")[1] for line in (tmp_path / "out" / "curves.csv").read_text().splitlines()[1:]]
        assert list(dict.fromkeys(first)) == list(json.loads((tmp_path / "out" / "comparison.json").read_text())["arms"])
        return list(dict.fromkeys(first))

    run(*script, "--arms", "bb", "--seeds", "1")
    run(*script, "--arms", "a", "bb", "--seeds", "1")
    assert arms() == ["a", "bb"]
    run(*script, "--arms", "c", "--seeds", "1")
    assert arms() == ["a", "bb", "c"]
    assert "P(better than a)" in (tmp_path / "out" / "table.md").read_text()


def test_of_a_run_that_is_in_both_the_curve_of_now_counts(compare):
    before = evaluations(compare, {("a", 1): {0: 1.0, 10: 2.0}, ("a", 2): {0: 3.0}})
    now = evaluations(compare, {("a", 1): {0: 4.0}, ("b", 1): {0: 5.0}})
    kept = {(e.arm, e.seed, e.step): e.returns["episodic_return"] for e in compare.merge(before, now)}
    assert kept == {("a", 2, 0): 3.0, ("a", 1, 0): 4.0, ("b", 1, 0): 5.0}


def test_imported_curves_are_not_taken_for_runs(script, compare, tmp_path):
    (tmp_path / "bb.csv").write_text("step,episodic_return,seed\n0,1.0,1\n100,2.0,1\n")
    command = [*script, "--seeds", "1"]
    with pytest.raises(compare.UserError, match=r"bb\.csv, line 2: bb is an arm that is trained here"):
        compare.main([*command, "--arms", "bb", "--from-csv", str(tmp_path / "bb.csv")])
    run(*command, "--arms", "a", "--from-csv", str(tmp_path / "bb.csv"))
    with pytest.raises(compare.UserError, match="--arms bb: .* has it from --from-csv"):
        compare.main([*command, "--arms", "a", "bb"])
    run(*command, "--arms", "a", "--threshold", "7")
    run(*command, "--arms", "a", "c")
    description = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert description["command"][-6:-4] == ["--threshold", "7.0"]
    assert description["command"][-2:] == ["--from-csv", str(tmp_path / "bb.csv")]
    before = (tmp_path / "out" / "curves.csv").read_bytes()
    with pytest.raises(compare.UserError, match="holds a comparison"):
        compare.main(["--from-csv", str(tmp_path / "bb.csv"), "--output", str(tmp_path / "out")])
    # An arm that was trained before takes no imported seeds either.
    shutil.copy(tmp_path / "bb.csv", tmp_path / "a.csv")
    with pytest.raises(compare.UserError, match=r"a\.csv, line 2: a is an arm that is trained here"):
        compare.main([*script, "--seeds", "1", "--arms", "d", "--from-csv", str(tmp_path / "a.csv")])
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == description
    assert (tmp_path / "out" / "curves.csv").read_bytes() == before


def test_a_run_that_diverged_is_left_out(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1-2")
    (metrics,) = tmp_path.glob("out/runs/A-v0/a/2/*/metrics.csv")
    metrics.write_text(metrics.read_text() + "100,eval/episodic_return,nan\n")
    (tmp_path / "out" / "curves.csv").unlink()
    why = "metrics.csv, line 13: eval/episodic_return is 'nan', which is no finite number"
    assert f"note: A-v0 a seed 2 is left out: {why}" in run(*script, "--arms", "a", "--seeds", "1-3")
    for _ in range(2):
        table = (tmp_path / "out" / "table.md").read_text()
        assert f"Left out, which may flatter its arm ({why}): A-v0 a seed 2." in table
        assert "Not finished" not in table
        shutil.rmtree(tmp_path / "out" / "runs")  # as on a clone
        run("--report-only", "--output", str(tmp_path / "out"))


def test_versions_are_kept_with_the_runs_that_were_made_with_them(script, tmp_path):
    """Another command that trains nothing, or more, with other packages does not change what the earlier runs had."""
    run(*script, "--arms", "a", "--seeds", "1")
    path = tmp_path / "out" / "comparison.json"
    description = json.loads(path.read_text())
    now, description["versions"]["python"] = description["versions"]["python"], "3.0"
    path.write_text(json.dumps(description))
    for seeds in ("1", "1-2", "1-2"):
        assert "note: this comparison began with other versions: python 3.0" in run(*script, "--arms", "a", "--seeds", seeds)
    description = json.loads(path.read_text())
    assert description["versions"]["python"] == "3.0"
    assert [note["versions"] for note in description["runs"]["A-v0"]["a"].values()] == [{"python": now}] * 2


def test_many_arms_look_different(compare):
    report = compare.Report([f"arm-{i}" for i in range(20)], [], [], [], {}, {})
    assert len({tuple(compare.style(report, arm).values()) for arm in report.arms}) == 20


def test_two_runs_of_one_name_with_different_arguments(script, compare, tmp_path):
    command = [*script, "--arms", "a", "--seeds", "1"]
    run(*command)
    (tmp_path / "out" / "comparison.json").unlink()
    with pytest.raises(compare.UserError) as error:
        compare.main([*command, "--learning-rate", "2"])
    (run_dir,) = tmp_path.glob("out/runs/A-v0/a/1/*/")
    expected = f"--learning-rate 2 is asked for, no --learning-rate is in {run_dir}"
    assert str(error.value) == f"two runs of one name with different arguments: {expected}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--env-ids: name at least one environment"),
        (["--env-ids", "A", "--script", "nonesuch.py"], "--script nonesuch.py: no such script"),
        (["--env-ids", "A", "--script", "compare.py"], "--script compare.py: no such script"),
        (["--env-ids", "A", "--seeds", "3-1"], "--seeds 3-1: '3-1' is no seed or range"),
        (["--env-ids", "A", "--seeds", "one"], "'one' is no seed or range"),
        (["--env-ids", "A", "--arms", "nonesuch"], "--arms nonesuch: td3_camel.py has none, llm, paper, auto, random, expert"),
        (["--env-ids", "A", "--arms", "none", "none"], "--arms names none twice"),
        (["--env-ids", "A", "--arms", "a/b"], "--arms 'a/b'"),
        (["--env-ids", "A", "--arms", ".."], "--arms '..'"),
        (["--env-ids", "A", "--arms", "wide=--prior 'x"], "No closing quotation"),
        (["--env-ids", "A", "--arms", "b=--prior none --env-id B"], "--env-id B: compare.py sets it for every run"),
        (["--env-ids", "A", "--arms", "b=--prior none --seed 7"], "--seed 7: compare.py sets it for every run"),
        (["--env-ids", "A", "--arms", "b=--total-timesteps 9"], "--total-timesteps 9: compare.py sets it for every run"),
        (["--env-ids", "A", "--arms", "none", "b=--prior expert:{expert_model}", "--expert-models", "{e}.pt"], "{e}.pt"),
        (["--env-ids", "A", "--arms", "wide=0.6"], "name and flags"),
        (["--env-ids", "A", "--arms", "expert"], "--arms expert needs `none` among the arms"),
        (["--env-ids", "A", "--arms", "expert", "--expert-models", "no/{env_id}.pt"], "no/A.pt"),
        (["--env-ids", "A", "--seed", "3"], "--seed 3: compare.py sets it for every run; give --seeds"),
        (["--env-ids", "A", "--resume", "runs/x"], "the same command goes on"),
        (["--env-ids", "A", "--prior", "x.py"], "--prior x.py: the arm none sets it, too"),
        (["--env-ids", "A", "--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0"),
        (["--env-ids", "A", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--env-ids", "A", "--threshold", "nan"], "--threshold must be finite, got nan"),
        (["--report-only", "--radius", "1"], "--radius 1: not an argument of compare.py"),
        (["--report-only", "--env-ids", "A"], "--report-only shows what is in a folder"),
        (["--report-only", "--from-csv", "x.csv"], "--report-only shows what is in a folder"),
        (["--report-only", "--output", "nowhere"], "--output nowhere: there is no curves.csv in it"),
    ],
)
def test_user_mistakes_name_the_argument(compare, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(compare.UserError) as error:
        compare.main(arguments)
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())


def test_the_expert_models_may_be_given(compare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "A-v0.pt").touch()
    args = compare.Args(env_ids=("A-v0",), arms=("none", "expert"), seeds="1", expert_models="{env_id}.pt", output="out")
    _, (_, expert) = compare.plan(args, [], [])
    assert compare.by_name(expert.flags)["--prior"] == f"expert:{tmp_path / 'A-v0.pt'}"
    assert expert.expert is None


def test_the_expert_is_the_best_run_that_kept_its_model(compare, tmp_path):
    for seed, value, has_model in ((1, -3.0, True), (2, 5.0, True), (3, 7.0, False)):
        folder = tmp_path / "A-v0" / "none" / str(seed) / "run"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps({"eval/episodic_return": value}))
        if has_model:
            (folder / "model.pt").write_text(f"of seed {seed}")
    model = tmp_path / "experts" / "A-v0.pt"
    run = compare.Run("A-v0", "expert", 1, 10, tmp_path / "A-v0" / "expert" / "1", tmp_path, (), model)
    assert compare.choose_expert(run, model) == ""
    assert model.read_text() == "of seed 2"


def test_the_environment_may_be_part_of_an_arms_flags(compare, tmp_path):
    args = compare.Args(env_ids=("A-v0", "B-v0"), arms=("own=--prior {env_id}.py",), seeds="1", output=str(tmp_path))
    _, runs = compare.plan(args, [], [])
    assert [compare.by_name(run.flags)["--prior"] for run in runs] == ["A-v0.py", "B-v0.py"]


def test_the_live_lines(compare, tmp_path):
    class Terminal(list):
        write = list.append

        def isatty(self):
            return True

        def flush(self):
            pass

    runs = [compare.Run("A-v0", "a", seed, 1000, tmp_path / str(seed), tmp_path, ()) for seed in (1, 2, 3)]
    (tmp_path / "1").mkdir()
    text = "eval at global_step 100: return -3.5 without the mask\nglobal_step 400/1000  return -20  SPS 20  left 0:00:30\n"
    runs[0].log.write_text(text)
    terminal = Terminal()
    display = compare.Display(runs, terminal)
    display.update(runs[:1], runs[1:2], 0)
    live, everything = "".join(terminal).splitlines()
    assert live == "A-v0 a seed 1        400/1,000  return       -20  SPS    20  left 0:00:30"
    assert everything == "1 of 3 runs finished, 1 running, 1 wait, left 0:01:20"
    terminal.clear()
    runs[0].log.write_text(text + "eval at global_step 500: return 1.5 without the mask\n")
    display.last = -math.inf
    display.update(runs[:1], runs[1:2], 0)
    assert "".join(terminal).startswith("\x1b[2F\x1b[J")
    assert "500/1,000  return       1.5" in "".join(terminal)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_run_whose_ray_node_dies_is_resumed_on_another(tmp_path):
    """Two nodes on this machine, one killed midway: the same metrics and curves, to the last bit, as an undisturbed run."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    command = [*QUICK, "--arms", "none", "random", "--seeds", "1", "--total-timesteps", "3000", "--checkpoint-every", "100"]
    run(*command, "--output", str(tmp_path / "whole"))

    output, node = tmp_path / "out", {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0})
    try:
        first_node = cluster.add_node(**node)
        arguments = [sys.executable, str(COMPARE), *command, "--output", str(output), "--ray", cluster.address]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: list(output.glob("runs/*/none/1/log.txt")) or process.poll() is not None)
        cluster.add_node(**node)
        wait_until(lambda: list(output.glob("runs/*/none/1/*/checkpoint.pt")) or process.poll() is not None)
        cluster.remove_node(first_node, allow_graceful=False)
        assert not list(output.glob("runs/*/*/*/*/summary.json")), "a run finished before its node could be killed"
        printed, _ = process.communicate(timeout=240)
    finally:
        cluster.shutdown()
    assert process.returncode == 0, printed
    assert "resuming" in next(output.glob("runs/*/none/1/log.txt")).read_text()
    assert metrics_of(output) == metrics_of(tmp_path / "whole")
    for name in ("curves.csv", "table.md"):
        assert (output / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list(output.glob(".token*"))


def test_a_node_that_does_not_see_the_folder_says_so(compare, tmp_path, monkeypatch):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(compare.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(compare.time, "sleep", lambda seconds: None)
    a_run = compare.Run("A-v0", "a", 1, 10, tmp_path / "a", tmp_path / "script.py", ())
    assert "--output must be on a disk that all nodes share" in compare.train_on_a_node(
        a_run, tmp_path / ".token", str(tmp_path)
    )
    (tmp_path / ".token").touch()
    assert f"does not see {tmp_path / 'script.py'}" in compare.train_on_a_node(a_run, tmp_path / ".token", str(tmp_path))


@pytest.mark.filterwarnings("ignore")
def test_no_ray_cluster(compare, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(compare.UserError, match="--ray 127.0.0.1:1: .*ray start --head"):
        compare.RayPool("127.0.0.1:1", tmp_path)


# -------------------------------------------------------------------------------------------------------- statistics


def evaluations(compare, curves: dict, env_id="A-v0"):
    """{(arm, seed): {step: return}} as evaluations."""
    return [
        compare.Evaluation(env_id, arm, seed, step, {"episodic_return": value}, "test")
        for (arm, seed), curve in curves.items()
        for step, value in curve.items()
    ]


def align(compare, curves: dict):
    found = evaluations(compare, curves)
    return compare.align("A-v0", list(dict.fromkeys(arm for arm, _ in curves)), found)


def test_the_scores_of_a_run(compare):
    steps = range(0, 2000, 100)
    curves = align(compare, {("a", 1): {s: s / 10 for s in steps}, ("a", 2): dict.fromkeys(steps, 5.0)})
    np.testing.assert_allclose(curves.final("a"), [(180 + 190) / 2, 5.0])  # the last 2 of 20
    np.testing.assert_allclose(curves.area("a"), [95.0, 5.0])
    np.testing.assert_array_equal(curves.steps_to("a", 100.0), [1000, np.inf])
    np.testing.assert_array_equal(curves.steps_to("a", 5.0), [100, 0])
    uneven = align(compare, {("a", 1): {0: 0.0, 10: 10.0, 40: 10.0}})
    np.testing.assert_allclose(uneven.area("a"), [(50 + 300) / 40])
    assert compare.steps_to_threshold(np.array([1000.0, 2000.0, np.inf])) == "2,000 (2 of 3 seeds)"
    assert compare.steps_to_threshold(np.array([1000.0, np.inf, np.inf])) == "never (1 of 3 seeds)"
    assert compare.steps_to_threshold(np.array([2000.0, np.inf, 1000.0, np.inf])) == "2,000 (2 of 4 seeds)"


def test_the_statistics_by_hand(compare):
    assert compare.iqm(np.array([1.0, 2, 3, 100])) == 2.5
    assert compare.iqm(np.array([1.0, 2, 6])) == 3.0
    first, second = np.array([1.0, 2, 3, 4]), np.array([2.0, 5, 5, 0])
    # 2 > 1, = 2; 5 > all, twice; 0 > none
    assert compare.improvement(np.stack([first, second])) == (1.5 + 4 + 4) / 16
    u = scipy.stats.mannwhitneyu(second, first).statistic
    assert compare.improvement(np.stack([first, second])) == u / 16
    assert compare.improvement(np.stack([first, first])) == 0.5
    assert compare.improvement(np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])) == 0.5
    assert compare.difference(np.stack([first, second])) == 3.5 - 2.5


def test_intervals(compare):
    """Of a mean of normal numbers: about 1.96 standard errors on either side, and over seeds only within environments."""
    scores = np.random.default_rng(0).normal(10, 2, 400)
    mean = compare.estimate(lambda x, axis=-1: np.mean(x, axis=axis), scores)
    error = scores.std() / 20
    assert mean.low == pytest.approx(scores.mean() - 1.96 * error, abs=0.15 * error)
    assert mean.high == pytest.approx(scores.mean() + 1.96 * error, abs=0.15 * error)
    again = compare.estimate(lambda x, axis=-1: np.mean(x, axis=axis), scores)
    assert (again.low, again.high) == (mean.low, mean.high)
    assert compare.estimate(compare.iqm, scores[:2]).low is None
    # Environments that differ a lot but have no spread within: stratified, the interval is a point.
    worse, better = np.array([[1.0] * 3, [0.0] * 3]), np.array([[0.0] * 3, [1.0] * 3])
    apart = compare.estimate(compare.improvement, worse, better)
    assert (apart.low, apart.value, apart.high) == (0.5, 0.5, 0.5)
    # Pairs: a constant advantage is certain however much the seeds differ.
    pairs = np.stack([scores[:8], scores[:8] + 1])
    advantage = compare.estimate(compare.difference, pairs)
    np.testing.assert_allclose([advantage.low, advantage.value, advantage.high], 1.0)


def test_curves_have_a_band_at_every_step(compare):
    returns = np.random.default_rng(0).normal(size=(7, 5))
    value, low, high = compare.estimate(compare.iqm, returns, n_resamples=500)
    assert value.shape == low.shape == high.shape == (7,)
    assert np.all(low < value)
    assert np.all(value < high)
    alone = compare.estimate(compare.iqm, returns[3], n_resamples=500)
    assert (alone.low, alone.high) == pytest.approx((low[3], high[3]), abs=0.15)


def test_against_rliable(compare):
    rliable = pytest.importorskip("rliable.library")
    from rliable import metrics

    rng = np.random.default_rng(1)
    tasks = 3
    first, second = rng.normal(size=(10, tasks)), rng.normal(0.7, 1, size=(10, tasks))
    assert compare.iqm(first[:, 0]) == pytest.approx(metrics.aggregate_iqm(first[:, :1]))
    pairs = [np.stack([first[:, task], second[:, task]]) for task in range(tasks)]
    theirs = metrics.probability_of_improvement(second, first)
    assert compare.improvement(*pairs) == pytest.approx(theirs)
    points, intervals = rliable.get_interval_estimates(
        {"first": first[:, :1]}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=5000
    )
    ours = compare.estimate(compare.iqm, first[:, 0])
    assert float(ours.value) == pytest.approx(points["first"][0])
    width = float(intervals["first"][1, 0] - intervals["first"][0, 0])
    assert ours.high - ours.low == pytest.approx(width, rel=0.1)
    points, intervals = rliable.get_interval_estimates({"both": (second, first)}, metrics.probability_of_improvement, reps=2000)
    ours = compare.estimate(compare.improvement, *pairs)
    width = float(intervals["both"][1, 0] - intervals["both"][0, 0])
    assert ours.high - ours.low == pytest.approx(width, rel=0.25)


def test_all_environments_count_the_same(compare):
    """Whatever their units, and however many seeds they have."""
    found = []
    for env_id, scale, n_seeds in (("A-v0", 1.0, 3), ("B-v0", 1000.0, 6)):
        curves = {("a", s): {0: 0.0, 10: scale * s} for s in range(n_seeds)}
        curves |= {("b", s): {0: 0.0, 10: scale * (s + 10 if env_id == "A-v0" else s - 10)} for s in range(n_seeds)}
        found += evaluations(compare, curves, env_id)
    report = compare.make_report(found)
    assert report.better[compare.ALL]["b"].value == 0.5
    assert report.tables[-1] == ("all environments", ["arm", "runs", "P(better than a)"], [["b", "9", "0.50 [0.50, 0.50]"]])
    assert "| b | 3 | 11.0 [10.0, 12.0] | 11.0 | 5.50 [5.00, 6.00] | 10 | 10.0 [10.0, 10.0] | 1.00 |" in compare.markdown(
        report
    )

    found += evaluations(compare, {("a", s): {0: 1.0, 10: 2.0} for s in (1, 2)}, "C-v0")
    report = compare.make_report(found)
    assert any("b is not in the table of all environments: no seed of it and a in C-v0." in note for note in report.notes)
    assert [title for title, _, _ in report.tables] == ["A-v0", "B-v0", "C-v0"]


# ----------------------------------------------------------------------------------------------- what cannot be averaged


def test_curves_of_different_length_are_cut_and_named(compare):
    curves = align(compare, {("a", 1): {0: 0.0, 10: 1.0, 20: 2.0}, ("b", 1): {0: 0.0, 10: 5.0}})
    assert curves.steps.tolist() == [0, 10]
    np.testing.assert_allclose(curves.final("a"), [1.0])
    assert "the curves end at different steps (10: b seed 1; 20: a seed 1); all are compared up to step 10" in curves.notes[0]


def test_curves_that_begin_late_are_cut_named_and_averaged_over_what_they_span(compare):
    curves = align(compare, {("a", 1): {0: 9.0, 10: 1.0, 20: 3.0}, ("b", 1): {10: 5.0, 20: 5.0}})
    assert curves.steps.tolist() == [10, 20]
    np.testing.assert_allclose(curves.area("a"), [2.0])
    np.testing.assert_allclose(curves.area("b"), [5.0])
    assert "the curves begin at different steps (0: a seed 1; 10: b seed 1); all are compared from step 10" in curves.notes[0]


def test_other_steps_are_interpolated_and_named(compare):
    curves = align(compare, {("a", 1): {0: 0.0, 10: 1.0, 20: 2.0}, ("b", 1): {0: 0.0, 4: 4.0, 16: 16.0, 20: 0.0}})
    np.testing.assert_allclose(curves.returns["episodic_return"]["b"][:, 0], [0.0, 10.0, 0.0])
    assert curves.notes == ["A-v0: evaluated at other steps than a and interpolated linearly: b."]


def test_no_common_steps(compare):
    with pytest.raises(compare.UserError, match="no steps in common"):
        align(compare, {("a", 1): {0: 0.0, 10: 1.0}, ("b", 1): {20: 0.0, 30: 4.0}})


def test_curves_that_never_change_are_named(compare):
    curves = align(compare, {("a", 1): {0: 3.0, 10: 3.0}, ("b", 1): {0: 3.0, 10: 4.0}})
    assert curves.notes == ["A-v0: nothing was learned: all evaluations are the same (is --learning-starts too late?): a."]


def test_a_missing_seed_is_named_and_pairs_use_the_common_ones(compare):
    steps = {0: 0.0, 10: 1.0}
    curves = {("a", s): {0: 0.0, 10: float(s)} for s in (1, 2, 3)} | {("b", s): {0: 0.0, 10: 10.0 + s} for s in (1, 3)}
    aligned = align(compare, curves)
    np.testing.assert_allclose(aligned.paired("a", "b", aligned.final), [[1, 3], [11, 13]])
    assert aligned.notes == ["A-v0: b has no seed 2; where arms are compared, the seeds that both have count."]
    strangers = align(compare, {("a", 1): steps, ("b", 2): steps})
    assert strangers.paired("a", "b", strangers.final) is None


def test_a_baseline_without_runs_is_named(compare):
    report = compare.make_report(evaluations(compare, {("b", 1): {0: 0.0, 10: 1.0}}), ["a", "b"])
    assert any("no finished run of a, the baseline" in note for note in report.notes)
    assert "| b | 1 | 1.00 | 1.00 | 0.50 | - | - | - |" in compare.markdown(report)


def test_an_evaluation_that_is_there_twice(compare):
    found = evaluations(compare, {("a", 1): {0: 0.0, 10: 1.0}})
    with pytest.raises(compare.UserError, match="A-v0, a, seed 1, step 10 is there twice: in test and in test"):
        compare.make_report([*found, found[-1]])


# ------------------------------------------------------------------------------------------------- other people's curves


def test_a_baseline_from_csv_stands_beside_the_runs(script, tmp_path):
    published = tmp_path / "published.csv"
    rows = [f"{step},{1000 + step},{seed}" for seed in (1, 2, 3) for step in (0, 50, 100)]
    published.write_text("\n".join(["step,episodic_return,seed", *rows]) + "\n")
    run(*script, "--arms", "a", "--seeds", "1-3", "--from-csv", str(published))
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| published | 3 | 1,100 [1,100, 1,100] |" in table
    assert "interpolated linearly: published" in table
    assert "P(better than a)" in table
    assert "| 1.00 |" in table


def test_curves_csv_is_such_a_file(script, compare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(*script, "--arms", "a", "bb", "--seeds", "1-3")
    assert compare.main(["--from-csv", str(tmp_path / "out" / "curves.csv"), "--output", "again"]) == 0
    assert without_cost(tmp_path / "again" / "table.md") == without_cost(tmp_path / "out" / "table.md")
    assert (tmp_path / "again" / "curves.csv").read_bytes() == (tmp_path / "out" / "curves.csv").read_bytes()


HEADER = "step,episodic_return,seed\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "0,1.0,1\n10,oops,1\n", "x.csv, line 3: episodic_return is 'oops', which is no finite number"),
        (HEADER + "0,nan,1\n", "x.csv, line 2: episodic_return is 'nan'"),
        (HEADER + "0,inf,1\n", "x.csv, line 2: episodic_return is 'inf'"),
        (HEADER + "\n0,1.0\n\n", "x.csv, line 3: 2 fields, where the header has 3"),
        (HEADER + "0,1.0,1,9\n", "x.csv, line 2: 4 fields"),
        (HEADER + "0.5,1.0,1\n", "x.csv, line 2: step is '0.5', which is no whole number"),
        (HEADER + "-1,1.0,1\n", "x.csv, line 2: step is '-1'"),
        (HEADER + "0,1.0,one\n", "x.csv, line 2: seed is 'one'"),
        (HEADER + "0,,1\n", "x.csv, line 2: episodic_return is ''"),
        (HEADER + '0,"1.0,1\n', "x.csv"),
        ("step,seed\n0,1\n", "x.csv has no column episodic_return; it has step, seed"),
        (HEADER, "x.csv has no rows"),
        ("", "x.csv is empty"),
        (HEADER + "0,1.0,1\n0,2.0,1\n", "step 0 is there twice: in x.csv, line 2 and in x.csv, line 3"),
        ("step,episodic_return,seed,arm\n0,1.0,1,\n", "line 2: env_id and arm must have a name"),
        ("step,episodic_return,seed,arm\n0,1.0,1,a|b\n", "must have a name without |, $ and \\, got 'environment' and 'a|b'"),
    ],
)
def test_a_corrupt_csv_names_file_and_line(compare, tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(text)
    with pytest.raises(compare.UserError) as error:
        compare.main(["--from-csv", "x.csv"])
    assert message in str(error.value)
    assert not list(tmp_path.rglob("curves.csv"))


def test_a_csv_must_name_its_environment_where_there_are_several(compare, tmp_path):
    (tmp_path / "x.csv").write_text(HEADER + "0,1.0,1\n")
    with pytest.raises(compare.UserError, match="has no column env_id, and 2 environments are compared: A-v0, B-v0"):
        compare.from_csv(tmp_path / "x.csv", ["A-v0", "B-v0"])


def test_tracked_runs_are_the_same_curves(tmp_path):
    """Offline W&B folders of the script's own runs, one of them resumed, and the comparison itself tracked."""
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    output, again = tmp_path / "out", tmp_path / "again"
    tracked = ["none=--prior none --track", "random=--prior random --track"]
    run(*QUICK, "--arms", *tracked, "--seeds", "1", "--total-timesteps", "600", "--output", str(output), env=environment)
    run("--from-wandb", str(output), "--output", str(again), "--track", env=environment)
    assert (again / "curves.csv").read_bytes() == (output / "curves.csv").read_bytes()
    (table,) = again.rglob("*.table.json")
    assert json.loads(table.read_text())["columns"][:3] == ["arm", "seeds", "final return"]
    assert len(list(again.rglob("media/images/**/*.png"))) == 2


def test_wandb_records_in_pieces(compare, tmp_path):
    """A record that leaves 3 bytes of a block, which are padding; one of three blocks; a small one; one that was cut."""
    from wandb.proto import wandb_internal_pb2 as pb

    def record(length: int):
        message = pb.Record()
        message.history.item.add(key="a", value_json="")
        for _ in range(3):  # the lengths of lengths vary
            message.history.item[0].value_json += "x" * max(0, length - message.ByteSize())
            surplus = message.ByteSize() - length
            message.history.item[0].value_json = message.history.item[0].value_json[: -surplus or None]
        assert message.ByteSize() == length
        return message

    records = [record(32768 - 7 - 7 - 3), record(70_000), record(50)]
    data = b":W&B\xe1\xbe\x00"
    for left, begins in ((message.SerializeToString(), True) for message in records):
        while left:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += b"\0" * room
                continue
            piece, left = left[: room - 7], left[room - 7 :]
            kind = {(True, False): 1, (True, True): 2, (False, True): 3, (False, False): 4}[begins, bool(left)]
            data += struct.pack("<IHB", 0xFFFFFFFF, len(piece), kind) + piece
            begins = False
    path = tmp_path / "run.wandb"
    path.write_bytes(data + struct.pack("<IHB", 0, 500, 1) + b"cut")
    assert list(compare.wandb_records(path)) == records


def test_tracked_runs_on_a_server(compare, monkeypatch):
    import wandb

    class Server:
        class Tracked:
            def __init__(self, name, config, history):
                self.name, self.config, self.history = name, config, history

            def scan_history(self, keys):
                return [row for row in self.history if set(keys) <= set(row)]

        def runs(self, project):
            assert project == "me/mine"
            history = [{"_step": s, "eval/episodic_return": s / 10, "eval/masked_return": 1.0} for s in (0, 10)]
            config = {"env_id": "Hopper-v4", "seed": 3, "arm": "llm", "total_timesteps": 10}
            return [
                self.Tracked("one", config, [*history, {"_step": 5, "charts/SPS": 1}]),
                self.Tracked("cut", {**config, "seed": 4}, history[:1]),
                self.Tracked("other", {"lr": 1}, []),
            ]

    monkeypatch.setattr(wandb, "Api", Server)
    found = compare.from_wandb("me/mine")
    assert [(e.env_id, e.arm, e.seed, e.step, e.returns) for e in found] == [
        ("Hopper-v4", "llm", 3, step, {"episodic_return": step / 10, "masked_return": 1.0}) for step in (0, 10)
    ]


@pytest.mark.parametrize(("last", "is_whole"), [(768, True), (512, False)])
def test_a_tracked_run_of_whole_rollouts_is_finished(compare, monkeypatch, last, is_whole):
    """1000 steps are three rollouts of 2 * 128, and 232 steps that PPO leaves out."""
    config = {"env_id": "A-v0", "seed": 1, "arm": "ra", "total_timesteps": 1000, "num_envs": 2, "num_steps": 128}
    history = {step: {"episodic_return": 1.0} for step in range(0, last + 1, 256)}
    monkeypatch.setattr(compare, "online_runs", lambda project: [("run", config, history)])
    if is_whole:
        assert [e.step for e in compare.from_wandb("me/mine")] == [0, 256, 512, 768]
    else:
        with pytest.raises(compare.UserError, match="no finished run"):
            compare.from_wandb("me/mine")


# ------------------------------------------------------------------------------------------------------------ report


def test_a_report_is_the_same_every_time(script, compare, tmp_path):
    output = tmp_path / "out"
    run(*script, "--arms", "a", "bb", "--seeds", "1-4", "--threshold", "420")
    assert "steps to 420" in (output / "table.md").read_text()
    before = {path: path.read_bytes() for path in output.iterdir() if path.suffix in (".md", ".csv", ".svg", ".html")}
    for path in before:
        if path.suffix != ".csv":
            path.unlink()
    assert compare.main(["--report-only", "--output", str(output)]) == 0
    assert {path: path.read_bytes() for path in before} == before


def test_numbers_for_people(compare):
    values = {
        -1653.4: "-1,653",
        99.999: "100",
        -20.56: "-20.6",
        9.999: "10.0",
        0.5: "0.50",
        -0.001: "0.00",
        1234567.0: "1,234,567",
    }
    assert {value: compare.amount(value) for value in values} == values


def test_a_comparison_that_grew_records_one_command_for_all_of_it(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1-2", "--learning-rate", "3")
    run(*script, "--arms", "a", "wide=--arm b --slow-arm none", "--seeds", "4", "--learning-rate", "3")
    run(*script, "--arms", "wide=--arm b --slow-arm none", "--seeds", "1-2", "--learning-rate", "3", "--jobs", "1")
    name, *command = json.loads((tmp_path / "out" / "comparison.json").read_text())["command"]
    assert name == "cleanrl_scripts/compare.py"
    assert "all runs are finished" in run(*command)
    assert starts(tmp_path / "out") == [1] * 6
    command[command.index("--output") + 1] = str(tmp_path / "again")
    run(*command)
    assert (tmp_path / "again" / "curves.csv").read_bytes() == (tmp_path / "out" / "curves.csv").read_bytes()


def test_the_figure_shows_the_mean_and_the_band_of_all_seeds(compare):
    curves = {("a", s): {0: float(s), 10: 2.0 * s, 20: 3.0 * s} for s in (1, 2, 3, 4)}
    report = compare.make_report(evaluations(compare, curves))
    (axis,) = compare.curves_figure(report).axes
    np.testing.assert_allclose(axis.lines[0].get_xydata(), [[0, 2.5], [10, 5.0], [20, 7.5]])
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() >= 1.0
    assert heights.max() > 10.0
    compare.plt.close("all")


def test_the_page_needs_no_other_file(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1-3")
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "<td>300 [200, 400]</td>" in page
    for word in ('src="', "<script", "<link", "url(http"):
        assert word not in page


def test_the_committed_comparisons_are_what_their_curves_say(compare, tmp_path):
    found = sorted((ROOT / "benchmarks" / "comparisons").glob("*/curves.csv"))
    assert found
    for curves in found:
        folder = tmp_path / curves.parent.name
        folder.mkdir()
        for name in ("curves.csv", "comparison.json"):
            if (curves.parent / name).exists():
                (folder / name).write_bytes((curves.parent / name).read_bytes())
        compare.write_report(folder, None)
        assert (folder / "table.md").read_bytes() == (curves.parent / "table.md").read_bytes()
