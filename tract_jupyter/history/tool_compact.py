"""Making the answers of tools shorter: each becomes an edit, so that no call is left without its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.engine.drafts import draft
from tract_jupyter.engine.writer import Plan
from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.history.past import Past, names_of
from tract_jupyter.history.tool_turns import answers
from tract_jupyter.models.compression import CompressGroup
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.tool_turn import ToolCompactResult
from tract_jupyter.storage.entry import EDIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.engine.tokens import Corrections
    from tract_jupyter.engine.writer import Writer
    from tract_jupyter.history.summaries import Source
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Draft, Entry


class ToolCompactor:
    """Shortens answers of tools on the current branch of one tract."""

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
                    f"{name!r} is no answer of a tool that is asked for; find_tool_results() lists them"
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


def _kept(past: Past, entry: Entry) -> tuple[dict[str, object], ...]:
    criteria = past.criteria(entry)
    return () if criteria is None else (criteria,)
