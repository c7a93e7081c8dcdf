"""The words of runs, as they are written in JSON: hooks, triggers, states, reasons, codes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Made = TypeVar("_Made")


class Hook(StrEnum):
    """A point at which operations run; one may run at both."""

    BEFORE = "before_main_llm"
    AFTER = "after_main_llm"


class RunTrigger(StrEnum):
    """The cause of a run: a new turn, or another reply within the current one."""

    GENERATE = "generate"
    REGENERATE = "regenerate"


class ExecutionMode(StrEnum):
    """The mode of a hook: its operations may run side by side, or one at a time."""

    CONCURRENT = "concurrent"
    SEQUENTIAL = "sequential"


class OperationStatus(StrEnum):
    """The end of an operation; `waiting` is none: a person has to decide first."""

    DONE = "done"
    SKIPPED = "skipped"
    ERROR = "error"
    ABORTED = "aborted"
    WAITING = "waiting"

    @property
    def is_terminal(self) -> bool:
        """True if nothing comes after it."""
        return self is not OperationStatus.WAITING


class RunStatus(StrEnum):
    """The status of a run. `running` of a process that has ended, and `waiting`, can be resumed."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"


class FailedType(StrEnum):
    """The step at which a run failed."""

    BEFORE_BARRIER = "before_barrier"
    MAIN_LLM = "main_llm"
    AFTER_MAIN_LLM = "after_main_llm"


class RunPhase(StrEnum):
    """The phases of a run, in this order."""

    PLANNING = "planning"
    BEFORE = "before_main_llm"
    COMMIT_BEFORE = "commit_before"
    BARRIER = "barrier"
    MAIN_LLM = "main_llm"
    AFTER = "after_main_llm"
    COMMIT_AFTER = "commit_after"
    FINISHED = "finished"


class SkippedReason(StrEnum):
    """The reasons why an operation did not run. An operation may give others of its own."""

    DISABLED = "disabled"
    TRIGGER_MISMATCH = "trigger_mismatch"
    CONDITION_FALSE = "condition_false"
    DEPENDENCY_FAILED = "dependency_failed"
    POLICY = "policy"
    RUN_ABORTED = "run_aborted"
    ACTIVATION_NOT_REACHED = "activation_not_reached"
    UNSUPPORTED_KIND = "unsupported_kind"
    FILTERED_OUT = "filtered_out"


NOT_SUPPOSED_TO_RUN: Final = frozenset(
    {
        SkippedReason.DISABLED,
        SkippedReason.TRIGGER_MISMATCH,
        SkippedReason.ACTIVATION_NOT_REACHED,
        SkippedReason.FILTERED_OUT,
    }
)
"""Reasons that do not count at the barrier, even for a required operation (G3)."""


class Blocked(StrEnum):
    """The reasons why a dependency does not hold: it is not part of the plan, or did not end as `done`."""

    MISSING = "missing"
    NOT_DONE = "not_done"


class ErrorCode(StrEnum):
    """The codes of errors. An operation may give others of its own."""

    VALIDATION = "validation_error"
    POLICY = "policy_error"
    ARTIFACT_CONFLICT = "artifact_conflict"
    DEPENDENCY_FAILED = "dependency_failed"
    PROVIDER = "provider_error"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    TEMPLATE_RENDER = "template_render_error"
    OUTPUT_PARSE = "output_parse_error"
    BUDGET_EXCEEDED = "budget_exceeded"
    STORAGE = "storage_error"
    OPERATION = "operation_error"


class PlanErrorCode(StrEnum):
    """The reasons why operations cannot be planned."""

    CYCLE = "CYCLE_DETECTED"
    DUPLICATE_ID = "DUPLICATE_TASK_ID"
    INVALID_ORDER = "INVALID_TASK_ORDER"
    INVALID_CONCURRENCY = "INVALID_CONCURRENCY"


class EffectStatus(StrEnum):
    """The outcome of an effect at its commit."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    ERROR = "error"


class Role(StrEnum):
    """Of a message that an operation adds."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


class Persistence(StrEnum):
    """The life of an artifact: between runs, or within one."""

    PERSISTED = "persisted"
    RUN_ONLY = "run_only"


class ArtifactUsage(StrEnum):
    """Whom an artifact is for."""

    PROMPT_ONLY = "prompt_only"
    UI_ONLY = "ui_only"
    PROMPT_AND_UI = "prompt+ui"
    INTERNAL = "internal"


class Format(StrEnum):
    """The format of an artifact's value."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


class WriteMode(StrEnum):
    """The way a new value meets the old one; both replace it and add to the history (X03)."""

    REPLACE = "replace"
    APPEND = "append"


MAX_ERROR_TEXT: Final = 2_000
"""Characters of an error's message."""

MAX_TEXT: Final = 1_000_000
"""Characters of a message, a payload, a rewritten text, or of an artifact's value as JSON."""

MAX_EFFECTS: Final = 100
"""Effects of one operation."""

MAX_DEBUG: Final = 10_000
"""Characters of what an operation leaves for debugging, as JSON."""

MAX_SNAPSHOT: Final = 1_024
"""Characters of a text that is quoted in a log."""

MAX_PROGRESS: Final = 5_000
"""Characters of what an operation tells of its progress at once, as JSON."""

MAX_PROGRESS_EVENTS: Final = 200
"""How often it may, at one hook."""


class Data(BaseModel):
    """A value with a JSON form. Its fields may be given by either spelling, `depends_on` or `dependsOn`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False,
        ser_json_inf_nan="constants",
    )  # fmt: skip

    # what `once` has made: no field, so no copy, comparison or pickle has it
    __slots__ = ("_made",)

    def once(self, name: str, make: Callable[[Self], _Made]) -> _Made:
        """Return the result of `make` for this value, made once. Nobody changes it."""
        made: dict[str, Any]
        try:
            made = object.__getattribute__(self, "_made")
        except AttributeError:
            made = {}
            object.__setattr__(self, "_made", made)
        if name not in made:
            made[name] = make(self)
        found: _Made = made[name]
        return found

    def form(self) -> dict[str, Any]:
        """Return the JSON form, made once and shared: for whoever only reads it."""
        return self.once("form", type(self).to_dict)

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form, without what is None or empty by default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """Read its JSON form.

        Raises:
            pydantic.ValidationError: it is not valid; lists every problem.
        """
        return cls.model_validate(value)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # a line that a person can read: without defaults, and words for enums
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.get_default(call_default_factory=True, validated_data={}):
                yield name, value.value if isinstance(value, StrEnum) else value

    def __str__(self) -> str:
        return repr(self)

    def __dir__(self) -> list[str]:
        # completion offers what is ours
        return [name for name in super().__dir__() if name.startswith("__") or name not in _PYDANTIC]


_PYDANTIC = frozenset(dir(BaseModel))


class Tagged(Data):
    """One of a union, told apart by its `type`, which its JSON form always has, also within another value."""

    @model_serializer(mode="wrap")
    def _with_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"type": self.type, **handler(self)}  # type: ignore[attr-defined]
