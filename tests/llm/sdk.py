"""The official SDKs as judges: what clients send, to the leaves, and what the test servers answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter
from typing_extensions import get_type_hints, is_typeddict


@cache
def request_type(path, *, streams):
    """The SDK's type of the requests to a path."""
    if path.endswith("/chat/completions"):
        from openai.types.chat import completion_create_params as params

        return (
            params.CompletionCreateParamsStreaming if streams else params.CompletionCreateParamsNonStreaming
        )
    if path.endswith("/responses"):
        from openai.types.responses import response_create_params as params

        return params.ResponseCreateParamsStreaming if streams else params.ResponseCreateParamsNonStreaming
    from anthropic.types import message_create_params as params

    return params.MessageCreateParamsStreaming if streams else params.MessageCreateParamsNonStreaming


def problems_of(path, body):
    """What is wrong with a request: what its type refuses, and keys that it does not have, at any depth."""
    kind = request_type(path, streams=body.get("stream") is True)
    try:
        _walked(_adapter(kind).validate_python(body))
    except ValueError as error:
        return [str(error)]
    return list(_unknown(body, kind, "request"))


@cache
def _adapter(kind):
    return TypeAdapter(kind)


def _walked(value):
    """Go to the leaves: pydantic validates an Iterable when it is read."""
    if isinstance(value, Mapping):
        for one in value.values():
            _walked(one)
    elif not isinstance(value, str | bytes | int | float | None):
        for one in value:
            _walked(one)


@cache
def _hints(kind):
    return get_type_hints(kind)


def _unknown(value, kind, where):
    origin, args = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        hints = _hints(kind)
        for name, one in value.items():
            if name in hints:
                yield from _unknown(one, hints[name], f"{where}.{name}")
            elif getattr(kind, "__pydantic_config__", {}).get("extra") != "allow":
                yield f"{where}: {kind.__name__} has no {name!r}"
    elif origin in {Union, UnionType}:
        found = [list(_unknown(value, one, where)) for one in args if _fits(value, one)]
        yield from min(found, key=len, default=[])
    elif args and isinstance(value, list):
        for place, one in enumerate(value):
            yield from _unknown(one, args[0], f"{where}[{place}]")


def _fits(value, kind):
    """Whether a value may be one of a type, of several."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in args
    if origin in {Union, UnionType}:
        return any(_fits(value, one) for one in args)
    if is_typeddict(kind):
        hints = _hints(kind)
        return (
            isinstance(value, dict)
            and kind.__required_keys__ <= set(value)
            and all(
                _fits(value[name], hint)
                for name, hint in hints.items()
                if name in value and get_origin(hint) is Literal
            )
        )
    if origin is dict or kind is dict:
        return isinstance(value, dict)
    if origin is not None and origin not in {Iterable, Sequence}:
        return isinstance(value, list)
    return isinstance(value, list) if origin is not None else not isinstance(value, dict | list)


# --- what is answered


class Stream(bytes):
    """A stream of which each event is one that the SDK knows."""


def chat_stream(*chunks):
    from openai.types.chat import ChatCompletionChunk

    for one in chunks:
        ChatCompletionChunk.model_validate(one)
    lines = [f"data: {json.dumps(one)}\n\n" for one in chunks]
    return Stream("".join([*lines, "data: [DONE]\n\n"]).encode())


def named_stream(kind, events):
    adapter = _adapter(kind)
    for one in events:
        if one["type"] not in {"ping", "error"}:
            adapter.validate_python(one)
    return Stream("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode())


def messages_stream(*events):
    from anthropic.types import RawMessageStreamEvent

    return named_stream(RawMessageStreamEvent, events)


def responses_stream(*events):
    from openai.types.responses import ResponseStreamEvent

    return named_stream(ResponseStreamEvent, events)


def read_by_sdk(path, stream: bytes) -> dict[str, Any]:
    """The reply that the SDK puts together from a stream."""
    import httpx2

    def answer(request):
        return httpx2.Response(200, content=bytes(stream), headers={"content-type": "text/event-stream"})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    ask = [{"role": "user", "content": "Hi"}]
    if path.endswith("/messages"):
        from anthropic import Anthropic

        asked = Anthropic(api_key="k", base_url="http://test", http_client=http).messages
        with asked.stream(model="m", max_tokens=1, messages=ask) as read:
            return read.get_final_message().to_dict()
    from openai import OpenAI

    openai = OpenAI(api_key="k", base_url="http://test", http_client=http)
    if path.endswith("/responses"):
        with openai.responses.stream(model="m", input="Hi") as read:
            return read.get_final_response().to_dict()
    with openai.chat.completions.stream(model="m", messages=ask) as read:
        return read.get_final_completion().to_dict()
