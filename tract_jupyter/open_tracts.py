"""The open tracts of a session: each tract, and each agent on a branch, is opened once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import (
    SessionError,
    StoreClosedError,
    TractExistsError,
    UnknownTractError,
    nearest,
)
from tract_jupyter.models import (
    AGENT_MARK,
)
from tract_jupyter.storage import (
    AGENT_HEAD,
    HEAD,
    Database,
    RefRows,
    SharedDatabase,
    SpawnRows,
    TractRows,
)
from tract_jupyter.tract import Tract

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.context import Family
    from tract_jupyter.llm import Account, CassetteDeck
    from tract_jupyter.models import (
        TokenCounter,
    )
    from tract_jupyter.review import Settings, Trust
    from tract_jupyter.session import Session
    from tract_jupyter.toolkit import Delegation


class Opened(NamedTuple):
    """A tract and the database that it uses."""

    tract: Tract
    database: Database


class OpenTracts:
    """Opens each tract, and each agent on a branch, once. Threads may share it.

    Args:
        session: whose they are.
        database: of the session, shared by all of them.
        tokenizer: counts the tokens of all of them.
        trust: signs and verifies approvals; the user's own by default.
        around: the tract that the session was made around; None for none.
    """

    def __init__(
        self,
        session: Session,
        database: Database,
        tokenizer: TokenCounter,
        trust: Trust | None,
        around: Tract | None,
    ) -> None:
        self._session = session
        self._database = database
        self._tokenizer = tokenizer
        self._trust = trust
        self._rows = TractRows()
        self._open: dict[str, Opened] = {}
        self._released: set[str] = set()
        self._around = around
        if around is not None:
            self._open[around.family.agent_id] = Opened(around, database)
        self._account: Account | None = None
        self._deck: CassetteDeck | None = None
        self._lock = threading.RLock()  # an interrupted transaction is rolled back wherever it is collected
        self._is_closed = False

    def close(self) -> None:
        """Close the database with all of them. A second call does nothing."""
        if self._around is None:
            self.close_others()
            self._database.close()
        else:
            self._around.close()  # which closes the others, and the database

    def close_others(self) -> None:
        """Close all but the tract that the session was made around, with what they use outside of the store."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._lock:
            known = [opened.tract for opened in self._open.values() if opened.tract is not self._around]
        for tract in known:
            tract.close()

    def account(self) -> Account:
        """Return what all of them share: what requests to models have cost, and may cost."""
        from tract_jupyter.llm import Account

        if self._around is not None:
            return self._around.models.spending.account
        with self._lock:
            self._account = self._account or Account()
            return self._account

    def deck(self) -> CassetteDeck:
        """Return the cassette that all of them use."""
        from tract_jupyter.llm import CassetteDeck

        if self._around is not None:
            return self._around.cassette.deck
        with self._lock:
            self._deck = self._deck or CassetteDeck()
            return self._deck

    def check_open(self) -> None:
        """Check that the session was not closed.

        Raises:
            StoreClosedError: it was.
        """
        if self._is_closed or self._database.is_closed:
            raise StoreClosedError(
                f"the session on {self._database.location} was closed; open it again with Session.open"
            )

    def open(self, tract_id: str, branch: str | None = None) -> Opened:
        """Open a tract, or the agent on a branch of it, anew; `keep` remembers it."""
        database = SharedDatabase(self._database)
        head_name = HEAD if branch is None else AGENT_HEAD + branch
        tract = Tract(
            database, tract_id=tract_id, tokenizer=self._tokenizer, trust=self._trust, head_name=head_name,
            account=self.account, deck=self.deck, session=lambda: self._session,
            delegation=lambda settings: self._delegation(tract.family, settings),
        )  # fmt: skip
        return Opened(tract, database)

    def join(self, tract: Tract) -> None:
        """Have an open tract be one of these; see `Session.joined_by`."""
        name = tract.family.agent_id
        with self._lock:
            known = self._open.get(name)
            if known is None or known.database.is_closed:
                self._open[name] = Opened(tract, tract._repository.database)  # noqa: SLF001 # tracts and sessions are made for each other
                self._released.discard(name)

    def _delegation(self, family: Family, settings: Settings) -> Delegation | None:
        """Return how a tract stands below another one; None if it is nobody's child.

        Of a child of whom nothing is remembered that this user has signed, nobody knows what was granted.
        """
        with self._database.read() as connection:
            own = SpawnRows(family.tract_id, family.branch).parent(connection)
            info = own or SpawnRows(family.tract_id).parent(connection)
        if info is None:
            return None
        from tract_jupyter.toolkit import Delegation, Remembered

        known = Remembered.find(settings, family.tract_id, family.branch, info.parent_tract_id)
        is_circle = family.branch is None and family.tract_id in family.ancestors()

        def above() -> Tract:
            if is_circle:
                raise SessionError(f"{family.agent_id} is its own ancestor, as somebody changed the store")
            return self._above(known.parent_id)

        return Delegation(above, known.granted, known.actor)

    def _above(self, name: str) -> Tract:
        """Return the tract above another one. One that was closed here stays closed, as do its locks.

        Raises:
            StoreClosedError: it, or the session, was closed.
            UnknownTractError: it is gone.
        """
        self.check_open()
        with self._lock:
            known = self._open.get(name)
            was_closed = name in self._released if known is None else known.database.is_closed
        if was_closed:
            raise StoreClosedError(
                f"the tract {name} above this one was closed; get_tract({name!r}) opens it again"
            )
        return self.get(name) if known is None else known.tract

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
            if known is None or known.database.is_closed:
                known = self._open[name] = opened
            self._released.discard(name)
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
        if known is not None and not known.database.is_closed:
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
            self._released.add(known.tract.family.agent_id)
            known.tract.close()
            return
        with self._database.read() as connection:
            self.find(connection, name)

    def forget(self, name: object) -> Opened | None:
        """Let go of a tract or agent, which itself stays as it is; None if there is none open."""
        with self._lock:
            return self._open.pop(name, None) if isinstance(name, str) else None

    def check_new(self, connection: Connection, child_id: str) -> None:
        """Check that no tract of the store has the id of a child that is about to be made.

        Raises:
            TractExistsError: one has, which only an id that was recorded can.
        """
        if RefRows(child_id).was_made(connection):
            raise TractExistsError(
                f"there is a tract {child_id!r} already, which this spawn made when it was recorded; replay the "
                "cassette in another store: Session.open().create_tract(replay=...)"
            )

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

    def check(self, given: object) -> Tract:
        """Return a tract, if it is one of these, and open.

        Raises:
            SessionError: it is none of these.
            StoreClosedError: it, or the session, was closed.
        """
        self.check_open()
        stands_for = getattr(type(given), "__tract__", None)  # of a notebook's stand-in
        tract = given if stands_for is None else stands_for(given)
        if not isinstance(tract, Tract):
            raise SessionError(
                f"this needs a tract of the session, not {type(tract).__name__}; get_tract gives one"
            )
        with self._lock:
            known = self._open.get(tract.family.agent_id)
        if known is None or known.tract is not tract:
            raise SessionError(
                f"{tract!r} is not open in this session; use what get_tract, create_tract or spawn returned"
            )
        if known.database.is_closed:
            raise StoreClosedError(f"{tract!r} was closed; get_tract opens it again")
        return tract

    def _was_never_made(self, name: str) -> None:
        """Close and forget what is open by the name of a tract that was rolled back."""
        known = self.forget(name)
        if known is not None:
            known.tract.close()
