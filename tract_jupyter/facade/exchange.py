"""Conversations and notebooks, in and out."""

from __future__ import annotations

import json
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.context.commits import first_line
from tract_jupyter.exceptions import ContentError
from tract_jupyter.facade.reading import Reading
from tract_jupyter.facade.writing import Writing
from tract_jupyter.models.checks import check_choice
from tract_jupyter.models.content import Priority, text_of
from tract_jupyter.models.text import brief_repr
from tract_jupyter.storage.columns import from_json
from tract_jupyter.storage.entry import APPEND, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from nbformat import NotebookNode

    from tract_jupyter.context.timeline import Timeline
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.storage.entry import Step


class Exchange(Writing, Reading):
    """The part of `Tract` that exchanges contexts with other programs."""

    def import_messages(
        self,
        data: Sequence[Any] | Mapping[str, Any],
        *,
        shape: Literal["auto", "openai", "anthropic"] = "auto",
    ) -> list[CommitInfo]:
        """Commit a conversation, all of it or nothing.

        Args:
            data: a list of messages in OpenAI's shape, or Anthropic's `system` and `messages`.
            shape: whose it is.

        Raises:
            ContentError: a message is not of this shape; it is named by its index.
        """
        from tract_jupyter.interchange.chat import read_messages

        return self._commit_all(read_messages(data, shape))

    def export_messages(
        self, *, shape: Literal["openai", "anthropic"] = "openai", at_commit: str | None = None
    ) -> Any:
        """The context as JSON data: OpenAI's list of messages, or Anthropic's `system` and `messages`.

        Raises:
            ContentError: there is no such shape.
            CommitNotFoundError: `at_commit` names nothing.
        """
        check_choice(shape, ("openai", "anthropic"), "shape")
        context = self._compiler.compile(at_commit=at_commit)
        return context.to_anthropic() if shape == "anthropic" else context.to_openai()

    def import_notebook(
        self, source: Mapping[str, Any] | str | Path, *, output_limit: int = 4_000
    ) -> list[CommitInfo]:
        """Commit the cells of a notebook, all of them or none. Nothing of it is executed.

        Args:
            source: a path, or what nbformat or JSON gave.
            output_limit: how many characters of a cell's outputs are kept.

        Raises:
            ContentError: it is no valid notebook, or the limit no whole number.
        """
        from tract_jupyter.interchange.notebook import read_notebook

        if type(output_limit) is not int:
            raise ContentError(f"output_limit is a number of characters, not {brief_repr(output_limit)}")
        return self._commit_all(read_notebook(source, output_limit=output_limit))

    def to_notebook(self, path: str | Path | None = None, *, at_commit: str | None = None) -> NotebookNode:
        """The context as a notebook that a person can read; with `path`, written there too.

        Reading it back gives the same messages.

        Raises:
            ContentError: the path is none.
            CommitNotFoundError: `at_commit` names nothing.
        """
        if not (path is None or isinstance(path, str | PathLike)):
            raise ContentError(f"path is a path, as text or as Path, not {brief_repr(path)}")
        import nbformat

        from tract_jupyter.interchange.notebook import write_notebook

        head = self._refs.position.commit_hash if at_commit is None else self._refs.resolve(at_commit)
        rows, added = self._rows_at(head), self._tags.added()
        with self._timelines.lock:
            timeline = self._timelines.at(head)
            shown = [step for step in timeline.steps if _is_shown(timeline, step)]
            entries = [_entry(timeline, step, rows, added.get(step.commit_hash, ())) for step in shown]
        notebook = write_notebook(entries)
        if path is not None:
            nbformat.write(notebook, path)
        return notebook

    def _rows_at(self, head: str | None) -> dict[str, Entry]:
        if head is None:
            return {}
        with self._database.read() as connection:
            return {row.commit_hash: row for row in self._rows.lineage(connection, head, Entry).rows}

    def _commit_all(self, entries: Iterable[dict[str, Any]]) -> list[CommitInfo]:
        with self.batch():
            return [self.commit(**entry) for entry in entries]


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
