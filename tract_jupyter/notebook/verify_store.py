"""Is a store what it says it is? All of its tracts, and the root hash of each of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import StoreError
from tract_jupyter.runs.verify import RunRoot, run_roots
from tract_jupyter.storage.database import Database
from tract_jupyter.storage.run_events import RunEventRows
from tract_jupyter.storage.tracts import TractRows
from tract_jupyter.tract import Tract

if TYPE_CHECKING:
    from tract_jupyter.engine.verify import Damage

_FILE_BEGINS = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html


@dataclass(frozen=True, slots=True)
class VerifiedTract:
    """What was found in a tract: what is damaged, and its runs, the oldest first."""

    tract_id: str
    damaged: tuple[Damage, ...]
    runs: tuple[RunRoot, ...]


def is_store(path: str | Path) -> bool:
    """Whether it is an SQLAlchemy URL, or an SQLite file."""
    if "://" in str(path):
        return True
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_FILE_BEGINS)) == _FILE_BEGINS
    except OSError:
        return False


def verify_store(store: str | Path) -> list[VerifiedTract]:
    """Compute every hash of every tract of a store anew, those of runs too. An older store is upgraded first.

    Args:
        store: the SQLite file, or an SQLAlchemy URL.

    Returns:
        The tracts, the oldest first. Two stores in which the same was run, or a run and its replay, have the same root
        hashes.

    Raises:
        StoreError: there is no such store, or it cannot be opened.
    """
    if not is_store(store):
        raise StoreError(
            f"there is no store {store}; a notebook makes one, by default .tract/tract.db beside it"
        )
    url = str(store) if "://" in str(store) else f"sqlite:///{store}"
    database = Database(url=url)
    try:
        with database.read() as connection:
            tract_ids = TractRows().ids(connection)
        roots = {one: tuple(run_roots(database, RunEventRows(one))) for one in tract_ids}
    finally:
        database.close()
    found = []
    for tract_id in tract_ids:
        with Tract.open(url=url, tract_id=tract_id) as tract:
            found.append(VerifiedTract(tract_id, tuple(tract.verify()), roots[tract_id]))
    return found
