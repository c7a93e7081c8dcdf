"""The stdio side of our servers. They answer a line that is not a message with an error; the SDK would ignore it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


async def serve_stdio(server: Server[Any]) -> None:
    """Serve over stdin and stdout until the client disconnects. All other printed output goes to stderr."""
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        to_us, valid = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        tasks.start_soon(_answer_invalid, incoming, to_us, outgoing.clone())
        await server.run(valid, outgoing, options)


async def _answer_invalid(incoming: Any, valid: Any, outgoing: Any) -> None:
    """Pass messages on, and answer any other line with an error."""
    async with incoming, valid, outgoing:
        async for item in incoming:
            if not isinstance(item, Exception):
                await valid.send(item)
            elif (error := _error_for(item)) is not None:
                await outgoing.send(SessionMessage(error))


def _error_for(problem: Exception) -> JSONRPCError | None:
    """Return the error for a line that is not a message; None for a blank line.

    The error has the id of the line, if it has a valid one.
    """
    errors = problem.errors(include_url=False) if isinstance(problem, ValidationError) else []
    inputs = [entry["input"] for entry in errors]
    if inputs and isinstance(inputs[0], str) and not inputs[0].strip():
        return None
    code, why = INVALID_REQUEST, "Invalid Request: the line is not a JSON-RPC message"
    if not errors or errors[0]["type"] == "json_invalid":
        code, why = PARSE_ERROR, "Parse error: the line is not JSON"
        inputs = [_read(line) for line in inputs]
    message_id = next((value.get("id") for value in inputs if isinstance(value, dict)), None)
    is_id = isinstance(message_id, str | int) and not isinstance(message_id, bool)
    return JSONRPCError(
        jsonrpc="2.0", id=message_id if is_id else None, error=ErrorData(code=code, message=why)
    )


def _read(line: Any) -> Any:
    """Return the JSON of a line that only the SDK refuses, such as one with a lone surrogate; None for other lines."""
    try:
        return json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
