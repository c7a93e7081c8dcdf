"""Stores of version 1, as that version wrote them: `v1.sql` is the dump of one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy
from sqlalchemy import BLOB, LargeBinary, MetaData, create_engine

DUMP = Path(__file__).with_name("v1.sql")
TRACT, OTHER, EMPTY = "4861924975da4e57b84fb7821eb434a1", "b" * 32, "c" * 32
# what version 1 compiled
SKIPPED = "noise"
COMMON = [
    ("system", "Answer briefly.", "pinned"),
    ("user", "What is a tract?", "important"),
    ("assistant", "The user asks for a definition.", "normal"),
    ("assistant", "A versioned context.", "normal"),
    ("user", "Größe, 中文, <|endoftext|> and 'quotes'", "important"),
    ("tool", '{"hits":[1,2],"note":"é"}', "normal"),
    ("assistant", "print(1)", "normal"),
    ("assistant", '{"k":null}', "normal"),
    ("system", "Session checkpoint: half-way\n\nDecisions:\n- go on", "normal"),
]
BRANCHES = {
    "main": [COMMON[0], ("user", "What is a tract, exactly?", "important"), *COMMON[2:], ("user", "only on main", "normal")],
    "topic/one": [
        *COMMON[:3], ("assistant", "A versioned context, counted in tokens.", "normal"), *COMMON[4:],
        ("user", "only on the topic", "normal"),
    ],
}  # fmt: skip
TOKENS = {"main": 131, "topic/one": 134}


def make_file(path: Path) -> Path:
    """An SQLite file of version 1."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(DUMP.read_text())
    return path


def copy_to(url: str, file: Path) -> None:
    """The same in another, empty database."""
    source, target = create_engine(f"sqlite:///{file}"), create_engine(url, poolclass=sqlalchemy.NullPool)
    tables = MetaData()
    tables.reflect(source)
    for table in tables.tables.values():
        for column in table.c:
            if isinstance(column.type, BLOB):
                column.type = LargeBinary()
    tables.create_all(target)
    with source.connect() as old, target.begin() as new:
        for table in tables.sorted_tables:
            order = [table.c.id] if "id" in table.c else []
            rows = [dict(row._mapping) for row in old.execute(table.select().order_by(*order))]
            if rows:
                new.execute(table.insert(), rows)
            if order and target.name == "postgresql":
                last = f"(SELECT coalesce(max(id), 0) + 1 FROM {table.name})"
                new.exec_driver_sql(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {last}, false)"
                )
    source.dispose()
