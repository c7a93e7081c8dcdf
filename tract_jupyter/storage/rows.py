"""Base class for the rows of one tract in one table: find, add, update, remove, keep the newest.

A row is a NamedTuple with columns of the table as fields. The subclasses are in `signed`, `journal` and `runs`.
Statements are cached, because building one takes longer than running it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint, and_, bindparam, select

from tract_jupyter.storage.columns import unchecked
from tract_jupyter.storage.connections import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Insert, Select, Table, Update


Stored = TypeVar("Stored", bound=NamedTuple)


class Rows(Generic[Stored]):
    """One tract's rows of one kind. A subclass sets the table, the row type and the order.

    Attributes:
        table: the table, with a column `tract_id`.
        row: the type of a row.
        order: the columns to sort by.
        is_checked: False for rows with a signature. Damaged values are then read without an error.
    """

    table: ClassVar[Table]
    row: ClassVar[type[Any]]
    order: ClassVar[tuple[str, ...]] = ("id",)
    is_checked: ClassVar[bool] = True

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def find(self, connection: Connection, **where: object) -> list[Stored]:
        """Return the rows with these values in order."""
        query = _query(self.table, self.row._fields, tuple(where), self.order, is_checked=self.is_checked)
        return query.rows(connection, {"tract_id": self.tract_id, **where}, self.row._make)

    def find_one(self, connection: Connection, **where: object) -> Stored | None:
        """Return the first row with these values."""
        rows = self.find(connection, **where)
        return rows[0] if rows else None

    def insert(self, connection: Connection, row: Stored, **more: object) -> None:
        """Add a row. `more` are the values of other columns."""
        connection.execute(_insert(self.table), {"tract_id": self.tract_id, **more, **row._asdict()})

    def update(self, connection: Connection, where: Mapping[str, object], **values: object) -> int:
        """Update the rows with the values in `where`, and return their number."""
        statement = _update(self.table, tuple(where))
        known = {f"its_{name}": value for name, value in where.items()}
        return connection.execute(
            statement.values(**values), {"its_tract_id": self.tract_id, **known}
        ).rowcount

    def remove_where(self, connection: Connection, **where: object) -> int:
        """Remove the rows with these values, and return their number."""
        return _delete(self.table, tuple(where)).run(connection, {"tract_id": self.tract_id, **where})

    def put(
        self, connection: Connection, key: dict[str, object], values: dict[str, object], **fresh: object
    ) -> None:
        """Update the row of a key with `values`, or add it with `values` and `fresh`."""
        row = {"tract_id": self.tract_id, **key, **values, **fresh}
        _put(self.table, tuple(key), tuple(values), tuple(fresh)).run(connection, row)

    def keep_newest(self, connection: Connection, count: int) -> None:
        """Remove all but the newest `count` rows."""
        of_tract = self.table.c.tract_id == self.tract_id
        number = self.table.c.id
        oldest_kept = select(number).where(of_tract).order_by(number.desc()).offset(count - 1).limit(1)
        oldest = connection.scalar(oldest_kept)
        if oldest is not None:
            connection.execute(self.table.delete().where(of_tract, number < oldest))

    def _select(self, where: Iterable[str]) -> Select[Any]:
        return selected(self.table, self.row._fields, tuple(where), self.order, is_checked=self.is_checked)


@cache
def selected(
    table: Table,
    names: Sequence[str],
    where: tuple[str, ...],
    order: tuple[str, ...],
    *,
    is_checked: bool = True,
) -> Select[Any]:
    """Return a query of the rows with some values. The parameters are `tract_id` and the names of the columns."""
    columns = [table.c[name] if is_checked else unchecked(table.c[name]) for name in names]
    return select(*columns).where(_have(table, where)).order_by(*[table.c[name] for name in order])


@cache
def _query(
    table: Table, names: Sequence[str], where: tuple[str, ...], order: tuple[str, ...], *, is_checked: bool
) -> Prepared:
    return Prepared(lambda _: selected(table, names, where, order, is_checked=is_checked))


@cache
def _insert(table: Table) -> Insert:
    return table.insert()


@cache
def _update(table: Table, where: tuple[str, ...]) -> Update:
    return table.update().where(_have(table, where, "its_"))  # other names than those of the new values


@cache
def _put(table: Table, key: tuple[str, ...], values: tuple[str, ...], fresh: tuple[str, ...]) -> Prepared:
    """Return the statement that updates or adds the row of a key. A constraint of the table makes the key unique."""
    inserted: dict[str, Any] = {name: bindparam(name) for name in ("tract_id", *key, *values, *fresh)}
    changed = {name: inserted[name] for name in values}
    sets = [
        {column.name for column in constraint.columns}
        for constraint in table.constraints
        if isinstance(constraint, PrimaryKeyConstraint | UniqueConstraint)
    ]
    unique = next(names for names in sets if names <= {"tract_id", *key})
    return Prepared(
        lambda dialect: (
            dialect.insert(table).values(inserted).on_conflict_do_update(index_elements=unique, set_=changed)
        )
    )


@cache
def _delete(table: Table, where: tuple[str, ...]) -> Prepared:
    return Prepared(lambda _: table.delete().where(_have(table, where)))


def _have(table: Table, names: tuple[str, ...], prefix: str = "") -> ColumnElement[bool]:
    return and_(*[table.c[name] == bindparam(prefix + name) for name in ("tract_id", *names)])
