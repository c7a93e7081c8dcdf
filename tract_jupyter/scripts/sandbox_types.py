"""Checks a script's calls against the tools' stubs, before anything of it runs.

The sandbox has a type checker, which runs before the code. A checking session is given the script behind an import of
`tools`: at that import it stops and is thrown away, so that nothing of the script runs there. What is only untidy (a
variable that changes its type) is not told; what cannot work is: arguments, names, modules.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import re
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import nearest
from tract_jupyter.scripts.result import ScriptError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pydantic_monty import ExternalModule, Monty

    from tract_jupyter.scripts.source import Script

_CANNOT_WORK = frozenset(
    {"invalid-argument-type", "missing-argument", "unknown-argument", "too-many-positional-arguments"}
    | {"parameter-already-assigned", "unresolved-import", "unresolved-reference"}
)
_DECLARED = """\
from typing import Any
class ToolExecutionError(Exception): ...
class ToolDenied(ToolExecutionError): ...
"""
_NAME = re.compile(r"Name `(\w+)` used when not defined")
_NO_MEMBER = re.compile(r"Module `tools` has no member `(\w+)`")
_BUILTINS = frozenset(dir(builtins))  # the checker does not know all that the interpreter does


def check_calls(
    pool: Monty, module: ExternalModule, script: Script, variables: Collection[str]
) -> ScriptError | None:
    """What is wrong with a script's calls, all of it; None if nothing is.

    Args:
        pool: where sandboxes come from.
        module: the tools, with stubs.
        script: the code.
        variables: names that earlier scripts bound.
    """
    import pydantic_monty as monty

    declared = _DECLARED + "".join(f"{name}: Any\n" for name in sorted(variables))
    session = pool.checkout(
        type_check=True,
        type_check_stubs=declared,
        type_check_format="json",
        external_modules={"tools": module},
    )
    with session as checker:
        try:
            snapshot: Any = checker.feed_start(f"import tools\n{script.placed}")
            while getattr(snapshot, "function_name", "import") != "import":
                snapshot = snapshot.resume_auto()
        except monty.MontyTypingError as error:
            return _as_error(json.loads(error.display()), script, module)
        except monty.MontyError:
            return None  # it is no Python of the sandbox's, which running it tells better
    return None


def bound_names(code: str) -> set[str]:
    """The names that a script binds at its top level."""
    found: set[str] = set()
    stack: list[ast.AST] = list(ast.parse(code).body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        stack.extend(ast.iter_child_nodes(node))
    return found - {"tools", "ToolDenied", "ToolExecutionError", "*"}


def _as_error(
    diagnostics: Iterable[dict[str, Any]], script: Script, module: ExternalModule
) -> ScriptError | None:
    lines = list(io.StringIO(script.placed, newline=None))
    told = []
    for each in diagnostics:
        line = each["location"]["row"] - 1  # of the import in front
        if _matters(each) and 0 < line <= len(lines):
            message = each["message"] + _nearest_tool(each["message"], module)
            told.append(f"line {line}: {message}\n    {lines[line - 1].strip()}")
    if not told:
        return None
    first = told[0].partition("\n")[0]
    more = f", and {len(told) - 1} more" if len(told) > 1 else ""
    return ScriptError(
        "TypeCheckError",
        f"{first}{more}. Nothing of the script ran",
        "Nothing of the script ran: its calls cannot work.\n" + "\n".join(told) + "\n",
    )


def _nearest_tool(message: str, module: ExternalModule) -> str:
    missing = _NO_MEMBER.search(message)
    return "." + nearest(missing[1], module.attrs) if missing is not None else ""


def _matters(diagnostic: dict[str, Any]) -> bool:
    code, message = diagnostic["code"], diagnostic["message"]
    if code == "unresolved-attribute":
        return _NO_MEMBER.search(message) is not None
    unknown = _NAME.search(message)
    return code in _CANNOT_WORK and (unknown is None or unknown[1] not in _BUILTINS)
