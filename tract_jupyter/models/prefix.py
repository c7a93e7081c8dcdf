"""The beginning of a list that grows, as a sequence of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T_co = TypeVar("T_co", covariant=True)


class Prefix(Sequence[T_co]):
    """The present items of a list to which others may append, but which nobody changes otherwise.

    Made in no time whatever the length, so that a context of 100,000 messages costs nothing to hand out.

    Args:
        items: the list.
        view: makes of an item what is handed out, each time that somebody looks.
    """

    __slots__ = ("_items", "_length", "_view")

    def __init__(self, items: list[T_co], view: Callable[[T_co], T_co] | None = None) -> None:
        self._items = items
        self._length = len(items)
        self._view = view

    def viewed(self, view: Callable[[T_co], T_co]) -> Prefix[T_co]:
        """Return the same items, as a function shows them."""
        made = Prefix(self._items, view)
        made._length = self._length
        return made

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        item = self._items[index if index >= 0 else self._length + index]
        return item if self._view is None else self._view(item)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T_co]:
        items = islice(self._items, self._length)
        return items if self._view is None else map(self._view, items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prefix | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
