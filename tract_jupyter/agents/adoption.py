"""The request to adopt an agent's file. It shows the whole file, its grants and its findings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.agents.details import details_of, text_findings
from tract_jupyter.agents.file import file_hash, parse_file, read_file
from tract_jupyter.agents.running import AgentCaller
from tract_jupyter.exceptions import AgentError, FingerprintError
from tract_jupyter.review import CodeBlock, Pending, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tract_jupyter.agents.agents import Agents
    from tract_jupyter.agents.registry import Agent
    from tract_jupyter.review import ValueTable
    from tract_jupyter.toolkit import CallDetails


class PendingAdoption(Pending):
    """A request to adopt an agent's file in its current version, also for later sessions."""

    in_view = frozenset({"file"})
    labels: Mapping[str, str] = {**Pending.labels, "approve": "Adopt"}

    def __init__(self, agents: Agents, path: Path) -> None:
        text = read_file(path)
        self._agents, self._path = agents, path
        self._definition = parse_file(text)
        agents.maker.check_definition(self._definition, AgentCaller(agents.tract))
        super().__init__(
            "adopt_agent",
            tract=agents.tract,
            fields={"path": str(path), "file": text},
            execute_fn=partial(_adopt, agents, path),
        )

    @property
    def title(self) -> str:
        """The heading, with the agent's name."""
        return f"Adopt agent {self._definition.name}"

    def summary(self) -> str:
        """Return the agent's description, or a default text."""
        return self._definition.description or "Adopt an agent file in its current version."

    def binding(self) -> Subject:
        """Bind the approval to the whole file."""
        return Subject("agent", self._definition.name, file_hash(self.fields["file"]), {})

    def check_current(self) -> None:
        """Check that the file still has the displayed text."""
        try:
            now = read_file(self._path)
        except AgentError as error:
            raise FingerprintError(str(error)) from None
        if now != self.fields["file"]:
            raise FingerprintError(
                f"{self._path.name} changed after you saw it; adopt it again to read the new text"
            )

    def why(self) -> str:
        """Return the effect of an approval."""
        return "You can then call the agent, also in later sessions. After a change, adopt the file again."

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the agent's rights."""
        return self._details(None).tables

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the file. If the agent was adopted before, return the changes first."""
        text = self.fields["file"]
        former = next((agent for agent in self._agents if agent.name == self._definition.name), None)
        blocks = self._details(former).blocks if former else ()
        changes = [block for block in blocks if block.language == "diff"]
        return (*changes, CodeBlock("File", text, text_findings(text), language="text"))

    def _details(self, former: Agent | None) -> CallDetails:
        return details_of(self._agents, self._definition, former, self.actor, is_of_file=True)


def _adopt(agents: Agents, path: Path, pending: Any) -> Any:
    # the approved text, not the file's current text
    return agents.maker.adopt(path.expanduser().absolute(), pending.fields["file"])
