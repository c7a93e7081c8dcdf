"""The results and errors of the tools for the context."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import ToolExecutionError


@pytest.fixture
def tools(tract):
    return tract.tools


@pytest.fixture
def conflict(tract):
    """Edit the same message differently on two branches. Return its hash."""
    said = tract.user("a").commit_hash
    tract.branch("topic")
    tract.user("theirs", edit=said)
    tract.switch("main")
    tract.user("ours", edit=said)
    return said


def texts(tract):
    return [message.content for message in tract.compile().messages]


def refused(tools, name, **arguments):
    with pytest.raises(ToolExecutionError) as caught:
        getattr(tools, name)(**arguments)
    return caught.value.reason


def test_log_of_one_kind(tract, tools):
    said = tract.user("a").commit_hash
    tract.user("b", edit=said)
    tract.annotate(said, "pinned")
    assert [entry["operation"] for entry in tools.log()] == ["annotate", "edit", "append"]
    assert [entry["commit_hash"] for entry in tools.log(op_filter="append")] == [said]
    assert "'append', 'edit', 'annotate' or 'merge'" in refused(tools, "log", op_filter="appends")


def test_diff_lists_changes_and_counts_unchanged_messages(tract, tools):
    tract.user("same")
    said = tract.user("before").commit_hash
    tract.user("gone")
    tract.branch("topic")
    tract.user("after", edit=said)
    tract.annotate(tract.log()[1].commit_hash, "skip")
    tract.assistant("new")
    found = tools.diff("main", "topic")
    assert [(c["kind"], c["old"], c["new"]) for c in found["changes"]] == [
        ("changed", "before", "after"), ("removed", "gone", None), ("added", None, "new"),
    ]  # fmt: skip
    assert found["unchanged"] == 1
    assert found["commit_b"] == tract.head
    assert sum(change["token_delta"] for change in found["changes"]) == found["token_delta"]
    assert [change["new"] for change in tools.diff()["changes"]] == ["new"]


def test_diff_tells_other_settings(tract, tools):
    tract.assistant("a", generation_config={"model": "m"})
    tract.assistant("b", generation_config={"model": "n"})
    assert tools.diff()["generation_config"] == {"model": ["m", "n"]}


def test_compress_accepts_a_summary_from_the_caller(tract, tools):
    first = tract.user("a long story").commit_hash
    tract.user("the end", priority="pinned")
    tract.user("more")
    made = tools.compress(content="A story.", to_commit=first)
    assert texts(tract) == ["A story.", "the end", "more"]
    assert (made["new_head"], made["replaced"], made["branch"]) == (tract.head, 1, "main")
    assert made["tokens_after"] == tract.status().token_count
    assert tools.get_commit(made["summary_commits"][0])["content"]["text"] == "A story."


def test_compress_wants_a_summary_for_each_run(tract, tools):
    for text, priority in [("a", None), ("kept", "pinned"), ("b", None)]:
        tract.user(text, priority=priority)
    told = refused(tools, "compress", content="x")
    assert "for 2 runs of messages" in told
    assert "Pass content as a list" in told
    tools.compress(content=["first", "second"])
    assert texts(tract) == ["first", "kept", "second"]


def test_the_error_of_compress_without_a_summary_asks_for_content(tract, tools):
    tract.user("a")
    assert "pass content" in refused(tools, "compress")


def test_compress_asks_the_configured_model(tract, tools):
    class Client:
        def chat(self, messages, **options):
            return {"choices": [{"message": {"content": "short"}}]}

    tract.user("a long story")
    tract.configure_llm(Client())
    tools.compress(target_tokens=5, instructions="names")
    assert texts(tract) == ["short"]


@pytest.mark.parametrize(
    ("decide", "denied", "told"),
    [
        (lambda p: p.reject("keep it whole"), True, "keep it whole"),
        (lambda p: None, False, "has no decision yet, and nothing was changed"),
    ],
)
@pytest.mark.parametrize("name", ["compress", "gc", "merge"])
def test_a_handler_that_turns_it_down_is_quoted(tract, conflict, name, decide, denied, told):
    arguments = {
        "compress": {"content": "x"},
        "gc": {},
        "merge": {"source_branch": "topic", "resolver": "ours"},
    }
    tract.on(name, decide)
    before = texts(tract)
    result = tract.executor.execute(name, arguments[name])
    assert (result.success, result.denied) == (False, denied)
    assert told in result.error
    assert texts(tract) == before


def test_the_error_for_a_conflict_shows_how_to_resolve_it(tract, tools, conflict):
    told = refused(tools, "merge", source_branch="topic")
    key = f"both_edit:{conflict[:12]}"
    assert f"{key}: ours 'ours', theirs 'theirs'" in told
    assert "nothing was written" in told
    assert "'ours', 'theirs', 'skip'" in told
    made = tools.merge("topic", resolver={key: "theirs"})
    assert (made["merge_type"], made["head"]) == ("conflict", tract.head)
    assert texts(tract) == ["theirs"]


def test_a_conflict_that_is_not_there(tract, tools, conflict):
    assert f"The keys are: both_edit:{conflict[:12]}" in refused(
        tools, "merge", source_branch="topic", resolver={"x": "ours"}
    )
    assert "should be 'ours', 'theirs' or 'skip'" in refused(
        tools, "merge", source_branch="topic", resolver={"x": "both"}
    )


def test_the_error_for_a_useless_merge_gives_the_reason(tract, tools):
    tract.user("a")
    tract.branch("topic", switch=False)
    assert "already has all commits of 'topic'" in refused(tools, "merge", source_branch="topic")
    assert "Branches are: main, topic" in refused(tools, "merge", source_branch="topik")


def test_a_commit_that_is_not_there(tract, tools):
    tract.user("a")
    assert "'log' lists the commits" in refused(tools, "get_commit", commit_hash="nothing")


def test_the_error_for_an_ambiguous_prefix_shows_two_matching_commits(tract, tools, monkeypatch):
    tract.user("a")
    found = ["abcd" + "0" * 60, "abcd" + "1" * 60]
    monkeypatch.setattr(type(tract._repository.rows), "starting_with", lambda *_: found)
    told = refused(tools, "get_commit", commit_hash="abcd")
    assert "such as abcd00000000 and abcd11111111; use more digits" in told


def test_checkout_of_a_commit_leaves_no_branch(tract, tools):
    first = tract.user("a").commit_hash
    tract.user("b")
    assert tools.checkout(first) == {"branch": None, "head": first}
    assert tools.status()["branch"] is None
    assert "DetachedHeadError" in refused(
        tools, "commit", content={"content_type": "dialogue", "role": "user", "text": "c"}
    )
    assert tools.checkout("-")["branch"] == "main"


def test_reset_has_one_mode_and_can_be_taken_back(tract, tools):
    first = tract.user("a").commit_hash
    tract.user("b")
    assert "'mode' is unknown. It takes target" in refused(tools, "reset", target=first, mode="hard")
    assert tools.reset(first) == {"branch": "main", "head": first}
    assert texts(tract) == ["a"]
    tools.reset("ORIG_HEAD")
    assert texts(tract) == ["a", "b"]
    assert "neither soft nor hard" in tract.executor.get("reset").description


def test_gc_keeps_young_commits(tract, tools):
    first = tract.user("a").commit_hash
    gone = tract.user("b").commit_hash
    tract.reset(first)
    assert tools.gc()["commits"] == []
    assert tools.gc(orphan_retention_days=0, dry_run=True)["commits"] == [gone]
    tract.get_commit(gone)
    assert tools.gc(orphan_retention_days=0)["commits"] == [gone]
    assert "there is no commit" in refused(tools, "get_commit", commit_hash=gone)


def test_tags(tract, tools):
    said = tract.user("a", tags=["made"]).commit_hash
    assert tools.tag("HEAD", "put") == {"commit_hash": said, "tags": ["made", "put"]}
    assert tools.untag("HEAD", "made") == {"commit_hash": said, "tags": ["made", "put"], "removed": False}
    tools.register_tag("put", "for a test")
    assert {"name": "put", "description": "for a test", "count": 1} in tools.list_tags()
    assert [entry["commit_hash"] for entry in tools.query_by_tags(["made", "put"], match="all")] == [said]
    assert tools.query_by_tags(["other"]) == []
    assert [entry["commit_hash"] for entry in tools.query_by_text("A")] == [said]
    assert tools.query_by_text("b") == []
    assert tools.get_tags("HEAD") == ["made", "put"]
    assert "ContentError" in refused(tools, "tag", commit_hash="HEAD", tag="")
