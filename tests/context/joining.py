"""What the tests of merge, rebase and import share."""

from __future__ import annotations

from contextlib import contextmanager

from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter


def texts(tract, at=None):
    """The texts of the context."""
    return [message.content for message in tract.compile(at_commit=at).messages]


def by_text(tract, text, at=None):
    """The message with a text."""
    return next(m for m in tract.compile(at_commit=at).messages if m.content == text)


def diverged(tract):
    """Two branches with a common beginning, `main` being the current one; returns the two first commits."""
    first = tract.system("rules").commit_hash
    second = tract.user("question").commit_hash
    tract.branch("topic", switch=False)
    return first, second


@contextmanager
def on(tract, branch):
    """Work on another branch for a while."""
    here = tract.current_branch
    tract.switch(branch)
    yield
    tract.switch(here)


def snapshot(tract):
    """All that a reader can see of every branch."""
    return {
        info.name: (info.commit_hash, list(tract.compile(at_commit=info.name).messages))
        for info in tract.list_branches()
        if info.commit_hash
    }


def check_whole(tract, path):
    """Nothing is damaged, the totals hold, and another process sees the same."""
    assert tract.verify() == []
    context = tract.compile()
    status = tract.status()
    assert (status.token_count, status.message_count) == (context.token_count, len(context.messages))
    with Tract.open(path, tract_id=tract.tract_id, tokenizer=ApproximateCounter()) as cold:
        again = cold.compile()
        assert list(again.messages) == list(context.messages)
        assert again.token_count == context.token_count
        assert cold.log(None) == tract.log(None)
