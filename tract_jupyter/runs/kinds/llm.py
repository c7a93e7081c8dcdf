"""Kind `llm`: one question to a model beside the main call; its text or its JSON is the value (E20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.kinds.base import OperationFailed, Output
from tract_jupyter.runs.kinds.json_output import read_json
from tract_jupyter.runs.kinds.llm_call import Answer, ask
from tract_jupyter.runs.kinds.llm_params import RULES, LlmParams, engine_config
from tract_jupyter.runs.kinds.params import check_params, check_template, read_params
from tract_jupyter.runs.kinds.schema_language import mismatches

if TYPE_CHECKING:
    from tract_jupyter.runs.kinds.base import ModelRef, Problem, Runner, Services
    from tract_jupyter.runs.model import Operation, OperationConfig, OperationContext


@dataclass(frozen=True, slots=True)
class _Ask:
    params: LlmParams
    services: Services

    def __call__(self, context: OperationContext) -> Output:
        answer = ask(self.params, self.services, context)
        try:
            value = self._value(answer.text)
        except OperationFailed as failed:
            raise _with_log(failed, answer) from None
        return Output(
            value=value, usage=answer.usage, inputs=answer.inputs, outputs=answer.outputs, debug=answer.debug
        )

    def _value(self, text: str) -> Any:
        params = self.params
        if params.output_mode == "text":
            return text
        value = read_json(text, params.json_parse_mode or "raw", params.json_custom_pattern)
        problems = mismatches(value, params.json_schema) if params.strict_schema_validation else []
        if problems:
            raise OperationFailed.invalid(f"the reply does not fit jsonSchema: {'; '.join(problems)}")
        return value


class LlmKind:
    """Attempts and time are the engine's; a bad answer is `output_parse_error` or `validation_error`, never retried."""

    name: Final = "llm"
    anywhere: Final = False

    def check(self, operation: Operation) -> list[Problem]:
        """What is wrong with `params`."""
        return check_params(LlmParams, operation.config.params, RULES, _check)

    def configured(self, config: OperationConfig) -> OperationConfig:
        """With `retry` and `timeoutMs` of the parameters, for the engine; unchanged if they are wrong."""
        try:
            return engine_config(config, read_params(LlmParams, config.params))
        except OperationFailed:
            return config

    def model_ref(self, operation: Operation) -> ModelRef | None:
        """Which model it names; None if the parameters are wrong, too."""
        try:
            return read_params(LlmParams, operation.config.params).model_ref
        except OperationFailed:
            return None

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Ask, and read the reply."""
        params = read_params(LlmParams, operation.config.params)
        problems = params.problems()
        if problems:
            raise OperationFailed.invalid("; ".join(message for _, message in problems))
        return _Ask(params, services)


def _check(params: LlmParams) -> list[Problem]:
    templates = check_template(params.prompt, "prompt") + check_template(params.system or "", "system")
    return params.problems() + templates


def _with_log(failed: OperationFailed, answer: Answer) -> OperationFailed:
    outputs = {**answer.outputs, **failed.outputs}
    return OperationFailed(failed.code, failed.message, failed.details, inputs=answer.inputs, outputs=outputs)
