"""Making the pendings of built-in operations again from what is stored of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.facade.answering import Answering
from tract_jupyter.facade.applying import Applying
from tract_jupyter.facade.generating import Generating
from tract_jupyter.facade.merging import Merging
from tract_jupyter.facade.operating import Operating
from tract_jupyter.facade.scripting import Scripting
from tract_jupyter.facade.surgery import Surgery
from tract_jupyter.hooks.builtin.history import PendingGC, PendingMerge, PendingRebase
from tract_jupyter.hooks.builtin.stored import check_stored
from tract_jupyter.scripts.pendings import PendingScriptCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.pending import Pending


class Restoring(Generating, Answering, Operating, Applying, Merging, Surgery, Scripting):
    """The part of `Tract` that knows all built-in operations that can be decided about."""

    def restored(self, operation: str, fields: dict[str, Any]) -> Pending | None:
        """The pending of a built-in operation with these fields; None if there is no such operation.

        What a caller's own function did (write summaries, settle conflicts, validate) is not stored: such a pending
        can be decided and changed by hand, and made again only where the tract itself can do it.

        Args:
            operation: its name.
            fields: as the store has them.

        Raises:
            PendingError: these are no fields of it.
        """
        make = self._makers().get(operation)
        if make is None:
            return None
        check_stored(operation, fields)
        return make(fields)

    def _makers(self) -> dict[str, Callable[[dict[str, Any]], Pending]]:
        """One line for each kind."""
        return {
            "gc": lambda fields: PendingGC(fields, tract=self, run=self._collect),
            "compress": self._restored_compress,
            "merge": lambda fields: PendingMerge(fields, tract=self, merge=self._merge),
            "rebase": lambda fields: PendingRebase(fields, tract=self, rebase=self._rebase),
            "generate": self._restored_reply,
            "tool_result": self._restored_answer,
            "policy": self._restored_policy,
            "script_call": lambda fields: PendingScriptCall(fields, tract=self, go_on=self._go_on),
        }
