"""Python functions that operations of kind `compute` call, by name.

Only what was registered can be called: a profile is data, and names no module. A function gets the context and its
arguments, and returns a JSON value, effects, or an `Output`; it does nothing else, so that a replay gives the same.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, overload

from tract_jupyter.exceptions import RunError

Function = TypeVar("Function", bound=Callable[..., Any])
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


class Functions(Mapping[str, Callable[..., Any]]):
    """Functions by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._functions))

    def __len__(self) -> int:
        return len(self._functions)

    @overload
    def register(self, name: Function) -> Function: ...
    @overload
    def register(
        self, name: str | None = None, *, replace: bool = False
    ) -> Callable[[Function], Function]: ...
    def register(
        self, name: str | Function | None = None, *, replace: bool = False
    ) -> Function | Callable[[Function], Function]:
        """Decorate a function `f(context, arguments)` that operations may call: with parentheses or without.

        Args:
            name: what it is called by, its own name if left out.
            replace: let it take the place of another one; otherwise only the same function, defined again, may.

        Raises:
            RunError: the name is none, or taken, or the function cannot be called with a context and arguments.
        """

        def add(function: Function) -> Function:
            own = name is None or callable(name)
            chosen: Any = getattr(function, "__name__", "") if own else name
            _check(chosen, function)
            former = self._functions.get(chosen)
            if former is not None and not replace and _home(former) != _home(function):
                raise RunError(
                    f"a function {chosen!r} is registered already, {'.'.join(_home(former))}; give another name, or "
                    "replace=True"
                )
            self._functions[chosen] = function
            return function

        return add(name) if callable(name) else add


def is_importable(function: Callable[..., Any]) -> bool:
    """Whether another process finds it under its module and name, so that it can be pickled."""
    module, name = _home(function)
    found: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))


def _check(name: object, function: Callable[..., Any]) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RunError(f"{name!r} is no name of a function: letters, digits, '.', '_', '-', at most 100")
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise RunError(
            f"{name!r} is no plain function; operations run on threads, so give one that is not async"
        )
    try:
        inspect.signature(function).bind(None, {})
    except TypeError:
        raise RunError(
            f"{name!r} cannot be called as f(context, arguments); give it these two parameters"
        ) from None
    except ValueError:  # of some functions in C nobody knows the parameters
        return


FUNCTIONS: Final = Functions()
"""Those of this process."""

run_function: Final = FUNCTIONS.register
"""Decorates a function that operations of kind `compute` may call: `@run_function`, or `@run_function("name")`."""
