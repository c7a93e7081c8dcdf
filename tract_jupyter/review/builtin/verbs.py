"""The methods of `Tract` that rearrange the history: compress, merge, rebase, gc.

A verb does its change at once if no handler listens. Otherwise, and if it is proposed, it makes a pending: its
approval does the change. To add a verb, write a `HistoryVerb` and list it in `HistoryVerbs`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from tract_jupyter.context import (
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
    them; the steps below read them as attributes.

    Args:
        tract: owner of the pendings.
        repository: the tract's history.
        firing: routes pendings to their decision.
        models: write summaries and guidance if the caller gives none.
        rewrite: returns the cost of changing these messages; see `Costs.of_rewrite`.
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
        """Do the change, or return the result of the decision if handlers listen."""
        given = SimpleNamespace(**arguments)
        found = self._look(given)
        if self._is_decided(given, found):
            pending = self._pending(given, found)
            return self._firing.result(pending, *self._functions(given))  # type: ignore[no-any-return]
        with triggered(given.triggered_by):
            return self._carry_out(given, found)

    def propose(self, arguments: Mapping[str, Any]) -> _Proposed:
        """Return the pending whose approval does the change, and put it into the inbox."""
        given = SimpleNamespace(**arguments)
        return self._firing.keep(self._pending(given, self._look(given)), *self._functions(given))

    def restored(self, fields: dict[str, Any], **options: Any) -> _Proposed:
        """Make the pending from its fields, which another process may have stored."""
        raise NotImplementedError

    def _look(self, given: SimpleNamespace) -> Any:
        """Check the arguments and return the commits that they name. This changes nothing."""

    def _is_decided(self, given: SimpleNamespace, found: Any) -> bool:  # noqa: ARG002 # some verbs use them
        return self._firing.bus.listens(self.operation)

    def _pending(self, given: SimpleNamespace, found: Any) -> _Proposed:
        raise NotImplementedError

    def _carry_out(self, given: SimpleNamespace, found: Any) -> _Result:
        raise NotImplementedError

    def _functions(self, given: SimpleNamespace) -> list[object]:
        return [getattr(given, name) for name in self.functions]


class CompressVerb(HistoryVerb[CompressResult, PendingCompress]):
    """Puts summaries in the places of messages."""

    operation = "compress"
    functions = ("summarizer", "validator")

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingCompress:
        """Make the pending of another process again; the configured model can write its summaries."""
        writer = summarizer_for(self._models.available("compress"), None, None)
        source = Source(None, writer, fields["target_tokens"], fields["instructions"])
        return self._pending_of(fields, source, **options)

    def _look(self, given: SimpleNamespace) -> tuple[CompressScope, Summarizer | None]:
        """Return the messages, and the function that writes their summaries."""
        chosen = Range(given.commits, given.from_commit, given.to_commit, given.preserve, given.one_summary)
        scope = self._repository.compressor.look(chosen)
        context = scope.history.context.messages if given.include_context else ()
        return scope, summarizer_for(
            self._models.available("compress"), given.content, given.summarizer, given.system_prompt, context
        )

    def _pending(
        self, given: SimpleNamespace, found: tuple[CompressScope, Summarizer | None]
    ) -> PendingCompress:
        scope, writer = found
        # The pending checks the length itself, because an edit may change it.
        source = self._source(given, writer, given.instructions)
        told, said_by = self._guidance(given, scope)
        fields = {
            **self._repository.compressor.propose(scope, source, told),
            "guidance": told,
            "guidance_source": said_by,
            "target_tokens": given.target_tokens,
            "instructions": given.instructions,
            "message": given.message,
            "rewrite": self._rewrite([message.commit_hash for message in scope.selection.messages]),
        }
        return self._pending_of(fields, source, triggered_by=given.triggered_by)

    def _pending_of(self, fields: dict[str, Any], source: Source, **options: Any) -> PendingCompress:
        compressor = self._repository.compressor
        return PendingCompress(fields, tract=self._tract, compressor=compressor, source=source, **options)

    def _carry_out(
        self, given: SimpleNamespace, found: tuple[CompressScope, Summarizer | None]
    ) -> CompressResult:
        scope, writer = found
        self._repository.before_rewrite(*[message.commit_hash for message in scope.selection.messages])
        told, _ = self._guidance(given, scope)
        instructions, count = guided(told, given.instructions), self._repository.counter.count_text
        source = self._source(given, writer, instructions, count=count)
        return self._repository.compressor.compress(scope, source, given.message)

    def _source(
        self, given: SimpleNamespace, writer: Summarizer | None, instructions: str | None, **others: Any
    ) -> Source:
        return Source(
            given.content, writer, given.target_tokens, instructions, validator=given.validator,
            token_tolerance=given.token_tolerance, max_retries=given.max_retries, **others,
        )  # fmt: skip

    def _guidance(self, given: SimpleNamespace, scope: CompressScope) -> tuple[str | None, str | None]:
        texts = [message_text(message) for message in scope.selection.messages]
        return _guidance(given, self._models, "compress", "sum messages of a conversation up", texts)


class MergeVerb(HistoryVerb[MergeResult, PendingMerge]):
    """Merges a branch into the current one. Handlers see merges with conflicts."""

    operation = "merge"
    functions = ("resolver",)

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingMerge:
        """Make the pending of a merge from its fields."""
        return PendingMerge(fields, tract=self._tract, merge=self._repository.merge, **options)

    def _look(self, given: SimpleNamespace) -> MergePreview:
        return self._repository.merge.look(given.source_branch, strategy=given.strategy, no_ff=given.no_ff)

    def _is_decided(self, given: SimpleNamespace, found: MergePreview) -> bool:
        return bool(found.result.conflicts) and super()._is_decided(given, found)

    def _pending(self, given: SimpleNamespace, found: MergePreview) -> PendingMerge:
        told, said_by = self._guidance(given, found)
        conflicts, sides = found.result.conflicts, found.sides
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "source_head": sides.tips[1],
            "source_branch": found.result.source_branch,
            "target_branch": found.result.target_branch,
            "conflicts": [conflict_to_dict(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, with_guidance(given.resolver, told)),
            "strategy": given.strategy,
            "no_ff": given.no_ff,
            "delete_branch": given.delete_branch,
            "message": given.message,
            "guidance": told,
            "guidance_source": said_by,
            "rewrite": self._rewrite([conflict.target for conflict in conflicts]),
        }
        return self.restored(fields, resolver=given.resolver, triggered_by=given.triggered_by)

    def _carry_out(self, given: SimpleNamespace, found: MergePreview) -> MergeResult:
        resolver, conflicts = given.resolver, found.result.conflicts
        if conflicts:
            self._repository.before_rewrite(*[conflict.target for conflict in conflicts])
            resolver = with_guidance(resolver, self._guidance(given, found)[0])
        return self._repository.merge.join(
            found, resolver=resolver, delete_branch=given.delete_branch, message=given.message
        )

    def _guidance(self, given: SimpleNamespace, found: MergePreview) -> tuple[str | None, str | None]:
        texts = [str(conflict) for conflict in found.result.conflicts]
        return _guidance(given, self._models, "merge", "decide conflicts of a merge", texts)


class RebaseVerb(HistoryVerb[RebaseResult, PendingRebase]):
    """Puts the own commits of the current branch onto another one."""

    operation = "rebase"
    functions = ("resolver",)

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingRebase:
        """Make the pending of a rebase from its fields."""
        return PendingRebase(fields, tract=self._tract, rebase=self._repository.rebase, **options)

    def _pending(self, given: SimpleNamespace, found: None) -> PendingRebase:  # noqa: ARG002 # it looks itself
        sides, drafts = self._repository.rebase.look(given.target_branch)
        conflicts = sides.compared.conflicts
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "target_base": given.target_branch,
            "target_head": sides.tips[1],
            "replay_plan": [_draft_to_dict(draft) for draft in drafts],
            "excluded": [],
            "warnings": [str(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, given.resolver),
            "rewrite": self._rewrite(_replayed(drafts)),
        }
        return self.restored(fields, triggered_by=given.triggered_by)

    def _carry_out(self, given: SimpleNamespace, found: None) -> RebaseResult:  # noqa: ARG002 # `run` looks itself
        if self._repository.has_blocks:
            self._repository.before_rewrite(*_replayed(self._repository.rebase.look(given.target_branch)[1]))
        return self._repository.rebase.run(given.target_branch, given.resolver)


class GCVerb(HistoryVerb[GCResult, PendingGC]):
    """Removes commits that nothing leads to."""

    operation = "gc"

    def restored(self, fields: dict[str, Any], **options: Any) -> PendingGC:
        """Make the pending of a garbage collection from its fields."""
        return PendingGC(fields, tract=self._tract, run=self._collect, **options)

    def _look(self, given: SimpleNamespace) -> tuple[Retain, Choice]:
        """Return the retention times, and the commits to keep by their full hashes, which the collector compares."""
        retain = Retain(given.orphan_retention_days, given.archive_retention_days)
        names = names_of(given.keep, "keep")
        return retain, Choice(frozenset(self._repository.refs.resolve(name) for name in names))

    def _is_decided(self, given: SimpleNamespace, found: tuple[Retain, Choice]) -> bool:
        return not given.dry_run and super()._is_decided(given, found)

    def _pending(self, given: SimpleNamespace, found: tuple[Retain, Choice]) -> PendingGC:
        garbage = self._repository.garbage_collector.run(*found, dry_run=True)
        fields = {
            "commits_to_remove": list(garbage.commits),
            "tokens_to_free": garbage.tokens,
            "excluded": sorted(found[1].keep),  # a set has another order in each process
            "orphan_retention_days": given.orphan_retention_days,
            "archive_retention_days": given.archive_retention_days,
        }
        return self.restored(fields, triggered_by=given.triggered_by)

    def _carry_out(self, given: SimpleNamespace, found: tuple[Retain, Choice]) -> GCResult:
        return self._repository.garbage_collector.run(*found, dry_run=given.dry_run)

    def _collect(self, fields: dict[str, Any]) -> GCResult:
        """Remove the approved commits that are still garbage."""
        retain = Retain(fields["orphan_retention_days"], fields["archive_retention_days"])
        choice = Choice(frozenset(fields["excluded"]), frozenset(fields["commits_to_remove"]))
        return self._repository.garbage_collector.run(retain, choice)


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
    given: SimpleNamespace,
    models: Models,
    operation: Literal["compress", "merge"],
    task: str,
    texts: Sequence[str],
) -> tuple[str | None, str | None]:
    """Return the guidance and its author; the model writes it if two stages are wanted and the caller gave none."""
    if given.guidance is not None:
        return given.guidance, "user"
    if not given.two_stage:
        return None, None
    instructions = getattr(given, "instructions", None)
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
