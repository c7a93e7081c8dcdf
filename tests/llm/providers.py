"""A provider on loopback that answers with a script."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.llm import sdk

REPLY = {
    "id": "r1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello", "reasoning_content": "hm"},
         "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip

MESSAGE = REPLY["choices"][0]["message"]
"""The message of `REPLY`, which says more than the form between packages has a place for."""
READ = {
    **REPLY,
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant", "content": "Hello", "reasoning": "hm", "reasoning_field": "reasoning_content",
                "provider_blocks": {"dialect": "chat", "model": "m", "blocks": [MESSAGE]},
            },
            "finish_reason": "stop",
        }
    ],
}  # fmt: skip
"""`REPLY` as a client of the model `m` gives it."""


def chunk(delta=None, *, finish=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice], **more}


def sse(*chunks, done=True):
    """The bytes of a stream."""
    lines = [one if isinstance(one, bytes) else b"data: " + json.dumps(one).encode() for one in chunks]
    return b"".join(line + b"\n\n" for line in [*lines, *([b"data: [DONE]"] if done else [])])


class Answer:
    """What the provider answers once.

    Args:
        body: JSON, or bytes.
        hangs: after the body, or instead of it, nothing comes until the provider is closed.
        step: how many bytes are sent at once.
    """

    def __init__(self, body=REPLY, status=200, *, kind=None, hangs=False, claims=None, step=None, **headers):
        is_raw = isinstance(body, bytes)
        self.body = body if is_raw else json.dumps(body).encode()
        self.status = status
        self.kind = kind or (
            "text/event-stream"
            if is_raw and body.startswith((b"data", b":", b"event"))
            else "application/json"
        )
        self.hangs = hangs
        self.claims = claims
        self.step = step or max(1, len(self.body))
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Provider:
    """The answers to give, the last one again and again, and the requests that came."""

    def __init__(self, answers, port):
        self.answers = list(answers)
        self.requests = []
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.asked = threading.Event()
        self.closed = threading.Event()

    @property
    def bodies(self):
        return [body for _, _, body in self.requests]


@contextmanager
def provider(*answers):
    """A provider that runs until the end of the block; each request is one that the official SDK could send."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            here.requests.append((self.path, dict(self.headers), json.loads(body)))
            answer = here.answers.pop(0) if len(here.answers) > 1 else here.answers[0]
            if answer.hangs and not answer.body:
                here.asked.set()
                here.closed.wait()
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            if not answer.hangs:
                self.send_header("Content-Length", str(answer.claims or len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for place in range(0, len(answer.body), answer.step):
                    self.wfile.write(answer.body[place : place + answer.step])
                    self.wfile.flush()
                here.asked.set()
                if answer.hangs:
                    here.closed.wait()
            except OSError:  # the client has left
                pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Provider(answers, server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield here
    finally:
        here.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()
    for path, _, body in here.requests:
        assert not sdk.problems_of(path, body)
