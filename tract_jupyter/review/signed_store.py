"""Stored things that a signature vouches for: one mechanism for operations, handlers, profiles and standing approvals.

What this user has not signed is listed and never used, until a person takes it over. Nothing is compiled or run because
it lies in the store. Another kind of signed thing is its rows (`storage.signed`) and a short declaration:

    class PolicyStore(SignedStore[StoredPolicy]):
        kind = "policy"
        signed_as = "policy"

        def content(self, row: StoredPolicy) -> object:
            return [row.name, row.policy_json]

`ActiveStore` is for what becomes active in this process, as operations and handlers do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from tract_jupyter.exceptions import SpecError, TractError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage import Database, EventRows, SignedRows

Row = TypeVar("Row", bound=NamedTuple)
Item = TypeVar("Item")
Key = TypeVar("Key")

_REVOKED = "you took its approval back"
_UNSIGNED = "its approval was revoked, or it never had one"


class SignedStore(ABC, Generic[Row]):
    """The signed things of one kind of one tract.

    Attributes:
        kind: begins the names of its events: `operation.activated`.
        signed_as: the kind of its signatures.
        vouched: what a person did who signed one: `approved`, `saved`.
    """

    kind: ClassVar[str]
    signed_as: ClassVar[str]
    vouched: ClassVar[str] = "approved"

    def __init__(self, database: Database, rows: SignedRows[Row], events: EventRows, signer: Signer) -> None:
        self.database = database
        self.rows = rows
        self._events = events
        self._signer = signer

    @abstractmethod
    def content(self, row: Row) -> object:
        """Return the part of a row that is signed. A ValueError means: it cannot be read, so nobody signed it."""

    @property
    def foreign(self) -> str:
        """The reason why something is not used, where its signature does not fit."""
        return (
            f"nobody here has {self.vouched} it; it comes from another user, another store or another tract, or it was "
            "changed"
        )

    def sign(self, row: Row, signed_as: str = "") -> Row:
        """Return a row with this user's signature.

        Raises:
            TrustError: it cannot be signed.
        """
        signature = self._signer.sign(signed_as or self.signed_as, self.content(row))
        return row._replace(signature=signature)

    def is_signed(self, row: Row, signed_as: str = "") -> bool:
        """Return True if this user signed exactly this, for this tract.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        try:
            content = self.content(row)
        except (ValueError, RecursionError):
            return False
        given: Any = row
        return self._signer.verify(signed_as or self.signed_as, content, given.signature)

    def all(self) -> list[Row]:
        """Return every row in its order, signed or not."""
        with self.database.read() as connection:
            return self.rows.all(connection)

    def get(self, *key: str) -> Row | None:
        """Return the row of a key, signed or not; None if there is none."""
        with self.database.read() as connection:
            return self.rows.get(connection, *key)

    def put(
        self, connection: Connection, row: Row, what: str, about: Mapping[str, Any], actor: str = "user"
    ) -> None:
        """Store a row in the place of the one of its key, and note it.

        Args:
            connection: of the transaction that both belong to.
            row: as `sign` gave it.
            what: what was done, for the name of the event: `activated`.
            about: the data of the event.
            actor: who did it.
        """
        self.rows.replace(connection, row)
        self.note(connection, what, about, actor)

    def note(self, connection: Connection, what: str, about: Mapping[str, Any], actor: str = "user") -> None:
        """Append an event about one of these things."""
        self._events.append(connection, f"{self.kind}.{what}", actor, dict(about))


class ActiveStore(SignedStore[Row], Generic[Row, Item, Key]):
    """Signed things that are active in this process, and those that are not, with the reason.

    A key is the text of its column, or a tuple if there are several columns.

    Attributes:
        noun: what one is called in errors.
        quarantined: the stored things that are not active: their key and why.
    """

    noun: ClassVar[str]

    def __init__(self, database: Database, rows: SignedRows[Row], events: EventRows, signer: Signer) -> None:
        super().__init__(database, rows, events, signer)
        self.quarantined: dict[Key, str] = {}
        self._seen: dict[Key, Row] = {}

    # --- what a kind says

    @abstractmethod
    def read(self, row: Row) -> Item:
        """Read what a row holds; nothing of it is compiled or run.

        Raises:
            TractError: it cannot be read.
        """

    @abstractmethod
    def key_of(self, item: Item) -> Key:
        """Return the key that it says itself."""

    @abstractmethod
    def active_item(self, key: Key) -> Item | None:
        """Return the active one of a key."""

    @abstractmethod
    def require(self, key: Key) -> object:
        """Raise an error that says what there is, if none of that key is active."""

    @abstractmethod
    def attach(self, item: Item) -> None:
        """Make it active; what is there of its key makes way."""

    @abstractmethod
    def detach(self, key: Key) -> None:
        """Have nothing of that key be active, or stand in its place."""

    def withhold(self, key: Key) -> None:
        """Have it not be active; something may stand in its place."""
        self.detach(key)

    def why_not(self, row: Row, rows: list[Row]) -> str:  # noqa: ARG002 # others look at what is beside it
        """Explain why a row is not used, among all rows; empty if it may be."""
        if self.is_signed(row):
            return ""
        unsigned: Any = row
        return self.foreign if unsigned.signature else _UNSIGNED

    def may_be_reviewed(self, key: Key) -> bool:
        """Return True if a person may look at what is stored under that key."""
        return key in self.quarantined

    def changing(self, connection: Connection, key: Key) -> AbstractContextManager[object]:  # noqa: ARG002
        """Wrap a change of rows that others may depend on."""
        return nullcontext()

    # --- what all do

    def take_on(self, key: Key, attach: Callable[[], object]) -> None:
        """Make active what was just stored. If its batch is rolled back, all is as it was before."""
        item, why = self.active_item(key), self.quarantined.get(key)

        def go_back() -> None:
            if item is not None:
                self._attached(key, lambda: self.attach(item))
            elif why is not None:
                self.quarantine(key, why)
            else:
                self.drop(key)

        self.database.if_rolled_back(go_back)
        self._attached(key, attach)

    def revoke(self, *key: str) -> None:
        """Take an approval back: it is not active any more, and stays in the store for another review.

        Raises:
            TractError: none of that key is active.
        """
        self.require(self._key(key))
        with self.database.write() as connection:
            self.rows.unsign(connection, *key)
            self.note(connection, "revoked", self._about(key))
        self.quarantine(self._key(key), _REVOKED)

    def remove(self, *key: str) -> None:
        """Forget a stored thing, active or not.

        Raises:
            TractError: there is none of that key.
        """
        named = self._key(key)
        if not all(isinstance(part, str) for part in key) or named not in self.quarantined:
            self.require(named)
        with self.database.write() as connection, self.changing(connection, named):
            self.rows.delete(connection, *key)
            self.note(connection, "removed", self._about(key))
        self.drop(named)

    def look_again(self) -> None:
        """Follow what other processes have stored, replaced, revoked or removed since; first of all, what there is."""
        rows = self.all()
        stored = {self._key(self._parts(row)): row for row in rows}
        before, self._seen = self._seen, stored
        for key in {**before, **stored}:
            row = stored.get(key)
            if row is None:
                self.drop(key)
            elif row != before.get(key):
                why = self._load(key, row, rows)
                if why:
                    self.quarantine(key, why)

    def to_review(self, *key: str) -> Item:
        """Return what is stored, as a person is to review it: signed by somebody else, or by nobody.

        Raises:
            SpecError: nothing of that key waits for review, or it cannot be read.
        """
        row = self.get(*key)
        words = f"{self.noun} {_words(key)}"
        if row is None or not self.may_be_reviewed(self._key(key)):
            raise SpecError(f"no stored {words} waits for review; '%tract ops' lists them")
        try:
            return self.read(row)
        except SpecError as error:
            raise SpecError(f"the stored {words} cannot be read: {error}") from None

    def quarantine(self, key: Key, why: str) -> None:
        """Have it not be active, for that reason."""
        self.withhold(key)
        self.quarantined[key] = why

    def drop(self, key: Key) -> None:
        """Forget it in this process."""
        if key in self.quarantined or self.active_item(key) is not None:
            self.detach(key)
        self.quarantined.pop(key, None)

    # ---

    def _load(self, key: Key, row: Row, rows: list[Row]) -> str:
        """Make a row active that may be, and explain why one may not."""
        try:
            why = self.why_not(row, rows)
            if why:
                return why
            item = self.read(row)
        except TractError as error:
            return str(error)
        own = self.key_of(item)
        if own != key:
            return f"it is stored as {_words(key)} but calls itself {_words(own)}"
        self._attached(key, lambda: self.attach(item))
        return ""

    def _attached(self, key: Key, attach: Callable[[], object]) -> None:
        attach()
        self.quarantined.pop(key, None)

    def _parts(self, row: Row) -> tuple[str, ...]:
        return tuple(getattr(row, name) for name in self.rows.key)

    def _key(self, parts: tuple[str, ...]) -> Key:
        key: Any = parts if len(self.rows.key) > 1 else parts[0]
        return key  # type: ignore[no-any-return]

    def _about(self, parts: tuple[str, ...]) -> dict[str, str]:
        return dict(zip(self.rows.key, parts, strict=True))


def _words(key: object) -> str:
    """Name a key: `'check'`, or `'no' of 'check'`."""
    parts = (key,) if isinstance(key, str) else key
    assert isinstance(parts, tuple)  # noqa: S101 # the other form of a key
    return " of ".join(map(repr, reversed(parts))) if len(parts) > 1 else repr(*parts)
