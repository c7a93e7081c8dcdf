"""Call logs in the store: signed, so that nobody else can put words into a tool's mouth.

Each row holds some calls of one run, and its signature names the run and their place in it. Somebody who can write the
store can take the last rows away, after which those calls are made again, but can neither change nor mix them.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.review.process import is_running, this_process
from tract_jupyter.scripts.logged_call import LoggedCall
from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.lenient import read_moment
from tract_jupyter.storage.script_calls import StoredCalls

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.script_calls import ScriptCallRows

_KIND: Final = "script_calls"
_HERE: Final[set[str]] = set()
"""The runs of this process that have not ended."""


class Earlier(NamedTuple):
    """What is known of the runs before, none of which completed.

    `calls` are those of the newest one, without those at its end that did not succeed; `doubtful` counts rows that
    this user did not sign.
    """

    calls: Sequence[LoggedCall] = ()
    ran_at: datetime | None = None
    doubtful: int = 0


class StoredLog:
    """The rows of one run of a script, and those of the runs before, which they take the place of."""

    def __init__(
        self, database: Database, rows: ScriptCallRows, signer: Signer, script_hash: str, notebook_id: str
    ) -> None:
        self._database = database
        self._rows = rows
        self._signer = signer
        self._script = (script_hash, notebook_id)
        self._run_id = secrets.token_hex(16)
        self._outdated: Collection[str] = ()
        self._has_rows = False
        _HERE.add(self._run_id)

    @property
    def lock(self) -> threading.RLock:
        """What to hold instead of a lock of one's own."""
        return self._database.lock

    @property
    def in_transaction(self) -> bool:
        """Whether this thread has a transaction open."""
        return self._database.in_transaction

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """Have `call` called if that transaction is rolled back."""
        self._database.if_rolled_back(call)

    def earlier(self) -> Earlier:
        """What is known of the runs before.

        Raises:
            StoreError: the store cannot be read.
            TrustError: the secret cannot be read.
        """
        with self._database.read() as connection:
            stored = self._rows.of(connection, *self._script)
        ended = [row for row in stored if not _goes_on(row)]
        signed = [row for row in ended if self._verifies(row)]
        self._outdated = {row.run_id for row in ended}
        doubtful = len(ended) - len(signed)
        if not signed:
            return Earlier(doubtful=doubtful)
        newest = max(signed, key=lambda row: (row.created_at, row.run_id)).run_id
        rows = sorted((row for row in signed if row.run_id == newest), key=lambda row: row.position)
        return Earlier(_succeeded(list(_calls(rows))), read_moment(rows[0].created_at), doubtful)

    def write(self, position: int, calls: Sequence[LoggedCall]) -> None:
        """Add calls from a position on; from 0 on they take the place of all that is stored.

        Raises:
            StoreError: they cannot be stored.
            TrustError: they cannot be signed.
        """
        stored = StoredCalls(self._run_id, position, json.dumps(calls), "", this_process(), now_text())
        stored = stored._replace(signature=self._signer.sign(_KIND, self._signed(stored)))
        with self._database.write() as connection:
            if position == 0:
                self._rows.remove(connection, [self._run_id, *self._outdated])
            self._rows.add(connection, *self._script, stored)
        self._outdated, self._has_rows = (), True

    def remove(self) -> None:
        """Forget this run and those before.

        Raises:
            StoreError: that cannot be.
        """
        _HERE.discard(self._run_id)
        if self._has_rows or self._outdated:
            with self._database.write() as connection:
                self._rows.remove(connection, [self._run_id, *self._outdated])

    def release(self) -> None:
        """Let the next run take this one's log up.

        Raises:
            StoreError: that cannot be.
        """
        _HERE.discard(self._run_id)
        if self._has_rows:
            with self._database.write() as connection:
                self._rows.release(connection, self._run_id)

    def _verifies(self, row: StoredCalls) -> bool:
        return self._signer.verify(_KIND, self._signed(row), row.signature)

    def _signed(self, row: StoredCalls) -> list[Any]:
        return [*self._script, row.run_id, row.position, row.created_at, row.calls_json]


def _goes_on(row: StoredCalls) -> bool:
    """Whether the run has not ended yet; of a process of another host that is not known."""
    if row.running == this_process():
        return row.run_id in _HERE
    return isinstance(row.running, str) and is_running(row.running)


def _calls(rows: Sequence[StoredCalls]) -> Iterator[LoggedCall]:
    """The calls of a run, as far as none is missing."""
    count = 0
    for row in rows:
        if row.position != count:
            return
        for call in json.loads(row.calls_json):
            count += 1
            yield LoggedCall(*call)


def _succeeded(calls: list[LoggedCall]) -> list[LoggedCall]:
    """The calls without those at the end that did not succeed: these are to be tried again."""
    while calls and not calls[-1].success:
        calls.pop()
    return calls
