"""Findings about objects from earlier code: the user's own functions, wrapped functions, clients, connections, parsers.

The line that created the client determines the effect of ``client.post(...)``. The effect of ``drop(x)`` comes from
``drop = vectorize(os.remove)``, and the effect of ``clean(x)`` from the body of ``clean``. If these lines are in
another cell, this cell does not show the danger.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tract_jupyter.analysis import references
from tract_jupyter.analysis.findings import Span
from tract_jupyter.analysis.rules import Reference, all_rules, other_calls, rules_for
from tract_jupyter.analysis.rules.arguments import judged
from tract_jupyter.analysis.rules.base import GUESS, HIGH, LIKELY, MEDIUM, RULES, Rule
from tract_jupyter.analysis.rules.other_calls import words_of
from tract_jupyter.analysis.rules.settings import ALWAYS
from tract_jupyter.analysis.source import SourceText, arguments_of
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.source import Positioned
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView, OwnCode

_MENTIONS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
_MAX_WRAPPERS = 4
_MAX_CHAIN = 50
_STARTS = frozenset({"start", "run", "submit", "call", "schedule", "delay", "apply_async", "__call__"})
"""Methods that call the function which created the object."""

_MAKES = frozenset({"__init__", "__new__", "__post_init__"})


def findings(view: CodeView) -> Iterator[Finding]:
    """Yield the findings about objects from earlier code."""
    for node in view.deadline.watched(view.nodes):
        if isinstance(node, _MENTIONS) and not isinstance(getattr(node, "ctx", None), ast.Store):
            value = view.resolver.value(node)
            if value.functions or value.classes or value.objects:
                yield from _of_own_code(node, value, view)
        if isinstance(node, ast.Call):
            yield from _of_call(node, view)


# the user's own functions and classes


class _OtherCell(SourceText):
    """The source of another cell. Its locations have no meaning in this cell."""

    def __init__(self) -> None:
        super().__init__("")

    def span(self, node: Positioned) -> Span:  # noqa: ARG002
        return Span(1, 0, 1, 0)

    def line_span(self, line: int) -> Span:  # noqa: ARG002
        return Span(1, 0, 1, 0)


_OTHER_CELL = _OtherCell()


def _of_own_code(node: ast.expr, value: Value, view: CodeView) -> Iterator[Finding]:
    """Yield the findings in the user's own code of earlier cells, at its first mention in this cell."""
    for own in _mentioned(node, value, view):
        if own not in view.own_code and own not in view.reported:
            view.reported.add(own)
            if view.source is not _OTHER_CELL:
                yield from (_moved(finding, node, view) for finding in _summary(own, view))


def _moved(finding: Finding, node: ast.expr, view: CodeView) -> Finding:
    span = view.source.span(node)
    return replace(finding, span=span, text=view.source.text(span))


def _mentioned(node: ast.expr, value: Value, view: CodeView) -> Iterator[OwnCode]:
    if not isinstance(node, ast.Attribute) or _is_own_method(node, view):
        yield from value.functions
    if isinstance(view.parent(node), ast.Attribute):
        return  # the attribute is a separate mention
    for classes, makes in ((value.classes, True), (value.objects, False)):
        for each in (member for own in classes for member in own.body):
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name[:2] == "__":
                yield from [each] if (each.name in _MAKES) is makes else ()


def _is_own_method(node: ast.Attribute, view: CodeView) -> bool:
    """Return True if an attribute is certainly or probably a method of the user's own object."""
    owner = view.resolver.value(node.value)
    if owner.objects or owner.classes:
        return True
    is_unknown = owner.items is None and owner.entries is None and not (owner.names or owner.consts)
    return is_unknown and node.attr not in _COMMON


_COMMON = words(
    "read write close open run start stop send post put load save fit predict eval execute query delete"
).union(*map(dir, (dict, list, set, str, bytes, int)))
"""Methods that objects of many kinds have."""


def _summary(own: OwnCode, view: CodeView) -> Iterator[Finding]:
    """Yield the worst finding of each rule in a function, and in the functions that it calls."""
    worst: dict[str, Finding] = {}
    called = {own}
    pending = [own]
    while pending:
        direct, mentioned = _direct(pending.pop(), view)
        for finding in direct:
            before = worst.setdefault(finding.code, finding)
            worst[finding.code] = max(before, finding, key=lambda each: each.level.rank)
        new = [each for each in mentioned if each not in called]
        called.update(new)
        pending += new
    name = getattr(own, "name", "The lambda")
    yield from (
        replace(each, reason=f"{name}, from an earlier cell: {each.reason}") for each in worst.values()
    )


def _direct(own: OwnCode, view: CodeView) -> tuple[list[Finding], set[OwnCode]]:
    """Return the findings in a function of the user's own, and the other functions that it mentions."""
    known = view.direct.get(own)
    if known is None:
        inner = replace(
            view,
            source=_OTHER_CELL,
            nodes=_subtree(own),
            escapes=(),
            external=[],
            problems=[],
            reported=set(),
        )
        sources = (
            references.findings(inner),
            references.stored(inner),
            other_calls.findings(inner),
            *(rule.check(inner) for rule in all_rules() if type(rule).check is not Rule.check),
            findings(inner),
        )
        direct = [
            each for each in chain.from_iterable(sources) if each.level >= MEDIUM and each.code < ALWAYS
        ]
        known = view.direct[own] = (direct, inner.reported)
    return known


def _subtree(own: OwnCode) -> list[ast.AST]:
    """Return the nodes of a function, each after the one around it."""
    nodes: list[ast.AST] = []
    stack: list[ast.AST] = [own]
    while stack:
        nodes.append(stack.pop())
        stack.extend(reversed(list(ast.iter_child_nodes(nodes[-1]))))
    return nodes


# calls


def _of_call(node: ast.Call, view: CodeView) -> Iterator[Finding]:
    """Yield the findings about a call that follow from the origins of its function, object and arguments."""
    yield from _wrapped(node, view)
    yield from _acts(node.func, view.resolver.value(node.func), node, view)
    if isinstance(node.func, ast.Attribute):
        yield from _sends(node, node.func, view)
    for argument in arguments_of(node):
        if isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript)):
            value = view.resolver.value(argument)
            yield from _acts(argument, value, None, view)
            yield from _options(argument, value, view)


def _wrapped(node: ast.Call, view: CodeView) -> Iterator[Finding]:
    """Yield the findings about functions that a called object wraps."""
    wrapper: ast.expr = node.func
    if isinstance(wrapper, ast.Attribute) and wrapper.attr in _STARTS:
        wrapper = wrapper.value
    layer = [view.resolver.value(wrapper)]
    for _ in range(_MAX_WRAPPERS):
        calls = dict.fromkeys(call for value in layer for call in value.made)
        if not calls:
            return
        parts = [part for call in calls for part in arguments_of(call)]
        layer = [view.resolver.value(part) for part in parts if isinstance(part, (*_MENTIONS, ast.Lambda))]
        for value in layer:
            yield from references.named(node.func, value, view)
            yield from _of_own_code(node.func, value, view)
            yield from _acts(node.func, value, node, view)


def _options(argument: ast.expr, value: Value, view: CodeView) -> Iterator[Finding]:
    """Yield the findings about an argument, such as a parser, that another cell created with a dangerous option."""
    for keyword in (each for call in value.made if call not in view.calls for each in call.keywords):
        reported = references.keyword_findings(keyword, replace(view, source=_OTHER_CELL))
        yield from (_moved(finding, argument, view) for finding in reported if finding.code == _READS_ADDRESS)


_READS_ADDRESS = "TJ303"


def _acts(node: ast.expr, value: Value, call: ast.Call | None, view: CodeView) -> Iterator[Finding]:
    """Yield the findings about an acting verb on an object of known origin: ``bucket.objects.all().delete()``."""
    for name in value.names:
        root, _, rest = name.partition("()")
        if call is not None and name.removeprefix(f"{root}()").replace("[]", "") == "":
            yield from _called(node, root, view)
        if not rest or rest[-1] in ")]":
            continue
        known = {rule for rule, _ in rules_for(name)}
        for rule, level in rules_for(root):
            if rule not in known and _is_act(rule.name, root, rest):
                made_level = _made_level(rule, root, level, node, view)
                deserved = level if made_level is not None and rule.name == _NETWORK else made_level
                if deserved is not None and deserved >= MEDIUM and not _only_reads(call, view):
                    shown = name.replace("[]", "[...]")
                    yield rule.finding(view, node, f"{shown} {rule.effect}.", deserved, LIKELY)


def _called(node: ast.expr, root: str, view: CodeView) -> Iterator[Finding]:
    """Yield the findings about a call of a command that earlier code prepared: ``sh.rsync.bake("-a")``."""
    for rule, level in rules_for(root):
        if rule.name == "starts-program" and level >= HIGH:
            yield rule.finding(view, node, f"{root}() {rule.effect}.", level, LIKELY)


_NETWORK = "talks-to-network"


def _made_level(rule: Rule, root: str, level: RiskLevel, node: ast.expr, view: CodeView) -> RiskLevel | None:
    """Return the level of the call that created the object, by its arguments; None for no finding."""
    if (root, rule.name) not in effects().calls:
        return level
    for _ in range(_MAX_CHAIN):
        for call in view.resolver.value(node).made:
            if root in view.resolver.value(call.func).names:
                return judged(Reference(call.func, root, level, LIKELY), rule, view)
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            break
    return level


_BODIES = frozenset({"json", "data", "files", "content", "body"})


def _sends(node: ast.Call, function: ast.Attribute, view: CodeView) -> Iterator[Finding]:
    """Yield a finding about an object of unknown origin that sends a body to an address, as HTTP clients do."""
    if function.attr not in {"post", "put", "patch"}:
        return
    owner = view.resolver.value(function.value)
    if owner.names or owner.objects or owner.consts or view.resolver.value(function).functions:
        return
    if node.args and any(keyword.arg in _BODIES for keyword in node.keywords):
        texts = view.resolver.value(node.args[0]).texts
        if not texts or any("://" in text for text in texts):
            reason = f"{function.attr} sends data to an address."
            yield RULES["TJ301"].finding(view, function, reason, HIGH, GUESS)


# verbs


_READS = words(
    """get list describe find is has count search fetch read head show view check exists iter scan lookup select
    query stat download load browse retrieve options peek page paginate watch"""
)
_ACTS = {
    _NETWORK: words(
        """post put patch delete send upload publish push write create update insert upsert remove drop purge
        flush flushall flushdb truncate execute exec run invoke call submit emit produce sync save append copy move
        rename transfer terminate stop start restart reboot shutdown kill revoke grant share invite buy sell order
        withdraw pay refund charge merge commit tweet reply message notify broadcast mail sendmail email request
        enable disable attach detach scale deploy apply replace destroy erase wipe clear empty block ban import
        export store storbinary set add rm rmdir rmtree unlink sendline trigger cancel approve connect login bulk
        ingest mutate executemany executescript enqueue schedule dispatch register authorize assume transact swap
        stake mint burn vote follow retweet dial say whisper launch provision release rollback reset rotate mkdir
        stor"""
    ),
    "starts-program": words(
        "write writelines communicate send sendline sendcontrol run exec execute submit push sudo local bake"
    ),
    "reads-secret": words(
        "read get access fetch retrieve reveal decrypt password credential credentials secret secrets find"
    ),
    "steers-process": words("start run join press release type click move scroll hotkey tap drag"),
    "loads-objects": words("load loads decode read recv get"),
    "runs-text": words("push run runsource runcode exec execute eval interact"),
}
"""The verbs that act on an object of a known origin, by the name of the rule."""

_ANY_METHOD = frozenset({"calls-native-code"})
"""Rules about objects whose methods all count."""

_ON_DATA = words("update insert append add copy remove clear replace set format empty reset")
"""Verbs that change the data of a response, and nothing on the server."""

_CONFIGURES = words("set add register update reset")
"""Verbs that usually change a setting if a second word follows: ``set_timeout``, ``add_handler``."""

_SETTINGS = words(
    "headers cookies params auth proxies adapters hooks config meta options settings conf environ"
)
_MAKERS = words("create open start connect build init make from new")


@derived
def _is_act(rule: str, root: str, rest: str) -> bool:
    """Return True if the last name after an object acts on the object's resource."""
    if rule in _ANY_METHOD:
        return True
    verbs, [*before, last] = (
        _ACTS.get(rule, frozenset()),
        [words_of(part) for part in rest.strip(".").split(".")],
    )
    if verbs.isdisjoint(last) or last[0] in _READS - verbs:
        return False
    if rule != _NETWORK:
        return True
    maker = words_of(root.rpartition(".")[2])
    is_data = len(maker) == 1 and maker[0] in (_READS | verbs) - _MAKERS and root.rpartition(".")[2].islower()
    if is_data or any(not _SETTINGS.isdisjoint(part) for part in before):
        return False
    has_read = any(part and part[0] in _READS for part in before)
    is_local = last[0] in _ON_DATA if has_read else len(last) > 1 and last[0] in _CONFIGURES
    return not is_local


_READS_ONLY = re.compile(
    r"(?is)\A\s*(?:select|show|describe|explain|with|match|optional\s+match|unwind|return|use|for|prefix|ask)\b"
)
_CHANGES = re.compile(
    r"(?i)\b(?:insert|update|delete|drop|alter|create|truncate|merge|set|remove|grant|revoke|copy|call|detach)\b"
)


def _only_reads(call: ast.Call | None, view: CodeView) -> bool:
    """Return True if the argument of the call is a statement that only reads."""
    texts = view.resolver.value(call.args[0]).texts if call is not None and call.args else ()
    return bool(texts) and all(_READS_ONLY.match(text) and not _CHANGES.search(text) for text in texts)
