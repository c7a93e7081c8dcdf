"""A user who takes up to 11 minutes for a decision, for each real agent and each way to the kernel.

`python -m benchmarks outside_waits` runs all agents at once, each in its own namespaces with loopback only, and needs
20 minutes, almost without work for the processor. For each wait, a call is made once, the user approves it after the
wait, and it must run exactly once. Its output must reach the model in the same turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jupyter_client.manager import start_new_kernel

from benchmarks.outside_agents import in_world, usable_programs
from benchmarks.outside_scripts import AGENTS, PASSED, shell_steps, tool_steps
from benchmarks.outside_terminal import terminal
from benchmarks.outside_world import world
from benchmarks.scripted_model import OVER, scripted
from benchmarks.timing import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jupyter_client.blocking.client import BlockingKernelClient

    from benchmarks.outside_world import World

WAITS: Final = (0, 45, 70, 310, 660)
"""Seconds until the user decides."""
WAYS: Final = ("cell, its tools", "cell, kernel", "HTTP", "proxy")
"""The agent's own tool in a turn of a cell, `run_code` there, and `run_code` of a terminal agent in two ways."""
_SPACING_SECONDS: Final = 10.0
_MORE_SECONDS: Final = 240.0
_LAYOUT: Final = "  {:<9} {:<16}" + " {:>9}" * len(WAITS)
_SETUP: Final = """
import asyncio, json, re
%load_ext tract_jupyter
from tract_jupyter.review import Answer, personal_channel
runs, asked = [], []
async def decide(request):
    shown = [one.code for one in request.code]
    shown += [str(row.value) for table in request.tables for row in table.rows]
    wait = int(re.search(r"waited_(\\d+)", request.title + "".join(shown)).group(1))
    asked.append(wait)
    await asyncio.sleep(wait)
    return Answer("approve", {})
tract.reviewer.channel = personal_channel("benchmark")(decide)
"""
_IN_CELL: Final = """
tract.outside.server = get_ipython()._tract_jupyter.notebook.serve_turn
tract.outside.use({agent!r}, env={names!r})
response = tract.chat({text!r}, agent={agent!r})
print(response.outcome.name, response.text, response.note)
"""
_COUNTS: Final = 'print("COUNTS" + json.dumps([runs, asked, len(tract.review.inbox())]))'


class _Call(NamedTuple):
    """The outcome of the call with one wait."""

    asked: int
    ran: int
    is_answered: bool
    seconds: float
    detail: str

    @property
    def is_lost(self) -> bool:
        """True if the approved call did not run, or its output did not reach the model."""
        return self.ran == 0 or not self.is_answered

    @property
    def is_double(self) -> bool:
        """True if the call ran twice or made two requests."""
        return self.ran > 1 or self.asked > 1

    def __str__(self) -> str:
        return "lost" if self.is_lost else "twice" if self.is_double else f"{self.seconds:.0f} s"


def rows() -> Iterator[Row]:
    """Run all agents at once, print one line for each agent and way, and yield the sums."""
    programs = usable_programs()
    if programs is None:
        return
    pairs = [(agent, way) for agent in AGENTS for way in WAYS]
    print(_LAYOUT.format("agent", "way", *(f"{wait} s" for wait in WAITS)), flush=True)
    calls: list[_Call] = []
    with ThreadPoolExecutor(len(pairs)) as pool:
        running = []
        for agent, way in pairs:
            words = (agent, way, *map(str, WAITS))
            running.append(pool.submit(in_world, programs, "benchmarks.outside_waits", *words))
            time.sleep(_SPACING_SECONDS)
        for (agent, way), future in zip(pairs, running, strict=True):
            result = future.result()
            found = {int(wait): _Call(*call) for wait, call in result.get("calls", {}).items()}
            print(_LAYOUT.format(agent, way, *(str(found.get(wait, "error")) for wait in WAITS)), flush=True)
            for line in _details(result, found, in_cell=way in WAYS[:2]):
                print(f"      {line}")
            lost = _Call(0, 0, is_answered=False, seconds=0.0, detail="")
            calls += [found.get(wait, lost) for wait in WAITS]
    yield Row(f"lost approvals, of {len(calls)}", sum(call.is_lost for call in calls), "x", 0)
    yield Row("calls that ran twice or made two requests", sum(call.is_double for call in calls), "x", 0)


def _details(result: Mapping[str, Any], calls: Mapping[int, _Call], *, in_cell: bool) -> Iterator[str]:
    if "error" in result:
        yield f"error: {result['error']}"
    for wait, call in calls.items():
        if call.is_lost or call.is_double:
            yield f"{wait} s: {call}"
            yield call.detail
    if result.get("inbox"):
        yield f"left in the inbox: {result['inbox']}"
    if result.get("names") and in_cell:  # a terminal agent has no settings of ours
        yield f"look-ups: {result['names']}"


# --- in the namespaces


def measure(agent: str, way: str, waits: list[int]) -> dict[str, Any]:
    """Make one call for each wait, and return the outcomes."""
    with world() as here:
        manager, client = start_new_kernel(cwd=str(here.folder))
        try:
            run = partial(_run, client)
            problem = run(_SETUP)
            calls, inbox = {}, 0
            for wait in waits:
                calls[wait], inbox = _measure_one(agent, way, wait, here, run)
            run("tract.outside.stop()")
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
        return {"calls": calls, "inbox": inbox, "names": here.names.names, "setup": problem}


def _measure_one(agent: str, way: str, wait: int, here: World, run: Callable[..., str]) -> tuple[_Call, int]:
    is_own = way == "cell, its tools"
    name, file = f"waited_{wait}", here.folder / f"waited_{wait}.txt"
    # the mark is in the output only
    code = f'runs.append({wait})  # {name}\nprint("out" "put-{wait}-end")'
    shell = f'echo run >> {file.name}; echo out""put-{wait}-end'
    steps = shell_steps(agent, shell) if is_own else tool_steps(agent, code, in_cell=way in WAYS[:2])
    text = f"Please do this. {scripted([*steps, {'text': OVER}])}"
    started = time.monotonic()
    if way in WAYS[:2]:
        told = run(_IN_CELL.format(agent=agent, names=list(PASSED), text=text), wait)
    else:
        told = run("%tract serve")
        told = _in_terminal(agent, way, text, wait, here)
    seconds = time.monotonic() - started
    counts = run(_COUNTS)
    found = [line for line in counts.splitlines() if line.startswith("COUNTS")]
    runs, asked, inbox = json.loads(found[0].removeprefix("COUNTS")) if found else ([], [], 0)
    ran = file.read_text().count("run") if is_own and file.exists() else runs.count(wait)
    is_answered = here.model.got(f"output-{wait}-end")
    return _Call(asked.count(wait), ran, is_answered, seconds, f"{told[-1_500:]} {counts[-300:]}"), inbox


def _in_terminal(agent: str, way: str, text: str, wait: int, here: World) -> str:
    """Run the agent's program in a terminal, with the kernel as its MCP server."""
    (kernel,) = (here.root / "runtime").glob("tract-kernel-*.json")
    command, variables = terminal(
        agent, text, here, json.loads(kernel.read_text()) if way == "HTTP" else None
    )
    try:
        done = subprocess.run(  # noqa: S603 # a pinned program
            command, cwd=here.folder, env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=wait + _MORE_SECONDS, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return f"did not end: {error.stdout!r} {error.stderr!r}"
    return f"{done.returncode} {done.stdout[-1_000:]} {done.stderr[-400:]}"


def _run(client: BlockingKernelClient, code: str, wait: int = 0) -> str:
    """Run a cell, and return its output."""
    output: list[str] = []

    def take(message: Any) -> None:
        content = message["content"]
        output.append(content.get("text") or "\n".join(content.get("traceback") or []))

    client.execute_interactive(code, timeout=wait + _MORE_SECONDS, output_hook=take, allow_stdin=False)
    return "".join(output)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], [int(word) for word in sys.argv[3:]])))
