"""A scripted model on a loopback port, and a port that must get no requests."""

from __future__ import annotations

import json
import queue
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

USAGE = {
    "prompt_tokens": 3480, "completion_tokens": 512, "total_tokens": 3992,
    "prompt_tokens_details": {"cached_tokens": 2944},
}  # fmt: skip


class Reply:
    """The reply to one request, piece by piece. It stays open until `end`."""

    def __init__(self) -> None:
        self._pieces: queue.Queue[dict[str, Any] | str | None] = queue.Queue()
        self._calls = 0
        self.left = threading.Event()
        """Set once the client has gone before the end."""

    def say(self, *texts: str) -> Self:
        """Say a delta each."""
        for text in texts:
            self._pieces.put({"delta": {"content": text}, "finish_reason": None})
        return self

    def call(self, name: str, /, **arguments: Any) -> Self:
        """Call a tool."""
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {
            "index": self._calls,
            "id": f"call_{id(self)}_{self._calls}",
            "type": "function",
            "function": function,
        }
        self._calls += 1
        self._pieces.put({"delta": {"tool_calls": [call]}, "finish_reason": None})
        return self

    def end(self) -> Self:
        """Say that this is all."""
        self._pieces.put({"delta": {}, "finish_reason": "tool_calls" if self._calls else "stop"})
        self._pieces.put(None)
        return self

    def break_off(self) -> None:
        """Close the connection."""
        self._pieces.put("broken")

    def next(self) -> dict[str, Any] | str | None:
        """Wait for the next piece."""
        return self._pieces.get()


class Loopback:
    """A server on a loopback port, from `with` to its end.

    Attributes:
        url: its address.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], path: str = "") -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class ScriptedModel(Loopback):
    """An endpoint for chat completions; each request is answered by the next reply, and waits until there is one.

    If agents work at the same time, call `hear` with their words first. An agent whose task has one gets separate replies.

    Attributes:
        requests: the bodies that came.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._replies: dict[str, queue.Queue[Reply]] = {"": queue.Queue()}
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)
                model.requests.append(request)
                reply = model._replies[model._listener(request)].get()
                with suppress(OSError):
                    model._answer(self, reply)
                    return
                reply.left.set()

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(Handler, "/v1")

    def hear(self, *words: str) -> None:
        """Keep replies apart for those whose instructions have one of these words."""
        self._replies |= {word: queue.Queue() for word in words}

    def reply(self, *texts: str, to: str = "") -> Reply:
        """Answer the next request of the agent with the word `to` in its task. The reply continues until `end`."""
        made = Reply().say(*texts)
        self._replies[to].put(made)
        return made

    def _listener(self, request: dict[str, Any]) -> str:
        told = [str(message["content"]) for message in request["messages"] if message["role"] == "system"]
        return next((word for word in self._replies if word and told and word in told[0]), "")

    def _answer(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.flush()
        handler.close_connection = True
        base = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        while True:
            piece = reply.next()
            if piece == "broken":
                return
            if piece is None:
                self._write(handler, {**base, "choices": [], "usage": USAGE})
                handler.wfile.write(b"data: [DONE]\n\n")
                return
            self._write(handler, {**base, "choices": [{"index": 0, **piece}]})

    @staticmethod
    def _write(handler: BaseHTTPRequestHandler, chunk: dict[str, Any]) -> None:
        handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        handler.wfile.flush()


class Beacon(Loopback):
    """A port that counts who asks it for anything.

    Attributes:
        hits: the requested paths.
    """

    def __init__(self) -> None:
        self.hits: list[str] = []
        beacon = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                beacon.hits.append(self.path)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(Handler)
