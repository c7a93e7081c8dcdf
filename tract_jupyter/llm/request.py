"""A request in the words of chat completions, which each dialect translates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.models import brief_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.llm.blocks import SentBlocks

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_NEED_TOOLS: Final = ("tool_choice", "parallel_tool_calls")


@dataclass(slots=True)
class ModelRequest:
    """A request before its translation.

    Attributes:
        messages: the conversation, in OpenAI's shape.
        model: the provider's name of the model.
        stream: True to stream the reply.
        options: the options without the fields below. A dialect may remove some.
        blocks: returns the raw blocks of earlier replies.
        tools: the tools, possibly empty.
        limit: the token limit of the reply; None without a limit.
        has_new_limit: True if the caller used `max_completion_tokens`.
        resend_reasoning: True if the server wants the text of the reasoning back; None if the caller does not say.
    """

    messages: list[dict[str, Any]]
    model: str
    stream: bool
    options: dict[str, Any]
    blocks: SentBlocks
    tools: list[dict[str, Any]]
    limit: int | None
    has_new_limit: bool
    resend_reasoning: bool | None

    @classmethod
    def of(
        cls, messages: list[dict[str, Any]], options: dict[str, Any], model: str, blocks: SentBlocks, *, stream: bool
    ) -> ModelRequest:  # fmt: skip
        """Read the options of a call."""
        options = dict(options)
        for name in ("model", "stream"):
            options.pop(name, None)  # the caller does not decide about streaming
        tools = list(options.pop("tools", None) or ())
        if not tools:
            choice, *_ = (options.pop(name, None) for name in _NEED_TOOLS)
            if choice not in (None, "auto", "none"):
                raise LLMConfigError(
                    f"tool_choice={brief_repr(choice)} needs tools, but the request has none"
                )
        limits = [options.pop(name, None) for name in _LIMITS]
        distinct = {limit for limit in limits if limit is not None}
        if len(distinct) > 1:
            raise LLMConfigError(
                f"max_tokens and max_completion_tokens mean the same, but are {brief_repr(limits)}; pass only one"
            )
        resend = options.pop("resend_reasoning", None)
        return cls(
            messages, model, stream, options, blocks, tools, next(iter(distinct), None), limits[1] is not None,
            None if resend is None else bool(resend),
        )  # fmt: skip

    def refuse(self, names: Iterable[str], dialect: str) -> None:
        """Remove options without a value."""
        for name in names:
            if self.options.pop(name, None) is not None:
                raise cannot_send(f"the option {name}", dialect, "leave it out")

    def named_choice(self) -> str | None:
        """Return the name of the tool that must be called, from the options of chat completions; None without one."""
        choice = self.options.get("tool_choice")
        function = choice.get("function") if isinstance(choice, dict) else None
        return function.get("name") if isinstance(function, dict) else None


def cannot_send(what: str, dialect: str, advice: str) -> LLMConfigError:
    """Return the error for a part that a dialect cannot express."""
    return LLMConfigError(f"{dialect} does not accept {what}, so nothing was sent; {advice}")
