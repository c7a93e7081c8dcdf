"""Reading `params`: what is wrong with them, as rules and as an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.models.text import shortened
from tract_jupyter.runs.data import Data
from tract_jupyter.runs.kinds.base import OperationFailed
from tract_jupyter.runs.reading import in_words
from tract_jupyter.runs.templates import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_core import ErrorDetails

    from tract_jupyter.runs.kinds.base import Problem

P = TypeVar("P", bound=Data)

_NAMED: Final = 5


def read_params(kind: type[P], params: Mapping[str, Any]) -> P:
    """An operation's parameters.

    Raises:
        OperationFailed: `validation_error`; they are wrong.
    """
    try:
        return kind.from_dict(dict(params))
    except ValidationError as error:
        raise OperationFailed.invalid("; ".join(message for _, message in _problems(error, {}))) from None


def check_params(
    kind: type[P],
    params: Mapping[str, Any],
    rules: Mapping[str, str],
    more: Callable[[P], list[Problem]],
) -> list[Problem]:
    """All that is wrong with parameters.

    Args:
        kind: what they should be.
        params: as they are.
        rules: the rule's name for what is wrong with `field`, or within it with `field.*`; `params` otherwise.
        more: finds what no single field shows.
    """
    try:
        found = kind.from_dict(dict(params))
    except ValidationError as error:
        return _problems(error, rules)
    return more(found)


def check_template(text: str, field: str) -> list[Problem]:
    """What keeps a template from being read."""
    try:
        parse(text)
    except TemplateError as error:
        return [("template_syntax", f"{field}: {error}")]
    return []


def _problems(error: ValidationError, rules: Mapping[str, str]) -> list[Problem]:
    problems = []
    for one in error.errors(include_url=False)[:_NAMED]:
        where = ".".join(map(str, one["loc"]))
        field = str(one["loc"][0]) if one["loc"] else ""
        told = in_words(one)
        problems.append(
            (
                rules.get(where) or rules.get(f"{field}.*") or rules.get(field) or _otherwise(one),
                shortened(f"{where}: {told}" if "." in where else told, 500),
            )
        )
    return problems


def _otherwise(error: ErrorDetails) -> str:
    return "unknown_field" if error["type"] == "extra_forbidden" else "params"
