"""The tools that a model was offered: each schema kept once, each list of them kept once, linked to commits."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import brief_repr, canonical_json, plain

if TYPE_CHECKING:
    from tract_jupyter.storage import CommitRows, Database


class Toolsets:
    """The tool lists of one tract."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows
        self._known: dict[str, tuple[dict[str, Any], ...]] = {}
        self._current: str | None = None
        self._offered: list[dict[str, Any]] | None = None
        self._lock = threading.Lock()

    def offer(self, tools: list[dict[str, Any]] | None) -> None:
        """Link these tools to each commit from now on; None stops that.

        Raises:
            ContentError: these are no tools.
        """
        with self._lock:
            self._current = None if tools is None else self._keep(tools)
            self._offered = None if tools is None else plain(tools)

    def keep_again(self) -> None:
        """Store what is offered once more, since a transaction that did it was rolled back."""
        with self._lock:
            if self._offered is not None:
                self._current = self._keep(self._offered)

    def for_commit(self, tools: list[dict[str, Any]] | None) -> str | None:
        """Return the hash of the tools that a new commit is linked to."""
        return self._current if tools is None else self._keep(tools)

    @property
    def offered(self) -> tuple[dict[str, Any], ...]:
        """Return the tools that `offer` set."""
        return self.get(self._current)

    def get(self, tools_hash: str | None) -> tuple[dict[str, Any], ...]:
        """Return the schemas of a list of tools; none for None."""
        if tools_hash is None:
            return ()
        if tools_hash not in self._known:
            with self._database.read() as connection:
                names = json.loads(self._rows.blobs(connection, [tools_hash])[tools_hash])["tools"]
                schemas = self._rows.blobs(connection, names)
            self._known[tools_hash] = tuple(json.loads(schemas[name]) for name in names)
        return self._known[tools_hash]

    def _keep(self, tools: list[dict[str, Any]]) -> str:
        if not isinstance(tools, list | tuple):
            raise ContentError(
                f"tools is a list of tools in OpenAI's shape, or None; not {brief_repr(tools)}"
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
