"""The plan of a hook: which operations run, and why others do not. It is complete before any operation starts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs.model import Skip
from tract_jupyter.runs.schedule import ready_order
from tract_jupyter.runs.terms import ExecutionMode, PlanErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tract_jupyter.runs.model import Operation
    from tract_jupyter.runs.terms import Hook, RunTrigger

_NAMED = 10  # ids in a message


@dataclass(frozen=True)
class PhasePlan:
    """The operations of one hook, for one trigger.

    Attributes:
        by_id: all operations of this hook, by (order, id).
        skips: the operations that will not run, with the reason (G2).
        concurrency: the number of operations that may run at once; None for all (G11).
    """

    hook: Hook
    trigger: RunTrigger
    by_id: Mapping[str, Operation] = field(default_factory=dict)
    skips: Mapping[str, Skip] = field(default_factory=dict)
    concurrency: float | None = None


def by_ids(operations: Sequence[Operation]) -> dict[str, Operation]:
    """Return operations by id, checked for any plan.

    Raises:
        PlanError: an id occurs twice, or an order is not a number.
    """
    ids = [operation.id for operation in operations]
    if len(set(ids)) < len(ids):
        duplicates = sorted(key for key, count in Counter(ids).items() if count > 1)
        message = f"More than one operation has the id {_named(duplicates)}. Ids are unique in a profile; rename one."
        raise PlanError(PlanErrorCode.DUPLICATE_ID, message, duplicates)
    bad = sorted([key for key, one in zip(ids, operations, strict=True) if not _is_number(one.config.order)])
    if bad:
        message = f"The order of {_named(bad)} is not a finite number. Smaller orders run first."
        raise PlanError(PlanErrorCode.INVALID_ORDER, message, bad)
    return dict(zip(ids, operations, strict=True))


def make_plan(
    operations: Sequence[Operation] | Mapping[str, Operation],
    hook: Hook,
    trigger: RunTrigger,
    *,
    mode: ExecutionMode = ExecutionMode.CONCURRENT,
    concurrency: float | None = None,
    kinds: Collection[str] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    activation_skips: Mapping[str, Skip] | None = None,
) -> PhasePlan:
    """Plan the operations of a hook (R18, R22, R23, R38).

    Args:
        operations: all operations of the profile, in any order; or the result of `by_ids`.
        hook: the hook; operations of other hooks are ignored.
        trigger: the trigger of the run.
        mode: `sequential` runs one operation at a time and ignores `concurrency` (E10).
        concurrency: the number of operations that may run at once; None for all.
        kinds: the known kinds; None for any.
        include: run only these ids; None for all.
        exclude: do not run these ids.
        activation_skips: the operations that are not due, with their counters (X01).

    Raises:
        PlanError: an id occurs twice, an order is not a number, dependencies form a cycle (G6), or the concurrency is
            invalid.
    """
    known = operations if isinstance(operations, Mapping) else by_ids(operations)
    limit = _concurrency(mode, concurrency)
    included, excluded = None if include is None else frozenset(include), frozenset(exclude)
    of_hook = sorted([(one.config.order, key) for key, one in known.items() if hook in one.config.hooks])
    by_id = {key: known[key] for _, key in of_hook}
    skips: dict[str, Skip] = {}
    for key, operation in by_id.items():
        reason = _reason(key, operation, trigger, kinds, included, excluded)
        if reason is not None:
            skips[key] = Skip.because(reason)
        elif activation_skips and key in activation_skips:
            skips[key] = activation_skips[key]
    # a cycle of disabled operations is harmless (G7)
    _check_cycles([
        (key, one.config.order, one.config.depends_on) for key, one in by_id.items() if key not in skips
    ])  # fmt: skip
    return PhasePlan(hook, trigger, by_id, skips, limit)


def _reason(
    key: str,
    operation: Operation,
    trigger: RunTrigger,
    kinds: Collection[str] | None,
    include: Collection[str] | None,
    exclude: Collection[str],
) -> SkippedReason | None:
    """Return the first reason why an operation does not run, apart from its dependencies."""
    if not operation.config.enabled:
        return SkippedReason.DISABLED
    if trigger not in operation.config.triggers:
        return SkippedReason.TRIGGER_MISMATCH
    if key in exclude or (include is not None and key not in include):
        return SkippedReason.FILTERED_OUT
    if kinds is not None and operation.definition.kind not in kinds:
        return SkippedReason.UNSUPPORTED_KIND
    return None


def _check_cycles(nodes: Iterable[tuple[str, float, Sequence[str]]]) -> None:
    stuck = ready_order(nodes)[1]
    if stuck:
        message = (
            f"The dependencies of {_named(stuck)} form a cycle or lead into one, so none of them can start. "
            "Remove one of these dependencies."
        )
        raise PlanError(PlanErrorCode.CYCLE, message, stuck)


def _concurrency(mode: ExecutionMode, concurrency: float | None) -> float | None:
    if mode is ExecutionMode.SEQUENTIAL:
        return 1
    if concurrency is not None and not (_is_number(concurrency) and concurrency > 0):
        message = f"Invalid concurrency {concurrency!r}. Use a number above 0, or None for no limit."
        raise PlanError(PlanErrorCode.INVALID_CONCURRENCY, message)
    return concurrency


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(repr(one) for one in ids[:_NAMED]) + more
