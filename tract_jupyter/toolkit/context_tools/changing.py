"""Context tools that change the context: commits, priorities, summaries, branches, tags and the model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from tract_jupyter.llm.configured import ModelOperation  # noqa: TC001 # the tool's schema is made of it
from tract_jupyter.toolkit.context_tools.registry import CommitName, commit_summary, context_tool

_Decision = Literal["ours", "theirs", "skip"]
_Tag = Annotated[str, "The tag, such as decision."]


@context_tool()
def commit(
    tract: Any,
    content: Annotated[
        dict[str, Any], 'Such as {"content_type": "dialogue", "role": "user", "text": "..."}.'
    ],
    operation: Annotated[Literal["append", "edit"], "An edit replaces its target."] = "append",
    message: Annotated[str | None, "One line for the log; made from the text if left out."] = None,
    edit_target: Annotated[str | None, "With an edit: the commit to replace."] = None,
    metadata: Annotated[dict[str, Any] | None, "Anything worth keeping beside it."] = None,
    generation_config: Annotated[dict[str, Any] | None, "Model and parameters it was made with."] = None,
    tags: Annotated[list[str] | None, "Labels to find it by."] = None,
) -> dict[str, Any]:
    """Add a commit to the context: a message, an instruction, an artifact, or an edit of one."""
    info = tract.commit(
        content,
        operation=operation,
        message=message,
        edit_target=edit_target,
        metadata=metadata,
        generation_config=generation_config,
        tags=tags or (),
    )
    return commit_summary(info)


@context_tool()
def annotate(
    tract: Any,
    target_hash: CommitName,
    priority: Annotated[
        Literal["skip", "normal", "important", "pinned"],
        "skip leaves it out of the context; pinned always stays.",
    ],
    reason: Annotated[str, "Why, for the log."] = "",
) -> dict[str, Any]:
    """Change how much a commit matters: leave its message out, or have every compression keep it."""
    target = tract.resolve_commit(target_hash)  # before HEAD moves to the annotation
    tract.annotate(target, priority, reason=reason)
    return commit_summary(tract.get_commit(target))


@context_tool(
    open_world=True
)  # it may send messages to the model; the originals stay, so nothing is destroyed
def compress(
    tract: Any,
    target_tokens: Annotated[int | None, "How long a model should make each summary."] = None,
    from_commit: Annotated[str | None, "The first commit to replace; the beginning if left out."] = None,
    to_commit: Annotated[str | None, "The last commit to replace; HEAD if left out."] = None,
    instructions: Annotated[str | None, "What the model that writes the summaries should keep."] = None,
    content: Annotated[
        str | list[str] | None,
        "The summary, or a list with one for each run of messages between pinned or preserved ones. If left out, the "
        "configured model writes them.",
    ] = None,
    preserve: Annotated[list[str] | None, "Commits to keep word for word, besides the pinned ones."] = None,
) -> dict[str, Any]:
    """Replace messages by summaries. What is pinned stays word for word; the originals are kept aside."""
    result = tract.compress(
        target_tokens=target_tokens,
        from_commit=from_commit,
        to_commit=to_commit,
        instructions=instructions,
        content=content,
        preserve=preserve or (),
    )
    return {
        "branch": result.branch,
        "old_head": result.old_head,
        "new_head": result.new_head,
        "source_commits": [list(group) for group in result.source_commits],
        "summary_commits": list(result.summary_commits),
        "preserved_commits": list(result.preserved_commits),
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "token_source": result.token_source,
    }


@context_tool(destructive=True)
def gc(
    tract: Any,
    orphan_retention_days: Annotated[float, "Keep what is younger, in days."] = 7,
    dry_run: Annotated[bool, "Only report what would be removed."] = False,  # noqa: FBT002 # a tool's own parameter
) -> dict[str, Any]:
    """Remove old commits that no branch leads to, for good: nothing brings them back."""
    result = tract.gc(orphan_retention_days=orphan_retention_days, dry_run=dry_run)
    return {
        "dry_run": result.dry_run,
        "commits": list(result.commits),
        "blobs": result.blobs,
        "bytes": result.bytes,
        "tokens": result.tokens,
    }


@context_tool()
def branch(
    tract: Any,
    name: Annotated[str, "Such as topic/first-try."],
    source: Annotated[str | None, "The commit where it begins; HEAD if left out."] = None,
    switch: Annotated[bool, "Make it the current branch."] = True,  # noqa: FBT002 # a tool's own parameter
) -> dict[str, Any]:
    """Make a branch, to try something without touching the current one."""
    tip = tract.branch(name, source=source, switch=switch)
    return {"branch": name, "head": tip, "current": tract.current_branch}


@context_tool()
def switch(tract: Any, target: Annotated[str, "The branch; - is the previous one."]) -> dict[str, Any]:
    """Make another branch the current one."""
    tip = tract.switch(target)
    return {"branch": tract.current_branch, "head": tip}


@context_tool()
def checkout(
    tract: Any, target: Annotated[str, "A branch or a commit; - is where HEAD was before."]
) -> dict[str, Any]:
    """Go to a branch, or look at an earlier commit: then there is no current branch to commit to."""
    tip = tract.checkout(target)
    return {"branch": tract.current_branch, "head": tip}


@context_tool()
def merge(
    tract: Any,
    source: Annotated[str, "The branch to merge into the current one."],
    message: Annotated[str | None, "One line for the log."] = None,
    resolver: Annotated[
        Literal["ours", "theirs"] | dict[str, _Decision] | None,
        "Decides conflicts: one word for all of them, or a word for each conflict's key. ours is the current "
        "branch, theirs the source; skip leaves the message out.",
    ] = None,
) -> dict[str, Any]:
    """Merge another branch into the current one. If there are conflicts, they are listed and nothing is changed."""
    result = tract.merge(source, message=message, resolver=resolver)
    return {
        "merge_type": result.merge_type.value,
        "branch": result.target,
        "head": result.head,
        "merge_commit": result.merge_commit,
        "incoming": list(result.incoming),
        "conflicts": [str(conflict) for conflict in result.conflicts],
    }


@context_tool(destructive=True)  # once gc finds that no branch leads there, what it leaves is gone
def reset(tract: Any, target: CommitName) -> dict[str, Any]:
    """Move the current branch to another commit; later commits leave the context.

    Resetting is neither soft nor hard: what is left behind stays addressable, ORIG_HEAD names where the branch was, and
    gc removes it only after some days.
    """
    return {"branch": tract.current_branch, "head": tract.reset(target)}


@context_tool()
def tag(tract: Any, commit_hash: CommitName, tag: _Tag) -> dict[str, Any]:
    """Tag a commit, to find it again."""
    tract.tag(commit_hash, tag)
    return _tags_of(tract, commit_hash)


@context_tool()
def untag(tract: Any, commit_hash: CommitName, tag: _Tag) -> dict[str, Any]:
    """Remove a tag from a commit. Tags that the commit was made with stay."""
    removed = tract.untag(commit_hash, tag)
    return {**_tags_of(tract, commit_hash), "removed": removed}


@context_tool()
def register_tag(
    tract: Any, name: _Tag, description: Annotated[str, "What it is for."] = ""
) -> dict[str, Any]:
    """Describe what a tag is for, so that it is used in one sense."""
    tract.register_tag(name, description)
    return {"name": name, "description": description}


def _tags_of(tract: Any, commit_hash: str) -> dict[str, Any]:
    return {"commit_hash": tract.resolve_commit(commit_hash), "tags": list(tract.get_tags(commit_hash))}


@context_tool()
def configure_model(
    tract: Any,
    model: Annotated[str | None, "Its name, as the provider calls it; left out, the usual one."] = None,
    operation: Annotated[
        ModelOperation,
        "chat: replies; compress: summaries; merge: guidance on conflicts; tool_result: shortening answers of "
        "tools; consult: decisions.",
    ] = "chat",
    temperature: Annotated[float | None, "From 0 on; left out, the usual one."] = None,
) -> dict[str, Any]:
    """Choose the model and its temperature for one kind of request, from now on."""
    options = tract.configure_model(model, operation=operation, temperature=temperature)
    return {"operation": operation, **options}
