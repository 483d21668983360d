"""The client of OpenAI-compatible servers, against one on the loopback that does not keep its promises."""

import json
import socket
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from local_llm import write_policy
from local_llm.models.recorded import Recorded
from local_llm.models.reply import ModelError, PromptTooLong, Sampling
from local_llm.models.server import EXTRAS, Server
from local_llm.replies.answers import extract_answer
from local_llm.replies.extract import extract_policy
from local_llm.replies.reply_text import StillThinking

# What llama.cpp's server (xllamacpp 2026.10.11549) answers to every request until its model is loaded.
LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
# What llama-cpp-python's server (0.3.36) answers, its own paths left out.
NO_JSON_SCHEMA = (
    rb"""{"error":{"message":"1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), """
    rb"""'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema', 'ctx': {'expected': """
    rb"""\"'text' or 'json_object'\"}}","type":"internal_server_error","param":null,"code":null}}"""
)
TOO_LONG = (
    b"""{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 17792 tokens """
    b"""(9600 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.","""
    b""""type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"""
)
MESSAGES = [{"role": "user", "content": "hello"}]


def choice(text, finish_reason="stop"):
    return {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}


def completion(*choices, prompt_tokens=10, completion_tokens=7):
    return {"choices": choices, "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}}


def generous(body):
    """What a good server answers: n replies that tell their seed."""
    return completion(*(choice(f"seed {body.get('seed')}, {number}") for number in range(body.get("n") or 1)))


def stingy(body):
    return completion(choice(f"seed {body.get('seed')}"))


class Handler(BaseHTTPRequestHandler):
    """Plays the server's script: one step a request, the last one for ever."""

    def log_message(self, *_):
        pass

    def answer(self, status, data, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def loads(self):
        if still := self.server.loading > 0:
            self.server.loading -= 1
            self.answer(503, LOADING)
        return still

    def do_GET(self):
        self.server.seen.append((self.path, self.headers, None))
        if self.loads():
            return
        told = {"/v1/models": {"data": [{"id": name, **self.server.facts} for name in self.server.models]}}
        told |= {"/props": self.server.props} if self.server.props else {}
        told |= {"/api/tags": self.server.tags} if self.server.tags else {}
        self.answer(200 if self.path in told else self.server.lacks, json.dumps(told.get(self.path)).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers, body))
        if self.loads():
            return
        if self.path == "/tokenize" and self.server.tokenizes == "never answers":
            self.server.over.wait(10)
        if self.path == "/tokenize":
            tokens = [*range(len(body["content"]) // 2)]  # of two characters each
            self.answer(200 if self.server.tokenizes else self.server.lacks, json.dumps({"tokens": tokens}).encode())
            return
        steps = self.server.script
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if step == "break off":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [{"mess')
            self.close_connection = True
        elif step == "be slow":
            self.server.over.wait(10)
        elif isinstance(step, int):
            self.answer(step, b'{"error": {"message": "not today"}}')
        elif isinstance(step, tuple):
            self.answer(*step[:2], **dict(step[2:]))
        elif isinstance(step, bytes):
            self.answer(200, step)
        else:
            self.answer(200, json.dumps(step(body)).encode())


@pytest.fixture
def start():
    """Starts servers, each on a port of its own."""
    servers = []

    def start(**facts):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.seen, server.models, server.script, server.over = [], ["tiny"], [generous], threading.Event()
        server.facts, server.props, server.tags, server.tokenizes, server.loading = {}, None, None, False, 0
        server.lacks = 404  # the status of what it does not serve
        vars(server).update(facts)
        server.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(start):
    return start()


def ask(server, n=1, sampling=None, schema=None, **settings):
    client = Server(server.url, "tiny", **{"retries": 2, "backoff": 0.01, "timeout": 5.0, **settings})
    return list(client.ask(MESSAGES, n, sampling or Sampling(seed=3), schema))


def posts(server):
    """The bodies of what asked for replies."""
    return [body for path, _, body in server.seen if path.endswith("chat/completions")]


class TestRequest:
    def test_one_request_carries_the_settings(self, server):
        sampling = Sampling(temperature=0.5, top_p=0.9, max_new_tokens=100, seed=3, thinking=20)
        replies = ask(server, 3, sampling)
        assert [reply.text for reply in replies] == ["seed 3000, 0", "seed 3000, 1", "seed 3000, 2"]
        (body,) = posts(server)
        assert server.seen[-1][0] == "/v1/chat/completions"
        sent = {
            "model": "tiny",
            "n": 3,
            "seed": 3000,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 120,
            "messages": MESSAGES,
        }
        assert sent.items() <= body.items()
        assert body["chat_template_kwargs"] == {"enable_thinking": True}
        assert "response_format" not in body

    def test_tokens_and_seconds_are_shared_so_that_sums_are_right(self, server):
        replies = ask(server, 3)
        assert sum(reply.prompt_tokens for reply in replies) == 10
        assert sum(reply.reply_tokens for reply in replies) == 7
        assert 0 < sum(reply.seconds for reply in replies) < 5

    def test_missing_replies_are_asked_for_again_with_other_seeds(self, server):
        server.script = [stingy]
        assert [reply.text for reply in ask(server, 3)] == ["seed 3000", "seed 3001", "seed 3002"]
        assert [body.get("n", 1) for body in posts(server)] == [3, 2, 1]

    def test_what_is_waited_for_is_said_before_it_comes(self, server, capsys):
        said = []

        def answered(body):
            said.append(capsys.readouterr().err)
            return stingy(body)

        server.script = [503, answered, answered]
        ask(server, 2)
        waiting = f"waiting for {{}} of 2 replies of tiny at {server.url}\n"
        again = f'{server.url}/chat/completions answered 503: {{"error": {{"message": "not today"}}}}; again in 0.01 s\n'
        assert said == [waiting.format(2) + again, waiting.format(1)]

    def test_later_replies_of_a_series_have_later_seeds(self, server):
        (reply,) = Server(server.url, "tiny").ask(MESSAGES, 1, Sampling(seed=3), first=4)
        assert reply.text == "seed 3004, 0"

    def test_more_replies_than_asked_for_are_dropped(self, server):
        server.script = [lambda body: completion(choice("a"), choice("b"), choice("c"))]
        assert [reply.text for reply in ask(server, 2)] == ["a", "b"]

    @pytest.mark.parametrize(("refusals", "left_out"), [(1, set()), (2, {"chat_template_kwargs"}), (4, set(EXTRAS))])
    def test_what_a_server_refuses_is_left_out_bit_by_bit(self, server, refusals, left_out):
        """llama.cpp takes few replies at once, but knows the switch for thinking and the schema: only n goes first."""
        server.script = [*[400] * refusals, stingy]
        assert [reply.text for reply in ask(server, 2, schema={"type": "object"})] == ["seed 3000", "seed 3001"]
        first, *others = posts(server)
        assert first["n"] == 2
        assert len(others) == refusals + 1
        for body in others[-2:]:
            assert "n" not in body
            assert set(EXTRAS) - body.keys() == left_out

    def test_a_schema_reaches_the_server_as_its_documentation_says(self, server):
        schema = {"type": "object", "properties": {"a": {"type": "number"}}}
        ask(server, schema=schema)
        expected = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        assert posts(server)[0]["response_format"] == expected

    def test_numbers_are_not_bounded_by_a_server_but_by_who_reads_them(self, server, tmp_path):
        bounded, whole = {"type": "number", "minimum": -1, "maximum": 1}, {"type": "integer", "minimum": 0}
        properties = {"minimum": bounded, "all": {"type": "array", "items": bounded}, "step": whole}
        schema = {"type": "object", "properties": properties}
        list(Recorded(Server(server.url, "tiny"), tmp_path).ask(MESSAGES, 1, Sampling(), schema))
        number = {"type": "number"}
        sent = posts(server)[0]["response_format"]["json_schema"]["schema"]
        assert sent["properties"] == {"minimum": number, "all": {"type": "array", "items": number}, "step": whole}
        (path,) = tmp_path.glob("reply-*.json")
        assert json.loads(path.read_text())["request"]["schema"] == schema

    def test_max_completion_tokens_where_a_server_asks_for_it(self, server):
        refusal = b"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        server.script = [(400, refusal), generous]
        ask(server, 2, Sampling(max_new_tokens=50))
        first, second = posts(server)
        assert first["max_tokens"] == second["max_completion_tokens"] == 50
        assert "max_tokens" not in second
        assert second["n"] == 2

    @pytest.mark.parametrize(
        ("refusals", "left_out"),
        [
            ([b"Unrecognized request argument supplied: seed"], {"seed"}),
            ([b"`temperature` and `top_p` cannot both be specified"], {"top_p"}),
            ([b"top_p is deprecated", b"Only the default temperature (1) is supported"], {"top_p", "temperature"}),
            ([b"Unrecognized request argument supplied: chat_template_kwargs"], {"chat_template_kwargs"}),
        ],
        ids=["seed", "top_p", "both", "thinking"],
    )
    def test_a_field_that_a_server_refuses_by_name_is_left_out_from_then_on(self, server, refusals, left_out):
        server.script = [*((400, refusal) for refusal in refusals), generous]
        asked = Server(server.url, "tiny")
        with pytest.warns(UserWarning, match="refuses '(seed|top_p|temperature|chat_template_kwargs)': it is left out"):
            assert len(list(asked.ask(MESSAGES, 2, Sampling()))) == 2
        assert len(list(asked.ask(MESSAGES, 2, Sampling()))) == 2
        first, *others = posts(server)
        assert len(others) == len(refusals) + 1
        assert first.keys() - others[-1].keys() == asked.left_out == left_out
        assert others[-2] == others[-1]
        assert others[-1]["n"] == 2

    def test_a_top_p_of_1_says_nothing_and_is_not_sent(self, server):
        ask(server, sampling=Sampling(top_p=1.0))
        assert "top_p" not in posts(server)[0]

    def test_a_shorter_answer_where_a_server_names_its_most(self, server):
        server.script = [(400, b"max_tokens is too large: 8192. This model supports at most 4096 completion tokens"), generous]
        ask(server, 2)
        assert [(body["max_tokens"], body["n"]) for body in posts(server)] == [(8192, 2), (4096, 2)]

    def test_an_older_form_of_the_schema_where_a_server_does_not_know_the_newer(self, server):
        server.script = [(500, NO_JSON_SCHEMA), generous]
        schema = {"type": "object"}
        assert len(ask(server, 2, schema=schema)) == 2
        first, second = posts(server)
        assert second == {**first, "response_format": {"type": "json_object", "schema": schema}}

    def test_a_shorter_answer_where_a_server_has_no_room_for_a_longer_one(self, server):
        server.script = [(400, TOO_LONG.replace(b"9600", b"1075").replace(b"17792", b"9267")), generous]
        assert len(ask(server, 2)) == 2
        assert [(body["max_tokens"], body["n"]) for body in posts(server)] == [(8192, 2), (8192 - 1075, 2)]

    def test_a_prompt_that_a_server_finds_too_long(self, server):
        server.script = [(400, TOO_LONG)]
        with pytest.raises(PromptTooLong, match="the prompt has 9,600 tokens, and tiny takes 8,192"):
            ask(server, 2)
        assert len(posts(server)) == 1

    @pytest.mark.parametrize(("temperature", "warns"), [(0.8, True), (0.0, False)])
    def test_a_server_that_does_not_draw_is_warned_of(self, server, temperature, warns):
        """As transformers serve does with a model whose generation_config.json does not say do_sample."""
        server.script = [lambda body: completion(choice("alike"))]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ask(server, 2, Sampling(temperature))
        assert ["one reply twice, for two seeds" in str(warning.message) for warning in caught] == [True] * warns

    def test_llama_cpp_counts_one_reply_of_several(self, server):
        server.script = [lambda body: {**generous(body), "timings": {"predicted_n": 7}}]
        assert [reply.reply_tokens for reply in ask(server, 3)] == [None] * 3
        assert [reply.reply_tokens for reply in ask(server, 1)] == [7]

    def test_a_cut_reply_is_told(self, server):
        server.script = [lambda body: completion(choice("half", "length")), lambda body: completion(choice(None, "length"))]
        assert [(reply.text, reply.finish_reason) for reply in ask(server, 2)] == [("half", "length"), ("", "length")]

    def test_a_reply_that_a_filter_stopped_is_told(self, server):
        server.script = [lambda body: completion(choice("def pol", "content_filter"))]
        with pytest.warns(UserWarning, match="stopped a reply: its content filter"):
            assert ask(server)[0].text == "def pol"

    def test_an_unknown_finish_reason_and_missing_usage_are_taken(self, server):
        server.script = [lambda body: {"choices": [choice("a", None)]}]
        (reply,) = ask(server)
        assert (reply.text, reply.finish_reason, reply.prompt_tokens, reply.reply_tokens) == ("a", "stop", None, None)

    def test_half_a_surrogate_pair_becomes_text_that_can_be_written(self, server):
        server.script = [lambda body: completion(choice("a\ud800b"))]
        assert ask(server)[0].text == "a?b"


POLICY = "def policy(obs):\n    return [-obs[2]]\n"
FENCED = f"```python\n{POLICY}```"
DRAFT = "I could write\n```python\ndef policy(obs):\n    return [0.0]\n```\nbut"


def called(*arguments):
    return [{"type": "function", "function": {"name": "write", "arguments": each}} for each in arguments]


def says(message, finish_reason="stop", **tokens):
    """What a server answers that says this message."""
    message = {"role": "assistant", **message}
    return lambda body: completion({"index": 0, "message": message, "finish_reason": finish_reason}, **tokens)


class TestMessage:
    """Servers put an answer into several places of a message, above all that of a model which thinks."""

    @pytest.mark.parametrize("name", ["reasoning_content", "reasoning"], ids=["llama.cpp, older vLLM", "newer vLLM, Ollama"])
    @pytest.mark.parametrize("empty", [{}, {"content": None}, {"content": ""}, {"content": "\n\n"}, {"content": []}], ids=str)
    def test_an_answer_that_is_taken_for_reasoning(self, server, name, empty):
        """As vLLM does with a reasoning parser where the template is asked not to think."""
        server.script = [says({**empty, name: f"It leans.\n{FENCED}"})]
        (reply,) = ask(server)
        assert (extract_policy(reply.text, reply.finish_reason), reply.finish_reason) == (POLICY, "stop")

    @pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
    def test_beside_an_answer_reasoning_is_none(self, server, name):
        server.script = [says({"content": FENCED, name: DRAFT, "tool_calls": []})]
        assert ask(server)[0].text == FENCED

    @pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
    def test_reasoning_that_is_cut_off_is_no_answer(self, server, name):
        server.script = [says({"content": None, name: DRAFT}, "length")]
        (reply,) = ask(server)
        assert (reply.text, reply.finish_reason) == (f"<think>\n{DRAFT}", "length")
        with pytest.raises(StillThinking):
            extract_policy(reply.text, reply.finish_reason)

    def test_the_text_of_parts_is_the_answer(self, server):
        thoughts = {"type": "thinking", "thinking": [{"type": "text", "text": DRAFT}]}
        halves = [{"type": "text", "text": half} for half in (FENCED[:20], FENCED[20:])]
        server.script = [says({"content": [thoughts, *halves, {"type": "image_url"}, "?"]})]
        assert ask(server)[0].text == FENCED

    def test_parts_that_only_think(self, server):
        """As Mistral sends them."""
        thoughts = {"type": "thinking", "thinking": [{"type": "text", "text": FENCED}]}
        server.script = [says({"content": [thoughts]}), says({"content": [thoughts]}, "length")]
        assert [reply.text for reply in ask(server, 2)] == [FENCED, f"<think>\n{FENCED}"]

    @pytest.mark.parametrize(
        "arguments",
        [
            [json.dumps({"code": POLICY})],
            [json.dumps({"path": "policy.py", "source": POLICY})],
            [{"code": POLICY}],
            [POLICY],
            [json.dumps({"command": "ls"}), json.dumps({"code": POLICY})],
        ],
        ids=["code", "source", "no string", "the code itself", "several"],
    )
    def test_the_code_may_be_what_a_tool_is_called_with(self, server, arguments):
        server.script = [says({"content": None, "reasoning_content": DRAFT, "tool_calls": called(*arguments)}, "tool_calls")]
        (reply,) = ask(server)
        assert extract_policy(reply.text, reply.finish_reason) == POLICY

    def test_the_json_too(self, server):
        server.script = [says({"content": "", "tool_calls": called('{"rewards": [{"episode": 0}]}')}, "tool_calls")]
        (reply,) = ask(server)
        assert extract_answer(reply.text, reply.finish_reason, "rewards").entries == [{"episode": 0}]

    @pytest.mark.parametrize("calls", ["no list", [3], [{"function": "policy"}], called(None), called([1])], ids=str)
    def test_calls_of_another_form_are_passed_over(self, server, calls):
        server.script = [says({"content": None, "tool_calls": calls, "reasoning": FENCED})]
        assert ask(server)[0].text == FENCED

    @pytest.mark.parametrize("thoughts", [{"reasoning_content": DRAFT}, {}], ids=["shown", "hidden"])
    def test_a_command_says_that_the_limit_cut_off_the_thinking(self, server, tmp_path, monkeypatch, capsys, thoughts):
        monkeypatch.chdir(tmp_path)
        server.script = [says({"content": None, **thoughts}, "length", prompt_tokens=2000)]
        command = ["--env-id", "Pendulum-v1", "--server", server.url, "--select", "probe", "--candidates", "1"]
        assert write_policy.main([*command, "--max-new-tokens", "700", "--recording", "off"]) == 1
        said = "candidate 1: the model was still thinking when its tokens ended; raise --max-new-tokens (now 700)\n"
        assert said in capsys.readouterr().out
        brief = "reason more briefly" if thoughts else "be briefer"
        assert brief in posts(server)[-1]["messages"][0]["content"]


class TestKey:
    def test_the_key_is_sent(self, server):
        ask(server, api_key="secret")
        assert server.seen[0][1]["Authorization"] == "Bearer secret"

    def test_without_a_key_the_hugging_face_token_stays_at_home(self, server, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "hf_private")
        ask(server)
        Server(server.url)
        assert {headers.get("Authorization", "") for _, headers, _ in server.seen} == {""}

    def test_it_is_recorded_nowhere(self, server, tmp_path):
        list(Recorded(Server(server.url, "tiny", api_key="secret"), tmp_path).ask(MESSAGES, 1, Sampling()))
        (path,) = tmp_path.iterdir()
        assert "secret" not in path.read_text()
        assert "127.0.0.1" not in path.read_text()


class TestModelName:
    def test_the_only_model_is_found(self, server):
        assert Server(server.url, api_key="secret").model == "tiny"
        assert Server(server.url.removesuffix("/v1")).model == "tiny"
        assert Server(server.url + "/chat/completions").model == "tiny"
        assert [path for path, _, _ in server.seen] == ["/v1/models"] * 3
        for base in ("/api/paas/v4", "/v1beta/openai"):  # another version than /v1 is the server's own
            with pytest.raises(ModelError, match=f"cannot list the models at .*{base}/models"):
                Server(server.url.removesuffix("/v1") + base, retries=0)
        assert server.seen[0][1]["Authorization"] == "Bearer secret"

    def test_several_are_listed_to_choose_from(self, server):
        server.models = ["small", "large"]
        with pytest.raises(ModelError, match="2 models, name one of them: small, large"):
            Server(server.url)

    def test_a_server_that_loads_its_model_is_waited_for(self, server):
        server.loading = 3
        assert Server(server.url, backoff=0.01).model == "tiny"
        server.loading = 4
        with pytest.raises(ModelError, match="cannot list the models at .* answered 503: .*Loading model"):
            Server(server.url, backoff=0.01)

    def test_no_server(self):
        with pytest.raises(ModelError, match="cannot list the models"):
            Server("http://127.0.0.1:9/v1", backoff=0.01)

    def test_no_url(self):
        with pytest.raises(ModelError, match="starts with http"):
            Server("localhost:11434", "tiny")


def of_vllm(root):
    return {"facts": {"owned_by": "vllm", "created": time.time_ns(), "root": root, "max_model_len": 32768}}


def of_llama_cpp(path, n_params=8190735360):
    meta = {"n_vocab": 151936, "n_ctx_train": 40960, "n_embd": 4096, "n_params": n_params, "size": 4991010816}
    props = {"model_path": path, "default_generation_settings": {"n_ctx": 32768}}
    return {"facts": {"owned_by": "llamacpp", "created": time.time_ns(), "meta": meta}, "props": props}


def of_ollama(digest, name="tiny:latest"):
    return {
        "facts": {"owned_by": "library"},
        "tags": {"models": [{"name": "x", "digest": "0"}, {"name": name, "digest": digest}]},
    }


class TestWeights:
    """Servers may serve different weights under one name, "default" say; what they tell of them tells them apart."""

    OTHERS = (
        (of_vllm("Qwen/Qwen3-8B"), of_vllm("/models/qwen3-8b-tuned")),
        (of_llama_cpp("/models/a.gguf"), of_llama_cpp("/models/b.gguf")),
        (of_llama_cpp("/models/a.gguf"), of_llama_cpp("/models/a.gguf", n_params=751632384)),
        (of_ollama("3f1e"), of_ollama("92c4")),
    )

    @staticmethod
    def replayed(server, folder, name="tiny"):
        """Whether a reply is read that was recorded before, and its text."""
        (reply,) = Recorded(Server(server.url, name), folder).ask(MESSAGES, 1, Sampling(seed=3))
        return reply.replayed, reply.text

    @pytest.mark.parametrize(("one", "other"), OTHERS, ids=["vLLM", "llama.cpp, file", "llama.cpp, size", "Ollama"])
    def test_recordings_of_other_weights_are_others(self, start, tmp_path, one, other):
        first, second = start(**one), start(**other, script=[lambda body: completion(choice("of others"))])
        for _ in range(2):
            assert self.replayed(first, tmp_path)[1] == "seed 3000, 0"
            assert self.replayed(second, tmp_path)[1] == "of others"
        assert [len(posts(server)) for server in (first, second)] == [1, 1]

    @pytest.mark.parametrize(("one", "_"), OTHERS[1:], ids=["llama.cpp, file", "llama.cpp, size", "Ollama"])
    def test_the_same_weights_on_another_port_later_are_the_same(self, start, tmp_path, one, _):
        first = start(**one)
        again = start(**one)
        again.facts = {**again.facts, "created": 1}
        assert [self.replayed(server, tmp_path)[0] for server in (first, again)] == [False, True]
        assert len(list(tmp_path.iterdir())) == 1

    def test_a_server_with_one_model_serves_it_under_any_name(self, start):
        """As llama.cpp does."""
        server = start(**of_llama_cpp("/models/a.gguf"))
        expected = {"model_path": "/models/a.gguf", "n_params": 8190735360, "size": 4991010816}
        assert [Server(server.url, name).weights for name in ("default", "tiny")] == [expected] * 2
        server.models = ["a", "b"]
        assert Server(server.url, "default").weights == {"model_path": "/models/a.gguf"}

    @pytest.mark.parametrize(
        "facts",
        [
            {},
            {"facts": {"root": 3, "meta": "none"}, "props": {"model_path": ["x"]}, "tags": {"models": 3}},
            {"facts": {"meta": {"n_params": "many"}}, "tags": {"models": [{"name": "tiny"}, {"name": "other", "digest": "1"}]}},
            of_ollama(""),
        ],
        ids=str,
    )
    def test_of_a_server_that_tells_nothing_the_name_counts(self, start, tmp_path, facts):
        server = start(**facts)
        assert Server(server.url, "tiny").weights is None
        assert [self.replayed(server, tmp_path)[0] for _ in range(2)] == [False, True]
        (path,) = tmp_path.iterdir()
        assert "weights" not in json.loads(path.read_text())["request"]

    def test_a_recording_from_before_weights_were_recorded_is_read(self, start, server, tmp_path):
        self.replayed(server, tmp_path)
        assert self.replayed(start(**of_vllm("Qwen/Qwen3-8B")), tmp_path) == (True, "seed 3000, 0")

    def test_without_a_server_all_replay(self, start, tmp_path):
        one, other = (start(**of_vllm(root)) for root in ("a", "b"))
        for server in (one, other):
            self.replayed(server, tmp_path)
        replies = Recorded(None, tmp_path).ask(MESSAGES, 2, Sampling(seed=3))
        assert [reply.replayed for reply in replies] == [True, True]


class TestReplay:
    def test_a_command_that_reads_recorded_replies_says_so_first(self, start, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "prompt.txt").write_text("Write policy(obs).")
        server = start(script=[says({"content": FENCED})])
        options = ["--env-id", "Pendulum-v1", "--prompt", "prompt.txt", "--select", "probe"]
        options += ["--episodes", "2", "--held-out-episodes", "2"]
        asks = ["--server", server.url, "--recordings", "recordings", "--temperature", "0"]
        first_lines = []
        for more in (
            [*asks, "--candidates", "1"],
            [*asks, "--candidates", "1"],
            [*asks, "--candidates", "2"],
            [*asks, "--candidates", "2", "--recording", "record"],
            ["--replay", "recordings", "--candidates", "2"],
        ):
            assert write_policy.main([*options, *more]) == 0
            first_lines.append(capsys.readouterr().out.splitlines()[0])
        asked = "candidate 1: checked and probed"
        recorded = "replies are read from the recordings in recordings (model: tiny)"
        anew = f"{recorded}; only what is missing is asked for (--recording record asks anew)"
        assert first_lines == [asked, anew, anew, asked, f"{recorded}; no model is asked"]
        assert len(posts(server)) == 4


LLAMA_CPP = {"facts": {"meta": {"n_ctx_train": 8192}}, "props": {"default_generation_settings": {"n_ctx": 4096}}}


class TestContext:
    """A server tells how much it takes, and counts tokens, each in its own way, or not at all."""

    @pytest.fixture(params=[LLAMA_CPP, {"facts": {"max_model_len": 4096}}], ids=["llama.cpp", "vLLM"])
    def small(self, server, request):
        vars(server).update(request.param, tokenizes=True)
        return server

    def test_a_prompt_that_is_too_long_is_not_sent(self, small):
        messages = [{"role": "user", "content": "x" * 8000}]
        with pytest.raises(PromptTooLong, match=r"the prompt has 4,128 tokens, and tiny takes 4,096"):
            list(Server(small.url, "tiny").ask(messages, 1, Sampling()))
        assert posts(small) == []

    def test_an_answer_has_the_room_that_the_prompt_leaves(self, small):
        small.script = [lambda body: completion(choice("a"), prompt_tokens=3010)]
        messages = [{"role": "user", "content": "x" * 6000}]
        list(Server(small.url, "tiny").ask(messages, 1, Sampling()))
        list(Server(small.url, "tiny").ask(messages, 1, Sampling(max_new_tokens=100)))
        assert [body["max_tokens"] for body in posts(small)] == [4096 - 3000 - 128, 100]

    def test_where_none_counts_only_what_is_surely_too_long_is_refused(self, small):
        small.tokenizes, small.script = False, [lambda body: completion(choice("a"), prompt_tokens=3010)]
        for characters in (15_000, 18_000):
            client = Server(small.url, "tiny")
            messages = [{"role": "user", "content": "x" * characters}]
            if characters > 16_000:
                with pytest.raises(PromptTooLong, match="has at least 3,600 tokens"):
                    list(client.ask(messages, 1, Sampling()))
            else:
                list(client.ask(messages, 1, Sampling()))
        (body,) = posts(small)
        assert body["max_tokens"] == Sampling().max_new_tokens

    @pytest.mark.parametrize(
        "facts", [{"max_model_len": "4096"}, {"meta": [1]}, {"max_model_len": None, "meta": None}], ids=str
    )
    def test_nonsense_about_it_is_passed_over(self, server, facts):
        server.facts = facts
        assert len(ask(server)) == 1

    def test_what_a_server_tells_when_it_has_loaded_counts(self, small):
        client = Server(small.url, "tiny", backoff=0.01)
        small.loading = 2
        assert client.count_tokens("12345678") == 4
        small.loading = 2
        assert client._context == 4096

    def test_a_proxy_that_fails_beside_the_completions_costs_no_reply(self, server):
        server.lacks = 502
        client = Server(server.url, "tiny", retries=1, backoff=0.01)
        assert (client.count_tokens("12345678"), client.weights) == (None, None)
        assert len(list(client.ask(MESSAGES, 1, Sampling()))) == 1

    def test_tokens_are_counted_by_the_server(self, server):
        server.tokenizes = True
        client = Server(server.url, "tiny")
        assert client.count_tokens("12345678") == 4
        server.tokenizes = False
        assert [client.count_tokens("12345678") for _ in range(2)] == [None, None]
        assert [path for path, _, _ in server.seen] == ["/tokenize"] * 2  # a third time would be in vain

    @pytest.mark.parametrize(("read", "is_cut"), [(2048, True), (4000, False), (None, False)])
    def test_a_prompt_that_is_cut_in_silence_is_warned_of(self, server, read, is_cut):
        server.script = [lambda body: completion(choice("a"), prompt_tokens=read)]
        client, messages = Server(server.url, "tiny"), [{"role": "user", "content": "x" * 20_000}]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(client.ask(messages, 1, Sampling()))
        assert [f"read {read:,} tokens of a prompt of at least 4,000" in str(warning.message) for warning in caught] == [
            True
        ] * is_cut


NONSENSE = [
    b"",
    b"<html><body>Welcome to nginx!</body></html>",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"3",
    b"{}",
    b"[" * 100_000,
    b'{"choices": []}',
    b'{"choices": "none"}',
    b'{"choices": {"a": 1}}',
    b'{"choices": [1]}',
    b'{"choices": [{}]}',
    b'{"choices": [{"message": "hello"}]}',
    b'{"choices": [{"message": {"content": ""}}]}',
    b'{"choices": [{"message": {"content": [1]}, "finish_reason": 3}]}',
    b'{"choices": [{"message": {"content": "a"}}], "usage": [1]}',
    b'{"error": {"message": "no model loaded"}}',
]


class TestFailure:
    @pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda data: repr(data[:40]))
    def test_nonsense_is_named_and_not_asked_for_again(self, server, nonsense):
        server.script = [nonsense]
        with pytest.raises(ModelError, match="is it an OpenAI-compatible server"):
            ask(server)
        assert len(posts(server)) == 1

    def test_a_fault_of_the_client_is_not_blamed_on_the_server(self, server, monkeypatch):
        def broken(choice):
            raise KeyError("a slip of ours")

        monkeypatch.setattr("local_llm.models.server._reply", broken)
        with pytest.raises(KeyError, match="a slip of ours"):
            ask(server)

    @pytest.mark.parametrize("key", ["secret\n", "se cret", "s\u00e9cret"], ids=ascii)
    def test_a_key_that_cannot_be_sent_is_told_of_and_not_shown(self, server, key):
        with pytest.raises(ModelError, match="the server's key holds") as caught:
            Server(server.url, api_key=key)
        assert "cret" not in str(caught.value)
        assert server.seen == []

    def test_nonsense_beside_a_reply_does_not_cost_the_reply(self, server):
        server.script = [lambda body: completion(choice(""), choice("good")), lambda body: completion(choice("better"))]
        assert [reply.text for reply in ask(server, 2)] == ["good", "better"]

    @pytest.mark.parametrize("text", ["", " \n", None])
    def test_a_reply_of_nothing_is_a_reply(self, server, text):
        """As of a model that ends after its thinking; what asked decides whether to ask again, and how."""
        server.script = [lambda body: completion(choice(text))]
        (reply,) = ask(server)
        assert (reply.text.strip(), reply.finish_reason, reply.reply_tokens) == ("", "stop", 7)
        assert len(posts(server)) == 1

    def test_a_server_that_limits_requests_is_waited_for_as_long_as_it_asks(self, server, capsys):
        server.script = [(429, b"slow down", ("Retry_After", "0.2")), generous]
        assert len(ask(server)) == 1
        assert "again in 0.2 s" in capsys.readouterr().err
        server.script = [(429, b"insufficient_quota", ("Retry_After", "Sat, 28 Nov 2026 22:00:00 GMT"))]
        with pytest.raises(ModelError, match="Tried 3 times: it limits requests, or a quota is used up"):
            ask(server)

    @pytest.mark.parametrize("trouble", [408, 429, 500, 502, 503, 504, 529, "break off"])
    def test_what_may_pass_is_tried_again(self, server, trouble):
        server.script = [trouble, trouble, generous]
        assert len(ask(server)) == 1
        assert len(posts(server)) == 3
        server.script = [trouble]
        with pytest.raises(ModelError, match="Tried 3 times"):
            ask(server)
        assert len(posts(server)) == 6

    @pytest.mark.parametrize("status", [401, 403, 404, 418])
    def test_a_refusal_is_not_tried_again(self, server, status):
        server.script = [status]
        with pytest.raises(
            ModelError, match=rf"answered {status}.*not today.*\nCheck the model's name, the URL .*, and the key"
        ):
            ask(server)
        assert len(posts(server)) == 1

    @pytest.mark.parametrize("status", [400, 422])
    def test_a_refusal_of_the_plain_request_too_is_told(self, server, status):
        server.script = [status]
        with pytest.raises(ModelError, match=f"answered {status}.*not today"):
            ask(server, 3)
        assert len(posts(server)) == 3

    def test_a_server_that_counts_no_tokens_in_time_is_asked_all_the_same(self, server):
        server.tokenizes = "never answers"
        assert ask(server, timeout=0.5)
        assert [path for path, *_ in server.seen].count("/tokenize") == 1

    def test_a_slow_server_is_given_up(self, server):
        server.script = ["be slow"]
        start = time.perf_counter()
        with pytest.raises(ModelError, match=r"took more than 0\.2 s"):
            ask(server, timeout=0.2)
        assert time.perf_counter() - start < 3
        assert len(posts(server)) == 1

    def test_no_server(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="is the server up"):
            list(Server(url, "tiny", retries=1, backoff=0.01).ask(MESSAGES, 1, Sampling()))

    @pytest.mark.parametrize("trouble", ["break off", 500, 404, b"<html>"])
    def test_replies_before_a_failure_are_kept(self, server, tmp_path, trouble):
        server.script = [stingy, stingy, trouble]
        client = Server(server.url, "tiny", retries=0)
        with pytest.raises(ModelError):
            list(Recorded(client, tmp_path).ask(MESSAGES, 4, Sampling(seed=3)))
        server.script = [generous]
        replies = list(Recorded(client, tmp_path).ask(MESSAGES, 4, Sampling(seed=3)))
        assert [reply.text for reply in replies] == ["seed 3000", "seed 3001", "seed 3002, 0", "seed 3002, 1"]
        assert [reply.replayed for reply in replies] == [True, True, False, False]
