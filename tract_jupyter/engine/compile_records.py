"""Which contexts were sent to a model. A record names a head; what was sent is compiled again from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CommitNotFoundError, ContentError
from tract_jupyter.models.checks import check_limit, check_text
from tract_jupyter.models.context import CompiledContext
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from tract_jupyter.engine.compile import Compiler
    from tract_jupyter.storage.compiles import CompileRecord, CompileRows
    from tract_jupyter.storage.database import Database

_COMMITS = "commits"


class CompileRecords:
    """The compile records of one tract."""

    def __init__(self, database: Database, rows: CompileRows, compiler: Compiler) -> None:
        self._database = database
        self._rows = rows
        self._compiler = compiler

    def add(self, context: CompiledContext, **options: bool) -> str:
        """Note a context, and the options of `compile` it was made with; return the id of the record.

        Its commits are listed only where the head does not give them again: after another order, or as of some time.

        Raises:
            ContentError: it is no context.
            CommitNotFoundError: it is of another store, or its commits were removed.
        """
        if not isinstance(context, CompiledContext):
            raise ContentError(f"a context is what compile() returns, not {brief_repr(context)}")
        chosen: dict[str, Any] = {name: True for name, value in options.items() if value}
        again = self._compiler.compile(at_commit=context.head, **chosen)
        differs = again.commit_hashes != context.commit_hashes
        params = {**chosen, **({_COMMITS: list(context.commit_hashes)} if differs else {})}
        with self._database.write() as connection:
            return self._rows.add(
                connection, context.head, context.token_count, len(context), context.token_source, params
            )

    def newest(self, limit: int) -> list[CompileRecord]:
        """The newest records first.

        Raises:
            ContentError: the limit is no whole number.
        """
        most = check_limit(limit)
        with self._database.read() as connection:
            return self._rows.newest(connection, most)

    def commits(self, record_id: str) -> tuple[str, ...]:
        """The commits whose messages a recorded context had, in order.

        Raises:
            ContentError: the id is no text.
            CommitNotFoundError: there is no such record.
        """
        check_text(record_id, "record_id")
        with self._database.read() as connection:
            record = self._rows.get(connection, record_id)
        if record is None:
            raise CommitNotFoundError(f"no compile record {record_id!r}; compile_records() lists them")
        if _COMMITS in record.params:
            return tuple(record.params[_COMMITS])
        if record.head is None:
            return ()
        return self._compiler.compile(at_commit=record.head, **record.params).commit_hashes
