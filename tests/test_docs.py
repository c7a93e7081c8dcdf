"""The documentation's code runs, and what it names exists."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import nbformat
import pytest

from tract_jupyter.notebook.cell_syntax import parse_cell

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# the examples in the manual of the rules are what the rules warn of
TO_RUN = [page for page in PAGES if page.name != "rules.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    return [(language, code) for language, code in BLOCK.findall(page.read_text()) if language == "python"]


@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: page.name)
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


def distribution(requirement):
    """`jupyter-core` for `jupyter_core>=5.7`."""
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-")


def imported_distributions():
    """What the package imports from elsewhere, at the top of its files or within functions: {distribution: files}."""
    providers, own = packages_distributions(), sys.stdlib_module_names | {"tract_jupyter"}
    found = {}
    for path in (ROOT / "tract_jupyter").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            for module in {name.partition(".")[0] for name in names} - own:
                (provider,) = set(providers.get(module, [module]))  # an extra may not be installed
                found.setdefault(distribution(provider), set()).add(path.relative_to(ROOT).as_posix())
    return found


def brought_by(name):
    """What a distribution itself requires."""
    return {distribution(requirement) for requirement in requires(name) or ()}


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = {distribution(requirement) for requirement in project["dependencies"]}
    optional = {distribution(requirement) for extra in extras.values() for requirement in extra}
    text = (ROOT / "docs" / "dependencies.md").read_text().lower().replace("_", "-")
    rows = "\n".join(re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE))
    assert {name for name in declared if not re.search(rf"\b{name}\b", rows)} == set()
    beside = text.partition("\nextras: ")[2]
    assert {name for name in optional if name not in beside} == set()
    imported = imported_distributions()
    (postgres,) = map(distribution, extras["postgres"])
    assert imported.pop(postgres) == {"tract_jupyter/storage/engines.py"}
    for extra, where in {
        "mcp": "tract_jupyter/toolkit/mcp/",
        "sandbox": ("tract_jupyter/sandbox/", "tract_jupyter/scripts/"),
    }.items():
        (named,) = map(distribution, extras[extra])
        for name in {named, *brought_by(named)} & imported.keys() - declared:
            assert all(path.startswith(where) for path in imported.pop(name)), name
    assert {name: files for name, files in imported.items() if name not in declared} == {}
    # the platform, and what anywidget's class of widgets is made of
    assert declared - imported.keys() == {"ipykernel", "ipywidgets"}


def test_notebooks_are_committed_without_outputs():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert not [c for c in cells if c.cell_type == "code" and (c.outputs or c.execution_count)], path.name
