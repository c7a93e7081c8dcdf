"""The tool loop: a model acts until it has an answer or its turn ends. Each step is stored before the next one.

`loop` is the part `Tract.loop`: offered tools, limits of a turn, stop and pause. `turn` has the loop itself, and the
turn of a model without tools, which needs nothing else of this package. `acting` is the turn of a model that acts, and
detects a model that repeats itself.
`generation` makes one request and commits the reply. `open_turns` allows one answer at a time on a branch, and handles
turns without a reply. `meter` counts the use of a turn, an agent or all agents against an allowance. `offered` stores
the tool list of a conversation. `calls` executes the calls of one step: one approval list, parallel reads, ordered
writes. `answers` writes their answers for the model, with a budget for images. `journal` records started and ended
calls until the answers are committed. `threads` awaits a turn. `events` reports the events of a turn, `stored` reads
them from the store. `turn_undo` undoes a whole turn.

A turn of another kind, such as an outside agent's, belongs in `ToolLoop.turn`, next to `StoredTurn` and `ActingTurn`.
It stores its replies and calls in the same way, and returns a `ChatResponse`.
Knows `toolkit`, `rehearsal`, `review`, `context`, `storage`, `llm`, `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
