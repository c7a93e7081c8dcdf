"""Latencies of `%tract serve`: calls over HTTP and through the proxy, reads while a cell runs, and Stop."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
from jupyter_client.manager import KernelManager
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from benchmarks.timing import Row
from tract_jupyter.toolkit import find_kernel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jupyter_client.blocking.client import BlockingKernelClient

_CALLS: Final = 15
_ROUNDS: Final = 5
_SETUP: Final = """\
%load_ext tract_jupyter
import sys, time
assert "mcp" not in sys.modules
started = time.perf_counter()
%tract serve
print("SERVED", time.perf_counter() - started)
from tract_jupyter.review import Answer, Channel
class Approving(Channel):
    def can_reach(self):
        return True
    def panel_may_answer(self, ticket, waited):
        return True
    def show(self, ticket):
        if ticket.status.is_open:
            ticket.submit(Answer("approve", {}, ticket.round_id), "benchmark")
tract.reviewer.channel = Approving()
tract.scripts.rehearsing.is_on = False
def direct():
    toolset = tract.toolset("full", actor="mcp:direct")
    def median():
        took = []
        for _ in range(15):
            began = time.perf_counter()
            toolset.execute("notebook_execute", {"code": "1 + 1", "backend": "kernel", "notebook_id": "user"})
            took.append(time.perf_counter() - began)
        return sorted(took)[7]
    return min(median() for _ in range(5))
print("DIRECT", direct())
"""


def rows() -> Iterator[Row]:
    """Measure medians, the best of five rounds, with a real kernel, and a channel that approves at once."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JUPYTER_RUNTIME_DIR"] = folder
        os.environ["JPY_SESSION_NAME"] = str(Path(folder) / "n.ipynb")
        manager = KernelManager()
        manager.start_kernel(cwd=folder)
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(60)
            yield from _rows(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def _rows(manager: KernelManager, client: BlockingKernelClient) -> Iterator[Row]:
    printed = _run(client, _SETUP)
    served, direct = (float(printed.split(name)[1].split()[0]) for name in ("SERVED", "DIRECT"))
    yield Row("%tract serve, with the SDK's import in a thread", served, "s")
    yield Row("run_code in the kernel itself", direct, "ms")
    http = anyio.run(_measure, _http)
    yield Row("variables over HTTP", http["variables"], "ms")
    yield Row("run_code over HTTP, more than in the kernel", http["run_code"] - direct, "ms", 30)
    proxy = anyio.run(_measure, _proxy)
    yield Row("run_code through the proxy, more than in the kernel", proxy["run_code"] - direct, "ms", 60)
    client.execute("import time\nend = time.time() + 20\nwhile time.time() < end: pass")
    sleep(1)
    yield Row("variables while a cell runs, the slowest", anyio.run(_slowest_read), "ms", 200)
    manager.interrupt_kernel()
    yield Row("from Stop to the answer of run_code", anyio.run(_stop, manager), "ms", 200)


def _run(client: BlockingKernelClient, code: str) -> str:
    texts: list[str] = []

    def keep(message: dict[str, Any]) -> None:
        texts.append(message["content"].get("text", "") + "\n".join(message["content"].get("traceback", ())))

    client.execute_interactive(code, timeout=60, output_hook=keep)
    return "".join(texts)


@asynccontextmanager
async def _http() -> AsyncIterator[Client]:
    kernel = find_kernel("")
    headers = {"Authorization": f"Bearer {kernel.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=None)) as http,
        Client(streamable_http_client(kernel.url, http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def _proxy() -> AsyncIterator[Client]:
    import sys

    words = ["-m", "tract_jupyter", "kernel-proxy"]
    env = {
        name: os.environ[name] for name in ("JUPYTER_RUNTIME_DIR", "PATH", "PYTHONPATH") if name in os.environ
    }
    async with Client(StdioServerParameters(command=sys.executable, args=words, env=env)) as client:
        yield client


async def _measure(connect: Any) -> dict[str, float]:
    async with connect() as client:
        took = {}
        for tool, arguments in (("variables", {}), ("run_code", {"code": "1 + 1"})):
            await client.call_tool(tool, arguments)
            rounds = [
                median([await _time(client, tool, arguments) for _ in range(_CALLS)]) for _ in range(_ROUNDS)
            ]
            took[tool] = min(rounds)
        return took


async def _time(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    started = perf_counter()
    result = await client.call_tool(tool, arguments)
    took = perf_counter() - started
    assert not result.is_error, json.dumps(str(result.content))  # noqa: S101 # a benchmark of failures says nothing
    return took


async def _slowest_read() -> float:
    async with _http() as client:
        return max([await _time(client, "variables", {}) for _ in range(_CALLS)])


async def _has_variable(client: Client, name: str) -> bool:
    return name in ((await client.call_tool("variables", {})).structured_content or {})


async def _stop(manager: KernelManager) -> float:
    took = []
    async with _http() as client, anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def work() -> None:
            await client.call_tool("run_code", {"code": "import time\nrunning = 1\ntime.sleep(30)"})
            ended.set()

        tasks.start_soon(work)
        while not await _has_variable(client, "running"):  # noqa: ASYNC110 # the kernel sets no event
            await anyio.sleep(0.05)
        started = perf_counter()
        manager.interrupt_kernel()
        await ended.wait()
        took.append(perf_counter() - started)
    return took[0]
