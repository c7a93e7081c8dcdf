"""Asks a model once: prompts rendered, options passed on, errors told apart, a summary without secrets (E25)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError, LLMRequestError
from tract_jupyter.llm.call import CANCELLED, ended_by
from tract_jupyter.llm.reply import Reply
from tract_jupyter.runs.abort import Aborted, current_abort
from tract_jupyter.runs.kinds.base import OperationFailed, Services
from tract_jupyter.runs.safe_text import message_of, quoted
from tract_jupyter.runs.templates.context import render
from tract_jupyter.runs.terms import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.protocols import LLMClient
    from tract_jupyter.runs.kinds.llm_params import CallParams
    from tract_jupyter.runs.model import OperationContext

_RATE_LIMITS: Final = ("rate limit", "rate_limit", "429")
_TIMEOUTS: Final = ("timed out", "timeout")
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and what the log tells of it."""

    text: str
    usage: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    debug: Mapping[str, Any]


def ask(
    params: CallParams,
    services: Services,
    context: OperationContext,
    options: Mapping[str, Any] | None = None,
) -> Answer:
    """Ask once; trying again is the engine's business.

    Args:
        params: how.
        services: has the client.
        context: what the prompts are rendered with.
        options: more that is passed to the client.

    Raises:
        OperationFailed: `rate_limited`, `timeout`, `provider_error`, `budget_exceeded`, or a `validation_error` if
            there is no such client. A failed rendering is a `TemplateError`, before anything is asked.
    """
    client = _client(params, services)
    messages = _messages(params, context)
    inputs = _inputs(params, messages)
    _check_length(params, messages)
    current_abort().check()
    try:
        with ended_by(current_abort()):
            response = client.chat(messages, **_options(params), **(options or {}))
        reply = Reply.of(response)
    except Aborted:
        raise
    except Exception as error:  # noqa: BLE001 # what a client raises is its own business
        if isinstance(error, LLMRequestError):
            current_abort().check()  # it was ended by that
        raise _provider_failure(error, inputs) from None
    limit = context.policy.max_snapshot
    outputs = _outputs(reply, response, limit)
    _check_cost(params, reply, inputs, outputs)
    asked = {one["role"]: quoted(one["content"], limit) for one in messages}
    return Answer(reply.text, reply.usage, inputs, outputs, {"asked": asked})


def text_summary(text: str, limit: int) -> dict[str, Any]:
    """The beginning of a text, and the hash of all of it."""
    return {"text": quoted(text, limit), "textHash": _digest(text)}


def _client(params: CallParams, services: Services) -> LLMClient:
    ref = params.model_ref
    if ref is not None:
        if services.models is None:
            raise OperationFailed.invalid("there are no models to choose from here")
        try:
            return services.models.client(*ref)
        except LLMConfigError as error:
            raise OperationFailed.invalid(str(error)) from None
    if services.llm is None:
        raise OperationFailed.invalid("there is no client to ask a model with; give one to configure_llm()")
    return services.llm


def _messages(params: CallParams, context: OperationContext) -> list[dict[str, Any]]:
    """The system prompt first, unless it is blank (EXE-032)."""
    system = render(params.system or "", context, strict=params.strict_variables)
    prompt = render(params.prompt, context, strict=params.strict_variables)
    first = [{"role": "system", "content": system}] if system.strip() else []
    return [*first, {"role": "user", "content": prompt}]


def _options(params: CallParams) -> dict[str, Any]:
    """As the client protocol names them: `temperature`, `top_p`, `max_tokens`, ..."""
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
            f"the prompts have about {tokens} tokens, and may have {params.max_input_tokens}; let them hold less",
        )


def _check_cost(
    params: CallParams, reply: Reply, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    most, cost = params.budget.max_cost_usd, reply.usage.get("cost")
    if most is not None and isinstance(cost, int | float) and cost > most:
        message = f"the reply cost {cost} USD, and may cost {most}"
        raise OperationFailed(ErrorCode.BUDGET_EXCEEDED, message, inputs=inputs, outputs=outputs)


def _provider_failure(error: Exception, inputs: Mapping[str, Any]) -> OperationFailed:
    message = message_of(error)
    told = message.lower()
    code = ErrorCode.PROVIDER
    if isinstance(error, LLMConfigError):
        code = ErrorCode.VALIDATION
    elif isinstance(error, LLMRequestError):
        code = ErrorCode.PROVIDER if error.code == CANCELLED else ErrorCode(error.code)
    elif any(mark in told for mark in _RATE_LIMITS):
        code = ErrorCode.RATE_LIMITED
    elif isinstance(error, TimeoutError) or any(mark in told for mark in _TIMEOUTS):
        code = ErrorCode.TIMEOUT
    return OperationFailed(code, message, _retry_after(error), inputs=inputs)


def _retry_after(error: Exception) -> dict[str, Any]:
    """How long the provider asks to wait: `retry_after` of its error, in seconds."""
    seconds = getattr(error, "retry_after", None)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0
    return {"retryAfterMs": seconds * 1_000} if is_number and seconds is not None else {}


def _inputs(params: CallParams, messages: list[dict[str, Any]]) -> dict[str, Any]:
    told = params.to_dict()
    kept = ("providerRef", "model", "outputMode", "samplers", "maxOutputTokens", "maxInputTokens", "stop", "budget",
            "timeoutMs", "retry")  # fmt: skip
    hashes = {f"{one['role']}Hash": _digest(one["content"]) for one in messages}
    return {**{name: told[name] for name in kept if name in told}, **hashes}


def _outputs(reply: Reply, response: Mapping[str, Any], limit: int) -> dict[str, Any]:
    found = {
        "finishReason": response["choices"][0].get("finish_reason"),
        "requestId": response.get("id"),
        "model": reply.model,
        "usage": reply.usage,
        **text_summary(reply.text, limit),
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
