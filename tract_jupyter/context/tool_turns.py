"""Answers of tools: find them, and shorten them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tract_jupyter.context.ancestry import BranchHistory, names_of
from tract_jupyter.context.commits import draft
from tract_jupyter.context.summaries import writer_options
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.models import CompressGroup, Priority, ToolCompactResult
from tract_jupyter.storage import EDIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.summaries import Source
    from tract_jupyter.models import CommitInfo
    from tract_jupyter.storage import Draft, Entry


class ToolTurns:
    """The answers of tools on one tract's current branch, oldest first."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def results(self, name: str | None = None, after: str | None = None) -> list[CommitInfo]:
        """Return the answers of all tools or one tool; with `after`, only those after that commit.

        Raises:
            HistoryError: `after` is not in the history of the branch.
        """
        start = None if after is None else self._repository.refs.resolve(after)
        history = self._history()
        if history is None:
            return []
        first = -1 if start is None else history.place[history.entry(start).commit_hash]
        later = (entry for entry in answers(history, name) if history.place[entry.commit_hash] > first)
        return [entry.info(history.priority(entry)) for entry in later]

    def compact(self, names: Iterable[str] | None, tool: str | None, source: Source) -> ToolCompactResult:
        """Replace answers of tools with shorter texts, as one operation for `undo`.

        Raises:
            CompressionError: there is no such answer, or a text was rejected; nothing was changed.
        """
        here = self._repository.refs.on_branch("compress tool calls")
        history = BranchHistory.read(here, self._repository)
        chosen = self._chosen(history, names, tool)
        groups = [
            CompressGroup((e.commit_hash,), (history.messages[e.commit_hash],), _criteria(history, e))
            for e in chosen
        ]
        texts = source.texts(groups)  # slow: hold no transaction and no lock
        drafts = [self._draft(history, entry, text) for entry, text in zip(chosen, texts, strict=True)]
        note = f"{len(drafts)} answer{'s' * (len(drafts) > 1)}"
        changed = [entry.commit_hash for entry in chosen]
        plan = Plan(
            history.branch, history.head, here, drafts, "compress tool calls", note, {"commits": changed}
        )
        edits = self._repository.writer.write(plan)
        saved = self._repository.corrections.tokens(
            here.context_tokens - edits[-1].context_tokens, history.context.token_source
        )
        return ToolCompactResult(tuple(changed), tuple(edit.commit_hash for edit in edits), saved)

    def _chosen(self, history: BranchHistory, names: Iterable[str] | None, tool: str | None) -> list[Entry]:
        by_hash = {entry.commit_hash: entry for entry in answers(history, tool)}
        wanted = list(by_hash) if names is None else self._named(history, names, by_hash)
        fixed = {Priority.PINNED, Priority.SKIP}
        entries = [by_hash[name] for name in dict.fromkeys(wanted)]
        chosen = [entry for entry in entries if history.priority(entry) not in fixed]
        if not chosen:
            raise CompressionError(
                f"there is no answer of {f'the tool {tool!r}' if tool else 'a tool'} on {history.branch!r} to shorten: "
                "pinned answers stay, and skipped ones take no tokens"
            )
        return chosen

    def _named(self, history: BranchHistory, commits: Iterable[str], by_hash: dict[str, Entry]) -> list[str]:
        try:
            names = names_of(commits, "commits")
            entries = [history.entry(self._repository.refs.resolve(name)) for name in names]
        except HistoryError as error:
            raise CompressionError(str(error)) from None
        for name, entry in zip(names, entries, strict=True):
            if entry.commit_hash not in by_hash:
                raise CompressionError(
                    f"{name!r} is not an answer of the requested tools; tool_turns.results() lists the answers"
                )
        return [entry.commit_hash for entry in entries]

    def _draft(self, history: BranchHistory, entry: Entry, text: str) -> Draft:
        message = history.messages[entry.commit_hash]
        content = {
            "content_type": "tool_io",
            "tool_name": message.name or "",
            "direction": "result",
            "payload": {"content": text},
            "status": "error" if message.is_error else None,
        }
        # the new edit replaces it; the original's metadata stay
        before = history.winners.get(entry.commit_hash)
        metadata = {} if before is None else before.metadata
        metadata = {name: value for name, value in metadata.items() if name != "usage"}
        return draft(
            content,
            self._repository.counter,
            operation=EDIT,
            edit_target=entry.commit_hash,
            **writer_options(text, metadata),
        )

    def _history(self) -> BranchHistory | None:
        here = self._repository.refs.position
        if here.commit_hash is None:
            return None
        return BranchHistory.read(here, self._repository)


def answers(history: BranchHistory, name: str | None) -> Iterator[Entry]:
    """Return the answers of all tools or one tool, oldest first, including skipped ones."""
    for entry in history.appends():
        message = history.messages[entry.commit_hash]
        if message.role == "tool":
            content = json.loads(entry.payload)
            tool = message.name or content.get("tool_name")
            if content.get("direction") != "call" and name in {None, tool}:
                yield entry


def _criteria(history: BranchHistory, entry: Entry) -> tuple[dict[str, object], ...]:
    criteria = history.criteria(entry)
    return () if criteria is None else (criteria,)
