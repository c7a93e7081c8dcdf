"""The view of a difference: added, removed and changed lines and words."""
# ruff: noqa: RUF001 # the minus sign is intended

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu import cpu_seconds
from tests.notebook.outline import stands_alone
from tract_jupyter.context import diff_contexts
from tract_jupyter.models import CompiledContext, Message, Priority, ToolCall
from tract_jupyter.notebook.views import DiffView, diff_lines

HOSTILE = "</pre></ins><script>alert('1')</script> & \"quotes\" \x1b[31m \u202e\x00\ud800\nnext"


def context(*messages, head="a", source="o200k_base"):
    return CompiledContext(messages, sum(m.token_count for m in messages), source, head * 64)


def message(name, content=None, role="user", **parts):
    return Message(role, name if content is None else content, commit_hash=name * 64, token_count=5, **parts)


def views(old, new, **parts):
    return DiffView(
        diff_contexts(context(*old, **parts), context(*new, head="b", **parts))
    )._repr_mimebundle_()


def text_of(old, new, **parts):
    return views(old, new, **parts)["text/plain"]


def test_everything_as_text():
    old = [message("1"), message("2"), message("3", "one\ntwo"), message("4")]
    new = [message("1"), message("3", "one\n2\nthree"), message("4"), message("5", "hi", role="assistant")]
    assert text_of(old, new) == (
        "Difference aaaaaaaa → bbbbbbbb: +1 message, −1, ~1 changed, ±0 tokens\n"
        "  ⋮ 1 unchanged message\n"
        "− user 22222222 · −5 tokens\n"
        "    2\n"
        "~ user 33333333 · ±0 tokens\n"
        "      one\n"
        "    - two\n"
        "    + 2\n"
        "    + three\n"
        "  ⋮ 1 unchanged message\n"
        "+ assistant 55555555 · +5 tokens\n"
        "    hi"
    )


def test_html_says_the_same():
    html = views([message("1", "the quick fox")], [message("1", "the slow fox"), message("2")])["text/html"]
    outline = stands_alone(html)
    assert "+1 message, ~1 changed, +5 tokens" in outline.text
    assert outline.texts["del"] == ["quick "]
    assert outline.texts["ins"] == ["slow "]
    assert "~ changed" in outline.texts["b"]
    assert "+ added" in outline.texts["b"]


def test_nothing_changed():
    same = [message("1"), message("2")]
    for made in views(same, same).values():
        assert "no changes, ±0 tokens" in made
        assert "⋮ 2 unchanged messages" in made
    assert "no changes" in text_of([], [])


def test_from_nothing():
    empty = CompiledContext((), 0, "o200k_base", None)
    made = DiffView(diff_contexts(empty, context(message("1"))))._repr_mimebundle_()["text/plain"]
    assert made.startswith("Difference nothing → aaaaaaaa: +1 message, +5 tokens")


def test_estimates_are_marked():
    assert "· ≈+5 tokens" in text_of([], [message("1")], source="approximate")


def test_changes_of_metadata_are_shown():
    one = message("1")
    calls = (ToolCall("7", "read"),)
    other = one._replace(
        priority=Priority.PINNED,
        content_type="output",
        generation_config={"model": "m"},
        tool_calls=calls,
        name="ann",
    )
    text = text_of([one], [other])
    for said in ("priority: normal → pinned", "type: dialogue → output", "calls: [] → ['7']", "model: not set → 'm'",
                 "~ user → user ann 11111111", "    + → read()"):  # fmt: skip
        assert said in text
    assert "priority: pinned" in text_of([], [other])
    assert "priority" not in text_of([], [one])


def test_a_change_of_another_commit_names_both():
    assert "~ user 11111111 → 22222222" in text_of([message("1")], [message("2")])


def test_a_change_of_the_config_is_shown_once():
    text = text_of(
        [message("1", generation_config={"model": "a"})], [message("1", generation_config={"model": "b"})]
    )
    assert text.splitlines()[1] == "model: 'a' → 'b'"


def test_many_changes_are_cut_and_counted():
    new = [Message("user", "x", commit_hash=f"{n:064}", token_count=1) for n in range(5_000)]
    for made in views([], new).values():
        assert "+5,000 messages" in made
        assert "⋮ 4,900 more changes" in made
        assert len(made) < 100_000


def test_changes_apart_are_cut_too():
    old = [Message("user", f"{n}", commit_hash=f"{n:064}") for n in range(500)]
    new = [m._replace(content="x") if n % 2 else m for n, m in enumerate(old)]
    text = text_of(old, new)
    assert len(re.findall(r"^~ ", text, re.MULTILINE)) == 100
    assert text.endswith("⋮ 150 more changes")


def test_a_long_message_that_came_or_went_is_cut():
    text = text_of([], [message("1", "\n".join(map(str, range(100))))])
    assert "    ⋮ 88 more lines" in text
    html = views([], [message("1", "x" * 1_000_000)])["text/html"]
    assert "… 990,000 more characters" in html
    assert len(html) < 30_000


def test_hostile_text_is_only_text():
    hostile = message("1")._replace(content=HOSTILE, name=HOSTILE, generation_config={HOSTILE: HOSTILE})
    changed = hostile._replace(content=HOSTILE + " more", generation_config={HOSTILE: "x"})
    for old, new in (([], [hostile]), ([hostile], []), ([hostile], [changed]), ([message("1")], [hostile])):
        bundle = views(old, new)
        assert "<script>alert('1')</script>" in stands_alone(bundle["text/html"]).text
        for made in bundle.values():
            assert not set("\x1b\u202e\x00\ud800") & set(made)


# lines and words


def test_equal_texts_have_no_lines():
    assert diff_lines("a\nb", "a\nb") == []


def test_gaps_are_counted():
    old = [str(n) for n in range(100)]
    new = [*old]
    new[20], new[70] = "x", "y"
    lines = diff_lines("\n".join(old), "\n".join(new))
    remarks = [line.text for line in lines if line.sign == "@"]
    assert remarks == ["⋮ 17 equal lines", "⋮ 43 equal lines", "⋮ 26 equal lines"]
    assert [line.text for line in lines if line.sign in "+-"] == ["20", "x", "70", "y"]


def test_the_words_of_hostile_lines_are_compared_in_bounded_time():
    old = "".join(chr(0x2200 + n % 150) for n in range(4_000))
    new = "".join(sign + chr(0x2500 + n % 120) for n, sign in enumerate(old[:2_000]))
    with cpu_seconds() as seconds:
        lines = diff_lines("\n".join([old] * 20), "\n".join([new] * 20))
    assert seconds[0] < 10  # difflib needs two minutes
    assert [line.text for line in lines] == [old] * 20 + [new] * 20


def test_a_word_within_a_long_paragraph_is_marked():
    old = "This is one of many sentences. " * 50
    new = old.replace("many", "very many", 1)
    removed, added = diff_lines(old, new)
    assert (removed.sign, added.sign) == ("-", "+")
    assert [text for differs, text in added.pieces if differs] == ["very "]
    assert not any(differs for differs, _ in removed.pieces)


def test_words_are_not_marked_in_very_different_lines():
    lines = diff_lines("one thing", "quite another sentence altogether")
    assert not any(differs for line in lines for differs, _ in line.pieces)


def test_a_huge_line_is_shown_around_the_difference():
    lines = diff_lines("x" * 1_000_000 + "old", "x" * 1_000_000 + "new")
    assert [line.text[-3:] for line in lines] == ["old", "new"]
    assert all(len(line.text) < 5_000 and line.text[0] == "…" for line in lines)


def test_texts_of_very_many_lines_are_sampled():
    old, new = ("\n".join(f"{kind} {n}" for n in range(50_000)) for kind in ("a", "b"))
    lines = diff_lines(old, new)
    assert len(lines) <= 201
    assert lines[-1].text == "⋮ 49,920 more lines"


TEXTS = st.lists(st.sampled_from(["", "a", "b", "a b", "a c", "\tx"]), max_size=20).map("\n".join)


@given(TEXTS, TEXTS)
def test_lines_that_are_not_left_out_give_both_texts_back(old, new):
    lines = diff_lines(old, new)
    if not lines:
        assert old == new
        return
    gaps = sum(int(re.search(r"\d+", line.text).group()) for line in lines if line.sign == "@")
    for text, signs in ((old, " -"), (new, " +")):
        shown = [line.text for line in lines if line.sign in signs]
        assert len(shown) + gaps == len(text.split("\n"))
        assert not [line for line in shown if line not in text.split("\n")]


@given(st.text(), st.text())
def test_any_texts_give_balanced_html(old, new):
    bundle = views([message("1", old)], [message("1", new), message("2", old)])
    stands_alone(bundle["text/html"])


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_line_ends_of_both_kinds(newline):
    lines = diff_lines(f"a{newline}b", f"a{newline}c")
    assert [(line.sign, line.text) for line in lines] == [(" ", "a"), ("-", "b"), ("+", "c")]
