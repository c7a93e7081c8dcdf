"""Bringing histories together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.context.ancestry import Origins
from tract_jupyter.context.merge import Merge, Settling
from tract_jupyter.context.rebase import Imports, Rebase, Replay
from tract_jupyter.context.sides import SideBySide
from tract_jupyter.context.summaries import guidance as write_guidance
from tract_jupyter.facade.gated import Gated
from tract_jupyter.hooks.builtin.history import (
    PendingMerge,
    PendingRebase,
    conflict_to_dict,
    resolutions_of,
    with_guidance,
)
from tract_jupyter.storage.journal import triggered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.context.merge import Found
    from tract_jupyter.models.merge import ImportResolver, ImportResult, MergeResult, RebaseResult, Resolver
    from tract_jupyter.storage.entry import Draft


class Merging(Gated):
    """The part of `Tract` that merges, rebases and imports."""

    def merge(
        self,
        source: str,
        *,
        resolver: Resolver | None = None,
        strategy: Literal["auto", "strict"] = "auto",
        no_ff: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        triggered_by: str | None = None,
    ) -> MergeResult:
        """Merge another branch into the current one.

        If the other branch only goes on from here, the branch just moves there. Otherwise a merge commit joins the two;
        it adds nothing to the context but what the other branch has. What one side edited or annotated is taken over.
        Conflicts are what both edited differently (`both_edit`) and what one side left out and the other edited
        (`skip_vs_edit`). That one side edited a message while the other went on with the text before
        (`edit_plus_append`) is told, and blocks with `strategy="strict"` only. Of two new priorities the other branch's
        counts, and so do its tools.

        Args:
            source: the branch to merge.
            resolver: decides conflicts: `"ours"` or `"theirs"` for all that block; a dict from the conflict's `key` (or
                its target's hash) to a `Resolution` or `"ours"`, `"theirs"`, `"skip"`, `"abort"`; or a function of the
                conflict that returns one, None to leave it open.
            strategy: `auto`, or `strict` where warnings block too.
            no_ff: make a merge commit even if the branch could just move.
            delete_branch: delete the other branch afterwards.
            message: one line for the log.
            triggered_by: what set it off, for the log.

        Raises:
            MergeConflictError: something needs a decision; its `conflicts` list what. Nothing was written.
            NothingToMergeError: everything is here already.
            HistoryError: one of the two has no commits, they share none, or one has a summary of what the other still
                has.
            ContentError: the message is no text that every database can keep.
            BranchNotFoundError: there is no such branch.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch meanwhile; nothing was written.
            BudgetExceededError: the budget refuses it.
            RejectedError, UndecidedError: a handler turned it down, or left it open. They see merges with conflicts.
        """
        found = self._merge.look(source, strategy=strategy, no_ff=no_ff)
        if found.result.conflicts and self._is_hooked("merge"):
            settings = {
                "strategy": strategy,
                "no_ff": no_ff,
                "delete_branch": delete_branch,
                "message": message,
            }
            pending = self._merge_pending(found, settings, resolver, triggered_by=triggered_by)
            return self._decided(pending, resolver)  # type: ignore[no-any-return]
        with triggered(triggered_by):
            return self._merge.join(found, resolver=resolver, delete_branch=delete_branch, message=message)

    def propose_merge(
        self,
        source: str,
        *,
        resolver: Resolver | None = None,
        strategy: Literal["auto", "strict"] = "auto",
        no_ff: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        triggered_by: str | None = None,
    ) -> PendingMerge:
        """Return the pending whose approval does what `merge` would; the arguments are the same.

        What the resolver leaves open can be decided there. It is in the inbox until it is decided.

        Args:
            source: as for `merge`, like the five after it.
            resolver: is told the guidance, if it takes `guidance`.
            strategy: see there.
            no_ff: see there.
            delete_branch: see there.
            message: see there.
            guidance: what matters in the conflicts.
            two_stage: first have the configured model say that.
            triggered_by: what set it off, for the log.

        Raises:
            LLMError: two stages are wanted without a model, or what it gave back is no reply.
        """
        found = self._merge.look(source, strategy=strategy, no_ff=no_ff)
        said_by = None if guidance is None else "user"
        if two_stage and guidance is None:
            texts = [str(conflict) for conflict in found.result.conflicts]
            client = self.llm_for("merge")
            guidance, said_by = write_guidance(client, "decide conflicts of a merge", texts, None), "llm"
        settings = {"strategy": strategy, "no_ff": no_ff, "delete_branch": delete_branch, "message": message}
        pending = self._merge_pending(found, settings, resolver, guidance, said_by, triggered_by)
        return self._firing.keep(pending, resolver)

    def _merge_pending(
        self,
        found: Found,
        settings: dict[str, Any],
        resolver: Resolver | None,
        guidance: str | None = None,
        said_by: str | None = None,
        triggered_by: str | None = None,
    ) -> PendingMerge:
        conflicts, sides = found.result.conflicts, found.sides
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "source_head": sides.tips[1],
            "source_branch": found.result.source,
            "target_branch": found.result.target,
            "conflicts": [conflict_to_dict(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, with_guidance(resolver, guidance)),
            **settings,
            "guidance": guidance,
            "guidance_source": said_by,
        }
        return PendingMerge(
            fields, tract=self, merge=self._merge, resolver=resolver, triggered_by=triggered_by
        )

    def preview_merge(
        self, source: str, *, strategy: Literal["auto", "strict"] = "auto", no_ff: bool = False
    ) -> MergeResult:
        """What `merge` would do, with the conflicts that it would need decided. Writes nothing."""
        return self._merge.look(source, strategy=strategy, no_ff=no_ff).result

    def rebase(
        self, target_branch: str, *, resolver: Resolver | None = None, triggered_by: str | None = None
    ) -> RebaseResult:
        """Put the own commits of the current branch onto the tip of another branch.

        They are copied with their edits, annotations, tags, metadata and tools. The originals stay addressable:
        `ORIG_HEAD` names the old tip, and `undo` goes back to it. Other branches do not change.

        Args:
            target_branch: the branch to go on from. If that has nothing new, nothing is done.
            resolver: decides what both sides changed, as for `merge`; `"ours"` is the current branch.
            triggered_by: what set it off, for the log.

        Raises:
            MergeConflictError: something needs a decision; nothing was written.
            HistoryError: the own commits hold merges, or the two have no commit in common.
            BranchNotFoundError: there is no such branch.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch meanwhile; nothing was written.
            BudgetExceededError: the budget refuses it.
            RejectedError, UndecidedError: a handler turned it down, or left it open.
        """
        if self._is_hooked("rebase"):
            pending = self._rebase_pending(target_branch, resolver, triggered_by)
            return self._decided(pending, resolver)  # type: ignore[no-any-return]
        with triggered(triggered_by):
            return self._rebase.run(target_branch, resolver)

    def propose_rebase(
        self, target_branch: str, *, resolver: Resolver | None = None, triggered_by: str | None = None
    ) -> PendingRebase:
        """Return the pending whose approval does what `rebase` would; the arguments are the same.

        It is in the inbox until it is decided.
        """
        return self._firing.keep(self._rebase_pending(target_branch, resolver, triggered_by), resolver)

    def _rebase_pending(
        self, target_branch: str, resolver: Resolver | None, triggered_by: str | None
    ) -> PendingRebase:
        sides, drafts = self._rebase.look(target_branch)
        conflicts = sides.compared.conflicts
        fields = {
            "branch": sides.here.branch,
            "head": sides.tips[0],
            "target_base": target_branch,
            "target_head": sides.tips[1],
            "replay_plan": [_draft_to_dict(draft) for draft in drafts],
            "excluded": [],
            "warnings": [str(conflict) for conflict in conflicts],
            "resolutions": resolutions_of(conflicts, resolver),
        }
        return PendingRebase(fields, tract=self, rebase=self._rebase, triggered_by=triggered_by)

    def import_commit(self, name: str, *, resolver: ImportResolver | None = None) -> ImportResult:
        """Copy one commit from elsewhere to the tip of the current branch; see `import_commits`."""
        return self._imports.run([name], resolver)

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
        return self._imports.run(names, resolver)

    @cached_property
    def _replay(self) -> Replay:
        return Replay(self._database, self._rows, self._writer, self._tags, self._commits)

    @cached_property
    def _side_by_side(self) -> SideBySide:
        return SideBySide(self._database, self._rows, self._refs, self._timelines)

    @cached_property
    def _settling(self) -> Settling:
        return Settling(self._database, self._rows, self._commits)

    @cached_property
    def _merge(self) -> Merge:
        return Merge(self._side_by_side, self._settling, self._replay, self._refs, self._writer)

    @cached_property
    def _rebase(self) -> Rebase:
        return Rebase(self._side_by_side, self._settling, self._replay)

    @cached_property
    def _imports(self) -> Imports:
        origins = Origins(self._database, self._rows, self._ref_rows)
        return Imports(self._refs, self._timelines, self._commits, origins, self._replay)


def _draft_to_dict(draft: Draft) -> dict[str, Any]:
    return {
        "commit_hash": draft.source,
        "operation": draft.operation,
        "target": draft.edit_target,
        "message": draft.message,
    }
