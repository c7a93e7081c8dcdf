"""Reading the context and its history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from tract_jupyter.engine.config_query import check_condition, fits
from tract_jupyter.engine.verify import Damage, verify
from tract_jupyter.exceptions import CommitNotFoundError, ContentError
from tract_jupyter.facade.parts import Parts
from tract_jupyter.history.diff import diff_contexts
from tract_jupyter.models.checks import check_limit, check_text, several
from tract_jupyter.models.commit import CommitInfo, StatusInfo
from tract_jupyter.models.context import CompiledContext
from tract_jupyter.models.plain_views import commit_text
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.rendering import text_of
from tract_jupyter.models.text import brief_repr
from tract_jupyter.storage.entry import APPEND, EDIT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.engine.compile import ReorderWarning
    from tract_jupyter.engine.tags import TagInfo
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
            CommitNotFoundError: `at_commit` or a name of `order` names nothing.
            ContentError: `at_commit` and `at_time` are both given, the time is none, or `order` is no list.
        """
        if not (at_time is None or isinstance(at_time, datetime)):
            raise ContentError(f"at_time is a datetime, such as datetime.now(UTC), not {brief_repr(at_time)}")
        names = None if order is None else _names(order)
        context = self._compiler.compile(
            at_commit=at_commit,
            at_time=at_time,
            include_reasoning=include_reasoning,
            include_edit_annotations=include_edit_annotations,
        )
        return context if names is None else self._compiler.reorder(context, names, check_safety=check_safety)

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

        Raises:
            ContentError: there is no such operation, or another argument is not valid.
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
        """One commit, by hash, prefix or branch.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
        return self._commits.get(name)

    def show(self, name: str) -> str:
        """One commit as text, as `git show` does it; `print` it.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
        info = self.get_commit(name)
        text = text_of(self.get_content(name)) if info.operation in {APPEND, EDIT} else ""
        return commit_text(info, text, self.get_tags(name))

    def get_content(self, name: str) -> dict[str, Any]:
        """What was committed, as its dict.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
        return self._commits.entry(name).content

    def get_contents(self, infos: Iterable[CommitInfo]) -> dict[str, dict[str, Any]]:
        """What several commits hold, by their hashes, in a few statements.

        Raises:
            ContentError: these are no commits.
            StoreCorruptError: what one of them holds is not in the store.
        """
        given = _infos(infos)
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
        """The metadata of a commit.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
        return self._commits.entry(name).metadata

    def resolve_commit(self, name: str) -> str:
        """The full hash that a hash, prefix, branch, `HEAD` or `ORIG_HEAD` stands for.

        Raises:
            CommitNotFoundError: `name` names nothing.
            AmbiguousPrefixError: several commits begin so.
        """
        return self._refs.resolve(name)

    def edit_history(self, name: str) -> list[CommitInfo]:
        """A message and its edits on the current branch, oldest first.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
        return self._history.versions(name)

    def pinned(self, limit: int = 100) -> list[CommitInfo]:
        """The newest pinned commits of the current branch.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self._history.with_priority(Priority.PINNED, limit)

    def skipped(self, limit: int = 100) -> list[CommitInfo]:
        """The newest skipped commits of the current branch.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self._history.with_priority(Priority.SKIP, limit)

    def annotation_counts(self) -> dict[str, int]:
        """How many messages of the current branch have each priority, by its name."""
        return self._history.priority_counts()

    def query_by_tags(
        self, tags: Collection[str], *, match: Literal["any", "all"] = "any", limit: int = 100
    ) -> list[CommitInfo]:
        """The newest commits of the current branch with any, or all, of these tags.

        Raises:
            ContentError: the tags are no texts, or another argument is not valid.
        """
        return self._history.with_tags(tags, match, limit)

    def query_by_text(self, text: str, *, limit: int = 100) -> list[CommitInfo]:
        """The newest messages of the current branch that contain a text, in any case.

        Raises:
            ContentError: the text is none, or the limit no whole number.
        """
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
            ContentError: a condition is none, its operator is unknown, or its value is of the wrong form; or the limit
                is no whole number.
        """
        if not isinstance(conditions, list | tuple):
            raise ContentError(
                f"conditions is a list of (field, operator, value), not {brief_repr(conditions)}"
            )
        wanted = list(conditions) or [(field, op, value)]
        for condition in wanted:
            check_condition(condition)
        return self._history.picked(
            limit, lambda entry: all(fits(entry.generation_config, c) for c in wanted)
        )

    def get_annotations(self, name: str) -> list[CommitInfo]:
        """The annotations of a commit on the current branch, oldest first; the last one counts.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
        return self._history.annotations(name)

    def get_tags(self, name: str) -> tuple[str, ...]:
        """All tags of a commit, sorted.

        Raises:
            CommitNotFoundError: `name` names nothing.
        """
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

        Raises:
            ContentError: it is no context.
            CommitNotFoundError: it is of another store, or its commits were removed.
        """
        if not isinstance(context, CompiledContext):
            raise ContentError(f"a context is what compile() returns, not {brief_repr(context)}")
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
        """The contexts that were sent, newest first.

        Raises:
            ContentError: the limit is no whole number.
        """
        limit = check_limit(limit)
        with self._database.read() as connection:
            return self._compiles.newest(connection, limit)

    def compile_record_commits(self, record_id: str) -> tuple[str, ...]:
        """The commits whose messages a recorded context had, in order.

        Raises:
            ContentError: the id is no text.
            CommitNotFoundError: there is no such record.
        """
        check_text(record_id, "record_id")
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


def _names(order: object) -> list[str]:
    names = several(order, "order")
    for name in names:
        if not isinstance(name, str):
            hint = "; give its commit_hash" if isinstance(name, CommitInfo) else ""
            raise CommitNotFoundError(f"no commit is called {brief_repr(name)}: order takes names{hint}")
    return names


def _infos(given: object) -> list[CommitInfo]:
    infos: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for info in infos:
        if not isinstance(info, CommitInfo):
            raise ContentError(f"get_contents takes commits, as log() gives them, not {brief_repr(info)}")
    return infos
