"""Searching what a tract's own history holds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.storage.search import TextIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.models.context import Message

_KEPT: Final = 4
"""Histories whose index is kept: that of a branch grows, and another branch has one of its own."""


class HistorySearch:
    """Finds messages of one tract's branches; never what another tract, or another branch alone, has.

    Args:
        tract: the `Tract`. What is skipped in its context is not found, and what was edited is found as it is now.
    """

    def __init__(self, tract: Any) -> None:
        self._tract = tract
        self._lock = threading.Lock()
        self._indexed: OrderedDict[int, _Indexed] = OrderedDict()
        self._count = 0

    def __call__(
        self,
        query: str,
        *,
        k: int = 5,
        min_score: float = 0.0,
        roles: Collection[str] | None = None,
        exclude: Collection[str] = (),
        skip_last: int = 0,
        branch: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the messages that fit best, as `{"commit", "role", "text", "score"}`; of equal ones the earlier first.

        Args:
            query: words; a message has to have one of them.
            k: how many at most.
            min_score: what a message must reach, by BM25: more than 0, and seldom more than 20.
            roles: whose messages; of all if left out.
            exclude: commits that are not wanted.
            skip_last: how many of the newest messages are not wanted.
            branch: which history; the current one if left out.

        Raises:
            CommitNotFoundError: there is no such branch.
        """
        is_current = branch is None or branch == self._tract.current_branch  # which may have no commits yet
        messages = self._tract.compile(at_commit=None if is_current else branch).messages
        last = len(messages) - skip_last
        found = []
        for place, score in self._scored(messages, query):
            message = messages[place]
            is_wanted = place < last and score >= min_score and message.commit_hash not in exclude
            if is_wanted and (roles is None or message.role in roles):
                told = {"commit": message.commit_hash, "role": message.role, "text": message.content}
                found.append({**told, "score": score})
                if len(found) >= k:
                    break
        return found

    def _scored(self, messages: Sequence[Message], query: str) -> list[tuple[int, float]]:
        """The places of the messages that fit, with their scores: the index has just these messages."""
        with self._lock:
            fitting = [key for key, one in self._indexed.items() if one.is_beginning_of(messages)]
            best = max(fitting, key=lambda key: len(self._indexed[key].messages), default=None)
            if best is None:
                best, self._count = self._count, self._count + 1
                self._indexed[best] = _Indexed()
            self._indexed.move_to_end(best)
            while len(self._indexed) > _KEPT:
                self._indexed.popitem(last=False)
            return self._indexed[best].upto(messages).find(query)


class _Indexed:
    """An index, and the messages that are in it."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self._index = TextIndex()

    def is_beginning_of(self, messages: Sequence[Message]) -> bool:
        return len(self.messages) <= len(messages) and all(
            known == (new.commit_hash, new.content)
            for known, new in zip(self.messages, messages, strict=False)
        )

    def upto(self, messages: Sequence[Message]) -> TextIndex:
        new = [(one.commit_hash, one.content) for one in messages[len(self.messages) :]]
        self._index.add(text for _, text in new)
        self.messages += new
        return self._index
