"""The registry of the context tools: `context_tool` puts a function into it, `context_tools` binds all to a tract."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from tract_jupyter.exceptions import SpecError
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.commit import CommitInfo

    Function = TypeVar("Function", bound=Callable[..., Any])

CONTEXT_TOOLS: Final[dict[str, tuple[Callable[..., Any], Traits]]] = {}
"""The functions by the names of their tools, each with what calling it can do."""

CommitName = Annotated[str, "A commit: its hash, a prefix of at least 4 digits, a branch, HEAD or ORIG_HEAD."]
"""A parameter that names a commit."""


def context_tool(
    *, read_only: bool = False, destructive: bool = False, open_world: bool = False
) -> Callable[[Function], Function]:
    """Decorate a function to make it a tool of every tract that is opened from then on.

    Its first parameter is the tract; the others are the tool's, each described by `Annotated[T, "text"]`. Its docstring
    is the tool's description. A trailing `_` of its name, which keeps it apart from a built-in, is left out.

    Args:
        read_only: it changes nothing; models may call it without being asked about.
        destructive: what it takes away may be gone for good.
        open_world: it reaches beyond the store: the network, a model, other programs.

    Raises:
        SpecError: there is a context tool of that name, or the function has no docstring.
    """

    def add(function: Function) -> Function:
        name = function.__name__.rstrip("_")
        if name in CONTEXT_TOOLS:
            raise SpecError(f"there is a context tool {name!r} already; choose another name")
        if not function.__doc__:
            raise SpecError(
                f"the context tool {name!r} has no docstring, which is what a model is told about it"
            )
        CONTEXT_TOOLS[name] = function, Traits(read_only, destructive, open_world)
        return function

    return add


def context_tools(tract: Any) -> list[ToolDefinition]:
    """Return the context tools of one tract."""
    return [
        replace(_definition(name, function, traits), handler=MethodType(function, tract))
        for name, (function, traits) in CONTEXT_TOOLS.items()
    ]


@cache
def _definition(name: str, function: Callable[..., Any], traits: Traits) -> ToolDefinition:
    """Return what is the same for every tract: reading a signature takes longer than opening a tract."""
    return ToolDefinition.built_in(MethodType(function, object()), name=name, traits=traits)


def commit_summary(info: CommitInfo) -> dict[str, Any]:
    """Return a commit as plain data, without its content."""
    return {
        "commit_hash": info.commit_hash,
        "content_type": info.content_type,
        "operation": info.operation.value,
        "message": info.message,
        "priority": info.priority.value,
        "token_count": info.token_count,
        "tags": list(info.tags),
        "created_at": info.created_at.isoformat(),
    }
