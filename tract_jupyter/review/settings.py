"""Signed settings of a tract, such as its autonomy or the settings of an orchestrator.

Settings are JSON objects, by name. The reader learns if this user signed them, and decides about unsigned settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models import canonical_json
from tract_jupyter.review.signed_store import SignedStore
from tract_jupyter.storage import StoredSettings, read_dict

if TYPE_CHECKING:
    from collections.abc import Mapping


class Setting(NamedTuple):
    """Stored settings: the values, and whether this user signed them."""

    values: dict[str, Any]
    is_own: bool


class Settings(SignedStore[StoredSettings]):
    """The settings of one tract."""

    kind = "settings"
    signed_as = "settings"
    vouched = "saved"

    def content(self, row: StoredSettings) -> list[str]:
        """Return the signed part: the name and the text."""
        return [row.name, row.settings_json]

    def find(self, name: str) -> Setting | None:
        """Return the settings with this name, or None.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        row = self.get(name)
        if row is None:
            return None
        return Setting(read_dict(row.settings_json), self.is_signed(row))

    def save(
        self, name: str, values: Mapping[str, Any], about: Mapping[str, Any], actor: str = "user"
    ) -> None:
        """Sign and store settings. They replace settings with the same name.

        Args:
            name: the name of the settings.
            values: the complete values, with a JSON form.
            about: the data of the event `settings.saved`, in addition to the name.
            actor: the actor that saves them.

        Raises:
            ContentError: the values have no JSON form.
            StoreError: the settings cannot be stored.
            TrustError: the settings cannot be signed.
        """
        row = self.sign(StoredSettings(name, canonical_json(dict(values)), ""))
        with self.database.write() as connection:
            self.put(connection, row, "saved", {"name": name, **about}, actor)
