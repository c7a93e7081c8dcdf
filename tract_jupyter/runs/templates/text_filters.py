"""Filters of texts. Each gets the scope, the value, and its arguments; what may grow is charged before it is made."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, unquote_plus

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.dates import check_format, read_time, write_time
from tract_jupyter.runs.templates.values import MISSING, as_json, is_true, number, text_of

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.scope import Scope

FilterFunction = Callable[..., Any]


def _of_text(change: Callable[[str], str]) -> FilterFunction:
    return lambda scope, value: change(text_of(value))  # noqa: ARG005


def _replace(scope: Scope, value: Any, old: Any, new: Any = "") -> str:
    text, old, new = text_of(value), text_of(old), text_of(new)
    scope.budget.charge(text.count(old) * len(new))
    return text.replace(old, new)


def _replace_first(scope: Scope, value: Any, old: Any, new: Any = "") -> str:  # noqa: ARG001
    return text_of(value).replace(text_of(old), text_of(new), 1)


def _replace_last(scope: Scope, value: Any, old: Any, new: Any = "") -> str:  # noqa: ARG001
    text, old = text_of(value), text_of(old)
    place = text.rfind(old)
    return text if place < 0 else f"{text[:place]}{text_of(new)}{text[place + len(old) :]}"


def _removing(replace: FilterFunction) -> FilterFunction:
    def remove(scope: Scope, value: Any, old: Any) -> Any:
        return replace(scope, value, old, "")

    return remove


def _split(scope: Scope, value: Any, separator: Any = " ") -> list[str]:  # noqa: ARG001
    """A space stands for any white space; empty parts at the end are left out."""
    text, separator = text_of(value), text_of(separator)
    if not separator:
        return list(text)
    parts = text.split() if separator == " " else text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _truncate(scope: Scope, value: Any, length: Any = 50, ellipsis: Any = "...") -> str:  # noqa: ARG001
    text, end, most = text_of(value), text_of(ellipsis), int(number(length))
    return text if len(text) <= most else text[: max(0, most - len(end))] + end


def _truncate_words(scope: Scope, value: Any, count: Any = 15, ellipsis: Any = "...") -> str:  # noqa: ARG001
    text, most = text_of(value), max(1, int(number(count)))
    words = text.split()
    return text if len(words) <= most else " ".join(words[:most]) + text_of(ellipsis)


def _default(scope: Scope, value: Any, other: Any = "", *, allow_false: Any = False) -> Any:  # noqa: ARG001
    if value is False and is_true(allow_false):
        return value
    return value if is_true(value) and value not in ("", [], {}) else other


def _json(scope: Scope, value: Any) -> str:  # noqa: ARG001
    return as_json(None if value is MISSING else value)


def _date(scope: Scope, value: Any, form: Any = "%Y-%m-%d") -> Any:
    """A time, written as `form` says. `now` is the run's clock; what is no time stays as it is."""
    pattern = text_of(form)
    check_format(pattern)
    is_now = isinstance(value, str) and value.lower() in {"now", "today"}
    moment = read_time(scope.now if is_now else value) if pattern else None
    return value if moment is None else write_time(moment, pattern)


_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_UNESCAPED: Final = re.compile(r"[<>\"']|&(?!(?:[a-zA-Z]+|#[0-9]+);)")
_SKIPPED: Final = {"<script": "</script>", "<!--": "-->", "<style": "</style>"}
_SKIPPED_START: Final = re.compile("|".join(_SKIPPED))


def _escape_once(text: str) -> str:
    return _UNESCAPED.sub(lambda match: match[0].translate(_ESCAPED), text)


def _strip_html(text: str) -> str:
    """Without scripts, comments and styles, then without tags; each search goes on where the last one ended."""
    return _cut_out(_cut_out(text, _SKIPPED_START, _SKIPPED), re.compile("<"), {"<": ">"})


def _cut_out(text: str, start: re.Pattern[str], ends: dict[str, str]) -> str:
    kept, place, open_for_ever = [], 0, set[str]()
    for match in start.finditer(text):
        if match.start() < place or match[0] in open_for_ever:
            continue
        end = text.find(ends[match[0]], match.end())
        if end < 0:
            open_for_ever.add(match[0])
            continue
        kept.append(text[place : match.start()])
        place = end + len(ends[match[0]])
    return "".join((*kept, text[place:]))


def _url_decode(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except ValueError:
        raise TemplateError(f"{text[:40]!r} holds bytes that are no text in UTF-8") from None


def _to_base64(text: str, *, safe: bool) -> str:
    made = base64.b64encode(text.encode("utf-8", "replace"), b"-_" if safe else None)
    return made.decode("ascii")


def _from_base64(text: str, *, safe: bool) -> str:
    try:
        return base64.b64decode(text, b"-_" if safe else None, validate=True).decode()
    except ValueError:
        raise TemplateError(f"{text[:40]!r} is no text in Base64") from None


TEXT_FILTERS: Final[dict[str, FilterFunction]] = {
    "append": lambda scope, value, end: text_of(value) + text_of(end),  # noqa: ARG005
    "prepend": lambda scope, value, start: text_of(start) + text_of(value),  # noqa: ARG005
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
    "url_decode": _of_text(_url_decode),
    "replace": _replace,
    "replace_first": _replace_first,
    "replace_last": _replace_last,
    "remove": _removing(_replace),
    "remove_first": _removing(_replace_first),
    "remove_last": _removing(_replace_last),
    "split": _split,
    "truncate": _truncate,
    "truncatewords": _truncate_words,
    "default": _default,
    "json": _json,
    "date": _date,
}
