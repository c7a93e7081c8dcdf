"""Whether a text that a model wrote reads as a short, plain note in English, and as nothing else.

It is a rule for what a model may clear, so it lets through what it knows, and not what it merely does not know: plain
characters, words that notes are made of or that the person used, sentences that state something. What addresses
somebody, orders something, names a place to send to, speaks of permission, secrets or code, is in another language or
alphabet, or looks encoded, is a person's to read. It cannot tell what a text means: many harmless notes are not let
through, and its words are English alone, which is why no other language passes. They are in `plain_words.toml`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LONGEST: Final = 600
"""Characters of a note."""
_MOST_LINES: Final = 12
_LONGEST_WORD: Final = 22
_LONGEST_PART: Final = 14
_LONGEST_LABEL: Final = 40
_MOST_PARTS: Final = 4
_LAST_LATIN: Final = "\u017f"
_LEAST_SHARE: Final = 0.12
"""The share of function words that English has, and no other language, in an English text; one at least."""
_MANY: Final = 8  # words, of which one may be from another language
_TYPED: Final = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"}
)
_PLAIN: Final = frozenset(" \n.,;:!?'\"()-%/+&\u00b0\u20ac")
_EDGES: Final = ".,;:!?'\"()-&+%\u00b0\u20ac"
_WORD: Final = re.compile(
    r"[A-Z]?[a-z]+(?:['-](?:[A-Z]?[a-z]+|[A-Z]{2,5}|\d{1,4}))*"  # word, Word, well-known, it's
    r"|[A-Z]{1,6}s?(?:-[A-Za-z]+)?"  # CSV, URLs
    r"|[A-Za-z]{1,4}\d{1,3}"  # Q3, v2
)
_UNITS: Final = "st|nd|rd|th|x|k|m|s|h|ms|km|kg|cm|mm|am|pm"
_NUMBER: Final = re.compile(rf"[+-]?\d{{1,7}}(?:[.,:-]\d{{1,4}}){{0,3}}(?:{_UNITS})?")
_ABBREVIATIONS: Final = frozenset({"e.g", "i.e", "a.m", "p.m"})
_SPACED: Final = re.compile(r"(?:\b\w\b[\W_]+){3,}\b\w\b")
"""Letters that stand apart: `i g n o r e`."""
_SPEAKER: Final = re.compile(r"(?im)(?:^|[.;!?\"(]\s*)[a-z]+(?: [a-z]+)?(?:\s*[:>]|\s+says?\b|\s+said\b)")
"""A name, and what it says."""
_START: Final = r"(?:^|[.;:!?\n(\"]|(?<=\s)-\s"
_BEGINS: Final = re.compile(_START + r")\s*(?=([A-Za-z'-]+))")
_BEGINS_CLAUSE: Final = re.compile(
    _START + r"|,|\b(?:and|then|now|so|also|just|simply|first|next|finally|or|but|to)\b)\s*(?=([A-Za-z'-]+))"
)
_LABEL: Final = re.compile(r"[a-z0-9]+(?:[-_/][a-z0-9]+)*")
_ODD_PART: Final = re.compile(r"[a-z]*\d+[a-z]+\w*|\d{7,}")


class _Words(NamedTuple):
    """The words of the file.

    Attributes:
        english: function words of English alone.
        foreign: function words of other languages.
        orders: verbs that begin an order.
        nouns: of these, those that are as common as nouns.
        telling: what a note has no need of.
        labels: words that name something, and say nothing else.
        vocabulary: words of notes.
    """

    english: frozenset[str]
    foreign: frozenset[str]
    orders: frozenset[str]
    nouns: frozenset[str]
    telling: re.Pattern[str]
    labels: frozenset[str]
    vocabulary: frozenset[str]


@cache
def _words() -> _Words:
    told = tomllib.loads(Path(__file__).with_name("plain_words.toml").read_text(encoding="utf-8"))
    telling = [one for group in told["telling"].values() for one in group.split()]
    return _Words(
        frozenset(told["english"]["function"].split()),
        frozenset(told["foreign"]["function"].split()),
        frozenset(told["orders"]["verbs"].split()),
        frozenset(told["orders"]["nouns"].split()),
        re.compile("|".join(telling)),
        frozenset(told["labels"]["words"].split()),
        frozenset(told["vocabulary"]["words"].split()),
    )


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, in small letters."""
    return frozenset(re.findall(r"[a-z]+", text.lower()))


def why_no_note(text: str, used: Collection[str] = ()) -> str:
    """Return why a text does not read as a plain note; empty if it does.

    Args:
        text: the text.
        used: words that the person used.
    """
    return next(_problems(text.translate(_TYPED), used), "") if text else ""


def why_no_label(text: str, *, unknown: int = 1) -> str:
    """Return why a text is no plain label, such as `decision` or `topic/first-try`; empty if it is one.

    Args:
        text: the text.
        unknown: how many of its words may be other ones than those that are known to name something.
    """
    if not _LABEL.fullmatch(text) or len(text) > _LONGEST_LABEL:
        return "a name in it is no plain one: small letters, digits and '-', at most a few words"
    words, parts = _words(), re.split(r"[-_/]", text)
    if len(parts) > _MOST_PARTS or any(len(one) > _LONGEST_PART or _ODD_PART.fullmatch(one) for one in parts):
        return "a name in it says more than a name does"
    known = words.labels | words.english | {"decision"}
    others = [one for one in parts if one not in known and not one.isdigit()]
    if len(others) > unknown or any(words.telling.fullmatch(one) for one in others):
        return "a name in it says more than a name does"
    if len(parts) > 1 and any(one in words.orders for one in others):
        return "a name in it may order something"
    return ""


def _problems(text: str, used: Collection[str]) -> Iterator[str]:
    if len(text) > LONGEST or text.count("\n") >= _MOST_LINES:
        yield "a text in it is too long"
    if unicodedata.normalize("NFC", text) != text or not all(map(_is_plain, text)):
        yield "a text in it has characters that are not plain ones"
    tokens = [token for token in (one.strip(_EDGES) for one in re.split(r"[\s/]+|--+", text)) if token]
    if not all(map(_is_word, tokens)) or _SPACED.search(text):
        yield "a text in it has something that is no ordinary word: an address, a path, code, or what is encoded"
    if _SPEAKER.search(text):
        yield "a text in it speaks as somebody"
    whole = [token.lower() for token in tokens]
    parts = [part for word in whole for part in re.split(r"['-]", word) if part]
    if any(_words().telling.fullmatch(one) for one in {*parts, *whole}):
        yield "a text in it addresses or orders somebody, or speaks of permission, secrets, addresses or code"
    said = [part for part in parts if not part[:1].isdigit()]
    if len(parts) - len(said) > len(said) + 2:
        yield "a text in it is mostly numbers"
    if not _is_english(said):
        yield "a text in it is not plain English, as far as its words tell"
    if _unknown(parts, used) > max(1, len(parts) // _MANY):
        yield "a text in it has words that a plain note has no need of, and that the person did not use"
    if _may_order(text):
        yield "a text in it may order something"


def _is_plain(character: str) -> bool:
    if character in _PLAIN:
        return True
    if character.isascii():
        return character.isalnum()
    return character.isalpha() and character <= _LAST_LATIN and "LATIN" in unicodedata.name(character, "")


def _is_word(token: str) -> bool:
    decomposed = unicodedata.normalize("NFD", token)
    letters = "".join(one for one in decomposed if not unicodedata.combining(one))
    if len(token) > _LONGEST_WORD or not letters.isascii():
        return False
    return bool(_WORD.fullmatch(letters) or _NUMBER.fullmatch(letters)) or letters.lower() in _ABBREVIATIONS


def _is_english(parts: list[str]) -> bool:
    """Return True if the function words are English ones."""
    words, some = _words(), max(1, len(parts) // _MANY)
    if sum(part in words.foreign for part in parts) > (len(parts) > _MANY):
        return False
    if sum(not part.isascii() for part in parts) > some:
        return False
    return sum(part in words.english for part in parts) >= max(1, _LEAST_SHARE * len(parts))


def _unknown(parts: list[str], used: Collection[str]) -> int:
    """Count the words that are neither known nor used by the person."""
    words = _words()
    known = (words.vocabulary, words.english, words.labels, used)
    return sum(not any(part in some for some in known) for part in parts if not part[:1].isdigit())


def _may_order(text: str) -> bool:
    """Return True if a clause begins with a verb, as orders do."""
    words = _words()
    if any(one.lower() in words.orders - words.nouns for one in _BEGINS_CLAUSE.findall(text)):
        return True
    return any(one in words.orders for one in _BEGINS.findall(text))
