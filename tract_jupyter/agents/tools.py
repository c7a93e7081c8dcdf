"""The toolset `dynamic_agents` for models and the user: create, call, change, list, retire and promote agents."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import one_line
from tract_jupyter.toolkit import ToolDefinition, Traits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.agents.agents import Agents
    from tract_jupyter.agents.registry import Agent
    from tract_jupyter.agents.running import AgentCaller
    from tract_jupyter.toolkit import CallDetails

Budget = dict[str, Any]
_LONGEST_NAME: Final = 64
_TITLES: Final = {
    "agent_create": "Create agent",
    "agent_call": "Call agent",
    "agent_update": "Change agent",
    "agent_retire": "Retire agent",
    "agent_promote": "Promote agent",
}


def call_title(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a title for a call, such as `Create agent checker`. Return an empty string for any other tool."""
    named = arguments.get("name" if tool == "agent_create" else "agent")
    return f"{_TITLES[tool]} {one_line(str(named), _LONGEST_NAME)}" if tool in _TITLES and named else ""


def agent_tools(agents: Callable[[], Agents]) -> list[ToolDefinition]:
    """Return the tools that create and call agents."""
    tools = _Tools(agents)

    def details(what: str) -> Callable[[Mapping[str, Any], str], CallDetails]:
        return lambda values, actor: tools.details(what, values, actor)

    def checked(check: Callable[[Mapping[str, Any]], object]) -> Callable[[Mapping[str, Any], str], None]:
        def run(values: Mapping[str, Any], _actor: str) -> None:
            check(values)

        return run

    def built_in(function: Callable[..., Any], **options: Any) -> ToolDefinition:
        title = partial(call_title, function.__name__) if function.__name__ in _TITLES else None
        return ToolDefinition.built_in(function, title=title, told_actor=True, **options)

    return [
        built_in(
            tools.agent_create, needs_person=True, check=checked(tools.check_create), details=details("create"),
            remains="the agent stays; %tract agents retire NAME prevents further calls",
        ),
        built_in(
            tools.agent_call, asks_itself=True, traits=Traits(open_world=True),
            lane=lambda values: f"agent {str(values['agent']).casefold()}",
        ),
        built_in(
            tools.agent_update, needs_person=True, check=checked(tools.check_update), details=details("update"),
            binds=tools.version, remains="the agent keeps its new version",
        ),
        built_in(tools.agent_list, traits=Traits(read_only=True)),
        built_in(
            tools.agent_retire, check=checked(tools.check_retire), binds=tools.version,
            remains="the agent stays retired",
        ),
        built_in(
            tools.agent_promote, check=checked(tools.check_promote), details=details("promote"),
            binds=tools.version, remains="the file stays",
        ),
    ]  # fmt: skip


class AgentFunctions:
    """The active agents as tools `agents.<name>`. They are rebuilt only after an agent changes."""

    def __init__(self, agents: Callable[[], Agents | None]) -> None:
        self._agents = agents
        self._edition = -1
        self._versions: dict[str, ToolDefinition] = {}
        self._tools: dict[str, ToolDefinition] = {}

    def __call__(self) -> dict[str, ToolDefinition]:
        """Return all tools by name."""
        agents = self._agents()
        if agents is None:
            return self._tools
        edition = agents.edition
        if edition != self._edition:
            names, known = set(agents.names), self._versions
            active = {f"{agent.id}:{agent.hash}": agent for agent in agents if agent.name in names}
            self._versions = {
                version: known.get(version) or _function(agents, agent) for version, agent in active.items()
            }
            self._tools = {tool.name: tool for tool in self._versions.values()}
            self._edition = edition
        return self._tools


def _function(agents: Agents, agent: Agent) -> ToolDefinition:
    name = agent.name

    def call(actor: str, /, input: str, attachments: list[str] | None = None) -> Any:  # noqa: A002 # the tool's name
        return _answered(agents, actor, name, input, attachments)

    return replace(
        _any_agent(), name=f"agents.{name}", description=agent.definition.description or f"The agent {name}.",
        handler=call, owner=f"agent:{name}", version=agent.hash, lane=lambda _: f"agent {name.casefold()}",
        title=lambda _: f"Call agent {name}",
    )  # fmt: skip


@cache
def _any_agent() -> ToolDefinition:
    """Return the tool template for agents. All agents accept the same parameters."""

    def call(
        actor: str,
        /,
        input: Annotated[str, "The task, with all needed information."],  # noqa: A002 # the tool's name
        attachments: Annotated[list[str] | None, "Paths of files to attach."] = None,
    ) -> Any:
        raise NotImplementedError

    return ToolDefinition.from_function(
        call, name="agents.any", description="An agent.", owner="agent", told_actor=True, asks_itself=True,
        traits=Traits(open_world=True), namespace="agents",
    )  # fmt: skip


def _answered(agents: Agents, _actor: str, name: str, text: str, attachments: list[str] | None) -> Any:
    from tract_jupyter.agents.running import AgentCaller, outcome_of

    return outcome_of(agents.call_for(AgentCaller(agents.tract), name, text, attachments or []))


class _Tools:
    def __init__(self, agents: Callable[[], Agents]) -> None:
        self._agents = agents

    def agent_create(  # noqa: PLR0917 # the parameters of the tool
        self,
        actor: str,
        /,
        name: Annotated[str, "A new, exact name: letters, digits, _ and -, starting with a letter."],
        instructions: Annotated[str, "The agent's first message: its task, rules and answer format."],
        description: Annotated[str, "Its purpose in one sentence, for its callers."],
        model: Annotated[str | None, "A model from the host's menu. Default: your model."] = None,
        tools: Annotated[
            list[str] | None, "Names of tools that it may call, from the tools that you may call."
        ] = None,
        toolsets: Annotated[
            list[str] | None, "Sets of tools: 'self', 'code', 'dynamic_agents', or an MCP server."
        ] = None,
        budget: Annotated[
            Budget | None,
            "Limits for all its calls: {steps, calls, tokens, usd, seconds}. Each is optional.",
        ] = None,
        runtime: Annotated[
            str | None,
            "An outside agent that does the work with its own model and tools, such as 'claude'. It may call your "
            "tools only if you list them.",
        ] = None,
    ) -> Any:
        """Create an agent: a helper with its own instructions, tools and budget, for a part of the task.

        The user reads and approves it first. Its context is separate and starts empty. You can call it immediately,
        even in the same answer. Not for an agent that exists: agent_update.
        """
        definition = self._definition(
            name, instructions, description, model, tools, toolsets, budget, runtime
        )
        agent = self._agents().maker.make(self._caller, definition, actor)
        return {"agent": agent.name, "version": agent.hash[:8], "tool": f"agents.{agent.name}"}

    def agent_call(
        self,
        actor: str,
        /,
        agent: Annotated[str, "The agent's exact name."],
        input: Annotated[str, "The task, with all needed information: the agent sees nothing else."],  # noqa: A002
        attachments: Annotated[list[str] | None, "Paths of workspace files to attach."] = None,
    ) -> Any:
        """Give a task to an agent that exists, wait until it has finished, and get its answer.

        Several agents work side by side. An agent's tool calls need the same approvals as yours. Not to
        create an agent: agent_create.
        """
        return _answered(self._agents(), actor, agent, input, attachments)

    def agent_update(
        self,
        actor: str,
        /,
        agent: Annotated[str, "The agent's exact name."],
        instructions: Annotated[str | None, "The complete new instructions."] = None,
        description: Annotated[str | None, "The new description."] = None,
        model: Annotated[str | None, "A new model from the host's menu."] = None,
        tools: Annotated[list[str] | None, "The complete new list of tools."] = None,
        toolsets: Annotated[list[str] | None, "The complete new list of toolsets."] = None,
        budget: Annotated[Budget | None, "The new budget."] = None,
    ) -> Any:
        """Change an agent whose answers should be better: its instructions, tools, model or budget.

        Omitted values stay the same. The user approves the new version, and the old version's permissions end. Not for
        a new agent: agent_create.
        """
        agents = self._agents()
        current = agents.get(agent)
        changes = {
            "instructions": instructions, "description": description, "model": model, "tools": tools,
            "toolsets": toolsets, "budget": budget,
        }  # fmt: skip
        changed = agents.maker.change(self._caller, current, self._changed(current, changes), actor)
        return {"agent": changed.name, "version": changed.hash[:8], "number": changed.version}

    def agent_list(self, actor: str, /) -> Any:  # noqa: ARG002 # as the others
        """List which agents or helpers exist, each with its purpose, its tools and what is left of its budget.

        Not to give an agent a task: agent_call.
        """
        from tract_jupyter.agents.registry import AgentState

        agents, rows = self._agents(), []
        for agent in agents:
            meter, why = agents.meter_of(agent), agent.why_blocked
            remaining = {limit: meter.left(limit) for limit in meter.limits.to_dict()}
            state = {"state": "blocked", "why": why} if why else {"state": agent.state.value}
            rows.append(
                {
                    "agent": agent.name, "description": agent.definition.description, **state,
                    "calls": len(agent.calls), "tools": sorted(agents.granted(agent.definition)), "left": remaining,
                }
                if agent.state is AgentState.ACTIVE
                else {"agent": agent.name, **state, "calls": len(agent.calls)}
            )  # fmt: skip
        return rows

    def agent_retire(self, actor: str, /, agent: Annotated[str, "The agent's exact name."]) -> Any:
        """Remove an agent from use (retire it) when it is no longer needed. Its answers stay readable.

        It cannot be called then, and its name stays reserved. Not to change it: agent_update.
        """
        agents = self._agents()
        agents.maker.retire(self._caller, agents.get(agent), actor)
        return {"agent": agent, "state": "retired"}

    def agent_promote(
        self,
        actor: str,
        /,
        agent: Annotated[str, "The agent's exact name."],
        path: Annotated[str, "A new file in the workspace, such as agents/checker.agent."],
    ) -> Any:
        """Copy an agent to a file (promote it) to keep it after this session.

        Later sessions can use it after the user adopts the file. Not to improve the agent: agent_update.
        """
        agents = self._agents()
        target = agents.maker.promote(self._caller, agents.get(agent), Path(path), actor)
        return {"agent": agent, "path": str(target), "next": "the user adopts it: tract.agents.adopt(path)"}

    # --- checks before the user decides

    def version(self, values: Mapping[str, Any]) -> str:
        """Return the hash of the agent's version for a call. Return an empty string if the agent does not exist."""
        with suppress(AgentError):
            return self._agents().get(values["agent"]).hash
        return ""

    def check_create(self, values: Mapping[str, Any]) -> None:
        """Check that the agent can be created."""
        self._agents().maker.check_new(self._definition(**values), self._caller)

    def check_update(self, values: Mapping[str, Any]) -> None:
        """Check that the agent can be changed."""
        agents = self._agents()
        current = agents.get(values["agent"])
        agents.maker.check_changed(current, self._changed(current, _without(values, "agent")), self._caller)

    def check_retire(self, values: Mapping[str, Any]) -> None:
        """Check that the agent can be retired."""
        agents = self._agents()
        agents.maker.check_owned(agents.get(values["agent"]), self._caller, "retire")

    def check_promote(self, values: Mapping[str, Any]) -> None:
        """Check that the agent can be promoted."""
        from tract_jupyter.agents.file import new_file

        agents = self._agents()
        current = agents.get(values["agent"])
        agents.maker.check_promoted(current, self._caller)
        new_file(Path(values["path"]), agents.tract.workspace.roots)

    def details(self, what: str, values: Mapping[str, Any], actor: str) -> CallDetails:
        """Return the details that the user reviews, in addition to the values of a call."""
        from tract_jupyter.agents.details import details_of

        agents = self._agents()
        if what == "create":
            return details_of(agents, self._definition(**values), None, actor)
        current = agents.get(values["agent"])
        if what == "promote":
            return details_of(agents, current.definition, current, actor)
        return details_of(agents, self._changed(current, _without(values, "agent")), current, actor)

    # ---

    @property
    def _caller(self) -> AgentCaller:
        from tract_jupyter.agents.running import AgentCaller

        return AgentCaller(self._agents().tract)

    def _definition(
        self, name: str, instructions: str, description: str, model: str | None, tools: list[str] | None,
        toolsets: list[str] | None, budget: Budget | None, runtime: str | None = None,
    ) -> Any:  # fmt: skip
        from tract_jupyter.agents.definition import AgentDefinition, read_budget

        return AgentDefinition(
            name=name, instructions=instructions, description=description, model=model, tools=tuple(tools or ()),
            toolsets=tuple(toolsets or ()), budget=read_budget(budget), runtime=runtime,
        )  # fmt: skip

    def _changed(self, agent: Agent, changes: dict[str, Any]) -> Any:
        from tract_jupyter.agents.definition import changed_definition

        return changed_definition(agent.definition, changes)


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
