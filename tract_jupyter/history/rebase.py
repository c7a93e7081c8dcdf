"""Putting the own commits of the current branch onto the tip of another one.

They are copied: edits and annotations of own commits point at the copies, tags, metadata and tools stay. The originals
stay addressable, and `undo` goes back to them. What both sides changed differently needs a decision, as in a merge;
what both only annotated has the own priority, as the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.engine.writer import Plan
from tract_jupyter.exceptions import HistoryError
from tract_jupyter.history.deciding import decide
from tract_jupyter.history.replay import copied
from tract_jupyter.models.merge import RebaseResult, RebaseType
from tract_jupyter.storage.entry import MERGE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.history.deciding import Settling
    from tract_jupyter.history.replay import Replay
    from tract_jupyter.history.sides import SideBySide, Sides, Tips
    from tract_jupyter.models.merge import Resolution, Resolver
    from tract_jupyter.storage.entry import Draft


class Rebase:
    """Rebases branches of one tract."""

    def __init__(self, sides: SideBySide, settling: Settling, replay: Replay) -> None:
        self._sides = sides
        self._settling = settling
        self._replay = replay

    def look(self, target: str, expected: Tips | None = None) -> tuple[Sides, list[Draft]]:
        """How the two branches compare, and the own commits as they would be placed anew."""
        sides = self._sides.look(target, "rebase", ours_last=True, expected=expected)
        if sides.is_ahead or sides.is_behind:
            return sides, []
        _check_no_merges(sides)
        return sides, self._replay.copies(sides.tips[0], sides.compared.ours)

    def run(
        self,
        target: str,
        resolver: Resolver | None = None,
        *,
        leave_out: Collection[str] = (),
        planned: Collection[str] | None = None,
        expected: Tips | None = None,
    ) -> RebaseResult:
        """Rebase.

        Args:
            target: the branch to go on from.
            resolver: as for `Tract.rebase`.
            leave_out: own commits that are not taken along; what edits or annotates them is named too.
            planned: the own commits that were known when this was decided, if it was decided before. Messages that
                came since are taken along.
            expected: what that was about.
        """
        sides = self._sides.look(target, "rebase", ours_last=True, expected=expected)
        if sides.is_ahead:
            return _result(sides, RebaseType.UP_TO_DATE, sides.tips[0])
        if sides.is_behind:
            self._write(sides, [], {})
            return _result(sides, RebaseType.FAST_FORWARD, sides.tips[1])
        _check_no_merges(sides)
        branch, onto = sides.names
        decided = decide(sides.compared.conflicts, resolver, f"rebasing {branch!r} onto {onto!r}")
        drafts = self._replay.copies(sides.tips[0], sides.compared.ours)
        if planned is not None:
            check_planned(drafts, planned)
        drafts = [draft for draft in drafts if draft.source not in leave_out]
        drafts += self._settling.drafts(sides.compared.findings, decided)
        return self._write(sides, drafts, decided)

    def _write(self, sides: Sides, drafts: list[Draft], decided: dict[str, Resolution]) -> RebaseResult:
        branch, onto = sides.names
        plan = Plan(
            branch=branch,
            old=sides.here.commit_hash,
            base=sides.there,
            drafts=drafts,
            operation="rebase",
            message=f"onto {onto}",
            event={"onto": onto, "resolutions": {key: str(r.action) for key, r in decided.items()}},
        )
        entries = self._replay.write(plan, sides.here.context_tokens)
        commits = tuple(entry.commit_hash for entry in entries)
        head = commits[-1] if commits else sides.tips[1]
        return _result(sides, RebaseType.REBASED, head, copied(drafts, entries), commits, decided)


def check_planned(drafts: Sequence[Draft], planned: Collection[str]) -> None:
    """Check that a plan still stands: its commits are there, and what came since changes none of them.

    Raises:
        HistoryError: it does not.
    """
    since = [draft for draft in drafts if draft.source not in planned]
    new = {draft.source for draft in since}
    changed = [draft for draft in since if draft.edit_target is not None and draft.edit_target not in new]
    if changed or len(since) + len(planned) != len(drafts):
        raise HistoryError(
            "the own commits of the branch are others than when this was asked: some were taken away, or messages were "
            "edited or annotated since; nothing was changed. Ask for it again"
        )


def _check_no_merges(sides: Sides) -> None:
    merges = [step.commit_hash[:8] for step in sides.compared.ours if step.operation == MERGE]
    if merges:
        branch, onto = sides.names
        raise HistoryError(
            f"{branch!r} has merges of its own ({', '.join(merges)}), which cannot be put in a line; nothing was "
            f"changed. Merge {onto!r} instead, or bring single commits over with import_commits()"
        )


def _result(
    sides: Sides,
    kind: RebaseType,
    head: str,
    copies: dict[str, str] | None = None,
    commits: tuple[str, ...] = (),
    decided: dict[str, Resolution] | None = None,
) -> RebaseResult:
    branch, onto = sides.names
    return RebaseResult(
        rebase_type=kind,
        branch=branch,
        onto=onto,
        base=sides.bases[0],
        old_head=sides.tips[0],
        new_head=head,
        copies=copies or {},
        commits=commits,
        conflicts=sides.compared.conflicts if kind is RebaseType.REBASED else (),
        resolutions=decided or {},
    )
