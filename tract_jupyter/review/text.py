"""A request in plain text, for terminals, prompts and whatever shows no HTML: all of it, in every form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models import counted, printable
from tract_jupyter.review.display import by_rule, in_short, shown_choice, shown_code, shown_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.models import PendingStatus
    from tract_jupyter.review.display import DisplayedPiece, ShownCode
    from tract_jupyter.review.request import CodeBlock, ReviewRequest, TextChoice, ValueTable

SHORT_FINGERPRINT = 8
"""The number of digits of a fingerprint that a person is shown."""


def request_text(request: ReviewRequest, status: PendingStatus | str = "pending") -> str:
    """Return all of a request as plain text, code included, with nothing that would hide a part."""
    lines = [f"[{status}] {request.title}", request.summary, request.why]
    lines += [line for block in request.code for line in _block_lines(block)]
    lines += [line for choice in request.choices for line in _choice_lines(choice, request)]
    lines += [line for table in request.tables for line in _table_lines(table, request)]
    lines += [request.note, f"fingerprint {request.fingerprint[:SHORT_FINGERPRINT]}"]
    lines += [f"{how_to_decide(request.pending_id)} decides it, here or in another notebook on this store"]
    return printable("\n".join(line for line in lines if line))


def bound_lines(request: ReviewRequest) -> Iterator[str]:
    """Yield what an approval binds to, for the record: all code, without notes about its lines, and all values."""
    for block in request.code:
        code = shown_code(block)
        if block.binds == "nothing":
            marked = [line for number, line in _numbered(block, code) if number == block.marked]
            yield from (
                [block.title, *marked] if marked else [f"{block.title}: {counted(len(code.lines), 'line')}"]
            )
            continue
        findings = [f"  {in_short(rule)}" for rule in by_rule(block.findings)]
        yield from (f"{block.title}: {counted(len(code.lines), 'line')}", *findings, *_over(block, code))
        for (_, line), shown in zip(_numbered(block, code), code.lines, strict=True):
            yield from (line, *_hidden(shown.hidden))
    for choice in request.choices:
        yield from _choice_lines(choice, request)
    for table in request.tables:
        if table.binds == "nothing" and table.rows:  # or an expression would look like one more value
            yield f"{table.title}: {table.summary}".rstrip()
        for row in shown_rows(table, request.pending_id):
            kind, about = _joined(row.type), _joined(row.description)
            said = [kind, about] if table.binds == "rows" else []
            yield f"{_joined(row.name)}: {_joined(row.value)}{''.join(f'  # {text}' for text in said if text)}"


def how_to_decide(pending_id: str) -> str:
    """Return the command that shows a request and decides it, where there is no panel."""
    return f"%tract decide {pending_id[:8]}"


def block_text(block: CodeBlock) -> str:
    """Write a block of code as a terminal shows it, with its findings."""
    return printable("\n".join(line for line in _block_lines(block) if line))


def _numbered(block: CodeBlock, code: ShownCode) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, as in a listing; `>` marks the one that asked."""
    for number, pieces, _ in code.lines:
        mark = ">" if number == block.marked else " "
        yield number, f"{mark}{number:4}  {_joined(pieces)}"


def _over(block: CodeBlock, code: ShownCode) -> list[str]:
    """Yield the lines above the code."""
    about = [f"  {_joined(code.description)}"] if code.description else []
    note = [f"  {block.analysis_note}"] if block.analysis_note else []
    return [*about, *note, *([f"       {_joined(code.header)}"] if code.header else [])]


def _block_lines(block: CodeBlock) -> list[str]:
    code = shown_code(block)
    lines = [f"{block.title}:", *_findings_lines(block), *_over(block, code)]
    by_line: dict[int, list[str]] = {}
    told: set[str] = set()
    for f in block.findings:
        remedy = "" if f.remedy in told else f" {f.remedy}"
        told.add(f.remedy)
        by_line.setdefault(f.span.line, []).append(f"       ^ {f.level.value} {f.code}: {f.reason}{remedy}")
    for (number, line), shown in zip(_numbered(block, code), code.lines, strict=True):
        lines += [line, *by_line.get(number, []), *_hidden(shown.hidden)]
    return lines


def _hidden(note: str) -> list[str]:
    """Return the note below a line of code about the marks in it, if there is one."""
    return [f"       ^ {note}"] if note else []


def _findings_lines(block: CodeBlock) -> list[str]:
    """Yield the findings by rule, where there are too many to see at a glance."""
    rules = by_rule(block.findings)
    return [f"  {in_short(rule)}" for rule in rules] if len(block.findings) > len(rules) else []


def _choice_lines(choice: TextChoice, request: ReviewRequest) -> Iterator[str]:
    """Yield both texts, and what is decided; a text that is left out has no lines."""
    shown = shown_choice(choice, request.pending_id)
    yield f"{choice.title} ({choice.name}): {choice.said}"
    for side, text, lines in zip(choice.sides, (choice.ours, choice.theirs), shown, strict=False):
        yield f"  {side}{' leaves it out' if text is None else ':'}"
        yield from (f"    | {line.text}" for line in lines)
    if shown.other:
        yield "  it becomes:"
        yield from (f"    | {line.text}" for line in shown.other)


def _table_lines(table: ValueTable, request: ReviewRequest) -> list[str]:
    rows = []
    for row in shown_rows(table, request.pending_id):
        about = f"  # {_joined(row.description)}" if row.description else ""
        of_type = f"{_joined(row.type)} = " if row.type else ""
        rows.append(f"  {_joined(row.name)}: {of_type}{_joined(row.value)}{about}")
    return [f"{table.title}: {table.summary}".rstrip(), *rows]


def _joined(pieces: Iterable[DisplayedPiece]) -> str:
    return "".join(piece.text for piece in pieces)
