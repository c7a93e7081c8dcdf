"""A handler that awaits activation: code that would decide in a person's place."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ClassVar

from tract_jupyter.hooks.dynamic.pending import action_block
from tract_jupyter.hooks.handler_spec import HandlerSpec
from tract_jupyter.hooks.pending import Pending
from tract_jupyter.hooks.reach import handler_reach, reach_table
from tract_jupyter.review.fingerprint import fingerprint
from tract_jupyter.review.request import CodeBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.review.request import ValueTable

ACTIVATE_HANDLER = "activate_handler"


class PendingHandler(Pending):
    """A proposed handler. Nothing of it is compiled or run before it is approved.

    Args:
        spec: the checked proposal.
        approved: the version that was approved last, if any; the panel shows the difference.
        activate: makes the handler active.
    """

    labels: ClassVar[Mapping[str, str]] = {"approve": "Activate", "reject": "Reject"}

    def __init__(
        self,
        spec: HandlerSpec,
        *,
        tract: Any,
        activate: Callable[[HandlerSpec], object],
        approved: HandlerSpec | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            ACTIVATE_HANDLER,
            tract=tract,
            fields={"handler": spec.to_json()},
            execute_fn=lambda pending: activate(pending.spec),
            **options,
        )
        self._approved = approved

    @property
    def spec(self) -> HandlerSpec:
        """What would be activated: read from the fields, which the fingerprint binds."""
        return HandlerSpec.from_json(self.fields["handler"])

    @property
    def title(self) -> str:
        """Says what it would decide about."""
        spec = self.spec
        verb = "Activate" if self._approved is None else "Replace"
        return f"{verb} handler {spec.name} of {spec.operation}"

    @property
    def fingerprint(self) -> str:
        """Binds the whole handler."""
        spec = self.spec
        return fingerprint("handler", f"{spec.operation}/{spec.name}", spec.spec_hash, {})

    @property
    def resumable(self) -> bool:
        """Any process can activate it: all that is needed is stored."""
        return True

    def summary(self) -> str:
        """The handler's own description."""
        return self.spec.description

    def why(self) -> str:
        """Why a person is asked."""
        return f"It would decide about {self.spec.operation!r} in your place, each time that is fired."

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The change since the version that was approved last, if there is one, and the code."""
        code = action_block(self.spec.action)
        if self._approved is None:
            return (code,)
        before, after = self._approved.code.splitlines(), self.spec.code.splitlines()
        diff = "\n".join(difflib.unified_diff(before, after, "approved", "proposed", lineterm="", n=2))
        return (CodeBlock("Changes since the last approved version", diff, language="diff"), code)

    def tables(self) -> tuple[ValueTable, ...]:
        """What the code can reach: all of it, or what the version before could not."""
        spec, approved = self.spec, self._approved
        before = None if approved is None else handler_reach(approved.operation, approved.action)
        table = reach_table(before, handler_reach(spec.operation, spec.action))
        return (table,) if table.rows else ()
