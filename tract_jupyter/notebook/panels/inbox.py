"""The inbox: several open requests in one widget, a line each, and the record of the decisions.

Requests that differ only in short values share one line above their values (`InboxRow.kind`).
"""

from __future__ import annotations

import contextvars
import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import traitlets

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import PendingStatus, cut, digest, local_time, printable, show_value
from tract_jupyter.models.schema import Parameters
from tract_jupyter.notebook.output import CellOutput
from tract_jupyter.notebook.panels.panel import (
    CHANNEL_NAME,
    REQUEST_STYLES,
    ReviewWidget,
    read_seen,
    request_data,
    values_data,
)
from tract_jupyter.notebook.panels.render import RECORD_STYLES, body_html, row_html, table_html
from tract_jupyter.notebook.views.html import asset, element, fragment
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.operations import ACTIVATE_HANDLER, client_left
from tract_jupyter.review import (
    ACTIVATE,
    Answer,
    ReviewAction,
    bound_lines,
    first_sentence,
    foot_text,
    how_to_decide,
    is_waited_for,
    keeps_effects,
    needed_pieces,
    process_text,
    shown_code,
    this_process,
    view_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.notebook.channels import NotebookChannel
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.review import Pending, Ticket
    from tract_jupyter.storage import StoredPending
    from tract_jupyter.tract import Tract


_APPROVE = ReviewAction("approve", "Approve", Parameters("approve", []))
_CODE = frozenset({ACTIVATE, ACTIVATE_HANDLER})  # requests to activate code
TURN_DOWN = "%tract decide ID reject REASON rejects such a request."
_SHORT, _LONGEST, _CELL = (
    80,
    240,
    120,
)  # limits of a value, of all values of a row, and of a cell of a shared row


class UndecidableRequest(NamedTuple):
    """An open request that cannot be decided here."""

    pending_id: str
    title: str
    why: str
    since: str


@dataclass
class InboxRow:
    """A request in the list."""

    stored: StoredPending
    ticket: Ticket
    _refusal: tuple[str, str] = field(default=("", ""), init=False)
    _elsewhere: str = field(init=False)
    _asked_in: str = field(init=False)
    _body: tuple[tuple[str, str], str] = field(default=(("", ""), ""), init=False)
    _kind: tuple[str, str] = field(default=("", ""), init=False)

    def __post_init__(self) -> None:
        # computed once: a check at each drawing would query the system about the process
        self._elsewhere = _waiting_elsewhere(self.stored)
        is_here, process = self.stored.origin == this_process(), process_text(self.stored.origin)
        self._asked_in = "" if is_here or self._elsewhere.startswith(process) else process

    @property
    def pending_id(self) -> str:
        """The id of the pending."""
        return self.ticket.pending.pending_id

    def refuse(self, why: str) -> None:
        """Store why the last answer was refused; empty if it was accepted."""
        self._refusal = (self.ticket.round_id, why)

    @property
    def refused(self) -> str:
        """The reason why the last answer was refused.

        It disappears with the next round, but stays after the decision.
        """
        round_id, why = self._refusal
        return why if round_id == self.ticket.round_id or not self.ticket.status.is_open else ""

    @property
    def is_busy(self) -> bool:
        """True while an answer is carried out."""
        return self.ticket.answered or not self.ticket.round_id

    @property
    def must_be_opened(self) -> bool:
        """True if the user has to open the body first: code that the user has neither read nor typed."""
        is_code = self.ticket.pending.operation in _CODE or self.ticket.request.effects is not None
        return is_code and bool(self.ticket.needed)

    def to_dict(self) -> dict[str, Any]:
        """Return the data for the script: the request, and its state in the inbox."""
        ticket, request = self.ticket, self.ticket.request
        data = request_data(ticket, brief_record=True)
        return {
            **data,
            "about": data["about"] or first_sentence(request.summary),
            "verb": self._verb(),
            "is_busy": self.is_busy,
            "must_be_opened": self.must_be_opened,
            "place": self.place,
            "kind": self.kind,
            "has_code": any(block.binds != "nothing" for block in request.code),
            "keeps": keeps_effects(request, self.main.name) and not ticket.keeps_code,
            "runs_nothing": ticket.pending.runs_nothing(self.main.name),
            "since_exact": local_time(self.stored.created_at),
            "waits": "a cell of this notebook waits" if ticket.waiting else self._elsewhere,
            "asked_in": self._asked_in,
            "refused": self.refused,
            "failed": ticket.status is PendingStatus.FAILED
            or bool(ticket.request.note and ticket.status.is_open),
            "said": self.said(),
        }

    @property
    def place(self) -> str:
        """The process that made the request."""
        return self._asked_in or "This notebook"

    @property
    def kind(self) -> str:
        """The key of requests that may share one line; empty for a separate line.

        They differ only in short values, and an approval binds to the same other content. So the user reads the code
        once.
        """
        state, kind = self._kind
        if state != self.ticket.request.fingerprint:
            kind = self._new_kind()
            self._kind = (self.ticket.request.fingerprint, kind)
        return kind

    def _new_kind(self) -> str:
        request = self.ticket.request
        values = values_data(view_request(self.ticket))["values"]
        if self.must_be_opened or sum(len(value["text"]) for value in values) > _CELL:
            return ""
        value_keys = {key for value in values for key in value["keys"].split()}
        code = {piece.key for block in request.code for piece in shown_code(block).pieces()}
        rest = frozenset(piece.key for piece in needed_pieces(request)) - value_keys
        if not values or rest - code:
            return ""
        return digest([request.title, sorted(rest), [value["name"] for value in values]])[:16]

    @property
    def main(self) -> ReviewAction:
        """The action of its button, and of the button for several requests: the main one if it needs no values."""
        request = self.ticket.request
        main = request.main_action
        if main is not None and all(not parameter.required for parameter in main.parameters):
            return main
        return request.action("approve") or _APPROVE

    def _verb(self) -> str:
        label = self.main.label
        return label.partition(" ")[0] if label.startswith(("Run ", "Approve ")) else label

    def body(self) -> str:
        """Return the full request as HTML with its outcome. It is cached per round, because drawing code is slow."""
        cached, state = self._body[0], (self.ticket.round_id, self.ticket.status.value)
        if state != cached and (self.ticket.round_id or not cached[0]):  # "" means between two rounds
            self._body = (state, body_html(self.ticket, why=False))
        return self._body[1]

    def name(self) -> str:
        """Return the title with the values."""
        values = self._values()
        return f"{self.ticket.request.title}{f' ({values})' if values else ''}"

    def said(self) -> str:
        """Return the decision and the outcome so far."""
        ticket = self.ticket
        decided = foot_text(view_request(ticket)) if ticket.last_decision is not None else ""
        parts = (decided, ticket.pending.error or "", ticket.request.note)
        return printable("\n".join(dict.fromkeys(part for part in parts if part)))

    def _values(self) -> str:
        subject = self.ticket.request.subject
        values = {} if subject is None else subject.values
        text = ", ".join(f"{name} = {show_value(value, _SHORT)}" for name, value in values.items())
        return cut(text, _LONGEST + 1)


@dataclass
class InboxPages:
    """The requests of the inbox in pages.

    Attributes:
        pages: the rows of the pages that were read so far.
        stuck: the requests that cannot be decided here.
        quarantined: stored code that is neither active nor in the inbox: name, reason and command.
        total: the number of open requests in the store when the inbox was opened.
        shown: the index of the displayed page.
    """

    total: int
    quarantined: tuple[tuple[str, str, str], ...] = ()
    pages: list[list[InboxRow]] = field(default_factory=list)
    stuck: list[UndecidableRequest] = field(default_factory=list)
    shown: int = 0
    is_last: bool = True

    @property
    def rows(self) -> list[InboxRow]:
        """All rows, including earlier pages."""
        return [row for page in self.pages for row in page]

    @property
    def page(self) -> list[InboxRow]:
        """The displayed rows."""
        return self.pages[self.shown] if self.pages else []

    def row(self, pending_id: str) -> InboxRow | None:
        """Return the row of a pending."""
        return next((row for row in self.rows if row.pending_id == pending_id), None)

    @property
    def is_settled(self) -> bool:
        """True if all requests on all pages are decided."""
        return self.is_last and not any(row.ticket.status.is_open for row in self.rows)

    @property
    def title(self) -> str:
        """The heading with the numbers of open and decided requests."""
        if not self.total:
            return "Nothing waits for you"
        decided = f", {self.decided:,} decided" if self.decided else ""
        return f"Inbox: {max(self.total - self.decided, 0):,} waiting{decided}"

    @property
    def decided(self) -> int:
        """The number of requests decided since, here or elsewhere."""
        return sum(not row.ticket.status.is_open for row in self.rows)

    @property
    def is_quiet(self) -> bool:
        """True if no answer is being carried out."""
        return not any(row.is_busy for row in self.rows)

    @property
    def _record_title(self) -> str:
        return f"Inbox: {self.decided:,} of {self.total:,} decided" if self.decided else self.title

    def view(self) -> dict[str, Any]:
        """Return the data for the script, without the bodies."""
        before = sum(map(len, self.pages[: self.shown]))
        return {
            "title": self.title,
            "rows": [row.to_dict() for row in self.page],
            "place": f"{before + 1} to {before + len(self.page)} of {self.total:,}",
            "has_previous": self.shown > 0,
            "has_next": self.shown + 1 < len(self.pages) or not self.is_last,
            "rest_html": str(self.rest_html()),
        }

    def bodies(self) -> dict[str, str]:
        """Return the full request of each open row on the page as HTML; for rows of one kind, only the first."""
        first: dict[str, InboxRow] = {}
        for row in self.page:
            if row.ticket.status.is_open:
                first.setdefault(f"{row.place} {row.kind}" if row.kind else row.pending_id, row)
        return {row.pending_id: row.body() for row in first.values()}

    def rest_html(self) -> Html:
        """Return the requests that cannot be decided here, with the reasons."""
        parts = []
        if self.stuck:
            stuck = [(s.title, s.pending_id[:8], s.why, s.since) for s in self.stuck]
            heads = ("What", "Id", "Why it cannot be decided here", "Since")
            parts += [table_html("Cannot be shown here", heads, stuck, {1}), element("p", TURN_DOWN)]
        if self.quarantined:
            names = ("Operation", "Why it is not active", "Look at it")
            parts.append(table_html("Stored operations that are not active", names, self.quarantined, {2}))
        return fragment(parts)

    def record_html(self) -> str:
        """Return a self-contained table of the requests and their decisions."""
        title = element("p", element("b", self._record_title))
        rows = element("div", *(row_html(row.ticket, brief=True) for row in self.rows), class_="list")
        label = {"data_testid": "tract-batch-record", "aria_label": self._record_title}
        return str(output_html(element("section", title, rows, self.rest_html(), **label), *RECORD_STYLES))

    def record_text(self) -> str:
        """Return the same in plain text."""
        lines = [self._record_title]
        for row in self.rows:
            details = [f"    {line}" for line in (row.said() or row.ticket.request.why).splitlines()]
            bound = [f"    {line}" for line in bound_lines(row.ticket.request)]
            how = [f"    {how_to_decide(row.pending_id)} decides it"] if row.ticket.status.is_open else []
            lines += [f"  [{row.ticket.status}] {row.name()}", *details, *bound, *how]
        lines += [f"  cannot be decided here: {s.title} ({s.pending_id[:8]}): {s.why}" for s in self.stuck]
        lines += [f"  {TURN_DOWN}"] if self.stuck else []
        lines += [f"  not active: {name}: {why} ({command})" for name, why, command in self.quarantined]
        return printable("\n".join(lines))


def _waiting_elsewhere(stored: StoredPending) -> str:
    """Return if another process waits for the decision, in words. The ticket covers this process."""
    if client_left(stored):
        return "its client no longer waits"
    if stored.origin == this_process() or not is_waited_for(stored):
        return "no cell waits for it"
    return f"{process_text(stored.origin)} waits"


_ACTIONS = frozenset({"approve", "reject"})


class InboxPanel(ReviewWidget):
    """A widget that shows a page of the inbox.

    Synced state: `view` is drawn, `bodies` has the full request of each row. With `board_id`, a page restores the
    selected and unfolded rows when it redraws the panel.
    """

    _esm = "".join(map(asset, ("panels/common.js", "panels/rows.js", "panels/inbox.js")))
    _css = "".join(map(asset, (*REQUEST_STYLES, "panels/inbox.css")))
    view = traitlets.Dict().tag(sync=True)
    bodies = traitlets.Dict().tag(sync=True)
    board_id = traitlets.Unicode("").tag(sync=True)

    def __init__(self, batch: InboxPages, turn: Callable[[int], None]) -> None:
        self._batch = batch
        self._turn = turn
        self._lock = threading.RLock()
        super().__init__(view=batch.view(), bodies=batch.bodies(), board_id=secrets.token_hex(8))

    def show(self, batch: InboxPages) -> None:
        """Draw other requests."""
        self._batch = batch
        self.refresh()

    def refresh(self) -> None:
        """Draw the current state. Called in any thread; the lock keeps an older state from replacing a newer one."""
        with self._lock:
            self.bodies = self._batch.bodies()
            self.view = self._batch.view()

    def take(self, content: dict[str, Any]) -> None:
        """Pass the answer to the tickets of the selected rows, or turn the page."""
        if not self.acknowledge(content):
            return
        if content.get("page") in {-1, 1}:
            self._turn(content["page"])
        elif content.get("action") in _ACTIONS and isinstance(content.get("rounds"), dict):
            self._decide(content)

    def fallback(self) -> dict[str, str]:
        """Return a table of the requests and their decisions."""
        return {"text/plain": self._batch.record_text(), "text/html": self._batch.record_html()}

    def _decide(self, content: dict[str, Any]) -> None:
        reason = content.get("reason")
        arguments = {"reason": reason} if content["action"] == "reject" and isinstance(reason, str) else {}
        opened, seen = content.get("opened") or [], read_seen(content)
        for pending_id, round_id in content["rounds"].items():
            row = self._batch.row(pending_id)
            if row is not None:
                action = row.main.name if content["action"] == "approve" else content["action"]
                answer = Answer(action, arguments, str(round_id), seen)
                row.refuse(_answer(row, answer, is_opened=pending_id in opened))
        self.refresh()


def _answer(row: InboxRow, answer: Answer, *, is_opened: bool) -> str:
    """Pass an answer to the row's ticket, and return why it was not taken."""
    if row.must_be_opened and not is_opened and answer.action != "reject":
        return "Not taken: open the request first, because its code was not reviewed yet."
    if row.ticket.submit(answer, CHANNEL_NAME):
        return ""
    if row.ticket.is_asking(answer.round_id) and row.ticket.not_seen(answer):
        return row.ticket.not_seen(answer)
    return "Not taken: the request was decided elsewhere, or has changed. Review it again."


PAGE = 50


class Inbox:
    """One output that lists the open requests and takes their answers."""

    def __init__(self, tract: Tract, left: tuple[tuple[str, str, str], ...]) -> None:

        self._tract = tract
        self._channel = cast("NotebookChannel", tract.reviewer.channel)
        self._output = CellOutput()
        self._context = contextvars.copy_context()  # the context of the cell, for the effects of a click
        self._last: StoredPending | None = None
        self._recorded = 0
        self.batch = InboxPages(tract.reviewer.ledger.count_waiting(), left)
        self._read_page()
        self._panel = InboxPanel(self.batch, self._turn_soon)

    def show(self) -> None:
        """Display the first page."""
        self._output.put(self._panel)

    @property
    def ready(self) -> bool:
        """True if the script of the panel has run in a page."""
        return self._output.is_shown and bool(self._panel.ready)

    def refresh(self) -> None:
        """Draw the current state. After the last decision, the record replaces the panel."""
        if not self._output.is_shown:
            return
        self._panel.refresh()
        if self.batch.is_settled:
            self._output.put(self._panel.fallback(), raw=True)
        elif self.batch.is_quiet and self.batch.decided != self._recorded:
            self._recorded = self.batch.decided
            self._output.put(self._panel)  # a saved notebook keeps the record next to the widget

    def add(self, ticket: Ticket) -> None:
        """Do nothing. The inbox makes the row of a ticket afterwards."""

    # ---

    def _turn_soon(self, by: int) -> None:
        self._channel.soon(lambda: self._turn(by), self._context)

    def _turn(self, by: int) -> None:
        wanted = self.batch.shown + by
        if wanted == len(self.batch.pages) and not self.batch.is_last:
            self._read_page()
        self.batch.shown = min(max(wanted, 0), len(self.batch.pages) - 1)
        self.refresh()

    def _read_page(self) -> None:
        ledger = self._tract.reviewer.ledger
        waiting = ledger.waiting(PAGE + 1, self._last)  # one more, to detect a next page
        self.batch.is_last, page = len(waiting) <= PAGE, waiting[:PAGE]
        self._last = page[-1] if page else self._last
        rows = [row for row in map(self._row, page) if row is not None]
        if rows or not self.batch.pages:
            self.batch.pages.append(rows)

    def _row(self, stored: StoredPending) -> InboxRow | None:
        try:
            with self._channel.gathering(self):
                ticket = self._tract.reviewer.show_again(pending_of(self._tract, stored))
        except TractError as error:
            self.batch.stuck.append(stuck(stored, error))
            return None
        return InboxRow(stored, ticket)


class LiveInbox(Inbox):
    """All open requests at each moment, in a widget outside the outputs of cells.

    `tickets` has the requests that this kernel has on display, by pending.
    """

    def __init__(self, tract: Tract, tickets: Mapping[str, Ticket]) -> None:
        self._tickets = tickets
        self._rows: dict[str, InboxRow] = {}
        super().__init__(tract, ())

    @property
    def widget(self) -> InboxPanel:
        """The widget."""
        return self._panel

    @property
    def ready(self) -> bool:
        """True if the script of the panel has run in a page."""
        return bool(self._panel.ready)

    def refresh(self) -> None:
        """Draw the current state."""
        self._panel.refresh()

    def reread(self) -> None:
        """Read the open requests again, and draw them. Known ones keep their rows."""
        self._rows = {row.pending_id: row for row in self.batch.rows if row.ticket.status.is_open}
        shown = self.batch.shown
        self._last = None
        self.batch = InboxPages(self._tract.reviewer.ledger.count_waiting())
        self._read_page()
        while len(self.batch.pages) <= shown and not self.batch.is_last:
            self._read_page()
        self.batch.shown = min(shown, max(len(self.batch.pages) - 1, 0))
        self._panel.show(self.batch)

    def _row(self, stored: StoredPending) -> InboxRow | None:
        known, ticket = self._rows.get(stored.pending_id), self._tickets.get(stored.pending_id)
        if known is not None:
            return known
        if ticket is not None:
            return InboxRow(stored, ticket)
        row = super()._row(stored)
        if row is not None:
            self._channel.put_aside(row.ticket)
        return row


def stuck(stored: StoredPending, error: TractError) -> UndecidableRequest:
    """Return an open request without a view, with the reason."""
    return UndecidableRequest(stored.pending_id, stored.title, str(error), local_time(stored.created_at))


def pending_of(tract: Tract, stored: StoredPending) -> Pending:
    """Return the pending of a stored request: the object in this process, or one rebuilt from the store."""
    return tract.reviewer.asked_here(stored.pending_id) or tract.operations.rebuild(stored)
