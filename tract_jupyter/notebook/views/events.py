"""Events in plain words: one line each, which unfolds to the data of the event."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import counted, exact_time, local_time, one_line, printable
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, ago, element, table, text_width
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.storage import Event

_LONG_HASH = re.compile(r"(?<![0-9a-f])([0-9a-f]{8})[0-9a-f]{4,56}(?![0-9a-f])")
_VALUE = 80
_WORDS = 200
_TEXT_WORDS = 96
_HIDDEN = frozenset({"signature", "spec_json", "profile_json", "arguments", "resolutions", "branch"})


def short_hashes(text: str) -> str:
    """Return a text in which hashes and ids of 12 digits or more are shortened to 8."""
    return _LONG_HASH.sub(r"\1", text)


def in_words(event: Event) -> str:
    """Return the event as a sentence without its period and actor."""
    kind, data = event.event_type, event.data
    if kind.startswith("custom:"):
        sentence = f"ran {kind.removeprefix('custom:')}{_values(data.get('fields') or {})}"
    elif kind in _SENTENCES:
        try:
            sentence = _SENTENCES[kind](data)
        except (KeyError, TypeError, ValueError):  # data of another version
            sentence = _plain(kind, data)
    else:
        sentence = _plain(kind, data)
    return one_line(short_hashes(sentence), _WORDS)


def _plain(kind: str, data: dict[str, Any]) -> str:
    what, _, done = kind.rpartition(".")
    name = data.get("name")
    about = f"{what.replace('_', ' ')}{f' {name}' if name else ''} {done}".strip()
    rest = {key: value for key, value in data.items() if key != "name"}
    return f"{about.replace('_', ' ')}{_values(rest)}"


def _values(data: dict[str, Any]) -> str:
    values = ", ".join(
        f"{key.replace('_', ' ')} {str(value)[:_VALUE]}"
        for key, value in data.items()
        if value not in (None, "", {}, []) and key not in _HIDDEN
    )
    return f": {values}" if values else ""


def _decision(data: dict[str, Any]) -> str:
    did = {"approve": "approved", "reject": "rejected"}.get(data["action"], f"chose {data['action']} for")
    reason = f", because: {data['reason']}" if data.get("reason") else ""
    outcome = f" ({data['outcome']})" if data.get("outcome") else ""
    return f"{did} {data['title']}{reason}{outcome}"


def _merged(data: dict[str, Any]) -> str:
    how = "" if data.get("merge_type", "clean") == "clean" else f" ({data['merge_type'].replace('_', ' ')})"
    return f"merged {data['source_branch']} into {data['branch']}{how}"


_SENTENCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "decision": _decision,
    "rejected": lambda data: f"{data['action']} rejected it, because: {data['reason'] or 'no reason given'}",
    "failed": lambda data: f"{data['action']} failed: {data['error']}",
    "merge": _merged,
    "gc": lambda data: (
        f"removed {counted(data['commits'], 'commit')} that no branch leads to, {data['tokens']:,} tokens"
    ),
    "operation.activated": lambda data: f"activated operation {data['name']}, version {data['version']}",
    "spawn": lambda data: f"made tract {data['child']}{_values({'for': data.get('purpose')})}",
    "script": lambda data: f"ran a script{_values({k: v for k, v in data.items() if k != 'script_hash'})}",
    "turn.limit": lambda data: f"a turn reached a limit at {data['commit']}",
}


@dataclass(frozen=True)
class EventsView(View):
    """Events, the newest first, as seen at the time `now`."""

    events: Sequence[Event]
    now: datetime

    @classmethod
    def of(cls, events: Sequence[Event]) -> EventsView:
        """Return the view as of now."""
        return cls(events, datetime.now(UTC))

    @property
    def headline(self) -> str:
        """The number of events, and the reference time of "ago", which stays correct in a saved notebook."""
        if not self.events:
            return "None yet."
        return f"{counted(len(self.events), 'event')}, the newest first, seen {local_time(self.now)}"

    def to_html(self) -> str:
        """Return the events as self-contained HTML."""
        title = element("p", element("b", "Events"), " ", element("small", self.headline))
        lines = rows.rows(map(self._line, self.events)) if self.events else None
        return styled(rows.page(title, lines, label="Events", name="tract-events"))

    def to_text(self) -> str:
        """Return a line for each event."""
        rows = [(ago(event.created_at, self.now), _by(event), in_words(event)) for event in self.events]
        widths = [max((text_width(row[place]) for row in rows), default=0) for place in range(2)]
        lines = [
            f"{when_.ljust(widths[0])}  {by.ljust(widths[1])}  {one_line(words, _TEXT_WORDS)}"
            for when_, by, words in rows
        ]
        return printable("\n".join([f"Events: {self.headline}", *lines]))

    def _line(self, event: Event) -> Html:
        at = {"datetime": event.created_at.isoformat(), "title": exact_time(event.created_at)}
        cells = (
            rows.said(_by(event)),
            element("span", in_words(event), class_="cut"),
            rows.number(element("time", ago(event.created_at, self.now), **at)),
        )
        fields = [("what", event.event_type), ("when", exact_time(event.created_at))]
        fields += [(key, str(value)) for key, value in event.data.items() if value not in (None, "", {}, [])]
        items = [(key, element("code", one_line(value, _WORDS))) for key, value in fields]
        return rows.row(cells, table(items, ("", "")))


def _by(event: Event) -> str:
    return one_line(short_hashes(event.actor), 40)
