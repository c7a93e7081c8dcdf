"""The methods of `Tract` that rearrange the history: compress, merge, rebase, gc.

A verb makes its change at once if no handler listens. Otherwise, or if it is proposed, it creates a pending, whose
approval makes the change. To add a verb, write a `HistoryVerb` and list it in `HistoryVerbs`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from tract_jupyter.context import (
    Choice,
    Range,
    Retain,
    Source,
    collect_garbage,
    guidance,
    guided,
    message_text,
    names_of,
    summarizer_for,
)
from tract_jupyter.models import CompressResult, GCResult, MergeResult, RebaseResult
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tract_jupyter.context import CompressScope, MergePreview, Repository
    from tract_jupyter.llm import Models
    from tract_jupyter.models import Summarizer
    from tract_jupyter.review.builtin.base import BuiltinPending
    from tract_jupyter.review.firing import Firing
    from tract_jupyter.storage import Draft

_Result = TypeVar("_Result")
_Proposed = TypeVar("_Proposed", bound="BuiltinPending")


class HistoryVerb(Generic[_Result, _Proposed]):
    """A change of the history of one tract, which handlers may decide about.

    `run` and `propose` take all arguments of the method of `Tract`, by name. Its signature is the only declaration of
    them; the steps below read them as attributes. `rewrite` returns the cost of changing messages; see
    `Costs.of_rewrite`.
    """

    operation: ClassVar[str]
    functions: ClassVar[tuple[str, ...]] = ()
    """The arguments that may be functions; with one, a proposal is never equal to an earlier one."""

    def __init__(
        self,
        tract: object,
        repository: Repository,
        firing: Firing,
        models: Models,
        rewrite: Callable[[Sequence[str]], str],
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._firing = firing
        self._models = models
        self._rewrite = rewrite

    def run(self, arguments: Mapping[str, Any]) -> _Result:
        """Make the change, or return the result of the decision if handlers listen."""
        inputs = SimpleNamespace(**arguments)
        selection = self._look(inputs)
        if self._is_decided(inputs, selection):
            pending = self._pending(inputs, selection)
            return self._firing.result(pending, *self._functions(inputs))  # type: ignore[no-any-return]
        with triggered(inputs.triggered_by):
            return self._carry_out(inputs, selection)

    def propose(self, arguments: Mapping[str, Any]) -> _Proposed:
        """Put a pending into the inbox whose approval makes the change, and return it."""
        inputs = SimpleNamespace(**arguments)
        return self._firing.keep(self._pending(inputs, self._look(inputs)), *self._functions(inputs))

    def restored(self, fields: dict[str, Any], **options: Any) -> _Proposed:
        """Create the pending from its fields, which another process may have stored."""
        raise NotImplementedError

    def _look(self, inputs: SimpleNamespace) -> Any:
        """Check the arguments and return the commits that they name. This changes nothing."""

    def _is_decided(self, inputs: SimpleNamespace, selection: Any) -> bool:  # noqa: ARG002 # some verbs use them
        return self._firing.bus.listens(self.operation)

    def _pending(self, inputs: SimpleNamespace, selection: Any) -> _Proposed:
        raise NotImplementedError

    def _carry_out(self, inputs: SimpleNamespace, selection: Any) -> _Result:
        raise NotImplementedError

    def _functions(self, inputs: SimpleNamespace) -> list[object]:
        return [getattr(inputs, name) for name in self.functions]


class CompressVerb(HistoryVerb[CompressResult, PendingCompress]):
    """Replaces messages with summaries."""

    operation = "compress"
    functions = ("summarizer", "validator")

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingCompress:
        """Create the pending from its fields; the configured model can write its summaries."""
        writer = summarizer_for(self._models.available("compress"), None, None)
        source = Source(None, writer, fields["target_tokens"], fields["instructions"])
        return self._pending_of(fields, source, **options)

    def _look(self, inputs: SimpleNamespace) -> tuple[CompressScope, Summarizer | None]:
        """Return the messages, and the function that writes their summaries."""
        chosen = Range(
            inputs.commits, inputs.from_commit, inputs.to_commit, inputs.preserve, inputs.one_summary
        )
        scope = self._repository.compressor.look(chosen)
        context = scope.history.context.messages if inputs.include_context else ()
        return scope, summarizer_for(
            self._models.available("compress"),
            inputs.content,
            inputs.summarizer,
            inputs.system_prompt,
            context,
        )

    def _pending(
        self, inputs: SimpleNamespace, selection: tuple[CompressScope, Summarizer | None]
    ) -> PendingCompress:
        scope, writer = selection
        # The pending checks the length itself, because an edit may change it.
        source = self._source(inputs, writer, inputs.instructions)
        guidance, author = self._guidance(inputs, scope)
        fields = {
            **self._repository.compressor.propose(scope, source, guidance),
            "guidance": guidance,
            "guidance_source": author,
            "target_tokens": inputs.target_tokens,
            "instructions": inputs.instructions,
            "message": inputs.message,
            "rewrite": self._rewrite([message.commit_hash for message in scope.selection.messages]),
        }
        return self._pending_of(fields, source, triggered_by=inputs.triggered_by)

    def _pending_of(self, fields: dict[str, Any], source: Source, **options: Any) -> PendingCompress:
        compressor = self._repository.compressor
        return PendingCompress(fields, tract=self._tract, compressor=compressor, source=source, **options)

    def _carry_out(
        self, inputs: SimpleNamespace, selection: tuple[CompressScope, Summarizer | None]
    ) -> CompressResult:
        scope, writer = selection
        self._repository.before_rewrite(*[message.commit_hash for message in scope.selection.messages])
        guidance, _ = self._guidance(inputs, scope)
        instructions, count = guided(guidance, inputs.instructions), self._repository.counter.count_text
        source = self._source(inputs, writer, instructions, count=count)
        return self._repository.compressor.compress(scope, source, inputs.message)

    def _source(
        self, inputs: SimpleNamespace, writer: Summarizer | None, instructions: str | None, **others: Any
    ) -> Source:
        return Source(
            inputs.content, writer, inputs.target_tokens, instructions, validator=inputs.validator,
            token_tolerance=inputs.token_tolerance, max_retries=inputs.max_retries, **others,
        )  # fmt: skip

    def _guidance(self, inputs: SimpleNamespace, scope: CompressScope) -> tuple[str | None, str | None]:
        texts = [message_text(message) for message in scope.selection.messages]
        return _guidance(inputs, self._models, "compress", "summarize messages of a conversation", texts)


class MergeVerb(HistoryVerb[MergeResult, PendingMerge]):
    """Merges a branch into the current one. Handlers see merges with conflicts."""

    operation = "merge"
    functions = ("resolver",)

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingMerge:
        """Create the pending of a merge from its fields."""
        return PendingMerge(fields, tract=self._tract, merge=self._repository.merge, **options)

    def _look(self, inputs: SimpleNamespace) -> MergePreview:
        return self._repository.merge.look(inputs.source_branch, strategy=inputs.strategy, no_ff=inputs.no_ff)

    def _is_decided(self, inputs: SimpleNamespace, selection: MergePreview) -> bool:
        return bool(selection.result.conflicts) and super()._is_decided(inputs, selection)

    def _pending(self, inputs: SimpleNamespace, selection: MergePreview) -> PendingMerge:
        guidance, author = self._guidance(inputs, selection)
        conflicts, sides = selection.result.conflicts, selection.sides
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "source_head": sides.tips[1],
            "source_branch": selection.result.source_branch,
            "target_branch": selection.result.target_branch,
            "conflicts": [conflict_to_dict(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, with_guidance(inputs.resolver, guidance)),
            "strategy": inputs.strategy,
            "no_ff": inputs.no_ff,
            "delete_branch": inputs.delete_branch,
            "message": inputs.message,
            "guidance": guidance,
            "guidance_source": author,
            "rewrite": self._rewrite([conflict.target for conflict in conflicts]),
        }
        return self.restored(fields, resolver=inputs.resolver, triggered_by=inputs.triggered_by)

    def _carry_out(self, inputs: SimpleNamespace, selection: MergePreview) -> MergeResult:
        resolver, conflicts = inputs.resolver, selection.result.conflicts
        if conflicts:
            self._repository.before_rewrite(*[conflict.target for conflict in conflicts])
            resolver = with_guidance(resolver, self._guidance(inputs, selection)[0])
        return self._repository.merge.join(
            selection, resolver=resolver, delete_branch=inputs.delete_branch, message=inputs.message
        )

    def _guidance(self, inputs: SimpleNamespace, selection: MergePreview) -> tuple[str | None, str | None]:
        texts = [str(conflict) for conflict in selection.result.conflicts]
        return _guidance(inputs, self._models, "merge", "decide conflicts of a merge", texts)


class RebaseVerb(HistoryVerb[RebaseResult, PendingRebase]):
    """Moves the commits of the current branch to the tip of another branch."""

    operation = "rebase"
    functions = ("resolver",)

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingRebase:
        """Create the pending of a rebase from its fields."""
        return PendingRebase(fields, tract=self._tract, rebase=self._repository.rebase, **options)

    def _pending(self, inputs: SimpleNamespace, selection: None) -> PendingRebase:  # noqa: ARG002 # it looks itself
        sides, drafts = self._repository.rebase.look(inputs.target_branch)
        conflicts = sides.compared.conflicts
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "target_base": inputs.target_branch,
            "target_head": sides.tips[1],
            "replay_plan": [_draft_to_dict(draft) for draft in drafts],
            "excluded": [],
            "warnings": [str(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, inputs.resolver),
            "rewrite": self._rewrite(_replayed(drafts)),
        }
        return self.restored(fields, triggered_by=inputs.triggered_by)

    def _carry_out(self, inputs: SimpleNamespace, selection: None) -> RebaseResult:  # noqa: ARG002 # `run` looks itself
        if self._repository.has_blocks:
            self._repository.before_rewrite(*_replayed(self._repository.rebase.look(inputs.target_branch)[1]))
        return self._repository.rebase.run(inputs.target_branch, inputs.resolver)


class GCVerb(HistoryVerb[GCResult, PendingGC]):
    """Removes unreachable commits."""

    operation = "gc"

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingGC:
        """Create the pending of a garbage collection from its fields."""
        return PendingGC(fields, tract=self._tract, run=self._collect, **options)

    def _look(self, inputs: SimpleNamespace) -> tuple[Retain, Choice]:
        """Return the retention times, and the commits to keep by their full hashes, which the collector compares."""
        retain = Retain(inputs.orphan_retention_days, inputs.archive_retention_days)
        names = names_of(inputs.keep, "keep")
        return retain, Choice(frozenset(self._repository.refs.resolve(name) for name in names))

    def _is_decided(self, inputs: SimpleNamespace, selection: tuple[Retain, Choice]) -> bool:
        return not inputs.dry_run and super()._is_decided(inputs, selection)

    def _pending(self, inputs: SimpleNamespace, selection: tuple[Retain, Choice]) -> PendingGC:
        garbage = collect_garbage(self._repository, *selection, dry_run=True)
        fields = {
            "commits_to_remove": list(garbage.commits),
            "tokens_to_free": garbage.tokens,
            "excluded": sorted(selection[1].keep),  # a set has another order in each process
            "orphan_retention_days": inputs.orphan_retention_days,
            "archive_retention_days": inputs.archive_retention_days,
        }
        return self.restored(fields, triggered_by=inputs.triggered_by)

    def _carry_out(self, inputs: SimpleNamespace, selection: tuple[Retain, Choice]) -> GCResult:
        return collect_garbage(self._repository, *selection, dry_run=inputs.dry_run)

    def _collect(self, fields: dict[str, Any]) -> GCResult:
        """Remove the approved commits that are still garbage."""
        retain = Retain(fields["orphan_retention_days"], fields["archive_retention_days"])
        choice = Choice(frozenset(fields["excluded"]), frozenset(fields["commits_to_remove"]))
        return collect_garbage(self._repository, retain, choice)


class HistoryVerbs:
    """The history verbs of one tract. `HistoryVerb` documents the arguments."""

    def __init__(
        self,
        tract: object,
        repository: Repository,
        firing: Firing,
        models: Models,
        rewrite: Callable[[Sequence[str]], str],
    ) -> None:
        self.compress = CompressVerb(tract, repository, firing, models, rewrite)
        self.merge = MergeVerb(tract, repository, firing, models, rewrite)
        self.rebase = RebaseVerb(tract, repository, firing, models, rewrite)
        self.gc = GCVerb(tract, repository, firing, models, rewrite)


def _guidance(
    inputs: SimpleNamespace,
    models: Models,
    operation: Literal["compress", "merge"],
    task: str,
    texts: Sequence[str],
) -> tuple[str | None, str | None]:
    """Return the guidance and its author; the model writes it if two stages are wanted and the caller gave none."""
    if inputs.guidance is not None:
        return inputs.guidance, "user"
    if not inputs.two_stage:
        return None, None
    instructions = getattr(inputs, "instructions", None)
    return guidance(models.client_for(operation), task, texts, instructions), "llm"


def _replayed(drafts: Iterable[Draft]) -> list[str]:
    """Return the messages that a rebase commits again."""
    return [draft.source for draft in drafts if draft.source is not None and draft.operation == APPEND]


def _draft_to_dict(draft: Draft) -> dict[str, Any]:
    return {
        "commit_hash": draft.source,
        "operation": draft.operation,
        "target": draft.edit_target,
        "message": draft.message,
    }
