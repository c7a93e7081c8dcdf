"""A turn on a live page: a widget that receives changes, and the static page that replaces it.

If the text of a turn were synced, each new word would send all of it again. So the kernel sends numbered patches. A
page that missed one, or was loaded later, requests the complete state. The model of the widget outlives its view, and
adds the buttons of the last line to the static page of its turn.
"""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import traitlets
from IPython.display import display, update_display

from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.chat.turn import GO_ON, SHOW
from tract_jupyter.notebook.chat.view import label_of
from tract_jupyter.notebook.output import replace_widget, start_timer
from tract_jupyter.notebook.panels.panel import (
    REQUEST_SCRIPTS,
    REQUEST_STYLES,
    Answers,
    ReviewWidget,
    is_answer,
)
from tract_jupyter.notebook.views.html import asset, element

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.chat.view import Act, Action, TurnBlock, TurnView
    from tract_jupyter.review import Ticket

LEAST_SECONDS: Final = 0.05
"""The shortest time between two patches."""
_SHARE: Final = 10  # at most this part of the time is spent on making patches
_BEGUN: Final = (
    "This was running when this page got it. If it still runs, the side panel Tract shows its requests. "
    "Otherwise, {show} shows its state, and {go_on} continues it."
)
_PATIENCE: Final = 3.0  # seconds; until a page answers, it gets the complete state each time


class TurnWidget(ReviewWidget):
    """A widget that shows a turn, and receives answers and actions.

    Synced state: `whole` is everything that is drawn, made when a page asks for it.
    """

    _esm = "".join(map(asset, (*REQUEST_SCRIPTS, "chat/chat.js")))
    _css = "".join(map(asset, (*REQUEST_STYLES, "chat/chat.css")))
    whole = traitlets.Dict().tag(sync=True, to_json=lambda _value, widget: widget.state())

    def __init__(self, on_answer: Callable[[dict[str, Any]], None], on_act: Callable[[Action], None]) -> None:
        self.lock = threading.RLock()
        self.page_fallback: Callable[[], dict[str, str]] = dict
        self._on_answer = on_answer
        self._on_act = on_act
        self._acts: set[str] = set()
        self._number = 0
        self._blocks: dict[str, dict[str, Any]] = {}
        self._rest: dict[str, Any] = {
            "foot": "",
            "actions": [],
            "turn": "",
            "over": False,
            "told": "",
            "go_on": "",
        }
        self._since = time.monotonic()
        super().__init__()

    def state(self) -> dict[str, Any]:
        """Return the complete state of the page."""
        with self.lock:
            return {"n": self._number, "blocks": list(self._blocks.values()), **self._rest}

    def show(self, blocks: list[dict[str, Any]], rest: dict[str, Any]) -> None:
        """Send the changes.

        Args:
            blocks: all blocks in order: `id`, `kind`, and `html` or `view`.
            rest: `foot`, `actions`, `turn`, `over`, `told`, `go_on`.
        """
        with self.lock:
            changed = [block for block in blocks if block != self._blocks.get(block["id"])]
            rest = {name: value for name, value in rest.items() if value != self._rest[name]}
            before = list(self._blocks)
            added = [block["id"] for block in changed if block["id"] not in self._blocks]
            order = [block["id"] for block in blocks]
            patch: dict[str, Any] = {
                "type": "patch",
                "blocks": [_shortened(block, self._blocks.get(block["id"])) for block in changed],
                **rest,
                **({} if order == before + added else {"order": order}),
            }
            self._blocks = {block["id"]: block for block in blocks}
            self._rest |= rest
            if not changed and not rest and "order" not in patch:
                return
            self._number += 1
            if self.ready or time.monotonic() - self._since > _PATIENCE:
                self.send({**patch, "n": self._number})
            else:  # the script may not run yet, and would miss it
                self.send_state("whole")

    def take(self, content: dict[str, Any]) -> None:
        """Acknowledge an answer and pass it on."""
        if is_answer(content):
            self.heard = content["round_id"]
            self._on_answer(content)

    def fallback(self) -> dict[str, str]:
        """Return the static page, for front ends without widgets."""
        return self.page_fallback()

    def _on_message(self, widget: Any, content: Any, buffers: Any) -> None:
        super()._on_message(widget, content, buffers)
        if not isinstance(content, dict):
            return
        kind, action, key = content.get("type"), content.get("action"), str(content.get("key"))
        if kind == "all":
            with self.lock:
                self.send_state("whole")
        elif kind == "act" and isinstance(action, str) and label_of(action):
            with self.lock:
                is_again = key in self._acts
                self._acts.add(key)
            self.heard = key
            if not is_again:
                self._on_act(action)


def _shortened(block: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return a block without the beginning that the page already has: `keep` UTF-16 units."""
    if before is None or "html" not in before or "html" not in block:
        return block
    old, new = before["html"], block["html"]
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    units = low if new.isascii() else len(new[:low].encode("utf-16-le")) // 2
    return {**block, "html": new[low:], "keep": units}


class LiveTurn:
    """A turn on display in a cell of a live page.

    Args:
        act: performs an action of the footer.
        soon: runs a function in the main thread of the kernel, in the context of the cell.
        again: the commands that show and resume the turn.
        display_id: of the output; a new one if left out.
    """

    def __init__(
        self,
        act: Act,
        soon: Callable[[Callable[[], None], contextvars.Context], None],
        again: tuple[str, str] = (SHOW, GO_ON),
        display_id: str = "",
    ) -> None:
        self._act = act
        self._begun = _BEGUN.format(show=again[0], go_on=again[1])
        self._soon = soon
        self._widget = TurnWidget(self._take, self._asked_to)
        self._widget.page_fallback = self._static
        self._lock = threading.RLock()
        self._display_id = display_id or secrets.token_hex(16)
        self._context = contextvars.copy_context()
        self._view: TurnView | None = None
        self._tickets: dict[str, Ticket] = {}
        self._drawn: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = {}
        """By pending: the state of the request, and its data for the page."""
        self._answers = Answers()
        self._told = ""
        self._next = 0.0
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self._left: dict[str, str] = {}
        """The static page that replaced the live one."""

    @property
    def ready(self) -> bool:
        """True if the script has run somewhere and reached this kernel."""
        return bool(self._widget.ready)

    def put_up(self, *, again: bool = False) -> None:
        """Show the widget in the running cell; `again` replaces the current output."""
        self._context = contextvars.copy_context()
        (update_display if again else display)(self._widget, display_id=self._display_id)

    def draw(self, view: TurnView, *, at_once: bool = False) -> None:
        """Show the current state now or at the next allowed time. May be called in any thread."""
        with self._lock:
            self._view = view
            if self._is_closed:
                self.close(view)
                return
            wait = self._next - time.monotonic()
            if at_once or wait <= 0:
                self._send()
            elif self._timer is None:
                self._timer = start_timer(wait, self._send)

    def refresh(self) -> None:
        """Show the current state of the requests. May be called in any thread."""
        with self._lock:
            if self._view is not None:
                self.draw(self._view, at_once=True)

    def close(self, view: TurnView) -> None:
        """Show the final state as a static page. The live page stays while a request is open."""
        with self._lock:
            self._view, self._is_closed = view, True
            self._send()
            if any(ticket.status.is_open for ticket in self._tickets.values()):
                return
            static = self._static()
            if static == self._left:  # a new page forgets which rows the user unfolded
                return
            self._left = static
        self._context.copy().run(replace_widget, self._widget, static, self._display_id)

    def _static(self) -> dict[str, str]:
        view = self._view
        if view is None:  # for a notebook that is saved now, or after a reload
            return {"text/html": str(element("p", self._begun)), "text/plain": self._begun}
        return {"text/html": str(view.to_html()), "text/plain": view.to_text()}

    def _send(self) -> None:
        with self._lock:
            view, timer, self._timer = self._view, self._timer, None
            if timer is not None:
                timer.cancel()
            if view is None:
                return
            began = time.monotonic()
            blocks = view.blocks()
            self._tickets = {
                block.ticket.pending.pending_id: block.ticket for block in blocks if block.ticket is not None
            }
            foot = view.foot()
            rest = {
                "foot": str(foot.html), "actions": [[name, label_of(name)] for name in foot.actions],
                "turn": view.turn_id, "over": view.is_over, "told": self._told, "go_on": view.go_on,
            }  # fmt: skip
            self._widget.show([self._block(block) for block in blocks], rest)
            now = time.monotonic()
            self._next = now + max(LEAST_SECONDS, _SHARE * (now - began))

    def _block(self, block: TurnBlock) -> dict[str, Any]:
        if block.ticket is None or block.html:
            return {"id": block.id, "kind": block.kind, "html": str(block.html)}
        return {"id": block.id, "kind": "question", "view": self._question(block.ticket)}

    def _question(self, ticket: Ticket) -> dict[str, Any]:
        """Return the data of a request for the page, cached until it changes."""
        pending_id = ticket.pending.pending_id
        state = (ticket.round_id, ticket.status)
        before, data = self._drawn.get(pending_id, ((), {}))
        if before != state:
            data = self._answers.data(ticket)
            self._drawn[pending_id] = (state, data)
        return data

    def _take(self, content: dict[str, Any]) -> None:
        """Pass an answer to its ticket, and show the reason if it is refused."""
        pending_id = str(content.get("pending_id"))
        with self._lock:
            ticket = self._tickets.get(pending_id)
        if ticket is not None and self._answers.take(ticket, content):
            with self._lock:
                self._drawn.pop(pending_id, None)
            self.refresh()

    def _asked_to(self, action: Action) -> None:
        self._soon(lambda: self._carry_out(action), self._context)

    def _carry_out(self, action: Action) -> None:
        self._tell("")
        try:
            view = self._act(action)
        except TractError as error:
            self._tell(str(error))
            return
        if view is not None:
            self.close(view)

    def _tell(self, text: str) -> None:
        with self._lock:
            self._told = text
            self._send()
