"""Pendings of built-in operations made again by another process, from what is stored of them."""

from __future__ import annotations

import pytest

from tests.hooks.fakes import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.hooks.dynamic.check import BUILTIN_OPERATIONS

LONG = "many words of which most can go " * 20


def texts(tract):
    return [message.content for message in tract.compile().messages]


def branches(tract, text):
    """`main` and `side` with a message each after a common one."""
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
    return tract.propose_policy("tidy", "annotate", {"target_hash": "HEAD", "priority": "skip"})


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
    assert tract.restored("citation_check", {}) is None


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_another_process_shows_and_carries_out_the_same(tmp_path, make):
    with Tract.open(tmp_path / "store.db") as first:
        asked = make(first)
        first.reviewer.keep(asked)
        shown = asked.review_request()
    with Tract.open(tmp_path / "store.db") as second:
        pending = second.operations.rebuild(second.inbox()[0])
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
        assert second.inbox() == []


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_or_turns_it_down(tmp_path, make):
    with Tract.open(tmp_path / "store.db") as first:
        first.reviewer.keep(make(first))
        before = texts(first)
    with Tract.open(tmp_path / "store.db") as second:
        second.operations.rebuild(second.inbox()[0]).reject()
        assert texts(second) == (["", "withheld: no reason was given"] if make is tool_result else before)
        assert second.inbox() == []
