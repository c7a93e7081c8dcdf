"""Whether an operation's conditions hold: what guards have said (E23, R40)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.runs.effect_types import ArtifactUpsert
from tract_jupyter.runs.model import Skip
from tract_jupyter.runs.terms import SkippedReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.runs.model import Operation, OperationResult


def value_of(result: OperationResult) -> Any:
    """The value of the artifact that an operation writes; None if it writes none."""
    return next((one.value for one in result.effects if isinstance(one, ArtifactUpsert)), None)


def unmet_condition(operation: Operation, results: Mapping[str, OperationResult]) -> Skip | None:
    """The skip of the first condition, as they are written, that does not hold; None if all do.

    An answer that was never given fits neither yes nor no; its `actual` is None.
    """
    for condition in operation.config.run_conditions:
        actual = _answer(results.get(condition.source), condition.output)
        if actual is not condition.is_:
            told = {
                "source": condition.source,
                "output": condition.output,
                "is": condition.is_,
                "actual": actual,
            }
            return Skip(reason=SkippedReason.CONDITION_FALSE, condition=told)
    return None


def _answer(result: OperationResult | None, output: str) -> bool | None:
    value = value_of(result) if result is not None and result.is_done else None
    found = value.get(output) if isinstance(value, dict) else None
    return found if isinstance(found, bool) else None
