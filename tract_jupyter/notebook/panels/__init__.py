"""Panels: requests on display in the output of a cell.

`panel` has the widget of one request, and the widget of the side panel about the running turn and the state.
`questions` has the widget of all requests of one step, and `inbox` of all open requests. `render`, `code` and `effects`
draw a `RequestView` as HTML: the three lines of a request, its full text, the effects of its rehearsal, and the record
in a saved notebook.
The scripts and styles are in the same folder; `requestRow` of request.js draws a request in any widget.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
