"""The work of agents inside a call: a row for each agent that unfolds to its conversation."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tract_jupyter.models import counted, shortened
from tract_jupyter.notebook.chat.rows import brief_arguments, tokens_text
from tract_jupyter.notebook.chat.view import grouped_html
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import element
from tract_jupyter.notebook.views.rows import Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.agents import AgentCall
    from tract_jupyter.models import ToolCall
    from tract_jupyter.notebook.agents.live import LiveWork
    from tract_jupyter.notebook.chat.source import StoredWork
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.views.html import HtmlPart

AGENT_CALL: Final = "agent_call"
NAMESPACE: Final = "agents."
_STATES: Final = {
    "running": "running",
    "waiting": "asked",
    "done": "done",
    "stopped": "stopped",
    "failed": "failed",
    "left": "stopped",
}
"""The state of a row for each state of a call."""
_BADGES: Final = {"waiting": "waits for you", "failed": "failed", "stopped": "stopped", "left": "left"}
_NOTE: Final = 2_000
_INSIDE: Final = 1_000
"""Characters of a result inside an agent's conversation."""


@dataclass(frozen=True)
class AgentWork:
    """The state of an agent's call at one moment.

    Attributes:
        agent: the name of the agent.
        number: the number of the call.
        actor: the actor of its tool calls: `agent:` and the chain of agents.
        state: of the call: `running`, `waiting`, `done`, `stopped`, `failed`, `left`.
        told: the task.
        used: the usage: `steps`, `calls`, `tokens`, `usd`, `seconds`.
        note: the reason for an end without an answer.
        answer: its last message.
        turn: its conversation; None if unknown.
        waits: number of its open requests.
    """

    agent: str
    number: int
    actor: str
    state: str
    told: str
    used: Mapping[str, float]
    note: str = ""
    answer: str = ""
    turn: DrawnTurn | None = None
    waits: int = 0

    @classmethod
    def of(cls, call: AgentCall, turn: DrawnTurn | None) -> AgentWork:
        """Return the current state of a call."""
        waits = 0 if turn is None else sum(_waits(part) for part in turn.parts)
        state = "waiting" if waits and call.state.value == "running" else call.state.value
        return cls(
            call.agent, call.number, call.actor, state, call.input, dict(call.taken), call.note, call.answer,
            turn, waits,
        )  # fmt: skip

    @property
    def row_state(self) -> str:
        """The state, a key of `rows.ICONS`."""
        return _STATES[self.state]

    @property
    def badge(self) -> str:
        """A word that draws attention; empty if not needed."""
        return _BADGES.get(self.state, "")

    @property
    def took(self) -> str:
        """The usage in words: requests, tool calls, tokens."""
        used = self.used
        parts = [
            counted(int(used.get("steps", 0)), "request"),
            counted(int(used.get("calls", 0)), "call"),
            tokens_text(int(used.get("tokens", 0))),
        ]
        return ", ".join(parts)

    @property
    def seconds(self) -> float | None:
        """The total time; None while it runs."""
        seconds = self.used.get("seconds")
        return None if self.state in {"running", "waiting"} else seconds

    def row(self, limit: int, *, is_inner: bool = False) -> Row:
        """Return the row. `is_inner` is for one of several rows below a script."""
        brief, text = brief_arguments({"input": self.told})
        return Row(
            self.row_state, "", self.agent, brief, text, self.badge, took=self.took, seconds=self.seconds,
            body=self.body(limit if is_inner else min(limit, _INSIDE)),
        )  # fmt: skip

    def body(self, limit: int) -> HtmlPart:
        """Return the body of the row: task and conversation."""
        task = rows.sub("Task", f"call-{self.number}"), rows.out(self.told, limit)
        note = element("p", shortened(self.note, _NOTE)) if self.note else None
        return task, self.conversation(min(limit, _INSIDE)), note

    def conversation(self, limit: int) -> HtmlPart:
        """Return the conversation with its footer."""
        turn = self.turn
        if turn is None:
            return rows.dim("No result yet.")
        blocks = [block for part in turn.parts for block in part.blocks(limit)]
        return grouped_html(blocks), element("div", turn.foot().html, class_="foot worked")

    def text(self) -> str:
        """Return the row and its calls as text."""
        lines = [self.row(0).text()]
        parts = () if self.turn is None else self.turn.parts
        for part in parts:
            lines += [f"  {line}" for line in part.text().splitlines() if line.strip()]
        return "\n".join(lines)


WorkSource: TypeAlias = "LiveWork | StoredWork"
"""A source of the state of an agent's call. `now` returns the same object until the state changes."""


def inner_rows(works: tuple[AgentWork, ...], limit: int) -> HtmlPart:
    """Return the rows of agents that a script called."""
    if not works:
        return None
    return rows.sub("Agents"), rows.rows([work.row(limit, is_inner=True) for work in works])


def agent_of(call: ToolCall) -> str:
    """Return the name of the called agent; empty for other calls."""
    if call.name == AGENT_CALL:
        return str(call.arguments.get("agent") or "")
    return call.name.removeprefix(NAMESPACE) if call.name.startswith(NAMESPACE) else ""


def number_in(agent: str, text: str) -> int | None:
    """Return the number of the agent's call in a tool result; None if it has none."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        number_match = re.search(rf"the agent {re.escape(repr(agent))} \(call-(\d+)\)", text)
        return int(number_match[1]) if number_match else None
    named = data.get("call") if isinstance(data, dict) else None
    match = re.fullmatch(r"call-(\d+)", named) if isinstance(named, str) else None
    return int(match[1]) if match else None


def _waits(part: Any) -> int:
    below = sum(work.waits for work in getattr(part, "work", ()))
    return int(below + (getattr(part, "state", "") == "asked"))
