"""The targets of a run: the current branch of a tract, or memory for tests and replays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CommitNotFoundError, RunError
from tract_jupyter.models import role_of
from tract_jupyter.runs.commit_queue import CommitReport
from tract_jupyter.runs.terms import RunPhase
from tract_jupyter.storage import EDIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from tract_jupyter.context import Repository
    from tract_jupyter.models import CommitInfo
    from tract_jupyter.runs.commit_queue import RewriteTarget
    from tract_jupyter.runs.model import ArtifactView
    from tract_jupyter.runs.store import SqlCommitLog, TurnStates
    from tract_jupyter.runs.terms import Hook
    from tract_jupyter.storage import Entry


class RunTarget(ABC):
    """The target of one run: the texts of its turn, the artifacts of its session, and its commit reports.

    A refused call may raise any exception, and has changed nothing.

    Args:
        session: the key of the persisted artifacts, see `session_key`; None if the run has no session.
    """

    def __init__(self, session: str | None = None) -> None:
        self.session = session

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make all calls of a `with` block take effect, or none."""

    @abstractmethod
    def rewrite(self, target: RewriteTarget, part: str | None, text: str, operation_id: str) -> str:
        """Replace the text of the user's message or of the reply, and return the part that holds the new text."""

    @abstractmethod
    def artifacts(self) -> Mapping[str, ArtifactView]:
        """Return the persisted artifacts by tag; empty without a session."""

    @abstractmethod
    def put_artifacts(self, artifacts: Sequence[ArtifactView]) -> None:
        """Store artifacts; each replaces the artifact with the same tag.

        Raises:
            RunError: the run has no session.
        """

    @abstractmethod
    def committed(self, hook: Hook) -> CommitReport | None:
        """Return the report of this run's commit at this hook, if it has made one."""

    @abstractmethod
    def record(self, report: CommitReport) -> None:
        """Store the report. It prevents a second commit."""

    def _check_session(self) -> None:
        if self.session is None:
            raise RunError("Persisted artifacts need a session key. Run a profile, or make them run_only.")


class MemoryTarget(RunTarget):
    """Keeps one run in memory; the parts of its turn are `user:1`, `reply:2`, and so on.

    Args:
        session: see `RunTarget`.
        artifacts: the persisted artifacts at the start.
    """

    def __init__(self, *, session: str | None = None, artifacts: Iterable[ArtifactView] = ()) -> None:
        super().__init__(session)
        self._parts: dict[str, str] = {}
        self._reports: dict[str, dict[str, Any]] = {}
        self._artifacts = {one.tag: one for one in artifacts}

    @property
    def parts(self) -> Mapping[str, str]:
        """The written texts by part, the oldest first."""
        return dict(self._parts)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all writes of a `with` block take effect, or none."""
        before = dict(self._parts), dict(self._reports), dict(self._artifacts)
        try:
            yield
        except BaseException:
            self._parts, self._reports, self._artifacts = before
            raise

    def rewrite(self, target: RewriteTarget, part: str | None, text: str, operation_id: str) -> str:  # noqa: ARG002
        """Store a text."""
        part = f"{target}:{len(self._parts) + 1}"
        self._parts[part] = text
        return part

    def artifacts(self) -> Mapping[str, ArtifactView]:
        """Return the persisted artifacts by tag; empty without a session."""
        return {} if self.session is None else dict(self._artifacts)

    def put_artifacts(self, artifacts: Sequence[ArtifactView]) -> None:
        """Store artifacts; each replaces the artifact with the same tag."""
        self._check_session()
        self._artifacts |= {one.tag: one for one in artifacts}

    def committed(self, hook: Hook) -> CommitReport | None:
        """Return the report of this run's commit at this hook, if it has made one."""
        return None if hook not in self._reports else CommitReport.from_dict(self._reports[hook])

    def record(self, report: CommitReport) -> None:
        """Store the report. It prevents a second commit."""
        self._reports[report.hook] = report.form()


CANONICALIZATION = "canonicalization"
"""The tag of a text that an operation rewrote."""


class TractTarget(RunTarget):
    """Writes the turn of one run to the current branch of a tract.

    Before the reply is committed, persisted artifacts are kept here: a turn without a reply changes none.

    Args:
        repository: the history with the turn.
        run_id: the unique id of the run.
        reports: the commit reports of the tract's runs.
        states: the persisted artifacts of the tract.
        session: see `RunTarget`.
        base: the artifacts at the start of the run.
        is_new: True if the run has just begun, so it has no earlier commits.
        before: called first in each transaction. It stores the events together with the effects.
    """

    def __init__(
        self,
        repository: Repository,
        run_id: str,
        reports: SqlCommitLog,
        states: TurnStates,
        *,
        session: str | None = None,
        base: Mapping[str, ArtifactView] | None = None,
        is_new: bool = False,
        before: Callable[[Connection], object] = lambda _: None,
    ) -> None:
        super().__init__(session)
        self._repository = repository
        self._run_id = run_id
        self._reports = reports
        self._states = states
        self._kept = dict(base or {})
        self._is_new = is_new
        self._before = before
        self.rewritten_reply: CommitInfo | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction of the store for commits, artifacts and the report."""
        kept = dict(self._kept)
        try:
            # the batch comes first, because it takes the writer's lock before the store's
            with self._repository.writer.batch() as self._connection:
                self._before(self._connection)
                yield
        except BaseException:
            self._kept = kept
            raise

    def artifacts(self) -> Mapping[str, ArtifactView]:
        """Return the persisted artifacts by tag; empty without a session."""
        if self.session is None:
            return {}
        return self._states.load(self.session) if self._is_answered() else dict(self._kept)

    def put_artifacts(self, artifacts: Sequence[ArtifactView]) -> None:
        """Store artifacts; each replaces the artifact with the same tag."""
        self._check_session()
        if self._is_answered():
            self._states.remember(self.session, artifacts)
        else:
            self._kept |= {one.tag: one for one in artifacts}

    def committed(self, hook: Hook) -> CommitReport | None:
        """Return the report of this run's commit at this hook, if it has made one."""
        report = None if self._is_new else self._reports.find(self._run_id, hook)
        return None if report is None else CommitReport.from_dict(report)

    def record(self, report: CommitReport) -> None:
        """Store the report. It prevents a second commit."""
        self._reports.add(self._connection, self._run_id, report.hook, report.form())

    def _is_answered(self) -> bool:
        return self._reports.find(self._run_id, RunPhase.MAIN_LLM) is not None

    def rewrite(self, target: RewriteTarget, part: str | None, text: str, operation_id: str) -> str:
        """Edit the user's message or the reply of this turn, and return the hash of the edit.

        Raises:
            RunError: there is no such message, it is not committed, or it belongs to another turn.
            TractError: see `Tract.commit`.
        """
        role = "user" if target == "user" else "assistant"
        if part is None:
            raise RunError(
                f"A target is required: this turn has no {role} commit to rewrite. "
                "Remove the effect from the operation, or run it only on turns with such a commit."
            )
        commits = self._repository.commits
        try:
            replaced = commits.entry(part)
        except CommitNotFoundError:
            raise RunError(f"The commit to rewrite, {part[:12]}, was not found in this tract.") from None
        content = replaced.content
        original = self._checked(replaced, content, role)
        metadata = {"source": "agent", "replaces": replaced.commit_hash, "run_id": self._run_id}
        edit = commits.edit(
            original,
            {**content, "text": text},
            metadata={**replaced.metadata, **metadata, "operation_id": operation_id},
            generation_config=replaced.generation_config or None,
            tags=tuple(dict.fromkeys((*replaced.tags, CANONICALIZATION))),
        )
        if target == "reply":
            self.rewritten_reply = edit
        return edit.commit_hash

    def _checked(self, replaced: Entry, content: Mapping[str, Any], role: str) -> str:
        """Return the commit that an edit of `replaced` must name. An edit of an edit names the original."""
        is_edit, short = replaced.operation == EDIT, replaced.commit_hash[:8]
        original = (replaced.edit_target if is_edit else None) or replaced.commit_hash
        if "text" not in content or role_of(content) != role:
            raise RunError(f"Target mismatch: {short} is not a text of the {role}.")
        repository = self._repository
        for commit, said_by in repository.timelines.newest(repository.writer.position.commit_hash):
            if commit == original:
                return original
            if said_by == "user":
                break
        raise RunError(
            f"Target mismatch: {short} is not in the current turn. A run can only rewrite its own turn."
        )
