"""Reading a cassette. A cassette may come from another user, so each line is checked before anything is served."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CassetteError
from tract_jupyter.llm.recording import FORMAT, CassettePlace, partial_of
from tract_jupyter.models import Delta, counted, open_regular, tracked, unique_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_WRONG_LINE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class RecordedEntry:
    """A request or a call on a cassette.

    Attributes:
        name: for messages, such as `request 2 (chat)`.
        asked: the fields that a replay compares, without the messages of a request.
        line: all fields.
        before: the request whose first messages this one repeats.
        shared: the number of these messages.
        count: the number of all messages.
    """

    name: str
    asked: Mapping[str, Any]
    line: Mapping[str, Any]
    before: RecordedEntry | None = None
    shared: int = 0
    count: int = 0

    def messages(self) -> list[Any]:
        """Return all messages of a request. A list for each entry would take the square of their number."""
        parts: list[list[Any]] = []
        entry: RecordedEntry | None = self
        count = self.count
        while entry is not None and count:
            if count > entry.shared:
                parts.append(entry.line["messages"][: count - entry.shared])
                count = entry.shared
            entry = entry.before
        return [message for part in reversed(parts) for message in part]


@dataclass
class CassetteContent:
    """The content of a cassette.

    Attributes:
        place: the start of the recording.
        head: the newest commit at the end of the recording.
        requests: the requests, in the order in which they ended.
        calls: the calls, in the same order.
        drawn: drawn values by kind, in order.
    """

    place: CassettePlace
    head: str | None = None
    requests: list[RecordedEntry] = field(default_factory=list)
    calls: list[RecordedEntry] = field(default_factory=list)
    drawn: dict[str, deque[Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{counted(len(self.requests), 'request')} and {counted(len(self.calls), 'tool call')}"


def read_place(path: Path) -> CassettePlace:
    """Return the place at which a recording started."""
    try:
        with open(path, encoding="utf-8", opener=open_regular) as file:  # Path.open takes no opener
            return _place(path, file.readline())
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def read_cassette(path: Path) -> CassetteContent:
    """Read a cassette."""
    try:
        with open(path, encoding="utf-8", opener=open_regular) as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    first, *lines = text.split("\n")
    content = CassetteContent(_place(path, first))
    end: dict[str, Any] | None = None
    rest = lines.pop() if lines else ""  # an incomplete line, from a process that was killed
    for number, line in enumerate(tracked(lines, f"Reading {path.name}"), 2):
        try:
            if end is not None:
                raise ValueError("the end is not the last line")
            end = _read_line(content, json.loads(line, object_pairs_hook=unique_object))
        except _WRONG_LINE:
            raise damaged(path, f"line {number}") from None
    if end is None or rest:
        raise CassetteError(
            f"{path} is incomplete: it has {content} but no end, so nothing was replayed. Restore the file, or "
            "record again"
        )
    if (end.get("requests"), end.get("calls")) != (len(content.requests), len(content.calls)):
        raise CassetteError(
            f"{path} was changed: lines are missing or were added, so nothing was replayed. Restore the file, or "
            "record again"
        )
    content.head = end.get("head")
    return content


def damaged(path: Path, what: str) -> CassetteError:
    """Return the error for a damaged line."""
    return CassetteError(
        f"{what} of {path} is damaged, so nothing was replayed; restore the file, or record again"
    )


def _unreadable(path: Path, error: Exception) -> CassetteError:
    if isinstance(error, UnicodeDecodeError):
        return _foreign(path)
    if isinstance(error, FileNotFoundError) and partial_of(path).exists():
        return CassetteError(
            f"{path} does not exist: its recording has not ended, or its process was killed. End it with "
            "tract.cassette.stop(), or record again with record(..., replace=True)"
        )
    return CassetteError(
        f"{path} cannot be read: {getattr(error, 'strerror', error)}; pass the file of a cassette"
    )


def _foreign(path: Path) -> CassetteError:
    return CassetteError(f"{path} is not a cassette; pass a file that tract.cassette.record wrote")


def _place(path: Path, line: str) -> CassettePlace:
    try:
        header = json.loads(line)
        version = header["cassette"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _foreign(path) from None
    if type(version) is not int:
        raise _foreign(path)
    if version > FORMAT:
        raise CassetteError(
            f"{path} was written by a newer tract_jupyter ({header.get('by')!s:.40}); install that version"
        )
    place = CassettePlace(header.get("tract_id"), header.get("branch"), header.get("head"))
    if not isinstance(place.tract_id, str) or not all(
        value is None or isinstance(value, str) for value in place
    ):
        raise _foreign(path)
    return place


def _read_line(content: CassetteContent, line: dict[str, Any]) -> dict[str, Any] | None:
    """Add a line to the content. If it is the last line, return it."""
    if "end" in line:
        return dict(line["end"])
    if "drawn" in line:
        content.drawn.setdefault(line["drawn"], deque()).append(line["value"])
    elif "request" in line:
        _check(line["request"] == len(content.requests) + 1)
        content.requests.append(_request(content, line))
    else:
        _check(line["call"] == len(content.calls) + 1)
        content.calls.append(_call(line))
    return None


def _request(content: CassetteContent, line: dict[str, Any]) -> RecordedEntry:
    before, shared, options = None, 0, line.get("options")
    if "after" in line:
        number, shared = line["after"]
        _check(
            type(number) is int
            and 0 < number <= len(content.requests)
            and type(shared) is int
            and shared >= 0
        )
        before = content.requests[number - 1]
        shared = min(shared, before.count)
        options = before.asked["options"] if options is None else options
    fields = {
        "tract": line.get("tract", ""),
        "purpose": line["for"],
        "model": line["model"],
        "options": options,
    }
    _check(all(isinstance(fields[name], str) for name in ("tract", "purpose", "model")))
    _check(isinstance(options, dict) and isinstance(line["messages"], list))
    _check("reply" in line or isinstance(line["error"], dict))
    _check(all(isinstance(Delta(*piece).text, str) for piece in line.get("pieces", ())))
    name = name_of("request", line["request"], line["for"], fields["tract"])
    return RecordedEntry(name, fields, line, before, shared, shared + len(line["messages"]))


def _call(line: dict[str, Any]) -> RecordedEntry:
    result = line["result"]
    fields = {
        "tract": line.get("tract", ""), "tool": line["tool"], "actor": line["actor"],
        "arguments": line["arguments"],
    }  # fmt: skip
    _check(
        all(isinstance(fields[name], str) for name in ("tract", "tool"))
        and isinstance(fields["arguments"], dict)
    )
    _check(
        isinstance(result, dict)
        and bool({"output", "shown"} & set(result) or isinstance(result["error"], str))
    )
    return RecordedEntry(name_of("call", line["call"], line["tool"], fields["tract"]), fields, line)


def name_of(what: str, number: int, which: str, tract: str) -> str:
    """Return the name of a request or a call for messages."""
    return f"{what} {number} ({which})" + (f" of the tract {tract:.12}" if tract else "")


def _check(is_right: bool) -> None:  # noqa: FBT001 # a condition
    if not is_right:
        raise ValueError("no recording writes this")
