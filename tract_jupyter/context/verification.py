"""Verification of a store: recompute every hash and follow every link."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.context.timeline import Timeline, Totals, totals_after
from tract_jupyter.exceptions import StoreError, TractError
from tract_jupyter.models import attachments_of, tracked, working
from tract_jupyter.storage import APPEND, Step, checked, commit_hash, has_attachments, problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

    from tract_jupyter.models import Attachment
    from tract_jupyter.storage import CommitRows, Database, Entry, Lineage, RefRows


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged part of a store. `where` is a commit, a content, a branch, or the store."""

    where: str
    problem: str


class DamageList(list[Damage]):
    """The results of a verification; empty if there is no damage."""

    def __repr__(self) -> str:
        return super().__repr__() if self else "No damage: all hashes and links are correct"


def verify(database: Database, commits: CommitRows, refs: RefRows) -> list[Damage]:
    """Return the damage in a tract and its database; an empty list if there is none. Changes nothing.

    Raises:
        StoreCorruptError: the store is unreadable, and the database cannot name the damage.
    """
    with working("Checking the database"), database.read() as connection:
        lost = [database.loss] if database.loss else []
        damage = [Damage(database.location, problem) for problem in (*lost, *problems(connection))]
    try:
        return damage + _of_tract(database, commits, refs)
    except StoreError as error:
        if not damage:
            raise
        return [*damage, Damage(database.location, str(error))]


def _of_tract(database: Database, commits: CommitRows, refs: RefRows) -> list[Damage]:
    with database.read() as connection:
        entries = {entry.commit_hash: entry for entry in commits.everything(connection)}
        parents = commits.all_merge_parents(connection)
        checking = tracked(entries.values(), "Checking commits")
        results = [damage for entry in checking for damage in _of_commit(entry, entries, parents)]
        results += _of_attachments(connection, commits, entries.values())
        tools = sorted({entry.tools_hash for entry in entries.values() if entry.tools_hash})
        results += [damage for name in tools for damage in _of_tools(connection, commits, name)]
        return [*results, *_of_refs(connection, commits, refs, entries)]


def _of_attachments(
    connection: Connection, commits: CommitRows, entries: Iterable[Entry]
) -> Iterator[Damage]:
    attachments = {
        attachment.sha256: (attachment, entry)
        for entry in entries
        if has_attachments(entry)
        for attachment in _attached(entry)
    }
    for name, (attachment, entry) in sorted(attachments.items()):
        try:
            data = commits.blobs(connection, [name])[name]
        except TractError as error:
            yield Damage(name, f"the attachment {attachment} of commit {entry.commit_hash[:12]}: {error}")
        else:
            if len(data) != attachment.size:
                yield Damage(
                    name, f"the attachment {attachment} has {len(data):,} bytes, not {attachment.size:,}"
                )


def _attached(entry: Entry) -> tuple[Attachment, ...]:
    try:
        return attachments_of(entry.content)
    except ValueError:  # a damaged content, which `_of_commit` reports
        return ()


def _of_tools(connection: Connection, commits: CommitRows, tools_hash: str) -> Iterator[Damage]:
    try:
        commits.blobs(connection, json.loads(commits.blobs(connection, [tools_hash])[tools_hash])["tools"])
    except TractError as error:
        yield Damage(tools_hash, f"the tools of commits: {error}")


def _of_commit(
    entry: Entry, entries: dict[str, Entry], parents: dict[str, tuple[str, ...]]
) -> Iterator[Damage]:
    others = parents.get(entry.commit_hash, ())
    try:
        checked(entry.content_hash, entry.payload)
    except TractError as error:
        yield Damage(entry.content_hash, f"the content of commit {entry.commit_hash[:12]}: {error}")
    try:
        computed = commit_hash(entry, entry.tract_id, entry.parent_hash, others, entry.created_at)
    except (ValueError, TractError):
        computed = ""
    if computed != entry.commit_hash:
        yield Damage(entry.commit_hash, "the commit does not match its hash")
    for name in (entry.parent_hash, entry.edit_target, *others):
        if name is not None and name not in entries:
            yield Damage(entry.commit_hash, f"it refers to {name[:12]}, which is missing")
    parent = entries.get(entry.parent_hash or "")
    if entry.generation != (parent.generation + 1 if parent else 0):
        yield Damage(entry.commit_hash, "its generation does not follow its parent's")


def _of_refs(
    connection: Connection, commits: CommitRows, refs: RefRows, entries: dict[str, Entry]
) -> Iterator[Damage]:
    seen: set[str] = set()
    for branch, tip in refs.branches(connection).items():
        if tip is None:
            continue
        if tip not in entries:
            yield Damage(branch, f"the branch points at {tip[:12]}, which is missing")
            continue
        appends = _appends(tip, entries, seen)
        if appends is not None:
            yield from _of_appends(appends, entries)
            seen.update(entry.commit_hash for entry in appends)
            continue
        try:
            lineage = commits.lineage(connection, tip, Step)
        except TractError as error:
            yield Damage(branch, str(error))
            continue
        yield from _of_totals(Timeline(), lineage, entries, seen)
        seen.update(step.commit_hash for step in lineage.rows if step.commit_hash not in lineage.merged)


def _appends(tip: str, entries: dict[str, Entry], seen: set[str]) -> list[Entry] | None:
    """Return the unchecked commits of a branch, oldest first. None if they are not all appends."""
    appends: list[Entry] = []
    name: str | None = tip
    while name is not None and name not in seen:
        entry = entries.get(name)
        if entry is None or entry.operation != APPEND or len(appends) > len(entries):
            return None
        appends.append(entry)
        name = entry.parent_hash
    return appends[::-1]


def _of_appends(appends: list[Entry], entries: dict[str, Entry]) -> Iterator[Damage]:
    parent = entries.get(appends[0].parent_hash or "") if appends else None
    totals = Totals(parent.context_tokens, parent.context_messages) if parent else Totals(0, 0)
    for entry in appends:
        totals = totals_after(*totals, entry)
        if totals != (entry.context_tokens, entry.context_messages):
            yield _wrong_size(entry)


def _of_totals(
    timeline: Timeline, lineage: Lineage[Step], entries: dict[str, Entry], seen: set[str]
) -> Iterator[Damage]:
    for step in lineage.rows:
        timeline.extend(step)
        entry = entries.get(step.commit_hash)
        if entry is None or step.commit_hash in lineage.merged or step.commit_hash in seen:
            continue
        if timeline.totals != (entry.context_tokens, entry.context_messages):
            yield _wrong_size(entry)


def _wrong_size(entry: Entry) -> Damage:
    return Damage(entry.commit_hash, "the stored size of the context does not match its history")
