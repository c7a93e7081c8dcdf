"""Finding calls of tools and their answers, and dropping those that failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tract_jupyter.engine.drafts import annotation
from tract_jupyter.engine.writer import Plan
from tract_jupyter.history.past import Past
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.tool_turn import ToolDropResult, ToolTurn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.engine.tokens import Corrections
    from tract_jupyter.engine.writer import Writer
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import Message
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Entry


class ToolTurns:
    """The tool turns of the current branch of one tract, all of them, oldest first."""

    def __init__(
        self,
        database: Database,
        rows: CommitRows,
        refs: Refs,
        timelines: Timelines,
        writer: Writer,
        corrections: Corrections,
    ) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs
        self._timelines = timelines
        self._corrections = corrections
        self._writer = writer

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
