"""The history as a graph: an SVG that needs no script, and the same in plain text."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.notebook.excerpts import one_line, style_tag
from tract_jupyter.notebook.graph_layout import lay_out
from tract_jupyter.notebook.graph_rows import Mark, make_rows
from tract_jupyter.notebook.graph_svg import dot, graph_svg
from tract_jupyter.notebook.graph_text import GLYPHS, graph_text
from tract_jupyter.notebook.markup import OWN_KEYS, heading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.models.commit import BranchInfo, CommitInfo
    from tract_jupyter.notebook.graph_layout import Layout
    from tract_jupyter.notebook.graph_rows import Row

_NAMED = 8


@dataclass(frozen=True)
class Graph:
    """A drawn history. IPython shows it by `_repr_mimebundle_`."""

    layout: Layout
    rows: Sequence[Row]
    summary: str
    notes: tuple[str, ...] = ()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    def to_html(self) -> str:
        """A part of a page that stands alone, everything escaped."""
        label = f"{self.summary}, newest first"
        drawing = (
            f'<div class="tract-canvas" {OWN_KEYS} tabindex="0" role="region" aria-label="Graph of commits">'
            f"{graph_svg(self.layout, self.rows, label)}</div>{self._legend()}"
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f'{style_tag("graph.css")}<div class="tract-graph">{heading("History", 3, self.summary)}'
            f"{drawing if self.rows else ''}{notes}</div>"
        )

    def to_text(self) -> str:
        """Lanes and words, with a legend of the marks."""
        legend = "  ".join(f"{GLYPHS[mark]} {mark.value}" for mark in self._marks())
        graph = (graph_text(self.layout, self.rows), legend) if self.rows else ()
        return "\n".join([f"History: {self.summary}", *graph, *self.notes])

    def _marks(self) -> list[Mark]:
        used = {row.mark for row in self.rows}
        return [mark for mark in Mark if mark in used]

    def _legend(self) -> str:
        entries = "".join(
            f'<span><svg width="14" height="14" aria-hidden="true">{dot(mark, 7, 7, "tract-plain")}</svg>'
            f"{mark.value}</span>"
            for mark in self._marks()
        )
        return f'<p class="tract-legend">{entries}<span>Hover over a commit for its content</span></p>'


def graph(
    commits: Sequence[CommitInfo],
    branches: Sequence[BranchInfo],
    *,
    head: str | None,
    contents: Mapping[str, str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Graph:
    """Draw commits of any branches, in whatever order they are given.

    Args:
        commits: those to show; parents that are not among them are where lines are cut. The priority of an
            annotation is the one that it gives.
        branches: all that may be labelled; the current one is none of them where HEAD is detached.
        head: the commit hash one works at.
        contents: texts by commit hash, whose beginnings are shown on hovering.
        roles: the roles of dialogue by commit hash; where one is missing, the content type stands instead.
    """
    layout = lay_out(commits, branches)
    rows = make_rows(layout.commits, branches, head, contents or {}, roles or {})
    shown = {info.commit_hash for info in layout.commits}
    count = f"{len(rows):,} commit{'s' * (len(rows) != 1)} on {len(branches):,} branch{'es' * (len(branches) != 1)}"
    return Graph(layout, rows, count, _notes(shown, branches, head))


def _notes(shown: set[str], branches: Sequence[BranchInfo], head: str | None) -> tuple[str, ...]:
    """What the drawing leaves out."""
    if not shown and head is None:
        return ("No commits yet.",)
    empty = [b.name for b in branches if b.commit_hash is None]
    hidden = [
        f"{b.name} ({b.commit_hash[:8]})" for b in branches if b.commit_hash and b.commit_hash not in shown
    ]
    if head and head not in shown and not any(b.commit_hash == head for b in branches):
        hidden.insert(0, f"HEAD ({head[:8]})")
    notes = [("Without commits", empty), ("Not among these commits", hidden)]
    return tuple(f"{what}: {_listed(names)}" for what, names in notes if names)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(one_line(name, 60) for name in names[:_NAMED]) + more
