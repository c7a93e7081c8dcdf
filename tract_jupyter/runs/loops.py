"""Operations that are coroutines, on an asyncio loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING

from tract_jupyter.runs.abort import enter_abort
from tract_jupyter.runs.workers import ThreadWorkers, error_result, result_of

if TYPE_CHECKING:
    from tract_jupyter.runs.abort import Abort
    from tract_jupyter.runs.workers import Job


class LoopWorkers(ThreadWorkers):
    """Runs coroutine functions on an asyncio loop, all of them on one thread, and other functions on threads.

    An operation that is told to stop is cancelled; one that catches this and goes on is waited for, like any other.

    Args:
        loop: one that runs in another thread than the coordinator; by default one of its own, in a thread of its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__()
        self._is_own = loop is None
        self._loop = loop or asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        if self._is_own:
            threading.Thread(target=self._run, name="tract-operations-loop", daemon=True).start()

    def close(self) -> None:
        """End the threads, and the loop if it was made here: what still runs on it is cancelled."""
        super().close()
        if self._is_own and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._loop.stop)

    def submit(self, key: object, job: Job, abort: Abort) -> None:
        """Have it run on the loop, if it is a coroutine function.

        Raises:
            RuntimeError: the coordinator runs on this very loop, and would wait for itself.
        """
        if not inspect.iscoroutinefunction(job.function):
            super().submit(key, job, abort)
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 # documented, for callers without a loop
            message = "The operations are to run on the loop that waits for them. Execute the plan in another thread."
            raise RuntimeError(message)
        try:
            self._loop.call_soon_threadsafe(self._start, key, job, abort)
        except RuntimeError as error:
            self._report(key, error_result(job.context, error))

    def _start(self, key: object, job: Job, abort: Abort) -> None:
        task = self._loop.create_task(self._carry_out(key, job, abort))
        # the loop itself holds tasks weakly
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, key: object, job: Job, abort: Abort) -> None:
        inner = self._loop.create_task(self._called(key, job, abort))
        forget = abort.on_set(lambda: self._loop.call_soon_threadsafe(inner.cancel))
        await asyncio.wait([inner])
        forget()
        self._report(key, result_of(job.context, inner.result))

    async def _called(self, key: object, job: Job, abort: Abort) -> object:
        # a task has a context of its own, so nothing has to be taken back
        enter_abort(abort)
        self._hear_progress(key)
        return await job.function(job.context)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel_all())
        self._loop.close()


async def _cancel_all() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
