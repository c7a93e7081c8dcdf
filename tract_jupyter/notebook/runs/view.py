"""The view of a run, as HTML and as text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import local_time, more_characters, one_line, printable, shortened
from tract_jupyter.notebook.runs.pictures import (
    GLYPHS,
    HOOK_WORDS,
    NodeState,
    duration,
    error_text,
    facts_html,
    head_html,
    mark,
    note_place,
    outcome,
    picture,
    reason_html,
    reasons_html,
    run_page,
    section,
)
from tract_jupyter.notebook.runs.prompt import PromptView
from tract_jupyter.notebook.views.html import View, cell, element, join_names, table, text_width
from tract_jupyter.notebook.views.svg import short
from tract_jupyter.runs import EffectStatus, Hook, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.notebook.runs.pictures import OperationNode, Picture
    from tract_jupyter.notebook.runs.prompt import Inspection
    from tract_jupyter.notebook.views.html import Html, HtmlPart
    from tract_jupyter.runs import Run, RunEvent


_NAME = 60
_NAMED = 8
_COMMITTED = 20
_HASH = 8
_URGENT = (NodeState.ERROR, NodeState.ABORTED, NodeState.WAITING, NodeState.SKIPPED)
_HOOKS = {Hook.BEFORE: "before the main call", Hook.AFTER: "after it"}


@dataclass(frozen=True)
class StatusReason:
    """Operations that are not done for the same reason."""

    state: NodeState
    names: str
    why: str


def standing(run: Run, *, is_interrupted: bool = False) -> str:
    """Return the state of a run in one word."""
    return "interrupted" if is_interrupted and run.status is RunStatus.RUNNING else run.status.value


def facts(picture: Picture) -> list[tuple[str, str]]:
    """Return names and values in the order of the view."""
    run = picture.run
    facts = [
        ("trigger", run.trigger.value),
        ("profile", one_line(run.profile, _NAME) if run.profile else "none"),
        ("branch", one_line(run.branch, _NAME) if run.branch else ""),
        ("time", _time(picture)),
        ("started", local_time(run.started_at) if run.started_at else ""),
        ("reply commit", run.reply_commit[:8] if run.reply_commit else ""),
        ("root hash", run.root_hash[:_HASH] if run.root_hash else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _time(picture: Picture) -> str:
    run = picture.run
    if run.started_at is None:
        return ""
    end = run.finished_at.timestamp() if run.finished_at else picture.at
    return duration(max(end - run.started_at.timestamp(), 0.0) * 1000)


def progress(picture: Picture) -> str:
    """Return the progress of a running run."""
    running = [node for node in picture.nodes if node.state is NodeState.RUNNING]
    parts = [f"{picture.ended:,} of {len(picture.nodes):,} operations have ended"] if picture.nodes else []
    if picture.main is NodeState.RUNNING:
        parts.append("the main call is running")
    parts += [f"running: {_listed(running)}"] if running else []
    return "; ".join(parts) or "starting"


def reasons(picture: Picture) -> list[StatusReason]:
    """Return the reasons why operations are not done, failures first.

    Operations with the same reason share an entry.
    """
    if picture.run.status is RunStatus.RUNNING:
        nodes = [node for node in picture.nodes if node.why and node.state is not NodeState.PLANNED]
    else:
        nodes = [node for node in picture.nodes if node.why]
    groups: dict[tuple[int, str], list[OperationNode]] = {}
    for node in nodes:
        groups.setdefault((_URGENT.index(node.state), node.why), []).append(node)
    ordered = sorted(groups.items(), key=lambda group: group[0][0])
    entries = [StatusReason(_URGENT[rank], _listed(group), why) for (rank, why), group in ordered]
    return [*_not_committed(picture.run.reports), *entries]


def _not_committed(reports: Iterable[Mapping[str, Any]]) -> Iterator[StatusReason]:
    """Yield the rejected effects of operations that are done."""
    for report in reports:
        for entry in report.get("entries", ()):
            if entry.get("status") == EffectStatus.ERROR:
                error = entry.get("error") or {}
                why = error_text(str(error.get("code", "")), str(error.get("message", "")))
                effect = one_line(str(entry.get("effectType", "")), _NAME)
                name = one_line(str(entry.get("operationId", "")), _NAME)
                yield StatusReason(NodeState.ERROR, name, f"Its effect {effect} was not committed. {why}")


def commit_lines(picture: Picture) -> list[str]:
    """Return the commit order of the effects, a sentence for each hook."""
    return [
        f"Committed {_HOOKS[hook]}: {_listed(nodes, ' → ', _COMMITTED)}"
        for hook, nodes in picture.committed.items()
        if nodes
    ]


def side_by_side(chart: Gantt) -> str:
    """Return how many operations ran at the same time, in words."""
    most = chart.most_at_once
    return "one after the other" if most <= 1 else f"up to {most:,} operations at once"


def _listed(nodes: list[OperationNode], between: str = ", ", most: int = _NAMED) -> str:
    names = [
        f"{one_line(node.title, _NAME)}{' (required)' if node.required and node.why else ''}"
        for node in nodes
    ]
    return join_names(names, most, between)


_NODE_NAME = 28
_CELLS = 32
_MOST = 40  # operations of a hook
_REPLY_LINES = 40
_REPLY = 4_000
_NOTE = 2_000


def run_text(picture: Picture, prompt: PromptView | None, note: str = "") -> str:
    """Return a run as text: head, operations by hook, reasons, order of commits, changes of the prompt, reply."""
    run = picture.run
    facts_text = ", ".join(f"{name} {value}" for name, value in facts(picture))
    lines = [
        f"Run {run.run_id[:8]}: {standing(run, is_interrupted=bool(note))} ({facts_text})",
        note or outcome(run),
    ]
    if run.status is RunStatus.RUNNING and not note:
        lines.append(progress(picture))
    lines += _rows(picture)
    lines += [f"{GLYPHS[item.state]} {item.names}: {item.why}" for item in reasons(picture)]
    lines += commit_lines(picture)
    lines += [f"Prompt: {prompt.headline}"] if prompt and prompt.inspection.parts else []
    lines += [
        f"Note {one_line(item.title, _NODE_NAME)}, {note_place(item)}: {shortened(item.text, _NOTE)}"
        for item in run.notes
    ]
    lines += [
        f"Debugging {item.operation_id}: {json.dumps(item.debug, ensure_ascii=False)}"
        for item in run.operations
        if item.debug
    ]
    lines += _reply(run.reply or "")
    return printable("\n".join(line for line in lines if line))


def _rows(picture: Picture) -> Iterator[str]:
    chart = gantt(picture)
    width = max((text_width(short(node.title, _NODE_NAME)) for node in picture.nodes), default=9)
    width = max(width, len("main call"))
    for hook in Hook:
        nodes = picture.of(hook)
        if nodes:
            about = f" ({side_by_side(chart)})" if chart.most_at_once > 1 and hook is Hook.BEFORE else ""
            yield f"{HOOK_WORDS[hook]}{about}"
            yield from (_row(node, chart, width) for node in nodes[:_MOST])
        if len(nodes) > _MOST:
            yield f"  ⋮ {_counted(nodes[_MOST:])}"
        if hook is Hook.BEFORE:
            yield _main(picture, chart, width)


def _counted(nodes: Iterable[OperationNode]) -> str:
    states = [node.state for node in nodes]
    counts = ((state, states.count(state)) for state in NodeState)
    return ", ".join(f"{count:,} more {state}" for state, count in counts if count)


def _row(node: OperationNode, chart: Gantt, width: int) -> str:
    name, bar = short(node.title, _NODE_NAME), chart.of(node)
    bar_text = "" if bar is None else gantt_text(bar, chart.seconds, _CELLS)
    time = duration(node.milliseconds) if node.span and node.milliseconds else ""
    note = (
        f"#{node.committed}"
        if node.committed
        else node.note or ("" if node.state is NodeState.DONE else node.state.value)
    )
    required = "!" if node.required else " "
    return f"  {GLYPHS[node.state]}{required}{_padded(name, width)} {bar_text.ljust(_CELLS)} {time:>9}  {note}".rstrip()


def _main(picture: Picture, chart: Gantt, width: int) -> str:
    bar = chart.of(None)
    bar_text = "" if bar is None else gantt_text(bar, chart.seconds, _CELLS)
    time = duration((bar.end - bar.start) * 1000) if bar and bar.is_exact else ""
    note = "" if picture.main is NodeState.DONE else _main_word(picture.main)
    name = _padded("main call", width + 2)
    return f"{GLYPHS[picture.main]} {name} {bar_text.ljust(_CELLS)} {time:>9}  {note}".rstrip()


def _main_word(state: NodeState) -> str:
    return {NodeState.SKIPPED: "not made", NodeState.PLANNED: "not made yet"}.get(state, state.value)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def _reply(reply: str) -> list[str]:
    if not reply:
        return []
    lines = reply[:_REPLY].strip().split("\n")
    rest = len(lines) > _REPLY_LINES or len(reply) > _REPLY
    return [
        "Reply:",
        *(f"  {line}" for line in lines[:_REPLY_LINES]),
        *(["  ⋮ more follows"] if rest else []),
    ]


# --- the times of operations

_MOMENT = 1e-6  # seconds, so operations without duration also count


@dataclass(frozen=True)
class Bar:
    """A row of a timeline, with start and end in seconds since the first start. The main call has no `node`."""

    title: str
    state: NodeState
    start: float
    end: float
    node: OperationNode | None = None
    is_exact: bool = True


@dataclass(frozen=True)
class Gantt:
    """The rows by their start, and the total time in seconds."""

    bars: tuple[Bar, ...]
    seconds: float

    def of(self, node: OperationNode | None) -> Bar | None:
        """Return the row of an operation, or of the main call if it is None; None if it never started."""
        return self._by_node.get(id(node))

    @cached_property
    def _by_node(self) -> dict[int, Bar]:
        return {id(bar.node): bar for bar in self.bars}

    @property
    def most_at_once(self) -> int:
        """The most operations at the same time. Operations that only touch do not overlap."""
        turns = sorted(
            turn
            for bar in self.bars
            if bar.node
            for turn in ((bar.start, 1), (max(bar.end, bar.start + _MOMENT), -1))
        )
        running = most = 0
        for _, step in turns:
            running += step
            most = max(most, running)
        return most


def gantt(picture: Picture) -> Gantt:
    """Return the timeline of a run. Operations that never started have no row."""
    started = [node for node in picture.nodes if node.span]
    spans = [node.span for node in started if node.span]
    spans += [picture.main_span] if picture.main_span else []
    if not spans:
        return Gantt((), 0.0)
    zero = min(span.start for span in spans)
    bars = [_of(node, zero, picture.at) for node in started]
    if picture.main_span:
        span = picture.main_span
        end = picture.at if span.end is None else span.end
        bars.append(Bar("main call", picture.main, span.start - zero, end - zero, is_exact=span.exact))
    bars.sort(key=lambda bar: (_phase(bar), bar.start, bar.end, bar.title))
    return Gantt(tuple(bars), max(bar.end for bar in bars))


def _of(node: OperationNode, zero: float, at: float) -> Bar:
    start = node.span.start if node.span else zero
    end = node.span.end if node.span and node.span.end is not None else max(at, start)
    return Bar(node.title, node.state, start - zero, end - zero, node)


def _phase(bar: Bar) -> int:
    return 1 if bar.node is None else 0 if bar.node.hook is Hook.BEFORE else 2


def gantt_html(bar: Bar, seconds: float) -> Html:
    """Return a bar of the main color of its state. For screen readers, it is a sentence."""
    share = 100 / seconds if seconds > 0 else 0.0
    start, width = min(bar.start * share, 98.0), max((bar.end - bar.start) * share, 2.0)
    sentence = f"from {duration(bar.start * 1000)} to {duration(bar.end * 1000)}"
    if not bar.is_exact:
        sentence += "; with the commits around it: its own time is not known"
    drawn = element("i", style=f"margin-left:{start:.1f}%;width:{min(width, 100 - start):.1f}%")
    look = ("tract-when", f"tract-{bar.state}", "" if bar.is_exact else "tract-about-then")
    return element("span", drawn, class_=look, role="img", aria_label=sentence, title=sentence)


def gantt_text(bar: Bar, seconds: float, cells: int) -> str:
    """Return a bar of characters."""
    start = min(int(cells * bar.start / seconds), cells - 1) if seconds > 0 else 0
    length = max(1, round(cells * (bar.end - bar.start) / seconds)) if seconds > 0 else 1
    length = min(length, cells - start)
    return f"{' ' * start}{'━' * length}".ljust(cells)


# --- the page

_SHOWN_REPLY = 20_000
_LONG_REPLY = 3_000
_CODE = frozenset({"root hash", "profile", "branch", "reply commit"})
_OPEN = 40  # operations; with more, their table is closed at first
_REASONS = 8


@dataclass(frozen=True)
class RunView(View):
    """The view of a run. `events` of a running run add its current state; `inspection` adds its prompt.

    `now` is the current time of a running run, in seconds since the epoch. `said` replaces the sentence about the
    outcome or the progress.
    """

    run: Run
    events: Sequence[RunEvent] = ()
    inspection: Inspection | None = None
    now: float | None = None
    said: str = ""

    @cached_property
    def picture(self) -> Picture:
        """The data for drawing."""
        return picture(self.run, self.events, self.now)

    def to_html(self) -> Html:
        """Return the run as self-contained HTML."""
        picture = self.picture
        body = (
            _head_html(picture, self.said),
            _progress_html(picture, self.said),
            _reasons_html(reasons(picture)),
            _notes_html(self.run),
            _reply_html(self.run),
            _table_html(picture),
            self._prompt_html(),
            _debug_html(self.run),
        )
        label, status = f"Run {self.run.run_id[:8]}", self.run.status.value
        return run_page(body, label, "tract-run", data_status=status)

    def to_text(self) -> str:
        """Return head, a row with a bar for each operation, reasons, and reply."""
        prompt = None if self.inspection is None else PromptView(self.inspection)
        return run_text(self.picture, prompt, self.said)

    def _prompt_html(self) -> Html | None:
        if self.inspection is None or not self.inspection.parts:
            return None
        view = PromptView(self.inspection)
        return section("Prompt", view.headline, view.body_html(), "tract-run-prompt", is_open=False)


def _head_html(picture: Picture, note: str) -> HtmlPart:
    run = picture.run
    word = standing(run, is_interrupted=bool(note))
    look = "tract-bad" if run.status is RunStatus.FAILED else ""
    what = note or outcome(run)
    return (
        head_html(f"Run {run.run_id[:8]}", word, f"tract-{word}"),
        facts_html(
            (name, element("code", value) if name in _CODE else value) for name, value in facts(picture)
        ),
        element("p", what, class_=look) if what else None,
    )


def _progress_html(picture: Picture, instead: str) -> HtmlPart:
    if instead or picture.run.status is not RunStatus.RUNNING:
        return None
    sentence = progress(picture)
    share = 100 * picture.ended / max(len(picture.nodes), 1)
    filled = element("span", class_="tract-seg tract-assistant", style=f"width:{share:.1f}%")
    return (
        element("p", sentence, class_="tract-now"),
        element("div", filled, class_="tract-bar", role="img", aria_label=sentence),
    )


def _reasons_html(entries: list[StatusReason]) -> HtmlPart:
    if not entries:
        return None
    items = [reason_html(mark(entry.state), entry.names, entry.why) for entry in entries]
    more = len(items) - _REASONS
    rest = element(
        "details",
        element("summary", f"{more:,} more"),
        element("ul", items[_REASONS:], class_="tract-reasons"),
    )
    return reasons_html(items[:_REASONS], "tract-run-reasons"), rest if more > 0 else None


def _reply_html(run: Run) -> Html | None:
    if not run.reply:
        return None
    more = more_characters(run.reply, _SHOWN_REPLY)
    note = element("p", more, class_="tract-dim") if more else None
    body = element("div", run.reply[:_SHOWN_REPLY], class_="tract-reply"), note
    return section("Reply", "", body, "tract-run-reply", is_open=len(run.reply) <= _LONG_REPLY)


def _notes_html(run: Run) -> Html | None:
    entries = [
        (
            one_line(note.title, _NAME),
            note_place(note),
            note.text[:_SHOWN_REPLY],
            more_characters(note.text, _SHOWN_REPLY),
        )
        for note in run.notes
    ]
    return _entries_html("Notes", entries, "tract-run-notes", is_open=True)


def _debug_html(run: Run) -> Html | None:
    entries = [
        (
            one_line(operation.operation_id, _NAME),
            operation.hook.value,
            json.dumps(operation.debug, ensure_ascii=False, indent=1),
            "",
        )
        for operation in run.operations
        if operation.debug
    ]
    return _entries_html("Debugging", entries, "tract-run-debug", is_open=False)


def _entries_html(
    title: str, entries: list[tuple[str, str, str, str]], name: str, *, is_open: bool
) -> Html | None:
    if not entries:
        return None
    items = (
        (
            element("dt", what, " ", element("span", place, class_="tract-about")),
            element("dd", element("pre", text), more),
        )
        for what, place, text, more in entries
    )
    return section(title, f"{len(entries):,}", element("dl", items), name, is_open=is_open)


_COLUMNS = (
    "Operation",
    "Hook",
    "Kind",
    "Status",
    "When",
    "Time",
    "Commit",
    "Order",
    "After",
    "Attempts",
    "Why not done",
)
_LOOKS = {
    **dict.fromkeys(("Commit", "Order", "Time", "Attempts"), "tract-right"),
    "Why not done": "tract-why",
}


def _table_html(picture: Picture) -> Html:
    """Return the operations with their times, and the main call between them."""
    if not picture.nodes:
        return element("p", "No operations: the context was sent without changes.", class_="tract-dim")
    chart = gantt(picture)
    lines = [_cells(node, chart) for node in picture.of(Hook.BEFORE)]
    main = chart.of(None)
    status = f"{GLYPHS[picture.main]} {_main_word(picture.main)}"
    time = duration((main.end - main.start) * 1000) if main and main.is_exact else ""
    drawn = None if main is None else gantt_html(main, chart.seconds)
    lines.append(("main call", "", "", status, drawn, time, "", "", "", "", ""))
    lines += [_cells(node, chart) for node in picture.of(Hook.AFTER)]
    heads, *rows = (
        [cell(content, class_=_LOOKS.get(head)) for head, content in zip(_COLUMNS, line, strict=True)]
        for line in (_COLUMNS, *lines)
    )
    canvas = element("div", table(rows, heads, class_="tract-messages"), class_="tract-canvas")
    about = f"{len(picture.nodes):,}, {side_by_side(chart)}" if chart.bars else f"{len(picture.nodes):,}"
    body = canvas, (element("p", line) for line in commit_lines(picture))
    is_open = len(picture.nodes) <= _OPEN
    return section("Operations", about, body, "tract-run-operations", is_open=is_open)


def _cells(node: OperationNode, chart: Gantt) -> tuple[HtmlPart, ...]:
    bar = chart.of(node)
    required = ", required" if node.required else ""
    note = f", {node.note}" if node.note else ""
    return (
        one_line(node.title, _NAME),
        node.hook.value,
        one_line(node.kind, _NAME),
        f"{GLYPHS[node.state]} {node.state}{required}{note}",
        None if bar is None else gantt_html(bar, chart.seconds),
        duration(node.milliseconds) if node.span else "",
        str(node.committed or ""),
        f"{node.order:g}",
        one_line(", ".join(node.depends_on), _NAME),
        str(node.attempts or ""),
        node.why,
    )
