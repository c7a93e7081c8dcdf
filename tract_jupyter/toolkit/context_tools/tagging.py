"""Tools that label commits and find them by their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.toolkit.context_tools.common import READS, WRITES, Name, define, summary

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.tract import Tract

_Tag = Annotated[str, "The tag, such as decision."]


def tagging_tools(tract: Tract) -> list[ToolDefinition]:
    """`tag`, `untag`, `register_tag`, `get_tags`, `list_tags` and `query_by_tags`."""
    functions = _Tagging(tract)
    return [
        *define(WRITES, functions.tag, functions.untag, functions.register_tag),
        *define(READS, functions.get_tags, functions.list_tags, functions.query_by_tags),
    ]


class _Tagging:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def tag(self, commit_hash: Name, tag: _Tag) -> dict[str, Any]:
        self._tract.tag(commit_hash, tag)
        return self._tags(commit_hash)

    def untag(self, commit_hash: Name, tag: _Tag) -> dict[str, Any]:
        removed = self._tract.untag(commit_hash, tag)
        return {**self._tags(commit_hash), "removed": removed}

    def register_tag(self, name: _Tag, description: Annotated[str, "What it is for."] = "") -> dict[str, Any]:
        self._tract.register_tag(name, description)
        return {"name": name, "description": description}

    def get_tags(self, commit_hash: Name) -> list[str]:
        return list(self._tract.get_tags(commit_hash))

    def list_tags(self) -> list[dict[str, Any]]:
        return [
            {"name": tag.name, "description": tag.description, "count": tag.count}
            for tag in self._tract.list_tags()
        ]

    def query_by_tags(
        self,
        tags: Annotated[list[str], "The tags to look for."],
        match: Annotated[Literal["any", "all"], "Whether a commit must have one of them, or all."] = "any",
        limit: Annotated[int, "How many, newest first."] = 20,
    ) -> list[dict[str, Any]]:
        return [summary(info) for info in self._tract.query_by_tags(tags, match=match, limit=limit)]

    def _tags(self, commit_hash: str) -> dict[str, Any]:
        return {
            "commit_hash": self._tract.resolve_commit(commit_hash),
            "tags": list(self._tract.get_tags(commit_hash)),
        }
