"""Many operations as stages, one line each. A stage depends only on the stages before it.

A graph of more than some dozen operations has no room for names. A stage shows the number of its operations by state,
names those that are not done, and unfolds to all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models import counted, one_line
from tract_jupyter.notebook.runs.graph import NAMED_AT_MOST, hover, lay_out, main_word
from tract_jupyter.notebook.runs.pictures import GLYPHS, NodeState, duration
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import element, join_names
from tract_jupyter.notebook.views.styles import styled
from tract_jupyter.runs import Hook

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.notebook.runs.graph import Band
    from tract_jupyter.notebook.runs.pictures import OperationNode
    from tract_jupyter.notebook.views.html import Html

_MOST = 12  # stages of a hook; more are joined
_NAME = 60
_TOLD = 4  # operations that are named in a line
_URGENT = (NodeState.ERROR, NodeState.ABORTED, NodeState.WAITING, NodeState.RUNNING, NodeState.SKIPPED)


@dataclass(frozen=True)
class OperationStage:
    """Operations that may run at the same time, or several such groups in sequence.

    Attributes:
        hook: the hook of the operations.
        first, last: the numbers of the joined stages of the hook, from 1.
        nodes: the operations in order.
    """

    hook: Hook
    first: int
    last: int
    nodes: tuple[OperationNode, ...]

    @property
    def title(self) -> str:
        """The number of the stage, or the numbers of the joined stages."""
        stages = f"Stage {self.first}" if self.first == self.last else f"Stages {self.first} to {self.last}"
        return f"{stages} afterwards" if self.hook is Hook.AFTER else stages

    @property
    def counts(self) -> dict[NodeState, int]:
        """The number of operations by state, in the order of the states."""
        counter = Counter(node.state for node in self.nodes)
        return {state: counter[state] for state in NodeState if counter[state]}

    @property
    def summary(self) -> str:
        """The number of operations by state, and the names of those that are not done."""
        states = [f"{count:,} {state.value}" for state, count in self.counts.items()]
        return f"{', '.join(states)}{''.join(self._named())}"

    def _named(self) -> Iterator[str]:
        for state in _URGENT:
            some = [one_line(node.title, _NAME) for node in self.nodes if node.state is state]
            if some and len(self.counts) > 1:
                yield f" · {GLYPHS[state]} {join_names(some, _TOLD)}"


def is_many(nodes: Sequence[OperationNode]) -> bool:
    """Return True if there are too many operations for a graph with names."""
    return len(nodes) > NAMED_AT_MOST


def stages_of(nodes: Sequence[OperationNode]) -> list[OperationStage]:
    """Return the stages of each hook, at most twelve."""
    return [stage for band in lay_out(nodes) for stage in _joined(band)]


def _joined(band: Band) -> Iterator[OperationStage]:
    levels: dict[int, list[OperationNode]] = {}
    for place in band.places:
        levels.setdefault(place.level, []).append(place.node)
    wanted = len(band.places) / _MOST if len(levels) > _MOST else 0
    first, joined = 1, []
    for number, level in enumerate(sorted(levels), 1):
        joined += levels[level]
        if len(joined) >= wanted or number == len(levels):
            yield OperationStage(band.hook, first, number, tuple(joined))
            first, joined = number + 1, []


def stages_html(nodes: Sequence[OperationNode], main: NodeState | None) -> Html:
    """Return the stages with the main call between them; `main` is None in a profile."""
    stages = stages_of(nodes)
    lines = [_stage_html(stage) for stage in stages if stage.hook is Hook.BEFORE]
    lines += [_main_html(main)]
    lines += [_stage_html(stage) for stage in stages if stage.hook is Hook.AFTER]
    label = f"{counted(len(nodes), 'operation')} in {counted(len(stages), 'stage')}"
    return styled(rows.page(rows.rows(lines), label=label, name="tract-stages"))


def _main_html(main: NodeState | None) -> Html:
    state = main or NodeState.PLANNED
    word = "" if main is None else main_word(state)
    return rows.line(None if main is None else mark(state), rows.said("Main call"), rows.cut(word))


def mark(state: NodeState, glyph: str = "") -> Html:
    """Return the mark of a state. `glyph` replaces the usual sign."""
    return element("i", glyph or GLYPHS[state], class_=f"tract-mark tract-{state}")


def _stage_html(stage: OperationStage) -> Html:
    strip = (
        element("i", class_=f"tract-{state}", style=f"flex:{count}") for state, count in stage.counts.items()
    )
    cells = (
        rows.said(stage.title),
        element("span", strip, class_="tract-strip", aria_hidden="true"),
        rows.cut(stage.summary),
        rows.number(f"{len(stage.nodes):,}"),
    )
    return rows.row(cells, element("div", map(_chip, stage.nodes), class_="tract-chips", role="list"))


def _chip(node: OperationNode) -> Html:
    look = ("tract-chip", f"tract-{node.state}", "tract-required" if node.required else "")
    glyph = element("i", GLYPHS[node.state], class_="tract-mark")
    time = element("small", duration(node.milliseconds)) if node.milliseconds else None
    name = element("span", node.title, class_="cut")
    return element("span", glyph, name, time, class_=look, role="listitem", title=hover(node))
