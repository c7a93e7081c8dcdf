"""Replace messages in the middle of a history.

Commits before the first change keep their hashes, so a provider's cache remains valid for them. Later commits are
copied in context order:

* Merged commits become plain commits, and merge commits are omitted.
* Edits and annotations refer to the copies of their targets. If a message is removed, they are removed with it.
* Added tags are copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from tract_jupyter.context.ancestry import BranchHistory
from tract_jupyter.context.writer import COPIED, Plan
from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.models import COMPRESSED_FROM, ExpandResult
from tract_jupyter.storage import APPEND, MERGE, Draft, Entry, Position, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.storage import Step


def copies_of(repository: Repository, head: str, steps: Sequence[Step]) -> list[Draft]:
    """Return drafts of the last commits of a history without merges. `steps` are these commits, oldest first."""
    with repository.database.read() as connection:
        chain = repository.rows.chain(connection, head, len(steps))
    chain.reverse()
    return [Draft.of(entry._replace(payload=step.payload)) for entry, step in zip(chain, steps, strict=True)]


def write_copies(repository: Repository, plan: Plan, tokens_before: int) -> list[Entry]:
    """Write a plan, and copy the added tags of the originals. The budget checks only growth over `tokens_before`.

    Raises:
        BranchMovedError: another process or thread moved the branch; nothing was written.
        BudgetExceededError: the result exceeds the token budget; nothing was written.
    """

    def also(connection: Connection, entries: list[Entry]) -> None:
        moved = copied(plan.drafts, entries)
        if moved:
            repository.tags.copy(connection, moved)
        tokens = entries[-1].context_tokens if entries else plan.base.context_tokens
        if tokens > tokens_before:
            repository.commits.check_budget(tokens)

    return repository.writer.write(plan, also)


def copied(drafts: Sequence[Draft], entries: Sequence[Entry]) -> dict[str, str]:
    """Return the copy of each original."""
    return {
        draft.source: entry.commit_hash
        for draft, entry in zip(drafts, entries, strict=True)
        if draft.source is not None
    }


@dataclass(frozen=True, slots=True)
class Spliced:
    """The result of a rewrite."""

    head: Entry
    """The newest commit."""
    put: tuple[Entry, ...]
    """The commits of the new drafts, in order."""
    copies: dict[str, str]
    """The new hash of each copied commit."""


def splice(
    repository: Repository,
    history: BranchHistory,
    dropped: Collection[str],
    put: Mapping[str, Sequence[Draft]],
    operation: str,
    message: str,
    event: Callable[[Spliced], dict[str, Any]],
) -> Spliced:
    """Remove the messages `dropped`, and put drafts in the places of some of them, in one transaction.

    Raises:
        BranchMovedError: the branch moved since the read of `history`; nothing was changed.
    """
    start = _start(history, dropped)
    pieces = _pieces(history.entries[start:], dropped, put)
    base = (
        Position.of(history.branch, history.entries[start - 1]) if start else Position(history.branch, None)
    )
    result: list[Spliced] = []

    def also(connection: Connection, entries: list[Entry]) -> None:
        spliced = _spliced(pieces, entries)
        repository.tags.copy(connection, spliced.copies)
        data = {
            "branch": history.branch,
            "old": history.head,
            "new": spliced.head.commit_hash,
            **event(spliced),
        }
        repository.events.append(connection, operation, "user", data)
        result.append(spliced)

    drafts = [piece.draft for piece in pieces]
    repository.writer.write(Plan(history.branch, history.head, base, drafts, operation, message), also)
    return result[0]


class _Piece(NamedTuple):
    draft: Draft
    is_new: bool


def restored(entry: Entry) -> Draft:
    """Return a copy of a removed commit. A restored edit or annotation changes the restored message.

    A merge may also have added the original to the history. The mark `COPIED` distinguishes changes to the copy from
    changes to the original.
    """
    if entry.edit_target is None:
        return Draft.of(entry, source=COPIED + entry.commit_hash)
    return Draft.of(entry, source=COPIED + entry.commit_hash, edit_target=COPIED + entry.edit_target)


def _start(history: BranchHistory, dropped: Collection[str]) -> int:
    """Return the index of the first commit to copy: before the first change, after a commit that is not merged."""
    start = min(history.place[commit] for commit in dropped)
    while start and history.entries[start - 1].commit_hash in history.merged:
        start -= 1
    return start


def _pieces(
    entries: Sequence[Entry], dropped: Collection[str], put: Mapping[str, Sequence[Draft]]
) -> list[_Piece]:
    pieces: list[_Piece] = []
    tools: str | None = None  # the tools of a removed commit, until a later commit is linked to them

    def add(draft: Draft, *, is_new: bool) -> None:
        nonlocal tools
        if tools is not None:
            draft = draft._replace(tools_hash=draft.tools_hash or tools)
            tools = None
        pieces.append(_Piece(draft, is_new))

    for entry in entries:
        if entry.commit_hash in dropped or entry.edit_target in dropped or entry.operation == MERGE:
            tools = entry.tools_hash or tools
            for draft in put.get(entry.commit_hash, ()):
                add(draft, is_new=True)
        else:
            add(Draft.of(entry), is_new=False)
    if tools is not None and pieces:
        last = pieces[-1]
        pieces[-1] = last._replace(draft=last.draft._replace(tools_hash=tools))
    return pieces


def _spliced(pieces: Sequence[_Piece], entries: Sequence[Entry]) -> Spliced:
    pairs = list(zip(pieces, entries, strict=True))
    copies = {
        piece.draft.source.removeprefix(COPIED): entry.commit_hash
        for piece, entry in pairs
        if piece.draft.source is not None
    }
    return Spliced(entries[-1], tuple(entry for piece, entry in pairs if piece.is_new), copies)


def expand(repository: Repository, name: str) -> ExpandResult:
    """Replace a summary with its originals, in their state from before the compression."""
    here = repository.refs.on_branch("expand")
    history = BranchHistory.read(here, repository)
    try:
        summary = history.entry(repository.refs.resolve(name))
    except HistoryError as error:
        raise CompressionError(str(error)) from None
    drafts = _originals(repository, summary)
    spliced = splice(
        repository,
        history, {summary.commit_hash}, {summary.commit_hash: drafts}, "expand", summary.commit_hash[:8],
        lambda done: {
            "summary_commit": summary.commit_hash,
            "commits": [entry.commit_hash for entry in done.put],
            "tokens_before": here.context_tokens,
            "tokens_after": done.head.context_tokens,
        },
    )  # fmt: skip
    return ExpandResult(
        branch=history.branch,
        old_head=history.head,
        new_head=spliced.head.commit_hash,
        summary_commit=summary.commit_hash,
        restored=tuple(entry.commit_hash for entry in spliced.put if entry.operation == APPEND),
        copies=spliced.copies,
        tokens_before=repository.corrections.tokens(here.context_tokens, history.context.token_source),
        tokens_after=repository.corrections.tokens(spliced.head.context_tokens, history.context.token_source),
    )


def _originals(repository: Repository, summary: Entry) -> list[Draft]:
    """Return the original messages with their edits and annotations, in their original order."""
    head, commits = _reference(summary)
    with repository.database.read() as connection:
        if repository.rows.get(connection, head) is None:
            raise CompressionError(_not_here(connection, summary, head))
        entries = repository.rows.lineage(connection, head, Entry).rows
    drafts = [
        restored(entry) for entry in entries if entry.commit_hash in commits or entry.edit_target in commits
    ]
    if not drafts:
        raise CompressionError(
            f"{summary.commit_hash[:8]} cannot be expanded: its metadata name no commits in the history of "
            f"{head[:8]}"
        )
    return drafts


def reference(metadata: dict[str, Any]) -> tuple[str, frozenset[str]] | None:
    """Return the head and the commits of a summary's originals; None if the metadata are not a summary's."""
    origin = metadata.get(COMPRESSED_FROM)
    if not isinstance(origin, dict):
        return None
    head, commits = origin.get("head"), origin.get("commits")
    if not isinstance(head, str) or not isinstance(commits, list) or not commits:
        return None
    return head, frozenset(commit for commit in commits if isinstance(commit, str))


def _not_here(connection: Connection, summary: Entry, head: str) -> str:
    """Return the error for missing originals. They may be in another tract, if the summary was copied."""
    query = select(schema.commits.c.tract_id).where(schema.commits.c.commit_hash == head)
    tract_id = connection.scalars(query.limit(1)).first()
    if tract_id is None:
        return (
            f"the originals of {summary.commit_hash[:8]} are gone: gc removed them, or the summary was copied from "
            "another store; expand it there"
        )
    return (
        f"the originals of {summary.commit_hash[:8]} are in another tract, {tract_id!r}, because this summary is a "
        "copy; open that tract, and expand its summary there"
    )


def _reference(summary: Entry) -> tuple[str, frozenset[str]]:
    origin = reference(summary.metadata)
    if origin is None:
        raise CompressionError(
            f"{summary.commit_hash[:8]} is not a summary by compress(), so it cannot be expanded"
        )
    return origin
