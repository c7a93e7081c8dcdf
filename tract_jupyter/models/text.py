"""Display of values and texts of unknown origin. These functions never raise, and they hide nothing."""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata
from functools import wraps
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from datetime import datetime


_BRIEF = 60

# Controls, surrogates and noncharacters; Unicode's Default_Ignorable_Code_Point and category Cf; glyphs without ink.
# A variation selector is not hidden if it is the only one behind an emoji (FE0F) or an ideograph.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
_IGNORABLE = (
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_BLANK = "\u2800\u2d7f\ufffc\U0001107f\U00013441\U00013442\U00016fe4\U0001d159"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# emoji that are black and white signs without a selector, which makes a visible difference
_TEXT_EMOJI = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u2328\u23cf\u23ed-\u23ef\u23f1\u23f2\u23f8-\u23fa\u24c2"
    "\u25aa\u25ab\u25b6\u25c0\u25fb\u25fc\u2600-\u2604\u260e\u2611\u2618\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f"
    "\u2638-\u263a\u2640\u2642\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u2692\u2694-\u2697\u2699\u269b\u269c\u26a0"
    "\u26a7\u26b0\u26b1\u26c8\u26cf\u26d1\u26d3\u26e9\u26f0\u26f1\u26f4\u26f7-\u26f9\u2702\u2708\u2709\u270c\u270d\u270f"
    "\u2712\u2714\u2716\u271d\u2721\u2733\u2734\u2744\u2747\u2763\u2764\u27a1\u2934\u2935\u2b05-\u2b07\u3030\u303d\u3297"
    "\u3299\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f321\U0001f324-\U0001f32c\U0001f336\U0001f37d\U0001f396\U0001f397"
    "\U0001f399-\U0001f39b\U0001f39e\U0001f39f\U0001f3cb-\U0001f3ce\U0001f3d4-\U0001f3df\U0001f3f3\U0001f3f5\U0001f3f7"
    "\U0001f43f\U0001f441\U0001f4fd\U0001f549\U0001f54a\U0001f56f\U0001f570\U0001f573-\U0001f579\U0001f587\U0001f58a-\U0001f58d"
    "\U0001f590\U0001f5a5\U0001f5a8\U0001f5b1\U0001f5b2\U0001f5bc\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3"
    "\U0001f5dc-\U0001f5de\U0001f5e1\U0001f5e3\U0001f5e8\U0001f5ef\U0001f5f3\U0001f5fa\U0001f6cb\U0001f6cd-\U0001f6cf"
    "\U0001f6e0-\U0001f6e5\U0001f6e9\U0001f6f0\U0001f6f3"
)
_COLOUR_EMOJI = (
    "\u231a\u231b\u23e9-\u23ec\u23f0\u23f3\u25fd\u25fe\u2614\u2615\u2648-\u2653\u267f\u2693\u26a1\u26aa\u26ab\u26bd\u26be"
    "\u26c4\u26c5\u26ce\u26d4\u26ea\u26f2\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c\u274e\u2753-\u2755\u2757"
    "\u2795-\u2797\u27b0\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f004\U0001f0cf\U0001f18e\U0001f191-\U0001f19a\U0001f1e6-\U0001f202"
    "\U0001f21a\U0001f22f\U0001f232-\U0001f23a\U0001f250\U0001f251\U0001f300-\U0001f64f\U0001f680-\U0001f6ff"
    "\U0001f7e0-\U0001f7f0\U0001f900-\U0001f9ff\U0001fa70-\U0001faff"
)
_KEYCAP = "(?:(?<=[#*0-9])\ufe0f(?=\u20e3))"
_ALWAYS = f"[{_CONTROLS}{_IGNORABLE}{_BLANK}]"
_HIDDEN = re.compile(
    f"{_ALWAYS}|(?!{_KEYCAP}|(?<=[{_TEXT_EMOJI}{_COLOUR_EMOJI}])\ufe0f"
    f"|(?<=[{_IDEOGRAPHS}])[\ufe00-\ufe02\U000e0100-\U000e01ef])[{_SELECTORS}]"
)
_INDISTINCT = re.compile(f"{_ALWAYS}|\ufffd|(?!{_KEYCAP}|(?<=[{_TEXT_EMOJI}])\ufe0f)[{_SELECTORS}]")
# Signs and letters that look like one of ASCII, or like a more usual one. Dashes and curly quotes are longer or bent.
_ALIKE = frozenset(
    "\u2010\u2011\u2012\u2015\u2212\u02d7\u2043\u06d4\u201a\u2236\ua789\u02d0\u0589\u05c3\u2044\u2215\u2571\u29f8\u2216\u29f5\u29f9"
    "\u01c3\u2223\u01c0\u2758\u223c\u02dc\u2053\u02b9\u02bb\u02bc\u02bd\u2032\u2035\u2217\u204e\u066d\u02c2\u02c3\u02c4\u02c6\u02cd"
    "\ua78a\u2219\u22c5\u2027\u0261\u0251\u0269"
)
# of characters that differ from their decomposition in nothing
_TAGS = ("<font>", "<compat>", "<small>", "<noBreak>")
_PLAIN = frozenset("…№")  # but for these
# letters of other alphabets that look like letters of ASCII, and U+03BC, which looks like U+00B5
_LETTERS = {
    "CYRILLIC": frozenset("аеорсухіјѕһԁԛԝѵӏАВЕКМНОРСТУХІЈЅԌԚԜҮӀ"),
    "GREEK": frozenset("ονμϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"),
    "ARMENIAN": frozenset("օսոհցզյՕՍԼ"),
    "CHEROKEE": frozenset(
        "\u13a0\u13a1\u13a2\u13aa\u13ab\u13ac\u13b3\u13b7\u13bb\u13c0"
        "\u13c3\u13cf\u13d9\u13da\u13de\u13df\u13e2\u13e6"
    ),
    "LISU": frozenset(map(chr, range(0xA4D0, 0xA4F8))),
}
_WORD = re.compile(r"[^\W\d_]+")
_JAMO = range(0x1161, 0x1200)  # vowels and final consonants, which join the letter before
_MARK = "\ufffd"
_MOST_NOTED = 32


def hidden_characters(text: str) -> Iterator[re.Match[str]]:
    """Yield the characters that are not visible or that change the direction of text, but no control characters."""
    return (match for match in _HIDDEN.finditer(text) if unicodedata.category(match[0]) != "Cc")


def printable(text: str, limit: int | None = None) -> str:
    """Return the first `limit` characters, with a mark for each character without a glyph. Line ends and tabs stay."""
    visible = text if limit is None else text[:limit]
    return _HIDDEN.sub(_MARK, visible.replace("\r\n", "\n"))


def distinct(text: str) -> tuple[str, str]:
    """Return a text with a mark for each doubtful character, and a note about these characters.

    A character is doubtful if it has no glyph, or looks like another one or like nothing: other spaces and hyphens,
    marks on letters of another alphabet, Cyrillic letters among Latin ones. The note names each one, with its column
    from 1. It is empty without doubtful characters. Two texts that differ only in such characters have the same marks,
    and different notes.
    """
    places = _doubtful(text)
    if not places:
        return text, ""
    marked = list(text)
    for place in places:
        marked[place] = _MARK
    named = ", ".join(f"column {place + 1} U+{ord(text[place]):04X}" for place in places[:_MOST_NOTED])
    more = len(places) - _MOST_NOTED
    if more > 0:
        rest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        named += f" and {more:,} more (sha256 of the text: {rest})"
    return "".join(marked), f"hidden or unusual characters: {named}"


def distinct_repr(value: Any) -> str:
    """Return the repr, with an escape for each doubtful character; see `distinct`."""
    text = repr(value)
    places = _doubtful(text)
    if not places:
        return text
    parts = list(text)
    for place in places:
        code = ord(text[place])
        parts[place] = f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 # as repr
    return "".join(parts)


def _doubtful(text: str) -> list[int]:
    """Return the places of the characters that a reader cannot tell from others, or does not see."""
    if text.isascii() and text.isprintable():
        return []
    places = {match.start() for match in _INDISTINCT.finditer(text)}
    places |= {at for at, char in enumerate(text) if not char.isprintable() and char not in "\t\n"}
    if not unicodedata.is_normalized("NFC", text):
        places |= {at for at, char in enumerate(text) if _is_combined(char)}
    return sorted(places.union(_loose_marks(text), _alike(text)))


def _loose_marks(text: str) -> Iterator[int]:
    """Yield the places of marks on characters of another alphabet, and of marks that repeat the one before."""
    base = before = ""
    for at, char in enumerate(text):
        if unicodedata.category(char) not in {"Mn", "Me"}:
            base = char
        elif _is_selector(char) or (char == "\u20e3" and before == "\ufe0f"):  # a keycap
            pass
        elif char == before or _alphabet(char) != _alphabet(base):
            yield at
        before = char


def _is_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0100"


def _alphabet(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0] if char else ""


def _alike(text: str) -> Iterator[int]:
    """Yield the places of characters that look like others."""
    for at, char in enumerate(text):
        is_variant = unicodedata.decomposition(char).startswith(_TAGS) and char not in _PLAIN
        if char in _ALIKE or (is_variant and unicodedata.normalize("NFKC", char).isascii()):
            yield at
    for alphabet, letters in _LETTERS.items():
        if letters.isdisjoint(text):
            continue
        has_others = any(char not in letters and _alphabet(char) == alphabet for char in set(text))
        for word in _WORD.finditer(text):
            is_mixed = any(map(str.isascii, word[0]))
            if is_mixed or (not has_others and letters.issuperset(word[0])):
                yield from (at for at in range(*word.span()) if text[at] in letters)


def _is_combined(char: str) -> bool:
    """Return True if a character joins the one before, or is another spelling of a character."""
    return unicodedata.combining(char) > 0 or ord(char) in _JAMO or unicodedata.normalize("NFC", char) != char


URL_BORDERS: Final = "/?#@\\"
"""The characters between the parts of a URL. A wildcard that matched one could move the host."""


def goes_up(place: str) -> bool:
    """Return True if a path or a URL has a part `..`, so its target is not below its beginning."""
    return ".." in re.split(r"[/\\?#]", unquote(place))


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters from the start of a text. A cut text ends with `…`."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_with_size(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text. A longer text ends with its size."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def more_characters(text: str, limit: int) -> str:
    """Return the note below a text that was cut after `limit` characters. Empty if the text is not longer."""
    return f"… {len(text) - limit:,} more characters" if len(text) > limit else ""


def shortened(text: str, limit: int) -> str:
    """Return a printable text of at most `limit` characters."""
    return printable(text) if len(text) <= limit else printable(text, limit - 1).rstrip() + "…"


def one_line(text: str, limit: int) -> str:
    """Return the beginning of the text as one line of at most `limit` characters."""
    start = " ".join(printable(text, 4 * limit).split())
    is_complete = len(start) <= limit and len(text) <= 4 * limit
    return start if is_complete else start[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 call`, `1,200 calls`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def local_time(moment: datetime) -> str:
    """Return a time in the user's zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def exact_time(moment: datetime) -> str:
    """Return a time in the user's zone, with the name of the zone."""
    return f"{local_time(moment)} {moment.astimezone().strftime('%Z')}"


def size_text(count: int) -> str:
    """Return a number of bytes in decimal units, as file managers show it."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 # kilo
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def left_out(number: int) -> str:
    """Return the line that replaces omitted characters."""
    return f"\n… {counted(number, 'character')} left out …\n"


def cut_middle(text: str, limit: int) -> str:
    """Return the text with at most `limit` characters, equally many from the beginning and the end."""
    half = limit // 2
    return text if len(text) <= limit else text[:half] + left_out(len(text) - limit) + text[-half:]


def safe_repr(value: Any) -> str:
    """Return the repr of any value. If it fails, such as for an integer of a million digits, return a description."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 # it may raise anything
        return f"<{type(value).__name__} that cannot be shown>"


Self = TypeVar("Self")


def repr_of_whole(method: Callable[[Self], str]) -> Callable[[Self], str]:
    """Decorate a `__repr__` to also work for an object whose constructor failed. Tracebacks display such objects."""

    @wraps(method)
    def described(self: Self) -> str:
        try:
            return method(self)
        except AttributeError:
            return f"<{type(self).__name__}, not completely constructed>"

    return described


def brief_repr(value: Any) -> str:
    """Return the repr in one line, cut after 60 characters."""
    # a slice first: the repr of something huge is as huge
    text = safe_repr(value[: _BRIEF + 1] if isinstance(value, str | bytes | list) else value)
    text = " ".join(text.split()) if "\n" in text else text  # a table's
    return cut(text, _BRIEF)


def show_value(value: Any, limit: int = 300) -> str:
    """Return a value as a short text. A huge value is cut and ends with its size."""
    size = len(value) if isinstance(value, str | bytes | list | dict) else 0
    if isinstance(value, str | bytes | list) and size > limit:
        value = value[:limit]
    text = safe_repr(value)
    if len(text) <= limit and size <= limit:
        return text
    return f"{text[:limit]}… ({size:,} {'characters' if isinstance(value, str | bytes) else 'entries'})"


_LONGEST = 60


def identifier(text: str) -> str:
    """Return the text as a name: other characters become `_`, a keyword gets a trailing `_`."""
    name = unicodedata.normalize("NFKC", text)  # the form in which Python reads names
    if not name.isidentifier():
        name = re.sub(r"\W", "_", name)
    if not name.isidentifier():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def argument_names(names: Iterable[str]) -> dict[str, str]:
    """Return a distinct Python name for each name, beginning with those that can be written as they are."""
    mapped: dict[str, str] = {}
    for name in sorted(names, key=lambda name: _argument_name(name) != name):
        mapped[unused(_argument_name(name), mapped)] = name
    return mapped


def unused(name: str, taken: Container[str]) -> str:
    """Return the first of `name`, `name_`, `name_2`, `name_3`, ... that is not taken."""
    return next(candidate for candidate in _candidates(name) if candidate not in taken)


def _candidates(name: str) -> Iterator[str]:
    return chain((name, f"{name}_"), (f"{name}_{number}" for number in count(2)))


def _argument_name(name: str) -> str:
    """Return a name for an argument. Type checkers treat two leading underscores as positional-only."""
    cleaned = identifier(name[:_LONGEST])
    return f"arg{cleaned}" if cleaned.startswith("__") else cleaned
