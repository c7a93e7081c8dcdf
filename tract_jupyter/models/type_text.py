"""Types as a person writes them."""

from __future__ import annotations

import inspect
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITTEN = (str, bytes, int, type(None))  # as they stand in code
_GENERIC = frozenset({list, dict, tuple, set, frozenset})


def type_name(annotation: Any) -> str:
    """The name of what has no parts."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        return annotation.__name__
    return "..." if annotation is ... else inspect.formatannotation(annotation).replace("typing.", "")


def type_text(annotation: Any, name: Callable[[Any], str] = type_name) -> str:
    """The way a person writes the type: `list[str]`, not `<class 'list'>`; `name` tells how a part of it is called."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        return " | ".join(type_text(part, name) for part in parts)
    if origin is typing.Literal and all(isinstance(part, _WRITTEN) for part in parts):
        return f"{name(origin)}[{', '.join(map(repr, parts))}]"
    if origin is Annotated:
        return type_text(parts[0], name)
    if origin in _GENERIC and parts:
        return f"{name(origin)}[{', '.join(type_text(part, name) for part in parts)}]"
    return name(annotation)
