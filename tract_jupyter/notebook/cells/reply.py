"""A reply of a model as cells: its Python blocks become code cells, and the text between them Markdown cells."""

from __future__ import annotations

import contextvars
import re
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import OperationError, TractError
from tract_jupyter.models import counted, one_line
from tract_jupyter.notebook.cells.origin import turn_cause
from tract_jupyter.notebook.cells.review import EDIT_TOOL
from tract_jupyter.review import CHAT
from tract_jupyter.storage import triggered
from tract_jupyter.toolkit import CallNotes, OutsideCall, changed_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.tract import Tract

_FENCE: Final = re.compile(r" {0,3}(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`]*+")
"""Its quantifiers are possessive: the time for a long line is linear."""
_PYTHON: Final = frozenset({"python", "py", "python3", "ipython", "ipython3"})


class ModelReply(NamedTuple):
    """A reply of a model. `turn` is the hash of the commit with the user's message."""

    text: str
    turn: str
    model: str


def split_reply(text: str) -> list[tuple[str, str]]:
    """Return the kind and the source of each cell. A block without a language, or of another one, stays text."""
    cells: list[tuple[str, list[str]]] = [("markdown", [])]
    fence, is_code = "", False
    for line in text.replace("\r\n", "\n").split("\n"):
        match = _FENCE.fullmatch(line)
        if not fence and match is not None:
            fence, is_code = match[1], match[2].casefold() in _PYTHON
            if is_code:
                cells.append(("code", []))
                continue
        elif fence and _closes(line, fence):
            fence = ""
            if is_code:
                cells.append(("markdown", []))
                continue
        cells[-1][1].append(line)
    joined = [(kind, "\n".join(lines).strip("\n")) for kind, lines in cells]
    return [(kind, source) for kind, source in joined if source.strip()]


def _closes(line: str, fence: str) -> bool:
    marks = line.strip(" ")
    return len(marks) >= len(fence) and set(marks) == {fence[0]}


def propose_reply(
    tract: Tract, reply: ModelReply, after: str, tell: Callable[[str], None]
) -> threading.Thread:
    """Ask the user about inserting a reply as cells, in a thread. It ends with the decision.

    The request is a call of `notebook_edit`, so it is reviewed as each edit of a model.

    Args:
        tract: the tract of the turn.
        reply: the reply.
        after: the id of the cell before the new cells.
        tell: gets the outcome as a short sentence.
    """
    cells = split_reply(reply.text)
    if not cells:
        raise OperationError("the reply has no text that a cell could have")
    edits = [{"action": "insert", "after": after, "kind": kind, "source": source} for kind, source in cells]

    def ask() -> None:
        try:
            # no cell runs, so the request waits as a call of an outside program does
            with (
                changed_context(outside=OutsideCall(), notes=CallNotes(model=reply.model)),
                triggered(turn_cause(reply.turn)),
            ):
                result: Any = tract.executor.execute(EDIT_TOOL, {"edits": edits}, actor=CHAT)
        except TractError as error:
            tell(f"Not inserted: {one_line(str(error), 200)}")
            return
        if result.success and "made" in result.output:
            tell(f"{counted(len(result.output['made']), 'cell')} inserted")
        else:
            tell(f"Not inserted: {one_line(result.error or 'the page has gone', 200)}")

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=[ask], name="tract-insert", daemon=True)
    thread.start()
    return thread
