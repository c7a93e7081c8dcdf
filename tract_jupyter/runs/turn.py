"""The turn of a run: its prompt, the user's message and the reply, its artifacts; and what it is written to."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import ChatResponse
from tract_jupyter.runs.activation import TurnSource
from tract_jupyter.runs.artifacts import Artifacts
from tract_jupyter.runs.projection import project
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.terms import Trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.models import CommitInfo, CompiledContext, Message
    from tract_jupyter.runs.commit_queue import CommitReport, Rewrite
    from tract_jupyter.runs.effect_types import UiInline
    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import ArtifactView, Run
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
        """Make a turn before its run."""
        user = prompt.user
        text = "" if user is None else user.content
        return cls(prompt, text, user_part, artifacts=artifacts or Artifacts())


def rewritten(turn: Turn, rewrite: Rewrite) -> Turn:
    """Return the turn with a text written anew. What was sent stays what was sent."""
    if rewrite.target == "user":
        return replace(turn, user_text=rewrite.after, user_part=rewrite.part)
    return replace(turn, reply=rewrite.after, reply_part=rewrite.part)


class TurnTarget(Protocol):
    """The target of one run's turn. A refused call raises any exception, and has changed nothing."""

    @property
    def session(self) -> str | None:
        """The key of the persisted artifacts; None if the run has no session."""

    def transaction(self) -> AbstractContextManager[object]:
        """Make all calls of a `with` block take effect, or none."""

    def committed(self, hook: Hook) -> CommitReport | None:
        """Return the report of what this run has committed at this hook already."""

    def record(self, report: CommitReport) -> None:
        """Keep the report, so that nothing is committed twice."""

    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:
        """Put a text in the place of the current user's message, and return the part that holds it."""

    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:
        """Put a text in the place of this turn's reply, and return the part that holds it."""

    def artifacts(self) -> Mapping[str, ArtifactView]:
        """Return the persisted artifacts as they stand; empty without a session."""

    def put_artifacts(self, artifacts: Sequence[ArtifactView]) -> None:
        """Persist artifacts in the place of those of the same tags."""


class CommitLog(Protocol):
    """The reports of commits, by run and hook, as JSON; part of the thread's open transaction."""

    def find(self, run_id: str, hook: str) -> dict[str, object] | None:
        """Return the report of a run's commit at a hook."""

    def add(self, run_id: str, hook: str, report: dict[str, object]) -> None:
        """Keep the report; there is none yet."""


class RunSetup(NamedTuple):
    """The start of a run.

    Attributes:
        prompt: what would be sent without operations.
        turn_id: the commit of the current user's message; None if there is none.
        user_commit: the version of it that the run starts from: that commit, or an edit of it.
        replaces: the commit of the reply that gets another variant, of `regenerate`.
        source: whether the user has said something new.
    """

    prompt: Prompt
    turn_id: str | None
    user_commit: str | None
    replaces: str | None
    source: TurnSource


def run_setup(context: CompiledContext, trigger: Trigger) -> RunSetup:
    """Read the turn from the compiled context.

    Raises:
        ContentError: there is no reply to make another variant of.
    """
    messages, replaces = context.messages, None
    if trigger is Trigger.REGENERATE:
        if not messages or messages[-1].role != "assistant":
            last = f"ends with a message of the {messages[-1].role}" if messages else "is empty"
            raise ContentError(
                f"there is no reply to make another variant of: the context {last}; generate() makes the first one"
            )
        messages, replaces = messages[:-1], messages[-1].commit_hash
    user = next((one for one in reversed(messages) if one.role == "user"), None)
    prompt = Prompt.of_context(replace(context, messages=messages))
    turn_id = None if user is None else user.commit_hash
    return RunSetup(prompt, turn_id, turn_id, replaces, _source(messages, trigger))


def original(versions: Sequence[CommitInfo], operations: Collection[str]) -> CommitInfo:
    """Return the version of the user's message that operations start from: none rewrites its own rewriting.

    Args:
        versions: of the message, the oldest first.
        operations: the ids of those that may run: what they made of it before does not count.
    """
    person = max((place for place, one in enumerate(versions) if not one.metadata.get("run_id")), default=0)
    for place in range(person + 1, len(versions)):
        if versions[place].metadata.get("operation_id") in operations:
            return versions[place - 1]
    return versions[-1]


def started_from(setup: RunSetup, version: CommitInfo, text: str) -> RunSetup:
    """Return the same turn with another version of the user's message."""
    return setup._replace(prompt=setup.prompt.with_user(text), user_commit=version.commit_hash)


def _source(messages: Sequence[Message], trigger: Trigger) -> TurnSource:
    if trigger is Trigger.REGENERATE:
        return TurnSource.REGENERATE
    is_new = bool(messages) and messages[-1].role == "user"
    return TurnSource.USER_MESSAGE if is_new else TurnSource.CONTINUE


@dataclass(frozen=True)
class RunResponse(ChatResponse):
    """A reply, committed, and the run that it came of, if there was one. Operations have changed what they change.

    Attributes:
        events: of the run; empty if the turn was a plain call of the model.
    """

    events: tuple[RunEvent, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, response: ChatResponse) -> RunResponse:
        """Return a response as it is, or one of a plain call without a run."""
        if isinstance(response, cls):
            return response
        return cls(**{one.name: getattr(response, one.name) for one in fields(response)})

    @cached_property
    def run(self) -> Run | None:
        """The run, whose status tells whether an operation after the reply failed; None without a run."""
        return project(self.events) if self.events else None

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, run={self.run!r})"

    def __str__(self) -> str:
        return self.text
