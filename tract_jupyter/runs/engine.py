"""The engine executes runs of a tract, with its models, tools, history and decisions.

`RunEngine` belongs to a tract. `RunExecutor` executes one run. It also works in memory, for a preview or a replay.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tract_jupyter.concurrency import Stopped, StopSignal, current_stop
from tract_jupyter.exceptions import (
    ContentError,
    PendingStateError,
    PlanError,
    UndecidedError,
)
from tract_jupyter.models import brief_repr
from tract_jupyter.review import checking
from tract_jupyter.runs.activation import unmet_condition
from tract_jupyter.runs.artifacts import Artifacts
from tract_jupyter.runs.attempt import Functions, job_of
from tract_jupyter.runs.commit_queue import CommitItem, commit
from tract_jupyter.runs.coordinator import execute
from tract_jupyter.runs.events import (
    ABORTED,
    DONE,
    WAITING,
    CommitFinished,
    Ending,
    MainFinished,
    MainStarted,
    OperationWaiting,
    PhaseChanged,
    RunFinished,
    of_main,
    of_phase,
    of_plan,
)
from tract_jupyter.runs.kinds.base import Services
from tract_jupyter.runs.kinds.decisions import RunDecisions
from tract_jupyter.runs.main_call import INTERRUPTS, MainCaller
from tract_jupyter.runs.model import OperationContext
from tract_jupyter.runs.plan import by_ids, make_plan
from tract_jupyter.runs.projection import RunHistory, sealed
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.schedule import Limits
from tract_jupyter.runs.store import SqlCommitLog, TurnStates
from tract_jupyter.runs.targets import TractTarget
from tract_jupyter.runs.terms import EffectStatus, FailedType, Hook, OperationStatus, RunPhase
from tract_jupyter.runs.turn import ContextBuilder, Turn
from tract_jupyter.runs.workers import ThreadWorkers
from tract_jupyter.storage import RunCommitRows, RunObjectRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.context import Repository, VersionedContext
    from tract_jupyter.llm import Models
    from tract_jupyter.loop import Generation, Lease
    from tract_jupyter.runs.commit_queue import CommitReport
    from tract_jupyter.runs.events import RunStarted
    from tract_jupyter.runs.kinds.base import OperationKind
    from tract_jupyter.runs.kinds.rag import HistorySearch
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.log import EventLog, RunLog
    from tract_jupyter.runs.main_call import MainCall
    from tract_jupyter.runs.model import ArtifactView, MainReply, Operation, OperationResult, Skip
    from tract_jupyter.runs.plan import PhasePlan
    from tract_jupyter.runs.targets import RunTarget
    from tract_jupyter.runs.terms import RunTrigger
    from tract_jupyter.runs.workers import Job, Workers
    from tract_jupyter.toolkit import ToolExecutor

    Ask = Callable[[Turn], MainFinished]
    Decide = Callable[[Collection[str]], bool]


@dataclass(frozen=True)
class RunOptions:
    """The options of a run beyond its profile.

    Attributes:
        workers: replace the threads of this process, with a separate clock.
        concurrency: the number of operations that may run at once; None for all.
        limits: limits per provider and of time, and the grace period after a signal to stop.
        timeout: seconds for the whole run; a started main call is ended if its client allows that.
        abort: a signal that any thread may set.
        variables: additional variables of templates: `user`, `char`, ...
    """

    workers: Workers | None = None
    concurrency: float | None = None
    limits: Limits = field(default_factory=Limits)
    timeout: float | None = None
    abort: StopSignal | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (method, what) in _OPTIONS.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, type) or not hasattr(value, method)):
                raise ContentError(f"{name} must be {what}, not {brief_repr(value)}.")
        if self.timeout is not None and not _is_finite(self.timeout):
            raise ContentError(
                f"timeout must be a number of seconds, such as 60, not {brief_repr(self.timeout)}."
            )


# the method that each option must have, and its description
_OPTIONS = {
    "workers": ("submit", "an instance of workers, such as ThreadWorkers()"),
    "limits": ("per_provider", "a Limits(...) value"),
    "abort": ("on_set", "a StopSignal()"),
    "variables": ("items", "a dict, such as {'user': 'Ada'}"),
}


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class RunEngine:
    """Executes the runs of one tract.

    Args:
        tract: receives the effects and the pendings of operations.
        repository: its history.
        generation: makes the main call.
        models: the models of the tract.
        executor: returns the executor of the operations' tool calls.
        kinds: the kinds of operations, built in or from other packages.

    Attributes:
        functions: the functions that `compute` operations may call.
        reports: the commits of runs.
        artifacts: the values that runs keep between turns.
        main_calls: makes the main calls of runs.
    """

    def __init__(
        self,
        tract: VersionedContext,
        repository: Repository,
        generation: Generation,
        models: Models,
        executor: Callable[[], ToolExecutor],
        kinds: KindRegistry,
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._models = models
        self._make_executor = executor
        database, tract_id = repository.database, repository.tract_id
        self.functions = Functions()
        self.kinds = kinds
        self.reports = SqlCommitLog(database, RunCommitRows(tract_id))
        self.artifacts = TurnStates(
            database, RunObjectRows(tract_id), lambda: repository.writer.position.commit_hash
        )
        self.main_calls = MainCaller(tract, repository, generation, self.reports, self.artifacts)
        self._decisions = RunDecisions(tract)

    def carry_out(
        self,
        snapshot: RunStarted,
        log: RunLog,
        lease: Lease,
        call: MainCall,
        options: RunOptions,
        so_far: RunHistory | None = None,
    ) -> tuple[Ending, RunHistory]:
        """Execute a run, from its start or from its interruption, and store its end."""
        with self._workers(options) as workers, _signal(options, workers) as abort:
            dependencies = RunDependencies(
                kinds=self.kinds, services=self._services(), workers=workers,
                ask=partial(
                    self.main_calls.make, snapshot=snapshot, log=log, call=call, abort=abort, now=workers.now,
                    is_new=so_far is None,
                ),
                decide=partial(self._decide_all, partial(_check_on, abort, workers)), tick=lease.renew,
                limits=options.limits, concurrency=options.concurrency, abort=abort,
            )  # fmt: skip
            target = TractTarget(
                self._repository, log.run_id, self.reports, self.artifacts, session=snapshot.session_key,
                base=snapshot.artifacts, is_new=so_far is None, before=log.store,
            )  # fmt: skip
            ending = RunExecutor(snapshot, log, target, dependencies, so_far).run()
        call.reply = target.rewritten_reply or call.reply
        return ending, self._end(log, ending, lease if ending is DONE else None)

    @contextmanager
    def aborted_by_ctrl_c(self, log: RunLog) -> Iterator[None]:
        """Record an interrupt as the end of the run, and raise it."""
        try:
            yield
        except INTERRUPTS:
            if log.events:  # otherwise the run had not begun
                self._record_stored(log)
                self._end(log, ABORTED)
            raise

    def _end(self, log: RunLog, ending: Ending, lease: Lease | None = None) -> RunHistory:
        """Record the end of a run once, and withdraw its open pendings. A waiting run has not ended.

        If there is a lease, the end is stored in the transaction that releases it.
        """
        events = log.events
        history = RunHistory.of(events)
        if ending is not WAITING and history.end is None:
            log.add(sealed(history, RunFinished.of(ending)))
        if lease is None:
            log.flush()
        else:
            lease.last = log.store
        if ending is not WAITING:
            pending_ids = {one.data.pending_id for one in events if isinstance(one.data, OperationWaiting)}
            self._decisions.withdraw(log.run_id, pending_ids)
        return history

    def _record_stored(self, log: RunLog) -> None:
        history = RunHistory.of(log.events)
        for hook in Hook:
            report = self.reports.find(log.run_id, hook)
            if report is not None and hook not in history.commits:
                log.add(CommitFinished(hook=hook, report=report))
        reply = self.main_calls.find(log.run_id)
        if reply is not None and history.main is None:
            log.add(reply)

    @contextmanager
    def _workers(self, options: RunOptions) -> Iterator[Workers]:
        if options.workers is not None:
            yield options.workers
            return
        with closing(ThreadWorkers()) as workers:
            yield workers

    def _services(self) -> Services:
        return Services(
            models=self._models, call_tool=self._call_tool, functions=self.functions, search=self.search,
            decisions=self._decisions,
        )  # fmt: skip

    @cached_property
    def _history_search(self) -> HistorySearch:
        from tract_jupyter.runs.kinds import HistorySearch

        return HistorySearch(self._tract)

    def search(self, query: str, **how: Any) -> Any:
        """Search the history; see `HistorySearch`. The index is made at the first search."""
        return self._history_search(query, **how)

    def _call_tool(self, name: str, arguments: dict[str, Any], **how: Any) -> Any:
        """Call a tool. The executor is made at the first call."""
        return self._make_executor().execute(name, arguments, **how)

    def _decide_all(self, check: Callable[[], None], pending_ids: Collection[str]) -> bool:
        """Ask the user about pendings. Return False if none is decided.

        Args:
            check: raises `Stopped` once the run must end. Then return True, because the operations must notice it.
            pending_ids: the pendings.
        """
        try:
            with checking(check):
                decided = [self._decide(pending_id) for pending_id in pending_ids]
        except Stopped:
            return True
        return any(decided)

    def _decide(self, pending_id: str) -> bool:
        pending = self._decisions.find(pending_id)
        if pending is not None and pending.status.is_open:
            # no user, a timeout, or a decision elsewhere
            with suppress(UndecidedError, PendingStateError):
                pending.tract.reviewer.decide_now(pending)
        return pending is None or not pending.status.is_open


@contextmanager
def _signal(options: RunOptions, workers: Workers) -> Iterator[StopSignal]:
    """Make the signal of the run. The caller's signal, the turn's signal and an error set it, but not vice versa."""
    caller_abort = options.abort
    timeout = None if options.timeout is None else workers.now() + options.timeout
    deadlines = [
        one for one in (timeout, None if caller_abort is None else caller_abort.deadline) if one is not None
    ]
    abort = StopSignal(min(deadlines, default=None))
    with ExitStack() as stack:
        for one in (caller_abort, current_stop()):
            if one is not None:
                stack.callback(one.on_set(abort.set))
        try:
            yield abort
        except BaseException:
            abort.set()
            raise


def _check_on(abort: StopSignal, workers: Workers) -> None:
    abort.check()
    if abort.deadline is not None and workers.now() >= abort.deadline:
        raise Stopped


# --- one run

_NOTHING: Mapping[str, str] = MappingProxyType({})


def plan_phases(
    operations: Sequence[Operation], trigger: RunTrigger, kinds: KindRegistry, **options: Any
) -> dict[Hook, PhasePlan]:
    """Plan the operations of both hooks. Operations of an unknown kind are skipped as `unsupported_kind` (X07).

    Args:
        operations: all operations of the profile.
        trigger: the trigger of the run.
        kinds: the known kinds.
        options: of `make_plan`: `mode`, `concurrency`, `include`, `exclude`, `activation_skips`.

    Raises:
        PlanError: the operations have no valid plan.
    """
    configured, known = by_ids([kinds.configured(one) for one in operations]), frozenset(kinds)
    return {hook: make_plan(configured, hook, trigger, kinds=known, **options) for hook in Hook}


def run_phase(
    plan: PhasePlan,
    base: OperationContext,
    turn: Turn,
    *,
    kinds: KindRegistry,
    services: Services,
    workers: Workers,
    waiting: Mapping[str, str] = _NOTHING,
    **options: Any,
) -> dict[str, OperationResult]:
    """Execute a plan, and return the results; see `coordinator.execute`.

    Args:
        plan: a plan of `plan_phases`.
        base: the context that all operations share: the run's ids, seed, clock and variables.
        turn: the turn at the start of the hook.
        kinds: the known kinds.
        services: the model, the tools and the other services that operations use.
        workers: run the operations.
        waiting: operations that waited for the user, with their pendings; they resume with the decision.
        options: of `coordinator.execute`: `abort`, `notify`, `prior`, `limits`, `store`.
    """
    contexts = ContextBuilder(plan, base, turn)

    def begin(operation: Operation, results: Mapping[str, OperationResult]) -> Job | Skip:
        unmet = unmet_condition(operation, results) if operation.config.run_conditions else None
        if unmet is not None:
            return unmet
        kind: OperationKind | Exception
        try:
            kind = kinds[operation.definition.kind]
        except Exception as error:  # noqa: BLE001 # a kind of another package may raise anything
            kind = error
        context = contexts.context(operation, results, is_shared=getattr(kind, "is_computed", False))
        return job_of(operation, context, kind, services, waiting.get(context.operation_id))

    return execute(plan, begin, workers, **options)


@dataclass(frozen=True)
class RunDependencies:
    """The dependencies of a run.

    Attributes:
        ask: stores the log, makes the main call with the turn's prompt, stores the reply, and returns its event.
        decide: asks the user about pendings, and returns True if any of them is decided. Without it, the run waits.
        tick: called before each wait of the coordinator.
    """

    kinds: KindRegistry
    services: Services
    workers: Workers
    ask: Ask
    decide: Decide = lambda _: False
    tick: Callable[[], None] = lambda: None
    limits: Limits = field(default_factory=Limits)
    concurrency: float | None = None
    abort: StopSignal = field(default_factory=StopSignal)


_FAILED = {Hook.BEFORE: FailedType.BEFORE_BARRIER, Hook.AFTER: FailedType.AFTER_MAIN_LLM}
_PHASES = {
    Hook.BEFORE: (RunPhase.BEFORE, RunPhase.COMMIT_BEFORE),
    Hook.AFTER: (RunPhase.AFTER, RunPhase.COMMIT_AFTER),
}


class RunExecutor:
    """Executes one run: both hooks, their commits, and the main call between them.

    Each step can be repeated. Operations that are done do not run again, and commits and stored replies are not
    repeated.
    So the same code resumes an interrupted run.

    Args:
        snapshot: the first event of the run, with its operations and its prompt.
        log: records the events.
        target: receives the effects.
        dependencies: the kinds, the workers, the main call and the limits.
        so_far: the recorded steps of a resumed run.
    """

    def __init__(
        self,
        snapshot: RunStarted,
        log: EventLog,
        target: RunTarget,
        dependencies: RunDependencies,
        so_far: RunHistory | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._log = log
        self._target = target
        self._dependencies = dependencies
        self._so_far = so_far
        self._plans: dict[Hook, PhasePlan] = {}
        artifacts = Artifacts(persisted=dict(snapshot.artifacts))
        prompt = Prompt(snapshot.plain_prompt, snapshot.user_key)
        self.turn = Turn.of(prompt, user_part=snapshot.user_commit, artifacts=artifacts)

    def run(self) -> Ending:
        """Run until the end, or until the run waits for the user."""
        ending = (
            self._try_plan() or self._phase(Hook.BEFORE) or self._main() or self._phase(Hook.AFTER) or DONE
        )
        if ending is not WAITING:
            self.enter(RunPhase.FINISHED)
        return ending

    def _try_plan(self) -> Ending | None:
        self.enter(RunPhase.PLANNING)
        try:
            self.plan()
        except PlanError as error:
            return of_plan(error)
        return None

    def _phase(self, hook: Hook) -> Ending | None:
        execute, commit = _PHASES[hook]
        self.enter(execute)
        results = list(self.execute(hook).values())
        if OperationStatus.WAITING in [result.status for result in results]:
            return WAITING
        failed_for = None
        if not self.aborted:  # an aborted run commits no effects (E14)
            self.enter(commit)
            failed_for = self.commit(hook, results)
        if hook is Hook.BEFORE:
            self.enter(RunPhase.BARRIER)
        return of_phase(_FAILED[hook], results, failed_for, aborted=self.aborted)

    def _main(self) -> Ending | None:
        self.enter(RunPhase.MAIN_LLM)
        reply = self.ask()
        cut_off = reply.finish_reason in {"user_abort", "deadline"}
        return of_main(reply.error, aborted=cut_off or self.aborted)

    # --- the steps

    @property
    def aborted(self) -> bool:
        """True if the run was aborted, or its deadline has passed."""
        abort = self._dependencies.abort
        is_late = abort.deadline is not None and self._dependencies.workers.now() >= abort.deadline
        return abort.is_set() or is_late

    def enter(self, phase: RunPhase) -> None:
        """Record the next phase."""
        self._log.add(PhaseChanged(phase=phase))

    def plan(self) -> None:
        """Plan both hooks first, so an error in the second one costs no call (G6).

        Raises:
            PlanError: the operations have no valid plan.
        """
        snapshot = self._snapshot
        self._plans = plan_phases(
            snapshot.operations, snapshot.trigger, self._dependencies.kinds, mode=snapshot.mode,
            concurrency=self._dependencies.concurrency, activation_skips=snapshot.activation_skips,
        )  # fmt: skip

    def execute(self, hook: Hook) -> dict[str, OperationResult]:
        """Execute the operations without a result. After a user's decision, execute the remaining ones."""
        so_far, use = self._so_far, self._dependencies
        results = {} if so_far is None else so_far.results(hook)
        waiting = {} if so_far is None else so_far.pendings(hook)
        while True:
            outcomes = run_phase(
                self._plans[hook], self._base(hook), self.turn, kinds=use.kinds, services=use.services,
                workers=use.workers, waiting=waiting, abort=use.abort, notify=self._log.add, prior=results,
                limits=use.limits, store=self._store,
            )  # fmt: skip
            waiting = {
                name: one.waits_for or "" for name, one in outcomes.items() if not one.status.is_terminal
            }
            if not waiting:  # the commit will store the events, in one transaction with the effects
                return outcomes
            self._log.flush()
            if not use.decide(waiting.values()):
                return outcomes
            results = {name: one for name, one in outcomes.items() if one.status.is_terminal}

    def commit(self, hook: Hook, results: Iterable[OperationResult]) -> str | None:
        """Commit the effects of the operations that are done. A commit before an interruption is not repeated.

        Returns:
            The first required operation with an effect that could not be committed, if any.
        """
        operations = self._plans[hook].by_id
        outcomes = list(results)
        queue = [CommitItem.of(operations[one.operation_id], one) for one in outcomes]
        self.turn, report = commit(hook, queue, self.turn, self._target)
        # a resumed run repeats a failed commit, which may succeed now
        if self._so_far is None or not _is_recorded(report, self._so_far.commits.get(hook)):
            written = _written(outcomes, report, self.turn)
            # the event is stored before the next wait; until then the report, stored with the effects, is enough
            self._log.add(CommitFinished(hook=hook, report=report.form(), artifacts=written))
        if not report.required_error:
            return None
        failed = [one.operation_id for one in report.entries if one.status is EffectStatus.ERROR]
        return next(name for name in failed if operations[name].config.required)

    def ask(self) -> MainReply:
        """Make the main call, unless its reply was stored before an interruption (R13)."""
        ended = None if self._so_far is None else self._so_far.main
        if self._so_far is None or self._so_far.main_started is None:
            prompt = self.turn.prompt
            self._log.add(MainStarted(prompt=prompt.sent, prompt_hash=prompt.digest))
        if ended is None:
            ended = self._dependencies.ask(self.turn)
        if ended.reply_commit is not None:
            self.turn = replace(self.turn, reply=ended.reply.text, reply_part=ended.reply_commit)
        return ended.reply

    # ---

    def _store(self) -> None:
        self._log.flush()
        self._dependencies.tick()

    def _base(self, hook: Hook) -> OperationContext:
        snapshot, deadline = self._snapshot, self._dependencies.abort.deadline
        limits = self._dependencies.limits
        return OperationContext(
            run_id=self._log.run_id,
            operation_id="-",  # `ContextBuilder` replaces it
            trigger=snapshot.trigger,
            hook=hook,
            tract_id=snapshot.tract_id,
            branch=snapshot.branch,
            turn_id=snapshot.turn_id,
            assistant_variant_id=self.turn.reply_part or snapshot.replaces,
            seed=snapshot.seed,
            now=snapshot.clock,
            deadline=deadline,
            log_characters=limits.log_characters,
            snapshot_characters=limits.snapshot_characters,
            variables=snapshot.variables,
        )


def _is_recorded(report: CommitReport, recorded: CommitFinished | None) -> bool:
    return recorded is not None and recorded.report == report.form()


def _written(results: Iterable[OperationResult], report: CommitReport, turn: Turn) -> dict[str, ArtifactView]:
    by_id = {one.operation_id: one.effects for one in results}
    shown = turn.artifacts.shown
    written = {}
    for entry in report.entries:
        if entry.effect_type == "artifact.upsert" and entry.status is EffectStatus.APPLIED:
            effect = by_id[entry.operation_id][entry.effect_index]
            if effect.type == "artifact.upsert":
                written[effect.tag] = shown[effect.tag]
    return written
