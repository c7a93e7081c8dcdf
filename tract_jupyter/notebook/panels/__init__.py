"""Panels: a request on display in a cell's output.

`panel` is the widget of one request, `questions` that of all that one step asks, `inbox` that of what waits; `row` says
what stands in the three lines of a request, `render` and `code` make the HTML beneath and the record that stays in a
saved notebook. `waiting` makes the number of waiting requests a button. The scripts and styles lie beside them;
`requestRow` of request.js draws a request in any widget.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
