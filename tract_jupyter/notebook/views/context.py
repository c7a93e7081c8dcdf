"""The view of a compiled context: its messages with their tokens, as HTML and as text.

A long context is folded in the middle; all messages are visited once, for the sums of the bar.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models import Priority, more_characters, one_line, safe_repr, show_tokens
from tract_jupyter.notebook.views.html import (
    OWN_KEYS,
    escaped,
    heading,
    root_html,
    style_tag,
    text_width,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models import CompiledContext, Message, ToolCall


_NAME = 40


def speaker(message: Message) -> str:
    """Return the role, and whose name or which tool where that is known."""
    name = f" {one_line(message.name, _NAME)}" if message.name else ""
    return f"{one_line(message.role, _NAME)}{name}{' failed' if message.is_error else ''}"


def preview(message: Message, limit: int) -> str:
    """Return the first line of the text, or the tools that are called where there is no text."""
    whole = message.told
    text = whole.lstrip()[: 4 * limit]
    line = text.partition("\n")[0]
    if not text:
        return one_line(" ".join(map(_call_text, message.tool_calls)), limit)
    rest = " …" if len(whole.rstrip()) > len(line) and len(line) < limit else ""
    return one_line(f"{line.rstrip()}{rest}", limit)


def full_text(message: Message) -> str:
    """Return the text as it is, and a line for each tool call."""
    return "\n".join([*([message.told] if message.told else []), *map(_call_text, message.tool_calls)])


def _call_text(call: ToolCall) -> str:
    arguments = ", ".join(f"{key}={safe_repr(value)}" for key, value in call.arguments.items())
    return f"→ {call.name}({arguments})"


_CELLS = 40
_ORDER = ("system", "user", "assistant", "tool")
OTHER = "other"
_FORMAT = "format"
"""What a chat format and the tools add around the messages."""


@dataclass(frozen=True, slots=True)
class TokenBar:
    """Tokens by role. Shares are of the budget, or of the total where that is more or there is no budget."""

    segments: tuple[tuple[str, int], ...]
    total: int
    source: str
    max_tokens: int | None

    @property
    def in_messages(self) -> int:
        """The tokens of all messages together."""
        return sum(count for role, count in self.segments if role != _FORMAT)

    @property
    def over(self) -> int:
        """By how many tokens the budget is exceeded."""
        return 0 if self.max_tokens is None else max(self.total - self.max_tokens, 0)

    @property
    def headline(self) -> str:
        """Total, budget and share in words."""
        tokens = show_tokens(self.total, self.source)
        if self.max_tokens is None:
            return f"{tokens} tokens ({self.source})"
        share = f", {_percent(self.total, self.max_tokens)}" if self.max_tokens else ""
        over = f": over budget by {show_tokens(self.over, self.source)}" if self.over else ""
        return f"{tokens} of {self.max_tokens:,} tokens{share}{over} ({self.source})"

    def to_html(self) -> str:
        """Return the bar with its legend; to a screen reader it is one sentence."""
        bars = "".join(
            f'<span class="tract-seg tract-{role}" style="width:{100 * count / self._scale:.3f}%"></span>'
            for role, count in self.segments
        )
        if self.over:
            left = 100 * (self.total - self.over) / self._scale
            bars += f'<span class="tract-limit" style="left:{left:.3f}%"></span>'
        legend = "".join(
            f'<span><i class="tract-seg tract-{role}"></i>{escaped(words)}</span>'
            for (role, _), words in zip(self.segments, self._parts(), strict=True)
        )
        css = "tract-bar tract-over" if self.over else "tract-bar"
        paragraph = '<p class="tract-bad">' if self.over else "<p>"
        label = escaped("; ".join([self.headline, *self._parts()]))
        return (
            f"{paragraph}{escaped(self.headline)}</p>"
            f'<div class="{css}" role="img" aria-label="{label}">{bars}</div>'
            f'<p class="tract-legend" aria-hidden="true">{legend}</p>'
        )

    def to_text(self) -> list[str]:
        """Return the headline, and a bar with a letter for each role."""
        if not self.segments:
            return [self.headline]
        cells, done = "", 0
        for role, count in self.segments:
            done += count
            cells += role[0] * (round(_CELLS * done / self._scale) - len(cells))
        return [self.headline, f"[{cells.ljust(_CELLS, '·')}] {', '.join(self._parts())}"]

    def _parts(self) -> list[str]:
        return [f"{role} {count:,} ({_percent(count, self.total)})" for role, count in self.segments]

    @property
    def _scale(self) -> int:
        return max(self.total, self.max_tokens or 0, 1)


def token_bar(context: CompiledContext) -> TokenBar:
    """Sum up a context: one pass over its messages."""
    sums: Counter[str] = Counter()
    for message in context.messages:
        sums[message.role] += message.token_count
    known = [(role, sums[role]) for role in _ORDER if sums[role]]
    other = sum(count for role, count in sums.items() if role not in _ORDER)
    around = context.token_count - sum(sums.values())
    segments = [*known, (OTHER, other), (_FORMAT, around)]
    return TokenBar(
        tuple((role, count) for role, count in segments if count > 0),
        context.token_count,
        context.token_source,
        context.max_tokens,
    )


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


_FIRST, _LAST = 10, 20
_LINE = 100
_TEXT_LINE = 72
_WHOLE = 10_000
_TOOLS = 40


def context_view(context: CompiledContext) -> dict[str, str]:
    """Return the representations of a context for IPython: `text/html` and `text/plain`."""
    shown = _Shown.of(context)
    return {"text/html": _html(shown), "text/plain": _text(shown)}


@dataclass(frozen=True, slots=True)
class _Shown:
    """The parts of a context that are shown."""

    context: CompiledContext
    bar: TokenBar
    first: Sequence[Message]
    hidden: int
    hidden_tokens: int
    last: Sequence[Message]

    @classmethod
    def of(cls, context: CompiledContext) -> _Shown:
        messages = context.messages
        hidden = max(len(messages) - _FIRST - _LAST, 0)
        first = messages[:_FIRST] if hidden else messages
        last = messages[-_LAST:] if hidden else ()
        bar = token_bar(context)
        known = sum(m.token_count for m in first) + sum(m.token_count for m in last)
        return cls(context, bar, first, hidden, bar.in_messages - known, last)

    @property
    def title(self) -> str:
        count = len(self.context.messages)
        at = f" at {self.context.head[:8]}" if self.context.head else ""
        return f"{count:,} message{'s' * (count != 1)}{at}"

    @property
    def fold(self) -> str:
        tokens = show_tokens(self.hidden_tokens, self.context.token_source)
        return f"{self.hidden:,} more message{'s' * (self.hidden != 1)}, {tokens} tokens"

    @property
    def tools(self) -> str:
        """The names of the tools, as many as fit."""
        names = [_tool_name(tool) for tool in self.context.tools]
        more = f" and {len(names) - _TOOLS:,} more" if len(names) > _TOOLS else ""
        return ", ".join(names[:_TOOLS]) + more


def _tool_name(tool: dict[str, object]) -> str:
    """Return the name in OpenAI's shape, or in a flat one."""
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    return one_line(str(name or "unnamed"), 64)


def _html(shown: _Shown) -> str:
    source = shown.context.token_source
    rows = [_row(number, m, source) for number, m in enumerate(shown.first, 1)]
    if shown.hidden:
        rows.append(f'<tr class="tract-fold"><td></td><td colspan="4">⋮ {shown.fold}</td></tr>')
        start = len(shown.context.messages) - len(shown.last) + 1
        rows += [_row(number, m, source) for number, m in enumerate(shown.last, start)]
    heads = ("#", "Role", "Priority", "Tokens", "Message")
    head = "".join(f'<th scope="col"{_right(name)}>{name}</th>' for name in heads)
    table = (
        f'<table class="tract-messages"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        if rows
        else "<p>Nothing has been committed yet.</p>"
    )
    tools = f"<p><b>Tools</b> {escaped(shown.tools)}</p>" if shown.context.tools else ""
    page = f"{heading('Context', 3, shown.title)}{shown.bar.to_html()}{tools}{table}"
    return f"{style_tag('views/views.css')}{root_html(page, 'tract-views')}"


def _right(name: str) -> str:
    return ' class="tract-right"' if name in {"#", "Tokens"} else ""


def _row(number: int, message: Message, source: str) -> str:
    return (
        f'<tr><td class="tract-right tract-dim">{number:,}</td>'
        f'<td><span class="tract-role tract-{_known_role(message.role)}">{escaped(speaker(message))}</span></td>'
        f'<td>{_badge(message.priority)}</td><td class="tract-right">{show_tokens(message.token_count, source)}</td>'
        f'<td class="tract-text" title="{escaped(message.commit_hash)}">{_content(message)}</td></tr>'
    )


def _known_role(role: str) -> str:
    return role if role in {"system", "user", "assistant", "tool"} else "other"


def _badge(priority: Priority) -> str:
    """Return the badge of a priority; the normal one is only dim text."""
    if priority is Priority.NORMAL:
        return '<span class="tract-dim">normal</span>'
    return f'<span class="tract-badge tract-{priority.value}">{priority.value}</span>'


def _content(message: Message) -> str:
    """Return the first line, which opens to the whole text where there is more."""
    first, whole = preview(message, _LINE), full_text(message)
    line = escaped(first) or '<span class="tract-dim">empty</span>'
    if first == whole:
        return line
    more = more_characters(whole, _WHOLE)
    note = f'<p class="tract-dim">{more}</p>' if more else ""
    return (
        f"<details><summary {OWN_KEYS}>{line}</summary><pre>{escaped(whole[:_WHOLE])}</pre>{note}</details>"
    )


def _text(shown: _Shown) -> str:
    source = shown.context.token_source
    rows = [_cells(number, m, source) for number, m in enumerate(shown.first, 1)]
    start = len(shown.context.messages) - len(shown.last) + 1
    after = [_cells(number, m, source) for number, m in enumerate(shown.last, start)]
    lines = _aligned([("#", "role", "priority", "tokens", "message"), *rows, *after])
    if shown.hidden:
        lines.insert(len(rows) + 1, f"  ⋮ {shown.fold}")
    tools = [f"Tools: {shown.tools}"] if shown.context.tools else []
    table = lines if rows else ["Nothing has been committed yet."]
    return "\n".join([f"Context: {shown.title}", *shown.bar.to_text(), *tools, *table])


def _cells(number: int, message: Message, source: str) -> tuple[str, ...]:
    tokens = show_tokens(message.token_count, source)
    return (f"{number:,}", speaker(message), message.priority.value, tokens, preview(message, _TEXT_LINE))


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Align the columns: numbers flush right, and the last column as it is."""
    widths = [max(text_width(row[i]) for row in rows) for i in range(4)]
    lines = []
    for row in rows:
        pads = [" " * (width - text_width(cell)) for width, cell in zip(widths, row, strict=False)]
        role, priority = row[1] + pads[1], row[2] + pads[2]
        lines.append(f"{pads[0]}{row[0]}  {role}  {priority}  {pads[3]}{row[3]}  {row[4]}".rstrip())
    return lines
