"""A hostile server over HTTP or stdio: `flood.py WAY [stdio]`. Over HTTP, it prints its port.

During a call of its tool, it sends what its way names, without an end.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAY, OVER_STDIO = sys.argv[1], "stdio" in sys.argv
MEGABYTE = "x" * 1_000_000
SHELLS = "[" + "[]," * 5_000_000 + "[]]"
seen = []


def message(**content):
    return json.dumps({"jsonrpc": "2.0", **content})


def log(data):
    return message(method="notifications/message", params={"level": "info", "data": data})


def ping(number, method="ping", **params):
    return message(id=number, method=method, params=params)


def cancel(number):
    return message(method="notifications/cancelled", params={"requestId": number})


WAYS = {
    "requests": lambda n: message(id=n, method="ping"),
    "same_id": lambda _: ping(1),
    "cancelled": lambda n: cancel(n // 2) if n % 2 else ping(n // 2),
    "same_id_cancelled": lambda n: cancel(1) if n % 3 == 2 else ping(1),
    "large_requests": lambda n: ping(n, "sampling/createMessage", messages=[], text=MEGABYTE),
    "large_ids": lambda n: ping(f"{n}{MEGABYTE}"),
    "answered": lambda n: message(id=n, method="roots/list"),
    "notifications": lambda n: log(f"line {n}"),
    "large_notifications": lambda n: log(MEGABYTE * 15),
    "unknown": lambda n: message(method=f"notifications/{n}", params={"_meta": {"n": n}}),
    "progress": lambda n: message(
        method="notifications/progress",
        params={"progressToken": token[0], "progress": n, "message": "on " * 100},
    ),
    "changes": lambda _: message(method="notifications/tools/list_changed"),
    "answers": lambda n: message(id=1_000_000 + n, result={"content": []}),
    "huge": lambda _: log(MEGABYTE * 17),
    "large_values": lambda _: (
        f'{{"jsonrpc": "2.0", "method": "notifications/x", "params": {{"x": {SHELLS}}}}}'
    ),
    "no_json": lambda n: "{" * 1_000,
}
token = [0]


def tools(params):
    page = int(params.get("cursor") or 0)
    tool = {"name": f"go{page or ''}", "description": "Goes.", "inputSchema": {"type": "object"}}
    if WAY == "pages":
        tool["description"] = MEGABYTE * 8
        return {"tools": [tool], "nextCursor": str(page + 1)}
    return {"tools": [tool]}


def answer(asked):
    """Return the answer to a request other than a call."""
    method = asked["method"]
    if method == "initialize":
        served = {"name": "flood", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": served}
        return message(id=asked["id"], result=result)
    if method == "tools/list":
        return message(id=asked["id"], result=tools(asked.get("params") or {}))
    return message(id=asked["id"], error={"code": -32601, "message": "no such method"})


def answer_to_call(asked):
    if WAY == "shells":
        return f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": {{"content": {SHELLS}}}}}'
    return message(id=asked["id"], result={"content": [{"type": "text", "text": json.dumps(seen)}]})


class Flood(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "method" not in asked and WAY != "answered":
            time.sleep(600)  # an answer of the client is never accepted
        if "method" not in asked or "id" not in asked:
            self._begin(202, {"content-length": "0"})
        elif WAY == "redirects" and asked["method"] == "tools/call":
            self._stream(307, location=self.path)
        elif asked["method"] != "tools/call":
            self._json(answer(asked))
        elif WAY == "stalls" and "asked" not in seen:
            seen.append("asked")
            self._begin(200, {"content-type": "text/event-stream", "connection": "close"})
            self._send(f"data: {text}\n\n".encode() for text in (ping(1), answer_to_call(asked)))
        elif WAY in {
            "stalls",
            "shells",
            "deaf",
            "ends",
            "reconnects",
            "cookies",
            "answers",
            "silent_comments",
        }:
            self._json(answer_to_call(asked))
        else:
            token[0] = asked["params"].get("_meta", {}).get("progressToken", 0)
            self._stream()

    def do_GET(self):
        seen.append(f"GET {len(self.headers.get('cookie', '').split(';'))}")
        if WAY in {"cookies", "reconnects"}:
            self._begin(200, {"content-type": "text/event-stream", "connection": "close"})
            self.wfile.write(b"id: 1\nretry: 0\n\n")
            self.close_connection = True
        elif WAY in {"answers", "silent_comments"}:
            self._stream()
        else:
            self._begin(405, {"content-length": "0"})

    def do_DELETE(self):
        if WAY == "deaf":
            time.sleep(600)
        self._stream()

    def _begin(self, status, headers):
        self.send_response(status)
        for name, value in {"mcp-session-id": "1", **headers}.items():
            self.send_header(name, value)
        if WAY == "cookies":
            for number in range(50):
                self.send_header("set-cookie", f"c{len(seen)}n{number}=x")
        self.end_headers()

    def _json(self, text):
        self._begin(200, {"content-type": "application/json", "content-length": str(len(text.encode()))})
        self._send([text.encode()])

    def _stream(self, status=200, **headers):
        self._begin(status, {"content-type": "text/event-stream", "connection": "close", **headers})
        self.close_connection = True
        self._send(stream())

    def _send(self, parts):
        try:
            for part in parts:
                self.wfile.write(part)
        except OSError:
            pass  # the client closed the connection

    def log_message(self, *args):
        pass


def stream():
    """Yield the bytes of an event stream without an end."""
    if WAY == "no_line_end":
        yield b"data: "
        yield from itertools.repeat(MEGABYTE.encode())
    if WAY in {"comments", "silent_comments", "redirects", "ends"}:
        yield from itertools.repeat(b": x\n" * 10_000)
    if WAY == "drip":
        for _ in itertools.count():
            yield b"x"
            time.sleep(0.1)
    events = (f"data: {WAYS[WAY](number)}\n\n".encode() for number in itertools.count())
    while True:
        parts, size = [], 0
        while size < 50_000:
            parts.append(next(events))
            size += len(parts[-1])
        yield b"".join(parts)


def over_stdio():
    lines = iter(sys.stdin.readline, "")
    for line in lines:
        asked = json.loads(line)
        if asked.get("method") == "tools/call":
            token[0] = asked["params"].get("_meta", {}).get("progressToken", 0)
            if WAY == "answered":  # it reads the answers
                threading.Thread(target=list, args=(lines,), daemon=True).start()
            for number in itertools.count():
                print(WAYS[WAY](number), flush=True)
        elif "id" in asked:
            print(answer(asked), flush=True)


if OVER_STDIO:
    over_stdio()
else:
    with ThreadingHTTPServer(("127.0.0.1", 0), Flood) as server:
        server.daemon_threads = True
        print(server.server_port, flush=True)
        server.serve_forever()
