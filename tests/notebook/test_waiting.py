"""The line at the end of a cell that leaves questions open."""

import pytest

from tests.notebook.conftest import Shell

ASK = "p = tract.propose_operation(spec)"
LINE = "waiting: %tract inbox shows"
PREPARE = """
from tract_jupyter import ActionDef, OperationSpec
spec = OperationSpec("publish", "Publish it.", {}, {"go": ActionDef("go", "Publish it.", {}, "pending.approve()")})
"""


class Person(Shell):
    """A shell with counted cells, like the cells of a user."""

    def run(self, cell):
        self.ip.execution_count += 1
        return super().run(cell)


@pytest.fixture
def person(shell, monkeypatch):
    """A shell at a terminal with a user."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    shell.run(PREPARE)
    return Person(shell.ip)


def test_a_cell_that_leaves_a_question_open_says_so_in_one_line(person):
    asked = person.run(f"{ASK}\ntract.user('a'); other = tract.propose_gc()")
    assert asked.text.count(LINE) == 1
    assert "2 waiting: %tract inbox shows them." in asked.text


def test_a_cell_of_others_says_nothing(person):
    person.run(ASK)
    assert LINE not in person.run("print(1)").text
    assert "1 waiting: %tract inbox shows it." in person.run("%tract log").text


def test_what_the_cell_itself_tells_is_not_told_twice(person):
    person.run(ASK)
    for cell in ("%tract", "tract", "%tract inbox"):
        assert LINE not in person.run(cell).text, cell


def test_a_question_on_display_in_the_cell_is_not_told_there(person):
    assert LINE not in person.run("tract.register_operation(spec)\n%tract_fire publish --review").text
    assert LINE in person.run("%tract log").text


def test_when_all_is_decided_nothing_is_said(person):
    person.run(ASK)
    assert LINE not in person.run("p.reject()").text
    assert LINE not in person.run("%tract log").text


def test_where_nobody_looks_nothing_is_said(shell):
    shell.run(PREPARE)
    assert LINE not in shell.run(ASK).text


def test_a_cell_that_fails_says_it_too(person):
    assert LINE in person.run(f"{ASK}\n1 / 0").text
