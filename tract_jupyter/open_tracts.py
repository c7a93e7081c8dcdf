"""The tracts and agents of one store that a session has open."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import SessionError, StoreClosedError, UnknownTractError, nearest
from tract_jupyter.models.spawn import AGENT_MARK
from tract_jupyter.storage.database import Lent
from tract_jupyter.storage.refs import AGENT_HEAD, HEAD, RefRows
from tract_jupyter.storage.tracts import TractRows

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.review.trust import Trust
    from tract_jupyter.storage.database import Database
    from tract_jupyter.tract import Tract


class Opened(NamedTuple):
    """A tract and the database that was lent to it."""

    tract: Tract
    lent: Lent


class OpenTracts:
    """Opens each tract, and each agent on a branch, once. Threads may share it.

    Args:
        kind: the class `Tract`, which is composed of this package and so cannot be imported by it.
        database: of the session, lent to each of them.
        tokenizer: counts the tokens of all of them.
        trust: signs and verifies approvals; the user's own by default.
    """

    def __init__(
        self, kind: type[Tract], database: Database, tokenizer: TokenCounter, trust: Trust | None
    ) -> None:
        self._kind = kind
        self._database = database
        self._tokenizer = tokenizer
        self._trust = trust
        self._rows = TractRows()
        self._open: dict[str, Opened] = {}
        self._lock = threading.RLock()  # an interrupted transaction is rolled back wherever it is collected
        self._is_closed = False

    def close(self) -> None:
        """Close the database with all of them. A second call does nothing."""
        self._is_closed = True
        with self._lock:
            known = list(self._open.values())
        for opened in known:
            opened.tract.close()  # what it uses outside of the store
        self._database.close()

    def check_open(self) -> None:
        """Check that the session was not closed.

        Raises:
            StoreClosedError: it was.
        """
        if self._is_closed:
            raise StoreClosedError(
                f"the session on {self._database.location} was closed; open it again with Session.open"
            )

    def open(self, tract_id: str, branch: str | None = None) -> Opened:
        """Open a tract, or the agent on a branch of it, anew; `keep` remembers it."""
        lent = Lent(self._database)
        head_name = HEAD if branch is None else AGENT_HEAD + branch
        tract = self._kind(
            lent, tract_id=tract_id, tokenizer=self._tokenizer, trust=self._trust, head_name=head_name
        )
        return Opened(tract, lent)

    def made(self, opened: Opened) -> None:
        """Say, at the end of the transaction that makes a tract or agent, that it is new; `keep` it afterwards.

        If the transaction, or the batch that it is part of, is rolled back, there is no such tract, and what is open by
        its name is closed. That has to be said within the transaction: the next one may be another thread's.
        """
        name = opened.tract.family.agent_id
        self.forget(name)  # an earlier agent, whose branch was deleted
        self._database.if_rolled_back(lambda: self._was_never_made(name))

    def keep(self, opened: Opened) -> Tract:
        """Remember an open tract; if another thread opened it meanwhile, theirs."""
        name = opened.tract.family.agent_id
        with self._lock:
            known = self._open.get(name)
            if known is None or known.lent.is_closed:
                known = self._open[name] = opened
        return known.tract

    def get(self, name: object) -> Tract:
        """The tract or agent of an id.

        Raises:
            UnknownTractError: there is none.
            StoreClosedError: the session was closed.
        """
        self.check_open()
        with self._lock:
            known = self._open.get(name) if isinstance(name, str) else None
        if known is not None and not known.lent.is_closed:
            return known.tract
        with self._database.read() as connection:
            tract_id, branch = self.find(connection, name)
        return self.keep(self.open(tract_id, branch))

    def release(self, name: object) -> None:
        """Close a tract or agent; one that is not open stays so.

        Raises:
            UnknownTractError: there is none.
            StoreClosedError: the session was closed.
        """
        self.check_open()
        known = self.forget(name)
        if known is not None:
            known.tract.close()
            return
        with self._database.read() as connection:
            self.find(connection, name)

    def forget(self, name: object) -> Opened | None:
        """Let go of a tract or agent, which itself stays as it is; None if there is none open."""
        with self._lock:
            return self._open.pop(name, None) if isinstance(name, str) else None

    def find(self, connection: Connection, name: object) -> tuple[str, str | None]:
        """The tract, and the branch of an agent, that an id stands for.

        Raises:
            UnknownTractError: there is none.
        """
        tract_id, _, branch = name.partition(AGENT_MARK) if isinstance(name, str) else ("", "", "")
        rows = RefRows(tract_id, AGENT_HEAD + branch if branch else HEAD)
        if not rows.was_made(connection):
            known = self._rows.ids(connection)
            some = (
                f"there are {', '.join(known[-10:])}"
                if known
                else "the store has none; create_tract makes one"
            )
            raise UnknownTractError(f"no tract or agent {name!r}.{nearest(str(name), known)} {some}")
        return tract_id, branch or None

    def check(self, tract: object) -> None:
        """Check that a tract is one of these, and open.

        Raises:
            SessionError: it is none of these.
            StoreClosedError: it, or the session, was closed.
        """
        self.check_open()
        if not isinstance(tract, self._kind):
            raise SessionError(
                f"this needs a tract of the session, not {type(tract).__name__}; get_tract gives one"
            )
        with self._lock:
            known = self._open.get(tract.family.agent_id)
        if known is None or known.tract is not tract:
            raise SessionError(
                f"{tract!r} is not open in this session; use what get_tract, create_tract or spawn returned"
            )
        if known.lent.is_closed:
            raise StoreClosedError(f"{tract!r} was closed; get_tract opens it again")

    def _was_never_made(self, name: str) -> None:
        """Close and forget what is open by the name of a tract that was rolled back."""
        known = self.forget(name)
        if known is not None:
            known.tract.close()
