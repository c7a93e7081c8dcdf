"""The command of `%tract` for a model that reviews calls before you are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import counted, one_line
from tract_jupyter.notebook.commands.command import Command
from tract_jupyter.notebook.views.html import Grid, GridView, when

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.tract import Tract

_USAGE: Final = "reviewer [on | off | log | withdraw ID]"
_REASON: Final = 160
_SHOWN: Final = 50
_ON: Final = (
    "Calls that only add to the context, and firings of sandboxed operations, may be cleared or refused by it. About "
    "everything else you are asked as before, and whenever it fails or is in doubt. %tract reviewer log lists what it "
    "decided, %tract reviewer off counts at once."
)


def _reviewer(notebook: NotebookSession, words: list[str]) -> GridView:
    tract = notebook.tract
    match words:
        case []:
            return _standing(tract)
        case ["on"]:
            return _on(tract)
        case ["off"]:
            tract.review.model_reviewer = None
            told = "You are asked about each call, and about what was cleared and is not run yet."
            return GridView("No model reviews calls", (told,))
        case ["log"]:
            return _log(tract)
        case ["withdraw", pending_id]:
            found = tract.review.withdraw(pending_id)
            return GridView(f"Withdrawn: {found[:8]}", ("You are asked about it before it is run.",))
    raise OperationError(f"usage: %tract {_USAGE}; got reviewer {' '.join(words)}")


def _on(tract: Tract) -> GridView:
    from tract_jupyter.hooks import ModelReviewer

    tract.models.default.check("review")
    if tract.review.model_reviewer is None:
        tract.review.model_reviewer = ModelReviewer()
    return GridView("A model reviews calls before you are asked", (_asked(tract), _ON))


def _asked(tract: Tract) -> str:
    connection = tract.models.default.connection("review")
    who = "a client of its own" if connection is None else str(connection)
    return f"Asked: {who}. %tract model NAME --for review chooses another one."


def _standing(tract: Tract) -> GridView:
    if tract.review.model_reviewer is None:
        off = "Off: you are asked about each call that can change something. %tract reviewer on has a model look first."
        return GridView("Model reviewer", (off,))
    outcomes = [one.outcome for one in tract.review.first_looks]
    counts = [f"{outcomes.count(kind):,} {kind}" for kind in ("cleared", "refused", "passed on", "kept")]
    told = (
        f"{counted(len(outcomes), 'question')} in this session: {', '.join(counts)} (by the rules, for you)."
    )
    return GridView("Model reviewer: on", (_asked(tract), told))


def _log(tract: Tract) -> GridView:
    """List what it decided, whenever that was, and what it left to a person in this session; newest first."""
    stored = [
        (decision.decided_at, decision.pending_id, pending.title, _outcome(decision.action, decision.error),
         decision.decided_by.removeprefix("model:"), decision.reason)
        for decision, pending in tract.review.reviewer.first.decisions()
    ]  # fmt: skip
    left = [
        (one.at, one.pending_id, one.title, one.outcome, one.model, one.reason)
        for one in tract.review.first_looks
        if one.outcome in {"passed on", "kept"}
    ]
    rows = sorted([*stored, *left], key=lambda row: row[0], reverse=True)
    told = [] if rows else ["Nothing yet."]
    if len(rows) > _SHOWN:
        told.append(f"The newest {_SHOWN} of {len(rows):,}.")
    grid = Grid(
        ("When", "Id", "What", "Outcome", "Model", "Why"),
        tuple(
            (when(at), pending_id[:8], title, outcome, model or "-", one_line(reason, _REASON))
            for at, pending_id, title, outcome, model, reason in rows[:_SHOWN]
        ),
        code=frozenset({"Id"}),
    )
    return GridView("What a model reviewed first", tuple(told), (grid,))


def _outcome(action: str, error: str | None) -> str:
    if error is not None and error.startswith("withdrawn"):
        return error
    return "refused" if action == "reject" else "cleared"


def _words(notebook: NotebookSession, given: list[str]) -> list[tuple[str, str]]:
    if given == ["withdraw"]:
        return [(one[:8], "question") for one in notebook.tract.review.reviewer.first.not_run]
    return [] if given else [(word, "option") for word in ("on", "off", "log", "withdraw")]


COMMANDS = (
    Command(
        _USAGE,
        "have a model look at calls before you are asked, and see what it decided",
        _reviewer,
        (_words,),
    ),
)
