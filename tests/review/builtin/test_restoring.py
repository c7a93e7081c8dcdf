"""Pendings of built-in operations, rebuilt from the store by another process."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.exceptions import CompressionError, PendingError
from tract_jupyter.review.builtin import BUILTIN_OPERATIONS, CommitOption, stored_type

LONG = "many words of which most can go " * 20


def texts(tract):
    return [message.content for message in tract.compile().messages]


def branches(tract, text):
    """Create the branches `main` and `side`, each with one message after a common message."""
    first = tract.user("first")
    tract.branch("side")
    tract.user(text)
    tract.switch("main")
    return first


def compress(tract):
    tract.user(LONG)
    return tract.propose_compress(content="a summary of it all")


def merge(tract):
    first = branches(tract, "on the side")
    tract.user("mine", edit=first.commit_hash)
    tract.switch("side")
    tract.user("theirs", edit=first.commit_hash)
    tract.switch("main")
    return tract.propose_merge("side", resolver=lambda conflict: "theirs")


def rebase(tract):
    branches(tract, "on the side")
    tract.user("on main")
    tract.switch("side")
    return tract.propose_rebase("main")


def gc(tract):
    branches(tract, "on the side")
    tract.delete_branch("side", force=True)
    return tract.propose_gc(orphan_retention_days=0)


def generate(tract):
    tract.user("question")
    tract.configure_llm(ScriptedClient("answer"))
    return tract.propose_generate()


def tool_result(tract):
    tract.assistant("", tool_calls=[{"id": "a", "name": "look", "arguments": {}}])
    return tract.propose_tool_result("a", "look", "seen")


def policy(tract):
    tract.user("old")
    return tract.policies.propose("tidy", "annotate", {"target_hash": "HEAD", "priority": "skip"})


MADE = {
    compress: ["a summary of it all"],
    merge: ["theirs", "on the side"],
    rebase: ["first", "on main", "on the side"],
    gc: ["first"],
    generate: ["question", "answer"],
    tool_result: ["", "seen"],
    policy: [],
}


def test_every_built_in_operation_is_tried_here(tract):
    assert {make.__name__ for make in MADE} == BUILTIN_OPERATIONS
    assert tract.operations.restored("citation_check", {}) is None


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_another_process_shows_and_carries_out_the_same(tmp_path, make):
    with Tract.open(tmp_path / "store.db") as first:
        asked = make(first)
        first.reviewer.keep(asked)
        shown = asked.review_request()
    with Tract.open(tmp_path / "store.db") as second:
        pending = second.operations.rebuild(second.review.inbox()[0])
        request = pending.review_request()
        assert type(pending) is type(asked)
        assert (request.title, request.summary, request.fingerprint) == (
            shown.title,
            shown.summary,
            shown.fingerprint,
        )
        assert request.tables == shown.tables
        pending.approve()
        assert texts(second) == MADE[make]
        assert second.review.inbox() == []
        if make is gc:
            assert second.gc(orphan_retention_days=0, dry_run=True).commits == ()


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_proposal_of_code_is_in_the_inbox_until_it_is_decided(tract, make):
    pending = make(tract)
    (stored,) = tract.review.inbox()
    assert (stored.pending_id, stored.is_unshown) == (pending.pending_id, True)
    assert tract.operations.rebuild(stored).fields == pending.fields
    pending.approve()
    assert (pending.status, tract.review.inbox()) == ("approved", [])


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_another_process_can_reject_a_built_in_operation(tmp_path, make):
    with Tract.open(tmp_path / "store.db") as first:
        first.reviewer.keep(make(first))
        before = texts(first)
    with Tract.open(tmp_path / "store.db") as second:
        second.operations.rebuild(second.review.inbox()[0]).reject()
        assert texts(second) == (["", "withheld: no reason was given"] if make is tool_result else before)
        assert second.review.inbox() == []
        if make is gc:
            assert second.gc(orphan_retention_days=0, dry_run=True).commits


def test_the_model_of_another_process_writes_a_summary_again(tmp_path):
    with Tract.open(tmp_path / "store.db") as first:
        first.user(LONG)
        how = {"target_tokens": 50, "instructions": "keep numbers"}
        first.reviewer.keep(first.propose_compress(summarizer=lambda *_: "a summary of it all", **how))
    with Tract.open(tmp_path / "store.db") as second:
        model = ScriptedClient("another summary")
        second.configure_llm(model)
        pending = second.operations.rebuild(second.review.inbox()[0])
        assert model.asked == []
        assert pending.retry(0) == "another summary"
        told = model.last_messages[-1]["content"]
        assert "at most 50 tokens" in told
        assert "keep numbers" in told
        pending.approve()
        assert texts(second) == ["another summary"]


# --- arbitrary data in the store

MISSING = object()
DAMAGE = [MISSING, None, 5, -1, True, "x", [], [5], ["x"], [[]], [["x"]], {}, {"a": 5}, [{}], [None]]


def damaged(fields):
    """Yield the fields with one of them removed or replaced, for each field in turn."""
    yield {}
    for name in fields:
        for damage in DAMAGE:
            rest = {other: value for other, value in fields.items() if other != name}
            yield rest if damage is MISSING else {**rest, name: damage}


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_damaged_fields_are_refused_or_can_be_shown(tract, make):
    asked = make(tract)
    refused = 0
    for fields in damaged(asked.fields):
        try:
            pending = tract.operations.restored(asked.operation, fields)
        except PendingError as error:
            assert "it again" in str(error)
            refused += 1
        else:
            assert fields.keys() == asked.fields.keys()
            assert pending.review_request().title
    assert refused > len(asked.fields)


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_the_stored_type_covers_all_fields(tract, make):
    asked = make(tract)
    schema = stored_type(asked.operation).json_schema()
    assert set(schema["required"]) == set(asked.fields)


def test_all_options_of_a_commit_can_be_stored():
    """Attachments are an exception: a tool result cannot have them."""
    assert set(get_args(CommitOption)) == set(Tract.commit.__kwdefaults__) - {"attachments"}


def test_summaries_of_other_runs_of_messages_are_refused(tract):
    for text in ("one", LONG, "two"):
        tract.user(text)
    tract.annotate(tract.log(3)[1].commit_hash, "pinned")
    asked = tract.propose_compress(content=["the first summary", "the second summary"])
    runs = asked.source_commits
    for source_commits, error in ((runs[:1], PendingError), (runs[::-1], CompressionError)):
        with pytest.raises(error, match="(?i)(ask for|propose) it again"):
            tract.operations.restored(
                "compress", {**asked.fields, "source_commits": source_commits}
            ).approve()
    assert texts(tract) == ["one", LONG, "two"]
