"""The plan of a hook: what runs, and what does not and why, settled before anything starts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
        by_id: all that have this hook, by (order, id).
        skips: those of them that are settled already, and why (G2).
        concurrency: how many may run at once; None for all (G11).
    """

    hook: Hook
    trigger: RunTrigger
    by_id: Mapping[str, Operation] = field(default_factory=dict)
    skips: Mapping[str, Skip] = field(default_factory=dict)
    concurrency: float | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of this hook, by (order, id)."""
        return tuple(self.by_id.values())

    @cached_property
    def runnable(self) -> tuple[str, ...]:
        """The ids that are to run, by (order, id)."""
        return tuple(key for key in self.by_id if key not in self.skips)

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
        configs = {key: self.by_id[key].config for key in self.runnable}
        for key in ready_order((key, one.order, one.depends_on) for key, one in configs.items())[0]:
            before = (depth[one] for one in configs[key].depends_on if one in depth)
            depth[key] = 1 + max(before, default=-1)
        waves: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
        for key in self.runnable:
            waves[depth[key]].append(key)
        return tuple(tuple(wave) for wave in waves)


def by_ids(operations: Sequence[Operation]) -> dict[str, Operation]:
    """Return operations by id, checked for any plan.

    Raises:
        PlanError: an id twice, or an order that is no number.
    """
    ids = [operation.id for operation in operations]
    if len(set(ids)) < len(ids):
        twice = sorted(key for key, count in Counter(ids).items() if count > 1)
        message = (
            f"More than one operation has the id {_named(twice)}. Ids are unique in a profile; rename one."
        )
        raise PlanError(PlanErrorCode.DUPLICATE_ID, message, twice)
    bad = sorted([key for key, one in zip(ids, operations, strict=True) if not _is_number(one.config.order)])
    if bad:
        message = f"The order of {_named(bad)} is not a finite number. Each operation needs one; smaller is earlier."
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
    """Decide what runs at a hook (R18, R22, R23, R38).

    Args:
        operations: all of the profile, in any order; or as of `by_ids`.
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
    # a circle that is switched off does no harm (G7)
    _check_circles([
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
    """Return the first reason why it does not run, whatever the others do."""
    if not operation.config.enabled:
        return SkippedReason.DISABLED
    if trigger not in operation.config.triggers:
        return SkippedReason.TRIGGER_MISMATCH
    if key in exclude or (include is not None and key not in include):
        return SkippedReason.FILTERED_OUT
    if kinds is not None and operation.definition.kind not in kinds:
        return SkippedReason.UNSUPPORTED_KIND
    return None


def _check_circles(nodes: Iterable[tuple[str, float, Sequence[str]]]) -> None:
    stuck = ready_order(nodes)[1]
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


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(repr(one) for one in ids[:_NAMED]) + more
