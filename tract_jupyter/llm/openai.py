"""A client of every provider that speaks OpenAI's chat completions: hosted ones, Ollama, vLLM, llama.cpp, ...

Reference: https://platform.openai.com/docs/api-reference/chat

Sources: https://html.spec.whatwg.org/multipage/server-sent-events.html,
https://platform.openai.com/docs/api-reference/chat-streaming.

Reference: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
import math
import os
import threading
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from tract_jupyter.exceptions import LLMConfigError, LLMRequestError
from tract_jupyter.llm.call import ModelCall
from tract_jupyter.models.text import brief_repr, one_line

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    import httpx

    from tract_jupyter.llm.call import AbortSignal


LONGEST_PAUSE: Final = 60.0
"""Seconds. A provider that asks for more is not waited for: the error says how long it would be."""
_LONGEST_OWN_PAUSE: Final = 8.0

T = TypeVar("T")


def with_retries(attempt: Callable[[], T], call: ModelCall, *, max_retries: int, backoff: float) -> T:
    """Return what `attempt` gives, calling it again while its failure may pass.

    Raises:
        LLMRequestError: the last failure.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    own = wait_exponential(multiplier=backoff, max=_LONGEST_OWN_PAUSE)

    def pause(state: Any) -> float:
        named = state.outcome.exception().retry_after
        return float(own(state)) if named is None else float(named)

    retrying = Retrying(
        stop=stop_after_attempt(max_retries + 1), retry=retry_if_exception(_may_pass), wait=pause,
        sleep=call.pause, reraise=True,
    )  # fmt: skip
    return retrying(attempt)


def _may_pass(error: BaseException) -> bool:
    return (
        isinstance(error, LLMRequestError)
        and error.is_transient
        and (error.retry_after is None or error.retry_after <= LONGEST_PAUSE)
    )


_DONE: Final = b"[DONE]"
_SAID_ONCE: Final = frozenset({"role", "id", "type", "name"})


def events(parts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream up to its `[DONE]`, that one as `{"done": True}`; skips what is none."""
    for line in _lines(parts):
        if not line.startswith(b"data:"):
            continue  # comments keep the connection open; other fields mean nothing here
        data = line[len(b"data:") :].strip()
        if data == _DONE:
            yield {"done": True}
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Lines end with LF; a JSON text may hold whatever else Unicode breaks lines at."""
    rest: list[bytes] = []
    for part in parts:
        *lines, last = part.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line])
            rest = []
        rest.append(last)
    yield b"".join(rest)


class Assembly:
    """The reply that the chunks so far add up to; that of the first choice is what it says."""

    def __init__(self) -> None:
        self._outer: dict[str, Any] = {}
        self._message = _Pieces()
        self._calls: dict[int, tuple[_Pieces, _Pieces]] = {}
        self._finish_reason: str | None = None
        self.is_complete = False
        """Whether the provider said that nothing follows."""

    def add(self, chunk: dict[str, Any]) -> Iterator[str]:
        """Take one more chunk, and yield the text in it, if there is one."""
        if chunk.get("done") is True:
            self.is_complete = True
            return
        self._outer |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        first = _first_choice(chunk)
        if first.get("finish_reason"):
            self._finish_reason, self.is_complete = first["finish_reason"], True
        delta = first.get("delta")
        if isinstance(delta, dict):
            self._message.add(delta, but={"tool_calls"})
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                self._add_call(call)
            text = delta.get("content")
            if text and isinstance(text, str):
                yield text

    def _add_call(self, part: Any) -> None:
        if not isinstance(part, dict):
            return
        last = max(self._calls, default=-1)
        place = part.get("index")
        if not isinstance(place, int):  # some providers count none, and give each call at once
            place = last + 1 if part.get("id") or last < 0 else last
        call, function = self._calls.setdefault(place, (_Pieces(), _Pieces()))
        call.add(part, but={"index", "function"})
        if isinstance(part.get("function"), dict):
            function.add(part["function"])

    def reply(self) -> dict[str, Any]:
        """The whole, in the shape of a reply that was not streamed."""
        message = {"role": "assistant", "content": None, **self._message.whole()}
        calls = [pieces for _, pieces in sorted(self._calls.items())]
        if calls:
            message["tool_calls"] = [
                {"id": "", "type": "function", **call.whole(), "function": function.whole()}
                for call, function in calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._outer, "object": "chat.completion", "choices": [choice]}


class _Pieces:
    """The parts of an object that grows: texts and lists do (`content`, `reasoning_content`, ...)."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Any]] = {}

    def add(self, part: dict[str, Any], *, but: Collection[str] = ()) -> None:
        for key, value in part.items():
            if key not in but and value is not None:
                self._pieces.setdefault(key, []).append(value)

    def whole(self) -> dict[str, Any]:
        return {key: _joined(key, pieces) for key, pieces in self._pieces.items()}


def _joined(key: str, pieces: list[Any]) -> Any:
    if key in _SAID_ONCE:
        return pieces[0]
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return [one for piece in pieces for one in piece]
    return pieces[-1]


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any]:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def text_of(reply: dict[str, Any]) -> str:
    """The text of a reply that came at once; empty if it has none."""
    message = _first_choice(reply).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


_UNAUTHORIZED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500
_TIMEOUTS: Final = frozenset({408, 504, 524})
_SHORTEST_SECRET: Final = 4
_LONGEST_ANSWER: Final = 500  # characters of it in a message
_ADVICE: Final = {
    400: "Look at the options and messages of this call",
    403: "Check what the key may be used for",
    404: "Check base_url, which ends with the version (/v1), and the name of the model",
    413: "Send a shorter context",
    429: "Ask again later, or less often",
}


class Failures:
    """Makes the errors of one client.

    Args:
        place: the provider's address, for messages.
        secrets: texts that no message may hold, also if the provider repeats them.
        about_key: what to do where the provider does not take the key.
    """

    def __init__(self, place: str, secrets: Iterable[str], about_key: str) -> None:
        self._place = place
        self._about_key = about_key
        found = {text for secret in secrets for text in _forms(secret) if len(text) >= _SHORTEST_SECRET}
        # the longest first: one may be a part of another
        self._secrets = sorted(found, key=len, reverse=True)

    def error(self, why: str, advice: str = "Ask again", **details: Any) -> LLMRequestError:
        """An error that tells what happened, why, and what to do."""
        return LLMRequestError(self._masked(f"{self._place} gave no reply: {why}. {advice}"), **details)

    def refused(self, response: httpx.Response, body: bytes) -> LLMRequestError:
        """The error for an answer that is no success."""
        status, said = response.status_code, _json_of(body)
        told = said.get("error") if isinstance(said, dict) else None
        told = told if isinstance(told, dict) else {"message": told or body.decode("utf-8", "replace")}
        text = one_line(self._masked(str(told.get("message") or told)), _LONGEST_ANSWER)
        # https://platform.openai.com/docs/guides/error-codes: paying helps, waiting does not
        is_spent = "insufficient_quota" in {told.get("code"), told.get("type")}
        code = (
            "rate_limited" if status == _TOO_MANY else "timeout" if status in _TIMEOUTS else "provider_error"
        )
        after = retry_after(response.headers.get("retry-after"))
        pause = "" if after is None else f" in {after:.0f} s"
        reason = one_line(response.reason_phrase, 100)
        advice = _ADVICE.get(status, f"Ask again{pause or ' later'}")
        advice = self._about_key if status == _UNAUTHORIZED else advice
        return self.error(
            f"HTTP {status} {reason}: {text or 'without a text'}{pause and f' (try again{pause})'}",
            "Look at your account with the provider" if is_spent else advice,
            code=code, status=status, retry_after=after,
            is_transient=not is_spent and (status in {_TOO_MANY, *_TIMEOUTS} or status >= _SERVER_ERROR),
        )  # fmt: skip

    def reply_of(self, body: bytes) -> dict[str, Any]:
        """Read a whole reply.

        Raises:
            LLMRequestError: it is no JSON object, or it tells of an error.
        """
        reply = _json_of(body)
        if not isinstance(reply, dict):
            begins = one_line(self._masked(body[:_LONGEST_ANSWER].decode("utf-8", "replace")), 100)
            raise self.error(
                f"its answer is no JSON object; it begins with {begins!r}",
                "Check base_url, which ends with the version (/v1)", is_transient=False,
            )  # fmt: skip
        self.check_event(reply)
        return reply

    def check_event(self, event: dict[str, Any]) -> None:
        """Raise `LLMRequestError` if it tells of an error, as some providers do with status 200."""
        told = event.get("error")
        if told and not event.get("choices"):
            text = told.get("message", told) if isinstance(told, dict) else told
            raise self.error(f"it says {one_line(self._masked(str(text)), _LONGEST_ANSWER)!r}")

    @contextmanager
    def named(self, call: ModelCall) -> Iterator[None]:
        """Have what httpx raises be errors of ours; after a call was ended it is that, whatever broke."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            call.check()
            raise self._of_transport(error) from None
        except LLMRequestError:
            call.check()
            raise
        call.check()

    def _of_transport(self, error: Exception) -> LLMRequestError:
        import httpx

        what = one_line(str(error), _LONGEST_ANSWER) or type(error).__name__
        if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
            code = "timeout" if isinstance(error, httpx.TimeoutException) else "provider_error"
            return self.error(
                f"it cannot be reached ({what})", "Check base_url, and that the server is running",
                code=code, is_transient=True,
            )  # fmt: skip
        if isinstance(error, httpx.TimeoutException):
            # not sent again by itself: the provider may be at work on it, and be paid for it
            return self.error("it was silent for too long", "Give a longer timeout", code="timeout")
        return self.error(
            f"the connection broke ({what})", is_transient=isinstance(error, httpx.TransportError)
        )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _forms(secret: str) -> tuple[str, ...]:
    """What a provider may repeat of it: of a header `Bearer KEY` the key alone, too."""
    words = secret.split()
    return (secret.strip(), words[1]) if len(words) == 2 else (secret.strip(),)  # noqa: PLR2004 # a scheme and a key


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number or a date, RFC 9110 section 10.2.3."""
    try:
        seconds = float(value or "")
    except ValueError:
        seconds = _until(value or "")
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _until(date: str) -> float:
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, IndexError, OverflowError):
        return math.nan
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


OPENAI: Final = "https://api.openai.com/v1"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
MAX_REPLY: Final = 32 * 1024 * 1024
"""Bytes of a reply; what is larger is no reply."""
_CONNECT_TIMEOUT: Final = 10.0  # seconds
_OK: Final = 200


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
        self._calls: set[ModelCall] = set()
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
        abort: AbortSignal | None = None,
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
        self, messages: list[dict[str, Any]], *, abort: AbortSignal | None = None, **options: Any
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
    def _call(self, abort: AbortSignal | None) -> Iterator[ModelCall]:
        with ModelCall(abort) as call:
            with self._lock:
                if self._is_closed:
                    raise LLMConfigError(f"{self!r} was closed; make another one")
                self._calls.add(call)
            try:
                yield call
            finally:
                with self._lock:
                    self._calls.discard(call)

    def _tried(self, call: ModelCall, attempt: Callable[[], T]) -> T:
        return with_retries(attempt, call, max_retries=self.max_retries, backoff=self.backoff)

    def _asked(self, call: ModelCall, body: bytes) -> dict[str, Any]:
        with self._answer(call, body) as response:
            return self._failures.reply_of(b"".join(self._bounded(response)))

    def _streamed(self, body: bytes, abort: AbortSignal | None) -> Iterator[str | dict[str, Any]]:
        """The pieces of the text, and last of all the reply."""
        with self._call(abort) as call:
            # a failure is tried again until there is a first piece: whoever has it must not get it twice
            first, rest = self._tried(call, lambda: _begun(self._pieces(call, body)))
            yield first
            yield from rest

    def _pieces(self, call: ModelCall, body: bytes) -> Iterator[str | dict[str, Any]]:
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
    def _answer(self, call: ModelCall, body: bytes) -> Iterator[httpx.Response]:
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
