"""From syntax nodes to mentions of names that rules ask for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis.calls import GETATTR
from tract_jupyter.analysis.names import canonical
from tract_jupyter.analysis.rules import Reference, Rule, View, is_boring, module_level, rules_for
from tract_jupyter.analysis.rules.base import GUESS, LIKELY, SURE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.analysis.findings import Finding, RiskLevel

_MENTIONS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_NAMING = GETATTR | {"builtins.setattr", "builtins.delattr", "operator.attrgetter", "operator.methodcaller"}


def findings(view: View) -> Iterator[Finding]:
    """What the rules say about every mention of a name, innermost expressions first."""
    # Inner nodes first, so that evaluating an outer one finds its parts known and never recurses deeply.
    for node in reversed(view.nodes):
        if isinstance(node, _MENTIONS):
            yield from _mentions(node, view)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _import(alias, alias.name, view)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield from _import_from(alias, node.module or "", view)
        elif isinstance(node, ast.MatchClass):
            for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
                yield from _ask(pattern, f"*.{name}", SURE, view)


def imported(nodes: Sequence[ast.AST]) -> tuple[str, ...]:
    """Dotted names of what import statements name, sorted."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return tuple(sorted(found))


def _mentions(node: ast.expr, view: View) -> Iterator[Finding]:
    value = view.resolver.value(node)
    confidence = GUESS if value.guessed else _confidence(node, len(value.names))
    for name in sorted(value.names):
        for rule, level in rules_for(name):
            if not _goes_on(node, rule, view):
                yield from rule.on_reference(Reference(node, name, level, confidence), view)
    for name in _attribute_names(node, view):
        yield from _ask(node, f"*.{name}", SURE, view)


def _confidence(node: ast.expr, possibilities: int) -> float:
    return SURE if possibilities == 1 and isinstance(node, (ast.Name, ast.Attribute)) else LIKELY


def _goes_on(node: ast.expr, rule: Rule, view: View) -> bool:
    """Whether the same rule will speak about the longer chain that this node begins."""
    parent = view.parent(node)
    if not isinstance(parent, ast.Attribute):
        return False
    return any(rule is other for name in view.resolver.value(parent).names for other, _ in rules_for(name))


def _ask(node: ast.expr | ast.pattern, symbol: str, confidence: float, view: View) -> Iterator[Finding]:
    for rule, level in rules_for(symbol):
        yield from rule.on_reference(Reference(node, symbol, level, confidence), view)


def _attribute_names(node: ast.expr, view: View) -> Sequence[str]:
    """Attributes that the node reads, also those spelt as strings."""
    if isinstance(node, ast.Attribute):
        return (node.attr,)
    if isinstance(node, ast.Subscript):
        return tuple(text for text in view.resolver.value(node.slice).texts if text.startswith("__"))
    if not isinstance(node, ast.Call):
        return ()
    names = view.resolver.value(node.func).names
    if not names.isdisjoint(_NAMING):
        given = node.args[:1] if any(name.startswith("operator.") for name in names) else node.args[1:2]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in {
        "__getattribute__",
        "__getattr__",
        "get",
    }:
        given = node.args[:2]
    else:
        return ()
    texts = [text for argument in given for text in view.resolver.value(argument).texts]
    return tuple(part for text in texts if "__" in text for part in text.split("."))


def _import(alias: ast.alias, module: str, view: View) -> Iterator[Finding]:
    hit = module_level(canonical(module))
    if hit is not None:
        yield _imports(alias, module, *hit, view)


def _import_from(alias: ast.alias, module: str, view: View) -> Iterator[Finding]:
    name = canonical(f"{module}.{alias.name}")
    if is_boring(name):
        return
    hits = rules_for(name)
    for rule, level in hits:
        yield from rule.on_reference(Reference(alias, name, level, SURE), view)
    if not hits:
        hit = module_level(name if alias.name != "*" else canonical(module))
        if hit is not None:
            yield _imports(alias, f"{module}.{alias.name}", *hit, view)


def _imports(alias: ast.alias, module: str, rule: Rule, level: RiskLevel, view: View) -> Finding:
    reason = f"Imports {module}; what is used of it decides." if level == "low" else f"Imports {module}."
    return rule.finding(view, alias, reason, level)
