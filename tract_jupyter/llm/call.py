"""One request to a model: call any client for a reply, and cancel the call from another thread."""

from __future__ import annotations

import inspect
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tract_jupyter.concurrency import StopSignal, current_stop
from tract_jupyter.exceptions import LLMRequestError, LLMResponseError
from tract_jupyter.llm.blocks import provider_fields
from tract_jupyter.llm.messages import REFUSED
from tract_jupyter.llm.reply import CONTEXT_FULL, Reply
from tract_jupyter.llm.thinking import ThoughtStream
from tract_jupyter.models import Message, ToolCall, openai_messages, sent_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from tract_jupyter.models import CompiledContext, Delta, LLMClient

T = TypeVar("T")

CANCELLED: Final = "cancelled"
"""The code of a call that was ended."""
_USUAL: Final = frozenset({"role", "content", "tool_calls"})


class ModelCall:
    """One call and its open connections.

    Args:
        abort: the signal that cancels it; by default the signal of `concurrency.stopped_by`.
        is_counted: True if the administrator's budget counts it.
    """

    def __init__(self, abort: StopSignal | None = None, *, is_counted: bool = False) -> None:
        self.is_counted = is_counted
        self._abort = current_stop() if abort is None else abort
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._forget: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        self._forget = self._abort.on_set(self.cancel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._forget()

    @property
    def is_cancelled(self) -> bool:
        """True if the call was cancelled."""
        return self._cancelled.is_set() or self._abort.is_set()

    def cancel(self) -> None:
        """Cancel the call. A thread that waits for the provider returns at once."""
        with self._lock:
            self._cancelled.set()
            for connection in self._sockets:
                _shut(connection)

    def check(self) -> None:
        """Raise `LLMRequestError` if the call was cancelled."""
        if self.is_cancelled:
            raise LLMRequestError("the call was cancelled before the reply was complete", code=CANCELLED)

    def pause(self, seconds: float) -> None:
        """Wait, unless the call is cancelled."""
        self._cancelled.wait(seconds)
        self.check()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Record a connection that httpx opened; see https://www.encode.io/httpcore/extensions/#trace."""
        about = getattr(info.get("return_value"), "get_extra_info", None)
        connection = about("socket") if about is not None and event.endswith(".complete") else None
        if isinstance(connection, socket.socket):
            with self._lock:
                self._sockets.append(connection)
                if self._cancelled.is_set():
                    _shut(connection)


def _shut(connection: socket.socket) -> None:
    # closing it would leave a reader in another thread waiting; shutting the plain socket down keeps TLS intact
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def sent_of(context: CompiledContext) -> list[dict[str, Any]]:
    """Return the messages of a context as they are sent to a model, without blank system messages."""
    messages = sent_messages(context.messages)
    return [message for message in messages if message["role"] != "system" or message["content"].strip()]


def ask_model(
    client: LLMClient,
    sent: list[dict[str, Any]],
    fields: Mapping[str, Any],
    on_delta: Callable[[Delta], object] | None = None,
) -> dict[str, Any]:
    """Request a reply and return its fields.

    Args:
        client: the client.
        sent: the messages, in OpenAI's shape.
        fields: `retry_history`, which is sent after the messages; `tools`; `options`.
        on_delta: receives the pieces of the reply, if the client can stream: its `chat` has this parameter.

    Raises:
        LLMResponseError: the client's response is not readable, or ended before it had content.
        LLMRequestError: the signal of this code was set; `code` is `cancelled`.
    """
    ModelCall().check()  # do not call a client again that cannot be cancelled
    messages = [*sent, *openai_messages(_rejected_replies(fields["retry_history"]))]
    offered = {"tools": fields["tools"]} if fields["tools"] else {}
    options = {**offered, **fields["options"]}
    if on_delta is None or not can_stream(client):
        response = client.chat(messages, **options)
    else:
        thoughts = ThoughtStream()
        response = client.chat(
            messages, on_delta=lambda delta: _give(on_delta, thoughts.of(delta)), **options
        )
        _give(on_delta, thoughts.rest())
    reply = Reply.of(response)
    if reply.why_empty:
        raise LLMResponseError(f"{reply.why_empty}. Nothing was committed")
    named = {"model": reply.model} if reply.model else {}
    message = {
        **response["choices"][0]["message"],
        **({"reasoning": reply.reasoning} if reply.reasoning else {}),
    }
    return {
        # drop half a character, which cannot be stored, instead of the whole reply
        "response_text": reply.text.encode(errors="replace").decode(),
        "tool_calls": [call.to_dict() for call in reply.tool_calls],
        "model": reply.model,
        "generation_config": {**fields["options"], **named},
        "usage": reply.usage,
        "provider_fields": provider_fields(message) if message.keys() - _USUAL else {},
        "ending": reply.ending,
    }


Send = Callable[..., dict[str, Any]]
"""Sends messages and options to the client. With `quietly=True`, nothing is streamed."""


class ClientThrough(ABC):
    """A client that calls another client and changes the requests or the responses."""

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        on_delta: Callable[[Delta], object] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the reply; see `models.LLMClient`."""

        def send(
            messages: list[dict[str, Any]], options: Mapping[str, Any], *, quietly: bool = False
        ) -> dict[str, Any]:
            return send_to(self._client, messages, options, None if quietly else on_delta)

        return self._ask(send, messages, options)

    @abstractmethod
    def _ask(self, send: Send, messages: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]: ...


class WholeReplies(ClientThrough):
    """A client that repeats a request with a higher limit if a reply was cut. Only the first try is streamed.

    Its `chat` raises an `LLMResponseError` if no reply was complete, or if the model or its provider refused to answer.

    Args:
        client: the client to call.
        may_call: accept a cut reply that calls tools, because the model gets an answer about the cut call.
    """

    def __init__(self, client: LLMClient, *, may_call: bool = False) -> None:
        super().__init__(client)
        self._may_call = may_call

    def _ask(self, send: Send, messages: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        tries: list[dict[str, Any]] = []
        while True:
            response = send(messages, options, quietly=bool(tries))
            reply = Reply.of(response)
            if not reply.why_cut or (self._may_call and reply.raw_calls):
                return _with_tries(response, reply, tries)
            tries.append(reply.usage)
            if reply.finish_reason in REFUSED:
                raise LLMResponseError(f"{reply.why_cut}, so nothing was committed; {_OTHER_WORDS}")
            if reply.why_cut == CONTEXT_FULL:
                raise LLMResponseError(
                    f"{reply.why_cut}, so nothing was committed; send less, or compress the context"
                )
            if len(tries) == _MOST_TRIES:
                raise LLMResponseError(
                    f"{reply.why_cut} in {_MOST_TRIES} tries, the last with {_limit_text(options)}, so nothing was "
                    "committed; set a larger max_tokens, or request a shorter reply"
                )
            ModelCall().check()
            options = {**options, **_larger_limit(options, reply)}


_MOST_TRIES: Final = 3
_LEAST_LIMIT: Final = 1_024  # tokens; a second try with a few tokens more would be cut as well
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OTHER_WORDS: Final = "rephrase the message, or use another model"


def _with_tries(response: dict[str, Any], reply: Reply, tries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a response whose usage includes the earlier tries."""
    used = [usage for usage in tries if usage]
    if not used:
        return response
    failed = [*used, *reply.usage.get("failed_tries", ())]
    return {**response, "usage": {**reply.usage, "failed_tries": failed}}


def _larger_limit(options: Mapping[str, Any], reply: Reply) -> dict[str, int]:
    name = next((option for option in _LIMITS if options.get(option) is not None), _LIMITS[0])
    characters = len(reply.text) + len(reply.reasoning)
    written = reply.tokens.output_tokens or characters  # a token has at least one character
    limits = [option for option in (options.get(name), reply.limit) if isinstance(option, int)]
    return {name: max(2 * max([written, *limits]), _LEAST_LIMIT)}


def _limit_text(options: Mapping[str, Any]) -> str:
    return " and ".join(f"{name}={options[name]:,}" for name in _LIMITS if options.get(name) is not None)


def _give(on_delta: Callable[[Delta], object], pieces: Iterable[Delta]) -> None:
    for piece in pieces:
        on_delta(piece)


def send_to(
    client: LLMClient,
    messages: list[dict[str, Any]],
    options: Mapping[str, Any],
    on_delta: Callable[[Delta], object] | None,
) -> dict[str, Any]:
    """Send a request. A client that cannot stream gets no `on_delta`."""
    streamed = {"on_delta": on_delta} if on_delta is not None and can_stream(client) else {}
    return client.chat(messages, **streamed, **options)


def can_stream(client: LLMClient) -> bool:
    """Return True if a client can stream its replies: its `chat` has a parameter `on_delta`."""
    try:
        return "on_delta" in inspect.signature(client.chat).parameters
    except (TypeError, ValueError):  # a function in C may have no signature
        return False


def _rejected_replies(retry_history: list[dict[str, Any]]) -> list[Message]:
    """Return the rejected replies, each with the message to the model about it."""
    messages = []
    for failed in retry_history:
        calls = tuple(ToolCall.from_dict(call) for call in failed["tool_calls"])
        messages += [
            Message("assistant", failed["response_text"], tool_calls=calls),
            Message("user", failed["prompt"]),
        ]
    return messages
