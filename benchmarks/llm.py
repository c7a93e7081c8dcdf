"""Turns of a model: the cost of a step without its request, streaming, Stop, memory, and the instructions about tools.

A step is one request, one call of a read-only tool, and its answer. A loop with the same httpx requests and no storage
measures the cost of the requests.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import tracemalloc
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, process_time, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.model_server import (
    CALLS,
    HALTING,
    RUSH,
    RUSHING,
    SILENT,
    TICKING,
    TOOL,
    model_server,
    reply_of,
)
from benchmarks.places import tract_on_disk
from benchmarks.timing import Growth, Row
from tract_jupyter import Tract
from tract_jupyter.models import Allowance
from tract_jupyter.toolkit import ToolConfig, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.models import ChatResponse

SIZES: Final = (100, 1_000)
_LONG: Final = 10_000  # steps whose memory is measured; in one conversation they would take their square
_STEP_MS, _STOP_MS, _LAG_MS, _REPLAY_SECONDS = 5.0, 200.0, 100.0, 5.0
_DELTAS_PER_SECOND, _INSTRUCTION_TOKENS, _LEFT_MB = 500.0, 1_500.0, 5.0
_ROUNDS: Final = 3
_ASKED: Final = 200  # steps that are compared with bare requests
_LAST: Final = 100  # steps at the end of a conversation that are timed
_TURN: Final = 25  # steps of a turn where memory is measured
_TOOLS: Final = 200
_PROFILE: Final = ToolProfile("benchmark", {TOOL: ToolConfig()})


def rows(sizes: tuple[int, ...] = SIZES, steps: int = _LONG) -> Iterator[Row]:
    """Measure with a server in another process, then long conversations without a server."""
    with model_server() as address:
        yield from _beside_bare_requests(address)
        yield from _streaming(address)
        yield from _stopping(address)
    growth = Growth()
    for size in sizes:
        value = _of_a_later_step(size)
        name = f"a step after {size:,} others, model and all, time of the processor"
        yield Row(name, value, "ms", _STEP_MS, growth.of("step", value))
    yield Row(
        f"replaying {sizes[-1]:,} steps from a cassette",
        _replay(sizes[-1]),
        "s",
        _REPLAY_SECONDS,
    )
    yield Row(
        f"memory that {steps:,} steps leave, once nobody needs their history",
        _left(steps),
        "MB",
        _LEFT_MB,
    )
    yield Row(f"what a model is told of {_TOOLS} tools", _instructions(), "tokens", _INSTRUCTION_TOKENS)


# --- a step


class _Cost(NamedTuple):
    """The seconds of a step: on the clock, and on the processor."""

    wall: float
    processor: float


def _beside_bare_requests(address: str) -> Iterator[Row]:
    bare = _least(_bare_loop(address) for _ in range(_ROUNDS))
    whole = _least(_stored_loop(address) for _ in range(_ROUNDS))
    yield Row(f"a step of {_ASKED}, on HTTP", whole.wall, "ms")
    yield Row("the same requests with bare httpx, nothing kept", bare.wall, "ms")
    yield Row("so a step costs beside its request", whole.wall - bare.wall, "ms", _STEP_MS)
    yield Row("of this, time of the processor", whole.processor - bare.processor, "ms")
    yield Row("a step over its bare request", whole.wall / bare.wall, "x")


def _least(costs: Iterator[_Cost]) -> _Cost:
    found = list(costs)
    return _Cost(min(cost.wall for cost in found), min(cost.processor for cost in found))


def _timed(steps: int, work: Callable[[], object]) -> _Cost:
    wall, processor = perf_counter(), process_time()
    work()
    return _Cost((perf_counter() - wall) / steps, (process_time() - processor) / steps)


def _stored_loop(address: str) -> _Cost:
    with _acting() as tract:
        tract.models.use(CALLS, base_url=address)
        _go(tract, 2)  # finish lazy imports
    with _acting() as tract:
        tract.models.use(CALLS, base_url=address)
        return _timed(_ASKED, lambda: _go(tract, _ASKED))


def _bare_loop(address: str) -> _Cost:
    import httpx

    with _acting() as tract:
        toolset = tract.loop.toolset(_PROFILE)
        tools = [] if toolset is None else toolset.schemas()
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]

    def go() -> None:
        for _ in range(_ASKED):
            body = json.dumps({"model": CALLS, "messages": messages, "tools": tools, "stream": False})
            reply = http.post(f"{address}/chat/completions", content=body).json()["choices"][0]["message"]
            messages.append(reply)
            for call in reply["tool_calls"]:
                result = _look(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    with httpx.Client() as http:
        return _timed(_ASKED, go)


@contextmanager
def _acting() -> Iterator[Tract]:
    """Yield a tract on disk whose model has the tool."""
    with tract_on_disk() as tract:
        _look_around(tract)
        yield tract


def _look_around(tract: Tract) -> None:
    """Give a tract's model the tool."""
    tract.tool(_look, name=TOOL, read_only=True)
    tract.loop.tools = _PROFILE


def _look(city: str) -> str:
    """Look outside."""
    return f"sunny in {city}"


def _go(tract: Tract, steps: int) -> ChatResponse:
    return tract.chat("Go.", limits=Allowance(steps=steps, calls=None))


def _of_a_later_step(steps: int) -> float:
    """Return the processor seconds of one step after many others."""
    with _acting() as tract:
        numbers = count()
        tract.models.use(lambda messages, **options: reply_of(next(numbers)))  # noqa: ARG005 # as clients are asked
        _go(tract, steps)
        return min(_timed(_LAST, lambda: _go(tract, _LAST)).processor for _ in range(_ROUNDS))


def _replay(steps: int) -> float:
    """Return the seconds of a replay on disk that ends with the recorded commit."""
    numbers = count()
    with TemporaryDirectory() as folder:
        cassette = Path(folder, "talk.cassette.jsonl")
        with Tract.open(Path(folder, "recorded.db"), record=cassette) as tract:
            tract.models.use(lambda messages, **options: reply_of(next(numbers)))  # noqa: ARG005 # as clients are asked
            _look_around(tract)
            _go(tract, steps)
        with Tract.open(Path(folder, "replayed.db"), replay=cassette) as tract:
            _look_around(tract)
            seconds = _timed(1, lambda: _go(tract, steps)).wall
            report = tract.cassette.stop()
            if report is None or not report.is_same:
                raise RuntimeError(f"the replay differs: {report}")
            return seconds


# --- streaming


def _streaming(address: str) -> Iterator[Row]:
    with tract_on_disk() as tract:
        tract.models.use(TICKING, base_url=address)
        late: list[float] = []
        tract.chat("Tick.", on_delta=lambda piece: late.append(monotonic() - float(piece.text)))
        yield Row("500 deltas a second: the last one is this late", late[-1], "ms", _LAG_MS)
        tract.models.use(RUSHING, base_url=address)
        came = count()
        best = min(
            _timed(1, lambda: tract.chat("Go.", on_delta=lambda _: next(came))).wall for _ in range(_ROUNDS)
        )
        yield Row("deltas, as fast as they come", RUSH / best, "/s", _DELTAS_PER_SECOND)


# --- stopping


def _stopping(address: str) -> Iterator[Row]:
    for model, when in ((SILENT, "before anything came"), (HALTING, "after a word")):
        for how, ask in (("", _ask), (", async", _ask_async)):
            yield Row(f"Stop {when}{how}", _stop(address, model, ask), "ms", _STOP_MS)


def _ask(tract: Tract) -> object:
    return tract.chat("Go.", on_delta=lambda _: None)


def _ask_async(tract: Tract) -> object:
    return asyncio.run(tract.achat("Go.", on_delta=lambda _: None))


def _stop(address: str, model: str, ask: Callable[[Tract], object]) -> float:
    """Return the seconds from Stop to the end of a turn with a silent model."""
    stopped: list[float] = []
    with tract_on_disk() as tract:
        tract.models.use(model, base_url=address)

        def stop() -> None:
            sleep(0.5)
            stopped.append(perf_counter())
            tract.loop.stop()

        threading.Thread(target=stop).start()
        ask(tract)
        return perf_counter() - stopped[0]


# --- memory, instructions


def _left(steps: int) -> float:
    """Return the megabytes that remain after turns which each start from the first commit."""
    numbers = count()
    with _acting() as tract:
        tract.models.use(lambda messages, **options: reply_of(next(numbers)))  # noqa: ARG005 # as clients are asked
        start = tract.system("Look around.").commit_hash

        def turn() -> None:
            tract.reset(start)
            _go(tract, _TURN)

        tracemalloc.start()
        try:
            for _ in range(10):  # as many histories as are kept in memory, and more
                turn()
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(steps // _TURN):
                turn()
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) / 1_000_000
        finally:
            tracemalloc.stop()


def _instructions() -> float:
    with Tract.open() as tract:
        for number in range(_TOOLS):
            tract.tool(_look, name=f"look_at_place_number_{number}", read_only=True)
        asked: list[list[dict[str, Any]]] = []

        def model(messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:  # noqa: ARG001 # as asked
            asked.append(messages)
            return {"choices": [{"message": {"content": "Hello."}}]}

        tract.models.use(model)
        tract.chat("Which of them is sunny?", tools="code")
        return sum(tract.tokenizer.count_text(one["content"]) for one in asked[0] if one["role"] == "system")
