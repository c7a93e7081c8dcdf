"""The turn of a run: its prompt, the user's message and the reply, its artifacts; and what it is written to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from tract_jupyter.runs.artifacts import Artifacts
from tract_jupyter.runs.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.runs.commit_report import CommitReport, Rewrite
    from tract_jupyter.runs.effect_types import UiInline
    from tract_jupyter.runs.model import ArtifactView
    from tract_jupyter.runs.terms import Hook


@dataclass(frozen=True)
class Turn:
    """A turn as it stands. Immutable: a commit gives another one.

    Attributes:
        prompt: before the main call what will be sent, afterwards what was sent.
        user_text, user_part: the user's message as it stands, and what holds it in the target: a commit's hash.
        reply, reply_part: the same of the reply; None before there is one.
        artifacts: what operations read.
        notes: what is shown beside the run, each with its operation (X05).
    """

    prompt: Prompt = field(default_factory=Prompt)
    user_text: str = ""
    user_part: str | None = None
    reply: str | None = None
    reply_part: str | None = None
    artifacts: Artifacts = field(default_factory=Artifacts)
    notes: tuple[tuple[str, UiInline], ...] = ()

    @classmethod
    def of(cls, prompt: Prompt, *, user_part: str | None = None, artifacts: Artifacts | None = None) -> Turn:
        """A turn before its run."""
        text = prompt.user.content if prompt.user is not None else ""
        return cls(prompt, text, user_part, artifacts=artifacts or Artifacts())


def rewritten(turn: Turn, rewrite: Rewrite) -> Turn:
    """The turn with a text written anew. What was sent stays what was sent."""
    if rewrite.target == "user":
        return replace(turn, user_text=rewrite.after, user_part=rewrite.part)
    return replace(turn, reply=rewrite.after, reply_part=rewrite.part)


class TurnTarget(Protocol):
    """What the turn of one run is written to. A refused call raises any exception, and has changed nothing."""

    @property
    def session(self) -> str | None:
        """The key of the persisted artifacts; None if the run has no session."""

    def transaction(self) -> AbstractContextManager[object]:
        """All calls of a `with` block take effect, or none."""

    def committed(self, hook: Hook) -> CommitReport | None:
        """What this run committed at this hook already."""

    def record(self, report: CommitReport) -> None:
        """Keep the report, so that nothing is committed twice."""

    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:
        """Put a text in the place of the current user's message, and return the part that holds it."""

    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:
        """Put a text in the place of this turn's reply, and return the part that holds it."""

    def artifacts(self) -> Mapping[str, ArtifactView]:
        """The persisted artifacts as they stand; empty without a session."""

    def put_artifacts(self, artifacts: Sequence[ArtifactView]) -> None:
        """Persist artifacts in the place of those of the same tags."""


class CommitLog(Protocol):
    """Where the reports of commits are kept, by run and hook, as JSON."""

    def transaction(self) -> AbstractContextManager[object]:
        """Keep all that is added meanwhile, or nothing; it may be part of a larger one."""

    def find(self, run_id: str, hook: str) -> dict[str, object] | None:
        """The report of a run's commit at a hook."""

    def add(self, run_id: str, hook: str, report: dict[str, object]) -> None:
        """Keep the report; there is none yet."""
