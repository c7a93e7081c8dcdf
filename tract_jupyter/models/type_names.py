"""Type names as data: `"list[str]"`, `"int | None"`, `"Literal['a', 'b']"`.

A specification may come from a model, so its type names are parsed into a syntax tree and mapped through a table.
Nothing is evaluated.
"""

from __future__ import annotations

import ast
from typing import Any, Literal, Optional, Union

from tract_jupyter.exceptions import SpecError, nearest

_PLAIN: dict[str, Any] = {
    "str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "Any": Any, "None": None,
    "object": Any,
}  # fmt: skip
_GENERIC = {"list", "dict", "Literal", "Optional", "Union"}
_FOREIGN = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "null": "None",
    "List": "list", "Dict": "dict", "text": "str",
}  # fmt: skip
_MAX_LENGTH = 500


def parse_type(text: str) -> Any:
    """Turn a type name into the type that pydantic validates.

    Args:
        text: `str int float bool list dict Any None`, `list[T]`, `dict[str, T]`, `T | U`, `Optional[T]`,
            `Union[T, U]` and `Literal[...]`, nested as needed.

    Raises:
        SpecError: the name is unknown or is no type expression.
    """
    if not isinstance(text, str):
        raise SpecError(f"a type is named by a string such as 'list[str]', not by {type(text).__name__}")
    if len(text) > _MAX_LENGTH:
        raise SpecError(f"the type name is {len(text)} characters long; {_MAX_LENGTH} is the most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(
            f"{text!r} is not a type name; use for example 'str', 'list[str]' or 'int | None'"
        ) from None
    return _convert(tree, text)


def _convert(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Name):
        return _named(node.id)
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[_convert(node.left, text), _convert(node.right, text)]  # noqa: UP007
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _subscripted(node.value.id, node.slice, text)
    raise SpecError(f"{text!r} is not a type name; use for example 'str', 'list[str]' or 'int | None'")


def _named(name: str) -> Any:
    if name in _PLAIN:
        return _PLAIN[name]
    known = sorted(set(_PLAIN) | _GENERIC)
    hint = f" Did you mean {_FOREIGN[name]!r}?" if name in _FOREIGN else nearest(name, known)
    raise SpecError(f"unknown type name {name!r}.{hint} Known are: {', '.join(known)}")


def _subscripted(name: str, index: ast.expr, text: str) -> Any:
    arguments = index.elts if isinstance(index, ast.Tuple) else [index]
    if not arguments:
        raise SpecError(f"there is nothing in the brackets of {name!r}, in {text!r}")
    if name == "Literal":
        return Literal[tuple(_literal(argument, text) for argument in arguments)]
    if name not in _GENERIC:
        _named(name)
        raise SpecError(f"{name!r} takes no type in brackets, in {text!r}")
    types = [_convert(argument, text) for argument in arguments]
    if name == "Union":
        return Union[tuple(types)]  # noqa: UP007
    if len(types) != (2 if name == "dict" else 1):
        raise SpecError(
            f"{name}[...] takes {'a key and a value' if name == 'dict' else 'one'} type, in {text!r}"
        )
    if name == "dict":
        if types[0] is not str:
            raise SpecError(f"the keys of a dict are strings, as in JSON: write 'dict[str, ...]' in {text!r}")
        return dict[str, types[1]]  # type: ignore[valid-type]
    return list[types[0]] if name == "list" else Optional[types[0]]  # type: ignore[valid-type] # noqa: UP045


def _literal(node: ast.expr, text: str) -> str | int | bool | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if value is None or isinstance(value, str | int | bool):
        return value
    raise SpecError(f"Literal takes strings, integers, booleans and None, in {text!r}")
