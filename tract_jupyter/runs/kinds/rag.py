"""Kind `rag`: finds what the history of the branch says about something.

`params`: `{"query": template, "k": 5, "minScore": 0, "roles": [...], "skipLast": 0}`. The value is a list of
`{"commit", "role", "text", "score"}`, best first. The user's current message is never among them:
it is in the prompt, and asks.

The index (`TextIndex`) is no part of a store. It ranks by how often words are in *all* texts that it holds; in a store
that would be those of other tracts and branches too, so that they changed the order, and a search gave another result
on PostgreSQL. A history is indexed when it is first searched (10,000 messages take a moment), and then as it grows.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from tract_jupyter.exceptions import StoreError
from tract_jupyter.runs.kinds.base import OperationFailed, Output, check_filled, read_params, rendered
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.terms import Data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tract_jupyter.models.context import Message
    from tract_jupyter.runs.kinds.base import KindOutcome, Problem, Services
    from tract_jupyter.runs.model import Operation, OperationContext


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


_WORD: Final = re.compile(r"\w+")
_MOST_WORDS: Final = 64
_MAKE: Final = (
    # without the texts themselves, which are in the store
    "CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
)
_FIND: Final = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"
_DIGITS: Final = 9


class TextIndex:
    """Texts that are numbered from 0, in the order in which they came. Threads take turns.

    Raises:
        StoreError: this Python's SQLite has no FTS5.
    """

    def __init__(self) -> None:
        self._size = 0
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._connection.close)
        try:
            self._connection.execute(_MAKE)
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"the SQLite of this Python cannot search texts ({error}); use a Python whose SQLite has FTS5"
            ) from None

    def __len__(self) -> int:
        return self._size

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        rows = list(enumerate(texts, self._size))
        self._connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", rows)
        self._size += len(rows)

    def find(self, query: str) -> list[tuple[int, float]]:
        """The texts that have a word of the query, with their score (BM25; more is better), best first.

        The query is words, and nothing in it is an operator; case and accents do not count. Of the same score, the
        earlier text comes first.
        """
        words = dict.fromkeys(_WORD.findall(query.casefold()))
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in list(words)[:_MOST_WORDS])
        found = self._connection.execute(_FIND, (match,)).fetchall()
        scored = [(int(place), round(score, _DIGITS)) for place, score in found]
        return sorted(scored, key=lambda one: (-one[1], one[0]))


class RagParams(Data):
    """What to look for."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    k: Annotated[int, Field(ge=1, le=100)] = 5
    min_score: Annotated[float, Field(ge=0)] = 0
    roles: tuple[Literal["system", "user", "assistant", "tool"], ...] | None = None
    skip_last: Annotated[int, Field(ge=0)] = 0


class RagKind:
    """Searches the history."""

    name = "rag"
    anywhere = False

    def check(self, operation: Operation) -> list[Problem]:
        """All that is wrong with the parameters."""
        return check_filled(RagParams, operation)

    def prepare(self, operation: Operation, services: Services) -> Retrieval:
        """The search, without its words."""
        if services.search is None:
            raise OperationFailed.invalid("there is no history to search here; run it within a tract")
        return Retrieval(read_params(RagParams, operation.config.params), services.search)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Makes one search."""

    params: RagParams
    search: Callable[..., Any]

    def __call__(self, context: OperationContext) -> KindOutcome:
        """Search; a query without words finds nothing, which is no error."""
        params, query = self.params, rendered(self.params.query, context)
        found = self.search(
            query, k=params.k, min_score=params.min_score, roles=params.roles, skip_last=params.skip_last,
            branch=context.branch, exclude=[one for one in (context.user_key, context.turn_id) if one],
        )  # fmt: skip
        return Output(
            found, inputs={"queryChars": len(query)}, outputs={"found": len(found)},
            debug={"query": quoted(query, context.policy.max_snapshot)},
        )  # fmt: skip
