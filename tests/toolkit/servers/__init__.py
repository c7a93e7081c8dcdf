"""MCP servers to test against; each is a program of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
_DEADLINE = 60.0


def command(name, *arguments):
    """The command that starts one of them."""
    return [sys.executable, str(FOLDER / f"{name}.py"), *map(str, arguments)]


def until(condition):
    """Wait for what another process or thread does, and return what came of it."""
    end = time.monotonic() + _DEADLINE
    while not (found := condition()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)
    return found


def scripted(folder, tools, answers=None, *, progress=None, capabilities=None):
    """The command that starts a server with these tools and answers; see `scripted.py`."""
    spec = {
        "tools": tools,
        "answers": answers or {},
        "progress": progress or {},
        "capabilities": capabilities or {},
    }
    path = Path(folder) / "spec.json"
    path.write_text(json.dumps(spec))
    return command("scripted", path)
