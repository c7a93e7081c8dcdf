"""Conversations and notebooks, in and out of one tract. Nothing that is read is executed."""

from __future__ import annotations

import json
from os import PathLike
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.commits import first_line
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.checks import check_choice
from tract_jupyter.models.content import Priority, text_of
from tract_jupyter.models.text import brief_repr
from tract_jupyter.storage.columns import from_json
from tract_jupyter.storage.entry import APPEND, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Literal

    from nbformat import NotebookNode

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.timeline import Timeline
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.storage.entry import Step

    Shape = Literal["auto", "openai", "anthropic"]


class Exchange:
    """Exchanges the context of a tract with other programs."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def import_messages(self, data: Sequence[Any] | Mapping[str, Any], shape: Shape) -> list[CommitInfo]:
        """Commit a conversation, all of it or nothing; arguments as of `Tract.import_messages`."""
        from tract_jupyter.interchange.chat import read_messages

        return self._commit_all(read_messages(data, shape))

    def export_messages(self, shape: str, at_commit: str | None) -> Any:
        """Return the context as JSON data; arguments as of `Tract.export_messages`."""
        check_choice(shape, ("openai", "anthropic"), "shape")
        context = self._repository.compiler.compile(at_commit=at_commit)
        return context.to_anthropic() if shape == "anthropic" else context.to_openai()

    def import_notebook(self, source: Mapping[str, Any] | str | Path, output_limit: int) -> list[CommitInfo]:
        """Commit the cells of a notebook, all of them or none; arguments as of `Tract.import_notebook`."""
        from tract_jupyter.interchange.notebook import read_notebook

        if type(output_limit) is not int:
            raise ContentError(f"output_limit is a number of characters, not {brief_repr(output_limit)}")
        return self._commit_all(read_notebook(source, output_limit=output_limit))

    def to_notebook(self, path: str | Path | None, at_commit: str | None) -> NotebookNode:
        """Return the context as a notebook, and write it; arguments as of `Tract.to_notebook`."""
        if not (path is None or isinstance(path, str | PathLike)):
            raise ContentError(f"path is a path, as text or as Path, not {brief_repr(path)}")
        import nbformat

        from tract_jupyter.interchange.notebook import write_notebook

        refs, timelines = self._repository.refs, self._repository.timelines
        head = refs.position.commit_hash if at_commit is None else refs.resolve(at_commit)
        rows, added = self._rows_at(head), self._repository.tags.added()
        with timelines.lock:
            timeline = timelines.at(head)
            shown = [step for step in timeline.steps if _is_shown(timeline, step)]
            entries = [_entry(timeline, step, rows, added.get(step.commit_hash, ())) for step in shown]
        notebook = write_notebook(entries)
        if path is not None:
            nbformat.write(notebook, path)
        return notebook

    def _rows_at(self, head: str | None) -> dict[str, Entry]:
        if head is None:
            return {}
        with self._repository.database.read() as connection:
            lineage = self._repository.rows.lineage(connection, head, Entry)
            return {row.commit_hash: row for row in lineage.rows}

    def _commit_all(self, entries: Iterable[dict[str, Any]]) -> list[CommitInfo]:
        with self._repository.writer.batch():
            return [self._repository.commits.commit(**entry) for entry in entries]


def _is_shown(timeline: Timeline, step: Step) -> bool:
    return step.operation == APPEND and timeline.priority(step) is not Priority.SKIP


def _entry(timeline: Timeline, step: Step, rows: dict[str, Entry], added: tuple[str, ...]) -> dict[str, Any]:
    """What `commit` would take to say the same."""
    from tract_jupyter.interchange.entries import entry_of

    winner = timeline.winners.get(step.commit_hash, step)
    metadata = {**from_json(step.metadata_json, dict), **from_json(winner.metadata_json, dict)}
    message, row = timeline.message(step), rows[step.commit_hash]
    made = entry_of(message, json.loads(winner.payload), metadata, sorted({*row.tags, *added}))
    if row.message != first_line(text_of(row.content)):
        made["message"] = row.message
    source = timeline.priority_source(step.commit_hash)
    criteria = (rows[source.commit_hash] if source else row).retention
    if criteria:
        made["retain"] = criteria["instructions"]
        made["retain_match"], made["retain_match_mode"] = criteria["match_patterns"], criteria["match_mode"]
    return made
