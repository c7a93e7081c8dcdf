"""What commands show: a heading, lines and tables, as HTML with a text fallback."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from tract_jupyter.models.text import printable
from tract_jupyter.notebook.markup import escaped, heading

_TEXT_WIDTH = 80


@dataclass(frozen=True)
class Grid:
    """A table. Cells are plain text; columns named in `code` are set in the code font, those in `right` flush right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    code: frozenset[str] = frozenset()
    right: frozenset[str] = frozenset()

    def to_html(self) -> str:
        """The table as HTML, everything escaped."""
        title = heading(self.title, 4) if self.title else ""
        head = "".join(f"<th{self._css(h)} scope='col'>{escaped(h)}</th>" for h in self.heads)
        body = "".join(f"<tr>{''.join(map(self._cell, self.heads, row))}</tr>" for row in self.rows)
        return f"{title}<table class='tract-grid'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_text(self) -> str:
        """The table with aligned columns."""
        table = [self.heads, *(tuple(map(_shortened, row)) for row in self.rows)]
        widths = [max(len(row[i]) for row in table) for i in range(len(self.heads))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        return "\n".join([*([self.title] if self.title else []), *lines])

    def _css(self, head: str) -> str:
        return " class='tract-right'" if head in self.right else ""

    def _cell(self, head: str, cell: str) -> str:
        text = escaped(cell)
        return f"<td{self._css(head)}>{f'<code>{text}</code>' if head in self.code and text else text}</td>"


def _shortened(cell: str) -> str:
    return cell if len(cell) <= _TEXT_WIDTH else cell[: _TEXT_WIDTH - 1] + "…"


@dataclass(frozen=True)
class View:
    """What a command shows."""

    title: str
    lines: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = field(default_factory=tuple)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    def to_html(self) -> str:
        """The view as HTML, everything escaped."""
        lines = "".join(f"<p>{escaped(line)}</p>" for line in self.lines)
        grids = "".join(grid.to_html() for grid in self.grids if grid.rows)
        return (
            f"<style>{_style()}</style><div class='tract-view'>{heading(self.title, 3)}{lines}{grids}</div>"
        )

    def to_text(self) -> str:
        """The view in plain text."""
        texts = [self.title, *self.lines, *(grid.to_text() for grid in self.grids if grid.rows)]
        return printable("\n".join(texts))


@cache
def _style() -> str:
    return files(__package__).joinpath("display.css").read_text(encoding="utf-8")
