"""A run as a person sees it, while it goes on and afterwards: head, graph, time line, reasons, table, prompt, reply."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tract_jupyter.notebook.excerpts import cut_note, one_line, style_tag
from tract_jupyter.notebook.markup import OWN_KEYS, escaped, heading
from tract_jupyter.notebook.runs.gantt import gantt, gantt_svg
from tract_jupyter.notebook.runs.graph_svg import graph_svg
from tract_jupyter.notebook.runs.head import commit_lines, facts, progress, reasons, side_by_side, standing
from tract_jupyter.notebook.runs.picture import GLYPHS, State, picture
from tract_jupyter.notebook.runs.prompt_view import PromptView
from tract_jupyter.notebook.runs.run_text import run_text
from tract_jupyter.notebook.runs.words import duration, note_place, outcome
from tract_jupyter.runs.terms import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.notebook.runs.head import Reason
    from tract_jupyter.notebook.runs.picture import Event, Node, Picture
    from tract_jupyter.notebook.runs.prompt_parts import Inspection
    from tract_jupyter.runs.model import Run

_REPLY = 20_000
_LONG_REPLY = 3_000
_OPEN = 40  # operations; the time line of more is closed at first
_REASONS = 8
_NAME = 60


@dataclass(frozen=True)
class RunView:
    """A run, shown. `events` of one that goes on say what runs now; `inspection` adds its prompt.

    `now` is the present, in seconds since the epoch, of a run that goes on; `said` stands in the place of what is said
    about how a run ended or how far it is.
    """

    run: Run
    events: Sequence[Event] = ()
    inspection: Inspection | None = None
    now: float | None = None
    said: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    @cached_property
    def picture(self) -> Picture:
        """What is drawn."""
        return picture(self.run, self.events, self.now)

    def to_html(self) -> str:
        """A part of a page that stands alone, everything escaped."""
        status = self.run.status.value
        styles = style_tag("views.css") + style_tag("runs/runs.css")
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
        return (
            f'{styles}<section class="tract-views tract-run" data-testid="tract-run" data-status="{status}" '
            f'aria-label="Run {html.escape(self.run.run_id[:8])}">{"".join(body)}</section>'
        )

    def to_text(self) -> str:
        """Head, a row with a bar for each operation, reasons, reply."""
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
    said = html.escape(progress(shown))
    share = 100 * shown.ended / max(len(shown.nodes), 1)
    return (
        f'<p class="tract-now">{said}</p><div class="tract-bar" role="img" aria-label="{said}">'
        f'<span class="tract-seg tract-assistant" style="width:{share:.1f}%"></span></div>'
    )


def _graph_html(shown: Picture) -> str:
    if not shown.nodes:
        return '<p class="tract-dim">No operations: the context was sent as it stands.</p>'
    drawing = (
        f'<div class="tract-canvas tract-flow" data-testid="tract-run-graph" {OWN_KEYS} tabindex="0" role="region" '
        f'aria-label="Graph of operations">{graph_svg(shown)}</div>'
    )
    return drawing + legend_html(shown.nodes)


def legend_html(nodes: Iterable[Node]) -> str:
    """What the marks of a graph mean, and how many there are of each."""
    nodes = list(nodes)
    counts = {state: sum(node.state is state for node in nodes) for state in State}
    entries = "".join(
        f'<span><i class="tract-mark tract-{state}">{GLYPHS[state]}</i>{count:,} {state.value}</span>'
        for state, count in counts.items()
        if count
    )
    required = "<span>a thick line: required</span>" if any(node.required for node in nodes) else ""
    return f'<p class="tract-legend">{entries}{required}<span>Hover over an operation for more</span></p>'


def _reasons_html(told: list[Reason]) -> str:
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
    more = cut_note(len(run.reply), _REPLY)
    note = f'<p class="tract-dim">{more}</p>' if more else ""
    body = f'<div class="tract-reply">{escaped(run.reply[:_REPLY])}</div>{note}'
    return _section("Reply", "", body, "reply", is_open=len(run.reply) <= _LONG_REPLY)


def _notes_html(run: Run) -> str:
    if not run.notes:
        return ""
    rows = [
        f"<dt>{escaped(one_line(one.title, _NAME))} <span class='tract-about'>{escaped(note_place(one))}</span></dt>"
        f"<dd><pre>{escaped(one.text[:_REPLY])}</pre>{escaped(cut_note(len(one.text), _REPLY) or '')}</dd>"
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


def _table_row(heads: tuple[str, ...], node: Node, right: set[str]) -> str:
    cells = zip(heads, _cells(node), strict=True)
    return f"<tr>{''.join(f'<td{_right(head, right)}>{escaped(cell)}</td>' for head, cell in cells)}</tr>"


def _right(name: str, right: set[str]) -> str:
    return ' class="tract-right"' if name in right else ' class="tract-why"' if name == "Why not done" else ""


def _cells(node: Node) -> tuple[str, ...]:
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
