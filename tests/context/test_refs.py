from __future__ import annotations

import pytest

from tract_jupyter.exceptions import (
    AmbiguousPrefixError,
    BranchExistsError,
    BranchNotFoundError,
    CommitNotFoundError,
    InvalidBranchNameError,
)
from tract_jupyter.models import BranchInfo


def texts(tract, **options):
    return [message.content for message in tract.compile(**options).messages]


def test_a_new_tract_is_on_branch_main(tract):
    assert (tract.current_branch, tract.head) == ("main", None)
    assert tract.list_branches() == [BranchInfo("main", None, is_current=True)]


def test_branches_grow_apart(tract):
    base = tract.user("base")
    assert tract.branch("topic") == base.commit_hash
    assert tract.current_branch == "topic"
    topic = tract.user("topic")
    assert tract.switch("main") == base.commit_hash
    main = tract.user("main")
    assert texts(tract) == texts(tract, at_commit="main") == ["base", "main"]
    assert texts(tract, at_commit="topic") == ["base", "topic"]
    assert (
        texts(tract, at_commit=base.commit_hash[:6]) == texts(tract, at_commit=base.commit_hash) == ["base"]
    )
    assert tract.compile(at_commit="topic").head == topic.commit_hash
    assert tract.list_branches() == [
        BranchInfo("main", main.commit_hash, is_current=True),
        BranchInfo("topic", topic.commit_hash, is_current=False),
    ]


def test_a_branch_can_be_made_without_going_there(tract):
    tract.user("x")
    assert tract.branch("later", switch=False) == tract.head
    assert tract.current_branch == "main"


@pytest.mark.parametrize("how", ["hash", "prefix", "branch"])
def test_a_branch_can_start_anywhere(tract, how):
    first = tract.user("first")
    tract.branch("old", switch=False)
    tract.user("second")
    source = {"hash": first.commit_hash, "prefix": first.commit_hash[:7], "branch": "old"}[how]
    assert tract.branch("new", source=source) == tract.head == first.commit_hash
    assert texts(tract) == ["first"]


def test_a_branch_before_the_first_commit_has_a_root_of_its_own(tract):
    assert tract.branch("empty") is None
    assert tract.user("x").parent_hash is None
    assert tract.switch("main") is None
    assert tract.compile().messages == ()
    assert tract.user("y").generation == 0
    assert texts(tract, at_commit="empty") == ["x"]


def test_an_unknown_source_is_refused(tract):
    with pytest.raises(CommitNotFoundError):
        tract.branch("new", source="nowhere")
    assert [branch.name for branch in tract.list_branches()] == ["main"]
    assert tract.current_branch == "main"


def test_an_ambiguous_source_is_refused(tract, monkeypatch):
    hashes = iter(f"abcd{number}{tract.tract_id:0<59}" for number in (1, 2))
    monkeypatch.setattr("tract_jupyter.context.writer.commit_hash", lambda *_: next(hashes))
    tract.user("x"), tract.user("y")
    with pytest.raises(AmbiguousPrefixError):
        tract.branch("new", source="abcd")


def test_a_name_is_taken_once(tract):
    tract.branch("topic", switch=False)
    for name in ("topic", "main"):
        with pytest.raises(BranchExistsError, match="another name"):
            tract.branch(name)
    assert tract.current_branch == "main"


@pytest.mark.parametrize("name", ["topc", "", "a b", "\ud800", "HEAD", "refs/heads/main", "%"])
def test_switching_to_no_branch_is_refused_and_the_branches_named(tract, name):
    tract.branch("topic", switch=False)
    with pytest.raises(BranchNotFoundError, match="Branches are: main, topic"):
        tract.switch(name)
    assert tract.current_branch == "main"


def test_a_misspelt_branch_is_recognised(tract):
    tract.branch("topic", switch=False)
    with pytest.raises(BranchNotFoundError, match="Did you mean 'topic'"):
        tract.switch("topci")


REFUSED = [
    "", ".", "..", "a..b", ".a", "a/.b", "a.", "a/b.", "/a", "a/", "a//b", "a.lock", "a.lock/b", "-a", "@", "a@{b",
    "HEAD", "a b", "a\tb", "a\nb", "a\n", "\0", "a\x7f", "a~", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "\ud800", "x" * 201,
]  # fmt: skip
ACCEPTED = [
    "a",
    "a/b",
    "feature/x-1.2",
    "@a",
    "a@b",
    "a{b",
    "é/中",
    "a.LOCK",
    "a.locked",
    "lock",
    "head",
    "a-",
    "_",
    "x" * 200,
    "a'b",
    "a%b",
]


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_git_refuses_are_refused(tract, name):
    with pytest.raises(InvalidBranchNameError, match="invalid branch name"):
        tract.branch(name)
    assert [branch.name for branch in tract.list_branches()] == ["main"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_other_names_are_fine(tract, name):
    info = tract.user("x")
    tract.branch(name)
    assert tract.current_branch == name
    assert tract.get_commit(name) == info
    tract.switch("main")
    assert tract.switch(name) == info.commit_hash
    assert sorted(branch.name for branch in tract.list_branches()) == sorted(["main", name])
