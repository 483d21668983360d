"""cleanrl_scripts/comparison: plans, progress, statistics, what cannot be averaged, other people's curves, figures."""

import io
import json
import math
import re
import sys

import matplotlib.image
import numpy as np
import pytest
import scipy.stats
from conftest import ROOT

from cleanrl_scripts.comparison import pools, tracking
from cleanrl_scripts.comparison.alone import returns_alone
from cleanrl_scripts.comparison.curves import PLAIN, Curves, Evaluation, align, from_csv, keep_curves, merge
from cleanrl_scripts.comparison.figures import curves_figure, image, style, summary_figure
from cleanrl_scripts.comparison.pools import RayPool, train_on_a_node
from cleanrl_scripts.comparison.report import cost, html_page, write_report
from cleanrl_scripts.comparison.runs import Run, by_name, parse_arms, plan
from cleanrl_scripts.comparison.statistics import difference, estimate, improvement, iqm
from cleanrl_scripts.comparison.tables import ALL, Report, amount, duration, make_report, markdown, steps_to_threshold
from cleanrl_scripts.comparison.tracking import from_wandb
from cleanrl_scripts.comparison.training import Display, choose_expert, end_of, final_return, status, train
from cleanrl_scripts.comparison.verdict import verdict
from llmwrappers.errors import UserError
from llmwrappers.priors.measurement import keep_returns

# ------------------------------------------------------------------------------------------------------ plan and progress


def asked(env_ids: list[str], arms: list[str], expert_models: str | None = None, script: str = "td3_camel.py") -> dict:
    flags = {"arms": parse_arms(arms, script), "seeds": [1], "total_timesteps": 100, "flags": []}
    return {"script": script, "env_ids": env_ids, "expert_models": expert_models, **flags}


def test_of_a_run_that_is_in_both_the_curve_of_now_counts():
    before = evaluations({("a", 1): {0: 1.0, 10: 2.0}, ("a", 2): {0: 3.0}})
    now = evaluations({("a", 1): {0: 4.0}, ("b", 1): {0: 5.0}})
    kept = {(e.arm, e.seed, e.step): e.returns["episodic_return"] for e in merge(before, now, [])}
    assert kept == {("a", 2, 0): 3.0, ("a", 1, 0): 4.0, ("b", 1, 0): 5.0}


def test_an_imported_arm_replaces_all_its_seeds():
    before = evaluations({("a", 1): {0: 1.0}, ("a", 2): {0: 3.0}, ("b", 1): {0: 5.0}})
    kept = merge(before, [], evaluations({("a", 1): {0: 4.0}}))
    assert sorted((e.arm, e.seed, e.returns[PLAIN]) for e in kept) == [("a", 1, 4.0), ("b", 1, 5.0)]


def test_many_arms_look_different():
    report = Report([f"arm-{i}" for i in range(20)], [], [], [], {}, {}, {})
    assert len({tuple(style(report, arm).values()) for arm in report.arms}) == 20


def test_the_expert_models_may_be_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "A-v0.npz").touch()
    _, expert = plan(asked(["A-v0"], ["td3", "paper-expert"], "{env_id}.npz"), tmp_path / "out")
    assert by_name(expert.flags)["--prior"] == f"expert:{tmp_path / 'A-v0.npz'}"
    assert expert.expert is None


def test_the_expert_is_the_best_run_that_kept_its_model(tmp_path):
    for seed, value, has_model in ((1, -3.0, True), (2, 5.0, True), (3, 7.0, False)):
        folder = tmp_path / "A-v0" / "td3" / str(seed) / "run"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps({"eval/episodic_return": value}))
        if has_model:
            (folder / "agent.npz").write_text(f"of seed {seed}")
    model = tmp_path / "experts" / "A-v0.npz"
    run = Run("A-v0", "paper-expert", 1, 10, tmp_path / "A-v0" / "paper-expert" / "1", tmp_path, (), model)
    assert choose_expert(run, model) == ""
    assert model.read_text() == "of seed 2"


def test_the_environment_may_be_part_of_an_arms_flags(tmp_path):
    runs = plan(asked(["A-v0", "B-v0"], ["own=--prior {env_id}.py"]), tmp_path)
    assert [by_name(run.flags)["--prior"] for run in runs] == ["A-v0.py", "B-v0.py"]


@pytest.mark.parametrize("flags", [[], ["--track"]])
def test_tracked_runs_are_grouped_by_the_names_of_the_arms(tmp_path, flags):
    runs = plan(asked(["A-v0"], ["paper", "wide=--prior shipped --radius 0.6"]) | {"flags": flags}, tmp_path)
    groups = [by_name(run.flags).get("--wandb-arm") for run in runs]
    assert groups == (["paper", "wide"] if flags else [None, None])


METRICS_HEADER = "global_step,metric,value\n"
PROGRESS = (
    METRICS_HEADER + "100,eval/episodic_return,-3.5\n390,charts/episodic_return,-20.0\n400,losses/x,1.0\n400,charts/SPS,20.4\n"
)


@pytest.fixture
def runs(tmp_path):
    """Three, of which the first one is under way."""
    (tmp_path / "1" / "run").mkdir(parents=True)
    (tmp_path / "1" / "run" / "args.json").touch()
    return [Run("A-v0", "a", seed, 1000, tmp_path / str(seed), tmp_path, ()) for seed in (1, 2, 3)]


def write(run: Run, text: str) -> None:
    assert run.run_dir is not None
    (run.run_dir / "metrics.csv").write_text(text)


def test_where_a_run_is_is_what_its_metrics_say(runs):
    assert status(runs[0]) == status(runs[1]) == (0, "", 0.0)
    write(runs[0], PROGRESS)
    assert status(runs[0]) == (400, "-20.0", 20.4)
    write(runs[0], PROGRESS + '500,eval/episodic_return,1.25\n510,"audition/a, b",7.0\n')
    assert status(runs[0]) == (510, "1.2", 20.4)


def test_a_line_that_is_still_written_is_not_read(runs):
    for cut in ("5", "500,eval/epi", "500,eval/episodic_return,1"):
        write(runs[0], PROGRESS + cut)
        assert status(runs[0]) == (400, "-20.0", 20.4)


def test_the_end_of_long_metrics_is_enough(runs):
    write(runs[0], METRICS_HEADER + "7,losses/x,1.0\n" * 100_000 + PROGRESS.removeprefix(METRICS_HEADER))
    assert status(runs[0]) == (400, "-20.0", 20.4)


def test_the_live_lines(runs, monkeypatch):
    class Terminal(list):
        write = list.append

        def isatty(self):
            return True

        def flush(self):
            pass

    write(runs[0], PROGRESS)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    display = Display(runs, print)
    display.update(runs[:1], runs[1:2], 0)
    live, everything = "".join(terminal).splitlines()
    assert live == "A-v0 a seed 1        400/1,000  return     -20.0  SPS    20  left 0:00:29"
    assert everything == "1 of 3 runs finished, 1 running, 1 wait, left 0:01:18"
    terminal.clear()
    write(runs[0], PROGRESS + "500,eval/episodic_return,1.5\n")
    display.last = -math.inf
    display.update(runs[:1], runs[1:2], 0)
    assert "".join(terminal).startswith("\x1b[2F\x1b[J")
    assert "500/1,000  return       1.5" in "".join(terminal)


def test_what_is_left_counts_the_runs_that_come_later(runs):
    write(runs[0], PROGRESS.replace("20.4", "20.0"))
    lines = []
    Display(runs, lines.append, later=9).update(runs[:1], runs[1:2], 0)
    assert lines[0].splitlines()[-1] == "1 of 3 runs finished, 1 running, 1 wait, 9 come later, left 0:08:50"


SCRIPT = """\
import json, os, pathlib, sys
run_dir = pathlib.Path(sys.argv[sys.argv.index("--runs-dir") + 1]) / "run"
run_dir.mkdir()
(run_dir / "args.json").touch()
print("threads", os.environ["OMP_NUM_THREADS"])
if "--broken" in sys.argv:
    sys.exit("too large")
(run_dir / "summary.json").write_text(json.dumps({"eval/episodic_return": 7.0}))
"""


def test_why_a_run_failed_is_returned_and_the_others_train(tmp_path):
    script, lines = tmp_path / "script.py", []
    script.write_text(SCRIPT)
    flags = {"bad": ("--broken",), "good": ()}
    runs = [Run("A-v0", arm, seed, 10, tmp_path / arm / str(seed), script, flags[arm]) for arm in flags for seed in (1, 2)]
    failures = train(runs, tmp_path, jobs=2, log=lines.append)
    assert list(failures) == runs[:2]
    assert failures[runs[0]] == f"exit code 1; the end of {runs[0].log}:\nthreads 1\ntoo large"
    assert [run.is_finished for run in runs] == [False, False, True, True]
    assert f"failed: A-v0 bad seed 1: {failures[runs[0]]}" in lines
    assert "finished: A-v0 good seed 2: return 7.0" in lines
    assert train(runs[2:], tmp_path, log=lines.append) == {}
    assert lines[-1] == "all runs are finished; nothing to train"


def test_an_error_in_a_box_is_shown_from_its_first_line(tmp_path):
    """tyro lists in it, over many lines, what else may be meant."""
    flags = ("--prio", "my_policy.py")
    run = Run("Pendulum-v1", "mine", 1, 10, tmp_path / "mine", ROOT / "cleanrl_scripts" / "ppo_camel.py", flags)
    with pytest.raises(UserError, match="did not start: exit code 2\n.*Unrecognized options.*\n.*Unrecognized options: --prio"):
        train([run], tmp_path)


def test_a_script_without_a_final_return_ends_no_comparison(tmp_path):
    for text in ('{"loss": 1}', "{", '{"eval/episodic_return": null}'):
        (tmp_path / "summary.json").write_text(text)
        assert math.isnan(final_return(tmp_path))


def test_the_box_of_an_earlier_attempt_is_no_reason(tmp_path):
    box = "╭─ Unrecognized options ─╮\n│ --foo                  │\n╰────────────────────────╯\n"
    (tmp_path / "log.txt").write_text(f"{box}step 100\nRuntimeError: the real cause\n")
    assert end_of(tmp_path / "log.txt").endswith("RuntimeError: the real cause")
    (tmp_path / "log.txt").write_text("step 100\n" + box)
    assert end_of(tmp_path / "log.txt").startswith("╭─ Unrecognized options")


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path, monkeypatch):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(pools.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(pools.time, "sleep", lambda seconds: None)
    a_run = Run("A-v0", "a", 1, 10, tmp_path / "a", tmp_path / "script.py", ())
    assert "--output must be on a disk that all nodes share" in train_on_a_node(a_run, tmp_path / ".token", str(tmp_path))
    (tmp_path / ".token").touch()
    assert f"does not see {tmp_path / 'script.py'}" in train_on_a_node(a_run, tmp_path / ".token", str(tmp_path))


@pytest.mark.filterwarnings("ignore")
def test_no_ray_cluster(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(UserError, match="--ray 127.0.0.1:1: .*ray start --head"):
        RayPool("127.0.0.1:1", tmp_path)


# -------------------------------------------------------------------------------------------------------- statistics


def evaluations(curves: dict, env_id="A-v0"):
    """{(arm, seed): {step: return}} as evaluations."""
    return [
        Evaluation(env_id, arm, seed, step, {"episodic_return": value}, "test")
        for (arm, seed), curve in curves.items()
        for step, value in curve.items()
    ]


def aligned(curves: dict) -> Curves:
    found = evaluations(curves)
    return align("A-v0", list(dict.fromkeys(arm for arm, _ in curves)), found)


def test_the_scores_of_a_run():
    steps = range(0, 2000, 100)
    curves = aligned({("a", 1): {s: s / 10 for s in steps}, ("a", 2): dict.fromkeys(steps, 5.0)})
    np.testing.assert_allclose(curves.final("a"), [(180 + 190) / 2, 5.0])  # the last 2 of 20
    np.testing.assert_allclose(curves.area("a"), [95.0, 5.0])
    np.testing.assert_array_equal(curves.steps_to("a", 100.0), [1000, np.inf])
    np.testing.assert_array_equal(curves.steps_to("a", 5.0), [100, 0])
    longer = aligned({("a", 1): {0: 0.0, 100: 9.0}, ("b", 1): {0: 0.0, 100: 1.0, 900: 9.0}})
    assert longer.steps_to("b", 9.0).tolist() == [np.inf]  # all are compared up to step 100
    uneven = aligned({("a", 1): {0: 0.0, 10: 10.0, 40: 10.0}})
    np.testing.assert_allclose(uneven.area("a"), [(50 + 300) / 40])
    assert steps_to_threshold(np.array([1000.0, 2000.0, np.inf])) == "2,000 (2 of 3 seeds)"
    assert steps_to_threshold(np.array([1000.0, np.inf, np.inf])) == "never (1 of 3 seeds)"
    assert steps_to_threshold(np.array([2000.0, np.inf, 1000.0, np.inf])) == "2,000 (2 of 4 seeds)"
    assert steps_to_threshold(np.array([0.0, 0.0, np.inf]), hours=1.0) == "at the start (2 of 3 seeds)"
    assert steps_to_threshold(np.array([2000.0]), hours=1e-6) == "2,000, 7 s"


def test_a_baseline_that_does_not_improve_is_no_return_to_reach():
    curves = {("a", 1): {0: 0.0, 10: 0.0}, ("b", 1): {0: 0.0, 10: 5.0}}
    _, header, rows = make_report(evaluations(curves)).tables[0]
    assert [row[header.index("steps to -")] for row in rows] == ["-", "-"]
    _, header, rows = make_report(evaluations(curves), threshold=5.0).tables[0]
    assert [row[header.index("steps to 5.00")] for row in rows] == ["never (0 of 1 seeds)", "10"]


def test_the_last_evaluation_counts_where_curves_end_at_different_steps():
    baseline = {0: 0.0, 100: 10.0, 200: 20.0, 300: 0.0}  # falls at the end
    curves = aligned({("a", 1): baseline, ("b", 1): {0: 0.0, 50: 1.0, 150: 30.0, 290: 40.0}})
    assert curves.steps.tolist() == [0, 100, 200, 290]
    np.testing.assert_allclose(curves.final("a"), [2.0])  # between 200 and 300
    np.testing.assert_allclose(curves.final("b"), [40.0])
    assert curves.steps_to("b", 30.0).tolist() == [150]  # it was evaluated there, the baseline was not


def test_the_statistics_by_hand():
    assert iqm(np.array([1.0, 2, 3, 100])) == 2.5
    assert iqm(np.array([1.0, 2, 6])) == 3.0
    first, second = np.array([1.0, 2, 3, 4]), np.array([2.0, 5, 5, 0])
    # 2 > 1, = 2; 5 > all, twice; 0 > none
    assert improvement(np.stack([first, second])) == (1.5 + 4 + 4) / 16
    u = scipy.stats.mannwhitneyu(second, first).statistic
    assert improvement(np.stack([first, second])) == u / 16
    assert improvement(np.stack([first, first])) == 0.5
    assert improvement(np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])) == 0.5
    assert difference(np.stack([first, second])) == 3.5 - 2.5


def test_intervals():
    """Of a mean of normal numbers: about 1.96 standard errors on either side, and over seeds only within environments."""
    scores = np.random.default_rng(0).normal(10, 2, 400)
    mean = estimate(lambda x, axis=-1: np.mean(x, axis=axis), scores)
    error = scores.std() / 20
    assert mean.low == pytest.approx(scores.mean() - 1.96 * error, abs=0.15 * error)
    assert mean.high == pytest.approx(scores.mean() + 1.96 * error, abs=0.15 * error)
    again = estimate(lambda x, axis=-1: np.mean(x, axis=axis), scores)
    assert (again.low, again.high) == (mean.low, mean.high)
    assert estimate(iqm, scores[:2]).low is None
    # Environments that differ a lot but have no spread within: stratified, the interval is a point.
    worse, better = np.array([[1.0] * 3, [0.0] * 3]), np.array([[0.0] * 3, [1.0] * 3])
    apart = estimate(improvement, worse, better)
    assert (apart.low, apart.value, apart.high) == (0.5, 0.5, 0.5)
    # Pairs: a constant advantage is certain however much the seeds differ.
    pairs = np.stack([scores[:8], scores[:8] + 1])
    advantage = estimate(difference, pairs)
    np.testing.assert_allclose([advantage.low, advantage.value, advantage.high], 1.0)


def test_curves_have_a_band_at_every_step():
    returns = np.random.default_rng(0).normal(size=(7, 5))
    value, low, high = estimate(iqm, returns, n_resamples=500)
    assert value.shape == low.shape == high.shape == (7,)
    assert np.all(low < value)
    assert np.all(value < high)
    alone = estimate(iqm, returns[3], n_resamples=500)
    assert (alone.low, alone.high) == pytest.approx((low[3], high[3]), abs=0.15)


def test_against_rliable():
    rliable = pytest.importorskip("rliable.library")
    from rliable import metrics

    rng = np.random.default_rng(1)
    tasks = 3
    first, second = rng.normal(size=(10, tasks)), rng.normal(0.7, 1, size=(10, tasks))
    assert iqm(first[:, 0]) == pytest.approx(metrics.aggregate_iqm(first[:, :1]))
    pairs = [np.stack([first[:, task], second[:, task]]) for task in range(tasks)]
    theirs = metrics.probability_of_improvement(second, first)
    assert improvement(*pairs) == pytest.approx(theirs)
    points, intervals = rliable.get_interval_estimates(
        {"first": first[:, :1]}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=5000
    )
    ours = estimate(iqm, first[:, 0])
    assert float(ours.value) == pytest.approx(points["first"][0])
    width = float(intervals["first"][1, 0] - intervals["first"][0, 0])
    assert ours.high - ours.low == pytest.approx(width, rel=0.1)
    points, intervals = rliable.get_interval_estimates({"both": (second, first)}, metrics.probability_of_improvement, reps=2000)
    ours = estimate(improvement, *pairs)
    width = float(intervals["both"][1, 0] - intervals["both"][0, 0])
    assert ours.high - ours.low == pytest.approx(width, rel=0.25)


def test_all_environments_count_the_same():
    """Whatever their units, and however many seeds they have."""
    found = []
    for env_id, scale, n_seeds in (("A-v0", 1.0, 3), ("B-v0", 1000.0, 6)):
        curves = {("a", s): {0: 0.0, 10: scale * s} for s in range(n_seeds)}
        curves |= {("b", s): {0: 0.0, 10: scale * (s + 10 if env_id == "A-v0" else s - 10)} for s in range(n_seeds)}
        found += evaluations(curves, env_id)
    report = make_report(found)
    assert report.better[ALL]["b"].value == 0.5
    assert report.tables[-1] == ("all environments", ["arm", "runs", "P(better than a)"], [["b", "9", "0.50"]])
    assert "| b | 3 | 11.0 [10.0, 12.0] | 11.0 | 5.50 [5.00, 6.00] | 10 | 10.0 [10.0, 10.0] | 1.00 |" in markdown(report)

    found += evaluations({("a", s): {0: 1.0, 10: 2.0} for s in (1, 2)}, "C-v0")
    report = make_report(found)
    assert any("b is not in the table of all environments: no seed of it and a in C-v0." in note for note in report.notes)
    assert [title for title, _, _ in report.tables] == ["A-v0", "B-v0", "C-v0"]


def test_returns_on_the_way_and_the_time_that_steps_took():
    """At 20 000 steps the nearest evaluation is that at 18 000, at 300 000 the curve is as good as over."""
    curve = {0: 0.0, 18_000: 1.0, 90_000: 5.0, 130_000: 7.0, 310_000: 9.0}
    curves = {(arm, seed): {step: value + seed for step, value in curve.items()} for arm in "ab" for seed in (0, 0.5, 1)}
    report = make_report(evaluations(curves), threshold=5.0, hours={("A-v0", "b"): 1 / 60_000})
    ((_, header, rows),) = report.tables
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    assert cells[0]["at 20,000"] == "1.50 [1.00, 2.00]"
    assert cells[0]["at 100,000"] == "5.50 [5.00, 6.00]"
    assert "at 300,000" not in header
    assert [row["steps to 5.00"] for row in cells] == ["90,000", "90,000, 1.50 hours"]


# ----------------------------------------------------------------------------------------------- what cannot be averaged


def test_curves_of_different_length_are_cut_and_named():
    curves = aligned({("a", 1): {0: 0.0, 10: 1.0, 20: 2.0}, ("b", 1): {0: 0.0, 10: 5.0}})
    assert curves.steps.tolist() == [0, 10]
    np.testing.assert_allclose(curves.final("a"), [1.0])
    assert "the curves end at different steps (10: b seed 1; 20: a seed 1); all are compared up to step 10" in curves.notes[0]


def test_curves_that_begin_late_are_cut_named_and_averaged_over_what_they_span():
    curves = aligned({("a", 1): {0: 9.0, 10: 1.0, 20: 3.0}, ("b", 1): {10: 5.0, 20: 5.0}})
    assert curves.steps.tolist() == [10, 20]
    np.testing.assert_allclose(curves.area("a"), [2.0])
    np.testing.assert_allclose(curves.area("b"), [5.0])
    assert "the curves begin at different steps (0: a seed 1; 10: b seed 1); all are compared from step 10" in curves.notes[0]


def test_other_steps_are_interpolated_and_named():
    curves = aligned({("a", 1): {0: 0.0, 10: 1.0, 20: 2.0}, ("b", 1): {0: 0.0, 4: 4.0, 16: 16.0, 20: 0.0}})
    np.testing.assert_allclose(curves.returns["episodic_return"]["b"][:, 0], [0.0, 10.0, 0.0])
    assert curves.notes == ["A-v0: evaluated at other steps than a and interpolated linearly: b."]


def test_no_common_steps():
    with pytest.raises(UserError, match="no steps in common"):
        aligned({("a", 1): {0: 0.0, 10: 1.0}, ("b", 1): {20: 0.0, 30: 4.0}})


def test_curves_that_never_change_are_named():
    curves = aligned({("a", 1): {0: 3.0, 10: 3.0}, ("b", 1): {0: 3.0, 10: 4.0}})
    assert curves.notes == [
        "A-v0: nothing was learned by a: all evaluations are the same; for td3_camel.py, is --learning-starts too late?"
    ]


def test_a_missing_seed_is_named_and_pairs_use_the_common_ones():
    steps = {0: 0.0, 10: 1.0}
    curves = {("a", s): {0: 0.0, 10: float(s)} for s in (1, 2, 3)} | {("b", s): {0: 0.0, 10: 10.0 + s} for s in (1, 3)}
    both = aligned(curves)
    np.testing.assert_allclose(both.paired("a", "b", both.final), [[1, 3], [11, 13]])
    assert both.notes == ["A-v0: b has no seed 2; where arms are compared, the seeds that both have count."]
    strangers = aligned({("a", 1): steps, ("b", 2): steps})
    assert strangers.paired("a", "b", strangers.final) is None


def test_a_baseline_without_runs_is_named():
    report = make_report(evaluations({("b", 1): {0: 0.0, 10: 1.0}}), ["a", "b"])
    assert any("no finished run of a, the baseline" in note for note in report.notes)
    assert "| b | 1 | 1.00 | 1.00 | 0.50 | - | - | - |" in markdown(report)


def test_an_evaluation_that_is_there_twice():
    found = evaluations({("a", 1): {0: 0.0, 10: 1.0}})
    with pytest.raises(UserError, match="A-v0, a, seed 1, step 10 is there twice: in test and in test"):
        make_report([*found, found[-1]])


def test_a_csv_must_name_its_environment_where_there_are_several(tmp_path):
    (tmp_path / "x.csv").write_text("step,episodic_return,seed\n0,1.0,1\n")
    with pytest.raises(UserError, match="has no column env_id, and 2 environments are compared: A-v0, B-v0"):
        from_csv(tmp_path / "x.csv", ["A-v0", "B-v0"])


def test_tracked_runs_on_a_server(monkeypatch, capsys):
    import wandb

    class Server:
        class Tracked:
            def __init__(self, name, config, history):
                self.name, self.config, self.history = name, config, history

            def scan_history(self, keys):
                return [row for row in self.history if set(keys) <= set(row)]

        def runs(self, project, order):
            assert (project, order) == ("me/mine", "-created_at")  # the newest first
            history = [{"_step": s, "eval/episodic_return": s / 10, "eval/masked_return": 1.0} for s in (0, 10)]
            config = {"env_id": "Hopper-v4", "seed": 3, "arm": "llm", "total_timesteps": 10}
            return [
                self.Tracked("one", config, [*history, {"_step": 5, "charts/SPS": 1}]),
                self.Tracked("cut", {**config, "seed": 4}, history[:1]),
                self.Tracked("other", {"lr": 1}, []),
                self.Tracked("diverged", {**config, "seed": 5}, [history[0], {"_step": 10, "eval/episodic_return": math.nan}]),
                self.Tracked("older", config, history),
                self.Tracked("masked", {**config, "seed": 6}, [{"_step": 10, "eval/masked_return": 1.0}]),
            ]

    monkeypatch.setattr(wandb, "Api", Server)
    found = from_wandb("me/mine")
    assert [(e.env_id, e.arm, e.seed, e.step, e.returns) for e in found] == [
        ("Hopper-v4", "llm", 3, step, {"episodic_return": step / 10, "masked_return": 1.0}) for step in (0, 10)
    ]
    assert capsys.readouterr().out.splitlines() == [
        "note: me/mine: cut ends at step 0 of 10: left out",
        "note: me/mine: other is no run of the scripts with evaluations: left out",
        "note: me/mine: diverged has eval/episodic_return nan at step 10: left out",
        "note: me/mine: older has the environment, arm and seed of a later run: left out",
        "note: me/mine: masked is no run of the scripts with evaluations: left out",
    ]


@pytest.mark.parametrize(("last", "is_whole"), [(768, True), (512, False)])
def test_a_tracked_run_of_whole_rollouts_is_finished(monkeypatch, last, is_whole):
    """1000 steps are three rollouts of 2 * 128, and 232 steps that PPO leaves out."""
    config = {"env_id": "A-v0", "seed": 1, "arm": "ra", "total_timesteps": 1000, "num_envs": 2, "num_steps": 128}
    history = {step: {"episodic_return": 1.0} for step in range(0, last + 1, 256)}
    monkeypatch.setattr(tracking, "online_runs", lambda project: [("run", config, history)])
    if is_whole:
        assert [e.step for e in from_wandb("me/mine")] == [0, 256, 512, 768]
    else:
        with pytest.raises(UserError, match="no finished run"):
            from_wandb("me/mine")


def test_numbers_for_people():
    values = {
        -1653.4: "-1,653",
        99.999: "100",
        -20.56: "-20.6",
        9.999: "10.0",
        0.5: "0.50",
        -0.001: "0.00",
        1234567.0: "1,234,567",
    }
    assert {value: amount(value) for value in values} == values


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (39.62, "39.6 hours"),
        (1.0, "1.00 hours"),
        (0.74, "44.4 min"),
        (0.04, "2.40 min"),
        (0.011, "40 s"),
        (0.0, "less than a second"),
    ],
)
def test_no_time_is_rounded_to_nothing(hours, text):
    assert duration(hours) == text


def test_what_the_runs_cost_is_in_units_that_fit():
    notes = {"a": {"1": {"hours": 0.04}, "2": {"hours": 0.05}}, "b": {"1": {"hours": 2.0}, "2": {}}}
    description = {"arms": {"a": [], "b": []}, "total_timesteps": 1000, "runs": {"A-v0": notes}}
    (note,) = cost(description, runs=4)
    assert note.startswith("Cost: 3 runs of 1,000 steps, 3,000 in all, took 2.09 hours (a run: a 2.70 min, b 2.00 hours).")
    assert note.endswith(" The hours of the other 1 are not known.")
    notes["b"]["2"] = {"hours": 1.0, "left_out": "it diverged"}  # and has no curve
    (note,) = cost(description, runs=3)
    assert note.startswith("Cost: 4 runs of 1,000 steps")
    assert "not known" not in note


def test_a_figure_of_a_page_has_no_ground_and_the_colour_of_its_text():
    """Of two arms of two seeds there are no intervals, so that the markers are hollow."""
    report = make_report(evaluations({(arm, s): {0: float(s), 10: 2.0 * s} for s in (1, 2) for arm in "ab"}))
    for figure in (curves_figure(report), summary_figure(report)):
        svg = image(figure, "svg").decode()
        assert not re.findall(r"#000000|#ffffff|\bblack\b|\bwhite\b", svg)
        assert '<svg fill="currentColor"' in svg
        assert "stroke: currentColor" in svg
        assert tuple(matplotlib.image.imread(io.BytesIO(image(figure, "png")))[0, 0]) == (1, 1, 1, 1)


def test_the_figure_shows_the_mean_and_the_band_of_all_seeds():
    curves = {("a", s): {0: float(s), 10: 2.0 * s, 20: 3.0 * s} for s in (1, 2, 3, 4)}
    report = make_report(evaluations(curves))
    (axis,) = curves_figure(report).axes
    np.testing.assert_allclose(axis.lines[0].get_xydata(), [[0, 2.5], [10, 5.0], [20, 7.5]])
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() >= 1.0
    assert heights.max() > 10.0


def test_a_policy_that_does_not_learn_is_a_row_and_a_dotted_line(tmp_path):
    runs = [Evaluation("Hopper-v4", "none", seed, step, {PLAIN: 10.0}, "") for seed in (1, 2, 3) for step in (0, 100)]
    keep_curves(tmp_path, runs, {})
    keep_returns(tmp_path / "alone.csv", "Hopper-v4", "prior", [1.0, 2.0, 3.0, 6.0], seed=7)
    keep_returns(tmp_path / "alone.csv", "Ant-v4", "prior", [1.0], seed=7)  # which is not compared
    report = write_report(tmp_path, None)
    ((_, header, rows),) = report.tables
    cells = dict(zip(header, rows[-1], strict=True))
    shown = [cells[column] for column in ("arm", "seeds", "mean", "P(better than none)")]
    assert shown == ["prior alone", "4 episodes", "3.00", "-"]
    assert cells["final return"].startswith("3.00 [")
    assert "prior alone" in (tmp_path / "curves.svg").read_text()
    assert "episodes resampled" in (tmp_path / "table.md").read_text()


def test_an_alone_csv_without_returns_is_refused(tmp_path):
    (tmp_path / "alone.csv").write_text("env_id,policy\nHopper-v4,prior\n")
    with pytest.raises(UserError, match="no column episodic_return; it has env_id, policy"):
        returns_alone(tmp_path)


def test_the_committed_comparisons_are_what_their_curves_say(tmp_path):
    found = sorted((ROOT / "benchmarks" / "comparisons").glob("*/curves.csv"))
    assert found
    for curves in found:
        folder = tmp_path / curves.parent.name
        folder.mkdir()
        for name in ("curves.csv", "comparison.json", "alone.csv"):
            if (curves.parent / name).exists():
                (folder / name).write_bytes((curves.parent / name).read_bytes())
        write_report(folder, None)
        assert (folder / "table.md").read_bytes() == (curves.parent / "table.md").read_bytes()


def test_the_page_begins_with_the_verdict_and_says_what_the_arms_are():
    report = make_report(
        evaluations({(arm, s): {0: 0.0, 10: s + 5.0 * (arm == "auto")} for s in (1, 2, 3) for arm in ("none", "auto")})
    )
    description = {"script": "ppo_camel.py", "arms": {"none": ["--prior", "none"], "auto": ["--prior", "<b>"]}}
    page = html_page(report, "x", description, {"curves": "<?xml?><svg>the curves</svg>"})
    parts = [verdict(report), "<li><b>none</b>, the baseline: PPO alone, no prior <code>--prior none</code></li>"]
    parts += ["<li><b>auto</b> <code>--prior &#x27;&lt;b&gt;&#x27;</code></li>", "<svg>the curves"]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_the_page_says_where_a_command_of_old_works():
    report = make_report(evaluations({("a", 1): {0: 0.0, 10: 1.0}}))
    assert "<h2>Command</h2>\n<pre>python old.py</pre>" in html_page(report, "x", {"command": ["old.py"]}, {})
    assert "<pre>llmwrappers compare</pre>" in html_page(report, "x", {"command": ["llmwrappers", "compare"]}, {})
    page = html_page(report, "x", {"command": ["old.py"], "commit": "d1e1599"}, {})
    assert "<p>At commit d1e1599: the scripts no longer take these arguments.</p>\n<pre>python old.py</pre>" in page
