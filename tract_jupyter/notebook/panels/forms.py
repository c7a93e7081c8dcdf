"""The inputs of an action, as the panel's script needs them: plain data."""

from __future__ import annotations

import json
import types
import typing
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.models.type_text import type_text
from tract_jupyter.review.grants import whom_in_words
from tract_jupyter.review.request import show_value

if TYPE_CHECKING:
    from tract_jupyter.models.parameters import Parameter, Parameters
    from tract_jupyter.review.fingerprint import Subject
    from tract_jupyter.review.request import ReviewAction
    from tract_jupyter.review.ticket import Ticket

_KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "text"}
_LONGEST = 20_000  # characters of a value that can still be changed in a panel
_SHOWN = 60
_SCOPES = {
    "once": "Ask again each time",
    "session": "Not again in this session",
    "always": "Never again, until revoked",
}


def _whom(actor: str) -> list[tuple[str, str]]:
    """For whom a standing approval may be, with what it is called."""
    words = {whom: whom_in_words(actor, whom) for whom in ("this", "children", "anybody")}
    return list({**words, "this": f"{actor} only", "anybody": "anybody who asks"}.items())


def action_forms(ticket: Ticket) -> list[dict[str, Any]]:
    """The buttons of a ticket with their inputs; approving has forms for changed values and for how long it holds."""
    request = ticket.request
    forms = [action_form(action) for action in request.actions]
    for form in forms:
        if form["name"] == "approve":
            form["edits"] = edit_form(request.fields)
            form["standing"] = standing_form(request.subject, elsewhere=ticket.pending.runs_elsewhere)
    return forms


def action_form(action: ReviewAction) -> dict[str, Any]:
    """A button with its inputs."""
    inputs = [_input(parameter) for parameter in action.parameters]
    if action.style == "reject":
        inputs = [{**made, "help": "", "placeholder": made["help"]} for made in inputs]
    return {
        "name": action.name,
        "label": action.label,
        "style": action.style,
        "description": action.description,
        "parameters": inputs,
    }


def edit_form(fields: Parameters | None) -> list[dict[str, Any]]:
    """An input for each value that may be changed before approving."""
    return [] if fields is None else [_edit_input(parameter) for parameter in fields]


def standing_form(subject: Subject | None, *, elsewhere: bool) -> dict[str, Any] | None:
    """How long an approval may hold, and for which values; None if it is asked about each time.

    A session is that of the process that asked, so where that is `elsewhere`, it cannot be given here.
    """
    if subject is None:
        return None
    scopes = [(name, label) for name, label in _SCOPES.items() if not (elsewhere and name == "session")]
    return {
        "scopes": scopes,
        "values": [_pattern_input(name, value) for name, value in subject.values.items()],
        "whom": _whom(subject.actor),
        "ignored": [
            {"name": name, "shown": show_value(value, _SHOWN)} for name, value in subject.ignored.items()
        ],
    }


def _pattern_input(name: str, value: Any) -> dict[str, Any]:
    is_text = isinstance(value, str)
    return {
        "name": name,
        "shown": show_value(value, _SHOWN),
        "is_text": is_text,
        "text": value if is_text and len(value) <= _SHOWN else "",
        "placeholder": "data/*" if is_text else "[1, 2] or *",
    }


def _edit_input(parameter: Parameter) -> dict[str, Any]:
    made = _input(parameter)
    made["label"] = parameter.name  # as in the table above it, and in the code
    made["required"] = made["kind"] in {"integer", "number", "json"} and not made["nullable"]
    if len(made["text"]) > _LONGEST:
        return {**made, "kind": "fixed", "text": "", "help": "too long to be changed here; use code"}
    return made


def _input(parameter: Parameter) -> dict[str, Any]:
    kind, choices = _kind(parameter.annotation)
    described = parameter.description or (
        "" if kind in {"boolean", "text"} else type_text(parameter.annotation)
    )
    value = None if parameter.required else parameter.default
    return {
        "name": parameter.name,
        "label": parameter.name.replace("_", " ").capitalize(),
        "kind": kind,
        "choices": choices,
        "required": parameter.required,
        "nullable": parameter.optional or type(None) in typing.get_args(parameter.annotation),
        "value": value if kind in {"boolean", "choice"} else None,
        "text": _text(value, kind),
        "help": described,
        "placeholder": "",
    }


def _text(value: Any, kind: str) -> str:
    """The value as it stands in an input: exactly, where a script would round it."""
    if value is None:
        return ""
    return value if kind == "text" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(annotation: Any) -> tuple[str, list[Any] | None]:
    """The kind of input, and what can be chosen. What has no input of its own is written as JSON."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        rest = [part for part in typing.get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return _kind(rest[0])
    if typing.get_origin(annotation) is Literal:
        return "choice", list(typing.get_args(annotation))
    return _KINDS.get(annotation, "json"), None
