"""What the tools on the context share: how one is defined, how commits are named, how one is shown."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from tract_jupyter.prompts.tool_descriptions import FULL
from tract_jupyter.toolkit.definitions import BUILT_IN, ToolDefinition, Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.commit import CommitInfo

READS: Final = Traits(read_only=True)
WRITES: Final = Traits()

Name = Annotated[str, "A commit: its hash, a prefix of at least 4 digits, a branch, HEAD or ORIG_HEAD."]


def define(traits: Traits, *methods: Callable[..., Any]) -> list[ToolDefinition]:
    """Make a tool of each method, with the description that `prompts` has for it."""
    bound = cast("tuple[MethodType, ...]", methods)
    return [replace(_defined(method.__func__, traits), handler=method) for method in bound]


@cache
def _defined(function: Callable[..., Any], traits: Traits) -> ToolDefinition:
    """What is the same for every tract: to read a signature takes longer than to open a tract."""
    return ToolDefinition.from_function(
        MethodType(function, object()), description=FULL[function.__name__], traits=traits, owner=BUILT_IN
    )


def summary(info: CommitInfo) -> dict[str, Any]:
    """A commit as plain data, without its content."""
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
