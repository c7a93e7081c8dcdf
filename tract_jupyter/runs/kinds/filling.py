"""Parameters of operations that hold templates, filled in from the context."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.kinds.base import OperationFailed, Problem
from tract_jupyter.runs.templates import parse
from tract_jupyter.runs.terms import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.runs.data import Data
    from tract_jupyter.runs.model import Operation, OperationContext

Params = TypeVar("Params", bound="Data")
_ALONE: Final = re.compile(r"\s*\{\{-?((?:(?!\{\{|\}\}|\{%).)*?)-?\}\}\s*", re.DOTALL)


def filled(value: Any, context: OperationContext) -> Any:
    """A JSON value with its templates rendered. A text that is one `{{ expression }}` becomes that value itself.

    Raises:
        OperationFailed: a template cannot be rendered.
    """
    if isinstance(value, dict):
        return {key: filled(one, context) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, context) for one in value]
    return _filled_text(value, context) if isinstance(value, str) else value


def _filled_text(text: str, context: OperationContext) -> Any:
    alone = _ALONE.fullmatch(text)
    if alone is None:
        return rendered_text(text, context)
    return json.loads(rendered_text("{{" + alone[1] + " | json }}", context))


def rendered_text(text: str, context: OperationContext, **more: Any) -> str:
    """A template, rendered with what the context has, and more variables.

    Raises:
        OperationFailed: it cannot be.
    """
    try:
        return parse(text).render({**_variables(context), **more}, seed=context.seed, now=context.now)
    except TemplateError as error:
        raise OperationFailed(ErrorCode.TEMPLATE_RENDER, str(error)) from None


def _variables(context: OperationContext) -> dict[str, Any]:
    art = {tag: {"value": view.value} for tag, view in context.artifacts.items()}
    return {**context.variables, "art": art}


def read_params(model: type[Params], operation: Operation) -> Params:
    """The parameters of an operation.

    Raises:
        OperationFailed: they do not fit; tells all that is wrong.
    """
    try:
        return model.from_dict(operation.config.params)
    except ValidationError as error:
        raise OperationFailed.invalid("; ".join(text for _, text in _problems(error))) from None


def problems_of(
    model: type[Data], operation: Operation, *, templates: Sequence[str] | None = None
) -> list[Problem]:
    """All that is wrong with the parameters, and with the templates in some of them; in all if left out."""
    try:
        model.from_dict(operation.config.params)
    except ValidationError as error:
        return _problems(error)
    params = operation.config.params
    with_templates = {key: one for key, one in params.items() if templates is None or key in templates}
    return [("template_syntax", text) for text in unreadable(with_templates, "params")]


def _problems(error: ValidationError) -> list[Problem]:
    return [
        ("params_schema", f"{'.'.join(map(str, ('params', *one['loc'])))}: {one['msg']}")
        for one in error.errors(include_url=False, include_input=False)
    ]


def unreadable(value: Any, path: str) -> Iterator[str]:
    """What is wrong with the templates in a JSON value, each with its place."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from unreadable(one, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from unreadable(one, f"{path}.{place}")
    elif isinstance(value, str):
        try:
            parse(value)
        except TemplateError as error:
            yield f"{path}: {error}"
