"""Pendings, and how each is decided: by handlers, by a standing approval, by a person.

* `pending`: what is asked, what an approval binds to, and the actions. `field_pending`: with typed fields.
  `introspection`: how one is described to a model, a form, a person.
* `bus`: handlers, and routing a pending through them. `firing`: what happens where no handler decides.
* `consulting`: a model decides, through the same actions.
* `builtin`: the pendings of what the package itself does: compress, gc, merge, rebase, a reply, an answer of a tool.

Knows `review` (which knows this room only as a protocol), `context`, `storage`, and `llm` and `prompts` for a model
that decides or replies.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
