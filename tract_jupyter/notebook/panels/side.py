"""The widget of the side panel about the running turn, follow-ups and the state of the tract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from tract_jupyter.notebook.panels.panel import ReviewWidget
from tract_jupyter.notebook.views.html import asset
from tract_jupyter.notebook.views.styles import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable

_ACTIONS = frozenset({"stop", "open", "queue", "remove"})


class StatePanel(ReviewWidget):
    """A widget with the running turn and its Stop, a field for follow-ups, and the state of the tract.

    Synced state: `view` is drawn.

    Args:
        act: performs an action, in any thread.
        view: `is_open` and `has_store`; `running` (the message of the turn, or None) and its `foot` as HTML; `queue`;
            `facts` as HTML.
    """

    _esm = "".join(map(asset, ("panels/common.js", "panels/side.js")))
    _css = "".join(map(asset, (LOOK, "panels/side.css")))
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, act: Callable[[str, dict[str, Any]], None], view: dict[str, Any]) -> None:
        self._act = act
        super().__init__(view=view)

    def take(self, content: dict[str, Any]) -> None:
        """Perform an action once."""
        action = content.get("action")
        if action in _ACTIONS and self.acknowledge(content):
            self._act(str(action), content)

    def fallback(self) -> dict[str, str]:
        """Return nothing. The widget is never part of a notebook."""
        return {"text/plain": ""}
