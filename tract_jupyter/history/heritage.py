"""A history as it is given to a child: what of it, in which order, with which tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

from tract_jupyter.engine.timeline import Timeline
from tract_jupyter.exceptions import CommitNotFoundError, SessionError
from tract_jupyter.history.past import retained
from tract_jupyter.models.commit import CommitInfo
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.entry import APPEND, MERGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import Message
    from tract_jupyter.storage.commits import Lineage
    from tract_jupyter.storage.entry import Draft, Entry

Selector: TypeAlias = Callable[[CommitInfo], object] | Collection[str]
"""The messages that are asked for: a function that says so of each, or names of tags and commits."""


class Heritage:
    """What one commit stands for, read once.

    Args:
        lineage: its history.
        added: the tags that were added to commits later.
    """

    def __init__(self, lineage: Lineage[Entry], added: dict[str, tuple[str, ...]]) -> None:
        self.rows = lineage.rows
        self.merged = lineage.merged
        self.timeline = Timeline([row.step() for row in self.rows], lineage.merged)
        self.added = added
        self._by_hash = {row.commit_hash: row for row in self.rows}
        self._retention = retained(self.rows)

    @property
    def head(self) -> Entry:
        """The newest commit."""
        return self.rows[-1]

    @property
    def messages(self) -> Sequence[Message]:
        """The context."""
        return self.timeline.context().messages

    def priority(self, entry: Entry) -> Priority:
        """The priority in effect."""
        return self.timeline.priority(self.timeline.steps[self.timeline.place[entry.commit_hash]])

    def criteria(self, message: Message) -> dict[str, Any] | None:
        """What a summary must keep of a message. Only what is important has such."""
        return self._retention.get(message.commit_hash) if message.priority is Priority.IMPORTANT else None

    def with_tools(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts, the last of them linked to the tools that are in effect here."""
        tools = self.timeline.tools_hash
        if not drafts or tools is None:
            return drafts
        return [*drafts[:-1], drafts[-1]._replace(tools_hash=tools)]

    def tags(self) -> dict[str, set[str]]:
        """The tags of each message, with those of its edits."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for row in self.rows:
            of = row.edit_target or row.commit_hash
            found[of].update(row.tags, self.added.get(row.commit_hash, ()))
        return found

    def message(self, name: str, resolve: Callable[[str], str]) -> str:
        """The message that a name stands for; the name of an edit stands for what it edits.

        Raises:
            CommitNotFoundError: it is no message of this history.
        """
        entry = self._by_hash.get(resolve(name))
        target = self._by_hash.get(entry.edit_target) if entry and entry.edit_target else entry
        if target is None or target.operation != APPEND:
            raise CommitNotFoundError(f"{name!r} is no message of this history; log() lists them")
        return target.commit_hash

    def everything(self) -> list[Entry]:
        """All commits that count for the context. Merges are left out: what they brought stands in its place."""
        return [row for row in self.rows if row.operation != MERGE]

    def selected(self, select: Selector, resolve: Callable[[str], str]) -> list[Entry]:
        """The messages that are asked for, with their edits and annotations.

        Args:
            select: a function that says whether a message is wanted, or names: of tags, or else of commits.
            resolve: gives the hash of a commit by its name.

        Raises:
            SessionError: nothing is selected.
            CommitNotFoundError: a name is neither a tag nor a message.
        """
        chosen = self._fitting(select) if callable(select) else self._named(select, resolve)
        if not chosen:
            raise SessionError(
                "nothing was selected, so the child would start with nothing; select some message"
            )
        return [row for row in self.everything() if (row.edit_target or row.commit_hash) in chosen]

    def _fitting(self, fits: Callable[[CommitInfo], object]) -> set[str]:
        tags = self.tags()
        infos = [
            row.info(self.priority(row))._replace(tags=tuple(sorted(tags[row.commit_hash])))
            for row in self.rows
            if row.operation == APPEND
        ]
        return {info.commit_hash for info in infos if fits(info)}

    def _named(self, names: Collection[str], resolve: Callable[[str], str]) -> set[str]:
        tags = self.tags()
        chosen: set[str] = set()
        for name in [names] if isinstance(names, str) else names:
            tagged = {commit_hash for commit_hash, of in tags.items() if name in of}
            chosen |= tagged or {self.message(name, resolve)}
        return {name for name in chosen if self._by_hash[name].operation == APPEND}
