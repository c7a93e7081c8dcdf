"""Cost and savings of programmatic tool calling: a call in a script, startup, memory, and four tasks in both modes."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any, Final

from benchmarks.tasks import TASKS, compare
from benchmarks.timing import Row, fastest
from tract_jupyter import Tract
from tract_jupyter.scripts import ScriptLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALLS: Final = 2_000
_MANY: Final = 10_000
_LOOP: Final = "for n in range({calls}): tools.double(n=n)"
_LIMITS: Final = ScriptLimits(calls=None)


def rows() -> Iterator[Row]:
    """The best of five runs each; then what scripts save, as it was sent, and as the meter says."""
    yield from _costs()
    for task in TASKS:
        tokens = compare(task)
        yield Row(f"{task.name}: a script saves, of all that is sent", tokens.saved, "%", task.least)
        yield Row("the same, as the meter says", tokens.metered, "%", task.least)


def _costs() -> Iterator[Row]:
    with Tract.open() as tract:
        handler = tract.tool(name="double", read_only=True)(_double)
        bare = fastest(lambda: [handler(n) for n in range(_CALLS)]) / _CALLS
        in_cell = fastest(lambda: [tract.tools.double(n=n) for n in range(_CALLS)]) / _CALLS
        yield Row("a stub's call over the handler: checked, allowed, logged", in_cell - bare, "µs", 25.0)
        yield Row("the same in a script of the kernel, counted", _each(tract, "kernel") - bare, "µs", 25.0)
        tract.scripts.run("1", backend="sandbox")  # the pool is there from now on
        yield Row("a call from the sandbox and back", _each(tract, "sandbox"), "µs", 150.0)
        start = fastest(lambda: tract.scripts.run("1", backend="sandbox"))
        yield Row("a script of the sandbox that does nothing: types checked, run, stored", start, "ms", 20.0)
        yield Row("memory that 10,000 more calls of one script leave", _growth(tract), "MB", 5.0)


def _double(n: int) -> int:
    """Double a number."""
    return 2 * n


def _each(tract: Tract, backend: Any) -> float:
    """Seconds of one call, of a long script less an empty one."""
    empty = fastest(lambda: tract.scripts.run("1", backend=backend))
    code = _LOOP.format(calls=_CALLS)
    return (fastest(lambda: tract.scripts.run(code, backend=backend, limits=_LIMITS)) - empty) / _CALLS


def _growth(tract: Tract) -> float:
    code = _LOOP.format(calls=_MANY)
    tract.scripts.run(code, limits=_LIMITS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tract.scripts.run(code, limits=_LIMITS)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_000
