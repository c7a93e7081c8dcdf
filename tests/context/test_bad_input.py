"""Invalid input is refused with a reason, and the store stays unchanged."""

from __future__ import annotations

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    AmbiguousPrefixError,
    BranchNotFoundError,
    CommitNotFoundError,
    ContentError,
    EditTargetError,
    HistoryError,
)

ON_NOTHING = {
    "edit": lambda tract: tract.user("x", edit="HEAD"),
    "annotate": lambda tract: tract.annotate("HEAD", "skip"),
    "reset": lambda tract: tract.reset("main"),
    "undo": lambda tract: tract.undo(),
    "redo": lambda tract: tract.redo(),
    "tag": lambda tract: tract.tags.add("HEAD", "t"),
    "get": lambda tract: tract.get_commit("HEAD"),
    "content": lambda tract: tract.get_content("main"),
    "past": lambda tract: tract.compile(at_commit="HEAD"),
    "versions": lambda tract: tract.history.versions("HEAD"),
    "restore": lambda tract: tract.restore("HEAD"),
    "checkout": lambda tract: tract.checkout("-"),
    "orig": lambda tract: tract.resolve_commit("ORIG_HEAD"),
    "switch": lambda tract: tract.switch("nowhere"),
    "delete": lambda tract: tract.delete_branch("nowhere"),
}


@pytest.mark.parametrize("operation", ON_NOTHING)
def test_operations_that_need_a_commit_fail_in_an_empty_store(tract, operation):
    with pytest.raises((CommitNotFoundError, EditTargetError, HistoryError, BranchNotFoundError)):
        ON_NOTHING[operation](tract)
    assert (tract.head, tract.log(), len(tract.compile()), tract.reflog()) == (None, [], 0, [])
    assert tract.verify() == []


def test_queries_work_in_an_empty_store(tract):
    assert (
        tract.history.pinned(),
        tract.history.skipped(),
        tract.tags.list(),
        tract.history.query_by_text("x"),
    ) == ([], [], [], [])
    assert tract.status().token_count == tract.compile().token_count == 0


BY_NAME = {
    "get": lambda tract, name: tract.get_commit(name),
    "content": lambda tract, name: tract.get_content(name),
    "past": lambda tract, name: tract.compile(at_commit=name),
    "annotate": lambda tract, name: tract.annotate(name, "skip"),
    "edit": lambda tract, name: tract.user("x", edit=name),
    "reset": lambda tract, name: tract.reset(name),
    "checkout": lambda tract, name: tract.checkout(name),
    "branch": lambda tract, name: tract.branch("new", source=name),
    "tag": lambda tract, name: tract.tags.add(name, "t"),
}
NAMES = ["f" * 64, "f" * 65, "abc", "", "HEAD~1", "ABCDEF", "\ud800", "a\0b", "%", None, 7, b"abcd"]
MAY_BE_NONE = {"past", "edit", "branch"}  # here, None is valid: no commit
NAMING = [(use, name) for name in NAMES for use in BY_NAME if name is not None or use not in MAY_BE_NONE]


@pytest.mark.parametrize(("use", "name"), NAMING, ids=ascii)
def test_an_unknown_commit_name_is_refused(tract, use, name):
    tract.user("a")
    before = tract.status(), tract.log(), tract.list_branches(), tract.tags.list()
    with pytest.raises((CommitNotFoundError, EditTargetError), match="no commit"):
        BY_NAME[use](tract, name)
    assert (tract.status(), tract.log(), tract.list_branches(), tract.tags.list()) == before


@pytest.mark.parametrize("use", BY_NAME)
def test_another_tracts_commits_are_not_there(tmp_path, use):
    with (
        Tract.open(tmp_path / "s.db", tract_id="a") as one,
        Tract.open(tmp_path / "s.db", tract_id="b") as two,
    ):
        foreign, own = one.user("x"), two.user("y")
        for name in (foreign.commit_hash, foreign.commit_hash[:12]):
            with pytest.raises((CommitNotFoundError, EditTargetError), match="no commit"):
                BY_NAME[use](two, name)
        assert two.log() == [own]
        assert two.verify() == []


@pytest.mark.parametrize("use", BY_NAME)
def test_a_prefix_of_two_commits(tract, monkeypatch, use):
    hashes = iter(f"abcd{number}{tract.tract_id:0<59}" for number in (1, 2))
    with monkeypatch.context() as patch:
        patch.setattr("tract_jupyter.context.writer.commit_hash", lambda *_: next(hashes))
        tract.user("a")
        tract.user("b")
    with pytest.raises(AmbiguousPrefixError, match="more digits"):
        BY_NAME[use](tract, "abcd")
    assert tract.status().commit_count == 2


def test_an_annotation_is_neither_edited_nor_annotated(tract):
    info = tract.user("a")
    note = tract.annotate(info.commit_hash, "pinned")
    with pytest.raises(EditTargetError, match="an annotation and has no text"):
        tract.user("b", edit=note.commit_hash)
    with pytest.raises(EditTargetError, match="an annotation and has no priority"):
        tract.annotate(note.commit_hash, "skip")
    assert tract.head == note.commit_hash


def test_a_merge_is_neither_edited_nor_annotated(tract):
    tract.user("a")
    tract.branch("side")
    tract.user("b")
    tract.switch("main")
    tract.user("c")
    tract.merge("side")
    merged = tract.head
    with pytest.raises(EditTargetError, match="a merge"):
        tract.user("d", edit=merged)
    with pytest.raises(EditTargetError, match="a merge"):
        tract.annotate(merged, "skip")
    assert tract.head == merged
    assert tract.verify() == []


def test_a_commit_of_another_branch_is_not_annotated(tract):
    tract.branch("topic")
    other = tract.user("a")
    tract.switch("main")
    with pytest.raises(EditTargetError, match="not in the history of branch 'main'"):
        tract.annotate(other.commit_hash, "skip")


@pytest.mark.parametrize(
    "tools", [[{}], [1], [{"function": {}}], [{"function": {"name": 1}}], [{"function": {"name": "\ud800"}}]]
)
def test_an_invalid_tool_is_refused(tract, tools):
    with pytest.raises(ContentError):
        tract.user("x", tools=tools)
    assert tract.head is None


@pytest.mark.parametrize("tag", ["", " ", "x" * 256, "\ud800", "a\0b", 1, None])
def test_an_invalid_tag_is_refused(tract, tag):
    info = tract.user("a")
    for use in (lambda: tract.tags.add(info.commit_hash, tag), lambda: tract.tags.register(tag)):
        with pytest.raises(ContentError):
            use()
    assert tract.tags.list() == []


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


HUGE = "ten bytes\n" * 1_000_000
AWKWARD = {
    "metadata": {"metadata": {"a\0": "b\0", "<|endoftext|>": "\U0010ffff", "deep": deep(150)}},
    "config": {"generation_config": {"stop": ["<|im_end|>", "\0"]}},
    "tags": {"tags": ["<|endoftext|>", "'; drop table commits; --"]},
    "message": {"message": "<|endoftext|> %s ? :x"},
    "name": {"name": "<|im_start|>"},
}


@pytest.mark.parametrize("part", AWKWARD)
def test_awkward_words_come_back_everywhere(tract, part):
    info = tract.user("x", **AWKWARD[part])
    assert tract.get_commit(info.commit_hash) == info
    assert tract.verify() == []


@pytest.mark.parametrize(
    "text", [HUGE, "a\0b", "<|endoftext|>" * 3, "\U0001f600"], ids=["huge", "nul", "special", "astral"]
)
def test_awkward_texts_are_edited_and_annotated_like_others(tract, text):
    info = tract.user(text)
    tract.user(text + "!", edit=info.commit_hash)
    tract.annotate(info.commit_hash, "pinned", reason=text[:50].replace("\0", ""))
    assert tract.compile().messages[0].content == text + "!"
    assert tract.status().token_count == tract.compile().token_count
    assert tract.verify() == []


def test_a_reason_with_invalid_unicode_is_refused(tract):
    info = tract.user("x")
    with pytest.raises(ContentError, match="surrogate"):
        tract.annotate(info.commit_hash, "skip", reason="\ud800")
    assert tract.head == info.commit_hash


def test_the_line_of_a_long_reason_is_short_and_has_no_nul(tract):
    note = tract.annotate(tract.user("x").commit_hash, "skip", reason="a\0b " * 100)
    assert len(note.message) == 100
    assert "\0" not in note.message
    assert tract.get_content(note.commit_hash)["reason"] == "a\0b " * 100


@pytest.mark.parametrize("part", ["metadata", "generation_config"])
@pytest.mark.parametrize("value", [deep(5_000), {"x": {1, 2}}, {1: 2}, {"x": float("inf")}])
def test_a_value_without_json_form_is_refused(tract, part, value):
    before = tract.user("a").commit_hash
    with pytest.raises(ContentError):
        tract.user("b", **{part: value})
    assert tract.head == before
