"""Chooses the engine of a rehearsal: a fork of the kernel, or the worker.

Some libraries do not survive a fork after their threads have started. Known ones use the worker. If a copy hangs or
crashes, the libraries that it used and that never worked in a fork use the worker from then on. If another thread of
the kernel computes all the time, the kernel does not fork.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.rehearsal.baseline import touched, tree_of, variables_of
from tract_jupyter.rehearsal.fork import BusyThreadsError, CopyJob, fork_of
from tract_jupyter.rehearsal.parent import CopyOutcome, attend
from tract_jupyter.rehearsal.values import load_forms
from tract_jupyter.rehearsal.worker import BARE_WORKER, WORKER, write_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.rehearsal.parent import ToolReply
    from tract_jupyter.rehearsal.worker import CopyWorker

EngineName = Literal["fork", "worker"]

_UNSAFE: Final = frozenset(
    "polars lightgbm xgboost catboost torch tensorflow jax jaxlib cupy cudf cuml ray vaex".split()  # noqa: SIM905
)
_IDLE: Final = 0.3  # the part of its time that a hanging copy computes at most
_MOST_VALUES: Final = 1_000


class Engines:
    """The engines of one kernel, with their experience."""

    def __init__(self) -> None:
        self.worker = WORKER
        self._unsafe: set[str] = set()
        self._proven: set[str] = set()

    def choose(self, code: str, namespace: Mapping[str, Any]) -> EngineName:
        """Return the engine for some code."""
        return "worker" if self._is_unsafe(libraries(code, namespace)) else "fork"

    def run(
        self,
        job: CopyJob,
        *,
        tools: Callable[[str, dict[str, Any]], ToolReply] | None = None,
        stop: StopSignal | None = None,
    ) -> tuple[EngineName, CopyOutcome]:
        """Run a job in its engine. After a hang or a crash in a fork, run it again in the worker if that can help."""
        used = libraries(job.code, job.namespace)
        level = job.containment.level
        load_forms()
        if job.is_bare:
            return "worker", self._work(BARE_WORKER, job, tools, stop)
        if self._is_unsafe(
            {name for value in variables_of(job.namespace).values() for name in _modules_of(value)}
        ):
            self.worker.warm_up()
        if not self._is_unsafe(used):
            with contextlib.suppress(BusyThreadsError):
                outcome = attend(fork_of(job), level, job.limits, tools=tools, stop=stop)
                if not self._learn(used, outcome, job.limits.seconds):
                    return "fork", outcome
                outcome.close()
        return "worker", self._work(self.worker, job, tools, stop)

    def _work(
        self,
        worker: CopyWorker,
        job: CopyJob,
        tools: Callable[[str, dict[str, Any]], ToolReply] | None,
        stop: StopSignal | None,
    ) -> CopyOutcome:
        inputs = write_inputs(job)
        try:
            start = lambda ends: worker.fork(inputs, ends)  # noqa: E731 # binds the file
            return attend(start, job.containment.level, job.limits, tools=tools, stop=stop)
        finally:
            os.close(inputs)

    def _is_unsafe(self, used: set[str]) -> bool:
        return not used.isdisjoint(self._unsafe | _UNSAFE) or ("numba" in used and _has_numba_threads())

    def _learn(self, used: set[str], outcome: CopyOutcome, seconds: float) -> bool:
        """Remember the result of a fork. Return True if the worker may do better."""
        if outcome.ending in {"finished", "raised"}:
            self._proven |= used
        is_hang = outcome.is_timeout and outcome.cpu_seconds < _IDLE * seconds
        suspects = used - self._proven
        if not (is_hang or outcome.signal) or not suspects or outcome.calls:
            return False
        self._unsafe |= suspects
        return True


def libraries(code: str, namespace: Mapping[str, Any]) -> set[str]:
    """Return the loaded libraries that the code imports or whose objects it can reach, without the standard library."""
    values = variables_of(namespace)
    found = set(_imported(code))
    for name in sorted(touched(code, values))[:_MOST_VALUES]:
        found |= set(_modules_of(values[name]))
    return {
        name for name in found if name in sys.modules and name not in sys.stdlib_module_names | {"__main__"}
    }


def _imported(code: str) -> Iterator[str]:
    tree = tree_of(code)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _modules_of(value: Any) -> Iterator[str]:
    with contextlib.suppress(Exception):  # the class of the value may raise anything, or lie
        if isinstance(value, ModuleType):
            yield value.__name__.partition(".")[0]
            return
        for each in (type(value), value):
            module = getattr(each, "__module__", None)
            if isinstance(module, str):
                yield module.partition(".")[0]


def _has_numba_threads() -> bool:
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return bool(getattr(parallel, "_is_initialized", False))
