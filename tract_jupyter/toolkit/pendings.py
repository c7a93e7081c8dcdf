"""Questions about calls of tools: that of the executor, and the base of those that end in a tool call.

A call that fires an operation is asked about once: the question shows the operation's code and offers its actions.
What is chosen is done once the operation is fired, unless a handler of the operation decides first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple

from tract_jupyter.exceptions import FingerprintError, PendingError, TractError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import TOOL_PREFIX, blocks_of, unreviewed_text
from tract_jupyter.review import (
    RECORDED,
    ActionChoice,
    FieldPending,
    Subject,
    ValueRow,
    ValueTable,
    action,
    findings_text,
    own_arguments,
    value_rows,
)
from tract_jupyter.review.builtin import BuiltinPending, Field
from tract_jupyter.storage import whole_context
from tract_jupyter.toolkit.definitions import CallDetails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.models.schema import ParameterSet
    from tract_jupyter.operations import DynamicPending
    from tract_jupyter.review import CodeBlock, Decision, Pending
    from tract_jupyter.toolkit.definitions import ToolDefinition


_CHANGED: Final = {"commit": "edit_target", "annotate": "target_hash", "compress": "from_commit"}
"""The argument that names the first message that is changed, of the context tools that change one."""
_STANDING: Final = frozenset({"grant", RECORDED})
"""Channels over which a person's earlier decision about the same comes."""


class Approval(NamedTuple):
    """The approval of one call: of which tool, in which version, and what was chosen, if somebody did.

    Attributes:
        definition_hash: of the tool.
        choice: what is done with the operation that the call fires.
    """

    definition_hash: str
    choice: ActionChoice | None = None


class ToolQuestion(FieldPending):
    """Base class of questions about a tool call.

    It belongs to the tract at the top, whose inbox has it; the call may be one of a tract below that.
    """

    _acts_in: Callable[[], Any] | None = None

    @property
    def acts_in(self) -> Any:
        """The tract that makes the call: its executor has the tool, and its branch is written to."""
        return self.tract if self._acts_in is None else self._acts_in()

    def act_in(self, tract: Any) -> None:
        """Have the call be one of a tract that stands below that of the question."""
        if tract is not self.tract:
            self._acts_in, self.branch = lambda: tract, tract.current_branch

    @property
    def current_tool(self) -> ToolDefinition | None:
        """The tool as it is now; None if there is none, or nobody has it any more who makes the call."""
        try:
            found: ToolDefinition | None = self.acts_in.executor.get(self.tool_name)
        except TractError:  # the tract below is gone
            return None
        return found

    @cached_property
    def code_doubt(self) -> str:
        """The doubt about the tool's code, see `ToolDefinition`. The hash tells if that code changes later."""
        tool = self.current_tool
        return "" if tool is None else tool.code_doubt

    @property
    def subject(self) -> Subject | None:
        """The subject of a standing approval; None if the code of the tool is not certain."""
        return None if self.code_doubt else super().subject

    @property
    def _home(self) -> Any:
        """The tract that the tool lives in, with the operation that it fires."""
        return self.acts_in.executor.home(self.tool_name).tract

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        raise NotImplementedError

    @property
    def call_arguments(self) -> dict[str, Any]:
        """The current arguments of the call."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What it asks for in words, if its tool says that, or with the name of the tool."""
        tool = self.current_tool
        told = "" if tool is None or tool.title is None else tool.title(self.call_arguments)
        return told or f"Call tool {self.tool_name}"

    @property
    def trusts_defaults(self) -> bool:
        """True if the defaults of its parameters are the user's, or of this package: not those of an MCP server."""
        tool = self.current_tool
        return tool is not None and not tool.owner.startswith("mcp:")

    @property
    def is_destructive(self) -> bool:
        """True if what the tool takes away may be gone for good."""
        tool = self.current_tool
        return tool is not None and tool.traits.destructive

    def check_branch(self) -> None:
        """Check that the call would write to the branch that it was asked about on.

        Raises:
            FingerprintError: the tool is one that works on the history, and another branch is the current one.
        """
        tool = self.current_tool
        if tool is None or not tool.writes_history:
            return
        current = self.acts_in.current_branch
        if self.branch in (None, current):
            return
        raise FingerprintError(
            f"this was asked on branch {self.branch!r}, and the current one is {current!r}; "
            f"switch({self.branch!r}) first"
        )

    @property
    def fired(self) -> type[DynamicPending] | None:
        """The active operation that the call fires; None if it fires none."""
        operation = self.tool_name.removeprefix(TOOL_PREFIX)
        if operation == self.tool_name:
            return None
        with suppress(TractError):  # the tract below is gone
            found: type[DynamicPending] | None = self._home.operations.registry.get_class(operation)
            return found
        return None

    @property
    def choice(self) -> ActionChoice | None:
        """The choice of a person, now or as a standing approval; None for none."""
        made: Decision | None = self.decision
        if made is None or self.status is not PendingStatus.APPROVED:
            return None
        if not made.is_personal and made.channel not in _STANDING:
            return None
        arguments = {} if made.action == "approve" else own_arguments(made.arguments)
        return ActionChoice(made.action, arguments, made.decided_by, made.is_personal)

    @property
    def approval(self) -> Approval:
        """The approval of the call, for a request that the user approved."""
        return Approval(self.approved_hash, self.choice)

    @property
    def approved_hash(self) -> str:
        """The hash that an approval covers: see `ToolDefinition.hash_for`."""
        return self.definition_hash

    def _hash_for_edited(self, values: dict[str, Any]) -> str:
        """Return the hash that an approval with changed arguments covers.

        It is the old one if the tool has changed since the request. Then `check_current` refuses the call.
        """
        tool, shown = self.current_tool, self.approved_hash
        is_unchanged = tool is not None and tool.hash_for(self.call_arguments) == shown
        return tool.hash_for(values) if tool is not None and is_unchanged else shown

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of the actions, including those of the operation."""
        fired = self.fired
        return super().offered_actions if fired is None else super().offered_actions.union(fired.spec.actions)

    def owner_of_action(self, name: str) -> type[Pending]:
        """Return the class that an action belongs to: the operation's, for its own actions."""
        fired = self.fired
        is_own = fired is None or name in super().offered_actions
        return super().owner_of_action(name) if is_own or fired is None else fired

    def chooses(self, name: str) -> bool:
        """Return True if a name is an action of the operation, rather than a decision about the call alone."""
        return self.owner_of_action(name) is not type(self)

    def runs_nothing(self, action: str) -> bool:
        """Return True if firing does nothing: the operation has actions, but none is chosen and no handler decides."""
        fired = self.fired
        if action != "approve" or fired is None or not fired.spec.actions:
            return False
        return not self._home.hooks.list().get(fired.spec.name)

    def is_instant(self, action: str) -> bool:
        """Return True if the action only decides; False where the operation's own code is chosen."""
        return not self.chooses(action) and super().is_instant(action)

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of the operation."""
        fired = self.fired
        return () if fired is None else blocks_of(fired, self._home)

    def about_operation(self) -> str:
        """Return what a person should know about the operation that is fired."""
        fired = self.fired
        if fired is None:
            return ""
        told = [
            f"It fires the operation {fired.spec.name}, which is not asked about again.",
            unreviewed_text(fired, self._home),
            "Its handlers decide first. Your choice applies if none of them decides."
            if self._home.hooks.list().get(fired.spec.name)
            else "",
            findings_text(self.code_blocks()),
        ]
        return " ".join(filter(None, told))

    def about_rewrite(self) -> str:
        """Return what the call would take from the model, as it changes what was sent before; empty if nothing."""
        given = self.call_arguments
        if self.tool_name not in _CHANGED or given.get("priority", "skip") != "skip":
            return ""
        target = given.get(_CHANGED[self.tool_name])
        if target is None and self.tool_name != "compress":
            return ""
        with suppress(TractError):  # what is wrong with the arguments, the call will tell
            cost = self.acts_in.costs.of_rewrite(*([] if target is None else [target]))
            return f"Then {cost}." if cost else ""
        return ""

    def carry_out_action(self, name: str, arguments: dict[str, Any]) -> Any:
        """Allow the call, also by choosing an action of the operation."""
        if self.chooses(name):
            return self.through_gate(name, arguments, self.run_approved)
        return super().carry_out_action(name, arguments)


class ToolPending(BuiltinPending, ToolQuestion):
    """Base class of pendings that end in a tool call; their fields say which tool, and with what.

    The arguments are what can be changed, and a standing approval is one of the tool with these values.
    """

    tool_field: ClassVar[str]
    arguments_field: ClassVar[str]
    machinery = frozenset({"definition_hash"})
    again: ClassVar[str]
    """What to do if the tool changed since."""
    definition_hash = Field()
    title = ToolQuestion.title

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return str(self.fields[self.tool_field])

    @property
    def call_arguments(self) -> dict[str, Any]:
        """The current arguments of the call."""
        return self.fields[self.arguments_field]  # type: ignore[no-any-return] # a field's value

    @property
    def field_parameters(self) -> ParameterSet:  # type: ignore[override] # looked up each time
        """The parameters of the tool.

        Raises:
            FingerprintError: there is no such tool any more.
        """
        return self._tool().parameters

    @property
    def subject(self) -> Subject | None:
        """The call of the tool, as the subject of a standing approval; None if the tool's code is not certain."""
        if self.code_doubt:
            return None
        return Subject("tool", self.tool_name, self.definition_hash, self.call_arguments, self.actor)

    def check_current(self) -> None:
        """Check that tool and branch are the ones that were asked about.

        Raises:
            FingerprintError: the tool was changed or removed, or writes elsewhere now.
        """
        if self._tool().hash_for(self.call_arguments) != self.definition_hash:
            raise FingerprintError(f"the tool {self.tool_name!r} was changed since; {self.again}")
        self.check_branch()

    def editable(self) -> Any:
        """Return the arguments that can be changed; None if the tool is gone."""
        return None if self.current_tool is None else super().editable()

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the arguments of the call, in the order of its parameters."""
        tool = self.current_tool
        declared = {} if tool is None else {p.name: p for p in tool.parameters}
        arguments = self.call_arguments
        names = [*declared, *(name for name in arguments if name not in declared)]
        given = {name: arguments[name] for name in names if name in arguments}
        rows = value_rows(given, declared, trusted=self.trusts_defaults)
        return (ValueTable(f"Call {self.tool_name} with", rows),) if rows else ()

    def _tool(self) -> ToolDefinition:
        tool = self.current_tool
        if tool is None:
            raise FingerprintError(f"there is no tool {self.tool_name!r} any more; it cannot be called")
        return tool

    @property
    def _values(self) -> Mapping[str, Any]:
        return self.call_arguments

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        bound = {"definition_hash": self._hash_for_edited(values)}
        return {**self.fields, **bound, self.arguments_field: values}


class Alternative(NamedTuple):
    """Another call that whoever makes a call has thought of: the tool, its arguments, and why, in their own words."""

    name: str
    arguments: dict[str, Any]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


_LONGEST_REASONING: Final = 1_000


class PendingToolCall(ToolQuestion):
    """A gated tool call: approving it lets exactly this call happen.

    Attributes:
        reasoning: why whoever makes the call wants it, in their own words; empty if they do not say.
        alternatives: the other calls that they have thought of. One can be chosen in the place of this one.
        instead: the call that was chosen in its place; None if none was.
        is_in_doubt: whether it may have been made already, so that only a person can say that it is made again.

    Args:
        tool: its name.
        arguments: validated, with defaults.
        parameters: what they must fit.
        definition_hash: of the tool's schema and code.
        check: raises `FingerprintError` if the tool or the permission changed since.
        why: the reason why a person is asked.
        details: gives what is shown besides the arguments, of the arguments as they are now.
        acts_in: the tract that makes the call; that of the question if left out.
        options: see `Pending`.
    """

    kind = "tool"
    labels: ClassVar[Mapping[str, str]] = {**ToolQuestion.labels, "choose": "Choose another"}

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        parameters: ParameterSet,
        definition_hash: str,
        check: Callable[[], None] = lambda: None,
        description: str = "",
        why: str = "",
        details: Callable[[Mapping[str, Any]], CallDetails] | None = None,
        acts_in: Any = None,
        **options: Any,
    ) -> None:
        super().__init__("tool_call", fields=arguments, **options)
        self.act_in(self.tract if acts_in is None else acts_in)
        self.tool = tool
        self.field_parameters = parameters
        self.definition_hash = definition_hash
        self._approved_hash = definition_hash
        self._check = check
        self._description = description
        self._why = why
        self._details = details
        self.reasoning = ""
        self.alternatives: tuple[Alternative, ...] = ()
        self.instead: Alternative | None = None
        self.is_in_doubt = False

    @action
    def choose(self, number: Annotated[int, "The number of the alternative, from 1."]) -> None:
        """Have an alternative done in the place of this call."""
        if not 1 <= number <= len(self.alternatives):
            raise PendingError(
                f"there is no alternative {number}; there are {len(self.alternatives)}, counted from 1"
            )
        self.take_instead(self.alternatives[number - 1])

    def take_instead(self, chosen: Alternative, reason: str = "") -> None:
        """Reject this call, as another one is chosen in its place. The caller then asks about that one."""
        self.instead = chosen
        self.reject(reason or f"{chosen} was chosen in its place")

    def take_place_of(self, other: Any) -> None:
        """Have this call be the one that was chosen at another question, whose call is an alternative now."""
        before = Alternative(other.tool_name, dict(other.call_arguments), other.reasoning)
        self.reasoning = other.instead.why
        self.alternatives = (before, *(one for one in other.alternatives if one is not other.instead))

    @property
    def approved_hash(self) -> str:
        """The hash that an approval covers. With changed arguments, it can differ from `definition_hash`."""
        return self._approved_hash

    @whole_context
    def _changed(self, fields: dict[str, Any], *, keep: bool) -> Iterator[None]:
        before = self._approved_hash
        changed = before if fields is self.fields else self._hash_for_edited(fields)
        with super()._changed(fields, keep=keep):
            self._approved_hash = changed
            try:
                yield
            except BaseException:
                self._approved_hash = before
                raise
        if not keep:
            self._approved_hash = before

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of the actions; an alternative can be chosen where there are some."""
        offered = super().offered_actions
        return offered if self.alternatives else offered - {"choose"}

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the arguments, but for those that stand there as a text."""
        texts = [block for block in self._told_details().blocks if block.language == "text"]
        return tuple(
            replace(
                table,
                rows=tuple(
                    row
                    for row in table.rows
                    if not any(one.is_value(row.name, self.fields.get(row.name)) for one in texts)
                ),
            )
            for table in super().tables()
        )

    def more_tables(self) -> tuple[ValueTable, ...]:
        """Return what its maker says of it, and the alternatives, besides what others show."""
        said = (ValueRow("reasoning", "", self.reasoning[:_LONGEST_REASONING]),) if self.reasoning else ()
        others = tuple(
            ValueRow(f"alternative {number}", "", str(other), other.why)
            for number, other in enumerate(self.alternatives, 1)
        )
        tables = (
            ValueTable("In its own words", said, "nothing"),
            ValueTable("Alternatives", others, "nothing"),
        )
        told = self._told_details()
        return (*told.tables, *super().more_tables(), *(table for table in tables if table.rows))

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of the operation that it fires, and what the tool shows of the call."""
        return (*super().code_blocks(), *self._told_details().blocks)

    def _told_details(self) -> CallDetails:
        if self._details is None:
            return CallDetails()
        try:
            return self._details(self.fields)
        except TractError as error:  # the arguments were changed to something that cannot be
            wrong = (ValueRow("as it is now", "", "it cannot be done", str(error)),)
            return CallDetails((ValueTable("What is wrong", wrong, "nothing"),))

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return self.tool

    @property
    def call_arguments(self) -> dict[str, Any]:
        """The arguments of the call, as approved."""
        return self.fields

    def check_current(self) -> None:
        """Check that tool, permission and branch are the ones that were asked about."""
        self._check()
        self.check_branch()

    def summary(self) -> str:
        """Return what the tool does."""
        return self._description

    def why(self) -> str:
        """Return who wants to call it, and why a person is asked."""
        asked = self._why or f"{self.actor} wants to make this call; a person's own cell is not asked."
        return " ".join(filter(None, (asked, self.about_operation(), self.about_rewrite())))
