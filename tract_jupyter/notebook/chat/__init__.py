"""The cell `%%tract_chat`: a turn of a model with tools, shown live and redrawn from the store.

`cell` carries a turn out, and `board` shows it during that time; `context` is sent with the text, and `hidden` hides
values in it and in results. `log` records the events of a turn and returns its state: a `turn`, whose `parts` are drawn
as `rows` and as the safe HTML of `markdown`, with the `work` of agents that it calls and the
`outputs` of its scripts. `source` reads turns from the store. `view` is the interface for showing a turn, with the
displays without widgets; `widget` is the live page. `undo` shows the plan of an undo. `standing` updates finished turns
after changes by other cells.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
