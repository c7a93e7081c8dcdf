"""Workers whose time is virtual: operations are scripts, and what happens next is looked up instead of waited for."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from random import Random

from tract_jupyter.concurrency import Stopped, current_stop, stopped_by
from tract_jupyter.runs import (
    Hook,
    Job,
    Operation,
    OperationContext,
    OperationFinished,
    OperationResult,
    OperationStarted,
    OperationStatus,
    ResultError,
    RunTrigger,
    Skip,
    execute,
    make_plan,
    operation_run,
    result_of,
)


@dataclass
class Script:
    """An operation in virtual milliseconds.

    Attributes:
        ms: how long it takes; a list has one for each attempt, the last for all that follow.
        result: `done`, `error`, `skip`, `raise`, `abort_error`, `waiting`; a list likewise.
        on_abort: `cooperate` stops at the signal, `throw` raises something else then, `ignore` goes on.
    """

    ms: float | list[float] = 0
    result: str | list[str] = "done"
    on_abort: str = "cooperate"
    code: str = "operation_error"
    message: str = ""
    reason: str = "condition_false"
    details: dict = field(default_factory=dict)
    calls: int = 0

    def begin(self) -> float:
        """Count an attempt; returns its milliseconds."""
        self.calls += 1
        return self._now(self.ms)

    def _now(self, values):
        return values[min(self.calls, len(values)) - 1] if isinstance(values, list) else values

    def __call__(self, context: OperationContext) -> OperationResult:
        if current_stop().is_set() and self.on_abort == "throw":
            raise RuntimeError("it was disturbed")
        if current_stop().is_set() and self.on_abort == "cooperate":
            raise Stopped
        result = self._now(self.result)
        if result == "raise":
            raise ValueError(self.message)
        if result == "abort_error":
            raise Stopped
        status = {"skip": "skipped"}.get(result, result)
        error = ResultError(code=self.code, message=self.message, details=self.details)
        return OperationResult(
            operation_id=context.operation_id,
            status=status,
            error=error if result == "error" else None,
            skip=Skip(reason=self.reason) if result == "skip" else None,
            waits_for="pending" if result == "waiting" else None,
        )


class VirtualWorkers:
    """Runs scripts in virtual time; with `shuffle`, what runs ends in a random order instead, a second apart."""

    def __init__(self, start_ms=0, capacity=None, shuffle: Random | None = None):
        self.capacity = capacity
        self.ms = start_ms
        self.most = 0
        self._shuffle = shuffle
        self._numbers = count()
        self._events = []
        self._left = {}

    def now(self):
        return self.ms / 1_000

    def at(self, ms, action):
        """Have something happen at a time; an action returns what is reported."""
        heapq.heappush(self._events, (ms, next(self._numbers), action))

    def submit(self, key, job, abort):
        def end():
            if self._left.pop(key, None) is None:
                return []
            with stopped_by(abort):
                result = result_of(job.context, lambda: job.function(job.context))
            return [(key, result)]

        script = job.function
        ms = script.begin()
        self._left[key] = end
        self.most = max(self.most, len(self._left))
        if self._shuffle is None:
            self.at(self.ms + ms, end)
        if script.on_abort != "ignore":
            abort.on_set(lambda: self.at(self.ms, end))

    def wait(self, timeout):
        limit = float("inf") if timeout is None else self.ms + timeout * 1_000
        if self._shuffle is not None and self._left:
            self.ms += 1_000
            return self._left[self._shuffle.choice(list(self._left))]()
        if not self._events or self._events[0][0] > limit:
            assert limit < float("inf"), "it would wait for ever"
            self.ms = limit
            return []
        self.ms, _, action = heapq.heappop(self._events)
        return action() or []

    def wake(self):
        """Nobody sleeps in virtual time."""


@dataclass
class Executed:
    """A plan, its results, and the events of its execution."""

    plan: object
    results: dict
    events: list

    @property
    def start_order(self):
        """The ids of the operations that ran, in the order of their starts."""
        return tuple(one.operation_id for one in self.events if isinstance(one, OperationStarted))

    @property
    def waiting(self):
        """The ids of the operations that wait for the user."""
        return tuple(key for key, result in self.results.items() if result.status is OperationStatus.WAITING)

    @property
    def runs(self):
        """The records of the operations that ended, in the order of the results."""
        ended = {one.operation_id: one for one in self.events if isinstance(one, OperationFinished)}
        return tuple(
            operation_run(self.plan.by_id[key], self.plan.trigger, ended[key])
            for key in self.results
            if key in ended
        )


def watch(run, plan, *arguments, notify=None, **options):
    """Call `execute` or `run_phase`, and return the results with the events."""
    events = []

    def note(event):
        events.append(event)
        if notify is not None:
            notify(event)

    return Executed(plan, run(plan, *arguments, notify=note, **options), events)


def operation(key, order=1.0, kind="script", **config):
    """An operation; the rest is its configuration."""
    definition = {"operation_id": key, "name": key, "kind": kind}
    return Operation.from_dict({"definition": definition, "config": {"order": order, **config}})


def script_job(script, key, seed=0):
    """The job that runs a script."""
    context = OperationContext(
        run_id="r", operation_id=key, trigger=RunTrigger.GENERATE, hook=Hook.BEFORE, seed=seed
    )
    return Job(script, context)


def run_scripts(operations, scripts=None, *, workers=None, plan=None, hook=Hook.BEFORE, **options):
    """Execute a plan of scripts. An operation without a script is done at once."""
    scripts = scripts or {}
    plan = plan or make_plan(operations, hook, RunTrigger.GENERATE)
    return watch(
        execute,
        plan,
        lambda one, results: script_job(scripts.get(one.id) or Script(), one.id),
        workers or VirtualWorkers(),
        **options,
    )


def statuses(executed):
    """The status of each operation."""
    return {key: result.status.value for key, result in executed.results.items()}
