"""One turn on the store: each reply is committed before its calls are carried out, each answer as soon as it is there.

So the history says how far a turn has come: the message of an assistant whose calls have no answer goes on with these
calls, answers without a reply go on with a request, and a reply that calls nothing is the end. That is all that is
needed to go on after a crash, in another process, or after a person has decided.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, LLMBudgetError, TractError, UndecidedError
from tract_jupyter.hooks.builtin import ToolAnswer
from tract_jupyter.llm import (
    ActingCall,
    ReadableClient,
    TurnEnding,
    can_stream,
    counts_of,
    ended_by,
    run_turn,
)
from tract_jupyter.loop.answers import CallAnswer, shown_answer, size_for
from tract_jupyter.loop.calls import StepCalls
from tract_jupyter.models import ChatResponse, Priority, ToolCall, TurnOutcome
from tract_jupyter.prompts import FAILED, STOPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.context import Repository
    from tract_jupyter.hooks import Firing
    from tract_jupyter.hooks.builtin import ToolResults
    from tract_jupyter.llm import StopSignal, TurnMeter
    from tract_jupyter.loop.calls import Machinery
    from tract_jupyter.loop.journal import CallJournal
    from tract_jupyter.models import CommitInfo, Delta, LLMClient

ACTS = "acts"
"""The key of a message's metadata that says who acts: calls of such a message are answered by the loop."""
CUT = "cut"
"""The key of a message's metadata that says why it is not whole."""
_CHARACTERS_PER_TOKEN = 4
_LIMITED = "chat(None) goes on, with as much again, or with other limits"


class Offer(NamedTuple):
    """What a request of a turn is made with.

    Attributes:
        tools: what the model may call, in OpenAI's shape; None for what the context offers.
        metadata: what the reply's commit says besides.
        through: wraps the client.
        on_delta: is given each piece of the reply as it comes, of a model that can stream; None to have it whole.
        stop: ends the request.
    """

    tools: list[dict[str, Any]] | None
    metadata: dict[str, Any]
    through: Callable[[LLMClient], LLMClient]
    on_delta: Callable[[Delta], object] | None
    stop: StopSignal


class StoppedEarlyError(Exception):
    """The turn was stopped before there was any reply, so that what was asked is open; `response` is what to return."""

    def __init__(self, response: ChatResponse) -> None:
        super().__init__(response.note)
        self.response = response


class _OverBudget(Exception):  # noqa: N818 # the same
    """A request would have exceeded what the session may spend."""


class _StoppedRequest(Exception):  # noqa: N818 # it ends a turn, and is no error
    """The turn was stopped while the model was asked."""


@dataclass(frozen=True, kw_only=True)
class TurnStore:
    """Where a turn is kept: the history, the answers of tools, and the journal of calls."""

    repository: Repository
    firing: Firing
    results: ToolResults
    journal: CallJournal

    def open_step(self) -> tuple[CommitInfo | None, list[ActingCall]]:
        """Return the message that the context ends with, but for answers, and its calls that have no answer yet.

        Only of a message whose calls are the loop's to answer.
        """
        here = self.repository.refs.position.commit_hash
        messages = () if here is None else self.repository.compiler.of(here).messages
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
            left = [call for call in message.tool_calls if call.id not in answered]
            return info, [ActingCall(call.id, call.name, call.arguments) for call in left]
        return None, []

    def last_reply(self) -> ChatResponse | None:
        """Return the reply that the context ends with, if its turn is over; None if there is something to go on with.

        A reply that was cut is set aside, to be asked for again.

        Raises:
            ContentError: the context ends with nothing that could be answered or gone on with.
        """
        here = self.repository.refs.position.commit_hash
        messages = () if here is None else self.repository.compiler.of(here).messages
        said = [one for one in messages if one.role != "system"]
        if not said:
            raise ContentError("there is no turn to go on with; chat(text) begins one")
        last = said[-1]
        if last.role != "assistant" or last.tool_calls or last.commit_hash is None:
            return None
        info = self.repository.commits.get(last.commit_hash)
        if CUT in info.metadata:
            self.repository.commits.annotate(last.commit_hash, Priority.SKIP, "cut, and asked for again")
            return None
        return ChatResponse(last.content, info, generation_config=dict(info.generation_config or {}), steps=0)

    def is_told(self, key: str, value: str) -> bool:
        """Return True if the context has a message of the system with this in its metadata."""
        here = self.repository.refs.position.commit_hash
        messages = () if here is None else self.repository.compiler.of(here).messages
        said = [one.commit_hash for one in messages if one.role == "system" and one.commit_hash is not None]
        return any(self.repository.commits.get(commit).metadata.get(key) == value for commit in said)

    def tell(self, text: str, metadata: dict[str, Any]) -> None:
        """Commit a message of the system."""
        self.repository.commits.commit({"content_type": "instruction", "text": text}, metadata=metadata)

    def answer(self, answers: Iterable[tuple[ActingCall, CallAnswer]], size: int) -> None:
        """Commit answers, in one transaction where nobody decides about them first."""
        is_watched = self.firing.bus.listens("tool_result")
        with nullcontext() if is_watched else self.repository.writer.batch():
            for call, answer in answers:
                shown = shown_answer(answer, call.id, size)
                kept = {} if shown.whole is None else {"original_content": shown.whole}
                self.results.commit(
                    ToolAnswer.of(call.id, call.name, shown.text, is_error=shown.is_error, metadata=kept)
                )

    def answer_all(self, calls: Iterable[ActingCall], why: str) -> None:
        """Commit, as the answer of each call, why it was not carried out."""
        told = CallAnswer(why, is_error=True)
        self.answer([(call, told) for call in calls], len(why))


@dataclass(eq=False)
class StoredTurn:
    """One turn of a model, which may call tools or not.

    Args:
        store: where it is kept.
        meter: what it has taken, and may take.
        stop: ends it.
        request: makes one request with an offer, commits the reply and returns it.
        machinery: what calls are carried out with; None without tools.
        on_delta: see `Offer`.
        asks: a user's function that is asked instead of the model.
        sizes: how many characters of one answer, and of all of a step, the model is shown.
    """

    store: TurnStore
    meter: TurnMeter
    stop: StopSignal
    request: Callable[[Offer], ChatResponse]
    machinery: Machinery | None = None
    on_delta: Callable[[Delta], object] | None = None
    asks: Callable[..., dict[str, Any]] | None = None
    sizes: tuple[int, int] = (20_000, 60_000)
    _said: CommitInfo | None = None
    _response: ChatResponse | None = None
    _step: StepCalls | None = None
    _ended: TurnEnding | None = None
    _pieces: list[str] = field(default_factory=list)

    def run(self) -> ChatResponse:
        """Go on until the turn ends.

        Raises:
            StoppedEarlyError: it was stopped before there was any reply.
            TractError: a request failed, or something cannot be stored; what was stored until then counts.
        """
        self._schemas = None if self.machinery is None else self.machinery.toolset.schemas()
        try:
            ending = run_turn(self, self.meter, self.stop)
        except _StoppedRequest:
            self._keep_pieces()
            ending = TurnEnding(TurnOutcome.STOPPED, "stopped; chat(None) goes on")
        except _OverBudget as over:
            ending = TurnEnding(TurnOutcome.LIMIT, f"{over}. Then chat(None) goes on")
        except Exception as error:
            with suppress(TractError):
                self._close(FAILED)
            if self._response is not None:
                error.add_note("What came before is stored; chat(None) goes on from there.")
            raise
        except BaseException:  # an interrupt: it comes through, and leaves nothing half done
            self.stop.set()
            with suppress(TractError):
                self._keep_pieces()
                self._close(STOPPED)
            raise
        return self._end(ending)

    # --- as `llm.TurnHost`

    def open_calls(self) -> Sequence[ActingCall]:
        """Return the calls that have no answer yet, of the message that the context ends with."""
        if self.machinery is None:
            return ()
        self._said, calls = self.store.open_step()
        return calls

    def ask(self) -> Sequence[ActingCall]:
        """Make a request, whose reply is committed, and return what it calls."""
        self._pieces.clear()
        acts = {} if self.machinery is None else {ACTS: self.machinery.toolset.actor}
        on_delta = None if self.on_delta is None else self._told
        try:
            with ended_by(self.stop):
                response = self.request(Offer(self._schemas, acts, self._wrapped, on_delta, self.stop))
        except TractError as error:  # as what it ends, differs with who is asked
            if self.stop.is_set():
                raise _StoppedRequest from error
            if isinstance(error, LLMBudgetError) and self._said is not None:
                raise _OverBudget(str(error)) from error
            raise
        self._pieces.clear()
        self._response, self._said = response, response.commit_info
        if self.machinery is None:
            return ()
        return [ActingCall(call.id, call.name, call.arguments) for call in response.tool_calls]

    def carry_out(self, calls: Sequence[ActingCall]) -> Sequence[str] | None:
        """Carry calls out and commit their answers; None if a person has to decide first."""
        if self.machinery is None or self._said is None:
            raise ContentError("there is no message whose calls could be carried out")
        commit = self._said.commit_hash
        self._step = step = StepCalls(commit, calls, self.store.journal.of(commit), self.machinery)
        size = size_for(len(calls), *self.sizes)
        outcomes: dict[str, str] = {}
        try:
            for answers in step.answers():
                self.store.answer(answers, size)
                outcomes |= {call.id: answer.outcome for call, answer in answers}
        except UndecidedError:  # a handler looks at an answer before the model does, and left it open
            return None
        if step.waits:
            return None
        if step.noted:
            self.store.journal.forget(commit)
        if step.limit:
            self._ended = TurnEnding(TurnOutcome.LIMIT, f"{step.limit}; {_LIMITED}")
        return [outcomes[call.id] for call in calls]

    def turn_down(self, calls: Sequence[ActingCall], why: str) -> None:
        """Commit, as the answer of each call, why it was not carried out."""
        self.store.answer_all(calls, why)

    def ended(self) -> TurnEnding | None:
        """Return the limit that a call met, if one did."""
        return self._ended

    def answered(self) -> bool:
        """Return True: a reply that calls nothing is the answer."""
        return True

    # --- a request

    def _wrapped(self, client: LLMClient) -> LLMClient:
        asked = client if self.asks is None else _Asked(self.asks)
        if self.machinery is None:
            return _Counted(asked, self._count)
        names = {tool["function"]["name"] for tool in self._schemas or ()}
        return ReadableClient(asked, names, self._count)

    def _count(self, messages: list[dict[str, Any]], response: dict[str, Any]) -> None:
        """Count a request, whatever becomes of its reply."""
        usage, model = response.get("usage"), response.get("model")
        size = 0
        if not isinstance(usage, dict):
            size = len(json.dumps([messages, self._schemas, response.get("choices")], default=str))
        counted = counts_of(usage) if isinstance(usage, dict) else None
        self.meter.add_request(
            model if isinstance(model, str) else "", counted, size // _CHARACTERS_PER_TOKEN
        )

    def _told(self, piece: Delta) -> None:
        if piece.kind == "text":
            self._pieces.append(piece.text)
        if self.on_delta is not None:
            self.on_delta(piece)

    # --- the end

    def _keep_pieces(self) -> None:
        """Commit what had come of a reply when it was stopped, marked as not whole."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if not text.strip():
            return
        metadata = {CUT: STOPPED}
        content = {"content_type": "dialogue", "role": "assistant", "text": text, "name": None}
        info = self.store.repository.commits.say(content, None, {"metadata": metadata})
        self._said = info
        self._response = ChatResponse(text, info)

    def _close(self, why: str) -> None:
        """Answer what is open, and withdraw what was asked about it."""
        if self.machinery is None:
            return
        said, calls = self.store.open_step()
        if said is None or not calls:
            return
        step = self._step
        if step is None or step.commit != said.commit_hash:
            step = StepCalls(said.commit_hash, calls, self.store.journal.of(said.commit_hash), self.machinery)
        closed = {call.id: answer for call, answer in step.close(why)}
        known = self.store.journal.of(said.commit_hash)
        told = CallAnswer(why, is_error=True)
        self.store.answer(
            [(call, _known(known, call) or closed.get(call.id) or told) for call in calls], 20_000
        )
        self.store.journal.forget(said.commit_hash)

    def _end(self, ending: TurnEnding) -> ChatResponse:
        commits = self.store.repository.commits
        open_ones: tuple[ToolCall, ...] = ()
        if ending.outcome is TurnOutcome.WAITING:
            calls = self.store.open_step()[1]
            open_ones = tuple(ToolCall(call.id, call.name, dict(call.arguments)) for call in calls)
        elif self.machinery is None and self._response is not None:
            open_ones = self._response.tool_calls
        last = self._response
        if last is None:
            here = self.store.repository.refs.position.commit_hash
            info = self._said or commits.get(here or "")
            text = "" if self._said is None else str(commits.entry(info.commit_hash).content.get("text", ""))
            last = ChatResponse(text, info, generation_config=dict(info.generation_config or {}))
        told = replace(
            last, usage=self.meter.usage, tool_calls=open_ones, outcome=ending.outcome, note=ending.note,
            steps=self.meter.steps, calls=self.meter.calls,
        )  # fmt: skip
        if ending.outcome is TurnOutcome.STOPPED and self._response is None and self._said is None:
            raise StoppedEarlyError(told)
        return told


def _known(known: Any, call: ActingCall) -> CallAnswer | None:
    found = known.get(call.id)
    return None if found is None else found.answer


class _Asked:
    """A user's function in the place of a client."""

    def __init__(self, ask: Callable[..., dict[str, Any]]) -> None:
        self.chat = ask


class _Counted:
    """A client whose requests are counted."""

    def __init__(
        self, client: LLMClient, count: Callable[[list[dict[str, Any]], dict[str, Any]], object]
    ) -> None:
        self._client = client
        self._count = count

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        on_delta: Callable[[Delta], object] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Ask; see `models.LLMClient`."""
        streamed = {"on_delta": on_delta} if on_delta is not None and can_stream(self._client) else {}
        response = self._client.chat(messages, **streamed, **options)
        if isinstance(response, dict):
            self._count(messages, response)
        return response
