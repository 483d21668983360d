"""local_llm/selection/choose.py: the probe, the halving, the verdicts, the training runs."""

import json
import math
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from cleanrl_scripts.comparison.training import train
from llmwrappers import load_prior
from llmwrappers.priors.audition import Verdict
from local_llm.selection import training as training_module
from local_llm.selection.candidate import Candidate
from local_llm.selection.choose import Choice, Comparison, choose_candidate, go_on
from local_llm.selection.training import Trained, TrainingFailed, training_settings

SWING_UP = """
import math

def policy(obs):
    x, y, v = obs
    energy = 0.5 * v * v + 10 * x
    u = 2 * math.copysign(1, v * (10 - energy)) if x < 0.9 else -10 * y - 2 * v
    return [max(-2, min(2, u))]
"""
CONSTANT = "def policy(obs):\n    return [2.0]\n"
# Brakes whatever moves: the pendulum hangs still.
BRAKE = "def policy(obs):\n    return [-2.0 * obs[2]]\n"
# Balances the pole of CartPole-v1: which of the two actions are allowed.
BALANCE = "def policy(obs):\n    return [obs[2] + 0.5 * obs[3] <= 0, obs[2] + 0.5 * obs[3] > 0]\n"
FAULTY = "def policy(obs):\n    return [1.0 / 0.0]\n"


@pytest.fixture
def candidates(tmp_path):
    """Makes candidates of sources, numbered from 1; one that is None is rejected."""

    def make(*sources: str | None) -> list[Candidate]:
        made = []
        for number, source in enumerate(sources, 1):
            path = tmp_path / f"policy-{number}.py"
            if source is None:
                made.append(Candidate(number, "", path, rejected="line 3: imports os"))
            else:
                path.write_text(source)
                made.append(Candidate(number, source, path, load_prior(path)))
        return made

    return make


REFUSED = Verdict("prior", "chance", {"prior": -1.0, "random actions": -1.0}, episodes=10, steps=600)
CHANCE = str(REFUSED)


def outcomes_of(choice: Choice) -> dict[int, str]:
    return {number: str(outcome) for number, outcome in choice.outcomes.items()}


def quiet(line: str) -> None:
    pass


PROBE = {"select": "probe", "episodes": 2, "held_out_episodes": 2, "log": quiet}


class FakeTraining:
    """Stands in for ``train``: writes the run folder of a training that learned what ``learned`` says of a prior.

    Args:
        failing: priors whose runs end with an error
        refused: priors, or pairs of a prior and a seed, whose audition finds them no better than chance
    """

    def __init__(self, learned, failing=(), refused=()):
        self.learned, self.failing, self.refused, self.begun, self.resumed = learned, failing, refused, [], []

    def __call__(self, runs, output, jobs, log, later):
        failures = {}
        for run in runs:
            if run.is_finished:
                continue
            (self.resumed if run.run_dir else self.begun).append(run)
            prior, seed, total = Path(run.flags[run.flags.index("--prior") + 1]).stem, run.seed, run.total_timesteps
            run_dir = run.folder / "run"
            run_dir.mkdir(parents=True, exist_ok=True)
            (run_dir / "args.json").touch()
            if prior in self.failing:
                failures[run] = "exit code 1: out of memory"
                continue
            value = self.learned(prior, seed)
            lines = ["global_step,metric,value", "0,eval/episodic_return,-9999"]
            lines += [f"{total - 1},eval/episodic_return,{value}", f"{total},losses/value_loss,7"]
            lines += [f"{total},eval/episodic_return,{value}"]
            (run_dir / "metrics.csv").write_text("\n".join(lines) + "\n")
            is_refused = {prior, (prior, seed)} & set(self.refused)
            verdict = REFUSED if is_refused else replace(REFUSED, reason="better")
            (run_dir / "summary.json").write_text(json.dumps({"audition": None if prior == "none" else asdict(verdict)}))
        return failures


def choose_trained(candidates, training, tmp_path, **options):
    arguments = PROBE | {"select": "return", "budget_steps": 80_000, "run_dir": tmp_path / "runs", **options}
    return choose_candidate("Pendulum-v1", candidates, execute=training, **arguments)


def constants(number: int) -> list[str]:
    return [f"def policy(obs):\n    return [{0.1 * k}]\n" for k in range(number)]


class TestProbe:
    def test_the_one_that_swings_up_is_chosen(self, candidates):
        choice = choose_candidate(
            "Pendulum-v1", candidates(CONSTANT, SWING_UP, FAULTY, None, SWING_UP), **PROBE | {"episodes": 4}
        )
        assert choice.candidate == 2
        assert re.match(r"faulted in 800 of 800 steps: .*ZeroDivisionError", str(choice.outcomes.pop(3)))
        assert outcomes_of(choice) == {
            1: "no better than random actions",
            2: "chosen",
            4: "rejected: line 3: imports os",
            5: "repeated: the same code as candidate 2",
        }
        assert sorted(choice.measurements) == [1, 2, 3]
        assert choice.verdict.startswith("Candidate 2 is the best by episodes alone: it returns -")
        assert choice.runs == []

    def test_none_that_beats_random_actions(self, candidates):
        choice = choose_candidate("Pendulum-v1", candidates(CONSTANT, BRAKE), **PROBE | {"episodes": 4})
        assert choice.candidate is None
        assert choice.verdict.startswith("None of them is significantly better by episodes: the best, candidate ")
        assert re.search(r" episodes, random actions -.*, doing nothing -.*\. Ask for other candidates\.$", choice.verdict)

    def test_what_beats_random_actions_must_beat_doing_nothing_too(self, candidates):
        """It pushes to and fro: on Pendulum-v1 random actions are as good; here they cost, and standing still does not."""
        still, push = "def policy(obs):\n    return [0.0]\n", "def policy(obs):\n    return [0.3]\n"
        choice = choose_candidate("MountainCarContinuous-v0", candidates(still, push), **PROBE)
        assert choice.candidate is None
        assert outcomes_of(choice) == dict.fromkeys((1, 2), "no better than doing nothing")
        assert choice.nothing is not None
        assert choice.nothing.returns == choice.measurements[1].returns

    def test_none_that_can_be_used(self, candidates):
        choice = choose_candidate("Pendulum-v1", candidates(None, FAULTY, None), **PROBE)
        assert choice.candidate is None
        assert choice.verdict == ("No candidate could be used: 2 rejected, 1 faulted; candidate 1 rejected: line 3: imports os")

    def test_a_discrete_space(self):
        """The reward is the action, 0 to 3; the third answers with an action that there is not."""
        policies = [lambda obs: {0, 1}, lambda obs: {2, 3}, lambda obs: 4, lambda obs: 2]
        made = [Candidate(n, f"# {n}", Path(f"policy-{n}.py"), policy) for n, policy in enumerate(policies, 1)]
        choice = choose_candidate("llmwrappers-tests/Turns-v0", made, **PROBE | {"episodes": 20})
        assert choice.candidate == 2
        assert outcomes_of(choice)[1] == "no better than random actions"
        assert outcomes_of(choice)[3].startswith(
            "faulted in 100 of 100 steps: ValueError: the prior answered with action 4, which"
        )
        assert choice.measurements[4].returns == [10.0] * 20

    def test_a_choice_survives_json(self, candidates):
        choice = choose_candidate("Pendulum-v1", candidates(SWING_UP, FAULTY), **PROBE)
        again = json.loads(json.dumps(asdict(choice), allow_nan=False))
        assert again["measurements"]["1"]["returns"] == choice.measurements[1].returns


class TestHalving:
    def test_the_best_learner_wins_not_the_best_prior(self, candidates, tmp_path):
        """Of five, the three best by episodes are trained; the one of them that returns least teaches most."""
        made = candidates(*constants(5))
        training = FakeTraining(lambda prior, seed: {"policy-5": 300, "policy-4": 200, "none": 90}.get(prior, 100) + seed)
        choice = choose_trained(made, training, tmp_path, seed=7)
        returns = {number: np.mean(m.returns) for number, m in choice.measurements.items()}
        trained = sorted(returns, key=lambda number: returns[number])[2:]
        assert all("--clone-steps" in run.flags for run in training.begun)
        by_learning = {run.candidate for run in choice.runs} - {None}
        assert by_learning == set(trained)
        best = max(trained)
        assert choice.candidate == best
        assert outcomes_of(choice)[best] == "chosen"
        assert sum(outcome.startswith("untrained: not among the 3 best") for outcome in outcomes_of(choice).values()) == 2
        seeds = {arm: [run.seed for run in choice.runs if run.candidate == arm] for arm in [None, *trained]}
        assert seeds[None] == seeds[best] == [7, 8, 9, 10, 11]
        assert sorted(len(seeds[number]) for number in trained if number != best) == [1, 2]
        assert (choice.settings["total_timesteps"], len(choice.runs)) == (3 * 2048, 13)  # a fourth rollout is too much

    def test_the_verdict_says_the_numbers(self, candidates, tmp_path):
        learned = {"policy-1": {0: 700, 1: 800, 2: 936}, "none": {0: 240, 1: 230, 2: 250}}
        choice = choose_trained(candidates(CONSTANT), FakeTraining(lambda prior, seed: learned[prior][seed]), tmp_path)
        assert choice.verdict == (
            "Candidate 1 helps: after 12 288 steps the agent returns 812 (3 seeds, least 700), against 240 without a prior "
            "(3 seeds, greatest 250)."
        )
        assert choice.comparison == Comparison([700, 800, 936], [240, 230, 250])

    def test_the_final_seeds_are_fresh(self, candidates, tmp_path):
        """A candidate that shone with the seed that it was picked by does not win by that seed."""
        learned = lambda prior, seed: 1000 if (prior, seed) == ("policy-2", 0) else seed  # noqa: E731
        choice = choose_trained(candidates(CONSTANT, BRAKE), FakeTraining(learned), tmp_path)
        assert outcomes_of(choice)[2] == "the best of them, but does not help"
        assert choice.comparison is not None
        assert (choice.comparison.candidate, choice.comparison.none) == ([1, 2, 3], [0, 1, 2, 3])

    @pytest.mark.parametrize(
        ("with_prior", "without", "advice"),
        [
            ([0, 100, 200], [0, 50, 100], "The difference is not significant; a larger budget may decide."),
            ([1, 2, 3], [90, 91, 92], "Train without a prior, or ask for other candidates."),
        ],
    )
    def test_what_does_not_help_leads_to_advice(self, candidates, tmp_path, with_prior, without, advice):
        learned = {"policy-1": with_prior, "none": without}
        choice = choose_trained(candidates(CONSTANT), FakeTraining(lambda prior, seed: learned[prior][seed]), tmp_path)
        assert (choice.candidate, choice.best) == (None, 1)
        assert outcomes_of(choice) == {1: "the best of them, but does not help"}
        pattern = (
            r"None of them helps: with the best, candidate 1, after 12 288 steps the agent returns .* without a prior .*\. "
        )
        assert re.fullmatch(pattern + advice, choice.verdict)

    def test_a_candidate_whose_training_fails_is_named_and_the_others_go_on(self, candidates, tmp_path):
        training = FakeTraining(lambda prior, seed: len(prior), failing=["policy-2"])
        choice = choose_trained(candidates(CONSTANT, BRAKE), training, tmp_path)
        assert outcomes_of(choice) == {1: "chosen", 2: "failed in training with seed 0: exit code 1: out of memory"}

    def test_a_candidate_whose_training_diverges_is_named_and_the_others_go_on(self, candidates, tmp_path):
        training = FakeTraining(lambda prior, seed: math.nan if prior == "policy-2" else len(prior))
        choice = choose_trained(candidates(CONSTANT, BRAKE), training, tmp_path)
        assert choice.candidate == 1
        assert outcomes_of(choice)[2].startswith("failed in training with seed 0: it diverged: ")
        assert all(math.isfinite(run.learned()) for run in choice.runs)

    def test_a_candidate_that_its_audition_refuses_was_not_tested(self, candidates, tmp_path):
        training = FakeTraining(lambda prior, seed: seed, refused=["policy-2"])
        choice = choose_trained(candidates(CONSTANT, BRAKE), training, tmp_path)
        assert outcomes_of(choice) == {1: "the best of them, but does not help", 2: f"not tested: {CHANCE}"}
        assert {run.candidate for run in choice.runs} == {None, 1}

    def test_all_that_their_auditions_refuse(self, candidates, tmp_path):
        training = FakeTraining(lambda prior, seed: seed, refused=["policy-1", "policy-2"])
        choice = choose_trained(candidates(CONSTANT, BRAKE), training, tmp_path)
        assert (choice.candidate, choice.best) == (None, None)
        assert choice.verdict == f"No candidate could be used: all 2 not tested; candidate 1 not tested: {CHANCE}"

    @pytest.mark.parametrize(("seeds", "outcome"), [([1], "chosen"), ([0, 2], f"not tested: {CHANCE}")])
    def test_runs_that_tested_nothing_are_left_out(self, candidates, tmp_path, seeds, outcome):
        learned = lambda prior, seed: {"none": 0, "policy-1": 100}[prior] + seed  # noqa: E731
        training = FakeTraining(learned, refused=[("policy-1", seed) for seed in seeds])
        choice = choose_trained(candidates(CONSTANT), training, tmp_path)
        assert outcomes_of(choice) == {1: outcome}
        assert outcome != "chosen" or choice.comparison == Comparison([100, 102], [0, 1, 2])

    def test_all_that_fail_in_training(self, candidates, tmp_path):
        choice = choose_trained(candidates(CONSTANT), FakeTraining(lambda *_: 0, failing=["policy-1"]), tmp_path)
        assert choice.candidate is None
        assert choice.verdict.startswith("No candidate could be used: all 1 failed; candidate 1 failed in training with seed ")
        assert choice.verdict.endswith(": exit code 1: out of memory")

    def test_where_the_last_one_fails_late_the_best_of_the_others_is_measured_and_nothing_is_decided(
        self, candidates, tmp_path
    ):
        learned = {"none": 0, "policy-1": 100, "policy-2": 101}
        training = FakeTraining(lambda prior, seed: math.nan if (prior, seed) == ("policy-2", 3) else learned[prior])
        choice = choose_trained(candidates(CONSTANT, BRAKE), training, tmp_path)
        assert (choice.candidate, choice.best) == (None, 1)
        assert choice.held_out
        assert choice.verdict.startswith("Undecided: candidate 2 failed in training with seed 3: it diverged: ")
        assert choice.verdict.endswith("most with candidate 1. The same command repeats the runs that failed.")

    def test_nothing_to_compare_with(self, candidates, tmp_path):
        with pytest.raises(TrainingFailed, match="without a prior failed with seed 0: exit code 1: out of memory"):
            choose_trained(candidates(CONSTANT), FakeTraining(lambda *_: 0, failing=["none"]), tmp_path)

    def test_finished_runs_are_found_again_and_interrupted_ones_resumed(self, candidates, tmp_path):
        made = candidates(CONSTANT)
        interrupted = FakeTraining(lambda prior, seed: len(prior), failing=["policy-1"])
        choose_trained(made, interrupted, tmp_path)
        resumed = FakeTraining(lambda prior, seed: len(prior))
        choice = choose_trained(made, resumed, tmp_path)
        assert choice.candidate == 1
        assert (len(resumed.begun), len(resumed.resumed)) == (0, 3)
        again = FakeTraining(lambda prior, seed: pytest.fail("it is known already"))
        assert choose_trained(made, again, tmp_path).runs == choice.runs
        assert again.begun == again.resumed == []

    def test_other_code_or_settings_train_anew(self, candidates, tmp_path):
        choose_trained(candidates(CONSTANT), FakeTraining(lambda *_: 0.0), tmp_path)
        changed = FakeTraining(lambda *_: 0.0)
        choose_trained(candidates(BRAKE), changed, tmp_path)
        assert len(changed.begun) == 3  # those without a prior are the same
        choose_trained(candidates(BRAKE), changed, tmp_path, budget_steps=60_000)
        assert len(changed.begun) == 3 + 6


def last_thirds(**returns: list[float]) -> list[Trained]:
    return [Trained(int(n[1:]), 0, "", [0, *range(90, 90 + len(last))], [0.0, *last]) for n, last in returns.items()]


def test_where_training_does_not_tell_episodes_do():
    """The second learned a little more than the first, and its evaluations are as far apart as both are from each other."""
    runs = last_thirds(n1=[5.0, 7.0, 9.0], n2=[6.0, 8.0, 10.0], n3=[1.0, 1.0, 1.1])
    assert go_on([1, 2, 3], 1, runs) == [1]
    assert go_on([2, 1, 3], 1, runs) == [2]
    assert go_on([3, 1, 2], 2, runs) == [1, 2]


def test_where_training_tells_it_decides():
    runs = last_thirds(n1=[5.0, 5.1, 5.2], n2=[6.0, 6.1, 6.2], n3=[7.0, 7.1, 7.2])
    assert go_on([1, 2, 3], 2, runs) == [3, 2]
    assert go_on([1, 2], 2, runs) == [1, 2]


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"select": "best"}, "select must be 'return' or 'probe', got 'best'"),
            ({"episodes": 1}, "episodes must be at least 2"),
            ({"jobs": 0}, "jobs must be at least 1, got 0"),
            (
                {"budget_steps": 9},
                "must be at least 36864, 6144 steps for each of the 6 runs of 1 candidate, in which cloning takes 6 episodes "
                "of 200 steps, got 9",
            ),
        ],
    )
    def test_wrong_ones_are_named(self, candidates, options, message):
        with pytest.raises(ValueError, match=message):
            choose_candidate("Pendulum-v1", candidates(CONSTANT), **options, log=quiet)

    @pytest.mark.parametrize("numbers", [[], [1, 1]])
    def test_candidates_that_cannot_be_told_apart(self, numbers):
        with pytest.raises(ValueError, match="candidates must be one or more, each with a number of its own, got"):
            choose_candidate("Pendulum-v1", [Candidate(number, "", Path()) for number in numbers], log=quiet)

    def test_without_the_script(self, candidates, monkeypatch):
        monkeypatch.setattr(training_module, "SCRIPT", Path("nowhere.py"))
        with pytest.raises(FileNotFoundError, match=r"no nowhere.py: run from a checkout of the repository, or use .*probe"):
            choose_candidate("Pendulum-v1", candidates(CONSTANT), log=quiet)


def test_training_runs_are_made_with_the_same_arguments(candidates, tmp_path):
    training = FakeTraining(lambda prior, seed: 0.0)
    choose_trained(candidates(CONSTANT), training, tmp_path, env_kwargs={"g": 1.62})
    assert training.begun
    for run in training.begun:
        assert run.flags[run.flags.index("--env-kwargs") + 1] == '{"g": 1.62}'


def test_real_training_runs_are_read_and_not_repeated(candidates, tmp_path, monkeypatch):
    # Starting a run takes seconds: those of the other seeds are copies of the first one's.
    def train_once(runs, **options):
        first = {run.arm: run for run in runs if run.seed == 0}
        failures = train([*first.values()], **options)
        for run in runs:
            if run.seed:
                shutil.copytree(first[run.arm].folder, run.folder)
        return failures

    quick = {**training_settings(4096, None), "total_timesteps": 2560, "num_steps": 256, "eval_every": 256, "eval_episodes": 1}
    monkeypatch.setattr(training_module, "training_settings", lambda steps, time_limit: quick)
    options = {"budget_steps": 50_000, "episodes": 2, "held_out_episodes": 2, "run_dir": tmp_path / "runs"}
    choice = choose_candidate("CartPole-v1", candidates(BALANCE), **options, execute=train_once, log=quiet)
    assert [(run.candidate, run.seed) for run in choice.runs] == [(arm, seed) for seed in range(3) for arm in (None, 1)]
    for run in choice.runs:
        assert run.steps == ([0, 2048, 2304, 2560] if run.candidate else list(range(0, 2561, 256)))
        assert len(run.returns) == len(run.steps)
        assert (run.verdict is not None and run.verdict.taught) == (run.candidate == 1)
    assert choice.candidate == 1

    def nothing_is_left(runs, **options):
        assert all(run.is_finished for run in runs)
        return {}

    again = choose_candidate("CartPole-v1", candidates(BALANCE), **options, execute=nothing_is_left, log=quiet)
    assert again.runs == choice.runs


@pytest.mark.slow
class TestRealChoices:
    """In so few steps PPO learns to balance nothing by itself."""

    def test_the_good_one_is_found_among_bad_ones(self, candidates, tmp_path):
        balance = load_prior("InvertedPendulum-v4", candidate=2).source
        made = candidates(CONSTANT, "def policy(obs):\n    return [-2.0]\n", balance)
        choice = choose_candidate("InvertedPendulum-v4", made, budget_steps=170_000, run_dir=tmp_path / "runs")
        assert choice.candidate == 3, choice.verdict
        assert all(outcomes_of(choice)[number].startswith("not tested: ") for number in (1, 2))

    def test_none_of_a_useless_set_is_chosen(self, candidates, tmp_path):
        choice = choose_candidate("Pendulum-v1", candidates(CONSTANT, BRAKE), budget_steps=40_000, run_dir=tmp_path / "runs")
        assert choice.candidate is None
        assert choice.verdict.startswith("No candidate could be used: all 2 not tested; candidate 1 not tested: ")
