"""Strict reading of JSON from users and models, with stable rule names and plain messages; safe texts for logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from tract_jupyter.exceptions import nearest
from tract_jupyter.llm import mask_secrets
from tract_jupyter.models import problem_in_words, safe_repr, shortened
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, Data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails


MASK: Final = "[masked]"

_LONGEST_LOOKED_AT: Final = 20_000


def masked(text: str) -> str:
    """Mask keys, tokens and passwords in a text, and cut a very long text."""
    return mask_secrets(text[:_LONGEST_LOOKED_AT], MASK)


def message_of(error: BaseException | str, limit: int = MAX_ERROR_TEXT) -> str:
    """Return the message of an error: bounded, printable and without keys. Never raises."""
    if isinstance(error, str):
        return shortened(masked(error), limit)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 # it may raise anything
        text = safe_repr(error)
    name = type(error).__name__
    return shortened(masked(f"{name}: {text}" if text else name), limit)


def quoted(value: Any, limit: int) -> str:
    """Return the beginning of a value as text, for a log."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=safe_repr)
    return text[:limit]


def bounded(values: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return a mapping as masked JSON of at most `limit` characters; otherwise only its size."""
    if not values and type(values) is dict:
        return {}
    if type(values) is dict and (short := _short(values, limit)) is not None:
        return short
    try:
        text = json.dumps(dict(values), allow_nan=False, default=safe_repr)
        if len(text) > limit:
            return {"omitted": f"{len(text)} characters"}
        data: dict[str, Any] = json.loads(text)
    except Exception as error:  # noqa: BLE001 # reading a foreign value may raise anything
        return {"omitted": shortened(type(error).__name__, 100)}
    return {_key(key): _masked_in(value) for key, value in data.items()}


_ESCAPED: Final = 12  # most JSON characters of one character


def _short(values: dict[Any, Any], limit: int) -> dict[str, Any] | None:
    """Return the result of `bounded` without writing JSON, if all values are short and simple; None otherwise."""
    length, values_read = 2, {}
    for key, value in values.items():
        kind = type(value)
        if type(key) is not str or not (kind is str or kind is bool or value is None or kind is int):
            return None
        if kind is int and not -_LARGE < value < _LARGE:
            return None
        length += _ESCAPED * (len(key) + (len(value) if kind is str else 2)) + 8
        if length > limit:
            return None
        values_read[
            key if key.isascii() and key.isidentifier() and len(key) <= _LONGEST_KEY else _key(key)
        ] = masked(value) if kind is str else value
    return values_read


_LARGE: Final = 10**15


def _key(key: str) -> str:
    return (
        key
        if key.isidentifier() and key.isascii() and len(key) <= _LONGEST_KEY
        else shortened(key, _LONGEST_KEY)
    )


_LONGEST_KEY: Final = 200


def _masked_in(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [_masked_in(one) for one in value]
    return {key: _masked_in(one) for key, one in value.items()} if isinstance(value, dict) else value


_D = TypeVar("_D", bound=Data)


class FieldProblem(NamedTuple):
    """A problem of a field: the name of the rule, the field's path (`retry.maxAttempts`), and a message."""

    rule: str
    field: str
    message: str


def read(
    model: type[_D], value: object, rules: Mapping[str, str], *, otherwise: str = "value_invalid"
) -> tuple[_D | None, list[FieldProblem]]:
    """Read data from JSON or its Python form. Types are strict: "1" is not a number, and 1 is not true.

    Args:
        model: the class to read.
        value: dicts and lists.
        rules: the rule's name by path or beginning of a path, without indexes.
        otherwise: the rule of all other fields.

    Returns:
        The data and an empty list, or None and all problems.
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        return None, [FieldProblem("not_json", "", f"cannot be written as JSON: {error}")]
    try:
        return model.model_validate_json(text, strict=True), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        return None, [_problem(model, detail, rules, otherwise) for detail in details]


def in_words(error: ErrorDetails) -> str:
    """Describe the problem of a value: `maxAttempts must be at most 10, not 11`."""
    names = [part for part in error["loc"] if isinstance(part, str)]
    if error["type"] == "value_error" and not names:
        return str(error["ctx"]["error"])
    if error["type"] == "extra_forbidden":
        return f"there is no field {names[-1]!r} here"
    return problem_in_words(error, names[-1] if names else "it")


def _problem(
    model: type[Data], error: ErrorDetails, rules: Mapping[str, str], otherwise: str
) -> FieldProblem:
    path = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        near = nearest(str(error["loc"][-1]), _fields(model, error["loc"][:-1]))
        return FieldProblem("unknown_field", path, f"{in_words(error)}.{near}")
    return FieldProblem(_rule(error["loc"], rules, otherwise), path, in_words(error))


def _rule(path: tuple[int | str, ...], rules: Mapping[str, str], otherwise: str) -> str:
    names = [to_camel(part) if "_" in part else part for part in path if isinstance(part, str)]
    beginnings = (".".join(names[:length]) for length in range(len(names), 0, -1))
    return next((rules[one] for one in beginnings if one in rules), otherwise)


def _fields(model: type[Data], path: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the model; empty for nested paths."""
    return [] if path else [info.alias or name for name, info in model.model_fields.items()]


def is_json(value: Any) -> bool:
    """Return True if a value is valid JSON: no NaN, no infinity, and valid Unicode only."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True
