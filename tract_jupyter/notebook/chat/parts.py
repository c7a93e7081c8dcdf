"""The parts of a turn: context, replies, reasoning, tool calls, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tract_jupyter.agents import call_title
from tract_jupyter.concurrency import BY_PERSON
from tract_jupyter.models import counted, one_line, printable, shortened, size_text
from tract_jupyter.notebook.cells import EDIT_TOOL
from tract_jupyter.notebook.chat.markdown import MarkdownStream
from tract_jupyter.notebook.chat.outputs import sent_image_html
from tract_jupyter.notebook.chat.rows import (
    LONGEST_RESULT,
    AskedQuestion,
    arguments_html,
    asked_row,
    brief_arguments,
    clock_text,
    code_html,
    decide_html,
    decided_brief,
    is_rejection,
    quoted,
    result_html,
    says_all,
    script_brief,
    script_html,
    script_saved,
    tokens_text,
)
from tract_jupyter.notebook.chat.view import TurnBlock
from tract_jupyter.notebook.chat.work import AgentWork, inner_rows
from tract_jupyter.notebook.panels.render import change_html, place_html
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.diff import side_by_side
from tract_jupyter.notebook.views.html import Html, element, fragment
from tract_jupyter.notebook.views.rows import Row
from tract_jupyter.prompts import ended_reading, ended_running, not_run
from tract_jupyter.review import approval_terms, compare_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.loop import CallEnded
    from tract_jupyter.models import AttachedFile, Attachment, SentContext, ToolCall
    from tract_jupyter.notebook.chat.outputs import TurnOutput
    from tract_jupyter.notebook.orchestration.log import HeadPart
    from tract_jupyter.notebook.views.html import HtmlPart
    from tract_jupyter.review import Decision, Ticket

RUNS_SCRIPTS: Final = "notebook_execute"
"""The tool that runs scripts. Scripts have separate rows."""
_LOOKED: Final = "Looked, no effects"
_THOUGHT: Final = 20_000
_FIRST_WORDS: Final = 100
_NOTE: Final = 2_000
_ERROR: Final = 160
_NOT_RUN: Final = "Script not run"
_SENT: Final = "sent to the model"
_SCRIPT_STATES: Final = {
    "completed": "done",
    "interrupted": "stopped",
    "timed_out": "stopped",
    "paused": "asked",
}


@dataclass(frozen=True)
class RowPart:
    """A part that is one row."""

    id: str
    row: Row
    is_printed: bool = True

    def blocks(self, limit: int) -> list[TurnBlock]:  # noqa: ARG002 # its body has a separate limit
        """Return the row."""
        return [TurnBlock(self.id, fragment(self.row), kind="row")]

    def text(self) -> str:
        """Return the row as text; empty if a terminal does not show it."""
        return self.row.text() if self.is_printed else ""


def context_part(part_id: str, sent: SentContext, tokens: int) -> RowPart:
    """Return context that was sent with the message."""
    return RowPart(part_id, Row(
        "done", f"With {sent.name}", brief=sent.what, brief_text=sent.what, aside=counted(len(sent.text), "character"),
        tokens=tokens_text(tokens), body=[rows.sub("Sent with your message"), rows.out(sent.text, LONGEST_RESULT)],
    ))  # fmt: skip


def attached_part(part_id: str, attachment: Attachment) -> RowPart:
    """Return an attachment of the message, without its content."""
    kind = attachment.media_type
    aside = size_text(attachment.size)
    return RowPart(part_id, Row("done", f"With {attachment.name}", brief=kind, brief_text=kind, aside=aside))


def thought_part(part_id: str, text: str, *, is_running: bool = False) -> RowPart:
    """Return the reasoning of the model, if the provider returns it. A terminal does not show it."""
    state, what = ("running", "Thinking") if is_running else ("done", "Thought")
    brief = element("span", one_line(text, _FIRST_WORDS), class_="dim")
    return RowPart(part_id, Row(state, what, brief=brief, body=rows.out(text, _THOUGHT)), is_printed=False)


@dataclass(frozen=True)
class Prose:
    """Text of the model."""

    id: str
    source: str
    parts: tuple[tuple[str, Html], ...]
    is_cut: bool = False
    is_growing: bool = False

    @classmethod
    def of(cls, part_id: str, text: str, *, is_cut: bool = False) -> Prose:
        """Return a complete text."""
        stream = MarkdownStream()
        stream.append(text)
        return cls(part_id, text, tuple(stream.parts()), is_cut)

    def blocks(self, limit: int) -> list[TurnBlock]:  # noqa: ARG002 # it is shown whole
        """Return each of its blocks."""
        return [TurnBlock(f"{self.id}.{name}", html, kind="prose") for name, html in self.parts]

    def text(self) -> str:
        """Return the text as the model wrote it."""
        return printable(self.source.strip())


@dataclass(frozen=True)
class NotePart:
    """A note of the package, such as "resumed"."""

    id: str
    title: str
    said: str = ""
    css: str = ""
    icon: str = ""

    def blocks(self, limit: int) -> list[TurnBlock]:  # noqa: ARG002 # it is short
        """Return the note."""
        return [TurnBlock(self.id, rows.note(self.title, shortened(self.said, _NOTE), self.css, self.icon))]

    def text(self) -> str:
        """Return the note as text."""
        return printable(" ".join(filter(None, [self.title, self.said])))


@dataclass(frozen=True)
class AskedInCall:
    """A request of a script, or a request before a script runs."""

    pending_id: str
    ticket: Ticket | None = None
    asked: AskedQuestion | None = None

    @property
    def is_open(self) -> bool:
        """True if the request has a row here and is undecided."""
        return self.ticket is not None and self.ticket.status.is_open


@dataclass(frozen=True)
class CallPart:
    """A tool call of the model with its progress, and the requests of its script."""

    id: str
    call: ToolCall
    is_asked: bool = False
    is_begun: bool = False
    ended: CallEnded | None = None
    ticket: Ticket | None = None
    questions: tuple[AskedInCall, ...] = ()
    is_open: bool = False
    """True if its ticket is undecided. A copy, because the ticket changes."""
    asked: AskedQuestion | None = None
    """The decided request to run its script, or to edit cells. It is about the call."""
    work: tuple[AgentWork, ...] = ()
    """The work of the agents that the call or its script calls."""
    outputs: tuple[TurnOutput, ...] = ()
    """The outputs of its script so far."""
    elapsed: float | None = None
    """Whole seconds since its script started; None if no script runs."""
    images: tuple[AttachedFile, ...] = ()
    """The images of its answer."""
    without_images: str = ""
    """The reason if the images were not sent; else empty."""

    @property
    def is_script(self) -> bool:
        """True if the call runs a script."""
        return self.call.name == RUNS_SCRIPTS

    @property
    def is_edit(self) -> bool:
        """True if the call edits cells."""
        return self.call.name == EDIT_TOOL

    @property
    def decision(self) -> Decision | None:
        """The decision about the call; None if there is none."""
        if self.ended is None:
            return None if self.is_open or self.ticket is None else self.ticket.pending.decision
        return self.ended.decision or (None if self.asked is None else self.asked.decision)

    @property
    def is_unasked(self) -> bool:
        """True if its script went to the model without a request, because it has no effects."""
        return self.is_script and self.decision is not None and self.decision.channel == "grant"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the model, with the changes of the user."""
        return {**self.call.arguments, **self._edits}

    @property
    def _edits(self) -> Mapping[str, Any]:
        decision = self.decision
        edits = {} if decision is None else approval_terms(decision.action, decision.arguments).get("edits")
        code = None if self.asked is None else self.asked.arguments.get("code")
        # an earlier decision may have changed the code, which was then rehearsed again
        changed = {"code": code} if isinstance(code, str) and code != self.call.arguments.get("code") else {}
        return {**changed, **edits} if isinstance(edits, dict) else changed

    @property
    def _is_rejected(self) -> bool:
        decision = self.decision
        return decision is not None and is_rejection(decision)

    @property
    def _is_withdrawn(self) -> bool:
        """True if its request was open when the turn was stopped. The loop rejects such a request."""
        ended, decision = self.ended, self.decision
        return ended is not None and decision is not None and ended.text == not_run(decision.reason)

    @property
    def state(self) -> str:
        """The progress, a key of `rows.ICONS`."""
        ended, decision = self.ended, self.decision
        if decision is not None and self._is_rejected and not self._is_withdrawn:
            return "not run" if decision.action == "expire" else "refused"
        if ended is None:
            if self.is_open or (self.is_asked and not self.is_begun and decision is None):
                return "asked"
            return "running" if self.is_begun else "idle"
        if ended.is_error and _is_unfinished(ended.text):
            return "stopped"
        if ended.is_error:
            return "failed" if ended.made and not ended.text.startswith(not_run("")) else "not run"
        status = "completed" if ended.script is None else ended.script.get("status")
        return _SCRIPT_STATES.get(str(status), "failed")

    def blocks(self, limit: int) -> list[TurnBlock]:
        """Return the row, and one for each output and request of its script."""
        row = (
            [*self._live]
            if limit == LONGEST_RESULT
            else [TurnBlock(self.id, fragment(self.row(limit)), kind="row")]
        )
        outputs = [
            TurnBlock(f"{self.id}.o{place}", output.html, kind="row")
            for place, output in enumerate(self.outputs)
        ]
        return [*row, *outputs, *map(_question_block, self.questions)]

    @cached_property
    def _live(self) -> tuple[TurnBlock, ...]:
        if self.is_open:
            return (TurnBlock(self.id, Html(), self.ticket, kind="question"),)
        return (TurnBlock(self.id, fragment(self.row(LONGEST_RESULT)), self.ticket, kind="row"),)

    def text(self) -> str:
        """Return the rows as text."""
        requests = [asked_row(item.asked).text() for item in self.questions if item.asked is not None]
        inner = [line for work in self.work for line in work.text().splitlines()]
        below = inner if self.is_script else inner[1:]  # the first line of an agent's own row says the same
        indent = "  " if self.is_script else ""
        outputs = [line for item in self.outputs for line in item.plain.splitlines()]
        about = (
            [f"    {line}" for line in filter(None, [self._why_not])]
            + [f"    {line}" for line in outputs]
            + [f"  {line}" for line in requests]
            + [f"{indent}{line}" for line in below]
        )
        return "\n".join([self.row(0).text(), *about])

    def row(self, limit: int) -> Row:
        """Return the row. Results are cut after `limit` characters."""
        if self.is_script:
            row, name = self._script_row(limit), " a script"
        elif self.work:
            row, name = self._agent_row(limit), f" {self.work[-1].agent}"
        elif self.is_edit and isinstance(edits := self.arguments.get("edits"), list):
            row, name = self._edit_row(limit, edits), " edits of cells"
        else:
            title = call_title(self.call.name, self.arguments)
            row, name = self._call_row(limit, title), f": {title}" if title else f" {self.call.name}"
        decision = self.decision
        if decision is not None and self._is_withdrawn:
            short, full = f"stopped, {clock_text(decision.decided_at)}", "stopped before a decision"
            row = row._replace(aside=short, aside_title=full, seconds=None)
        elif decision is not None:
            row = _with_decision(row, decision, name)
        return row._replace(took=self._images_text) if self.images else row

    @property
    def _images_text(self) -> str:
        """Return the number of images, and whether the model received them."""
        images = counted(len(self.images), "figure" if self.is_script else "image")
        return f"{images} not sent: {self.without_images}" if self.without_images else f"{images} {_SENT}"

    @property
    def _images_html(self) -> HtmlPart:
        if not self.images:
            return None
        heading = rows.sub(one_line(self._images_text, _ERROR))
        return heading, [sent_image_html(image) for image in self.images]

    def _call_row(self, limit: int, title: str) -> Row:
        brief, text = brief_arguments(self.arguments)
        # the body does not repeat a complete line: a turn may have hundreds of calls
        is_said = says_all(self.arguments, text) and self.decision is None
        called = [] if is_said else [rows.sub("Called with"), arguments_html(self.arguments)]
        what = _past_tense(title) if self.state == "done" else title
        return Row(
            self.state, what, self.call.name, brief, text, self._badge, tokens=self._tokens, seconds=self._seconds,
            body=(called, self._answer_html(limit)),
        )  # fmt: skip

    def _edit_row(self, limit: int, edits: list[Any]) -> Row:
        """Return the row of edits of cells, with their diffs as the request showed them."""
        asked, brief = self.asked, "; ".join(map(_edit_words, edits))
        title = f"Edit the notebook: {counted(len(edits), 'edit')}"
        body: HtmlPart = [
            (rows.sub(_edit_words(one)), _edited_html(_source_of(one), "python")) for one in edits
        ]
        if asked is not None and asked.code:
            shown = [(rows.sub(name), _edited_html(code, language)) for name, code, language in asked.code]
            if self._edits:  # the user accepted some of the edits, or changed them
                brief, body = "as you changed it", (body, rows.fold("Proposed", shown))
            else:
                brief = "; ".join(name for name, _, _ in asked.code if name != asked.title)
                title, body = asked.title, shown
        brief = f"({one_line(brief, _ERROR)})" if brief else ""
        return Row(
            self.state, _past_tense(title) if self.state == "done" else title, "", element("span", brief, class_="ui"),
            brief, self._badge, tokens=self._tokens, seconds=self._seconds, body=(body, self._answer_html(limit)),
        )  # fmt: skip

    def _agent_row(self, limit: int) -> Row:
        """Return the row of an agent's call."""
        work = self.work[-1]
        state = work.row_state if self.ended is None else self.state
        row = work.row(limit)
        saw = None if self.ended is None else self._answer_html(limit)
        seconds = row.seconds if self.ended is None else self._seconds
        return row._replace(
            state=state, badge=work.badge or self._badge, seconds=seconds, body=(row.body, saw)
        )

    def _script_row(self, limit: int) -> Row:
        ended, code = self.ended, str(self.arguments.get("code") or "")
        script: Mapping[str, Any] = {} if ended is None or ended.script is None else ended.script
        count = script.get("calls")
        called = (
            f"{counted(count, 'tool call')} in one script" if isinstance(count, int) and count else "a script"
        )
        what = self._script_title(script, called)
        brief, place = script_brief(script, code), str(self.arguments.get("backend") or "")
        brief_html = element("span", brief, class_="ui") if brief.startswith("“") else brief
        answer = "" if ended is None else ended.text
        tokens = 0 if ended is None else ended.tokens
        return Row(
            self.state, what, "", (Html(place_html(place)), " ", brief_html), brief, self._badge,
            aside=script_saved(script), seconds=self._seconds,
            body=(
                inner_rows(self.work, limit), self._change,
                script_html(code, script, answer, tokens, limit, self._images_html), self._how_to_decide,
            ),
        )  # fmt: skip

    @property
    def _change(self) -> Html | None:
        """Return the user's changes of the code as a diff."""
        diff = compare_texts(self.call.arguments.get("code"), self._edits.get("code"))
        return change_html(diff) if diff else None

    def _script_title(self, script: Mapping[str, Any], called: str) -> str:
        """Return the progress of the script; after a failure, the class and message of the error."""
        status, error = str(script.get("status") or ""), script.get("error")
        if status == "timed_out":
            return "Script stopped at its time limit"
        if self.ended is not None and not script:
            error = self.ended.text.removeprefix(not_run(""))
        if script.get("is_kept") and self.state == "done":
            return (
                _LOOKED
                if script.get("is_look")
                else one_line(f"Kept: {script.get('effects')}".replace("`", ""), _ERROR)
            )
        titles = {"running": self._running_title, "stopped": "Script stopped", "failed": "Script failed",
                  "not run": _NOT_RUN}  # fmt: skip
        title = titles.get(self.state) or (f"Ran {called}" if script and self.state == "done" else "Script")
        is_told = self.state == "failed" or (title == _NOT_RUN and not self._is_rejected)
        if is_told and isinstance(error, str) and error not in {"", BY_PERSON}:
            return f"{title}: {one_line(error, _ERROR)}"
        is_left = self.ended is not None and _is_unfinished(self.ended.text)
        return f"{title}; its last call may still be running" if is_left else title

    @property
    def _running_title(self) -> str:
        """Return the title of a script that has begun. In the kernel, it runs only after a decision."""
        is_before = (
            self.elapsed is None and self.decision is None and self.arguments.get("backend") == "kernel"
        )
        return "Rehearsing a script" if is_before else "Running a script"

    @property
    def _badge(self) -> str:
        is_told = self.is_script and self.state in {"failed", "stopped", "not run"}  # by the title
        if is_told or self.state in {"done", "running", "refused", "idle"}:
            return "changed" if self._edits else ""
        return self.state.replace("asked", "waiting")

    @property
    def _why_not(self) -> str:
        """Return the reason why a call did not succeed, for plain text; empty if its title or the user says it."""
        if self.ended is None or self.is_script or self.state not in {"failed", "stopped", "not run"}:
            return ""
        return one_line(self.ended.text.removeprefix(not_run("")), _ERROR)

    @property
    def _tokens(self) -> str:
        return "" if self.ended is None or self.state != "done" else tokens_text(self.ended.tokens)

    @property
    def _seconds(self) -> float | None:
        ended = self.ended
        if ended is None or ended.decision is self.decision:
            return self.elapsed if ended is None else ended.seconds
        seconds = (ended.script or {}).get("seconds")  # the call waited for the user
        return float(seconds) if isinstance(seconds, int | float) else None

    @property
    def _how_to_decide(self) -> Html | None:
        ticket = self.ticket
        return decide_html(ticket.pending.pending_id) if self.is_open and ticket is not None else None

    def _answer_html(self, limit: int) -> HtmlPart:
        ended = self.ended
        if ended is None:
            note = "Running. The result will appear here." if self.is_begun else "Not run yet."
            return rows.dim(note), self._how_to_decide
        saw = rows.sub("What the model saw", tokens_text(ended.tokens)), result_html(ended.text, limit)
        return *saw, self._images_html


def _is_unfinished(text: str) -> bool:
    """Return True if the turn ended while a call ran. Its outcome is unknown."""
    return text.endswith(ended_running("")) or text.startswith(ended_reading(""))


def _edit_words(edit: Any) -> str:
    """Return an edit as a model writes it, in words. It may be anything."""
    values = edit if isinstance(edit, dict) else {}
    action, cell, after = (str(values.get(name) or "") for name in ("action", "cell", "after"))
    where = f"cell {cell}" if cell else f"after cell {after}" if after else "at the beginning"
    return one_line(f"{action.capitalize() or 'Edit'} {where}", _ERROR)


def _source_of(edit: Any) -> str:
    return str(edit.get("source") or "") if isinstance(edit, dict) else ""


def _edited_html(code: str, language: str) -> Html | None:
    """Return an edit of a cell: a diff, new code, or new text. None if the edit has no text, because it is a move."""
    if not code:
        return None
    if language == "diff":
        return side_by_side(code, "Before", "After")
    return code_html(code) if language == "python" else rows.out(code, _THOUGHT)


def _past_tense(title: str) -> str:
    """Return the past tense of a title such as `Create agent checker`."""
    verb, space, rest = title.partition(" ")
    return f"{verb}{'d' if verb.endswith('e') else 'ed'}{space}{rest}" if title else ""


def _with_decision(row: Row, decision: Decision, name: str) -> Row:
    short, full = decided_brief(decision)
    body = (row.body, rows.sub("Decided"), element("p", full))
    what = row.what or f"Ran{name}"
    if is_rejection(decision):
        reason = quoted(decision.reason)
        if decision.action == "expire":
            what = row.what if row.what == _NOT_RUN else f"Not run:{name.removeprefix(':')}"
            row = row._replace(badge="")
        else:
            what = f"Rejected{name}"
        return row._replace(
            what=what, name="", brief=reason or row.brief, brief_text=reason or row.brief_text,
            aside=short, aside_title=full, tokens="", seconds=None, body=body,
        )  # fmt: skip
    if row.state == "idle":  # it runs once all calls of its step are decided
        what = f"Approved{name}"
    elif row.state not in {"done", "running"}:
        what = row.what
    return row._replace(what=what, aside=short, aside_title=full, tokens="", body=body)


def _question_block(question: AskedInCall) -> TurnBlock:
    block_id = f"q.{question.pending_id}"
    if question.is_open:
        return TurnBlock(block_id, Html(), question.ticket, kind="question")
    row = None if question.asked is None else asked_row(question.asked)
    return TurnBlock(block_id, fragment(row), question.ticket, kind="row")


Part: TypeAlias = "RowPart | Prose | NotePart | CallPart | HeadPart"
"""A part of a turn. Its `id` is unique in its turn, `blocks` draws it with results cut after a limit, and `text` is for
terminals."""
