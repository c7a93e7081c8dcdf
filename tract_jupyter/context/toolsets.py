"""The tools for a model. Each schema and each list of schemas is stored once; commits link to lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import brief_repr, canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.storage import CommitRows, Database


class Toolsets:
    """The tool lists of one tract."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows
        self._known: dict[str, tuple[dict[str, Any], ...]] = {}

    def get(self, tools_hash: str) -> tuple[dict[str, Any], ...]:
        """Return the schemas of a list of tools."""
        if tools_hash not in self._known:
            with self._database.read() as connection:
                names = json.loads(self._rows.blobs(connection, [tools_hash])[tools_hash])["tools"]
                schemas = self._rows.blobs(connection, names)
            self._known[tools_hash] = tuple(json.loads(schemas[name]) for name in names)
        return self._known[tools_hash]

    def store(self, tools: Sequence[dict[str, Any]]) -> str:
        """Store a list of tools, and return its hash for commits."""
        if not isinstance(tools, list | tuple):
            raise ContentError(
                f"tools must be a list of tools in OpenAI's shape, or None, not {brief_repr(tools)}"
            )
        payloads = [canonical_json(_checked(tool)).encode() for tool in tools]
        with self._database.write() as connection:
            names = [self._rows.add_blob(connection, payload) for payload in payloads]
            return self._rows.add_blob(connection, canonical_json({"tools": names}).encode())


def _checked(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ContentError(
            'a tool is a dict such as {"type": "function", "function": {"name": ..., "parameters": {...}}}'
        )
    return tool
