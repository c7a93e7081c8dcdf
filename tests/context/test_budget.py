"""Budgets check the size of the context after the change."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tract_jupyter.exceptions import BudgetExceededError, ContentError
from tract_jupyter.models import BudgetWarning, TokenBudget

LONG = "word " * 50


def test_a_commit_beyond_the_budget_is_refused_and_leaves_nothing(tract):
    tract.user("a")
    before = tract.status(), tract.log()
    tract.budget = TokenBudget(20, "reject")
    with pytest.raises(BudgetExceededError, match="budget is 20; nothing was committed. Compress or skip"):
        tract.user(LONG)
    tract.budget = None
    assert (tract.status(), tract.log()) == before
    tract.user(LONG)


def test_the_very_last_token_fits(tract):
    tract.user("a")
    size = tract.user(LONG).context_tokens
    tract.undo()
    tract.budget = TokenBudget(size, "reject")
    assert tract.user(LONG).context_tokens == size == tract.compile().token_count
    tract.undo()
    tract.budget = TokenBudget(size - 1, "reject")
    with pytest.raises(BudgetExceededError):
        tract.user(LONG)


def test_edits_and_annotations_count_by_their_change_of_tokens(tract):
    long, short = tract.user(LONG), tract.user("b")
    tract.budget = TokenBudget(tract.status().token_count, "reject")
    with pytest.raises(BudgetExceededError):
        tract.user(LONG, edit=short.commit_hash)
    tract.user("short", edit=long.commit_hash)
    tract.user(LONG, edit=short.commit_hash)  # now there is room
    tract.annotate(short.commit_hash, "skip")
    tract.user(LONG)
    with pytest.raises(BudgetExceededError):
        tract.annotate(short.commit_hash, "pinned")
    assert tract.get_commit(short.commit_hash).priority == "skip"
    assert tract.verify() == []


def test_a_warning_is_given_and_the_commit_made(tract):
    tract.budget = TokenBudget(5)
    with pytest.warns(BudgetWarning, match="consider compress") as warned:
        tract.user(LONG)
    assert [one.filename for one in warned] == [__file__]
    assert len(tract.compile()) == 1
    assert (tract.status().max_tokens, tract.compile().max_tokens) == (5, 5)


def test_a_callback_gets_the_numbers_and_can_refuse_the_commit(tract):
    heard = []
    tract.budget = TokenBudget(5, "callback", lambda *numbers: heard.append(numbers))
    info = tract.user(LONG)
    assert heard == [(info.context_tokens, 5)]

    def refuse(*_):
        raise KeyError("no")

    tract.budget = TokenBudget(5, "callback", refuse)
    with pytest.raises(KeyError):
        tract.user("more")
    assert tract.head == info.commit_hash


NO_NUMBER = "max_tokens must be a whole number of at least 1, not "
NOT_TOGETHER = "a callback and action='callback' must be used together"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((0,), f"{NO_NUMBER}0"),
        ((-1,), f"{NO_NUMBER}-1"),
        ((True,), f"{NO_NUMBER}True"),
        (("5",), f"{NO_NUMBER}'5'"),
        ((5, "callback"), NOT_TOGETHER),
        ((5, "warn", print), NOT_TOGETHER),
        ((5, "shout"), "'shout' is not a budget action; use warn, reject, callback"),
        ((5, None), "None is not a budget action; use warn, reject, callback"),
        ((5, ["warn"]), "['warn'] is not a budget action; use warn, reject, callback"),
    ],
)
def test_settings_that_mean_nothing_are_refused(given, told):
    with pytest.raises(ContentError) as caught:
        TokenBudget(*given)
    assert str(caught.value) == told


# --- effects of callbacks, and changes without growth


@pytest.mark.parametrize("batched", [False, True])
def test_commits_of_a_callback_are_kept_before_the_new_commit(tract, batched):
    tract.user("word " * 10)
    tract.user("word " * 10)
    done = []
    tract.budget = TokenBudget(10, "callback", lambda *_: done.append(tract.compress(content="sum")))
    with tract.batch() if batched else nullcontext():
        tract.user("next")
    assert [message.content for message in tract.compile().messages] == ["sum", "next"]
    assert tract.get_commit(done[0].summary_commits[0]).message == "sum"
    assert len(done) == 1
    assert tract.verify() == []


def test_only_growth_is_refused(tract):
    first, second = tract.user("w " * 30), tract.user("w " * 30)
    tract.budget = TokenBudget(20, "reject")
    tract.user("w " * 5, edit=first.commit_hash)
    tract.annotate(second.commit_hash, "pinned")
    tract.annotate(second.commit_hash, "skip")
    with pytest.raises(BudgetExceededError):
        tract.annotate(second.commit_hash, "normal")
