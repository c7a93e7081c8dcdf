"""The level of containment that this machine permits. It is found by trying it."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.contain import Containment, LevelName, readable_paths
from tract_jupyter.rehearsal.engines import Engines
from tract_jupyter.rehearsal.fork import CopyJob
from tract_jupyter.rehearsal.limits import RehearsalLimits

_PROBE_LIMITS: Final = RehearsalLimits(seconds=10.0, disk=1 << 20)


class Level(NamedTuple):
    """The level of containment that this machine permits.

    Attributes:
        name: `full`, `basic` (no file can be written), or `none` (no rehearsal is possible).
        reason: one sentence. For `full`, the parts of the containment; otherwise, the reason for the lower level.
    """

    name: Literal["full", "basic", "none"]
    reason: str


@cache
def probe() -> Level:
    """Return the level of this machine. The first call tries it, in about 100 ms."""
    if not linux.IS_SUPPORTED:
        return Level("none", "A rehearsal needs Linux on x86-64 or aarch64.")
    if not linux.landlock_abi():
        return Level(
            "none", "A rehearsal needs Landlock, which this kernel of Linux does not have or does not enable."
        )
    problem = _problem("full")
    if not problem:
        return Level("full", "Namespaces, an overlay, Landlock and seccomp contain the code.")
    worse = _problem("basic")
    if not worse:
        return Level(
            "basic", f"Code cannot write files: this machine does not permit namespaces ({problem})."
        )
    return Level("none", f"This machine does not permit containment ({worse}).")


def _problem(level: LevelName) -> str:
    """Return the reason why a level does not work; empty if it works."""
    with tempfile.TemporaryDirectory(prefix="tract-probe-") as folder:
        workspace = Path(folder).resolve()
        containment = Containment(level, os.fspath(workspace), readable_paths(workspace), _PROBE_LIMITS.disk)
        job = CopyJob("", {}, containment, _PROBE_LIMITS, lambda _: lambda: ())
        _, outcome = Engines().run(job)
    outcome.close()
    return outcome.failure or ("" if outcome.ending == "finished" else outcome.note or outcome.ending)
