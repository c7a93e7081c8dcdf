"""A model that writes summaries, and says first what matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tract_jupyter.llm.reply import Reply
from tract_jupyter.prompts import compression, tool_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import Message
    from tract_jupyter.protocols import LLMClient


class LLMSummarizer:
    """A `Summarizer` that asks a client.

    Args:
        client: who is asked.
        system_prompt: instead of the usual words about the task.
        context: the whole context, which is shown beside the messages, to be understood by.
    """

    task: ClassVar[str] = compression.SUMMARIZE

    def __init__(
        self, client: LLMClient, *, system_prompt: str | None = None, context: Sequence[Message] = ()
    ) -> None:
        self._client = client
        self._system_prompt = self.task if system_prompt is None else system_prompt
        self._context = context

    def __call__(
        self,
        messages: Sequence[Message],
        criteria: Sequence[dict[str, Any]],
        instructions: str | None,
        target_tokens: int | None,
    ) -> str:
        """Return the text; see `protocols.Summarizer`.

        Raises:
            LLMResponseError: what the client gave back is no reply.
        """
        kept = [part for each in criteria for part in (each["instructions"], *each["match_patterns"]) if part]
        wanted = compression.wishes(instructions, target_tokens, kept)
        asked = self._request(messages, wanted, _around(self._context, messages))
        return _ask(self._client, self._system_prompt, asked)

    def _request(self, messages: Sequence[Message], wanted: str, around: Sequence[str]) -> str:
        return compression.summary_request(list(map(message_text, messages)), wanted, around)


class AnswerShortener(LLMSummarizer):
    """The same for single answers of tools."""

    task = tool_results.SYSTEM

    def _request(self, messages: Sequence[Message], wanted: str, around: Sequence[str]) -> str:
        (answer,) = messages
        return tool_results.request(answer.name or "", str(answer.content), wanted, around)


def _around(context: Sequence[Message], taken: Sequence[Message]) -> list[str]:
    """The other messages of a context, as texts."""
    hashes = {message.commit_hash for message in taken}
    return [message_text(message) for message in context if message.commit_hash not in hashes]


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
