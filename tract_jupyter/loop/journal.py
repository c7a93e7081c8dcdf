"""The journal of a step's calls: what the reply calls, which were begun, and what came of those that have ended.

Only what the store would not tell otherwise is written: that nobody has changed the calls of a reply, that a call which
changes something is begun, and what came of a call whose answer cannot be committed yet. The rows lie where the calls
of scripts lie, are signed like them, and go with the last answer. A row that this user did not sign tells nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import TrustError
from tract_jupyter.loop.answers import CallAnswer
from tract_jupyter.models import digest, sha256
from tract_jupyter.review import this_process
from tract_jupyter.storage import StoredCalls, now_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.models import ToolCall
    from tract_jupyter.review import Signer
    from tract_jupyter.storage import Database, ScriptCallRows

_KIND: Final = "turn_calls"
_TURN: Final = "turn"
"""Stands in the place of a script notebook's id."""
_REPLY: Final = -1
"""The position of the row with the calls of the message itself; what is known of each comes after it, as it came."""


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
        known: dict[str, KnownCall] = {}
        for row in self._signed_rows(commit):
            if row.position > _REPLY:
                call_id, answer = json.loads(row.calls_json)
                known[call_id] = KnownCall(None if answer is None else CallAnswer(*answer))
        return known

    def is_signed(self, commit: str, calls: Iterable[ToolCall]) -> bool:
        """Return True if these calls of a stored message are what was signed: each once, in that order.

        Args:
            commit: the message.
            calls: those that have no answer yet.

        Raises:
            StoreError: the store cannot be read.
        """
        rows = [row for row in self._signed_rows(commit) if row.position == _REPLY]
        signed = iter([one for row in rows for one in json.loads(row.calls_json)])
        return all(_digest(call) in signed for call in calls)  # each is looked for behind the one before

    def sign(self, commit: str, calls: Iterable[ToolCall]) -> None:
        """Sign the calls of a message, in the transaction that commits it, so that a resumed turn knows them.

        Where nothing can be signed, a resumed turn asks about them.

        Raises:
            StoreError: that cannot be stored.
        """
        with suppress(TrustError):
            row = self._row(commit, _REPLY, [_digest(call) for call in calls])
            with self._database.write() as connection:
                self._rows.add(connection, commit, _TURN, row)

    def begin(self, commit: str, call_id: str) -> None:
        """Note that a call is about to be made.

        Raises:
            StoreError: that cannot be stored, so the call must not be made.
        """
        self._note(commit, [call_id, None])

    def end(self, commit: str, call_id: str, answer: CallAnswer) -> None:
        """Note what came of a call.

        Raises:
            StoreError: that cannot be stored.
        """
        self._note(commit, [call_id, answer._replace(images=())])  # the text describes them

    def forget(self, commit: str) -> None:
        """Forget the calls of a message, whose answers are committed.

        Raises:
            StoreError: that cannot be stored.
        """
        with self._database.write() as connection:
            self._rows.remove_where(connection, run_id=self._run_id(commit))

    def _signed_rows(self, commit: str) -> list[StoredCalls]:
        with self._database.read() as connection:
            stored = self._rows.of(connection, commit, _TURN)
        return [
            row
            for row in sorted(stored, key=lambda row: row.position)
            if self._signer.verify(_KIND, _signed(commit, row), row.signature)
        ]

    def _note(self, commit: str, known: list[Any]) -> None:
        with self._database.write() as connection:
            position = 1 + max(0, self._rows.last_position(connection, self._run_id(commit)))
            self._rows.add(connection, commit, _TURN, self._row(commit, position, known))

    def _row(self, commit: str, position: int, known: list[Any]) -> StoredCalls:
        row = StoredCalls(self._run_id(commit), position, json.dumps(known), "", this_process(), now_text())
        return row._replace(signature=self._signer.sign(_KIND, _signed(commit, row)))

    def _run_id(self, commit: str) -> str:
        return sha256(f"{self._rows.tract_id}:{commit}".encode())[:32]


def _digest(call: ToolCall) -> str:
    return digest([call.id, call.name, call.arguments])


def _signed(commit: str, row: StoredCalls) -> list[str | int]:
    return [commit, row.run_id, row.position, row.created_at, row.calls_json]
