"""One turn on the store. This is the turn of a model without calls; `acting` has the turn of a model that acts.

The history says how far a turn is. An assistant's message with open calls continues with these calls. Answers without
a reply continue with a request. A reply without calls is the end. So a turn can continue after a crash, in another
process, or after a decision of the user.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tract_jupyter.concurrency import StopSignal, stopped_by
from tract_jupyter.exceptions import ContentError, LLMBudgetError, TractError
from tract_jupyter.llm import (
    CONTEXT_FULL,
    CUT,
    FINISH,
    REFUSED,
    ClientThrough,
    Send,
    WholeReplies,
    counts_of,
    finish_of_reply,
    output_limit,
    request_tokens,
    split_thought,
    tokens_of,
)
from tract_jupyter.models import Attachment, ChatResponse, Priority, ToolCall, TurnOutcome
from tract_jupyter.review import pausing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.context import Repository
    from tract_jupyter.loop.events import TurnObserver
    from tract_jupyter.loop.generation import ReplyRequest
    from tract_jupyter.loop.meter import TurnMeter
    from tract_jupyter.models import CommitInfo, Delta, LLMClient

ACTS = "acts"
"""Metadata key of a message: the actor whose calls the loop answers."""
CONTINUES = "continues"
"""Metadata key of a user message that asks the model to continue a cut reply: the commit of that reply."""
RESUME_LIMITED = "chat(None) continues with the same limits again, or with other ones"
"""The remedy after a limit."""
_STOPPED = "stopped; chat(None) continues"
_PAUSED = "paused before the next request; chat(None) continues"
MOST_PAUSES = 10
"""The maximum number of successive paused replies. Each is sent back, so the provider continues it."""


class TurnEnding(NamedTuple):
    """The end of a turn. `note` gives the reason and the way to continue, in a sentence."""

    outcome: TurnOutcome
    note: str = ""


class StoppedEarlyError(Exception):
    """The turn ended before there was any reply, so the question is open. `response` is the result to return."""

    def __init__(self, response: ChatResponse) -> None:
        super().__init__(response.note)
        self.response = response


class _OverBudget(Exception):  # noqa: N818 # the same
    """A request would have exceeded the session's budget."""


class _OverLimit(Exception):  # noqa: N818 # the same
    """A request would have exceeded the turn's limit of tokens."""


class _StoppedRequest(Exception):  # noqa: N818 # it ends a turn, it is not an error
    """The turn was stopped during a request to the model."""


class _LateRequest(Exception):  # noqa: N818 # the same
    """The turn's seconds were over during a request to the model."""


def ending_of_reply(metadata: Mapping[str, Any], *, has_calls: bool = False) -> TurnEnding:
    """Return the end of a turn after a reply, from the metadata of its commit."""
    why = str(metadata.get(CUT) or "")
    if metadata.get(FINISH) in REFUSED:
        return TurnEnding(
            TurnOutcome.REFUSED,
            f"{why}; the reply is not sent back. Rephrase the message, or use another model",
        )
    if not why or has_calls:
        return TurnEnding(TurnOutcome.ANSWER, why)
    if FINISH not in metadata:
        return TurnEnding(TurnOutcome.STOPPED)
    if why == CONTEXT_FULL:
        return TurnEnding(TurnOutcome.LIMIT, f"{why}; compress the context, then chat(None) continues")
    return TurnEnding(TurnOutcome.LIMIT, f"{why}; chat(None) continues")


def ending_before_request(meter: TurnMeter, stop: StopSignal) -> TurnEnding | None:
    """Return the end of a turn before its next request: by Stop, a pause or a limit; None if there is none."""
    if stop.is_set():
        return TurnEnding(TurnOutcome.STOPPED, _STOPPED)
    if stop.is_paused:
        return TurnEnding(TurnOutcome.STOPPED, _PAUSED)
    limit = meter.why_no_request()
    return TurnEnding(TurnOutcome.LIMIT, f"{limit}; {RESUME_LIMITED}") if limit else None


@dataclass(frozen=True)
class TurnStore:
    """The history that has a turn."""

    repository: Repository

    def open_step(self) -> tuple[CommitInfo | None, list[ToolCall]]:
        """Return the last assistant message if the loop answers its calls, and its unanswered calls."""
        here = self.repository.writer.position.commit_hash
        newest = next(self.repository.timelines.newest(here), None)
        if here is None or newest is None or newest[1] not in {"assistant", "tool"}:
            return None, []
        messages = self.repository.compiler.of(here).messages
        answered: set[str | None] = set()
        for message in reversed(messages):
            if message.role == "tool":
                answered.add(message.tool_call_id)
                continue
            if message.role != "assistant" or message.commit_hash is None or not message.tool_calls:
                break
            info = self.repository.commits.get(message.commit_hash)
            if ACTS not in info.metadata:
                break
            return info, [call for call in message.tool_calls if call.id not in answered]
        return None, []

    def last_reply(self) -> ChatResponse | None:
        """Return the reply at the end of the context if its turn is over; None if the turn can continue.

        The next request asks the model to continue a reply that was cut at its limit. A stopped reply is skipped and
        requested again.

        Raises:
            ContentError: the context has no turn to continue.
        """
        here = self.repository.refs.position.commit_hash
        messages = () if here is None else self.repository.compiler.of(here).messages
        messages_sent = [one for one in messages if one.role != "system"]
        if not messages_sent:
            raise ContentError("There is no turn to continue. chat(text) starts one.")
        last = messages_sent[-1]
        if last.role != "assistant" or last.tool_calls or last.commit_hash is None:
            return None
        info = self.repository.commits.get(last.commit_hash)
        if CUT in info.metadata and FINISH in info.metadata:
            from tract_jupyter.prompts import CONTINUE

            content = {"content_type": "dialogue", "role": "user", "text": CONTINUE, "name": None}
            self.repository.commits.commit(content, metadata={CONTINUES: last.commit_hash})
            return None
        if CUT in info.metadata:
            self.repository.commits.annotate(last.commit_hash, Priority.SKIP, "cut, and requested again")
            return None
        return ChatResponse(last.content, info, generation_config=dict(info.generation_config or {}), steps=0)

    def has_system_message(self, key: str, value: str) -> bool:
        """Return True if the context has a system message with this metadata."""
        here = self.repository.refs.position.commit_hash
        messages = () if here is None else self.repository.compiler.of(here).messages
        commits = [
            one.commit_hash for one in messages if one.role == "system" and one.commit_hash is not None
        ]
        return any(self.repository.commits.get(commit).metadata.get(key) == value for commit in commits)

    def add_system_message(self, text: str, metadata: dict[str, Any]) -> None:
        """Commit a system message."""
        self.repository.commits.commit({"content_type": "instruction", "text": text}, metadata=metadata)


Step: TypeAlias = "Callable[[ReplyRequest], ChatResponse]"
"""Makes one request of a turn, commits the reply and returns it. `current_stop` ends the request."""


@dataclass(eq=False)
class StoredTurn:
    """One turn of a model whose calls, if there are any, the caller answers: one request.

    Args:
        store: stores the turn.
        meter: counts the use of the turn against its limits.
        stop: ends the turn.
        request: the request for a reply.
        step: makes one request of the turn.
        on_delta: receives each piece of the reply, if the model can stream; None to get the whole reply.
        asks: a user's function that replies instead of the model.
        observer: gets the events of the turn; None for no observer.
        whole: True to replace a cut reply by another request with a higher limit.
    """

    store: TurnStore
    meter: TurnMeter
    stop: StopSignal
    request: ReplyRequest
    step: Step
    on_delta: Callable[[Delta], object] | None = None
    asks: LLMClient | None = None
    observer: TurnObserver | None = None
    whole: bool = False
    _last_message: CommitInfo | None = None
    _response: ChatResponse | None = None
    _pauses: int = 0
    _overrun: str = ""
    _too_large: str = ""
    _pieces: list[str] = field(default_factory=list)

    def run(self) -> ChatResponse:
        """Run the turn to its end.

        Raises:
            StoppedEarlyError: the turn was stopped before there was any reply.
            TractError: a request failed, or something cannot be stored. Everything until then is stored.
        """
        try:
            with pausing(self.meter.waiting):
                ending = self._run_steps()
        except _StoppedRequest:
            self._keep_pieces()
            ending = TurnEnding(TurnOutcome.STOPPED, _STOPPED)
        except _LateRequest as late:
            self._note_limit()
            self._keep_pieces(str(late))
            ending = TurnEnding(TurnOutcome.LIMIT, f"{late}; {RESUME_LIMITED}")
        except _OverLimit as over:
            self._note_limit()
            remedy = RESUME_LIMITED if self.meter.tokens else "give a larger limit, or send less"
            ending = TurnEnding(TurnOutcome.LIMIT, f"{over}; {remedy}")
        except _OverBudget as over:
            ending = TurnEnding(TurnOutcome.LIMIT, f"{over}. Then chat(None) continues")
        except Exception as error:
            with suppress(TractError):
                self._close()
            if self._response is not None:
                error.add_note("The steps before the error are stored, and chat(None) continues after them.")
            raise
        except BaseException as order:  # an interrupt: close the turn, and raise it again
            from tract_jupyter.loop.threads import why_ended

            self.stop.set(why_ended(order))
            with suppress(TractError):
                self._keep_pieces()
                self._close(self.stop.reason)
            raise
        if ending.outcome is TurnOutcome.ANSWER:
            ending = self._ending_of_reply()
        return self._end(ending)

    def _ending_of_reply(self) -> TurnEnding:
        """Return the end of the turn after its last reply, with the limits that the reply exceeded."""
        metadata = {} if self._last_message is None else self._last_message.metadata
        has_calls = self._response is not None and bool(self._response.tool_calls)
        ending = ending_of_reply(metadata, has_calls=has_calls)
        if ending.outcome is TurnOutcome.LIMIT:
            self._note_limit()
        return ending._replace(note="; ".join(filter(None, (self._overrun, self.meter.overrun, ending.note))))

    def _run_steps(self) -> TurnEnding:
        """Execute calls and ask the model, in turn, until something ends the turn."""
        calls = self._unanswered_calls()
        while True:
            ending = self._carry_out(calls) if calls else None
            ending = ending or ending_before_request(self.meter, self.stop)
            if ending is not None:
                return ending
            calls = self._ask()
            # the provider pauses a long turn with its own tools
            is_paused = 0 < self._pauses <= MOST_PAUSES
            if not calls and not is_paused:
                return TurnEnding(TurnOutcome.ANSWER)

    def _unanswered_calls(self) -> Sequence[ToolCall]:
        """Return the calls at the start of the turn: none, because the caller answers them."""
        return ()

    def _carry_out(self, calls: Sequence[ToolCall]) -> TurnEnding | None:
        """Execute the calls of a step, and return the end of the turn; None if it continues."""
        raise NotImplementedError

    def _ask(self) -> Sequence[ToolCall]:
        """Make a request, and return the calls of the reply that the loop executes: none."""
        self._make_request(replace(self.request, through=self._counted, on_delta=self._on_delta))
        return ()

    # --- a request

    def _make_request(self, request: ReplyRequest) -> ChatResponse:
        self._pieces.clear()
        if self.observer is not None:
            self.observer.request()
        with self._request_end() as end:
            try:
                with stopped_by(end):
                    response = self.step(request)
            except TractError as error:  # the type depends on the client
                if self.stop.is_set():
                    raise _StoppedRequest from error
                if end.is_set() and end.reason == self._late:
                    raise _LateRequest(self._late) from error
                if end.is_set():  # a cassette says that it was stopped
                    self.stop.set(end.reason)
                    raise _StoppedRequest from error
                if self._too_large:
                    raise _OverLimit(self._too_large) from error
                if isinstance(error, LLMBudgetError) and self._last_message is not None:
                    raise _OverBudget(str(error)) from error
                raise
            self._overrun = self._why_too_late(end)
        self._pieces.clear()
        self._response, self._last_message = response, response.commit_info
        if self.observer is not None:
            self.observer.replied(response.commit_info)
        return response

    def _why_too_late(self, end: StopSignal) -> str:
        """Return why the received reply should have been stopped earlier; empty if there is no reason."""
        if not end.is_set():
            return ""
        if self.stop.is_set():
            return "the stop was too late: the reply could not be interrupted and is complete"
        limit = f"the limit of {self.meter.limits.seconds:g} seconds was exceeded"
        return f"{limit}: the reply could not be interrupted and is complete"

    @property
    def _late(self) -> str:
        return f"the limit of {self.meter.limits.seconds:g} seconds is over"

    @contextmanager
    def _request_end(self) -> Iterator[StopSignal]:
        """Yield the signal that ends one request. It is set by Stop, and when the turn's seconds are over."""
        seconds_left = self.meter.seconds_left
        if seconds_left is None:
            yield self.stop
            return
        with StopSignal().following(self.stop, seconds_left, self._late) as end:
            yield end

    def _counted(self, client: LLMClient) -> LLMClient:
        counted = _Counted(self.asks or client, self._check, self._count)
        return WholeReplies(counted, may_call=self._carries_out) if self.whole else counted

    @property
    def _carries_out(self) -> bool:
        return False

    def _check(self, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> None:
        """Check that the turn has enough tokens left for a request."""
        if self.meter.limits.tokens is None:
            return
        self._too_large = self.meter.why_too_large(
            self._tokens(messages, options) + (output_limit(options) or 0)
        )
        if self._too_large:
            raise LLMBudgetError(self._too_large)

    def _tokens(self, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> int:
        repository = self.store.repository
        count = repository.counter.count_text
        attached = [Attachment(**one) for message in messages for one in message.get("attachments") or ()]
        sent = {"messages": messages, "tools": options.get("tools")}
        return request_tokens(sent, count) + repository.files.tokens(attached, count)

    def _count(
        self, messages: list[dict[str, Any]], options: Mapping[str, Any], response: dict[str, Any]
    ) -> None:
        """Count a request, even if its reply is not used."""
        usage, model = response.get("usage"), response.get("model")
        self._pauses = self._pauses + 1 if finish_of_reply(response) == "pause" else 0
        counted = counts_of(usage) if isinstance(usage, dict) else None
        estimated = 0
        if tokens_of(counted or {}) is None:
            reply = [one.get("message") for one in response.get("choices") or () if isinstance(one, dict)]
            estimated = self._tokens([*messages, *filter(None, reply)], options)
        self.meter.add_request(model if isinstance(model, str) else "", counted, estimated)

    @property
    def _on_delta(self) -> Callable[[Delta], object] | None:
        return None if self.on_delta is None else self._handle_delta

    def _handle_delta(self, piece: Delta) -> None:
        if piece.kind == "text":
            self._pieces.append(piece.text)
        if self.on_delta is not None:
            self.on_delta(piece)

    # --- the end

    def _keep_pieces(self, why: str = "") -> None:
        """Commit the received part of a stopped reply, marked as incomplete."""
        text = split_thought("".join(self._pieces)).text
        self._pieces.clear()
        if not text.strip():
            return
        metadata = {CUT: why or self.stop.reason}
        content = {"content_type": "dialogue", "role": "assistant", "text": text, "name": None}
        info = self.store.repository.commits.say(content, None, {"metadata": metadata})
        self._last_message = info
        self._response = ChatResponse(text, info)
        if self.observer is not None:
            self.observer.replied(info)

    def _note_limit(self) -> None:
        """Record that a limit ended the turn. A turn without calls has nothing to record."""

    def _close(self, why: str = "") -> None:
        """Close open calls after Stop or, if `why` is empty, an error. Here there are none."""

    def _open_calls(self, ending: TurnEnding) -> tuple[ToolCall, ...]:  # noqa: ARG002 # a turn with calls asks
        """Return the unanswered calls: all, because the caller answers them."""
        return () if self._response is None else self._response.tool_calls

    def _end(self, ending: TurnEnding) -> ChatResponse:
        commits = self.store.repository.commits
        reply = self._response
        if reply is None:
            here = self.store.repository.refs.position.commit_hash
            info = self._last_message or commits.get(here or "")
            text = ""
            if self._last_message is not None:
                text = str(commits.entry(info.commit_hash).content.get("text", ""))
            reply = ChatResponse(text, info, generation_config=dict(info.generation_config or {}))
        response = replace(
            reply, usage=self.meter.usage, tool_calls=self._open_calls(ending), outcome=ending.outcome,
            note=ending.note, steps=self.meter.steps, calls=self.meter.calls,
        )  # fmt: skip
        if self._response is None and self._last_message is None:
            raise StoppedEarlyError(response)
        return response


class _Counted(ClientThrough):
    """A client whose requests are checked before they are sent, and counted."""

    def __init__(
        self,
        client: LLMClient,
        check: Callable[[list[dict[str, Any]], Mapping[str, Any]], object],
        count: Callable[[list[dict[str, Any]], Mapping[str, Any], dict[str, Any]], object],
    ) -> None:
        super().__init__(client)
        self._check = check
        self._count = count

    def _ask(self, send: Send, messages: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        self._check(messages, options)
        response = send(messages, options)
        if isinstance(response, dict):
            self._count(messages, options, response)
        return response
