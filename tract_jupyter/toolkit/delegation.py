"""The delegation of a child tract: its granted tools, and the actor of its model.

The child's executor asks the parent's executor at every call. It copies nothing. If a tool of the parent is locked,
removed or replaced, or a permission is withdrawn, this affects the child immediately, even between a request and its
call. Requests belong to the root tract. It has the only inbox and the only store of grants, and it stores the child's
actor with them.
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
"""Maximum length of an actor in characters, as in its column in the store."""
_ID_LENGTH: Final = 12
_LONGEST_ID: Final = 64
_DIGITS: Final = 32  # of the digest that replaces the actors above
_AT_THE_TOP: Final = frozenset({"chat", "writer"})
"""The ids of the models in a root tract: the chat, and the writer of operations."""


class ReadingOnly(ToolProfile):
    """The grant of a child if its stored grant is unknown: the tools that only read."""

    __slots__ = ()

    def has(self, tool: ToolDefinition) -> bool:
        """Return True if a tool only reads."""
        return tool.traits.read_only


READING_ONLY: Final = ReadingOnly("reading only", {})


def agent_actor(parent: str, name: str) -> str:
    """Return the actor of a child's model: `agent:<parent's id>/<its own>`.

    If that exceeds the maximum length of an actor, a digest replaces its beginning. The name is the child's id, unique
    among the children of the parent. It has 1 to 64 characters without `/`, which would name a grandchild, and is not
    an id of a root tract's own models.

    Raises:
        SpecError: the id is invalid.
    """
    if not name or "/" in name or len(name) > _LONGEST_ID or (not parent and name in _AT_THE_TOP):
        raise SpecError(
            f"{brief_repr(name)} cannot be the id of a child's model; use 1 to {_LONGEST_ID} characters without '/'"
        )
    return join_actors(parent, name) if parent else _AGENT + name


def child_actor(parent: str, tract_id: str, branch: str | None) -> str:
    """Return the actor of a child's model, with 12 characters of its tract's id.

    For an agent on a branch, they are characters of a digest. All agents of a tract share the beginning of their ids,
    and a branch may have any name.
    """
    name = tract_id if branch is None else digest(agent_id(tract_id, branch))
    return agent_actor(parent, name[:_ID_LENGTH])


def join_actors(parent: str, name: str) -> str:
    """Return the unique name of an actor below another one."""
    joined = f"{parent}/{name}"
    if len(joined) <= _LONGEST:
        return joined
    short = f"{_AGENT}{digest(parent)[:_DIGITS]}/"
    return short + (name if len(short + name) <= _LONGEST else digest(name))


@dataclass(frozen=True)
class Delegation:
    """The link of a child tract to its parent.

    `parent` raises a `TractError` with the reason if there is no parent any more. `granted` is None for all tools of
    the parent.
    """

    parent: Callable[[], Any]
    granted: ToolProfile | None
    actor: str
    remember: Callable[[], object] = lambda: None

    @property
    def executor(self) -> ToolExecutor:
        """The executor of the parent tract.

        Raises:
            TractError: the parent tract is closed or gone.
        """
        executor: ToolExecutor = self.parent().executor
        return executor


class Remembered(NamedTuple):
    """The stored part of a delegation: the agent, the parent tract, the granted tools and the actor."""

    agent_id: str
    parent_id: str
    granted: ToolProfile | None
    actor: str

    def save(self, settings: Settings) -> None:
        """Sign it, and store it with the child."""
        values = {**self._asdict(), "granted": _as_data(self.granted)}
        settings.save(_setting(self.agent_id), values, {"parent": self.parent_id, "actor": self.actor})

    def save_once(self, settings: Settings) -> None:
        """Store it if this child has no stored delegation yet."""
        if settings.find(_setting(self.agent_id)) is None:
            self.save(settings)

    @classmethod
    def find(cls, settings: Settings, tract_id: str, branch: str | None, parent_id: str) -> Self:
        """Return the stored delegation of a child. If this user has not signed one, grant read-only tools."""
        name = agent_id(tract_id, branch)
        stored = settings.find(_setting(name))
        if stored is not None and stored.is_own and stored.values.get("agent_id") == name:
            values = stored.values
            with suppress(LookupError, TypeError, ValueError, AttributeError):  # signed by another version
                return cls(name, values["parent_id"], _of_data(values["granted"]), values["actor"])
        return cls(name, parent_id, READING_ONLY, child_actor("", tract_id, branch))


def _setting(name: str) -> str:
    """Return the name of a child's setting. Each agent on a branch has a separate one in the same tract."""
    return f"{_SETTING}:{digest(name)}"


def _as_data(granted: ToolProfile | None) -> Any:
    if granted is None or isinstance(granted, ReadingOnly):
        return None if granted is None else READING_ONLY.name
    in_code = granted.callable_from_code
    return [granted.to_dict(), *([] if in_code is None else [in_code.to_dict()])]


def _of_data(data: Any) -> ToolProfile | None:
    if data is None or data == READING_ONLY.name:
        return None if data is None else READING_ONLY
    profile, *in_code = map(ToolProfile.from_dict, data)
    return replace(profile, callable_from_code=in_code[0] if in_code else None)
