"""The common base of clients that call a model over HTTP: addresses, keys, limits, retries, streaming, cancellation.

A dialect is a subclass of `HTTPClient` that translates requests, whole replies and streams.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeVar

from tract_jupyter.exceptions import LLMBudgetError, LLMConfigError, LLMRequestError
from tract_jupyter.llm.blocks import SentBlocks, are_refused
from tract_jupyter.llm.call import ModelCall
from tract_jupyter.llm.failures import NO_ATTACHMENTS, NO_TOOLS, Failures, json_of
from tract_jupyter.llm.keys import hidden_address, is_address, masked, masked_in, repeatable
from tract_jupyter.llm.messages import CHARACTERS_PER_TOKEN, CUT_REASONS, Usage, sound
from tract_jupyter.llm.redaction import redacted_body
from tract_jupyter.llm.request import ModelRequest
from tract_jupyter.llm.sse import ReplyStream, WholeCharacters, deltas_of, events
from tract_jupyter.llm.thinking import ThoughtStream
from tract_jupyter.llm.user_budget import take_reservation
from tract_jupyter.models import Delta, admin_limits, brief_repr, repr_of_whole

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    import httpx

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.llm.blocks import Dialect
    from tract_jupyter.llm.sse import Assembly

LONGEST_PAUSE: Final = 60.0
"""Seconds. A provider that asks for more is not waited for: the error says how long it would be."""
MAX_REPLY: Final = 32 * 1024 * 1024
"""Maximum size of a reply in bytes. Larger replies are refused."""
_LONGEST_OWN_PAUSE: Final = 8.0
_SECRET_HEADER: Final = re.compile(r"key|token|auth|cookie|secret", re.IGNORECASE)
_CONNECT_TIMEOUT: Final = 10.0  # seconds
_NO_CONTENT: Final = 204
_DONE: Final = b"[DONE]"
_IS_STREAM: Final = re.compile(rb"\s*(?:data|event|id|retry)?:")

_MISSING: Final = {
    NO_ATTACHMENTS:
        "This model does not accept such attachments: use one that does, as in "
        "tract.models.use('anthropic/claude-sonnet-5-5'), or send the message without them",
    NO_TOOLS: "Choose a model that can call tools, or ask without tools: %%tract_chat --plan",
}  # fmt: skip
"""Remedies if a model lacks an ability, by a pattern of the provider's error."""

T = TypeVar("T")
BeforeRetry = Callable[[Mapping[str, Any]], object]
"""Callback before a retry. It receives the usage of the failed try and raises an error to prevent the retry."""


class _Prepared(NamedTuple):
    """A request that is ready to send, with its blocks and the reply's token limit.

    `again` prepares it without the blocks of earlier replies.
    """

    model: str
    body: bytes
    blocks: SentBlocks
    most_tokens: int | None
    again: Callable[[], _Prepared]


class HTTPClient(ABC):
    """A thread-safe client that calls a model over HTTP; see `models.LLMClient`.

    Args:
        model: the default model of requests.
        base_url: the provider's address; by default the dialect's own provider. It may include the path of requests.
        api_key: the key, by default from the environment variable of the dialect's provider. An empty string means no
            key.
        timeout: seconds without data from the provider until a request fails.
        max_retries: the number of retries after a rate limit (429), a server error (5xx) or a lost connection. The
            provider sets the pause (Retry-After). Otherwise the pause grows.
        backoff: seconds of the first pause. Each further pause is twice as long, at most 8 s.
        headers: more headers to send.
        transport: an `httpx.BaseTransport` to use instead of the network.
        about_key: the remedy for a refused key: the source of the key.
        about_model: the remedy for a missing model name.

    Raises:
        LLMConfigError: an argument is invalid.
    """

    dialect: ClassVar[Dialect]
    provider_url: ClassVar[str]
    """The address of the dialect's own provider."""
    limit_name: ClassVar[str] = "max_tokens"
    """The field of a request with the reply's token limit."""
    unsure_ends: ClassVar[frozenset[str | None]] = frozenset({None})
    """Finish reasons that a server may also give for a reply that reached its limit."""
    path: ClassVar[str]
    """The path that requests go to, after the address."""
    key_variable: ClassVar[str]
    """The environment variable of the key."""
    default_max_tokens: ClassVar[int | None] = None
    """The token limit of a reply if the request sets none. None leaves the limit to the provider."""
    about_url: ClassVar[str] = "base_url"
    """The argument to check if the address does not exist."""
    hints: ClassVar[Mapping[str, str]] = {}
    """Remedies by a pattern of the provider's error."""

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        max_retries: int = 2,
        backoff: float = 0.5,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        about_key: str = "",
        about_model: str = "",
    ) -> None:
        # before anything can fail: a traceback may show variables
        api_key = None if api_key is None else masked(api_key)
        base_url = hidden_address(base_url)
        headers = {name: masked(value) for name, value in (headers or {}).items()}
        self.model = model
        given_url = _checked_url(self.provider_url if base_url is None else base_url, self.provider_url)
        self.base_url = _without_path(given_url, self.path)
        self.timeout = _checked_number(timeout, "timeout", least=0.001)
        self.max_retries = int(_checked_number(max_retries, "max_retries"))
        self.backoff = _checked_number(backoff, "backoff")
        key = masked(os.environ.get(self.key_variable, "")) if api_key is None else api_key
        if not isinstance(key, str):
            raise LLMConfigError(f"api_key must be a string, not of the type {type(key).__name__}")
        self._headers = _checked_headers(self._own_headers(key.strip()), headers)
        self._failures = Failures(
            self.base_url,
            [key, *headers.values()],
            about_key=about_key or self._about_key(api_key, headers),
            about_url=self.about_url,
            hints={**self.hints, **_MISSING},
        )
        self._repeated = repeatable(self.secrets)
        self._about_model = (
            about_model or f"pass one to {type(self).__name__}(model), or to chat(messages, model=...)"
        )
        self._transport = transport
        self._lock = threading.Lock()
        self._calls: set[ModelCall] = set()
        self._is_closed = False

    @repr_of_whole
    def __repr__(self) -> str:
        key = ", with a key" if "Authorization" in self._headers else ""
        return f"<{type(self).__name__} {self.model or 'no model'} at {self.base_url}{key}>"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, and other secrets in the headers, for code that must not show them."""
        return tuple(
            value.removeprefix("Bearer ")
            for name, value in self._headers.items()
            if _SECRET_HEADER.search(name)
        )

    # --- the dialect

    def _check_end(self, body: Mapping[str, Any]) -> None:  # noqa: B027 # most have nothing to refuse
        """Refuse a body whose last message the provider does not reply to."""

    @abstractmethod
    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request, with the raw blocks of its earlier replies."""

    @abstractmethod
    def _read(self, reply: dict[str, Any], model: str) -> dict[str, Any]:
        """Return a whole reply in the form between packages."""

    @abstractmethod
    def _assembly(self, model: str) -> Assembly:
        """Return the assembly for a streamed reply."""

    def _own_headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request."""
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        return {**headers, "Authorization": masked(f"Bearer {key}")} if key else headers

    # --- asking

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        on_delta: Callable[[Delta], object] | None = None,
        abort: StopSignal | None = None,
        before_retry: BeforeRetry | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the reply in OpenAI's shape, with the provider's own fields.

        Args:
            messages: the messages in OpenAI's shape; see docs/models.md for further fields.
            on_delta: called with each piece of the reply when it arrives.
            abort: the signal that cancels the call; by default the signal of `concurrency.stopped_by`.
            before_retry: called before a retry, with the usage of the failed try. Its exception ends the call.
            **options: `model`, `temperature`, `max_tokens`, `tools`, ..., with the names of chat completions or of the
                provider.

        Raises:
            LLMRequestError: the request failed. `code` has the reason, and `partial` the received part.
            LLMConfigError: no model is named, or the provider's dialect cannot express the request.
            AdminLimitError: the administrator's limits do not allow the address or the model, or have a budget, for
                which a client that is used alone does not count.
        """
        if on_delta is None:
            request = self._prepared(messages, options, stream=False)
            with self._call(abort) as call, Tries(before_retry) as tries:
                return tries.with_failed(
                    self._accepted(call, tries, request, lambda prepared: self._complete(call, prepared))
                )
        with closing(self.stream(messages, abort=abort, before_retry=before_retry, **options)) as stream:
            for delta in stream:
                on_delta(delta)
            return stream.reply

    def stream(
        self,
        messages: list[dict[str, Any]],
        *,
        abort: StopSignal | None = None,
        before_retry: BeforeRetry | None = None,
        **options: Any,
    ) -> ReplyStream:
        """Return the pieces of the reply as they arrive. After the last piece, `reply` has the whole reply.

        Arguments and errors are the same as for `chat`. Errors are raised during reading. After the first piece, a
        request is not sent again.
        """
        request = self._prepared(messages, options, stream=True)
        return ReplyStream(self._streamed(request, abort, before_retry))

    def as_sent(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the body of a request without sending it."""
        return self._body(self._request(messages, options, stream=False))

    def replies_with_blocks(self, messages: list[dict[str, Any]], **options: Any) -> tuple[int, ...]:
        """Return the numbers of the replies that a request would send back with their raw blocks."""
        request = self._request(messages, options, stream=False)
        self._body(request)
        return tuple(request.blocks.sent)

    # --- ending

    def cancel(self) -> None:
        """Cancel all running calls, in all threads. They raise `LLMRequestError` with code `cancelled`."""
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def close(self) -> None:
        """Cancel all calls and refuse new ones."""
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

    def _prepared(
        self,
        messages: list[dict[str, Any]],
        options: dict[str, Any],
        *,
        stream: bool,
        leaves_out: bool = False,
    ) -> _Prepared:
        """Return the prepared request. With `leaves_out`, omit the blocks of earlier replies."""
        request = self._request(messages, options, stream=stream, leaves_out=leaves_out)
        body = self._body(request)
        self._check_end(body)
        try:
            data = _written(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise LLMConfigError(
                f"the request cannot be written as JSON, so nothing was sent: {error}"
            ) from None
        again = partial(self._prepared, messages, options, stream=stream, leaves_out=True)
        return _Prepared(request.model, data, request.blocks, body.get(self.limit_name), again)

    def _request(
        self,
        messages: list[dict[str, Any]],
        options: dict[str, Any],
        *,
        stream: bool,
        leaves_out: bool = False,
    ) -> ModelRequest:
        model = options.get("model") or self.model
        if not isinstance(model, str) or not model:
            raise LLMConfigError(f"no model is named; {self._about_model}")
        blocks = SentBlocks(messages, self.dialect, model, leaves_out=leaves_out)
        return ModelRequest.of(messages, options, model, blocks, stream=stream)

    @contextmanager
    def _call(self, abort: StopSignal | None) -> Iterator[ModelCall]:
        with ModelCall(abort, is_counted=take_reservation()) as call:
            with self._lock:
                if self._is_closed:
                    raise LLMConfigError(f"{self!r} is closed; create a new client")
                self._calls.add(call)
            try:
                yield call
            finally:
                with self._lock:
                    self._calls.discard(call)

    def _tried(self, call: ModelCall, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds or its failure is permanent, and return its result."""
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

        exponential = wait_exponential(multiplier=self.backoff, max=_LONGEST_OWN_PAUSE)

        def pause(state: Any) -> float:
            named = state.outcome.exception().retry_after
            return float(exponential(state)) if named is None else float(named)

        retrying = Retrying(
            stop=stop_after_attempt(self.max_retries + 1), retry=retry_if_exception(_may_pass), wait=pause,
            sleep=call.pause, reraise=True,
        )  # fmt: skip
        return retrying(attempt)

    def _accepted(
        self,
        call: ModelCall,
        tries: Tries,
        request: _Prepared,
        ask: Callable[[_Prepared], T],
    ) -> T:
        """Send a request. If the provider refuses the blocks of earlier replies, send it once more without them.

        The provider may bind blocks more strictly than this package knows. It would then refuse them in every later
        request.
        """
        try:
            return self._tried(call, tries.noting(lambda: ask(request)))
        except LLMRequestError as error:
            if not request.blocks.sent or not are_refused(error):
                raise
        without = request.again()
        return self._tried(call, tries.noting(lambda: ask(without)))

    def _complete(self, call: ModelCall, request: _Prepared) -> dict[str, Any]:
        received: list[bytes] = []
        try:
            with self._answer(call, request.body) as response:
                return self._read_complete(response, request, received)
        except LLMRequestError as error:
            error.reported = error.reported or _usage_of_cut(received)
            received.clear()  # as below
            raise

    def _read_complete(
        self, response: httpx.Response, request: _Prepared, received: list[bytes]
    ) -> dict[str, Any]:
        """Read a reply that is not streamed. If it breaks off, `came` has the received part."""
        received.extend(self._bounded(response))
        body = b"".join(received)
        received.clear()
        try:
            if _IS_STREAM.match(body):  # some servers always stream
                assembly = self._assembly(request.model)
                for _ in self._deltas([body], assembly):
                    pass
                return self._received(assembly.reply(), request)
            reply = self._failures.reply_of(body, response)
            return self._received(self._read(reply, request.model), request)
        except LLMRequestError as error:
            reply = json_of(body)
            error.reported = _usage_of(reply.get("usage")) if isinstance(reply, dict) else None
            body, reply = b"", None
            # the provider's text may repeat a key, so no variable holds it
            raise error.with_traceback(None) from None

    def _streamed(
        self,
        request: _Prepared,
        abort: StopSignal | None,
        before_retry: BeforeRetry | None,
    ) -> Iterator[Delta | dict[str, Any]]:
        """Yield the pieces, and the whole reply last."""
        with self._call(abort) as call, Tries(before_retry) as tries:
            # retry only before the first piece: the caller must not receive a piece twice
            first, rest = self._accepted(
                call, tries, request, lambda prepared: _begun(self._pieces(call, prepared))
            )
            yield tries.with_failed(first)
            for piece in rest:
                yield tries.with_failed(piece)

    def _pieces(self, call: ModelCall, request: _Prepared) -> Iterator[Delta | dict[str, Any]]:
        assembly = self._assembly(request.model)
        characters, thoughts = WholeCharacters(self._repeated), ThoughtStream()
        received: list[bytes] = []
        try:
            with self._answer(call, request.body) as response:
                kind = response.headers.get("content-type", "")
                is_empty = response.status_code == _NO_CONTENT
                if is_empty or "application/json" in kind or "text/html" in kind:  # the latter has no reply
                    reply = self._read_complete(response, request, received)
                    yield from deltas_of(reply)
                    yield reply  # this provider streams nothing
                    return
                for delta in self._deltas(self._bounded(response), assembly):
                    yield from thoughts.of(characters.of(delta))
        except LLMRequestError as error:
            error.partial = masked_in(assembly.partial(), self._repeated)
            error.reported = error.reported or _usage_of(assembly.usage()) or _usage_of_cut(received)
            raise error.with_traceback(None) from None  # as above
        for delta in characters.rest():
            yield from thoughts.of(delta)
        yield from thoughts.rest()
        yield self._received(assembly.reply(), request)

    def _received(self, reply: dict[str, Any], request: _Prepared) -> dict[str, Any]:
        """Return a reply for the caller. Mask this client's keys, because a server may repeat them."""
        reply = request.blocks.bind(masked_in(reply, self._repeated))
        limit, (choice, *_) = request.most_tokens, reply["choices"]
        if limit and choice["finish_reason"] in self.unsure_ends:
            written = Usage.of(reply).output_tokens or 0
            choice["finish_reason"] = "length" if written >= limit else choice["finish_reason"]
        if limit and choice["finish_reason"] in CUT_REASONS:
            reply["max_tokens"] = limit
        return reply

    def _deltas(self, parts: Iterable[bytes], assembly: Assembly) -> Iterator[Delta]:
        import httpx

        is_empty = True
        try:
            for name, data in events(parts):
                is_empty = False
                if data == _DONE:
                    assembly.is_complete = True
                    return
                for event in _objects(data):
                    if event is None:
                        raise httpx.RemoteProtocolError("an event of the stream is damaged")
                    yield from assembly.add({"type": name, **event} if name else event)
                if assembly.is_over:
                    return
        except httpx.TransportError:
            if not assembly.is_complete:  # else only the usage is missing
                raise
        if not assembly.is_complete:
            no_event = ", without an event" if is_empty else ""
            raise self._failures.error(
                f"the stream ended before the reply was complete{no_event}", is_transient=True
            )

    @contextmanager
    def _answer(self, call: ModelCall, body: bytes) -> Iterator[httpx.Response]:
        """Send a request and yield its successful response for reading."""
        call.check()
        url, trace = f"{self.base_url}{self.path}", {"trace": call.trace}
        body = self._allowed(call, url, body)
        with (
            self._failures.named(call),
            self._http() as http,
            http.stream("POST", url, headers=self._headers, content=body, extensions=trace) as response,
        ):
            if not response.is_success:
                raise self._failures.refused(response, b"".join(self._bounded(response)))
            yield response

    def _allowed(self, call: ModelCall, url: str, body: bytes) -> bytes:
        """Return the body that the administrator's limits allow for a request.

        The check is here and not earlier: until the request is sent, the limits and the address can change, and only
        the final body has all that is sent.
        """
        limits = admin_limits()
        limits.check_counted(is_counted=call.is_counted)
        if limits.redaction:
            body = _written(redacted_body(json.loads(body)))
        if limits.limits_requests:
            limits.check_request(url, type(self).path, json.loads(body))
            if self._transport is not None:
                limits.check_own_object("your own transport")
        return body

    def _http(self) -> AbstractContextManager[httpx.Client]:
        """Return a connection for one request. Closing it does not affect other calls."""
        import httpx

        timeout = httpx.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_TIMEOUT))
        if self._transport is not None:
            # the caller closes the transport
            return nullcontext(httpx.Client(transport=self._transport, timeout=timeout))
        certificates = _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return httpx.Client(verify=certificates, timeout=timeout)

    def _bounded(self, response: httpx.Response) -> Iterator[bytes]:
        """Yield the bytes of a response, up to a limit.

        httpx unpacks each received piece at once. With an encoding of `_ENCODINGS`, the result is at most about a
        thousand times as large. With others, or with two of them, it can fill the memory.
        """
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() not in _ENCODINGS:
            raise self._failures.error(
                f"the answer has the encoding {brief_repr(encoding)}, which can fill the memory; let the server send "
                "gzip, deflate or no encoding"
            )
        size = 0
        for part in response.iter_bytes():
            size += len(part)
            if size > MAX_REPLY:
                raise self._failures.error(f"the answer is larger than {MAX_REPLY:,} bytes")
            yield part

    def _about_key(self, api_key: str | None, headers: Mapping[str, str] | None) -> str:
        name = type(self).__name__
        if api_key:
            return f"Check the api_key of {name}"
        if any(each.lower() != "user-agent" for each in headers or {}):
            return f"Check the headers of {name}"
        if api_key is None:
            return (
                f"Check the key in the environment variable {self.key_variable}, or pass {name}(api_key=...)"
            )
        return f"It needs a key, but none was sent: pass {name}(api_key=...)"


_ENCODINGS: Final = frozenset({"identity", "gzip", "deflate"})


@lru_cache(maxsize=8)
def _certificates(file: str | None, folder: str | None) -> ssl.SSLContext:  # noqa: ARG001 # httpx reads both variables
    """Return the certificates for these values of two variables. All clients share them: reading takes 30 ms."""
    import httpx

    return httpx.create_ssl_context()


def _objects(data: bytes) -> Iterator[dict[str, Any] | None]:
    """Yield the JSON objects of an event, and None for a damaged object. Other data is ignored."""
    parsed = json_of(data)
    # some servers leave out the empty line between two events
    for value, text in (
        [(parsed, data)] if parsed is not None else ((json_of(line), line) for line in data.split(b"\n"))
    ):
        if isinstance(value, dict) or text.startswith(b"{"):
            yield value


def _written(body: dict[str, Any]) -> bytes:
    # half a character, as in the output of a tool, is not worth the request
    return sound(json.dumps(body, allow_nan=False, ensure_ascii=False)).encode()


def _may_pass(error: BaseException) -> bool:
    return (
        isinstance(error, LLMRequestError)
        and error.is_transient
        and (error.retry_after is None or error.retry_after <= LONGEST_PAUSE)
    )


class Tries:
    """The failed tries of one request. The provider reported their tokens, so they are billed.

    Args:
        before_retry: receives each failed try before the next one, and may refuse the next one.
    """

    def __init__(self, before_retry: BeforeRetry | None) -> None:
        self._before_retry = before_retry
        self._failed: list[dict[str, Any]] = []
        self._is_reported = True  # of the last one

    def noting(self, attempt: Callable[[], T]) -> Callable[[], T]:
        """Return `attempt`, wrapped to record its failure."""

        def noted() -> T:
            if self._before_retry is not None and not self._is_reported:
                self._is_reported = True
                self._before_retry(self._failed[-1])
            try:
                return attempt()
            except LLMRequestError as error:
                if error.reported is not None:
                    self._failed.append(error.reported)
                    self._is_reported = False
                raise

        return noted

    def with_failed(self, piece: T) -> T:
        """Return a piece. Add the earlier tries to a whole reply."""
        if isinstance(piece, dict) and self._failed:
            return {**piece, "failed_tries": list(self._failed)}  # type: ignore[return-value] # a dict is one
        return piece

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if isinstance(error, LLMRequestError):  # `reported` has the usage of its own try
            error.failed_tries = [attempt for attempt in self._failed if attempt is not error.reported]
        elif isinstance(error, LLMBudgetError):
            error.failed_tries = self._failed


def _usage_of(report: object) -> dict[str, Any] | None:
    """Return the provider's token report as fields of a response; None without a report."""
    usage = Usage.of({"usage": report})
    return {"usage": usage.to_dict(), "provider_usage": usage.raw} if usage.to_dict() else None


def _usage_of_cut(received: list[bytes]) -> dict[str, Any] | None:
    """Return the tokens of a reply that broke off; None if nothing arrived.

    The estimate uses only the size, because the text may repeat a key.
    """
    size = sum(map(len, received))
    return {"usage": {"completion_tokens": -(-size // CHARACTERS_PER_TOKEN)}} if size else None


def _begun(pieces: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    return next(pieces), pieces


def _checked_url(url: object, example: str) -> str:
    """Return a valid address. It may hold a key, so errors do not repeat it, and no variable here has a part of it."""
    if not isinstance(url, str):
        raise LLMConfigError(f"base_url must be an address such as {example!r}, not {brief_repr(url)}")
    if is_address(url):
        return url.rstrip("/")
    if re.search(r"://.*[@?#]", url):
        raise LLMConfigError(
            "base_url has a user, password, query or fragment, which messages would display; pass keys as "
            "api_key or headers"
        )
    raise LLMConfigError(f"base_url must be an address such as {example!r}; the passed text is not one")


def _without_path(url: str, path: str) -> str:
    """Return an address without the parts that requests add: the path or its version."""
    version = "/v1" if path.startswith("/v1/") else ""
    for end in filter(None, (path, version)):
        if url.endswith(end):
            return url.removesuffix(end)
    return url


def _checked_number(value: object, what: str, *, least: float = 0) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < least
    ):
        raise LLMConfigError(f"{what} must be a number of at least {least}, not {brief_repr(value)}")
    return value


def _checked_headers(defaults: dict[str, str], more: Mapping[str, str] | None) -> dict[str, str]:
    """Return all headers. Errors about them do not show their values."""
    names = {name.lower() for name in more or {}}
    headers = {name: value for name, value in defaults.items() if name.lower() not in names} | dict(
        more or {}
    )
    for name, value in headers.items():
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            raise LLMConfigError(f"the header {name!r} has characters that cannot be sent; check the key")
    return headers
