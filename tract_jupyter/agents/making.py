"""Making, changing, retiring, promoting and adopting agents: who may, and all of it or nothing.

This is where what tools, cells and questions say about agents is done. Each of them checks first, as its question does.
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
    """Makes and changes the agents of a tract.

    Args:
        agents: all of them.
        folder: for their files.
    """

    def __init__(self, agents: Agents, folder: AgentFolder) -> None:
        self._agents = agents
        self._folder = folder

    def make(self, caller: AgentCaller, definition: AgentDefinition, actor: str) -> Agent:
        """Make an agent: write its file, keep its record.

        Raises:
            AgentError: it cannot be made; nothing was kept of it.
        """
        with self._agents.lock:
            self.check_new(definition, caller)
            path = self._folder.made() / f"{definition.name}{ENDING}"
            creator = actor if caller.running is None else caller.running.call.actor
            agent = Agent(
                definition, file_text(definition), path, creator, caller.chain, self._agents.session
            )
            agent.making = caller.making
            self._agents.records.check_version(agent)
            write_file(path, agent.text, is_new=True)
            try:
                self._agents.keep(agent, "created", actor)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return agent

    def change(self, caller: AgentCaller, agent: Agent, definition: AgentDefinition, actor: str) -> Agent:
        """Make another version of an agent.

        Raises:
            AgentError: it cannot be changed; it is as it was.
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
                    self._folder.made()
                    write_file(agent.path, agent.text, is_new=False)
                self._agents.keep(agent, "updated", actor)
            except BaseException:
                agent.definition, agent.text, agent.making, agent.earlier, agent.version = before
                if agent.path is not None:
                    with suppress(AgentError):  # it is then not what was approved, and the agent blocked
                        write_file(agent.path, agent.text, is_new=False)
                raise
            if agent.meter is not None:
                agent.meter.limits = definition.budget or self._agents.limits.agent
        return agent

    def retire(self, caller: AgentCaller, agent: Agent, actor: str) -> None:
        """Retire an agent; the file that this session made goes, its record stays."""
        with self._agents.lock:
            self.check_owned(agent, caller, "retire")
            path, was = agent.path, agent.state
            agent.state = AgentState.RETIRED
            try:
                self._agents.keep(agent, "retired", actor)
            except BaseException:
                agent.state = was
                raise
            if path is not None and not agent.is_adopted:
                with suppress(OSError):  # what is in its place is nobody's agent
                    path.unlink()
                agent.path = None

    def promote(self, caller: AgentCaller, agent: Agent, path: Path, actor: str) -> Path:
        """Copy the file of an agent, and note where from.

        Raises:
            AgentError: it was changed since it was approved, or cannot be written there.
        """
        with self._agents.lock:
            self.check_promoted(agent, caller)
            target = new_file(path, self._agents.tract.workspace.roots)
            write_file(target, agent.text, is_new=True)
            before, agent.promoted = agent.promoted, agent.provenance(target, actor)
            try:
                self._agents.keep(agent, "promoted", actor)
            except BaseException:
                agent.promoted = before
                target.unlink(missing_ok=True)
                raise
        return target

    def adopt(self, place: Path, text: str) -> Agent:
        """Take a file over whose text a person has approved; see `adopt`. With another text in it, it is blocked."""
        self._agents.check_person("which agents are taken over from files")
        definition = parse_file(text)
        with self._agents.lock:
            former = self._agents.find(definition.name)
            is_active = former is not None and former.state is AgentState.ACTIVE
            is_same = former is not None and former.path == place
            if former is not None and is_active and not is_same and former.text != text:
                raise AgentError(
                    "name_taken",
                    f"there is another agent {former.name!r}, and its name is taken; retire it first",
                )
            check_free(definition.name, self._agents.executor, [one.name for one in self._agents])
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
            self._agents.keep(agent, "adopted", "user")
            if former is not None and is_active and not is_same and not former.is_adopted and former.path:
                with suppress(OSError):
                    former.path.unlink()  # the file that this session made of it
        return agent

    # --- who may

    def check_new(self, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check that an agent can be made.

        Raises:
            AgentError: its name is taken, it grants too much, or there are too many.
        """
        name = definition.name
        former = self._agents.find(name)
        if former is not None:
            same = (
                "" if former.name == name else f" as {former.name!r} (names are compared case-insensitively)"
            )
            how = "it was retired" if former.state is AgentState.RETIRED else "agent_update changes it"
            raise AgentError(
                "name_taken", f"there is an agent {name!r} already{same}: {how}; choose another name"
            )
        check_free(name, self._agents.executor, [one.name for one in self._agents])
        self.check_definition(definition, caller)
        if CREATING in definition.toolsets and caller.depth + 1 >= self._agents.limits.depth:
            raise AgentError(
                "limit",
                f"an agent this deep may make no agents: {self._agents.limits.depth} is the depth here",
            )
        self.check_count()

    def check_changed(self, agent: Agent, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check that an agent can be changed to this.

        Raises:
            AgentError: it is not the caller's, was retired, or would grant too much.
        """
        self.check_owned(agent, caller, "change")
        if agent.state is not AgentState.ACTIVE:
            raise AgentError("retired", f"the agent {agent.name!r} was retired; create another one")
        if agent.is_adopted:
            raise AgentError(
                "adopted",
                f"{agent.name!r} is a file that a person keeps; it is changed there, and adopted again",
            )
        if definition == agent.definition:
            raise AgentError("no_change", f"that is what {agent.name!r} is already; nothing was changed")
        self.check_definition(definition, caller)

    def check_promoted(self, agent: Agent, caller: AgentCaller) -> None:
        """Check that somebody may promote an agent, and that it is as it was approved.

        Raises:
            AgentError: they may not, it was retired, or its file was changed.
        """
        self.check_owned(agent, caller, "promote")
        if agent.state is not AgentState.ACTIVE:
            raise AgentError(
                "retired", f"the agent {agent.name!r} was retired; there is no file of it any more"
            )
        agent.check_file()

    def check_owned(self, agent: Agent, caller: AgentCaller, doing: str) -> None:
        """Check that somebody may change an agent: an agent only what it has made itself, in whichever version it is.

        Raises:
            AgentError: they may not.
        """
        if caller.running is None:
            return
        if agent.maker != caller.chain:
            raise AgentError("not_yours", f"{caller.name} did not make {agent.name!r}, and cannot {doing} it")

    def check_definition(self, definition: AgentDefinition, caller: AgentCaller) -> None:
        """Check what a definition grants, and its model.

        Raises:
            AgentError: there is no such thing, or its maker may not grant it.
        """
        check_rights(definition, self._agents.executor, caller.allowed)
        self.check_model(definition)

    def check_model(self, definition: AgentDefinition) -> None:
        """Check that the model of a definition is on the menu.

        Raises:
            AgentError: it is not.
        """
        if definition.model is not None and definition.model not in self._agents.models:
            raise unknown("model", [definition.model], self._agents.models, "unknown_model")

    def check_count(self) -> None:
        """Check that another agent may be active, besides those that were asked for in the same answer.

        Raises:
            AgentError: there are as many as may be.
        """
        if (
            len(self._agents.names) + call_context().planned.count("agent_create")
            >= self._agents.limits.count
        ):
            raise AgentError(
                "limit",
                f"limit reached: {self._agents.limits.count} agents are active, which is the most here. Retire one "
                "that is not needed, with agent_retire",
            )
