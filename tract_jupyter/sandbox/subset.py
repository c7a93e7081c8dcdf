"""The sandbox's subset of Python: what a text uses that it lacks, and running an action's code in it."""

from __future__ import annotations

import ast
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import SandboxError
from tract_jupyter.models import left_out, printable
from tract_jupyter.sandbox.pool import ErrorHints, SandboxLimits, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic_monty import Frame

    from tract_jupyter.sandbox.pool import ErrorReport, SandboxPool


MODULES = frozenset(
    {
        "asyncio",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "functools",
        "hashlib",
        "itertools",
        "json",
        "math",
        "posixpath",
        "random",
        "re",
        "sys",
        "time",
        "tomllib",
        "typing",
        "unicodedata",
    }
)
"""The modules that are of use there: `os` and `pathlib` can be imported too, but reach nothing."""

_NAMES = frozenset(
    {
        "__import__",
        "breakpoint",
        "compile",
        "dir",
        "exit",
        "globals",
        "help",
        "input",
        "open",
        "quit",
        "super",
        "vars",
    }
)
_STATEMENTS = {
    ast.Delete: "no 'del' (for a key, d.pop(key))",
    ast.Yield: "no 'yield'",
    ast.YieldFrom: "no 'yield from'",
    ast.TryStar: "no 'except*'",
}


class Unsupported(NamedTuple):
    """A construct that the sandbox lacks: its line, what it is (`no module 'os'`), and what exists instead."""

    line: int
    what: str
    hint: str = ""


def unsupported(
    code: str, names: Iterable[str], members: Mapping[str, frozenset[str]]
) -> Iterator[Unsupported]:
    """Yield what a text uses that the sandbox surely lacks, in no particular order.

    Args:
        code: it parses.
        names: those that have a value besides Python's own.
        members: the attributes of some names, all of them; none for what is not there at all.
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
            there = members.get(node.value.id)
            if there is not None and node.value.id not in bound and node.attr not in there:
                hint = f"{node.value.id} has only {', '.join(sorted(there))}" if there else ""
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
    """Return the names that one node of a syntax tree binds itself, without its children."""
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

_POLICY: Any = {"sleep": "zero"}  # there is nothing to wait for
_FEED = "<python-input-1>"
"""The name that a session gives to what it is fed after the prelude: the function."""
_SHOWN_FRAMES = 10


class IsolatedCode(NamedTuple):
    """Code for one isolated run.

    Attributes:
        prelude: comes first, and is given the inputs.
        function: one `def` line, and the body from line 2.
        call: an expression, whose value comes out.
        filename: what tracebacks call the body.
        hints: for its errors.
    """

    prelude: str
    function: str
    call: str
    filename: str
    hints: ErrorHints


class IsolatedFailure(Exception):  # noqa: N818 # it is caught where the code is run
    """Raised where isolated code failed.

    Attributes:
        report: the error, as it is told.
        is_stopped: True if it took more than it may: time, memory, or its process with it.
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
    """Run the code, and return the value of the call.

    Args:
        pool: gives the process.
        code: what is run.
        inputs: names that the prelude has.
        take: is given what it prints: the stream and the text.
        limits: what it may take.

    Raises:
        NoSandboxError: there is no sandbox.
        IsolatedFailure: it failed, or took too much.
    """
    pool.opened()
    import pydantic_monty as monty

    try:
        with pool.checkout(limits=limits.options(), os_policy=_POLICY) as session:
            session.call(session.monty.feed_run, code.prelude, inputs=inputs)
            return session.call(session.monty.feed_run, f"{code.function}\n{code.call}", print_callback=take)
    except monty.MontyError as error:
        report = explained(error, _traceback(error, code), code.hints)
        is_over = isinstance(error, monty.MontyCrashedError) or "limit exceeded" in report.message
        raise IsolatedFailure(report, is_stopped=is_over) from None


def run_isolated(pool: SandboxPool, code: IsolatedCode, inputs: dict[str, Any]) -> Any:
    """Run the code, and return the value of the call; what it printed is shown at the end.

    Raises:
        NoSandboxError: there is no sandbox.
        SandboxError: it failed, or took too much; with its own lines.
    """
    printed = _Printed()
    try:
        return attempt_isolated(pool, code, inputs, printed.take)
    except IsolatedFailure as failure:
        name, message, shown = failure.report
        raise SandboxError(f"{code.filename} raised {name}: {message}. {UNCHANGED}", shown) from None
    finally:
        printed.show()


class _Printed:
    """The beginning of what the code prints, shown at the end."""

    def __init__(self) -> None:
        self._text = ""
        self._left_out = 0

    def take(self, _stream: str, text: str) -> None:
        kept = text[: LIMITS.output_characters - len(self._text)]
        self._text += kept
        self._left_out += len(text) - len(kept)

    def show(self) -> None:
        more = left_out(self._left_out) if self._left_out else ""
        if self._text:
            print(printable(self._text) + more, end="")  # noqa: T201 # the action did


def _traceback(error: Any, code: IsolatedCode) -> str:
    """Return the function's own lines, numbered as the author of its body counts them."""
    frames = [frame for frame in getattr(error, "traceback", list)() if _is_own(frame)]
    lines = code.function.split("\n")
    told = [
        f'  File "{code.filename}", line {frame.line - 1}{_within(frame)}\n'
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


def _within(frame: Frame) -> str:
    return f", in {frame.function_name}" if frame.function_name else ""
