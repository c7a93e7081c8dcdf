"""Text of unknown origin is shown so that nothing hides in it."""

from __future__ import annotations

import pytest

from tract_jupyter.models import counted, cut_middle, printable


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


def test_a_number_has_its_noun():
    assert [counted(number, "call") for number in (0, 1, 1_200)] == ["0 calls", "1 call", "1,200 calls"]


def test_a_long_text_is_cut_in_the_middle():
    assert cut_middle("abcdef", 6) == "abcdef"
    assert cut_middle("abcdefg", 6) == "abc\n… 1 character left out …\nefg"
    assert cut_middle("a" * 20, 4) == "aa\n… 16 characters left out …\naa"
