"""The rows of a turn as HTML and as text: calls, scripts, questions, notes. Everything a model wrote is escaped."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import counted, exact_time, more_characters, one_line, plain, printable, shortened
from tract_jupyter.notebook.panels.render import value_css
from tract_jupyter.notebook.views.html import OWN_KEYS, escaped
from tract_jupyter.review import code_in_brief, current_person, decision_words, how_to_decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from tract_jupyter.review import Decision

LONGEST_RESULT: Final = 4_000
"""Characters of a result that a live row shows."""
_BRIEF: Final = 120  # characters of all arguments in a row
_BRIEF_VALUE: Final = 48
_WHOLE: Final = 40  # characters of arguments that no line cuts
_VALUE: Final = 4_000
_REASON: Final = 200
_CODE_LINES: Final = 400
_MANY_TOOLS: Final = 12
_MINUTE: Final = 60

ICONS: Final = {
    "done": ("i-done", "done"),
    "running": ("i-run", "running"),
    "asked": ("i-wait", "waiting"),
    "idle": ("i-idle", "not begun"),
    "failed": ("i-no", "failed"),
    "refused": ("i-no", "rejected"),
    "not run": ("i-stop", "not run"),
    "stopped": ("i-stop", "stopped"),
}
"""The icon of each state, and the word that says the same."""
_MARKS: Final = {"i-done": "✓", "i-run": "…", "i-wait": "?", "i-idle": "·", "i-no": "✗", "i-stop": "■"}


class RowParts(NamedTuple):
    """What a row says.

    Attributes:
        state: of `ICONS`.
        what: what happened, in words of ours; empty for a plain call.
        name: of the tool, for a plain call.
        brief: HTML of what it was called with, in a line.
        brief_text: the same as text.
        badge: a word on a colour.
        aside: what stands at the right, before tokens and time: who decided.
        aside_title: the same in full.
        took: what it took, where there is room.
        tokens: of the result.
        seconds: that it took; None if it is not known.
        body: HTML of what it unfolds to.
    """

    state: str
    what: str = ""
    name: str = ""
    brief: str = ""
    brief_text: str = ""
    badge: str = ""
    aside: str = ""
    aside_title: str = ""
    took: str = ""
    tokens: str = ""
    seconds: float | None = None
    body: str = ""


def row_html(row: RowParts) -> str:
    """Return a row of one line that unfolds."""
    icon, word = ICONS[row.state]
    named = (
        f'<span class="said-b cut-b">{escaped(row.what)}</span>'
        if row.what
        else f'<span class="name">{escaped(row.name)}</span>'
    )
    tail = [
        f'<span class="badge">{escaped(row.badge)}</span>' if row.badge else "",
        f'<span class="num" title="{escaped(row.aside_title)}">{escaped(row.aside)}</span>'
        if row.aside
        else "",
        f'<span class="num wide-only">{escaped(row.took)}</span>' if row.took else "",
        f'<span class="num tok wide-only">{escaped(row.tokens)}</span>' if row.tokens else "",
        f'<span class="num sec">{seconds_text(row.seconds)}</span>' if row.seconds is not None else "",
    ]
    return (
        f'<details class="row"><summary {OWN_KEYS}><i class="chev"></i><i class="i {icon}"></i>'
        f'<span class="said">{word}</span>{named}<code class="cut">{row.brief}</code>{"".join(tail)}</summary>'
        f'<div class="body">{row.body}</div></details>'
    )


def row_text(row: RowParts) -> str:
    """Return a row as a line of text."""
    icon, word = ICONS[row.state]
    seconds = seconds_text(row.seconds) if row.seconds is not None else ""
    is_told = row.state in {"done", "refused"} or word in row.what.lower()
    told = [
        row.badge or ("" if is_told else word),
        row.aside,
        row.took,
        row.tokens,
        seconds,
    ]
    named = " ".join(filter(None, [row.what or row.name, row.brief_text]))
    return printable("  ".join(filter(None, [f"{_MARKS[icon]} {named}", " · ".join(filter(None, told))])))


def sub_html(text: str, about: str = "") -> str:
    """Return the heading of a part of a row. JupyterLab would put a link into a real one."""
    more = f" <small>{escaped(about)}</small>" if about else ""
    return f'<div class="sub" role="heading" aria-level="4">{escaped(text)}{more}</div>'


def out_html(text: str, limit: int) -> str:
    """Return a text as it was, cut after so many characters."""
    if len(text) <= limit:
        return f'<pre class="out">{escaped(text)}</pre>'
    return f'<pre class="out">{escaped(text[:limit])}</pre><p class="dim">{more_characters(text, limit)}</p>'


_MOST_READ: Final = 200_000  # characters of a result that is looked at for data
_MOST_ROWS, _MOST_COLUMNS, _DEEPEST, _MOST_VALUES = 50, 12, 3, 20
_RESULT: Final = "result"  # the name under which a script tells the repr of its value


def result_html(text: str, limit: int) -> str:
    """Return a result as texts and tables that a user can read, with the raw text folded below them."""
    parts = _readable(text) if len(text) <= _MOST_READ else []
    if all(isinstance(part, str) for part in parts):
        return out_html(text, limit)
    shown = "".join(out_html(part, limit) if isinstance(part, str) else _data_html(part) for part in parts)
    return (
        f'{shown}<details class="more"><summary {OWN_KEYS}><i class="chev"></i>As it was sent</summary>'
        f"{out_html(text, limit)}</details>"
    )


def _readable(text: str) -> list[Any]:
    """Return the texts and the JSON values that a text is made of; each value is a line, or the whole text."""
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
    """Return the JSON object or list that a text is; None for anything else."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if found and isinstance(found, dict | list) else None


def _data_html(value: Any, depth: int = 0) -> str:
    """Return a value: an object as named values, a list of objects as a table, a text with its line ends."""
    if isinstance(value, dict) and value and depth < _DEEPEST:
        rows = "".join(
            f'<tr><th scope="row">{escaped(shortened(name, _BRIEF))}</th>'
            f"<td>{_data_html(_literal(one) if name == _RESULT else one, depth + 1)}</td></tr>"
            for name, one in list(value.items())[:_MOST_ROWS]
        )
        return f'<table class="t"><tbody>{rows}</tbody></table>{_more_html(len(value))}'
    if isinstance(value, list) and value and depth < _DEEPEST:
        return _records_html(value, depth) if _is_table(value) else _items_html(value, depth)
    if isinstance(value, str):
        return out_html(value, _VALUE) if "\n" in value or len(value) > _BRIEF else escaped(value)
    return _value_html(value)


def _is_table(value: list[Any]) -> bool:
    columns = {name for one in value if isinstance(one, dict) for name in one}
    return all(isinstance(one, dict) for one in value) and 0 < len(columns) <= _MOST_COLUMNS


def _records_html(records: list[dict[str, Any]], depth: int) -> str:
    columns = list(dict.fromkeys(name for one in records for name in one))
    head = "".join(f'<th scope="col">{escaped(shortened(name, _BRIEF))}</th>' for name in columns)
    rows = "".join(
        "".join(f"<td>{_data_html(one.get(name, ''), depth + 1)}</td>" for name in columns).join(
            ("<tr>", "</tr>")
        )
        for one in records[:_MOST_ROWS]
    )
    return f'<table class="t"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{_more_html(len(records))}'


def _items_html(items: list[Any], depth: int) -> str:
    shown = "".join(f"<li>{_data_html(one, depth + 1)}</li>" for one in items[:_MOST_ROWS])
    return f"<ul>{shown}</ul>{_more_html(len(items))}"


def _more_html(count: int) -> str:
    return f'<p class="dim">… {counted(count - _MOST_ROWS, "more row")}</p>' if count > _MOST_ROWS else ""


def _literal(value: Any) -> Any:
    """Return the value that a script's result shows by its repr; other texts as they are."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) and len(value) <= _VALUE else value
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value


def seconds_text(seconds: float) -> str:
    """Return a time: `0.1 s`, `42 s`, `2:05 min`."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes:,}:{rest:02} min"


def tokens_text(tokens: int) -> str:
    """Return a number of tokens with its word."""
    return counted(tokens, "token")


# --- arguments


def brief_arguments(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return arguments in a line: as HTML, and as text."""
    made: list[str] = []
    texts: list[str] = []
    length = 0
    for name, value in arguments.items():
        text, css = _brief_value(value)
        length += len(name) + len(text) + 3
        if made and length > _BRIEF:
            made.append("…")
            texts.append("…")
            break
        key = one_line(str(name), _BRIEF_VALUE)
        made.append(
            f'<span class="dim">{escaped(key)}=</span><span class="{css}">{escaped(text)}</span>'
            if css
            else f'<span class="dim">{escaped(key)}=</span>{escaped(text)}'
        )
        texts.append(f"{key}={text}")
    return ", ".join(made), ", ".join(texts)


def says_all(arguments: Mapping[str, Any], text: str) -> bool:
    """Return True if a line of `brief_arguments` is short, and has each value as it is."""
    values = arguments.values()
    texts = [value for value in values if isinstance(value, str)]
    is_plain = all(value is None or isinstance(value, str | int | float) for value in values)
    return is_plain and len(text) <= _WHOLE and all(one_line(one, _BRIEF_VALUE) == one for one in texts)


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
    except Exception:  # noqa: BLE001 # what a model called with may be anything
        return f"<{type(value).__name__}>"


def arguments_html(arguments: Mapping[str, Any]) -> str:
    """Return all arguments, each in full up to a bound."""
    if not arguments:
        return '<p class="dim">nothing</p>'
    rows = "".join(
        f'<tr><th scope="row"><code>{escaped(shortened(str(name), _BRIEF))}</code></th>'
        f"<td>{_value_html(value)}</td></tr>"
        for name, value in arguments.items()
    )
    return f'<table class="t"><tbody>{rows}</tbody></table>'


def _value_html(value: Any) -> str:
    text = value if isinstance(value, str) else _json(value)
    if "\n" in text or len(text) > _BRIEF:
        return out_html(text, _VALUE)
    shown = f'"{text}"' if isinstance(value, str) else text
    return f'<code class="{value_css(_brief_value(value)[0])}">{escaped(shown)}</code>'


# --- scripts


def script_brief(script: Mapping[str, Any], code: str) -> str:
    """Return which tools a script called, and how often; of one that called none how it begins."""
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


def script_html(code: str, script: Mapping[str, Any], answer: str, tokens: int, limit: int) -> str:
    """Return the tabs of a script: its code with its calls, and the text that the model received."""
    by_line, by_tool = _numbers(script.get("by_line")), _numbers(script.get("by_tool"))
    kept = round(sum(one[3] for one in by_tool.values()))
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(counted(round(one[0]), "result"))}</td>'
        f'<td class="num">{one[3]:,.0f}</td></tr>'
        for name, one in sorted(by_tool.items())
    )
    saw = f"<div>{result_html(answer, limit)}</div>"
    stayed = (
        f"<div>{sub_html('What stayed in the notebook', f'about {tokens_text(kept)}')}"
        f'<table class="t"><tbody>{rows}</tbody></table></div>'
        if rows
        else ""
    )
    one_by_one, saved = script.get("one_by_one"), script_saved(script)
    told = (
        f'<p class="dim">{escaped(saved)}: had the model made each call itself, about {one_by_one:,} tokens would have '
        "been sent, with all results and, in each request, the descriptions of all tools.</p>"
        if isinstance(one_by_one, int) and saved
        else ""
    )
    views = f'<div class="two">{saw}{stayed}</div>' if stayed else saw
    seen = _tab_html("Sent to the model", f"{views}{told}", tokens_text(tokens))
    return f'<div class="tabs">{_tab_html("Code", code_html(code, by_line), is_open=True)}{seen}</div>'


def _tab_html(name: str, body: str, about: str = "", *, is_open: bool = False) -> str:
    """Return a tab. A page without the style sheet shows it as a part that unfolds."""
    more = f" <small>{escaped(about)}</small>" if about else ""
    opened = " open" if is_open else ""
    return f'<details class="tab"{opened}><summary {OWN_KEYS}>{escaped(name)}{more}</summary>{body}</details>'


def code_html(code: str, by_line: Mapping[str, list[float]] | None = None) -> str:
    """Return a script with its lines numbered; those that called tools say how often, and how long that took."""
    lines = _highlighted(code)
    more = len(lines) - _CODE_LINES
    made = []
    for number, line in enumerate(lines[:_CODE_LINES], 1):
        took = (by_line or {}).get(str(number))
        tag = (
            f'<span class="tag">{counted(round(took[0]), "call")} · {seconds_text(took[1])}</span>'
            if took
            else ""
        )
        made.append(f'<div><span class="n">{number}</span><span class="c">{line}</span>{tag}</div>')
    rest = f'<p class="dim">… {counted(more, "more line")}</p>' if more > 0 else ""
    return f'<div class="code">{"".join(made)}</div>{rest}'


def _highlighted(code: str) -> list[str]:
    """Return the lines of a script as HTML."""
    from tract_jupyter.notebook.panels import highlighted

    text = printable(code).rstrip("\n")
    return [
        "".join(
            f'<span class="{_look(css)}">{escaped(part)}</span>' if _look(css) else escaped(part)
            for css, part in line
        )
        for line in highlighted(text, "python")
    ][: text.count("\n") + 1]


def _look(css: str) -> str:
    """Return the class that our style sheet has for a class of Pygments; empty if it has none."""
    if css in {"nf", "nc", "fm"}:
        return "f"
    if css in {"nb", "bp"}:
        return "b"
    return css[:1] if css[:1] in {"k", "s", "m"} else ("o" if css[:1] == "c" else "")


def _numbers(given: Any) -> dict[str, list[float]]:
    """Return lists of numbers by name, of a note that may come from any store."""
    if not isinstance(given, dict):
        return {}
    return {
        str(name): [float(one) for one in value] + [0.0] * (4 - len(value))
        for name, value in given.items()
        if isinstance(value, list) and value and all(isinstance(one, int | float) for one in value)
    }


# --- decisions


def decided_brief(decision: Decision) -> tuple[str, str]:
    """Return who decided and when: in short, and in full."""
    is_own = decision.is_personal and decision.decided_by == current_person()
    who = "you" if is_own else _decider(decision)
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


def _decider(decision: Decision) -> str:
    return _DECIDERS.get(decision.channel, one_line(decision.decided_by, 40))


def clock_text(moment: datetime) -> str:
    """Return the time of a day in the reader's own zone."""
    return moment.astimezone().strftime("%H:%M")


def is_rejection(decision: Decision) -> bool:
    """Return True if the decision turned something down."""
    return decision.action in {"reject", "expire"}


def quoted(reason: str) -> str:
    """Return somebody's words in quotation marks; empty if there are none."""
    return f"“{one_line(reason, _REASON)}”" if reason.strip() else ""


class AskedQuestion(NamedTuple):
    """A question that a script asked, as the store has it.

    Attributes:
        pending_id: of the pending.
        title: what was asked.
        operation: its name.
        arguments: the values that it was about; of a decided one with what was changed.
        decision: what was decided; None while it is open.
        reason: why it was turned down, or what failed.
        asker: the agent that asked, and for whom; empty if no agent did.
    """

    pending_id: str
    title: str
    operation: str
    arguments: Mapping[str, Any]
    decision: Decision | None = None
    reason: str = ""
    asker: str = ""

    @property
    def what(self) -> str:
        """What was asked, by whom."""
        return f"{self.title} ({self.asker})" if self.asker else self.title


def asked_row(asked: AskedQuestion) -> RowParts:
    """Return a question that a script asked, decided or not."""
    brief, text = brief_arguments(asked.arguments)
    body = f"{sub_html('Asked about')}{arguments_html(asked.arguments)}"
    decision = asked.decision
    if decision is None:
        return RowParts(
            "asked", asked.what, brief=brief, brief_text=text, body=body + decide_html(asked.pending_id)
        )
    short, full = decided_brief(decision)
    body += f"{sub_html('Decided')}<p>{escaped(full)}</p>"
    if is_rejection(decision):
        reason = quoted(decision.reason or asked.reason)
        body += f"<p>{escaped(reason)}</p>" if reason else ""
        word = "Expired" if decision.action == "expire" else "Rejected"
        return RowParts(
            "refused", f"{word}: {asked.what}", brief=escaped(reason), brief_text=reason, aside=short,
            aside_title=full, body=body,
        )  # fmt: skip
    return RowParts(
        "done",
        f"Approved: {asked.what}",
        brief=brief,
        brief_text=text,
        aside=short,
        aside_title=full,
        body=body,
    )


def decide_html(pending_id: str) -> str:
    """Return how a question is decided where there are no buttons."""
    return f'<p class="dim"><code>{escaped(how_to_decide(pending_id))}</code> decides it.</p>'


def note_html(title: str, text: str, css: str = "", icon: str = "") -> str:
    """Return a note between rows."""
    head = f'<i class="i {icon}"></i>' if icon else ""
    more = f"<p>{escaped(text)}</p>" if text else ""
    return f'<div class="note {css}"><p class="note-head">{head}<b>{escaped(title)}</b></p>{more}</div>'


def joined(texts: Iterable[str]) -> str:
    """Return sentences as one text, without the empty ones."""
    return " ".join(text for text in texts if text)
