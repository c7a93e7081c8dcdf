"""The documentation's code runs, and what it names exists."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from tract_jupyter.notebook.cell_syntax import parse_cell

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    return [(language, code) for language, code in BLOCK.findall(page.read_text()) if language == "python"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_or_are_cells(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, code in blocks(page):
        if code.startswith("%%tract_operation"):
            first, _, body = code.partition("\n")
            assert parse_cell(first.split()[1], body, "python").spec.actions
        elif not re.match(r"%|\w+ = %|c\.", code):
            exec(compile(ast.parse(code), str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_dependency_is_explained():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs" / "dependencies.md").read_text().lower()
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement).group()
        assert name.lower() in text, name


def test_notebooks_are_committed_without_outputs():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert not [c for c in cells if c.cell_type == "code" and (c.outputs or c.execution_count)], path.name
