"""The language model that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.facade.parts import Parts
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
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
