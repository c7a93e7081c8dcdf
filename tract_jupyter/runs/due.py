"""Which operations of a profile are due in a run, and the counters after it (X01)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.runs.activation import (
    Counters,
    Step,
    advance,
    context_tokens,
    replay,
    skip_details,
    steps_of,
)
from tract_jupyter.runs.model import Skip
from tract_jupyter.runs.terms import SkippedReason, Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.runs.model import Activation, Operation, RunMessage
    from tract_jupyter.runs.opening import Opening


class Due(NamedTuple):
    """What is not due, with its counters; and the counters once the turn has its reply."""

    skips: dict[str, Skip]
    counters: dict[str, Counters]


def due(
    operations: Sequence[Operation], opening: Opening, trigger: Trigger, stored: Mapping[str, Counters]
) -> Due:
    """Count this run for each operation with an interval.

    Args:
        operations: of the profile.
        opening: the turn.
        trigger: of the run.
        stored: the counters so far; of an operation that has none they are rebuilt from the messages before this turn.
    """
    messages = opening.prompt.messages
    skips, counters = {}, {}
    for operation in operations:
        activation, config = operation.config.activation, operation.config
        if activation is None:
            continue
        before = _before(stored.get(operation.id), activation, messages, Trigger.GENERATE in config.triggers)
        step = Step(opening.source, context_tokens(messages), trigger in config.triggers)
        is_due, after = advance(activation, before, step)
        counters[operation.id] = after
        if not is_due:
            skips[operation.id] = Skip(
                reason=SkippedReason.ACTIVATION_NOT_REACHED, activation=skip_details(activation, after)
            )
    return Due(skips, counters)


def _before(
    stored: Counters | None,
    activation: Activation,
    messages: Sequence[RunMessage],
    supported: bool,  # noqa: FBT001
) -> Counters:
    if stored is not None:
        return stored
    return replay(activation, steps_of(messages, trigger_supported=supported)[:-1])
