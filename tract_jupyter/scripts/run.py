"""One run of a script while it goes on: its limits, its output, its tool calls, its state."""

from __future__ import annotations

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
from tract_jupyter.scripts.limits import ScriptMeter
from tract_jupyter.scripts.result import ScriptCall, ScriptError, ScriptOutput, ScriptResult, ScriptStatus
from tract_jupyter.scripts.stopper import ScriptPaused, Stopper
from tract_jupyter.storage import whole_context
from tract_jupyter.toolkit import (
    DISCOVERY,
    Savings,
    ToolResult,
    call_context,
    reset_context,
    rough_size,
    set_context,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from tract_jupyter.review import ValueRow
    from tract_jupyter.scripts.call_log import CallLog
    from tract_jupyter.scripts.limits import ScriptLimits
    from tract_jupyter.scripts.result import OutputKind
    from tract_jupyter.scripts.script import Script
    from tract_jupyter.toolkit import Approval, Exchanged, ToolDefinition, ToolExecutor


_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")  # a progress bar writes the same line again and again


class OutputCapture:
    """A collector of outputs, which any thread may use.

    Args:
        most: characters that are kept.
        live: is given each piece as it comes, as long as the beginning lasts; what follows is told at the end.

    Attributes:
        watch: gets each piece as it comes; None for nothing.
    """

    def __init__(self, most: int, live: Callable[[OutputKind, str], object] | None = None) -> None:
        self._half = max(most // 2, 1)
        self._live = live
        self.watch: Callable[[OutputKind, str], object] | None = None
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
                self._add_to_head(ScriptOutput(kind, first))
            if rest:
                self._add_to_tail(ScriptOutput(kind, rest[-self._half :]), len(rest))
        if first and self._live is not None:
            self._live(kind, first)
        if self.watch is not None:
            self.watch(kind, text)

    def show(self, kind: OutputKind, text: str, data: dict[str, Any]) -> bool:
        """Add something displayed; return True if it may be passed on to the screen."""
        data_size = sum(len(value) for value in data.values() if isinstance(value, str | bytes))
        size = len(text) + data_size
        with self._lock:
            if size <= self._half - self._head_size:
                self._head.append(ScriptOutput(kind, text, data))
                self._head_size += size
                return True
            self._add_to_tail(ScriptOutput(kind, text[: self._half]), size)
            return False

    def outputs(self) -> tuple[ScriptOutput, ...]:
        """Return what was kept, in order, with a note in the place of what was left out."""
        with self._lock:
            between = (ScriptOutput("stderr", left_out(self._left_out)),) if self._left_out else ()
            return (*self._head, *between, *self._tail)

    def rest(self) -> tuple[ScriptOutput, ...]:
        """Return what did not go to the screen."""
        outputs = self.outputs()
        return outputs[len(self._head) :]

    def _add_to_head(self, output: ScriptOutput) -> None:
        self._head_size += _append(self._head, output)

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


_MERGED = 4_096  # pieces grow to this length, so that neither many pieces nor long copies cost much


def _append(pieces: list[ScriptOutput] | deque[ScriptOutput], output: ScriptOutput) -> int:
    """Add an output, joining it to the last one of the same kind; return by how much the pieces grew."""
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

    Args:
        script: what runs.
        backend: `kernel` or `sandbox`.
        notebook_id: whose variables it sees.
        limits: what it may take.
        exchanged: counts what its calls would have sent a model.
        live: is given what it prints, as it comes.
        author: who wrote it.
        anew: make all calls, also those that an earlier run has made.
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
        """How it ended; None while it runs."""
        self.value: Any = None
        self.error: ScriptError | None = None
        self.pending_id = ""
        self.notes: tuple[str, ...] = ()

    def result(self) -> ScriptResult:
        """Return the result, without what it saved."""
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
        )


_KEPT = 10_000
_FORKED = "the script forked; calls are made by the process that it began in"
_SHOWN = 500  # characters of the arguments that a record keeps


class ScriptCalls:
    """The caller of a script's tools: a `toolkit.callers.Caller`.

    Attributes:
        records: the newest 10,000.
        profile: what the calls are bound to: that of whoever runs the script.
        shown: the profile that whoever runs the script is shown; None for a person.
        exchanged: what the calls would have sent a model, without those that an earlier run has made.
        executor: that of the tract whose script it is.
    """

    executor: ToolExecutor | None = None

    def __init__(self, script: Script, meter: ScriptMeter, stopper: Stopper, exchanged: Exchanged) -> None:
        self.actor = script.actor
        self.meter = meter
        self._stopper = stopper
        self.records: deque[ScriptCall] = deque(maxlen=_KEPT)
        self.count = 0
        self.filename = script.filename
        self.shown = call_context().profile
        self.profile = None if self.shown is None else self.shown.in_code
        self._ended = ""
        self._process = os.getpid()
        self.pause: Callable[[ToolDefinition, dict[str, Any]], Any] | None = None
        """Saves the program with the question about a call, where that can be done."""
        self.log: CallLog | None = None
        """Answers calls that an earlier run has made, and keeps those of this one, where that is done."""
        self.exchanged = exchanged
        self._lock = threading.Lock()

    def end(self) -> None:
        """Refuse all calls from now on, such as those of threads that outlive their script."""
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
        """Make a call within the limits; a refusal comes back as an error.

        `line` is that of the script; it is looked for on this thread's stack if left out. `approval`: of this call,
        if it was decided about already.
        """
        barred = (
            self._ended or (_FORKED if os.getpid() != self._process else "") or self._reaches_up(executor)
        )
        refusal = barred or self.meter.refusal()
        if refusal:
            result, seconds = ToolResult(name, success=False, error=refusal, denied=bool(barred)), 0.0
        else:
            result, seconds = self._made(executor, name, arguments, approval=approval)
        self._record(name, arguments, result, seconds, self._line() if line is None else line)
        return result

    def _reaches_up(self, executor: ToolExecutor) -> str:
        """Return why a script does not call tools of a tract above; empty for others, and where its tool calls them."""
        own = self.executor
        is_above = own is not None and own is not executor and own.stands_below(executor)
        return OF_A_TRACT_ABOVE if is_above and self.meter.depth == 0 else ""

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> Any:
        """Return a question that pauses the script; None if it cannot pause here, as in a tool that calls tools."""
        return None if self.pause is None or self.meter.depth > 1 else self.pause(tool, values)

    def was_stopped_before(self, thread: threading.Thread) -> bool:
        """Return True if the script was stopped before this thread was started."""
        return self._stopper.was_stopped_before(thread)

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
            with self.meter.clock.waiting(), checking(self._stopper.check):
                yield
        except UndecidedError as error:
            if self.pause is not None and pending.resumable:
                raise ScriptPaused(pending) from error
            raise

    def _made(
        self,
        executor: ToolExecutor,
        name: str,
        arguments: Mapping[str, Any],
        *,
        approval: Approval | None,
    ) -> tuple[ToolResult, float]:
        # what a tool calls itself is a part of its own call
        log = self.log if self.meter.depth == 0 else None
        call = executor.execute if log is None else partial(log.call, executor)
        with self._under_way():
            started = perf_counter()
            result = call(name, arguments, actor=self.actor, profile=self.profile, approval=approval)
            seconds = perf_counter() - started
        return result, seconds

    @whole_context
    def _under_way(self) -> Iterator[None]:
        """Let a call come to its end, nested in those around it, and ask its questions on behalf of the script.

        One block, not one for each: every call of a script pays for it.
        """
        stopper, meter = self._stopper, self.meter
        stopper.shield()
        try:
            meter.depth += 1
            before = set_context(script=self)
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
        argument_size, result_size = rough_size(arguments), rough_size(result.output)
        shown = _shown(arguments)
        with self._lock:  # a script may call from several threads
            self.count += 1
            self.meter.result_bytes += result_size
            # what an earlier run counted; what nobody needs who is shown all tools
            if not (result.replayed or name in DISCOVERY):
                self.exchanged.add(name, arguments, result, argument_size + result_size)
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
        while frame is not None and frame.f_code.co_filename != self.filename:
            frame = frame.f_back
        return frame

    def _origins(self) -> tuple[ValueRow, ...]:
        """Return where the values of the current call come from, if the script is on this stack."""
        frame = self._frame()
        call = code_range(frame) if frame is not None else None
        if frame is None or call is None:
            return ()
        code = "".join(linecache.getlines(self.filename))
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
