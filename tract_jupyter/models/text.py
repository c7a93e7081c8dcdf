"""Display of values and texts of unknown origin. It never raises and hides nothing."""

from __future__ import annotations

import keyword
import re
import unicodedata
from itertools import chain, count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator


_BRIEF = 60

# what moves a terminal's cursor, turns the text around, cannot be seen, or cannot be encoded; and variation selectors
# within a word, where they make another name that looks the same (behind a symbol they make it an emoji)
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<=\\w)[\ufe00-\ufe0f]"
)


def printable(text: str, limit: int | None = None) -> str:
    """Return the first `limit` characters, with a mark for each that cannot be shown; line ends and tabs stay."""
    shown = text if limit is None else text[:limit]
    return _UNSHOWABLE.sub("\ufffd", shown.replace("\r\n", "\n"))


def shortened(text: str, limit: int) -> str:
    """Return a text fit to be shown, of at most `limit` characters."""
    return printable(text) if len(text) <= limit else printable(text, limit - 1).rstrip() + "…"


def one_line(text: str, limit: int) -> str:
    """Return the beginning of the text as one line of at most `limit` characters."""
    start = " ".join(printable(text, 4 * limit).split())
    whole = len(start) <= limit and len(text) <= 4 * limit
    return start if whole else start[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 call`, `1,200 calls`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size_text(count: int) -> str:
    """Return a number of bytes in decimal units, as file managers show it."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 # kilo
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def left_out(number: int) -> str:
    """Return the line that stands in the place of characters that were left out."""
    return f"\n… {counted(number, 'character')} left out …\n"


def cut_middle(text: str, limit: int) -> str:
    """Return the text with at most `limit` characters, as many of the beginning as of the end."""
    half = limit // 2
    return text if len(text) <= limit else text[:half] + left_out(len(text) - limit) + text[-half:]


def safe_repr(value: Any) -> str:
    """Return the repr of anything: of an integer of a million digits or an object whose repr raises, what it is."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 # it may raise anything
        return f"<{type(value).__name__} that cannot be shown>"


def brief_repr(value: Any) -> str:
    """Return the repr in one line, cut after 60 characters."""
    # a slice first: the repr of something huge is as huge
    text = safe_repr(value[: _BRIEF + 1] if isinstance(value, str | bytes | list) else value)
    text = " ".join(text.split()) if "\n" in text else text  # a table's
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"


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
    return next(made for made in _candidates(name) if made not in taken)


def _candidates(name: str) -> Iterator[str]:
    return chain((name, f"{name}_"), (f"{name}_{number}" for number in count(2)))


def _argument_name(name: str) -> str:
    """Return a name for an argument. Two leading underscores would make type checkers take it as positional only."""
    cleaned = identifier(name[:_LONGEST])
    return f"arg{cleaned}" if cleaned.startswith("__") else cleaned
