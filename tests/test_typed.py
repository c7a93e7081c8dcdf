"""Scripts of users under type checkers and a completer: they know what the package offers, and reject what it does not."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import jedi
import pytest
from mypy import api

import tract_jupyter
from tests import test_structure as structure

SCRIPTS = Path(__file__).with_name("typed")
GOOD, BAD = SCRIPTS / "good.py", SCRIPTS / "bad.py"


def wrong_lines():
    return [number for number, line in enumerate(BAD.read_text().splitlines(), 1) if "# wrong: " in line]


def interfaces():
    for module in pkgutil.walk_packages(tract_jupyter.__path__, "tract_jupyter."):
        if (
            module.ispkg
            and Path(module.module_finder.path, module.name.rpartition(".")[2], "__init__.pyi").exists()
        ):
            yield import_module(module.name)


def test_public_interfaces_have_the_names_that_type_checkers_see():
    found = {*interfaces()}  # which imports them
    assert {tract_jupyter.operations, tract_jupyter.analysis} <= found
    for package in (tract_jupyter, *interfaces()):
        promised = structure.interface(package.__name__)
        assert promised.keys() == {*package.__all__}, package.__name__
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        for name in promised:
            found = getattr(package, name)
            assert isinstance(found, ModuleType) == (name in modules), "a name must not be that of a module"
        with pytest.raises(AttributeError, match="attribute Nothing"):
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
