"""One hook of a run: planned, each operation given its context, executed. Nothing is committed here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tract_jupyter.runs.conditions import unmet_condition
from tract_jupyter.runs.execute import Executed, execute
from tract_jupyter.runs.perform import perform
from tract_jupyter.runs.plan import Plan, make_plan
from tract_jupyter.runs.scene import Scene
from tract_jupyter.runs.workers import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.runs.kinds.base import Made, Services
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.model import Operation, OperationContext, OperationResult, Skip
    from tract_jupyter.runs.turn import Turn
    from tract_jupyter.runs.workers import Workers

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Phase:
    """What was planned, and what came of it."""

    plan: Plan
    executed: Executed


def plan_phase(
    operations: Sequence[Operation], base: OperationContext, kinds: KindRegistry, **options: Any
) -> Plan:
    """Plan the operations of a hook; a kind that there is not is skipped as `unsupported_kind` (X07).

    Args:
        operations: all of the profile.
        base: whose hook and trigger count.
        kinds: that there are.
        options: of `make_plan`: `mode`, `concurrency`, `include`, `exclude`, `activation_skips`.

    Raises:
        PlanError: they cannot be planned.
    """
    configured = [kinds.configured(one) for one in operations]
    return make_plan(configured, base.hook, base.trigger, kinds=frozenset(kinds), **options)


def run_phase(
    plan: Plan,
    base: OperationContext,
    turn: Turn,
    *,
    kinds: KindRegistry,
    services: Services,
    workers: Workers,
    waiting: Mapping[str, str] = _NOTHING,
    **options: Any,
) -> Phase:
    """Execute a plan.

    Args:
        plan: of `plan_phase`.
        base: what all operations share: the run's ids, seed, clock and variables.
        turn: as it stands at the hook's start.
        kinds: that there are.
        services: what they may use of the world.
        workers: where operations run.
        waiting: operations that waited for a person, with the pendings; they go on from there.
        options: of `execute`: `abort`, `notify`, `prior`, `limits`.
    """
    scene = Scene(plan, base, turn)

    def begin(operation: Operation, results: Mapping[str, OperationResult]) -> Job | Skip:
        unmet = unmet_condition(operation, results)
        if unmet is not None:
            return unmet
        context = scene.context(operation, results)
        return job_of(operation, context, kinds, services, waiting.get(operation.id))

    return Phase(plan, execute(plan, begin, workers, **options))


def job_of(
    operation: Operation,
    context: OperationContext,
    kinds: KindRegistry,
    services: Services,
    waits_for: str | None = None,
) -> Job:
    """What runs for an operation. What its kind cannot prepare fails when it is run, as anything else (R53)."""
    try:
        kind = kinds[operation.definition.kind]
        run = kind.prepare(operation, services)
        anywhere = bool(getattr(run, "anywhere", kind.anywhere))
        resume = getattr(run, "resume", None)
        if waits_for is not None and resume is not None:
            run = partial(resume, pending_id=waits_for)
    except Exception as error:  # noqa: BLE001 # kinds may be anybody's
        run, anywhere = _Failing(error), False
    return Job(partial(perform, operation, run), context, anywhere)


@dataclass(frozen=True, slots=True)
class _Failing:
    error: Exception

    def __call__(self, context: OperationContext) -> Made:  # noqa: ARG002 # a runner's
        raise self.error
