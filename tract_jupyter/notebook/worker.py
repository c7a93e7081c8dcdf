"""Work in a thread of its own while the cell awaits it, so that panels and clicks work meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

HEARTBEAT_SECONDS = 0.05
_PATIENCE_SECONDS = 2.0  # for work that was stopped

T = TypeVar("T")


class Worker(Generic[T]):
    """A thread in the cell's context, so that what it displays belongs to the cell.

    Args:
        work: what it does.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self.result: T | None = None
        self._error: BaseException | None = None
        self._work = work
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def outcome(self) -> T:
        """The result; raises the error that there is instead."""
        if self.result is None:
            raise self._error or RuntimeError("the thread ended without a result")
        return self.result

    async def wait(self, beat: Callable[[], None]) -> T:
        """Await the end, and return the result; `beat` is called from time to time.

        One that is cancelled meanwhile calls nothing more, and the work goes on.
        """
        while self.is_running:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            beat()
        return self.outcome()

    async def ended(self) -> None:
        """Wait a little for work that was told to stop; what waits in C may go on for longer."""
        for _ in range(int(_PATIENCE_SECONDS / HEARTBEAT_SECONDS)):
            if not self.is_running:
                return
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001 # raised again where the cell waits
            self._error = error
