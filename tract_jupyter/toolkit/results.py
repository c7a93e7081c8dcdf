"""What comes of a call of a tool, for code and for models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError, ToolDeniedError, ToolExecutionError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.text import brief_repr, printable
from tract_jupyter.prompts import tool_calls as prompts

_LONGEST_ERROR: Final = 4_000


class ToolResult(NamedTuple):
    """What came of a call.

    `output` is the handler's own value; `error` says what was wrong and what is allowed; `cause` is the exception,
    if there was one; `denied` tells a refusal from a failure; `replayed` says that it is that of an earlier run of
    a script, and nothing was called.
    """

    tool_name: str
    success: bool
    output: Any = None
    error: str = ""
    cause: BaseException | None = None
    denied: bool = False
    replayed: bool = False

    def __str__(self) -> str:
        return str(self.output) if self.success else f"Error: {self.error}"

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """The bare output, for code.

        Args:
            arguments: of the call, for the error.

        Raises:
            ToolDeniedError: the call was not allowed.
            ToolExecutionError: anything else that went wrong; the cause is `__cause__`.
        """
        __tracebackhide__ = True
        if self.success:
            return self.output
        kind = ToolDeniedError if self.denied else ToolExecutionError
        given = arguments if isinstance(arguments, Mapping) else {}  # a model may have sent anything
        raise kind(self.tool_name, given, self.error) from self.cause


def result_of(name: str, output: Any) -> ToolResult:
    """The result that a handler's value stands for.

    Many handlers report failure as `{"error": "why"}`, often with more keys that explain it. A dict with other keys is
    a failure only if its `error` is a text that is not empty: a number may be a measure, and None says all is well.
    """
    if isinstance(output, ToolResult):
        return output
    if isinstance(output, dict) and "error" in output:
        error = output["error"]
        others = {key: value for key, value in output.items() if key != "error"}
        if not others:
            return ToolResult(name, success=False, error=str(error))
        if isinstance(error, str) and error:
            more = ", ".join(f"{key}: {brief_repr(value)}" for key, value in others.items())
            return ToolResult(name, success=False, output=output, error=f"{error} ({more})")
    return ToolResult(name, success=True, output=output)


def for_model(result: ToolResult, limit: int) -> ToolResult:
    """The result as a model can be told it: plain JSON data of at most `limit` bytes, or why it cannot be shown."""
    if not result.success:
        return result._replace(error=printable(result.error, _LONGEST_ERROR))
    try:
        text = canonical_json(result.output)
    except ContentError as error:
        return _not_shown(result, prompts.NO_JSON.format(tool=result.tool_name, reason=error))
    size = len(text.encode())
    if size > limit:
        return _not_shown(result, prompts.TOO_LARGE.format(tool=result.tool_name, size=size, limit=limit))
    return result._replace(output=json.loads(text))


def _not_shown(result: ToolResult, error: str) -> ToolResult:
    return ToolResult(result.tool_name, success=False, error=error)
