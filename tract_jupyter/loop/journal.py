"""The journal of a step's calls: the calls of the reply, the started ones, and the answers of the ended ones.

It stores only facts that the history does not have: a signature of the reply's calls, the start of a call that changes
something, its requests to the user, and the answer of a call that cannot be committed yet. The rows are in the table of
script calls, are signed like these, and are deleted with the last answer. Rows without a valid signature of this user
are ignored.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import TrustError
from tract_jupyter.loop.answers import CallAnswer, with_images
from tract_jupyter.models import digest, sha256
from tract_jupyter.prompts import INTERRUPTED
from tract_jupyter.review import this_process
from tract_jupyter.storage import StoredCalls, now_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.models import ToolCall
    from tract_jupyter.review import Signer
    from tract_jupyter.storage import Database, ScriptCallRows

_KIND: Final = "turn_calls"
_TURN: Final = "turn"
"""Used instead of the id of a script notebook."""
_REPLY: Final = -1
"""The position of the row with the calls of the message. Rows about single calls follow it in time order."""


class KnownCall(NamedTuple):
    """The entries about a call.

    Attributes:
        is_begun: True if it has started. The start of a call that asks by itself is the start of its request's action.
        answer: the answer of a call that has ended.
        before: the requests about the call before its start, by id.
        within: the requests of the running call, by id.
    """

    is_begun: bool = False
    answer: CallAnswer | None = None
    before: tuple[str, ...] = ()
    within: tuple[str, ...] = ()

    @property
    def requests(self) -> tuple[str, ...]:
        """All requests."""
        return (*self.before, *self.within)


class CallJournal:
    """The journal of one tract."""

    def __init__(self, database: Database, rows: ScriptCallRows, signer: Signer) -> None:
        self._database = database
        self._rows = rows
        self._signer = signer

    def of(self, commit: str) -> dict[str, KnownCall]:
        """Return the entries about the calls of a message, by call id."""
        known: dict[str, KnownCall] = {}
        for row in self._signed_rows(commit):
            if row.position > _REPLY:
                call_id, answer, *request = json.loads(row.calls_json)
                call = known.get(call_id, KnownCall())
                if not request:
                    answer = None if answer is None else CallAnswer(*answer)
                    known[call_id] = call._replace(is_begun=True, answer=answer)
                elif request[1]:
                    known[call_id] = call._replace(within=(*call.within, request[0]))
                else:
                    known[call_id] = call._replace(before=(*call.before, request[0]))
        return known

    def is_signed(self, commit: str, calls: Iterable[ToolCall]) -> bool:
        """Return True if the calls of a stored message are the signed ones, each at most once and in the same order.

        Args:
            commit: the message.
            calls: its calls without an answer.
        """
        rows = [row for row in self._signed_rows(commit) if row.position == _REPLY]
        signed = iter([one for row in rows for one in json.loads(row.calls_json)])
        return all(_digest(call) in signed for call in calls)  # each is looked for behind the one before

    def sign(self, commit: str, calls: Iterable[ToolCall]) -> None:
        """Sign the calls of a message, so a resumed turn can trust them. Call it within the message's transaction.

        If this process cannot sign, a resumed turn asks the user about the calls.
        """
        with suppress(TrustError):
            row = self._row(commit, _REPLY, [_digest(call) for call in calls])
            with self._database.write() as connection:
                self._rows.add(connection, commit, _TURN, row)

    def begin(self, commit: str, call_id: str) -> None:
        """Record that a call is about to start.

        Raises:
            StoreError: the record cannot be stored, so the call must not start.
        """
        self._note(commit, [call_id, None])

    def ask(self, commit: str, call_id: str, pending_id: str, *, within: bool) -> None:
        """Record a request to the user, about a call or within it.

        Raises:
            StoreError: the record cannot be stored, so nothing may run for the request.
        """
        self._note(commit, [call_id, None, pending_id, within])

    def end(self, commit: str, call_id: str, answer: CallAnswer) -> None:
        """Record the answer of a call."""
        self._note(commit, [call_id, with_images(answer, (), INTERRUPTED)])

    def forget(self, commit: str) -> None:
        """Delete the records about a message after its answers are committed."""
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
