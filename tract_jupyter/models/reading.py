"""Plain data read as typed values, strictly; problems in plain words."""

from __future__ import annotations

import json
import re
import typing
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict, is_typeddict

from tract_jupyter.exceptions import ContentError, TractError, nearest
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pydantic_core import ErrorDetails

T = TypeVar("T")

_WORDS: Final = {
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long: at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be more than {gt}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "dataclass_type": "must be an object",
    "dataclass_exact_type": "must be made with {class_name}(...)",
    "callable_type": "must be a function",
    "sequence_str": "must be a list",
    "is_instance_of": "must be of type {class}",
    "too_short": "must not be empty",
    "too_long": "has too many entries: at most {max_length}",
    "union_tag_invalid": "has an unknown type {tag!r}: use one of {expected_tags}",
    "union_tag_not_found": "has no 'type'",
    "missing": "is missing",
    "value_error": "{error}",
    "json_invalid": "holds text that is not valid Unicode",
}
"""The problem, by pydantic's type of the error."""
UNKNOWN_FIELD: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_MOST_PROBLEMS: Final = 5
_CHOICE: Final = re.compile(r"'([^']*)'")


def problem_in_words(error: ErrorDetails, name: str) -> str:
    """Describe the problem of a value: `maxAttempts must be at most 10, not 11`."""
    words = _WORDS.get(error["type"], "is not a valid value").format(**_limits(error))
    silent = {"missing", "json_invalid", "value_error"}
    input_text = "" if error["type"] in silent else _input_text(error["input"])
    return f"{name} {words}{input_text}"


def _limits(error: ErrorDetails) -> dict[str, Any]:
    """Return the values for the words of an error, with whole limits of numbers as `1`, not `1.0`."""
    values = error.get("ctx", {})
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in values.items()
    }


def read_as(kind: Any, data: object, error: type[TractError], place: str = "") -> Any:
    """Read plain data as a value of a type, by JSON's rules: a text is no number, 1 is not true. Or raise `error`."""
    try:
        canonical_json(data)
        return _adapter(kind).validate_json(json.dumps(data), strict=True)
    except ContentError as wrong:
        raise error(f"{place or 'it'} cannot be read: {wrong}") from None
    except ValidationError as wrong:
        raise error(_problems(kind, wrong, place)) from None


def check_fields(record: Any, error: type[TractError], place: str = "", skip: Collection[str] = ()) -> None:
    """Check the values of a dataclass by its annotations. Call it in `__post_init__`, before any other use."""
    record_type: Any = type(record)
    kind = _fields_of(record_type, frozenset(skip))
    try:
        _adapter(kind).validate_python({name: getattr(record, name) for name in _hints(kind)}, strict=True)
    except ValidationError as wrong:
        raise error(_problems(kind, wrong, place)) from None


@cache
def _fields_of(kind: Any, skip: frozenset[str]) -> Any:
    """Return a TypedDict with the fields of a dataclass. Pydantic takes an object of a dataclass without checks."""
    hints = typing.get_type_hints(kind, include_extras=True)
    checked = {one.name: hints[one.name] for one in fields(kind) if one.init and one.name not in skip}
    return with_config(ConfigDict(allow_inf_nan=False))(TypedDict(kind.__name__, checked))  # type: ignore[operator] # made at run time


def _problems(kind: Any, wrong: ValidationError, place: str) -> str:
    problems = wrong.errors(include_url=False)[:_MOST_PROBLEMS]
    return "; ".join(_described(kind, problem, place) for problem in problems)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _described(kind: Any, error: ErrorDetails, place: str) -> str:
    path = ".".join(filter(None, [place, *map(str, error["loc"])]))
    if error["type"] in UNKNOWN_FIELD:
        where, _, name = path.rpartition(".")
        known = _names_in(kind, error["loc"][:-1])
        return f"{where or 'it'} has no part {name!r}.{nearest(name, known)} It takes {', '.join(known)}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    choices = _CHOICE.findall(str(error.get("ctx", {}).get("expected", "")))
    close = nearest(str(error["input"]), choices)
    return f"{problem_in_words(error, path or 'it')}{'.' if close else ''}{close}"


def _names_in(kind: Any, path: Sequence[int | str]) -> list[str]:
    """Return the names of the parts that the value at a path may have."""
    for part in path:
        kind = next(
            (inner for alternative in _alternatives(kind) for inner in _inner(alternative, part)), None
        )
    return [name for alternative in _alternatives(kind) for name in _hints(alternative)]


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if type(None) in typing.get_args(kind) else (kind,)


def _inner(kind: Any, part: int | str) -> Iterator[Any]:
    if part in (hints := _hints(kind)):
        yield hints[str(part)]
    elif arguments := typing.get_args(kind):
        yield arguments[-1]  # of a dict or a list


def _hints(kind: Any) -> dict[str, Any]:
    is_record = is_dataclass(kind) or is_typeddict(kind)
    return typing.get_type_hints(kind) if is_record else {}


def _input_text(value: object) -> str:
    # a long value may be the user's text, and says little about the problem
    return f", not {brief_repr(value)}" if isinstance(value, str | int | float | None) else ""
