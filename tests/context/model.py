"""A context store in a few lines, slow and obvious, that the real one is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tract_jupyter.context import ApproximateCounter

COUNTER = ApproximateCounter()


class Node(NamedTuple):
    """A commit. `target` is what an edit or annotation changes."""

    parent: str | None
    operation: str
    text: str = ""
    target: str | None = None
    priority: str | None = None
    tools: tuple[str, ...] | None = None


@dataclass
class Branch:
    """Where a branch is, where undo leads, and where redo leads."""

    tip: str | None
    past: list[str | None]
    future: list[str | None] = field(default_factory=list)

    def go(self, new):
        self.past.append(self.tip)
        self.future.clear()
        self.tip = new

    def undo(self):
        self.future.append(self.tip)
        self.tip = self.past.pop()

    def redo(self):
        self.past.append(self.tip)
        self.tip = self.future.pop()


@dataclass
class Model:
    """Every commit, every branch, and where HEAD is: on `current`, or at `detached`."""

    nodes: dict[str, Node] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=lambda: {"main": Branch(None, [])})
    current: str | None = "main"
    detached: str | None = None
    tags: dict[str, set[str]] = field(default_factory=dict)

    def copy(self):
        branches = {n: Branch(b.tip, list(b.past), list(b.future)) for n, b in self.branches.items()}
        return replace(self, nodes=dict(self.nodes), branches=branches)

    @property
    def here(self):
        return self.branches[self.current] if self.current is not None else None

    @property
    def head(self):
        return self.here.tip if self.here else self.detached

    def chain(self, tip):
        """The commits that a commit stands for, oldest first."""
        found = []
        while tip is not None:
            found.append(tip)
            tip = self.nodes[tip].parent
        return found[::-1]

    def messages(self, tip):
        """(commit, text, priority) of what is compiled."""
        texts, priorities = {}, {}
        for name in self.chain(tip):
            node = self.nodes[name]
            if node.operation != "annotate":
                texts[node.target or name] = node.text
            if node.operation == "append" or node.priority:
                priorities[node.target or name] = node.priority or "normal"
        return [(name, text, priorities[name]) for name, text in texts.items() if priorities[name] != "skip"]

    def tokens(self, tip):
        shown = self.messages(tip)
        return sum(COUNTER.count_text(text) + 4 for _, text, _ in shown) + (3 if shown else 0)

    def tools(self, tip):
        given = [self.nodes[name].tools for name in self.chain(tip) if self.nodes[name].tools is not None]
        return given[-1] if given else ()

    def says(self, tip):
        return [name for name in self.chain(tip) if self.nodes[name].operation == "append"]

    def commit(self, name, node):
        self.nodes[name] = node._replace(parent=self.here.tip)
        self.here.go(name)

    def branch(self, name, tip):
        chain = self.chain(tip)
        self.branches[name] = Branch(tip, [None, *chain][:-1] if chain else [])

    def held(self, name):
        """Whether another branch has all that this one has."""
        tip = self.branches[name].tip
        others = (b.tip for n, b in self.branches.items() if n != name)
        return tip is None or any(tip in self.chain(other) for other in others)
