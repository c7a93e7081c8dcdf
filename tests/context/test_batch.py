"""A batch is written completely or not at all."""

from __future__ import annotations

import sqlite3

import pytest

from tests.context.test_edits import texts
from tract_jupyter import Tract
from tract_jupyter.exceptions import BudgetExceededError, EditTargetError, StoreError
from tract_jupyter.models import TokenBudget

TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def test_a_batch_gives_the_same_context_as_single_commits(tract):
    with Tract.open() as other:
        for each in (tract, other):
            if each is tract:
                with each.batch():
                    fill(each)
            else:
                fill(each)
        assert tract.compile().to_dicts() == other.compile().to_dicts()
        assert tract.status().token_count == other.status().token_count
    assert tract.verify() == []


def fill(tract):
    first = tract.system("a")
    tract.user("b", tags=["t"])
    tract.user("B", edit="HEAD")
    tract.annotate(first.commit_hash, "skip")
    tract.assistant("c")


def test_reads_inside_a_batch_see_its_commits(tract):
    with tract.batch():
        info = tract.user("a")
        assert tract.get_commit(info.commit_hash[:8]) == info
        assert texts(tract) == ["a"]
        assert len(tract.log()) == tract.status().commit_count == 1
        tract.branch("topic")
        tract.user("b")
        tract.switch("main")
        assert texts(tract) == ["a"]
    assert texts(tract, at_commit="topic") == ["a", "b"]


def failing(tract):
    with tract.batch():
        tract.user("lost")
        tract.branch("lost")
        tract.user("lost too")
        raise ZeroDivisionError


def test_a_batch_that_fails_leaves_nothing(tract):
    tract.user("a")
    tract.compile()
    with pytest.raises(ZeroDivisionError):
        failing(tract)
    assert texts(tract) == ["a"]
    assert [branch.name for branch in tract.list_branches()] == ["main"]
    tract.user("b")
    assert texts(tract) == ["a", "b"]
    assert tract.verify() == []


def test_a_refusal_that_is_caught_leaves_the_rest(tract):
    with tract.batch():
        tract.user("a")
        with pytest.raises(EditTargetError):
            tract.user("x", edit="f" * 64)
        tract.budget = TokenBudget(30, "reject")
        with pytest.raises(BudgetExceededError):
            tract.user("x " * 100)
        tract.user("b")
    assert texts(tract) == ["a", "b"]


def test_a_batch_within_a_batch_is_a_part_of_it(tract):
    with tract.batch():
        tract.user("a")
        with tract.batch():
            tract.user("b")
        tract.user("c")
    assert texts(tract) == ["a", "b", "c"]


def inner_fails(tract):
    with tract.batch():
        tract.user("a")
        with pytest.raises(ZeroDivisionError):
            failing(tract)
        tract.user("c")


def test_a_failed_batch_within_a_batch_fails_it_too(tract):
    with pytest.raises(StoreError, match="nothing was written"):
        inner_fails(tract)
    assert tract.head is None
    tract.user("b")
    assert texts(tract) == ["b"]


def test_an_empty_batch_is_nothing(tract):
    with tract.batch():
        pass
    assert tract.head is None


def test_others_see_a_batch_when_it_is_done(tmp_path):
    with Tract.open(tmp_path / "s.db") as one, Tract.open(tmp_path / "s.db") as two:
        with one.batch():
            one.user("a")
            assert one.head
            assert two.head is None
        assert two.head == one.head


def test_a_batch_with_a_failed_write_fails_even_if_the_error_is_caught(tmp_path):
    """A read within the batch writes the commits first. Its error must not leave a batch without them."""
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("a")
        with sqlite3.connect(tmp_path / "s.db") as other:
            other.execute(
                "create trigger full before insert on commits begin select raise(abort, 'full'); end"
            )
        other.close()
        with pytest.raises(StoreError, match="nothing was written"):
            without_room(tract)
        assert texts(tract) == ["a"]


def without_room(tract):
    with tract.batch():
        tract.user("b")
        with pytest.raises(StoreError, match="full"):
            tract.log()
