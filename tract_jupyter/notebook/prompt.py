"""Asking by `input()`: the action, then its arguments, each again until it fits."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ParameterError
from tract_jupyter.models.parameters import Parameters, type_text
from tract_jupyter.review.decision import Answer

if TYPE_CHECKING:
    from tract_jupyter.models.parameters import Parameter
    from tract_jupyter.review.request import ReviewAction
    from tract_jupyter.review.ticket import Ticket


def ask(ticket: Ticket, *, may_wait: bool = False) -> Answer | None:
    """Ask on stdin and return the answer; with `may_wait`, None for "not now"."""
    round_id = ticket.round_id
    action = _ask_action(ticket.request.actions, may_wait=may_wait)
    if action is None:
        return None
    arguments = {}
    for parameter in action.parameters:
        value = _ask_value(parameter)
        if value is not ...:
            arguments[parameter.name] = value
    return Answer(action.name, arguments, round_id)


def _ask_action(actions: tuple[ReviewAction, ...], *, may_wait: bool) -> ReviewAction | None:
    names = {action.label.lower(): action for action in actions}
    later = " (Enter: later, in %tract inbox)" if may_wait else ""
    while True:
        given = input(f"{' / '.join(names)}?{later} ").strip().lower()
        if not given and may_wait:
            return None
        exact = [action for label, action in names.items() if given in (label, action.name)]
        begun = [action for label, action in names.items() if given and label.startswith(given)]
        if len(exact or begun) == 1:
            return (exact or begun)[0]
        print("Type one of the names, or as much of it as tells it from the others.")  # noqa: T201


def _ask_value(parameter: Parameter) -> Any:
    """The value given, or `...` for the default."""
    default = "" if parameter.required else f" [{'' if parameter.optional else parameter.default!r}]"
    checked = Parameters(parameter.name, [parameter])
    while True:
        given = input(f"  {parameter.name} ({type_text(parameter.annotation)}){default}: ")
        if not given and not parameter.required:
            return ...
        for value in _readings(given):
            try:
                return checked.validate({parameter.name: value})[parameter.name]
            except ParameterError as error:
                problem = error
        print(f"  {problem}")  # noqa: T201


def _readings(text: str) -> list[Any]:
    """What a typed text may mean: JSON, a Python literal, or itself."""
    readings = []
    for read in (json.loads, ast.literal_eval):
        try:
            readings.append(read(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return [*readings, text]
