"""Kind `llm`: one model request in addition to the main call. The value is the reply's text or JSON (E20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from tract_jupyter.concurrency import Stopped, current_stop
from tract_jupyter.exceptions import LLMBudgetError, LLMConfigError, LLMRequestError
from tract_jupyter.llm import CANCELLED, HOW_TO_CHOOSE, Reply, WholeReplies
from tract_jupyter.models import sha256
from tract_jupyter.runs.kinds.base import (
    ModelRef,
    OperationFailed,
    OperationOutput,
    Services,
    check_params,
    check_template,
    read_params,
    valid_params,
)
from tract_jupyter.runs.kinds.json_output import (
    ParseMode,  # pydantic reads it
    mismatches,
    read_json,
    schema_problems,
)
from tract_jupyter.runs.model import OperationConfig, Retry
from tract_jupyter.runs.reading import message_of, quoted
from tract_jupyter.runs.templates.engine import render
from tract_jupyter.runs.terms import MAX_TEXT, Data, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.models import LLMClient
    from tract_jupyter.runs.kinds.base import Problem, Runner
    from tract_jupyter.runs.model import Operation, OperationContext


Name = Annotated[str, Field(min_length=1, max_length=200)]
StopText = Annotated[str, Field(min_length=1, max_length=120)]

NO_MODEL: Final = f"No language model is configured; {HOW_TO_CHOOSE}"

_RETRIED: Final = {
    "timeout": ErrorCode.TIMEOUT,
    "provider_error": ErrorCode.PROVIDER,
    "rate_limit": ErrorCode.RATE_LIMITED,
}


class Samplers(Data):
    """Sampling settings of the model."""

    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    seed: int | None = None


class Attempts(Data):
    """The retries of a failed request: 1 to 10 attempts. An unusable reply is never requested again."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 1
    backoff_ms: Annotated[float, Field(ge=0, le=120_000)] = 0
    retry_on: tuple[Literal["timeout", "provider_error", "rate_limit"], ...] = ()


class CostBudget(Data):
    """The cost limit of a call."""

    max_cost_usd: Annotated[float, Field(ge=0)] | None = None


class CallParams(Data):
    """The parameters of a request. `providerRef` and `credentialRef` are names in `t.models`."""

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
        """The named model and credential; None if neither is set."""
        named = self.provider_ref is not None or self.credential_ref is not None
        return ModelRef(self.provider_ref, self.credential_ref) if named else None

    def template_problems(self) -> list[Problem]:
        """Return the problems of the templates."""
        return check_template(self.prompt, "prompt") + check_template(self.system or "", "system")

    @model_validator(mode="after")
    def _has_prompt(self) -> CallParams:
        if not self.prompt.strip():
            raise ValueError("prompt is empty. Write a prompt for the model")
        return self


class LlmParams(CallParams):
    """The parameters of the kind `llm`."""

    output_mode: Literal["text", "json"] = "text"
    json_parse_mode: ParseMode | None = None
    json_custom_pattern: Annotated[str, Field(max_length=2_000)] | None = None
    json_schema: Any = None
    strict_schema_validation: bool = False

    def problems(self) -> list[Problem]:
        """Return problems that concern several parameters."""
        is_json = self.output_mode == "json"
        problems = []
        if self.strict_schema_validation and not is_json:
            problems.append(("strict_schema_needs_json", "strictSchemaValidation requires outputMode=json"))
        if self.strict_schema_validation and self.json_schema is None:
            problems.append(("strict_schema_needs_schema", "strictSchemaValidation requires jsonSchema"))
        if self.json_parse_mode is not None and not is_json:
            problems.append(("parse_mode_needs_json", "jsonParseMode requires outputMode=json"))
        if self.json_parse_mode == "custom_regex" and not (self.json_custom_pattern or "").strip():
            problems.append(
                ("regex_pattern_required", "jsonParseMode=custom_regex requires jsonCustomPattern")
            )
        if self.json_schema is not None and not is_json and not self.strict_schema_validation:
            problems.append(("schema_needs_json", "jsonSchema requires outputMode=json"))
        if self.json_custom_pattern is not None and self.json_parse_mode != "custom_regex":
            problems.append(("pattern_needs_regex", "jsonCustomPattern requires jsonParseMode=custom_regex"))
        problems += [
            ("schema_invalid", f"jsonSchema: {problem}") for problem in schema_problems(self.json_schema)
        ]
        return problems


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
"""Rule names by field."""


def engine_config(config: OperationConfig, params: CallParams) -> OperationConfig:
    """Return the configuration with the retries and timeout of the parameters, unless it has its own."""
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


_RATE_LIMITS: Final = ("rate limit", "rate_limit", "429")
_TIMEOUTS: Final = ("timed out", "timeout")
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer, with its entries for the log."""

    text: str
    usage: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    debug: Mapping[str, Any]

    def output(self, value: Any) -> OperationOutput:
        """Return the output of an operation that read a value from the answer."""
        return OperationOutput(
            value=value, usage=self.usage, inputs=self.inputs, outputs=self.outputs, debug=self.debug
        )


def ask(
    params: CallParams,
    services: Services,
    context: OperationContext,
    options: Mapping[str, Any] | None = None,
) -> ModelAnswer:
    """Send one request. The engine handles retries.

    Args:
        params: the parameters of the request.
        services: has the client.
        context: the context for the prompts.
        options: additional options for the client.

    Raises:
        OperationFailed: `rate_limited`, `timeout`, `provider_error` or `budget_exceeded`; `validation_error` if the
            client is unknown. A prompt that cannot be rendered raises `TemplateError` before the request.
    """
    client = _client(params, services)
    messages = _messages(params, context)
    inputs = _inputs(params, messages)
    _check_length(params, messages)
    current_stop().check()
    try:
        response = WholeReplies(client).chat(messages, **_options(params), **(options or {}))
        reply = Reply.of(response)
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 # a client may raise anything
        if isinstance(error, LLMRequestError):
            current_stop().check()  # the signal ended the request
        raise _provider_failure(error, inputs) from None
    limit = context.snapshot_characters
    outputs = _outputs(reply, response, limit)
    _check_cost(params, reply, inputs, outputs)
    prompts = {one["role"]: quoted(one["content"], limit) for one in messages}
    return ModelAnswer(reply.text, reply.usage, inputs, outputs, {"asked": prompts})


def text_summary(text: str, limit: int) -> dict[str, Any]:
    """Return the beginning of a text, and the hash of the whole text."""
    return {"text": quoted(text, limit), "textHash": _digest(text)}


def _client(params: CallParams, services: Services) -> LLMClient:
    ref = params.model_ref
    if ref is None and services.llm is not None:
        return services.llm
    if services.models is None:
        raise OperationFailed.invalid(NO_MODEL if ref is None else "No models are registered here.")
    try:
        return services.models.client_for("chat") if ref is None else services.models.client(*ref)
    except LLMConfigError as error:
        raise OperationFailed.invalid(NO_MODEL if ref is None else str(error)) from None


def _messages(params: CallParams, context: OperationContext) -> list[dict[str, Any]]:
    """Render the messages. The system prompt comes first; a blank one is omitted (EXE-032)."""
    system = render(params.system or "", context, strict=params.strict_variables)
    prompt = render(params.prompt, context, strict=params.strict_variables)
    first = [{"role": "system", "content": system}] if system.strip() else []
    return [*first, {"role": "user", "content": prompt}]


def _options(params: CallParams) -> dict[str, Any]:
    """Return the options with the names of the client protocol: `temperature`, `top_p`, `max_tokens`, ..."""
    options = {
        name: value for name, value in params.samplers.model_dump(by_alias=False).items() if value is not None
    }
    if params.model is not None:
        options["model"] = params.model
    if params.max_output_tokens is not None:
        options["max_tokens"] = params.max_output_tokens
    if params.stop:
        options["stop"] = list(params.stop)
    return options


def _check_length(params: CallParams, messages: list[dict[str, Any]]) -> None:
    characters = sum(len(one["content"]) for one in messages)
    tokens = -(-characters // _CHARACTERS_PER_TOKEN)
    if params.max_input_tokens is not None and tokens > params.max_input_tokens:
        raise OperationFailed(
            ErrorCode.BUDGET_EXCEEDED,
            f"The prompts have about {tokens} tokens; the limit is {params.max_input_tokens}. Shorten them.",
        )


def _check_cost(
    params: CallParams, reply: Reply, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    most, cost = params.budget.max_cost_usd, reply.usage.get("cost")
    if most is not None and isinstance(cost, int | float) and cost > most:
        message = f"The reply cost {cost} USD; the limit is {most}."
        raise OperationFailed(ErrorCode.BUDGET_EXCEEDED, message, inputs=inputs, outputs=outputs)


def _provider_failure(error: Exception, inputs: Mapping[str, Any]) -> OperationFailed:
    message = message_of(error)
    lower = message.lower()
    code = ErrorCode.PROVIDER
    if isinstance(error, LLMConfigError):
        code = ErrorCode.VALIDATION
    elif isinstance(error, LLMBudgetError):
        code = ErrorCode.BUDGET_EXCEEDED
    elif isinstance(error, LLMRequestError):
        code = ErrorCode.PROVIDER if error.code == CANCELLED else ErrorCode(error.code)
    elif any(mark in lower for mark in _RATE_LIMITS):
        code = ErrorCode.RATE_LIMITED
    elif isinstance(error, TimeoutError) or any(mark in lower for mark in _TIMEOUTS):
        code = ErrorCode.TIMEOUT
    return OperationFailed(code, message, _retry_after(error), inputs=inputs)


def _retry_after(error: Exception) -> dict[str, Any]:
    """Return the wait that the provider asks for: `retry_after` of its error, in seconds."""
    seconds = getattr(error, "retry_after", None)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0
    return {"retryAfterMs": seconds * 1_000} if is_number and seconds is not None else {}


def _inputs(params: CallParams, messages: list[dict[str, Any]]) -> dict[str, Any]:
    fields = params.to_dict()
    logged = ("providerRef", "model", "outputMode", "samplers", "maxOutputTokens", "maxInputTokens", "stop", "budget",
            "timeoutMs", "retry")  # fmt: skip
    hashes = {f"{one['role']}Hash": _digest(one["content"]) for one in messages}
    return {**{name: fields[name] for name in logged if name in fields}, **hashes}


def _outputs(reply: Reply, response: Mapping[str, Any], limit: int) -> dict[str, Any]:
    values = {
        "finishReason": response["choices"][0].get("finish_reason"),
        "requestId": response.get("id"),
        "model": reply.model,
        "usage": reply.usage,
        **text_summary(reply.text, limit),
    }
    return {name: value for name, value in values.items() if value not in (None, {})}


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class _Ask:
    params: LlmParams
    services: Services

    def __call__(self, context: OperationContext) -> OperationOutput:
        answer = ask(self.params, self.services, context)
        try:
            value = self._value(answer.text)
        except OperationFailed as failed:
            raise _with_log(failed, answer) from None
        return answer.output(value)

    def _value(self, text: str) -> Any:
        params = self.params
        if params.output_mode == "text":
            return text
        value = read_json(text, params.json_parse_mode or "raw", params.json_custom_pattern)
        problems = mismatches(value, params.json_schema) if params.strict_schema_validation else []
        if problems:
            raise OperationFailed.invalid(f"The reply does not match jsonSchema: {'; '.join(problems)}")
        return value


class LlmKind:
    """The kind that asks a model. A bad reply is an `output_parse_error` or `validation_error`, and is not retried."""

    name: Final = "llm"
    parameters = (LlmParams,)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters."""
        return check_params(LlmParams, operation.config.params, RULES, _check)

    def configured(self, config: OperationConfig) -> OperationConfig:
        """Apply `retry` and `timeoutMs` of the parameters; invalid parameters change nothing."""
        params = valid_params(LlmParams, config.params)
        return config if params is None else engine_config(config, params)

    def model_ref(self, operation: Operation) -> ModelRef | None:
        """Return the named model; None if there is none, or if the parameters are invalid."""
        params = valid_params(LlmParams, operation.config.params)
        return None if params is None else params.model_ref

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return the function that asks and reads the reply."""
        params = read_params(LlmParams, operation.config.params)
        problems = params.problems()
        if problems:
            raise OperationFailed.invalid("; ".join(message for _, message in problems))
        return _Ask(params, services)


def _check(params: LlmParams) -> list[Problem]:
    return params.problems() + params.template_problems()


def _with_log(failed: OperationFailed, answer: ModelAnswer) -> OperationFailed:
    outputs = {**answer.outputs, **failed.outputs}
    return OperationFailed(failed.code, failed.message, failed.details, inputs=answer.inputs, outputs=outputs)
