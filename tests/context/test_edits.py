from __future__ import annotations

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import CommitNotFoundError, ContentError, EditTargetError
from tract_jupyter.models import CommitOperation, Priority


def edit(tract, target, text="new", **options):
    return tract.user(text, operation="edit", edit_target=target, **options)


def texts(tract, **options):
    return [message.content for message in tract.compile(**options).messages]


def test_an_edit_takes_the_place_of_its_target_and_the_newest_wins(tract):
    a, _, c = (tract.user(text) for text in "abc")
    first = edit(tract, a.commit_hash, "A")
    edit(tract, c.commit_hash[:10], "C")
    assert texts(tract) == ["A", "b", "C"]
    edit(tract, a.commit_hash, "AA")
    assert texts(tract) == ["AA", "b", "C"]
    assert texts(tract, at_commit=first.commit_hash) == ["A", "b", "c"]
    assert texts(tract, at_commit=c.commit_hash) == ["a", "b", "c"]
    assert first.operation is CommitOperation.EDIT
    assert first.edit_target == a.commit_hash
    assert tract.compile().messages[0].commit_hash == a.commit_hash
    assert tract.status().commit_count == 6


def test_an_edit_may_change_role_and_kind(tract):
    info = tract.user("x")
    tract.commit({"content_type": "output", "text": "y"}, operation="edit", edit_target=info.commit_hash)
    assert tract.compile().to_dicts() == [{"role": "assistant", "content": "y"}]


def test_an_edit_target_can_be_a_branch_name(tract):
    tract.user("x")
    edit(tract, "main", "y")
    assert texts(tract) == ["y"]


def test_an_edit_of_an_edit_is_refused_and_the_original_named(tract):
    info = tract.user("x")
    changed = edit(tract, info.commit_hash)
    with pytest.raises(EditTargetError, match=info.commit_hash):
        edit(tract, changed.commit_hash)
    assert tract.head == changed.commit_hash


@pytest.mark.parametrize("target", ["f" * 64, "nowhere", ""])
def test_an_unknown_target_is_refused(tract, target):
    before = tract.user("x").commit_hash
    with pytest.raises(EditTargetError, match="no commit"):
        edit(tract, target)
    assert tract.head == before


def test_a_missing_or_superfluous_target_is_refused(tract):
    info = tract.user("x")
    with pytest.raises(EditTargetError, match="needs edit_target"):
        tract.user("y", operation="edit")
    with pytest.raises(EditTargetError, match="requires operation='edit'"):
        tract.user("y", edit_target=info.commit_hash)
    assert tract.head == info.commit_hash


def test_another_tracts_commit_is_refused(tmp_path):
    with (
        Tract.open(tmp_path / "s.db", tract_id="one") as one,
        Tract.open(tmp_path / "s.db", tract_id="two") as two,
    ):
        foreign = one.user("x")
        two.user("y")
        with pytest.raises(EditTargetError, match="no commit"):
            edit(two, foreign.commit_hash)
        assert texts(two) == ["y"]


def test_another_branchs_commit_is_refused_as_the_edit_would_show_nowhere(tract):
    tract.user("base")
    tract.branch("topic")
    other = tract.user("on topic")
    tract.switch("main")
    tract.user("on main")
    with pytest.raises(EditTargetError, match="not in the history of branch 'main'"):
        edit(tract, other.commit_hash)
    assert texts(tract) == ["base", "on main"]


def test_nothing_can_be_edited_on_an_empty_branch(tract):
    tract.branch("empty", switch=False)
    info = tract.user("x")
    tract.switch("empty")
    with pytest.raises(EditTargetError, match="not in the history"):
        edit(tract, info.commit_hash)


def test_an_edit_shows_on_its_own_branch_only(tract):
    shared = tract.user("shared")
    tract.branch("topic")
    edit(tract, shared.commit_hash, "changed")
    assert texts(tract) == ["changed"]
    assert texts(tract, at_commit="main") == ["shared"]


# --- priorities


def test_a_skipped_message_is_left_out_until_its_priority_changes(tract):
    a, b, _ = (tract.user(text) for text in "abc")
    tract.annotate(b.commit_hash[:8], "skip", reason="beside the point")
    assert texts(tract) == ["a", "c"]
    assert [info.priority for info in tract.log()[1:]] == [Priority.NORMAL, Priority.SKIP, Priority.NORMAL]
    edit(tract, b.commit_hash, "B")
    assert texts(tract) == ["a", "c"]
    tract.annotate(b.commit_hash, Priority.PINNED)
    assert [(m.content, m.priority) for m in tract.compile().messages] == [
        ("a", "normal"), ("B", "pinned"), ("c", "normal"),
    ]  # fmt: skip
    assert tract.get_commit(a.commit_hash).priority is Priority.NORMAL


def test_a_priority_given_with_the_commit_replaces_the_kinds_own(tract):
    thought = {"content_type": "reasoning", "text": "hm"}
    assert tract.commit(thought).priority is Priority.SKIP
    assert tract.commit(thought, priority="normal").priority is Priority.NORMAL
    assert tract.system("x", priority=Priority.SKIP).priority is Priority.SKIP
    assert texts(tract) == ["hm"]


def test_an_edit_keeps_the_priority_of_its_target(tract):
    info = tract.user("x", priority="important")
    tract.commit({"content_type": "reasoning", "text": "y"}, operation="edit", edit_target=info.commit_hash)
    (message,) = tract.compile().messages
    assert (message.content, message.priority) == ("y", Priority.IMPORTANT)


@pytest.mark.parametrize("priority", ["normal", "skip", "important"])
def test_a_priority_given_with_an_edit_is_the_messages(tract, priority):
    info = tract.system("x")
    edit(tract, info.commit_hash, "y", priority=priority)
    assert tract.get_commit(info.commit_hash).priority == priority
    assert texts(tract) == ([] if priority == "skip" else ["y"])


def test_annotating_an_edit_is_annotating_its_message(tract):
    info = tract.user("x")
    changed = edit(tract, info.commit_hash)
    tract.annotate(changed.commit_hash, "skip")
    assert texts(tract) == []
    assert tract.get_commit(info.commit_hash).priority is Priority.SKIP


def test_annotations_of_nothing_or_with_unknown_words_are_refused(tract):
    with pytest.raises(CommitNotFoundError):
        tract.annotate("HEAD", "skip")
    info = tract.user("x")
    with pytest.raises(CommitNotFoundError):
        tract.annotate("f" * 64, "skip")
    with pytest.raises(ContentError, match="skip, normal, important, pinned"):
        tract.annotate(info.commit_hash, "high")
    assert tract.get_commit(info.commit_hash) == info


def test_another_tracts_commit_cannot_be_annotated(tmp_path):
    with (
        Tract.open(tmp_path / "s.db", tract_id="one") as one,
        Tract.open(tmp_path / "s.db", tract_id="two") as two,
    ):
        info = one.user("x")
        with pytest.raises(CommitNotFoundError):
            two.annotate(info.commit_hash, "skip")
        assert texts(one) == ["x"]
