"""The state of all agents of a tract, drawn as rows and as text. All text of a model is escaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.agents import AgentState, CallState, tools_of
from tract_jupyter.models import counted, one_line, printable, shortened
from tract_jupyter.notebook.chat.markdown import markdown_text
from tract_jupyter.notebook.chat.rows import tokens_text
from tract_jupyter.notebook.chat.turn import STYLES, turn_page
from tract_jupyter.notebook.chat.view import Foot, TurnBlock
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, element, root_html, table, title
from tract_jupyter.notebook.views.rows import ICONS
from tract_jupyter.notebook.views.styles import styled
from tract_jupyter.review import CHAT, agents_in, how_to_decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.agents import Agent, AgentCall, AgentDefinition, Agents
    from tract_jupyter.notebook.agents.live import AgentWatch
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.chat.work import AgentWork
    from tract_jupyter.notebook.views.html import Html, HtmlPart
    from tract_jupyter.storage import StoredPending

GO_ON: Final = "%tract agents resume NAME"
SHOW: Final = "%tract agents"
_SAID: Final = 120
_READ: Final = 400
"""The number of characters of an answer that are read for its line."""
_TRANSCRIPTS: Final = 12
"""The number of calls with a conversation in the tree. For other calls, the tree names the command."""
_OF_ONE: Final = 5
_RESULT: Final = 600
_LONG: Final = 4_000
_WAITING: Final = 100
_NOUNS: Final = {
    "steps": "request",
    "calls": "call",
    "tokens": "token",
    "usd": "USD",
    "seconds": "second",
}
_WORDS: Final = {
    CallState.DONE: ("done", "answered"),
    CallState.STOPPED: ("stopped", "stopped"),
    CallState.FAILED: ("failed", "failed"),
    CallState.WAITING: ("asked", "waits for a decision"),
    CallState.LEFT: ("stopped", "ended with its process"),
    CallState.RUNNING: ("running", "working in another process"),
}


@dataclass(frozen=True)
class AgentLine:
    """The state of an agent.

    Attributes:
        name: the name.
        depth: the number of agents above it.
        state: a key of `rows.ICONS`.
        word: the current activity, or the end of the last call.
        said: more about it, or the last answer.
        badge: a word on a color.
        version: the version of the definition.
        numbers: the usage: `steps`, `calls`, `tokens`, `usd`.
        left: the rest of the budget in words.
        share: the used share of the tightest limit, from 0 to 1; None without a limit.
        is_dim: the agent cannot be called.
        body: the unfolded content.
        asks: the open requests, each with the command that decides it.
    """

    name: str
    depth: int
    state: str
    word: str
    said: str = ""
    badge: str = ""
    version: int = 1
    numbers: Mapping[str, float] = field(default_factory=dict)
    left: str = ""
    share: float | None = None
    is_dim: bool = False
    body: HtmlPart = None
    asks: tuple[tuple[str, str], ...] = ()

    def html(self) -> Html:
        """Return the row."""
        look, _ = ICONS[self.state]
        cost = _money(self.numbers.get("usd", 0.0))
        cells = (
            element("i", class_=f"i {look}"),
            rows.named(self.name),
            element("span", f"v{self.version}", class_="dim"),
            element(
                "span", element("b", self.word), " ", element("span", self.said, class_="dim"), class_="cut"
            ),
            rows.badge(self.badge, "wait") if self.badge else None,
            self._share_html(),
            rows.number(self.left, "left wide-only"),
            rows.number(tokens_text(int(self.numbers.get("tokens", 0))), "tok"),
            rows.number(counted(int(self.numbers.get("calls", 0)), "call"), "wide-only calls"),
            rows.number(cost, "sec") if cost else None,
        )
        look = "agent dim" if self.is_dim else "agent"
        return rows.row(cells, self.body, look=look, before=rows.indent(self.depth))

    def _share_html(self) -> Html | None:
        if self.share is None:
            return None
        return element(
            "span", rows.share_bar(self.share, f"{100 * self.share:.0f} % of its budget"), class_="wide-only"
        )

    def text(self) -> str:
        """Return the row as text."""
        numbers = self.numbers
        took = [
            tokens_text(int(numbers.get("tokens", 0))),
            counted(int(numbers.get("calls", 0)), "call"),
            _money(numbers.get("usd", 0.0)),
            self.left,
        ]
        detail = f": {self.said}" if self.said else ""
        line = f"{'  ' * self.depth}{self.name} v{self.version}  {self.word}{detail}  {' · '.join(filter(None, took))}"
        asks = [f"{'  ' * self.depth}  waits: {title}; {how} decides it" for title, how in self.asks]
        return printable("\n".join([line, *asks]))


@dataclass(frozen=True)
class DrawnTree(View):
    """The state of all agents. `past` has the command that shows or resumes each agent of an earlier session."""

    turn_id: str
    lines: tuple[AgentLine, ...]
    past: tuple[tuple[AgentLine, str], ...]
    head: str
    is_over: bool
    told: str = ""

    @property
    def go_on(self) -> str:
        """The command that resumes a call."""
        return GO_ON

    def blocks(self) -> list[TurnBlock]:
        """Return the head, a row for each agent, and the agents of earlier sessions."""
        head = element("div", element("b", self.head), class_="line agents-head")
        blocks = [TurnBlock("head", head)]
        if self.told:
            blocks.append(TurnBlock("told", element("div", element("p", self.told), class_="note")))
        for line in self.lines:
            blocks.append(TurnBlock(f"agent.{line.name}", line.html(), kind="row"))
            blocks += [
                TurnBlock(f"ask.{line.name}.{number}", _ask_html(line, *ask), kind="row")
                for number, ask in enumerate(line.asks)
            ]
        if self.past:
            blocks.append(TurnBlock("past", self._past_html(), kind="row"))
        return blocks

    def foot(self) -> Foot:
        """Return the last line."""
        actions: tuple[Action, ...] = () if self.is_over else ("stop",)
        hint = "%tract agents NAME shows one agent" if self.lines or self.past else ""
        return Foot(element("span", hint, class_="dim"), actions)

    def to_html(self) -> Html:
        """Return self-contained static HTML."""
        return turn_page(self.blocks(), self.foot(), self.turn_id, "Agents", "tract-agents")

    def to_text(self) -> str:
        """Return the same as plain text."""
        lines = [self.head, self.told, *(line.text() for line in self.lines)]
        if self.past:
            lines += ["Earlier sessions:", *(f"{line.text()}  ({typed})" for line, typed in self.past)]
        return printable("\n".join(filter(None, lines)))

    def _past_html(self) -> Html:
        unfinished = sum("resume" in typed for _, typed in self.past)
        about = f"{unfinished:,} not done" if unfinished else "none can be called"
        cells = (
            rows.icon("back"),
            rows.said("Earlier sessions"),
            rows.cut(f"{counted(len(self.past), 'agent')}; {about}"),
        )
        return rows.row(cells, rows.rows(line.html() for line, _ in self.past))


def _ask_html(line: AgentLine, title: str, how: str) -> Html:
    return element(
        "div",
        rows.indent(line.depth) or element("span", class_="in", style="width:0px"),
        rows.icon("wait"),
        element("span", element("b", title), class_="cut"),
        element("small", element("code", how), " decides it"),
        class_="line asks-line",
    )


def drawn_tree(watch: AgentWatch, turn_id: str = "") -> DrawnTree:
    """Return the current state of all agents."""
    agents = watch.tract.agents
    current = list(agents)
    requests = _open_requests(watch)
    newest, toolsets = _newest(current), agents.toolsets
    lines = tuple(
        _line(watch, agent, depth, requests.get(agent.name, ()), newest, toolsets)
        for agent, depth in _nested(current)
    )
    of_past = agents.past()
    past = tuple((_past_line(agent), _command_of(agent)) for agent in of_past)
    is_over = not any(call.state is CallState.RUNNING for agent in current for call in agent.calls)
    return DrawnTree(
        turn_id or "agents", lines, past, _head(agents, current, lines), is_over, _unfinished_text(of_past)
    )


def _newest(agents: Iterable[Agent]) -> frozenset[tuple[str, int]]:
    """Return the newest calls. The tree has their conversations."""
    calls = sorted((call for agent in agents for call in agent.calls), key=lambda call: call.began)
    return frozenset((call.agent, call.number) for call in calls[-_TRANSCRIPTS:])


def _nested(agents: list[Agent]) -> list[tuple[Agent, int]]:
    """Return agents in order, each below its maker. An agent that the user made is below its last caller."""
    by_name = {agent.name: agent for agent in agents}
    above: dict[str, str] = {}
    for agent in agents:
        callers = [call.chain[-2] for call in agent.calls[-1:] if len(call.chain) > 1]
        for name in (*agent.maker[-1:], *callers):
            if name in by_name and not _is_below(name, agent.name, above):
                above[agent.name] = name
                break
    below: dict[str, list[Agent]] = {}
    for agent in agents:
        below.setdefault(above.get(agent.name, ""), []).append(agent)
    nested: list[tuple[Agent, int]] = []
    to_do = [(agent, 0) for agent in reversed(below.get("", []))]
    while to_do:
        agent, depth = to_do.pop()
        nested.append((agent, depth))
        to_do += [(child, depth + 1) for child in reversed(below.get(agent.name, []))]
    return nested


def _is_below(name: str, other: str, above: Mapping[str, str]) -> bool:
    at: str | None = name
    while at is not None:
        if at == other:
            return True
        at = above.get(at)
    return False


def _open_requests(watch: AgentWatch) -> dict[str, tuple[tuple[str, str], ...]]:
    waiting: list[StoredPending] = watch.tract.review.ledger.waiting(_WAITING)
    requests: dict[str, tuple[tuple[str, str], ...]] = {}
    for stored in waiting:
        names = agents_in(stored.actor)
        if names:
            request = (one_line(stored.title, _SAID), how_to_decide(stored.pending_id))
            requests[names[-1]] = (*requests.get(names[-1], ()), request)
    return requests


def _line(
    watch: AgentWatch,
    agent: Agent,
    depth: int,
    asks: tuple[tuple[str, str], ...],
    newest: frozenset[tuple[str, int]],
    toolsets: Mapping[str, frozenset[str]],
) -> AgentLine:
    meter = watch.tract.agents.meter_of(agent)
    running = [call for call in agent.calls if call.state is CallState.RUNNING]
    used = {noun: meter.taken(noun) + sum(call.taken.get(noun, 0) for call in running) for noun in _NOUNS}
    limits = {noun: limit for noun in _NOUNS if (limit := getattr(meter.limits, noun)) is not None}
    tightest = max(limits, key=lambda noun: used[noun] / limits[noun], default="")
    remaining = _remaining_text(tightest, used, limits)
    works = {
        call.number: watch.work(call)
        for call in agent.calls
        if (call.agent, call.number) in newest or call in running
    }
    state, word, detail = _state(agent, running, asks, works)
    return AgentLine(
        agent.name, depth, state, word, detail, "waits for you" if asks else "", agent.version, used, remaining,
        used[tightest] / limits[tightest] if tightest else None, agent.state is AgentState.RETIRED,
        _body(watch, agent, toolsets, works), asks,
    )  # fmt: skip


def _state(
    agent: Agent, running: list[AgentCall], asks: tuple[tuple[str, str], ...], works: Mapping[int, AgentWork]
) -> tuple[str, str, str]:
    if agent.state is AgentState.RETIRED:
        return "idle", "retired", "its calls can be read"
    blocked = agent.why_blocked
    if blocked and not running:
        return "failed", "blocked", one_line(blocked, _READ)
    if running:
        work = works.get(running[-1].number)
        turn = None if work is None else work.turn
        phase = "" if turn is None else turn.phase
        if asks:
            return "asked", "asks", asks[0][0]
        return "running", "working", phase
    if not agent.calls:
        return "idle", "ready", one_line(agent.definition.description, _SAID)
    last = agent.calls[-1]
    icon, word = _WORDS[last.state]
    detail = _plain(last.answer[:_READ]) if last.state is CallState.DONE else last.note
    return icon, word, one_line(detail, _SAID)


@lru_cache(maxsize=1_000)
def _plain(answer: str) -> str:
    return markdown_text(answer)


def _remaining_text(tightest: str, used: Mapping[str, float], limits: Mapping[str, float]) -> str:
    if not tightest:
        return "no limit"
    remaining = max(limits[tightest] - used[tightest], 0)
    if tightest == "usd":
        return f"${remaining:.2f} of ${limits[tightest]:.2f} left"
    return f"{remaining:,.0f} of {counted(int(limits[tightest]), _NOUNS[tightest])} left"


def _model(definition: AgentDefinition) -> str:
    if definition.runtime:
        return "its own"
    return definition.model or ", ".join(definition.compatible_models) or "its caller\u2019s"


def _body(
    watch: AgentWatch, agent: Agent, toolsets: Mapping[str, frozenset[str]], works: Mapping[int, AgentWork]
) -> HtmlPart:
    definition = agent.definition
    tools = sorted(tools_of(definition, toolsets))
    facts = [
        "adopted from a file" if agent.is_adopted else f"made by {_maker(agent)}",
        f"version {agent.version}",
        f"runs on {definition.runtime}"
        if definition.runtime
        else definition.model or "its caller\u2019s model",
        f"may call {', '.join(tools)}" if tools else "calls no tools",
        f"budget {definition.budget or watch.tract.agents.limits.agent}",
    ]
    parts: list[HtmlPart] = [
        element("p", why) if (why := agent.why_blocked) else None,
        element("p", shortened(definition.description, _LONG)) if definition.description else None,
        rows.dim(" · ".join(facts)),
    ]
    displayed = [works[call.number] for call in agent.calls[-_OF_ONE:] if call.number in works]
    more = len(agent.calls) - len(displayed)
    if displayed:
        parts.append(rows.rows([work.row(_RESULT) for work in displayed]))
    if more:
        command = element("code", f"%tract agents show {agent.name} N")
        parts.append(rows.dim((f"{counted(more, 'more call')}: ", command, " shows one")))
    return parts


def _maker(agent: Agent) -> str:
    first = {"user": "you", CHAT: "the model"}.get(agent.creator, agent.creator)
    return " → ".join(("you", *agent.maker)) if agent.maker else first


def _head(agents: Agents, active: list[Agent], lines: Iterable[AgentLine]) -> str:
    working = sum(line.state == "running" for line in lines)
    waits = sum(bool(line.asks) for line in lines)
    tree = agents.meter
    running = [call.taken for agent in active for call in agent.calls if call.state is CallState.RUNNING]
    tokens = int(tree.taken("tokens") + sum(running_call.get("tokens", 0) for running_call in running))
    usd = tree.taken("usd") + sum(running_call.get("usd", 0) for running_call in running)
    parts = [
        counted(len(active), "agent") if active else "No agents yet: %%tract_agent NAME defines one",
        f"{working:,} working" if working else "",
        f"{waits:,} {'waits' if waits == 1 else 'wait'} for you" if waits else "",
        tokens_text(tokens) if tokens else "",
        _money(usd),
    ]
    return " · ".join(filter(None, parts))


def _past_line(agent: Agent) -> AgentLine:
    calls = agent.calls
    last = calls[-1] if calls else None
    if agent.state is AgentState.RETIRED:
        state, word = "idle", "retired"
    else:
        state, word = ("idle", "not called") if last is None else _WORDS[last.state]
    detail = "" if last is None else (last.elsewhere or last.answer or last.note)
    detail = _command_of(agent) if _is_unfinished(agent) else detail
    numbers = {noun: sum(call.used.get(noun, 0) for call in calls) for noun in _NOUNS}
    body = element("p", agent.definition.description), rows.dim(element("code", _command_of(agent)))
    return AgentLine(
        agent.name, 0, state, word, one_line(detail, _SAID), version=agent.version, numbers=numbers, is_dim=True,
        body=body,
    )  # fmt: skip


def _is_unfinished(agent: Agent) -> bool:
    """Return True if the last call is unfinished: stopped, failed, waiting, or ended with its process."""
    last = agent.calls[-1] if agent.calls else None
    is_open = last is not None and last.state.is_open and not last.elsewhere
    return is_open and agent.state is not AgentState.RETIRED


def _command_of(agent: Agent) -> str:
    if _is_unfinished(agent):
        return f"%tract agents resume {agent.name}"
    return f"%tract agents {agent.name}"


def _unfinished_text(past: Iterable[Agent]) -> str:
    names = [agent.name for agent in past if _is_unfinished(agent)]
    if not names:
        return ""
    were = "was" if len(names) == 1 else "were"
    return (
        f"{one_line(', '.join(names), _SAID)} {were} unfinished at the end of an earlier session. "
        "Finished calls are not repeated, and the used budget still counts. "
        f"%tract agents resume {names[0]} resumes it."
    )


def _money(usd: float) -> str:
    if not usd:
        return ""
    return "< $0.01" if usd < 0.01 else f"${usd:,.2f}"  # noqa: PLR2004 # a cent


# --- one of them


class AgentPage(View):
    """One agent: its definition, its instructions and its calls. `calls` are all stored ones, the oldest first."""

    def __init__(self, watch: AgentWatch, agent: Agent, calls: list[AgentCall], *, is_past: bool) -> None:
        self._agent = agent
        self._works = [watch.work(call) for call in calls[-_OF_ONE:]]
        self._more = len(calls) - len(self._works)
        newest = frozenset((call.agent, call.number) for call in calls[-_OF_ONE:])
        self._line = (
            _past_line(agent)
            if is_past
            else _line(
                watch,
                agent,
                0,
                _open_requests(watch).get(agent.name, ()),
                newest,
                watch.tract.agents.toolsets,
            )
        )
        self._facts = self._read_facts(watch, is_past=is_past)

    def to_html(self) -> Html:
        """Return the page as HTML."""
        agent = self._agent
        works = [work.row(_LONG) for work in self._works]
        inner = (
            title(f"Agent {agent.name}", 3),
            table(self._facts, has_names=True),
            rows.sub("Instructions"),
            rows.out(agent.definition.instructions, 50_000),
            (rows.sub("Calls"), rows.rows(works)) if works else None,
            rows.dim(counted(self._more, "earlier call")) if self._more else None,
        )
        return styled(root_html(inner, look="tract turn", data_testid="tract-agent"), *STYLES)

    def to_text(self) -> str:
        """Return the page as text."""
        agent = self._agent
        lines = [
            f"Agent {agent.name}",
            *(f"  {name}: {value}" for name, value in self._facts),
            "Instructions:",
        ]
        lines += [f"  {line}" for line in agent.definition.instructions.split("\n")]
        lines += [work.text() for work in self._works]
        return printable("\n".join(lines))

    def _read_facts(self, watch: AgentWatch, *, is_past: bool) -> list[tuple[str, str]]:
        agent, line = self._agent, self._line
        definition = agent.definition
        tools = ", ".join(sorted(watch.tract.agents.granted(definition))) or "none"
        facts: list[tuple[str, Any]] = [
            ("State", f"{line.word}, in an earlier session" if is_past else line.word),
            ("Blocked", "" if is_past else agent.why_blocked),
            ("For", definition.description),
            ("Version", f"{agent.version}, {agent.hash[:8]}"),
            ("Made by", _maker(agent)),
            ("Written by", agent.making.get("model", "")),
            ("In cell", agent.making.get("cell", "")),
            ("Runs on", definition.runtime or ""),
            ("Model", _model(definition)),
            ("Tools", tools),
            ("Budget", str(definition.budget or watch.tract.agents.limits.agent)),
            ("Left", line.left.removesuffix(" left")),
            ("File", "" if agent.path is None else agent.path.name),
            ("Promoted to", str(agent.promoted.get("path", ""))),
        ]
        return [(name, str(value)) for name, value in facts if value]
