"""Statements of the hot path, handed to the driver as they are.

SQLAlchemy writes them, once for each dialect, and is not asked again: its share of a commit was the largest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Executable


class Prepared:
    """One statement that returns no rows, with named parameters.

    Args:
        make: called with a dialect's module, such as `sqlalchemy.dialects.sqlite`; returns the statement.
    """

    def __init__(self, make: Callable[[Any], Executable]) -> None:
        self._make = make
        self._texts: dict[str, str] = {}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> int:
        """Run it, and return how many rows it changed."""
        cursor = connection.connection.cursor()
        try:
            cursor.execute(self._text(connection), parameters)
            changed: int = cursor.rowcount
        finally:
            cursor.close()
        return changed

    def run_all(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it for each row."""
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(self._text(connection), rows)
        finally:
            cursor.close()

    def _text(self, connection: Connection) -> str:
        name = connection.dialect.name
        text = self._texts.get(name)
        if text is None:
            module = import_module(f"sqlalchemy.dialects.{name}")
            style = "named" if name == "sqlite" else connection.dialect.paramstyle
            dialect = module.dialect(paramstyle=style)
            text = self._texts[name] = str(self._make(module).compile(dialect=dialect))  # type: ignore[attr-defined]
        return text
