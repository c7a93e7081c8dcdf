"""Making a context smaller, and undoing that."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.ancestry import names_of
from tract_jupyter.context.compress import CACHED_READ, OUTPUT_PRICE, Compressor, Range, Rates
from tract_jupyter.context.gc import Choice, GarbageCollector, Reach, Retain
from tract_jupyter.context.splice import Expander, Splicer
from tract_jupyter.context.summaries import (
    MAX_RETRIES,
    AnswerShortener,
    LLMSummarizer,
    Source,
    guided,
    message_text,
)
from tract_jupyter.context.summaries import guidance as write_guidance
from tract_jupyter.context.tool_turns import ToolCompactor, ToolTurns
from tract_jupyter.facade.compiling import Compiling
from tract_jupyter.facade.gated import Gated
from tract_jupyter.hooks.builtin.history import PendingCompress, PendingGC
from tract_jupyter.models.checks import check_text
from tract_jupyter.storage.journal import triggered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.context.compress import Found
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.compression import CompressPlan, CompressResult, ExpandResult, GCResult
    from tract_jupyter.models.context import Message
    from tract_jupyter.models.toolcall import ToolCompactResult, ToolDropResult, ToolTurn
    from tract_jupyter.protocols import Summarizer, Validator


class Surgery(Compiling, Gated):
    """The part of `Tract` that compresses, expands and cleans up."""

    def compress(  # noqa: PLR0913 # keyword-only, and each is a choice of its own
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
        instructions: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        validator: Validator | None = None,
        max_retries: int = MAX_RETRIES,
        token_tolerance: int | None = None,
        one_summary: bool = False,
        include_context: bool = False,
        system_prompt: str | None = None,
        message: str | None = None,
        triggered_by: str | None = None,
    ) -> CompressResult:
        """Put summaries in the places of messages of the current branch, anywhere in the context.

        What is pinned or preserved stays word for word in its place, with its priority, tags and edits; each run of
        other messages becomes one message of the assistant. Skipped messages in a run go with it. What stands before
        the first summary keeps its hashes; what comes after it is placed anew, merges as plain commits. The originals
        stay addressable: `expand` brings them back, and `undo` takes the whole compression back. The summary of an
        important message is important itself, and must keep the same.

        Args:
            commits: what to compress, each by hash, prefix, branch or its `CommitInfo`; not necessarily neighbours.
            from_commit: instead, the first of a range; the beginning if left out.
            to_commit: the last of it; HEAD if left out.
            content: the summary, or a list with one for each run of messages.
            summarizer: writes them instead; called for each run. The configured model, if neither is given.
            preserve: commits that stay although nobody pinned them.
            target_tokens: how long each summary should be. What a summarizer writes may in no case be longer than what
                it stands for (or 100 tokens).
            instructions: what to look after; for the summarizer.
            guidance: what matters in these messages; the summarizer is told it before the instructions.
            two_stage: first have the configured model say what matters in these messages; that is the guidance then.
            validator: called with each summary; returns None or True if it is good, else a text that tells what is
                wrong, False, or `(False, text)`.
            max_retries: how often a summary that is not good is written again at most, with what was wrong.
            token_tolerance: how many tokens over the target are still good; 500 if left out.
            one_summary: write one summary for all messages, across those that stay between them. It stands where the
                first of them stood, and `expand` puts them all back there.
            include_context: show the configured model the rest of the context, too, to understand them by.
            system_prompt: what the configured model is told about its task, instead of the usual words.
            message: a line for the log, instead of the beginning of the summary.
            triggered_by: what set it off, for the log.

        Raises:
            CompressionError: there is nothing to compress, or a summary is missing, empty or lacks what must be kept.
            CommitNotFoundError: there is no such commit.
            DetachedHeadError: there is no current branch.
            BranchMovedError: somebody else moved the branch meanwhile. In each case nothing was changed.
            LLMError: two stages are wanted without a model, or what it gave back is no reply.
            RejectedError, UndecidedError: a handler turned it down, or left it open.
        """
        found = self._compressor.look(Range(commits, from_commit, to_commit, preserve, one_summary))
        context = found.past.context.messages if include_context else ()
        writer = self.summarizer_for(content, summarizer, system_prompt, context)
        if self._is_hooked("compress"):
            given = Source(
                content, writer, target_tokens, instructions, validator, token_tolerance, max_retries
            )
            pending = self._compress_pending(
                found, given, guidance, message, two_stage=two_stage, triggered_by=triggered_by
            )
            return self._decided(pending, summarizer, validator)  # type: ignore[no-any-return]
        if two_stage and guidance is None:
            guidance = self._guidance(found, instructions)
        source = Source(
            content, writer, target_tokens, guided(guidance, instructions), validator, token_tolerance, max_retries,
            self._commits.counter.count_text,
        )  # fmt: skip
        with triggered(triggered_by):
            return self._compressor.compress(found, source, message)

    def propose_compress(  # noqa: PLR0913 # those of `compress`
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
        instructions: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        validator: Validator | None = None,
        max_retries: int = MAX_RETRIES,
        token_tolerance: int | None = None,
        one_summary: bool = False,
        include_context: bool = False,
        system_prompt: str | None = None,
        message: str | None = None,
        triggered_by: str | None = None,
    ) -> PendingCompress:
        """Return the pending whose approval does what `compress` would; the arguments are the same.

        The summaries are written now, and can be looked at, changed and written again before anything happens. It is
        in the inbox until it is decided.
        """
        found = self._compressor.look(Range(commits, from_commit, to_commit, preserve, one_summary))
        context = found.past.context.messages if include_context else ()
        writer = self.summarizer_for(content, summarizer, system_prompt, context)
        given = Source(content, writer, target_tokens, instructions, validator, token_tolerance, max_retries)
        pending = self._compress_pending(
            found, given, guidance, message, two_stage=two_stage, triggered_by=triggered_by
        )
        return self._firing.keep(pending, summarizer, validator)

    def _compress_pending(
        self,
        found: Found,
        source: Source,
        guidance: str | None,
        message: str | None,
        *,
        two_stage: bool,
        triggered_by: str | None,
    ) -> PendingCompress:
        """The pending with its summaries; it looks at their length itself, which may be that of an edit."""
        said_by = None if guidance is None else "user"
        if two_stage and guidance is None:
            guidance, said_by = self._guidance(found, source.instructions), "llm"
        fields = {
            **self._compressor.propose(found, source, guidance),
            "guidance": guidance,
            "guidance_source": said_by,
            "target_tokens": source.target_tokens,
            "instructions": source.instructions,
            "message": message,
        }
        return PendingCompress(
            fields, tract=self, compressor=self._compressor, source=source, triggered_by=triggered_by
        )

    def _restored_compress(self, fields: dict[str, Any]) -> PendingCompress:
        """What another process proposed; the configured model can write its summaries again, to the same length."""
        source = Source(
            None, self.summarizer_for(None, None), fields["target_tokens"], fields["instructions"]
        )
        return PendingCompress(fields, tract=self, compressor=self._compressor, source=source)

    def summarizer_for(
        self,
        content: object,
        summarizer: Summarizer | None,
        system_prompt: str | None = None,
        context: Sequence[Message] = (),
    ) -> Summarizer | None:
        """Return who writes summaries: the configured model, where nothing else is given."""
        if content is not None or summarizer is not None or self._client is None:
            return summarizer
        if system_prompt is not None:
            check_text(system_prompt, "system_prompt")
        return LLMSummarizer(self.llm_for("compress"), system_prompt=system_prompt, context=context)

    def _guidance(self, found: Found, instructions: str | None) -> str:
        texts = [message_text(message) for message in found.selection.messages]
        client = self.llm_for("compress")
        return write_guidance(client, "sum messages of a conversation up", texts, instructions)

    def preview_compress(
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
        cached_read: float = CACHED_READ,
        output_price: float = OUTPUT_PRICE,
    ) -> CompressPlan:
        """What `compress` would do and cost; `print` it. Writes nothing and calls no summarizer.

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
        found = self._compressor.look(Range(commits, from_commit, to_commit, preserve))
        source = Source(content, target_tokens=target_tokens)
        return self._compressor.preview(found, source, Rates(cached_read, output_price))

    def expand(self, summary_commit: str) -> ExpandResult:
        """Put the originals back in the place of a summary that `compress` made, also after more commits.

        They come as they were then, with their edits, priorities and tags; edits of the summary are dropped with it.

        Raises:
            CompressionError: it is no summary of this branch, or its originals are in another tract, or gone by `gc`.
            DetachedHeadError: there is no current branch.
            BranchMovedError: somebody else moved the branch meanwhile; nothing was changed.
        """
        return self._expander.expand(summary_commit)

    def gc(
        self,
        *,
        orphan_retention_days: float = 7,
        archive_retention_days: float | None = None,
        keep: Iterable[str | CommitInfo] = (),
        dry_run: bool = False,
        triggered_by: str | None = None,
    ) -> GCResult:
        """Remove commits of this tract that nothing leads to, and contents that nobody uses.

        Kept is what a branch, HEAD, a waiting pending, a compile record or another tract leads to. What was removed can
        no longer be brought back by `undo` or `expand`, which say so.

        Args:
            orphan_retention_days: keep what is younger, and what branches and HEAD were at since then, so that `undo`
                finds it. In days.
            archive_retention_days: remove originals of summaries if they ended longer ago; None keeps them. In days.
            keep: commits that stay, with all that they need; each by hash, prefix, branch or its `CommitInfo`.
            dry_run: only say what would be removed.
            triggered_by: what set it off, for the log.

        Raises:
            HistoryError: these are no numbers of days, or `keep` is no list of commits.
            CommitNotFoundError: there is no such commit.
            RejectedError, UndecidedError: a handler turned it down, or left it open.
        """
        if self._is_hooked("gc") and not dry_run:
            pending = self._gc_pending(orphan_retention_days, archive_retention_days, keep, triggered_by)
            return self._decided(pending)  # type: ignore[no-any-return]
        retain, choice = Retain(orphan_retention_days, archive_retention_days), self._kept(keep)
        with triggered(triggered_by):
            return self._garbage_collector.run(retain, choice, dry_run=dry_run)

    def propose_gc(
        self,
        *,
        orphan_retention_days: float = 7,
        archive_retention_days: float | None = None,
        keep: Iterable[str | CommitInfo] = (),
        triggered_by: str | None = None,
    ) -> PendingGC:
        """Return the pending whose approval does what `gc` would; the arguments are the same.

        It is in the inbox until it is decided.
        """
        pending = self._gc_pending(orphan_retention_days, archive_retention_days, keep, triggered_by)
        return self._firing.keep(pending)

    def _gc_pending(
        self,
        orphan_retention_days: float,
        archive_retention_days: float | None,
        keep: Iterable[str | CommitInfo],
        triggered_by: str | None,
    ) -> PendingGC:
        retain, choice = Retain(orphan_retention_days, archive_retention_days), self._kept(keep)
        found = self._garbage_collector.run(retain, choice, dry_run=True)
        fields = {
            "commits_to_remove": list(found.commits),
            "tokens_to_free": found.tokens,
            "excluded": sorted(choice.keep),  # a set has another order in each process
            "orphan_retention_days": orphan_retention_days,
            "archive_retention_days": archive_retention_days,
        }
        return PendingGC(fields, tract=self, run=self._collect, triggered_by=triggered_by)

    def _kept(self, keep: Iterable[str | CommitInfo]) -> Choice:
        """What stays, by full hashes: a name that was compared as it is would keep nothing, and say nothing."""
        return Choice(frozenset(self._refs.resolve(name) for name in names_of(keep, "keep")))

    def _collect(self, fields: dict[str, Any]) -> GCResult:
        """Remove what was shown and approved, and is still garbage."""
        retain = Retain(fields["orphan_retention_days"], fields["archive_retention_days"])
        choice = Choice(frozenset(fields["excluded"]), frozenset(fields["commits_to_remove"]))
        return self._garbage_collector.run(retain, choice)

    def find_tool_calls(self, name: str | None = None) -> list[CommitInfo]:
        """All messages of the current branch that call tools, or the tool `name`, oldest first; skipped ones too."""
        return self._tool_turns.calls(name)

    def find_tool_results(self, name: str | None = None, after: str | None = None) -> list[CommitInfo]:
        """All answers of tools, or of the tool `name`, on the current branch, oldest first; those after a commit.

        Raises:
            HistoryError: `after` is not in the history of the branch.
        """
        return self._tool_turns.results(name, after)

    def find_tool_turns(self, name: str | None = None) -> list[ToolTurn]:
        """All messages that call tools, or the tool `name`, each with its answers, oldest first."""
        return self._tool_turns.turns(name)

    def drop_failed_tool_turns(self, name: str | None = None) -> ToolDropResult:
        """Skip every turn, or every one with the tool `name`, of which an answer is an error; `undo` takes it back.

        A turn with a pinned message stays.
        """
        return self._tool_turns.drop_failed(name)

    def compress_tool_calls(
        self,
        commits: Iterable[str] | None = None,
        *,
        name: str | None = None,
        content: Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        target_tokens: int | None = None,
        instructions: str | None = None,
        validator: Validator | None = None,
        max_retries: int = MAX_RETRIES,
        token_tolerance: int | None = None,
        include_context: bool = False,
        system_prompt: str | None = None,
        triggered_by: str | None = None,
    ) -> ToolCompactResult:
        """Edit answers of tools to shorter ones, one step for `undo`; `restore` brings back a single one.

        Args:
            commits: some answers, by hash, prefix or branch; all of the current branch if left out.
            name: only those of this tool.
            content: the new texts, one for each answer, oldest first or in the order of `commits`.
            summarizer: writes them instead; called for each answer. The configured model, if neither is given.
            target_tokens: how long each should be; the rest as for `compress`.
            instructions: what to look after; for the summarizer.
            validator: see `compress`, like the four after it.
            max_retries: how often each is written again at most.
            token_tolerance: tokens over the target that are still good.
            include_context: show the configured model the rest of the context, too.
            system_prompt: what it is told about its task, instead of the usual words.
            triggered_by: what set it off, for the log.

        Raises:
            CompressionError: there is no such answer, or a text is missing, empty or lacks what must be kept.
            DetachedHeadError: there is no current branch.
            BranchMovedError: somebody else moved the branch meanwhile. In each case nothing was changed.
        """
        context = self.compile().messages if include_context else ()
        writer = summarizer
        if content is None and summarizer is None and self._client is not None:
            writer = AnswerShortener(
                self.llm_for("tool_result"), system_prompt=system_prompt, context=context
            )
        source = Source(
            content, writer, target_tokens, instructions, validator, token_tolerance, max_retries,
            self._commits.counter.count_text,
        )  # fmt: skip
        with triggered(triggered_by):
            return self._tool_compactor.compact(commits, name, source)

    @cached_property
    def _splicer(self) -> Splicer:
        return Splicer(self._writer, self._tags, self._events)

    @cached_property
    def _compressor(self) -> Compressor:
        return Compressor(
            self._database,
            self._rows,
            self._refs,
            self._timelines,
            self._splicer,
            self._commits.counter,
            self._corrections,
        )

    @cached_property
    def _expander(self) -> Expander:
        return Expander(
            self._database, self._rows, self._refs, self._timelines, self._splicer, self._corrections
        )

    @cached_property
    def _garbage_collector(self) -> GarbageCollector:
        return GarbageCollector(
            self._database, self._rows, Reach(self.tract_id), self._events, self._timelines, self._writer,
            self._toolsets,
        )  # fmt: skip

    @cached_property
    def _tool_turns(self) -> ToolTurns:
        return ToolTurns(
            self._database, self._rows, self._refs, self._timelines, self._writer, self._corrections
        )

    @cached_property
    def _tool_compactor(self) -> ToolCompactor:
        return ToolCompactor(
            self._database,
            self._rows,
            self._refs,
            self._timelines,
            self._writer,
            self._commits.counter,
            self._corrections,
        )
