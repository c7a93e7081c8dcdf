"""An orchestrator's tools: each call can have a reason and alternatives for the user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import AutonomyLevel, canonical_json, printable
from tract_jupyter.prompts import ACTS_ON, ALTERNATIVES, REASONING
from tract_jupyter.toolkit import Alternative, Call, ToolResult, Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.orchestrator.proposals import ProposalReviewer
    from tract_jupyter.toolkit import (
        Asking,
        LeveledPermission,
        SchemaFormat,
        ToolDefinition,
        ToolExecutor,
        ToolProfile,
    )

_REASONING: Final = "reasoning"
_ALTERNATIVES: Final = "alternatives"
_LONGEST: Final = 1_000
_MOST: Final = 5
_LARGEST: Final = 4_000
_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    _REASONING: {"type": "string", "description": REASONING},
    _ALTERNATIVES: {
        "type": "array",
        "description": ALTERNATIVES,
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool."},
                "arguments": {"type": "object", "description": "Its arguments."},
                "why": {"type": "string", "description": "When it is better."},
            },
            "required": ["name", "arguments"],
        },
    },
}


class OrchestratorToolset(Toolset):
    """A toolset whose changing calls take `reasoning` and `alternatives`. Tools do not receive these two arguments.

    Args:
        executor: the executor of the maintained tract.
        profile: the profile of the tools.
        actor: the actor of the calls.
        permission: the permission of the autonomy level.
        last_text: returns the model's text with the prepared calls. It is the reasoning of a call without one.
        acts_on: the context that built-in tools act on, for their descriptions; empty for none.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        profile: ToolProfile,
        *,
        actor: str,
        permission: LeveledPermission,
        last_text: Callable[[], str],
        acts_on: str = "",
    ) -> None:
        super().__init__(executor, profile, actor=actor, permission=permission)
        self._acts_on = acts_on
        self._level = permission
        self._last_text = last_text
        self.proposals: ProposalReviewer | None = None
        """Asks a user's function; None to ask the user."""

    @property
    def reviewer(self) -> Asking:
        """The reviewer of calls: the user's function, if there is one."""
        return super().reviewer if self.proposals is None else self.proposals

    def tools(self) -> dict[str, ToolDefinition]:
        """Return the callable tools. For a supervisor, each description names the context that the tool acts on."""
        tools = super().tools()
        if not self._acts_on:
            return tools
        return {
            name: replace(tool, description=f"{tool.description} {ACTS_ON.format(context=self._acts_on)}")
            if tool.is_built_in
            else tool
            for name, tool in tools.items()
        }

    def schemas(self, format: SchemaFormat = "openai", *, strict: bool = False) -> list[dict[str, Any]]:  # noqa: A002
        """Return the schemas for a model. Tools that change something take the two extra arguments."""
        schemas = super().schemas(format, strict=strict)
        if format != "openai" or strict:
            return schemas
        return [self._with_extra(schema) for schema in schemas]

    def prepare(self, name: str, arguments: Mapping[str, Any], *, doubt: str = "") -> Call | ToolResult:
        """Check a call without making it. Its request gets the model's reasoning and alternatives."""
        own_arguments, reasoning, alternatives = self.split_arguments(name, arguments)
        prepared = super().prepare(name, own_arguments, doubt=doubt)
        if isinstance(prepared, Call) and prepared.question is not None:
            question: Any = prepared.question
            if hasattr(question, _ALTERNATIVES):
                question.reasoning = reasoning or _short(self._last_text())
                question.alternatives = alternatives
        return prepared

    def key_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a key that identical calls share. The extra arguments have no influence."""
        return super().key_of(name, self.split_arguments(name, arguments)[0])

    def split_arguments(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], str, tuple[Alternative, ...]]:
        """Return the tool's arguments, the reasoning, and the readable alternatives."""
        return split_arguments(self._executor.get(name), arguments)

    def is_only_reported(self, name: str) -> bool:
        """Return True if a call of the tool is only reported: it changes something, and the level is manual."""
        tool = self._executor.get(name)
        if tool is None or tool.traits.read_only or not self.profile.has(tool):
            return False
        return self._level.autonomy.effective(self._level.level()) is AutonomyLevel.MANUAL

    def _with_extra(self, schema: dict[str, Any]) -> dict[str, Any]:
        function = schema["function"]
        tool = self._executor.get(function["name"])
        extra = {} if tool is None else _extra_arguments(tool)
        if not extra:
            return schema
        parameters = function["parameters"]
        properties = {**parameters.get("properties", {}), **extra}
        return {**schema, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def split_arguments(
    tool: ToolDefinition | None, arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], str, tuple[Alternative, ...]]:
    """Split arguments into the tool's own, the reasoning, and the alternatives. `tool` is None if it is unknown."""
    own_arguments = dict(arguments)
    extra = _SCHEMAS if tool is None else _extra_arguments(tool)
    reasoning = own_arguments.pop(_REASONING, "") if _REASONING in extra else ""
    alternatives = own_arguments.pop(_ALTERNATIVES, ()) if _ALTERNATIVES in extra else ()
    return own_arguments, _short(reasoning), tuple(_alternatives(alternatives))


def _extra_arguments(tool: ToolDefinition) -> dict[str, dict[str, Any]]:
    """Return the extra arguments of a tool. They never replace a tool's own arguments of these names."""
    if tool.traits.read_only:
        return {}
    properties = tool.parameters.json_schema.get("properties", {})
    return {name: schema for name, schema in _SCHEMAS.items() if name not in properties}


def _short(text: object) -> str:
    return printable(text).strip()[:_LONGEST] if isinstance(text, str) else ""


def _alternatives(values: object) -> list[Alternative]:
    """Return the alternatives. Leave out invalid and too long ones."""
    alternatives = []
    for entry in values if isinstance(values, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            continue
        arguments = entry.get("arguments", {})
        try:
            is_small = isinstance(arguments, dict) and len(canonical_json(arguments)) <= _LARGEST
        except ContentError:
            continue
        if is_small:
            alternatives.append(
                Alternative(printable(entry["name"])[:100], dict(arguments), _short(entry.get("why")))
            )
    return alternatives[:_MOST]
