"""A turn that is kept in this process alone: for runs without a tract."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tract_jupyter.runs.artifacts import MemoryArtifacts, SessionArtifacts
from tract_jupyter.runs.commit_report import CommitReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.runs.terms import Hook


class MemoryCommitLog:
    """Reports of this process alone."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], dict[str, object]] = {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep all that is added meanwhile, or nothing."""
        before = dict(self._reports)
        try:
            yield
        except BaseException:
            self._reports = before
            raise

    def find(self, run_id: str, hook: str) -> dict[str, object] | None:
        """The report of a run's commit at a hook."""
        return self._reports.get((run_id, hook))

    def add(self, run_id: str, hook: str, report: dict[str, object]) -> None:
        """Keep the report; there is none yet."""
        self._reports[run_id, hook] = report


class MemoryTarget(SessionArtifacts):
    """Keeps the texts of one run's turn; its parts are `user:1`, `reply:2`, and so on."""

    def __init__(self, *, session: str | None = None, artifacts: MemoryArtifacts | None = None) -> None:
        self._memory = artifacts or MemoryArtifacts()
        super().__init__(session, self._memory)
        self._log = MemoryCommitLog()
        self._parts: dict[str, str] = {}

    @property
    def parts(self) -> Mapping[str, str]:
        """The texts that were written, by part, the oldest first."""
        return dict(self._parts)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it takes effect, or nothing."""
        before = dict(self._parts)
        try:
            with ExitStack() as stack:
                stack.enter_context(self._log.transaction())
                stack.enter_context(self._memory.transaction())
                yield
        except BaseException:
            self._parts = before
            raise

    def committed(self, hook: Hook) -> CommitReport | None:
        """What this run committed at this hook already."""
        found = self._log.find("", hook)
        return None if found is None else CommitReport.from_dict(found)

    def record(self, report: CommitReport) -> None:
        """Keep the report, so that nothing is committed twice."""
        self._log.add("", report.hook, report.to_dict())

    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:  # noqa: ARG002 # the protocol's
        """Keep a text of the user."""
        return self._kept("user", text)

    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:  # noqa: ARG002 # the protocol's
        """Keep a text of the reply."""
        return self._kept("reply", text)

    def _kept(self, kind: str, text: str) -> str:
        part = f"{kind}:{len(self._parts) + 1}"
        self._parts[part] = text
        return part
