"""The tools that work on the context itself. They return plain data, as a script or a model needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.toolkit.definitions import ToolDefinition, Traits

if TYPE_CHECKING:
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.tract import Tract

_READS = Traits(read_only=True)
Name = Annotated[str, "A commit: its hash, a prefix of at least 4 digits, a branch, or HEAD."]


def context_tools(tract: Tract) -> list[ToolDefinition]:
    """The tools of one tract."""
    functions = _ContextTools(tract)
    reading = (
        functions.compile,
        functions.log,
        functions.status,
        functions.list_branches,
        functions.get_commit,
    )
    writing = (functions.commit, functions.annotate, functions.branch, functions.switch)
    return [
        *(ToolDefinition.from_function(f, traits=_READS, owner="tract") for f in reading),
        *(ToolDefinition.from_function(f, owner="tract") for f in writing),
    ]


class _ContextTools:
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
        """Add a commit to the context: a message, an instruction, an artifact, or an edit of one."""
        info = self._tract.commit(
            content,
            operation=operation,
            message=message,
            edit_target=edit_target,
            metadata=metadata,
            generation_config=generation_config,
            tags=tags or (),
        )
        return _summary(info)

    def compile(self) -> dict[str, Any]:
        """Return the messages that the context stands for now, with their number of tokens."""
        context = self._tract.compile()
        return {
            "messages": context.to_dicts(),
            "token_count": context.token_count,
            "token_source": context.token_source,
        }

    def log(self, limit: Annotated[int, "How many, newest first."] = 20) -> list[dict[str, Any]]:
        """List the newest commits of the current branch."""
        return [_summary(info) for info in self._tract.log(limit)]

    def status(self) -> dict[str, Any]:
        """Tell the branch, the number of commits and messages, and the tokens in use."""
        status = self._tract.status()
        return {
            "branch": status.branch,
            "head": status.head,
            "commit_count": status.commit_count,
            "message_count": status.message_count,
            "token_count": status.token_count,
            "token_source": status.token_source,
        }

    def get_commit(self, commit_hash: Name) -> dict[str, Any]:
        """Return one commit with its content."""
        info = self._tract.get_commit(commit_hash)
        return {**_summary(info), "content": self._tract.get_content(info.commit_hash)}

    def annotate(
        self,
        target_hash: Name,
        priority: Annotated[
            Literal["skip", "normal", "important", "pinned"],
            "skip leaves it out of the context; pinned always stays.",
        ],
        reason: Annotated[str, "Why, for the log."] = "",
    ) -> dict[str, Any]:
        """Change how much a commit matters."""
        self._tract.annotate(target_hash, priority, reason=reason)
        return _summary(self._tract.get_commit(target_hash))

    def branch(
        self,
        name: Annotated[str, "Such as topic/first-try."],
        source: Annotated[str | None, "Where it begins; HEAD if left out."] = None,
        switch: Annotated[bool, "Make it the current branch."] = True,  # noqa: FBT002 # a tool's own parameter
    ) -> dict[str, Any]:
        """Make a branch, to try something without touching the current one."""
        tip = self._tract.branch(name, source=source, switch=switch)
        return {"branch": name, "head": tip, "current": self._tract.current_branch}

    def switch(self, target: Annotated[str, "The branch."]) -> dict[str, Any]:
        """Make a branch the current one."""
        return {"branch": target, "head": self._tract.switch(target)}

    def list_branches(self) -> list[dict[str, Any]]:
        """List all branches."""
        return [
            {"name": branch.name, "head": branch.commit_hash, "current": branch.is_current}
            for branch in self._tract.list_branches()
        ]


def _summary(info: CommitInfo) -> dict[str, Any]:
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
