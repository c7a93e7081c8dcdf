"""Temporary places: nothing of the user's is read or written."""

from __future__ import annotations

import os
import tempfile
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def temporary_home() -> Iterator[None]:
    """Work in a temporary folder, which also holds the signing secret and IPython's settings and history."""
    repository = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory(prefix="tract_benchmarks_") as folder, chdir(folder):
        os.environ["JUPYTER_DATA_DIR"] = f"{folder}/jupyter"
        os.environ["IPYTHONDIR"] = f"{folder}/ipython"
        # processes that are started here find what would be imported there
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [repository, os.environ.get("PYTHONPATH")]))
        yield


def open_store(path: Path) -> Tract:
    """Open a store with the cheap token counter. Wait a minute for the lock of another process."""
    return Tract.open(path, tokenizer=ApproximateCounter(), lock_timeout=60)


@contextmanager
def tract_on_disk() -> Iterator[Tract]:
    """Yield a new tract in a new file."""
    with tempfile.TemporaryDirectory() as folder, Tract.open(Path(folder) / "tract.db") as tract:
        yield tract
