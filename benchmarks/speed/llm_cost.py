"""What the LLM was asked for the priors and tables of the comparisons: the table of EVIDENCE.md.

pip install mistral-common
python benchmarks/speed/llm_cost.py

The replies came without a count of tokens. An open tokenizer counts them here, Mistral's Tekken of 131 072 words; the LLM's own
differs. Every reply is counted with its prompt.
"""

from importlib.resources import files
from pathlib import Path

from mistral_common.tokens.tokenizers.tekken import Tekkenizer  # pyright: ignore[reportMissingImports]

PACKAGE = Path(__file__).parents[2] / "llmwrappers"
ENVIRONMENTS = ["Hopper-v4", "Walker2d-v4", "Ant-v4"]
PRIORS, CRITICAL_STATES = PACKAGE / "priors" / "shipped", PACKAGE / "critical_states" / "shipped"
FOLDERS = [
    *(PRIORS / env_id for env_id in ENVIRONMENTS),
    *(CRITICAL_STATES / env_id for env_id in ENVIRONMENTS),
    *sorted(CRITICAL_STATES.glob("llmwrappers-*")),
]

tokenizer = Tekkenizer.from_file(files("mistral_common") / "data" / "tekken_240911.json")


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def size(texts: list[str]) -> str:
    """Two cells: the characters of some texts and their tokens."""
    tokens = sum(len(tokenizer.encode(text, bos=False, eos=False)) for text in texts)
    return f"{grouped(sum(map(len, texts)))} | {grouped(tokens)}"


def prompt_of(reply: Path) -> Path:
    """A table's replies have a prompt each; a policy's candidates all answer the same one."""
    own = reply.with_name(reply.name.replace("reply-", "prompt-")).with_suffix(".txt")
    return own if own.exists() else reply.with_name("prompt.txt")


print("| in `llmwrappers/` | replies | characters of the prompts | tokens | characters of the replies | tokens |")
print("| --- | --- | --- | --- | --- | --- |")
for folder in FOLDERS:
    replies = sorted(folder.glob("reply-*.md"))
    cells = [size([path.read_text("utf-8") for path in paths]) for paths in (map(prompt_of, replies), replies)]
    print(f"| `{folder.relative_to(PACKAGE).as_posix()}` | {len(replies)} | {cells[0]} | {cells[1]} |")
