"""`%tract rules`: the rules of the analysis with their settings, and the manual page of each rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.notebook.commands.command import Command, arguments
from tract_jupyter.notebook.views.html import Grid, GridView, View, element

if TYPE_CHECKING:
    from tract_jupyter.analysis import Rule
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.operations import Advice


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
        "%tract rules CODE shows the page of a rule. Findings are advice, not containment.",
        notebook.advice.note,
    )
    heads = ("Code", "Name", "Level", "Purpose")
    grid = Grid(heads, rows, code=frozenset({"Code"}))
    return GridView("Rules of the analysis", tuple(filter(None, lines)), (grid,))


def _level(rule: Rule, advice: Advice) -> str:
    """Return the level of a rule's findings here. Most rules also have other levels for better or worse code."""
    if rule.code in advice.off:
        return "off"
    level = advice.levels.get(rule.code)
    return rule.level.value if level is None else f"{level} (set here, usually {rule.level.value})"


@dataclass(frozen=True)
class RulePage(View):
    """The manual page of a rule with its settings."""

    rule: Rule
    advice: Advice

    def to_html(self) -> str:
        """Return the page as HTML."""
        from tract_jupyter.notebook.panels.code import page_html
        from tract_jupyter.notebook.panels.render import RECORD_STYLES
        from tract_jupyter.notebook.views.styles import output_html

        about = f"category {self.rule.category}, level {_level(self.rule, self.advice)}"
        name = element("b", f"{self.rule.code} {self.rule.name}")
        title = element("p", name, " ", element("small", about))
        return output_html(element("section", title, page_html(self.rule)), *RECORD_STYLES)

    def to_text(self) -> str:
        """Return the page as Markdown."""
        title = f"{self.rule.code} {self.rule.name}: category {self.rule.category}, level "
        return f"{title}{_level(self.rule, self.advice)}\n\n{self.rule.manual()}"


def _words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:  # noqa: ARG001 # the same everywhere
    from tract_jupyter.analysis import all_rules

    return [] if typed else [(rule.code, "rule") for rule in all_rules()]


COMMANDS = (
    Command(_USAGE, "list the rules of the analysis, or show the manual page of one", _rules, (_words,)),
)
