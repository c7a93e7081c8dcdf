"""The inputs of an action, as the panel's script needs them."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.models.parameters import type_text

if TYPE_CHECKING:
    from tract_jupyter.models.parameters import Parameter
    from tract_jupyter.review.request import ReviewAction

_KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "text"}


def action_form(action: ReviewAction) -> dict[str, Any]:
    """A button with its inputs, as plain data."""
    return {
        "name": action.name,
        "label": action.label,
        "style": action.style,
        "description": action.description,
        "parameters": [_input(parameter, action) for parameter in action.parameters],
    }


def _input(parameter: Parameter, action: ReviewAction) -> dict[str, Any]:
    kind, choices = _kind(parameter.annotation)
    described = parameter.description or (
        "" if kind in {"boolean", "text"} else type_text(parameter.annotation)
    )
    is_reason = action.style == "reject"
    return {
        "name": parameter.name,
        "label": parameter.name.replace("_", " ").capitalize(),
        "kind": kind,
        "choices": choices,
        "required": parameter.required,
        "value": None if parameter.required else parameter.default,
        "help": "" if is_reason else described,
        "placeholder": described if is_reason else "",
    }


def _kind(annotation: Any) -> tuple[str, list[Any] | None]:
    """The kind of input, and what can be chosen. What has no input of its own is written as JSON."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        rest = [part for part in typing.get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return _kind(rest[0])
    if typing.get_origin(annotation) is Literal:
        return "choice", list(typing.get_args(annotation))
    return _KINDS.get(annotation, "json"), None
