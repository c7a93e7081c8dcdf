"""Code that code writes to a file (TJ112)."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, Rule, register

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from tract_jupyter.analysis.view import View

_WRITES = ("write", "write_text", "writelines", "write_bytes")
_LIKE_CODE = re.compile(r"(?m)^\s*(?:import|from)\s+\w|\b(?:exec|eval|__import__)\s*\(")
_MANY = 20


@register
class WritesCode(Rule):
    r"""Writes code to a file that deserves to be read itself.

    ## What it does
    Analyses text that is written to files, and reports it when it is Python with findings of a high level.

    ## Why it matters
    An import, a later session or another program runs it, and nobody is asked then.

    ## Example
    ```python
    Path("helpers.py").write_text("import os\nos.system('...')\n")
    ```

    ## What to do instead
    Keep code in cells, where it is reviewed, or have a person write the file.
    """

    code = "TJ112"
    name = "writes-code"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "writes code to a file that deserves to be read itself"
    remedy = "Keep code in cells, where it is reviewed."


def written_code(view: View) -> Iterator[tuple[ast.Call, str]]:
    """The calls that write text which looks like Python, with that text."""
    found = (
        (call, text)
        for call in view.method_calls(_WRITES)
        for text in (view.resolver.value(call.args[0]).texts if call.args else ())
        if _LIKE_CODE.search(text)
    )
    return islice(found, _MANY)
