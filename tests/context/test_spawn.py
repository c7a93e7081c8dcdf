"""Children and agents: their inheritance. The parent never changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tract_jupyter import Session
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import (
    BranchExistsError,
    CompressionError,
    SessionError,
    StoreClosedError,
    StoreError,
    UnknownTractError,
)
from tract_jupyter.models import Inheritance

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture
def session():
    with Session.open(tokenizer=ApproximateCounter()) as opened:
        yield opened


@pytest.fixture
def parent(session):
    """A system prompt, an edited question, an annotated answer, a skipped aside; tags of both kinds."""
    tract = session.create_tract(tract_id="parent")
    tract.system("be brief")
    first = tract.user("first", tags=["facts"])
    tract.assistant("answer", metadata={"x": 1})
    tract.user("FIRST", edit=first.commit_hash)
    tract.annotate(tract.head and tract.log()[1].commit_hash, "important", retain_match=["answer"])
    aside = tract.user("aside")
    tract.annotate(aside.commit_hash, "skip")
    tract.tags.add(tract.user("last").commit_hash, "later")
    return tract


def shown(tract):
    return [
        (
            m.role,
            m.content,
            m.name,
            m.priority,
            m.token_count,
            m.tool_calls,
            m.tool_call_id,
            m.generation_config,
        )
        for m in tract.compile().messages
    ]


def texts(tract):
    return [message.content for message in tract.compile().messages]


def state(tract):
    """Return all visible state of a tract."""
    return tract.compile(), tract.head, tract.log(None), tract.current_branch, tract.status().token_count


def records(session):
    """Return all commits and events of the store."""
    tracts = [session.get_tract(info.tract_id) for info in session.list_tracts()]
    return [(tract.log(None), tract.events()) for tract in tracts]


def named(tract, text):
    return next(m.commit_hash for m in tract.compile().messages if m.content == text)


# inheritance of a child


def test_a_clone_says_the_same(session, parent):
    before = state(parent)
    child = session.spawn(parent, purpose="try", inheritance="full_clone")
    assert shown(child) == shown(parent)
    assert child.status().token_count == parent.status().token_count
    assert [info.message for info in child.log(None)] == [info.message for info in parent.log(None)]
    assert {info.commit_hash for info in child.log(None)}.isdisjoint(i.commit_hash for i in before[2])
    assert child.verify() == [] == parent.verify()
    assert state(parent) == before


def test_a_clone_keeps_both_kinds_of_tags_versions_and_retention(session, parent):
    parent.tags.register("later", "for later")
    child = session.spawn(parent, purpose="try", inheritance="full_clone")
    assert [info.message for info in child.history.query_by_tags("later")] == ["last"]
    assert [info.message for info in child.history.query_by_tags("facts")] == ["first"]
    assert next(tag for tag in child.tags.list() if tag.name == "later").description == "for later"
    assert [info.message for info in child.history.versions(named(child, "FIRST"))] == ["first", "FIRST"]
    assert [i.retention for i in child.log(None)] == [i.retention for i in parent.log(None)]


def test_merges_are_flattened_in_a_clone(session, parent):
    parent.branch("topic")
    parent.user("on the topic")
    parent.annotate(named(parent, "last"), "pinned")
    parent.switch("main")
    parent.user("on main")
    parent.merge("topic")
    child = session.spawn(parent, purpose="try", inheritance="full_clone")
    assert shown(child) == shown(parent)
    assert child.log(op_filter="merge") == []
    assert child.verify() == []


@pytest.mark.parametrize("inheritance", ["full_clone", "head_snapshot"])
def test_a_child_inherits_the_tools_in_effect(session, inheritance):
    parent = session.create_tract()
    parent.user("x", tools=[TOOL])
    parent.user("y")
    child = session.spawn(parent, purpose="try", inheritance=inheritance)
    assert child.compile().tools == parent.compile().tools == (TOOL,)


def test_a_snapshot_is_one_instruction(session, parent):
    parent.assistant("", tool_calls=[{"id": "c1", "name": "look", "arguments": {"at": 2}}])
    parent.tool_result("c1", "look", "broken", is_error=True)
    child = session.spawn(parent, purpose="try")
    [message] = child.compile().messages
    assert (message.role, message.content_type, message.priority) == ("system", "instruction", "pinned")
    assert message.content == (
        f"# Earlier conversation in parent, up to {parent.head[:8]}\n\n"
        "## 1. system\nbe brief\n\n## 2. user\nFIRST\n\n## 3. assistant\nanswer\n\n## 4. user\nlast\n\n"
        '## 5. assistant\ncalls look({"at":2}) as c1\n\n## 6. tool look (answer to c1) (failed)\nbroken'
    )
    source = child.get_commit(message.commit_hash).metadata["inherited_from"]
    assert source == {"tract_id": "parent", "head": parent.head, "left_out": 0}


def test_a_snapshot_leaves_out_the_oldest_first_and_says_so(session):
    words = ["rules", "first", "second", "third"]
    parent = session.create_tract()
    for word in words:
        (parent.system if word == "rules" else parent.user)(f"{word} " * 30)
    whole = session.spawn(parent, purpose="try").compile().messages[0].token_count
    seen = set()
    for limit in range(whole, 0, -7):
        try:
            child = session.spawn(parent, purpose="try", max_tokens=limit)
        except SessionError as error:
            assert "use at least" in str(error)
            break
        text = child.compile().messages[0].content
        assert ApproximateCounter().count_text(text) <= limit
        there = [word for word in words if word in text]
        if len(there) < 4:
            assert f"({4 - len(there)} of 4 messages are omitted, because the length is limited.)" in text
        seen.add(tuple(there))
    assert seen == {tuple(words), ("rules", "second", "third"), ("rules", "third"), ("rules",)}


def test_undo_in_a_child_removes_its_inheritance_and_leaves_the_parent_unchanged(session, parent):
    before = state(parent)
    child = session.spawn(parent, purpose="try", inheritance="full_clone")
    after = shown(child)
    assert child.undo().operation == "spawn"
    assert (child.head, texts(child)) == (None, [])
    child.redo()
    assert shown(child) == after
    assert state(parent) == before


def test_parents_and_children_know_each_other(session, parent):
    clone = session.spawn(parent, purpose="look\nclosely", inheritance="full_clone")
    grandchild = session.spawn(clone, purpose="help", display_name="Helper")
    assert parent.family.parent() is None
    assert [child.child_tract_id for child in parent.family.children()] == [clone.tract_id]
    assert clone.family.parent() == parent.family.children()[0]
    assert (clone.family.parent().purpose, clone.family.parent().display_name) == (
        "look\nclosely",
        "look closely",
    )
    assert clone.family.parent().parent_commit_hash == parent.head
    assert clone.family.parent().inheritance is Inheritance.FULL_CLONE
    assert grandchild.family.parent().display_name == "Helper"
    assert clone.family.children() == [grandchild.family.parent()]
    assert grandchild.family.ancestors() == [clone.tract_id, parent.tract_id]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"inheritance": "all"}, "is not a kind of inheritance"),
        ({"inheritance": "nothing"}, "use head_snapshot or full_clone"),
        ({"inheritance": "selective"}, "use head_snapshot or full_clone"),
        ({"inheritance": "full_clone", "max_tokens": 9}, "requires inheritance='head_snapshot'"),
        ({"max_tokens": 0}, "positive number"),
        ({"max_tokens": True}, "positive number"),
        ({"max_tokens": 1}, "use at least"),
        ({"display_name": ""}, "Invalid name"),
        ({"display_name": "x" * 256}, "Invalid name"),
        ({"purpose": " "}, "Invalid purpose"),
        ({"purpose": None}, "Invalid purpose"),
    ],
)
def test_a_spawn_that_is_refused_makes_nothing(session, parent, options, error):
    before = (session.list_tracts(), records(session))
    with pytest.raises(SessionError, match=error):
        session.spawn(parent, **{"purpose": "try", **options})
    assert (session.list_tracts(), records(session), parent.family.children()) == (*before, [])


def test_an_empty_parent_has_nothing_to_give(session):
    empty = session.create_tract()
    for inheritance in ("head_snapshot", "full_clone"):
        with pytest.raises(SessionError, match="no commits yet: nothing to inherit"):
            session.spawn(empty, purpose="try", inheritance=inheritance)
    empty.user("x", priority="skip")
    with pytest.raises(SessionError, match="context of .* is empty"):
        session.spawn(empty, purpose="try")
    assert len(session.list_tracts()) == 1


def test_a_failure_in_the_middle_of_a_spawn_leaves_nothing(session, parent, monkeypatch):
    from tract_jupyter.storage import SpawnRows

    def broken(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(SpawnRows, "add", broken)
    before = (session.list_tracts(), records(session), state(parent), parent.list_branches())
    with pytest.raises(RuntimeError, match="in the middle"):
        session.spawn(parent, purpose="try")
    assert (session.list_tracts(), records(session), state(parent), parent.list_branches()) == before


# rolled back batches

MAKE = {
    "create": lambda session, parent: session.create_tract(tract_id="new"),
    "spawn": lambda session, parent: session.spawn(parent, purpose="try"),
    "got again": lambda session, parent: got_again(session, session.spawn(parent, purpose="try")),
}


def got_again(session, child):
    session.release_tract(child.tract_id)
    return session.get_tract(child.tract_id)


@pytest.mark.parametrize("place", ["memory", "file"])
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_tracts_created_in_a_rolled_back_batch_are_closed(tmp_path, place, make):
    with Session.open(
        ":memory:" if place == "memory" else tmp_path / "s.db", tokenizer=ApproximateCounter()
    ) as session:
        parent, other = session.create_tract(tract_id="parent"), session.create_tract(tract_id="other")
        parent.user("x")
        other.user("y")
        session.create_tract(tract_id="late")
        session.release_tract("late")
        before = (session.list_tracts(), records(session), state(parent), parent.list_branches())
        with pytest.raises(RuntimeError, match="rolled back"), parent.batch():  # noqa: PT012
            late = session.get_tract("late")  # it existed before but was not open
            child = make(session, parent)
            child.user("in vain")
            assert session.get_tract(child.family.agent_id) is child
            raise RuntimeError("rolled back")

        assert (session.list_tracts(), records(session), state(parent), parent.list_branches()) == before
        for use in (child.compile, child.status, child.log, lambda: child.user("z")):
            with pytest.raises(StoreClosedError, match="was closed"):
                use()
        for use in (
            lambda: session.spawn(child, purpose="x"),
            lambda: session.collapse(child, parent, content="x"),
        ):
            with pytest.raises(SessionError, match="not open in this session"):
                use()
        with pytest.raises(UnknownTractError):
            session.get_tract(child.family.agent_id)
        for tract in (parent, other, late):
            assert session.get_tract(tract.tract_id) is tract
            tract.user("goes on")
            assert texts(tract)[-1] == "goes on"
            assert tract.verify() == []
        again = make(session, parent)
        again.user("not in vain")
        assert (again is child, texts(again)[-1]) == (False, "not in vain")


def test_a_caught_error_in_a_batch_closes_the_tracts_of_that_batch(session, parent):
    with pytest.raises(StoreError, match="a part of this transaction"), parent.batch():  # noqa: PT012
        child = session.spawn(parent, purpose="try")
        with pytest.raises(BranchExistsError):
            parent.branch("main")
    with pytest.raises(StoreClosedError):
        child.compile()
    assert texts(parent) == ["be brief", "FIRST", "answer", "last"]


def test_a_rolled_back_batch_does_not_close_tracts_of_an_earlier_batch(session, parent):
    with parent.batch():
        child = session.spawn(parent, purpose="try")
        agent = parent.beside("agents", "topic", "work")
    with pytest.raises(RuntimeError), parent.batch():  # noqa: PT012
        child.user("in vain")
        assert session.get_tract(child.tract_id) is child
        raise RuntimeError
    for tract in (child, agent):
        assert "in vain" not in texts(tract)
        tract.user("goes on")
        assert texts(tract)[-1] == "goes on"


texts_of_any_kind = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["system", "user", "assistant", "reasoning"]), texts_of_any_kind),
        st.tuples(st.just("edit"), st.integers(0, 9), texts_of_any_kind),
        st.tuples(st.just("annotate"), st.integers(0, 9), st.sampled_from(["skip", "normal", "important", "pinned"])),
        st.tuples(st.just("merge"), st.integers(0, 9), texts_of_any_kind),
        st.tuples(st.just("undo"), st.just(0), st.just("")),
    ),
    max_size=14,
)  # fmt: skip


def play(tract, script):
    """Execute the steps of a script. Each step changes a message of the context."""
    for number, (kind, what, value) in enumerate(script):
        hashes = [info.commit_hash for info in tract.log(None, op_filter="append")]
        if kind == "append":
            getattr(tract, what)(value)
        elif kind == "merge":
            tract.branch(f"b{number}")
            tract.user(value)
            tract.switch("main")
            tract.user(value)
            tract.merge(f"b{number}")
        elif kind == "undo":
            if tract.head is not None and tract.preview_undo().new is not None:
                tract.undo()
        elif hashes and kind == "edit":
            target = tract.get_commit(hashes[what % len(hashes)])
            content = {**tract.get_content(target.commit_hash), "text": value}
            tract.commit(content, operation="edit", edit_target=target.commit_hash)
        elif hashes:
            tract.annotate(hashes[what % len(hashes)], value)


@settings(max_examples=15)
@given(steps, steps)
def test_laws_of_children(script, more):
    with Session.open(tokenizer=ApproximateCounter()) as session:
        parent = session.create_tract()
        parent.user("start", tags=["t"])
        play(parent, script)
        before = state(parent)

        clone = session.spawn(parent, purpose="x", inheritance="full_clone")
        assert shown(clone) == shown(parent)

        play(clone, [step for step in more if step[0] != "merge"])
        assert clone.verify() == []
        assert clone.status().token_count == clone.compile().token_count
        assert state(parent) == before


def test_the_originals_of_an_inherited_summary_are_in_the_parents_tract(session):
    parent = session.create_tract(tract_id="parent")
    parent.user("one")
    parent.user("two")
    summary = parent.compress(content="sum").summary_commits[0]
    child = session.spawn(parent, purpose="help", inheritance="full_clone")
    copy = child.compile().messages[0].commit_hash
    assert copy != summary
    with pytest.raises(CompressionError, match="are in another tract, 'parent'.*expand"):
        child.expand(copy)
    parent.expand(summary)
    assert texts(parent) == ["one", "two"]
