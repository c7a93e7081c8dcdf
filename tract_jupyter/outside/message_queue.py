"""The queue of a turn with an outside agent. It has the agent's messages and our own notes, in one order."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES: Final = 64_000_000


class MessageQueue:
    """A queue for one reader. A sender of messages waits while too many bytes are in it.

    Attributes:
        is_closed: True if later items are dropped.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[Any, int]] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self.is_closed = False

    def put(self, item: object, size: int) -> None:
        """Append a message of `size` bytes. Wait until there is room for it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.is_closed or not self._items or self._size + size <= _MOST_BYTES
            )
            self._append(item, size)

    def post(self, item: object) -> None:
        """Append a note of this process at once."""
        with self._changed:
            self._append(item, 0)

    def insert(self, items: Sequence[object]) -> None:
        """Put items before all others, in their order."""
        with self._changed:
            self._items.extendleft((item, 0) for item in reversed(items))
            self._changed.notify_all()

    def _append(self, item: object, size: int) -> None:
        if not self.is_closed:
            self._items.append((item, size))
            self._size += size
            self._changed.notify_all()

    def take(self, seconds: float) -> Any:
        """Return the next item. Return None if there is none within `seconds`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, seconds):
                return None
            item, size = self._items.popleft()
            self._size -= size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Drop all later items, and release a waiting sender."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
