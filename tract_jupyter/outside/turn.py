"""One turn of an outside agent: its messages become commits and events, its requests become requests of the gate."""

from __future__ import annotations

import base64
import secrets
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.concurrency import Stopped, Worker
from tract_jupyter.exceptions import BranchMovedError, OutsideAgentError, TractError, UndecidedError
from tract_jupyter.llm import CUT
from tract_jupyter.loop import CLAIMED, CallAnswer, StoppedEarlyError, TurnNoted
from tract_jupyter.models import ChatResponse, Delta, PendingStatus, TurnOutcome, counted, one_line, shortened
from tract_jupyter.outside.calls import SeenCall, canonical_or_repr, sound
from tract_jupyter.outside.files import shown
from tract_jupyter.outside.process import AgentMessage
from tract_jupyter.outside.requests import CANCELLED, NOTEBOOK_FILE, PendingAgentRequest, once, outcome_for
from tract_jupyter.outside.session import update_of
from tract_jupyter.prompts import ended_running, not_run, refused
from tract_jupyter.review import checking, deciding
from tract_jupyter.review.builtin import answer_fields
from tract_jupyter.toolkit import CallNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.context import Repository
    from tract_jupyter.loop import AnswerStore, TurnObserver
    from tract_jupyter.models import AttachedFile, CommitInfo
    from tract_jupyter.outside.files import ExpectedFile, NotebookFile
    from tract_jupyter.outside.session import AgentSession
    from tract_jupyter.review import Reviewer

SESSION: Final = "outside_session"
"""Metadata key of a reply by an outside agent: the agent, and its id of the session."""
_BY_US: Final = ("outside", "tract_jupyter")
"""The channel and the name of a rejection without the user."""
_ANSWER_SIZE: Final = 20_000
_MOST_NOTES: Final = 20
_MOST_NAMED: Final = 10
_MOST_CALLS: Final = 500
_MOST_TEXT: Final = 5_000_000
_MOST_OPEN: Final = 30
_MOST_PROMPTS: Final = 10
_PLAN_SECONDS: Final = 0.5
_BRIEF: Final = 2_000
_STILL_RUNNING: Final = "The call still ran when the agent made its next call."
_NO_USER: Final = "no user was available to decide"
_QUIET: Final = frozenset(
    {
        "available_commands_update", "session_info_update", "config_option_update", "current_mode_update",
        "user_message_chunk",
    }
)  # fmt: skip
_ENDINGS: Final[Mapping[str, tuple[TurnOutcome, str]]] = {
    "end_turn": (TurnOutcome.ANSWER, ""),
    "cancelled": (TurnOutcome.STOPPED, "the agent ended the turn; send another message"),
    "max_tokens": (TurnOutcome.LIMIT, "the agent reached its limit of tokens; send another message"),
    "max_turn_requests": (TurnOutcome.LIMIT, "the agent reached its limit of requests; send another message"),
    "refusal": (TurnOutcome.REFUSED, "the agent's model declined to answer; rephrase the message"),
}


_SAME: Final = "same"
_OTHER: Final = "other"
_EARLY: Final = "early"
_UNKNOWN_TEXT: Final = "unknown"
_DIFFERENCES: Final[Mapping[str, tuple[str, str]]] = {
    _UNKNOWN_TEXT: (
        "{} was not compared.", "The text that the agent replaces was not in the file when you decided."
    ),
    _OTHER: (
        "{} differs from the change that you approved.",
        "The agent wrote another content, or another program changed the file meanwhile.",
    ),
    _EARLY: (
        "{} changed before you decided.",
        "The agent did not wait, or another program changed the file. The request showed its earlier content.",
    ),
}  # fmt: skip


class DecidedNote(NamedTuple):
    """A request has its decision, or nobody could decide it."""

    request: Any


class _Ended(Exception):  # noqa: N818 # the same
    """The wait for a decision ended with the turn."""


class _LeftModeError(OutsideAgentError):
    """The agent left the mode that asks."""


@dataclass(eq=False)
class _OpenRequest:
    request_id: Any
    call: SeenCall
    pending: PendingAgentRequest
    options: Any
    worker: Worker[None] | None = None


@dataclass(eq=False)
class _Work:
    prompts: int = 0
    seen: int = 0
    calls: int = 0
    notes: int = 0
    text: int = 0
    ran_commands: bool = False
    claimed_usd: float = 0.0


@dataclass(eq=False)
class _Plan:
    """The plan of the agent, and the time after which it may be shown again."""

    text: str = ""
    shown: str = ""
    next_at: float = 0.0


class OutsideTurn:
    """A turn of an outside agent, which is in the mode that asks.

    `actor` is the actor of the requests; empty for the outside agent itself.

    Attributes:
        on_delta: gets each piece of a reply; None for no receiver.
        earlier: items that came before the turn.
        changed_files: returns the files that changed since the start of the turn.
        notebook: the file of the open notebook; None if it is not known.
    """

    def __init__(
        self,
        session: AgentSession,
        prompt: Sequence[Mapping[str, Any]],
        repository: Repository,
        answers: AnswerStore,
        reviewer: Reviewer,
        observer: TurnObserver,
        stop: StopSignal,
        tract: Any,
        *,
        actor: str = "",
    ) -> None:
        self.on_delta: Callable[[Delta], object] | None = None
        self.earlier: Sequence[object] = ()
        self.changed_files: Callable[[], set[str]] = set
        self.notebook: NotebookFile | None = None
        self._shown: set[str] = set()
        self._reported: set[str] = set()
        self._compared: dict[str, ExpectedFile] = {}
        self._session = session
        self._prompt = list(prompt)
        self._repository = repository
        self._answers = answers
        self._reviewer = reviewer
        self._observer = observer
        self._stop = stop
        self._tract = tract
        self._actor = actor
        self._prefix = session.traffic.draw("turn", lambda: secrets.token_hex(3))
        self._branch = repository.refs.position.branch
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls: dict[str, SeenCall] = {}
        self._running: dict[str, ExitStack] = {}
        self._open: dict[Any, _OpenRequest] = {}
        self._expected: dict[str, list[ExpectedFile]] = {}
        self._reasons: list[str] = []
        self._noted: set[str] = set()
        self._has_request = False
        self._last: CommitInfo | None = None
        self._last_text = ""
        self._step_commit = ""
        self._work = _Work()
        self._plan = _Plan()
        self._is_over = threading.Event()

    def unasked(self, changed: Callable[[], set[str]], kind: str = "files") -> TurnNoted | None:
        """Return a note of the changed files that no approved diff explains; None if there are none.

        `kind` names this comparison on a cassette. A replay changes no file.
        """
        found = self._session.traffic.draw(kind, lambda: self._names_of(changed()))
        if found and self._work.ran_commands:
            return TurnNoted("Other files changed during this turn.", found)
        text = f"{found}. The agent, or another program, changed them without a request."
        return TurnNoted("Files changed without a request.", text, is_warning=True) if found else None

    def _names_of(self, changed: set[str]) -> str:
        """Return the names of the changed files that are not reported and whose changes the user did not approve."""
        has_another = {name for name, one in self._compared.items() if one.has_difference}
        others = sorted(changed - (self._shown - has_another) - self._reported)
        self._reported |= set(others)
        folder = self._session.folder
        named = ", ".join(one_line(shown(folder / one, folder), 80) for one in others[:_MOST_NAMED])
        return named + (f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else "")

    def _note_before_commands(self, call: SeenCall) -> None:
        """Report the files that changed before the first command. A later change may be an effect of it."""
        note = None if self._work.ran_commands else self.unasked(self.changed_files, f"{call.call_id} files")
        if note is not None:
            self._note(note.title, note.text, is_warning=True)

    def run(self) -> ChatResponse:
        """Run the turn to its end.

        Raises:
            StoppedEarlyError: it was stopped before there was any reply.
            OutsideAgentError: the agent left, or it changed its mode.
            TractError: something cannot be stored. Everything until then is stored.
        """
        self._session.stop = self._stop
        try:
            outcome, note = self._run_prompts()
        except Stopped:
            self._cancel(self._stop.reason)
            outcome, note = TurnOutcome.STOPPED, "stopped; another message continues"
        except BaseException as error:
            self._cancel("the agent left" if isinstance(error, OutsideAgentError) else "the turn failed")
            raise
        finally:
            self._is_over.set()
        return self._response(outcome, note)

    def _run_prompts(self) -> tuple[TurnOutcome, str]:
        """Send the prompt, and the reasons of rejections as further prompts."""
        prompt: list[Mapping[str, Any]] = self._prompt
        for item in self.earlier:
            self._take(item)
        while True:
            self._work.prompts += 1
            self._request_begins()
            self._session.is_prompting = True
            params = {"sessionId": self._session.session_id, "prompt": prompt}
            result = self._session.call("session/prompt", params, self._take)
            self._session.is_prompting = False
            self._finish_open()
            self._commit_step(self._claim(result))
            self._show_plan(at_once=True)
            reasons, self._reasons = self._reasons, []
            if not reasons or self._work.prompts >= _MOST_PROMPTS:
                outcome, note = _ENDINGS.get(str(result.get("stopReason")), _ENDINGS["end_turn"])
                return outcome, note
            prompt = [{"type": "text", "text": "\n".join(reasons)}]

    # --- what comes

    def _take(self, item: object) -> None:
        if isinstance(item, DecidedNote):
            self._decided(item.request)
        elif isinstance(item, AgentMessage):
            self._take_message(item)

        self._show_plan()

    def _show_plan(self, *, at_once: bool = False) -> None:
        """Show the newest plan, a few times in a second at most."""
        plan, now = self._plan, time.monotonic()
        if plan.text == plan.shown or (now < plan.next_at and not at_once):
            return
        plan.shown, plan.next_at = plan.text, now + _PLAN_SECONDS
        self._note("Plan", plan.text, key="plan")

    def _take_message(self, message: AgentMessage) -> None:
        data = message.data
        method, request_id = str(data.get("method") or ""), data.get("id")
        update = update_of(message, self._session.session_id)
        if update:
            self._take_update(update)
        elif method == "session/request_permission" and request_id is not None:
            self._take_request(request_id, data.get("params"))
        elif method and request_id is not None:
            self._session.refuse(request_id, method)
            self._unknown(method, data.get("params"))
        elif method == "$/cancel_request":
            self._cancelled_by_agent(data.get("params"))
        elif method and not method.startswith("_"):
            self._unknown(method, data.get("params"))
        if not self._session.is_asking:
            raise _LeftModeError(
                f"{self._session.settings.title} changed to its mode {one_line(self._session.mode, 60)!r}, in which "
                "it does not ask. The turn was ended. Send another message to continue in the mode that asks."
            )

    def _take_update(self, update: Mapping[str, Any]) -> None:
        kind = str(update.get("sessionUpdate"))
        if kind in {"agent_message_chunk", "agent_thought_chunk"}:
            self._take_chunk(kind, update.get("content"))
        elif kind in {"tool_call", "tool_call_update"}:
            self._take_call(update)
        elif kind == "plan":
            self._plan.text = _plan_text(update.get("entries"))
        elif kind == "usage_update":
            self._work.claimed_usd += self._session.spend(update.get("cost"))
        elif kind not in _QUIET:
            self._unknown(kind, {name: value for name, value in update.items() if name != "sessionUpdate"})

    def _take_chunk(self, kind: str, content: Any) -> None:
        data = content if isinstance(content, dict) else {}
        text = data.get("text")
        if not isinstance(text, str):
            text = f"\n[{one_line(str(data.get('type') or 'content'), 40)} of the agent is not shown]\n"
        if any(not call.is_committed for call in self._calls.values()):
            self._commit_step()
        self._work.text += len(text)
        if self._work.text > _MOST_TEXT:
            raise self._too_much(f"more than {_MOST_TEXT:,} characters")
        is_text = kind == "agent_message_chunk"
        self._request_begins()
        (self._text if is_text else self._thought).append(sound(text))
        if self.on_delta is not None:
            self.on_delta(Delta("text" if is_text else "reasoning", sound(text)))

    def _take_call(self, update: Mapping[str, Any]) -> None:
        call = self._call(update)
        if call is None:
            return
        call.merge(update)
        self._compare_arguments(call)
        if call.is_rejected and call.status == "completed":
            self._ignored(call)
        if call.is_answered or call.status == "pending":
            return
        waiting = [one for one in self._open.values() if one.call is call]
        if waiting and not call.has_ended:
            return  # OpenCode calls a tool running while its request is open
        if waiting:
            self._early(waiting, call)
        if not call.is_committed:
            self._commit_step()
        self._begin(call)
        if call.has_ended:
            self._answer(call)

    def _compare_arguments(self, call: SeenCall) -> None:
        """Report a call with other arguments than the approved ones. Unknown arguments were approved as unknown."""
        settings = self._session.settings
        if call.approved is None or call.approved.covers(call.as_approved(settings, self._session.folder)):
            return
        call.approved = None
        text = canonical_or_repr(call.raw) if call.raw else call.command(settings)
        title = f"{settings.title} called {call.tool} with other arguments than you approved."
        self._note(title, shortened(f"It reports: {text}", _BRIEF), is_warning=True)

    def _ignored(self, call: SeenCall) -> None:
        """Report a call that the agent carries out although the user rejected it."""
        call.is_rejected, self._work.ran_commands = False, True
        self._note(
            f"{self._session.settings.title} ignored your decision.",
            f"It reports {call.tool} as completed, although you rejected it. Check its effect.",
            is_warning=True,
        )

    def _cancelled_by_agent(self, params: Any) -> None:
        """Withdraw a request that the agent no longer makes."""
        request_id = params.get("requestId") if isinstance(params, dict) else None
        for request in [one for one in self._open.values() if one.request_id == request_id]:
            self._withdraw(request, "the agent withdrew it")

    def _early(self, waiting: list[_OpenRequest], call: SeenCall) -> None:
        """Report a call that the agent carries out before its decision."""
        for one in waiting:
            self._open.pop(id(one))
            self._withdraw(one, "the agent did not wait for the decision")
            self._session.answer(one.request_id, CANCELLED)
        self._work.ran_commands = True
        self._note(
            f"{self._session.settings.title} did not wait for your decision.",
            f"It reports {call.tool} as {one_line(call.status, 20)} although the request was open. Check its effect.",
            is_warning=True,
        )

    def _call(self, update: Mapping[str, Any]) -> SeenCall | None:
        acp_id = update.get("toolCallId")
        if not isinstance(acp_id, str) or not acp_id:
            self._unknown("tool call without an id", dict(update))
            return None
        known = self._calls.get(acp_id)
        if known is not None and known.is_answered and update.get("sessionUpdate") != "tool_call_update":
            known = None  # a new call or a request: the agent uses an id again
        if known is None:
            if self._work.seen >= _MOST_CALLS:
                raise self._too_much(f"more than {_MOST_CALLS:,} calls")
            self._work.seen += 1
            known = self._calls[acp_id] = SeenCall(self._work.seen, self._prefix)
        return known

    def _too_much(self, what: str) -> OutsideAgentError:
        return OutsideAgentError(
            f"{self._session.settings.title} sent {what} in one turn, so the turn was ended. Send another message to "
            "continue."
        )

    # --- requests

    def _take_request(self, request_id: Any, params: Any) -> None:
        """Ask the user about a request for permission."""
        data = params if isinstance(params, dict) else {}
        about = data.get("toolCall")
        is_ours = data.get("sessionId") == self._session.session_id and len(self._open) < _MOST_OPEN
        call = self._call({**about, "sessionUpdate": ""}) if is_ours and isinstance(about, dict) else None
        if call is None:
            self._session.answer(request_id, CANCELLED)
            return
        call.merge(about)  # type: ignore[arg-type] # a dict, as there is a call
        call.merge({"_meta": data.get("_meta")})
        if not call.is_committed:
            self._commit_step()
        server, option = self._session.server, once(data.get("options"), "allow_once")
        if (
            server is not None
            and option is not None
            and call.is_of_server(server.name, self._session.settings, data.get("options"))
        ):
            self._begin(call)  # the tool itself asks the user
            outcome = {"outcome": "selected", "optionId": option}
            self._session.answer(request_id, {"outcome": outcome})
            return
        pending = PendingAgentRequest(
            call,
            self._session.settings,
            self._session.folder,
            tract=self._tract,
            triggered_by=None,
            actor=self._actor,
        )
        request = _OpenRequest(request_id, call, pending, data.get("options"))
        self._open[id(request)] = request
        if pending.notebook_file(None if self.notebook is None else self.notebook.path):
            self._reviewer.keep(pending)
            with deciding(*_BY_US):
                pending.reject(NOTEBOOK_FILE)
            self._decided(request)
            return
        self._ask(request)

    def _ask(self, request: _OpenRequest) -> None:
        def work() -> None:
            try:
                self._decide(request)
            finally:
                self._session.inbox.post(DecidedNote(request))

        if threading.current_thread() is threading.main_thread():  # a terminal prompts here
            work()  # the messages that came meanwhile are before the decision in the inbox
        else:
            request.worker = Worker(work, "tract-agent-request")

    def _decide(self, request: _OpenRequest) -> None:
        with suppress(_Ended), checking(self._check_over), self._reviewer.claim(request.pending) as same:
            request.pending = same
            self._observer.asked(request.call.call_id, same.pending_id)
            try:
                self._reviewer.decide_now(same)
            except UndecidedError:
                self._withdraw(request, _NO_USER)

    def _check_over(self) -> None:
        if self._is_over.is_set() or self._stop.is_set() or not self._session.process.is_running:
            raise _Ended

    def _decided(self, request: _OpenRequest) -> None:
        if id(request) not in self._open or request.pending.status.is_open:
            return
        del self._open[id(request)]
        pending, call = request.pending, request.call
        self._observer.decided(call.call_id, pending)
        outcome, reason = outcome_for(pending, request.options), ""
        if pending.status is PendingStatus.APPROVED:
            self._approved(pending, call, outcome)
        else:
            is_late = pending.status is PendingStatus.EXPIRED
            nothing = "no decision in time" if is_late else "it was rejected, without a reason"
            reason = pending.rejection_reason or nothing
            self._reasons.append(f"The user rejected your call of {call.tool}: {reason}")
        self._session.answer(request.request_id, outcome)
        if pending.status is not PendingStatus.APPROVED:
            call.is_rejected = True
            self._answer(call, CallAnswer(refused(reason), is_error=True))

    def _approved(self, pending: PendingAgentRequest, call: SeenCall, outcome: Mapping[str, Any]) -> None:
        if outcome == CANCELLED:
            self._note(
                "The agent offers no answer that allows this once, so it was not allowed.", is_warning=True
            )
            return
        if not pending.is_unknown:
            call.approved = call.as_approved(self._session.settings, self._session.folder)
        self._expected[call.call_id] = pending.expected()
        self._shown |= {
            shown(one.path, self._session.folder) for one in self._expected[call.call_id] if not one.was_there
        }
        if not pending.changes:
            self._note_before_commands(call)
            self._work.ran_commands = True
        self._begin(call)

    def _withdraw(self, request: _OpenRequest, why: str) -> None:
        if request.pending.status.is_open:
            with suppress(TractError), deciding(*_BY_US):  # or decided elsewhere at the same time
                request.pending.reject(why)

    # --- commits

    def _request_begins(self) -> None:
        if not self._has_request:
            self._has_request = True
            self._observer.request()

    def _commit_step(self, claimed: Mapping[str, Any] | None = None, cut: str = "") -> None:
        """Commit the text so far with the calls that are not in the history yet."""
        text, thought = "".join(self._text), "".join(self._thought)
        new = [call for call in self._calls.values() if not call.is_committed]
        if not text.strip() and not thought.strip() and not new:
            return
        self._check_branch()
        self._request_begins()
        for call in self._calls.values():
            if call.is_committed and not call.is_answered and not call.answer:
                info = self._commit_answer(call, CallAnswer(_STILL_RUNNING, made=1))
                call.answer = info.commit_hash
        self._text.clear()
        self._thought.clear()
        settings, calls = self._session.settings, [call.tool_call for call in new]
        metadata: dict[str, Any] = {SESSION: {"agent": settings.name, "session": self._session.session_id}}
        metadata |= {CUT: cut} if cut else {}
        metadata |= {CLAIMED: dict(claimed)} if claimed else {}
        if calls:
            metadata["tool_calls"] = [
                {"id": one.id, "name": one.name, "arguments": one.arguments} for one in calls
            ]
        if thought.strip():
            metadata["provider_fields"] = {"reasoning": thought, "reasoning_field": "thinking"}
        content = {"content_type": "dialogue", "role": "assistant", "text": text, "name": None}
        options = {"metadata": metadata, "generation_config": {"model": settings.name}}
        info = self._repository.commits.say(content, None, options)
        for call, made in zip(new, calls, strict=True):
            call.is_committed, call.committed_arguments = True, made.arguments
        self._work.calls += len(new)
        self._last, self._step_commit, self._has_request = info, info.commit_hash, False
        self._last_text = text if text.strip() else self._last_text
        self._observer.replied(info)

    def _check_branch(self) -> None:
        now = self._repository.refs.position.branch
        if now != self._branch:
            raise BranchMovedError(
                f"The agent's turn is on branch {self._branch!r}, but the current branch is {now!r}, so the turn was "
                "ended. Switch back, and send another message."
            )

    def _begin(self, call: SeenCall) -> None:
        if not call.is_begun and call.is_committed:
            call.is_begun = True
            stack = self._running[call.call_id] = ExitStack()
            stack.enter_context(self._observer.making(call.call_id, CallNotes()))

    def _answer(self, call: SeenCall, answer: CallAnswer | None = None) -> None:
        """Commit the answer of a call, and compare its files with the approved changes."""
        if call.is_answered or not call.is_committed:
            return
        call.is_answered = True
        running = self._running.pop(call.call_id, None)
        if running is not None:
            running.close()
        failed = call.status == "failed"
        text = call.outcome() or ("It failed, without a text." if failed else "")
        self._commit_answer(call, answer or CallAnswer(text, is_error=failed, made=1))
        self._observer.step_over(self._step_commit)
        self._compare(call.call_id, has_failed=failed)

    def _commit_answer(self, call: SeenCall, answer: CallAnswer) -> CommitInfo:
        self._check_branch()
        if call.answer:  # its earlier answer said that it still ran
            edited = answer_fields(
                call.call_id, call.tool, answer.text or "Done.", is_error=answer.is_error, edit=call.answer
            )
            info = self._answers.results.commit(edited)
        else:
            (info,) = self._answers.answer([(call.tool_call, answer)], _ANSWER_SIZE)
        if call.is_answered:
            self._observer.answered(call.call_id, answer, info)
        return info

    def _finish_open(self) -> None:
        """Close the calls that the agent did not end before its turn did."""
        for request in list(self._open.values()):
            self._withdraw(request, "the agent ended its turn")
            self._session.answer(request.request_id, CANCELLED)
            self._open.pop(id(request), None)
        if any(not call.is_committed for call in self._calls.values()):
            self._commit_step()
        for call in self._calls.values():
            if not call.is_answered:
                text = "The agent did not report the end of this call."
                self._answer(call, CallAnswer(text, is_error=True, made=int(call.is_begun)))

    def _cancel(self, why: str) -> None:
        """End the turn: cancel it, answer all open requests, and store what has arrived."""
        self._is_over.set()
        if self._session.is_prompting:
            self._session.notify("session/cancel", {"sessionId": self._session.session_id})
        for request in list(self._open.values()):
            self._session.answer(request.request_id, CANCELLED)
            self._withdraw(request, why)
        self._open.clear()
        with suppress(TractError), self._repository.writer.batch():
            self._commit_step(cut=why)
            for call in list(self._calls.values()):
                if not call.is_answered:
                    text = ended_running(why) if call.is_begun else not_run(why)
                    self._answer(call, CallAnswer(text, is_error=True, made=int(call.is_begun)))
            self._show_plan(at_once=True)

    # --- the end

    def _compare(self, call_id: str, *, has_failed: bool) -> None:
        """Compare the files of an ended call with the changes that the user approved. A failed one may leave them."""
        for number, one in enumerate(self._expected.pop(call_id, [])):
            path = shown(one.path, self._session.folder)
            self._compared.pop(path, None)

            def compare(one: ExpectedFile = one) -> str:
                return _comparison(one, has_failed=has_failed)

            found = self._session.traffic.draw(f"{call_id} {number}", compare)
            if found in _DIFFERENCES:
                title, text = _DIFFERENCES[found]
                self._note(title.format(one_line(path, 120)), text, is_warning=True)
            if found in {_SAME, _EARLY}:
                self._compared[path] = one

    def _claim(self, result: Mapping[str, Any]) -> dict[str, Any]:
        usage = result.get("usage")
        claimed: dict[str, Any] = {}
        for name, theirs in (("prompt_tokens", "inputTokens"), ("completion_tokens", "outputTokens")):
            value = usage.get(theirs) if isinstance(usage, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                claimed[name] = value
        usd, self._work.claimed_usd = self._work.claimed_usd, 0.0
        return {**claimed, "claimed_usd": f"{usd:.6f}" if usd else ""} if claimed or usd else {}

    def _unknown(self, kind: str, data: Any) -> None:
        """Show a message of a kind that is not known, up to a number."""
        self._work.notes += 1
        if self._work.notes < _MOST_NOTES:
            text = canonical_or_repr(data)
            self._note(f"The agent sent {one_line(kind, 60)!r}.", shortened(text, _BRIEF))
        elif self._work.notes == _MOST_NOTES or self._work.notes % 1_000 == 0:
            more = counted(self._work.notes - _MOST_NOTES + 1, "more message")
            self._note(f"The agent sent {more} of unknown kinds.", key="unknown")

    def _note(self, title: str, text: str = "", key: str = "", *, is_warning: bool = False) -> None:
        if not key or key not in self._noted:
            self._noted.add(key)
            self._commit_step()  # the text so far comes before it
        self._observer.noted(TurnNoted(sound(title), sound(text), is_warning, key))

    def _response(self, outcome: TurnOutcome, note: str) -> ChatResponse:
        here = self._repository.refs.position.commit_hash
        info = self._last or self._repository.commits.get(here or "")
        model = {"model": self._session.settings.name}
        response = ChatResponse(
            self._last_text, info, {}, model, outcome=outcome, note=note, steps=self._work.prompts,
            calls=self._work.calls,
        )  # fmt: skip
        if self._last is None and outcome is TurnOutcome.STOPPED:
            raise StoppedEarlyError(response)
        return response


def prompt_content(
    session: AgentSession, text: str, files: Sequence[AttachedFile]
) -> Iterator[dict[str, Any]]:
    """Yield the content of a prompt."""
    yield {"type": "text", "text": text}
    for one in files:
        media_type, name = one.attachment.media_type, one.attachment.name
        if media_type.startswith("image/") and session.takes("image"):
            data = base64.b64encode(one.data).decode()
            yield {"type": "image", "data": data, "mimeType": media_type}
        elif media_type.startswith("text/"):
            yield {"type": "text", "text": f"{name}:\n{one.data.decode(errors='replace')}"}
        elif session.takes("embeddedContext") and not media_type.startswith("image/"):
            blob = base64.b64encode(one.data).decode()
            resource = {"uri": f"attachment:///{name}", "mimeType": media_type, "blob": blob}
            yield {"type": "resource", "resource": resource}
        else:
            raise OutsideAgentError(
                f"{session.settings.title} takes no {media_type}, so nothing was sent. Leave out {name}."
            )


def _comparison(one: ExpectedFile, *, has_failed: bool) -> str:
    if has_failed and one.is_unchanged:
        return _EARLY if one.changed_early else ""
    if not one.contents:
        return _UNKNOWN_TEXT
    if one.has_difference:
        return _OTHER
    return _EARLY if one.changed_early else _SAME


def _plan_text(entries: Any) -> str:
    marks = {"completed": "✓", "in_progress": "▸"}
    found = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    lines = [
        f"{marks.get(str(one.get('status')), '○')} {one_line(str(one.get('content')), 200)}"
        for one in found[:50]
    ]
    return " · ".join(lines)
