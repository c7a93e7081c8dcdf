"""Undo and redo follow one line of steps, for every operation that moves a branch."""

from __future__ import annotations

import gc

import pytest

from tract_jupyter.exceptions import DetachedHeadError, HistoryError
from tract_jupyter.models import Message


def texts(tract):
    return [message.content for message in tract.compile().messages]


def test_each_kind_of_commit_is_undone_and_redone(tract):
    first = tract.user("a")
    tract.user("b")
    tract.user("A", edit=first.commit_hash)
    tract.annotate(first.commit_hash, "skip")
    assert [tract.undo().operation for _ in range(4)] == ["annotate", "edit", "commit", "commit"]
    assert tract.head is None
    seen = []
    for _ in range(4):
        tract.redo()
        seen.append(texts(tract))
    assert seen == [["a"], ["a", "b"], ["A", "b"], ["b"]]


def test_preview_undo_shows_the_step_and_changes_nothing(tract):
    first, second = tract.user("a"), tract.user("b")
    step = tract.preview_undo()
    assert (step.branch, step.old, step.new) == ("main", second.commit_hash, first.commit_hash)
    assert tract.head == second.commit_hash
    assert str(step) == f"main: commit (b): {second.short_hash} → {first.short_hash}"
    assert tract.undo() == step
    assert tract.preview_undo(redo=True).new == second.commit_hash
    assert "before the first commit" in str(tract.undo())


def test_undo_of_a_reset_restores_the_old_head(tract):
    first, _, last = (tract.user(text) for text in "abc")
    tract.reset(first.commit_hash)
    assert tract.undo().operation == "reset"
    assert tract.head == last.commit_hash
    tract.redo()
    assert tract.head == first.commit_hash


def test_undo_skips_an_already_undone_reset(tract):
    first, _, last = (tract.user(text) for text in "abc")
    tract.reset(first.commit_hash)
    tract.undo()
    tract.user("d")
    went = [tract.undo().new for _ in range(3)]
    assert went[0] == last.commit_hash
    assert tract.head == first.commit_hash
    assert tract.undo().new is None  # not the head before the reset


def test_a_reset_that_was_redone_is_undone_again(tract):
    first, last = tract.user("a"), tract.user("b")
    tract.reset(first.commit_hash)
    for _ in range(3):
        assert tract.undo().new == last.commit_hash
        assert tract.redo().new == first.commit_hash
    tract.user("c")
    tract.undo()
    assert tract.undo().new == last.commit_hash


def test_a_new_commit_clears_the_redo_steps(tract):
    tract.user("a")
    tract.undo()
    tract.user("b")
    with pytest.raises(HistoryError, match="nothing to redo on 'main'"):
        tract.redo()
    assert texts(tract) == ["b"]


def test_nothing_to_undo(tract):
    for use in (tract.undo, tract.preview_undo):
        with pytest.raises(HistoryError, match="no commits"):
            use()
    info = tract.user("a")
    tract.checkout(info.commit_hash)
    for use in (tract.undo, tract.redo):
        with pytest.raises(DetachedHeadError, match="switch to one"):
            use()


def test_branches_are_undone_on_their_own(tract):
    tract.user("a")
    tract.branch("topic")
    tract.user("b")
    tract.switch("main")
    tract.user("c")
    tract.undo()
    tract.switch("topic")
    assert texts(tract) == ["a", "b"]
    with pytest.raises(HistoryError):
        tract.redo()
    tract.switch("main")
    tract.redo()
    assert texts(tract) == ["a", "c"]


def test_a_recreated_branch_does_not_inherit_the_undo_history(tract):
    first, last = tract.user("a"), tract.user("b")
    tract.branch("topic")
    tract.reset(first.commit_hash)
    tract.switch("main")
    tract.delete_branch("topic")
    tract.branch("topic", source=first.commit_hash)
    assert tract.undo().new is None
    assert last.commit_hash == tract.compile(at_commit="main").head


def test_undo_in_a_batch_is_taken_back_with_it(tract):
    tract.user("a")
    tract.user("b")

    def failing():
        with tract.batch():
            tract.user("c")
            tract.undo()
            tract.undo()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert texts(tract) == ["a", "b"]
    tract.undo()
    assert texts(tract) == ["a"]


@pytest.mark.slow
def test_repeated_resets_do_not_keep_old_messages_in_memory(tract):
    start = tract.system("Be kind.").commit_hash

    def begin_anew(times):
        for number in range(times):
            tract.reset(start)
            tract.compile()
            for place in range(5):
                tract.user(f"{number}.{place}")
            tract.compile()
        gc.collect()
        return sum(type(one) is Message for one in gc.get_objects())

    kept = begin_anew(20)
    assert begin_anew(20) <= kept
