"""From a pending to its decision: handlers first; then approval, a standing approval, or a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.review.decision import deciding

if TYPE_CHECKING:
    from tract_jupyter.hooks.bus import HookBus
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.review.reviewer import Reviewer

Unhandled = Literal["approve", "ask"] | Callable[[Any], object]
"""What becomes of a pending that no handler took on; a function is called with it, and decides."""


class Firing:
    """Has pendings of one tract decided."""

    def __init__(self, bus: HookBus, reviewer: Reviewer) -> None:
        self.bus = bus
        self._reviewer = reviewer

    def decide(self, pending: Pending, *, unhandled: Unhandled) -> None:
        """Have the handlers decide. What none of them took on is approved, or a person is asked.

        What a handler left open waits in the inbox.
        """
        try:
            taken = self.bus.route(pending)
        finally:
            self.bus.log.flush()
        if taken:
            if pending.status.is_open:
                self._reviewer.keep(pending)
        elif unhandled != "ask":
            with deciding("automatic", "nobody"):
                pending.approve() if unhandled == "approve" else unhandled(pending)
        elif not self._reviewer.granted(pending):
            self._reviewer.show(pending)
