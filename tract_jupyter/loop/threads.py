"""Await a turn, which blocks its thread, without blocking the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from tract_jupyter.concurrency import BY_PERSON, StopSignal, Worker
from tract_jupyter.prompts import TASK_CANCELLED
from tract_jupyter.storage import is_order

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_PATIENCE: Final = 5.0
"""Seconds that a cancelled task waits for the work to end."""


async def awaited(work: Callable[[], T], stop: StopSignal) -> T:
    """Run work in a thread with this task's context variables, and return its result.

    Args:
        work: the function to run.
        stop: the signal that ends the work; given if the task is cancelled. The task then waits for the end of the
            work, for five seconds at most, and no longer if it is cancelled again.
    """
    worker = Worker(work, "tract-turn")
    try:
        return await worker.wait()
    except (asyncio.CancelledError, KeyboardInterrupt) as error:
        stop.set(why_ended(error))
        await worker.ended(_PATIENCE)
        raise


def why_ended(error: BaseException) -> str:
    """Return the reason for the model if an interrupt ended a turn."""
    if is_order(error):
        return BY_PERSON
    return (
        TASK_CANCELLED if isinstance(error, asyncio.CancelledError) else f"stopped by {type(error).__name__}"
    )
