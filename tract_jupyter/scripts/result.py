"""The result of a script: its outputs, its calls, its value or error."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tract_jupyter.exceptions import ScriptRaisedError
from tract_jupyter.models import counted, cut_middle, one_line, safe_repr

if TYPE_CHECKING:
    from tract_jupyter.models import AttachedFile
    from tract_jupyter.rehearsal import Change, Effects
    from tract_jupyter.toolkit import Savings

_ENDED = {
    "failed": "failed",
    "timed_out": "exceeded its time limit. Allow more time (--timeout, ScriptLimits.seconds), or do less in one script",
    "interrupted": "was interrupted",
    "rejected": "was rejected",
    "paused": "waits for a decision",
}
OutputKind = Literal["stdout", "stderr", "display", "result"]
_MOST_FOR_MODELS = 10_000
_MOST_FAILED_FOR_MODELS = 20
_LONGEST_ERROR = 500
_LONGEST_NOTED = 200
_MOST_NOTED = 100  # tools, and lines
_CHARACTERS_PER_TOKEN = 4


class ScriptStatus(StrEnum):
    """The way a script ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class ScriptOutput:
    """A piece of a script's output, in order. `data` maps MIME types to contents."""

    kind: OutputKind
    text: str
    data: dict[str, Any] = field(default_factory=dict)


class ScriptCall(NamedTuple):
    """One tool call of a script.

    `result_size` is an approximate number of characters of JSON. `seconds` include the wait for the user's decision.
    `line` is the line of the script, 0 if unknown. `replayed` is True if an earlier run's result answered the call.
    """

    tool: str
    arguments: str
    line: int
    success: bool
    error: str
    seconds: float
    result_size: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class ScriptError:
    """The exception that ended a script. The traceback shows the script's own lines only."""

    name: str
    message: str
    traceback: str

    @property
    def summary(self) -> str:
        """The class and the message."""
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True)
class ScriptResult:
    """The result of one run.

    Attributes:
        script_hash: The hash of the code, 64 hex digits.
        author: The author: `user`, `agent:<id>`, ...
        backend: `kernel` or `sandbox`.
        notebook_id: The notebook with its variables; empty for the user's own namespace.
        value: The value of the last expression.
        seconds: Running time, without waits for decisions.
        call_count: The number of calls. `calls` has the newest 10,000 of them.
        savings: The tokens that separate calls would have cost; zeros without calls.
        pending_id: The pending that a paused script waits for.
        notes: Sentences for the author: calls that an earlier incomplete run answered, failures of the log, and the
            number of drawn figures.
        change: The change of variables and files, with its undo. None if there is none, or if it is unknown.
        effects: The effects of the rehearsal. None if the script was not rehearsed.
        is_kept: True if the effects of the rehearsal were kept, so the script did not run in the kernel.
        figures: The figures of an agent's script in the kernel, as PNG.
    """

    code: str
    script_hash: str
    author: str
    backend: str
    notebook_id: str
    status: ScriptStatus
    outputs: tuple[ScriptOutput, ...]
    value: Any
    error: ScriptError | None
    seconds: float
    calls: tuple[ScriptCall, ...]
    call_count: int
    savings: Savings
    pending_id: str = ""
    notes: tuple[str, ...] = ()
    change: Change | None = None
    effects: Effects | None = None
    is_kept: bool = False
    figures: tuple[AttachedFile, ...] = ()

    @property
    def succeeded(self) -> bool:
        """True if the script completed."""
        return self.status is ScriptStatus.COMPLETED

    @property
    def replayed_count(self) -> int:
        """The number of `calls` that an earlier run answered."""
        return sum(call.replayed for call in self.calls)

    @property
    def stdout(self) -> str:
        """The printed text. A long text is cut in the middle."""
        return "".join(output.text for output in self.outputs if output.kind == "stdout")

    @property
    def stderr(self) -> str:
        """The text printed to standard error."""
        return "".join(output.text for output in self.outputs if output.kind == "stderr")

    @property
    def text(self) -> str:
        """The whole output in order, and the error if there is one."""
        text = "".join(output.text for output in self.outputs)
        return text if self.error is None else f"{text}{self.error.traceback}"

    def check(self) -> None:
        """Raise an error if the script did not complete.

        Raises:
            ScriptRaisedError: The script did not complete. The error has this result.
        """
        if self.succeeded:
            return
        if self.error is not None:
            message = f"the script raised {self.error.name}: {self.error.message}"
            raise ScriptRaisedError(message, self, self.error.traceback)
        raise ScriptRaisedError(f"the script {_ENDED[self.status]}", self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result for a model: plain data of limited size. The output ends with the traceback, if any."""
        data: dict[str, Any] = {
            "status": self.status.value,
            "output": cut_middle(self.text, _MOST_FOR_MODELS),
            "tool_calls": self.call_count,
            "seconds": round(self.seconds, 3),
        }
        if self.value is not None:
            data["result"] = cut_middle(safe_repr(self.value), _MOST_FOR_MODELS)
        failed = [f"{call.tool}: {call.error}" for call in self.calls if not call.success]
        if failed:
            data["failed_calls"] = [
                cut_middle(text, _LONGEST_ERROR) for text in failed[-_MOST_FAILED_FOR_MODELS:]
            ]
        if self.savings.calls:
            data["tokens_saved"] = self.savings.saved
        if self.pending_id:
            data["waits_for"] = self.pending_id
        if self.notes:
            data["notes"] = list(self.notes)
        return data

    def to_note(self) -> dict[str, Any]:
        """Return the note about this script for the record of its tool call.

        `error` has the class and the message of the script's exception, if any. `by_tool` has calls, failures, seconds
        and approximate tokens of results by tool. `by_line` has calls and seconds by line, as texts. `one_by_one` has
        the tokens that separate calls would have sent. `effects` is a sentence about the rehearsal, `is_kept` is True
        if the script did not run in the kernel, and `is_look` is True if it has no effects.
        """
        by_tool: dict[str, list[float]] = {}
        by_line: dict[str, list[float]] = {}
        for call in self.calls:
            of_tool = by_tool.setdefault(call.tool, [0, 0, 0.0, 0])
            of_line = by_line.setdefault(str(call.line), [0, 0.0])
            sums = (1, not call.success, call.seconds, call.result_size // _CHARACTERS_PER_TOKEN)
            of_tool[:] = [round(before + more, 3) for before, more in zip(of_tool, sums, strict=True)]
            of_line[:] = [of_line[0] + 1, round(of_line[1] + call.seconds, 3)]
        error = {} if self.error is None else {"error": one_line(self.error.summary, _LONGEST_NOTED)}
        effects = (
            {}
            if self.effects is None
            else {
                "effects": one_line(self.effects.headline, _LONGEST_NOTED),
                "is_kept": self.is_kept,
                "is_look": self.effects.is_empty,
            }
        )
        return {
            "status": self.status.value,
            **effects,
            **error,
            "calls": self.call_count,
            "seconds": round(self.seconds, 3),
            "saved": self.savings.saved,
            "one_by_one": self.savings.one_by_one,
            "by_tool": dict(list(by_tool.items())[:_MOST_NOTED]),
            "by_line": dict(list(by_line.items())[:_MOST_NOTED]),
        }

    def __repr__(self) -> str:
        calls = counted(self.call_count, "tool call")
        return f"<ScriptResult {self.script_hash[:12]}: {self.status}, {calls}, {self.seconds:.2f} s>"
