"""Tools that read the context and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.toolkit.context_tools.common import READS, Name, define, summary

if TYPE_CHECKING:
    from tract_jupyter.models.diff import MessageDiff
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.tract import Tract


def reading_tools(tract: Tract) -> list[ToolDefinition]:
    """`compile`, `status`, `log`, `diff`, `get_commit` and `list_branches`."""
    functions = _Reading(tract)
    return define(
        READS,
        functions.compile,
        functions.status,
        functions.log,
        functions.diff,
        functions.get_commit,
        functions.list_branches,
    )


class _Reading:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def compile(self) -> dict[str, Any]:
        context = self._tract.compile()
        return {
            "messages": context.to_dicts(),
            "token_count": context.token_count,
            "token_source": context.token_source,
        }

    def status(self) -> dict[str, Any]:
        status = self._tract.status()
        return {
            "branch": None if status.is_detached else status.branch,
            "head": status.head,
            "commit_count": status.commit_count,
            "message_count": status.message_count,
            "token_count": status.token_count,
            "token_source": status.token_source,
            "max_tokens": status.max_tokens,
        }

    def log(
        self,
        limit: Annotated[int, "How many, newest first."] = 20,
        op_filter: Annotated[
            Literal["append", "edit", "annotate", "merge"] | None, "Only commits that do this."
        ] = None,
    ) -> list[dict[str, Any]]:
        return [summary(info) for info in self._tract.log(limit, op_filter=op_filter)]

    def diff(
        self,
        commit_a: Annotated[
            str | None, "The commit to compare with; the one before commit_b if left out."
        ] = None,
        commit_b: Annotated[str | None, "The commit to look at; HEAD if left out."] = None,
    ) -> dict[str, Any]:
        result = self._tract.diff(commit_a, commit_b)
        return {
            "commit_a": result.a,
            "commit_b": result.b,
            "changes": [_change(diff) for diff in result.message_diffs if diff.kind != "unchanged"],
            "unchanged": result.stat.unchanged,
            "token_delta": result.token_delta,
            "token_source": result.token_source,
            "generation_config": {
                name: list(values) for name, values in result.generation_config_changes.items()
            },
        }

    def get_commit(self, commit_hash: Name) -> dict[str, Any]:
        info = self._tract.get_commit(commit_hash)
        return {**summary(info), "content": self._tract.get_content(info.commit_hash)}

    def list_branches(self) -> list[dict[str, Any]]:
        return [
            {"name": branch.name, "head": branch.commit_hash, "current": branch.is_current}
            for branch in self._tract.list_branches()
        ]


def _change(diff: MessageDiff) -> dict[str, Any]:
    return {
        "kind": diff.kind,
        "role": diff.message.role,
        "old": None if diff.old is None else diff.old.content,
        "new": None if diff.new is None else diff.new.content,
        "token_delta": diff.token_delta,
    }
