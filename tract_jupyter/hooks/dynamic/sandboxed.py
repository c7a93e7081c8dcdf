"""Actions that declare `isolation: sandbox`: code that can do nothing but change fields, approve, or reject.

The body runs in an interpreter of its own, on a copy of the fields. Nothing there stands for anything of this
process: its `pending` is an object of the sandbox, which is read when the body has ended. So a body that fails has
changed nothing and decided nothing, and one that ends well decides about its own pending only, once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, SandboxError, SpecError
from tract_jupyter.hooks.dynamic.body import as_function
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.text import brief_repr
from tract_jupyter.sandbox.errors import LACKS, Hints
from tract_jupyter.sandbox.isolated import UNCHANGED, IsolatedCode, run_isolated
from tract_jupyter.sandbox.subset import MODULES, lacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.dynamic.pending import DynamicPending
    from tract_jupyter.hooks.dynamic.spec import ActionDef

REACH = "It runs in the sandbox: reaches only pending.fields, approve and reject."
"""What a reviewer is told."""
MOST_JSON = 5_000_000
"""Characters of JSON, of what crosses in and of what crosses out."""

_MEMBERS = {"pending": frozenset({"fields", "approve", "reject"}), "tools": frozenset[str]()}
_CLOSED = "It has no files, no network, no environment and no tools; pending.fields is all that it can read and change"
_KERNEL = "Write it otherwise, or leave out 'isolation: sandbox', for code that a person reviews"
_HINTS = Hints(
    lacks=f"{LACKS}. {_KERNEL}",
    modules=f"Of modules it has {', '.join(sorted(MODULES))}",
    closed=_CLOSED,
    members=(("'Pending' object", "In the sandbox, pending has fields, approve() and reject(reason)"),),
)

# its names begin with an underscore, as those of actions and parameters cannot
_PRELUDE = """\
class Pending:
    def __init__(self, fields):
        self.fields = fields
        self._decided = []

    def approve(self):
        self._decide("approve")

    def reject(self, reason=""):
        if not isinstance(reason, str):
            raise TypeError("the reason of reject(reason) is a text")
        self._decide("reject", reason)

    def _decide(self, *how):
        if self._decided:
            raise RuntimeError("it is decided already; the first decision counts")
        self._decided = list(how)

_pending = Pending(_fields)
"""


class Outcome(NamedTuple):
    """What a body made of the copy that it was given.

    Attributes:
        returned: its value.
        fields: as they are in the end.
        decision: `approve` or `reject`; empty for none.
        reason: of a rejection.
    """

    returned: Any
    fields: dict[str, Any]
    decision: str
    reason: str


def check_sandboxed(action: ActionDef) -> None:
    """Check for what the sandbox surely lacks. Nothing is made of the code, and nothing runs.

    Raises:
        SpecError: what is lacking, with the first line that uses it.
    """
    _placed(action)
    found = sorted(lacks(action.code, ("pending", *action.params), _MEMBERS))
    if found:
        line, what, hint = found[0]
        there = f"; {hint}" if hint else ""
        raise SpecError(f"the sandbox has {what}{there}. {_KERNEL}", line=line, action=action.name)


def sandboxed_body(action: ActionDef, filename: str) -> Callable[..., Any]:
    """What runs an action in the sandbox: `body(pending, **arguments)`, with the arguments validated.

    It raises `SandboxError` where the code fails, `NoSandboxError` where there is no sandbox, and `ParameterError`
    where the fields do not fit in the end; the pending is as it was then.
    """
    call = f"[{action.name}(_pending, **_arguments), _pending.fields, _pending._decided]"
    code = IsolatedCode(_PRELUDE, _placed(action), call, filename, _HINTS)

    def body(pending: DynamicPending, **arguments: Any) -> Any:
        __tracebackhide__ = True
        inputs = {
            "_fields": _crossing("the fields", pending.fields, filename),
            "_arguments": _crossing("the arguments", arguments, filename),
        }
        return _applied(pending, _outcome(run_isolated(pending.tract.sandboxes, code, inputs), filename))

    return body


def _placed(action: ActionDef) -> str:
    try:
        return as_function(action.name, ("pending", *action.params), action.code)
    except ValueError as error:
        raise SpecError(f"the code cannot be run in the sandbox: {error}", action=action.name) from None


def _applied(pending: DynamicPending, outcome: Outcome) -> Any:
    """Take over what the body made; what approval runs, runs now, as a part of the same decision."""
    pending.fields = pending.field_parameters.validate(outcome.fields)
    if outcome.decision == "approve":
        pending.approve()
    elif outcome.decision == "reject":
        pending.reject(outcome.reason)
    return outcome.returned


def _outcome(found: Any, filename: str) -> Outcome:
    """What came out, if it is what could: the code may have changed all that it found in its own process."""
    returned, fields, decided = found
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise _refused("pending.fields is a dict, with the values by name", filename)
    fields = {
        n: _crossing(f"pending.fields[{brief_repr(n)}]", value, filename) for n, value in fields.items()
    }
    returned = _crossing("what it returns", returned, filename)
    match decided:
        case []:
            return Outcome(returned, fields, "", "")
        case ["approve"]:
            return Outcome(returned, fields, "approve", "")
        case ["reject", str(reason)]:
            return Outcome(returned, fields, "reject", _crossing("the reason", reason, filename))
    raise _refused("a decision is made by pending.approve() or pending.reject(reason)", filename)


def _crossing(what: str, value: Any, filename: str) -> Any:
    """A copy, as plain data."""
    try:
        text = canonical_json(value)
    except ContentError as error:
        raise _refused(f"{what}: {error}", filename) from None
    if len(text) > MOST_JSON:
        raise _refused(
            f"{what}: {len(text):,} characters of JSON, and {MOST_JSON:,} are the most that go in or out",
            filename,
        )
    return json.loads(text)


def _refused(why: str, filename: str) -> SandboxError:
    return SandboxError(f"{filename}: {why}. {UNCHANGED}")
