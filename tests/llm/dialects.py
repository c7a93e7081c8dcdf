"""The same reply in each dialect, whole and streamed, as its provider sends it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.llm.sdk import chat_stream, messages_stream, responses_stream
from tract_jupyter import AnthropicClient, OpenAIClient, ResponsesClient

HELLO = [{"role": "user", "content": "Hi"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@dataclass
class Said:
    """What a model says."""

    text: str = ""
    calls: list = field(default_factory=list)  # (id, name, arguments as JSON text)
    reasoning: str = ""
    finish: str = ""  # the provider's word; that of a plain end if empty
    given: int = 100  # tokens, of which
    cached: int = 60
    written: int = 10
    made: int = 20


def pieces(text, size=3):
    return [text[place : place + size] for place in range(0, len(text), size)]


class Chat:
    client, path, plain, for_calls, too_short = (
        OpenAIClient,
        "/chat/completions",
        "stop",
        "tool_calls",
        "length",
    )

    @staticmethod
    def url(there):
        return there.url

    @staticmethod
    def usage(said):
        return {
            "prompt_tokens": said.given, "completion_tokens": said.made, "total_tokens": said.given + said.made,
            "prompt_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": said.written},
            "completion_tokens_details": {"reasoning_tokens": 5},
        }  # fmt: skip

    @classmethod
    def finish(cls, said):
        return said.finish or (cls.for_calls if said.calls else cls.plain)

    @classmethod
    def whole(cls, said):
        message = {"role": "assistant", "content": said.text or None}
        if said.reasoning:
            message["reasoning_content"] = said.reasoning
        if said.calls:
            message["tool_calls"] = [
                {"id": given, "type": "function", "function": {"name": name, "arguments": arguments}}
                for given, name, arguments in said.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": cls.finish(said)}
        return {
            "id": "r1",
            "object": "chat.completion",
            "created": 1,
            "model": "m-1",
            "choices": [choice],
            "usage": cls.usage(said),
        }

    @classmethod
    def chunks(cls, said):
        base = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}

        def chunk(delta, finish=None):
            return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": None})
        yield from (chunk({"reasoning_content": one}) for one in pieces(said.reasoning))
        yield from (chunk({"content": one}) for one in pieces(said.text))
        for place, (given, name, arguments) in enumerate(said.calls):
            function = {"name": name, "arguments": ""}
            yield chunk(
                {"tool_calls": [{"index": place, "id": given, "type": "function", "function": function}]}
            )
            for one in pieces(arguments):
                yield chunk({"tool_calls": [{"index": place, "function": {"arguments": one}}]})
        yield chunk({}, cls.finish(said))
        yield {**base, "choices": [], "usage": cls.usage(said)}

    @classmethod
    def stream(cls, said):
        return chat_stream(*cls.chunks(said))

    @staticmethod
    def error(kind, message):
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    @staticmethod
    def seen(reply):
        message = reply["choices"][0]["message"]
        calls = [
            (one["id"], one["function"]["name"], one["function"]["arguments"])
            for one in message.get("tool_calls") or ()
        ]
        return message.get("content") or "", calls


class Messages:
    client, path, plain, for_calls, too_short = (
        AnthropicClient,
        "/v1/messages",
        "end_turn",
        "tool_use",
        "max_tokens",
    )

    @staticmethod
    def url(there):
        return there.root

    @staticmethod
    def usage(said):
        return {
            "input_tokens": said.given - said.cached - said.written, "cache_read_input_tokens": said.cached,
            "cache_creation_input_tokens": said.written, "output_tokens": said.made,
            "output_tokens_details": {"thinking_tokens": 5},
        }  # fmt: skip

    @classmethod
    def finish(cls, said):
        return said.finish or (cls.for_calls if said.calls else cls.plain)

    @staticmethod
    def blocks(said):
        if said.reasoning:
            yield {"type": "thinking", "thinking": said.reasoning, "signature": "sig-1"}
        if said.text:
            yield {"type": "text", "text": said.text}
        for given, name, arguments in said.calls:
            yield {"type": "tool_use", "id": given, "name": name, "input": arguments}

    @classmethod
    def whole(cls, said):
        content = [
            {**block, "input": json.loads(block["input"])} if block["type"] == "tool_use" else block
            for block in cls.blocks(said)
        ]
        return {
            "id": "r1", "type": "message", "role": "assistant", "model": "m-1", "content": content,
            "stop_reason": cls.finish(said), "stop_sequence": None, "usage": cls.usage(said),
        }  # fmt: skip

    @classmethod
    def events(cls, said):
        start = {
            **cls.whole(Said()),
            "content": [],
            "stop_reason": None,
            "usage": {**cls.usage(said), "output_tokens": 1},
        }
        yield {"type": "message_start", "message": start}
        yield {"type": "ping"}
        for index, block in enumerate(cls.blocks(said)):
            kind = block["type"]
            empty = {
                "thinking": {"type": kind, "thinking": "", "signature": ""},
                "text": {"type": kind, "text": ""},
                "tool_use": {**block, "input": {}},
            }[kind]
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            field = {"thinking": "thinking", "text": "text", "tool_use": "partial_json"}[kind]
            delta = {"thinking": "thinking_delta", "text": "text_delta", "tool_use": "input_json_delta"}[kind]
            for one in pieces(block["input" if kind == "tool_use" else field]):
                yield {"type": "content_block_delta", "index": index, "delta": {"type": delta, field: one}}
            if kind == "thinking":
                signed = {"type": "signature_delta", "signature": block["signature"]}
                yield {"type": "content_block_delta", "index": index, "delta": signed}
            yield {"type": "content_block_stop", "index": index}
        ended = {"stop_reason": cls.finish(said), "stop_sequence": None}
        usage = {"output_tokens": said.made, "output_tokens_details": {"thinking_tokens": 5}}
        yield {"type": "message_delta", "delta": ended, "usage": usage}
        yield {"type": "message_stop"}

    @classmethod
    def stream(cls, said):
        return messages_stream(*cls.events(said))

    @staticmethod
    def error(kind, message):
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}

    @staticmethod
    def seen(reply):
        texts = [one["text"] for one in reply["content"] if one["type"] == "text"]
        uses = [one for one in reply["content"] if one["type"] == "tool_use"]
        return "".join(texts), [(one["id"], one["name"], json.dumps(one["input"])) for one in uses]


class Responses:
    client, path, plain, for_calls, too_short = (
        ResponsesClient,
        "/responses",
        "completed",
        "completed",
        "max_output_tokens",
    )

    @staticmethod
    def url(there):
        return there.url

    @staticmethod
    def usage(said):
        return {
            "input_tokens": said.given, "output_tokens": said.made, "total_tokens": said.given + said.made,
            "input_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": said.written},
            "output_tokens_details": {"reasoning_tokens": 5},
        }  # fmt: skip

    @staticmethod
    def items(said):
        if said.reasoning:
            summary = [{"type": "summary_text", "text": said.reasoning}]
            yield {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "c2VjcmV0"}
        if said.text:
            part = {"type": "output_text", "text": said.text, "annotations": []}
            yield {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        for place, (given, name, arguments) in enumerate(said.calls):
            status = "incomplete" if said.finish and place == len(said.calls) - 1 else "completed"
            yield {
                "id": f"fc_{place}", "type": "function_call", "call_id": given, "name": name, "arguments": arguments,
                "status": status,
            }  # fmt: skip

    @classmethod
    def whole(cls, said):
        base = {
            "id": "r1", "object": "response", "created_at": 1, "model": "m-1", "tools": [], "tool_choice": "auto",
            "parallel_tool_calls": True, "error": None, "incomplete_details": None, "usage": cls.usage(said),
            "output": list(cls.items(said)), "status": "completed",
        }  # fmt: skip
        return (
            {**base, "status": "incomplete", "incomplete_details": {"reason": said.finish}}
            if said.finish
            else base
        )

    @classmethod
    def events(cls, said):
        begun = {
            **cls.whole(said),
            "output": [],
            "status": "in_progress",
            "usage": None,
            "incomplete_details": None,
        }
        yield {"type": "response.created", "response": begun}
        for index, item in enumerate(cls.items(said)):
            kind = item["type"]
            at = {"item_id": item["id"], "output_index": index}
            empty = {
                "reasoning": {**item, "summary": []},
                "message": {**item, "content": [], "status": "in_progress"},
                "function_call": {**item, "arguments": "", "status": "in_progress"},
            }[kind]
            yield {"type": "response.output_item.added", "output_index": index, "item": empty}
            if kind == "message":
                part = {"type": "output_text", "text": "", "annotations": []}
                yield {"type": "response.content_part.added", **at, "content_index": 0, "part": part}
            name = {
                "reasoning": "reasoning_summary_text",
                "message": "output_text",
                "function_call": "function_call_arguments",
            }
            place = {
                "reasoning": {"summary_index": 0},
                "message": {"content_index": 0, "logprobs": []},
                "function_call": {},
            }
            if kind == "reasoning":
                part = {"type": "summary_text", "text": ""}
                yield {
                    "type": "response.reasoning_summary_part.added",
                    **at,
                    "summary_index": 0,
                    "part": part,
                }
            text = {
                "reasoning": said.reasoning,
                "message": said.text,
                "function_call": item.get("arguments"),
            }[kind]
            for one in pieces(text):
                yield {"type": f"response.{name[kind]}.delta", **at, **place[kind], "delta": one}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {
            "type": "response.incomplete" if said.finish else "response.completed",
            "response": cls.whole(said),
        }

    @classmethod
    def stream(cls, said):
        return responses_stream(
            *({**one, "sequence_number": place} for place, one in enumerate(cls.events(said)))
        )

    @staticmethod
    def error(kind, message):
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    @staticmethod
    def seen(reply):
        texts = [
            part["text"] for one in reply["output"] if one["type"] == "message" for part in one["content"]
        ]
        calls = [one for one in reply["output"] if one["type"] == "function_call"]
        return "".join(texts), [(one["call_id"], one["name"], one["arguments"]) for one in calls]


ALL = (Chat, Messages, Responses)


def made(dialect, there, **options):
    """A client of a dialect."""
    return dialect.client(
        "m", base_url=dialect.url(there), **{"api_key": "k", "backoff": 0, "timeout": 20, **options}
    )
