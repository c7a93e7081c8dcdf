"""Decisions about merges with conflicts and about rebases."""

from __future__ import annotations

import pytest

from tract_jupyter.context import merge
from tract_jupyter.exceptions import (
    CommitNotFoundError,
    FingerprintError,
    HistoryError,
    MergeConflictError,
    RejectedError,
)
from tract_jupyter.models import MergeType, Resolution


@pytest.fixture
def two(tract):
    """A tract with branches `main` and `topic`, which both edit the first message."""
    first = tract.user("one").commit_hash
    tract.branch("topic")
    tract.user("one, topic", edit=first)
    tract.user("topic says")
    tract.switch("main")
    tract.user("one, main", edit=first)
    return tract


def texts(tract):
    return [message["content"] for message in tract.compile().to_dicts()]


def test_conflicts_are_decided_one_by_one(two):
    pending = two.propose_merge("topic")
    (conflict,) = pending.list_conflicts()
    assert (conflict["ours"], conflict["theirs"], conflict["base"]) == ("one, main", "one, topic", "one")
    key = conflict["key"]
    assert (pending.resolutions, bool(pending.validate())) == ({}, False)
    pending.set_resolution(key, "replace", "both", "both matter")
    pending.edit_resolution(key, "one, both")
    assert pending.resolutions[key] == {
        "action": "replace",
        "replacement": "one, both",
        "reason": "both matter",
    }
    assert pending.validate()
    assert pending.approve().merge_type is MergeType.CONFLICT
    assert texts(two) == ["one, both", "topic says"]


def test_a_merge_with_undecided_conflicts_fails_and_can_be_retried(two):
    pending = two.propose_merge("topic")
    with pytest.raises(MergeConflictError):
        pending.approve()
    assert (pending.status, texts(two)) == ("failed", ["one, main"])
    pending.set_resolution(pending.conflicts[0]["key"], "theirs")
    pending.approve()
    assert texts(two) == ["one, topic", "topic says"]


def test_a_resolver_decides_and_decides_again_with_guidance(two):
    def resolver(conflict, guidance=None):
        return Resolution.text(f"{conflict.ours_text} + {conflict.theirs_text} ({guidance})")

    pending = two.propose_merge("topic", resolver=resolver)
    key = pending.conflicts[0]["key"]
    assert pending.resolutions[key]["replacement"] == "one, main + one, topic (None)"
    pending.edit_guidance("shorter")
    pending.retry()
    assert pending.resolutions[key]["replacement"].endswith("(shorter)")
    pending.retry(guidance="longer")
    assert pending.resolutions[key]["replacement"].endswith("(longer)")


def test_a_resolution_can_be_typed_at_the_prompt(two, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda prompt: "typed text")
    pending = two.propose_merge("topic")
    pending.edit_interactive()
    assert "theirs: one, topic" in capsys.readouterr().out
    pending.approve()
    assert texts(two)[0] == "typed text"


def test_handlers_see_merges_with_conflicts_only(two):
    seen = []
    two.on("merge", lambda p: (seen.append(p.source_branch), p.reject("no")))
    with pytest.raises(RejectedError, match="no"):
        two.merge("topic", resolver="ours")
    two.branch("clean", switch=False)
    two.user("more")
    two.branch("ahead")
    two.user("ahead says")
    two.switch("main")
    assert two.merge("ahead").merge_type is MergeType.FAST_FORWARD
    assert seen == ["topic"]


@pytest.mark.parametrize("conflicts", [False, True])
def test_histories_are_compared_once_and_again_when_it_is_carried_out(two, conflicts, monkeypatch):
    two.on("merge", lambda p: p.approve())
    if not conflicts:
        two.branch("other")
        two.user("other says")
        two.switch("main")
    looked = []
    real = merge.compare_branches
    monkeypatch.setattr(merge, "compare_branches", lambda *args, **o: looked.append(args) or real(*args, **o))
    two.merge("topic" if conflicts else "other", resolver="theirs")
    assert len(looked) == 1 + conflicts


def test_a_merge_is_refused_if_the_source_branch_changed(two):
    pending = two.propose_merge("topic", resolver="ours")
    two.switch("topic")
    two.user("moved")
    two.switch("main")
    with pytest.raises((FingerprintError, HistoryError, ValueError), match="(?i)(ask for|propose) it again"):
        pending.approve()
    assert "topic says" not in texts(two)


def test_a_merge_is_refused_if_its_conflicts_changed(two):
    pending = two.propose_merge("topic", resolver="ours")
    two.user("one, main again", edit=list(two.log())[-1].commit_hash)
    with pytest.raises(FingerprintError, match="(?i)(ask for|propose) it again"):
        pending.approve()
    assert (pending.status, "topic says" in texts(two)) == ("pending", False)


def test_a_merge_is_possible_after_new_commits_on_the_target(two):
    pending = two.propose_merge("topic", resolver="theirs")
    two.user("one more")
    pending.approve()
    assert sorted(texts(two)) == ["one more", "one, topic", "topic says"]


def test_a_rebase_includes_later_commits(two):
    two.switch("topic")
    pending = two.propose_rebase("main", resolver="ours")
    two.user("one more")
    pending.approve()
    assert texts(two) == ["one, topic", "topic says", "one more"]


def test_a_rebase_is_refused_if_its_commits_changed(two):
    two.switch("topic")
    pending = two.propose_rebase("main", resolver="ours")
    two.user("topic says else", edit=two.head)
    with pytest.raises(FingerprintError, match="(?i)(ask for|propose) it again"):
        pending.approve()
    assert texts(two) == ["one, topic", "topic says else"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.set_resolution("nothing", "ours"), "no conflict 'nothing'"),
        (lambda p: p.edit_resolution("nothing", "x"), "has no resolution yet"),
        (
            lambda p: p.set_resolution(p.conflicts[0]["key"], "replace"),
            "a replacement and 'replace' must be used together",
        ),
        (lambda p: p.retry(), "no resolver"),
    ],
)
def test_an_invalid_resolution_is_refused(two, call, words):
    pending = two.propose_merge("topic")
    with pytest.raises(HistoryError, match=words):
        call(pending)
    assert pending.resolutions == {}


# --- rebase


def test_commits_are_left_out_of_a_rebase(two):
    two.switch("topic")
    said = two.user("dropped").commit_hash
    two.user("dropped, edited", edit=said)
    two.user("last")
    pending = two.propose_rebase("main", resolver="ours")
    assert [step["message"] for step in pending.list_commits()] == [
        "one, topic", "topic says", "dropped", "dropped, edited", "last",
    ]  # fmt: skip
    assert len(pending.warnings) == 1
    pending.exclude(said[:8])
    assert [step["message"] for step in pending.replay_plan] == ["one, topic", "topic says", "last"]
    pending.approve()
    assert texts(two) == ["one, topic", "topic says", "last"]
    assert two.verify() == []


def test_a_conflicting_commit_cannot_be_excluded_from_a_rebase(two):
    two.switch("topic")
    pending = two.propose_rebase("main", resolver="ours")
    with pytest.raises(HistoryError, match="of both branches"):
        pending.exclude(pending.replay_plan[0]["commit_hash"])
    with pytest.raises(CommitNotFoundError, match="no commit to move"):
        pending.exclude("zzzz")


def test_a_handler_refuses_a_rebase(two):
    two.switch("topic")
    before = two.head
    two.on("rebase", lambda p: p.reject("never"))
    with pytest.raises(RejectedError, match="never"):
        two.rebase("main", resolver="ours")
    assert two.head == before
