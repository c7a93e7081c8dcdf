"""The parts of messages and replies that OpenAI's chat shape, the form between packages, does not have.

Each dialect translates into this form and back. Other parts are stored as the provider sent them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard

from tract_jupyter.llm.thinking import split_thought

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.llm.blocks import ProviderBlocks

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "pause", "incomplete"]
"""Why a reply ended. Chat completions have the first four. Other dialects add: the model declined; the provider paused
a long turn, and continues when the message is sent back; something else ended the reply early."""

REFUSED: Final = frozenset({"content_filter", "refusal"})
"""The reasons of a reply that is not sent back: a filter ended it, or the model declined."""
CUT_REASONS: Final = REFUSED | {"length", "incomplete"}
"""The reasons of a reply that is not whole."""

CHARACTERS_PER_TOKEN: Final = 4
"""Approximate number, used if no better counter is available."""
LARGEST_COUNT: Final = 10**12
"""The maximum of a reported number of tokens or dollars. Calculations with larger numbers are not exact."""
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
"""The names that servers have for the text of the reasoning."""
INVALID_JSON: Final = "INVALID_JSON"
"""The key under which arguments are sent back that are not a JSON object."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request, with the same names for each provider. None means unknown; never 0.

    Attributes:
        input_tokens: the whole prompt, including cache reads and writes.
        cached_tokens: the part that was read from the provider's cache.
        cache_write_tokens: the part that was written to it.
        output_tokens: the whole reply, with the reasoning.
        reasoning_tokens: the reasoning.
        raw: the provider's report.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    raw: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, response: Mapping[str, Any]) -> Usage:
        """Read the usage of a response in the form between packages, or from a user's client, in any dialect's names.

        Zeros are unknown: every request has tokens, and so has every reply with content. A server that reports zeros
        has not counted.
        """
        usage = cls._read(response)
        is_counted = usage.output_tokens or (usage.input_tokens and not _says_something(response))
        return replace(
            usage,
            input_tokens=usage.input_tokens or None,
            output_tokens=usage.output_tokens if is_counted else None,
        )

    @classmethod
    def _read(cls, response: Mapping[str, Any]) -> Usage:
        usage, raw = response.get("usage"), response.get("provider_usage")
        if not isinstance(usage, dict):
            return cls(raw=raw if isinstance(raw, dict) else {})
        if "input_tokens" in usage and "prompt_tokens" not in usage:
            is_anthropic = any(name.startswith("cache_") for name in usage)
            return cls.of_anthropic(usage) if is_anthropic else cls.of_responses(usage)
        chat = cls._of_openai(usage, "prompt_tokens", "completion_tokens")
        cached = chat.cached_tokens
        return replace(
            chat,
            cached_tokens=_count(usage, "prompt_cache_hit_tokens")
            if cached is None
            else cached,  # DeepSeek's
            raw=raw if isinstance(raw, dict) else usage,
        )

    @classmethod
    def of_anthropic(cls, usage: Mapping[str, Any]) -> Usage:
        """Read the usage of Anthropic's Messages, whose `input_tokens` exclude cached tokens."""
        read, written = (
            _count(usage, "cache_read_input_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        )
        fresh = _count(usage, "input_tokens")
        return cls(
            None if fresh is None else fresh + (read or 0) + (written or 0),
            read,
            written,
            _count(usage, "output_tokens"),
            _count(_part(usage, "output_tokens_details"), "thinking_tokens"),
            dict(usage),
        )

    @classmethod
    def of_responses(cls, usage: Mapping[str, Any]) -> Usage:
        """Read the usage of OpenAI's Responses."""
        return cls._of_openai(usage, "input_tokens", "output_tokens")

    @classmethod
    def _of_openai(cls, usage: Mapping[str, Any], prompt: str, reply: str) -> Usage:
        """Read the usage of an API of OpenAI. `prompt` and `reply` are its names of the counts."""
        of_prompt, of_reply = _part(usage, f"{prompt}_details"), _part(usage, f"{reply}_details")
        return cls(
            _count(usage, prompt),
            _count(of_prompt, "cached_tokens"),
            _count(of_prompt, "cache_write_tokens"),
            _count(usage, reply),
            _count(of_reply, "reasoning_tokens"),
            dict(usage),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the `usage` of a response: the known counts, with names of chat completions."""
        prompt = {"cached_tokens": self.cached_tokens, "cache_write_tokens": self.cache_write_tokens}
        completion = {"reasoning_tokens": self.reasoning_tokens}
        both = (self.input_tokens, self.output_tokens)
        fields: dict[str, Any] = {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": None if None in both else sum(count or 0 for count in both),
            "prompt_tokens_details": _known(prompt) or None,
            "completion_tokens_details": _known(completion) or None,
        }
        return _known(fields)


def first_choice(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a response; empty if it has none."""
    choices = response.get("choices")
    if isinstance(choices, list | tuple):
        for choice in choices:
            if isinstance(choice, dict):
                return choice
    return {}


def _says_something(response: Mapping[str, Any]) -> bool:
    """Return True if a response has a reply with a text, reasoning or calls."""
    message = first_choice(response).get("message")
    parts = ("content", "refusal", "reasoning", "reasoning_content", "tool_calls")
    return isinstance(message, dict) and any(message.get(name) for name in parts)


def larger_usage(before: object, now: object) -> object:
    """Return the token counts of a stream so far: the maximum of each count, because some streams end with zeros."""
    if not isinstance(now, dict) or not isinstance(before, dict):
        return now if isinstance(now, dict) else before
    merged = dict(before)
    for name, value in now.items():
        known = before.get(name)
        if isinstance(known, dict):
            merged[name] = larger_usage(known, value)
        elif value is not None and not (is_count(known) and not (is_count(value) and value > known)):
            merged[name] = value
    return merged


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _part(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, dict) else {}


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    number = usage.get(name)
    return number if is_count(number) else None


def is_count(number: object) -> TypeGuard[int]:
    """Return True for a valid number of tokens. A server may report anything."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LARGEST_COUNT


# --- writing a reply


@dataclass(slots=True)
class WrittenCall:
    """A tool call as a dialect read it."""

    id: str
    name: str
    arguments: str
    is_cut: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return an entry of `tool_calls`. A call that must never run has `cut`."""
        function = {"name": self.name, "arguments": self.arguments}
        call = {"id": self.id, "type": "function", "function": function}
        return {**call, "cut": True} if self.is_cut else call


@dataclass(slots=True)
class WrittenReply:
    """A reply as a dialect read it.

    Attributes:
        text: the text, or None.
        calls: the tool calls. Ids may be missing.
        reasoning: the reasoning, as far as the provider returns it.
        reasoning_field: the provider's name for it.
        refusal: the text of a refusal.
        finish_reason: the reason for the end; None if the reply is incomplete or the provider gives none.
        provider_finish_reason: the provider's word for this reason.
        blocks: the provider blocks to store; None if the message contains everything.
        outer: `id`, `created`, `model`, `usage`, ... of the response.
    """

    text: str | None
    calls: list[WrittenCall]
    finish_reason: FinishReason | None
    provider_finish_reason: str | None = None
    reasoning: str = ""
    reasoning_field: str = ""
    refusal: str = ""
    blocks: ProviderBlocks | None = None
    outer: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the response in the form between packages."""
        reasoning, text = split_thought(self.text or "", self.reasoning)
        message: dict[str, Any] = {"role": "assistant", "content": self.text and (text or None)}
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            _name_calls(self.calls, self.outer.get("id"))
            message["tool_calls"] = [call.to_dict() for call in self.calls]
        if reasoning:
            message |= {
                "reasoning": reasoning,
                "reasoning_field": self.reasoning_field if self.reasoning else "content",
            }
        if self.blocks is not None:
            message["provider_blocks"] = self.blocks.to_dict()
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        if self.provider_finish_reason not in {None, self.finish_reason}:
            choice["provider_finish_reason"] = self.provider_finish_reason
        return {**self.outer, "object": "chat.completion", "choices": [choice]}


_FINISH: Final[tuple[tuple[FinishReason, re.Pattern[str]], ...]] = (
    ("pause", re.compile("pause")),
    ("refusal", re.compile("refus|declin")),
    (
        "content_filter",
        re.compile("filter|safety|recitation|block|prohibit|guardrail|moderat|spii|toxic|sensitive|violat"),
    ),
    ("length", re.compile("length|limit|max|context|window|truncat|exceed")),
    (
        "incomplete",
        re.compile(
            "incomplete|abort|cancel|error|fail|time_?out|interrupt|malformed|insufficient|other|overload|preempt"
            "|terminat|kill|deadline|too_many|unexpected|language|in_progress|queued"
        ),
    ),
)
"""Patterns of the servers' words for the end of a reply. Any other word is a plain end."""


def finish_of(said: str | None, *, calls: bool, refusal: bool = False) -> FinishReason | None:
    """Return the reason for the end of a reply; None if the provider gives none. Such a reply may be complete or cut.

    Args:
        said: the provider's word.
        calls: True if the reply has tool calls, because providers then differ.
        refusal: True if the model declined.
    """
    word = (said or "").casefold()
    known = next((reason for reason, pattern in _FINISH if pattern.search(word)), None)
    return known or ("tool_calls" if calls else "refusal" if refusal else "stop" if word else None)


_LAST_TOKEN: Final = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|[.eE][+-]?|\\?u?[\da-fA-F]{0,4}")
"""The end of a JSON text that was cut within a word, a number or an escape."""


def is_unfinished(text: str) -> bool:
    """Return True if a text is a JSON object or list that was cut. A blank text is not."""
    try:
        json.loads(text, strict=False)  # a line break within a text is invalid, and cuts nothing
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        was_cut = not rest.strip() or error.msg.startswith("Unterminated string")
        return text.lstrip()[:1] in {"{", "["} and (was_cut or _LAST_TOKEN.fullmatch(rest) is not None)
    except (ValueError, RecursionError):  # a number that is too long, or nested too deeply
        return False
    return False


def sound(text: str) -> str:
    """Return a text with split characters joined. A single half of a character is replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_ID: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_ID: Final = 40


def _name_calls(calls: list[WrittenCall], reply_id: object) -> None:
    """Give each call an id that is unique in the reply, because the answers refer to it."""
    used: set[str] = set()
    for place, call in enumerate(calls):
        first = call.id or f"call_{_ID.sub('_', str(reply_id or ''))[: _LONGEST_ID - 10]}_{place}"
        call.id = _unused_id(first, used)
        used.add(call.id)


def _unused_id(first: str, used: set[str]) -> str:
    candidate, number = first, 1
    while candidate in used:
        number += 1
        candidate = f"{first[: _LONGEST_ID - 5]}_{number}"
    return candidate


# --- sending messages


def with_own_ids(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the messages with call ids that are unique and valid for every provider; answers get the same ids.

    The same messages always get the same ids, so a prefix that was sent before stays the same.
    """
    used: set[str] = set()
    open_calls: dict[str, list[str]] = {}  # sent ids by original id, the next one to answer first
    for message in messages:
        calls = message.get("tool_calls")
        if message.get("role") == "tool":
            original = str(message.get("tool_call_id") or "")
            sent = open_calls.get(original) or [_unused_id(_clean(original), set())]
            yield {**message, "tool_call_id": sent.pop(0)}
        elif isinstance(calls, list | tuple) and calls:
            named = []
            for place, call in enumerate(calls):
                original = str(call.get("id") or f"call_{place}")
                wire = _unused_id(_clean(original), used)
                used.add(wire)
                open_calls.setdefault(original, []).append(wire)
                named.append({**call, "id": wire})
            yield {**message, "tool_calls": named}
        else:
            yield dict(message)


def _clean(text: str) -> str:
    return _ID.sub("_", text)[:64] or "call"


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the dicts in a list. A provider may send anything."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def text_of(content: object) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def tokens_of(usage: Mapping[str, Any]) -> int | None:
    """Return the tokens of a request and its reply, with the estimated part; None if they were not counted."""
    if not usage:
        return None
    counts = Usage.of({"usage": dict(usage)})
    known = [count for count in (counts.input_tokens, counts.output_tokens) if count is not None]
    total, estimated = usage.get("total_tokens"), usage.get("estimated_tokens")
    if is_count(estimated) and estimated:
        return sum(known) + estimated
    if counts.input_tokens is not None:  # otherwise, only the reply was counted
        return sum(known)
    return total if is_count(total) and total else None
