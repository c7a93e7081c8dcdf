"""What cannot be analysed: not Python (TJ901), not even text (TJ902), too much for the analysis (TJ903)."""

from __future__ import annotations

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, Rule, register

VERDICT = "unknown: do not run"


@register
class Unparsable(Rule):
    """Is not Python.

    ## What it does
    Reports code that does not parse, even after magics and shell escapes were taken out.

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
    Tools disagree on where such text ends, so that what is shown may not be what runs.

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
    """Is nested too deeply or otherwise too much for the analysis.

    ## What it does
    Reports code that exhausts the parser or the analysis.

    ## Why it matters
    Nothing is known about it; code that people write is not like this.

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
