"""Stored items with signatures: operations, handlers, profiles and standing approvals share one mechanism.

Items that this user has not signed are listed but never used, until the user reviews and signs them. The package never
compiles or runs code just because it is in the store. A new kind of signed item needs its rows (`storage.signed`) and a
short declaration:

    class PolicyStore(SignedStore[StoredPolicy]):
        kind = "policy"
        signed_as = "policy"

        def content(self, row: StoredPolicy) -> object:
            return [row.name, row.policy_json]

`ActiveStore` is for items that become active in this process, such as operations and handlers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from tract_jupyter.exceptions import SpecError, TractError
from tract_jupyter.models import canonical_json
from tract_jupyter.storage import StoredSettings, read_dict

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
    """The signed items of one kind in one tract.

    Attributes:
        kind: the first part of the event names: `operation.activated`.
        signed_as: the kind of its signatures.
        vouched: the verb for signing an item: `approved`, `saved`.
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
        """Return the signed part of a row. A ValueError means that the row is unreadable, and so unsigned."""

    @property
    def foreign(self) -> str:
        """The reason for ignoring an item with an invalid signature."""
        return (
            f"you have not {self.vouched} it here; it comes from another user, store or tract, it was changed, or your "
            "signing secret is a new one"
        )

    def sign(self, row: Row, signed_as: str = "") -> Row:
        """Return the row with this user's signature."""
        signature = self._signer.sign(signed_as or self.signed_as, self.content(row))
        return row._replace(signature=signature)

    def is_signed(self, row: Row, signed_as: str = "") -> bool:
        """Return True if this user signed exactly this row for this tract."""
        try:
            content = self.content(row)
        except (ValueError, RecursionError):
            return False
        stored: Any = row
        return self._signer.verify(signed_as or self.signed_as, content, stored.signature)

    def all(self) -> list[Row]:
        """Return all rows in order, signed or not."""
        with self.database.read() as connection:
            return self.rows.all(connection)

    def get(self, *key: str) -> Row | None:
        """Return the row with this key, signed or not. None if it does not exist."""
        with self.database.read() as connection:
            return self.rows.get(connection, *key)

    def put(
        self, connection: Connection, row: Row, what: str, about: Mapping[str, Any], actor: str = "user"
    ) -> None:
        """Store a row in place of the row with the same key, and log an event.

        `what` is the verb in the event's name, such as `activated`.
        """
        self.rows.replace(connection, row)
        self.note(connection, what, about, actor)

    def note(self, connection: Connection, what: str, about: Mapping[str, Any], actor: str = "user") -> None:
        """Append an event about an item."""
        self._events.append(connection, f"{self.kind}.{what}", actor, dict(about))


class ActiveStore(SignedStore[Row], Generic[Row, Item, Key]):
    """Signed items that are active in this process, and inactive items with a reason.

    A key is the text of its column, or a tuple for several columns.

    Attributes:
        noun: the word for an item in errors.
        quarantined: the reasons of stored items that are not active, by key.
    """

    noun: ClassVar[str]

    def __init__(self, database: Database, rows: SignedRows[Row], events: EventRows, signer: Signer) -> None:
        super().__init__(database, rows, events, signer)
        self.quarantined: dict[Key, str] = {}
        self._seen: dict[Key, Row] = {}

    # --- for subclasses

    @abstractmethod
    def read(self, row: Row) -> Item:
        """Parse a row. Do not compile or run any of its content.

        Raises:
            TractError: the row cannot be read.
        """

    @abstractmethod
    def key_of(self, item: Item) -> Key:
        """Return the key that the item declares."""

    @abstractmethod
    def active_item(self, key: Key) -> Item | None:
        """Return the active item with this key, or None."""

    @abstractmethod
    def require(self, key: Key) -> object:
        """Raise an error that lists the available items, if no item with this key is active."""

    @abstractmethod
    def attach(self, item: Item) -> None:
        """Activate an item. It replaces an item with the same key."""

    @abstractmethod
    def detach(self, key: Key) -> None:
        """Deactivate the item with this key, and remove any placeholder."""

    def withhold(self, key: Key) -> None:
        """Deactivate the item. A subclass may add a placeholder."""
        self.detach(key)

    def why_not(self, row: Row, rows: list[Row]) -> str:  # noqa: ARG002 # subclasses use the other rows
        """Return the reason for not using a row, given all rows. Empty if the row can be used."""
        if self.is_signed(row):
            return ""
        unsigned: Any = row
        return self.foreign if unsigned.signature else _UNSIGNED

    def may_be_reviewed(self, key: Key) -> bool:
        """Return True if the user may review the stored item with this key."""
        return key in self.quarantined

    def changing(self, connection: Connection, key: Key) -> AbstractContextManager[object]:  # noqa: ARG002
        """Wrap a change of rows that other rows may depend on."""
        return nullcontext()

    # --- shared by all kinds

    def take_on(self, key: Key, attach: Callable[[], object]) -> None:
        """Activate an item that was just stored. If the transaction is rolled back, restore the previous state."""
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
        """Revoke an approval. The item becomes inactive and stays in the store for another review."""
        self.require(self._key(key))
        with self.database.write() as connection:
            self.rows.unsign(connection, *key)
            self.note(connection, "revoked", self._about(key))
        self.quarantine(self._key(key), _REVOKED)

    def remove(self, *key: str) -> None:
        """Delete a stored item, active or not."""
        named = self._key(key)
        if not all(isinstance(part, str) for part in key) or named not in self.quarantined:
            self.require(named)
        with self.database.write() as connection, self.changing(connection, named):
            self.rows.delete(connection, *key)
            self.note(connection, "removed", self._about(key))
        self.drop(named)

    def look_again(self) -> None:
        """Apply changes by other processes: items that they stored, replaced, revoked or removed.

        The first call loads all items.
        """
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
        """Return a stored item for review. It is unsigned, or another user signed it."""
        row = self.get(*key)
        words = f"{self.noun} {_words(key)}"
        if row is None or not self.may_be_reviewed(self._key(key)):
            raise SpecError(f"no stored {words} waits for review; '%tract ops' lists them")
        try:
            return self.read(row)
        except SpecError as error:
            raise SpecError(f"the stored {words} cannot be read: {error}") from None

    def quarantine(self, key: Key, why: str) -> None:
        """Deactivate an item with a reason."""
        self.withhold(key)
        self.quarantined[key] = why

    def drop(self, key: Key) -> None:
        """Forget an item in this process."""
        if key in self.quarantined or self.active_item(key) is not None:
            self.detach(key)
        self.quarantined.pop(key, None)

    # ---

    def _load(self, key: Key, row: Row, rows: list[Row]) -> str:
        """Activate a row if it can be used. Otherwise return the reason."""
        try:
            why = self.why_not(row, rows)
            if why:
                return why
            item = self.read(row)
        except TractError as error:
            return str(error)
        declared = self.key_of(item)
        if declared != key:
            return f"it is stored as {_words(key)} but calls itself {_words(declared)}"
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
    """Return a key in words: `'check'`, or `'no' of 'check'`."""
    parts = (key,) if isinstance(key, str) else key
    assert isinstance(parts, tuple)  # noqa: S101 # the other form of a key
    return " of ".join(map(repr, reversed(parts))) if len(parts) > 1 else repr(*parts)


class Setting(NamedTuple):
    """Stored settings: the values, and whether this user signed them."""

    values: dict[str, Any]
    is_own: bool


class Settings(SignedStore[StoredSettings]):
    """The settings of one tract: JSON objects, by name, such as its autonomy.

    The reader learns if this user signed them, and decides about unsigned settings.
    """

    kind = "settings"
    signed_as = "settings"
    vouched = "saved"

    def content(self, row: StoredSettings) -> list[str]:
        """Return the signed part: the name and the text."""
        return [row.name, row.settings_json]

    def find(self, name: str) -> Setting | None:
        """Return the settings with this name, or None."""
        row = self.get(name)
        if row is None:
            return None
        return Setting(read_dict(row.settings_json), self.is_signed(row))

    def save(
        self, name: str, values: Mapping[str, Any], about: Mapping[str, Any], actor: str = "user"
    ) -> None:
        """Sign and store settings. They replace settings with the same name."""
        row = self.sign(StoredSettings(name, canonical_json(dict(values)), ""))
        with self.database.write() as connection:
            self.put(connection, row, "saved", {"name": name, **about}, actor)
