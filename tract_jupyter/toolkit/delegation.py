"""The delegation of a child tract: its granted tools, and the actor of its model.

The executor of such a tract asks the one above at every call. Nothing is copied: a lock, a removal, a replacement or a
withdrawn permission above counts below at once, also between a request and its call. Requests are those of the tract
at the top: one inbox, one store of grants, with the child's actor.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import agent_id, brief_repr, digest
from tract_jupyter.toolkit.profiles import ToolProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.review import Settings
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor

_SETTING: Final = "delegation"
_AGENT: Final = "agent:"
_LONGEST: Final = 128
"""Characters of an actor, as its column in the store has it."""
_ID_LENGTH: Final = 12
_LONGEST_ID: Final = 64
_DIGITS: Final = 32  # of a digest that stands for the actors above
_AT_THE_TOP: Final = frozenset({"chat", "writer"})
"""The ids of the models that act in a tract at the top: the chat, and the one that writes operations."""


class ReadingOnly(ToolProfile):
    """The grant of somebody of whom nobody knows what was granted: the tools that only read."""

    __slots__ = ()

    def has(self, tool: ToolDefinition) -> bool:
        """Return True if a tool only reads."""
        return tool.traits.read_only


READING_ONLY: Final = ReadingOnly("reading only", {})


def agent_actor(parent: str, name: str) -> str:
    """Return the actor of a model that acts below another one: `agent:<parent's id>/<its own>`.

    Where that is longer than an actor can be, a digest stands for its beginning.

    Args:
        parent: the actor above it; empty for the tract at the top.
        name: its own id, which no other child of the same parent has: 1 to 64 characters without `/`, which would name
            a child of its own, and none of the models of a tract at the top.

    Raises:
        SpecError: it can be no such id.
    """
    if not name or "/" in name or len(name) > _LONGEST_ID or (not parent and name in _AT_THE_TOP):
        raise SpecError(f"{brief_repr(name)} cannot be the id of a model that acts below another one")
    return join_actors(parent, name) if parent else _AGENT + name


def child_actor(parent: str, tract_id: str, branch: str | None) -> str:
    """Return the actor of the model of a child: 12 characters of its tract's id.

    Of an agent on a branch they are those of a digest: the ids of a tract's agents begin with the tract's, and a branch
    may have any name.
    """
    name = tract_id if branch is None else digest(agent_id(tract_id, branch))
    return agent_actor(parent, name[:_ID_LENGTH])


def join_actors(parent: str, name: str) -> str:
    """Return the name of an actor below another one. No two have the same."""
    joined = f"{parent}/{name}"
    if len(joined) <= _LONGEST:
        return joined
    short = f"{_AGENT}{digest(parent)[:_DIGITS]}/"
    return short + (name if len(short + name) <= _LONGEST else digest(name))


@dataclass(frozen=True)
class Delegation:
    """How a tract stands below another one.

    Attributes:
        parent: gives the tract above; raises a `TractError` that says why there is none any more.
        granted: which tools it may call at all; None for all that the parent may.
        actor: of the model that acts in it.
    """

    parent: Callable[[], Any]
    granted: ToolProfile | None
    actor: str

    @property
    def executor(self) -> ToolExecutor:
        """The executor of the tract above.

        Raises:
            TractError: that tract is closed or gone.
        """
        executor: ToolExecutor = self.parent().executor
        return executor


class Remembered(NamedTuple):
    """What is stored of a delegation: whose it is, the ids of both tracts, and what was granted, to whom."""

    agent_id: str
    parent_id: str
    granted: ToolProfile | None
    actor: str

    def save(self, settings: Settings) -> None:
        """Sign it, and store it with the child.

        Raises:
            StoreError: it cannot be stored.
            TrustError: it cannot be signed.
        """
        values = {**self._asdict(), "granted": _as_data(self.granted)}
        settings.save(_setting(self.agent_id), values, {"parent": self.parent_id, "actor": self.actor})

    @classmethod
    def find(cls, settings: Settings, tract_id: str, branch: str | None, parent_id: str) -> Self:
        """Return what is stored of a child; if this user has signed nothing of that, it was granted to read.

        Args:
            settings: of the child's tract.
            tract_id: of the child.
            branch: of an agent on a branch.
            parent_id: of the tract that it is a child of, as the store says.

        Raises:
            StoreError: the store cannot be read.
            TrustError: the signing secret cannot be read.
        """
        name = agent_id(tract_id, branch)
        stored = settings.find(_setting(name))
        if stored is not None and stored.is_own and stored.values.get("agent_id") == name:
            values = stored.values
            with suppress(
                LookupError, TypeError, ValueError, AttributeError
            ):  # another version has signed it
                return cls(name, values["parent_id"], _of_data(values["granted"]), values["actor"])
        return cls(name, parent_id, READING_ONLY, child_actor("", tract_id, branch))


def _setting(name: str) -> str:
    """Return the name of a child's setting. Agents on branches of a tract have one each, in that tract."""
    return f"{_SETTING}:{digest(name)}"


def _as_data(granted: ToolProfile | None) -> Any:
    if granted is None or isinstance(granted, ReadingOnly):
        return None if granted is None else READING_ONLY.name
    in_code = granted.callable_from_code
    return [granted.to_dict(), *([] if in_code is None else [in_code.to_dict()])]


def _of_data(data: Any) -> ToolProfile | None:
    if data is None or data == READING_ONLY.name:
        return None if data is None else READING_ONLY
    shown, *in_code = map(ToolProfile.from_dict, data)
    return replace(shown, callable_from_code=in_code[0] if in_code else None)
