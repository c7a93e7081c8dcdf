"""The tool loop: a model acts until it has an answer, or something ends its turn; each step is stored first.

`loop` is the part `Tract.loop`: what is offered, what a turn may take, stop and pause. `turn` is one turn on the store,
which needs nothing else of this package where no tools are offered; `acting` is the turn of a model that acts: what it
consists of is `llm.acting`, which a consultation shares. `offered` keeps the tool list of a conversation. `calls`
carries the calls of one step out: asked about together, reads side by side, writes in order. `answers` makes texts for
the model of what came of them. `journal` remembers, until the answers are committed, which calls were begun and which
have ended. `threads` awaits a turn. `events` tells whoever looks on what happens in one, `stored` reads the same from
the store.
Knows `toolkit`, `review`, `context`, `storage`, `llm`, `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
