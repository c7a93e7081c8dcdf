"""Changing what others rely on: members of imported modules and of the shell (TJ405)."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, ClassVar

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, MEDIUM, Rule, register
from tract_jupyter.analysis.tables import tampering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import View

_STREAMS = frozenset({"sys.stdout", "sys.stderr", "sys.stdin", "sys.displayhook", "sys.excepthook"})


@register
class ReplacesMember(Rule):
    """Replaces a member of a module that others use.

    ## What it does
    Reports assignments to attributes of standard library modules (`json.loads = ...`, `setattr(os, ...)`),
    the replacement of the output streams, and hooks of the IPython shell.

    ## Why it matters
    Every later cell, and the code that reviews and records, then calls the replacement.

    ## Example
    ```python
    json.loads = lambda text: {"allowed": True}
    ```

    ## What to do instead
    Write a function of your own and call it. In tests, use `unittest.mock.patch` as a context manager.
    """

    code = "TJ405"
    name = "replaces-member"
    category = Category.TAMPERING
    level = HIGH
    effect = "changes how the notebook itself works"
    remedy = "Write a function of your own and call that."
    symbols: ClassVar = tampering.REPLACES_MEMBER

    def check(self, view: View) -> Iterator[Finding]:
        """Look at assignments to, and ``setattr`` on, modules of the standard library."""
        changed: list[tuple[ast.expr, ast.expr, str]] = [
            (node, node.value, node.attr) for node in view.of(ast.Attribute) if not _is_read(node)
        ]
        changed += [(node, node.args[0], "") for node in view.of(ast.Call) if _is_setattr(node, view)]
        for node, owner, member in changed:
            for name in view.resolver.value(owner).names:
                if name in sys.stdlib_module_names:
                    level = MEDIUM if f"{name}.{member}" in _STREAMS else HIGH
                    yield self.finding(view, node, f"Replaces {name}.{member or '*'} for everybody.", level)


def _is_read(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _is_setattr(node: ast.Call, view: View) -> bool:
    return bool(node.args) and "builtins.setattr" in view.resolver.value(node.func).names
