"""Invalid arguments are refused with a clear error before any change."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, TractError
from tract_jupyter.models import TokenBudget


@pytest.fixture
def talk(tract):
    tract.user("a question", tags=["x"])
    return tract


def state(tract):
    return tract.status(), tract.log(None), tract.compile(), tract.tags.list()


def is_refused(tract, error, told, call):
    before = state(tract)
    with pytest.raises(error, match=told):
        call(tract)
    assert state(tract) == before


WRITES = {
    "metadata": lambda t: t.user("a", metadata=5),
    "metadata that is a list": lambda t: t.user("a", metadata=[1]),
    "metadata that is an empty list": lambda t: t.user("a", metadata=[]),
    "metadata of a result": lambda t: t.tool_result("c", "f", "4", metadata=5),
    "metadata of an answer with calls": lambda t: t.assistant(
        "a", metadata=5, tool_calls=[{"id": "c", "name": "f"}]
    ),
    "generation_config": lambda t: t.user("a", generation_config=5),
    "generation_config that is a list": lambda t: t.user("a", generation_config=[1]),
    "generation_config that is a text": lambda t: t.user("a", generation_config="abc"),
    "retain": lambda t: t.user("a", retain=5),
    "retain of an annotation": lambda t: t.annotate("HEAD", "important", retain=5),
    "retain_match": lambda t: t.user("a", retain_match=5),
    "retain_match of no texts": lambda t: t.user("a", retain_match=[5]),
    "retain_match_mode": lambda t: t.user("a", retain_match_mode=["regex"]),
    "tags": lambda t: t.user("a", tags=5),
    "tags of no texts": lambda t: t.user("a", tags=[5]),
    "tools": lambda t: t.user("a", tools=5),
    "tools that are one tool": lambda t: t.user("a", tools={"type": "function", "function": {"name": "f"}}),
    "tool_calls": lambda t: t.assistant("a", tool_calls=5),
    "tool_calls that are none": lambda t: t.assistant("a", tool_calls=[5]),
    "reason": lambda t: t.annotate("HEAD", "skip", reason=5),
    "message": lambda t: t.user("a", message=5),
    "content_type": lambda t: t.commit({"content_type": ["a"]}),
    "version that is a text": lambda t: t.restore("HEAD", "0"),
    "version that is a fraction": lambda t: t.restore("HEAD", 0.5),
    "version that is a truth": lambda t: t.restore("HEAD", True),
    "description": lambda t: t.tags.register("y", 5),
    "untag": lambda t: t.tags.remove("HEAD", 5),
}


@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
def test_writing_calls_refuse_invalid_values(talk, call):
    is_refused(talk, ContentError, None, call)


READS = {
    "text": lambda t: t.history.query_by_text(None),
    "tags": lambda t: t.history.query_by_tags(None),
    "tags of the log": lambda t: t.log(tags=5),
    "tag_match": lambda t: t.log(tags=["x"], tag_match="foo"),
    "match": lambda t: t.history.query_by_tags(["x"], match="foo"),
    "op_filter": lambda t: t.log(op_filter="foo"),
    "op_filter of several": lambda t: t.log(op_filter=["append"]),
    "event_type": lambda t: t.events(5),
    "infos of nothing": lambda t: t.history.contents([None]),
    "infos": lambda t: t.history.contents(5),
    "one info": lambda t: t.history.contents(t.log()[0]),
    "context": lambda t: t.compile_records.add(None),
    "record": lambda t: t.compile_records.commits([]),
    "format": lambda t: t.as_tools(format="foo"),
    "at_time": lambda t: t.compile(at_time="foo"),
}


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_reading_calls_refuse_invalid_values(talk, call):
    is_refused(talk, ContentError, None, call)


LIMITED = {
    "log": lambda t, limit: t.log(limit),
    "pinned": lambda t, limit: t.history.pinned(limit),
    "skipped": lambda t, limit: t.history.skipped(limit),
    "events": lambda t, limit: t.events(limit=limit),
    "inbox": lambda t, limit: t.review.inbox(limit),
    "compile_records": lambda t, limit: t.compile_records.newest(limit),
    "query_by_tags": lambda t, limit: t.history.query_by_tags(["x"], limit=limit),
    "query_by_text": lambda t, limit: t.history.query_by_text("a", limit=limit),
}


@pytest.mark.parametrize("limit", ["a", 0.5, True, [1]])
@pytest.mark.parametrize("call", LIMITED.values(), ids=LIMITED)
def test_a_limit_is_a_whole_number(talk, call, limit):
    is_refused(talk, ContentError, "limit must be a whole number", lambda t: call(t, limit))


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("call", LIMITED.values(), ids=LIMITED)
def test_a_limit_below_one_gives_nothing(talk, call, limit):
    talk.compile_records.add(talk.compile())
    talk.annotate("HEAD", "pinned")
    assert call(talk, limit) == []


@pytest.mark.parametrize(
    "say",
    [
        lambda t, **options: t.system("a", **options),
        lambda t, **options: t.user("a", **options),
        lambda t, **options: t.assistant("a", **options),
        lambda t, **options: t.reasoning("a", **options),
        lambda t, **options: t.tool_result("c", "f", "4", **options),
    ],
)
def test_the_error_for_an_unknown_option_lists_the_valid_ones(talk, say):
    told = (
        r"commit\(\) has no option 'mesage'. Did you mean 'message'\? Its options are .*message, priority, "
    )
    is_refused(talk, TypeError, told, lambda t: say(t, mesage="b"))


@pytest.mark.parametrize("budget", [5, "5", {"max_tokens": 5}, TokenBudget])
def test_a_budget_is_a_budget(talk, budget):
    with pytest.raises(ContentError, match="TokenBudget"):
        talk.budget = budget
    assert talk.budget is None
    talk.user("b")


def test_none_means_an_omitted_argument(talk):
    said = talk.user("b", tags=None, retain_match=None, metadata=None, generation_config=None, tools=None)
    assert talk.annotate(said.commit_hash, "skip", reason=None).message == ""
    assert len(talk.log(tags=None, op_filter=None)) == 3


def test_one_text_is_accepted_in_place_of_a_list(talk):
    assert talk.user("b", tags="y", retain_match="b").tags == ("y",)


def test_negative_versions_count_from_the_newest(talk):
    said = talk.log()[0].commit_hash
    talk.user("second", edit=said)
    talk.user("third", edit=said)
    talk.restore(said, -2)
    assert [message.content for message in talk.compile().messages] == ["second"]


def test_calls_reach_the_message_in_either_shape():
    with Tract.open() as tract:
        openai = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        tract.assistant("a", metadata={"k": 1}, tool_calls=[openai])
        assert tract.get_commit("HEAD").metadata == {
            "k": 1,
            "tool_calls": [{"id": "c1", "name": "f", "arguments": {}}],
        }


@pytest.mark.parametrize(
    ("told", "call"),
    [
        ("Unicode", lambda t: t.generate(profile="\ud800")),
        ("Unicode", lambda t: t.events("\ud800")),
        ("triggered_by must be a string, not 5", lambda t: t.propose_rebase("main", triggered_by=5)),
        ("triggered_by must be a string, not 5", lambda t: t.propose_gc(triggered_by=5)),
        ("triggered_by must be a string, not 5", lambda t: t.propose_compress(content="a", triggered_by=5)),
        ("overrides must be a dict", lambda t: t.toolset(overrides=5)),
        ("overrides must be a dict", lambda t: t.as_tools(overrides=" ")),
        ("use ScriptLimits", lambda t: t.scripts.run("1", limits="x")),
        ("whole number", lambda t: t.scripts.get_system_instructions(max_tokens=None)),
        ("the name of an operation must be a string", lambda t: t.fire([])),
        ("the name of an operation must be a string", lambda t: t.on([], print)),
        ("the name of an operation must be a string", lambda t: t.off([])),
        ("the name of an operation must be a string", lambda t: t.operations.revoke([])),
        ("the name of an operation must be a string", lambda t: t.unregister_operation([])),
        ("the name of a server must be a string", lambda t: t.mcp.remove([])),
        ("takes an entry of profiles.list.., not 'guide'", lambda t: t.profiles.adopt("guide")),
    ],
)
def test_a_wrong_argument_raises_a_tract_error(talk, told, call):
    is_refused(talk, TractError, told, call)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="with -OO, dataclasses of this Python fail first")
def test_tools_without_docstrings_are_refused_with_the_reason():
    code = "from tract_jupyter import Tract\nTract.open().tools.log"
    ran = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert "SpecError: python -OO removes docstrings" in ran.stderr
