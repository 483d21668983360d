"""benchmarks/evidence.sh: every comparison continues the committed one, and what it would still train is what the page says."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import tyro
from conftest import ROOT

from cleanrl_scripts.compare import Args, asked_for
from cleanrl_scripts.comparison.curves import curves_of
from cleanrl_scripts.comparison.description import added, description_of, versions
from cleanrl_scripts.comparison.runs import plan

PYTHON = f"""#!{sys.executable} -SE
import json, sys
with open("calls.jsonl", "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
"""


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory) -> list[list[str]]:
    """The arguments of each call of compare.py in evidence.sh, in which nothing else runs."""
    folder = tmp_path_factory.mktemp("evidence")
    for name in ("benchmarks/evidence.sh", "llmwrappers/priors/shipped", "benchmarks/comparisons"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "benchmarks/evidence.sh"], cwd=folder, env=environment, check=True, capture_output=True)
    calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
    return [call[1:] for call in calls if call[0].endswith("compare.py") and "--env-ids" in call]


def test_the_evidence_continues_the_committed_comparisons_and_misses_what_the_page_says(comparisons, monkeypatch):
    monkeypatch.chdir(ROOT)
    missing, now = set(), versions()
    for arguments in comparisons:
        args, extra = tyro.cli(Args, args=arguments, return_unknown_args=True)
        asked, output = asked_for(args, extra) | {"versions": now}, ROOT / str(args.output)
        if before := description_of(output):
            added(before, asked, output)  # refuses what does not continue it
        done = {(e.env_id, e.arm, e.seed) for e in curves_of(output)}
        if any((run.env_id, run.arm, run.seed) not in done for run in plan(asked, output)):
            missing.add(output.name)
    page = (ROOT / "benchmarks" / "EVIDENCE.md").read_text("utf-8").split("## Not run yet")[1]
    rows = [line for line in page.splitlines() if line.startswith("| `") and "+ |" not in line]
    named = {re.findall(r"`([\w-]+)`", row)[0] for row in rows}
    assert missing == named


def test_every_script_starts():
    """Each as Python runs it, with its own folder on the path, but for its main(); SBX is no dependency of the tests."""
    code = """
import runpy, sys
for path in sys.argv[1:]:
    sys.path[0] = path.rpartition("/")[0]
    try:
        runpy.run_path(path, run_name="a script")
    except ModuleNotFoundError as error:
        if error.name != "sbx":
            print(path, error)
"""
    paths = [path for path in sorted((ROOT / "benchmarks").rglob("*.py")) if "__main__" in path.read_text("utf-8")]
    assert len(paths) > 15
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True)
    assert done.stdout == ""
