"""Names persist from cell to cell until the kernel ends."""

from __future__ import annotations

import pytest

from tract_jupyter.analysis import AnalysisSession, CodeAnalyzer


def codes(result):
    return {finding.code for finding in result.findings if finding.level >= "medium"}


@pytest.fixture
def session():
    return AnalysisSession()


def test_names_of_cells_that_ran_are_known(session):
    session.ran("import os as workspace")
    session.ran("run = workspace.system")
    assert codes(session.analyze("run('ls')")) == {"TJ101"}


def test_names_of_a_cell_that_did_not_run_are_not_kept(session):
    session.analyze(
        "import os as workspace\ndef f(m):\n    return m\nclass A:\n    m = workspace\nA.m = workspace"
    )
    assert codes(session.analyze("workspace.system('ls')\nf(1).m.system('x')")) == set()


def test_a_users_name_that_hides_a_builtin_is_kept(session):
    session.ran("def compile(x):\n    return x\nopen = 1")
    assert codes(session.analyze("compile('x')")) == set()


def test_a_kernel_reset_clears_the_names(session):
    session.ran("import os as workspace")
    session.reset()
    assert codes(session.analyze("workspace.system('ls')")) == set()


def test_a_cell_that_cannot_be_read_teaches_nothing(session):
    session.ran("import os as workspace")
    for broken in ("def f(:", "(" * 5000, "\0"):
        session.ran(broken)
    assert codes(session.analyze("workspace.system('ls')")) == {"TJ101"}


def test_magics_of_earlier_cells(session):
    session.ran("%matplotlib inline\nimport os as workspace\n!ls")
    assert codes(session.analyze("workspace.system('ls')")) == {"TJ101"}


def test_the_analyzer_is_the_one_given():
    session = AnalysisSession(CodeAnalyzer(off=["TJ101"]))
    assert codes(session.analyze("import os\nos.system('x')")) == set()


def test_a_session_gives_the_same_result_as_one_analysis_of_all_cells():
    cells = ["import os as o", "f = getattr(o, 'sys' + 'tem')", "g = [f]", "g[0]('ls')"]
    session = AnalysisSession()
    for number, cell in enumerate(cells):
        assert session.analyze(cell) == CodeAnalyzer().analyze(cell, cells_before=cells[:number])
        session.ran(cell)
