"""Where each commit of a graph stands, and where the lines between them run.

Rows are numbered from the newest commit down, columns from the left. A line leaves its child for a lane, runs down in
it, and turns to its parent just before the parent's row.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.models.commit import BranchInfo, CommitInfo


@dataclass(frozen=True, slots=True)
class Edge:
    """The line from a child to a parent. `parent` is None where the parent is not shown: the line goes on below."""

    child: int
    parent: int | None
    child_column: int
    lane: int
    parent_column: int
    strand: str
    """The line of development that it belongs to."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of commits, the column of each, and all edges."""

    commits: tuple[CommitInfo, ...]
    columns: tuple[int, ...]
    edges: tuple[Edge, ...]
    strands: Mapping[str, str]
    """Of each commit hash: the branch it is drawn as part of, or the newest commit of a line that has no branch."""
    width: int
    """The number of columns."""

    @property
    def is_cut(self) -> bool:
        """Whether some parents are not shown."""
        return any(edge.parent is None for edge in self.edges)


def lay_out(commits: Iterable[CommitInfo], branches: Sequence[BranchInfo]) -> Layout:
    """Place the commits, children above their parents, otherwise the newest first."""
    ordered = newest_first(commits)
    strands = strands_of(ordered, branches)
    lanes = _Lanes({info.commit_hash for info in ordered}, strands)
    first = next((b.commit_hash for b in _by_rank(branches) if b.commit_hash in lanes.shown), None)
    if first is not None:
        lanes.expect(first)  # the first branch keeps the leftmost lane, wherever its tip is
    columns = tuple(lanes.place(row, info) for row, info in enumerate(ordered))
    return Layout(tuple(ordered), columns, tuple(lanes.finish()), strands, max(lanes.width, 1))


def newest_first(commits: Iterable[CommitInfo]) -> list[CommitInfo]:
    """Each commit once, every child before its parents, otherwise by time, the newest first."""
    known = {info.commit_hash: info for info in commits}
    children = dict.fromkeys(known, 0)
    for info in known.values():
        for parent in set(info.parents) & known.keys():
            children[parent] += 1
    given = {commit: number for number, commit in enumerate(known)}
    ready = [(-i.created_at.timestamp(), given[c], c) for c, i in known.items() if not children[c]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        info = known[heapq.heappop(ready)[2]]
        ordered.append(info)
        for parent in set(info.parents) & known.keys():
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-known[parent].created_at.timestamp(), given[parent], parent))
    return ordered


def strands_of(ordered: Sequence[CommitInfo], branches: Sequence[BranchInfo]) -> dict[str, str]:
    """The line of development of each commit: a branch owns its tip's first parents that no branch before it owns."""
    known = {info.commit_hash: info for info in ordered}
    strands: dict[str, str] = {}
    tips = [(branch.commit_hash, branch.name) for branch in _by_rank(branches)]
    for tip, name in [*tips, *((info.commit_hash, info.commit_hash) for info in ordered)]:
        commit = tip
        while commit is not None and commit in known and commit not in strands:
            strands[commit] = name
            commit = known[commit].parent_hash
    return strands


def _by_rank(branches: Sequence[BranchInfo]) -> list[BranchInfo]:
    """`main`, then the others by name: not by which is current, so that nothing moves when one switches."""
    return sorted(branches, key=lambda branch: (branch.name != "main", branch.name))


@dataclass
class _Open:
    """A line that has not reached its parent yet."""

    child: int
    child_column: int
    lane: int
    strand: str


@dataclass
class _Lanes:
    """Which commit each lane leads to, from the newest row down."""

    shown: set[str]
    strands: Mapping[str, str]
    _targets: list[str | None] = field(default_factory=list)
    _open: defaultdict[str, list[_Open]] = field(default_factory=lambda: defaultdict(list))
    _edges: list[Edge] = field(default_factory=list)

    @property
    def width(self) -> int:
        return len(self._targets)

    def expect(self, commit: str) -> int:
        """Lead the first free lane to the commit."""
        lane = next((i for i, target in enumerate(self._targets) if target is None), self.width)
        self._targets[lane : lane + 1] = [commit]
        return lane

    def place(self, row: int, info: CommitInfo) -> int:
        """Put the commit into the lane that leads to it, or into a new one, and return the column."""
        commit = info.commit_hash
        column = self._lane_to(commit)
        if column is None:
            column = self.expect(commit)
        self._edges += [self._edge(line, row, column) for line in self._open.pop(commit, ())]
        self._targets = [None if target == commit else target for target in self._targets]
        for index, parent in enumerate(info.parents):
            lane = self._leave(column, parent, is_first=index == 0)
            strand = self.strands[commit] if index == 0 else self.strands.get(parent, self.strands[commit])
            self._open[parent].append(_Open(row, column, lane, strand))
        return column

    def finish(self) -> list[Edge]:
        """All edges; the lines still open have parents that are not shown."""
        cut = [self._edge(line, None, line.lane) for lines in self._open.values() for line in lines]
        return self._edges + cut

    def _leave(self, column: int, parent: str, *, is_first: bool) -> int:
        """The lane in which a line to the parent runs: the child's own for the first, else one that leads there."""
        if is_first:
            self._targets[column] = parent
            return column
        lane = self._lane_to(parent)
        return self.expect(parent) if lane is None else lane

    def _lane_to(self, commit: str) -> int | None:
        return next((i for i, target in enumerate(self._targets) if target == commit), None)

    @staticmethod
    def _edge(line: _Open, parent: int | None, column: int) -> Edge:
        return Edge(line.child, parent, line.child_column, line.lane, column, line.strand)
