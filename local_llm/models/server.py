"""Server: a model behind an OpenAI-compatible server (vLLM, Ollama, llama.cpp, LM Studio, ...)."""

import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from local_llm.models.reply import Message, ModelError, Reply, Sampling

TRANSIENT = {429, 500, 502, 503, 504}
# What reading an answer that is no chat completion ends in.
NONSENSE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
# Servers answer with whole web pages.
EXCERPT = 300
# What is left out of a request that is refused, the most dispensable first.
EXTRAS = ("chat_template_kwargs", "response_format")


class Server:
    """Asks an OpenAI-compatible server with plain HTTP: what is sent is what a server's documentation says.

    Nothing that a server promises is relied on. Replies that it leaves out, or sends empty beside others, are asked for again.
    Where it refuses a request, it is asked for one reply at a time; if it refuses again, without the switch for thinking; at
    last without the schema. A server that wants ``max_completion_tokens`` in place of ``max_tokens``, and says so, gets it.

    Args:
        base_url: "http://localhost:11434/v1", or all of the address where it does not end in /v1/chat/completions
        model: its name on the server; the only one that the server lists if None
        api_key: never recorded; without it no key is sent
        timeout: seconds without a word in one request
        retries: how often to repeat a request that finds no server, breaks off, or ends in 429 or 5xx
        backoff: seconds to wait before the first repetition, doubled for each further one

    Raises:
        ModelError: no URL, or the server does not list exactly one model to take for None
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
        if not base_url.startswith(("http://", "https://")):
            raise ModelError(f"a server's URL starts with http:// or https://, got {base_url!r}")
        self.base_url, self.timeout, self.retries, self.backoff = base_url, timeout, retries, backoff
        base = base_url.rstrip("/").removesuffix("/chat/completions")
        # An address that is not /v1 but ends in /chat/completions is meant as it is.
        self._base = base if base.endswith("/v1") or base != base_url.rstrip("/") else f"{base}/v1"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.model = model or self._only_model()

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields n replies; those of one request share its tokens and seconds evenly, so that sums are right.

        Raises:
            ModelError: the server is down, too slow, refuses or answers nonsense; the replies before were yielded
        """
        common: dict[str, Any] = {"model": self.model, "messages": messages}
        common |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
        common["max_tokens"] = sampling.max_new_tokens + sampling.thinking
        common["chat_template_kwargs"] = {"enable_thinking": sampling.thinking > 0}
        if schema is not None:
            common["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        done, at_once = 0, n
        while done < n:
            count, start = min(at_once, n - done), time.perf_counter()
            _say(f"waiting for {count} of {n} replies of {self.model} at {self.base_url}")
            several = {"n": count} if count > 1 else {}
            try:
                completion = self._complete({**common, **several, "seed": sampling.seed_for(first + done)})
            except _RefusedError as error:
                if "max_tokens" in common and "max_completion_tokens" in str(error):
                    common["max_completion_tokens"] = common.pop("max_tokens")
                elif at_once > 1:
                    at_once = 1
                elif (extra := next((name for name in EXTRAS if name in common), None)) is None:
                    raise
                else:
                    del common[extra]
                continue
            seconds = time.perf_counter() - start
            texts, usage = self._read(completion)
            texts = texts[:count]
            for i, (text, finish_reason) in enumerate(texts):
                prompt, reply = (_share(usage, name, i, len(texts)) for name in ("prompt_tokens", "completion_tokens"))
                if "timings" in completion and len(texts) > 1:
                    reply = None  # llama.cpp counts the tokens of one of them
                yield Reply(text, finish_reason, prompt, reply, seconds / len(texts))
            done += len(texts)

    def _read(self, completion: Any) -> tuple[list[tuple[str, str]], Any]:
        """Returns the texts of a completion with their finish reasons, and its count of tokens."""
        try:
            choices, usage = completion["choices"], completion.get("usage") or {}
            if not isinstance(usage, dict):
                raise TypeError(f"usage is a {type(usage).__name__}")
            read = [reply for reply in map(_reply, choices if isinstance(choices, list) else []) if reply]
        except NONSENSE:
            read, usage = [], {}
        if not read:
            raise self._nonsense(f"no reply ({str(completion)[:EXCERPT]})")
        # Where all are empty, as of a model that only thinks, one more of the same request would be, too.
        return [reply for reply in read if reply[0].strip() or reply[1] == "length"] or read, usage

    def _complete(self, body: dict[str, Any]) -> Any:
        """Returns the answer to a request; repeats what may pass."""
        headers = {"Content-Type": "application/json", **self._headers}
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                wait = self.backoff * 2 ** (attempt - 1)
                _say(f"{problem.strip()}; again in {wait:g} s")
                time.sleep(wait)
            request = urllib.request.Request(f"{self._base}/chat/completions", json.dumps(body).encode(), headers)
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    data = response.read()
            except urllib.error.HTTPError as error:
                with error:
                    said = error.read().decode(errors="replace")
                problem = f"{self.base_url} answered {error.code}: {' '.join(said.split())[:EXCERPT]}\n"
                if error.code in (400, 422):
                    raise _RefusedError(f"{problem}Change what it refuses, or take another model.") from None
                if error.code not in TRANSIENT:
                    raise ModelError(
                        f"{problem}Check the model's name, the URL (with /v1), and the key, if it needs one."
                    ) from None
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
                    slow = f"{self.base_url} took more than {self.timeout} s: allow more time, or ask for less at once"
                    raise ModelError(slow) from error
                problem = f"no answer from {self.base_url}: {' '.join(str(error).split())[:EXCERPT]}\n"
            else:
                try:
                    return json.loads(data)
                except NONSENSE as error:
                    raise self._nonsense(f"no chat completion ({str(error)[:EXCERPT]})") from error
        raise ModelError(f"{problem}Tried {self.retries + 1} times: is the server up, and the URL right (with /v1)?")

    def _nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.base_url} sent {what}: is it an OpenAI-compatible server, and the URL right (with /v1)?")

    def _only_model(self) -> str:
        url = f"{self._base}/models"
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=min(self.timeout, 30)) as response:
                names = [str(model["id"]) for model in json.load(response)["data"]]
        except (OSError, http.client.HTTPException, *NONSENSE) as error:
            raise ModelError(f"cannot list the models at {url} ({error}): is the server up? Or name the model") from error
        if len(names) != 1:
            raise ModelError(f"{self.base_url} has {len(names)} models, name one of them: {', '.join(names)}")
        return names[0]


class _RefusedError(ModelError):
    """The server does not serve the request as it is."""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _reply(choice: Any) -> tuple[str, str] | None:
    """Returns a choice's text and finish reason; None if it is none."""
    try:
        text, finish_reason = choice["message"].get("content"), choice.get("finish_reason")
    except NONSENSE:
        return None
    if text is None and isinstance(finish_reason, str):
        text = ""  # nothing came after its thinking
    if not isinstance(text, str) or not (text or isinstance(finish_reason, str)):
        return None
    # JSON can carry half a surrogate pair, which no file can.
    return text.encode(errors="replace").decode(), "length" if finish_reason == "length" else "stop"


def _share(usage: Any, name: str, i: int, among: int) -> int | None:
    """Returns the i-th of the even parts of a token count; None if the server sent none."""
    count = usage.get(name)
    return count * (i + 1) // among - count * i // among if isinstance(count, int) else None
