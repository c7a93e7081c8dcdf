"""The tool loop: a model acts until it has an answer, or something ends its turn; each step is stored first.

`loop` is the part `Tract.loop`: the tools that are offered, the limits of a turn, stop and pause. `turn` has the loop
itself, and the turn of a model without tools, which needs nothing else of this package; `acting` is the turn of a model
that acts. `generation` makes one request and commits the reply; `open_turns` says who answers on a branch, and what a
turn without a reply leaves behind. `meter` counts what a turn, an agent or all agents take of an allowance,
`repetition` notices a model that repeats itself. `offered` keeps the tool list of a conversation. `calls` carries the
calls of one step out: asked about together, reads side by side, writes in order. `answers` writes their answers for the
model. `journal` remembers, until the answers are committed, which calls began and which have ended. `threads` awaits a
turn. `events` reports what happens in a turn, `stored` reads the same from the store.

A turn of another kind, such as one that an outside agent carries out, has its place in `ToolLoop.turn`, beside
`StoredTurn` and `ActingTurn`: it stores its replies and calls as they do, and returns a `ChatResponse`.
Knows `toolkit`, `review`, `context`, `storage`, `llm`, `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
