"""Requests to rearrange the history: compress, merge, rebase, gc.

Each holds the arguments of a method of `Tract`, which describes them, and of the one that proposes the same. It is
carried out at once where no handler listens; otherwise, and where it is proposed, it becomes a pending whose approval
does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.context import (
    MAX_RETRIES,
    Choice,
    Range,
    Retain,
    Source,
    guidance,
    guided,
    message_text,
    names_of,
    summarizer_for,
)
from tract_jupyter.review.builtin.history import (
    PendingCompress,
    PendingGC,
    PendingMerge,
    PendingRebase,
    conflict_to_dict,
    resolutions_of,
    with_guidance,
)
from tract_jupyter.storage import APPEND, triggered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.context import CompressScope, MergePreview, Repository
    from tract_jupyter.llm import ConfiguredLLM
    from tract_jupyter.models import (
        CommitInfo,
        CompressResult,
        GCResult,
        MergeResult,
        RebaseResult,
        Resolver,
        Summarizer,
        Validator,
    )
    from tract_jupyter.review.firing import Firing
    from tract_jupyter.storage import Draft


@dataclass(frozen=True, kw_only=True)
class CompressRequest:
    """A request of `Tract.compress` and `Tract.propose_compress`; the fields are their arguments."""

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
        """The messages to compress."""
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
class MergeRequest:
    """A request of `Tract.merge` and `Tract.propose_merge`; the fields are their arguments."""

    source_branch: str
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
    """A request of `Tract.rebase` and `Tract.propose_rebase`; the fields are their arguments."""

    target_branch: str
    resolver: Resolver | None = None
    triggered_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class GCRequest:
    """A request of `Tract.gc` and `Tract.propose_gc`; the fields are their arguments."""

    orphan_retention_days: float = 7
    archive_retention_days: float | None = None
    keep: Iterable[str | CommitInfo] = ()
    triggered_by: str | None = None
    retain: Retain = field(init=False)
    """The checked retention times of commits."""

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
        rewrite: tells what it takes from a model if these messages change; see `Costs.of_rewrite`.
    """

    def __init__(
        self,
        tract: object,
        repository: Repository,
        firing: Firing,
        llm: ConfiguredLLM,
        rewrite: Callable[[Sequence[str]], str],
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._firing = firing
        self._llm = llm
        self._rewrite = rewrite

    # --- compress

    def compress(self, asked: CompressRequest) -> CompressResult:
        """Do what `Tract.compress` says."""
        found, writer = self._compressed(asked)
        if self._firing.bus.listens("compress"):
            pending = self._compress_pending(asked, found, writer)
            return self._firing.result(pending, asked.summarizer, asked.validator)  # type: ignore[no-any-return]
        self._repository.before_rewrite(*[message.commit_hash for message in found.selection.messages])
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

    def _compressed(self, asked: CompressRequest) -> tuple[CompressScope, Summarizer | None]:
        """Look for the messages, and for who writes their summaries."""
        found = self._repository.compressor.look(asked.range)
        context = found.history.context.messages if asked.include_context else ()
        return found, summarizer_for(
            self._llm.available("compress"), asked.content, asked.summarizer, asked.system_prompt, context
        )

    def _compress_pending(
        self, asked: CompressRequest, found: CompressScope, writer: Summarizer | None
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
            "rewrite": self._rewrite([message.commit_hash for message in found.selection.messages]),
        }
        return self._compress_of(fields, source, triggered_by=asked.triggered_by)

    def restored_compress(self, fields: dict[str, Any]) -> PendingCompress:
        """Make the pending of another process again; the configured model can write its summaries anew."""
        source = Source(
            None,
            summarizer_for(self._llm.available("compress"), None, None),
            fields["target_tokens"],
            fields["instructions"],
        )
        return self._compress_of(fields, source)

    def _compress_of(self, fields: dict[str, Any], source: Source, **options: Any) -> PendingCompress:
        compressor = self._repository.compressor
        return PendingCompress(fields, tract=self._tract, compressor=compressor, source=source, **options)

    def _compress_guidance(self, found: CompressScope, instructions: str | None) -> str:
        texts = [message_text(message) for message in found.selection.messages]
        client = self._llm.for_operation("compress")
        return guidance(client, "sum messages of a conversation up", texts, instructions)

    # --- merge and rebase

    def merge(self, asked: MergeRequest) -> MergeResult:
        """Do what `Tract.merge` says."""
        found = self._look(asked)
        if found.result.conflicts and self._firing.bus.listens("merge"):
            return self._firing.result(self._merge_pending(asked, found), asked.resolver)  # type: ignore[no-any-return]
        resolver = asked.resolver
        if found.result.conflicts:
            self._repository.before_rewrite(*[conflict.target for conflict in found.result.conflicts])
            resolver = with_guidance(resolver, self._merge_guidance(asked, found)[0])
        with triggered(asked.triggered_by):
            return self._repository.merge.join(
                found, resolver=resolver, delete_branch=asked.delete_branch, message=asked.message
            )

    def propose_merge(self, asked: MergeRequest) -> PendingMerge:
        """Do what `Tract.propose_merge` says."""
        return self._firing.keep(self._merge_pending(asked, self._look(asked)), asked.resolver)

    def _look(self, asked: MergeRequest) -> MergePreview:
        return self._repository.merge.look(asked.source_branch, strategy=asked.strategy, no_ff=asked.no_ff)

    def _merge_guidance(self, asked: MergeRequest, found: MergePreview) -> tuple[str | None, str | None]:
        """Return what matters in the conflicts, and who said so."""
        if asked.guidance is not None or not asked.two_stage:
            return asked.guidance, None if asked.guidance is None else "user"
        texts = [str(conflict) for conflict in found.result.conflicts]
        client = self._llm.for_operation("merge")
        return guidance(client, "decide conflicts of a merge", texts, None), "llm"

    def _merge_pending(self, asked: MergeRequest, found: MergePreview) -> PendingMerge:
        told, said_by = self._merge_guidance(asked, found)
        conflicts, sides = found.result.conflicts, found.sides
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "source_head": sides.tips[1],
            "source_branch": found.result.source_branch,
            "target_branch": found.result.target_branch,
            "conflicts": [conflict_to_dict(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, with_guidance(asked.resolver, told)),
            "strategy": asked.strategy,
            "no_ff": asked.no_ff,
            "delete_branch": asked.delete_branch,
            "message": asked.message,
            "guidance": told,
            "guidance_source": said_by,
            "rewrite": self._rewrite([conflict.target for conflict in conflicts]),
        }
        return self.restored_merge(fields, resolver=asked.resolver, triggered_by=asked.triggered_by)

    def restored_merge(self, fields: dict[str, Any], **options: Any) -> PendingMerge:
        """Make the pending of a merge from its fields."""
        return PendingMerge(fields, tract=self._tract, merge=self._repository.merge, **options)

    def rebase(self, asked: RebaseRequest) -> RebaseResult:
        """Do what `Tract.rebase` says."""
        if self._firing.bus.listens("rebase"):
            return self._firing.result(self._rebase_pending(asked), asked.resolver)  # type: ignore[no-any-return]
        if self._repository.has_blocks:
            self._repository.before_rewrite(*_replayed(self._repository.rebase.look(asked.target_branch)[1]))
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
            "rewrite": self._rewrite(_replayed(drafts)),
        }
        return self.restored_rebase(fields, triggered_by=asked.triggered_by)

    def restored_rebase(self, fields: dict[str, Any], **options: Any) -> PendingRebase:
        """Make the pending of a rebase from its fields."""
        return PendingRebase(fields, tract=self._tract, rebase=self._repository.rebase, **options)

    # --- gc

    def gc(self, asked: GCRequest, *, dry_run: bool = False) -> GCResult:
        """Do what `Tract.gc` says."""
        if self._firing.bus.listens("gc") and not dry_run:
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


def _replayed(drafts: Iterable[Draft]) -> list[str]:
    """Return the messages that a rebase commits anew."""
    return [draft.source for draft in drafts if draft.source is not None and draft.operation == APPEND]


def _draft_to_dict(draft: Draft) -> dict[str, Any]:
    return {
        "commit_hash": draft.source,
        "operation": draft.operation,
        "target": draft.edit_target,
        "message": draft.message,
    }
