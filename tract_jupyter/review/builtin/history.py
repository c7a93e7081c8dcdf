"""The pendings of compress, merge, rebase and gc. A user or a handler can read and change them before approval."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel

from tract_jupyter.context import Heads, ModelText, answers, check_planned, with_writer, writer_of
from tract_jupyter.exceptions import CommitNotFoundError, CompressionError, HistoryError, nearest
from tract_jupyter.models import Conflict, ConflictKind, Resolution, counted, text_of
from tract_jupyter.models.schema import Parameter, Parameters
from tract_jupyter.review.builtin.base import PLACE, BuiltinPending, Field, GuidedPending, ValidationResult
from tract_jupyter.review.introspection import gated, reading
from tract_jupyter.review.pending import action
from tract_jupyter.review.request import CHOICES, TextChoice, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.context import Compressor, Merge, MergePreview, Rebase, Source
    from tract_jupyter.models import Resolver


_SHORTEST = 10  # characters


def _rewrite_sentence(fields: Mapping[str, Any]) -> str:
    """Return a sentence about the reasoning and the cache that the change discards. Empty if there are none."""
    cost = str(fields["rewrite"])
    return f" {cost[0].upper()}{cost[1:]}." if cost else ""


Index = Annotated[int, "The number of the summary, from 0."]


class PendingCompress(GuidedPending):
    """Replace messages with summaries.

    After a restart, the tract's model writes summaries again, if one is configured.
    """

    name = "compress"
    label = "Compress the context"
    labels: Mapping[str, str] = {"approve": "Compress", "reject": "Reject"}
    about: ClassVar[Mapping[str, str]] = {
        "summaries": "The summaries, in the order of their messages.",
        "writers": "The model of each summary, and its tokens; null if no model wrote it.",
        "source_commits": "Hashes of the commits that each summary replaces.",
        "preserved_commits": "Hashes of the commits that stay, because they are pinned or preserved.",
        "original_tokens": "The tokens of the replaced messages.",
        "estimated_tokens": "The tokens of all summaries.",
        "target_tokens": "The target tokens of each summary; any number if null.",
        "most_tokens": "The maximum tokens of each summary; any number if null.",
        "price": "Its cost and savings.",
        "rewrite": "The loss of the model's reasoning and of its provider's cache; empty if none.",
        "instructions": "Instructions for the summarizer, in addition to the guidance.",
        "message": "A line for the log; the beginning of the summary if null.",
        **GuidedPending.about,
        **PLACE,
    }
    in_view = frozenset({"summaries"})
    summaries = Field()
    writers = Field()
    source_commits = Field()
    preserved_commits = Field()
    original_tokens = Field()
    estimated_tokens = Field()

    def __init__(
        self, fields: dict[str, Any], *, compressor: Compressor, source: Source, **options: Any
    ) -> None:
        super().__init__(fields, run=self._run, **options)
        self._compressor = compressor
        self._source = source

    @action
    def edit_summary(self, index: Index, text: str) -> None:
        """Replace the text of a summary."""
        self._change(index, text)

    @action
    def retry(
        self,
        index: Index,
        guidance: Annotated[str | None, "Guidance for this part; default: the guidance of the whole."] = None,
    ) -> str:
        """Write one summary again, and return it."""
        _, selection = self._compressor.selected(self.fields)
        before = with_writer(self.summaries[self._index(index)], self.writers[index])
        text = self._source.write(selection.groups[index], guidance or self.guidance)
        self._change(index, text.after([before]) if isinstance(text, ModelText) else text)
        return text

    @reading
    def validate(self) -> ValidationResult:
        """Check that every summary has a valid length and the required contents."""
        _, selection = self._compressor.selected(self.fields)
        for index, (text, group) in enumerate(zip(self.summaries, selection.groups, strict=True)):
            finding = self._source.problem(text, group)
            problem = self._length_problem(index, text) if finding is None else finding.text
            if problem is not None:
                return ValidationResult(passed=False, diagnosis=problem, index=index)
        return ValidationResult(passed=True)

    @reading
    def list_summaries(self) -> list[str]:
        """Return all summaries, in order."""
        return list(self.summaries)

    def summary(self) -> str:
        """Describe the effect of an approval."""
        count = sum(len(group) for group in self.source_commits)
        many = "1 summary" if len(self.summaries) == 1 else f"{len(self.summaries)} summaries"
        return (
            f"{count:,} messages of {self.fields['branch']!r} ({self.original_tokens:,} tokens) become {many} "
            f"({self.estimated_tokens:,} tokens). That {self.fields['price']}. expand() and undo() bring the originals "
            f"back.{_rewrite_sentence(self.fields)}"
        )

    def tables(self) -> tuple[ValueTable, ...]:
        """Show each summary with the number of messages that it replaces."""
        rows = tuple(
            ValueRow.of(str(index), f"{counted(len(group), 'message')} from {group[0][:8]}", text)
            for index, (group, text) in enumerate(zip(self.source_commits, self.summaries, strict=True))
        )
        return (ValueTable("Summaries", rows),)

    def check_touched(self) -> None:
        """Check that the replaced messages exist and are unchanged."""
        self._compressor.selected(self.fields)

    def _run(self, fields: dict[str, Any]) -> Any:
        return self._compressor.carry_out(fields, self._source, fields["message"])

    def _change(self, index: int, text: str) -> None:
        summaries = list(self.summaries)
        summaries[self._index(index)] = text
        self.estimated_tokens = self._compressor.tokens(summaries)  # raises if a summary is not a text
        self.summaries = summaries
        self.writers = [*self.writers[:index], writer_of(text), *self.writers[index + 1 :]]

    def _index(self, index: int) -> int:
        if not 0 <= index < len(self.summaries):
            raise CompressionError(
                f"there is no summary {index}; the summaries are 0 to {len(self.summaries) - 1}"
            )
        return index

    def _length_problem(self, index: int, text: str) -> str | None:
        if len(text.strip()) < _SHORTEST:
            return f"{text!r} is too short for a summary ({_SHORTEST} characters at least)"
        most = [self.fields["most_tokens"][index]]
        try:
            self._compressor.check_lengths({**self.fields, "summaries": [text], "most_tokens": most})
        except CompressionError as error:
            return str(error)
        return None


class PendingGC(BuiltinPending):
    """Remove unreachable commits permanently."""

    name = "gc"
    label = "Garbage collection"
    labels: Mapping[str, str] = {"approve": "Collect garbage", "reject": "Reject"}
    about: ClassVar[Mapping[str, str]] = {
        "commits_to_remove": "Hashes of the removed commits.",
        "tokens_to_free": "The tokens of the removed commits.",
        "excluded": "Hashes of commits to keep, with everything that they need.",
        "orphan_retention_days": "The minimum age of removed commits, in days.",
        "archive_retention_days": "The minimum age of removed originals of summaries, in days; empty to keep them.",
    }
    commits_to_remove = Field()
    tokens_to_free = Field()
    excluded = Field()

    @action
    def exclude(self, commit_hash: Annotated[str, "The hash of a candidate, or its first digits."]) -> None:
        """Keep a commit, with everything that it needs."""
        full_hash = self.tract.get_commit(commit_hash).commit_hash
        if full_hash not in self.commits_to_remove:
            raise CommitNotFoundError(
                f"{commit_hash!r} is not a candidate, so it stays; list_candidates() lists the candidates"
            )
        self.excluded = sorted([*self.excluded, full_hash])
        garbage = self.tract.gc(
            orphan_retention_days=self.fields["orphan_retention_days"],
            archive_retention_days=self.fields["archive_retention_days"],
            keep=self.excluded,
            dry_run=True,
        )
        self.commits_to_remove = [name for name in self.commits_to_remove if name in garbage.commits]
        self.tokens_to_free = garbage.tokens

    @reading
    def list_candidates(self) -> list[dict[str, object]]:
        """Return the commits that would be removed, oldest first, with their messages and sizes."""
        infos = [self.tract.get_commit(name) for name in self.commits_to_remove]
        return [
            {"commit_hash": info.commit_hash, "message": info.message, "token_count": info.token_count}
            for info in infos
        ]

    def summary(self) -> str:
        """Describe the effect of an approval."""
        commits = counted(len(self.commits_to_remove), "unreachable commit")
        return f"Remove {commits} ({self.tokens_to_free:,} tokens). There is no undo."


Key = Annotated[str, "The key of the conflict, such as 'both_edit:0f3a9b…'; see list_conflicts()."]
How = Annotated[Literal["ours", "theirs", "replace", "skip"], "`replace` needs the text."]


class PendingMerge(GuidedPending):
    """Merge a branch that has conflicts with the current branch.

    After a restart it has no resolver.
    """

    name = "merge"
    about: ClassVar[Mapping[str, str]] = {
        "source_branch": "The branch to merge.",
        "target_branch": "The branch that receives it.",
        "conflicts": "The changes of both sides, with both texts.",
        "resolutions": "The resolution of each conflict, by its key.",
        "strategy": "`auto`, or `strict` if warnings also need a decision.",
        "no_ff": "Make a merge commit even if a fast-forward is possible.",
        "delete_branch": "Delete the merged branch afterwards.",
        "message": "The message of the merge commit; names both branches if null.",
        "source_head": "The tip of the merged branch at the time of the request.",
        "rewrite": "The loss of the model's reasoning and of its provider's cache; empty if none.",
        **GuidedPending.about,
        **PLACE,
    }
    labels: Mapping[str, str] = {"approve": "Merge", "reject": "Reject"}
    in_view = frozenset({"conflicts", "resolutions"})
    machinery = frozenset({*PLACE, "source_head"})
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

    @property
    def title(self) -> str:
        """The heading of the panel."""
        return f"Merge {self.source_branch} into {self.target_branch}"

    @property
    def without_button(self) -> frozenset[str]:  # type: ignore[override] # retrying takes a resolver
        """The actions without a button: the conflict inputs replace them, or they need a missing resolver."""
        values = {"set_resolution", "edit_resolution", "edit_interactive"}
        return frozenset(values if callable(self._resolver) else {*values, "retry", "edit_guidance"})

    @gated  # not an @action: only explicit arguments are stored
    def approve(
        self,
        edits: Annotated[
            dict[str, Any] | None, "Resolutions by conflict key: ours, theirs, skip, or another text."
        ] = None,
    ) -> Any:
        """Resolve the open conflicts, merge, and return the result."""
        return self.through_gate("approve", {} if edits is None else {"edits": edits}, self.run_approved)

    def editable(self) -> Parameters | None:
        """Return one value per conflict: `ours`, `theirs`, `skip`, or another text."""
        if not self.status.is_open:
            return None
        chosen = [(conflict["key"], self._value_of(conflict["key"])) for conflict in self.conflicts]
        return Parameters(self.name, [Parameter(key, _Value, value, _HOW) for key, value in chosen])

    def edited(
        self, action: str, arguments: Mapping[str, Any], *, keep: bool = True
    ) -> AbstractContextManager[None]:
        """Apply the `edits` of an approval to the conflicts. Restore the fields if the block raises."""
        edits, fields = arguments.get("edits"), self.fields
        if edits and action == "approve":
            known = Parameters(self.name, [Parameter(c["key"], _Value, None, _HOW) for c in self.conflicts])
            values = known.validate(dict(edits))
            changed = {key: _resolution_for(values[key]) for key in edits}
            unchanged = {key: old for key, old in self.resolutions.items() if key not in changed}
            decided = {key: decision for key, decision in changed.items() if decision is not None}
            fields = {**fields, "resolutions": {**unchanged, **decided}}
        return self._changed(fields, keep=keep)

    @action
    def set_resolution(self, key: Key, action: How, text: str | None = None, reason: str = "") -> None:
        """Resolve a conflict."""
        conflict = self._conflict(key)
        Resolution(action, text, reason)  # raises if action and text conflict
        self.resolutions[conflict["key"]] = {"action": action, "replacement": text, "reason": reason}

    @action
    def edit_resolution(self, key: Key, text: str) -> None:
        """Replace the text of a resolved conflict."""
        if key not in self.resolutions:
            raise HistoryError(f"{key!r} has no resolution yet; use set_resolution")
        self.resolutions[key] = {**self.resolutions[key], "action": "replace", "replacement": text}

    @action
    def edit_interactive(self) -> None:
        """Ask at the keyboard about each open conflict."""
        for conflict in self.conflicts:
            if conflict["key"] not in self.resolutions:
                print(f"{conflict['key']}\n  ours:   {conflict['ours']}\n  theirs: {conflict['theirs']}")  # noqa: T201
                answer = input("ours / theirs / skip, or the new text: ").strip()
                simple = answer in {"ours", "theirs", "skip"}
                self.resolutions[conflict["key"]] = {
                    "action": answer if simple else "replace",
                    "replacement": None if simple else answer,
                    "reason": "",
                }

    @action
    def retry(
        self,
        guidance: Annotated[str | None, "Guidance for this part; default: the guidance of the whole."] = None,
    ) -> None:
        """Call the resolver again for all conflicts."""
        if not callable(self._resolver):
            raise HistoryError("there is no resolver to call again; use set_resolution")
        guidance = guidance or self.guidance
        conflicts = self._look(self.fields).result.conflicts
        self.resolutions = resolutions_of(conflicts, with_guidance(self._resolver, guidance))

    @reading
    def validate(self) -> ValidationResult:
        """Check that every blocking conflict is decided."""
        for index, conflict in enumerate(self.conflicts):
            if conflict["is_blocking"] and conflict["key"] not in self.resolutions:
                return ValidationResult(
                    passed=False, diagnosis=f"{conflict['key']} is not decided", index=index
                )
        return ValidationResult(passed=True)

    @reading
    def list_conflicts(self) -> list[dict[str, Any]]:
        """Return all conflicts, with both texts."""
        return [dict(conflict) for conflict in self.conflicts]

    def summary(self) -> str:
        """Describe the effect of an approval."""
        count = len(self.conflicts)
        open_count = sum(c["is_blocking"] and c["key"] not in self.resolutions for c in self.conflicts)
        open_text = (
            f"{open_count} of {counted(count, 'conflict')} {'is' if open_count == 1 else 'are'} not decided."
        )
        state = open_text if open_count else "All conflicts are decided." if count else "No conflicts."
        return f"{state}{_rewrite_sentence(self.fields)}"

    def tables(self) -> tuple[ValueTable, ...]:
        """Show the background of the conflicts: the base texts and the reasons of the resolutions.

        The conflicts themselves are `choices`.
        """
        rows = []
        for conflict in self.conflicts:
            decided = self.resolutions.get(conflict["key"])
            parts = {name: conflict[name] for name in ("base", "target", "is_blocking")}
            details = {**parts, "decided": decided and dict(sorted(decided.items()))}  # as after a restart
            text = "\n".join(f"{name}: {value!r}" for name, value in details.items() if value is not None)
            rows.append(ValueRow(conflict["key"], conflict["kind"], text))
        summary = "The earlier texts, and the reasons of the resolutions."
        return (ValueTable("About the conflicts", tuple(rows), "nothing", summary),)

    def choices(self) -> tuple[TextChoice, ...]:
        """Show each conflict with both sides and its resolution."""
        sides = (f"ours, {self.target_branch}", f"theirs, {self.source_branch}")
        return tuple(
            TextChoice(
                conflict["key"],
                f"Message {conflict['target'][:8]}: {_COLLISIONS[conflict['kind']]}",
                conflict["ours"],
                conflict["theirs"],
                sides,
                self._value_of(conflict["key"]),
                is_needed=conflict["is_blocking"],
            )
            for conflict in self.conflicts
        )

    def _value_of(self, key: str) -> str | None:
        """Return the resolution of a conflict as its value: a word, or the replacement text."""
        resolution = self.resolutions.get(key)
        if resolution is None or resolution["action"] != "replace":
            return None if resolution is None else str(resolution["action"])
        replacement = resolution["replacement"]
        return replacement if isinstance(replacement, str) else text_of(replacement)

    def check_touched(self) -> None:
        """Check that the other branch has not moved and that the conflicts match the request."""
        self._as_shown(self.fields)

    def _as_shown(self, fields: Mapping[str, Any]) -> MergePreview:
        preview = self._look(fields, Heads(fields["branch"], fields["source_head"]))
        conflicts = [conflict_to_dict(conflict) for conflict in preview.result.conflicts]
        if _blocking(conflicts) != _blocking(fields["conflicts"]):
            raise HistoryError(
                f"the conflicts with {fields['source_branch']!r} have changed since the request; nothing was "
                "changed. Propose it again"
            )
        return preview

    def _run(self, fields: dict[str, Any]) -> Any:
        return self._merge.join(
            self._as_shown(fields),
            resolver={key: resolution_from(resolution) for key, resolution in fields["resolutions"].items()},
            delete_branch=fields["delete_branch"],
            message=fields["message"],
        )

    def _look(self, fields: Mapping[str, Any], expected: Heads | None = None) -> MergePreview:
        how = {"strategy": fields["strategy"], "no_ff": fields["no_ff"]}
        return self._merge.look(fields["source_branch"], **how, expected=expected)

    def _conflict(self, key: str) -> dict[str, Any]:
        conflict = next((conflict for conflict in self.conflicts if conflict["key"] == key), None)
        if conflict is None:
            keys = [conflict["key"] for conflict in self.conflicts]
            raise HistoryError(
                f"there is no conflict {key!r}.{nearest(key, keys)} Conflicts: {', '.join(keys)}"
            )
        return conflict  # type: ignore[no-any-return] # a field's value


_Value = str | None
_HOW = "ours, theirs, skip, or the new text."
_COLLISIONS = {
    "both_edit": "both sides changed it",
    "skip_vs_edit": "one side skips it, the other side changed it",
    "edit_plus_append": "one side changed it, the other side continued from the old text",
}


def _resolution_for(value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    is_word = value in CHOICES
    return {
        "action": value if is_word else "replace",
        "replacement": None if is_word else value,
        "reason": "",
    }


def _blocking(conflicts: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {conflict["key"]: conflict for conflict in conflicts if conflict["is_blocking"]}


def conflict_to_dict(conflict: Conflict) -> dict[str, Any]:
    """Convert a conflict to JSON values."""
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
    """Return the resolver's resolutions of conflicts, as JSON values."""
    return {key: _resolution_to_dict(resolution) for key, resolution in answers(conflicts, resolver).items()}


def resolution_from(data: Mapping[str, Any]) -> Resolution:
    """Restore a resolution from a value of `resolutions_of`."""
    return Resolution(data["action"], data["replacement"], data["reason"])


def _resolution_to_dict(resolution: Resolution) -> dict[str, Any]:
    replacement = resolution.replacement
    if isinstance(replacement, BaseModel):
        replacement = replacement.model_dump(mode="json")
    return {"action": str(resolution.action), "replacement": replacement, "reason": resolution.reason}


def with_guidance(resolver: Any, guidance: str | None) -> Any:
    """Pass the guidance to a resolver that accepts it. Return any other resolver unchanged."""
    try:
        takes_it = "guidance" in inspect.signature(resolver).parameters
    except (TypeError, ValueError):
        takes_it = False
    return (lambda conflict: resolver(conflict, guidance=guidance)) if takes_it else resolver


class PendingRebase(BuiltinPending):
    """Move the commits of the current branch to the tip of another branch."""

    name = "rebase"
    label = "Rebase"
    labels: Mapping[str, str] = {"approve": "Rebase", "reject": "Reject"}
    about: ClassVar[Mapping[str, str]] = {
        "target_base": "The branch to continue from.",
        "replay_plan": "The commits to write again, oldest first.",
        "excluded": "Hashes of the branch's omitted commits.",
        "warnings": "The changes of both branches.",
        "resolutions": "The resolution, by the key of the conflict.",
        "target_head": "The tip of the other branch at the time of the request.",
        "rewrite": "The loss of the model's reasoning and of its provider's cache; empty if none.",
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
    def exclude(
        self, commit_hash: Annotated[str, "The hash of a moved commit, or its first digits."]
    ) -> None:
        """Omit a message, with its edits and annotations."""
        matches = [
            step for step in self.replay_plan if commit_hash and step["commit_hash"].startswith(commit_hash)
        ]
        if len(matches) != 1:
            which = "several commits to move begin" if matches else "no commit to move begins"
            raise CommitNotFoundError(f"{which} with {commit_hash!r}; list_commits() lists them")
        name = matches[0]["commit_hash"]
        own_hashes = {step["commit_hash"] for step in self.replay_plan}
        if matches[0]["target"] is not None and matches[0]["target"] not in {*own_hashes, *self.excluded}:
            raise HistoryError(
                f"{name[:8]} changes a message of both branches, so the rebase needs it; "
                "undo it on the branch, and rebase again"
            )
        removed = [
            step["commit_hash"] for step in self.replay_plan if name in (step["commit_hash"], step["target"])
        ]
        self.excluded = [*self.excluded, *removed]
        self.replay_plan = [step for step in self.replay_plan if step["commit_hash"] not in removed]

    @reading
    def list_commits(self) -> list[dict[str, Any]]:
        """Return the commits to write again, oldest first."""
        return [dict(step) for step in self.replay_plan]

    def summary(self) -> str:
        """Describe the effect of an approval."""
        count = len(self.replay_plan)
        return (
            f"Move {count:,} commit{'s' * (count != 1)} of {self.fields['branch']!r} onto {self.target_base!r}. "
            f"undo() brings the originals back.{_rewrite_sentence(self.fields)}"
        )

    def tables(self) -> tuple[ValueTable, ...]:
        """Show the commits and the conflicts."""
        rows = tuple(
            ValueRow(step["commit_hash"][:8], step["operation"], step["message"], _place(step))
            for step in self.replay_plan
        )
        warnings = tuple(
            ValueRow(str(number), "conflict", text) for number, text in enumerate(self.warnings, 1)
        )
        tables = (ValueTable("Commits", rows, "rows"), ValueTable("Conflicts", warnings))
        return tuple(table for table in tables if table.rows)

    def check_touched(self) -> None:
        """Check that the other branch has not moved and that all commits to move exist unchanged."""
        sides, drafts = self._rebase.look(self.target_base, _expected(self.fields))
        if not (sides.is_ahead or sides.is_behind):
            check_planned(drafts, _planned(self.fields))

    def _run(self, fields: dict[str, Any]) -> Any:
        return self._rebase.run(
            fields["target_base"],
            {key: resolution_from(resolution) for key, resolution in fields["resolutions"].items()},
            leave_out=fields["excluded"],
            planned=_planned(fields),
            expected=_expected(fields),
        )


def _planned(fields: Mapping[str, Any]) -> set[str]:
    return {step["commit_hash"] for step in fields["replay_plan"]}.union(fields["excluded"])


def _expected(fields: Mapping[str, Any]) -> Heads:
    return Heads(fields["branch"], fields["target_head"])


def _place(step: Mapping[str, Any]) -> str:
    """Return the hash of a commit, with its target if it has one."""
    about = "" if step["target"] is None else f", about {step['target']}"
    return f"{step['commit_hash']}{about}"
