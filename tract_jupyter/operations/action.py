"""The code of an action, and its compilation into a function.

In the kernel, the body is parsed separately and placed under a function's syntax node. So multi-line strings keep
their text, and line 1 of a traceback is line 1 of the author's code. Compilation runs none of the author's code. It
executes only the `def` statement, which has no decorators, defaults or annotations.

`sandboxed` runs an action in the sandbox.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import linecache
import warnings
from types import CodeType
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FunctionType

    from tract_jupyter.models.schema import Parameters
    from tract_jupyter.operations.spec import ActionDef


def as_function(name: str, parameters: Iterable[str], body: str) -> str:
    """Write a function around a body. Line 1 of the body becomes line 2.

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


_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def compile_action(
    action: ActionDef, *, operation: str = "", parameters: Parameters | None = None
) -> Callable[..., Any]:
    """Compile an action's code into `function(pending, ...)`.

    Required parameters come first. Each call validates its arguments.

    Returns:
        A function with `__signature__`, `parameters`, and a `body` that takes validated arguments. The body of a
        sandboxed action runs in the sandbox. It changes the pending only if it succeeds.

    Raises:
        SpecError: the code is empty, has a syntax error (with its line), or can never run as an action.
    """
    parameters = action.parameters() if parameters is None else parameters
    filename = f"<action:{operation}.{action.name}>" if operation else f"<action:{action.name}>"
    if action.is_sandboxed:
        from tract_jupyter.operations.sandboxed import sandboxed_body

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
        from tract_jupyter.operations.sandboxed import check_sandboxed

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
