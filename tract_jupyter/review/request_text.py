"""A request in plain text, for terminals, prompts and whatever shows no HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.analysis.source import split_lines
from tract_jupyter.models.text import printable
from tract_jupyter.review.findings_by_rule import by_rule, in_short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.review.request import CodeBlock, ValueTable
    from tract_jupyter.review.ticket import Ticket

SHORT_FINGERPRINT = 16
"""How many digits of a fingerprint a person is shown."""


def request_text(ticket: Ticket) -> str:
    """What a terminal shows, and a prompt before it asks: everything, code included, and nothing that would hide it."""
    request = ticket.request
    lines = [f"[{ticket.status}] {request.title}", request.summary, request.why]
    lines += [line for block in request.code for line in _block_lines(block)]
    lines += [line for table in request.tables for line in _table_lines(table)]
    lines += [request.note, f"fingerprint {request.fingerprint[:SHORT_FINGERPRINT]}"]
    return printable("\n".join(line for line in lines if line))


def how_to_decide(pending_id: str) -> str:
    """What is typed to look at a request and decide it, where there is no panel."""
    return f"%tract decide {pending_id[:8]}"


def block_text(block: CodeBlock) -> str:
    """A block of code as a terminal shows it, with its findings."""
    return printable("\n".join(line for line in _block_lines(block) if line))


def numbered_lines(block: CodeBlock) -> Iterator[tuple[int, str]]:
    """Each line as it stands in a listing, `>` before the one that asked, with its number.

    Lines are those that Python counts, as findings do.
    """
    for number, text in enumerate(split_lines(block.code.rstrip("\r\n")), block.first_line):
        mark = ">" if number == block.marked else " "
        yield number, f"{mark}{number:4}  {printable(text)}"


def _block_lines(block: CodeBlock) -> list[str]:
    lines = [f"{block.title}:", *_findings_lines(block), f"       {block.header}" if block.header else ""]
    by_line: dict[int, list[str]] = {}
    told: set[str] = set()
    for f in block.findings:
        remedy = "" if f.remedy in told else f" {f.remedy}"
        told.add(f.remedy)
        by_line.setdefault(f.span.line, []).append(f"       ^ {f.level.value} {f.code}: {f.reason}{remedy}")
    for number, line in numbered_lines(block):
        lines += [line, *by_line.get(number, [])]
    return lines


def _findings_lines(block: CodeBlock) -> list[str]:
    """The findings by rule, where there are too many to see at a glance, and what is said about the analysis."""
    rules = by_rule(block.findings)
    folded = rules if len(block.findings) > len(rules) else ()
    return [f"  {line}" for line in (*map(in_short, folded), block.analysis_note) if line]


def _table_lines(table: ValueTable) -> list[str]:
    rows = [
        f"  {row.name}: {row.type} = {row.value}{f'  # {row.description}' if row.description else ''}"
        for row in table.rows
    ]
    return [f"{table.title}:", *rows]
