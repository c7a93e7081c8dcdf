"""Text of unknown origin is displayed without hidden characters."""

# ruff: noqa: RUF001 # the tests use such characters

from __future__ import annotations

import unicodedata

import pytest

from tract_jupyter.models import (
    counted,
    cut,
    cut_middle,
    cut_with_size,
    distinct,
    distinct_repr,
    more_characters,
    one_line,
    printable,
    shortened,
    show_value,
)


@pytest.mark.parametrize("hidden", [
    "\x00", "\x1b", "\r", "\x0c", "\x85", "\x9b", "\u2028", "\ud800",  # control characters and line ends
    "\u202e", "\u2066", "\u200e", "\u061c", "\u206f",  # text direction
    "\u200b", "\u200d", "\u2060", "\ufeff", "\xad", "\u034f", "\U000e0041", "\U000e0100", "\ufe0f",  # zero width
    "\u3164", "\u115f", "\uffa0", "\u2800", "\ufffc", "\U00016fe4", "\U0001d159",  # invisible
    "\u2065", "\ufff0", "\U0001bca0", "\U00013430", "\U00013439", "\U000110bd", "\U000e0fff", "\ufe00", "\u0600",
])  # fmt: skip
def test_each_hidden_character_is_replaced_by_one_marker(hidden):
    assert printable(f"a{hidden}b") == "a\ufffdb"


@pytest.mark.parametrize("text", ["", "a\tb\nc", "é ä 漢字 مرحبا שלום", "a\u0301", "⚠\ufe0f done ✔"])
def test_visible_text_is_not_changed(text):
    assert printable(text) == text


@pytest.mark.parametrize(("text", "shown"), [
    ("\u2764\ufe0f", "\u2764\ufe0f"), ("\u2b50\ufe0f", "\u2b50\ufe0f"), ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
    ("漢\U000e0100", "漢\U000e0100"), ("漢\ufe00", "漢\ufe00"), ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f\ufffd"),
    ("1\ufe0f", "1\ufffd"), ("!\ufe0f", "!\ufffd"), ("→\ufe0f", "→\ufffd"), ("漢\U000e0100\U000e0101", "漢\U000e0100\ufffd"),
    ("\u2764\ufe01", "\u2764\ufffd"), ("\ufe0f", "\ufffd"),
])  # fmt: skip
def test_a_variation_selector_is_kept_only_after_an_emoji_or_ideograph(text, shown):
    assert printable(text) == shown


def test_all_ignorable_and_format_characters_are_marked():
    ignorable = [
        0xAD, 0x34F, 0x61C, range(0x115F, 0x1161), range(0x17B4, 0x17B6), range(0x180B, 0x1810), range(0x200B, 0x2010),
        range(0x202A, 0x202F), range(0x2060, 0x2070), 0x3164, range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
        range(0xFFF0, 0xFFF9), range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B), range(0xE0000, 0xE1000),
    ]  # fmt: skip
    codes = [code for one in ignorable for code in ([one] if isinstance(one, int) else one)]
    codes += [code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"]
    assert [hex(code) for code in codes if printable(f"a{chr(code)}b") != "a\ufffdb"] == []


def test_a_text_in_doubt_has_marks_and_a_note():
    assert distinct("plain é\tx") == ("plain é\tx", "")
    assert distinct("a\xa0b\u200b") == (
        "a\ufffdb\ufffd", "hidden or unusual characters: column 2 U+00A0, column 4 U+200B"
    )  # fmt: skip
    assert "and 48 more (sha256 of the text: " in distinct("\u200b" * 80)[1]
    assert distinct_repr({"a": "b\u2800c\ufe0f"}) == "{'a': 'b\\u2800c\\ufe0f'}"


@pytest.mark.parametrize(("text", "other"), [
    ("i\u0307", "i"), ("o\u0338", "ø"), ("a\u0335", "a"), ("1\u0338", "1"), ("-\u0305", "-"), ("д\u0306", "д"), ("é\u0323\u0301", "é"), ("か\u309a", "か"), ("a\u05b0", "a"),
    ("מ\u0301", "מ"), ("م\u064f\u064f", "م\u064f"), ("e\u0301", "é"), ("a\u20e3", "a"), ("a\u0489", "a"), ("İ\u0307", "İ"), ("ß\u0304", "ß"),
    *(("a" + sign + "b", "a-b") for sign in "\u2010\u2011\u2012\u2212\u02d7\ufe63"), ("a\u2015b", "a—b"), ("a\u2024b", "a.b"), ("a\u2236b", "a:b"), ("a\u2215b", "a/b"), ("a\u037eb", "a;b"),
    ("a\u201ab", "a,b"), ("ǃ", "!"), ("∣", "|"), ("ʼ", "’"), ("ﬁ", "fi"), ("ⅳ", "iv"), ("\U0001d68a", "a"), ("ℯ", "e"), ("ɡo", "go"),
    ("pаypal", "paypal"), ("сор", "cop"), ("Αdmin", "Admin"), ("ΑΒΕ", "ABE"), ("μs", "µs"), ("gօօgle", "google"), ("ᎪᎡ", "AR"),
])  # fmt: skip
def test_of_two_texts_that_look_alike_one_has_a_mark(text, other):
    assert distinct(text)[1]
    assert not distinct(other)[1] or distinct(text) != distinct(other)
    assert distinct_repr(text) != distinct_repr(other)


@pytest.mark.parametrize("text", [
    "é ü ñ ø Å ą ő Việt Nam Łódź İstanbul", "У нас в доме сор, а он рос", "Αθήνα και ο νους", "αβγ Δt λmax σ2 10 µs", "שָׁלוֹם עֲלֵיכֶם", "مُحَمَّدٌ", "नमस्ते हिन्दी", "สวัสดีที่นี่", "がぎ ハ パ",
    "한국어", "ԱՐԵՎ արև", "தமிழ் বাংলা ខ្មែរ བོད་", "10–20 — “don’t” … №5 ½ ² ™", "（ｆｕｌｌ）", "1\ufe0f\u20e3 ❤\ufe0f", "Հայերեն", "→ ✓ · • × ≤",
])  # fmt: skip
def test_usual_text_of_many_languages_has_no_mark(text):
    assert distinct(text) == (text, "")


def test_the_line_ends_of_windows_are_line_ends():
    assert printable("a\r\nb") == "a\nb"


def test_text_is_shortened_before_it_is_marked():
    assert printable("ab\x1bcd", 3) == "ab\ufffd"


def test_a_number_has_its_noun():
    assert [counted(number, "call") for number in (0, 1, 1_200)] == ["0 calls", "1 call", "1,200 calls"]


@pytest.mark.parametrize(("cutter", "limit", "cases"), [
    (cut, 6, {"": "", "abcdef": "abcdef", "abcdefg": "abcde…", "a b\nc d": "a b\nc…", "\x1b" * 7: "\x1b" * 5 + "…"}),
    (cut_with_size, 3, {"": "", "abc": "abc", "abcd": "abc… (4 characters)", "x" * 2_000: "xxx… (2,000 characters)"}),
    (more_characters, 3, {"": "", "abc": "", "abcd": "… 1 more characters", "x" * 2_003: "… 2,000 more characters"}),
    (shortened, 6, {"": "", "abcdef": "abcdef", "abcdefg": "abcde…", "abcd  g": "abcd…", "a\nb\x1b": "a\nb\ufffd"}),
    (one_line, 6, {"": "", "a\n  b\tc": "a b c", "abcdefg": "abcde…", "ab\x1bc": "ab\ufffdc", "a" + " " * 30 + "b": "a…"}),
    (cut_middle, 6, {"abcdef": "abcdef", "abcdefg": "abc\n… 1 character left out …\nefg"}),
    (cut_middle, 4, {"a" * 20: "aa\n… 16 characters left out …\naa"}),
    (show_value, 4, {"ab": "'ab'", "abcdef": "'abc… (6 characters)"}),
])  # fmt: skip
def test_a_text_is_cut(cutter, limit, cases):
    assert {given: cutter(given, limit) for given in cases} == cases


def test_a_large_value_is_cut_before_its_repr():
    assert show_value(list(range(2_000)), 4) == "[0, … (2,000 entries)"
    assert (
        show_value(dict.fromkeys(range(9), 1), 40) == "{0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: … (9 entries)"
    )
