"""Where the operations of a graph stand: a column for each level of dependencies, the main call between the hooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.notebook.runs.picture import commit_order
from tract_jupyter.runs.terms import Hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.notebook.runs.picture import Node

ROWS = 14
"""The most in a column; a level with more takes several."""


@dataclass(frozen=True)
class Place:
    """A node's column and row; both count from 0, within its hook."""

    node: Node
    column: int
    row: int


@dataclass(frozen=True)
class Band:
    """The operations of one hook, how many columns and rows they take, and who depends on whom among them."""

    hook: Hook
    places: tuple[Place, ...]
    columns: int
    rows: int
    edges: tuple[tuple[Place, Place], ...]


def lay_out(nodes: Sequence[Node]) -> tuple[Band, ...]:
    """A band for each hook that has operations."""
    bands = (_band(hook, [node for node in nodes if node.hook is hook]) for hook in Hook)
    return tuple(band for band in bands if band.places)


def _band(hook: Hook, nodes: list[Node]) -> Band:
    levels = _levels(nodes)
    places: dict[str, Place] = {}
    column = 0
    for level in range(max(levels.values(), default=-1) + 1):
        here = sorted(
            (n for n in nodes if levels[n.id] == level), key=lambda n: (_wanted(n, places), n.order, n.id)
        )
        for number, node in enumerate(here):
            places[node.id] = Place(node, column + number // ROWS, number % ROWS)
        column += -(-len(here) // ROWS)
    edges = [
        (places[one], place) for place in places.values() for one in place.node.depends_on if one in places
    ]
    rows = max((place.row for place in places.values()), default=-1) + 1
    return Band(hook, tuple(places.values()), column, rows, tuple(edges))


def _levels(nodes: list[Node]) -> dict[str, int]:
    """One more than the highest of the dependencies. What waits in a circle, and never runs, stands with the first."""
    known = {node.id: node for node in nodes}
    levels = dict.fromkeys(known, 0)
    for key in commit_order(nodes):
        below = [levels[one] for one in known[key].depends_on if one in known]
        levels[key] = max(below, default=-1) + 1
    return levels


def _wanted(node: Node, places: dict[str, Place]) -> float:
    """The mean row of what it depends on, so that lines cross little."""
    rows = [places[one].row for one in node.depends_on if one in places]
    return sum(rows) / len(rows) if rows else 0.0
