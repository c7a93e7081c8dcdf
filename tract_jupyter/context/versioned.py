"""A versioned context by itself: what is said, read, branched and tagged, without anything that acts on it.

`Tract` adds operations, models, tools and runs. Each method calls the module of this package that does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

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
    told_text,
)
from tract_jupyter.storage import APPEND, EDIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pydantic import BaseModel

    from tract_jupyter.context.commits import CommitOptions
    from tract_jupyter.context.compile import CompileRecords, ReorderWarning
    from tract_jupyter.context.files import Attachable
    from tract_jupyter.context.log import History
    from tract_jupyter.context.spawn import Family
    from tract_jupyter.context.tags import Tags
    from tract_jupyter.context.tool_turns import ToolTurns
    from tract_jupyter.context.undo import UndoStep
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
        tract_id: which tract of it; the default one if left out.
        tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
        budget: how large the context may become.
        head_name: the ref that says which branch is the current one.
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
        """The calls of tools on the current branch, their answers, and those that failed."""
        return self._repository.tool_turns

    @property
    def compile_records(self) -> CompileRecords:
        """The contexts that were sent to a model."""
        return self._repository.compile_records

    @property
    def tags(self) -> Tags:
        """The tags of commits: `add`, `remove`, `of`, `register`, `list`."""
        return self._repository.tags

    @property
    def family(self) -> Family:
        """The parents and children of this tract, which a `Session` makes."""
        return self._repository.family

    # --- writing

    def commit(  # noqa: PLR0913 # keyword-only, and each is a choice of its own
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
            attachments: images, PDFs and texts that a message of the user carries: paths within the workspace, or what
                `workspace.read` gave.

        Raises:
            AttachmentError: a file cannot be attached; nothing was committed.
            ContentError: the content, or an option, is not valid.
            EditTargetError: there is nothing to edit.
            CommitNotFoundError: `edit_target` names nothing.
            DetachedHeadError: there is no current branch.
            BudgetExceededError: the budget refuses it.
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
            TractError: as `commit` does.
            TypeError: there is no such option.
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
        """Commit what the user says.

        Args:
            text: what they say.
            name: who, among several users.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`; `attachments=["data/photo.png"]` sends files along.

        Raises:
            TractError: as `commit` does.
            TypeError: there is no such option.
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
        """Commit what the model says.

        Args:
            text: what it says.
            name: who, among several models.
            tool_calls: the tools it calls, in OpenAI's or Anthropic's shape.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`.

        Raises:
            TractError: as `commit` does; `ContentError` also if a tool call is not valid.
            TypeError: there is no such option.
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
        """Commit a model's reasoning, which is left out of the context unless `compile(include_reasoning=True)`.

        Args:
            text: the reasoning.
            format: how it is written: `parsed`, or the provider's own.
            edit: a commit to replace: hash, prefix or branch.
            **options: as for `commit`.

        Raises:
            TractError: as `commit` does.
            TypeError: there is no such option.
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
        commits, given = self._repository.commits, Priority(priority)
        if self._repository.has_blocks and (given == Priority.SKIP) != (
            commits.get(target_hash).priority == Priority.SKIP
        ):
            self._repository.before_rewrite(target_hash)
        return commits.annotate(target_hash, given, reason or "", retention)

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

    def batch(self) -> AbstractContextManager[None]:
        """Write all commits of a `with` block in one transaction: fast, and all of them or none.

        No model is asked within it: every other writer of the store would wait for the reply.
        """
        return self._repository.writer.batch()

    def set_tools(self, tools: list[dict[str, Any]] | None) -> None:
        """Link tools, in OpenAI's shape, to each commit from now on; None stops that.

        Raises:
            ContentError: these are no tools.
        """
        self._repository.toolsets.offer(tools)

    def get_tools(self, commit_hash: str | None = None) -> list[dict[str, Any]]:
        """Return the tools that a commit is linked to; without one, those that `set_tools` set.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        toolsets = self._repository.toolsets
        if commit_hash is None:
            return list(toolsets.offered)
        linked = self._repository.commits.entry(commit_hash).tools_hash
        return [] if linked is None else list(toolsets.get(linked))

    def register_content_type(self, name: str, model: type[BaseModel]) -> None:
        """Accept contents of a type of your own: a pydantic model, committed as itself or as its dict.

        Reading them back needs no registration.

        Raises:
            ContentError: the name is taken, too long or no identifier, or this is no pydantic model.
        """
        self._repository.types.register(name, model)

    @property
    def budget(self) -> TokenBudget | None:
        """The size that the context may have; None for no limit."""
        return self._repository.commits.budget

    @budget.setter
    def budget(self, budget: TokenBudget | None) -> None:
        """Set it, or None for no limit.

        Raises:
            ContentError: it is no `TokenBudget`.
        """
        check_budget(budget)
        self._repository.commits.budget = budget

    # --- reading

    @overload
    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
        order: None = None,
        check_safety: bool = True,
    ) -> CompiledContext: ...
    @overload
    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
        order: Sequence[str],
        check_safety: bool = True,
    ) -> tuple[CompiledContext, list[ReorderWarning]]: ...
    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
        order: Sequence[str] | None = None,
        check_safety: bool = True,
    ) -> CompiledContext | tuple[CompiledContext, list[ReorderWarning]]:
        """Return the messages that HEAD, or another commit, stands for.

        Args:
            at_commit: hash, prefix or branch of another commit.
            at_time: the context as it was then (inclusive); without a zone it is UTC.
            include_reasoning: with the reasoning that is left out by its nature.
            include_edit_annotations: mark edited messages with `[edited]`.
            order: commits to put first, in this order; then the context comes with warnings about what that may break.
            check_safety: look for such things.

        Raises:
            CommitNotFoundError: `at_commit` or a name of `order` names nothing.
            ContentError: `at_commit` and `at_time` are both given, the time is not valid, or `order` is no list.
        """
        compiler = self._repository.compiler
        if self._repository.before_compile is not None and at_commit is None and at_time is None:
            self._repository.before_compile()
        context = compiler.compile(
            at_commit=at_commit,
            at_time=at_time,
            include_reasoning=include_reasoning,
            include_edit_annotations=include_edit_annotations,
        )
        return context if order is None else compiler.reorder(context, order, check_safety=check_safety)

    @property
    def tokenizer(self) -> TokenCounter:
        """The counter of this tract's tokens; `corrected` corrects what it estimates."""
        return self._repository.counter

    def corrected(self, tokens: int) -> int:
        """Correct a number of tokens that `tokenizer` estimated, by what a provider counted in this tract.

        An exact count, or one that no provider's count is known for, is returned as it is.
        """
        return self._repository.corrections.tokens(tokens, self._repository.counter.name)

    def attachment_tokens(self, attachments: Sequence[Attachment]) -> int:
        """Return the tokens of attachments of this tract, corrected like others; of images and PDFs an estimate.

        Raises:
            StoreCorruptError: the bytes of one are damaged or missing.
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
            limit: how many; None for all.
            op_filter: only `append`, `edit`, `annotate` or `merge`.
            tags: only those with these tags.
            tag_match: with any of them, or all.
            all_branches: of every branch; otherwise of the current one, by first parents.

        Raises:
            ContentError: there is no such operation, or another argument is not valid.
        """
        return self._repository.history.log(
            limit, operation=op_filter, tags=tags, match=tag_match, all_branches=all_branches
        )

    def get_commit(self, commit_hash: str) -> CommitInfo:
        """Return one commit, by hash, prefix or branch.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
            AmbiguousPrefixError: several commits begin so.
        """
        return self._repository.commits.get(commit_hash)

    def get_content(self, commit_hash: str) -> dict[str, Any]:
        """Return what was committed, as its dict; the commit's metadata are in `get_commit`.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._repository.commits.entry(commit_hash).content

    def show(self, commit_hash: str) -> str:
        """Return one commit as text, as `git show` does it; `print` it.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        commits = self._repository.commits
        info = commits.get(commit_hash)
        text = told_text(commits.entry(commit_hash).content) if info.operation in {APPEND, EDIT} else ""
        return commit_text(info, text, self.tags.of(commit_hash))

    def resolve_commit(self, name: str) -> str:
        """Return the full hash that a hash, prefix, branch, `HEAD` or `ORIG_HEAD` stands for.

        Raises:
            CommitNotFoundError: `name` names nothing.
            AmbiguousPrefixError: several commits begin so.
        """
        return self._repository.refs.resolve(name)

    def diff(self, commit_a: str | None = None, commit_b: str | None = None) -> DiffResult:
        """Compare the context at one commit with that at another.

        Args:
            commit_a: hash, prefix or branch; the parent of `commit_b` if left out.
            commit_b: the same; HEAD if left out.

        Raises:
            CommitNotFoundError: a name names nothing.
        """
        from tract_jupyter.context.diff import diff_contexts

        compiler, commits = self._repository.compiler, self._repository.commits
        new = compiler.compile(at_commit=commit_b)
        before = commit_a if commit_a is not None else new.head and commits.entry(new.head).parent_hash
        old = compiler.compile(at_commit=before) if before else CompiledContext.empty(new.token_source)
        return diff_contexts(old, new)

    def events(self, event_type: str | None = None, *, limit: int = 100) -> list[Event]:
        """Return what happened, newest first.

        Args:
            event_type: only events of this type; `"custom:*"` gives all types that begin so.
            limit: how many at most.

        Raises:
            ContentError: the type is no text, or the limit is no whole number.
        """
        return self._repository.newest_events(event_type, limit)

    # --- branches

    @property
    def head(self) -> str | None:
        """The hash of the newest commit of the current branch, or the commit that HEAD is detached at."""
        return self._repository.refs.position.commit_hash

    @property
    def current_branch(self) -> str | None:
        """The name of the current branch; None if HEAD is detached."""
        return self._repository.refs.position.branch

    def branch(
        self, name: str, *, source: str | None = None, switch: bool = True, is_empty: bool = False
    ) -> str | None:
        """Make a branch at `source` (HEAD by default), switch to it, and return its commit.

        Args:
            name: the name of the new branch.
            source: a commit or a branch.
            switch: make the new branch the current one.
            is_empty: begin an empty history; `source` is ignored.

        Raises:
            InvalidBranchNameError: git would refuse the name.
            BranchExistsError: there is such a branch.
            CommitNotFoundError: `source` names nothing.
        """
        return self._repository.refs.branch(name, source=source, switch=switch, is_empty=is_empty)

    def switch(self, target: str) -> str | None:
        """Make a branch the current one and return its commit; `-` is the one before.

        Raises:
            BranchNotFoundError: there is no such branch.
        """
        return self._repository.refs.switch(target)

    def checkout(self, target: str) -> str | None:
        """Switch to a branch, or detach HEAD at a commit; `-` goes back to where HEAD was. Returns the commit.

        Raises:
            CommitNotFoundError: `target` is neither a branch nor a commit.
        """
        return self._repository.refs.checkout(target)

    def standing_on(self, branch: str) -> AbstractContextManager[object]:
        """Have a `with` block stand on another branch: what it commits or merges goes there, and HEAD stays.

        Raises:
            BranchNotFoundError: within the block, if there is no such branch.
        """
        refs = self._repository.refs
        return refs.with_head(refs.own_head(branch))

    def reset(self, target: str) -> str:
        """Move the current branch to another commit; `undo` moves it back, `ORIG_HEAD` names where it was.

        Raises:
            CommitNotFoundError: `target` names nothing.
            DetachedHeadError: there is no current branch.
        """
        return self._repository.refs.reset(target)

    def list_branches(self) -> list[BranchInfo]:
        """Return all branches, by name."""
        return self._repository.refs.list_branches()

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch; `force` even if no other branch holds its commits.

        Raises:
            BranchNotFoundError: there is no such branch.
            BranchError: it is the current one.
            UnmergedBranchError: it has commits of its own, and `force` is not given.
        """
        self._repository.refs.delete(name, force=force)

    def undo(self) -> UndoStep:
        """Take back the last operation on the current branch: a commit, merge, compression, reset, ...

        Raises:
            HistoryError: there is nothing to undo, or `gc` removed what it would go back to.
            DetachedHeadError: there is no current branch.
        """
        return self._repository.undo.run()

    def redo(self) -> UndoStep:
        """Do again what was undone last.

        Raises:
            HistoryError: nothing was undone since the last commit.
            DetachedHeadError: there is no current branch.
        """
        return self._repository.undo.run(redo=True)

    def preview_undo(self, *, redo: bool = False) -> UndoStep:
        """Return what `undo`, or `redo`, would move. Changes nothing."""
        return self._repository.undo.preview(redo=redo)

    def reflog(self, limit: int = 100) -> list[Move]:
        """Return the moves of the current branch, newest first; plain commits are not among them."""
        return self._repository.refs.reflog(limit)

    def preview_merge(
        self, source_branch: str, *, strategy: Literal["auto", "strict"] = "auto", no_ff: bool = False
    ) -> MergeResult:
        """Return what `merge` would do, with the conflicts that it would need decided. Writes nothing.

        Args:
            source_branch: the branch to merge.
            strategy: as for `merge`.
            no_ff: as for `merge`.

        Raises:
            HistoryError: as for `merge`.
            BranchNotFoundError: there is no such branch.
            DetachedHeadError: there is no current branch.
        """
        return self._repository.merge.look(source_branch, strategy=strategy, no_ff=no_ff).result

    def import_commits(self, names: Sequence[str], *, resolver: ImportResolver | None = None) -> ImportResult:
        """Copy commits from elsewhere to the tip of the current branch, in this order: all of them, or none.

        A message comes as it was committed, with its tags, metadata and tools, and with the priority it has on the
        branches that hold it. An edit or annotation acts on its target, which is here or among `names` before it, and
        overrules earlier ones.

        Args:
            names: hashes, prefixes, or branches, which stand for their newest commit.
            resolver: what to do with an edit or annotation whose target is not here: `"skip"` to leave it out,
                `"append"` to make an edit a message of its own, or the name of a commit that is here to change instead;
                or a function that is given an `ImportIssue` and returns one of these, or None to refuse.

        Raises:
            HistoryError: a commit is here already or is a merge, or the target of one is not here.
            CommitNotFoundError: a name names nothing.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch meanwhile; nothing was written.
            BudgetExceededError: the budget refuses it.
        """
        return self._repository.imports.run(names, resolver)

    def preview_compress(
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
        cached_read: float = 0.1,
        output_price: float = 5.0,
    ) -> CompressPlan:
        """Return what `compress` would do and cost; `print` it. Writes nothing and calls no summarizer.

        Without `content` the summaries are taken to be as long as `target_tokens`, or a fifth of what they stand for.

        Args:
            commits: as for `compress`, like the five after it.
            from_commit: the first of a range.
            to_commit: the last of it.
            content: the summaries, if they are known.
            preserve: what stays.
            target_tokens: how long each summary would be.
            cached_read: the price of a token that a provider has cached, as a part of that of an input token: 0.1 with
                Anthropic (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching).
            output_price: the price of a token that a summarizer writes, as a multiple of that of an input token.

        Raises:
            CompressionError: as for `compress`.
            CommitNotFoundError: there is no such commit.
        """
        from tract_jupyter.context.compress import Range, Rates
        from tract_jupyter.context.summaries import Source

        compressor = self._repository.compressor
        found = compressor.look(Range(commits, from_commit, to_commit, preserve))
        return compressor.preview(
            found, Source(content, target_tokens=target_tokens), Rates(cached_read, output_price)
        )

    def expand(self, summary_commit: str) -> ExpandResult:
        """Put the originals back in the place of a summary that `compress` made, also after more commits.

        They come as they were then, with their edits, priorities and tags; edits of the summary are dropped with it.

        Raises:
            CompressionError: it is no summary of this branch, or its originals are in another tract, or gone by `gc`.
            DetachedHeadError: there is no current branch.
            BranchMovedError: somebody else moved the branch meanwhile; nothing was changed.
        """
        return self._repository.expander.expand(summary_commit)
