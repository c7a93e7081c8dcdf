"""The cell `%%tract_chat`: a turn of a model that acts, shown while it goes on, and drawn again from the store.

`cell` carries a turn out, and `board` is where it is shown meanwhile; `context` is what is sent beside the text. `log`
takes what happens in a turn and gives it as it stands: a `turn`, whose `parts` are drawn as `rows` and as the safe HTML
of `markdown`, with the `work` of agents that it calls and the `outputs` of its scripts. `source` reads turns from the
store. `view` is the seam to what shows a turn: `widget` is that of a live page, `displays` are those without widgets.
`standing` has turns that are over follow what other cells do.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
