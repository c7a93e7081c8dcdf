"""The line of `%tract_fire`: `NAME field=value ... --fields {...} --review`.

A value is a Python literal, JSON, `$name` for a variable, or a bare word. Expressions are not evaluated.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.review import split_words

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRE_OPTIONS: Final = ("--fields", "--review")


@dataclass(frozen=True)
class FireLine:
    """A parsed `%tract_fire` line."""

    operation: str
    fields: dict[str, Any]
    review: bool


def parse_fire(line: str, namespace: Mapping[str, Any]) -> FireLine:
    """Parse the line.

    Raises:
        OperationError: the name is missing, a variable does not exist, a value is not valid, or a field is there
            twice.
    """
    parts = split_words(line)
    if not parts or parts[0].startswith("-") or "=" in parts[0]:
        raise OperationError("name the operation: %tract_fire citation_check urls=['https://example.com']")
    fields: dict[str, Any] = {}
    review = False
    rest = iter(parts[1:])
    for part in rest:
        if part == "--review":
            review = True
        elif part == "--fields" or part.startswith("--fields="):
            text = part.removeprefix("--fields").removeprefix("=") or next(rest, "")
            _merge(fields, _mapping(read_value(text, namespace)))
        else:
            _merge(fields, _assignment(part, namespace))
    return FireLine(parts[0], fields, review)


def read_value(text: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a text.

    Raises:
        OperationError: `$name` is not a variable, or brackets or quotation marks do not match.
    """
    if text.startswith("$"):
        name = text[1:]
        if name not in namespace:
            raise OperationError(f"no variable {name!r}.{nearest(name, namespace)}")
        return namespace[name]
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    if not text or text[0] in "([{\"'":
        raise OperationError(f"{text[:60]!r} is neither a Python literal nor JSON; use $name for a variable")
    return text


def _assignment(part: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    name, equals, text = part.partition("=")
    if part.startswith("--"):
        raise OperationError(
            f"no option {part!r}.{nearest(part, FIRE_OPTIONS)} The options are {' and '.join(FIRE_OPTIONS)}"
        )
    if not equals or not name.isidentifier():
        raise OperationError(f"{part[:60]!r} is not field=value; put quotes around text with spaces")
    return {name: read_value(text, namespace)}


def _merge(fields: dict[str, Any], more: dict[str, Any]) -> None:
    for name in more:
        if name in fields:
            raise OperationError(f"duplicate field {name!r}")
    fields |= more


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OperationError(f"--fields takes a dict such as {{'urls': []}}, got {type(value).__name__}")
    return value
