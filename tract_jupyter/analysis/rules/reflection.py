"""Rules about reflection: dunders (TJ402), frames and object tables (TJ403), computed attributes (TJ404)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import GUESS, HIGH, LIKELY, LOW, MEDIUM, Rule, register
from tract_jupyter.analysis.values import ANY_MODULE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import CodeView

_DESCRIPTIVE = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})
_HIERARCHY = frozenset({"__mro__", "__bases__", "__base__"})


@register
class ReadsInternals(Rule):
    """Walks from an object to the interpreter's internals.

    ## Description
    Reports attributes that lead from any object to its class hierarchy, function internals, module globals
    or the builtins: `__subclasses__`, `__globals__`, `__code__`, `__closure__`, `f_back`, `gi_frame`. Strings
    in `getattr` and in subscripts count, as well. `x.__class__.__name__`, `self.__class__` and `__version__` are
    not reported.

    ## Why it matters
    Such a chain leads from any object to every function of the process, without naming it.

    ## Example
    ```python
    ().__class__.__base__.__subclasses__()
    ```

    ## What to do instead
    Import modules by name. Use `type(x)`, `isinstance` and the signature functions of `inspect`.
    """

    code = "TJ402"
    name = "reads-internals"
    category = Category.INTROSPECTION
    level = HIGH
    effect = "leads to the interpreter's internals"
    remedy = "Import modules by name. Use type() and isinstance()."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel | None:
        """Judge the whole chain. Alone, some of these attributes are ordinary Python."""
        node, name = reference.node, reference.symbol.removeprefix("*.")
        if name == "builtins":
            return HIGH if isinstance(node, ast.Name) and node.id == "__builtins__" else None
        if isinstance(node, ast.pattern):
            return reference.level
        if not isinstance(node, ast.Attribute):
            return HIGH  # spelled as a string, which hides the name
        judge = _JUDGES.get(name)
        return judge(node, view) if judge else reference.level


def _hierarchy_level(node: ast.Attribute, _view: CodeView) -> RiskLevel:
    return HIGH if _is_chain(node.value) else LOW


def _mro_level(node: ast.Attribute, view: CodeView) -> RiskLevel | None:
    return MEDIUM if _is_chain(node.value) and view.call_of(node) else None


def _code_level(node: ast.Attribute, view: CodeView) -> RiskLevel:
    parent = view.parent(node)
    return MEDIUM if isinstance(parent, ast.Attribute) and parent.attr.startswith("co_") else HIGH


def _step_level(node: ast.Attribute, view: CodeView) -> RiskLevel:
    return HIGH if isinstance(view.parent(node), (ast.Attribute, ast.Subscript)) else LOW


def _class_level(node: ast.Attribute, view: CodeView) -> RiskLevel | None:
    if isinstance(node.ctx, ast.Store):
        return MEDIUM
    parent = view.parent(node)
    if isinstance(node.value, (ast.Constant, ast.Tuple, ast.List, ast.Dict)):
        return HIGH if isinstance(parent, ast.Attribute) and parent.attr not in _DESCRIPTIVE else LOW
    return (
        LOW if isinstance(parent, ast.Attribute) and parent.attr in _HIERARCHY | {"__subclasses__"} else None
    )


def _is_chain(node: ast.expr) -> bool:
    return not isinstance(node, (ast.Name, ast.Attribute)) or (
        isinstance(node, ast.Attribute) and node.attr.startswith("__")
    )


def _subclasses_level(node: ast.Attribute, view: CodeView) -> RiskLevel:
    own = isinstance(node.value, ast.Name) and node.value.id in view.program.classes
    return LOW if own else HIGH


_JUDGES: dict[str, Callable[[ast.Attribute, CodeView], RiskLevel | None]] = {
    "__class__": _class_level,
    "__code__": _code_level,
    "__subclasses__": _subclasses_level,
    "__getattribute__": lambda _node, _view: LOW,
    "mro": _mro_level,
    **dict.fromkeys(_HIERARCHY, _hierarchy_level),
    **dict.fromkeys(("__traceback__", "__closure__", "tb_next", "f_back"), _step_level),
}


@register
class InspectsProcess(Rule):
    """Reads frames, loaded modules or all objects of the process.

    ## Description
    Reports `gc` object tables, `inspect` and `sys` frames, `sys.modules`, and `vars`/`__dict__` of a module.

    ## Why it matters
    They give code access to all objects of the process: other variables, the objects of the reviewer, and modules
    that this code never imported.

    ## Example
    ```python
    for o in gc.get_objects():
        ...
    ```

    ## What to do instead
    Pass objects as arguments. To check that a module exists, use `importlib.util.find_spec`.
    """

    code = "TJ403"
    name = "inspects-process"
    category = Category.INTROSPECTION
    level = HIGH
    effect = "gives access to all objects of the process"
    remedy = "Pass the objects as arguments."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel | None:
        """Leave out tests for a loaded module: ``"google.colab" in sys.modules``."""
        parent = view.parent(reference.node)
        asks = isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.In, ast.NotIn))
        return None if reference.symbol == "sys.modules" and asks else reference.level


_FORMATS = ("format", "format_map", "vformat", "get_field")
_PRIVATE_FIELD = re.compile(r"\{[^{}]*\._[^{}]*\}|\{[^{}]*\[__\w+__\][^{}]*\}")


@register
class ComputesAttribute(Rule):
    """Reads an attribute by a computed name.

    ## Description
    Reports `getattr` with an unknown name (high on a module), `getattr` as an argument of another function,
    `operator.attrgetter`, and format strings that read private attributes.

    ## Why it matters
    The code chooses the function at run time, so a review cannot see it.

    ## Example
    ```python
    getattr(tools, name)(path=".")
    ```

    ## What to do instead
    Name the attribute, or choose from a dict of the allowed functions.
    """

    code = "TJ404"
    name = "computes-attribute"
    category = Category.INTROSPECTION
    level = HIGH
    effect = "reads an attribute that is chosen at run time"
    remedy = "Name the attribute, or choose from a dict of the allowed functions."

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Leave out literal names. They are ordinary attribute access, and other rules judge the attribute."""
        call = view.call_of(reference.node)
        level: RiskLevel | None = reference.level
        if call is not None:
            level = _computed_level(call, reference, view)
        elif isinstance(reference.node, ast.alias):
            level = None
        if level is not None:
            reason = f"{reference.shown} {self.effect}."
            yield self.finding(view, reference.node, reason, level, min(reference.confidence, LIKELY))

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Find calls of computed members of a module, and format strings such as ``"{0._os}"``."""
        for call in view.calls_to((ANY_MODULE,)):
            yield self.finding(
                view, call, f"Calls a member of a module, and {self.effect}.", confidence=LIKELY
            )
        for node in view.method_calls(_FORMATS):
            owner, method = (
                (node.func.value, node.func.attr) if isinstance(node.func, ast.Attribute) else (node.func, "")
            )
            # str.format(text, ...) and string.Formatter().format(text, ...) have the text as first argument.
            texts = [text for part in (owner, *node.args[:1]) for text in view.resolver.value(part).texts]
            dunder = any("__" in text and method == "get_field" for text in texts)
            if dunder or any(view.look(_PRIVATE_FIELD.search, text) for text in texts):
                reason = "The format string reads private attributes of its arguments."
                yield self.finding(view, node, reason, confidence=LIKELY)


def _computed_level(call: ast.Call, reference: Reference, view: CodeView) -> RiskLevel | None:
    if reference.symbol.startswith("operator."):
        known = all(
            isinstance(argument, ast.Constant) and "__" not in str(argument.value) for argument in call.args
        )
        return None if known else HIGH if reference.symbol.endswith("methodcaller") else reference.level
    if len(call.args) < 2:  # noqa: PLR2004 - object and name
        return MEDIUM
    owner, name = (view.resolver.value(argument) for argument in call.args[:2])
    if name.texts:
        return None
    if owner.names or view.call_of(call) is not None:
        # The code calls the result at once, or reads it from a module. The function is unknown.
        return HIGH
    return LOW if reference.confidence >= GUESS else None
