"""Turns: one answer at a time on a branch, and the cleanup after a turn without a reply.

A lease says which process works on a run, because two processes would commit it twice.

A question without a reply is not sent with later ones. The store records open questions, so this holds after a crash.
In the context, they have the priority `skip` until the user repeats them. Undo removes these notes together with the
question that they are about, or with the question that replaced it.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4
from weakref import WeakValueDictionary, ref

from tract_jupyter.context import QuestionNote
from tract_jupyter.exceptions import RunError, TractError
from tract_jupyter.models import Priority
from tract_jupyter.review import has_ended, process_text, this_process
from tract_jupyter.storage import (
    ANNOTATE,
    APPEND,
    RunLeaseRows,
    StoredLease,
    interrupts,
    read_moment,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from sqlalchemy import Connection

    from tract_jupyter.context import Commits, Refs, Timelines, Writer
    from tract_jupyter.models import CommitInfo
    from tract_jupyter.storage import Database, Position, Step


LASTS: Final = 120.0
"""Seconds that a lease is valid unless it is renewed. A dead process of this host is detected at once."""

_BETWEEN: Final = LASTS / 3

_HERE: Final[WeakValueDictionary[str, Lease]] = WeakValueDictionary()
"""The leases of the runs that this process works on. A repeated interrupt can prevent the release of a lease."""


class Lease:
    """The right to work on a run, within `with`. A thread renews it, because a request to a model may take longer.

    Args:
        database: has the run.
        rows: the lease rows of the tract.
        run_id: the run.
        branch: the branch of the reply. No other run may answer on it at the same time.
        question: the commit to answer. If there is no reply, the store records that it is open.

    Attributes:
        transaction: opens the transaction that takes the lease; by default a write to the database.
        first: called in the transaction that takes the lease.
        last: called in the next transaction that releases the lease or renames the run. It stores the run's end.
        open: the leases of this branch whose questions have no reply, oldest first.
        has_failed: True if the question stays open after the release. None means: if an error ends the block, because a
            second interrupt may prevent the check.
    """

    def __init__(
        self,
        database: Database,
        rows: RunLeaseRows,
        run_id: str,
        branch: str | None = None,
        question: str | None = None,
    ) -> None:
        self.run_id = run_id
        self.branch = branch
        self.question = question
        self.open: list[StoredLease] = []
        self.has_failed: bool | None = None
        self.transaction: Callable[[], AbstractContextManager[Connection]] = database.write
        self.first: Callable[[Connection], object] | None = None
        self.last: Callable[[Connection], object] | None = None
        self._database = database
        self._rows = rows
        self._process = this_process()
        self._renew_at = 0.0
        self._is_taken = False
        self._given_back = threading.Event()

    @interrupts.protected
    def __enter__(self) -> Self:
        """Take the lease.

        Raises:
            RunError: another process or thread holds it.
        """
        interrupts.begin(self, depth=0)  # the code of the block may be stopped
        try:
            self._take()
            arguments = (ref(self), self._given_back)
            threading.Thread(target=_renew, args=arguments, name="tract-lease", daemon=True).start()
        except BaseException:
            if self._is_taken:
                self._give_back()
            interrupts.end(self, depth=2)
            raise
        return self

    def _take(self) -> None:
        with self.transaction() as connection:
            lease = self._rows.find_one(connection, run_id=self.run_id)
            if lease is not None and _is_held(lease):
                raise RunError(
                    f"run {self.run_id} is being run by {_holder(lease)}; wait for its end, or resume the run after "
                    "the end of that process"
                )
            if self.branch is not None:
                self._look_at_branch(connection, self.branch)
            self._rows.replace(connection, self._fresh())
            # within the transaction: the next thread must see it
            _HERE[self.run_id] = self
            self._is_taken = True
            self._database.if_rolled_back(self._forget)
            if self.first is not None:
                self.first(connection)

    def _look_at_branch(self, connection: Connection, branch: str) -> None:
        for other in self._rows.find(connection, branch=branch):
            if other.run_id != self.run_id and _is_held(other):
                raise RunError(
                    f"{_holder(other)} answers on branch {branch!r} (run {other.run_id[:8]}), and two parallel turns "
                    "would not see each other's messages. Wait for its end, stop it, or use another branch."
                )
            if other.question is not None:
                self.open.append(other)

    def ask(self, connection: Connection, question: str | None) -> None:
        """Set the commit to answer. The open questions of this branch are handled by now."""
        for other in self.open:
            self._rows.remove_where(connection, run_id=other.run_id)
        self.question, self.open = question, []
        self._rows.replace(connection, self._fresh())

    def hold_for(self, run_id: str) -> None:
        """Hold the branch for another run of the same turn from now on."""
        with self._database.write() as connection:
            self._do_last(connection)
            _HERE[run_id] = self
            self._rows.remove_where(connection, run_id=self.run_id)
            before, self.run_id = self.run_id, run_id
            self._rows.replace(connection, self._fresh())
            _HERE.pop(before, None)

    @interrupts.protected
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lease. If that fails, it ends with this process, or when it expires."""
        try:
            if self.has_failed is None:
                self.has_failed = kind is not None
            self._given_back.set()
            try:
                with suppress(TractError):
                    self._give_back()
            finally:
                if self.last is not None:
                    with self._database.write() as connection:
                        self._do_last(connection)
        finally:
            self._forget()
            interrupts.end(self, depth=2)

    def _forget(self) -> None:
        _HERE.pop(self.run_id, None)

    def _give_back(self) -> None:
        try:
            with self._database.write() as connection:
                self._do_last(connection)
                lease = self._rows.find_one(connection, run_id=self.run_id)
                if lease is not None and lease.process == self._process:
                    if self.has_failed and self.question is not None:
                        self._rows.replace(connection, self._fresh()._replace(process=""))
                    else:
                        self._rows.remove_where(connection, run_id=self.run_id)
                # within the transaction: another thread may take it right after
                self._forget()
        except BaseException:
            self._forget()
            raise

    def _do_last(self, connection: Connection) -> None:
        last, self.last = self.last, None
        if last is not None:
            self._database.if_rolled_back(lambda: setattr(self, "last", last))
            last(connection)

    def renew(self) -> None:
        """Renew the lease. The call does nothing during the first third of its time.

        Raises:
            RunError: another process has taken over the run.
        """
        if time.monotonic() < self._renew_at:
            return
        with self._database.write() as connection:
            lease = self._rows.find_one(connection, run_id=self.run_id)
            if lease is None or lease.process != self._process:
                holder = "another process" if lease is None else _holder(lease)
                raise RunError(
                    f"{holder} has taken over run {self.run_id}, so this process cannot continue it"
                )
            self._rows.replace(connection, self._fresh())

    def _fresh(self) -> StoredLease:
        self._renew_at = time.monotonic() + _BETWEEN
        until = datetime.now(UTC) + timedelta(seconds=LASTS)
        return StoredLease(self.run_id, self._process, to_text(until), self.branch, self.question)


def _renew(of: ref[Lease], given_back: threading.Event) -> None:
    """Renew a lease regularly, until it is released or dead."""
    while not given_back.wait(_BETWEEN):
        lease = of()
        if lease is None:
            return
        # retry if the store is busy; the next call of `renew` reports a lost lease
        with suppress(TractError):
            lease.renew()
        del lease


def is_held(database: Database, rows: RunLeaseRows, run_id: str) -> bool:
    """Return True if a process works on a run, as far as this process knows."""
    with database.read() as connection:
        lease = rows.find_one(connection, run_id=run_id)
    return lease is not None and _is_held(lease)


def _is_held(lease: StoredLease) -> bool:
    if not lease.process:
        return False
    if lease.process == this_process():
        return lease.run_id in _HERE
    if has_ended(lease.process):
        return False
    return read_moment(lease.held_until) > datetime.now(UTC)


def _holder(lease: StoredLease) -> str:
    return "this process" if lease.process == this_process() else process_text(lease.process)


# --- turns


@dataclass(eq=False)
class OpenTurn:
    """A turn that waits for its reply.

    Attributes:
        lease: holds the branch.
        is_asked: True if the question is committed, and no run answers it yet.
        here: the branch, and its newest commit after the question.
        waits: True if the reply or an operation waits for the user's decision.
        goes_on: True if the turn was interrupted and can be resumed.
        has_run: True if one of its runs has started.
    """

    owner: object
    lease: Lease
    here: Position | None = None
    is_asked: bool = False
    waits: bool = False
    goes_on: bool = False
    has_run: bool = False


_turn: ContextVar[OpenTurn | None] = ContextVar("tract_turn", default=None)


def left_open() -> None:
    """Record that the reply of this thread's turn waits for a decision."""
    turn = _turn.get()
    if turn is not None:
        turn.waits = True


class Turns:
    """The turns of one tract.

    Args:
        tract_id: the id of the tract.
        database: has the tract.
        refs: gives the current branch.
        writer: commits a question together with the note that it is open.
        commits: stores the priority of questions.
        timelines: gives the history.
        waits: returns True if the reply to a message, or its run, waits for the user.
    """

    def __init__(
        self,
        tract_id: str,
        database: Database,
        refs: Refs,
        writer: Writer,
        commits: Commits,
        timelines: Timelines,
        waits: Callable[[str], bool],
    ) -> None:
        self._rows = RunLeaseRows(tract_id)
        self._database = database
        self._refs = refs
        self._writer = writer
        self._commits = commits
        self._timelines = timelines
        self._waits = waits

    @contextmanager
    def asking(
        self, here: Position, content: dict[str, Any], say: Callable[[], CommitInfo]
    ) -> Iterator[OpenTurn]:
        """Hold the current branch and commit the user's message, unless it is committed already and has no reply.

        If there is no reply, the message gets the priority `skip`. If its reply already waits for the user, nothing is
        committed and `waits` is set.

        Args:
            here: the current branch.
            content: the message.
            say: commits it.

        Raises:
            RunError: another process or thread answers on this branch.
        """

        def ask(turn: OpenTurn, connection: Connection) -> None:
            newest = self._newest_append(self._writer.position.commit_hash)
            last = None if newest is None else newest.commit_hash
            is_same = newest is not None and _holds(newest, content)
            again = self._again(turn.lease, last) if is_same else None
            self._set_others_aside(turn.lease, again)
            if again is not None and again.question is not None:
                self._take_back(again.question)
                turn.lease.ask(connection, again.question)
            elif is_same and self._waits(last or ""):
                turn.waits = True
            else:
                turn.lease.ask(connection, say().commit_hash)
            turn.here = self._writer.position

        with self._hold(uuid4().hex, here.branch, None, here.branch, first=ask, sets_aside=True) as turn:
            turn.is_asked = not turn.waits
            yield turn

    @property
    def is_asked(self) -> bool:
        """True within `asking`, until a run starts to answer. The position is checked already."""
        turn = _turn.get()
        return turn is not None and turn.owner is self and turn.is_asked

    @property
    def is_set_aside(self) -> bool:
        """True if the last message on the current branch has the priority `skip`, because it got no reply."""
        newest = self._newest_append(self._refs.position.commit_hash)
        if newest is None:
            return False
        return self._is_note(self._changes(newest.commit_hash), QuestionNote.SET_ASIDE)

    def is_held(self) -> bool:
        """Return True if a process, or a thread of this one, answers on the current branch."""
        with self._database.read() as connection:
            leases = self._rows.find(connection, branch=self._refs.position.branch or "")
        return any(map(_is_held, leases))

    @contextmanager
    def answering(self, *, is_new: bool = True) -> Iterator[OpenTurn]:
        """Hold the current branch to answer the user's last message. Within `asking`, answer its message, once.

        Args:
            is_new: True if the turn has no reply yet.

        Raises:
            RunError: another process or thread answers on this branch.
        """
        outer = _turn.get()
        if outer is not None and outer.owner is self and outer.is_asked:
            outer.is_asked = False
            yield outer
            return
        here = self._refs.position
        question = self._question(here.commit_hash) if is_new else None
        with self._hold(uuid4().hex, here.branch, question, here.branch) as turn:
            turn.here = self._refs.position
            if turn.lease.open and is_new:
                again = self._again(turn.lease, self.newest_user_message(turn.here.commit_hash))
                self._set_others_aside(turn.lease, again)
                if again is not None and again.question is not None:
                    self._take_back(again.question)
                with self._database.write() as connection:
                    turn.lease.ask(connection, question if again is None else again.question)
                turn.here = self._refs.position
            yield turn

    @contextmanager
    def resuming(self, run_id: str, branch: str | None, question: str | None) -> Iterator[OpenTurn]:
        """Hold the branch of a resumed run.

        Raises:
            RunError: another process works on the run, or answers on its branch.
        """
        with self._hold(run_id, branch, question) as turn:
            yield turn

    def is_open(self, question: str, at: str | None = None) -> bool:
        """Return True if a user message is sent and has no reply, on the current branch or at a commit."""
        later = None
        for commit, role in self._timelines.newest(at or self._refs.position.commit_hash):
            if commit == question:
                return later != "assistant"
            later = role if role in {"user", "assistant"} else later
        return False

    def is_due(self, commit: str, at: str | None) -> bool:
        """Return True if a message is the last one of a history, so it still needs a reply."""
        for one, role in self._timelines.newest(at):
            if one == commit or role in {"user", "assistant"}:
                return one == commit
        return False

    def still_has_message(self, head: str, now: str | None) -> bool:
        """Return True if the history of the commit `now` has the last message of the context at `head`.

        After a rebase or a compression, the same message has another commit.
        """
        if now == head:
            return True
        with self._timelines.lock:
            messages = self._sent(head)
            return not messages or self._sent(now).count(messages[-1]) >= messages.count(messages[-1])

    # ---

    def _sent(self, head: str | None) -> list[bytes]:
        timeline = self._timelines.at(head)
        return [
            step.payload
            for step in timeline.steps
            if step.operation == APPEND and timeline.priority(step) is not Priority.SKIP
        ]

    @contextmanager
    def _hold(
        self,
        run_id: str,
        branch: str | None,
        question: str | None,
        on: str | None = None,
        *,
        first: Callable[[OpenTurn, Connection], None] | None = None,
        sets_aside: bool = False,
    ) -> Iterator[OpenTurn]:
        """Hold a branch, and stay on `on` or on HEAD's current place, even if another thread moves HEAD.

        Args:
            run_id: the run that answers.
            branch: the branch; None for a run without one.
            question: the commit to answer, if it is committed already.
            on: see above.
            first: commits the question in the transaction that takes the lease.
            sets_aside: True to give a question without a reply the priority `skip`.
        """
        refs = self._refs
        lease = Lease(self._database, self._rows, run_id, branch, question)
        turn = OpenTurn(self, lease)
        if first is not None:
            lease.transaction, lease.first = self._writer.batch, partial(first, turn)
        with refs.with_head(refs.own_head(on)), lease:
            token = _turn.set(turn)
            try:
                yield turn
            except BaseException:
                with suppress(TractError):  # the original error is more important
                    lease.has_failed = self._has_failed(turn)
                    if lease.has_failed and sets_aside and not turn.goes_on:
                        self._set_aside(lease.question)
                raise
            finally:
                _turn.reset(token)

    def _has_failed(self, turn: OpenTurn) -> bool:
        question = turn.lease.question
        if question is None or turn.waits or self._waits(question):
            return False
        # on another branch, the next turn there checks it again
        return self._refs.position.branch != turn.lease.branch or self.is_open(question)

    def _question(self, head: str | None) -> str | None:
        """Return the commit of the user's last message, if it has no reply."""
        for commit, role in self._timelines.newest(head):
            if role in {"user", "assistant"}:
                return commit if role == "user" else None
        return None

    def newest_user_message(self, at: str | None = None) -> str | None:
        """Return the newest message of the current branch, or of a commit's history, including skipped ones.

        Raises:
            TractError: there is no such commit.
        """
        newest = self._newest_append(at or self._refs.position.commit_hash)
        return None if newest is None else newest.commit_hash

    def _newest_append(self, head: str | None) -> Step | None:
        with self._timelines.lock:
            steps = self._timelines.at(head).steps
            return next((step for step in reversed(steps) if step.operation == APPEND), None)

    @staticmethod
    def _again(lease: Lease, last: str | None) -> StoredLease | None:
        """Return the note of the open question if it is the newest message. Then it gets a new request."""
        return next((one for one in reversed(lease.open) if one.question == last), None)

    def _set_others_aside(self, lease: Lease, again: StoredLease | None) -> None:
        for one in lease.open:
            if one.question is not None and (again is None or one.question != again.question):
                self._set_aside(one.question, QuestionNote.OTHER_ASKED)

    def _set_aside(self, question: str | None, why: QuestionNote = QuestionNote.SET_ASIDE) -> None:
        if question is not None and self.is_open(question):
            self._note(question, Priority.SKIP, why)

    def _note(self, question: str, priority: Priority, why: QuestionNote) -> None:
        self._commits.annotate(question, priority, why.reason, metadata=why.metadata)

    def _take_back(self, question: str) -> None:
        """Restore the earlier priority of a skipped question, so it is sent again."""
        changes = self._changes(question)
        if self._is_note(changes, QuestionNote.SET_ASIDE, QuestionNote.OTHER_ASKED):
            earlier = [one.priority for one in changes if one.priority != Priority.SKIP]
            usual = self._commits.entry(question).starting_priority()
            priority = Priority(earlier[-1] or usual) if earlier else usual
            self._note(question, priority, QuestionNote.ASKED_AGAIN)

    def _changes(self, commit: str) -> list[Step]:
        with self._timelines.lock:
            steps = self._timelines.at(self._refs.position.commit_hash).steps
            return [one for one in steps if one.operation == ANNOTATE and one.edit_target == commit]

    def _is_note(self, changes: list[Step], *notes: QuestionNote) -> bool:
        """Return True if the last of these changes is one of these notes."""
        last = self._commits.entry(changes[-1].commit_hash) if changes else None
        return last is not None and any(note.is_of(last) for note in notes)


def _holds(step: Step, content: dict[str, Any]) -> bool:
    message = json.loads(step.payload)
    return all(message.get(name) == value for name, value in content.items())
