"""Carrying out the calls of one step: asked about together, reads side by side, writes in order.

A call that changes something is noted in the journal before it is begun. If the process ends before its end is known,
a person is asked again, whatever was allowed before; a call that has ended is never made again.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CassetteError, TractError
from tract_jupyter.llm import ActingCall, side_by_side, why_unreadable
from tract_jupyter.loop.answers import CallAnswer, answer_of, changes
from tract_jupyter.models import PendingStatus
from tract_jupyter.prompts import (
    BEGUN_BEFORE,
    LATE,
    NOT_ENDED,
    STOPPED,
    STOPPED_READING,
    STOPPED_RUNNING,
    WENT_ON,
    limited,
    refused,
    removed_tool,
    unknown_tool,
)
from tract_jupyter.review import checking
from tract_jupyter.storage import is_order
from tract_jupyter.toolkit import PreparedCall, ToolResult, allowing, failed, refusal, result_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.llm import StopSignal, TurnMeter
    from tract_jupyter.loop.journal import CallJournal, KnownCall
    from tract_jupyter.loop.offered import OfferedTools
    from tract_jupyter.review import Reviewer
    from tract_jupyter.toolkit import Approval, Toolset

CarryOut = Callable[[ActingCall, Callable[[], ToolResult]], ToolResult]
"""A user's function that takes the place of making a call: given the call, and what makes it as usual."""
_LONGEST_NAME = 64


class _Ended(Exception):  # noqa: N818 # it ends a wait, and is no error
    """The turn was stopped while a person was asked."""


@dataclass(eq=False)
class _Call:
    """One call of a step, and how far it has come."""

    place: int
    asked: ActingCall
    prepared: PreparedCall | None = None
    approval: Approval | None = None
    note: str = ""
    waits: bool = False
    is_begun: bool = False
    answer: CallAnswer | None = None

    @property
    def reads(self) -> bool:
        return self.prepared is not None and self.prepared.tool.traits.read_only


@dataclass(frozen=True)
class Machinery:
    """What the calls of a turn are carried out with.

    Attributes:
        offered: what the model was sent.
        asked: what this process has asked about calls that wait, by the ids of the calls.
        carry_out: a user's function in the place of making a call.
        parallel: how many calls that only read may run at once.
    """

    toolset: Toolset
    reviewer: Reviewer
    catch_up: Callable[[Any], object]
    journal: CallJournal
    meter: TurnMeter
    stop: StopSignal
    offered: OfferedTools
    asked: dict[str, Any]
    carry_out: CarryOut | None = None
    parallel: int = 8


@dataclass(eq=False)
class StepCalls:
    """The calls of one message.

    Args:
        commit: the message.
        calls: those that have no answer yet, in order.
        known: what the journal says of them.
        machinery: what they are carried out with.

    Attributes:
        limit: the limit that kept a call from being made; empty if none did.
        noted: whether the journal has something about them.
    """

    commit: str
    calls: Sequence[ActingCall]
    known: Mapping[str, KnownCall]
    machinery: Machinery
    limit: str = ""
    noted: bool = False
    _closed: bool = False
    _miss: CassetteError | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._calls = [_Call(place, call) for place, call in enumerate(self.calls)]
        self.noted = bool(self.known)

    def answers(self) -> Iterator[list[tuple[ActingCall, CallAnswer]]]:
        """Carry the calls out, and yield their answers in order, some at a time; not those that wait."""
        self._prepare()
        self._ask()
        for group in self._groups():
            open_ones = [call for call in group if call.answer is None and not call.waits]
            if open_ones and open_ones[0].reads:
                self._read(open_ones)
            elif open_ones:
                self._write(open_ones[0])
            yield [(call.asked, call.answer) for call in group if call.answer is not None]

    def _groups(self) -> Iterator[list[_Call]]:
        """Yield the calls in order: each that may change something by itself, what is between them together."""
        group: list[_Call] = []
        for call in self._calls:
            if call.answer is None and not call.waits and not call.reads:
                if group:
                    yield group
                yield [call]
                group = []
            else:
                group.append(call)
        if group:
            yield group

    @property
    def waits(self) -> bool:
        """True if a person has to decide about some of them."""
        return any(call.waits for call in self._calls)

    def close(self, why: str) -> list[tuple[ActingCall, CallAnswer]]:
        """Return an answer for each call that has none, which says why; what was asked about them is withdrawn."""
        with self._lock:
            self._closed = True
        ended = []
        for call in self._calls:
            if call.answer is None:
                begun = self.known.get(call.asked.id) is not None or call.is_begun
                told = STOPPED_RUNNING if begun else why
                call.answer, call.waits = CallAnswer(told, is_error=True), False
                ended.append((call.asked, call.answer))
            self._withdraw(call.asked.id)
        return ended

    # --- before

    def _prepare(self) -> None:
        planned = 0
        for call in self._calls:
            known = self.known.get(call.asked.id)
            if known is not None and known.answer is not None:
                call.answer = known.answer
                continue
            call.answer = self._turned_down(call, planned)
            if call.answer is not None:
                continue
            doubt = "" if known is None else BEGUN_BEFORE
            found = self.machinery.toolset.prepare(call.asked.name, call.asked.arguments, doubt=doubt)
            if isinstance(found, ToolResult):
                call.answer = answer_of(found)
                continue
            planned += 1
            call.prepared = found

    def _turned_down(self, call: _Call, planned: int) -> CallAnswer | None:
        """Return the answer of a call that cannot be made, whatever its tool says."""
        machinery, asked = self.machinery, call.asked
        why = why_unreadable(asked.arguments)
        if why:
            return CallAnswer(f"not run: {why}", is_error=True)
        if not machinery.toolset.has(asked.name):
            if asked.name in machinery.offered.names:
                return CallAnswer(removed_tool(asked.name), is_error=True)
            near = machinery.toolset.nearest(asked.name)
            return CallAnswer(unknown_tool(asked.name[:_LONGEST_NAME], near), is_error=True)
        limit = machinery.meter.why_no_call(planned)
        if limit:
            self.limit = limit
            return CallAnswer(limited(limit), is_error=True)
        return None

    def _ask(self) -> None:
        """Have a person decide about all calls that need it, in one list."""
        to_ask: list[tuple[_Call, Any]] = []
        for call in self._calls:
            question = None if call.prepared is None else call.prepared.question
            if question is None or call.prepared is None:
                continue
            earlier = self.machinery.asked.get(call.asked.id)
            if earlier is not None:
                self.machinery.catch_up(earlier)
                question = earlier
            is_in_doubt = call.asked.id in self.known
            if not question.status.is_open or (
                not is_in_doubt and earlier is None and self.machinery.reviewer.granted(question)
            ):
                self._decided(call, question)
            else:
                to_ask.append((call, question))
        if to_ask:
            self._ask_together(to_ask)

    def _ask_together(self, to_ask: list[tuple[_Call, Any]]) -> None:
        machinery = self.machinery
        for call, question in to_ask:
            machinery.asked[call.asked.id] = question
        asked = [question for _, question in to_ask]
        try:
            with machinery.meter.waiting(), checking(self._check_stop):
                asked, _ = machinery.reviewer.decide_together(asked)
        except _Ended:
            for call, _ in to_ask:
                self._give_up(call)
            return
        for (call, _), question in zip(to_ask, asked, strict=True):
            machinery.asked[call.asked.id] = question
            self._decided(call, question)

    def _give_up(self, call: _Call) -> None:
        """Answer a call that the turn was stopped before; what was decided until then is not carried out."""
        self._withdraw(call.asked.id)
        call.answer = CallAnswer(STOPPED, is_error=True)

    def _decided(self, call: _Call, question: Any) -> None:
        """Note what a person decided about a call."""
        if question.status is PendingStatus.PENDING or call.prepared is None:
            call.waits = True
            return
        self.machinery.asked.pop(call.asked.id, None)
        if question.status is not PendingStatus.APPROVED:
            call.answer = CallAnswer(refused(refusal(question)), is_error=True)
            return
        approved = dict(question.call_arguments)
        call.note = changes(call.prepared.values, approved)
        call.prepared = call.prepared._replace(values=approved)
        call.approval = question.approval

    def _check_stop(self) -> None:
        if self.machinery.stop.is_set():
            raise _Ended

    def _withdraw(self, call_id: str) -> None:
        question = self.machinery.asked.pop(call_id, None)
        if question is not None and question.status.is_open:
            try:
                question.reject(WENT_ON)
            except TractError:
                return  # somebody else just decides it; nothing is run for it any more

    # --- carrying out

    def _write(self, call: _Call) -> None:
        """Make a call that may change something, here and now."""
        machinery = self.machinery
        why = self._why_not()
        if why:
            call.answer = CallAnswer(why, is_error=True)
            return
        self.noted = True
        machinery.journal.begin(self.commit, call.place, call.asked.id)
        call.is_begun = True
        answer = self._made(call)
        machinery.journal.end(self.commit, call.place, call.asked.id, answer)
        call.answer = answer

    def _read(self, calls: list[_Call]) -> None:
        """Make calls that only read, side by side, each in a thread, as many at once as may be."""
        came: SimpleQueue[_Call | None] = SimpleQueue()
        waiting, lock = iter(calls), threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    call = next(waiting, None)
                if call is None:
                    return
                try:
                    self._read_one(call, keeps=len(calls) > 1)
                finally:
                    came.put(call)

        forget = self.machinery.stop.on_set(lambda: came.put(None))
        try:
            for _ in range(min(self.machinery.parallel, len(calls))):
                run = contextvars.copy_context().run
                threading.Thread(target=run, args=(work,), name="tract-read", daemon=True).start()
            left = len(calls)
            while left and self._next(came):
                left -= 1
        finally:
            forget()
        if self._miss is not None:
            raise self._miss
        if left:
            self._leave(calls)

    def _next(self, came: SimpleQueue[_Call | None]) -> bool:
        """Wait for the next call to end; False if the rest is not waited for any more."""
        try:
            return came.get(timeout=self.machinery.meter.seconds_left) is not None
        except Empty:
            return False

    def _read_one(self, call: _Call, *, keeps: bool) -> None:
        """Make a call in a thread; whatever is raised, somebody waits for its answer."""
        try:
            with side_by_side():
                self._read_and_keep(call, keeps=keeps)
        except CassetteError as error:
            self._miss = error
        except TractError as error:
            call.answer = CallAnswer(f"its result could not be kept: {error}", is_error=True)
        except BaseException as error:  # noqa: BLE001
            call.answer = answer_of(failed(call.asked.name, error))

    def _read_and_keep(self, call: _Call, *, keeps: bool) -> None:
        why = self._why_not()
        answer = CallAnswer(why, is_error=True) if why else self._made(call)
        with self._lock:
            if self._closed or call.answer is not None:
                return  # nobody waits for it any more
            if keeps and not why:
                self.noted = True
                self.machinery.journal.end(self.commit, call.place, call.asked.id, answer)
            call.answer = answer

    def _leave(self, calls: Iterable[_Call]) -> None:
        """Answer the calls that are not waited for any more; what they read is nobody's."""
        limit = self.machinery.meter.why_no_call()
        is_late = bool(limit) and not self.machinery.stop.is_set()
        self.limit = limit if is_late else self.limit
        told = LATE.format(limit=limit) if is_late else STOPPED_READING
        with self._lock:
            for call in calls:
                if call.answer is None:
                    call.answer = CallAnswer(told, is_error=True)

    def _made(self, call: _Call) -> CallAnswer:
        machinery, prepared = self.machinery, call.prepared
        if prepared is None:
            raise TypeError("a call is made after it was prepared")

        def make() -> ToolResult:
            return machinery.toolset.carry_out(call.asked.name, prepared.values, approval=call.approval)

        made: list[None] = []

        def take() -> str:
            why = self._take()
            if not why:
                made.append(None)
            return why

        with allowing(take):
            result = (
                make() if machinery.carry_out is None else _replaced(machinery.carry_out, call.asked, make)
            )
        return answer_of(result)._replace(note=call.note, made=len(made))

    def _why_not(self) -> str:
        if self.machinery.stop.is_set():
            return STOPPED
        limit = self.machinery.meter.why_no_call()
        self.limit = limit or self.limit
        return limited(limit) if limit else ""

    def _take(self) -> str:
        """Count a call, also one that a script makes, and return why it may not be made."""
        if self.machinery.stop.is_set():
            return STOPPED
        limit = self.machinery.meter.take_call()
        self.limit = limit or self.limit
        return limited(limit) if limit else ""


def _once(call: ActingCall, make: Callable[[], ToolResult]) -> Callable[[], ToolResult]:
    """Return what makes a call the first time, and gives that result from then on: an approval is for one call."""
    lock, results = threading.Lock(), list[ToolResult]()

    def make_once() -> ToolResult:
        with lock:
            if not results:
                results.append(ToolResult(call.name, success=False, error=NOT_ENDED))
                results[0] = make()
            return results[0]

    return make_once


def _replaced(carry_out: CarryOut, call: ActingCall, make: Callable[[], ToolResult]) -> ToolResult:
    """Have a user's function make a call; what it raises, or gives in another form, is the result all the same."""
    try:
        given: Any = carry_out(call, _once(call, make))
    except BaseException as error:  # it may raise anything
        if is_order(error):
            raise
        return failed(call.name, error)
    return result_of(call.name, given)
