"""Kind `transform`: makes a value of another one, in steps that are always the same.

`params`: `{"input": ..., "steps": [{"type": "trim"}, ...]}`; texts in the input may be templates, such as
`{{ art.notes }}` or `{{ lastUserMessage }}`. The steps are in `runs.transforms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tract_jupyter.runs.data import Data
from tract_jupyter.runs.kinds.base import Output
from tract_jupyter.runs.kinds.filling import check_filled, check_templates, filled, rendered
from tract_jupyter.runs.kinds.params import read_params
from tract_jupyter.runs.safe_text import quoted
from tract_jupyter.runs.transforms import FillIn, Step, transformed

if TYPE_CHECKING:
    from tract_jupyter.runs.kinds.base import Made, Problem, Services
    from tract_jupyter.runs.model import Operation, OperationContext


class TransformParams(Data):
    """What to make of what."""

    input: Any
    steps: Annotated[tuple[Step, ...], Field(max_length=50)] = ()


class TransformKind:
    """Transforms values."""

    name = "transform"
    anywhere = True

    def check(self, operation: Operation) -> list[Problem]:
        """All that is wrong with the parameters, with patterns and templates."""
        wrong = check_filled(TransformParams, operation, only=["input"])
        if wrong:
            return wrong
        steps = read_params(TransformParams, operation.config.params).steps
        templates = {place: one.template for place, one in enumerate(steps) if isinstance(one, FillIn)}
        return check_templates(templates, "params.steps")

    def prepare(self, operation: Operation, services: Services) -> Transformation:  # noqa: ARG002
        """The steps."""
        return Transformation(read_params(TransformParams, operation.config.params))


@dataclass(frozen=True, slots=True)
class Transformation:
    """Makes one value."""

    params: TransformParams

    def __call__(self, context: OperationContext) -> Made:
        """Take the input from the context, and transform it."""

        def render(template: str, value: Any) -> str:
            return rendered(template, context, value=value)

        given = filled(self.params.input, context)
        debug = {"input": quoted(given, context.policy.max_snapshot)}
        return Output(transformed(given, self.params.steps, render), debug=debug)
