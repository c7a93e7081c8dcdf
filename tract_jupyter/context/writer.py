"""Write drafts as commits. This module is the only one that adds commits to a history.

A write is one transaction: contents, commits, the branch's move, the reflog, and the event. A branch moves by
compare-and-swap. If a plain append loses the race, it is retried on the new tip.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.timeline import totals_after
from tract_jupyter.exceptions import (
    BranchMovedError,
    DetachedHeadError,
    StoreCorruptError,
    StoreLockedError,
    StoreReferenceError,
)
from tract_jupyter.storage import (
    APPEND,
    BRANCHES,
    OWN_HEADS,
    Entry,
    Position,
    commit_hash,
    interruptible,
    now_text,
    protected_context,
    uninterrupted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.timeline import Timelines, Totals
    from tract_jupyter.storage import CommitRows, Database, Draft, EventRows, OwnHead, ReflogRows, RefRows

COPIED = "restored "
"""A mark before the source of a copy, if the original may be in the same history."""
_ATTEMPTS = 100
_BUFFERED = 2_000


class _LostRaceError(Exception):
    """Raised if another process or thread moved the branch first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Drafts to write after `base`, and a branch to move from `old` to the last of them.

    In a rewrite of history, `base` and `old` differ. Without drafts, the branch moves to `base`.
    """

    branch: str
    old: str | None
    base: Position
    drafts: Sequence[Draft]
    operation: str
    """The operation's name in the reflog and the event."""
    message: str = ""
    event: dict[str, Any] = field(default_factory=dict)


class Buffer:
    """The commits of a batch that are not in the database yet."""

    def __init__(self, connection: Connection, commits: CommitRows, refs: RefRows) -> None:
        self._connection = connection
        self._commits = commits
        self._refs = refs
        self._entries: list[Entry] = []
        self._from: Position | None = None

    def add(self, here: Position, entry: Entry) -> None:
        """Add a commit after the previous one."""
        if self._from is None:
            self._from = here
        self._entries.append(entry)
        if len(self._entries) >= _BUFFERED:
            self.flush()

    def add_files(self, files: Sequence[bytes]) -> None:
        """Write the bytes of attachments immediately."""
        self._commits.add_files(self._connection, files)

    def flush(self) -> None:
        """Write the buffered commits.

        Raises:
            BranchMovedError: the branch moved; the batch must be rolled back.
        """
        here, entries = self._from, self._entries
        if here is None:
            return
        self._from, self._entries = None, []
        self._commits.add(self._connection, entries, {})
        new = entries[-1].commit_hash
        if not self._refs.move(self._connection, here.branch or "", here.commit_hash, new, current=True):
            raise BranchMovedError(
                "another process or thread moved the branch during the batch; nothing was committed. Try again."
            )


class Writer:
    """Writes the commits of one tract."""

    def __init__(
        self,
        database: Database,
        commits: CommitRows,
        refs: RefRows,
        reflog: ReflogRows,
        events: EventRows,
        timelines: Timelines,
    ) -> None:
        self._database = database
        self._commits = commits
        self._refs = refs
        self._reflog = reflog
        self._events = events
        self._timelines = timelines
        self._known: Position | None = None  # the last known position of HEAD
        self._known_of: OwnHead | None = None  # the temporary HEAD of `_known`; None for the store's HEAD
        self._buffer: Buffer | None = None
        self._lock = threading.RLock()
        self.on_commits: Callable[[Sequence[Entry] | None], None] | None = None
        """Called with the commits of each write, also within a batch or another transaction. Called with an empty
        tuple after a batch, and with None after a rollback."""

    def append(self, draft: Draft, check: Callable[[Totals], None] | None) -> Entry:
        """Commit a draft to the current branch.

        Args:
            draft: the draft.
            check: called with the new totals if the context grows. It raises an error to reject the draft, and may
                write. None for no check.

        Raises:
            DetachedHeadError: there is no current branch.
            StoreLockedError: all attempts lost a race.
        """
        entry = self._append(draft, check)
        if self.on_commits is not None:
            self.on_commits((entry,))
        return entry

    def _append(self, draft: Draft, check: Callable[[Totals], None] | None) -> Entry:
        has_retried = False
        with self._lock:
            if self._buffer is not None:
                return self._buffered(self._buffer, draft, check)
            for attempt in range(_ATTEMPTS):
                try:
                    return self._appended(
                        draft, check, is_optimistic=not attempt or draft.operation != APPEND
                    )
                except _LostRaceError:
                    self._known = None
                except (StoreCorruptError, StoreReferenceError):
                    if has_retried or self._database.in_transaction:
                        raise
                    has_retried = True
                    self._forget()  # gc of another process may have removed cached commits
        raise StoreLockedError(
            "other writers moved the branch at each attempt; nothing was committed. Try again."
        )

    @protected_context
    def batch(self) -> Iterator[Connection]:
        """Write the commits of the block in one transaction: all or none. Yield its connection.

        The commits are written at the end of the block, or before another transaction joins this one.
        """
        with self._lock:
            if self._buffer is not None:  # a part of an outer batch; if it fails, both fail
                with self._database.write() as connection:
                    yield connection
                return
            try:
                with self._database.write() as connection:
                    self._known, self._known_of = (
                        self._refs.position(connection),
                        OWN_HEADS.get().get(self._refs),
                    )
                    self._buffer = Buffer(connection, self._commits, self._refs)
                    self._database.before_nested(self._buffer.flush, self._forget)
                    yield connection
                    self._buffer.flush()
            except BaseException:
                self._forget()
                raise
            finally:
                self._buffer = None
        if self.on_commits is not None:
            interruptible(self.on_commits, ())

    def write(self, plan: Plan, also: Callable[[Connection, list[Entry]], None] | None = None) -> list[Entry]:
        """Execute a plan and return its commits. `also` runs in its transaction; its errors roll back.

        Raises:
            BranchMovedError: the branch moved since the plan; nothing was changed.
        """
        entries, parents = self._placed(plan.base, plan.drafts)
        new = entries[-1].commit_hash if entries else plan.base.commit_hash
        self.forget_position()
        with self._database.write() as connection:
            if entries:
                self._commits.add_files(connection, [file for draft in plan.drafts for file in draft.files])
                self._commits.add(connection, entries, parents)
                self._commits.copy_run_state(connection, _with_state(plan, entries))
            if not self._refs.move(connection, plan.branch, plan.old, new):
                raise BranchMovedError(
                    f"another process or thread moved branch {plan.branch!r}; nothing was changed. Try again."
                )
            at = entries[-1].created_at if entries else None  # the time of the branch's new position
            name = BRANCHES + plan.branch
            self._reflog.add(connection, name, plan.old, new, plan.operation, plan.message, at=at)
            if plan.event:
                data = {"branch": plan.branch, "old": plan.old, "new": new, **plan.event}
                self._events.append(connection, plan.operation, "user", data)
            if also is not None:
                also(connection, entries)
        if self.on_commits is not None and entries:
            self.on_commits(entries)
        return entries

    @property
    def position(self) -> Position:
        """The current branch and its newest commit. In a batch, this includes buffered commits and needs no query."""
        with self._lock:
            if self._buffer is None:
                return self._position()
            here = self._known = self._known or self._position()
            return here

    @property
    def known(self) -> Position | None:
        """The position after the last commit of this process, without a query; None if HEAD moved in another way."""
        return self._known if self._known_of is OWN_HEADS.get().get(self._refs) else None

    def forget_position(self) -> None:
        """Forget the known position of HEAD after a move without a commit, or after a rollback."""
        with self._lock:
            self._known = None

    def _appended(
        self, draft: Draft, check: Callable[[Totals], None] | None, *, is_optimistic: bool
    ) -> Entry:
        """Place a draft after the tip, and write it.

        Placing a draft may take long: it reads the history, and the budget may call user code. So it normally happens
        before the write transaction (optimistic), and another process can win the race. A plain append that lost a
        race is placed within the transaction, and cannot lose again.
        """
        here, entry = None, None
        if is_optimistic:
            # within the caller's transaction, a lost race cannot be repeated, so read the position
            here = None if self._database.in_transaction else self.known
            here = here or self._position()
            entry = self._placed_alone(here, draft, check)
        with self._database.write() as connection:
            here = here or self._refs.position(connection)
            entry = entry or self._placed_alone(here, draft, check)
            self._commits.add_files(connection, draft.files)
            self._commits.add(connection, (entry,), {})
            if not self._refs.move(
                connection, here.branch or "", here.commit_hash, entry.commit_hash, current=True
            ):
                raise _LostRaceError
            self._database.if_rolled_back(self._forget)
            self._take_note(here, entry)
        return entry

    def _buffered(self, buffer: Buffer, draft: Draft, check: Callable[[Totals], None] | None) -> Entry:
        here = self.position
        entry = self._placed_alone(here, draft, check)
        if self._known is not here:  # code that the budget called has written a commit
            return self._buffered(buffer, draft, check)
        with uninterrupted():
            buffer.add_files(draft.files)
            buffer.add(here, entry)
            self._take_note(here, entry)
        return entry

    def _forget(self) -> None:
        """Clear all caches after a rollback."""
        self._known = None
        self._timelines.forget()
        if self.on_commits is not None:
            self.on_commits(None)

    def _take_note(self, here: Position, entry: Entry) -> None:
        self._known = Position.of(here.branch, entry, here.tools_hash)
        self._known_of = OWN_HEADS.get().get(self._refs)
        self._timelines.advance(here.commit_hash, entry)

    def _position(self) -> Position:
        with self._database.read() as connection:
            return self._refs.position(connection)

    def _placed_alone(self, here: Position, draft: Draft, check: Callable[[Totals], None] | None) -> Entry:
        if here.branch is None:
            raise DetachedHeadError(
                "HEAD is detached: nothing can be committed here. Create a branch (branch NAME), or switch to one"
            )
        if draft.operation == APPEND:  # needs no history
            totals = totals_after(here.context_tokens, here.context_messages, draft)
        else:
            with self._timelines.lock:
                totals = self._timelines.at(here.commit_hash).effect(draft)
        if check is not None and totals.tokens > here.context_tokens:
            interruptible(check, totals)
        return self._placed_on(here, draft, totals)

    def _placed(
        self, base: Position, drafts: Sequence[Draft]
    ) -> tuple[list[Entry], dict[str, tuple[str, ...]]]:
        """Place drafts after `base`. Edits and annotations of copied commits refer to the copies."""
        with self._timelines.lock:
            timeline = self._timelines.at(base.commit_hash).fork()
            moved: dict[str, str] = {}
            entries: list[Entry] = []
            parents: dict[str, tuple[str, ...]] = {}
            here = base
            for draft in drafts:
                target = moved.get(draft.edit_target or "")
                placed = draft if target is None else draft._replace(edit_target=target)
                for parent in draft.merge_parents:
                    timeline.absorb(self._timelines.at(parent).steps)
                entry = self._placed_on(here, placed, timeline.effect(placed))
                timeline.extend(entry.step())
                if draft.source is not None:
                    moved[draft.source] = entry.commit_hash
                if draft.merge_parents:
                    parents[entry.commit_hash] = draft.merge_parents
                entries.append(entry)
                here = Position.of(base.branch, entry)
        return entries, parents

    def _placed_on(self, here: Position, draft: Draft, totals: Totals) -> Entry:
        tract_id = self._commits.tract_id
        hash_at = partial(commit_hash, draft, tract_id, here.commit_hash, draft.merge_parents)
        time_of = self._database.clock.time_of
        created_at = now_text() if time_of is None else time_of(hash_at(""))
        return Entry(
            hash_at(created_at),
            tract_id,
            here.commit_hash,
            draft.content_hash,
            draft.content_type,
            draft.operation,
            draft.edit_target,
            draft.message,
            draft.token_count,
            draft.token_counter,
            here.generation + 1,
            draft.metadata_json,
            draft.generation_config_json,
            draft.tags_json,
            created_at,
            draft.priority,
            draft.retention_json,
            draft.tools_hash,
            totals.tokens,
            totals.messages,
            draft.payload,
        )


def _with_state(plan: Plan, entries: list[Entry]) -> list[tuple[str, str]]:
    """Return (original, copy) pairs of a rewritten history. The copies get the run states of the originals."""
    if plan.old is None or plan.old == plan.base.commit_hash:  # nothing is rewritten
        return []
    copies = [
        (draft.source.removeprefix(COPIED), entry.commit_hash)
        for draft, entry in zip(plan.drafts, entries, strict=True)
        if draft.source is not None
    ]
    return [*copies, (plan.old, entries[-1].commit_hash)]
