"""A gated call of a script that can wait: the program is saved with the question, and goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import FingerprintError, TrustError
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.builtin.base import BuiltinPending, Field
from tract_jupyter.hooks.field_pending import FieldPending
from tract_jupyter.hooks.introspection import value_rows
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.fingerprint import Subject
from tract_jupyter.review.origins import Stretch, origins
from tract_jupyter.review.request import ValueTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.models.parameters import Parameters


class PendingScriptCall(BuiltinPending, FieldPending):
    """Call a tool from a script of the sandbox, which is stopped there.

    The fields hold the paused program, so that any process on the store can go on with it. A standing approval of it is
    one of the tool with these values.

    Args:
        fields: see `about`.
        go_on: takes the saved program up, where the script does not wait in this process: for an approval, and for a
            rejection too, which the script may catch. None where it waits, so that deciding is all there is to do.
        options: see `BuiltinPending`.
    """

    kind = "tool"
    name = "script_call"
    about: ClassVar[Mapping[str, str]] = {
        "tool": "The tool that the script calls.",
        "arguments": "What it calls it with.",
        "definition_hash": "Of the tool, as it was when this was asked.",
        "script": "The script, and where it stands.",
    }
    tool = Field()
    arguments = Field()
    definition_hash = Field()
    script = Field()

    def __init__(
        self, fields: dict[str, Any], *, go_on: Callable[[Any], Any] | None = None, **options: Any
    ) -> None:
        super().__init__(fields, run=lambda _: None, **options)
        code, first_line = self.script["code"], self.script["first_line"]
        self.origins = origins("\n" * (first_line - 1) + code, Stretch(*self.script["call"]))
        self._execute_fn = go_on

    @property
    def call_arguments(self) -> dict[str, Any]:
        """What the tool is called with, as it was approved."""
        return self.arguments  # type: ignore[no-any-return] # a field's value

    @property
    def title(self) -> str:
        """Names the tool."""
        return f"Call tool {self.tool}"

    @action
    def reject(self, reason: Annotated[str, "Why; the script is told, and may go on."] = "") -> Any:
        """Reject, with a reason."""
        self._require_open("reject")
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason
        if self._execute_fn is not None and not self.doubt:  # what nobody knows does not go on at all
            self.result = self._execute_fn(self)
        return self.result

    def is_instant(self, action: str) -> bool:
        """Whether there is nothing to do but to decide: where the script itself waits for that."""
        return self._execute_fn is None or action == "pass_through"

    @property
    def field_parameters(self) -> Parameters:  # type: ignore[override] # looked up each time
        """What the tool can be called with.

        Raises:
            FingerprintError: there is no such tool any more.
        """
        return self._tool().parameters  # type: ignore[no-any-return] # a `ToolDefinition`

    @property
    def subject(self) -> Subject:
        """What a standing approval is about: the call of the tool."""
        return Subject("tool", self.tool, self.definition_hash, self.arguments)

    def check_current(self) -> None:
        """Check that the tool is the one that was asked about, and the program the one that was saved.

        Raises:
            FingerprintError: the tool was changed or removed.
            TrustError: somebody else saved the program, or changed it: nobody can see what it would do.
        """
        if self.doubt:
            raise TrustError(
                f"{self.doubt} A saved program goes on only where it is known to be yours; turn it down"
            )
        if self._tool().definition_hash != self.definition_hash:
            raise FingerprintError(f"the tool {self.tool!r} was changed since; run the script again")

    def editable(self) -> Parameters | None:
        """What the tool would be called with, as long as there is the tool."""
        return None if self.tract.executor.get(self.tool) is None else super().editable()

    def summary(self) -> str:
        """What the tool does."""
        tool = self.tract.executor.get(self.tool)
        return "" if tool is None else str(tool.description)

    def why(self) -> str:
        """Who wants to call it, and what deciding later means."""
        return (
            f"{self.actor} wants to make this call, and is stopped there. It was saved with this question: decided "
            "later, it goes on from this line."
        )

    def tables(self) -> tuple[ValueTable, ...]:
        """What the tool would be called with."""
        tool = self.tract.executor.get(self.tool)
        declared = {} if tool is None else {p.name: p for p in tool.parameters}
        return (ValueTable(f"Call {self.tool} with", value_rows(self.arguments, declared)),)

    def _tool(self) -> Any:
        tool = self.tract.executor.get(self.tool)
        if tool is None:
            raise FingerprintError(f"there is no tool {self.tool!r} any more; it cannot be called")
        return tool

    @property
    def _values(self) -> Mapping[str, Any]:
        return self.arguments  # type: ignore[no-any-return] # a field's value

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        return {**self.fields, "arguments": values}
