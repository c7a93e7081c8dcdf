"""Functions that are operations."""

from __future__ import annotations

import asyncio
import os
import threading

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


def until_told(context):
    """Ends soon after it is told to stop."""
    if not current_stop().wait(30):
        return
    current_stop().check()


async def awaiting(context):
    await asyncio.sleep(0)
    return done(context, loop=id(asyncio.get_running_loop()))


def job_of(function, key):
    """A job for an operation."""
    context = OperationContext(run_id="r", operation_id=key, trigger=RunTrigger.GENERATE, hook=Hook.BEFORE)
    return Job(function, context)


def run_functions(functions, workers, operations, *, mode=None, **options):
    """Execute operations that are these functions."""

    def begin(one, results):
        return job_of(functions[one.id], one.id)

    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, **({"mode": mode} if mode else {}))
    return watch(execute, plan, begin, workers, **options)
