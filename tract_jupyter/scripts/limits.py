"""Limits of a script, and the meter that counts what it used of them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import counted
from tract_jupyter.storage import whole_context

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """The limits of one script; None stands for no limit.

    Attributes:
        calls: tool calls.
        seconds: of running; waiting for a person's decision does not count.
        result_bytes: of what all tool calls together give back, as JSON, about.
        output_characters: that are kept of what it prints and displays: as much of the beginning as of the end.
        depth: tools that call tools.
        memory: bytes, in the sandbox; the kernel's own memory cannot be bounded.
    """

    calls: int | None = 1_000
    seconds: float | None = 300.0
    result_bytes: int | None = 50_000_000
    output_characters: int = 100_000
    depth: int = 4
    memory: int | None = 256_000_000

    def __post_init__(self) -> None:
        for name in ("calls", "seconds", "result_bytes", "output_characters", "depth", "memory"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is None and name not in {"output_characters", "depth"}:
                continue
            if not is_number or value <= 0:
                raise ContentError(f"a script's limit {name} must be a positive number, got {value!r}")


class Meter:
    """The meter of one run: what it has used of its limits. Any thread may read it while the script runs."""

    def __init__(self, limits: ScriptLimits) -> None:
        self.limits = limits
        self.calls = 0
        self.result_bytes = 0
        self._nesting = threading.local()  # calls side by side are not deep
        self._began: float | None = None
        self._until = inf
        self._before = 0.0
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._ended: float | None = None
        self._lock = threading.Lock()

    def start(self, seconds_left: float | None = None) -> None:
        """Start the clock. Waiting for the approval of the script does not count.

        Args:
            seconds_left: of the turn that runs the script, if that is limited.
        """
        self._began = time.monotonic()
        self._until = inf if seconds_left is None else self._before + seconds_left

    @property
    def seconds(self) -> float:
        """Seconds of running, without the time that a person took to decide."""
        if self._began is None:
            return self._before
        now = self._ended or time.monotonic()
        since = self._waiting_since
        waiting = now - since if since is not None else 0.0
        return self._before + now - self._began - self._waited - waiting

    @property
    def is_waiting(self) -> bool:
        """True while the script waits for a decision."""
        return self._waiting_since is not None

    @property
    def is_over_time(self) -> bool:
        """True if the time limit of the script or of its turn is over."""
        limit = self.limits.seconds
        return self.seconds > min(inf if limit is None else limit, self._until)

    def go_on(self, *, calls: int, result_bytes: int, seconds: float) -> None:
        """Continue counting where another process stopped."""
        self.calls, self.result_bytes, self._before = calls, result_bytes, seconds

    def end(self) -> None:
        """Stop the clock."""
        self._ended = self._ended or time.monotonic()

    @whole_context
    def waiting(self) -> Iterator[None]:
        """Stop the clock while a person is asked."""
        self._waiting_since = time.monotonic()
        try:
            yield
        finally:
            self._waited += time.monotonic() - self._waiting_since
            self._waiting_since = None

    @property
    def depth(self) -> int:
        """The number of nested calls that this thread is in."""
        return getattr(self._nesting, "depth", 0)

    @depth.setter
    def depth(self, depth: int) -> None:
        """Enter or leave a nested call."""
        self._nesting.depth = depth

    def refusal(self) -> str:
        """Count a call that may begin; otherwise return why it may not."""
        limits = self.limits
        with self._lock:
            if limits.calls is not None and self.calls >= limits.calls:
                return f"the script has reached its limit of {counted(limits.calls, 'tool call')}"
            if limits.result_bytes is not None and self.result_bytes > limits.result_bytes:
                return f"the script has reached its limit of {limits.result_bytes:,} bytes of results"
            if self.depth >= limits.depth:
                return f"in a script, tools may call tools at most {counted(limits.depth, 'level')} deep"
            self.calls += 1
            return ""
