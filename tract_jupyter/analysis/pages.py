"""The manual of the rules, generated from the registry: a table of all rules, and a page for each rule.

`python -m tract_jupyter.analysis.pages > docs/rules.md` writes the whole manual as one document.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis.rules import all_rules
from tract_jupyter.exceptions import TractError, nearest

if TYPE_CHECKING:
    from tract_jupyter.analysis.rules import Rule

HEADINGS: Final = ("Description", "Why it matters", "Example", "What to do instead")
"""The headings of each page, in this order."""

COMMAND: Final = "python -m tract_jupyter.analysis.pages"

_TITLE = re.compile(rf"^## (?={'|'.join(HEADINGS)}$)", re.MULTILINE)
_HEADS: Final = ("Code", "Name", "Category", "Level", "What")
_BEGINNING: Final = f"""\
# Rules

The rules of the code analysis. Findings are advice for the user's decision. They do not restrict code, and code can
hide from them on purpose. In a notebook, `%tract rules` lists the rules, and `%tract rules TJ101` shows a page.

`{COMMAND} > docs/rules.md` generates this file from the rules.
"""


class UnknownRuleError(TractError, ValueError):
    """An unknown code or name of a rule. The message suggests the nearest one."""


def find(code: str) -> Rule:
    """Return the rule with a code such as `TJ101`, or with a name such as `starts-program`.

    Raises:
        UnknownRuleError: No rule has this code or name.
    """
    rules = {name: rule for rule in all_rules() for name in (rule.code, rule.name)}
    rule = rules.get(code.upper()) or rules.get(code.lower())
    if rule is None:
        near = nearest(code.upper(), rules) or nearest(code.lower(), rules)
        raise UnknownRuleError(f"no rule {code!r}.{near} Use '%tract rules' or '{COMMAND}' to list all rules")
    return rule


def first_line(rule: Rule) -> str:
    """Return the first sentence of the rule's manual."""
    return rule.manual().partition("\n")[0]


def index() -> str:
    """Return a table of all rules, in Markdown."""
    rows = [
        (f"[{r.code}](#{r.code.lower()}-{r.name})", r.name, r.category, str(r.level), first_line(r))
        for r in all_rules()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEADS, ("---",) * len(_HEADS), *rows)) + "\n"


def page(code: str) -> str:
    """Return the page of one rule."""
    rule = find(code)
    return f"# {_title(rule)}\n\nCategory {rule.category}, level {rule.level}. {rule.manual()}\n"


def document() -> str:
    """Return the whole manual: the table, and all pages by category."""
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
