"""A request in plain text, for terminals, prompts, records and other places without HTML.

There are two forms of each piece of a `RequestView`: in full, as a user reads it before deciding, and for the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.models import PendingStatus, counted, exact_time, printable
from tract_jupyter.review.display import by_rule, in_short, pieces_text, shown_choice, shown_code, shown_rows
from tract_jupyter.review.effect_lines import detail_lines, list_effects
from tract_jupyter.review.request import CodeBlock, TextChoice, ValueTable, how_to_decide
from tract_jupyter.review.view import (
    SHORT_FINGERPRINT,
    CodeOutput,
    EffectsPiece,
    Paragraph,
    ValueComparison,
    bound_pieces,
    view_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.rehearsal import Effects
    from tract_jupyter.review.channel import Ticket
    from tract_jupyter.review.display import ShownCode
    from tract_jupyter.review.request import ReviewRequest
    from tract_jupyter.review.view import Decided, Piece, RequestView


def request_text(request: ReviewRequest, status: PendingStatus | str = "pending") -> str:
    """Return the complete request as plain text, including code. Nothing in the text can hide a part."""
    lines = [f"[{status}] {request.title}", "" if request.effects else request.summary, request.why]
    for piece in bound_pieces(request):
        lines += _full_lines(piece.content, request.pending_id)
    lines += [request.note, f"fingerprint {request.fingerprint[:SHORT_FINGERPRINT]}", _how_to_decide(request)]
    return printable("\n".join(line for line in lines if line))


def record_text(ticket: Ticket) -> str:
    """Return the complete request and its decision: decider, time and fingerprint."""
    view = view_request(ticket)
    summary = "" if view.request.effects else view.request.summary
    lines = [summary, *_body_lines(view), foot_text(view)]
    lines += [_how_to_decide(view.request)] if view.is_open else []
    text = "\n".join([f"[{view.status}] {view.request.title}", *(f"  {line}" for line in lines if line)])
    return printable(text)


def _body_lines(view: RequestView) -> Iterator[str]:
    """Yield the body for the record: all code, without notes about its lines, all values, and the outcome."""
    for piece in view.body:
        yield from _PIECES[type(piece.content)](piece.content, view.request.pending_id)


def bound_lines(request: ReviewRequest) -> Iterator[str]:
    """Yield only the lines of the record that an approval binds to."""
    for piece in bound_pieces(request):
        yield from _PIECES[type(piece.content)](piece.content, request.pending_id)


def foot_text(view: RequestView) -> str:
    """Return the decision with its reason, and the fingerprint of the decision or the request."""
    pinned = f"fingerprint {view.fingerprint[:SHORT_FINGERPRINT]}"
    if view.decided is None:
        return pinned
    reason = f": {view.decided.reason}" if view.decided.reason else ""
    return f"{decided_text(view.decided)}{reason} · {pinned}"


def decided_text(decided: Decided) -> str:
    """Return the decider, the channel and the time."""
    return f"{decided.by}, {exact_time(decided.at)}"


def block_text(block: CodeBlock) -> str:
    """Return a block of code with its findings, for a terminal."""
    return printable("\n".join(line for line in _block_lines(block) if line))


def _how_to_decide(request: ReviewRequest) -> str:
    return f"{how_to_decide(request.pending_id)} decides it, here or in another notebook on this store"


def _full_lines(piece: Piece, pending_id: str) -> list[str]:
    """Return code with the findings under its lines, or values with their types. Other pieces look as in the record."""
    if isinstance(piece, CodeBlock):
        return _block_lines(piece)
    if isinstance(piece, ValueTable):
        return _table_lines(piece, pending_id)
    if isinstance(piece, EffectsPiece):
        return _effects_text(piece.effects)
    return list(_PIECES[type(piece)](piece, pending_id))


def _record_block(block: CodeBlock, pending_id: str) -> Iterator[str]:  # noqa: ARG001
    code = shown_code(block)
    if block.binds == "nothing":
        marked = [line for number, line in _numbered(block, code) if number == block.marked]
        yield from (
            [block.title, *marked] if marked else [f"{block.title}: {counted(len(code.lines), 'line')}"]
        )
        return
    findings = [f"  {in_short(rule)}" for rule in by_rule(block.findings)]
    yield from (f"{block.title}: {counted(len(code.lines), 'line')}", *findings, *_lines_above(block, code))
    for (_, line), code_line in zip(_numbered(block, code), code.lines, strict=True):
        yield from (line, *_hidden(code_line.hidden))


def _record_table(table: ValueTable, pending_id: str) -> Iterator[str]:
    if (
        table.binds == "nothing" and table.rows
    ):  # without the title, an expression would look like another value
        yield f"{table.title}: {table.summary}".rstrip()
    for row in shown_rows(table, pending_id):
        notes = [pieces_text(row.type), pieces_text(row.description)] if table.binds == "rows" else []
        yield f"{pieces_text(row.name)}: {pieces_text(row.value)}{''.join(f'  # {text}' for text in notes if text)}"


def _record_changes(piece: ValueComparison, pending_id: str) -> Iterator[str]:  # noqa: ARG001
    yield from (f"changed {change.name}: {change.before} → {change.after}" for change in piece.changes)


def _record_output(piece: CodeOutput, pending_id: str) -> Iterator[str]:  # noqa: ARG001
    if not piece.is_result:
        yield from (f"{piece.title.lower()}:", *(f"  {line}" for line in piece.text.splitlines()))


def _record_paragraph(piece: Paragraph, pending_id: str) -> Iterator[str]:  # noqa: ARG001
    yield from piece.text.splitlines()


def _numbered(block: CodeBlock, code: ShownCode) -> Iterator[tuple[int, str]]:
    """Yield each line with its number. `>` marks the line that asked."""
    for number, pieces, _ in code.lines:
        mark = ">" if number == block.marked else " "
        yield number, f"{mark}{number:4}  {pieces_text(pieces)}"


def _lines_above(block: CodeBlock, code: ShownCode) -> list[str]:
    """Return the lines above the code."""
    about = [f"  {pieces_text(code.description)}"] if code.description else []
    note = [f"  {block.analysis_note}"] if block.analysis_note else []
    return [*about, *note, *([f"       {pieces_text(code.header)}"] if code.header else [])]


def _block_lines(block: CodeBlock) -> list[str]:
    code = shown_code(block)
    lines = [f"{block.title}:", *_findings_lines(block), *_lines_above(block, code)]
    by_line: dict[int, list[str]] = {}
    remedies: set[str] = set()
    for f in block.findings:
        remedy = "" if f.remedy in remedies else f" {f.remedy}"
        remedies.add(f.remedy)
        by_line.setdefault(f.span.line, []).append(f"       ^ {f.level.value} {f.code}: {f.reason}{remedy}")
    for (number, line), code_line in zip(_numbered(block, code), code.lines, strict=True):
        lines += [line, *by_line.get(number, []), *_hidden(code_line.hidden)]
    return lines


def _hidden(note: str) -> list[str]:
    """Return the note about marks below a line of code, if there is one."""
    return [f"       ^ {note}"] if note else []


def _findings_lines(block: CodeBlock) -> list[str]:
    """Return the findings grouped by rule, if there are more findings than rules."""
    rules = by_rule(block.findings)
    return [f"  {in_short(rule)}" for rule in rules] if len(block.findings) > len(rules) else []


def _choice_lines(choice: TextChoice, pending_id: str) -> Iterator[str]:
    """Yield both texts and the choice. An omitted text has no lines."""
    pieces = shown_choice(choice, pending_id)
    yield f"{choice.title} ({choice.name}): {choice.said}"
    for side, text, lines in zip(choice.sides, (choice.ours, choice.theirs), pieces, strict=False):
        yield f"  {side}{' leaves it out' if text is None else ':'}"
        yield from (f"    | {line.text}" for line in lines)
    if pieces.other:
        yield "  it becomes:"
        yield from (f"    | {line.text}" for line in pieces.other)


def _table_lines(table: ValueTable, pending_id: str) -> list[str]:
    rows = []
    for row in shown_rows(table, pending_id):
        about = f"  # {pieces_text(row.description)}" if row.description else ""
        of_type = f"{pieces_text(row.type)} = " if row.type else ""
        rows.append(f"  {pieces_text(row.name)}: {of_type}{pieces_text(row.value)}{about}")
    return [f"{table.title}: {table.summary}".rstrip(), *rows]


def _record_effects(piece: EffectsPiece, pending_id: str) -> Iterator[str]:  # noqa: ARG001
    yield from _effects_text(piece.effects, details=False)


_MOST_OUTPUT = 2_000  # characters of the output in a request


def _effects_text(effects: Effects, *, details: bool = True) -> list[str]:
    """Return the effects: a sentence, one line for each effect with its details, and the output."""
    shown = list_effects(effects)
    lines = [effects.headline]
    for line in (*shown.lines, *shown.more):
        lines.append(f"  {line.mark} {line.name}  {line.text}".rstrip())
        lines += [f"      {text}" for text in detail_lines(line)] if details else []
    output = effects.text(_MOST_OUTPUT).rstrip("\n")
    return lines + (["output:", *(f"  {text}" for text in output.split("\n"))] if output else [])


_PIECES: dict[type[Piece], Callable[[Any, str], Iterator[str]]] = {
    EffectsPiece: _record_effects,
    CodeBlock: _record_block,
    TextChoice: _choice_lines,
    ValueTable: _record_table,
    ValueComparison: _record_changes,
    CodeOutput: _record_output,
    Paragraph: _record_paragraph,
}
"""The writers of each kind of piece for the record."""
