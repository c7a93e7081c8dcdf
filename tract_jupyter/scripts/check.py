"""The check before a script runs in the sandbox. It reports only certain errors.

It covers the statements that every run reaches, if no handler can catch the error. It skips branches, functions and
`try` blocks with handlers. It checks the names of a call's arguments, and their values if all of them are literals. All
other errors appear at run time.

The check is one pass over the syntax tree. It infers no types, so its time grows only with the length of the script.
"""

from __future__ import annotations

import ast
import builtins
import io
import sys
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ParameterError, nearest
from tract_jupyter.sandbox import find_bound_names
from tract_jupyter.scripts.kernel import NAMES
from tract_jupyter.scripts.result import ScriptError
from tract_jupyter.toolkit import all_functions, namespaces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tract_jupyter.scripts.script import Script
    from tract_jupyter.toolkit import ToolDefinition


TOOLS: Final = "tools"
_KNOWN_NAMES: Final = {*dir(builtins), *NAMES, TOOLS}
_RUN_TEXT: Final = {"eval", "exec"}
"""Builtins that can bind names which are not in the syntax tree."""
_MOST: Final = 20
"""The maximum number of reported problems. Finding the nearest name of each takes time."""
_UNKNOWN: Final = object()
"""An argument that is not a literal."""


class _Problem(NamedTuple):
    line: int
    text: str


def check_script(
    script: Script, tools: Mapping[str, ToolDefinition], variables: Collection[str]
) -> ScriptError | None:
    """Return the certain errors of a script; None if there are none."""
    tree = ast.parse(script.padded)
    problems = sorted(islice(_Check(tree, tools, variables).problems(), _MOST))
    if not problems:
        return None
    lines = list(io.StringIO(script.padded, newline=None))
    listed = [f"line {line}: {text}\n    {lines[line - 1].strip()}" for line, text in problems]
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    problem = f"line {problems[0].line}: {problems[0].text}{more}"
    return ScriptError(
        "TypeCheckError",
        f"{problem}{'' if problem.endswith(('.', '?')) else '.'} Nothing of the script ran",
        "Nothing of the script ran: these lines cannot work.\n" + "\n".join(listed) + "\n",
    )


class _Check:
    """The check of one script."""

    def __init__(
        self, tree: ast.Module, tools: Mapping[str, ToolDefinition], variables: Collection[str]
    ) -> None:
        self._tree = tree
        self._functions = all_functions(tools)
        self._spaces = namespaces(tools)
        bound = Counter(find_bound_names(tree))
        self._paths = _find_imports(tree, bound)
        self._names = {*bound, *variables, *_KNOWN_NAMES}

    def problems(self) -> Iterator[_Problem]:
        nodes = list(_walk_reached(self._tree))
        runs_text = any(isinstance(node, ast.Name) and node.id in _RUN_TEXT for node in nodes)
        for node in nodes:
            if isinstance(node, ast.Name) and not runs_text:
                yield from self._check_name(node)
            elif isinstance(node, ast.Attribute):
                yield from self._check_member(node)
            elif isinstance(node, ast.Call):
                yield from self._check_call(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._check_import(node)

    def _check_name(self, node: ast.Name) -> Iterator[_Problem]:
        if node.id not in self._names and not node.id.startswith("__"):
            yield _Problem(node.lineno, f"Name `{node.id}` used when not defined")

    def _check_member(self, node: ast.Attribute) -> Iterator[_Problem]:
        space = self._path_of(node.value)
        if space is not None and (space == "" or space in self._spaces):
            yield from self._check_known(node.lineno, space, node.attr)

    def _check_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[_Problem]:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            package, _, space = name.partition(".")
            if package == TOOLS and isinstance(node, ast.ImportFrom) and (not space or space in self._spaces):
                for alias in node.names:
                    yield from self._check_known(node.lineno, space, alias.name)
            elif package and package != TOOLS and package not in sys.stdlib_module_names:
                yield _Problem(node.lineno, f"There is no module `{name}` in the sandbox")

    def _check_known(self, line: int, space: str, name: str) -> Iterator[_Problem]:
        path = f"{space}.{name}" if space else name
        if name != "*" and path not in self._functions and path not in self._spaces:
            module = f"{TOOLS}.{space}" if space else TOOLS
            text = f"Module `{module}` has no member `{name}`."
            yield _Problem(line, text + nearest_tool(space, name, self._functions))

    def _check_call(self, node: ast.Call) -> Iterator[_Problem]:
        path = self._path_of(node.func)
        tool = self._functions.get(path or "")
        if tool is not None and not _has_stars(node):
            problems = _call_problems(tool, node)
            if problems:
                yield _Problem(node.lineno, f"`{TOOLS}.{path}`: {'; '.join(problems)}")

    def _path_of(self, node: ast.expr) -> str | None:
        """Return the path after `tools.`: empty for `tools` itself, None for other expressions."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        start = self._paths.get(node.id) if isinstance(node, ast.Name) else None
        return None if start is None else ".".join([*filter(None, [start]), *reversed(parts)])


def nearest_tool(space: str, name: str, functions: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for a missing name of a namespace of `tools`, or an empty text."""
    begin = f"{space}." if space else ""
    return nearest(name, (path.removeprefix(begin) for path in functions if path.startswith(begin)))


def _find_imports(tree: ast.AST, bound: Counter[str]) -> dict[str, str]:
    """Return the path after `tools.` of each name. Leave out names that the script binds twice."""
    paths = {} if TOOLS in bound else {TOOLS: ""}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [(alias.asname or "", alias.name) for alias in node.names]
            paths |= {
                name or TOOLS: path.partition(".")[2] if name else ""
                for name, path in imported
                if path.partition(".")[0] == TOOLS and bound[name or TOOLS] == 1
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == TOOLS:
            space = str(node.module).partition(".")[2]
            paths |= {
                alias.asname or alias.name: f"{space}.{alias.name}" if space else alias.name
                for alias in node.names
                if bound[alias.asname or alias.name] == 1
            }
    return paths


def _has_stars(node: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in node.args) or any(
        each.arg is None for each in node.keywords
    )


def _call_problems(tool: ToolDefinition, node: ast.Call) -> list[str]:
    args = tuple(map(_literal, node.args))
    try:
        values = tool.parameters.bind(args, {str(each.arg): _literal(each.value) for each in node.keywords})
        if any(value is _UNKNOWN for value in values.values()):
            return tool.parameters.misnamed(values)
        tool.validate(values)
    except ParameterError as error:
        return list(error.problems)
    return []


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return _UNKNOWN


def _walk_reached(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that every run reaches, and whose errors end the script."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        yield node
        stack.extend(_reached_parts(node))


_REACHED_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    ast.AnnAssign: ("value",),  # no annotation is evaluated
    ast.Assert: ("test",),
    ast.AsyncFor: ("iter",),
    ast.AsyncFunctionDef: ("decorator_list",),
    ast.AsyncWith: ("items",),
    ast.ClassDef: (),
    ast.For: ("iter",),
    ast.FunctionDef: ("decorator_list",),
    ast.If: ("test",),
    ast.IfExp: ("test",),
    ast.Lambda: (),
    ast.Match: ("subject",),
    ast.While: ("test",),
    ast.With: ("items",),  # leaving the block may suppress an error
}


def _reached_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts that a run always reaches after the node. A loop counts as not empty."""
    fields = _REACHED_FIELDS.get(type(node), node._fields)
    if isinstance(node, ast.BoolOp):
        yield node.values[0]
    elif isinstance(node, ast.Compare):
        yield from (node.left, node.comparators[0])
    elif isinstance(node, ast.Try):
        yield from [*(() if node.handlers else node.body), *node.finalbody]
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        yield node.generators[0].iter
        if len(node.generators) == 1 and not node.generators[0].ifs:
            yield from _elements(node)
    else:
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            yield from (part for part in parts if name in fields and isinstance(part, ast.AST))
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            yield from _until_left(node.body)


def _elements(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> list[ast.expr]:
    if isinstance(node, ast.GeneratorExp):  # it runs only on demand
        return []
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]


def _until_left(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a loop's body up to the first that may leave it."""
    for statement in body:
        yield statement
        if any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(statement)):
            return
