"""Actions in the sandbox.

The body runs in a separate interpreter on a copy of the fields. It never becomes a function of this process. Its
`pending` is a sandbox object, which is read after the body ends. So a failed body has changed and decided nothing. A
successful body decides only about its own pending, and only once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, SandboxError, SpecError
from tract_jupyter.models import brief_repr, canonical_json
from tract_jupyter.operations.action import as_function
from tract_jupyter.sandbox import (
    LACKS,
    MODULES,
    UNCHANGED,
    ErrorHints,
    IsolatedCode,
    run_isolated,
    unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.operations.spec import ActionDef
    from tract_jupyter.review import FieldPending

REACH = "It runs in the sandbox, and can use only pending.fields, approve and reject."
"""The reviewer's note about a sandboxed action."""
MOST_JSON = 5_000_000
"""The maximum number of JSON characters for each input and each output of the sandbox."""

_MEMBERS = {"pending": frozenset({"fields", "approve", "reject"}), "tools": frozenset[str]()}
_CLOSED = "It has no files, no network, no environment and no tools; the code can read and change only pending.fields"
_KERNEL = "Change the code, or leave out 'isolation: sandbox' and let the user review the code"
_HINTS = ErrorHints(
    lacks=f"{LACKS}. {_KERNEL}",
    modules=f"The available modules are {', '.join(sorted(MODULES))}",
    closed=_CLOSED,
    members=(("'Pending' object", "In the sandbox, pending has fields, approve() and reject(reason)"),),
)

# Its names start with an underscore, because names of actions and parameters cannot.
PRELUDE = """\
class Pending:
    def __init__(self, fields):
        self.fields = fields
        self._decided = []

    def approve(self):
        self._decide("approve")

    def reject(self, reason=""):
        if not isinstance(reason, str):
            raise TypeError("reject(reason) needs a text")
        self._decide("reject", reason)

    def _decide(self, *how):
        if self._decided:
            raise RuntimeError("it is decided already; the first decision counts")
        self._decided = list(how)

_pending = Pending(_fields)
"""


class SandboxOutcome(NamedTuple):
    """The outcome of a body that ran on a copy.

    `decision` is `approve`, `reject`, or empty without a decision.
    """

    returned: Any
    fields: dict[str, Any]
    decision: str
    reason: str


def check_sandboxed(action: ActionDef) -> None:
    """Check for features that the sandbox lacks. This compiles and runs nothing.

    The error has the first line that uses one.
    """
    placed_body(action)
    problems = sorted(unsupported(action.code, ("pending", *action.params), _MEMBERS))
    if problems:
        line, what, hint = problems[0]
        there = f"; {hint}" if hint else ""
        raise SpecError(f"the sandbox has {what}{there}. {_KERNEL}", line=line, action=action.name)


def sandboxed_body(action: ActionDef, filename: str) -> Callable[..., Any]:
    """Return a function that runs an action in the sandbox: `body(pending, **arguments)`, with validated arguments.

    The function raises `SandboxError` if the code fails and `NoSandboxError` if no sandbox is available. It raises
    `ParameterError` if the resulting fields are invalid. In all these cases the pending is unchanged.
    """
    call = f"[{action.name}(_pending, **_arguments), _pending.fields, _pending._decided]"
    code = IsolatedCode(PRELUDE, placed_body(action), call, filename, _HINTS)

    def body(pending: FieldPending, **arguments: Any) -> Any:
        __tracebackhide__ = True
        inputs = {
            "_fields": _crossing("the fields", pending.fields, filename),
            "_arguments": _crossing("the arguments", arguments, filename),
        }
        return _applied(
            pending, sandbox_outcome(run_isolated(pending.tract.sandboxes, code, inputs), filename)
        )

    return body


def placed_body(action: ActionDef) -> str:
    """Return an action's code as a function for the sandbox."""
    try:
        return as_function(action.name, ("pending", *action.params), action.code)
    except ValueError as error:
        raise SpecError(f"the code cannot run in the sandbox: {error}", action=action.name) from None


def _applied(pending: FieldPending, outcome: SandboxOutcome) -> Any:
    """Apply the outcome of a sandboxed body. Approval runs its work now, as part of the same decision."""
    pending.fields = pending.field_parameters.validate(outcome.fields)
    if outcome.decision == "approve":
        pending.approve()
    elif outcome.decision == "reject":
        pending.reject(outcome.reason)
    return outcome.returned


def sandbox_outcome(output: Any, filename: str) -> SandboxOutcome:
    """Read and check the sandbox output. The code may have modified any object in its process."""
    returned, fields, decided = output
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise _refused("pending.fields must be a dict with the values by name", filename)
    fields = {
        n: _crossing(f"pending.fields[{brief_repr(n)}]", value, filename) for n, value in fields.items()
    }
    returned = _crossing("the return value", returned, filename)
    match decided:
        case []:
            return SandboxOutcome(returned, fields, "", "")
        case ["approve"]:
            return SandboxOutcome(returned, fields, "approve", "")
        case ["reject", str(reason)]:
            return SandboxOutcome(returned, fields, "reject", _crossing("the reason", reason, filename))
    raise _refused("decide with pending.approve() or pending.reject(reason)", filename)


def _crossing(what: str, value: Any, filename: str) -> Any:
    try:
        text = canonical_json(value)
    except ContentError as error:
        raise _refused(f"{what}: {error}", filename) from None
    if len(text) > MOST_JSON:
        raise _refused(
            f"{what}: {len(text):,} characters of JSON; the maximum is {MOST_JSON:,}",
            filename,
        )
    return json.loads(text)


def _refused(why: str, filename: str) -> SandboxError:
    return SandboxError(f"{filename}: {why}. {UNCHANGED}")
