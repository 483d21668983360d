"""cleanrl_scripts/comparison/verdict.py: one sentence that claims no more than the numbers do, and what the arms are."""

from typing import get_args, get_type_hints

import pytest

from cleanrl_scripts.comparison.curves import Evaluation
from cleanrl_scripts.comparison.runs import ARMS, meaning, usual_flags
from cleanrl_scripts.comparison.tables import Report, make_report
from cleanrl_scripts.comparison.verdict import arms_explained, verdict
from cleanrl_scripts.ultra.critical_state_sources import SourceArgs


def report_of(finals: dict[str, dict[str, list[float]]], arms: tuple[str, ...] = ("none", "auto", "random")) -> Report:
    """A report of {environment: {arm: final returns}}; all curves begin at 0."""
    return make_report(
        [
            Evaluation(env_id, arm, seed, step, {"episodic_return": value}, "test")
            for env_id, by_arm in finals.items()
            for arm, values in by_arm.items()
            for seed, final in enumerate(values)
            for step, value in ((0, 0.0), (10, final))
        ],
        arms,
    )


LOW, MIDDLE, HIGH, WIDE = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [0.0, 6.0, 12.0]


@pytest.mark.parametrize(
    ("by_arm", "sentence"),
    [
        (
            {"none": LOW, "auto": HIGH, "random": MIDDLE},
            "auto has the highest final return in A-v0, 8.00 [7.00, 9.00], with an interval above that of none, the baseline "
            "(3 seeds an arm).",
        ),
        (
            {"none": LOW, "auto": WIDE},
            "auto has the highest final return in A-v0, 6.00 [0.00, 12.0], but its interval overlaps that of none, so that it "
            "may be chance (3 seeds an arm).",
        ),
        (
            {"none": HIGH, "auto": LOW, "random": MIDDLE},
            "none, the baseline, has the highest final return in A-v0, 8.00 [7.00, 9.00], with an interval above that of every "
            "other arm (3 seeds an arm).",
        ),
        (
            {"none": HIGH, "auto": WIDE, "random": MIDDLE},
            "none, the baseline, has the highest final return in A-v0, 8.00 [7.00, 9.00], but its interval overlaps that of "
            "auto, so that it may be chance (3 seeds an arm).",
        ),
        (
            {"none": LOW, "auto": HIGH[:2]},
            "auto has the highest final return in A-v0, 7.50, but fewer than three seeds tell no interval (2 to 3 seeds an "
            "arm).",
        ),
        (
            {"auto": HIGH, "random": MIDDLE},
            "auto has the highest final return in A-v0, 8.00 [7.00, 9.00] (there is no none, the baseline) (3 seeds an arm).",
        ),
        ({"auto": HIGH[:1]}, "Only auto has curves in A-v0 (1 seed an arm)."),
        ({"none": LOW, "auto": LOW}, "Several arms share the highest final return in A-v0 (3 seeds an arm)."),
    ],
)
def test_the_verdict_on_one_environment(by_arm, sentence):
    assert verdict(report_of({"A-v0": by_arm})) == sentence


def test_environments_of_which_the_same_holds_are_named_together():
    clear, unclear = {"none": LOW, "auto": HIGH}, {"none": LOW, "auto": WIDE}
    assert verdict(report_of({"A-v0": clear, "B-v0": unclear, "C-v0": clear, "D-v0": {"none": MIDDLE, "auto": LOW}})) == (
        "auto has the highest final return in A-v0 and C-v0, with an interval above that of none, the baseline; auto in B-v0, "
        "but its interval overlaps that of none, so that it may be chance; none, the baseline, in D-v0, with an interval above "
        "that of every other arm (3 seeds an arm)."
    )


def test_an_arm_is_explained_where_it_has_its_usual_flags():
    report = report_of({"A-v0": {"none": LOW, "auto": HIGH, "mine": HIGH, "theirs": LOW}}, ("none",))
    arms = {"none": ["--prior", "none"], "auto": ["--prior", "auto:my priors"], "mine": ["--radius", "0.6"]}
    assert arms_explained(report, {"script": "/any/ppo_camel.py", "arms": arms}) == [
        ("none", ", the baseline: PPO alone, no prior", "--prior none"),
        ("auto", "", "--prior 'auto:my priors'"),
        ("mine", "", "--radius 0.6"),
        ("theirs", ": curves from elsewhere", ""),
    ]
    assert arms_explained(report, {}) == []


def test_every_arm_that_a_script_has_is_explained():
    arms = [(arm, script) for script, by_name in ARMS.items() for arm in by_name]
    arms += [(arm, "ppo_ultra.py") for arm in get_args(get_type_hints(SourceArgs)["arm"])]
    assert [arm for arm in arms if not meaning(arm[0], usual_flags(*arm), arm[1])] == []
