"""Code as HTML: one row a line, highlighted; it wraps, so that nothing hides at the right.

A line with findings has a mark in the margin and ends with their rules, and their places are underlined. Under it
stands what matters most only, so that code with many findings can still be read: the worst of each rule at a high
level; all of them where they are few. The list of all of them is folded above.
A line is one row, a long one several, each of which says by its key whether it was on display.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from pygments.lexer import inherit, words
from pygments.lexers import get_lexer_by_name
from pygments.lexers.python import PythonLexer
from pygments.regexopt import regex_opt
from pygments.token import STANDARD_TYPES, Name, Number, Punctuation, Token

from tract_jupyter.analysis import RULES, RiskLevel
from tract_jupyter.models import counted
from tract_jupyter.notebook.views.diff import side_by_side
from tract_jupyter.notebook.views.html import OWN_KEYS, escaped, pieces_html
from tract_jupyter.notebook.views.styles import LOOK
from tract_jupyter.review import by_rule, lines_text, rule_words, shown_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pygments.lexer import Lexer
    from pygments.token import _TokenType

    from tract_jupyter.analysis import Finding, Rule
    from tract_jupyter.review import CodeBlock, DisplayedPiece, Occurrence, RuleFindings, ShownLine


STATIC_STYLES = (LOOK, "panels/record.css")
"""The style sheets of whatever shows code and values."""

_SHOWN_PLACES = 12


def findings_html(block: CodeBlock) -> str:
    """Return the findings in one line that unfolds to a row for each rule, and what is to be said of the analysis."""
    note = f'<p class="dim">{escaped(block.analysis_note)}</p>' if block.analysis_note else ""
    if not block.findings:
        return note
    rows = "".join(_rule_html(rule, block.title) for rule in by_rule(block.findings))
    part, label = escaped(f"{block.title} findings"), escaped(f"Findings in {block.title}")
    return (
        f'<details class="more findings" data-part="{part}"><summary {OWN_KEYS}><i class="chev"></i>'
        f'{_count_html(block)}</summary><div class="list" role="group" aria-label="{label}">{rows}</div>'
        f"</details>{note}"
    )


def chip_html(level: RiskLevel, text: str = "") -> str:
    """Return a level as a word on its colour."""
    return f'<span class="chip {level.value}">{escaped(text or level.value)}</span>'


def sub_html(text: str, about: str | Iterable[DisplayedPiece] = "") -> str:
    """Return the heading of a part of a request, with a note behind it."""
    said = escaped(about) if isinstance(about, str) else pieces_html(about)
    more = f" <small>{said}</small>" if said else ""
    return f'<div class="sub" role="heading" aria-level="4">{escaped(text)}{more}</div>'


def _count_html(block: CodeBlock) -> str:
    counts = Counter(finding.level for finding in block.findings)
    total = len(block.findings)
    chips = " ".join(
        chip_html(level, f"{counts[level]} {level}") for level in reversed(RiskLevel) if counts[level]
    )
    return f"<span>{counted(total, 'finding')}:</span> {chips}"


def _rule_html(rule: RuleFindings, title: str) -> str:
    part = escaped(f"{title} {rule.code}")
    return (
        f'<details class="row rule" data-part="{part}" data-code="{escaped(rule.code)}"><summary {OWN_KEYS}>'
        f'<i class="chev"></i>{chip_html(rule.level)} <code>{escaped(rule.code)}</code> '
        f'<span class="cut">{_what(rule)}</span> <span class="num">{rule.where}</span></summary>'
        f'<div class="body"><p>{_what(rule)}.</p>{_reasons_html(rule)}{_page_html(rule, part)}</div></details>'
    )


def _what(rule: RuleFindings) -> str:
    return escaped(rule_words(rule))


def _reasons_html(rule: RuleFindings) -> str:
    reasons = "".join(
        f"<li>{escaped(reason.text)}{'' if reason.level == rule.level else ' ' + chip_html(reason.level)}"
        f'<ul class="dim">{_places_html(reason.places)}</ul></li>'
        for reason in rule.reasons()
    )
    remedies = dict.fromkeys(finding.remedy for finding in rule.findings if finding.remedy)
    instead = "".join(f"<p><b>Instead:</b> {escaped(remedy)}</p>" for remedy in remedies)
    return f"<ul>{reasons}</ul>{instead}"


def _places_html(places: Iterable[Occurrence]) -> str:
    shown = [f"<li>{lines_text(place.lines)}: <code>{escaped(place.text)}</code></li>" for place in places]
    more = len(shown) - _SHOWN_PLACES
    return "".join(shown[:_SHOWN_PLACES]) + (f"<li>… {more:,} more</li>" if more > 0 else "")


def _page_html(rule: RuleFindings, part: str) -> str:
    known = RULES.get(rule.code)
    if known is None:
        return ""
    return (
        f'<details class="more" data-part="{part} page"><summary {OWN_KEYS}><i class="chev"></i>About rule '
        f"{escaped(rule.code)} {escaped(known.name)}</summary>{page_html(known)}</details>"
    )


_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_HEADING = re.compile(r"#+ (.*)")


@cache
def page_html(rule: Rule) -> str:
    """Return everything that the page says, everything escaped."""
    parts = []
    # of a split by one group, every second part is what the group found
    for number, part in enumerate(_FENCED.split(rule.manual())):
        parts.append(f'<pre class="out">{_as_typed(part)}</pre>' if number % 2 else _prose_html(part))
    return f'<div class="page">{"".join(parts)}</div>'


def _prose_html(text: str) -> str:
    """Return headings and paragraphs; a heading may stand right above its paragraph."""
    parts = []
    for block in filter(None, re.split(r"\n{2,}|(?<=\n)(?=#+ )", text.strip("\n"))):
        first, _, rest = block.partition("\n")
        title = _HEADING.fullmatch(first)
        parts.append(
            f'<div class="sub" role="heading" aria-level="5">{escaped(title[1])}</div>' if title else ""
        )
        paragraph = (rest if title else block).strip()
        parts.append(f"<p>{_inline_html(paragraph)}</p>" if paragraph else "")
    return "".join(parts)


def _inline_html(text: str) -> str:
    parts, position = [], 0
    for found in _CODE.finditer(text):
        parts += [escaped(text[position : found.start()]), f"<code>{escaped(found[2])}</code>"]
        position = found.end()
    return "".join([*parts, escaped(text[position:])])


def _as_typed(code: str) -> str:
    return escaped(code.rstrip("\n"))


_FEW = 4  # findings that leave the code readable with a note under each
Piece = tuple[str, str]
"""A CSS class and a text."""


def is_listed(block: CodeBlock) -> bool:
    """Return True if only the list has all findings: there are too many for a note under each line."""
    return len(block.findings) > _FEW


def code_html(block: CodeBlock, named: str = "", *, listed: bool = True) -> str:
    """Return the block under its title, all of it. Everything is escaped, and what cannot be seen is marked.

    A difference stands side by side, where nothing is approved by it.

    Args:
        block: the code.
        named: the value that the code is, which may be changed there. No title stands over it, unless it is a text.
        listed: with the list of findings, even if each has a note under its line.
    """
    shown = shown_code(block)
    title = sub_html(block.title, shown.description)
    if block.language == "diff" and block.binds == "nothing":
        return f"{title}{side_by_side(block.code)}"
    texts = ["".join(piece.text for piece in line.pieces) for line in shown.lines]
    lines = highlighted("\n".join(texts), block.language)
    rows = [_row("", piece.key, escaped(piece.text), "", kind="dim") for piece in shown.header]
    by_line: dict[int, list[Finding]] = {}
    last = block.first_line + len(lines) - 1
    for finding in block.findings:
        by_line.setdefault(min(finding.span.line, last), []).append(finding)
    noted = _noted(block.findings, is_script=bool(named))
    for line, pieces in zip(shown.lines, lines, strict=True):
        findings = by_line.get(line.number, [])
        rows += _line_html(line, pieces, findings, asked=line.number == block.marked)
        rows += [_finding_html(finding) for finding in findings if finding in noted]
        rows += [_hidden_html(line.hidden)] if line.hidden else []
    what = "text" if block.language == "text" else "code"
    label = f"{block.title}: {what}, {counted(len(lines), 'line')}, {counted(len(block.findings), 'finding')}"
    name = f' data-name="{escaped(named)}" data-what="{what}"' if named else ""
    code = (
        f'<div class="code" {OWN_KEYS}{name} tabindex="0" role="region" aria-label="{escaped(label)}">'
        f"{''.join(rows)}</div>"
    )
    found = findings_html(block) if listed or is_listed(block) else ""
    return f"{code}{found}" if named and what == "code" else f"{title}{found}{code}"


def _line_html(
    line: ShownLine, pieces: tuple[Piece, ...], findings: list[Finding], *, asked: bool
) -> list[str]:
    """Return a row for each piece of the line: the first has its number, the last the rules that found something."""
    worst = max((f.level for f in findings), default=None)
    spans = _joined(pieces, [f for f in findings if f.span.line == line.number])
    css = " ".join([*(["asks"] if asked else []), *([f"mark {worst.value}"] if worst else [])])
    label = f"line {line.number}, which asked" if asked else ""
    rows: list[str] = []
    position = 0
    for text, key in line.pieces:
        marked = _mark(pieces, spans, position, position + len(text))
        number = "↪" if position else str(line.number)
        position += len(text)
        tags = _tags_html(findings) if len(rows) + 1 == len(line.pieces) else ""
        rows.append(_row(number, key, marked, css, label, tags))
    return rows


def _tags_html(findings: list[Finding]) -> str:
    """Return the rules that found something in a line; pointing at one tells what."""
    reasons: dict[tuple[str, RiskLevel], list[str]] = {}
    for finding in findings:
        reasons.setdefault((finding.code, finding.level), []).append(finding.reason)
    tags = " ".join(
        f'<span class="chip {level.value}" title="{escaped(" ".join([f"{level}:", *dict.fromkeys(why)]))}">'
        f"{escaped(code)}</span>"
        for (code, level), why in reasons.items()
    )
    return f'<span class="tag">{tags}</span>' if tags else ""


def _noted(findings: tuple[Finding, ...], *, is_script: bool) -> set[Finding]:
    """Return the findings that are explained under their line. The row of a script names the files that it uses."""
    if len(findings) <= _FEW:
        return {one for one in findings if not (is_script and _is_file_in_row(one))}
    return {rule.worst for rule in by_rule(findings) if rule.level >= RiskLevel.HIGH}


def _is_file_in_row(finding: Finding) -> bool:
    is_import = finding.reason.startswith("Imports ")
    return finding.code in {"TJ201", "TJ202"} and finding.level is RiskLevel.LOW and not is_import


def _row(
    number: str, key: str, content: str, css: str, label: str = "", tags: str = "", kind: str = ""
) -> str:
    named = f' role="group" aria-label="{label}"' if label else ""
    look = f' class="{css}"' if css else ""
    line = f' data-line="{key}"' if key else ""
    return (
        f'<div{look}{named}><span class="n" aria-hidden="true">{number}</span>'
        f'<span class="{f"c {kind}" if kind else "c"}"{line}>{content or " "}</span>{tags}</div>'
    )


def _finding_html(finding: Finding) -> str:
    return (
        f'<div class="mark {finding.level.value}" role="note" data-code="{escaped(finding.code)}"><span class="says">'
        f"<b>{finding.level.value}</b> {escaped(finding.reason)}</span></div>"
    )


def _hidden_html(note: str) -> str:
    return f'<div class="mark high" role="note"><span class="says">{escaped(note)}</span></div>'


_WITH_A_LOOK = {
    *("lazy", "self", "cls", "Ellipsis", "NotImplemented", *keyword.kwlist, *keyword.softkwlist),
    *(
        word
        for state in ("keywords", "expr-keywords", "builtins")
        for rule in PythonLexer.tokens[state]
        if isinstance(rule, tuple) and isinstance(rule[0], words)
        for word in rule[0].words
    ),
}
"""Words of Python that Pygments may show in another way than a plain name."""


class _QuickPythonLexer(PythonLexer):
    """Pygments' lexer of Python, which finds what has no look of its own at once.

    Most of a text is names, spaces and signs; Pygments tries some forty patterns on each of them before the one that
    fits. At the beginning of a line everything is left to Pygments.
    """

    tokens = {  # noqa: RUF012 # the form that Pygments wants
        "root": [
            (r"(?<=\S)(?:[ \t\[\](){},:;=+*/%<>&|^~!-]|\.(?!\d))+", Punctuation),
            (rf"(?!{regex_opt(_WITH_A_LOOK)}\b)[A-Za-z_]\w*(?![\w\"'])", Name),
            (r"\d+(?![\w.])", Number.Integer),
            inherit,
        ]
    }


@cache
def _lexer(language: str) -> Lexer:
    options = {"stripnl": False, "ensurenl": False}
    return _QuickPythonLexer(**options) if language == "python" else get_lexer_by_name(language, **options)


@lru_cache(maxsize=64)
def highlighted(text: str, language: str) -> tuple[tuple[Piece, ...], ...]:
    """Return the pieces of each line; a token that spans lines is cut at their ends.

    Neighbours that look the same are one piece. The result is kept, since a request is drawn as a panel, again for
    each answer, and as a record, while finding the tokens takes longer than all the rest.
    """
    lines: list[list[Piece]] = [[]]
    for kind, value in _lexer(language).get_tokens(text):
        css = _css(kind)
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                line = lines[-1]
                if line and line[-1][0] == css:
                    line[-1] = (css, line[-1][1] + part)
                else:
                    line.append((css, part))
    return tuple(map(tuple, lines))


_LOOKS: Final = {
    **dict.fromkeys(("k", "kn", "kc", "kd", "ow"), "k"),
    **dict.fromkeys(("s", "s1", "s2", "sa", "sd", "se", "si"), "s"),
    **dict.fromkeys(("mi", "mf", "mh", "mo", "mb"), "m"),
    **dict.fromkeys(("nf", "nc"), "f"),
    **dict.fromkeys(("nb", "bp"), "b"),
    **dict.fromkeys(("c", "c1"), "o"),
    "gi": "gi",
    "gd": "gd",
    "gu": "o",
}
"""The class that our style sheets have for a class of Pygments."""


@cache
def _css(kind: _TokenType) -> str:
    """Return the class of a token, empty if it looks like plain text."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent or Token
    return _LOOKS.get(STANDARD_TYPES[kind], "")


def _joined(pieces: tuple[Piece, ...], findings: Iterable[Finding]) -> list[tuple[int, int, RiskLevel]]:
    """Return the spans of findings in a line; those that overlap are joined under the worst level."""
    spans = sorted((*_columns(f, pieces), f.level) for f in findings)
    joined: list[tuple[int, int, RiskLevel]] = []
    for start, end, level in spans:
        if joined and start < joined[-1][1]:
            first, last, worst = joined.pop()
            joined.append((first, max(end, last), max(level, worst)))
        elif end > start:
            joined.append((start, end, level))
    return joined


def _mark(pieces: tuple[Piece, ...], spans: list[tuple[int, int, RiskLevel]], first: int, last: int) -> str:
    """Return the columns from `first` to `last` of a line, with the spans in it underlined."""
    if not spans and not first and last == sum(len(text) for _, text in pieces):
        return _pieces_html(pieces)
    parts, position = [], first
    for first_column, last_column, level in spans:
        start, end = max(first_column, first), min(last_column, last)
        if start < end:
            parts.append(_pieces_html(_cut(pieces, position, start)))
            parts.append(f'<u class="{level.value}">{_pieces_html(_cut(pieces, start, end))}</u>')
            position = end
    return "".join(parts) + _pieces_html(_cut(pieces, position, last))


def _columns(finding: Finding, pieces: tuple[Piece, ...]) -> tuple[int, int]:
    length = sum(len(text) for _, text in pieces)
    span = finding.span
    end = span.end_column if span.end_line == span.line else length
    return min(span.column, length), min(end, length)


def _cut(pieces: tuple[Piece, ...], start: int, end: int) -> Iterator[Piece]:
    """Yield what of the pieces stands between two columns."""
    position = 0
    for css, text in pieces:
        first, last = max(start - position, 0), min(end - position, len(text))
        if first < last:
            yield css, text[first:last]
        position += len(text)


def _pieces_html(pieces: Iterable[Piece]) -> str:
    """Return the pieces as HTML; what cannot be shown is a mark in their text already."""
    return "".join(
        f'<span class="{css}">{escaped(text)}</span>' if css else escaped(text) for css, text in pieces
    )
