"""Imports of what is not known, and where modules come from."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import codes, found
from tract_jupyter import CodeAnalyzer


def test_a_package_that_nobody_knows_is_worth_a_look_and_no_more():
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
