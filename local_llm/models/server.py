"""Server: a model behind an OpenAI-compatible server (vLLM, Ollama, llama.cpp, LM Studio, ...)."""

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from local_llm.models.reply import Message, ModelError, Reply, Sampling

TRANSIENT = {429, 500, 502, 503, 504}
# What reading an answer that is no chat completion ends in.
NONSENSE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
# Servers answer with whole web pages.
EXCERPT = 300


class Server:
    """Asks an OpenAI-compatible server through ``huggingface_hub.InferenceClient``.

    Nothing that a server promises is relied on: replies that it leaves out, or sends empty beside others, are asked for again,
    and where it refuses ``n``, a schema or the switch for thinking, it is asked for one reply at a time without them. A schema
    goes out as ``response_format``, which the client rewrites to ``{"type": "json_object", "value": schema}``.

    Args:
        base_url: "http://localhost:11434/v1", or all of the address where it does not end in /v1/chat/completions
        model: its name on the server; the only one that the server lists if None
        api_key: never recorded; without it no key is sent, not even your Hugging Face token
        timeout: seconds for one request
        retries: how often to repeat a request that finds no server, breaks off, or ends in 429 or 5xx
        backoff: seconds to wait before the first repetition, doubled for each further one

    Raises:
        ModelError: no URL, huggingface_hub is missing, or the server does not list exactly one model to take for None
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
        try:
            from huggingface_hub import InferenceClient
        except ImportError as error:
            raise ModelError('asking a server needs huggingface_hub: pip install -e ".[llm]"') from error
        # Without any key the client would send the user's Hugging Face token, to whatever server this is.
        self._client = InferenceClient(base_url=base_url, api_key=api_key or "none", timeout=timeout)
        self.base_url, self.timeout, self.retries, self.backoff = base_url, timeout, retries, backoff
        self.model = model or self._only_model(api_key)

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields n replies; those of one request share its tokens and seconds evenly, so that sums are right.

        Raises:
            ModelError: the server is down, too slow, refuses or answers nonsense; the replies before were yielded
        """
        extras: dict[str, Any] = {"extra_body": {"chat_template_kwargs": {"enable_thinking": sampling.thinking > 0}}}
        if schema is not None:
            extras["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        done, at_once = 0, n
        while done < n:
            parameters = {
                "n": min(at_once, n - done),
                "seed": sampling.seed_for(first + done),
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "max_tokens": sampling.max_new_tokens + sampling.thinking,
            }
            start = time.perf_counter()
            try:
                completion = self._complete(messages, parameters | extras)
            except _RefusedError:
                if not extras:
                    raise
                extras, at_once = {}, 1
                continue
            seconds = time.perf_counter() - start
            choices = getattr(completion, "choices", None)
            read = [reply for reply in map(_read, choices if isinstance(choices, list) else []) if reply]
            # Where all are empty, as of a model that only thinks, one more of the same request would be, too.
            texts = ([reply for reply in read if reply[0].strip() or reply[1] == "length"] or read)[: parameters["n"]]
            if not texts:
                raise self._nonsense(f"no reply ({str(completion)[:EXCERPT]})")
            for i, (text, finish_reason) in enumerate(texts):
                prompt, reply = (_share(completion, name, i, len(texts)) for name in ("prompt_tokens", "completion_tokens"))
                yield Reply(text, finish_reason, prompt, reply, seconds / len(texts))
            done += len(texts)

    def _complete(self, messages: list[Message], parameters: dict[str, Any]) -> Any:
        """Returns what the client made of the answer; repeats what may pass."""
        from huggingface_hub.errors import OfflineModeIsEnabled

        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(self.backoff * 2 ** (attempt - 1))
            try:
                return self._client.chat_completion(messages, model=self.model, **parameters)
            except TimeoutError as error:
                problem = f"{self.base_url} took more than {self.timeout} s: allow more time, or ask for less at once"
                raise ModelError(problem) from error
            except OfflineModeIsEnabled as error:
                problem = f"HF_HUB_OFFLINE keeps huggingface_hub from asking even {self.base_url}: unset it for this command"
                raise ModelError(problem) from error
            except Exception as error:  # of the HTTP library below the client, which has changed and may change again
                status = getattr(getattr(error, "response", None), "status_code", None)
                if status is None and isinstance(error, NONSENSE):
                    raise self._nonsense(f"no chat completion ({str(error)[:EXCERPT]})") from error
                problem = f"{self.base_url} answered {status}" if status else f"no answer from {self.base_url}"
                problem += f": {' '.join(str(error).split())[:EXCERPT]}\n"
                if status in (400, 422):
                    raise _RefusedError(f"{problem}Change what it refuses, or take another model.") from error
                if status is not None and status not in TRANSIENT:
                    raise ModelError(
                        f"{problem}Check the model's name, the URL (with /v1), and the key, if it needs one."
                    ) from error
        raise ModelError(f"{problem}Tried {self.retries + 1} times: is the server up, and the URL right (with /v1)?")

    def _nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.base_url} sent {what}: is it an OpenAI-compatible server, and the URL right (with /v1)?")

    def _only_model(self, api_key: str | None) -> str:
        base = self.base_url.rstrip("/")
        url = base.removesuffix("/chat/completions") + ("/models" if base.endswith(("/v1", "/completions")) else "/v1/models")
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {api_key}"} if api_key else {})
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


def _read(choice: Any) -> tuple[str, str] | None:
    """Returns a choice's text and finish reason; None if it is none."""
    text, finish_reason = getattr(getattr(choice, "message", None), "content", None), getattr(choice, "finish_reason", None)
    if text is None and isinstance(finish_reason, str):
        text = ""  # nothing came after its thinking
    if not isinstance(text, str) or not (text or isinstance(finish_reason, str)):
        return None
    # JSON can carry half a surrogate pair, which no file can.
    return text.encode(errors="replace").decode(), "length" if finish_reason == "length" else "stop"


def _share(completion: Any, name: str, i: int, among: int) -> int | None:
    """Returns the i-th of the even parts of a token count; None if the server sent none."""
    count = getattr(getattr(completion, "usage", None), name, None)
    return count * (i + 1) // among - count * i // among if isinstance(count, int) else None
