"""Activation: the operations that are due in a run, and the counters after it (X01).

Counters are data, and counting is pure. Counters are stored with the reply, so a turn that is retried counts once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.runs.effect_types import ArtifactUpsert
from tract_jupyter.runs.model import Skip
from tract_jupyter.runs.terms import Role, RunTrigger, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.runs.model import Activation, Operation, OperationResult, RunMessage
    from tract_jupyter.runs.turn import RunSetup


CHARACTERS_PER_TOKEN: Final = 4
"""Tokens are estimated, so counters do not depend on a tokenizer."""


class TurnSource(StrEnum):
    """The cause of a run. Counters only count messages that the user wrote."""

    USER_MESSAGE = "user_message"
    REGENERATE = "regenerate"
    CONTINUE = "continue"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Counters:
    """The turns and tokens since an operation was last due."""

    turns: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class CountedTurn:
    """A run as the counters see it.

    Attributes:
        source: a `TurnSource`.
        context_tokens: the size of the whole context.
        trigger_supported: True if the operation runs on the run's trigger.
    """

    source: str
    context_tokens: float = 0
    trigger_supported: bool = True


def interval(value: float | None) -> int | None:
    """Return an interval without its fraction; None if it is below 1."""
    if value is None or not math.isfinite(value) or value < 1:
        return None
    return int(value)


def advance(activation: Activation | None, counters: Counters, step: CountedTurn) -> tuple[bool, Counters]:
    """Count a run for an operation.

    An operation is due when one of its intervals is reached; then both counters restart. If the operation does not run
    on the run's trigger, a reached interval stays reached. An operation without intervals is always due and counts
    nothing.

    Returns:
        True if the operation is due, and the new counters.
    """
    turns, tokens = _intervals(activation)
    if turns is None and tokens is None:
        return step.trigger_supported, Counters()
    if step.source == TurnSource.USER_MESSAGE:
        counters = Counters(counters.turns + 1, counters.tokens + _whole(step.context_tokens))
    reached = _reached(turns, counters.turns) or _reached(tokens, counters.tokens)
    if reached and step.trigger_supported:
        return True, Counters()
    return False, counters


def replay(
    activation: Activation | None, steps: Iterable[CountedTurn], start: Counters | None = None
) -> Counters:
    """Return the counters after these runs, oldest first. This rebuilds the counters of a branch from its history."""
    counters = start or Counters()
    for step in steps:
        _, counters = advance(activation, counters, step)
    return counters


def steps_of(messages: Sequence[RunMessage], *, trigger_supported: bool = True) -> list[CountedTurn]:
    """Return the runs of a history, oldest first: one per user message, with the context at that time.

    Args:
        messages: all messages of the branch.
        trigger_supported: True if the operation runs on `generate`, the trigger of all these runs.
    """
    steps, characters = [], 0
    for message in messages:
        if message.role not in {Role.USER, Role.ASSISTANT}:
            continue
        characters += len(message.content)
        if message.role == Role.USER:
            size = characters // CHARACTERS_PER_TOKEN
            steps.append(CountedTurn(TurnSource.USER_MESSAGE, size, trigger_supported))
    return steps


def context_tokens(messages: Sequence[RunMessage]) -> int:
    """Estimate the tokens of user and assistant messages: a quarter of the characters, rounded down.

    Counts of providers are not used, because a replay must give the same number.
    """
    texts = (one.content for one in messages if one.role in {Role.USER, Role.ASSISTANT})
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN


def skip_details(activation: Activation, counters: Counters) -> dict[str, Any]:
    """Return the intervals and counters of an operation that is not due, as JSON."""
    counts = {"turnsCounter": counters.turns, "tokensCounter": counters.tokens}
    turns, tokens = _intervals(activation)
    intervals = {"everyNTurns": turns, "everyNContextTokens": tokens}
    return {**{name: value for name, value in intervals.items() if value is not None}, **counts}


def _intervals(activation: Activation | None) -> tuple[int | None, int | None]:
    if activation is None:
        return None, None
    return interval(activation.every_n_turns), interval(activation.every_n_context_tokens)


def _whole(tokens: float) -> int:
    return max(0, int(tokens)) if math.isfinite(tokens) else 0


def _reached(every: int | None, count: int) -> bool:
    return every is not None and count >= every


def value_of(result: OperationResult) -> Any:
    """Return the value of the artifact that a result writes; None if it writes none."""
    for effect in result.effects:
        if isinstance(effect, ArtifactUpsert):
            return effect.value
    return None


def unmet_condition(operation: Operation, results: Mapping[str, OperationResult]) -> Skip | None:
    """Return the skip of the first unmet condition, in the order of the profile; None if all hold.

    A missing answer is neither yes nor no; its `actual` is None.
    """
    for condition in operation.config.run_conditions:
        actual = _answer(results.get(condition.source), condition.output)
        if actual is not condition.is_:
            details = {
                "source": condition.source,
                "output": condition.output,
                "is": condition.is_,
                "actual": actual,
            }
            return Skip(reason=SkippedReason.CONDITION_FALSE, condition=details)
    return None


def _answer(result: OperationResult | None, output: str) -> bool | None:
    value = value_of(result) if result is not None and result.is_done else None
    answer = value.get(output) if isinstance(value, dict) else None
    return answer if isinstance(answer, bool) else None


class ActivationCheck(NamedTuple):
    """The skips of operations that are not due, and the counters after the turn."""

    skips: dict[str, Skip]
    counters: dict[str, Counters]


def check_activation(
    operations: Sequence[Operation], setup: RunSetup, trigger: RunTrigger, stored: Mapping[str, Counters]
) -> ActivationCheck:
    """Count this run for each operation with an interval.

    Args:
        operations: the operations of the profile.
        setup: the turn.
        trigger: the trigger of the run.
        stored: the current counters. Missing ones are rebuilt from the messages before this turn.
    """
    messages = setup.prompt.messages
    skips, counters = {}, {}
    for operation in operations:
        activation, config = operation.config.activation, operation.config
        if activation is None:
            continue
        before = _before(
            stored.get(operation.id), activation, messages, RunTrigger.GENERATE in config.triggers
        )
        step = CountedTurn(setup.source, context_tokens(messages), trigger in config.triggers)
        is_due, after = advance(activation, before, step)
        counters[operation.id] = after
        if not is_due:
            skips[operation.id] = Skip(
                reason=SkippedReason.ACTIVATION_NOT_REACHED, activation=skip_details(activation, after)
            )
    return ActivationCheck(skips, counters)


def _before(
    stored: Counters | None,
    activation: Activation,
    messages: Sequence[RunMessage],
    supported: bool,  # noqa: FBT001
) -> Counters:
    if stored is not None:
        return stored
    return replay(activation, steps_of(messages, trigger_supported=supported)[:-1])
