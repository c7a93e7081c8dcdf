"""The table, printed line by line while the measuring goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.timing import Row

_LAYOUT = "{:<66} {:>10} {:<9} {:>7} {:>7}  {}"


def print_head() -> None:
    """Print the names of the columns."""
    print(_LAYOUT.format("name", "best", "unit", "target", "growth", ""))
    print("-" * 109, flush=True)


def print_group(name: str) -> None:
    """Print the heading of a group."""
    print(f"{name}:", flush=True)


def print_row(row: Row) -> None:
    """Print one line."""
    target = "" if row.target is None else f"{row.target:g}"
    growth = "" if row.growth is None else f"x{row.growth:.2f}"
    columns = (f"  {row.name}", _number(row.shown), row.unit, target, growth, row.verdict)
    print(_LAYOUT.format(*columns), flush=True)


def _number(value: float) -> str:
    digits = 0 if value == int(value) or value >= 1_000 else 1 if value >= 10 else 2  # noqa: PLR2004 # places
    return f"{value:,.{digits}f}"
