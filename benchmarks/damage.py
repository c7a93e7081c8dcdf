"""Randomly damaged stores: each damage is detected, or the content is undamaged."""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.places import open_store
from benchmarks.samples import CHECK
from benchmarks.timing import Row
from tract_jupyter.exceptions import TractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter import Tract

_PAGE = 4096
_OPENING, _VERIFYING, _UNDAMAGED, _WRONG = "opening", "verify", "undamaged", "wrong"


class Seen(NamedTuple):
    """The place of the damage if it was detected; otherwise the problem."""

    how: str
    problem: str = ""


def rows(stores: int = 200) -> Iterator[Row]:
    """Damage copies of a store. Print problems to stderr."""
    whole = Path("whole.db")
    content = make(whole)
    count: Counter[str] = Counter()
    for number in range(stores):
        seen = survives(whole, content, number)
        count[seen.how] += 1
        if seen.problem:
            print(f"store {number}: {seen.problem}", file=sys.stderr, flush=True)
    yield Row(f"of {stores} damaged stores told at opening", count[_OPENING], "commits")
    yield Row("told by verify()", count[_VERIFYING], "commits")
    yield Row("undamaged in content", count[_UNDAMAGED], "commits")
    yield Row("passed for whole, and are not", count[_WRONG], "commits", 0)


def make(path: Path) -> dict[str, Any]:
    """Create a store with data of all kinds, and return its content."""
    with open_store(path) as tract:
        tract.register_operation(CHECK)
        for number in range(60):
            tract.user(
                f"message {number} " + "x" * (2_000 * (number % 3)), tags=["t"], metadata={"n": number}
            )
        said = tract.log(None)
        tract.user("edited", edit=said[20].commit_hash)
        tract.annotate(said[30].commit_hash, "pinned")
        tract.branch("side")
        tract.user("aside")
        tract.switch("main")
        tract.user("on the branch")
        tract.merge("side")
        for number in range(20):
            tract.fire(CHECK.name, {"urls": [f"https://example.com/{number}"]}, review=True).reject("no")
        return _content(tract)


def survives(whole: Path, content: dict[str, Any], seed: int) -> Seen:
    """Damage a copy of a store, and check the detection.

    Args:
        whole: The store.
        content: The content of the store.
        seed: The seed of the damage.
    """
    path = whole.with_name("damaged.db")
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    shutil.copy(whole, path)
    chance = random.Random(seed)  # noqa: S311 # no secret
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 3)):
        chance.choice(_DAMAGES)(data, chance)
    path.write_bytes(data)
    try:
        tract = open_store(path)
    except TractError:
        return Seen(_OPENING)
    with tract:
        try:
            found = tract.verify()
        except TractError:
            return Seen(_VERIFYING)
        if found:
            return Seen(_VERIFYING)
        if _sqlite_says(path) != "ok":
            return Seen(_WRONG, f"verify() found nothing, and SQLite: {_sqlite_says(path)}")
        try:
            now = _content(tract)
        except TractError as error:
            return Seen(_WRONG, f"verify() found nothing, and then: {error}")
    changed = [name for name in content if now[name] != content[name]]
    return Seen(_WRONG, f"verify() found nothing, and {changed} changed") if changed else Seen(_UNDAMAGED)


def _content(tract: Tract) -> dict[str, Any]:
    """Return the content of a tract that has a hash or a signature."""
    branches = {one.name: one.commit_hash for one in tract.list_branches()}
    return {
        "branches": branches,
        "contexts": {name: tract.compile(at_commit=tip).messages[:] for name, tip in branches.items() if tip},
        "log": [
            (one.commit_hash, one.message, one.tags, one.metadata, one.priority) for one in tract.log(None)
        ],
        "status": (tract.status().token_count, tract.status().message_count),
        "operations": sorted(tract.operations.registry.operation_names),
    }


def _sqlite_says(path: Path) -> str:
    try:
        with closing(sqlite3.connect(path)) as connection:
            return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)


def _flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 16)):
        data[chance.randrange(len(data))] ^= chance.randint(1, 255)


def _noise(data: bytearray, chance: random.Random) -> None:
    at, length = chance.randrange(len(data)), chance.randint(1, _PAGE)
    data[at : at + length] = chance.randbytes(len(data[at : at + length]))


def _zero(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) // _PAGE) * _PAGE
    data[at : at + _PAGE] = bytes(_PAGE)


def _swap(data: bytearray, chance: random.Random) -> None:
    one, other = (chance.randrange(len(data) // _PAGE) * _PAGE for _ in range(2))
    kept = data[one : one + _PAGE]
    data[one : one + _PAGE] = data[other : other + _PAGE]
    data[other : other + _PAGE] = kept


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(_PAGE, len(data)) :]


_DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (_flip, _flip, _noise, _zero, _swap, _cut)
