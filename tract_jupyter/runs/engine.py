"""The engine: carries a run of a tract out, with models, tools, history, decisions, and the main call."""

from __future__ import annotations

import math
import threading
from asyncio import CancelledError
from collections import OrderedDict
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import TIMEOUT_MAX, Timer
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from tract_jupyter.concurrency import Stopped, StopSignal, stopped_by
from tract_jupyter.exceptions import (
    CommitNotFoundError,
    ContentError,
    LLMConfigError,
    LLMError,
    PendingStateError,
    RejectedError,
    StoreCorruptError,
    TractError,
    UndecidedError,
)
from tract_jupyter.models import PendingStatus, brief_repr
from tract_jupyter.review import RUN, checking
from tract_jupyter.runs.activation import Counters
from tract_jupyter.runs.attempt import Functions
from tract_jupyter.runs.events import CommitFinished, MainFinished, OperationWaiting, RunFinished
from tract_jupyter.runs.kinds.base import Services
from tract_jupyter.runs.model import MainReply, ResultError
from tract_jupyter.runs.projection import RunHistory, sealed
from tract_jupyter.runs.reading import message_of
from tract_jupyter.runs.run import ABORTED, WAITING, Ending, RunLoop
from tract_jupyter.runs.run_executor import RunDependencies, RunExecutor
from tract_jupyter.runs.schedule import Limits
from tract_jupyter.runs.store import RunArtifacts, SqlCommitLog, TurnStates
from tract_jupyter.runs.targets import TractTarget
from tract_jupyter.runs.terms import ErrorCode, Hook, RunPhase
from tract_jupyter.runs.workers import ExecutorWorkers, ThreadWorkers
from tract_jupyter.storage import RunCommitRows, RunEventRows, RunObjectRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from concurrent.futures import Executor

    from tract_jupyter.context import Repository, VersionedContext
    from tract_jupyter.llm import ConfiguredLLM, Models
    from tract_jupyter.models import CommitInfo, Delta
    from tract_jupyter.runs.events import RunStarted
    from tract_jupyter.runs.generation import Generation, ReplyRequest
    from tract_jupyter.runs.kinds.rag import HistorySearch
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.log import RunLog
    from tract_jupyter.runs.model import OperationContext
    from tract_jupyter.runs.projection import Unfinished
    from tract_jupyter.runs.turn import Turn
    from tract_jupyter.runs.turns import Lease
    from tract_jupyter.runs.workers import Workers
    from tract_jupyter.toolkit import ToolExecutor


_MAIN = RunPhase.MAIN_LLM
"""What the reply is kept under, beside the reports of commits."""

_INTERRUPTS = (KeyboardInterrupt, CancelledError)
"""What the stop button raises; the latter in a cell with an `await`."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run beyond its profile.

    Attributes:
        executor: where operations run that may run anywhere; threads of this process otherwise.
        workers: instead of an executor, with a clock of their own.
        concurrency: how many operations may run at once; None for all.
        limits: per provider, of time at each hook, and how long those that were told to stop may go on.
        timeout: seconds for the whole run. A main call that has begun is ended then, if its client can be.
        abort: a signal that another thread may give.
        variables: what templates may read besides: `user`, `char`, ...
    """

    executor: Executor | None = None
    workers: Workers | None = None
    concurrency: float | None = None
    limits: Limits = field(default_factory=Limits)
    timeout: float | None = None
    abort: StopSignal | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (method, what) in _OPTIONS.items():
            given = getattr(self, name)
            if given is not None and (isinstance(given, type) or not hasattr(given, method)):
                raise ContentError(f"{name} is {what}, not {brief_repr(given)}")
        if self.timeout is not None and not _is_finite(self.timeout):
            raise ContentError(f"timeout is a number of seconds, such as 60, not {brief_repr(self.timeout)}")


# what an option must have, and how to say so
_OPTIONS = {
    "executor": ("submit", "an executor such as ProcessPoolExecutor()"),
    "workers": ("submit", "an instance of workers such as ThreadWorkers()"),
    "limits": ("per_provider", "made with Limits(...)"),
    "abort": ("on_set", "made with StopSignal()"),
    "variables": ("items", "a dict such as {'user': 'Ada'}"),
}


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass
class MainCall:
    """The main call of one run: how it is asked, what it raised, and its end and commit once that is there."""

    asked: ReplyRequest
    raised: BaseException | None = None
    kept: MainFinished | None = None
    reply: CommitInfo | None = None


class RunEngine:
    """Carries out runs of one tract.

    Args:
        tract: where operations write, and where their pendings belong.
        repository: its history.
        generation: makes the main call.
        llm: who is asked where an operation names no model.
        models: those that operations name.
        executor: gives what calls the tools of operations.
        kinds: of operations: those built in, and those that other packages bring.

    Attributes:
        functions: those that operations of kind `compute` may call.
        rows: the events of runs.
        reports: what runs have committed.
        artifacts: what runs keep from turn to turn.
    """

    def __init__(
        self,
        tract: VersionedContext,
        repository: Repository,
        generation: Generation,
        llm: ConfiguredLLM,
        models: Models,
        executor: Callable[[], ToolExecutor],
        kinds: KindRegistry,
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._generation = generation
        self._llm = llm
        self._models = models
        self._make_executor = executor
        database, tract_id = repository.database, repository.tract_id
        self.functions = Functions()
        self.kinds = kinds
        self.rows = RunEventRows(tract_id)
        self.reports = SqlCommitLog(database, RunCommitRows(tract_id))
        self.artifacts = TurnStates(
            database, RunObjectRows(tract_id), lambda: repository.writer.position.commit_hash
        )
        self._decisions = RunDecisions(tract)

    def carry_out(
        self,
        snapshot: RunStarted,
        log: RunLog,
        lease: Lease,
        call: MainCall,
        options: RunOptions,
        so_far: Unfinished | None = None,
        stop: StopSignal | None = None,
    ) -> tuple[Ending, RunHistory]:
        """Carry a run out, from its beginning or from where it was interrupted, and note its end; `stop` ends it."""
        with self._workers(options) as workers, _signal(options, workers, stop) as abort:
            dependencies = RunDependencies(
                kinds=self.kinds, services=self._services(), workers=workers,
                ask=lambda turn: self._main_call(
                    turn, snapshot, log, call, abort, workers, is_new=so_far is None
                ),
                decide=partial(self._decide_all, partial(_check_on, abort, workers)), tick=lease.renew,
                limits=options.limits, concurrency=options.concurrency, abort=abort,
            )  # fmt: skip
            artifacts = RunArtifacts(self.artifacts, snapshot.artifacts, lambda: self.is_answered(log.run_id))
            target = TractTarget(
                self._repository, log.run_id, session=snapshot.session_key, artifacts=artifacts,
                log=self.reports, is_new=so_far is None, before=log.flush,
            )  # fmt: skip
            ending = RunLoop(RunExecutor(snapshot, log, target, dependencies, so_far)).run()
        call.reply = target.rewritten_reply or call.reply
        return ending, self._end(log, ending)

    @contextmanager
    def aborted_by_ctrl_c(self, log: RunLog) -> Iterator[None]:
        """Note that the run ended by an interrupt, which comes through."""
        try:
            yield
        except _INTERRUPTS:
            if log.events:  # otherwise it had not begun
                self._note_kept(log)
                self._end(log, ABORTED)
            raise

    def _end(self, log: RunLog, ending: Ending) -> RunHistory:
        """Note how a run ended, once, and take back what it asked; one that waits has not ended."""
        events = log.events
        history = RunHistory.of(events)
        if ending is not WAITING and history.end is None:
            log.add(sealed(history, RunFinished.of(ending)))
        log.flush()
        if ending is not WAITING:
            asked = {one.data.pending_id for one in events if isinstance(one.data, OperationWaiting)}
            self._decisions.withdraw(log.run_id, asked)
        return history

    def _note_kept(self, log: RunLog) -> None:
        """Note what was stored right before an interrupt, and not noted any more."""
        history = RunHistory.of(log.events)
        for hook in Hook:
            report = self.reports.find(log.run_id, hook)
            if report is not None and hook not in history.commits:
                log.add(CommitFinished(hook=hook, report=report))
        reply = self._kept_reply(log.run_id)
        if reply is not None and history.main is None:
            log.add(reply)

    @contextmanager
    def _workers(self, options: RunOptions) -> Iterator[Workers]:
        if options.workers is not None:
            yield options.workers
            return
        executor = options.executor
        with closing(ThreadWorkers() if executor is None else ExecutorWorkers(executor)) as workers:
            yield workers

    def _services(self) -> Services:
        try:
            llm = self._llm.for_operation("chat")
        except LLMConfigError:
            llm = None
        return Services(
            llm=llm, models=self._models, call_tool=self._call_tool, functions=self.functions,
            search=self.search, decisions=self._decisions,
        )  # fmt: skip

    @cached_property
    def _history_search(self) -> HistorySearch:
        from tract_jupyter.runs.kinds import HistorySearch

        return HistorySearch(self._tract)

    def search(self, query: str, **how: Any) -> Any:
        """Search as `HistorySearch`, which is made when the first operation searches."""
        return self._history_search(query, **how)

    def _call_tool(self, name: str, arguments: dict[str, Any], **how: Any) -> Any:
        """Call a tool as `ToolExecutor.execute`, which is made when the first operation calls one."""
        return self._make_executor().execute(name, arguments, **how)

    def _decide_all(self, check: Callable[[], None], pending_ids: Collection[str]) -> bool:
        """Have a person decide about what operations wait for; False if nothing is decided.

        Args:
            check: raises `Stopped` once the run is to end. True then: the operations are to learn of it.
            pending_ids: what is asked.
        """
        try:
            with checking(check):
                decided = [self._decided_about(pending_id) for pending_id in pending_ids]
        except Stopped:
            return True
        return any(decided)

    def _decided_about(self, pending_id: str) -> bool:
        pending = self._decisions.find(pending_id)
        if pending is not None and pending.status.is_open:
            # nobody to ask, not in time, or somebody else was faster
            with suppress(UndecidedError, PendingStateError):
                pending.tract.reviewer.decide_now(pending)
        return pending is None or not pending.status.is_open

    # --- the main call

    def _main_call(
        self,
        turn: Turn,
        snapshot: RunStarted,
        log: RunLog,
        call: MainCall,
        abort: StopSignal,
        workers: Workers,
        *,
        is_new: bool,
    ) -> MainFinished:
        """Ask the model with the effective prompt, and commit its reply; once, also when the run was interrupted."""
        ended = None if is_new else self._kept_reply(log.run_id)
        if ended is None:
            with stopped_by(abort), nullcontext() if abort.deadline is None else _in_time(abort, workers):
                found = self._asked_and_kept(turn, snapshot, log.run_id, call)
            # a reply that is committed counts, whatever was raised after that
            ended = call.kept or self._kept_reply(log.run_id)
            if ended is None:
                ended = _aborted(found.reply.text) if abort.is_set() else found
        if isinstance(call.raised, _INTERRUPTS):
            abort.set()
        log.add(ended)  # it is stored before the next wait: what is committed tells as much
        return ended

    def is_answered(self, run_id: str) -> bool:
        """Return whether a run has committed its reply."""
        return self.reports.find(run_id, _MAIN) is not None

    def _remember(self, snapshot: RunStarted, turn: Turn) -> None:
        """Keep, with the reply, what the turn has changed before it: a turn without a reply changes nothing."""
        changed = [one for tag, one in turn.artifacts.persisted.items() if one != snapshot.artifacts.get(tag)]
        counters = {name: Counters(*count) for name, count in snapshot.counters.items()}
        self.artifacts.remember(snapshot.session_key, changed, snapshot.profile_id or "", counters)

    def _restore_original(self, snapshot: RunStarted, turn: Turn) -> None:
        """Put the version of the user's message that the model was sent back into the context."""
        if snapshot.turn_id is None or turn.user_part != snapshot.user_commit:
            return
        head = self._repository.writer.position.commit_hash
        if head == snapshot.turn_id:
            return
        tract, history = self._tract, self._repository.history
        if not history.is_edited(snapshot.turn_id, head):
            return
        newest = history.versions(snapshot.turn_id)[-1]
        if newest.metadata.get("run_id") and newest.commit_hash != turn.user_part:
            content = tract.get_content(newest.commit_hash)
            if content["text"] != turn.user_text:
                tract.commit(
                    {**content, "text": turn.user_text}, operation="edit", edit_target=snapshot.turn_id
                )

    def _kept_reply(self, run_id: str) -> MainFinished | None:
        """Return the reply that this run has committed, if it has.

        Raises:
            StoreCorruptError: the store says so, and there is no such commit.
        """
        kept = self.reports.find(run_id, _MAIN)
        if kept is None:
            return None
        try:
            ended = MainFinished.from_dict(kept)
            self._tract.get_commit(ended.reply_commit or "")
        except (ValidationError, CommitNotFoundError):
            raise StoreCorruptError(
                f"the reply of run {run_id} is damaged in the store, or its commit is gone; nothing was asked or "
                "committed. Restore a backup, or generate() anew"
            ) from None
        return ended

    def _asked_and_kept(self, turn: Turn, snapshot: RunStarted, run_id: str, call: MainCall) -> MainFinished:
        """Ask, and keep the reply with its commit; returns that, or what counts if it is not kept."""
        pieces: list[str] = []

        def note(delta: Delta) -> None:
            if delta.kind == "text":
                pieces.append(delta.text)

        def keep(fields: dict[str, Any]) -> Any:
            with self._repository.writer.batch():
                call.kept = None
                self._restore_original(snapshot, turn)
                response = self._generation.commit_in_batch(fields)
                reply = MainReply(text=response.text, usage=response.usage)
                ended = MainFinished(reply=reply, reply_commit=response.commit_info.commit_hash)
                self._remember(snapshot, turn)
                self.reports.add(run_id, _MAIN, ended.form())
            call.kept, call.reply = ended, response.commit_info
            return response

        try:
            self._generation.carry_out(
                call.asked, keep=keep,
                prompt=turn.prompt.provider_messages(), replaces=snapshot.replaces,
                on_delta=note,
            )  # fmt: skip
        except _INTERRUPTS as error:
            call.raised = error
            return _aborted("".join(pieces))
        except Exception as error:  # noqa: BLE001 # a client may raise anything
            call.raised = error
            return _failed(error, "".join(pieces))
        return call.kept or _failed(RejectedError("the reply was not committed: nobody approved it"))


@contextmanager
def _signal(options: RunOptions, workers: Workers, stop: StopSignal | None) -> Iterator[StopSignal]:
    """Make the run's own signal. The caller's and the turn's give it, never the reverse; an error does, too."""
    given = options.abort
    timeout = None if options.timeout is None else workers.now() + options.timeout
    deadlines = [one for one in (timeout, None if given is None else given.deadline) if one is not None]
    abort = StopSignal(min(deadlines, default=None))
    with ExitStack() as stack:
        for one in (given, stop):
            if one is not None:
                stack.callback(one.on_set(abort.set))
        try:
            yield abort
        except BaseException:
            abort.set()
            raise


@contextmanager
def _in_time(abort: StopSignal, workers: Workers) -> Iterator[None]:
    """Give the signal when the time of the run is over, while the coordinator waits for a reply."""
    left = min(max((abort.deadline or 0) - workers.now(), 0), TIMEOUT_MAX)
    timer = Timer(left, abort.set)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check_on(abort: StopSignal, workers: Workers) -> None:
    """Look whether a run that waits for a person is to end.

    Raises:
        Stopped: it was aborted, or its time is over.
    """
    abort.check()
    if abort.deadline is not None and workers.now() >= abort.deadline:
        raise Stopped


def _aborted(text: str) -> MainFinished:
    return MainFinished(reply=MainReply(text=text, finish_reason="user_abort"))


def _failed(error: Exception, text: str = "") -> MainFinished:
    code = _code(error)
    failed = ResultError(code=code, message=message_of(error))
    return MainFinished(reply=MainReply(text=text, finish_reason=code, error=failed))


def _code(error: Exception) -> str:
    told = getattr(error, "code", None)
    if isinstance(error, LLMError) and isinstance(told, str):
        return told
    if isinstance(error, RejectedError | UndecidedError):
        return ErrorCode.POLICY
    return ErrorCode.OPERATION if isinstance(error, TractError) else ErrorCode.PROVIDER


_KEPT: Final = 1_000


class RunDecisions:
    """`kinds.base.Decisions` of one tract.

    Args:
        tract: the `Tract`; its handlers decide first, and its inbox has what nobody decided.
    """

    def __init__(self, tract: Any) -> None:
        self._tract = tract
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def fire(
        self, name: str, fields: dict[str, Any], context: OperationContext, action: str | None = None
    ) -> Any:
        """Fire a dynamic operation. What a person has to decide is in the inbox when this returns.

        Raises:
            UnknownOperationError: no such operation is active.
            ParameterError: the fields do not fit.
        """
        pending = self._tract.operations.fire(
            name, fields, ask=self._left_to_a_person, does=action,
            actor=f"operation:{context.operation_id}"[:128], triggered_by=asked_by(context.run_id),
        )  # fmt: skip
        self.keep(pending)
        return pending

    def keep(self, pending: Any) -> None:
        """Remember a pending: what its approval returned is known to this very object only."""
        with self._lock:
            self._kept[pending.pending_id] = pending
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def find(self, pending_id: str) -> Any:
        """Return the pending, with what this user has decided meanwhile; None if it is unknown."""
        with self._lock:
            pending = self._kept.get(pending_id)
        if pending is None:
            pending = self._from_store(pending_id)
        if pending is not None and pending.status.is_open:
            pending.tract.review.gate.catch_up(pending)
            if pending.runs_elsewhere and not self._is_proven(pending):
                pending.status = PendingStatus.PENDING  # somebody wrote it into the store
        return pending

    def forget(self, pending_id: str) -> bool:
        """Forget a pending; return True if it was remembered."""
        with self._lock:
            return self._kept.pop(pending_id, None) is not None

    def withdraw(self, run_id: str, pending_ids: Iterable[str]) -> None:
        """Turn down what a run has asked that is over: nothing is left to decide about.

        Args:
            run_id: of the run; what it fired here is known.
            pending_ids: what it asked besides, also in a process before.
        """
        with self._lock:
            fired = {
                key
                for key, one in self._kept.items()
                if getattr(one, "triggered_by", None) == asked_by(run_id)
            }
        for pending_id in {*fired, *pending_ids}:
            with suppress(TractError):  # somebody else may just decide it
                pending = self.find(pending_id)
                if pending is not None and pending.status.is_open:
                    pending.reject("the run that asked is over")

    def _is_proven(self, pending: Any) -> bool:
        """Return True if the stored decision is this user's, or only stops something."""
        if pending.status in {PendingStatus.REJECTED, PendingStatus.EXPIRED}:
            return True
        ledger = pending.tract.reviewer.ledger
        news = ledger.news(pending)
        return news is not None and ledger.proves(news, pending.fingerprint)

    def _left_to_a_person(self, pending: Any) -> None:
        if not self._tract.reviewer.granted(pending):
            self._tract.reviewer.keep(pending)

    def _from_store(self, pending_id: str) -> Any:
        """Return the pending of a process that has ended, before any decision: those are checked one by one."""
        tract = self._tract
        stored = tract.reviewer.ledger.get(pending_id)
        if stored is None:  # the question about a tool call is one of the tract at the top
            with suppress(TractError):
                tract = tract.executor.top.tract
                stored = tract.reviewer.ledger.get(pending_id)
        if stored is None:
            return None
        pending = tract.operations.rebuild(stored)
        pending.status, pending.rounds, pending.executed_at = PendingStatus.PENDING, 0, None
        return pending


def asked_by(run_id: str) -> str:
    """Return the name of a run as the cause of something."""
    return RUN + run_id
