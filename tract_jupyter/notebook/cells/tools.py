"""The tools that let a model read, edit and run the cells of the notebook."""

from __future__ import annotations

import base64
import json
import re
import secrets
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from tract_jupyter.exceptions import AttachmentError, OperationError, TractError
from tract_jupyter.llm import why_not_sent
from tract_jupyter.models import AttachedFile, canonical_json, counted, cut_middle, one_line
from tract_jupyter.notebook.cells.edits import (
    LONGEST_SOURCE,
    CellEdit,
    Edit,
    KnownTexts,
    check_edits,
    diff_text,
)
from tract_jupyter.notebook.cells.messages import source_hash
from tract_jupyter.notebook.cells.origin import turn_of_cause
from tract_jupyter.notebook.cells.pages import CellPages, CellSnapshot
from tract_jupyter.notebook.cells.review import EDIT_TOOL, MOVES, CellRequests
from tract_jupyter.review import CHAT, CodeBlock, ValueRow, ValueTable
from tract_jupyter.storage import current_trigger
from tract_jupyter.toolkit import (
    NOTEBOOK,
    CallDetails,
    ToolDefinition,
    ToolResult,
    Traits,
    call_context,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tract_jupyter.analysis import Finding
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.review import Pending, Ticket

_MOST_CELLS: Final = 200
_MOST_CHARACTERS: Final = 15_000
"""Characters of one answer. A longer one would be cut. A single cell may have more."""
_MOST_IMAGES: Final = 8
_LONGEST_OUTPUT: Final = 6_000
_LONGEST_CHECKED: Final = 200_000
_MOST_OUTPUTS: Final = 20
_LARGEST_IMAGE: Final = 1_000_000
"""Bytes."""
_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_FROM_FILE: Final = (
    "This is the saved file, so unsaved changes are not seen. Cells cannot be changed now. Code can be inserted in a "
    "new cell."
)
_HIDDEN: Final = "Outputs are not shown in this turn, because the user hides the values of variables."
_NEEDS_PAGE: Final = (
    "only code can be inserted now, because no page with the JupyterLab extension answers. Propose the change as an "
    "inserted code cell, or describe it to the user"
)
CellId = Annotated[str, "The id of the cell."]


class NotebookCells:
    """The cells of one notebook, and the tools for them."""

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._known = KnownTexts()
        self._requests = CellRequests(notebook, self)
        self.pages = CellPages(notebook, self._requests)
        self.reads_sources = False
        """True during a turn whose model may read sources without asking."""
        self._checked: tuple[Sequence[Edit], CellSnapshot] | None = None
        """The last approved edits, with the cells that their check has read."""
        self._details_of = lru_cache(maxsize=8)(self._make_details)

    def show(self, ticket: Ticket) -> None:
        """Show a request at its cells, if it is about edits."""
        self._requests.show(ticket)

    def tools(self) -> list[ToolDefinition]:
        """Return the tools of the notebook."""

        def of_notebook(function: Any, **options: Any) -> ToolDefinition:
            described = " ".join((function.__doc__ or "").split())
            return ToolDefinition.from_function(function, description=described, owner=NOTEBOOK, **options)

        return [
            of_notebook(self.notebook_read, traits=Traits(read_only=True), reads_freely=self._may_read),
            of_notebook(
                self.notebook_edit, needs_person=True, title=self._title, revert=self.take_back_edits,
                check=lambda values, _actor: self._check(values), lane=lambda _: "cells",
                details=lambda values, _actor: self._details_of(canonical_json(values["edits"])),
            ),
            of_notebook(
                self.notebook_run_cell, told_actor=True, asks_itself=True, asks_always=lambda _: True,
                lane=lambda _: "cells",
            ),
        ]  # fmt: skip

    # --- reading

    def _may_read(self, values: Mapping[str, Any], actor: str) -> bool:
        """Return True if the model of the chat may look, or if the user's magic or button allows these cells."""
        if actor != CHAT:
            return False
        if self.reads_sources and not values["outputs"]:
            return True
        cells = values["cells"]
        is_asked = bool(cells) and self.pages.asked.issuperset(cells)
        return is_asked or self._notebook.tract.review.grants.has_rule()

    def notebook_read(
        self,
        cells: Annotated[list[str] | None, "The ids of the cells; null for a range."] = None,
        first: Annotated[int, "The number of the first cell of the range, from 1."] = 1,
        count: Annotated[int, "How many cells, at most 200."] = 50,
        outputs: Annotated[bool, "True to include printed text, errors and images, shortened."] = False,  # noqa: FBT002
    ) -> Any:
        """Read cells of the user's notebook: source, id and source_hash, and their outputs on request.

        Not for values of variables: notebook_execute. Not for the conversation: log.
        """
        is_hidden = outputs and self._notebook.hides_values
        outputs = outputs and not is_hidden
        if cells is None:
            everything = self.pages.read()
            chosen = [one for one in everything.cells if one["number"] >= max(first, 1)]
            chosen = chosen[: min(max(count, 1), _MOST_CELLS)]
            total, cells = len(everything.cells), [one["id"] for one in chosen]
            found = self._with_outputs(everything, chosen) if outputs else everything
        else:
            total, cells = None, cells[:_MOST_CELLS]
            found = self.pages.read(cells, outputs=outputs)
            chosen = [one for one in found.cells if one["id"] in cells]
        if outputs and found.page is not None:
            chosen = list(found.cells)
        note = _HIDDEN if is_hidden else ""
        return self._answer(found, chosen, cells, total, outputs=outputs, note=note)

    def _with_outputs(self, everything: CellSnapshot, chosen: Sequence[Mapping[str, Any]]) -> CellSnapshot:
        if everything.page is None:
            return everything
        return self.pages.read([one["id"] for one in chosen], outputs=True)

    def _answer(
        self,
        found: CellSnapshot,
        chosen: Sequence[Mapping[str, Any]],
        wanted: Sequence[str],
        total: int | None,
        *,
        outputs: bool,
        note: str,
    ) -> ToolResult:
        shown: list[dict[str, Any]] = []
        size = 0
        for cell in chosen:
            texts = _output_data(cell) if outputs else []
            data = {**_cell_data(cell, self._known), **({"outputs": texts} if texts else {})}
            size += len(json.dumps(data))
            if shown and size > _MOST_CHARACTERS:
                break
            shown.append(data)
        images = [image for cell in chosen[: len(shown)] if outputs for image in _output_images(cell)]
        notes = [
            note,
            _FROM_FILE if found.page is None else "",
            f"This answer has only the first {counted(len(shown), 'cell')}. Read the rest with another call."
            if len(shown) < len(chosen)
            else "",
            "There are no cells with the other ids." if len(chosen) < len(set(wanted)) else "",
            "The notebook is read-only." if found.page is not None and found.page.is_read_only else "",
        ]
        note = " ".join(filter(None, notes))
        answer = {
            "cells": shown,
            **({} if total is None else {"total": total}),
            **({"note": note} if note else {}),
        }
        return ToolResult("notebook_read", success=True, output=answer, images=tuple(images[:_MOST_IMAGES]))

    # --- editing

    def notebook_edit(
        self, edits: Annotated[list[CellEdit], "The edits, in order. All are made, or none."]
    ) -> Any:
        """Change the user's notebook: insert, replace, delete or move cells, after the user's approval.

        Replace, delete and move need the source_hash from notebook_read. Not to run code: notebook_run_cell.
        """
        values = {"edits": edits}
        planned = self.plan(values)
        live = self._take_checked(planned) or self._check_live(planned)
        if live.page is None:
            return self._propose(planned)
        placed, undo = _placed(planned, [cell["id"] for cell in live.cells])
        pending = self._requests.approval_of(values)
        request = "" if pending is None else pending.pending_id
        self.pages.apply(live.page, [edit.to_page() for edit in placed], self._mark(pending), request)
        made = [
            {"edit": edit.name, "action": edit.action, "cell": edit.cell, **self._new_text(edit)}
            for edit in placed
        ]
        return ToolResult(
            EDIT_TOOL, success=True, output={"made": made, "undo": undo}, told=json.dumps({"made": made})
        )

    def _new_text(self, edit: Edit) -> dict[str, str]:
        """Remember the new text of a cell, which the model has written, and return its hash."""
        if edit.action not in {"insert", "replace"}:
            return {}
        cell = {"id": edit.cell, "hash": source_hash(edit.new), "source": edit.new, "kind": edit.kind}
        return {"source_hash": self._known.add({**cell, "number": edit.number})}

    def take_back_edits(self, result: Any) -> dict[str, Any]:
        """Take the edits of a call back."""
        undo = result.get("undo") if isinstance(result, dict) else None
        if not undo:
            raise OperationError("the code was only proposed in a cell; delete the cell to take it back")
        page = self.pages.connected
        if page is None:
            raise OperationError(
                "no page with the JupyterLab extension answers; open the notebook, and try again"
            )
        self.pages.apply(page, undo, None)
        return {"taken_back": len(undo)}

    def plan(self, values: Mapping[str, Any]) -> tuple[Edit, ...]:
        """Return the checked edits of a call."""
        return check_edits(values["edits"], self._known)

    def _check(self, values: Mapping[str, Any]) -> None:
        if (
            not self._notebook.tract.cassette.is_replaying
        ):  # then the recorded result comes back, and no page is asked
            edits = self.plan(values)
            named = {name for edit in edits for name in (edit.cell, edit.after) if name}
            is_approved = self._requests.approval_of(values) is not None
            live = self._check_approved(edits) if is_approved else self._check_live(edits, named)
            self._checked = (edits, live) if is_approved else None

    def _check_approved(self, edits: Sequence[Edit]) -> CellSnapshot:
        """Check approved edits like `_check_live`. The page compares replaced texts itself, so these are not read."""
        page = self.pages.connected
        is_text_only = all(edit.action == "replace" for edit in edits)
        if page is None or page.is_read_only or "edit" not in page.abilities:
            return self._check_live(edits)
        return CellSnapshot((), page) if is_text_only and page.has_just_answered else self._check_live(edits)

    def _take_checked(self, edits: Sequence[Edit]) -> CellSnapshot | None:
        """Return the cells that the check of the approved call has read. The page compares the texts."""
        checked, self._checked = self._checked, None
        return checked[1] if checked is not None and checked[0] == edits else None

    def _check_live(self, edits: Sequence[Edit], which: Collection[str] | None = None) -> CellSnapshot:
        """Check that the cells are as the model read them, and return the live cells."""
        live = self.pages.read() if which is None else self.pages.recall(which)
        self._known.note_places(live.cells)
        page = live.page
        if page is None:
            if any(edit.action != "insert" or edit.kind != "code" for edit in edits):
                raise OperationError(_NEEDS_PAGE)
            return live
        if page.is_read_only or "edit" not in page.abilities:
            raise OperationError("the notebook is read-only, so its cells cannot be changed. Tell the user")
        for edit in edits:
            cell = live.cell(edit.cell) if edit.cell else None
            if edit.cell and cell is None:
                raise OperationError(f"cell {edit.cell} does not exist any more. Read the cells again")
            if cell is not None and (cell["hash"], cell["kind"]) != (source_hash(edit.old), edit.kind):
                raise OperationError(
                    f"the user changed cell {edit.cell} since you read it. Read it again, and keep the user's change"
                )
            if edit.after is not None and live.cell(edit.after) is None:
                raise OperationError(f"'after' names cell {one_line(edit.after, 64)}, which does not exist")
        return live

    def _propose(self, edits: Sequence[Edit]) -> dict[str, Any]:
        """Put inserted code into the next cell, without a page. There is only one such cell."""
        self._notebook.shell.set_next_input("\n\n".join(edit.new.rstrip("\n") for edit in edits))
        return {"proposed": "The code is in a new cell below the running one. The user decides if it runs."}

    def _mark(self, pending: Pending | None) -> dict[str, str] | None:
        """Return the origin of the edits for the metadata of the cells; None if the user wants none."""
        if not self._notebook.config.cell_marks:
            return None
        notes, tract = call_context().notes, self._notebook.tract
        turns = [] if notes is None else tract.loop.turns()
        decision = None if pending is None else pending.decision
        return {
            "model": "" if notes is None else notes.model,
            "turn": turn_of_cause(current_trigger()) or (turns[-1].question if turns else ""),
            "commit": tract.head or "",
            "decision": "" if decision is None else f"{decision.action} ({decision.channel})",
            "request": "" if pending is None else pending.pending_id,
        }

    # --- the request

    def _title(self, values: Mapping[str, Any]) -> str:
        try:
            edits = self.plan(values)
        except TractError:
            return "Edit the notebook"
        return edits[0].title if len(edits) == 1 else f"Edit the notebook: {counted(len(edits), 'edit')}"

    def _make_details(self, edits: str) -> CallDetails:
        planned = self.plan({"edits": json.loads(edits)})
        rows = tuple(
            ValueRow(edit.name, edit.action, edit.title, one_line(edit.old, 80))
            for edit in planned
            if edit.action == "move"
        )
        # the other edits have a block each, with the same title
        tables = (ValueTable(MOVES, rows, "rows", heads=("Edit", "Change", "First line")),) if rows else ()
        blocks = tuple(self._block(edit) for edit in planned if edit.action != "move")
        return CallDetails(tables, blocks, frozenset({"edits"}))

    def _block(self, edit: Edit) -> CodeBlock:
        is_code = edit.kind == "code"
        if edit.action == "insert":
            if is_code:
                block: CodeBlock = self._notebook.advice.code_block(edit.title, edit.new)
                return block
            return CodeBlock(edit.title, edit.new, language="text")
        found = self.findings(edit.new) if edit.has_new_code else ()
        text, findings = diff_text(edit, found)
        return CodeBlock(edit.title, text, findings, language="diff")

    def findings(self, code: str) -> tuple[Finding, ...]:
        """Return the findings of the analysis in code."""
        return self._notebook.advice.analyze(code).findings

    # --- running

    def notebook_run_cell(
        self,
        actor: str,
        /,
        cell: CellId,
        based_on: Annotated[str, "Its source_hash, as notebook_read returned it."],
    ) -> Any:
        """Run the code of a cell with the user's variables, after the user's approval. It is rehearsed if possible.

        You get the result. The outputs below the cell stay. Not for new code: notebook_execute.
        """
        text = self._known.find(cell, based_on)
        if text is None or text.kind != "code":
            raise OperationError(
                f"cell {one_line(cell, 64)} was not read as code with this hash here; read it with notebook_read"
            )
        live = self.pages.read([cell]).cell(cell)
        if live is None or live["hash"] != source_hash(text.source):
            raise OperationError(f"the user changed or deleted cell {cell} since you read it. Read it again")
        execute = (call_context().executor or self._notebook.tract.executor).get("notebook_execute")
        if execute is None:
            raise OperationError("notebook_execute is not available, and it runs cells. Tell the user")
        self._notebook.lend_variables()
        return execute.handler(actor, code=text.source, notebook_id="user", backend="kernel")


def _placed(edits: Sequence[Edit], cells: Sequence[str]) -> tuple[list[Edit], list[dict[str, Any]]]:
    """Return the edits with ids for new cells, and the edits that take them back, in order.

    Several inserts after the same cell keep their order.
    """
    order, last, placed, undo = list(cells), dict[str | None, str](), list[Edit](), list[Edit]()
    for edit in edits:
        here = edit
        if edit.action == "insert":
            here = replace(edit, cell=secrets.token_hex(6), after=last.get(edit.after, edit.after))
            last[edit.after] = here.cell
        index = order.index(here.cell) if here.cell in order else 0
        before = order[index - 1] if index else None
        if edit.action in {"delete", "move"}:
            order.remove(here.cell)
        if edit.action in {"insert", "move"}:
            order.insert(0 if here.after is None else order.index(here.after) + 1, here.cell)
        placed.append(here)
        undo.insert(0, _reverse(here, before))
    return placed, [edit.to_page() for edit in undo]


def _reverse(edit: Edit, before: str | None) -> Edit:
    """Return the edit that takes another one back. `before` was the cell before its cell."""
    action, after = {
        "insert": ("delete", None),
        "delete": ("insert", before),
        "replace": ("replace", None),
    }.get(edit.action, ("move", before))
    old, new = (edit.old, edit.old) if edit.action == "move" else (edit.new, edit.old)
    return replace(edit, action=action, after=after, old=old, new=new)  # type: ignore[arg-type] # a literal of the dict


# ---- cells and their outputs for a model: bounded, without keys


def _cell_data(cell: Mapping[str, Any], known: KnownTexts) -> dict[str, Any]:
    """Return a cell for a model.

    Only a cell with its whole source has a hash, so only such a cell can be edited. In JSON with sorted keys, the hash
    follows the source, so the beginning of a long answer does not have it.
    """
    data: dict[str, Any] = {"id": cell["id"], "number": cell["number"], "kind": cell["kind"]}
    if cell["execution_count"] is not None:
        data["execution_count"] = cell["execution_count"]
    source = cell["source"]
    if len(source) > LONGEST_SOURCE or cell["hash"] != source_hash(source):  # the page cut it
        return {**data, "source": _sendable(source, LONGEST_SOURCE // 10), "note": "too long to edit here"}
    why = why_not_sent(source)
    if why:
        return {**data, "note": f"not shown, because it {why}"}
    return {**data, "source": source, **({"source_hash": known.add(cell)} if cell["id"] else {})}


def _output_data(cell: Mapping[str, Any]) -> list[str]:
    outputs = cell.get("outputs") or []
    texts = [_sendable(text, _LONGEST_OUTPUT) for text in map(_text_of, outputs[:_MOST_OUTPUTS]) if text]
    more = len(outputs) - _MOST_OUTPUTS
    return [*texts, *([f"[{more:,} more outputs]"] if more > 0 else [])]


def _output_images(cell: Mapping[str, Any]) -> Iterator[AttachedFile]:
    """Yield the PNG images of a cell's outputs. Only their headers are read."""
    for output in (cell.get("outputs") or [])[:_MOST_OUTPUTS]:
        encoded = _joined(_data(output).get("image/png"))
        if 0 < len(encoded) <= _LARGEST_IMAGE * 4 // 3:
            with suppress(AttachmentError, ValueError):
                yield AttachedFile.of(f"cell {cell['number']}.png", base64.b64decode(encoded))


def _text_of(output: Mapping[str, Any]) -> str:
    kind, data = output.get("output_type"), _data(output)
    if kind == "stream":
        return _joined(output.get("text"))
    if kind == "error":
        head = f"{_joined(output.get('ename'))}: {_joined(output.get('evalue'))}"
        traceback = output.get("traceback")
        return "\n".join(
            [
                *filter(lambda line: isinstance(line, str), traceback if isinstance(traceback, list) else ()),
                head,
            ]
        )
    others = sorted(str(name)[:60] for name in data if name != "text/plain")
    note = f"[also as {', '.join(others[:5])}]" if others else ""
    return "\n".join(filter(None, [_joined(data.get("text/plain")), note]))


def _data(output: Mapping[str, Any]) -> dict[str, Any]:
    data = output.get("data")
    return data if isinstance(data, dict) else {}


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _sendable(text: str, limit: int) -> str:
    """Return a text without escapes for a terminal, cut in the middle; without it, if it may have a key."""
    plain = _ANSI.sub("", text[:_LONGEST_CHECKED])
    why = why_not_sent(plain)
    return f"[not shown, because it {why}]" if why else cut_middle(plain, limit)
