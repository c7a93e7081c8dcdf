"""Compress any part of a context, its costs, and expanding to the originals."""

from __future__ import annotations

from functools import partial, wraps

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.context.histories import PICK, STEPS, appends, check, new_tract, play, shown, whole
from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import (
    BranchMovedError,
    CommitNotFoundError,
    CompressionError,
    ContentError,
    DetachedHeadError,
    HistoryError,
    TractError,
)
from tract_jupyter.models import patterns

LAW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def contents(tract):
    return [message.content for message in tract.compile().messages]


def count(messages, criteria, instructions, target_tokens):
    """A summarizer."""
    return f"sum of {len(messages)}"


@pytest.fixture
def said(tract):
    """Six messages: their hashes."""
    return [tract.user(f"message number {number} says a few words").commit_hash for number in range(6)]


def text(number):
    return f"message number {number} says a few words"


# position of the range


def test_everything(tract, said):
    result = tract.compress(content="all")
    assert contents(tract) == ["all"]
    assert result.source_commits == (tuple(said),)
    assert (result.old_head, result.new_head) == (said[-1], tract.head)
    assert result.saved == result.tokens_before - result.tokens_after > 0
    assert result.tokens_after == tract.status().token_count
    assert "6 commits became 1 summary" in str(result)
    message = tract.compile().messages[0]
    assert (message.role, message.content_type, message.commit_hash) == (
        "assistant",
        "dialogue",
        result.summary_commits[0],
    )


def test_compressing_the_middle_keeps_the_messages_after_it(tract, said):
    result = tract.compress(from_commit=said[1], to_commit=said[2], content="middle")
    assert contents(tract) == [text(0), "middle", text(3), text(4), text(5)]
    hashes = tract.compile().commit_hashes
    assert hashes[0] == said[0]
    assert hashes[2:] == tuple(result.copies[commit] for commit in said[3:])
    check(tract)


def test_messages_before_the_range_keep_their_hashes(tract, said):
    tract.compress(from_commit=said[3], content="end")
    assert tract.compile().commit_hashes[:3] == tuple(said[:3])
    assert tract.log(None)[1].commit_hash == said[2]


def test_the_beginning(tract, said):
    tract.compress(to_commit=said[1][:10], content="start")
    assert contents(tract) == ["start", *map(text, range(2, 6))]
    check(tract)


def test_single_commits_that_are_not_adjacent(tract, said):
    result = tract.compress(commits=[said[4], said[0], said[1]], content=["a", "b"])
    assert contents(tract) == ["a", text(2), text(3), "b", text(5)]
    assert result.source_commits == ((said[0], said[1]), (said[4],))
    check(tract)


def test_a_commit_that_is_named_twice_is_used_once(tract, said):
    assert tract.compress(commits=[said[0], said[0][:12]], content="x").source_commits == ((said[0],),)


def test_an_edit_names_the_message_that_it_edits(tract, said):
    edit = tract.user("edited", edit=said[2]).commit_hash
    tract.compress(commits=[edit], content="sum")
    assert contents(tract) == [text(0), text(1), "sum", text(3), text(4), text(5)]


# kept messages


def test_an_edit_at_the_end_of_a_range_counts_at_its_own_position(tract):
    first = tract.user("a").commit_hash
    tract.user("b")
    edit = tract.user("A", edit=first).commit_hash
    tract.user("c")
    note = tract.annotate(first, "important").commit_hash
    tract.user("d")
    assert tract.preview_compress(to_commit=edit).after.messages[1].content == "c"
    assert tract.preview_compress(to_commit=note).after.messages[1].content == "d"
    tract.compress(from_commit=edit, to_commit=note, content="only c")
    assert contents(tract) == ["A", "b", "only c", "d"]


@pytest.mark.parametrize("change", ["edit", "annotation", "none"])
def test_a_range_up_to_head_is_one_without_an_end(tract, said, change):
    if change == "edit":
        tract.user("better", edit=said[1])
    elif change == "annotation":
        tract.annotate(said[1], "important")
    open_end = tract.preview_compress(from_commit=said[3])
    for end in ("HEAD", "main", tract.head, tract.head[:10], tract.log(1)[0]):
        assert tract.preview_compress(from_commit=said[3], to_commit=end).groups == open_end.groups
    assert open_end.groups[0].commits == tuple(said[3:])


def test_a_range_from_a_change_without_messages_is_empty(tract, said):
    edit = tract.user("better", edit=said[1]).commit_hash
    with pytest.raises(CompressionError, match="the range has no messages"):
        tract.compress(from_commit=edit, content="x")
    with pytest.raises(CompressionError, match=f"range is empty: {edit[:8]} comes after {said[2][:8]}"):
        tract.compress(from_commit=edit, to_commit=said[2], content="x")


def test_compress_accepts_commit_infos_from_log(tract, said):
    infos = list(reversed(tract.log(None)))
    plan = tract.preview_compress(commits=infos[1:3])
    assert plan.groups[0].commits == tuple(said[1:3])
    with pytest.raises(CompressionError, match=r"commits is a list of commits, not one commit; use \['"):
        tract.compress(commits=infos[1], content="x")
    tract.compress(from_commit=infos[1], to_commit=infos[4], preserve=[infos[3]], content=["one", "two"])
    assert contents(tract) == [text(0), "one", text(3), "two", text(5)]


def test_a_pinned_message_survives_any_number_of_compressions(tract, said):
    tract.annotate(said[2], "pinned", reason="needed")
    tract.tags.add(said[2], "keep")
    tract.user("its edit", edit=said[2])
    commit = said[2]
    for round_ in range(3):
        result = tract.compress(content=[f"before {round_}", f"after {round_}"])
        assert result.preserved_commits == (commit,)
        commit = result.copies[commit]
        assert contents(tract) == [f"before {round_}", "its edit", f"after {round_}"]
        assert tract.get_commit(commit).priority == "pinned"
        assert tract.tags.of(commit) == ("keep",)
        assert len(tract.history.versions(commit)) == 2
    check(tract)


def test_an_edited_system_prompt_is_kept(tract):
    prompt = tract.system("old rule").commit_hash
    tract.user("hello there")
    tract.system("new rule", edit=prompt)
    tract.assistant("hi")
    tract.compress(content="greetings")
    assert contents(tract) == ["new rule", "greetings"]
    tract.user("more")
    tract.compress(content="again")
    assert contents(tract) == ["new rule", "again"]


def test_preserved_messages_keep_metadata_tags_and_config(tract):
    tract.user("one")
    kept = tract.assistant(
        "two", metadata={"a": 1}, tags=["t"], generation_config={"model": "m"}, priority="important"
    )
    tract.user("three")
    result = tract.compress(content=["x", "y"], preserve=[kept.commit_hash])
    copy = tract.get_commit(result.copies[kept.commit_hash])
    for name in (
        "content_hash",
        "metadata",
        "tags",
        "generation_config",
        "priority",
        "message",
        "token_count",
    ):
        assert getattr(copy, name) == getattr(kept, name)


def test_skipped_messages_are_compressed_with_their_range_and_stay_addressable(tract, said):
    tract.annotate(said[1], "skip")
    plan = tract.preview_compress(to_commit=said[3])
    assert plan.skipped == (said[1],)
    result = tract.compress(to_commit=said[3], content="four")
    assert result.source_commits == (tuple(said[:4]),)
    assert contents(tract) == ["four", text(4), text(5)]
    assert tract.get_content(said[1])["text"] == text(1)
    assert tract.history.skipped() == []


def test_a_skipped_message_between_two_that_are_named_does_not_split_them(tract, said):
    tract.annotate(said[1], "skip")
    assert tract.preview_compress(commits=[said[0], said[2]]).groups[0].commits == tuple(said[:3])


def test_a_preserved_skipped_message_is_kept(tract, said):
    tract.annotate(said[1], "skip")
    tract.compress(to_commit=said[2], preserve=[said[1]], content=["a", "b"])
    assert contents(tract)[:2] == ["a", "b"]
    assert len(tract.history.skipped()) == 1


def test_edits_and_annotations_of_compressed_messages_are_removed(tract, said):
    tract.user("edited", edit=said[0])
    tract.annotate(said[1], "important")
    tract.user("edited", edit=said[5])
    tract.compress(to_commit=said[1], content="sum")
    assert contents(tract)[-1] == "edited"
    assert [info.operation for info in tract.log(None)].count("annotate") == 0
    assert [info.operation for info in tract.log(None)].count("edit") == 1
    check(tract)


def test_an_edit_of_a_message_before_the_range_still_counts(tract, said):
    tract.user("edited", edit=said[0])
    tract.compress(from_commit=said[2], to_commit=said[3], content="sum")
    assert contents(tract) == ["edited", text(1), "sum", text(4), text(5)]


def test_compress_and_expand_keep_the_offered_tools(tract):
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    other = {"type": "function", "function": {"name": "other", "parameters": {}}}
    first = tract.user("one", tools=[other])
    last = tract.user("two", tools=[tool])
    tract.user("three")
    for commits in ([last.commit_hash], [first.commit_hash]):
        result = tract.compress(commits=commits, content="sum")
        assert tract.compile().tools == (tool,)
        tract.expand(result.summary_commits[0])
        assert tract.compile().tools == (tool,)
        tract.undo()
        tract.undo()
    tract.compress(content="sum")
    assert tract.compile().tools == (tool,)


def test_merged_messages_can_be_compressed_and_expanded(tract, said):
    tract.branch("side", source=said[2])
    tract.user("side one")
    two = tract.user("side two").commit_hash
    tract.switch("main")
    tract.merge("side", no_ff=True)
    tract.user("after")
    before = contents(tract)
    tract.compress(commits=[two], content="sum")
    assert contents(tract) == ["sum" if content == "side two" else content for content in before]
    assert tract.compile().commit_hashes[0] == said[0]
    check(tract)
    tract.expand(tract.compile().messages[before.index("side two")].commit_hash)
    assert contents(tract) == before
    check(tract)
    tract.switch("side")
    assert contents(tract)[-1] == "side two"


# summaries


def test_a_summarizer_is_called_for_each_run(tract, said):
    tract.annotate(said[3], "pinned")
    seen = []

    def summarize(messages, criteria, instructions, target_tokens):
        seen.append(([m.content for m in messages], list(criteria), instructions, target_tokens))
        return f"sum {len(seen)}"

    tract.compress(summarizer=summarize, instructions="be brief", target_tokens=20)
    assert seen == [
        ([text(0), text(1), text(2)], [], "be brief", 20),
        ([text(4), text(5)], [], "be brief", 20),
    ]
    assert contents(tract) == ["sum 1", text(3), "sum 2"]


def test_a_summary_must_match_the_retention_of_its_messages(tract):
    important = tract.user("the port is 8080", priority="important", retain="the port", retain_match=["8080"])
    tract.user("blah")
    head = tract.head
    with pytest.raises(CompressionError, match="must contain '8080'"):
        tract.compress(content="the port was named")
    with pytest.raises(CompressionError, match="must contain '8080'"):
        tract.preview_compress(content="the port was named")
    assert tract.head == head
    seen = []
    result = tract.compress(summarizer=lambda m, c, i, t: seen.extend(c) or "port 8080")
    assert seen == [{"instructions": "the port", "match_patterns": ["8080"], "match_mode": "substring"}]
    summary = tract.get_commit(result.summary_commits[0])
    assert (summary.priority, summary.retention) == (
        "important",
        tract.get_commit(important.commit_hash).retention,
    )
    with pytest.raises(CompressionError, match="8080"):  # the next compression must keep it too
        tract.compress(content="nothing")


def test_criteria_that_an_annotation_gave_and_regular_expressions(tract, said):
    tract.annotate(said[0], "important", retain_match=[r"\d{4}"], retain_match_mode="regex")
    tract.annotate(said[1], "important", retain_match=["a.b"])
    with pytest.raises(CompressionError, match=r"a\.b"):
        tract.compress(content="1234 axb")
    result = tract.compress(content="1234 a.b")
    assert tract.get_commit(result.summary_commits[0]).retention["match_mode"] == "regex"
    with pytest.raises(CompressionError):
        tract.compress(content="1234 axb")


def test_a_pattern_that_would_take_for_ever_is_given_up(tract, monkeypatch):
    """The pattern may come from a model's tool call. The summary is not wrong, so there is no retry."""
    monkeypatch.setattr(patterns.matches, "__defaults__", (0.05,))
    tract.user("x", priority="important", retain_match=["(?:a|aa)+$"], retain_match_mode="regex")
    asked = []
    with pytest.raises(CompressionError, match="takes more than 0.05 s .*nothing was changed"):
        tract.compress(summarizer=lambda *_: asked.append(1) or "a" * 40 + "!")
    assert len(asked) == 1
    assert contents(tract) == ["x"]


@pytest.mark.parametrize("pattern", ["([", "a" * 3000])
def test_an_invalid_pattern_is_refused_at_commit_time(tract, pattern):
    with pytest.raises(ContentError, match="cannot be used as a regular expression"):
        tract.user("x", priority="important", retain_match=[pattern], retain_match_mode="regex")


@pytest.mark.parametrize(
    ("option", "wrong"),
    [("max_retries", None), ("max_retries", 1.5), ("instructions", 5), ("system_prompt", 5)],
)
def test_options_are_checked_before_anybody_is_asked(tract, option, wrong):
    tract.configure_llm(ScriptedClient())
    tract.user("x")
    with pytest.raises(TractError, match=option):
        tract.compress(**{option: wrong})
    assert tract.llm.asked == []


def test_retention_ends_when_a_message_is_no_longer_important(tract):
    commit = tract.user("x", priority="important", retain_match=["x"]).commit_hash
    tract.annotate(commit, "normal")
    tract.compress(content="gone")
    assert contents(tract) == ["gone"]


def test_a_longer_summary_is_allowed_and_reported(tract):
    tract.user("a")
    result = tract.compress(content="a much longer text than there was before")
    assert result.saved < 0
    assert "never pays back" in str(tract.preview_compress(content="longer and longer " * 20))


def test_the_last_annotation_decides_the_retention(tract):
    commit = tract.user("x", priority="important", retain_match=["x"]).commit_hash
    tract.user("X", edit=commit)  # an edit does not change the retention
    with pytest.raises(CompressionError, match="annotate the important message without retain_match"):
        tract.compress(content="gone")
    tract.annotate(commit, "important")
    result = tract.compress(content="gone")
    assert tract.get_commit(result.summary_commits[0]).priority == "important"
    assert tract.get_commit(result.summary_commits[0]).retention is None


def test_an_annotation_after_one_without_criteria(tract):
    commit = tract.user("x", priority="important", retain_match=["x"]).commit_hash
    tract.annotate(commit, "important")
    tract.annotate(commit, "important", retain_match=["y"])
    with pytest.raises(CompressionError, match="must contain 'y'"):
        tract.compress(content="x")
    tract.compress(content="y")


# refusals


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "pass content, or a summarizer"),
        ({"content": ""}, "is empty"),
        ({"content": " \n"}, "is empty"),
        ({"content": ["a", "b"]}, "got 2 summaries for 1 run of"),
        ({"content": []}, "got 0 summaries"),
        ({"content": [3]}, "is int, not a text"),
        ({"content": "a", "summarizer": count}, "got both"),
        ({"summarizer": "gpt"}, "summarizer must be a function"),
        ({"summarizer": lambda *_: None}, "is NoneType, not a text"),
        ({"content": "a", "target_tokens": 0}, "target_tokens is a number"),
        ({"content": "a", "target_tokens": True}, "target_tokens is a number"),
        ({"content": "a", "commits": "main"}, "list of commits"),
        ({"content": "a", "preserve": "main"}, "list of commits"),
        ({"content": "a", "commits": []}, "no messages"),
        ({"content": 5}, "content must be the summary as a text, or a list of texts .* not int"),
        ({"content": {"a": 1}}, "not dict"),
        ({"content": {"a"}}, "not set"),
        ({"content": b"a"}, "not bytes"),
        ({"summarizer": 5}, "summarizer must be a function"),
        ({"content": "a", "commits": 5}, "commits is a list of commits, not 5"),
        ({"content": "a", "commits": [5]}, "commits takes a commit"),
        ({"content": "a", "commits": [["x"]]}, "commits takes a commit"),
        ({"content": "a", "preserve": None}, "preserve is a list of commits, not None"),
        ({"content": "a", "preserve": 5}, "preserve is a list of commits, not 5"),
        ({"content": "a", "from_commit": 5}, "from_commit takes a commit"),
        ({"content": "a", "to_commit": ["x"]}, "to_commit takes a commit"),
    ],
)
def test_invalid_summaries_change_nothing(tract, said, options, problem):
    with pytest.raises(CompressionError, match=problem):
        tract.compress(**options)
    assert tract.head == said[-1]
    assert tract.reflog() == []


def test_ranges_that_cannot_be(tract, said):
    with pytest.raises(CompressionError, match="range is empty"):
        tract.compress(from_commit=said[3], to_commit=said[1], content="x")
    with pytest.raises(CompressionError, match="got both"):
        tract.compress(commits=said, from_commit=said[3], content="x")
    with pytest.raises(CommitNotFoundError):
        tract.compress(commits=["f" * 64], content="x")
    with pytest.raises(CommitNotFoundError):
        tract.compress(from_commit="nowhere", content="x")
    with pytest.raises(CommitNotFoundError):
        tract.compress(content="x", preserve=["nowhere"])
    tract.branch("other", source=said[2])
    foreign = tract.user("elsewhere").commit_hash
    tract.switch("main")
    for options in ({"commits": [foreign]}, {"to_commit": foreign}, {"preserve": [foreign]}):
        with pytest.raises(CompressionError, match="not in the history of branch 'main'"):
            tract.compress(**options, content="x")
    assert tract.head == said[-1]


def test_nothing_to_compress(tract):
    with pytest.raises(HistoryError, match="no commits yet"):
        tract.compress(content="x")
    rule = tract.system("rule")
    with pytest.raises(CompressionError, match="pinned or preserved"):
        tract.compress(content="x")
    tract.reasoning("hm")
    with pytest.raises(CompressionError, match="skipped already"):
        tract.compress(content="x")
    with pytest.raises(CompressionError, match="pinned or preserved"):
        tract.preview_compress(to_commit=rule.commit_hash)


def test_detached(tract, said):
    tract.checkout(said[2])
    with pytest.raises(DetachedHeadError):
        tract.compress(content="x")
    with pytest.raises(DetachedHeadError):
        tract.expand(said[1])


def test_a_merge_commit_cannot_be_compressed(tract, said):
    tract.branch("side", source=said[2])
    tract.user("side one")
    tract.switch("main")
    tract.merge("side", no_ff=True)
    with pytest.raises(CompressionError, match="is a merge"):
        tract.compress(commits=[tract.head], content="x")


def test_a_summary_with_invalid_unicode_changes_nothing(tract, said):
    with pytest.raises(ContentError, match="surrogate"):
        tract.compress(content="\ud800")
    assert tract.head == said[-1]


def test_a_summarizer_that_raises_changes_nothing(tract, said):
    def fail(*_):
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        tract.compress(summarizer=fail)
    assert tract.head == said[-1]


@pytest.mark.parametrize("wrong", [lambda: "sum", lambda messages: "sum", lambda *, messages: "sum", len])
def test_a_summarizer_with_wrong_parameters_is_refused_with_the_right_ones(tract, said, wrong):
    with pytest.raises(CompressionError, match=r"\(messages, criteria, instructions, target_tokens\)"):
        tract.compress(summarizer=wrong)
    assert tract.head == said[-1]


def broken(messages, criteria, instructions, target_tokens):
    return "sum of " + len(messages)


def calls_another(*arguments):
    return broken(*arguments[:1])


@pytest.mark.parametrize("summarizer", [broken, calls_another, partial(broken)])
def test_a_type_error_within_a_summarizer_is_its_own(tract, said, summarizer):
    with pytest.raises(TypeError) as caught:
        tract.compress(summarizer=summarizer)
    assert not isinstance(caught.value, CompressionError)
    assert tract.head == said[-1]


def test_the_parameters_of_a_wrapper_count_and_not_those_of_the_wrapped_function(tract, said):
    @wraps(contents)  # which takes one argument
    def summarize(*arguments):
        return f"{len(arguments)} arguments"

    tract.compress(summarizer=summarize)
    assert contents(tract) == ["4 arguments"]


def test_a_branch_that_moves_while_the_summary_is_written(tract, said):
    def busy(*_):
        tract.user("meanwhile")
        return "sum"

    with pytest.raises(BranchMovedError):
        tract.compress(summarizer=busy)
    assert contents(tract) == [*map(text, range(6)), "meanwhile"]


# the price


def test_a_preview_writes_nothing_and_shows_the_price(tract, said):
    before, events = tract.compile(), len(tract.events())
    plan = tract.preview_compress(from_commit=said[1], to_commit=said[4], content="short")
    assert (tract.head, len(tract.events())) == (said[-1], events)
    price = plan.price
    per = before.messages[0].token_count
    summary = plan.after.messages[1].token_count
    assert (price.broken_index, price.broken_commit, price.cache_kept) == (1, said[1], per)
    assert price.saved_per_call == 4 * per - summary
    assert price.read_anew == plan.after.token_count - per
    assert (price.summarizer_input, price.summarizer_output) == (0, 0)
    assert price.once == pytest.approx(price.read_anew * 0.9)
    calls = price.pays_back_after
    assert calls * price.saved_per_call * 0.1 >= price.once > (calls - 1) * price.saved_per_call * 0.1
    assert plan.before == before
    assert plan.diff.stat.token_delta == -price.saved_per_call
    assert "pays back after" in str(plan)
    assert f"message 1 ({said[1][:8]})" in str(plan)
    assert not plan.is_estimate
    result = tract.compress(from_commit=said[1], to_commit=said[4], content="short")
    assert shown(tract.compile()) == shown(plan.after)
    assert result.tokens_after == plan.after.token_count


def test_the_price_of_a_summary_that_is_still_to_be_written(tract, said):
    plan = tract.preview_compress(target_tokens=7)
    assert plan.is_estimate
    assert plan.price.summarizer_input == sum(m.token_count for m in tract.compile().messages)
    assert plan.price.summarizer_output == 7
    assert plan.price.once == pytest.approx(plan.price.read_anew * 0.9 + plan.price.summarizer_input + 7 * 5)
    assert tract.preview_compress().price.summarizer_output < plan.price.summarizer_input


# undo, events, batch


def test_one_step_that_undo_takes_back(tract, said):
    tract.compress(commits=[said[1], said[3]], content=["a", "b"])
    assert tract.preview_undo().operation == "compress"
    tract.undo()
    assert tract.head == said[-1]
    tract.redo()
    assert contents(tract)[1] == "a"


def test_the_event_names_sources_and_results(tract, said):
    result = tract.compress(to_commit=said[1], content="sum")
    event = tract.events("compress")[0]
    assert event.data["source_commits"] == [said[:2]]
    assert event.data["summary_commits"] == list(result.summary_commits)
    assert (event.data["old"], event.data["new"]) == (said[-1], tract.head)
    assert (event.data["tokens_before"], event.data["tokens_after"]) == (
        result.tokens_before,
        result.tokens_after,
    )


def test_within_a_batch_it_is_part_of_it(tract, said):
    with pytest.raises(RuntimeError), tract.batch():  # noqa: PT012 # the block is what fails
        tract.user("more")
        tract.compress(content="all")
        assert contents(tract) == ["all"]
        raise RuntimeError
    assert tract.head == said[-1]
    with tract.batch():
        tract.user("more")
        tract.compress(content="all")
        tract.user("then")
    assert contents(tract) == ["all", "then"]
    check(tract)


# expand


def test_expand_brings_the_originals_back(tract, said):
    tract.annotate(said[2], "important")
    tract.user("edited", edit=said[1])
    tract.tags.add(said[1], "blue")
    before = shown(tract.compile())
    result = tract.compress(from_commit=said[1], to_commit=said[3], content="sum")
    tract.user("after")
    expanded = tract.expand(result.summary_commits[0][:12])
    assert shown(tract.compile())[:-1] == before
    assert contents(tract)[-1] == "after"
    assert expanded.restored == tract.compile().commit_hashes[1:4]
    assert tract.tags.of(expanded.restored[0]) == ("blue",)
    assert expanded.tokens_after == tract.status().token_count
    check(tract)


def test_expand_of_the_outer_summary_gives_the_inner_one(tract, said):
    tract.compress(to_commit=said[2], content="inner")
    outer = tract.compress(content="outer")
    tract.expand(outer.summary_commits[0])
    assert contents(tract) == ["inner", text(3), text(4), text(5)]
    inner = tract.compile().messages[0].commit_hash
    tract.expand(inner)
    assert contents(tract) == [text(number) for number in range(6)]


def test_an_edited_summary_can_be_expanded_by_its_edit(tract, said):
    result = tract.compress(to_commit=said[2], content="sum")
    edit = tract.assistant("better sum", edit=result.summary_commits[0])
    tract.expand(edit.commit_hash)
    assert contents(tract) == [text(number) for number in range(6)]


def test_expand_refuses_commits_that_are_not_valid_summaries(tract, said):
    for commit in (said[0], tract.user("x", metadata={"compressed_from": "mine"}).commit_hash):
        with pytest.raises(CompressionError, match="is not a summary"):
            tract.expand(commit)
    forged = tract.user("x", metadata={"compressed_from": {"head": said[0], "commits": ["a"]}}).commit_hash
    with pytest.raises(CompressionError, match="name no commits"):
        tract.expand(forged)
    gone = tract.user("x", metadata={"compressed_from": {"head": "b" * 64, "commits": ["a"]}}).commit_hash
    with pytest.raises(CompressionError, match="are gone"):
        tract.expand(gone)
    result = tract.compress(content="sum")
    tract.undo()
    with pytest.raises(CompressionError, match="not in the history"):
        tract.expand(result.summary_commits[0])
    with pytest.raises(CommitNotFoundError):
        tract.expand("nothing")


# laws


def ranges(tract, low, high):
    """A range of the branch's messages."""
    hashes = [info.commit_hash for info in appends(tract)]
    assume(hashes)
    low, high = sorted((low % len(hashes), high % len(hashes)))
    return hashes[low], hashes[high]


def squeeze(tract, low, high):
    """Compress a range if possible. Return the result."""
    first, last = ranges(tract, low, high)
    try:
        return tract.compress(from_commit=first, to_commit=last, summarizer=count)
    except CompressionError as error:
        assert "nothing to compress" in str(error)
        return None


@LAW
@given(STEPS, PICK, PICK, STEPS)
def test_undo_takes_back_and_expand_brings_back(steps, low, high, later):
    with new_tract() as tract:
        play(tract, steps)
        before, head = whole(tract), tract.head
        result = squeeze(tract, low, high)
        assume(result is not None)
        tract.undo()
        assert (tract.head, whole(tract)) == (head, before)
        tract.redo()
        check(tract)
        for summary in result.summary_commits:  # the later ones were copied
            old = next(i.commit_hash for i in appends(tract) if i.metadata.get("compressed_from", {}).get("commits")
                       == tract.get_commit(summary).metadata["compressed_from"]["commits"])  # fmt: skip
            tract.expand(old)
            check(tract)
        assert whole(tract) == before


@LAW
@given(STEPS, PICK, PICK, STEPS)
def test_expand_after_more_commits_restores_the_uncompressed_history(steps, low, high, later):
    later = [step for step in later if step[0] == "say"]
    with new_tract() as plain, new_tract() as tract:
        for one in (plain, tract):
            play(one, steps)
        result = squeeze(tract, low, high)
        assume(result is not None and len(result.summary_commits) == 1)
        for one in (plain, tract):
            play(one, later)
        tract.expand(result.summary_commits[0])
        assert whole(tract) == whole(plain)
        check(tract)


@pytest.mark.slow
@LAW
@given(STEPS, st.lists(st.tuples(PICK, PICK, STEPS), min_size=1, max_size=3))
def test_compress_keeps_messages_outside_the_range_pinned_ones_and_other_branches(steps, rounds):
    with new_tract() as tract:
        play(tract, steps)
        assume(tract.head)
        tract.branch("other", switch=False)
        other = tract.compile(at_commit="other")
        for low, high, more in rounds:
            play(tract, more)
            before = tract.compile()
            tags = {m.commit_hash: tract.tags.of(m.commit_hash) for m in before.messages}
            result = squeeze(tract, low, high)
            if result is None:
                continue
            gone = {commit for group in result.source_commits for commit in group}
            stay = [m for m in before.messages if m.commit_hash not in gone]
            assert {m.commit_hash for m in before.messages if m.priority == "pinned"} <= {
                m.commit_hash for m in stay
            }
            after = [m for m in tract.compile().messages if m.commit_hash not in result.summary_commits]
            assert [(m.role, m.content, m.priority) for m in after] == [
                (m.role, m.content, m.priority) for m in stay
            ]
            assert [m.commit_hash for m in after] == [
                result.copies.get(m.commit_hash, m.commit_hash) for m in stay
            ]
            assert [tract.tags.of(m.commit_hash) for m in after] == [tags[m.commit_hash] for m in stay]
            kept = [
                m.commit_hash
                for m in before.messages[
                    : next(i for i, m in enumerate(before.messages) if m.commit_hash in gone)
                ]
            ]
            assert list(tract.compile().commit_hashes[: len(kept)]) == kept
            check(tract)
        assert tract.compile(at_commit="other") == other


def test_compress_and_expand_work_in_a_file(tmp_path):
    path = tmp_path / "store.db"
    with new_tract(path) as tract:
        for number in range(8):
            tract.user(f"number {number}")
        result = tract.compress(commits=[i.commit_hash for i in appends(tract)[2:5]], content="sum")
        check(tract, path)
        tract.expand(result.summary_commits[0])
        check(tract, path)
