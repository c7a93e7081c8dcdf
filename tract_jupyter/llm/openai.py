"""A client of every provider that speaks OpenAI's chat completions: hosted ones, Ollama, vLLM, llama.cpp, ...

Reference: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
import math
import os
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from tract_jupyter.exceptions import LLMConfigError, LLMRequestError
from tract_jupyter.llm.call import Call
from tract_jupyter.llm.chunks import Assembly, events, text_of
from tract_jupyter.llm.failures import Failures
from tract_jupyter.llm.retrying import with_retries
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    import httpx

    from tract_jupyter.llm.call import Abort

OPENAI: Final = "https://api.openai.com/v1"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
MAX_REPLY: Final = 32 * 1024 * 1024
"""Bytes of a reply; what is larger is no reply."""
_CONNECT_TIMEOUT: Final = 10.0  # seconds
_OK: Final = 200

T = TypeVar("T")


class OpenAIClient:
    """Asks a model over HTTP; see `protocols.LLMClient`. Threads may share it.

    Args:
        model: the model that is asked unless a call names another one.
        base_url: where the provider is, with its version: `http://localhost:11434/v1` for Ollama.
        api_key: the key, by default that of the environment variable `OPENAI_API_KEY`; an empty text for none.
        timeout: seconds without a sign of the provider after which a call fails.
        max_retries: how often a request is sent again after a refusal (429), a failure of the provider (5xx) or of the
            connection; with a pause that the provider names (Retry-After), or that grows.
        backoff: seconds of the first pause; each further one is twice as long, at most 8 s.
        headers: more headers to send.
        transport: an `httpx.BaseTransport` to send by, instead of the network.
        about_key: what an error advises where the provider does not take the key: where it comes from.
        about_model: what an error advises where no model is named.

    Raises:
        LLMConfigError: an argument cannot be used.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str = OPENAI,
        api_key: str | None = None,
        timeout: float = 120.0,
        max_retries: int = 2,
        backoff: float = 0.5,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        about_key: str = "",
        about_model: str = "give one to OpenAIClient(model), or as chat(messages, model=...)",
    ) -> None:
        self.model = model
        self.base_url = _checked_url(base_url)
        self.timeout = _checked_number(timeout, "timeout", least=0.001)
        self.max_retries = int(_checked_number(max_retries, "max_retries"))
        self.backoff = _checked_number(backoff, "backoff")
        key = os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key
        self._headers = _checked_headers(key, headers)
        about_key = about_key or _about_key(api_key, headers)
        self._failures = Failures(self.base_url, [key, *(headers or {}).values()], about_key)
        self._about_model = about_model
        self._transport = transport
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._is_closed = False
        self._ssl: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        key = ", with a key" if "Authorization" in self._headers else ""
        return f"<OpenAIClient {self.model or 'no model'} at {self.base_url}{key}>"

    # --- asking

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        on_delta: Callable[[str], object] | None = None,
        abort: Abort | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the reply in OpenAI's shape, with all that the provider put into it.

        Args:
            messages: what to reply to, in OpenAI's shape.
            on_delta: called with each piece of the text as it comes.
            abort: ends the call when it is set: a `threading.Event`, or what has its `is_set` and `wait`; that of
                `llm.call.ended_by` if left out.
            **options: `model`, `temperature`, `tools`, ..., as the provider names them.

        Raises:
            LLMRequestError: there is no reply; `code` tells why.
            LLMConfigError: no model is named, or the request has no JSON form.
        """
        if on_delta is None:
            body = self._body(messages, options)
            with self._call(abort) as call:
                return self._tried(call, lambda: self._asked(call, body))
        stream = self.stream(messages, abort=abort, **options)
        for delta in stream:
            on_delta(delta)
        return stream.reply

    def stream(
        self, messages: list[dict[str, Any]], *, abort: Abort | None = None, **options: Any
    ) -> ReplyStream:
        """Return the pieces of the reply's text as they come; the whole reply is in `reply` after the last one.

        Arguments and errors as for `chat`; errors come while it is read. A request is not sent again once a piece
        has come.
        """
        asked = {"stream_options": {"include_usage": True}, **options}
        return ReplyStream(self._streamed(self._body(messages, asked, stream=True), abort))

    # --- ending

    def cancel(self) -> None:
        """End all calls that are under way, in whichever thread; they raise `LLMRequestError`, code `cancelled`."""
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def close(self) -> None:
        """End all calls, and take no more."""
        with self._lock:
            self._is_closed = True
        self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    # --- one request

    def _body(
        self, messages: list[dict[str, Any]], options: dict[str, Any], *, stream: bool = False
    ) -> bytes:
        model = options.get("model") or self.model
        if not isinstance(model, str) or not model:
            raise LLMConfigError(f"no model is named; {self._about_model}")
        # `stream` is not for the caller to choose: the reply would be read in another way
        body = {**options, "model": model, "messages": messages, "stream": stream}
        try:
            return json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise LLMConfigError(f"the request has no JSON form, so nothing was sent: {error}") from None

    @contextmanager
    def _call(self, abort: Abort | None) -> Iterator[Call]:
        with Call(abort) as call:
            with self._lock:
                if self._is_closed:
                    raise LLMConfigError(f"{self!r} was closed; make another one")
                self._calls.add(call)
            try:
                yield call
            finally:
                with self._lock:
                    self._calls.discard(call)

    def _tried(self, call: Call, attempt: Callable[[], T]) -> T:
        return with_retries(attempt, call, max_retries=self.max_retries, backoff=self.backoff)

    def _asked(self, call: Call, body: bytes) -> dict[str, Any]:
        with self._answer(call, body) as response:
            return self._failures.reply_of(b"".join(self._bounded(response)))

    def _streamed(self, body: bytes, abort: Abort | None) -> Iterator[str | dict[str, Any]]:
        """The pieces of the text, and last of all the reply."""
        with self._call(abort) as call:
            # a failure is tried again until there is a first piece: whoever has it must not get it twice
            first, rest = self._tried(call, lambda: _begun(self._pieces(call, body)))
            yield first
            yield from rest

    def _pieces(self, call: Call, body: bytes) -> Iterator[str | dict[str, Any]]:
        assembly = Assembly()
        with self._answer(call, body) as response:
            if "application/json" in response.headers.get("content-type", ""):
                reply = self._failures.reply_of(b"".join(self._bounded(response)))
                yield from (text for text in [text_of(reply)] if text)
                yield reply  # this provider streams nothing
                return
            for event in events(self._bounded(response)):
                self._failures.check_event(event)
                yield from assembly.add(event)
            if not assembly.is_complete:
                raise self._failures.error("the stream ended before the reply did", is_transient=True)
        yield assembly.reply()

    @contextmanager
    def _answer(self, call: Call, body: bytes) -> Iterator[httpx.Response]:
        """Send a request; the answer is a success, and to be read within."""
        call.check()
        url, trace = f"{self.base_url}/chat/completions", {"trace": call.trace}
        with (
            self._failures.named(call),
            self._http() as http,
            http.stream("POST", url, headers=self._headers, content=body, extensions=trace) as response,
        ):
            if response.status_code != _OK:
                raise self._failures.refused(response, b"".join(self._bounded(response)))
            yield response

    def _http(self) -> AbstractContextManager[httpx.Client]:
        """A connection for one request, so that a call that is ended takes no other one with it."""
        import httpx

        timeout = httpx.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_TIMEOUT))
        if self._transport is not None:
            return nullcontext(
                httpx.Client(transport=self._transport, timeout=timeout)
            )  # it is not ours to close
        with self._lock:
            self._ssl = self._ssl or httpx.create_ssl_context()  # reading all certificates takes its time
        return httpx.Client(verify=self._ssl, timeout=timeout)

    def _bounded(self, response: httpx.Response) -> Iterator[bytes]:
        """The bytes of an answer, up to a limit."""
        size = 0
        for part in response.iter_bytes():
            size += len(part)
            if size > MAX_REPLY:
                raise self._failures.error(f"the answer is larger than {MAX_REPLY:,} bytes")
            yield part


class ReplyStream:
    """The pieces of one reply's text, to be read once; what comes of them is in `reply`."""

    def __init__(self, pieces: Iterator[str | dict[str, Any]]) -> None:
        self._pieces = pieces
        self._reply: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[str]:
        for piece in self._pieces:
            if isinstance(piece, str):
                yield piece
            else:
                self._reply = piece

    @property
    def reply(self) -> dict[str, Any]:
        """The whole reply, as `chat` returns it; what was not read yet is read now.

        Raises:
            LLMRequestError: it did not come to its end.
        """
        for _ in self:
            pass
        if self._reply is None:
            raise LLMRequestError("the stream was not read to its end, so there is no whole reply; ask again")
        return self._reply

    def close(self) -> None:
        """Stop reading, and end the request."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def _begun(pieces: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    return next(pieces), pieces


def _about_key(api_key: str | None, headers: Mapping[str, str] | None) -> str:
    if api_key:
        return "Check the key that OpenAIClient was given as api_key"
    if any(name.lower() != "user-agent" for name in headers or {}):
        return "Check the headers that OpenAIClient was given"
    if api_key is None:
        return f"Check the key in the environment variable {KEY_VARIABLE}, or give OpenAIClient(api_key=...)"
    return "It wants a key, and is sent none: give OpenAIClient(api_key=...)"


def _checked_url(url: object) -> str:
    try:
        parts = urlsplit(url) if isinstance(url, str) and url.isprintable() else None
    except ValueError:  # such as half an IPv6 address
        parts = None
    # first of all, so that no message repeats a password
    if parts is not None and ("@" in parts.netloc or parts.query or parts.fragment):
        raise LLMConfigError(
            "base_url has a user, password, query or fragment, which would be shown with it; give keys as "
            "api_key or headers"
        )
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        given = "one with a user or password" if "@" in str(url) else brief_repr(url)
        raise LLMConfigError(f"base_url is a text such as {OPENAI!r}, not {given}")
    return str(url).rstrip("/")


def _checked_number(value: object, what: str, *, least: float = 0) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < least
    ):
        raise LLMConfigError(f"{what} is a number from {least} on, not {brief_repr(value)}")
    return value


def _checked_headers(key: str, more: Mapping[str, str] | None) -> dict[str, str]:
    """All headers; what is wrong with them is told without their values."""
    if not isinstance(key, str):
        raise LLMConfigError(f"api_key is a text, not of the type {type(key).__name__}")
    headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {key.strip()}"} if key.strip() else {}
    headers |= dict(more or {})
    for name, value in headers.items():
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            raise LLMConfigError(f"the header {name!r} has characters that cannot be sent; look at the key")
    return headers
