"""The cells that ran in this kernel, read from IPython's history when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_CHECK = "%tract_check"


class RanCells:
    """Cells whose names the namespace may still have.

    `%reset` leaves the history alone. It fills IPython's table of hidden names anew, so that a bound method in there is
    another object than before.

    Args:
        shell: IPython's.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._start = 0
        self._witness = self._hidden_method()

    def all(self) -> list[str]:
        """What ran since the kernel began or `%reset`; not the cell that calls this."""
        cells = self._history()
        witness = self._hidden_method()
        if witness is not self._witness:
            self._witness, self._start = witness, _after_reset(cells, self._start)
        # what was only checked never ran
        return [cell for cell in cells[self._start :] if not cell.lstrip().startswith(f"%{_CHECK}")]

    def _history(self) -> list[str]:
        manager = self._shell.history_manager
        cells: list[str] = [] if manager is None else manager.input_hist_raw[1:]
        is_running = bool(cells) and _CHECK in cells[-1]  # IPython stores a cell before it runs it
        return cells[:-1] if is_running else cells

    def _hidden_method(self) -> object:
        return self._shell.user_ns_hidden.get("get_ipython")


def _after_reset(cells: list[str], start: int) -> int:
    """Where the cells begin after the one that did it; at the end if none says so."""
    ends = [number for number, cell in enumerate(cells) if number >= start and "reset" in cell]
    return ends[-1] + 1 if ends else len(cells)
