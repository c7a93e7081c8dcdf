"""Reads Parquet files that the code wrote, in a contained copy: their readers are no safe place for hostile bytes.

The tables come back in their safe form, as variables do.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal.baseline import Baseline
from tract_jupyter.rehearsal.collect import observe
from tract_jupyter.rehearsal.found import find_effects
from tract_jupyter.rehearsal.limits import RehearsalLimits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tract_jupyter.rehearsal.engines import Engines
    from tract_jupyter.rehearsal.fork import CopyJob

_LIMITS: Final = RehearsalLimits(seconds=5, cpu_seconds=5, memory=1024**3, values=256 * 1024**2)
_CODE: Final = """
from pyarrow import BufferReader
from pyarrow.parquet import ParquetFile
for number, content in enumerate(contents):
    try:
        file = ParquetFile(BufferReader(content), pre_buffer=False)
        if file.metadata.num_rows * file.metadata.num_columns <= 20_000_000:
            globals()[f"table_{number}"] = file.read(use_threads=False)
    except Exception:
        continue
"""


def read_columnar(contents: Sequence[bytes], job: CopyJob, engines: Engines, workspace: Path) -> list[Any]:
    """Return the tables of Parquet files. None for a file that cannot be read within the limits.

    Args:
        contents: The contents of the files.
        job: The rehearsal whose code wrote the files. The copy that reads them has the same containment.
        engines: The engines.
        workspace: The folder of the files.
    """
    nothing: list[Any] = [None] * len(contents)
    if "pyarrow" not in sys.modules or "pandas" not in sys.modules or not contents:
        return nothing
    namespace: dict[str, Any] = {"contents": list(contents)}
    reading = replace(
        job, code=_CODE, namespace=namespace, limits=_LIMITS, observe=observe(_CODE), shell=None, hidden=frozenset()
    )  # fmt: skip
    engine, outcome = engines.run(reading)
    outcome.close()
    frames = [(frame.header, frame.payload) for frame in outcome.report.effects]
    try:
        found = find_effects(
            frames, Baseline.take(_CODE, namespace), workspace, is_fork=engine == "fork"
        ).values
    except RehearsalError:
        return nothing
    return [found.get(f"table_{number}") for number in range(len(contents))]
