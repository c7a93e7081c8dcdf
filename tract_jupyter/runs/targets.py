"""The targets of a run: the current branch of a tract, or memory for tests and replays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tract_jupyter.exceptions import CommitNotFoundError, RunError
from tract_jupyter.models import role_of
from tract_jupyter.runs.artifacts import MemoryArtifacts
from tract_jupyter.runs.commit_queue import CommitReport
from tract_jupyter.storage import EDIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.context import Repository
    from tract_jupyter.models import CommitInfo
    from tract_jupyter.runs.artifacts import ArtifactStore
    from tract_jupyter.runs.model import ArtifactView
    from tract_jupyter.runs.terms import Hook
    from tract_jupyter.storage import Entry


class CommitLog(Protocol):
    """Commit reports by run and hook, as JSON. Writes are part of the thread's open transaction."""

    def find(self, run_id: str, hook: str) -> dict[str, object] | None:
        """Return the report of a run's commit at a hook."""

    def add(self, run_id: str, hook: str, report: dict[str, object]) -> None:
        """Store the first report of this run and hook."""


class MemoryCommitLog:
    """Commit reports in memory."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], dict[str, object]] = {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all writes of a `with` block take effect, or none."""
        before = dict(self._reports)
        try:
            yield
        except BaseException:
            self._reports = before
            raise

    def find(self, run_id: str, hook: str) -> dict[str, object] | None:
        """Return the report of a run's commit at a hook."""
        return self._reports.get((run_id, hook))

    def add(self, run_id: str, hook: str, report: dict[str, object]) -> None:
        """Store the first report of this run and hook."""
        self._reports[run_id, hook] = report


class RunTarget(ABC):
    """The target of one run: the texts of its turn, the artifacts of its session, and its commit reports.

    A refused call may raise any exception, and has changed nothing.

    Args:
        run_id: the unique id of the run.
        session: the key of the persisted artifacts, see `session_key`; None if the run has no session.
        artifacts: the store of these artifacts; in memory by default.
        log: the commit reports; in memory by default.
    """

    def __init__(
        self,
        run_id: str,
        session: str | None = None,
        artifacts: ArtifactStore | None = None,
        log: CommitLog | None = None,
    ) -> None:
        self.session = session
        self._run_id = run_id
        self._artifacts = artifacts or MemoryArtifacts()
        self._log = log or MemoryCommitLog()

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make all calls of a `with` block take effect, or none."""

    @abstractmethod
    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:
        """Replace the text of the user's message, and return the part that holds the new text."""

    @abstractmethod
    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:
        """Replace the text of this turn's reply, and return the part that holds the new text."""

    def artifacts(self) -> Mapping[str, ArtifactView]:
        """Return the persisted artifacts by tag; empty without a session."""
        return {} if self.session is None else self._artifacts.load(self.session)

    def put_artifacts(self, artifacts: Sequence[ArtifactView]) -> None:
        """Store artifacts; each replaces the artifact with the same tag.

        Raises:
            RunError: the run has no session.
        """
        if self.session is None:
            raise RunError("Persisted artifacts need a session key. Run a profile, or make them run_only.")
        self._artifacts.put(self.session, artifacts)

    def committed(self, hook: Hook) -> CommitReport | None:
        """Return the report of this run's commit at this hook, if it has made one."""
        report = self._log.find(self._run_id, hook)
        return None if report is None else CommitReport.from_dict(report)

    def record(self, report: CommitReport) -> None:
        """Store the report. It prevents a second commit."""
        self._log.add(self._run_id, report.hook, report.form())

    def _in_memory(self) -> ExitStack:
        """Make all writes to memory take effect, or none. A database has its own transaction."""
        with ExitStack() as stack:
            for one in (self._artifacts, self._log):
                if isinstance(one, MemoryArtifacts | MemoryCommitLog):
                    stack.enter_context(one.transaction())
            return stack.pop_all()


class MemoryTarget(RunTarget):
    """Keeps the texts of one turn in memory; its parts are `user:1`, `reply:2`, and so on."""

    def __init__(self, *, session: str | None = None, artifacts: MemoryArtifacts | None = None) -> None:
        super().__init__("", session, artifacts)
        self._parts: dict[str, str] = {}

    @property
    def parts(self) -> Mapping[str, str]:
        """The written texts by part, the oldest first."""
        return dict(self._parts)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all writes of a `with` block take effect, or none."""
        before = dict(self._parts)
        try:
            with self._in_memory():
                yield
        except BaseException:
            self._parts = before
            raise

    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:  # noqa: ARG002 # the protocol's
        """Store a text of the user."""
        return self._store_part("user", text)

    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:  # noqa: ARG002 # the protocol's
        """Store a text of the reply."""
        return self._store_part("reply", text)

    def _store_part(self, kind: str, text: str) -> str:
        part = f"{kind}:{len(self._parts) + 1}"
        self._parts[part] = text
        return part


CANONICALIZATION = "canonicalization"
"""The tag of a text that an operation rewrote."""


class TractTarget(RunTarget):
    """Writes the turn of one run to the current branch of a tract.

    Args:
        repository: the history with the turn.
        run_id, session, artifacts, log: see `RunTarget`.
        is_new: True if the run has just begun, so it has no earlier commits.
        before: called first in each transaction. It stores the events together with the effects.
    """

    def __init__(
        self,
        repository: Repository,
        run_id: str,
        *,
        session: str | None = None,
        artifacts: ArtifactStore | None = None,
        log: CommitLog | None = None,
        is_new: bool = False,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(run_id, session, artifacts, log)
        self._repository = repository
        self._is_new = is_new
        self._before = before
        self.rewritten_reply: CommitInfo | None = None

    def committed(self, hook: Hook) -> CommitReport | None:
        """Return the report of this run's commit at this hook, if it has made one."""
        return None if self._is_new else super().committed(hook)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction of the store for commits, artifacts and the report."""
        # the batch comes first, because it takes the writer's lock before the store's
        with self._in_memory(), self._repository.writer.batch():
            self._before()
            yield

    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:
        """Edit the user's message of this turn, and return the hash of the edit.

        Raises:
            RunError: there is no message, or it belongs to another turn.
            TractError: see `Tract.commit`.
        """
        return self._rewrite(part, text, operation_id, "user")

    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:
        """Edit the reply of this turn, and return the hash of the edit.

        Raises:
            RunError: the reply is not committed, or belongs to another turn.
            TractError: see `Tract.commit`.
        """
        return self._rewrite(part, text, operation_id, "assistant")

    def _rewrite(
        self, part: str | None, text: str, operation_id: str, role: Literal["user", "assistant"]
    ) -> str:
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
        if role == "assistant":
            self.rewritten_reply = edit
        return edit.commit_hash

    def _checked(self, replaced: Entry, content: Mapping[str, Any], role: str) -> str:
        """Return the commit that an edit of `replaced` must name. An edit of an edit names the original.

        Raises:
            RunError: it belongs to another turn or role, or has no text.
        """
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
