"""Leases: which process works on a run. Two would commit it twice."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from tract_jupyter.exceptions import RunError, TractError
from tract_jupyter.review import has_ended, process_text, this_process
from tract_jupyter.storage import StoredLease, interrupts, read_moment, to_text

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection

    from tract_jupyter.storage import Database, RunLeaseRows

LASTS: Final = 120.0
"""Seconds that a lease counts unless it is renewed. That a process of this host has ended is seen at once."""

_BETWEEN: Final = LASTS / 3

_HERE: Final[set[str]] = set()
"""The runs that this process works on."""


class Lease:
    """The right to go on with a run, within `with`. A thread renews it: a call of a model may take longer.

    Args:
        database: where the run is.
        rows: of the tract.
        run_id: the run.
        branch: that it answers on: nobody else does meanwhile.
        question: the commit that it answers. If no reply comes, the store says that it is open.

    Attributes:
        open: the leases of this branch with questions that no reply came to, the oldest first.
        has_failed: whether the question stays open when the lease is given back. None: if an error ends the block, as
            a second interrupt may cut the look at it.
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
        self._database = database
        self._rows = rows
        self._renew_at = 0.0
        self._is_taken = False
        self._given_back = threading.Event()

    @interrupts.whole
    def __enter__(self) -> Self:
        """Take it.

        Raises:
            RunError: somebody else has it.
        """
        self._frame = interrupts.frame_at(0)  # not that of the run, which may be stopped
        interrupts.begin(self._frame)
        try:
            self._take()
            threading.Thread(target=self._renew_now_and_then, name="tract-lease", daemon=True).start()
        except BaseException:
            if self._is_taken:
                self._give_back()
            interrupts.end(self._frame)
            raise
        return self

    def _take(self) -> None:
        with self._database.write() as connection:
            held = self._rows.of(connection, self.run_id)
            if held is not None and _is_held(held):
                raise RunError(
                    f"run {self.run_id} is being run by {_holder(held)}; wait for its end, or resume it once that "
                    "process has ended"
                )
            if self.branch is not None:
                self._look_at_branch(connection, self.branch)
            self._rows.put(connection, self._fresh())
            # within the transaction: another thread, which comes next, is to see it
            _HERE.add(self.run_id)
            self._is_taken = True
            self._database.if_rolled_back(lambda: _HERE.discard(self.run_id))

    def _look_at_branch(self, connection: Connection, branch: str) -> None:
        for other in self._rows.on_branch(connection, branch):
            if other.run_id != self.run_id and _is_held(other):
                raise RunError(
                    f"{_holder(other)} answers on branch {branch!r} (run {other.run_id[:8]}), and two at once would "
                    "not see what the other does; wait for its end, stop it, or use another branch"
                )
            if other.question is not None:
                self.open.append(other)

    def ask(self, question: str | None) -> None:
        """Say which commit is to be answered, and that the open ones of this branch are seen to."""
        with self._database.write() as connection:
            for other in self.open:
                self._rows.remove(connection, other.run_id)
            self.question, self.open = question, []
            self._rows.put(connection, self._fresh())

    def hold_for(self, run_id: str) -> None:
        """Hold the branch for another run of the same turn from now on."""
        with self._database.write() as connection:
            _HERE.add(run_id)
            self._rows.remove(connection, self.run_id)
            before, self.run_id = self.run_id, run_id
            self._rows.put(connection, self._fresh())
            _HERE.discard(before)

    @interrupts.whole
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back. Where that fails nobody else needs it back before this process ends, or its time is over."""
        try:
            if self.has_failed is None:
                self.has_failed = kind is not None
            self._given_back.set()
            with contextlib.suppress(TractError):
                self._give_back()
        finally:
            interrupts.end(self._frame)

    def _give_back(self) -> None:
        try:
            with self._database.write() as connection:
                held = self._rows.of(connection, self.run_id)
                if held is not None and held.process == this_process():
                    if self.has_failed and self.question is not None:
                        self._rows.put(connection, self._fresh()._replace(process=""))
                    else:
                        self._rows.remove(connection, self.run_id)
                # within the transaction: another thread may take it right after
                _HERE.discard(self.run_id)
        except BaseException:
            _HERE.discard(self.run_id)
            raise

    def renew(self) -> None:
        """Say that this process is still at it. Costs nothing until a third of the time is over.

        Raises:
            RunError: another process has taken the run over.
        """
        if time.monotonic() < self._renew_at:
            return
        with self._database.write() as connection:
            held = self._rows.of(connection, self.run_id)
            if held is None or held.process != this_process():
                by = "nobody" if held is None else _holder(held)
                raise RunError(f"run {self.run_id} was taken from this process; it is with {by} now")
            self._rows.put(connection, self._fresh())

    def _renew_now_and_then(self) -> None:
        while not self._given_back.wait(_BETWEEN):
            # a store that is busy is asked again; that the run was taken over is told where `renew` is called next
            with contextlib.suppress(TractError):
                self.renew()

    def _fresh(self) -> StoredLease:
        self._renew_at = time.monotonic() + _BETWEEN
        until = datetime.now(UTC) + timedelta(seconds=LASTS)
        return StoredLease(self.run_id, this_process(), to_text(until), self.branch, self.question)


def is_held(database: Database, rows: RunLeaseRows, run_id: str) -> bool:
    """Return True if a process works on a run, as far as is known here.

    Raises:
        StoreError: the store cannot be read.
    """
    with database.read() as connection:
        held = rows.of(connection, run_id)
    return held is not None and _is_held(held)


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
