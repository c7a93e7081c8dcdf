"""The cost of a run: planning, starting and settling operations, filling threads, and a whole durable run."""

from __future__ import annotations

import heapq
import json
import sqlite3
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from benchmarks.timing import Growth, Row, best_of, fastest, time_call
from tract_jupyter import OperationProfile, Tract, run_operation
from tract_jupyter.runs import (
    EFFECTS,
    CommitItem,
    Hook,
    Job,
    MemoryTarget,
    Operation,
    OperationContext,
    OperationResult,
    OperationStatus,
    Prompt,
    RunTrigger,
    ThreadWorkers,
    Turn,
    commit,
    execute,
    make_plan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WORKERS: Final = 4
_EACH: Final = 1_000
_LANGGRAPH: Final = 400
_WIDTH: Final = 50
_LIVE_SECONDS: Final = 300


def rows(sizes: Sequence[int] = (1_000, 10_000), graphs: int = 200) -> Iterator[Row]:
    """Planning for each of the sizes; the makespan of so many random graphs; then the rest."""
    growth = Growth()
    for size in sizes:
        operations = _lattice(size, reach=3)
        queue = _queue(operations)
        seconds = best_of(partial(_planned_and_committed, operations, queue))
        target = 150.0 if size <= _EACH else None
        label = f"planning and committing {size:,} operations of 3 dependencies each"
        yield Row(label, seconds, "ms", target, growth.of("planning", seconds), 16.0)
    yield Row("an operation on threads, over what the bare executor takes", _overhead(), "µs", 100.0)
    yield Row(
        f"makespan of {graphs} random graphs on 4 threads, over list scheduling", _makespan(graphs), "x", 1.03
    )
    yield from _whole_runs()


def _whole_runs() -> Iterator[Row]:
    """Whole durable runs, CPU for each operation: ours, LangGraph's with its SQLite checkpointer, a bare journal."""
    journal, ours = _journal(), _durable_run()
    yield Row(f"a durable run of {_LANGGRAPH} operations that do nothing, CPU of each", ours, "µs")
    other = _langgraph()
    if other is None:
        yield Row("the same in LangGraph on SQLite: unavailable, it could not be installed", 0, "µs")
        yield Row("ours over a bare sqlite3 journal of the same durability", ours / journal, "x")
    else:
        yield Row("the same in LangGraph, with its SQLite checkpointer", other, "µs")
        yield Row("ours as a part of LangGraph's", ours / other, "x", 1.0)


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
    make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE)
    prompt = Prompt.of([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    commit(Hook.BEFORE, queue, Turn.of(prompt), MemoryTarget())


def _job(key: str, function: Callable[[OperationContext], OperationResult]) -> Job:
    return Job(
        function,
        OperationContext(run_id="bench", operation_id=key, trigger=RunTrigger.GENERATE, hook=Hook.BEFORE),
    )


def _nothing(context: OperationContext) -> OperationResult:
    return OperationResult(operation_id=context.operation_id, status=OperationStatus.DONE)


def _best(operations: Sequence[Operation]) -> float:
    """Seconds of executing operations that do nothing, four at a time."""
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, concurrency=_WORKERS)
    jobs = {one.id: _job(one.id, _nothing) for one in operations}
    with ThreadWorkers() as workers:
        return best_of(lambda: execute(plan, lambda one, _results: jobs[one.id], workers))


class _Yes:
    """A client that says yes."""

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:  # noqa: ARG002 # a client's
        return {"choices": [{"message": {"content": "yes"}}]}


def _durable_run() -> float:
    """CPU seconds of one operation of a run on a store: 50 side by side, each one with an artifact."""
    operations = [
        run_operation(
            f"o{n:03}", order=n % 7, text="x", tag=f"t{n}", after=[f"o{n - _WIDTH:03}"] if n >= _WIDTH else []
        )
        for n in range(_LANGGRAPH)
    ]
    with TemporaryDirectory() as folder, Tract.open(str(Path(folder) / "runs.db")) as tract:
        tract.configure_llm(_Yes())
        tract.user("hi")
        tract.profiles.save(OperationProfile.of("bench", operations), activate=True)
        return fastest(lambda: tract.chat("go"), clock=time.process_time) / _LANGGRAPH


def _journal() -> float:
    """CPU seconds of one operation in a table of events alone: as many rows, and as many transactions."""
    with TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder) / "journal.db")) as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute(
            "create table events (run integer, seq integer, data text, primary key (run, seq))"
        )
        runs = count()

        def run() -> None:
            number, rows = next(runs), iter(range(2 * _LANGGRAPH))
            for _ in range(_LANGGRAPH // _WIDTH):
                with connection:
                    events = [
                        (number, seq, json.dumps({"value": "x" * 200})) for seq in islice(rows, 2 * _WIDTH)
                    ]
                    connection.executemany("insert into events values (?, ?, ?)", events)

        return fastest(run, clock=time.process_time) / _LANGGRAPH


def _overhead() -> float:
    """Return the seconds of one independent operation, without the seconds of a call on a bare executor."""
    ours = _best([_operation(f"o{n}", n, ()) for n in range(_EACH)])
    context = _job("o", _nothing).context
    with ThreadPoolExecutor(_WORKERS) as executor:
        bare = best_of(
            lambda: [one.result() for one in [executor.submit(_nothing, context) for _ in range(_EACH)]]
        )
    return (ours - bare) / _EACH


def _makespan(graphs: int) -> float:
    """Return the time of random graphs relative to list scheduling without overhead.

    Sleeping is inexact, so the actual sleep of each operation counts.
    """
    random = Random(7)  # noqa: S311 # no secret
    taken = bound = 0.0
    with ThreadWorkers() as workers:
        for _ in range(graphs):
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
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, concurrency=_WORKERS)
    return time_call(lambda: execute(plan, lambda one, _results: jobs[one.id], workers))


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


_DURABLE: Final = """
import json, os, sqlite3, sys, tempfile, time
from typing import Annotated, TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

class State(TypedDict):
    done: Annotated[dict, lambda one, other: {**one, **other}]

size, width = int(sys.argv[1]), int(sys.argv[2])
graph = StateGraph(State)
for n in range(size):
    graph.add_node(f"o{n}", lambda state, n=n: {"done": {f"t{n}": "x"}})
    graph.add_edge(f"o{n - width}" if n >= width else START, f"o{n}")
connection = sqlite3.connect(os.path.join(tempfile.mkdtemp(), "runs.db"), check_same_thread=False)
connection.execute("pragma journal_mode=wal")
connection.execute("pragma synchronous=normal")
compiled = graph.compile(checkpointer=SqliteSaver(connection))
times = []
for number in range(5):
    started = time.process_time()
    found = compiled.invoke({"done": {}}, {"configurable": {"thread_id": str(number)}}, durability="sync")
    times.append(time.process_time() - started)
    assert len(found["done"]) == size
print(json.dumps(min(times) / size))
"""


def _langgraph() -> float | None:
    """Return the CPU seconds of one node of a durable run, in a new environment; None without the package index."""
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        try:
            _run(python, "-m", "pip", "install", "-q", "langgraph", "langgraph-checkpoint-sqlite")
            found: float = json.loads(_run(python, "-c", _DURABLE, str(_LANGGRAPH), str(_WIDTH)))
        except (OSError, subprocess.SubprocessError):
            return None
    return found


def _run(python: Path, *arguments: str) -> str:
    command = [str(python), "-I", *arguments]
    return subprocess.run(  # noqa: S603 # our own script
        command, check=True, capture_output=True, text=True, timeout=_LIVE_SECONDS
    ).stdout
