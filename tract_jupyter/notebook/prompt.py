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


def ask(ticket: Ticket) -> Answer:
    """Ask on stdin and return the answer."""
    round_id = ticket.round_id
    action = _ask_action(ticket.request.actions)
    arguments = {}
    for parameter in action.parameters:
        value = _ask_value(parameter)
        if value is not ...:
            arguments[parameter.name] = value
    return Answer(action.name, arguments, round_id)


def _ask_action(actions: tuple[ReviewAction, ...]) -> ReviewAction:
    names = {action.name: action for action in actions}
    while True:
        given = input(f"{' / '.join(names)}? ").strip().lower()
        chosen = [name for name in names if name == given] or [
            n for n in names if given and n.startswith(given)
        ]
        if len(chosen) == 1:
            return names[chosen[0]]
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
