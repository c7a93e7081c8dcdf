"""Stored policies: the type and settings of a built-in policy, or the name of another policy.

They are signed like operations. A policy without this user's signature is listed but never evaluated. The code of a
user's own policy is not stored. The policy waits until `add` supplies its object again, and keeps its memory.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, TractError, nearest
from tract_jupyter.models import brief_repr, canonical_json
from tract_jupyter.policy.builtin.base import BuiltinPolicy
from tract_jupyter.policy.protocols import MOST_WANTED, moments_of, priority_of
from tract_jupyter.review import SignedStore
from tract_jupyter.storage import StoredPolicy, read_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

_MOST_STOPPED: Final = MOST_WANTED
"""The maximum number of stored conditions: one for each action of an evaluation."""


@cache
def policy_types() -> Mapping[str, type[BuiltinPolicy]]:
    """Return the built-in policy types by name, in order of priority. They come from all modules of `builtin`."""
    from tract_jupyter.policy import builtin

    modules = [import_module(f"{builtin.__name__}.{one.name}") for one in iter_modules(builtin.__path__)]
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, BuiltinPolicy) and "type_name" in vars(kind)
    ]
    return {one.type_name: one for one in sorted(kinds, key=lambda one: (one.usual_priority, one.type_name))}


def create_policy(type_name: str, name: str, config: Mapping[str, Any]) -> BuiltinPolicy:
    """Create a built-in policy."""
    types = policy_types()
    kind = types.get(type_name) if isinstance(type_name, str) else None
    if kind is None:
        raise ContentError(
            f"unknown policy type {brief_repr(type_name)}.{nearest(str(type_name), types)} The types are "
            f"{', '.join(types)}; pass your own policy as an object"
        )
    return kind.from_config(name, config)


def type_of(policy: Any) -> str:
    """Return the type name of a built-in policy, or the qualified class name."""
    if isinstance(policy, BuiltinPolicy):
        return policy.type_name
    kind = type(policy)
    return f"{kind.__module__}.{kind.__qualname__}"


def settings_json(policy: Any, *, is_on: bool) -> str:
    """Return the text of a policy for signing and storage."""
    config = policy.to_config() if isinstance(policy, BuiltinPolicy) else None
    return canonical_json({"type": type_of(policy), "config": config, "on": is_on})


class PolicyStore(SignedStore[StoredPolicy]):
    """The stored policies of one tract."""

    kind = "policy"
    signed_as = "policy"
    vouched = "added"

    def content(self, row: StoredPolicy) -> list[str]:
        """Return the signed parts of a row: the name, the type and the settings."""
        return [row.name, row.policy_json]

    def rows_of(self, connection: Connection) -> list[StoredPolicy]:
        """Return all rows, signed or not."""
        return self.rows.all(connection)


@dataclass(eq=False)
class Slot:
    """One policy of this process and its row in the store.

    Attributes:
        row: the row from the last read.
        policy: the policy object, or None if it cannot be evaluated (see `why`).
        is_on: True if it is evaluated.
        why: the missing part: a signature, or the code.
        memory: the stored state of its firings.
    """

    row: StoredPolicy
    policy: Any
    is_on: bool
    type_name: str
    why: str = ""
    memory: dict[str, Any] = field(default_factory=dict)
    priority: int = 100
    moments: tuple[str, ...] = ()
    cooldown: float = 0
    is_built_in: bool = False
    remembers: bool = False
    """True if it may store its own data."""
    saved: dict[str, Any] = field(default_factory=dict)
    """The stored version of its own data."""
    error: str = ""
    """The error from its last evaluation."""

    @property
    def name(self) -> str:
        """The policy's name."""
        return self.row.name

    @property
    def own(self) -> dict[str, Any]:
        """The policy's own data."""
        return _dict(self.memory, "own")

    @property
    def open(self) -> dict[str, Any]:
        """The open proposals by subject, each with the pending's id and the condition."""
        return _dict(self.memory, "open")

    @property
    def stopped(self) -> list[Any]:
        """The pairs of subject and condition that need no further action."""
        stopped = self.memory.get("stopped")
        if not isinstance(stopped, list):
            stopped = self.memory["stopped"] = []
        return stopped

    @property
    def began(self) -> dict[str, Any] | None:
        """The action that a process started and has not finished, or None."""
        began = self.memory.get("began")
        return began if isinstance(began, dict) else None

    @property
    def fired(self) -> dict[str, Any]:
        """The time and the outcome of the last firing."""
        return _dict(self.memory, "fired")

    def is_stopped(self, about: str, condition: str) -> bool:
        """Return True if this condition needs no further action."""
        return [about, condition] in self.stopped

    def stop(self, about: str, condition: str) -> None:
        """Record that this condition needs no further action."""
        others = [one for one in self.stopped if one != [about, condition]]
        self.memory["stopped"] = [*others[1 - _MOST_STOPPED :], [about, condition]]


def _dict(memory: dict[str, Any], name: str) -> dict[str, Any]:
    value = memory.get(name)
    if not isinstance(value, dict):
        value = memory[name] = {}
    return value


def slot_of(row: StoredPolicy, store: PolicyStore, policy: Any | None) -> Slot:
    """Return a policy for use in this process."""
    settings = read_dict(row.policy_json)
    type_name, config, is_on = settings.get("type"), settings.get("config"), settings.get("on") is True
    slot = Slot(row, None, is_on, str(type_name), memory=read_dict(row.memory_json))
    if not store.is_signed(row):
        slot.why = store.foreign if row.signature else "it has no signature; tract.policies.add adds it"
        slot.is_on = False
        return slot
    try:
        if isinstance(config, dict):
            slot.policy = create_policy(str(type_name), row.name, config)
        elif policy is not None and type_of(policy) == type_name:
            slot.policy = policy
        else:
            slot.why = (
                f"its code is missing; add an object of {type_name} with this name, with tract.policies.add"
            )
            return slot
        slot.priority, slot.moments = priority_of(slot.policy), moments_of(slot.policy)
        slot.cooldown = getattr(slot.policy, "cooldown", 0)
        slot.is_built_in = isinstance(slot.policy, BuiltinPolicy)
        slot.remembers = not slot.is_built_in or hasattr(slot.policy, "fired")
        slot.saved = copy.deepcopy(slot.own) if slot.remembers else {}
    except TractError as error:
        slot.policy, slot.why = None, str(error)
    return slot
