"""What it saves that a prompt is read once for all replies: one model, the same replies, with and without, in turn.

pip install -e ".[llm]" && python benchmarks/speed/prefill.py --model Qwen/Qwen2.5-Coder-1.5B-Instruct
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from local_llm.models.reply import Sampling
from local_llm.models.transformers_model import TransformersModel

ROUND = "Round {0}: the fox came to the river, counted {0} stones, and went home. "


def seconds(model: TransformersModel, text: str, replies: int, tokens: int) -> float:
    """Returns the processor's time for so many replies to a text."""
    messages = [{"role": "user", "content": text + "Go on with this story, for many more rounds."}]
    start = time.process_time()
    drawn = list(model.ask(messages, replies, Sampling(1.0, max_new_tokens=tokens)))
    spent = time.process_time() - start
    print(f"{drawn[0].prompt_tokens} + {sum(reply.reply_tokens or 0 for reply in drawn)} tokens in {spent:.1f} s", flush=True)
    return spent


def read_by_each(inputs: dict[str, Any], rows: int) -> dict[str, Any]:
    """Returns what generates without a prompt that was read before, in place of ``_read``."""
    return {name: values.expand(rows, -1) for name, values in inputs.items()}


def main() -> None:
    """Prints the times and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True, help="a name on the Hugging Face Hub, a folder or a .gguf file")
    parser.add_argument("--prompt-tokens", type=int, default=2000)
    parser.add_argument("--replies", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="of a reply, at most")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    model = TransformersModel(args.model, device_map="cpu")
    text = "".join(ROUND.format(i) for i in range(args.prompt_tokens // model.count_tokens(ROUND.format(10)) + 1))
    ways: list[Callable[..., Any]] = [model._read, read_by_each]
    times: list[list[float]] = [[], []]
    for _ in range(args.repeats):
        for way, spent in zip(ways, times, strict=True):
            model._read = way
            spent.append(seconds(model, text, args.replies, args.tokens))
    once, each = map(statistics.median, times)
    print(f"read once: {once:.1f} s; read by each: {each:.1f} s; ratio {each / once:.2f}")


if __name__ == "__main__":
    main()
