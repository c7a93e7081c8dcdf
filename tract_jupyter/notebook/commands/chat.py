"""The commands of `%tract` about the turns of a conversation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import one_line
from tract_jupyter.notebook.commands.command import Command, commit_words
from tract_jupyter.notebook.views.html import Grid, GridView, View, ago

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tract_jupyter.loop import PastTurn
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.session import NotebookSession

_USAGE = "chat [show [N|COMMIT] | resume | undo | new]"
_MOST = 20
_SAID = 60


class TurnPage(View):
    """A turn for IPython's display."""

    def __init__(self, turn: DrawnTurn) -> None:
        self._turn = turn

    def to_html(self) -> str:
        """Return the turn as static HTML."""
        return self._turn.html()

    def to_text(self) -> str:
        """Return the turn as text."""
        return self._turn.text()


def _chat(notebook: NotebookSession, words: list[str]) -> Any:
    what, *rest = words or [""]
    if what == "show" and len(rest) <= 1:
        from tract_jupyter.notebook.chat.source import stored_view

        return TurnPage(stored_view(notebook.tract, *rest))
    if what == "resume" and not rest:
        return _resume(notebook)
    if what == "undo" and not rest:
        return _undo(notebook)
    if what == "new" and not rest:
        return _new(notebook)
    if words:
        raise OperationError(f"usage: %tract {_USAGE}; got chat {' '.join(words)}")
    return _turns(notebook)


def _undo(notebook: NotebookSession) -> GridView:
    from tract_jupyter.notebook.chat.source import undo_turn

    tract = notebook.tract
    turns = tract.loop.turns()
    if not turns:
        raise OperationError("there is no turn to undo on this branch")
    is_first = tract.get_commit(turns[-1].question).parent_hash is None
    undo_turn(tract, turns[-1].question)
    message = one_line(turns[-1].told, _SAID)
    back = "" if is_first else " %tract undo --yes puts the turn back."
    return GridView(f"Undone: {message}", (f"Effects of its calls outside the context stay.{back}",))


def _new(notebook: NotebookSession) -> GridView:
    from tract_jupyter.notebook.chat.source import start_conversation

    before = notebook.tract.current_branch
    name = start_conversation(notebook.tract)
    notebook.take_continued()
    back = f" %tract switch {before} goes back." if before else ""
    return GridView("New conversation", (f"The next message is the first one of branch {name}.{back}",))


def _turns(notebook: NotebookSession) -> GridView:
    tract = notebook.tract
    turns = tract.loop.turns()
    newest = list(enumerate(reversed(turns), 1))[:_MOST]
    now = datetime.now(UTC)
    rows = tuple(_row(number, turn, now) for number, turn in newest)
    if not rows:
        return GridView("Turns", ("None yet. %%tract_chat starts one.",))
    more = f" The newest {_MOST} of {len(turns):,}." if len(turns) > _MOST else ""
    heads = ("N", "Commit", "When", "Question", "Calls", "Model", "Reply")
    grid = Grid(heads, rows, code=frozenset({"Commit"}), right=frozenset({"N", "Calls"}))
    return GridView("Turns", (f"%tract chat show N draws one again.{more}",), (grid,))


def _row(number: int, turn: PastTurn, now: datetime) -> tuple[str, ...]:
    from tract_jupyter.notebook.chat.markdown import markdown_text

    replies = [reply.message for reply in turn.messages if reply.message.role == "assistant"]
    calls = sum(len(reply.tool_calls) for reply in replies)
    return (
        f"{number:,}",
        turn.question[:8],
        ago(turn.at, now).replace(" ", "\N{NO-BREAK SPACE}"),
        one_line(turn.told, _SAID),
        f"{calls:,}" if calls else "",
        one_line(turn.model, 40),
        one_line(markdown_text(replies[-1].content), _SAID) if replies else "no reply",
    )


def _resume(notebook: NotebookSession) -> Coroutine[Any, Any, None]:
    """Resume the last turn. `extension.await_waiting_cells` awaits the line."""
    from tract_jupyter.notebook.chat.cell import resume

    return resume(notebook)


def _words(notebook: NotebookSession, typed: list[str]) -> Any:
    if not typed:
        return [("show", "command"), ("resume", "command"), ("undo", "command"), ("new", "command")]
    return commit_words(notebook, typed) if typed == ["show"] else []


COMMANDS = (
    Command(
        _USAGE,
        "list the turns of the conversation; draw one again; resume or undo the last one; start a new conversation",
        _chat,
        (_words,),
    ),
)
