"""What pendings share that come to calling a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tract_jupyter.exceptions import FingerprintError
from tract_jupyter.hooks.builtin.base import BuiltinPending, Field
from tract_jupyter.hooks.builtin.tool_question import ToolQuestion
from tract_jupyter.hooks.introspection import value_rows
from tract_jupyter.review.fingerprint import Subject
from tract_jupyter.review.request import ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.models.parameters import ParameterSet


class CallsTool(BuiltinPending, ToolQuestion):
    """Something whose fields say which tool would be called, and with what.

    The arguments are what can be changed, and a standing approval is one of the tool with these values.
    """

    tool_field: ClassVar[str]
    arguments_field: ClassVar[str]
    machinery = frozenset({"definition_hash"})
    again: ClassVar[str]
    """What to do if the tool changed since."""
    definition_hash = Field()

    @property
    def tool_name(self) -> str:
        """The tool."""
        return str(self.fields[self.tool_field])

    @property
    def call_arguments(self) -> dict[str, Any]:
        """What it is called with, as things stand."""
        return self.fields[self.arguments_field]  # type: ignore[no-any-return] # a field's value

    @property
    def field_parameters(self) -> ParameterSet:  # type: ignore[override] # looked up each time
        """What the tool can be called with.

        Raises:
            FingerprintError: there is no such tool any more.
        """
        return self._tool().parameters  # type: ignore[no-any-return] # a `ToolDefinition`

    @property
    def subject(self) -> Subject:
        """What a standing approval is about: the call of the tool."""
        return Subject("tool", self.tool_name, self.definition_hash, self.call_arguments, self.actor)

    def check_current(self) -> None:
        """Check that tool and branch are those that were asked about.

        Raises:
            FingerprintError: the tool was changed or removed, or writes elsewhere now.
        """
        if self._tool().definition_hash != self.definition_hash:
            raise FingerprintError(f"the tool {self.tool_name!r} was changed since; {self.again}")
        self.check_branch()

    def editable(self) -> Any:
        """What the tool would be called with, as long as there is the tool."""
        return None if self.tract.executor.get(self.tool_name) is None else super().editable()

    def tables(self) -> tuple[ValueTable, ...]:
        """What the tool would be called with, in the order of its parameters."""
        tool = self.tract.executor.get(self.tool_name)
        declared = {} if tool is None else {p.name: p for p in tool.parameters}
        arguments = self.call_arguments
        names = [*declared, *(name for name in arguments if name not in declared)]
        rows = value_rows({name: arguments[name] for name in names if name in arguments}, declared)
        return (ValueTable(f"Call {self.tool_name} with", rows),) if rows else ()

    def _tool(self) -> Any:
        tool = self.tract.executor.get(self.tool_name)
        if tool is None:
            raise FingerprintError(f"there is no tool {self.tool_name!r} any more; it cannot be called")
        return tool

    @property
    def _values(self) -> Mapping[str, Any]:
        return self.call_arguments

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        return {**self.fields, self.arguments_field: values}
