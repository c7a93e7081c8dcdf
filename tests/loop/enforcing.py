"""A provider on loopback that binds what a model thinks to what it was sent, as Anthropic and OpenAI do.

A thought is signed with the hash of the request that it was made for. Anthropic's dialect answers 400 to a request with
a thought that stands behind anything else; OpenAI's drops it, and says so.
"""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.llm import sdk
from tract_jupyter import AnthropicClient, ResponsesClient

REFUSAL = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    "See the documentation of preserved thinking."
)


def digest(*parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


class Messages:
    """Anthropic's Messages."""

    client, models = AnthropicClient, ("claude-opus-5-5", "claude-sonnet-5-5")

    @staticmethod
    def address(root):
        return root

    @staticmethod
    def said(body):
        """What was said, as single blocks, and the last text of the user, if nothing came after it."""
        for turn in body["messages"]:
            content = turn["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            yield from ((turn["role"], block) for block in blocks)

    @classmethod
    def bound(cls, body):
        return [body.get("system"), body.get("tools")]

    @staticmethod
    def signature(block):
        return block["signature"] if block["type"] == "thinking" else None

    @staticmethod
    def asked(said):
        _, block = next(one for one in reversed(said) if one[0] != "system")
        return "" if block["type"] == "tool_result" else block["text"]

    @classmethod
    def reply(cls, body, number, signature, call):
        blocks = [{"type": "thinking", "thinking": "", "signature": signature}]
        if call:
            blocks.append(
                {"type": "tool_use", "id": f"toolu_{number}", "name": call, "input": {"city": "Rome"}}
            )
        else:
            blocks.append({"type": "text", "text": f"Answer {number}."})
        return {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": blocks,
            "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }  # fmt: skip

    @staticmethod
    def stream(reply):
        """The reply as it comes in pieces; a signature comes at the end of its block."""
        yield {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}}
        for place, block in enumerate(reply["content"]):
            begun, delta = {**block}, None
            if block["type"] == "thinking":
                begun["signature"], delta = "", {"type": "signature_delta", "signature": block["signature"]}
            elif block["type"] == "text":
                begun["text"], delta = "", {"type": "text_delta", "text": block["text"]}
            else:
                begun["input"] = {}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_start", "index": place, "content_block": begun}
            yield {"type": "content_block_delta", "index": place, "delta": delta}
            yield {"type": "content_block_stop", "index": place}
        ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
        yield {"type": "message_stop"}

    streamed = staticmethod(sdk.messages_stream)

    @staticmethod
    def refuse(body):
        return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": REFUSAL}}


class Responses:
    """OpenAI's Responses."""

    client, models = ResponsesClient, ("gpt-6-luna", "gpt-6-astra")

    @staticmethod
    def address(root):
        return f"{root}/v1"

    @staticmethod
    def said(body):
        yield from ((one.get("role") or "assistant", one) for one in body["input"])

    @staticmethod
    def bound(body):
        return [body.get("instructions"), body.get("tools")]

    @staticmethod
    def signature(item):
        return item["encrypted_content"] if item.get("type") == "reasoning" else None

    @staticmethod
    def asked(said):
        _, item = said[-1]
        return "" if item.get("type") == "function_call_output" else item["content"]

    @classmethod
    def reply(cls, body, number, signature, call):
        items = [{"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": signature}]
        if call:
            items.append({
                "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": call,
                "arguments": '{ "city": "Rome" }', "status": "completed",
            })  # fmt: skip
        else:
            text = {"type": "output_text", "text": f"Answer {number}.", "annotations": []}
            items.append({
                "type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text],
            })  # fmt: skip
        return {
            "id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"], "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": True, "status": "completed", "output": items,
            "usage": {
                "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 15,
            },
        }  # fmt: skip

    @staticmethod
    def stream(reply):
        """The reply as it comes in pieces."""
        begun = {**reply, "output": [], "status": "in_progress", "usage": None}
        yield {"type": "response.created", "sequence_number": 0, "response": begun}
        for place, item in enumerate(reply["output"]):
            for kind in ("added", "done"):
                told = {
                    "type": f"response.output_item.{kind}",
                    "sequence_number": 1,
                    "output_index": place,
                    "item": item,
                }
                yield told
        yield {"type": "response.completed", "sequence_number": 2, "response": reply}

    streamed = staticmethod(sdk.responses_stream)

    @staticmethod
    def refuse(body):
        return None


class Enforcing:
    """The provider, while it runs.

    Attributes:
        bodies: the requests, as they came.
        kept: for each request, how many thoughts it sent back behind what they were made for.
        wrong: for each request, how many it sent back behind something else, or to another model.
        stricter: refuse every thought that comes back, whatever stands before it.
    """

    def __init__(self, dialect, port):
        self.dialect = dialect
        self.root = f"http://127.0.0.1:{port}"
        self.bodies, self.kept, self.wrong = [], [], []
        self.stricter = False

    def client(self, model=None):
        model = model or self.dialect.models[0]
        return self.dialect.client(
            model, base_url=self.dialect.address(self.root), api_key="k", max_retries=0
        )

    def answer(self, path, body):
        assert not sdk.problems_of(path, body)
        dialect, said = self.dialect, list(self.dialect.said(body))
        prefix = [*dialect.bound(body)]
        fits = wrong = 0
        for role, one in said:
            signature = dialect.signature(one)
            if signature is not None and signature == self.signed(body, prefix) and not self.stricter:
                fits += 1
            elif signature is not None:
                wrong += 1
            prefix.append([role, one])
        self.bodies.append(body)
        self.kept.append(fits)
        self.wrong.append(wrong)
        refused = dialect.refuse(body) if wrong else None
        if refused:
            return refused
        words = dialect.asked(said).split()
        call = words[1] if words[:1] == ["call"] else None
        return 200, dialect.reply(body, len(self.bodies), self.signed(body, prefix), call)

    @staticmethod
    def signed(body, prefix):
        return f"{body['model']}:{digest(*prefix)}"


@contextmanager
def enforcing(dialect):
    """A provider that runs until the end of the block; `here.kept` tells what came back."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, reply = here.answer(self.path, body)
            streams = body["stream"] and status == 200
            sent = dialect.streamed(*dialect.stream(reply)) if streams else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Enforcing(dialect, server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
