"""Requests about tool calls: the executor's, and the base class of requests that end in a tool call.

The user decides only once about a call that fires an operation. The request shows the operation's code and offers its
actions. The chosen action runs after the operation fires, unless a handler of the operation decides first.
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
from tract_jupyter.review.builtin import BuiltinPending, Field, check_branch
from tract_jupyter.storage import protected_context
from tract_jupyter.toolkit.definitions import CallDetails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.models.schema import ParameterSet
    from tract_jupyter.operations import DynamicPending
    from tract_jupyter.review import CodeBlock, Decision, Pending
    from tract_jupyter.toolkit.definitions import ToolDefinition


_CHANGED: Final = {"commit": "edit_target", "annotate": "target_hash", "compress": "from_commit"}
"""The argument that names the first changed message, for each context tool that changes one."""
_STANDING: Final = frozenset({"grant", RECORDED})
"""Channels of the user's earlier decisions about the same request."""


class Approval(NamedTuple):
    """The approval of one call, for one version of a tool.

    `choice` is the user's choice for the operation that the call fires.
    """

    definition_hash: str
    choice: ActionChoice | None = None


class ToolQuestion(FieldPending):
    """Base class of requests about a tool call.

    The request belongs to the root tract, which has the inbox. The call may belong to a child tract.
    """

    _acts_in: Callable[[], Any] | None = None

    @property
    def acts_in(self) -> Any:
        """The tract that makes the call. Its executor has the tool, and the call writes to its branch."""
        return self.tract if self._acts_in is None else self._acts_in()

    def act_in(self, tract: Any) -> None:
        """Assign the call to a child of the request's tract."""
        if tract is not self.tract:
            self._acts_in, self.branch = lambda: tract, tract.current_branch

    @property
    def current_tool(self) -> ToolDefinition | None:
        """The current tool; None if it does not exist any more, or the calling tract is gone."""
        try:
            tool: ToolDefinition | None = self.acts_in.executor.get(self.tool_name)
        except TractError:  # the child tract is gone
            return None
        return tool

    @cached_property
    def code_doubt(self) -> str:
        """The doubt about the tool's code, see `ToolDefinition`. The hash detects later changes of that code."""
        tool = self.current_tool
        return "" if tool is None else tool.code_doubt

    @property
    def subject(self) -> Subject | None:
        """The subject of a standing approval; None if there is a doubt about the tool's code."""
        return None if self.code_doubt else super().subject

    @property
    def _home(self) -> Any:
        """The tract of the tool, and of the operation that it fires."""
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
        """The title that the tool returns for the call, or a title with the tool's name."""
        tool = self.current_tool
        title = "" if tool is None or tool.title is None else tool.title(self.call_arguments)
        return title or f"Call tool {self.tool_name}"

    @property
    def trusts_defaults(self) -> bool:
        """True if the parameter defaults are from the user or this package. False for an MCP server's tool."""
        tool = self.current_tool
        return tool is not None and not tool.owner.startswith("mcp:")

    @property
    def is_destructive(self) -> bool:
        """True if the tool may remove something permanently."""
        tool = self.current_tool
        return tool is not None and tool.traits.destructive

    def check_branch(self) -> None:
        """Check that the call writes to the branch that the request names."""
        tool = self.current_tool
        if tool is not None and tool.writes_history and self.branch is not None:
            check_branch(self.acts_in, self.branch)

    @property
    def fired(self) -> type[DynamicPending] | None:
        """The active operation that the call fires; None if it fires none."""
        operation = self.tool_name.removeprefix(TOOL_PREFIX)
        if operation == self.tool_name:
            return None
        with suppress(TractError):  # the child tract is gone
            fired: type[DynamicPending] | None = self._home.operations.registry.get_class(operation)
            return fired
        return None

    @property
    def choice(self) -> ActionChoice | None:
        """The user's choice, made now or in a standing approval; None if there is none."""
        decision: Decision | None = self.decision
        if decision is None or self.status is not PendingStatus.APPROVED:
            return None
        if not decision.is_personal and decision.channel not in _STANDING:
            return None
        arguments = {} if decision.action == "approve" else own_arguments(decision.arguments)
        return ActionChoice(decision.action, arguments, decision.decided_by, decision.is_personal)

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
        tool, approved = self.current_tool, self.approved_hash
        is_unchanged = tool is not None and tool.hash_for(self.call_arguments) == approved
        return tool.hash_for(values) if tool is not None and is_unchanged else approved

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of the actions, including the operation's."""
        fired = self.fired
        return super().offered_actions if fired is None else super().offered_actions.union(fired.spec.actions)

    def owner_of_action(self, name: str) -> type[Pending]:
        """Return the class that defines an action: the operation, for its own actions."""
        fired = self.fired
        is_own = fired is None or name in super().offered_actions
        return super().owner_of_action(name) if is_own or fired is None else fired

    def chooses(self, name: str) -> bool:
        """Return True if a name is an action of the operation, and not just a decision about the call."""
        return self.owner_of_action(name) is not type(self)

    def runs_nothing(self, action: str) -> bool:
        """Return True if the call would fire without effect: no action is chosen, and no handler decides."""
        fired = self.fired
        if action != "approve" or fired is None or not fired.spec.actions:
            return False
        return not self._home.hooks.list().get(fired.spec.name)

    def is_instant(self, action: str) -> bool:
        """Return True if the action only decides. It is False for an action that runs the operation's code."""
        return not self.chooses(action) and super().is_instant(action)

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of the operation that it fires, and the tool's own code blocks."""
        fired = self.fired
        blocks = () if fired is None else blocks_of(fired, self._home)
        return (*blocks, *self.call_details().blocks)

    def about_operation(self) -> str:
        """Return a text about the operation that the call fires, for the user."""
        fired = self.fired
        if fired is None:
            return ""
        sentences = [
            f"It fires the operation {fired.spec.name}, which needs no second approval.",
            unreviewed_text(fired, self._home),
            "Its handlers decide first. Your choice applies if none of them decides."
            if self._home.hooks.list().get(fired.spec.name)
            else "",
            findings_text(self.code_blocks()),
        ]
        return " ".join(filter(None, sentences))

    def about_rewrite(self) -> str:
        """Describe the cost of changing earlier messages, such as lost reasoning and cache; empty if there is none."""
        arguments = self.call_arguments
        if self.tool_name not in _CHANGED or arguments.get("priority", "skip") != "skip":
            return ""
        target = arguments.get(_CHANGED[self.tool_name])
        if target is None and self.tool_name != "compress":
            return ""
        with suppress(TractError):  # the call itself reports invalid arguments
            cost = self.acts_in.costs.of_rewrite(*([] if target is None else [target]))
            return f"Then {cost}." if cost else ""
        return ""

    def call_details(self) -> CallDetails:
        """Return the tables and texts of the tool that explain the current arguments."""
        try:
            return self._find_details()
        except TractError as error:  # the user changed the arguments to invalid values
            wrong = (ValueRow("current values", "", "the call is impossible", str(error)),)
            return CallDetails((ValueTable("Problem", wrong, "nothing"),))

    def _find_details(self) -> CallDetails:
        tool = self.current_tool
        details = None if tool is None else tool.details
        return CallDetails() if details is None else details(self.call_arguments, self.actor)

    def without_details(self, tables: tuple[ValueTable, ...]) -> tuple[ValueTable, ...]:
        """Return the tables of arguments without those that the details show."""
        details, arguments = self.call_details(), self.call_arguments
        texts = [block for block in details.blocks if block.language == "text"]

        def is_shown(name: str) -> bool:
            return name in details.shown or any(text.is_value(name, arguments.get(name)) for text in texts)

        kept = (
            replace(table, rows=tuple(row for row in table.rows if not is_shown(row.name)))
            for table in tables
        )
        return tuple(table for table in kept if table.rows or not details.shown)

    def carry_out_action(self, name: str, arguments: dict[str, Any]) -> Any:
        """Allow the call. An action of the operation allows it as well."""
        if self.chooses(name):
            return self.through_gate(name, arguments, self.run_approved)
        return super().carry_out_action(name, arguments)


class ToolPending(BuiltinPending, ToolQuestion):
    """Base class of requests that end in a tool call. Their fields name the tool and its arguments.

    The user can change the arguments. A standing approval covers the tool with these values.
    """

    tool_field: ClassVar[str]
    arguments_field: ClassVar[str]
    machinery = frozenset({"definition_hash"})
    again: ClassVar[str]
    """The advice to the user if the tool changed since the request."""
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
        """The parameters of the tool."""
        return self._tool().parameters

    @property
    def subject(self) -> Subject | None:
        """The call as the subject of a standing approval; None if there is a doubt about the tool's code."""
        if self.code_doubt:
            return None
        return Subject("tool", self.tool_name, self.definition_hash, self.call_arguments, self.actor)

    def check_current(self) -> None:
        """Check that tool and branch have not changed since the request."""
        if self._tool().hash_for(self.call_arguments) != self.definition_hash:
            raise FingerprintError(f"the tool {self.tool_name!r} has changed since the request; {self.again}")
        self.check_branch()

    def editable(self) -> Any:
        """Return the arguments that the user can change; None if the tool is gone."""
        return None if self.current_tool is None else super().editable()

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the arguments of the call, in the order of its parameters."""
        tool = self.current_tool
        declared = {} if tool is None else {p.name: p for p in tool.parameters}
        arguments = self.call_arguments
        names = [*declared, *(name for name in arguments if name not in declared)]
        values = {name: arguments[name] for name in names if name in arguments}
        rows = value_rows(values, declared, trusted=self.trusts_defaults)
        tables = (ValueTable(f"Call {self.tool_name} with", rows),) if rows else ()
        return (*self.call_details().tables, *self.without_details(tables))

    def _tool(self) -> ToolDefinition:
        tool = self.current_tool
        if tool is None:
            raise FingerprintError(f"the tool {self.tool_name!r} no longer exists, so it cannot be called")
        return tool

    @property
    def _values(self) -> Mapping[str, Any]:
        return self.call_arguments

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        bound = {"definition_hash": self._hash_for_edited(values)}
        return {**self.fields, **bound, self.arguments_field: values}


class Alternative(NamedTuple):
    """Another call that the caller considered: the tool, its arguments, and the caller's reason."""

    name: str
    arguments: dict[str, Any]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


_LONGEST_REASONING: Final = 1_000


class PendingToolCall(ToolQuestion):
    """A gated tool call. An approval allows exactly this call.

    `check` raises `FingerprintError` if the tool or the permission changed since the request. `acts_in` is the tract
    that makes the call; the request's tract by default.

    Attributes:
        reasoning: the caller's own reason for the call; empty if there is none.
        alternatives: other calls that the caller considered. The user can choose one of them instead of this call.
        instead: the call that the user chose instead; None if there is none.
        is_in_doubt: whether the call may have run already. Then only the user can decide to repeat it.
    """

    kind = "tool"
    labels: Mapping[str, str] = {**ToolQuestion.labels, "choose": "Choose another"}

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        parameters: ParameterSet,
        definition_hash: str,
        code_doubt: str,
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
        self.code_doubt = code_doubt
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
        """Run an alternative instead of this call."""
        if not 1 <= number <= len(self.alternatives):
            raise PendingError(
                f"there is no alternative {number}; the alternatives are 1 to {len(self.alternatives)}"
            )
        self.take_instead(self.alternatives[number - 1])

    def take_instead(self, chosen: Alternative, reason: str = "") -> None:
        """Reject this call in favor of another one. The caller then asks about the chosen call."""
        self.instead = chosen
        self.reject(reason or f"{chosen} was chosen instead")

    def take_place_of(self, other: Any) -> None:
        """Replace another request with this call. The other request's call becomes an alternative."""
        before = Alternative(other.tool_name, dict(other.call_arguments), other.reasoning)
        self.reasoning = other.instead.why
        self.alternatives = (
            before,
            *(alternative for alternative in other.alternatives if alternative is not other.instead),
        )

    @property
    def approved_hash(self) -> str:
        """The hash that an approval covers. With changed arguments, it can differ from `definition_hash`."""
        return self._approved_hash

    @protected_context
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
        """The names of the actions. `choose` is one of them if there are alternatives."""
        offered = super().offered_actions
        return offered if self.alternatives else offered - {"choose"}

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the arguments, without those that the details show."""
        return self.without_details(super().tables())

    def more_tables(self) -> tuple[ValueTable, ...]:
        """Return the details of the tool, the caller's reasoning, and the alternatives."""
        reasoning = (
            (ValueRow("reasoning", "", self.reasoning[:_LONGEST_REASONING]),) if self.reasoning else ()
        )
        others = tuple(
            ValueRow(f"alternative {number}", "", str(other), other.why)
            for number, other in enumerate(self.alternatives, 1)
        )
        tables = (
            ValueTable("In its own words", reasoning, "nothing"),
            ValueTable("Alternatives", others, "nothing"),
        )
        details = self.call_details()
        return (*details.tables, *super().more_tables(), *(table for table in tables if table.rows))

    def _find_details(self) -> CallDetails:
        return CallDetails() if self._details is None else self._details(self.fields)

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
        """The approved arguments of the call."""
        return self.fields

    def check_current(self) -> None:
        """Check that tool, permission and branch have not changed since the request."""
        self._check()
        self.check_branch()

    def summary(self) -> str:
        """Return the description of the tool."""
        return self._description

    def why(self) -> str:
        """Return the caller, and the reason for the request."""
        reason = self._why or f"{self.actor} wants to make this call; your own cells need no approval."
        return " ".join(filter(None, (reason, self.about_operation(), self.about_rewrite())))
