"""The local model: replies of a tiny one, trained here and loaded like any other, and what each failure says."""

import json
import os
import re
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch
import transformers
from huggingface_hub import constants

from local_llm.models import transformers_model
from local_llm.models.recorded import Recorded
from local_llm.models.reply import ModelError, PromptTooLong, Sampling
from local_llm.models.transformers_model import CPU_MODELS, GPU_MODELS, TransformersModel, default_model
from local_llm.replies.extract import extract_policy
from local_llm.replies.reply_text import StillThinking

PROMPT = "Write a policy for Pendulum."
POLICY = "```python\nimport numpy as np\n\ndef policy(obs):\n    return np.array([{}])\n```"
REPLIES = [POLICY.format(torque) for torque in ("obs[0]", "-obs[1]", "2.0 * obs[2]", "1 / 0")]
THOUGHT = "<think>\n" + "Left or right? " * 4 + "Left.\n</think>\n\nLeft."
MESSAGES = [{"role": "user", "content": PROMPT}]
SAMPLING = Sampling(max_new_tokens=60)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """What HF_HUB_OFFLINE=1 in the environment does at the first import."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture(scope="session")
def folder(tiny_model, tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("tiny"), {PROMPT: REPLIES})


@pytest.fixture(scope="session")
def model(folder):
    return TransformersModel(str(folder))


@pytest.fixture(scope="session")
def thinker(tiny_model, tmp_path_factory):
    return TransformersModel(str(tiny_model(tmp_path_factory.mktemp("thinker"), {PROMPT: [THOUGHT]}, thinking=True)))


def texts(model, n=4, sampling=SAMPLING, **kwargs):
    return [reply.text for reply in model.ask(MESSAGES, n, sampling, **kwargs)]


def _expanded(inputs, rows):
    return {name: values.expand(rows, -1) for name, values in inputs.items()}


class TestReplies:
    def test_many_replies_come_out_and_each_was_taught(self, model, folder):
        replies = list(model.ask(MESSAGES, 24, SAMPLING))
        assert {reply.text for reply in replies} == set(REPLIES)
        assert {reply.finish_reason for reply in replies} == {"stop"}
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        asked = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, enable_thinking=False)
        for reply in replies:
            assert reply.prompt_tokens == len(asked["input_ids"])
            assert reply.reply_tokens == len(tokenizer(reply.text)["input_ids"]) + 1  # its end; no padding
            assert reply.seconds > 0
        assert (model.model, model.revision) == (str(folder), None)

    def test_the_same_seed_gives_the_same_replies(self, model):
        assert texts(model, 8) == texts(model, 8)
        assert texts(model, 8) != texts(model, 8, Sampling(max_new_tokens=60, seed=1))
        assert texts(model, 8) != texts(model, 8, first=8)

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_the_prompt_is_read_once_for_all_rows_which_are_what_they_would_be(self, model, monkeypatch, temperature):
        sampling, read = Sampling(temperature, max_new_tokens=60, seed=5), []
        forward = transformers.Qwen3ForCausalLM.forward

        def counted(self, input_ids=None, **kwargs):
            read.append(tuple(input_ids.shape))
            return forward(self, input_ids=input_ids, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(TransformersModel, "_read", lambda self, inputs, rows: _expanded(inputs, rows))
            each = sorted(texts(model, 8, sampling))
        monkeypatch.setattr(transformers.Qwen3ForCausalLM, "forward", counted)
        assert sorted(texts(model, 8, sampling)) == each
        if temperature:
            assert [shape for shape in read if shape[1] > 1] == [(1, model._encode(MESSAGES, False)["input_ids"].shape[1] - 1)]
            assert {shape for shape in read if shape[1] == 1} == {(8, 1)}

    def test_temperature_0_takes_the_most_probable_reply(self, model):
        assert len(set(texts(model, 2, Sampling(temperature=0, max_new_tokens=60)))) == 1

    def test_a_reply_that_reaches_the_limit_is_cut(self, model):
        for reply in model.ask(MESSAGES, 2, Sampling(max_new_tokens=5)):
            assert (reply.finish_reason, reply.reply_tokens) == ("length", 5)
            assert reply.text
            assert any(whole.startswith(reply.text) for whole in REPLIES)

    def test_a_reply_is_recorded_when_it_ends(self, model, tmp_path, monkeypatch):
        def generate(self, *, stopping_criteria=(), **kwargs):
            def killed(input_ids, scores, **_):
                if (input_ids[:, -1] == self.generation_config.eos_token_id).any():
                    raise RuntimeError("killed")
                return False

            criteria = [*stopping_criteria, killed] if stopping_criteria else None
            return transformers.GenerationMixin.generate(self, stopping_criteria=criteria, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(transformers.Qwen3ForCausalLM, "generate", generate)
            with pytest.raises(RuntimeError, match="killed"):
                list(Recorded(model, tmp_path).ask(MESSAGES, 8, SAMPLING))
        count = len(list(tmp_path.iterdir()))
        assert 0 < count < 8
        replies = list(Recorded(model, tmp_path).ask(MESSAGES, 8, SAMPLING))
        assert [reply.replayed for reply in replies] == [True] * count + [False] * (8 - count)
        assert {reply.text for reply in replies} <= set(REPLIES)

    def test_a_reply_of_other_weights_at_the_same_path_is_not_read(self, folder, tmp_path):
        place, recordings = tmp_path / "model", tmp_path / "recordings"
        shutil.copytree(folder, place)

        def is_replayed():
            (reply,) = Recorded(TransformersModel(str(place)), recordings).ask(MESSAGES, 1, SAMPLING)
            return reply.replayed

        assert [is_replayed(), is_replayed()] == [False, True]
        os.utime(place / "model.safetensors", (1, 1))  # as another training run leaves it
        assert not is_replayed()

    def test_the_replies_of_a_batch_come_as_they_end(self, model):
        counts = [reply.reply_tokens for reply in model.ask(MESSAGES, 8, SAMPLING)]
        assert counts == sorted(counts)
        assert len(set(counts)) > 1

    def test_a_batch_says_what_it_does(self, model, capsys):
        texts(model, 2)
        out, err = capsys.readouterr()
        said = r"reading the prompt of \d+ tokens\n2 replies, \d+ tokens, \d+\.\d s, \d+\.\d tokens/s\n"
        assert re.fullmatch(said, err)
        assert out == ""

    def test_a_model_without_a_chat_template_or_padding_gets_the_plain_text(self, folder, tmp_path):
        plain = shutil.copytree(folder, tmp_path / "plain")
        (plain / "chat_template.jinja").unlink()
        settings = json.loads((plain / "tokenizer_config.json").read_text())
        del settings["pad_token"]
        (plain / "tokenizer_config.json").write_text(json.dumps(settings))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        template = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
        head, tail = template.split(PROMPT)
        messages = [{"role": "system", "content": "no"}, {"role": "user", "content": template}]
        model = TransformersModel(str(plain))
        reply, _ = model.ask(messages, 2, SAMPLING)
        assert reply.prompt_tokens == len(tokenizer("no\n\n" + head + PROMPT + tail)["input_ids"])
        assert reply.reply_tokens > 0

    def test_a_model_that_also_sees_answers_text(self, folder, tmp_path):
        language = transformers.AutoConfig.from_pretrained(folder)
        vision = transformers.CLIPVisionConfig(
            hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4
        )
        config = transformers.LlavaConfig(text_config=language, vision_config=vision, image_token_index=0)
        transformers.LlavaForConditionalGeneration(config).save_pretrained(tmp_path)
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
        model = TransformersModel(str(tmp_path))
        assert type(model._model).__name__ == "LlavaForConditionalGeneration"
        assert [reply.reply_tokens for reply in model.ask(MESSAGES, 2, Sampling(max_new_tokens=4))] == [4, 4]

    def test_what_the_template_refuses_is_an_error(self, folder, tmp_path):
        strict = shutil.copytree(folder, tmp_path / "strict")
        (strict / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
        with pytest.raises(ModelError, match="roles must alternate"):
            texts(TransformersModel(str(strict)))

    def test_a_prompt_that_leaves_no_room_for_an_answer_is_an_error(self, model):
        around = model._encode(MESSAGES, False)["input_ids"].shape[1] - model.count_tokens(PROMPT)
        messages = [{"role": "user", "content": "x" * (4096 - around - 40)}]
        with pytest.raises(PromptTooLong, match=r"the prompt has 4,056 tokens, and .* takes 4,096, its answer among them"):
            list(model.ask(messages, 1, SAMPLING))
        (reply,) = model.ask(messages, 1, Sampling(max_new_tokens=40))
        assert reply.reply_tokens <= 40


class TestThinking:
    def test_within_the_budget_thoughts_are_left_alone(self, thinker):
        (reply,) = thinker.ask(MESSAGES, 1, Sampling(max_new_tokens=50, thinking=200))
        assert reply.text == THOUGHT
        assert reply.finish_reason == "stop"

    def test_when_the_budget_is_spent_they_are_closed(self, thinker):
        tokenizer = thinker._tokenizer
        for reply in thinker.ask(MESSAGES, 3, Sampling(max_new_tokens=50, thinking=6)):
            thought, closed, _ = reply.text.partition("</think>")
            assert closed
            assert THOUGHT.startswith(thought)
            assert len(tokenizer(thought)["input_ids"]) == 6
            assert reply.reply_tokens <= 56

    def test_a_model_that_does_not_think_is_left_alone(self, model):
        (reply,) = model.ask(MESSAGES, 1, Sampling(max_new_tokens=50, thinking=6))
        assert "</think>" not in reply.text

    @pytest.fixture
    def opening(self, folder, tmp_path):
        """A model whose template opens the reasoning, whatever it is asked for, as DeepSeek's does."""
        opening = shutil.copytree(folder, tmp_path / "opening")
        template = (opening / "chat_template.jinja").read_text()
        (opening / "chat_template.jinja").write_text(template.replace("<think>\n\n</think>\n\n", "<think>\n"))
        return TransformersModel(str(opening))

    @pytest.mark.parametrize("limit", [10, 200])
    def test_what_the_template_opens_is_part_of_the_reply(self, opening, limit):
        for reply in opening.ask(MESSAGES, 2, Sampling(max_new_tokens=limit)):
            assert reply.text.startswith("<think>\n")
            with pytest.raises(StillThinking):
                extract_policy(reply.text, reply.finish_reason)

    def test_but_not_of_one_that_is_held_to_a_schema(self, opening):
        pytest.importorskip("llguidance")
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        assert texts(opening, schema=schema) == ["{}"] * 4

    def test_marks_that_are_special_tokens_stay(self, tiny_model, tmp_path):
        """As those of gpt-oss, whose template has no switch for thinking."""
        thoughts = "<|channel|>analysis<|message|>Left?<|end|><|channel|>final<|message|>Left."
        folder = tiny_model(tmp_path, {PROMPT: [thoughts]}, special=["<|channel|>", "<|message|>", "<|end|>"])
        (reply,) = TransformersModel(str(folder)).ask(MESSAGES, 1, SAMPLING)
        assert (reply.text, reply.finish_reason) == (thoughts, "stop")

    def test_without_a_budget_the_template_is_asked_not_to_think(self, thinker):
        asked, unasked = (thinker._encode(MESSAGES, thinking)["input_ids"][0] for thinking in (True, False))
        assert "<think>" not in thinker._tokenizer.decode(asked)
        assert "<think>\n\n</think>" in thinker._tokenizer.decode(unasked)


class TestSchema:
    SCHEMA = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "gain": {"type": "number", "minimum": 0, "maximum": 3},
            "hold": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
        },
        "required": ["gain", "hold"],
        "additionalProperties": False,
    }

    def test_with_llguidance_every_reply_obeys(self, model):
        sampling = Sampling(temperature=1.5, top_p=1.0, max_new_tokens=300, thinking=50)
        replies = list(model.ask(MESSAGES, 16, sampling, self.SCHEMA))
        finished = [json.loads(reply.text) for reply in replies if reply.finish_reason == "stop"]
        assert len(finished) > 8
        for value in finished:
            assert set(value) == {"gain", "hold"}
            assert isinstance(value["gain"], int | float)
            assert all(isinstance(held, bool) for held in value["hold"])

    def test_a_bounded_number_may_be_written_as_any_other(self, tiny_model, tmp_path):
        """llguidance 1.9.1 admits neither 2e-1 nor -0.0 where a number has bounds."""
        pytest.importorskip("llguidance")
        replies = ['{"gain":2e-1,"hold":[true]}', '{"gain":-0.0,"hold":[true]}']
        model = TransformersModel(str(tiny_model(tmp_path, {PROMPT: replies})))
        assert set(texts(model, 8, schema=self.SCHEMA)) == set(replies)

    def test_a_schema_that_llguidance_cannot_follow_is_an_error(self, model):
        with pytest.raises(ModelError, match=r"cannot follow the schema: .*nonsense"):
            texts(model, schema={"type": "nonsense"})

    def test_without_llguidance_the_reply_is_free(self, model, monkeypatch):
        monkeypatch.setitem(sys.modules, "llguidance", None)
        assert set(texts(model, schema=self.SCHEMA)) <= set(REPLIES)


def out_of_memory(most):
    """Returns a generate that fails above a number of rows, as a full GPU would, and the rows it was asked for."""
    rows = []

    def generate(self, *, input_ids, **kwargs):
        if "stopping_criteria" in kwargs:  # not where a prompt is read
            rows.append(len(input_ids))
            if rows[-1] > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return transformers.GenerationMixin.generate(self, input_ids=input_ids, **kwargs)

    return generate, rows


class TestMemory:
    def test_a_batch_that_does_not_fit_is_halved(self, model, monkeypatch):
        generate, rows = out_of_memory(most=2)
        monkeypatch.setattr(transformers.Qwen3ForCausalLM, "generate", generate)
        assert set(texts(model, 7)) <= set(REPLIES)
        assert rows == [7, 4, 2, 2, 2, 1]

    def test_at_a_single_reply_the_error_says_what_to_do(self, model, monkeypatch):
        generate, rows = out_of_memory(most=0)
        monkeypatch.setattr(transformers.Qwen3ForCausalLM, "generate", generate)
        with pytest.raises(ModelError, match=r"smaller model, --quantization 4bit, or fewer and shorter candidates"):
            texts(model, 4)
        assert rows == [4, 2, 1]

    def test_replies_before_that_are_kept(self, model, monkeypatch):
        generate, rows = out_of_memory(most=2)

        def ever_less(self, **kwargs):
            if len(rows) > 2:
                raise MemoryError
            return generate(self, **kwargs)

        monkeypatch.setattr(transformers.Qwen3ForCausalLM, "generate", ever_less)
        replies = []
        with pytest.raises(ModelError, match="runs out of memory"):
            replies.extend(model.ask(MESSAGES, 8, SAMPLING))
        assert len(replies) == 2

    def test_the_cpu_says_it_in_other_words(self, model, monkeypatch):
        def generate(self, **_):
            return torch.empty(2**60)

        monkeypatch.setattr(transformers.Qwen3ForCausalLM, "generate", generate)
        with pytest.raises(ModelError, match="runs out of memory at a single reply"):
            texts(model)

    def test_another_error_is_not_taken_for_it(self, model, monkeypatch):
        def generate(self, **_):
            raise RuntimeError("expected scalar type Half")

        monkeypatch.setattr(transformers.Qwen3ForCausalLM, "generate", generate)
        with pytest.raises(RuntimeError, match="scalar type"):
            texts(model)


class TestLoading:
    def test_a_missing_folder(self, tmp_path):
        with pytest.raises(ModelError, match=r"cannot load .*missing(.|\n)*There is no such folder"):
            TransformersModel(str(tmp_path / "missing"))

    def test_a_folder_that_holds_no_model(self, tmp_path):
        with pytest.raises(ModelError, match="The folder must hold config"):
            TransformersModel(str(tmp_path))

    @pytest.mark.parametrize("name", ["Qwen/no-such-model", "no model"])
    def test_a_name_that_was_not_downloaded(self, name):
        with pytest.raises(ModelError, match=rf"hf download {name}(.|\n)*HF_HUB_OFFLINE"):
            TransformersModel(name)

    @pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
    def test_a_broken_file(self, folder, tmp_path, file):
        broken = shutil.copytree(folder, tmp_path / "broken")
        (broken / file).write_bytes(b"{]")
        with pytest.raises(ModelError, match="cannot load"):
            TransformersModel(str(broken))

    def test_code_that_comes_with_a_model_is_never_run(self, folder, tmp_path):
        trap = shutil.copytree(folder, tmp_path / "trap")
        config = json.loads((trap / "config.json").read_text())
        config |= {"model_type": "trap", "auto_map": {"AutoConfig": "trap.Config", "AutoModelForCausalLM": "trap.Model"}}
        (trap / "config.json").write_text(json.dumps(config))
        (trap / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
        with pytest.raises(ModelError, match="cannot load"):
            TransformersModel(str(trap))
        assert not (tmp_path / "sprung").exists()

    def test_too_little_memory(self, folder, monkeypatch):
        def from_pretrained(*_, **__):
            raise torch.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", from_pretrained)
        with pytest.raises(ModelError, match="does not fit into memory: take a smaller model"):
            TransformersModel(str(folder))

    @pytest.mark.parametrize("library", ["torch", "transformers"])
    def test_a_missing_library(self, folder, monkeypatch, library):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ModelError, match=r'pip install -e "\.\[llm\]"'):
            TransformersModel(str(folder))

    def test_missing_bitsandbytes(self, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "bitsandbytes", None)
        with pytest.raises(ModelError, match=re.escape('pip install -e ".[llm,quantize]"')):
            TransformersModel(str(folder), quantization="4bit")

    def test_an_unknown_quantization(self, folder):
        with pytest.raises(ValueError, match="quantization must be"):
            TransformersModel(str(folder), quantization="2bit")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("gpus", "cpu", "expected"),
    [
        ([], 8, CPU_MODELS[2]),
        ([], 68.7, CPU_MODELS[1]),
        ([6], 68.7, CPU_MODELS[1]),
        ([], 137, CPU_MODELS[0]),
        ([8.5], 137, GPU_MODELS[2]),
        ([12, 12], 8, GPU_MODELS[1]),
        ([25.7], 8, GPU_MODELS[1]),
        ([79, 79], 8, GPU_MODELS[0]),
        ([85.9], 8, GPU_MODELS[0]),
    ],
)
def test_the_default_model_fits_the_gpus_or_the_cpu(monkeypatch, gpus, cpu, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda i: SimpleNamespace(total_memory=int(gpus[i] * 1e9)), raising=False
    )
    monkeypatch.setattr("local_llm.models.transformers_model._cpu_gigabytes", lambda: cpu)
    assert default_model() == expected[1:]


@pytest.mark.parametrize(
    ("limit", "expected"), [("1000000\n", 0.001), ("max\n", None), (f"{2**63 - 4096}\n", None), (None, None)]
)
def test_a_container_s_limit_counts_as_its_memory(tmp_path, monkeypatch, limit, expected):
    machine, path = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, tmp_path / "memory.max"
    if limit:
        path.write_text(limit)
    monkeypatch.setattr(transformers_model, "CONTAINER_MEMORY", (path,))
    assert transformers_model._cpu_gigabytes() == (expected or machine)


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"max_new_tokens": 0}, {"thinking": -1}]
)
def test_settings_outside_their_range_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be .*, got {wrong[name]}"):
        Sampling(**wrong)
