"""The tools by their origin, one line each, which unfolds to the signature and the description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models import counted, one_line, printable
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, element
from tract_jupyter.notebook.views.styles import styled
from tract_jupyter.toolkit import python_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.toolkit import ToolDefinition, ToolExecutor

_NAME = 60
_LINE = 120
_TEXT_LINE = 88
_WHOLE = 4_000
_OPEN = 12  # tools; a shorter list is not folded
_GROUPS = {"tract": "Built in", "operation": "Operations", "notebook": "Notebook", "user": "Yours"}


@dataclass(frozen=True)
class ToolRow:
    """The texts of a tool. `group` is the origin of the tool."""

    call: str
    signature: str
    group: str
    description: str
    is_read_only: bool
    is_locked: bool = False

    @classmethod
    def of(cls, tool: ToolDefinition, prefix: str, locks: Collection[str]) -> ToolRow:
        """Return the row of a tool. `prefix` is the name of all tools in the namespace."""
        group = f"{prefix}.{tool.namespace}" if tool.namespace else _GROUPS[tool.owner.partition(":")[0]]
        space = f"{prefix}.{tool.namespace}" if tool.namespace else prefix
        return cls(
            f"{space}.{python_name(tool.own_name)}",
            tool.parameters.signature_text(),
            group,
            tool.description,
            tool.traits.read_only,
            tool.name in locks,
        )

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return one_line(self.description.strip().partition("\n")[0], _LINE)

    @property
    def effect(self) -> str:
        """The effect on the context or the outside, in a word or two."""
        return ("reads" if self.is_read_only else "writes") + (", locked" if self.is_locked else "")

    def has(self, words: Iterable[str]) -> bool:
        """Return True if each word is in the name, the description or the origin, in any case."""
        text = f"{self.call} {self.description} {self.group} {self.effect}".casefold()
        return all(word.casefold() in text for word in words)


@dataclass(frozen=True)
class ToolsView(View):
    """Tools. With `words`, only tools that contain all of them."""

    tools: Sequence[ToolRow]
    prefix: str = "tools"
    words: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, executor: ToolExecutor, prefix: str = "tools", words: Iterable[str] = (), namespace: str = ""
    ) -> ToolsView:
        """Return the view of an executor's tools, or of one namespace."""
        listed = [
            ToolRow.of(tool, prefix, executor.locks)
            for tool in executor.tools().values()
            if not namespace or tool.namespace == namespace
        ]
        words = tuple(words)
        return cls([tool for tool in listed if tool.has(words)], prefix, words)

    @property
    def groups(self) -> dict[str, list[ToolRow]]:
        """The tools by origin: namespaces, operations and the user's tools before built-in ones."""
        groups: dict[str, list[ToolRow]] = {}
        for tool in sorted(self.tools, key=lambda tool: (tool.group == _GROUPS["tract"], tool.group)):
            groups.setdefault(tool.group, []).append(tool)
        return groups

    @property
    def headline(self) -> str:
        """The number of tools, and how to find one."""
        if not self.words:
            return f"{counted(len(self.tools), 'tool')}; %tract tools WORD finds those about something"
        return f"{counted(len(self.tools), 'tool')} about {' '.join(self.words)}"

    def to_html(self) -> str:
        """Return the tools as self-contained HTML."""
        is_short = len(self.tools) <= _OPEN
        items = [_group_html(group, tools, is_open=is_short) for group, tools in self.groups.items()]
        title = element("p", element("b", "Tools"), " ", element("small", self.headline))
        tools = rows.rows(items) if items else None
        return styled(rows.page(title, tools, label="Tools", name="tract-tools"))

    def to_text(self) -> str:
        """Return a line for each tool with its signature."""
        lines = [f"Tools: {self.headline}"]
        for group, tools in self.groups.items():
            lines.append(f"{group}")
            for tool in tools:
                call = one_line(f"{tool.call}{tool.signature}", _TEXT_LINE)
                lines.append(f"  {call}  [{tool.effect}]  {one_line(tool.summary, _TEXT_LINE)}".rstrip())
        return printable("\n".join(lines))


def _group_html(group: str, tools: list[ToolRow], *, is_open: bool) -> Html:
    some = ", ".join(tool.call.rpartition(".")[2] for tool in tools)
    cells = (rows.said(one_line(group, _NAME)), rows.cut(some), rows.number(f"{len(tools):,}"))
    return rows.row(cells, rows.rows(map(_tool_html, tools)), is_open=is_open)


def _tool_html(tool: ToolRow) -> Html:
    effect = rows.number if tool.is_read_only and not tool.is_locked else rows.badge
    cells = (
        rows.named(one_line(tool.call.partition(".")[2], _NAME)),
        rows.cut(tool.summary),
        effect(tool.effect),
    )
    lines = tool.description.strip()[:_WHOLE].split("\n")
    about = element("p", lines[:1], ((element("br"), line) for line in lines[1:]))
    return rows.row(cells, (rows.out(tool.call + tool.signature), about))
