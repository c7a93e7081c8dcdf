"""Rows of one tract in one table, each as a NamedTuple whose fields are columns of the table.

What all kinds of rows share: reading those that have some values, adding, changing, removing, keeping the newest only.
`signed` and `journal` say which kinds there are. Statements are made once: building one takes longer than running it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint, and_, bindparam, select

from tract_jupyter.storage.columns import unchecked
from tract_jupyter.storage.connections import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Select, Table, Update


Stored = TypeVar("Stored", bound=NamedTuple)


class Rows(Generic[Stored]):
    """The rows of one kind of one tract; a subclass names the table, the row and the order in which they are read.

    Attributes:
        table: has a column `tract_id`.
        row: the type of a row.
        order: the columns they are read by.
        is_checked: False for what is verified in another way: then a damaged value is read as it is.
    """

    table: ClassVar[Table]
    row: ClassVar[type[Any]]
    order: ClassVar[tuple[str, ...]] = ("id",)
    is_checked: ClassVar[bool] = True

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def find(self, connection: Connection, **where: object) -> list[Stored]:
        """Return the rows that have these values, in their order."""
        return [self.row._make(row) for row in connection.execute(self._select(where), self._given(where))]

    def find_one(self, connection: Connection, **where: object) -> Stored | None:
        """Return the first row that has these values."""
        row = connection.execute(self._select(where), self._given(where)).first()
        return None if row is None else self.row._make(row)

    def insert(self, connection: Connection, *rows: Stored, **more: object) -> None:
        """Add rows; `more` are values of columns that they do not have."""
        given = {"tract_id": self.tract_id, **more}
        connection.execute(self.table.insert(), [{**given, **row._asdict()} for row in rows])

    def update(self, connection: Connection, where: Mapping[str, object], **values: object) -> int:
        """Change the rows that have some values, and return how many did."""
        statement = _update(self.table, tuple(where))
        return connection.execute(statement.values(**values), self._given(where)).rowcount

    def remove_where(self, connection: Connection, **where: object) -> int:
        """Remove the rows that have these values, and return how many did."""
        return _delete(self.table, tuple(where)).run(connection, self._given(where))

    def put(
        self, connection: Connection, key: dict[str, object], values: dict[str, object], **fresh: object
    ) -> None:
        """Change the row of a key, or add it, with `fresh` too: it keeps its place and what else it has."""
        row = {"tract_id": self.tract_id, **key, **values, **fresh}
        _put(self.table, tuple(key), tuple(values), tuple(fresh)).run(connection, row)

    def keep_newest(self, connection: Connection, count: int) -> None:
        """Remove all rows but the newest."""
        mine = self.table.c.tract_id == self.tract_id
        number = self.table.c.id
        oldest_kept = select(number).where(mine).order_by(number.desc()).offset(count - 1).limit(1)
        oldest = connection.scalar(oldest_kept)
        if oldest is not None:
            connection.execute(self.table.delete().where(mine, number < oldest))

    def _select(self, where: Iterable[str]) -> Select[Any]:
        return selected(self.table, self.row._fields, tuple(where), self.order, is_checked=self.is_checked)

    def _given(self, where: Mapping[str, object]) -> dict[str, object]:
        return {"its_tract_id": self.tract_id, **{f"its_{name}": value for name, value in where.items()}}


@cache
def selected(
    table: Table,
    names: Sequence[str],
    where: tuple[str, ...],
    order: tuple[str, ...],
    *,
    is_checked: bool = True,
) -> Select[Any]:
    """Return a query of some columns of the rows of `its_tract_id` that have some values, `its_NAME` for each."""
    columns = [table.c[name] if is_checked else unchecked(table.c[name]) for name in names]
    return select(*columns).where(_have(table, where)).order_by(*(table.c[name] for name in order))


@cache
def _update(table: Table, where: tuple[str, ...]) -> Update:
    return table.update().where(_have(table, where))


@cache
def _put(table: Table, key: tuple[str, ...], values: tuple[str, ...], fresh: tuple[str, ...]) -> Prepared:
    """Return the statement that changes or adds the row of a key, which a constraint of the table makes unique."""
    given: dict[str, Any] = {name: bindparam(name) for name in ("tract_id", *key, *values, *fresh)}
    changed = {name: given[name] for name in values}
    sets = [
        {column.name for column in one.columns}
        for one in table.constraints
        if isinstance(one, PrimaryKeyConstraint | UniqueConstraint)
    ]
    unique = next(names for names in sets if names <= {"tract_id", *key})
    return Prepared(
        lambda dialect: (
            dialect.insert(table).values(given).on_conflict_do_update(index_elements=unique, set_=changed)
        )
    )


@cache
def _delete(table: Table, where: tuple[str, ...]) -> Prepared:
    return Prepared(lambda _: table.delete().where(_have(table, where)))


def _have(table: Table, names: tuple[str, ...]) -> ColumnElement[bool]:
    return and_(*(table.c[name] == bindparam(f"its_{name}") for name in ("tract_id", *names)))
