"""What `%%tract_operation` does with a cell: parse, then show for review or, for a person's own code, activate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.display import display

from tract_jupyter.exceptions import SpecError
from tract_jupyter.hooks.builtin.activation import spec_diff
from tract_jupyter.hooks.dynamic.pending import definition_of
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.notebook.cell_syntax import ParsedCell, parse_cell
from tract_jupyter.notebook.display import Grid, View
from tract_jupyter.review.findings_by_rule import by_rule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from tract_jupyter.hooks.advice import Advice
    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.tract import Tract


def define(
    session: Session, name: str, text: str, *, form: str, activate: bool, ask: bool, sandbox: bool, wait: bool
) -> Awaitable[None] | None:
    """Define an operation from a cell's text.

    Returns:
        With `wait` something to await for the decision, which raises `UsageError` if that is no; else None.

    Raises:
        SpecError: with the line of the cell; nothing was registered.
    """
    parsed = parse_cell(name, text, form).with_options(ask=ask, sandbox=sandbox)
    try:
        pending = _begin(session.tract, parsed, activate=activate)
    except SpecError as error:
        raise parsed.in_cell(error) from None
    return _activated_or_stop(pending) if wait else None


def _begin(tract: Tract, parsed: ParsedCell, *, activate: bool) -> Pending | None:
    """Activate or show for review; returns what is left to decide."""
    if _is_active(tract, parsed.spec):
        display(View(f"Operation {parsed.spec.name} is active already, in this very version."))
        return None
    if activate:
        _activate(tract, parsed)
        return None
    pending = tract.propose_operation(parsed.spec, triggered_by="a cell")
    tract.reviewer.show(pending)
    return pending


async def _activated_or_stop(pending: Pending | None) -> None:
    """Wait; a rejection stops "Run All" here rather than at the first use."""
    if pending is not None and (await pending).status is not PendingStatus.APPROVED:
        raise UsageError(f"{pending.title}: {pending.status} {pending.rejection_reason}".rstrip())


def _is_active(tract: Tract, spec: OperationSpec) -> bool:
    active = tract.operations.registry.reviewed_spec(spec.name)
    return active is not None and active.spec_hash == spec.spec_hash


def _activate(tract: Tract, parsed: ParsedCell) -> None:
    """Activate at once; what the analysis finds, and what changed, is shown all the same."""
    spec = parsed.spec
    before = tract.operations.registry.get_spec(spec.name)
    tract.operations.activate(spec, replace=True)
    display(_activated(parsed, before, tract.operations.advice))


def _activated(parsed: ParsedCell, before: OperationSpec | None, advice: Advice) -> View:
    spec = parsed.spec
    lines = [f"Fire it with %tract_fire {spec.name}, or as tools.fire_{spec.name}(...)."]
    lines += [advice.note] if advice.note else []
    if before is not None:
        lines += ["It replaces the version that was active:", *spec_diff(before, spec).splitlines()]
    grid = Grid(
        ("Line", "Level", "Rule", "Code", "Finding"),
        tuple(_finding_rows(parsed, advice)),
        "Findings",
        code=frozenset({"Rule", "Code"}),
    )
    return View(f"Operation {spec.name} is active", tuple(lines), (grid,))


def _finding_rows(parsed: ParsedCell, advice: Advice) -> Iterator[tuple[str, ...]]:
    """What was found in each action, a row for each rule, the worst first; lines are those of the cell, if any."""
    for name, action in parsed.spec.actions.items():
        before = parsed.first_lines.get(name, 1) - 1
        for rule in by_rule(
            advice.analyzer.analyze(action.code, definition=definition_of(parsed.spec, action)).findings
        ):
            numbers = ", ".join(map(str, dict.fromkeys(before + f.span.line for f in rule.findings)))
            place = numbers if parsed.first_lines else f"{name}: {numbers}"
            worst = rule.worst
            yield place, worst.level.value, worst.code, worst.text, f"{worst.reason} {worst.remedy}"
