"""OpenAI's Responses API. OpenAI's reasoning models can use tools only with this API.

The provider stores nothing: each request contains the whole conversation, and the model's reasoning comes back
encrypted. References: https://platform.openai.com/docs/api-reference/responses, /docs/guides/reasoning. Documented in
docs/models.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tract_jupyter.llm.blocks import ProviderBlocks, thought_before
from tract_jupyter.llm.http import HTTPClient
from tract_jupyter.llm.messages import (
    CUT_REASONS,
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
from tract_jupyter.llm.openai import cache_key
from tract_jupyter.llm.providers import OPENAI, OPENAI_KEY
from tract_jupyter.llm.reply import RawCall
from tract_jupyter.llm.request import cannot_send
from tract_jupyter.models import Delta, brief_repr, provider_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.exceptions import LLMRequestError
    from tract_jupyter.llm.blocks import Dialect, SentBlocks
    from tract_jupyter.llm.request import ModelRequest
    from tract_jupyter.llm.sse import Assembly

_NAME: Final = "OpenAI's Responses"
_ENDED: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_CHAT_ONLY: Final = ("frequency_penalty", "presence_penalty", "seed", "stop", "logit_bias", "logprobs", "n")
# models without reasoning refuse reasoning options
_NO_REASONING: Final = re.compile(r"gpt-[34](?!\d)|chatgpt-|-chat-latest")
_ENCRYPTED: Final = "reasoning.encrypted_content"


class ResponsesClient(HTTPClient):
    """A thread-safe client for OpenAI's Responses API; see `models.LLMClient`.

    The client translates messages, tools and options from the shape of chat completions. It sends options of Responses
    (`reasoning`, `text`, `include`, ...) unchanged. `base_url` ends with the version. The default key comes from the
    environment variable `OPENAI_API_KEY`. The arguments are the same as for every `HTTPClient`.
    """

    dialect: ClassVar[Dialect] = "responses"
    provider_url: ClassVar[str] = OPENAI
    limit_name: ClassVar[str] = "max_output_tokens"
    unsure_ends: ClassVar[frozenset[str | None]] = frozenset({None, "stop"})  # "stop" from llama.cpp
    path: ClassVar[str] = "/responses"
    key_variable: ClassVar[str] = OPENAI_KEY
    about_url: ClassVar[str] = "base_url, which ends with the version (/v1)"
    hints: ClassVar[Mapping[str, str]] = {
        r"[Ee]ncrypted content is not supported": "Set include=[], because this model does not reason",
        r"reasoning summar": "Use reasoning={'effort': ...} without a summary instead of reasoning_effort",
    }

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        tools, model, stream = [_tool(tool) for tool in request.tools], request.model, request.stream
        options = _options(request)
        request.blocks.add(tools, (options.get("text") or {}).get("format"))
        body = {
            "store": False,
            **options,
            "model": model,
            "stream": stream,
            **_translated(request.messages, request.blocks),
        }
        if not _NO_REASONING.search(model):
            body.setdefault("include", [_ENCRYPTED])
        if tools:
            body["tools"] = tools
        if self.base_url == OPENAI:
            body.setdefault("prompt_cache_key", cache_key(request.messages, tools))
        if stream and self.base_url == OPENAI:
            body.setdefault("stream_options", {"include_obfuscation": False})
        return {name: value for name, value in body.items() if value is not None}

    def _read(self, reply: dict[str, Any], model: str) -> dict[str, Any]:
        _check(reply, self._failures.reported)
        if not isinstance(reply.get("output"), list):
            there = ", ".join(map(str, reply)) or "nothing"
            raise self._failures.error(f"its reply has no output (it has {there})")
        return self._checked(reply, model)

    def _checked(self, reply: dict[str, Any], model: str) -> dict[str, Any]:
        """Return a reply whose output can be read."""
        output = reply["output"]
        if len(dicts(output)) != len(output):
            raise self._failures.error(f"the output of its reply is damaged: {brief_repr(output)}")
        return _written(reply, model).to_dict()

    def _assembly(self, model: str) -> Assembly:
        return _ResponseAssembly(model, self._failures.reported, self._checked)


# --- sending


def _options(request: ModelRequest) -> dict[str, Any]:
    """Return the options with the names of the Responses API. Other options are passed on unchanged."""
    request.refuse(_CHAT_ONLY, _NAME)
    options = request.options
    if request.limit is not None:
        options["max_output_tokens"] = request.limit
    effort, form, verbosity = (
        options.pop(name, None) for name in ("reasoning_effort", "response_format", "verbosity")
    )
    if effort is not None:
        # only the summary of the reasoning is readable
        summary = {} if effort == "none" else {"summary": "auto"}
        options["reasoning"] = {"effort": effort, **summary, **(options.get("reasoning") or {})}
    text = {
        **({"format": _text_format(form)} if form else {}),
        **({"verbosity": verbosity} if verbosity else {}),
    }
    if text:
        options["text"] = {**text, **(options.get("text") or {})}
    named = request.named_choice()
    if named is not None:
        options["tool_choice"] = {"type": "function", "name": named}
    stream_options = options.get("stream_options")
    if isinstance(stream_options, dict):
        remaining = {name: value for name, value in stream_options.items() if name != "include_usage"}
        options["stream_options"] = remaining or None
    return options


def _text_format(form: Any) -> Any:
    schema = form.get("json_schema") if isinstance(form, dict) else None
    return {"type": "json_schema", **schema} if isinstance(schema, dict) else form


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, dict):
        return tool  # one of Responses' own
    # the default is strict, which would change schemas that are not made for it
    sent = {"type": "function", "parameters": None, "strict": False, **function}
    return {name: value for name, value in sent.items() if value is not None or name == "parameters"}


def _translated(messages: Sequence[dict[str, Any]], blocks: SentBlocks) -> dict[str, Any]:
    """Return `instructions` and `input`. The first system messages become the instructions."""
    instructions: list[str] = []
    items: list[dict[str, Any]] = []
    for message in with_own_ids(messages):
        role, content = message.get("role"), message.get("content")
        new_items: list[dict[str, Any]] = []
        if role in {"system", "developer"}:
            if not items:
                instructions.append(text_of(content))
                blocks.add(instructions[-1])
            elif text_of(content).strip():
                new_items = [{"role": "developer", "content": text_of(content)}]
        elif role == "tool":
            call_id = message["tool_call_id"]
            new_items = [{"type": "function_call_output", "call_id": call_id, "output": _content(content)}]
        elif role == "assistant":
            new_items = _items(message, blocks)
        else:
            new_items = [{"role": "user", "content": _content(content)}]
        items += new_items
        blocks.add(*new_items)
    prompt = "\n\n".join(text for text in instructions if text.strip())
    return {**({"instructions": prompt} if prompt else {}), "input": items}


def _items(message: Mapping[str, Any], blocks: SentBlocks) -> list[dict[str, Any]]:
    """Return an assistant message as items. Use the original items if they may be sent here."""
    calls = [RawCall.of(call, place) for place, call in enumerate(dicts(message.get("tool_calls")))]
    original = blocks.of(message, lambda candidate: _is_unchanged(candidate, message, calls))
    if original:
        return _as_sent(original, calls)
    text = text_of(message.get("content")) or str(message.get("refusal") or "")
    # llama.cpp's server refuses an item of the assistant without a type
    message_items = [{"type": "message", "role": "assistant", "content": text}] if text else []
    return [
        *message_items,
        *(
            {"type": "function_call", "call_id": raw_call.id, **raw_call.to_openai()["function"]}
            for raw_call in calls
        ),
    ]


def _is_unchanged(items: Sequence[dict[str, Any]], message: Mapping[str, Any], calls: list[RawCall]) -> bool:
    """Return True if a message is unchanged since its items arrived, except for ids that no reasoning is bound to."""
    received = [item for item in items if item.get("type") == "function_call"]
    before = [(item.get("name"), _call(item, ended="completed")) for item in received]
    same_calls = [(name, RawCall.of(call.to_dict(), 0).sent_values()) for name, call in before] == [
        (call.name, call.sent_values()) for call in calls
    ]
    same_text = _text(items).strip() == text_of(message.get("content")).strip()
    return same_calls and same_text and thought_before(items, _as_sent(items, calls), {"reasoning"})


def _as_sent(items: Sequence[dict[str, Any]], calls: list[RawCall]) -> list[dict[str, Any]]:
    """Return the items of a reply with the current ids of its calls."""
    of_message = iter(calls)
    return [_named(item, next(of_message)) if item.get("type") == "function_call" else item for item in items]


def _named(item: dict[str, Any], call: RawCall) -> dict[str, Any]:
    return {**item, "call_id": call.id, "name": provider_name(call.name)}


def _content(content: object) -> Any:
    """Return the content of a message in the shape of the Responses API."""
    if not isinstance(content, list | tuple):
        return content or ""
    return [_part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return {"type": "input_text", "text": part["text"]}
    if kind == "image_url":
        image = part["image_url"] if isinstance(part["image_url"], dict) else {"url": part["image_url"]}
        return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail") or "auto"}
    if kind == "file" and isinstance(part.get("file"), dict):
        return {"type": "input_file", **part["file"]}
    if kind in {"input_text", "input_image", "input_file"}:
        return dict(part)
    raise cannot_send(f"a part of type {brief_repr(kind)}", _NAME, "use text, images or files")


# --- reading


def _check(reply: Mapping[str, Any], failure: Callable[[object], LLMRequestError]) -> None:
    """Raise the error that a reply reports."""
    error, status = reply.get("error"), str(reply.get("status"))
    if error and status in {"None", "failed", "cancelled"}:
        raise failure(error)
    if status in {"failed", "cancelled"}:
        raise failure(
            {"type": "server_error", "message": f"the response is {reply['status']}, without a reason"}
        )


def _parts_of(items: Iterable[Mapping[str, Any]], kind: str, name: str) -> Iterator[str]:
    for item in items:
        for part in dicts(item.get("content")) if item.get("type") == "message" else ():
            if part.get("type") == kind and isinstance(part.get(name), str):
                yield part[name]


def _text(items: Iterable[Mapping[str, Any]]) -> str:
    return sound("".join(_parts_of(items, "output_text", "text")))


def _reasoning(items: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the readable reasoning and the name of its field: the full text, or else its summary."""
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    for field in ("content", "summary"):
        parts = [part for item in thoughts for part in dicts(item.get(field))]
        text = "\n\n".join(str(part.get("text") or "") for part in parts)
        if text.strip():
            return sound(text), field
    return "", ""


def _written(reply: Mapping[str, Any], model: str, *, is_whole: bool = True) -> WrittenReply:
    items = dicts(reply["output"])
    status, details = reply.get("status"), reply.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) and status == "incomplete" else status
    reason = reason if isinstance(reason, str) else None
    calls = [_call(item, ended=status) for item in items if item.get("type") == "function_call"]
    refusal = sound("".join(_parts_of(items, "refusal", "refusal")))
    finish = finish_of(reason, calls=bool(calls), refusal=bool(refusal))
    if status == "incomplete" and finish not in CUT_REASONS:
        finish = "incomplete"  # unknown reason
    reasoning, field = _reasoning(items)
    usage = reply.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    outer = {
        "id": reply.get("id"),
        "created": reply.get("created_at"),
        "model": reply.get("model"),
        "usage": Usage.of_responses(usage).to_dict() or None,
        "provider_usage": usage or None,
        "provider_events": reply.get("provider_events") or None,
        "service_tier": reply.get("service_tier"),
        "input_transformations": reply.get("input_transformations") or None,
    }
    return WrittenReply(
        text=_text(items) or None,
        calls=calls,
        finish_reason=finish if is_whole else None,
        provider_finish_reason=reason,
        reasoning=reasoning,
        reasoning_field=field,
        refusal=refusal,
        blocks=ProviderBlocks("responses", model, tuple(items)) if items else None,
        outer={name: value for name, value in outer.items() if value is not None},
    )


def _call(item: Mapping[str, Any], *, ended: object) -> WrittenCall:
    call_id = str(item.get("call_id") or item.get("id") or "")
    arguments = sound(str(item.get("arguments") or ""))
    return WrittenCall(call_id, str(item.get("name") or ""), arguments, _is_cut(item, ended=ended))


def _is_cut(item: Mapping[str, Any], *, ended: object) -> bool:
    arguments = str(item.get("arguments") or "").strip()
    status = item.get("status")
    if status == "incomplete" or is_unfinished(arguments):
        return True
    # without arguments, the end of the item or of the response tells
    return not arguments and status != "completed" and ended != "completed"


_DELTAS: Final = {
    "response.output_text.delta": "text", "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning", "response.reasoning_text.delta": "reasoning",
}  # fmt: skip
_ARGUMENTS: Final = "response.function_call_arguments.delta"


class _ResponseAssembly:
    """The response assembled from the events so far."""

    def __init__(
        self,
        model: str,
        failure: Callable[[object], LLMRequestError],
        checked: Callable[[dict[str, Any], str], dict[str, Any]],
    ) -> None:
        self._model = model
        self._failure = failure
        self._checked = checked
        self._response: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, int, str], list[str]] = {}
        self._done: set[int] = set()
        self._events: list[dict[str, Any]] = []
        self.is_complete = False
        self.is_over = False

    def add(self, event: dict[str, Any]) -> Iterator[Delta]:
        """Add an event."""
        kind, index = str(event.get("type") or ""), event.get("output_index")
        index = index if isinstance(index, int) else 0
        if kind == "error" or (event.get("error") and not kind):
            raise self._failure(event.get("error") or event)
        if isinstance(event.get("response"), dict):
            usage = larger_usage(self._response.get("usage"), event["response"].get("usage"))
            self._response |= {**event["response"], "usage": usage}
            if kind in _ENDED:
                self._response.setdefault("status", kind.removeprefix("response."))
                _check(self._response, self._failure)
                self.is_complete = self.is_over = True
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            yield from self._add_item(index, event, is_done=kind.endswith("done"))
        elif kind == _ARGUMENTS or kind in _DELTAS:
            yield from self._grow(kind, index, event)
        elif not kind.startswith("response."):
            self._events.append(event)  # other events repeat the content of these

    def _add_item(self, index: int, event: Mapping[str, Any], *, is_done: bool) -> Iterator[Delta]:
        item = event.get("item")
        item = dict(item) if isinstance(item, dict) else {}
        is_new = index not in self._items
        self._items[index] = item
        if is_done:
            self._done.add(index)
        if is_new and item.get("type") == "function_call":
            yield Delta(
                "tool_call", str(item.get("arguments") or ""), self._place(index), str(item.get("name") or "")
            )

    def _grow(self, kind: str, index: int, event: Mapping[str, Any]) -> Iterator[Delta]:
        text = event.get("delta")
        if not isinstance(text, str) or not text:
            return
        part = event.get("content_index", event.get("summary_index"))
        self._texts.setdefault((index, part if isinstance(part, int) else 0, kind), []).append(text)
        if kind != _ARGUMENTS:
            yield Delta(_DELTAS[kind], text)  # type: ignore[arg-type] # a literal, in a table
        elif self._items.get(index, {}).get("type") == "function_call":
            yield Delta("tool_call", text, self._place(index), str(self._items[index].get("name") or ""))

    def _place(self, index: int) -> int:
        calls = [place for place, item in self._items.items() if item.get("type") == "function_call"]
        return calls.index(index)

    def _assembled(self) -> dict[str, Any]:
        output = self._response.get("output") if self.is_complete else None
        if not output:  # not all servers repeat it at the end
            indices = {index for index, _, _ in self._texts} | set(self._items)
            output = [self._item(index) for index in sorted(indices)]
        return {**self._response, "output": output, "provider_events": self._events}

    def _item(self, index: int) -> dict[str, Any]:
        item = self._items.get(index, {})
        if index in self._done:
            return item
        return _from_deltas(
            item, {kind: "".join(text) for (place, _, kind), text in self._texts.items() if place == index}
        )

    def reply(self) -> dict[str, Any]:
        """Return the whole reply."""
        return self._checked(self._assembled(), self._model)

    def usage(self) -> object:
        """Return the provider's token usage so far."""
        return self._response.get("usage")

    def partial(self) -> dict[str, Any] | None:
        """Return the received part of the reply."""
        if not self._items and not self._texts:
            return None
        return _written(self._assembled(), self._model, is_whole=False).to_dict()


def _from_deltas(item: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """Return an unfinished item, filled with the received deltas."""
    if item.get("type") == "function_call":
        return {
            **item,
            "arguments": texts.get(_ARGUMENTS) or item.get("arguments") or "",
            "status": "incomplete",
        }
    if item.get("type") == "reasoning":
        summary, content = (
            texts.get("response.reasoning_summary_text.delta"),
            texts.get("response.reasoning_text.delta"),
        )
        more: dict[str, Any] = {"summary": [{"type": "summary_text", "text": summary}]} if summary else {}
        return {
            **item,
            **more,
            **({"content": [{"type": "reasoning_text", "text": content}]} if content else {}),
        }
    text = texts.get("response.output_text.delta")
    parts: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    refusal = texts.get("response.refusal.delta")
    parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
    if not parts:
        return item
    return {"type": "message", "role": "assistant", **item, "content": parts, "status": "incomplete"}
