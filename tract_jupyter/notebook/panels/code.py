"""Code as HTML: one row a line, highlighted, under a list of the findings.

A line with findings ends with their rules, and their places are marked. Under it stands what matters most only, so that
code with many findings can still be read: the worst of each rule at a high level; all of them where they are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES, Token

from tract_jupyter.analysis import RiskLevel
from tract_jupyter.analysis.source import split_lines
from tract_jupyter.notebook.markup import escaped, heading
from tract_jupyter.notebook.panels.findings import findings_html
from tract_jupyter.review.findings_by_rule import by_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pygments.token import _TokenType

    from tract_jupyter.analysis import Finding
    from tract_jupyter.review.request import CodeBlock

_SHOWN_LINES = 400
_FEW = 4  # findings that leave the code readable with a note under each
Piece = tuple[str, str]
"""A CSS class and a text."""


def code_html(block: CodeBlock) -> str:
    """The block under its title. Everything is escaped, and what cannot be seen is marked."""
    lines = _highlight("\n".join(split_lines(block.code.rstrip("\r\n"))), block.language)
    rows = [_row("", _pieces_html(_highlight(block.header, "python")[0]), "tract-header")]
    rows = rows if block.header else []
    by_line: dict[int, list[Finding]] = {}
    last = block.first_line + len(lines) - 1
    for finding in block.findings:
        by_line.setdefault(min(finding.span.line, last), []).append(finding)
    noted = _noted(block.findings)
    for number, pieces in enumerate(lines, block.first_line):
        findings = by_line.get(number, [])
        if number < block.first_line + _SHOWN_LINES or findings or number == block.marked:
            rows.append(_line_html(number, pieces, findings, asked=number == block.marked))
            rows += [_finding_html(finding) for finding in findings if finding in noted]
    if len(lines) > _SHOWN_LINES:
        rows.append(_row("", f"… {len(lines) - _SHOWN_LINES:,} more lines", "tract-header"))
    label = f"{block.title}: code, {len(lines)} lines, {len(block.findings)} findings"
    return (
        f"{heading(block.title, 4, block.description)}{findings_html(block)}"
        f'<div class="tract-code" tabindex="0" role="region" aria-label="{escaped(label)}">{"".join(rows)}</div>'
    )


def _line_html(number: int, pieces: list[Piece], findings: list[Finding], *, asked: bool) -> str:
    worst = max((f.level for f in findings), default=None)
    marked = _mark(pieces, [f for f in findings if f.span.line == number])
    css = " ".join([*(["tract-asked"] if asked else []), *([f"tract-{worst.value}"] if worst else [])])
    return _row(
        str(number), marked, css, f"line {number}, which asked" if asked else "", _tags_html(findings)
    )


def _tags_html(findings: list[Finding]) -> str:
    """The rules that found something in a line; pointing at one tells what."""
    reasons: dict[tuple[str, RiskLevel], list[str]] = {}
    for finding in findings:
        reasons.setdefault((finding.code, finding.level), []).append(finding.reason)
    return "".join(
        f'<span class="tract-tag tract-{level.value}" title="{escaped(" ".join([f"{level}:", *dict.fromkeys(why)]))}">'
        f"{escaped(code)}</span>"
        for (code, level), why in reasons.items()
    )


def _noted(findings: tuple[Finding, ...]) -> set[Finding]:
    """Those that are told under their line."""
    if len(findings) <= _FEW:
        return set(findings)
    return {rule.worst for rule in by_rule(findings) if rule.level >= RiskLevel.HIGH}


def _row(number: str, content: str, css: str, label: str = "", tags: str = "") -> str:
    named = f' role="group" aria-label="{label}"' if label else ""
    return (
        f'<div class="tract-line {css}"{named}><span class="tract-number" aria-hidden="true">{number}</span>'
        f"<code>{content or ' '}</code>{tags}</div>"
    )


def _finding_html(finding: Finding) -> str:
    return (
        f'<div class="tract-finding tract-{finding.level.value}" role="note" data-code="{escaped(finding.code)}">'
        f"<b>{finding.level.value}</b> <code>{escaped(finding.code)}</code> line {finding.span.line}: "
        f"{escaped(finding.reason)}</div>"
    )


def _highlight(text: str, language: str) -> list[list[Piece]]:
    """The pieces of each line; a token that spans lines is cut at their ends."""
    lines: list[list[Piece]] = [[]]
    for kind, value in get_lexer_by_name(language, stripnl=False, ensurenl=False).get_tokens(text):
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append((_css(kind), part))
    return lines


def _css(kind: _TokenType) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent or Token
    return STANDARD_TYPES[kind]


def _mark(pieces: list[Piece], findings: Iterable[Finding]) -> str:
    """The line with the spans of findings underlined; spans that overlap are joined under the worst level."""
    spans = sorted((*_columns(f, pieces), f.level) for f in findings)
    joined: list[tuple[int, int, RiskLevel]] = []
    for start, end, level in spans:
        if joined and start < joined[-1][1]:
            first, last, worst = joined.pop()
            joined.append((first, max(end, last), max(level, worst)))
        elif end > start:
            joined.append((start, end, level))
    parts, position = [], 0
    for start, end, level in joined:
        parts.append(_pieces_html(_cut(pieces, position, start)))
        parts.append(f'<mark class="tract-{level.value}">{_pieces_html(_cut(pieces, start, end))}</mark>')
        position = end
    return "".join(parts) + _pieces_html(_cut(pieces, position, None))


def _columns(finding: Finding, pieces: list[Piece]) -> tuple[int, int]:
    length = sum(len(text) for _, text in pieces)
    span = finding.span
    end = span.end_column if span.end_line == span.line else length
    return min(span.column, length), min(end, length)


def _cut(pieces: list[Piece], start: int, end: int | None) -> list[Piece]:
    cut, position = [], 0
    for css, text in pieces:
        first, last = max(start - position, 0), len(text) if end is None else min(end - position, len(text))
        if first < last:
            cut.append((css, text[first:last]))
        position += len(text)
    return cut


def _pieces_html(pieces: list[Piece]) -> str:
    return "".join(
        f'<span class="{css}">{escaped(text)}</span>' if css else escaped(text) for css, text in pieces
    )
