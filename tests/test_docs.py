"""The code in the documentation runs, and the names in it exist."""

import ast
import re
import runpy
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from tests import reference
from tests import test_structure as structure
from tests.browser.tutorials import TUTORIALS, find_cell
from tests.sources import parsed
from tract_jupyter.notebook import parse_cell

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
# the examples in the manual of the rules are dangerous code, so they do not run
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


def anchors(page):
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^):#]*)(?:#([^)]+))?\)", BLOCK.sub("", page.read_text())):
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


PACKAGE = ROOT / "tract_jupyter"
# pages about the code: the names in them must exist
ABOUT_CODE = [
    *(ROOT / "docs" / f"{name}.md" for name in (
        "architecture", "context_inside", "glossary", "operations", "questions", "review_inside", "runs_inside", "tools"
    )),
    ROOT / "CONTRIBUTING.md",
]  # fmt: skip
# names of Python and libraries, and groups of entry points
FOREIGN = {"TypedDict", "tract_jupyter.rules", "tract_jupyter.run_kinds"}


@cache
def defined(path):
    """Return the classes, functions, constants and exports of a file: {name: names inside it}."""
    found = {}
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                each
                for part in ast.walk(node)
                for each in [
                    getattr(part, "name", None) or getattr(part, "attr", None) or getattr(part, "id", None)
                ]
            }
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = set()
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({target.id: set() for target in targets if isinstance(target, ast.Name)})
            if ast.unparse(targets[0]) == "__all__":
                found.update({name: set() for name in ast.literal_eval(node.value)})
    return found


@cache
def everything():
    """Return all names defined at the top level of the package's files."""
    return {name for path in PACKAGE.rglob("*.py") for name in defined(path)}


def is_there(dotted):
    """Return True if `package.module.Name.attribute` exists. A name may be anywhere below its package."""
    place, parts = PACKAGE, dotted.removeprefix("tract_jupyter.").split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    files = (
        [place / f"{parts[0]}.py"] if parts and (place / f"{parts[0]}.py").exists() else place.rglob("*.py")
    )
    rest = parts[1:] if parts and (place / f"{parts[0]}.py").exists() else parts
    if not rest:
        return True
    homes = [defined(path)[rest[0]] for path in files if rest[0] in defined(path)]
    return bool(homes) and (len(rest) == 1 or any(rest[1] in home for home in homes))


@cache
def endings():
    """Return each path of the package and each ending of it, such as `review/gate.py` and `gate.py`."""
    paths = [path.relative_to(PACKAGE).parts for path in PACKAGE.rglob("*")]
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


def is_path(text):
    """Return True if the path exists in the repository, in the package, or in one of its packages."""
    return text.rstrip("/") in endings() or (ROOT / text).exists()


@pytest.mark.slow
@pytest.mark.xdist_group("sources")
@pytest.mark.parametrize("page", ABOUT_CODE, ids=lambda page: page.name)
def test_names_and_paths_in_pages_about_the_code_exist(page):
    text = page.read_text()
    packages = {"tract_jupyter", *(path.stem for path in PACKAGE.iterdir())}
    diagrams = "\n".join(code for language, code in BLOCK.findall(text) if not language)
    quoted = re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))
    paths = [name for name in quoted if re.fullmatch(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|toml|ipynb))", name)]
    words = [
        word for name in [*quoted, diagrams] for word in re.findall(r"(?<![\w./])[A-Za-z_][\w.]*\w", name)
    ]
    dotted = [word for word in words if word.partition(".")[0] in packages - {"tract"} and "." in word]
    classes = [word for word in words if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", word)]
    assert [path for path in paths if not is_path(path)] == []
    dotted = {name for name in dotted if not name.endswith((".py", ".pyi", ".db", ".json"))} - FOREIGN
    assert {name for name in dotted if not is_there(name)} == set()
    assert set(classes) - everything() - FOREIGN == set()


@pytest.mark.xdist_group("sources")
def test_a_package_names_modules_that_are_there():
    for interface in PACKAGE.rglob("*/__init__.py"):
        first, _, text = (ast.get_docstring(parsed(interface)) or "").partition("\n\n")
        assert first.endswith("."), interface
        named = set(re.findall(r"`([a-z_]+)`", text)) - {"tools", "params", "tract_meta"}
        named -= {name for path in interface.parent.rglob("*.py") for name in defined(path)}
        home = interface.parent.relative_to(PACKAGE)
        places = {name: (f"{home}/{name}.py", f"{home}/{name}/", f"{name}.py", f"{name}/") for name in named}
        assert {name for name, some in places.items() if not any(map(is_path, some))} == set(), interface


FOUND_BY_STANDING_THERE = PACKAGE / "analysis" / "rules"  # rules are found because they are in this folder
ABOUT_RULES = {"base", "arguments", "lookup", "settings"}


@pytest.mark.xdist_group("sources")
def test_a_package_names_each_of_its_modules():
    unnamed = {}
    for interface in PACKAGE.rglob("__init__.py"):
        named = set(re.findall(r"`(\w+)`", ast.get_docstring(parsed(interface)) or ""))
        modules = {path.stem for path in interface.parent.glob("*.py")} - {"__init__", "__main__"}
        if interface.parent == FOUND_BY_STANDING_THERE:
            modules &= ABOUT_RULES
        unnamed[str(interface.parent.relative_to(PACKAGE))] = modules - named
    assert {place: modules for place, modules in unnamed.items() if modules} == {}


def known_by_import():
    """Return the packages that each package imports at runtime, except those that all may import."""
    known = {}
    for path in structure.FILES:
        for module, runtime in structure.imports_of(path):
            if runtime and module.startswith("tract_jupyter."):
                known.setdefault(structure.part_of_file(path), set()).add(structure.part_of(module))
    return {package: names - {package, "", *structure.BOTTOM} for package, names in known.items()}


def test_a_package_says_which_packages_it_knows():
    for package, known in known_by_import().items():
        interface = PACKAGE / package / "__init__.py"
        if interface.exists() and package != "notebook":  # notebook may import all packages
            text = ast.get_docstring(parsed(interface)) or ""
            assert known <= set(re.findall(r"`([a-z]+)", text[text.rfind("Knows") :])), package


def test_the_table_of_packages_lists_their_imports():
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Packages")[2].partition("\n\n`")[0]
    rows = {row[0]: row[2] for row in re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|$", table, re.MULTILINE)}
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == rows.keys()
    for package, known in known_by_import().items():
        if package in rows and package != "notebook":
            assert known <= set(re.findall(r"`(\w+)`", rows[package])), package


def test_the_name_lookup_of_these_tests_finds_only_existing_names():
    assert is_there("review.gate.Gate.carry_out")
    assert is_there("review.Gate")
    assert is_there("tract_jupyter.storage")
    for wrong in (
        "review.Nothing",
        "review.nothing",
        "review.gate.Gate.nothing",
        "review.gate.nothing",
        "nothing.Gate",
    ):
        assert not is_there(wrong), wrong
    assert is_path("review/gate.py")
    assert not is_path("review/nothing.py")


def test_the_api_reference_is_up_to_date():
    assert reference.PAGE.read_text() == reference.document(), f"write it anew: {reference.COMMAND}"


def distribution(requirement):
    """`jupyter-core` for `jupyter_core>=5.7`."""
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-")


def imported_distributions():
    """Return the imports of other distributions, at top level or in functions: {distribution: files}."""
    providers, own = packages_distributions(), sys.stdlib_module_names | {"tract_jupyter"}
    found = {}
    for path in (ROOT / "tract_jupyter").rglob("*.py"):
        for module in {name.partition(".")[0] for name, _ in structure.imports_of(path)} - own:
            (provider,) = set(providers.get(module, [module]))  # an extra may not be installed
            found.setdefault(distribution(provider), set()).add(path.relative_to(ROOT).as_posix())
    return found


def brought_by(name):
    """Return the requirements of a distribution."""
    return {distribution(requirement) for requirement in requires(name) or ()}


@pytest.mark.slow
@pytest.mark.xdist_group("sources")
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
        "headless": "tract_jupyter/notebook/headless_run.py",
        "mcp": "tract_jupyter/toolkit/mcp/",
        "notify": "tract_jupyter/notebook/notify.py",
        "sandbox": ("tract_jupyter/sandbox/", "tract_jupyter/scripts/"),
        "tiktoken": "tract_jupyter/context/tokens.py",
    }.items():
        named = set(map(distribution, extras[extra]))
        for name in named.union(*map(brought_by, named)) & imported.keys() - declared:
            assert all(path.startswith(where) for path in imported.pop(name)), name
    for name in (
        "numpy",
        "pandas",
        "polars",
        "pyarrow",
    ):  # only for values of a library that the user has imported
        assert all(path.startswith("tract_jupyter/rehearsal/") for path in imported.pop(name, ())), name
    assert {name: files for name, files in imported.items() if name not in declared} == {}
    # the parts of anywidget's widget class
    assert declared - imported.keys() == {"ipywidgets"}


def models_that_end():
    """Return the models that the official SDKs mark as deprecated."""
    anthropic, openai = (
        Path(find_spec(name).origin).parent for name in ("anthropic", "openai")
    )  # without an import
    deprecated = (anthropic / "_data" / "deprecated_models.py").read_text()
    values = (openai / "types" / "chat" / "completion_create_params.py").read_text()
    deprecated += values.partition("Deprecated values:")[2].partition('"""')[0]
    return set(re.findall(r'"((?:gpt|claude|o\d)[\w.-]*)"', deprecated))


TEXTS = {".py", ".pyi", ".md", ".ipynb", ".json", ".js"}
# a name such as `o3` can also be an operation's name
MODEL = re.compile(r"""(?<![\w.-])((?:gpt|claude|o\d)-[\w.-]*\w)|(?:Client\(|model=)["'](o\d)["']""")


@pytest.mark.slow
def test_examples_name_no_model_that_ends():
    ending = models_that_end()
    assert {"gpt-5", "o3"} <= ending
    folders = (ROOT / name for name in ("tract_jupyter", "notebooks", "tests", "benchmarks"))
    paths = {*PAGES, *(path for folder in folders for path in folder.rglob("*.*") if path.suffix in TEXTS)}
    for path in paths - {Path(__file__)}:
        if "vectors" not in path.parts:
            named = {one or other for one, other in MODEL.findall(path.read_text())}
            assert named & ending == set(), path


def test_notebooks_are_committed_without_outputs():
    for path in TUTORIAL_PATHS:
        cells = nbformat.read(path, as_version=4).cells
        assert not [c for c in cells if c.cell_type == "code" and (c.outputs or c.execution_count)], path.name


TUTORIAL_PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMES = {"twice": 2, "three times": 3, "four times": 4}
COUNTED = {"agents": [3]}  # tutorials whose text says how many requests a cell makes
TO_TYPE = {"Change the code"}  # opens an editor and makes no decision


def text_above(cells, number):
    """Return the text of the last cell with text above a cell, on one line."""
    *_, text = (cell.source for cell in cells[:number] if cell.cell_type == "markdown")
    return " ".join(text.split())


@pytest.mark.parametrize("path", TUTORIAL_PATHS, ids=lambda path: path.stem)
def test_the_text_of_a_tutorial_names_each_click(path):
    cells, counts = nbformat.read(path, as_version=4).cells, []
    for cell in TUTORIALS[path.stem]:
        text = text_above(cells, find_cell(cells, cell.source))
        assert [
            click.button for click in cell.clicks if click.button and f"**{click.button}**" not in text
        ] == []
        assert [click.types for click in cell.clicks if click.types.strip(' "') not in text] == []
        decisions = [click for click in cell.clicks if click.button and click.button not in TO_TYPE]
        for count in re.findall(rf"\bask (?:you )?({'|'.join(TIMES)})", text):
            counts.append(TIMES[count])
            assert len(decisions) == counts[-1]
    assert counts == COUNTED.get(path.stem, [])


def test_the_quickstart_takes_at_most_five_clicks():
    clicks = [click for cell in TUTORIALS["quickstart"] for click in cell.clicks if click.button]
    assert len(clicks) <= 5
    assert all(click.shows or click.types for click in clicks)  # the test checks each result on the screen


def test_the_readme_can_be_read_at_once():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_every_page_and_notebook_has_its_chapter_of_the_site():
    code = ast.parse((ROOT / "docs" / "build.py").read_text())
    (chapters,) = [
        ast.literal_eval(node.value)
        for node in code.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CONTENTS"
    ]
    named = [page for pages in chapters.values() for page in pages]
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in PAGES}
    notebooks = {f"notebooks/{path.stem}" for path in TUTORIAL_PATHS}
    assert sorted(named) == sorted((pages | notebooks) - {"README"})


def test_the_readme_has_the_commands_that_ci_runs():
    readme, run = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in ('pip install ".[docs,lab,postgres,test]"', 'python -m pytest -m ""'):
        assert command in readme
        assert re.search(
            rf"^(python -m )?{re.escape(command)}$",
            run.replace("pip install -q", "pip install"),
            re.MULTILINE,
        )


def test_ci_tries_each_install_line():
    installs = runpy.run_path(str(ROOT / ".ci" / "installs"))
    assert installs["named"]() == installs["COMMANDS"].keys()
