"""Compare two compiled contexts.

The comparison pairs messages of the same commit, even if their positions differ. Between two such pairs, it matches the
other messages by equal text, and then by position.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import APPROXIMATE, DiffResult, MessageDiff

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from tract_jupyter.models import CompiledContext, Message

    Messages = Sequence[Message]
    Key = Callable[[Message], Hashable]


def diff_contexts(a: CompiledContext, b: CompiledContext) -> DiffResult:
    """Compare two contexts message by message.

    A message is unchanged if its text, role, priority, tool calls and generation config are equal. Its commit and its
    token counter do not matter. A message that moved past others is removed at one position and added at another.
    """
    source = APPROXIMATE if APPROXIMATE in {a.token_source, b.token_source} else b.token_source
    return DiffResult(
        a.head,
        b.head,
        tuple(_aligned(a.messages, b.messages)),
        b.token_count - a.token_count,
        _config_changes(a.messages, b.messages),
        source,
    )


def _aligned(old: Messages, new: Messages) -> list[MessageDiff]:
    """Match the equal beginning and end, then the messages between them."""
    shorter = min(len(old), len(new))
    start = next((i for i, (x, y) in enumerate(zip(old, new, strict=False)) if not _is_same(x, y)), shorter)
    end = 0
    while end < shorter - start and _is_same(old[-1 - end], new[-1 - end]):
        end += 1
    middle = _between(old[start : len(old) - end], new[start : len(new) - end], (_by_commit, _by_text))
    tail = range(-end, 0)
    return [
        *(MessageDiff("unchanged", x, y) for x, y in zip(old[:start], new[:start], strict=True)),
        *middle,
        *(MessageDiff("unchanged", old[i], new[i]) for i in tail),
    ]


def _between(old: Messages, new: Messages, keys: Sequence[Key]) -> list[MessageDiff]:
    """Match by the first key, and then the messages between its matches by the other keys."""
    if not keys or not old or not new:
        return _by_position(old, new)
    diffs: list[MessageDiff] = []
    done_old = done_new = 0
    for i, j in _anchors(old, new, keys[0]):
        diffs += _between(old[done_old:i], new[done_new:j], keys[1:])
        diffs.append(_pair(old[i], new[j]))
        done_old, done_new = i + 1, j + 1
    return diffs + _between(old[done_old:], new[done_new:], keys[1:])


def _anchors(old: Messages, new: Messages, key: Key) -> list[tuple[int, int]]:
    """Pair messages with a key that is unique on each side. Return the longest sequence of pairs in the same order."""
    places = _once(new, key)
    pairs = [(i, places[k]) for k, i in _once(old, key).items() if k in places]
    return [pairs[i] for i in _longest_rise([j for _, j in pairs])]


def _once(messages: Messages, key: Key) -> dict[Hashable, int]:
    """Return the index of each unique key."""
    keys = [key(message) for message in messages]
    counts = Counter(keys)
    return {k: i for i, k in enumerate(keys) if k is not None and counts[k] == 1}


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Return the indices of a longest increasing subsequence of distinct numbers, in n log n steps."""
    ends: list[int] = []  # the smallest last value of a subsequence of each length
    at: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        length = bisect_left(ends, value)
        ends[length : length + 1] = [value]
        at[length : length + 1] = [index]
        before.append(at[length - 1] if length else -1)
    rise = []
    index = at[-1] if at else -1
    while index >= 0:
        rise.append(index)
        index = before[index]
    return rise[::-1]


def _by_commit(message: Message) -> Hashable:
    return message.commit_hash or None


def _by_text(message: Message) -> Hashable:
    return (
        message.role,
        message.told,
        message.tool_call_id,
        tuple(call.id for call in message.tool_calls),
    )


def _by_position(old: Messages, new: Messages) -> list[MessageDiff]:
    """Pair messages with the same position and role."""
    diffs: list[MessageDiff] = []
    for i in range(max(len(old), len(new))):
        before = old[i] if i < len(old) else None
        after = new[i] if i < len(new) else None
        if before is not None and after is not None and before.role == after.role:
            diffs.append(_pair(before, after))
        else:
            diffs += [MessageDiff("removed", before, None)] if before is not None else []
            diffs += [MessageDiff("added", None, after)] if after is not None else []
    return diffs


def _pair(old: Message, new: Message) -> MessageDiff:
    return MessageDiff("unchanged" if _is_same(old, new) else "changed", old, new)


def _is_same(old: Message, new: Message) -> bool:
    if old is new:
        return True
    return (
        old.content == new.content
        and old.attachments == new.attachments
        and old.role == new.role
        and old.priority == new.priority
        and old.name == new.name
        and old.content_type == new.content_type
        and old.tool_call_id == new.tool_call_id
        and old.is_error == new.is_error
        and old.tool_calls == new.tool_calls
        and old.generation_config == new.generation_config
    )


def _config_changes(old: Messages, new: Messages) -> dict[str, tuple[Any, Any]]:
    before, after = _last_config(old), _last_config(new)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return {name: (before.get(name), after.get(name)) for name in changed}


def _last_config(messages: Messages) -> dict[str, Any]:
    return next((m.generation_config for m in reversed(messages) if m.generation_config), {})
