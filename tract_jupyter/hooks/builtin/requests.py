"""Requests to rearrange the history: compress, merge, rebase, gc.

Each holds the arguments of a method of `Tract` and of the method that proposes the same. It is carried out at once
where no handler listens; otherwise, and where it is proposed, it becomes a pending whose approval does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.context.ancestry import names_of
from tract_jupyter.context.compress import Range
from tract_jupyter.context.gc import Choice, Retain
from tract_jupyter.context.summaries import (
    MAX_RETRIES,
    AnswerShortener,
    LLMSummarizer,
    Source,
    guidance,
    guided,
    message_text,
)
from tract_jupyter.hooks.builtin.history import (
    PendingCompress,
    PendingGC,
    PendingMerge,
    PendingRebase,
    conflict_to_dict,
    resolutions_of,
    with_guidance,
)
from tract_jupyter.models.checks import check_text
from tract_jupyter.storage.journal import triggered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.context.compress import Found as FoundMessages
    from tract_jupyter.context.merge import Found as FoundMerge
    from tract_jupyter.context.repository import Repository
    from tract_jupyter.hooks.firing import Firing
    from tract_jupyter.llm.configured import ConfiguredLLM
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.compression import CompressResult, GCResult
    from tract_jupyter.models.context import Message
    from tract_jupyter.models.merge import MergeResult, RebaseResult, Resolver
    from tract_jupyter.models.toolcall import ToolCompactResult
    from tract_jupyter.protocols import Summarizer, Validator
    from tract_jupyter.storage.entry import Draft


@dataclass(frozen=True, kw_only=True)
class CompressRequest:
    """What `Tract.compress` and `Tract.propose_compress` are asked for; the fields are their arguments.

    Attributes:
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
    """

    commits: Iterable[str] | None = None
    from_commit: str | None = None
    to_commit: str | None = None
    content: str | Sequence[str] | None = None
    summarizer: Summarizer | None = None
    preserve: Iterable[str] = ()
    target_tokens: int | None = None
    instructions: str | None = None
    guidance: str | None = None
    two_stage: bool = False
    validator: Validator | None = None
    max_retries: int = MAX_RETRIES
    token_tolerance: int | None = None
    one_summary: bool = False
    include_context: bool = False
    system_prompt: str | None = None
    message: str | None = None
    triggered_by: str | None = None

    @property
    def range(self) -> Range:
        """Which messages are compressed."""
        return Range(self.commits, self.from_commit, self.to_commit, self.preserve, self.one_summary)

    def source(self, writer: Summarizer | None, **others: Any) -> Source:
        """Return what the summaries come from."""
        given = {
            "instructions": self.instructions,
            "validator": self.validator,
            "token_tolerance": self.token_tolerance,
            "max_retries": self.max_retries,
        }
        return Source(self.content, writer, self.target_tokens, **{**given, **others})


@dataclass(frozen=True, kw_only=True)
class ShortenRequest:
    """What `Tract.compress_tool_calls` is asked for; the fields are its arguments.

    Attributes:
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
    """

    commits: Iterable[str] | None = None
    name: str | None = None
    content: Sequence[str] | None = None
    summarizer: Summarizer | None = None
    target_tokens: int | None = None
    instructions: str | None = None
    validator: Validator | None = None
    max_retries: int = MAX_RETRIES
    token_tolerance: int | None = None
    include_context: bool = False
    system_prompt: str | None = None
    triggered_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """What `Tract.merge` and `Tract.propose_merge` are asked for; the fields are their arguments.

    Attributes:
        source: the branch to merge.
        resolver: decides conflicts: `"ours"` or `"theirs"` for all that block; a dict from the conflict's `key` (or
            its target's hash) to a `Resolution` or `"ours"`, `"theirs"`, `"skip"`, `"abort"`; or a function of the
            conflict that returns one, None to leave it open.
        strategy: `auto`, or `strict` where warnings block too.
        no_ff: make a merge commit even if the branch could just move.
        delete_branch: delete the other branch afterwards.
        message: one line for the log.
        triggered_by: what set it off, for the log.
    """

    source: str
    resolver: Resolver | None = None
    strategy: Literal["auto", "strict"] = "auto"
    no_ff: bool = False
    delete_branch: bool = False
    message: str | None = None
    guidance: str | None = None
    two_stage: bool = False
    triggered_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class RebaseRequest:
    """What `Tract.rebase` and `Tract.propose_rebase` are asked for; the fields are their arguments."""

    target_branch: str
    resolver: Resolver | None = None
    triggered_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class GCRequest:
    """What `Tract.gc` and `Tract.propose_gc` are asked for; the fields are their arguments.

    Attributes:
        orphan_retention_days: keep what is younger, and what branches and HEAD were at since then, so that `undo`
            finds it. In days.
        archive_retention_days: remove originals of summaries if they ended longer ago; None keeps them. In days.
        keep: commits that stay, with all that they need; each by hash, prefix, branch or its `CommitInfo`.
        dry_run: only say what would be removed.
        triggered_by: what set it off, for the log.
    """

    orphan_retention_days: float = 7
    archive_retention_days: float | None = None
    keep: Iterable[str | CommitInfo] = ()
    triggered_by: str | None = None
    retain: Retain = field(init=False)
    """How long commits stay, checked."""

    def __post_init__(self) -> None:
        retain = Retain(self.orphan_retention_days, self.archive_retention_days)
        object.__setattr__(self, "retain", retain)  # frozen, and made of the other fields


class HistoryRequests:
    """Carries out, or proposes, what rearranges the history of one tract.

    Args:
        tract: where its pendings belong.
        repository: its history.
        firing: has pendings decided.
        llm: writes summaries and guidance where nobody else does.
    """

    def __init__(self, tract: Any, repository: Repository, firing: Firing, llm: ConfiguredLLM) -> None:
        self._tract = tract
        self._repository = repository
        self._firing = firing
        self._llm = llm

    # --- compress

    def compress(self, asked: CompressRequest) -> CompressResult:
        """Do what `Tract.compress` says."""
        found, writer = self._compressed(asked)
        if self._firing.listens("compress"):
            pending = self._compress_pending(asked, found, writer)
            return self._firing.result(pending, asked.summarizer, asked.validator)  # type: ignore[no-any-return]
        told = asked.guidance
        if asked.two_stage and told is None:
            told = self._compress_guidance(found, asked.instructions)
        source = asked.source(
            writer, instructions=guided(told, asked.instructions), count=self._repository.counter.count_text
        )
        with triggered(asked.triggered_by):
            return self._repository.compressor.compress(found, source, asked.message)

    def propose_compress(self, asked: CompressRequest) -> PendingCompress:
        """Do what `Tract.propose_compress` says."""
        pending = self._compress_pending(asked, *self._compressed(asked))
        return self._firing.keep(pending, asked.summarizer, asked.validator)

    def _compressed(self, asked: CompressRequest) -> tuple[FoundMessages, Summarizer | None]:
        """Look for the messages, and for who writes their summaries."""
        found = self._repository.compressor.look(asked.range)
        context = found.past.context.messages if asked.include_context else ()
        return found, self.summarizer_for(asked.content, asked.summarizer, asked.system_prompt, context)

    def _compress_pending(
        self, asked: CompressRequest, found: FoundMessages, writer: Summarizer | None
    ) -> PendingCompress:
        """Return the pending with its summaries; it looks at their length itself, which may be that of an edit."""
        source = asked.source(writer)
        told, said_by = asked.guidance, None if asked.guidance is None else "user"
        if asked.two_stage and told is None:
            told, said_by = self._compress_guidance(found, asked.instructions), "llm"
        fields = {
            **self._repository.compressor.propose(found, source, told),
            "guidance": told,
            "guidance_source": said_by,
            "target_tokens": asked.target_tokens,
            "instructions": asked.instructions,
            "message": asked.message,
        }
        return self._compress_of(fields, source, triggered_by=asked.triggered_by)

    def restored_compress(self, fields: dict[str, Any]) -> PendingCompress:
        """Make the pending of another process again; the configured model can write its summaries anew."""
        source = Source(
            None, self.summarizer_for(None, None), fields["target_tokens"], fields["instructions"]
        )
        return self._compress_of(fields, source)

    def _compress_of(self, fields: dict[str, Any], source: Source, **options: Any) -> PendingCompress:
        compressor = self._repository.compressor
        return PendingCompress(fields, tract=self._tract, compressor=compressor, source=source, **options)

    def _compress_guidance(self, found: FoundMessages, instructions: str | None) -> str:
        texts = [message_text(message) for message in found.selection.messages]
        client = self._llm.for_operation("compress")
        return guidance(client, "sum messages of a conversation up", texts, instructions)

    def summarizer_for(
        self,
        content: object,
        summarizer: Summarizer | None,
        system_prompt: str | None = None,
        context: Sequence[Message] = (),
    ) -> Summarizer | None:
        """Return who writes summaries: the configured model, where nothing else is given."""
        if content is not None or summarizer is not None or self._llm.client is None:
            return summarizer
        if system_prompt is not None:
            check_text(system_prompt, "system_prompt")
        client = self._llm.for_operation("compress")
        return LLMSummarizer(client, system_prompt=system_prompt, context=context)

    def shorten(self, asked: ShortenRequest) -> ToolCompactResult:
        """Do what `Tract.compress_tool_calls` says."""
        repository, writer = self._repository, asked.summarizer
        context = repository.compiler.compile().messages if asked.include_context else ()
        if asked.content is None and writer is None and self._llm.client is not None:
            client = self._llm.for_operation("tool_result")
            writer = AnswerShortener(client, system_prompt=asked.system_prompt, context=context)
        source = Source(
            asked.content, writer, asked.target_tokens, asked.instructions, asked.validator,
            asked.token_tolerance, asked.max_retries, repository.counter.count_text,
        )  # fmt: skip
        with triggered(asked.triggered_by):
            return repository.tool_turns.compact(asked.commits, asked.name, source)

    # --- merge and rebase

    def merge(self, asked: MergeRequest) -> MergeResult:
        """Do what `Tract.merge` says."""
        found = self._look(asked)
        if found.result.conflicts and self._firing.listens("merge"):
            return self._firing.result(self._merge_pending(asked, found), asked.resolver)  # type: ignore[no-any-return]
        resolver = asked.resolver
        if found.result.conflicts:
            resolver = with_guidance(resolver, self._merge_guidance(asked, found)[0])
        with triggered(asked.triggered_by):
            return self._repository.merge.join(
                found, resolver=resolver, delete_branch=asked.delete_branch, message=asked.message
            )

    def propose_merge(self, asked: MergeRequest) -> PendingMerge:
        """Do what `Tract.propose_merge` says."""
        return self._firing.keep(self._merge_pending(asked, self._look(asked)), asked.resolver)

    def _look(self, asked: MergeRequest) -> FoundMerge:
        return self._repository.merge.look(asked.source, strategy=asked.strategy, no_ff=asked.no_ff)

    def _merge_guidance(self, asked: MergeRequest, found: FoundMerge) -> tuple[str | None, str | None]:
        """Return what matters in the conflicts, and who said so."""
        if asked.guidance is not None or not asked.two_stage:
            return asked.guidance, None if asked.guidance is None else "user"
        texts = [str(conflict) for conflict in found.result.conflicts]
        client = self._llm.for_operation("merge")
        return guidance(client, "decide conflicts of a merge", texts, None), "llm"

    def _merge_pending(self, asked: MergeRequest, found: FoundMerge) -> PendingMerge:
        told, said_by = self._merge_guidance(asked, found)
        conflicts, sides = found.result.conflicts, found.sides
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "source_head": sides.tips[1],
            "source_branch": found.result.source,
            "target_branch": found.result.target,
            "conflicts": [conflict_to_dict(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, with_guidance(asked.resolver, told)),
            "strategy": asked.strategy,
            "no_ff": asked.no_ff,
            "delete_branch": asked.delete_branch,
            "message": asked.message,
            "guidance": told,
            "guidance_source": said_by,
        }
        return self.restored_merge(fields, resolver=asked.resolver, triggered_by=asked.triggered_by)

    def restored_merge(self, fields: dict[str, Any], **options: Any) -> PendingMerge:
        """Make the pending of a merge from its fields."""
        return PendingMerge(fields, tract=self._tract, merge=self._repository.merge, **options)

    def rebase(self, asked: RebaseRequest) -> RebaseResult:
        """Do what `Tract.rebase` says."""
        if self._firing.listens("rebase"):
            return self._firing.result(self._rebase_pending(asked), asked.resolver)  # type: ignore[no-any-return]
        with triggered(asked.triggered_by):
            return self._repository.rebase.run(asked.target_branch, asked.resolver)

    def propose_rebase(self, asked: RebaseRequest) -> PendingRebase:
        """Do what `Tract.propose_rebase` says."""
        return self._firing.keep(self._rebase_pending(asked), asked.resolver)

    def _rebase_pending(self, asked: RebaseRequest) -> PendingRebase:
        sides, drafts = self._repository.rebase.look(asked.target_branch)
        conflicts = sides.compared.conflicts
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "target_base": asked.target_branch,
            "target_head": sides.tips[1],
            "replay_plan": [_draft_to_dict(draft) for draft in drafts],
            "excluded": [],
            "warnings": [str(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, asked.resolver),
        }
        return self.restored_rebase(fields, triggered_by=asked.triggered_by)

    def restored_rebase(self, fields: dict[str, Any], **options: Any) -> PendingRebase:
        """Make the pending of a rebase from its fields."""
        return PendingRebase(fields, tract=self._tract, rebase=self._repository.rebase, **options)

    # --- gc

    def gc(self, asked: GCRequest, *, dry_run: bool = False) -> GCResult:
        """Do what `Tract.gc` says."""
        if self._firing.listens("gc") and not dry_run:
            return self._firing.result(self._gc_pending(asked))  # type: ignore[no-any-return]
        choice = self._kept(asked)
        with triggered(asked.triggered_by):
            return self._repository.garbage_collector.run(asked.retain, choice, dry_run=dry_run)

    def propose_gc(self, asked: GCRequest) -> PendingGC:
        """Do what `Tract.propose_gc` says."""
        return self._firing.keep(self._gc_pending(asked))

    def _gc_pending(self, asked: GCRequest) -> PendingGC:
        choice = self._kept(asked)
        found = self._repository.garbage_collector.run(asked.retain, choice, dry_run=True)
        fields = {
            "commits_to_remove": list(found.commits),
            "tokens_to_free": found.tokens,
            "excluded": sorted(choice.keep),  # a set has another order in each process
            "orphan_retention_days": asked.orphan_retention_days,
            "archive_retention_days": asked.archive_retention_days,
        }
        return self.restored_gc(fields, triggered_by=asked.triggered_by)

    def restored_gc(self, fields: dict[str, Any], **options: Any) -> PendingGC:
        """Make the pending of a garbage collection from its fields."""
        return PendingGC(fields, tract=self._tract, run=self._collect, **options)

    def _kept(self, asked: GCRequest) -> Choice:
        """Return what stays, by full hashes: a name that was compared as it is would keep nothing, and say nothing."""
        return Choice(frozenset(self._repository.refs.resolve(name) for name in names_of(asked.keep, "keep")))

    def _collect(self, fields: dict[str, Any]) -> GCResult:
        """Remove what was shown and approved, and is still garbage."""
        retain = Retain(fields["orphan_retention_days"], fields["archive_retention_days"])
        choice = Choice(frozenset(fields["excluded"]), frozenset(fields["commits_to_remove"]))
        return self._repository.garbage_collector.run(retain, choice)


def _draft_to_dict(draft: Draft) -> dict[str, Any]:
    return {
        "commit_hash": draft.source,
        "operation": draft.operation,
        "target": draft.edit_target,
        "message": draft.message,
    }
