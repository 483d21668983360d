"""What the commands that ask a model share."""

import json
import shlex
import signal
import subprocess
import sys

import pytest
from conftest import ROOT

from cleanrl_scripts import ppo_camel
from llmwrappers.__main__ import COMMANDS
from local_llm.command import stopped_by_sigterm, use_in_python, use_in_training, why_refused
from local_llm.models.reply import Reply, Sampling
from local_llm.replies.extract import extract_policy
from local_llm.replies.reply_text import ExtractionError

TWICE = """
import os, signal, time
from local_llm.command import stopped_by_sigterm

with stopped_by_sigterm():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        print("cleaned up")
"""


def test_a_second_sigterm_leaves_the_first_its_time_to_clean_up():
    ended = subprocess.run([sys.executable, "-c", TWICE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "cleaned up\n", "")


def test_a_command_that_has_ended_leaves_the_process_as_it_was():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), stopped_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("env_id", "env_kwargs", "answer"),
    [
        ("Pendulum-v1", {}, [0.0]),
        ("Pendulum-v1", {"g": 1.62}, [0.0]),
        ("llmwrappers:llmwrappers/HopperBeyond-v0", {}, [0.0] * 3),
        ("minigrid:MiniGrid-Empty-5x5-v0", {"agent_start_dir": 1}, 2),  # which observes a text, too
    ],
)
@pytest.mark.filterwarnings("ignore:text is left out")
def test_what_says_how_to_use_a_prior_runs(env_id, env_kwargs, answer, tmp_path):
    """The command is parsed by the script that it names, the Python is executed."""
    if env_id.startswith("minigrid"):
        pytest.importorskip("minigrid")
    prior = tmp_path / 'it\'s a "prior" é.py'
    prior.write_text(f"def policy(obs):\n    return {answer}\n", "utf-8")
    program, *words = shlex.split(use_in_training(env_id, env_kwargs, prior))
    command = " ".join(words[:2])
    assert (program, COMMANDS[command][0]) == ("llmwrappers", "cleanrl_scripts.ppo_camel")
    args = ppo_camel.parse_args(words[2:])
    assert (args.env_id, json.loads(args.env_kwargs), args.prior) == (env_id, env_kwargs, str(prior))

    names: dict = {}
    exec(use_in_python(env_id, env_kwargs, prior), names)
    env = names["env"]
    assert env.spec.id == env_id.rpartition(":")[2]
    assert {name: env.spec.kwargs[name] for name in env_kwargs} == env_kwargs
    _, info = env.reset(seed=0)
    assert info["prior_faults"] == 0
    assert info["mask_active"]
    env.close()


@pytest.mark.parametrize(
    ("text", "doing"),
    [("```python\ndef policy(obs):\n    return", "writing"), ("<think> and so on", "thinking"), ("", "thinking")],
)
def test_of_a_reply_at_its_limit_the_option_that_sets_it_is_named(text, doing):
    with pytest.raises(ExtractionError) as caught:
        extract_policy(text, "length")
    said = why_refused(caught.value, Reply(text, "length", 9, 700, 1.0), Sampling(max_new_tokens=700))
    assert said == f"the model was still {doing} when its tokens ended; raise --max-new-tokens (now 700)"
