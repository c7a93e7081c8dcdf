"""Decisions about a garbage collection."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import CommitNotFoundError, RejectedError


@pytest.fixture
def garbage(tract):
    """A tract with two unreachable commits. The first is the parent of the second."""
    tract.user("kept")
    tract.branch("gone")
    names = [tract.user(text).commit_hash for text in ("first", "second")]
    tract.switch("main")
    tract.delete_branch("gone", force=True)
    return tract, names


def test_gc_removes_only_the_commits_that_were_shown(garbage):
    tract, names = garbage
    pending = tract.propose_gc(orphan_retention_days=0)
    assert pending.commits_to_remove == names
    assert [candidate["message"] for candidate in pending.list_candidates()] == ["first", "second"]
    tract.branch("late")
    late = tract.user("late").commit_hash
    tract.switch("main")
    tract.delete_branch("late", force=True)
    assert list(pending.approve().commits) == names
    assert tract.get_commit(late).message == "late"


def test_an_excluded_commit_is_kept_with_its_parents(garbage):
    tract, (first, second) = garbage
    pending = tract.propose_gc(orphan_retention_days=0)
    tokens = pending.tokens_to_free
    pending.exclude(second[:10])  # the compression keeps its parent as well
    assert (pending.commits_to_remove, pending.excluded, pending.tokens_to_free) == ([], [second], 0)
    assert tokens > 0
    assert pending.approve().commits == ()
    assert tract.get_commit(first).message == "first"


def test_an_excluded_commit_is_kept_when_its_child_is_removed(garbage):
    tract, (first, second) = garbage
    pending = tract.propose_gc(orphan_retention_days=0)
    pending.exclude(first)
    assert pending.commits_to_remove == [second]
    assert list(pending.approve().commits) == [second]


def test_the_fingerprint_does_not_depend_on_how_kept_commits_are_named(garbage):
    tract, names = garbage
    one = tract.propose_gc(orphan_retention_days=0, keep=names)
    other = tract.propose_gc(orphan_retention_days=0, keep=[name[:8] for name in reversed(names)])
    assert one.excluded == other.excluded == sorted(names)
    assert one.fingerprint == other.fingerprint


def test_a_candidate_is_named_like_every_commit(garbage):
    tract, names = garbage
    tract.reset(names[1])
    tract.undo()
    pending = tract.propose_gc(orphan_retention_days=0)
    pending.exclude("ORIG_HEAD")
    assert (pending.commits_to_remove, pending.excluded) == ([], [names[1]])


@pytest.mark.parametrize("name", ["", "zzzz", "main"])
def test_a_commit_that_is_not_a_candidate_cannot_be_excluded(garbage, name):
    with pytest.raises(CommitNotFoundError, match="is not a candidate|there is no commit"):
        garbage[0].propose_gc(orphan_retention_days=0).exclude(name)


def test_a_handler_can_reject_gc_and_a_dry_run_asks_no_handler(garbage):
    tract, names = garbage
    tract.on("gc", lambda p: p.reject("keep all"))
    assert list(tract.gc(orphan_retention_days=0, dry_run=True).commits) == names
    with pytest.raises(RejectedError, match="keep all"):
        tract.gc(orphan_retention_days=0)
    assert tract.get_commit(names[0]).message == "first"


def test_a_commit_that_became_reachable_is_kept(garbage):
    tract, (_, second) = garbage
    pending = tract.propose_gc(orphan_retention_days=0)
    tract.branch("rescued", source=second, switch=False)
    assert pending.approve().commits == ()
