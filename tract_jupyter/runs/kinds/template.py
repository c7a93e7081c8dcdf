"""Kind `template`: renders a text with placeholders, without a model (E21)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from tract_jupyter.runs.kinds.base import (
    OperationOutput,
    Runner,
    Services,
    check_params,
    check_template,
    read_params,
)
from tract_jupyter.runs.templates.engine import render
from tract_jupyter.runs.terms import MAX_TEXT, Data

if TYPE_CHECKING:
    from tract_jupyter.runs.kinds.base import Problem
    from tract_jupyter.runs.model import Operation, OperationContext


class TemplateParams(Data):
    """The parameters of the kind `template`."""

    template: Annotated[str, Field(max_length=MAX_TEXT)]
    strict_variables: bool = False


_RULES: Final = {"template": "template_required"}


def _rendered(params: TemplateParams, context: OperationContext) -> OperationOutput:
    text = render(params.template, context, strict=params.strict_variables)
    return OperationOutput(
        value=text,
        debug={"rendered": text[: context.snapshot_characters]},
        outputs={"characters": len(text)},
    )


class TemplateKind:
    """The kind whose value is a rendered text. Invalid syntax or a missing strict variable fails the operation."""

    name: Final = "template"
    parameters = (TemplateParams,)
    is_computed: Final = True

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters."""
        return check_params(
            TemplateParams,
            operation.config.params,
            _RULES,
            lambda found: check_template(found.template, "template"),
        )

    def prepare(self, operation: Operation, services: Services) -> Runner:  # noqa: ARG002 # the protocol's
        """Return the function that renders the text."""
        return partial(_rendered, read_params(TemplateParams, operation.config.params))
