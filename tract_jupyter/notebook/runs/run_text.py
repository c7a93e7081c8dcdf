"""A run in plain text, for terminals and whatever shows no HTML."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tract_jupyter.models.text import one_line, printable, shortened
from tract_jupyter.notebook.excerpts import text_width
from tract_jupyter.notebook.runs.gantt import gantt, gantt_text
from tract_jupyter.notebook.runs.graph_svg import short
from tract_jupyter.notebook.runs.head import commit_lines, facts, progress, reasons, side_by_side, standing
from tract_jupyter.notebook.runs.picture import GLYPHS, State
from tract_jupyter.notebook.runs.words import duration, note_place, outcome
from tract_jupyter.runs.terms import Hook, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.notebook.runs.gantt import Bar, Gantt
    from tract_jupyter.notebook.runs.picture import Node, Picture
    from tract_jupyter.notebook.runs.prompt_view import PromptView

_NAME = 28
_CELLS = 32
_MOST = 40  # operations of a hook
_REPLY_LINES = 40
_REPLY = 4_000
_NOTE = 2_000
_HEADS = {Hook.BEFORE: "before the main call", Hook.AFTER: "after the main call"}


def run_text(shown: Picture, prompt: PromptView | None, said: str = "") -> str:
    """Head, a row for each operation by hook, reasons, the order of commits, what is new in the prompt, reply."""
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
        f"Note {one_line(one.title, _NAME)}, {note_place(one)}: {shortened(one.text, _NOTE)}"
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
    width = max((text_width(short(node.title, _NAME)) for node in shown.nodes), default=9)
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


def _counted(nodes: Iterable[Node]) -> str:
    states = [node.state for node in nodes]
    counts = ((state, states.count(state)) for state in State)
    return ", ".join(f"{count:,} more {state}" for state, count in counts if count)


def _row(node: Node, bar: Bar | None, chart: Gantt, width: int) -> str:
    name = short(node.title, _NAME)
    drawn = "" if bar is None else gantt_text(bar, chart.seconds, _CELLS)
    time = duration(node.milliseconds) if node.span and node.milliseconds else ""
    told = (
        f"#{node.committed}"
        if node.committed
        else node.note or ("" if node.state is State.DONE else node.state.value)
    )
    required = "!" if node.required else " "
    return f"  {GLYPHS[node.state]}{required}{_padded(name, width)} {drawn.ljust(_CELLS)} {time:>9}  {told}".rstrip()


def _main(shown: Picture, chart: Gantt, width: int) -> str:
    bar = next((bar for bar in chart.bars if bar.is_main), None)
    drawn = "" if bar is None else gantt_text(bar, chart.seconds, _CELLS)
    time = duration((bar.end - bar.start) * 1000) if bar and bar.is_exact else ""
    said = {State.SKIPPED: "not made", State.PLANNED: "not made yet", State.DONE: ""}.get(
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
    return ["Reply:", *(f"  {line}" for line in lines[:_REPLY_LINES]), *(["  ⋮ it goes on"] if rest else [])]
