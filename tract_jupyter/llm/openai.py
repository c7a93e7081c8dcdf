"""OpenAI's chat completions. Most providers use them with deviations: Ollama, vLLM, llama.cpp, DeepSeek, ...

References: https://platform.openai.com/docs/api-reference/chat, /docs/api-reference/chat-streaming. docs/models.md
lists the supported deviations.
"""

from __future__ import annotations

import hashlib
import json
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from tract_jupyter.llm.blocks import ProviderBlocks
from tract_jupyter.llm.http import HTTPClient
from tract_jupyter.llm.messages import (
    CUT_REASONS,
    REASONING_FIELDS,
    WrittenCall,
    WrittenReply,
    dicts,
    finish_of,
    is_unfinished,
    larger_usage,
    sound,
    text_of,
)
from tract_jupyter.llm.providers import OPENAI, OPENAI_KEY
from tract_jupyter.llm.reply import RawCall
from tract_jupyter.llm.thinking import split_thought
from tract_jupyter.models import Delta, brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tract_jupyter.exceptions import LLMRequestError
    from tract_jupyter.llm.blocks import Dialect, SentBlocks
    from tract_jupyter.llm.request import ModelRequest
    from tract_jupyter.llm.sse import Assembly

_NOT_SENT_EMPTY: Final = frozenset({"prompt_cache_key", "stream_options"})
_DETAILS: Final = "reasoning_details"  # OpenRouter's field, which must be sent back
# these servers refuse a message with tool calls but without its reasoning, even if it is empty
_WANT_REASONING: Final = ("deepseek.com", "moonshot.ai", "moonshot.cn")


class OpenAIClient(HTTPClient):
    """A thread-safe client for OpenAI's chat completions and the many compatible servers; see `models.LLMClient`.

    `base_url` ends with the version, such as `http://localhost:11434/v1` for Ollama. The default key is in the
    environment variable `OPENAI_API_KEY`. `chat` has one extra option, `resend_reasoning`. Set it to True if the server
    needs the text of the reasoning back. The arguments are the same as for every `HTTPClient`.
    """

    dialect: ClassVar[Dialect] = "chat"
    provider_url: ClassVar[str] = OPENAI
    path: ClassVar[str] = "/chat/completions"
    key_variable: ClassVar[str] = OPENAI_KEY
    about_url: ClassVar[str] = "base_url, which ends with the version (/v1)"
    hints: ClassVar[Mapping[str, str]] = {
        r"reasoning_effort.*/v1/responses|/v1/responses.*reasoning_effort":
            "Use ResponsesClient for this model, or leave reasoning_effort out if the request has tools",
        r"Use 'max_completion_tokens'|max_completion_tokens.*instead":
            "Use max_completion_tokens instead of max_tokens",
        r"reasoning_content.*(missing|must be passed|required)|[Mm]issing.*reasoning_content":
            "Set resend_reasoning=True, because this server needs the reasoning",
        r"stream_options": "Set stream_options=None, because this server does not know the option",
    }  # fmt: skip

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        host = urlsplit(self.base_url).hostname or ""
        wants, options = request.resend_reasoning, request.options
        resends = host.endswith(_WANT_REASONING) if wants is None else wants
        is_openai = self.base_url == OPENAI
        body = {
            "model": request.model,
            "messages": [_sent(message, request.blocks, resends=resends) for message in request.messages],
            **options,
            "stream": request.stream,
        }
        if request.tools:
            body["tools"] = request.tools
        if is_openai:
            body.setdefault("prompt_cache_key", cache_key(request.messages, request.tools))
        if request.limit is not None:
            # the old name is refused by OpenAI's reasoning models, the new one is not known to many other servers
            is_new = is_openai or request.has_new_limit
            body["max_completion_tokens" if is_new else "max_tokens"] = request.limit
        if request.stream and "stream_options" not in options:
            padding = {"include_obfuscation": False} if is_openai else {}
            body["stream_options"] = {"include_usage": True, **padding}
        if not request.stream:
            body["stream_options"] = None
        return {
            name: value for name, value in body.items() if value is not None or name not in _NOT_SENT_EMPTY
        }

    def _read(self, reply: dict[str, Any], model: str) -> dict[str, Any]:
        first = _first_choice(reply)
        if not first and reply.get("error"):
            raise self._failures.reported(reply["error"])
        message = first.get("message")
        if not isinstance(message, dict):
            raise self._no_choice(reply)
        self._check_content(message)
        outer = {name: value for name, value in reply.items() if name != "choices"}
        reason = first.get("finish_reason")
        return _written(message, reason if isinstance(reason, str) else None, outer, model).to_dict()

    def _assembly(self, model: str) -> Assembly:
        return _ChatAssembly(model, self._failures.reported, self._no_choice, self._check_content)

    def _no_choice(self, reply: dict[str, Any]) -> LLMRequestError:
        there = ", ".join(map(str, reply)) or "nothing"
        why = f"its choices are {brief_repr(reply.get('choices'))}, without a message"
        return self._failures.error(
            why if "choices" in reply else f"its reply has no choices (it has {there})",
            "Try again, or use another model",
        )

    def _check_content(self, message: dict[str, Any]) -> None:
        content = message.get("content")
        if content is None or isinstance(content, str):
            return
        if not isinstance(content, list) or len(dicts(content)) != len(content):
            raise self._failures.error(
                f"the content of its reply is {brief_repr(content)}, not a text",
                "Try again, or use another model",
            )


# --- sending


def cache_key(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return OpenAI's cache key for a conversation. All its requests have the same key, because it only grows."""
    begins = list(takewhile(lambda message: message.get("role") != "assistant", messages))
    text = json.dumps([tools, begins], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _sent(message: dict[str, Any], blocks: SentBlocks, *, resends: bool) -> dict[str, Any]:
    """Return a message for sending. The provider's own fields stay unchanged."""
    if message.get("role") == "tool":
        return {name: value for name, value in message.items() if name != "is_error"}
    if message.get("role") != "assistant":
        return message
    sent: dict[str, Any] = {
        name: message[name] for name in ("role", "content", "name", "refusal", "audio") if name in message
    }
    calls = dicts(message.get("tool_calls"))
    raw = next(iter(blocks.of(message, lambda candidate: _is_unchanged(candidate[0], message, calls))), {})
    if calls:
        received = dicts(raw.get("tool_calls"))
        sent["tool_calls"] = [
            _sent_call(call, place, received[place] if received else {}) for place, call in enumerate(calls)
        ]
        sent["content"] = message.get("content") or None
    if raw.get(_DETAILS):
        sent[_DETAILS] = raw[_DETAILS]
    field = next((name for name in REASONING_FIELDS if raw.get(name)), REASONING_FIELDS[0])
    if resends and (calls or raw.get(field)):
        sent[field] = raw.get(field) or ""
    return sent


def _is_unchanged(raw: Mapping[str, Any], message: Mapping[str, Any], calls: list[dict[str, Any]]) -> bool:
    """Return True if a message is unchanged since it arrived."""
    received = dicts(raw.get("tool_calls"))
    before, now = ([RawCall.of(call, 0) for call in each] for each in (received, calls))
    is_same = [(call.name, call.sent_values()) for call in before] == [
        (call.name, call.sent_values()) for call in now
    ]
    thought = next((str(raw[name]) for name in REASONING_FIELDS if raw.get(name)), "")
    text = split_thought(sound(text_of(raw.get("content"))), thought).text
    return is_same and text == text_of(message.get("content"))


def _sent_call(call: dict[str, Any], place: int, original: dict[str, Any]) -> dict[str, Any]:
    """Return a call with the provider's extra fields, such as the signature of the preceding reasoning."""
    more = {
        name: value for name, value in original.items() if name not in {"index", "id", "type", "function"}
    }
    return {**more, **RawCall.of(call, place).to_openai()}


# --- reading


def _first_choice(reply: dict[str, Any]) -> dict[str, Any]:
    choices = reply.get("choices")
    # of several, the first; a chunk may have a piece of another one
    return next((choice for choice in dicts(choices) if choice.get("index") in (0, None)), {})


def _written(
    raw: dict[str, Any], reason: str | None, outer: dict[str, Any], model: str, *, is_whole: bool = True
) -> WrittenReply:
    """Return the reply of a provider's message, complete or assembled from a stream."""
    parts = dicts(raw.get("tool_calls"))
    calls = _calls(parts, reason if is_whole else None)
    content, refusal = raw.get("content"), raw.get("refusal")
    refusal = sound(refusal) if isinstance(refusal, str) else ""
    field = next((name for name in REASONING_FIELDS if isinstance(raw.get(name), str) and raw[name]), "")
    return WrittenReply(
        text=None if content is None else sound(text_of(content)),
        calls=calls,
        finish_reason=finish_of(reason, calls=bool(calls), refusal=bool(refusal)) if is_whole else None,
        provider_finish_reason=reason,
        reasoning=sound(raw[field]) if field else "",
        reasoning_field=field,
        refusal=refusal,
        blocks=None if _says_all(raw, parts) else ProviderBlocks("chat", model, (raw,)),
        outer=outer,
    )


def _calls(parts: list[dict[str, Any]], reason: str | None) -> list[WrittenCall]:
    read = [RawCall.of(call, place) for place, call in enumerate(parts)]
    return [
        WrittenCall(
            str(call.given.get("id") or ""), call.name, sound(call.arguments),
            is_cut=_is_cut(call, reason, is_last=call is read[-1]),
        )
        for call in read
    ]  # fmt: skip


def _is_cut(call: RawCall, reason: str | None, *, is_last: bool) -> bool:
    """Return True if a call was cut before its arguments were complete, whether or not the provider reports it."""
    function = call.given.get("function")
    written = function.get("arguments") if isinstance(function, dict) else call.arguments
    if not (written.strip() if isinstance(written, str) else written):
        # else no arguments
        return is_last and (reason is None or finish_of(reason, calls=False) in CUT_REASONS)
    return is_unfinished(call.arguments)


def _says_all(raw: dict[str, Any], calls: list[dict[str, Any]]) -> bool:
    """Return True if the form between packages can express everything in a message."""
    more = {name for name, value in raw.items() if value not in (None, [], "")}
    plain = not isinstance(raw.get("content"), list)
    each = all(set(call) <= {"index", "id", "type", "function"} for call in calls)
    return plain and each and more <= {"role", "content", "refusal", "tool_calls"}


class _Call:
    """A call during assembly."""

    def __init__(self, index: object) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.more: dict[str, Any] = {}

    @property
    def is_complete(self) -> bool:
        """True if its arguments are a JSON text."""
        text = "".join(self.arguments)
        return bool(text.strip()) and not is_unfinished(text)

    def raw(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", **self.more, "function": function}


class _ChatAssembly:
    """The reply assembled from the chunks so far. Of several choices, only the first is used."""

    def __init__(
        self,
        model: str,
        failure: Callable[[object], LLMRequestError],
        no_choice: Callable[[dict[str, Any]], LLMRequestError],
        check: Callable[[dict[str, Any]], None],
    ) -> None:
        self._model = model
        self._failure = failure
        self._no_choice = no_choice
        self._check = check
        self._outer: dict[str, Any] = {}
        self._message = _Pieces()
        self._calls: list[_Call] = []
        self._said: str | None = None
        self._has_choice = False
        self.is_complete = False
        self.is_over = False  # the usage may follow

    def add(self, chunk: dict[str, Any]) -> Iterator[Delta]:
        """Add a chunk."""
        if chunk.get("error") and not chunk.get("choices"):
            raise self._failure(chunk["error"])
        known = {
            name: value for name, value in chunk.items() if name not in {"choices", "type", "obfuscation"}
        }
        usage = larger_usage(self._outer.get("usage"), known.get("usage"))
        self._outer |= {name: value for name, value in known.items() if value is not None}
        if usage is not None:
            self._outer["usage"] = usage
        first = _first_choice(chunk)
        self._has_choice = self._has_choice or bool(first)
        if isinstance(first.get("finish_reason"), str) and first["finish_reason"]:
            self._said, self.is_complete = first["finish_reason"], True
        delta = first.get("delta")
        if not isinstance(delta, dict):
            return
        yield from self._message.add(delta)
        for part in dicts(delta.get("tool_calls")):
            yield self._add_call(part)

    def _add_call(self, part: dict[str, Any]) -> Delta:
        function = part.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name, arguments = part.get("id"), function.get("name"), function.get("arguments")
        call = self._call_of(part.get("index"), str(call_id or ""), name if isinstance(name, str) else "")
        call.id = call.id or str(call_id or "")
        call.name = call.name or (name if isinstance(name, str) else "")
        call.more |= {
            key: value
            for key, value in part.items()
            if key not in {"index", "id", "type", "function"} and value is not None
        }
        text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        call.arguments.append(text)
        return Delta("tool_call", text, self._calls.index(call), call.name)

    def _call_of(self, index: object, call_id: str, name: str) -> _Call:
        """Return the call of a part. Servers number the calls in different ways or not at all."""
        last = self._calls[-1] if self._calls else None
        # the newest first: a server may give each call the same index
        same = [call for call in reversed(self._calls) if isinstance(index, int) and call.index == index]
        match = next((call for call in same if call_id and call.id == call_id), None)
        if match is None and call_id and not isinstance(index, int):
            match = next((call for call in self._calls if call.id == call_id), None)
        if match is not None:
            return match
        candidate = same[0] if same else None if isinstance(index, int) else last
        if candidate is None and not call_id and not name:
            candidate = last  # the rest of a call, under a separate index
        begins = candidate is not None and (
            bool(call_id and candidate.id and (name or candidate.is_complete))
            or bool(name and candidate.name and (candidate.is_complete or name != candidate.name))
        )
        if candidate is not None and not begins:
            return candidate
        self._calls.append(_Call(index))
        return self._calls[-1]

    def _raw(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": None, **self._message.assembled()}
        return {**message, "tool_calls": [call.raw() for call in self._calls]} if self._calls else message

    def reply(self) -> dict[str, Any]:
        """Return the whole reply."""
        if not self._has_choice:
            raise self._no_choice(self._outer)
        self._check(self._raw())
        return _written(self._raw(), self._said, self._outer, self._model).to_dict()

    def usage(self) -> object:
        """Return the provider's token usage so far."""
        return self._outer.get("usage")

    def partial(self) -> dict[str, Any] | None:
        """Return the received part of the reply."""
        if not self._has_choice:
            return None
        return _written(self._raw(), self._said, self._outer, self._model, is_whole=False).to_dict()


_SAID_ONCE: Final = frozenset({"role", "id", "type", "name"})


class _Pieces:
    """The message without its calls: texts and lists grow (`content`, `reasoning_content`, ...)."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Any]] = {}
        self._reasoning = ""  # the field to read; some gateways send the text in both fields

    def add(self, delta: dict[str, Any]) -> Iterator[Delta]:
        for name, value in delta.items():
            if name != "tool_calls" and value is not None:
                self._pieces.setdefault(name, []).append(value)
        self._reasoning = self._reasoning or next((name for name in REASONING_FIELDS if delta.get(name)), "")
        thought, text = delta.get(self._reasoning), text_of(delta.get("content"))
        if isinstance(thought, str) and thought:
            yield Delta("reasoning", thought)
        if text:
            yield Delta("text", text)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            yield Delta("text", delta["refusal"])

    def assembled(self) -> dict[str, Any]:
        return {name: _joined(name, pieces) for name, pieces in self._pieces.items()}


def _joined(name: str, pieces: Collection[Any]) -> Any:
    first, *_ = pieces
    if name in _SAID_ONCE:
        return first
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return _merged([entry for piece in pieces for entry in piece])
    *_, last = pieces
    return last


def _merged(entries: list[Any]) -> list[Any]:
    """Merge the streamed entries of a list. Consecutive entries with the same type and index form one entry."""
    merged: list[Any] = []
    for entry in entries:
        last = merged[-1] if merged else None
        if not (
            isinstance(entry, dict) and isinstance(last, dict) and isinstance(entry.get("index"), int)
        ) or ((entry.get("index"), entry.get("type")) != (last.get("index"), last.get("type"))):
            merged.append(dict(entry) if isinstance(entry, dict) else entry)
            continue
        for name, value in entry.items():
            if (
                name in {"text", "summary", "data"}
                and isinstance(last.get(name), str)
                and isinstance(value, str)
            ):
                last[name] += value
            elif value is not None:
                last[name] = value
    return merged
