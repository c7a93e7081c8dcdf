"""Requests about edits, shown at their cells. A click there is an answer like a click in a panel.

After the diffs, the effects of the proposed code are shown. An edit changes only text, so the effects inform the user
and are never kept. All new code of a request runs in order on one contained copy of the kernel, in a thread. The
decision about the request ends it.
"""

from __future__ import annotations

import contextvars
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import ContentError, OperationError, TractError
from tract_jupyter.models import PendingStatus, counted, distinct, one_line
from tract_jupyter.notebook.cells.edits import hunks, with_hunks
from tract_jupyter.notebook.output import start_timer
from tract_jupyter.review import CHAT, Answer, list_effects
from tract_jupyter.toolkit import CallNotes, changed_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.notebook.cells.edits import Edit
    from tract_jupyter.notebook.cells.pages import Page
    from tract_jupyter.notebook.cells.tools import NotebookCells
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.rehearsal import Effects
    from tract_jupyter.review import Pending, Ticket

EDIT_TOOL: Final = "notebook_edit"
MOVES: Final = "Moves"
"""The title of the table of moved cells in a request."""
CHANNEL: Final = "cell"
DELAY: Final = 0.5
"""Seconds after the request. The page draws the diffs first."""
_MOST_DECIDED: Final = 100
_MOST_DOUBTFUL: Final = 50
_LONGEST: Final = 300


class CellRequests:
    """The open requests about edits of this kernel."""

    def __init__(self, notebook: NotebookSession, cells: NotebookCells) -> None:
        self._cells = cells
        self._effects = EditEffects(notebook)
        self._told: tuple[str, list[str]] = ("", [])
        """The request with the newest effects, and these."""
        self._open: dict[str, Ticket] = {}
        self._approved: dict[str, Pending] = {}

    def show(self, ticket: Ticket) -> None:
        """Show a request at its cells, or update or remove it there."""
        pending = ticket.pending
        if getattr(pending, "tool_name", "") != EDIT_TOOL:
            return
        if ticket.status.is_open:
            self._open[pending.pending_id] = ticket
            if self._cells.pages.connected is not None:
                with suppress(TractError):  # the user changed the arguments to invalid values
                    self._cells.pages.everywhere("show", **self._content(ticket))
                    self._begin_effects(ticket)
            return
        if self._open.pop(pending.pending_id, None) is None:
            return
        self._effects.end()
        if ticket.status is PendingStatus.APPROVED:
            self._approved[pending.pending_id] = pending
            while len(self._approved) > _MOST_DECIDED:
                self._approved.pop(next(iter(self._approved)))
        self._cells.pages.everywhere("hide", request=pending.pending_id, outcome=ticket.status.value)

    def connected(self, page: Page) -> None:
        """Show the open requests on a new page."""
        for ticket in tuple(self._open.values()):
            with suppress(TractError):
                page.send("show", **self._content(ticket))
        request, lines = self._told
        if request in self._open:
            page.send("effects", request=request, lines=lines)

    def _begin_effects(self, ticket: Ticket) -> None:
        request, digest = ticket.pending.pending_id, ticket.request.fingerprint
        self._told = "", []

        def tell(lines: list[str]) -> None:
            if lines and request in self._open and ticket.request.fingerprint == digest:
                self._told = request, lines
                self._cells.pages.everywhere("effects", request=request, lines=lines)

        self._effects.begin(self._cells.plan(getattr(ticket.pending, "call_arguments", {})), tell)

    def approval_of(self, values: Mapping[str, Any]) -> Pending | None:
        """Return the newest approved request for the arguments of a call; None for a call without one."""
        approved = reversed(self._approved.values())
        found = (one for one in approved if getattr(one, "call_arguments", None) == values)
        return next(found, None)

    def decide(self, message: dict[str, Any]) -> None:
        """Submit a click.

        Raises:
            ContentError: the request is not open, the click is about an earlier version of it, or an edit or a hunk
                does not exist.
        """
        ticket = self._open.get(message["request"])
        round_id = "" if ticket is None else ticket.round_id
        if ticket is None or not ticket.is_asking(round_id):
            raise ContentError("no open request has this id; it may be decided already")
        if message["digest"] != ticket.request.fingerprint:
            raise ContentError(
                "this click is about an earlier version of the request; review the current one"
            )
        if message["choice"] == "reject":
            answer = Answer("reject", {"reason": message.get("reason") or ""}, round_id)
        else:
            answer = Answer("approve", self._accepted(ticket, message), round_id)
        if not ticket.submit(answer, CHANNEL):
            raise ContentError("another decision came first")

    def _accepted(self, ticket: Ticket, message: dict[str, Any]) -> dict[str, Any]:
        """Return the terms of an approval: none for all edits, or the accepted part of the edits."""
        values: Mapping[str, Any] = getattr(ticket.pending, "call_arguments", {})
        try:
            edits = {edit.name: edit for edit in self._cells.plan(values)}
            chosen = {one["edit"]: one for one in message["edits"]}
            if not chosen or len(chosen) < len(message["edits"]) or not chosen.keys() <= edits.keys():
                raise ContentError("accept names each accepted edit of the request once")
            kept = [
                {**written, **_changed(edits[name], chosen[name])}
                for name, written in zip(edits, values["edits"], strict=True)
                if name in chosen
            ]
            self._cells.plan({"edits": kept})
        except OperationError as error:
            raise ContentError(str(error)) from None
        return {} if kept == list(values["edits"]) else {"edits": {"edits": kept}}

    def _content(self, ticket: Ticket) -> dict[str, Any]:
        edits = self._cells.plan(getattr(ticket.pending, "call_arguments", {}))
        request = ticket.request
        return {
            "request": request.pending_id, "digest": request.fingerprint, "title": request.title,
            "edits": [self._shown(edit) for edit in edits],
        }  # fmt: skip

    def _shown(self, edit: Edit) -> dict[str, Any]:
        more = {"number": edit.number or None, "findings": list(self._notes(edit)), "hunks": _ranges(edit)}
        return {**edit.to_page(), **more}

    def _notes(self, edit: Edit) -> Iterator[dict[str, Any]]:
        yield from _doubtful_lines(edit)
        if edit.has_new_code:
            for one in self._cells.findings(edit.new)[:_MOST_DECIDED]:
                yield {"severity": one.level.value, "text": one_line(one.reason, 300), "line": one.span.line}


def _doubtful_lines(edit: Edit) -> Iterator[dict[str, Any]]:
    """Yield a note for each new line with characters that look like others. A panel marks them in the text."""
    known = set(edit.old.split("\n"))
    lines = [(n, distinct(text)[1]) for n, text in enumerate(edit.new.split("\n"), 1) if text not in known]
    for number, note in [(number, note) for number, note in lines if note][:_MOST_DOUBTFUL]:
        yield {"severity": "medium", "text": one_line(note, 300), "line": number}


def _changed(edit: Edit, chosen: Mapping[str, Any]) -> dict[str, str]:
    """Return the source that the user accepted, if it is not the proposed one."""
    if "source" in chosen:
        if "hunks" in chosen or edit.action not in {"insert", "replace"}:
            raise ContentError(f"{edit.name} takes either 'hunks' or, for a new text, 'source'")
        return {"source": chosen["source"]}
    return {"source": with_hunks(edit, chosen["hunks"])} if "hunks" in chosen else {}


def _ranges(edit: Edit) -> list[dict[str, Any]]:
    if edit.action != "replace":
        return []
    changed = enumerate(hunks(edit.old, edit.new))
    return [{"n": number, "old": list(one.old), "new": list(one.new)} for number, one in changed]


# ---- effects


class EditEffects:
    """The rehearsal of the newest request about edits."""

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._stop = StopSignal()

    def begin(self, edits: Sequence[Edit], tell: Callable[[list[str]], None]) -> None:
        """Rehearse the new code soon, and tell the effects as lines. This ends an earlier rehearsal."""
        self.end()
        codes = [edit.new for edit in edits if edit.has_new_code]
        if not codes or self._notebook.tract.scripts.rehearsing.rehearser is None:
            return
        self._stop = StopSignal()
        context = contextvars.copy_context()
        timer = start_timer(DELAY, context.run, self._rehearse, codes, self._stop, tell)
        self._stop.on_set(timer.cancel)

    def end(self) -> None:
        """End the rehearsal. It tells nothing after this."""
        self._stop.set()

    def _rehearse(self, codes: list[str], stop: StopSignal, tell: Callable[[list[str]], None]) -> None:
        try:
            with changed_context(notes=CallNotes(stop=stop), effects=None, take_call=None):
                lines = self._lines(codes)
        except TractError as error:  # such as a magic, or a closed store
            lines = [f"Not rehearsed: {one_line(str(error), _LONGEST)}"]
        if not stop.is_set():
            tell(lines)

    def _lines(self, codes: list[str]) -> list[str]:
        self._notebook.lend_variables()
        scripts: Any = self._notebook.tract.scripts
        run = scripts.prepare("\n\n".join(codes), notebook_id="user", author=CHAT)
        rehearsed = scripts.rehearse_run(run)
        if rehearsed.rehearsal is None:
            return [f"Not rehearsed: {one_line(rehearsed.why_not, _LONGEST)}"] if rehearsed.why_not else []
        rehearsed.rehearsal.discard()
        return _as_lines(rehearsed.rehearsal.effects, len(codes))


def _as_lines(effects: Effects, cells: int) -> list[str]:
    shown = list_effects(effects)
    where = f"The new code of {counted(cells, 'cell')} on a copy of the kernel"
    rows = [f"{line.mark} {line.name}  {line.text}" for line in (*shown.lines, *shown.more)]
    headline = effects.headline.replace("`", "")  # the page shows plain text
    return [f"{where}: {one_line(headline, _LONGEST)}", *(one_line(row, _LONGEST) for row in rows)]
