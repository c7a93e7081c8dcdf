"""The histories that were looked at last, kept so that the next look costs nothing."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from tract_jupyter.engine.timeline import Timeline
from tract_jupyter.storage.entry import MERGE, Entry, Step

if TYPE_CHECKING:
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database

_KEPT = 8


class Timelines:
    """The timelines of one tract, by the commit they end at."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows
        self._kept: OrderedDict[str | None, Timeline] = OrderedDict()
        self._base: str | None = None
        self._ahead: list[Entry] = []  # commits on top of `_base` that nobody looked at yet
        self.lock = database.lock
        """Held by whoever looks at a timeline, since another thread may extend it."""

    def at(self, head: str | None) -> Timeline:
        """The history of `head`, read from the store if need be. Look at it under the lock, and never extend it.

        Raises:
            StoreCorruptError: the history in the store is damaged.
        """
        if head is None:
            return Timeline()
        with self.lock:
            self._catch_up()
            found = self._kept.get(head) or self._within(head) or self._read(head)
            self._keep(found)
            return found

    def advance(self, old: str | None, entry: Entry) -> None:
        """Note that a commit was added on top of `old`. If the history of `old` is not kept, its own is not, either."""
        with self.lock:
            if self._ahead and self._ahead[-1].commit_hash == old:
                self._ahead.append(entry)
                return
            self._catch_up()
            if old is None or old in self._kept:
                self._base, self._ahead = old, [entry]

    def is_kept(self, head: str | None) -> bool:
        """Whether looking at this history costs nothing."""
        return head in self._kept

    def forget(self) -> None:
        """Drop everything, as after a transaction that was rolled back, or commits that were removed."""
        with self.lock:
            self._kept.clear()
            self._ahead.clear()

    def _catch_up(self) -> None:
        if not self._ahead:
            return
        entries, self._ahead = self._ahead, []
        timeline = self._kept.pop(self._base) if self._base is not None else Timeline()
        if any(entry.operation == MERGE for entry in entries):
            return  # what a merge brings is read when it is needed
        for entry in entries:
            timeline.extend(entry.step())
        self._keep(timeline)

    def _keep(self, timeline: Timeline) -> None:
        self._kept[timeline.head] = timeline
        self._kept.move_to_end(timeline.head)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def _within(self, head: str) -> Timeline | None:
        for timeline in reversed(self._kept.values()):
            earlier = timeline.upto(head)
            if earlier is not None:
                return earlier
        return None

    def _read(self, head: str) -> Timeline:
        with self._database.read() as connection:
            lineage = self._rows.lineage(connection, head, Step)
        return Timeline(lineage.rows, lineage.merged)
