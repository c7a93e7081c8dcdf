"""A versioned context: messages, reads, branches and tags.

`Tract` adds operations, models, tools and runs. Each method calls the module that does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from tract_jupyter.context.commits import with_calls
from tract_jupyter.context.repository import Repository
from tract_jupyter.exceptions import ContentError, EditTargetError
from tract_jupyter.models import (
    CommitOperation,
    CompiledContext,
    Priority,
    Retention,
    brief_repr,
    check_budget,
    commit_text,
    display_text,
)
from tract_jupyter.storage import APPEND, EDIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pydantic import BaseModel

    from tract_jupyter.context.commits import CommitOptions
    from tract_jupyter.context.compile import CompileRecords
    from tract_jupyter.context.files import Attachable
    from tract_jupyter.context.log import History
    from tract_jupyter.context.spawn import Family
    from tract_jupyter.context.tags import Tags
    from tract_jupyter.context.tool_turns import ToolTurns
    from tract_jupyter.models import (
        Attachment,
        BranchInfo,
        CommitInfo,
        CompressPlan,
        DiffResult,
        ExpandResult,
        ImportResolver,
        ImportResult,
        MergeResult,
        TokenBudget,
        TokenCounter,
        ToolCall,
    )
    from tract_jupyter.storage import Database, Event, Move


class VersionedContext:
    """One versioned, token-counted context in a store.

    Args:
        database: an open database.
        tract_id: a tract of the database; the default tract if omitted.
        tokenizer: counts tokens; tiktoken if its vocabulary is installed, else an estimate.
        budget: the size limit of the context.
        head_name: the ref that names the current branch.
    """

    def __init__(
        self,
        database: Database,
        *,
        tract_id: str | None,
        tokenizer: TokenCounter | None,
        budget: TokenBudget | None,
        head_name: str,
    ) -> None:
        self._repository = Repository(
            database, tract_id=tract_id, tokenizer=tokenizer, budget=budget, head_name=head_name
        )

    @property
    def tract_id(self) -> str:
        """The id of this tract in its store."""
        return self._repository.tract_id

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return self._repository.database.location

    @property
    def history(self) -> History:
        """Finds commits of the current branch: `pinned`, `skipped`, `versions`, `query_by_text`, ..."""
        return self._repository.history

    @property
    def tool_turns(self) -> ToolTurns:
        """The tool calls on the current branch, with their results and errors."""
        return self._repository.tool_turns

    @property
    def compile_records(self) -> CompileRecords:
        """The records of contexts sent to a model."""
        return self._repository.compile_records

    @property
    def tags(self) -> Tags:
        """The tags of commits: `add`, `remove`, `of`, `register`, `list`."""
        return self._repository.tags

    @property
    def family(self) -> Family:
        """The parents and children of this tract; a `Session` creates them."""
        return self._repository.family

    # --- writing

    def commit(  # noqa: PLR0913 # keyword-only, independent options
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
        attachments: Sequence[Attachable] = (),
    ) -> CommitInfo:
        """Add a commit to the current branch.

        Args:
            content: a content model, or its dict with a `content_type`.
            operation: `append`, or `edit` to replace `edit_target`.
            edit_target: hash, prefix or branch of the commit to replace, in the current branch's history.
            message: one line for the log; derived from the text if omitted.
            priority: replaces the default of the content type; for an edit, the edited commit's priority.
            retain: the facts that a summary must keep, in words for its author.
            retain_match: texts that the summary must contain.
            retain_match_mode: `retain_match` has substrings or regular expressions.
            metadata: anything with a JSON form. `tool_calls`, `tool_call_id`, `name` and `is_error` become part of the
                message.
            generation_config: the model and its parameters.
            tools: the tools from this commit on, in OpenAI's shape.
            tags: permanent labels of the commit.
            attachments: images, PDFs and texts for a user message: paths within the workspace, or results of
                `workspace.read`.

        Raises:
            AttachmentError: a file cannot be attached; nothing was committed.
            ContentError: the content or an option is invalid.
            EditTargetError: the target cannot be edited.
            CommitNotFoundError: unknown commit `edit_target`.
            DetachedHeadError: there is no current branch.
            BudgetExceededError: the result exceeds the token budget.
        """
        if edit_target is not None:
            self._repository.before_rewrite(edit_target)
        return self._repository.commits.commit(
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
            attachments=attachments,
        )

    def system(self, text: str, *, edit: str | None = None, **options: Unpack[CommitOptions]) -> CommitInfo:
        """Commit an instruction.

        Args:
            text: the instruction.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`.

        Raises:
            TractError: as for `commit`.
            TypeError: unknown option.
        """
        return self._say({"content_type": "instruction", "text": text}, edit, options)

    def user(
        self,
        text: str,
        *,
        name: str | None = None,
        edit: str | None = None,
        **options: Unpack[CommitOptions],
    ) -> CommitInfo:
        """Commit a user message.

        Args:
            text: the message.
            name: the user's name, among several users.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`; `attachments=["data/photo.png"]` attaches files.

        Raises:
            TractError: as for `commit`.
            TypeError: unknown option.
        """
        content = {"content_type": "dialogue", "role": "user", "text": text, "name": name}
        return self._say(content, edit, options)

    def assistant(
        self,
        text: str,
        *,
        name: str | None = None,
        tool_calls: Sequence[ToolCall | dict[str, Any]] = (),
        edit: str | None = None,
        **options: Unpack[CommitOptions],
    ) -> CommitInfo:
        """Commit an assistant message.

        Args:
            text: the message.
            name: the model's name, among several models.
            tool_calls: its tool calls, in OpenAI's or Anthropic's shape.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`.

        Raises:
            TractError: as for `commit`; `ContentError` also for an invalid tool call.
            TypeError: unknown option.
        """
        content = {"content_type": "dialogue", "role": "assistant", "text": text, "name": name}
        return self._say(content, edit, with_calls(options, tool_calls))

    def reasoning(
        self,
        text: str,
        *,
        format: str = "parsed",  # noqa: A002 # the field's name
        edit: str | None = None,
        **options: Unpack[CommitOptions],
    ) -> CommitInfo:
        """Commit a model's reasoning. The context omits it without `compile(include_reasoning=True)`.

        Args:
            text: the reasoning.
            format: `parsed`, or the provider's own format.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`.

        Raises:
            TractError: as for `commit`.
            TypeError: unknown option.
        """
        return self._say({"content_type": "reasoning", "text": text, "format": format}, edit, options)

    def _say(self, content: dict[str, Any], edit: str | None, options: Any) -> CommitInfo:
        if edit is not None:
            self._repository.before_rewrite(edit)
        return self._repository.commits.say(content, edit, options)

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
        """Set the priority of a commit on the current branch: skip, normal, important, pinned.

        This is itself a commit: other branches do not see it, and `undo` reverts it.

        Args:
            target_hash: hash, prefix or branch of a commit in the current branch's history.
            priority: the new priority.
            reason: the reason, for the log.
            retain: the facts that a summary must keep, in words.
            retain_match: texts that a summary must contain.
            retain_match_mode: `retain_match` has substrings or regular expressions.

        Raises:
            ContentError: unknown priority or invalid option.
            CommitNotFoundError: unknown commit.
            EditTargetError: the commit has no priority, or is not in the history of the current branch.
            DetachedHeadError: there is no current branch.
        """
        retention = Retention.of(retain, retain_match, retain_match_mode)
        commits, new_priority = self._repository.commits, Priority(priority)
        if self._repository.has_blocks and (new_priority == Priority.SKIP) != (
            commits.get(target_hash).priority == Priority.SKIP
        ):
            self._repository.before_rewrite(target_hash)
        return commits.annotate(target_hash, new_priority, reason or "", retention)

    def restore(self, commit_hash: str, version: int = 0, *, message: str | None = None) -> CommitInfo:
        """Edit a message back to an earlier version, see `edit_history`.

        Args:
            commit_hash: hash, prefix or branch of the message, or of an edit of it.
            version: 0 is the original, 1 its first edit; negative numbers count from the newest version, -1.
            message: one line for the log.

        Raises:
            ContentError: the version is not a whole number.
            CommitNotFoundError: unknown commit.
            EditTargetError: unknown version, or the message is not in the history of the current branch.
            DetachedHeadError: there is no current branch.
        """
        if type(version) is not int:
            raise ContentError(
                f"Invalid version {brief_repr(version)}. Use a whole number; 0 is the original."
            )
        versions = self._repository.history.versions(commit_hash)
        if not -len(versions) <= version < len(versions):
            raise EditTargetError(
                f"{commit_hash!r} has {len(versions)} versions, 0 to {len(versions) - 1}; got {version}"
            )
        commits = self._repository.commits
        restored = commits.entry(versions[version].commit_hash)
        return commits.commit(
            restored.content,
            operation=EDIT,
            edit_target=versions[0].commit_hash,
            message=message or f"restore version {version} of {versions[0].short_hash}",
            metadata=restored.metadata,
            generation_config=restored.generation_config,
        )

    def batch(self) -> AbstractContextManager[object]:
        """Write all commits of a `with` block in one transaction: fast, and all or none.

        The block cannot send requests to a model: other writers of the store would wait for the reply.
        """
        return self._repository.writer.batch()

    @property
    def budget(self) -> TokenBudget | None:
        """The size limit of the context; None for no limit."""
        return self._repository.commits.budget

    @budget.setter
    def budget(self, budget: TokenBudget | None) -> None:
        """Set the limit, or None for no limit.

        Raises:
            ContentError: not a `TokenBudget`.
        """
        check_budget(budget)
        self._repository.commits.budget = budget

    # --- reading

    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
    ) -> CompiledContext:
        """Return the messages of the context at HEAD or another commit.

        Args:
            at_commit: hash, prefix or branch of another commit.
            at_time: a time (inclusive); UTC without a time zone.
            include_reasoning: include reasoning, which the context omits by default.

        Raises:
            CommitNotFoundError: unknown commit `at_commit`.
            ContentError: `at_commit` and `at_time` are both set, or the time is invalid.
        """
        compiler = self._repository.compiler
        if self._repository.before_compile is not None and at_commit is None and at_time is None:
            self._repository.before_compile()
        return compiler.compile(at_commit=at_commit, at_time=at_time, include_reasoning=include_reasoning)

    @property
    def tokenizer(self) -> TokenCounter:
        """The token counter of this tract; `corrected` corrects its estimates."""
        return self._repository.counter

    def corrected(self, tokens: int) -> int:
        """Correct an estimate of `tokenizer` with the counts that a provider reported for this tract.

        The method returns exact counts, and estimates without reported counts, unchanged.
        """
        return self._repository.corrections.tokens(tokens, self._repository.counter.name)

    def attachment_tokens(self, attachments: Sequence[Attachment]) -> int:
        """Return the corrected tokens of attachments of this tract; an estimate for images and PDFs.

        Raises:
            StoreCorruptError: the bytes of an attachment are damaged or missing.
        """
        counted = self._repository.files.tokens(attachments, self._repository.counter.count_text)
        return self.corrected(counted)

    def log(
        self,
        limit: int | None = 20,
        *,
        op_filter: str | None = None,
        tags: Collection[str] = (),
        tag_match: Literal["any", "all"] = "any",
        all_branches: bool = False,
    ) -> list[CommitInfo]:
        """Return commits, the newest first.

        Args:
            limit: the maximum number; None for all.
            op_filter: only `append`, `edit`, `annotate` or `merge`.
            tags: only commits with these tags.
            tag_match: with any or all of the tags.
            all_branches: include all branches; otherwise the current branch, by first parents.

        Raises:
            ContentError: unknown operation or another invalid argument.
        """
        return self._repository.history.log(
            limit, operation=op_filter, tags=tags, match=tag_match, all_branches=all_branches
        )

    def get_commit(self, commit_hash: str) -> CommitInfo:
        """Return one commit, by hash, prefix or branch.

        Raises:
            CommitNotFoundError: unknown commit.
            AmbiguousPrefixError: several commits have this prefix.
        """
        return self._repository.commits.get(commit_hash)

    def get_content(self, commit_hash: str) -> dict[str, Any]:
        """Return the committed content as a dict; `get_commit` has the metadata.

        Raises:
            CommitNotFoundError: unknown commit.
        """
        return self._repository.commits.entry(commit_hash).content

    def show(self, commit_hash: str) -> str:
        """Return one commit as text, like `git show`; `print` it.

        Raises:
            CommitNotFoundError: unknown commit.
        """
        commits = self._repository.commits
        info = commits.get(commit_hash)
        text = display_text(commits.entry(commit_hash).content) if info.operation in {APPEND, EDIT} else ""
        return commit_text(info, text, self.tags.of(commit_hash))

    def resolve_commit(self, name: str) -> str:
        """Return the full hash for a hash, prefix, branch, `HEAD` or `ORIG_HEAD`.

        Raises:
            CommitNotFoundError: unknown commit.
            AmbiguousPrefixError: several commits have this prefix.
        """
        return self._repository.refs.resolve(name)

    def diff(self, commit_a: str | None = None, commit_b: str | None = None) -> DiffResult:
        """Compare the contexts at two commits.

        Args:
            commit_a: hash, prefix or branch; the parent of `commit_b` if omitted.
            commit_b: hash, prefix or branch; HEAD if omitted.

        Raises:
            CommitNotFoundError: unknown commit.
        """
        from tract_jupyter.context.diff import diff_contexts

        compiler, commits = self._repository.compiler, self._repository.commits
        new = compiler.compile(at_commit=commit_b)
        before = commit_a if commit_a is not None else new.head and commits.entry(new.head).parent_hash
        old = compiler.compile(at_commit=before) if before else CompiledContext.empty(new.token_source)
        return diff_contexts(old, new)

    def events(self, event_type: str | None = None, *, limit: int = 100) -> list[Event]:
        """Return events, newest first.

        Args:
            event_type: only events of this type; `"custom:*"` selects all types with this prefix.
            limit: the maximum number.

        Raises:
            ContentError: the type is not a text, or the limit is not a whole number.
        """
        return self._repository.newest_events(event_type, limit)

    # --- branches

    @property
    def head(self) -> str | None:
        """The hash of the newest commit of the current branch, or the commit of a detached HEAD."""
        return self._repository.refs.position.commit_hash

    @property
    def current_branch(self) -> str | None:
        """The name of the current branch; None if HEAD is detached."""
        return self._repository.refs.position.branch

    def branch(
        self, name: str, *, source: str | None = None, switch: bool = True, is_empty: bool = False
    ) -> str | None:
        """Create a branch at `source` (HEAD by default), switch to it, and return its commit.

        Args:
            name: the name of the new branch.
            source: a commit or a branch.
            switch: make the new branch the current one.
            is_empty: start an empty history and ignore `source`.

        Raises:
            InvalidBranchNameError: invalid name (by git's rules).
            BranchExistsError: the branch exists.
            CommitNotFoundError: unknown commit or branch `source`.
        """
        return self._repository.refs.branch(name, source=source, switch=switch, is_empty=is_empty)

    def switch(self, target: str) -> str | None:
        """Switch to a branch and return its commit; `-` is the previous branch.

        Raises:
            BranchNotFoundError: unknown branch.
        """
        return self._repository.refs.switch(target)

    def checkout(self, target: str) -> str | None:
        """Switch to a branch, or detach HEAD at a commit; `-` returns to the previous position. Returns the commit.

        Raises:
            CommitNotFoundError: `target` is neither a branch nor a commit.
        """
        return self._repository.refs.checkout(target)

    def standing_on(self, branch: str) -> AbstractContextManager[object]:
        """Run a `with` block on another branch: its commits and merges go there, and HEAD does not move.

        Raises:
            BranchNotFoundError: unknown branch; raised within the block.
        """
        refs = self._repository.refs
        return refs.with_head(refs.own_head(branch))

    def reset(self, target: str) -> str:
        """Move the current branch to another commit; `undo` moves it back, and `ORIG_HEAD` names the old position.

        Raises:
            CommitNotFoundError: unknown commit.
            DetachedHeadError: there is no current branch.
        """
        return self._repository.refs.reset(target)

    def list_branches(self) -> list[BranchInfo]:
        """Return all branches, by name."""
        return self._repository.refs.list_branches()

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch; with `force` even if no other branch has its commits.

        Raises:
            BranchNotFoundError: unknown branch.
            BranchError: it is the current branch.
            UnmergedBranchError: no other branch has its commits, and `force` is not set.
        """
        self._repository.refs.delete(name, force=force)

    def reflog(self, limit: int = 100) -> list[Move]:
        """Return the moves of the current branch, newest first, without plain commits."""
        return self._repository.refs.reflog(limit)

    def preview_merge(
        self, source_branch: str, *, strategy: Literal["auto", "strict"] = "auto", no_ff: bool = False
    ) -> MergeResult:
        """Return the result of a `merge`, with its conflicts. Writes nothing.

        Args:
            source_branch: the branch to merge.
            strategy: as for `merge`.
            no_ff: as for `merge`.

        Raises:
            HistoryError: as for `merge`.
            BranchNotFoundError: unknown branch.
            DetachedHeadError: there is no current branch.
        """
        return self._repository.merge.look(source_branch, strategy=strategy, no_ff=no_ff).result

    def import_commits(self, names: Sequence[str], *, resolver: ImportResolver | None = None) -> ImportResult:
        """Copy commits to the tip of the current branch, in this order: all or none.

        A message keeps its content, tags, metadata and tools, and its priority on its branches. An edit or annotation
        changes its target and overrides earlier ones. The target is on this branch or earlier in `names`.

        Args:
            names: hashes, prefixes, or branches (for their newest commits).
            resolver: handles edits and annotations without a target on this branch. `"skip"` omits them, `"append"`
                makes an edit a separate message, and the name of a commit on this branch is a new target. Or a function
                of an `ImportIssue` that returns one of these, or None to refuse.

        Raises:
            HistoryError: this branch already has a commit, a commit is a merge, or a target is missing.
            CommitNotFoundError: unknown commit.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch; nothing was written.
            BudgetExceededError: the result exceeds the token budget.
        """
        from tract_jupyter.context.rebase import import_commits

        return import_commits(self._repository, names, resolver)

    def preview_compress(
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
    ) -> CompressPlan:
        """Return the plan and cost of a `compress`; `print` it. Writes nothing and calls no summarizer.

        Without `content`, the plan assumes summaries of `target_tokens`, or a fifth of the length of their messages.

        Args:
            commits: as for `compress`, like the next five.
            from_commit: the first of a range.
            to_commit: the last of the range.
            content: the summaries, if known.
            preserve: commits to keep.
            target_tokens: the length of each summary.

        Raises:
            CompressionError: as for `compress`.
            CommitNotFoundError: unknown commit.
        """
        from tract_jupyter.context.compress import Range
        from tract_jupyter.context.summaries import Source

        compressor = self._repository.compressor
        selection = compressor.look(Range(commits, from_commit, to_commit, preserve))
        return compressor.preview(selection, Source(content, target_tokens=target_tokens))

    def expand(self, summary_commit: str) -> ExpandResult:
        """Replace a summary of `compress` with its originals, even after more commits.

        The originals return with their edits, priorities and tags. Edits of the summary are lost.

        Raises:
            CompressionError: not a summary of this branch, or its originals are in another tract or removed by `gc`.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process or thread moved the branch; nothing was changed.
        """
        from tract_jupyter.context.splice import expand

        return expand(self._repository, summary_commit)
