"""Copying single commits from elsewhere to the tip of the current branch.

A message comes with its tags, metadata, tools and the priority that it has where it comes from. An edit or annotation
acts on its target here, or on the target's copy if that is imported with it, and counts as the last one. Where a copy
comes from is in the event, not in the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tract_jupyter.engine.writer import Plan
from tract_jupyter.exceptions import DetachedHeadError, HistoryError
from tract_jupyter.history.past import names_of
from tract_jupyter.history.replay import copied
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.merge import ImportIssue, ImportResult
from tract_jupyter.storage.entry import ANNOTATE, APPEND, EDIT, MERGE, Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.engine.commits import Commits
    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.history.origins import Origins
    from tract_jupyter.history.replay import Replay
    from tract_jupyter.models.merge import ImportResolver
    from tract_jupyter.storage.entry import Entry
    from tract_jupyter.storage.refs import Position


@dataclass
class _Selection:
    """What is to be imported, and where to."""

    here: Position
    known: frozenset[str]
    """The commits that are here."""
    resolver: ImportResolver | None
    drafts: list[Draft] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def copied(self) -> set[str | None]:
        """The messages that are copied as such."""
        return {draft.source for draft in self.drafts if draft.operation == APPEND}


class Imports:
    """Imports commits into the current branch of one tract."""

    def __init__(
        self, refs: Refs, timelines: Timelines, commits: Commits, origins: Origins, replay: Replay
    ) -> None:
        self._refs = refs
        self._timelines = timelines
        self._commits = commits
        self._origins = origins
        self._replay = replay

    def run(self, names: Sequence[str], resolver: ImportResolver | None = None) -> ImportResult:
        """Import commits; the arguments are those of `Tract.import_commits`."""
        wanted = names_of(names, "import_commits")
        selection = self._selection(resolver)
        entries = [self._commits.entry(name) for name in wanted]
        _check(entries, selection)
        for entry in entries:
            draft = self._draft(entry, selection)
            if draft is None:
                selection.skipped.append(entry.commit_hash)
            else:
                selection.drafts.append(draft)
        return self._write(selection)

    def _selection(self, resolver: ImportResolver | None) -> _Selection:
        here = self._refs.position
        if here.branch is None:
            raise DetachedHeadError("HEAD is detached: cannot import. Switch to a branch, or make one, first")
        with self._timelines.lock:
            known = frozenset(self._timelines.at(here.commit_hash).place)
        return _Selection(here, known, resolver)

    def _draft(self, entry: Entry, selection: _Selection) -> Draft | None:
        if entry.operation == APPEND:
            return self._message(entry)
        if entry.edit_target in selection.known or entry.edit_target in selection.copied:
            return Draft.of(entry)
        return self._resolved(entry, selection)

    def _message(self, entry: Entry) -> Draft:
        given = self._origins.annotation(entry.commit_hash)
        if given is None:
            return Draft.of(entry)
        return Draft.of(entry, priority=given.priority, retention_json=given.retention_json)

    def _resolved(self, entry: Entry, selection: _Selection) -> Draft | None:
        """What to do with a change whose target is not here; None to leave it out."""
        target = self._commits.entry(entry.edit_target or "")
        resolver = selection.resolver
        issue = ImportIssue(
            entry.commit_hash, entry.operation, target.commit_hash, entry.content, target.content
        )
        answer = resolver(issue) if callable(resolver) else resolver
        if answer == "skip":
            return None
        if answer == "append" and entry.operation == EDIT:
            return _as_message(entry, target)
        if answer is None or answer in {"append", "abort"} or not isinstance(answer, str):
            raise HistoryError(_missing(entry, target, selection))
        return Draft.of(entry, edit_target=self._commits.check_target(answer).commit_hash)

    def _write(self, selection: _Selection) -> ImportResult:
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
            message=", ".join((source or "")[:8] for source in sources[:5])
            + (", …" if len(sources) > 5 else ""),  # noqa: PLR2004
            event={"sources": sources, "skipped": list(skipped)},
        )
        entries = self._replay.write(plan, here.context_tokens)
        return ImportResult(copied(drafts, entries), skipped)


def _check(entries: Sequence[Entry], selection: _Selection) -> None:
    """Refuse what makes no sense to import.

    Raises:
        HistoryError: a commit is a merge, is here already, or is named twice; or none is named.
    """
    if not entries:
        raise HistoryError("nothing to import: name at least one commit")
    seen: set[str] = set()
    for entry in entries:
        name = entry.commit_hash[:8]
        if entry.operation == MERGE:
            raise HistoryError(
                f"{name} is a merge and has no content of its own; import the commits that it brought, or merge"
            )
        if entry.commit_hash in selection.known:
            raise HistoryError(f"{name} is in the history of {selection.here.branch!r} already")
        if entry.commit_hash in seen:
            raise HistoryError(f"{name} is named twice; name each commit once")
        seen.add(entry.commit_hash)


def _as_message(entry: Entry, target: Entry) -> Draft:
    """An edit as a message of its own. What links it to a tool call is the edited message's."""
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
        "leave it out with resolver='skip'",
        *(["make it a message of its own with resolver='append'"] if entry.operation == EDIT else []),
        "or have the resolver name a commit that is here",
    ]
    return (
        f"{entry.commit_hash[:8]} is {what} of {target.commit_hash[:8]} ({target.message!r}), which is not in the "
        f"history of {selection.here.branch!r}; nothing was imported. You can {', '.join(ways)}"
    )
