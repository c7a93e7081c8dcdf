"""Settings of a tract that are signed: how much happens without a person, an orchestrator's, ...

They are JSON objects, by name. Whoever reads them is told whether this user has signed them, and what counts if not is
for the reader to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models import canonical_json
from tract_jupyter.review.signed_store import SignedStore
from tract_jupyter.storage import StoredSettings, read_dict

if TYPE_CHECKING:
    from collections.abc import Mapping


class Setting(NamedTuple):
    """Settings as they lie in the store: the values, and whether this user has signed them."""

    values: dict[str, Any]
    is_own: bool


class Settings(SignedStore[StoredSettings]):
    """The settings of one tract."""

    kind = "settings"
    signed_as = "settings"
    vouched = "saved"

    def content(self, row: StoredSettings) -> list[str]:
        """Sign the name and the text."""
        return [row.name, row.settings_json]

    def find(self, name: str) -> Setting | None:
        """Return what is stored under a name; None if nothing is.

        Raises:
            StoreError: the store cannot be read.
            TrustError: the signing secret cannot be read.
        """
        row = self.get(name)
        if row is None:
            return None
        return Setting(read_dict(row.settings_json), self.is_signed(row))

    def save(
        self, name: str, values: Mapping[str, Any], about: Mapping[str, Any], actor: str = "user"
    ) -> None:
        """Sign and store settings in the place of those of the same name.

        Args:
            name: whose they are.
            values: all of them, with a JSON form.
            about: what is noted in the event `settings.saved`, besides the name.
            actor: who saves them.

        Raises:
            ContentError: they have no JSON form.
            StoreError: they cannot be stored.
            TrustError: they cannot be signed.
        """
        row = self.sign(StoredSettings(name, canonical_json(dict(values)), ""))
        with self.database.write() as connection:
            self.put(connection, row, "saved", {"name": name, **about}, actor)
