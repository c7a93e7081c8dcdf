"""Execution of the tool calls of one step: one approval list, parallel reads, ordered writes (or lanes).

The journal records each call that changes something before the call starts. If the process dies before the call ends,
the user must approve the call again, even if it was allowed before. A call that has ended never runs again.
The user must also approve the calls of a stored reply if their signatures do not match, because anyone who can write
to the store could have added them.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.concurrency import BY_PERSON, HEARTBEAT, Stopped, StopSignal, run_until_stopped, stopped_by
from tract_jupyter.exceptions import CassetteError, TractError
from tract_jupyter.llm import costs_of_block, why_unreadable
from tract_jupyter.loop.answers import CallAnswer, answer_of, changes
from tract_jupyter.models import PendingStatus, ToolCall
from tract_jupyter.prompts import (
    ANSWERED_WITHOUT,
    APPROVED_BEFORE,
    APPROVED_OTHER,
    ASKED_AGAIN,
    BEGUN_BEFORE,
    END_UNKNOWN,
    NO_REASON,
    NOT_ENDED,
    READ_UNKNOWN,
    TOO_MANY_CHOICES,
    UNDECIDED,
    UNSIGNED,
    WENT_ON,
    also_refused,
    ended_reading,
    ended_running,
    not_run,
    refused,
    removed_tool,
    unknown_tool,
)
from tract_jupyter.review import checking
from tract_jupyter.storage import is_order
from tract_jupyter.toolkit import (
    Alternative,
    Call,
    CallNotes,
    PendingToolCall,
    ToolResult,
    call_context,
    changed_context,
    failed,
    refusal,
    result_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.loop.events import TurnObserver
    from tract_jupyter.loop.journal import CallJournal, KnownCall
    from tract_jupyter.loop.meter import TurnMeter
    from tract_jupyter.loop.offered import OfferedTools
    from tract_jupyter.toolkit import Asking, ToolExecutor, Toolset, TurnRecorder

CarryOut = Callable[[ToolCall, Callable[[], ToolResult]], ToolResult]
"""A user's function that replaces the execution of a call. It gets the call, and a function that runs it as usual."""
_LONGEST_NAME = 64
_PATIENCE = 2.0
"""Seconds that an interrupted step waits for these calls to end."""
_MOST_CHOICES = 8
"""The maximum number of times that the user may replace one call by an alternative."""


class EndedCall(NamedTuple):
    """A call that has its answer.

    Attributes:
        call: the call, as the model wrote it.
        tool: the tool that ran, which the user may have chosen as an alternative; empty if none ran.
        arguments: the arguments of that tool.
        reads: True if the tool only reads.
        made: True if the tool ran.
        decision: `approved`, `modified` or `rejected`; empty if no approval was needed.
        answer: the answer.
    """

    call: ToolCall
    tool: str
    arguments: Mapping[str, Any]
    reads: bool
    made: bool
    decision: str
    answer: CallAnswer


AfterStep = Callable[[list[EndedCall]], str]
"""A function that gets the calls of each finished step. If it returns a text, the turn ends with this reason."""


class _Ended(Exception):  # noqa: N818 # it ends a wait, it is not an error
    """The turn was stopped. Raised to end a wait for the user, or a script."""


@dataclass(eq=False)
class _StepCall:
    """One call of a step, and its progress."""

    original: ToolCall
    prepared: Call | None = None
    chosen_at: Any = None
    """The request in which the user chose an alternative that is not prepared yet."""
    replaced: str = ""
    """The text for the model about a call that the user replaced."""
    choices: int = 0
    note: str = ""
    decision: str = ""
    waits: bool = False
    is_begun: bool = False
    answer: CallAnswer | None = None
    notes: CallNotes | None = None

    @property
    def reads(self) -> bool:
        return self.prepared is not None and self.prepared.tool.traits.read_only

    @property
    def lane(self) -> str:
        """The lane of a call that changes something. It is empty if the call waits for all others."""
        if self.prepared is None or self.prepared.tool.lane is None:
            return ""
        return self.prepared.tool.lane(self.prepared.values)


class OpenQuestion(NamedTuple):
    """An open request about a call.

    Attributes:
        question: the pending.
        prepared: the prepared call: the model's, or the alternative that the user chose.
        replaced: the text for the model about the replaced call.
    """

    question: Any
    prepared: Call | None
    replaced: str = ""


@dataclass(frozen=True)
class CallDependencies:
    """The dependencies of the calls of a turn.

    Attributes:
        offered: the tools that the model was offered.
        open_requests: the open requests of this process about calls of this branch, by call id.
        at_tools: enters the context in which tools see their own HEAD.
        carry_out: a user's function that replaces the execution of a call.
        parallel: the maximum number of parallel calls that only read.
        observer: gets the events of each call; None for no observer.
        effects: records the effects of the calls, for the undo of the turn.
        redact: hides values in the results; None to hide nothing.
    """

    toolset: Toolset
    journal: CallJournal
    meter: TurnMeter
    stop: StopSignal
    offered: OfferedTools
    open_requests: dict[str, OpenQuestion]
    at_tools: Callable[[], AbstractContextManager[object]] = nullcontext
    carry_out: CarryOut | None = None
    parallel: int = 8
    observer: TurnObserver | None = None
    effects: TurnRecorder | None = None
    redact: Callable[[str], str] | None = None

    @property
    def reviewer(self) -> Asking:
        """The reviewer of the tract that the tools belong to."""
        return self.toolset.reviewer


@dataclass(eq=False)
class StepCalls:
    """The calls of one message.

    Args:
        commit: the message.
        calls: the calls without an answer, in order.
        known: the journal's entries about them.
        dependencies: the dependencies of the calls.
        is_signed: False if a stored reply does not match the signature of its calls.
        model: the provider's name of the model that made the calls.

    Attributes:
        limit: the limit that prevented a call; empty if none did.
        is_over: True if all calls are answered after the last yield.
    """

    commit: str
    calls: Sequence[ToolCall]
    known: Mapping[str, KnownCall]
    dependencies: CallDependencies
    is_signed: bool = True
    model: str = ""
    limit: str = ""
    is_over: bool = False
    _closed: bool = False
    _lane_count: int = 1
    _miss: CassetteError | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._calls = [_StepCall(call) for call in self.calls]

    def answers(self) -> Iterator[list[tuple[ToolCall, CallAnswer]]]:
        """Execute the calls and yield their answers in order, in groups. Calls that wait for approval have none."""
        with self.dependencies.at_tools():
            self._prepare()
            self._ask()
        for group in self._groups():
            open_ones = [call for call in group if call.answer is None and not call.waits]
            if open_ones and open_ones[0].reads:
                self._read(open_ones)
            elif len({call.lane for call in open_ones}) > 1:
                self._write_in_lanes(open_ones)
            else:
                for call in open_ones:
                    self._write(call)
            self.is_over = group[-1] is self._calls[-1] and not self.waits
            answered = [(call, call.answer) for call in group if call.answer is not None]
            for call, _ in answered:
                self._withdraw_left(call)
            yield [(call.original, answer) for call, answer in answered]

    def _groups(self) -> Iterator[list[_StepCall]]:
        """Yield the calls in order: each write alone, the reads between two writes together.

        Consecutive writes with a lane form one group.
        """
        group: list[_StepCall] = []
        kind: object = None
        for call in self._calls:
            is_write = call.answer is None and not call.waits and not call.reads
            its_kind = (object() if not call.lane else "lanes") if is_write else "reads"
            if group and its_kind != kind:
                yield group
                group = []
            group.append(call)
            kind = its_kind
        if group:
            yield group

    @property
    def waits(self) -> bool:
        """True if the user has to decide about some of the calls."""
        return any(call.waits for call in self._calls)

    def ended_call(self, original: ToolCall) -> EndedCall:
        """Return the summary of an answered call."""
        call = next(one for one in self._calls if one.original.id == original.id)
        prepared, answer = call.prepared, call.answer or CallAnswer("")
        has_run = answer.made > 0 if call.reads else call.is_begun
        if prepared is None:
            return EndedCall(original, "", {}, reads=False, made=False, decision=call.decision, answer=answer)
        return EndedCall(
            original, prepared.tool.name, prepared.values, call.reads, has_run, call.decision, answer
        )

    def close(self, why: str) -> list[tuple[ToolCall, CallAnswer]]:
        """Return the answer of each call. A call without one gets the reason. Open requests are withdrawn."""
        with self._lock:
            self._closed = True
        answers = []
        for call in self._calls:
            if call.answer is None:
                text = END_UNKNOWN if self._may_have_run(call) else not_run(why)
                if call.is_begun:
                    text = ended_reading(why) if call.reads else ended_running(why)
                call.answer, call.waits = CallAnswer(text, is_error=True), False
            answers.append((call.original, call.answer))
            self._withdraw_left(call)
            waiting = self.dependencies.open_requests.pop(call.original.id, None)
            if waiting is not None:
                _withdraw(waiting.question, why)
        return answers

    # --- before

    def _prepare(self) -> None:
        planned: tuple[str, ...] = ()
        for call in self._calls:
            known = self.known.get(call.original.id)
            if known is not None and known.answer is not None:
                call.answer = known.answer
                continue
            call.answer = self._early_answer(call, len(planned))
            if call.answer is None and known is not None:
                call.answer = left_refusal(known, self.dependencies.toolset.executor)
            if call.answer is not None:
                self._withdraw_earlier(call)
                continue
            with changed_context(
                planned=planned, script=None
            ):  # a turn within a script makes its own requests
                prepared = self.dependencies.toolset.prepare(
                    call.original.name, call.original.arguments, doubt=self._doubt(call)
                )
            if isinstance(prepared, ToolResult):
                call.answer = answer_of(prepared, self.dependencies.redact)
                self._withdraw_earlier(call)
                continue
            planned = (*planned, prepared.tool.name)
            call.prepared = prepared

    def _withdraw_earlier(self, call: _StepCall) -> None:
        """Withdraw the open request about a call that is answered without it, because it cannot run any more."""
        earlier = self.dependencies.open_requests.pop(call.original.id, None)
        if earlier is not None and call.answer is not None:
            _withdraw(earlier.question, call.answer.text)

    def _doubt(self, call: _StepCall) -> str:
        """Return the reason to ask the user despite earlier approvals; empty if there is none."""
        if not self.is_signed:
            return UNSIGNED
        return BEGUN_BEFORE if self._may_have_run(call) else ""

    def _may_have_run(self, call: _StepCall) -> bool:
        """Return True if a process that has ended started the call."""
        known = self.known.get(call.original.id)
        return known is not None and may_have_run(known, self.dependencies.toolset.executor)

    def _note_request(self, call: _StepCall, pending: Any, *, within: bool = False) -> None:
        """Record a request about a call or within it. It replaces the requests that an ended process left."""
        self.dependencies.journal.ask(self.commit, call.original.id, pending.pending_id, within=within)
        if self._withdraw_left(call, pending):
            pending.caution = ". ".join(filter(None, [pending.caution, APPROVED_OTHER]))

    def _withdraw_left(self, call: _StepCall, asked: Any = None) -> bool:
        known = self.known.get(call.original.id)
        if known is None or not known.requests:
            return False
        why = ANSWERED_WITHOUT if asked is None else ASKED_AGAIN
        return self.dependencies.toolset.executor.withdraw_left(known.requests, why, asked)

    def _early_answer(self, call: _StepCall, planned: int) -> CallAnswer | None:
        """Return the answer of a call that cannot run, regardless of its tool; None if it can."""
        dependencies, original = self.dependencies, call.original
        why = why_unreadable(original.arguments)
        if why:
            return CallAnswer(not_run(why), is_error=True)
        if not dependencies.toolset.has(original.name):
            if original.name in dependencies.offered.names:
                return CallAnswer(removed_tool(original.name), is_error=True)
            near = dependencies.toolset.nearest(original.name)
            return CallAnswer(unknown_tool(original.name[:_LONGEST_NAME], near), is_error=True)
        limit = dependencies.meter.why_no_call(planned)
        if limit:
            self.limit = limit
            return CallAnswer(not_run(limit), is_error=True)
        return None

    def _ask(self) -> None:
        """Ask the user about all calls that need approval, in one list; then about the chosen alternatives."""
        calls = self._calls
        while calls:
            to_ask = [
                (call, question) for call in calls if (question := self._open_question(call)) is not None
            ]
            if to_ask:
                self._ask_together(to_ask)
            calls = [call for call in calls if call.chosen_at is not None and self._take_instead(call)]

    def _open_question(self, call: _StepCall) -> Any | None:
        """Return the open request about a call; None if it is decided, or needs no approval."""
        if call.prepared is None or call.prepared.question is None:
            return None
        question, earlier = call.prepared.question, self.dependencies.open_requests.get(call.original.id)
        if earlier is not None:
            question, call.prepared, call.replaced = earlier
            self.dependencies.reviewer.catch_up(question)
        if not question.status.is_open or (
            not self._doubt(call) and earlier is None and self._is_granted(question)
        ):
            self._apply_decision(call, question)
            return None
        return question

    def _is_granted(self, question: Any) -> bool:
        """Return True if a standing approval decides the request. Return False after a stop of the turn."""
        dependencies = self.dependencies
        with costs_of_block() as lines:
            try:
                with checking(self._check_stop):
                    return dependencies.reviewer.granted(question)
            except _Ended:
                return False
            finally:
                dependencies.meter.add_costs(lines)

    def _ask_together(self, to_ask: list[tuple[_StepCall, Any]]) -> None:
        dependencies = self.dependencies
        for call, question in to_ask:
            dependencies.open_requests[call.original.id] = OpenQuestion(
                question, call.prepared, call.replaced
            )
            asked = dependencies.reviewer.find_duplicate(question) or question  # from a dead process
            self._note_request(call, asked)
            if dependencies.observer is not None:
                dependencies.observer.asked(call.original.id, asked.pending_id)
        questions = [question for _, question in to_ask]
        try:
            with dependencies.meter.waiting(), checking(self._check_stop):
                self._check_stop()  # without a user, nothing waits, and nothing checks
                questions, _ = dependencies.reviewer.decide_together(questions)
        except _Ended:
            for call, question in to_ask:
                self._abandon(call, question)
            return
        for (call, _), question in zip(to_ask, questions, strict=True):
            dependencies.open_requests[call.original.id] = OpenQuestion(
                question, call.prepared, call.replaced
            )
            self._apply_decision(call, question)

    def _abandon(self, call: _StepCall, question: Any) -> None:
        """Answer a call of a stopped turn. An approved call does not run."""
        why = self.dependencies.stop.reason
        waiting = self.dependencies.open_requests.pop(call.original.id, None)
        question = question if waiting is None else waiting.question
        is_refused = question.status in {PendingStatus.REJECTED, PendingStatus.EXPIRED}
        _withdraw(question, why)
        call.answer = CallAnswer(refused(refusal(question)) if is_refused else not_run(why), is_error=True)

    def _apply_decision(self, call: _StepCall, question: Any) -> None:
        """Apply the decision about a call, or about the alternative that replaced it."""
        if question.status is PendingStatus.PENDING or call.prepared is None:
            call.waits = True
            return
        self.dependencies.open_requests.pop(call.original.id, None)
        instead = getattr(question, "instead", None)
        if self.dependencies.observer is not None:
            alternative = (
                Alternative(question.tool_name, dict(question.call_arguments)) if call.replaced else None
            )
            self.dependencies.observer.decided(call.original.id, question, instead or alternative)
        if question.status is not PendingStatus.APPROVED:
            call.decision = "rejected"
            why = refusal(question)
            text = refused(why)
            if instead is not None:
                call.chosen_at, call.replaced = question, text
                return
            text = also_refused(call.replaced, why) if call.replaced else text
            call.answer = CallAnswer(text, is_error=True)
            return
        approved = dict(question.call_arguments)
        changed = changes(call.prepared.values, approved)
        call.note = ". ".join(filter(None, (call.replaced, changed)))
        call.decision = "modified" if call.note else "approved"
        call.prepared.values = approved
        call.prepared.approval = question.approval

    def _take_instead(self, call: _StepCall) -> bool:
        """Prepare the alternative that the user chose. Return True if it needs its own approval.

        The choice alone is no approval: the user has not seen the request for that call, with its traits and details.
        """
        question, call.chosen_at = call.chosen_at, None
        instead: Alternative = question.instead
        call.prepared, call.choices = None, call.choices + 1
        if call.choices > _MOST_CHOICES:
            call.answer = CallAnswer(also_refused(call.replaced, TOO_MANY_CHOICES), is_error=True)
            return False
        with changed_context(script=None):
            prepared = self.dependencies.toolset.prepare(
                instead.name, instead.arguments, doubt=self._doubt(call)
            )
        if isinstance(prepared, ToolResult):
            call.answer = CallAnswer(also_refused(call.replaced, prepared.error), is_error=True)
            return False
        call.prepared, call.note, call.decision = prepared, call.replaced, "modified"
        if isinstance(prepared.question, PendingToolCall):
            prepared.question.take_place_of(question)
        return prepared.question is not None

    def _check_stop(self) -> None:
        if self.dependencies.stop.is_set():
            raise _Ended

    # --- carrying out

    def _write_in_lanes(self, calls: list[_StepCall]) -> None:
        """Run each lane in its own thread, in order, and wait until all calls end or are abandoned."""
        lanes: dict[str, list[_StepCall]] = {}
        for call in calls:
            lanes.setdefault(call.lane, []).append(call)
        threads, self._lane_count = [], len(lanes)
        for lane in lanes.values():
            run = contextvars.copy_context().run
            threads.append(
                threading.Thread(target=run, args=(self._work_lane, lane), name="tract-lane", daemon=True)
            )
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(HEARTBEAT)  # short waits: an interrupt comes between two of them
        except BaseException:
            self.dependencies.stop.set(BY_PERSON)
            for thread in threads:
                thread.join(_PATIENCE)
            raise
        finally:
            self._lane_count = 1
        if self._miss is not None:
            raise self._miss

    def _work_lane(self, calls: list[_StepCall]) -> None:
        for call in calls:
            self._guarded(self._write, call)

    def _guarded(self, run: Callable[[_StepCall], None], call: _StepCall) -> None:
        """Run a call. Turn every exception into an answer, because the step waits for it."""
        try:
            run(call)
        except CassetteError as error:
            self._miss = error
        except TractError as error:
            call.answer = CallAnswer(f"its result could not be stored: {error}", is_error=True)
        except BaseException as error:  # noqa: BLE001
            call.answer = answer_of(failed(call.original.name, error), self.dependencies.redact)

    def _write(self, call: _StepCall) -> None:
        """Run a call that may change something, in this thread."""
        dependencies = self.dependencies
        why = self._refusal_reason()
        if why:
            call.answer = CallAnswer(why, is_error=True)
            return
        asks = call.prepared is not None and call.prepared.shows_doubt() and dependencies.carry_out is None
        if not asks:  # else the start of the action of its request is recorded
            dependencies.journal.begin(self.commit, call.original.id)
        call.is_begun = True
        result = run_until_stopped(partial(self._execute, call), dependencies.stop)
        # an abandoned call still runs, and its end is unknown
        if result is None and call.notes is not None:
            call.notes.is_left = True
        answer = result or CallAnswer(ended_running(dependencies.stop.reason), is_error=True, made=1)
        dependencies.journal.end(self.commit, call.original.id, answer)
        call.answer = answer

    def _read(self, calls: list[_StepCall]) -> None:
        """Run calls that only read, in parallel threads."""
        finished: SimpleQueue[_StepCall | None] = SimpleQueue()
        waiting, lock = iter(calls), threading.Lock()
        read = partial(self._read_and_store, keeps=len(calls) > 1)

        def work() -> None:
            while True:
                with lock:
                    call = next(waiting, None)
                if call is None:
                    return
                try:
                    self._guarded(read, call)
                finally:
                    finished.put(call)

        forget = self.dependencies.stop.on_set(lambda: finished.put(None))
        try:
            for _ in range(min(self.dependencies.parallel, len(calls))):
                run = contextvars.copy_context().run
                threading.Thread(target=run, args=(work,), name="tract-read", daemon=True).start()
            remaining = len(calls)
            while remaining and self._wait_for_next(finished):
                remaining -= 1
        finally:
            forget()
        if self._miss is not None:
            raise self._miss
        if remaining:
            self._abandon_reads(calls)

    def _wait_for_next(self, finished: SimpleQueue[_StepCall | None]) -> bool:
        """Wait for the next call to end. Return False if the step no longer waits."""
        try:
            return finished.get(timeout=self.dependencies.meter.seconds_left) is not None
        except Empty:
            return False

    def _read_and_store(self, call: _StepCall, *, keeps: bool) -> None:
        why = self._refusal_reason()
        with self._lock:
            if self._is_abandoned(call):
                return
            call.is_begun = not why
        answer = CallAnswer(why, is_error=True) if why else self._execute(call)
        with self._lock:
            if self._is_abandoned(call):
                return
            if keeps and not why:
                self.dependencies.journal.end(self.commit, call.original.id, answer)
            call.answer = answer

    def _is_abandoned(self, call: _StepCall) -> bool:
        return self._closed or call.answer is not None

    def _abandon_reads(self, calls: Iterable[_StepCall]) -> None:
        """Answer the calls that the step no longer waits for. Their results are not used."""
        limit = self.dependencies.meter.why_no_call()
        is_late = bool(limit) and not self.dependencies.stop.is_set()
        self.limit = limit if is_late else self.limit
        why = limit if is_late else self.dependencies.stop.reason
        with self._lock:
            for call in calls:
                if call.answer is None:
                    text = ended_reading(why) if call.is_begun else not_run(why)
                    call.answer = CallAnswer(text, is_error=True)

    def _execute(self, call: _StepCall) -> CallAnswer:
        dependencies, prepared = self.dependencies, call.prepared
        if prepared is None:
            raise TypeError("Prepare a call before it runs.")

        def make() -> ToolResult:
            return prepared.execute(prepared.values)

        executed: list[None] = []
        interrupted: list[None] = []

        def check() -> None:
            if dependencies.stop.is_set():
                interrupted.append(None)
                raise _Ended(dependencies.stop.reason)

        def take() -> str:
            why = self._count_call()
            if not why:
                executed.append(None)
            return why

        notes = call.notes = CallNotes(
            meter=dependencies.meter, stop=dependencies.stop, is_again=self._may_have_run(call),
            among=self._lane_count, model=self.model, doubt=self._doubt(call),
            on_ask=partial(self._note_request, call, within=True),
        )  # fmt: skip
        observation = (
            nullcontext()
            if dependencies.observer is None
            else dependencies.observer.making(call.original.id, notes)
        )
        with (
            dependencies.at_tools(),
            changed_context(
                notes=notes,
                take_call=take,
                effects=call_context().effects or dependencies.effects,
                script=None,
            ),
            observation,
            checking(check),
            stopped_by(dependencies.stop),
        ):
            result = (
                make()
                if dependencies.carry_out is None
                else _run_replacement(dependencies.carry_out, call.original, make)
            )
        why = dependencies.stop.reason
        for question in notes.asked if why else ():
            _withdraw(question, why)
        if (
            interrupted or isinstance(result.cause, Stopped)
        ) and not result.success:  # its own request was abandoned; a script's comes first
            text = not_run(why) if prepared.tool.asks_itself else ended_running(why)
            return CallAnswer(text, is_error=True, made=len(executed))
        answer = answer_of(result, dependencies.redact)
        note = "\n\n".join(filter(None, [call.note, answer.note]))
        return answer._replace(note=note, made=len(executed))

    def _refusal_reason(self) -> str:
        if self.dependencies.stop.is_set():
            return not_run(self.dependencies.stop.reason)
        limit = self.dependencies.meter.why_no_call()
        self.limit = limit or self.limit
        return not_run(limit) if limit else ""

    def _count_call(self) -> str:
        """Count a call, which may be a script's, and return the reason if it may not run."""
        if self.dependencies.stop.is_set():
            return not_run(self.dependencies.stop.reason)
        limit = self.dependencies.meter.take_call()
        self.limit = limit or self.limit
        return not_run(limit) if limit else ""


def left_answer(
    known: KnownCall | None,
    question: Any | None,
    executor: ToolExecutor,
    catch_up: Callable[[Any], object],
    *,
    reads: bool,
) -> CallAnswer:
    """Return the answer of an open call that does not run, because the user sent another message.

    Args:
        known: the journal's entry about the call.
        question: this process's request about the call. It is withdrawn, like the requests of ended processes.
        executor: the executor of the call.
        catch_up: updates the request with decisions of other processes.
        reads: True if the call only reads. The journal does not record the start of such a call.
    """
    if known is not None and known.answer is not None:
        return known.answer
    text = READ_UNKNOWN if reads else not_run(WENT_ON)
    if question is not None:
        catch_up(question)
        is_open = question.status.is_open
        _withdraw(question, UNDECIDED)
        text = not_run(UNDECIDED if is_open else APPROVED_BEFORE)
        if not is_open and question.status is not PendingStatus.APPROVED:
            text = refused(refusal(question))
    if known is not None:
        text = END_UNKNOWN if may_have_run(known, executor) else text
        executor.withdraw_left(known.requests, UNDECIDED)
        return left_refusal(known, executor) or CallAnswer(text, is_error=True)
    return CallAnswer(text, is_error=True)


def left_refusal(known: KnownCall, executor: ToolExecutor) -> CallAnswer | None:
    """Return the answer of a call that did not run if the user rejected its request after its process ended."""
    reason = executor.reviewer.ledger.rejection(known.requests[-1]) if known.requests else None
    if reason is None or may_have_run(known, executor):
        return None
    return CallAnswer(refused(reason or NO_REASON), is_error=True)


def may_have_run(known: KnownCall, executor: ToolExecutor) -> bool:
    """Return True if a call has started, as the journal or a request of its tool says."""
    return known.is_begun or executor.reviewer.ledger.may_have_run(known.within)


def _withdraw(question: Any, why: str) -> None:
    if question.status.is_open:
        with suppress(TractError):  # decided elsewhere at the same time; nothing runs for it
            question.reject(why)


def _once(call: ToolCall, make: Callable[[], ToolResult]) -> Callable[[], ToolResult]:
    """Return a function that runs the call once, and then returns the same result. An approval covers one call."""
    lock, results = threading.Lock(), list[ToolResult]()

    def make_once() -> ToolResult:
        with lock:
            if not results:
                results.append(ToolResult(call.name, success=False, error=NOT_ENDED))
                results[0] = make()
            return results[0]

    return make_once


def _run_replacement(carry_out: CarryOut, call: ToolCall, make: Callable[[], ToolResult]) -> ToolResult:
    """Run a call through a user's function, and convert its exceptions and other return values into a result."""
    try:
        value: Any = carry_out(call, _once(call, make))
    except BaseException as error:  # it may raise anything
        if is_order(error):
            raise
        return failed(call.name, error)
    return result_of(call.name, value)
