"""Awaiting what blocks a thread, such as a turn, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_HEARTBEAT: Final = 0.02
"""Seconds. A bare await cannot be interrupted in a kernel, so waiting is many short ones."""
_PATIENCE: Final = 5.0
"""Seconds that a cancelled task waits for the work to end."""


async def awaited(work: Callable[[], T], stop: Callable[[], object]) -> T:
    """Do work in a thread of its own, with this task's context variables, and return what it gives.

    Args:
        work: what is done.
        stop: is called if the task is cancelled, and has the work end soon. That is awaited for five seconds at most,
            and not any more if the task is cancelled again.
    """
    came: dict[str, Any] = {}
    is_over = threading.Event()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            came["result"] = context.run(work)
        except BaseException as error:  # noqa: BLE001 # raised where it is awaited
            came["error"] = error
        finally:
            is_over.set()

    threading.Thread(target=run, name="tract-turn", daemon=True).start()
    try:
        await _until(is_over, math.inf)
    except (asyncio.CancelledError, KeyboardInterrupt):
        stop()
        await _until(is_over, _PATIENCE)
        raise
    if "error" in came:
        raise came["error"]
    return came["result"]  # type: ignore[no-any-return] # what `work` gives


async def _until(is_over: threading.Event, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_over.is_set() and time.monotonic() < end:  # noqa: ASYNC110 # a thread sets no `asyncio.Event`
        await asyncio.sleep(_HEARTBEAT)
