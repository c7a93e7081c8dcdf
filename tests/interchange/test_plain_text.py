from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.interchange import as_seen, bounded, without_escapes

terminal = st.text(st.sampled_from("ab\x1b[]0;m\x07\\\r\n(B"), max_size=30)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;5;12m\x1b[1mbold\x1b[22m", "bold"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b(Bx\x1b=y", "xy"),
        ("\x1b\x1b[0m[0m", "[0m"),
        ("cut \x1b", "cut "),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_escapes(text, plain):
    assert without_escapes(text) == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\r", "a"),
        ("\r\r", ""),
        ("a\nb", "a\nb"),
    ],
)
def test_lines_written_again(text, shown):
    assert as_seen(text) == shown


@given(terminal)
def test_what_was_cleaned_is_clean(text):
    assert as_seen(as_seen(text)) == as_seen(text)
    assert not set("\x1b\r") & set(as_seen(text))


@given(st.text(max_size=400), st.integers(100, 300))
def test_bounds(text, limit):
    short, left_out = bounded(text, limit)
    assert len(short) <= limit
    assert bounded(short, limit) == (short, 0)
    assert (left_out == 0) == (short == text)
    if left_out:
        head, _, tail = short.partition(f"\n[... {left_out:,} characters left out ...]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + left_out + len(tail) == len(text)
        assert abs(len(head) - len(tail)) <= 1
