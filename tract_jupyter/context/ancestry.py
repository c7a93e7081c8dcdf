"""The nearest common ancestors of two histories."""

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
    from tract_jupyter.storage import CommitRows, Database, Position, RefRows, Step


class Origins:
    """Looks at the branches that a commit is on."""

    def __init__(self, database: Database, rows: CommitRows, refs: RefRows) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs

    def annotation(self, commit_hash: str) -> Entry | None:
        """Return the newest commit of any branch that gives this one another priority; None if there is none.

        Those that no branch holds, such as undone ones, do not count.
        """
        with self._database.read() as connection:
            changes = [change for _, change in self._rows.changes_to(connection, [commit_hash])]
            if not changes:
                return None
            held: set[str] = set()
            for tip in {tip for tip in self._refs.branches(connection).values() if tip}:
                held |= self._rows.ancestors(connection, tip)
            newest = next((change for change in reversed(changes) if change in held), None)
            return self._rows.get(connection, newest) if newest else None


def merge_bases(connection: Connection, rows: CommitRows, common: Sequence[Step]) -> tuple[str, ...]:
    """Return the commits of a common history that no other one of it is built on, newest first.

    There are several after merges crosswise.

    Args:
        connection: to read the other parents of merges.
        rows: the commits of the tract.
        common: everything that both sides have, in the order of the context.
    """
    covered = {step.parent_hash for step in common}
    merges = [step.commit_hash for step in common if step.operation == MERGE]
    for others in (rows.merge_parents_of(connection, merges) if merges else {}).values():
        covered.update(others)
    return tuple(step.commit_hash for step in reversed(common) if step.commit_hash not in covered)


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """The commits of a branch in the order of the context, with their priorities and edits."""

    here: Position
    entries: list[Entry]
    merged: frozenset[str]
    """The commits that came by merges."""
    context: CompiledContext
    messages: dict[str, Message]
    """Of each append, with the edit and the priority that count; also of skipped ones."""
    place: dict[str, int]
    """Where each commit stands in `entries`."""
    retention: dict[str, dict[str, Any]]
    """What is to be kept of an append, see `retained`."""
    winners: dict[str, Entry]
    """The edit that counts, of each edited append."""

    @classmethod
    def read(cls, here: Position, repository: Repository) -> BranchHistory:
        """Read the history that ends at a position, which is a commit."""
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
        """The branch, which there is one of."""
        return self.here.branch or ""

    def appends(self) -> Iterator[Entry]:
        """Return the commits that are messages, in order."""
        return (entry for entry in self.entries if entry.operation == APPEND)

    def priority(self, entry: Entry) -> Priority:
        """Return the priority in effect, of an append."""
        return self.messages[entry.commit_hash].priority

    def criteria(self, entry: Entry) -> dict[str, Any] | None:
        """Return the retention criteria of an append; only important messages have them."""
        important = self.priority(entry) is Priority.IMPORTANT
        return self.retention.get(entry.commit_hash) if important else None

    def entry(self, commit_hash: str) -> Entry:
        """Return the commit of a full hash; for an edit or annotation, the message that it changes.

        Raises:
            HistoryError: it is not in this history.
        """
        entry = self.entries[self.index(commit_hash)]
        return self.entry(entry.edit_target) if entry.edit_target else entry

    def index(self, commit_hash: str) -> int:
        """Return the index in `entries` of a full hash; edits and annotations have separate places.

        Raises:
            HistoryError: it is not in this history.
        """
        place = self.place.get(commit_hash)
        if place is None:
            raise HistoryError(
                f"{commit_hash[:8]} is not in the history of branch {self.branch!r}; 'log' lists what is"
            )
        return place


def retained(entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Return the retention criteria of each append, as its author, an edit or an annotation said last.

    The last annotation counts, so one that says nothing about it ends what was said before; an edit does not.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        target = entry.edit_target or entry.commit_hash
        if entry.retention is not None:
            found[target] = entry.retention
        elif entry.operation == ANNOTATE:
            found.pop(target, None)
    return found


def name_of(given: object, what: str) -> str:
    """Return the name of a commit, from a text or an object with a `commit_hash`.

    Raises:
        HistoryError: it is neither.
    """
    name = given if isinstance(given, str) else getattr(given, "commit_hash", None)
    if not isinstance(name, str):
        raise HistoryError(
            f"{what} takes a commit by its hash, the hash's first digits, its branch or its CommitInfo, not "
            f"{brief_repr(given)}; 'log' lists the commits"
        )
    return name


def names_of(given: object, what: str) -> list[str]:
    """Return the names of a list of commits.

    Raises:
        HistoryError: it is no list, or something in it is no commit.
    """
    if isinstance(given, str) or hasattr(given, "commit_hash"):
        kind = "text" if isinstance(given, str) else "commit"
        raise HistoryError(f"{what} is a list of commits, not one {kind}; use [{name_of(given, what)!r}]")
    if not isinstance(given, Iterable):
        raise HistoryError(
            f"{what} is a list of commits, not {brief_repr(given)}; give their hashes, such as those that 'log' lists"
        )
    return [name_of(one, what) for one in given]
