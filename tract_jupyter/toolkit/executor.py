"""The executor, which runs every tool call.

Stubs, scripts, agents and MCP all use it. The module `toolkit.call` has its steps. It returns errors as data.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    OperationExistsError,
    SpecError,
    TractError,
    UnknownToolError,
    nearest,
)
from tract_jupyter.operations import TOOL_PREFIX
from tract_jupyter.prompts import CALLED_FROM_CODE, NOT_GRANTED, NOTHING_ABOVE
from tract_jupyter.review import CHAT, deciding, has_ended, may_run_elsewhere
from tract_jupyter.toolkit.call import Call, RevertCall
from tract_jupyter.toolkit.callers import (
    USER,
    Permission,
    default_permission,
)
from tract_jupyter.toolkit.definitions import BUILT_IN, OWN, RESULT, ToolDefinition
from tract_jupyter.toolkit.delegation import join_actors
from tract_jupyter.toolkit.names import namespaces, provider_names, python_name, python_names
from tract_jupyter.toolkit.results import ToolResult
from tract_jupyter.toolkit.savings import Savings
from tract_jupyter.toolkit.toolset import READ_ON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeVar

    from tract_jupyter.llm import Cassette
    from tract_jupyter.review import Pending, Reviewer
    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.callers import PermissionOf
    from tract_jupyter.toolkit.delegation import Delegation
    from tract_jupyter.toolkit.pendings import Approval
    from tract_jupyter.toolkit.profiles import ToolProfile

    Function = TypeVar("Function", bound=Callable[..., Any])

_STRICTNESS: Final = (Permission.ALLOW, Permission.ASK, Permission.DENY)


class ToolExecutor:
    """The executor of tools: it finds tools, checks calls, asks the user and makes the calls.

    With a delegation, it asks the parent tract's executor at every call. It has the granted tools of the parent, and
    the tools that the user added to its own tract. Built-in tools act on its own tract. Its own locks and all locks
    of the ancestors apply. The stricter one of the two permissions applies. If the parent tract is closed or gone,
    there are no tools, and the executor refuses each call with an explanation.

    Args:
        tract: the tract that the requests about gated calls belong to.
        reviewer: asks the user about calls.
        unguarded: returns why the user decides instead of an operation's handlers; empty if the handlers decide.
        fixed: the tools that are always available.
        live: returns the tools that come and go, by name. Every call reads them again, so they are never stale.
        permission: returns the permission of an actor for a tool: allow, ask or deny.
        cassette: records calls, or replays recorded ones.
        delegation: the link of a child to its parent; None for a root tract.

    Attributes:
        tract: the tract that owns these tools. The context tools act on it.
        agent: the actor of the model in a child tract; empty in a root tract.
        granted: the tools that may be called at all, directly or from scripts; None for all. A profile cannot grant
            more than the parent tract has.
        result_bytes: maximum length of a result's JSON that a toolset passes to a model. The user's own call returns
            the handler's value unchanged.
        uses: number of calls of each tool since this executor was created, by name.
        savings: the savings of scripts since then.
        unguarded: see `Args`.
    """

    def __init__(
        self,
        tract: Any,
        reviewer: Reviewer,
        unguarded: Callable[[str], str],
        fixed: Iterable[ToolDefinition],
        live: Callable[[], Mapping[str, ToolDefinition]],
        permission: PermissionOf = default_permission,
        cassette: Cassette | None = None,
        delegation: Delegation | None = None,
    ) -> None:
        self.tract = tract
        self._delegation = delegation
        self.agent = "" if delegation is None else delegation.actor
        self.granted = None if delegation is None else delegation.granted
        self._reviewer = reviewer
        self.unguarded = unguarded
        self._fixed = {tool.name: tool for tool in fixed}
        self._live = live
        self._permission = permission
        self.cassette = cassette
        self.result_bytes = 1_000_000
        self.uses: Counter[str] = Counter()
        self.savings = Savings()
        self._locks: dict[str, str] = {}
        self._spaces: tuple[object, frozenset[str]] = (None, frozenset())

    # --- the tracts above

    @property
    def above(self) -> ToolExecutor | None:
        """The executor of the parent tract; None for a root tract, and if the parent is closed or gone."""
        if self._delegation is None:
            return None
        try:
            return self._delegation.executor
        except TractError:
            return None

    def _upwards(self) -> Iterator[ToolExecutor]:
        """Yield this executor and all reachable ancestors."""
        executor: ToolExecutor | None = self
        while executor is not None:
            yield executor
            executor = executor.above

    @property
    def top(self) -> ToolExecutor:
        """The root tract's executor. Its tract asks the user about calls and stores the requests."""
        return self if self._delegation is None else self._delegation.executor.top

    @property
    def reviewer(self) -> Reviewer:
        """The reviewer of the root tract, which asks the user about calls."""
        return self.top._reviewer  # noqa: SLF001 # its own class

    def why_gone(self) -> str:
        """Return the reason why no call is possible any more; empty if calls are possible."""
        try:
            self.top  # noqa: B018 # follows the chain
        except TractError as error:
            return NOTHING_ABOVE.format(why=error)
        return ""

    def remember_grants(self) -> None:
        """Store the grants of this tract and its ancestors, for a process that continues a paused script later."""
        for executor in self._upwards():
            if executor._delegation is not None:  # noqa: SLF001 # its own class
                executor._delegation.remember()  # noqa: SLF001 # the same

    def home(self, name: str) -> ToolExecutor:
        """Return the executor of the tract that has a tool. For `fire_NAME`, this is the operation's tract."""
        if self._delegation is None or name in self._fixed or name in self._live():
            return self
        return self._delegation.executor.home(name)

    def descends_from(self, other: object) -> bool:
        """Return True if another executor is an ancestor, which shares some of its tools with this one."""
        return any(executor is other for executor in self._upwards() if executor is not self)

    def qualified(self, actor: str) -> str:
        """Return the unique name of an actor across all tracts: `agent:<id>/script:...` in a child tract.

        The user's name is the same in all tracts. Other actors of different tracts never share a name. A grant
        therefore never covers actors of two tracts.
        """
        if not self.agent or actor in {USER, self.agent} or actor.startswith(f"{self.agent}/"):
            return actor
        return join_actors(self.agent, actor)

    def asker(self, actor: str) -> str:
        """Describe an actor for the user, with its depth and the actors above it."""
        if self._delegation is None:
            return "The model" if actor == CHAT else actor
        if actor == USER:
            return actor
        chain: list[str] = []
        executor: ToolExecutor | None = self
        while executor is not None and executor._delegation is not None:  # noqa: SLF001 # its own class
            executor = executor.above
            chain.append(
                "the conversation at the top" if executor is None or not executor.agent else executor.agent
            )
        return f"{actor} (depth {len(chain)}, below {', below '.join(chain)})"

    def count_use(self, name: str) -> None:
        """Count a call of a tool, here and in all ancestors."""
        for executor in self._upwards():
            executor.uses[name] += 1

    def count_savings(self, savings: Savings) -> None:
        """Add the savings of a script, here and in all ancestors."""
        for executor in self._upwards():
            executor.savings += savings

    @property
    def permission(self) -> PermissionOf:
        """The function that returns an actor's permission for a tool.

        In a child tract, the stricter one of the parent's and its own permission applies.
        """
        restriction = self._permission
        if self._delegation is None:
            return restriction
        above = self.above
        if above is None:
            return _deny
        inherited = above.permission
        return inherited if restriction is default_permission else partial(_stricter, inherited, restriction)

    @permission.setter
    def permission(self, permission: PermissionOf) -> None:
        """Set the executor's own permission. In a child tract, it can only restrict the parent's permission."""
        self._permission = permission

    # --- tools

    def add_function(self, function: Function, **options: Any) -> Function:
        """Make a tool from a function, replace the user's tool of the same name, and return the function.

        The options are those of `ToolDefinition.from_function`.
        """
        self.add(ToolDefinition.from_function(function, **options), replace=True)
        return function

    def tools(self) -> dict[str, ToolDefinition]:
        """Return all current tools by name: its own tools, and the granted tools of the parent."""
        if self._delegation is None:
            return {**self._fixed, **self._live()}
        above = self.above
        if above is None:
            return {}
        inherited = {name: self._fixed.get(name, tool) for name, tool in above.tools().items()}
        own_tools = {name: tool for name, tool in self._fixed.items() if tool.owner != BUILT_IN}
        tools = {**inherited, **own_tools, **self._live()}
        return {name: tool for name, tool in tools.items() if self._is_granted(tool)}

    def _is_granted(self, tool: ToolDefinition) -> bool:
        granted = self.granted
        return granted is None or granted.has(tool) or granted.in_code.has(tool) or tool.name == READ_ON

    def add(self, tool: ToolDefinition, *, replace: bool = False) -> None:
        """Add a tool of the user to this tract only. It hides a tool of the same name in the parent tract.

        With `replace`, it replaces a tool of the user with the same name. Tools of other owners are never replaced.

        Raises:
            OperationExistsError: a tool has that name, or the same name in Python.
            SpecError: it is not one of the granted tools.
        """
        if not self._is_granted(tool):
            raise SpecError(
                f"{tool.name!r} is not granted to {self.agent}, so it could not be called here; "
                "spawn the child with a profile that has it"
            )
        former = self.get(tool.name)
        if former is not None and replace and former.name == tool.name and former.owner == OWN:
            self._fixed[tool.name] = tool
            return
        if former is not None:
            raise OperationExistsError(
                f"the tool {former.name!r} already exists (owner: {former.owner}); choose another name"
            )
        if python_name(tool.name).startswith(TOOL_PREFIX):
            raise OperationExistsError(
                f"{tool.name!r}: names with {TOOL_PREFIX!r} are reserved for operations; choose another"
            )
        space = next(
            (s for s in self.namespaces() if s in {python_name(tool.name), tool.name.partition(".")[0]}), None
        )
        if space is not None:
            raise OperationExistsError(
                f"{tool.name!r}: tools.{space} holds the tools of an MCP server; choose another"
            )
        others = (name for name, existing in self.tools().items() if not existing.namespace)
        python_names([*others, tool.name])
        self._fixed[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        """Remove one of the user's tools from this tract."""
        tool = self._known(name)
        if tool.owner != OWN:
            raise OperationExistsError(
                f"{tool.name!r} is not your own tool (owner: {tool.owner}); lock it instead"
            )
        if tool.name not in self._fixed:
            raise OperationExistsError(
                f"{tool.name!r} belongs to a parent tract; remove it there, or lock it here"
            )
        del self._fixed[tool.name]

    def namespaces(self) -> frozenset[str]:
        """Return the names that group several tools: `tools.<namespace>.<tool>`."""
        if self._delegation is not None:
            return namespaces(self.tools())
        live = self._live()
        if live is not self._spaces[0]:
            self._spaces = live, namespaces(live)
        return self._spaces[1]

    def check_namespace(self, name: str) -> None:
        """Check that no tool has a name, or a name within that namespace."""
        for tool in self.tools().values():
            if not tool.namespace and name in {python_name(tool.name), tool.name.partition(".")[0]}:
                raise OperationExistsError(
                    f"the tool {tool.name!r} already exists; choose another name than {name!r}"
                )

    def get(self, name: str) -> ToolDefinition | None:
        """Return the current tool with this name, or with this provider name; None if there is none."""
        return self.find(name) or self._as_provided(name)

    def find(self, name: str) -> ToolDefinition | None:
        """Return the current tool with exactly this name; None if there is none."""
        tool = self._fixed.get(name) or self._live().get(name)
        if self._delegation is None:
            return tool
        above = self.above
        if above is None:
            return None
        if tool is None or tool.owner == BUILT_IN:
            inherited = above.find(name)  # a tract grants only its own tools
            tool = None if inherited is None else tool or inherited
        return tool if tool is not None and self._is_granted(tool) else None

    # --- locks

    @property
    def locks(self) -> Mapping[str, str]:
        """The locked tools with the reasons, here and in all ancestors."""
        above = self.above
        return MappingProxyType(self._locks if above is None else {**self._locks, **above.locks})

    def lock_tool(self, name: str, reason: str = "") -> None:
        """Refuse every call of a tool, and offer it to no model, until it is unlocked.

        The lock applies to all callers. It also survives a replacement of the tool.
        """
        self._locks[self._known(name).name] = reason

    def unlock_tool(self, name: str) -> None:
        """Allow calls of a tool again. This has no effect on a tool that is not locked.

        Raises:
            UnknownToolError: there is no such tool.
            OperationExistsError: it is locked in an ancestor tract.
        """
        # a lock can outlive its tool
        locked = name if name in self._locks else self._known(name).name
        self._locks.pop(locked, None)
        if locked in self.locks:
            raise OperationExistsError(f"{locked!r} is locked in a parent tract; unlock it there")

    # --- calls

    def execute(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        actor: str = USER,
        profile: ToolProfile | None = None,
        approval: Approval | None = None,
        permission: LeveledPermission | None = None,
    ) -> ToolResult:
        """Call a tool and return its result, which also reports any error.

        The only exceptions are the main thread's interrupt and `CassetteError`.

        Args:
            name: the tool.
            arguments: the arguments of the call. A null counts as omitted if the schema does not allow null. Models
                in strict mode cannot omit an argument.
            actor: the caller.
            profile: the tools that the caller may use; all by default.
            approval: the approval of this call, which makes another request unnecessary. It covers only the tool
                version that the user approved. It does not override a denied permission.
            permission: the permission of an actor at a level of autonomy; the executor's own permission by default.

        Raises:
            CassetteError: a cassette is replayed, and its next recorded call is a different one.
        """
        return Call(self, name, actor, profile, permission, approval).execute(arguments)

    def revert(self, name: str, arguments: Mapping[str, Any], result: Any) -> ToolResult:
        """Take back an earlier call of a tool with its revert, as a call of the user."""
        tool = self.get(name)
        revert = None if tool is None else tool.revert
        known = {**arguments, RESULT: result}
        taken = () if revert is None else (parameter.name for parameter in revert.parameters)
        values = {each: known[each] for each in taken if each in known}
        return RevertCall(self, name, USER, None, None).execute(values)

    def prepare(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        actor: str,
        profile: ToolProfile | None = None,
        doubt: str = "",
        permission: LeveledPermission | None = None,
    ) -> Call | ToolResult:
        """Check a call without making it. The caller can then ask about several calls together.

        Return the call with its request, if the user has to decide. Otherwise return the reason why the call is
        impossible. `doubt` is the reason to ask the user again despite earlier approvals; the request shows it. The
        other parameters are as in `execute`.
        """
        call = Call(self, name, actor, profile, permission)
        return call.prepare(arguments, doubt) or call

    def withdraw_left(self, pending_ids: Iterable[str], why: str, asked: Pending | None = None) -> bool:
        """Withdraw the open requests of a call that an ended process left.

        Args:
            pending_ids: the requests of the call.
            why: the reason.
            asked: the new request of the call. An approval stays if this request or the code that it runs can use it.

        Returns:
            True if a user's approval was withdrawn, and nothing ran for it.
        """
        tract, reviewer = self.top.tract, self.reviewer
        is_approved = False
        for stored in filter(None, map(reviewer.ledger.get, pending_ids)):
            if not has_ended(stored.origin) or (asked is not None and stored.pending_id == asked.pending_id):
                continue
            with suppress(TractError):  # another process may decide at the same time
                left = tract.operations.as_shown(stored)
                decision = left.unfinished
                is_unused = decision is not None and decision.started_at is None
                if asked is not None and is_unused:
                    is_same = stored.identity == asked.identity
                    if is_same or stored.operation != asked.operation:
                        continue
                if decision is not None and may_run_elsewhere(decision.claimed_by):
                    continue
                with deciding("automatic", "nobody"):
                    left.reject(why)
                is_approved = is_approved or is_unused
        return is_approved

    def is_barred(self, tool: ToolDefinition, actor: str, profile: ToolProfile | None) -> bool:
        """Return True if no approval can allow a call: not in the profile, locked, or denied."""
        if (profile is not None and not profile.has(tool)) or tool.name in self.locks:
            return True
        return self.permission(tool, self.qualified(actor)) is Permission.DENY

    def unknown(
        self, name: str, tool: ToolDefinition | None, profile: ToolProfile | None, actor: str = USER
    ) -> ToolResult:
        """Refuse an unknown tool, and list the callable ones. A tool that is not granted counts as denied."""
        reason = self.why_gone()
        if reason:
            return ToolResult(str(name), success=False, error=reason, denied=True)
        if tool is not None and profile is not None and profile.in_code.has(tool):
            message = CALLED_FROM_CODE.format(tool=name, function=python_name(tool.own_name))
            return ToolResult(name, success=False, error=message, denied=True)
        names = sorted(
            each.name for each in self.tools().values() if not self.is_barred(each, actor, profile)
        )
        near, listed = nearest(str(name), names), ", ".join(names)
        if tool is None and self.agent and isinstance(name, str) and self.top.get(name) is not None:
            message = NOT_GRANTED.format(tool=name, actor=self.agent, near=near, names=listed or "none")
            return ToolResult(name, success=False, error=message, denied=True)
        of = "" if profile is None else f" in the profile {profile.name!r}"
        message = f"no tool {name!r}{of}.{near} Tools: {listed}"
        return ToolResult(str(name), success=False, error=message, denied=tool is not None)

    def _known(self, name: str) -> ToolDefinition:
        tool = self.get(name) if isinstance(name, str) else None
        if tool is None:
            raise UnknownToolError(self.unknown(name, None, None).error)
        return tool

    def _as_provided(self, name: str) -> ToolDefinition | None:
        tools = self.tools()
        return tools.get(provider_names(tools).get(name, ""))


def _stricter(first: PermissionOf, second: PermissionOf, tool: ToolDefinition, actor: str) -> Permission:
    return max(first(tool, actor), second(tool, actor), key=_STRICTNESS.index)


def _deny(tool: ToolDefinition, actor: str) -> Permission:  # noqa: ARG001 # the signature of a permission
    return Permission.DENY
