"""The data of runs: what operations are, what they are given, what comes back, and the log of it.

Sources: the seed's model (R16 to R40), activation and artifact exposures (X01, X04).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, field_validator

from tract_jupyter.models import Attachment
from tract_jupyter.runs.effect_types import EFFECT_LAYERS, ArtifactHistory, Effect, Tag
from tract_jupyter.runs.terms import (
    MAX_DEBUG,
    MAX_ERROR_TEXT,
    MAX_SNAPSHOT,
    ArtifactUsage,
    Blocked,
    Data,
    FailedType,
    Format,
    Hook,
    OperationStatus,
    Persistence,
    Role,
    RunPhase,
    RunStatus,
    RunTrigger,
    SkippedReason,
    Tagged,
    WriteMode,
)

OperationId = Annotated[str, Field(min_length=1, max_length=200)]
Anchor = Literal["after_last_user", "depth_from_end"]


# --- what an operation is


class PromptPart(Tagged):
    """The value becomes a part of the system message."""

    type: Literal["prompt_part"] = "prompt_part"
    target: Literal["system"] = "system"
    mode: Literal["prepend", "append", "replace"] = "append"
    source: str | None = None


class PromptMessage(Tagged):
    """The value becomes a message of the prompt."""

    type: Literal["prompt_message"] = "prompt_message"
    role: Role = Role.SYSTEM
    anchor: Anchor = "after_last_user"
    depth_from_end: int = 0
    source: str | None = None


class TurnRewrite(Tagged):
    """The value takes the place of the current user message, or of the reply."""

    type: Literal["turn_rewrite"] = "turn_rewrite"
    target: Literal["current_user_main", "assistant_output_main"]
    mode: Literal["replace"] = "replace"


class InlineNote(Tagged):
    """The value is shown beside the run, and never sent."""

    type: Literal["ui_inline"] = "ui_inline"
    role: Role = Role.SYSTEM
    anchor: Anchor = "after_last_user"
    depth_from_end: int = 0


Exposure = Annotated[PromptPart | PromptMessage | TurnRewrite | InlineNote, Field(discriminator="type")]


class ArtifactSpec(Data):
    """The one artifact that an operation writes, and what else its value becomes (X04)."""

    tag: Tag
    artifact_id: str | None = None
    title: str | None = None
    format: Format = Format.MARKDOWN
    persistence: Persistence = Persistence.RUN_ONLY
    write_mode: WriteMode = WriteMode.REPLACE
    history: ArtifactHistory = ArtifactHistory()
    semantics: Annotated[str, Field(min_length=1, max_length=64)] = "intermediate"
    usage: ArtifactUsage | None = None
    exposures: tuple[Exposure, ...] = ()


class RunCondition(Data):
    """The answer of a guard without which an operation does not run."""

    source: OperationId
    output: str
    is_: Annotated[bool, Field(alias="is")] = True


class Activation(Data):
    """The intervals at which an operation is due. Below one they count as absent; fractions are cut off (X01)."""

    every_n_turns: float | None = None
    every_n_context_tokens: float | None = None


class Retry(Data):
    """The attempts of an operation. `retry_on` holds error codes; none means timeouts and a provider's errors."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 1
    backoff_ms: Annotated[float, Field(ge=0, le=120_000)] = 0
    multiplier: Annotated[float, Field(ge=1, le=10)] = 1
    jitter: Annotated[float, Field(ge=0, le=1)] = 0
    retry_on: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)], ...] = ()


class Debug(Data):
    """The switch for keeping in the log what an operation leaves for debugging, such as its input (R28, R35)."""

    enabled: bool = False


class OperationDefinition(Data):
    """The definition of an operation (R16).

    Attributes:
        capabilities: what it may do: effects that it has no others than, and any words for whoever reads it.
    """

    operation_id: OperationId
    name: Annotated[str, Field(min_length=1, max_length=200)]
    kind: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = None
    capabilities: tuple[str, ...] = ()

    @property
    def declared_effects(self) -> tuple[str, ...]:
        """The capabilities that are about effects: types, or all of a layer such as `prompt`. None declared: any."""
        return tuple(one for one in self.capabilities if one.partition(".")[0] in EFFECT_LAYERS)

    def declares(self, effect_type: str) -> bool:
        """Return True if the operation may have effects of a type, as far as it says."""
        declared = self.declared_effects
        return not declared or effect_type in declared or effect_type.partition(".")[0] in declared


class OperationConfig(Data):
    """The settings of an operation: when and how it runs (R18 to R28).

    `params` is for the kind to read; it holds no secrets.
    """

    order: float
    enabled: bool = True
    required: bool = False
    hooks: tuple[Hook, ...] = (Hook.BEFORE,)
    triggers: tuple[RunTrigger, ...] = (RunTrigger.GENERATE, RunTrigger.REGENERATE)
    depends_on: tuple[OperationId, ...] = ()
    run_conditions: tuple[RunCondition, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)
    artifact: ArtifactSpec | None = None
    activation: Activation | None = None
    timeout_ms: Annotated[float, Field(gt=0, le=3_600_000)] | None = None
    retry: Retry = Retry()
    provider: str | None = None
    debug: Debug = Debug()

    @field_validator("hooks", "triggers", mode="after")
    @classmethod
    def _in_canonical_order(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(one for one in type(value[0]) if one in value) if value else value

    @field_validator("depends_on", mode="after")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value))


class Operation(Data):
    """An operation of a profile: what it is, and its configuration (R8)."""

    definition: OperationDefinition
    config: OperationConfig

    @property
    def id(self) -> str:
        """The operation's id."""
        return self.definition.operation_id

    def __repr__(self) -> str:
        config = self.config
        hooks = ", ".join(config.hooks)
        return f"<Operation {self.id!r}: {self.definition.kind}, order {config.order:.12g}, {hooks}>"


# --- what it is given


class MessagePiece(Data):
    """A part of a message's text, and the operation that it comes from; None if it was there before."""

    text: str
    label: str | None = None


class RunMessage(Data):
    """A message of the prompt.

    Attributes:
        key: its identity within the run.
        label: the operation that added it, or changed it last.
        pieces: where its text comes from, if not all of it from `label`; joined they are `content`.
        extra: what else a provider is sent of it: `name`, `tool_calls`, `tool_call_id`, `attachments`.
    """

    role: str
    content: str
    key: str | None = None
    label: str | None = None
    pieces: tuple[MessagePiece, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The attachments among `extra`."""
        return tuple(Attachment(**one) for one in self.extra.get("attachments") or ())


class ArtifactView(Data):
    """An artifact as operations read it: `art.<tag>`."""

    tag: str
    value: Any = None
    history: tuple[Any, ...] = ()
    persistence: Persistence = Persistence.RUN_ONLY
    format: Format = Format.MARKDOWN
    semantics: str = "intermediate"
    usage: ArtifactUsage = ArtifactUsage.INTERNAL
    write_mode: WriteMode = WriteMode.REPLACE


class OperationContext(Data):
    """All that an operation is given (R29 to R34): plain data, so that it can be sent to another process.

    Attributes:
        messages: the prompt as it stands for this operation; afterwards with the reply at its end.
        user_key: which message is the current user's.
        reply: the text of the main call, afterwards only.
        artifacts: by tag; a `run_only` one hides a persisted one.
        by_operation: the values of the direct dependencies, by operation.
        allowed_effects: the types of effects that its hook allows (R33).
        log_characters: of each summary and of what is left for debugging, as JSON; see `schedule.Limits`.
        snapshot_characters: of each text that is quoted in them: a reply, a rendered template.
        seed: for what is random; the same in each replay.
        now: the run's clock at its start, as ISO 8601.
        deadline: seconds since the epoch; the operation counts as too late after it.
        variables: more that templates may read: `user`, `char`, ...
    """

    run_id: str
    operation_id: OperationId
    trigger: RunTrigger
    hook: Hook
    tract_id: str = ""
    branch: str | None = None
    turn_id: str | None = None
    assistant_variant_id: str | None = None
    messages: tuple[RunMessage, ...] = ()
    user_key: str | None = None
    reply: str | None = None
    artifacts: dict[str, ArtifactView] = Field(default_factory=dict)
    by_operation: dict[str, Any] = Field(default_factory=dict)
    allowed_effects: tuple[str, ...] = ()
    log_characters: Annotated[int, Field(ge=0)] = MAX_DEBUG
    snapshot_characters: Annotated[int, Field(ge=0)] = MAX_SNAPSHOT
    seed: int = 0
    now: str = ""
    deadline: float | None = None
    variables: dict[str, Any] = Field(default_factory=dict)


# --- what comes back


class ResultError(Data):
    """The error of an operation; bounded, and safe to show (R54)."""

    code: Annotated[str, Field(min_length=1, max_length=64)]
    message: Annotated[str, Field(max_length=MAX_ERROR_TEXT)] = ""
    details: dict[str, Any] = Field(default_factory=dict)


class Skip(Data):
    """The reason why an operation did not run (R38, R39).

    Attributes:
        reason: one of `SkippedReason`, or an operation's own.
        dep: of `dependency_failed`: whether a dependency is missing or did not end as `done`.
        blocked_by: the dependencies that it was, sorted.
        blocked_by_reason: the reason that all of them share, such as `activation_not_reached`.
        condition: the first condition that does not hold, with the `actual` value.
        activation: the counters, of `activation_not_reached`.
    """

    reason: str
    dep: Blocked | None = None
    blocked_by: tuple[str, ...] = ()
    blocked_by_reason: str | None = None
    condition: dict[str, Any] | None = None
    activation: dict[str, Any] | None = None

    @classmethod
    def because(cls, reason: SkippedReason) -> Skip:
        """Without details."""
        return cls(reason=reason.value)


class OperationResult(Data):
    """The result of an operation (R35). Only `done` has effects; `waiting` names the pending to be decided.

    The summaries are for the log: bounded, without secrets (R56, R57).
    """

    operation_id: OperationId
    status: OperationStatus
    required: bool = False
    effects: tuple[Effect, ...] = ()
    error: ResultError | None = None
    skip: Skip | None = None
    waits_for: str | None = None
    debug: dict[str, Any] = Field(default_factory=dict)
    usage: dict[str, Any] = Field(default_factory=dict)
    inputs_summary: dict[str, Any] = Field(default_factory=dict)
    outputs_summary: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """True if its effects count, and its dependents may start."""
        return self.status is OperationStatus.DONE


class MainReply(Data):
    """The outcome of the main call.

    Attributes:
        text: of the reply; what came until then, if it was aborted.
        finish_reason: `completed`, `user_abort`, `deadline`, or the code of the error.
        usage: the tokens it took, as the provider counts them.
    """

    text: str = ""
    finish_reason: str = "completed"
    error: ResultError | None = None
    usage: dict[str, Any] = Field(default_factory=dict)


class OperationRun(Data):
    """The log of one operation in one run (R56). Times are seconds since the epoch; None if it never started."""

    operation_id: OperationId
    name: str = ""
    kind: str = ""
    hook: Hook
    trigger: RunTrigger
    status: OperationStatus
    required: bool = False
    order: float = 0
    depends_on: tuple[str, ...] = ()
    started_at: float | None = None
    finished_at: float | None = None
    duration_ms: float = 0
    attempts: int = 0
    skipped_reason: str | None = None
    skip: Skip | None = None
    error_code: str | None = None
    error_message: str | None = None
    inputs_summary: dict[str, Any] = Field(default_factory=dict)
    outputs_summary: dict[str, Any] = Field(default_factory=dict)
    debug: dict[str, Any] = Field(default_factory=dict)

    def __repr__(self) -> str:
        why = self.error_code or self.skipped_reason
        told = f"{self.status.value} ({why})" if why else self.status.value
        return f"<OperationRun {self.operation_id!r}: {told}, {self.kind}, {self.hook.value}, {self.duration_ms:g} ms>"


class RunNote(Data):
    """Something for whoever looks at the run, and never in a prompt (X05): an exposure, or an artifact for the person.

    Attributes:
        title: of the artifact; its tag if it has none, the operation's id without one.
        anchor, depth_from_end: the place in the conversation that it belongs to.
    """

    operation_id: str
    hook: Hook
    title: str
    text: str
    format: Format = Format.MARKDOWN
    role: Role = Role.SYSTEM
    anchor: Anchor = "after_last_user"
    depth_from_end: int = 0


class Run(Data):
    """One main call with its operations.

    Attributes:
        prompt: what was sent, each message with the operation that added or changed it.
        plain_prompt: what would have been sent without operations.
        user_commit, reply_commit: the commits of this turn, as they stand after it.
        phase: the one that it has come to.
        reports: what was committed, before and after the main call (E8).
        notes: what operations had to say to whoever looks at the run.
        root_hash: sha256 over all that a replay must give again.
    """

    run_id: str
    trigger: RunTrigger
    status: RunStatus
    failed_type: FailedType | None = None
    failed_details: dict[str, Any] = Field(default_factory=dict)
    profile: str | None = None
    branch: str | None = None
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    phase: RunPhase | None = None
    operations: tuple[OperationRun, ...] = ()
    reports: tuple[dict[str, Any], ...] = ()
    notes: tuple[RunNote, ...] = ()
    prompt: tuple[RunMessage, ...] = ()
    plain_prompt: tuple[RunMessage, ...] = ()
    reply: str | None = None
    user_commit: str | None = None
    reply_commit: str | None = None
    finish_reason: str | None = None
    root_hash: str | None = None

    def __repr__(self) -> str:
        why = f" ({self.failed_type.value})" if self.failed_type else ""
        done = sum(one.status is OperationStatus.DONE for one in self.operations)
        profile = f", profile {self.profile!r}" if self.profile is not None else ""
        of = f"{done} of {len(self.operations)} operations done"
        return f"<Run {self.run_id[:8]}: {self.status.value}{why}, {self.trigger.value}{profile}, {of}>"
