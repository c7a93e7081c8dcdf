"""An attacker made of SQL: may write the database, and does not have the secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, create_engine

from tests.review.fakes import FakeChannel, click
from tract_jupyter.review import Project, Trust
from tract_jupyter.toolkit import ToolDefinition, Traits

PROJECT = "ab" * 16


def project(lock: Path | None = None) -> Project:
    """The project of a lock file, which `keep` makes; without one, what signs for it."""
    folder = Path("nowhere") if lock is None else lock.parent
    return Project(folder.resolve(), PROJECT, Trust().for_project(PROJECT))


class Attacker:
    """Reads and writes a store with plain SQL."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, poolclass=NullPool)

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._engine.begin() as connection:
            marks = statement if connection.dialect.name == "sqlite" else statement.replace("?", "%s")
            rows = connection.exec_driver_sql(marks, values)
            return [tuple(row) for row in rows] if rows.returns_rows else []

    def set(self, table: str, **values: Any) -> None:
        """Change every row of a table."""
        changes = ", ".join(f"{name} = ?" for name in values)
        self.run(f"UPDATE {table} SET {changes}", *values.values())

    def insert(self, table: str, **values: Any) -> None:
        marks = ", ".join("?" * len(values))
        self.run(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())

    def rewrite(self, table: str, column: str, old: str, new: str) -> None:
        """Replace a text within a column, which must have been there."""
        assert any(old in (text or "") for (text,) in self.run(f"SELECT {column} FROM {table}"))
        self.run(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", old, new)

    def decide(self, pending: Any, **changes: Any) -> None:
        """Forge a decision, as another process would have handed it over."""
        row = {
            "tract_id": pending.tract.tract_id, "pending_id": pending.pending_id, "round": 0, "action": "approve",
            "arguments_json": "{}", "reason": "", "decided_by": "root", "channel": "panel",
            "fingerprint": pending.fingerprint, "identity": pending.identity, "signature": "0" * 64,
            "created_at": "2026-01-01T00:00:00.000000+00:00",
        }  # fmt: skip
        self.insert("decisions", **{**row, **changes})


def in_the_inbox_of(t: Any) -> Any:
    """The panel that `%tract inbox` shows for what waits the longest."""
    return t.reviewer.show_again(t.operations.rebuild(t.review.inbox()[0]))


def press(t: Any, ticket: Any, action: str, **arguments: Any) -> None:
    """Click, and have it carried out."""
    assert click(ticket, action, **arguments)
    t.reviewer.channel.run_due()


def decisions(t: Any) -> list[dict[str, Any]]:
    """The decisions, oldest first."""
    return [event.data for event in reversed(t.events("decision"))]


def last_note(t: Any) -> str:
    """What the newest showing says about the answer before it."""
    return str(t.reviewer.channel.notes[-1])


def add_writer(t: Any, ran: list[Any]) -> ToolDefinition:
    """Give a tract a tool that a model must ask for."""

    def write(path: str, n: int = 0) -> str:
        """Write a file."""
        ran.append((path, n))
        return "written"

    tool = ToolDefinition.from_function(write, traits=Traits(destructive=True))
    t.executor.add(tool)
    return tool


def call(t: Any, *steps: Any, path: str = "a") -> Any:
    """A model's call of that tool, with the person doing these steps."""
    t.reviewer.channel = FakeChannel(*steps)
    return t.executor.execute("write", {"path": path}, actor="agent:1")


def as_json(value: Any) -> str:
    return json.dumps(value)
