"""Context tools that only read: the messages, the log, differences, branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.toolkit.context_tools.registry import CommitName, commit_summary, context_tool

if TYPE_CHECKING:
    from tract_jupyter.models.diff import MessageDiff


@context_tool(read_only=True)
def compile_(tract: Any) -> dict[str, Any]:
    """Return the messages that the context stands for now, with their number of tokens."""
    context = tract.compile()
    return {
        "messages": context.to_dicts(),
        "token_count": context.token_count,
        "token_source": context.token_source,
    }


@context_tool(read_only=True)
def status(tract: Any) -> dict[str, Any]:
    """Show the branch, the number of commits and messages, the tokens in use and the budget."""
    status = tract.status()
    return {
        "branch": None if status.is_detached else status.branch,
        "head": status.head,
        "commit_count": status.commit_count,
        "message_count": status.message_count,
        "token_count": status.token_count,
        "token_source": status.token_source,
        "max_tokens": status.max_tokens,
    }


@context_tool(read_only=True)
def log(
    tract: Any,
    limit: Annotated[int, "How many, newest first."] = 20,
    op_filter: Annotated[
        Literal["append", "edit", "annotate", "merge"] | None, "Only commits that do this."
    ] = None,
) -> list[dict[str, Any]]:
    """List the newest commits of the current branch, without their contents."""
    return [commit_summary(info) for info in tract.log(limit, op_filter=op_filter)]


@context_tool(read_only=True)
def diff(
    tract: Any,
    commit_a: Annotated[
        str | None, "The commit to compare with; the one before commit_b if left out."
    ] = None,
    commit_b: Annotated[str | None, "The commit to look at; HEAD if left out."] = None,
) -> dict[str, Any]:
    """Compare the context at two commits: messages added, removed and changed."""
    result = tract.diff(commit_a, commit_b)
    return {
        "commit_a": result.commit_a,
        "commit_b": result.commit_b,
        "changes": [_change(diff) for diff in result.message_diffs if diff.kind != "unchanged"],
        "unchanged": result.stat.unchanged,
        "token_delta": result.token_delta,
        "token_source": result.token_source,
        "generation_config": {
            name: list(values) for name, values in result.generation_config_changes.items()
        },
    }


def _change(diff: MessageDiff) -> dict[str, Any]:
    return {
        "kind": diff.kind,
        "role": diff.message.role,
        "old": None if diff.old is None else diff.old.content,
        "new": None if diff.new is None else diff.new.content,
        "token_delta": diff.token_delta,
    }


@context_tool(read_only=True)
def get_commit(tract: Any, commit_hash: CommitName) -> dict[str, Any]:
    """Return one commit with its whole content."""
    info = tract.get_commit(commit_hash)
    return {**commit_summary(info), "content": tract.get_content(info.commit_hash)}


@context_tool(read_only=True)
def list_branches(tract: Any) -> list[dict[str, Any]]:
    """List all branches, and which one is the current one."""
    return [
        {"name": branch.name, "head": branch.commit_hash, "current": branch.is_current}
        for branch in tract.list_branches()
    ]


@context_tool(read_only=True)
def get_tags(tract: Any, commit_hash: CommitName) -> list[str]:
    """List the tags of a commit."""
    return list(tract.get_tags(commit_hash))


@context_tool(read_only=True)
def list_tags(tract: Any) -> list[dict[str, Any]]:
    """List every tag, what it is for, and how many commits have it."""
    return [
        {"name": tag.name, "description": tag.description, "count": tag.count} for tag in tract.list_tags()
    ]


@context_tool(read_only=True)
def query_by_tags(
    tract: Any,
    tags: Annotated[list[str], "The tags to look for."],
    match: Annotated[Literal["any", "all"], "all: only commits with every one of them."] = "any",
    limit: Annotated[int, "How many, newest first."] = 20,
) -> list[dict[str, Any]]:
    """Find the newest commits of the current branch that have any, or all, of some tags."""
    return [commit_summary(info) for info in tract.history.query_by_tags(tags, match=match, limit=limit)]
