"""Doing what a policy wants, as far as it is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ToolExecutionError, nearest
from tract_jupyter.facade.gated import Gated
from tract_jupyter.facade.tooling import Tooling
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.checks import check_text
from tract_jupyter.toolkit.calling import Permission
from tract_jupyter.toolkit.policy import PendingPolicy
from tract_jupyter.toolkit.stubs import ToolBridge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.hooks.firing import ActionChoice, Unhandled
    from tract_jupyter.toolkit.definitions import ToolDefinition


class Applying(Tooling, Gated):
    """The part of `Tract` that applies policies."""

    def apply_policy(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
    ) -> Any:
        """Call a tool because a policy says so, and return its result.

        A handler on `policy` may decide. Otherwise the executor's permission does, for the actor `policy:<name>`: the
        call is allowed, or denied, or a standing approval or a person is asked for.

        Args:
            policy_name: the policy.
            action_type: the tool's name.
            action_params: what it is called with.
            reason: why, for whoever decides.

        Raises:
            ParameterError: the values do not fit the tool.
            RejectedError: it was turned down.
            UndecidedError: it waits in the inbox.
            ToolExecutionError: there is no such tool, or its call failed.
        """
        tool, fields = self._wanted(policy_name, action_type, action_params, reason)
        permission = self.executor.permission(tool, _actor(policy_name))
        if permission is Permission.ALLOW and not self._is_hooked("policy"):
            return self._call_for_policy(fields)
        pending = self._policy_pending(fields)
        return self._decided(pending, unhandled=_default(permission, pending))

    def propose_policy(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
    ) -> PendingPolicy:
        """Return the pending whose approval does what `apply_policy` would; the arguments are the same.

        It is in the inbox until it is decided.
        """
        _, fields = self._wanted(policy_name, action_type, action_params, reason)
        return self._firing.keep(self._policy_pending(fields))

    def _wanted(
        self, policy_name: str, action_type: str, action_params: Mapping[str, Any] | None, reason: str
    ) -> tuple[ToolDefinition, dict[str, Any]]:
        """The tool that a policy wants to call, and the checked fields of that."""
        check_text(policy_name, "policy_name")
        values = action_params if action_params is not None else {}
        tool = self._tool_of(action_type, values)
        return tool, {
            "policy_name": policy_name,
            "action_type": tool.name,
            "action_params": plain(tool.parameters.validate(values)),
            "reason": check_text(reason, "reason"),
            "definition_hash": tool.definition_hash,
        }

    def _policy_pending(self, fields: dict[str, Any]) -> PendingPolicy:
        name = fields["policy_name"]
        return self._restored_policy(fields, triggered_by=f"policy {name}", actor=_actor(name))

    def _restored_policy(self, fields: dict[str, Any], **options: Any) -> PendingPolicy:
        def run(fields: dict[str, Any]) -> Any:
            return self._call_for_policy(fields, pending.choice)

        pending = PendingPolicy(fields, tract=self, run=run, **options)
        return pending

    def _call_for_policy(self, fields: dict[str, Any], choice: ActionChoice | None = None) -> Any:
        """Call the tool; whoever decides such things has said that it may be called."""
        bridge = ToolBridge(self.executor, actor=_actor(fields["policy_name"]))
        return bridge.call(fields["action_type"], fields["action_params"], is_approved=choice or True)

    def _tool_of(self, name: str, values: Mapping[str, Any]) -> ToolDefinition:
        tool = self.executor.get(name)
        if tool is None:
            known = self.executor.tools()
            raise ToolExecutionError(
                str(name), values,
                f"there is no such tool.{nearest(str(name), known)} Tools: {', '.join(sorted(known))}",
            )  # fmt: skip
        return tool


def _actor(policy_name: str) -> str:
    return f"policy:{policy_name}"


def _default(permission: Permission, pending: PendingPolicy) -> Unhandled:
    """What becomes of it if no handler decides."""
    if permission is Permission.ALLOW:
        return "approve"
    if permission is Permission.ASK:
        return "ask"
    return lambda p: p.reject(f"{pending.actor} has no permission to call {pending.action_type!r}")
