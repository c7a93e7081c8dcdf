"""Results of calls: for code, for models, and in the log."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from tract_jupyter import prompts
from tract_jupyter.exceptions import (
    ContentError,
    ToolDeniedError,
    ToolExecutionError,
)
from tract_jupyter.models import AttachedFile, brief_repr, canonical_json, printable

_LONGEST_ERROR: Final = 4_000


class ToolResult(NamedTuple):
    """The result of a call.

    Attributes:
        output: the handler's value, unchanged.
        error: the problem, and the allowed values.
        cause: the exception, if there was one.
        denied: whether the call was refused; False if it failed.
        replayed: whether an earlier run of a script made this call. Nothing was called this time.
        told: the text for a model, if it differs from the output.
        images: the images for a model.
    """

    tool_name: str
    success: bool
    output: Any = None
    error: str = ""
    cause: BaseException | None = None
    denied: bool = False
    replayed: bool = False
    told: str | None = None
    images: tuple[AttachedFile, ...] = ()

    def __str__(self) -> str:
        return (
            (str(self.output) if self.told is None else self.told) if self.success else f"Error: {self.error}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON data. If the output has no JSON form, the data has its type and a short `repr`."""
        if not self.success:
            return {"error": self.error, **({"denied": True} if self.denied else {})}
        extra: dict[str, Any] = {} if self.told is None else {"told": self.told}
        if self.images:
            extra["images"] = [
                [image.attachment.name, base64.b64encode(image.data).decode()] for image in self.images
            ]
        try:
            return {"output": json.loads(canonical_json(self.output)), **extra}
        except ContentError:
            return {"shown": brief_repr(self.output), "type": type(self.output).__name__}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> ToolResult:
        """Rebuild the result of a tool from the data of `to_json`."""
        if "error" in data:
            return cls(name, success=False, error=data["error"], denied=data.get("denied", False))
        if "output" in data:
            images = (
                AttachedFile.of(file, base64.b64decode(encoded)) for file, encoded in data.get("images", ())
            )
            return cls(name, success=True, output=data["output"], told=data.get("told"), images=tuple(images))
        text = str(data["shown"])
        # a class with that name, because errors show the name
        kind = type(str(data.get("type")).replace("\0", ""), (), {"__repr__": lambda _: text})
        return cls(name, success=True, output=kind())

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """Return the output for code. If there is a text for a model, `str()` of a dict or list returns it.

        Raises:
            ToolDeniedError: the call was not allowed.
            ToolExecutionError: the call failed for another reason; the cause is `__cause__`.
        """
        __tracebackhide__ = True
        if self.success:
            return self.output if self.told is None else _with_content(self.output, self.told)
        kind = ToolDeniedError if self.denied else ToolExecutionError
        values = arguments if isinstance(arguments, Mapping) else {}  # a model may have sent anything
        raise kind(self.tool_name, values, self.error) from self.cause


class StructuredDict(dict[str, Any]):
    """A dict with a text for a model. `content` and `str()` return the text."""

    content = ""

    def __str__(self) -> str:
        return self.content


class StructuredList(list[Any]):
    """A list with a text for a model. `content` and `str()` return the text."""

    content = ""

    def __str__(self) -> str:
        return self.content


def _with_content(value: Any, content: str) -> Any:
    result: StructuredDict | StructuredList
    if isinstance(value, dict):
        result = StructuredDict(value)
    elif isinstance(value, list):
        result = StructuredList(value)
    else:
        return value
    result.content = content
    return result


def result_of(name: str, output: Any) -> ToolResult:
    """Convert a handler's value into a result.

    Many handlers report a failure as `{"error": "why"}`, often with more keys that explain it. A dict with other keys
    is a failure only if its `error` is a non-empty string. A number may be a measurement, and None means success.
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
    """Return the result for a model: JSON data of at most `limit` bytes, or an error."""
    if not result.success:
        return result._replace(error=printable(result.error, _LONGEST_ERROR))
    output = result.output if result.told is None else result.told.encode(errors="replace").decode()
    try:
        text = canonical_json(output)
    except ContentError as error:
        return _not_shown(result, prompts.NO_JSON.format(tool=result.tool_name, reason=error))
    size = len(text.encode())
    if size > limit:
        return _not_shown(result, prompts.TOO_LARGE.format(tool=result.tool_name, size=size, limit=limit))
    return result._replace(output=json.loads(text), told=None)


def _not_shown(result: ToolResult, error: str) -> ToolResult:
    return ToolResult(result.tool_name, success=False, error=error)


_SAMPLE: Final = 20
_SCALAR: Final = 5
_SCALARS: Final = frozenset({int, float, bool, type(None)})


def rough_size(value: Any, depth: int = 3) -> int:
    """Estimate the length of a value's JSON from 20 entries of each container, three levels deep."""
    kind = type(value)
    if kind in _SCALARS:  # the most common case; every call is measured
        return _SCALAR
    if kind is str or isinstance(value, str | bytes):
        return len(value) + 2
    if isinstance(value, dict):
        return _dict_size(value, depth) if value else _SCALAR
    if isinstance(value, list | tuple | set):
        return _list_size(value, depth) if value else _SCALAR
    return _SCALAR


def _dict_size(value: dict[Any, Any], depth: int) -> int:
    if depth <= 0:
        return 2 + _SCALAR * len(value)
    total = 0
    for key, item in value.items() if len(value) <= _SAMPLE else islice(value.items(), _SAMPLE):
        total += (len(key) if type(key) is str else len(str(key))) + 4
        total += _SCALAR if type(item) in _SCALARS else rough_size(item, depth - 1)
    return 2 + _extrapolate(total, len(value))


def _list_size(value: list[Any] | tuple[Any, ...] | set[Any], depth: int) -> int:
    if depth <= 0:
        return 2 + _SCALAR * len(value)
    total = 0
    for item in value if len(value) <= _SAMPLE else islice(value, _SAMPLE):
        total += 2 + (_SCALAR if type(item) in _SCALARS else rough_size(item, depth - 1))
    return 2 + _extrapolate(total, len(value))


def _extrapolate(total: int, length: int) -> int:
    return total if length <= _SAMPLE else total * length // _SAMPLE


class CallRecord(NamedTuple):
    """The record of a call by code.

    Every call creates a record. A named tuple is four times faster to create than a frozen dataclass.
    """

    tool: str
    arguments: Mapping[str, Any]
    actor: str
    success: bool
    error: str
    seconds: float
