"""A whole context as one text, for a child that starts with no history of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import SessionError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tract_jupyter.models.context import Message


class Snapshot(NamedTuple):
    """The text, and how many messages are not in it."""

    text: str
    left_out: int


def snapshot(
    messages: Sequence[Message], title: str, count: Callable[[str], int], max_tokens: int | None
) -> Snapshot:
    """Write messages as one text, each under a heading with its number and role.

    Args:
        messages: at least one.
        title: the first line.
        count: counts the tokens of the text.
        max_tokens: how many it may have. Whole messages are left out, the oldest first and pinned ones last, and the
            text says how many.

    Raises:
        SessionError: not even one message fits.
    """
    parts = [_part(number, message) for number, message in enumerate(messages, 1)]
    if max_tokens is None:
        return Snapshot(_text(title, parts, ()), 0)
    order = _least_wanted_first(messages)

    def size(left_out: int) -> int:
        return count(_text(title, parts, order[:left_out]))

    least = _smallest(len(messages), lambda left_out: size(left_out) <= max_tokens)
    if least is None:
        raise SessionError(
            f"max_tokens={max_tokens} has no room for a single message; give at least {size(len(messages) - 1)}"
        )
    return Snapshot(_text(title, parts, order[:least]), least)


def _smallest(limit: int, fits: Callable[[int], bool]) -> int | None:
    """The smallest number below `limit` that fits, by halving; None if the largest does not."""
    if fits(0):  # asked on its own, as the text that says what is left out may be longer than that
        return 0
    low, high = 1, limit - 1
    if high < low or not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _least_wanted_first(messages: Sequence[Message]) -> list[int]:
    return sorted(range(len(messages)), key=lambda place: messages[place].priority is Priority.PINNED)


def _text(title: str, parts: Sequence[str], left_out: Collection[int]) -> str:
    gone = set(left_out)
    note = f"({len(gone)} of {len(parts)} messages are left out for want of room.)"
    kept = [part for place, part in enumerate(parts) if place not in gone]
    return "\n\n".join([title, *([note] if gone else []), *kept])


def _part(number: int, message: Message) -> str:
    who = f"{message.role} {message.name}" if message.name else message.role
    answer = f" (answer to {message.tool_call_id})" if message.tool_call_id else ""
    failed = " (failed)" if message.is_error else ""
    calls = [
        f"calls {call.name}({canonical_json(call.arguments)}) as {call.id}" for call in message.tool_calls
    ]
    text = [message.content] if message.content else []
    return "\n".join([f"## {number}. {who}{answer}{failed}", *text, *calls])
