"""Stores on the command line: check that a store exists, and verify it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import StoreError, TractError
from tract_jupyter.models import tracked
from tract_jupyter.review import NOT_SIGNED, UNREADABLE, Settings
from tract_jupyter.storage import Database, EventRows, SettingRows, TractRows, file_of, to_text
from tract_jupyter.tract import Tract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.context import Damage
    from tract_jupyter.review import Trust
    from tract_jupyter.runs import RunRoot

_SUFFIXES = {".db", ".sqlite", ".sqlite3"}
_FILE_BEGINS = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html


@dataclass(frozen=True, slots=True)
class VerifiedTract:
    """The result of verifying a tract.

    Attributes:
        damaged: the damaged content.
        runs: the runs, the oldest first.
        unsigned: descriptions of content without this user's signature: operations, handlers, profiles, settings,
            policies, starts of runs, grants, questions, outcomes, decisions and effects. Such content never decides or
            runs anything.
    """

    tract_id: str
    damaged: tuple[Damage, ...]
    runs: tuple[RunRoot, ...]
    unsigned: tuple[str, ...] = ()


def is_store(path: str | Path) -> bool:
    """Return True for an SQLAlchemy URL, an SQLite file, or a path with the suffix of one."""
    if "://" in str(path):
        return True
    is_folder = os.path.isdir(path)  # noqa: PTH112 # `Path.is_dir` raises for long names
    is_named_so = Path(path).suffix.lower() in _SUFFIXES and not is_folder
    return is_named_so or _beginning(Path(path)) == _FILE_BEGINS


def _beginning(path: Path) -> bytes | None:
    """Return the first bytes of a regular file; None if there is none, or if it cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait
            return None
        with path.open("rb") as file:
            return file.read(len(_FILE_BEGINS))
    except OSError:
        return None


def existing_store(store: str | Path) -> Database:
    """Open an existing store. A missing one is not created.

    Raises:
        StoreError: the store does not exist, or cannot be opened.
    """
    _check_file(str(store))
    return Database(**place_of(store), must_exist=True)


def place_of(store: str | Path) -> dict[str, Any]:
    """Return the argument of `Tract.open` for a store: `url` or `path`."""
    return {"url": str(store)} if "://" in str(store) else {"path": store}


def _check_file(store: str) -> None:
    """Check that the file exists. SQLite would turn a missing or empty file into a new store."""
    path = file_of(store) if "://" in store else Path(store)
    if path is None:
        if store.startswith("sqlite"):
            raise StoreError(f"{store} is a store in memory, which is always empty. Give the file of a store")
        return
    begins = _beginning(path)
    if begins is None and os.path.lexists(path):
        kind = "a folder" if path.is_dir() else "no regular file, or you may not read it"
        raise StoreError(f"{store} is not a store that can be opened: it is {kind}. Give another path")
    if begins is None:
        raise StoreError(
            f"there is no store {store}. A notebook creates one, by default .tract/NAME.db in its folder"
        )
    if begins != _FILE_BEGINS:
        what = "it does not start like an SQLite file" if begins else "the file is empty"
        raise StoreError(f"{store} is not a store: {what}. Give another path, or restore a backup")


def verify_store(store: str | Path, *, trust: Trust | None = None) -> list[VerifiedTract]:
    """Recompute every hash of every tract of a store, including the hashes of runs.

    Args:
        store: the SQLite file, or an SQLAlchemy URL.
        trust: verifies the signatures; the user's own by default.

    Returns:
        The tracts, the oldest first. Equal runs, and a run and its replay, have the same root hash, also in different
        stores. They differ between stores if an operation used the hash of a commit, for example a hit of `rag`.

    Raises:
        StoreError: the store does not exist, or cannot be opened. No store is created.
    """
    where = place_of(store)
    database = existing_store(store)
    try:
        with database.read() as connection:
            tract_ids = TractRows().ids(connection)
    finally:
        database.close()
    verified = []
    several = len(tract_ids) > 1  # with one tract, progress counts its commits
    for tract_id in tracked(tract_ids, "Checking tracts") if several else tract_ids:
        with Tract.open(**where, tract_id=tract_id, trust=trust) as tract:
            verified.append(
                VerifiedTract(
                    tract_id, tuple(tract.verify()), tuple(tract.runs.roots()), tuple(_unsigned(tract))
                )
            )
    return verified


def _unsigned(tract: Tract) -> Iterator[str]:
    """Describe the content of a tract without this user's signature."""
    try:
        handlers = tract.hooks.saved.quarantined
        kinds = {
            "operation": tract.operations.quarantined,
            "handler": {f"{operation}/{name}": why for (operation, name), why in handlers.items()},
            "profile": {item.name: item.quarantined for item in tract.profiles.list() if item.quarantined},
        }
        for kind, reasons in kinds.items():
            yield from (f"{kind} {name!r}: {why}" for name, why in sorted(reasons.items()))
        yield from _unsigned_settings(tract)
        for grant in tract.review.grants.all():
            if grant.state in {NOT_SIGNED, UNREADABLE}:
                yield f"grant {grant.grant_id[:8]} for {grant.kind} {grant.name!r}: {grant.state}"
        unsigned = tract.review.ledger.unsigned()
        for question in unsigned.questions:
            yield f"question {question.pending_id[:8]} {question.title!r}: {NOT_SIGNED}"
        for question in unsigned.outcomes:
            yield f"outcome {question.status!r} of {question.pending_id[:8]} {question.title!r}: {NOT_SIGNED}"
        for item in unsigned.decisions:
            what = f"{item.action!r} of {item.decided_by!r}"
            yield f"decision {item.round + 1} on {item.pending_id[:8]}, {what}: {NOT_SIGNED}"
        for row in tract.effects.unsigned():
            yield f"{row.event_type} of {to_text(row.created_at)}, row {row.event_id}: {NOT_SIGNED}"
    except TractError as error:  # such as a secret that cannot be read
        yield f"the rest could not be checked: {error}"


def _unsigned_settings(tract: Tract) -> Iterator[str]:
    """Describe the settings, policies and starts of runs without this user's signature."""
    policies = tract.policies.evaluator.store
    rows, events = SettingRows(tract.tract_id), EventRows(tract.tract_id)
    settings = Settings(policies.database, rows, events, tract.review.signer)
    yield from (
        f"settings {row.name!r}: {NOT_SIGNED}" for row in settings.all() if not settings.is_signed(row)
    )
    yield from (f"policy {row.name!r}: {NOT_SIGNED}" for row in policies.all() if not policies.is_signed(row))
    yield from (f"start of run {run_id}: {NOT_SIGNED}" for run_id in tract.runs.unsigned())
