"""The one way to run a tool.

Whoever calls (a stub, a script, an agent, MCP), a call is resolved, its arguments are validated against the schema,
its permission is checked, and only then the handler runs. Errors come back as data.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import (
    CassetteError,
    FingerprintError,
    OperationExistsError,
    ParameterError,
    RejectedError,
    UndecidedError,
    UnknownToolError,
    nearest,
)
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import TOOL_PREFIX
from tract_jupyter.prompts import (
    CALLED_FROM_CODE,
    CHANGED_SINCE,
    NO_PERMISSION,
    undecided,
)
from tract_jupyter.storage import is_order, what_triggered
from tract_jupyter.toolkit.call_context import call_context, changed_context
from tract_jupyter.toolkit.callers import (
    CHAT,
    USER,
    Permission,
    default_permission,
    question,
    waiting,
)
from tract_jupyter.toolkit.definitions import OWN, ToolDefinition
from tract_jupyter.toolkit.names import namespaces, provider_names, python_name, python_names
from tract_jupyter.toolkit.pendings import PendingToolCall
from tract_jupyter.toolkit.results import ToolResult, result_of
from tract_jupyter.toolkit.savings import Savings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from tract_jupyter.llm import Cassette
    from tract_jupyter.review import ActionChoice, Pending, Reviewer
    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.callers import PermissionOf
    from tract_jupyter.toolkit.definitions import CallDetails
    from tract_jupyter.toolkit.pendings import Approval, ToolQuestion
    from tract_jupyter.toolkit.profiles import ToolProfile

    Function = TypeVar("Function", bound=Callable[..., Any])


_ALLOW: Final = Permission.ALLOW  # looking a member up takes as long as calling a function


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
        self._unguarded = unguarded
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
        tool = self.get(name) if isinstance(name, str) else None
        if approval is not None and (tool is None or not _may_count(approval, tool)):
            why_not = self.why_gone() or CHANGED_SINCE.format(tool=name)
            return ToolResult(name, success=False, error=why_not, denied=True)
        if tool is None or (profile is not None and not profile.has(tool)):
            return self._unknown(name, tool, profile)
        actor, locks = self.qualified(actor), self.locks
        why_not = _locked(tool.name, locks[tool.name]) if tool.name in locks else _not_allowed()
        if why_not:
            return ToolResult(name, success=False, error=why_not, denied=True)
        try:
            values = _validated(tool, arguments)
            _check(self, tool, values, actor, profile, approval)
            permitted = (permission or self.permission)(tool, actor)
            choice = None if approval is None else approval.choice
            _check_level(tool, actor)
            if permitted is not _ALLOW and (approval is None or permitted is not Permission.ASK):
                values, choice = self._permitted(permitted, tool, values, actor, permission)
                _check_level(tool, actor)  # it may have been lowered while a person was asked
        except BaseException as error:  # that is the promise: errors are data
            if is_order(error):
                raise
            return failed(name, error)
        self.count_use(tool.name)

        def make() -> ToolResult:
            with _calling(self, profile, permission):
                return _made(name, tool, values, actor, choice)

        # what a person's own code does with the tract is no traffic
        if self._cassette is None or (tool.is_of_tract and actor == USER):
            return make()
        return self._cassette.call(
            tool.name, values, actor, make,
            write=ToolResult.to_json, read=partial(ToolResult.from_json, name), again=tool.is_of_tract,
        )  # fmt: skip

    def prepare(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        actor: str,
        profile: ToolProfile | None = None,
        doubt: str = "",
        permission: LeveledPermission | None = None,
    ) -> PreparedCall | ToolResult:
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
        tool = self.get(name) if isinstance(name, str) else None
        if tool is None or (profile is not None and not profile.has(tool)):
            return self._unknown(name, tool, profile)
        actor, locks = self.qualified(actor), self.locks
        if tool.name in locks:
            return ToolResult(name, success=False, error=_locked(tool.name, locks[tool.name]), denied=True)
        try:
            values = _validated(tool, arguments)
            _check(self, tool, values, actor, profile)
            permitted = (permission or self.permission)(tool, actor)
            if permitted is Permission.DENY:
                raise _Denied(_why_not(tool, actor, permission))
            shows_doubt = actor != USER and tool.asks_always is not None and tool.asks_always(values)
            asks = permitted is Permission.ASK or (bool(doubt) and not shows_doubt)
            question = self._guarded(tool, values, actor, doubt, permission) if asks else None
            return PreparedCall(tool, values, question)
        except BaseException as error:  # errors are data
            if is_order(error):
                raise
            return failed(name, error)

    def is_barred(self, tool: ToolDefinition, actor: str, profile: ToolProfile | None) -> bool:
        """Return True if every call is refused, whatever a person says: not in the profile, locked or not permitted."""
        if (profile is not None and not profile.has(tool)) or tool.name in self.locks:
            return True
        return self.permission(tool, self.qualified(actor)) is Permission.DENY

    def _unknown(self, name: str, tool: ToolDefinition | None, profile: ToolProfile | None) -> ToolResult:
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
            raise UnknownToolError(self._unknown(name, None, None).error)
        return tool

    def _as_provided(self, name: str) -> ToolDefinition | None:
        tools = self.tools()
        return tools.get(provider_names(tools).get(name, ""))

    def _permitted(
        self,
        permitted: Permission,
        tool: ToolDefinition,
        values: dict[str, Any],
        actor: str,
        permission: LeveledPermission | None,
    ) -> tuple[dict[str, Any], ActionChoice | None]:
        """Return the arguments that a person allowed, with any changes, and what the person chose.

        Raises:
            _Denied: nobody did.
        """
        if permitted is not Permission.ASK:
            raise _Denied(_why_not(tool, actor, permission))
        asked = tool.hash_for(values)
        pending = self._guarded(tool, values, actor, "", permission)
        try:
            if not self.reviewer.granted(pending):
                pending = self._asked(pending)
        except UndecidedError as error:
            raise _Denied(undecided(str(error))) from error
        if pending.status is not PendingStatus.APPROVED:
            raise _Denied(refusal(pending))
        if tool.hash_for(values) != asked:
            raise _Denied(CHANGED_SINCE.format(tool=tool.name))
        return dict(pending.call_arguments), pending.choice

    def _guarded(
        self,
        tool: ToolDefinition,
        values: dict[str, Any],
        actor: str,
        doubt: str,
        permission: LeveledPermission | None,
    ) -> ToolQuestion:
        """Return the question about a call, with what has to be known of the operation that it fires, if any."""
        pending: ToolQuestion = question(tool, values) or self._question(
            tool, values, actor, doubt, permission
        )
        if doubt and isinstance(pending, PendingToolCall):
            pending.is_in_doubt = True
        if pending.fired is not None:
            pending.unguarded = self.home(tool.name)._unguarded(pending.fired.spec.name)  # noqa: SLF001 # its own class
        return pending

    def _asked(self, pending: ToolQuestion) -> ToolQuestion:
        """Have a person decide, about the very same question if it is open; return the decided question."""
        reviewer = self.reviewer
        with reviewer.claimed(pending) as asked:
            asked.unguarded = pending.unguarded
            with waiting(asked):
                reviewer.decide_now(asked)
        return asked

    def _question(
        self,
        tool: ToolDefinition,
        values: dict[str, Any],
        actor: str,
        doubt: str,
        permission: LeveledPermission | None,
    ) -> PendingToolCall:
        return PendingToolCall(
            tool.name,
            values,
            tract=self.top.tract,
            acts_in=self.tract,
            actor=actor,
            triggered_by=what_triggered(),
            parameters=tool.parameters,
            definition_hash=tool.hash_for(values),
            check=partial(
                self._check_unchanged, tool, dict(values), tool.hash_for(values), actor, permission
            ),
            description=tool.description,
            why=f"{self.asker(actor)} wants to make this call. It needs your approval: "
            f"{doubt or f'the tool {_traits(tool)}'}.{_asked_each_time(tool)}",
            details=_details_of(tool, actor),
        )

    def _check_unchanged(
        self,
        tool: ToolDefinition,
        values: dict[str, Any],
        asked: str,
        actor: str,
        permission: LeveledPermission | None,
    ) -> None:
        """Check that an approval is still about what would run.

        Raises:
            FingerprintError: the tool or the permission changed since it was asked about.
        """
        now = self.get(tool.name)
        if now is None or now.hash_for(values) != asked:
            raise FingerprintError(CHANGED_SINCE.format(tool=tool.name))
        locks = self.locks
        if now.name in locks:
            raise FingerprintError(_locked(now.name, locks[now.name]))
        if (permission or self.permission)(now, actor) is Permission.DENY:
            raise FingerprintError(
                f"{_why_not(tool, actor, permission)}: it was withdrawn since the call was asked about"
            )


def _may_count(approval: Approval, tool: ToolDefinition) -> bool:
    """Return True if an approval is of this tool; what it is about besides is known of the arguments alone."""
    return tool.binds is not None or approval.definition_hash == tool.definition_hash


def _asked_each_time(tool: ToolDefinition) -> str:
    doubt = tool.code_doubt
    return doubt and f" A standing approval is not possible, since other code may run later: {doubt}."


def _locked(name: str, reason: str) -> str:
    return (
        f"tool {name!r} is locked{f': {reason}' if reason else ', without a reason'}; nobody can call it now"
    )


def _why_not(tool: ToolDefinition, actor: str, permission: LeveledPermission | None) -> str:
    """Return why a call is not permitted."""
    if permission is not None:
        return permission.why_not(tool, actor)
    return NO_PERMISSION.format(actor=actor, tool=tool.name)


def _check_level(tool: ToolDefinition, actor: str) -> None:
    """Check a call that is made within another one, such as a script's, of somebody who acts at a level.

    Raises:
        _Denied: the level is manual by now.
    """
    acting = call_context().level
    if acting is not None and acting.bars(tool):
        raise _Denied(acting.why_not(tool, actor))


class PreparedCall(NamedTuple):
    """A call that can be made: the tool, its arguments with defaults, and what a person has to be asked before."""

    tool: ToolDefinition
    values: dict[str, Any]
    question: ToolQuestion | None


def _details_of(tool: ToolDefinition, actor: str) -> Callable[[Mapping[str, Any]], CallDetails] | None:
    """Return what gives the details of a call of a tool, for its arguments as they are then."""
    details = tool.details
    return None if details is None else lambda now: details(now, actor)


def _check(
    executor: ToolExecutor,
    tool: ToolDefinition,
    values: dict[str, Any],
    actor: str,
    profile: ToolProfile | None,
    approval: Approval | None = None,
) -> None:
    """Raise what a tool itself says is wrong with a call, before anybody is asked about it; or with its approval."""
    if approval is not None and approval.definition_hash != tool.hash_for(values):
        raise _Denied(CHANGED_SINCE.format(tool=tool.name))
    if tool.check is not None:
        with _calling(executor, profile):
            tool.check(values, actor)


def _calling(
    executor: ToolExecutor, profile: ToolProfile | None, permission: LeveledPermission | None = None
) -> AbstractContextManager[None]:
    """Make the calls of this block those of an executor, with the profile and the level that are given."""
    given = {"executor": executor, "profile": profile, "level": permission}
    return changed_context(**{name: value for name, value in given.items() if value is not None})


def _not_allowed() -> str:
    """Count a tool call of the turn, and return why it may not be made; empty if it may."""
    take_call = call_context().take_call
    return "" if take_call is None else take_call()


def _made(
    name: str,
    tool: ToolDefinition,
    values: dict[str, Any],
    actor: str,
    choice: ActionChoice | None,
) -> ToolResult:
    """Run a tool's handler."""
    try:
        if tool.told_choice:
            output = tool.handler(actor, choice, **values)
        else:
            output = tool.handler(actor, **values) if tool.told_actor else tool.handler(**values)
    except CassetteError:
        raise  # of a call or request within this one: the replay has failed as a whole
    except BaseException as error:  # a `CancelledError`, a `SystemExit`: whatever a tool raises is its result
        if is_order(error):
            raise
        return failed(name, error)
    return result_of(name, output)


class _WrongArguments(Exception):  # noqa: N818 # it leads to a result, and is no error
    """A call with arguments that do not fit."""


class _Denied(Exception):  # noqa: N818 # the same
    """A call that was not allowed."""


def _validated(tool: ToolDefinition, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with defaults.

    Raises:
        _WrongArguments: they do not fit.
    """
    try:
        return tool.validate(arguments)
    except ParameterError as error:
        raise _WrongArguments("; ".join(error.problems)) from None


def failed(name: str, error: BaseException) -> ToolResult:
    """Convert an exception into a result for the caller."""
    if isinstance(error, _WrongArguments):
        return ToolResult(name, success=False, error=str(error))
    if isinstance(error, _Denied):
        return ToolResult(name, success=False, error=str(error), cause=error.__cause__, denied=True)
    told = f"{type(error).__name__}: {_words(error)}"
    if isinstance(error, UndecidedError):
        told = undecided(told)
    return ToolResult(name, success=False, error=told, cause=error, denied=isinstance(error, RejectedError))


def _words(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it tried to end the process (exit code {error.code!r})"
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 # its own __str__ may raise anything
        return "an error that cannot be shown"


def _traits(tool: ToolDefinition) -> str:
    traits = tool.traits
    words = ["may destroy something" if traits.destructive else "writes"]
    return " and ".join([*words, *(["reaches outside"] if traits.open_world else [])])


def refusal(pending: Pending) -> str:
    """Return why something was not approved, for whoever asked for it."""
    if pending.status is PendingStatus.EXPIRED:
        return f"nobody decided within {pending.timeout:g} s"
    return pending.rejection_reason or "it was rejected, without a reason"
