"""A merge with conflicts that awaits decisions about them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel

from tract_jupyter.exceptions import HistoryError, nearest
from tract_jupyter.history.deciding import answers
from tract_jupyter.history.sides import Tips
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.builtin.base import PLACE, Field, Guided, ValidationResult
from tract_jupyter.hooks.marks import reading
from tract_jupyter.models.merge import Conflict, ConflictKind, Resolution
from tract_jupyter.review.request import ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.history.merge import Found, Merge
    from tract_jupyter.models.merge import Resolver

Key = Annotated[str, "Of the conflict, such as 'both_edit:0f3a9b…'; list_conflicts() has them."]
How = Annotated[Literal["ours", "theirs", "replace", "skip"], "With `replace`, give the text."]


class PendingMerge(Guided):
    """Merge a branch whose changes collide with those of the current one.

    Args:
        merge: does it.
        resolver: decides conflicts again; None after a restart.
        options: see `BuiltinPending`.
    """

    name = "merge"
    label = "Merge"
    about: ClassVar[Mapping[str, str]] = {
        "source_branch": "The branch that is merged.",
        "target_branch": "The branch that it is merged into.",
        "conflicts": "What both sides changed, with both texts.",
        "resolutions": "What is decided about each conflict, by its key.",
        "strategy": "`auto`, or `strict`, where warnings need a decision too.",
        "no_ff": "Whether there is a merge commit even where the branch could just move on.",
        "delete_branch": "Whether the merged branch is deleted then.",
        "message": "The message of the merge commit; names both branches if null.",
        "source_head": "The commit that the merged branch was at when this was asked.",
        **Guided.about,
        **PLACE,
    }
    in_view = frozenset({"conflicts", "resolutions"})
    resolutions = Field()
    source_branch = Field()
    target_branch = Field()
    conflicts = Field()

    def __init__(
        self, fields: dict[str, Any], *, merge: Merge, resolver: Resolver | None = None, **options: Any
    ) -> None:
        super().__init__(fields, run=self._run, **options)
        self._merge = merge
        self._resolver = resolver

    @action
    def set_resolution(self, key: Key, action: How, text: str | None = None, reason: str = "") -> None:
        """Decide about a conflict."""
        conflict = self._conflict(key)
        Resolution(action, text, reason)  # raises if the two do not go together
        self.resolutions[conflict["key"]] = {"action": action, "replacement": text, "reason": reason}

    @action
    def edit_resolution(self, key: Key, text: str) -> None:
        """Write another text for a conflict that is decided."""
        if key not in self.resolutions:
            raise HistoryError(f"{key!r} is not decided yet; use set_resolution")
        self.resolutions[key] = {**self.resolutions[key], "action": "replace", "replacement": text}

    @action
    def edit_interactive(self) -> None:
        """Ask at the keyboard about each conflict that is not decided."""
        for conflict in self.conflicts:
            if conflict["key"] not in self.resolutions:
                print(f"{conflict['key']}\n  ours:   {conflict['ours']}\n  theirs: {conflict['theirs']}")  # noqa: T201
                given = input("ours / theirs / skip, or the new text: ").strip()
                simple = given in {"ours", "theirs", "skip"}
                self.resolutions[conflict["key"]] = {
                    "action": given if simple else "replace",
                    "replacement": None if simple else given,
                    "reason": "",
                }

    @action
    def retry(
        self,
        guidance: Annotated[
            str | None, "What to look after this time; that of the whole if left out."
        ] = None,
    ) -> None:
        """Have the resolver decide about all conflicts again."""
        if not callable(self._resolver):
            raise HistoryError("there is no resolver that could decide again; use set_resolution")
        told = guidance or self.guidance
        self.resolutions = resolutions_of(self._conflicts(), with_guidance(self._resolver, told))

    @reading
    def validate(self) -> ValidationResult:
        """Whether every conflict that blocks is decided."""
        for index, conflict in enumerate(self.conflicts):
            if conflict["is_blocking"] and conflict["key"] not in self.resolutions:
                return ValidationResult(
                    passed=False, diagnosis=f"{conflict['key']} is not decided", index=index
                )
        return ValidationResult(passed=True)

    @reading
    def list_conflicts(self) -> list[dict[str, Any]]:
        """All conflicts, with both texts."""
        return [dict(conflict) for conflict in self.conflicts]

    @reading
    def get_conflict(self, key: Key) -> dict[str, Any]:
        """One conflict, with both texts."""
        return dict(self._conflict(key))

    @reading
    def get_resolution(self, key: Key) -> dict[str, Any] | None:
        """What is decided about a conflict, None if nothing is."""
        return self.resolutions.get(self._conflict(key)["key"])  # type: ignore[no-any-return] # a field's value

    def summary(self) -> str:
        """What would happen."""
        left = sum(c["is_blocking"] and c["key"] not in self.resolutions for c in self.conflicts)
        state = (
            f"{left} of {len(self.conflicts)} conflicts are not decided."
            if left
            else "All conflicts are decided."
        )
        return f"Merge {self.source_branch!r} into {self.target_branch!r}. {state}"

    def tables(self) -> tuple[ValueTable, ...]:
        """Each conflict with both sides and what is decided."""
        rows = []
        for conflict in self.conflicts:
            decided = self.resolutions.get(conflict["key"])
            chosen = "not decided" if decided is None else decided["replacement"] or decided["action"]
            parts = {name: conflict[name] for name in ("ours", "theirs", "base", "target", "is_blocking")}
            told = {**parts, "decided": decided and dict(sorted(decided.items()))}  # as after a restart
            sides = "\n".join(f"{name}: {value!r}" for name, value in told.items() if value is not None)
            rows.append(ValueRow(conflict["key"], conflict["kind"], sides, f"→ {chosen}"))
        return (ValueTable("Conflicts", tuple(rows), "rows"),)

    def check_touched(self) -> None:
        """Check that the other branch is where it was, and that what collides is what was shown."""
        self._as_shown(self.fields)

    def _as_shown(self, fields: Mapping[str, Any]) -> Found:
        found = self._look(fields, Tips(fields["branch"], fields["source_head"]))
        now = [conflict_to_dict(conflict) for conflict in found.result.conflicts]
        if _blocking(now) != _blocking(fields["conflicts"]):
            raise HistoryError(
                f"what collides in merging {fields['source_branch']!r} is not what was shown any more; nothing was "
                "changed. Ask for it again"
            )
        return found

    def _run(self, fields: dict[str, Any]) -> Any:
        return self._merge.join(
            self._as_shown(fields),
            resolver={key: resolution_from(made) for key, made in fields["resolutions"].items()},
            delete_branch=fields["delete_branch"],
            message=fields["message"],
        )

    def _look(self, fields: Mapping[str, Any], expected: Tips | None = None) -> Found:
        how = {"strategy": fields["strategy"], "no_ff": fields["no_ff"]}
        return self._merge.look(fields["source_branch"], **how, expected=expected)

    def _conflict(self, key: str) -> dict[str, Any]:
        found = next((conflict for conflict in self.conflicts if conflict["key"] == key), None)
        if found is None:
            keys = [conflict["key"] for conflict in self.conflicts]
            raise HistoryError(
                f"there is no conflict {key!r}.{nearest(key, keys)} They are: {', '.join(keys)}"
            )
        return found  # type: ignore[no-any-return] # a field's value

    def _conflicts(self) -> Sequence[Conflict]:
        return self._look(self.fields).result.conflicts


def _blocking(conflicts: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Those that a decision is needed about, by key."""
    return {conflict["key"]: conflict for conflict in conflicts if conflict["is_blocking"]}


def conflict_to_dict(conflict: Conflict) -> dict[str, Any]:
    """A conflict as JSON values."""
    return {
        "key": conflict.key,
        "kind": ConflictKind(conflict.kind).value,
        "target": conflict.target,
        "base": conflict.base_text,
        "ours": conflict.ours_text,
        "theirs": conflict.theirs_text,
        "is_blocking": conflict.is_blocking,
    }


def resolutions_of(conflicts: Sequence[Conflict], resolver: Resolver | None) -> dict[str, Any]:
    """What a resolver says about conflicts, as JSON values."""
    return {key: _resolution_to_dict(made) for key, made in answers(conflicts, resolver).items()}


def resolution_from(made: Mapping[str, Any]) -> Resolution:
    """Read what `resolutions_of` made."""
    return Resolution(made["action"], made["replacement"], made["reason"])


def _resolution_to_dict(made: Resolution) -> dict[str, Any]:
    replacement = made.replacement
    if isinstance(replacement, BaseModel):
        replacement = replacement.model_dump(mode="json")
    return {"action": str(made.action), "replacement": replacement, "reason": made.reason}


def with_guidance(resolver: Any, guidance: str | None) -> Any:
    """A resolver that is told the guidance, if it takes it; another one as it is."""
    try:
        takes_it = "guidance" in inspect.signature(resolver).parameters
    except (TypeError, ValueError):
        takes_it = False
    return (lambda conflict: resolver(conflict, guidance=guidance)) if takes_it else resolver
