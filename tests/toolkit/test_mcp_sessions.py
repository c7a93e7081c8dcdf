"""MCP servers over HTTP that forget the session, or answer a call with an error of HTTP."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tract_jupyter.exceptions import McpConnectionError, McpStartError, ToolExecutionError
from tract_jupyter.toolkit import McpServer

VERSION = "2025-06-18"
NO_SESSION = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
TOOLS = [{"name": "go", "inputSchema": {"type": "object"}}]


class Handler(BaseHTTPRequestHandler):
    """Serves one session. Another session is refused as `server.unknown` says, a call as `server.refused` says."""

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, session = message["method"], self.headers.get("mcp-session-id")
        self.server.methods.append(method)
        if method == "server/discover":
            self.answer(404, b"")
        elif self.server.refused and method in {"tools/call", self.server.refuses}:
            self.answer(*self.server.refused)
        elif method == "initialize":
            info = {"name": "sessions", "version": "1"}
            result = {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
            self.result(message, result, {"mcp-session-id": self.server.session})
        elif session != self.server.session:
            self.answer(*self.server.unknown)
        elif "id" not in message:
            self.answer(202, b"")
        elif method == "tools/list":
            self.result(message, {"tools": TOOLS})
        else:
            self.server.calls += 1
            self.result(message, {"content": [{"type": "text", "text": self.server.session}]})

    def do_GET(self):
        self.answer(405, b"")

    def do_DELETE(self):
        self.answer(405, b"")

    def result(self, message, result, headers=None):
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.answer(200, body, "application/json", headers)

    def answer(self, status, body, kind="application/json", headers=None):
        self.send_response(status)
        for name, value in {
            "content-type": kind,
            "content-length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def web():
    """The HTTP server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.session, server.unknown, server.refused, server.refuses = (
            "first",
            (404, b"", "text/plain"),
            None,
            None,
        )
        server.calls, server.methods = 0, []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(web):
    with McpServer("web", url=f"http://127.0.0.1:{web.server_port}/mcp") as server:
        yield server


@pytest.mark.parametrize(
    "unknown",
    [
        (404, b"", "text/plain"),
        (404, json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}).encode()),
        (400, json.dumps({"jsonrpc": "2.0", "error": NO_SESSION}).encode()),
        (400, json.dumps({"jsonrpc": "2.0", "id": None, "error": NO_SESSION}).encode()),
        (400, b"Invalid or missing session ID", "text/html"),
    ],
)  # fmt: skip
def test_a_restarted_server_gets_another_session_at_the_next_call(client, web, unknown):
    assert client.call("go") == "first"
    web.session, web.unknown = "second", unknown
    with pytest.raises(
        McpConnectionError, match=rf"does not know the session anymore \(HTTP status {unknown[0]}"
    ):
        client.call("go")
    assert client.call("go") == "second"
    assert web.calls == 2


@pytest.mark.parametrize("status", [400, 404])
def test_an_error_about_the_call_does_not_end_the_session(client, web, status):
    assert client.call("go") == "first"
    starts = web.methods.count("initialize")
    wrong = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "wrong argument"}}
    web.refused = (status, json.dumps(wrong).encode())
    with pytest.raises(ToolExecutionError, match="wrong argument"):
        client.call("go")
    web.refused = None
    assert client.call("go") == "first"
    assert web.methods.count("initialize") == starts


@pytest.mark.parametrize("status", ["401 Unauthorized", "429 Too Many Requests", "503 Service Unavailable"])
def test_an_error_of_http_names_its_status(client, web, status):
    assert client.call("go") == "first"
    web.refused = (int(status[:3]), b"<html>Sorry</html>", "text/html")
    with pytest.raises(ToolExecutionError, match=f"the server answered with HTTP status {status}"):
        client.call("go")
    web.refused = None
    assert client.call("go") == "first"


def test_an_error_of_http_at_the_start_names_its_status(client, web):
    web.refused, web.refuses = (403, b"no", "text/plain"), "initialize"
    with pytest.raises(McpStartError, match="the server answered with HTTP status 403 Forbidden"):
        client.start()
