"""The difference of two contexts: properties, and the matching of messages."""
# ruff: noqa: RUF001 # a minus is a minus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.context import Prefix, diff_contexts
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import CompiledContext, Message, MessageDiff, Priority, ToolCall


def context(*messages, source="o200k_base"):
    return CompiledContext(list(messages), sum(m.token_count for m in messages), source, None)


def message(name, content=None, role="user", **parts):
    return Message(role, name if content is None else content, commit_hash=name, token_count=3, **parts)


MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.sampled_from(["", "a", "b", "c\nd"]),
    commit_hash=st.sampled_from(["", *"123456"]),
    priority=st.sampled_from(Priority),
    token_count=st.integers(0, 9),
)
CONTEXTS = st.lists(MESSAGES, max_size=9).map(lambda messages: context(*messages))


def kinds(a, b):
    return [diff.kind for diff in diff_contexts(a, b).message_diffs]


@given(CONTEXTS, CONTEXTS)
def test_applying_the_difference_gives_the_other(a, b):
    diffs = diff_contexts(a, b).message_diffs
    assert [d.old for d in diffs if d.old is not None] == a.messages
    assert [d.new for d in diffs if d.new is not None] == b.messages
    for diff in diffs:
        assert (diff.old is None, diff.new is None) == (diff.kind == "added", diff.kind == "removed")
        if diff.kind == "unchanged":
            assert diff.old._replace(commit_hash="", token_count=0) == diff.new._replace(
                commit_hash="", token_count=0
            )


@given(CONTEXTS)
def test_nothing_differs_from_itself(a):
    result = diff_contexts(a, a)
    assert not result
    assert result.token_delta == 0
    assert {d.kind for d in result.message_diffs} <= {"unchanged"}
    assert result.stat.unchanged == len(a)


@given(CONTEXTS, CONTEXTS)
def test_tokens_are_really_counted(a, b):
    result = diff_contexts(a, b)
    assert result.token_delta == b.token_count - a.token_count
    assert result.token_delta == sum(d.token_delta for d in result.message_diffs)
    assert result.stat.token_delta == result.token_delta


@given(CONTEXTS, CONTEXTS)
def test_the_way_back_has_as_many_changes(a, b):
    there, back = diff_contexts(a, b).stat, diff_contexts(b, a).stat
    assert there.token_delta == -back.token_delta
    assert there.added - there.removed == back.removed - back.added == len(b) - len(a)


def test_an_edit_is_a_change_of_its_message():
    a = context(message("1"), message("2"), message("3"))
    b = context(message("1"), message("2", "new"), message("3"))
    assert kinds(a, b) == ["unchanged", "changed", "unchanged"]


def test_messages_between_equal_commits_are_matched_by_position():
    a = context(message("1"), message("2"), message("3"))
    b = context(message("1"), message("x"), message("y"), message("3"))
    assert kinds(a, b) == ["unchanged", "changed", "added", "unchanged"]


def test_a_message_of_another_role_is_another_message():
    assert kinds(context(message("1")), context(message("2", role="assistant"))) == ["removed", "added"]


def test_a_message_that_was_inserted_changes_no_other():
    many = [message(str(n)) for n in range(20)]
    assert kinds(context(*many), context(*many[:7], message("x"), *many[7:])).count("unchanged") == 20


def test_a_moved_message_is_shown_as_removed_and_added():
    a, b = [message(str(n)) for n in range(5)], [message(str(n)) for n in (1, 2, 3, 0, 4)]
    assert kinds(context(*a), context(*b)) == ["removed", *["unchanged"] * 3, "added", "unchanged"]


def test_after_a_rebase_the_texts_match_though_no_commit_does():
    a = [message(f"a{n}", f"text {n}") for n in range(9)]
    b = [message(f"b{n}", f"text {n}") for n in range(9)]
    b.insert(3, message("new"))
    stat = diff_contexts(context(*a), context(*b)).stat
    assert (stat.added, stat.removed, stat.changed, stat.unchanged) == (1, 0, 0, 9)


@pytest.mark.parametrize(
    "change",
    [
        {"priority": Priority.PINNED},
        {"generation_config": {"model": "m"}},
        {"tool_calls": (ToolCall("1", "search"),)},
        {"is_error": True},
        {"name": "ann"},
        {"content_type": "output"},
        {"tool_call_id": "7"},
    ],
)
def test_more_than_the_text_can_change(change):
    one = message("1")
    assert kinds(context(one), context(one._replace(**change))) == ["changed"]


def test_another_counter_makes_no_other_message():
    one = message("1")
    result = diff_contexts(context(one), context(one._replace(token_count=9), source="approximate"))
    assert not result
    assert str(result.stat) == "no changes, ≈+6 tokens"


def test_the_config_last_used_is_compared():
    def last(config):
        return context(message("1", generation_config=config), message("2"))

    result = diff_contexts(
        last({"model": "a", "seed": 1, "top_p": 1}), last({"model": "b", "seed": 1, "n": 2})
    )
    assert result.generation_config_changes == {"model": ("a", "b"), "n": (None, 2), "top_p": (1, None)}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("ab", "abcde", "+3 messages, +9 tokens"),
        ("a", "ab", "+1 message, +3 tokens"),
        ("abc", "b", "−2 messages, −6 tokens"),
        ("abc", "aBc", "~1 changed, ±0 tokens"),
        ("", "", "no changes, ±0 tokens"),
    ],
)
def test_the_summary_in_one_line(old, new, line):
    a, b = (context(*(message(c.lower(), c) for c in text)) for text in (old, new))
    assert str(diff_contexts(a, b).stat) == line


def test_a_summary_of_everything():
    a = context(message("1"), message("2"), message("3"), message("4"))
    b = context(message("1", "x"), message("3"), message("4"), message("5"), message("6"))
    assert str(diff_contexts(a, b).stat) == "+2 messages, −1, ~1 changed, +3 tokens"


def test_a_difference_of_nothing_is_refused():
    with pytest.raises(ContentError, match="at least one message"):
        MessageDiff("changed", None, None).message  # noqa: B018


@pytest.mark.timeout(60)  # it takes 0.03 s; a quadratic algorithm takes minutes
def test_a_long_context_with_little_changed_takes_no_quadratic_time():
    many = [message(str(n)) for n in range(10_000)]
    b = [m._replace() for m in many]
    b[5_000] = b[5_000]._replace(content="changed")
    del b[100]
    stat = diff_contexts(
        CompiledContext(Prefix(many), 0, "x", None), CompiledContext(Prefix(b), 0, "x", None)
    ).stat
    assert (stat.added, stat.removed, stat.changed, stat.unchanged) == (0, 1, 1, 9_998)


def test_a_context_in_reverse_takes_no_quadratic_time():
    many = [message(str(n)) for n in range(10_000)]
    assert diff_contexts(context(*many), context(*many[::-1])).stat.unchanged == 1
