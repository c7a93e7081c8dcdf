"""Tools that add to the context, weigh it, and make it smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.toolkit.context_tools.common import WRITES, Name, define, summary
from tract_jupyter.toolkit.definitions import Traits

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.tract import Tract


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
