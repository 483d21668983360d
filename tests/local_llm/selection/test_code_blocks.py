"""local_llm/selection/code_blocks.py: highlighted code is the code, and its button runs by its hash alone."""

import base64
import hashlib
import re
from html import unescape
from pathlib import Path

import pytest

from llmwrappers.priors import SHIPPED
from local_llm.selection import code_blocks
from local_llm.selection.code_blocks import SCRIPT, SCRIPT_SOURCE, code_block, highlighted


def text_of(html: str) -> str:
    return unescape(re.sub(r"</?span[^>]*>", "", html))


SOURCES = [
    *(path.read_text("utf-8") for path in sorted(SHIPPED.glob("*/policy-1.py"))),
    Path(code_blocks.__file__).read_text("utf-8"),
    "",
    "x = '</pre><script>' # <b>\n",
    's = f"{{a}} {b!r:>{c}} é𝒳"\ny = """two\nlines"""; z = 1e-3\n',
    "def f(\n  a,\r\n  b):\n\treturn a\x0c\n",
    "no Python: it's (not\n",
    "if x:\n    a\n  b\n",
    "x = 'never closed",
    "x = $\0?",
]


@pytest.mark.parametrize("source", SOURCES)
def test_no_character_is_lost_or_is_markup(source):
    html = highlighted(source)
    assert text_of(html) == source
    assert set(re.findall(r"<[^>]*>", html)) <= {"</span>", *(f'<span class="{kind}">' for kind in "kdsnc")}


def test_each_kind_of_token_has_its_class():
    html = highlighted('class A:  # note\n    def go(self):\n        return "s", 2.5, None\n')
    spans = dict(re.findall(r'<span class="(\w)">([^<]*)</span>', html))
    assert spans == {"k": "None", "d": "go", "c": "# note", "s": "&quot;s&quot;", "n": "2.5"}
    assert "self" not in re.findall(r">([^<]*)</span>", html)


def test_what_is_no_python_has_no_colours():
    assert "span" not in highlighted("def policy(obs:\n    return 'x'\n")


def test_a_block_has_a_button_before_its_code():
    assert re.fullmatch(r'<div class="code"><button type="button">Copy</button><pre>.*x</pre></div>', code_block("return x"))


def test_the_hash_is_that_of_the_script():
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode("utf-8")).digest()).decode()
    assert f"'sha256-{digest}'" == SCRIPT_SOURCE
    assert "</" not in SCRIPT
