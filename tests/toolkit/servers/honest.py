"""A server made with the official SDK: `honest.py [stdio | PORT]`."""

from __future__ import annotations

import os
import sys
import threading
from typing import Annotated

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("honest")
done: list[str] = []


class Place(BaseModel):
    name: str
    population: int


@server.tool()
def add(a: int, b: Annotated[int, Field(description="What to add.")] = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find(name: str) -> Place:
    """Find a place."""
    return Place(name=name, population=len(name))


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool()
def fail(why: str) -> str:
    """Raise an error."""
    raise ValueError(why)


@server.tool()
async def sleep(seconds: float) -> str:
    """Sleep, and note the beginning, and whether it was to the end."""
    done.append("sleeps")
    try:
        await anyio.sleep(seconds)
    except BaseException:
        done.append("cancelled")
        raise
    done.append("slept")
    return "slept"


@server.tool()
def notes() -> list[str]:
    """What `sleep` noted."""
    return done


@server.tool()
def environment() -> list[str]:
    """The names of the variables."""
    return sorted(os.environ)


@server.tool()
def die(code: int) -> str:
    """End the program in the middle of the call."""
    print("I am dying", file=sys.stderr, flush=True)
    os._exit(code)


@server.tool()
async def grow(name: str) -> str:
    """Add a tool."""

    def grown() -> str:
        """New."""
        return name

    server.add_tool(grown, name=name)
    from mcp.server.subscriptions import ToolsListChanged

    await server._subscriptions.publish(ToolsListChanged())
    return "grown"


@server.tool()
def together(count: int) -> int:
    """Answer when `count` calls are waiting."""
    barrier = _barriers.setdefault(count, threading.Barrier(count))
    return barrier.wait(60)


_barriers: dict[int, threading.Barrier] = {}

if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
