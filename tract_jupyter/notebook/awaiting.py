"""Cells that wait: `%%tract_script`, `%%tract_run`, `%%tract_operation ... --wait` are rewritten to an `await` of them.

A cell magic's coroutine is not awaited by IPython, so the first line must become an expression that is.
"""

from __future__ import annotations

import re

_WAITING_CELL = re.compile(
    r"\s*%%(?P<name>tract_script\b|tract_run\b|tract_operation\b(?=[^\n]*(?<!\S)--wait(?!\S)))(?!\?)"  # ? asks for help
    r"(?P<line>[^\n]*)\n?"
)


def await_waiting_cells(lines: list[str]) -> list[str]:
    """IPython input transformer: lines of the cell in, lines of the cell out."""
    match = _WAITING_CELL.match("".join(lines))
    if match is None:
        return lines
    cell = "".join(lines)[match.end() :]
    if not cell and match["name"] == "tract_run":
        cell = "\n"  # it may be empty, and IPython refuses a magic without any body
    return [f"await get_ipython().run_cell_magic({match['name']!r}, {match['line'].strip()!r}, {cell!r})\n"]


# IPython's word for: not while a terminal asks whether the cell is complete; it would be, after its first line.
await_waiting_cells.has_side_effects = True  # type: ignore[attr-defined]
