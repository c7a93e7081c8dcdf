"""Full-text search in memory: SQLite's FTS5, which ranks by BM25 (https://www.sqlite.org/fts5.html).

It is no part of a store. It ranks by how often words are in *all* texts that it holds; in a store that would be those
of other tracts and branches too, so that they changed the order, and a search gave another result on PostgreSQL. A
history is indexed when it is first searched (10,000 messages take a moment), and then as it grows.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
