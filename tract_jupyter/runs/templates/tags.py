"""Tags of templates: cutting a source into pieces, and reading these into nodes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import override

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.expressions import Tokens, read_filtered, read_value
from tract_jupyter.runs.templates.values import MAX_DEPTH, MISSING, elements, is_true, number, same, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tract_jupyter.runs.templates.expressions import Expression
    from tract_jupyter.runs.templates.values import TemplateScope


Signal = Literal["break", "continue"] | None
"""What a loop is told by what is in it."""


class TemplateOutput:
    """The text rendered so far."""

    def __init__(self, scope: TemplateScope) -> None:
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
class TemplateNode(ABC):
    """A node of a template. `line` counts from 1."""

    line: int

    @abstractmethod
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        """Write it."""


@dataclass(frozen=True, slots=True)
class TagBody:
    """A sequence of nodes."""

    nodes: tuple[TemplateNode, ...] = ()

    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        """Write all, up to a `break` or `continue`. Errors get the line of their node."""
        for node in self.nodes:
            scope.budget.step()
            try:
                signal = node.render(scope, out)
            except TemplateError as error:
                raise error.at(node.line) from None
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise TemplateError(
                    f"this cannot be rendered with the values that it gets: {error}", node.line
                ) from None
            if signal:
                return signal
        return None


@dataclass(frozen=True, slots=True)
class Text(TemplateNode):
    """Plain text."""

    text: str

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        out.add(self.text)
        return None


@dataclass(frozen=True, slots=True)
class Print(TemplateNode):
    """An output: `{{ value }}`."""

    expression: Expression

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        value = self.expression.value(scope)
        scope.budget.weigh(value)
        out.add(text_of(value))
        return None


@dataclass(frozen=True, slots=True)
class IfNode(TemplateNode):
    """`if`, `elsif`, `else`; `unless` negates its first condition. The first condition that holds counts."""

    branches: tuple[tuple[Expression, TagBody], ...]
    otherwise: TagBody = TagBody()
    inverted: bool = False

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        for place, (condition, block) in enumerate(self.branches):
            scope.budget.step()
            if is_true(condition.value(scope)) != (self.inverted and place == 0):
                return block.render(scope, out)
        return self.otherwise.render(scope, out)


@dataclass(frozen=True, slots=True)
class CaseNode(TemplateNode):
    """`case`, `when`, `else`."""

    subject: Expression
    branches: tuple[tuple[tuple[Expression, ...], TagBody], ...]
    otherwise: TagBody = TagBody()

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        subject = self.subject.value(scope)
        for values, block in self.branches:
            for value in values:
                scope.budget.step()
                scope.budget.weigh(subject)
                if same(subject, value.value(scope)):
                    return block.render(scope, out)
        return self.otherwise.render(scope, out)


@dataclass(frozen=True, slots=True)
class LoopSelection:
    """The elements of a loop: `list limit: 2 offset: 1 reversed`. `offset: continue` begins where `key` ended."""

    over: Expression
    key: str
    limit: Expression | None = None
    offset: Expression | None = None
    resumed: bool = False
    backwards: bool = False

    def elements(self, scope: TemplateScope) -> list[Any]:
        """Return the elements in order."""
        found = elements(self.over.value(scope))
        scope.budget.step(len(found))
        first = scope.reached.get(self.key, 0) if self.resumed else _whole(self.offset, scope) or 0
        limit = _whole(self.limit, scope)
        found = found[first:] if limit is None else found[first : first + limit]
        scope.reached[self.key] = first + len(found)
        return found[::-1] if self.backwards else found


def _whole(expression: Expression | None, scope: TemplateScope) -> int | None:
    """Return a whole number that is not negative, or None if nothing is given."""
    value = expression.value(scope) if expression else None
    return None if value is None or value is MISSING else max(0, int(number(value)))


@dataclass(frozen=True, slots=True)
class ForNode(TemplateNode):
    """`for name in list limit: 2 offset: 1 reversed`."""

    name: str
    over: LoopSelection
    block: TagBody
    otherwise: TagBody = TagBody()

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
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
class TableNode(TemplateNode):
    """`tablerow name in list cols: 2 limit: 4 offset: 1`: rows and cells in HTML."""

    name: str
    over: LoopSelection
    block: TagBody
    columns: Expression | None = None

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
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
class Jump(TemplateNode):
    """`break` and `continue`."""

    signal: Signal

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        return self.signal


@dataclass(frozen=True, slots=True)
class Assign(TemplateNode):
    """`assign name = value`."""

    name: str
    expression: Expression

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        scope.assign(self.name, self.expression.value(scope))
        return None


@dataclass(frozen=True, slots=True)
class CaptureNode(TemplateNode):
    """`capture name`: stores what is rendered in a variable."""

    name: str
    block: TagBody

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        inner = TemplateOutput(scope)
        signal = self.block.render(scope, inner)
        scope.assign(self.name, inner.text)
        return signal


@dataclass(frozen=True, slots=True)
class Count(TemplateNode):
    """`increment name` writes and then adds one; `decrement name` subtracts one and then writes."""

    name: str
    step: int

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        before = scope.counters.get(self.name, 0)
        scope.counters[self.name] = before + self.step
        out.add(str(before if self.step > 0 else before + self.step))
        return None


@dataclass(frozen=True, slots=True)
class Cycle(TemplateNode):
    """`cycle "a", "b"`: writes the next value each time it is rendered."""

    values: tuple[Expression, ...]
    group: Expression | None
    key: str

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
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
class IfChanged(TemplateNode):
    """`ifchanged`: writes its content if it differs from the last time."""

    block: TagBody

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        inner = TemplateOutput(scope)
        signal = self.block.render(scope, inner)
        if inner.text != scope.shown:
            scope.shown = inner.text
            out.add(inner.text)
        return signal


@dataclass(frozen=True, slots=True)
class Lines(TemplateNode):
    """`liquid`: several tags, one on each line."""

    block: TagBody

    @override
    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        return self.block.render(scope, out)


_OPEN: Final = re.compile(r"\{[{%]")
_NAME: Final = re.compile(r"\s*(#|\w+)")
_VERBATIM: Final = ("raw", "comment", "doc")
_ENDINGS: Final = {name: re.compile(r"\{%-?\s*end" + name + r"\s*-?%\}") for name in _VERBATIM}
_IN_COMMENT: Final = re.compile(r"\{%-?\s*(?:(?P<raw>raw)\s*-?%\}|(?P<opened>comment)\b|endcomment\s*-?%\})")


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """A piece of a template's source.

    Attributes:
        kind: `text`, `output` or `tag`.
        text: what is in it, without marks, and without a tag's name.
        line: where it begins, from 1.
        name: the tag's.
    """

    kind: str
    text: str
    line: int
    name: str = ""


@dataclass(slots=True)
class _Cutter:
    source: str
    place: int = 0
    counted: int = 0
    line: int = 1
    strip_next: bool = False

    def pieces(self) -> Iterator[SourcePiece]:
        while match := _OPEN.search(self.source, self.place):
            yield from self.text(match.start(), strip=self.source.startswith("-", match.end()))
            piece = self.marked(match.start())
            if piece.name in _VERBATIM:
                yield from self.verbatim(piece)
            else:
                yield piece
        yield from self.text(len(self.source), strip=False)

    def text(self, end: int, *, strip: bool) -> Iterator[SourcePiece]:
        """Return the plain text up to `end`. A `-` inside a delimiter removes the white space beside it."""
        found = self.source[self.place : end]
        found = found.lstrip() if self.strip_next else found
        found = found.rstrip() if strip else found
        if found:
            yield SourcePiece("text", found, self.line_at(self.place))

    def marked(self, start: int) -> SourcePiece:
        """Return an output or a tag, from its opening to its closing delimiter."""
        line = self.line_at(start)
        is_tag = self.source[start + 1] == "%"
        end = self.source.find("%}" if is_tag else "}}", start + 2)
        if end < 0:
            raise TemplateError(f"{self.source[start : start + 2]!r} is never closed", line)
        inner = self.source[start + 2 : end]
        self.place, self.strip_next = end + 2, inner.endswith("-")
        inner = inner.removeprefix("-").removesuffix("-")
        if not is_tag:
            return SourcePiece("output", inner, line)
        match = _NAME.match(inner)
        if match is None:
            raise TemplateError("the tag has no name", line)
        return SourcePiece("tag", inner[match.end() :], line + inner.count("\n", 0, match.end()), match[1])

    def verbatim(self, opening: SourcePiece) -> Iterator[SourcePiece]:
        """Yield the content of `raw` as it is; nothing of a comment or of documentation."""
        strip = self.strip_next
        match = self.comment_end() if opening.name == "comment" else self.end_of(opening.name, self.place)
        if match is None:
            raise _never_closed(opening)
        if opening.name == "raw":
            self.strip_next = strip
            yield from self.text(match.start(), strip=match[0].startswith("{%-"))
        self.place, self.strip_next = match.end(), match[0].endswith("-%}")

    def end_of(self, name: str, place: int) -> re.Match[str] | None:
        """Find the delimiter that closes `raw` or `doc`."""
        return _ENDINGS[name].search(self.source, place)

    def comment_end(self) -> re.Match[str] | None:
        """Find the delimiter that closes a comment. Comments may be nested, and `raw` in them hides tags."""
        place, depth = self.place, 1
        while match := _IN_COMMENT.search(self.source, place):
            last = self.end_of("raw", match.end()) if match["raw"] else match
            if last is None:
                return None
            place = last.end()
            if not match["raw"]:
                depth += 1 if match["opened"] else -1
            if not depth:
                return match
        return None

    def line_at(self, place: int) -> int:
        """Return the line of a place. Places only grow."""
        if place > self.counted:
            self.line += self.source.count("\n", self.counted, place)
            self.counted = place
        return self.line


def cut(source: str) -> Iterator[SourcePiece]:
    """Return the pieces of a template, in order.

    Raises:
        TemplateError: a mark is never closed.
    """
    return _Cutter(source).pieces()


def lines(piece: SourcePiece) -> Iterator[SourcePiece]:
    """Return the tags of a `liquid` tag, one on each line.

    Raises:
        TemplateError: a line has no tag, or a comment is never closed; has the line.
    """
    closed, depth, opening = "", 0, piece
    for at, line in enumerate(piece.text.split("\n"), piece.line):
        match = _NAME.match(line)
        if match is None and line.strip() and not depth:
            raise TemplateError("the tag has no name", at)
        name = match[1] if match else ""
        if depth:
            depth += (name == closed) - (name == f"end{closed}")
        elif name in _VERBATIM:
            if name == "raw":
                raise TemplateError("'raw' cannot stand in 'liquid', which has no text", at)
            closed, depth, opening = name, 1, SourcePiece("tag", "", at, name)
        elif match:
            yield SourcePiece("tag", line[match.end() :].rstrip(), at, name)
    if depth:
        raise _never_closed(opening)


def _never_closed(opening: SourcePiece) -> TemplateError:
    return TemplateError(f"'{opening.name}' is never closed by 'end{opening.name}'", opening.line)


class Reader:
    """A reader of the pieces of one template, which returns nodes."""

    def __init__(self, pieces: Iterable[SourcePiece], depth: int = 0) -> None:
        self._pieces = deque(pieces)
        self._depth = depth

    def all(self) -> TagBody:
        """Read the whole template.

        Raises:
            TemplateError: it cannot be read; has the line.
        """
        block, last = self.block()
        if last is not None:
            raise TemplateError(f"{last.name!r} does not belong to any open tag", last.line)
        return block

    def block(self, *ends: str) -> tuple[TagBody, SourcePiece | None]:
        """Read nodes up to a tag that is one of `ends`, or that ends any other tag; return them and that tag."""
        found: list[TemplateNode] = []
        while self._pieces:
            piece = self._pieces.popleft()
            if piece.kind == "tag" and (piece.name in ends or piece.name in _ENDS):
                return TagBody(tuple(found)), piece
            try:
                node = self._node(piece)
            except TemplateError as error:
                raise error.at(piece.line) from None
            if node is not None:
                found.append(node)
        return TagBody(tuple(found)), None

    def inner(self, piece: SourcePiece, *ends: str) -> tuple[TagBody, SourcePiece]:
        """Read the nodes inside a tag, and the tag that ends them."""
        self._deeper()
        block, last = self.block(*ends)
        self._depth -= 1
        if last is None or last.name not in ends:
            told = f"{last.name!r} in line {last.line}" if last else "the end"
            raise TemplateError(f"{piece.name!r} is never closed by {ends[-1]!r}; there is {told}")
        return block, last

    def lines(self, piece: SourcePiece) -> TagBody:
        """Read the nodes of a `liquid` tag, which closes what it opens."""
        self._deeper()
        block = Reader(lines(piece), self._depth).all()
        self._depth -= 1
        return block

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TemplateError(f"more than {MAX_DEPTH} tags within each other")

    def _node(self, piece: SourcePiece) -> TemplateNode | None:
        if piece.kind == "text":
            return Text(piece.line, piece.text)
        if piece.kind == "output":
            return Print(piece.line, _read_whole(piece.text, read_filtered))
        read = _TAGS.get(piece.name)
        if read is None:
            raise TemplateError(f"unknown tag {piece.name!r}; known tags: {', '.join(_known())}")
        return read(self, piece)


def _known() -> list[str]:
    return sorted(
        {*_TAGS, "raw", "comment", "doc"} - {name for name, read in _TAGS.items() if read is _from_elsewhere}
    )


def _read_whole(text: str, read: Callable[[Tokens], Any]) -> Any:
    tokens = Tokens(text)
    found = read(tokens)
    tokens.done()
    return found


def _choice(reader: Reader, piece: SourcePiece) -> TemplateNode:
    branches: list[tuple[Expression, TagBody]] = []
    part, otherwise = piece, TagBody()
    while part.name != f"end{piece.name}":
        ends = (f"end{piece.name}",) if part.name == "else" else ("elsif", "else", f"end{piece.name}")
        condition = None if part.name == "else" else _read_whole(part.text, read_filtered)
        block, last = reader.inner(piece, *ends)
        if condition is None:
            otherwise = block
        else:
            branches.append((condition, block))
        part = last
    return IfNode(piece.line, tuple(branches), otherwise, piece.name == "unless")


def _case(reader: Reader, piece: SourcePiece) -> TemplateNode:
    subject = _read_whole(piece.text, read_filtered)
    _, part = reader.inner(piece, "when", "else", "endcase")
    branches: list[tuple[tuple[Expression, ...], TagBody]] = []
    otherwise = TagBody()
    while part.name != "endcase":
        values = None if part.name == "else" else _read_whole(part.text, _values)
        ends = ("endcase",) if values is None else ("when", "else", "endcase")
        block, part = reader.inner(piece, *ends)
        if values is None:
            otherwise = block
        else:
            branches.append((values, block))
    return CaseNode(piece.line, subject, tuple(branches), otherwise)


def _values(tokens: Tokens) -> tuple[Expression, ...]:
    found = [read_value(tokens)]
    while tokens.takes(",", "or"):
        found.append(read_value(tokens))
    return tuple(found)


def _loop(reader: Reader, piece: SourcePiece) -> TemplateNode:
    name, over, _ = _selection(piece)
    block, last = reader.inner(piece, "else", "endfor")
    otherwise = reader.inner(piece, "endfor")[0] if last.name == "else" else TagBody()
    return ForNode(piece.line, name, over, block, otherwise)


def _table(reader: Reader, piece: SourcePiece) -> TemplateNode:
    name, over, columns = _selection(piece, "cols")
    return TableNode(piece.line, name, over, reader.inner(piece, "endtablerow")[0], columns)


def _selection(piece: SourcePiece, *more: str) -> tuple[str, LoopSelection, Expression | None]:
    """Read `name in list limit: 2`, and the option of `more` if it is there."""
    tokens = Tokens(piece.text)
    name = tokens.name()
    if not tokens.takes("in"):
        raise TemplateError(f"'in' should come where {tokens.next[1]!r} is")
    over = read_value(tokens)
    options: dict[str, Any] = {}
    while option := tokens.takes("reversed", "limit", "offset", ",", *more):
        if option == "reversed":
            options["backwards"] = True
        elif option != ",":
            tokens.expect(":")
            if option == "offset" and tokens.takes("continue"):
                options["resumed"] = True
            else:
                options[option] = read_value(tokens)
    tokens.done()
    columns = options.pop("cols", None)
    return name, LoopSelection(over, f"{name} {over}", **options), columns


def _assign(reader: Reader, piece: SourcePiece) -> TemplateNode:  # noqa: ARG001
    tokens = Tokens(piece.text)
    name = tokens.name()
    tokens.expect("=")
    expression = read_filtered(tokens)
    tokens.done()
    return Assign(piece.line, name, expression)


def _capture(reader: Reader, piece: SourcePiece) -> TemplateNode:
    name = _read_whole(piece.text, _name)
    return CaptureNode(piece.line, name, reader.inner(piece, "endcapture")[0])


def _name(tokens: Tokens) -> str:
    """Read the name of a variable, perhaps in quotes."""
    kind, word = tokens.take()
    if kind not in {"name", "text"} or not word:
        raise TemplateError(f"a name should come where {word!r} is")
    return word


def _counter(step: int) -> Callable[[Reader, SourcePiece], TemplateNode]:
    return lambda reader, piece: Count(piece.line, _read_whole(piece.text, _name), step)  # noqa: ARG005


def _cycle(reader: Reader, piece: SourcePiece) -> TemplateNode:  # noqa: ARG001
    tokens = Tokens(piece.text)
    values, group = [read_value(tokens)], None
    if tokens.takes(":"):
        group, values = values[0], [read_value(tokens)]
    while tokens.takes(","):
        values.append(read_value(tokens))
    tokens.done()
    return Cycle(piece.line, tuple(values), group, str(values))


def _note(reader: Reader, piece: SourcePiece) -> None:  # noqa: ARG001
    """Read `# note`; each of its lines begins like this, so that nothing is commented out by mistake."""
    for line in piece.text.split("\n")[1:]:
        if line.strip() and not line.lstrip().startswith("#"):
            raise TemplateError(f"each line of a note begins with '#', and {line.strip()[:40]!r} does not")


def _from_elsewhere(reader: Reader, piece: SourcePiece) -> TemplateNode:  # noqa: ARG001
    raise TemplateError(
        f"the tag {piece.name!r} is not supported: there are no other templates to include; "
        "write the text here, or give it as a variable or an artifact"
    )


def _jump(reader: Reader, piece: SourcePiece) -> TemplateNode:  # noqa: ARG001
    Tokens(piece.text).done()
    return Jump(piece.line, "break" if piece.name == "break" else "continue")


_TAGS: Final[dict[str, Callable[[Reader, SourcePiece], TemplateNode | None]]] = {
    "if": _choice,
    "unless": _choice,
    "case": _case,
    "for": _loop,
    "tablerow": _table,
    "assign": _assign,
    "capture": _capture,
    "increment": _counter(1),
    "decrement": _counter(-1),
    "cycle": _cycle,
    "break": _jump,
    "continue": _jump,
    "echo": lambda reader, piece: Print(piece.line, _read_whole(piece.text, read_filtered)),  # noqa: ARG005
    "ifchanged": lambda reader, piece: IfChanged(piece.line, reader.inner(piece, "endifchanged")[0]),
    "liquid": lambda reader, piece: Lines(piece.line, reader.lines(piece)),
    "#": _note,
    **dict.fromkeys(("include", "render", "snippet", "layout", "section"), _from_elsewhere),
}
_ENDS: Final = frozenset(
    {"elsif", "else", "when", *(f"end{name}" for name in _TAGS), "endraw", "endcomment", "enddoc"}
)
