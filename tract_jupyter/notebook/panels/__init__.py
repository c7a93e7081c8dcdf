"""Panels: a request on display in a cell's output.

`panel` is the widget of one request, `questions` of all requests of one step, `inbox` of all pending requests.
`render` and `code` write a `RequestView` as HTML: the three lines of a request, its full text, and the record in a
saved notebook. `waiting` makes the number of waiting requests a button. The scripts and styles lie beside them;
`requestRow` of request.js draws a request in any widget.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
