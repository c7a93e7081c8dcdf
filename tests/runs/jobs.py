"""Functions that are operations; at the top of a module, so that another process finds them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

from tests.runs.virtual import watch
from tract_jupyter.concurrency import current_stop
from tract_jupyter.runs import (
    Hook,
    Job,
    OperationContext,
    OperationResult,
    OperationStatus,
    RunTrigger,
    execute,
    make_plan,
)


def done(context, **debug):
    """A result that says where it was made."""
    where = {"process": os.getpid(), "thread": threading.current_thread().name, "deadline": context.deadline}
    return OperationResult(
        operation_id=context.operation_id, status=OperationStatus.DONE, debug={**where, **debug}
    )


def fine(context):
    return done(context)


def raising(context):
    raise ValueError("no such luck")


def leaving(context):
    raise SystemExit(3)


def nothing(context):
    return None


def dying(context):
    os._exit(1)


def second_time_fine(context):
    """Dies, if it is the first attempt: the file that its variables name is not there yet."""
    path = Path(context.variables["path"])
    if path.exists():
        return done(context)
    path.touch()
    os._exit(1)


def until_told(context):
    """Ends soon after it is told to stop."""
    if not current_stop().wait(30):
        return
    current_stop().check()


def until_late(context):
    """Ends after its deadline, which is all that another process knows."""
    while time.time() < context.deadline + 1:
        time.sleep(0.005)
    return done(context)


async def awaiting(context):
    await asyncio.sleep(0)
    return done(context, loop=id(asyncio.get_running_loop()))


def job_of(function, key, anywhere=True, **variables):
    """A job for an operation."""
    context = OperationContext(
        run_id="r", operation_id=key, trigger=RunTrigger.GENERATE, hook=Hook.BEFORE, variables=variables
    )
    return Job(function, context, anywhere)


def run_functions(functions, workers, operations, *, anywhere=True, variables=None, mode=None, **options):
    """Execute operations that are these functions."""

    def begin(one, results):
        function = functions[one.id]
        if isinstance(function, Job):
            return function
        return job_of(function, one.id, anywhere, **(variables or {}))

    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, **({"mode": mode} if mode else {}))
    return watch(execute, plan, begin, workers, **options)
