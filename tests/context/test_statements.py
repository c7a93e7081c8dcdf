"""The number of SQL statements does not grow with the history."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.statements import traced
from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.models import TokenBudget


class Counted:
    """A store that records every statement that SQLite runs."""

    def __init__(self, size, path=":memory:", budget=None):
        self.seen = []
        with traced(self.seen):
            self.tract = Tract.open(path, tokenizer=ApproximateCounter(), budget=budget)
            self.first = self.tract.user("0").commit_hash
            with self.tract.batch():
                for number in range(1, size):
                    self.tract.user(str(number))
        self.tract.user("the last")

    def statements_of(self, operation):
        self.seen.clear()
        OPERATIONS[operation](self.tract, self.first)
        return [statement for statement in self.seen if not statement.startswith(("BEGIN", "COMMIT"))]


def afresh(use):
    """Simulate a newly started process."""

    def run(tract, first):
        tract._repository.timelines.forget()
        tract._repository.writer.forget_position()
        use(tract, first)

    return run


OPERATIONS = {
    "append": lambda tract, _: tract.user("one more"),
    "append afresh": afresh(lambda tract, _: tract.user("one more")),
    "edit": lambda tract, first: tract.user("changed", edit=first),
    "edit afresh": afresh(lambda tract, first: tract.user("changed", edit=first)),
    "annotate": lambda tract, first: tract.annotate(first, "skip"),
    "annotate afresh": afresh(lambda tract, first: tract.annotate(first, "skip")),
    "log": lambda tract, _: tract.log(),
    "log of all": lambda tract, _: tract.log(None),
    "status": lambda tract, _: tract.status(),
    "status afresh": afresh(lambda tract, _: tract.status()),
    "compile": lambda tract, _: tract.compile(),
    "compile afresh": afresh(lambda tract, _: tract.compile()),
    "compile the past": lambda tract, first: tract.compile(at_commit=first),
    "get": lambda tract, first: tract.get_commit(first),
    "content": lambda tract, first: tract.get_content(first),
    "branch": lambda tract, _: tract.branch("topic"),
    "switch": lambda tract, _: tract.switch("main"),
    "checkout": lambda tract, first: tract.checkout(first),
    "reset": lambda tract, first: tract.reset(first),
    "undo": lambda tract, _: tract.undo(),
    "tag": lambda tract, first: tract.tags.add(first, "t"),
    "versions": lambda tract, first: tract.history.versions(first),
    "pinned": lambda tract, _: tract.history.pinned(),
    "text": lambda tract, _: tract.history.query_by_text("no such text"),
}


@pytest.fixture
def counted():
    """Makes stores, and closes them at the end."""
    with ExitStack() as stack:

        def make(size, **options):
            store = Counted(size, **options)
            stack.callback(store.tract.close)
            return store

        yield make


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_number_of_statements_is_constant(counted, operation):
    few = counted(10).statements_of(operation)
    many = counted(300).statements_of(operation)
    assert many == few
    assert few  # the counter works


@pytest.mark.parametrize("operation", ["append", "append afresh", "edit", "annotate"])
def test_a_budget_costs_no_statement(counted, operation):
    plain = counted(50).statements_of(operation)
    assert counted(50, budget=TokenBudget(10**6)).statements_of(operation) == plain


@pytest.mark.parametrize(("operation", "number"), [
    ("append", 3),  # content, commit, branch
    ("append afresh", 4),  # also reads HEAD
    ("status", 6),  # four of them only once: the token counter, the provider counts, the stored values
    ("log", 3), ("compile", 1), ("compile afresh", 2), ("branch", 5), ("edit", 9), ("annotate", 9),
])  # fmt: skip
def test_the_number_of_statements_is_small(counted, operation, number):
    seen = counted(30).statements_of(operation)
    assert len(seen) <= number, seen


def test_a_batch_with_a_budget_and_a_long_history_does_not_read_the_history(counted):
    store = counted(300)
    store.seen.clear()
    with store.tract.batch():
        for number in range(100):
            store.tract.user(f"in a batch {number}")
    reads = [statement for statement in store.seen if statement.startswith("SELECT")]
    assert len(reads) == 1  # reads HEAD
