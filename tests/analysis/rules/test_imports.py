"""Imports of unknown packages, and the origin of modules."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, codes, found
from tract_jupyter import CodeAnalyzer


def test_an_unknown_package_is_reported_below_high():
    assert "TJ407" in codes("import zorblax.thing")
    assert "TJ407" in codes("from zorblax import thing")
    assert found("import zorblax") == set()


@pytest.mark.parametrize(
    "code", ["import numpy, json, imp", "from . import x", "import tract_jupyter", "import tools"]
)
def test_known_packages(code):
    assert "TJ407" not in codes(code)


def test_a_slip_of_the_finger():
    assert ("TJ407", "medium") in found("import reqeusts")
    assert ("TJ407", "medium") in found("from matplotlob import pyplot")


def test_modules_of_the_workspace_are_known(tmp_path):
    (tmp_path / "helpers.py").write_text("")
    (tmp_path / "package").mkdir()
    analyzer = CodeAnalyzer(tmp_path)
    assert analyzer.analyze("import helpers\nfrom package import x").findings == ()


def test_to_ask_for_a_module_gives_nothing_away():
    assert found("import sys\n'google.colab' in sys.modules") == set()
    assert ("TJ403", "high") in found("import sys\nsys.modules['x']")


PATHS = [("src", "low"), ("..", "medium"), ("/opt/x", "high"), ("~/code", "high"), ("/tmp/x", "high")]


@pytest.mark.parametrize(("path", "level"), PATHS)
def test_folders_on_the_path(path, level):
    code = f"import sys\nsys.path.append({path!r})"
    assert [str(f.level) for f in analyze(code).findings if f.code == "TJ406"] == [level]


def test_reading_the_path_changes_nothing():
    assert found("import sys\nprint(sys.path)\nfor p in sys.path:\n    print(p)") == set()
    assert ("TJ406", "medium") in found("import sys\nsys.path.append(x)")
    assert ("TJ406", "medium") in found("import sys\nsys.path = []")
