"""JSON in a model's reply: extraction, strict reading, and comparison with a schema (X08).

A schema is an object of `"key": "type: description"`. A key that ends with `?` is optional, and other keys are
refused.
A list with one element describes all elements. Any other literal is an example, and its type counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import nearest
from tract_jupyter.models import read_strict_json
from tract_jupyter.runs.kinds.base import OperationFailed, first_match
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
"""Type names of other languages, and the names here."""
_WORD: Final = re.compile(r"\w+")
_MAX_PROBLEMS: Final = 20
_MAX_DEPTH: Final = 50


def schema_problems(schema: Any) -> list[str]:
    """Return the problems of a schema: unknown types, and parts that are nested too deeply."""
    problems: list[str] = []
    _look_through(schema, "", problems, 0)
    return problems[:_MAX_PROBLEMS]


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
    """Return the unknown type name in a leaf; None if the leaf is valid.

    `"strng: the name"` and `"string | nul"` name a type. A single word is an example, unless it is similar to a type
    here or is a type of Python: `"str"` is not meant as a text.
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
    """Return the differences between a value and its schema, with paths such as `tasks[0].id`."""
    problems: list[str] = []
    _compare(value, schema, "", problems, 0)
    return problems[:_MAX_PROBLEMS]


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
            found.append(f"{path or 'the value'} must be {' or '.join(types)}, not {_type_of(value)}")


def _compare_object(value: Any, schema: dict[str, Any], path: str, found: list[str], depth: int) -> None:
    if not isinstance(value, dict):
        found.append(f"{path or 'the value'} must be object, not {_type_of(value)}")
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
        found.append(f"{path or 'the value'} must be array, not {_type_of(value)}")
    elif schema:
        for index, one in enumerate(value):
            _compare(one, schema[0], f"{path}[{index}]", found, depth + 1)


def _types_of(schema: Any) -> list[str]:
    """Return the types that a leaf allows: the types in `"number | null: why"`, or the type of an example."""
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
        text: the model's reply.
        mode: read the whole text, the first code block, or the first match of `pattern` (its first group, if any).
        pattern: a regular expression for `custom_regex`.

    Raises:
        OperationFailed: `output_parse_error`; the text has no valid JSON. NaN and Infinity are invalid.
    """
    source = _extracted(text, mode, pattern)
    try:
        return read_strict_json(source)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"The reply is not JSON: {error}", text) from None


def _extracted(text: str, mode: ParseMode, pattern: str | None) -> str:
    if mode == "markdown_code_block":
        return _code_block(text)
    if mode == "custom_regex":
        return _searched(text, pattern or "")
    return text


def _code_block(text: str) -> str:
    start = text.find(_FENCE)
    end = text.find(_FENCE, start + 3) if start >= 0 else -1
    if end < 0:
        raise _unreadable("The reply has no code block.", text)
    return _LANGUAGE.sub("", text[start + 3 : end], count=1)


def _searched(text: str, pattern: str) -> str:
    try:
        match = first_match(pattern, text[:_LONGEST_SEARCHED])
    except OperationFailed as failed:
        raise _unreadable(failed.message, text) from None
    if match is None:
        raise _unreadable("The pattern does not match the reply.", text)
    return match


def _unreadable(message: str, text: str) -> OperationFailed:
    problem = message_of(message, _LONGEST_ERROR)
    outputs = {"text": text[:1_024], "characters": len(text), "parseError": problem}
    return OperationFailed(ErrorCode.OUTPUT_PARSE, problem, outputs=outputs)
