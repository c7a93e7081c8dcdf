"""Changing what others rely on: members of imported modules and of the shell (TJ405)."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, MEDIUM, Rule, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.view import View

_STREAMS = frozenset({"sys.stdout", "sys.stderr", "sys.stdin"})


@register
class ReplacesMember(Rule):
    """Replaces a member of a module that others use.

    ## What it does
    Reports assignments to attributes of standard library modules (`json.loads = ...`, `setattr(os, ...)`),
    functions and classes of other packages replaced by own ones, the replacement of the output streams, and
    hooks of the IPython shell.

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

    def check(self, view: View) -> Iterator[Finding]:
        """Look at assignments to, and ``setattr`` on, members of modules and of their classes."""
        for node in view.of(ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                yield from self._replaced(node, node.value, node.attr, _assigned(node, view), view)
        for call in view.calls_to(("builtins.setattr", "builtins.delattr")):
            if len(call.args) > 1:
                member = next(iter(view.resolver.value(call.args[1]).texts), "*")
                yield from self._replaced(call, call.args[0], member, view.argument(call, 2), view)
        for item in view.of(ast.Subscript):
            if not isinstance(item.ctx, ast.Load):
                yield from self._in_dict(item, item.value, view)
        for call in view.method_calls(("update", "pop", "setdefault", "clear", "__setitem__")):
            yield from self._in_dict(
                call, call.func.value if isinstance(call.func, ast.Attribute) else call, view
            )

    def _replaced(
        self, node: ast.expr, owner: ast.expr, member: str, new: ast.expr | None, view: View
    ) -> Iterator[Finding]:
        for name in sorted(view.resolver.value(owner).names):
            level = _level(name, member, new, view)
            if level is not None:
                yield self.finding(view, node, f"Replaces {name}.{member} for everybody.", level)

    def _in_dict(self, node: ast.expr, owner: ast.expr, view: View) -> Iterator[Finding]:
        for name in sorted(view.resolver.value(owner).names):
            if name.endswith(".__dict__") and "()" not in name:
                yield self.finding(view, node, f"Changes members of {name.removesuffix('.__dict__')}.")


def _level(name: str, member: str, new: ast.expr | None, view: View) -> RiskLevel | None:
    if name in sys.stdlib_module_names:
        return MEDIUM if f"{name}.{member}" in _STREAMS else HIGH
    package = name.partition(".")[0]
    if "()" in name or "?" in name or package == "tools":
        return None
    # Settings of packages are set every day, openai.api_key = ...; their functions are not replaced.
    own = new is not None and (view.resolver.value(new).functions or _is_own_class(new, view))
    return HIGH if own else None


def _is_own_class(node: ast.expr, view: View) -> bool:
    return isinstance(node, ast.Name) and node.id in view.program.classes


def _assigned(node: ast.expr, view: View) -> ast.expr | None:
    """What is assigned to this target, as a whole."""
    parent = view.parent(node)
    return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
