"""Kind `rag`: searches the history of the branch.

`params`: `{"query": template, "k": 5, "minScore": 0, "roles": [...], "skipLast": 0}`. The value is a list of
`{"commit", "role", "text", "score"}`, best first. The user's current message is never in it: the prompt has it
already.

The index (`TextIndex`) is not in the store. It ranks by the frequency of words in all its texts. In a store, texts of
other tracts and branches would change the order, and PostgreSQL would return other results. A history is indexed at
its
first search (10,000 messages take a moment), and then as it grows.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from tract_jupyter.exceptions import StoreError
from tract_jupyter.runs.kinds.base import OperationFailed, OperationOutput, check_filled, read_params
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.templates.engine import render
from tract_jupyter.runs.terms import Data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tract_jupyter.context import VersionedContext
    from tract_jupyter.models import Message
    from tract_jupyter.runs.kinds.base import KindOutcome, Problem, Runner, Services
    from tract_jupyter.runs.model import Operation, OperationContext


_KEPT: Final = 4
"""The number of cached indexes, one per history."""


class HistorySearch:
    """A search in the history of a branch. It never searches other tracts or branches.

    Args:
        tract: the tract. Skipped messages are not found, and edited ones are found in their current version.
    """

    def __init__(self, tract: VersionedContext) -> None:
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
        """Return the best matches as `{"commit", "role", "text", "score"}`; of equal ones the earlier first.

        Args:
            query: words; a message must have one of them.
            k: the largest number of matches.
            min_score: the smallest BM25 score: more than 0, and seldom more than 20.
            roles: the roles of the messages; all if left out.
            exclude: commits to leave out.
            skip_last: the number of newest messages to leave out.
            branch: the branch; the current one if left out.

        Raises:
            CommitNotFoundError: the branch is unknown.
        """
        is_current = (
            branch is None or branch == self._tract.current_branch
        )  # a new branch may have no commits
        messages = self._tract.compile(at_commit=None if is_current else branch).messages
        last = len(messages) - skip_last
        matches = []
        for place, score in self._scored(messages, query):
            message = messages[place]
            is_wanted = place < last and score >= min_score and message.commit_hash not in exclude
            if is_wanted and (roles is None or message.role in roles):
                match = {"commit": message.commit_hash, "role": message.role, "text": message.content}
                matches.append({**match, "score": score})
                if len(matches) >= k:
                    break
        return matches

    def _scored(self, messages: Sequence[Message], query: str) -> list[tuple[int, float]]:
        """Return places and scores of matching messages. The index has exactly these messages."""
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
    # without the texts: the store has them
    "CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
)
_FIND: Final = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"
_DIGITS: Final = 9


class TextIndex:
    """A full-text index. Texts are numbered from 0 in the order in which they were added. Threads may share it.

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
                f"The SQLite of this Python cannot search texts ({error}). Use a Python whose SQLite has FTS5."
            ) from None

    def __len__(self) -> int:
        return self._size

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        rows = list(enumerate(texts, self._size))
        self._connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", rows)
        self._size += len(rows)

    def find(self, query: str) -> list[tuple[int, float]]:
        """Return texts with a word of the query and their scores (BM25; higher is better), best first.

        A query has words only, no operators. Case and accents are ignored. With equal scores, the earlier text comes
        first.
        """
        words = dict.fromkeys(_WORD.findall(query.casefold()))
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in list(words)[:_MOST_WORDS])
        rows = self._connection.execute(_FIND, (match,)).fetchall()
        scored = [(int(place), round(score, _DIGITS)) for place, score in rows]
        return sorted(scored, key=lambda one: (-one[1], one[0]))


class RagParams(Data):
    """The query, and the number of results."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    k: Annotated[int, Field(ge=1, le=100)] = 5
    min_score: Annotated[float, Field(ge=0)] = 0
    roles: tuple[Literal["system", "user", "assistant", "tool"], ...] | None = None
    skip_last: Annotated[int, Field(ge=0)] = 0


class RagKind:
    """The kind that searches the history."""

    name = "rag"
    parameters = (RagParams,)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters."""
        return check_filled(RagParams, operation)

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return the search; its query is rendered when it runs."""
        if services.search is None:
            raise OperationFailed.invalid("There is no history to search. Run it within a tract.")
        return partial(_search, read_params(RagParams, operation.config.params), services.search)


def _search(params: RagParams, search: Callable[..., Any], context: OperationContext) -> KindOutcome:
    """Search. A query without words finds nothing, which is not an error."""
    query = render(params.query, context)
    matches = search(
        query, k=params.k, min_score=params.min_score, roles=params.roles, skip_last=params.skip_last,
        branch=context.branch, exclude=[one for one in (context.user_key, context.turn_id) if one],
    )  # fmt: skip
    return OperationOutput(
        matches, inputs={"queryChars": len(query)}, outputs={"found": len(matches)},
        debug={"query": quoted(query, context.snapshot_characters)},
    )  # fmt: skip
