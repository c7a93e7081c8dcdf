"""What a run's scheduling costs: planning, starting and settling an operation, and how well threads are filled."""

from __future__ import annotations

import heapq
import json
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from benchmarks.timing import Row, best_of
from tract_jupyter.runs.commit import CommitItem, commit
from tract_jupyter.runs.effect_types import EFFECTS
from tract_jupyter.runs.execute import execute
from tract_jupyter.runs.model import Operation, OperationContext, OperationResult
from tract_jupyter.runs.plan import make_plan
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.targets import MemoryTarget
from tract_jupyter.runs.terms import Hook, OperationStatus, Trigger
from tract_jupyter.runs.turn import Turn
from tract_jupyter.runs.workers import Job, ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WORKERS: Final = 4
_DAGS: Final = 200
_EACH: Final = 1_000
_LANGGRAPH: Final = 200
_LIVE_SECONDS: Final = 300


def rows(sizes: Sequence[int] = (1_000, 10_000)) -> Iterator[Row]:
    """Planning for each of the sizes; then the rest."""
    before = None
    for size in sizes:
        operations = _lattice(size, reach=3)
        queue = _queue(operations)
        seconds = best_of(partial(_planned_and_committed, operations, queue))
        growth = None if before is None else seconds / before
        target = 150.0 if size <= _EACH else None
        label = f"planning and committing {size:,} operations of 3 dependencies each"
        yield Row(label, seconds, "ms", target, growth, 20.0)
        before = seconds
    yield Row("an operation on threads, over what the bare executor takes", _overhead(), "µs", 100.0)
    yield Row(f"makespan of {_DAGS} random graphs on 4 threads, over list scheduling", _makespan(), "x", 1.03)
    bare = _bare_supersteps()
    own = _superstep() - bare
    yield Row(f"an operation of {_LANGGRAPH}, four at a time, each after one before: over that", own, "µs")
    other = _langgraph()
    if other is None:
        yield Row("the same as supersteps of LangGraph: unavailable, it could not be installed", 0, "µs")
    else:
        yield Row("the same as supersteps of LangGraph, over that", other - bare, "µs")
        yield Row("ours as a part of LangGraph's", own / (other - bare), "x", 0.2)


def _operation(key: str, order: float, depends_on: Sequence[str]) -> Operation:
    definition = {"operationId": key, "name": key, "kind": "bench"}
    return Operation.from_dict(
        {"definition": definition, "config": {"order": order, "dependsOn": depends_on}}
    )


def _lattice(size: int, reach: int) -> list[Operation]:
    """Four side by side; each depends on `reach` of those above it."""
    return [
        _operation(f"o{n}", n, [f"o{n - 4 * back}" for back in range(1, reach + 1) if n >= 4 * back])
        for n in range(size)
    ]


def _queue(operations: Sequence[Operation]) -> list[CommitItem]:
    """All of them done, each with an artifact, and every third with a message for the prompt."""
    items = []
    for number, one in enumerate(operations):
        given: list[dict[str, Any]] = [{"type": "artifact.upsert", "tag": f"t{number}", "value": "x" * 100}]
        if number % 3 == 0:
            given.append({"type": "prompt.append_after_last_user", "role": "system", "content": "x" * 100})
        effects = [EFFECTS.validate_python(effect) for effect in given]
        items.append(CommitItem(one.id, one.config.order, one.config.depends_on, effects=effects))
    return items


def _planned_and_committed(operations: Sequence[Operation], queue: Sequence[CommitItem]) -> None:
    make_plan(operations, Hook.BEFORE, Trigger.GENERATE)
    prompt = Prompt.of([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    commit(Hook.BEFORE, queue, Turn.of(prompt), MemoryTarget())


def _job(key: str, function: Callable[[OperationContext], OperationResult]) -> Job:
    return Job(
        function,
        OperationContext(run_id="bench", operation_id=key, trigger=Trigger.GENERATE, hook=Hook.BEFORE),
    )


def _nothing(context: OperationContext) -> OperationResult:
    return OperationResult(operation_id=context.operation_id, status=OperationStatus.DONE)


def _best(operations: Sequence[Operation]) -> float:
    """Seconds of executing operations that do nothing, four at a time."""
    plan = make_plan(operations, Hook.BEFORE, Trigger.GENERATE, concurrency=_WORKERS)
    jobs = {one.id: _job(one.id, _nothing) for one in operations}
    with ThreadWorkers() as workers:
        return best_of(lambda: execute(plan, lambda one, _results: jobs[one.id], workers))


def _superstep() -> float:
    """Seconds of one operation, where each waits for the one above it."""
    return _best(_lattice(_LANGGRAPH, reach=1)) / _LANGGRAPH


def _bare_supersteps() -> float:
    """Seconds of one call on a bare executor, four at a time."""
    context = _job("o", _nothing).context
    with ThreadPoolExecutor(_WORKERS) as executor:

        def supersteps() -> None:
            for _ in range(_LANGGRAPH // _WORKERS):
                wait([executor.submit(_nothing, context) for _ in range(_WORKERS)])

        return best_of(supersteps) / _LANGGRAPH


def _overhead() -> float:
    """Seconds of one operation that depends on nothing, less those of one call on a bare executor."""
    ours = _best([_operation(f"o{n}", n, ()) for n in range(_EACH)])
    context = _job("o", _nothing).context
    with ThreadPoolExecutor(_WORKERS) as executor:
        bare = best_of(
            lambda: [one.result() for one in [executor.submit(_nothing, context) for _ in range(_EACH)]]
        )
    return (ours - bare) / _EACH


def _makespan() -> float:
    """How long random graphs take, over what they would if starting an operation cost nothing.

    Sleeping is inexact, so what counts is how long each one really slept.
    """
    random = Random(7)  # noqa: S311 # no secret
    taken = bound = 0.0
    with ThreadWorkers() as workers:
        for _ in range(_DAGS):
            seconds = {f"o{n:02}": random.uniform(0.01, 0.03) for n in range(16)}
            names = list(seconds)
            edges = {
                name: random.sample(names[:n], k=min(n, random.randrange(3))) for n, name in enumerate(names)
            }
            operations = [_operation(name, n, edges[name]) for n, name in enumerate(names)]
            taken += _slept(operations, seconds, workers)
            bound += _list_scheduled(seconds, edges)
    return taken / bound


def _slept(operations: Sequence[Operation], seconds: dict[str, float], workers: ThreadWorkers) -> float:
    def sleeping(context: OperationContext) -> OperationResult:
        started = time.perf_counter()
        time.sleep(seconds[context.operation_id])
        seconds[context.operation_id] = time.perf_counter() - started
        return _nothing(context)

    jobs = {one.id: _job(one.id, sleeping) for one in operations}
    plan = make_plan(operations, Hook.BEFORE, Trigger.GENERATE, concurrency=_WORKERS)
    started = time.perf_counter()
    execute(plan, lambda one, _results: jobs[one.id], workers)
    return time.perf_counter() - started


def _list_scheduled(seconds: dict[str, float], edges: dict[str, list[str]]) -> float:
    """The makespan of the smallest ready one first, on four workers, by looking only at the numbers."""
    now, done, waiting, running = 0.0, set[str](), sorted(seconds), list[tuple[float, str]]()
    while waiting or running:
        for name in [name for name in waiting if done.issuperset(edges[name])][: _WORKERS - len(running)]:
            waiting.remove(name)
            heapq.heappush(running, (now + seconds[name], name))
        now, name = heapq.heappop(running)
        done.add(name)
    return now


_SUPERSTEPS: Final = """
import json, operator, sys, time
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    done: Annotated[list, operator.add]

size = int(sys.argv[1])
graph = StateGraph(State)
for n in range(size):
    graph.add_node(f"o{n}", lambda state, n=n: {"done": [n]})
    graph.add_edge(f"o{n - 4}" if n >= 4 else START, f"o{n}")
compiled = graph.compile()
times = []
for _ in range(5):
    started = time.perf_counter()
    found = compiled.invoke({"done": []}, {"recursion_limit": size, "max_concurrency": 4})
    times.append(time.perf_counter() - started)
    assert len(found["done"]) == size
print(json.dumps(min(times) / size))
"""


def _langgraph() -> float | None:
    """Seconds of one node, in an environment that is made for this and thrown away; None without the package index."""
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        try:
            _run(python, "-m", "pip", "install", "-q", "langgraph")
            found: float = json.loads(_run(python, "-c", _SUPERSTEPS, str(_LANGGRAPH)))
        except (OSError, subprocess.SubprocessError):
            return None
    return found


def _run(python: Path, *arguments: str) -> str:
    command = [str(python), "-I", *arguments]
    return subprocess.run(  # noqa: S603 # our own script
        command, check=True, capture_output=True, text=True, timeout=_LIVE_SECONDS
    ).stdout
