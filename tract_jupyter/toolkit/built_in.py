"""Built-in tools. They work on the context and return plain data for scripts and models.

To add one, write a function whose first parameter is the tract, and decorate it with `context_tool`. Its type hints
describe the other parameters. Its docstring is the description for models. `context_tools` binds all of them to a
tract.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from tract_jupyter.context import VersionedContext  # noqa: TC001 # the tool's signature is read
from tract_jupyter.exceptions import ContentError, SpecError
from tract_jupyter.llm import ModelOperation  # noqa: TC001 # the tool's schema is made from it
from tract_jupyter.models import openai_messages
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models import CommitInfo, MessageDiff

    Function = TypeVar("Function", bound=Callable[..., Any])


CONTEXT_TOOLS: Final[dict[str, tuple[Callable[..., Any], Traits]]] = {}
"""The functions and traits of the context tools, by tool name."""

CommitName = Annotated[str, "A commit: its hash, a prefix of at least 4 digits, a branch, HEAD or ORIG_HEAD."]
"""A parameter that names a commit."""


def context_tool(
    *, read_only: bool = False, destructive: bool = False, open_world: bool = False
) -> Callable[[Function], Function]:
    """Decorate a function to make it a tool of every tract that is opened later.

    The first parameter is the tract. The others are the tool's parameters, each described by `Annotated[T, "text"]`.
    The docstring is the tool's description. A trailing `_`, which distinguishes the name from a Python built-in, is
    removed.

    Args:
        read_only: it changes nothing. Models may call it without approval.
        destructive: it may remove something permanently.
        open_world: it reaches beyond the store: the network, a model, other programs.

    Raises:
        SpecError: a context tool has that name already, or the function has no docstring.
    """

    def add(function: Function) -> Function:
        name = function.__name__.rstrip("_")
        if name in CONTEXT_TOOLS:
            raise SpecError(f"the context tool {name!r} already exists; choose another name")
        if not function.__doc__ and sys.flags.optimize > 1:
            raise SpecError(
                "python -OO removes docstrings, which describe tools to a model; run Python without -OO "
                "(PYTHONOPTIMIZE=2 is the same)"
            )
        if not function.__doc__:
            raise SpecError(
                f"the context tool {name!r} has no docstring; write one, because models need a description"
            )
        CONTEXT_TOOLS[name] = function, Traits(read_only, destructive, open_world)
        return function

    return add


def context_tools(tract: Any) -> list[ToolDefinition]:
    """Return the context tools of one tract."""
    return [
        _definition(name, function, traits).bound_to(tract)
        for name, (function, traits) in CONTEXT_TOOLS.items()
    ]


@cache
def _definition(name: str, function: Callable[..., Any], traits: Traits) -> ToolDefinition:
    """Return the part of a tool that all tracts share. Reading a signature takes longer than opening a tract."""
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


_Decision = Literal["ours", "theirs", "skip"]
_Tag = Annotated[str, "The tag, such as decision."]


@context_tool()
def commit(
    tract: VersionedContext,
    content: Annotated[
        dict[str, Any], 'Such as {"content_type": "dialogue", "role": "user", "text": "..."}.'
    ],
    operation: Annotated[Literal["append", "edit"], "An edit replaces its target."] = "append",
    message: Annotated[str | None, "One line for the log; default: from the text."] = None,
    edit_target: Annotated[str | None, "With an edit: the commit to replace."] = None,
    metadata: Annotated[dict[str, Any] | None, "More data to store with it."] = None,
    generation_config: Annotated[dict[str, Any] | None, "Its model and parameters."] = None,
    tags: Annotated[list[str] | None, "Labels for a search."] = None,
) -> dict[str, Any]:
    """Add a commit to the context, to save or write down a message, an instruction, a fact, or an edit of one.

    Not to copy one that is elsewhere: cherry_pick.
    """
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
    tract: VersionedContext,
    target_hash: CommitName,
    priority: Annotated[
        Literal["skip", "normal", "important", "pinned"],
        "skip leaves it out of the context; pinned always stays.",
    ],
    reason: Annotated[str, "Why, for the log."] = "",
) -> dict[str, Any]:
    """Change how much a commit matters: pin its message, to keep it always, or skip it, to hide it.

    Not to find it again: tag.
    """
    target = tract.resolve_commit(target_hash)  # before HEAD moves to the annotation
    tract.annotate(target, priority, reason=reason)
    return commit_summary(tract.get_commit(target))


@context_tool(
    open_world=True
)  # it may send messages to the model; the originals stay, so nothing is destroyed
def compress(
    tract: Any,
    target_tokens: Annotated[int | None, "Length of each summary that a model writes."] = None,
    from_commit: Annotated[str | None, "The first commit to replace; default: the beginning."] = None,
    to_commit: Annotated[str | None, "The last commit to replace; default: HEAD."] = None,
    instructions: Annotated[str | None, "Contents that the summaries should keep."] = None,
    content: Annotated[
        str | list[str] | None,
        "The summary, or a list with one for each run of messages between pinned or preserved ones. Default: the "
        "configured model writes them.",
    ] = None,
    preserve: Annotated[list[str] | None, "More commits to keep word for word."] = None,
) -> dict[str, Any]:
    """Summarize messages to get below the budget: replace them by summaries.

    Pinned ones stay word for word; the originals stay in the store. Not for one message: annotate it with skip.
    """
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
        "replaced": sum(map(len, result.source_commits)),
        "summary_commits": list(result.summary_commits),
        "preserved_commits": list(result.preserved_commits),
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "token_source": result.token_source,
    }


@context_tool(destructive=True)
def gc(
    tract: Any,
    orphan_retention_days: Annotated[float, "Keep younger commits, in days."] = 7,
    dry_run: Annotated[bool, "Only report, and remove nothing."] = False,  # noqa: FBT002 # a tool's own parameter
) -> dict[str, Any]:
    """Delete old commits for good that are unreachable from any branch, to free disk space: nothing restores them.

    Not to put a branch away: archive.
    """
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
    tract: VersionedContext,
    name: Annotated[str, "Such as topic/first-try."],
    source: Annotated[str | None, "The commit to start from; default: HEAD."] = None,
    switch: Annotated[bool, "Make it the current branch."] = True,  # noqa: FBT002 # a tool's own parameter
) -> dict[str, Any]:
    """Create a new branch, to try something without touching the current one. Not for one that exists: switch."""
    tip = tract.branch(name, source=source, switch=switch)
    return {"branch": name, "head": tip, "current": tract.current_branch}


@context_tool()
def switch(
    tract: VersionedContext, target: Annotated[str, "The branch; - is the previous one."]
) -> dict[str, Any]:
    """Continue on another branch that exists, which becomes the current one. Not for a new one: branch."""
    tip = tract.switch(target)
    return {"branch": tract.current_branch, "head": tip}


@context_tool()
def checkout(
    tract: VersionedContext, target: Annotated[str, "A branch or a commit; - is the previous one."]
) -> dict[str, Any]:
    """Look at an old state at an earlier commit, detached: without a current branch to commit to; or go to a branch.

    Not to undo: reset.
    """
    tip = tract.checkout(target)
    return {"branch": tract.current_branch, "head": tip}


@context_tool()
def merge(
    tract: Any,
    source_branch: Annotated[str, "The branch to merge into the current one."],
    message: Annotated[str | None, "One line for the log."] = None,
    resolver: Annotated[
        Literal["ours", "theirs"] | dict[str, _Decision] | None,
        "Decides conflicts: one word for all of them, or a word for each conflict's key. ours is the current "
        "branch, theirs the source branch; skip leaves the message out.",
    ] = None,
) -> dict[str, Any]:
    """Combine another branch into the current, present one.

    With conflicts, it lists them and changes nothing. Not for single commits: cherry_pick.
    """
    result = tract.merge(source_branch, message=message, resolver=resolver)
    return {
        "merge_type": result.merge_type.value,
        "branch": result.target_branch,
        "head": result.head,
        "merge_commit": result.merge_commit,
        "incoming": list(result.incoming),
        "conflicts": [str(conflict) for conflict in result.conflicts],
    }


@context_tool()
def merge_into(
    tract: Any,
    target_branch: Annotated[str, "The branch to merge into."],
    source_branch: Annotated[str, "The branch to merge, such as the current one."],
    message: Annotated[str | None, "One line for the log."] = None,
) -> dict[str, Any]:
    """Bring the present branch, or another, into a third, without leaving the current one.

    With conflicts, it changes nothing. Not into the current one: merge.
    """
    with tract.standing_on(target_branch):
        result = tract.merge(source_branch, message=message)
    return {
        "merge_type": result.merge_type.value,
        "branch": result.target_branch,
        "head": result.head,
        "incoming": list(result.incoming),
        "current": tract.current_branch,
    }


@context_tool()
def rebase(tract: Any, target_branch: Annotated[str, "The branch to continue from."]) -> dict[str, Any]:
    """Replay the commits of the current branch on top of another one. With conflicts, it changes nothing.

    Not for a branch that others work on: merge.
    """
    before = tract.head
    result = tract.rebase(target_branch)
    return {
        "branch": tract.current_branch,
        "target_branch": result.target_branch,
        "old_head": before,
        "head": tract.head,
    }


@context_tool()
def archive(
    tract: VersionedContext,
    branch: Annotated[str, "The branch to put away; not the current one."],
    name: Annotated[str | None, "Its new name; default: archive/ and the old one."] = None,
) -> dict[str, Any]:
    """Put a finished branch away under another name; its commits stay, and branch restores it.

    Not to delete for good: gc.
    """
    new = name or f"archive/{branch}"
    with tract.batch():
        tip = tract.branch(new, source=branch, switch=False)
        tract.delete_branch(branch, force=True)
    return {"branch": branch, "name": new, "head": tip}


@context_tool()
def cherry_pick(
    tract: VersionedContext,
    names: Annotated[list[str], "The commits to copy, in this order: hashes, prefixes or branches."],
) -> dict[str, Any]:
    """Copy just one commit, or a few, from other branches to the tip of the current one: all of them, or none.

    Not for a whole branch: merge.
    """
    result = tract.import_commits(names)
    return {"branch": tract.current_branch, "head": tract.head, "commits": list(result.commits)}


@context_tool(destructive=True)  # gc later deletes the commits that no branch reaches
def reset(tract: VersionedContext, target: CommitName) -> dict[str, Any]:
    """Undo: move the current branch back to another commit; later ones leave the context.

    It is neither soft nor hard: they stay addressable, ORIG_HEAD names the old tip, and gc removes them only
    after some days. Not for a mere look: checkout.
    """
    return {"branch": tract.current_branch, "head": tract.reset(target)}


@context_tool()
def tag(tract: VersionedContext, commit_hash: CommitName, tag: _Tag) -> dict[str, Any]:
    """Label a commit or its message with a tag, such as decision, to find it again.

    Not to keep it from being compressed: annotate.
    """
    tract.tags.add(commit_hash, tag)
    return _tags_of(tract, commit_hash)


@context_tool()
def untag(tract: VersionedContext, commit_hash: CommitName, tag: _Tag) -> dict[str, Any]:
    """Remove a tag, a label, from a commit or its message. Tags from its creation stay.

    Not to hide the commit: annotate it with skip.
    """
    removed = tract.tags.remove(commit_hash, tag)
    return {**_tags_of(tract, commit_hash), "removed": removed}


@context_tool()
def register_tag(
    tract: VersionedContext, name: _Tag, description: Annotated[str, "Its purpose."] = ""
) -> dict[str, Any]:
    """Write down the meaning of a tag, so all use it in one sense. Not to label a commit: tag."""
    tract.tags.register(name, description)
    return {"name": name, "description": description}


def _tags_of(tract: VersionedContext, commit_hash: str) -> dict[str, Any]:
    return {"commit_hash": tract.resolve_commit(commit_hash), "tags": list(tract.tags.of(commit_hash))}


@context_tool()
def configure_model(
    tract: Any,
    model: Annotated[str | None, "Its name at the provider; default: the usual one."] = None,
    operation: Annotated[
        ModelOperation,
        "chat: replies; compress: summaries; merge: guidance on conflicts; tool_result: shortening answers of "
        "tools; consult: decisions.",
    ] = "chat",
    temperature: Annotated[float | None, "0 or more; default: the usual one."] = None,
) -> dict[str, Any]:
    """Use another model, such as a cheaper one, or another temperature, for one kind of request: replies, summaries.

    Not for one request alone: it holds from now on.
    """
    options = tract.models.configure(model, operation=operation, temperature=temperature)
    return {"operation": operation, **options}


@context_tool(read_only=True)
def compile_(tract: VersionedContext) -> dict[str, Any]:
    """Show all messages exactly as the model would receive them, with their number of tokens.

    Not for its size or the latest commits: status and log cost less.
    """
    context = tract.compile()
    return {
        "messages": openai_messages(context.messages),
        "token_count": context.token_count,
        "token_source": context.token_source,
    }


@context_tool(read_only=True)
def status(tract: Any) -> dict[str, Any]:
    """Show the current branch, the number of commits and messages, the tokens used and the budget.

    Not for its content: log.
    """
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
    tract: VersionedContext,
    limit: Annotated[int, "How many, newest first."] = 20,
    op_filter: Annotated[
        Literal["append", "edit", "annotate", "merge"] | None, "Only commits that do this."
    ] = None,
) -> list[dict[str, Any]]:
    """List the latest commits of the current branch with their hashes, without their contents.

    Not for their text: get_commit for one, compile for all.
    """
    return [commit_summary(info) for info in tract.log(limit, op_filter=op_filter)]


@context_tool(read_only=True)
def diff(
    tract: VersionedContext,
    commit_a: Annotated[str | None, "The commit to compare with; default: the one before commit_b."] = None,
    commit_b: Annotated[str | None, "The commit to look at; default: HEAD."] = None,
) -> dict[str, Any]:
    """Compare the context at two commits and show what changed: messages added, removed and edited.

    Not for one commit alone: get_commit.
    """
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
        "old": None if diff.old is None else diff.old.told,
        "new": None if diff.new is None else diff.new.told,
        "token_delta": diff.token_delta,
    }


@context_tool(read_only=True)
def get_commit(tract: VersionedContext, commit_hash: CommitName) -> dict[str, Any]:
    """Read one single commit with its full text. Not for many: compile."""
    info = tract.get_commit(commit_hash)
    return {**commit_summary(info), "content": tract.get_content(info.commit_hash)}


@context_tool(read_only=True)
def list_branches(tract: VersionedContext) -> list[dict[str, Any]]:
    """List which branches there are, and which one is the current one. Not for their commits: log."""
    return [
        {"name": branch.name, "head": branch.commit_hash, "current": branch.is_current}
        for branch in tract.list_branches()
    ]


@context_tool(read_only=True)
def get_tags(tract: VersionedContext, commit_hash: CommitName) -> list[str]:
    """List which tags, or labels, one commit or its message has. Not to find commits by them: query_by_tags."""
    return list(tract.tags.of(commit_hash))


@context_tool(read_only=True)
def list_tags(tract: VersionedContext) -> list[dict[str, Any]]:
    """List which tags exist, the purpose of each, and how often it is used. Not for one commit: get_tags."""
    return [
        {"name": tag.name, "description": tag.description, "count": tag.count} for tag in tract.tags.list()
    ]


@context_tool(read_only=True)
def query_by_tags(
    tract: VersionedContext,
    tags: Annotated[list[str], "The tags to look for."],
    match: Annotated[Literal["any", "all"], "all: only commits with every tag."] = "any",
    limit: Annotated[int, "How many, newest first."] = 20,
) -> list[dict[str, Any]]:
    """Find every commit or message of the current branch that is labelled with any, or all, of some tags, newest first.

    Not for the tags of one commit: get_tags.
    """
    return [commit_summary(info) for info in tract.history.query_by_tags(tags, match=match, limit=limit)]


@context_tool(read_only=True)
def query_by_text(
    tract: VersionedContext,
    text: Annotated[str, "A word or a phrase of the message, in any case."],
    limit: Annotated[int, "How many, newest first."] = 20,
) -> list[dict[str, Any]]:
    """Find every message of the current branch whose text contains a word or phrase, newest first.

    Not for labels: query_by_tags.
    """
    return [commit_summary(info) for info in tract.history.query_by_text(text, limit=limit)]


@context_tool(read_only=True)
def child_status(
    tract: VersionedContext,
    child: Annotated[str | None, "Its id; default: all children."] = None,
) -> list[dict[str, Any]]:
    """Tell how this tract's children, its subagents, are doing: purpose, branch, commits and tokens of each.

    Not for this tract itself: status.
    """
    return [
        {
            "child": info.child_tract_id,
            "purpose": info.purpose,
            "branch": position.branch,
            "head": position.commit_hash,
            "commit_count": position.generation + 1,
            "token_count": position.context_tokens,
        }
        for info, position in tract.family.standing(child)
    ]


_POLICY_TYPES = Literal["compress", "pin", "branch", "merge", "rebase", "gc", "archive", "orchestrate"]
_PolicyName = Annotated[str, "The name of the policy."]


@context_tool()
def register_policy(
    tract: Any,
    type: Annotated[_POLICY_TYPES, "Its action."],  # noqa: A002 # the tool's own parameter
    name: Annotated[str | None, "Its name; default: auto- and the type."] = None,
    config: Annotated[dict[str, Any] | None, 'Its settings, such as {"threshold": 0.8}.'] = None,
) -> dict[str, Any]:
    """Add a policy, an automatic rule: from now on it watches the context.

    It proposes the action of its type, and the user decides. Not for one action now: use the tool itself.
    """
    settings = {"autonomy": "collaborative", **(config or {})}
    if settings["autonomy"] == "autonomous":
        raise ContentError(
            "a policy from a model must ask the user; set its autonomy to 'manual' or 'collaborative'"
        )
    policy_name = name or f"auto-{type}"
    if any(row.name == policy_name for row in tract.policies.list()):
        raise ContentError(
            f"the policy {policy_name!r} already exists; unregister it first, or choose another name"
        )
    return _policy(tract, tract.policies.add(type, name=policy_name, **settings))


@context_tool()
def unregister_policy(tract: Any, name: _PolicyName) -> dict[str, Any]:
    """Delete a policy, an automatic rule, for good, with its state. Not for a moment: toggle_policy."""
    tract.policies.remove(name)
    return {"name": name, "removed": True}


@context_tool()
def toggle_policy(
    tract: Any,
    name: _PolicyName,
    on: Annotated[bool, "True: it watches again. False: it pauses."],  # a tool's own parameter
) -> dict[str, Any]:
    """Switch a policy off for a moment, or on again, without losing its settings. Not for good: unregister_policy."""
    if on and _policy(tract, name).get("missing"):
        raise ContentError(f"the policy {name!r} is not approved here, and only the user can take it over")
    (tract.policies.on if on else tract.policies.off)(name)
    return _policy(tract, name)


def _policy(tract: Any, name: str) -> dict[str, Any]:
    for row in tract.policies.list():
        if row.name == name:
            return {
                "name": name,
                "type": row.type,
                "on": row.is_on,
                "config": dict(row.config),
                "missing": row.missing,
            }
    return {}


_PAGE: Final = 12_000


@context_tool(read_only=True)
def read_result(
    tract: VersionedContext,
    tool_call_id: Annotated[str, "The call with the cut result; the note at its end names it."],
    start: Annotated[int, "The first character to read; 0 is the beginning."] = 0,
    length: Annotated[int, "How many characters, at most 12,000."] = _PAGE,
) -> str:
    """Read the rest of a tool's answer, an earlier result, that was cut off because it was too long.

    Not for messages: get_commit.
    """
    results = [
        result for result in tract.tool_turns.results() if result.metadata.get("tool_call_id") == tool_call_id
    ]
    if not results:
        return f"[no call {tool_call_id!r} has a result here; the note at the end of a cut result names its call]"
    newest = results[-1]
    content = newest.metadata.get("original_content")
    if content is None:
        payload = tract.get_content(newest.commit_hash)["payload"]
        content = payload["content"] if set(payload) == {"content"} else payload
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    start, length = max(start, 0), min(max(length, 1), _PAGE)
    end = min(start + length, len(text))
    if start >= len(text):
        return f"[there is nothing at {start:,}: the result has {len(text):,} characters]"
    rest = f"continue with start={end}" if end < len(text) else "this is the end"
    return f"{text[start:end]}\n[characters {start:,} to {end:,} of {len(text):,}; {rest}]"
