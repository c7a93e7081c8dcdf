"""Statements of the hot path, handed to the driver as they are.

SQLAlchemy writes them, once for each dialect, and is not asked again: its share of a commit was the largest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Executable


class Prepared:
    """One statement.

    Args:
        make: called with a dialect's module, such as `sqlalchemy.dialects.sqlite`; returns the statement.
        order: the order of its parameters, if it takes them so instead of by name.
    """

    def __init__(self, make: Callable[[Any], Executable], order: Sequence[str] = ()) -> None:
        self._make = make
        self._order = list(order)
        self._texts: dict[str, str] = {}
        self._kinds: list[Any] = []

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> int:
        """Run it, and return how many rows it changed."""
        cursor = connection.connection.cursor()
        try:
            cursor.execute(self._text(connection), parameters)
            changed: int = cursor.rowcount
        finally:
            cursor.close()
        return changed

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Run it, and return the rows that it gives.

        Raises:
            StoreCorruptError: a value is not what its column holds.
        """
        cursor = connection.connection.cursor()
        try:
            cursor.execute(self._text(connection), parameters)
            rows: Sequence[Any] = cursor.fetchall()
        finally:
            cursor.close()
        for kind, values in zip(self._kinds, zip(*rows, strict=True), strict=False):
            kind.check(values)
        return rows

    def run_all(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Run it for each row of values in order; that is quicker than by name."""
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(self._text(connection), rows)
        finally:
            cursor.close()

    def _text(self, connection: Connection) -> str:
        name = connection.dialect.name
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self._compiled(name)
        return text

    def _compiled(self, name: str) -> str:
        module = import_module(f"sqlalchemy.dialects.{name}")
        styles = ("qmark", "named") if name == "sqlite" else ("format", "pyformat")
        statement = self._make(module)
        if isinstance(statement, Select):
            self._kinds = [column.type for column in statement.selected_columns]
        compiled = statement.compile(dialect=module.dialect(paramstyle=styles[not self._order]))  # type: ignore[attr-defined]
        if self._order and compiled.positiontup != self._order:
            raise ValueError(f"the statement takes {compiled.positiontup}, not {self._order}")
        return str(compiled)
