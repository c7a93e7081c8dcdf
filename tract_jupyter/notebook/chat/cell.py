"""The `%%tract_chat` cell: a turn in a worker thread, shown live."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.concurrency import BY_PERSON, StopSignal
from tract_jupyter.exceptions import OperationError
from tract_jupyter.llm import HOW_TO_CHOOSE
from tract_jupyter.models import SentContext, TurnOutcome, message_with, one_line, parse_message
from tract_jupyter.notebook.cells import EDIT_TOOL, ModelReply, propose_reply
from tract_jupyter.notebook.chat.board import (
    TurnBoard,
    check_ended,
    display_for,
    ended,
    gathering,
    showing_outputs,
)
from tract_jupyter.notebook.chat.context import (
    cell_context,
    error_context,
    file_context,
    variable_context,
)
from tract_jupyter.notebook.chat.hidden import HiddenValues
from tract_jupyter.notebook.chat.log import TurnLog
from tract_jupyter.notebook.chat.source import (
    TractSource,
    find_turn,
    replayed_from,
    start_conversation,
    stored_log,
)
from tract_jupyter.notebook.chat.turn import DrawnTurn
from tract_jupyter.notebook.chat.undo import UndoCard, carry_out, plan_undo, undo_conversation
from tract_jupyter.notebook.options import CHAT_PROFILES, ChatOptions
from tract_jupyter.prompts import EDIT, EXPLAIN, PLAN, SCHEMA_ONLY, SCHEMA_ONLY_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from threading import Thread

    from tract_jupyter.loop import PastTurn, TurnEvent
    from tract_jupyter.models import AttachedFile
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import RunResponse
    from tract_jupyter.toolkit import ToolProfile
    from tract_jupyter.tract import Tract

_IN_CODE: Final = " in code"
_ANOTHER: Final = "%%tract_chat"
_SAID: Final = 200


async def run_cell(notebook: NotebookSession, text: str, options: ChatOptions) -> None:
    """Send the message of a cell, and show the turn."""
    text = text.strip() or (EXPLAIN if options.error else "")
    _check(text, options)
    notebook.shows_continued = True
    if options.retry:
        await _retry(notebook, options)
    else:
        hidden = HiddenValues(notebook.shell.user_ns, options.variables) if options.schema_only else None
        _outside_agent(notebook, options)
        sent, files = _contexts(notebook, options, hidden)
        await _send(notebook, message_with(sent, text), options, hidden, files)
    await _send_follow_ups(notebook, options)


async def _send(
    notebook: NotebookSession,
    message: str,
    options: ChatOptions,
    hidden: HiddenValues | None,
    files: Sequence[AttachedFile] = (),
    *,
    is_follow_up: bool = False,
) -> None:
    agent = _outside_agent(notebook, options)
    tools = [] if agent else _tools(options)
    if not agent:
        check_model(notebook.tract, options.model)
    continued = notebook.take_continued()
    turn = DrawnTurn(replayed=replayed_from(notebook.tract), continues=continued is not None)
    log = TurnLog(TractSource(notebook.tract), turn, continues=continued or "")
    if is_follow_up:  # the cell has another message
        log.begin(message)
        log.note("Follow-up", f"“{one_line(message, _SAID)}”", icon="i-info")
    if agent:
        log.set(go_on=_ANOTHER, model=agent)
        notebook.tract.outside.server = notebook.serve_turn if notebook.front_end.has_kernel else None
        notebook.tract.outside.watch_saves = notebook.watch_saves
    await _carry_out(notebook, message, log, options, tools, hidden, attachments=files, agent=agent)


async def _send_follow_ups(notebook: NotebookSession, options: ChatOptions) -> None:
    """Send the messages that the user queued, as long as each turn ends with an answer. They hide the same values."""
    hidden, is_first = None, True
    while notebook.side.has_follow_up:
        turn = find_turn(notebook.tract)
        if not _has_answer(notebook.tract, turn):  # it reached a limit: the user decides if it continues
            break
        if is_first:
            hidden, is_first = _hidden_again(notebook, turn), False
        text = notebook.side.take_follow_up()
        await _send(notebook, text, options, hidden, is_follow_up=True)


async def resume(notebook: NotebookSession, options: ChatOptions | None = None) -> None:
    """Resume the last turn. A turn that has an answer is only shown."""
    options = options or ChatOptions()
    await _resume_turn(notebook, find_turn(notebook.tract), options)
    await _send_follow_ups(notebook, options)


async def _resume_turn(notebook: NotebookSession, turn: PastTurn, options: ChatOptions) -> None:
    tract = notebook.tract
    check_model(tract, options.model)
    tools = _tools_again(tract, turn, options)
    log = stored_log(tract, turn, to_go_on=True)
    if not turn.messages:  # it failed before a reply arrived
        log.ask_again(turn.text)
    await _carry_out(notebook, None, log, options, tools, _hidden_again(notebook, turn))


async def _retry(notebook: NotebookSession, options: ChatOptions) -> None:
    """Repeat the last message if the last turn has an answer; otherwise resume the turn."""
    tract = notebook.tract
    turn = find_turn(tract)
    if not _has_answer(tract, turn):
        await _resume_turn(notebook, turn, options)
        return
    check_model(tract, options.model)
    tools = _tools_again(tract, turn, options)
    log = TurnLog(TractSource(tract), DrawnTurn(replayed=replayed_from(tract)), has_earlier=True)
    log.begin(turn.text, turn.attachments)
    log.ask_again(turn.text)
    hidden = _hidden_again(notebook, turn)
    await _carry_out(notebook, None, log, options, tools, hidden, within=_without_answer(tract, turn))


@contextmanager
def _without_answer(tract: Tract, turn: PastTurn) -> Iterator[None]:
    """Remove the answer of a turn, and restore it if no new reply arrives."""
    answered = tract.head
    tract.reset(turn.question)
    try:
        yield
    finally:
        if answered is not None and tract.head == turn.question:
            tract.reset(answered)


def _has_answer(tract: Tract, turn: PastTurn) -> bool:
    ended = tract.loop.events_of(turn)[-1]
    return getattr(ended, "outcome", None) is TurnOutcome.ANSWER


# --- what the cell says


def _check(text: str, options: ChatOptions) -> None:
    if options.retry and text:
        raise OperationError(
            "--retry repeats the last message. Leave the cell empty, or leave out --retry. Nothing was sent"
        )
    if not (text or options.retry):
        raise OperationError(
            "the cell is empty, so nothing was sent. Write a message below %%tract_chat, or use --retry"
        )
    if options.retry and options.agent:
        raise OperationError(
            "--retry repeats a message for a model. Send a new message to the agent. Nothing was sent"
        )
    if options.schema_only and not options.variables:
        raise OperationError(
            "--schema-only hides the values of the variables in --vars, and there is none. Nothing was sent"
        )
    attached = options.cells or options.variables or options.files or options.error
    if options.retry and (attached or options.plan or options.edit):
        raise OperationError(
            "--retry repeats the last message with its attachments. To change them, send a new message. Nothing was "
            "sent"
        )
    if options.plan and options.edit:
        raise OperationError("--plan gives the model no tools, so it cannot edit cells. Nothing was sent")
    if options.plan and (options.direct or options.profile):
        raise OperationError(
            "--plan gives the model no tools, so --direct and --profile have no effect. Nothing was sent"
        )


def _outside_agent(notebook: NotebookSession, options: ChatOptions) -> str:
    """Return the outside agent of a message; empty if the model replies."""
    of_model = {
        "--model": options.model, "--profile": options.profile, "--direct": options.direct, "--plan": options.plan,
        "--schema-only": options.schema_only, "--edit": options.edit,
    }  # fmt: skip
    given = [name for name, value in of_model.items() if value]
    if options.agent is None:
        return "" if given else notebook.outside_agent
    if given:
        raise OperationError(
            f"--agent lets another program work on the message, so {given[0]} has no effect. Leave out one of them. "
            "Nothing was sent"
        )
    return options.agent


def _tools(options: ChatOptions) -> ToolProfile | list[dict[str, Any]]:
    """Return the tools for the model: scripts that call tools, the tools themselves, or none."""
    from tract_jupyter.toolkit import get_profile

    if options.plan:
        return []
    profile = get_profile(options.profile or CHAT_PROFILES[0])
    if options.direct:
        return profile
    return get_profile("code") if options.profile == "full" else profile.as_code_mode()


def _tools_again(tract: Tract, turn: PastTurn, options: ChatOptions) -> ToolProfile | list[dict[str, Any]]:
    """Return the tools for a resumed or repeated turn: its earlier tools, unless options name others."""
    name = tract.loop.offered_in(turn)
    if not (options.profile or options.direct):
        return _tools_named(name)
    if name == "":
        raise OperationError(
            "that turn began with --plan, so it has no tools. Send a new message with --direct or --profile. Nothing "
            "was sent"
        )
    return _tools(options)


def _tools_named(name: str | None) -> ToolProfile | list[dict[str, Any]]:
    """Return the tools of a stored profile name. Empty means no tools, None an unknown profile."""
    from tract_jupyter.toolkit import get_profile

    if name == "":
        return []
    base = (name or "").removesuffix(_IN_CODE)
    if base not in {*CHAT_PROFILES, "code"}:  # a profile of the user, or an unknown one
        return get_profile(CHAT_PROFILES[0]).as_code_mode()
    return get_profile(base) if base == name else get_profile(base).as_code_mode()


def _hidden_again(notebook: NotebookSession, turn: PastTurn) -> HiddenValues | None:
    """Return the values that a turn hides, for its resumption or repetition; None if it hides none."""
    names = [context.name for context in parse_message(turn.text)[0]]
    return HiddenValues(notebook.shell.user_ns, names) if SCHEMA_ONLY_CONTEXT in names else None


def _contexts(
    notebook: NotebookSession, options: ChatOptions, hidden: HiddenValues | None
) -> tuple[list[SentContext], list[AttachedFile]]:
    shell, decided = notebook.shell, {"send_anyway": options.send_anyway}
    sent = [SentContext("--plan", "nothing runs", PLAN)] if options.plan else []
    if options.edit:
        if notebook.tract.executor.find(EDIT_TOOL) is None:
            raise OperationError("--edit needs a Jupyter kernel, which has cells. Nothing was sent")
        sent.append(SentContext("--edit", "the answer is edits of cells", EDIT))
    texts, files = (
        file_context(notebook.tract.workspace, options.files, **decided) if options.files else ([], [])
    )
    others = [
        *(cell_context(shell, options.cells, **decided) if options.cells else ()),
        *(error_context(shell, **decided) if options.error else ()),
    ]
    variables = variable_context(shell.user_ns, options.variables, **decided, schema_only=hidden is not None)
    if hidden is not None:
        if files:
            raise OperationError(
                f"--schema-only sends no images and no PDFs: leave out {files[0].attachment.name}. Nothing was sent"
            )
        text = SCHEMA_ONLY.format(names=", ".join(hidden.names))
        sent.append(SentContext(SCHEMA_ONLY_CONTEXT, "values are hidden", text))
        others, texts = (
            [one._replace(text=hidden.redact(one.text)) for one in each] for each in (others, texts)
        )
    return [*sent, *others, *variables, *texts], files


def check_model(tract: Tract, model: str | None) -> None:
    """Check that a model is available."""
    if model is None and tract.llm is None and not tract.cassette.is_replaying:
        raise OperationError(f"no language model is configured; {HOW_TO_CHOOSE}. Nothing was sent")


# --- the turn


async def _carry_out(
    notebook: NotebookSession,
    message: str | None,
    log: TurnLog,
    options: ChatOptions,
    tools: Any,
    hidden: HiddenValues | None,
    *,
    attachments: Sequence[AttachedFile] = (),
    within: AbstractContextManager[None] | None = None,
    agent: str = "",
) -> None:
    """Run a turn and show it until its end. Enter `within` once the model is available."""
    tract = notebook.tract
    notebook.lend_variables()
    limits = tract.loop.limits
    log.set(
        most_steps=None if agent else limits.steps,
        model=options.model or log.turn.model or _model_name(tract),
        can_insert=notebook.has_pages and bool(notebook.front_end.cell_id),
    )
    with tract.loop.signal() as stop:
        acts = _Actions(notebook, log, stop, notebook.front_end.cell_id)
        board = TurnBoard(log, display_for(notebook, acts, log))
        acts.board = board

        def take(event: TurnEvent) -> None:
            board.take(event)
            notebook.side.turn_moved()

        def work() -> RunResponse:
            try:
                with (
                    nullcontext({"agent": agent}) if agent else asked(tract, options.model) as chosen,
                    gathering(notebook, board),
                    showing_outputs(notebook, board),
                    notebook.agent_watch.shown_on(board),
                    notebook.side.showing("" if message is None else parse_message(message)[1], board),
                    _hiding(notebook, hidden),
                    _reading(notebook, is_free=options.edit),
                    within or nullcontext(),
                ):
                    offered = {} if agent else {"tools": tools}
                    return tract.chat(message, attachments=attachments, on_turn=take, **offered, **chosen)
            except Exception as error:
                if board.is_up:
                    log.fail(str(error))
                raise
            finally:
                if board.is_up:
                    notebook.turns.add(tract, board.display, board.close())

        response = await ended(notebook, work, board, lambda: stop.set(BY_PERSON))
        if acts.starts_new:
            board.display.close(acts.start_new(log.view()))
        if not board.is_up:  # the turn already had an answer
            board.log = stored_log(tract, find_turn(tract))
            notebook.turns.add(tract, board.display, board.close())
    if options.out:
        notebook.shell.user_ns[options.out] = response
    check_ended(response.outcome)


@contextmanager
def _hiding(notebook: NotebookSession, hidden: HiddenValues | None) -> Iterator[None]:
    """Hide values in the results of a turn. Outputs of cells may have them in any form, so these are not read."""
    tract, notebook.hides_values = notebook.tract, hidden is not None
    before = tract.loop.redact
    tract.loop.redact = before if hidden is None else hidden.redact
    try:
        yield
    finally:
        tract.loop.redact, notebook.hides_values = before, False


@contextmanager
def _reading(notebook: NotebookSession, *, is_free: bool) -> Iterator[None]:
    """Let the model of a turn read the sources of the cells without asking."""
    if not is_free:
        yield
        return
    notebook.cells.reads_sources = True
    try:
        yield
    finally:
        notebook.cells.reads_sources = False


def _model_name(tract: Tract) -> str:
    model = getattr(tract.llm, "model", None)
    return model if isinstance(model, str) else ""


@contextmanager
def asked(tract: Tract, model: str | None) -> Iterator[dict[str, Any]]:
    """Use a model inside the block, and yield the options of the call that select it."""
    is_own = model is None or tract.models.named(model) is None
    with nullcontext() if is_own else tract.models.lent(str(model)):
        if not tract.cassette.is_replaying:
            tract.models.check()
        yield {"model": model} if is_own and model is not None else {}


@dataclass(eq=False)
class _Actions:
    """The buttons in the footer of a turn. Runs in the main thread of the kernel."""

    notebook: NotebookSession
    log: TurnLog
    stop: StopSignal
    cell: str = ""
    """The id of the turn's cell."""
    board: TurnBoard | None = None
    undo: UndoCard | None = None
    """The plan of an undo on display."""
    starts_new: bool = False
    """True if the turn was stopped to start a new conversation."""
    insertion: Thread | None = None
    """Waits for the decision about the reply as cells."""

    @property
    def tract(self) -> Tract:
        """The tract of the turn."""
        return self.notebook.tract

    def __call__(self, action: Action) -> DrawnTurn | None:
        """Perform the action of a button."""
        if action == "stop":
            self.stop.set(BY_PERSON)
            return None
        view = self.log.view()
        if action == "undo":
            return self._plan(view)
        if action == "cancel" or ":" in action or action.startswith("undo_"):
            return self._decide(view, action)
        others = {
            "fork": self._fork, "new": self._start_new_soon, "cells": self._insert, "ask": self._ask_again,
        }  # fmt: skip
        if action in others:
            return others[action](view)
        raise OperationError("%tract chat resume continues the turn")

    def _ask_again(self, _view: DrawnTurn) -> DrawnTurn:
        self.tract.review.grants.end_rules()
        self.log.set(asks_again=True)
        return self.log.view()

    def _start_new_soon(self, view: DrawnTurn) -> DrawnTurn | None:
        """Start a new conversation, or stop the turn first."""
        if view.is_over:
            return self.start_new(view)
        self.starts_new = True
        self.stop.set(BY_PERSON)
        return None

    def _plan(self, view: DrawnTurn) -> DrawnTurn:
        """Show the plan of the undo. A turn that only changed the conversation is undone at once."""
        card = plan_undo(self.tract, view.turn_id)
        if card.plan.has_only_conversation:
            undo_conversation(self.tract, view.turn_id)
            self.notebook.turns.refresh()  # the previous turn is the last one again
            return view.undone()
        self.undo = card
        return self._said(replace(view, undo_card=card))

    def _decide(self, view: DrawnTurn, action: Action) -> DrawnTurn:
        card = self.undo
        if card is None or action == "cancel":
            self.undo = None
            return self._said(view)
        if ":" in action:
            self.undo = card.after(action)
            return self._said(replace(view, undo_card=self.undo))
        self.undo = carry_out(self.tract, card, action)
        is_over = not self.undo.plan.items_in("failed")
        view = self._said(replace(view, undo_card=self.undo, is_undone=is_over))
        self.notebook.turns.refresh()
        return view

    def _said(self, view: DrawnTurn) -> DrawnTurn:
        if self.board is not None:
            self.notebook.turns.said(self.board.display, view)
        return view

    def start_new(self, view: DrawnTurn) -> DrawnTurn:
        """Undo this turn and start a new conversation; the earlier one keeps its branch."""
        if view.turn_id:
            undo_conversation(self.tract, view.turn_id)
        name = start_conversation(self.tract)
        return self._said(
            replace(view.undone(), said=f"New conversation on branch {name}: run the cell again.")
        )

    def _insert(self, view: DrawnTurn) -> DrawnTurn | None:
        """Propose the reply as cells below the turn. The request is decided like each edit."""
        if self.insertion is not None and self.insertion.is_alive():
            raise OperationError("the request for these cells is open: decide it at the cells, or below")
        if not self.notebook.has_pages:
            raise OperationError(
                "no page with the JupyterLab extension is connected, so no cell can be inserted"
            )
        board, turns = self.board, self.notebook.turns

        def tell(text: str) -> None:
            if board is not None:
                turns.tell(board.display, text)

        reply = ModelReply(view.reply, view.turn_id, view.model)
        self.insertion = propose_reply(self.tract, reply, self.cell, tell)
        return None

    def _fork(self, view: DrawnTurn) -> DrawnTurn:
        """Create a branch that ends with this turn, and switch to it."""
        turn = next((past for past in self.tract.loop.turns() if past.question == view.turn_id), None)
        if turn is None:
            raise OperationError(
                "this turn is no longer on the current branch. %tract switch changes the branch"
            )
        names = {branch.name for branch in self.tract.list_branches()}
        name = next(f"fork-{number}" for number in range(1, len(names) + 2) if f"fork-{number}" not in names)
        last = turn.messages[-1].message.commit_hash if turn.messages else turn.question
        self.tract.branch(name, source=last)
        return self._said(replace(view, said=f"Branch {name} starts here and is now the current branch."))
