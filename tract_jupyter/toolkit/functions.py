"""What makes a Python function a tool: what its docstring says, and that JSON has a form for its parameters."""

from __future__ import annotations

import inspect
import types
import typing
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, Required, Union

from typing_extensions import is_typeddict

from tract_jupyter.exceptions import SpecError
from tract_jupyter.models.parameters import hints_of
from tract_jupyter.models.text import brief_repr, printable
from tract_jupyter.models.type_text import type_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from docstring_parser import Docstring

_LEAVES: Final = frozenset({str, int, float, bool, list, dict, type(None), None, Any})
_COMPOSED: Final = frozenset({list, Union, types.UnionType, NotRequired, Required})


def check_function(function: object) -> None:
    """Check that something can be called with named values and answers at once.

    Raises:
        SpecError: it is no function, an asynchronous one, or one whose parameters are not known.
    """
    if not inspect.isroutine(function):
        raise SpecError(f"a tool is made of a function, not of {brief_repr(function)}")
    try:
        inspect.signature(function)
    except ValueError:
        raise SpecError(
            f"Python does not tell what {function.__name__} takes; call it in a function of your own"
        ) from None
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise SpecError(
            f"{function.__name__} is asynchronous, and a tool answers at once; define it with 'def', and run what has "
            "to be awaited with asyncio.run in a thread of its own"
        )


def checked_name(name: object) -> str:
    """The name of a tool.

    Raises:
        SpecError: it is no text, is empty, cannot be shown, or is the one of a lambda.
    """
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise SpecError(f"a tool needs a name, such as 'search'; {brief_repr(name)} is none: give name='...'")
    if printable(name) != name:
        raise SpecError(f"the name of a tool has only characters that can be shown, and {name!a} has others")
    return name


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and what it says about each parameter.

    Google's style, numpy's and Sphinx's are known. Of a docstring that follows none of them, there is the first
    paragraph alone.
    """
    readings = _readings(text or "")
    if not readings:
        return _first_paragraph(inspect.cleandoc(text or "")), {}
    read = max(readings, key=lambda reading: len(reading.meta))
    about: dict[str, str] = {}
    for parameter in read.params:
        for name in parameter.arg_name.split(","):  # numpy's style describes several at once
            about[name.strip().lstrip("*")] = " ".join((parameter.description or "").split())
    return _first_paragraph(read.description or ""), about


def _readings(text: str) -> list[Docstring]:
    """Return what a docstring says in each style that it can be read in."""
    from docstring_parser import DocstringStyle, parse

    read = []
    for style in (DocstringStyle.REST, DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.EPYDOC):
        with suppress(Exception):  # ParseError, and an IndexError for some that are cut off
            read.append(parse(text, style))
    return read


def _first_paragraph(text: str) -> str:
    return text.partition("\n\n")[0].strip()


def check_json_types(function: Callable[..., Any]) -> None:
    """Check that every value that fits a parameter can be written as JSON, which is what models send.

    Raises:
        SpecError: one has another type, such as a date, or a type hint means nothing.
    """
    for name, hint in hints_of(function).items():
        wrong = None if name == "return" else _foreign(hint)
        if wrong is not None:
            raise SpecError(
                f"{function.__name__}: {name!r} takes {type_text(wrong)}, which a model cannot send; a tool takes str, "
                "int, float, bool, None, list, dict[str, ...], Literal, a TypedDict of such, or unions of them"
            )


def _foreign(annotation: Any, within: tuple[Any, ...] = ()) -> Any:
    """The part of a type that JSON has no form for; None if there is none."""
    annotation = _unwrapped(annotation)
    if annotation in within or _is_leaf(annotation):
        return None
    parts = _parts(annotation)
    if parts is None:
        return annotation
    found = (_foreign(part, (*within, annotation)) for part in parts)
    return next((wrong for wrong in found if wrong is not None), None)


def _unwrapped(annotation: Any) -> Any:
    """The type without what is said about it, and what an alias (`type Row = dict[str, int]`) stands for."""
    if typing.get_origin(annotation) is Annotated:
        return annotation.__origin__
    return getattr(annotation, "__value__", annotation)


def _parts(annotation: Any) -> list[Any] | None:
    """The types that a type is made of; None if it is none of those that JSON has a form for."""
    origin, arguments = typing.get_origin(annotation), list(typing.get_args(annotation))
    if origin is Literal:
        return [type(value) for value in arguments]
    if origin is dict:
        return arguments[1:] if arguments[0] is str else None
    if origin in _COMPOSED:
        return arguments
    if is_typeddict(annotation):
        return list(typing.get_type_hints(annotation, include_extras=True).values())
    return None


def _is_leaf(annotation: Any) -> bool:
    try:
        return annotation in _LEAVES
    except TypeError:  # it has no hash, so it is none of them
        return False
