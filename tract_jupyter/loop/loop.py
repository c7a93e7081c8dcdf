"""`Tract.loop`: the tools that a model is offered, the limits of a turn, and how to stop it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tract_jupyter.concurrency import BY_PERSON, StopSignal, current_stop
from tract_jupyter.exceptions import ContentError
from tract_jupyter.llm import reported_cost
from tract_jupyter.loop.generation import ReplyRequest
from tract_jupyter.loop.meter import TurnMeter
from tract_jupyter.loop.turn import StoredTurn
from tract_jupyter.models import Allowance, brief_repr, check_text, parse_message
from tract_jupyter.storage import protected_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.context import Attachable
    from tract_jupyter.llm import Cassette
    from tract_jupyter.loop.acting import AnswerStore
    from tract_jupyter.loop.answers import ShownAnswer
    from tract_jupyter.loop.calls import AfterStep, CarryOut, OpenQuestion
    from tract_jupyter.loop.events import TurnEvent
    from tract_jupyter.loop.generation import Generation
    from tract_jupyter.loop.meter import Price
    from tract_jupyter.loop.open_turns import OpenTurn
    from tract_jupyter.loop.stored import PastTurn
    from tract_jupyter.loop.turn import Step, TurnStore
    from tract_jupyter.models import ChatResponse, CommitInfo, Delta, ToolCall
    from tract_jupyter.review import Review
    from tract_jupyter.toolkit import (
        Asking,
        EffectRecords,
        ToolExecutor,
        ToolProfile,
        Toolset,
        TurnRecorder,
    )

INSTRUCTIONS: Final = "instructions_for"
"""Metadata key of the instructions for scripts: their tool profile."""
_PATIENCE: Final = 5.0
"""Seconds that `close` waits for running turns."""
_USUAL_STEPS: Final = 50
_USUAL_IMAGES: Final = 6
"""Images in the results of one turn. Each is at most 1,600 tokens."""
_active_signal: ContextVar[StopSignal | None] = ContextVar("tract_loop_signal", default=None)

Tools: TypeAlias = "str | ToolProfile | Toolset | Sequence[dict[str, Any]] | None"


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """A caller's settings for one turn; None for the loop's.

    Attributes:
        reply: the request for a reply, without the tools of the loop.
        tools: the tools of the model. If they are schemas, the caller answers the calls.
        limits: the limits of the turn.
        on_delta: gets each piece of a reply when it arrives.
        on_turn: gets each event of the turn when it happens, on this thread or another.
        whole: as for `ToolLoop`; True also if the loop's is.
    """

    reply: ReplyRequest = field(default_factory=ReplyRequest)
    tools: Tools = None
    limits: Allowance | None = None
    on_delta: Callable[[Delta], object] | None = None
    on_turn: Callable[[TurnEvent], object] | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        """Check the user's values.

        Raises:
            ContentError: the limits, `on_delta` or `on_turn` have the wrong type.
        """
        if self.limits is not None and not isinstance(self.limits, Allowance):
            raise ContentError(f"limits must be Allowance(steps=10, ...), not {brief_repr(self.limits)}.")
        if self.on_delta is not None and not callable(self.on_delta):
            raise ContentError(
                f"on_delta must be a function that takes the pieces of a reply, not {brief_repr(self.on_delta)}."
            )
        if self.on_turn is not None and not callable(self.on_turn):
            raise ContentError(
                f"on_turn must be a function that takes the events of a turn, not {brief_repr(self.on_turn)}."
            )


class ToolLoop:
    """The loop of one tract: it offers tools to the model and executes its calls, until the turn ends.

    Attributes:
        tools: the default tools of `chat` and `generate`: a profile or its name, or a toolset; None for no tools.
        limits: the default limits of a turn.
        price: returns the cost of a request, for a limit of money; by default from the prices of `t.models`.
        ask: a function that replies instead of the model: `ask(messages, **options)`, as `LLMClient.chat`.
        carry_out: a function that replaces the execution of a call: `carry_out(call, make)`. `make()` runs the call as
            usual and returns its `ToolResult`. Further calls of `make` return the same result and run nothing.
        after_step: a function that gets the calls of each finished step, as a list of `EndedCall`. If it returns a
            text, the turn ends with this reason.
        about_end: a function whose result, JSON data, is stored with the end of each turn; see `TurnEnded`.
        instructions: writes the instructions for scripts, for the profile and the user's message.
        parallel: the maximum number of parallel calls that only read.
        result_size: the number of characters of one result that the model sees. The full result is stored, and
            `read_result` reads the rest.
        step_size: the number of characters of all results of a step that it sees.
        images: the number of images in the results of a turn that it sees; 0 for none.
        redact: a function that hides values in the text of each result before it is stored. Images are then not sent.
            Agents and their agents use it as well. None hides nothing.
        make_meter: creates the meter of a turn, for its limits and the price function.
        whole: True to replace a cut reply by another request with a higher limit.

    Args:
        executor: returns the tool executor.
        review: returns the part that has the requests about calls.
        generation: requests replies, and commits them.
        store: stores turns.
        answers: returns the store of the calls' answers.
        instructions: see above.
        cassette: returns the cassette for requests, including the ones to `ask`.
        effects: returns the records of effects outside of the context.
    """

    def __init__(
        self,
        executor: Callable[[], ToolExecutor],
        review: Callable[[], Review],
        generation: Generation,
        store: TurnStore,
        answers: Callable[[], AnswerStore],
        instructions: Callable[[ToolProfile, str], str],
        cassette: Callable[[], Cassette],
        effects: Callable[[], EffectRecords],
    ) -> None:
        self.tools: Tools = None
        self.limits = Allowance(steps=_USUAL_STEPS)
        self.price: Price | None = reported_cost
        self.ask: Callable[..., dict[str, Any]] | None = None
        self.carry_out: CarryOut | None = None
        self.after_step: AfterStep | None = None
        self.about_end: Callable[[], Mapping[str, Any]] | None = None
        self.parallel = 8
        self.result_size = 20_000
        self.step_size = 60_000
        self.images = _USUAL_IMAGES
        self.redact: Callable[[str], str] | None = None
        self.whole = False
        self.make_meter: Callable[[Allowance, Price | None], TurnMeter] = TurnMeter
        self._executor = executor
        self._review = review
        self._generation = generation
        self._store = store
        self._answers = answers
        self.instructions = instructions
        self._cassette = cassette
        self._effects = effects
        self._running: list[StopSignal] = []
        self._ignores_stored_tools = False
        self._turns = 0
        self._ended = threading.Condition()
        self._asked: dict[str | None, dict[str, OpenQuestion]] = {}  # by branch, and by the call's id
        self._had: dict[str | None, Toolset] = {}  # by branch: the tools of its last turn in this process

    def stop(self) -> None:
        """Stop the running turns, from any thread.

        The request to the model ends at once. The received part of the reply is stored and marked as cut. Scripts end,
        and calls that only read are abandoned. A call that changes something has a second to end. Then it is abandoned
        as well, and its answer says that its end is unknown. (A turn in the main thread waits for it.) Calls that have
        not started get an answer that says so, and no further request is sent.
        """
        for signal in list(self._running):
            signal.set(BY_PERSON)

    def pause(self) -> None:
        """End the running turns before their next request. Calls run until then."""
        for signal in list(self._running):
            signal.pause()

    def offer_current_tools(self) -> None:
        """Offer the current tools in the next turn, instead of the stored list of the conversation.

        `t.costs.of_rewrite()` estimates the cost: the model's reasoning and the provider's cache are lost.
        """
        self._ignores_stored_tools = True

    def close(self) -> None:
        """Stop the running turns, and wait up to five seconds for their end. A turn does not wait for itself."""
        for signal in list(self._running):
            from tract_jupyter.prompts import TRACT_CLOSED

            signal.set(TRACT_CLOSED)
        if _active_signal.get() not in self._running:
            with self._ended:
                self._ended.wait_for(lambda: not self._turns, _PATIENCE)

    @protected_context
    def signal(self) -> Iterator[StopSignal]:
        """Yield the signal that `stop` and `pause` set for a turn. Within a turn, it is the turn's signal.

        A signal that stops the code around a turn, such as a script, also stops the turn.
        """
        active = _active_signal.get()
        if active is not None and active in self._running:
            yield active
            return
        signal = StopSignal()
        self._running.append(signal)
        token = _active_signal.set(signal)
        outer = current_stop()
        forget = outer.on_set(lambda: signal.set(outer.reason))
        try:
            yield signal
        finally:
            forget()
            _active_signal.reset(token)
            self._running.remove(signal)

    @protected_context
    def under_way(self) -> Iterator[None]:
        """Register a turn, so `stop`, `pause` and `close` reach it."""
        with self.signal():
            with self._ended:
                self._turns += 1
            try:
                yield
            finally:
                with self._ended:
                    self._turns -= 1
                    self._ended.notify_all()

    def toolset(self, tools: Tools = None) -> Toolset | None:
        """Return the tools of a turn, including the tool that reads the rest of long results; None for no tools.

        Raises:
            ContentError: there is no such profile.
        """
        choice = self.tools if tools is None else tools
        if choice is None or isinstance(choice, list | tuple):
            return None
        from tract_jupyter.review import CHAT
        from tract_jupyter.toolkit import READ_ON, ToolConfig, Toolset, profile_of

        toolset = choice
        if not isinstance(toolset, Toolset):
            executor = self._executor()
            toolset = Toolset(executor, profile_of(choice), actor=executor.agent or CHAT)  # type: ignore[arg-type] # it checks
        toolset = toolset.in_conversation(self._executor())
        if READ_ON in toolset.profile.tool_configs or toolset.has(READ_ON):
            return toolset
        configs = {**toolset.profile.tool_configs, READ_ON: ToolConfig()}
        return toolset.with_profile(replace(toolset.profile, tool_configs=configs))

    @contextmanager
    def asking(
        self,
        request: TurnRequest,
        text: str,
        name: str | None,
        attachments: Sequence[Attachable],
        *,
        needs_model: bool = True,
    ) -> Iterator[OpenTurn]:
        """Commit the user's message, and hold the branch until the reply is stored; see `Tract.chat`.

        Args:
            request: the settings of the turn.
            text: the user's message.
            name: the name of the user, among several.
            attachments: files to send with the message.
            needs_model: False if an outside agent replies.

        Raises:
            AttachmentError: a file cannot be attached.
            ContentError: the text is empty.
        """
        if not check_text(text, "the message").strip():
            raise ContentError(
                "The message is empty, so nothing was committed or sent. Use generate() to answer the current context, "
                "or chat(None) to continue an interrupted turn."
            )
        generation, repository = self._generation, self._store.repository
        here = generation.check_ready() if needs_model else generation.check_place()
        files = repository.files.load(attachments)
        content: dict[str, Any] = {"text": text, "name": name, "role": "user"}
        attached = [one.attachment.model_dump() for one in files] or None

        def say() -> CommitInfo:
            self._prepare_message(request, text)
            return repository.commits.commit({"content_type": "dialogue", **content}, attachments=files)

        with generation.turns.asking(here, {**content, "attachments": attached}, say) as turn:
            yield turn

    def turn(self, request: TurnRequest, step: Step | None = None) -> ChatResponse:
        """Run a turn from its start, or resume it; within `under_way`.

        Args:
            request: the settings of the turn.
            step: makes one request of the turn, as a run does. The default sends it to the model.

        Raises:
            StoppedEarlyError: the turn was stopped before there was any reply.
            ContentError: a limit cannot be enforced, there is no such profile, or the turn began with hidden values and
                `redact` is None.
            TractError: a request failed. Everything until then is stored, and the next turn continues from there.
        """
        toolset = self.toolset(request.tools)
        limits = request.limits or self.limits
        if limits.steps is None:
            limits = replace(limits, steps=_USUAL_STEPS)
        meter = self.make_meter(limits, self.price)
        stop = _active_signal.get() or StopSignal()  # set by `under_way`
        asks = None if self.ask is None else self._cassette().asking(self.ask)
        observer = None
        if request.on_turn is not None:
            from tract_jupyter.loop.events import TurnObserver

            offered_as = "" if toolset is None else toolset.profile.name
            observer = TurnObserver(self._store.repository, request.on_turn, offered_as, self.about_end)
        whole = request.whole or self.whole
        step = step or self._generation.carry_out
        common = (self._store, meter, stop, request.reply, step, request.on_delta, asks, observer, whole)
        if toolset is None:
            if self._had:
                self._had.pop(self._store.repository.refs.position.branch, None)
            turn = StoredTurn(*common)
            return turn.run() if observer is None else observer.observe(turn)
        self._had[self._store.repository.refs.position.branch] = toolset
        from tract_jupyter.loop.acting import ActingTurn
        from tract_jupyter.loop.answers import ImageBudget
        from tract_jupyter.loop.calls import CallDependencies
        from tract_jupyter.loop.offered import OfferedTools
        from tract_jupyter.loop.stored import images_of_turn

        self._check_hiding()
        offered = OfferedTools.of(self._store.repository, toolset, ignore_stored=self._ignores_stored_tools)
        answers = self._answers()
        # the turn stays on its branch; its tools follow their own moves of HEAD
        refs = self._store.repository.refs
        tools_head = refs.own_head(follows=True)
        branch = tools_head.branch
        dependencies = CallDependencies(
            toolset, answers.journal, meter, stop, offered,
            self._asked.setdefault(branch, {}), lambda: refs.with_head(tools_head), self.carry_out,
            self.parallel, observer, self._recorder(), self.redact,
        )  # fmt: skip
        sizes = (self.result_size, self.step_size)
        acting = ActingTurn(
            *common, dependencies=dependencies, answers=answers, sizes=sizes,
            images=ImageBudget(self.images, images_of_turn(self._store.repository)), after_step=self.after_step,
        )  # fmt: skip
        response = acting.run() if observer is None else observer.observe(acting)
        self._ignores_stored_tools = False
        if tools_head.branch == branch:
            return response
        now = "no branch" if tools_head.branch is None else f"branch {tools_head.branch!r}"
        moved = f"the model moved HEAD to {now}; this turn is on branch {branch!r}"
        return replace(response, note="; ".join(filter(None, (response.note, moved))))

    def _check_hiding(self) -> None:
        """Check that a turn that hides values does so when it is resumed, too.

        Raises:
            ContentError: it does not.
        """
        from tract_jupyter.loop.stored import question_of
        from tract_jupyter.prompts import SCHEMA_ONLY_CONTEXT

        sent, _ = parse_message(question_of(self._store.repository).text)
        if self.redact is None and any(context.name == SCHEMA_ONLY_CONTEXT for context in sent):
            raise ContentError(
                f"This turn hides values of variables ({SCHEMA_ONLY_CONTEXT}), and here they would not be hidden, so "
                "nothing was sent. Continue it in its notebook with %tract chat resume."
            )

    def _recorder(self) -> TurnRecorder:
        from tract_jupyter.loop.stored import question_of

        repository = self._store.repository
        here = repository.refs.position.commit_hash
        return self._effects().recorder(lambda: question_of(repository, here).question)

    def resumed_request(self, request: TurnRequest, *, is_set_aside: bool) -> TurnRequest:
        """Return the settings for resuming a turn. The default tools are the turn's last ones.

        Args:
            request: the caller's settings.
            is_set_aside: True if the user's last message has no reply and is not sent.

        Raises:
            ContentError: the turn's tool profile is not known here.
        """
        if request.tools is not None or self.tools is not None:
            return request
        earlier = self._had.get(self._store.repository.refs.position.branch)
        turns = [] if is_set_aside else self.turns()
        name = self.offered_in(turns[-1]) if turns else None
        if name is None or (earlier is not None and earlier.profile.name == name):
            return request if earlier is None else replace(request, tools=earlier)
        if not name:
            return request
        from tract_jupyter.toolkit import find_profile

        profile = find_profile(name)
        if profile is None:
            raise ContentError(
                f"The interrupted turn had the tools of the profile {brief_repr(name)}, which is not known here, so "
                "nothing was sent; continue with chat(None, tools=...), or with tools=[] for no tools."
            )
        return replace(request, tools=profile)

    def last_response(self) -> ChatResponse | None:
        """Return the last reply of the current branch if its turn is over; None if a call is open."""
        return self._store.last_reply()

    def turns(self, head: str | None = None) -> list[PastTurn]:
        """Return the turns of a history, oldest first.

        Args:
            head: the last commit of the history, or a branch; by default the current branch.

        Raises:
            CommitNotFoundError: there is no such commit.
        """
        from tract_jupyter.loop.stored import past_turns

        repository = self._store.repository
        here = (
            repository.refs.position.commit_hash if head is None else repository.commits.get(head).commit_hash
        )
        return past_turns(repository, here)

    def events_of(self, turn: PastTurn) -> list[TurnEvent]:
        """Return the events of a turn from the store.

        They are the events that `on_turn` got, except pieces of replies and starts of calls. Facts outside the history
        (durations, decisions, the end of the turn) are there only if the turn had an observer.
        """
        from tract_jupyter.loop.stored import turn_events

        return turn_events(self._store.repository, self._review().ledger, turn)

    def offered_in(self, turn: PastTurn) -> str | None:
        """Return the name of the turn's last tool profile; empty for no tools, None if unknown."""
        from tract_jupyter.loop.stored import offered_in

        return offered_in(self._store.repository, turn)

    def shown(self, text: str, call_id: str, calls: int) -> ShownAnswer:
        """Return the answer to a call as the model sees it: cleaned, and cut if it is long.

        Args:
            text: the full answer.
            call_id: the id of the call.
            calls: the number of calls in its step.
        """
        from tract_jupyter.loop.answers import CallAnswer, shown_answer, size_for

        return shown_answer(CallAnswer(text), call_id, size_for(calls, self.result_size, self.step_size))

    def _prepare_message(self, request: TurnRequest, text: str) -> None:
        """Prepare the conversation for a new message of the user.

        Answer the calls that wait for approval. If the model can write scripts, commit the instructions once, before
        the first message. The text stays the same for the whole conversation, so providers can cache it. Report changed
        tools, because the tool list itself stays the same.

        Args:
            request: the settings of the turn.
            text: the user's message.
        """
        toolset = self.toolset(request.tools)
        self._close_open_calls(toolset)
        if toolset is None:
            return
        self._report_tool_changes(toolset)
        if toolset.profile.callable_from_code is None:
            return
        name = toolset.profile.name
        if not self._store.has_system_message(INSTRUCTIONS, name):
            self._store.add_system_message(self.instructions(toolset.profile, text), {INSTRUCTIONS: name})

    def _report_tool_changes(self, toolset: Toolset) -> None:
        from tract_jupyter.loop.offered import news_of

        news = None if self._ignores_stored_tools else news_of(self._store.repository, toolset)
        if news is not None:
            self._store.add_system_message(*news)

    def _close_open_calls(self, toolset: Toolset | None) -> None:
        message, calls = self._store.open_step()
        if message is None or not calls:
            return
        from tract_jupyter.loop.answers import size_for
        from tract_jupyter.loop.calls import left_answer

        answers = self._answers()
        known = answers.journal.of(message.commit_hash)
        closed = [
            (
                call,
                left_answer(
                    known.get(call.id),
                    self._question_of(call, toolset),
                    self._executor() if toolset is None else toolset.executor,
                    self._reviewer(toolset).catch_up,
                    reads=toolset is not None and toolset.reads(call.name),
                ),
            )
            for call in calls
        ]
        size = size_for(len(calls), self.result_size, self.step_size)
        answers.answer(closed, size, over=message.commit_hash)

    def _reviewer(self, toolset: Toolset | None) -> Asking:
        return self._review().reviewer if toolset is None else toolset.reviewer

    def _question_of(self, call: ToolCall, toolset: Toolset | None) -> Any | None:
        """Return the request about a call, which may be a dead process's; None if there is none."""
        here = self._store.repository.refs.position.branch
        waiting = self._asked.get(here, {}).pop(call.id, None)
        if waiting is not None or toolset is None:
            return None if waiting is None else waiting.question
        question = getattr(toolset.prepare(call.name, call.arguments), "question", None)
        if question is None:
            return None
        question_id = question.pending_id
        duplicate = toolset.reviewer.find_duplicate(question)
        has_new_id = question.pending_id != question_id  # the search gave it the id of the earlier request
        return duplicate if duplicate is not None or not has_new_id else question
