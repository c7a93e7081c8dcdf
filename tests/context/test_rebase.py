"""Rebase: copy own commits, with everything that belongs to them, onto the tip of another branch."""

from __future__ import annotations

import pytest

from tests.context.joining import by_text, diverged, on, snapshot, texts
from tract_jupyter.exceptions import (
    BranchMovedError,
    BranchNotFoundError,
    BudgetExceededError,
    DetachedHeadError,
    HistoryError,
    MergeConflictError,
)
from tract_jupyter.models import ConflictKind, Priority, RebaseType, Resolution, TokenBudget

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture
def topic(tract):
    """`topic` is the current branch, and `main` has new commits."""
    _, base = diverged(tract)
    tract.user("m1")
    tract.switch("topic")
    return base


def test_own_commits_follow_the_other_branch(tract, topic):
    old = [tract.user("t1").commit_hash, tract.user("t2").commit_hash]
    before = snapshot(tract)
    result = tract.rebase("main")
    assert texts(tract) == ["rules", "question", "m1", "t1", "t2"]
    assert (result.rebase_type, result.branch, result.target_branch) == (RebaseType.REBASED, "topic", "main")
    assert (result.base, result.old_head, result.new_head) == (topic, old[1], tract.head)
    assert list(result.copies) == old
    assert tuple(result.copies.values()) == result.commits
    assert [i.commit_hash for i in tract.log(2)] == list(reversed(result.commits))
    assert tract.log(3)[2].commit_hash == before["main"][0]
    assert snapshot(tract)["main"] == before["main"]
    assert tract.verify() == []


def test_rebase_keeps_the_originals_addressable(tract, topic):
    old = tract.user("t1").commit_hash
    before = snapshot(tract)
    tract.rebase("main")
    assert tract.resolve_commit("ORIG_HEAD") == old
    assert texts(tract, old) == ["rules", "question", "t1"]
    assert tract.undo().operation == "rebase"
    assert snapshot(tract) == before
    tract.redo()
    assert texts(tract) == ["rules", "question", "m1", "t1"]


def test_edits_and_annotations_of_own_commits_point_at_the_copies(tract, topic):
    first = tract.user("t1").commit_hash
    tract.assistant("t2")
    tract.user("t1, better", edit=first)
    tract.annotate(first, "important", reason="the goal", retain="the goal", retain_match=["better"])
    result = tract.rebase("main")
    assert texts(tract) == ["rules", "question", "m1", "t1, better", "t2"]
    message = by_text(tract, "t1, better")
    assert (message.commit_hash, message.priority) == (result.copies[first], Priority.IMPORTANT)
    annotation, edit = tract.log(2)
    assert (annotation.edit_target, edit.edit_target) == (message.commit_hash, message.commit_hash)
    assert annotation.retention["match_patterns"] == ["better"]
    assert [v.message for v in tract.history.versions(result.copies[first])] == ["t1", "t1, better"]


def test_edits_of_messages_before_the_base_are_kept(tract, topic):
    tract.user("better question", edit=topic)
    tract.annotate(topic, "pinned")
    tract.rebase("main")
    assert texts(tract) == ["rules", "better question", "m1"]
    assert by_text(tract, "better question").priority is Priority.PINNED


def test_everything_of_a_commit_is_copied(tract, topic):
    call = {"id": "c1", "name": "look", "arguments": {"at": "x"}}
    old = tract.assistant(
        "let me look", tool_calls=[call], tags=["plan"], metadata={"source": "test"}, message="a line",
        generation_config={"model": "m"}, priority="important", retain="x", tools=[TOOL],
    )  # fmt: skip
    tract.tool_result("c1", "look", "seen", is_error=True)
    tract.tags.add(old.commit_hash, "later")
    new = tract.get_commit(tract.rebase("main").copies[old.commit_hash])
    for name in (
        "content_hash",
        "message",
        "metadata",
        "generation_config",
        "tags",
        "priority",
        "retention",
        "tools_hash",
    ):
        assert getattr(new, name) == getattr(tract.get_commit(old.commit_hash), name) != (), name
    assert tract.tags.of(new.commit_hash) == tract.tags.of(old.commit_hash) == ("later", "plan")
    asked, answered = tract.compile().messages[-2:]
    assert (asked.tool_calls[0].id, answered.tool_call_id, answered.is_error) == ("c1", "c1", True)
    assert tract.compile().tools == (TOOL,)
    assert tract.tags.remove(new.commit_hash, "later")
    assert tract.tags.of(old.commit_hash) == ("later", "plan")


def test_rebase_of_an_up_to_date_branch_changes_nothing(tract, topic):
    before = snapshot(tract), tract.events(), tract.reflog()
    tract.switch("main")
    for name in ("main", "topic"):
        result = tract.rebase(name)
        assert (result.rebase_type, result.old_head) == (RebaseType.UP_TO_DATE, result.new_head)
    assert (snapshot(tract), tract.events(), tract.reflog()) == before


def test_without_own_commits_the_branch_just_moves(tract, topic):
    result = tract.rebase("main")
    assert (result.rebase_type, result.commits) == (RebaseType.FAST_FORWARD, ())
    assert result.new_head == tract.head == tract.resolve_commit("main")
    assert tract.undo().new == topic


def test_a_message_edited_on_both_branches_needs_a_decision(tract, topic):
    with on(tract, "main"):
        tract.user("question of main", edit=topic)
    tract.user("question of topic", edit=topic)
    tract.user("t1")
    before = snapshot(tract), tract.events(), tract.reflog()
    with pytest.raises(MergeConflictError, match="rebasing 'topic' onto 'main' needs decisions") as raised:
        tract.rebase("main")
    (conflict,) = raised.value.conflicts
    assert (conflict.ours_text, conflict.theirs_text) == ("question of topic", "question of main")
    assert (snapshot(tract), tract.events(), tract.reflog()) == before
    for resolver, expected in [
        ("ours", "question of topic"),
        ("theirs", "question of main"),
        ({conflict.key: Resolution.text("of both")}, "of both"),
    ]:
        result = tract.rebase("main", resolver=resolver)
        assert texts(tract) == ["rules", expected, "m1", "t1"]
        assert list(result.resolutions) == [conflict.key]
        assert tract.verify() == []
        tract.undo()
        assert snapshot(tract) == before[0]


def test_a_message_skipped_on_one_side_and_edited_on_the_other_needs_a_decision(tract, topic):
    with on(tract, "main"):
        tract.annotate(topic, "skip")
    tract.user("better question", edit=topic)
    with pytest.raises(MergeConflictError, match="skip_vs_edit"):
        tract.rebase("main")
    tract.rebase("main", resolver="ours")
    assert texts(tract) == ["rules", "better question", "m1"]
    tract.undo()
    tract.rebase("main", resolver="theirs")
    assert texts(tract) == ["rules", "m1"]


def test_an_edit_before_own_messages_is_reported(tract, topic):
    with on(tract, "main"):
        tract.user("better question", edit=topic)
    own = tract.assistant("answer").commit_hash
    (conflict,) = tract.rebase("main").conflicts
    assert (conflict.kind, conflict.appended) == (ConflictKind.EDIT_PLUS_APPEND, (own,))
    assert texts(tract) == ["rules", "better question", "m1", "answer"]


def test_own_priorities_have_the_last_word(tract, topic):
    with on(tract, "main"):
        tract.annotate(topic, "pinned")
    tract.annotate(topic, "important")
    tract.rebase("main")
    assert by_text(tract, "question").priority is Priority.IMPORTANT


def test_invalid_rebases_are_refused(tract, topic):
    tract.user("t1")
    tract.branch("side", source=topic)
    tract.user("s1")
    tract.merge("topic")
    with pytest.raises(HistoryError, match="contains merges"):
        tract.rebase("main")
    with pytest.raises(BranchNotFoundError):
        tract.rebase("mian")
    tract.checkout(topic)
    with pytest.raises(DetachedHeadError):
        tract.rebase("main")


def test_histories_without_a_common_beginning(tract):
    tract.branch("empty", switch=False)
    tract.branch("other", switch=False)
    tract.user("one")
    with pytest.raises(HistoryError, match="no commits yet"):
        tract.rebase("empty")
    tract.switch("empty")
    with pytest.raises(HistoryError, match=r"reset\('main'\)"):
        tract.rebase("main")
    tract.user("another beginning")
    with pytest.raises(HistoryError, match="no common commit"):
        tract.rebase("main")


def test_the_budget_is_asked(tract, topic):
    tract.user("a story " * 10)
    before = snapshot(tract)
    tract.budget = TokenBudget(tract.status().token_count + 1, action="reject")
    with pytest.raises(BudgetExceededError):
        tract.rebase("main")
    assert snapshot(tract) == before


def test_rebase_fails_if_the_branch_moves_meanwhile(tract, topic):
    with on(tract, "main"):
        tract.user("question of main", edit=topic)
    old = tract.user("question of topic", edit=topic).commit_hash
    tract.tags.add(old, "mine")

    def slow(_):
        tract.user("faster")
        return "ours"

    with pytest.raises(BranchMovedError):
        tract.rebase("main", resolver=slow)
    assert texts(tract) == ["rules", "question of topic", "faster"]
    assert [t.count for t in tract.tags.list() if t.name == "mine"] == [1]
