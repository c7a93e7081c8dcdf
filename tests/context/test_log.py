"""Finding commits: by tags, text, priority; their annotations and versions."""

from __future__ import annotations

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import CommitNotFoundError, ContentError, EditTargetError


@pytest.fixture
def talk(tract):
    for number, temperature in enumerate([0.0, 0.5, 1.0]):
        config = {"model": f"m{number}", "temperature": temperature}
        tract.assistant(f"Answer {number}", generation_config=config, tags=["answer", f"n{number}"])
    tract.user("A question?")
    return tract


def texts(infos):
    return [info.message for info in infos]


def test_by_tags(talk):
    assert texts(talk.history.query_by_tags(["n0", "n2"])) == ["Answer 2", "Answer 0"]
    assert texts(talk.history.query_by_tags(["n0", "answer"], match="all")) == ["Answer 0"]
    assert texts(talk.history.query_by_tags("answer", limit=1)) == ["Answer 2"]
    assert texts(talk.log(tags=["n1"])) == ["Answer 1"]
    talk.tags.add("HEAD", "n1")
    assert texts(talk.history.query_by_tags("n1")) == ["A question?", "Answer 1"]
    assert talk.tags.remove("HEAD", "n1")
    assert texts(talk.history.query_by_tags("n1")) == ["Answer 1"]


def test_by_text_priority_and_kind(talk):
    assert texts(talk.history.query_by_text("ANSWER 1")) == ["Answer 1"]
    question = talk.log(1)[0].commit_hash
    talk.annotate(question, "pinned", reason="why")
    talk.annotate(talk.history.query_by_text("answer 0")[0].commit_hash, "skip")
    assert texts(talk.history.pinned()) == ["A question?"]
    assert texts(talk.history.skipped()) == ["Answer 0"]
    assert [info.operation for info in talk.log(op_filter="annotate")] == ["annotate", "annotate"]
    assert [info.priority for info in talk.history.annotations(question)] == ["pinned"]


def test_versions_and_restoring_one(talk):
    question = talk.log(1)[0].commit_hash
    talk.user("Second", edit=question)
    talk.user("Third", edit=question)
    assert texts(talk.history.versions(question)) == ["A question?", "Second", "Third"]
    talk.restore(question, 1)
    assert talk.compile().messages[-1].content == "Second"
    talk.restore(question)
    assert talk.compile().messages[-1].content == "A question?"
    with pytest.raises(EditTargetError, match="5 versions"):
        talk.restore(question, 5)


def test_several_contents_at_once(talk):
    infos = talk.log(None)
    assert [talk.history.contents(infos)[info.commit_hash]["text"] for info in infos] == texts(infos)


def test_compile_records_give_the_sent_commits_only_on_request(talk):
    context = talk.compile(include_reasoning=True)
    record_id = talk.compile_records.add(context, include_reasoning=True)
    talk.user("later")
    (record,) = talk.compile_records.newest()
    assert (record.record_id, record.head, record.message_count) == (record_id, context.head, 4)
    assert talk.compile_records.commits(record_id) == context.commit_hashes
    with pytest.raises(CommitNotFoundError, match="no compile record"):
        talk.compile_records.commits("nothing")


def test_a_commit_is_shown_as_text(tract):
    info = tract.user("Hello\nthere", tags=["greeting"], message="says hello")
    tract.tags.add(info.commit_hash, "seen")
    shown = tract.show(info.commit_hash[:8])
    assert shown.startswith(f"commit {info.commit_hash}\n")
    assert shown.endswith("\n\n    says hello\n\nHello\nthere")
    for line in ("append of dialogue", "Priority: normal", "greeting, seen"):
        assert line in shown
    edit = tract.user("Hi", edit=info.commit_hash)
    assert f"Changes:  {info.commit_hash[:12]}" in tract.show(edit.commit_hash)
    note = tract.annotate(info.commit_hash, "pinned", reason="keep")
    assert tract.show(note.commit_hash).endswith("    keep\n\n")
    with pytest.raises(CommitNotFoundError):
        tract.show("nosuch")


@pytest.mark.parametrize(
    ("style", "line"),
    [("table", "system"), ("compact", "user: a question"), ("chat", "── assistant (")],
)
def test_a_context_is_printed(tract, capsys, style, line):
    tract.system("be brief")
    tract.user("a question")
    tract.assistant("", tool_calls=[{"id": "1", "name": "look", "arguments": {"at": 1}}])
    tract.compile().pprint(style)
    printed = capsys.readouterr().out
    assert line in printed
    assert "look" in printed
    assert repr(tract.compile()) in printed


def test_an_unknown_style_is_refused(tract):
    with pytest.raises(ContentError, match="use table, chat, compact"):
        tract.compile().pprint("fancy")


# --- records of sent contexts, also from a past time


@pytest.fixture
def turns(tract):
    return {
        "system": tract.system("be brief").commit_hash,
        "ask": tract.user("what is it?", generation_config={"model": "m"}).commit_hash,
        "call": tract.assistant("", tool_calls=[{"id": "1", "name": "look", "arguments": {}}]).commit_hash,
        "answer": tract.tool_result("1", "look", "a cat").commit_hash,
    }


def test_a_context_compiled_at_a_past_time_is_recorded_correctly(tract, turns):
    before = tract.compile(at_time=tract.get_commit(turns["call"]).created_at)
    records = [tract.compile_records.add(context) for context in (before, tract.compile())]
    tract.user("later")
    assert [tract.compile_records.commits(record) for record in records] == [
        tuple(turns[name] for name in ("system", "ask", "call")),
        tuple(turns.values()),
    ]
    assert [sorted(record.params) for record in tract.compile_records.newest()] == [[], []]


# --- the log


def test_filters_of_the_log_hold_together(tract):
    one = tract.user("one", tags=["draft"])
    tract.branch("topic")
    edit = tract.user("two", edit=one.commit_hash, tags=["draft"])
    other = tract.user("three", tags=["final"])
    tract.switch("main")
    tract.tags.add(one.commit_hash, "seen")

    def found(**options):
        return [info.commit_hash for info in tract.log(**options)]

    assert found(tags="draft") == found(tags=["draft"]) == [one.commit_hash]
    assert found(tags=["draft", "seen"], tag_match="all") == [one.commit_hash]
    assert found(tags="draft", all_branches=True) == [edit.commit_hash, one.commit_hash]
    assert found(tags="draft", all_branches=True, op_filter="append") == [one.commit_hash]
    assert found(op_filter="edit") == []
    assert found(op_filter="append", all_branches=True, limit=1) == [other.commit_hash]
    assert found(limit=0) == []


# --- token counting


def test_the_status_says_of_older_numbers_that_they_were_estimated(tmp_path):
    from tests.context.model import COUNTER

    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("estimated")
    with Tract.open(tmp_path / "s.db", tokenizer=COUNTER) as tract:
        assert tract.status().tokens.startswith("≈")
        tract.user("counted")
        assert tract.status().token_source == tract.compile().token_source == "approximate"
        tract.annotate(tract.log(None)[-1].commit_hash, "skip")
        assert tract.status().token_source == tract.compile().token_source == COUNTER.name


def test_compile_at_a_past_time_ignores_later_rewrites(tract):
    for text in "abc":
        tract.user(text)
    then = tract.log()[0].created_at
    tract.compress(content="S")
    tract.user("d")
    tract.undo()
    tract.undo()
    tract.compress(content="T")

    def said(**options):
        return [message.content for message in tract.compile(**options).messages]

    assert said() == ["T"]
    assert said(at_time=then) == ["a", "b", "c"]
    assert said(at_time=tract.get_commit(tract.head).created_at) == ["T"]
