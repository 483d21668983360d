"""TransformersModel: runs an open-weight model on this machine with transformers."""

import gc
import hashlib
import importlib.util
import math
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from local_llm.models.reply import Message, ModelError, Reply, Sampling, answer_room, without_bounds
from local_llm.models.rows import Rows
from local_llm.replies.reply_text import opened_by

Quantization = Literal["4bit", "8bit"]
# Gigabytes of memory, model, quantization: the first row that fits is the default, for GPUs or else for the CPU. The models for
# the CPU have plain attention: the kernels of others fall back to slow ones there.
GPU_MODELS: list[tuple[int, str, Quantization | None]] = [
    (80, "Qwen/Qwen3.8-27B", None),
    (23, "Qwen/Qwen3.8-27B", "4bit"),  # a card of 24 GB that corrects errors reports 23.7
    (8, "Qwen/Qwen3.5-9B", "4bit"),
]
CPU_MODELS: list[tuple[int, str, Quantization | None]] = [
    (90, "Qwen/Qwen3-Coder-30B-A3B-Instruct", None),
    (32, "Qwen/Qwen3-8B", None),
    (0, "Qwen/Qwen2.5-Coder-1.5B-Instruct", None),
]
# A container's memory limit on Linux: control groups of version 2 and of version 1.
CONTAINER_MEMORY = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
# The tokens at the end of a prompt in which a chat template may open the reasoning.
END_OF_PROMPT = 16
MOST_PROBABLE = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
OUT_OF_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory|enough GPU RAM", re.IGNORECASE)
LESS_MEMORY = "take a smaller model, --quantization 4bit, or fewer and shorter candidates"


class TransformersModel:
    """Draws replies from an open-weight model on this machine.

    It draws the replies as one batch, in halves of it if memory runs out, and yields each reply when it ends. The same seed
    gives the same replies only on the same machine and in the same batch: record them (``Recorded``) to have them again. Code
    that comes with a model is never run.

    The chat template controls thinking (``enable_thinking``); if it opens the reasoning itself, its mark begins the reply. When
    the budget for thinking is spent, ``</think>`` is forced if that is a token of the model; if not, only thoughts and answer
    together are bounded.

    A schema turns thinking off. If llguidance is installed, it enforces the schema token by token, except the bounds of
    numbers; otherwise the schema is ignored.

    Args:
        model: a name on the Hugging Face Hub (downloaded at first use), a folder, or a .gguf file (its weights are unpacked, so
            that it takes the memory of a model that is not quantized)
        revision: a branch, tag or commit of the model
        device_map: as for ``from_pretrained``
        quantization: "4bit" or "8bit", with bitsandbytes

    Raises:
        ModelError: a library or the model is missing, cannot be loaded, or does not fit into memory
        ValueError: ``quantization`` is unknown
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        device_map: Any = "auto",
        quantization: Quantization | None = None,
    ) -> None:
        if quantization not in (None, "4bit", "8bit"):
            raise ValueError(f'quantization must be None, "4bit" or "8bit", got {quantization!r}')
        torch, transformers = _libraries()
        # Quantized weights give other replies, so recordings must keep them apart.
        self.model, self.revision = f"{model} ({quantization})" if quantization else model, revision
        # trust_remote_code=None would ask at the terminal.
        source: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
        place = model
        if model.endswith(".gguf"):
            folder, source["gguf_file"] = os.path.split(model)
            place = folder or "."
        weights = {**source, "device_map": device_map, "dtype": "auto"}
        if quantization:
            if importlib.util.find_spec("bitsandbytes") is None:
                raise ModelError(f'quantization {quantization} needs bitsandbytes: pip install -e ".[llm,quantize]"')
            weights["quantization_config"] = transformers.BitsAndBytesConfig(
                **{f"load_in_{quantization}": True}, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
            )
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(place, padding_side="left", **source)
            config = transformers.AutoConfig.from_pretrained(place, **source)
            is_text = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
            auto = transformers.AutoModelForCausalLM if is_text else transformers.AutoModelForImageTextToText
            self._model: Any = auto.from_pretrained(place, **weights)
        except Exception as error:  # a broken folder, a missing package or the network may raise anything
            raise ModelError(_cannot_load(model, error)) from error
        self.weights = _weights_at(Path(model))
        self._text_config = self._model.config.get_text_config()
        ends = self._model.generation_config.eos_token_id
        ends = {*(ends if isinstance(ends, list) else [ends]), self._tokenizer.eos_token_id}
        self._ends = sorted(ends - {None})
        self._pad = next(token for token in (self._tokenizer.pad_token_id, *self._ends, 0) if token is not None)

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields n replies, drawn a batch at a time.

        Raises:
            PromptTooLong: see ``answer_room``
            ModelError: memory runs out with a single reply
        """
        done, batch = 0, n if sampling.temperature > 0 else 1
        while done < n:
            batch, fits = min(batch, n - done), False
            try:
                for reply in self._generate(messages, batch, sampling, schema, first + done):
                    done += 1
                    yield reply
                fits = True
            except (MemoryError, RuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
            # Outside the handler, because the exception kept the batch's arrays in memory.
            if not fits:
                if batch == 1:
                    raise ModelError(f"{self.model} runs out of memory at a single reply: {LESS_MEMORY}")
                batch = math.ceil(batch / 2)
                gc.collect()
                _libraries()[0].cuda.empty_cache()

    def count_tokens(self, text: str) -> int:
        """Returns how many tokens a text has."""
        return len(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _generate(
        self, messages: list[Message], rows: int, sampling: Sampling, schema: dict | None, index: int
    ) -> Iterator[Reply]:
        """Yields the replies of one batch, each when it ends: short ones first."""
        thinking = sampling.thinking if schema is None else 0  # also where llguidance, which enforces the schema, is missing
        inputs = self._encode(messages, thinking > 0)
        prompt_tokens = inputs["input_ids"].shape[1]
        context = getattr(self._text_config, "max_position_embeddings", math.inf)
        most = answer_room(sampling.max_new_tokens + thinking, prompt_tokens, context, self.model)
        draw = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p}
        processors = [self._end_of_thinking(prompt_tokens + thinking)] if thinking else []
        if schema is not None:
            processors = self._within(schema, rows, prompt_tokens)
        is_free = schema is None or not processors
        opening = opened_by(self._decode(inputs["input_ids"][0, -END_OF_PROMPT:])) if is_free else ""
        batch = Rows(rows, prompt_tokens, self._ends)
        inputs = self._read(inputs, rows)
        _libraries()[0].manual_seed(sampling.seed_for(index))
        generate = partial(
            self._model.generate,
            **inputs,
            **(draw if sampling.temperature > 0 else MOST_PROBABLE),
            max_new_tokens=most,
            eos_token_id=self._ends or None,
            pad_token_id=self._pad,
            logits_processor=processors,
            stopping_criteria=[batch],
        )
        for ids, seconds in batch.drawn(generate):
            is_whole = ids[-1] in self._ends
            text = self._decode(ids[:-1] if is_whole else ids)
            yield Reply(opening + text, "stop" if is_whole else "length", prompt_tokens, len(ids), seconds)

    def _read(self, inputs: dict[str, Any], rows: int) -> dict[str, Any]:
        """Returns the inputs of equal rows; the model has read all but their last token, once for all rows."""
        alike = {name: values.expand(rows, -1) for name, values in inputs.items()}
        before = {name: values[:, :-1] for name, values in inputs.items()}
        if rows == 1 or before["input_ids"].shape[1] == 0:
            return alike
        settings = {"pad_token_id": self._pad, "return_dict_in_generate": True, "cache_implementation": None}
        read = self._model.generate(**before, **MOST_PROBABLE, max_new_tokens=1, **settings)
        name = "cache" if hasattr(read, "cache") else "past_key_values"  # its older name
        cache: Any = getattr(read, name, None)
        if not hasattr(cache, "reorder_cache"):
            return alike
        cache.reorder_cache(_libraries()[0].zeros(rows, dtype=int))
        return {**alike, name: cache, "cache_implementation": None}

    def _encode(self, messages: list[Message], thinking: bool) -> dict[str, Any]:
        """Returns the prompt's tokens: by the model's chat template or, if it has none, of the plain text."""
        if template := self._tokenizer.chat_template:
            # Not every tokenizer takes a setting that its template does not know.
            switch = {"enable_thinking": thinking} if "enable_thinking" in str(template) else {}
            settings = {"add_generation_prompt": True, "return_dict": True, "return_tensors": "pt", **switch}
            try:
                tokens = self._tokenizer.apply_chat_template(messages, **settings)
            except Exception as error:  # each template refuses in its own way
                raise ModelError(f"the chat template of {self.model} refuses these messages: {error}") from error
        else:
            tokens = self._tokenizer("\n\n".join(message["content"] for message in messages), return_tensors="pt")
        return {name: tokens[name].to(self._model.device) for name in ("input_ids", "attention_mask")}

    def _decode(self, ids: Any) -> str:
        # Special tokens may separate thoughts and answer.
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _end_of_thinking(self, length: int) -> Callable:
        """Returns a logits processor that forces </think> if thoughts are still open at this length."""
        begin, end = self._tokenizer.convert_tokens_to_ids(["<think>", "</think>"])

        def process(input_ids: Any, scores: Any) -> Any:
            if input_ids.shape[1] < length or end in (None, self._tokenizer.unk_token_id):
                return scores
            is_open = (input_ids == begin).sum(1) > (input_ids == end).sum(1)
            only_end = scores.new_full(scores.shape, -math.inf)
            only_end[:, end] = 0
            return only_end.where(is_open[:, None], scores)

        return process

    def _within(self, schema: dict, rows: int, prompt_tokens: int) -> list[Callable]:
        """Returns a logits processor that keeps every row within the schema; none without llguidance."""
        try:
            from llguidance import LLMatcher  # pyright: ignore[reportMissingImports]
            from llguidance.hf import from_tokenizer  # pyright: ignore[reportMissingImports]
        except ImportError:
            return []
        tokenizer = from_tokenizer(self._tokenizer, n_vocab=self._text_config.vocab_size, eos_token=self._ends)
        grammar = LLMatcher.grammar_from_json_schema(without_bounds(schema), defaults={"whitespace_flexible": False})
        matchers = [LLMatcher(tokenizer, grammar) for _ in range(rows)]

        def process(input_ids: Any, scores: Any) -> Any:
            for matcher, ids in zip(matchers, input_ids, strict=True):
                if len(ids) > prompt_tokens and not matcher.is_stopped():
                    matcher.consume_token(int(ids[-1]))
                if matcher.is_error():
                    raise ModelError(f"llguidance cannot follow the schema: {matcher.get_error()}")
            allowed = np.stack([np.frombuffer(matcher.compute_logit_bias(), np.uint8) > 0 for matcher in matchers])
            return scores.masked_fill(_libraries()[0].from_numpy(~allowed).to(scores.device), -math.inf)

        return [process]


def _weights_at(path: Path) -> dict[str, str] | None:
    """Returns a hash of the sizes and times of a model's files, for recordings: a path may hold other weights tomorrow.

    None for a model of the Hub: its name, with the revision, says what it is.
    """
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]
    return {"files_sha256": hashlib.sha256(repr(stats).encode()).hexdigest()} if stats else None


def default_model() -> tuple[str, Quantization | None]:
    """Returns the model and the quantization that suit the memory of the GPUs or the CPU; raises ModelError without torch."""
    cuda = _libraries()[0].cuda
    on_gpus = sum(cuda.get_device_properties(i).total_memory for i in range(cuda.device_count())) / 1e9
    fitting = [
        row for rows, memory in ((GPU_MODELS, on_gpus), (CPU_MODELS, _cpu_gigabytes())) for row in rows if memory >= row[0]
    ]
    return fitting[0][1:]


def _cpu_gigabytes() -> float:
    """Returns the machine's memory, or the limit of this process's container if that is lower."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return 0.0
    for path in CONTAINER_MEMORY:
        try:
            memory = min(memory, int(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return memory / 1e9


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ModelError(f'a model on this machine needs transformers and torch: pip install -e ".[llm]" ({error})') from error
    return torch, transformers


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or bool(OUT_OF_MEMORY.search(str(error)))


def _cannot_load(model: str, error: Exception) -> str:
    """Returns the message for a model that cannot be loaded, with the way out."""
    advice = (
        f"Is the name right? `hf download {model}` downloads it. Without network, or with HF_HUB_OFFLINE set, only what was "
        "downloaded can be loaded; gated models need `hf auth login`."
    )
    if _is_out_of_memory(error):
        advice = f"It does not fit into memory: {LESS_MEMORY}."
    elif model.endswith(".gguf"):
        advice = 'A .gguf file needs pip install -e ".[gguf]", and an architecture that transformers can unpack.'
        if not os.path.isfile(model):
            advice = "There is no such file."
    elif isinstance(error, ImportError):
        advice = 'Install what is missing; pip install -e ".[llm]" brings transformers and accelerate.'
    elif os.path.isdir(model):
        advice = "The folder must hold config.json, tokenizer and weights, as `hf download` or save_pretrained leave them."
    elif os.path.isabs(model) or model.startswith((".", "~")) or model.count("/") > 1 or "\\" in model:
        advice = "There is no such folder."
    return f"cannot load {model}: {type(error).__name__}: {' '.join(str(error).split())[:300]}\n{advice}"
