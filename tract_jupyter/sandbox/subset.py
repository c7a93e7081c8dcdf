"""The sandbox's subset of Python: the search for unsupported constructs, and isolated runs of actions."""

from __future__ import annotations

import ast
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import SandboxError
from tract_jupyter.models import left_out, printable
from tract_jupyter.sandbox.pool import ErrorHints, SandboxLimits, explain_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic_monty import Frame

    from tract_jupyter.sandbox.pool import ErrorReport, SandboxPool


MODULES = frozenset({
    "asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal",
    "functools", "hashlib", "itertools", "json", "math", "posixpath", "random", "re", "sys", "time", "tomllib",
    "typing", "unicodedata",
})  # fmt: skip
"""The useful modules of the sandbox. `os` and `pathlib` exist but have no access to files."""

_NAMES = frozenset({
    "__import__", "breakpoint", "compile", "dir", "exit", "globals", "help", "input", "open", "quit", "super", "vars",
})  # fmt: skip
_STATEMENTS = {
    ast.Delete: "no 'del' (for a key, d.pop(key))",
    ast.Yield: "no 'yield'",
    ast.YieldFrom: "no 'yield from'",
    ast.TryStar: "no 'except*'",
}


class Unsupported(NamedTuple):
    """An unsupported construct: its line, a description (`no module 'os'`), and a hint about alternatives."""

    line: int
    what: str
    hint: str = ""


def unsupported(
    code: str, names: Iterable[str], members: Mapping[str, frozenset[str]]
) -> Iterator[Unsupported]:
    """Yield the constructs of a text that the sandbox certainly lacks, in no particular order.

    `names` have a value, in addition to Python's builtins. `members` has all attributes of some names. An empty set
    means that the name does not exist.
    """
    tree = ast.parse(code)
    bound = set(find_bound_names(tree))
    missing = _NAMES - bound.union(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and (node.bases or node.keywords):
            yield Unsupported(node.lineno, "no inheritance of classes")
        elif type(node) in _STATEMENTS:
            yield Unsupported(node.lineno, _STATEMENTS[type(node)])  # type: ignore[attr-defined]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (
                Unsupported(node.lineno, f"no module {name!r}", _modules()) for name in _missing(node)
            )
        elif isinstance(node, ast.Name) and node.id in missing:
            yield Unsupported(node.lineno, f"no {node.id!r}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known_members = members.get(node.value.id)
            if known_members is not None and node.value.id not in bound and node.attr not in known_members:
                hint = f"{node.value.id} has only {', '.join(sorted(known_members))}" if known_members else ""
                yield Unsupported(node.lineno, f"no '{node.value.id}.{node.attr}'", hint)


def _modules() -> str:
    return f"there are {', '.join(sorted(MODULES))}"


def _missing(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
    return [name for name in names if name.partition(".")[0] not in MODULES]


def find_bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield each name once for every place in the tree that binds it."""
    return chain.from_iterable(map(names_bound_by, ast.walk(tree)))


def names_bound_by(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a syntax node binds itself, without its children."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.alias():
            return (node.asname or node.name.partition(".")[0],)
    return ()


LIMITS = SandboxLimits(seconds=10.0, memory=64_000_000)
"""The limits of an action."""
UNCHANGED = "Nothing was changed or decided"

_POLICY: Any = {"sleep": "zero"}  # a sleep returns at once
_FEED = "<python-input-1>"
"""The file name that a session gives to the function, which follows the prelude."""
_SHOWN_FRAMES = 10


class IsolatedCode(NamedTuple):
    """Code for one isolated run.

    `prelude` runs first and gets the inputs. `function` is one `def` line, and the body from line 2. `call` is the
    expression with the result. `hints` are advice about its errors.
    """

    prelude: str
    function: str
    call: str
    filename: str
    hints: ErrorHints


class IsolatedFailure(Exception):  # noqa: N818 # the caller of the code always catches it
    """Raised if isolated code failed.

    Attributes:
        is_stopped: True if the code exceeded a limit, or its process died.
    """

    def __init__(self, report: ErrorReport, *, is_stopped: bool) -> None:
        super().__init__(report.message)
        self.report = report
        self.is_stopped = is_stopped


def attempt_isolated(
    pool: SandboxPool,
    code: IsolatedCode,
    inputs: dict[str, Any],
    take: Callable[[str, str], None],
    limits: SandboxLimits = LIMITS,
) -> Any:
    """Run isolated code, and return the value of the call.

    Raises:
        NoSandboxError: The sandbox is not installed.
        IsolatedFailure: The code failed or exceeded a limit.
    """
    pool.opened()
    import pydantic_monty as monty

    try:
        with pool.checkout(limits=limits.options(), os_policy=_POLICY) as session:
            session.call(session.monty.feed_run, code.prelude, inputs=inputs)
            return session.call(session.monty.feed_run, f"{code.function}\n{code.call}", print_callback=take)
    except monty.MontyError as error:
        report = explain_error(error, _traceback(error, code), code.hints)
        is_over = isinstance(error, monty.MontyCrashedError) or "limit exceeded" in report.message
        raise IsolatedFailure(report, is_stopped=is_over) from None


def run_isolated(pool: SandboxPool, code: IsolatedCode, inputs: dict[str, Any]) -> Any:
    """Run isolated code, and return the value of the call. Show its output at the end.

    Raises:
        NoSandboxError: The sandbox is not installed.
        SandboxError: The code failed or exceeded a limit. The error has the code's own lines.
    """
    printed = _Printed()
    try:
        return attempt_isolated(pool, code, inputs, printed.take)
    except IsolatedFailure as failure:
        name, message, traceback_text = failure.report
        raise SandboxError(f"{code.filename} raised {name}: {message}. {UNCHANGED}", traceback_text) from None
    finally:
        printed.show()


class _Printed:
    """The beginning of the code's output, for display at the end."""

    def __init__(self) -> None:
        self._text = ""
        self._left_out = 0

    def take(self, _stream: str, text: str) -> None:
        part = text[: LIMITS.output_characters - len(self._text)]
        self._text += part
        self._left_out += len(text) - len(part)

    def show(self) -> None:
        more = left_out(self._left_out) if self._left_out else ""
        if self._text:
            print(printable(self._text) + more, end="")  # noqa: T201 # the action did


def _traceback(error: Any, code: IsolatedCode) -> str:
    """Return the traceback with the function's own lines, numbered from the first line of the body."""
    frames = [frame for frame in getattr(error, "traceback", list)() if _is_own(frame)]
    lines = code.function.split("\n")
    entries = [
        f'  File "{code.filename}", line {frame.line - 1}{_within(frame)}\n'
        f"    {lines[frame.line - 1].strip()}"
        for frame in frames
    ]
    if len(entries) > _SHOWN_FRAMES:
        half = _SHOWN_FRAMES // 2
        entries[half:-half] = [f"  ... {len(entries) - 2 * half:,} more"]
    head = ["Traceback (most recent call last):"] if entries else []
    last = error.display("type-msg") if entries or hasattr(error, "traceback") else str(error)
    return "\n".join([*head, *entries, last])


def _is_own(frame: Frame) -> bool:
    return frame.filename == _FEED and frame.function_name != "<module>"


def _within(frame: Frame) -> str:
    return f", in {frame.function_name}" if frame.function_name else ""
