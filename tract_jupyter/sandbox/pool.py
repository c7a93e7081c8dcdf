"""The worker processes of the sandbox: started when the first code is to run, ended with the tract."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import NoSandboxError

if TYPE_CHECKING:
    from pydantic_monty import Monty

_MOST_WORKERS = 8


class SandboxPool:
    """The sandboxes of one tract. `pydantic-monty`, an extra, is loaded when they are first needed."""

    def __init__(self) -> None:
        self._monty: Monty | None = None
        self._lock = threading.Lock()

    def opened(self) -> Monty:
        """The pool that sandboxes come from.

        Raises:
            NoSandboxError: it is not installed.
        """
        try:
            from pydantic_monty import Monty
        except ImportError:
            raise NoSandboxError(
                "there is no sandbox in this environment; install it: pip install 'tract_jupyter[sandbox]'"
            ) from None
        with self._lock:
            if self._monty is None:
                monty = Monty(max_processes=_MOST_WORKERS)
                monty.__enter__()
                self._monty = monty
            return self._monty

    def close(self) -> None:
        """End the worker processes. What is needed later is started anew."""
        with self._lock:
            monty, self._monty = self._monty, None
        if monty is not None:
            monty.__exit__(None, None, None)
