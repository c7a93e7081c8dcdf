"""Find tool results and shorten them."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import CommitNotFoundError, CompressionError, DetachedHeadError, HistoryError


def call(tract, *calls, text=""):
    """A message with calls, each `id:tool`."""
    named = [dict(zip(("id", "name"), one.split(":"), strict=True)) | {"arguments": {}} for one in calls]
    return tract.assistant(text, tool_calls=named).commit_hash


def answer(tract, name, *, error=False):
    call_id, tool = name.split(":")
    return tract.tool_result(call_id, tool, f"answer of {tool}", is_error=error).commit_hash


def hashes(infos):
    return [info.commit_hash for info in infos]


@pytest.fixture
def talk(tract):
    """Two good turns and a failed one. The last call has no result yet."""
    tract.user("hello")
    commits = {
        "good": call(tract, "1:look"),
        "good answer": answer(tract, "1:look"),
        "both": call(tract, "2:look", "3:read"),
        "look": answer(tract, "2:look"),
        "read": answer(tract, "3:read", error=True),
        "open": call(tract, "4:read"),
    }
    tract.user("well")
    return commits


def test_results(tract, talk):
    assert hashes(tract.tool_turns.results()) == [talk["good answer"], talk["look"], talk["read"]]
    assert hashes(tract.tool_turns.results("read")) == [talk["read"]]
    assert hashes(tract.tool_turns.results(after=talk["both"])) == [talk["look"], talk["read"]]
    assert hashes(tract.tool_turns.results("look", after=talk["look"])) == []


def test_results_after_a_missing_commit_are_refused(tract, talk):
    with pytest.raises(CommitNotFoundError):
        tract.tool_turns.results(after="f" * 64)
    tract.branch("other", source=talk["good"])
    with pytest.raises(HistoryError, match="not in the history"):
        tract.tool_turns.results(after=talk["both"])


def test_a_result_without_a_call_is_found_by_its_tool(tract):
    content = {"content_type": "tool_io", "tool_name": "look", "direction": "result", "payload": {}}
    found = tract.commit(content).commit_hash
    tract.commit({**content, "direction": "call"})
    assert hashes(tract.tool_turns.results("look")) == [found]


# --- shortening tool results


def said(tract):
    return [message.content for message in tract.compile().messages]


def test_answers_become_shorter_in_their_places_and_undo_brings_them_back(tract, talk):
    before, tokens = tract.compile(), tract.status().token_count
    result = tract.tool_results.compress(content=["a", "b", "c"])
    assert result.commits == (talk["good answer"], talk["look"], talk["read"])
    assert said(tract) == ["hello", "", "a", "", "b", "c", "", "well"]
    assert result.tokens == tokens - tract.status().token_count > 0
    assert [m.tool_call_id for m in tract.compile().messages] == [m.tool_call_id for m in before.messages]
    assert [m.is_error for m in tract.compile().messages] == [m.is_error for m in before.messages]
    assert tract.get_commit(result.edits[0]).edit_target == talk["good answer"]
    tract.undo()
    assert tract.compile() == before


def test_tool_results_can_be_shortened_by_tool_name_or_commit(tract, talk):
    tract.tool_results.compress(name="read", content=["r"])
    assert said(tract)[2:6] == ["answer of look", "", "answer of look", "r"]
    tract.tool_results.compress([talk["look"][:12], talk["good answer"]], content=["second", "first"])
    assert said(tract)[2:6] == ["first", "", "second", "r"]


def test_a_summarizer_gets_each_tool_result_and_its_retention(tract, talk):
    tract.annotate(talk["look"], "important", retain="the number", retain_match=["42"])
    seen = []

    def summarize(messages, criteria, instructions, target_tokens):
        seen.append(
            (messages[0].content, [c["match_patterns"] for c in criteria], instructions, target_tokens)
        )
        return "42"

    tract.tool_results.compress(name="look", summarizer=summarize, instructions="short", target_tokens=9)
    assert seen == [("answer of look", [], "short", 9), ("answer of look", [["42"]], "short", 9)]
    with pytest.raises(CompressionError, match="must contain '42'"):
        tract.tool_results.compress([talk["look"]], content=["43"])


def test_pinned_and_skipped_tool_results_are_not_shortened(tract, talk):
    tract.annotate(talk["good answer"], "pinned")
    tract.annotate(talk["look"], "skip")
    assert tract.tool_results.compress(content=["r"]).commits == (talk["read"],)


@pytest.mark.parametrize(
    ("given", "options", "reason"),
    [
        (None, {"name": "nosuch", "content": ["x"]}, "no answer of the tool 'nosuch'"),
        (None, {"content": ["x"]}, "got 1 summary for 3"),
        (None, {}, "pass content, or a summarizer"),
        (None, {"content": ["x", " ", "y"]}, "is empty"),
        (["good"], {"content": ["x"]}, "is not an answer of the requested tools"),
        ("good", {"content": ["x"]}, "a list of commits"),
    ],
)
def test_bad_requests_change_nothing(tract, talk, given, options, reason):
    before = tract.head
    names = [talk[name] for name in given] if isinstance(given, list) else given
    with pytest.raises(CompressionError, match=reason):
        tract.tool_results.compress(names, **options)
    assert tract.head == before


def test_nothing_is_shortened_on_a_detached_head(tract, talk):
    tract.checkout(talk["good"])
    with pytest.raises(DetachedHeadError):
        tract.tool_results.compress(content=["x"])


def test_an_edit_that_answers_a_call_says_whether_it_failed(tract, talk):
    tract.tool_result("3", "read", "well now", edit=talk["read"])
    assert [m.is_error for m in tract.compile().messages] == [False] * 8


def failed(tract):
    return [message.is_error for message in tract.compile().messages if message.role == "tool"]


@pytest.mark.parametrize("is_error", [True, False])
def test_a_shortened_tool_result_keeps_the_error_flag_of_its_last_edit(tract, is_error):
    call(tract, "1:look")
    first = answer(tract, "1:look", error=not is_error)
    edit = {"metadata": {"tool_call_id": "1", "name": "look", "is_error": is_error}, "edit": first}
    tract.tool_result("1", "look", "a long answer that says more", is_error=is_error, **edit)
    assert failed(tract) == [is_error]
    tract.tool_results.compress(content=["short"])
    assert failed(tract) == [is_error]
    assert tract.compile().messages[-1].tool_call_id == "1"
    tract.tool_results.compress(content=["s"])  # and again
    assert failed(tract) == [is_error]


def test_shortening_accepts_tool_turn_results(tract, talk):
    found = tract.tool_turns.results("read")
    assert tract.tool_results.compress(found, content=["r"]).commits == (talk["read"],)


@pytest.mark.parametrize("commits", [5, [5], [None], [["a"]], b"abcd"])
def test_shortening_refuses_values_that_are_not_a_list_of_commits(tract, talk, commits):
    head = tract.head
    with pytest.raises(CompressionError, match="'?log'? lists"):
        tract.tool_results.compress(commits, content=["r"])
    assert tract.head == head


def test_shortening_refuses_one_result_in_place_of_a_list(tract, talk):
    with pytest.raises(CompressionError, match=r"not one commit; use \['"):
        tract.tool_results.compress(tract.tool_turns.results("read")[0], content=["r"])
