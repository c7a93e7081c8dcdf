"""Profiles in the store of a tract. Those that this user has saved are used, others once they are adopted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    ProfileError,
    RunError,
    StoreCorruptError,
    UnknownRunError,
    nearest,
)
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.checks import check_text
from tract_jupyter.runs.profile.validate import read_profile
from tract_jupyter.storage.lenient import read_dict, read_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from tract_jupyter.review.trust import Signer
    from tract_jupyter.runs.model import Operation
    from tract_jupyter.runs.profile.model import Profile
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.events import EventRows
    from tract_jupyter.storage.run_profiles import RunProfileRows, StoredProfile

_TRUST_KIND: Final = "run_profile"
_FOREIGN: Final = (
    "nobody here has saved it: it comes from another user, another store or another tract, or it was changed"
)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A stored profile. `quarantined` says why it is not used; empty if it may be. `data` is its JSON form."""

    name: str
    data: Mapping[str, Any] = field(repr=False)
    is_active: bool
    saved_at: datetime
    quarantined: str = ""


class Profiles:
    """The profiles of one tract; at most one is active.

    Args:
        database: where they are.
        rows: of the tract.
        events: where it is noted what happens to them.
        signer: of the tract; signs those that are saved.
        check: tells what operations of a profile name that is not there, as problems.
    """

    def __init__(
        self, database: Database, rows: RunProfileRows, events: EventRows, signer: Signer,
        check: Callable[[Iterable[Operation]], list[tuple[str, str, str]]] = lambda _: [],
    ) -> None:  # fmt: skip
        self._database = database
        self._rows = rows
        self._events = events
        self._signer = signer
        self._check = check

    def list(self) -> list[ProfileEntry]:
        """All of them, by name, also those that are not used.

        Raises:
            StoreError: the store cannot be read.
            TrustError: the signing secret cannot be read.
        """
        with self._database.read() as connection:
            stored = self._rows.all(connection)
        return [self._entry(row) for row in stored]

    def get(self, name: str) -> Profile:
        """A profile that may be used.

        Raises:
            UnknownRunError: there is none of this name.
            RunError: nobody here has saved it; `adopt` takes it over. Or a newer version has.
            StoreCorruptError: what was saved is no JSON object.
        """
        with self._database.read() as connection:
            stored = self._require(connection, name)
        return self._profile(stored)

    @property
    def active(self) -> Profile | None:
        """The active profile.

        Raises:
            RunError: nobody here has saved it: a run without its operations would be another one.
            StoreCorruptError: what was saved is no JSON object.
        """
        with self._database.read() as connection:
            stored = self._rows.active(connection)
        return None if stored is None else self._profile(stored)

    def save(self, profile: Profile, *, activate: bool = False) -> None:
        """Sign and store a profile, in the place of the one of the same name.

        Raises:
            ProfileError: it is wrong; with all that is.
            StoreError: it cannot be stored.
            TrustError: it cannot be signed.
        """
        name = (profile := read_profile(profile)).name
        if missing := self._check(profile.all_operations):
            raise ProfileError(missing)
        text = canonical_json(profile.to_dict())
        signature = self._sign(name, text)
        with self._database.write() as connection:
            self._rows.replace(connection, name, text, signature)
            if activate:
                self._rows.activate(connection, name)
            self._note(connection, "saved", name)

    def deactivate(self) -> None:
        """Have runs use no profile."""
        self.activate(None)

    def activate(self, name: str | None) -> None:
        """Have runs use a profile, or none.

        Raises:
            UnknownRunError: there is none of this name.
            RunError: nobody here has saved it.
        """
        with self._database.write() as connection:
            if name is not None:
                self._trusted(self._require(connection, name))
            self._rows.activate(connection, name)
            self._note(connection, "activated", name)

    def adopt(self, entry: ProfileEntry) -> None:
        """Take over a profile that somebody else has saved, as a person who has read it: from now on it may be used.

        Args:
            entry: as `list` gave it; exactly that is signed.

        Raises:
            UnknownRunError: it was removed.
            RunError: it was changed since it was read.
            StoreCorruptError: it is no JSON object.
            TrustError: it cannot be signed.
        """
        text = canonical_json(dict(entry.data))
        signature = self._sign(entry.name, text)
        with self._database.write() as connection:
            if canonical_json(_data(self._require(connection, entry.name))) != text:
                raise RunError(
                    f"the profile {entry.name!r} was changed since you read it, and was not adopted; list() shows it "
                    "as it is now"
                )
            self._rows.replace(connection, entry.name, text, signature)
            self._note(connection, "adopted", entry.name)

    def remove(self, name: str) -> None:
        """Forget a profile.

        Raises:
            UnknownRunError: there is none of this name.
        """
        with self._database.write() as connection:
            self._require(connection, name)
            self._rows.remove(connection, name)
            self._note(connection, "removed", name)

    # ---

    def _note(self, connection: Connection, what: str, name: str | None) -> None:
        self._events.append(connection, f"run_profile.{what}", "user", {"name": name})

    def _sign(self, name: str, text: str) -> str:
        return self._signer.sign(_TRUST_KIND, [name, text])

    def _verifies(self, row: StoredProfile) -> bool:
        return self._signer.verify(_TRUST_KIND, [row.name, row.profile_json], row.signature)

    def _entry(self, row: StoredProfile) -> ProfileEntry:
        why = "" if self._verifies(row) else _FOREIGN
        return ProfileEntry(
            row.name, read_dict(row.profile_json), bool(row.is_active), read_moment(row.created_at), why
        )

    def _trusted(self, row: StoredProfile) -> dict[str, Any]:
        if not self._verifies(row):
            raise RunError(
                f"the profile {row.name!r} is not used: {_FOREIGN}. Read it, and adopt it if you want it"
            )
        return _data(row)

    def _profile(self, row: StoredProfile) -> Profile:
        data = self._trusted(row)
        try:
            return read_profile(data)
        except ProfileError as error:
            raise RunError(
                f"the profile {row.name!r} is not used, as it is none to this tract_jupyter: {error}. Save it anew"
            ) from None

    def _require(self, connection: Connection, name: str) -> StoredProfile:
        check_text(name, "a profile's name", error=UnknownRunError)
        stored = self._rows.get(connection, name)
        if stored is None:
            known = [row.name for row in self._rows.all(connection)]
            listed = ", ".join(map(repr, known)) or "none"
            raise UnknownRunError(f"there is no profile {name!r}; there are: {listed}.{nearest(name, known)}")
        return stored


def _data(row: StoredProfile) -> dict[str, Any]:
    try:
        data = json.loads(row.profile_json)
    except (ValueError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise StoreCorruptError(
            f"the profile {row.name!r} is damaged in the store; remove it and save it anew"
        )
    return data
