"""Scripts of users under type checkers and a completer: they know what the package offers, and reject what it does not."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import jedi
import pytest
from mypy import api

import tract_jupyter

SCRIPTS = Path(__file__).with_name("typed")
GOOD, BAD = SCRIPTS / "good.py", SCRIPTS / "bad.py"


def wrong_lines():
    return [number for number, line in enumerate(BAD.read_text().splitlines(), 1) if "# wrong: " in line]


def promised(package):
    """Where a package says to type checkers that its names come from."""
    tree = ast.parse(Path(package.__file__).read_text())
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    return {
        alias.name: node.module
        for node in blocks[0].body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tract_jupyter")
        for alias in node.names
    }


def table(package):
    """Where a package with a door finds its names."""
    tree = ast.parse(Path(package.__file__).read_text())
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "door"
    ]
    if not calls:
        return None
    where = calls[0].args[1]
    return package._HOME if isinstance(where, ast.Name) else ast.literal_eval(where)


def packages():
    yield tract_jupyter
    for module in pkgutil.walk_packages(tract_jupyter.__path__, "tract_jupyter."):
        if module.ispkg:
            yield import_module(module.name)


def test_doors_promise_to_type_checkers_what_they_have():
    doors = [package for package in packages() if table(package) is not None]
    assert {"tract_jupyter", "tract_jupyter.operations", "tract_jupyter.analysis"} <= {
        d.__name__ for d in doors
    }
    for package in doors:
        assert promised(package) == table(package), package.__name__
        own = {"__version__", "load_ipython_extension", "unload_ipython_extension"}
        assert set(package.__all__) == {*table(package), *(own if package is tract_jupyter else ())}
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        assert not modules & set(table(package)), "Python would give the module instead"
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
            package.Nothing  # noqa: B018


def test_no_root_name_means_several_things():
    assert not {"Profile", "operation"} & set(tract_jupyter.__all__)


@pytest.mark.slow
def test_mypy_accepts_the_good_script_and_rejects_each_wrong_line(pytestconfig):
    cache = pytestconfig.cache.mkdir("typed")
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--show-error-end", "--no-error-summary"]
    told, errors, _ = api.run([*options, "--follow-imports=silent", "--no-pretty", str(GOOD), str(BAD)])
    assert not errors
    found = re.findall(r"^(.*?):(\d+):.* error: ", told, flags=re.MULTILINE)
    assert {Path(name).name for name, _ in found} == {"bad.py"}, told
    assert sorted({int(line) for _, line in found}) == wrong_lines(), told


@pytest.mark.slow
def test_pyright_accepts_the_good_script_and_rejects_each_wrong_line():
    pytest.importorskip("basedpyright")  # pyright with a node of its own, so that nothing is downloaded
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    ended = subprocess.run(
        [*command, str(GOOD), str(BAD)], cwd=SCRIPTS, capture_output=True, text=True, check=False
    )
    told = [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in json.loads(ended.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert sorted(set(told)) == [("bad.py", line) for line in wrong_lines()], ended.stdout


def test_a_completer_knows_a_tract_without_running_anything():
    script = "from tract_jupyter import Tract\nt = Tract.open()\nt."
    names = {completion.name for completion in jedi.Script(script).complete(3, 2)}
    assert {"user", "commit", "compile", "branch", "merge", "compress", "operations"} <= names
    assert len([name for name in names if not name.startswith("_")]) >= 40
