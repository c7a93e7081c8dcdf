"""Tool calls of models in the shapes of the providers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json

NO_ARGUMENTS: Final = frozenset({"", "null"})
"""Texts other than `{}` that models write for a call without arguments."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the id that its result must name, the tool, and the arguments."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read OpenAI's shape, Anthropic's tool_use block, or `{"id", "name", "arguments"}`.

        Raises:
            ContentError: the call has another shape, or it was cut before its arguments were complete.
        """
        try:
            if data.get("cut"):
                raise ValueError("it was cut before its arguments were complete")
            if "function" in data:
                function = data["function"]
                return cls(_text(data["id"]), _text(function["name"]), _arguments(function.get("arguments")))
            arguments = data["input"] if data.get("type") == "tool_use" else data.get("arguments")
            return cls(_text(data["id"]), _text(data["name"]), _arguments(arguments))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ContentError(
                f"this is not a tool call ({error!r}): use OpenAI's shape, Anthropic's tool_use block, "
                'or {"id": ..., "name": ..., "arguments": {...}}'
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}

    def to_openai(self) -> dict[str, Any]:
        """Return an entry of `tool_calls`; the arguments are JSON text."""
        function = {"name": self.name, "arguments": canonical_json(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        """Return a `tool_use` block."""
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.arguments}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"ids and names must be strings, not {type(value).__name__}")
    return value


def _arguments(arguments: Any) -> dict[str, Any]:
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in NO_ARGUMENTS):
        return {}
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(value, dict):
        raise TypeError(f"arguments must be an object, not {type(value).__name__}")
    return value
