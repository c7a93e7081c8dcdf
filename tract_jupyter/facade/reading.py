"""Reading commits, and where the tract stands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.context.diff import diff_contexts
from tract_jupyter.context.verify import Damage, verify
from tract_jupyter.exceptions import ContentError, StoreError
from tract_jupyter.facade.parts import Parts
from tract_jupyter.models.commit import CommitInfo, StatusInfo
from tract_jupyter.models.content import text_of
from tract_jupyter.models.context import CompiledContext, commit_text
from tract_jupyter.models.text import brief_repr
from tract_jupyter.storage.entry import APPEND, EDIT
from tract_jupyter.storage.journal import RunEventRows
from tract_jupyter.storage.runs import RunCommitRows

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.models.diff import DiffResult
    from tract_jupyter.protocols import TokenCounter


class Reading(Parts):
    """The part of `Tract` that reads commits."""

    @property
    def tokenizer(self) -> TokenCounter:
        """What counts the tokens of this tract; `corrected` corrects what it estimates."""
        return self._commits.counter

    def corrected(self, tokens: int) -> int:
        """A count of the tokenizer; an estimate is corrected by what a provider has counted here."""
        return self._corrections.tokens(tokens, self._commits.counter.name)

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
        source = self._history.token_source(here)
        return StatusInfo(
            tract_id=self.tract_id,
            location=self._database.location,
            branch=here.branch or "(detached)",
            head=here.commit_hash,
            commit_count=here.generation + 1,
            message_count=here.context_messages,
            token_count=self._corrections.tokens(here.context_tokens, source),
            token_source=source,
            corrected_by=self._corrections.of(source),
            operations=tuple(sorted(self.operations.registry.operation_names)),
            waiting=self.reviewer.ledger.count_waiting(),
            quarantined=tuple(sorted(self.operations.quarantined)),
            quarantined_handlers=tuple(sorted(map("/".join, self.handlers.quarantined))),
            is_detached=here.branch is None,
            max_tokens=self._max_tokens(),
        )

    def get_commit(self, commit_hash: str) -> CommitInfo:
        """One commit, by hash, prefix or branch.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._commits.get(commit_hash)

    def show(self, commit_hash: str) -> str:
        """One commit as text, as `git show` does it; `print` it.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        info = self.get_commit(commit_hash)
        text = text_of(self.get_content(commit_hash)) if info.operation in {APPEND, EDIT} else ""
        return commit_text(info, text, self._tags.of(self._commits, commit_hash))

    def get_content(self, commit_hash: str) -> dict[str, Any]:
        """What was committed, as its dict.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._commits.entry(commit_hash).content

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

    def diff(self, commit_a: str | None = None, commit_b: str | None = None) -> DiffResult:
        """How the context at one commit differs from that at another.

        Args:
            commit_a: hash, prefix or branch; the parent of `commit_b` if left out.
            commit_b: the same; HEAD if left out.

        Raises:
            CommitNotFoundError: a name names nothing.
        """
        new = self._compiler.compile(at_commit=commit_b)
        if commit_a is None:
            parent = self._commits.entry(new.head).parent_hash if new.head else None
            old = (
                self._compiler.compile(at_commit=parent)
                if parent
                else CompiledContext.empty(new.token_source)
            )
        else:
            old = self._compiler.compile(at_commit=commit_a)
        return diff_contexts(old, new)

    def get_metadata(self, commit_hash: str) -> dict[str, Any]:
        """The metadata of a commit.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._commits.entry(commit_hash).metadata

    def resolve_commit(self, name: str) -> str:
        """The full hash that a hash, prefix, branch, `HEAD` or `ORIG_HEAD` stands for.

        Raises:
            CommitNotFoundError: `name` names nothing.
            AmbiguousPrefixError: several commits begin so.
        """
        return self._refs.resolve(name)

    def edit_history(self, commit_hash: str) -> list[CommitInfo]:
        """A message and its edits on the current branch, oldest first.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._history.versions(commit_hash)

    def get_annotations(self, commit_hash: str) -> list[CommitInfo]:
        """The annotations of a commit on the current branch, oldest first; the last one counts.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._history.annotations(commit_hash)

    def verify(self) -> list[Damage]:
        """Compute every hash anew, those of runs too, follow every link, and count what branches hold again.

        Of an SQLite file every page is checked, and whether each value can be read, and what is in it that this package
        did not make is told: triggers, views, tables, indexes.

        Returns:
            What is damaged: an empty list if all is well. Tags that were added, the reflog and events have no hash.
        """
        from tract_jupyter.runs.root_hash import verify_runs  # what a run is made of takes long to import

        events, reports = RunEventRows(self.tract_id), RunCommitRows(self.tract_id)
        found = verify(self._database, self._rows, self._ref_rows)
        try:
            return found + verify_runs(self._database, events, reports, self._rows)
        except StoreError as error:
            if not found:
                raise
            return [*found, Damage(self._database.location, str(error))]  # what could be read is told


def _infos(given: object) -> list[CommitInfo]:
    infos: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for info in infos:
        if not isinstance(info, CommitInfo):
            raise ContentError(f"get_contents takes commits, as log() gives them, not {brief_repr(info)}")
    return infos
