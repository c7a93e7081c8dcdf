"""Every error of the package, drawn as one tree.

TractError
├── ContentError              what should be committed is not valid content
│   └── AttachmentError       a file cannot be attached: what it is, why, what to do
│       └── WorkspaceError    ... as it is outside of the workspace
├── CommitNotFoundError       no commit has this hash or prefix
├── AmbiguousPrefixError      several commits have it
├── EditTargetError           an edit names no commit that can be edited
├── BranchError
│   ├── BranchExistsError
│   ├── BranchNotFoundError
│   ├── BranchMovedError      somebody else was faster
│   ├── UnmergedBranchError   deleting it would lose commits
│   ├── DetachedHeadError     there is no current branch
│   └── InvalidBranchNameError
├── HistoryError              merge, rebase, import, compress, undo
│   ├── MergeConflictError    what both sides changed needs a decision
│   ├── NothingToMergeError   it is all there already
│   └── CompressionError      the range cannot be compressed
├── BudgetExceededError       the context would be larger than its budget
├── SessionError              several tracts in one store, agents and their children
│   ├── UnknownTractError     no tract or agent has this id
│   └── TractExistsError      the id is taken
├── StoreError                the database itself
│   ├── StoreLockedError      another process holds it for too long
│   ├── StoreReadOnlyError    it cannot be written
│   ├── StoreCorruptError     it is damaged, or no tract store at all
│   ├── StoreReferenceError   what a row refers to was removed
│   ├── StoreVersionError     another version of tract_jupyter wrote it
│   └── StoreClosedError      it was closed
├── OperationError            dynamic operations; all are `ValueError` too
│   ├── SpecError             the definition is wrong: where, and what to do
│   ├── OperationExistsError  the name is taken
│   ├── UnknownOperationError nothing of that name is active
│   └── ParameterError        fields or arguments do not fit; lists every problem
├── PendingError
│   ├── PendingStateError     it was decided already, or is not decided yet
│   │   └── DecidedFirstError somebody else was faster
│   ├── FingerprintError      what was approved is not what would run
│   ├── CodeDecisionError     a person has to approve it, not code
│   ├── RejectedError         what was asked for was turned down; tells by whom and why
│   ├── UndecidedError        nobody has decided yet; it waits in the inbox
│   │   ├── NobodyToAskError  no person can be reached
│   │   └── DecisionTimeoutError  none did in time
│   ├── GrantError            no standing approval can be given or revoked like this
│   └── LockFileError         the file of recorded decisions cannot be read or written
├── UnknownToolError          no tool has this name
├── ToolExecutionError        a tool call failed: tool, arguments, cause
│   └── ToolDeniedError       ... because it was not allowed
├── McpError                  talking to an MCP server
│   ├── McpStartError         it cannot be started or reached
│   ├── McpConnectionError    it ended, or was lost, while a call waited
│   ├── McpTimeoutError       it did not answer in time; the call was cancelled
│   └── McpResultError        what it sent cannot be used
├── ScriptFailedError         a script that cannot be run
│   ├── ScriptSyntaxError     it is not valid Python: where, and what to do
│   └── ScriptRaisedError     it did not run to its end; has the result so far
├── SandboxError              an action failed in the sandbox; nothing of it was kept
│   └── NoSandboxError        the sandbox is not installed
├── LLMError                  asking a language model
│   ├── LLMConfigError        no client is configured, or it is not a client
│   ├── LLMBudgetError        the request could exceed the budget, so it was not sent
│   ├── LLMResponseError      its response does not have the shape of a reply
│   └── LLMRequestError       the provider sent no reply; has a code
├── CassetteError             a cassette cannot be used, or what is asked now is not on it
├── OrchestratorError         an orchestrator cannot run, or its settings cannot be used
├── AgentError                an agent cannot be made, changed or called; has a code, and what would be allowed
├── RunError                  a main call with its operations
│   ├── PlanError             operations that cannot be planned; has a code
│   ├── ProfileError          a profile is wrong; lists every problem
│   ├── RunFailedError        the run failed or was aborted; has the run
│   ├── TemplateError         a text with placeholders that cannot be read or rendered; has the line
│   ├── UnknownRunError       no run has this id
│   └── UnknownProfileError   no profile has this name
└── TrustError                the user's signing secret cannot be read or made

Messages say what happened, why, and what to do.
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


def own_lines(error: BaseException) -> list[str]:
    """Return the frames of cells and actions, without ours and those of libraries."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_FOREIGN)]
    own = [f for f in frames if "site-packages" not in f.filename]
    return [f"{_place(f)}, line {f.lineno}: {f.line or ''}" for f in own]


def _place(frame: traceback.FrameSummary) -> str:
    if frame.filename.startswith("<action:"):
        return frame.filename
    return "cell" if frame.name == "<module>" else frame.name


class TractError(Exception):
    """Base of all errors that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Have it rebuilt from what it holds, as an `__init__` has other arguments than the message."""
        kept = {name: held for name, held in vars(self).items() if name != "_render_traceback_"}
        portable = {name: _portable(held) for name, held in kept.items()}
        return _rebuilt, (type(self), tuple(map(_portable, self.args)), portable)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the lines of the user's code, then the message, without our frames."""
        cause = self.__cause__
        before = [*own_lines(cause), f"{type(cause).__name__}: {cause}", ""] if cause is not None else []
        return [printable(line) for line in (*before, *own_lines(self), f"{type(self).__name__}: {self}")]


def _rebuilt(kind: type[TractError], args: tuple[Any, ...], held: dict[str, Any]) -> TractError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(held)
    return error


def _portable(held: Any) -> Any:
    """Return what an error holds, or a text about it if it cannot travel, such as a tract or a pending."""
    try:
        pickle.loads(pickle.dumps(held))  # noqa: S301 # what was dumped just here
    except Exception:  # noqa: BLE001 # whatever somebody's object raises
        return brief_repr(held)
    return held


def in_one_line(error: BaseException, line: str, *, own: bool = False) -> None:
    """Have IPython show an exception as one line, after those of the user's own code if `own`; its type stays."""
    error._render_traceback_ = lambda: [*(own_lines(error) if own else ()), printable(line)]  # type: ignore[attr-defined] # IPython's


class ContentError(TractError, ValueError):
    """Content that cannot be committed: unknown type, missing or ill-typed parts, text that is not valid Unicode."""


class AttachmentError(ContentError):
    """A file that cannot be attached: not there, no file, too large, or of a type that no model takes."""


class WorkspaceError(AttachmentError):
    """A file that may not be read, as it lies outside of the workspace: a matter of permission."""


class CommitNotFoundError(TractError, LookupError):
    """No commit of this tract has the given hash, prefix or branch name."""


class AmbiguousPrefixError(TractError, LookupError):
    """More than one commit of this tract begins with the given prefix."""


class HistoryError(TractError, ValueError):
    """A history cannot be changed in this way; nothing was."""


class MergeConflictError(HistoryError):
    """Both sides of a merge changed the same thing. `conflicts` lists what needs a decision."""

    def __init__(self, message: str, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


class NothingToMergeError(HistoryError):
    """The branch has everything of the other one already."""


class CompressionError(HistoryError):
    """This range cannot be compressed."""


class BudgetExceededError(TractError, ValueError):
    """The context would be larger than its budget; nothing was committed."""


class SessionError(TractError, ValueError):
    """The request to a session cannot be carried out; nothing was changed."""


class UnknownTractError(SessionError, LookupError):
    """No tract of the store, and no agent deployed on one, has that id."""


class TractExistsError(SessionError):
    """A tract of the store has that id already."""


class EditTargetError(TractError, ValueError):
    """An edit must name an existing commit of the same tract that is not itself an edit."""


class BranchError(TractError, ValueError):
    """Base of what can be wrong with a branch."""


class BranchExistsError(BranchError):
    """A branch of that name is there already."""


class BranchMovedError(BranchError):
    """The branch was moved by somebody else since it was read; nothing was changed."""


class UnmergedBranchError(BranchError):
    """Deleting the branch would leave commits that no branch holds."""


class DetachedHeadError(BranchError):
    """HEAD names a commit, and there is no current branch to move."""


class BranchNotFoundError(BranchError, LookupError):
    """No branch has that name."""


class InvalidBranchNameError(BranchError):
    """The branch name is invalid; the rules are git's."""


class StoreError(TractError):
    """The database could not do what was asked; nothing was written."""


class StoreLockedError(StoreError):
    """Another process has held the database for longer than we wait."""


class StoreReadOnlyError(StoreError):
    """The database file or its folder cannot be written."""


class StoreCorruptError(StoreError):
    """The file is damaged, or is not a tract store."""


class StoreReferenceError(StoreError):
    """A row refers to something that does not exist (any more)."""


class StoreVersionError(StoreError):
    """Another tract_jupyter wrote the store; this one cannot read it and must not touch it."""


class StoreClosedError(StoreError):
    """The tract was closed; open it again."""


class OperationError(TractError, ValueError):
    """Base of what can be wrong with a dynamic operation."""


class SpecError(OperationError):
    """An operation's definition is wrong.

    Attributes:
        line: 1-based line in the text the author wrote, where one is known: of the action's code if `action` is
            given, else of the whole definition.
        action: the action that is wrong, where it is one.
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
    """The operation's name is built in, or an active operation has it."""


class UnknownOperationError(OperationError, LookupError):
    """No active operation has that name."""


class ParameterError(OperationError, TypeError):
    """Values do not fit the declared parameters.

    Attributes:
        problems: one sentence for each thing wrong, all of them at once.
    """

    def __init__(self, subject: str, problems: Sequence[str]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        listed = problems[0] if len(problems) == 1 else "".join(f"\n  - {p}" for p in problems)
        super().__init__(f"{subject}: {listed}")


class PendingError(TractError):
    """Base of what can be wrong with something that awaits a decision."""


class PendingStateError(PendingError, RuntimeError):
    """The pending is not in a state that allows this; the first decision counts."""


class DecidedFirstError(PendingStateError):
    """Somebody else decided it first, or carries it out; the pending shows how."""


class FingerprintError(PendingError):
    """The code that would run is no longer what was approved, so it does not run."""


class CodeDecisionError(PendingError):
    """Code may not approve this here, or only if it says what it approves; nothing was decided."""


class RejectedError(PendingError):
    """The request was rejected. `pending` has the reason, and the request."""

    def __init__(self, message: str, pending: Any = None) -> None:
        super().__init__(message)
        self.pending = pending


class UndecidedError(PendingError):
    """A decision is needed, and nobody has made it yet. `pending` waits in the inbox."""

    def __init__(self, message: str, pending: Any = None) -> None:
        super().__init__(message)
        self.pending = pending


class NobodyToAskError(UndecidedError):
    """A decision is needed, and neither a panel nor a prompt reaches a person."""


class DecisionTimeoutError(UndecidedError):
    """Nobody decided in time, and the operation says to stop then (`on_timeout="stop"`)."""


class GrantError(PendingError):
    """A standing approval cannot be given or revoked like this; nothing was changed."""


class LockFileError(PendingError):
    """The file of recorded decisions cannot be read or written; nothing in it counts."""


class UnknownToolError(TractError, LookupError):
    """The tool is unknown here. Calling an unknown tool is a `ToolExecutionError`."""


class ToolExecutionError(TractError):
    """A tool call failed.

    Attributes:
        tool: the tool's name.
        arguments: what it was called with.
        reason: what went wrong, in words.

    The exception that caused it, if any, is `__cause__`.
    """

    def __init__(self, tool: str, arguments: Mapping[str, Any], reason: str) -> None:
        self.tool = tool
        self.arguments = dict(arguments)
        self.reason = reason
        super().__init__(f"{tool}({_shorten(self.arguments)}) failed: {reason}")


class ToolDeniedError(ToolExecutionError):
    """The call was not allowed: the actor has no permission, or a person refused, with `reason`."""


class McpError(TractError):
    """Base of what can be wrong with an MCP server. An error that a tool itself reports is a `ToolExecutionError`."""


class McpStartError(McpError):
    """The server cannot be started or reached, or was not ready in time; it was ended again."""


class McpConnectionError(McpError):
    """The connection was lost while a call waited, which may have had its effect. The next call opens a new one."""


class McpTimeoutError(McpError):
    """The server did not answer in time, so the call was cancelled; the connection can be used on."""


class McpResultError(McpError):
    """The server's response is too large, or violates MCP."""


class ScriptFailedError(TractError):
    """A script cannot be run, or failed."""


class ScriptSyntaxError(ScriptFailedError, ValueError):
    """The code is not valid Python. `line` is that of the script, from 1; None if no line is to blame."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line

    @classmethod
    def of(cls, error: BaseException) -> ScriptSyntaxError:
        """Return the parser's message as a sentence with the line."""
        if not isinstance(error, SyntaxError):
            return cls(f"the script cannot be parsed: {error or type(error).__name__}")
        line, text = error.lineno, (error.text or "").strip()
        place = f"line {line}: {text!r}: " if line and text else ""
        magic = (
            " A script is plain Python; magics and ! belong to cells." if text[:1] in {"%", "!", "?"} else ""
        )
        return cls(f"the script is not valid Python: {place}{error.msg}.{magic}", line)


class ScriptRaisedError(ScriptFailedError):
    """A script did not run to its end. `result` has what it did until then, `traceback` its own lines."""

    def __init__(self, message: str, result: Any, traceback_text: str = "") -> None:
        super().__init__(message)
        self.result = result
        self.traceback = traceback_text

    def _render_traceback_(self) -> list[str]:
        return printable(self.traceback).splitlines() or [printable(str(self))]


class SandboxError(TractError):
    """An action that runs in the sandbox failed; what it had changed was thrown away.

    `traceback` has the action's own lines.
    """

    def __init__(self, message: str, traceback_text: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback_text

    def _render_traceback_(self) -> list[str]:
        return [*printable(self.traceback).splitlines(), *super()._render_traceback_()]


class NoSandboxError(SandboxError):
    """The sandbox is not installed in this environment; `pip install 'tract_jupyter[sandbox]'`."""


class LLMError(TractError):
    """Base of what can be wrong with asking a language model. What a client raises itself stays as it is."""


class LLMConfigError(LLMError):
    """No language model is configured, or the configured object is not a client."""


class LLMBudgetError(LLMError):
    """The request could exceed what the session may spend, so it was not sent; the message says how to go on.

    Attributes:
        failed_tries: what tries before it have used, where it was not sent again; as of `LLMRequestError`.
    """

    failed_tries: Sequence[Mapping[str, Any]] = ()


class LLMResponseError(LLMError):
    """The client's response does not have the shape of a reply; nothing was committed."""


class LLMRequestError(LLMError):
    """The provider sent no reply, or not the whole of it.

    Attributes:
        code: `rate_limited`, `timeout`, `provider_error` or `cancelled`.
        status: the HTTP status, if there was an answer.
        retry_after: seconds that the provider asks to wait, if it does.
        is_transient: whether asking again may help.
        reason: what was wrong, where the provider says it: `context_too_long`, `authentication`, `not_found`,
            `overloaded`, `out_of_credit` or `invalid_request`; None if it does not.
        partial: what had come of the reply, in the shape of one, with `finish_reason` None; None if nothing had.
        reported: what the provider reported of its tokens, as `usage` and `provider_usage` of a response have it; None
            if it said nothing.
        failed_tries: the same of each try before, where the request was sent several times.
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
    """A cassette cannot be written or read, or what is asked now is not what it has.

    Attributes:
        differences: in which fields what is asked differs from what was recorded, each with both values.
    """

    def __init__(self, message: str, *, differences: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


class OrchestratorError(TractError, ValueError):
    """An orchestrator cannot run: no model is configured, it runs already; or its settings cannot be used."""


class AgentError(TractError, ValueError):
    """An agent cannot be made, changed or called. Its text may tell what a model said: it is fit to be shown.

    Attributes:
        code: what is wrong, in a word: `bad_name`, `unknown_tool`, `limit`, ...
        allowed: what would be right, where that is a list.
    """

    def __init__(self, code: str, message: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(printable(message))
        self.code = code
        self.allowed = tuple(allowed)


class RunError(TractError):
    """Base of what can be wrong with a run: a main call with the operations before and after it."""


class PlanError(RunError):
    """Operations that cannot be planned: `code` is a `runs.terms.PlanErrorCode`, `operations` those concerned."""

    def __init__(self, code: str, message: str, operations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.operations = tuple(operations)


def _without_field(where: str, message: str) -> str:
    """Return the place without its field, if the message begins with that."""
    place, comma, field = where.rpartition(", ")
    return place if comma and message.startswith(f"{field} ") else where


class ProfileError(RunError):
    """A profile cannot be saved as it is. `problems` holds all that is wrong, as `(rule, where, message)`."""

    def __init__(self, problems: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(
            "\n".join(f"{_without_field(where, message)}: {message}" for _, where, message in problems)
        )
        self.problems = tuple(problems)


class RunFailedError(RunError):
    """The run failed or was aborted; `run` has what was done until then."""

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


class TemplateError(RunError):
    """A text with placeholders cannot be read or rendered. `line` counts from 1; None if no line is to blame."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line

    def at(self, line: int) -> TemplateError:
        """Return this error with the line, unless it has one."""
        return self if self.line is not None else TemplateError(self.message, line)


class UnknownRunError(RunError):
    """No run has this id."""


class UnknownProfileError(RunError):
    """No operation profile has this name."""


class TrustError(TractError):
    """The secret that signs approvals is unreadable; nothing can be trusted or signed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` with the known name closest to `name`, or an empty string.

    A slip of the finger leaves the first letter or the last: `nope` is no misspelt `open`.
    """
    ends = name[:1].lower(), name[-1:].lower()
    alike = [one for one in known if one[:1].lower() == ends[0] or one[-1:].lower() == ends[1]]
    import difflib  # only an error needs it

    lower = {one.lower(): one for one in alike}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return f" Did you mean {lower[close[0]]!r}?" if close else ""


def _shorten(arguments: Mapping[str, Any], limit: int = 120) -> str:
    text = ", ".join(f"{key}={brief_repr(value)}" for key, value in arguments.items())
    return cut(text, limit)
