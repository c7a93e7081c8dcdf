"""Which model is asked for what, and how: settings of a person that a client is given with each request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.models.checks import check_choice
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from tract_jupyter.protocols import LLMClient

ModelOperation = Literal["chat", "compress", "merge", "tool_result", "consult"]
MODEL_OPERATIONS: Final = get_args(ModelOperation)
"""What a model is asked for: replies, summaries, guidance for conflicts, shorter answers of tools, decisions."""


def settings_of(operation: str, model: str | None, temperature: float | None) -> dict[str, Any]:
    """The options that these settings stand for; what is None is the client's own choice.

    Raises:
        ContentError: there is no such operation.
        LLMConfigError: a value cannot be sent.
    """
    check_choice(operation, MODEL_OPERATIONS, "operation")
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise LLMConfigError(f"a model is the name that the client knows it by, not {brief_repr(model)}")
    if temperature is not None and not _is_temperature(temperature):
        raise LLMConfigError(f"a temperature is a number from 0 on, not {brief_repr(temperature)}")
    given = {"model": model, "temperature": temperature}
    return {name: value for name, value in given.items() if value is not None}


def _is_temperature(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


class ConfiguredClient:
    """A client that is given some options with each request; those of the request itself come first."""

    def __init__(self, client: LLMClient, options: dict[str, Any]) -> None:
        self._client = client
        self._options = options

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Ask; see `protocols.LLMClient`."""
        return self._client.chat(messages, **{**self._options, **options})
