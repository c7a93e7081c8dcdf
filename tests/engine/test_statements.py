"""The number of SQL statements does not grow with the history."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event


@contextmanager
def counted():
    statements = []

    def note(_connection, _cursor, statement, *_):
        statements.append(re.sub(r"\?(, \?)*", "?", statement))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


OPERATIONS = {
    "append": lambda tract, _: tract.user("one more"),
    "edit": lambda tract, first: tract.user("changed", operation="edit", edit_target=first),
    "log": lambda tract, _: tract.log(),
    "log of all": lambda tract, _: tract.log(None),
    "status": lambda tract, _: tract.status(),
    "compile": lambda tract, _: tract.compile(),
    "get": lambda tract, first: tract.get_commit(first),
    "content": lambda tract, first: tract.get_content(first),
    "annotate": lambda tract, first: tract.annotate(first, "pinned"),
    "branch": lambda tract, _: tract.branch("topic"),
}


def grown(tract, size):
    first = tract.user("0").commit_hash
    for number in range(1, size):
        tract.user(str(number))
    return first


def statements_of(tract, operation, first):
    with counted() as statements:
        OPERATIONS[operation](tract, first)
    return statements


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_number_of_statements_is_constant(tract, operation):
    from tract_jupyter import Tract

    first = grown(tract, 10)
    few = statements_of(tract, operation, first)
    with Tract.open() as larger:
        many = statements_of(larger, operation, grown(larger, 200))
    assert many == few
    assert few  # the counter does count


@pytest.mark.parametrize(("operation", "number"), [("append", 5), ("log", 3), ("compile", 5), ("status", 7)])
def test_the_number_of_statements_is_small(tract, operation, number):
    """With `BEGIN`s; one commit: where HEAD is, content, commit, branch."""
    assert len(statements_of(tract, operation, grown(tract, 3))) <= number


def test_compiling_takes_one_statement_more_for_500_contents(tract):
    grown(tract, 501)
    more = len(statements_of(tract, "compile", None))
    tract.branch("shorter", source=tract.log(2)[1].commit_hash)
    assert more == len(statements_of(tract, "compile", None)) + 1
    assert [message.content for message in tract.compile().messages] == [str(n) for n in range(500)]
