"""The compiled context on display: messages, the bar of tokens, and the fold in the middle."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notebook.outline import stands_alone
from tract_jupyter.context import Prefix
from tract_jupyter.models import CompiledContext, Message, Priority, ToolCall
from tract_jupyter.notebook.views import ContextView

HOSTILE = "</pre></details><script>alert('1')</script> & \"quotes\" \x1b[31m \u202e\x00\ud800\nnext"


def context(*messages, source="o200k_base", **parts):
    total = sum(m.token_count for m in messages) + (3 if messages else 0)
    return CompiledContext(messages, total, source, "a" * 64 if messages else None, **parts)


def text_of(*messages, **parts):
    return ContextView.of(context(*messages, **parts))._repr_mimebundle_()["text/plain"]


def html_of(*messages, **parts):
    return ContextView.of(context(*messages, **parts))._repr_mimebundle_()["text/html"]


SYSTEM = Message("system", "Be exact.", priority=Priority.PINNED, token_count=27)
USER = Message("user", "Hello", token_count=70)


def test_messages_as_text():
    assert text_of(SYSTEM, USER, max_tokens=200) == (
        "Context: 2 messages at aaaaaaaa\n"
        "100 of 200 tokens, 50 % (o200k_base)\n"
        f"[{'s' * 5}{'u' * 14}f{'·' * 20}] system 27 (27 %), user 70 (70 %), format 3 (3 %)\n"
        "#  role    priority  tokens  message\n"
        "1  system  pinned        27  Be exact.\n"
        "2  user    normal        70  Hello"
    )


def test_nothing_yet():
    for made in ContextView.of(context())._repr_mimebundle_().values():
        assert "0 tokens" in made
        assert "Nothing has been committed yet." in made


def test_an_empty_context_has_a_budget_all_the_same():
    assert "0 of 500 tokens, 0 %" in text_of(max_tokens=500)


def test_without_a_budget_the_bar_shows_shares():
    text = text_of(SYSTEM, USER)
    assert "100 tokens (o200k_base)" in text
    assert f"[{'s' * 11}{'u' * 28}f]" in text


def test_a_context_over_budget_says_so_in_red_text():
    parts = {"max_tokens": 80, "source": "approximate"}
    said = "≈100 of 80 tokens, 125 %: over budget by ≈20 (approximate)"
    assert said in text_of(SYSTEM, USER, **parts)
    html = html_of(SYSTEM, USER, **parts)
    assert f'<p class="tract-bad">{said}</p>' in html
    assert 'class="tract-limit" style="left:80.000%"' in html
    assert 'class="tract-bad"' not in html_of(SYSTEM, USER, max_tokens=100)


def test_a_budget_of_nothing_is_exceeded():
    assert "over budget by 100" in text_of(SYSTEM, USER, max_tokens=0)


def test_the_bar_reads_as_a_sentence():
    outline = stands_alone(html_of(SYSTEM, USER, max_tokens=200))
    assert (
        "100 of 200 tokens, 50 % (o200k_base); system 27 (27 %); user 70 (70 %); format 3 (3 %)"
        in (outline.attributes["aria-label"])
    )
    assert "img" in outline.attributes["role"]


@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool", "x"]), st.integers(0, 10**9))),
    st.none() | st.integers(0, 10**9),
)
def test_the_bar_is_never_wider_than_its_frame(sizes, limit):
    bundle = ContextView.of(
        context(*(Message(r, "x", token_count=n) for r, n in sizes), max_tokens=limit)
    )._repr_mimebundle_()
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", bundle["text/html"])]
    assert sum(widths) <= 100.1
    assert all(len(bar) == 40 for bar in re.findall(r"^\[(.*?)\]", bundle["text/plain"], re.MULTILINE))


def test_speakers_calls_and_failures():
    calls = (ToolCall("1", "search", {"q": "x"}), ToolCall("2", "read"))
    text = text_of(
        Message("user", "Hi", name="ann"),
        Message("assistant", "", tool_calls=calls),
        Message("tool", "gone", name="search", tool_call_id="1", is_error=True),
    )
    assert re.search(r"user ann +normal +0  Hi", text)
    assert re.search(r"assistant +normal +0  → search\(q='x'\) → read\(\)", text)
    assert re.search(r"tool search failed +normal +0  gone", text)


def test_the_whole_text_opens_from_its_first_line():
    outline = stands_alone(html_of(Message("user", "first\nsecond"), Message("user", "short")))
    assert outline.texts["summary"] == ["first …"]
    assert outline.texts["pre"] == ["first\nsecond"]
    assert outline.tags.count("details") == 1


def test_a_huge_text_is_cut_and_shows_its_size():
    html = html_of(*(Message("user", "x" * 1_000_000) for _ in range(5)))
    assert len(html) < 100_000
    assert "… 990,000 more characters" in html


@pytest.mark.parametrize("count", [0, 1, 29, 30, 31, 32, 1000])
def test_a_long_context_is_folded_in_the_middle(count):
    messages = [Message("user", f"m{number}.", token_count=2) for number in range(1, count + 1)]
    shown = [*range(1, count + 1)] if count <= 30 else [*range(1, 11), *range(count - 19, count + 1)]
    for made in ContextView.of(context(*messages))._repr_mimebundle_().values():
        assert [int(n) for n in re.findall(r"\bm(\d+)\.", made)] == shown
        hidden = count - 30
        fold = f"⋮ {hidden:,} more message{'s' * (hidden != 1)}, {2 * hidden:,} tokens"
        assert (fold in made) == (count > 30)
        assert made.count("⋮") == (count > 30)


def test_folded_messages_are_only_counted():
    # the view failed for a message without a text
    hidden = [SimpleNamespace(role="user", token_count=1)] * 100_000
    shown = [Message("user", "hello", token_count=1)]
    messages = Prefix([*shown * 10, *hidden, *shown * 20])
    text = ContextView.of(CompiledContext(messages, 100_030, "o200k_base", None))._repr_mimebundle_()[
        "text/plain"
    ]
    assert "⋮ 100,000 more messages, 100,000 tokens" in text


def test_tools_are_listed_by_name():
    tools = ({"type": "function", "function": {"name": "search"}}, {"name": "read"}, {"function": {}})
    assert "Tools: search, read, unnamed" in text_of(USER, tools=tools)
    many = tuple({"name": f"t{n}"} for n in range(50))
    assert "t39 and 10 more" in text_of(USER, tools=many)
    assert "Tools" not in text_of(USER)


def test_priorities_are_badges_with_words():
    outline = stands_alone(html_of(*(Message("user", "x", priority=priority) for priority in Priority)))
    for priority in Priority:
        assert priority.value in outline.texts["span"]


def test_hostile_text_is_only_text():
    tool = {"function": {"name": HOSTILE}}
    message = Message(
        HOSTILE, HOSTILE, name=HOSTILE, tool_calls=(ToolCall("1", HOSTILE, {HOSTILE: HOSTILE}),)
    )
    bundle = ContextView.of(
        context(message, message, tools=(tool,), source=HOSTILE.replace("\ud800", ""))
    )._repr_mimebundle_()
    assert "</pre></details><script>alert('1')</script>" in stands_alone(bundle["text/html"]).text
    for made in bundle.values():
        assert "\ud800" not in made


@given(st.text(), st.text(max_size=20))
def test_any_text_gives_balanced_html_and_a_line_each(content, name):
    bundle = ContextView.of(context(Message("user", content, name=name), USER))._repr_mimebundle_()
    stands_alone(bundle["text/html"])
    assert len(bundle["text/plain"].splitlines()) <= 6
