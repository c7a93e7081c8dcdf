"""One run of a script, while it runs: what it may, what it showed, how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.scripts.budget import Meter
from tract_jupyter.scripts.calls import ScriptCalls
from tract_jupyter.scripts.capture import Capture
from tract_jupyter.scripts.result import ScriptError, ScriptResult, ScriptStatus
from tract_jupyter.scripts.stopping import Stopper

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.scripts.budget import Budget
    from tract_jupyter.scripts.result import OutputKind
    from tract_jupyter.scripts.source import Script


class Run:
    """One run, from its beginning to its result.

    Args:
        script: what runs.
        backend: `kernel` or `sandbox`.
        notebook_id: whose variables it sees.
        budget: what it may take.
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
        budget: Budget,
        live: Callable[[OutputKind, str], object] | None = None,
        author: str = "user",
        anew: bool = False,
    ) -> None:
        self.script = script
        self.backend = backend
        self.notebook_id = notebook_id
        self.author = author
        self.anew = anew
        self.meter = Meter(budget)
        self.stopper = Stopper()
        self.calls = ScriptCalls(script, self.meter, self.stopper)
        self.capture = Capture(budget.output_characters, live)
        self.status: ScriptStatus | None = None
        """How it ended; None while it runs."""
        self.value: Any = None
        self.error: ScriptError | None = None
        self.pending_id = ""
        self.notes: tuple[str, ...] = ()

    def result(self) -> ScriptResult:
        """What came of it."""
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
