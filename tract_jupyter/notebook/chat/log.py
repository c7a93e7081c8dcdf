"""The log of a turn: collects events and returns the current state."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tract_jupyter.loop import (
    CallAsked,
    CallBegan,
    CallEnded,
    ReplyPiece,
    ReplyStored,
    RequestBegan,
    TurnBegan,
    TurnEnded,
    TurnNoted,
)
from tract_jupyter.models import TurnOutcome, counted, one_line, parse_message
from tract_jupyter.notebook.chat.markdown import MarkdownStream
from tract_jupyter.notebook.chat.parts import (
    RUNS_SCRIPTS,
    AskedInCall,
    CallPart,
    NotePart,
    Prose,
    attached_part,
    context_part,
    thought_part,
)
from tract_jupyter.notebook.chat.turn import SHOW, STAYS, WORK_STAYS, DrawnTurn
from tract_jupyter.notebook.chat.work import agent_of
from tract_jupyter.scripts import RUN_SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.models import Attachment, ToolCall
    from tract_jupyter.notebook.chat.outputs import ScriptOutputs
    from tract_jupyter.notebook.chat.parts import Part
    from tract_jupyter.notebook.chat.rows import AskedQuestion
    from tract_jupyter.notebook.chat.source import TractSource
    from tract_jupyter.notebook.chat.work import WorkSource
    from tract_jupyter.review import Ticket


_SAID: Final = 120  # characters of a repeated message


@dataclass(eq=False)
class TurnLog:
    """Collects the events of a turn and returns its current state. Any thread may use it.

    Args:
        source: the data that events lack.
        turn: the turn so far, without its parts, times and requests. At first, it has the known fields, such as the
            model.
        has_earlier: the turn has an earlier answer, which stays valid until a new one arrives.
        continues: a sentence about the earlier conversation, shown above the turn; empty for none.
        clock: returns seconds.
        show_again: the command that shows the turn.
    """

    source: TractSource
    turn: DrawnTurn = field(default_factory=DrawnTurn)
    has_earlier: bool = False
    continues: str = ""
    clock: Callable[[], float] = time.monotonic
    show_again: str = SHOW
    _parts: list[Part] = field(default_factory=list)
    _calls: dict[str, int] = field(default_factory=dict)
    """The place of each call's part."""
    _works: dict[str, list[WorkSource]] = field(default_factory=dict)
    """The work of agents, by call."""
    _outputs: dict[str, ScriptOutputs] = field(default_factory=dict)
    """The outputs of scripts, by call."""
    _asked: dict[str, str] = field(default_factory=dict)
    """The calls with a request, by pending."""
    _replies: int = 0
    _stream: MarkdownStream | None = None
    _streamed: list[str] = field(default_factory=list)
    _thought: list[str] = field(default_factory=list)
    _began: float | None = None
    _waits: list[tuple[datetime, datetime]] = field(default_factory=list)
    """The times that finished calls waited for the user."""
    _waited: float = 0.0
    """Seconds with an open request, without the current one."""
    _open_since: float | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def set(self, **fields: Any) -> None:
        """Change fields of the turn."""
        with self._lock:
            self.turn = replace(self.turn, **fields)

    def note(self, title: str, text: str = "", look: str = "", icon: str = "") -> None:
        """Append a note."""
        with self._lock:
            self._parts.append(NotePart(f"n{len(self._parts)}", title, text, look, icon))

    def begin(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Show the context of a message before it is sent, and start the clock."""
        with self._lock:
            self._began = self.clock()
            if not self._parts:
                self._parts += self._opening(text, attachments)

    def ask_again(self, text: str) -> None:
        """Add a note that names the repeated message."""
        self.note("Asked again", f"“{one_line(parse_message(text)[1], _SAID)}”", icon="i-back")

    def add(self, event: TurnEvent) -> None:
        """Add the next event."""
        with self._lock:
            self._handlers[type(event)](self, event)

    def show(self, ticket: Ticket) -> None:
        """Show a request in the row of its call, or under the script that asks."""
        with self._lock:
            call_id = self._call_of(ticket)
            if call_id is not None:
                self._change(call_id, ticket=ticket, is_open=ticket.status.is_open)
                return
            part = self._part_of_agent(ticket.pending.actor) or self._running_part()
            if part is None:
                return
            if ticket.pending.operation == RUN_SCRIPT:
                self._change(part.call.id, ticket=ticket, is_open=ticket.status.is_open)
                return
            question = AskedInCall(ticket.pending.pending_id, ticket, self._stored(ticket))
            others = [other for other in part.questions if other.pending_id != question.pending_id]
            self._change(part.call.id, questions=(*others, question))

    def take_work(self, work: WorkSource, agent: str, task: str) -> None:
        """Show the work of an agent in the row of its call, or under the calling script."""
        with self._lock:
            part = self._part_calling(agent, task)
            if part is not None:
                self._works.setdefault(part.call.id, []).append(work)

    def take_outputs(self, outputs: ScriptOutputs) -> bool:
        """Show the outputs of a script under the row of the call that runs it; return False if there is no such row."""
        with self._lock:
            part = self._running_part() if self._part_of_agent(outputs.actor) is None else None
            if part is None or not part.is_script:
                return False
            self._outputs[part.call.id] = outputs
            self._change(part.call.id, is_open=False)  # a running script has a decision
            return True

    def refresh(self) -> None:
        """Read the state of the tickets again after a decision."""
        with self._lock:
            for part in self._calls_made():
                is_open = part.is_open if part.ticket is None else part.ticket.status.is_open
                questions = tuple(
                    question
                    if question.ticket is None
                    else replace(question, asked=self._stored(question.ticket))
                    for question in part.questions
                )
                if (is_open, questions) != (part.is_open, part.questions):
                    self._change(part.call.id, is_open=is_open, questions=questions)

    def tickets(self) -> list[Ticket]:
        """Return the tickets of this turn, in the order of the rows."""
        with self._lock:
            return [
                ticket
                for part in self._calls_made()
                for ticket in (part.ticket, *(question.ticket for question in part.questions))
                if ticket is not None
            ]

    def fail(self, error: str) -> None:
        """Record an error as the end of the turn, unless it has ended."""
        with self._lock:
            if self.turn.ended is None:
                self.add(TurnEnded(TurnOutcome.ERROR, error, self._seconds()))

    @property
    def has_ended(self) -> bool:
        """True if the turn is over."""
        return self.turn.is_over

    def view(self) -> DrawnTurn:
        """Return the current state of the turn."""
        with self._lock:
            self._update_waiting()
            self._update_works()
            self._update_outputs()
            parts = [*self._parts, *self._growing()]
            waiting = sum(ticket.status.is_open for ticket in self.tickets())
            ended = self.turn.ended
            return replace(
                self.turn, parts=tuple(parts), waiting=waiting, waited=self._wait(), stays=self._keeps_answer,
                seconds=self._seconds() if ended is None else ended.seconds,
            )  # fmt: skip

    # ---

    def _opening(self, text: str, attachments: Sequence[Attachment]) -> list[Part]:
        parts: list[Part] = []
        if self.continues:
            parts.append(NotePart("n0", self.continues, icon="i-back"))
        parts += [
            context_part(f"x{number}", item, self.source.count(item.text))
            for number, item in enumerate(parse_message(text)[0])
        ]
        return [*parts, *(attached_part(f"a{number}", item) for number, item in enumerate(attachments))]

    def _make_call(self, part_id: str, call: ToolCall) -> CallPart:
        return CallPart(part_id, call)

    @property
    def _keeps_answer(self) -> bool:
        """True if the earlier answer is still valid, since no new reply has arrived."""
        return self.has_earlier and not self._replies

    def _update_works(self) -> None:
        for call_id, works in self._works.items():
            part = self._part(call_id)
            now = tuple(work.now() for work in works)
            if part is not None and not _are_same(now, part.work):
                self._change(call_id, work=now)

    def _update_outputs(self) -> None:
        for call_id, outputs in self._outputs.items():
            part = self._part(call_id)
            if part is None:
                continue
            now = outputs.now()
            elapsed = float(int(outputs.seconds)) if part.ended is None else None
            if not _are_same(now, part.outputs) or elapsed != part.elapsed:
                self._change(call_id, outputs=now, elapsed=elapsed)

    def _seconds(self) -> float | None:
        return None if self._began is None else self.clock() - self._began

    def _update_waiting(self) -> None:
        is_open = any(ticket.status.is_open for ticket in self.tickets())
        if is_open and self._open_since is None:
            self._open_since = self.clock()
        elif not is_open and self._open_since is not None:
            self._waited += self.clock() - self._open_since
            self._open_since = None

    def _wait(self) -> float:
        """Return how long the turn waited for the user. At the end, use the stored times."""
        if self.turn.ended is None:
            return self._waited + (0.0 if self._open_since is None else self.clock() - self._open_since)
        return _covered(self._waits)

    def _without_waiting(self, event: CallEnded, questions: Iterable[AskedQuestion | None]) -> CallEnded:
        """Return the end of a call with its working time, and record its waiting times."""
        before = _waits([self.source.asked(event.pending)] if event.pending else [])
        within = _waits(questions)
        self._waits += before + within
        seconds = event.seconds
        return event if seconds is None else replace(event, seconds=max(seconds - _covered(within), 0.0))

    def _growing(self) -> list[Part]:
        parts: list[Part] = []
        number = self._replies
        if self._thought:
            parts.append(thought_part(f"t{number}", "".join(self._thought), is_running=self._stream is None))
        if self._stream is not None:
            text = "".join(self._streamed)
            parts.append(Prose(f"r{number}", text, tuple(self._stream.parts()), is_growing=True))
        return parts

    def _calls_made(self) -> list[CallPart]:
        return [part for part in self._parts if isinstance(part, CallPart)]

    def _part(self, call_id: str) -> CallPart | None:
        place = self._calls.get(call_id)
        part = None if place is None else self._parts[place]
        return part if isinstance(part, CallPart) else None

    def _change(self, call_id: str, **changes: Any) -> None:
        part = self._part(call_id)
        if part is not None:
            self._parts[self._calls[call_id]] = replace(part, **changes)

    def _call_of(self, ticket: Ticket) -> str | None:
        """Return the call of a ticket; None if the ticket belongs to something inside a call."""
        pending = ticket.pending
        call_id = self._asked.get(pending.pending_id)
        if call_id is not None:
            return call_id
        if self._part_of_agent(pending.actor) is not None:
            return None
        name, arguments = getattr(pending, "tool_name", None), getattr(pending, "call_arguments", None)
        for call_id in self._asked.values():  # another process asked first, so the pending has another id
            part = self._part(call_id)
            if part is None or part.ticket is not None or part.is_begun:
                continue
            if (part.call.name, dict(part.call.arguments)) == (name, arguments):
                return call_id
        return None

    def _part_of_agent(self, actor: str) -> CallPart | None:
        """Return the call whose agent, or a descendant of it, is the actor; None if there is none."""
        for call_id, works in reversed(self._works.items()):
            if any(f"{actor}/".startswith(f"{work.actor}/") for work in works):
                return self._part(call_id)
        return None

    def _part_calling(self, agent: str, task: str) -> CallPart | None:
        """Return the call of an agent that no other work is assigned to."""
        for part in self._calls_made():
            if part.ended is not None or part.call.id in self._works:
                continue
            if part.is_begun and agent_of(part.call) == agent and part.arguments.get("input") == task:
                return part
        return self._running_part()

    def _running_part(self) -> CallPart | None:
        """Return the running script, or else the running call, or else the last call."""
        calls = self._calls_made()
        running = [part for part in calls if part.is_begun and part.ended is None]
        scripts = [part for part in running if part.is_script]
        return next(reversed(scripts or running or calls), None)

    def _stored(self, ticket: Ticket) -> AskedQuestion | None:
        return None if ticket.status.is_open else self.source.asked(ticket.pending.pending_id)

    # --- what happened

    def _take_beginning(self, event: TurnBegan) -> None:
        if not self.turn.turn_id:
            self.begin(event.text, event.attachments) if self._began is None else None
        self.set(turn_id=event.question, ended=None)
        self._waits.clear()  # the time counts from here on
        if event.is_resumed:
            done = sum(
                isinstance(part, CallPart) and part.state in {"done", "failed"} for part in self._parts
            )
            repeats = (
                f"{counted(done, 'finished call')} {'was' if done == 1 else 'were'} not repeated."
                if done
                else ""
            )
            self.note("Resumed where it stopped.", repeats, icon="i-back")

    def _enter(self, phase: str) -> None:
        if phase != self.turn.phase:  # each piece of a reply names its phase
            self.set(phase=phase)

    def _take_request(self, event: RequestBegan) -> None:
        self.set(step=event.step, phase="Asking the model")

    def _take_piece(self, event: ReplyPiece) -> None:
        delta = event.delta
        if delta.kind == "text":
            if self._stream is None:
                self._stream = MarkdownStream()
            self._stream.append(delta.text)
            self._streamed.append(delta.text)
            self._enter("Answering")
        elif delta.kind == "reasoning":
            self._thought.append(delta.text)
            self._enter("Thinking")
        elif delta.name:
            is_script = delta.name == RUNS_SCRIPTS
            self._enter("Writing a script" if is_script else f"Calling {one_line(delta.name, 60)}")

    def _take_reply(self, event: ReplyStored) -> None:
        number = self._replies
        self._replies += 1
        self._stream = None
        self._streamed.clear()
        self._thought.clear()
        if event.without_images:
            for part in self._calls_made():
                if part.images:
                    self._change(part.call.id, without_images=event.without_images)
        if event.reasoning.strip():
            self._parts.append(thought_part(f"t{number}", event.reasoning))
        if event.text.strip():
            self._parts.append(Prose.of(f"r{number}", event.text, is_cut=bool(event.cut)))
        for place, call in enumerate(event.calls):
            self._calls[call.id] = len(self._parts)
            self._parts.append(self._make_call(f"c{number}.{place}", call))
        self.set(
            model=event.model or self.turn.model,
            usages=(*self.turn.usages, event.usage),
            phase="Carrying out its calls" if event.calls else "Answered",
        )

    def _take_asked(self, event: CallAsked) -> None:
        self._asked[event.pending_id] = event.call_id
        self._change(event.call_id, is_asked=True)

    def _take_call(self, event: CallBegan) -> None:
        self._change(event.call_id, is_begun=True, is_open=False)
        part = self._part(event.call_id)
        if part is not None:
            self.set(
                phase="Running a script" if part.is_script else f"Running {one_line(part.call.name, 60)}"
            )

    def _take_answer(self, event: CallEnded) -> None:
        part = self._part(event.call_id)
        if part is None:
            return
        stored = {pending_id: self.source.asked(pending_id) for pending_id in event.asked}
        known = {question.pending_id: question for question in part.questions}
        own_request = None
        for pending_id, request in stored.items():
            if request is not None and request.operation == RUN_SCRIPT and request.decision is not None:
                own_request = request
            else:
                known[pending_id] = replace(known.get(pending_id, AskedInCall(pending_id)), asked=request)
        if part.is_edit and event.pending:
            own_request = self.source.asked(event.pending)
        agent = agent_of(part.call)
        if agent and event.call_id not in self._works:
            work = self.source.work(agent, event.text)
            self._works |= {} if work is None else {event.call_id: [work]}
        self._change(
            event.call_id, ended=self._without_waiting(event, stored.values()), is_open=False, asked=own_request,
            questions=tuple(known.values()), images=tuple(self.source.image(one) for one in event.images),
        )  # fmt: skip

    def _take_note(self, event: TurnNoted) -> None:
        look = "no" if event.is_warning else ""
        note_id = f"k-{event.key}" if event.key else f"n{len(self._parts)}"
        note = NotePart(note_id, event.title, event.text, look)
        place = next((place for place, part in enumerate(self._parts) if part.id == note_id), None)
        if place is None:
            self._parts.append(note)
        else:
            self._parts[place] = note

    def _take_end(self, event: TurnEnded) -> None:
        self._keep_growing()
        self.set(ended=event)
        if event.outcome is TurnOutcome.ERROR:
            named, done = self.turn.named, WORK_STAYS if self._has_work else ""
            remedy = f"{STAYS[:1].upper()}{STAYS[1:]}." if self._keeps_answer else f"{done}{self.turn.remedy}"
            title = f"The {named} did not finish:"
            self.note(title, f"{event.note.rstrip('.')}. {remedy}", "no")

    @property
    def _has_work(self) -> bool:
        return self._replies > 0 or any(isinstance(part, CallPart) for part in self._parts)

    def _keep_growing(self) -> None:
        """Keep the text of an unfinished reply on display."""
        text = "".join(self._streamed)
        if text.strip():
            self._parts.append(Prose.of(f"r{self._replies}", text, is_cut=True))
        self._stream = None
        self._streamed.clear()
        self._thought.clear()

    _handlers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        TurnBegan: _take_beginning,
        RequestBegan: _take_request,
        ReplyPiece: _take_piece,
        ReplyStored: _take_reply,
        CallAsked: _take_asked,
        CallBegan: _take_call,
        CallEnded: _take_answer,
        TurnNoted: _take_note,
        TurnEnded: _take_end,
    }


def _are_same(now: Sequence[object], before: Sequence[object]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def _waits(questions: Iterable[AskedQuestion | None]) -> list[tuple[datetime, datetime]]:
    """Return the waiting time of each request that a user decided."""
    return [request.waited for request in questions if request is not None and request.waited is not None]


def _covered(times: Iterable[tuple[datetime, datetime]]) -> float:
    """Return the total seconds of the union of these times."""
    total, until = 0.0, None
    for begin, end in sorted(times):
        since = begin if until is None else max(begin, until)  # two requests were open at once
        total += max((end - since).total_seconds(), 0.0)
        until = end if until is None else max(end, until)
    return total
