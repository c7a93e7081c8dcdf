"""`Tract.loop`: what a model that acts is offered, what a turn may take, and how it is stopped."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tract_jupyter.exceptions import ContentError
from tract_jupyter.llm import StopSignal, TurnMeter, reported_cost
from tract_jupyter.loop.turn import StoredTurn
from tract_jupyter.models import ANY_NUMBER, TurnLimits, brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.llm import Price
    from tract_jupyter.loop.acting import AnswerStore
    from tract_jupyter.loop.calls import CarryOut
    from tract_jupyter.loop.turn import Offer, TurnStore
    from tract_jupyter.models import ChatResponse, Delta
    from tract_jupyter.review import Review
    from tract_jupyter.toolkit import ToolExecutor, ToolProfile, Toolset

ACTOR: Final = "agent:chat"
"""Who calls, where a chat does not say."""
INSTRUCTIONS: Final = "instructions_for"
"""The key of the metadata of what a model is told about scripts: the tool profile that it is about."""
READ_ON: Final = "read_result"
"""The tool that reads on in what was cut; whoever has any tools has this one."""
_PATIENCE: Final = 5.0
"""Seconds that closing waits for the turns that are under way."""
_given: ContextVar[StopSignal | None] = ContextVar("tract_loop_signal", default=None)

Tools: TypeAlias = "str | ToolProfile | Toolset | Sequence[dict[str, Any]] | None"


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """How one turn is carried out, as a caller says it; None for what the loop says.

    Attributes:
        tools: what the model may call; schemas are shown to it, and the caller answers what it calls.
        limits: what the turn may take.
        on_delta: is given each piece of a reply as it comes.
    """

    tools: Tools = None
    limits: TurnLimits | None = None
    on_delta: Callable[[Delta], object] | None = None

    def __post_init__(self) -> None:
        """Check what a person wrote.

        Raises:
            ContentError: the limits or `on_delta` are something else.
        """
        if self.limits is not None and not isinstance(self.limits, TurnLimits):
            raise ContentError(
                f"limits is made with TurnLimits(steps=10, ...), not {brief_repr(self.limits)}"
            )
        if self.on_delta is not None and not callable(self.on_delta):
            raise ContentError(
                f"on_delta is a function that is given each piece of a reply, not {brief_repr(self.on_delta)}"
            )


class ToolLoop:
    """The loop of one tract: it offers tools to the model and carries out what it calls, until the turn ends.

    Attributes:
        tools: what `chat` and `generate` offer where they name nothing: a profile or its name, or a toolset; None for
            no tools.
        limits: what a turn may take, where its caller names no limits.
        price: says what a request cost, for a limit of money; by default what the prices of `t.models` made of it.
        ask: a function that is asked in the place of the model: `ask(messages, **options)`, as `LLMClient.chat`.
        carry_out: a function in the place of making a call: `carry_out(call, make)`, where `make()` makes it as usual
            and returns its `ToolResult`; called again, it returns the same, and nothing is made twice.
        parallel: how many calls of a step that only read may run at once.
        result_size: how many characters of one result the model is shown; the whole is kept, and `read_result` reads
            on.
        step_size: how many characters of all results of a step it is shown.

    Args:
        executor: gives what runs tools.
        review: asks persons.
        store: where turns are kept.
        answers: gives where the answers of calls are kept.
        instructions: writes what a model is told about scripts, given its profile and what the user says.
    """

    def __init__(
        self,
        executor: Callable[[], ToolExecutor],
        review: Review,
        store: TurnStore,
        answers: Callable[[], AnswerStore],
        instructions: Callable[[ToolProfile, str], str],
    ) -> None:
        self.tools: Tools = None
        self.limits = ANY_NUMBER
        self.price: Price | None = reported_cost
        self.ask: Callable[..., dict[str, Any]] | None = None
        self.carry_out: CarryOut | None = None
        self.parallel = 8
        self.result_size = 20_000
        self.step_size = 60_000
        self._executor = executor
        self._review = review
        self._store = store
        self._answers = answers
        self._instructions = instructions
        self._running: list[StopSignal] = []
        self._is_anew = False
        self._turns = 0
        self._ended = threading.Condition()
        self._asked: dict[str, Any] = {}

    def stop(self) -> None:
        """Stop the turns that are under way, from any thread.

        The model's call ends at once, and what had come of its reply is kept, marked as cut. Calls that only read are
        left; one that changes something is waited for, as its end has to be known. What was not begun is answered with
        that, and no further request is made.
        """
        for signal in list(self._running):
            signal.set()

    def pause(self) -> None:
        """Have the turns that are under way end before their next request; calls are carried out until then."""
        for signal in list(self._running):
            signal.pause()

    def offer_anew(self) -> None:
        """Have the next turn offer the tools as they are now, in the place of the list that the conversation keeps.

        What that takes from the model, and from the provider's cache, is what `t.costs.of_rewrite()` says before.
        """
        self._is_anew = True

    def close(self) -> None:
        """Stop the turns that are under way and wait for their end, five seconds at most; not for one that calls it."""
        self.stop()
        if _given.get() not in self._running:
            with self._ended:
                self._ended.wait_for(lambda: not self._turns, _PATIENCE)

    @contextmanager
    def signal(self) -> Iterator[StopSignal]:
        """Yield what `stop` and `pause` give to a turn, from its first moment on; within one, that of this turn."""
        given = _given.get()
        if given is not None and given in self._running:
            yield given
            return
        signal = StopSignal()
        self._running.append(signal)
        token = _given.set(signal)
        try:
            yield signal
        finally:
            _given.reset(token)
            self._running.remove(signal)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Have `stop`, `pause` and `close` know of a turn from the moment that its caller wants it."""
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
        """Return what a turn offers, with the tool that reads on in long results; None for no tools.

        Raises:
            ContentError: there is no such profile.
        """
        given = self.tools if tools is None else tools
        if given is None or isinstance(given, list | tuple):
            return None
        from tract_jupyter.toolkit import ToolConfig, Toolset, profile_of

        found = given
        if not isinstance(found, Toolset):
            found = Toolset(self._executor(), profile_of(given), actor=ACTOR)  # type: ignore[arg-type] # it checks
        if READ_ON in found.profile.tool_configs or found.has(READ_ON):
            return found
        configs = {**found.profile.tool_configs, READ_ON: ToolConfig()}
        return found.with_profile(replace(found.profile, tool_configs=configs))

    def turn(self, asked: TurnRequest, request: Callable[[Offer], ChatResponse]) -> ChatResponse:
        """Carry a turn out, from its beginning or from where it was left.

        Args:
            asked: how.
            request: makes one request with an offer, commits the reply and returns it.

        Raises:
            StoppedEarlyError: it was stopped before there was any reply.
            ContentError: a limit cannot hold, or there is no such profile.
            TractError: a request failed; what was stored until then counts, and the next turn goes on from there.
        """
        toolset = self.toolset(asked.tools)
        meter = TurnMeter(asked.limits or self.limits, self.price)
        with self.signal() as stop:
            kept = (self._store, meter, stop, request, asked.on_delta, self.ask)
            if toolset is None:
                return StoredTurn(*kept).run()
            from tract_jupyter.loop.acting import ActingTurn
            from tract_jupyter.loop.calls import Machinery
            from tract_jupyter.loop.offered import OfferedTools

            offered = OfferedTools.of(self._store.repository, toolset, is_anew=self._is_anew)
            answers = self._answers()
            machinery = Machinery(
                toolset, self._review.reviewer, self._review.gate.catch_up, answers.journal, meter, stop, offered,
                self._asked, self.carry_out, self.parallel,
            )  # fmt: skip
            sizes = (self.result_size, self.step_size)
            response = ActingTurn(*kept, machinery=machinery, answers=answers, sizes=sizes).run()
            self._is_anew = False
            return response

    def last_response(self) -> ChatResponse | None:
        """Return the reply that the current branch ends with, if it calls nothing that is open: its turn is over."""
        return self._store.last_reply()

    def before_saying(self, asked: TurnRequest, text: str) -> None:
        """Make ready for something new that the user says.

        Calls that wait for a decision are answered. A model that is to write scripts is told once how, before the first
        thing that is said; the text stays as it is for the rest of the conversation, and so does what providers cache.
        What has become of the tools since is told too, as their list stays.

        Args:
            asked: how the turn is carried out.
            text: what the user says.
        """
        self._close_open_calls()
        toolset = self.toolset(asked.tools)
        if toolset is None:
            return
        self._tell_news(toolset)
        if toolset.profile.callable_from_code is None:
            return
        name = toolset.profile.name
        if not self._store.is_told(INSTRUCTIONS, name):
            self._store.tell(self._instructions(toolset.profile, text), {INSTRUCTIONS: name})

    def _tell_news(self, toolset: Toolset) -> None:
        from tract_jupyter.loop.offered import OfferedTools

        news = OfferedTools.of(self._store.repository, toolset, is_anew=self._is_anew).news
        if news is not None:
            self._store.tell(*news)

    def _close_open_calls(self) -> None:
        _, calls = self._store.open_step()
        if not calls:
            return
        from tract_jupyter.prompts import WENT_ON

        for call in calls:
            question = self._asked.pop(call.id, None)
            if question is not None and question.status.is_open:
                question.reject(WENT_ON)
        self._answers().answer_all(calls, WENT_ON)
