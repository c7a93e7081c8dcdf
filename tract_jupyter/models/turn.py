"""The turns of a model: their outcomes, their results, and their tool calls in the shapes of the providers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json

if TYPE_CHECKING:
    from decimal import Decimal

    from tract_jupyter.models.commit import CommitInfo


class TurnOutcome(StrEnum):
    """The outcome of a turn."""

    ANSWER = "answer"
    """The model replied without a tool call."""
    LIMIT = "limit"
    """The turn reached a limit, or its reply was cut at its limit."""
    REPEAT = "repeat"
    """The model repeated a call with the same result."""
    WAITING = "waiting"
    """Calls wait for the user's decision: no user was available, or the user did not answer."""
    STOPPED = "stopped"
    """The user stopped or paused the turn."""
    REFUSED = "refused"
    """The model declined to answer, or the provider's filter ended its reply."""
    ERROR = "error"
    """The request failed. Python code gets an exception instead."""


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A committed reply at the end of a turn. `str` returns its text.

    Attributes:
        text: the last text; empty if the reply only calls tools.
        commit_info: the assistant's message. If the turn was stopped before one, the user's message.
        usage: the reported tokens of all requests of the turn; empty if the provider reports none. `estimated_tokens`
            counts requests without a report, or with zeros.
        generation_config: the model and the parameters.
        tool_calls: the calls without an answer. They wait for a decision, or for `tool_result` if the turn had only
            tool schemas.
        outcome: the outcome of the turn.
        note: the meaning of the outcome and how to continue, in a sentence. Empty for an answer within its limits.
        steps: the number of requests.
        calls: the number of tool calls, including calls of scripts.
    """

    text: str
    commit_info: CommitInfo
    usage: dict[str, Any] = field(default_factory=dict)
    generation_config: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()
    outcome: TurnOutcome = TurnOutcome.ANSWER
    note: str = ""
    steps: int = 1
    calls: int = 0

    @property
    def cost(self) -> Decimal | None:
        """The cost in US dollars; None if the tokens or the price of the model are unknown."""
        from decimal import Decimal

        costs = [usage.get("cost") for usage in (self.usage, *self.usage.get("failed_tries", ()))]
        is_known = all(
            isinstance(usd, int | float) and not isinstance(usd, bool) and 0 <= usd < float("inf")
            for usd in costs
        )
        return sum((Decimal(str(usd)) for usd in costs), Decimal(0)) if is_known else None

    def __str__(self) -> str:
        return self.text


NO_ARGUMENTS: Final = frozenset({"", "null"})
"""Texts other than `{}` that models write for a call without arguments."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the id that its result must name, the tool, and the arguments."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read OpenAI's shape, Anthropic's tool_use block, or `{"id", "name", "arguments"}`."""
        try:
            if data.get("cut"):
                raise ValueError("it was cut before its arguments were complete")
            if "function" in data:
                function = data["function"]
                return cls(_text(data["id"]), _text(function["name"]), _arguments(function.get("arguments")))
            arguments = data["input"] if data.get("type") == "tool_use" else data.get("arguments")
            return cls(_text(data["id"]), _text(data["name"]), _arguments(arguments))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ContentError(
                f"this is not a tool call ({error!r}): use OpenAI's shape, Anthropic's tool_use block, "
                'or {"id": ..., "name": ..., "arguments": {...}}'
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}

    def to_openai(self) -> dict[str, Any]:
        """Return an entry of `tool_calls`; the arguments are JSON text."""
        function = {"name": self.name, "arguments": canonical_json(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        """Return a `tool_use` block."""
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.arguments}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"ids and names must be strings, not {type(value).__name__}")
    return value


def _arguments(arguments: Any) -> dict[str, Any]:
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in NO_ARGUMENTS):
        return {}
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(value, dict):
        raise TypeError(f"arguments must be an object, not {type(value).__name__}")
    return value
