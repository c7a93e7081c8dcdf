"""Actions of policies: a policy calls a tool, or waits for a decision about the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tract_jupyter.exceptions import ToolExecutionError, nearest
from tract_jupyter.models import check_text, plain
from tract_jupyter.prompts import NO_PERMISSION
from tract_jupyter.review.builtin import Field
from tract_jupyter.toolkit.callers import Permission
from tract_jupyter.toolkit.pendings import Approval, ToolPending
from tract_jupyter.toolkit.stubs import ToolBridge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.review import ActionChoice, Firing, Unhandled
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor


class PendingPolicy(ToolPending):
    """Call a tool for a policy.

    A standing approval covers the tool with these values.
    """

    kind = "policy"
    name = "policy"
    label = "Policy"
    about: ClassVar[Mapping[str, str]] = {
        "policy_name": "The policy.",
        "action_type": "The tool that it wants to call.",
        "action_params": "The arguments of the call.",
        "reason": "The reason.",
        "definition_hash": "The hash of the tool at the time of the request.",
    }
    policy_name = Field()
    action_type = Field()
    action_params = Field()
    reason = Field()
    in_view = frozenset({"action_type", "action_params"})
    tool_field = "action_type"
    arguments_field = "action_params"
    again = "apply the policy again"

    @property
    def title(self) -> str:
        """The title, with the names of policy and tool."""
        return f"Policy {self.policy_name}: {self.action_type}"

    def summary(self) -> str:
        """Return the planned action in one sentence."""
        return f"The policy {self.policy_name!r} wants to call the tool {self.action_type!r}."

    def why(self) -> str:
        """Return the policy's reason, with a text about the operation that the call fires."""
        return f"{self.reason or 'The policy gives no reason.'} {self.about_operation()}".rstrip()


class PolicyCalls:
    """The permitted calls of policies."""

    def __init__(self, tract: object, executor: ToolExecutor, firing: Firing) -> None:
        self._tract = tract
        self._executor = executor
        self._firing = firing

    def apply(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
        permission: Permission | None = None,
        unhandled: Callable[[PendingPolicy], object] | None = None,
    ) -> Any:
        """Call a tool for a policy, and return its result.

        A handler on `policy` may decide. Otherwise, the executor's permission for the actor `policy:<name>` decides. It
        allows or denies the call, or it requires a standing approval or the user's approval. `permission` replaces the
        executor's permission if the level of autonomy differs from it; it cannot allow a call that the executor denies.
        `unhandled` replaces it if no handler decides, and may raise an exception.
        """
        tool, fields = self._planned_call(policy_name, action_type, action_params, reason)
        executor_permission = self._executor.permission(tool, policy_actor(policy_name))
        permission = (
            executor_permission
            if permission is None or executor_permission is Permission.DENY
            else permission
        )
        if permission is Permission.ALLOW and not self._firing.bus.listens("policy"):
            return self._call(fields)
        pending = self._pending(fields)
        return self._firing.result(pending, unhandled=unhandled or _default(permission, pending))

    def propose(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
    ) -> PendingPolicy:
        """Return a request whose approval has the effect of `apply`, with the same arguments.

        The request stays in the inbox until it is decided.
        """
        _, fields = self._planned_call(policy_name, action_type, action_params, reason)
        return self.keep(self._pending(fields))

    def keep(self, pending: PendingPolicy) -> PendingPolicy:
        """Add a request to the inbox, or return the identical open request."""
        return self._firing.keep(pending)

    def tool(self, action_type: str, action_params: Mapping[str, Any]) -> ToolDefinition:
        """Return the tool for a policy's planned call."""
        tool = self._tool_of(action_type, action_params)
        tool.parameters.validate(action_params)
        return tool

    @property
    def has_handlers(self) -> bool:
        """True if handlers decide about calls of policies."""
        return self._firing.bus.listens("policy")

    def is_decided_by_handlers(self, tool: ToolDefinition) -> bool:
        """Return True if handlers decide about calls of policies, or about the tool's effect."""
        return self.has_handlers or self._firing.bus.listens(tool.name)

    def _planned_call(
        self, policy_name: str, action_type: str, action_params: Mapping[str, Any] | None, reason: str
    ) -> tuple[ToolDefinition, dict[str, Any]]:
        """Return the tool for a policy's planned call, and the checked fields of the request."""
        check_text(policy_name, "policy_name")
        values = action_params if action_params is not None else {}
        tool = self._tool_of(action_type, values)
        params = plain(tool.parameters.validate(values))
        return tool, {
            "policy_name": policy_name,
            "action_type": tool.name,
            "action_params": params,
            "reason": check_text(reason, "reason"),
            "definition_hash": tool.hash_for(params),
        }

    def _pending(self, fields: dict[str, Any]) -> PendingPolicy:
        name = fields["policy_name"]
        return self.restored(fields, triggered_by=f"policy {name}", actor=policy_actor(name))

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingPolicy:
        """Return the request for a policy's call, built from its fields."""

        def run(fields: dict[str, Any]) -> Any:
            return self._call(fields, pending.choice)

        pending = PendingPolicy(fields, tract=self._tract, run=run, **options)
        return pending

    def _call(self, fields: dict[str, Any], choice: ActionChoice | None = None) -> Any:
        """Call the tool. The caller has checked that the call is approved."""
        bridge = ToolBridge(self._executor, actor=policy_actor(fields["policy_name"]))
        approval = Approval(fields["definition_hash"], choice)
        return bridge.call(fields["action_type"], fields["action_params"], approval=approval)

    def _tool_of(self, name: str, values: Mapping[str, Any]) -> ToolDefinition:
        tool = self._executor.get(name)
        if tool is None:
            known = self._executor.tools()
            raise ToolExecutionError(
                str(name), values,
                f"there is no such tool.{nearest(str(name), known)} Tools: {', '.join(sorted(known))}",
            )  # fmt: skip
        return tool


def policy_actor(policy_name: str) -> str:
    """Return the actor of a policy's calls."""
    return f"policy:{policy_name}"


def _default(permission: Permission, pending: PendingPolicy) -> Unhandled:
    """Return the outcome for a request that no handler decides."""
    if permission is Permission.ALLOW:
        return "approve"
    if permission is Permission.ASK:
        return "ask"
    return lambda p: p.reject(NO_PERMISSION.format(actor=pending.actor, tool=pending.action_type))
