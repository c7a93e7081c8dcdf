"""Placing drafts: the one way in which commits come into a history.

Everything of a write is one transaction: contents, commits, the branch's move, the reflog, the event. A branch moves by
compare-and-swap; a plain append that lost the race moves to the new tip.
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
    uninterrupted,
    whole_context,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.timeline import Timelines, Totals
    from tract_jupyter.storage import CommitRows, Database, Draft, EventRows, OwnHead, ReflogRows, RefRows

COPIED = "restored "
"""Before the source of a copy whose original may be in the same history."""
_ATTEMPTS = 100
_BUFFERED = 2_000


class _LostRaceError(Exception):
    """Raised if another process or thread moved the branch first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Commits to be placed on `base`, and the branch to be moved from `old` to the last of them.

    `base` and `old` differ where history is rewritten. Without drafts the branch moves to `base` itself.
    """

    branch: str
    old: str | None
    base: Position
    drafts: Sequence[Draft]
    operation: str
    """What the reflog and the event call it."""
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
        """Take a commit that follows the one before it."""
        if self._from is None:
            self._from = here
        self._entries.append(entry)
        if len(self._entries) >= _BUFFERED:
            self.flush()

    def add_files(self, files: Sequence[bytes]) -> None:
        """Write the bytes of attachments, which are not held back."""
        self._commits.add_files(self._connection, files)

    def flush(self) -> None:
        """Write them.

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
                "somebody else moved the branch during the batch; nothing was committed. Try again."
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
        self._known: Position | None = None  # where HEAD was when this process last looked
        self._known_of: OwnHead | None = None  # and which one; None for that of the store
        self._buffer: Buffer | None = None
        self._lock = threading.RLock()
        self.on_rollback: Callable[[], None] = lambda: None
        """Called after a batch failed."""
        self.on_commits: Callable[[Sequence[Entry] | None], None] | None = None
        """Called with the commits of each write once it is done, also within a batch or another transaction; with none
        after a batch; and with None if some were rolled back."""

    def append(self, draft: Draft, check: Callable[[Totals], None] | None) -> Entry:
        """Put a draft on the current branch.

        Args:
            draft: what to commit.
            check: called with the totals that it would give, if these are more; raises to refuse it. It may write. None
                for no check.

        Raises:
            DetachedHeadError: there is no current branch.
            StoreLockedError: other writers kept moving the branch.
        """
        entry = self._append(draft, check)
        if self.on_commits is not None:
            self.on_commits((entry,))
        return entry

    def _append(self, draft: Draft, check: Callable[[Totals], None] | None) -> Entry:
        has_looked_again = False
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
                    if has_looked_again or self._database.in_transaction:
                        raise
                    has_looked_again = True
                    self._forget()  # somebody's gc may have removed what this process knew
        raise StoreLockedError("other writers kept moving the branch; nothing was committed. Try again.")

    @whole_context
    def batch(self) -> Iterator[None]:
        """Write the commits of the block in one transaction: all of them, or none."""
        with self._lock:
            if self._buffer is not None:  # a part of another batch; if it fails, that one fails too
                with self._database.write():
                    yield
                return
            try:
                with self._database.write() as connection:
                    self._known, self._known_of = (
                        self._refs.position(connection),
                        OWN_HEADS.get().get(self._refs),
                    )
                    self._buffer = Buffer(connection, self._commits, self._refs)
                    self._database.before_nested(self._buffer.flush, self._forget)
                    yield
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
        self.look_again()
        with self._database.write() as connection:
            if entries:
                self._commits.add_files(connection, [file for draft in plan.drafts for file in draft.files])
                self._commits.add(connection, entries, parents)
                self._commits.copy_run_state(connection, _with_state(plan, entries))
            if not self._refs.move(connection, plan.branch, plan.old, new):
                raise BranchMovedError(
                    f"branch {plan.branch!r} was moved by somebody else meanwhile; nothing was changed. Try again."
                )
            at = entries[-1].created_at if entries else None  # the branch is there from then on
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
        """The current branch and its newest commit; in a batch with what that holds back, and without asking again."""
        with self._lock:
            if self._buffer is None:
                return self._position()
            here = self._known = self._known or self._position()
            return here

    @property
    def known(self) -> Position | None:
        """The position after the last commit of this process, without asking; None if it was moved in another way."""
        return self._known if self._known_of is OWN_HEADS.get().get(self._refs) else None

    def look_again(self) -> None:
        """Forget where HEAD was: this process moved it in another way, or rolled back."""
        with self._lock:
            self._known = None

    def _appended(
        self, draft: Draft, check: Callable[[Totals], None] | None, *, is_optimistic: bool
    ) -> Entry:
        """Place a draft on the tip and write it. If optimistic, look first: another process may still win the race.

        Placing may take long, as it looks at the history and the budget may call somebody: that is nothing for a
        transaction of one's own. Only a plain append that lost a race is placed in one, and cannot lose another.
        """
        here, entry = None, None
        if is_optimistic:
            # within a transaction of somebody else's, a lost race could not be run again
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
        if self._known is not here:  # the budget called somebody who wrote something
            return self._buffered(buffer, draft, check)
        with uninterrupted():
            buffer.add_files(draft.files)
            buffer.add(here, entry)
            self._take_note(here, entry)
        return entry

    def _forget(self) -> None:
        """Forget what this process knew: it was rolled back."""
        self._known = None
        self._timelines.forget()
        self.on_rollback()
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
                "HEAD is detached: nothing can be committed here. Make a branch (branch NAME), or switch to one"
            )
        if draft.operation == APPEND:  # needs no look at the history
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
        """Give drafts their places after `base`. Those that change copies among them are pointed at the copies."""
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
    """Return (original, copy) of the commits of a rewritten history that take over a state of runs."""
    if plan.old is None or plan.old == plan.base.commit_hash:  # nothing is rewritten
        return []
    copies = [
        (draft.source.removeprefix(COPIED), entry.commit_hash)
        for draft, entry in zip(plan.drafts, entries, strict=True)
        if draft.source is not None
    ]
    return [*copies, (plan.old, entries[-1].commit_hash)]
