"""Rules about text: characters that disguise code (TJ408), and code that cannot be analyzed (TJ901 to TJ904)."""

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
    r"""Contains characters that disguise code.

    ## Description
    Reports characters that reverse the direction of text, and invisible tags, anywhere in the code.

    ## Why it matters
    They make a comment look like code, and code like a comment. The code that runs then differs from the code that
    the user approved (CVE-2021-42574).

    ## Example
    A comment with the character U+202E. The rest of the line appears backwards.

    ## What to do instead
    Remove the characters, or write them as escapes such as `"\u202e"`.
    """

    code = "TJ408"
    name = "hides-text"
    category = Category.TAMPERING
    level = HIGH
    effect = "disguises the line"
    remedy = "Remove the character, or write it as an escape."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check each line."""
        for number, line in enumerate(view.source.lines, 1):
            match = None if line.isascii() else _REORDERS.search(line)
            if match is not None:
                reason = f"The character U+{ord(match[0]):04X} {self.effect}."
                yield self.finding(view, view.source.line_span(number), reason)


VERDICT = "unknown: do not run"


@register
class Unparsable(Rule):
    """Is not Python.

    ## Description
    Reports code that does not parse, even without its magics and shell escapes.

    ## Why it matters
    The effects of the code are unknown. Another interpreter, another version or a transformer may still run it.

    ## Example
    ```python
    def f(:
    ```

    ## What to do instead
    Correct the syntax, and review the corrected code.
    """

    code = "TJ901"
    name = "unparsable"
    category = Category.UNKNOWN
    level = HIGH
    effect = VERDICT
    remedy = "Correct the syntax first."


@register
class NotText(Rule):
    """Contains characters that are invalid in source code.

    ## Description
    Reports NUL characters and lone surrogates.

    ## Why it matters
    Tools disagree about the end of such text. The displayed code may differ from the code that runs.

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

    ## Description
    Reports code that exhausts the parser or the analysis.

    ## Why it matters
    The effects of the code are unknown, and people do not write such code.

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
    """Reports a failed rule of another package.

    ## Description
    Reports rules of the entry points `tract_jupyter.rules` that fail or cannot be loaded.

    ## Why it matters
    The findings of that rule are missing.

    ## Example
    A rule whose package needs another version of tract_jupyter.

    ## What to do instead
    Update or remove the package of the rule.
    """

    code = "TJ904"
    name = "rule-failed"
    category = Category.UNKNOWN
    level = MEDIUM
    effect = "a rule could not be applied"
    remedy = "Update or remove the package of the rule."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Report the rules that cannot be loaded."""
        for problem in load_plugins():
            yield self.finding(view, view.source.line_span(1), f"Not applied: {problem}.")
