"""A spec that awaits activation: the gate between model-written text and code that can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.builtin.proposal import Proposal, changes_block, unified_diff
from tract_jupyter.hooks.dynamic.spec import spec_from_json, spec_to_json
from tract_jupyter.hooks.reach import reach_table, spec_reach
from tract_jupyter.models.type_text import type_text
from tract_jupyter.review.fingerprint import fingerprint
from tract_jupyter.review.request import CodeBlock, ValueRow, ValueTable, findings_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.hooks.dynamic.spec import ActionDef, OperationSpec

ACTIVATE = "activate_operation"
_UNHANDLED = {
    "approve": "approve: approved without a question where no handler decides",
    "ask": "ask: a person is asked where no handler decides",
}
_ACTIVE_ALREADY = (
    "A model's version of this one is active without a review, since all of its code runs in the sandbox."
)


class PendingActivation(Proposal):
    """A proposed operation. Nothing of it is compiled or run before it is approved.

    Args:
        spec: the checked proposal.
        active: the version that is active now, if any.
        approved: the version that was approved last, active or not; the panel shows the difference.
        options: see `Proposal`.
    """

    in_view = frozenset({"spec"})

    def __init__(
        self,
        spec: OperationSpec,
        *,
        active: OperationSpec | None = None,
        approved: OperationSpec | None = None,
        **options: Any,
    ) -> None:
        super().__init__(ACTIVATE, fields={"spec": spec_to_json(spec)}, **options)
        self._active = active
        self._approved = approved or active

    @property
    def spec(self) -> OperationSpec:
        """What would be activated: read from the fields, which the fingerprint binds."""
        return spec_from_json(self.fields["spec"])

    @property
    def title(self) -> str:
        """Says whether it is new or a change."""
        new, changed = titles(self.spec.name)
        return new if self._active is None else changed

    @property
    def fingerprint(self) -> str:
        """Binds the whole spec."""
        return activation_fingerprint(self.spec)

    def why(self) -> str:
        """Why a person is asked."""
        source = f" (from {self.triggered_by})" if self.triggered_by else ""
        told = [
            f"Code that was written for you runs only after you approved it{source}.",
            _ACTIVE_ALREADY if self.spec.name in self.tract.operations.registry.unreviewed else "",
            findings_text(self.code_blocks()),
        ]
        return " ".join(filter(None, told))

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The change since the active version, if there is one, and the code of each action."""
        spec = self.spec
        blocks = [self.tract.operations.advice.block(action) for action in spec.actions.values()]
        if self._approved is not None:
            which = "active" if self._approved is self._active else "last approved"
            blocks.insert(0, changes_block(which, spec_diff(self._approved, spec)))
        return tuple(blocks)

    def tables(self) -> tuple[ValueTable, ...]:
        """The fields, and what the code can reach: all of it, or what the last approved version could not."""
        spec, approved = self.spec, self._approved
        fields = ValueTable("Fields", tuple(_field_rows(spec)), "rows")
        reach = reach_table(None if approved is None else spec_reach(approved), spec_reach(spec))
        return tuple(table for table in (fields, reach) if table.rows)

    def said(self) -> dict[str, str]:
        """What it is called, its version, and what happens when it is fired."""
        spec = self.spec
        sandboxed = ", ".join(action.name for action in spec.actions.values() if action.is_sandboxed)
        return {
            "name": spec.name,
            "description": spec.description,
            "version": spec.version,
            "unhandled": _UNHANDLED[spec.unhandled],
            "isolation": f"sandbox: {sandboxed}" if sandboxed else "",
        }


def titles(name: str) -> tuple[str, str]:
    """What the activation of an operation is called: of a new one, and of another version."""
    return f"Activate operation {name}", f"Replace operation {name}"


def activation_fingerprint(spec: OperationSpec) -> str:
    """What approving a spec binds to: all of it."""
    return fingerprint("activation", spec.name, spec.spec_hash, {})


def spec_diff(old: OperationSpec, new: OperationSpec) -> str:
    """A unified diff of two versions, in the form a person writes operations in; empty if they are the same."""
    return unified_diff(_readable(old), _readable(new), "active")


def _readable(spec: OperationSpec) -> list[str]:
    lines = [f"operation {spec.name}  version {spec.version}  unhandled={spec.unhandled}", spec.description]
    for p in spec.parameters():
        texts = [p.description, "volatile" if p.name in spec.volatile else ""]
        about = f"  # {', '.join(filter(None, texts))}" if any(texts) else ""
        lines.append(f"{p.name}: {type_text(p.annotation)}{p.default_text}{about}")
    for action in spec.actions.values():
        lines += ["", *_readable_action(action)]
    return lines


def _readable_action(action: ActionDef) -> list[str]:
    body = [f"    {line}" for line in action.code.splitlines()]
    where = "  # in the sandbox" if action.is_sandboxed else ""
    return [
        f"def {action.name}{action.parameters().signature_text('pending')}:{where}",
        f'    """{action.description}"""',
        *body,
    ]


def _field_rows(spec: OperationSpec) -> Iterator[ValueRow]:
    for p in spec.parameters():
        about = "volatile: standing approvals do not look at it" if p.name in spec.volatile else ""
        meaning = "; ".join(filter(None, [p.description, about]))
        declared = str(spec.fields[p.name].get("type", "Any"))
        if p.required:
            yield ValueRow(p.name, declared, "required", meaning)
        else:
            yield ValueRow.of(p.name, declared, p.default, meaning)
