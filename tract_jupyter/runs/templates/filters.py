"""The filters of templates by name, and their application within the budget."""

from __future__ import annotations

import base64
import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, unquote_plus

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.values import (
    MISSING,
    as_json,
    elements,
    flat,
    is_true,
    item_of,
    number,
    same,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.runs.templates.values import TemplateScope


FilterFunction = Callable[..., Any]

_MOST_BITS: Final = 128
_MOST_DIGITS: Final = 15
_PRECISION: Final = 350
"""Digits that are enough for the largest number with all decimals."""


def _bounded(value: float) -> int | float:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise OverflowError("the number is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("the number does not exist")
    return value


def _decimal(value: float) -> Decimal:
    return Decimal(repr(value))


def _of_two(compute: Callable[[Any, Any], Any]) -> Callable[..., int | float]:
    """Calculate with whole numbers, or else with exact decimals, so 0.1 + 0.2 is 0.3."""

    def apply(value: Any, other: Any) -> int | float:
        one, two = _bounded(number(value)), _bounded(number(other))
        if isinstance(one, int) and isinstance(two, int):
            return _bounded(compute(one, two))
        with localcontext(prec=_PRECISION):
            return _bounded(float(compute(_decimal(one), _decimal(two))))

    return apply


def _chosen(choose: Callable[[Any, Any], int | float]) -> Callable[..., int | float]:
    return lambda value, other: _bounded(choose(number(value), number(other)))


def _of_one(compute: Callable[[Any], Any]) -> Callable[..., int | float]:
    return lambda value: compute(_bounded(number(value)))


def _divide(value: Any, other: Any) -> int | float:
    """Divide. The quotient of whole numbers is whole, as in Liquid."""
    _see_divisor(other)
    quotient: int | float = value // other if isinstance(value, int) else value / other
    return quotient


def _see_divisor(other: Any) -> None:
    if not other:
        raise ZeroDivisionError("cannot divide by 0")


def _modulo(value: Any, other: Any) -> Any:
    """Return the remainder with the sign of the divisor, also for decimals."""
    _see_divisor(other)
    rest = value % other
    return rest + other if rest and (rest < 0) != (other < 0) else rest


def _round(value: Any, digits: Any = 0) -> int | float:
    places = max(min(int(number(digits)), _MOST_DIGITS), -_MOST_DIGITS)
    value_read = _bounded(number(value))
    if isinstance(value_read, int) and places >= 0:
        return value_read
    with localcontext(prec=_PRECISION):
        unit = Decimal(1).scaleb(-places)
        rounded = (_decimal(value_read) / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit
    return int(rounded) if not places or isinstance(value_read, int) else float(rounded)


def total(values: Iterable[Any]) -> int | float:
    """Return the sum of numbers."""
    numbers = [_bounded(number(one)) for one in values]
    if all(isinstance(one, int) for one in numbers):
        return _bounded(sum(numbers))
    with localcontext(prec=_PRECISION):
        return _bounded(float(sum(map(_decimal, numbers))))


NUMBER_FILTERS: Final[dict[str, FilterFunction]] = {
    "plus": _of_two(operator.add),
    "minus": _of_two(operator.sub),
    "times": _of_two(operator.mul),
    "divided_by": _of_two(_divide),
    "modulo": _of_two(_modulo),
    "at_least": _chosen(max),
    "at_most": _chosen(min),
    "abs": _of_one(abs),
    "ceil": _of_one(math.ceil),
    "floor": _of_one(math.floor),
    "round": _round,
}


def _join(scope: TemplateScope, value: Any, glue: Any = " ") -> str:
    texts, between = [text_of(one) for one in flat(value)], text_of(glue)
    scope.budget.charge(len(between) * len(texts))
    return between.join(texts)


def _property(one: Any, key: Any) -> Any:
    if isinstance(one, int | float) and not isinstance(one, bool):
        raise TypeError(f"{one} is a number, and has no {text_of(key)[:60]!r}")
    return item_of(one, key)


def _by(one: Any, key: Any) -> Any:
    """Return the value to compare an element by: the element, or its value under a key."""
    return one if key is None else _property(one, key)


def _concat(value: Any, more: Any) -> list[Any]:
    if not isinstance(more, list | tuple):
        raise TypeError(f"expected a list, not {text_of(more)[:40]!r}")
    return flat(value) + flat(more)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def _index(value: Any) -> int:
    index = number(value)
    if not isinstance(index, int) or value is None or value is MISSING:
        raise TypeError(f"{text_of(value)[:40]!r} is not a whole number")
    return index


def _slice(value: Any, start: Any, length: Any = 1) -> Any:
    sequence = list(value) if isinstance(value, list | tuple) else text_of(value)
    count = 1 if length is None or length is MISSING else max(0, _index(length))
    first = _index(start)
    first = first + len(sequence) if first < 0 else first
    return sequence[first : first + count] if first >= 0 else sequence[:0]


def _sort(value: Any, key: Any = None) -> list[Any]:
    return sorted(flat(value), key=lambda one: _by_kind(_by(one, key)))


def _sort_natural(value: Any, key: Any = None) -> list[Any]:
    def by_letters(one: Any) -> tuple[bool, str]:
        compared = _by(one, key)
        return compared is None or compared is MISSING, text_of(compared).casefold()

    return sorted(flat(value), key=by_letters)


def _by_kind(value: Any) -> tuple[int, Any]:
    """Return a key that sorts numbers first, then texts, then other values, nil last."""
    if isinstance(value, int | float):
        return (0, value)
    return (2 if value is None or value is MISSING else 1, text_of(value))


def _uniq(value: Any, key: Any = None) -> list[Any]:
    unique: dict[str, Any] = {}
    for one in flat(value):
        unique.setdefault(as_json(_by(one, key)), one)
    return list(unique.values())


def _compact(value: Any, key: Any = None) -> list[Any]:
    return [one for one in flat(value) if _by(one, key) not in (None, MISSING)]


def _map(value: Any, key: Any) -> list[Any]:
    values = [_property(one, key) for one in flat(value)]
    return [None if one is MISSING else one for one in values]


def _chooser(give: Callable[[list[tuple[int, Any, bool]]], Any]) -> Callable[..., Any]:
    """Return a filter that selects elements by their value under a key.

    `give` gets the place of each element, the element, and True if it matches.
    """

    def choose(scope: TemplateScope, value: Any, key: Any, wanted: Any = None) -> Any:
        items = flat(value)
        scope.budget.step(len(items))
        return give([(place, one, _fits(one, key, wanted)) for place, one in enumerate(items)])

    return choose


def _fits(one: Any, key: Any, wanted: Any) -> bool:
    """Return True if an element has the key (for a text: contains it), with this value unless it is None."""
    of_text = isinstance(one, str) and isinstance(key, str)
    property_value = (key if key in one else None) if of_text else _property(one, key)
    return is_true(property_value) if wanted is None or wanted is MISSING else same(property_value, wanted)


def _sum(value: Any, key: Any = None) -> int | float:
    return total(_by(one, key) for one in flat(value))


def _end(value: Any, place: int) -> Any:
    items = [] if isinstance(value, str) else elements(value)
    return items[place] if items else None


def _pick(scope: TemplateScope, value: Any) -> Any:
    """Return a random element from the run's seed; a replay returns the same one."""
    items = elements(value)
    return scope.random.choice(items) if items else None


LIST_FILTERS: Final[dict[str, FilterFunction]] = {
    "first": lambda value: _end(value, 0),
    "last": lambda value: _end(value, -1),
    "size": _size,
    "reverse": lambda value: flat(value)[::-1],
    "concat": _concat,
    "slice": _slice,
    "sort": _sort,
    "sort_natural": _sort_natural,
    "uniq": _uniq,
    "compact": _compact,
    "map": _map,
    "sum": _sum,
}


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
    """Read seconds since the epoch, ISO 8601, or an English date; the default zone is UTC.

    Returns None for other values. Ambiguous dates such as `3/4/2026` are not read.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        text = text_of(value).strip()
        if len(text) > _LONGEST:
            return None
        if re.fullmatch("[0-9]+", text):
            return datetime.fromtimestamp(int(text), UTC)
        moment = _iso(text) or _in_words(text)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _in_words(text: str) -> datetime | None:
    """Read `March 14, 2016 9:30 pm`, `14 Mar 2016`, `Fri Jul 16 01:00:00 2004`, `2016/03/14 21:30:00 +0100`."""
    parts: dict[str, Any] = {}
    for match in _PART.finditer(text.lower()):
        kind, word = str(match.lastgroup), match[str(match.lastgroup)]
        new_parts = _part(kind, word, parts)
        if new_parts is None or parts.keys() & new_parts.keys():
            return None
        parts.update(new_parts)
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
    """Return the values of one word of a date or time. None if the word has another form."""
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
    """Check a date format.

    Raises:
        TemplateError: the format is invalid.
    """
    if len(form) > _LONGEST:
        raise TemplateError(f"the date format has {len(form)} characters; the limit is {_LONGEST}")
    for match in _DIRECTIVE.finditer(form):
        if match["letter"] not in _LETTERS:
            raise TemplateError(f"{match[0]!r} is not valid in a date format")


def write_time(moment: datetime, form: str) -> str:
    """Format a time like Ruby's `strftime`; `check_format` has checked the format."""
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


def _of_text(change: Callable[[str], str]) -> FilterFunction:
    return lambda value: change(text_of(value))


def _replace(scope: TemplateScope, value: Any, old: Any, new: Any = "") -> str:
    text, old, new = text_of(value), text_of(old), text_of(new)
    scope.budget.charge(text.count(old) * len(new))
    return text.replace(old, new)


def _replace_first(value: Any, old: Any, new: Any = "") -> str:
    return text_of(value).replace(text_of(old), text_of(new), 1)


def _replace_last(value: Any, old: Any, new: Any = "") -> str:
    text, old = text_of(value), text_of(old)
    place = text.rfind(old)
    return text if place < 0 else f"{text[:place]}{text_of(new)}{text[place + len(old) :]}"


def _split(value: Any, separator: Any = " ") -> list[str]:
    """Split a text. A space matches any white space. Empty parts at the end are dropped."""
    text, separator = text_of(value), text_of(separator)
    if not separator:
        return list(text)
    parts = text.split() if separator == " " else text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _truncate(value: Any, length: Any = 50, ellipsis: Any = "...") -> str:
    text, end, most = text_of(value), text_of(ellipsis), int(number(length))
    return text if len(text) <= most else text[: max(0, most - len(end))] + end


def _truncate_words(value: Any, count: Any = 15, ellipsis: Any = "...") -> str:
    text, most = text_of(value), max(1, int(number(count)))
    words = text.split()
    return text if len(words) <= most else " ".join(words[:most]) + text_of(ellipsis)


def _default(value: Any, other: Any = "", *, allow_false: Any = False) -> Any:
    if value is False and is_true(allow_false):
        return value
    return value if is_true(value) and value not in ("", [], {}) else other


def _json(value: Any) -> str:
    return as_json(None if value is MISSING else value)


def _date(scope: TemplateScope, value: Any, form: Any = "%Y-%m-%d") -> Any:
    """Format a time. `now` is the run's clock; values that are not a time are unchanged."""
    pattern = text_of(form)
    check_format(pattern)
    is_now = isinstance(value, str) and value.lower() in {"now", "today"}
    moment = read_time(scope.now if is_now else value) if pattern else None
    scope.budget.step(
        2 + 2 * pattern.count("%")
    )  # reading a date, and each part of it, takes as long as several steps
    return value if moment is None else write_time(moment, pattern)


_ESCAPES: Final = {"<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_ESCAPED: Final = str.maketrans({"&": "&amp;", **_ESCAPES})
_ESCAPED_ONCE: Final = str.maketrans(_ESCAPES)
_BARE_AMPERSAND: Final = re.compile(r"&(?!(?:[a-zA-Z]+|#[0-9]+);)")
_SKIPPED: Final = {"<script": "</script>", "<!--": "-->", "<style": "</style>"}
_SKIPPED_START: Final = re.compile("|".join(_SKIPPED))


def _escape_once(text: str) -> str:
    return _BARE_AMPERSAND.sub("&amp;", text).translate(_ESCAPED_ONCE)


def _strip_html(text: str) -> str:
    """Remove scripts, comments and styles, then tags. Each search continues after the last match."""
    return _cut_out(_cut_out(text, _SKIPPED_START, _SKIPPED), re.compile("<"), {"<": ">"})


def _cut_out(text: str, start: re.Pattern[str], ends: dict[str, str]) -> str:
    pieces, place, open_for_ever = [], 0, set[str]()
    for match in start.finditer(text):
        if match.start() < place or match[0] in open_for_ever:
            continue
        end = text.find(ends[match[0]], match.end())
        if end < 0:
            open_for_ever.add(match[0])
            continue
        pieces.append(text[place : match.start()])
        place = end + len(ends[match[0]])
    return "".join((*pieces, text[place:]))


def _url_decode(scope: TemplateScope, value: Any) -> str:
    text = text_of(value)
    scope.budget.charge(8 * text.count("%"))  # an escape costs as much as many plain characters
    try:
        return unquote_plus(text, errors="strict")
    except ValueError:
        raise TemplateError(f"{text[:40]!r} has bytes that are not valid UTF-8") from None


def _to_base64(text: str, *, safe: bool) -> str:
    encoded = base64.b64encode(text.encode("utf-8", "replace"), b"-_" if safe else None)
    return encoded.decode("ascii")


def _from_base64(text: str, *, safe: bool) -> str:
    try:
        return base64.b64decode(text, b"-_" if safe else None, validate=True).decode()
    except ValueError:
        raise TemplateError(f"{text[:40]!r} is not Base64") from None


TEXT_FILTERS: Final[dict[str, FilterFunction]] = {
    "append": lambda value, end: text_of(value) + text_of(end),
    "prepend": lambda value, start: text_of(start) + text_of(value),
    "capitalize": _of_text(str.capitalize),
    "downcase": _of_text(str.lower),
    "upcase": _of_text(str.upper),
    "strip": _of_text(str.strip),
    "lstrip": _of_text(str.lstrip),
    "rstrip": _of_text(str.rstrip),
    "squish": _of_text(lambda text: " ".join(text.split())),
    "strip_newlines": _of_text(lambda text: text.replace("\r\n", "").replace("\n", "")),
    "strip_html": _of_text(_strip_html),
    "newline_to_br": _of_text(lambda text: text.replace("\r\n", "\n").replace("\n", "<br />\n")),
    "escape": _of_text(lambda text: text.translate(_ESCAPED)),
    "h": _of_text(lambda text: text.translate(_ESCAPED)),
    "escape_once": _of_text(_escape_once),
    "base64_encode": _of_text(lambda text: _to_base64(text, safe=False)),
    "base64_decode": _of_text(lambda text: _from_base64(text, safe=False)),
    "base64_url_safe_encode": _of_text(lambda text: _to_base64(text, safe=True)),
    "base64_url_safe_decode": _of_text(lambda text: _from_base64(text, safe=True)),
    "url_encode": _of_text(quote_plus),
    "replace_first": _replace_first,
    "replace_last": _replace_last,
    "remove_first": lambda value, old: _replace_first(value, old, ""),
    "remove_last": lambda value, old: _replace_last(value, old, ""),
    "split": _split,
    "truncate": _truncate,
    "truncatewords": _truncate_words,
    "default": _default,
    "json": _json,
}


SCOPED_FILTERS: Final[dict[str, FilterFunction]] = {
    "join": _join,
    "where": _chooser(lambda fits: [one for _, one, fit in fits if fit]),
    "reject": _chooser(lambda fits: [one for _, one, fit in fits if not fit]),
    "find": _chooser(lambda fits: next((one for _, one, fit in fits if fit), None)),
    "find_index": _chooser(lambda fits: next((place for place, _, fit in fits if fit), None)),
    "has": _chooser(lambda fits: any(fit for *_, fit in fits)),
    "pick": _pick,
    "url_decode": _url_decode,
    "replace": _replace,
    "remove": lambda scope, value, old: _replace(scope, value, old, ""),
    "date": _date,
}
"""Filters that need the scope: its budget, clock or random generator."""

FILTERS: Final = {**TEXT_FILTERS, **LIST_FILTERS, **NUMBER_FILTERS, **SCOPED_FILTERS}


def apply_filter(
    scope: TemplateScope, name: str, value: Any, arguments: list[Any], options: dict[str, Any]
) -> Any:
    """Return a filter's result. Input and output count against the budget.

    Raises:
        TemplateError: the filter does not fit its input, or the budget is used up.
    """
    scope.budget.step()
    for one in (value, *arguments, *options.values()):
        scope.budget.weigh(one)
    inputs = (scope, value) if name in SCOPED_FILTERS else (value,)
    try:
        result = FILTERS[name](*inputs, *arguments, **options)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise TemplateError(f"invalid use of the filter {name!r}: {error}") from None
    scope.budget.weigh(result)
    return result
