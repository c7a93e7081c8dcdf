"""The fingerprint: what an approval binds to.

sha256 over the canonical form of what would run: the kind of thing, its name, the hash of its definition and the
validated values with defaults filled in. One changed character gives another one.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models.canonical import digest

if TYPE_CHECKING:
    from collections.abc import Mapping


class Subject(NamedTuple):
    """What a standing approval can be about.

    Attributes:
        kind: `operation` or `tool`.
        name: its name.
        definition_hash: 64 hex digits over its code and schema.
        values: the validated values, without those that the author calls volatile.
        actor: who asks for it.
        ignored: the values that are volatile, as they are now: a standing approval does not look at them.
    """

    kind: str
    name: str
    definition_hash: str
    values: Mapping[str, Any]
    actor: str = ""
    ignored: Mapping[str, Any] = MappingProxyType({})


def fingerprint(kind: str, name: str, definition_hash: str, values: Mapping[str, Any]) -> str:
    """Return 64 hex digits.

    Raises:
        ContentError: a value has no JSON form, so what is approved could not be pinned down.
    """
    return digest({"kind": kind, "name": name, "definition": definition_hash, "values": dict(values)})
