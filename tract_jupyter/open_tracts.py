"""The open tracts of a session: each tract, and each agent on a branch, is open only once."""

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
from tract_jupyter.models import AGENT_MARK
from tract_jupyter.storage import AGENT_HEAD, HEAD, Database, RefRows, SharedDatabase, SpawnRows, TractRows
from tract_jupyter.tract import Tract

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.context import Family
    from tract_jupyter.llm import Account, CassetteDeck
    from tract_jupyter.models import TokenCounter
    from tract_jupyter.review import Settings, Trust
    from tract_jupyter.session import Session
    from tract_jupyter.toolkit import Delegation


class Opened(NamedTuple):
    """A tract and the database that it uses."""

    tract: Tract
    database: Database


class OpenTracts:
    """Registry that opens each tract, and each agent on a branch, once. Threads may share it."""

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
        # an interrupted transaction is rolled back on the thread that collects it
        self._lock = threading.RLock()
        self._is_closed = False

    def close(self) -> None:
        """Close the database and all tracts. A second call does nothing."""
        if self._around is None:
            self.close_others()
            self._database.close()
        else:
            self._around.close()  # closes the other tracts and the database

    def close_others(self) -> None:
        """Close all tracts except the one that created the session, with their resources outside of the store."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._lock:
            known = [opened.tract for opened in self._open.values() if opened.tract is not self._around]
        for tract in known:
            tract.close()

    def account(self) -> Account:
        """Return the shared account: costs and budget of requests to models."""
        from tract_jupyter.llm import Account

        if self._around is not None:
            return self._around.models.spending.account
        with self._lock:
            self._account = self._account or Account()
            return self._account

    def deck(self) -> CassetteDeck:
        """Return the shared cassette."""
        from tract_jupyter.llm import CassetteDeck

        if self._around is not None:
            return self._around.cassette.deck
        with self._lock:
            self._deck = self._deck or CassetteDeck()
            return self._deck

    def check_open(self) -> None:
        """Raise `StoreClosedError` if the session is closed."""
        if self._is_closed or self._database.is_closed:
            raise StoreClosedError(
                f"The session on {self._database.location} is closed. Open it again with Session.open."
            )

    def open(self, tract_id: str, branch: str | None = None) -> Opened:
        """Open a tract, or the agent on a branch of it, without registering it; see `keep`."""
        database = SharedDatabase(self._database)
        head_name = HEAD if branch is None else AGENT_HEAD + branch
        tract = Tract(
            database, tract_id=tract_id, tokenizer=self._tokenizer, trust=self._trust, head_name=head_name,
            account=self.account, deck=self.deck, session=lambda: self._session,
            delegation=lambda settings: self._delegation(tract.family, settings),
        )  # fmt: skip
        return Opened(tract, database)

    def join(self, tract: Tract) -> None:
        """Register an open tract; see `Session.joined_by`."""
        name = tract.family.agent_id
        with self._lock:
            known = self._open.get(name)
            if known is None or known.database.is_closed:
                self._open[name] = Opened(tract, tract._repository.database)  # noqa: SLF001 # Tract and Session cooperate
                self._released.discard(name)

    def _delegation(self, family: Family, settings: Settings) -> Delegation | None:
        """Return the delegation to a child tract; None if the tract has no parent.

        The grants of a child are unknown without a record that this user signed.
        """
        with self._database.read() as connection:
            info = SpawnRows(family.tract_id).parent(connection)
        if info is None:
            return None
        from tract_jupyter.toolkit import Delegation, Remembered

        remembered = Remembered.find(settings, family.tract_id, family.branch, info.parent_tract_id)
        is_circle = family.branch is None and family.tract_id in family.ancestors()

        def parent() -> Tract:
            if is_circle:
                raise SessionError(
                    f"Invalid store: {family.agent_id} is its own ancestor. Another program changed the store."
                )
            return self._open_parent(remembered.parent_id)

        return Delegation(parent, remembered.granted, remembered.actor)

    def _open_parent(self, name: str) -> Tract:
        """Return a parent tract. A parent that the user closed stays closed, with its locks."""
        self.check_open()
        with self._lock:
            known = self._open.get(name)
            was_closed = name in self._released if known is None else known.database.is_closed
        if was_closed:
            raise StoreClosedError(
                f"the parent tract {name} is closed; open it again with get_tract({name!r})"
            )
        return self.get(name) if known is None else known.tract

    def close_on_rollback(self, opened: Opened) -> None:
        """Close a new tract or agent if its transaction, or the batch around it, is rolled back.

        Call it at the end of the transaction that creates the tract, and `keep` afterwards. After the transaction is
        too late: the next one may belong to another thread.
        """
        name = opened.tract.family.agent_id
        self.forget(name)  # an earlier agent, whose branch was deleted
        self._database.if_rolled_back(lambda: self._close_by_name(name))

    def keep(self, opened: Opened) -> Tract:
        """Register and return an open tract, or return the one that another thread registered first."""
        name = opened.tract.family.agent_id
        with self._lock:
            known = self._open.get(name)
            if known is None or known.database.is_closed:
                known = self._open[name] = opened
            self._released.discard(name)
        return known.tract

    def get(self, name: object) -> Tract:
        """Return the tract or agent with an id."""
        self.check_open()
        with self._lock:
            known = self._open.get(name) if isinstance(name, str) else None
        if known is not None and not known.database.is_closed:
            return known.tract
        with self._database.read() as connection:
            tract_id, branch = self.find(connection, name)
        return self.keep(self.open(tract_id, branch))

    def release(self, name: object) -> None:
        """Close a tract or agent, if it is open."""
        self.check_open()
        known = self.forget(name)
        if known is not None:
            self._released.add(known.tract.family.agent_id)
            known.tract.close()
            return
        with self._database.read() as connection:
            self.find(connection, name)

    def forget(self, name: object) -> Opened | None:
        """Unregister a tract or agent without closing it, and return it; None if it is not open."""
        with self._lock:
            return self._open.pop(name, None) if isinstance(name, str) else None

    def check_new(self, connection: Connection, child_id: str) -> None:
        """Raise `TractExistsError` if a tract has the id of a new child, which only a recorded id can have."""
        if RefRows(child_id).has_head(connection):
            raise TractExistsError(
                f"The store already has the tract {child_id!r} from the recording of this spawn. Replay the "
                "cassette in another store: Session.open().create_tract(replay=...)."
            )

    def find(self, connection: Connection, name: object) -> tuple[str, str | None]:
        """Return the tract id, and the branch of an agent, for an id; raise `UnknownTractError` if there is none."""
        tract_id, _, branch = name.partition(AGENT_MARK) if isinstance(name, str) else ("", "", "")
        rows = RefRows(tract_id, AGENT_HEAD + branch if branch else HEAD)
        if not rows.has_head(connection):
            known = self._rows.ids(connection)
            remedy = (
                f"Tracts of the store: {', '.join(known[-10:])}."
                if known
                else "The store is empty. Create one with create_tract."
            )
            raise UnknownTractError(f"No tract or agent {name!r}.{nearest(str(name), known)} {remedy}")
        return tract_id, branch or None

    def check(self, value: object) -> Tract:
        """Return a tract, or the tract of a notebook's wrapper, if it is open in this session."""
        self.check_open()
        unwrap = getattr(type(value), "__tract__", None)  # a notebook's wrapper
        tract = value if unwrap is None else unwrap(value)
        if not isinstance(tract, Tract):
            raise SessionError(
                f"Expected a tract of the session, not {type(tract).__name__}. Get one with get_tract."
            )
        with self._lock:
            known = self._open.get(tract.family.agent_id)
        if known is None or known.tract is not tract:
            raise SessionError(
                f"{tract!r} is not open in this session. Use the result of get_tract, create_tract or spawn."
            )
        if known.database.is_closed:
            raise StoreClosedError(f"{tract!r} is closed. Open it again with get_tract.")
        return tract

    def _close_by_name(self, name: str) -> None:
        known = self.forget(name)
        if known is not None:
            known.tract.close()
