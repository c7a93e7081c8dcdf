"""The journal of a step's calls: which were begun, and what came of those that have ended.

Only what the store would not tell otherwise is written: that a call which changes something is begun, and what came of
a call whose answer cannot be committed yet. The rows lie where the calls of scripts lie, are signed like them, and go
once the answers are committed. A row that this user did not sign tells nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.loop.answers import CallAnswer
from tract_jupyter.models import sha256
from tract_jupyter.review import this_process
from tract_jupyter.storage import StoredCalls, now_text

if TYPE_CHECKING:
    from tract_jupyter.review import Signer
    from tract_jupyter.storage import Database, ScriptCallRows

_KIND: Final = "turn_calls"
_TURN: Final = "turn"
"""Stands in the place of a script notebook's id."""


class KnownCall(NamedTuple):
    """What is known of a call: that it was begun; and its answer, once it has ended."""

    answer: CallAnswer | None = None


class CallJournal:
    """The journal of one tract."""

    def __init__(self, database: Database, rows: ScriptCallRows, signer: Signer) -> None:
        self._database = database
        self._rows = rows
        self._signer = signer

    def of(self, commit: str) -> dict[str, KnownCall]:
        """Return what is known of the calls of a message, by their ids.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.read() as connection:
            stored = self._rows.of(connection, commit, _TURN)
        known: dict[str, KnownCall] = {}
        for row in sorted(stored, key=lambda row: row.position):
            if self._signer.verify(_KIND, _signed(commit, row), row.signature):
                call_id, answer = json.loads(row.calls_json)
                known[call_id] = KnownCall(None if answer is None else CallAnswer(*answer))
        return known

    def begin(self, commit: str, place: int, call_id: str) -> None:
        """Note that a call is about to be made.

        Raises:
            StoreError: that cannot be stored, so the call must not be made.
        """
        self._write(commit, 2 * place + 1, call_id, None)

    def end(self, commit: str, place: int, call_id: str, answer: CallAnswer) -> None:
        """Note what came of a call.

        Raises:
            StoreError: that cannot be stored.
        """
        self._write(commit, 2 * place + 2, call_id, answer)

    def forget(self, commit: str) -> None:
        """Forget the calls of a message, whose answers are committed.

        Raises:
            StoreError: that cannot be stored.
        """
        with self._database.write() as connection:
            self._rows.remove(connection, [self._run_id(commit)])

    def _write(self, commit: str, position: int, call_id: str, answer: CallAnswer | None) -> None:
        row = StoredCalls(
            self._run_id(commit), position, json.dumps([call_id, answer]), "", this_process(), now_text()
        )
        row = row._replace(signature=self._signer.sign(_KIND, _signed(commit, row)))
        with self._database.write() as connection:
            self._rows.remove_one(connection, row.run_id, position)
            self._rows.add(connection, commit, _TURN, row)

    def _run_id(self, commit: str) -> str:
        return sha256(f"{self._rows.tract_id}:{commit}".encode())[:32]


def _signed(commit: str, row: StoredCalls) -> list[str | int]:
    return [commit, row.run_id, row.position, row.created_at, row.calls_json]
