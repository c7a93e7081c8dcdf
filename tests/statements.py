"""The statements that a database runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, event


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that SQLAlchemy runs in the block."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_):
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def traced(seen: list[str]) -> Iterator[None]:
    """Add to `seen` the statements of SQLite connections that are opened in the block, from any source."""

    def trace(connection, _):
        connection.set_trace_callback(lambda statement: seen.append(" ".join(statement.split()[:3])))

    event.listen(Engine, "connect", trace)
    try:
        yield
    finally:
        event.remove(Engine, "connect", trace)
