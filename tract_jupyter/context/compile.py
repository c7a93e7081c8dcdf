"""Compile commits to messages: at HEAD, or at another commit or time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.timeline import PER_CONTEXT, Timeline
from tract_jupyter.exceptions import CommitNotFoundError, ContentError
from tract_jupyter.models import CompiledContext, Priority, brief_repr, check_limit, check_text
from tract_jupyter.storage import APPEND, CompileRows, to_text, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.models import Message
    from tract_jupyter.storage import CompileRecord, Step


class Compiler:
    """Compiles the contexts of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
    ) -> CompiledContext:
        """Return the context of HEAD, of another commit (`at_commit`), or of a time (`at_time`, inclusive)."""
        if not (at_time is None or isinstance(at_time, datetime)):
            raise ContentError(
                f"at_time must be a datetime, such as datetime.now(UTC), not {brief_repr(at_time)}"
            )
        if at_commit is not None and at_time is not None:
            raise ContentError("got both at_commit and at_time; use only one of them")
        last = None if at_time is None else _text_of(at_time)
        if last is None and not include_reasoning:
            return self.of(self._head(at_commit, None))
        head = self._head(at_commit, last)
        with uninterrupted(), self._repository.timelines.lock:
            timeline = self._repository.timelines.at(head)
            if last is not None:
                timeline = _until(timeline, last)
            context = self._context(timeline)
            if not include_reasoning:
                return self._repository.corrections.context(context)
            messages = [timeline.message(step) for step in timeline.steps if _is_wanted(timeline, step)]
        return self._repository.corrections.context(recounted(context, messages))

    def of(self, head: str | None) -> CompiledContext:
        """Return the context of a commit by its full hash, as `compile` does without options."""
        with uninterrupted(), self._repository.timelines.lock:  # a timeline counts its rendered steps
            timeline = self._repository.timelines.at(head)
            return self._repository.corrections.context(self._context(timeline))

    def _context(self, timeline: Timeline) -> CompiledContext:
        used = timeline.tools_hash
        tools = () if used is None else self._repository.toolsets.get(used)
        return timeline.context(tools, self._repository.max_tokens(), self._repository.files.read)

    def _head(self, at_commit: str | None, last: str | None) -> str | None:
        refs = self._repository.refs
        if at_commit is not None:
            return refs.resolve(at_commit)
        return refs.position.commit_hash if last is None else refs.tip_at(last)


def recounted(context: CompiledContext, messages: Sequence[Message]) -> CompiledContext:
    """Return the context with other messages."""
    tokens = sum(message.token_count for message in messages) + (PER_CONTEXT if messages else 0)
    return replace(context, messages=tuple(messages), token_count=tokens)


def _text_of(moment: datetime) -> str:
    """Return a time in the store's format. Without a time zone, it is UTC."""
    return to_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _until(timeline: Timeline, last: str) -> Timeline:
    """Return the history at a time."""
    return Timeline((step for step in timeline.steps if step.created_at <= last), timeline.merged)


def _is_wanted(timeline: Timeline, step: Step) -> bool:
    """Return True if a context with reasoning includes a commit: an append that the user did not skip."""
    is_unchanged = step.priority is None and timeline.priority_source(step.commit_hash) is None
    is_reasoning = step.content_type == "reasoning" and is_unchanged
    return step.operation == APPEND and (is_reasoning or timeline.priority(step) is not Priority.SKIP)


_COMMITS, _REASONING = "commits", "include_reasoning"


class CompileRecords:
    """The compile records of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._rows = CompileRows(repository.tract_id)

    def add(self, context: CompiledContext, *, include_reasoning: bool = False) -> str:
        """Record a context and its option of `compile`; return the id of the record.

        The record lists the commits only if the head does not determine them: for a time.

        Raises:
            ContentError: not a context.
            CommitNotFoundError: the context belongs to another store, or its commits were removed.
        """
        if not isinstance(context, CompiledContext):
            raise ContentError(f"the context must be a result of compile(), not {brief_repr(context)}")
        params: dict[str, Any] = {_REASONING: True} if include_reasoning else {}
        again = self._repository.compiler.compile(at_commit=context.head, include_reasoning=include_reasoning)
        if again.commit_hashes != context.commit_hashes:
            params[_COMMITS] = list(context.commit_hashes)
        return self.note(context, params)

    def note(
        self,
        context: CompiledContext,
        params: Mapping[str, Any],
        before: Callable[[Connection], object] | None = None,
    ) -> str:
        """Record a context that was just compiled.

        Args:
            context: the context.
            params: the options of `compile`, except default values.
            before: called first in the same transaction.
        """
        with self._repository.database.write() as connection:
            if before is not None:
                before(connection)
            return self._rows.add(
                connection,
                context.head,
                context.token_count,
                len(context),
                context.token_source,
                dict(params),
            )

    def newest(self, limit: int = 100) -> list[CompileRecord]:
        """Return the records, newest first.

        Raises:
            ContentError: the limit is not a whole number.
        """
        most = check_limit(limit)
        with self._repository.database.read() as connection:
            return self._rows.newest(connection, most)

    def commits(self, record_id: str) -> tuple[str, ...]:
        """Return the commits of a recorded context's messages in order.

        Raises:
            ContentError: the id is not a text.
            CommitNotFoundError: unknown record.
        """
        check_text(record_id, "record_id")
        with self._repository.database.read() as connection:
            record = self._rows.get(connection, record_id)
        if record is None:
            raise CommitNotFoundError(
                f"there is no compile record {record_id!r}; compile_records.newest() lists the records"
            )
        if _COMMITS in record.params:
            return tuple(record.params[_COMMITS])
        if record.head is None:
            return ()
        compiler, with_reasoning = self._repository.compiler, _REASONING in record.params
        return compiler.compile(at_commit=record.head, include_reasoning=with_reasoning).commit_hashes
