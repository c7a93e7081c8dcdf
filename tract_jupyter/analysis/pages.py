"""The manual of the rules, from the registry: a table of all of them, the page of each, the whole as one document.

`python -m tract_jupyter.analysis.pages > docs/rules.md` writes that document.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis.rules import all_rules
from tract_jupyter.exceptions import TractError, nearest

if TYPE_CHECKING:
    from tract_jupyter.analysis.rules import Rule

HEADINGS: Final = ("What it does", "Why it matters", "Example", "What to do instead")
"""The parts of each page, in this order."""

COMMAND: Final = "python -m tract_jupyter.analysis.pages"

_TITLE = re.compile(rf"^## (?={'|'.join(HEADINGS)}$)", re.MULTILINE)
_HEADS: Final = ("Code", "Name", "Category", "Level", "What")
_BEGINNING: Final = f"""\
# Rules

What the analysis of code looks for. Findings are advice for the person who decides: they contain nothing, and code
that is meant to hide from them can. `%tract rules` lists the rules in a notebook, `%tract rules TJ101` shows a page.

`{COMMAND} > docs/rules.md` writes this file from the rules themselves.
"""


class UnknownRuleError(TractError, ValueError):
    """There is no rule of this code or name; the message has the nearest, and says how to see all."""


def find(code: str) -> Rule:
    """Return the rule of a code such as `TJ101`, or of a name such as `starts-program`.

    Raises:
        UnknownRuleError: no rule has this code or name.
    """
    rules = {name: rule for rule in all_rules() for name in (rule.code, rule.name)}
    rule = rules.get(code.upper()) or rules.get(code.lower())
    if rule is None:
        near = nearest(code.upper(), rules) or nearest(code.lower(), rules)
        raise UnknownRuleError(f"no rule {code!r}.{near} '%tract rules' lists all, and so does '{COMMAND}'")
    return rule


def first_line(rule: Rule) -> str:
    """Return the first sentence of the rule's manual: what it reports."""
    return rule.manual().partition("\n")[0]


def index() -> str:
    """Return a table of all rules, in Markdown."""
    rows = [
        (f"[{r.code}](#{r.code.lower()}-{r.name})", r.name, r.category, str(r.level), first_line(r))
        for r in all_rules()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEADS, ("---",) * len(_HEADS), *rows)) + "\n"


def page(code: str) -> str:
    """Return the page of one rule.

    Raises:
        UnknownRuleError: no rule has this code or name.
    """
    rule = find(code)
    return f"# {_title(rule)}\n\nCategory {rule.category}, level {rule.level}. {rule.manual()}\n"


def document() -> str:
    """Return the whole manual: the table and all pages, by category."""
    categories: dict[str, list[Rule]] = {}
    for rule in all_rules():
        categories.setdefault(rule.category, []).append(rule)
    parts = [_BEGINNING, index()]
    for category, rules in categories.items():
        parts.append(f"## {category}\n")
        parts += [f"### {_title(rule)}\n\nLevel {rule.level}. {_demoted(rule)}\n" for rule in rules]
    return "\n".join(parts)


def _title(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"


def _demoted(rule: Rule) -> str:
    """Return the manual with its headings below the rule's own."""
    return _TITLE.sub("#### ", rule.manual())


if __name__ == "__main__":
    sys.stdout.write(document())
