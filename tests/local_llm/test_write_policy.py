"""The whole way: from a prompt through a model or a recording to an output folder that is a prior."""

import hashlib
import json
import os
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from cleanrl_scripts.common.environments import flattened
from llmwrappers import LLMActionMask, load_prior, priors
from llmwrappers.errors import UserError
from local_llm import write_policy
from local_llm.command import claim_output
from local_llm.models.recorded import Recorded
from local_llm.models.reply import ModelError, Reply, Sampling
from local_llm.replies.extract import extract_policy
from local_llm.selection.candidate import Candidate
from local_llm.selection.training import TrainingFailed, require_trainable
from local_llm.write_policy import main

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")

SHIPPED = priors.SHIPPED / "Hopper-v4"
PROMPT = "Write policy(obs)."
# The choice by episodes alone, few of them.
PROBE = ["--select", "probe", "--episodes", "2", "--held-out-episodes", "2"]


def fenced(code: str) -> str:
    return f"Here it is.\n\n```python\n{code}```\n"


SWING = "def policy(obs):\n    return [2.0 * (obs[2] > 0) - 1.0]\n"
STILL = "def policy(obs):\n    return [0.0]\n"
HOSTILE = "import os\ndef policy(obs):\n    return [os.getpid()]\n"
SHAPE = "def policy(obs):\n    return obs\n"
# Fails at a speed that the probe's steps do not come by.
RARE = (
    "def policy(obs):\n    if abs(obs[2] - 1.1) < 0.02 and abs(obs[0] ** 2 + obs[1] ** 2 - 1) < 1e-4:\n"
    "        return [[0.0][1]]\n    return [0.0]\n"
)
BROKEN = "def policy(obs)\n    return obs\n"


class Scripted:
    """Answers with given replies, one after the other, cut off where they end in CUT, and remembers what it was asked."""

    def __init__(self, *texts: str | Exception):
        self.model, self.revision, self.texts, self.asked, self.indices = "scripted", None, list(texts), [], []

    def ask(self, messages, n, sampling, schema=None, first=0):
        for index in range(first, first + n):
            self.asked.append(messages)
            self.indices.append(index)
            text = self.texts.pop(0)
            if isinstance(text, Exception):
                raise text
            yield Reply(text, "length" if text.endswith("CUT") else "stop", 10, 20, 0.5)


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch):
    monkeypatch.setattr(write_policy, "EPISODES", 4)


@pytest.fixture
def output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.txt").write_text(PROMPT)
    return tmp_path / "policies" / "Pendulum-v1"


def run(monkeypatch, backend, *arguments):
    """Runs the command on Pendulum-v1 with a backend in the place of a model."""
    monkeypatch.setattr(write_policy, "make_backend", lambda args: backend)
    options = [*PROBE, "--prompt", "prompt.txt"]
    return main(["--env-id", "Pendulum-v1", *options, *arguments])


def read(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def test_the_shipped_replies_become_a_prior_with_no_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["--env-id", "Hopper-v4", "--replay", *PROBE]) == 0
    folder = tmp_path / "policies" / "Hopper-v4"
    for name in ("prompt.txt", *(f"reply-{n}.md" for n in range(1, 6)), *(f"policy-{n}.py" for n in range(1, 6))):
        assert (folder / name).read_bytes() == (SHIPPED / name).read_bytes()
    facts, shipped = read(folder / "provenance.json"), read(SHIPPED / "provenance.json")
    assert facts["candidates"] == shipped["candidates"]
    assert facts["default"]["candidate"] == shipped["default"]["candidate"] == 5
    choice = read(folder / "choice.json")
    assert choice["candidate"] == 5
    assert len(choice["measurements"]["4"]["returns"]) == 2
    (row,) = read(folder / "ledger.json")
    assert (row["replayed"], row["calls"]) == (True, 5)
    report = (folder / "report.html").read_text("utf-8")
    assert facts["default"]["measured"].split(":")[0] in report
    use_it = "use it: llmwrappers train ppo-camel --env-id Hopper-v4 --prior policies/Hopper-v4"
    assert use_it in capsys.readouterr().out
    assert f"--prior {folder / 'policy-5.py'}" in report
    assert load_prior(folder).source == load_prior("Hopper-v4").source
    assert main(["--env-id", "Hopper-v4", "--replay", str(folder), *PROBE]) == 1
    assert len(list(folder.glob("reply-*.md"))) == 5  # a replay does not empty the folder that it reads
    assert load_prior(str(folder), candidate=2).source == load_prior("Hopper-v4", candidate=2).source
    env = LLMActionMask(gym.make("Hopper-v4"), prior=str(folder))
    assert gym.make(env.spec).get_wrapper_attr("bounds")(env.reset(seed=0)[0])[0].shape == (3,)


def test_n_candidates_of_a_real_model_of_which_some_are_bad(tmp_path, monkeypatch, tiny_model, capsys):
    """Through transformers: a tiny model that has learned four replies to one prompt writes twelve candidates."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.txt").write_text(PROMPT)
    replies = [fenced(code) for code in (STILL, HOSTILE, SHAPE, BROKEN)]
    model = tiny_model(tmp_path / "model", {PROMPT: replies})
    arguments = ["--env-id", "Pendulum-v1", "--prompt", "prompt.txt", "--model", str(model), "--candidates", "12"]
    arguments += ["--max-new-tokens", "80", *PROBE, "--episodes", "8", "--recordings", "recordings"]
    assert main(arguments) == 0
    folder = tmp_path / "policies" / "Pendulum-v1"
    facts = read(folder / "provenance.json")
    texts = {(folder / f"reply-{n}.md").read_text() for n in range(1, 13)}
    assert texts <= set(replies)
    assert len(texts) > 1
    for number, candidate in facts["candidates"].items():
        usable = extract_or_none((folder / f"reply-{number}.md").read_text()) == STILL
        assert usable or "rejected" in candidate or list(folder.glob(f"reply-{number}-retry-*.md"))
    assert facts["model"] == str(model)
    chosen = facts["default"]["candidate"]
    assert chosen is None or (folder / f"policy-{chosen}.py").read_text() == STILL
    # Nothing is asked twice.
    capsys.readouterr()
    assert main(arguments) == 0
    assert all(row["replayed"] for row in read(folder / "ledger.json"))


def test_a_rerun_that_fails_leaves_the_report_and_the_choice_before_it(output, monkeypatch, capsys):
    def fail(*_, **__):
        raise TrainingFailed("no memory left")

    def again():
        return run(
            monkeypatch, Recorded(Scripted(fenced(STILL)), "recordings"), "--recordings", "recordings", "--candidates", "1"
        )

    assert again() == 0
    before = {name: (output / name).read_bytes() for name in ("report.html", "choice.json")}
    with monkeypatch.context() as patch:
        patch.setattr(write_policy, "choose_candidate", fail)
        assert again() == 1
    assert "report.html and choice.json there are those of the run before." in capsys.readouterr().err
    assert {name: (output / name).read_bytes() for name in before} == before
    assert again() == 0


def extract_or_none(reply: str) -> str | None:
    try:
        return extract_policy(reply)
    except ValueError:
        return None


class TestCandidates:
    def test_an_error_goes_back_and_the_retry_counts(self, output, monkeypatch):
        backend = Scripted(fenced(HOSTILE), fenced(BROKEN), fenced(STILL), fenced(SHAPE), fenced(SWING))
        assert run(monkeypatch, backend, "--candidates", "2") == 0
        assert len(backend.asked) == 5
        first_retry = [message["content"] for message in backend.asked[2]]
        assert first_retry[:2] == [PROMPT, fenced(HOSTILE)]
        assert "line 1: import of os, which a policy cannot use" in first_retry[2]

    def test_each_reply_that_is_refused_is_kept_with_its_code_and_why(self, output, monkeypatch):
        writer = write_policy.Writer(
            Scripted(fenced(HOSTILE), "No code.", fenced(STILL), fenced(BROKEN), "None.", fenced(SHAPE)),
            Sampling(), gym.make("Pendulum-v1"), output.parents[1],
        )  # fmt: skip
        first, second = (writer.write([{"role": "user", "content": PROMPT}], 1)[0] for _ in range(2))
        assert [(refused.reply, refused.source) for refused in first.refused] == [(fenced(HOSTILE), HOSTILE), ("No code.", "")]
        assert "import of os" in first.refused[0].why
        assert first.refused[1].why == "the reply contains no Python code."
        assert (first.source, first.rejected) == (STILL, "")
        assert [refused.source for refused in second.refused] == ["", "", SHAPE]
        assert second.refused[2].why == second.rejected

    def test_at_most_two_retries_and_every_reply_is_kept(self, output, monkeypatch, capsys):
        replies = [fenced(HOSTILE), "No code.", fenced(SHAPE)]
        assert run(monkeypatch, Scripted(*replies), "--candidates", "1") == 1
        assert "no candidate could be used" in capsys.readouterr().err
        assert (output / "report.html").exists()
        assert [(output / name).read_text() for name in ("reply-1.md", "reply-1-retry-1.md", "reply-1-retry-2.md")] == replies
        facts = read(output / "provenance.json")
        assert "the prior returned shape (3,), the action space has (1,)" in facts["candidates"]["1"]["rejected"]
        assert facts["default"]["candidate"] is None
        assert "No candidate could be used" in facts["default"]["measured"]
        assert not (output / "policy-1.py").exists()
        with pytest.raises(ValueError, match="no candidate of .* is its default: name one with candidate"):
            load_prior(output)

    def test_what_is_wrong_is_told_to_the_user_not_to_the_model(self, output, monkeypatch, capsys):
        assert run(monkeypatch, Scripted("No code.", "None.", "No."), "--candidates", "1") == 1
        said = capsys.readouterr()
        assert "candidate 1: the reply contains no Python code.\n" in said.out
        assert "Your" not in said.out + said.err

    def test_the_same_question_asks_for_another_reply(self, output, monkeypatch):
        backend = Scripted("a CUT", "b CUT", "c CUT", fenced(STILL), fenced(SWING))
        assert run(monkeypatch, backend, "--candidates", "2") == 0
        # What was cut off is not sent back, so that the retries of both candidates ask the same.
        assert backend.asked[2] == backend.asked[3] == backend.asked[4] != backend.asked[0]
        assert backend.indices == [0, 1, 0, 1, 2]

    def test_a_retry_that_does_not_come_costs_one_candidate(self, output, monkeypatch):
        backend = Scripted(fenced(STILL), fenced(BROKEN), ModelError("the server is down"))
        assert run(monkeypatch, backend, "--candidates", "2") == 0
        facts = read(output / "provenance.json")
        assert "no retry: the server is down" in facts["candidates"]["2"]["rejected"]
        assert "policy_sha256" in facts["candidates"]["1"]

    def test_a_model_that_stops_answering_is_not_called_too_small(self, output, monkeypatch, capsys):
        backend = Scripted(fenced(BROKEN), ModelError("the server is down"))
        assert run(monkeypatch, backend, "--candidates", "1") == 1
        said = capsys.readouterr().err
        assert "stopped answering; the same command continues from there" in said
        assert "larger" not in said

    def test_what_came_before_a_failure_is_kept(self, output, monkeypatch, capsys):
        backend = Scripted(fenced(STILL), ModelError("out of memory: take a smaller model"))
        assert run(monkeypatch, backend, "--candidates", "3") == 1
        assert (output / "reply-1.md").read_text() == fenced(STILL)
        errors = capsys.readouterr().err
        assert "out of memory: take a smaller model" in errors
        assert "The replies that came are in" in errors

    def test_a_replay_says_whence_and_claims_nothing_of_how_the_replies_were_made(self, tmp_path):
        arguments = "--env-id Hopper-v4 --replay --select probe --episodes 2 --held-out-episodes 2 --output"
        assert main([*arguments.split(), str(tmp_path / "out")]) == 0
        facts = read(tmp_path / "out" / "provenance.json")
        assert facts["replayed_from"] == "llmwrappers/priors/shipped/Hopper-v4"
        assert (facts["sampling"], facts["date"], facts["model"][:14]) == (None, None, "a frontier LLM")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["replayed"])

    def test_the_output_carries_hashes_ledger_and_command(self, output, monkeypatch):
        assert run(monkeypatch, Scripted(fenced(STILL)), "--candidates", "1", "--seed", "3") == 0
        facts = read(output / "provenance.json")
        assert facts["prompt_sha256"] == hashlib.sha256(PROMPT.encode()).hexdigest()
        assert facts["candidates"]["1"]["policy_sha256"] == hashlib.sha256(STILL.encode()).hexdigest()
        assert facts["command"].startswith("python -m local_llm.write_policy --env-id Pendulum-v1 --select probe ")
        assert facts["sampling"]["seed"] == 3
        (row,) = read(output / "ledger.json")
        assert (row["calls"], row["prompt_tokens"], row["reply_tokens"], row["seconds"]) == (1, 10, 20, 0.5)


class TestRefine:
    def test_the_report_of_the_best_goes_back_and_the_best_is_kept(self, output, monkeypatch, capsys):
        backend = Scripted(fenced(SWING), fenced(STILL), fenced(SWING), fenced(SWING), fenced(SWING))
        assert run(monkeypatch, backend, "--candidates", "1", "--refine", "5") == 0
        first_round = backend.asked[1]
        assert [message["role"] for message in first_round] == ["user", "assistant", "user"]
        assert "Your policy for Pendulum-v1 was run alone" in first_round[2]["content"]
        # Round 1 brought something better, 2 and 3 did not: the fourth is not asked for.
        assert len(backend.asked) == 4
        assert backend.asked[2][-2]["content"] == backend.asked[3][-2]["content"] == fenced(STILL)
        # The same policy is told the same, and a new reply is asked for.
        assert backend.asked[2] == backend.asked[3]
        assert backend.indices == [0, 0, 0, 1]
        out = capsys.readouterr().out
        assert "round 1 of 5 brought a better policy" in out
        assert "round 3 of 5 brought nothing better" in out

    def test_what_answers_a_report_is_not_replayed_as_an_answer_to_the_prompt(self, output, monkeypatch, capsys):
        backend = Scripted(fenced(STILL), fenced(SWING))
        assert run(monkeypatch, backend, "--candidates", "1", "--refine", "1") == 0
        monkeypatch.undo()
        monkeypatch.chdir(output.parents[1])
        options = ["--env-id", "Pendulum-v1", "--prompt", "prompt.txt", *PROBE, "--output", "x"]
        assert main([*options, "--replay", str(output), "--candidates", "2"]) == 1
        assert "1 replies to this prompt are recorded" in capsys.readouterr().err
        assert main([*options, "--replay", str(output), "--candidates", "1"]) == 0

    def test_a_model_that_fails_in_a_round_ends_it_only(self, output, monkeypatch, capsys):
        backend = Scripted(fenced(STILL), ModelError("gone"))
        assert run(monkeypatch, backend, "--candidates", "1", "--refine", "2") == 0
        assert "refine: stopped before round 1: gone" in capsys.readouterr().out


def test_a_policy_of_a_dict_observation_is_vetted_measured_and_chosen(tmp_path, monkeypatch):
    """From the rendered prompt on; the optimum is 0.8, and position is 0.25."""
    monkeypatch.chdir(tmp_path)
    backend = Scripted(fenced("def policy(obs):\n    return obs['position'] + 0.55\n"), *3 * [fenced(SHAPE)])
    monkeypatch.setattr(write_policy, "make_backend", lambda args: backend)
    options = ["--candidates", "2", *PROBE, "--episodes", "10", "--output", "prior"]
    assert main(["--env-id", "llmwrappers-tests/DictOneStep-v0", *options]) == 0
    assert "`obs['position']`" in backend.asked[0][0]["content"]
    assert read(tmp_path / "prior" / "choice.json")["candidate"] == 1
    spaces = {"observation": {"goal": {"shape": [2]}, "position": {"shape": [1]}}}
    spaces["action"] = {"shape": [1], "low": -1.0, "high": 1.0}
    assert read(tmp_path / "prior" / "provenance.json")["spaces"] == {"llmwrappers-tests/DictOneStep-v0": spaces}
    for prior in ("prior", "trusted:prior/policy-1.py"):
        env = LLMActionMask(gym.make("llmwrappers-tests/DictOneStep-v0"), prior, radius=0.1)
        info = env.reset(seed=0)[1]
        assert (info["prior_faults"], float(info["action_low"][0])) == (0, pytest.approx(0.7))
        env.close()


def test_what_an_environment_is_made_with_goes_everywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    backend = Scripted(*[fenced(f"def policy(obs):\n    return [{x}]\n") for x in (0.8, -0.5, -0.5)])
    monkeypatch.setattr(write_policy, "make_backend", lambda args: backend)
    options = ["--env-kwargs", '{"optimum": -0.5}', "--candidates", "2", "--refine", "1", "--select", "probe"]
    assert main(["--env-id", "llmwrappers-tests/OneStep-v0", *options, "--output", "prior"]) == 0
    assert "This environment was made with optimum=-0.5; where" in backend.asked[0][0]["content"]
    facts, choice = read(tmp_path / "prior" / "provenance.json"), read(tmp_path / "prior" / "choice.json")
    assert facts["env_kwargs"] == choice["env_kwargs"] == {"optimum": -0.5}
    assert (choice["candidate"], choice["measurements"]["2"]["returns"]) == (2, [0.0] * 64)
    assert choice["held_out"]["returns"] == [0.0] * 256
    assert facts["episodes"] == {"to write": 12, "to choose": 64, "held out": 256}
    assert "return: 0 +- 0 " in backend.asked[-1][-1]["content"]
    assert """--env-id llmwrappers-tests/OneStep-v0 --env-kwargs '{"optimum": -0.5}' --prior prior""" in capsys.readouterr().out


def photograph():
    space = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    env = gym.make("llmwrappers-tests/OneStep-v0")
    return gym.wrappers.TransformObservation(env, lambda observation: np.zeros(space.shape, np.uint8), space)


def two_rewards():
    return gym.wrappers.TransformReward(gym.make("llmwrappers-tests/OneStep-v0"), lambda reward: np.array([reward, 1.0]))


def wordy():
    env, space = gym.make("llmwrappers-tests/OneStep-v0"), gym.spaces.Text(5)
    return gym.wrappers.TransformObservation(env, lambda observation: "push", space)


gym.register("llmwrappers-tests/Wordy-v0", entry_point=wordy, disable_env_checker=True)
gym.register("llmwrappers-tests/Photograph-v0", entry_point=photograph, disable_env_checker=True)
gym.register("llmwrappers-tests/TwoRewards-v0", entry_point=two_rewards, disable_env_checker=True)


def test_images_that_no_script_trains_on_are_chosen_among_by_episodes(tmp_path, monkeypatch, capsys):
    """What local_llm refuses to train on is what the script refuses, which it may not import."""
    monkeypatch.chdir(tmp_path)
    env = gym.make("llmwrappers-tests/Photograph-v0")
    with pytest.raises(UserError, match="images must be uint8 of shape"):
        flattened(env, "Photograph", images=True)
    with pytest.raises(ValueError, match=r"images must be uint8 of shape .* by episodes alone"):
        require_trainable(1, 10**6, env)
    require_trainable(1, 10**7, gym.make("llmwrappers/PongGrid-v0"))
    backend = Scripted(fenced("def policy(obs):\n    return [obs[0, 0, 0] + 0.5]\n"))
    monkeypatch.setattr(write_policy, "make_backend", lambda args: backend)
    options = ["--candidates", "1", "--select", "probe", "--output", "prior"]
    assert main(["--env-id", "llmwrappers-tests/Photograph-v0", *options]) == 0
    assert "by episodes alone" in capsys.readouterr().out


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--env-id", "Hoper-v4", "--replay"], "no environment is called Hoper"),
            (["--env-id", "no_such_package:X-v0", "--replay"], "no_such_package"),
            (["--env-id", "CartPole-v1", "--replay"], "no replies are shipped for CartPole-v1"),
            (["--env-id", "Pendulum-v1", "--prompt", "missing.txt", "--replay"], "missing.txt"),
            (["--env-id", "Pendulum-v1", "--replay", "missing"], "--replay: no folder missing"),
            (["--env-id", "Pendulum-v1", "--replay", str(SHIPPED), "--output", str(SHIPPED)], "is where the recorded"),
            (
                ["--env-id", "llmwrappers-tests/Wordy-v0", "--prompt", "missing.txt", "--replay"],
                "observations that are arrays or a Dict of arrays, got Text",
            ),
            (["--env-id", "Pendulum-v1", "--replay", str(SHIPPED)], "prompt"),
            (["--env-id", "Pendulum-v1", "--model", "no/such/model"], "no/such/model"),
            (["--env-id", "Pendulum-v1", "--server", "ftp://x"], "http"),
            (
                ["--env-id", "Pendulum-v1", "--server", "http://x/v1", "--revision", "abc"],
                "--revision abc: of no use beside --server; leave one of them out",
            ),
            (["--env-id", "Hopper-v4", "--replay", "--model", "m"], "--model m: of no use beside --replay"),
        ],
    )
    def test_says_why_and_ends_with_1(self, tmp_path, monkeypatch, capsys, arguments, message):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert main([*arguments, "--select", "probe", "--recordings", "recordings"]) == 1
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--env-id", "CartPole-v1", "--budget-steps", "9"], "budget_steps must be at least 106496"),
            (["--env-id", "Pendulum-v1", "--candidates", "1", "--budget-steps", "9"], "budget_steps must be at least 36864"),
            (
                ["--env-id", "llmwrappers-tests/Photograph-v0"],
                "images must be uint8 of shape (channels, 80, 80), got",
            ),
            (["--env-id", "llmwrappers-tests/TwoRewards-v0", "--select", "probe"], "rewards must be numbers, got array"),
        ],
    )
    def test_what_cannot_be_trained_is_refused_before_a_model_is_asked(self, tmp_path, monkeypatch, capsys, arguments, message):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(write_policy, "make_backend", lambda args: pytest.fail("asked"))
        assert main(arguments) == 1
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--env-kwargs", "obs_type=ram"],
                '--env-kwargs must be a JSON object, such as \'{"obs_type": "ram"}\', got \'obs_type',
            ),
            (["--env-kwargs", "[1]"], "must be a JSON object"),
            (["--candidates", "0"], "--candidates must be at least 1, got 0"),
            (["--held-out-episodes", "0"], "--held-out-episodes must be at least 1, got 0"),
            (["--episodes", "1"], "--episodes must be at least 2, got 1"),
            (["--temperature", "-1"], "temperature must be finite and at least 0, got -1.0"),
            (["--select", "video"], "invalid choice: 'video'"),
        ],
    )
    def test_wrong_arguments_end_with_2(self, capsys, arguments, message):
        with pytest.raises(SystemExit) as caught:
            main(["--env-id", "Pendulum-v1", *arguments])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_an_output_that_cannot_be_written(self, output, monkeypatch, capsys):
        output.parent.mkdir()
        output.parent.chmod(0o500)
        backend = Scripted(fenced(STILL))
        assert run(monkeypatch, backend) == 1
        assert "cannot be written" in capsys.readouterr().err
        assert backend.asked == []

    def test_an_output_that_is_a_file_or_of_another_prompt(self, output, monkeypatch, capsys):
        output.parent.mkdir()
        output.write_text("")
        backend = Scripted(fenced(STILL))
        assert run(monkeypatch, backend) == 1
        assert "cannot be written" in capsys.readouterr().err
        output.unlink()
        output.mkdir()
        (output / "prompt.txt").write_text("Another prompt.")
        (output / "reply-1.md").write_text("A reply to it.")
        assert run(monkeypatch, backend) == 1
        assert "holds the policies of another prompt" in capsys.readouterr().err
        (output / "prompt.txt").unlink()
        (output / "reply-1.md").unlink()
        (output / "thesis.tex").write_text("")
        assert run(monkeypatch, backend) == 1
        assert "is not empty, and has no prompt" in capsys.readouterr().err
        assert backend.asked == []

    def test_replies_that_are_not_recorded_are_not_overwritten(self, output, monkeypatch, capsys):
        """Whether this run records its replies or not: what counts is whether those that are there can be read back."""
        options = ["--candidates", "1", "--recordings", "recordings"]
        assert run(monkeypatch, Scripted(fenced(STILL)), *options, "--recording", "off") == 0
        for more, why in ((["--recording", "off"], "nothing is recorded"), ([], "recordings has no recording of it")):
            backend = Scripted(fenced(SWING))
            assert run(monkeypatch, backend, *options, *more) == 1
            errors = capsys.readouterr().err
            assert f"holds reply-1.md, and {why}; name another folder" in errors
            assert "The replies that came" not in errors
            assert backend.asked == []
        assert (output / "reply-1.md").read_text() == fenced(STILL)

    def test_what_is_no_prompt_is_named(self, output, monkeypatch, capsys):
        prompt = output.parent / "prompt.txt"
        for data, message in ((None, "must be a text file"), (b"\xe9t\xe9", "in UTF-8: 'utf-8' codec"), (b" \n", "is empty")):
            if data is not None:
                prompt.parent.mkdir(exist_ok=True)
                prompt.write_bytes(data)
            assert run(monkeypatch, Scripted(fenced(STILL)), "--prompt", str(prompt)) == 1
            error = capsys.readouterr().err
            assert f"--prompt {prompt}" in error
            assert message in error
        assert not output.exists()

    @pytest.mark.parametrize("is_interrupted", [False, True])
    def test_a_policy_of_the_users_own_is_not_overwritten(self, output, monkeypatch, capsys, is_interrupted):
        from local_llm.models.recorded import Recorded

        options = ["--candidates", "1", "--recordings", "recordings"]
        assert run(monkeypatch, Recorded(Scripted(fenced(STILL)), "recordings"), *options) == 0
        if is_interrupted:
            (output / "provenance.json").unlink()  # it is written after the last reply
        written = (output / "policy-1.py").read_text()
        for name in ("policy-1.py", "policy-mine.py"):
            (output / "policy-1.py").write_text(written)
            (output / name).write_text(f"{written}# my own\n")
            before = (output / name).read_bytes()
            assert run(monkeypatch, Recorded(Scripted(fenced(STILL)), "recordings"), *options) == 1
            assert f"holds {name}, which this command did not write, or which was changed since" in capsys.readouterr().err
            assert (output / name).read_bytes() == before
            (output / name).unlink()
        assert run(monkeypatch, Recorded(Scripted(fenced(STILL)), "recordings"), *options) == 0

    def test_a_prompt_with_a_carriage_return_is_the_same_the_next_time(self, tmp_path):
        """As an environment's docstring of a serial line has it."""
        for _ in range(2):
            claim_output(tmp_path / "policies", "It sends 'AT\r\n'.", None)
            (tmp_path / "policies" / "ledger.json").write_text("{}")
        with pytest.raises(UserError, match="holds the policies of another prompt"):
            claim_output(tmp_path / "policies", "It sends 'AT\n'.", None)

    def test_a_finished_output_stays_until_another_reply_is_there(self, output, monkeypatch, capsys):
        from local_llm.models.recorded import Recorded

        def ask_for(number, *texts):
            backend = Recorded(Scripted(*texts), "recordings")
            options = ["--candidates", str(number), "--recordings", "recordings", "--temperature", str(number)]
            return run(monkeypatch, backend, *options)

        assert ask_for(2, fenced(STILL), fenced(SWING)) == 0
        before = {path: path.read_bytes() for path in output.iterdir()}
        capsys.readouterr()
        assert ask_for(1, ModelError("the server is down")) == 1
        assert "The replies that came" not in capsys.readouterr().err
        assert {path: path.read_bytes() for path in output.iterdir()} == before
        assert ask_for(1, fenced(BROKEN), ModelError("the server is down")) == 1
        assert not (output / "reply-2.md").exists()
        assert not list(output.glob("policy-*.py"))
        assert ask_for(3, fenced(STILL), ModelError("the server is down")) == 1
        assert "are in policies/Pendulum-v1; the same command continues from there." in capsys.readouterr().err
        kept = {"choice.json", "report.html"}  # until there are new ones
        assert {path.name for path in output.iterdir()} == {"prompt.txt", "reply-1.md", "ledger.json", *kept}


def test_a_truncated_reply_is_asked_for_again_without_itself():
    asked = [{"role": "user", "content": PROMPT}]
    reply = Reply("<think> and so on", "length", 1, 1, 0.1)
    with pytest.raises(ValueError) as caught:
        extract_policy(reply.text, reply.finish_reason)
    (message,) = write_policy.retry_messages(asked, reply, caught.value)
    assert message["content"].startswith(f"{PROMPT}\n\n")
    assert "<think>" not in message["content"]


def test_a_fault_in_the_episodes_goes_back_to_the_model(tmp_path):
    env, backend = gym.make("Pendulum-v1"), Scripted(fenced(RARE), fenced(STILL))
    writer = write_policy.Writer(backend, Sampling(), env, tmp_path)
    (candidate,) = writer.write([{"role": "user", "content": PROMPT}], 1)
    assert not candidate.rejected
    assert candidate.source == STILL
    *_, refusal = backend.asked[-1]
    assert "steps of 4 episodes that it plays: " in refusal["content"]
    assert "IndexError" in refusal["content"]


def test_the_writer_needs_nothing_but_a_backend(tmp_path):
    env = gym.make("Pendulum-v1")
    writer = write_policy.Writer(Scripted(fenced(STILL)), Sampling(), env, tmp_path)
    (candidate,) = writer.write([{"role": "user", "content": PROMPT}], 1)
    assert isinstance(candidate, Candidate)
    assert candidate.policy is not None
    assert candidate.policy(env.reset(seed=0)[0]).tolist() == [0.0]
