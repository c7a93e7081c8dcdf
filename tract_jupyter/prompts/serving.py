"""Instructions that a client of our MCP server passes to its model."""

from __future__ import annotations

INSTRUCTIONS = """\
These tools work on a versioned, token-counted context and fire the operations that its owner has approved. \
Tools that only read answer at once. Any other call waits until its owner allows it in their notebook, for at most \
{seconds:g} seconds. A call that comes back as an error was not carried out; its text says why, and what is allowed."""
