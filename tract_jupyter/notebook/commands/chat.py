"""The commands of `%tract` about the turns of a conversation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models import one_line
from tract_jupyter.notebook.commands.command import (
    Command,
    arguments,
    commit_words,
    no_arguments,
    option,
    option_value,
)
from tract_jupyter.notebook.views.html import Grid, GridView, ago

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tract_jupyter.loop import PastTurn
    from tract_jupyter.notebook.session import NotebookSession

_USAGE = (
    "chat [show [N|COMMIT] | resume | undo [N|COMMIT] [--yes] [--conversation] [--force NAME] "
    "| redo [--yes] | new]"
)
_VERBS = ("show", "resume", "undo", "redo", "new")
_MOST = 20
_SAID = 60


def _chat(notebook: NotebookSession, words: list[str]) -> Any:
    what, *rest = words or [""]
    if what == "show" and len(rest) <= 1:
        from tract_jupyter.notebook.chat.source import stored_view

        return stored_view(notebook.tract, *rest)
    if what == "resume" and not rest:
        return _resume(notebook)
    if what == "undo":
        return _undo(notebook, rest)
    if what == "redo":
        return _redo(notebook, rest)
    if what == "new" and not rest:
        return _new(notebook)
    if words and what not in _VERBS:
        raise OperationError(
            f"%tract chat has no {what[:_SAID]!r}.{nearest(what, _VERBS)} Usage: %tract {_USAGE}"
        )
    if words:
        raise OperationError(f"usage: %tract {_USAGE}; got chat {' '.join(words)}")
    return _turns(notebook)


def _undo(notebook: NotebookSession, words: list[str]) -> Any:
    """Show what the undo of a turn would restore. With `--yes`, or if only messages would leave, undo it."""
    from tract_jupyter.notebook.chat.source import find_turn
    from tract_jupyter.notebook.chat.undo import UndoCard, UndoPage, plan_undo, show_card, undo_conversation

    tract, named = notebook.tract, " ".join(["%tract chat undo", *words[:1]])
    is_confirmed, words = option(words, "--yes")
    is_partial, words = option(words, "--conversation")
    force, words = _forced(words)
    names = arguments("chat undo [N|COMMIT] [--yes] [--conversation] [--force NAME]", words, 0, 1)
    if not (names or tract.loop.turns()):
        raise OperationError("there is no turn to undo on this branch")
    turn = find_turn(tract, *names)
    if is_confirmed and not is_partial:
        return UndoPage(UndoCard(tract.undo(turn, force=force)), "")
    card = plan_undo(tract, turn.question)
    if not (is_partial or card.plan.has_only_conversation):
        return show_card(notebook, card, named)
    undo_conversation(tract, turn.question)
    rest = "" if card.plan.has_only_conversation else "Effects outside the conversation stay. "
    return GridView(f"Undone: {card.plan.text}", (f"{rest}%tract chat redo puts the turn back.",))


def _redo(notebook: NotebookSession, words: list[str]) -> Any:
    """Show what the redo of the last undone turn would repeat. With `--yes`, or if it is only messages, redo it."""
    from tract_jupyter.notebook.chat.undo import UndoCard, UndoPage, last_undone, plan_undo, show_card

    tract = notebook.tract
    is_confirmed, words = option(words, "--yes")
    no_arguments("chat redo", words)
    question = last_undone(tract)
    if not question:
        raise OperationError("there is no undone turn here; %tract undo --yes takes back another change")
    card = plan_undo(tract, question, redo=True)
    if not (is_confirmed or card.plan.has_only_conversation):
        return show_card(notebook, card, "%tract chat redo")
    done = UndoCard(tract.redo(question))
    return GridView(f"Redone: {card.plan.text}") if card.plan.has_only_conversation else UndoPage(done, "")


def _forced(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the names after `--force`, and the other words."""
    names: list[str] = []
    while "--force" in words:
        name, words = option_value(words, "--force")
        names += [name] if name else []
    return names, words


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
        return [(word, "command") for word in _VERBS]
    if typed[0] == "undo":
        return [("--yes", "option"), ("--conversation", "option"), ("--force", "option")]
    if typed == ["redo"]:
        return [("--yes", "option")]
    return commit_words(notebook, typed) if typed == ["show"] else []


COMMANDS = (
    Command(
        _USAGE,
        "list the turns of the conversation; draw one again; resume, undo or redo one; start a new conversation",
        _chat,
        (_words,),
    ),
)
