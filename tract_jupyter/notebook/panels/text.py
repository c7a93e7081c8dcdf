"""A request and its record in plain text, for terminals, prompts and whatever shows no HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.notebook.panels.outcome import SHORT_FINGERPRINT, changed_values, foot_text, standing_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.review.request import CodeBlock
    from tract_jupyter.review.ticket import Ticket


def record_text(ticket: Ticket) -> str:
    """What was asked, and who decided what, when, on which fingerprint; code is only counted."""
    request = ticket.request
    lines = [f"[{ticket.status}] {request.title}", f"  {request.summary}" if request.summary else ""]
    for block in request.code:
        lines += [f"  {line}" for line in _block_in_short(block)]
    lines += [f"  {row.name}: {row.value}" for table in request.tables for row in table.rows if row.value]
    lines += [f"  changed {c.name}: {c.before} → {c.after}" for c in changed_values(ticket)]
    if ticket.output:
        lines += ["  printed:", *(f"    {line}" for line in ticket.output.splitlines())]
    if request.note:
        lines += [f"  {line}" for line in request.note.splitlines()]
    lines += [f"  {line}" for line in (standing_text(ticket), foot_text(ticket)) if line]
    return "\n".join(line for line in lines if line)


def request_text(ticket: Ticket) -> str:
    """What a terminal shows, and a prompt before it asks: everything, code included."""
    request = ticket.request
    lines = [f"[{ticket.status}] {request.title}", request.summary, request.why]
    for block in request.code:
        lines += ["", *_block_in_full(block)]
    lines += [f"  {row.name}: {row.type} = {row.value}" for table in request.tables for row in table.rows]
    lines += [request.note, f"fingerprint {request.fingerprint[:SHORT_FINGERPRINT]}"]
    return "\n".join(line for line in lines if line)


def _numbered(block: CodeBlock) -> Iterator[tuple[int, str]]:
    """Each line as it stands in a listing, `>` before the one that asked, with its number."""
    for number, text in enumerate(block.code.splitlines(), block.first_line):
        mark = ">" if number == block.marked else " "
        yield number, f"{mark}{number:4}  {text}"


def _block_in_short(block: CodeBlock) -> list[str]:
    if block.marked is not None:
        return [block.title, *(line for number, line in _numbered(block) if number == block.marked)]
    findings = [f"  line {f.span.line}: {f.level.value} {f.code} {f.reason}" for f in block.findings]
    return [f"{block.title}: {len(block.code.splitlines())} lines", *findings]


def _block_in_full(block: CodeBlock) -> list[str]:
    lines = [block.title, f"       {block.header}" if block.header else ""]
    by_line: dict[int, list[str]] = {}
    for f in block.findings:
        by_line.setdefault(f.span.line, []).append(
            f"       ^ {f.level.value} {f.code}: {f.reason} {f.remedy}"
        )
    for number, line in _numbered(block):
        lines += [line, *by_line.get(number, [])]
    return lines
