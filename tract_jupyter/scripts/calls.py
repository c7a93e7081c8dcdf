"""The tool calls of one script: counted, bounded, recorded with the line that makes them."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections import deque
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import UndecidedError
from tract_jupyter.models.text import safe_repr
from tract_jupyter.review.dispatch import checking
from tract_jupyter.review.source import code_range, origins
from tract_jupyter.scripts.result import ScriptCall
from tract_jupyter.scripts.stopper import ScriptPaused
from tract_jupyter.storage.interrupts import whole_context
from tract_jupyter.toolkit.calling import current_profile, within
from tract_jupyter.toolkit.results import Savings, ToolResult, rough_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from tract_jupyter.hooks.firing import ActionChoice
    from tract_jupyter.review.request import ValueRow
    from tract_jupyter.scripts.call_log import CallLog
    from tract_jupyter.scripts.limits import Meter
    from tract_jupyter.scripts.script import Script
    from tract_jupyter.scripts.stopper import Stopper
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor


_KEPT = 10_000
_FORKED = "the script forked; calls are made by the process that it began in"
_SHOWN = 500  # characters of the arguments that a record keeps


class ScriptCalls:
    """The caller of a script's tools: a `toolkit.calling.Caller`.

    Attributes:
        records: the newest 10,000.
        profile: what the calls are bound to: that of whoever runs the script.
    """

    def __init__(self, script: Script, meter: Meter, stopper: Stopper) -> None:
        self.actor = script.actor
        self.meter = meter
        self._stopper = stopper
        self.records: deque[ScriptCall] = deque(maxlen=_KEPT)
        self.count = 0
        self._filename = script.filename
        self.profile = current_profile()
        self._ended = ""
        self._process = os.getpid()
        self.pause: Callable[[ToolDefinition, dict[str, Any]], Any] | None = None
        """Saves the program with the question about a call, where that can be done."""
        self.log: CallLog | None = None
        """Answers calls that an earlier run has made, and keeps those of this one, where that is done."""
        self.argument_size = 0
        self.result_size = 0
        self._replayed = 0
        self._lock = threading.Lock()

    def go_on(self, count: int, argument_size: int, result_size: int) -> None:
        """Continue counting where another process stopped; the call that it stopped at is counted again."""
        self.count, self.argument_size, self.result_size = count, argument_size, result_size

    def end(self) -> None:
        """Refuse all calls from now on, such as those of threads that outlive their script."""
        self._ended = "the script has ended"

    def execute(
        self,
        executor: ToolExecutor,
        name: str,
        arguments: Mapping[str, Any],
        *,
        line: int | None = None,
        is_approved: bool | ActionChoice = False,
    ) -> ToolResult:
        """Make a call within the limits; a refusal comes back as an error.

        `line` is that of the script; it is looked for on this thread's stack if left out. `is_approved`: it was
        decided about already.
        """
        barred = self._ended or (_FORKED if os.getpid() != self._process else "")
        refusal = barred or self.meter.refusal()
        if refusal:
            result, seconds = ToolResult(name, success=False, error=refusal, denied=bool(barred)), 0.0
        else:
            with self._stopper.shielded():
                result, seconds = self._made(executor, name, arguments, is_approved=is_approved)
        self._record(name, arguments, result, seconds, self._line() if line is None else line)
        return result

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> Any:
        """Return a question that pauses the script; None if it cannot pause here, as in a tool that calls tools."""
        return None if self.pause is None or self.meter.depth > 1 else self.pause(tool, values)

    @whole_context
    def waiting(self, pending: Any) -> Iterator[None]:
        """Stop the script's clock while a person is asked; the wait can be interrupted.

        Raises:
            ScriptPaused: nobody can be asked now, and the script can wait for that.
        """
        if not pending.origins:
            pending.origins = self._origins()
        if self.log is not None:
            self.log.save()  # it may take long, and the process may end meanwhile
        try:
            with self.meter.waiting(), checking(self._stopper.check):
                yield
        except UndecidedError as error:
            if self.pause is not None and pending.resumable:
                raise ScriptPaused(pending) from error
            raise

    def savings(self, script_size: int, output_size: int) -> Savings:
        """Estimate what the calls would have cost one by one, without those that an earlier run counted."""
        return Savings(
            self.count - self._replayed, self.argument_size, self.result_size, script_size, output_size
        )

    def _made(
        self,
        executor: ToolExecutor,
        name: str,
        arguments: Mapping[str, Any],
        *,
        is_approved: bool | ActionChoice,
    ) -> tuple[ToolResult, float]:
        started = perf_counter()
        # what a tool calls itself is a part of its own call
        log = self.log if self.meter.depth == 0 else None
        call = executor.execute if log is None else partial(log.call, executor)
        with self.meter.nested(), within(self):
            result = call(name, arguments, actor=self.actor, profile=self.profile, is_approved=is_approved)
        return result, perf_counter() - started

    def _record(
        self, name: str, arguments: Mapping[str, Any], result: ToolResult, seconds: float, line: int
    ) -> None:
        argument_size, result_size = rough_size(arguments), rough_size(result.output)
        shown = _shown(arguments)
        with self._lock:  # a script may call from several threads
            self.count += 1
            self.meter.result_bytes += result_size
            if result.replayed:
                self._replayed += 1
            else:
                self.argument_size += argument_size
                self.result_size += result_size
            self.records.append(
                ScriptCall(
                    name, shown, line, result.success, result.error, seconds, argument_size, result_size,
                    result.replayed,
                )
            )  # fmt: skip

    def _line(self) -> int:
        frame = self._frame()
        return frame.f_lineno if frame is not None else 0

    def _frame(self) -> FrameType | None:
        """Return the innermost frame of the script on this thread's stack."""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 # the way to a caller's line
        while frame is not None and frame.f_code.co_filename != self._filename:
            frame = frame.f_back
        return frame

    def _origins(self) -> tuple[ValueRow, ...]:
        """Return where the values of the current call come from, if the script is on this stack."""
        frame = self._frame()
        call = code_range(frame) if frame is not None else None
        if frame is None or call is None:
            return ()
        code = "".join(linecache.getlines(self._filename))
        return origins(code, call, {**frame.f_globals, **frame.f_locals})


def _shown(arguments: Mapping[str, Any]) -> str:
    """Abbreviate the arguments. Values are cut first: converting a large one to text takes long."""
    parts = []
    for name, value in arguments.items():
        kind = type(value)
        if kind is str:
            parts.append(f"{name}={value[:80]!r}")
        elif kind in {int, float, bool, type(None)}:
            parts.append(f"{name}={safe_repr(value)[:80]}")
        else:
            parts.append(f"{name}=<{kind.__name__}>")
    return ", ".join(parts)[:_SHOWN]
