"""One run of a script while it goes on: its limits, its output, its state."""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from tract_jupyter.models.text import left_out
from tract_jupyter.scripts.calls import ScriptCalls
from tract_jupyter.scripts.limits import Meter
from tract_jupyter.scripts.result import ScriptError, ScriptOutput, ScriptResult, ScriptStatus
from tract_jupyter.scripts.stopper import Stopper

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.scripts.limits import ScriptLimits
    from tract_jupyter.scripts.result import OutputKind
    from tract_jupyter.scripts.script import Script


_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")  # a progress bar writes the same line again and again


class OutputCapture:
    """A collector of outputs, which any thread may use.

    Args:
        most: characters that are kept.
        live: is given each piece as it comes, as long as the beginning lasts; what follows is told at the end.
    """

    def __init__(self, most: int, live: Callable[[OutputKind, str], object] | None = None) -> None:
        self._half = max(most // 2, 1)
        self._live = live
        self._head: list[ScriptOutput] = []
        self._head_size = 0
        self._tail: deque[ScriptOutput] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._data_size = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The number of characters of text so far, kept or not."""
        return self._head_size + self._tail_size + self._left_out - self._data_size

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

    def show(self, kind: OutputKind, text: str, data: dict[str, Any]) -> bool:
        """Add something displayed; return True if it may be passed on to the screen."""
        data_size = sum(len(value) for value in data.values() if isinstance(value, str | bytes))
        size = len(text) + data_size
        with self._lock:
            self._data_size += data_size
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
        live: Callable[[OutputKind, str], object] | None = None,
        author: str = "user",
        anew: bool = False,
    ) -> None:
        self.script = script
        self.backend = backend
        self.notebook_id = notebook_id
        self.author = author
        self.anew = anew
        self.meter = Meter(limits)
        self.stopper = Stopper()
        self.calls = ScriptCalls(script, self.meter, self.stopper)
        self.capture = OutputCapture(limits.output_characters, live)
        self.status: ScriptStatus | None = None
        """How it ended; None while it runs."""
        self.value: Any = None
        self.error: ScriptError | None = None
        self.pending_id = ""
        self.notes: tuple[str, ...] = ()

    def result(self) -> ScriptResult:
        """Return the result."""
        self.meter.end()
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
            seconds=self.meter.seconds,
            calls=tuple(self.calls.records),
            call_count=self.calls.count,
            savings=self.calls.savings(len(self.script.code), self.capture.size),
            pending_id=self.pending_id,
            notes=self.notes,
        )
