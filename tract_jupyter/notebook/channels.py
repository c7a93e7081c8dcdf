"""The notebook's channel: a panel in the output of the cell, or a prompt if panels do not work."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from IPython.core.error import StdinNotImplementedError
from IPython.core.getipython import get_ipython

from tract_jupyter.exceptions import StoreClosedError
from tract_jupyter.notebook.output import CellOutput, replace_widget
from tract_jupyter.notebook.panels.render import record
from tract_jupyter.review import (
    FROM_STORE,
    Channel,
    ask,
    meant_for_the_person,
    never,
    process_text,
    request_text,
)
from tract_jupyter.scripts import ScriptStopped, Stopper
from tract_jupyter.toolkit import call_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.notebook.chat.board import TurnBoard
    from tract_jupyter.notebook.front_end import FrontEnd
    from tract_jupyter.notebook.panels.inbox import Inbox
    from tract_jupyter.notebook.panels.panel import Panel
    from tract_jupyter.notebook.panels.questions import QuestionList
    from tract_jupyter.review import Answer, Pending, RecordedDecisions, Ticket


PROBE_SECONDS = 3.0
"""The time that the script of a panel has to report `ready`. After it, a prompt replaces the panel."""

WATCH_SECONDS = 0.5
"""The interval at which an idle kernel looks for decisions of other processes."""

_PROMPT_ENDED = "This prompt has ended. The panel above shows the request."

_logger = logging.getLogger(__name__)


SharedDisplay: TypeAlias = "TurnBoard | QuestionList | Inbox | _Text"
"""A display that shows several requests in one output. `ready` is true if its script has reached this kernel."""

_board: contextvars.ContextVar[SharedDisplay | None] = contextvars.ContextVar("_board", default=None)
"""The board for tickets that this thread or task shows. Other tickets get separate outputs."""


class _Text:
    """A board for printed text, which cannot change."""

    ready = False

    def add(self, ticket: Ticket) -> None:
        """Do nothing. The caller prints the request."""

    def refresh(self) -> None:
        """Do nothing."""


_PRINTED = _Text()


class _DisplayedTicket:
    """A place where a ticket is on display, with the context of its cell."""

    def __init__(self, ticket: Ticket, panel: Panel | SharedDisplay | None) -> None:
        self.ticket = ticket
        self.panel = panel
        self.printed_round = ""
        """The round that the terminal shows in full. The prompt does not print it again."""
        self.context = contextvars.copy_context()  # the context of the cell, which gets later output
        self.context.run(_board.set, None)  # later requests by a click are not gathered
        self.cell = _cell()

    def refresh(self) -> None:
        """Draw the current state."""
        if self.panel is not None:
            self.panel.refresh()


class _SeparateDisplay(_DisplayedTicket):
    """A ticket in a separate output, which becomes its record."""

    def __init__(self, ticket: Ticket, panel: Panel | None) -> None:
        super().__init__(ticket, panel)
        self._output = CellOutput()

    def put_up(self) -> None:
        """Display the ticket for the first time."""
        content: Any = record(self.ticket) if self.panel is None else self.panel
        self._output.put(content, raw=self.panel is None)

    def refresh(self) -> None:
        """Draw the current state."""
        super().refresh()
        if not self.ticket.status.is_open:
            # The saved notebook keeps the record. The live panel stays too, for a page that was reloaded.
            if self.panel is None:
                self._output.put(record(self.ticket), raw=True)
            else:
                replace_widget(self.panel, record(self.ticket), self._output.display_id)


class NotebookChannel(Channel):
    """The channel to the user of this notebook or terminal."""

    name = "notebook"

    def __init__(
        self,
        front_end: FrontEnd,
        recorded: RecordedDecisions | None = None,
        changed: Callable[[], None] = lambda: None,
        shown: Callable[[Ticket], None] = lambda _: None,
    ) -> None:
        self._front_end = front_end
        self._recorded = recorded
        self._changed = changed
        """Called after a request was shown or has changed."""
        self._on_shown = shown
        """Called with a request that was shown or has changed, before `changed`."""
        self._shown: dict[str, list[_DisplayedTicket]] = {}
        """The places of each ticket. The last one takes the answer."""
        self._moved: set[str] = set()
        self._printed: dict[str, str] = {}
        """The fingerprints of the requests that were printed in full, by pending."""
        self._loop = front_end.loop
        self._tasks: set[asyncio.Task[None]] = set()

    def can_reach(self) -> bool:
        """Return True if the user can answer: the cell takes input, and no click runs it.

        A call of an outside program has no cell that could end, so its request always waits in the inbox.
        """
        return _is_outside() or (self._front_end.takes_input and not self._front_end.in_callback)

    def recorded(self) -> RecordedDecisions | None:
        """Return the decisions of the lock file in a headless run; None if the notebook has or had a user."""
        return self._recorded if self._front_end.is_headless else None

    def refuses_code(self, pending: Pending, *, was_shown: bool) -> str:
        """Return why code may not approve a request here; empty if it may.

        Without a user, code may approve only the requests of its own run. Code may approve a definition by another
        author only if it is on display, or if the code names its fingerprint.
        """
        is_unattended = self._front_end.is_unattended
        asked_by = ""
        if pending.doubt:  # the stored origin is not signed either
            asked_by = "another user made it, or it was changed in the store"
        elif pending.origin is not None:
            is_stored = pending.origin == FROM_STORE
            asked_by = "it comes from the store" if is_stored else f"{process_text(pending.origin)} made it"
        if asked_by and is_unattended:
            return (
                f"code cannot approve {pending.title!r} here: {asked_by}, and without a user, code decides only "
                "the requests of its run. Decide it in '%tract inbox' of a live notebook, or in a terminal"
            )
        is_others = pending.is_definition and (bool(asked_by) or pending.actor != "user")
        if is_others and not pending.is_named and (is_unattended or not was_shown):
            return (
                f"code cannot approve {pending.title!r} unseen: {asked_by or pending.actor + ' wrote it'}. Read and "
                "decide it in '%tract inbox', or name the version that you read: pending.named(FINGERPRINT).approve()"
            )
        return ""

    @contextmanager
    def gathering(self, board: SharedDisplay) -> Iterator[None]:
        """Show the tickets of a `with` block on a board instead of in separate outputs."""
        before = _board.set(board)
        try:
            yield
        finally:
            _board.reset(before)

    @contextmanager
    def in_text(self, ticket: Ticket) -> Iterator[None]:
        """Show a ticket as printed text during a `with` block.

        It gets no separate output, unless a kernel has one already. The caller shows the record, because printed text
        cannot become one.
        """
        is_aside = ticket.pending.pending_id not in self._shown or not self._front_end.has_kernel
        if is_aside:
            self.forget(ticket)
        with self.gathering(_PRINTED):
            self.show(ticket)
        try:
            yield
        finally:
            if is_aside:
                self.forget(ticket)

    def print_in_full(self, ticket: Ticket) -> None:
        """Print the complete request, for a decision in a line."""
        with meant_for_the_person():
            self._print_request(ticket, again=True)

    def was_printed(self, ticket: Ticket) -> bool:
        """Return True if the complete request was printed here in its current version."""
        return self._printed.get(ticket.pending.pending_id) == ticket.request.fingerprint

    def show(self, ticket: Ticket) -> None:
        """Display the ticket, or update it in every place."""
        pending_id = ticket.pending.pending_id
        with meant_for_the_person():
            self._on_shown(ticket)  # first, because a page draws a diff faster than a panel
            # without a kernel, an update prints the request again, so only update one place
            for place in self._places(ticket)[0 if self._front_end.has_kernel else -1 :]:
                place.refresh()
            if pending_id not in self._shown or pending_id in self._moved:
                self._moved.discard(pending_id)
                self._put_up(ticket)
            self._changed()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Show the requests of a `with` block in one list. A single request and printed requests look as usual."""
        if not self._front_end.can_click or _board.get() is not None:
            yield
            return
        from tract_jupyter.notebook.panels.questions import QuestionList

        board = QuestionList()
        try:
            with self.gathering(board):
                yield
        finally:
            self._put_up_together(board)

    def _put_up_together(self, board: QuestionList) -> None:
        with meant_for_the_person():
            if len(board.tickets) > 1:
                board.put_up()
                return
            for ticket in board.tickets:
                self._shown[ticket.pending.pending_id].pop()
                self._put_up(ticket)

    def forget(self, ticket: Ticket) -> None:
        """Show the request in a new place the next time. Clicks in the old place still count."""
        self._moved.add(ticket.pending.pending_id)

    def put_aside(self, ticket: Ticket) -> None:
        """Let the newest place of a request belong to no cell."""
        self._places(ticket)[-1].cell = 0

    def is_here(self, pending_id: str) -> bool:
        """Return True if a request is on display in the running cell."""
        return any(place.cell == _cell() for place in self._shown.get(pending_id, ()))

    def open_in(self, cell: int) -> int:
        """Return the number of open requests on display in a cell."""
        return sum(
            any(place.cell == cell and place.ticket.status.is_open for place in places)
            for places in tuple(self._shown.values())
        )

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:
        """Return True if the script of the panel has reached this kernel, or still has time for it.

        A call of an outside program never prompts.
        """
        if _is_outside():
            return True
        panels = [place.panel for place in self._places(ticket) if place.panel is not None]
        return bool(panels) and (waited < PROBE_SECONDS or any(panel.ready for panel in panels))

    def is_left(self, ticket: Ticket) -> bool:
        """Return True if a panel was live and every page that showed one was closed."""
        from tract_jupyter.notebook.panels.panel import ReviewWidget

        panels = [place.panel for place in self._places(ticket) if place.panel is not None]
        return any(panel.ready for panel in panels) and not ReviewWidget.is_page_open()

    def prompt(
        self, ticket: Ticket, *, may_wait: bool = False, is_over: Callable[[], bool] = never
    ) -> Answer | None:
        """Ask by `input()`. In a terminal, `is_over` cannot end the prompt, because it waits in C."""
        if not self._front_end.takes_input:
            return None
        stopper = Stopper()
        try:
            with meant_for_the_person(), self._front_end.interruptible(), ExitStack() as stack:
                self._print_request(ticket)
                if self._front_end.has_kernel:
                    stack.enter_context(stopper.watched(is_over))
                    stack.enter_context(stopper.stoppable())
                return ask(
                    ticket, input, may_wait=may_wait
                )  # resolved now, because the kernel replaces `input`
        except ScriptStopped:
            from tract_jupyter.notebook.panels.panel import ReviewWidget

            print(_PROMPT_ENDED)  # noqa: T201 # the end of the prompt's conversation
            ReviewWidget.end_prompts()
            return None
        except (StdinNotImplementedError, EOFError):
            return None

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:
        """Run a function soon in a new task of the kernel's loop, in the context of the cell that shows the panel."""
        places = self._places(ticket)
        if places:
            self.soon(run, places[-1].context)
        else:
            run()

    def soon(self, run: Callable[[], None], context: contextvars.Context) -> None:
        """Run a function in a new task with the context of a cell, or at once if no loop runs."""
        if self._loop is None or self._loop.is_closed():
            run()
        else:
            self._loop.call_soon_threadsafe(self._start, run, context.copy())

    def interruptible(self) -> AbstractContextManager[None]:
        """Let the stop button end a blocking call, also in a cell with an `await`."""
        return self._front_end.interruptible()

    def watch(self, look: Callable[[], bool]) -> bool:
        """Call `look` regularly in the kernel's loop, between cells."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return False
        # from any thread; a loop that wakes regularly also sees the interrupt of a cell that awaits a thread
        loop.call_soon_threadsafe(loop.call_later, WATCH_SECONDS, self._look, loop, look)
        return True

    def _look(self, loop: asyncio.AbstractEventLoop, look: Callable[[], bool]) -> None:
        try:
            go_on = look()
        except StoreClosedError:
            return
        except Exception:  # the store may be locked temporarily
            _logger.exception("the store could not be read")
            go_on = True
        if go_on:
            loop.call_later(WATCH_SECONDS, self._look, loop, look)

    def _start(self, run: Callable[[], None], context: contextvars.Context) -> None:
        task = asyncio.get_running_loop().create_task(_logged(run), context=context)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    def _places(self, ticket: Ticket) -> list[_DisplayedTicket]:
        return self._shown.get(ticket.pending.pending_id, [])

    def _print_request(self, ticket: Ticket, *, again: bool = False) -> None:
        places = self._places(ticket)
        if again or not places or places[-1].printed_round != ticket.round_id:
            # a terminal's display; a prompt's conversation
            print(request_text(ticket.request, ticket.status))  # noqa: T201
            self._printed[ticket.pending.pending_id] = ticket.request.fingerprint
        if places:
            places[-1].printed_round = ticket.round_id

    def _put_up(self, ticket: Ticket) -> None:
        places = self._shown.setdefault(ticket.pending.pending_id, [])
        board = _board.get()
        if board is not None:
            places.append(_DisplayedTicket(ticket, board))
            self._loop = _running_loop() or self._loop
            board.add(ticket)
            return
        place = _SeparateDisplay(ticket, self._new_panel(ticket))
        places.append(place)
        if self._front_end.has_kernel:
            place.put_up()
        else:
            self._print_request(ticket)

    def _new_panel(self, ticket: Ticket) -> Panel | None:
        if not self._front_end.can_click or not ticket.status.is_open:  # headless, or a terminal; or a record
            return None
        from tract_jupyter.notebook.panels.panel import Panel

        self._loop = _running_loop() or self._loop
        return Panel(ticket)


def _is_outside() -> bool:
    """Return True in a thread that makes a call of an outside program."""
    is_main = threading.current_thread() is threading.main_thread()
    return call_context().outside is not None and not is_main


def _cell() -> int:
    shell = get_ipython()
    return 0 if shell is None else shell.execution_count


async def _logged(run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:
        _logger.exception("a decision could not be carried out")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
