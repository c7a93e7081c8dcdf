"""Compile commits to messages: at HEAD, or at another commit or time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.timeline import PER_CONTEXT, Timeline
from tract_jupyter.exceptions import CommitNotFoundError, ContentError
from tract_jupyter.models import (
    CompiledContext,
    Priority,
    brief_repr,
    check_limit,
    check_text,
)
from tract_jupyter.storage import APPEND, to_text, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tract_jupyter.context.refs import Refs
    from tract_jupyter.context.timeline import Timelines
    from tract_jupyter.context.tokens import Corrections
    from tract_jupyter.context.toolsets import Toolsets
    from tract_jupyter.models import Message, Reader
    from tract_jupyter.storage import CompileRecord, CompileRows, Database, Step


class Compiler:
    """Compiles the contexts of one tract."""

    def __init__(
        self,
        timelines: Timelines,
        toolsets: Toolsets,
        refs: Refs,
        limit: Callable[[], int | None],
        corrections: Corrections,
        read: Reader,
    ) -> None:
        self._read = read
        self._timelines = timelines
        self._toolsets = toolsets
        self._refs = refs
        self._limit = limit
        self._corrections = corrections

    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
    ) -> CompiledContext:
        """Return the context of HEAD, of another commit (`at_commit`), or of a time (`at_time`, inclusive).

        Raises:
            CommitNotFoundError: unknown commit `at_commit`.
            ContentError: time and commit are both set, or the time is invalid.
        """
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
        with uninterrupted(), self._timelines.lock:
            timeline = self._timelines.at(head)
            if last is not None:
                timeline = _until(timeline, last)
            context = timeline.context(
                self._toolsets.get(used) if (used := timeline.tools_hash) else (), self._limit(), self._read
            )
            if not include_reasoning:
                return self._corrections.context(context)
            messages = [timeline.message(step) for step in timeline.steps if _is_wanted(timeline, step)]
        return self._corrections.context(recounted(context, messages))

    def of(self, head: str | None) -> CompiledContext:
        """Return the context of a commit by its full hash, as `compile` does without options."""
        with uninterrupted(), self._timelines.lock:  # a timeline counts its rendered steps
            timeline = self._timelines.at(head)
            return self._corrections.context(
                timeline.context(
                    self._toolsets.get(used) if (used := timeline.tools_hash) else (),
                    self._limit(),
                    self._read,
                )
            )

    def _head(self, at_commit: str | None, last: str | None) -> str | None:
        if at_commit is not None:
            return self._refs.resolve(at_commit)
        return self._refs.position.commit_hash if last is None else self._refs.tip_at(last)


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


_COMMITS = "commits"


class CompileRecords:
    """The compile records of one tract."""

    def __init__(self, database: Database, rows: CompileRows, compiler: Compiler) -> None:
        self._database = database
        self._rows = rows
        self._compiler = compiler

    def add(self, context: CompiledContext, **options: bool) -> str:
        """Record a context and its options of `compile`; return the id of the record.

        The record lists the commits only if the head does not determine them: for a time.

        Raises:
            ContentError: not a context.
            CommitNotFoundError: the context belongs to another store, or its commits were removed.
        """
        if not isinstance(context, CompiledContext):
            raise ContentError(f"the context must be a result of compile(), not {brief_repr(context)}")
        chosen: dict[str, Any] = {name: True for name, value in options.items() if value}
        again = self._compiler.compile(at_commit=context.head, **chosen)
        differs = again.commit_hashes != context.commit_hashes
        return self.note(context, {**chosen, **({_COMMITS: list(context.commit_hashes)} if differs else {})})

    def note(self, context: CompiledContext, params: Mapping[str, Any]) -> str:
        """Record a context that was just compiled. `params` are the options of `compile`, except default values."""
        with self._database.write() as connection:
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
        with self._database.read() as connection:
            return self._rows.newest(connection, most)

    def commits(self, record_id: str) -> tuple[str, ...]:
        """Return the commits of a recorded context's messages in order.

        Raises:
            ContentError: the id is not a text.
            CommitNotFoundError: unknown record.
        """
        check_text(record_id, "record_id")
        with self._database.read() as connection:
            record = self._rows.get(connection, record_id)
        if record is None:
            raise CommitNotFoundError(
                f"there is no compile record {record_id!r}; compile_records.newest() lists the records"
            )
        if _COMMITS in record.params:
            return tuple(record.params[_COMMITS])
        if record.head is None:
            return ()
        return self._compiler.compile(at_commit=record.head, **record.params).commit_hashes
