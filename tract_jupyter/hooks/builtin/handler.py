"""A handler that awaits activation: code that would decide in a person's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.analysis import Definition
from tract_jupyter.hooks.builtin.base import BuiltinPending
from tract_jupyter.hooks.builtin.proposal import Proposal, changes_block, unified_diff
from tract_jupyter.hooks.dynamic.pending import definition_of, members_of
from tract_jupyter.hooks.handler_spec import HandlerSpec
from tract_jupyter.hooks.reach import handler_reach, reach_table
from tract_jupyter.review.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.review.request import CodeBlock, ValueTable

ACTIVATE_HANDLER = "activate_handler"


class PendingHandler(Proposal):
    """A proposed handler. Nothing of it is compiled or run before it is approved.

    Args:
        spec: the checked proposal.
        approved: the version that was approved last, if any; the panel shows the difference.
        options: see `Proposal`.
    """

    in_view = frozenset({"handler"})

    def __init__(self, spec: HandlerSpec, *, approved: HandlerSpec | None = None, **options: Any) -> None:
        super().__init__(ACTIVATE_HANDLER, fields={"handler": spec.to_json()}, **options)
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

    def why(self) -> str:
        """Why a person is asked."""
        return f"It would decide about {self.spec.operation!r} in your place, each time that is fired."

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The change since the version that was approved last, if there is one, and the code."""
        code = self.tract.operations.advice.block(self.spec.action, self._definition())
        if self._approved is None:
            return (code,)
        changes = unified_diff(self._approved.code.splitlines(), self.spec.code.splitlines(), "approved")
        return (changes_block("last approved", changes), code)

    def _definition(self) -> Definition:
        """What is known of the names in the code: nothing of `pending`, where it decides about everything."""
        spec = self.spec
        about = self.tract.operations.registry.get_spec(spec.operation)
        if about is not None:
            return definition_of(about, spec.action)
        named = {cls.name: cls for cls in _below(BuiltinPending) if "name" in vars(cls) and _is_ours(cls)}
        built_in = named.get(spec.operation)
        return Definition(None if built_in is None else members_of(built_in), None, ())

    def tables(self) -> tuple[ValueTable, ...]:
        """What the code can reach: all of it, or what the version before could not."""
        spec, approved = self.spec, self._approved
        before = None if approved is None else handler_reach(approved.operation, approved.action)
        table = reach_table(before, handler_reach(spec.operation, spec.action))
        return (table,) if table.rows else ()

    def said(self) -> dict[str, str]:
        """What it is called, and what it decides about."""
        spec = self.spec
        return {"operation": spec.operation, "name": spec.name, "description": spec.description}


def _below(cls: type[BuiltinPending]) -> Iterator[type[BuiltinPending]]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _below(derived)


def _is_ours(cls: type[BuiltinPending]) -> bool:
    """Whether it is the package's own class of an operation, not one that somebody has derived from it."""
    return cls.__module__.startswith(f"{__name__.partition('.')[0]}.")
