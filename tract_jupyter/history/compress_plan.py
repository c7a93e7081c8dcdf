"""Which messages a compression takes: what is named, less what stays, in runs that a summary can stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.history.past import name_of, names_of
from tract_jupyter.models.compression import CompressGroup
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.entry import APPEND

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tract_jupyter.history.past import Past
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import Message
    from tract_jupyter.storage.entry import Entry


class Range(NamedTuple):
    """What was asked for: some commits, or all from one to another, each by hash, prefix, branch or `CommitInfo`.

    An edit or annotation stands for the message that it changes; as an end of a range, for its own place.
    """

    commits: Iterable[str | CommitInfo] | None = None
    from_commit: str | CommitInfo | None = None
    to_commit: str | CommitInfo | None = None
    preserve: Iterable[str | CommitInfo] = ()
    one_summary: bool = False
    """One summary for all of it, across what stays in between."""


class Selection(NamedTuple):
    """What a compression takes, and what of the range stays."""

    groups: tuple[CompressGroup, ...]
    preserved: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def dropped(self) -> frozenset[str]:
        """All commits that a summary stands for."""
        return frozenset(commit for group in self.groups for commit in group.commits)

    @property
    def messages(self) -> list[Message]:
        """What summaries would stand for."""
        return [message for group in self.groups for message in group.messages]


def select(past: Past, wanted: Range, resolve: Callable[[str], str]) -> Selection:
    """Find the runs of messages that summaries can stand for.

    What is pinned or preserved stays, and ends a run. So does a message that was not named, unless it is skipped: then
    it shows nowhere, and goes with the run that it lies in.

    Raises:
        CompressionError: nothing is left to compress, or a commit is not in this history, or something is no commit.
        CommitNotFoundError: there is no such commit.
    """
    try:
        chosen = _chosen(past, wanted, resolve)
        kept = {_entry(past, name, resolve).commit_hash for name in names_of(wanted.preserve, "preserve")}
    except HistoryError as error:
        raise CompressionError(str(error)) from None
    preserved = tuple(
        e.commit_hash
        for e in past.appends()
        if e.commit_hash in kept or (e.commit_hash in chosen and past.priority(e) is Priority.PINNED)
    )
    runs = _runs(past, chosen.difference(preserved), kept)
    if wanted.one_summary:
        runs = [[entry for run in runs for entry in run]]
    groups = tuple(_group(past, run) for run in runs if any(_shows(past, e) for e in run))
    if not groups:
        raise CompressionError(_nothing(past, chosen, preserved))
    skipped = tuple(e.commit_hash for run in runs for e in run if not _shows(past, e))
    dropped = {commit for group in groups for commit in group.commits}
    return Selection(groups, preserved, tuple(commit for commit in skipped if commit in dropped))


def _chosen(past: Past, wanted: Range, resolve: Callable[[str], str]) -> set[str]:
    if wanted.commits is not None:
        if wanted.from_commit is not None or wanted.to_commit is not None:
            raise CompressionError("give commits, or from_commit and to_commit, not both")
        found = [_entry(past, name, resolve) for name in names_of(wanted.commits, "commits")]
        merge = next((entry for entry in found if entry.operation != APPEND), None)
        if merge is not None:
            raise CompressionError(
                f"{merge.commit_hash[:8]} is a merge, and no message; name the messages that it brought"
            )
        return {entry.commit_hash for entry in found}
    first, last = 0, len(past.entries) - 1
    if wanted.from_commit is not None:
        first = past.index(_hash(past, name_of(wanted.from_commit, "from_commit"), resolve))
    if wanted.to_commit is not None:
        last = past.index(_hash(past, name_of(wanted.to_commit, "to_commit"), resolve))
    if first > last:
        ends = [past.entries[place].commit_hash[:8] for place in (first, last)]
        raise CompressionError(f"the range is empty: {ends[0]} comes after {ends[1]}; swap them")
    return {e.commit_hash for e in past.entries[first : last + 1] if e.operation == APPEND}


def _entry(past: Past, name: str, resolve: Callable[[str], str]) -> Entry:
    return past.entry(_hash(past, name, resolve))


def _hash(past: Past, name: str, resolve: Callable[[str], str]) -> str:
    # full hashes by the thousand cost no query
    return name if name in past.place else resolve(name)


def _runs(past: Past, chosen: Collection[str], kept: Collection[str]) -> list[list[Entry]]:
    runs: list[list[Entry]] = []
    run: list[Entry] = []
    passed: list[Entry] = []  # skipped ones that nobody named: part of the run if it goes on
    for entry in past.appends():
        if entry.commit_hash in chosen:
            if not run:
                run = []
                runs.append(run)
            run += [*passed, entry]
            passed = []
        elif run and not _shows(past, entry) and entry.commit_hash not in kept:
            passed.append(entry)
        else:
            run, passed = [], []
    return runs


def _group(past: Past, run: list[Entry]) -> CompressGroup:
    messages = tuple(past.messages[e.commit_hash] for e in run if _shows(past, e))
    criteria = tuple(found for e in run if (found := past.criteria(e)) is not None)
    return CompressGroup(tuple(e.commit_hash for e in run), messages, criteria)


def _shows(past: Past, entry: Entry) -> bool:
    return past.priority(entry) is not Priority.SKIP


def _nothing(past: Past, chosen: set[str], preserved: Collection[str]) -> str:
    if not chosen:
        return f"nothing to compress on {past.branch!r}: the range has no messages"
    if chosen <= set(preserved):
        return (
            f"nothing to compress on {past.branch!r}: all {len(chosen)} messages of the range are pinned or preserved; "
            "annotate those that may go as 'normal', or choose a larger range"
        )
    return f"nothing to compress on {past.branch!r}: the other messages of the range are skipped already"
