"""A rebase that awaits a decision: commits can be left out first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import CommitNotFoundError, HistoryError
from tract_jupyter.history.rebase import check_planned
from tract_jupyter.history.sides import Tips
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.builtin.base import PLACE, BuiltinPending, Field
from tract_jupyter.hooks.builtin.merge import resolution_from
from tract_jupyter.hooks.marks import reading
from tract_jupyter.review.request import ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.history.rebase import Rebase


class PendingRebase(BuiltinPending):
    """Put the own commits of the current branch onto the tip of another one.

    Args:
        rebase: does it.
        options: see `BuiltinPending`.
    """

    name = "rebase"
    label = "Rebase"
    about: ClassVar[Mapping[str, str]] = {
        "target_base": "The branch to go on from.",
        "replay_plan": "The own commits that would be placed anew, oldest first.",
        "excluded": "Hashes of own commits that are left out.",
        "warnings": "What both branches changed.",
        "resolutions": "What is decided about that, by the key of the conflict.",
        "target_head": "The commit that the other branch was at when this was asked.",
        **PLACE,
    }
    in_view = frozenset({"replay_plan", "warnings"})
    replay_plan = Field()
    target_base = Field()
    warnings = Field()
    excluded = Field()

    def __init__(self, fields: dict[str, Any], *, rebase: Rebase, **options: Any) -> None:
        super().__init__(fields, run=self._run, **options)
        self._rebase = rebase

    @action
    def exclude(self, commit_hash: Annotated[str, "Of an own commit; its first digits suffice."]) -> None:
        """Leave an own message out, with all that edits or annotates it."""
        found = [
            step for step in self.replay_plan if commit_hash and step["commit_hash"].startswith(commit_hash)
        ]
        if len(found) != 1:
            which = "several own commits begin" if found else "no own commit begins"
            raise CommitNotFoundError(f"{which} with {commit_hash!r}; list_commits() lists them")
        name = found[0]["commit_hash"]
        own = {step["commit_hash"] for step in self.replay_plan}
        if found[0]["target"] is not None and found[0]["target"] not in {*own, *self.excluded}:
            raise HistoryError(
                f"{name[:8]} changes a message that both branches have, and takes part in how they are brought "
                "together; undo it on the branch, and rebase then"
            )
        gone = [
            step["commit_hash"] for step in self.replay_plan if name in (step["commit_hash"], step["target"])
        ]
        self.excluded = [*self.excluded, *gone]
        self.replay_plan = [step for step in self.replay_plan if step["commit_hash"] not in gone]

    @reading
    def list_commits(self) -> list[dict[str, Any]]:
        """The commits that would be placed anew, oldest first."""
        return [dict(step) for step in self.replay_plan]

    def summary(self) -> str:
        """What would happen."""
        count = len(self.replay_plan)
        return (
            f"Place {count:,} commit{'s' * (count != 1)} of {self.fields['branch']!r} anew, onto {self.target_base!r}. "
            "undo() brings the originals back."
        )

    def tables(self) -> tuple[ValueTable, ...]:
        """The commits, and what to look at."""
        rows = tuple(
            ValueRow(step["commit_hash"][:8], step["operation"], step["message"], _place(step))
            for step in self.replay_plan
        )
        warnings = tuple(
            ValueRow(str(number), "conflict", text) for number, text in enumerate(self.warnings, 1)
        )
        found = (ValueTable("Commits", rows, "rows"), ValueTable("Conflicts", warnings))
        return tuple(table for table in found if table.rows)

    def check_touched(self) -> None:
        """Check that the other branch is where it was, and that no own commit is gone or was changed."""
        sides, drafts = self._rebase.look(self.target_base, _expected(self.fields))
        if not (sides.is_ahead or sides.is_behind):
            check_planned(drafts, _planned(self.fields))

    def _run(self, fields: dict[str, Any]) -> Any:
        return self._rebase.run(
            fields["target_base"],
            {key: resolution_from(made) for key, made in fields["resolutions"].items()},
            leave_out=fields["excluded"],
            planned=_planned(fields),
            expected=_expected(fields),
        )


def _planned(fields: Mapping[str, Any]) -> set[str]:
    """The own commits that were known when this was asked."""
    return {step["commit_hash"] for step in fields["replay_plan"]}.union(fields["excluded"])


def _expected(fields: Mapping[str, Any]) -> Tips:
    return Tips(fields["branch"], fields["target_head"])


def _place(step: Mapping[str, Any]) -> str:
    """Which commit it is, and which one it is about."""
    about = "" if step["target"] is None else f", about {step['target']}"
    return f"{step['commit_hash']}{about}"
