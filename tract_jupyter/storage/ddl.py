"""The statements that make a store's tables and indexes, as text: to compile them takes longer than to run them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy.schema import CreateIndex, CreateTable

from tract_jupyter.storage.schema import metadata

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.schema import DDLElement


@cache
def making(dialect: Dialect) -> tuple[str, ...]:
    """What makes an empty store, in its order."""
    made: list[DDLElement] = []
    for table in metadata.sorted_tables:
        made.append(CreateTable(table))
        made += [CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name))]
    return tuple(str(one.compile(dialect=dialect)) for one in made)
