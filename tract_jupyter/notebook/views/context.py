"""The view of a compiled context: its messages with their tokens, as HTML and as text.

A long context is folded in the middle. The sums of the bar include all messages.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models import Priority, counted, more_characters, one_line, safe_repr, show_tokens
from tract_jupyter.notebook.views.html import (
    View,
    cell,
    element,
    fragment,
    heading,
    join_names,
    root_html,
    style_tag,
    table,
    text_width,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.models import CompiledContext, Message, ToolCall
    from tract_jupyter.notebook.views.html import Html, HtmlPart


_NAME = 40


def speaker(message: Message) -> str:
    """Return the role, with the name of the speaker or tool if it is known."""
    name = f" {one_line(message.name, _NAME)}" if message.name else ""
    return f"{one_line(message.role, _NAME)}{name}{' failed' if message.is_error else ''}"


def preview(message: Message, limit: int) -> str:
    """Return the first line of the text, or the tool calls if there is no text."""
    full = message.told
    text = full.lstrip()[: 4 * limit]
    line = text.partition("\n")[0]
    if not text:
        return one_line(" ".join(map(_call_text, message.tool_calls)), limit)
    rest = " …" if len(full.rstrip()) > len(line) and len(line) < limit else ""
    return one_line(f"{line.rstrip()}{rest}", limit)


def full_text(message: Message) -> str:
    """Return the full text, and a line for each tool call."""
    return "\n".join([*([message.told] if message.told else []), *map(_call_text, message.tool_calls)])


def _call_text(call: ToolCall) -> str:
    arguments = ", ".join(f"{key}={safe_repr(value)}" for key, value in call.arguments.items())
    return f"→ {call.name}({arguments})"


_CELLS = 40
_ORDER = ("system", "user", "assistant", "tool")
OTHER = "other"
_FORMAT = "format"
"""The tokens of the chat format and of tools."""


@dataclass(frozen=True, slots=True)
class TokenBar:
    """Tokens by role. Shares refer to the budget, or to the total if it is larger or there is no budget."""

    segments: tuple[tuple[str, int], ...]
    total: int
    source: str
    max_tokens: int | None

    @property
    def in_messages(self) -> int:
        """The tokens of all messages."""
        return sum(count for role, count in self.segments if role != _FORMAT)

    @property
    def over(self) -> int:
        """The number of tokens above the budget."""
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

    def to_html(self) -> Html:
        """Return the bar with its legend. For screen readers, it is one sentence."""
        bars = [
            element("span", class_=f"tract-seg tract-{role}", style=f"width:{100 * count / self._scale:.3f}%")
            for role, count in self.segments
        ]
        if self.over:
            left = 100 * (self.total - self.over) / self._scale
            bars.append(element("span", class_="tract-limit", style=f"left:{left:.3f}%"))
        legend = (
            element("span", element("i", class_=f"tract-seg tract-{role}"), words)
            for (role, _), words in zip(self.segments, self._parts(), strict=True)
        )
        label = "; ".join([self.headline, *self._parts()])
        look = ("tract-bar", "tract-over" if self.over else "")
        return fragment(
            element("p", self.headline, class_="tract-bad" if self.over else ""),
            element("div", bars, class_=look, role="img", aria_label=label),
            element("p", legend, class_="tract-legend", aria_hidden="true"),
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
    """Count the tokens of a context by role."""
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


def _percent(part: int, total: int) -> str:
    share = 100 * part / total if total else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


_FIRST, _LAST = 10, 20
_LINE = 100
_TEXT_LINE = 72
_WHOLE = 10_000
_TOOLS = 40


@dataclass(frozen=True)
class ContextView(View):
    """A compiled context. A long one is folded in the middle."""

    context: CompiledContext
    bar: TokenBar
    first: Sequence[Message]
    hidden: int
    hidden_tokens: int
    last: Sequence[Message]

    @classmethod
    def of(cls, context: CompiledContext) -> ContextView:
        """Return the view of a context."""
        messages = context.messages
        hidden = max(len(messages) - _FIRST - _LAST, 0)
        first = messages[:_FIRST] if hidden else messages
        last = messages[-_LAST:] if hidden else ()
        bar = token_bar(context)
        known = sum(m.token_count for m in first) + sum(m.token_count for m in last)
        return cls(context, bar, first, hidden, bar.in_messages - known, last)

    def to_html(self) -> Html:
        """Return the token bar, the tools and a table of the messages."""
        source = self.context.token_source
        rows = [_row(number, m, source) for number, m in enumerate(self.first, 1)]
        if self.hidden:
            hidden = element("td", f"⋮ {self._fold}", colspan=4)
            rows.append(element("tr", element("td"), hidden, class_="tract-fold"))
            start = len(self.context.messages) - len(self.last) + 1
            rows += [_row(number, m, source) for number, m in enumerate(self.last, start)]
        right = {"#", "Tokens"}
        names = ("#", "Role", "Priority", "Tokens", "Message")
        heads = [cell(name, class_="tract-right" if name in right else "") for name in names]
        messages = (
            table(rows, heads, class_="tract-messages")
            if rows
            else element("p", "Nothing has been committed yet.")
        )
        tools = element("p", element("b", "Tools"), f" {self._tools}") if self.context.tools else None
        page = heading("Context", self._title), self.bar.to_html(), tools, messages
        return fragment(style_tag("views/views.css"), root_html(page, look="tract-views"))

    def to_text(self) -> str:
        """Return the same in plain text."""
        source = self.context.token_source
        rows = [_cells(number, m, source) for number, m in enumerate(self.first, 1)]
        start = len(self.context.messages) - len(self.last) + 1
        after = [_cells(number, m, source) for number, m in enumerate(self.last, start)]
        lines = _aligned([("#", "role", "priority", "tokens", "message"), *rows, *after])
        if self.hidden:
            lines.insert(len(rows) + 1, f"  ⋮ {self._fold}")
        tools = [f"Tools: {self._tools}"] if self.context.tools else []
        table = lines if rows else ["Nothing has been committed yet."]
        return "\n".join([f"Context: {self._title}", *self.bar.to_text(), *tools, *table])

    @property
    def _title(self) -> str:
        count = len(self.context.messages)
        at = f" at {self.context.head[:8]}" if self.context.head else ""
        return f"{counted(count, 'message')}{at}"

    @property
    def _fold(self) -> str:
        tokens = show_tokens(self.hidden_tokens, self.context.token_source)
        return f"{counted(self.hidden, 'more message')}, {tokens} tokens"

    @property
    def _tools(self) -> str:
        return join_names([tool_name(tool) for tool in self.context.tools], _TOOLS)


def tool_name(tool: Mapping[str, object]) -> str:
    """Return the name of a tool in the OpenAI format or in a flat one."""
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    return one_line(str(name or "unnamed"), 64)


def _row(number: int, message: Message, source: str) -> Html:
    known = message.role if message.role in _ORDER else OTHER
    role = element("span", speaker(message), class_=f"tract-role tract-{known}")
    return element(
        "tr",
        element("td", f"{number:,}", class_="tract-right tract-dim"),
        element("td", role),
        element("td", _badge(message.priority)),
        element("td", show_tokens(message.token_count, source), class_="tract-right"),
        element("td", _content(message), class_="tract-text", title=message.commit_hash),
    )


def _badge(priority: Priority) -> Html:
    """Return the badge of a priority. The normal priority is only dim text."""
    is_normal = priority is Priority.NORMAL
    look = "tract-dim" if is_normal else f"tract-badge tract-{priority.value}"
    return element("span", priority.value, class_=look)


def _content(message: Message) -> HtmlPart:
    first, text = preview(message, _LINE), full_text(message)
    line = first or element("span", "empty", class_="tract-dim")
    return line if first == text else unfolding(line, text, _WHOLE)


def unfolding(name: HtmlPart, text: str, limit: int) -> Html:
    """Return a line that unfolds to a text of at most `limit` characters."""
    more = more_characters(text, limit)
    note = element("p", more, class_="tract-dim") if more else None
    return element("details", element("summary", name), element("pre", text[:limit]), note)


def _cells(number: int, message: Message, source: str) -> tuple[str, ...]:
    tokens = show_tokens(message.token_count, source)
    return (f"{number:,}", speaker(message), message.priority.value, tokens, preview(message, _TEXT_LINE))


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Align the columns: numbers flush right, the last column unchanged."""
    widths = [max(text_width(row[i]) for row in rows) for i in range(4)]
    lines = []
    for row in rows:
        pads = [" " * (width - text_width(cell)) for width, cell in zip(widths, row, strict=False)]
        role, priority = row[1] + pads[1], row[2] + pads[2]
        lines.append(f"{pads[0]}{row[0]}  {role}  {priority}  {pads[3]}{row[3]}  {row[4]}".rstrip())
    return lines
