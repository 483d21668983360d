"""Shared by the tests: the scripts as modules, and small environments whose answers are known."""

import csv
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small networks; set before torch is imported

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace

# A shell's background job ignores Ctrl-C, and so would the scripts that the tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)

# SWIG's deprecation warnings, made errors, crash the interpreter.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import Box2D  # noqa: F401

ROOT = Path(__file__).parents[1]
collect_ignore = ["learner_scripts"]  # each needs a library of its own (tests/learners.py)


class Echo(gym.Env):
    """Observes (step, last action...) and returns the action it received in info; n steps an episode."""

    def __init__(self, low=-1.0, high=1.0, shape=(2,), steps=5):
        self.action_space = Box(low, high, shape, np.float32)
        self.observation_space = Box(-np.inf, np.inf, (1 + int(np.prod(shape)),), np.float64)
        self.steps = steps

    def _observe(self, action):
        return np.concatenate([[float(self.t)], action.ravel()]).astype(np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(self.np_random.uniform(-1, 1, self.action_space.shape)), {}

    def step(self, action):
        self.t += 1
        info = {"received": np.array(action, dtype=np.float32)}
        return self._observe(action), float(np.sum(action)), False, self.t >= self.steps, info


@pytest.fixture(autouse=True)
def torch_as_it_begins():
    """Undoes what a script, run in this process, sets for the whole of it."""
    yield
    if torch := sys.modules.get("torch"):
        torch.use_deterministic_algorithms(False)
        torch.set_flush_denormal(False)


gym.register("llmwrappers-tests/Echo-v0", entry_point=Echo, disable_env_checker=True)


class OneStep(gym.Env):
    """One step an episode; the reward is -(action - optimum)^2, so the best return is known."""

    def __init__(self, optimum=0.8):
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = Box(-1.0, 1.0, (2,), np.float64)
        self.optimum = optimum

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(2), {}

    def step(self, action):
        return np.ones(2), -float((action[0] - self.optimum) ** 2), True, False, {}


gym.register("llmwrappers-tests/OneStep-v0", entry_point=OneStep, disable_env_checker=True)


class DictOneStep(OneStep):
    """The same with a Dict observation."""

    def __init__(self):
        super().__init__()
        self.observation_space = DictSpace({"position": Box(-1.0, 1.0, (1,)), "goal": Box(-1.0, 1.0, (2,))})

    def _observe(self):
        return {"position": np.full(1, 0.25, np.float32), "goal": np.ones(2, np.float32)}

    def reset(self, *, seed=None, options=None):
        return self._observe(), super().reset(seed=seed)[1]

    def step(self, action):
        return self._observe(), *super().step(action)[1:]


gym.register("llmwrappers-tests/DictOneStep-v0", entry_point=DictOneStep, disable_env_checker=True)


gym.register(
    "llmwrappers-tests/Rescaled-v0",
    entry_point=lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-5.0), np.float32(5.0)),
    disable_env_checker=True,
)


class Reach(gym.Env):
    """A point in the plane; the reward is minus its distance from the origin. 25 steps, of a tenth of the action each."""

    def __init__(self):
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = Box(-5.0, 5.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        angle = self.np_random.uniform(0, 2 * np.pi)
        self.position = np.array([np.cos(angle), np.sin(angle)], np.float32) * 0.6
        return self.position.copy(), {}

    def step(self, action):
        self.position = np.clip(self.position + 0.1 * np.asarray(action, np.float32), -5.0, 5.0)
        return self.position.copy(), -float(np.linalg.norm(self.position)), False, False, {}


gym.register("llmwrappers-tests/Reach-v0", entry_point=Reach, max_episode_steps=25, disable_env_checker=True)


class Line(gym.Env):
    """Walks a line at random for ten steps, whatever is done; pays nothing."""

    observation_space, action_space = Box(-100.0, 100.0, (3,)), Box(-2.0, 4.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, self.np_random.normal(size=3) * 30
        return self.x.astype(np.float32), {}

    def step(self, action):
        self.t, self.x = self.t + 1, self.x + self.np_random.normal(size=3)
        return self.x.astype(np.float32), 1.0, self.t == 10, False, {}


class OneBuffer(gym.ObservationWrapper):
    """Returns the same array every time, with the new observation in it."""

    def __init__(self, env):
        super().__init__(env)
        self.buffer = np.empty(env.observation_space.shape, np.float32)

    def observation(self, observation):
        self.buffer[...] = observation
        return self.buffer


def linear(observation):
    return np.array([1.0 + observation[0] / 100, 0.5 - observation[1] / 200])


class Endless(gym.Env):
    """Truncates its episodes itself after ``own_end`` steps, or never."""

    observation_space, action_space = Box(-1, 1, (1,), np.float32), Box(-1, 1, (1,), np.float32)

    def __init__(self, own_end=None):
        self.own_end = own_end

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, False, self.steps == self.own_end, {}


class Pictures(gym.Env):
    """Images that are not Pong's."""

    def __init__(self):
        self.action_space, self.observation_space = Discrete(2), Box(0, 255, (64, 64, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((64, 64, 3), np.uint8), {}

    def step(self, action):
        return np.zeros((64, 64, 3), np.uint8), 0.0, True, False, {}


gym.register("llmwrappers-tests/Pictures-v0", entry_point=Pictures, disable_env_checker=True)


class Pictures80(gym.Env):
    """Pays the number of the action in every second picture; five pictures an episode."""

    action_space, observation_space = Discrete(3), Box(0, 255, (2, 80, 80), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.integers(0, 256, (2, 80, 80), dtype=np.uint8), {}

    def step(self, action):
        self.t += 1
        picture = self.np_random.integers(0, 256, (2, 80, 80), dtype=np.uint8)
        return picture, float(action) * (self.t % 2), self.t == 5, False, {}


gym.register("llmwrappers-tests/Pictures80-v0", entry_point=Pictures80, disable_env_checker=True)


class Bounded(OneStep):
    """An action space with other bounds, among them such as no mask can serve."""

    def __init__(self, low, high):
        super().__init__()
        self.action_space = Box(low, high, (1,), np.float32)


for name, low, high in (("Unbounded", -np.inf, np.inf), ("Flat", 0.5, 0.5)):
    kwargs = {"low": low, "high": high}
    gym.register(f"llmwrappers-tests/{name}-v0", entry_point=Bounded, kwargs=kwargs, disable_env_checker=True)


class Turns(gym.Env):
    """Observes the step as a fraction of the episode, in [0, 1]; n actions from start on, n steps an episode."""

    def __init__(self, n=4, start=0, steps=5):
        self.action_space = Discrete(n, start=start)
        self.observation_space = Box(0.0, 1.0, (1,), np.float32)
        self.steps = steps

    def _observe(self):
        return np.array([self.t / self.steps], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        return self._observe(), float(action), False, self.t >= self.steps, {"received": int(action)}


gym.register("llmwrappers-tests/Turns-v0", entry_point=Turns, disable_env_checker=True)


class Crossing(gym.Env):
    """Ten steps along a line; only in the middle does the action matter: but for 1, the episode ends there."""

    def __init__(self):
        self.action_space = Discrete(4)
        self.observation_space = Box(0.0, 10.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        fell = self.t == 5 and action != 1
        self.t += 1
        return np.array([self.t], np.float32), 1.0, fell, self.t == 10, {}


gym.register("llmwrappers-tests/Crossing-v0", entry_point=Crossing, disable_env_checker=True)


def load_script(path: Path):
    """Imports a single-file script, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def td3_camel():
    return load_script(ROOT / "cleanrl_scripts" / "td3_camel.py")


@pytest.fixture(scope="session")
def ppo_ultra():
    return load_script(ROOT / "cleanrl_scripts" / "ppo_ultra.py")


def metrics_of(run_dir: Path) -> list[list[str]]:
    """All metrics of a run but those that are times."""
    with open(run_dir / "metrics.csv", newline="") as file:
        return [row for row in csv.reader(file) if row[1] != "charts/SPS"]


def kill_and_resume(script: Path, arguments: list[str], tmp_path: Path, kill_when=(None, None, None)) -> tuple[Path, Path]:
    """Kills a run (SIGKILL) and resumes it, again and again, and compares it with one that nobody disturbs, byte for byte.

    Args:
        kill_when: for each kill the name of a file in the run folder that must be there, or None: at a random moment
    Returns:
        the folder of the run that was not disturbed, and of the one that was
    """
    command, moments = [sys.executable, str(script)], random.Random(seed := time.time_ns())
    started = time.monotonic()
    subprocess.run([*command, *arguments, "--runs-dir", str(tmp_path / "whole")], check=True, capture_output=True)
    seconds = time.monotonic() - started
    (whole,), runs = (tmp_path / "whole").iterdir(), tmp_path / "killed"
    for name in kill_when:
        resume = ["--resume", str(next(runs.iterdir()))] if runs.exists() else [*arguments, "--runs-dir", str(runs)]
        process = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if name is None:
            time.sleep(seconds * moments.uniform(0.2, 0.8))
        while not list(runs.glob(f"*/{name or 'args.json'}")):
            assert process.poll() is None, f"the run ended without {name}"
            time.sleep(0.01)
        process.kill()
        process.wait()
    (killed,) = runs.iterdir()
    (killed / "checkpoint.pt.1.partial").write_bytes(b"half a checkpoint, of the moment of a kill")
    subprocess.run([*command, "--resume", str(killed)], check=True, capture_output=True)
    assert metrics_of(killed) == metrics_of(whole), f"killed at the moments of seed {seed}"
    for path in whole.glob("*.pt"):
        if path.name != "checkpoint.pt":  # which holds how long it took
            assert (killed / path.name).read_bytes() == path.read_bytes(), f"{path.name}, killed at the moments of seed {seed}"
    return whole, killed


class Careful:
    """An agent for Crossing that always takes action 1."""

    def act(self, observation, rng=None):
        return 1


def crossing_table(states):
    """Critical states of Crossing, at each of which the LLM says 1."""
    from llmwrappers import CriticalStates

    n = len(states)
    return CriticalStates(np.array(states)[:, None], np.ones(n, int), np.zeros(n), scale=[1.0], tolerance=0.1)


CHAT_TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""


def train_tiny_model(folder: Path, lessons: dict[str, list[str]], thinking: bool = False, special: Sequence[str] = ()) -> Path:
    """Saves a tiny model that answers each prompt with one of its replies, all equally likely; seconds for short texts."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|pad|>", "<|im_start|>", "<|im_end|>", *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([text for prompt, replies in lessons.items() for text in (prompt, *replies)], trainer)
    bpe.add_tokens(["<think>", "</think>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token="<|pad|>", eos_token="<|im_end|>", chat_template=CHAT_TEMPLATE
    )
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Qwen3ForCausalLM(config)
    rows = []
    for prompt, replies in lessons.items():
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, enable_thinking=thinking, return_dict=False
        )
        rows += [(asked, tokenizer(reply + tokenizer.eos_token)["input_ids"]) for reply in replies]
    length = max(len(asked) + len(answer) for asked, answer in rows)
    pad = [0] * length
    input_ids = torch.tensor([(asked + answer + pad)[:length] for asked, answer in rows])
    labels = torch.tensor([([-100] * len(asked) + answer + [-100] * length)[:length] for asked, answer in rows])
    # Which reply comes is all that remains unknown.
    bits = sum(len(replies) * float(np.log(len(replies))) for replies in lessons.values())
    least = bits / sum(len(answer) for _, answer in rows)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95))
    for _ in range(500):
        loss = model(input_ids=input_ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < least + 0.003:
            break
    else:
        raise AssertionError(f"the tiny model has not learned its replies: loss {loss.item():.4f}, at best {least:.4f}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model():
    """``tiny_model(folder, {prompt: [reply, ...]})``: a folder that transformers loads like any other model."""
    return train_tiny_model
