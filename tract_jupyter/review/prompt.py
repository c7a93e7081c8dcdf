"""Ask line by line, with `input()` for example: first the action, then its arguments.

Each question repeats until its answer is valid. The values may directly follow the action, as in a line of `%tract
decide`. The prompt has additional words if a request allows them. `edit` asks for each value before it approves.
`session` and `always` approve these exact values without further questions.
"""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, ParameterError, UndecidedError, nearest
from tract_jupyter.models import canonical_json, printable, show_value
from tract_jupyter.models.schema import Parameters, type_text
from tract_jupyter.review.answers import carry_out
from tract_jupyter.review.channel import Ticket
from tract_jupyter.review.decision import Answer, with_terms
from tract_jupyter.review.introspection import OWN_WORDS
from tract_jupyter.review.request import how_to_decide
from tract_jupyter.review.text import request_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tract_jupyter.models import PendingStatus
    from tract_jupyter.models.schema import Parameter
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.request import ReviewAction, ReviewRequest

    Read = Callable[[str], str]

_EDIT, _SESSION, _ALWAYS = OWN_WORDS
_EXPLAINED = {
    _EDIT: "edit: change values, then {verb}",
    _SESSION: "session: {verb}, and do not ask again about these values of {actor} until this kernel or script ends",
    _ALWAYS: "always: {verb}, and never ask again about these values of {actor}",
}
_OPEN, _CLOSE = "([{", ")]}"
_SHOWN = 80
_TRIES = 5


def ask_until_decided(pending: Pending, read: Read) -> PendingStatus:
    """Show a pending and ask until it is decided. An empty answer or the end of the input leaves it open.

    Printed output of an action appears at once. The next round shows its return value or exception.
    """
    ticket = Ticket(pending, on_answer=lambda _: None)
    while ticket.status.is_open:
        print(request_text(ticket.request, ticket.status))  # noqa: T201 # the prompt prints
        try:
            answer = ask(ticket, read, may_wait=True)
        except EOFError:  # no more input is available
            break
        if answer is None:
            break
        note, result = carry_out(ticket, answer, "prompt")
        ticket.new_round(note or ("" if result is None else f"{answer.action}: {result}"))
    return ticket.status


def ask(ticket: Ticket, read: Read, *, may_wait: bool = False) -> Answer | None:
    """Ask once and return the answer. With `may_wait`, return None for "not now".

    The request was already shown. With `may_wait`, an empty answer, and repeated unreadable or refused answers, mean
    "not now".

    Raises:
        UndecidedError: several answers in a row were unreadable or refused.
    """
    try:
        _check_refused(ticket)
        return _ask_once(ticket, read, may_wait=may_wait)
    except UndecidedError as error:
        if not may_wait:
            raise
        print(error)  # noqa: T201
        return None


def _ask_once(ticket: Ticket, read: Read, *, may_wait: bool) -> Answer | None:
    round_id = ticket.round_id
    chosen = _ask_word(ticket, read, may_wait=may_wait)
    if chosen is None or isinstance(chosen, Answer):
        return chosen
    terms: dict[str, Any] = {}
    if isinstance(chosen, str):
        edits = _ask_edits(ticket, read) if chosen == _EDIT else {}
        terms = {"scope": chosen} if chosen != _EDIT else {"edits": edits} if edits else {}
        chosen = _main_action(ticket)
    arguments = {parameter.name: _ask_value(ticket, parameter, read) for parameter in chosen.parameters}
    values = {name: value for name, value in arguments.items() if value is not ...}
    return Answer(chosen.name, with_terms(chosen.name, values, terms), round_id)


def _ask_word(ticket: Ticket, read: Read, *, may_wait: bool) -> Answer | ReviewAction | str | None:
    """Ask for an action, a prompt word, or a complete answer in one line. Return None for "not now"."""
    words = _words(ticket)
    for word, choice in words.items():
        if isinstance(choice, str):
            print(printable(f"  {_explanation(ticket.request, choice)}"))  # noqa: T201
        elif choice.label.lower() != word and not choice.label.startswith("Run "):
            print(f"  {word}: {choice.label.lower()}")  # noqa: T201
    later = " (Enter: later, in %tract inbox)" if may_wait else ""
    for _ in _attempts(ticket):
        line = read(printable(f"{' / '.join(words)}?{later} ")).strip()
        if not line and may_wait:
            return None
        chosen = _find_word(ticket, line)
        if chosen is not None:
            return chosen
        if " " in line:
            try:
                return read_line(ticket, line)
            except (OperationError, ParameterError) as error:
                print(printable(f"  {error}"))  # noqa: T201
                continue
        print("Type one of the names, or its unique beginning.")  # noqa: T201
    return None


def _find_word(ticket: Ticket, text: str) -> ReviewAction | str | None:
    """Find the typed action or prompt word. The text may be a word, a button's label, or a unique prefix."""
    words, text = _words(ticket), text.lower()
    exact = [choice for word, choice in words.items() if text in (word, getattr(choice, "name", word))]
    begun = [choice for word, choice in words.items() if text and word.startswith(text)]
    labels = [action for action in ticket.request.actions if text and action.label.lower().startswith(text)]
    matches = exact or begun or labels
    return matches[0] if len(matches) == 1 else None


def read_line(ticket: Ticket, line: str) -> Answer:
    """Parse an answer from a line: `approve x=3`, `go n=2`, `reject too far`, `always`.

    Raises:
        OperationError: the action or value does not exist.
        ParameterError: a value is not valid.
    """
    word, _, rest = line.partition(" ")
    chosen, rest = _find_word(ticket, word), rest.strip()
    if chosen is None or chosen == _EDIT:
        offered = [known for known in _words(ticket) if known != _EDIT]
        raise OperationError(
            f"{word!r} is not one of its actions.{nearest(word, offered)} Actions: {', '.join(offered)}"
        )
    if isinstance(chosen, str):
        if rest:
            raise OperationError(f"{chosen} takes no values, got {rest[:60]!r}")
        main = _main_action(ticket)
        values = _arguments(main, "") if main.name != "approve" else {}
        return Answer(main.name, with_terms(main.name, values, {"scope": chosen}), ticket.round_id)
    if chosen.name == "approve" and not len(chosen.parameters):
        edits = _values(rest, ticket.request.fields or ())
        return Answer("approve", {"edits": edits} if edits else {}, ticket.round_id)
    return Answer(chosen.name, _arguments(chosen, rest), ticket.round_id)


def _main_action(ticket: Ticket) -> ReviewAction:
    """Return the action for `edit`, `session` and `always`. The prompt offers these words only if the action exists."""
    main = ticket.request.main_action
    assert main is not None  # noqa: S101 # see `_words`
    return main


def _arguments(action: ReviewAction, rest: str) -> dict[str, Any]:
    parameters = list(action.parameters)
    if len(parameters) == 1 and rest and not rest.startswith(f"{parameters[0].name}="):
        return {parameters[0].name: read_value(parameters[0], rest)}
    return _values(rest, parameters)


def _values(text: str, parameters: Iterable[Parameter]) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for part in split_words(text):
        name, equals, value = part.partition("=")
        if name in values:
            raise OperationError(f"{name!r} has two values; give one")
        if not equals or name not in known:
            problem = f"there is no value {name[:60]!r}" if equals else f"{part[:60]!r} is not name=value"
            raise OperationError(
                f"{problem}.{nearest(name, known)} "
                + (f"Type values as name=value, for: {', '.join(known)}" if known else "It takes no values")
            )
        values[name] = read_value(known[name], value)
    return values


def _attempts(ticket: Ticket) -> Iterator[int]:
    """Count the attempts to read an answer. The input may not come from a human."""
    yield from range(_TRIES)
    raise _retry_limit_error(ticket, "could not be read")


def _check_refused(ticket: Ticket) -> None:
    """Check that asking again is useful. The input may not come from a human and may always be the same."""
    if ticket.refused >= _TRIES:
        ticket.refused = 0  # the next request prompts again
        raise _retry_limit_error(ticket, "were refused")


def _retry_limit_error(ticket: Ticket, why: str) -> UndecidedError:
    return UndecidedError(
        f"nothing was decided about {ticket.request.title!r}: {_TRIES} answers {why}. It waits: "
        f"{how_to_decide(ticket.pending.pending_id)} asks again",
        ticket.pending,
    )


def _explanation(request: ReviewRequest, word: str) -> str:
    subject, main = request.subject, request.main_action
    verb = "approve" if main is None else action_word(main)
    if subject is None or word == _EDIT:
        return _EXPLAINED[word].format(verb=verb)
    if subject.rule:
        return f"{verb}, and in this session: {subject.rule}"
    ignored = ", ".join(
        f"{name} (now {show_value(value, _SHOWN)})" for name, value in subject.ignored.items()
    )
    return _EXPLAINED[word].format(actor=subject.actor, verb=verb) + (
        f"; {ignored} may differ" if ignored else ""
    )


def action_word(action: ReviewAction) -> str:
    """Return the word that a user types for an action: its label, or its name if the label is longer."""
    label = action.label.lower()
    if action.name == "approve":
        return label.partition(" ")[0]
    return action.name if label.startswith(("run ", f"{action.name} ")) else label


def _words(ticket: Ticket) -> dict[str, ReviewAction | str]:
    """Return the words that a user can type: the actions, and the prompt words that are not action names."""
    request = ticket.request
    words: dict[str, ReviewAction | str] = {action_word(action): action for action in request.actions}
    extra = [] if request.fields is None or not len(request.fields) else [_EDIT]
    if request.subject is not None:  # a session belongs to the asking process
        lasting = [] if request.subject.rule else [_ALWAYS]
        extra += lasting if ticket.pending.runs_elsewhere else [_SESSION, *lasting]
    names = {action.name for action in request.actions}
    offered = extra if request.action("approve") is not None else []
    return {**words, **{word: word for word in offered if word not in words and word not in names}}


def _ask_edits(ticket: Ticket, read: Read) -> dict[str, Any]:
    edits = {}
    for parameter in ticket.request.fields or ():
        value = _ask_value(ticket, parameter, read)
        if value is not ... and canonical_json(value) != canonical_json(parameter.default):
            edits[parameter.name] = value
    return edits


def _ask_value(ticket: Ticket, parameter: Parameter, read: Read) -> Any:
    """Ask for a value; return `...` for the default."""
    default = "" if parameter.required or parameter.optional else show_value(parameter.default, _SHOWN)
    offered = "" if parameter.required else f" [{default}]"
    for _ in _attempts(ticket):
        text = read(printable(f"  {parameter.name} ({type_text(parameter.annotation)}){offered}: "))
        if not text and not parameter.required:
            return ...
        try:
            return read_value(parameter, text)
        except ParameterError as error:
            print(f"  {error}")  # noqa: T201
    return ...


def read_value(parameter: Parameter, text: str) -> Any:
    """Parse a typed text as a value for a parameter."""
    checked = Parameters(parameter.name, [parameter])
    *first, last = _readings(text)
    for value in first:
        try:
            return checked.validate({parameter.name: value})[parameter.name]
        except ParameterError:
            continue
    return checked.validate({parameter.name: last})[parameter.name]


def _readings(text: str) -> list[Any]:
    """Return the interpretations of a typed text: JSON, a Python literal, or the text itself."""
    readings: list[Any] = []
    for reading in (json.loads, ast.literal_eval):
        try:
            readings.append(reading(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return [*readings, text]


def split_words(line: str) -> list[str]:
    """Split at spaces outside quotes and brackets."""
    words: list[str] = []
    start, depth, quote = None, 0, ""
    skip = False
    for index, char in enumerate(line):
        if char.isspace() and not quote and depth <= 0:
            if start is not None:
                words.append(line[start:index])
            start = None
            continue
        start = index if start is None else start
        if skip:
            skip = False
        elif quote:
            skip, quote = char == "\\", "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in _OPEN) - (char in _CLOSE)
    return words + ([line[start:]] if start is not None else [])
