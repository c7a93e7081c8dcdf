"""The requests to activate an operation or a handler, with its code, findings, fields and changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from tract_jupyter.analysis import Category, Finding, RiskLevel, Span
from tract_jupyter.exceptions import GrantError
from tract_jupyter.models import unified_diff
from tract_jupyter.models.schema import type_text
from tract_jupyter.operations.advice import (
    abilities,
    ability_text,
    change_text,
    handler_reach,
    reach_table,
    spec_reach,
)
from tract_jupyter.operations.check import CheckedSpec
from tract_jupyter.operations.handlers import ACTIVATE_HANDLER, HandlerSpec
from tract_jupyter.operations.pending import analysed_blocks
from tract_jupyter.operations.rehearsal import ActionRehearsal, rehearse
from tract_jupyter.operations.spec import spec_from_json
from tract_jupyter.review import (
    ACTIVATE,
    RECORDED,
    CodeBlock,
    Pending,
    Subject,
    ValueRow,
    ValueTable,
    action,
    decision_context,
    findings_text,
    fingerprint,
    personal_channels,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.models.schema import Parameter
    from tract_jupyter.operations.advice import Advice, Reach
    from tract_jupyter.operations.spec import ActionDef, OperationSpec
    from tract_jupyter.review import RunsIn


class Proposal(Pending):
    """A proposal of code. None of the code is compiled or run before approval.

    The fields contain the definition, and the fingerprint binds them. A subclass returns the definition as its
    `spec`.
    """

    labels: Mapping[str, str] = {"approve": "Activate", "reject": "Reject"}
    spec: Any

    def __init__(self, operation: str, *, activate: Callable[[Any], object], **options: Any) -> None:
        super().__init__(operation, execute_fn=lambda pending: activate(pending.definition()), **options)

    @property
    def is_definition(self) -> bool:
        """True: an approval activates code."""
        return True

    @property
    def resumable(self) -> bool:
        """True: all necessary data is stored, so any process can activate the code."""
        return True

    def definition(self) -> Any:
        """Return the definition in the fields, which the approval activates."""
        return self.spec

    def summary(self) -> str:
        """Return the author's description."""
        return str(self.spec.description)

    def more_tables(self) -> tuple[ValueTable, ...]:
        """Return the author's statements about the definition, in full."""
        rows = tuple(ValueRow(name, "", text) for name, text in self.statements().items() if text)
        return (ValueTable("Definition", rows, "rows"),)

    def statements(self) -> dict[str, str]:
        """Return the parts of the definition other than its code and fields."""
        raise NotImplementedError


def changes_block(which: str, changes: str) -> tuple[CodeBlock, ...]:
    """Return the difference to an earlier version. Return no block if there is none."""
    title = f"Changes since the {which} version"
    return (CodeBlock(title, changes, language="diff", binds="nothing"),) if changes else ()


def _changes(before: Sequence[str], after: Sequence[str], old: str) -> str:
    """Return a diff from the old lines to the proposed lines. Empty if they are equal."""
    return "\n".join(unified_diff(before, after, old, "proposed", context=2))


_UNHANDLED = {
    "approve": "approve: approved without a question if no handler decides",
    "ask": "ask: the user decides if no handler does",
}
_TWO_STAGES = (
    "a model first writes guidance for each firing, from its fields and the context. The user can change the guidance, "
    "and the actions follow it"
)
_REHEARSAL = "rehearsal"
REQUEST = "TJ-VOLATILE"
"""The finding code for a request in a proposal that only the user decides. It is not a rule of the analysis."""
_ACTIVE_ALREADY = (
    "A model's version of this operation is active without a review, because all of its code runs in the "
    "sandbox."
)


class PendingActivation(Proposal):
    """A proposed operation. Its code is compiled and run only after approval.

    `requests` are the fields that another author wants to be volatile. They become volatile only if the user accepts
    that. The panel shows the difference from `approved`, the last approved version.
    """

    in_view = frozenset({"spec"})

    def __init__(
        self,
        checked: CheckedSpec,
        *,
        requests: Iterable[str] = (),
        active: OperationSpec | None = None,
        approved: OperationSpec | None = None,
        rehearsal: ActionRehearsal | None = None,
        **options: Any,
    ) -> None:
        volatile = sorted(requests)
        fields: dict[str, Any] = {"spec": checked.text, **({"volatile": volatile} if volatile else {})}
        if rehearsal is not None:
            fields[_REHEARSAL] = rehearsal.to_dict()
        super().__init__(ACTIVATE, fields=fields, **options)
        self._checked = checked
        self._analysed: tuple[OperationSpec, Advice, tuple[CodeBlock, ...]] | None = None
        self._active = active
        self._approved = approved or active
        self._before: tuple[str, ...] | None = None
        self.is_typed = False
        """True if the user typed all of the code in a cell and need not read it again."""

    @property
    def spec(self) -> OperationSpec:
        """A copy of the proposed spec, read from the fields, which the fingerprint binds."""
        return spec_from_json(self.fields["spec"])

    def definition(self) -> CheckedSpec:
        """Return the checked spec of the text in the fields. Only changed text is parsed and checked again."""
        if self._checked.text != self.fields["spec"]:
            self._checked = CheckedSpec.read(self.fields["spec"])
        return self._checked

    def _spec(self) -> OperationSpec:
        return self.definition().spec

    def summary(self) -> str:
        """Return the author's description."""
        return self._spec().description

    @property
    def runs_in(self) -> RunsIn:
        """`sandbox` if all actions run there, otherwise `kernel`."""
        return "sandbox" if self._spec().is_sandboxed else "kernel"

    @property
    def requests(self) -> tuple[str, ...]:
        """The fields that standing approvals and recorded decisions ignore if the user accepts that."""
        names = self.fields.get("volatile", ())
        return tuple(name for name in self._spec().fields if name in names)

    @action
    def approve(
        self,
        *,
        volatile: Annotated[
            bool,
            "Accept that standing approvals and recorded decisions ignore the fields that the request names.",
        ] = False,
    ) -> Any:
        """Approve the operation and activate it.

        If another author wrote it, only the user can make its fields volatile.
        """
        del volatile  # see `edited`
        return self.run_approved()

    @property
    def rehearsal(self) -> ActionRehearsal | None:
        """The results of the last rehearsal, or None without a rehearsal."""
        return ActionRehearsal.from_dict(self.fields.get(_REHEARSAL))

    @action
    def rehearse(self) -> str:
        """Run its code on drawn inputs, in the sandbox or a contained copy, and show the results. This decides nothing.

        Returns:
            The results, in a sentence or two.
        """
        result = rehearse(self._spec(), self.tract)
        self.fields = {**self.fields, _REHEARSAL: result.to_dict()}
        return result.summary

    def through_gate(self, name: str, arguments: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Drop empty arguments of an approval, so the decision stores only accepted requests."""
        __tracebackhide__ = True
        if name == "approve":
            arguments = {key: value for key, value in arguments.items() if value}
        return super().through_gate(name, arguments, run)

    def edited(
        self, action: str, arguments: Mapping[str, Any], *, keep: bool = True
    ) -> AbstractContextManager[None]:
        """Make the requested fields volatile if the user accepts that.

        The change is undone if the block raises, or with `keep=False`.

        Raises:
            GrantError: the decision is not the user's, or there is no such request.
        """
        fields = self.fields
        if action == "approve" and arguments.get("volatile"):
            rehearsal = {name: self.fields[name] for name in (_REHEARSAL,) if name in self.fields}
            fields = {"spec": self._accepted().text, **rehearsal}
        return self._changed(fields, keep=keep)

    def _accepted(self) -> CheckedSpec:
        if not self.requests:
            raise GrantError(f"{self.title!r} requests no volatile fields; approve it without volatile=True")
        if decision_context().channel not in personal_channels() | {RECORDED}:
            raise GrantError(
                "only the user can accept volatile fields: in a panel, at a prompt or in their own code"
            )
        return self.definition().with_volatile(self.requests)

    @property
    def title(self) -> str:
        """The title of the panel. It says whether the operation is new or a replacement."""
        new, changed = titles(self._spec().name)
        return new if self._active is None else changed

    def binding(self) -> Subject:
        """Bind the whole spec."""
        checked = self.definition()
        return _activation(checked.spec.name, checked.spec_hash)

    def why(self) -> str:
        """Explain the reason for the request."""
        source = f" (from {self.triggered_by})" if self.triggered_by else ""
        parts = [
            f"Code that was written for you runs only after your approval{source}.",
            _ACTIVE_ALREADY if self._spec().name in self.tract.operations.registry.unreviewed else "",
            "" if self._spec().fires_on is None else f"It fires by itself: {self._spec().fires_on}.",
            f"It is in two stages: {_TWO_STAGES}." if self._spec().two_stage else "",
            _request_text(self.requests),
            findings_text(self.code_blocks()),
        ]
        return " ".join(filter(None, parts))

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of each action, after the difference to the previous version, if there is one."""
        spec = self._spec()
        advice = self.tract.operations.advice
        if self._analysed is None or self._analysed[0] is not spec or self._analysed[1] is not advice:
            self._analysed = (spec, advice, analysed_blocks(spec, advice))
        blocks = list(self._analysed[2])
        if self.requests:
            blocks.insert(0, _request_block(spec, self.requests))
        if self._approved is not None:
            which = "active" if self._approved is self._active else "last approved"
            blocks = [*changes_block(which, spec_diff(self._approved, spec)), *blocks]
        return tuple(replace(block, is_typed=self.is_typed) for block in blocks)

    def more_tables(self) -> tuple[ValueTable, ...]:
        """Return the other parts of the definition."""
        return tuple(replace(table, is_typed=self.is_typed) for table in super().more_tables())

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the fields, and the code's access: all of it, or only the additions to the last approved version."""
        spec, approved = self._spec(), self._approved
        fields = ValueTable("Fields", tuple(_field_rows(spec)), "rows")
        reach = reach_table(
            None if approved is None else spec_reach(approved), spec_reach(spec), self._ability()
        )
        rehearsal = self.rehearsal
        rehearsed = () if rehearsal is None else (rehearsal.table(spec),)
        tables = (*rehearsed, *(table for table in (fields, reach) if table.rows))
        return tuple(replace(table, is_typed=self.is_typed) for table in tables)

    def _ability(self) -> str:
        """Return the abilities in a sentence, compared with the last approved version if there is one."""
        self.code_blocks()
        now = self._abilities_of(self._spec(), self._analysed[2] if self._analysed else ())
        if self._approved is None:
            return ability_text(now)
        if self._before is None:
            blocks = analysed_blocks(self._approved, self.tract.operations.advice)
            self._before = self._abilities_of(self._approved, blocks)
        return change_text(self._before, now)

    @staticmethod
    def _abilities_of(spec: OperationSpec, blocks: Iterable[CodeBlock]) -> tuple[str, ...]:
        inside = {action.name for action in spec.actions.values() if action.is_sandboxed}
        findings = [finding for block in blocks if block.title not in inside for finding in block.findings]
        return abilities(findings, spec_reach(spec))

    def statements(self) -> dict[str, str]:
        """Return the name, the version, and the behavior of a firing."""
        spec = self._spec()
        sandboxed = ", ".join(action.name for action in spec.actions.values() if action.is_sandboxed)
        return {
            "name": spec.name,
            "description": spec.description,
            "version": spec.version,
            "unhandled": _UNHANDLED[spec.unhandled],
            "fires by itself": "" if spec.fires_on is None else str(spec.fires_on),
            "two stages": _TWO_STAGES if spec.two_stage else "",
            "isolation": f"sandbox: {sandboxed}" if sandboxed else "",
        }


def _request_text(names: Sequence[str]) -> str:
    """Describe the requests that only the user decides. Empty if there are none."""
    if not names:
        return ""
    return (
        f"It asks standing approvals and recorded decisions to ignore {', '.join(map(repr, names))}. They do so only "
        "if you accept."
    )


def _request_block(spec: OperationSpec, names: Sequence[str]) -> CodeBlock:
    """Return the fields that a proposal wants to be volatile, each with a finding."""
    lines = [_readable_field(p, is_volatile=True) for p in spec.parameters() if p.name in names]
    findings = tuple(
        Finding(
            REQUEST, Category.TAMPERING, RiskLevel.HIGH, Span(number, 0, number, len(line)), line,
            "It asks standing approvals and recorded decisions to ignore this field. An approval for one value would "
            "then cover every value.",
            "Accept it only if no value of the field can matter.", 1.0,
        )
        for number, line in enumerate(lines, 1)
    )  # fmt: skip
    return CodeBlock("Requested volatile fields", "\n".join(lines), findings)


class PendingHandler(Proposal):
    """A proposed handler. Its code is compiled and run only after approval."""

    in_view = frozenset({"handler"})

    def __init__(self, spec: HandlerSpec, *, approved: HandlerSpec | None = None, **options: Any) -> None:
        super().__init__(ACTIVATE_HANDLER, fields={"handler": spec.to_json()}, **options)
        self._approved = approved

    @property
    def spec(self) -> HandlerSpec:
        """The proposed handler, read from the fields, which the fingerprint binds."""
        return HandlerSpec.from_json(self.fields["handler"])

    @property
    def title(self) -> str:
        """The title of the panel. It names the operation."""
        spec = self.spec
        verb = "Activate" if self._approved is None else "Replace"
        return f"{verb} handler {spec.name} of {spec.operation}"

    def binding(self) -> Subject:
        """Bind the whole handler."""
        spec = self.spec
        return Subject("handler", f"{spec.operation}/{spec.name}", spec.spec_hash, {})

    def why(self) -> str:
        """Explain the reason for the request."""
        return f"It would decide about each firing of {self.spec.operation!r} instead of you."

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code, after the difference to the last approved version, if there is one."""
        code = self.tract.operations.advice.block(self.spec.action)
        if self._approved is None:
            return (code,)
        old, new = (one.code.removesuffix("\n").split("\n") for one in (self._approved, self.spec))
        changes = _changes(old, new, "approved")
        return (*changes_block("last approved", changes), code)

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the access of the code, or only the additional access compared with the last approved version."""
        spec, approved = self.spec, self._approved
        now = handler_reach(spec.operation, spec.action)
        can = self._abilities(spec.action, now)
        if approved is None:
            return (reach_table(None, now, ability_text(can)),)
        before = handler_reach(approved.operation, approved.action)
        return (reach_table(before, now, change_text(self._abilities(approved.action, before), can)),)

    def _abilities(self, code: ActionDef, reach: Reach) -> tuple[str, ...]:
        return abilities(self.tract.operations.advice.block(code).findings, reach)

    def statements(self) -> dict[str, str]:
        """Return the handler's name, description and operation."""
        spec = self.spec
        return {"operation": spec.operation, "name": spec.name, "description": spec.description}


def titles(name: str) -> tuple[str, str]:
    """Return the titles of an activation request: for a new operation, and for a replacement."""
    return f"Activate operation {name}", f"Replace operation {name}"


def activation_fingerprint(spec: OperationSpec) -> str:
    """Return the fingerprint for the approval of a spec. It binds the whole spec."""
    return fingerprint(*_activation(spec.name, spec.spec_hash)[:4])


def _activation(name: str, spec_hash: str) -> Subject:
    return Subject("activation", name, spec_hash, {})


def spec_diff(old: OperationSpec, new: OperationSpec) -> str:
    """Return a unified diff of two versions, in the notation of an operation cell. Empty if they are equal."""
    return _changes(_readable(old), _readable(new), "active")


def _readable(spec: OperationSpec) -> list[str]:
    lines = [f"operation {spec.name}  version {spec.version}  unhandled={spec.unhandled}", spec.description]
    lines += [] if spec.fires_on is None else [f"fires by itself {spec.fires_on}"]
    lines += ["in two stages: a model writes guidance first"] if spec.two_stage else []
    lines += [_readable_field(p, is_volatile=p.name in spec.volatile) for p in spec.parameters()]
    for action_def in spec.actions.values():
        lines += ["", *_readable_action(action_def)]
    return lines


def _readable_field(p: Parameter, *, is_volatile: bool) -> str:
    texts = [p.description, "volatile" if is_volatile else ""]
    about = f"  # {', '.join(filter(None, texts))}" if any(texts) else ""
    return f"{p.name}: {type_text(p.annotation)}{p.default_text}{about}"


def _readable_action(action_def: ActionDef) -> list[str]:
    body = [f"    {line}" for line in action_def.code.removesuffix("\n").split("\n")]
    where = "  # in the sandbox" if action_def.is_sandboxed else ""
    return [
        f"def {action_def.name}{action_def.parameters().signature_text('pending')}:{where}",
        f'    """{action_def.description}"""',
        *body,
    ]


def _field_rows(spec: OperationSpec) -> Iterator[ValueRow]:
    for p in spec.parameters():
        about = "volatile: standing approvals ignore it" if p.name in spec.volatile else ""
        meaning = "; ".join(filter(None, [p.description, about]))
        declared = (
            str(spec.fields[p.name].get("type", "Any")) if p.name in spec.fields else type_text(p.annotation)
        )
        if p.required:
            yield ValueRow(p.name, declared, "required", meaning)
        else:
            yield ValueRow.of(p.name, declared, p.default, meaning)
