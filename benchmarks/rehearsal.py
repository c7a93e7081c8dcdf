"""Rehearsals: the time that a contained copy adds to the code, its leftovers, and the questions that it saves."""

from __future__ import annotations

import gc
import os
import secrets
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.questions import count_questions
from benchmarks.timing import Row, fastest, time_call
from tract_jupyter.rehearsal import Backups, Rehearsal, Rehearser, probe

if TYPE_CHECKING:
    from collections.abc import Iterator

_MB = 1024**2
_ROWS = 1_000_000
_KEYS = 4  # a kernel has at least the keys of a model, of its messages and of its store
_TABLE = "table = table.assign(total=table.price * table.number)"


def rows(rounds: int = 200, large: int = 2_048, each: int = 1) -> Iterator[Row]:
    """Measure rehearsals of code that does nothing, of a table, and many in a row; count the questions about tasks.

    Args:
        rounds: Rehearsals in a row.
        large: Megabytes of variables.
        each: 1 for the questions about all tasks, 2 for every second task.
    """
    level = probe().name
    if level == "none":
        return
    with _rehearser() as rehearser:
        for size, most in ((1, 100), (100, 100), (large, 1_000)):
            namespace: dict[str, Any] = {"data": np.ones(size * _MB // 8)}
            empty = partial(_rehearse, rehearser, "", namespace)
            yield Row(f"empty, {size:,} MB of variables, {level}", fastest(empty), "ms", most)
            if size == 100:  # noqa: PLR2004 # one of the sizes
                used = fastest(partial(_rehearse, rehearser, "float(data[0])", namespace))
                yield Row(f"the same, with code that reads {size} MB", used, "ms")
        yield from _table(rehearser)
        yield from _many(rehearser, rounds)
    questions = count_questions(each)
    name = f"{questions.always} questions about {questions.tasks} tasks, saved if the model may look"
    yield Row(name, 1 - questions.looking / questions.always, "%", 70.0 if each == 1 else None)


@contextmanager
def _rehearser() -> Iterator[Rehearser]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "work")
        workspace.mkdir()
        os.chdir(workspace)
        keys = [secrets.token_urlsafe(30) for _ in range(_KEYS)]
        rehearser = Rehearser(workspace, Backups(Path(folder, "backups")), secrets=lambda: keys)
        try:
            yield rehearser
        finally:
            rehearser.close()
            os.chdir(before)


def _rehearse(rehearser: Rehearser, code: str, namespace: dict[str, Any]) -> None:
    rehearsal = rehearser.rehearse(code, namespace)
    if rehearsal.effects.ending != "finished":
        raise RuntimeError(rehearsal.effects.ending_note)
    rehearsal.discard()


def _table(rehearser: Rehearser) -> Iterator[Row]:
    """Measure code that adds a column to a table of a million rows: its rehearsal, and Keep, compared with a copy."""
    table = pd.DataFrame({"price": np.arange(_ROWS) / 7, "number": np.arange(_ROWS) % 9})
    name = f"a table with {_ROWS:,} rows"
    direct = fastest(lambda: table.assign(total=table.price * table.number))
    yield Row(f"{name}: the code alone", direct, "ms")
    yield Row(f"{name}: rehearsed", fastest(partial(_rehearse, rehearser, _TABLE, {"table": table}), 3), "ms")
    copied = fastest(lambda: table.assign(total=table.price * table.number).copy())
    kept = min(_kept(rehearser, table) for _ in range(3))
    yield Row(f"{name}: kept, times a copy", kept / copied, "x", 2.0)


def _kept(rehearser: Rehearser, table: pd.DataFrame) -> float:
    rehearsal: Rehearsal = rehearser.rehearse(_TABLE, {"table": table})
    return time_call(rehearsal.keep)


def _many(rehearser: Rehearser, rounds: int) -> Iterator[Row]:
    """Measure the memory and the descriptors that many rehearsals leave behind."""
    namespace: dict[str, Any] = {"data": np.ones(_MB)}
    codes = ("float(data.sum())", "new = data[:1000] * 2", "open('x', 'w').write('x')", "1 / 0")
    before = 0, 0
    for number in range(rounds + 20):
        if number == 20:  # noqa: PLR2004 # caches are full
            before = _resources()
        rehearser.rehearse(codes[number % len(codes)], namespace).discard()
    memory, descriptors = (after - first for after, first in zip(_resources(), before, strict=True))
    yield Row(f"memory after {rounds} rehearsals", memory / _MB, "MB", 5.0)
    yield Row(f"descriptors after {rounds} rehearsals", descriptors, "x", 0.0)


def _resources() -> tuple[int, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path("/proc/self/fd").iterdir()))
