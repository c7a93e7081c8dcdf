"""Compiling contexts, and noting which were sent to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from tract_jupyter.facade.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tract_jupyter.context.compile import ReorderWarning
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.storage.journal import CompileRecord


class Compiling(Parts):
    """The part of `Tract` that compiles."""

    @overload
    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
        order: None = None,
        check_safety: bool = True,
    ) -> CompiledContext: ...
    @overload
    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
        order: Sequence[str],
        check_safety: bool = True,
    ) -> tuple[CompiledContext, list[ReorderWarning]]: ...
    def compile(
        self,
        *,
        at_commit: str | None = None,
        at_time: datetime | None = None,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
        order: Sequence[str] | None = None,
        check_safety: bool = True,
    ) -> CompiledContext | tuple[CompiledContext, list[ReorderWarning]]:
        """The messages that HEAD, or another commit, stands for.

        Args:
            at_commit: hash, prefix or branch of another commit.
            at_time: the context as it was then (inclusive); without a zone it is UTC.
            include_reasoning: with the reasoning that is left out by its nature.
            include_edit_annotations: mark edited messages with `[edited]`.
            order: commits to put first, in this order; then the context comes with warnings about what that may break.
            check_safety: look for such things.

        Raises:
            CommitNotFoundError: `at_commit` or a name of `order` names nothing.
            ContentError: `at_commit` and `at_time` are both given, the time is none, or `order` is no list.
        """
        context = self._compiler.compile(
            at_commit=at_commit,
            at_time=at_time,
            include_reasoning=include_reasoning,
            include_edit_annotations=include_edit_annotations,
        )
        return context if order is None else self._compiler.reorder(context, order, check_safety=check_safety)

    def record_compile(
        self,
        context: CompiledContext,
        *,
        include_reasoning: bool = False,
        include_edit_annotations: bool = False,
    ) -> str:
        """Note that a context was sent to a model, and return the id of the record.

        The record names the newest commit, from which `compile` makes the context again. Only a context that it would
        not make, of another order or as of some time, is kept as a list of its commits.

        Args:
            context: what was sent.
            include_reasoning: whether it was compiled so.
            include_edit_annotations: whether it was compiled so.

        Raises:
            ContentError: it is no context.
            CommitNotFoundError: it is of another store, or its commits were removed.
        """
        return self._compile_records.add(
            context, include_reasoning=include_reasoning, include_edit_annotations=include_edit_annotations
        )

    def compile_records(self, limit: int = 100) -> list[CompileRecord]:
        """The contexts that were sent, newest first.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self._compile_records.newest(limit)

    def compile_record_commits(self, record_id: str) -> tuple[str, ...]:
        """The commits whose messages a recorded context had, in order.

        Raises:
            ContentError: the id is no text.
            CommitNotFoundError: there is no such record.
        """
        return self._compile_records.commits(record_id)
