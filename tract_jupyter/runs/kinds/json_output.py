"""JSON in a model's reply: finding it, reading it strictly, and comparing it with a schema (X08).

An object of `"key": "type: description"`; a key that ends with `?` may be missing; other keys are refused. A list of
one element says what all elements are. Any other literal is an example: its type counts.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from tract_jupyter.exceptions import nearest
from tract_jupyter.runs import patterns
from tract_jupyter.runs.kinds.base import OperationFailed
from tract_jupyter.runs.reading import message_of
from tract_jupyter.runs.terms import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (isinstance(value, int) and not isinstance(value, bool)) or _is_whole(value),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
    "any": lambda value: True,  # noqa: ARG005
}
_MEANT: Final = {
    "str": "string", "text": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
    "dict": "object", "map": "object", "list": "array", "tuple": "array", "none": "null",
}  # fmt: skip
"""Types of other languages, and what they are called here."""
_WORD: Final = re.compile(r"\w+")
_MAX_PROBLEMS: Final = 20
_MAX_DEPTH: Final = 50


def schema_problems(schema: Any) -> list[str]:
    """Return what in a schema has no meaning: unknown types, and parts that are nested too deeply."""
    found: list[str] = []
    _look_through(schema, "", found, 0)
    return found[:_MAX_PROBLEMS]


def _look_through(schema: Any, path: str, found: list[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        found.append(f"{path or 'the schema'} is nested too deeply")
    elif isinstance(schema, dict):
        for key, part in schema.items():
            _look_through(part, _under(path, key.removesuffix("?")), found, depth + 1)
    elif isinstance(schema, list):
        for part in schema[:1]:
            _look_through(part, f"{path}[0]", found, depth + 1)
    elif isinstance(schema, str) and (unknown := _unknown_type(schema)) is not None:
        found.append(
            f"{path or 'the schema'} has the unknown type {unknown!r}: use {', '.join(_CHECKS)}, or "
            f"{f'string: {schema}'!r} for a text.{nearest(_MEANT.get(unknown, unknown), _CHECKS)}"
        )


def _unknown_type(text: str) -> str | None:
    """Return the word of a leaf that stands in the place of a type and is not one.

    `"strng: the name"` says a type, and so does `"string | nul"`. A word alone is an example, unless it is nearly a
    type here, or one of Python: nobody who writes `"str"` means that text.
    """
    head, colon, rest = text.partition(":")
    words = [word.strip().lower() for word in head.split("|")]
    unknown = [word for word in words if word not in _CHECKS]
    if not unknown or not all(map(_WORD.fullmatch, words)):
        return None
    says_type = (bool(colon) and not rest.startswith("//")) or len(unknown) < len(words)
    is_meant = not colon and any(word in _MEANT or nearest(word, _CHECKS) for word in unknown)
    return unknown[0] if says_type or is_meant else None


def mismatches(value: Any, schema: Any) -> list[str]:
    """Return how a value differs from its schema, with paths such as `tasks[0].id`; empty if it does not."""
    found: list[str] = []
    _compare(value, schema, "", found, 0)
    return found[:_MAX_PROBLEMS]


def _compare(value: Any, schema: Any, path: str, found: list[str], depth: int) -> None:
    if len(found) >= _MAX_PROBLEMS or depth > _MAX_DEPTH:
        return
    if isinstance(schema, dict):
        _compare_object(value, schema, path, found, depth)
    elif isinstance(schema, list):
        _compare_list(value, schema, path, found, depth)
    else:
        types = _types_of(schema)
        if not any(_CHECKS[one](value) for one in types):
            found.append(f"{path or 'the value'} should be {' or '.join(types)}, and is {_type_of(value)}")


def _compare_object(value: Any, schema: dict[str, Any], path: str, found: list[str], depth: int) -> None:
    if not isinstance(value, dict):
        found.append(f"{path or 'the value'} should be object, and is {_type_of(value)}")
        return
    known = {key.removesuffix("?"): (key, part) for key, part in schema.items()}
    found.extend(f"{_under(path, key)} is not expected" for key in value if key not in known)
    for name, (key, part) in known.items():
        if name in value:
            _compare(value[name], part, _under(path, name), found, depth + 1)
        elif not key.endswith("?"):
            found.append(f"{_under(path, name)} is missing")


def _compare_list(value: Any, schema: list[Any], path: str, found: list[str], depth: int) -> None:
    if not isinstance(value, list):
        found.append(f"{path or 'the value'} should be array, and is {_type_of(value)}")
    elif schema:
        for index, one in enumerate(value):
            _compare(one, schema[0], f"{path}[{index}]", found, depth + 1)


def _types_of(schema: Any) -> list[str]:
    """Return the types that a leaf allows: those of `"number | null: why"`, or that of an example."""
    if isinstance(schema, str):
        words = [word.strip().lower() for word in schema.partition(":")[0].split("|")]
        return words if all(word in _CHECKS for word in words) else ["string"]
    return [_type_of(schema)]


def _type_of(value: Any) -> str:
    order = ("boolean", "number", "string", "object", "array", "null")
    return next((name for name in order if _CHECKS[name](value)), "any")


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _under(path: str, key: str) -> str:
    return f"{path}.{key}"[:200] if path else key[:200]


ParseMode = Literal["raw", "markdown_code_block", "custom_regex"]

_FENCE: Final = "```"
_LANGUAGE: Final = re.compile(r"^[\w+-]*\s")
_LONGEST_SEARCHED: Final = 200_000
_LONGEST_ERROR: Final = 512


def read_json(text: str, mode: ParseMode = "raw", pattern: str | None = None) -> Any:
    """Return the JSON value in a text.

    Args:
        text: what a model said.
        mode: the whole text; the first code block; or the first group that `pattern` matches, or its whole match.
        pattern: a regular expression, of `custom_regex`.

    Raises:
        OperationFailed: `output_parse_error`; there is no JSON in it, or it is invalid. NaN and Infinity are refused.
    """
    found = _extracted(text, mode, pattern)
    try:
        return json.loads(found, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"the reply is not JSON: {error}", text) from None


def _extracted(text: str, mode: ParseMode, pattern: str | None) -> str:
    if mode == "markdown_code_block":
        return _code_block(text)
    if mode == "custom_regex":
        return _searched(text, pattern or "")
    return text


def _code_block(text: str) -> str:
    """Return the content of the first code block, without the language after its fence."""
    start = text.find(_FENCE)
    end = text.find(_FENCE, start + 3) if start >= 0 else -1
    if end < 0:
        raise _unreadable("the reply has no code block", text)
    return _LANGUAGE.sub("", text[start + 3 : end], count=1)


def _searched(text: str, pattern: str) -> str:
    try:
        found = patterns.first(pattern, text[:_LONGEST_SEARCHED])
    except OperationFailed as failed:
        raise _unreadable(failed.message, text) from None
    if found is None:
        raise _unreadable("the pattern is not found in the reply", text)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unreadable(message: str, text: str) -> OperationFailed:
    told = message_of(message, _LONGEST_ERROR)
    outputs = {"text": text[:1_024], "characters": len(text), "parseError": told}
    return OperationFailed(ErrorCode.OUTPUT_PARSE, told, outputs=outputs)
