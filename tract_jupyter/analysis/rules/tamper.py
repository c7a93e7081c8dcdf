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
    from tract_jupyter.analysis.view import Store, View

_OPEN_PARTS = frozenset({"fields", "budget", "models", "profiles"})
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
        """Look at what is assigned to members of modules, of their classes, and of what guards this notebook."""
        for store in view.stores:
            for name in sorted(_named(store.owner, view)):
                if name.endswith(".__dict__") and "()" not in name:
                    reason = f"Changes members of {name.removesuffix('.__dict__')}."
                    yield self.finding(view, store.node, reason)
                level = None if store.is_item else _level(name, store, view)
                if level is not None:
                    yield self.finding(
                        view, store.node, f"Replaces {name}.{store.member} for everybody.", level
                    )
        for call in view.method_calls(("clear",)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call
            for name in view.resolver.value(owner).names:
                if name.endswith(".__dict__") and "()" not in name:
                    yield self.finding(view, call, f"Changes members of {name.removesuffix('.__dict__')}.")


def _named(owner: ast.expr, view: View) -> frozenset[str]:
    """The names of an object; of the class of an object, that of the object's kind."""
    names = view.resolver.value(owner).names
    inner = owner.args[0] if isinstance(owner, ast.Call) and len(owner.args) == 1 else None
    if isinstance(owner, ast.Attribute) and owner.attr == "__class__":
        names, inner = names | {"?.__class__"}, owner.value
    elif "builtins.type()" not in names:
        return names
    kinds = view.resolver.value(inner).names if inner is not None else frozenset()
    return names | {name.removesuffix("()") for name in kinds if name.startswith("tract_jupyter.")}


def _level(name: str, store: Store, view: View) -> RiskLevel | None:
    if name in sys.stdlib_module_names:
        return MEDIUM if f"{name}.{store.member}" in _STREAMS else HIGH
    package = name.partition(".")[0]
    if package == "tract_jupyter":
        part = name.partition("()")[2].partition(".")[2].partition(".")[0]
        deleted = isinstance(getattr(store.node, "ctx", None), ast.Del)
        opened = deleted or "()" not in name or store.member.startswith("_") or _is_own(store.value, view)
        return HIGH if opened or (part and part not in _OPEN_PARTS) else None
    if name == "builtins.type()" or name.endswith(".__class__"):
        return HIGH if _is_own(store.value, view) else None
    if "()" in name or "?" in name or package == "tools":
        return None
    # Settings of packages are set every day, openai.api_key = ...; their functions are not replaced.
    return HIGH if _is_own(store.value, view) else None


def _is_own(new: ast.expr | None, view: View) -> bool:
    made = new.func if isinstance(new, ast.Call) else new
    return made is not None and bool(view.resolver.value(made).functions or _is_own_class(made, view))


def _is_own_class(node: ast.expr, view: View) -> bool:
    return isinstance(node, ast.Name) and node.id in view.program.classes
