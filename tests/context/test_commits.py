from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from tests.models.test_content import INVALID, KINDS
from tract_jupyter import Tract
from tract_jupyter.exceptions import AmbiguousPrefixError, CommitNotFoundError, ContentError, StoreLockedError
from tract_jupyter.models import CommitOperation, Priority
from tract_jupyter.storage import RefRows


@pytest.mark.parametrize(("model", "role", "text", "priority"), KINDS)
def test_every_content_type_is_read_back_unchanged(tract, model, role, text, priority):
    by_model, by_dict = tract.commit(model), tract.commit(dict(model))
    assert by_model.content_type == model.content_type
    assert by_model.content_hash == by_dict.content_hash
    assert by_model.commit_hash != by_dict.commit_hash
    assert by_model.priority is by_dict.priority is priority
    said = {name: value for name, value in dict(model).items() if (name, value) != ("attachments", ())}
    assert tract.get_content(by_model.commit_hash) == said
    shown = [] if priority is Priority.SKIP else [(role, text)] * 2
    assert [(message.role, message.content) for message in tract.compile().messages] == shown


@pytest.mark.parametrize(("content", "part"), INVALID)
def test_invalid_content_leaves_nothing_behind(tract, content, part):
    with pytest.raises(ContentError, match=part):
        tract.commit(content)
    assert tract.log() == []


def test_commit_returns_the_stored_values(tract):
    first = tract.system("be brief")
    second = tract.user(
        "hi",
        name="ann",
        message="greets",
        metadata={"n": [1, {"x": None}], "t": (1, 2)},
        generation_config={"model": "m", "temperature": 0.5},
        tags=["b", "a", "b"],
        priority="important",
    )
    assert tract.get_commit(second.commit_hash) == second
    assert tract.log() == [second, first]
    assert second.metadata == {"n": [1, {"x": None}], "t": [1, 2]}
    assert second.generation_config == {"model": "m", "temperature": 0.5}
    assert second.tags == ("a", "b")
    assert second.message == "greets"
    assert second.priority is Priority.IMPORTANT
    assert (first.parent_hash, second.parent_hash) == (None, first.commit_hash)
    assert (first.generation, second.generation) == (0, 1)
    assert second.operation is CommitOperation.APPEND
    assert second.tract_id == tract.tract_id
    assert second.short_hash == second.commit_hash[:8]
    assert abs(datetime.now(UTC) - second.created_at) < timedelta(minutes=5)


def test_later_changes_by_the_caller_do_not_change_the_commit(tract):
    metadata, payload = {"list": [1]}, {"list": [1]}
    info = tract.commit({"content_type": "freeform", "payload": payload}, metadata=metadata)
    metadata["list"].append(2)
    payload["list"].append(2)
    assert info.metadata == tract.get_commit(info.commit_hash).metadata == {"list": [1]}
    assert tract.get_content(info.commit_hash)["payload"] == {"list": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one line", "one line"),
        ("  two\n\tlines  here ", "two lines here"),
        ("", ""),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
        (" " * 600 + "late", ""),
        ("nul\0here", "nul here"),
    ],
)
def test_the_message_is_made_from_the_text(tract, text, message):
    assert tract.user(text).message == message


def test_an_empty_message_is_a_message(tract):
    assert tract.user("text", message="").message == ""


@pytest.mark.parametrize("field", ["metadata", "generation_config"])
@pytest.mark.parametrize("value", [{"x": object()}, {"x": float("nan")}, {1: "x"}, {"x": "\ud800"}])
def test_values_without_a_json_form_are_refused(tract, field, value):
    with pytest.raises(ContentError):
        tract.user("x", **{field: value})
    assert tract.head is None


@pytest.mark.parametrize(("options", "match"), [
    ({"message": "\ud800"}, "lone surrogate"), ({"tags": ["\ud800"]}, "lone surrogate"),
    ({"message": "a\0b"}, "NUL"), ({"tags": ["a\0b"]}, "NUL"), ({"message": b"x"}, "must be a string"),
    ({"tags": [""]}, "not a valid tag"), ({"tags": ["x" * 256]}, "not a valid tag"), ({"tags": [1]}, "not a valid tag"),
])  # fmt: skip
def test_words_that_no_store_can_keep_are_refused(tract, options, match):
    with pytest.raises(ContentError, match=match):
        tract.user("x", **options)
    assert tract.head is None


@pytest.mark.parametrize("options", [{"priority": "urgent"}, {"operation": "amend"}])
def test_an_unknown_option_value_is_refused_with_the_known_values(tract, options):
    with pytest.raises(ContentError, match="use "):
        tract.user("x", **options)
    assert tract.head is None


AWKWARD = {
    "nul": "a\0b",
    "special tokens": "<|endoftext|><|im_start|>",
    "astral": "\U0001f600\U0010ffff",
    "controls": "".join(map(chr, range(32))) + "\x7f\u2028",
    "quotes": "'\"; drop table commits; --%s?:x",
    "empty": "",
    "10 MB": "ten bytes\n" * 1_000_000,
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_text_comes_back_unchanged(tract, name):
    info = tract.user(AWKWARD[name])
    assert tract.get_content(info.commit_hash)["text"] == AWKWARD[name]
    assert tract.compile().messages[0].content == AWKWARD[name]


@pytest.mark.parametrize("content", [
    {"content_type": "dialogue", "role": "user", "text": "a\ud800"},
    {"content_type": "freeform", "payload": {"a": ["\udfff"]}},
    {"content_type": "freeform", "payload": {"\ud800": 1}},
])  # fmt: skip
def test_a_lone_surrogate_is_refused_with_the_remedy(tract, content):
    with pytest.raises(ContentError, match="surrogate.*repair it"):
        tract.commit(content)
    assert tract.head is None


def test_deep_payloads_are_kept_or_refused(tract):
    def deep(levels):
        payload = {}
        for _ in range(levels):
            payload = {"a": payload}
        return {"content_type": "freeform", "payload": payload}

    kept = tract.commit(deep(150))
    assert tract.get_content(kept.commit_hash) == deep(150)
    with pytest.raises(ContentError, match="nested"):
        tract.commit(deep(5000))
    assert tract.head == kept.commit_hash


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_payload_without_a_json_form_is_refused(tract, number):
    with pytest.raises(ContentError, match="no JSON form"):
        tract.commit(
            {"content_type": "tool_io", "tool_name": "f", "direction": "result", "payload": {"x": number}}
        )


def test_log_counts_from_the_newest(tract):
    infos = [tract.user(str(n)) for n in range(30)][::-1]
    assert tract.log() == infos[:20]
    assert tract.log(3) == infos[:3]
    assert tract.log(1) == infos[:1]
    assert tract.log(30) == tract.log(31) == tract.log(None) == infos
    assert tract.log(0) == tract.log(-1) == []


def test_log_of_nothing_is_empty(tract):
    assert tract.log() == tract.log(None) == []


def test_a_commit_is_found_by_hash_prefix_branch_and_head(tract):
    first, second = tract.user("one"), tract.user("two")
    tract.branch("old", source=first.commit_hash, switch=False)
    for name, info in [
        (first.commit_hash, first),
        (first.commit_hash[:12], first),
        ("old", first),
        ("main", second),
        ("HEAD", second),
    ]:
        assert tract.get_commit(name) == info
        assert tract.get_content(name)["text"] == ("one" if info is first else "two")


@pytest.mark.parametrize(
    "name", ["", "abc", "0000000", "f" * 64, "nowhere", "%", "_" * 8, "main~1", "\ud800", "x\0y"]
)
def test_an_invalid_commit_name_is_not_found(tract, name):
    tract.user("one")
    for use in (tract.get_commit, tract.get_content, lambda name: tract.compile(at_commit=name)):
        with pytest.raises(CommitNotFoundError, match="no commit"):
            use(name)


@pytest.mark.parametrize("name", ["main", "HEAD"])
def test_a_branch_without_commits_names_none(tract, name):
    with pytest.raises(CommitNotFoundError, match="branch with commits"):
        tract.get_commit(name)


def test_a_prefix_of_several_commits_is_ambiguous(tract, monkeypatch):
    # commits with chosen hashes, so no search for a collision of four digits
    hashes = iter(f"{start}{tract.tract_id:0<59}" for start in ("abcd1", "abcd2", "fffff"))
    monkeypatch.setattr("tract_jupyter.context.writer.commit_hash", lambda *_: next(hashes))
    one, two, last = (tract.user(text) for text in "abc")
    with pytest.raises(AmbiguousPrefixError, match="abcd.*more digits"):
        tract.get_commit("abcd")
    assert tract.get_commit("abcd1") == one
    assert tract.get_commit("abcd2") == two
    assert tract.get_commit("ffff") == last
    with pytest.raises(CommitNotFoundError):
        tract.get_commit("abcd3")


def test_a_branch_is_preferred_to_a_prefix(tract):
    first, second = tract.user("one"), tract.user("two")
    tract.branch(first.commit_hash[:8], switch=False)
    assert tract.get_commit(first.commit_hash[:8]) == second


def test_the_same_commit_made_on_two_branches_is_one_commit(tract, monkeypatch):
    monkeypatch.setattr("tract_jupyter.context.writer.now_text", lambda: "2030-01-01T00:00:00.000000+00:00")
    tract.branch("topic", switch=False)
    one = tract.user("same")
    tract.switch("topic")
    assert tract.user("same") == one
    assert len(tract.log()) == 1


@pytest.fixture
def number_of_rows(tmp_path):
    """Return the number of commits and contents in the store, including commits without a branch."""

    def count():
        with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            return connection.execute(
                "SELECT (SELECT count(*) FROM commits), (SELECT count(*) FROM blobs)"
            ).fetchone()

    return count


def test_a_lost_race_is_tried_again_on_the_new_tip(tmp_path, monkeypatch, number_of_rows):
    with Tract.open(tmp_path / "s.db") as tract:
        first = tract.user("first")
        move, results = RefRows.move, iter([False, False])
        monkeypatch.setattr(
            RefRows, "move", lambda *given, **options: next(results, None) is None and move(*given, **options)
        )
        second = tract.system("second")
        assert tract.log() == [second, first]
        assert [message.content for message in tract.compile().messages] == ["first", "second"]
        assert number_of_rows() == (2, 2)


def test_losing_every_race_is_an_error_and_leaves_nothing(tmp_path, monkeypatch, number_of_rows):
    with Tract.open(tmp_path / "s.db") as tract:
        with monkeypatch.context() as lost:
            lost.setattr(RefRows, "move", lambda *_, **__: False)
            with pytest.raises(StoreLockedError, match="nothing was committed"):
                tract.user("x")
        assert number_of_rows() == (0, 0)
        assert tract.user("y").generation == 0


def test_an_exception_inside_a_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    for path in (":memory:", tmp_path / "store.db"):
        with Tract.open(path) as tract:
            first = tract.user("first")
            with monkeypatch.context() as broken:
                broken.setattr(RefRows, "move", fail)
                with pytest.raises(ZeroDivisionError):
                    tract.system("never")
            assert tract.log() == [first]
            second = tract.system("again")
            assert tract.log() == [second, first]


def test_a_commit_in_a_cell_reads_in_a_line(tract):
    info = tract.user("Hello there")
    assert repr(info) == f"<CommitInfo {info.short_hash}: append of dialogue, ≈2 tokens, 'Hello there'>"
