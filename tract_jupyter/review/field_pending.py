"""Pendings with typed fields. The user can edit the fields and give standing approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.models import PendingStatus
from tract_jupyter.models.schema import Parameters
from tract_jupyter.review.decision import Subject, approval_terms
from tract_jupyter.review.introspection import gated
from tract_jupyter.review.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.models.schema import ParameterSet


class FieldPending(Pending):
    """A pending with typed fields, such as a fired operation or a gated tool call.

    A subclass declares the fields (`field_parameters`), the fields that standing approvals and recorded decisions
    ignore (`volatile`), and the subject of a standing approval (`kind`, `definition_hash`).
    """

    kind: str
    field_parameters: ParameterSet
    volatile: frozenset[str] = frozenset()
    definition_hash: str

    @gated  # not an @action: only explicit arguments are stored
    def approve(
        self,
        edits: Annotated[dict[str, Any] | None, "New values of fields, set before the approval."] = None,
        scope: Annotated[
            Literal["once", "session", "always"], "The time in which similar requests need no approval."
        ] = "once",
        uses: Annotated[int | None, "With a scope, the number of further uses; default: any number."] = None,
        pattern: Annotated[
            dict[str, Any] | None,
            'With a scope, values that may differ: {"path": "data/*"}. Default: exactly these values.',
        ] = None,
        whom: Annotated[
            Literal["this", "children", "anybody"],
            "With a scope, the actors: the asking one, that one and its children (agent:a/b of agent:a), or anybody.",
        ] = "this",
    ) -> Any:
        """Approve, run the code if there is any, and return its result."""
        arguments = {
            "edits": edits,
            "scope": None if scope == "once" else scope,
            "uses": uses,
            "pattern": pattern,
            "whom": None if whom == "this" else whom,
        }
        return self.through_gate(
            "approve", {name: v for name, v in arguments.items() if v is not None}, self.run_approved
        )

    @property
    def name(self) -> str:
        """The name of the operation or tool."""
        return self.operation

    def binding(self) -> Subject:
        """Return the code, the schema and the current fields."""
        return Subject(self.kind, self.name, self.definition_hash, self.fields)

    @property
    def subject(self) -> Subject | None:
        """The subject of a standing approval. None in a subclass that always asks."""
        values = {name: value for name, value in self.fields.items() if name not in self.volatile}
        ignored = {name: value for name, value in self.fields.items() if name in self.volatile}
        return Subject(self.kind, self.name, self.definition_hash, values, self.actor, ignored)

    def editable(self) -> Parameters | None:
        """Return the fields, with the current values as defaults."""
        if not len(self.field_parameters) or self.status is not PendingStatus.PENDING:
            return None
        values = self._values
        present = [p.with_default(values[p.name]) if p.name in values else p for p in self.field_parameters]
        return Parameters(self.name, present, are_checked=True)

    def edited(
        self, action: str, arguments: Mapping[str, Any], *, keep: bool = True
    ) -> AbstractContextManager[None]:
        """Apply the `edits` of an approval. Restore the fields if the block raises, or with `keep=False`."""
        fields, edits = self.fields, approval_terms(action, arguments).get("edits")
        if edits:
            super().check_fields()  # a value that is not a dict has no fields
            fields = self._with_values(self.field_parameters.validate({**self._values, **edits}))
        return self._changed(fields, keep=keep)

    @property
    def _values(self) -> Mapping[str, Any]:
        """The editable values: the fields, or a value of one field in a subclass."""
        return self.fields

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        return values
