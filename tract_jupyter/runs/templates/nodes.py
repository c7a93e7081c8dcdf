"""What a template consists of once it is read, and how that is rendered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.values import MISSING, elements, is_true, number, same, text_of

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.expressions import Expression
    from tract_jupyter.runs.templates.scope import Scope

Signal = Literal["break", "continue"] | None
"""What a loop is told by what is in it."""


class Written:
    """What was rendered so far."""

    def __init__(self, scope: Scope) -> None:
        self._parts: list[str] = []
        self._left = scope.budget.limits.output
        self._scope = scope

    def add(self, text: str) -> None:
        """Write more.

        Raises:
            TemplateError: that would be too much.
        """
        self._scope.budget.charge(len(text))
        self._left -= len(text)
        if self._left < 0:
            most = self._scope.budget.limits.output
            raise TemplateError(f"the template writes more than {most} characters; let it write less")
        self._parts.append(text)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)


@dataclass(frozen=True, slots=True)
class Node(ABC):
    """A part of a template. `line` counts from 1."""

    line: int

    @abstractmethod
    def render(self, scope: Scope, out: Written) -> Signal:
        """Write it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Several nodes, in order."""

    nodes: tuple[Node, ...] = ()

    def render(self, scope: Scope, out: Written) -> Signal:
        """Write all, up to a `break` or `continue`. Errors get the line of their node."""
        for node in self.nodes:
            scope.budget.step()
            try:
                signal = node.render(scope, out)
            except TemplateError as error:
                raise error.at(node.line) from None
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise TemplateError(f"a value cannot be used like this: {error}", node.line) from None
            if signal:
                return signal
        return None


@dataclass(frozen=True, slots=True)
class Text(Node):
    """Plain text."""

    text: str

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        out.add(self.text)
        return None


@dataclass(frozen=True, slots=True)
class Print(Node):
    """`{{ value }}`."""

    expression: Expression

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        value = self.expression.value(scope)
        scope.budget.weigh(value)
        out.add(text_of(value))
        return None


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """`if`, `elsif`, `else`; `unless` is one whose first condition is turned round. The first that holds counts."""

    branches: tuple[tuple[Expression, Block], ...]
    otherwise: Block = Block()
    inverted: bool = False

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        for place, (condition, block) in enumerate(self.branches):
            if is_true(condition.value(scope)) != (self.inverted and place == 0):
                return block.render(scope, out)
        return self.otherwise.render(scope, out)


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`case`, `when`, `else`."""

    subject: Expression
    branches: tuple[tuple[tuple[Expression, ...], Block], ...]
    otherwise: Block = Block()

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        subject = self.subject.value(scope)
        for values, block in self.branches:
            for value in values:
                scope.budget.weigh(subject)
                if same(subject, value.value(scope)):
                    return block.render(scope, out)
        return self.otherwise.render(scope, out)


@dataclass(frozen=True, slots=True)
class Selection:
    """`list limit: 2 offset: 1 reversed`: what a loop goes through. `offset: continue` begins where `key` ended."""

    over: Expression
    key: str
    limit: Expression | None = None
    offset: Expression | None = None
    resumed: bool = False
    backwards: bool = False

    def elements(self, scope: Scope) -> list[Any]:
        """They, in order."""
        found = elements(self.over.value(scope))
        scope.budget.step(len(found))
        first = scope.reached.get(self.key, 0) if self.resumed else _whole(self.offset, scope) or 0
        limit = _whole(self.limit, scope)
        found = found[first:] if limit is None else found[first : first + limit]
        scope.reached[self.key] = first + len(found)
        return found[::-1] if self.backwards else found


def _whole(expression: Expression | None, scope: Scope) -> int | None:
    """A whole number that is not negative, or None if nothing is there."""
    value = expression.value(scope) if expression else None
    return None if value is None or value is MISSING else max(0, int(number(value)))


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """`for name in list limit: 2 offset: 1 reversed`."""

    name: str
    over: Selection
    block: Block
    otherwise: Block = Block()

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        found = self.over.elements(scope)
        if not found:
            return self.otherwise.render(scope, out)
        frame: dict[str, Any] = {}
        parent = scope.around("forloop")
        scope.enter(frame)
        try:
            for index, one in enumerate(found):
                scope.budget.step()
                frame[self.name] = one
                frame["forloop"] = {**_position(index, len(found)), "parentloop": parent}
                if self.block.render(scope, out) == "break":
                    break
        finally:
            scope.leave()
        return None


@dataclass(frozen=True, slots=True)
class Table(Node):
    """`tablerow name in list cols: 2 limit: 4 offset: 1`: rows and cells in HTML."""

    name: str
    over: Selection
    block: Block
    columns: Expression | None = None

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        found = self.over.elements(scope)
        columns = _whole(self.columns, scope) or max(1, len(found))
        frame: dict[str, Any] = {}
        scope.enter(frame)
        out.add('<tr class="row1">\n')
        try:
            for index, one in enumerate(found):
                scope.budget.step()
                row, column = divmod(index, columns)
                frame[self.name] = one
                frame["tablerowloop"] = {
                    **_position(index, len(found)), "row": row + 1, "col": column + 1, "col0": column,
                    "col_first": column == 0, "col_last": column == columns - 1,
                }  # fmt: skip
                out.add(f'<td class="col{column + 1}">')
                signal = self.block.render(scope, out)
                out.add("</td>")
                if signal == "break":
                    break
                if column == columns - 1 and index < len(found) - 1:
                    out.add(f'</tr>\n<tr class="row{row + 2}">')
        finally:
            scope.leave()
        out.add("</tr>\n")
        return None


def _position(index: int, length: int) -> dict[str, Any]:
    return {
        "index": index + 1, "index0": index, "rindex": length - index, "rindex0": length - index - 1,
        "first": index == 0, "last": index == length - 1, "length": length,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Jump(Node):
    """`break` and `continue`."""

    signal: Signal

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        return self.signal


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`assign name = value`."""

    name: str
    expression: Expression

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        scope.assign(self.name, self.expression.value(scope))
        return None


@dataclass(frozen=True, slots=True)
class Capture(Node):
    """`capture name`: what is written goes into a variable."""

    name: str
    block: Block

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        inner = Written(scope)
        signal = self.block.render(scope, inner)
        scope.assign(self.name, inner.text)
        return signal


@dataclass(frozen=True, slots=True)
class Count(Node):
    """`increment name` writes and then adds one; `decrement name` takes one away and then writes."""

    name: str
    step: int

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        before = scope.counters.get(self.name, 0)
        scope.counters[self.name] = before + self.step
        out.add(str(before if self.step > 0 else before + self.step))
        return None


@dataclass(frozen=True, slots=True)
class Cycle(Node):
    """`cycle "a", "b"`: one after the other, each time that it is rendered."""

    values: tuple[Expression, ...]
    group: Expression | None
    key: str

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        key = f"named {text_of(self.group.value(scope))}" if self.group else self.key
        scope.budget.charge(len(key))
        turn = scope.turns.get(key, 0)
        scope.turns[key] = turn + 1 if turn + 1 < len(self.values) else 0
        # values of another length may be in the same group, and have nothing at this turn
        if turn < len(self.values):
            value = self.values[turn].value(scope)
            scope.budget.weigh(value)
            out.add(text_of(value))
        return None


@dataclass(frozen=True, slots=True)
class IfChanged(Node):
    """`ifchanged`: written if it is something else than the last time."""

    block: Block

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        inner = Written(scope)
        signal = self.block.render(scope, inner)
        if inner.text != scope.shown:
            scope.shown = inner.text
            out.add(inner.text)
        return signal


@dataclass(frozen=True, slots=True)
class Lines(Node):
    """`liquid`: several tags, one in each line."""

    block: Block

    @override
    def render(self, scope: Scope, out: Written) -> Signal:
        return self.block.render(scope, out)
