"""A question about the call of a tool. Where the tool fires an operation, it is the only question about that.

It shows the operation's code and offers its actions. What is chosen here is done with the operation once it is fired,
unless a handler of the operation decides first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import FingerprintError
from tract_jupyter.hooks.dynamic.check import TOOL_PREFIX
from tract_jupyter.hooks.dynamic.pending import blocks_of, unreviewed_text
from tract_jupyter.hooks.field_pending import FieldPending
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.decision import deciding
from tract_jupyter.review.request import findings_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.hooks.dynamic.pending import DynamicPending
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.hooks.question import Question
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.request import CodeBlock

_STANDING: Final = frozenset({"grant", "recorded"})
"""Channels over which a person's earlier decision about the same comes."""


class Choice(NamedTuple):
    """What was chosen about a call: an action of the operation that it fires, or `approve`."""

    action: str
    arguments: Mapping[str, Any]
    decided_by: str
    is_personal: bool
    """Whether a person chose it just now."""

    def holds_for(self, pending: Pending) -> bool:
        """Whether it counts for the operation that was fired, and no person has to look at that anew."""
        return self.is_personal or not pending.unguarded

    def apply(self, pending: Pending) -> None:
        """Do it with the operation that was fired."""
        with deciding("call", self.decided_by):
            pending.execute_tool(self.action, self.arguments)


class ToolQuestion(FieldPending):
    """Base class of the questions about a call."""

    @property
    def tool_name(self) -> str:
        """The tool."""
        raise NotImplementedError

    @property
    def call_arguments(self) -> dict[str, Any]:
        """What it is called with, as things stand."""
        raise NotImplementedError

    def check_branch(self) -> None:
        """Check that what would be written to the history is written where it was asked about.

        Raises:
            FingerprintError: the tool is one that works on the history, and another branch is the current one.
        """
        tool, current = self.tract.executor.get(self.tool_name), self.tract.current_branch
        if tool is None or not tool.writes_history or self.branch in (None, current):
            return
        raise FingerprintError(
            f"this was asked on branch {self.branch!r}, and the current one is {current!r}; "
            f"switch({self.branch!r}) first"
        )

    @property
    def fired(self) -> type[DynamicPending] | None:
        """The operation that the call fires; None if it fires none that is active."""
        operation = self.tool_name.removeprefix(TOOL_PREFIX)
        if operation == self.tool_name:
            return None
        found: type[DynamicPending] | None = self.tract.operations.registry.get_class(operation)
        return found

    @property
    def choice(self) -> Choice | None:
        """What a person chose, now or for good; None if nobody did, or not a person."""
        made: Decision | None = self.decision
        if made is None or self.status is not PendingStatus.APPROVED:
            return None
        if not made.is_personal and made.channel not in _STANDING:
            return None
        arguments = {} if made.action == "approve" else made.arguments
        return Choice(made.action, arguments, made.decided_by, made.is_personal)

    @property
    def offered_actions(self) -> frozenset[str]:
        """The actions of the operation, too."""
        fired = self.fired
        return super().offered_actions if fired is None else super().offered_actions.union(fired.spec.actions)

    def owner_of_action(self, name: str) -> type[Question]:
        """The operation's class, for its own actions."""
        fired = self.fired
        is_own = fired is None or name in super().offered_actions
        return super().owner_of_action(name) if is_own or fired is None else fired

    def chooses(self, name: str) -> bool:
        """Whether something that is offered is an action of the operation, and no decision about the call alone."""
        return self.owner_of_action(name) is not type(self)

    def runs_nothing(self, action: str) -> bool:
        """Whether the operation is fired with nothing to do: it has actions, none is chosen, and no handler decides."""
        fired = self.fired
        if action != "approve" or fired is None or not fired.spec.actions:
            return False
        return not self.tract.list_hooks().get(fired.spec.name)

    def is_instant(self, action: str) -> bool:
        """Not where the operation's own code is chosen."""
        return not self.chooses(action) and super().is_instant(action)

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The code of the operation."""
        fired = self.fired
        return () if fired is None else blocks_of(fired, self.tract)

    def about_operation(self) -> str:
        """What whoever decides should know of the operation that is fired."""
        fired = self.fired
        if fired is None:
            return ""
        told = [
            f"It fires the operation {fired.spec.name}, which is not asked about again.",
            unreviewed_text(fired, self.tract),
            "Its handlers come first: what you choose is done where none of them decides."
            if self.tract.list_hooks().get(fired.spec.name)
            else "",
            findings_text(self.code_blocks()),
        ]
        return " ".join(filter(None, told))

    def carry_out_action(self, name: str, arguments: dict[str, Any]) -> Any:
        """Let the call happen, also by choosing an action of the operation."""
        if self.chooses(name):
            return self.through_gate(name, arguments, self.run_approved)
        return super().carry_out_action(name, arguments)
