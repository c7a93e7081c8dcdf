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
from tract_jupyter.models.text import brief_repr, printable
from tract_jupyter.sandbox.errors import LACKS, Hints, explained
from tract_jupyter.sandbox.subset import MODULES, lacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_monty import Frame, MontySession

    from tract_jupyter.hooks.dynamic.pending import DynamicPending
    from tract_jupyter.hooks.dynamic.spec import ActionDef
    from tract_jupyter.sandbox.pool import SandboxPool

REACH = "It runs in the sandbox: reaches only pending.fields, approve and reject."
"""What a reviewer is told."""
SECONDS = 10.0
MEMORY = 64_000_000
MOST_PRINTED = 50_000
MOST_JSON = 5_000_000
"""Characters of JSON, of what crosses in and of what crosses out."""

_MEMBERS = {"pending": frozenset({"fields", "approve", "reject"}), "tools": frozenset[str]()}
_UNCHANGED = "Nothing was changed or decided"
_CLOSED = "It has no files, no network, no environment and no tools; pending.fields is all that it can read and change"
_KERNEL = "Write it otherwise, or leave out 'isolation: sandbox', for code that a person reviews"
_HINTS = Hints(
    lacks=f"{LACKS}. {_KERNEL}",
    modules=f"Of modules it has {', '.join(sorted(MODULES))}",
    closed=_CLOSED,
    members=(("'Pending' object", "In the sandbox, pending has fields, approve() and reject(reason)"),),
)
_LIMITS: Any = {"max_feed_duration_secs": SECONDS, "max_memory": MEMORY}
_POLICY: Any = {"sleep": "zero"}  # there is nothing to wait for

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
_FEED = "<python-input-1>"
"""How the session calls what it is fed after the prelude: the action."""
_SHOWN_FRAMES = 10


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
    text = _placed(action)

    def body(pending: DynamicPending, **arguments: Any) -> Any:
        __tracebackhide__ = True
        code = _Code(action.name, text, filename)
        outcome = _run(pending.tract.sandboxes, code, pending.fields, arguments)
        return _applied(pending, outcome)

    return body


class _Code(NamedTuple):
    name: str
    text: str
    filename: str


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


def _run(pool: SandboxPool, code: _Code, fields: dict[str, Any], arguments: dict[str, Any]) -> Outcome:
    """Run a body on copies.

    Raises:
        SandboxError: it failed, or what goes in or comes out is no plain data of bounded size.
    """
    opened = pool.opened()
    import pydantic_monty as monty

    inputs = {
        "_fields": _crossing("the fields", fields, code),
        "_arguments": _crossing("the arguments", arguments, code),
    }
    printed = _Printed()
    try:
        with opened.checkout(limits=_LIMITS, os_policy=_POLICY) as session:
            found = _fed(session, code, inputs, printed)
    except monty.MontyError as error:
        raise _failed(error, code) from None
    finally:
        printed.show()
    return _outcome(found, code)


def _fed(session: MontySession, code: _Code, inputs: dict[str, Any], printed: _Printed) -> Any:
    session.feed_run(_PRELUDE, inputs=inputs)
    call = f"[{code.name}(_pending, **_arguments), _pending.fields, _pending._decided]"
    return session.feed_run(f"{code.text}\n{call}", print_callback=printed.take)


class _Printed:
    """What the code prints: the beginning of it, shown when it has ended."""

    def __init__(self) -> None:
        self._text = ""
        self._left_out = 0

    def take(self, _stream: str, text: str) -> None:
        kept = text[: MOST_PRINTED - len(self._text)]
        self._text += kept
        self._left_out += len(text) - len(kept)

    def show(self) -> None:
        more = f"\n… {self._left_out:,} characters left out …\n" if self._left_out else ""
        if self._text:
            print(printable(self._text) + more, end="")  # noqa: T201 # the action did


def _outcome(found: Any, code: _Code) -> Outcome:
    """What came out, if it is what could: the code may have changed all that it found in its own process."""
    returned, fields, decided = found
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise _refused("pending.fields is a dict, with the values by name", code)
    fields = {n: _crossing(f"pending.fields[{brief_repr(n)}]", value, code) for n, value in fields.items()}
    returned = _crossing("what it returns", returned, code)
    match decided:
        case []:
            return Outcome(returned, fields, "", "")
        case ["approve"]:
            return Outcome(returned, fields, "approve", "")
        case ["reject", str(reason)]:
            return Outcome(returned, fields, "reject", reason)
    raise _refused("a decision is made by pending.approve() or pending.reject(reason)", code)


def _crossing(what: str, value: Any, code: _Code) -> Any:
    """A copy, as plain data."""
    try:
        text = canonical_json(value)
    except ContentError as error:
        raise _refused(f"{what}: {error}", code) from None
    if len(text) > MOST_JSON:
        raise _refused(
            f"{what}: {len(text):,} characters of JSON, and {MOST_JSON:,} are the most that go in or out",
            code,
        )
    return json.loads(text)


def _refused(why: str, code: _Code) -> SandboxError:
    return SandboxError(f"{code.filename}: {why}. {_UNCHANGED}")


def _failed(error: Any, code: _Code) -> SandboxError:
    name, message, shown = explained(error, _traceback(error, code), _HINTS)
    return SandboxError(f"{code.filename} raised {name}: {message}. {_UNCHANGED}", shown)


def _traceback(error: Any, code: _Code) -> str:
    """The action's own lines, as the author counts them."""
    frames = [frame for frame in getattr(error, "traceback", list)() if _is_own(frame)]
    lines = code.text.splitlines()
    told = [
        f'  File "{code.filename}", line {frame.line - 1}, in {frame.function_name or code.name}\n'
        f"    {lines[frame.line - 1].strip()}"
        for frame in frames
    ]
    if len(told) > _SHOWN_FRAMES:
        half = _SHOWN_FRAMES // 2
        told[half:-half] = [f"  ... {len(told) - 2 * half:,} more"]
    head = ["Traceback (most recent call last):"] if told else []
    last = error.display("type-msg") if told or hasattr(error, "traceback") else str(error)
    return "\n".join([*head, *told, last])


def _is_own(frame: Frame) -> bool:
    return frame.filename == _FEED and frame.function_name != "<module>"
