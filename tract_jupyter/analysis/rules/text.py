"""Text: characters that disguise code (TJ408), and code that cannot be analysed (TJ901 to TJ904)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.settings import load_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import CodeView


_REORDERS = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


@register
class HidesText(Rule):
    r"""Contains characters that make code look different from what runs.

    ## What it does
    Reports characters that reverse the direction of text, and invisible tags, anywhere in the code.

    ## Why it matters
    They make a comment look like code and code like a comment, so that what is approved is not what
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
    effect = "makes the line look different from what runs"
    remedy = "Remove the character, or write it as an escape."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Look at every line."""
        for number, line in enumerate(view.source.lines, 1):
            match = None if line.isascii() else _REORDERS.search(line)
            if match is not None:
                reason = f"The character U+{ord(match[0]):04X} {self.effect}."
                yield self.finding(view, view.source.line_span(number), reason)


VERDICT = "unknown: do not run"


@register
class Unparsable(Rule):
    """Is not Python.

    ## What it does
    Reports code that does not parse, even after magics and shell escapes are removed.

    ## Why it matters
    Nothing is known about it. Another interpreter, another version or a transformer may still run it.

    ## Example
    ```python
    def f(:
    ```

    ## What to do instead
    Correct the syntax, and have the corrected code reviewed.
    """

    code = "TJ901"
    name = "unparsable"
    category = Category.UNKNOWN
    level = HIGH
    effect = VERDICT
    remedy = "Correct the syntax first."


@register
class NotText(Rule):
    """Contains characters that no source file may contain.

    ## What it does
    Reports NUL characters and lone surrogates.

    ## Why it matters
    Tools disagree on where such text ends, so what is shown may not be what runs.

    ## Example
    A string with a NUL character in the middle of a line.

    ## What to do instead
    Remove the character, or write it as an escape sequence.
    """

    code = "TJ902"
    name = "not-text"
    category = Category.UNKNOWN
    level = HIGH
    effect = VERDICT
    remedy = "Remove the character, or write it as an escape."


@register
class TooComplex(Rule):
    """Is nested too deeply or otherwise too complex for the analysis.

    ## What it does
    Reports code that exhausts the parser or the analysis.

    ## Why it matters
    Nothing is known about it, and people do not write such code.

    ## Example
    An expression inside several thousand brackets.

    ## What to do instead
    Split it into steps with names.
    """

    code = "TJ903"
    name = "too-complex"
    category = Category.UNKNOWN
    level = HIGH
    effect = VERDICT
    remedy = "Split it into steps with names."


@register
class RuleFailed(Rule):
    """A rule of another package could not be applied.

    ## What it does
    Reports rules, installed through the entry points `tract_jupyter.rules`, that cannot be loaded or fail.

    ## Why it matters
    The findings of that rule are missing.

    ## Example
    A rule whose package was updated and requires another version of this one.

    ## What to do instead
    Update or remove the package that the rule comes from.
    """

    code = "TJ904"
    name = "rule-failed"
    category = Category.UNKNOWN
    level = MEDIUM
    effect = "a rule could not be applied"
    remedy = "Update or remove the package that the rule comes from."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Report the rules that could not be loaded."""
        for problem in load_plugins():
            yield self.finding(view, view.source.line_span(1), f"Not applied: {problem}.")
