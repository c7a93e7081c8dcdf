"""The parameters of kind `llm`, which guards that ask a model have too (E20, E25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from tract_jupyter.runs.data import Data
from tract_jupyter.runs.kinds.base import ModelRef
from tract_jupyter.runs.kinds.json_output import ParseMode  # pydantic reads it
from tract_jupyter.runs.kinds.schema_language import schema_problems
from tract_jupyter.runs.model import OperationConfig, Retry
from tract_jupyter.runs.terms import MAX_TEXT, ErrorCode

if TYPE_CHECKING:
    from tract_jupyter.runs.kinds.base import Problem

Name = Annotated[str, Field(min_length=1, max_length=200)]
StopText = Annotated[str, Field(min_length=1, max_length=120)]

_RETRIED: Final = {
    "timeout": ErrorCode.TIMEOUT,
    "provider_error": ErrorCode.PROVIDER,
    "rate_limit": ErrorCode.RATE_LIMITED,
}


class Samplers(Data):
    """How the model chooses its words."""

    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    seed: int | None = None


class Attempts(Data):
    """How often the provider is asked: 1 to 10 times; what it says badly is never asked for again."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 1
    backoff_ms: Annotated[float, Field(ge=0, le=120_000)] = 0
    retry_on: tuple[Literal["timeout", "provider_error", "rate_limit"], ...] = ()


class CostBudget(Data):
    """What a call may cost."""

    max_cost_usd: Annotated[float, Field(ge=0)] | None = None


class CallParams(Data):
    """How a model is asked. `providerRef` and `credentialRef` are names in `t.models`; the latter is never logged."""

    provider_ref: Name | None = None
    model: Name | None = None
    credential_ref: Name | None = None
    prompt: Annotated[str, Field(max_length=MAX_TEXT)]
    system: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    strict_variables: bool = False
    max_input_tokens: Annotated[int, Field(ge=1)] | None = None
    samplers: Samplers = Samplers()
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: Annotated[tuple[StopText, ...], Field(max_length=10)] = ()
    budget: CostBudget = CostBudget()
    timeout_ms: Annotated[float, Field(ge=1, le=300_000)] | None = None
    retry: Attempts | None = None

    @property
    def model_ref(self) -> ModelRef | None:
        """The names of a model and a credential; None if it names neither."""
        named = self.provider_ref is not None or self.credential_ref is not None
        return ModelRef(self.provider_ref, self.credential_ref) if named else None

    @model_validator(mode="after")
    def _has_prompt(self) -> CallParams:
        if not self.prompt.strip():
            raise ValueError("prompt is empty; write what the model is asked")
        return self


class LlmParams(CallParams):
    """What kind `llm` is given as `params`."""

    output_mode: Literal["text", "json"] = "text"
    json_parse_mode: ParseMode | None = None
    json_custom_pattern: Annotated[str, Field(max_length=2_000)] | None = None
    json_schema: Any = None
    strict_schema_validation: bool = False

    def problems(self) -> list[Problem]:
        """What no single field shows."""
        is_json = self.output_mode == "json"
        found = []
        if self.strict_schema_validation and not is_json:
            found.append(("strict_schema_needs_json", "strictSchemaValidation requires outputMode=json"))
        if self.strict_schema_validation and self.json_schema is None:
            found.append(("strict_schema_needs_schema", "strictSchemaValidation requires jsonSchema"))
        if self.json_parse_mode is not None and not is_json:
            found.append(("parse_mode_needs_json", "jsonParseMode requires outputMode=json"))
        if self.json_parse_mode == "custom_regex" and not (self.json_custom_pattern or "").strip():
            found.append(("regex_pattern_required", "jsonParseMode=custom_regex requires jsonCustomPattern"))
        if self.json_schema is not None and not is_json and not self.strict_schema_validation:
            found.append(("schema_needs_json", "jsonSchema requires outputMode=json"))
        if self.json_custom_pattern is not None and self.json_parse_mode != "custom_regex":
            found.append(("pattern_needs_regex", "jsonCustomPattern requires jsonParseMode=custom_regex"))
        found += [("schema_invalid", f"jsonSchema: {told}") for told in schema_problems(self.json_schema)]
        return found


RULES: Final = {
    "": "prompt_required",
    "prompt": "prompt_required",
    "timeoutMs": "timeout_range",
    "retry": "retry_range",
    "retry.maxAttempts": "retry_range",
    "retry.backoffMs": "backoff_range",
    "stop": "stop_limit",
    "samplers": "samplers_range",
}
"""The rules' names, by field."""


def engine_config(config: OperationConfig, params: CallParams) -> OperationConfig:
    """The configuration with the attempts and the time that the parameters ask for; those of the engine's own stand."""
    changes: dict[str, Any] = {}
    if params.timeout_ms is not None and config.timeout_ms is None:
        changes["timeout_ms"] = params.timeout_ms
    if params.retry is not None and config.retry == Retry():
        retry_on = tuple(_RETRIED[one].value for one in params.retry.retry_on)
        changes["retry"] = Retry(
            max_attempts=params.retry.max_attempts,
            backoff_ms=params.retry.backoff_ms,
            retry_on=retry_on,
        )
    if params.provider_ref is not None and config.provider is None:
        changes["provider"] = params.provider_ref
    return config.model_copy(update=changes)
