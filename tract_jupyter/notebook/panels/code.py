"""Code as HTML: one highlighted row per line. Long lines wrap, so no code is hidden at the right.

A line with findings has a mark in the margin and ends with the codes of their rules, and the places are underlined.
Notes below a line show all findings if there are few, else only the worst of each rule at a high level, so code with
many findings stays readable. The folded list above has all findings.
A long line has several rows. The key of each row tells if it was on display.
"""

from __future__ import annotations

import keyword
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from pygments.lexer import inherit, words
from pygments.lexers import get_lexer_by_name
from pygments.lexers.python import PythonLexer
from pygments.regexopt import regex_opt
from pygments.token import STANDARD_TYPES, Name, Number, Punctuation, Token

from tract_jupyter.analysis import RiskLevel
from tract_jupyter.models import counted
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.diff import changed_words, side_by_side
from tract_jupyter.notebook.views.html import Html, element, fragment, pieces_html
from tract_jupyter.notebook.views.styles import LOOK
from tract_jupyter.review import by_rule, lines_text, rule_words, shown_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pygments.lexer import Lexer
    from pygments.token import _TokenType

    from tract_jupyter.analysis import Finding, Rule
    from tract_jupyter.notebook.views.html import HtmlPart
    from tract_jupyter.review import CodeBlock, Occurrence, RuleFindings, ShownLine


STATIC_STYLES = (LOOK, "panels/record.css")
"""The style sheets for code and values."""

_SHOWN_PLACES = 12


def findings_html(block: CodeBlock) -> Html:
    """Return the findings in one line that unfolds to a row for each rule, and the note about the analysis."""
    note = rows.dim(block.analysis_note) if block.analysis_note else None
    if not block.findings:
        return fragment(note)
    rules = [_rule_html(rule, block.title) for rule in by_rule(block.findings)]
    listed = element("div", rules, class_="list", role="group", aria_label=f"Findings in {block.title}")
    return fragment(
        rows.fold(_count_html(block), listed, look="findings", data_part=f"{block.title} findings"), note
    )


def chip_html(level: RiskLevel, text: str = "", title: str | None = None) -> Html:
    """Return a level as a word on its color."""
    return element("span", text or level.value, class_=f"chip {level.value}", title=title)


def _count_html(block: CodeBlock) -> HtmlPart:
    counts = Counter(finding.level for finding in block.findings)
    chips = (
        (" ", chip_html(level, f"{counts[level]} {level}")) for level in reversed(RiskLevel) if counts[level]
    )
    return element("span", f"{counted(len(block.findings), 'finding')}:"), chips


def _rule_html(rule: RuleFindings, title: str) -> Html:
    part, what = f"{title} {rule.code}", rule_words(rule)
    cells = (
        chip_html(rule.level),
        " ",
        element("code", rule.code),
        " ",
        element("span", what, class_="cut"),
        " ",
        rows.number(rule.where),
    )
    body = element("p", f"{what}."), _reasons_html(rule), _page_html(rule, part)
    return rows.row(cells, body, look="rule", data_part=part, data_code=rule.code)


def _reasons_html(rule: RuleFindings) -> HtmlPart:
    reasons = (
        element(
            "li",
            reason.text,
            None if reason.level == rule.level else (" ", chip_html(reason.level)),
            element("ul", _places_html(reason.places), class_="dim"),
        )
        for reason in rule.reasons()
    )
    remedies = dict.fromkeys(finding.remedy for finding in rule.findings if finding.remedy)
    instead = (element("p", element("b", "Instead:"), f" {remedy}") for remedy in remedies)
    return element("ul", reasons), instead


def _places_html(places: Iterable[Occurrence]) -> list[Html]:
    items = [element("li", f"{lines_text(place.lines)}: ", element("code", place.text)) for place in places]
    more = len(items) - _SHOWN_PLACES
    return [*items[:_SHOWN_PLACES], *([element("li", f"… {more:,} more")] if more > 0 else [])]


def _page_html(rule: RuleFindings, part: str) -> Html | None:
    from tract_jupyter.analysis import RULES

    known = RULES.get(rule.code)
    if known is None:
        return None
    return rows.fold(f"About rule {rule.code} {known.name}", page_html(known), data_part=f"{part} page")


@cache
def page_html(rule: Rule) -> Html:
    """Return the manual page of a rule."""
    from tract_jupyter.notebook.chat.markdown import markdown_html

    return element("div", markdown_html(rule.manual()), class_="page")


_FEW = 4  # the most findings with a note below each line
Piece = tuple[str, str]
"""A CSS class and a text."""


def is_listed(block: CodeBlock) -> bool:
    """Return True if there are too many findings for a note below each line."""
    return len(block.findings) > _FEW


def code_html(block: CodeBlock, named: str = "", *, listed: bool = True) -> Html:
    """Return the code below its title.

    A diff that an approval does not bind is drawn in two columns.

    Args:
        block: the code.
        named: the name of the value, if the user may change the code. It replaces the title, except for
            texts.
        listed: include the list of findings, even if each has a note below its line.
    """
    shown_block = shown_code(block)
    title = rows.sub(block.title, pieces_html(shown_block.description))
    if block.language == "diff" and block.binds == "nothing":
        return fragment(title, side_by_side(block.code))
    texts = ["".join(piece.text for piece in line.pieces) for line in shown_block.lines]
    lines = highlighted("\n".join(texts), block.language)
    if block.language == "diff":
        lines = _with_words(lines, changed_words(texts))
    drawn_rows = [_row("", piece.key, piece.text, "", kind="dim") for piece in shown_block.header]
    by_line: dict[int, list[Finding]] = {}
    last = block.first_line + len(lines) - 1
    for finding in block.findings:
        by_line.setdefault(min(finding.span.line, last), []).append(finding)
    noted = _noted(block.findings, is_script=bool(named))
    for line, pieces in zip(shown_block.lines, lines, strict=True):
        findings = by_line.get(line.number, [])
        drawn_rows += _line_html(line, pieces, findings, is_marked=line.number == block.marked)
        drawn_rows += [_finding_html(finding) for finding in findings if finding in noted]
        if line.hidden:
            hidden = element("span", line.hidden, class_="says")
            drawn_rows.append(element("div", hidden, class_="mark high", role="note"))
    what = "text" if block.language == "text" else "code"
    label = f"{block.title}: {what}, {counted(len(lines), 'line')}, {counted(len(block.findings), 'finding')}"
    code = element(
        "div",
        drawn_rows,
        class_="code",
        data_name=named or None,
        data_what=what if named else None,
        tabindex=0,
        role="region",
        aria_label=label,
    )
    findings_list = findings_html(block) if listed or is_listed(block) else None
    return fragment(code, findings_list) if named and what == "code" else fragment(title, findings_list, code)


def _line_html(
    line: ShownLine, pieces: tuple[Piece, ...], findings: list[Finding], *, is_marked: bool
) -> list[Html]:
    """Return a row for each piece of the line: the first has its number, the last the rules with findings."""
    worst = max((f.level for f in findings), default=None)
    spans = _joined(pieces, [f for f in findings if f.span.line == line.number])
    css = " ".join([*(["asks"] if is_marked else []), *([f"mark {worst.value}"] if worst else [])])
    label = f"line {line.number}, which asked" if is_marked else ""
    rows: list[Html] = []
    position = 0
    for text, key in line.pieces:
        marked = _mark(pieces, spans, position, position + len(text))
        number = "↪" if position else str(line.number)
        position += len(text)
        tags = _tags_html(findings) if len(rows) + 1 == len(line.pieces) else None
        rows.append(_row(number, key, marked, css, label, tags))
    return rows


def _tags_html(findings: list[Finding]) -> Html | None:
    """Return the rules with findings in a line, with the reasons as tooltips."""
    reasons: dict[tuple[str, RiskLevel], list[str]] = {}
    for finding in findings:
        reasons.setdefault((finding.code, finding.level), []).append(finding.reason)
    tags = Html(" ").join(
        chip_html(level, code, " ".join([f"{level}:", *dict.fromkeys(why)]))
        for (code, level), why in reasons.items()
    )
    return element("span", tags, class_="tag") if tags else None


def _noted(findings: tuple[Finding, ...], *, is_script: bool) -> set[Finding]:
    """Return the findings with a note below their line. The row of a script already names its files."""
    if len(findings) <= _FEW:
        return {finding for finding in findings if not (is_script and _is_file_in_row(finding))}
    return {rule.worst for rule in by_rule(findings) if rule.level >= RiskLevel.HIGH}


def _is_file_in_row(finding: Finding) -> bool:
    is_import = finding.reason.startswith("Imports ")
    return finding.code in {"TJ201", "TJ202"} and finding.level is RiskLevel.LOW and not is_import


def _row(
    number: str,
    key: str,
    content: HtmlPart,
    look: str,
    label: str = "",
    tags: Html | None = None,
    kind: str = "",
) -> Html:
    return element(
        "div",
        element("span", number, class_="n", aria_hidden="true"),
        element("span", content or " ", class_=("c", kind), data_line=key or None),
        tags,
        class_=look,
        role="group" if label else None,
        aria_label=label or None,
    )


def _finding_html(finding: Finding) -> Html:
    level = finding.level.value
    says = element("span", element("b", level), f" {finding.reason}", class_="says")
    return element("div", says, class_=f"mark {level}", role="note", data_code=finding.code)


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
"""Words of Python that Pygments may style differently from a plain name."""


class _QuickPythonLexer(PythonLexer):
    """Pygments' lexer of Python with shortcuts for unstyled tokens.

    Most tokens are names, spaces and punctuation. Pygments tries about forty patterns before the right one. At the
    start of a line, all patterns of Pygments apply.
    """

    tokens = {  # noqa: RUF012 # Pygments needs this form
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
    """Return the pieces of each line. Tokens that span lines are split, and neighbors of equal style are joined.

    The result is cached: a request is drawn several times, and lexing is the slowest part.
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


def _with_words(
    lines: tuple[tuple[Piece, ...], ...], words: dict[int, list[tuple[int, int]]]
) -> tuple[tuple[Piece, ...], ...]:
    marked = list(lines)
    for index, ranges in words.items():
        parts, position = list[Piece](), 0
        for start, end in ranges:
            parts += _cut(lines[index], position, start)
            parts += ((f"{css} w", text) for css, text in _cut(lines[index], start, end))
            position = end
        marked[index] = (*parts, *_cut(lines[index], position, sum(len(text) for _, text in lines[index])))
    return tuple(marked)


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
"""The CSS classes of this package for the classes of Pygments."""


@cache
def _css(kind: _TokenType) -> str:
    """Return the CSS class of a token; empty for plain text."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent or Token
    return _LOOKS.get(STANDARD_TYPES[kind], "")


def _joined(pieces: tuple[Piece, ...], findings: Iterable[Finding]) -> list[tuple[int, int, RiskLevel]]:
    """Return the spans of findings in a line. Overlapping spans are joined under the worst level."""
    spans = sorted((*_columns(f, pieces), f.level) for f in findings)
    joined: list[tuple[int, int, RiskLevel]] = []
    for start, end, level in spans:
        if joined and start < joined[-1][1]:
            first, last, worst = joined.pop()
            joined.append((first, max(end, last), max(level, worst)))
        elif end > start:
            joined.append((start, end, level))
    return joined


def _mark(pieces: tuple[Piece, ...], spans: list[tuple[int, int, RiskLevel]], first: int, last: int) -> Html:
    """Return the columns from `first` to `last` of a line, with the spans underlined."""
    if not spans and not first and last == sum(len(text) for _, text in pieces):
        return _pieces_html(pieces)
    parts, position = [], first
    for first_column, last_column, level in spans:
        start, end = max(first_column, first), min(last_column, last)
        if start < end:
            parts.append(_pieces_html(_cut(pieces, position, start)))
            parts.append(element("u", _pieces_html(_cut(pieces, start, end)), class_=level.value))
            position = end
    return fragment(parts, _pieces_html(_cut(pieces, position, last)))


def _columns(finding: Finding, pieces: tuple[Piece, ...]) -> tuple[int, int]:
    length = sum(len(text) for _, text in pieces)
    span = finding.span
    end = span.end_column if span.end_line == span.line else length
    return min(span.column, length), min(end, length)


def _cut(pieces: tuple[Piece, ...], start: int, end: int) -> Iterator[Piece]:
    position = 0
    for css, text in pieces:
        first, last = max(start - position, 0), min(end - position, len(text))
        if first < last:
            yield css, text[first:last]
        position += len(text)


def _pieces_html(pieces: Iterable[Piece]) -> Html:
    """Return the pieces as HTML. Their text already has marks for hidden characters."""
    return fragment(element("span", text, class_=css) if css else text for css, text in pieces)
