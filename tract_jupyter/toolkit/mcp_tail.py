"""The end of what a program wrote, for the errors about it."""

from __future__ import annotations

from typing import Final

from tract_jupyter.models.text import printable

_KEPT: Final = 4_000  # bytes
_QUOTED: Final = 600  # characters


class Tail:
    """The last 4,000 bytes of a stream."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        """Append, and forget the beginning."""
        self._kept = (self._kept + data)[-_KEPT:]

    @property
    def text(self) -> str:
        """What is kept, fit to be shown."""
        return printable(self._kept.decode(errors="replace")).strip()

    def quoted(self) -> str:
        """The end of it as a part of an error; empty if nothing was written."""
        text = self.text
        if not text:
            return ""
        return f". It wrote: {text if len(text) <= _QUOTED else '…' + text[-_QUOTED:]}"
