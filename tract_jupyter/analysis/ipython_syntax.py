"""A line scanner for IPython's additions to Python.

It replaces magics, shell escapes and help requests by harmless Python on the same number of lines, so all spans stay
valid. It reports the replaced syntax as `Escape` records. The scanner tracks strings and brackets, because a line that
starts with ``%`` may also continue an expression.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tract_jupyter.analysis.findings import Span
from tract_jupyter.analysis.limits import Deadline
from tract_jupyter.analysis.source import last_name, split_lines
from tract_jupyter.analysis.tables import magics
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

EscapeKind = Literal["shell", "line_magic", "cell_magic", "help", "autocall"]

_CELL_MAGIC = re.compile(r"%%(?P<name>[\w!.]+)[ \t]*(?P<rest>.*)")
_ASSIGNED = re.compile(r"=\s*(?P<escape>![^=].*|%[A-Za-z_].*)", re.DOTALL)
_NO_TARGET = re.compile(r"[=!<>%'\"#()]")
_MAGIC = re.compile(r"%(?P<name>[A-Za-z_][\w.]*)(?P<rest>.*)", re.DOTALL)
_AUTOCALL = re.compile(r"(?P<sign>[/,;])(?P<name>[A-Za-z_][\w.]*)(?P<rest>.*)", re.DOTALL)
_PYTHON_FILE = re.compile(r"\.(?:py|ipy|pth|pyw)\b")
_HELP = re.compile(r"\?{1,2}\s*[%!]{0,2}[\w.*]+\s*$|[%!]{0,2}[\w.*\[\]'\"]+\s*\?{1,2}\s*$")
_OPTION = re.compile(r"\s*(?:-[a-zA-Z]\s*\d+|-[lsTDpfm]\s+\S+|-[a-zA-Z]+|--[\w-]+(?:=\S+)?)(?=\s|$)")

PYTHON_LINE_MAGICS = words("timeit time prun memit mprun lprun snakeviz heat scalene pyinstrument debug")
"""Line magics whose argument is Python that runs here."""

PYTHON_CELL_MAGICS = words(
    "timeit time prun capture memit debug mprun lprun snakeviz heat scalene pyinstrument ipytest tract_script"
)
"""Cell magics whose body is Python that runs here."""

_OPTIONS_ONLY = words("capture tract_script")
"""Cell magics among them without Python in their first line."""


_SIGNS = re.compile(r"[%!?]|\A\s*[ \t]|^[^\S\n]*[/,;]", re.MULTILINE)


def has_escapes(text: str) -> bool:
    """Return True if the text contains anything that `transform` could change."""
    return _SIGNS.search(text) is not None


@dataclass(frozen=True, slots=True)
class Escape:
    """One piece of IPython syntax: its kind, the magic's name, the rest of its text, and its location."""

    kind: EscapeKind
    name: str
    rest: str
    span: Span
    text: str

    def body_of_file(self) -> str | None:
        """Return the Python that ``%%writefile`` writes; None for anything else."""
        if (
            self.kind != "cell_magic"
            or self.name not in {"writefile", "file"}
            or not _PYTHON_FILE.search(self.rest)
        ):
            return None
        return self.text.partition("\n")[2]

    def unknown_text(self) -> str:
        """Return the text of an unknown magic; empty for any other escape."""
        if self.name.startswith("tract"):
            return ""
        if self.kind == "line_magic":
            return self.rest if self.name not in magics.LINE and not is_shell(self) else ""
        return (
            self.text.partition("\n")[2] if self.kind == "cell_magic" and not is_known_cell(self.name) else ""
        )


def is_known_cell(name: str) -> bool:
    """Return True if the tables list a cell magic."""
    return (
        name in PYTHON_CELL_MAGICS
        or name in magics.CELL
        or name in magics.SHELL_CELL
        or name.startswith("tract")
    )


def is_shell(escape: Escape) -> bool:
    """Return True if the escape passes its text to a shell or another interpreter."""
    if escape.kind == "cell_magic":
        return escape.name in magics.SHELL_CELL
    return escape.kind == "shell" or (escape.kind == "line_magic" and escape.name in magics.SHELL_LINE)


@dataclass(frozen=True, slots=True)
class TransformedCode:
    """Plain Python with the same number of lines, the replaced syntax, and the columns removed from each line."""

    code: str
    escapes: tuple[Escape, ...]
    shifts: dict[int, int]


def transform(
    text: str,
    deadline: Deadline | None = None,
    *,
    unknown_is_python: bool = True,
    functions: Container[str] = (),
) -> TransformedCode:
    """Replace IPython syntax by harmless Python. Leave other text unchanged.

    Args:
        text: A cell.
        deadline: The time limit.
        unknown_is_python: Keep the body of an unknown cell magic, because it may be Python.
        functions: Names of magics that are functions of the same name: ``%name text`` becomes ``name('text')``.
    """
    lines = split_lines(text)
    shifts = _dedent(lines)
    scanner = _Scanner(lines, shifts, unknown_is_python=unknown_is_python, functions=functions)
    scanner.run(deadline or Deadline(math.inf))
    return TransformedCode("\n".join(scanner.lines), tuple(scanner.escapes), shifts)


def _dedent(lines: list[str]) -> dict[int, int]:
    """Remove the first line's indentation from every line that has it, as IPython does."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    shifts: dict[int, int] = {}
    for index, line in enumerate(lines):
        if indent and line.startswith(indent):
            lines[index] = line[len(indent) :]
            shifts[index + 1] = len(indent)
    return shifts


_AUTOMAGIC = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)(?P<rest>(?![\w.])[^\n]*)")
_ASSIGNS = re.compile(r"\s*(?:[,=](?!=)|[-+*/%&|^@]=|:|$)")
_OPERATES = re.compile(r"\s*(?:[-+*/%&|^@<>]=?|//|\*\*|==|!=|and|or|in|is|if|not)\s")


def automagic(text: str, names: Container[str], certain: Container[str]) -> Escape | None:
    """Return the magic that a one-line cell calls without ``%``, as IPython allows.

    ``names`` are magics without the names that the code itself binds. ``certain`` ones count even if the rest of the
    line may be Python.
    """
    line = text.rstrip()
    match = _AUTOMAGIC.fullmatch(line)
    if match is None or match["name"] not in names or _ASSIGNS.match(match["rest"]):
        return None
    if match["name"] not in certain and (match["rest"][0] in "([" or _OPERATES.match(match["rest"])):
        return None
    start = len(text[: match.start("name")].split("\n")) - 1
    column = match.start("name") - (text.rfind("\n", 0, match.start("name")) + 1)
    span = Span(start + 1, column, start + 1, len(line.split("\n")[-1]))
    return Escape("line_magic", match["name"], match["rest"].strip(), span, line.strip())


class _Scanner:
    """A scanner that replaces IPython syntax in logical lines."""

    def __init__(
        self, lines: list[str], shifts: dict[int, int], *, unknown_is_python: bool, functions: Container[str]
    ) -> None:
        self._unknown_is_python = unknown_is_python
        self._functions = functions
        self.lines = lines
        self.shifts = shifts
        self.escapes: list[Escape] = []

    def run(self, deadline: Deadline) -> None:
        index = next((i for i, line in enumerate(self.lines) if line.strip()), len(self.lines))
        if (
            index < len(self.lines)
            and self.lines[index].startswith("%%")
            and not self.lines[index].endswith("?")
        ):
            index = self._cell_magic(index)
        state = _LineState()
        while index < len(self.lines):
            if state.at_statement and not self.lines[index].lstrip().startswith("#"):
                last = self._last(index)
                if self._replace(index) and not self.lines[index].endswith("\\"):
                    self.lines[index + 1 : last + 1] = [""] * (last - index)
                    index = last
            state.read(self.lines[index])
            index += 1
            if not index % 256:
                deadline.check()

    def _cell_magic(self, index: int) -> int:
        match = _CELL_MAGIC.match(self.lines[index])
        if match is None:
            return index
        name, rest = match["name"], match["rest"]
        python = name in PYTHON_CELL_MAGICS
        self._note("cell_magic", name, rest, index, index if python else len(self.lines) - 1)
        if python or (self._unknown_is_python and not is_known_cell(name)):
            with_code = python and rest and name not in _OPTIONS_ONLY
            self.lines[index] = self._blanked(self.lines[index], 2 + len(name)) if with_code else ""
            if name in self._functions:
                self.lines[index] = f"{name}({rest!r}, '')"
            return index + 1
        self.lines[index:] = [""] * (len(self.lines) - index)
        return len(self.lines)

    def _replace(self, index: int) -> bool:
        line = self.lines[index]
        body = line.lstrip()
        indent = line[: len(line) - len(body)]
        if _HELP.match(body):
            self._note("help", "?", body, index)
            self.lines[index] = f"{indent}pass"
            return True
        if body.startswith("!"):
            self._note("shell", "!", self._continued(index).lstrip().lstrip("!"), index)
            self.lines[index] = f"{indent}pass"
            return True
        if body.startswith("%"):
            return self._line_magic(index, indent, body)
        called = _AUTOCALL.match(body)
        if called is not None:
            return self._autocall(index, indent, called)
        assigned = _ASSIGNED.search(body)
        if assigned is not None and assigned.start() and not _NO_TARGET.search(body[: assigned.start()]):
            return self._assigned(index, indent, assigned)
        return False

    def _autocall(self, index: int, indent: str, match: re.Match[str]) -> bool:
        """Replace ``/f x`` by ``f(x)``, ``,f a b`` by ``f("a", "b")``, and ``;f a b`` by ``f("a b")``."""
        rest = match["rest"].strip()
        arguments = {"/": rest, ",": ", ".join(map(repr, rest.split())), ";": repr(rest)}[match["sign"]]
        self._note("autocall", match["sign"], match["name"], index)
        self.shifts[index + 1] = self.shifts.get(index + 1, 0) + 1
        self.lines[index] = f"{indent}{match['name']}({arguments})"
        return True

    def _line_magic(self, index: int, indent: str, body: str) -> bool:
        match = _MAGIC.match(body)
        if match is None:
            return False
        self._note("line_magic", match["name"], match["rest"].strip(), index)
        if match["name"] in self._functions:
            self.lines[index] = f"{indent}{match['name']}({match['rest'].strip()!r})"
            return True
        python = match["name"] in PYTHON_LINE_MAGICS
        self.lines[index] = (
            self._blanked(self.lines[index], len(indent) + 1 + len(match["name"]), indent)
            if (python and match["rest"].strip())
            else f"{indent}pass"
        )
        return True

    def _assigned(self, index: int, indent: str, match: re.Match[str]) -> bool:
        escape = match["escape"]
        magic = _MAGIC.match(escape)
        if magic is None:
            self._note("shell", "!", self._continued(index).split("!", 1)[1], index)
        else:
            self._note("line_magic", magic["name"], magic["rest"].strip(), index)
        code = f"{indent}{match.string[: match.start()].rstrip()} = None"
        if magic is not None and magic["name"] in PYTHON_LINE_MAGICS and magic["rest"].strip():
            start = len(indent) + match.start("escape") + magic.end("name")
            code = self._blanked(self.lines[index], start, code + " ")
        self.lines[index] = code
        return True

    @staticmethod
    def _blanked(line: str, start: int, before: str = "") -> str:
        """Keep the Python that follows a magic and its options in its own columns."""
        while (option := _OPTION.match(line, start)) is not None:
            start = option.end()
        start += len(line[start:]) - len(line[start:].lstrip())
        head = before if before.strip() else f"{before}0"
        return f"{head:<{max(start - 1, len(head))}};{line[start:]}" if start < len(line) else f"{before}pass"

    def _continued(self, index: int) -> str:
        return "\n".join(self.lines[index : self._last(index) + 1])

    def _last(self, index: int) -> int:
        while self.lines[index].endswith("\\") and index + 1 < len(self.lines):
            index += 1
        return index

    def _note(self, kind: EscapeKind, name: str, rest: str, index: int, last: int | None = None) -> None:
        end = self._last(index) if last is None else last
        line = self.lines[index]
        left = self.shifts.get(index + 1, 0)
        column = len(line) - len(line.lstrip()) + left
        width = len(self.lines[end]) + self.shifts.get(end + 1, 0)
        span = Span(index + 1, column, end + 1, width)
        self.escapes.append(Escape(kind, name, rest, span, "\n".join(self.lines[index : end + 1]).strip()))


_MARK = re.compile(r"#|\"\"\"|'''|[\"'()\[\]{}]")
# Runs of ordinary characters between escapes; no possessive repeats, which Python 3.11.2 gets wrong.
_REST_OF_STRING = {
    quote: re.compile(rf"[^\\{quote[0]}]*(?:(?:\\.{more})[^\\{quote[0]}]*)*{quote}", re.DOTALL)
    for quote, more in (("'", ""), ('"', ""), ("'''", "|'(?!'')"), ('"""', '|"(?!"")'))
}


class _LineState:
    """The state between two lines: open strings and brackets, and a continued line."""

    def __init__(self) -> None:
        self.quote = ""
        self.depth = 0
        self.continued = False

    @property
    def at_statement(self) -> bool:
        return not self.quote and self.depth == 0 and not self.continued

    def read(self, line: str) -> None:
        """Update the state with one line of Python."""
        index = self._after_string(line, 0)
        while (mark := _MARK.search(line, index)) is not None and mark[0] != "#":
            index = mark.end()
            if mark[0][0] in "'\"":
                self.quote = mark[0]
                index = self._after_string(line, index)
            else:
                self.depth = max(0, self.depth + (1 if mark[0] in "([{" else -1))
        self.continued = line.endswith("\\") and not self.quote and "#" not in line
        if len(self.quote) == 1 and not line.endswith("\\"):
            self.quote = ""  # an unfinished string: an error that the parser reports

    def _after_string(self, line: str, index: int) -> int:
        """Return the column where the open string ends, or the end of the line if the string stays open."""
        if not self.quote:
            return index
        rest = _REST_OF_STRING[self.quote].match(line, index)
        if rest is None:
            return len(line)
        self.quote = ""
        return rest.end()


# the user's own magics: shell aliases, other names of magics, and functions that are registered as magics

_DEFINES = frozenset({"alias", "alias_magic"})
_MAX_MAGIC_NAME = 200
_DECORATORS = frozenset(
    f"{prefix}{kind}_magic" for prefix in ("register_", "") for kind in ("line", "cell", "line_cell")
)


def own_magics(escapes: Iterable[Escape], nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the magics that a cell defines, each with its meaning; see `Program.magics`."""
    for escape in escapes:
        if escape.kind == "line_magic" and escape.name in _DEFINES:
            yield from _defined(escape.name, escape.rest)
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(_decorator_name(each) in _DECORATORS for each in node.decorator_list):
                yield node.name, node.name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            yield from _by_call(node.func.attr, node.args)


def _decorator_name(node: ast.expr) -> str:
    return last_name(node.func if isinstance(node, ast.Call) else node)


def _by_call(method: str, arguments: Sequence[ast.expr]) -> Iterator[tuple[str, str]]:
    texts = [
        node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        for node in arguments
    ]
    if method == "run_line_magic" and texts[0] in _DEFINES:
        yield from _defined(texts[0], texts[-1])
    elif method in {"magic", "line_magic"} and texts[0].lstrip("%").partition(" ")[0] in _DEFINES:
        name, _, rest = texts[0].lstrip("%").partition(" ")
        yield from _defined(name, rest)
    elif method in {"define_alias", "soft_define_alias"}:
        yield from _defined("alias", " ".join(texts))
    elif method == "register_magic_function" and isinstance(arguments[0], ast.Name):
        yield arguments[0].id, arguments[0].id


def _defined(how: str, rest: str) -> Iterator[tuple[str, str]]:
    parts = [
        part for part in rest.split(maxsplit=2 if how == "alias_magic" else 1) if not part.startswith("-")
    ]
    if len(parts) > 1 and len(parts[0]) <= _MAX_MAGIC_NAME:
        yield (
            (parts[0], "!" + parts[1])
            if how == "alias"
            else (parts[0].lstrip("%"), "%" + parts[1].lstrip("%"))
        )


def resolve_own_magics(escapes: Iterable[Escape], own: Mapping[str, str]) -> tuple[Escape, ...]:
    """Resolve the user's own magics among escapes."""
    return tuple(_resolve_own_magic(escape, own) for escape in escapes) if own else tuple(escapes)


def _resolve_own_magic(escape: Escape, own: Mapping[str, str]) -> Escape:
    meaning = own.get(escape.name, "") if escape.kind in {"line_magic", "cell_magic"} else ""
    if meaning[:1] == "!" and escape.name not in magics.LINE:
        return replace(escape, kind="shell", name=f"%{escape.name}", rest=f"{meaning[1:]} {escape.rest}")
    return replace(escape, name=meaning[1:]) if meaning[:1] == "%" else escape
