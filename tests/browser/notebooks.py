"""Notebook files for the browser tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat

if TYPE_CHECKING:
    from pathlib import Path


def write_notebook(path: Path, *sources: str, kernel: str = "python3") -> Path:
    """Write a notebook of code cells.

    Args:
        path: Where to; missing folders are made.
        sources: One cell's source each.
        kernel: Name of the kernelspec that the notebook asks for.

    Returns:
        The path, for chaining.
    """
    notebook = nbformat.v4.new_notebook()
    # fixed ids: the same sources give the same bytes
    notebook.cells = [
        nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources)
    ]
    notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel, "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a notebook file as version 4 and validate it."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook
