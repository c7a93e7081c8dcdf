"""The one way to run a tool.

Whoever calls (a stub, a script, an agent, MCP), a call is resolved, its arguments are validated against the schema,
its permission is checked, and only then the handler runs. Errors come back as data.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import (
    OperationExistsError,
    UnknownToolError,
    nearest,
)
from tract_jupyter.operations import TOOL_PREFIX
from tract_jupyter.prompts import (
    CALLED_FROM_CODE,
)
from tract_jupyter.storage import is_order
from tract_jupyter.toolkit.call import Call, failed
from tract_jupyter.toolkit.callers import (
    CHAT,
    USER,
    Permission,
    default_permission,
)
from tract_jupyter.toolkit.definitions import OWN, ToolDefinition
from tract_jupyter.toolkit.names import namespaces, provider_names, python_name, python_names
from tract_jupyter.toolkit.results import ToolResult
from tract_jupyter.toolkit.savings import Savings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from tract_jupyter.llm import Cassette
    from tract_jupyter.review import Reviewer
    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.callers import PermissionOf
    from tract_jupyter.toolkit.pendings import Approval
    from tract_jupyter.toolkit.profiles import ToolProfile

    Function = TypeVar("Function", bound=Callable[..., Any])


class ToolExecutor:
    """The executor of tools: it finds, checks, asks and calls.

    Args:
        tract: where pendings of gated calls belong.
        reviewer: has persons decide about them.
        unguarded: tells why a person is asked instead of an operation's handlers; empty if these decide.
        fixed: the tools that are always there.
        live: gives the tools that come and go, by name; asked at every call, so nothing is ever stale.
        permission: tells whether an actor may call a tool, must ask first, or may not.
        cassette: records calls, or serves what was recorded.

    Attributes:
        tract: the tract whose tools these are, which its context tools act on.
        agent: the actor of the model that acts in the tract, where it stands below another one; empty at the top.
        result_bytes: how long the JSON of a result may be that a toolset shows a model. A person's own call gives
            the handler's own value, whatever it is.
        uses: how often each tool was run since this was made, by name.
        savings: what scripts saved since then.
        unguarded: see `Args`.
    """

    agent = ""

    def __init__(
        self,
        tract: Any,
        reviewer: Reviewer,
        unguarded: Callable[[str], str],
        fixed: Iterable[ToolDefinition],
        live: Callable[[], Mapping[str, ToolDefinition]],
        permission: PermissionOf = default_permission,
        cassette: Cassette | None = None,
    ) -> None:
        self.tract = tract
        self._reviewer = reviewer
        self.unguarded = unguarded
        self._fixed = {tool.name: tool for tool in fixed}
        self._live = live
        self._permission = permission
        self._cassette = cassette
        self.result_bytes = 1_000_000
        self.uses: Counter[str] = Counter()
        self.savings = Savings()
        self._locks: dict[str, str] = {}
        self._spaces: tuple[object, frozenset[str]] = (None, frozenset())

    @property
    def reviewer(self) -> Reviewer:
        """The part that has persons decide about its calls."""
        return self._reviewer

    @property
    def permission(self) -> PermissionOf:
        """The function that says whether an actor may call a tool, must ask first, or may not."""
        return self._permission

    @permission.setter
    def permission(self, permission: PermissionOf) -> None:
        """Set it."""
        self._permission = permission

    @property
    def top(self) -> ToolExecutor:
        """The executor that stands below no other one: questions about calls are asked, and kept, in its tract."""
        return self

    def why_gone(self) -> str:
        """Return why nothing can be called any more; empty if something can."""
        return ""

    def home(self, name: str) -> ToolExecutor:  # noqa: ARG002 # of one that has all tools itself
        """Return the executor in whose tract a tool lives: for what fires an operation, that of the operation."""
        return self

    def stands_below(self, other: object) -> bool:  # noqa: ARG002 # the same
        """Return True if some of the tools are those of another executor."""
        return False

    def qualified(self, actor: str) -> str:
        """Return the actor that whoever is called so here is for permission, questions and grants."""
        return actor

    def asker(self, actor: str) -> str:
        """Return who an actor is, in words, for a person who is asked."""
        return "The model" if actor == CHAT else actor

    def count_use(self, name: str) -> None:
        """Count a call of a tool."""
        self.uses[name] += 1

    def count_savings(self, savings: Savings) -> None:
        """Add what a script has saved."""
        self.savings += savings

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
        """Return all current tools by name."""
        return {**self._fixed, **self._live()}

    def add(self, tool: ToolDefinition, *, replace: bool = False) -> None:
        """Add a tool of the user's own.

        Args:
            tool: the tool.
            replace: let it take the place of one of that name that the user brought; never that of another.

        Raises:
            OperationExistsError: a tool has that name, or would have the same name in Python.
        """
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
        python_names([*self._others(), tool.name])
        self._fixed[tool.name] = tool

    def _others(self) -> Iterable[str]:
        """Return the names that a new tool's must differ from, also in Python; those of live tools are apart."""
        return self._fixed

    def remove_tool(self, name: str) -> None:
        """Remove one of the user's own tools.

        Raises:
            UnknownToolError: no tool has that name.
            OperationExistsError: it is not the user's own.
        """
        tool = self._known(name)
        if tool.owner != OWN:
            raise OperationExistsError(
                f"{tool.name!r} is not a tool of your own (owner: {tool.owner}); lock it instead"
            )
        del self._fixed[tool.name]

    def namespaces(self) -> frozenset[str]:
        """Return the names that stand for several tools: `tools.<namespace>.<tool>`."""
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
        return self._fixed.get(name) or self._live().get(name)

    @property
    def locks(self) -> Mapping[str, str]:
        """The locked tools, each with the reason."""
        return MappingProxyType(self._locks)

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
        """
        # a tool may be gone, and its lock still there
        locked = name if name in self._locks else self._known(name).name
        self._locks.pop(locked, None)

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
        call = Call(self, name, actor, profile, permission, approval)
        try:
            call.find()
            call.count()
            if call.permit(arguments) is Permission.ASK and approval is None:
                call.ask()
        except BaseException as error:  # that is the promise: errors are data
            if is_order(error):
                raise
            return failed(name, error)
        return call.make(self._cassette)

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
        try:
            call.find()
            permitted = call.permit(arguments)
            if permitted is Permission.ASK or (doubt and not call.shows_doubt()):
                call.question = call.request(doubt)
        except BaseException as error:  # errors are data
            if is_order(error):
                raise
            return failed(name, error)
        return call

    def is_barred(self, tool: ToolDefinition, actor: str, profile: ToolProfile | None) -> bool:
        """Return True if every call is refused, whatever a person says: not in the profile, locked or not permitted."""
        if (profile is not None and not profile.has(tool)) or tool.name in self.locks:
            return True
        return self.permission(tool, self.qualified(actor)) is Permission.DENY

    def unknown(self, name: str, tool: ToolDefinition | None, profile: ToolProfile | None) -> ToolResult:
        """Refuse an unknown tool, and name the known ones. What only the profile lacks counts as denied."""
        if tool is not None and profile is not None and profile.in_code.has(tool):
            message = CALLED_FROM_CODE.format(tool=name, function=python_name(tool.own_name))
            return ToolResult(name, success=False, error=message, denied=True)
        there = self.tools().values()
        offered = there if profile is None else profile.filter_tools(there)
        locks = self.locks
        names = [each.name for each in offered if each.name not in locks]
        of = "" if profile is None else f" in the profile {profile.name!r}"
        message = f"no tool {name!r}{of}.{nearest(str(name), names)} Tools: {', '.join(sorted(names))}"
        return ToolResult(str(name), success=False, error=message, denied=tool is not None)

    def _known(self, name: str) -> ToolDefinition:
        tool = self.get(name) if isinstance(name, str) else None
        if tool is None:
            raise UnknownToolError(self.unknown(name, None, None).error)
        return tool

    def _as_provided(self, name: str) -> ToolDefinition | None:
        tools = self.tools()
        return tools.get(provider_names(tools).get(name, ""))
