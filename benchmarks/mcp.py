"""The cost of calling an MCP server's tool in code, compared with the SDK's own call."""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import Client, StdioServerParameters

from benchmarks.timing import Row, time_call
from tract_jupyter import Tract

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVER: Final = """\
from mcp.server.mcpserver import MCPServer
server = MCPServer("benchmark")
@server.tool()
def add(a: int, b: int = 2) -> int:
    return a + b
server.run("stdio")
"""
_COMMAND: Final = [sys.executable, "-c", _SERVER]
_CALLS: Final = 300
_ROUNDS: Final = 5


def rows() -> Iterator[Row]:
    """Measure medians of the best of five rounds. The two take turns, because the machine's speed varies."""
    with Tract.open() as tract:
        start = time_call(lambda: tract.mcp.add("server", _COMMAND))
        yield Row("starting a server, with the SDK's import on both sides", start, "ms")
        bare, ours = zip(*(_round(tract.tools) for _ in range(_ROUNDS)), strict=True)
    yield Row("the SDK's own call over stdio", min(bare), "ms")
    yield Row("tools.server.add over stdio", min(ours), "ms")
    yield Row("how many times the SDK's", min(ours) / min(bare), "x", 1.3)


def _round(tools: Any) -> tuple[float, float]:
    return anyio.run(_bare), median(time_call(lambda: tools.server.add(a=1, b=2)) for _ in range(_CALLS))


async def _bare() -> float:
    parameters = StdioServerParameters(command=_COMMAND[0], args=_COMMAND[1:])
    async with Client(parameters, cache=None) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        took = []
        for _ in range(_CALLS):
            started = perf_counter()
            await client.call_tool("add", {"a": 1, "b": 2})
            took.append(perf_counter() - started)
    return median(took)
