"""Mentions: the syntax nodes with names that rules report, and the findings about them."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tract_jupyter.analysis.calls import GETATTR
from tract_jupyter.analysis.limits import TooLongError
from tract_jupyter.analysis.rules import Reference, Rule, is_boring, module_level, rules_for
from tract_jupyter.analysis.rules.arguments import described, described_value, is_foreign, judged
from tract_jupyter.analysis.rules.base import GUESS, LIKELY, LOW, SURE
from tract_jupyter.analysis.rules.lookup import asked, asked_attributes, rules_by_name
from tract_jupyter.analysis.tables.effects import of_keyword, of_set
from tract_jupyter.analysis.values import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.lookup import Hits
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView

_NAMING = GETATTR | {"builtins.setattr", "builtins.delattr", "operator.attrgetter", "operator.methodcaller"}
_MAP = frozenset({"builtins.map"})
_STATEMENTS = frozenset(ast.stmt.__subclasses__())
_READERS = frozenset({"__getattribute__", "__getattr__", "get"})


def findings(view: CodeView) -> Iterator[Finding]:
    """Yield the findings about every mention of a name, innermost expressions first."""
    for node in view.deadline.watched(_mentions(view.nodes)):
        try:
            yield from _LOOKS[type(node)](node, view)
        except TooLongError:
            raise
        except Exception as error:  # noqa: BLE001 - a failure about one mention must not end the others
            view.problems.append(error)


def _mentions(nodes: Sequence[ast.AST]) -> Sequence[ast.AST]:
    """Return the nodes that may be mentions, statement by statement. Within a statement, inner nodes come first.

    In this order, an evaluation finds the parts of its expression and the bindings of earlier lines in the cache. So it
    never recurses deeply.
    """
    mentions: list[ast.AST] = []
    statement: list[ast.AST] = []
    for node in nodes:
        kind = type(node)
        if kind in _STATEMENTS:
            mentions += reversed(statement)
            statement = []
        if kind in _LOOKS:
            statement.append(node)
    return mentions + statement[::-1]


def imported(view: CodeView) -> tuple[str, ...]:
    """Return the dotted names of imported modules, sorted."""
    modules = {alias.name for node in view.of(ast.Import) for alias in node.names}
    modules.update("." * node.level + (node.module or "") for node in view.of(ast.ImportFrom))
    return tuple(sorted(modules))


def _name(node: ast.Name, view: CodeView) -> Iterable[Finding]:
    if isinstance(node.ctx, ast.Store):
        return ()  # the assigned value is a separate mention
    return named(node, view.resolver.value(node), view)


def _attribute(node: ast.Attribute, view: CodeView) -> Iterable[Finding]:
    findings_so_far = named(node, view.resolver.value(node), view)
    if node.attr not in asked_attributes() or (node.attr in view.program.methods and node.attr[:2] != "__"):
        return findings_so_far
    return chain(findings_so_far, _ask(node, f"*.{node.attr}", SURE, view))


def _call(node: ast.Call, view: CodeView) -> Iterator[Finding]:
    value = view.resolver.value(node)
    yield from named(node, value, view)
    function = view.resolver.value(node.func).names
    if value.items is not None and function == _MAP and not value.names:
        # map(methodcaller("system", ...), [os]) names the function nowhere but in what it yields.
        yield from chain.from_iterable(named(node, item, view) for item in value.items)
    for name in _spelt(node, function, view):
        yield from _ask(node, f"*.{name}", SURE, view)


def _subscript(node: ast.Subscript, view: CodeView) -> Iterator[Finding]:
    yield from named(node, view.resolver.value(node), view)
    for text in view.resolver.value(node.slice).texts:
        if text.startswith("__"):
            yield from _ask(node, f"*.{text}", SURE, view)


def _match_class(node: ast.MatchClass, view: CodeView) -> Iterator[Finding]:
    for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
        yield from _ask(pattern, f"*.{name}", SURE, view)


def named(node: ast.expr, value: Value, view: CodeView) -> Iterable[Finding]:
    """Return the findings about an expression because of its possible values."""
    hits = asked(value.names)
    return _judged(node, value, hits, view) if hits else ()


def _judged(node: ast.expr, value: Value, hits: Hits, view: CodeView) -> Iterator[Finding]:
    confidence = GUESS if value.guessed else _confidence(node, len(value.names))
    parent = view.parent(node)
    # The same rule may report the longer chain that begins with this node.
    longer = view.resolver.value(parent).names if isinstance(parent, ast.Attribute) else frozenset()
    later = {rule for _, rule, _ in asked(longer)}
    for name, rule, level in hits:
        if rule not in later:
            yield from _findings_of(rule, Reference(node, name, level, confidence), view)


def _findings_of(rule: Rule, reference: Reference, view: CodeView) -> Iterable[Finding]:
    """Return a rule's findings about a mention, at the level for the arguments of its call."""
    level = judged(reference, rule, view)
    if level is None:
        return ()
    return rule.on_reference(reference if level is reference.level else replace(reference, level=level), view)


def _confidence(node: ast.expr, possibilities: int) -> float:
    return SURE if possibilities == 1 and isinstance(node, (ast.Name, ast.Attribute)) else LIKELY


def _ask(node: ast.expr | ast.pattern, symbol: str, confidence: float, view: CodeView) -> Iterable[Finding]:
    hits = rules_for(symbol)
    if not hits:
        return ()
    return chain.from_iterable(
        _findings_of(rule, Reference(node, symbol, level, confidence), view) for rule, level in hits
    )


def _spelt(node: ast.Call, names: frozenset[str], view: CodeView) -> Sequence[str]:
    """Return the attributes that a call of one of these functions reads by name."""
    if not names.isdisjoint(_NAMING):
        arguments = node.args[:1] if any(name.startswith("operator.") for name in names) else node.args[1:2]
        known = asked_attributes()
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _READERS:
        arguments, known = node.args[:2], frozenset()  # the keys of a dict can have any name
    else:
        return ()
    texts = [text for argument in arguments for text in view.resolver.value(argument).texts]
    return tuple(part for text in texts for part in text.split(".") if "__" in part or part in known)


def keyword_findings(node: ast.keyword, view: CodeView) -> Iterator[Finding]:
    """Yield findings about keyword arguments of any function: ``trust_remote_code=True``."""
    call = view.parent(node)
    if isinstance(call, ast.Call) and view.resolver.value(call.func).functions:
        return  # the analyzer reads the user's own function
    if node.arg is not None:
        matches = _keyword_matches(node, node.arg, described(node.value, None, view), view, value=node.value)
        yield from (finding for finding in matches if not _is_findings_of(call, finding, view))
        return
    for key, value in view.resolver.value(node.value).entries or ():
        if isinstance(key, str):
            yield from _keyword_matches(node, key, described_value(value, None, view), view)


def _is_findings_of(call: ast.AST | None, finding: Finding, view: CodeView) -> bool:
    """Return True if the called name already has the same finding at this level or above."""
    if not isinstance(call, ast.Call):
        return False
    matches = named(call.func, view.resolver.value(call.func), view)
    return any(other.code == finding.code and other.level >= finding.level for other in matches)


def _entries(node: ast.Dict, view: CodeView) -> Iterator[Finding]:
    """Yield findings about keywords in a dictionary. A plain text counts less there."""
    for key, value in zip(node.keys, node.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        if isinstance(name, str) and (of_keyword(name) if "_" in name else ()):
            yield from _keyword_matches(key or value, name, described(value, None, view), view, _CERTAIN)


_CERTAIN = frozenset({"true", "false"})


def _keyword_matches(
    node: ast.expr | ast.keyword,
    name: str,
    values: Iterable[frozenset[str]],
    view: CodeView,
    only: frozenset[str] = frozenset(),
    value: ast.expr | None = None,
) -> Iterator[Finding]:
    known = of_keyword(name)
    for words in values if known else ():
        for (rule, word), level in known:
            brought = word == "foreign" and "text" not in words and is_foreign(value, view)
            if (word in words or brought) and (not only or word in only or word[0] == "="):
                reported = rules_by_name()[rule]
                yield reported.finding(view, node, f"{name} {reported.effect}.", level, LIKELY)


def stored(view: CodeView) -> Iterator[Finding]:
    """Yield the findings about writes to members of objects."""
    for write in view.member_writes:
        owners = (name.removesuffix(".__dict__") for name in view.resolver.value(write.owner).names)
        named = {canonical(f"{name}.{write.member}") for name in owners}
        own = isinstance(write.owner, ast.Name) and write.owner.id in {"self", "cls"}
        if isinstance(write.owner, ast.Attribute):
            named.add(f"*.{write.owner.attr}.{write.member}")
        if write.value is not None and not own:
            words = described(write.value, None, view)
            yield from _keyword_matches(write.node, write.member, words, view, _CERTAIN)
        for name in sorted(named if own else named | {f"*.{write.member}"}):
            for rule, level in of_set(name):
                reported = rules_by_name()[rule]
                shown = name.removeprefix("*.")
                yield reported.finding(
                    view, write.node, f"Sets {shown}, which {reported.effect}.", level, LIKELY
                )


def _import(node: ast.Import, view: CodeView) -> Iterator[Finding]:
    for alias in node.names:
        hit = module_level(canonical(alias.name))
        if hit is not None:
            yield _imports(alias, alias.name, *hit, view)


def _import_from(node: ast.ImportFrom, view: CodeView) -> Iterator[Finding]:
    if not node.level:
        for alias in node.names:
            yield from _imported_member(alias, node.module or "", view)


def _imported_member(alias: ast.alias, module: str, view: CodeView) -> Iterator[Finding]:
    name = canonical(f"{module}.{alias.name}")
    hits = rules_for(name)
    if not hits and is_boring(name):
        return
    for rule, level in hits:
        yield from _findings_of(rule, Reference(alias, name, level, SURE), view)
    if not hits:
        hit = module_level(name if alias.name != "*" else canonical(module))
        if hit is not None:
            yield _imports(alias, f"{module}.{alias.name}", *hit, view)


def _imports(alias: ast.alias, module: str, rule: Rule, level: RiskLevel, view: CodeView) -> Finding:
    more = " The risk depends on the members that the code uses." if level is LOW else ""
    return rule.finding(view, alias, f"Imports {module}.{more}", level)


_LOOKS: dict[type[ast.AST], Callable[..., Iterable[Finding]]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.MatchClass: _match_class,
    ast.keyword: keyword_findings,
    ast.Dict: _entries,
}
