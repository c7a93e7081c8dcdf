"""Compiling an action: from the author's text to a function, with nothing of the text changed.

What declares `isolation: sandbox` is checked, and never becomes a function of this process. The rest: the body
is parsed on its own and put under a function's syntax node, so strings over several lines keep their text and line 1
of a traceback is line 1 of what the author wrote. Compiling runs nothing: the only statement that is executed is the
`def`, which has no decorators, defaults or annotations.
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
from tract_jupyter.hooks.dynamic.sandboxed import check_sandboxed, sandboxed_body

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

    from tract_jupyter.hooks.dynamic.spec import ActionDef

_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def compile_action(action: ActionDef, *, operation: str = "") -> Callable[..., Any]:
    """Compile an action's code into `function(pending, ...)`.

    Args:
        action: its parameters become the function's, required ones first; arguments are validated at each call.
        operation: the operation's name, for tracebacks: `<action:operation.name>`.

    Returns:
        A function with `__signature__`, its `parameters`, and the `body` that takes validated arguments. The body of
        a sandboxed action runs there, and changes the pending only if it ends well.

    Raises:
        SpecError: the code is empty, has a syntax error (with its line), or can never run as an action.
    """
    parameters = action.parameters()
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
    # mtime None: linecache drops an entry whose file is not on disk otherwise
    linecache.cache[filename] = (
        len(action.code),
        None,
        list(io.StringIO(action.code, newline=None)),
        filename,
    )
    return run


def check_code(action: ActionDef) -> None:
    """Check that an action's code would compile. The code object is thrown away: nothing is made, nothing runs.

    Raises:
        SpecError: as for `compile_action`; or it runs in the sandbox, and uses what is not there.
    """
    _code_of(action, tuple(action.params), f"<action:{action.name}>")
    if action.is_sandboxed:
        check_sandboxed(action)


def _compile_body(action: ActionDef, names: tuple[str, ...], filename: str) -> FunctionType:
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": filename}
    exec(_code_of(action, names, filename), namespace)  # noqa: S102 # only the 'def'
    made: FunctionType = namespace[action.name]
    return made


def _code_of(action: ActionDef, names: tuple[str, ...], filename: str) -> CodeType:
    """The code object of a module that holds only the action's `def`."""
    try:
        statements = _quietly(lambda: ast.parse(action.code, filename)).body
        module = _module_of(action.name, names, statements)
        code: CodeType = _quietly(lambda: compile(module, filename, "exec", dont_inherit=True))
    except SyntaxError as error:
        raise SpecError(_explain(error), line=error.lineno, action=action.name) from None
    except UnicodeEncodeError:
        raise SpecError(
            "the code holds a lone surrogate, which is no valid Unicode", action=action.name
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SpecError(
            f"the code cannot be compiled: {str(error) or 'nested too deeply'}", action=action.name
        ) from None
    if not statements:
        raise SpecError("there is no code; write at least 'pending.approve()'", action=action.name)
    bodies = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    if any(body.co_flags & _NOT_PLAIN for body in bodies):
        raise SpecError(
            "the code uses 'yield' or 'await', so calling it would not run it", action=action.name
        )
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


def _quietly(parse: Callable[[], Any]) -> Any:
    """Without the compiler's own warnings: the reviewer reads findings, not stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse()


def _explain(error: SyntaxError) -> str:
    text = (error.text or "").strip()
    return f"{error.msg}{f': {text[:80]}' if text else ''}"
