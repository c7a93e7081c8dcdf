"""Text of unknown origin is shown so that nothing hides in it."""

from __future__ import annotations

import pytest

from tract_jupyter.models.text import printable


@pytest.mark.parametrize("hidden", [
    "\x00", "\x1b", "\r", "\x0c", "\x85", "\x9b", "\u2028", "\ud800",  # a terminal's, and what ends a line somewhere
    "\u202e", "\u2066", "\u200e", "\u061c", "\u206f",  # what turns text around
    "\u200b", "\u200d", "\u2060", "\ufeff", "\xad", "\u034f", "\U000e0041", "\U000e0100", "\ufe0f",  # of no width
    "\u3164", "\u115f", "\uffa0", "\u2800",  # letters that are seen as nothing
])  # fmt: skip
def test_what_cannot_be_seen_is_marked_and_columns_stay(hidden):
    assert printable(f"a{hidden}b") == "a\ufffdb"


@pytest.mark.parametrize("text", ["", "a\tb\nc", "é ä 漢字 مرحبا שלום", "a\u0301", "⚠\ufe0f done ✔"])
def test_other_text_stays(text):
    assert printable(text) == text


def test_the_line_ends_of_windows_are_line_ends():
    assert printable("a\r\nb") == "a\nb"


def test_it_is_cut_first():
    assert printable("ab\x1bcd", 3) == "ab\ufffd"
