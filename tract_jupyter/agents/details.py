"""The details that the user reviews before an agent is created or changed: its text, rights and findings."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from tract_jupyter.agents.file import file_text
from tract_jupyter.agents.findings import findings_rows, text_findings
from tract_jupyter.models import counted
from tract_jupyter.review import CodeBlock, ValueRow, ValueTable
from tract_jupyter.toolkit import CallDetails, call_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.agents.agents import Agents
    from tract_jupyter.agents.definition import AgentDefinition
    from tract_jupyter.agents.registry import Agent

_FEW = 4  # most tools that a sentence lists by name


def details_of(
    agents: Agents, definition: AgentDefinition, former: Agent | None, actor: str, *, is_of_file: bool = False
) -> CallDetails:
    """Return the details of a definition for the user's review. For a new version, include the changes.

    Args:
        agents: agents of the tract.
        definition: the new definition.
        former: the agent's current version, if it exists.
        actor: the actor that creates or changes the agent.
        is_of_file: True if the definition comes from the agent's file, so the file is not rewritten.
    """
    rows = tuple(_rights(agents, definition, actor))
    tables = [ValueTable("Permissions", rows, "nothing", summary=_in_a_sentence(agents, definition))]
    noticed = findings_rows(text_findings(definition.description))
    if noticed:
        heads = ("What", "Where", "Why")
        tables.append(ValueTable("Warnings about its description", noticed, "nothing", heads=heads))
    blocks = []
    edited = "" if former is None or is_of_file else former.edited
    if edited:
        rows = (
            ValueRow(
                "its file", "", "edited after approval", "To keep the edits, reject this and adopt the file."
            ),
        )
        tables.append(ValueTable("Replaces an edited file", rows, "nothing"))
    if former is not None and (changed := _difference(edited or former.text, file_text(definition))):
        blocks.append(CodeBlock("Changes", changed, language="diff", binds="nothing"))
    if former is None or former.definition.instructions != definition.instructions:
        text, findings = definition.instructions, text_findings(definition.instructions)
        note = "" if findings else "No findings. This does not prove that the text is safe."
        blocks.append(CodeBlock("Instructions", text, findings, language="text", analysis_note=note))
    return CallDetails(tuple(tables), tuple(blocks))


def _tools(agents: Agents, definition: AgentDefinition) -> tuple[list[str], list[str]]:
    """Return the tools that an agent calls freely, and the tools that need approval."""
    there = agents.executor.tools()
    names = sorted(agents.granted(definition))
    reads = [name for name in names if name in there and there[name].traits.read_only]
    return reads, [name for name in names if name in there and name not in reads]


def _in_a_sentence(agents: Agents, definition: AgentDefinition) -> str:
    reads, writes = _tools(agents, definition)
    limits = definition.budget or agents.limits.agent
    makes = "agent_create" in writes
    parts = [
        f"reads with {_few(reads)}" if reads else "",
        f"asks before {_few(writes)}" if writes else "",
        "can create agents" if makes else "creates no agents",
    ]
    does = " · ".join(filter(None, parts)) if reads or writes else "calls no tools"
    model = definition.model or "the caller's model"
    return f"{model} · {does} · {limits} in total"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _FEW else counted(len(names), "tool")


def _rights(agents: Agents, definition: AgentDefinition, actor: str) -> Iterator[ValueRow]:
    reads, writes = _tools(agents, definition)
    yield ValueRow("calls freely", "", ", ".join(reads) or "nothing", "They only read data.")
    yield ValueRow(
        "asks before",
        "",
        ", ".join(writes) or "nothing",
        "You decide about each call, unless you allow the tool.",
    )
    running = call_context().agent
    above = " → ".join(("you", *(() if running is None else running.call.chain), definition.name))
    yield ValueRow("called by", "", above, f"{actor} creates it.")
    yield ValueRow("model", "", definition.model or "the caller's model")
    limits = definition.budget or agents.limits.agent
    yield ValueRow(
        "budget", "", str(limits), "For all its calls together. Usage also counts for the agents above."
    )
    yield ValueRow(
        "begins with", "", "an empty context", "It sees only its instructions and the input of the call."
    )


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=3)
    return "\n".join(lines)
