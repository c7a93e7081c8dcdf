"""The details that the user reviews before an agent is created or changed: its text, rights and findings."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final

from tract_jupyter.agents.file import file_text
from tract_jupyter.analysis import Category, Finding, RiskLevel, Span, split_lines
from tract_jupyter.models import counted, hidden_characters, one_line, unified_diff
from tract_jupyter.review import CodeBlock, ValueRow, ValueTable, by_rule
from tract_jupyter.toolkit import CallDetails, call_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    if definition.runtime is not None:
        limits = definition.budget or agents.limits.agent
        count = len(agents.granted(definition))
        more = f" · also {counted(count, 'tool')} of yours" if count else ""
        return f"runs on {definition.runtime} · has its own tools, and asks as it decides{more} · {limits} in total"
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
    if definition.runtime is not None:
        yield from _runtime_rows(agents, definition.runtime)
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
    model = "its own" if definition.runtime is not None else definition.model or "the caller's model"
    yield ValueRow("model", "", model)
    limits = definition.budget or agents.limits.agent
    yield ValueRow(
        "budget", "", str(limits), "For all its calls together. Usage also counts for the agents above."
    )
    yield ValueRow(
        "begins with", "", "an empty context", "It sees only its instructions and the input of the call."
    )


def _runtime_rows(agents: Agents, runtime: str) -> Iterator[ValueRow]:
    """Say what an outside agent does, and what neither its definition nor its budget holds."""
    yield ValueRow("runs on", "", runtime, agents.tract.outside.about(runtime))
    yield ValueRow(
        "own tools", "", "not limited", "It has tools for files and commands, with your rights. You decide about its "
        "requests. It may act without a request. The rows below hold for the granted tools."
    )  # fmt: skip
    yield ValueRow(
        "not limited",
        "",
        "tokens, money",
        "Its steps and calls are counted by its own reports, and calls of the granted tools in any case. Time is "
        "measured.",
    )


def _difference(before: str, after: str) -> str:
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    return "\n".join(unified_diff(old, new, "before", "after"))


_LONGEST_QUOTE: Final = 80
_LONG: Final = 8_000
_MOST: Final = 50
"""Most places per kind of finding, because a text may contain very many."""
_PATTERNS: Final = (
    (
        "hidden characters",
        RiskLevel.HIGH,
        hidden_characters,
        "They are invisible or reverse the text direction. A model may read a different text than you.",
    ),
    (
        "control characters",
        RiskLevel.HIGH,
        re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").finditer,
        "A terminal may execute them.",
    ),
    (
        "about approval",
        RiskLevel.MEDIUM,
        re.compile(
            r"\b(?:approv\w+|permission\w*|without (?:asking|approval)|do(?: not|n't) ask|auto.?approve|consent)\b",
            re.IGNORECASE,
        ).finditer,
        "It mentions approval. The text cannot change which calls need your approval.",
    ),
    (
        "about instructions",
        RiskLevel.HIGH,
        re.compile(
            r"\b(?:ignore|disregard|override|forget)\b[^.\n]{0,40}\b(?:instruction|rule|prompt|above|previous)\w*",
            re.IGNORECASE,
        ).finditer,
        "It tells a model to ignore earlier instructions.",
    ),
    (
        "secrets",
        RiskLevel.MEDIUM,
        re.compile(
            r"\b(?:passwords?|api.?keys?|credentials?|private keys?|access tokens?|secrets?|\.env|\.ssh|id_rsa)\b",
            re.IGNORECASE,
        ).finditer,
        "It mentions secrets.",
    ),
    (
        "addresses",
        RiskLevel.LOW,
        re.compile(r"\b(?:https?|ftp|file|wss?)://[^\s)>\"']+", re.IGNORECASE).finditer,
        "The agent's tools may send data there.",
    ),
    (
        "markup",
        RiskLevel.LOW,
        re.compile(r"<\s*(?:script|iframe|img|svg|object|embed)\b|!\[[^\]]*\]\(", re.IGNORECASE).finditer,
        "This review displays it as plain text.",
    ),
    (
        "encoded text",
        RiskLevel.MEDIUM,
        re.compile(r"\b[A-Za-z0-9+/]{120,}={0,2}").finditer,
        "Long strings without spaces may hide text.",
    ),
)


def text_findings(text: str) -> tuple[Finding, ...]:
    """Return the findings in a text, most severe first. Each kind lists at most the first 50 places."""
    starts = _line_starts(text)
    findings = [
        Finding(name, Category.UNKNOWN, level, _span(starts, match), _quoted(match.group()), why, "", 1.0)
        for name, level, find, why in _PATTERNS
        for match in islice(find(text), _MOST)
    ]
    if len(text) > _LONG:
        why = f"It has {len(text):,} characters. Read the whole text before you approve it."
        findings.append(
            Finding("length", Category.UNKNOWN, RiskLevel.LOW, Span(1, 0, 1, 0), "", why, "", 1.0)
        )
    return tuple(sorted(findings, key=lambda finding: (-finding.level.rank, finding.span)))


def findings_rows(findings: Iterable[Finding]) -> tuple[ValueRow, ...]:
    """Return findings as table rows with kind, place and reason, most severe first."""
    return tuple(
        ValueRow(rule.code, "", f"{rule.where}: {rule.worst.text}".rstrip(": "), rule.worst.reason)
        for rule in by_rule(findings)
    )


def _line_starts(text: str) -> list[int]:
    starts, at = [], 0
    for line in split_lines(text):
        starts.append(at)
        at += len(line)
        at += 2 if text.startswith("\r\n", at) else 1
    return starts


def _span(starts: list[int], match: re.Match[str]) -> Span:
    (line, column), (end_line, end_column) = (_place(starts, at) for at in match.span())
    return Span(line, column, end_line, end_column)


def _place(starts: list[int], at: int) -> tuple[int, int]:
    line = bisect_right(starts, at)
    return line, at - starts[line - 1]


def _quoted(text: str) -> str:
    return repr(text) if len(text) == 1 else one_line(text, _LONGEST_QUOTE)
