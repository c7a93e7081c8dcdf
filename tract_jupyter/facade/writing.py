"""Writing commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import ContentError, EditTargetError, nearest
from tract_jupyter.facade.parts import Parts
from tract_jupyter.models.checks import check_budget, check_dict
from tract_jupyter.models.commit import CommitOperation
from tract_jupyter.models.compression import Retention
from tract_jupyter.models.content import Priority
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from pydantic import BaseModel

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.config import TokenBudget
    from tract_jupyter.models.toolcall import ToolCall


class Writing(Parts):
    """The part of `Tract` that writes commits."""

    def commit(
        self,
        content: BaseModel | dict[str, Any],
        *,
        operation: CommitOperation | Literal["append", "edit"] = CommitOperation.APPEND,
        edit_target: str | None = None,
        message: str | None = None,
        priority: Priority | str | None = None,
        retain: str | None = None,
        retain_match: Sequence[str] = (),
        retain_match_mode: Literal["substring", "regex"] = "substring",
        metadata: dict[str, Any] | None = None,
        generation_config: dict[str, Any] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tags: Iterable[str] = (),
    ) -> CommitInfo:
        """Add a commit to the current branch.

        Args:
            content: a content model, or its dict with a `content_type`.
            operation: `append`, or `edit` to take the place of `edit_target`.
            edit_target: hash, prefix or branch of the commit to replace, in the current branch's history.
            message: one line for the log; made from the text if left out.
            priority: instead of the content type's own; for an edit, instead of the edited commit's.
            retain: what a compression must keep of it, in words for whoever writes the summary.
            retain_match: texts that the summary must contain.
            retain_match_mode: whether those are substrings or regular expressions.
            metadata: anything with a JSON form. `tool_calls`, `tool_call_id`, `name` and `is_error` reach the message.
            generation_config: model and parameters it was made with.
            tools: the tools offered from here on, in OpenAI's shape, instead of those of `set_tools`.
            tags: labels, part of the commit for good.

        Raises:
            ContentError: the content, or an option, is not valid.
            EditTargetError: there is nothing to edit.
            CommitNotFoundError: `edit_target` names nothing.
            DetachedHeadError: there is no current branch.
            BudgetExceededError: the budget refuses it.
        """
        return self._commits.commit(
            content,
            operation=operation,
            edit_target=edit_target,
            message=message,
            priority=priority,
            retain=retain,
            retain_match=retain_match,
            retain_match_mode=retain_match_mode,
            metadata=metadata,
            generation_config=generation_config,
            tools=tools,
            tags=tags,
        )

    def system(self, text: str, *, edit: str | None = None, **options: Any) -> CommitInfo:
        """Commit an instruction; `edit` names one to replace. Options as for `commit`.

        Raises:
            TractError: as `commit` does.
            TypeError: there is no such option.
        """
        return self._say({"content_type": "instruction", "text": text}, edit, options)

    def user(
        self, text: str, *, name: str | None = None, edit: str | None = None, **options: Any
    ) -> CommitInfo:
        """Commit what the user says; `edit` names a commit to replace. Options as for `commit`.

        Raises:
            TractError: as `commit` does.
            TypeError: there is no such option.
        """
        return self._say(
            {"content_type": "dialogue", "role": "user", "text": text, "name": name}, edit, options
        )

    def assistant(
        self,
        text: str,
        *,
        name: str | None = None,
        tool_calls: Sequence[ToolCall | dict[str, Any]] = (),
        edit: str | None = None,
        **options: Any,
    ) -> CommitInfo:
        """Commit what the model says; `edit` names a commit to replace. Options as for `commit`.

        Args:
            text: what it says.
            name: who, among several models.
            tool_calls: the tools it calls, in OpenAI's or Anthropic's shape.
            edit: a commit to replace.
            **options: as for `commit`.

        Raises:
            TractError: as `commit` does; `ContentError` also if a tool call is none.
            TypeError: there is no such option.
        """
        if tool_calls:
            options["metadata"] = {**metadata_of(options), "tool_calls": tool_calls}
        content = {"content_type": "dialogue", "role": "assistant", "text": text, "name": name}
        return self._say(content, edit, options)

    def reasoning(
        self,
        text: str,
        *,
        format: str = "parsed",  # noqa: A002 # the field's name
        edit: str | None = None,
        **options: Any,
    ) -> CommitInfo:
        """Commit a model's reasoning, which is left out of the context unless `compile(include_reasoning=True)`.

        Raises:
            TractError: as `commit` does.
            TypeError: there is no such option.
        """
        return self._say({"content_type": "reasoning", "text": text, "format": format}, edit, options)

    def annotate(
        self,
        target_hash: str,
        priority: Priority | str,
        *,
        reason: str | None = "",
        retain: str | None = None,
        retain_match: Sequence[str] = (),
        retain_match_mode: Literal["substring", "regex"] = "substring",
    ) -> CommitInfo:
        """Give a commit another priority on the current branch: skip, normal, important, pinned.

        It is a commit itself: other branches do not see it, and `undo` takes it back.

        Args:
            target_hash: hash, prefix or branch of a commit in the current branch's history.
            priority: the new one.
            reason: why, for the log.
            retain: what a compression must keep of it, in words.
            retain_match: texts that a summary must contain.
            retain_match_mode: whether those are substrings or regular expressions.

        Raises:
            ContentError: there is no such priority, or an option is not valid.
            CommitNotFoundError: `target_hash` names nothing.
            EditTargetError: it has no priority, or is not in the history of the current branch.
            DetachedHeadError: there is no current branch.
        """
        retention = Retention.of(retain, retain_match, retain_match_mode)
        return self._commits.annotate(
            target_hash, Priority(priority), "" if reason is None else reason, retention
        )

    def batch(self) -> AbstractContextManager[None]:
        """Write all commits of a `with` block in one transaction: fast, and all of them or none."""
        return self._writer.batch()

    def set_tools(self, tools: list[dict[str, Any]] | None) -> None:
        """Link tools, in OpenAI's shape, to each commit from now on; None stops that.

        Raises:
            ContentError: these are no tools.
        """
        self._toolsets.offer(tools)

    def get_tools(self) -> list[dict[str, Any]]:
        """What `set_tools` set."""
        return list(self._toolsets.offered)

    def get_commit_tools(self, commit_hash: str) -> list[dict[str, Any]]:
        """The tools that a commit is linked to.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return list(self._toolsets.get(self._commits.entry(commit_hash).tools_hash))

    def register_content_type(self, name: str, model: type[BaseModel]) -> None:
        """Accept contents of a type of your own: a pydantic model, committed as itself or as its dict.

        Reading them back needs no registration.

        Raises:
            ContentError: the name is taken, too long or no identifier, or this is no pydantic model.
        """
        self._types.register(name, model)

    def restore(self, commit_hash: str, version: int = 0, *, message: str | None = None) -> CommitInfo:
        """Edit a message back to one of its versions, see `edit_history`.

        Args:
            commit_hash: hash, prefix or branch of the message, or of an edit of it.
            version: 0 is the original, 1 its first edit; negative ones count from the newest, which is -1.
            message: one line for the log.

        Raises:
            ContentError: the version is no whole number.
            CommitNotFoundError: `commit_hash` names nothing.
            EditTargetError: it has no such version, or is not in the history of the current branch.
            DetachedHeadError: there is no current branch.
        """
        if type(version) is not int:
            raise ContentError(f"version is a whole number, and 0 the original; not {brief_repr(version)}")
        versions = self._history.versions(commit_hash)
        if not -len(versions) <= version < len(versions):
            raise EditTargetError(
                f"{commit_hash!r} has {len(versions)} versions, 0 to {len(versions) - 1}; got {version}"
            )
        wanted = self._commits.entry(versions[version].commit_hash)
        return self._commits.commit(
            wanted.content,
            operation="edit",
            edit_target=versions[0].commit_hash,
            message=message or f"restore version {version} of {versions[0].short_hash}",
            metadata=wanted.metadata,
            generation_config=wanted.generation_config,
        )

    @property
    def budget(self) -> TokenBudget | None:
        """How large the context may become."""
        return self._commits.budget

    @budget.setter
    def budget(self, budget: TokenBudget | None) -> None:
        """Set it, or None for no limit.

        Raises:
            ContentError: it is no `TokenBudget`.
        """
        check_budget(budget)
        self._commits.budget = budget

    def _say(self, content: dict[str, Any], edit: str | None, options: dict[str, Any]) -> CommitInfo:
        if edit is not None:
            options = {**options, "operation": CommitOperation.EDIT, "edit_target": edit}
        check_options(options)
        return self._commits.commit(content, **options)


_OPTIONS: Final = frozenset(Writing.commit.__kwdefaults__ or ())


def check_options(options: dict[str, Any]) -> None:
    """Check that there are such options of `commit`.

    Raises:
        TypeError: there is another one; as Python says it of its own.
    """
    if _OPTIONS.issuperset(options):
        return
    unknown = next(name for name in options if name not in _OPTIONS)
    known = ", ".join(Writing.commit.__kwdefaults__ or ())
    raise TypeError(f"commit() has no option {unknown!r}.{nearest(unknown, _OPTIONS)} It takes {known}")


def metadata_of(options: dict[str, Any]) -> dict[str, Any]:
    """The metadata among the options.

    Raises:
        ContentError: it is no dict.
    """
    given: dict[str, Any] | None = options.get("metadata")
    if given is None:
        return {}
    check_dict(given, "metadata")
    return given
