"""Filters of texts. Each gets the scope, the value, and its arguments; what may grow is charged before it is made."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, unquote_plus

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.values import MISSING, as_json, is_true, number, text_of

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.scope import Scope

FilterFunction = Callable[..., Any]


def _of_text(change: Callable[[str], str]) -> FilterFunction:
    return lambda scope, value: change(text_of(value))  # noqa: ARG005


def _replace(scope: Scope, value: Any, old: Any, new: Any = "") -> str:
    text, old, new = text_of(value), text_of(old), text_of(new)
    if not old:
        return text
    scope.budget.charge(text.count(old) * len(new))
    return text.replace(old, new)


def _replace_first(scope: Scope, value: Any, old: Any, new: Any = "") -> str:  # noqa: ARG001
    return text_of(value).replace(text_of(old), text_of(new), 1)


def _replace_last(scope: Scope, value: Any, old: Any, new: Any = "") -> str:  # noqa: ARG001
    before, found, after = text_of(value).rpartition(text_of(old) or "\0")
    return f"{before}{text_of(new)}{after}" if found else after


def _split(scope: Scope, value: Any, separator: Any = " ") -> list[str]:  # noqa: ARG001
    text, separator = text_of(value), text_of(separator)
    if not text:
        return []
    return text.split(separator) if separator else list(text)


def _truncate(scope: Scope, value: Any, length: Any = 50, ellipsis: Any = "...") -> str:  # noqa: ARG001
    text, end, most = text_of(value), text_of(ellipsis), int(number(length))
    return text if len(text) <= most else text[: max(0, most - len(end))] + end


def _truncate_words(scope: Scope, value: Any, count: Any = 15, ellipsis: Any = "...") -> str:  # noqa: ARG001
    words, most = text_of(value).split(), max(1, int(number(count)))
    return " ".join(words) if len(words) <= most else " ".join(words[:most]) + text_of(ellipsis)


def _default(scope: Scope, value: Any, other: Any = "", *, allow_false: Any = False) -> Any:  # noqa: ARG001
    if value is False and is_true(allow_false):
        return value
    return value if is_true(value) and value not in ("", [], {}) else other


def _json(scope: Scope, value: Any) -> str:  # noqa: ARG001
    return as_json(None if value is MISSING else value)


_DATE_FORMAT: Final = re.compile(r"(?:[^%]|%-?[aAbBcdDeFHIjmMpsSTuUwWxXyYzZ%])*")
_LONGEST_FORMAT: Final = 200


def _date(scope: Scope, value: Any, form: Any = "%Y-%m-%d") -> str:
    """A time, written as `form` says. `now` is the run's clock; without a zone, a time is UTC."""
    pattern = text_of(form)
    if len(pattern) > _LONGEST_FORMAT or not _DATE_FORMAT.fullmatch(pattern):
        raise TemplateError(f"{pattern[:_LONGEST_FORMAT]!r} is no format of a date")
    moment = _moment(scope.now if value in ("now", "today") else value)
    return text_of(value) if moment is None else moment.strftime(pattern)


def _moment(value: Any) -> datetime | None:
    """ISO 8601, or seconds since the epoch; None if it is neither."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(text_of(value))
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


TEXT_FILTERS: Final[dict[str, FilterFunction]] = {
    "append": lambda scope, value, end: text_of(value) + text_of(end),  # noqa: ARG005
    "prepend": lambda scope, value, start: text_of(start) + text_of(value),  # noqa: ARG005
    "capitalize": _of_text(str.capitalize),
    "downcase": _of_text(str.lower),
    "upcase": _of_text(str.upper),
    "strip": _of_text(str.strip),
    "lstrip": _of_text(str.lstrip),
    "rstrip": _of_text(str.rstrip),
    "strip_newlines": _of_text(lambda text: text.replace("\r", "").replace("\n", "")),
    "newline_to_br": _of_text(lambda text: text.replace("\r\n", "\n").replace("\n", "<br />\n")),
    "escape": _of_text(html.escape),
    "url_encode": _of_text(quote_plus),
    "url_decode": _of_text(unquote_plus),
    "replace": _replace,
    "replace_first": _replace_first,
    "replace_last": _replace_last,
    "remove": _replace,
    "remove_first": _replace_first,
    "remove_last": _replace_last,
    "split": _split,
    "truncate": _truncate,
    "truncatewords": _truncate_words,
    "default": _default,
    "json": _json,
    "date": _date,
}
