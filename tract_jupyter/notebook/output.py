"""An output of a cell that is replaced in place."""

from __future__ import annotations

import secrets
from typing import Any

from IPython.display import display, update_display


class CellOutput:
    """An output of a cell. The first `put` displays it, and each later one replaces it.

    Attributes:
        display_id: the id of the output in IPython.
        is_shown: True after the first `put`.
    """

    def __init__(self) -> None:
        self.display_id = secrets.token_hex(16)
        self.is_shown = False

    def put(self, content: Any, *, raw: bool = False) -> None:
        """Show the content. With `raw`, it is a mime bundle."""
        show = update_display if self.is_shown else display
        show(content, raw=raw, display_id=self.display_id)
        self.is_shown = True
