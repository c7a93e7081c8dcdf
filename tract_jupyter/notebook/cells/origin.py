"""The origin of a cell: what the store knows about the request that its metadata names.

A file may have anything in `metadata.tract`. Only the id of the request is used, and only to look it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import one_line
from tract_jupyter.notebook.cells.review import EDIT_TOOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.loop import PastTurn
    from tract_jupyter.notebook.cells.pages import CellPages
    from tract_jupyter.storage import StoredDecision, StoredPending
    from tract_jupyter.tract import Tract

_OF_TURN: Final = "turn "
_UNKNOWN = (
    "The metadata names a request that is no approved edit of this cell in this store. It proves nothing."
)


def turn_cause(turn: str) -> str:
    """Return the cause of a request about the cells of an earlier turn."""
    return f"{_OF_TURN}{turn}"


def turn_of_cause(cause: str | None) -> str:
    """Return the turn of such a cause; empty for another one."""
    return cause.removeprefix(_OF_TURN) if cause is not None and cause.startswith(_OF_TURN) else ""


def describe_origin(tract: Tract, pages: CellPages, name: str) -> tuple[str, ...]:
    """Return lines that say why a cell is in the notebook. `name` is the id of the cell, or its number."""
    cell = _find(pages, name)
    mark = cell.get("metadata_tract")
    request = mark.get("request") if isinstance(mark, dict) else None
    if not isinstance(request, str) or not request:
        return ("Its metadata names no request: you wrote it, or the mark was left out or removed.",)
    stored = tract.review.ledger.get(request)
    decisions = tract.review.ledger.decisions(request)
    last = decisions[-1] if decisions else None
    if stored is None or last is None or stored.status != "approved":
        return (_UNKNOWN,)
    if not (tract.review.ledger.vouches(stored) and tract.review.ledger.verifies(last)):
        return (f"{_UNKNOWN} The request is not signed by you.",)
    turn = _turn_of(tract, stored)
    approved = _approved(stored, last)
    new = _new_cells(tract, turn.question, approved) if turn is not None else frozenset()
    edits = [one for one in approved if one.get("action") in {"insert", "replace"}]
    own = [edit.get("source") for edit in edits if edit.get("cell") == cell["id"]]
    inserted = [edit.get("source") for edit in edits if edit.get("action") == "insert"]
    texts = own or (inserted if cell["id"] in new or (not new and cell["source"] in inserted) else [])
    if not texts:
        return (_UNKNOWN,)
    is_same = cell["source"] in texts
    is_sure = bool(own or new)
    return (
        *([] if turn is None else _turn_lines(turn)),
        f"{last.decided_by} approved request {request[:8]} ({last.channel}), {last.decided_at:%Y-%m-%d %H:%M} UTC.",
        "Its text is the approved one." if is_same else "Its text was changed after the approved edit.",
        *(() if is_sure else ("The store does not record which cell the request inserted.",)),
    )


def _find(pages: CellPages, name: str) -> dict[str, Any]:
    cells = pages.read().cells
    by_id = [cell for cell in cells if cell["id"] == name]
    found = by_id or [cell for cell in cells if str(cell["number"]) == name]
    if not found:
        raise OperationError(
            f"there is no cell {one_line(name, 64) or 'with this id'}. Use the id of a cell, or its number from 1"
        )
    return found[0]


def _approved(stored: StoredPending, decision: StoredDecision) -> list[Mapping[str, Any]]:
    """Return the approved edits; if the user changed the arguments, the changed ones."""
    changed = decision.arguments.get("edits")
    edits = (changed if isinstance(changed, dict) else stored.fields).get("edits")
    return [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else []


def _new_cells(tract: Tract, question: str, approved: list[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the cells that the approved edits inserted, from records that this user signed."""
    calls = [one for one in tract.effects.of(question) if one.is_own and one.tool == EDIT_TOOL]
    results = [one.result for one in calls if (one.arguments or {}).get("edits") == approved]
    made = [one for result in results if isinstance(result, dict) for one in result.get("made", ())]
    return frozenset(one["cell"] for one in made if one["action"] == "insert")


def _turn_of(tract: Tract, stored: StoredPending) -> PastTurn | None:
    """Return the turn in which a request was made; None if it is not known."""
    question = turn_of_cause(stored.triggered_by)
    turns = [
        turn
        for turn in tract.loop.turns()
        if turn.at <= stored.created_at and question in {"", turn.question}
    ]
    return turns[-1] if turns else None


def _turn_lines(turn: PastTurn) -> tuple[str, ...]:
    model = _model_of(turn)
    return (f"Asked for by: {one_line(turn.text, 300)}", *([f"Model: {model}"] if model else []))


def _model_of(turn: PastTurn) -> str:
    names = [(one.message.generation_config or {}).get("model") for one in turn.messages]
    return one_line(next((name for name in names if isinstance(name, str)), ""), 80)
