"""Merging another branch into the current one.

The merge commit joins the histories and puts nothing into the context. What only one side changed is taken over; what
both changed differently needs a decision, which is an edit or annotation right after the merge commit. Where both gave
a message another priority, the merged branch's counts, as the last one. All of it is one write, undone at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.engine.drafts import check_words, merge_draft
from tract_jupyter.engine.writer import Plan
from tract_jupyter.exceptions import CommitNotFoundError, HistoryError, NothingToMergeError
from tract_jupyter.history.deciding import decide, removed
from tract_jupyter.models.checks import check_text
from tract_jupyter.models.merge import MergeResult, MergeType

if TYPE_CHECKING:
    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.writer import Writer
    from tract_jupyter.history.deciding import Settling
    from tract_jupyter.history.replay import Replay
    from tract_jupyter.history.sides import SideBySide, Sides, Tips
    from tract_jupyter.models.merge import Resolution, Resolver
    from tract_jupyter.storage.entry import Draft

STRATEGIES = ("auto", "strict")


class Found(NamedTuple):
    """Two branches that were looked at, and what merging them would do."""

    sides: Sides
    result: MergeResult


class Merge:
    """Merges branches of one tract."""

    def __init__(
        self, sides: SideBySide, settling: Settling, replay: Replay, refs: Refs, writer: Writer
    ) -> None:
        self._sides = sides
        self._settling = settling
        self._replay = replay
        self._refs = refs
        self._writer = writer

    def look(
        self, source: str, *, strategy: str = "auto", no_ff: bool = False, expected: Tips | None = None
    ) -> Found:
        """What merging would do, and what it would have to be told. Writes nothing.

        The arguments are those of `Tract.merge`, and where it was decided, if it was decided before.
        """
        sides = self._look(source, strategy, expected)
        return Found(sides, _result(sides, no_ff=no_ff))

    def join(
        self,
        found: Found,
        *,
        resolver: Resolver | None = None,
        delete_branch: bool = False,
        message: str | None = None,
    ) -> MergeResult:
        """Merge what was looked at; the arguments are those of `Tract.merge`.

        Raises:
            BranchMovedError: somebody else moved the branch since; nothing was written.
        """
        if message is not None:
            check_words(check_text(message, "message"))
        sides, result = found
        told = message or f"merge {result.source} into {result.target}"
        drafts: tuple[Draft, ...] = ()
        if result.merge_type is not MergeType.FAST_FORWARD:
            doing = f"merging {result.source!r} into {result.target!r}"
            decided = decide(result.conflicts, resolver, doing)
            self._check_there(sides)
            result = replace(result, resolutions=decided)
            # written out, so that a merge the other way round later sees what was chosen
            settled = self._settling.drafts(sides.compared.findings, decided, explicit=True)
            drafts = (_merge_draft(sides, told, decided), *settled)
        with self._writer.batch():  # if the other branch went on, it is not deleted, and nothing is merged
            done = self._write(sides, result, drafts, told)
            if delete_branch:
                self._refs.delete(result.source)
        return done

    def _look(self, source: str, strategy: str, expected: Tips | None) -> Sides:
        if strategy not in STRATEGIES:
            raise HistoryError(
                f"{strategy!r} is no strategy of a merge; use 'auto', or 'strict' where warnings block"
            )
        sides = self._sides.look(source, "merge", strict=strategy == "strict", expected=expected)
        if source == sides.here.branch:
            raise NothingToMergeError(f"{source!r} is the current branch; switch to the one to merge it into")
        if sides.is_ahead:
            raise NothingToMergeError(f"{sides.here.branch!r} has everything of {source!r} already")
        return sides

    def _check_there(self, sides: Sides) -> None:
        """Check that what is merged is still there: deciding takes its time, and may run any code."""
        try:
            self._refs.resolve(sides.tips[1])
        except CommitNotFoundError:
            raise HistoryError(removed(sides.tips[1])) from None

    def _write(
        self, sides: Sides, result: MergeResult, drafts: tuple[Draft, ...], message: str
    ) -> MergeResult:
        plan = Plan(
            branch=result.target,
            old=sides.here.commit_hash,
            base=sides.here if drafts else sides.there,
            drafts=drafts,
            operation="merge",
            message=message,
            event={
                "source": result.source,
                "merged": sides.there.commit_hash,
                "merge_type": result.merge_type,
                "resolutions": _names(result.resolutions),
            },
        )
        entries = self._replay.write(plan, sides.here.context_tokens)
        commits = tuple(entry.commit_hash for entry in entries)
        return replace(
            result,
            merge_commit=commits[0] if commits else None,
            commits=commits,
            head=commits[-1] if commits else sides.there.commit_hash,
        )


def _result(sides: Sides, *, no_ff: bool) -> MergeResult:
    target, source = sides.names
    conflicts = sides.compared.conflicts
    if sides.is_behind and not no_ff:
        kind = MergeType.FAST_FORWARD
    elif any(conflict.is_blocking for conflict in conflicts):
        kind = MergeType.CONFLICT
    else:
        kind = MergeType.CLEAN
    return MergeResult(
        merge_type=kind,
        source=source,
        target=target,
        base=sides.bases[0],
        bases=sides.bases,
        incoming=tuple(step.commit_hash for step in sides.compared.theirs),
        conflicts=conflicts,
    )


def _merge_draft(sides: Sides, message: str, decided: dict[str, Resolution]) -> Draft:
    details = {"source": sides.names[1], "resolutions": _names(decided)}
    return merge_draft(message, (sides.tips[1],), details)


def _names(decided: dict[str, Resolution]) -> dict[str, str]:
    return {key: str(resolution.action) for key, resolution in decided.items()}
