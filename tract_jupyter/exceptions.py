"""All errors of the package, as one tree.

TractError
├── ContentError              invalid content for a commit
│   └── AttachmentError       a file cannot be attached
│       └── WorkspaceError    ... because it is outside the workspace
├── CommitNotFoundError       no commit has this hash or prefix
├── AmbiguousPrefixError      several commits match the prefix
├── EditTargetError           an edit names no commit that can be edited
├── BranchError
│   ├── BranchExistsError
│   ├── BranchNotFoundError
│   ├── BranchMovedError      another process or thread moved it first
│   ├── UnmergedBranchError   deleting it would lose commits
│   ├── DetachedHeadError     HEAD is detached: no current branch
│   └── InvalidBranchNameError
├── HistoryError              merge, rebase, import, compress, undo
│   ├── MergeConflictError    conflicts need a decision
│   ├── NothingToMergeError   the other branch has nothing new
│   └── CompressionError      the range cannot be compressed
├── BudgetExceededError       the context would be larger than its budget
├── SessionError              several tracts in one store, agents and their children
│   ├── UnknownTractError     no tract or agent has this id
│   └── TractExistsError      the id is taken
├── StoreError                the database itself
│   ├── StoreLockedError      timeout: another process holds the lock
│   ├── StoreReadOnlyError    it is read-only
│   ├── StoreCorruptError     it is damaged, or not a tract store
│   ├── StoreReferenceError   a referenced row was removed
│   ├── StoreVersionError     another version of tract_jupyter wrote it
│   └── StoreClosedError      it was closed
├── OperationError            dynamic operations; all are `ValueError` too
│   ├── SpecError             the definition is invalid; names the place
│   ├── OperationExistsError  the name is taken
│   ├── UnknownOperationError no active operation has this name
│   └── ParameterError        invalid fields or arguments; lists every problem
├── PendingError
│   ├── PendingStateError     the state does not allow this
│   │   └── DecidedFirstError another decision came first
│   ├── FingerprintError      the code differs from the approved code
│   ├── CodeDecisionError     only the user may approve this, not code
│   ├── RejectedError         the request was rejected; says by whom and why
│   ├── UndecidedError        no decision yet; the request waits in the inbox
│   │   ├── NobodyToAskError  no panel or prompt is available
│   │   └── DecisionTimeoutError  no decision in time
│   ├── GrantError            invalid change of a standing approval
│   └── LockFileError         the file of recorded decisions cannot be read or written
├── UnknownToolError          no tool has this name
├── ToolExecutionError        a tool call failed: tool, arguments, cause
│   └── ToolDeniedError       ... because it was not allowed
├── McpError                  communication with an MCP server
│   ├── McpStartError         it cannot be started or reached
│   ├── McpConnectionError    the connection was lost during a call
│   ├── McpTimeoutError       it did not answer in time; the call was cancelled
│   └── McpResultError        invalid response
├── ScriptFailedError         a script cannot run, or failed
│   ├── ScriptSyntaxError     invalid Python; names the line
│   └── ScriptRaisedError     it raised an error; has the result so far
├── SandboxError              an action failed in the sandbox; its changes were discarded
│   └── NoSandboxError        the sandbox is not installed
├── RehearsalError            no rehearsal is possible, or its effects cannot be kept or undone
├── LLMError                  requests to a language model
│   ├── LLMConfigError        no client is configured, or it is invalid
│   ├── LLMBudgetError        the request could exceed the budget, so it was not sent
│   ├── LLMResponseError      the response is not a valid reply
│   └── LLMRequestError       the provider sent no complete reply; has a code
├── CassetteError             a cassette cannot be used, or does not have the request
├── OrchestratorError         an orchestrator cannot run, or its settings cannot be used
├── AgentError                an agent cannot be made, changed or called; has a code
├── OutsideAgentError         an outside agent cannot be started or used, or it left
├── RunError                  a main call with its operations
│   ├── PlanError             operations cannot be planned; has a code
│   ├── ProfileError          a profile is invalid; lists every problem
│   ├── RunFailedError        the run failed or was aborted; has the run
│   ├── TemplateError         a template cannot be parsed or rendered; has the line
│   ├── UnknownRunError       no run has this id
│   └── UnknownProfileError   no profile has this name
├── TrustError                the user's signing secret cannot be read or created
└── AdminLimitError           the administrator's limits do not allow it, or their file has an error

Each message states the problem, its reason and a remedy.
"""

from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import brief_repr, cut, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_FOREIGN: Final = (str(Path(__file__).parent), os.path.dirname(os.__file__))  # noqa: PTH120 # as frames name it
_MOST_SHOWN: Final = 120  # characters of the arguments of a failed call


def own_lines(error: BaseException) -> list[str]:
    """Return the traceback lines of cells and actions, without frames of this package and of libraries."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_FOREIGN)]
    lines = [f for f in frames if "site-packages" not in f.filename]
    return [f"{_place(f)}, line {f.lineno}: {f.line or ''}" for f in lines]


def _place(frame: traceback.FrameSummary) -> str:
    if frame.filename.startswith("<action:"):
        return frame.filename
    return "cell" if frame.name == "<module>" else frame.name


class TractError(Exception):
    """Base of all errors that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes: an `__init__` may take other arguments than the message."""
        portable = {
            name: _portable(value) for name, value in vars(self).items() if name != "_render_traceback_"
        }
        return _rebuilt, (type(self), tuple(map(_portable, self.args)), portable)

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython shows: lines of the user's code, then the message."""
        cause = self.__cause__
        before = [*own_lines(cause), f"{type(cause).__name__}: {cause}", ""] if cause is not None else []
        return [printable(line) for line in (*before, *own_lines(self), f"{type(self).__name__}: {self}")]


def _rebuilt(kind: type[TractError], args: tuple[Any, ...], attributes: dict[str, Any]) -> TractError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


def _portable(value: Any) -> Any:
    """Return a value, or its short text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301 # our own bytes
    except Exception:  # noqa: BLE001 # an object may raise anything
        return brief_repr(value)
    return value


def in_one_line(error: BaseException, line: str, *, with_code: bool = False) -> None:
    """Make IPython show an exception as one line. `with_code` adds lines of the user's code before it."""
    error._render_traceback_ = lambda: [*(own_lines(error) if with_code else ()), printable(line)]  # type: ignore[attr-defined] # IPython's


class ContentError(TractError, ValueError):
    """Invalid content: an unknown type, missing or wrong fields, or text that is not valid Unicode."""


class AttachmentError(ContentError):
    """A file cannot be attached: it is missing, too large, not a file, or of an unsupported type."""


class WorkspaceError(AttachmentError):
    """A file may not be read because it is outside the workspace."""


class CommitNotFoundError(TractError, LookupError):
    """No commit of this tract has the given hash, prefix or branch name."""


class AmbiguousPrefixError(TractError, LookupError):
    """More than one commit of this tract begins with the given prefix."""


class HistoryError(TractError, ValueError):
    """This change of the history is not possible. Nothing was changed."""


class MergeConflictError(HistoryError):
    """Both sides of a merge changed the same message. `conflicts` lists the decisions to make."""

    def __init__(self, message: str, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


class NothingToMergeError(HistoryError):
    """The current branch already contains the other one."""


class CompressionError(HistoryError):
    """This range cannot be compressed."""


class BudgetExceededError(TractError, ValueError):
    """The context would exceed its budget. Nothing was committed."""


class SessionError(TractError, ValueError):
    """A session cannot do this. Nothing was changed."""


class UnknownTractError(SessionError, LookupError):
    """No tract or agent of the store has this id."""


class TractExistsError(SessionError):
    """A tract of the store already has this id."""


class EditTargetError(TractError, ValueError):
    """An edit must name an existing commit of the same tract that is not itself an edit."""


class BranchError(TractError, ValueError):
    """Base class of errors about branches."""


class BranchExistsError(BranchError):
    """A branch with this name already exists."""


class BranchMovedError(BranchError):
    """Another process or thread moved the branch. Nothing was changed."""


class UnmergedBranchError(BranchError):
    """Deleting the branch would leave commits that no branch holds."""


class DetachedHeadError(BranchError):
    """HEAD names a commit, and there is no current branch to move."""


class BranchNotFoundError(BranchError, LookupError):
    """No branch has this name."""


class InvalidBranchNameError(BranchError):
    """The branch name is invalid; the rules are git's."""


class StoreError(TractError):
    """The database failed. Nothing was written."""


class StoreLockedError(StoreError):
    """The wait for another process's lock timed out."""


class StoreReadOnlyError(StoreError):
    """The database file or its folder cannot be written."""


class StoreCorruptError(StoreError):
    """The file is damaged, or is not a tract store."""


class StoreReferenceError(StoreError):
    """A row refers to a row that does not exist."""


class StoreVersionError(StoreError):
    """Another version of tract_jupyter wrote the store. This version cannot read it."""


class StoreClosedError(StoreError):
    """The tract was closed; open it again."""


class OperationError(TractError, ValueError):
    """Base class of errors about dynamic operations."""


class SpecError(OperationError):
    """The definition of an operation is invalid.

    Attributes:
        line: 1-based line in the author's text, if known: of the action's code if `action` is set, else of the
            definition.
        action: the invalid action, if the error is in one.
    """

    def __init__(self, message: str, *, line: int | None = None, action: str | None = None) -> None:
        place = "" if action is None else f"action {action!r}"
        if line is not None:
            place = f"{place}, line {line}" if place else f"line {line}"
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.line = line
        self.action = action


class OperationExistsError(OperationError):
    """The name belongs to a built-in or an active operation."""


class UnknownOperationError(OperationError, LookupError):
    """No active operation has this name."""


class ParameterError(OperationError, TypeError):
    """Values do not fit the declared parameters.

    Attributes:
        problems: one sentence for each problem.
    """

    def __init__(self, subject: str, problems: Sequence[str]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        listed = problems[0] if len(problems) == 1 else "".join(f"\n  - {p}" for p in problems)
        super().__init__(f"{subject}: {listed}")


class PendingError(TractError):
    """Base class of errors about requests and their decisions."""


class PendingStateError(PendingError, RuntimeError):
    """The state of the pending does not allow this. The first decision counts."""


class DecidedFirstError(PendingStateError):
    """Another decision came first, or another process runs the action. The pending has the details."""


class FingerprintError(PendingError):
    """The code differs from the approved code, so it does not run."""


class CodeDecisionError(PendingError):
    """Code may not approve this, or must name its fingerprint. Nothing was decided."""


class RejectedError(PendingError):
    """The request was rejected. `pending` has the reason, and the request."""

    def __init__(self, message: str, pending: Any = None) -> None:
        super().__init__(message)
        self.pending = pending


class UndecidedError(PendingError):
    """The request has no decision yet. `pending` waits in the inbox."""

    def __init__(self, message: str, pending: Any = None) -> None:
        super().__init__(message)
        self.pending = pending


class NobodyToAskError(UndecidedError):
    """A decision is needed, but no panel or prompt is available."""


class DecisionTimeoutError(UndecidedError):
    """No decision came in time, and the operation stops then (`on_timeout="stop"`)."""


class GrantError(PendingError):
    """A standing approval cannot be created or revoked like this. Nothing was changed."""


class LockFileError(PendingError):
    """The file of recorded decisions cannot be read or written. None of its decisions applies."""


class UnknownToolError(TractError, LookupError):
    """The tool is unknown here. Calling an unknown tool is a `ToolExecutionError`."""


class ToolExecutionError(TractError):
    """A tool call failed.

    Attributes:
        tool: the tool's name.
        arguments: the arguments of the call.
        reason: the reason as text; `__cause__` is the exception behind it, if any.
    """

    def __init__(self, tool: str, arguments: Mapping[str, Any], reason: str) -> None:
        self.tool = tool
        self.arguments = dict(arguments)
        self.reason = reason
        shown = cut(", ".join(f"{key}={brief_repr(value)}" for key, value in arguments.items()), _MOST_SHOWN)
        super().__init__(f"{tool}({shown}) failed: {reason}")


class ToolDeniedError(ToolExecutionError):
    """The call was not allowed: no permission, or the user rejected it. See `reason`."""


class McpError(TractError):
    """Base class of errors about MCP servers. An error that a tool reports is a `ToolExecutionError`."""


class McpStartError(McpError):
    """The server cannot be started or reached, or was not ready in time. It was stopped."""


class McpConnectionError(McpError):
    """The connection was lost during a call, which may have had an effect. The next call reconnects."""


class McpTimeoutError(McpError):
    """The server did not answer in time. The call was cancelled; the connection stays usable."""


class McpResultError(McpError):
    """The server's response is too large, or violates MCP."""


class ScriptFailedError(TractError):
    """A script cannot be run, or failed."""


class ScriptSyntaxError(ScriptFailedError, ValueError):
    """The code is not valid Python. `line` is the 1-based line of the script, or None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line

    @classmethod
    def of(cls, error: BaseException) -> ScriptSyntaxError:
        """Return the parser's message as an error with the line."""
        if not isinstance(error, SyntaxError):
            return cls(f"the script cannot be parsed: {error or type(error).__name__}")
        line, text = error.lineno, (error.text or "").strip()
        place = f"line {line}: {text!r}: " if line and text else ""
        magic = (
            " A script is plain Python; magics and ! belong to cells." if text[:1] in {"%", "!", "?"} else ""
        )
        return cls(f"the script is not valid Python: {place}{error.msg}.{magic}", line)


class ScriptRaisedError(ScriptFailedError):
    """A script raised an error. `result` has its work so far, `traceback` the lines of the script."""

    def __init__(self, message: str, result: Any, traceback_text: str = "") -> None:
        super().__init__(message)
        self.result = result
        self.traceback = traceback_text

    def _render_traceback_(self) -> list[str]:
        return printable(self.traceback).splitlines() or [printable(str(self))]


class SandboxError(TractError):
    """An action failed in the sandbox. Its changes were discarded.

    `traceback` has the lines of the action.
    """

    def __init__(self, message: str, traceback_text: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback_text

    def _render_traceback_(self) -> list[str]:
        return [*printable(self.traceback).splitlines(), *super()._render_traceback_()]


class NoSandboxError(SandboxError):
    """The sandbox is not installed. Install it with `pip install 'tract_jupyter[sandbox]'`."""


class RehearsalError(TractError):
    """No rehearsal is possible, or its effects cannot be kept or undone."""


class LLMError(TractError):
    """Base class of errors about requests to a language model. A client's own exceptions are not wrapped."""


class LLMConfigError(LLMError):
    """No language model is configured, or the configured object is not a client."""


class LLMBudgetError(LLMError):
    """The request could exceed the session's budget, so it was not sent. The message says how to continue.

    Attributes:
        failed_tries: the usage of earlier attempts, if this was a retry; as in `LLMRequestError`.
    """

    failed_tries: Sequence[Mapping[str, Any]] = ()


class LLMResponseError(LLMError):
    """The client's response is not a valid reply. Nothing was committed."""


class LLMRequestError(LLMError):
    """The provider sent no reply, or an incomplete one.

    Attributes:
        code: `rate_limited`, `timeout`, `provider_error` or `cancelled`.
        status: the HTTP status, if there was a response.
        retry_after: seconds to wait, if the provider names them.
        is_transient: True if a retry may succeed.
        reason: the provider's reason: `context_too_long`, `authentication`, `not_found`, `overloaded`,
            `out_of_credit` or `invalid_request`; None if unknown.
        partial: the received part of the reply, as a response with `finish_reason` None; None if there is none.
        reported: the usage that the provider reported, as `usage` and `provider_usage` of a response; None if it
            reported none.
        failed_tries: the same for each earlier attempt, if the request was retried.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "provider_error",
        status: int | None = None,
        retry_after: float | None = None,
        is_transient: bool = False,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.is_transient = is_transient
        self.reason = reason
        self.partial: dict[str, Any] | None = None
        self.reported: dict[str, Any] | None = None
        self.failed_tries: list[dict[str, Any]] = []


class CassetteError(TractError):
    """A cassette cannot be written or read, or it does not have the request.

    Attributes:
        differences: the fields in which the request differs from the recorded one, each with both values.
    """

    def __init__(self, message: str, *, differences: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


class OrchestratorError(TractError, ValueError):
    """An orchestrator cannot run: it has no model, it is already running, or its settings are invalid."""


class AgentError(TractError, ValueError):
    """An agent cannot be made, changed or called. The message may quote a model; it is safe to display.

    Attributes:
        code: the kind of problem: `bad_name`, `unknown_tool`, `limit`, ...
        allowed: the valid values, if they are a list.
    """

    def __init__(self, code: str, message: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(printable(message))
        self.code = code
        self.allowed = tuple(allowed)


class OutsideAgentError(TractError):
    """An outside agent cannot be started or used, or it left. The message may quote it, and is safe to display."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class RunError(TractError):
    """Base class of errors about runs: a model request with operations before and after it."""


class PlanError(RunError):
    """Operations cannot be planned. `code` is a `runs.terms.PlanErrorCode`; `operations` names the affected ones."""

    def __init__(self, code: str, message: str, operations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.operations = tuple(operations)


def _without_field(where: str, message: str) -> str:
    place, comma, field = where.rpartition(", ")
    return place if comma and message.startswith(f"{field} ") else where


class ProfileError(RunError):
    """A profile is invalid. `problems` lists all problems as `(rule, place, message)`."""

    def __init__(self, problems: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(
            "\n".join(f"{_without_field(where, message)}: {message}" for _, where, message in problems)
        )
        self.problems = tuple(problems)


class RunFailedError(RunError):
    """The run failed or was aborted. `run` has its state at that point."""

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


class TemplateError(RunError):
    """A template cannot be parsed or rendered. `line` is 1-based, or None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line

    def at(self, line: int) -> TemplateError:
        """Return this error with a line, if it has none."""
        return self if self.line is not None else TemplateError(self.message, line)


class UnknownRunError(RunError):
    """No run has this id."""


class UnknownProfileError(RunError):
    """No operation profile has this name."""


class TrustError(TractError):
    """The secret that signs approvals cannot be read. Nothing can be signed or verified."""


class AdminLimitError(TractError):
    """The administrator's limits do not allow this, or their file cannot be used. Nothing was done."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` with the closest known name, or an empty string.

    Only names with the same first or last letter count: `nope` is not a misspelling of `open`.
    """
    ends = name[:1].lower(), name[-1:].lower()
    alike = [
        candidate
        for candidate in known
        if candidate[:1].lower() == ends[0] or candidate[-1:].lower() == ends[1]
    ]
    import difflib  # only errors need it

    lower = {candidate.lower(): candidate for candidate in alike}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return f" Did you mean {lower[close[0]]!r}?" if close else ""
