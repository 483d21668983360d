"""Getting a policy out of what language models write: every way in which a reply goes wrong, one line each."""

import ast
import json
import re
import time
import warnings

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from llmwrappers import ContainedPolicy
from llmwrappers.containment.program import Program
from local_llm.replies.extract import NoPolicy, extract_critical, extract_policy
from local_llm.replies.reply_text import (
    MOST_CHARACTERS,
    REASONING_MARKS,
    SEND,
    BrokenCode,
    ExtractionError,
    NoCode,
    StillThinking,
    Truncated,
)

IMPORT = "import numpy as np\n"
FUNCTION = (
    "def policy(obs):\n    lean = -2.0 * obs[1]\n    if lean > 1.0:\n        lean = 1.0\n    return np.array([lean, 0.0])\n"
)
POLICY = f"{IMPORT}\n\n{FUNCTION}"
DRAFT = "def policy(obs):\n    return obs[:1]\n"


def fenced(code, tag="python", fence="```"):
    return f"{fence}{tag}\n{code}{fence}\n"


def indented(text, by="    "):
    return "".join(by + line if line.strip() else line for line in text.splitlines(keepends=True))


def prefixed(prefix, text=POLICY):
    return "".join(f"{prefix}{line}\n".replace(" \n", "\n") for line in text.splitlines())


def numbered(form):
    return "".join(f"{form.format(number)}{line}\n" for number, line in enumerate(POLICY.splitlines(), 1))


SESSION = ">>> import numpy as np\n>>> def policy(obs):\n...     return -np.abs(obs)\n...\n>>> policy(1)\n-1\n"
DIFF = "--- a/policy.py\n+++ b/policy.py\n@@ -1,4 +1,8 @@\n" + prefixed("+").replace("+import", " import") + "-    return 0\n"


# ------------------------------------------------------------------------------------------------------------ well formed

REPLIES = sorted((ROOT / "llmwrappers" / "priors" / "shipped").glob("*/reply-*.md"))


@pytest.mark.parametrize("path", REPLIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_shipped_policy_is_its_reply_s_block_byte_for_byte(path):
    shipped = path.with_name(path.name.replace("reply", "policy")).with_suffix(".py")
    assert extract_policy(path.read_bytes().decode("utf-8")).encode("utf-8") == shipped.read_bytes()


FORGOTTEN = {
    "np": ("def policy(obs):\n    return np.clip(-obs[:1], -1, 1)\n", ["np"]),
    "math, in a helper": (
        "def lean(angle):\n    return math.sin(angle)\n\n\ndef policy(obs):\n    return [lean(float(obs[0]))]\n",
        ["math"],
    ),
    "both": ("GAIN = np.array([1.0])\n\n\ndef policy(obs):\n    return GAIN * math.pi\n", ["np", "math"]),
    "the one that it did not import": ("import math\n\n\ndef policy(obs):\n    return np.array([math.pi])\n", ["np"]),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_forgotten_imports_are_added_and_the_code_says_so(name):
    source, forgotten = FORGOTTEN[name]
    line = {"np": "import numpy as np", "math": "import math"}
    added = "".join(f"{line[module]}  # added: the reply uses {module} and does not import it\n" for module in forgotten)
    assert extract_policy(fenced(source)) == added + source
    critical = source.replace("policy", "critical")
    assert extract_critical(fenced(critical)) == added + critical


def test_a_forgotten_import_stands_after_those_from_the_future():
    future = '"""Leans."""\nfrom __future__ import annotations\n'
    added = "import numpy as np  # added: the reply uses np and does not import it\n"
    assert extract_policy(fenced(future + FORGOTTEN["np"][0])) == future + added + FORGOTTEN["np"][0]


@pytest.mark.parametrize(
    "source",
    [
        "def policy(obs):\n    math = obs[:1]\n    return math\n",
        "def policy(np):\n    return np[:1]\n",
        "from math import sin\n\n\ndef policy(obs):\n    return [sin(obs[0])]\n",
        "import numpy as np, math\n\n\ndef policy(obs):\n    return np.array([math.pi])\n",
    ],
)
def test_no_import_is_added_that_is_there_or_not_needed(source):
    assert extract_policy(fenced(source)) == source


def test_all_shipped_replies_are_read():
    assert len(REPLIES) >= 15


UNTOUCHED = {
    "plain": POLICY,
    "spare constants, helpers and imports": f"import math\n{IMPORT}GAIN = 3.0\n\ndef square(x):\n    return x * x\n\n{DRAFT}",
    "a docstring, comments and blank lines": f'"""Leans."""\n\n# numpy\n{IMPORT}\n\n\n\n{FUNCTION}\n# the end\n\n',
    "trailing spaces and tabs": "def policy(obs):   \n\treturn obs[:1]\t\n",
    "odd characters where Python allows them": '"""It\u2019s \u2212\u201c2\u201d\u00a0\u200b"""\n# \u2018quoted\u2019\n'
    + DRAFT,
    "a backslash that Python may refuse one day": 'def policy(obs):\n    "\\phi is the pitch."\n    return obs[:1]\n',
    "gains set one by one": f"{IMPORT}W = np.zeros((1, 2))\nW[0, 1] = 2.0\n\ndef policy(obs):\n    return W @ obs[:2]\n",
    "a lambda": f"{IMPORT}policy = lambda obs: np.tanh(obs[:3])\n",
    "gains set by a function": f"{IMPORT}W = np.zeros((1, 2))\n\ndef fill():\n    W[0, 1] = 2.0\n\nfill()\n\n\n"
    "def policy(obs):\n    return W @ obs[:2]\n",
    "gains set by NumPy": f"{IMPORT}W = np.zeros((2, 2))\nnp.fill_diagonal(W, 2)\n\ndef policy(obs):\n    return W @ obs[:2]\n",
    "gains set through an argument": 'G = {"p": 1.0}\n\ndef tune(gains):\n    gains["p"] = 2.0\n\ntune(G)\n\n'
    'def policy(obs):\n    return G["p"] * obs[:1]\n',
    "gains set in a loop": "W = [0.0, 0.0]\n\ndef put(w, i):\n    w[i] = 2.0\n\nfor i in range(2):\n    put(W, i)\n\n"
    "def policy(obs):\n    return W[0] * obs[:1]\n",
    "an attribute set by name": 'class G:\n    p = 1.0\n\nsetattr(G, "p", 2.0)\n\ndef policy(obs):\n    return G.p * obs[:1]\n',
    "a sorted list": "import bisect\nW = [2.0]\nbisect.insort(W, 1.0)\n\ndef policy(obs):\n    return W[0] * obs[:1]\n",
    "a seed": f"{IMPORT}np.random.seed(0)\n\ndef policy(obs):\n    return obs[:1] + np.random.randn()\n",
    "an optional second argument": "def policy(obs, t=0, *, gain=1.0):\n    return gain * obs[:1]\n",
    "annotations": "def policy(observation: list[float], /) -> list[float]:\n    return observation[:1]\n",
    "several statements on a line": "import math; import numpy as np\n" + FUNCTION,
    "a fence in a docstring": 'def policy(obs):\n    """Leans.\n\n```python\npolicy(obs)\n```\n    """\n    return obs[:1]\n',
    "one between other quotes": "def policy(obs):\n    '''\n```python\npolicy(obs)\n```\n    '''\n    return obs[:1]\n",
    "the default of an argument has its name": "gain = 2.0\n\ndef policy(obs, gain=gain):\n    return gain * obs[:1]\n",
    "names in another alphabet": "def policy(obs):\n    φ = obs[1]\n    return [-φ]\n",
}


@pytest.mark.parametrize("code", UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_well_formed_block_is_returned_byte_for_byte(code):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert extract_policy(f"First I reason.\n\n{fenced(code)}\nThat was it.") == code


# ------------------------------------------------------------------------------------------------- replies that hold POLICY

HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>"
AS_IT_IS = {
    # line ends and characters
    "Windows line ends": fenced(POLICY).replace("\n", "\r\n"),
    "old Mac line ends": fenced(POLICY).replace("\n", "\r"),
    "a byte order mark": "\ufeff" + fenced(POLICY),
    "a byte order mark in the block": fenced("\ufeff" + POLICY),
    "zero-width characters": "\u200b" + fenced(POLICY.replace("obs", "obs\u200b")),
    "no-break spaces": fenced(POLICY.replace(" ", "\u00a0")),
    "narrow no-break and ideographic spaces": fenced(POLICY.replace("    ", "\u202f\u3000\u2009\u00a0")),
    "minus signs": fenced(POLICY.replace("-", "\u2212")),
    "line separators": fenced(POLICY.replace("\n", "\u2028")),
    "null bytes": fenced(POLICY.replace("obs", "o\0bs")),
    # special tokens, reasoning and invented turns
    "ChatML": f"<|im_start|>assistant\n{fenced(POLICY)}<|im_end|>",
    "a token after the last fence": fenced(POLICY).rstrip() + "<|im_end|>\n",
    "a token instead of the last fence": f"```python\n{POLICY}<|endoftext|>",
    "Llama tokens": f"<|start_header_id|>assistant<|end_header_id|>\n\n{fenced(POLICY)}<|eot_id|>",
    "sentencepiece tokens": f"<s>{fenced(POLICY)}</s>",
    "Gemma tokens": f"{fenced(POLICY)}<end_of_turn>",
    "DeepSeek tokens": f"{fenced(POLICY).rstrip()}<\uff5cend\u2581of\u2581sentence\uff5c>",
    "a token at the end of bare code": POLICY.rstrip() + "</s>",
    "an invented next turn": f"{fenced(POLICY)}<|im_end|>\n<|im_start|>user\nAnother?\n{fenced(DRAFT)}",
    "reasoning": f"<think>\nI could write\n{fenced(DRAFT)}</think>\n{fenced(POLICY)}",
    "reasoning with a broken fence": f"<think>\n```python\n{DRAFT}</think>\n{fenced(POLICY)}",
    "reasoning that the template opened": f"Perhaps\n{fenced(DRAFT)}No.\n</think>\n{fenced(POLICY)}",
    "several thoughts": f"<think>\na\n</think>\n<think>\n{fenced(DRAFT)}</think>\n{fenced(POLICY)}",
    "a thought after the code": f"<think>a</think>\n{fenced(POLICY)}<think>\n{fenced(DRAFT)}</think>",
    "a thought about thinking": f"<think>\nMy <think> and\n<think>\n{fenced(DRAFT)}</think>\n{fenced(POLICY)}",
    "reasoning in capitals": f"<THINKING>{fenced(DRAFT)}</THINKING>{POLICY}",
    "Mistral's reasoning": f"[THINK]{fenced(DRAFT)}[/THINK]{fenced(POLICY)}",
    "channels": HARMONY.format(fenced(DRAFT), fenced(POLICY)),
    "channels without their tokens": f"analysisWe need\n{fenced(DRAFT)}assistantfinal{fenced(POLICY)}",
    "a reply that begins with the word": f"analysis\nIt leans.\n{fenced(POLICY)}",
    "a mention of the tag": f"No `<think>` here.\n{fenced(POLICY)}",
    # fences
    "no tag": fenced(POLICY, tag=""),
    "py": fenced(POLICY, tag="py"),
    "Python3": fenced(POLICY, tag="Python3"),
    "any tag": fenced(POLICY, tag="text"),
    "a tag with a title": fenced(POLICY, tag='python title="policy.py"'),
    "a tag in braces": fenced(POLICY, tag="{.python .numberLines}"),
    "a space before the tag": fenced(POLICY, tag=" python "),
    "tildes": fenced(POLICY, fence="~~~"),
    "a longer fence": fenced(POLICY, fence="`````"),
    "a longer closing fence": f"```python\n{POLICY}`````",
    "in a list": "1. The code:\n" + indented(fenced(POLICY), "   "),
    "beginning a list item": "- " + indented(fenced(POLICY), "  ").lstrip(),
    "the fence indented, the code not": f"    ```python\n{POLICY}    ```",
    "the code indented, the fence not": fenced(indented(POLICY)),
    "indented by tabs": indented(fenced(POLICY), "\t"),
    "a quotation": prefixed("> ", fenced(POLICY)),
    "the last fence missing": f"```python\n{POLICY}",
    "the last fence missing, prose below": f"```python\n{POLICY}\nThis leans forward: x = 2 m.\n",
    "a fence at the end of a line": f"Here is the code: ```python\n{POLICY}```",
    "the last fence on the last line of code": f"```python\n{POLICY.rstrip()}```\nIt leans.",
    "prose beside the last fence": f"```python\n{POLICY}``` and this was the code.",
    "code beside the first fence": f"```{POLICY}```",
    "all in a Markdown block": fenced(f"# Answer\n\n{fenced(POLICY)}", tag="markdown"),
    "mixed tabs and spaces": fenced(POLICY.replace("    lean = -2", "\tlean = -2")),
    # several blocks
    "a shell block before": fenced("pip install numpy\n", "bash") + fenced(POLICY),
    "an output block after": fenced(POLICY) + fenced("array([0.3, 0.0])\n", ""),
    "JSON after": fenced(POLICY) + fenced('{"gain": -2.0}\n', "json"),
    "a draft before": fenced(DRAFT) + fenced(POLICY),
    "a broken draft before": fenced("def policy(obs:\n") + fenced(POLICY),
    "a draft with a broken docstring before": fenced('def policy(obs):\n    """Leans.\n') + fenced(POLICY),
    "a future import": fenced("from __future__ import annotations\n" + POLICY + "\nprint(policy(np.zeros(3)))\n"),
    "a broken block after": fenced(POLICY) + fenced("def test(:\n"),
    "an example after": fenced(POLICY) + fenced("from policy import policy\nprint(policy([0.0, 1.0]))\n"),
    "an unclosed example after": fenced(POLICY) + "```python\naction = policy(obs)\n",
    "a block that was never closed before": f"```python\nGAIN = 1\n{fenced(POLICY)}",
    "the imports in another block": fenced(IMPORT) + fenced(FUNCTION),
    "the imports in a later block": fenced(FUNCTION) + fenced(IMPORT),
    "a draft outside the fences": f"{DRAFT}\nBetter:\n{fenced(POLICY)}",
    # examples of use in the block
    "a main guard": fenced(POLICY + '\n\nif __name__ == "__main__":\n    print(policy(np.zeros(3)))\n'),
    "a call": fenced(POLICY + "\nprint(policy(np.zeros(3)))\n"),
    "an assertion": fenced(POLICY + "\n# Test\nobs = np.zeros(3)\nassert policy(obs).shape == (2,)\n"),
    "a test function": fenced(
        POLICY + "\n\ndef test_policy():\n    assert policy(np.zeros(3)) is not None\n\n\ntest_policy()\n"
    ),
    "an environment": fenced(
        "import gymnasium as gym\n" + POLICY + '\nenv = gym.make("Hopper-v5")\nobs, _ = env.reset()\nfor t in range(9):\n'
        "    obs, reward, *_ = env.step(policy(obs))\nenv.close()\n"
    ),
    "an example on the line of the code": fenced(POLICY + "x = np.zeros(3); print(policy(x))\n"),
    "an example on the line of an import": fenced(POLICY.replace("as np", "as np; print(np.pi)")),
    "a seed": fenced(POLICY + "\nnp.random.seed(0)\n"),
    "a wrapped policy": fenced(POLICY + "\npolicy = np.vectorize(policy)\n"),
    "an example before": fenced("import gymnasium\n\nenv = gymnasium.make('Hopper-v5')\n" + POLICY),
    # sessions, diffs, listings
    "a diff": fenced(DIFF, "diff"),
    "a diff of a new file": fenced(prefixed("+"), "diff"),
    "numbers and bars": fenced(numbered("{:3d} | ")),
    "numbers and colons": fenced(numbered("{}: ")),
    "numbers and tabs": fenced(numbered("{:6d}\t")),
    "numbers and spaces": fenced(numbered("{:2d}  ")),
    "numbers and arrows": fenced(numbered("{:5d}→")),
    # JSON
    "JSON": json.dumps({"code": POLICY}),
    "JSON under another key": json.dumps({"reasoning": "I define it as asked.", "policy": POLICY}, indent=2),
    "fenced JSON": fenced(json.dumps({"code": POLICY}) + "\n", "json"),
    "JSON in prose": f"My answer is {json.dumps({'code': POLICY})}. It leans.",
    "a fence in JSON": json.dumps({"answer": f"Here:\n{fenced(POLICY)}"}),
    "JSON with real line ends": '{"code": "' + POLICY + '"}',
    "JSON with Windows line ends": json.dumps({"code": POLICY.replace("\n", "\r\n")}),
    "JSON with line ends escaped twice": json.dumps({"code": POLICY.replace("\n", "\\n")}),
    "JSON with a list of lines": json.dumps({"code": POLICY.splitlines()}),
    "a tool call": f"<tool_call>\n{json.dumps({'name': 'run', 'arguments': {'code': POLICY}})}\n</tool_call>",
    # no fence
    "bare": POLICY,
    "bare below prose": f"Here is the code (it leans):\n\n{POLICY}",
    "bare above prose": f"{POLICY}\nThis policy leans, because a lean of x = 1 is good.\n- It does not fall.\n",
    "bare and indented": f"Here is the code:\n\n{indented(POLICY)}\nIt leans.",
    "bare below headings": f"# Reasoning\n\nx is the position, y: the height.\n\n# Code\n{POLICY}\n# Notes\nIt's done.",
    "bare above a fenced command": f"{POLICY}\nRun it:\n{fenced('python policy.py', 'bash')}",
    "bare in tags": f"<code>\n{POLICY}</code>",
    # other names
    "another name": fenced(POLICY.replace("policy", "controller")),
    "another name, used in an example": fenced(POLICY.replace("policy", "act") + "\nprint(act(np.zeros(3)))\n"),
    "an alias": fenced(POLICY.replace("policy", "hopper") + "\npolicy = hopper\n"),
}


# How families of models mark their reasoning, each as the tokens come.
MARKS = {
    "think": ("<think>\n", "</think>\n\n"),
    "thinking": ("<thinking>", "</thinking>"),
    "thought": ("<thought>", "</thought>"),
    "reasoning": ("<reasoning>\n", "\n</reasoning>\n"),
    "Seed": ("<seed:think>", "</seed:think>"),
    "Magistral": ("[THINK]", "[/THINK]"),
    "Kimi-VL": ("◁think▷", "◁/think▷"),
    "Kimi K3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    "Cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "Gemma": ("<|channel>thought\n", "<channel|>"),
    "gpt-oss": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "gpt-oss, its preamble": ("<|channel|>commentary<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "gpt-oss without its tokens": ("analysis", "assistantfinal"),
}


class TestMarks:
    @pytest.fixture(params=MARKS.values(), ids=list(MARKS))
    def marks(self, request):
        return request.param

    def test_what_follows_the_reasoning_is_the_answer(self, marks):
        opening, closing = marks
        assert extract_policy(f"{opening}We may write\n{fenced(DRAFT)}Or not.{closing}{fenced(POLICY)}") == POLICY

    def test_a_template_may_have_opened_it(self, marks):
        assert extract_policy(f"We may write\n{fenced(DRAFT)}Or not.{marks[1]}{fenced(POLICY)}") == POLICY

    @pytest.mark.parametrize("finish_reason", ["length", "stop"])
    def test_what_is_never_closed_is_no_answer(self, marks, finish_reason):
        with pytest.raises(StillThinking, match="ended inside its reasoning, before any code"):
            extract_policy(f"{marks[0]}We may write\n{fenced(DRAFT)}", finish_reason)


def test_every_mark_is_tried():
    replies = [f"{opening}We{closing}" for opening, closing in MARKS.values()]
    marks = [mark for marks in REASONING_MARKS for mark in marks]
    assert [mark for mark in marks if not any(re.search(mark, reply) for reply in replies)] == []


@pytest.mark.parametrize("reply", AS_IT_IS.values(), ids=AS_IT_IS)
def test_the_policy_is_found(reply):
    assert ast.dump(ast.parse(extract_policy(reply))) == ast.dump(ast.parse(POLICY))


@pytest.mark.parametrize("reply", [fenced(POLICY) + "And now I exp", json.dumps({"code": POLICY}) + "\n\n\n"])
def test_code_that_is_complete_survives_the_limit_on_length(reply):
    assert extract_policy(reply, "length") == POLICY


# ------------------------------------------------------------------------------------------------------- other policies

CLASS = (
    "import numpy as np\n\nGAIN = 2.0\n\n\nclass Policy:\n    limit = 1.0\n\n    def __init__(self):\n"
    "        self.last = 0.0\n\n    def act(self, obs):\n        self.last = GAIN * obs[0]\n"
    "        return [np.minimum(self.last, Policy.limit)]\n"
)


@pytest.mark.parametrize("example", ["", "\n\npolicy = Policy().act\n", "\n\nactor = Policy()\nprint(actor.act([1.0]))\n"])
def test_a_class_with_a_method_act_is_a_policy(example):
    """The prompt allows one, in place of the function."""
    source = extract_policy(fenced(CLASS + example))
    assert ast.dump(ast.parse(source)) == ast.dump(ast.parse(CLASS))
    policy = ContainedPolicy(source)
    assert [policy(np.array([x])).tolist() for x in (0.25, 3.0)] == [[0.5], [1.0]]


def test_a_class_is_taken_with_the_helpers_of_other_blocks():
    first, second = CLASS.split("\n\n\nclass")
    source = extract_policy(f"{fenced(first)}Then the class.\n{fenced(f'class{second}')}")
    assert ContainedPolicy(source)(np.array([0.25])).tolist() == [0.5]


def test_a_function_that_uses_its_own_class_is_the_policy():
    code = CLASS + "\n\nactor = Policy()\n\n\ndef policy(obs):\n    return actor.act(obs)\n"
    assert ast.dump(ast.parse(extract_policy(fenced(code)))) == ast.dump(ast.parse(code))


def test_a_class_without_a_method_that_acts_is_none():
    with pytest.raises(NoPolicy, match="no class Policy with a method act, but: class Policy"):
        extract_policy(fenced("class Policy:\n    def reset(self):\n        self.t = 0\n"))


def test_a_class_that_is_cut_off_is_truncated():
    with pytest.raises(Truncated):
        extract_policy(f"```python\n{CLASS}", "length")


HELPER = "GAIN = 2.0\n\n\ndef push(x):\n    return GAIN * x\n"
USER = "def policy(obs):\n    return [push(obs[1])]\n"
MENDED = {
    "a session": (fenced(SESSION), "import numpy as np\ndef policy(obs):\n    return -np.abs(obs)\n"),
    "a bare session": (SESSION, "import numpy as np\ndef policy(obs):\n    return -np.abs(obs)\n"),
    "typographic quotes": (
        fenced("def policy(obs):\n    return {\u201ca\u201d: [0.0]}[\u2018a\u2019]\n"),
        "def policy(obs):\n    return {\"a\": [0.0]}['a']\n",
    ),
    "helpers in an earlier block": (fenced(HELPER) + fenced(USER), f"{HELPER}\n\n{USER}"),
    "helpers in a later block": (fenced(USER) + fenced(HELPER), f"{HELPER}\n\n{USER}"),
    "helpers beside an older policy": (fenced(f"{HELPER}\n\n{DRAFT}") + fenced(USER), f"{HELPER}\n\n{USER}"),
    "the nearest helper": (fenced("def push(x):\n    return 0\n") + fenced(HELPER) + fenced(USER), f"{HELPER}\n\n{USER}"),
    "no builtin from another block": (
        fenced("def sum(x):\n    return 0\n") + fenced("def policy(obs):\n    return [sum(obs)]\n"),
        "def policy(obs):\n    return [sum(obs)]\n",
    ),
    "a table that a loop fills": (
        fenced(
            "W = [0.0] * 3\nfor i in range(3):\n    W[i] = 2.0 * i\n\ndef policy(obs):\n    return W\n\nprint(policy([]))\n"
        ),
        "W = [0.0] * 3\nfor i in range(3):\n    W[i] = 2.0 * i\n\ndef policy(obs):\n    return W\n",
    ),
    "a comment goes with its statement": (
        fenced(f"# The gain\nGAIN = 1.0\n\n# The policy\n{DRAFT.replace('obs[', 'GAIN * obs[')}\n# A test\nprint(GAIN)\n"),
        f"# The gain\nGAIN = 1.0\n\n# The policy\n{DRAFT.replace('obs[', 'GAIN * obs[')}",
    ),
    "a recursive function under another name": (
        fenced("def act(obs):\n    return act(obs[1:]) if len(obs) > 3 else obs  # ok\n"),
        "def policy(obs):\n    return policy(obs[1:]) if len(obs) > 3 else obs  # ok\n",
    ),
    "another name behind letters of two bytes": (
        fenced("def act(obs):\n    'ü'; return ('üü', act, obs[:1])[2]\n"),
        "def policy(obs):\n    'ü'; return ('üü', policy, obs[:1])[2]\n",
    ),
    "of several functions the one of an observation": (
        fenced("def limit(x):\n    return min(x, 1.0)\n\ndef act(state):\n    return [limit(state[0])]\n"),
        "def limit(x):\n    return min(x, 1.0)\n\ndef policy(state):\n    return [limit(state[0])]\n",
    ),
    "a lone surrogate": (fenced(f"# \ud83d\n{DRAFT}"), f"# ?\n{DRAFT}"),
    "a lone surrogate in JSON": ('{"code": "# \\ud83d\\n' + DRAFT.replace("\n", "\\n") + '"}', f"# ?\n{DRAFT}"),
    "examples in both blocks": (
        fenced(f"{HELPER}\nprint(push(1))\n") + fenced(f"{USER}\nprint(policy([0, 1]))\n"),
        f"{HELPER}\n\n{USER}",
    ),
    "an asynchronous draft": (fenced(f"async {DRAFT}") + fenced(DRAFT), DRAFT),
}


@pytest.mark.parametrize(("reply", "source"), MENDED.values(), ids=MENDED)
def test_the_reply_is_mended(reply, source):
    assert extract_policy(reply) == source


# --------------------------------------------------------------------------------------------------------------- errors

ERRORS = {
    "nothing": ("", NoCode, "no Python code"),
    "white space": (" \n\t\n", NoCode, "no Python code"),
    "prose": ("I would define a policy that leans: x = 2.", NoCode, "no Python code"),
    "prose that Python accepts": ("Yes", NoCode, "no Python code"),
    "a table": ("| a | b |\n|---|---|\n| 1 | 2 |\n", NoCode, "no Python code"),
    "an empty block": (fenced(""), NoCode, "no Python code"),
    "a command": (fenced("pip install numpy\n", "bash"), NoCode, "no Python code"),
    "a refusal in JSON": ('{"error": "I cannot do that."}', NoCode, "no Python code"),
    "code in reasoning that the template opened": (f"{fenced(POLICY)}</think>\nI cannot.", NoCode, "no Python code"),
    "code before a thought within a thought": (
        f"<think>{fenced(POLICY)}<think>\n</think>\nI cannot.",
        NoCode,
        "no Python code",
    ),
    "a thought without end": (f"<think>\nI could write\n{fenced(POLICY)}", StillThinking, "inside its reasoning"),
    "a second thought without end": (f"<think>a</think>{fenced(POLICY)}\n<think>Or", StillThinking, "inside its reasoning"),
    "a channel without end": (f"<|channel|>analysis<|message|>{fenced(POLICY)}", StillThinking, "inside its reasoning"),
    "a syntax error": (
        fenced("x = 1\ndef policy(obs):\n    return (1\n"),
        BrokenCode,
        "Line 3: '(' was never closed:\n    return (1\n",
    ),
    "an indentation error": (fenced("def policy(obs):\nreturn obs\n"), BrokenCode, "Line 2: expected an indented block"),
    "a return outside": (
        fenced("def policy(obs):\n    a = 1\nreturn a\n"),
        BrokenCode,
        "Line 3: 'return' outside function:\n    return a\n",
    ),
    "a break outside": (fenced("def policy(obs):\n    break\n"), BrokenCode, "'break' outside loop"),
    "an argument twice": (fenced("def policy(obs, obs):\n    return obs\n"), BrokenCode, "duplicate "),
    "another language": (fenced("function policy(obs) {\n  import x;\n}\n", "js"), BrokenCode, "Line 1: invalid syntax"),
    "a docstring without end": (
        '```python\ndef policy(obs):\n    """Leans.\n    return obs\n```\n',
        BrokenCode,
        "unterminated",
    ),
    "bare code that is broken": (
        "Here:\n\ndef policy(obs):\n    return obs[1\n\nIt leans.\n",
        BrokenCode,
        "Line 4: '[' was never closed",
    ),
    "bare code torn apart": (
        "Here it is:\ndef policy(obs):\n    a = 1\nb = 2\n    return a\n",
        BrokenCode,
        "Line 5: unexpected indent",
    ),
    "bare code, the return torn off": (
        "Here it is:\ndef policy(obs):\n    a = 1\nreturn a\n",
        BrokenCode,
        "Line 4: 'return' outside",
    ),
    "broken code and a helper": (
        fenced("def f(x):\n    return x\n") + fenced("def policy(obs:\n"),
        BrokenCode,
        "'(' was never closed",
    ),
    "only an example": (fenced("print(policy(obs))\n"), NoPolicy, "but: nothing"),
    "two arguments": (fenced("def policy(obs, t):\n    return obs\n"), NoPolicy, "def policy(obs, t):"),
    "a method's signature": (fenced("def policy(self, obs):\n    return obs\n"), NoPolicy, "def policy(self, obs):"),
    "no argument": (fenced("def policy():\n    return [0]\n"), NoPolicy, "def policy():"),
    "any arguments": (fenced("def policy(*args):\n    return args\n"), NoPolicy, "def policy(*args):"),
    "a keyword that must be given": (fenced("def policy(obs, *, t):\n    return t\n"), NoPolicy, "def policy(obs, *, t):"),
    "asynchronous": (fenced("async def policy(obs):\n    return obs\n"), NoPolicy, "async def policy(obs):"),
    "a class": (
        fenced("class Agent:\n    def policy(self, obs):\n        return obs\n"),
        NoPolicy,
        "class Agent:; def policy(self, obs):",
    ),
    "a class of that name": (fenced("class policy:\n    pass\n"), NoPolicy, "class policy:"),
    "a lambda of two": (fenced("policy = lambda obs, t: obs\n"), NoPolicy, "policy = lambda obs, t: obs"),
    "a wrong policy and a right helper": (
        fenced("def f(x):\n    return x\n\ndef policy(a, b):\n    return f(a)\n"),
        NoPolicy,
        "def f(x):",
    ),
    "two functions under other names": (
        fenced("def f(x):\n    return x\n\ndef g(x):\n    return x\n"),
        NoPolicy,
        "def f(x):; def g(x):",
    ),
    "redefined wrongly": (fenced(f"{DRAFT}\npolicy = 3\n"), NoPolicy, "policy = 3"),
}


@pytest.mark.parametrize(("reply", "kind", "words"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_the_message_that_the_model_needs(reply, kind, words):
    with pytest.raises(ExtractionError) as raised:
        extract_policy(reply)
    assert type(raised.value) is kind
    assert words in str(raised.value)
    assert str(raised.value).startswith("Your ")
    assert str(raised.value).endswith(SEND)


CUT_OFF = {
    "in the code": f"```python\n{POLICY[:-9]}",
    "after a line of code": f"```python\n{POLICY.rpartition('    return')[0]}",
    "in code that already is a policy": f"```python\n{POLICY}",
    "in bare code": POLICY,
    "in prose": "First, the signs of the torques are",
    "in JSON": json.dumps({"code": POLICY})[:-9],
    "in a block after a helper": f"{fenced(HELPER)}```python\n{IMPORT}",
    "in the revision of a draft": f"{fenced(DRAFT)}Better:\n```python\n{POLICY}",
    "in the reasoning": f"<think>{POLICY}",
}


@pytest.mark.parametrize("reply", CUT_OFF.values(), ids=CUT_OFF)
def test_a_reply_that_was_cut_off_is_told_so(reply):
    with pytest.raises(Truncated, match=r"(?s)Your reply .* briefe?r?.*Reply with the complete code"):
        extract_policy(reply, finish_reason="length")


def test_an_unclosed_example_that_was_cut_off_does_no_harm():
    assert extract_policy(f"{fenced(POLICY)}Try it:\n```python\nfor step in ra", "length") == POLICY


# ------------------------------------------------------------------------------------------------------ critical functions

CRITICAL = "import numpy as np\n\n\ndef critical(obs):\n    return obs[0] < 1, np.zeros(3), -0.5\n"


@pytest.mark.parametrize(
    "reply",
    [
        fenced(CRITICAL),
        fenced(CRITICAL) + fenced("print(critical([0]))\n"),
        fenced(CRITICAL.replace("0.5", "0.4")) + fenced(CRITICAL),
        f"<think>```python\n{CRITICAL.replace('0.5', '0.1')}```</think>\n{fenced(CRITICAL, 'py')}",
        CRITICAL,
        fenced(CRITICAL).replace("\n", "\r\n"),
        "```python\n" + CRITICAL,
    ],
)
def test_code_is_taken_from_the_last_block_that_defines_critical(reply):
    assert extract_critical(reply) == CRITICAL


@pytest.mark.parametrize(
    ("reply", "finish_reason", "error"),
    [
        ("No code.", "stop", NoCode),
        (fenced("def policy(obs):\n    return 1\n"), "stop", NoCode),
        (fenced("def critical(obs)\n    return 1\n"), "stop", BrokenCode),
        ("```python\n" + CRITICAL, "length", Truncated),
        ("```python\n" + CRITICAL[:40], "length", Truncated),
        ("<think> and so on", "length", Truncated),
    ],
)
def test_without_code_the_message_asks_for_critical(reply, finish_reason, error):
    with pytest.raises(error, match=r"one ```python block that defines critical\(obs\)") as caught:
        extract_critical(reply, finish_reason)
    assert "policy" not in str(caught.value)


# ----------------------------------------------------------------------------------------------------- hostile replies

HOSTILE = {
    "10 MB of backticks": "`" * 10_000_000,
    "backticks": "`" * (MOST_CHARACTERS - 1),
    "100,000 fences": "```\n(\n" * 100_000,
    "100,000 empty fences": "```\n" * 100_000,
    "100,000 fences with a tag": "```py\n" * 100_000,
    "too long a reply": fenced(POLICY) + "x" * MOST_CHARACTERS,
    "too much code": fenced(POLICY + "x = 1\n" * 100_000),
    "deep brackets": fenced("def policy(obs):\n    return " + "(" * 50_000 + ")" * 50_000 + "\n"),
    "deep minus": fenced("def policy(obs):\n    return " + "-" * 100_000 + "1\n"),
    "deep attributes": fenced("def policy(obs):\n    return obs" + ".T" * 100_000 + "\n"),
    "deep sums": fenced("def policy(obs):\n    return 1" + "+1" * 100_000 + "\n"),
    "deep blocks": fenced("def policy(obs):\n" + "".join(" " * i + "if obs:\n" for i in range(1, 900)) + " " * 900 + "pass\n"),
    "deep JSON": '{"a":' * 100_000,
    "deep lists": '{"code":' + "[" * 100_000,
    "many objects": '{"' * 100_000,
    "null bytes": "\0" * 100_000,
    "lone surrogates": "\ud800" * 100_000,
    "a long number": fenced("def policy(obs):\n    return " + "9" * 100_000 + "\n"),
    "thoughts": "<think></think>" * 50_000,
    "open thoughts": "<think>\n" * 100_000,
    "closed thoughts": "</think>" * 100_000,
    "spaces": " " * 500_000 + "x",
    "spaces and a fence": " " * 400_000 + "```" + " " * 400_000 + "x`",
    "blank lines": "\n" * 300_000 + "x",
    "quotes": fenced('"' * 100_001 + "\n"),
    "escaped quotes": fenced('\\"' * 100_000 + "\n"),
    "half special tokens": "<|" * 200_000,
    "prose of one-letter lines": "a\n" * 50_000 + "def f(",
    "broken assignments": "x = (\n" * 100_000,
    "broken functions": "def f(:\n" * 30_000,
    "decorators": "@a\n" * 20_000 + "lambda",
    "prompts": fenced(">>> (\n" * 50_000),
    "class": "class " * 100_000 + "def f(",
    "tabs": fenced("\t" * 300_000 + "def policy(obs\n"),
}


@pytest.mark.parametrize("reply", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_reply_ends_soon_and_with_an_extraction_error(reply):
    start = time.perf_counter()
    with pytest.raises(ExtractionError, match=r"Reply with the complete code in exactly one ```python block"):
        extract_policy(reply)
    assert time.perf_counter() - start < 5.0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("too long a reply", r"has 1,000,\d\d\d characters; at most 1,000,000"),
        ("100,000 fences", "has 50,001 blocks; at most 200"),
        ("too much code", r"has 600,\d\d\d characters; at most 100,000"),
    ],
)
def test_a_limit_is_named(name, words):
    with pytest.raises(ExtractionError, match=words):
        extract_policy(HOSTILE[name])


def test_a_large_policy_is_read_in_linear_time():
    code = (
        "\n".join(f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(1500)) + "\ndef policy(obs):\n    return f0(obs)\n"
    )
    start = time.perf_counter()
    assert extract_policy(fenced(code + "\nprint(policy(1))\n")) == code
    assert time.perf_counter() - start < 5.0


quick = settings(deadline=None, max_examples=200, derandomize=True, database=None)
PIECES = [
    *(
        "```",
        "```python\n",
        "\n```\n",
        "~~~\n",
        "<think>",
        "</think>",
        "<|im_end|>",
        "</s>",
        "\r\n",
        "\n",
        "    ",
        "\t",
        "\u00a0",
        "\0",
    ),
    *(
        "\ud800",
        "\ufeff",
        "“",
        ">>> ",
        "... ",
        "+",
        "1 | ",
        "{",
        '{"code": "',
        '"}',
        '"""',
        "'",
        "(",
        ")",
        ";",
        "\\",
        "#",
        ":",
        "=",
    ),
    *(
        "import numpy as np\n",
        "def policy(obs):\n",
        "def f(x):\n",
        "    return f(obs)\n",
        "    return x\n",
        "class A:\n",
        "async ",
    ),
    *(
        "policy = ",
        "policy(",
        "lambda obs: ",
        "f",
        "x = 1\n",
        "print(policy(1))\n",
        "for i in x:\n",
        "@f\n",
        "Some prose.\n",
        "é",
        "ﬁ",
    ),
    *(
        "global f\n",
        "from __future__ import annotations\n",
        "yield ",
        "del policy\n",
        "\\\n",
        "x: int = f(2)\n",
        "f = policy\n",
        "\x0c",
    ),
]


@quick
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)), st.sampled_from(["stop", "length"]))
def test_any_text_gives_a_policy_or_an_extraction_error(reply, finish_reason):
    try:
        source, message = extract_policy(reply, finish_reason), SEND
    except ExtractionError as error:
        source, message = "", str(error)
    assert message.endswith(SEND)
    if source:
        assert source.endswith("\n")
        assert source.encode("utf-8").decode("utf-8") == source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "policy.py", "exec", dont_inherit=True)
            body = ast.parse(source).body
        names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        names |= {
            target.id
            for node in body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        assert "policy" in names


@quick
@given(
    st.text(alphabet=st.characters(exclude_characters="\r\0`~", exclude_categories=["Cs"])).filter(
        lambda text: "<" not in text and "[" not in text
    )
)
def test_a_comment_of_any_text_is_kept_byte_for_byte(text):
    comments = "".join(f"# {line}\n" for line in text.replace("\x0c", "").split("\n"))
    assert extract_policy(fenced(comments + DRAFT)) == comments + DRAFT


@pytest.mark.parametrize(
    "bound",
    [
        "class PID:\n    def __call__(self, obs):\n        return [-obs[0]]\n\n\npolicy = PID()\n",
        "def make(k):\n    def act(obs):\n        return [k * obs[0]]\n    return act\n\n\npolicy = make(-1.0)\n",
        "import functools\n\n\ndef scaled(k, obs):\n    return [k * obs[0]]\n\n\npolicy = functools.partial(scaled, -1.0)\n",
        "class PD:\n    def act(self, obs):\n        return [-obs[0]]\n\n\ncontroller = PD()\npolicy = controller.act\n",
    ],
    ids=["an object", "a closure", "a partial", "a method"],
)
def test_a_policy_that_a_call_makes(bound):
    source = extract_policy(f"```python\n{bound}```")
    assert Program(source)([2.0]) == [-2.0]


SWEEP = "V = [0.0, 0.0]\n\n\ndef sweep(v):\n    v[0] -= 1.0\n    return v[0]\n\n\n{}\n\n\ndef policy(obs):\n    return [V[0]]\n"
LEGS = "class Leg:\n    x = 0.0\n\n\nlegs = [Leg(), Leg()]\n{}\n\n\ndef policy(obs):\n    return [sum(leg.x for leg in legs)]\n"


@pytest.mark.parametrize(
    "code",
    [
        SWEEP.format("for _ in range(9):\n    if sweep(V) < -1.5:\n        break"),
        SWEEP.format("while sweep(V) > -1.5:\n    pass"),
        SWEEP.format("delta = sweep(V)\ndelta = sweep(V)"),
        SWEEP.format("deltas = [sweep(V) for _ in range(2)]"),
        LEGS.format("for i, leg in enumerate(legs):\n    leg.x = -2.0 * i"),
        LEGS.format('for name, leg in {"a": legs[0], "b": legs[1]}.items():\n    setattr(leg, "x", -1.0)'),
        "import numpy as np\n\nW = np.arange(3.0)\nrng = np.random.default_rng(2)\nrng.shuffle(W)\n\n\n"
        "def policy(obs):\n    return [-2.0 if list(W) != [0, 1, 2] else 0.0]\n",
        "def doubled(f):\n    return lambda obs: [2.0 * x for x in f(obs)]\n\n\ndef policy(obs):\n    return [-1.0]\n\n\n"
        "policy = doubled(policy)\n",
        "class PD:\n    k = 0.0\n\n    def tune(self):\n        self.k = -2.0\n        return self\n\n    def act(self, obs):\n"
        "        return [self.k]\n\n\npd = PD()\nsame = pd.tune()\npolicy = pd.act\n",
        "class Policy:\n    T = [0.0, 0.0]\n\n    def act(self, obs):\n        return [sum(self.T)]\n\n\nfor i in range(2):\n"
        "    Policy.T[i] = -1.0\n",
    ],
)
@pytest.mark.parametrize(
    "example",
    [
        "",
        "print(policy([0.0]))\n",
        'import gymnasium as gym\n\nenv = gym.make("CartPole-v1")\nobs, _ = env.reset()\nenv.step(1)\nenv.close()\n',
    ],
)
def test_what_changes_the_policys_data_at_the_top_level_is_kept(code, example):
    assert Program(extract_policy(f"```python\n{code}{example}```"))([0.0]) == [-2.0]
    if not example:
        assert extract_policy(f"```python\n{code}```") == code


def test_a_loop_variable_of_an_example_makes_no_example_of_another_loop():
    example = 'import gymnasium as gym\n\nenv = gym.make("CartPole-v1")\nfor i in range(3):\n    env.step(i)\n'
    code = "W = [0.0] * 3\nfor i in range(3):\n    W[i] = 2.0 * i\n\ndef policy(obs):\n    return W\n"
    assert extract_policy(f"```python\n{example}{code}```") == code


def test_a_demonstration_that_imports_an_environment_is_an_example():
    code = "K = [-2.0]\n\n\ndef policy(obs):\n    return K\n"
    demo = "def demo(k):\n    import gymnasium\n\n    gymnasium.make(k)\n\n\ndemo(K)\n"
    assert extract_policy(f"```python\n{code}\n\n{demo}```") == code


@pytest.mark.parametrize(
    "code",
    [
        "def policy(obs):\n    return [policy.gain * obs[0]]\n\n\npolicy.gain = -1.0\n",
        "def policy(obs):\n    return [policy.gain * obs[0]]\n\n\nGAIN = -1.0\npolicy.gain: float = GAIN\n",
        'def policy(obs):\n    return [policy.gains["k"] * obs[0]]\n\n\npolicy.gains = {}\npolicy.gains["k"] = -1.0\n',
        'def policy(obs):\n    return [policy.gain * obs[0]]\n\n\nsetattr(policy, "gain", -1.0)\n',
        "class Policy:\n    K = 1.0\n\n    def act(self, obs):\n        return [self.K * obs[0]]\n\n\nPolicy.K *= -1.0\n",
    ],
)
@pytest.mark.parametrize("example", ["", "print(policy([0.0]))\nresult = Policy().act([0.0])\n"])
def test_an_attribute_of_the_policy_is_set_as_the_reply_does(code, example):
    assert Program(extract_policy(f"```python\n{code}{example}```"))([2.0]) == [-2.0]
    if not example:
        assert extract_policy(f"```python\n{code}```") == code


def test_a_reset_that_nothing_names_is_kept_beside_an_example():
    code = (
        'state = {}\n\n\ndef reset():\n    state["n"] = 0\n\n\ndef policy(obs):\n    state["n"] += 1\n    return [state["n"]]\n'
    )
    example = 'if __name__ == "__main__":\n    reset()\n    print(policy([0.0]))\n'
    policy = Program(extract_policy(f"```python\n{code}\n\n{example}```"))
    assert [policy(None), policy(None), policy.reset(), policy(None)] == [[1], [2], None, [1]]


def test_a_close_of_reasoning_at_the_end_ends_the_answer():
    assert (
        extract_policy("```python\ndef policy(obs):\n    return [0.5]\n```\n</think>\n")
        == "def policy(obs):\n    return [0.5]\n"
    )
