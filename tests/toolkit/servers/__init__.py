"""MCP servers to test against; each is a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def command(name, *arguments):
    """The command that starts one of them."""
    return [sys.executable, str(FOLDER / f"{name}.py"), *map(str, arguments)]
