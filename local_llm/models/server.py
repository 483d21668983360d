"""Server: a model behind an OpenAI-compatible server (vLLM, Ollama, llama.cpp, LM Studio, ...)."""

import functools
import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from typing import Any

from local_llm.models.message import text_of
from local_llm.models.reply import Message, ModelError, Reply, Sampling, answer_room, without_bounds

TRANSIENT = {408, 409, 429, 500, 502, 503, 504, 529}
LONGEST_WAIT = 300.0  # seconds of a server's Retry-After
# The errors of reading an answer that is not JSON.
NO_JSON = (ValueError, RecursionError)
# Servers answer with whole web pages.
EXCERPT = 300
# In text, no tokenizer has more characters per token than this.
MOST_CHARACTERS_PER_TOKEN = 5
# Tokens that a chat template may add to a prompt.
SPARE = 128
# The parts to leave out of a refused request, the most dispensable first.
EXTRAS = ("chat_template_kwargs", "response_format")
# How servers that do not report their context refuse (OpenAI, llama-cpp-python): groups: context, tokens of the prompt.
TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.*\((\d+) in the messages")
MOST_TOKENS = re.compile(r"at most (\d+) completion tokens")


class Server:
    """Asks an OpenAI-compatible server over plain HTTP, as the servers' documentation describes.

    It does not rely on a server's promises. It asks again for replies that are missing, or empty beside others. If a refusal
    asks for ``max_completion_tokens`` in place of ``max_tokens``, or for a shorter answer, it sends that. If a refusal names
    ``seed``, ``top_p``, ``temperature`` or ``chat_template_kwargs`` (the switch for thinking), that is left out from then on,
    with a warning; if it names ``response_format``, the schema is sent in an older form, and then left out. If no field is
    named, it asks for one reply at a time; then leaves out the switch for thinking; and then does the same with the schema.

    If a server reports the size of its context (llama.cpp, vLLM), a prompt that is too long is not sent. Other servers refuse
    such a prompt or cut it silently; a warning follows if a server counts far fewer tokens than were sent.

    Args:
        base_url: "http://localhost:11434/v1", or the whole address, .../chat/completions; without a version it gets /v1
        model: its name on the server; None takes the only model that the server lists
        api_key: never recorded; None sends no key
        timeout: seconds to wait for data in one request
        retries: how often to repeat a request that reaches no server, breaks off, or ends in an error that may pass
        backoff: seconds to wait before the first repetition, doubled for each further one; or longer, if the server asks for it

    Raises:
        ModelError: ``base_url`` is not a URL, or ``model`` is None and the server does not list exactly one model
    """

    revision: str | None = None

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 1800.0,
        retries: int = 3,
        backoff: float = 1.0,
    ) -> None:
        if not re.fullmatch(r"https?://[!-~]+", base_url):
            raise ModelError(f"a server's URL starts with http:// or https:// and has no spaces, got {base_url!r}")
        if api_key and not re.fullmatch(r"[!-~]+", api_key):
            raise ModelError("the server's key holds a space, a line end or a letter that no key has")  # not shown
        self.base_url, self.timeout, self.retries, self.backoff = base_url, timeout, retries, backoff
        base = base_url.rstrip("/").removesuffix("/chat/completions")
        # An address with a version, or that ends in /chat/completions, is used unchanged.
        is_whole = re.search(r"/v\d\w*(/|$)", base) or base != base_url.rstrip("/")
        self._base = base if is_whole else f"{base}/v1"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.model = model or self._only_model()
        self._counts = True  # until the server turns out not to
        self.left_out: set[str] = set()  # settings that the server refused by name
        self._limit = "max_tokens"

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields n replies; the replies of one request share its tokens and seconds evenly, so that sums are right.

        Raises:
            PromptTooLong: see ``answer_room``
            ModelError: the server is down or too slow, refuses, or answers nonsense; earlier replies were yielded
        """
        text = "\n".join(message["content"] for message in messages)
        counted = self.count_tokens(text)
        tokens = counted or len(text) // MOST_CHARACTERS_PER_TOKEN
        most = sampling.max_new_tokens + sampling.thinking
        if (context := self._context) is not None:
            about = "" if counted else "at least "
            room = answer_room(most, tokens + (SPARE if counted else 0), context, self.model, about)
            most = room if counted else most
        common: dict[str, Any] = {"model": self.model, "messages": messages}
        if "chat_template_kwargs" not in self.left_out:
            common["chat_template_kwargs"] = {"enable_thinking": sampling.thinking > 0}
        schema = without_bounds(schema)
        if schema is not None:
            common["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        done, at_once, last = 0, n, None
        while done < n:
            count, start = min(at_once, n - done), time.perf_counter()
            _say(f"waiting for {count} of {n} replies of {self.model} at {self.base_url}")
            several = {"n": count} if count > 1 else {}
            drawn = {"seed": sampling.seed_for(first + done), "top_p": sampling.top_p, "temperature": sampling.temperature}
            unsent = self.left_out | ({"top_p"} if sampling.top_p == 1 else set())
            drawn = {name: value for name, value in drawn.items() if name not in unsent}
            try:
                completion = self._complete({**common, self._limit: most, **several, **drawn})
            except _RefusedError as error:
                if not error.is_about_the_request:
                    raise
                told = TOO_LONG.search(error.said)
                room = answer_room(most, int(told[2]), int(told[1]), self.model) if told else most
                room = min([room, *map(int, MOST_TOKENS.findall(error.said))])
                optional = [*drawn, *(name for name in EXTRAS if name in common)]  # the most dispensable first
                named = next((name for name in optional if re.search(rf"\b{name}\b", error.said)), None)
                if self._limit == "max_tokens" and "max_completion_tokens" in error.said:
                    self._limit = "max_completion_tokens"
                elif room < most:
                    most = room
                elif named and named != "response_format":
                    self.left_out.add(named)
                    common.pop(named, None)
                    _warn_of_a_refused_field(named, self.base_url)
                elif at_once > 1 and not named:
                    at_once = 1
                elif (extra := named or next((name for name in EXTRAS if name in common), None)) is None:
                    raise
                elif common[extra].get("type") == "json_schema":
                    common[extra] = {"type": "json_object", "schema": schema}
                else:
                    del common[extra]
                continue
            seconds = time.perf_counter() - start
            texts, usage = self._read(completion)
            _warn_of_a_cut(usage.get("prompt_tokens"), tokens, self.base_url)
            texts = texts[:count]
            for i, (text, finish_reason) in enumerate(texts):
                if text and text == last and sampling.temperature > 0:
                    _warn_of_likeness(self.base_url)
                last = text
                prompt, reply = (_share(usage, name, i, len(texts)) for name in ("prompt_tokens", "completion_tokens"))
                if "timings" in completion and len(texts) > 1:
                    reply = None  # llama.cpp counts the tokens of one reply alone
                yield Reply(text, finish_reason, prompt, reply, seconds / len(texts), left_out=tuple(sorted(self.left_out)))
            done += len(texts)

    def count_tokens(self, text: str) -> int | None:
        """Returns how many tokens a text has by the server's /tokenize (llama.cpp, vLLM); None if that does not exist."""
        if not self._counts:
            return None
        # llama.cpp reads "content", vLLM reads "prompt".
        answer = self._json("/tokenize", {"model": self.model, "content": text, "prompt": text})
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        count = len(tokens) if isinstance(tokens, list) else 0
        self._counts = count > 0
        return count or None

    @functools.cached_property
    def weights(self) -> dict[str, Any] | None:
        """Returns what the server reports about the weights that it serves under the model's name; None if it reports nothing.

        This does not change with the port or a restart: the weights' folder or name (vLLM), their file, number and size in
        bytes (llama.cpp), or their hash (Ollama).
        """
        told = {"root": _find(self._listed, "root"), "model_path": _find(self._props, "model_path")}
        told |= {name: _find(self._listed, "meta", name) for name in ("n_params", "size")}
        kinds = {"root": str, "model_path": str, "n_params": int, "size": int}
        told = {name: value for name, value in told.items() if value and isinstance(value, kinds[name])}
        if told:
            return told
        names, models = (self.model, f"{self.model}:latest"), _list(_find(self._json("/api/tags"), "models"))
        digest = next((_find(model, "digest") for model in models if _find(model, "name") in names), None)
        return {"digest": digest} if digest and isinstance(digest, str) else None

    @functools.cached_property
    def _context(self) -> int | None:
        """Returns how many tokens the server takes, prompt and answer together; None if it does not report that."""
        found = [_find(self._listed, *path) for path in (("max_model_len",), ("meta", "n_ctx_train"))]
        found.append(_find(self._props, "default_generation_settings", "n_ctx"))
        return min((count for count in found if isinstance(count, int) and count > 0), default=None)

    @functools.cached_property
    def _listed(self) -> Any:
        """Returns the model's entry in the list of models; llama.cpp serves its only model under any name."""
        models = _list(_find(self._json("/v1/models"), "data"))
        named = [model for model in models if _find(model, "id") == self.model]
        return next(iter(named or models[: len(models) == 1]), None)

    @functools.cached_property
    def _props(self) -> Any:
        return self._json("/props")

    def _json(self, path: str, body: Any = None) -> Any:
        """Returns the server's answer at an address outside the OpenAI-compatible ones; None if there is none."""
        try:
            return json.loads(self._send(self._base.removesuffix("/v1") + path, body, min(self.timeout, 30)))
        except (_AnsweredError, _TooSlowError, *NO_JSON):
            return None

    def _read(self, completion: Any) -> tuple[list[tuple[str, str]], Any]:
        """Returns the texts of a completion with their finish reasons, and its count of tokens."""
        choices, usage = _find(completion, "choices"), _find(completion, "usage") or {}
        read = [reply for reply in map(_reply, _list(choices)) if reply]
        if any(_find(choice, "finish_reason") == "content_filter" for choice in _list(choices)):
            _warn_of_a_filter(self.base_url)
        if not read or not isinstance(usage, dict):
            raise self._nonsense(f"no reply ({str(completion)[:EXCERPT]})")
        # If all replies are empty (the model only thinks), another reply to the same request would be empty, too.
        return [reply for reply in read if reply[0].strip() or reply[1] == "length"] or read, usage

    def _complete(self, body: dict[str, Any]) -> Any:
        """Returns the answer to a request."""
        data = self._send(f"{self._base}/chat/completions", body, self.timeout)
        try:
            return json.loads(data)
        except NO_JSON as error:
            raise self._nonsense(f"no chat completion ({str(error)[:EXCERPT]})") from error

    def _send(self, url: str, body: Any, timeout: float) -> bytes:
        """Returns the answer to a request; repeats it after errors that may pass (503 while the server loads its model)."""
        data = None if body is None else json.dumps(body).encode()
        problem, failed, asked_wait = "", ModelError, 0.0
        advice = "is the server up, and the URL right (with /v1)?"
        for attempt in range(self.retries + 1):
            if attempt:
                wait = max(self.backoff * 2 ** (attempt - 1), asked_wait)
                _say(f"{problem.strip()}; again in {wait:g} s")
                time.sleep(wait)
            request = urllib.request.Request(url, data, {"Content-Type": "application/json", **self._headers})
            try:
                with urllib.request.urlopen(request, timeout=timeout) as response:
                    return response.read()
            except urllib.error.HTTPError as error:
                with error:
                    said, after = error.read().decode(errors="replace"), error.headers.get("Retry-After") or ""
                asked_wait = min(float(after), LONGEST_WAIT) if re.fullmatch(r"\d+(\.\d+)?", after) else 0.0
                if error.code == 429:
                    advice = "it limits requests, or a quota is used up: run the command again later"
                failed = _AnsweredError
                problem = f"{url} answered {error.code}: {' '.join(said.split())[:EXCERPT]}\n"
                # llama-cpp-python answers 500 to a form of the schema that it does not know.
                if error.code not in TRANSIENT or "response_format" in said:
                    raise _RefusedError(problem, error.code) from None
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
                    less = "ask for less at once (fewer --candidates, a smaller --max-new-tokens)"
                    raise _TooSlowError(f"{self.base_url} took more than {timeout} s: {less}") from error
                failed = ModelError
                problem = f"no answer from {self.base_url}: {' '.join(str(error).split())[:EXCERPT]}\n"
        raise failed(f"{problem}Tried {self.retries + 1} times: {advice}")

    def _nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.base_url} sent {what}: is it an OpenAI-compatible server, and the URL right (with /v1)?")

    def _only_model(self) -> str:
        url = f"{self._base}/models"
        try:
            listed = _find(json.loads(self._send(url, None, min(self.timeout, 30))), "data")
        except (ModelError, *NO_JSON) as error:
            raise ModelError(f"cannot list the models at {url}, and no model is named: {error}") from error
        names = [str(_find(model, "id")) for model in _list(listed)]
        if len(names) != 1:
            raise ModelError(f"{self.base_url} has {len(names)} models, name one of them: {', '.join(names)}")
        return names[0]


class _AnsweredError(ModelError):
    """Reports that the server answers with an error."""


class _TooSlowError(ModelError):
    """Reports that the server does not answer in time."""


class _RefusedError(_AnsweredError):
    """Reports that the server refuses the request in this form."""

    def __init__(self, problem: str, code: int) -> None:
        self.said, self.is_about_the_request = problem, code in (400, 422, 500)
        advice = "Check the model's name, the URL (with /v1, or the whole address), and the key, if it needs one."
        options = "Change what it refuses (--temperature, --top-p, --max-new-tokens), or take another model."
        super().__init__(problem + (options if self.is_about_the_request else advice))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _find(value: Any, *names: str) -> Any:
    """Returns the value under nested names; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _warn_of_a_cut(prompt_tokens: Any, least: int, base_url: str) -> None:
    if isinstance(prompt_tokens, int) and 0 < prompt_tokens < 0.8 * least:
        warnings.warn(
            f"{base_url} read {prompt_tokens:,} tokens of a prompt of at least {least:,}: it cut the prompt to its "
            "context, and the reply answers the rest; start it with a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)",
            stacklevel=3,
        )


def _warn_of_a_refused_field(name: str, base_url: str) -> None:
    warnings.warn(f"{base_url} refuses {name!r}: it is left out, and the server uses its own", stacklevel=3)


def _warn_of_a_filter(base_url: str) -> None:
    warnings.warn(f"{base_url} stopped a reply: its content filter does not let the model write the rest", stacklevel=4)


def _warn_of_likeness(base_url: str) -> None:
    warnings.warn(
        f"{base_url} sent one reply twice, for two seeds: it may take the most probable token, whatever it is asked for "
        '(transformers serve: write "do_sample": true into the generation_config.json of the model)',
        stacklevel=3,
    )


def _reply(choice: Any) -> tuple[str, str] | None:
    """Returns a choice's text and finish reason; None if it is not a valid choice."""
    message, finish_reason = _find(choice, "message"), _find(choice, "finish_reason")
    if not isinstance(message, dict):
        return None
    text = text_of(message, finish_reason == "length")
    if text is None or not (text or isinstance(finish_reason, str)):
        return None
    # JSON can hold half a surrogate pair; a file cannot.
    return text.encode(errors="replace").decode(), "length" if finish_reason == "length" else "stop"


def _share(usage: Any, name: str, i: int, among: int) -> int | None:
    """Returns the i-th of the even parts of a token count; None if the server sent none."""
    count = usage.get(name)
    return count * (i + 1) // among - count * i // among if isinstance(count, int) else None
