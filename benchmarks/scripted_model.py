"""A scripted model on loopback, with the dialects of Anthropic, OpenAI (Responses and Chat) and Gemini.

A message of the user has the script, made by `scripted`: a list of steps. A step is `{"tool": NAME, "input": {...}}` or
`{"text": TEXT}`. Step n is the reply after n results of tools. A tool may have several names, in the order of
preference, because agents rename their tools. If a result says that its call waits, the model calls `result` until it
does not.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import uuid
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Step = dict[str, Any]
_SCRIPT: Final = re.compile(r"<<([A-Za-z0-9_-]+=*)>>")
_WAITING: Final = re.compile(
    r'"status[\\"]*: *[\\"]*(?:waiting|running)\b.*?id[\\"]*: *[\\"]*([0-9a-f]{16})', re.DOTALL
)
_RESULT_TOOL: Final = re.compile(r"result|.*_(?<!read_)result")
_NEXT_MESSAGE: Final = "The user rejected your call"
OVER: Final = "That is all."
_NOTHING: Final[Step] = {"text": "ok"}


def scripted(steps: Sequence[Step]) -> str:
    """Return steps as a part of a message."""
    return f"<<{base64.urlsafe_b64encode(json.dumps(steps).encode()).decode()}>>"


class ScriptedModel:
    """A server for the four dialects.

    Attributes:
        url: its address, without a path.
        requests: the requests so far, as (path, JSON body).
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def got(self, text: str) -> bool:
        """Return True if a request has a text."""
        return any(text in json.dumps(body) for _, body in self.requests)


def step_of(events: Iterator[tuple[str, str]], tools: Sequence[str]) -> Step:
    """Return the next step for a conversation.

    Args:
        events: `("user", text)` and `("result", text)`, in order.
        tools: the names of the offered tools. If there are none, it is a request for a title or the like.
    """
    steps: list[Step] = []
    done, waits_for = 0, ""
    for kind, text in events:
        if kind == "result":
            found = _WAITING.findall(text)
            waits_for = found[-1] if found else ""
            done += not found
        elif found := _SCRIPT.findall(text):
            steps, done = json.loads(base64.urlsafe_b64decode(found[-1])), 0
        elif _NEXT_MESSAGE in text:
            steps, done = [], 0
    if not tools or not steps:
        return _NOTHING
    step = dict(steps[done]) if done < len(steps) else {"text": OVER}
    if waits_for:
        step = {"tool": [*filter(_RESULT_TOOL.fullmatch, tools), "result"], "input": {"id": waits_for}}
    names: Any = step.get("tool", [])
    if isinstance(names, list) and names:
        step["tool"] = next((tool for name in names for tool in tools if fnmatch(tool, name)), names[0])
    return step


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    model: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._json(
            {"object": "list", "data": [{"id": "scripted", "object": "model", "type": "model"}], "models": []}
        )

    def do_HEAD(self) -> None:
        self._json({})

    def do_POST(self) -> None:
        path = self.path.split("?")[0]
        body = self._body()
        self.model.requests.append((path, body))
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 1_000})
        elif path.endswith("/messages"):
            self._anthropic(body, step_of(_anthropic(body), tool_names(body)))
        elif path.endswith("/responses"):
            self._responses(body, step_of(_responses(body), tool_names(body)))
        elif path.endswith("/chat/completions"):
            self._chat(body, step_of(_chat(body), tool_names(body)))
        elif "generatecontent" in path.lower():
            self._gemini(step_of(_gemini(body), tool_names(body)), is_stream="stream" in path)
        elif path.endswith(":countTokens"):
            self._json({"totalTokens": 1_000})
        else:
            self._json({})

    def _body(self) -> dict[str, Any]:
        size = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(size)
        if self.headers.get("transfer-encoding") == "chunked":
            while length := int(self.rfile.readline().strip() or b"0", 16):
                data += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
        try:
            body = json.loads(data)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    # --- replies

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _events(self, events: Sequence[Any], *, are_named: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            name = f"event: {event['type']}\n" if are_named else ""
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{name}data: {data}\n\n".encode())
        self.wfile.flush()

    def _anthropic(self, body: Mapping[str, Any], step: Step) -> None:
        usage = {"input_tokens": 1_000, "output_tokens": 20}
        calls = "tool" in step
        block: dict[str, Any] = {"type": "text", "text": step.get("text")}
        delta: dict[str, Any] = {"type": "text_delta", "text": step.get("text")}
        if calls:
            block = {"type": "tool_use", "id": _id("toolu_"), "name": step["tool"], "input": step["input"]}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
        stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        message = {
            "id": _id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "usage": usage,
        }
        if not body.get("stream"):
            self._json({**message, **stop, "content": [block]})
            return
        empty = {**block, "input": {}} if calls else {**block, "text": ""}
        none = {"stop_reason": None, "stop_sequence": None}
        self._events(
            [
                {"type": "message_start", "message": {**message, **none, "content": []}},
                {"type": "content_block_start", "index": 0, "content_block": empty},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": stop, "usage": usage},
                {"type": "message_stop"},
            ]
        )

    def _responses(self, body: Mapping[str, Any], step: Step) -> None:
        item = _responses_item(step, _offered(body))
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        usage = {"input_tokens": 1_000, "output_tokens": 20, "total_tokens": 1_020, **details}
        response = {
            "id": _id("resp_"), "object": "response", "status": "completed", "model": body.get("model"),
            "output": [item], "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            self._json(response)
            return
        self._events(
            [
                {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": response},
            ]
        )

    def _chat(self, body: Mapping[str, Any], step: Step) -> None:
        base = {"id": _id("chatcmpl-"), "created": int(time.time()), "model": body.get("model")}
        usage = {"prompt_tokens": 1_000, "completion_tokens": 20, "total_tokens": 1_020}
        reply: dict[str, Any] = {"role": "assistant", "content": step.get("text")}
        if "tool" in step:
            function = {"name": step["tool"], "arguments": json.dumps(step["input"])}
            reply["tool_calls"] = [{"index": 0, "id": _id("call_"), "type": "function", "function": function}]
        reason = {"finish_reason": "tool_calls" if "tool" in step else "stop"}
        if not body.get("stream"):
            self._json({**base, "object": "chat.completion", "choices": [{"index": 0, "message": reply, **reason}],
                        "usage": usage})  # fmt: skip
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        self._events(
            [
                {**chunk, "choices": [{"index": 0, "delta": reply, "finish_reason": None}]},
                {**chunk, "choices": [{"index": 0, "delta": {}, **reason}], "usage": usage},
                "[DONE]",
            ],
            are_named=False,
        )

    def _gemini(self, step: Step, *, is_stream: bool) -> None:
        part: dict[str, Any] = {"text": step.get("text")}
        if "tool" in step:
            part = {"functionCall": {"name": step["tool"], "args": step["input"]}}
        usage = {"promptTokenCount": 1_000, "candidatesTokenCount": 20, "totalTokenCount": 1_020}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        reply = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        if is_stream:
            self._events([reply], are_named=False)
        else:
            self._json(reply)


def _responses_item(step: Step, tools: Sequence[Any]) -> dict[str, Any]:
    if "tool" not in step:
        content = [{"type": "output_text", "text": step["text"], "annotations": []}]
        return {
            "type": "message", "id": _id("msg_"), "role": "assistant", "status": "completed", "content": content,
        }  # fmt: skip
    call = {"call_id": _id("call_"), "name": step["tool"], "status": "completed"}
    if step["tool"] == "tool_search":
        search = {"type": "tool_search_call", "execution": "client", "arguments": step["input"]}
        return {"call_id": call["call_id"], "status": "completed", **search}
    if isinstance(step["input"], str):
        return {**call, "type": "custom_tool_call", "id": _id("ctc_"), "input": step["input"]}
    within = [
        tool["name"]
        for tool in tools
        if any(one.get("name") == step["tool"] for one in tool.get("tools") or [])
    ]
    space = {"namespace": within[0]} if within else {}
    return {
        **call,
        **space,
        "type": "function_call",
        "id": _id("fc_"),
        "arguments": json.dumps(step["input"]),
    }


# --- requests


def _offered(body: Mapping[str, Any]) -> list[Any]:
    """Return the tools of a request, with those that a search for tools found."""
    given = body.get("input")
    found = [one for item in (given if isinstance(given, list) else []) for one in item.get("tools") or []]
    return [*(body.get("tools") or []), *found]


def tool_names(body: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    return [
        str((one.get("function") or one).get("name") or one.get("type"))
        for tool in _offered(body)
        for one in tool.get("functionDeclarations") or tool.get("tools") or [tool]
    ]


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(one.get("text") or "" for one in content or [] if isinstance(one, dict))


def _anthropic(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for message in body.get("messages", []):
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts if message["role"] == "user" else []:
            is_result = part["type"] == "tool_result"
            yield ("result", json.dumps(part)) if is_result else ("user", part.get("text") or "")


def _responses(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = body.get("input")
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or []:
        kind = item.get("type", "message")
        if kind.endswith("_output"):
            yield "result", json.dumps(item)
        elif kind == "message" and item.get("role") == "user":
            yield "user", _texts(item.get("content"))
        elif not kind.endswith("_call"):  # such as the message for an agent of the agent
            yield "user", json.dumps(item)


def _chat(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for message in body.get("messages", []):
        if message["role"] == "tool":
            yield "result", json.dumps(message)
        elif message["role"] == "user":
            yield "user", _texts(message["content"])


def _gemini(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if "functionResponse" in part:
                yield "result", json.dumps(part)
            elif content.get("role") == "user" and "text" in part:
                yield "user", part["text"]


def _id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:16]
