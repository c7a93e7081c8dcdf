"""A real kernel as an MCP server: order of code and cells, decisions in another process, restarts."""

from __future__ import annotations

import json
import shlex
import stat
import time
from contextlib import ExitStack, asynccontextmanager
from functools import cached_property, partial

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from jupyter_client.manager import KernelManager
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from tests.kernels.rows import Row
from tests.outside.conftest import command
from tests.toolkit.servers import until
from tract_jupyter import Tract
from tract_jupyter.exceptions import McpStartError
from tract_jupyter.toolkit import KernelProxy, ServedKernel, find_kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(180)]

SERVE = "%load_ext tract_jupyter\n%tract serve"
NO_REHEARSALS = "tract.scripts.rehearsing.is_on = False"


class Notebook:
    """A kernel whose front end never clicks. A second process on its store makes the decisions."""

    def __init__(self, folder, monkeypatch, python):
        self.path = folder / "report.ipynb"
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        monkeypatch.setenv("JPY_SESSION_NAME", str(self.path))
        monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
        self.manager = KernelManager()
        self.manager.kernel_spec.argv[0] = python
        self.manager.start_kernel(cwd=str(folder))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)
        self._store = folder / ".tract" / "report.db"
        self.later = {}

    def run(self, code, *, error=""):
        """Run a cell, and return its text."""
        return self.end(self.begin(code), error)

    def begin(self, code):
        return self.client.execute(code, allow_stdin=True)

    def end(self, cell, error=""):
        text = ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            parent, content = message["parent_header"].get("msg_id"), message["content"]
            if parent != cell:
                self.later[parent] = self.later.get(parent, "") + str(content.get("data", ""))
                continue
            text += content.get("text", "") + str(content.get("data", {}).get("text/plain", ""))
            if message["msg_type"] == "error":
                text += f"{content['ename']}: {content['evalue']}"
                assert content["ename"] == error, text
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return text

    def restart(self):
        self.manager.restart_kernel(now=True)
        self.client.wait_for_ready(60)

    @cached_property
    def store(self):
        """The store, opened like in another process."""
        return Tract.open(self._store)

    def request(self, text=""):
        """Return the only request, or the only request whose code contains the text."""
        (pending,) = until(lambda: [one for one in map(self.store.operations.rebuild, self.store.review.inbox())
                                    if text in str(one.review_request().code)])  # fmt: skip
        return pending

    def decide(self, action="approve", *arguments, text=""):
        """Decide the only request in another process, and return it."""
        pending = self.request(text)
        getattr(pending, action)(*arguments)
        return pending

    def close(self):
        if "store" in vars(self):
            self.store.close()
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Agent:
    """An MCP client in a thread."""

    def __init__(self, portal, client):
        self._portal = portal
        self._client = client

    def begin(self, tool, **arguments):
        return self._portal.start_task_soon(partial(self._client.call_tool, tool, arguments))

    def tools(self):
        return self._portal.call(self._client.list_tools).tools

    def call(self, tool, **arguments):
        return self.begin(tool, **arguments).result(60)

    def run(self, code):
        return self.begin("run_code", code=code)


@pytest.fixture
def notebook(request, tmp_path, monkeypatch):
    """A notebook. Its parameter selects the kernel; the default is this Python."""
    made = Notebook(tmp_path, monkeypatch, getattr(request, "param", Row.MAIN_7).python())
    yield made
    made.close()


@pytest.fixture
def agent(notebook):
    """Connect an agent over HTTP, or through the proxy."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())

        def connect(name="claude-code", *, by_proxy=False):
            info = Implementation(name=name, version="1")
            if by_proxy:
                client = Client(KernelProxy(str(notebook.path)).server, client_info=info)
            else:
                client = over_http(find_kernel(str(notebook.path)), info)
            return Agent(portal, stack.enter_context(portal.wrap_async_context_manager(client)))

        yield connect


@asynccontextmanager
async def over_http(kernel, info):
    headers = {"Authorization": f"Bearer {kernel.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(60, read=None)) as http,
        Client(streamable_http_client(kernel.url, http_client=http), client_info=info) as client,
    ):
        yield client


def data(future):
    result = future.result(60)
    assert not result.is_error, result.content[0].text
    return result.structured_content


def test_the_lines_for_each_client_and_the_file(notebook, agent):
    imported = "import sys\nprint([m for m in sys.modules if m == 'mcp'])"
    assert notebook.run(f"%load_ext tract_jupyter\n{imported}").startswith("[]\n")
    told = notebook.run("%tract serve")
    for line in (
        "claude mcp add notebook -- ",
        "codex mcp add notebook -- ",
        "gemini mcp add --scope user notebook ",
    ):
        assert line in told
    assert '"mcp": {"notebook"' in told
    assert (
        told.count(f"JUPYTER_RUNTIME_DIR={notebook.path.parent / 'runtime'}") == 4
    )  # some clients do not pass it to the process
    kernel = find_kernel(str(notebook.path))
    assert told.count(f"kernel-proxy {notebook.path}") == 3
    assert kernel.token not in told
    (file,) = (notebook.path.parent / "runtime").glob("tract-kernel-*")
    assert (stat.S_IMODE(file.stat().st_mode), len(kernel.token) >= 43) == (0o600, True)
    tools = {tool.name for tool in agent().tools()}
    assert {"run_code", "variables", "result", "log", "query_by_text"} <= tools
    assert not tools & {"notebook_execute", "commit", "approve", "decide"}
    assert agent().call("notebook_execute", code="1", backend="sandbox").is_error
    assert "serves agents" in notebook.run("%tract serve")
    assert find_kernel("") == kernel
    assert "no longer serves" in notebook.run("%tract serve off")
    assert not file.exists()
    with pytest.raises(McpStartError):
        find_kernel(str(notebook.path))


def test_code_runs_in_line_with_the_cells_after_an_approval(notebook, agent):
    serving = notebook.begin(SERVE)
    notebook.end(serving)
    notebook.run(f"{NO_REHEARSALS}\nx = 40\nimport numpy as np\nrows = np.zeros((3, 4))\nwhere = []")
    claude = agent()

    # approved in another process, run here
    run = claude.run("y = x + 2\nprint('hi')\ny")
    request = notebook.decide()
    assert (request.actor, request.title) == (
        "mcp:claude-code",
        "Run a script of the client 'claude-code' in the kernel, with your variables",
    )
    assert (data(run)["output"], data(run)["result"]) == ("hi\n", "42")
    assert notebook.run("print(y, len(In))") == "42 4\n"  # its code is not a cell
    assert "hi" in notebook.later[serving].rpartition("text/plain")[2]  # the record of the decision
    variables = claude.call("variables").structured_content
    assert variables == {"x": "int", "y": "int", "rows": "ndarray(3, 4)", "where": "list[0]"}

    # rejected, with the reason
    run = claude.run("y = 0")
    notebook.decide("reject", "keep y")
    result = run.result(60)
    assert (result.is_error, "keep y" in result.content[0].text) == (True, True)

    # never during a cell that awaits; read calls still work
    cell = notebook.begin(
        "import asyncio\nfor _ in range(20):\n    await asyncio.sleep(0.1)\nwhere.append('cell')"
    )
    run = claude.run("where.append('agent')\nwhere")
    notebook.decide()
    started = time.perf_counter()
    assert "where" in claude.call("variables").structured_content
    assert time.perf_counter() - started < 1
    assert not run.done()
    notebook.end(cell)
    assert data(run)["result"] == "['cell', 'agent']"

    # a failed cell clears the queue of the kernel, but not the approved code
    cell = notebook.begin("import time\ntime.sleep(2)\n1 / 0")
    run = claude.run("after = 1")
    notebook.decide()
    notebook.end(cell, "ZeroDivisionError")
    assert data(run)["status"] == "completed"

    # the stop button
    run = claude.run("import time\nstopped = 1\ntime.sleep(60)")
    notebook.decide()
    until(lambda: "stopped" in claude.call("variables").structured_content)
    started = time.perf_counter()
    notebook.manager.interrupt_kernel()
    assert data(run)["status"] == "interrupted"
    assert time.perf_counter() - started < 5  # 0.2 s on an idle machine

    # a plot, for the agent and below the cell
    run = claude.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone")
    notebook.decide()
    assert [block.type for block in run.result(60).content] == ["text", "image"]
    notebook.run("")
    assert notebook.later[serving].count("'image/png': '") == 1

    # no input, and no separate ticket
    run = claude.run("input('?')")
    notebook.decide()
    assert "StdinNotImplementedError" in data(run)["output"]
    redeem = "__import__('tract_jupyter.notebook.serving', fromlist=['redeem']).redeem('x')"
    assert "not valid" in notebook.run(redeem, error="OperationError")

    # long output is cut
    run = claude.run("print('x' * 5_000_000)")
    notebook.decide()
    assert len(data(run)["output"]) < 50_000


def test_a_client_that_leaves_and_a_kernel_that_restarts(notebook, agent):
    notebook.run(f"{SERVE}\n{NO_REHEARSALS}\nn = 0")
    claude, code = agent(by_proxy=True), "n += 1\nn"

    # the client disconnects: a decision in the notebook is stored, and nothing runs
    left = claude.run(code)
    assert notebook.request().actor == "mcp:claude-code"
    left.cancel()
    until(lambda: "no longer waits" in notebook.request().review_request().why)
    told = notebook.run(
        "(row,) = tract.review.inbox()\np = tract.operations.rebuild(row)\np.approve()\nprint(p.note, '/', n)"
    )
    assert "nothing ran" in told
    assert "/ 0\n" in told
    assert data(claude.run(code))["result"] == "1"

    # the kernel ends while approved code runs and two requests are open
    # a restart interrupts the kernel first, so interruptible code can end before the kernel
    begun = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print(1, file=open('began', 'a'))\ntime.sleep(60)"
    )
    codes = (begun, "n = 2\nn", "m = 1\nm")
    calls = [claude.run(codes[0])]
    notebook.decide()
    began = notebook.path.with_name("began")
    until(began.exists)
    calls += map(claude.run, codes[1:])
    until(lambda: len(notebook.store.review.inbox()) == 3)
    before = find_kernel(str(notebook.path))
    notebook.restart()
    for call in calls:
        result = call.result(60)
        assert (result.is_error, "ended or restarted" in result.content[0].text) == (True, True)
    assert "nothing ran" in notebook.decide(text="n = 2").note
    notebook.run(f"{SERVE}\n{NO_REHEARSALS}\nn = 0")
    assert find_kernel(str(notebook.path)).token != before.token
    assert data(claude.run(codes[1]))["result"] == "2"  # the approval is used once
    run = claude.run(codes[2])  # the new kernel continues the request of the old kernel
    notebook.decide(text="m = 1")
    assert data(run)["result"] == "1"
    assert "m" in claude.call("variables").structured_content
    run = claude.run(codes[1])  # its approval is used
    notebook.decide("reject", text="n = 2")
    assert run.result(60).is_error
    why = notebook.request("began").review_request().why
    assert "began to run it, and its progress is unknown" in why
    notebook.decide("reject", text="began")
    run = claude.run(codes[0])
    notebook.decide("reject")
    assert run.result(60).is_error
    assert began.read_text() == "1\n"

    # the notebook is closed
    run = claude.run("n = 3")
    notebook.request()
    notebook.client.shutdown()
    until(lambda: not notebook.manager.is_alive())
    assert "ended or restarted" in run.result(60).content[0].text
    assert "no longer waits" in notebook.request().review_request().why
    with pytest.raises(McpStartError):
        find_kernel(str(notebook.path))
    assert not list((notebook.path.parent / "runtime").glob("tract-kernel-*"))


def test_approved_code_that_waits_when_the_server_ends_runs_once(notebook, agent):
    notebook.run(f"{SERVE}\n{NO_REHEARSALS}\nruns = []")
    go = notebook.path.with_name("go")
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)"
    cell = notebook.begin(f"{wait}\n%tract serve off\ntime.sleep(1)")
    agent().run("runs.append(1)\nlen(runs)")
    pending = notebook.decide()
    ledger = notebook.store.reviewer.ledger
    until(lambda: ledger.news(pending).last.started_at is not None)
    go.touch()
    notebook.end(cell)
    until(lambda: notebook.run("print(runs)") == "[1]\n")
    until(lambda: not notebook.store.review.inbox())
    stored = ledger.news(pending)
    assert (stored.pending.status, stored.last.error) == ("approved", None)


def test_a_call_cancelled_while_queued_or_running_runs_once_if_repeated(notebook, agent):
    notebook.run(f"{SERVE}\n{NO_REHEARSALS}\nruns = []")
    claude = agent()
    for name, busy in (("queued", True), ("running", False)):
        go = notebook.path.with_name(f"go-{name}")
        wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)"
        code = f"runs.append({name!r})\n{'' if busy else wait}\nruns.count({name!r})"
        cell = notebook.begin(wait) if busy else None
        call = claude.run(code)
        notebook.decide(text=name)
        if not busy:
            until(lambda: "list[2]" in str(claude.call("variables").structured_content))
        call.cancel()
        again = claude.run(code)
        go.touch()
        if cell is not None:
            notebook.end(cell)
        assert data(again)["result"] == "1"
    assert notebook.run("print(runs)") == "['queued', 'running']\n"
    assert not notebook.store.review.inbox()


@pytest.mark.parametrize("notebook", [Row.MAIN_6], indirect=True, ids=["ipykernel 6"])
def test_a_kernel_of_ipykernel_6_serves_over_http_and_through_the_proxy(notebook, agent):
    notebook.run(f"{SERVE}\n{NO_REHEARSALS}\nwhere = []")
    assert notebook.run("import ipykernel\nprint(ipykernel.version_info[0])") == "6\n"
    for client in (agent(), agent("codex-mcp-client", by_proxy=True)):
        # not during a cell that awaits; read calls still work
        cell = notebook.begin(
            "import asyncio\nfor _ in range(10):\n    await asyncio.sleep(0.1)\nwhere = ['cell']"
        )
        run = client.run("where.append('agent')\nwhere")
        notebook.decide()
        assert "where" in client.call("variables").structured_content
        notebook.end(cell)
        assert data(run)["result"] == "['cell', 'agent']"

        # busy, and the stop button
        run = client.run("import time\nstopped = 1\ntime.sleep(60)")
        notebook.decide()
        until(lambda client=client: "stopped" in client.call("variables").structured_content)
        notebook.manager.interrupt_kernel()
        assert data(run)["status"] == "interrupted"

        # no input
        run = client.run("del stopped\ninput('?')")
        notebook.decide()
        assert "StdinNotImplementedError" in data(run)["output"]


def test_a_call_after_the_turn_of_its_agent_runs_in_order_with_the_cells(notebook, tmp_path):
    log = tmp_path / "log.jsonl"
    code = "import asyncio\nopen('made.txt', 'w').close()\nawait asyncio.sleep(0, 'slept')"
    fake = command(prompts=[[["kernel", code], ["text", "Done."]]], log=str(log))
    notebook.run(f"%load_ext tract_jupyter\n{NO_REHEARSALS}")
    turn = notebook.begin(f"%%tract_chat --agent {shlex.quote(fake)}\nWork.")
    notebook.decide()
    shown = notebook.end(turn)
    assert "Done." in shown
    assert "made.txt" not in shown.rpartition("Files changed without a request.")[2]  # it is approved
    assert "slept" in log.read_text()
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    (server,) = next(one["params"]["mcpServers"] for one in sent if one.get("method") == "session/new")
    token = server["headers"][0]["value"].removeprefix("Bearer ")
    kernel = ServedKernel(server["url"], token, "", "", 0)
    with start_blocking_portal() as portal:
        client = over_http(kernel, Implementation(name="fake", version="1"))
        with portal.wrap_async_context_manager(client) as connected:
            run = Agent(portal, connected).run("import threading\nthreading.current_thread().name")
            notebook.decide()
            assert data(run)["result"] == "'MainThread'"


def test_the_effects_of_a_rehearsal_are_kept(notebook, agent):
    notebook.run(f"{SERVE}\nfrom tract_jupyter.rehearsal import probe\nrows = [1, 2]")
    if "none" in notebook.run("print(probe().name)"):
        pytest.skip("no rehearsals here")
    codex = agent("codex-mcp-client")
    run = codex.run("rows = rows + [3]\nprint(len(rows))")
    request = notebook.request()
    assert request.actor == "mcp:codex-mcp-client"
    assert "rows" in request.review_request().effects.headline
    notebook.decide("execute_tool", "keep", {})
    assert data(run)["output"] == "3\n"
    assert notebook.run("print(rows)") == "[1, 2, 3]\n"

    # the copy does not have the token
    token = find_kernel("").token
    found = "list(sys.modules['tract_jupyter.toolkit.mcp.http']._tokens)"
    run = codex.run(f"import sys\nfound = {found}\nprint(len(found), [o[::-1] for o in found])")
    text = notebook.request().review_request().effects.text(10_000)
    assert text.startswith("1 [")
    assert token[::-1] not in text
    notebook.decide("reject")
    assert run.result(60).is_error
