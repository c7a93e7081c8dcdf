"""Anthropic's Messages.

References: https://platform.claude.com/docs/en/api/messages, /en/build-with-claude/streaming, /en/api/errors,
/en/build-with-claude/preserved-thinking. Documented in docs/models.md.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tract_jupyter.exceptions import ContentError, LLMConfigError
from tract_jupyter.llm.blocks import ProviderBlocks, thought_before
from tract_jupyter.llm.http import HTTPClient
from tract_jupyter.llm.messages import (
    CUT_REASONS,
    INVALID_JSON,
    Usage,
    WrittenCall,
    WrittenReply,
    dicts,
    finish_of,
    is_unfinished,
    larger_usage,
    sound,
    text_of,
    with_own_ids,
)
from tract_jupyter.llm.reply import RawCall
from tract_jupyter.llm.request import cannot_send
from tract_jupyter.models import (
    NO_TEXT,
    OPENING,
    Delta,
    anthropic_block,
    anthropic_tool,
    brief_repr,
    provider_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.exceptions import LLMRequestError
    from tract_jupyter.llm.blocks import Dialect, SentBlocks
    from tract_jupyter.llm.property_names import PropertyNames
    from tract_jupyter.llm.request import ModelRequest
    from tract_jupyter.llm.sse import Assembly

ANTHROPIC: Final = "https://api.anthropic.com"
ANTHROPIC_VERSION: Final = "2026-10-21"
MAX_TOKENS: Final = 16_000
"""The default token limit of a reply. The Messages API requires a limit."""
_NAME: Final = "Anthropic's Messages"
_INSTRUCTED: Final = "(No user message. The instructions change.)"
"""The user turn that goes before an instruction directly after a reply."""
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_SYSTEM: Final = frozenset({"system", "developer"})
_SAMPLING: Final = ("temperature", "top_p", "top_k")
_OPENAI_ONLY: Final = (
    "frequency_penalty", "presence_penalty", "seed", "logprobs", "top_logprobs", "logit_bias", "n", "verbosity",
)  # fmt: skip
_EFFORTS: Final = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
# model families after 5.0; among other things, they refuse a tool choice that forces a call
_NEWEST: Final = re.compile(r"claude-[a-z]+-(?:5-\d|[6-9])(?!\d)")
# these models think by default
_THINKS: Final = re.compile(r"claude-(?:opus|sonnet|fable|mythos)-5-\d(?!\d)")
# an instruction within the conversation keeps its place there with these; with others it belongs to the system
_SYSTEM_ANYWHERE: Final = re.compile(
    r"claude-(?:opus-4-8|(?:opus|fable|mythos)-5|[a-z]+-5-\d|[a-z]+-[6-9])(?!\d)"
)
# these models refuse a prefilled assistant message
_NO_PREFILL: Final = re.compile(r"claude-(?:mythos|[a-z]+-(?:4-(?:[6-9]|\d\d)(?!\d)|(?:[5-9]|\d\d)(?!\d)))")


class AnthropicClient(HTTPClient):
    """A thread-safe client for Anthropic's Messages API; see `models.LLMClient`.

    The client translates messages, tools and options from OpenAI's shape. It sends Anthropic's own options (`thinking`,
    `output_config`, ...) unchanged. `base_url` ends before `/v1`. The default key comes from the environment variable
    `ANTHROPIC_API_KEY`. The arguments are the same as for every `HTTPClient`.
    """

    dialect: ClassVar[Dialect] = "anthropic"
    provider_url: ClassVar[str] = ANTHROPIC
    path: ClassVar[str] = "/v1/messages"
    key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    default_max_tokens: ClassVar[int | None] = MAX_TOKENS
    about_url: ClassVar[str] = "base_url, which ends before /v1"
    hints: ClassVar[Mapping[str, str]] = {
        r"bound to a different conversation|[Ii]nvalid `?signature`?":
            "Remove provider_blocks from the messages after the first changed message",
        r"Forced tool|tool_choice": "Leave tool_choice out, or use 'auto' or 'none'",
    }  # fmt: skip

    def _own_headers(self, key: str) -> dict[str, str]:
        return {**super()._own_headers(key), "anthropic-version": ANTHROPIC_VERSION}

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        request.refuse(_OPENAI_ONLY, _NAME)
        self._check_options(request.options, request.model)
        blocks, messages = request.blocks, request.messages
        tools = [_tool(tool, blocks.property_names) for tool in request.tools]
        body = {
            "cache_control": {"type": "ephemeral"},
            **_options(request),
            "model": request.model,
            "stream": request.stream,
        }
        if not tools and _used_tools(messages):
            # calls in the history need definitions, even if no more calls are allowed
            tools = [{"name": name, "input_schema": {"type": "object"}} for name in _used_tools(messages)]
            body["tool_choice"] = {"type": "none"}
        if tools:
            body["tools"] = tools
        blocks.add(tools)
        body |= _translated(messages, request.model, blocks)
        if (body.get("thinking") or {}).get("type") == "enabled" and _thinking_is_missing(body["messages"]):
            # the provider refuses it in a turn that began without it; the next turn has it again
            del body["thinking"]
        return {name: value for name, value in body.items() if value is not None}

    def _check_options(self, options: Mapping[str, Any], model: str) -> None:
        """Raise a clear error for options that the provider does not accept."""
        version = next(value for name, value in self._headers.items() if name.lower() == "anthropic-version")
        sampling = [name for name in _SAMPLING if options.get(name) is not None]
        if sampling and version >= ANTHROPIC_VERSION:
            raise cannot_send(
                f"{sampling[0]} since version {ANTHROPIC_VERSION}", _NAME,
                "leave it out, or use AnthropicClient(headers={'anthropic-version': '2023-06-01'}) for a model that "
                "accepts it",
            )  # fmt: skip
        choice = options.get("tool_choice")
        is_forced = choice not in (None, "auto", "none") and not (
            isinstance(choice, dict) and choice.get("type") in {"auto", "none"}
        )
        if is_forced and _NEWEST.search(model):
            raise cannot_send(
                f"tool_choice={brief_repr(choice)} with {model}", _NAME,
                "leave tool_choice out, and name the tool in the messages",
            )  # fmt: skip

    def _check_end(self, body: Mapping[str, Any]) -> None:
        turns, model = body["messages"], body["model"]
        if not turns:
            raise cannot_send(
                "a conversation that has only system messages", _NAME,
                "send a user message first, such as chat('Go ahead.')",
            )  # fmt: skip
        # a turn that the provider paused during a server tool is sent back unchanged
        is_paused = any(
            block.get("type") in {"server_tool_use", "mcp_tool_use"} for block in turns[-1]["content"]
        )
        if turns[-1]["role"] == "assistant" and not is_paused and _NO_PREFILL.search(model):
            raise cannot_send(
                f"a last message of the assistant with {model}", _NAME,
                "send a user message first, such as chat('Continue.'); generate(trigger='regenerate') replaces a reply",
            )  # fmt: skip

    def _read(self, reply: dict[str, Any], model: str) -> dict[str, Any]:
        if reply.get("type") == "error" or (reply.get("error") and "content" not in reply):
            raise self._failures.reported(reply.get("error") or reply)
        if not isinstance(reply.get("content"), list):
            there = ", ".join(map(str, reply)) or "nothing"
            raise self._failures.error(f"its reply has no content (it has {there})")
        if len(dicts(reply["content"])) != len(reply["content"]):
            raise self._failures.error(f"the content of its reply is damaged: {brief_repr(reply['content'])}")
        return _written(reply, model).to_dict()

    def _assembly(self, model: str) -> Assembly:
        return _MessagesAssembly(model, self._failures.reported, self._failures.error)


# --- options


def _options(request: ModelRequest) -> dict[str, Any]:
    """Return the options with Anthropic's names. Other options are passed on unchanged."""
    options = request.options
    if _THINKS.search(request.model) and "reasoning_effort" not in options:
        options.setdefault("thinking", {"type": "adaptive"})
    choice = _tool_choice(request)
    stop, effort, form = (options.pop(name, None) for name in ("stop", "reasoning_effort", "response_format"))
    options.pop("stream_options", None)
    if choice is not None:
        options["tool_choice"] = choice
    if stop is not None:
        options["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    if effort is not None:
        options |= _effort(effort, options)
    if form is not None:
        options["output_config"] = {**(options.get("output_config") or {}), **_output_format(form)}
    thinking = options.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") in {"adaptive", "enabled"}:
        # by default the reply omits its text, including all text of the model between two calls
        options["thinking"] = {"display": "summarized", **thinking}
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    options["max_tokens"] = (
        MAX_TOKENS + (budget if isinstance(budget, int) else 0) if request.limit is None else request.limit
    )
    return options


def _effort(effort: object, options: dict[str, Any]) -> dict[str, Any]:
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if effort not in _EFFORTS:
        raise cannot_send(
            f"reasoning_effort={brief_repr(effort)}", _NAME, f"use one of {', '.join(_EFFORTS)}"
        )
    config = {"effort": _EFFORTS[str(effort)], **(options.get("output_config") or {})}
    return {"thinking": options.get("thinking") or {"type": "adaptive"}, "output_config": config}


def _output_format(form: object) -> dict[str, Any]:
    kind = form.get("type") if isinstance(form, dict) else None
    if isinstance(form, dict) and kind == "json_schema":
        return {
            "format": {"type": "json_schema", "schema": (form.get("json_schema") or {}).get("schema", {})}
        }
    if kind == "text":
        return {}
    raise cannot_send(f"response_format={brief_repr(form)}", _NAME, "use the type json_schema with a schema")


def _tool_choice(request: ModelRequest) -> dict[str, Any] | None:
    named, options = request.named_choice(), request.options
    value, at_once = (options.pop(name, None) for name in ("tool_choice", "parallel_tool_calls"))
    if named is not None:
        choice: dict[str, Any] | None = {"type": "tool", "name": named}
    elif isinstance(value, dict):
        choice = dict(value)  # Anthropic's own
    elif value is None:
        choice = {"type": "auto"} if at_once is False and request.tools else None
    elif value in ("auto", "none", "required"):
        choice = {"type": "any" if value == "required" else value}
    else:
        raise LLMConfigError(
            f"tool_choice must be 'auto', 'none', 'required' or a tool, not {brief_repr(value)}"
        )
    if choice is not None and at_once is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


def _tool(tool: dict[str, Any], names: PropertyNames) -> dict[str, Any]:
    """Return a tool in Anthropic's shape. Anthropic's own tools, such as server tools, stay unchanged."""
    if "function" not in tool:
        return tool
    try:
        sent = anthropic_tool(tool)
    except ContentError as error:
        raise LLMConfigError(str(error)) from None
    sent["input_schema"] = names.schema(sent["name"], sent["input_schema"])
    return {**sent, "strict": True} if tool["function"].get("strict") else sent


# --- messages


def _translated(messages: Sequence[dict[str, Any]], model: str, blocks: SentBlocks) -> dict[str, Any]:
    """Return `system` and `messages`.

    The first system messages become the system prompt. Some models accept later instructions in place, directly after
    the user's turn. For other models, later instructions join the system prompt. If no user turn comes before the next
    reply, a placeholder user turn is added. Each request therefore only extends the previous one at its end.
    """
    takes_system = bool(_SYSTEM_ANYWHERE.search(model))
    texts = (text_of(entry.get("content")) for entry in messages if entry.get("role") in _SYSTEM)
    system = [] if takes_system else [text for text in texts if text.strip()]
    blocks.add(*system)
    later: list[str] = []
    turns: list[dict[str, Any]] = []
    noted = _PrefixHasher(turns, blocks)
    for message in with_own_ids(messages):
        if message.get("role") in _SYSTEM:
            text = text_of(message.get("content"))
            if takes_system and text.strip() and turns:
                later.append(text)
            elif takes_system and text.strip():
                system.append(text)
                blocks.add(text)
        elif message.get("role") == "assistant":
            if _has_content(message):
                _append_instructions(turns, later)
                noted.catch_up()
            _append(turns, "assistant", _assistant_blocks(message, blocks))
        else:
            result = _result(message) if message.get("role") == "tool" else None
            _append(turns, "user", list(_parts(message.get("content"))) if result is None else [result])
    _append_instructions(turns, later)
    noted.catch_up()
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    return {**({"system": "\n\n".join(system)} if system else {}), "messages": turns}


class _PrefixHasher:
    """Adds the turns to the prefix hash for the blocks that are bound to it. The turns only grow at their end."""

    def __init__(self, turns: list[dict[str, Any]], blocks: SentBlocks) -> None:
        self._turns = turns
        self._blocks = blocks
        self._place = 0
        self._inner = 0

    def catch_up(self) -> None:
        while self._place < len(self._turns):
            turn = self._turns[self._place]
            self._blocks.add(*([turn["role"], block] for block in turn["content"][self._inner :]))
            self._inner = len(turn["content"])
            if self._place == len(self._turns) - 1:
                return
            self._place, self._inner = self._place + 1, 0


def _append_instructions(turns: list[dict[str, Any]], later: list[str]) -> None:
    if later:
        if turns[-1]["role"] != "user":  # behind anything else an instruction is refused
            turns.append({"role": "user", "content": [{"type": "text", "text": _INSTRUCTED}]})
        turns.append({"role": "system", "content": [{"type": "text", "text": "\n\n".join(later)}]})
        later.clear()


def _append(turns: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if not blocks:
        return
    if not turns or turns[-1]["role"] != role:
        turns.append({"role": role, "content": blocks})
        return
    content = turns[-1]["content"]
    place = len(content)
    # all results of a step are in one message, and before anything else
    if blocks[0]["type"] == "tool_result":
        place = sum(block["type"] == "tool_result" for block in content)
    content[place:place] = blocks


def _has_content(message: Mapping[str, Any]) -> bool:
    return bool(text_of(message.get("content")).strip()) or any(
        message.get(name) for name in ("refusal", "tool_calls", "provider_blocks")
    )


def _assistant_blocks(message: Mapping[str, Any], blocks: SentBlocks) -> list[dict[str, Any]]:
    """Return an assistant message as blocks. Use the original blocks if they may be sent here."""
    calls = [RawCall.of(call, place) for place, call in enumerate(dicts(message.get("tool_calls")))]
    uses = [_use(call, blocks.property_names) for call in calls]
    original = blocks.of(message, lambda candidate: _is_unchanged(candidate, message, uses))
    if original:
        return _as_sent(original, uses)
    text = text_of(message.get("content")) or str(message.get("refusal") or "")
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    return [*content, *uses]


def _use(call: RawCall, names: PropertyNames) -> dict[str, Any]:
    name = provider_name(call.name)
    return {"type": "tool_use", "id": call.id, "name": name, "input": names.sent(name, call.sent_values())}


def _is_unchanged(
    blocks: Sequence[dict[str, Any]], message: Mapping[str, Any], uses: list[dict[str, Any]]
) -> bool:
    """Return True if a message is unchanged since its blocks arrived, except for ids that no thought is bound to."""
    received = [_call_key(use) for use in blocks if use.get("type") == "tool_use"]
    same_calls = received == [_call_key(use) for use in uses]
    same_text = _text(blocks).strip() == text_of(message.get("content")).strip()
    return same_calls and same_text and thought_before(blocks, _as_sent(blocks, uses), _THOUGHTS)


def _call_key(use: Mapping[str, Any]) -> tuple[str, Any]:
    return provider_name(str(use.get("name") or "")), use.get("input")


def _as_sent(blocks: Sequence[dict[str, Any]], uses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks of a reply with the current ids of its calls."""
    of_message = iter(uses)
    return [
        _named(block, next(of_message)) if block.get("type") == "tool_use" else block
        for block in blocks
        if _can_go(block)
    ]


def _named(block: dict[str, Any], use: dict[str, Any]) -> dict[str, Any]:
    return {**block, "id": use["id"], "name": use["name"]}


def _can_go(block: Mapping[str, Any]) -> bool:
    # the provider refuses blank texts, although a model may write them
    return block.get("type") != "text" or bool(str(block.get("text") or "").strip())


def _result(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    parts = content if isinstance(content, str) else list(_parts(content))
    result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
    if parts if isinstance(parts, list) else parts.strip():
        result["content"] = parts
    if message.get("is_error"):
        result = {"content": NO_TEXT, **result, "is_error": True}
    return result


def _parts(content: object) -> Iterator[dict[str, Any]]:
    """Yield the content of a message as blocks."""
    parts: Iterable[Any] = (
        content if isinstance(content, list | tuple) else [{"type": "text", "text": content or ""}]
    )
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            if str(part.get("text") or "").strip():
                yield {"type": "text", "text": part["text"]}
        elif kind in {"image_url", "file"} and (block := anthropic_block(part)) is not None:
            yield block
        elif kind == "image_url":
            yield {"type": "image", "source": {"type": "url", "url": _url(part["image_url"])}}
        elif kind in {"image", "document", "search_result"}:
            yield part
        else:
            raise cannot_send(f"a part of type {brief_repr(kind)}", _NAME, "use text, images or PDFs")


def _url(image: object) -> str:
    return str(image.get("url") if isinstance(image, dict) else image)


def _used_tools(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    calls = (
        call
        for message in messages
        if message.get("role") == "assistant"
        for call in dicts(message.get("tool_calls"))
    )
    return list(dict.fromkeys(provider_name(RawCall.of(call, 0).name) for call in calls))


def _thinking_is_missing(turns: list[dict[str, Any]]) -> bool:
    """Return True if the current turn calls tools but lacks its thinking first, because another model wrote it."""
    for turn in reversed(turns):
        kinds = [block.get("type") for block in turn["content"]]
        if turn["role"] == "user" and "text" in kinds:
            return False
        if turn["role"] == "assistant" and "tool_use" in kinds and kinds[0] not in _THOUGHTS:
            return True
    return False


# --- reading


def _text(blocks: Iterable[Mapping[str, Any]]) -> str:
    return sound("".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text"))


def _written(reply: Mapping[str, Any], model: str, *, unended: Collection[int] | None = None) -> WrittenReply:
    """Return the reply of a message. `unended` has the places of blocks that were cut before their end."""
    blocks = dicts(reply["content"])
    usage, declined = reply.get("usage"), reply.get("stop_details")
    stop_reason = reply["stop_reason"] if isinstance(reply.get("stop_reason"), str) else None
    usage = usage if isinstance(usage, dict) else {}
    is_short = finish_of(stop_reason, calls=False) in CUT_REASONS
    calls = [
        _call(block, is_cut=place in (unended or ()) or (is_short and block is blocks[-1]))
        for place, block in enumerate(blocks)
        if block.get("type") == "tool_use"
    ]
    thoughts = [str(block.get("thinking") or "") for block in blocks if block.get("type") == "thinking"]
    refusal = declined.get("explanation") if isinstance(declined, dict) and stop_reason == "refusal" else None
    outer = {
        "id": reply.get("id"),
        "model": reply.get("model"),
        "usage": Usage.of_anthropic(usage).to_dict() or None,
        "provider_usage": usage or None,
        "provider_events": reply.get("provider_events") or None,
        "stop_details": declined,
    }
    return WrittenReply(
        text=_text(blocks) or None,
        calls=calls,
        finish_reason=finish_of(stop_reason, calls=bool(calls)) if unended is None else None,
        provider_finish_reason=stop_reason,
        reasoning=sound("\n\n".join(filter(None, thoughts))),
        reasoning_field="thinking",
        refusal=str(refusal or ""),
        blocks=ProviderBlocks("anthropic", model, tuple(blocks)) if blocks else None,
        outer={name: value for name, value in outer.items() if value is not None},
    )


def _call(block: Mapping[str, Any], *, is_cut: bool) -> WrittenCall:
    arguments = block.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    text = (
        arguments[INVALID_JSON]
        if set(arguments) == {INVALID_JSON}
        else json.dumps(arguments, ensure_ascii=False)
    )
    text = sound(str(text))
    return WrittenCall(
        str(block.get("id") or ""), str(block.get("name") or ""), text, is_cut or is_unfinished(text)
    )


_KINDS: Final = {"text_delta": ("text", "text"), "thinking_delta": ("reasoning", "thinking")}


class _MessagesAssembly:
    """The message assembled from the events so far."""

    def __init__(
        self,
        model: str,
        failure: Callable[[object], LLMRequestError],
        error: Callable[[str], LLMRequestError],
    ) -> None:
        self._model = model
        self._failure = failure
        self._error = error
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._stopped: set[int] = set()
        self._events: list[dict[str, Any]] = []
        self.is_complete = False
        self.is_over = False

    def add(self, event: dict[str, Any]) -> Iterator[Delta]:
        """Add an event."""
        kind = event.get("type")
        if kind == "error" or (event.get("error") and kind is None):
            raise self._failure(event.get("error") or event)
        if kind == "message_start":
            message = event.get("message")
            self._message |= message if isinstance(message, dict) else {}
        elif kind == "content_block_start":
            yield from self._begin(event)
        elif kind == "content_block_delta":
            yield from self._grow(event)
        elif kind == "content_block_stop":
            self._stopped.add(_index(event))
        elif kind == "message_delta":
            self._end(event)
        elif kind == "message_stop":
            self.is_complete = self.is_over = True
        elif kind != "ping":
            self._events.append(event)

    def _begin(self, event: dict[str, Any]) -> Iterator[Delta]:
        block = event.get("content_block")
        block = dict(block) if isinstance(block, dict) else {}
        self._blocks[_index(event)] = block
        if block.get("type") == "tool_use":
            yield Delta("tool_call", "", self._place(_index(event)), str(block.get("name") or ""))
        elif block.get("type") == "text" and isinstance(block.get("text"), str) and block["text"]:
            yield Delta("text", block["text"])

    def _grow(self, event: dict[str, Any]) -> Iterator[Delta]:
        index, delta = _index(event), event.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        if index not in self._blocks:
            raise self._error(
                f"its reply is damaged: a piece belongs to block {index}, which has not started"
            )
        kind, block = str(delta.get("type")), self._blocks[index]
        if kind == "input_json_delta":
            text = str(delta.get("partial_json") or "")
            self._pieces.setdefault((index, "input"), []).append(text)
            if text and block.get("type") == "tool_use":
                yield Delta("tool_call", text, self._place(index), str(block.get("name") or ""))
            return
        if kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
            return
        for name, value in delta.items():  # store unknown deltas in the same way
            if isinstance(value, str) and name != "type":
                self._pieces.setdefault((index, name), []).append(value)
            elif name != "type" and value is not None:
                block[name] = value
        if kind in _KINDS:
            channel, name = _KINDS[kind]
            if delta.get(name):
                yield Delta(channel, str(delta[name]))  # type: ignore[arg-type] # a literal, in a table

    def _end(self, event: dict[str, Any]) -> None:
        delta, usage = event.get("delta"), event.get("usage")
        if isinstance(delta, dict):
            self._message |= {name: value for name, value in delta.items() if value is not None}
        if isinstance(usage, dict):  # it is cumulative
            self._message["usage"] = larger_usage(self._message.get("usage"), usage)
        self.is_complete = self.is_complete or bool(self._message.get("stop_reason"))

    def _place(self, index: int) -> int:
        uses = [place for place, block in self._blocks.items() if block.get("type") == "tool_use"]
        return uses.index(index)

    def _assembled(self) -> dict[str, Any]:
        blocks = [self._block(index) for index in sorted(self._blocks)]
        return {**self._message, "content": blocks, "provider_events": self._events}

    def _block(self, index: int) -> dict[str, Any]:
        block = dict(self._blocks[index])
        for (place, name), pieces in self._pieces.items():
            text = "".join(pieces)
            if place == index and name != "input":
                begun = block.get(name)
                block[name] = sound((begun if isinstance(begun, str) else "") + text)
            elif place == index and text.strip():
                block["input"] = _input(text)
        return block

    def reply(self) -> dict[str, Any]:
        """Return the whole reply."""
        return _written(self._assembled(), self._model).to_dict()

    def usage(self) -> object:
        """Return the provider's token usage so far."""
        return self._message.get("usage")

    def partial(self) -> dict[str, Any] | None:
        """Return the received part of the reply."""
        if not self._blocks:
            return None
        unended = {place for place, index in enumerate(sorted(self._blocks)) if index not in self._stopped}
        return _written(self._assembled(), self._model, unended=unended).to_dict()


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _input(text: str) -> dict[str, Any]:
    """Return the input of a call. Null means no arguments; a text that is not a JSON object stays unchanged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {INVALID_JSON: text}
    return {} if value is None else value if isinstance(value, dict) else {INVALID_JSON: text}
