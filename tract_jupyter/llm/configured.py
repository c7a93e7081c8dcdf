"""The client that a tract asks, and which of its models for which kind of request."""

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


class ConfiguredLLM:
    """The client of one tract, with the options of each kind of request. It lives as long as the tract is open.

    Attributes:
        client: who is asked; None if nobody is.
        settings: the options by kind of request.
    """

    def __init__(self) -> None:
        self.client: LLMClient | None = None
        self.settings: dict[str, dict[str, Any]] = {}

    def use(self, client: LLMClient | None) -> None:
        """Ask this client from now on; None removes it.

        Raises:
            LLMConfigError: it has no method `chat`.
        """
        if client is not None and not callable(getattr(client, "chat", None)):
            raise LLMConfigError(
                f"a client has a method chat(messages, **options) that returns a dict in OpenAI's shape; "
                f"{brief_repr(client)} has none"
            )
        self.client = client

    def set_model(
        self, operation: ModelOperation, model: str | None, temperature: float | None
    ) -> dict[str, Any]:
        """Choose the model for one kind of request, and return the options that such requests have now.

        Raises:
            ContentError: there is no such kind of request.
            LLMConfigError: a value cannot be sent.
        """
        settings = self.settings[operation] = settings_of(operation, model, temperature)
        return dict(settings)

    def required(self) -> LLMClient:
        """Return the client.

        Raises:
            LLMConfigError: there is none.
        """
        if self.client is None:
            raise LLMConfigError(
                "there is no language model to ask; call configure_llm(client) first, with an object that has "
                "chat(messages, **options)"
            )
        return self.client

    def for_operation(self, operation: ModelOperation) -> LLMClient:
        """Return the client, with the options of one kind of request.

        Raises:
            LLMConfigError: there is none.
        """
        settings = self.settings.get(operation)
        return ConfiguredClient(self.required(), settings) if settings else self.required()
