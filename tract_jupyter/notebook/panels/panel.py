"""The live panel: one anywidget for one ticket.

A panel is one comm, so an answer arrives as one message with all its inputs. A tree of widgets would send the inputs
and the click separately, in any order. The callback may run in any thread. It passes the answer to the ticket and
does nothing else.
"""

from __future__ import annotations

import json
import threading
import time
import types
import typing
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import anywidget
import traitlets

from tract_jupyter.analysis import RiskLevel
from tract_jupyter.models import show_value
from tract_jupyter.models.schema import type_text
from tract_jupyter.notebook.front_end import honour_the_front_ends_subshell
from tract_jupyter.notebook.panels.code import STATIC_STYLES
from tract_jupyter.notebook.panels.effects import effects_html
from tract_jupyter.notebook.panels.render import (
    full_html,
    headline_html,
    record_html,
    risk_html,
    row_html,
    value_css,
)
from tract_jupyter.notebook.views.html import asset
from tract_jupyter.notebook.views.styles import LOOK
from tract_jupyter.review import (
    Answer,
    decided_text,
    describe_actors,
    first_sentence,
    is_news,
    record_text,
    view_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.schema import Parameter, Parameters
    from tract_jupyter.review import RequestView, ReviewAction, Subject, Ticket


CHANNEL_NAME = "panel"
SILENT_SECONDS = 120.0
"""The time after which a silent page counts as closed. Browsers let pages in the background send once a minute."""


_REMEMBERED = 256  # messages; the front end repeats one for a few seconds only


class ReviewWidget(anywidget.AnyWidget):
    """Base class of the widgets that take decisions: one anywidget with one comm.

    Synced state: `ready` and `heard` acknowledge messages of the front end; `page` is the load id of the page that
    showed the widget first.
    """

    ready = traitlets.Bool(default_value=False).tag(sync=True)
    heard = traitlets.Unicode("").tag(sync=True)
    page = traitlets.Unicode("").tag(sync=True)
    _pages: ClassVar[dict[str, float]] = {}
    """The pages with widgets of this kernel, each with the time of its last message."""
    _latest: ClassVar[ReviewWidget | None] = None
    """The widget that sent the latest of these messages."""

    def __init__(self, **state: Any) -> None:
        self._received: deque[str] = deque(maxlen=_REMEMBERED)
        self._receiving = threading.Lock()
        super().__init__(**state)
        self.on_msg(self._on_message)
        honour_the_front_ends_subshell(self.comm)

    def take(self, content: dict[str, Any]) -> None:
        """Pass an answer on. Called in any thread, and again if the front end saw no acknowledgement."""
        raise NotImplementedError

    def acknowledge(self, content: dict[str, Any]) -> bool:
        """Acknowledge a message. Return True if it has a key and is not a repeated one."""
        key = content.get("key")
        if not isinstance(key, str):
            return False
        with self._receiving:
            is_new = key not in self._received
            if is_new:
                self._received.append(key)
        self.heard = key
        return is_new

    def fallback(self) -> dict[str, str]:
        """Return HTML and text for front ends without live views."""
        raise NotImplementedError

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Ignore state from a page. Only the kernel sets it, because a page would share it with all other pages."""

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if not isinstance(content, dict):
            return
        kind, page = content.get("type"), str(content.get("page", ""))
        if kind in {"ready", "here"}:
            self._pages[page] = time.monotonic()
            ReviewWidget._latest = self
        if kind == "ready":
            self.page = self.page or page
            self.ready = True
        elif kind == "gone":
            self._pages.pop(page, None)
        elif kind == "decide":
            self.take(content)

    @classmethod
    def end_prompts(cls) -> None:
        """Let the page remove the boxes of ended prompts."""
        if cls._latest is not None:
            cls._latest.send({"type": "prompt_over"})

    @classmethod
    def is_page_open(cls) -> bool:
        """Return True if a page that showed a widget of this kernel may still be open."""
        now = time.monotonic()
        return any(now - heard < SILENT_SECONDS for heard in tuple(cls._pages.values()))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **self.fallback()}, metadata


def read_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return the arguments of an answer; None if they are not valid.

    A script sends them as JSON text, because JavaScript rounds large numbers.
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, dict) else None


def read_seen(content: dict[str, Any]) -> frozenset[str]:
    """Return the keys of the content that was on display, as the script reports them."""
    seen = content.get("seen")
    return frozenset(key for key in seen if isinstance(key, str)) if isinstance(seen, list) else frozenset()


_KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "text"}
_LONGEST = 20_000  # the most characters of an editable value
_SHOWN = 60
_SCOPES = {"session": "in this session", "always": "always, until revoked"}


def _requester_choices(actor: str) -> list[tuple[str, str]]:
    words = {whom: describe_actors(actor, whom) for whom in ("this", "children", "anybody")}
    return list({**words, "this": f"{words['this']} only", "anybody": "any requester"}.items())


def action_forms(ticket: Ticket) -> list[dict[str, Any]]:
    """Return the buttons of a ticket with their inputs.

    The button of style "approve" is the primary one. There is none if several actions could run. The main action also
    has forms for changed values and for standing approvals.
    """
    request = ticket.request
    forms = [action_form(action) for action in request.actions]
    for form, action in zip(forms, request.actions, strict=True):
        if action is request.main_action:
            form["edits"] = [] if request.choices else edit_form(request.fields)
            form["standing"] = standing_form(request.subject, elsewhere=ticket.pending.runs_elsewhere)
    return forms


def action_form(action: ReviewAction) -> dict[str, Any]:
    """Return a button with its inputs."""
    inputs = [_input(parameter) for parameter in action.parameters]
    if action.style == "reject":
        inputs = [{**item, "help": "", "placeholder": item["help"]} for item in inputs]
    return {
        "name": action.name,
        "label": action.label,
        "style": action.style,
        "description": action.description,
        "parameters": inputs,
    }


def edit_form(fields: Parameters | None) -> list[dict[str, Any]]:
    """Return an input for each value that the user may change before approving."""
    return [] if fields is None else [_edit_input(parameter) for parameter in fields]


def standing_form(subject: Subject | None, *, elsewhere: bool) -> dict[str, Any] | None:
    """Return the form of a standing approval; None if the request has to be approved each time.

    The session belongs to the requesting process. So this scope is missing for a request from `elsewhere`.
    """
    if subject is None or (subject.rule and elsewhere):
        return None
    if subject.rule:
        return {"rule": subject.rule, "label": "Let the model look", "submit": "Let it look, and send this"}
    scopes = [(name, label) for name, label in _SCOPES.items() if not (elsewhere and name == "session")]
    return {
        "scopes": scopes,
        "values": [_pattern_input(name, value) for name, value in subject.values.items()],
        "whom": _requester_choices(subject.actor),
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
    item = _input(parameter)
    item["label"] = parameter.name  # as in the table above it, and in the code
    item["required"] = item["kind"] in {"integer", "number", "json"} and not item["nullable"]
    if len(item["text"]) > _LONGEST:
        return {**item, "kind": "fixed", "text": "", "help": "too long to change here; change it in code"}
    return item


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
    if value is None:
        return ""
    return value if kind == "text" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(annotation: Any) -> tuple[str, list[Any] | None]:
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        rest = [part for part in typing.get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return _kind(rest[0])
    if typing.get_origin(annotation) is Literal:
        return "choice", list(typing.get_args(annotation))
    return _KINDS.get(annotation, "json"), None


REQUEST_SCRIPTS = (
    "panels/common.js",
    "panels/rows.js",
    "panels/editor.js",
    "panels/forms.js",
    "panels/choices.js",
    "panels/request.js",
)
"""The scripts that draw a request as a row and take its answer: `requestRow` of request.js."""
REQUEST_STYLES = (*STATIC_STYLES, "panels/question.css", "panels/effects.css")
"""The styles of such rows, in an element of class `tract`."""
_UNREADABLE = "Nothing was decided: the values of this answer are not valid. Correct them and try again."


class Panel(ReviewWidget):
    """A widget that shows a ticket and takes the answer.

    Synced state: `view` is drawn.
    """

    _esm = "".join(map(asset, (*REQUEST_SCRIPTS, "panels/panel.js")))
    _css = "".join(map(asset, REQUEST_STYLES))
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, ticket: Ticket) -> None:
        self._ticket, self._answers = ticket, Answers()
        super().__init__(view=panel_data(ticket))

    def refresh(self) -> None:
        """Draw the current state of the ticket."""
        self.view = self._answers.data(self._ticket)

    def take(self, content: dict[str, Any]) -> None:
        """Pass a click to the ticket. If it came too late, show who decided."""
        if is_answer(content):
            self.heard = content["round_id"]
            if self._answers.take(self._ticket, content):
                self.refresh()

    def fallback(self) -> dict[str, str]:
        """Return the record, for front ends without live views."""
        return {"text/plain": record_text(self._ticket), "text/html": record_html(self._ticket)}


class WaitingButton(ReviewWidget):
    """Turns the number in a static line into a button. It leads to the first request on the page, or opens the inbox.

    The widget has no display, so a saved notebook has only the static line.
    """

    _esm = asset("panels/waiting.js")
    line = traitlets.Unicode("").tag(sync=True)

    def __init__(self, line: str, open_inbox: Callable[[], None]) -> None:
        self._open_inbox = open_inbox
        super().__init__(line=line)

    def take(self, content: dict[str, Any]) -> None:  # noqa: ARG002 # a click has no further content
        """Open the inbox."""
        self._open_inbox()


_SIDE_ACTIONS = frozenset({"stop", "open", "queue", "remove"})


class StatePanel(ReviewWidget):
    """A widget with the running turn and its Stop, a field for follow-ups, and the state of the tract.

    Synced state: `view` is drawn.

    Args:
        act: performs an action, in any thread.
        view: `is_open` and `has_store`; `running` (the message of the turn, or None) and its `foot` as HTML; `queue`;
            `facts` as HTML.
    """

    _esm = "".join(map(asset, ("panels/common.js", "panels/side.js")))
    _css = "".join(map(asset, (LOOK, "panels/side.css")))
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, act: Callable[[str, dict[str, Any]], None], view: dict[str, Any]) -> None:
        self._act = act
        super().__init__(view=view)

    def take(self, content: dict[str, Any]) -> None:
        """Perform an action once."""
        action = content.get("action")
        if action in _SIDE_ACTIONS and self.acknowledge(content):
            self._act(str(action), content)

    def fallback(self) -> dict[str, str]:
        """Return nothing. The widget is never part of a notebook."""
        return {"text/plain": ""}


def is_answer(content: dict[str, Any]) -> bool:
    """Return True if a message is an answer to a round."""
    return isinstance(content.get("action"), str) and isinstance(content.get("round_id"), str)


class Answers:
    """Passes the answers of a page to tickets, and keeps the reasons of refusals. Any thread may use it."""

    def __init__(self) -> None:
        self._heard: set[str] = set()
        """The rounds with an answer."""
        self._late: dict[str, tuple[str, str, int]] = {}
        """By pending: the round of the last refused answer, the reason, and the number of refusals."""
        self._lock = threading.Lock()

    def take(self, ticket: Ticket, content: dict[str, Any]) -> bool:
        """Pass an answer to its ticket. Return True if it was refused; a repeated message never is."""
        pending_id, round_id = ticket.pending.pending_id, content["round_id"]
        with self._lock:
            is_again = round_id in self._heard
            self._heard.add(round_id)
        why, arguments = _UNREADABLE, read_arguments(content.get("arguments"))
        if arguments is not None:
            answer = Answer(content["action"], arguments, round_id, read_seen(content))
            if ticket.submit(answer, CHANNEL_NAME):
                self._late.pop(pending_id, None)
                return False
            unseen = ticket.not_seen(answer) if ticket.is_asking(round_id) else ""
            if is_again and not unseen:
                return False
            why = unseen or _late_text(ticket)
        with self._lock:
            number = self._late.get(pending_id, ("", "", 0))[2] + 1
            self._late[pending_id] = (ticket.round_id, why, number)
        return True

    def data(self, ticket: Ticket, *, asked_by: bool = True) -> dict[str, Any]:
        """Return `panel_data` with the reason of a refusal, until the next round."""
        data = panel_data(ticket, asked_by=asked_by)
        round_id, why, number = self._late.get(ticket.pending.pending_id, ("", "", 0))
        if why and (round_id == ticket.round_id or not ticket.status.is_open):
            data |= {
                "late": why,
                "refused": number,
            }  # the number, so a repeated refusal also changes the data
        return data


def _late_text(ticket: Ticket) -> str:
    decided = view_request(ticket).decided
    if decided is None or ticket.status.is_open:
        return "Not taken: the request has changed, or another answer came first. Review it again."
    return f"Another decision came first: {decided_text(decided)}."


def request_data(ticket: Ticket, *, brief_record: bool = False) -> dict[str, Any]:
    """Return the data of a ticket for scripts, the same for a panel, a list and the inbox.

    A brief record has no findings and no outcome.
    """
    view = view_request(ticket)
    request, is_open = view.request, view.is_open
    return {
        "pending_id": request.pending_id,
        "round_id": view.round_id,
        "title": request.title,
        "name": view.subject,
        "status": view.status.value,
        "is_open": is_open,
        "needed": len(ticket.needed) if is_open else 0,
        "needed_effects": len(ticket.needed_effects) if is_open else 0,
        "has_effects": request.effects is not None,
        "keeps_code": ticket.keeps_code,
        "headline_html": str(headline_html(view)),
        "record_html": "" if is_open else str(row_html(ticket, brief=brief_record)),
        "worst": view.risk.level.value if view.risk.level else "",
        "is_risky": view.is_risky(),
        **values_data(view),
        "why": first_sentence(request.why),
        "why_all": request.why,
        "since": view.asked_at.isoformat(),
    }


_LONGEST_LINE = 400  # the most characters of all values in a line; longer values are cut
_BEGINNING = 60


def values_data(view: RequestView) -> dict[str, Any]:
    """Return the line of values, or a sentence `about` them. With `is_brief`, values are shortened and have no keys."""
    is_brief = sum(len(value.name) + len(value.text) for value in view.values) > _LONGEST_LINE
    values = []
    for name, text, keys in view.values:
        more = len(text) - _BEGINNING if is_brief and len(text) > _BEGINNING else 0
        values.append({
            "name": name,
            "text": text[:_BEGINNING] if more else text,
            "css": value_css(text),
            "keys": "" if is_brief else " ".join(keys),
            "more": f" … {more:,} more characters" if more else "",
        })  # fmt: skip
    return {"values": values, "about": view.about, "is_brief": is_brief, "defaults": list(view.defaults)}


def panel_data(ticket: Ticket, *, asked_by: bool = True) -> dict[str, Any]:
    """Return the same with the full request and its buttons. `asked_by` includes the calling code."""
    view = view_request(ticket)
    choices, effects = view.request.choices if view.is_open else (), view.request.effects
    return {
        **request_data(ticket),
        "risk_html": str(risk_html(view)),
        "effects_html": "" if effects is None else str(effects_html(effects, view.request.pending_id)),
        "body_html": str(full_html(view, asked_by=asked_by, effects=False)),
        "is_code": view.is_code,
        "is_short": view.is_short,
        "is_destructive": view.is_risky(RiskLevel.HIGH) or ticket.pending.is_destructive,
        "note": view.request.note,
        "is_news": is_news(ticket),
        "keep_inputs": bool(view.request.note),
        "late": "",
        "actions": action_forms(ticket),
        "choices": [
            {
                "name": choice.name,
                "texts": [choice.ours, choice.theirs],
                "sides": choice.sides,
                "decided": choice.decided,
                "is_needed": choice.is_needed,
            }
            for choice in choices
        ],
    }
