"""Kind `compute`: calls a registered Python function; see `Tract.functions` and `run_function`.

`params`: `{"function": name, "arguments": {...}}`; texts in the arguments may be templates. The function returns the
value, or one or several effects.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tract_jupyter.exceptions import nearest
from tract_jupyter.runs.attempt import FUNCTIONS
from tract_jupyter.runs.kinds.base import (
    OperationFailed,
    OperationOutput,
    Skipped,
    Waits,
    check_filled,
    filled,
    json_result,
    read_params,
)
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.terms import Data, Tagged

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.kinds.base import KindOutcome, Problem, Runner, Services
    from tract_jupyter.runs.model import Operation, OperationContext


class ComputeParams(Data):
    """The function to call, and its arguments."""

    function: Annotated[str, Field(min_length=1, max_length=100)]
    arguments: dict[str, Any] = Field(default_factory=dict)


class ComputeKind:
    """The kind that calls functions."""

    name = "compute"
    parameters = (ComputeParams,)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters. The function may be registered later."""
        return check_filled(ComputeParams, operation)

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return the call of the function."""
        params = read_params(ComputeParams, operation.config.params)
        known = {**FUNCTIONS, **services.functions}
        function = known.get(params.function)
        if function is None:
            raise OperationFailed.invalid(
                f"There is no function {params.function!r}.{nearest(params.function, known)} Register it with "
                "@t.functions.register, or @run_function in a module, before the run."
            )
        return partial(_compute, function, params.arguments)


def _compute(function: Callable[..., Any], given: dict[str, Any], context: OperationContext) -> KindOutcome:
    """Call a function. Its exceptions become errors of the operation."""
    arguments = filled(given, context)
    debug = {"arguments": quoted(arguments, context.snapshot_characters)}  # the function may change them
    returned = function(context, arguments)
    if isinstance(returned, OperationOutput | Skipped | Waits):
        return returned
    several = returned if isinstance(returned, list | tuple) and returned else [returned]
    if all(isinstance(one, Tagged) for one in several):
        return OperationOutput(effects=tuple(several), debug=debug)
    name = getattr(function, "__name__", "the function")
    return OperationOutput(json_result(returned, name), debug=debug)
