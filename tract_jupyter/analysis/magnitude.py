"""How large a number, a range or a sequence would be, without computing it.

Sizes are powers of ten: 11.0 stands for ``10**11``. A power of a power is as cheap to estimate as a literal.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.analysis.view import View

_MOST = 1e300
_DEEPEST = 40
_SHAPED = words("zeros ones empty full rand randn random random_sample normal uniform eye identity")
_ARRAYS = ("numpy", "numpy.random", "numpy.random.default_rng()", "torch", "jax.numpy", "cupy")
_SHAPING = frozenset(f"{module}.{name}" for module in _ARRAYS for name in _SHAPED)
SIZED = _SHAPING | {
    "builtins.range",
    "builtins.bytes",
    "builtins.bytearray",
    "numpy.arange",
    "itertools.product",
}
"""Functions whose arguments say how much they make."""

_SEQUENCES = (ast.Constant, ast.List, ast.Tuple, ast.JoinedStr)


def magnitude(node: ast.expr | None, view: View, depth: int = 0) -> float | None:
    """The power of ten of the number that an expression comes to; None when it is not known."""
    if depth > _DEEPEST or node is None:
        return None
    estimate = _ESTIMATES.get(type(node), _of_known)
    return estimate(node, view, depth + 1)


def _of_known(node: ast.expr, view: View, _depth: int) -> float | None:
    known = [_log(const) for const in view.resolver.value(node).consts if isinstance(const, int)]
    return max(known, default=None)


def _of_constant(node: ast.Constant, _view: View, _depth: int) -> float | None:
    if isinstance(node.value, float):
        return math.inf if math.isinf(node.value) else _log(node.value)
    return _log(node.value) if isinstance(node.value, int) else None


def _of_name(node: ast.Name, view: View, depth: int) -> float | None:
    known = _of_known(node, view, depth)
    return magnitude(view.program.sole_value(node), view, depth) if known is None else known


def _of_number(node: ast.Call, view: View, depth: int) -> float | None:
    """``int(1e12)``."""
    whole = node.args and view.resolver.value(node.func).names & {"builtins.int", "builtins.round"}
    return magnitude(node.args[0], view, depth) if whole else _of_known(node, view, depth)


def _log(number: float) -> float:
    return math.log10(abs(number)) if number else 0.0


def _of_operation(node: ast.BinOp, view: View, depth: int) -> float | None:
    left, right = magnitude(node.left, view, depth), magnitude(node.right, view, depth)
    combine = _OPERATIONS.get(type(node.op))
    if left is None or right is None or combine is None:
        return None
    return combine(left, right)


def _power(base: float, exponent: float) -> float:
    return base * 10**exponent if exponent < math.log10(_MOST) else math.inf if base else 0.0


_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Pow: _power,
    ast.Mult: lambda left, right: left + right,
    ast.Add: max,
    ast.Sub: max,
    ast.LShift: lambda left, right: left + math.log10(2) * 10 ** min(right, 300),
    ast.FloorDiv: lambda left, right: max(left - right, 0.0),
    ast.Div: lambda left, right: left - right,
}


_ESTIMATES: dict[type[ast.expr], Callable[..., float | None]] = {
    ast.BinOp: _of_operation,
    ast.UnaryOp: lambda node, view, depth: magnitude(node.operand, view, depth),
    ast.Constant: _of_constant,
    ast.Name: _of_name,
    ast.Call: _of_number,
}


def length(node: ast.expr, view: View) -> float | None:
    """The power of ten of how many members an iterable has, or a sequence would have."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for sequence, count in ((node.left, node.right), (node.right, node.left)):
            if _is_sequence(sequence):
                times = magnitude(count, view)
                return None if times is None else times + _own_length(sequence)
    if isinstance(node, ast.Call):
        return _of_call(node, view)
    return None


def _is_sequence(node: ast.expr) -> bool:
    return isinstance(node, _SEQUENCES) and not (
        isinstance(node, ast.Constant) and not isinstance(node.value, (str, bytes))
    )


def _own_length(node: ast.expr) -> float:
    members: Sequence[object] = ()
    if isinstance(node, (ast.List, ast.Tuple)):
        members = node.elts
    elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        members = node.value
    return _log(len(members))


def _of_call(node: ast.Call, view: View) -> float | None:
    names = view.resolver.value(node.func).names
    if "builtins.range" in names and node.args:
        return magnitude(node.args[1] if len(node.args) > 1 else node.args[0], view)
    if names & {"builtins.bytes", "builtins.bytearray"} and node.args:
        return magnitude(node.args[0], view)
    if "numpy.arange" in names and node.args:
        return magnitude(node.args[min(1, len(node.args) - 1)], view)
    if "itertools.product" in names:
        repeat = magnitude(view.argument(node, -1, "repeat"), view)
        return None if repeat is None else 10**repeat * math.log10(2)
    if not names.isdisjoint(_SHAPING):
        return _of_shape(node, view)
    return None


def _of_shape(node: ast.Call, view: View) -> float | None:
    shape = view.argument(node, 0, "shape", "size")
    sizes: Sequence[ast.expr | None] = (
        shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else node.args or [shape]
    )
    known = [magnitude(size, view) for size in sizes]
    return sum(each for each in known if each is not None) if any(known) else None
