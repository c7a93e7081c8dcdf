"""A tract: reopening, several tracts in one store, its status and attributes."""

from __future__ import annotations

from inspect import signature

import pytest

from tests.reference import PARTS
from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import CommitNotFoundError, SpecError
from tract_jupyter.models import DialogueContent
from tract_jupyter.parts import Parts


def state(tract):
    return tract.tract_id, tract.current_branch, tract.log(None), tract.compile(), tract.list_branches()


def test_opening_again_gives_the_same_history_without_naming_the_tract(tmp_path):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.system("be brief")
        info = tract.user("hi", tags=["t"], metadata={"k": 1})
        tract.user("hello", operation="edit", edit_target=info.commit_hash)
        tract.branch("topic")
        tract.assistant("bye", priority="important")
        before = state(tract)
    for _ in range(2):
        with Tract.open(tmp_path / "s.db") as tract:
            assert state(tract) == before


def test_a_store_holds_several_tracts(tmp_path):
    path = tmp_path / "s.db"
    with Tract.open(path) as first, Tract.open(path, tract_id="other") as other:
        info = first.user("mine")
        first.branch("topic")
        assert other.head is None
        assert [branch.name for branch in other.list_branches()] == ["main"]
        same = other.user("mine")
        assert same.commit_hash != info.commit_hash
        assert same.content_hash == info.content_hash
        for name in (info.commit_hash, info.commit_hash[:8], "topic"):
            with pytest.raises(CommitNotFoundError):
                other.get_commit(name)
            with pytest.raises(CommitNotFoundError):
                other.branch("stolen", source=name)
        identity = first.tract_id
    with Tract.open(path) as first, Tract.open(path, tract_id="other") as other:
        assert (first.tract_id, first.log()) == (identity, [info])
        assert (other.tract_id, other.log()) == ("other", [same])


def test_open_without_an_id_opens_the_first_tract_of_the_store(tmp_path):
    path = tmp_path / "s.db"
    for tract_id in ("first", "second"):
        Tract.open(path, tract_id=tract_id).close()
    with Tract.open(path) as tract:
        assert tract.tract_id == "first"


def test_tracts_in_memory_have_nothing_in_common():
    with Tract.open() as one, Tract.open() as two:
        one.user("x")
        assert two.head is None
        assert one.tract_id != two.tract_id


def test_shorthands_commit_messages_of_their_role(tract):
    tract.system("s")
    tract.user("u", name="ann")
    tract.assistant("a", tags=["t"])
    tract.commit(DialogueContent(role="tool", text="t"))
    assert tract.compile().to_dicts() == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u", "name": "ann"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "From a tool:\nt"},  # providers refuse a result without a call
    ]


def test_an_empty_tract(tract):
    context = tract.compile()
    assert (context.messages, context.token_count, context.head, len(context)) == ((), 0, None, 0)
    assert context.to_dicts() == []
    status = tract.status()
    assert (status.head, status.commit_count, status.message_count, status.tokens) == (None, 0, 0, "≈0")


def test_status_shows_branch_head_and_tokens():
    with Tract.open(tokenizer=ApproximateCounter()) as tract:
        tract.system("one two")
        skipped = tract.user("three", priority="skip")
        tract.branch("topic")
        status = tract.status()
        assert (status.tract_id, status.location, status.branch) == (tract.tract_id, ":memory:", "topic")
        assert (status.head, status.commit_count, status.message_count) == (skipped.commit_hash, 2, 1)
        assert (status.token_count, status.token_source, status.tokens) == (9, "approximate", "≈9")
        assert (status.operations, status.waiting, status.quarantined) == ((), 0, ())


def test_token_counts_of_messages_add_up():
    with Tract.open(tokenizer=ApproximateCounter()) as tract:
        infos = [tract.user("word " * n) for n in range(3)]
        messages = tract.compile().messages
        assert [message.token_count for message in messages] == [info.token_count + 4 for info in infos]
        assert tract.compile().token_count == sum(message.token_count for message in messages) + 3
        assert (
            repr(tract.compile()) == f"<CompiledContext: 3 messages, ≈{tract.compile().token_count} tokens>"
        )


def test_reading_writes_nothing(tmp_path):
    path = tmp_path / "s.db"
    with Tract.open(path) as tract:
        tract.user("x")
    before = path.read_bytes()
    with Tract.open(path) as tract:
        for read in (
            tract.status,
            tract.log,
            tract.compile,
            tract.list_branches,
            tract.events,
            tract.review.inbox,
        ):
            read()
        tract.get_commit("main"), tract.get_content("main"), repr(tract)
    assert path.read_bytes() == before


def test_opening_runs_nothing_that_the_store_holds(tmp_path, spec, monkeypatch):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.register_operation(spec("raise SystemExit"))
    with Tract.open(tmp_path / "s.db") as tract:
        assert tract.status().operations == ("citation_check",)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "another-user"))
    with Tract.open(tmp_path / "s.db") as tract:
        assert tract.status().operations == ()
        assert tract.status().quarantined == ("citation_check",)


def test_a_failed_registration_leaves_nothing(tract, spec):
    with pytest.raises(SpecError):
        tract.register_operation(spec("def ("))
    assert tract.status().operations == ()
    assert tract.events() == []


def test_a_tract_shows_itself(tract):
    assert repr(tract) == f"<Tract {tract.tract_id[:8]} in {tract.location}>"


def test_reading_every_attribute_of_a_tract_raises_no_error():
    with Tract.open() as tract:
        assert {name for name in dir(tract) if not name.startswith("_")} >= {
            "llm",
            "models",
            "runs",
            "operations",
        }
        for name in dir(tract):
            assert hasattr(tract, name)
            getattr(tract, name)
        assert tract.llm is None


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_made_once(monkeypatch, name):
    declared, made = vars(Parts)[name], []
    make = declared.make
    monkeypatch.setattr(declared, "make", lambda parts: made.append(name) or make(parts))
    with Tract.open() as tract:
        assert getattr(tract, name) is getattr(tract, name)
    assert made == [name]


def test_propose_methods_have_the_signature_of_their_method():
    for name in ("compress", "merge", "rebase"):
        propose = signature(getattr(Tract, f"propose_{name}"))
        assert propose.parameters == signature(getattr(Tract, name)).parameters


def test_a_proposal_refuses_an_argument_that_its_method_does_not_have(tract):
    with pytest.raises(TypeError, match="unexpected keyword argument 'stratgy'"):
        tract.propose_merge("topic", stratgy="strict")
    with pytest.raises(TypeError, match="missing a required argument: 'source_branch'"):
        tract.propose_merge()


def test_propose_methods_refuse_arguments_that_they_do_not_have(tract):
    for propose, missing in (
        (tract.propose_gc, "dry_run"),
        (tract.propose_generate, "profile"),
        (tract.propose_generate, "run"),
    ):
        assert missing not in signature(propose).parameters
        with pytest.raises(TypeError, match=rf"{propose.__name__}\(\) has no argument '{missing}'"):
            propose(**{missing: None})
    assert {"keep", "triggered_by"} <= set(signature(tract.propose_gc).parameters)
    assert {"validator", "options"} <= set(signature(tract.propose_generate).parameters)
