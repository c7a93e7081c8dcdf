"""The language model that is asked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.facade.parts import Parts
from tract_jupyter.llm.connections import ConfiguredClient, settings_of
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from tract_jupyter.llm.connections import ModelOperation, Models
    from tract_jupyter.protocols import LLMClient


class Asking(Parts):
    """The part of `Tract` that knows a client."""

    _client: LLMClient | None = None

    def configure_llm(self, client: LLMClient | None) -> None:
        """Ask this client from now on; None removes it.

        Args:
            client: has `chat(messages, **options)`, see `protocols.LLMClient`.

        Raises:
            LLMConfigError: it has no such method.
        """
        if client is not None and not callable(getattr(client, "chat", None)):
            raise LLMConfigError(
                f"a client has a method chat(messages, **options) that returns a dict in OpenAI's shape; "
                f"{brief_repr(client)} has none"
            )
        self._client = client

    @property
    def llm(self) -> LLMClient:
        """The client that is asked.

        Raises:
            LLMConfigError: there is none.
        """
        if self._client is None:
            raise LLMConfigError(
                "there is no language model to ask; call configure_llm(client) first, with an object that has "
                "chat(messages, **options)"
            )
        return self._client

    @cached_property
    def models(self) -> Models:
        """Models by name, for operations of runs that name one; nothing is kept beyond this object, no key at all."""
        from tract_jupyter.llm.connections import Models

        return Models()

    @cached_property
    def model_settings(self) -> dict[str, dict[str, Any]]:
        """What `configure_model` set, by operation; nothing is kept beyond this object, as the client is not."""
        return {}

    def configure_model(
        self,
        model: str | None = None,
        *,
        operation: ModelOperation = "chat",
        temperature: float | None = None,
    ) -> dict[str, Any]:
        """Choose the model for one kind of request, from now on; what is left out is the client's own choice.

        Args:
            model: the name that the client knows it by.
            operation: `chat` for replies, `compress` for summaries, `merge` for guidance on conflicts, `tool_result`
                for shorter answers of tools, `consult` where a model decides about a pending.
            temperature: from 0 on; how much the replies vary.

        Returns:
            The options that such requests have now. Those of a call, as in `generate(model=...)`, come first.

        Raises:
            ContentError: there is no such operation.
            LLMConfigError: a value cannot be sent.
        """
        settings = self.model_settings[operation] = settings_of(operation, model, temperature)
        return dict(settings)

    def llm_for(self, operation: ModelOperation) -> LLMClient:
        """The client, with the options of one kind of request.

        Raises:
            LLMConfigError: there is none.
        """
        settings = self.model_settings.get(operation)
        return ConfiguredClient(self.llm, settings) if settings else self.llm
