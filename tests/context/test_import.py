"""Importing single commits."""

from __future__ import annotations

import pytest

from tests.context.joining import by_text, diverged, on, snapshot, texts
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    BudgetExceededError,
    CommitNotFoundError,
    DetachedHeadError,
    EditTargetError,
    HistoryError,
)
from tract_jupyter.models import Priority, TokenBudget


@pytest.fixture
def elsewhere(tract):
    """Commits of `topic`: a message, its edit, another message, an annotation of the first; `main` is current."""
    diverged(tract)
    with on(tract, "topic"):
        first = tract.user("t1", tags=["plan"], metadata={"source": "test"}).commit_hash
        edit = tract.user("t1, better", edit=first).commit_hash
        second = tract.assistant("t2").commit_hash
        pin = tract.annotate(second, "pinned", reason="keep").commit_hash
    tract.user("m1")
    return first, edit, second, pin


def test_a_message_is_copied_to_the_tip(tract, elsewhere):
    first = elsewhere[0]
    tract.tags.add(first, "later")
    before = snapshot(tract)
    result = tract.import_commits([first])
    new = tract.get_commit("HEAD")
    assert texts(tract) == ["rules", "question", "m1", "t1"]
    assert (result.copies, result.commits, result.skipped) == (
        {first: new.commit_hash},
        (new.commit_hash,),
        (),
    )
    assert (new.metadata, new.tags) == ({"source": "test"}, ("plan",))
    assert tract.tags.of(new.commit_hash) == ("later", "plan")
    assert snapshot(tract)["topic"] == before["topic"]
    assert tract.verify() == []
    assert tract.undo().operation == "import"
    assert snapshot(tract) == before


def test_the_import_event_names_the_source_commits(tract, elsewhere):
    old = tract.head
    tract.import_commits([elsewhere[0]])
    (event,) = tract.events("import")
    assert event.data == {
        "branch": "main",
        "old": old,
        "new": tract.head,
        "sources": [elsewhere[0]],
        "skipped": [],
    }
    assert "t1" in tract.compile().messages[-1].content


def test_a_message_keeps_the_priority_it_has_there(tract, elsewhere):
    second = elsewhere[2]
    with on(tract, "topic"):
        tract.annotate(second, "important", retain_match=["t2"])
    tract.import_commits([second])
    assert by_text(tract, "t2").priority is Priority.IMPORTANT
    assert tract.get_commit("HEAD").retention["match_patterns"] == ["t2"]


def test_a_priority_that_no_branch_holds_does_not_count(tract, elsewhere):
    with on(tract, "topic"):
        tract.undo()
    tract.import_commits([elsewhere[2]])
    assert by_text(tract, "t2").priority is Priority.NORMAL


def test_importing_a_branch_name_imports_its_newest_commit(tract):
    diverged(tract)
    with on(tract, "topic"):
        tract.user("t1")
        tip = tract.user("t2").commit_hash
    assert list(tract.import_commits(["topic"]).copies) == [tip]
    assert texts(tract) == ["rules", "question", "t2"]


def test_several_are_one_operation(tract, elsewhere):
    before = snapshot(tract)
    result = tract.import_commits(elsewhere)
    assert texts(tract) == ["rules", "question", "m1", "t1, better", "t2"]
    assert list(result.copies) == list(elsewhere)
    assert by_text(tract, "t2").priority is Priority.PINNED
    assert by_text(tract, "t1, better").commit_hash == result.copies[elsewhere[0]]
    assert tract.get_commit(result.copies[elsewhere[1]]).edit_target == result.copies[elsewhere[0]]
    assert tract.verify() == []
    tract.undo()
    assert snapshot(tract) == before


def test_an_imported_edit_replaces_earlier_edits_of_its_target(tract):
    _, base = diverged(tract)
    with on(tract, "topic"):
        edit = tract.user("question of topic", edit=base).commit_hash
        skip = tract.annotate(base, "skip").commit_hash
    tract.user("question of main", edit=base)
    tract.import_commits([edit])
    assert texts(tract) == ["rules", "question of topic"]
    tract.import_commits([skip])
    assert texts(tract) == ["rules"]


@pytest.mark.parametrize("which", [1, 3])
def test_an_edit_whose_target_is_missing_is_refused(tract, elsewhere, which):
    before = snapshot(tract), tract.events(), tract.reflog()
    with pytest.raises(
        HistoryError, match="which is not in the history of 'main'; nothing was imported"
    ) as raised:
        tract.import_commits([elsewhere[which]])
    assert ("resolver='append'" in str(raised.value)) == (which == 1)
    for resolver in (lambda _: None, "abort", lambda _: 5, "append" if which == 3 else None):
        with pytest.raises(HistoryError, match="nothing was imported"):
            tract.import_commits([elsewhere[which]], resolver=resolver)
    with pytest.raises(HistoryError, match="is not in the history"):
        tract.import_commits([elsewhere[which], elsewhere[0], elsewhere[2]])  # too late
    assert (snapshot(tract), tract.events(), tract.reflog()) == before


def test_a_change_can_be_left_out(tract, elsewhere):
    before = snapshot(tract), tract.events(), tract.reflog()
    result = tract.import_commits([elsewhere[1]], resolver="skip")
    assert (result.commits, result.skipped) == ((), (elsewhere[1],))
    assert (snapshot(tract), tract.events(), tract.reflog()) == before
    result = tract.import_commits([elsewhere[1], elsewhere[2]], resolver=lambda issue: "skip")
    assert (list(result.copies), result.skipped) == ([elsewhere[2]], (elsewhere[1],))
    assert tract.events("import")[0].data["skipped"] == [elsewhere[1]]


def test_an_edit_can_become_a_message(tract, elsewhere):
    issues = []

    def ask(issue):
        issues.append(issue)
        return "append"

    tract.import_commits([elsewhere[1]], resolver=ask)
    assert texts(tract) == ["rules", "question", "m1", "t1, better"]
    (issue,) = issues
    assert (issue.commit, issue.operation, issue.target) == (elsewhere[1], "edit", elsewhere[0])
    assert (issue.content["text"], issue.target_content["text"]) == ("t1, better", "t1")


def test_an_edited_tool_result_keeps_its_link(tract):
    diverged(tract)
    call = {"id": "c1", "name": "look", "arguments": {}}
    tract.assistant("let me look", tool_calls=[call])
    tract.branch("other")
    answer = tract.tool_result("c1", "look", "a long answer").commit_hash
    edit = tract.commit(
        {"content_type": "tool_io", "tool_name": "look", "direction": "result", "payload": {"content": "short"}},
        operation="edit", edit_target=answer,
    ).commit_hash  # fmt: skip
    tract.switch("main")
    tract.import_commits([edit], resolver="append")
    message = tract.compile().messages[-1]
    assert (message.role, message.content, message.tool_call_id) == ("tool", "short", "c1")


def test_a_resolver_can_point_an_edit_at_another_commit(tract, elsewhere):
    mine = tract.head
    tract.import_commits([elsewhere[1], elsewhere[3]], resolver=lambda _: mine[:10])
    assert texts(tract) == ["rules", "question", "t1, better"]
    assert by_text(tract, "t1, better").priority is Priority.PINNED
    with pytest.raises(EditTargetError, match="there is no commit"):
        tract.import_commits([elsewhere[1]], resolver="nothing")


def test_an_empty_branch_takes_commits(tract):
    tract.branch("empty", switch=False)
    one = tract.user("one").commit_hash
    tract.switch("empty")
    tract.import_commits([one])
    assert texts(tract) == ["one"]
    assert tract.get_commit("HEAD").parent_hash is None
    assert tract.undo().new is None
    assert texts(tract) == []


def test_import_refuses_known_merged_repeated_and_unknown_commits(tract, elsewhere):
    with on(tract, "topic"):
        merge = tract.merge("main").merge_commit
    before = snapshot(tract), tract.events(), tract.reflog()
    for names, error, match in [
        ([tract.head], HistoryError, "is in the history of 'main' already"),
        ([merge], HistoryError, "is a merge"),
        ([elsewhere[0], elsewhere[0][:12]], HistoryError, "listed twice"),
        ([], HistoryError, "name at least one"),
        (["nowhere"], CommitNotFoundError, "there is no commit 'nowhere'"),
        ([elsewhere[0], "0" * 64], CommitNotFoundError, "no commit"),
    ]:
        with pytest.raises(error, match=match):
            tract.import_commits(names)
    assert (snapshot(tract), tract.events(), tract.reflog()) == before
    tract.checkout(elsewhere[2])
    with pytest.raises(DetachedHeadError):
        tract.import_commits([before[0]["main"][0]])


def test_another_tracts_commit_is_refused(tmp_path):
    with Tract.open(tmp_path / "store.db", tract_id="a" * 32) as one:
        foreign = one.user("private").commit_hash
        with (
            Tract.open(tmp_path / "store.db", tract_id="b" * 32) as other,
            pytest.raises(CommitNotFoundError),
        ):
            other.import_commits([foreign])


def test_the_budget_is_asked(tract, elsewhere):
    before = snapshot(tract)
    tract.budget = TokenBudget(tract.status().token_count + 1, action="reject")
    with pytest.raises(BudgetExceededError):
        tract.import_commits([elsewhere[0]])
    assert snapshot(tract) == before


@pytest.mark.parametrize("names", [None, 5, "abcd", "", b"abcd", [None], [5], [["x"]]])
def test_import_refuses_values_that_are_not_a_list_of_commits(tract, elsewhere, names):
    before = snapshot(tract)
    with pytest.raises(HistoryError, match=r"is a list of commits|takes a commit"):
        tract.import_commits(names)
    assert snapshot(tract) == before


def test_import_accepts_commit_infos_from_log(tract, elsewhere):
    with on(tract, "topic"):
        first = tract.get_commit(elsewhere[0])
    with pytest.raises(HistoryError, match="not one commit"):
        tract.import_commits(first)
    assert list(tract.import_commits([first]).copies) == [first.commit_hash]
