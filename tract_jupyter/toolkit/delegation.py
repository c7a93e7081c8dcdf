"""The executor of a tract that stands below another one: it asks that one's, at every call, for tools and for leave.

Nothing is copied. What is locked, removed, replaced or forbidden above counts below at once, also between a question
and the call that it is about. Only the built-in tools that act on a context are the child's own, as they act on its
context. Questions are those of the tract at the top: one inbox, one store of grants, with the child's actor.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from tract_jupyter.exceptions import OperationExistsError, SpecError, TractError, nearest
from tract_jupyter.models import agent_id, brief_repr, digest
from tract_jupyter.prompts import NOT_GRANTED, NOTHING_ABOVE
from tract_jupyter.toolkit.callers import USER, Permission, default_permission
from tract_jupyter.toolkit.definitions import BUILT_IN, OWN
from tract_jupyter.toolkit.executor import ToolExecutor
from tract_jupyter.toolkit.names import namespaces
from tract_jupyter.toolkit.profiles import ToolProfile
from tract_jupyter.toolkit.results import ToolResult
from tract_jupyter.toolkit.toolset import READ_ON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.llm import Cassette
    from tract_jupyter.review import Reviewer, Settings
    from tract_jupyter.toolkit.callers import PermissionOf
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.savings import Savings

_SETTING: Final = "delegation"
_AGENT: Final = "agent:"
_LONGEST: Final = 128
"""Characters of an actor, as its column in the store has it."""
_ID_LENGTH: Final = 12
_LONGEST_ID: Final = 64
_DIGITS: Final = 32  # of a digest that stands for the actors above
_AT_THE_TOP: Final = frozenset({"chat", "writer"})
"""The ids of the models that act in a tract at the top: the chat, and the one that writes operations."""
_STRICTNESS: Final = (Permission.ALLOW, Permission.ASK, Permission.DENY)


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
    return _joined(parent, name) if parent else _AGENT + name


def child_actor(parent: str, tract_id: str, branch: str | None) -> str:
    """Return the actor of the model of a child: 12 characters of its tract's id.

    Of an agent on a branch they are those of a digest: the ids of a tract's agents begin with the tract's, and a branch
    may have any name.
    """
    name = tract_id if branch is None else digest(agent_id(tract_id, branch))
    return agent_actor(parent, name[:_ID_LENGTH])


def _joined(parent: str, name: str) -> str:
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


class DelegatingExecutor(ToolExecutor):
    """The executor of a tract that stands below another one.

    Its tools are the parent's that were granted, of which those that act on a context act on the child's, and those
    that a person brought to the child itself. Locks are the parent's and its own; of the two permissions, the stricter
    counts. Where the parent is closed or gone, there are no tools, and each call is refused with a sentence.

    Args:
        tract: the child.
        fixed: the built-in tools that act on it.
        parent: gives the executor above; raises a `TractError` that says why there is none any more.
        granted: which tools it may call at all, directly or from scripts; None for all that the parent may. A profile
            that says more than the parent has gives no more.
        actor: of the model that acts in the child, such as `agent:<id>`; see `child_actor`.
        live: gives tools of its own that come and go, by name.
        unguarded: as of `ToolExecutor`, for operations of its own.
        cassette: of the child.
    """

    def __init__(
        self,
        tract: Any,
        fixed: Iterable[ToolDefinition],
        parent: Callable[[], ToolExecutor],
        *,
        granted: ToolProfile | None = None,
        actor: str,
        live: Callable[[], Mapping[str, ToolDefinition]] = dict,
        unguarded: Callable[[str], str] = lambda _: "",
        cassette: Cassette | None = None,
    ) -> None:
        super().__init__(tract, None, unguarded, fixed, live, cassette=cassette)  # type: ignore[arg-type] # the top's is asked for
        self._parent = parent
        self.granted = granted
        self.agent = actor

    # --- above

    @property
    def _above(self) -> ToolExecutor | None:
        """The executor above; None if it is closed or gone."""
        try:
            return self._parent()
        except TractError:
            return None

    @property
    def top(self) -> ToolExecutor:
        """The executor that stands below no other one.

        Raises:
            TractError: one above is closed or gone.
        """
        return self._parent().top

    @property
    def reviewer(self) -> Reviewer:
        """The part that has persons decide about its calls: that of the tract at the top.

        Raises:
            TractError: one above is closed or gone.
        """
        return self._parent().reviewer

    def home(self, name: str) -> ToolExecutor:
        """Return the executor in whose tract a tool lives.

        Raises:
            TractError: one above is closed or gone.
        """
        return self if name in self._fixed or name in self._live() else self._parent().home(name)

    def stands_below(self, other: object) -> bool:
        """Return True if some of the tools are those of another executor."""
        above = self._above
        return above is not None and (above is other or above.stands_below(other))

    def why_gone(self) -> str:
        """Return why there is nobody above any more, so that nothing can be called; empty if there is."""
        try:
            self.top  # noqa: B018 # the chain is followed
        except TractError as error:
            return NOTHING_ABOVE.format(why=error)
        return ""

    # --- who

    def qualified(self, actor: str) -> str:
        """Return the actor that whoever is called so here is everywhere: `agent:<id>/script:...`.

        A person at the kernel stays one. So no actor of this tract is one of another, and no grant covers both.
        """
        if actor in {USER, self.agent} or actor.startswith(f"{self.agent}/"):
            return actor
        return _joined(self.agent, actor)

    def asker(self, actor: str) -> str:
        """Return who an actor is, in words: how deep it stands, and below whom."""
        if actor == USER:
            return actor
        chain: list[str] = []
        above: ToolExecutor | None = self
        while isinstance(above, DelegatingExecutor):
            above = above._above  # noqa: SLF001 # its own class
            chain.append("the conversation at the top" if above is None or not above.agent else above.agent)
        return f"{actor} (depth {len(chain)}, below {', below '.join(chain)})"

    # --- tools

    def tools(self) -> dict[str, ToolDefinition]:
        """Return all current tools by name: the parent's that were granted, and its own."""
        above = self._above
        if above is None:
            return {}
        fixed = self._fixed
        found = {name: fixed.get(name, tool) for name, tool in above.tools().items() if self._may(tool)}
        own = [tool for tool in fixed.values() if tool.owner != BUILT_IN]
        found.update((tool.name, tool) for tool in [*own, *self._live().values()] if self._may(tool))
        return found

    def find(self, name: str) -> ToolDefinition | None:
        """Return the tool of exactly that name, if it exists now, and was granted."""
        above = self._above
        if above is None:
            return None
        tool = self._live().get(name) or self._fixed.get(name)
        if tool is None or tool.owner == BUILT_IN:
            theirs = above.find(name)  # what the parent cannot do, it cannot grant
            tool = theirs if theirs is None else tool or theirs
        return tool if tool is not None and self._may(tool) else None

    def _may(self, tool: ToolDefinition) -> bool:
        granted = self.granted
        return granted is None or granted.has(tool) or granted.in_code.has(tool) or tool.name == READ_ON

    def namespaces(self) -> frozenset[str]:
        """Return the names that stand for several tools."""
        return namespaces(self.tools())

    def add(self, tool: ToolDefinition, *, replace: bool = False) -> None:
        """Add a tool of the user's own to this tract alone; here it takes the place of one above of that name.

        Raises:
            OperationExistsError: a tool has that name, or would have the same name in Python.
            SpecError: it is none of the tools that were granted.
        """
        if not self._may(tool):
            raise SpecError(
                f"{tool.name!r} is none of the tools that were granted to {self.agent}, so nobody could call it here; "
                "spawn the child with a profile that has it"
            )
        super().add(tool, replace=replace)

    def _others(self) -> Iterable[str]:
        return (name for name, tool in self.tools().items() if not tool.namespace)

    def remove_tool(self, name: str) -> None:
        """Remove one of the user's own tools that were brought to this tract.

        Raises:
            UnknownToolError: no tool has that name.
            OperationExistsError: it is not the user's own, or that of a tract above.
        """
        tool = self._known(name)
        if tool.owner == OWN and tool.name not in self._fixed:
            raise OperationExistsError(
                f"{tool.name!r} is a tool of a tract above; remove it there, or lock it here"
            )
        super().remove_tool(name)

    def unknown(self, name: str, tool: ToolDefinition | None, profile: ToolProfile | None) -> ToolResult:
        """Refuse an unknown tool, and say if it was not granted."""
        try:
            top = self.top
        except TractError as error:
            return ToolResult(str(name), success=False, error=NOTHING_ABOVE.format(why=error), denied=True)
        if tool is not None or not isinstance(name, str) or top.get(name) is None:
            return super().unknown(name, tool, profile)
        there, locks = self.tools().values(), self.locks
        offered = there if profile is None else profile.filter_tools(there)
        names = sorted(each.name for each in offered if each.name not in locks)
        told = NOT_GRANTED.format(
            tool=name, actor=self.agent, near=nearest(name, names), names=", ".join(names) or "none"
        )
        return ToolResult(name, success=False, error=told, denied=True)

    # --- locks and permission

    @property
    def locks(self) -> Mapping[str, str]:
        """The locked tools, each with the reason: those above, and its own."""
        above = self._above
        return MappingProxyType({**self._locks, **({} if above is None else above.locks)})

    def unlock_tool(self, name: str) -> None:
        """Let a tool be called again that was locked here.

        Raises:
            UnknownToolError: there is no such tool.
            OperationExistsError: it is locked in a tract above.
        """
        super().unlock_tool(name)
        tool = self.get(name)
        if tool is not None and tool.name in self.locks:
            raise OperationExistsError(f"{tool.name!r} is locked in a tract above; unlock it there")

    @property
    def permission(self) -> PermissionOf:
        """The function that says whether an actor may call a tool: that above, or the stricter of that and its own."""
        above = self._above
        if above is None:
            return _denied
        own, theirs = self._permission, above.permission
        if own is default_permission:
            return theirs

        def stricter(tool: ToolDefinition, actor: str) -> Permission:
            return max(theirs(tool, actor), own(tool, actor), key=_STRICTNESS.index)

        return stricter

    @permission.setter
    def permission(self, permission: PermissionOf) -> None:
        """Set its own, which can only be stricter."""
        self._permission = permission

    # --- counting

    def count_use(self, name: str) -> None:
        """Count a call of a tool, here and above."""
        super().count_use(name)
        above = self._above
        if above is not None:
            above.count_use(name)

    def count_savings(self, savings: Savings) -> None:
        """Add what a script has saved, here and above."""
        super().count_savings(savings)
        above = self._above
        if above is not None:
            above.count_savings(savings)


def _denied(tool: ToolDefinition, actor: str) -> Permission:  # noqa: ARG001 # as a permission is called
    return Permission.DENY
