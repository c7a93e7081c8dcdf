"""Merges: fast-forward, clean, conflicts and their decisions."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.context.joining import by_text, diverged, on, snapshot, texts
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    BranchMovedError,
    BranchNotFoundError,
    BudgetExceededError,
    CompressionError,
    ContentError,
    DetachedHeadError,
    HistoryError,
    MergeConflictError,
    NothingToMergeError,
    StoreCorruptError,
    UnmergedBranchError,
)
from tract_jupyter.models import ConflictKind, MergeType, Priority, Resolution, TokenBudget


@pytest.fixture
def both_edit(tract):
    """Edit one message differently on `main` and `topic`. Return its hash."""
    _, target = diverged(tract)
    tract.user("question of main", edit=target)
    with on(tract, "topic"):
        tract.user("question of topic", edit=target)
        tract.assistant("answer of topic")
    return target


@pytest.fixture
def skip_vs_edit(tract):
    """`main` skips a message that `topic` edited."""
    _, target = diverged(tract)
    tract.annotate(target, "skip")
    with on(tract, "topic"):
        tract.user("better question", edit=target)
    return target


def test_a_branch_that_is_only_ahead_is_fast_forwarded(tract):
    diverged(tract)
    with on(tract, "topic"):
        tip = tract.assistant("answer").commit_hash
    result = tract.merge("topic")
    assert result.merge_type is MergeType.FAST_FORWARD
    assert (result.head, tract.head, result.commits, result.merge_commit) == (tip, tip, (), None)
    assert result.incoming == (tip,)
    assert texts(tract) == ["rules", "question", "answer"]


def test_no_ff_makes_a_merge_commit(tract):
    _, base = diverged(tract)
    with on(tract, "topic"):
        tip = tract.assistant("answer").commit_hash
    result = tract.merge("topic", no_ff=True, message="take the topic over")
    info = tract.get_commit("HEAD")
    assert result.merge_type is MergeType.CLEAN
    assert (info.commit_hash, info.operation, info.message) == (
        result.merge_commit,
        "merge",
        "take the topic over",
    )
    assert info.parents == (base, tip)
    assert texts(tract) == ["rules", "question", "answer"]


def test_a_clean_merge_has_both_sides_in_order_and_adds_no_text(tract):
    _, base = diverged(tract)
    tract.user("m1")
    ours = tract.user("m2").commit_hash
    with on(tract, "topic"):
        one, two = tract.user("t1").commit_hash, tract.user("t2").commit_hash
    result = tract.merge("topic")
    assert texts(tract) == ["rules", "question", "m1", "m2", "t1", "t2"]
    assert (result.merge_type, result.source_branch, result.target_branch) == (
        MergeType.CLEAN,
        "topic",
        "main",
    )
    assert (result.base, result.bases, result.incoming) == (base, (base,), (one, two))
    assert tract.get_commit("HEAD").parents == (ours, two)
    assert result.commits == (result.merge_commit,) == (tract.head,)
    assert tract.verify() == []


def test_changes_of_only_one_side_are_merged(tract):
    first, second = diverged(tract)
    tract.system("stricter rules", edit=first)
    with on(tract, "topic"):
        tract.user("better question", edit=second)
        tract.annotate(second, "important", retain_match=["better"])
    result = tract.merge("topic")
    assert (result.merge_type, result.conflicts) == (MergeType.CLEAN, ())
    assert texts(tract) == ["stricter rules", "better question"]
    assert by_text(tract, "better question").priority is Priority.IMPORTANT


@pytest.mark.parametrize(("ours", "theirs"), [("the same", "the same"), (None, "better question")])
def test_equal_edits_and_restored_edits_do_not_conflict(tract, ours, theirs):
    _, target = diverged(tract)
    tract.user(ours or "hasty", edit=target)
    if ours is None:
        tract.restore(target)
    with on(tract, "topic"):
        tract.user(theirs, edit=target)
    assert tract.merge("topic").conflicts == ()
    assert texts(tract) == ["rules", theirs]


def test_of_two_priorities_the_merged_branch_has_the_last_word(tract):
    first, second = diverged(tract)
    tract.annotate(first, "important")
    tract.annotate(second, "pinned")
    with on(tract, "topic"):
        tract.annotate(second, "important")
    assert tract.merge("topic").conflicts == ()
    assert [m.priority for m in tract.compile().messages] == [Priority.IMPORTANT, Priority.IMPORTANT]


def test_two_edits_of_one_message_need_a_decision(tract, both_edit):
    before = snapshot(tract), tract.events(), tract.reflog()
    preview = tract.preview_merge("topic")
    with pytest.raises(MergeConflictError, match="needs decisions, and nothing was written") as raised:
        tract.merge("topic")
    (conflict,) = raised.value.conflicts
    assert preview.merge_type is MergeType.CONFLICT
    assert preview.conflicts == (conflict,) == preview.blocking
    assert (conflict.kind, conflict.target) == (ConflictKind.BOTH_EDIT, both_edit)
    assert (conflict.base_text, conflict.ours_text, conflict.theirs_text) == (
        "question", "question of main", "question of topic",
    )  # fmt: skip
    assert tract.get_content(conflict.ours_commit) == conflict.ours
    assert conflict.key == f"both_edit:{both_edit[:12]}"
    assert conflict.key in str(raised.value)
    assert "resolver=" in str(raised.value)
    assert (snapshot(tract), tract.events(), tract.reflog()) == before


RESOLVERS = {
    "all ours": ("ours", "question of main"),
    "all theirs": ("theirs", "question of topic"),
    "function": (lambda c: Resolution.text(f"{c.ours_text} / {c.theirs_text}"), "question of main / question of topic"),
    "function that returns a word": (lambda _: "theirs", "question of topic"),
    "content": (
        lambda c: Resolution.content({**c.base, "text": "new", "name": "ann"}), "new",
    ),
    "original": (lambda c: Resolution.text(c.base_text), "question"),
}  # fmt: skip


@pytest.mark.parametrize("how", RESOLVERS)
def test_a_decision_reaches_the_context(tract, both_edit, how):
    resolver, expected = RESOLVERS[how]
    before = snapshot(tract)
    result = tract.merge("topic", resolver=resolver)
    assert texts(tract) == ["rules", expected, "answer of topic"]
    assert result.merge_type is MergeType.CONFLICT
    assert list(result.resolutions) == [result.conflicts[0].key]
    merge, edit = result.commits
    assert merge == result.merge_commit
    assert (tract.head, tract.get_commit(edit).operation, tract.get_commit(edit).edit_target) == (
        edit,
        "edit",
        both_edit,
    )
    assert tract.verify() == []
    assert tract.undo().operation == "merge"
    assert snapshot(tract) == before
    tract.redo()
    assert texts(tract) == ["rules", expected, "answer of topic"]


def test_a_decision_by_name(tract, both_edit):
    for name in (f"both_edit:{both_edit[:12]}", both_edit, both_edit[:8]):
        tract.merge("topic", resolver={name: Resolution("theirs")})
        assert texts(tract)[1] == "question of topic"
        tract.undo()


def test_a_message_can_be_left_out(tract, both_edit):
    tract.merge("topic", resolver=lambda _: "skip")
    assert texts(tract) == ["rules", "answer of topic"]
    assert tract.verify() == []


WRONG = [
    ({"both_edit:000000000000": "ours"}, HistoryError, "matches 0 conflicts"),
    ({5: "ours"}, HistoryError, "matches 0 conflicts"),
    ("skip", HistoryError, "invalid resolver"),
    (5, HistoryError, "invalid resolver"),
    (lambda _: "whatever", HistoryError, "is not a decision for a conflict"),
    (lambda _: 5, HistoryError, "is not a decision for a conflict"),
    (lambda _: None, MergeConflictError, "needs decisions"),
    (lambda _: "abort", MergeConflictError, "aborted"),
    (lambda _: Resolution("abort", reason="ask Ann"), MergeConflictError, r"\(ask Ann\)"),
    (lambda _: Resolution.content({"content_type": "nothing"}), ContentError, "not a valid content"),
    (lambda _: 1 / 0, ZeroDivisionError, "division by zero"),
]


@pytest.mark.parametrize(("resolver", "error", "match"), WRONG)
def test_an_invalid_resolver_writes_nothing(tract, both_edit, resolver, error, match):
    before = snapshot(tract), tract.events(), tract.reflog()
    with pytest.raises(error, match=match):
        tract.merge("topic", resolver=resolver)
    assert (snapshot(tract), tract.events(), tract.reflog()) == before


def test_a_resolution_is_checked():
    for make in (
        lambda: Resolution("ours", "text"),
        lambda: Resolution("replace"),
        lambda: Resolution("maybe"),
    ):
        with pytest.raises(HistoryError, match="Resolution.text"):
            make()


def test_a_conflict_without_text_needs_a_content_as_resolution(tract):
    target = tract.commit({"content_type": "freeform", "payload": {"n": 0}}).commit_hash
    tract.branch("topic", switch=False)
    for branch, number in (("main", 1), ("topic", 2)):
        with on(tract, branch):
            content = {"content_type": "freeform", "payload": {"n": number}}
            tract.commit(content, operation="edit", edit_target=target)
    with pytest.raises(HistoryError, match="no text to replace"):
        tract.merge("topic", resolver=lambda _: Resolution.text("3"))
    tract.merge(
        "topic", resolver=lambda _: Resolution.content({"content_type": "freeform", "payload": {"n": 3}})
    )
    assert texts(tract) == ['{"n":3}']


def test_a_new_text_keeps_tool_calls_and_links(tract):
    call = {"id": "c1", "name": "look", "arguments": {}}
    asked = tract.assistant("let me look", tool_calls=[call]).commit_hash
    answered = tract.tool_result("c1", "look", "nothing").commit_hash
    tract.branch("topic", switch=False)
    for branch in ("main", "topic"):
        with on(tract, branch):
            tract.assistant(f"I look, says {branch}", tool_calls=[call], edit=asked)
            tract.tool_result("c1", "look", f"seen by {branch}", edit=answered)
    tract.merge("topic", resolver=lambda c: Resolution.text(f"not {c.ours_text}"))
    first, second = tract.compile().messages
    assert (first.content, [c.id for c in first.tool_calls]) == ("not I look, says main", ["c1"])
    assert (second.content, second.tool_call_id, second.role) == ("not seen by main", "c1", "tool")


SKIP_DECISIONS = {
    "ours": ["rules"],
    "theirs": ["rules", "better question"],
    "skip": ["rules"],
    Resolution.text("third"): ["rules", "third"],
}


@pytest.mark.parametrize("decision", SKIP_DECISIONS)
@pytest.mark.parametrize("turned", [False, True])
def test_merging_a_skip_with_an_edit_needs_a_decision(tract, skip_vs_edit, decision, turned):
    expected = SKIP_DECISIONS[decision]
    if turned:  # now the side that edited is the current one
        tract.switch("topic")
        decision = {"ours": "theirs", "theirs": "ours"}.get(decision, decision)
    other = "main" if turned else "topic"
    with pytest.raises(MergeConflictError) as raised:
        tract.merge(other)
    (conflict,) = raised.value.conflicts
    assert conflict.kind is ConflictKind.SKIP_VS_EDIT
    assert {conflict.ours_text, conflict.theirs_text} == {None, "better question"}
    assert "leaves it out" in str(conflict)
    tract.merge(other, resolver=lambda _: decision)
    assert texts(tract) == expected
    assert tract.verify() == []
    assert tract.status().token_count == tract.compile().token_count


def test_both_left_it_out(tract):
    _, target = diverged(tract)
    tract.annotate(target, "skip")
    with on(tract, "topic"):
        tract.user("better", edit=target)
        tract.annotate(target, "skip")
    assert tract.merge("topic").conflicts == ()
    assert texts(tract) == ["rules"]


def test_an_edit_before_new_messages_of_the_other_side_is_reported(tract):
    _, target = diverged(tract)
    answer = tract.assistant("answer to the old question").commit_hash
    with on(tract, "topic"):
        tract.user("better question", edit=target)
    result = tract.merge("topic")
    (conflict,) = result.conflicts
    assert (conflict.kind, conflict.is_blocking) == (ConflictKind.EDIT_PLUS_APPEND, False)
    assert (conflict.appended, conflict.base_text) == ((answer,), "question")
    assert (result.merge_type, result.blocking) == (MergeType.CLEAN, ())
    assert texts(tract) == ["rules", "better question", "answer to the old question"]


def test_a_strict_merge_blocks_on_warnings(tract):
    _, target = diverged(tract)
    tract.assistant("answer")
    with on(tract, "topic"):
        tract.user("better question", edit=target)
    with pytest.raises(MergeConflictError, match="edit_plus_append"):
        tract.merge("topic", strategy="strict")
    assert tract.preview_merge("topic", strategy="strict").merge_type is MergeType.CONFLICT
    for resolver, expected in [("ours", "question"), ("theirs", "better question")]:
        tract.merge("topic", strategy="strict", resolver=resolver)
        assert texts(tract)[1] == expected
        tract.undo()
    # a resolver function also gets warnings
    tract.merge("topic", resolver=lambda _: Resolution.text("third"))
    assert texts(tract)[1] == "third"


def test_a_crosswise_merge_reports_a_conflict_where_the_bases_disagree(tract, both_edit):
    tract.branch("old-main", switch=False)
    tract.merge("topic", resolver="ours")
    with on(tract, "topic"):
        tract.merge("old-main", resolver="ours")
        assert texts(tract)[1] == "question of topic"
    preview = tract.preview_merge("topic")
    assert len(preview.bases) == 2
    assert [c.kind for c in preview.conflicts] == [ConflictKind.BOTH_EDIT]
    tract.merge("topic", resolver="theirs")
    assert texts(tract) == ["rules", "question of topic", "answer of topic"]
    assert tract.verify() == []


@pytest.mark.parametrize("choice", ["ours", "theirs"])
def test_a_decision_holds_when_merged_back(tract, both_edit, choice):
    tract.merge("topic", resolver=choice)
    decided = texts(tract)
    tract.switch("topic")
    tract.user("more")
    assert tract.merge("main").blocking == ()
    assert texts(tract)[:2] == decided[:2]


def test_priorities_hold_when_merged_back(tract):
    _, target = diverged(tract)
    tract.annotate(target, "important")
    with on(tract, "topic"):
        tract.annotate(target, "pinned")
    tract.merge("topic")
    tract.switch("topic")
    tract.user("more")
    tract.merge("main")
    assert by_text(tract, "question").priority is Priority.PINNED


def test_a_second_merge_adds_only_new_commits(tract):
    diverged(tract)
    tract.user("m1")
    with on(tract, "topic"):
        tract.user("t1")
    tract.merge("topic")
    with on(tract, "topic"):
        new = tract.user("t2").commit_hash
    assert tract.merge("topic").incoming == (new,)
    assert texts(tract) == ["rules", "question", "m1", "t1", "t2"]


def test_the_branch_can_be_deleted_with_the_merge(tract):
    diverged(tract)
    tract.user("m1")
    with on(tract, "topic"):
        tip = tract.user("t1").commit_hash
    tract.merge("topic", delete_branch=True)
    assert [info.name for info in tract.list_branches()] == ["main"]
    assert tract.get_commit(tip).message == "t1"


@pytest.mark.parametrize("kind", ["fast forward", "conflict"])
def test_merge_with_delete_branch_fails_if_the_branch_gets_new_commits(tract, kind, monkeypatch):
    _, target = diverged(tract)
    if kind == "conflict":
        tract.user("question of main", edit=target)
    with on(tract, "topic"):
        tract.user("question of topic", edit=target)
    look = tract._repository.merge.look

    def slow(*args, **options):
        found = look(*args, **options)
        with on(tract, "topic"):
            tract.user("said meanwhile")
        return found

    monkeypatch.setattr(tract._repository.merge, "look", slow)
    before = tract.head, texts(tract), tract.reflog(), tract.events()
    with pytest.raises(UnmergedBranchError):
        tract.merge("topic", resolver="theirs", delete_branch=True)
    assert (tract.head, texts(tract), tract.reflog(), tract.events()) == before
    with on(tract, "topic"):
        assert texts(tract)[-1] == "said meanwhile"
    monkeypatch.undo()
    tract.merge("topic", resolver="theirs", delete_branch=True)
    assert [branch.name for branch in tract.list_branches()] == ["main"]


def test_a_merge_is_an_event_and_a_row_of_the_reflog(tract, both_edit):
    old = tract.head
    result = tract.merge("topic", resolver="ours")
    (event,) = tract.events("merge")
    assert event.data == {
        "branch": "main", "old": old, "new": tract.head, "source_branch": "topic", "merged": tract.list_branches()[1].commit_hash,
        "merge_type": "conflict", "resolutions": {result.conflicts[0].key: "ours"},
    }  # fmt: skip
    assert [(move.operation, move.old, move.new) for move in tract.reflog()] == [("merge", old, tract.head)]


def test_invalid_merges_are_refused(tract):
    with pytest.raises(HistoryError, match="no commits yet"):
        tract.merge("main")
    tract.branch("empty", switch=False)
    tract.user("one")
    tract.branch("same", switch=False)
    before = snapshot(tract)
    for source, error, match in [
        ("main", NothingToMergeError, "is the current branch"),
        ("same", NothingToMergeError, "already has all commits of 'same'"),
        ("empty", HistoryError, "no commits yet"),
        ("sane", BranchNotFoundError, "Did you mean 'same'"),
        (tract.head, BranchNotFoundError, "no branch"),
    ]:
        with pytest.raises(error, match=match):
            tract.merge(source)
        with pytest.raises(error, match=match):
            tract.preview_merge(source)
    with pytest.raises(HistoryError, match="invalid merge strategy"):
        tract.merge("same", strategy="octopus")
    tract.switch("empty")
    with pytest.raises(HistoryError, match=r"reset\('main'\)"):
        tract.merge("main")
    tract.user("another beginning")
    with pytest.raises(HistoryError, match="import_commits"):
        tract.merge("main")
    tract.checkout(before["main"][0])
    with pytest.raises(DetachedHeadError):
        tract.merge("same")
    tract.switch("main")
    assert snapshot(tract)["main"] == before["main"]


def test_the_budget_is_asked(tract):
    diverged(tract)
    tract.user("m1")
    with on(tract, "topic"):
        tract.user("a long story " * 50)
    before = snapshot(tract), tract.events(), tract.reflog()
    tract.budget = TokenBudget(50, action="reject")
    with pytest.raises(BudgetExceededError):
        tract.merge("topic")
    assert (snapshot(tract), tract.events(), tract.reflog()) == before
    tract.reset(tract.get_commit("HEAD").parent_hash)
    with pytest.raises(BudgetExceededError):
        tract.merge("topic")  # also for a fast-forward
    tract.budget = None
    assert tract.merge("topic").merge_type is MergeType.FAST_FORWARD


def test_merge_fails_if_the_current_branch_moves_meanwhile(tract, both_edit):
    def slow(_):
        tract.user("somebody else was faster")
        return "ours"

    with pytest.raises(BranchMovedError, match="nothing was changed"):
        tract.merge("topic", resolver=slow)
    assert texts(tract) == ["rules", "question of main", "somebody else was faster"]
    assert tract.verify() == []


def test_merging_within_a_batch(tract, both_edit):
    with tract.batch():
        tract.user("before")
        tract.merge("topic", resolver="theirs")
        tract.user("after")
    assert texts(tract) == ["rules", "question of topic", "before", "answer of topic", "after"]
    before = snapshot(tract)
    tract.branch("more")
    tract.user("more")
    tract.switch("main")

    def merge_twice():
        with tract.batch():
            tract.merge("more")
            tract.merge("more")

    with pytest.raises(NothingToMergeError):
        merge_twice()
    assert {name: state for name, state in snapshot(tract).items() if name != "more"} == before
    assert tract.verify() == []


# --- summaries


@pytest.mark.parametrize("join", ["merge", "rebase"])
@pytest.mark.parametrize("compressed", ["main", "topic"])
def test_a_summary_is_not_combined_with_its_originals(tract, join, compressed):
    for text in ("base", "a", "b"):
        tract.user(text)
    tract.branch("topic")
    tract.user("x")
    tract.switch(compressed)
    tract.compress(
        commits=[info.commit_hash for info in tract.log(None) if info.message in {"a", "b"}], content="S"
    )
    tract.switch("main")
    before = tract.status()
    with pytest.raises(HistoryError, match="has a summary.*would have both"):
        getattr(tract, join)("topic")
    assert tract.status() == before
    x = next(info for info in tract.log(None, all_branches=True) if info.message == "x")
    tract.import_commits([x.commit_hash])
    assert tract.compile().messages[-1].content == "x"


def test_a_branch_that_was_made_after_a_compression_is_merged(tract):
    tract.user("a")
    tract.compress(content="S")
    tract.branch("topic")
    tract.user("x")
    tract.switch("main")
    tract.user("y")
    tract.merge("topic")
    assert sorted(message.content for message in tract.compile().messages) == ["S", "x", "y"]


# --- messages, and commits that another process removes


@pytest.mark.parametrize("message", [5, 0, b"x", "\ud800", "a\0b", ["x"]])
@pytest.mark.parametrize("no_ff", [False, True])
def test_a_message_that_cannot_be_kept(tract, message, no_ff):
    diverged(tract)
    with on(tract, "topic"):
        tract.assistant("answer")
    before = snapshot(tract)
    with pytest.raises(ContentError):
        tract.merge("topic", message=message, no_ff=no_ff, delete_branch=True)
    assert snapshot(tract) == before
    assert tract.merge("topic", message="", no_ff=no_ff).incoming


def test_a_message_is_looked_at_before_anything_is_decided(tract, both_edit):
    with pytest.raises(ContentError, match="NUL"):
        tract.merge("topic", resolver=lambda _: pytest.fail("was asked"), message="\0")


@pytest.mark.parametrize("answer", ["ours", "theirs", "skip", "a new text"])
def test_a_branch_that_is_removed_while_its_conflicts_are_decided(tract, both_edit, answer):
    def remove(_):
        tract.delete_branch("topic", force=True)
        tract._repository.timelines.forget()
        assert tract.gc(orphan_retention_days=0).commits
        return Resolution.content(answer) if " " in answer else answer

    head, shown = tract.head, texts(tract)
    with pytest.raises(HistoryError, match="no longer exists: .* nothing was written"):
        tract.merge("topic", resolver=remove)
    assert (tract.head, texts(tract)) == (head, shown)
    assert tract.verify() == []


def test_retention_survives_a_merge_if_an_edit_set_the_priority(tract):
    target = tract.user("x 1", retain_match=["x"]).commit_hash
    tract.branch("topic", switch=False)
    tract.user("x 2", edit=target, priority="important")
    with on(tract, "topic"):
        tract.annotate(target, "skip")
    tract.merge("topic", resolver="ours")
    with pytest.raises(CompressionError, match="must contain 'x'"):
        tract.compress(content="gone")


@pytest.mark.parametrize("join", ["merge", "rebase"])
@pytest.mark.parametrize(
    "metadata", ["{}", '{"compressed_from":{}}', '{"compressed_from":{"commits":["a"],"head":"b"}}']
)
def test_a_summary_with_damaged_metadata_is_not_combined_with_its_originals(tmp_path, join, metadata):
    path = tmp_path / "s.db"
    with Tract.open(path) as tract:
        said = [tract.user(text).commit_hash for text in ("base", "a", "b")]
        tract.branch("topic")
        tract.user("x")
        tract.switch("main")
        (summary,) = tract.compress(commits=said[1:], content="S").summary_commits
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE commits SET metadata_json = ? WHERE commit_hash = ?", (metadata, summary))
        connection.commit()
    with Tract.open(path) as tract:
        before = tract.status()
        with pytest.raises(StoreCorruptError, match=f"commit {summary[:8]} does not match its hash. Restore"):
            getattr(tract, join)("topic")
        assert tract.status() == before


@pytest.mark.parametrize("forged", ["mine", 5, {"commits": 5}, {"commits": [5]}, {}])
def test_metadata_that_only_looks_like_a_summary_does_not_block_a_merge(tract, forged):
    tract.user("a")
    tract.branch("topic")
    tract.user("x", metadata={"compressed_from": forged})
    tract.switch("main")
    tract.user("y")
    tract.merge("topic")
    assert sorted(message.content for message in tract.compile().messages) == ["a", "x", "y"]
