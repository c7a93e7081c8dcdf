"""The code of an action, and its compilation into a function.

In the kernel, the body is parsed separately and placed under a function's syntax node. So multi-line strings keep
their text, and line 1 of a traceback is line 1 of the author's code. Compilation runs none of the author's code. It
executes only the `def` statement, which has no decorators, defaults or annotations.

In the sandbox, the body runs in a separate interpreter on a copy of the fields. It never becomes a function of this
process. Its `pending` is a sandbox object, which is read after the body ends. So a failed body has changed and
decided nothing. A successful body decides only about its own pending, and only once.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import json
import linecache
import warnings
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, SandboxError, SpecError
from tract_jupyter.models import brief_repr, canonical_json
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
    from collections.abc import Callable, Iterable
    from types import FunctionType

    from tract_jupyter.models.schema import Parameters
    from tract_jupyter.operations.spec import ActionDef
    from tract_jupyter.review import FieldPending


def as_function(name: str, parameters: Iterable[str], body: str) -> str:
    """Write a function around a body. Line 1 of the body becomes line 2.

    Args:
        name: the name of the function.
        parameters: the parameter names, in order.
        body: valid Python statements.

    Raises:
        ValueError: indentation would change the meaning of the body.
    """
    before = ast.parse(body).body
    inside = lines_inside_strings(before)
    lines = enumerate(io.StringIO(body, newline=None), 1)
    placed = "".join(line if number in inside else f" {line}" for number, line in lines)
    text = f"def {name}({', '.join(parameters)}):\n{placed}\n"
    if not _is_same(text, before):
        raise ValueError("indentation changes its meaning; remove control characters")
    return text


def lines_inside_strings(body: list[ast.stmt]) -> set[int]:
    """Return the numbers of lines that start inside a multi-line string. Their indentation is part of the string."""
    inside: set[int] = set()
    for statement in body:
        for node in ast.walk(statement):
            is_string = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
            if is_string or isinstance(node, ast.JoinedStr):
                inside.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return inside


def _is_same(text: str, body: list[ast.stmt]) -> bool:
    try:
        module = ast.parse(text).body
    except SyntaxError:
        return False
    node = module[0] if len(module) == 1 else None
    return isinstance(node, ast.FunctionDef) and list(map(ast.dump, node.body)) == list(map(ast.dump, body))


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

    Attributes:
        returned: the return value.
        fields: the fields after the run.
        decision: `approve`, `reject`, or empty without a decision.
        reason: the reason for a rejection.
    """

    returned: Any
    fields: dict[str, Any]
    decision: str
    reason: str


def check_sandboxed(action: ActionDef) -> None:
    """Check for features that the sandbox lacks. This compiles and runs nothing.

    Raises:
        SpecError: the sandbox lacks a feature. The error has the first line that uses it.
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
    """Return an action's code as a function for the sandbox.

    Raises:
        SpecError: the code cannot become a function.
    """
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
    """Read and check the sandbox output. The code may have modified any object in its process.

    Raises:
        SandboxError: the output does not have the shape of an action's outcome.
    """
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
    """Return a copy as plain data."""
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


_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def compile_action(
    action: ActionDef, *, operation: str = "", parameters: Parameters | None = None
) -> Callable[..., Any]:
    """Compile an action's code into `function(pending, ...)`.

    Args:
        action: its parameters become the function's parameters, required ones first. Each call validates its
            arguments.
        operation: the operation's name, for tracebacks: `<action:operation.name>`.
        parameters: the action's parsed parameters, if available.

    Returns:
        A function with `__signature__`, `parameters`, and a `body` that takes validated arguments. The body of a
        sandboxed action runs in the sandbox. It changes the pending only if it succeeds.

    Raises:
        SpecError: the code is empty, has a syntax error (with its line), or can never run as an action.
    """
    parameters = action.parameters() if parameters is None else parameters
    filename = f"<action:{operation}.{action.name}>" if operation else f"<action:{action.name}>"
    if action.is_sandboxed:
        check_code(action)
        body: Callable[..., Any] = sandboxed_body(action, filename)
    else:
        body = _compile_body(action, parameters.names, filename)

    def run(pending: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return body(pending, **parameters.validate(parameters.bind(args, kwargs)))

    run.__name__ = run.__qualname__ = action.name
    run.__doc__ = action.description
    run.__signature__ = parameters.signature("pending")  # type: ignore[attr-defined]
    run.parameters = parameters  # type: ignore[attr-defined]
    run.body = body  # type: ignore[attr-defined]
    # With another mtime than None, linecache drops an entry whose file is not on disk.
    linecache.cache[filename] = (
        len(action.code),
        None,
        list(io.StringIO(action.code, newline=None)),
        filename,
    )
    return run


def check_code(action: ActionDef) -> None:
    """Check that an action's code compiles. The code object is discarded, and nothing runs.

    Raises:
        SpecError: as for `compile_action`, or a sandboxed action uses a feature that the sandbox lacks.
    """
    _code_of(action, tuple(action.params), f"<action:{action.name}>")
    if action.is_sandboxed:
        check_sandboxed(action)


def _compile_body(action: ActionDef, names: tuple[str, ...], filename: str) -> FunctionType:
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": filename}
    exec(_code_of(action, names, filename), namespace)  # noqa: S102 # only the 'def'
    function: FunctionType = namespace[action.name]
    return function


def _code_of(action: ActionDef, names: tuple[str, ...], filename: str) -> CodeType:
    """Compile a module that contains only the action's `def`."""
    try:
        with warnings.catch_warnings():  # the reviewer reads findings, not the compiler's warnings on stderr
            warnings.simplefilter("ignore")
            statements = ast.parse(action.code, filename).body
            module = _module_of(action.name, names, statements)
            code = compile(module, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SpecError(_explain(error), line=error.lineno, action=action.name) from None
    except UnicodeEncodeError:
        raise SpecError(
            "the code contains a lone surrogate, which is not valid Unicode", action=action.name
        ) from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the code cannot be compiled: {error}", action=action.name) from None
    except MemoryError:  # its message depends on the version
        raise SpecError("the code cannot be compiled: nested too deeply", action=action.name) from None
    if not statements:
        raise SpecError("there is no code; write at least 'pending.approve()'", action=action.name)
    bodies = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    if any(body.co_flags & _NOT_PLAIN for body in bodies):
        raise SpecError("the code uses 'yield' or 'await', so a call would not run it", action=action.name)
    return code


def _module_of(name: str, names: tuple[str, ...], statements: list[ast.stmt]) -> ast.Module:
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg("pending"), *map(ast.arg, names)],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    function = ast.FunctionDef(name, arguments, statements or [ast.Pass()], decorator_list=[])
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12 and later
        function.type_params = []  # type: ignore[attr-defined, unused-ignore]
    return ast.fix_missing_locations(ast.Module([function], type_ignores=[]))


def _explain(error: SyntaxError) -> str:
    text = (error.text or "").strip()
    return f"{error.msg}{f': {text[:80]}' if text else ''}"
