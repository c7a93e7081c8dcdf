"""`Tract.agents`: agents that the user or a model creates, calls and improves while the notebook runs.

An agent is data: instructions, the tools that it may call, and its budget. A model creates agents with the tools of the
toolset `dynamic_agents`. The user calls the same tools as functions. The user approves each agent that a model creates.
An agent belongs to the session that created it, unless the user adopts its file.
"""

from __future__ import annotations

import secrets
import threading
import warnings
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.agents.definition import (
    AgentDefinition,
    TreeLimits,
    budget_data,
    check_name,
    key_of,
    listed_names,
    unknown,
)
from tract_jupyter.agents.file import AgentFolder, read_file
from tract_jupyter.agents.making import AgentMaker
from tract_jupyter.agents.registry import Agent, AgentCall, AgentRecords, AgentState, CallState
from tract_jupyter.agents.rights import tools_of, toolsets_of
from tract_jupyter.agents.running import AgentCaller, CallRunner, outcome_of
from tract_jupyter.exceptions import AgentError, CodeDecisionError, LLMConfigError, ToolExecutionError
from tract_jupyter.loop import Meter
from tract_jupyter.models import brief_repr, repr_of_whole
from tract_jupyter.toolkit import runs_for_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tract_jupyter.llm import ModelConnection
    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.models import Allowance, CollapseResult
    from tract_jupyter.review import Settings
    from tract_jupyter.toolkit import ToolExecutor

_FOLDER: Final = ".agents"


class Agents:
    """The agents of one tract. This class is thread-safe.

    Args:
        tract: the tract. Its agents share its tools, models and requests.
        settings: store of the signed agent records.
        whose: the tract's name within its session.
        store: the folder of the store. None if the store is in memory or in a different place.

    Attributes:
        on_change: callbacks for each change of an agent or a call. They run on any thread.
        on_turn: callbacks for each event in an agent's conversation. They receive the call and the event.
        maker: creates and changes agents, for the tools and for `adopt`.
        lock: lock around the creation or change of an agent.
    """

    def __init__(self, tract: Any, settings: Settings, whose: str, store: Path | None) -> None:
        self.tract = tract
        self.whose = whose
        self.records = AgentRecords(settings)
        self.on_change: list[Callable[[], object]] = []
        self.on_turn: list[Callable[[AgentCall, TurnEvent], object]] = []
        self._limits = TreeLimits()
        self.meter = Meter(self._limits.budget, "all agents together", is_shared=True)
        self._models: tuple[str, ...] | None = None
        self.session = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        self._folder = AgentFolder(store, self.session)
        self._agents: dict[str, Agent] = {}
        self._past: dict[str, Agent] = {}
        self._runner = CallRunner(self)
        self.maker = AgentMaker(self, self._folder)
        self.lock = threading.RLock()
        self.revision = 0
        self.edition = 0
        """Number of creations, changes and retirements."""
        for agent in self.records.agents():
            if agent.is_adopted:
                self._agents[key_of(agent.name)] = agent

    @repr_of_whole
    def __repr__(self) -> str:
        active = [agent for agent in self if agent.state is AgentState.ACTIVE]
        names = (f"{agent.name} (blocked)" if agent.why_blocked else agent.name for agent in active)
        return f"<Agents: {', '.join(names) or 'none'}>"

    def __iter__(self) -> Iterator[Agent]:
        with self.lock:
            return iter(list(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    # --- settings of the user

    @property
    def limits(self) -> TreeLimits:
        """The limits for all agents together: `t.agents.limits = TreeLimits(depth=2, count=5)`."""
        return self._limits

    @limits.setter
    def limits(self, limits: TreeLimits) -> None:
        """Set the limits."""
        self.check_user("set the limits of agents")
        if not isinstance(limits, TreeLimits):
            raise AgentError(
                "bad_limit",
                f"limits must be a TreeLimits, such as TreeLimits(depth=2), not {brief_repr(limits)}",
            )
        self._limits = limits
        self.meter.limits = limits.budget
        for agent in self:
            if agent.meter is not None and agent.definition.budget is None:
                agent.meter.limits = limits.agent

    @property
    def models(self) -> tuple[str, ...]:
        """The names from `t.models` that an agent may use. By default, all names that the user added there."""
        return tuple(self.tract.models) if self._models is None else self._models

    @models.setter
    def models(self, names: Iterable[str] | None) -> None:
        """Set the menu of models. None allows all models in `t.models`."""
        self.check_user("choose the models of agents")
        allowed = None if names is None else tuple(names)
        strange = [name for name in allowed or () if name not in self.tract.models]
        if strange:
            raise AgentError(
                "unknown_model",
                f"tract.models has no {', '.join(map(repr, strange))}; add a model with tract.models.add(NAME, ...)",
            )
        self._models = allowed

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The names of the outside agents that an agent can run on; see `t.outside`."""
        return tuple(self.tract.outside.known)

    @property
    def directory(self) -> Path:
        """The folder for agents' files, with one subfolder per session. Assign a path to change it.

        The default is next to the store. For a store in memory, it is a temporary folder, deleted with the tract.
        """
        return self._folder.parent

    @directory.setter
    def directory(self, directory: str | Path | None) -> None:
        """Set the folder for the files of new agents. None means the default."""
        self.check_user("choose the folder of agent files")
        self._folder.move(None if directory is None else Path(directory))

    @property
    def toolsets(self) -> dict[str, frozenset[str]]:
        """The toolsets that a definition can name, each with the names of its tools."""
        return toolsets_of(self.executor)

    # --- creating and changing; models use the tools with the same names

    def create(
        self,
        name: str,
        instructions: str,
        description: str,
        model: str | None = None,
        tools: Sequence[str] = (),
        toolsets: Sequence[str] = (),
        budget: Allowance | dict[str, Any] | None = None,
        runtime: str | None = None,
    ) -> Agent:
        """Create an agent for this session. Runs the tool `agent_create`.

        Args:
            name: 1 to 64 letters, digits, `_` and `-`, starting with a letter. It must be unique, ignoring case.
            instructions: the first message to the agent's model.
            description: purpose of the agent.
            model: one of `models`. None means the caller's model.
            tools: names of the tools that the agent may call.
            toolsets: sets of tools; see `toolsets`.
            budget: limit for all calls of the agent: `{"steps": 20, "usd": 0.5}`.
            runtime: an outside agent that does the work, one of `runtimes`. It has its own model and tools.
                `tools` and `toolsets` are offered to it as well.

        Raises:
            AgentError: the definition is invalid. No agent is created.
            ToolDeniedError: a model's script created the agent, and the user rejected it.
        """
        self._tool(
            "agent_create", name=name, instructions=instructions, description=description, model=model,
            tools=listed_names(tools), toolsets=listed_names(toolsets), budget=budget_data(budget), runtime=runtime,
        )  # fmt: skip
        return self.get(name)

    def call(self, agent: str, input: str, attachments: Sequence[str] = ()) -> str:  # noqa: A002 # the tool's name
        """Call an agent and return its answer. Runs the tool `agent_call`.

        Raises:
            AgentError: the call ended without an answer. The message says what it used and how to resume it.
        """
        done = self._tool("agent_call", agent=agent, input=input, attachments=listed_names(attachments))
        return str(done["answer"])

    def update(self, agent: str, **changes: Any) -> Agent:
        """Change an agent. This creates a new version of it. Runs the tool `agent_update`."""
        arguments = {
            name: budget_data(value) if name == "budget" else value for name, value in changes.items()
        }
        self._tool("agent_update", agent=agent, **arguments)
        return self.get(agent)

    def retire(self, agent: str) -> None:
        """Prevent further calls of an agent. Runs the tool `agent_retire`. Its earlier calls stay readable."""
        self._tool("agent_retire", agent=agent)

    def promote(self, agent: str, path: str | Path) -> Path:
        """Copy an agent's file to a place that outlives the session. Runs the tool `agent_promote`.

        Later sessions can call the agent after the user adopts the copy with `adopt`.
        """
        return Path(self._tool("agent_promote", agent=agent, path=str(path))["path"])

    def adopt(self, path: str | Path) -> Agent:
        """Adopt an agent's file in its current version. The agent can then be called, also in later sessions.

        Read the file first: this call approves it. If the file changes later, the agent is blocked until you adopt it
        again.

        Raises:
            AgentError: the file is not a valid `.agent` file, or it grants unknown tools.
            CodeDecisionError: code that runs for a model tries to adopt the file.
        """
        self.check_user("adopt an agent file")
        place = Path(path).expanduser().absolute()
        return self.maker.adopt(place, read_file(place))

    # --- reading

    @property
    def executor(self) -> ToolExecutor:
        """The executor of the tract."""
        executor: ToolExecutor = self.tract.executor
        return executor

    @property
    def names(self) -> list[str]:
        """The names of the active agents. They can be called, unless they are blocked (`Agent.why_blocked`)."""
        return sorted(agent.name for agent in self if agent.state is AgentState.ACTIVE)

    @property
    def is_full(self) -> bool:
        """True if the number of active agents is at its limit."""
        return len(self.names) >= self._limits.count

    def get(self, name: str) -> Agent:
        """Return an agent of this session, or an adopted agent.

        Raises:
            AgentError: no agent has exactly this name.
        """
        check_name(name)
        agent = self.find(name)
        if agent is None or agent.name != name:
            past = any(stored.name == name for stored in self.records.agents())
            earlier = (
                f". {name!r} was created in an earlier session. tract.agents.past() lists it, and "
                f"tract.agents.resume({name!r}) resumes its open call"
                if past and agent is None
                else ""
            )
            error = unknown("agent", [name], self.names, "unknown_agent")
            raise AgentError(error.code, f"{error}{earlier}", error.allowed)
        return agent

    def find(self, name: str) -> Agent | None:
        """Return the agent with a name, ignoring case and the agent's state. Return None if it does not exist."""
        with self.lock:
            return self._agents.get(key_of(name))

    def active(self, name: str) -> Agent | None:
        """Return the active agent with a name, or None."""
        agent = self.find(name)
        return agent if agent is not None and agent.state is AgentState.ACTIVE else None

    def past(self) -> list[Agent]:
        """Return the agents of earlier sessions with their stored calls. These agents cannot be called."""
        stored = self.records.agents(without={agent.storage_key for agent in self})
        earlier = [agent for agent in stored if agent.session != self.session]
        calls = self.records.calls() if earlier else []
        for agent in earlier:
            agent.state = AgentState.PAST if agent.state is AgentState.ACTIVE else agent.state
            agent.calls = [
                call for call in calls if (call.agent, call.session) == (agent.name, agent.session)
            ]
        return earlier

    def known(self, name: str) -> Agent | None:
        """Return the agent with exactly this name, also from an earlier session, or None."""
        with self.lock:
            agent = self._agents.get(key_of(name)) or self._past.get(key_of(name))
            if agent is None:
                versions = [stored for stored in self.records.agents() if stored.name == name]
                agent = max(versions, key=lambda stored: stored.session, default=None)
                if agent is not None:
                    self._past[key_of(name)] = agent
        return agent if agent is not None and agent.name == name else None

    def calls_of(self, agent: str | Agent) -> list[AgentCall]:
        """Return the calls of an agent, oldest first. Leave out calls of other agents that used the same name."""
        found = agent if isinstance(agent, Agent) else self.known(agent)
        if found is None:
            return []
        calls = list(found.calls)
        if found.session == self.session:
            return calls
        numbers = {call.number for call in calls}
        return [*(call for call in self.records.calls_of(found) if call.number not in numbers), *calls]

    def transcript(self, agent: str | Agent, call: int | None = None) -> Any:
        """Return the conversation of a call as a tract: `.compile()`, `.loop.turns()`. Close it after use."""
        selected = self._call(agent, call)
        return self.tract.beside(
            selected.tract_id, selected.branch, f"Conversations of the agent {selected.agent}"
        )

    def collapse(self, agent: str | Agent, call: int | None = None, **options: Any) -> CollapseResult:
        """Commit an agent's result to the tract.

        Args:
            agent: name of the agent, or an agent from `past`.
            call: number of the call; by default, the newest.
            options: options of `Session.collapse`. Without options, the result is the agent's answer.
        """
        selected = self._call(agent, call)
        session = self.tract.session
        child = session.get_tract(selected.conversation)
        arguments = options or {"content": selected.answer}
        result: CollapseResult = session.collapse(child, self.tract, **arguments)
        return result

    # --- resuming and stopping

    def resume(self, agent: str | Agent, call: int | None = None) -> str:
        """Resume a call that ended without an answer: after Stop, a limit, a missing decision or a process end.

        Only the user can resume a call. This also works for an agent of an earlier session, but only for this call.
        Finished tool calls do not run again, and their usage still counts.

        Args:
            agent: name of the agent. If a different agent has the name now, pass an agent from `past`.
            call: number of the call; by default, the newest open call.

        Returns:
            The answer.

        Raises:
            AgentError: no call is open, or the call ended without an answer.
            CodeDecisionError: code that runs for a model tries to resume the call.
        """
        return str(outcome_of(self.resume_call(agent, call, AgentCaller(self.tract)))["answer"])

    def resume_call(self, agent: str | Agent, number: int | None, caller: AgentCaller) -> AgentCall:
        """Resume a call; see `resume`. Only a repeated call resumes without the user."""
        if not caller.is_again:
            self.check_user("resume an agent call")
        name = agent.name if isinstance(agent, Agent) else agent
        open_calls = [
            call for call in self.calls_of(agent) if call.state.is_open and number in (None, call.number)
        ]
        if not open_calls:
            raise AgentError(
                "nothing_left", f"{name!r} has no open call; tract.agents.calls_of({name!r}) lists its calls"
            )
        call = open_calls[-1]
        if call.state is CallState.RUNNING:
            where = (
                f" in another process ({call.elsewhere}); stop it there" if call.elsewhere else "; stop it"
            )
            raise AgentError(
                "running", f"{call.branch} of {name!r} is running{where} with tract.agents.stop({name!r})"
            )
        current = agent if isinstance(agent, Agent) else self.known(name)
        if current is None or current.definition.task_hash != call.task_hash:
            raise AgentError(
                "file_changed",
                f"{name!r} changed after {call.branch}, so the call cannot be resumed; call the agent again",
            )
        if current.state is AgentState.RETIRED:
            raise AgentError(
                "retired", f"the agent {name!r} is retired; read its calls with tract.agents.transcript"
            )
        self._take_up(current, call)
        done = self._runner.resume(current, call, caller)
        if done.state is CallState.DONE and not caller.is_again:  # the first caller is gone
            done.is_unheard = True
            self.records.save_call(done)
        return done

    def _take_up(self, agent: Agent, call: AgentCall) -> None:
        """Add a call from an earlier session to an agent here. Charge the agent for its usage in that session."""
        is_there = call in agent.calls  # also in an agent of `past`, which has no meter yet
        if call.state is CallState.LEFT:
            call.used = self._runner.usage_before(call)
        is_charged = any(other.session == call.session for other in agent.calls)
        if agent.meter is None if is_there else not is_charged:
            meter = self.meter_of(agent)
            for other in self.records.calls(agent.name):
                if other.session == call.session:
                    meter.charge(call.used if other.number == call.number else self._used_by(other))
        if not is_there:
            agent.calls.append(call)

    def _used_by(self, call: AgentCall) -> dict[str, float]:
        return self._runner.usage_before(call) if call.state is CallState.LEFT else call.used

    def stop(self, agent: str | None = None) -> None:
        """Stop the calls of an agent and of all agents below it, or stop all calls. Works from any thread."""
        for call, tract in self._under_way():
            if agent is None or agent in call.chain:
                tract.loop.stop()

    def close(self) -> None:
        """Stop all calls and close their resources."""
        for _, tract in self._under_way():
            tract.loop.close()
        self._runner.wait()
        for agent in [*self, *self._past.values()]:
            for call in agent.calls:
                tract, call.own = call.own, None
                if tract is not None:
                    tract.close()
        self._folder.close()

    # --- for the tools

    def call_for(self, caller: AgentCaller, name: str, text: str, attachments: Sequence[str]) -> AgentCall:
        """Call an agent. If the caller repeats a call after its process ended, resume the first attempt."""
        if not text.strip():
            raise AgentError("no_input", f"the input for {name!r} is empty; describe the task")
        if caller.is_again:
            of = (text, (*caller.chain, name))
            same = [call for call in self.calls_of(name) if (call.input, call.chain) == of]
            unfinished = next(
                (call for call in reversed(same) if call.state.is_open or call.is_unheard), None
            )
            if unfinished is not None and unfinished.state.is_open:
                return self.resume_call(name, unfinished.number, caller)
            if unfinished is not None:  # the user resumed it, and it finished
                unfinished.is_unheard = False
                self.records.save_call(unfinished)
                return unfinished
        return self._runner.call(self.get(name), text, attachments, caller)

    def check_user(self, action: str) -> None:
        """Check that the user does this, in a cell that the user runs."""
        if runs_for_model(self.executor):
            raise CodeDecisionError(f"only the user can {action}; code that runs for a model cannot")

    def save(self, agent: Agent, what: str, actor: str) -> None:
        """Store the record of an agent after an action on it.

        Raises:
            StoreError: the record cannot be stored.
            TrustError: the record cannot be signed.
        """
        self.records.save(agent, what, actor)
        self._agents[key_of(agent.name)] = agent
        self.edition += 1
        self.changed()

    def connection(self, name: str) -> ModelConnection:
        """Return the model with a name from the menu.

        Raises:
            AgentError: the model is unknown.
        """
        try:
            return self.tract.models[name]  # type: ignore[no-any-return] # a `Models`
        except (KeyError, LLMConfigError):
            raise unknown("model", [name], self.models, "unknown_model") from None

    def meter_of(self, agent: Agent) -> Meter:
        """Return the meter for all calls of an agent."""
        with self.lock:
            if agent.meter is None:
                agent.meter = Meter(
                    agent.definition.budget or self._limits.agent, f"the agent {agent.name!r}"
                )
            return agent.meter

    def granted(self, definition: AgentDefinition) -> frozenset[str]:
        """Return the names of the tools that a definition grants."""
        return tools_of(definition, self.toolsets)

    @contextmanager
    def stops_with(self, call: AgentCall, caller: AgentCaller) -> Iterator[None]:
        """Stop a call when the turn that made it stops."""
        self.changed()
        forget = None if caller.stop is None else caller.stop.on_set(call.own.loop.stop)
        try:
            yield
        finally:
            if forget is not None:
                forget()

    def notify_turn(self, call: AgentCall, event: TurnEvent) -> None:
        """Notify the listeners of an event in an agent's conversation."""
        self._notify(self.on_turn, call, event)
        self.changed()

    def changed(self) -> None:
        """Notify the listeners of a change."""
        self.revision += 1
        self._notify(self.on_change)

    # ---

    def _notify(self, listeners: list[Any], *arguments: Any) -> None:
        """Call the listeners. A listener that raises an error is removed and does not affect the agents."""
        for listener in list(listeners):
            try:
                listener(*arguments)
            except Exception as error:  # noqa: BLE001 # a listener may raise any error
                with suppress(ValueError):
                    listeners.remove(listener)
                reason = f"it raised {type(error).__name__}: {error}"
                warnings.warn(
                    f"removed the listener {brief_repr(listener)} of agents, because {reason}",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def _tool(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool as the current actor: the user's cell, or a script that needs approval."""
        try:
            return getattr(self.tract.tools, tool)(**arguments)
        except ToolExecutionError as error:
            if isinstance(error.__cause__, AgentError):
                raise error.__cause__ from None
            raise

    def _call(self, agent: str | Agent, number: int | None) -> AgentCall:
        name = agent.name if isinstance(agent, Agent) else agent
        calls = [call for call in self.calls_of(agent) if number in (None, call.number)]
        if not calls:
            raise AgentError(
                "no_call",
                f"{name!r} has no calls yet" if number is None else f"{name!r} has no call {number}",
            )
        return calls[-1]

    def _under_way(self) -> list[tuple[AgentCall, Any]]:
        """Return the running calls, each with its tract."""
        calls = [call for agent in [*self, *self._past.values()] for call in list(agent.calls)]
        running = [(call, call.own) for call in calls if call.state is CallState.RUNNING]
        return [(call, tract) for call, tract in running if tract is not None]
