"""What a person is shown of an agent before it is made or changed: its text, its rights, and what to notice."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from tract_jupyter.agents.definition import budget_text
from tract_jupyter.agents.file import file_text
from tract_jupyter.agents.findings import text_findings
from tract_jupyter.agents.running import running_agent
from tract_jupyter.review import CodeBlock, ValueRow, ValueTable
from tract_jupyter.toolkit import CallDetails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.agents.agents import Agents
    from tract_jupyter.agents.definition import AgentDefinition
    from tract_jupyter.agents.registry import Agent


def details_of(agents: Agents, definition: AgentDefinition, former: Agent | None, actor: str) -> CallDetails:
    """Return what a person is shown of a definition; of a new version of an agent, what has changed too."""
    tables = [ValueTable("What it can do", tuple(_rights(agents, definition, actor)), "nothing")]
    noticed = text_findings(f"{definition.description}\n{definition.instructions}")
    if noticed:
        tables.append(ValueTable("Notice in its text", noticed, "nothing", heads=("What", "Where", "Why")))
    blocks = []
    if former is not None and (changed := _difference(former.text, file_text(definition))):
        blocks.append(CodeBlock("Changes", changed, language="diff", binds="nothing"))
    return CallDetails(tuple(tables), tuple(blocks))


def _rights(agents: Agents, definition: AgentDefinition, actor: str) -> Iterator[ValueRow]:
    there = agents.executor.tools()
    names = sorted(agents.granted(definition))
    reads = [name for name in names if name in there and there[name].traits.read_only]
    writes = [name for name in names if name in there and name not in reads]
    yield ValueRow("calls freely", "", ", ".join(reads) or "nothing", "They only read.")
    yield ValueRow(
        "asks before", "", ", ".join(writes) or "nothing", "You are asked each time, unless you allow it."
    )
    running = running_agent()
    above = " → ".join(("you", *(() if running is None else running.call.chain), definition.name))
    yield ValueRow("called by", "", above, f"{actor} makes it.")
    yield ValueRow("model", "", definition.model or "that of whoever calls it")
    limits = definition.budget or agents.limits.agent
    yield ValueRow(
        "budget", "", budget_text(limits), "For all its calls together; what it takes is charged above, too."
    )


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=3)
    return "\n".join(lines)
