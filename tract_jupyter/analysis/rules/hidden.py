"""Text that is shown otherwise than it runs (TJ408)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, Rule, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import View

_REORDERS = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


@register
class HidesText(Rule):
    r"""Contains characters that show code otherwise than it runs.

    ## What it does
    Reports characters that turn the direction of text around, and invisible tags, wherever they stand.

    ## Why it matters
    With them a comment can look like code and code like a comment, so that what is approved is not what
    runs (CVE-2021-42574).

    ## Example
    A comment that holds the character U+202E: the rest of its line is shown backwards.

    ## What to do instead
    Remove the characters, or write them as escapes such as `"\u202e"`.
    """

    code = "TJ408"
    name = "hides-text"
    category = Category.TAMPERING
    level = HIGH
    effect = "shows the line otherwise than it runs"
    remedy = "Remove the character, or write it as an escape."

    def check(self, view: View) -> Iterator[Finding]:
        """Look at every line."""
        for number, line in enumerate(view.source.lines, 1):
            match = None if line.isascii() else _REORDERS.search(line)
            if match is not None:
                reason = f"The character U+{ord(match[0]):04X} {self.effect}."
                yield self.finding(view, view.source.line_span(number), reason)
