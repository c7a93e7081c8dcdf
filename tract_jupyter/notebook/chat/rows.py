"""The rows of a turn as HTML and text: calls, scripts, requests, notes. All text of a model is escaped."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import counted, exact_time, one_line, plain, printable, shortened
from tract_jupyter.notebook.panels.render import value_css
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import Html, cell, element, fragment, table
from tract_jupyter.notebook.views.rows import Row
from tract_jupyter.review import code_in_brief, current_person, decision_words, how_to_decide

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tract_jupyter.notebook.views.html import HtmlPart
    from tract_jupyter.review import Decision

LONGEST_RESULT: Final = 4_000
"""Characters of a result that a live row shows."""
_BRIEF: Final = 120  # characters of all arguments in a row
_BRIEF_VALUE: Final = 48
_WHOLE: Final = 40  # characters of arguments that every line shows in full
_VALUE: Final = 4_000
_REASON: Final = 200
_CODE_LINES: Final = 400
_MANY_TOOLS: Final = 12


_MOST_READ: Final = 200_000  # characters of a result that is parsed as data
_MOST_ROWS, _MOST_COLUMNS, _DEEPEST, _MOST_VALUES = 50, 12, 3, 20
_RESULT: Final = "result"  # the name of the repr of the value in a script's result


def result_html(text: str, limit: int) -> Html:
    """Return a result as texts and tables that a user can read, with the raw text folded below them."""
    parts = _readable(text) if len(text) <= _MOST_READ else []
    if all(isinstance(part, str) for part in parts):
        return rows.out(text, limit)
    pieces = (rows.out(part, limit) if isinstance(part, str) else _data_html(part) for part in parts)
    return fragment(pieces, rows.fold("As it was sent", rows.out(text, limit)))


def _readable(text: str) -> list[Any]:
    """Split a text into texts and JSON values. A value is a line or the whole text."""
    parts: list[Any] = []
    lines: list[str] = []
    for line in [text] if _data(text) is not None else text.split("\n"):
        value = None if len(parts) > _MOST_VALUES else _data(line)
        if value is None:
            lines.append(line)
            continue
        parts += [*_joined(lines), value]
        lines = []
    return [*parts, *_joined(lines)]


def _joined(lines: list[str]) -> list[str]:
    text = "\n".join(lines).strip("\n")
    return [text] if text.strip() else []


def _data(text: str) -> dict[str, Any] | list[Any] | None:
    """Parse a text as a JSON object or list; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if data and isinstance(data, dict | list) else None


def _data_html(value: Any, depth: int = 0) -> HtmlPart:
    """Return a value as HTML: an object as named values, a list of objects as a table, a text with its line breaks."""
    if isinstance(value, dict) and value and depth < _DEEPEST:
        lines = (
            (shortened(name, _BRIEF), _data_html(_literal(item) if name == _RESULT else item, depth + 1))
            for name, item in list(value.items())[:_MOST_ROWS]
        )
        return fragment(table(lines, has_names=True), _more_html(len(value)))
    if isinstance(value, list) and value and depth < _DEEPEST:
        return _records_html(value, depth) if _is_table(value) else _items_html(value, depth)
    if isinstance(value, str):
        return rows.out(value, _VALUE) if "\n" in value or len(value) > _BRIEF else value
    return _value_html(value)


def _is_table(value: list[Any]) -> bool:
    columns = {name for record in value if isinstance(record, dict) for name in record}
    return all(isinstance(record, dict) for record in value) and 0 < len(columns) <= _MOST_COLUMNS


def _records_html(records: list[dict[str, Any]], depth: int) -> Html:
    columns = list(dict.fromkeys(name for record in records for name in record))
    heads = [shortened(name, _BRIEF) for name in columns]
    lines = (
        (_data_html(record.get(name, ""), depth + 1) for name in columns) for record in records[:_MOST_ROWS]
    )
    return fragment(table(lines, heads), _more_html(len(records)))


def _items_html(items: list[Any], depth: int) -> Html:
    lines = (element("li", _data_html(item, depth + 1)) for item in items[:_MOST_ROWS])
    return fragment(element("ul", lines), _more_html(len(items)))


def _more_html(count: int) -> Html | None:
    return rows.dim(f"… {counted(count - _MOST_ROWS, 'more row')}") if count > _MOST_ROWS else None


def _literal(value: Any) -> Any:
    """Return the value of a repr in a script's result, and other text unchanged."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) and len(value) <= _VALUE else value
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value


def tokens_text(tokens: int) -> str:
    """Return a number of tokens with its unit."""
    return counted(tokens, "token")


# --- arguments


def brief_arguments(arguments: Mapping[str, Any]) -> tuple[Html, str]:
    """Return arguments in a line: as HTML, and as text."""
    pieces: list[HtmlPart] = []
    texts: list[str] = []
    length = 0
    for name, value in arguments.items():
        text, css = _brief_value(value)
        length += len(name) + len(text) + 3
        if pieces and length > _BRIEF:
            pieces.append("…")
            texts.append("…")
            break
        key = one_line(str(name), _BRIEF_VALUE)
        value_html = element("span", text, class_=css) if css else text
        pieces.append(fragment(element("span", f"{key}=", class_="dim"), value_html))
        texts.append(f"{key}={text}")
    return Html(", ").join(map(fragment, pieces)), ", ".join(texts)


def says_all(arguments: Mapping[str, Any], text: str) -> bool:
    """Return True if a line of `brief_arguments` is short and shows each value in full."""
    values = arguments.values()
    texts = [value for value in values if isinstance(value, str)]
    is_plain = all(value is None or isinstance(value, str | int | float) for value in values)
    return is_plain and len(text) <= _WHOLE and all(one_line(line, _BRIEF_VALUE) == line for line in texts)


def _brief_value(value: Any) -> tuple[str, str]:
    """Return a value in short, and the class of its kind."""
    if isinstance(value, str):
        text = f'"{one_line(value, _BRIEF_VALUE)}"'
    elif isinstance(value, bool) or value is None:
        text = str(value)
    else:
        text = one_line(_json(value), _BRIEF_VALUE)
    return text, value_css(text)


def _json(value: Any) -> str:
    try:
        return json.dumps(plain(value), ensure_ascii=False)
    except Exception:  # noqa: BLE001 # a model may send any value
        return f"<{type(value).__name__}>"


def arguments_html(arguments: Mapping[str, Any]) -> Html:
    """Return all arguments, each in full up to a bound."""
    if not arguments:
        return rows.dim("nothing")
    lines = (
        (element("code", shortened(str(name), _BRIEF)), _value_html(value))
        for name, value in arguments.items()
    )
    return table(lines, has_names=True)


def _value_html(value: Any) -> Html:
    text = value if isinstance(value, str) else _json(value)
    if "\n" in text or len(text) > _BRIEF:
        return rows.out(text, _VALUE)
    literal = f'"{text}"' if isinstance(value, str) else text
    return element("code", literal, class_=value_css(_brief_value(value)[0]))


# --- scripts


def script_brief(script: Mapping[str, Any], code: str) -> str:
    """Return the tools that a script called, with counts; without calls, its first line."""
    by_tool = _numbers(script.get("by_tool"))
    if not by_tool:
        return one_line(code_in_brief(code), _BRIEF)
    ordered = sorted(by_tool, key=lambda name: (-by_tool[name][0], name))
    named = [f"{name} ×{by_tool[name][0]:,.0f}" if by_tool[name][0] > 1 else name for name in ordered]
    more = len(named) - _MANY_TOOLS
    return ", ".join([*named[:_MANY_TOOLS], *([f"{more:,} more"] if more > 0 else [])])


def script_saved(script: Mapping[str, Any]) -> str:
    """Return the share of the tokens that a script saved; empty if it saved nothing."""
    saved, all_ = script.get("saved"), script.get("one_by_one")
    if not isinstance(saved, int | float) or not isinstance(all_, int | float) or saved <= 0 or all_ <= 0:
        return ""
    return f"{100 * saved / all_:.0f}\u2009% fewer tokens"


def script_html(
    code: str, script: Mapping[str, Any], answer: str, tokens: int, limit: int, images: HtmlPart = None
) -> Html:
    """Return the tabs of a script: its code with its calls, and the text and the images that the model received."""
    by_line, by_tool = _numbers(script.get("by_line")), _numbers(script.get("by_tool"))
    kept_tokens = round(sum(counts[3] for counts in by_tool.values()))
    results = [
        (name, counted(round(counts[0]), "result"), cell(f"{counts[3]:,.0f}", class_="num"))
        for name, counts in sorted(by_tool.items())
    ]
    saw = element("div", result_html(answer, limit), images)
    stayed = (
        rows.sub("Kept in the notebook", f"about {tokens_text(kept_tokens)}"),
        table(results, has_names=True),
    )
    one_by_one, saved = script.get("one_by_one"), script_saved(script)
    savings = (
        rows.dim(
            f"{saved}. With direct calls, about {one_by_one:,} tokens would be sent: all results and, "
            "in each request, the descriptions of all tools."
        )
        if isinstance(one_by_one, int) and saved
        else None
    )
    views = element("div", saw, element("div", stayed), class_="two") if results else saw
    tabs = (
        _tab_html("Code", code_html(code, by_line), is_open=True),
        _tab_html("Sent to the model", (views, savings), tokens_text(tokens)),
    )
    return element("div", tabs, class_="tabs")


def _tab_html(name: str, body: HtmlPart, about: str = "", *, is_open: bool = False) -> Html:
    """Return a tab. A page without the style sheet shows it as a part that unfolds."""
    more = [" ", element("small", about)] if about else []
    return element("details", element("summary", name, more), body, class_="tab", open=is_open)


def code_html(code: str, by_line: Mapping[str, list[float]] | None = None) -> Html:
    """Return a script with line numbers. Lines that called tools show the number of calls and their time."""
    text = printable(code).rstrip("\n")
    lines = highlighted_lines(text, "python")[: text.count("\n") + 1]
    more = len(lines) - _CODE_LINES
    lines_html = []
    for number, line in enumerate(lines[:_CODE_LINES], 1):
        took = (by_line or {}).get(str(number))
        tag = f"{counted(round(took[0]), 'call')} · {rows.seconds_text(took[1])}" if took else ""
        lines_html.append(
            element(
                "div",
                element("span", str(number), class_="n"),
                element("span", line, class_="c"),
                element("span", tag, class_="tag") if tag else None,
            )
        )
    rest = rows.dim(f"… {counted(more, 'more line')}") if more > 0 else None
    return fragment(element("div", lines_html, class_="code"), rest)


def highlighted_lines(text: str, language: str) -> list[HtmlPart]:
    """Return each line of code with the classes that `tract.css` has for its tokens."""
    from tract_jupyter.notebook.panels import highlighted

    return [
        [element("span", part, class_=css) if css else part for css, part in line]
        for line in highlighted(text, language)
    ]


def _numbers(note: Any) -> dict[str, list[float]]:
    """Return lists of numbers by name. The note may come from a foreign store."""
    if not isinstance(note, dict):
        return {}
    return {
        str(name): [float(number) for number in value] + [0.0] * (4 - len(value))
        for name, value in note.items()
        if isinstance(value, list) and value and all(isinstance(number, int | float) for number in value)
    }


# --- decisions


def decided_brief(decision: Decision) -> tuple[str, str]:
    """Return the decider and the time, in short and in full."""
    is_own = decision.is_personal and decision.decided_by == current_person()
    who = "you" if is_own else _DECIDERS.get(decision.channel, one_line(decision.decided_by, 40))
    moment = decision.decided_at.astimezone()
    if decision.action == "expire":
        return (
            f"no decision by {clock_text(moment)}",
            f"expired without a decision, {exact_time(decision.decided_at)}",
        )
    return f"{who}, {clock_text(moment)}", f"{decision_words(decision)}, {exact_time(decision.decided_at)}"


_DECIDERS: Final = {
    "grant": "a standing approval",
    "recorded": "a recorded decision",
    "handler": "a handler",
    "model": "a model",
}


def clock_text(moment: datetime) -> str:
    """Return the time of day in the local time zone."""
    return moment.astimezone().strftime("%H:%M")


def is_rejection(decision: Decision) -> bool:
    """Return True if the decision is a rejection or an expiry."""
    return decision.action in {"reject", "expire"}


def quoted(reason: str) -> str:
    """Return a reason in quotation marks; empty if there is none."""
    return f"“{one_line(reason, _REASON)}”" if reason.strip() else ""


class AskedQuestion(NamedTuple):
    """A stored request of a script.

    Attributes:
        pending_id: of the pending.
        title: the title of the request.
        operation: its name.
        arguments: its values, with the user's changes once decided.
        decision: None while the request is open.
        reason: the reason of a rejection, or the error.
        asker: the agent that asked, and its caller; empty if no agent asked.
        asked_at: the time of the request.
        code: its blocks of code: title, text and language each.
    """

    pending_id: str
    title: str
    operation: str
    arguments: Mapping[str, Any]
    decision: Decision | None = None
    reason: str = ""
    asker: str = ""
    asked_at: datetime | None = None
    code: tuple[tuple[str, str, str], ...] = ()

    @property
    def waited(self) -> tuple[datetime, datetime] | None:
        """The time in which the request waited for a user; None if no user decided it."""
        if self.decision is None or self.asked_at is None or not self.decision.is_personal:
            return None
        return self.asked_at, self.decision.decided_at

    @property
    def what(self) -> str:
        """The title, with the asking agent."""
        return f"{self.title} ({self.asker})" if self.asker else self.title


def asked_row(asked: AskedQuestion) -> Row:
    """Return the row of a script's request."""
    brief: HtmlPart
    brief, text = brief_arguments(asked.arguments)
    body = [rows.sub("Asked about"), arguments_html(asked.arguments)]
    decision = asked.decision
    if decision is None:
        body.append(decide_html(asked.pending_id))
        return Row("asked", asked.what, brief=brief, brief_text=text, body=body)
    short, full = decided_brief(decision)
    body += [rows.sub("Decided"), element("p", full)]
    state, what = "done", f"Approved: {asked.what}"
    if is_rejection(decision):
        state, what = "refused", f"{'Expired' if decision.action == 'expire' else 'Rejected'}: {asked.what}"
        brief = text = quoted(decision.reason or asked.reason)
        body += [element("p", brief)] if brief else []
    return Row(state, what, brief=brief, brief_text=text, aside=short, aside_title=full, body=body)


def decide_html(pending_id: str) -> Html:
    """Return the command that decides a request without buttons."""
    return rows.dim((element("code", how_to_decide(pending_id)), " decides it."))
