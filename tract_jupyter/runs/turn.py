"""The turn of a run: its prompt, the user's message, the reply and the artifacts.

Only `ContextBuilder` selects the data that an operation sees. Concurrent operations do not see each other's effects.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import ChatResponse
from tract_jupyter.runs.activation import TurnSource, value_of
from tract_jupyter.runs.artifacts import Artifacts, own
from tract_jupyter.runs.effect_types import (
    PROMPT_EFFECTS,
    ArtifactUpsert,
    AssistantReplaceText,
    UserReplaceText,
)
from tract_jupyter.runs.effects import allowed_effects
from tract_jupyter.runs.model import RunMessage
from tract_jupyter.runs.projection import project
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.schedule import ready_order
from tract_jupyter.runs.terms import Hook, Role, RunTrigger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tract_jupyter.models import CommitInfo, CompiledContext, Message
    from tract_jupyter.runs.commit_queue import Rewrite
    from tract_jupyter.runs.effect_types import Effect, UiInline
    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import ArtifactView, Operation, OperationContext, OperationResult, Run
    from tract_jupyter.runs.plan import PhasePlan


@dataclass(frozen=True)
class Turn:
    """The current state of a turn. Immutable: each commit makes a new one.

    Attributes:
        prompt: the prompt to send; after the main call, the sent prompt.
        user_text, user_part: the user's message, and its part in the target: a commit hash.
        reply, reply_part: the reply and its part; None before the main call.
        artifacts: the artifacts that operations read.
        notes: notes for readers, each with its operation (X05).
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
        """Make the turn at the start of a run."""
        user = prompt.user
        text = "" if user is None else user.content
        return cls(prompt, text, user_part, artifacts=artifacts or Artifacts())


def rewritten(turn: Turn, rewrite: Rewrite) -> Turn:
    """Return the turn with a rewritten text. The sent prompt does not change."""
    if rewrite.target == "user":
        return replace(turn, user_text=rewrite.after, user_part=rewrite.part)
    return replace(turn, reply=rewrite.after, reply_part=rewrite.part)


class RunSetup(NamedTuple):
    """The start of a run.

    Attributes:
        prompt: the prompt without operations.
        turn_id: the commit of the current user's message; None if there is none.
        user_commit: the version of this message that the run starts from: the commit or an edit of it.
        replaces: for `regenerate`: the commit of the reply that gets another variant.
        source: the cause of the run, for the counters.
    """

    prompt: Prompt
    turn_id: str | None
    user_commit: str | None
    replaces: str | None
    source: TurnSource


def run_setup(context: CompiledContext, trigger: RunTrigger) -> RunSetup:
    """Read the turn from the compiled context.

    Raises:
        ContentError: `regenerate`, but the context does not end with a reply.
    """
    messages, replaces = context.messages, None
    if trigger is RunTrigger.REGENERATE:
        if not messages or messages[-1].role != "assistant":
            last = f"ends with a message of the {messages[-1].role}" if messages else "is empty"
            raise ContentError(
                f"There is no reply to regenerate: the context {last}. generate() makes the first one."
            )
        messages, replaces = messages[:-1], messages[-1].commit_hash
    user = next((one for one in reversed(messages) if one.role == "user"), None)
    prompt = Prompt.of_context(replace(context, messages=messages))
    turn_id = None if user is None else user.commit_hash
    return RunSetup(prompt, turn_id, turn_id, replaces, _source(messages, trigger))


def original(versions: Sequence[CommitInfo], operations: Collection[str]) -> CommitInfo:
    """Return the version of the user's message that operations start from.

    An operation never rewrites its own rewrite.

    Args:
        versions: the versions of the message, the oldest first.
        operations: the ids of operations that may run; their earlier rewrites are ignored.
    """
    newest_by_user = max(
        (place for place, one in enumerate(versions) if not one.metadata.get("run_id")), default=0
    )
    for place in range(newest_by_user + 1, len(versions)):
        if versions[place].metadata.get("operation_id") in operations:
            return versions[place - 1]
    return versions[-1]


def started_from(setup: RunSetup, version: CommitInfo, text: str) -> RunSetup:
    """Return the same turn with another version of the user's message."""
    return setup._replace(prompt=setup.prompt.with_user(text), user_commit=version.commit_hash)


def _source(messages: Sequence[Message], trigger: RunTrigger) -> TurnSource:
    if trigger is RunTrigger.REGENERATE:
        return TurnSource.REGENERATE
    is_new = bool(messages) and messages[-1].role == "user"
    return TurnSource.USER_MESSAGE if is_new else TurnSource.CONTINUE


@dataclass(frozen=True)
class RunResponse(ChatResponse):
    """A committed reply and its run, if there was one. All effects of operations are applied.

    Attributes:
        events: the events of the run; empty for a plain call of the model.
    """

    events: tuple[RunEvent, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, response: ChatResponse) -> RunResponse:
        """Return the response as a `RunResponse`."""
        if isinstance(response, cls):
            return response
        return cls(**{one.name: getattr(response, one.name) for one in fields(response)})

    @cached_property
    def run(self) -> Run | None:
        """The run; None without one. Its status shows if an operation after the reply failed."""
        return project(self.events) if self.events else None

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, run={self.run!r})"

    def __str__(self) -> str:
        return self.text


REPLY_KEY = "reply"
"""The key of the reply among the messages after the main call."""


class ContextBuilder:
    """Makes the contexts of a plan's operations.

    Args:
        plan: the plan of the hook.
        base: the part that all contexts share: the run's ids, seed, clock and variables.
        turn: the turn at the start of the hook.
    """

    def __init__(self, plan: PhasePlan, base: OperationContext, turn: Turn) -> None:
        self._plan = plan
        self._turn = turn
        self._shown = turn.artifacts.shown
        self._hook = plan.hook
        self._allowed = allowed_effects(plan.hook)
        self._base = base.model_copy(
            update={
                "hook": plan.hook,
                "trigger": plan.trigger,
                "allowed_effects": self._allowed,
            }
        )

    @cached_property
    def _place(self) -> dict[str, int]:
        nodes = [(key, one.config.order, one.config.depends_on) for key, one in self._plan.by_id.items()]
        return {key: place for place, key in enumerate(ready_order(nodes)[0])}

    def context(
        self, operation: Operation, dependencies: Mapping[str, OperationResult], *, is_shared: bool = False
    ) -> OperationContext:
        """Return the context of one operation, with the results of its direct dependencies (R29 to R34).

        Effects of dependencies are applied in commit order, so the operation sees the values that will be committed.
        Mutable values are copies, so an operation cannot change the context of another one. With `is_shared`, messages
        and artifacts are not copied: built-in kinds do not change them.
        """
        done: list[str] = []
        effects: list[tuple[str, Effect]] = []
        prompt = self._turn.prompt
        if dependencies:
            done = sorted((key for key, one in dependencies.items() if one.is_done), key=self._position)
            effects = [
                (key, effect)
                for key in done
                for effect in dependencies[key].effects
                if effect.type in self._allowed  # other effects are never committed
            ]
            prompt = prompt.apply_all([(key, one) for key, one in effects if isinstance(one, _ON_PROMPT)])
        messages = prompt.messages if is_shared else tuple(map(_own, prompt.messages))
        reply = self._reply(effects)
        return self._base.model_copy(
            update={
                "operation_id": operation.id,
                "messages": messages if reply is None else (*messages, _as_message(reply)),
                "user_key": prompt.user_key,
                "reply": reply,
                "artifacts": self._artifacts(effects, is_shared=is_shared),
                "by_operation": {key: own(value_of(dependencies[key])) for key in done},
                "variables": own(self._base.variables) if self._base.variables else {},
            }
        )

    def _position(self, key: str) -> tuple[int, str]:
        return self._place.get(key, len(self._place)), key

    def _reply(self, effects: Iterable[tuple[str, Effect]]) -> str | None:
        if self._hook is Hook.BEFORE:
            return None
        texts = [one.text for _, one in effects if isinstance(one, AssistantReplaceText)]
        return texts[-1] if texts else self._turn.reply

    def _artifacts(
        self, effects: Iterable[tuple[str, Effect]], *, is_shared: bool
    ) -> dict[str, ArtifactView]:
        """Return the artifacts by tag. Artifacts of dependencies are also there by their artifact id, if any (X09)."""
        writes = [(key, one) for key, one in effects if isinstance(one, ArtifactUpsert)]
        if is_shared and not writes:
            return self._shown
        artifacts = self._turn.artifacts.upsert(one for _, one in writes)
        view = artifacts.shown if is_shared else artifacts.view
        named = {}
        for key, one in writes:
            artifact = self._plan.by_id[key].config.artifact if key in self._plan.by_id else None
            if artifact is not None and artifact.artifact_id is not None:
                named[artifact.artifact_id] = view[one.tag]
        return {**named, **view} if named else view


def _as_message(reply: str) -> RunMessage:
    return RunMessage(role=Role.ASSISTANT, content=reply, key=REPLY_KEY)


_ON_PROMPT: Final = (*PROMPT_EFFECTS, UserReplaceText)


def _own(message: RunMessage) -> RunMessage:
    copy = message.__copy__()
    copy.__dict__["extra"] = own(message.extra)
    return copy
