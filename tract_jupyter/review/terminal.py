"""Deciding at a terminal: the request as text, and questions that are asked again until an answer fits."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import DecidedFirstError, ParameterError
from tract_jupyter.models.parameters import Parameters, type_text
from tract_jupyter.review.decision import deciding

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.parameters import Parameter
    from tract_jupyter.models.pending import PendingStatus
    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.request import CodeBlock, ReviewAction, ReviewRequest

    Prompt = Callable[[str], str]

_LATER: Any = object()
"""What a question gives that was left for later."""


def review(pending: Reviewable, prompt: Prompt) -> PendingStatus:
    """Show a pending and ask until it is decided, or an empty answer (or the end of the input) leaves it open.

    What an action raises is shown, and the question asked again.
    """
    note = ""
    while pending.status.is_open:
        request = pending.review_request(note)
        print(request_text(request))  # noqa: T201 # that is what it is for
        try:
            action = _ask_action(request.actions, prompt)
            if action is None:
                break
            arguments = _ask_arguments(action, prompt)
        except EOFError:  # there is nobody at the other end
            break
        note = _carried_out(pending, action.name, arguments, request.fingerprint)
    return pending.status


def request_text(request: ReviewRequest) -> str:
    """Everything that is shown of a pending, as text."""
    lines = [request.title, request.summary, request.why]
    lines += [line for block in request.code for line in _code_lines(block)]
    for table in request.tables:
        lines.append(f"{table.title}:")
        lines += [
            f"  {row.name} ({row.type}): {row.value}{f'  # {row.description}' if row.description else ''}"
            for row in table.rows
        ]
    lines.append(request.note)
    return "\n".join(line for line in lines if line)


def _code_lines(block: CodeBlock) -> list[str]:
    numbered = [f"  {n:>4}  {line}" for n, line in enumerate(block.code.splitlines(), block.first_line)]
    found = [f"  line {f.span.line}: {f.level.value} {f.code} {f.reason}" for f in block.findings]
    return [f"{block.title}:", *([f"        {block.header}"] if block.header else []), *numbered, *found]


def _carried_out(pending: Reviewable, name: str, arguments: dict[str, Any], shown: str) -> str:
    """Carry an answer out, and return what the next showing should say about it."""
    try:
        with deciding("prompt", shown=shown):
            result = pending.execute_tool(name, arguments)
    except DecidedFirstError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 # an action may raise anything; the person is told
        return f"{type(error).__name__}: {error}"
    return pending.note or (f"{name}: {result}" if result is not None else "")


def _ask_action(actions: tuple[ReviewAction, ...], prompt: Prompt) -> ReviewAction | None:
    """The action that was named, or as much of it as tells it from the others; None for an empty answer."""
    names = {action.label.lower(): action for action in actions}
    while True:
        given = prompt(f"{' / '.join(names)} (Enter: later)? ").strip().lower()
        if not given:
            return None
        exact = [action for label, action in names.items() if given in (label, action.name)]
        begun = [action for label, action in names.items() if label.startswith(given)]
        if len(exact or begun) == 1:
            return (exact or begun)[0]
        print("Type one of the names, or as much of it as tells it from the others.")  # noqa: T201


def _ask_arguments(action: ReviewAction, prompt: Prompt) -> dict[str, Any]:
    given = {parameter.name: _ask_value(parameter, prompt) for parameter in action.parameters}
    return {name: value for name, value in given.items() if value is not _LATER}


def _ask_value(parameter: Parameter, prompt: Prompt) -> Any:
    """The value that was typed, `_LATER` if the default is to be taken."""
    default = "" if parameter.required else f" [{'' if parameter.optional else parameter.default!r}]"
    checked = Parameters(parameter.name, [parameter])
    while True:
        given = prompt(f"  {parameter.name} ({type_text(parameter.annotation)}){default}: ")
        if not given and not parameter.required:
            return _LATER
        for value in _readings(given):
            try:
                return checked.validate({parameter.name: value})[parameter.name]
            except ParameterError as error:
                problem = error
        print(f"  {problem}")  # noqa: T201


def _readings(text: str) -> list[Any]:
    """What a typed text may mean: JSON, a Python literal, or itself."""
    readings: list[Any] = []
    for read in (json.loads, ast.literal_eval):
        try:
            readings.append(read(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return [*readings, text]
