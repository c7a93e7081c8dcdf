"""What a notebook's cells define and ask, read without running anything."""

from __future__ import annotations

import argparse
import ast
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tract_jupyter.analysis.ipython_syntax import transform
from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.cell_syntax import ParsedCell, parse_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.analysis.ipython_syntax import Escape


class Definition(NamedTuple):
    """A `%%tract_operation` cell. `line` counts from 1 in the cell, as everywhere here."""

    line: int
    parsed: ParsedCell
    activate: bool
    wait: bool


class FireMagic(NamedTuple):
    """A `%tract_fire` line. One that is indented runs as often as the code around it says."""

    line: int
    text: str
    is_indented: bool


class Handler(NamedTuple):
    """A handler for an operation, or for all (`*`)."""

    line: int
    operation: str


class Call(NamedTuple):
    """Python code that may ask: for an operation by name, or, with an empty name, for anything."""

    line: int
    text: str
    operation: str


class Wrong(NamedTuple):
    """What would stop the run there."""

    line: int
    what: str
    why: str


Step = Definition | FireMagic | Handler | Call | Wrong
_MAGICS = {"tract_fire", "tract_operation"}


def steps(source: str) -> list[Step]:
    """What a code cell defines and asks, in the order of its lines."""
    defined = definition_in(source)
    if defined is not None:
        return [defined]
    transformed = transform(source)
    found = [*_magics(transformed.escapes), *_calls(transformed.code)]
    return sorted(found, key=lambda step: step.line)


def definition_in(source: str) -> Definition | Wrong | None:
    """Return what a `%%tract_operation` cell defines, or why it cannot; None for any other cell."""
    name = "%%tract_operation"
    lines = source.splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())] if lines else ""
    header, *body = [line.removeprefix(indent) for line in lines[first:]] or [""]
    if header.split()[:1] != [name] or header.rstrip().endswith("?"):
        return None
    try:
        options = _options().parse_args(shlex.split(header.strip().removeprefix(name)))
        name = f"{name} {options.name}".strip()
        # a line in front, as the magic does, so that lines are those of the cell
        parsed = parse_cell(options.name, "\n" + "".join(body), options.form)
        parsed = parsed.with_options(ask=options.ask, sandbox=options.sandbox)
    except (OperationError, ValueError) as error:
        return Wrong(first + 1, name, str(error))
    return Definition(first + 1, parsed, options.activate, options.wait)


def _magics(escapes: tuple[Escape, ...]) -> Iterator[Step]:
    for escape in escapes:
        line = escape.span.line
        if escape.kind == "line_magic" and escape.name == "tract_fire":
            yield FireMagic(line, escape.rest, escape.span.column > 0)
        elif escape.kind == "line_magic" and escape.name == "run":
            yield Call(line, f"%run {escape.rest}", "")


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OperationError(message)


def _options() -> argparse.ArgumentParser:
    """The options of the magic, which itself cannot be imported without IPython."""
    parser = _Options(add_help=False)
    parser.add_argument("name", nargs="?", default="")
    for form in ("json", "yaml"):
        parser.add_argument(f"--{form}", dest="form", action="store_const", const=form, default="python")
    for flag in ("--activate", "--ask", "--sandbox", "--wait"):
        parser.add_argument(flag, action="store_true")
    return parser


def _calls(code: str) -> Iterator[Step]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # not Python, or an error that stops the run before anything is asked
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            step = _call(node, node.func)
            if step is not None:
                yield step


def _call(node: ast.Call, function: ast.Attribute) -> Step | None:
    first, name = _first_text(node), function.attr
    if name == "on" and (first is not None or _is_tract(function.value)):
        return Handler(node.lineno, "*" if first is None else first)
    if name == "fire":
        return Call(node.lineno, _spelling(function), first or "")
    if name.startswith("fire_"):
        return Call(node.lineno, _spelling(function), name.removeprefix("fire_"))
    if name == "propose_operation" or (name in {"run_line_magic", "run_cell_magic"} and first in _MAGICS):
        return Call(node.lineno, _spelling(function), "")
    return None


def _is_tract(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "tract"


def _spelling(function: ast.Attribute) -> str:
    """The call as it is told; in short, where a chain is longer than Python's own stack."""
    try:
        return f"{ast.unparse(function)}(...)"
    except RecursionError:
        return f"….{function.attr}(...)"


def _first_text(node: ast.Call) -> str | None:
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


class Variables(dict[str, Any]):
    """Stands for the namespace of a notebook that does not run; notes whether it was asked for a value."""

    asked = False

    def __contains__(self, name: object) -> bool:
        self.asked = True
        return True

    def __missing__(self, name: str) -> None:
        return None


def code_cells(notebook: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The place of each code cell among all cells, from 1, and its source."""
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            yield number, cell["source"]
