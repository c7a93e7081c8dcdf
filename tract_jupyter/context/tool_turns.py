"""Calls of tools and their answers: find them, drop those that failed, shorten answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tract_jupyter.context.ancestry import Past, names_of
from tract_jupyter.context.commits import annotation, draft
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.models.compression import CompressGroup
from tract_jupyter.models.content import Priority
from tract_jupyter.models.toolcall import ToolCompactResult, ToolDropResult, ToolTurn
from tract_jupyter.storage.entry import EDIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.context.refs import Refs
    from tract_jupyter.context.summaries import Source
    from tract_jupyter.context.timeline import Timelines
    from tract_jupyter.context.tokens import Corrections
    from tract_jupyter.context.writer import Writer
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import Message
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Draft, Entry


class ToolTurns:
    """The tool turns of the current branch of one tract, all of them, oldest first."""

    def __init__(
        self,
        database: Database,
        rows: CommitRows,
        refs: Refs,
        timelines: Timelines,
        writer: Writer,
        counter: TokenCounter,
        corrections: Corrections,
    ) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs
        self._timelines = timelines
        self._writer = writer
        self._counter = counter
        self._corrections = corrections

    def calls(self, name: str | None = None) -> list[CommitInfo]:
        """The messages that call tools, or one tool; skipped ones too, which their priority tells."""
        past = self._past()
        if past is None:
            return []
        return [
            _info(past, entry) for entry in past.appends() if _calls(past.messages[entry.commit_hash], name)
        ]

    def results(self, name: str | None = None, after: str | None = None) -> list[CommitInfo]:
        """The answers of tools, or of one tool; only those that come after a commit, if one is named.

        Raises:
            HistoryError: `after` is not in the history of the branch.
        """
        start = None if after is None else self._refs.resolve(after)
        past = self._past()
        if past is None:
            return []
        first = -1 if start is None else past.place[past.entry(start).commit_hash]
        found = (entry for entry in answers(past, name) if past.place[entry.commit_hash] > first)
        return [_info(past, entry) for entry in found]

    def turns(self, name: str | None = None) -> list[ToolTurn]:
        """The messages that call tools, or one tool, each with its answers."""
        past = self._past()
        return [] if past is None else list(_turns(past, name))

    def drop_failed(self, name: str | None = None) -> ToolDropResult:
        """Skip the turns with an answer that is an error, as one step that `undo` takes back.

        A turn with a pinned message stays: somebody wants it.

        Raises:
            DetachedHeadError: there is no branch to write on.
        """
        here = self._refs.on_branch("drop tool turns")
        past = Past.read(here, self._database, self._rows, self._timelines)
        failed = [turn for turn in _turns(past, name) if _is_dropped(past, turn)]
        showing = [
            commit
            for turn in failed
            for commit in turn.commits
            if past.messages[commit].priority is not Priority.SKIP
        ]
        if not showing:
            return ToolDropResult((), 0)
        drafts = [annotation(commit, Priority.SKIP, "failed tool turn", None) for commit in showing]
        note = f"{len(failed)} failed turn{'s' * (len(failed) > 1)}"
        plan = Plan(past.branch, past.head, here, drafts, "drop tool turns", note, {"commits": showing})
        head = self._writer.write(plan)[-1]
        return ToolDropResult(
            tuple(failed),
            self._corrections.tokens(here.context_tokens - head.context_tokens, past.context.token_source),
        )

    def compact(self, names: Iterable[str] | None, tool: str | None, source: Source) -> ToolCompactResult:
        """Edit the answers of tools, or of one tool, or some of them, as one step that `undo` takes back.

        Raises:
            CompressionError: there is no such answer, or a text is not good; nothing was changed.
        """
        here = self._refs.on_branch("compress tool calls")
        past = Past.read(here, self._database, self._rows, self._timelines)
        chosen = self._chosen(past, names, tool)
        groups = [
            CompressGroup((e.commit_hash,), (past.messages[e.commit_hash],), _kept(past, e)) for e in chosen
        ]
        texts = source.texts(groups)  # may take a minute, so no transaction and no lock is held
        drafts = [self._draft(past, entry, text) for entry, text in zip(chosen, texts, strict=True)]
        note = f"{len(drafts)} answer{'s' * (len(drafts) > 1)}"
        changed = [entry.commit_hash for entry in chosen]
        plan = Plan(past.branch, past.head, here, drafts, "compress tool calls", note, {"commits": changed})
        edits = self._writer.write(plan)
        saved = self._corrections.tokens(
            here.context_tokens - edits[-1].context_tokens, past.context.token_source
        )
        return ToolCompactResult(tuple(changed), tuple(edit.commit_hash for edit in edits), saved)

    def _chosen(self, past: Past, names: Iterable[str] | None, tool: str | None) -> list[Entry]:
        found = {entry.commit_hash: entry for entry in answers(past, tool)}
        wanted = list(found) if names is None else self._named(past, names, found)
        fixed = {Priority.PINNED, Priority.SKIP}
        chosen = [found[name] for name in dict.fromkeys(wanted) if past.priority(found[name]) not in fixed]
        if not chosen:
            raise CompressionError(
                f"no answer of {f'the tool {tool!r}' if tool else 'a tool'} on {past.branch!r} that may be changed: "
                "what is pinned stays, what is skipped takes no tokens"
            )
        return chosen

    def _named(self, past: Past, given: Iterable[str], found: dict[str, Entry]) -> list[str]:
        try:
            names = names_of(given, "commits")
            entries = [past.entry(self._refs.resolve(name)) for name in names]
        except HistoryError as error:
            raise CompressionError(str(error)) from None
        for name, entry in zip(names, entries, strict=True):
            if entry.commit_hash not in found:
                raise CompressionError(
                    f"{name!r} is no answer of a tool that is asked for; tool_turns.results() lists them"
                )
        return [entry.commit_hash for entry in entries]

    def _draft(self, past: Past, entry: Entry, text: str) -> Draft:
        message = past.messages[entry.commit_hash]
        content = {
            "content_type": "tool_io",
            "tool_name": message.name or "",
            "direction": "result",
            "payload": {"content": text},
            "status": "error" if message.is_error else None,
        }
        before = past.winners.get(entry.commit_hash)  # it counts no more; the original's metadata still do
        return draft(
            content,
            self._counter,
            operation=EDIT,
            edit_target=entry.commit_hash,
            metadata=before.metadata if before else None,
            generation_config=before.generation_config if before else None,
        )

    def _past(self) -> Past | None:
        here = self._refs.position
        if here.commit_hash is None:
            return None
        return Past.read(here, self._database, self._rows, self._timelines)


def _is_dropped(past: Past, turn: ToolTurn) -> bool:
    messages = [past.messages[commit] for commit in turn.commits]
    priorities = {message.priority for message in messages}
    return (
        any(message.is_error for message in messages)
        and Priority.PINNED not in priorities
        and priorities != {Priority.SKIP}
    )


def _turns(past: Past, name: str | None) -> Iterator[ToolTurn]:
    """Each answer belongs to the latest call before it with its id that has none yet: ids are given again and again."""
    waiting: dict[str, list[str]] = {}
    answered: dict[str, list[Entry]] = {}
    for entry in past.appends():
        message = past.messages[entry.commit_hash]
        if message.tool_calls and message.role == "assistant":
            answered[entry.commit_hash] = []
            for call in message.tool_calls:
                waiting.setdefault(call.id, []).append(entry.commit_hash)
        elif message.role == "tool" and waiting.get(message.tool_call_id or ""):
            answered[waiting[message.tool_call_id or ""].pop()].append(entry)
    for commit, answers in answered.items():
        message = past.messages[commit]
        if _calls(message, name):
            names = tuple(call.name for call in message.tool_calls)
            yield ToolTurn(_info(past, past.entry(commit)), tuple(_infos(past, answers)), names)


def _calls(message: Message, name: str | None) -> bool:
    if message.role != "assistant" or not message.tool_calls:
        return False
    return name is None or any(call.name == name for call in message.tool_calls)


def answers(past: Past, name: str | None) -> Iterator[Entry]:
    """The answers of tools, or of one tool, oldest first; skipped ones too."""
    for entry in past.appends():
        message = past.messages[entry.commit_hash]
        if message.role == "tool":
            content = json.loads(entry.payload)
            said = message.name or content.get("tool_name")
            if content.get("direction") != "call" and name in {None, said}:
                yield entry


def _infos(past: Past, entries: Iterable[Entry]) -> list[CommitInfo]:
    return [_info(past, entry) for entry in entries]


def _info(past: Past, entry: Entry) -> CommitInfo:
    return entry.info(past.priority(entry))


def _kept(past: Past, entry: Entry) -> tuple[dict[str, object], ...]:
    criteria = past.criteria(entry)
    return () if criteria is None else (criteria,)
