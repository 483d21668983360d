"""cleanrl_scripts/compare.py, the command: runs that are skipped, resumed or refused; other people's curves; the report."""

import csv
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from conftest import ROOT

from cleanrl_scripts import compare
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.comparison.runs import find_script
from llmwrappers.errors import UserError

COMPARE = ROOT / "cleanrl_scripts" / "compare.py"
QUICK = [
    *(
        "--script",
        "td3_camel.py",
        "--learning-starts",
        "150",
        "--batch-size",
        "32",
        "--eval-every",
        "300",
        "--eval-episodes",
        "1",
        "--no-cuda",
    ),
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
    if given.arm == given.slow_arm:
        time.sleep(0.3)
    if given.arm == given.broken_arm and step > 0:
        sys.exit("the disk is full")
summary = {"global_step": step, "seconds": 36, "eval/episodic_return": value, "audition": {"candidate": "a"}}
(run_dir / "summary.json").write_text(json.dumps(summary))
"""


@pytest.fixture
def script(tmp_path) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return ["--script", str(path), "--output", str(tmp_path / "out"), "--total-timesteps", "100", "--env-ids", "A-v0"]


def run(*arguments: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Runs compare.py, which must end with that code and without a traceback; returns what it printed.

    In this process, for it takes seconds to import what draws and trains; with an environment of its own in another.
    """
    command = [str(COMPARE), *arguments]
    if env is not None:
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=300, env=env)
        ended, printed = done.returncode, done.stdout + done.stderr
    else:
        printing = io.StringIO()
        with redirect_stdout(printing), redirect_stderr(printing), pytest.raises(SystemExit) as leaving:
            run_script(lambda: compare.main(list(arguments)), "compare.py")
        said = leaving.value.code
        ended, printed = (said or 0, printing.getvalue()) if not isinstance(said, str) else (1, printing.getvalue() + said)
    assert ended == code, printed
    assert "Traceback" not in printed, printed
    return printed


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
    """The lines of a report that follow from its curves; times do not."""
    lines = re.sub(r", (?:[\d.,]+ (?:hours|min|s)|less than a second)(?= )", "", table.read_text()).splitlines()
    return [line for line in lines if not line.startswith("- Cost: ")]


# ----------------------------------------------------------------------------------------------------------- running


def test_one_command_trains_all_arms_and_a_second_starts_nothing(tmp_path):
    """With the script itself: the expert is the best run of `td3` and waits for all of them."""
    output = tmp_path / "out"
    arms = ["td3", "paper-random", "paper-expert"]
    command = [*QUICK, "--arms", *arms, "--seeds", "1,2", "--total-timesteps", "300", "--jobs", "2"]
    printed = run(*command, "--output", str(output))
    assert {path.name for path in output.iterdir() if path.is_file()} == {
        "comparison.json", "curves.csv", "table.md", "curves.png", "curves.svg", "summary.png", "summary.svg", "index.html",
    }  # fmt: skip
    assert (output / "table.md").read_text() in printed
    summaries = {path: json.loads(path.read_text()) for path in output.glob("runs/Pendulum-v1/*/*/*/summary.json")}
    assert len(summaries) == 6
    assert all(summary["global_step"] == 300 for summary in summaries.values())
    best = max((p for p in summaries if p.parts[-4] == "td3"), key=lambda path: summaries[path]["eval/episodic_return"])
    assert (output / "experts" / "Pendulum-v1.npz").read_bytes() == (best.parent / "agent.npz").read_bytes()
    assert printed.index("finished: Pendulum-v1 td3 seed 2") < printed.index("finished: Pendulum-v1 paper-expert seed 1")
    rows = [line.split(" | ")[0] for line in (output / "table.md").read_text().splitlines() if line.startswith("| ")]
    assert rows == ["| arm", "| ---", *(f"| {arm}" for arm in arms)]
    assert "final return with the mask" in (output / "table.md").read_text()

    before = {path: path.read_bytes() for path in output.iterdir() if path.suffix in (".md", ".csv", ".svg")}
    assert "all runs are finished; nothing to train" in run(*command, "--output", str(output))
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.slow
def test_kill_9_midway_leaves_no_process_and_a_third_call_ends_with_equal_numbers(tmp_path):
    command = [
        *QUICK,
        "--arms",
        "td3",
        "paper-random",
        "--seeds",
        "1",
        "--total-timesteps",
        "1500",
        "--checkpoint-every",
        "100",
    ]
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
    note = {"hours": 0.01, "audition": {"candidate": "a"}}
    assert notes == {arm: {str(seed): note for seed in (1, 2, 3)} for arm in ("a", "bb")}
    for name in ("index.html", "table.md"):
        assert "6 runs of 100 steps, 600 in all, took 3.60 min (a run: a 36 s, bb 36 s)." in (output / name).read_text()


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
        assert "the same command continues" in printed
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
    assert "Not finished: A-v0 bbb seeds 1, 2." in (tmp_path / "out" / "table.md").read_text()


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
    printed = run(*script, "--arms", "a", "--broken-arm", "a", code=1)
    assert "has finished with usable evaluations: there is nothing to compare" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--total-timesteps", "200"], "--total-timesteps 200: the comparison in"),
        (["--learning-rate", "1"], "--learning-rate 1: the comparison in"),
        (["--arms", "b", "a=--arm a --learning-rate 2"], "--arms a=--arm a --learning-rate 2: the comparison in"),
    ],
)
def test_a_folder_holds_one_comparison(script, arguments, message):
    run(*script, "--arms", "a", "--seeds", "1")
    with pytest.raises(UserError) as error:
        compare.main([*script, "--arms", "a", "--seeds", "1", *arguments])
    assert message in str(error.value)


def test_a_comparison_of_an_earlier_commit_is_closed(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1")
    path = tmp_path / "out" / "comparison.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"commit": "d1e1599"}))
    with pytest.raises(UserError, match="was made at commit d1e1599; give another --output"):
        compare.main([*script, "--arms", "b", "--seeds", "1"])


def test_a_command_that_started_no_run_leaves_the_folder_free(script, tmp_path):
    assert "did not start" in run(*script, "--arms", "a", "--seeds", "1", "--typo", "3", code=1)
    run(*script, "--arms", "a", "--seeds", "1", "--learning-rate", "3")
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["flags"] == ["--learning-rate", "3"]


def test_what_was_mistyped_does_not_stay_in_a_comparison(script, tmp_path):
    def command(env_ids: list[str], wide: str, seeds: str) -> list[str]:
        return [*script[:-1], *env_ids, "--arms", "a", f"wide=--arm {wide}", "--seeds", seeds, "--jobs", "1"]

    run(*script, "--arms", "a", "--seeds", "1")
    output = tmp_path / "out"
    description = json.loads((output / "comparison.json").read_text())
    typo = description | {"env_ids": ["A-v0", "B-v00"], "arms": {"a": ["--arm", "a"], "wide": ["--arm", "bbbb"]}}
    (output / "comparison.json").write_text(json.dumps(typo | {"seeds": [1, 11]}))
    run(*command(["A-v0", "B-v0"], "bb", "1-2"))
    description = json.loads((output / "comparison.json").read_text())
    assert description["env_ids"] == ["A-v0", "B-v0"]
    assert description["arms"] == {"a": ["--arm", "a"], "wide": ["--arm", "bb"]}
    assert description["seeds"] == [1, 2]


def test_a_run_counts_whatever_another_command_knew_of_it(script, tmp_path, monkeypatch):
    """One command for each seed, all at once: the second comes before the run of the first has begun."""
    path = tmp_path / "out" / "comparison.json"

    def train(*arguments):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seeds": [2], "arms": {"bb": ["--arm", "bb"]}}))
        return real(*arguments)

    real = compare.train
    monkeypatch.setattr(compare, "train", train)
    run(*script, "--arms", "a", "--seeds", "1")
    description = json.loads(path.read_text())
    assert (list(description["arms"]), description["seeds"]) == (["bb", "a"], [1, 2])
    assert "A-v0,a,1,100," in (tmp_path / "out" / "curves.csv").read_text()


def test_tracking_may_begin_later(script, monkeypatch):
    sent = []
    monkeypatch.setattr(compare, "track", lambda project, entity, folder, report: sent.append((project, folder.name)))
    command = [*script, "--arms", "a", "--seeds", "1"]
    run(*command)
    assert "all runs are finished" in run(*command, "--track", "--wandb-project-name", "mine")
    assert sent == [("mine", "out")]


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


def test_a_second_import_adds_to_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arm, value in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
        Path("curves.csv").write_text(f"env_id,arm,step,episodic_return,seed\nA-v0,{arm},0,{value},1\n")
        assert compare.main(["--from-csv", "curves.csv"]) == 0
    rows = Path("comparisons/from-curves/curves.csv").read_text().splitlines()
    assert sorted(row.split(",")[1:5] for row in rows[1:]) == [["a", "1", "0", "3.0"], ["b", "1", "0", "2.0"]]


def test_the_arms_of_an_import_say_which_is_the_baseline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"A-v0,{arm},{step},{value},1\n" for arm, value in (("mine", 2.0), ("plain", 1.0)) for step in (0, 1)]
    Path("curves.csv").write_text("env_id,arm,step,episodic_return,seed\n" + "".join(rows))
    for arms, baseline in (([], "mine"), (["--arms", "plain", "mine"], "plain"), (["--arms", "mine"], "mine")):
        run("--from-csv", "curves.csv", *arms)
        assert f"P(better than {baseline})" in Path("comparisons/from-curves/table.md").read_text()
    with pytest.raises(UserError, match="--arms other: no curve that you add is of this arm; there are mine, plain"):
        compare.main(["--from-csv", "curves.csv", "--arms", "other"])


def test_an_arm_whose_file_has_changed_is_refused(script, tmp_path):
    """Seeds of two priors under one name would be one interval; the folders of the runs may be gone by then."""
    prior, other = tmp_path / "mine.py", tmp_path / "other.py"
    for path in (prior, other):
        path.write_text("def policy(obs):\n    return [0.0]\n")
    arms = ["--arms", f"mine=--arm m --learning-rate trusted:{prior}", f"other=--arm o --learning-rate {other}"]
    run(*script, *arms, "--seeds", "1")
    shutil.rmtree(tmp_path / "out" / "runs")
    run(*script, *arms, "--seeds", "1-2")
    before = (tmp_path / "out" / "comparison.json").read_bytes()
    prior.write_text("def policy(obs):\n    return [1.0]\n")
    with pytest.raises(
        UserError, match="the file of A-v0 mine --learning-rate is another now than in .* give the arm another name"
    ):
        compare.main([*script, *arms, "--seeds", "1-3"])
    assert (tmp_path / "out" / "comparison.json").read_bytes() == before
    run(*script, arms[0], arms[2], arms[1].replace("mine", "new"), "--seeds", "1-3")
    run(*script, "--arms", f"long=--arm o --learning-rate {'{' * 5000}", "--seeds", "1")  # longer than a path can be


@pytest.mark.parametrize("changed", ["script.py", "folder/policy-1.py", "folder/provenance.json"])
def test_a_script_or_a_folder_that_has_changed_is_refused(script, tmp_path, changed):
    (tmp_path / "folder").mkdir()
    for name in ("policy-1.py", "provenance.json"):
        (tmp_path / "folder" / name).write_text("{}\n")
    arms = ["--arms", f"mine=--arm m --learning-rate auto:{tmp_path / 'folder'}"]
    run(*script, *arms, "--seeds", "1")
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n")
    option = "--script" if changed == "script.py" else "A-v0 mine --learning-rate"
    with pytest.raises(UserError, match=f"the file of {option} is another now"):
        compare.main([*script, *arms, "--seeds", "1-2"])


def test_a_path_is_the_users_own_script_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("td3_camel.py").write_text("")
    assert find_script("./td3_camel.py") == tmp_path / "td3_camel.py"
    assert find_script("td3_camel.py") == ROOT / "cleanrl_scripts" / "td3_camel.py"


def test_a_script_of_ours_and_the_users_copy_of_it_do_not_share_a_folder(script, tmp_path, monkeypatch):
    """Finished seeds of the one would be shown as the other's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cleanrl_scripts.comparison.runs.REPOSITORY", tmp_path / "clone")
    monkeypatch.setattr("cleanrl_scripts.comparison.description.REPOSITORY", tmp_path / "clone")
    for folder in ("clone/cleanrl_scripts", "."):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "mine.py").write_text(SCRIPT)
    for first, second in (("mine.py", "./mine.py"), ("./mine.py", "mine.py")):
        command = [*script[2:], "--arms", "a", "--seeds", "1"]
        run("--script", first, *command)
        with pytest.raises(
            UserError, match=rf"--script {second}: the comparison in .* has another file, {first}; give another"
        ):
            compare.main(["--script", second, *command])
        shutil.rmtree(tmp_path / "out")


def test_curves_that_begin_after_the_runs_end_are_refused_before_training(script, tmp_path):
    (tmp_path / "late.csv").write_text("step,episodic_return,seed\n100000,1.0,1\n200000,2.0,1\n")
    with pytest.raises(UserError, match=r"--total-timesteps \d+: the curves of late that you add in A-v0 begin at step 100000"):
        compare.main([*script, "--seeds", "1", "--arms", "a", "--from-csv", str(tmp_path / "late.csv")])
    assert not (tmp_path / "out" / "runs").exists()


def test_curves_that_are_there_twice_are_refused_before_training(script, tmp_path):
    paths = [tmp_path / name / "progress.csv" for name in ("r1", "r2")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("step,episodic_return,seed\n0,1.0,1\n100,2.0,1\n")
    with pytest.raises(UserError, match="A-v0, progress, seed 1, step 0 is there twice: in .*r1.* and in .*r2"):
        compare.main([*script, "--seeds", "1", "--arms", "a", "--from-csv", *map(str, paths)])
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(script, tmp_path):
    (tmp_path / "a.csv").write_text("step,episodic_return,seed\n0,1.0,1\n")
    (tmp_path / "file").touch()
    (tmp_path / "out" / "runs" / ".lock").mkdir(parents=True)
    for output in ("file", "out"):
        with pytest.raises(UserError, match=f"--output .*{output}: cannot write there"):
            compare.main(["--from-csv", str(tmp_path / "a.csv"), "--output", str(tmp_path / output)])


def test_a_total_may_be_written_with_an_exponent(script):
    command = [word if word != "100" else "1e2" for word in script]
    assert "finished: A-v0 a seed 1" in run(*command, "--arms", "a", "--seeds", "1")


def test_imported_curves_are_not_taken_for_runs(script, tmp_path):
    (tmp_path / "bb.csv").write_text("step,episodic_return,seed\n0,1.0,1\n100,2.0,1\n")
    command = [*script, "--seeds", "1"]
    with pytest.raises(UserError, match=r"bb\.csv, line 2: bb is an arm that is trained here"):
        compare.main([*command, "--arms", "bb", "--from-csv", str(tmp_path / "bb.csv")])
    run(*command, "--arms", "a", "--from-csv", str(tmp_path / "bb.csv"))
    with pytest.raises(UserError, match="--arms bb: .* has it from --from-csv"):
        compare.main([*command, "--arms", "a", "bb"])
    run(*command, "--arms", "a", "--threshold", "7")
    run(*command, "--arms", "a", "c")
    description = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert description["command"][-6:-4] == ["--threshold", "7.0"]
    assert description["command"][-2:] == ["--from-csv", str(tmp_path / "bb.csv")]
    before = (tmp_path / "out" / "curves.csv").read_bytes()
    with pytest.raises(UserError, match="holds a comparison"):
        compare.main(["--from-csv", str(tmp_path / "bb.csv"), "--output", str(tmp_path / "out")])
    # An arm that was trained before takes no imported seeds either.
    shutil.copy(tmp_path / "bb.csv", tmp_path / "a.csv")
    with pytest.raises(UserError, match=r"a\.csv, line 2: a is an arm that is trained here"):
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


def test_two_runs_of_one_name_with_different_arguments(script, tmp_path):
    command = [*script, "--arms", "a", "--seeds", "1"]
    run(*command)
    (tmp_path / "out" / "comparison.json").unlink()
    with pytest.raises(UserError) as error:
        compare.main([*command, "--learning-rate", "2"])
    (run_dir,) = tmp_path.glob("out/runs/A-v0/a/1/*/")
    expected = f"--learning-rate 2 is asked for, no --learning-rate is in {run_dir}"
    assert str(error.value) == f"two runs of one name with different arguments: {expected}"


def test_a_comparison_goes_on_where_it_and_the_clone_were_moved_to(script, tmp_path, monkeypatch):
    user_script = (tmp_path / "script.py").rename(tmp_path.with_suffix(".py"))
    (tmp_path / "out" / "experts").mkdir(parents=True)
    (tmp_path / "out" / "experts" / "A-v0.npz").write_text("an agent")
    arms = ["ours=--arm b --learning-rate {repository}/x", "expert=--arm c --learning-rate {expert_model}"]
    command = ["--script", str(user_script), *script[4:], "--arms", *arms]
    run(*command, "--output", str(tmp_path / "out"), "--seeds", "1")
    (tmp_path / "out").rename(tmp_path / "moved")
    monkeypatch.setattr("cleanrl_scripts.comparison.runs.REPOSITORY", tmp_path / "clone")
    run(*command, "--output", str(tmp_path / "moved"), "--seeds", "1-2")
    rows = [row.split(",") for row in (tmp_path / "moved" / "curves.csv").read_text().splitlines()[1:]]
    assert {(row[1], row[2]) for row in rows} == {(arm, seed) for arm in ("ours", "expert") for seed in "12"}


def test_an_argument_that_a_run_had_by_default_is_the_same_argument(script, tmp_path):
    command = [*script, "--arms", "a", "--seeds", "1"]
    run(*command)
    (tmp_path / "out" / "comparison.json").unlink()
    (path,) = tmp_path.glob("out/runs/A-v0/a/1/*/args.json")
    made = json.loads(path.read_text())
    path.write_text(json.dumps({**made, "args": {**made["args"], "learning_rate": 2}}))
    assert "all runs are finished" in run(*command, "--learning-rate", "2")


TD3 = ["--env-ids", "A", "--script", "td3_camel.py"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--env-ids: name at least one environment"),
        (["--env-ids", "A", "--script", "nonesuch.py"], "--script nonesuch.py: no such script"),
        (["--env-ids", "A", "--script", "compare.py"], "--script compare.py: no such script"),
        (["--env-ids", "A", "--script", "watch.py"], "has ppo_camel.py, ppo_ultra.py, td3_camel.py"),
        (["--env-ids", "A", "--seeds", "3-1"], "--seeds 3-1: '3-1' is no seed or range"),
        (["--env-ids", "A", "--seeds", "one"], "'one' is no seed or range"),
        (["--env-ids", "A", "--arms", "nonesuch"], "--arms nonesuch: ppo_camel.py has none, llm, auto, random, bad; give"),
        ([*TD3, "--arms", "llm"], "--arms llm: td3_camel.py has td3, paper, paper-random, paper-expert; give"),
        (["--env-ids", "A", "--arms", "none", "none"], "--arms names none twice"),
        (["--env-ids", "A", "--arms", "a/b"], "--arms 'a/b'"),
        (["--env-ids", "A", "--arms", ".."], "--arms '..'"),
        (["--env-ids", "A", "--arms", "wide=--prior 'x"], "No closing quotation"),
        (["--env-ids", "A", "--arms", "b=--prior none --env-id B"], "--env-id B: compare.py sets it for every run"),
        (["--env-ids", "A", "--arms", "b=--prior none --seed 7"], "--seed 7: compare.py sets it for every run"),
        (["--env-ids", "A", "--arms", "b=--total-timesteps 9"], "--total-timesteps 9: compare.py sets it for every run"),
        ([*TD3, "--arms", "td3", "b=--prior expert:{expert_model}", "--expert-models", "{e}.npz"], "{e}.npz"),
        (["--env-ids", "A", "--arms", "wide=0.6"], "name and flags"),
        ([*TD3, "--arms", "paper-expert"], "--arms paper-expert needs `td3` among the arms"),
        ([*TD3, "--arms", "paper-expert", "--expert-models", "no/{env_id}.npz"], "no/A.npz"),
        (["--env-ids", "A", "--seed", "3"], "--seed 3: compare.py sets it for every run; give --seeds"),
        (["--env-ids", "A", "--resume", "runs/x"], "the same command continues"),
        (["--env-ids", "A", "--prior", "x.py"], "--prior x.py: the arm none sets it, too"),
        (["--env-ids", "A", "--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0"),
        (["--env-ids", "A", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--env-ids", "A", "--jobs", "2", "--ray", "auto"], "--jobs 2 is for this machine; with --ray the cluster decides"),
        (["--env-ids", "A", "--threshold", "nan"], "--threshold must be finite, got nan"),
        (["--report-only", "--radius", "1"], "--radius 1: not an argument of compare.py"),
        (["--report-only", "--env-ids", "A"], "--report-only shows what is in a folder"),
        (["--report-only", "--from-csv", "x.csv"], "--report-only shows what is in a folder"),
        (["--report-only", "--output", "nowhere"], "no curves.csv in it; compare.py without --report-only trains"),
    ],
)
def test_user_mistakes_name_the_argument(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        compare.main(arguments)
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_run_whose_ray_node_dies_is_resumed_on_another(tmp_path):
    """Two nodes on this machine, one killed midway: the same metrics and curves, to the last bit, as an undisturbed run."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    command = [
        *QUICK,
        "--arms",
        "td3",
        "paper-random",
        "--seeds",
        "1",
        "--total-timesteps",
        "3000",
        "--checkpoint-every",
        "100",
    ]
    run(*command, "--output", str(tmp_path / "whole"))

    output, node = tmp_path / "out", {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0})
    try:
        first_node = cluster.add_node(**node)
        arguments = [sys.executable, str(COMPARE), *command, "--output", str(output), "--ray", cluster.address]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: list(output.glob("runs/*/td3/1/log.txt")) or process.poll() is not None)
        cluster.add_node(**node)
        wait_until(lambda: list(output.glob("runs/*/td3/1/*/checkpoint.pt")) or process.poll() is not None)
        cluster.remove_node(first_node, allow_graceful=False)
        assert not list(output.glob("runs/*/*/*/*/summary.json")), "a run finished before its node could be killed"
        printed, _ = process.communicate(timeout=240)
    finally:
        cluster.shutdown()
    assert process.returncode == 0, printed
    assert "resuming" in next(output.glob("runs/*/td3/1/log.txt")).read_text()
    assert metrics_of(output) == metrics_of(tmp_path / "whole")
    for name in ("curves.csv", "table.md"):
        assert (output / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list(output.glob(".token*"))


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


def test_curves_csv_is_such_a_file(script, tmp_path, monkeypatch):
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
def test_a_corrupt_csv_names_file_and_line(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(text)
    with pytest.raises(UserError) as error:
        compare.main(["--from-csv", "x.csv"])
    assert message in str(error.value)
    assert not list(tmp_path.rglob("curves.csv"))


def test_a_comparison_is_tracked_offline(tmp_path):
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    arms = ["td3", "paper-random"]
    output = tmp_path / "out"
    run(
        *QUICK, "--arms", *arms, "--seeds", "1", "--total-timesteps", "600", "--output", str(output), "--track", env=environment
    )
    (table,) = output.rglob("*.table.json")
    assert json.loads(table.read_text())["columns"][:3] == ["arm", "seeds", "final return"]
    assert len(list(output.rglob("media/images/**/*.png"))) == 2


# ------------------------------------------------------------------------------------------------------------ report


def test_a_report_is_the_same_every_time(script, tmp_path):
    output = tmp_path / "out"
    run(*script, "--arms", "a", "bb", "--seeds", "1-4", "--threshold", "420")
    assert "steps to 420" in (output / "table.md").read_text()
    before = {path: path.read_bytes() for path in output.iterdir() if path.suffix in (".md", ".csv", ".svg", ".html")}
    for path in before:
        if path.suffix != ".csv":
            path.unlink()
    assert compare.main(["--report-only", "--output", str(output)]) == 0
    assert {path: path.read_bytes() for path in before} == before


def test_a_comparison_that_grew_records_one_command_for_all_of_it(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1-2", "--learning-rate", "3")
    run(*script, "--arms", "a", "wide=--arm b --slow-arm none", "--seeds", "4", "--learning-rate", "3")
    run(*script, "--arms", "wide=--arm b --slow-arm none", "--seeds", "1-2", "--learning-rate", "3", "--jobs", "1")
    first, second, *command = json.loads((tmp_path / "out" / "comparison.json").read_text())["command"]
    assert [first, second] == ["llmwrappers", "compare"]
    assert "all runs are finished" in run(*command)
    assert starts(tmp_path / "out") == [1] * 6
    command[command.index("--output") + 1] = str(tmp_path / "again")
    run(*command)
    assert (tmp_path / "again" / "curves.csv").read_bytes() == (tmp_path / "out" / "curves.csv").read_bytes()


def test_the_page_needs_no_other_file(script, tmp_path):
    run(*script, "--arms", "a", "--seeds", "1-3")
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "<td>300 [200, 400]</td>" in page
    for word in ('src="', "<script", "<link", "url(http"):
        assert word not in page
