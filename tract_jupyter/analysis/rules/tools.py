"""Rules about tools: bypassed (TJ601), replaced (TJ602), self-approval (TJ603), unbounded calls (TJ604)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import GUESS, HIGH, LIKELY, LOW, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.cost import has_exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.ipython_syntax import Escape
    from tract_jupyter.analysis.view import CodeView

_READ, _WRITE = (
    frozenset({"read", "open", "load", "cat"}),
    frozenset({"write", "save", "edit", "append", "create"}),
)
_FILE = frozenset({"file", "files", "text", "document", "path"})
_FOLDER = frozenset({"dir", "directory", "folder", "files"})
_ADDRESS = frozenset({"url", "http", "page", "web", "website"})
_DIRECT: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "builtins.open": (_READ | _WRITE, _FILE),
    "pathlib.Path().read_text": (_READ, _FILE),
    "pathlib.Path().write_text": (_WRITE, _FILE),
    "os.listdir": (frozenset({"list", "ls"}), _FOLDER),
    "os.remove": (frozenset({"delete", "remove"}), _FILE),
    "pathlib.Path().unlink": (frozenset({"delete", "remove"}), _FILE),
    "requests.get": (frozenset({"fetch", "get", "read", "download"}), _ADDRESS),
    "urllib.request.urlopen": (frozenset({"fetch", "get", "read", "download"}), _ADDRESS),
}
"""The verbs and objects in a tool's name that suggest the same purpose: ``read_file``."""


@register
class PassesByTool(Rule):
    """Bypasses a tool.

    ## Description
    Reports `open` and similar calls if the code may call a tool whose name suggests the same purpose.

    ## Why it matters
    A tool call is checked, displayed and logged. Code that bypasses the tool is not.

    ## Example
    ```python
    text = open("notes.md").read()  # with a tool read_file
    ```

    ## What to do instead
    Call the tool: `tools.read_file(path="notes.md")`.
    """

    code = "TJ601"
    name = "passes-by-tool"
    category = Category.TAMPERING
    level = MEDIUM
    effect = "bypasses a tool"
    remedy = "Call the tool."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Find calls that have the same purpose as a tool, by the tool's name."""
        for name, (verbs, objects) in _DIRECT.items() if view.tools else ():
            better = next((tool for tool in sorted(view.tools) if _is_for(tool, verbs, objects)), None)
            for call in view.calls_to((name,)) if better is not None else ():
                yield self.finding(view, call, f"Bypasses the tool {better}.", confidence=GUESS)


def _is_for(tool: str, verbs: frozenset[str], objects: frozenset[str]) -> bool:
    words = set(re.findall(r"[a-z]+", tool.lower()))
    return bool(words & verbs and words & objects)


@register
class ChangesTools(Rule):
    """Changes the tools or their implementation.

    ## Description
    Reports assignments to members of `tools` in any form, deletions, and calls that expose all tools at once
    (`vars(tools)`).

    ## Why it matters
    Later code, and its reader, take the replacement for the tool. Its calls are neither reviewed nor logged.

    ## Example
    ```python
    tools.read_file = lambda **arguments: {"content": ""}
    ```

    ## What to do instead
    Give your function another name.
    """

    code = "TJ602"
    name = "changes-tools"
    category = Category.TAMPERING
    level = HIGH
    effect = "changes the tools that other code relies on"
    remedy = "Give your function another name."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check assignments, deletions and ``setattr``."""
        for node in view.of(ast.Attribute):
            if type(node.ctx) is not ast.Load and _is_tools(node.value, view):
                yield self.finding(view, node, f"Assigning to tools.{node.attr} {self.effect}.")
        for item in view.of(ast.Subscript):
            if type(item.ctx) is not ast.Load and _is_tools(item.value, view):
                yield self.finding(view, item, f"This assignment {self.effect}.")
        for name in view.of(ast.Name):
            if name.id == "tools" and isinstance(name.ctx, ast.Del):
                yield self.finding(view, name, "Deletes the tools.")
        yield from self._calls(view)

    def _calls(self, view: CodeView) -> Iterator[Finding]:
        for call in view.calls_to(_LISTERS):
            if call.args and "tools" in view.resolver.value(call.args[0]).names:
                yield self.finding(view, call, "Exposes every tool at once, without naming one.")
        for call in view.calls_to(("builtins.setattr", "builtins.delattr")):
            if call.args and _is_tools(call.args[0], view):
                yield self.finding(view, call, f"This call {self.effect}.")


_LISTERS = frozenset({"builtins.vars", "inspect.getmembers", "inspect.getmembers_static"})


def _is_tools(node: ast.expr, view: CodeView) -> bool:
    names = view.resolver.value(node).names
    return any(name == "tools" or name.startswith(("tools.", "tract_jupyter.tools")) for name in names)


@register
class DecidesItself(Rule):
    """Interferes with the approval of code.

    ## Description
    Reports the parts of this package that review, sign, trust and permit. Also reports private attributes of other
    objects with such names (`plugin._allow_all = True`).

    ## Why it matters
    Code that approves itself has no approval by the user.

    ## Example
    ```python
    executor._permissions = None
    ```

    ## What to do instead
    Leave decisions to the user. An action may call `pending.approve()` for its own operation.
    """

    code = "TJ603"
    name = "decides-itself"
    category = Category.TAMPERING
    level = HIGH
    effect = "is part of the approval of code"
    remedy = "Leave the decision to the user."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check assignments to private attributes, changed lists of rules, and the magics of this package."""
        for escape in view.escapes:
            if _decides(escape):
                yield self.finding(view, escape.span, f"{escape.text.splitlines()[0][:80]} {self.effect}.")
        for node in view.of(ast.Attribute):
            stores = isinstance(node.ctx, ast.Store) and _DECIDES.search(node.attr)
            if _is_private_of_other(node) and (stores or _is_ours(node.value, view)):
                yield self.finding(view, node, f"{node.attr} {self.effect}.", confidence=LIKELY)
        for call in view.method_calls(_EMPTIES):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
            for name in sorted(view.resolver.value(owner).names):
                if name.rpartition(".")[2].isupper() and "()" not in name:
                    level = HIGH if _DECIDES.search(name) else MEDIUM
                    yield self.finding(view, call, f"Changes {name} for everybody.", level, LIKELY)


_DECISIONS = frozenset({"--activate", "decide", "approve"})


def _decides(escape: Escape) -> bool:
    if escape.name.startswith("tract"):
        return not _DECISIONS.isdisjoint(escape.rest.split())
    return escape.name == "config" and escape.rest.lstrip().startswith("TractJupyter")


_EMPTIES = ("clear", "update", "pop", "popitem", "remove", "append", "extend", "add", "discard", "insert")
_DECIDES = re.compile(
    r"(?i)permission|allow|approv|whitelist|blacklist|denylist|sandbox|polic|trust|guard|review|analy[sz]|danger"
    r"|audit|bypass|forbid|block|gate\b|secur"
)


def _is_ours(node: ast.expr, view: CodeView) -> bool:
    return any(name.startswith("tract_jupyter.") for name in view.resolver.value(node).names)


def _is_private_of_other(node: ast.Attribute) -> bool:
    own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
    return node.attr.startswith("_") and not node.attr.startswith("__") and not own


@register
class CallsToolsUnbounded(Rule):
    """Calls tools in an unbounded loop.

    ## Description
    Reports tool calls inside `while True` and other loops without a bound.

    ## Why it matters
    Each iteration may cost money, change something or ask the user.

    ## Example
    ```python
    while not done:
        done = tools.poll(job=job)["done"]
    ```

    ## What to do instead
    Count the iterations: `for _ in range(20)`.
    """

    code = "TJ604"
    name = "calls-tools-unbounded"
    category = Category.RESOURCES
    level = LOW
    effect = "is called in every iteration of an unbounded loop"
    remedy = "Count the iterations: for _ in range(20)."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Find the loop around each tool call."""
        for call in view.calls_below("tools."):
            loop = _while_around(call, view)
            if loop is not None:
                endless = isinstance(loop.test, ast.Constant) and not has_exit(loop, view)
                reason = f"{ast.unparse(call.func)[:80]} {self.effect}."
                yield self.finding(view, call, reason, MEDIUM if endless else LOW)


def _while_around(node: ast.AST, view: CodeView) -> ast.While | None:
    around = view.parent(node)
    while around is not None and not isinstance(around, (ast.While, ast.For, ast.FunctionDef, ast.Lambda)):
        around = view.parent(around)
    return around if isinstance(around, ast.While) else None
