"""Digests of functions: Keep makes a function of its definition only if the function in the copy is that definition.

Code can replace parts of a function after its definition: `f.__code__`, `f.__defaults__`, `f.__dict__`.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
from types import CodeType, FunctionType
from typing import Any, Final

Definition = ast.FunctionDef | ast.AsyncFunctionDef

TEXT_ANNOTATIONS: Final = __future__.annotations.compiler_flag
_FLAGS: Final = (0, TEXT_ANNOTATIONS)  # a cell may have either
_FILE: Final = "<definition>"
_LITERALS: Final = frozenset({str, bytes, int, float, complex, bool, type(None), type(...)})
_COLLECTIONS: Final = frozenset({list, tuple})
_SETS: Final = frozenset({set, frozenset})


def function_digest(function: FunctionType, namespace: dict[str, Any]) -> str:
    """Return a digest of everything that calls of a function depend on. Empty if it has more than a definition gives.

    A definition in the code would use the variables of `namespace`.
    """
    has_more = (
        type(function) is not FunctionType
        or function.__closure__
        or function.__dict__
        or function.__globals__ is not namespace
        or function.__name__ != function.__code__.co_name
    )
    if has_more:
        return ""
    return _digest(function.__code__, function.__defaults__, function.__kwdefaults__, function.__doc__)


def definition_digests(node: Definition) -> set[str]:
    """Return the digests that functions of a definition can have. Nothing of it runs.

    The definition has no decorators, and its defaults are literals.
    """
    found = set()
    for flags in _FLAGS:
        code = code_of(node, _FILE, flags)
        text = FunctionType(code, {}).__doc__
        found.add(_digest(code, defaults_of(node), keyword_defaults_of(node), text))
    return found - {""}


def code_of(node: Definition, file: str, flags: int = TEXT_ANNOTATIONS) -> CodeType:
    """Compile a definition, and return the code of its function."""
    module = compile(ast.Module([node], []), file, "exec", flags, dont_inherit=True)
    return next(one for one in module.co_consts if isinstance(one, CodeType) and one.co_name == node.name)


def defaults_of(node: Definition) -> tuple[Any, ...] | None:
    """Return the defaults of a definition, as the function has them."""
    return tuple(map(ast.literal_eval, node.args.defaults)) or None


def keyword_defaults_of(node: Definition) -> dict[str, Any] | None:
    """Return the defaults of the keyword-only arguments of a definition, as the function has them."""
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return {one.arg: ast.literal_eval(default) for one, default in pairs if default is not None} or None


def _digest(code: CodeType, *values: Any) -> str:
    try:
        text = repr([_code(code), *map(_literal, values)])
    except (ValueError, RecursionError):
        return ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _code(code: CodeType) -> tuple[Any, ...]:
    """Return what a code object does, without its file and its lines."""
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & ~TEXT_ANNOTATIONS,
        code.co_name,
        code.co_qualname,
        [_literal(one) for one in code.co_consts],
    )


def _literal(value: Any) -> Any:
    """Return a value that has the same text for the same constant only."""
    kind = type(value)
    if kind is CodeType:
        return _code(value)
    if kind in _LITERALS:
        return kind.__name__, repr(value)
    if kind in _COLLECTIONS:
        return kind.__name__, [_literal(one) for one in value]
    if kind in _SETS:
        return kind.__name__, sorted(repr(_literal(one)) for one in value)
    if kind is dict:
        return "dict", [(_literal(key), _literal(one)) for key, one in value.items()]
    if kind is slice:  # a constant since Python 3.14
        return "slice", repr(value)
    raise ValueError(f"a {kind.__name__} is no literal")
