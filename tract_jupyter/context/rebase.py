"""Rebase the current branch onto another one, and import single commits.

A rebase copies the branch's commits to the tip of the other branch. Edits and annotations refer to the copies. Tags,
metadata and tools stay. The originals stay addressable, and `undo` returns to them. If both sides changed a message
differently, the rebase needs a decision, as in a merge. If both sides only changed its priority, the current branch's
priority is used.

An imported message keeps its tags, metadata, tools and its priority on its branch. An imported edit or annotation
changes its target on the current branch, or the target's imported copy, and overrides earlier ones. The event records
the originals of copies; the commits do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tract_jupyter.context.ancestry import annotation_of, names_of
from tract_jupyter.context.merge import Reconciler, decide
from tract_jupyter.context.sides import compare_branches
from tract_jupyter.context.splice import copied, copies_of, write_copies
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import DetachedHeadError, HistoryError
from tract_jupyter.models import ImportIssue, ImportResult, RebaseResult, RebaseType, canonical_json
from tract_jupyter.storage import ANNOTATE, APPEND, EDIT, MERGE, Draft

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.sides import Heads, Sides
    from tract_jupyter.models import ImportResolver, Resolution, Resolver
    from tract_jupyter.storage import Entry, Position


class Rebase:
    """Rebases branches of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._reconciler = Reconciler(repository)

    def look(self, target: str, expected: Heads | None = None) -> tuple[Sides, list[Draft]]:
        """Return the comparison of the branches and the plan of the copies."""
        sides = compare_branches(self._repository, target, "rebase", ours_last=True, expected=expected)
        if sides.is_ahead or sides.is_behind:
            return sides, []
        _check_no_merges(sides)
        return sides, copies_of(self._repository, sides.tips[0], sides.compared.ours)

    def run(
        self,
        target: str,
        resolver: Resolver | None = None,
        *,
        leave_out: Collection[str] = (),
        planned: Collection[str] | None = None,
        expected: Heads | None = None,
    ) -> RebaseResult:
        """Rebase.

        Args:
            target: the new base.
            resolver: as for `Tract.rebase`.
            leave_out: commits of the branch to omit, together with their edits and annotations.
            planned: the branch's commits at the time of an earlier decision. Newer messages are copied as well.
            expected: the positions from the earlier decision.
        """
        sides = compare_branches(self._repository, target, "rebase", ours_last=True, expected=expected)
        if sides.is_ahead:
            return _result(sides, RebaseType.UP_TO_DATE, sides.tips[0])
        if sides.is_behind:
            self._write(sides, [], {})
            return _result(sides, RebaseType.FAST_FORWARD, sides.tips[1])
        _check_no_merges(sides)
        branch, onto = sides.names
        decided = decide(sides.compared.conflicts, resolver, f"rebasing {branch!r} onto {onto!r}")
        drafts = copies_of(self._repository, sides.tips[0], sides.compared.ours)
        if planned is not None:
            check_planned(drafts, planned)
        drafts = [draft for draft in drafts if draft.source not in leave_out]
        drafts += self._reconciler.drafts(sides.compared.findings, decided)
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
            event={"target_branch": onto, "resolutions": {key: str(r.action) for key, r in decided.items()}},
        )
        entries = write_copies(self._repository, plan, sides.here.context_tokens)
        commits = tuple(entry.commit_hash for entry in entries)
        head = commits[-1] if commits else sides.tips[1]
        return _result(sides, RebaseType.REBASED, head, copied(drafts, entries), commits, decided)


def check_planned(drafts: Sequence[Draft], planned: Collection[str]) -> None:
    """Check that the commits of a plan exist and did not change since."""
    since = [draft for draft in drafts if draft.source not in planned]
    new = {draft.source for draft in since}
    changed = [draft for draft in since if draft.edit_target is not None and draft.edit_target not in new]
    if changed or len(since) + len(planned) != len(drafts):
        raise HistoryError(
            "the commits of the branch have changed since the proposal: commits were removed, or messages were edited "
            "or annotated; nothing was changed. Propose it again"
        )


def _check_no_merges(sides: Sides) -> None:
    merges = [step.commit_hash[:8] for step in sides.compared.ours if step.operation == MERGE]
    if merges:
        branch, onto = sides.names
        raise HistoryError(
            f"{branch!r} contains merges ({', '.join(merges)}), which a rebase cannot copy; nothing was changed. Merge "
            f"{onto!r} instead, or copy single commits with import_commits()"
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
        target_branch=onto,
        base=sides.bases[0],
        old_head=sides.tips[0],
        new_head=head,
        copies=copies or {},
        commits=commits,
        conflicts=sides.compared.conflicts if kind is RebaseType.REBASED else (),
        resolutions=decided or {},
    )


@dataclass
class _Selection:
    """The commits to import, and the target branch."""

    here: Position
    known: frozenset[str]
    """The commits in the history of the current branch."""
    resolver: ImportResolver | None
    drafts: list[Draft] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def copied(self) -> set[str | None]:
        """The originals of the copied messages."""
        return {draft.source for draft in self.drafts if draft.operation == APPEND}


def import_commits(
    repository: Repository, names: Sequence[str], resolver: ImportResolver | None = None
) -> ImportResult:
    """Import commits; arguments as for `Tract.import_commits`."""
    wanted = names_of(names, "import_commits")
    selection = _selection(repository, resolver)
    entries = [repository.commits.entry(name) for name in wanted]
    _check(entries, selection)
    for entry in entries:
        draft = _draft(repository, entry, selection)
        if draft is None:
            selection.skipped.append(entry.commit_hash)
        else:
            selection.drafts.append(draft)
    return _imported(repository, selection)


def _selection(repository: Repository, resolver: ImportResolver | None) -> _Selection:
    here = repository.refs.position
    if here.branch is None:
        raise DetachedHeadError("HEAD is detached: cannot import. Switch to a branch, or create one, first")
    with repository.timelines.lock:
        known = frozenset(repository.timelines.at(here.commit_hash).place)
    return _Selection(here, known, resolver)


def _draft(repository: Repository, entry: Entry, selection: _Selection) -> Draft | None:
    if entry.operation == APPEND:
        return _imported_message(repository, entry)
    if entry.edit_target in selection.known or entry.edit_target in selection.copied:
        return Draft.of(entry)
    return _resolved(repository, entry, selection)


def _imported_message(repository: Repository, entry: Entry) -> Draft:
    annotation = annotation_of(repository, entry.commit_hash)
    if annotation is None:
        return Draft.of(entry)
    return Draft.of(entry, priority=annotation.priority, retention_json=annotation.retention_json)


def _resolved(repository: Repository, entry: Entry, selection: _Selection) -> Draft | None:
    """Return the draft for a change without a target on this branch; None to omit it."""
    target = repository.commits.entry(entry.edit_target or "")
    resolver = selection.resolver
    issue = ImportIssue(entry.commit_hash, entry.operation, target.commit_hash, entry.content, target.content)
    answer = resolver(issue) if callable(resolver) else resolver
    if answer == "skip":
        return None
    if answer == "append" and entry.operation == EDIT:
        return _as_message(entry, target)
    if answer is None or answer in {"append", "abort"} or not isinstance(answer, str):
        raise HistoryError(_missing(entry, target, selection))
    return Draft.of(entry, edit_target=repository.commits.check_target(answer).commit_hash)


def _imported(repository: Repository, selection: _Selection) -> ImportResult:
    skipped, drafts, here = tuple(selection.skipped), selection.drafts, selection.here
    if not drafts:
        return ImportResult({}, skipped)
    sources = [draft.source for draft in drafts]
    plan = Plan(
        branch=here.branch or "",
        old=here.commit_hash,
        base=here,
        drafts=drafts,
        operation="import",
        message=", ".join((source or "")[:8] for source in sources[:5]) + (", …" if len(sources) > 5 else ""),  # noqa: PLR2004
        event={"sources": sources, "skipped": list(skipped)},
    )
    entries = write_copies(repository, plan, here.context_tokens)
    return ImportResult(copied(drafts, entries), skipped)


def _check(entries: Sequence[Entry], selection: _Selection) -> None:
    """Check that the commits can be imported."""
    if not entries:
        raise HistoryError("nothing to import: name at least one commit")
    seen: set[str] = set()
    for entry in entries:
        name = entry.commit_hash[:8]
        if entry.operation == MERGE:
            raise HistoryError(
                f"{name} is a merge without content; import the merged commits, or merge the branch"
            )
        if entry.commit_hash in selection.known:
            raise HistoryError(f"{name} is in the history of {selection.here.branch!r} already")
        if entry.commit_hash in seen:
            raise HistoryError(f"{name} is listed twice; list each commit once")
        seen.add(entry.commit_hash)


def _as_message(entry: Entry, target: Entry) -> Draft:
    """Return an edit as a separate message, with the tool call links of the edited message."""
    copy = Draft.of(
        entry,
        operation=APPEND,
        edit_target=None,
        priority=entry.priority or target.priority,
        metadata_json=canonical_json({**target.metadata, **entry.metadata}),
    )
    return copy._replace(retention_json=entry.retention_json or target.retention_json)


def _missing(entry: Entry, target: Entry, selection: _Selection) -> str:
    what = "an annotation" if entry.operation == ANNOTATE else "an edit"
    ways = [
        f"import {target.commit_hash[:8]} before it",
        "omit it with resolver='skip'",
        *(["make it a separate message with resolver='append'"] if entry.operation == EDIT else []),
        "or pass a resolver that returns a commit of this branch",
    ]
    return (
        f"{entry.commit_hash[:8]} is {what} of {target.commit_hash[:8]} ({target.message!r}), which is not in the "
        f"history of {selection.here.branch!r}; nothing was imported. You can {', '.join(ways)}"
    )
