"""An active run of a script: its limits, output, tool calls and state."""

from __future__ import annotations

import contextvars
import linecache
import os
import re
import sys
import threading
from collections import deque
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import UndecidedError
from tract_jupyter.models import left_out, safe_repr
from tract_jupyter.prompts import OF_A_TRACT_ABOVE, SCRIPT_ENDED
from tract_jupyter.review import checking, code_range, origins
from tract_jupyter.scripts.figures import figure_files
from tract_jupyter.scripts.limits import ScriptMeter
from tract_jupyter.scripts.result import ScriptCall, ScriptError, ScriptOutput, ScriptResult, ScriptStatus
from tract_jupyter.scripts.stopper import ScriptPaused, Stopper
from tract_jupyter.storage import protected_context
from tract_jupyter.toolkit import (
    DISCOVERY,
    NO_CALL,
    Savings,
    ToolResult,
    call_context,
    reset_context,
    rough_size,
    set_context,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

    from tract_jupyter.rehearsal import Change, Effects
    from tract_jupyter.review import ValueRow
    from tract_jupyter.scripts.call_log import CallLog
    from tract_jupyter.scripts.limits import ScriptLimits
    from tract_jupyter.scripts.result import OutputKind
    from tract_jupyter.scripts.script import Script
    from tract_jupyter.toolkit import Approval, Exchanged, ToolDefinition, ToolExecutor, ToolProfile


_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")  # a progress bar writes the same line again and again


class OutputCapture:
    """A collector of outputs, which any thread may use.

    `live` receives each piece at once, until half of the limit is used; the rest appears at the end. `watch` receives
    each piece at once, and `watch_display` each display of a rehearsal.
    """

    def __init__(self, most: int, live: Callable[[OutputKind, str], object] | None = None) -> None:
        self._half = max(most // 2, 1)
        self._live = live
        self.watch: Callable[[OutputKind, str], object] | None = None
        self.watch_display: Callable[[str, dict[str, Any]], object] | None = None
        self._head: list[ScriptOutput] = []
        self._head_size = 0
        self._tail: deque[ScriptOutput] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._lock = threading.Lock()

    def write(self, kind: OutputKind, text: str) -> None:
        """Add text to a stream."""
        if not text:
            return
        with self._lock:
            room = self._half - self._head_size
            first, rest = text[:room], text[room:]
            if first:
                self._head_size += _append(self._head, ScriptOutput(kind, first))
            if rest:
                self._add_to_tail(ScriptOutput(kind, rest[-self._half :]), len(rest))
        if first and self._live is not None:
            self._live(kind, first)
        if self.watch is not None:
            self.watch(kind, text)

    def show(self, kind: OutputKind, text: str, data: dict[str, Any]) -> bool:
        """Add displayed data; return True if the screen may show it now."""
        data_size = sum(len(value) for value in data.values() if isinstance(value, str | bytes))
        size = len(text) + data_size
        with self._lock:
            if size <= self._half - self._head_size:
                self._head.append(ScriptOutput(kind, text, data))
                self._head_size += size
                return True
            self._add_to_tail(ScriptOutput(kind, text[: self._half]), size)
            return False

    def display(self, text: str, data: dict[str, Any]) -> None:
        """Add displayed data, and pass it to the watcher."""
        self.show("display", text, data)
        if self.watch_display is not None:
            self.watch_display(text, data)

    def outputs(self) -> tuple[ScriptOutput, ...]:
        """Return the kept output in order, with a note in place of omitted output."""
        with self._lock:
            between = (ScriptOutput("stderr", left_out(self._left_out)),) if self._left_out else ()
            return (*self._head, *between, *self._tail)

    def rest(self) -> tuple[ScriptOutput, ...]:
        """Return the output that the screen has not shown."""
        outputs = self.outputs()
        return outputs[len(self._head) :]

    def _add_to_tail(self, output: ScriptOutput, size: int) -> None:
        self._left_out += size - len(output.text)
        self._tail_size += _append(self._tail, output)
        while self._tail_size > self._half:
            first = self._tail.popleft()
            surplus = min(self._tail_size - self._half, len(first.text))
            self._tail_size -= surplus
            self._left_out += surplus
            if surplus < len(first.text):
                self._tail.appendleft(ScriptOutput(first.kind, first.text[surplus:]))


_MERGED = 4_096  # the maximum length of a joined piece, a compromise between many pieces and long copies


def _append(pieces: list[ScriptOutput] | deque[ScriptOutput], output: ScriptOutput) -> int:
    """Add an output, or join it to the last piece of the same kind. Return the growth in characters."""
    last = pieces[-1] if pieces else None
    if last is None or last.kind != output.kind or last.data or len(last.text) >= _MERGED:
        pieces.append(output)
        return len(output.text)
    text = last.text + output.text
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text)
    pieces[-1] = ScriptOutput(output.kind, text)
    return len(text) - len(last.text)


class ScriptRun:
    """One run, from its beginning to its result.

    `exchanged` counts the tokens that its calls would have sent to a model. `live` receives the output at once. With
    `anew`, all calls are made again, also calls of an earlier run.
    """

    def __init__(
        self,
        script: Script,
        *,
        backend: str,
        notebook_id: str,
        limits: ScriptLimits,
        exchanged: Exchanged,
        live: Callable[[OutputKind, str], object] | None = None,
        author: str = "user",
        anew: bool = False,
    ) -> None:
        self.script = script
        self.backend = backend
        self.notebook_id = notebook_id
        self.author = author
        self.anew = anew
        self.meter = ScriptMeter(limits)
        self.stopper = Stopper()
        self.calls = ScriptCalls(script, self.meter, self.stopper, exchanged)
        self.capture = OutputCapture(limits.output_characters, live)
        self.status: ScriptStatus | None = None
        """The final status; None while the script runs."""
        self.value: Any = None
        self.error: ScriptError | None = None
        self.pending_id = ""
        self.notes: tuple[str, ...] = ()
        self.change: Change | None = None
        """The change that the script made, with its undo. None if it made none, or if it is unknown."""
        self.effects: Effects | None = None
        """The effects of its rehearsal. None if it was not rehearsed."""
        self.is_kept = False
        """True if the effects of the rehearsal are the result. The script does not run in the kernel then."""
        self.drawn: list[Any] = []
        """The open figures that it drew and that no display has shown."""
        self.figures: list[bytes] = []
        """The figures that the user saw, as PNG."""

    def result(self) -> ScriptResult:
        """Return the result, without its savings."""
        self.meter.clock.end()
        return ScriptResult(
            code=self.script.code,
            script_hash=self.script.script_hash,
            author=self.author,
            backend=self.backend,
            notebook_id=self.notebook_id,
            status=self.status or ScriptStatus.FAILED,
            outputs=self.capture.outputs(),
            value=self.value,
            error=self.error,
            seconds=self.meter.clock.seconds,
            calls=tuple(self.calls.records),
            call_count=self.calls.count,
            savings=Savings(),
            pending_id=self.pending_id,
            notes=self.notes,
            change=self.change,
            effects=self.effects,
            is_kept=self.is_kept,
            figures=figure_files(self.figures),
        )


_KEPT = 10_000
_FORKED = "the script forked; only its original process can make calls"
_SHOWN = 500  # characters of the arguments in a record


class ScriptCalls:
    """The caller of a script's tools: a `toolkit.callers.Caller`.

    `records` has the newest 10,000 calls. `profile` is the profile of the script's caller, in code; `shown` that of the
    model that runs the script. `exchanged` leaves out calls of an earlier run.
    """

    executor: ToolExecutor | None = None

    def __init__(self, script: Script, meter: ScriptMeter, stopper: Stopper, exchanged: Exchanged) -> None:
        self.actor = script.actor
        self.meter = meter
        self._stopper = stopper
        self.records: deque[ScriptCall] = deque(maxlen=_KEPT)
        self.count = 0
        self.filename = script.filename
        self.call_with(call_context().profile)
        self._ended = ""
        self._process = os.getpid()
        self._context: contextvars.Context | None = None
        self.pause: Callable[[ToolDefinition, dict[str, Any]], Any] | None = None
        """It saves the program with the request about a call; None if the backend cannot do this."""
        self.log: CallLog | None = None
        """The log that answers calls from an earlier run and stores calls of this run; None without a log."""
        self.exchanged = exchanged
        self._lock = threading.Lock()

    def call_with(self, profile: ToolProfile | None) -> None:
        """Limit the calls to the tools of a model's profile; None for all tools."""
        self.shown = profile
        self.profile = None if profile is None else profile.in_code

    def begin(self) -> None:
        """Run the calls of threads that the script starts in the context of this thread.

        Such a thread has an empty context. Without this, its calls would not count for the turn, and would not stop
        with it.
        """
        self._context = contextvars.copy_context()

    def end(self) -> None:
        """Refuse all further calls, for example from threads that outlive their script."""
        self._ended = SCRIPT_ENDED

    def execute(
        self,
        executor: ToolExecutor,
        name: str,
        arguments: Mapping[str, Any],
        *,
        line: int | None = None,
        approval: Approval | None = None,
    ) -> ToolResult:
        """Make a call within the limits. Return a refusal as an error.

        `line` is the line of the script; the default is found on this thread's stack. `approval` is an earlier approval
        of this call.
        """
        context = self._context
        if context is not None and call_context() is NO_CALL:
            make = partial(self.execute, line=line, approval=approval)
            return context.copy().run(make, executor, name, arguments)
        barred = (
            self._ended
            or (_FORKED if os.getpid() != self._process else "")
            or self._parent_call_refusal(executor)
        )
        refusal = barred or self.meter.refusal()
        if refusal:
            result, seconds = ToolResult(name, success=False, error=refusal, denied=bool(barred)), 0.0
        else:
            result, seconds = self._make(executor, name, arguments, approval=approval)
        self._record(name, arguments, result, seconds, self._line() if line is None else line)
        return result

    def _parent_call_refusal(self, executor: ToolExecutor) -> str:
        """Return the refusal if the script itself calls a tool of a parent tract; otherwise an empty text."""
        script_executor = self.executor
        is_above = (
            script_executor is not None
            and script_executor is not executor
            and script_executor.descends_from(executor)
        )
        return OF_A_TRACT_ABOVE if is_above and self.meter.depth == 0 else ""

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> Any:
        """Return a request that pauses the script; None if it cannot pause here, as in a tool that calls tools."""
        return None if self.pause is None or self.meter.depth > 1 else self.pause(tool, values)

    def was_stopped_before(self, thread: threading.Thread) -> bool:
        """Return True if the script was stopped before this thread started."""
        return self._stopper.was_stopped_before(thread)

    def paused(self) -> AbstractContextManager[object]:
        """Stop the script's clock while anything within it waits for the user."""
        return self.meter.clock.waiting()

    def on_stop(self, stop: Callable[[], object]) -> Callable[[], None]:
        """Call `stop` once when the script is stopped. Return a function that removes it."""
        return self._stopper.signal.on_set(stop)

    @protected_context
    def waiting(self, pending: Any) -> Iterator[None]:
        """Stop the script's clock during a request to the user. The wait can be interrupted.

        Raises:
            ScriptPaused: No user is available now, and the script can pause.
        """
        if not pending.origins:
            pending.origins = self._origins()
        if self.log is not None:
            self.log.save()  # the wait may be long, and the process may end
        try:
            with self.meter.clock.waiting(), checking(self._stopper.check):
                yield
        except UndecidedError as error:
            if self.pause is not None and pending.resumable:
                raise ScriptPaused(pending) from error
            raise

    def _make(
        self,
        executor: ToolExecutor,
        name: str,
        arguments: Mapping[str, Any],
        *,
        approval: Approval | None,
    ) -> tuple[ToolResult, float]:
        # nested calls of a tool are a part of the tool's own call
        log = self.log if self.meter.depth == 0 else None
        call = executor.execute if log is None else partial(log.call, executor)
        with self._shielded(executor):
            started = perf_counter()
            result = call(name, arguments, actor=self.actor, profile=self.profile, approval=approval)
            seconds = perf_counter() - started
        return result, seconds

    @protected_context
    def _shielded(self, executor: ToolExecutor) -> Iterator[None]:
        """Run a nested call to its end without interruption, with the script as the caller.

        This is one block, because every call of a script pays for it.
        """
        stopper, meter = self._stopper, self.meter
        stopper.shield()
        try:
            meter.depth += 1
            profile = call_context().profile if self.profile is None else self.profile
            before = set_context(script=self, executor=executor, profile=profile)
            try:
                yield
            finally:
                reset_context(before)
                meter.depth -= 1
        finally:
            stopper.unshield()
        stopper.check()

    def _record(
        self, name: str, arguments: Mapping[str, Any], result: ToolResult, seconds: float, line: int
    ) -> None:
        result_size = rough_size(result.output)
        short_arguments = _shown(arguments)
        with self._lock:  # a script may call from several threads
            self.count += 1
            self.meter.result_bytes += result_size
            # leave out replayed calls, and discovery calls, which a model with all tools does not need
            if not (result.replayed or name in DISCOVERY):
                self.exchanged.add(name, arguments, result, rough_size(arguments) + result_size)
            self.records.append(
                ScriptCall(
                    name, short_arguments, line, result.success, result.error, seconds, result_size,
                    result.replayed,
                )
            )  # fmt: skip

    def _line(self) -> int:
        frame = self._frame()
        return frame.f_lineno if frame is not None else 0

    def _frame(self) -> FrameType | None:
        """Return the innermost frame of the script on this thread's stack."""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 # the way to a caller's line
        while frame is not None and frame.f_code.co_filename != self.filename:
            frame = frame.f_back
        return frame

    def _origins(self) -> tuple[ValueRow, ...]:
        """Return the origins of the current call's values, if the script is on this stack."""
        frame = self._frame()
        call = code_range(frame) if frame is not None else None
        if frame is None or call is None:
            return ()
        code = "".join(linecache.getlines(self.filename))
        return origins(code, call, {**frame.f_globals, **frame.f_locals})


def _shown(arguments: Mapping[str, Any]) -> str:
    """Abbreviate the arguments. Cut values first, because converting a large value to text is slow."""
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
