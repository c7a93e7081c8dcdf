"""Tools that move between histories, and bring them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.toolkit.context_tools.common import WRITES, Name, define
from tract_jupyter.toolkit.definitions import Traits

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.tract import Tract

_Decision = Literal["ours", "theirs", "skip"]


def branching_tools(tract: Tract) -> list[ToolDefinition]:
    """`branch`, `switch`, `checkout`, `merge` and `reset`."""
    functions = _Branching(tract)
    return [
        *define(WRITES, functions.branch, functions.switch, functions.checkout, functions.merge),
        # what it leaves is gone as soon as gc finds that no branch leads there
        *define(Traits(destructive=True), functions.reset),
    ]


class _Branching:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def branch(
        self,
        name: Annotated[str, "Such as topic/first-try."],
        source: Annotated[str | None, "The commit where it begins; HEAD if left out."] = None,
        switch: Annotated[bool, "Make it the current branch."] = True,  # noqa: FBT002 # a tool's own parameter
    ) -> dict[str, Any]:
        tip = self._tract.branch(name, source=source, switch=switch)
        return {"branch": name, "head": tip, "current": self._tract.current_branch}

    def switch(self, target: Annotated[str, "The branch; - is the one before."]) -> dict[str, Any]:
        tip = self._tract.switch(target)
        return {"branch": self._tract.current_branch, "head": tip}

    def checkout(
        self, target: Annotated[str, "A branch or a commit; - is where HEAD was before."]
    ) -> dict[str, Any]:
        tip = self._tract.checkout(target)
        return {"branch": self._tract.current_branch, "head": tip}

    def merge(
        self,
        source: Annotated[str, "The branch to merge into the current one."],
        message: Annotated[str | None, "One line for the log."] = None,
        resolver: Annotated[
            Literal["ours", "theirs"] | dict[str, _Decision] | None,
            "Decides conflicts: one word for all of them, or a word for each conflict's key. ours is the current "
            "branch, theirs the source; skip leaves the message out.",
        ] = None,
    ) -> dict[str, Any]:
        result = self._tract.merge(source, message=message, resolver=resolver)
        return {
            "merge_type": result.merge_type.value,
            "branch": result.target,
            "head": result.head,
            "merge_commit": result.merge_commit,
            "incoming": list(result.incoming),
            "conflicts": [str(conflict) for conflict in result.conflicts],
        }

    def reset(self, target: Name) -> dict[str, Any]:
        return {"branch": self._tract.current_branch, "head": self._tract.reset(target)}
