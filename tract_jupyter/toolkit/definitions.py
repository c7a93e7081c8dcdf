"""What a tool is: a named callable with a JSON Schema, traits and an owner."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tract_jupyter.models.canonical import digest
from tract_jupyter.models.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Traits:
    """What calling a tool can do; MCP's tool annotations use the same words."""

    read_only: bool = False
    destructive: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool.

    Attributes:
        name: as models call it; any text.
        description: for models and for help.
        parameters: validates arguments and gives the JSON Schema.
        handler: called with the validated arguments by name.
        owner: who brought it: `tract`, `operation:<name>`, `user`.
        version: what else tells its code from another one's, where the handler is the same for several.
    """

    name: str
    description: str
    parameters: Parameters
    handler: Callable[..., Any]
    traits: Traits = field(default_factory=Traits)
    owner: str = "tract"
    version: str = ""

    @property
    def definition_hash(self) -> str:
        """64 hex digits over schema, traits and code: an approval of one version is none of another."""
        schema = [self.name, self.description, self.parameters.json_schema, asdict(self.traits), self.owner]
        return digest([schema, _code_of(self.handler), self.version])

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], *, traits: Traits | None = None, owner: str = "user"
    ) -> ToolDefinition:
        """Make a tool of a Python function; its type hints and docstring say everything.

        Raises:
            SpecError: a parameter has no name (`*args`).
        """
        description = (function.__doc__ or "").strip().split("\n\n")[0]
        return cls(
            function.__name__,
            description,
            Parameters.of(function),
            function,
            traits=traits or Traits(),
            owner=owner,
        )

    def to_openai(self) -> dict[str, Any]:
        """The shape of OpenAI's `tools`."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters.json_schema,
        }
        return {"type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        """The shape of Anthropic's `tools`."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.parameters.json_schema,
        }


def _code_of(handler: Callable[..., Any]) -> str:
    """The source of a function; of what has none, its bytecode or name."""
    try:
        return inspect.getsource(handler)
    except (OSError, TypeError):
        code = getattr(handler, "__code__", None)
        return repr(code.co_code + repr(code.co_consts).encode()) if code is not None else repr(type(handler))
