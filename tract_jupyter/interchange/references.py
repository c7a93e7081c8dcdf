"""Binary data is not committed; what it was is said in one line, and by its hash it can be found again."""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict, dataclass
from typing import Any

from tract_jupyter.models.canonical import sha256

_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class DataReference:
    """Data that was left out: its media type, its size in bytes, its sha256."""

    media_type: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, media_type: str, data: str) -> DataReference:
        """A reference to base64 text, or to the text itself where it is none."""
        try:
            raw = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):  # a character outside ASCII is a ValueError
            raw = data.encode(errors="replace")
        return cls(media_type, len(raw), sha256(raw))

    @classmethod
    def of_text(cls, media_type: str, text: str) -> DataReference:
        """A reference to text, such as SVG."""
        raw = text.encode(errors="replace")
        return cls(media_type, len(raw), sha256(raw))

    def __str__(self) -> str:
        return f"[{self.media_type}, {_size(self.bytes)}, sha256 {self.sha256[:_SHOWN_DIGITS]}...]"

    def to_dict(self) -> dict[str, Any]:
        """The reference as it is kept in metadata."""
        return asdict(self)


def _size(count: int) -> str:
    """The size in decimal units, as file managers show it."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 # kilo
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
