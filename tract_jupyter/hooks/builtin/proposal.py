"""Code that awaits activation: what the proposals of operations and of handlers share."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ClassVar

from tract_jupyter.hooks.pending import Pending
from tract_jupyter.review.request import CodeBlock, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Proposal(Pending):
    """Something with code. Nothing of it is compiled or run before it is approved.

    A subclass has what would be activated as its `spec`, read from the fields, which the fingerprint binds.

    Args:
        operation: what approving it is called.
        activate: makes the spec active.
        options: see `Pending`.
    """

    labels: ClassVar[Mapping[str, str]] = {"approve": "Activate", "reject": "Reject"}
    spec: Any

    def __init__(self, operation: str, *, activate: Callable[[Any], object], **options: Any) -> None:
        super().__init__(operation, execute_fn=lambda pending: activate(pending.spec), **options)

    @property
    def is_definition(self) -> bool:
        """It is one."""
        return True

    @property
    def resumable(self) -> bool:
        """Any process can activate it: all that is needed is stored."""
        return True

    def summary(self) -> str:
        """The author's own description."""
        return str(self.spec.description)

    def more_tables(self) -> tuple[ValueTable, ...]:
        """What its author says of it, whole."""
        rows = tuple(ValueRow(name, "", text) for name, text in self.said().items() if text)
        return (ValueTable("Definition", rows, "rows"),)

    def said(self) -> dict[str, str]:
        """What the definition consists of beside its code and its fields."""
        raise NotImplementedError


def changes_block(which: str, changes: str) -> CodeBlock:
    """The difference to an earlier version."""
    return CodeBlock(f"Changes since the {which} version", changes, language="diff", binds="nothing")


def unified_diff(before: Sequence[str], after: Sequence[str], old: str) -> str:
    """How the lines that are proposed differ from those before; empty if they are the same."""
    return "\n".join(difflib.unified_diff(before, after, old, "proposed", lineterm="", n=2))
