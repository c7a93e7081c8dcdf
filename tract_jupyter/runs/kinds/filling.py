"""Parameters of operations that hold templates, filled in from the context."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.kinds.params import P, check_params, check_template
from tract_jupyter.runs.templates import parse
from tract_jupyter.runs.templates.context import functions_of, variables_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.runs.kinds.base import Problem
    from tract_jupyter.runs.model import Operation, OperationContext

_ALONE: Final = re.compile(r"\s*\{\{-?((?:(?!\{\{|\}\}|\{%).)*?)-?\}\}\s*", re.DOTALL)


def filled(value: Any, context: OperationContext) -> Any:
    """A JSON value with its templates rendered. A text that is one `{{ expression }}` becomes that value itself.

    Raises:
        TemplateError: a template cannot be rendered.
    """
    if isinstance(value, dict):
        return {key: filled(one, context) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, context) for one in value]
    if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
        return value
    alone = _ALONE.fullmatch(value)
    if alone is None:
        return rendered(value, context)
    return json.loads(rendered("{{" + alone[1] + " | json }}", context))


def rendered(text: str, context: OperationContext, **more: Any) -> str:
    """A template, rendered with what the context has, and more variables.

    Raises:
        TemplateError: it cannot be read or rendered.
    """
    return parse(text).render(
        {**variables_of(context), **more}, functions_of(context),
        seed=f"{context.seed}:{context.operation_id}", now=context.now,
    )  # fmt: skip


def check_filled(
    kind: type[P], operation: Operation, *, only: Collection[str] | None = None
) -> list[Problem]:
    """All that is wrong with an operation's parameters, and with the templates in some of them; in all if left out."""
    params = operation.config.params
    templates = {key: one for key, one in params.items() if only is None or key in only}
    return check_params(kind, params, {}, lambda _: check_templates(templates, "params"))


def check_templates(value: Any, path: str) -> list[Problem]:
    """What is wrong with the templates in a JSON value, each with its place."""
    if isinstance(value, str):
        return check_template(value, path)
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    return [problem for key, one in inner for problem in check_templates(one, f"{path}.{key}")]
