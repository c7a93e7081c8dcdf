"""The executor of a run: plans both hooks, runs their operations, commits what they want, makes the main call.

`RunLoop` (`runs/run.py`) knows the order of the steps. `ContextBuilder` is the one place that decides what an operation
sees: operations that run side by side see neither each other's effects nor what they wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.activation import unmet_condition, value_of
from tract_jupyter.runs.artifacts import Artifacts, own
from tract_jupyter.runs.attempt import perform
from tract_jupyter.runs.commit_queue import CommitItem, commit
from tract_jupyter.runs.coordinator import execute
from tract_jupyter.runs.effect_types import (
    PROMPT_EFFECTS,
    ArtifactUpsert,
    AssistantReplaceText,
    UserReplaceText,
)
from tract_jupyter.runs.effects import allowed_effects
from tract_jupyter.runs.events import CommitFinished, MainStarted, PhaseChanged
from tract_jupyter.runs.model import ArtifactView, OperationContext, RunMessage
from tract_jupyter.runs.plan import PhasePlan, by_ids, make_plan
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.schedule import Limits, ready_order
from tract_jupyter.runs.terms import EffectStatus, Hook, Role, RunPhase
from tract_jupyter.runs.turn import Turn
from tract_jupyter.runs.workers import Abort, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tract_jupyter.runs.commit_queue import CommitReport
    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.events import MainFinished, RunStarted
    from tract_jupyter.runs.kinds.base import KindOutcome, OperationKind, Services
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.log import EventLog
    from tract_jupyter.runs.model import MainReply, Operation, OperationResult, Skip
    from tract_jupyter.runs.projection import Unfinished
    from tract_jupyter.runs.terms import Trigger
    from tract_jupyter.runs.turn import TurnTarget
    from tract_jupyter.runs.workers import Report, Workers

    Ask = Callable[[Turn], MainFinished]
    Decide = Callable[[Collection[str]], bool]


_NOTHING: Mapping[str, str] = MappingProxyType({})


def plan_phases(
    operations: Sequence[Operation], trigger: Trigger, kinds: KindRegistry, **options: Any
) -> dict[Hook, PhasePlan]:
    """Plan the operations of both hooks; a kind that there is not is skipped as `unsupported_kind` (X07).

    Args:
        operations: all of the profile.
        trigger: what started the run.
        kinds: that there are.
        options: of `make_plan`: `mode`, `concurrency`, `include`, `exclude`, `activation_skips`.

    Raises:
        PlanError: they cannot be planned.
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
        plan: of `plan_phase`.
        base: what all operations share: the run's ids, seed, clock and variables.
        turn: as it stands at the hook's start.
        kinds: that there are.
        services: what they may use of the world.
        workers: where operations run.
        waiting: operations that waited for a person, with the pendings; they go on from there.
        options: of `coordinator.execute`: `abort`, `notify`, `prior`, `limits`.
    """
    contexts = ContextBuilder(plan, base, turn)

    def begin(operation: Operation, results: Mapping[str, OperationResult]) -> Job | Skip:
        unmet = unmet_condition(operation, results) if operation.config.run_conditions else None
        if unmet is not None:
            return unmet
        kind = _found(operation, kinds)
        context = contexts.context(operation, results, is_shared=getattr(kind, "is_computed", False))
        return job_of(operation, context, kind, services, waiting.get(context.operation_id))

    return execute(plan, begin, workers, **options)


def job_of(
    operation: Operation,
    context: OperationContext,
    kind: OperationKind | Exception,
    services: Services,
    waits_for: str | None = None,
) -> Job:
    """Make the job of an operation. What its kind cannot prepare fails when it is run, as anything else (R53).

    Args:
        operation: what is run.
        context: what it is given.
        kind: of the operation; or why there is none.
        services: what it may use of the world.
        waits_for: the pending that it waited for, if it goes on from there.
    """
    try:
        if isinstance(kind, Exception):
            raise kind
        run = kind.prepare(operation, services)
        anywhere = bool(getattr(run, "anywhere", kind.anywhere))
        resume = getattr(run, "resume", None)
        if waits_for is not None and resume is not None:
            run = partial(resume, pending_id=waits_for)
    except Exception as error:  # noqa: BLE001 # kinds may be anybody's
        run, anywhere = _Failing(error), False
    return Job(partial(perform, operation, run), context, anywhere, bool(getattr(kind, "is_computed", False)))


def _found(operation: Operation, kinds: KindRegistry) -> OperationKind | Exception:
    try:
        return kinds[operation.definition.kind]
    except Exception as error:  # noqa: BLE001 # kinds may be anybody's
        return error


@dataclass(frozen=True, slots=True)
class _Failing:
    error: Exception

    def __call__(self, context: OperationContext) -> KindOutcome:  # noqa: ARG002 # a runner's
        raise self.error


REPLY_KEY = "reply"
"""The key of the reply among the messages that operations see after the main call."""


class ContextBuilder:
    """Makes the contexts of a plan's operations.

    Args:
        plan: whose hook and order count.
        base: what all of them share: the run's ids, its seed, its clock, its variables.
        turn: as it stands at the hook's start.
    """

    def __init__(self, plan: PhasePlan, base: OperationContext, turn: Turn) -> None:
        self._plan = plan
        self._turn = turn
        self._shown = turn.artifacts.shown
        self._hook = plan.hook
        self._allowed = allowed_effects(plan.hook)
        self._base = base.model_copy(
            update={
                "hook": plan.hook,
                "trigger": plan.trigger,
                "allowed_effects": self._allowed,
            }
        )

    @cached_property
    def _place(self) -> dict[str, int]:
        """The place of each operation in the order of the commit."""
        nodes = [(key, one.config.order, one.config.depends_on) for key, one in self._plan.by_id.items()]
        return {key: place for place, key in enumerate(ready_order(nodes)[0])}

    def context(
        self, operation: Operation, dependencies: Mapping[str, OperationResult], *, is_shared: bool = False
    ) -> OperationContext:
        """Return the context of one operation, made of the results of its direct dependencies (R29 to R34).

        Their effects are replayed in commit order, so that what it sees is what will be committed. What can be
        changed in it is a copy: nobody else sees what an operation does to that. With `is_shared` messages and
        artifacts are no copies: for a kind of ours that changes none.
        """
        done: list[str] = []
        effects: list[tuple[str, Effect]] = []
        prompt = self._turn.prompt
        if dependencies:
            done = sorted((key for key, one in dependencies.items() if one.is_done), key=self._position)
            effects = [
                (key, effect)
                for key in done
                for effect in dependencies[key].effects
                if effect.type in self._allowed  # what is never committed, nobody sees
            ]
            prompt = prompt.apply_all([(key, one) for key, one in effects if isinstance(one, _ON_PROMPT)])
        messages = prompt.messages if is_shared else tuple(map(_own, prompt.messages))
        reply = self._reply(effects)
        return self._base.model_copy(
            update={
                "operation_id": operation.id,
                "messages": messages if reply is None else (*messages, _as_message(reply)),
                "user_key": prompt.user_key,
                "reply": reply,
                "artifacts": self._artifacts(effects, is_shared=is_shared),
                "by_operation": {key: own(value_of(dependencies[key])) for key in done},
                "variables": own(self._base.variables),
            }
        )

    def _position(self, key: str) -> tuple[int, str]:
        return self._place.get(key, len(self._place)), key

    def _reply(self, effects: Iterable[tuple[str, Effect]]) -> str | None:
        if self._hook is Hook.BEFORE:
            return None
        texts = [one.text for _, one in effects if isinstance(one, AssistantReplaceText)]
        return texts[-1] if texts else self._turn.reply

    def _artifacts(
        self, effects: Iterable[tuple[str, Effect]], *, is_shared: bool
    ) -> dict[str, ArtifactView]:
        """Return them by tag; what a dependency wrote also by the id that its artifact has, if any (X09)."""
        writes = [(key, one) for key, one in effects if isinstance(one, ArtifactUpsert)]
        if is_shared and not writes:
            return self._shown
        found = self._turn.artifacts.upsert(one for _, one in writes)
        view = found.shown if is_shared else found.view
        named = {}
        for key, one in writes:
            artifact = self._plan.by_id[key].config.artifact if key in self._plan.by_id else None
            if artifact is not None and artifact.artifact_id is not None:
                named[artifact.artifact_id] = view[one.tag]
        return {**named, **view}


def _as_message(reply: str) -> RunMessage:
    return RunMessage(role=Role.ASSISTANT, content=reply, key=REPLY_KEY)


_ON_PROMPT: Final = (*PROMPT_EFFECTS, UserReplaceText)


def _own(message: RunMessage) -> RunMessage:
    """Return a copy whose `extra` is nobody else's."""
    found = message.__copy__()
    found.__dict__["extra"] = own(message.extra)
    return found


@dataclass(frozen=True)
class RunDependencies:
    """The dependencies of a run.

    Attributes:
        ask: makes the main call with the turn's prompt, keeps the reply, and tells how it ended; once.
        decide: has a person decide about pendings, and tells whether any of them was; without it the run waits.
        tick: is called before each wait of the coordinator.
    """

    kinds: KindRegistry
    services: Services
    workers: Workers
    ask: Ask
    decide: Decide = lambda _: False
    tick: Callable[[], None] = lambda: None
    limits: Limits = field(default_factory=Limits)
    concurrency: float | None = None
    abort: Abort = field(default_factory=Abort)


class RunExecutor:
    """Carry out the steps of one run; see `run.RunSteps`.

    Args:
        snapshot: what the run goes by.
        log: where all of it is noted.
        target: what effects are written to.
        dependencies: what it works with.
        so_far: of a run that goes on.
    """

    def __init__(
        self,
        snapshot: RunStarted,
        log: EventLog,
        target: TurnTarget,
        dependencies: RunDependencies,
        so_far: Unfinished | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._log = log
        self._target = target
        self._dependencies = dependencies
        self._so_far = so_far
        self._plans: dict[Hook, PhasePlan] = {}
        artifacts = Artifacts(persisted=dict(snapshot.artifacts))
        prompt = Prompt.of(snapshot.plain_prompt, snapshot.user_key)
        self.turn = Turn.of(prompt, user_part=snapshot.user_commit, artifacts=artifacts)

    @property
    def aborted(self) -> bool:
        """True if the run was told to stop, or is too late."""
        abort = self._dependencies.abort
        is_late = abort.deadline is not None and self._dependencies.workers.now() >= abort.deadline
        return abort.is_set() or is_late

    def enter(self, phase: RunPhase) -> None:
        """Note what comes next."""
        self._log.add(PhaseChanged(phase=phase))

    def plan(self) -> None:
        """Plan both hooks, so that a mistake in the second one is found before anything is paid for (G6).

        Raises:
            PlanError: they cannot be planned.
        """
        snapshot = self._snapshot
        self._plans = plan_phases(
            snapshot.operations, snapshot.trigger, self._dependencies.kinds, mode=snapshot.mode,
            concurrency=self._dependencies.concurrency, activation_skips=snapshot.activation_skips,
        )  # fmt: skip

    def execute(self, hook: Hook) -> dict[str, OperationResult]:
        """Execute what has no result yet; where a person is asked and decides, go on with that."""
        so_far = self._so_far
        results = {} if so_far is None else dict(so_far.results.get(hook, {}))
        waiting = {} if so_far is None else dict(so_far.waiting.get(hook, {}))
        while True:
            found = self._run_phase(hook, results, waiting)
            waiting = {name: one.waits_for or "" for name, one in found.items() if not one.status.is_terminal}
            if not waiting:  # what was done is stored with what comes of it, in one transaction
                return found
            self._log.flush()
            if not self._dependencies.decide(waiting.values()):
                return found
            results = {name: one for name, one in found.items() if one.status.is_terminal}

    def commit(self, hook: Hook, results: Iterable[OperationResult]) -> str | None:
        """Commit the effects of what is done; what was committed before the run was interrupted stays so.

        Returns:
            A required operation, one of whose effects could not be committed.
        """
        operations = self._plans[hook].by_id
        given = list(results)
        queue = [CommitItem.of(operations[one.operation_id], one) for one in given]
        self.turn, report = commit(hook, queue, self.turn, self._target)
        # one that failed is tried again when the run goes on, and may have gone well now
        if self._so_far is None or not _is_noted(report, self._so_far.commits.get(hook)):
            written = _written(given, report, self.turn)
            # it is stored before the next wait: until then the report, stored with the effects, tells as much
            self._log.add(CommitFinished(hook=hook, report=report.form(), artifacts=written))
        if not report.required_error:
            return None
        failed = [one.operation_id for one in report.entries if one.status is EffectStatus.ERROR]
        return next(name for name in failed if operations[name].config.required)

    def ask(self) -> MainReply:
        """Make the main call, unless its reply was kept before the run was interrupted (R13)."""
        ended = None if self._so_far is None else self._so_far.main
        if self._so_far is None or self._so_far.main_started is None:
            prompt = self.turn.prompt
            self._log.add(MainStarted(prompt=prompt.sent, prompt_hash=prompt.digest))
        if ended is None:
            self._log.flush()
            ended = self._dependencies.ask(self.turn)
        if ended.reply_commit is not None:
            self.turn = replace(self.turn, reply=ended.reply.text, reply_part=ended.reply_commit)
        return ended.reply

    # ---

    def _run_phase(
        self, hook: Hook, results: dict[str, OperationResult], waiting: dict[str, str]
    ) -> dict[str, OperationResult]:
        use = self._dependencies
        return run_phase(
            self._plans[hook], self._base(hook), self.turn, kinds=use.kinds, services=use.services,
            workers=_Flushing(use.workers, self._log, use.tick), waiting=waiting, abort=use.abort,
            notify=self._log.add, prior=results, limits=use.limits,
        )  # fmt: skip

    def _base(self, hook: Hook) -> OperationContext:
        snapshot, deadline = self._snapshot, self._dependencies.abort.deadline
        limits = self._dependencies.limits
        return OperationContext(
            run_id=self._log.run_id,
            operation_id="-",  # each one's own takes its place
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


class _Flushing:
    """Workers that store the log before they wait: what is done survives a crash, at the cost of one transaction.

    What was only computed has its report at once, so there is nothing to wait for, and nothing to lose either.
    """

    def __init__(self, workers: Workers, log: EventLog, tick: Callable[[], None]) -> None:
        self._workers = workers
        self._log = log
        self._tick = tick
        self._has_report = False
        self.capacity = workers.capacity
        self.now, self.wake = workers.now, workers.wake

    def submit(self, key: object, job: Job, abort: Abort) -> None:
        """Have it run."""
        if self._workers.submit(key, job, abort):
            self._has_report = True

    def wait(self, timeout: float | None) -> list[Report]:
        """Store, then wait; unless there is a report already."""
        if not self._has_report:
            self._log.flush()
            self._tick()
        self._has_report = False
        return self._workers.wait(timeout)


def _is_noted(report: CommitReport, noted: CommitFinished | None) -> bool:
    return noted is not None and noted.report == report.form()


def _written(results: Iterable[OperationResult], report: CommitReport, turn: Turn) -> dict[str, ArtifactView]:
    """Return the artifacts that a commit wrote, as they stand after it."""
    effects: dict[tuple[str, int], Effect] = {
        (one.operation_id, index): effect for one in results for index, effect in enumerate(one.effects)
    }
    applied = [
        effects[entry.operation_id, entry.effect_index]
        for entry in report.entries
        if entry.effect_type == "artifact.upsert" and entry.status is EffectStatus.APPLIED
    ]
    if not applied:
        return {}
    view = turn.artifacts.view
    return {one.tag: view[one.tag] for one in applied if one.type == "artifact.upsert"}
