"""Times, as the filter `date` reads and writes them: in English, whatever the system speaks, and by no clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.values import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONGEST: Final = 200
"""Characters of a time, and of a format."""

_PART: Final = re.compile(
    r"""(?P<date>[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2})
      | (?P<time>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)
      | (?P<zone>[+-][0-9]{2}:?[0-9]{2}(?![0-9]))
      | (?P<number>[0-9]+)(?:st|nd|rd|th)?
      | (?P<word>[a-z]+)
      | (?P<other>[^\s,.])""",
    re.VERBOSE,
)
_SHORTEST_NAME: Final = 3
_YEAR_DIGITS: Final = 4


def read_time(value: Any) -> datetime | None:
    """Seconds since the epoch, ISO 8601, or day, month and year in English; UTC if there is no zone.

    None if it is none of them. Nothing is guessed: `3/4/2026` could be March or April.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        text = text_of(value).strip()
        if len(text) > _LONGEST:
            return None
        if re.fullmatch("[0-9]+", text):
            return datetime.fromtimestamp(int(text), UTC)
        found = _iso(text) or _in_words(text)
    except (ValueError, OverflowError, OSError):
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _in_words(text: str) -> datetime | None:
    """`March 14, 2016 9:30 pm`, `14 Mar 2016`, `Fri Jul 16 01:00:00 2004`, `2016/03/14 21:30:00 +0100`."""
    parts: dict[str, Any] = {}
    for match in _PART.finditer(text.lower()):
        kind, word = str(match.lastgroup), match[str(match.lastgroup)]
        found = _part(kind, word, parts)
        if found is None or parts.keys() & found.keys():
            return None
        parts.update(found)
    if not {"year", "month"} <= parts.keys():
        return None
    hour = parts.get("hour", 0)
    if "half" in parts:
        hour = hour % 12 + parts["half"]
    return datetime(
        parts["year"], parts["month"], parts.get("day", 1), hour, parts.get("minute", 0), parts.get("second", 0),
        parts.get("microsecond", 0), parts.get("zone", UTC),
    )  # fmt: skip


def _part(kind: str, word: str, parts: dict[str, Any]) -> dict[str, Any] | None:
    """What a part of a time says, or None if it does not belong into one."""
    if kind == "date":
        year, month, day = map(int, re.split("[-/]", word))
        return {"year": year, "month": month, "day": day}
    if kind == "time":
        hour, minute, *seconds = word.split(":")
        second, _, fraction = (seconds[0] if seconds else "0").partition(".")
        return {"hour": int(hour), "minute": int(minute), "second": int(second),
                "microsecond": int(f"{fraction:0<6}"[:6])}  # fmt: skip
    if kind == "zone" and "hour" in parts:
        away = timedelta(hours=int(word[1:3]), minutes=int(word[-2:]))
        return {"zone": timezone(-away if word[0] == "-" else away)}
    if kind == "number":
        return {"year" if len(word) == _YEAR_DIGITS else "day": int(word)} if len(word) in (1, 2, 4) else None
    return _word(word) if kind == "word" else None


def _word(word: str) -> dict[str, Any] | None:
    if word in {"am", "pm"}:
        return {"half": 12 if word == "pm" else 0}
    if word in {"utc", "gmt", "z"}:
        return {"zone": UTC}
    if len(word) >= _SHORTEST_NAME:
        for month, name in enumerate(_MONTHS, 1):
            if name.lower().startswith(word):
                return {"month": month}
        if any(name.lower().startswith(word) for name in _DAYS):
            return {}
    return None


_DIRECTIVE: Final = re.compile(r"%(?P<flags>[-_0^#:]*)(?P<width>[0-9]{1,2})?(?P<letter>.?)", re.DOTALL)

_NUMBERS: Final[dict[str, tuple[Callable[[datetime], int], int, str]]] = {
    "Y": (lambda at: at.year, 4, "0"),
    "C": (lambda at: at.year // 100, 2, "0"),
    "y": (lambda at: at.year % 100, 2, "0"),
    "m": (lambda at: at.month, 2, "0"),
    "d": (lambda at: at.day, 2, "0"),
    "e": (lambda at: at.day, 2, " "),
    "j": (lambda at: at.timetuple().tm_yday, 3, "0"),
    "H": (lambda at: at.hour, 2, "0"),
    "k": (lambda at: at.hour, 2, " "),
    "I": (lambda at: (at.hour + 11) % 12 + 1, 2, "0"),
    "l": (lambda at: (at.hour + 11) % 12 + 1, 2, " "),
    "M": (lambda at: at.minute, 2, "0"),
    "S": (lambda at: at.second, 2, "0"),
    "s": (lambda at: (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1), 1, "0"),
    "u": (lambda at: at.isoweekday(), 1, "0"),
    "w": (lambda at: at.isoweekday() % 7, 1, "0"),
    "G": (lambda at: at.isocalendar().year, 4, "0"),
    "g": (lambda at: at.isocalendar().year % 100, 2, "0"),
    "V": (lambda at: at.isocalendar().week, 2, "0"),
    "U": (lambda at: (at.timetuple().tm_yday + 6 - at.isoweekday() % 7) // 7, 2, "0"),
    "W": (lambda at: (at.timetuple().tm_yday + 6 - at.weekday()) // 7, 2, "0"),
}
_TEXTS: Final[dict[str, Callable[[datetime], str]]] = {
    "B": lambda at: _MONTHS[at.month - 1],
    "b": lambda at: _MONTHS[at.month - 1][:3],
    "h": lambda at: _MONTHS[at.month - 1][:3],
    "A": lambda at: _DAYS[at.weekday()],
    "a": lambda at: _DAYS[at.weekday()][:3],
    "p": lambda at: "AM" if at.hour < 12 else "PM",  # noqa: PLR2004 # noon
    "P": lambda at: "am" if at.hour < 12 else "pm",  # noqa: PLR2004 # noon
    "Z": lambda at: "" if at.utcoffset() else "UTC",
    "n": lambda at: "\n",  # noqa: ARG005
    "t": lambda at: "\t",  # noqa: ARG005
    "%": lambda at: "%",  # noqa: ARG005
}
_SHORT: Final = {
    "c": "%a %b %e %H:%M:%S %Y", "D": "%m/%d/%y", "x": "%m/%d/%y", "F": "%Y-%m-%d", "T": "%H:%M:%S",
    "X": "%H:%M:%S", "R": "%H:%M", "r": "%I:%M:%S %p", "v": "%e-%^b-%Y", "+": "%a %b %e %H:%M:%S %Z %Y",
}  # fmt: skip
_FRACTIONS: Final = {"L": 3, "N": 9}
_LETTERS: Final = {*_NUMBERS, *_TEXTS, *_SHORT, *_FRACTIONS, "z"}


def check_format(form: str) -> None:
    """See that times can be written like this.

    Raises:
        TemplateError: they cannot.
    """
    if len(form) > _LONGEST:
        raise TemplateError(f"the format of a date has {len(form)} characters, and may have {_LONGEST}")
    for match in _DIRECTIVE.finditer(form):
        if match["letter"] not in _LETTERS:
            raise TemplateError(f"{match[0]!r} is no part of a date's format")


def write_time(moment: datetime, form: str) -> str:
    """A time, as Ruby's `strftime` writes it; `check_format` has seen the format."""
    return _DIRECTIVE.sub(lambda match: _written(moment, match), form)


def _written(moment: datetime, match: re.Match[str]) -> str:
    flags, letter, width = match["flags"], match["letter"], int(match["width"] or 0)
    if letter in _NUMBERS:
        of, digits, filling = _NUMBERS[letter]
        filling = "0" if "0" in flags else " " if "_" in flags else filling
        return str(of(moment)).rjust(0 if "-" in flags else width or digits, filling)
    if letter in _FRACTIONS:
        digits = width or _FRACTIONS[letter]
        return f"{moment.microsecond:06}"[:digits].ljust(digits, "0")
    if letter == "z":
        return _zone(moment, ":" if ":" in flags else "")
    if letter in _SHORT:
        return write_time(moment, _SHORT[letter]).rjust(width)
    text = _TEXTS[letter](moment)
    if "#" in flags and letter == "p":
        return text.lower().rjust(width)
    return (text.upper() if "^" in flags or "#" in flags else text).rjust(width)


def _zone(moment: datetime, between: str) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds()) // 60
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    return f"{sign}{minutes // 60:02}{between}{minutes % 60:02}"
