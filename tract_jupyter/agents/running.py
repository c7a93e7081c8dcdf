"""Run a call of an agent: a separate conversation with the granted tools and a budget.

A call is an ordinary turn of the tool loop in a separate tract. The agent has its caller's tools, without the tools
that it was not granted. Its requests for approval go through the tract's usual gate.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.agents.definition import UNKNOWN_USE, used_text
from tract_jupyter.agents.outside_call import CONTINUE, GrantedTools, OutsideBudget
from tract_jupyter.agents.registry import Agent, AgentCall, AgentState, CallState, conversation_id
from tract_jupyter.agents.rights import (
    NAMESPACE,
    allowed_tools,
    granted_profile,
    profile_for,
    tools_of,
    toolsets_of,
)
from tract_jupyter.exceptions import AgentError, BranchExistsError, CassetteError, TractError
from tract_jupyter.loop import StoppedEarlyError, TurnMeter, reserve
from tract_jupyter.models import Allowance, TurnOutcome
from tract_jupyter.review import this_cell, this_process
from tract_jupyter.toolkit import Toolset, agent_actor, call_context, changed_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.agents.agents import Agents
    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.loop import Meter, Reservation
    from tract_jupyter.models import ChatResponse
    from tract_jupyter.toolkit import ToolProfile

_PATIENCE: Final = 5.0
_CHATS_OWN: Final = re.compile("(?:;|, and) chat\\(None\\)")
"""The part of a note that explains how to resume a chat. Agent calls resume in a different way."""
_STATES: Final = {
    TurnOutcome.ANSWER: CallState.DONE,
    TurnOutcome.WAITING: CallState.WAITING,
    TurnOutcome.STOPPED: CallState.STOPPED,
}


@dataclass(frozen=True)
class RunningAgent:
    """A running agent. Its tools are the upper limit for the agents that it calls.

    Attributes:
        call: the current call.
        agent: the agent.
        own: the agent's tract.
        profile: the tools that it may call.
        above: the agent that called it, or None.
        meters: the meters that count its usage.
    """

    call: AgentCall
    agent: Agent
    own: Any
    profile: ToolProfile
    above: RunningAgent | None
    meters: tuple[Meter, ...]


class AgentCaller:
    """The current caller or creator of an agent: the user, a chat's model, or an agent."""

    def __init__(self, tract: Any) -> None:
        context = call_context()
        self.running: RunningAgent | None = context.agent
        self.profile = context.profile if self.running is None else self.running.profile
        self._top = tract
        self._executor = context.executor or tract.executor
        notes = context.notes
        self.meter: TurnMeter | None = None if notes is None else notes.meter
        self.stop = None if notes is None else notes.stop
        self.is_again = notes is not None and notes.is_again
        self.among = 1 if notes is None else notes.among

    @property
    def tract(self) -> Any:
        """The tract whose tools the caller uses: the agents' tract, or a tract spawned from it."""
        return self._executor.tract if self.running is None else self.running.own

    @property
    def through(self) -> str:
        """The tract below the agents' tract from which the caller calls. Empty for the agents' tract itself."""
        if self.running is not None:
            return self.running.call.through
        return "" if self._executor is self._top.executor else str(self._executor.tract.family.agent_id)

    def come_through(self, call: AgentCall) -> None:
        """Call with the tools of the tract from which a call came. Its locks and its grant apply to the call."""
        if self.running is None and call.through and self._executor is self._top.executor:
            self._executor = self._top.session.get_tract(call.through).executor

    @property
    def depth(self) -> int:
        """The number of agents in the chain that ends with the caller. 0 for the user or the chat."""
        return 0 if self.running is None else self.running.call.depth

    @property
    def chain(self) -> tuple[str, ...]:
        """The names of the agents in this chain."""
        return () if self.running is None else self.running.call.chain

    @property
    def allowed(self) -> frozenset[str]:
        """The names of the tools that the caller may call."""
        names = allowed_tools(self._executor, self.profile)
        return names if self._executor is self._top.executor else names & self._top.executor.tools().keys()

    @property
    def making(self) -> dict[str, str]:
        """The known origin of a change made now: the `model` that writes it, and the running `cell`."""
        notes = call_context().notes
        known = {"model": "" if notes is None else notes.model, "cell": this_cell()}
        return {name: str(value) for name, value in known.items() if value}

    def actor_of(self, agent: Agent) -> str:
        """Return the actor for the tool calls of an agent that this caller calls."""
        return agent_actor(
            self._executor.agent if self.running is None else self.running.call.actor, agent.id
        )

    @property
    def name(self) -> str:
        """The caller in words."""
        return "you" if self.running is None else f"the agent {self.running.agent.name!r}"


class CallRunner:
    """Runs calls of agents."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._under_way = 0
        self._ended = threading.Condition()

    def wait(self) -> None:
        """Wait at most five seconds until all calls have ended and are stored. Within a call, return immediately."""
        if call_context().agent is None:
            with self._ended:
                self._ended.wait_for(lambda: not self._under_way, _PATIENCE)

    def call(self, agent: Agent, text: str, attachments: Sequence[str], caller: AgentCaller) -> AgentCall:
        """Call an agent and return the finished call.

        Raises:
            AgentError: the agent cannot be called now. Nothing starts.
            AttachmentError: a file cannot be attached. Nothing starts.
        """
        self._check(agent, caller)
        names = self._names(agent, caller, caller.depth + 1)
        self._agents.maker.check_runtime(agent.definition, caller)
        if attachments:  # an invalid attachment prevents the start
            self._check_attachments(attachments, caller)
        reserved = self._reserve(agent, caller)
        call = AgentCall(
            agent.name, 0, conversation_id(self._agents.whose, agent.name), caller.actor_of(agent),
            caller.depth + 1, text, reserved.limits, agent.hash, agent.definition.task_hash,
            (*caller.chain, agent.name), self._agents.session, tuple(attachments), through=caller.through,
        )  # fmt: skip
        with self._settled(call, reserved, caller.running):
            self._begin(agent, call, caller, names)
            self._carry_out(agent, call, caller, names, text, reserved.meters)
        return call

    def resume(self, agent: Agent, call: AgentCall, caller: AgentCaller) -> AgentCall:
        """Resume an open call. Finished tool calls do not run again, and their usage still counts."""
        caller.come_through(call)
        names = self._names(agent, caller, call.depth)
        self._agents.maker.check_runtime(agent.definition, caller)
        reserved = self._reserve(agent, caller)
        call.state, call.ended, call.note, call.limits = CallState.RUNNING, None, "", reserved.limits
        call.process = this_process()
        with self._settled(call, reserved, caller.running):
            if call.own is None:
                self._open(agent, call, caller, names)
            else:  # it waited for a decision, and its tract holds the pending call
                call.own.executor.granted = granted_profile(profile_for(agent.definition, names))
            self._agents.records.save_call(call)
            has_input = any(message.role == "user" for message in call.own.compile().messages)
            self._carry_out(agent, call, caller, names, None if has_input else call.input, reserved.meters)
        return call

    def usage_before(self, call: AgentCall) -> dict[str, float]:
        """Return the usage of a call whose process ended before it saved the usage.

        The usage comes from the stored conversation, plus the usage of the agents that it called. The time is unknown.
        """
        tract = self._agents.tract.beside(
            call.tract_id, call.branch, f"Conversations of the agent {call.agent}"
        )
        try:
            meter = TurnMeter(Allowance(), self._agents.tract.loop.price)
            counted = {info.commit_hash: info.token_count for info in tract.log(None)}
            entries = [one for turn in tract.loop.turns() for one in turn.messages]
        finally:
            tract.close()
        for one in entries:
            if one.message.role == "assistant":
                model, usage = (
                    str(one.message.generation_config.get("model") or ""),
                    one.metadata.get("usage"),
                )
                meter.add_request(model, usage, counted.get(one.message.commit_hash, 0))
        meter.add_calls(sum(one.message.role == "tool" for one in entries))
        totals = {name: float(getattr(meter, name)) for name in ("steps", "calls", "tokens", "usd")}
        for one in self._agents.records.calls():
            if one.chain[:-1] == call.chain and one.session == call.session and one.began >= call.began:
                below = self.usage_before(one) if one.state is CallState.LEFT else one.used
                totals = {name: number + below.get(name, 0) for name, number in totals.items()}
        return totals

    @contextmanager
    def _settled(self, call: AgentCall, reserved: Reservation, above: RunningAgent | None) -> Iterator[None]:
        """Charge the usage of a call and store its result, however the call ends."""
        with self._ended:
            self._under_way += 1
        try:
            yield
        finally:
            try:
                self._settle(call, reserved, above)
            finally:
                with self._ended:
                    self._under_way -= 1
                    self._ended.notify_all()

    def _settle(self, call: AgentCall, reserved: Reservation, above: RunningAgent | None) -> None:
        late = []
        with self._ended:
            used = {} if call.meter is None else call.meter.used
            unpriced = "" if call.meter is None else call.meter.unpriced
            call.meter, call.used = None, _sum(call.used, used)
            reserved.settle(used, unpriced)
            # calls and time were charged as they happened; charge the rest to callers that already ended after a stop
            more: dict[str, float] = {name: used[name] for name in ("steps", "tokens", "usd") if name in used}
            while above is not None and above.call.meter is None:
                above.call.used = _sum(above.call.used, more)
                for meter in above.meters:
                    meter.charge(more, unpriced)
                late.append(above.call)
                above = above.above
        self._end(call)
        for late_call in late:
            self._agents.records.save_call(late_call)

    # ---

    def _check(self, agent: Agent, caller: AgentCaller) -> None:
        if agent.state is not AgentState.ACTIVE:
            raise AgentError(
                "retired",
                f"the agent {agent.name!r} is retired; only its earlier calls can be read",
                self._agents.names,
            )
        if agent.name in caller.chain:
            chain = " → ".join((*caller.chain, agent.name))
            raise AgentError("circle", f"an agent cannot call itself, not even through others: {chain}")
        most = self._agents.limits.depth
        if caller.depth >= most:
            raise AgentError(
                "limit",
                f"the depth limit of agent calls is {most}, and {caller.name} is at depth {caller.depth}",
            )
        agent.check_file()

    def _names(self, agent: Agent, caller: AgentCaller, depth: int) -> frozenset[str]:
        """Return the agent's tools for this caller, in a call at a depth."""
        executor = self._agents.executor
        there = executor.tools()
        names = frozenset(name for name in tools_of(agent.definition, toolsets_of(executor)) if name in there)
        more = sorted(names - caller.allowed)
        if more:
            raise AgentError(
                "rights",
                f"the agent {agent.name!r} can call {', '.join(map(repr, more[:10]))}, but {caller.name} cannot: "
                "calling an agent never adds rights. Call an agent that has no more tools than you",
            )
        # include retired creators: retirement does not restore lost rights
        for maker in (one for one in self._agents if one.name in agent.maker):
            lost = sorted(names - self._agents.granted(maker.definition))
            if lost:
                raise AgentError(
                    "rights",
                    f"the agent {agent.name!r} can call {', '.join(map(repr, lost[:10]))}, but its creator "
                    f"{maker.name!r} no longer can; update the agent with fewer tools",
                )
        if depth >= self._agents.limits.depth:
            names = frozenset(name for name in names if not name.startswith(f"{NAMESPACE}."))
            names -= {"agent_create", "agent_call"}
        elif self._agents.is_full:
            names -= {"agent_create"}
        return names

    def _check_attachments(self, attachments: Sequence[str], caller: AgentCaller) -> None:
        """Check that the files can be attached. An agent can pass on only its own attachments."""
        if caller.running is not None:
            more = [name for name in attachments if name not in caller.running.call.attachments]
            if more:
                raise AgentError(
                    "rights",
                    f"{caller.name} has no attachment {', '.join(map(repr, more[:5]))}. An agent can pass on only its "
                    "own attachments, with exactly the same names",
                    caller.running.call.attachments,
                )
        caller.tract.workspace.read(*attachments)

    def _meters(self, agent: Agent, caller: AgentCaller) -> tuple[Meter, ...]:
        meters = [self._agents.meter_of(agent)]
        if caller.meter is not None:
            meters.append(caller.meter)
        if caller.running is None:  # nested calls count against the first agent's reservation
            meters.append(self._agents.meter)
        return tuple(meters)

    def _reserve(self, agent: Agent, caller: AgentCaller) -> Reservation:
        """Reserve the budget of a call."""
        reserved = reserve(self._meters(agent, caller), caller.among)
        unknown_use = [name for name in UNKNOWN_USE if getattr(reserved.limits, name) is not None]
        if agent.definition.runtime is not None and unknown_use:
            reserved.settle({}, "")
            raise AgentError(
                "limit",
                f"a limit of {' and '.join(unknown_use)} applies to this call, and the use of an outside agent is not "
                "known, so it was not started. Remove this limit, or use an agent with a model",
            )
        return reserved

    def _begin(self, agent: Agent, call: AgentCall, caller: AgentCaller, names: frozenset[str]) -> None:
        """Create the branch of a call with the instructions as its first commit, and store the call. This is atomic."""
        content = {"content_type": "instruction", "text": agent.definition.instructions}
        number = agent.calls[-1].number if agent.calls else self._stored_calls(call)
        while call.own is None:
            number += 1
            call.number = number
            about = {"agent": agent.name, "hash": agent.hash, "actor": call.actor, "call": number}
            try:
                with self._agents.records.together():
                    tract = self._open(agent, call, caller, names, is_new=True)
                    tract.commit(content, metadata={"agent_call": about})
                    self._agents.records.save_call(call)
            except BranchExistsError:  # another process created the branch first
                number = max(number, self._stored_calls(call))
        agent.calls.append(call)

    def _stored_calls(self, call: AgentCall) -> int:
        """Return the number of stored calls of an agent."""
        return sum(name.startswith("call-") for name in self._agents.tract.branches_beside(call.tract_id))

    def _open(
        self,
        agent: Agent,
        call: AgentCall,
        caller: AgentCaller,
        names: frozenset[str],
        *,
        is_new: bool = False,
    ) -> Any:
        granted = granted_profile(profile_for(agent.definition, names))
        call.own = caller.tract.beside(
            call.tract_id, call.branch, f"Conversations of the agent {agent.name}", is_new=is_new, granted=granted,
            actor=call.actor,
        )  # fmt: skip
        return call.own

    def _carry_out(
        self, agent: Agent, call: AgentCall, caller: AgentCaller, names: frozenset[str], text: str | None,
        meters: tuple[Meter, ...],
    ) -> None:  # fmt: skip
        tract, profile = call.own, profile_for(agent.definition, names)
        stop: StopSignal | None = None
        budget: OutsideBudget | None = None
        try:
            above = caller.tract.loop
            tract.loop.price, tract.loop.whole = above.price, True
            tract.loop.images, tract.loop.redact = above.images, above.redact
            meter = call.meter = TurnMeter(
                call.limits, tract.loop.price, agent=agent.name, caller=caller.meter
            )
            tract.loop.make_meter = lambda _limits, _price: meter
            self._choose_model(agent, tract)
            # needed even without tools: it answers tool calls that the model invents
            toolset = Toolset(tract.executor, profile, actor=call.actor, permission=call_context().level)
            with (
                changed_context(agent=RunningAgent(call, agent, tract, profile, caller.running, meters)),
                tract.loop.signal() as stop,  # before `stops_with`, because an earlier stop counts
                self._agents.stops_with(call, caller),
            ):
                if agent.definition.runtime is None:
                    response = self._chat(tract, text, call, toolset)
                else:
                    budget = OutsideBudget(meter, stop, partial(self._agents.notify_turn, call))
                    with self._granting(tract, toolset, budget):
                        response = budget.run(tract, agent.definition.runtime, text or CONTINUE, call)
                self._note(call, response)
        except StoppedEarlyError as early:
            self._note(call, early.response)
        except CassetteError as error:  # the whole replay failed
            call.state, call.note = CallState.FAILED, str(error)
            raise
        except TractError as error:
            call.state, call.note = CallState.FAILED, str(error)
        except Exception as error:  # noqa: BLE001 # a model may be any function
            call.state, call.note = CallState.FAILED, f"{type(error).__name__}: {error}"
        except BaseException as error:
            call.state, call.note = CallState.STOPPED, f"stopped by {type(error).__name__}"
            raise
        if budget is not None and budget.why:
            call.state, call.note = CallState.FAILED, budget.why
        elif stop is not None and stop.is_set():
            _end_stopped(call)

    @contextmanager
    def _granting(self, tract: Any, toolset: Toolset, budget: OutsideBudget) -> Iterator[None]:
        """Offer the granted tools to the outside agent of a call, if there are any."""
        if not toolset.tools():
            yield
            return
        tools = GrantedTools(self._agents.tract, toolset, budget)
        tract.outside.server = tools.start
        try:
            yield
        finally:
            tools.stop()

    def _chat(self, tract: Any, text: str | None, call: AgentCall, toolset: Toolset) -> ChatResponse:
        options: dict[str, Any] = {}
        if text is not None and call.attachments:
            options["attachments"] = list(call.attachments)
        if self._agents.on_turn or self._agents.on_change:  # no cost without listeners
            options["on_turn"] = partial(self._agents.notify_turn, call)
        response: ChatResponse = tract.chat(text, tools=toolset, limits=call.limits, **options)
        return response

    def _choose_model(self, agent: Agent, tract: Any) -> None:
        """Select the model that the agent's definition names, if any."""
        definition = agent.definition
        if definition.model is not None:
            self._agents.maker.check_model(definition)
            tract.models.use(self._agents.connection(definition.model), operation="chat")
        elif definition.compatible_models:
            connection = tract.models.connection("chat")
            name = "" if connection is None else connection.asked().shown
            if not any(fnmatchcase(name, pattern) for pattern in definition.compatible_models):
                raise AgentError(
                    "unknown_model",
                    f"the agent {agent.name!r} works only with {', '.join(definition.compatible_models)}, and the "
                    f"current model is {name or 'none'}",
                    definition.compatible_models,
                )

    def _note(self, call: AgentCall, response: ChatResponse) -> None:
        call.state = _STATES.get(response.outcome, CallState.FAILED)
        call.note, call.answer = _CHATS_OWN.split(response.note)[0], response.text

    def _end(self, call: AgentCall) -> None:
        """Store the result of a call. The tract of a waiting call stays open, because it holds the pending request."""
        if call.state is CallState.RUNNING:  # it ended before it began, or in an unexpected way
            call.state = CallState.FAILED
        call.ended = datetime.now(UTC)
        try:
            if call.number:
                self._agents.records.save_call(call)
        finally:
            tract = call.own
            if tract is not None and call.state is not CallState.WAITING:
                call.own = None
                tract.close()
        self._agents.changed()


def _end_stopped(call: AgentCall) -> None:
    """Set a stopped call's state to STOPPED, even if its model could not be interrupted and finished normally."""
    if call.state is CallState.DONE:
        call.note = "its reply could not be interrupted, and is saved"
    elif call.state is CallState.FAILED:
        call.note = f"after that: {call.note}"
    if call.state is not CallState.WAITING:
        call.state = CallState.STOPPED


def _sum(used: dict[str, float], more: dict[str, float]) -> dict[str, float]:
    return {**used, **{name: used.get(name, 0) + number for name, number in more.items()}}


def outcome_of(call: AgentCall) -> dict[str, Any]:
    """Return the result for the caller."""
    used = used_text(call.used)
    if call.state is CallState.DONE:
        return {"agent": call.agent, "answer": call.answer, "call": call.branch, "used": used}
    how = f"with tract.agents.resume({call.agent!r})"
    if call.state is CallState.WAITING:
        how = f"after the open decision in '%tract inbox', {how}"
    so_far = f" Its text so far: {call.answer[:500]}" if call.answer else ""
    raise AgentError(
        call.state.value,
        f"the agent {call.agent!r} ({call.branch}) gave no answer, {call.state.value}: "
        f"{call.note or 'its reply has no text'}. It used "
        f"{used}. The user can resume it {how}.{so_far}",
    )
