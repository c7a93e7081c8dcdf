"""`%tract rules`: what the analysis looks for, with which rules here, and the manual page of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tract_jupyter.notebook.arguments import Command, arguments
from tract_jupyter.notebook.views.html import Grid, GridView, escaped, heading

if TYPE_CHECKING:
    from tract_jupyter.analysis.rules import Rule
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.operations.advice import Advice


_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_HEADING = re.compile(r"#+ (.*)")


@cache
def page_html(rule: Rule) -> str:
    """Everything that the page says, everything escaped."""
    parts = []
    # of a split by one group, every second part is what the group found
    for number, part in enumerate(_FENCED.split(rule.manual())):
        parts.append(f"<pre>{_as_typed(part)}</pre>" if number % 2 else _prose_html(part))
    return f'<div class="tract-page">{"".join(parts)}</div>'


def _prose_html(text: str) -> str:
    """Headings and paragraphs; a heading may stand right above its paragraph."""
    parts = []
    for block in filter(None, re.split(r"\n{2,}|(?<=\n)(?=#+ )", text.strip("\n"))):
        first, _, rest = block.partition("\n")
        title = _HEADING.fullmatch(first)
        parts.append(heading(title[1], 5) if title else "")
        paragraph = (rest if title else block).strip()
        parts.append(f"<p>{_inline_html(paragraph)}</p>" if paragraph else "")
    return "".join(parts)


def _inline_html(text: str) -> str:
    parts, position = [], 0
    for found in _CODE.finditer(text):
        parts += [escaped(text[position : found.start()]), f"<code>{escaped(found[2])}</code>"]
        position = found.end()
    return "".join(parts) + escaped(text[position:])


def _as_typed(code: str) -> str:
    return escaped(code.rstrip("\n"))


_USAGE = "rules [CODE]"


def _rules(notebook: NotebookSession, rest: list[str]) -> GridView | RulePage:
    from tract_jupyter.analysis import all_rules, pages

    words = arguments(_USAGE, rest, 0, 1)
    if words:
        return RulePage(pages.find(words[0]), notebook.advice)
    rows = tuple(
        (rule.code, rule.name, _level(rule, notebook.advice), pages.first_line(rule)) for rule in all_rules()
    )
    lines = (
        "%tract rules CODE shows the page of one. Findings are advice, not containment.",
        notebook.advice.note,
    )
    heads = ("Code", "Name", "Level", "What it looks for")
    grid = Grid(heads, rows, code=frozenset({"Code"}))
    return GridView("Rules of the analysis", tuple(filter(None, lines)), (grid,))


def _level(rule: Rule, advice: Advice) -> str:
    """The level that its findings have here; most have a usual one, and others where the code is better or worse."""
    if rule.code in advice.off:
        return "off"
    given = advice.levels.get(rule.code)
    return rule.level.value if given is None else f"{given} (set here, usually {rule.level.value})"


@dataclass(frozen=True)
class RulePage:
    """The manual page of a rule, with what is set for it here."""

    rule: Rule
    advice: Advice

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    def to_html(self) -> str:
        """The page, everything escaped."""
        from tract_jupyter.notebook.panels.render import static_css

        about = f"category {self.rule.category}, level {_level(self.rule, self.advice)}"
        title = heading(f"{self.rule.code} {self.rule.name}", 3, about)
        return (
            f'<style>{static_css()}</style><section class="tract-panel tract-rule-page">'
            f"<header>{title}</header>{page_html(self.rule)}</section>"
        )

    def to_text(self) -> str:
        """The page as Markdown."""
        title = f"{self.rule.code} {self.rule.name}: category {self.rule.category}, level "
        return f"{title}{_level(self.rule, self.advice)}\n\n{self.rule.manual()}"


def rule_words(given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers after `%tract rules` and the words that are `given`."""
    from tract_jupyter.analysis import all_rules

    return [] if given else [(rule.code, "rule") for rule in all_rules()]


RULES = Command(_USAGE, "what the analysis looks for, or the manual page of one rule", _rules, ("rule",))
