"""What takes all memory or time: huge results (TJ701) and patterns that never end (TJ704)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.magnitude import SIZED, length, magnitude
from tract_jupyter.analysis.rules.base import LIKELY, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.endless import has_exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import View

_TOO_MANY = 9.0
_TOO_MANY_STEPS = 10.0
_TOO_MANY_DIGITS = 6.0
_COLLECTS = frozenset(
    f"builtins.{name}"
    for name in ("list", "tuple", "set", "sorted", "sum", "max", "min", "dict", "frozenset", "print", "bytes")
)
_SIZED = _COLLECTS | SIZED | {"math.factorial", "math.perm", "math.comb"}
_GROWS_FAST = frozenset({"math.factorial", "math.perm", "math.comb"})


@register
class TakesMemory(Rule):
    """Makes something too large for the machine.

    ## What it does
    Estimates numbers, ranges and sequences without computing them, and reports those of a thousand million
    members, or of a million digits, and more.

    ## Why it matters
    The kernel runs out of memory or hangs in one operation that no interrupt ends; the notebook's variables
    are lost.

    ## Example
    ```python
    x = list(range(10**11))
    ```

    ## What to do instead
    Work on pieces, or iterate over a `range` up to a limit.
    """

    code = "TJ701"
    name = "takes-memory"
    category = Category.RESOURCES
    level = MEDIUM
    effect = "takes more memory or time than the machine has"
    remedy = "Work on pieces, or up to a limit."

    def check(self, view: View) -> Iterator[Finding]:
        """Look at powers, repetitions, collected ranges and loops over them."""
        for node in view.of(ast.BinOp):
            if isinstance(node.op, (ast.Pow, ast.LShift)) and _has_many_digits(node, view):
                yield self.finding(view, node, f"This number {self.effect}.", confidence=LIKELY)
            elif isinstance(node.op, ast.Mult) and (length(node, view) or 0) >= _TOO_MANY:
                yield self.finding(view, node, f"This sequence {self.effect}.", confidence=LIKELY)
        for call in view.calls_to(_SIZED):
            if _makes_much(call, view):
                yield self.finding(view, call, f"This call {self.effect}.", confidence=LIKELY)
        for iterable, loop in _iterated(view):
            if (length(iterable, view) or 0) >= _TOO_MANY_STEPS and (
                loop is None or not has_exit(loop, view)
            ):
                yield self.finding(
                    view, iterable, "Looping over this does not end in a day.", confidence=LIKELY
                )


def _has_many_digits(node: ast.BinOp, view: View) -> bool:
    # 2.0**1e9 overflows at once, and a name on the left may be an array.
    outer = view.parent(node)
    size = magnitude(node, view)
    inner = isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Pow)
    return not inner and size is not None and size >= 10**_TOO_MANY_DIGITS


def _makes_much(call: ast.Call, view: View) -> bool:
    names = view.resolver.value(call.func).names
    if names & _COLLECTS and call.args and (length(call.args[0], view) or 0) >= _TOO_MANY:
        return True
    if names & _GROWS_FAST and call.args:
        return (magnitude(call.args[0], view) or 0) >= _TOO_MANY_DIGITS
    return "builtins.range" not in names and (length(call, view) or 0) >= _TOO_MANY


def _iterated(view: View) -> Iterator[tuple[ast.expr, ast.For | None]]:
    yield from ((loop.iter, loop) for loop in view.of(ast.For))
    yield from ((iterable, None) for iterable in view.collected())


_ATOM = r"(?:\\.|\[[^\]]*\]|[^()\\\[\]?*+{}|^$])"
_NESTED_REPEAT = re.compile(rf"\((?:\?:)?(?:{_ATOM}[?*])*{_ATOM}[+*](?:{_ATOM}[?*])*\)(?:[+*]|\{{\d*,\d*\}})")
_ALTERNATIVE_REPEAT = re.compile(r"\((?:\?:)?(\\?.)\|\1+\)[+*]")
_PATTERN_CALLS = frozenset(
    f"re.{name}"
    for name in ("match", "fullmatch", "search", "compile", "sub", "subn", "findall", "finditer", "split")
)


@register
class MatchesForever(Rule):
    """Uses a regular expression that can take exponential time.

    ## What it does
    Reports patterns that repeat a repetition, such as `(a+)+$`.

    ## Why it matters
    On a text that almost matches, the search tries every way to divide it. It cannot be interrupted.

    ## Example
    ```python
    import re
    re.match(r"(a+)+$", text)
    ```

    ## What to do instead
    Repeat once: `a+$`; or use a possessive repetition, `(?:a++)+$` (Python 3.11).
    """

    code = "TJ704"
    name = "matches-forever"
    category = Category.RESOURCES
    level = MEDIUM
    effect = "can take exponential time"
    remedy = "Write the pattern without a repetition of a repetition."

    def check(self, view: View) -> Iterator[Finding]:
        """Look at the patterns given to the functions of ``re``."""
        for call in view.calls_to(_PATTERN_CALLS):
            for text in view.resolver.value(call.args[0]).texts if call.args else ():
                if _NESTED_REPEAT.search(text) or _ALTERNATIVE_REPEAT.search(text):
                    yield self.finding(view, call, f"This pattern {self.effect}.", confidence=LIKELY)
