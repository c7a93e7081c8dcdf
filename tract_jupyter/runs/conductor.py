"""Does the steps of one run: plans, executes, commits, and notes all of it in the run's log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tract_jupyter.runs.abort import Abort
from tract_jupyter.runs.artifacts import Artifacts
from tract_jupyter.runs.commit import CommitItem, commit
from tract_jupyter.runs.events import CommitFinished, MainStarted, PhaseChanged
from tract_jupyter.runs.model import OperationContext, Policy
from tract_jupyter.runs.notes import noted
from tract_jupyter.runs.phase import plan_phase, run_phase
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.schedule import Limits
from tract_jupyter.runs.terms import EffectStatus, Hook, RunPhase
from tract_jupyter.runs.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tract_jupyter.runs.commit_report import CommitReport
    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.events import MainFinished, RunStarted
    from tract_jupyter.runs.execute import Executed
    from tract_jupyter.runs.kinds.base import Services
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.log import EventLog
    from tract_jupyter.runs.model import ArtifactView, MainReply, OperationResult
    from tract_jupyter.runs.plan import Plan
    from tract_jupyter.runs.projection import Unfinished
    from tract_jupyter.runs.turn import TurnTarget
    from tract_jupyter.runs.workers import Report, Workers

    Ask = Callable[[Turn], MainFinished]
    Decide = Callable[[Collection[str]], bool]


@dataclass(frozen=True)
class Equipment:
    """What a run works with.

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


@dataclass(frozen=True)
class Outcome:
    """What a commit means for the run; see `run.Committed`."""

    failed_for: str | None


class Conductor:
    """The host of one run; see `run.Host`.

    Args:
        snapshot: what the run goes by.
        log: where all of it is noted.
        target: what effects are written to.
        equipment: what it works with.
        so_far: of a run that goes on.
    """

    def __init__(
        self,
        snapshot: RunStarted,
        log: EventLog,
        target: TurnTarget,
        equipment: Equipment,
        so_far: Unfinished | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._log = log
        self._target = target
        self._equipment = equipment
        self._so_far = so_far
        self._plans: dict[Hook, Plan] = {}
        artifacts = Artifacts(persisted=dict(snapshot.artifacts))
        prompt = Prompt.of(snapshot.plain_prompt, snapshot.user_key)
        self.turn = Turn.of(prompt, user_part=snapshot.user_commit, artifacts=artifacts)

    @property
    def aborted(self) -> bool:
        """Whether the run was told to stop, or is too late."""
        abort = self._equipment.abort
        is_late = abort.deadline is not None and self._equipment.workers.now() >= abort.deadline
        return abort.is_set() or is_late

    def enter(self, phase: RunPhase) -> None:
        """Note what comes next."""
        self._log.add(PhaseChanged(phase=phase))

    def plan(self) -> None:
        """Plan both hooks, so that a mistake in the second one is found before anything is paid for (G6).

        Raises:
            PlanError: they cannot be planned.
        """
        for hook in Hook:
            self._plans[hook] = plan_phase(
                self._snapshot.operations, self._base(hook), self._equipment.kinds, mode=self._snapshot.mode,
                concurrency=self._equipment.concurrency, activation_skips=self._snapshot.activation_skips,
            )  # fmt: skip

    def execute(self, hook: Hook) -> Executed:
        """Execute what has no result yet; where a person is asked and decides, go on with that."""
        so_far = self._so_far
        results = {} if so_far is None else dict(so_far.results.get(hook, {}))
        waiting = {} if so_far is None else dict(so_far.waiting.get(hook, {}))
        while True:
            executed = self._executed(hook, results, waiting)
            waiting = {name: executed.results[name].waits_for or "" for name in executed.waiting}
            self._log.flush()
            if not waiting or not self._equipment.decide(waiting.values()):
                return executed
            results = {name: one for name, one in executed.results.items() if one.status.is_terminal}

    def commit(self, hook: Hook, results: Iterable[OperationResult]) -> Outcome:
        """Commit the effects of what is done; what was committed before the run was interrupted stays so."""
        operations = {one.id: one for one in self._plans[hook].operations}
        given = list(results)
        queue = [CommitItem.of(operations[one.operation_id], one) for one in given]
        self.turn, report = commit(hook, queue, self.turn, self._target)
        # one that failed is tried again when the run goes on, and may have gone well now
        if self._so_far is None or not _is_noted(report, self._so_far.commits.get(hook)):
            written = _written(given, report, self.turn)
            self._log.add(CommitFinished(hook=hook, report=report.to_dict(), artifacts=written))
        self._log.flush()
        failed = (one.operation_id for one in report.entries if one.status is EffectStatus.ERROR)
        return Outcome(next((name for name in failed if operations[name].config.required), None))

    def ask(self) -> MainReply:
        """Make the main call, unless its reply was kept before the run was interrupted (R13)."""
        ended = None if self._so_far is None else self._so_far.main
        if self._so_far is None or self._so_far.main_started is None:
            prompt = self.turn.prompt
            self._log.add(MainStarted(prompt=prompt.sent, prompt_hash=prompt.digest))
            self._log.flush()
        if ended is None:
            ended = self._equipment.ask(self.turn)
        if ended.reply_commit is not None:
            self.turn = replace(self.turn, reply=ended.reply.text, reply_part=ended.reply_commit)
        return ended.reply

    # ---

    def _executed(self, hook: Hook, results: dict[str, OperationResult], waiting: dict[str, str]) -> Executed:
        use = self._equipment
        phase = run_phase(
            self._plans[hook], self._base(hook), self.turn, kinds=use.kinds, services=use.services,
            workers=_Flushing(use.workers, self._log, use.tick), waiting=waiting, abort=use.abort,
            notify=lambda event: self._log.add(noted(event, hook)), prior=results, limits=use.limits,
        )  # fmt: skip
        return phase.executed

    def _base(self, hook: Hook) -> OperationContext:
        snapshot, deadline = self._snapshot, self._equipment.abort.deadline
        limits = self._equipment.limits
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
            policy=Policy(max_log=limits.log_characters, max_snapshot=limits.snapshot_characters),
            variables=snapshot.variables,
        )


class _Flushing:
    """Workers that store the log before they wait: what is done survives a crash, at the cost of one transaction."""

    def __init__(self, workers: Workers, log: EventLog, tick: Callable[[], None]) -> None:
        self._workers = workers
        self._log = log
        self._tick = tick
        self.capacity = workers.capacity
        self.now, self.submit, self.wake = workers.now, workers.submit, workers.wake

    def wait(self, timeout: float | None) -> list[Report]:
        """Store, then wait."""
        self._log.flush()
        self._tick()
        return self._workers.wait(timeout)


def _is_noted(report: CommitReport, noted: CommitFinished | None) -> bool:
    return noted is not None and noted.report == report.to_dict()


def _written(results: Iterable[OperationResult], report: CommitReport, turn: Turn) -> dict[str, ArtifactView]:
    """The artifacts that a commit wrote, as they stand after it."""
    effects: dict[tuple[str, int], Effect] = {
        (one.operation_id, index): effect for one in results for index, effect in enumerate(one.effects)
    }
    applied = [
        effects[entry.operation_id, entry.effect_index]
        for entry in report.entries
        if entry.effect_type == "artifact.upsert" and entry.status is EffectStatus.APPLIED
    ]
    view = turn.artifacts.view
    return {one.tag: view[one.tag] for one in applied if one.type == "artifact.upsert"}
