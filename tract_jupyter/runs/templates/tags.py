"""Reads the pieces of a template into nodes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates import nodes
from tract_jupyter.runs.templates.grammar import read_filtered, read_value
from tract_jupyter.runs.templates.limits import MAX_DEPTH
from tract_jupyter.runs.templates.nodes import Block
from tract_jupyter.runs.templates.source import lines
from tract_jupyter.runs.templates.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tract_jupyter.runs.templates.expressions import Expression
    from tract_jupyter.runs.templates.source import Piece


class Reader:
    """Takes pieces, gives nodes. One for each template."""

    def __init__(self, pieces: Iterable[Piece], depth: int = 0) -> None:
        self._pieces = deque(pieces)
        self._depth = depth

    def all(self) -> Block:
        """The whole template.

        Raises:
            TemplateError: it cannot be read; has the line.
        """
        block, last = self.block()
        if last is not None:
            raise TemplateError(f"there is nothing that {last.name!r} could belong to", last.line)
        return block

    def block(self, *ends: str) -> tuple[Block, Piece | None]:
        """Nodes up to a tag that is one of `ends`, or that no tag is; and that one."""
        found: list[nodes.Node] = []
        while self._pieces:
            piece = self._pieces.popleft()
            if piece.kind == "tag" and (piece.name in ends or piece.name in _ENDS):
                return Block(tuple(found)), piece
            try:
                node = self._node(piece)
            except TemplateError as error:
                raise error.at(piece.line) from None
            if node is not None:
                found.append(node)
        return Block(tuple(found)), None

    def inner(self, piece: Piece, *ends: str) -> tuple[Block, Piece]:
        """The nodes inside of a tag, and what ends them."""
        self._deeper()
        block, last = self.block(*ends)
        self._depth -= 1
        if last is None or last.name not in ends:
            told = f"{last.name!r} in line {last.line}" if last else "the end"
            raise TemplateError(f"{piece.name!r} is never closed by {ends[-1]!r}; there is {told}")
        return block, last

    def lines(self, piece: Piece) -> Block:
        """The nodes of a `liquid` tag, which closes what it opens."""
        self._deeper()
        block = Reader(lines(piece), self._depth).all()
        self._depth -= 1
        return block

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TemplateError(f"more than {MAX_DEPTH} tags within each other")

    def _node(self, piece: Piece) -> nodes.Node | None:
        if piece.kind == "text":
            return nodes.Text(piece.line, piece.text)
        if piece.kind == "output":
            return nodes.Print(piece.line, _whole(piece.text, read_filtered))
        read = _TAGS.get(piece.name)
        if read is None:
            raise TemplateError(f"there is no tag {piece.name!r}; there are: {', '.join(_known())}")
        return read(self, piece)


def _known() -> list[str]:
    return sorted(
        {*_TAGS, "raw", "comment", "doc"} - {name for name, read in _TAGS.items() if read is _from_elsewhere}
    )


def _whole(text: str, read: Callable[[Tokens], Any]) -> Any:
    tokens = Tokens(text)
    found = read(tokens)
    tokens.done()
    return found


def _choice(reader: Reader, piece: Piece) -> nodes.Node:
    branches: list[tuple[Expression, Block]] = []
    part, otherwise = piece, Block()
    while part.name != f"end{piece.name}":
        ends = (f"end{piece.name}",) if part.name == "else" else ("elsif", "else", f"end{piece.name}")
        condition = None if part.name == "else" else _whole(part.text, read_filtered)
        block, last = reader.inner(piece, *ends)
        if condition is None:
            otherwise = block
        else:
            branches.append((condition, block))
        part = last
    return nodes.Choice(piece.line, tuple(branches), otherwise, piece.name == "unless")


def _case(reader: Reader, piece: Piece) -> nodes.Node:
    subject = _whole(piece.text, read_filtered)
    _, part = reader.inner(piece, "when", "else", "endcase")
    branches: list[tuple[tuple[Expression, ...], Block]] = []
    otherwise = Block()
    while part.name != "endcase":
        values = None if part.name == "else" else _whole(part.text, _values)
        ends = ("endcase",) if values is None else ("when", "else", "endcase")
        block, part = reader.inner(piece, *ends)
        if values is None:
            otherwise = block
        else:
            branches.append((values, block))
    return nodes.Case(piece.line, subject, tuple(branches), otherwise)


def _values(tokens: Tokens) -> tuple[Expression, ...]:
    found = [read_value(tokens)]
    while tokens.takes(",", "or"):
        found.append(read_value(tokens))
    return tuple(found)


def _loop(reader: Reader, piece: Piece) -> nodes.Node:
    name, over, _ = _selection(piece)
    block, last = reader.inner(piece, "else", "endfor")
    otherwise = reader.inner(piece, "endfor")[0] if last.name == "else" else Block()
    return nodes.Loop(piece.line, name, over, block, otherwise)


def _table(reader: Reader, piece: Piece) -> nodes.Node:
    name, over, columns = _selection(piece, "cols")
    return nodes.Table(piece.line, name, over, reader.inner(piece, "endtablerow")[0], columns)


def _selection(piece: Piece, *more: str) -> tuple[str, nodes.Selection, Expression | None]:
    """`name in list limit: 2`, and the option of `more` if it is there."""
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
    return name, nodes.Selection(over, f"{name} {over}", **options), columns


def _assign(reader: Reader, piece: Piece) -> nodes.Node:  # noqa: ARG001
    tokens = Tokens(piece.text)
    name = tokens.name()
    tokens.expect("=")
    expression = read_filtered(tokens)
    tokens.done()
    return nodes.Assign(piece.line, name, expression)


def _capture(reader: Reader, piece: Piece) -> nodes.Node:
    name = _whole(piece.text, _name)
    return nodes.Capture(piece.line, name, reader.inner(piece, "endcapture")[0])


def _name(tokens: Tokens) -> str:
    """Of a variable; it may stand in quotes."""
    kind, word = tokens.take()
    if kind not in {"name", "text"} or not word:
        raise TemplateError(f"a name should come where {word!r} is")
    return word


def _counter(step: int) -> Callable[[Reader, Piece], nodes.Node]:
    return lambda reader, piece: nodes.Count(piece.line, _whole(piece.text, _name), step)  # noqa: ARG005


def _cycle(reader: Reader, piece: Piece) -> nodes.Node:  # noqa: ARG001
    tokens = Tokens(piece.text)
    values, group = [read_value(tokens)], None
    if tokens.takes(":"):
        group, values = values[0], [read_value(tokens)]
    while tokens.takes(","):
        values.append(read_value(tokens))
    tokens.done()
    return nodes.Cycle(piece.line, tuple(values), group, str(values))


def _note(reader: Reader, piece: Piece) -> None:  # noqa: ARG001
    """`# note`; each of its lines begins like this, so that nothing is put out by mistake."""
    for line in piece.text.split("\n")[1:]:
        if line.strip() and not line.lstrip().startswith("#"):
            raise TemplateError(f"each line of a note begins with '#', and {line.strip()[:40]!r} does not")


def _from_elsewhere(reader: Reader, piece: Piece) -> nodes.Node:  # noqa: ARG001
    raise TemplateError(
        f"there is no tag {piece.name!r}, since there are no other templates to take a text from; "
        "write the text here, or give it as a variable or an artifact"
    )


def _jump(reader: Reader, piece: Piece) -> nodes.Node:  # noqa: ARG001
    Tokens(piece.text).done()
    return nodes.Jump(piece.line, "break" if piece.name == "break" else "continue")


_TAGS: Final[dict[str, Callable[[Reader, Piece], nodes.Node | None]]] = {
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
    "echo": lambda reader, piece: nodes.Print(piece.line, _whole(piece.text, read_filtered)),  # noqa: ARG005
    "ifchanged": lambda reader, piece: nodes.IfChanged(piece.line, reader.inner(piece, "endifchanged")[0]),
    "liquid": lambda reader, piece: nodes.Lines(piece.line, reader.lines(piece)),
    "#": _note,
    **dict.fromkeys(("include", "render", "snippet", "layout", "section"), _from_elsewhere),
}
_ENDS: Final = frozenset(
    {"elsif", "else", "when", *(f"end{name}" for name in _TAGS), "endraw", "endcomment", "enddoc"}
)
