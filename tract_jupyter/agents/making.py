"""Create, change, retire, promote and adopt agents. Each action checks permissions and is atomic.

Tools, cells and approved requests all use this code. Each method repeats the checks of its request.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tract_jupyter.agents.definition import unknown
from tract_jupyter.agents.file import ENDING, file_text, new_file, parse_file, write_file
from tract_jupyter.agents.registry import Agent, AgentState
from tract_jupyter.agents.rights import CREATING, check_free, check_rights
from tract_jupyter.agents.running import AgentCaller
from tract_jupyter.exceptions import AgentError
from tract_jupyter.toolkit import call_context

if TYPE_CHECKING:
    from pathlib import Path

    from tract_jupyter.agents.agents import Agents
    from tract_jupyter.agents.definition import AgentDefinition
    from tract_jupyter.agents.file import AgentFolder


class AgentMaker:
    """Creates and changes the agents of a tract."""

    def __init__(self, agents: Agents, folder: AgentFolder) -> None:
        self._agents = agents
        self._folder = folder

    def make(self, caller: AgentCaller, definition: AgentDefinition, actor: str) -> Agent:
        """Create an agent: write its file and store its record.

        Raises:
            AgentError: the agent cannot be created. Nothing is stored.
        """
        with self._agents.lock:
            self.check_new(definition, caller)
            path = self._folder.ensure() / f"{definition.name}{ENDING}"
            creator = actor if caller.running is None else caller.running.call.actor
            agent = Agent(
                definition, file_text(definition), path, creator, caller.chain, self._agents.session
            )
            agent.making = caller.making
            self._agents.records.check_version(agent)
            write_file(path, agent.text, is_new=True)
            try:
                self._agents.save(agent, "created", actor)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return agent

    def change(self, caller: AgentCaller, agent: Agent, definition: AgentDefinition, actor: str) -> Agent:
        """Create a new version of an agent.

        Raises:
            AgentError: the change is not possible. The agent stays the same.
        """
        with self._agents.lock:
            self.check_changed(agent, definition, caller)
            before = (agent.definition, agent.text, agent.making, agent.earlier, agent.version)
            agent.earlier = (*agent.earlier, agent.hash)
            agent.definition, agent.text, agent.making = definition, file_text(definition), caller.making
            agent.version += 1
            try:
                self._agents.records.check_version(agent)
                if agent.path is not None:
                    self._folder.ensure()
                    write_file(agent.path, agent.text, is_new=False)
                self._agents.save(agent, "updated", actor)
            except BaseException:
                agent.definition, agent.text, agent.making, agent.earlier, agent.version = before
                if agent.path is not None:
                    # then the file differs from the approved text, and the agent is blocked
                    with suppress(AgentError):
                        write_file(agent.path, agent.text, is_new=False)
                raise
            # else an unknown price would be forgotten
            if agent.meter is not None and definition.budget != before[0].budget:
                agent.meter.limits = definition.budget or self._agents.limits.agent
        return agent

    def retire(self, caller: AgentCaller, agent: Agent, actor: str) -> None:
        """Retire an agent. Delete its file if this session created it. The record stays."""
        with self._agents.lock:
            self.check_owned(agent, caller, "retire")
            path, was = agent.path, agent.state
            agent.state = AgentState.RETIRED
            try:
                self._agents.save(agent, "retired", actor)
            except BaseException:
                agent.state = was
                raise
            if path is not None and not agent.is_adopted:
                with suppress(OSError):  # a leftover file is harmless: no agent uses it
                    path.unlink()
                agent.path = None

    def promote(self, caller: AgentCaller, agent: Agent, path: Path, actor: str) -> Path:
        """Copy the file of an agent, and record its origin."""
        with self._agents.lock:
            self.check_promoted(agent, caller)
            target = new_file(path, self._agents.tract.workspace.roots)
            write_file(target, agent.text, is_new=True)
            before, agent.promoted = agent.promoted, agent.provenance(target, actor)
            try:
                self._agents.save(agent, "promoted", actor)
            except BaseException:
                agent.promoted = before
                target.unlink(missing_ok=True)
                raise
        return target

    def adopt(self, place: Path, text: str) -> Agent:
        """Adopt a file with the text that the user approved; see `Agents.adopt`.

        If the file has a different text, the agent is blocked.
        """
        self._agents.check_user("adopt an agent file")
        definition = parse_file(text)
        with self._agents.lock:
            former = self._agents.find(definition.name)
            is_active = former is not None and former.state is AgentState.ACTIVE
            is_same = former is not None and former.path == place
            if former is not None and is_active and not is_same and former.text != text:
                raise AgentError(
                    "name_taken",
                    f"another agent named {former.name!r} exists; retire it first",
                )
            check_free(definition.name, self._agents.executor, [agent.name for agent in self._agents])
            self.check_definition(definition, AgentCaller(self._agents.tract))
            if not is_active:
                self.check_count()
            agent = Agent(definition, text, place, "user", (), "")
            self._agents.records.check_version(agent)
            if former is not None:
                agent.version = former.version + (former.text != text)
                agent.earlier = former.earlier if former.text == text else (*former.earlier, former.hash)
                agent.making = former.making if former.text == text else {}
                agent.session = former.session if is_same else ""
                agent.calls, agent.promoted, agent.meter = former.calls, former.promoted, former.meter
            earlier = self._agents.known(definition.name)
            if earlier is not None and earlier.promoted.get("hash") == agent.hash:
                agent.promoted, agent.making = earlier.promoted, earlier.making
            if agent.meter is not None:
                agent.meter.limits = definition.budget or self._agents.limits.agent
            self._agents.save(agent, "adopted", "user")
            if former is not None and is_active and not is_same and not former.is_adopted and former.path:
                with suppress(OSError):
                    former.path.unlink()  # the file that this session created
        return agent

    # --- permission checks

    def check_new(self, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check that an agent can be created."""
        name = definition.name
        former = self._agents.find(name)
        if former is not None:
            same = (
                "" if former.name == name else f" as {former.name!r} (names are compared case-insensitively)"
            )
            how = "it is retired" if former.state is AgentState.RETIRED else "agent_update changes it"
            raise AgentError(
                "name_taken", f"an agent named {name!r} exists already{same}: {how}; choose another name"
            )
        check_free(name, self._agents.executor, [agent.name for agent in self._agents])
        self.check_definition(definition, caller)
        if CREATING in definition.toolsets and caller.depth + 1 >= self._agents.limits.depth:
            raise AgentError(
                "limit",
                f"an agent at this depth cannot create agents; the depth limit is {self._agents.limits.depth}",
            )
        self.check_count()

    def check_changed(self, agent: Agent, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check that the caller can change an agent to this definition."""
        self.check_owned(agent, caller, "change")
        if agent.state is not AgentState.ACTIVE:
            raise AgentError("retired", f"the agent {agent.name!r} is retired; create another agent")
        if agent.is_adopted:
            raise AgentError(
                "adopted",
                f"{agent.name!r} comes from a file of the user; edit the file and adopt it again",
            )
        if definition == agent.definition:
            raise AgentError("no_change", f"{agent.name!r} has these values already; nothing was changed")
        self.check_definition(definition, caller)

    def check_promoted(self, agent: Agent, caller: AgentCaller) -> None:
        """Check that the caller may promote an agent, and that its file is unchanged since its approval."""
        self.check_owned(agent, caller, "promote")
        if agent.state is not AgentState.ACTIVE:
            raise AgentError("retired", f"the agent {agent.name!r} is retired, and its file was deleted")
        agent.check_file()

    def check_owned(self, agent: Agent, caller: AgentCaller, action: str) -> None:
        """Check that the caller may change an agent. An agent may change only the agents that it created."""
        if caller.running is None:
            return
        if agent.maker != caller.chain:
            raise AgentError(
                "not_yours", f"{caller.name} did not create {agent.name!r} and cannot {action} it"
            )

    def check_definition(self, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check a definition's grants and its model."""
        check_rights(definition, self._agents.executor, caller.allowed)
        self.check_model(definition)
        self.check_runtime(definition, caller)

    def check_runtime(self, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check that the outside agent of a definition is known, and that no agent gains its rights."""
        if definition.runtime is None:
            return
        if definition.runtime not in self._agents.runtimes:
            raise unknown("runtime", [definition.runtime], self._agents.runtimes, "unknown_runtime")
        if caller.running is not None:
            raise AgentError(
                "rights",
                f"the agent {definition.name!r} runs on an outside agent, whose own tools {caller.name} cannot call: "
                "calling an agent never adds rights. Only the user and the chat's model can create and call it",
            )

    def check_model(self, definition: AgentDefinition) -> None:
        """Check that the model of a definition is on the menu."""
        if definition.model is not None and definition.model not in self._agents.models:
            raise unknown("model", [definition.model], self._agents.models, "unknown_model")

    def check_count(self) -> None:
        """Check that one more agent can be active. Agents that the same response creates count."""
        if (
            len(self._agents.names) + call_context().planned.count("agent_create")
            >= self._agents.limits.count
        ):
            raise AgentError(
                "limit",
                f"limit reached: {self._agents.limits.count} agents are active, the maximum. Retire an agent with "
                "agent_retire",
            )
