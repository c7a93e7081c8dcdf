"""The server over HTTP: access, limits, and clients that cannot approve their own requests."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from tests.toolkit.servers import until
from tract_jupyter import mcp_server
from tract_jupyter.exceptions import McpStartError
from tract_jupyter.toolkit import (
    MOST_BYTES,
    HttpServer,
    KernelProxy,
    ServedKernel,
    Traits,
    find_kernel,
    served_kernels,
)

TOKEN = "t" * 43
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # shared by all clients, because creating it is slow
MESSAGE = {"content": {"content_type": "dialogue", "role": "user", "text": "hi"}}


@pytest.fixture
def served(tract):
    """Serve a tract over HTTP."""
    server = HttpServer(lambda: mcp_server(tract, "full"), TOKEN)
    server.start()
    yield server
    server.stop()
    assert not server.is_running


@asynccontextmanager
async def connected(server, name="editor", mode="auto"):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(60, read=None), verify=NO_TLS) as session,
        Client(
            streamable_http_client(server.url, http_client=session),
            client_info=Implementation(name=name, version="1"),
            mode=mode,
        ) as client,
    ):
        yield client


def post(server, *, path="/mcp", body=b"{}", headers=(), method="POST"):
    """Send one request, and return its status."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest(method, path, skip_host=any(name == "host" for name, _ in headers))
    sent = [("content-type", "application/json"), ("accept", "application/json, text/event-stream"), *headers]
    for name, value in [*sent, ("content-length", str(len(body)))]:
        connection.putheader(name, value)
    connection.endheaders()
    with suppress(OSError):  # the response came first
        connection.send(body)
    status = connection.getresponse().status
    connection.close()
    return status


BEARER = ("authorization", f"Bearer {TOKEN}")
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_request_without_the_token_or_from_a_web_page_is_refused(served, method):
    def status(*headers, path="/mcp"):
        return post(served, body=LIST, headers=headers, path=path, method=method)

    port = served.port
    assert status() == 401
    for wrong in (
        "x",
        "",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"bearer {TOKEN}",
        f"Basic {TOKEN}",
        TOKEN,
    ):
        assert status(("authorization", wrong)) == 401
    assert status(BEARER, BEARER) == 401
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1.evil:{port}",
    ):
        assert status(BEARER, ("host", host)) == 421
    for origin in (
        "http://evil.example",
        "null",
        f"https://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}.evil",
        "",
    ):
        assert status(BEARER, ("origin", origin)) == 403
    for path in ("/", "/mcp/", "/mcp/x", "/tools", "/../mcp"):
        assert status(BEARER, path=path) == 404
    assert status(BEARER) not in {401, 403, 404, 421}


def test_silent_connections_of_other_programs_do_not_keep_clients_out(served, monkeypatch):
    from tract_jupyter.toolkit.mcp import connections

    monkeypatch.setattr(connections, "_MOST_SILENT", 8)
    with ExitStack() as stack:
        others = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 30)) for _ in range(30)
        ]
        for other in others[:8]:
            with suppress(OSError):  # it is closed already
                other.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\n")
        assert post(served, body=LIST, headers=[BEARER]) not in {401, 503}
        monkeypatch.setattr(connections, "_SILENT_SECONDS", 0.05)
        last = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 30))
        for closed in (others[0], last):
            with suppress(ConnectionResetError):
                assert closed.recv(100) == b""


def test_a_large_request_is_refused_before_it_is_read(served):
    code = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "commit", "arguments": {"x": "y" * 50_000_000}},
    }
    assert post(served, body=json.dumps(code).encode(), headers=[BEARER]) == 413
    assert post(served, body=b" " * (MOST_BYTES + 1), headers=[BEARER]) == 413


NOISE = """
import socket
from tract_jupyter import Tract, mcp_server
from tract_jupyter.toolkit import HttpServer
with Tract.open() as tract:
    server = HttpServer(lambda: mcp_server(tract, "full"), "t" * 43)
    server.start()
    upgrade = f"GET /mcp HTTP/1.1\\r\\nHost: 127.0.0.1:{server.port}\\r\\nConnection: upgrade\\r\\nUpgrade: x\\r\\n\\r\\n"
    for sent in (b"\\x16\\x03\\x01", b"x\\r\\n\\r\\n", upgrade.encode()):
        with socket.create_connection(("127.0.0.1", server.port), 30) as other:
            other.sendall(sent + b"\\r\\n" * 2)
            other.recv(1000)
    server.stop()
"""


def test_programs_without_the_token_print_nothing_into_a_cell():
    run = subprocess.run(
        [sys.executable, "-c", NOISE], capture_output=True, text=True, check=True, timeout=60
    )
    assert (run.stdout, run.stderr) == ("", "")


def test_only_this_machine_reaches_it(served):
    assert served.url == f"http://127.0.0.1:{served.port}/mcp"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_name_of_the_client_is_the_actor(tract, served, mode):
    async def use():
        async with connected(served, "claude-code", mode) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "commit", MESSAGE)
            (stored,) = await anyio.to_thread.run_sync(lambda: until(tract.review.inbox))
            await anyio.to_thread.run_sync(tract.operations.rebuild(stored).reject)
            return stored.actor

    assert anyio.run(use) == "mcp:claude-code"


@pytest.mark.slow
def test_a_hundred_clients_at_once(tract, served):
    """Identical calls of one client that wait at the same time are one request. Each run has an approval."""
    answers, commits, approved, is_over = [], [], set(), threading.Event()

    async def one(number):
        async with connected(served, f"client {number % 5}") as client:
            answers.append((await client.call_tool("status", {})).structured_content["branch"])
            arguments = {"content": {**MESSAGE["content"], "text": str(number % 20)}}
            result = await client.call_tool("commit", arguments)
            commits.append(result.structured_content["commit_hash"])

    def approve():
        while not is_over.is_set():
            until(lambda: is_over.is_set() or tract.review.inbox())
            for stored in tract.review.inbox():
                if stored.pending_id not in approved:
                    tract.operations.rebuild(stored).approve()
                approved.add(stored.pending_id)

    async def use():
        async with anyio.create_task_group() as approving:
            approving.start_soon(anyio.to_thread.run_sync, approve)
            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(one, number)
            is_over.set()

    anyio.run(use)
    assert answers == ["main"] * 100
    made = [info.commit_hash for info in tract.log(limit=100)]
    assert (len(commits), set(commits)) == (100, set(made))
    assert 20 <= len(made) == len(approved) < 100
    assert not tract.review.inbox()


def test_identical_calls_of_clients_with_one_name_share_one_request(tract, served):
    commits = []

    async def one(name):
        async with connected(served, name) as client:
            commits.append((await client.call_tool("commit", MESSAGE)).structured_content["commit_hash"])

    async def use():
        async with anyio.create_task_group() as tasks:
            for name in ("a", "a", "b"):
                tasks.start_soon(one, name)
            stored = await anyio.to_thread.run_sync(
                lambda: until(lambda: len(rows := tract.review.inbox()) == 2 and rows)
            )
            assert sorted(row.actor for row in stored) == ["mcp:a", "mcp:b"]
            for row in stored:
                await anyio.to_thread.run_sync(tract.operations.rebuild(row).approve)

    anyio.run(use)
    assert (len(commits), len(set(commits)), len(tract.log())) == (3, 2, 2)


class Proxy:
    """The proxy of a terminal agent, in its own process."""

    def __init__(self):
        program = [sys.executable, "-m", "tract_jupyter", "kernel-proxy"]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        about = {"name": "claude-code", "version": "1"}
        self._send(
            id=1,
            method="initialize",
            params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about},
        )
        self.answer(1)
        self._send(method="notifications/initialized")

    def _send(self, **message):
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def call(self, tool, arguments):
        self._send(id=2, method="tools/call", params={"name": tool, "arguments": arguments})

    def answer(self, number):
        while True:
            message = json.loads(self._process.stdout.readline())
            if message.get("id") == number:
                return message["result"]

    def kill(self):
        self._process.kill()
        self._process.wait(10)
        self._process.stdin.close()
        self._process.stdout.close()


@contextmanager
def killed_at_the_end():
    proxy = Proxy()
    try:
        yield proxy
    finally:
        proxy.kill()


@pytest.mark.slow
def test_a_too_large_call_through_the_proxy_is_refused_and_the_next_call_works(tract, served, runtime):
    ServedKernel.here(served.url, TOKEN, None).publish()

    async def use():
        async with Client(
            KernelProxy().server, client_info=Implementation(name="editor", version="1")
        ) as client:
            large = await client.call_tool("status", {"x": "y" * 50_000_000})
            return large, await client.call_tool("status", {})

    large, small = anyio.run(use)
    assert (large.is_error, small.is_error) == (True, False)
    assert "50," in large.content[0].text
    assert "It was not sent, and nothing ran." in large.content[0].text
    assert "unknown" not in large.content[0].text
    assert not tract.review.inbox()


def test_a_refused_call_does_not_end_the_other_calls_of_the_agent(tract, served, runtime, add, monkeypatch):
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.proxy.MOST_CALL", 10**9)  # the kernel refuses
    ServedKernel.here(served.url, TOKEN, None).publish()
    begun, go = threading.Event(), threading.Event()

    def work():
        """Work until the test continues."""
        begun.set()
        return go.wait(30)

    add(work, traits=Traits(read_only=True))

    async def use():
        results = {}
        async with (
            Client(KernelProxy().server, client_info=Implementation(name="editor", version="1")) as client,
            anyio.create_task_group() as tasks,
        ):

            async def wait():
                results["work"] = await client.call_tool("work", {})

            tasks.start_soon(wait)
            await anyio.to_thread.run_sync(begun.wait, 30)
            refused = await client.call_tool("status", {"x": "y" * (MOST_BYTES + 1)})
            next_one = await client.call_tool("status", {})
            go.set()
        return refused, next_one, results["work"]

    refused, next_one, worked = anyio.run(use)
    assert (refused.is_error, next_one.is_error, worked.is_error) == (True, False, False)
    assert worked.content[0].text == "true"
    assert "ended or restarted, or it refused the call" in refused.content[0].text


@pytest.mark.slow
def test_proxies_that_are_killed_before_and_after_a_decision_run_nothing_twice(tract, served, runtime, add):
    ServedKernel.here(served.url, TOKEN, None).publish()
    go, ran = threading.Event(), []

    def work():
        """Work until the test continues."""
        ran.append(1)
        go.wait(30)
        return len(ran)

    add(work)
    with killed_at_the_end() as proxy:
        proxy.call("work", {})
        (stored,) = until(tract.review.inbox)
    until(lambda: "no longer waits" in tract.operations.rebuild(stored).review_request().why)
    tract.operations.rebuild(stored).approve()
    assert not ran
    with killed_at_the_end() as proxy:
        proxy.call("work", {})
        until(lambda: ran)  # the approved call runs
    go.set()
    with killed_at_the_end() as proxy:
        proxy.call("work", {})
        assert proxy.answer(2)["content"][0]["text"] == "1"
    assert ran == [1]
    assert not tract.review.inbox()


def test_no_tool_decides_a_request(tract, served):
    names = ("approve", "decide", "review", "inbox", "execute_tool", "apply_decision", "grant", "result")

    async def use():
        async with connected(served) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "commit", MESSAGE)
                (stored,) = await anyio.to_thread.run_sync(lambda: until(tract.review.inbox))
                arguments = {"id": stored.pending_id, "pending_id": stored.pending_id, "action": "approve"}
                answers = [await client.call_tool(name, arguments) for name in names]
                tasks.cancel_scope.cancel()
        return tools, answers

    tools, answers = anyio.run(use)
    assert set(tools) & set(names) == {"result"}
    assert all(answer.is_error for answer in answers)
    assert tract.log() == []


def test_a_start_that_fails_names_the_problem(tract):
    def make():
        raise OSError("no room")

    with pytest.raises(McpStartError, match="no room"):
        HttpServer(make, TOKEN).start()


# --- the files of kernels


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """Use another runtime folder of Jupyter."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime"


def test_the_file_of_a_kernel_is_private_and_found_by_its_notebook(runtime, tmp_path):
    notebook = tmp_path / "a.ipynb"
    with pytest.raises(McpStartError, match="no kernel serves"):
        find_kernel("")
    kernel = ServedKernel.here("http://127.0.0.1:1/mcp", TOKEN, notebook)
    path = kernel.publish()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(runtime.iterdir()) == [path]
    assert find_kernel(str(notebook)) == find_kernel("") == kernel
    with pytest.raises(McpStartError, match=r"%tract serve.*a\.ipynb"):
        find_kernel(str(tmp_path / "b.ipynb"))


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"url": 1}', "null", "\udcff"])
def test_a_file_that_is_not_ours_is_ignored(runtime, tmp_path, text):
    path = ServedKernel.here("http://127.0.0.1:1/mcp", TOKEN, None).publish()
    path.write_text(text, errors="surrogateescape")
    assert served_kernels() == []


def test_a_file_that_others_can_change_or_with_another_host_is_ignored(runtime):
    path = ServedKernel.here("http://127.0.0.1:1/mcp", TOKEN, None).publish()
    path.chmod(0o644)
    assert served_kernels() == []
    ServedKernel.here("http://evil.example:1/mcp", TOKEN, None).publish()
    assert served_kernels() == []


@pytest.fixture
def jupyter(runtime, tmp_path):
    """A Jupyter server with sessions set by the test, and the function that writes its file."""
    sessions, asked = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(200 if self.headers["Authorization"] == "token secret" else 403)
            self.end_headers()
            self.wfile.write(json.dumps(sessions).encode())

        def log_message(self, *_):
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def describe(name="jpserver-7.json", mode=0o600, **more):
            about = {
                "hostname": "localhost",
                "port": server.server_port,
                "pid": os.getpid(),
                "token": "secret",
                "base_url": "/user/ada/",
            }
            path = runtime / name
            path.write_text(json.dumps({**about, "secure": False, "root_dir": str(tmp_path), **more}))
            path.chmod(mode)

        yield SimpleNamespace(sessions=sessions, asked=asked, describe=describe)
        server.shutdown()
        thread.join()


def test_a_kernel_is_found_by_the_new_path_of_its_notebook(runtime, tmp_path, jupyter):
    kernel = ServedKernel.here("http://127.0.0.1:1/mcp", TOKEN, tmp_path / "a.ipynb", "id-1")
    kernel.publish()
    moved = str(tmp_path / "in" / "b.ipynb")
    jupyter.sessions += [
        {"path": "in/b.ipynb", "kernel": {"id": "id-1"}}, {"path": "c.ipynb", "kernel": {"id": "id-2"}},
        {"path": "e.ipynb", "kernel": None},
    ]  # fmt: skip
    for wrong in (
        {"mode": 0o644},
        {"pid": 2**22 + 1},
        {"secure": True},
        {"hostname": "192.0.2.1"},  # another user can have the same port on 127.0.0.1
        {"hostname": "::"},
        {"token": "old"},
        {"port": "x"},
        {"pid": None},
    ):
        jupyter.describe(**wrong)
        with pytest.raises(McpStartError, match="no kernel of"):
            find_kernel(moved)
    assert {token for _, token in jupyter.asked} == {"token old"}
    jupyter.describe("jpserver-8.json", port=1)
    jupyter.describe()
    assert find_kernel(moved) == kernel
    assert jupyter.asked[-1] == ("/user/ada/api/sessions", "token secret")
    before = len(jupyter.asked)
    assert find_kernel(str(tmp_path / "a.ipynb")) == kernel  # the configuration of the agent stays valid
    assert len(jupyter.asked) == before
    for other in ("c.ipynb", "d.ipynb", "e.ipynb"):
        with pytest.raises(McpStartError, match=f"no kernel of .*{other} serves"):
            find_kernel(str(tmp_path / other))
    jupyter.sessions[0]["path"] = "RTC:in/b.ipynb"
    assert find_kernel(moved) == kernel
    restarted = ServedKernel.here("http://127.0.0.1:2/mcp", TOKEN, Path(moved), "id-1")
    restarted.publish()
    assert find_kernel(str(tmp_path / "a.ipynb"), former="id-1") == find_kernel(moved) == restarted
    with pytest.raises(McpStartError, match="Kernels that serve"):
        find_kernel(str(tmp_path / "a.ipynb"), former="id-2")


def test_several_kernels_need_a_name_and_ended_kernels_are_removed(runtime, tmp_path):
    ServedKernel.here("http://127.0.0.1:1/mcp", TOKEN, tmp_path / "a.ipynb").publish().rename(
        runtime / "tract-kernel-1.json"
    )
    ServedKernel.here("http://127.0.0.1:2/mcp", TOKEN, tmp_path / "b.ipynb").publish()
    with pytest.raises(McpStartError, match="several kernels"):
        find_kernel("")
    assert find_kernel(str(tmp_path / "b.ipynb")).url.endswith(":2/mcp")
    ended = ServedKernel.here("http://127.0.0.1:3/mcp", TOKEN, tmp_path / "a.ipynb")
    host, _, rest = ended.process.partition(":")
    path = ended._replace(process=f"{host}:999999999:{rest.partition(':')[2]}").publish()
    assert [one.url[-5:] for one in served_kernels()] == ["1/mcp"]
    assert not path.exists()
