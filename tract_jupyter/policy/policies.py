"""`t.policies`: adds policies, turns them on and off, and lists their actions."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, TractError, nearest
from tract_jupyter.models import AutonomyLevel, brief_repr, canonical_json, check_limit, repr_of_whole
from tract_jupyter.policy.builtin.base import BuiltinPolicy
from tract_jupyter.policy.evaluator import OUTCOMES, PolicyEvaluator
from tract_jupyter.policy.protocols import ORCHESTRATE, check_name, check_policy, wanted_of
from tract_jupyter.policy.saved import create_policy, settings_json
from tract_jupyter.policy.view import PolicyView
from tract_jupyter.storage import StoredPolicy, from_text, read_dict
from tract_jupyter.toolkit import Permission, policy_actor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from tract_jupyter.policy.protocols import Policy, PolicyAction
    from tract_jupyter.policy.saved import Slot
    from tract_jupyter.review.builtin import BuiltinPending
    from tract_jupyter.storage import Event
    from tract_jupyter.toolkit import PendingPolicy


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy, for display.

    Attributes:
        name: the policy's name.
        type: the type of a built-in policy, otherwise its class.
        fires_on: the moments of its evaluation.
        priority: lower values are evaluated first.
        is_on: True if it is evaluated.
        last_fired: the time of its last firing, or None.
        last_outcome: the outcome of that firing.
        missing: the reason why it cannot be evaluated. Empty if it can.
        config: the settings of a built-in policy.
    """

    name: str
    type: str
    fires_on: tuple[str, ...]
    priority: int
    is_on: bool
    last_fired: datetime | None
    last_outcome: str
    missing: str
    config: Mapping[str, Any]

    @property
    def state(self) -> str:
        """`on`, `off` or `missing`."""
        return "missing" if self.missing else "on" if self.is_on else "off"


class PolicyList(list[PolicyRow]):
    """Policies by priority, displayed as a table."""

    @repr_of_whole
    def __repr__(self) -> str:
        lines = [
            f"{row.name}  {row.type}, on {'/'.join(row.fires_on) or '?'}, priority {row.priority}: {row.state}"
            f"{f', last {row.last_outcome} {row.last_fired:%Y-%m-%d %H:%M}' if row.last_fired else ''}"
            f"{f' ({row.missing})' if row.missing else ''}"
            for row in self
        ]
        return "\n".join(lines) or "no policies; tract.policies.add('compress') adds one"


class Preview(NamedTuple):
    """The action that a policy would request now. `action` is empty if there is none."""

    name: str
    action: str
    params: Mapping[str, Any]
    reason: str
    would: str
    """`nothing`, `do it`, `propose it`, `tell it`, or the reason why it does nothing."""


class Policies:
    """The policies of one tract: `t.policies`.

    Args:
        evaluator: evaluates them and executes their actions.
    """

    def __init__(self, evaluator: PolicyEvaluator) -> None:
        self.evaluator = evaluator
        evaluator.reload()

    @repr_of_whole
    def __repr__(self) -> str:
        rows = self.list()
        on = sum(row.state == "on" for row in rows)
        paused = ", paused" if self.evaluator.is_paused else ""
        return f"<Policies: {on} on of {len(rows)}{paused}>\n{rows!r}"

    # --- management

    def add(self, policy: Policy | str, *, name: str = "", on: bool = True, **config: Any) -> str:
        """Add a policy, and return its name. It replaces a policy with the same name.

        A built-in policy is stored with its settings, and loaded again with the tract. For your own policy, the store
        has the name and the class, but not the code. Add it in each process. Until then it is listed as missing.

        Args:
            policy: the type of a built-in policy (`compress`, `pin`, `branch`, `merge`, `rebase`, `gc`, `archive`,
                `orchestrate`), or an object with a name and a method `evaluate(view)`.
            name: the name of a built-in policy. The default is `auto-<type>`.
            on: False to add it turned off.
            **config: the settings of a built-in policy.

        Raises:
            ContentError: it is not a policy, or a setting is invalid.
            StoreError: storing failed.
            TrustError: signing failed.
        """
        if isinstance(policy, str):
            instance: Any = create_policy(policy, name, config)
        else:
            if config or name:
                raise ContentError(
                    "settings and a name are for built-in policies; set them on your policy object instead"
                )
            instance = policy
        check_policy(instance)
        if not isinstance(instance, BuiltinPolicy):
            self.evaluator.objects[instance.name] = instance
        self._save(instance.name, settings_json(instance, is_on=on), "added", self._beginning(instance))
        return str(instance.name)

    def remove(self, name: str) -> None:
        """Delete a policy and the memory of its firings.

        Raises:
            ContentError: there is no policy with this name.
        """
        self._slot(name)
        with self.evaluator.repository.database.write() as connection:
            self.evaluator.store.rows.delete(connection, name)
            self.evaluator.store.note(connection, "removed", {"name": name})
        self.evaluator.objects.pop(name, None)
        self.evaluator.reload()

    def on(self, name: str) -> None:
        """Turn a policy on. For a policy that another user added, this signs its settings as yours.

        Raises:
            ContentError: there is no policy with this name, or its settings are invalid.
        """
        self._turn(name, is_on=True)

    def off(self, name: str) -> None:
        """Turn a policy off in all processes.

        Raises:
            ContentError: there is no policy with this name.
        """
        self._turn(name, is_on=False)

    def pause(self) -> None:
        """Evaluate no policy in this process until `resume`."""
        self.evaluator.is_paused = True

    def resume(self) -> None:
        """Evaluate policies again. The next moment covers the commits since `pause`."""
        self.evaluator.is_paused = False
        self.evaluator.watch.new = None

    @property
    def is_paused(self) -> bool:
        """True after `pause`."""
        return self.evaluator.is_paused

    def suspended(self) -> AbstractContextManager[None]:
        """Return a context manager that suspends all policies in all threads."""
        return self.evaluator.suspend()

    def list(self) -> PolicyList:
        """Return all policies by priority, including those that are off or missing."""
        self.evaluator.reload()
        slots = sorted(self.evaluator.slots.values(), key=lambda one: (one.priority, one.name))
        return PolicyList([_row(slot) for slot in slots])

    def preview(self) -> Sequence[Preview]:
        """Return the action that each enabled policy would request now.

        Nothing changes, and there are no requests to the user or to models. Policies for new commits see all commits
        since their last evaluation.
        """
        self.evaluator.reload()
        previews: Sequence[Preview] = []
        for slot in sorted(self.evaluator.slots.values(), key=lambda one: (one.priority, one.name)):
            if slot.is_on and slot.policy is not None:
                previews = [*previews, *self._preview(slot)]
        return previews

    def log(self, limit: int = 100) -> Sequence[Event]:
        """Return the firings and failures, newest first: events `policy.executed`, `policy.proposed`, ...

        Raises:
            ContentError: the limit is not a whole number.
        """
        limit = check_limit(limit)
        types = {f"policy.{outcome}" for outcome in OUTCOMES}
        events = self.evaluator.repository.newest_events("policy.*", 10 * limit + 100)
        return [event for event in events if event.event_type in types][:limit]

    # --- actions

    def apply(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
        permission: Permission | None = None,
    ) -> Any:
        """Call a tool for a policy, and return its result. See `PolicyCalls.apply`."""
        return self.evaluator.calls.apply(
            policy_name, action_type, action_params, reason=reason, permission=permission
        )

    def propose(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
    ) -> PendingPolicy:
        """Return the pending whose approval does the same as `apply`. It stays in the inbox until its decision."""
        return self.evaluator.calls.propose(policy_name, action_type, action_params, reason=reason)

    def restored(self, fields: dict[str, Any], **options: Any) -> BuiltinPending:
        """Rebuild the pending of a policy's call from its fields."""
        return self.evaluator.calls.restored(fields, **options)

    # ---

    def _slot(self, name: str) -> Slot:
        self.evaluator.reload()
        slot = self.evaluator.slots.get(name) if isinstance(name, str) else None
        if slot is None:
            known = list(self.evaluator.slots)
            there = (
                f"There are {', '.join(known)}" if known else "There are none; tract.policies.add adds one"
            )
            raise ContentError(f"there is no policy {brief_repr(name)}.{nearest(str(name), known)} {there}")
        return slot

    def _turn(self, name: str, *, is_on: bool) -> None:
        slot = self._slot(name)
        settings = read_dict(slot.row.policy_json)
        config = settings.get("config")
        if isinstance(config, dict):
            create_policy(str(settings.get("type")), check_name(name), config)
        self._save(name, canonical_json({**settings, "on": is_on}), "on" if is_on else "off")

    def _beginning(self, policy: Any) -> str:
        """Return the initial memory of a new policy. Its counters start now."""
        fired = getattr(policy, "fired", None)
        if not callable(fired):
            return "{}"
        view = PolicyView(self.evaluator.tract, self.evaluator.watch, "turn")
        fired(view)
        return canonical_json({"own": view.memory})

    def _save(self, name: str, policy_json: str, what: str, memory_json: str = "{}") -> None:
        row = self.evaluator.store.sign(StoredPolicy(name, policy_json, "", memory_json, 0))
        with self.evaluator.repository.database.write() as connection:
            self.evaluator.store.put(connection, row, what, {"name": name, "policy": policy_json})
        self.evaluator.watch.new = None
        self.evaluator.reload()

    def _preview(self, slot: Slot) -> Sequence[Preview]:
        actions: Sequence[PolicyAction] = []
        try:
            for moment in slot.moments:
                view = PolicyView(self.evaluator.tract, self.evaluator.watch, moment)
                view.memory = copy.deepcopy(slot.own)
                with self.evaluator.repository.database.read():
                    result = copy.deepcopy(slot.policy).evaluate(view)
                actions = [*actions, *(one for one in wanted_of(result) if one not in actions)]
        except Exception as error:  # noqa: BLE001 # a policy may raise anything
            return [Preview(slot.name, "", {}, "", f"its evaluation failed: {error}")]
        if not actions:
            return [Preview(slot.name, "", {}, "", "nothing")]
        return [
            Preview(slot.name, one.action_type, one.params, one.reason, self._would(slot, one))
            for one in actions
        ]

    def _would(self, slot: Slot, action: PolicyAction) -> str:
        if slot.is_stopped(action.about, action.condition):
            return "nothing: it was executed, rejected or reported, and nothing has changed since"
        if action.about in slot.open:
            return "nothing: its proposal is in the inbox, or already decided"
        level = self.evaluator.ceiling().effective(action.autonomy)
        if level is AutonomyLevel.MANUAL:
            return "tell it"
        if action.action_type == ORCHESTRATE:
            is_there = self.evaluator.orchestrate is not None
            why = self.evaluator.unfinished() if is_there else "no orchestrator is available"
            return f"nothing: {why}" if why else "do it"
        try:
            tool = self.evaluator.calls.tool(action.action_type, action.params)
            permission = self.evaluator.ceiling().permission(tool, level, policy_actor(slot.name))
        except TractError as error:
            return f"fail: {error}"
        return {Permission.ALLOW: "do it", Permission.ASK: "propose it"}.get(permission, "tell it")


def _row(slot: Slot) -> PolicyRow:
    fired = slot.fired
    at = fired.get("at")
    config = slot.policy.to_config() if isinstance(slot.policy, BuiltinPolicy) else {}
    return PolicyRow(
        slot.name, slot.type_name, slot.moments, slot.priority, slot.is_on,
        _moment(at), str(fired.get("outcome", "")), slot.why, config,
    )  # fmt: skip


def _moment(text: object) -> datetime | None:
    try:
        return from_text(text) if isinstance(text, str) else None
    except ValueError:
        return None
