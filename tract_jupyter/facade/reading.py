"""Reading the context and its history."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from tract_jupyter.engine.config_query import check_condition, fits
from tract_jupyter.engine.verify import Damage, verify
from tract_jupyter.exceptions import CommitNotFoundError
from tract_jupyter.facade.parts import Parts
from tract_jupyter.history.diff import diff_contexts
from tract_jupyter.models.commit import StatusInfo
from tract_jupyter.models.context import CompiledContext
from tract_jupyter.models.plain_views import commit_text
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.rendering import text_of
from tract_jupyter.storage.entry import APPEND, EDIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from tract_jupyter.engine.compile import ReorderWarning
    from tract_jupyter.engine.tags import TagInfo
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.diff import DiffResult
    from tract_jupyter.storage.compiles import CompileRecord
    from tract_jupyter.storage.refs import Position


class Reading(Parts):
    """The part of `Tract` that reads."""

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
            CommitNotFoundError: `at_commit` or `order` names nothing.
            ContentError: `at_commit` and `at_time` are both given.
        """
        context = self._compiler.compile(
            at_commit=at_commit,
            at_time=at_time,
            include_reasoning=include_reasoning,
            include_edit_annotations=include_edit_annotations,
        )
        return context if order is None else self._compiler.reorder(context, order, check_safety=check_safety)

    def log(
        self,
        limit: int | None = 20,
        *,
        op_filter: str | None = None,
        tags: Collection[str] = (),
        tag_match: Literal["any", "all"] = "any",
        all_branches: bool = False,
    ) -> list[CommitInfo]:
        """The newest commits first.

        Args:
            limit: how many; None for all.
            op_filter: only `append`, `edit`, `annotate` or `merge`.
            tags: only those with these tags.
            tag_match: with any of them, or all.
            all_branches: of every branch; otherwise of the current one, by first parents.
        """
        return self._history.log(
            limit, operation=op_filter, tags=tags, match=tag_match, all_branches=all_branches
        )

    def status(self) -> StatusInfo:
        """Where the tract stands. Reads only."""
        here = self._refs.position
        return StatusInfo(
            tract_id=self.tract_id,
            location=self._database.location,
            branch=here.branch or "(detached)",
            head=here.commit_hash,
            commit_count=here.generation + 1,
            message_count=here.context_messages,
            token_count=here.context_tokens,
            token_source=self._token_source(here),
            operations=tuple(sorted(self.operations.registry.operation_names)),
            waiting=self.reviewer.ledger.count_waiting(),
            quarantined=tuple(sorted(self.operations.quarantined)),
            is_detached=here.branch is None,
            max_tokens=self._max_tokens(),
        )

    def _token_source(self, here: Position) -> str:
        """How the tokens at HEAD were counted; its history is looked at only if there was another counter, ever."""
        name = self._commits.counter.name
        if here.token_counter in {name, ""} and not self._was_counted_otherwise:
            return name
        with self._timelines.lock:
            return self._timelines.at(here.commit_hash).token_source

    @cached_property
    def _was_counted_otherwise(self) -> bool:
        with self._database.read() as connection:
            return self._rows.was_counted_otherwise(connection, self._commits.counter.name)

    def get_commit(self, name: str) -> CommitInfo:
        """One commit, by hash, prefix or branch."""
        return self._commits.get(name)

    def show(self, name: str) -> str:
        """One commit as text, as `git show` does it; `print` it."""
        info = self.get_commit(name)
        text = text_of(self.get_content(name)) if info.operation in {APPEND, EDIT} else ""
        return commit_text(info, text, self.get_tags(name))

    def get_content(self, name: str) -> dict[str, Any]:
        """What was committed, as its dict."""
        return self._commits.entry(name).content

    def get_contents(self, infos: Iterable[CommitInfo]) -> dict[str, dict[str, Any]]:
        """What several commits hold, by their hashes, in a few statements."""
        given = list(infos)
        with self._database.read() as connection:
            payloads = self._rows.blobs(connection, (info.content_hash for info in given))
        return {info.commit_hash: json.loads(payloads[info.content_hash]) for info in given}

    def diff(self, a: str | None = None, b: str | None = None) -> DiffResult:
        """How the context at one commit differs from that at another.

        Args:
            a: hash, prefix or branch; the parent of `b` if left out.
            b: the same; HEAD if left out.

        Raises:
            CommitNotFoundError: a name names nothing.
        """
        new = self._compiler.compile(at_commit=b)
        if a is None:
            parent = self._commits.entry(new.head).parent_hash if new.head else None
            old = (
                self._compiler.compile(at_commit=parent)
                if parent
                else CompiledContext.empty(new.token_source)
            )
        else:
            old = self._compiler.compile(at_commit=a)
        return diff_contexts(old, new)

    def get_metadata(self, name: str) -> dict[str, Any]:
        """The metadata of a commit."""
        return self._commits.entry(name).metadata

    def resolve_commit(self, name: str) -> str:
        """The full hash that a hash, prefix, branch, `HEAD` or `ORIG_HEAD` stands for."""
        return self._refs.resolve(name)

    def edit_history(self, name: str) -> list[CommitInfo]:
        """A message and its edits on the current branch, oldest first."""
        return self._history.versions(name)

    def pinned(self, limit: int = 100) -> list[CommitInfo]:
        """The newest pinned commits of the current branch."""
        return self._history.with_priority(Priority.PINNED, limit)

    def skipped(self, limit: int = 100) -> list[CommitInfo]:
        """The newest skipped commits of the current branch."""
        return self._history.with_priority(Priority.SKIP, limit)

    def annotation_counts(self) -> dict[str, int]:
        """How many messages of the current branch have each priority, by its name."""
        return self._history.priority_counts()

    def query_by_tags(
        self, tags: Collection[str], *, match: Literal["any", "all"] = "any", limit: int = 100
    ) -> list[CommitInfo]:
        """The newest commits of the current branch with any, or all, of these tags."""
        return self._history.with_tags(tags, match, limit)

    def query_by_text(self, text: str, *, limit: int = 100) -> list[CommitInfo]:
        """The newest messages of the current branch that contain a text, in any case."""
        return self._history.with_text(text, limit)

    def query_by_config(
        self,
        field: str = "",
        op: str = "=",
        value: Any = None,
        *,
        conditions: Sequence[tuple[str, str, Any]] = (),
        limit: int = 100,
    ) -> list[CommitInfo]:
        """The newest commits of the current branch whose generation config fits.

        Args:
            field: such as `model` or `temperature`.
            op: `=`, `!=`, `>`, `<`, `>=`, `<=`, `in`, `not in`, `between` or `not between`.
            value: what to compare with; a list for `in`, a pair for `between`.
            conditions: several (field, op, value), all of which must hold, instead.
            limit: how many.

        Raises:
            ContentError: an operator is unknown, or its value is of the wrong form.
        """
        wanted = list(conditions) or [(field, op, value)]
        for condition in wanted:
            check_condition(condition)
        return self._history.picked(
            limit, lambda entry: all(fits(entry.generation_config, c) for c in wanted)
        )

    def get_annotations(self, name: str) -> list[CommitInfo]:
        """The annotations of a commit on the current branch, oldest first; the last one counts."""
        return self._history.annotations(name)

    def get_tags(self, name: str) -> tuple[str, ...]:
        """All tags of a commit, sorted."""
        return self._tags.of(self._commits, name)

    def list_tags(self) -> list[TagInfo]:
        """Every tag that is registered or in use, by name, with its count."""
        return self._tags.list()

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
        """
        params: dict[str, Any] = {"include_reasoning": True} if include_reasoning else {}
        if include_edit_annotations:
            params["include_edit_annotations"] = True
        again = self._compiler.compile(at_commit=context.head, **params)
        if again.commit_hashes != context.commit_hashes:
            params["commits"] = list(context.commit_hashes)
        with self._database.write() as connection:
            return self._compiles.add(
                connection, context.head, context.token_count, len(context), context.token_source, params
            )

    def compile_records(self, limit: int = 100) -> list[CompileRecord]:
        """The contexts that were sent, newest first."""
        with self._database.read() as connection:
            return self._compiles.newest(connection, limit)

    def compile_record_commits(self, record_id: str) -> tuple[str, ...]:
        """The commits whose messages a recorded context had, in order.

        Raises:
            CommitNotFoundError: there is no such record.
        """
        with self._database.read() as connection:
            record = self._compiles.get(connection, record_id)
        if record is None:
            raise CommitNotFoundError(f"no compile record {record_id!r}; compile_records() lists them")
        if "commits" in record.params:
            return tuple(record.params["commits"])
        if record.head is None:
            return ()
        return self._compiler.compile(at_commit=record.head, **record.params).commit_hashes

    def verify(self) -> list[Damage]:
        """Compute every hash anew, follow every link, and count what branches hold again.

        Returns what is damaged: an empty list if all is well. Tags that were added, the reflog and events have no hash.
        """
        return verify(self._database, self._rows, self._ref_rows)
