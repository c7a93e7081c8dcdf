"""The one way to run a tool.

Whoever calls (a stub, a script, an agent, MCP), a call is resolved, its arguments are validated against the schema,
its permission is checked, and only then the handler runs. Errors come back as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import (
    FingerprintError,
    OperationExistsError,
    ParameterError,
    UndecidedError,
    nearest,
)
from tract_jupyter.hooks.builtin.tool_call import PendingToolCall
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.toolkit.calling import waiting
from tract_jupyter.toolkit.names import PREFIX, python_name, python_names
from tract_jupyter.toolkit.namespaces import namespaces
from tract_jupyter.toolkit.permissions import USER, Permission, default_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.toolkit.definitions import ToolDefinition

    Policy = Callable[[ToolDefinition, str], Permission]


_ALLOW: Final = Permission.ALLOW  # looking a member up takes as long as calling a function


class ToolResult(NamedTuple):
    """What came of a call.

    `output` is the handler's own value; `error` says what was wrong and what is allowed; `cause` is the exception,
    if there was one; `denied` tells a refusal from a failure.
    """

    tool_name: str
    success: bool
    output: Any = None
    error: str = ""
    cause: BaseException | None = None
    denied: bool = False

    def __str__(self) -> str:
        return str(self.output) if self.success else f"Error: {self.error}"


class ToolExecutor:
    """Runs tools by name.

    Args:
        tract: where pendings of gated calls belong.
        fixed: the tools that are always there.
        live: gives the tools that come and go, by name; asked at every call, so nothing is ever stale.
        policy: decides about each call.
    """

    def __init__(
        self,
        tract: Any,
        fixed: Iterable[ToolDefinition],
        live: Callable[[], Mapping[str, ToolDefinition]],
        policy: Policy = default_policy,
    ) -> None:
        self._tract = tract
        self._fixed = {tool.name: tool for tool in fixed}
        self._live = live
        self.policy = policy
        self._spaces: tuple[object, frozenset[str]] = (None, frozenset())

    def tools(self) -> dict[str, ToolDefinition]:
        """All tools that can be called now, by name."""
        return {**self._fixed, **self._live()}

    def add(self, tool: ToolDefinition) -> None:
        """Make a tool of the user's own callable.

        Raises:
            OperationExistsError: a tool has that name, or would have the same name in Python.
        """
        if self.get(tool.name) is not None:
            raise OperationExistsError(f"there is a tool {tool.name!r} already; choose another name")
        if python_name(tool.name).startswith(PREFIX):
            raise OperationExistsError(
                f"{tool.name!r}: names with {PREFIX!r} are those of operations; choose another"
            )
        space = next(
            (s for s in self.namespaces() if s in {python_name(tool.name), tool.name.partition(".")[0]}), None
        )
        if space is not None:
            raise OperationExistsError(
                f"{tool.name!r}: tools.{space} holds the tools of an MCP server; choose another"
            )
        python_names([*self._fixed, tool.name])
        self._fixed[tool.name] = tool

    def namespaces(self) -> frozenset[str]:
        """The names that stand for several tools: `tools.<namespace>.<tool>`."""
        live = self._live()
        if live is not self._spaces[0]:
            self._spaces = live, namespaces(live)
        return self._spaces[1]

    def check_namespace(self, name: str) -> None:
        """Check that no tool has a name, or one within it.

        Raises:
            OperationExistsError: one has.
        """
        for tool in self.tools().values():
            if not tool.namespace and name in {python_name(tool.name), tool.name.partition(".")[0]}:
                raise OperationExistsError(
                    f"there is a tool {tool.name!r} already; choose another name than {name!r}"
                )

    def get(self, name: str) -> ToolDefinition | None:
        """The tool of that name, if it can be called now."""
        return self._fixed.get(name) or self._live().get(name)

    def execute(
        self, name: str, arguments: Mapping[str, Any], *, actor: str = USER, is_approved: bool = False
    ) -> ToolResult:
        """Call a tool. Never raises an `Exception`: what went wrong is in the result.

        Args:
            name: the tool.
            arguments: what it is called with.
            actor: who calls.
            is_approved: this very call was decided about already, and is not asked about again. What the policy
                denies stays denied.
        """
        tool = self.get(name)
        if tool is None:
            return self._unknown(name)
        try:
            values = tool.parameters.validate(arguments)
            permission = self.policy(tool, actor)
            if permission is not _ALLOW and not (is_approved and permission is Permission.ASK):
                values = self._permitted(permission, tool, values, actor)
            output = tool.handler(actor, **values) if tool.told_actor else tool.handler(**values)
        except _Denied as denied:
            return ToolResult(name, success=False, error=str(denied), cause=denied.__cause__, denied=True)
        except ParameterError as error:
            return ToolResult(name, success=False, error="; ".join(error.problems))
        except Exception as error:  # noqa: BLE001 # that is the promise: errors are data
            reason = str(error) or type(error).__name__
            return ToolResult(name, success=False, error=f"{type(error).__name__}: {reason}", cause=error)
        return _result(name, output)

    def _unknown(self, name: str) -> ToolResult:
        known = self.tools()
        message = f"no tool {name!r}.{nearest(str(name), known)} Tools: {', '.join(sorted(known))}"
        return ToolResult(name, success=False, error=message)

    def _permitted(
        self, permission: Permission, tool: ToolDefinition, values: dict[str, Any], actor: str
    ) -> dict[str, Any]:
        """The arguments that a person allowed, or changed before that.

        Raises:
            _Denied: nobody did.
        """
        if permission is not Permission.ASK:
            raise _Denied(f"the policy denies {tool.name!r} to {actor}")
        pending = PendingToolCall(
            tool.name,
            values,
            tract=self._tract,
            actor=actor,
            parameters=tool.parameters,
            definition_hash=tool.definition_hash,
            check=lambda: self._check_unchanged(tool, actor),
            description=tool.description,
            why=f"{actor} wants to make this call. The policy asks about it: the tool {_traits(tool)}.",
        )
        try:
            if not self._tract.reviewer.granted(pending):
                with waiting():
                    self._tract.reviewer.decide_now(pending)
        except UndecidedError as error:
            raise _Denied(str(error)) from error
        if pending.status is not PendingStatus.APPROVED:
            raise _Denied(refusal(pending))
        return pending.fields

    def _check_unchanged(self, tool: ToolDefinition, actor: str) -> None:
        """Check that an approval is still about what would run.

        Raises:
            FingerprintError: the tool or the policy changed since it was asked about.
        """
        now = self.get(tool.name)
        if now is None or now.definition_hash != tool.definition_hash:
            raise FingerprintError(f"tool {tool.name!r} was changed or removed since; make the call again")
        if self.policy(now, actor) is Permission.DENY:
            raise FingerprintError(f"the policy denies {tool.name!r} to {actor} by now")


class _Denied(Exception):  # noqa: N818 # it leads to a result, and is no error
    """A call that was not allowed."""


def _traits(tool: ToolDefinition) -> str:
    traits = tool.traits
    words = ["may destroy something" if traits.destructive else "writes"]
    return " and ".join([*words, *(["reaches outside"] if traits.open_world else [])])


def refusal(pending: Pending) -> str:
    """Why something was not approved, for whoever asked for it."""
    if pending.status is PendingStatus.EXPIRED:
        return f"nobody decided within {pending.timeout:g} s"
    return pending.rejection_reason or "it was turned down, without a reason"


def _result(name: str, output: Any) -> ToolResult:
    if isinstance(output, ToolResult):
        return output
    if isinstance(output, dict) and len(output) == 1 and "error" in output:  # many handlers report failure so
        return ToolResult(name, success=False, error=str(output["error"]))
    return ToolResult(name, success=True, output=output)
