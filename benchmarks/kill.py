"""kill -9 at random moments of a write loop. The store must open, verify, and have all acknowledged commits."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.places import open_store
from benchmarks.timing import Row
from tract_jupyter.exceptions import CommitNotFoundError, TractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter import Tract

_HASH = 64
_LONGEST = 0.12  # seconds that a child may work
_DEEPEST = 400  # commits; then the branch restarts, to keep rounds short


class Round(NamedTuple):
    """The number of acknowledged commits of a child, and the problems: lost commits, damage, errors."""

    acknowledged: int
    problems: list[str]


def rows(rounds: int = 1_000) -> Iterator[Row]:
    """Kill many children. After a problem, print it to stderr and use a new store."""
    path, acknowledged, wrong = Path("kill.db"), 0, 0
    for number in range(rounds):
        seen = survives_round(path, number)
        acknowledged += seen.acknowledged
        wrong += len(seen.problems)
        if seen.problems:
            print(f"round {number}, {path}: {'; '.join(seen.problems[:3])}", file=sys.stderr, flush=True)
            path = Path(f"kill{number}.db")
    yield Row(f"acknowledged commits, over {rounds:,} kills", acknowledged, "commits")
    yield Row("of them lost, or damage to a store", wrong, "commits", 0)


def survives_round(path: Path, seed: int) -> Round:
    """Start a child that writes, kill it, and check the store.

    Args:
        path: The path of the store. A missing store is created.
        seed: The seed of the writes and of the moment.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work_until_killed(path, seed, writer)
    os.close(writer)
    acknowledged, killed = _kill(child, reader, random.Random(seed))  # noqa: S311 # no secret
    problems = [] if killed else ["the child ended by itself; its error is on stderr"]
    try:
        with open_store(path) as tract:
            problems += map(str, tract.verify())
            problems += [f"{name} was acknowledged and is gone" for name in _lost(tract, acknowledged)]
            tract.user("The next process continues.")
    except TractError as error:
        problems.append(f"{type(error).__name__}: {error}")
    return Round(len(acknowledged), problems)


def _lost(tract: Tract, acknowledged: list[str]) -> Iterator[str]:
    for name in acknowledged:
        try:
            tract.resolve_commit(name)
        except CommitNotFoundError:
            yield name


def _kill(child: int, reader: int, chance: random.Random) -> tuple[list[str], bool]:
    """Kill at a random moment after the first acknowledgement.

    Returns:
        The complete hashes, and True if the signal ended the child.
    """
    with os.fdopen(reader, "rb") as pipe:
        first = pipe.read(_HASH)
        time.sleep(chance.uniform(0, _LONGEST))
        os.kill(child, signal.SIGKILL)
        told = first + pipe.read()
    _, status = os.waitpid(child, 0)
    hashes = [told[at : at + _HASH].decode() for at in range(0, len(told) - _HASH + 1, _HASH)]
    return hashes, os.WIFSIGNALED(status)


def _work_until_killed(path: Path, seed: int, writer: int) -> None:
    chance = random.Random(-seed - 1)  # noqa: S311 # no secret
    try:
        with open_store(path) as tract:
            if tract.status().commit_count > _DEEPEST:
                tract.branch(f"anew{seed}", source=tract.log(None)[-1].commit_hash)
            while True:
                for commit_hash in chance.choice(_WRITES)(tract, chance):
                    os.write(writer, commit_hash.encode())
    except BaseException as error:  # noqa: BLE001 # this process is a copy of its parent, whose cleanup it must not run
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def _say(tract: Tract, chance: random.Random) -> list[str]:
    return [tract.user(f"number {chance.random()}" * chance.choice((1, 1, 1, 500))).commit_hash]


def _edit(tract: Tract, chance: random.Random) -> list[str]:
    said = tract.log(20, op_filter="append")
    return [tract.user(f"edited {chance.random()}", edit=chance.choice(said).commit_hash).commit_hash]


def _annotate(tract: Tract, chance: random.Random) -> list[str]:
    said = tract.log(20, op_filter="append")
    priority = chance.choice(("skip", "normal", "pinned"))
    return [tract.annotate(chance.choice(said).commit_hash, priority).commit_hash]


def _batch(tract: Tract, chance: random.Random) -> list[str]:
    with tract.batch():
        made = [tract.user(f"batch {chance.random()}") for _ in range(chance.randrange(1, 200))]
    return [info.commit_hash for info in made]


def _undo(tract: Tract, _: random.Random) -> list[str]:
    if tract.status().commit_count > 1:
        tract.undo()
    return []


def _merge(tract: Tract, chance: random.Random) -> list[str]:
    """Merge a branch without edits. Both sides have commits."""
    if tract.current_branch is None:
        return []
    here, side = tract.current_branch, f"side{chance.getrandbits(64):x}"
    tract.branch(side)
    one = tract.user(f"aside {chance.random()}").commit_hash
    tract.switch(here)
    two = tract.user(f"on the branch {chance.random()}").commit_hash
    tract.merge(side)
    return [one, two, str(tract.head)]


def _compress(tract: Tract, chance: random.Random) -> list[str]:
    said = [message.commit_hash for message in tract.compile().messages if message.priority == "normal"]
    if len(said) < 4:  # noqa: PLR2004 # something before, something after
        return []
    start = chance.randrange(len(said) - 2)
    # a pinned message between the two gives two summaries
    tract.compress(commits=said[start : start + 2], summarizer=lambda *_: f"in short {chance.random()}")
    return [str(tract.head)]


_WRITES: tuple[Callable[[Tract, random.Random], list[str]], ...] = (
    _say, _say, _say, _edit, _annotate, _batch, _undo, _merge, _compress,
)  # fmt: skip
