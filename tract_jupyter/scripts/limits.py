"""Limits of a script, and the meter of its use."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import inf

from tract_jupyter.exceptions import ContentError
from tract_jupyter.loop import Clock
from tract_jupyter.models import counted


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """The limits of one script; None means no limit.

    Attributes:
        calls: Tool calls.
        seconds: Running time. Waiting for the user's decision does not count.
        result_bytes: The approximate size of all results as JSON.
        output_characters: Characters of the kept output, half from the beginning and half from the end.
        depth: Nested calls of tools that call tools.
        memory: Bytes in the sandbox. The kernel's memory has no limit.
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
            if not is_number or not 0 < value < inf:
                raise ContentError(f"a script's limit {name} must be a positive number, got {value!r}")


class ScriptMeter:
    """The meter of one script. Any thread may read it while the script runs.

    Attributes:
        clock: The clock of the running time. Waiting for the approval of the script does not count.
    """

    def __init__(self, limits: ScriptLimits) -> None:
        self.limits = limits
        self.calls = 0
        self.result_bytes = 0
        self.clock = Clock()
        self._nesting = threading.local()  # parallel calls are not nested
        self._until = inf
        self._lock = threading.Lock()

    def start(self, seconds_left: float | None = None) -> None:
        """Start the clock.

        Args:
            seconds_left: The rest of the turn's time limit, if it has one.
        """
        self._until = inf if seconds_left is None else self.clock.seconds + seconds_left
        self.clock.start()

    @property
    def is_over_time(self) -> bool:
        """True if the time of the script or of its turn is over."""
        limit = self.limits.seconds
        return self.clock.seconds > min(inf if limit is None else limit, self._until)

    def go_on(self, *, calls: int, result_bytes: int, seconds: float) -> None:
        """Continue the counts of another process."""
        self.calls, self.result_bytes, self.clock = calls, result_bytes, Clock(seconds)

    @property
    def depth(self) -> int:
        """The nesting depth of this thread's calls."""
        return getattr(self._nesting, "depth", 0)

    @depth.setter
    def depth(self, depth: int) -> None:
        """Enter or leave a nested call."""
        self._nesting.depth = depth

    def refusal(self) -> str:
        """Count a call if it may begin. Otherwise return the reason for the refusal."""
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
