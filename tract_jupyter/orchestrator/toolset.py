"""The tools as an orchestrator's model has them: it says beside a call why it wants it, and what else would do."""

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
                "arguments": {"type": "object", "description": "What it would be called with."},
                "why": {"type": "string", "description": "When it would be better."},
            },
            "required": ["name", "arguments"],
        },
    },
}


class OrchestratorToolset(Toolset):
    """A toolset whose calls that change something may carry `reasoning` and `alternatives`, which no tool is given.

    Args:
        executor: of the tract that is looked after.
        profile: which tools there are.
        actor: who calls them.
        permission: of the level that it acts at.
        said: gives what the model said with the calls that are prepared: the reasoning, where a call has none.
        acts_on: the context that built-in tools act on, as their descriptions name it; empty to name none.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        profile: ToolProfile,
        *,
        actor: str,
        permission: LeveledPermission,
        said: Callable[[], str],
        acts_on: str = "",
    ) -> None:
        super().__init__(executor, profile, actor=actor, permission=permission)
        self._acts_on = acts_on
        self._level = permission
        self._said = said
        self.proposals: ProposalReviewer | None = None
        """Asks a person's function; None to ask the person."""

    @property
    def reviewer(self) -> Asking:
        """The part that has calls decided about: a person's function where there is one."""
        return super().reviewer if self.proposals is None else self.proposals

    def tools(self) -> dict[str, ToolDefinition]:
        """Return the tools that can be called now; of a supervisor, each names the context that it acts on."""
        found = super().tools()
        if not self._acts_on:
            return found
        return {
            name: replace(tool, description=f"{tool.description} {ACTS_ON.format(context=self._acts_on)}")
            if tool.is_built_in
            else tool
            for name, tool in found.items()
        }

    def schemas(self, format: SchemaFormat = "openai", *, strict: bool = False) -> list[dict[str, Any]]:  # noqa: A002
        """Return the tools for a model; those that change something take the two more arguments."""
        shown = super().schemas(format, strict=strict)
        if format != "openai" or strict:
            return shown
        return [self._with_more(schema) for schema in shown]

    def prepare(self, name: str, arguments: Mapping[str, Any], *, doubt: str = "") -> Call | ToolResult:
        """Look at a call without making it; its question has the model's reasoning, and the alternatives."""
        bare, reasoning, alternatives = self.parted(name, arguments)
        found = super().prepare(name, bare, doubt=doubt)
        if isinstance(found, Call) and found.question is not None:
            question: Any = found.question
            if hasattr(question, _ALTERNATIVES):
                question.reasoning = reasoning or _short(self._said())
                question.alternatives = alternatives
        return found

    def key_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return what makes a call the same as another one: not what is said beside it."""
        return super().key_of(name, self.parted(name, arguments)[0])

    def parted(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], str, tuple[Alternative, ...]]:
        """Return the arguments of the tool, the reasoning, and the alternatives that can be understood."""
        return parted(self._executor.get(name), arguments)

    def is_told(self, name: str) -> bool:
        """Return True if a call of a tool is only told: it changes something, and the level is manual."""
        tool = self._executor.get(name)
        if tool is None or tool.traits.read_only or not self.profile.has(tool):
            return False
        return self._level.autonomy.effective(self._level.level()) is AutonomyLevel.MANUAL

    def _with_more(self, schema: dict[str, Any]) -> dict[str, Any]:
        function = schema["function"]
        tool = self._executor.get(function["name"])
        more = {} if tool is None else _more_of(tool)
        if not more:
            return schema
        parameters = function["parameters"]
        properties = {**parameters.get("properties", {}), **more}
        return {**schema, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def parted(
    tool: ToolDefinition | None, arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], str, tuple[Alternative, ...]]:
    """Return the arguments of a tool, None for one that there is not, and what was said beside them; see `Toolset`."""
    bare = dict(arguments)
    more = _SCHEMAS if tool is None else _more_of(tool)
    reasoning = bare.pop(_REASONING, "") if _REASONING in more else ""
    others = bare.pop(_ALTERNATIVES, ()) if _ALTERNATIVES in more else ()
    return bare, _short(reasoning), tuple(_alternatives(others))


def _more_of(tool: ToolDefinition) -> dict[str, dict[str, Any]]:
    """Return the arguments that a call of a tool may carry besides; a tool's own of that name stays its own."""
    if tool.traits.read_only:
        return {}
    own = tool.parameters.json_schema.get("properties", {})
    return {name: schema for name, schema in _SCHEMAS.items() if name not in own}


def _short(text: object) -> str:
    return printable(text).strip()[:_LONGEST] if isinstance(text, str) else ""


def _alternatives(given: object) -> list[Alternative]:
    """Return the alternatives that can be shown whole; what a model wrote wrong, or too long, is left out."""
    found = []
    for one in given if isinstance(given, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            continue
        arguments = one.get("arguments", {})
        try:
            is_small = isinstance(arguments, dict) and len(canonical_json(arguments)) <= _LARGEST
        except ContentError:
            continue
        if is_small:
            found.append(Alternative(printable(one["name"])[:100], dict(arguments), _short(one.get("why"))))
    return found[:_MOST]
