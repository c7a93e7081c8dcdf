"""The tags of templates: parsing and rendering."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.expressions import Tokens, read_filtered, read_value
from tract_jupyter.runs.templates.pieces import VERBATIM, SourcePiece, lines
from tract_jupyter.runs.templates.values import MAX_DEPTH, MISSING, elements, is_true, number, same, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.runs.templates.expressions import Expression
    from tract_jupyter.runs.templates.values import TemplateScope

T = TypeVar("T")

Signal = Literal["break", "continue"] | None
"""The instruction of a tag to the loop around it."""

Render = Callable[["TemplateScope", "TemplateOutput"], Signal]
"""Writes a text, an output or a tag."""


class TemplateOutput:
    """The text rendered so far."""

    def __init__(self, scope: TemplateScope) -> None:
        self._parts: list[str] = []
        self._left = scope.budget.limits.output
        self._scope = scope

    def add(self, text: str) -> None:
        """Write a text.

        Raises:
            TemplateError: the output would be too large.
        """
        self._scope.budget.charge(len(text))
        self._left -= len(text)
        if self._left < 0:
            most = self._scope.budget.limits.output
            raise TemplateError(f"the template writes more than {most} characters; reduce its output")
        self._parts.append(text)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self._parts)


@dataclass(frozen=True, slots=True)
class TagBody:
    """Texts, outputs and tags in order, each with its line (from 1)."""

    nodes: tuple[tuple[int, Render], ...]

    def render(self, scope: TemplateScope, out: TemplateOutput) -> Signal:
        """Write all nodes, up to a `break` or `continue`. Errors get the line of their node."""
        for line, render in self.nodes:
            scope.budget.step()
            try:
                signal = render(scope, out)
            except TemplateError as error:
                raise error.at(line) from None
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise TemplateError(f"cannot be rendered with these values: {error}", line) from None
            if signal:
                return signal
        return None

    def capture(self, scope: TemplateScope) -> tuple[str, Signal]:
        """Return the text and the signal instead of writing."""
        out = TemplateOutput(scope)
        signal = self.render(scope, out)
        return out.text, signal


class Reader:
    """Parses the pieces of one template."""

    def __init__(self, pieces: Iterable[SourcePiece], depth: int = 0) -> None:
        self._pieces = deque(pieces)
        self._depth = depth

    def all(self) -> TagBody:
        """Parse the whole template.

        Raises:
            TemplateError: invalid syntax; has the line.
        """
        body, last = self._body()
        if last is not None:
            raise TemplateError(f"{last.name!r} does not belong to any open tag", last.line)
        return body

    def body(self, piece: SourcePiece, *ends: str) -> tuple[TagBody, SourcePiece]:
        """Parse the content of a tag up to one of `ends` or the tag's own end, and return that end as well."""
        ends = (*ends, f"end{piece.name}")
        self._deeper()
        body, last = self._body(*ends)
        self._depth -= 1
        if last is None or last.name not in ends:
            position = f"{last.name!r} in line {last.line}" if last else "the end"
            raise TemplateError(f"{piece.name!r} is never closed by {ends[-1]!r}; there is {position}")
        return body, last

    def branches(
        self, piece: SourcePiece, first: SourcePiece, more: str, read: Callable[[Tokens], T]
    ) -> list[tuple[T | None, TagBody]]:
        """Parse the branches of a tag: the result of `read` for each, or None for `else`, and its content."""
        branches: list[tuple[T | None, TagBody]] = []
        branch = first
        while branch.name != f"end{piece.name}":
            is_last = branch.name == "else"
            head = None if is_last else _read_whole(branch, read)
            body, branch = self.body(piece, *(() if is_last else (more, "else")))
            branches.append((head, body))
        return branches

    def lines(self, piece: SourcePiece) -> TagBody:
        """Parse the lines of a `liquid` tag, which must close its own tags."""
        self._deeper()
        body = Reader(lines(piece), self._depth).all()
        self._depth -= 1
        return body

    def _body(self, *ends: str) -> tuple[TagBody, SourcePiece | None]:
        """Parse up to a tag in `ends`, or the end of any other tag; return that tag as well."""
        nodes: list[tuple[int, Render]] = []
        last = None
        while self._pieces and last is None:
            piece = self._pieces.popleft()
            if piece.kind == "tag" and (piece.name in ends or piece.name in _ENDS):
                last = piece
                continue
            try:
                nodes.append((piece.line, self._node(piece)))
            except TemplateError as error:
                raise error.at(piece.line) from None
        return TagBody(tuple(nodes)), last

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TemplateError(f"more than {MAX_DEPTH} tags within each other")

    def _node(self, piece: SourcePiece) -> Render:
        if piece.kind == "text":
            return _text(piece.text)
        if piece.kind == "output":
            return _output(self, piece)
        read = _TAGS.get(piece.name)
        if read is None:
            known = sorted({*_TAGS, *VERBATIM}.difference(_FROM_ELSEWHERE))
            raise TemplateError(f"unknown tag {piece.name!r}; known tags: {', '.join(known)}")
        return read(self, piece)


def _read_whole(piece: SourcePiece, read: Callable[[Tokens], T]) -> T:
    tokens = Tokens(piece.text)
    result = read(tokens)
    tokens.done()
    return result


def _text(text: str) -> Render:
    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:  # noqa: ARG001
        out.add(text)
        return None

    return render


def _output(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
    """Parse `{{ value }}`, or `echo value`."""
    expression = _read_whole(piece, read_filtered)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        _write(expression(scope), scope, out)
        return None

    return render


def _write(value: Any, scope: TemplateScope, out: TemplateOutput) -> None:
    scope.budget.weigh(value)
    out.add(text_of(value))


def _if(reader: Reader, piece: SourcePiece) -> Render:
    """Parse `if`, `elsif`, `else`; `unless` negates its first condition. The first true condition is used."""
    branches = reader.branches(piece, piece, "elsif", read_filtered)
    negated = piece.name == "unless"

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        for place, (condition, body) in enumerate(branches):
            scope.budget.step()
            if condition is None or is_true(condition(scope)) != (negated and place == 0):
                return body.render(scope, out)
        return None

    return render


def _case(reader: Reader, piece: SourcePiece) -> Render:
    """Parse `case`, `when`, `else`. The first equal value is used."""
    subject = _read_whole(piece, read_filtered)
    _, first = reader.body(piece, "when", "else")
    branches = reader.branches(piece, first, "when", _values)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        subject_value = subject(scope)

        def is_equal(value: Expression) -> bool:
            scope.budget.step()
            scope.budget.weigh(subject_value)
            return same(subject_value, value(scope))

        for values, body in branches:
            if values is None or any(map(is_equal, values)):
                return body.render(scope, out)
        return None

    return render


def _values(tokens: Tokens) -> list[Expression]:
    values = [read_value(tokens)]
    while tokens.takes(",", "or"):
        values.append(read_value(tokens))
    return values


@dataclass(frozen=True, slots=True)
class LoopHead:
    """The head of a loop: `name in list limit: 2 offset: 1 reversed`, and `cols: 3` of a table.

    `offset: continue` starts at the end of the last loop with the same `key`.
    """

    name: str
    over: Expression
    key: str
    options: dict[str, Expression]
    resumed: bool
    backwards: bool

    def whole(self, option: str, scope: TemplateScope) -> int | None:
        """Return an option as a whole number of 0 or more; None if it is not given."""
        value = self.options[option](scope) if option in self.options else None
        return None if value is None or value is MISSING else max(0, int(number(value)))

    def elements(self, scope: TemplateScope) -> list[Any]:
        """Return the elements in order."""
        items = elements(self.over(scope))
        scope.budget.step(len(items))
        first = scope.reached.get(self.key, 0) if self.resumed else self.whole("offset", scope) or 0
        limit = self.whole("limit", scope)
        items = items[first:] if limit is None else items[first : first + limit]
        scope.reached[self.key] = first + len(items)
        return items[::-1] if self.backwards else items


def _read_head(tokens: Tokens, *more: str) -> LoopHead:
    """Parse the head of a loop, with the options in `more`."""
    name = tokens.name()
    if not tokens.takes("in"):
        raise TemplateError(f"expected 'in' instead of {tokens.next[1]!r}")
    start = tokens.place
    over = read_value(tokens)
    key = f"{name} {tokens.taken_since(start)}"
    options: dict[str, Expression] = {}
    resumed = backwards = False
    while option := tokens.takes("reversed", "limit", "offset", ",", *more):
        if option == "reversed":
            backwards = True
        elif option != ",":
            tokens.expect(":")
            if option == "offset" and tokens.takes("continue"):
                resumed = True
            else:
                options[option] = read_value(tokens)
    return LoopHead(name, over, key, options, resumed, backwards)


def _for(reader: Reader, piece: SourcePiece) -> Render:
    """Parse `for name in list limit: 2 offset: 1 reversed`, with `else` for an empty list."""
    head = _read_whole(piece, _read_head)
    body, last = reader.body(piece, "else")
    otherwise = reader.body(piece)[0] if last.name == "else" else TagBody(())

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        items = head.elements(scope)
        if not items:
            return otherwise.render(scope, out)
        parent = scope.around("forloop")
        with scope.frame() as frame:
            for index, one in enumerate(items):
                scope.budget.step()
                frame[head.name] = one
                frame["forloop"] = {**_position(index, len(items)), "parentloop": parent}
                if body.render(scope, out) == "break":
                    break
        return None

    return render


def _table(reader: Reader, piece: SourcePiece) -> Render:
    """Parse `tablerow name in list cols: 2 limit: 4 offset: 1`: rows and cells in HTML."""
    head = _read_whole(piece, lambda tokens: _read_head(tokens, "cols"))
    body, _ = reader.body(piece)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        items = head.elements(scope)
        columns = head.whole("cols", scope) or max(1, len(items))
        out.add('<tr class="row1">\n')
        with scope.frame() as frame:
            for index, one in enumerate(items):
                scope.budget.step()
                row, column = divmod(index, columns)
                frame[head.name] = one
                frame["tablerowloop"] = {
                    **_position(index, len(items)), "row": row + 1, "col": column + 1, "col0": column,
                    "col_first": column == 0, "col_last": column == columns - 1,
                }  # fmt: skip
                out.add(f'<td class="col{column + 1}">')
                signal = body.render(scope, out)
                out.add("</td>")
                if signal == "break":
                    break
                if column == columns - 1 and index < len(items) - 1:
                    out.add(f'</tr>\n<tr class="row{row + 2}">')
        out.add("</tr>\n")
        return None

    return render


def _position(index: int, length: int) -> dict[str, Any]:
    return {
        "index": index + 1, "index0": index, "rindex": length - index, "rindex0": length - index - 1,
        "first": index == 0, "last": index == length - 1, "length": length,
    }  # fmt: skip


def _jump(signal: Signal) -> Callable[[Reader, SourcePiece], Render]:
    def read(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
        Tokens(piece.text).done()
        return lambda scope, out: signal  # noqa: ARG005

    return read


def _assign(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
    name, expression = _read_whole(piece, _assignment)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:  # noqa: ARG001
        scope.assign(name, expression(scope))
        return None

    return render


def _assignment(tokens: Tokens) -> tuple[str, Expression]:
    name = tokens.name()
    tokens.expect("=")
    return name, read_filtered(tokens)


def _capture(reader: Reader, piece: SourcePiece) -> Render:
    """Parse `capture name`, which stores its content in a variable."""
    name = _read_whole(piece, _name)
    body, _ = reader.body(piece)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:  # noqa: ARG001
        text, signal = body.capture(scope)
        scope.assign(name, text)
        return signal

    return render


def _name(tokens: Tokens) -> str:
    kind, word = tokens.take()
    if kind not in {"name", "text"} or not word:
        raise TemplateError(f"expected a name instead of {word!r}")
    return word


def _counter(step: int) -> Callable[[Reader, SourcePiece], Render]:
    """Return the parser of `increment`, which writes and then adds, or `decrement`, which does the reverse."""

    def read(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
        name = _read_whole(piece, _name)

        def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
            before = scope.counters.get(name, 0)
            scope.counters[name] = before + step
            out.add(str(before if step > 0 else before + step))
            return None

        return render

    return read


def _cycle(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
    """Parse `cycle "a", "b"`, maybe with a group before it; it writes the next value each time."""
    tokens = Tokens(piece.text)
    first = read_value(tokens)
    group = first if tokens.takes(":") else None
    start = tokens.place if group else 0
    values = [read_value(tokens) if group else first]
    while tokens.takes(","):
        values.append(read_value(tokens))
    tokens.done()
    own_key = tokens.taken_since(start)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        key = f"named {text_of(group(scope))}" if group else own_key
        scope.budget.charge(len(key))
        turn = scope.turns.get(key, 0)
        scope.turns[key] = turn + 1 if turn + 1 < len(values) else 0
        # a longer cycle may share the group, so this one may have no value now
        if turn < len(values):
            _write(values[turn](scope), scope, out)
        return None

    return render


def _if_changed(reader: Reader, piece: SourcePiece) -> Render:
    """Parse `ifchanged`, which writes its content if it differs from the last time."""
    body, _ = reader.body(piece)

    def render(scope: TemplateScope, out: TemplateOutput) -> Signal:
        text, signal = body.capture(scope)
        if text != scope.shown:
            scope.shown = text
            out.add(text)
        return signal

    return render


def _note(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
    """Parse `# note`. Each line must start with `#`, so no tag is commented out by mistake."""
    for line in piece.text.split("\n")[1:]:
        if line.strip() and not line.lstrip().startswith("#"):
            raise TemplateError(f"each line of a note must begin with '#', unlike {line.strip()[:40]!r}")
    return _text("")


def _from_elsewhere(reader: Reader, piece: SourcePiece) -> Render:  # noqa: ARG001
    raise TemplateError(
        f"the tag {piece.name!r} is not supported: there are no other templates to include; "
        "write the text here, or give it as a variable or an artifact"
    )


_FROM_ELSEWHERE: Final = ("include", "render", "snippet", "layout", "section")
_TAGS: Final[dict[str, Callable[[Reader, SourcePiece], Render]]] = {
    "if": _if,
    "unless": _if,
    "case": _case,
    "for": _for,
    "tablerow": _table,
    "assign": _assign,
    "capture": _capture,
    "increment": _counter(1),
    "decrement": _counter(-1),
    "cycle": _cycle,
    "break": _jump("break"),
    "continue": _jump("continue"),
    "echo": _output,
    "ifchanged": _if_changed,
    "liquid": lambda reader, piece: reader.lines(piece).render,
    "#": _note,
    **dict.fromkeys(_FROM_ELSEWHERE, _from_elsewhere),
}
_ENDS: Final = frozenset({"elsif", "else", "when", *(f"end{name}" for name in (*_TAGS, *VERBATIM))})
