"""`t.policies`: adding policies, turning them on and off, and seeing what they do."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, TractError, nearest
from tract_jupyter.models import AutonomyLevel, brief_repr, canonical_json, check_limit, repr_of_whole
from tract_jupyter.policy.builtin.base import BuiltinPolicy
from tract_jupyter.policy.evaluator import OUTCOMES, PolicyEvaluator
from tract_jupyter.policy.protocols import ORCHESTRATE, check_name, check_policy, wanted_of
from tract_jupyter.policy.saved import made, settings_json
from tract_jupyter.policy.view import PolicyView
from tract_jupyter.storage import StoredPolicy, from_text, read_dict
from tract_jupyter.toolkit import Permission, policy_actor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from tract_jupyter.policy.protocols import Policy, PolicyAction
    from tract_jupyter.policy.saved import Slot
    from tract_jupyter.review.builtin import BuiltinPending
    from tract_jupyter.storage import Event
    from tract_jupyter.toolkit import PendingPolicy


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy, for people.

    Attributes:
        name: what it goes by.
        type: of a built-in one its type, otherwise its class.
        fires_on: the moments at which it is looked at.
        priority: lower ones are looked at first.
        is_on: whether it is looked at.
        last_fired: when it fired last; None if it never did.
        last_outcome: what came of that.
        missing: why it cannot be looked at; empty if it can.
        config: the settings of a built-in one.
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


class PolicyRows(list[PolicyRow]):
    """Policies by priority; shown as a table."""

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
    """What a policy would do now: nothing, where there is no action."""

    name: str
    action: str
    params: Mapping[str, Any]
    reason: str
    would: str
    """`nothing`, `do it`, `propose it`, `tell it`, or why it does nothing."""


class Policies:
    """The policies of one tract: `t.policies`.

    Args:
        evaluator: looks at them, and does what they want.
    """

    def __init__(self, evaluator: PolicyEvaluator) -> None:
        self.evaluator = evaluator
        evaluator.look_again()

    @repr_of_whole
    def __repr__(self) -> str:
        rows = self.list()
        on = sum(row.state == "on" for row in rows)
        paused = ", paused" if self.evaluator.is_paused else ""
        return f"<Policies: {on} on of {len(rows)}{paused}>\n{rows!r}"

    # --- what there is

    def add(self, policy: Policy | str, *, name: str = "", on: bool = True, **config: Any) -> str:
        """Add a policy, in the place of the one of the same name, and return its name.

        A built-in one is stored with its settings, and is there again when the tract is opened. Of one of your own the
        name and the class are stored, and not its code: add it in each process; until then it is listed as missing.

        Args:
            policy: the type of a built-in one (`compress`, `pin`, `branch`, `merge`, `rebase`, `gc`, `archive`,
                `orchestrate`), or an object with a name and a method `evaluate(view)`.
            name: what a built-in one goes by; `auto-<type>` if left out.
            on: False to add it without having it looked at.
            **config: the settings of a built-in one.

        Raises:
            ContentError: it is no policy, or a setting is not valid.
            StoreError: it cannot be stored.
            TrustError: it cannot be signed.
        """
        if isinstance(policy, str):
            given: Any = made(policy, name, config)
        else:
            if config or name:
                raise ContentError(
                    "settings and a name go with the type of a built-in policy, not with an object"
                )
            given = policy
        check_policy(given)
        if not isinstance(given, BuiltinPolicy):
            self.evaluator.objects[given.name] = given
        self._save(given.name, settings_json(given, is_on=on), "added", self._beginning(given))
        return str(given.name)

    def remove(self, name: str) -> None:
        """Forget a policy, and what came of its firings.

        Raises:
            ContentError: there is none of that name.
        """
        self._slot(name)
        with self.evaluator.repository.database.write() as connection:
            self.evaluator.store.rows.delete(connection, name)
            self.evaluator.store.note(connection, "removed", {"name": name})
        self.evaluator.objects.pop(name, None)
        self.evaluator.look_again()

    def on(self, name: str) -> None:
        """Have a policy looked at. One that somebody else has added here is taken over: its settings are signed.

        Raises:
            ContentError: there is none of that name, or its settings are not valid.
        """
        self._turn(name, is_on=True)

    def off(self, name: str) -> None:
        """Have a policy not looked at, in any process.

        Raises:
            ContentError: there is none of that name.
        """
        self._turn(name, is_on=False)

    def pause(self) -> None:
        """Look at no policy in this process, until `resume`."""
        self.evaluator.is_paused = True

    def resume(self) -> None:
        """Look at policies again. What was committed meanwhile is looked at at the next moment."""
        self.evaluator.is_paused = False
        self.evaluator.watch.new = None

    @property
    def is_paused(self) -> bool:
        """True after `pause`."""
        return self.evaluator.is_paused

    def suspended(self) -> AbstractContextManager[None]:
        """Return a context within which no policy is looked at, in any thread."""
        return self.evaluator.suspend()

    def list(self) -> PolicyRows:
        """Return all policies by priority, also those that are off or missing here."""
        self.evaluator.look_again()
        slots = sorted(self.evaluator.slots.values(), key=lambda one: (one.priority, one.name))
        return PolicyRows([_row(slot) for slot in slots])

    def preview(self) -> Sequence[Preview]:
        """Return what each policy that is on would do now. Asks nobody, changes nothing and costs nothing.

        Where a policy looks at what was just committed, it is shown what was committed since it was last looked at.
        """
        self.evaluator.look_again()
        found: Sequence[Preview] = []
        for slot in sorted(self.evaluator.slots.values(), key=lambda one: (one.priority, one.name)):
            if slot.is_on and slot.policy is not None:
                found = [*found, *self._previewed(slot)]
        return found

    def log(self, limit: int = 100) -> Sequence[Event]:
        """Return the firings and failures, newest first: events `policy.executed`, `policy.proposed`, ...

        Raises:
            ContentError: the limit is no whole number.
        """
        limit = check_limit(limit)
        wanted = {f"policy.{outcome}" for outcome in OUTCOMES}
        events = self.evaluator.repository.newest_events("policy.*", 10 * limit + 100)
        return [event for event in events if event.event_type in wanted][:limit]

    # --- what they do

    def apply(
        self,
        policy_name: str,
        action_type: str,
        action_params: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
        permission: Permission | None = None,
    ) -> Any:
        """Call a tool because a policy says so, and return its result; see `PolicyCalls.apply`."""
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
        """Return the pending whose approval does what `apply` would; it is in the inbox until it is decided."""
        return self.evaluator.calls.propose(policy_name, action_type, action_params, reason=reason)

    def restored(self, fields: dict[str, Any], **options: Any) -> BuiltinPending:
        """Make the pending of a policy's call from its fields."""
        return self.evaluator.calls.restored(fields, **options)

    @property
    def clock(self) -> Callable[[], datetime]:
        """Gives the present, in UTC; another one can be set, for tests."""
        return self.evaluator.watch.clock

    @clock.setter
    def clock(self, clock: Callable[[], datetime]) -> None:
        """Set it."""
        self.evaluator.watch.clock = clock

    # ---

    def _slot(self, name: str) -> Slot:
        self.evaluator.look_again()
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
            made(str(settings.get("type")), check_name(name), config)
        self._save(name, canonical_json({**settings, "on": is_on}), "on" if is_on else "off")

    def _beginning(self, policy: Any) -> str:
        """Return what a new policy remembers: one that counts begins to count here."""
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
        self.evaluator.look_again()

    def _previewed(self, slot: Slot) -> Sequence[Preview]:
        wanted: Sequence[PolicyAction] = []
        try:
            for moment in slot.moments:
                view = PolicyView(self.evaluator.tract, self.evaluator.watch, moment)
                view.memory = copy.deepcopy(slot.own)
                with self.evaluator.repository.database.read():
                    given = copy.deepcopy(slot.policy).evaluate(view)
                wanted = [*wanted, *(one for one in wanted_of(given) if one not in wanted)]
        except Exception as error:  # noqa: BLE001 # a policy may raise anything
            return [Preview(slot.name, "", {}, "", f"it could not be looked at: {error}")]
        if not wanted:
            return [Preview(slot.name, "", {}, "", "nothing")]
        return [
            Preview(slot.name, one.action_type, one.params, one.reason, self._would(slot, one))
            for one in wanted
        ]

    def _would(self, slot: Slot, action: PolicyAction) -> str:
        if slot.is_stopped(action.about, action.condition):
            return "nothing: it was done, rejected or told, and nothing has changed since"
        if action.about in slot.open:
            return "nothing: its proposal waits in the inbox, or was decided"
        level = self.evaluator.ceiling().effective(action.autonomy)
        if level is AutonomyLevel.MANUAL:
            return "tell it"
        if action.action_type == ORCHESTRATE:
            is_there = self.evaluator.orchestrate is not None
            why = self.evaluator.unfinished() if is_there else "no orchestrator is there"
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
