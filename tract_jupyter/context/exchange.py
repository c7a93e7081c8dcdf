"""Conversations and notebooks, in and out of one tract. Nothing that is read is executed."""

from __future__ import annotations

import json
from os import PathLike
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.commits import first_line
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import (
    Priority,
    anthropic_messages,
    brief_repr,
    check_choice,
    openai_messages,
    told_text,
    tracked,
)
from tract_jupyter.storage import APPEND, Entry, from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Literal

    from nbformat import NotebookNode

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.timeline import Timeline
    from tract_jupyter.interchange import Shape
    from tract_jupyter.models import CommitInfo
    from tract_jupyter.storage import Step


class Exchange:
    """Reads conversations and notebooks into a tract, and writes its context as such."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def import_messages(
        self, data: Sequence[Any] | Mapping[str, Any], *, shape: Shape = "auto"
    ) -> list[CommitInfo]:
        """Commit a conversation, all of it or nothing.

        Args:
            data: a list of messages in OpenAI's shape, or Anthropic's `system` and `messages`.
            shape: whose it is: `openai`, `anthropic`, or `auto` to look.

        Raises:
            ContentError: a message is not of this shape; it is named by its index.
        """
        from tract_jupyter.interchange import read_messages

        return self._commit_all(read_messages(data, shape))

    def export_messages(
        self, *, shape: Literal["openai", "anthropic"] = "openai", at_commit: str | None = None
    ) -> Any:
        """Return the context as JSON data: OpenAI's list of messages, or Anthropic's `system` and `messages`.

        Attachments are named, without their bytes: `compile().to_openai()` has those.

        Args:
            shape: whose it is.
            at_commit: hash, prefix or branch of a commit; HEAD if left out.

        Raises:
            ContentError: there is no such shape.
            CommitNotFoundError: `at_commit` names nothing.
        """
        check_choice(shape, ("openai", "anthropic"), "shape")
        context = self._repository.compiler.compile(at_commit=at_commit)
        messages = context.messages  # without a reader, which would bring the bytes along
        return anthropic_messages(messages) if shape == "anthropic" else openai_messages(messages)

    def import_notebook(
        self, source: Mapping[str, Any] | str | Path, *, output_limit: int = 4_000
    ) -> list[CommitInfo]:
        """Commit the cells of a notebook, all of them or none. Nothing of it is executed.

        Args:
            source: a path, or what nbformat or JSON gave.
            output_limit: how many characters of a cell's outputs are kept.

        Raises:
            ContentError: it is no valid notebook, or the limit is no whole number.
        """
        from tract_jupyter.interchange import read_notebook

        if type(output_limit) is not int:
            raise ContentError(f"output_limit is a number of characters, not {brief_repr(output_limit)}")
        return self._commit_all(read_notebook(source, output_limit=output_limit))

    def to_notebook(self, path: str | Path | None = None, *, at_commit: str | None = None) -> NotebookNode:
        """Return the context as a notebook that a person can read. Reading it back gives the same messages.

        Attachments are named; where the tract that reads it has none like them, their names are all that it gets.

        Args:
            path: write it there, too.
            at_commit: hash, prefix or branch of a commit; HEAD if left out.

        Raises:
            ContentError: the path is not valid.
            CommitNotFoundError: `at_commit` names nothing.
        """
        if not (path is None or isinstance(path, str | PathLike)):
            raise ContentError(f"path is a path, as text or as Path, not {brief_repr(path)}")
        import nbformat

        from tract_jupyter.interchange import write_notebook

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
            commit = self._repository.commits.commit
            return [commit(**self._at_hand(entry)) for entry in tracked(list(entries), "Importing")]

    def _at_hand(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry whose attachments are named in its text, where their bytes are in another store."""
        if not entry["content"].get("attachments"):
            return entry
        content = self._repository.types.validated(entry["content"])
        if self._repository.files.has(content):
            return entry
        rest = {name: value for name, value in content.items() if name != "attachments"}
        metadata = {**entry.get("metadata", {}), "attachments": content["attachments"]}
        return {**entry, "content": {**rest, "text": told_text(content)}, "metadata": metadata}


def _is_shown(timeline: Timeline, step: Step) -> bool:
    return step.operation == APPEND and timeline.priority(step) is not Priority.SKIP


def _entry(timeline: Timeline, step: Step, rows: dict[str, Entry], added: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments with which `commit` would say the same."""
    from tract_jupyter.interchange import entry_of

    winner = timeline.winners.get(step.commit_hash, step)
    metadata = {**from_json(step.metadata_json, dict), **from_json(winner.metadata_json, dict)}
    message, row = timeline.message(step), rows[step.commit_hash]
    made = entry_of(message, json.loads(winner.payload), metadata, sorted({*row.tags, *added}))
    if row.message != first_line(told_text(row.content)):
        made["message"] = row.message
    source = timeline.priority_source(step.commit_hash)
    criteria = (rows[source.commit_hash] if source else row).retention
    if criteria:
        made["retain"] = criteria["instructions"]
        made["retain_match"], made["retain_match_mode"] = criteria["match_patterns"], criteria["match_mode"]
    return made
