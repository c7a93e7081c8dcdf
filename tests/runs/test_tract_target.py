from __future__ import annotations

import sqlite3

import pytest

from tests.runs.targets import target_of
from tract_jupyter import Tract
from tract_jupyter.runs import (
    CommitItem,
    Hook,
    Prompt,
    RunPhase,
    SqlCommitLog,
    Turn,
    commit,
    session_key,
)


def user(text):
    return {"type": "turn.user.replace_text", "text": text}


def reply(text):
    return {"type": "turn.assistant.replace_text", "text": text}


def item(name, *effects, **fields):
    return CommitItem(name, fields.pop("order", 10), effects=effects, **fields)


def turn_of(tract, part=None, **fields):
    prompt = Prompt.of_context(tract.compile())
    return Turn(prompt, prompt.user.content if prompt.user else "", part and part.commit_hash, **fields)


def rewritten(tract, part, *effects, hook=Hook.BEFORE, target=None, **fields):
    return commit(
        hook,
        [item("op", *effects)],
        turn_of(tract, part, **fields),
        target or target_of(tract, "run-1"),
    )


def texts(tract, **options):
    return [one.content for one in tract.compile(**options).messages]


def error_of(report, place=0):
    return report.entries[place].error


def test_a_rewrite_is_an_edit_that_keeps_the_metadata_of_the_message(tract):
    """R5, R49: type, name, priority, metadata and settings; it records the run, the operation and
    the original."""
    tract.system("S")
    said = tract.user(
        "hello", name="Ada", priority="important", metadata={"k": 1}, generation_config={"model": "m"}
    )
    turn, report = rewritten(tract, said, user("Hello."))
    edit = tract.get_commit(turn.user_part)
    assert texts(tract) == ["S", "Hello."]
    assert (edit.operation, edit.edit_target, edit.content_type) == ("edit", said.commit_hash, "dialogue")
    assert edit.tags == ("canonicalization",)
    assert edit.metadata == {
        "k": 1, "source": "agent", "replaces": said.commit_hash, "run_id": "run-1", "operation_id": "op",
    }  # fmt: skip
    assert edit.generation_config == {"model": "m"}
    message = tract.compile().messages[-1]
    assert (message.name, message.priority, message.role) == ("Ada", "important", "user")
    assert (report.rewrites[0].replaced, report.rewrites[0].part) == (said.commit_hash, edit.commit_hash)
    assert tract.get_content(said.commit_hash)["text"] == "hello"


def test_a_rewrite_keeps_the_tags_of_the_message(tract):
    """R5, R49: searches by tag still find the message; the tag of a rewrite is added once."""
    said = tract.user("U", tags=["pinned"])
    turn, _ = rewritten(tract, said, user("A"), user("B"))
    assert tract.get_commit(turn.user_part).tags == ("canonicalization", "pinned")


def test_the_second_rewrite_replaces_the_first_one(tract):
    """G30, R47: within one commit and over both hooks; the newest wins."""
    said = tract.user("U")
    target = target_of(tract)
    turn, report = rewritten(tract, said, user("A"), user("B"), target=target)
    turn, later = commit(Hook.AFTER, [item("op", user("C"))], turn, target)
    replaced = [
        tract.get_commit(one.part).metadata["replaces"] for one in (*report.rewrites, *later.rewrites)
    ]
    assert replaced == [said.commit_hash, report.rewrites[0].part, report.rewrites[1].part]
    assert texts(tract) == ["C"]
    assert [
        tract.get_content(info.commit_hash)["text"] for info in tract.history.versions(said.commit_hash)
    ] == [
        "U",
        "A",
        "B",
        "C",
    ]


def test_a_reply_is_rewritten_afterwards(tract):
    """R48, R21: like the user message; its tool calls are kept."""
    tract.user("U")
    said = tract.assistant("raw", metadata={"usage": 3})
    turn = turn_of(tract, reply="raw", reply_part=said.commit_hash)
    turn, report = commit(Hook.AFTER, [item("op", reply("better"))], turn, target_of(tract))
    assert texts(tract) == ["U", "better"]
    assert tract.get_commit(turn.reply_part).metadata["usage"] == 3
    assert report.status == "done"


@pytest.mark.parametrize("effects", [[user("x")], [user("x"), user("y")]])
def test_without_a_target_nothing_is_rewritten(tract, effects):
    """R48: the turn has no user commit."""
    tract.user("U")
    head = tract.head
    _, report = rewritten(tract, None, *effects)
    assert {error_of(report, place).code for place in range(len(effects))} == {"storage_error"}
    assert "target is required" in error_of(report).message
    assert tract.head == head


def test_a_commit_that_is_not_there_is_an_error(tract):
    """R48: and the other effects of the commit are applied."""
    said = tract.user("U")
    turn = Turn.of(Prompt.of_context(tract.compile()), user_part="f" * 64)
    system = {"type": "prompt.system_update", "mode": "append", "payload": "+"}
    turn, report = commit(Hook.BEFORE, [item("op", user("x"), system)], turn, target_of(tract))
    assert "not found" in error_of(report).message
    assert [one.content for one in turn.prompt.messages] == ["+", "U"]
    assert tract.head == said.commit_hash


def older(tract):
    said = tract.user("old")
    tract.assistant("A")
    tract.user("new")
    return said


def edited_older(tract):
    said = older(tract)
    return tract.user("old, edited", edit=said.commit_hash)


def instruction(tract):
    tract.user("U")
    return tract.system("S")


def annotation(tract):
    return tract.annotate(tract.user("U").commit_hash, "pinned")


def somebody_elses(tract):
    tract.user("U")
    return tract.assistant("A")


def other_branch(tract):
    tract.user("base")
    tract.branch("topic")
    said = tract.user("on topic")
    tract.switch("main")
    return said


@pytest.mark.parametrize(
    "prepare", [older, edited_older, instruction, annotation, somebody_elses, other_branch]
)
def test_nothing_but_the_users_message_of_this_turn_is_rewritten(tract, prepare):
    """R5, R47: never older history, messages of other roles, or another branch."""
    said = prepare(tract)
    head, before = tract.head, texts(tract)
    _, report = rewritten(tract, said, user("x"))
    assert error_of(report).code == "storage_error"
    assert "mismatch" in error_of(report).message
    assert (tract.head, texts(tract)) == (head, before)


def test_an_older_reply_is_not_rewritten(tract):
    """R5: only the reply of this turn can be rewritten."""
    tract.user("U")
    said = tract.assistant("A")
    tract.user("next")
    turn = turn_of(tract, reply="A", reply_part=said.commit_hash)
    report = commit(Hook.AFTER, [item("op", reply("x"))], turn, target_of(tract)).report
    assert "mismatch" in error_of(report).message


def test_another_reply_to_the_same_message_is_of_this_turn(tract):
    """R9: after a regeneration, the user message is still the current one."""
    said = tract.user("U")
    tract.assistant("first")
    tract.assistant("second")
    rewritten(tract, said, user("better"))
    assert texts(tract) == ["better", "first", "second"]


def test_a_budget_that_refuses_a_text_leaves_the_others(tract):
    """G21: its effect is an error."""
    from tract_jupyter.models import BudgetAction, TokenBudget

    said = tract.user("U")
    tract.budget = TokenBudget(max_tokens=50, action=BudgetAction.REJECT)
    _, report = rewritten(tract, said, user("a"), user("word " * 500), user("b"))
    assert [one.status for one in report.entries] == ["applied", "error", "applied"]
    assert texts(tract) == ["b"]


# --- one transaction, once


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def test_a_store_that_fails_keeps_nothing_of_the_commit(path):
    """E1, E8: the edits, the artifacts and the report are one transaction."""
    persisted = {"type": "artifact.upsert", "tag": "t", "value": 1, "persistence": "persisted"}
    with Tract.open(path) as tract:
        said = tract.user("U")
        with sqlite3.connect(path) as other:
            other.execute(
                "create trigger full before insert on commits begin select raise(abort, 'full'); end"
            )
        other.close()
        target = target_of(tract, session=session_key("t", "main", "p", "s"))
        turn, report = rewritten(tract, said, user("A"), persisted, target=target)
        assert [error_of(report, place).code for place in range(2)] == ["storage_error"] * 2
        assert turn == turn_of(tract, said)
        assert (texts(tract), target.artifacts(), target.committed(Hook.BEFORE)) == (["U"], {}, None)
        with sqlite3.connect(path) as other:
            other.execute("drop trigger full")
        other.close()
        assert rewritten(tract, said, user("A"), persisted, target=target).report.status == "done"
        assert texts(tract) == ["A"]


def test_an_interrupt_leaves_no_half_of_a_turn(path, monkeypatch):
    """E1: also for the next process that opens the store."""

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SqlCommitLog, "add", stopped)
    with Tract.open(path, tract_id="t") as tract:
        said = tract.user("U")
        with pytest.raises(KeyboardInterrupt):
            rewritten(tract, said, user("A"), target=target_of(tract))
        assert texts(tract) == ["U"]
        tract.assistant("goes on")
    with Tract.open(path, tract_id="t") as tract:
        assert texts(tract) == ["U", "goes on"]


def test_a_resumed_run_commits_nothing_twice(tract):
    """R58: another target reads the same reports, as after a crash."""
    said = tract.user("U")
    first = rewritten(tract, said, user("A"), target=target_of(tract))
    head = tract.head
    turn = Turn(first.turn.prompt.of([{"role": "user", "content": "U"}]), "U", said.commit_hash)
    again = commit(Hook.BEFORE, [item("op", user("A"))], turn, target_of(tract))
    assert again.report == first.report
    assert (again.turn.user_text, again.turn.user_part) == ("A", first.turn.user_part)
    assert tract.head == head
    other = rewritten(tract, said, user("B"), target=target_of(tract, "another run"))
    assert other.report.status == "done"
    assert texts(tract) == ["B"]


def test_a_hundred_rewrites_are_one_move_of_the_branch(tract):
    """E1: all or nothing, so it is one entry in the reflog. `verify` only misses the events of the run."""
    said = tract.user("U")
    rewritten(tract, said, *(user(f"text {n}") for n in range(100)))
    assert texts(tract) == ["text 99"]
    assert [one.problem for one in tract.verify()] == ["it has a commit at before_main_llm, but no events"]


def test_a_rewrite_of_a_replaced_reply_edits_the_original_and_keeps_its_tool_calls(tract):
    """R9, R48: edits name the original commit."""
    call = {"id": "c1", "name": "look", "arguments": {}}
    tract.user("U")
    first = tract.assistant("first")
    second = tract.assistant("second", edit=first.commit_hash, tool_calls=[call])
    turn = turn_of(tract, reply="second", reply_part=second.commit_hash)
    turn, _ = commit(Hook.AFTER, [item("op", reply("better"))], turn, target_of(tract))
    edit = tract.get_commit(turn.reply_part)
    assert (edit.edit_target, edit.metadata["replaces"]) == (first.commit_hash, second.commit_hash)
    message = tract.compile().messages[-1]
    assert (message.content, [one.name for one in message.tool_calls]) == ("better", ["look"])


def test_persisted_artifacts_are_read_by_the_next_run(tract):
    """R50, E11: with the key of their session; another session reads none."""
    write = {"type": "artifact.upsert", "tag": "t", "value": {"n": 1}, "persistence": "persisted"}
    tract.user("U")
    for run in ("one", "two"):
        target = target_of(tract, run, "s")
        with tract._repository.database.write() as connection:
            tract._parts.engine.reports.add(
                connection, run, RunPhase.MAIN_LLM, {}
            )  # they are stored with the reply
        commit(Hook.AFTER, [item("op", write)], turn_of(tract), target)
    assert target.artifacts()["t"].history == ({"n": 1}, {"n": 1})
    for run, session in (("three", "other"), ("four", None)):
        with tract._repository.database.write() as connection:
            tract._parts.engine.reports.add(connection, run, RunPhase.MAIN_LLM, {})
        assert target_of(tract, run, session).artifacts() == {}
