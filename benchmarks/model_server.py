"""A local model server in a separate process. It calls a tool each time, streams, or stays silent.

`python -m benchmarks.model_server` prints its port. The name of the requested model selects the behavior.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS: Final = "calls"
"""Calls `look` with each reply."""
SILENT: Final = "silent"
"""Accepts the request and never answers."""
HALTING: Final = "halting"
"""Answers with one word and then hangs."""
TICKING: Final = "ticking"
"""Streams `TICKS` deltas, `TICKS_PER_SECOND` of them; the text of each is the time when it was due."""
RUSHING: Final = "rushing"
"""Streams `RUSH` deltas as fast as they are taken."""
TICKS: Final = 500
TICKS_PER_SECOND: Final = 500
RUSH: Final = 5_000
TOOL: Final = "look"

_USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def model_server() -> Iterator[str]:
    """Start a server, and yield its address for chat completions."""
    command = [sys.executable, "-m", "benchmarks.model_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 # this module
        try:
            if process.stdout is None:
                raise RuntimeError("the model's server was started without a pipe")
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


def reply_of(number: int) -> dict[str, Any]:
    """Return a reply that calls the tool with a new id."""
    function = {"name": TOOL, "arguments": json.dumps({"city": f"c{number}"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {
        "id": f"r{number}",
        "object": "chat.completion",
        "model": CALLS,
        "choices": [choice],
        "usage": _USAGE,
    }


def _serve() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        for number in range(sys.maxsize):
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_talk, args=(connection, number * 1_000_000), daemon=True).start()


def _talk(connection: socket.socket, number: int) -> None:
    """Answer the requests of one connection; it ends when the client goes."""
    with connection, connection.makefile("rb") as reader, suppress(OSError):
        while True:
            size = 0
            while (line := reader.readline()) not in {b"\r\n", b""}:
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            if not line:
                return
            body = reader.read(size)
            number += 1
            _answer(connection, body, number)


def _answer(connection: socket.socket, body: bytes, number: int) -> None:
    asked = body[:100]  # the model's name comes first
    if f'"{CALLS}"'.encode() in asked:
        reply = json.dumps(reply_of(number)).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
        connection.sendall(head.encode() + reply)
        return
    if f'"{SILENT}"'.encode() in asked:
        connection.recv(1)  # until the client goes
        return
    connection.sendall(_STREAM)
    if f'"{HALTING}"'.encode() in asked:
        connection.sendall(_delta("Once "))
        connection.recv(1)
    elif f'"{TICKING}"'.encode() in asked:
        began = monotonic()
        for tick in range(TICKS):
            due = began + tick / TICKS_PER_SECOND
            sleep(max(0.0, due - monotonic()))
            connection.sendall(_delta(f"{due} "))
    else:
        for _ in range(RUSH):
            connection.sendall(_delta("word "))
    connection.sendall(
        _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": _USAGE})
    )
    connection.sendall(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def _delta(text: str) -> bytes:
    return _event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def _event(chunk: dict[str, Any]) -> bytes:
    data = f"data: {json.dumps(chunk)}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


if __name__ == "__main__":
    _serve()
