"""The data of runs: operations, their contexts and results, and the log.

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
    tag,
)

OperationId = Annotated[str, Field(min_length=1, max_length=200)]
Anchor = Literal["after_last_user", "depth_from_end"]


# --- operations


class PromptPart(Tagged):
    """Adds the value to the system message."""

    type: Literal["prompt_part"] = tag("prompt_part")
    target: Literal["system"] = "system"
    mode: Literal["prepend", "append", "replace"] = "append"
    source: str | None = None


class PromptMessage(Tagged):
    """Adds the value to the prompt as a message."""

    type: Literal["prompt_message"] = tag("prompt_message")
    role: Role = Role.SYSTEM
    anchor: Anchor = "after_last_user"
    depth_from_end: int = 0
    source: str | None = None


class TurnRewrite(Tagged):
    """Replaces the current user message or the reply with the value."""

    type: Literal["turn_rewrite"] = tag("turn_rewrite")
    target: Literal["current_user_main", "assistant_output_main"]
    mode: Literal["replace"] = "replace"


class InlineNote(Tagged):
    """Shows the value with the run. It is never sent to a model."""

    type: Literal["ui_inline"] = tag("ui_inline")
    role: Role = Role.SYSTEM
    anchor: Anchor = "after_last_user"
    depth_from_end: int = 0


Exposure = Annotated[PromptPart | PromptMessage | TurnRewrite | InlineNote, Field(discriminator="type")]


class ArtifactSpec(Data):
    """The artifact that an operation writes, and the other uses of its value (X04)."""

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
    """A guard's answer that an operation requires."""

    source: OperationId
    output: str
    is_: Annotated[bool, Field(alias="is")] = True


class Activation(Data):
    """The intervals at which an operation is due. Values below 1 are ignored, and fractions are cut off (X01)."""

    every_n_turns: float | None = None
    every_n_context_tokens: float | None = None


class Retry(Data):
    """The attempts of an operation. An empty `retry_on` means timeouts and provider errors."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 1
    backoff_ms: Annotated[float, Field(ge=0, le=120_000)] = 0
    multiplier: Annotated[float, Field(ge=1, le=10)] = 1
    jitter: Annotated[float, Field(ge=0, le=1)] = 0
    retry_on: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)], ...] = ()


class Debug(Data):
    """The switch for debug data in the log, such as the operation's input (R28, R35)."""

    enabled: bool = False


class OperationDefinition(Data):
    """The definition of an operation (R16).

    Attributes:
        capabilities: the allowed effects, and any other words for readers.
    """

    operation_id: OperationId
    name: Annotated[str, Field(min_length=1, max_length=200)]
    kind: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = None
    capabilities: tuple[str, ...] = ()

    @property
    def declared_effects(self) -> tuple[str, ...]:
        """The allowed effect types or layers, such as `prompt`. If empty, all effects are allowed."""
        return tuple(one for one in self.capabilities if one.partition(".")[0] in EFFECT_LAYERS)

    def declares(self, effect_type: str) -> bool:
        """Return True if the definition allows effects of this type."""
        declared = self.declared_effects
        return not declared or effect_type in declared or effect_type.partition(".")[0] in declared


class OperationConfig(Data):
    """The settings of an operation: when and how it runs (R18 to R28).

    The kind reads `params`. It must not contain secrets.
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
    """An operation of a profile: its definition and its configuration (R8)."""

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


# --- input


class MessagePiece(Data):
    """A part of a message's text, and the operation that wrote it; None if no operation did."""

    text: str
    label: str | None = None


class RunMessage(Data):
    """A message of the prompt.

    Attributes:
        key: its identity within the run.
        label: the last operation that added or changed it.
        pieces: the parts of `content`, if several operations wrote it.
        extra: other fields for the provider: `name`, `tool_calls`, `tool_call_id`, `attachments`.
    """

    role: str
    content: str
    key: str | None = None
    label: str | None = None
    pieces: tuple[MessagePiece, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The attachments in `extra`."""
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
    """The input of an operation (R29 to R34). It is plain data, so it can be sent to another process.

    Attributes:
        messages: the prompt for this operation; after the main call, the reply is the last message.
        user_key: the key of the current user's message.
        reply: the text of the main call; None before it.
        artifacts: by tag; a `run_only` artifact hides a persisted one.
        by_operation: the values of the direct dependencies, by operation.
        allowed_effects: the effect types that the hook allows (R33).
        log_characters: the size of each summary and of the debug data, as JSON; see `schedule.Limits`.
        snapshot_characters: the size of each text that they quote, such as a reply.
        seed: the seed of random values; a replay has the same one.
        now: the run's start, as ISO 8601.
        deadline: seconds since the epoch; later results do not count.
        variables: additional variables of templates: `user`, `char`, ...
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


# --- results


class ResultError(Data):
    """The error of an operation; bounded, and safe to show (R54)."""

    code: Annotated[str, Field(min_length=1, max_length=64)]
    message: Annotated[str, Field(max_length=MAX_ERROR_TEXT)] = ""
    details: dict[str, Any] = Field(default_factory=dict)


class Skip(Data):
    """The reason why an operation did not run (R38, R39).

    Attributes:
        reason: a `SkippedReason`, or a reason of the operation's own.
        dep: for `dependency_failed`: whether a dependency is missing or not done.
        blocked_by: these dependencies, sorted.
        blocked_by_reason: the reason that they share, such as `activation_not_reached`.
        condition: the first unmet condition, with the `actual` value.
        activation: the counters, for `activation_not_reached`.
    """

    reason: str
    dep: Blocked | None = None
    blocked_by: tuple[str, ...] = ()
    blocked_by_reason: str | None = None
    condition: dict[str, Any] | None = None
    activation: dict[str, Any] | None = None

    @classmethod
    def because(cls, reason: SkippedReason) -> Skip:
        """Make a skip without details."""
        return cls(reason=reason.value)


class OperationResult(Data):
    """The result of an operation (R35). Only `done` has effects. `waiting` names the pending to decide.

    The summaries are for the log: bounded, and without secrets (R56, R57).
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
        """True if its effects count and its dependents may start."""
        return self.status is OperationStatus.DONE


class MainReply(Data):
    """The outcome of the main call.

    Attributes:
        text: the reply; partial if the call was aborted.
        finish_reason: `completed`, `user_abort`, `deadline`, or an error code.
        usage: tokens as the provider counts them.
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
        status = f"{self.status.value} ({why})" if why else self.status.value
        return (
            f"<OperationRun {self.operation_id!r}: {status}, {self.kind}, {self.hook.value}, "
            f"{self.duration_ms:g} ms>"
        )


class RunNote(Data):
    """A note for readers of the run; it is never part of a prompt (X05).

    Attributes:
        title: the title of the artifact, or else its tag, or else the operation's id.
        anchor, depth_from_end: its place in the conversation.
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
    """A main call with its operations.

    Attributes:
        prompt: the prompt that was sent; each message names the operation that added or changed it.
        plain_prompt: the prompt without operations.
        user_commit, reply_commit: the final commits of this turn.
        phase: the last phase that began.
        reports: the commits before and after the main call (E8).
        notes: notes of operations for readers.
        root_hash: sha256 over all that a replay must reproduce.
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
        count = f"{done} of {len(self.operations)} operations done"
        return f"<Run {self.run_id[:8]}: {self.status.value}{why}, {self.trigger.value}{profile}, {count}>"
