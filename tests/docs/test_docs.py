"""README.md and the pages of docs/: what they say of the code and of the comparisons is so, and what they show runs."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT
from learners import LEARNERS

import llmwrappers
from llmwrappers.agent import save_agent
from llmwrappers.priors.measurement import measure, random_actions

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
POLICIES = [
    (README, "Pendulum-v1"),
    (ROOT / "docs" / "guides" / "environment.md", "Pendulum-v1"),
    (ROOT / "docs" / "tutorial.py", "Pendulum-v1"),
]
WRITTEN = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "EVIDENCE.md"]
COMPARISONS = ROOT / "benchmarks" / "comparisons"
INTERVAL = r"-?\d[\d.,]* \[[-\d., ]+\]"
CLASSES = {name: thing for name, thing in vars(llmwrappers).items() if name in llmwrappers.__all__ and inspect.isclass(thing)}
every_page = pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])


def text(path: Path) -> str:
    return path.read_text("utf-8")


def fenced(page: Path, language: str) -> list[str]:
    """The blocks of a language in a page."""
    return re.findall(rf"```{language}\n(.*?)```", text(page), re.DOTALL)


def test_the_readme_is_a_screen_and_a_half():
    assert len(text(README).splitlines()) < 180
    assert README.stat().st_size < 10_000
    assert (ROOT / "docs" / "pictures" / "walker.gif").stat().st_size < 1_000_000


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_described_once_with_the_first_line_of_its_docstring(name):
    row = re.compile(rf"^\| *(?:\[)?`{name}`[^|]*\| *([^|]*?) *\|", re.MULTILINE)
    rows = [description for page in PAGES for description in row.findall(text(page))]
    assert rows == [inspect.cleandoc(CLASSES[name].__doc__ or "").splitlines()[0]]


@pytest.mark.parametrize("page", WRITTEN, ids=[str(path.relative_to(ROOT)) for path in WRITTEN])
def test_lines_of_prose_have_at_most_128_characters(page):
    prose = re.sub(r"```.*?```", "", text(page), flags=re.DOTALL).splitlines()
    assert [line for line in prose if len(line) > 128 and not re.match(r" *(\||!\[)", line)] == []


# ----------------------------------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("page", WRITTEN, ids=[str(path.relative_to(ROOT)) for path in WRITTEN])
def test_every_path_in_a_page_exists(page):
    paths = re.findall(r'(?<!")\b(?:benchmarks|cleanrl_scripts|tests|llmwrappers|local_llm|prompts)/[\w./-]*\w', text(page))
    assert [path for path in paths if not (ROOT / path).exists() and path not in gym.registry] == []
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text(page)) if not link.startswith("http")]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_pages_have_paths_and_links():
    assert len(re.findall(r"\]\((?!http)", text(README))) > 10


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


def test_the_site_has_the_pages_and_the_docstrings(site):
    assert (site / "index.html").is_file()
    assert (site / "benchmarks" / "EVIDENCE" / "index.html").is_file()
    assert "Confines each action" in text(site / "api" / "index.html")


@pytest.mark.parametrize(
    ("query", "page"),
    [("ActionMask", "concepts/"), ("ActionMask", "api/"), ("hyperparameters", "camel/"), ("hyperparameters", "ultra/")],
)
def test_the_search_finds_a_word_of_a_page(site, query, page):
    index = json.loads(text(site / "search" / "search_index.json"))

    def words(passage: str) -> list[str]:
        return [word.lower() for word in re.split(index["config"]["separator"], passage) if word]

    found = [
        words(section["title"] + " " + section["text"]) for section in index["docs"] if section["location"].startswith(page)
    ]
    assert any(set(words(query)) <= set(section) for section in found)


def test_a_name_in_a_table_is_kept_whole(site):
    page = text(site / "environments" / "index.html")
    assert '<td><span class="whole">gymnasium-robotics</span> 1.4.2</td>' in page
    assert '<td><code><span class="whole">ale_py:ALE/Breakout-v5</span></code>' in page
    assert "<td>trains</td>" in page


# ---------------------------------------------------------------------------------------------------------------- numbers


def tables(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """The tables of a comparison: title -> arm -> heading -> cell."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for section in text(COMPARISONS / name / "table.md").split("## ")[1:]:
        title, *lines = section.splitlines()
        header, _, *rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
        found[title] = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    return found


def low(cell: str) -> float:
    return float(re.findall(r"\[(\S+), ", cell)[0].replace(",", ""))


def mean(cell: str) -> float:
    return float(cell.split(" [")[0].replace(",", ""))


def high(cell: str) -> float:
    return float(re.findall(r", (\S+)\]", cell)[0].replace(",", ""))


def rows_of_intervals(page: Path) -> list[list[str]]:
    rows = [re.findall(rf"(?<=\| ){INTERVAL}(?= \|)", line) for line in text(page).splitlines() if line.startswith("| ")]
    return [row for row in rows if row]


def test_the_tables_of_results_are_those_of_the_comparisons():
    long, short, quiet, ultra = (tables(name) for name in ("ppo-camel", "ppo-camel-short", "ppo-quiet", "ultra"))
    camel = {
        env_id: [arms[arm][column] for column in ("at 100,000", "final return") for arm in ("none", "auto")]
        for env_id, arms in {**long, **short}.items()
        if env_id != "all environments"
    }
    alone = [
        [arms["prior alone"]["final return"], *(arms[arm]["at 20,000"] for arm in ("auto", "none"))]
        for env_id, arms in {**long, **short}.items()
        if env_id != "all environments"
    ]
    quiet |= tables("ppo-quiet-short")  # PPO with a clone's hyperparameters
    noisier = tables("ppo-quiet-halfcheetah")["HalfCheetah-v4"]["ppo-quiet"]  # HalfCheetah's clones have more noise
    quiet = {env_id: [quiet[env_id]["ppo-quiet"]] for env_id in camel}
    quiet["HalfCheetah-v4"].insert(0, noisier)
    equal_terms = [
        [row[column] for column in ("at 100,000", "final return") for row in (arms["none"], settings, arms["auto"])]
        for env_id, arms in {**long, **short}.items()
        if env_id in camel
        for settings in quiet[env_id]
    ]
    assert rows_of_intervals(ROOT / "docs" / "results.md") == [*camel.values(), *alone, *equal_terms]
    sb3_ppo, sb3_td3, td3 = tables("sb3-ppo"), tables("sb3-td3"), tables("camel")
    mujoco = ("Hopper-v4", "Walker2d-v4", "Ant-v4")
    parts = [
        [long[env_id]["prior alone"]["final return"], long[env_id]["auto"]["at 20,000"]]
        + [td3[env_id][arm]["final return"] for arm in ("td3", "paper")]
        + [long[env_id][arm]["at 300,000"] for arm in ("none", "auto")]
        for env_id in mujoco
    ]
    assert rows_of_intervals(ROOT / "docs" / "camel.md") == parts
    learners = [[sb3_ppo["Walker2d-v4"][arm]["at 100,000"] for arm in ("ppo-same", "begin-as")]]
    learners += [[sb3_td3["Hopper-v4"][arm]["final return"] for arm in ("td3", "td3-executed")]]
    learners += [[td3["Walker2d-v4"][arm]["final return"] for arm in ("td3", "paper")]]
    baseline_and_warm, main = {}, []
    for env_id, cells in camel.items():  # the better baseline at each point
        columns = zip(("at 100,000", "final return"), cells[::2], strict=True)
        best = [max([none, *(row[column] for row in quiet[env_id])], key=mean) for column, none in columns]
        baseline_and_warm[env_id] = [best[0], cells[1], best[1], cells[3]]
        if env_id in long:
            prior, clone = long[env_id]["prior alone"]["final return"], long[env_id]["auto"]["at 20,000"]
            main.append([prior, clone, *baseline_and_warm[env_id]])
            assert {f"| {env_id} * |" in text(README)} == {best[k] != cells[2 * k] for k in (0, 1)}
    assert sorted(rows_of_intervals(README)) == sorted(main + learners)
    ahead = [sum(low(rows[k + 1]) > high(rows[k]) for rows in baseline_and_warm.values()) for k in (0, 2)]
    assert ahead == [6, 6]
    assert "beats both on six of ten environments at 100 000 steps, and on six at the end" in text(README)
    assert not any(high(rows[k + 1]) < low(rows[k]) for rows in baseline_and_warm.values() for k in (0, 2))
    shares = ultra.pop("all environments")
    expected = [[arms[arm]["final return"] for arm in ("function alone", "none", "ra", "random")] for arms in ultra.values()]
    expected += [[shares[arm]["P(better than none)"] for arm in ("ra", "random")]]
    imitated = tables("ultra-imitated") | tables("ultra-imitated-pong")
    del imitated["all environments"]
    guided = [f"{form}-{arm}" for form in ("table", "code") for arm in ("a", "ra", "random")]
    finals = [[arms[arm]["final return"] for arm in ("none", *guided)] for arms in imitated.values()]
    finals = [row for row in finals if all("[" in cell for cell in row)]  # an interval needs three seeds
    assert rows_of_intervals(ROOT / "docs" / "ultra.md") == finals + expected


def test_the_ten_minutes_of_a_page_are_those_of_the_runs():
    means: dict[tuple[str, str], str] = {}
    for line in text(COMPARISONS / "ten-minutes" / "table.md").splitlines()[2:]:
        if line.startswith("| "):
            env_id, contestant, _, _, *minutes = line.strip("| ").split(" | ")
            means[env_id, contestant] = "; ".join(cell.split(" [")[0] for cell in minutes)
    table = text(ROOT / "docs" / "performance.md").split("| return of the agent alone after 1, 3 and 10 minutes | ")[1]
    header, _, *rows = table.split("\n\n")[0].splitlines()
    for row in rows:
        name, *cells = row.strip("| ").split(" | ")
        contestant = re.sub(r"`|\.py|--prior ", "", name).replace("Stable-Baselines3", "SB3")
        for env_id, cell in zip(header.strip("| ").split(" | "), cells, strict=True):
            assert cell == means.pop((env_id, contestant))
    assert not means


@pytest.mark.parametrize("page", [README, ROOT / "benchmarks" / "EVIDENCE.md"], ids=lambda page: page.name)
def test_every_interval_is_in_the_table_of_a_comparison(page):
    cells = "".join(text(path) for path in COMPARISONS.glob("*/table.md"))
    intervals = re.findall(INTERVAL, text(page))
    assert len(intervals) > 5
    assert set(intervals) - set(re.findall(rf"(?<=\| ){INTERVAL}(?= \|)", cells)) == set()


# ------------------------------------------------------------------------------------------------------------------- code


def fenced_of(learner) -> list[str]:
    """The blocks of the page of learners that are about one of another library."""
    section = text(ROOT / "docs" / "guides" / "learners.md").split(f"## {learner.name}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_what_the_page_shows_of_a_learner_is_in_its_script(learner):
    blocks, script = fenced_of(learner), text(learner.script)
    assert blocks
    assert [part for block in blocks for part in re.split(r"\n\n+", block.strip()) if part not in script] == []


# What a block is replaced by, so that it runs in seconds, and without a display.
SHORTER = [
    (r"\blearn\([^,)]*", "learn(120"),
    (r"(begin_as\([^)]*)\)", r"\1, clone_steps=2000)"),
    ('render_mode="human"', 'render_mode="rgb_array"'),
]


@every_page
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_dir = tmp_path / re.findall(r'load_agent\("(.*?)"\)', text(README))[0]  # which the page's own command has made
    run_dir.mkdir(parents=True)
    facts = {"env_id": "Walker2d-v4", "env_kwargs": "{}", "script": "ppo_camel", "head": "gaussian"}
    layers = [("Linear", [np.zeros((6, 17), np.float32), np.zeros(6, np.float32)], {})]
    save_agent(run_dir, facts, layers, gym.make("Walker2d-v4").action_space, {})
    of_learners = [code for learner in LEARNERS for code in fenced_of(learner)] if page.name == "learners.md" else []
    namespace: dict = {}
    for code in fenced(page, "python"):
        if code in of_learners:
            continue
        for pattern, replacement in SHORTER:
            code = re.sub(pattern, replacement, code)
        exec(code, namespace)
        if "LLMActionOverride" in code:
            assert namespace["info"]["llm_reward"] == 0.0
            assert not namespace["info"]["action_overridden"]
        elif "info" in namespace:
            assert namespace["info"]["mask_active"]
            assert namespace["info"]["prior_faults"] == 0
        if "def policy" in code:
            assert np.size(namespace["policy"](np.array([1.0, 0.0, 0.5]))) == 1
        if "executed = " in code:
            assert namespace["executed"].shape == (4, 1)
        if "def make_env" in code:
            assert namespace["make_env"]("Hopper-v4", 100, 2)().reset(seed=0)[1]["mask_active"]


# ------------------------------------------------------------------------------------------------------------ the commands

PPO = "--total-timesteps 3072 --clone-steps 600 --num-steps 512 --eval-episodes 1"
TD3 = "--total-timesteps 300 --learning-starts 100 --batch-size 32 --eval-episodes 1"
ULTRA = "--num-steps 512 --total-timesteps 1024 --eval-episodes 1"
# What a command begins with -> what makes it short. The first that fits.
SHORT = {
    "python cleanrl_scripts/ppo_camel.py": PPO,
    "python cleanrl_scripts/td3_camel.py": TD3,
    "python cleanrl_scripts/ppo_ultra.py --env-id Swimmer-v4 --pretrain": f"{ULTRA} --pretrain-timesteps 1024",
    "python cleanrl_scripts/ppo_ultra.py": ULTRA,
    "python cleanrl_scripts/compare.py --script td3_camel.py": f"--env-ids Pendulum-v1 --seeds 1 {TD3}",
    "python cleanrl_scripts/compare.py --script ppo_ultra.py": f"--seeds 1 {ULTRA}",
    "python cleanrl_scripts/compare.py": f"--env-ids Pendulum-v1 --seeds 1 {PPO}",
    "python -m llmwrappers demo": "--total-timesteps 23000 --episodes 1 --steps 30",
    "python -m llmwrappers watch": "--output film.gif",
    "python -m llmwrappers.priors": "--episodes 1",
    "python -m llmwrappers prompt": "",
    "python -m local_llm.write_policy --env-id Hopper-v4 --replay": "--select probe --episodes 2 --held-out-episodes 2",
    "python docs/tutorial.py": "--steps 3000",
    "python benchmarks/pixels.py": "",
}
# No model and no server answers in a test: the command must get as far as asking.
ASKS = {
    "python -m local_llm.write_policy": "cannot load|cannot list the models|no answer",
    "python -m local_llm.find_critical_states": "cannot load|cannot list the models|no answer",
}
# pip is asked for by name only; the rest needs what a test does not have: another checkout, a cluster.
NOT_RUN = (
    "python3 -m venv .venv && source ",
    "pip install -e ",
    "pytest",
    "python tests/zoo.py",
    "pre-commit install",
    "srun ",
)
NOT_RUN += ("llama-server ", "python -m llama_cpp.server ", "transformers serve ", "vllm serve ")


@pytest.mark.parametrize(("page", "env_id"), POLICIES, ids=[str(page.relative_to(ROOT)) for page, _ in POLICIES])
def test_the_policies_of_a_page_beat_random_actions(page, env_id):
    env = gym.make(env_id)
    random = measure(env, random_actions(env.action_space, seed=0), episodes=10, seed=0)
    sources = re.findall(r"^def policy\(obs\):.*(?:\n(?:    .*)?)*", text(page), re.M)
    assert sources
    for source in sources:
        exec(f"import numpy as np\n{source}", namespace := {})
        played = measure(env, namespace["policy"], episodes=10, seed=0)
        assert played.faults == 0
        assert np.mean(played.returns) > np.mean(random.returns) + 2 * np.std(random.returns)


def commands(page: Path) -> list[str]:
    """The commands of a page, each in one line, without comments."""
    lines = "\n".join(fenced(page, "bash")).replace("\\\n", " ").splitlines()
    shown = [re.sub(r"\s+", " ", line.split("  #")[0]).strip() for line in lines if line.strip() and not line.startswith("#")]
    return [re.sub("^llmwrappers ", "python -m llmwrappers ", command) for command in shown]


def kind(command: str, kinds) -> str | None:
    """Which of those it begins with, the variables before it aside."""
    bare = re.sub(r"^(\w+=\S+ )+", "", command)
    return next((start for start in kinds if bare.startswith(start)), None)


SHOWN = [*PAGES, ROOT / "CONTRIBUTING.md"]


def test_every_command_is_one_that_is_run_or_named_here():
    found = {command for page in SHOWN for command in commands(page)}
    assert len(found) > 25
    assert [command for command in found if not any(kind(command, kinds) for kinds in (SHORT, ASKS, NOT_RUN))] == []


def test_what_pip_is_told_to_install_exists():
    extras = set(tomllib.loads(text(ROOT / "pyproject.toml"))["project"]["optional-dependencies"])
    named = {name for page in WRITTEN for found in re.findall(r'"\.\[([\w,]+)\]"', text(page)) for name in found.split(",")}
    assert {"train", "llm", "test"} <= named <= extras


OWN_ENVIRONMENT = """\
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv
class MyEnv(PendulumEnv):
    '''A pendulum. Observation: cos, sin, angular velocity. Action: a torque in [-2, 2].'''
gym.register("MyEnv-v0", entry_point=MyEnv, max_episode_steps=200)
"""
FUNCTION = "def critical(obs):\n    if obs[0] > 0:\n        return True, [0.5, -0.5], 0.5\n    return False, [0.0, 0.0], 0.0\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_run(page, tmp_path):
    for name in ("benchmarks", "cleanrl_scripts", "docs", "llmwrappers", "local_llm", "prompts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "my_package.py").write_text(OWN_ENVIRONMENT)
    (tmp_path / "my_policy.py").write_text(fenced(ROOT / "docs" / "guides" / "environment.md", "python")[0])
    for folder, name, code in (
        ("policies/my_package-MyEnv-v0", "policy-1.py", "def policy(obs):\n    return [-2.0 * obs[1]]\n"),
        ("tables/Swimmer-v4", "critical.py", FUNCTION),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text(code)
    provenance = {"candidates": {"1": {"policy_sha256": "?"}}, "default": {"candidate": 1}}
    (tmp_path / "policies/my_package-MyEnv-v0/provenance.json").write_text(json.dumps(provenance))
    hidden = {"HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache"), "MUJOCO_GL": os.environ.get("MUJOCO_GL", "egl")}
    environment = {**os.environ, **hidden, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    for command in commands(page):
        if kind(command, NOT_RUN):
            continue
        start, asks = kind(command, SHORT), kind(command, ASKS)
        for name in re.findall(r"runs/\.\.\./(\S+)", command):  # what the command before it has made
            made = max((tmp_path / "runs").glob(f"*/{name}"), key=lambda path: path.stat().st_mtime)
            command = command.replace(f"runs/.../{name}", str(made))
        command = re.sub(r"https?://\S+", "http://127.0.0.1:9/v1", command)
        variables, (_, *rest) = re.match(r"(?:\w+=\S+ )*", command), shlex.split(re.sub(r"^(\w+=\S+ )+", "", command))
        assert variables is not None
        given = dict(variable.split("=", 1) for variable in variables[0].split())
        given = {name: value for name, value in given.items() if name not in ("PYTHONPATH", "MUJOCO_GL")}
        environment["PYTHONPATH"] = f"{tmp_path}:{ROOT}:{ROOT / 'benchmarks'}"
        rest += SHORT[start].split() if start else ["--output", str(tmp_path / "asked")]
        run = subprocess.run(
            [sys.executable, *rest], cwd=tmp_path, env={**environment, **given}, capture_output=True, text=True, check=False
        )
        if start:
            assert run.returncode == 0, f"{command}\n{run.stdout[-2000:]}\n{run.stderr[-4000:]}"
            named = re.findall(r"llmwrappers watch --run (\S+)", run.stdout)
            assert all((tmp_path / run_dir).is_dir() for run_dir in named), f"{command}\n{run.stdout[-2000:]}"
        else:
            assert run.returncode == 1, f"{command}\n{run.stderr[-4000:]}"
            assert asks
            assert re.search(ASKS[asks], run.stderr), run.stderr[-4000:]
