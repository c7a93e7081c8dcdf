"""The person's own words: what was said in this process by their own code, and by nothing that ran for a model."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 200


class PersonsWords:
    """What the person said to a tract in this process, oldest first.

    Attributes:
        count: how often something was said; it only grows.
    """

    def __init__(self) -> None:
        self._texts: deque[str] = deque(maxlen=_MOST)
        self.count = 0

    def note(self, text: str) -> None:
        """Note something that the person said."""
        self._texts.append(text)
        self.count += 1

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._texts))

    def __contains__(self, text: object) -> bool:
        return text in self._texts
