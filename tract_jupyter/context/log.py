"""Read the history of a branch, and find commits by tags, text and priority."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import (
    CommitInfo,
    CommitOperation,
    Priority,
    brief_repr,
    check_choice,
    check_limit,
    check_text,
    listed,
)
from tract_jupyter.storage import ANNOTATE, APPEND, EDIT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.storage import Entry, Position

    Match = Literal["any", "all"]


_MATCHES: Final = ("any", "all")


class History:
    """Reads the history of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def token_source(self, here: Position) -> str:
        """Return the counter of the tokens at HEAD. Reads the history only if the tract has other counters."""
        name = self._repository.counter.name
        if here.token_counter in {name, ""} and not self._has_other_counter:
            return name
        with self._repository.timelines.lock:
            return self._repository.timelines.at(here.commit_hash).token_source

    @cached_property
    def _has_other_counter(self) -> bool:
        with self._repository.database.read() as connection:
            return self._repository.rows.has_other_counter(connection, self._repository.counter.name)

    def log(
        self,
        limit: int | None = 20,
        *,
        operation: str | None = None,
        tags: Collection[str] | None = (),
        match: Match = "any",
        all_branches: bool = False,
    ) -> list[CommitInfo]:
        """Return the newest commits first: of the current branch by first parents, or of all branches.

        Raises:
            ContentError: unknown operation or another invalid argument.
        """
        limit = None if limit is None else check_limit(limit)
        operation = None if operation is None else CommitOperation(operation)
        check_choice(match, _MATCHES, "the match of tags")
        wanted = listed(() if tags is None else tags, "tags")
        if limit == 0:
            return []
        has_tags = self._tagged(wanted, match) if wanted else None
        most = limit if operation is None and has_tags is None else None  # a filter needs all commits
        head = self._repository.refs.position.commit_hash
        entries = self._newest(most) if all_branches else self._chain(head, most)
        matches = [
            entry
            for entry in entries
            if (operation is None or entry.operation == operation) and (has_tags is None or has_tags(entry))
        ]
        return self._repository.commits.infos(matches[:limit], head)

    def _chain(self, head: str | None, limit: int | None) -> list[Entry]:
        if head is None:
            return []
        with self._repository.database.read() as connection:
            return self._repository.rows.chain(connection, head, limit)

    def _newest(self, limit: int | None) -> list[Entry]:
        with self._repository.database.read() as connection:
            heads = sorted({tip for tip in self._repository.refs.tips(connection) if tip})
            return self._repository.rows.newest(connection, heads, limit) if heads else []

    def _tagged(self, tags: Collection[str], match: Match) -> Callable[[Entry], bool]:
        """Return a filter for commits with any, or all, of these tags."""
        wanted = set(tags)
        added = self._repository.tags.added()

        def fits(entry: Entry) -> bool:
            has = wanted & {*entry.tags, *added.get(entry.commit_hash, ())}
            return has == wanted if match == "all" else bool(has)

        return fits

    def pinned(self, limit: int = 100) -> list[CommitInfo]:
        """Return the newest pinned commits of the current branch.

        Raises:
            ContentError: the limit is not a whole number.
        """
        return self._picked(limit, lambda _, effective: effective is Priority.PINNED)

    def skipped(self, limit: int = 100) -> list[CommitInfo]:
        """Return the newest skipped commits of the current branch.

        Raises:
            ContentError: the limit is not a whole number.
        """
        return self._picked(limit, lambda _, effective: effective is Priority.SKIP)

    def query_by_tags(
        self, tags: Collection[str], *, match: Match = "any", limit: int = 100
    ) -> list[CommitInfo]:
        """Return the newest commits of the current branch with any, or all, of these tags.

        Raises:
            ContentError: a tag is not a text, or another argument is invalid.
        """
        check_choice(match, _MATCHES, "the match of tags")
        has_tags = self._tagged(listed(tags, "tags"), match)
        return self._picked(limit, lambda entry, _: has_tags(entry))

    def query_by_text(self, text: str, *, limit: int = 100) -> list[CommitInfo]:
        """Return the newest messages of the current branch that contain a text. Ignores upper and lower case.

        Raises:
            ContentError: `text` is not a text, or the limit is not a whole number.
        """
        needle, limit = check_text(text, "text").casefold(), check_limit(limit)
        head = self._repository.refs.position.commit_hash
        with self._repository.timelines.lock:
            timeline = self._repository.timelines.at(head)
            hashes = [
                step.commit_hash
                for step in reversed(timeline.steps)
                if step.operation == APPEND and needle in timeline.message(step).told.casefold()
            ][:limit]
        return self._repository.commits.infos(self._repository.commits.entries(hashes), head)

    def contents(self, infos: Iterable[CommitInfo]) -> dict[str, dict[str, Any]]:
        """Return the contents of commits, by hash, with a few statements.

        Raises:
            ContentError: a value is not a commit.
            StoreCorruptError: the content of a commit is missing.
        """
        commits: list[Any] = list(infos) if isinstance(infos, Iterable) else [infos]
        for info in commits:
            if not isinstance(info, CommitInfo):
                raise ContentError(f"contents() takes results of log(), not {brief_repr(info)}")
        with self._repository.database.read() as connection:
            payloads = self._repository.rows.blobs(connection, (info.content_hash for info in commits))
        return {info.commit_hash: json.loads(payloads[info.content_hash]) for info in commits}

    def versions(self, name: str) -> list[CommitInfo]:
        """Return a message and its edits on the current branch, oldest first.

        Raises:
            CommitNotFoundError: unknown commit.
        """
        entry, head, edits = self._changes(name, EDIT)
        target = entry.edit_target or entry.commit_hash
        if not edits and target == entry.commit_hash:
            return self._repository.commits.infos([entry], head)
        return self._repository.commits.infos(self._repository.commits.entries((target, *edits)), head)

    def is_edited(self, message: str, head: str | None) -> bool:
        """Return True if the history of `head` has an edit of a message. `message` is its full hash."""
        with self._repository.timelines.lock:
            return message in self._repository.timelines.at(head).winners

    def annotations(self, name: str) -> list[CommitInfo]:
        """Return the annotations of a commit on the current branch, oldest first. The last one is in effect.

        Raises:
            CommitNotFoundError: unknown commit.
        """
        _, head, hashes = self._changes(name, ANNOTATE)
        return self._repository.commits.infos(self._repository.commits.entries(hashes), head)

    def _changes(self, name: str, operation: str) -> tuple[Entry, str | None, list[str]]:
        """Return the named commit, the head, and the changes to the commit's message, oldest first."""
        entry, here = self._repository.commits.with_position(name)
        target = entry.edit_target or entry.commit_hash
        with self._repository.timelines.lock:
            steps = self._repository.timelines.at(here.commit_hash).steps
            hashes = [s.commit_hash for s in steps if s.operation == operation and s.edit_target == target]
        return entry, here.commit_hash, hashes

    def _picked(self, limit: int, fits: Callable[[Entry, Priority], bool]) -> list[CommitInfo]:
        limit = check_limit(limit)
        head = self._repository.refs.position.commit_hash
        if head is None or limit == 0:
            return []
        with self._repository.database.read() as connection:
            chain = self._repository.rows.chain(connection, head)
        with self._repository.timelines.lock:
            timeline = self._repository.timelines.at(head)
            matches = [
                entry
                for entry in chain
                if entry.operation in {APPEND, EDIT}
                and fits(entry, timeline.priority(timeline.steps[timeline.place[entry.commit_hash]]))
            ]
        return self._repository.commits.infos(matches[:limit], head)
