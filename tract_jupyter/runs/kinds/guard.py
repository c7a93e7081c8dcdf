"""Kind `guard`: yes-or-no questions for the conditions of other operations (E22, E23, R40)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.kinds.base import (
    OperationFailed,
    OperationOutput,
    check_params,
    check_template,
    read_params,
    valid_params,
)
from tract_jupyter.runs.kinds.json_output import read_json
from tract_jupyter.runs.kinds.llm import NO_MODEL, RULES, CallParams, ask, engine_config
from tract_jupyter.runs.reading import message_of
from tract_jupyter.runs.templates.engine import render
from tract_jupyter.runs.terms import MAX_TEXT, Data, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.runs.kinds.base import ModelRef, Problem, Runner, Services
    from tract_jupyter.runs.model import Operation, OperationConfig, OperationContext


class GuardOutput(Data):
    """One output of a guard: a key that conditions can name."""

    key: Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9_]*$", max_length=64)]
    title: str | None = None
    description: str | None = None


class _Contract(Data):
    output_contract: Annotated[tuple[GuardOutput, ...], Field(max_length=100)]
    run_on_error: Literal["error", "all_false"] = "error"

    @field_validator("output_contract", mode="after")
    @classmethod
    def _has_outputs(cls, value: tuple[GuardOutput, ...]) -> tuple[GuardOutput, ...]:
        if not value:
            raise ValueError("a guard needs at least one output")
        return value

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(one.key for one in self.output_contract)


class LiquidGuardParams(_Contract):
    """Parameters of a guard whose template renders to JSON."""

    engine: Literal["liquid"] = "liquid"
    template: Annotated[str, Field(max_length=MAX_TEXT)]
    strict_variables: bool = False


class LlmGuardParams(_Contract, CallParams):
    """Parameters of a guard that asks a model. `jsonMode` makes the provider enforce the declared keys."""

    engine: Literal["aux_llm"]
    json_mode: bool = True


GuardParams = LiquidGuardParams | LlmGuardParams
_RULES: Final = {
    **RULES,
    "outputContract": "guard_outputs_required",
    "outputContract.*": "guard_output_key",
    "template": "template_required",
    "engine": "guard_engine",
}


@dataclass(frozen=True, slots=True)
class _Judge:
    params: GuardParams
    services: Services | None

    def __call__(self, context: OperationContext) -> OperationOutput:
        try:
            return self._judged(context)
        except (OperationFailed, TemplateError) as error:
            if self.params.run_on_error == "error":
                raise
            message = error.message if isinstance(error, OperationFailed) else str(error)
            return OperationOutput(
                value=dict.fromkeys(self.params.keys, False), debug={"allFalseBecause": message_of(message)}
            )

    def _judged(self, context: OperationContext) -> OperationOutput:
        params = self.params
        if isinstance(params, LiquidGuardParams):
            text = render(params.template, context, strict=params.strict_variables)
            return OperationOutput(value=_answers(text, params.keys))
        if self.services is None:
            raise OperationFailed.invalid(NO_MODEL)
        options = {"response_format": _response_format(params.keys)} if params.json_mode else {}
        answer = ask(params, self.services, context, options)
        return answer.output(_answers(answer.text, params.keys))


def _answers(text: str, keys: tuple[str, ...]) -> dict[str, bool]:
    """Read a guard's reply: raw JSON with all declared keys, no others, and only booleans (E22)."""
    value = read_json(text)
    if not isinstance(value, dict):
        raise OperationFailed.invalid("A guard's reply must be a JSON object of booleans.")
    missing = [key for key in keys if key not in value]
    extra = [key for key in value if key not in keys]
    other = [key for key in keys if key in value and not isinstance(value[key], bool)]
    problems = [
        f"{problem}: {', '.join(names)}"
        for problem, names in (("missing", missing), ("not declared", extra), ("not boolean", other))
        if names
    ]
    if problems:
        raise OperationFailed.invalid(f"The guard's answers do not match its outputs: {'; '.join(problems)}")
    return {key: value[key] for key in keys}


def _response_format(keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the outputs as a JSON Schema, in the format of OpenAI's `response_format`."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "boolean"} for key in keys},
        "required": list(keys),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "guard", "strict": True, "schema": schema}}


class GuardKind:
    """The kind whose value maps keys to booleans. `runOnError: all_false` turns its own failures into False."""

    name: Final = "guard"
    parameters = (LiquidGuardParams, LlmGuardParams)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters."""
        params = operation.config.params
        return check_params(_kind_of(params), params, _RULES, _check)

    def configured(self, config: OperationConfig) -> OperationConfig:
        """Apply `retry` and `timeoutMs` of the parameters; invalid parameters change nothing."""
        params = valid_params(_kind_of(config.params), config.params)
        return engine_config(config, params) if isinstance(params, CallParams) else config

    def model_ref(self, operation: Operation) -> ModelRef | None:
        """Return the named model; None if it asks none, or if the parameters are invalid."""
        params = valid_params(_kind_of(operation.config.params), operation.config.params)
        return params.model_ref if isinstance(params, CallParams) else None

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return the function that renders or asks, and reads the answers."""
        params = read_params(_kind_of(operation.config.params), operation.config.params)
        problems = _keys_twice(params)
        if problems:
            raise OperationFailed(ErrorCode.VALIDATION, problems[0][1])
        return _Judge(params, services)

    def outputs(self, operation: Operation) -> tuple[str, ...]:
        """Return the keys for conditions; empty if the parameters are invalid."""
        params = valid_params(_kind_of(operation.config.params), operation.config.params)
        return () if params is None else params.keys


def _kind_of(params: Mapping[str, Any]) -> type[LiquidGuardParams | LlmGuardParams]:
    return LlmGuardParams if params.get("engine") == "aux_llm" else LiquidGuardParams


def _check(params: GuardParams) -> list[Problem]:
    if isinstance(params, LiquidGuardParams):
        return _keys_twice(params) + check_template(params.template, "template")
    return _keys_twice(params) + params.template_problems()


def _keys_twice(params: GuardParams) -> list[Problem]:
    twice = sorted({key for key in params.keys if params.keys.count(key) > 1})
    return (
        [("guard_output_duplicate", f"outputContract has {', '.join(twice)} more than once")] if twice else []
    )
