"""A model that writes summaries, and says first what matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.llm.reply import Reply
from tract_jupyter.prompts import compression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import Message
    from tract_jupyter.protocols import LLMClient


class LLMSummarizer:
    """A `Summarizer` that asks a client."""

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    def __call__(
        self,
        messages: Sequence[Message],
        criteria: Sequence[dict[str, Any]],
        instructions: str | None,
        target_tokens: int | None,
    ) -> str:
        """Return the summary; see `protocols.Summarizer`.

        Raises:
            LLMResponseError: what the client gave back is no reply.
        """
        kept = [part for each in criteria for part in (each["instructions"], *each["match_patterns"]) if part]
        asked = compression.summary_request(
            [message_text(message) for message in messages], kept, instructions, target_tokens
        )
        return _ask(self._client, compression.SUMMARIZE, asked)


def guidance(client: LLMClient, task: str, texts: Sequence[str], instructions: str | None) -> str:
    """What matters in some texts, before something is done with them.

    Args:
        client: who is asked.
        task: what is about to be done, as in `sum messages up`.
        texts: what it is done with.
        instructions: what whoever asked wants.

    Raises:
        LLMResponseError: what the client gave back is no reply.
    """
    return _ask(
        client, compression.GUIDE.format(task=task), compression.guidance_request(texts, instructions)
    )


def message_text(message: Message) -> str:
    """A message with its role, as text."""
    return f"[{message.role}] {message.content}"


def _ask(client: LLMClient, system: str, asked: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": asked}]
    return Reply.of(client.chat(messages)).text
