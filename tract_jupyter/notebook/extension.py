"""Load and unload the extension: everything that is put into IPython is taken out again.

Formatters are registered by the names of the types, so that neither the types nor the views are imported before one of
them is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.notebook.completions import make_matcher
from tract_jupyter.notebook.config import TractJupyter
from tract_jupyter.notebook.formatters import register, unregister
from tract_jupyter.notebook.magics import TractMagics
from tract_jupyter.notebook.session import NotebookSession, inject, withdraw

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell


_ATTRIBUTE = "_tract_jupyter"


@dataclass
class _Loaded:
    notebook: NotebookSession
    magics: TractMagics
    matcher: Callable[[Any], Any]
    names: dict[str, Any]


def load(shell: InteractiveShell) -> None:
    """Register magics, completions and settings; put `tract` and `tools` into the namespace. Opens nothing yet."""
    if getattr(shell, _ATTRIBUTE, None) is not None:
        return
    config = TractJupyter(parent=shell)
    notebook = NotebookSession(shell, config)
    names, taken = inject(notebook)
    loaded = _Loaded(notebook, TractMagics(notebook), make_matcher(notebook), names)
    shell.register_magics(loaded.magics)
    register(shell)
    shell.configurables.append(config)  # type: ignore[arg-type] # IPython declares a list of shells
    shell.input_transformers_cleanup.append(await_waiting_cells)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(loaded.matcher)
    setattr(shell, _ATTRIBUTE, loaded)
    if not config.quiet:
        print(_greeting(config, list(names), taken))  # noqa: T201 # the one line that says so
    problem = notebook.why_not_written()
    if problem:
        print(problem)  # noqa: T201 # also where it is to be quiet: whatever follows would fail


def unload(shell: InteractiveShell) -> None:
    """Take everything out again, and close the store."""
    loaded: _Loaded | None = getattr(shell, _ATTRIBUTE, None)
    if loaded is None:
        return
    withdraw(loaded.notebook, loaded.names)
    for kind, functions in loaded.magics.magics.items():
        for name in functions:
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(type(loaded.magics).__name__, None)
    for configurable in (loaded.notebook.config, loaded.magics):
        shell.configurables.remove(configurable)  # type: ignore[arg-type] # see `load`
    shell.input_transformers_cleanup.remove(await_waiting_cells)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    unregister(shell)
    loaded.notebook.close()
    delattr(shell, _ATTRIBUTE)


def _greeting(config: TractJupyter, names: list[str], taken: list[str]) -> str:
    from tract_jupyter import __version__

    ready = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} ready" if names else "ready"
    line = f"tract_jupyter {__version__}: {ready}; the context is kept in {config.store}. %tract help tells more."
    for name in taken:
        setting = "tract_name" if name == config.tract_name else "tools_name"
        line += (
            f"\n{name!r} is a variable of yours and was left alone; for another name: "
            f"%config TractJupyter.{setting} = '{name}_'"
        )
    return line


# Cells that wait are rewritten to an `await` of them: IPython does not await a cell magic's coroutine, so the first
# line must become an expression that is.
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
