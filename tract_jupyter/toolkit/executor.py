"""The one way to run a tool.

Stubs, scripts, agents and MCP all call through it, by the steps of `toolkit.call`. Errors come back as data.
"""

from __future__ import annotations

from collections import Counter
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
from tract_jupyter.toolkit.call import Call
from tract_jupyter.toolkit.callers import (
    CHAT,
    USER,
    Permission,
    default_permission,
)
from tract_jupyter.toolkit.definitions import BUILT_IN, OWN, ToolDefinition
from tract_jupyter.toolkit.delegation import join_actors
from tract_jupyter.toolkit.names import namespaces, provider_names, python_name, python_names
from tract_jupyter.toolkit.results import ToolResult
from tract_jupyter.toolkit.savings import Savings
from tract_jupyter.toolkit.toolset import READ_ON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeVar

    from tract_jupyter.llm import Cassette
    from tract_jupyter.review import Reviewer
    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.callers import PermissionOf
    from tract_jupyter.toolkit.delegation import Delegation
    from tract_jupyter.toolkit.pendings import Approval
    from tract_jupyter.toolkit.profiles import ToolProfile

    Function = TypeVar("Function", bound=Callable[..., Any])

_STRICTNESS: Final = (Permission.ALLOW, Permission.ASK, Permission.DENY)


class ToolExecutor:
    """The executor of tools: it finds, checks, asks and calls.

    With a delegation it asks the executor of the tract above at every call. Its tools are the granted ones of that
    executor, of which the built-in ones act on its own tract, and the tools that the user added to its own tract.
    Locks are those above and its own. Of the two permissions, the stricter counts. If the tract above is closed or
    gone, there are no tools, and each call is refused with a sentence.

    Args:
        tract: where pendings of gated calls belong.
        reviewer: has persons decide about them.
        unguarded: tells why a person is asked instead of an operation's handlers; empty if these decide.
        fixed: the tools that are always there.
        live: gives the tools that come and go, by name; asked at every call, so nothing is ever stale.
        permission: tells whether an actor may call a tool, must ask first, or may not.
        cassette: records calls, or serves what was recorded.
        delegation: the link of a child to its parent; None for a tract at the top.

    Attributes:
        tract: the tract whose tools these are, which its context tools act on.
        agent: the actor of the model that acts in the tract, where it stands below another one; empty at the top.
        granted: the tools that may be called at all, directly or from scripts; None for all. A profile that says more
            than the tract above has gives no more.
        result_bytes: how long the JSON of a result may be that a toolset shows a model. A person's own call gives
            the handler's own value, whatever it is.
        uses: how often each tool was run since this was made, by name.
        savings: what scripts saved since then.
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
        """The executor of the tract above; None at the top, and if that tract is closed or gone."""
        if self._delegation is None:
            return None
        try:
            return self._delegation.executor
        except TractError:
            return None

    def _upwards(self) -> Iterator[ToolExecutor]:
        """Yield this executor and those above it, as far as they can be reached."""
        one: ToolExecutor | None = self
        while one is not None:
            yield one
            one = one.above

    @property
    def top(self) -> ToolExecutor:
        """The executor at the top, whose tract asks and stores the requests about calls.

        Raises:
            TractError: a tract above is closed or gone.
        """
        return self if self._delegation is None else self._delegation.executor.top

    @property
    def reviewer(self) -> Reviewer:
        """The reviewer of the tract at the top, which asks the user about calls.

        Raises:
            TractError: a tract above is closed or gone.
        """
        return self.top._reviewer  # noqa: SLF001 # its own class

    def why_gone(self) -> str:
        """Return why nothing can be called any more; empty if something can."""
        try:
            self.top  # noqa: B018 # the chain is followed
        except TractError as error:
            return NOTHING_ABOVE.format(why=error)
        return ""

    def home(self, name: str) -> ToolExecutor:
        """Return the executor of the tract that has a tool: for a tool that fires an operation, the operation's tract.

        Raises:
            TractError: a tract above is closed or gone.
        """
        if self._delegation is None or name in self._fixed or name in self._live():
            return self
        return self._delegation.executor.home(name)

    def stands_below(self, other: object) -> bool:
        """Return True if some of the tools are those of another executor."""
        return any(one is other for one in self._upwards() if one is not self)

    def qualified(self, actor: str) -> str:
        """Return the name of an actor of this tract in every tract: `agent:<id>/script:...` below another tract.

        The user stays the user. No actor of this tract is one of another, so no grant covers both.
        """
        if not self.agent or actor in {USER, self.agent} or actor.startswith(f"{self.agent}/"):
            return actor
        return join_actors(self.agent, actor)

    def asker(self, actor: str) -> str:
        """Describe an actor for the user: its depth, and the actors above it."""
        if self._delegation is None:
            return "The model" if actor == CHAT else actor
        if actor == USER:
            return actor
        chain: list[str] = []
        one: ToolExecutor | None = self
        while one is not None and one._delegation is not None:  # noqa: SLF001 # its own class
            one = one.above
            chain.append("the conversation at the top" if one is None or not one.agent else one.agent)
        return f"{actor} (depth {len(chain)}, below {', below '.join(chain)})"

    def count_use(self, name: str) -> None:
        """Count a call of a tool, here and above."""
        for one in self._upwards():
            one.uses[name] += 1

    def count_savings(self, savings: Savings) -> None:
        """Add the savings of a script, here and above."""
        for one in self._upwards():
            one.savings += savings

    @property
    def permission(self) -> PermissionOf:
        """The function that says whether an actor may call a tool: that above, or the stricter of that and its own."""
        own = self._permission
        if self._delegation is None:
            return own
        above = self.above
        if above is None:
            return _deny
        theirs = above.permission
        return theirs if own is default_permission else partial(_stricter, theirs, own)

    @permission.setter
    def permission(self, permission: PermissionOf) -> None:
        """Set its own, which below another tract can only be stricter."""
        self._permission = permission

    # --- tools

    def add_function(self, function: Function, **options: Any) -> Function:
        """Make a tool of a function, replacing the user's own tool of that name, and return the function.

        Args:
            function: see `ToolDefinition.from_function`, like the options.
            options: see there.

        Raises:
            SpecError: it is no plain function, or has a parameter that models cannot send a value for.
            OperationExistsError: a tool that is not the user's own has that name.
        """
        self.add(ToolDefinition.from_function(function, **options), replace=True)
        return function

    def tools(self) -> dict[str, ToolDefinition]:
        """Return all current tools by name: its own, and those above that were granted."""
        if self._delegation is None:
            return {**self._fixed, **self._live()}
        above = self.above
        if above is None:
            return {}
        theirs = {name: self._fixed.get(name, tool) for name, tool in above.tools().items()}
        own = {name: tool for name, tool in self._fixed.items() if tool.owner != BUILT_IN}
        found = {**theirs, **own, **self._live()}
        return {name: tool for name, tool in found.items() if self._is_granted(tool)}

    def _is_granted(self, tool: ToolDefinition) -> bool:
        granted = self.granted
        return granted is None or granted.has(tool) or granted.in_code.has(tool) or tool.name == READ_ON

    def add(self, tool: ToolDefinition, *, replace: bool = False) -> None:
        """Add a tool of the user's own to this tract alone; here it takes the place of one above of that name.

        Args:
            tool: the tool.
            replace: let it take the place of one of that name that the user brought; never that of another.

        Raises:
            OperationExistsError: a tool has that name, or would have the same name in Python.
            SpecError: it is none of the tools that were granted.
        """
        if not self._is_granted(tool):
            raise SpecError(
                f"{tool.name!r} is none of the tools that were granted to {self.agent}, so nobody could call it here; "
                "spawn the child with a profile that has it"
            )
        former = self.get(tool.name)
        if former is not None and replace and former.name == tool.name and former.owner == OWN:
            self._fixed[tool.name] = tool
            return
        if former is not None:
            raise OperationExistsError(
                f"there is a tool {former.name!r} already (owner: {former.owner}); choose another name"
            )
        if python_name(tool.name).startswith(TOOL_PREFIX):
            raise OperationExistsError(
                f"{tool.name!r}: names with {TOOL_PREFIX!r} are those of operations; choose another"
            )
        space = next(
            (s for s in self.namespaces() if s in {python_name(tool.name), tool.name.partition(".")[0]}), None
        )
        if space is not None:
            raise OperationExistsError(
                f"{tool.name!r}: tools.{space} holds the tools of an MCP server; choose another"
            )
        others = (name for name, one in self.tools().items() if not one.namespace)
        python_names([*others, tool.name])
        self._fixed[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        """Remove one of the user's own tools that were brought to this tract.

        Raises:
            UnknownToolError: no tool has that name.
            OperationExistsError: the tool is not the user's, or it belongs to a parent tract.
        """
        tool = self._known(name)
        if tool.owner != OWN:
            raise OperationExistsError(
                f"{tool.name!r} is not your own tool (owner: {tool.owner}); lock it instead"
            )
        if tool.name not in self._fixed:
            raise OperationExistsError(
                f"{tool.name!r} is a tool of a tract above; remove it there, or lock it here"
            )
        del self._fixed[tool.name]

    def namespaces(self) -> frozenset[str]:
        """Return the names that stand for several tools: `tools.<namespace>.<tool>`."""
        if self._delegation is not None:
            return namespaces(self.tools())
        live = self._live()
        if live is not self._spaces[0]:
            self._spaces = live, namespaces(live)
        return self._spaces[1]

    def check_namespace(self, name: str) -> None:
        """Check that no tool has a name, or a name within it.

        Raises:
            OperationExistsError: one has.
        """
        for tool in self.tools().values():
            if not tool.namespace and name in {python_name(tool.name), tool.name.partition(".")[0]}:
                raise OperationExistsError(
                    f"there is a tool {tool.name!r} already; choose another name than {name!r}"
                )

    def get(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name, or of that name for providers, if it exists now."""
        return self.find(name) or self._as_provided(name)

    def find(self, name: str) -> ToolDefinition | None:
        """Return the tool of exactly that name, if it exists now."""
        own = self._fixed.get(name) or self._live().get(name)
        if self._delegation is None:
            return own
        above = self.above
        if above is None:
            return None
        if own is None or own.owner == BUILT_IN:
            theirs = above.find(name)  # a tract grants only its own tools
            own = None if theirs is None else own or theirs
        return own if own is not None and self._is_granted(own) else None

    # --- locks

    @property
    def locks(self) -> Mapping[str, str]:
        """The locked tools, each with the reason: its own, and those above."""
        above = self.above
        return MappingProxyType(self._locks if above is None else {**self._locks, **above.locks})

    def lock_tool(self, name: str, reason: str = "") -> None:
        """Refuse every call of a tool, whoever makes it, and offer it to no model, until it is unlocked.

        It stays locked if it is replaced.

        Raises:
            UnknownToolError: there is no such tool.
        """
        self._locks[self._known(name).name] = reason

    def unlock_tool(self, name: str) -> None:
        """Let a tool be called again; one that is not locked stays as it is.

        Raises:
            UnknownToolError: there is no such tool.
            OperationExistsError: it is locked in a tract above.
        """
        # a tool may be gone, and its lock still there
        locked = name if name in self._locks else self._known(name).name
        self._locks.pop(locked, None)
        if locked in self.locks:
            raise OperationExistsError(f"{locked!r} is locked in a tract above; unlock it there")

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
        """Call a tool. What went wrong is in the result; it raises nothing but the main thread's interrupt.

        Args:
            name: the tool.
            arguments: what it is called with. A null where the schema allows none stands for what is left out: models
                in strict mode have no other way to say it.
            actor: who calls.
            profile: which tools there are for them; all if left out.
            approval: of this very call, which is not asked about again. It counts for the tool that it was given for;
                what is not permitted stays so.
            permission: of somebody who acts at a level of autonomy; the executor's own if left out.

        Raises:
            CassetteError: a cassette is replayed, and the call is not what comes next on it.
        """
        return Call(self, name, actor, profile, permission, approval).execute(arguments)

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
        """Look at a call without making it, so that the questions of several calls can be asked together.

        Args:
            name: see `execute`, like the three after it.
            arguments: what it is called with.
            actor: who calls.
            profile: which tools there are for them.
            doubt: why a person must be asked again, whatever was allowed before; the person is told.
            permission: see `execute`.

        Returns:
            The call with its question, if a person has to be asked; or why it cannot be made.
        """
        call = Call(self, name, actor, profile, permission)
        return call.prepare(arguments, doubt) or call

    def is_barred(self, tool: ToolDefinition, actor: str, profile: ToolProfile | None) -> bool:
        """Return True if every call is refused, whatever a person says: not in the profile, locked or not permitted."""
        if (profile is not None and not profile.has(tool)) or tool.name in self.locks:
            return True
        return self.permission(tool, self.qualified(actor)) is Permission.DENY

    def unknown(self, name: str, tool: ToolDefinition | None, profile: ToolProfile | None) -> ToolResult:
        """Refuse an unknown tool, and name the known ones. A tool that is not granted counts as denied."""
        gone = self.why_gone()
        if gone:
            return ToolResult(str(name), success=False, error=gone, denied=True)
        if tool is not None and profile is not None and profile.in_code.has(tool):
            message = CALLED_FROM_CODE.format(tool=name, function=python_name(tool.own_name))
            return ToolResult(name, success=False, error=message, denied=True)
        there, locks = self.tools().values(), self.locks
        offered = there if profile is None else profile.filter_tools(there)
        names = sorted(each.name for each in offered if each.name not in locks)
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


def _stricter(one: PermissionOf, other: PermissionOf, tool: ToolDefinition, actor: str) -> Permission:
    return max(one(tool, actor), other(tool, actor), key=_STRICTNESS.index)


def _deny(tool: ToolDefinition, actor: str) -> Permission:  # noqa: ARG001 # as a permission is called
    return Permission.DENY
