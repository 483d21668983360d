"""Shows Python code in a page: highlighted, with a button that copies it."""

import base64
import hashlib
import io
import keyword
import tokenize
from collections.abc import Iterator
from html import escape

STYLE = """
.code { position: relative; }
.code button { position: absolute; top: .5rem; right: .5rem; padding: .15rem .6rem; border: 1px solid #bbb; border-radius: 3px;
  font: .72rem/1.5 "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; color: #333; background: #fff;
  cursor: pointer; }
.code pre { padding-right: 5.5rem; }
.k { color: #0b4f8a; font-weight: 600; } .d { color: #7a3e00; } .s { color: #2d6a1f; } .n { color: #8a2070; }
.c { color: #666; font-style: italic; }
@media print { .code button { display: none; } }
"""
# The only script of a page. A browser runs it because its hash is in the page's policy, and runs no other.
SCRIPT = """
document.addEventListener("click", async ({ target }) => {
  if (!target.matches(".code button")) return;
  const code = target.nextElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
    target.textContent = "Copied";
  } catch { // a browser may keep a page that is a file from the clipboard
    getSelection().selectAllChildren(code);
    target.textContent = "Selected";
  }
  setTimeout(() => { target.textContent = "Copy"; }, 2000);
});
"""
SCRIPT_SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
# From Python 3.12 on, the parts of an f-string are tokens of their own.
CLASSES = {"COMMENT": "c", "NUMBER": "n", "STRING": "s", "FSTRING_START": "s", "FSTRING_MIDDLE": "s", "FSTRING_END": "s"}


def code_block(source: str, is_python: bool = True) -> str:
    """Returns the HTML of some code, with its button; ``SCRIPT`` makes the button work, ``STYLE`` gives the colours."""
    html = highlighted(source) if is_python else escape(source)
    return f'<div class="code"><button type="button">Copy</button><pre>{html}</pre></div>'


def highlighted(source: str) -> str:
    """Returns Python code as HTML in which keywords, defined names, strings, numbers and comments have a class.

    What is no Python is only escaped.

    Example:
        >>> print(highlighted("return 0 < x"))
        <span class="k">return</span> <span class="n">0</span> &lt; x
        >>> print(highlighted("2 < (1"))
        2 &lt; (1
    """
    parts, shown = [], 0
    try:
        for start, end, kind in _classified(source):
            parts += [escape(source[shown:start]), f'<span class="{kind}">{escape(source[start:end])}</span>']
            shown = end
    except (tokenize.TokenError, SyntaxError):
        return escape(source)
    return "".join(parts) + escape(source[shown:])


def _classified(source: str) -> Iterator[tuple[int, int, str]]:
    """Yields where each token that has a class begins and ends, and the class."""
    line_starts, at, before = [0], 0, ""
    for line in io.StringIO(source):
        line_starts.append(line_starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = CLASSES.get(tokenize.tok_name[token.type])
        if token.type == tokenize.NAME:
            kind = "k" if keyword.iskeyword(token.string) else "d" if before in ("def", "class") else None
        before = token.string
        start, end = (line_starts[row - 1] + column for row, column in (token.start, token.end))
        if kind and at <= start < end:
            yield start, end, kind
            at = end
