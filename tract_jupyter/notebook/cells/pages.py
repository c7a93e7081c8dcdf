"""The pages that show the notebook: one comm for each. The kernel asks, and checks each answer.

The callbacks of a comm run in any thread, also while a cell runs. They only read a message and set an event. A page
that does not answer is skipped until its next message: in ipykernel 6, messages wait until the running cell ends.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, OperationError, TractError
from tract_jupyter.models import one_line
from tract_jupyter.notebook.cells.messages import CELL_ID, VERSION, read_message
from tract_jupyter.notebook.cells.notebook_file import read_file
from tract_jupyter.notebook.front_end import honour_the_front_ends_subshell

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from tract_jupyter.notebook.cells.review import CellRequests
    from tract_jupyter.notebook.session import NotebookSession

_logger = logging.getLogger(__name__)
READ_SECONDS: Final = 3.0
APPLY_SECONDS: Final = 10.0
FRESH_SECONDS: Final = 2.0
_MOST_PAGES: Final = 20
_OUTPUT_CHARACTERS: Final = 2_000_000
_WITHOUT_A_USER: Final = {"cells", "applied", "changed", "refused"}


@dataclass(eq=False)
class Page:
    """One page. `notebook` is empty until its `hello`."""

    comm: Any
    notebook: str = ""
    is_read_only: bool = False
    abilities: frozenset[str] = frozenset()
    is_greeted: bool = False
    is_silent: bool = False
    heard_at: float = 0.0
    """The time of its last message, in seconds of `time.monotonic`."""
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The cells that a page which can `watch` has reported since the last change, without outputs."""

    @property
    def has_just_answered(self) -> bool:
        """True if the page sent a message in the last moments. A closed tab does not report that it is gone."""
        return time.monotonic() - self.heard_at < FRESH_SECONDS

    def send(self, kind: str, **content: Any) -> None:
        """Send a message. A closed comm drops it."""
        self.comm.send({"v": VERSION, "type": kind, **content})


@dataclass(frozen=True)
class CellSnapshot:
    """The cells at one moment, as `messages.PageCell`. Without a page they come from the file."""

    cells: Sequence[dict[str, Any]]
    page: Page | None = None

    def cell(self, cell_id: str) -> dict[str, Any] | None:
        """Return the cell with an id; None if there is none."""
        return next((cell for cell in self.cells if cell["id"] == cell_id), None)


@dataclass(eq=False)
class _Question:
    page: Page
    kind: str
    answered: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] | None = None


class CellPages:
    """All pages of this kernel."""

    def __init__(self, notebook: NotebookSession, clicks: CellRequests) -> None:
        self._notebook = notebook
        self._clicks = clicks
        self._side = notebook.side
        self._pages: list[Page] = []
        """The page that the user used last is the last one."""
        self._questions: dict[str, _Question] = {}
        self.asked: set[str] = set()
        """The cells with an error that the user asked about."""
        self._lock = threading.Lock()

    # --- messages of pages

    def opened(self, comm: Any, message: dict[str, Any]) -> None:
        """Take a comm that a page opened."""
        honour_the_front_ends_subshell(comm)
        page = Page(comm)
        comm.on_close(lambda _message: self._drop(page))
        comm.on_msg(partial(self._received, page))
        with self._lock:
            self._pages = [*self._pages[-_MOST_PAGES + 1 :], page]
        if message.get("content", {}).get("data"):
            self._received(page, message)

    def _drop(self, page: Page) -> None:
        with self._lock:
            self._pages = [one for one in self._pages if one is not page]
        self._side.show(page, is_open=False)

    def _received(self, page: Page, message: dict[str, Any]) -> None:
        data = message.get("content", {}).get("data")
        kind = data.get("type") if isinstance(data, dict) else ""
        if kind == "refused":  # an answer to it could be refused, too
            return
        try:
            self._take(page, read_message(data))
        except TractError as error:
            reason = one_line(str(error), 500)
            self._refuse(page, data, reason, one_line(kind, 20) if isinstance(kind, str) else "")
        except Exception:  # an error in a callback would only reach the kernel's log, without the page
            _logger.exception("a message of a page failed")
            self._refuse(page, data, "the kernel failed; its log has the error", "")

    def _refuse(self, page: Page, data: object, reason: str, kind: str) -> None:
        """Refuse a message. Name its request, because other requests may have an answer on its way."""
        request = data.get("request") if isinstance(data, dict) else None
        is_id = isinstance(request, str) and CELL_ID.fullmatch(request) is not None
        page.send("refused", reason=reason, of=kind, request=request if is_id else "")

    def _take(self, page: Page, message: dict[str, Any]) -> None:
        kind = message["type"]
        if not page.is_greeted and kind != "hello":
            raise ContentError("the first message must be 'hello'")
        page.is_silent, page.heard_at = False, time.monotonic()
        if kind == "hello":
            page.notebook, page.is_read_only = message["notebook"], message["read_only"]
            page.abilities, page.is_greeted, page.cells = frozenset(message["abilities"]), True, {}
            page.send("welcome")
            self._clicks.connected(page)
            self._side.connected(page)
        elif kind == "changed":
            page.cells = {}
        elif kind == "panel":
            self._side.show(page, is_open=message["open"])
        elif kind == "stop":
            self._side.stop()
        elif kind == "decide":
            self._clicks.decide(message)
        elif kind == "ask":
            prompts = {kind: prompt.format(message["cell"]) for kind, prompt in _PROMPTS.items()}
            if (
                self._notebook.waiting.cell_text in prompts.values()
            ):  # a page that was loaded again does not know of the turn
                raise ContentError("a turn about this error is running")
            self.asked.add(message["cell"])
            page.send("compose", cell=message["cell"], source=prompts[message["kind"]])
        else:
            self._answered(page, message)
        with self._lock:
            if page in self._pages and kind not in _WITHOUT_A_USER:
                self._pages = [*(one for one in self._pages if one is not page), page]

    def _answered(self, page: Page, message: dict[str, Any]) -> None:
        with self._lock:
            question = self._questions.get(message["reply_to"])
            if question is None or question.page is not page or question.kind != message["type"]:
                raise ContentError("no open question has this 'reply_to'")
            del self._questions[message["reply_to"]]
        if "watch" in page.abilities:  # here, as a change may be the page's next message
            told = message.get("cells", ())
            page.cells |= {cell["id"]: {**cell, "outputs": []} for cell in told}
        question.answer = message
        question.answered.set()

    # --- questions of the kernel

    @property
    def connected(self) -> Page | None:
        """The page of this notebook that the user used last, and that answers; None if there is none."""
        return next((page for page in reversed(self._own_pages()) if not page.is_silent), None)

    def _own_pages(self) -> list[Page]:
        """Return the pages of this notebook. If none has its path, such as after a new name, return all.

        Another notebook with the same kernel may have the same name, in a folder above: the longest path is its own.
        """
        path, pages = self._notebook.path, [page for page in self._pages if page.is_greeted]
        own = [page for page in pages if path is not None and _shows(page, path)]
        longest = max((len(_name_of(page)) for page in own), default=0)
        return [page for page in own if len(_name_of(page)) == longest] or pages

    def everywhere(self, kind: str, **content: Any) -> None:
        """Send a message to all pages of this notebook."""
        for page in self._own_pages():
            page.send(kind, **content)

    def close(self) -> None:
        """Close all comms. A page then opens a new one, if the extension is loaded again."""
        with self._lock:
            pages, self._pages = self._pages, []
        for page in pages:
            page.comm.close()

    def read(self, which: Collection[str] | None = None, *, outputs: bool = False) -> CellSnapshot:
        """Return the live cells of the page; without an answer, the saved ones."""
        while (page := self.connected) is not None and "read" in page.abilities:
            limit = _OUTPUT_CHARACTERS // max(1, len(which or ()))
            wanted: Any = "all" if which is None else list(which)
            answer = self._ask(
                page, "cells", READ_SECONDS, "read", which=wanted, outputs=outputs, limit=limit
            )
            if answer is not None:
                return CellSnapshot(answer["cells"], page)
            page.is_silent, page.cells = True, {}
        cells = read_file(self._notebook.path)
        return CellSnapshot([cell for cell in cells if which is None or cell["id"] in which])

    def recall(self, which: Collection[str]) -> CellSnapshot:
        """Return live cells without outputs. The page is not asked if it has reported them, and no change since."""
        page = self.connected
        cells = {} if page is None else page.cells  # a change replaces it
        if not cells or not cells.keys() >= set(which):
            return self.read(which)
        return CellSnapshot([cells[one] for one in which], page)

    def apply(
        self, page: Page, edits: Sequence[dict[str, Any]], mark: dict[str, str] | None, request: str = ""
    ) -> None:
        """Let a page make approved edits: all of them, or none.

        Args:
            page: the page.
            edits: the edits in the form of the protocol.
            mark: the origin, for the metadata of the cells; None to remove it.
            request: the id of the approved request; empty for an undo.

        Raises:
            OperationError: the page refused an edit, so it made none; or its answer is missing or contradicts itself.
        """
        answer = self._ask(page, "applied", APPLY_SECONDS, "apply", edits=edits, mark=mark, request=request)
        if answer is None:
            page.is_silent = True
            raise OperationError(
                f"the page did not confirm the edits within {APPLY_SECONDS:g} s, so they may have been made. Read the "
                "cells"
            )
        states = {result["edit"]: result["state"] for result in answer["results"]}
        refused = [edit for edit in edits if states.get(edit["edit"]) != "applied"]
        is_complete = states.keys() == {edit["edit"] for edit in edits} and len(answer["results"]) == len(
            edits
        )
        if not is_complete or 0 < len(refused) < len(edits):
            raise OperationError("the page gave a contradictory answer about the edits. Read the cells again")
        if refused:
            wrong = next((one for one in refused if states[one["edit"]] != "stale"), refused[0])
            why = _WHY[states[wrong["edit"]]].format(cell=wrong["cell"])
            raise OperationError(f"nothing was changed, because {why}. Read the cells again")

    def _ask(
        self, page: Page, answer: str, seconds: float, kind: str, **content: Any
    ) -> dict[str, Any] | None:
        question_id, question = secrets.token_hex(8), _Question(page, answer)
        with self._lock:
            self._questions[question_id] = question
        try:
            page.send(kind, id=question_id, **content)
            question.answered.wait(seconds)
        finally:
            with self._lock:
                self._questions.pop(question_id, None)
        return question.answer


_WHY: Final = {
    "stale": "cell {cell} or another one was changed since it was read",
    "missing": "cell {cell}, or the cell before it, does not exist any more",
    "read_only": "the notebook or the cell is read-only",
}
_ERROR: Final = "%%tract_chat\nThe cell {} raised an error. Read it with its outputs (notebook_read)"
_PROMPTS: Final = {
    "fix": f"{_ERROR},\nfind the cause, and propose a fix with notebook_edit.",
    "explain": f"{_ERROR},\nand explain the error. Change nothing.",
}


def _shows(page: Page, path: Path) -> bool:
    """Return True if a page shows this notebook. Its path is relative to the folder of the server, after a drive."""
    name = _name_of(page)
    return bool(name) and f"/{path.as_posix()}".endswith(f"/{name}")


def _name_of(page: Page) -> str:
    return page.notebook.removeprefix("RTC:").lstrip("/")
