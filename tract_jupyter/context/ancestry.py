"""The history of a branch, common ancestors of two histories, and names of commits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import HistoryError
from tract_jupyter.models import Priority, brief_repr
from tract_jupyter.storage import ANNOTATE, APPEND, EDIT, MERGE, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.models import CompiledContext, Message
    from tract_jupyter.storage import CommitRows, Position, Step


def annotation_of(repository: Repository, commit_hash: str) -> Entry | None:
    """Return the newest commit of any branch that changes this commit's priority; None if there is none.

    Commits without a branch, such as undone ones, do not count.
    """
    rows = repository.rows
    with repository.database.read() as connection:
        changes = [change for _, change in rows.changes_to(connection, [commit_hash])]
        if not changes:
            return None
        reachable: set[str] = set()
        for tip in {tip for tip in repository.ref_rows.branches(connection).values() if tip}:
            reachable |= rows.ancestors(connection, tip)
        newest = next((change for change in reversed(changes) if change in reachable), None)
        return rows.get(connection, newest) if newest else None


def merge_bases(connection: Connection, rows: CommitRows, common: Sequence[Step]) -> tuple[str, ...]:
    """Return the commits of a common history without a child in it, newest first.

    Criss-cross merges can have several.
    """
    covered = {step.parent_hash for step in common}
    merges = [step.commit_hash for step in common if step.operation == MERGE]
    for others in (rows.merge_parents_of(connection, merges) if merges else {}).values():
        covered.update(others)
    return tuple(step.commit_hash for step in reversed(common) if step.commit_hash not in covered)


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """The commits of a branch in context order, with their priorities and edits."""

    here: Position
    entries: list[Entry]
    merged: frozenset[str]
    """The merged commits."""
    context: CompiledContext
    messages: dict[str, Message]
    """The message of each append, including skipped ones, with its last edit and priority."""
    place: dict[str, int]
    """The index of each commit in `entries`."""
    retention: dict[str, dict[str, Any]]
    """The retention criteria of appends, see `retained`."""
    winners: dict[str, Entry]
    """The last edit of each edited append."""

    @classmethod
    def read(cls, here: Position, repository: Repository) -> BranchHistory:
        """Read the history that ends at a position with a commit."""
        head, timelines = here.commit_hash or "", repository.timelines
        with repository.database.read() as connection:
            lineage = repository.rows.lineage(connection, head, Entry)
        with timelines.lock:
            timeline = timelines.at(head)
            context = timeline.context()
            appended = (step for step in timeline.steps if step.operation == APPEND)
            messages = {step.commit_hash: timeline.message(step) for step in appended}
        place = {entry.commit_hash: index for index, entry in enumerate(lineage.rows)}
        winners = {e.edit_target: e for e in lineage.rows if e.operation == EDIT and e.edit_target}
        retention = retained(lineage.rows)
        return cls(here, lineage.rows, lineage.merged, context, messages, place, retention, winners)

    @property
    def head(self) -> str:
        """The newest commit."""
        return self.here.commit_hash or ""

    @property
    def branch(self) -> str:
        """The branch; not empty, since HEAD is not detached here."""
        return self.here.branch or ""

    def appends(self) -> Iterator[Entry]:
        """Return the commits of messages in order."""
        return (entry for entry in self.entries if entry.operation == APPEND)

    def priority(self, entry: Entry) -> Priority:
        """Return the effective priority of an append."""
        return self.messages[entry.commit_hash].priority

    def criteria(self, entry: Entry) -> dict[str, Any] | None:
        """Return the retention criteria of an important append; None for others."""
        important = self.priority(entry) is Priority.IMPORTANT
        return self.retention.get(entry.commit_hash) if important else None

    def entry(self, commit_hash: str) -> Entry:
        """Return the commit of a full hash; for an edit or annotation, its target."""
        entry = self.entries[self.index(commit_hash)]
        return self.entry(entry.edit_target) if entry.edit_target else entry

    def index(self, commit_hash: str) -> int:
        """Return the index in `entries` of a full hash. Edits and annotations have their own index."""
        place = self.place.get(commit_hash)
        if place is None:
            raise HistoryError(
                f"{commit_hash[:8]} is not in the history of branch {self.branch!r}; 'log' lists its commits"
            )
        return place


def retained(entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Return the retention criteria of each append: the last ones of its commit, its edits and its annotations.

    An annotation without criteria removes earlier ones; an edit without criteria keeps them.
    """
    criteria: dict[str, dict[str, Any]] = {}
    for entry in entries:
        target = entry.edit_target or entry.commit_hash
        if entry.retention is not None:
            criteria[target] = entry.retention
        elif entry.operation == ANNOTATE:
            criteria.pop(target, None)
    return criteria


def name_of(value: object, what: str) -> str:
    """Return the name of a commit, from a text or an object with a `commit_hash`."""
    name = value if isinstance(value, str) else getattr(value, "commit_hash", None)
    if not isinstance(name, str):
        raise HistoryError(
            f"{what} takes a commit (its hash, the first digits of the hash, its branch or its CommitInfo), not "
            f"{brief_repr(value)}; 'log' lists the commits"
        )
    return name


def names_of(value: object, what: str) -> list[str]:
    """Return the names of a list of commits."""
    if isinstance(value, str) or hasattr(value, "commit_hash"):
        kind = "text" if isinstance(value, str) else "commit"
        raise HistoryError(f"{what} is a list of commits, not one {kind}; use [{name_of(value, what)!r}]")
    if not isinstance(value, Iterable):
        raise HistoryError(
            f"{what} is a list of commits, not {brief_repr(value)}; use their hashes, which 'log' lists"
        )
    return [name_of(item, what) for item in value]
