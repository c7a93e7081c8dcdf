"""Pendings, and how each is decided: by handlers, by a standing approval, by a person.

* `pending`: what is asked, what an approval binds to, and the actions. `field_pending`: with typed fields.
* `bus`: handlers, and routing a pending through them. `firing`: what happens where no handler decides.
* `consulting`: a model decides, through the same actions.
* `builtin`: the pendings of what the package itself does: compress, gc, merge, rebase, a reply, an answer of
  a tool.

Knows `review` (which knows this room only as a protocol), `context`, `storage`, and `llm` and
`prompts` for a model that decides or replies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.doors import door

if TYPE_CHECKING:
    from tract_jupyter.hooks.builtin.base import ValidationResult
    from tract_jupyter.hooks.bus import HookBus, HookEvent
    from tract_jupyter.hooks.consulting import Consultation
    from tract_jupyter.hooks.firing import auto_retry
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.models.pending import PendingStatus
else:
    __getattr__ = door(
        __name__,
        {
            "Consultation": "tract_jupyter.hooks.consulting",
            "HookBus": "tract_jupyter.hooks.bus",
            "HookEvent": "tract_jupyter.hooks.bus",
            "Pending": "tract_jupyter.hooks.pending",
            "PendingStatus": "tract_jupyter.models.pending",
            "ValidationResult": "tract_jupyter.hooks.builtin.base",
            "auto_retry": "tract_jupyter.hooks.firing",
        },
    )

__all__ = [
    "Consultation",
    "HookBus",
    "HookEvent",
    "Pending",
    "PendingStatus",
    "ValidationResult",
    "auto_retry",
]
