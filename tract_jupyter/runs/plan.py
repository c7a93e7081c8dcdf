"""What of a profile runs at a hook, and what does not and why: settled before anything starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs.model import Skip
from tract_jupyter.runs.schedule import ready_order
from tract_jupyter.runs.terms import ExecutionMode, PlanErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tract_jupyter.runs.model import Operation
    from tract_jupyter.runs.terms import Hook, Trigger

_NAMED = 10  # ids in a message


@dataclass(frozen=True)
class PhasePlan:
    """The operations of one hook, for one trigger.

    Attributes:
        operations: all that have this hook, by (order, id).
        skips: those of them that are settled already, and why (G2).
        concurrency: how many may run at once; None for all (G11).
    """

    hook: Hook
    trigger: Trigger
    operations: tuple[Operation, ...] = ()
    skips: Mapping[str, Skip] = field(default_factory=dict)
    concurrency: float | None = None

    @cached_property
    def by_id(self) -> dict[str, Operation]:
        """The operations of this hook by id."""
        return {operation.id: operation for operation in self.operations}

    @cached_property
    def runnable(self) -> tuple[str, ...]:
        """The ids that are to run, by (order, id)."""
        return tuple(operation.id for operation in self.operations if operation.id not in self.skips)

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """`(dependency, dependent)` for each dependency within what is to run."""
        known = frozenset(self.runnable)
        return tuple(
            (one, key) for key in self.runnable for one in self.by_id[key].config.depends_on if one in known
        )

    @cached_property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The ids to run by depth: each one's dependencies are in waves before its own. For whoever draws it."""
        depth: dict[str, int] = {}
        for key in ready_order(_nodes(self.by_id[key] for key in self.runnable))[0]:
            before = (depth[one] for one in self.by_id[key].config.depends_on if one in depth)
            depth[key] = 1 + max(before, default=-1)
        waves: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
        for key in self.runnable:
            waves[depth[key]].append(key)
        return tuple(tuple(wave) for wave in waves)


def make_plan(
    operations: Sequence[Operation],
    hook: Hook,
    trigger: Trigger,
    *,
    mode: ExecutionMode = ExecutionMode.CONCURRENT,
    concurrency: float | None = None,
    kinds: Collection[str] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    activation_skips: Mapping[str, Skip] | None = None,
) -> PhasePlan:
    """Decide what runs at a hook (R18, R22, R23, R38).

    Args:
        operations: all of the profile, in any order.
        hook: those of other hooks are no part of the plan.
        trigger: what started the run.
        mode: `sequential` runs one at a time and ignores `concurrency` (E10).
        concurrency: how many may run at once; None for all.
        kinds: what kinds there are; None for any.
        include: only these ids; None for all.
        exclude: not these ids.
        activation_skips: those that are not due yet, with their counters (X01).

    Raises:
        PlanError: an id twice, an order that is no number, a circle of dependencies (G6), or a bad concurrency.
    """
    _check_ids(operations)
    _check_orders(operations)
    limit = _concurrency(mode, concurrency)
    included, excluded = None if include is None else frozenset(include), frozenset(exclude)
    of_hook = [operation for operation in operations if hook in operation.config.hooks]
    of_hook.sort(key=lambda operation: (operation.config.order, operation.id))
    skips: dict[str, Skip] = {}
    for operation in of_hook:
        reason = _reason(operation, trigger, kinds, included, excluded)
        if reason is not None:
            skips[operation.id] = Skip.because(reason)
        elif activation_skips and operation.id in activation_skips:
            skips[operation.id] = activation_skips[operation.id]
    # a circle that is switched off does no harm (G7)
    _check_circles([operation for operation in of_hook if operation.id not in skips])
    return PhasePlan(hook, trigger, tuple(of_hook), skips, limit)


def _reason(
    operation: Operation,
    trigger: Trigger,
    kinds: Collection[str] | None,
    include: Collection[str] | None,
    exclude: Collection[str],
) -> SkippedReason | None:
    """Why it does not run, whatever the others do; the first that holds."""
    if not operation.config.enabled:
        return SkippedReason.DISABLED
    if trigger not in operation.config.triggers:
        return SkippedReason.TRIGGER_MISMATCH
    if operation.id in exclude or (include is not None and operation.id not in include):
        return SkippedReason.FILTERED_OUT
    if kinds is not None and operation.definition.kind not in kinds:
        return SkippedReason.UNSUPPORTED_KIND
    return None


def _check_ids(operations: Sequence[Operation]) -> None:
    seen: set[str] = set()
    twice = sorted({o.id for o in operations if o.id in seen or seen.add(o.id)})  # type: ignore[func-returns-value]
    if twice:
        message = (
            f"More than one operation has the id {_named(twice)}. Ids are unique in a profile; rename one."
        )
        raise PlanError(PlanErrorCode.DUPLICATE_ID, message, twice)


def _check_orders(operations: Sequence[Operation]) -> None:
    bad = sorted(operation.id for operation in operations if not _is_number(operation.config.order))
    if bad:
        message = (
            f"The order of {_named(bad)} is no finite number. Each operation needs one; smaller is earlier."
        )
        raise PlanError(PlanErrorCode.INVALID_ORDER, message, bad)


def _check_circles(operations: Sequence[Operation]) -> None:
    stuck = ready_order(_nodes(operations))[1]
    if stuck:
        message = (
            f"The dependencies of {_named(stuck)} form a circle, or lead into one: none of them could ever start. "
            "Take one of these dependencies out."
        )
        raise PlanError(PlanErrorCode.CYCLE, message, stuck)


def _concurrency(mode: ExecutionMode, concurrency: float | None) -> float | None:
    if mode is ExecutionMode.SEQUENTIAL:
        return 1
    if concurrency is not None and not (_is_number(concurrency) and concurrency > 0):
        message = f"The concurrency is {concurrency!r}. It is a number above zero, or None for no limit."
        raise PlanError(PlanErrorCode.INVALID_CONCURRENCY, message)
    return concurrency


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _nodes(operations: Iterable[Operation]) -> list[tuple[str, float, Sequence[str]]]:
    return [(operation.id, operation.config.order, operation.config.depends_on) for operation in operations]


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(repr(one) for one in ids[:_NAMED]) + more
