"""Servers that send without an end. The connection ends with an error, memory is bounded, and other tools work."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.toolkit.servers import command
from tract_jupyter.exceptions import McpConnectionError, McpResultError, McpTimeoutError
from tract_jupyter.toolkit import McpServer

pytestmark = pytest.mark.slow

MOST = 400_000_000
"""Bytes: several copies of the largest message, which has 16 MiB."""


def memory():
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


@pytest.fixture
def flood():
    """Return a function that makes a hostile server, over HTTP or stdio."""
    made, programs = [], []

    def make(way, *, is_http=True, **options):
        if is_http:
            programs.append(subprocess.Popen(command("flood", way), stdout=subprocess.PIPE, text=True))
            port = int(programs[-1].stdout.readline())
            made.append(McpServer("flood", url=f"http://127.0.0.1:{port}/mcp", **options))
        else:
            made.append(McpServer("flood", command("flood", way, "stdio"), **options))
        return made[-1]

    yield make
    for server in made:
        server.close()
    for program in programs:
        program.kill()
        program.communicate()


@pytest.fixture
def other():
    """Another server."""
    with McpServer("other", command("liar", "pid")) as server:
        server.start()
        yield server


@contextmanager
def bounded(other):
    """Check that the memory stays bounded during a block, and that another server answers."""
    before, most, answers, is_over = memory(), [0], [], threading.Event()

    def watch():
        while not (answers and is_over.wait(0.05)):
            most[0] = max(most[0], memory() - before)
            answers.append(other.call("go", timeout=60))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert most[0] < MOST
    assert answers


REQUESTS = (
    r"(100 requests and did not wait for the answers|1,000 requests in 10 s), so the connection was closed"
)
"""A pipe takes many answers at once, so the server can also be over the second limit first."""
PLACES = pytest.mark.parametrize("is_http", [True, False], ids=["http", "stdio"])


@PLACES
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("requests", REQUESTS),
        ("same_id", REQUESTS),
        ("same_id_cancelled", REQUESTS),
        ("cancelled", REQUESTS),
        ("answered", REQUESTS),
        ("large_requests", "requests of more than 1,000,000 characters"),
        ("large_ids", "requests of more than 1,000,000 characters"),
        ("large_values", "a message with more than 2,000,000 values"),
        ("huge", "16,?777,?216 byte"),
    ],
)
def test_a_server_over_a_limit_is_disconnected(flood, other, way, words, is_http):
    server = flood(way, is_http=is_http, timeout=30)
    with bounded(other), pytest.raises(McpConnectionError, match=words):
        server.call("go")
    assert not server.is_running


@PLACES
@pytest.mark.parametrize("way", ["notifications", "large_notifications", "unknown", "changes"])
def test_other_messages_wait(flood, other, way, is_http):
    server = flood(way, is_http=is_http, timeout=3)
    with bounded(other), pytest.raises(McpTimeoutError, match="did not answer within 3 s"):
        server.call("go")


def test_lines_that_are_no_messages_wait(flood, other):
    server = flood("no_json", is_http=False, timeout=3)
    with bounded(other), pytest.raises(McpTimeoutError, match="did not answer within 3 s"):
        server.call("go")


@PLACES
def test_progress_extends_a_call_only_to_its_longest_time(flood, other, is_http):
    server = flood("progress", is_http=is_http, timeout=6, longest_timeout=7)
    with bounded(other), pytest.raises(McpTimeoutError, match="did not end within 7 s"):
        server.call("go")


@pytest.mark.parametrize(("way", "words"), [
    ("no_line_end", "16777216 byte limit"),
    ("redirects", "an answer of more than 16,777,216 bytes"),
])  # fmt: skip
def test_a_body_without_an_end_is_not_read_to_the_end(flood, other, way, words):
    server = flood(way, timeout=30)
    with bounded(other), pytest.raises(McpConnectionError, match=words):
        server.call("go")


@pytest.mark.parametrize("way", ["comments", "drip"])
def test_a_stream_without_messages_ends_with_the_call(flood, other, way):
    server = flood(way, timeout=3)
    with bounded(other), pytest.raises(McpTimeoutError, match="did not answer within 3 s"):
        server.call("go")


@pytest.mark.parametrize("way", ["answers", "silent_comments", "reconnects"])
def test_a_stream_beside_the_calls_does_not_disturb_them(flood, other, way):
    server = flood(way, timeout=20)
    with bounded(other):
        for _ in range(3):
            streams = len(json.loads(server.call("go")))
            time.sleep(1)  # for the flood
    assert streams < 60


def test_cookies_without_an_end_are_dropped(flood):
    server = flood("cookies")
    counts = []
    while len(counts) <= 15:  # the others are reconnections
        time.sleep(0.1)
        counts = [int(line.split()[1]) for line in json.loads(server.call("go"))]
    assert max(counts) <= 100


def test_a_list_of_tools_without_an_end_is_refused(flood, other):
    with (
        bounded(other),
        pytest.raises(McpResultError, match="a list of tools of more than 16,000,000 characters"),
    ):
        flood("pages").start()


def test_an_answer_with_many_values_is_not_read(flood, other):
    server = flood("shells", timeout=20)
    with bounded(other), pytest.raises(McpConnectionError, match="a message with more than 2,000,000 values"):
        server.call("go")
    generous = flood("shells", timeout=20, result_bytes=16_000_000)
    generous.start()  # its text may have as many values as bytes


def test_a_server_that_does_not_accept_an_answer_is_started_again(flood, other, monkeypatch):
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.transports._ACCEPT_SECONDS", 1.0)
    server = flood("stalls", timeout=20)
    server.call("go")
    with bounded(other), pytest.raises(McpConnectionError):
        server.call("go")
    assert "asked" in server.call("go")


@pytest.mark.parametrize("way", ["deaf", "ends"])
def test_a_server_that_does_not_accept_the_end_is_left(flood, other, way):
    server = flood(way)
    server.call("go")
    with bounded(other):
        server.close()
