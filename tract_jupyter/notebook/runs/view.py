"""The view of a run, as HTML and as text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import local_time, more_characters, one_line, printable, shortened
from tract_jupyter.notebook.runs.graph import gantt, gantt_svg, gantt_text, graph_svg
from tract_jupyter.notebook.runs.pictures import (
    GLYPHS,
    NodeState,
    duration,
    error_text,
    note_place,
    outcome,
    picture,
)
from tract_jupyter.notebook.runs.prompt import PromptView
from tract_jupyter.notebook.runs.stages import is_many, stages_html
from tract_jupyter.notebook.views.html import (
    OWN_KEYS,
    View,
    escaped,
    heading,
    root_html,
    style_tag,
    text_width,
)
from tract_jupyter.notebook.views.svg import short
from tract_jupyter.runs import EffectStatus, Hook, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.notebook.runs.graph import Bar, Gantt
    from tract_jupyter.notebook.runs.pictures import OperationNode, Picture, RunEventLike
    from tract_jupyter.notebook.runs.prompt import Inspection
    from tract_jupyter.runs import Run


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
    """Return how a run ended, or that it goes on; one word."""
    return "interrupted" if is_interrupted and run.status is RunStatus.RUNNING else run.status.value


def facts(shown: Picture) -> list[tuple[str, str]]:
    """Return names and values in the order in which they are shown."""
    run = shown.run
    told = [
        ("trigger", run.trigger.value),
        ("profile", one_line(run.profile, _NAME) if run.profile else "none"),
        ("branch", one_line(run.branch, _NAME) if run.branch else ""),
        ("time", _time(shown)),
        ("started", local_time(run.started_at) if run.started_at else ""),
        ("reply commit", run.reply_commit[:8] if run.reply_commit else ""),
        ("root hash", run.root_hash[:_HASH] if run.root_hash else ""),
    ]
    return [(name, value) for name, value in told if value]


def _time(shown: Picture) -> str:
    run = shown.run
    if run.started_at is None:
        return ""
    end = run.finished_at.timestamp() if run.finished_at else shown.at
    return duration(max(end - run.started_at.timestamp(), 0.0) * 1000)


def progress(shown: Picture) -> str:
    """Return how far a run that goes on is."""
    running = [node for node in shown.nodes if node.state is NodeState.RUNNING]
    told = [f"{shown.ended:,} of {len(shown.nodes):,} operations have ended"] if shown.nodes else []
    if shown.main is NodeState.RUNNING:
        told.append("the main call is running")
    told += [f"running: {_listed(running)}"] if running else []
    return "; ".join(told) or "starting"


def reasons(shown: Picture) -> list[StatusReason]:
    """Return why operations are not done, the failed ones first; those with the same reason together."""
    if shown.run.status is RunStatus.RUNNING:
        nodes = [node for node in shown.nodes if node.why and node.state is not NodeState.PLANNED]
    else:
        nodes = [node for node in shown.nodes if node.why]
    groups: dict[tuple[int, str], list[OperationNode]] = {}
    for node in nodes:
        groups.setdefault((_URGENT.index(node.state), node.why), []).append(node)
    ordered = sorted(groups.items(), key=lambda group: group[0][0])
    told = [StatusReason(_URGENT[rank], _listed(group), why) for (rank, why), group in ordered]
    return [*_not_committed(shown.run.reports), *told]


def _not_committed(reports: Iterable[Mapping[str, Any]]) -> Iterator[StatusReason]:
    """Yield the refused effects of operations that are done."""
    for report in reports:
        for entry in report.get("entries", ()):
            if entry.get("status") == EffectStatus.ERROR:
                error = entry.get("error") or {}
                why = error_text(str(error.get("code", "")), str(error.get("message", "")))
                effect = one_line(str(entry.get("effectType", "")), _NAME)
                name = one_line(str(entry.get("operationId", "")), _NAME)
                yield StatusReason(NodeState.ERROR, name, f"Its effect {effect} was not committed. {why}")


def commit_lines(shown: Picture) -> list[str]:
    """Return the order in which effects were committed, a sentence for each hook."""
    return [
        f"Committed {_HOOKS[hook]}: {_listed(nodes, ' → ', _COMMITTED)}"
        for hook, nodes in shown.committed.items()
        if nodes
    ]


def side_by_side(chart: Gantt) -> str:
    """Return how much ran at once."""
    most = chart.most_at_once
    return "one after the other" if most <= 1 else f"up to {most:,} operations at once"


def _listed(nodes: list[OperationNode], between: str = ", ", most: int = _NAMED) -> str:
    names = [
        f"{one_line(node.title, _NAME)}{' (required)' if node.required and node.why else ''}"
        for node in nodes
    ]
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


_NODE_NAME = 28
_CELLS = 32
_MOST = 40  # operations of a hook
_REPLY_LINES = 40
_REPLY = 4_000
_NOTE = 2_000
_HEADS = {Hook.BEFORE: "before the main call", Hook.AFTER: "after the main call"}


def run_text(shown: Picture, prompt: PromptView | None, said: str = "") -> str:
    """Write a run as text: head, operations by hook, reasons, order of commits, what is new in the prompt, reply."""
    run = shown.run
    told = ", ".join(f"{name} {value}" for name, value in facts(shown))
    lines = [
        f"Run {run.run_id[:8]}: {standing(run, is_interrupted=bool(said))} ({told})",
        said or outcome(run),
    ]
    if run.status is RunStatus.RUNNING and not said:
        lines.append(progress(shown))
    lines += _rows(shown)
    lines += [f"{GLYPHS[one.state]} {one.names}: {one.why}" for one in reasons(shown)]
    lines += commit_lines(shown)
    lines += [f"Prompt: {prompt.headline}"] if prompt and prompt.inspection.parts else []
    lines += [
        f"Note {one_line(one.title, _NODE_NAME)}, {note_place(one)}: {shortened(one.text, _NOTE)}"
        for one in run.notes
    ]
    lines += [
        f"Debugging {one.operation_id}: {json.dumps(one.debug, ensure_ascii=False)}"
        for one in run.operations
        if one.debug
    ]
    lines += _reply(run.reply or "")
    return printable("\n".join(line for line in lines if line))


def _rows(shown: Picture) -> Iterator[str]:
    chart = gantt(shown)
    bars = {id(bar.node): bar for bar in chart.bars if bar.node}
    width = max((text_width(short(node.title, _NODE_NAME)) for node in shown.nodes), default=9)
    width = max(width, len("main call"))
    for hook in Hook:
        nodes = shown.of(hook)
        if nodes:
            about = f" ({side_by_side(chart)})" if chart.most_at_once > 1 and hook is Hook.BEFORE else ""
            yield f"{_HEADS[hook]}{about}"
            yield from (_row(node, bars.get(id(node)), chart, width) for node in nodes[:_MOST])
        if len(nodes) > _MOST:
            yield f"  ⋮ {_counted(nodes[_MOST:])}"
        if hook is Hook.BEFORE:
            yield _main(shown, chart, width)


def _counted(nodes: Iterable[OperationNode]) -> str:
    states = [node.state for node in nodes]
    counts = ((state, states.count(state)) for state in NodeState)
    return ", ".join(f"{count:,} more {state}" for state, count in counts if count)


def _row(node: OperationNode, bar: Bar | None, chart: Gantt, width: int) -> str:
    name = short(node.title, _NODE_NAME)
    drawn = "" if bar is None else gantt_text(bar, chart.seconds, _CELLS)
    time = duration(node.milliseconds) if node.span and node.milliseconds else ""
    told = (
        f"#{node.committed}"
        if node.committed
        else node.note or ("" if node.state is NodeState.DONE else node.state.value)
    )
    required = "!" if node.required else " "
    return f"  {GLYPHS[node.state]}{required}{_padded(name, width)} {drawn.ljust(_CELLS)} {time:>9}  {told}".rstrip()


def _main(shown: Picture, chart: Gantt, width: int) -> str:
    bar = next((bar for bar in chart.bars if bar.is_main), None)
    drawn = "" if bar is None else gantt_text(bar, chart.seconds, _CELLS)
    time = duration((bar.end - bar.start) * 1000) if bar and bar.is_exact else ""
    said = {NodeState.SKIPPED: "not made", NodeState.PLANNED: "not made yet", NodeState.DONE: ""}.get(
        shown.main, shown.main.value
    )
    return f"{GLYPHS[shown.main]} {_padded('main call', width + 2)} {drawn.ljust(_CELLS)} {time:>9}  {said}".rstrip()


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


_SHOWN_REPLY = 20_000
_LONG_REPLY = 3_000
_OPEN = 40  # operations; the time line of more is closed at first
_REASONS = 8


@dataclass(frozen=True)
class RunView(View):
    """A run, shown. `events` of one that goes on say what runs now; `inspection` adds its prompt.

    `now` is the present, in seconds since the epoch, of a run that goes on; `said` stands in the place of what is said
    about how a run ended or how far it is.
    """

    run: Run
    events: Sequence[RunEventLike] = ()
    inspection: Inspection | None = None
    now: float | None = None
    said: str = ""

    @cached_property
    def picture(self) -> Picture:
        """The run as data to draw."""
        return picture(self.run, self.events, self.now)

    def to_html(self) -> str:
        """Return a part of a page that stands alone, everything escaped."""
        status = self.run.status.value
        styles = style_tag("views/views.css", "views/runs.css")
        body = [
            _head_html(self.picture, self.said),
            _progress_html(self.picture, self.said),
            _graph_html(self.picture),
        ]
        body += [_reasons_html(reasons(self.picture)), _notes_html(self.run), _reply_html(self.run)]
        body += [
            _timeline_html(self.picture),
            _table_html(self.picture),
            self._prompt_html(),
            _debug_html(self.run),
        ]
        named = (
            f'data-testid="tract-run" data-status="{status}" aria-label="Run {escaped(self.run.run_id[:8])}"'
        )
        return styles + root_html("".join(body), "tract-views tract-run", tag="section", attributes=named)

    def to_text(self) -> str:
        """Return head, a row with a bar for each operation, reasons, and reply."""
        prompt = None if self.inspection is None else PromptView(self.inspection)
        return run_text(self.picture, prompt, self.said)

    def _prompt_html(self) -> str:
        if self.inspection is None or not self.inspection.parts:
            return ""
        view = PromptView(self.inspection)
        return _section("Prompt", view.headline, view.body_html(), "prompt", is_open=False)


def _head_html(shown: Picture, said: str) -> str:
    run = shown.run
    told = "".join(f"<span><b>{name}</b> {_value(name, value)}</span>" for name, value in facts(shown))
    word = standing(run, is_interrupted=bool(said))
    said = said or outcome(run)
    css = ' class="tract-bad"' if run.status is RunStatus.FAILED else ""
    what = f"<p{css}>{escaped(said)}</p>" if said else ""
    badge = f'<span class="tract-badge tract-{word}">{word}</span>'
    title = heading(f"Run {run.run_id[:8]}", 3)
    return f'<header>{title}{badge}</header><p class="tract-facts">{told}</p>{what}'


def _value(name: str, value: str) -> str:
    text = escaped(value)
    return f"<code>{text}</code>" if name in {"root hash", "profile", "branch", "reply commit"} else text


def _progress_html(shown: Picture, instead: str) -> str:
    if instead or shown.run.status is not RunStatus.RUNNING:
        return ""
    said = escaped(progress(shown))
    share = 100 * shown.ended / max(len(shown.nodes), 1)
    return (
        f'<p class="tract-now">{said}</p><div class="tract-bar" role="img" aria-label="{said}">'
        f'<span class="tract-seg tract-assistant" style="width:{share:.1f}%"></span></div>'
    )


def _graph_html(shown: Picture) -> str:
    if not shown.nodes:
        return '<p class="tract-dim">No operations: the context was sent as it stands.</p>'
    if is_many(shown.nodes):
        stages = stages_html(shown.nodes, shown.main)
        return f'<div data-testid="tract-run-graph">{stages}</div>{legend_html(shown.nodes)}'
    drawing = (
        f'<div class="tract-canvas tract-flow" data-testid="tract-run-graph" {OWN_KEYS} tabindex="0" role="region" '
        f'aria-label="Graph of operations">{graph_svg(shown)}</div>'
    )
    return drawing + legend_html(shown.nodes)


def legend_html(nodes: Iterable[OperationNode]) -> str:
    """Return what the marks of a graph mean, and how many there are of each."""
    nodes = list(nodes)
    counts = {state: sum(node.state is state for node in nodes) for state in NodeState}
    entries = "".join(
        f'<span><i class="tract-mark tract-{state}">{GLYPHS[state]}</i>{count:,} {state.value}</span>'
        for state, count in counts.items()
        if count
    )
    required = "<span>thick border: required</span>" if any(node.required for node in nodes) else ""
    return f'<p class="tract-legend">{entries}{required}<span>Hover over an operation for more</span></p>'


def _reasons_html(told: list[StatusReason]) -> str:
    if not told:
        return ""
    rows = [
        f'<li><i class="tract-mark tract-{one.state}">{GLYPHS[one.state]}</i>'
        f"<b>{escaped(one.names)}</b> {escaped(one.why)}</li>"
        for one in told
    ]
    more = len(rows) - _REASONS
    rest = (
        f"<details><summary {OWN_KEYS}>"
        f"{more:,} more</summary><ul class='tract-reasons'>{''.join(rows[_REASONS:])}</ul></details>"
        if more > 0
        else ""
    )
    return f'<ul class="tract-reasons" data-testid="tract-run-reasons">{"".join(rows[:_REASONS])}</ul>{rest}'


def _reply_html(run: Run) -> str:
    if not run.reply:
        return ""
    more = more_characters(run.reply, _SHOWN_REPLY)
    note = f'<p class="tract-dim">{more}</p>' if more else ""
    body = f'<div class="tract-reply">{escaped(run.reply[:_SHOWN_REPLY])}</div>{note}'
    return _section("Reply", "", body, "reply", is_open=len(run.reply) <= _LONG_REPLY)


def _notes_html(run: Run) -> str:
    if not run.notes:
        return ""
    rows = [
        f"<dt>{escaped(one_line(one.title, _NAME))} <span class='tract-about'>{escaped(note_place(one))}</span></dt>"
        f"<dd><pre>{escaped(one.text[:_SHOWN_REPLY])}</pre>{escaped(more_characters(one.text, _SHOWN_REPLY))}</dd>"
        for one in run.notes
    ]
    return _section("Notes", f"{len(rows):,}", f"<dl>{''.join(rows)}</dl>", "notes", is_open=True)


def _debug_html(run: Run) -> str:
    kept = [one for one in run.operations if one.debug]
    rows = [
        f"<dt>{escaped(one_line(one.operation_id, _NAME))} <span class='tract-about'>{one.hook.value}</span></dt>"
        f"<dd><pre>{escaped(json.dumps(one.debug, ensure_ascii=False, indent=1))}</pre></dd>"
        for one in kept
    ]
    return (
        _section("Debugging", f"{len(rows):,}", f"<dl>{''.join(rows)}</dl>", "debug", is_open=False)
        if rows
        else ""
    )


def _timeline_html(shown: Picture) -> str:
    chart = gantt(shown)
    if not any(bar.node for bar in chart.bars):
        return ""
    committed = "".join(f"<p>{escaped(line)}</p>" for line in commit_lines(shown))
    body = (
        f'<div class="tract-canvas" data-testid="tract-run-gantt" {OWN_KEYS}'
        f' tabindex="0" role="region" aria-label="Time line">'
        f"{gantt_svg(chart)}</div>{committed}"
    )
    return _section("Time line", side_by_side(chart), body, "timeline", is_open=len(chart.bars) <= _OPEN)


def _table_html(shown: Picture) -> str:
    if not shown.nodes:
        return ""
    heads = (
        "Operation",
        "Hook",
        "Kind",
        "Status",
        "Commit",
        "Order",
        "After",
        "Time",
        "Attempts",
        "Why not done",
    )
    right = {"Commit", "Order", "Time", "Attempts"}
    head = "".join(f'<th scope="col"{_right(name, right)}>{name}</th>' for name in heads)
    rows = "".join(_table_row(heads, node, right) for node in shown.nodes)
    table = f'<table class="tract-messages"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    count = f"{len(shown.nodes):,}"
    return _section(
        "Operations", count, f'<div class="tract-canvas">{table}</div>', "operations", is_open=False
    )


def _table_row(heads: tuple[str, ...], node: OperationNode, right: set[str]) -> str:
    cells = zip(heads, _cells(node), strict=True)
    return f"<tr>{''.join(f'<td{_right(head, right)}>{escaped(cell)}</td>' for head, cell in cells)}</tr>"


def _right(name: str, right: set[str]) -> str:
    return ' class="tract-right"' if name in right else ' class="tract-why"' if name == "Why not done" else ""


def _cells(node: OperationNode) -> tuple[str, ...]:
    required = ", required" if node.required else ""
    return (
        one_line(node.title, _NAME),
        node.hook.value,
        one_line(node.kind, _NAME),
        f"{GLYPHS[node.state]} {node.state}{required}",
        str(node.committed or ""),
        f"{node.order:g}",
        one_line(", ".join(node.depends_on), _NAME),
        duration(node.milliseconds) if node.span else "",
        str(node.attempts or ""),
        node.why,
    )


def _section(title: str, about: str, body: str, name: str, *, is_open: bool) -> str:
    more = f' <span class="tract-about">{escaped(about)}</span>' if about else ""
    opened = " open" if is_open else ""
    return (
        f'<details class="tract-section" data-testid="tract-run-{name}"{opened}><summary {OWN_KEYS}>'
        f"{title}{more}</summary>"
        f"{body}</details>"
    )
