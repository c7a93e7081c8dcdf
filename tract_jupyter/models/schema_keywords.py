"""The keywords of JSON Schema, made so that checking values ends in time whatever the schema and the values are.

jsonschema matches patterns with `re`, which may take exponential time, and compares each element of a list with each
other. Here patterns go through pydantic's matcher, whose time is linear, and every step looks at the clock.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache, wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from tract_jupyter.models.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]

DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
}
"""The classes of jsonschema by what `$schema` says. Anything else is read as the newest."""

_DEEPEST: Final = 100
"""Keywords within keywords. Each takes about four frames, of which Python has a thousand."""


class TooSlowError(Exception):
    """A check takes longer than it may."""


class TooDeepError(Exception):
    """A check goes deeper than it may."""


class _Bounds:
    """How far a check has come."""

    def __init__(self, seconds: float) -> None:
        self._deadline = perf_counter() + seconds
        self._depth = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        if perf_counter() > self._deadline:
            raise TooSlowError
        if self._depth >= _DEEPEST:
            raise TooDeepError
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


_bounds: ContextVar[_Bounds] = ContextVar("_bounds")


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Let checks within the block end in time.

    Raises:
        TooSlowError: they take longer.
        TooDeepError: values and schema are nested too deep for Python's stack.
    """
    token = _bounds.set(_Bounds(seconds))
    try:
        yield
    finally:
        _bounds.reset(token)


@cache
def validator_class(dialect: str) -> Any:
    """The validator of a draft, with our keywords in the place of those that cannot be bounded."""
    import jsonschema
    from jsonschema.validators import extend

    draft = getattr(jsonschema, DRAFTS.get(dialect.rstrip("#"), "Draft202012Validator"))
    keywords = {name: _timed(keyword) for name, keyword in {**draft.VALIDATORS, **_OWN}.items()}
    return extend(draft, keywords, type_checker=draft.TYPE_CHECKER.redefine("integer", _is_integer))


def _is_integer(_: Any, value: Any) -> bool:
    """1.0 is none, as in the rest of the package."""
    return isinstance(value, int) and not isinstance(value, bool)


def _timed(keyword: Keyword) -> Keyword:
    @wraps(keyword)
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        with _bounds.get().step():
            yield from keyword(validator, value, instance, schema) or ()

    return check


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield ValidationError("")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, schema in patterns.items():
            for name in instance:
                if _matches(pattern, name):
                    yield from validator.descend(instance[name], schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not validator.is_type(instance, "object"):
        return
    for name in instance:
        if name in schema.get("properties", ()) or any(
            _matches(p, name) for p in schema.get("patternProperties", ())
        ):
            continue
        if allowed is False:
            yield ValidationError("", path=[name])
        else:
            yield from validator.descend(instance[name], allowed, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if (
        wanted
        and validator.is_type(instance, "array")
        and len(set(map(_comparable, instance))) < len(instance)
    ):
        yield ValidationError("")


def _multiple_of(validator: Any, factor: Any, instance: Any, _: Any) -> Iterator[Any]:
    """As decimal numbers: 0.3 is a multiple of 0.1."""
    from jsonschema import ValidationError

    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(factor)):
        yield ValidationError("")


def _comparable(value: Any) -> str:
    """A text that is the same for equal values; 1.0 and 1 are."""
    return canonical_json(json.loads(canonical_json(value), parse_float=_number))


def _number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


_OWN: Final[dict[str, Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
}


def _matches(pattern: str, text: str) -> bool:
    """Whether a text has a match; so has any, of a pattern that cannot be matched in linear time."""
    matcher = _matcher(pattern)
    return matcher is None or matcher.isinstance_python(text)


@lru_cache(maxsize=64)  # a hostile one takes up to 10 MB
def _matcher(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None
