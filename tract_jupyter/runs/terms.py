"""The enums of runs as in JSON: hooks, triggers, statuses, reasons and codes; and the base class of values."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Result = TypeVar("_Result")


class Hook(StrEnum):
    """A point at which operations run. An operation may run at both."""

    BEFORE = "before_main_llm"
    AFTER = "after_main_llm"


class RunTrigger(StrEnum):
    """The cause of a run: a new turn, or another reply within the current one."""

    GENERATE = "generate"
    REGENERATE = "regenerate"


class ExecutionMode(StrEnum):
    """The mode of a hook: concurrent operations, or one at a time."""

    CONCURRENT = "concurrent"
    SEQUENTIAL = "sequential"


class OperationStatus(StrEnum):
    """The status of an operation. `waiting` means that the user has to decide first."""

    DONE = "done"
    SKIPPED = "skipped"
    ERROR = "error"
    ABORTED = "aborted"
    WAITING = "waiting"

    @property
    def is_terminal(self) -> bool:
        """True if no other status follows."""
        return self is not OperationStatus.WAITING


class RunStatus(StrEnum):
    """The status of a run. A waiting run, or a running one whose process has ended, can be resumed."""

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
    """The reasons why an operation did not run. An operation may also use other reasons."""

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
    """The state of a dependency that blocks an operation: not part of the plan, or ended without `done`."""

    MISSING = "missing"
    NOT_DONE = "not_done"


class ErrorCode(StrEnum):
    """The codes of errors. An operation may also use other codes."""

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
    """The role of a message that an operation adds."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


class Persistence(StrEnum):
    """The lifetime of an artifact: several runs, or one run."""

    PERSISTED = "persisted"
    RUN_ONLY = "run_only"


class ArtifactUsage(StrEnum):
    """The consumers of an artifact."""

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
    """The mode of a write. Both modes replace the value and add to the history (X03)."""

    REPLACE = "replace"
    APPEND = "append"


MAX_ERROR_TEXT: Final = 2_000
"""Characters of an error message."""

MAX_TEXT: Final = 1_000_000
"""Characters of a message, a payload or a rewritten text, and of an artifact's value as JSON."""

MAX_EFFECTS: Final = 100
"""Effects of one operation."""

MAX_DEBUG: Final = 10_000
"""Characters of an operation's debug data, as JSON."""

MAX_SNAPSHOT: Final = 1_024
"""Characters of a text that a log quotes."""

MAX_PROGRESS: Final = 5_000
"""Characters of one progress report, as JSON."""

MAX_PROGRESS_EVENTS: Final = 200
"""Progress events of an operation at one hook."""


class Data(BaseModel):
    """A value with a JSON form. Field names may be written as `depends_on` or `dependsOn`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False,
        ser_json_inf_nan="constants",
    )  # fmt: skip

    # the cache of `once`: not a field, so copies, comparisons and pickles ignore it
    __slots__ = ("_cache",)

    def once(self, name: str, make: Callable[[Self], _Result]) -> _Result:
        """Return the cached result of `make` for this value. Do not change the result."""
        cache: dict[str, Any]
        try:
            cache = object.__getattribute__(self, "_cache")
        except AttributeError:
            cache = {}
            object.__setattr__(self, "_cache", cache)
        if name not in cache:
            cache[name] = make(self)
        result: _Result = cache[name]
        return result

    def remember(self, name: str, result: object) -> None:
        """Set the result that `once` returns, instead of computing it."""
        object.__setattr__(self, "_cache", {**getattr(self, "_cache", {}), name: result})

    def form(self) -> dict[str, Any]:
        """Return the JSON form, cached and shared. Do not change it."""
        return self.once("form", type(self).to_dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without fields that have their default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """Read the JSON form.

        Raises:
            pydantic.ValidationError: the value is invalid; lists all problems.
        """
        return cls.model_validate(value)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # one readable line: without defaults, and with enum values
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.get_default(call_default_factory=True, validated_data={}):
                yield name, value.value if isinstance(value, StrEnum) else value

    def __str__(self) -> str:
        return repr(self)

    def __dir__(self) -> list[str]:
        # completion offers our own names only
        return [name for name in super().__dir__() if name.startswith("__") or name not in _PYDANTIC]


_PYDANTIC = frozenset(dir(BaseModel))


class Tagged(Data):
    """A value of a union, identified by its `type`. Its JSON form always has the `type`; see `tag`."""


def tag(name: str) -> Any:
    """Return the default value of a field `type`. pydantic never leaves out a default that may depend on data."""
    return Field(default_factory=lambda _: name)
