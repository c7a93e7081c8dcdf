"""Tools that add to the context, weigh it, and make it smaller."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from tract_jupyter.llm.configured import ModelOperation  # noqa: TC001 # the tool's schema is made of it
from tract_jupyter.prompts.tool_descriptions import FULL
from tract_jupyter.toolkit.definitions import BUILT_IN, ToolDefinition, Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.diff import MessageDiff
    from tract_jupyter.tract import Tract


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


def writing_tools(tract: Tract) -> list[ToolDefinition]:
    """`commit`, `annotate`, `compress` and `gc`."""
    functions = _Writing(tract)
    return [
        *define(WRITES, functions.commit, functions.annotate),
        # it may send the messages to the configured model; the originals stay, so nothing is destroyed
        *define(Traits(open_world=True), functions.compress),
        *define(Traits(destructive=True), functions.gc),
    ]


class _Writing:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def commit(
        self,
        content: Annotated[
            dict[str, Any], 'Such as {"content_type": "dialogue", "role": "user", "text": "..."}.'
        ],
        operation: Annotated[Literal["append", "edit"], "An edit takes its target's place."] = "append",
        message: Annotated[str | None, "One line for the log; made from the text if left out."] = None,
        edit_target: Annotated[str | None, "With an edit: the commit to replace."] = None,
        metadata: Annotated[dict[str, Any] | None, "Anything worth keeping beside it."] = None,
        generation_config: Annotated[dict[str, Any] | None, "Model and parameters it was made with."] = None,
        tags: Annotated[list[str] | None, "Labels to find it by."] = None,
    ) -> dict[str, Any]:
        info = self._tract.commit(
            content,
            operation=operation,
            message=message,
            edit_target=edit_target,
            metadata=metadata,
            generation_config=generation_config,
            tags=tags or (),
        )
        return summary(info)

    def annotate(
        self,
        target_hash: Name,
        priority: Annotated[
            Literal["skip", "normal", "important", "pinned"],
            "skip leaves it out of the context; pinned always stays.",
        ],
        reason: Annotated[str, "Why, for the log."] = "",
    ) -> dict[str, Any]:
        target = self._tract.resolve_commit(target_hash)  # before HEAD moves to the annotation
        self._tract.annotate(target, priority, reason=reason)
        return summary(self._tract.get_commit(target))

    def compress(
        self,
        target_tokens: Annotated[int | None, "How long a model should make each summary."] = None,
        from_commit: Annotated[str | None, "The first commit to replace; the beginning if left out."] = None,
        to_commit: Annotated[str | None, "The last commit to replace; HEAD if left out."] = None,
        instructions: Annotated[str | None, "What a model that writes the summaries should keep."] = None,
        content: Annotated[
            str | list[str] | None,
            "The summary; a list of one for each run of messages where pinned or preserved ones stand between. If left "
            "out, the configured model writes them.",
        ] = None,
        preserve: Annotated[
            list[str] | None, "Commits that stay word for word, beside the pinned ones."
        ] = None,
    ) -> dict[str, Any]:
        result = self._tract.compress(
            target_tokens=target_tokens,
            from_commit=from_commit,
            to_commit=to_commit,
            instructions=instructions,
            content=content,
            preserve=preserve or (),
        )
        return {
            "branch": result.branch,
            "head": result.new_head,
            "old_head": result.old_head,
            "summaries": list(result.summaries),
            "replaced": [list(group) for group in result.groups],
            "preserved": list(result.preserved),
            "tokens_before": result.tokens_before,
            "tokens_after": result.tokens_after,
            "token_source": result.token_source,
        }

    def gc(
        self,
        min_age_days: Annotated[float, "Keep what is younger, in days."] = 7,
        dry_run: Annotated[bool, "Only tell what would be removed."] = False,  # noqa: FBT002 # a tool's own parameter
    ) -> dict[str, Any]:
        result = self._tract.gc(orphan_retention_days=min_age_days, dry_run=dry_run)
        return {
            "dry_run": result.dry_run,
            "commits": list(result.commits),
            "contents": result.blobs,
            "bytes": result.bytes,
            "tokens": result.tokens,
        }


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
        return [summary(info) for info in self._tract.history.query_by_tags(tags, match=match, limit=limit)]

    def _tags(self, commit_hash: str) -> dict[str, Any]:
        return {
            "commit_hash": self._tract.resolve_commit(commit_hash),
            "tags": list(self._tract.get_tags(commit_hash)),
        }


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


def model_tools(tract: Tract) -> list[ToolDefinition]:
    """`configure_model`."""
    return define(WRITES, _Models(tract).configure_model)


class _Models:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def configure_model(
        self,
        model: Annotated[str | None, "Its name, as the provider calls it; left out, the usual one."] = None,
        operation: Annotated[
            ModelOperation,
            "chat: replies; compress: summaries; merge: guidance on conflicts; tool_result: shortening answers of "
            "tools; consult: decisions.",
        ] = "chat",
        temperature: Annotated[float | None, "From 0 on; left out, the usual one."] = None,
    ) -> dict[str, Any]:
        options = self._tract.configure_model(model, operation=operation, temperature=temperature)
        return {"operation": operation, **options}
