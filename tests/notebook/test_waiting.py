"""The line at the end of a cell about open requests."""

import pytest

from tests.notebook.conftest import Shell

ASK = "p = tract.propose_operation(spec)"
LINE = "waiting: %tract inbox shows"
PREPARE = """
from tract_jupyter import ActionDef, OperationSpec
spec = OperationSpec("publish", "Publish it.", {}, {"go": ActionDef("go", "Publish it.", {}, "pending.approve()")})
"""


class Person(Shell):
    """A shell that counts its cells, like a user's notebook."""

    def run(self, cell):
        self.ip.execution_count += 1
        return super().run(cell)


@pytest.fixture
def person(shell, monkeypatch):
    """A shell at a terminal with a user."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    shell.run(PREPARE)
    return Person(shell.ip)


def test_a_cell_that_leaves_a_request_open_ends_with_one_line_about_it(person):
    asked = person.run(f"{ASK}\ntract.user('a'); other = tract.propose_gc()")
    assert asked.text.count(LINE) == 1
    assert "2 waiting: %tract inbox shows them." in asked.text


def test_the_line_is_absent_after_a_cell_without_tract_commands(person):
    person.run(ASK)
    assert LINE not in person.run("print(1)").text
    assert "1 waiting: %tract inbox shows it." in person.run("%tract log").text


def test_the_line_is_absent_if_the_cell_itself_shows_open_requests(person):
    person.run(ASK)
    for cell in ("%tract", "tract", "%tract inbox"):
        assert LINE not in person.run(cell).text, cell


def test_the_line_does_not_count_a_request_displayed_in_its_cell(person):
    assert LINE not in person.run("tract.register_operation(spec)\n%tract_fire publish --review").text
    assert LINE in person.run("%tract log").text


def test_the_line_is_absent_after_all_requests_are_decided(person):
    person.run(ASK)
    assert LINE not in person.run("p.reject()").text
    assert LINE not in person.run("%tract log").text


def test_the_line_is_absent_if_no_user_is_available(shell):
    shell.run(PREPARE)
    assert LINE not in shell.run(ASK).text


def test_a_failed_cell_ends_with_the_line_too(person):
    assert LINE in person.run(f"{ASK}\n1 / 0").text
