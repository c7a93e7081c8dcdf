"""Reading a cassette: what its file holds, of each tract, checked before anything of it is served."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CassetteError
from tract_jupyter.llm.recording import (
    CHECKSUM,
    FORMAT,
    PARTIAL,
    CassettePlace,
    checksum,
    child_name,
    partial_of,
)
from tract_jupyter.models import Delta, counted, tracked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass
class CassetteEntry:
    """A request, a call or a spawn, as it is on a cassette.

    Attributes:
        number: in the file.
        after: all of its track before this number had ended when it began.
        line: as it is in the file.
        owner: names the tract whose it is; empty for the one that the cassette was begun on.
        parts: the numbers of what went on within a call.
    """

    number: int
    after: int
    line: Mapping[str, Any]
    owner: str = ""
    parts: list[int] = field(default_factory=list)

    @property
    def is_request(self) -> bool:
        """True if it is a request."""
        return "request" in self.line

    @property
    def name(self) -> str:
        """What it goes by in its track."""
        if self.is_request:
            return f"request {self.line['request']} ({self.line['for']})"
        if "call" in self.line:
            return f"call {self.line['call']} ({self.line['tool']})"
        return f"spawn {self.line['spawn']} ({child_name({**self.line, 'id': ''})})"

    def __str__(self) -> str:
        return self.name + self.owner


@dataclass
class TrackContent:
    """What a cassette holds of one tract.

    Attributes:
        name: of the child in a sentence; empty for the tract that the cassette was begun on.
        head: the newest commit when the recording ended; None if there was none, or it did not end.
        entries: requests, calls and spawns, by their numbers.
        times: commits by the one before: their hashes and times.
        drawn: what was drawn, by kind, in order.
    """

    name: str = ""
    head: str | None = None
    entries: dict[int, CassetteEntry] = field(default_factory=dict)
    times: dict[str | None, list[tuple[str, str]]] = field(default_factory=dict)
    drawn: dict[str, deque[Any]] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """What follows an entry of a child in a sentence."""
        return f" of the {self.name}" if self.name else ""


@dataclass
class CassetteContent:
    """What a cassette holds.

    Attributes:
        place: where the recording began.
        is_complete: whether it ended.
        tracks: of each tract, by the number of the spawn that made it; 0 is the one that the cassette was begun on.
    """

    place: CassettePlace
    is_complete: bool = False
    tracks: dict[int, TrackContent] = field(default_factory=lambda: {0: TrackContent()})

    @property
    def entries(self) -> dict[int, CassetteEntry]:
        """All requests, calls and spawns, in the order in which they began."""
        every = [one for track in self.tracks.values() for one in track.entries.items()]
        return dict(sorted(every, key=lambda one: one[0]))

    @property
    def counts(self) -> tuple[int, int]:
        """How many requests and calls there are."""
        every = [entry.line for track in self.tracks.values() for entry in track.entries.values()]
        return sum("request" in line for line in every), sum("call" in line for line in every)

    def __str__(self) -> str:
        requests, calls = self.counts
        return f"{counted(requests, 'request')} and {counted(calls, 'tool call')}"


def read_place(path: Path) -> CassettePlace:
    """Return where a recording began.

    Raises:
        CassetteError: as of `read_cassette`.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return _place(path, file.readline())
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def read_cassette(path: Path) -> CassetteContent:
    """Read a cassette; of a recording that did not end, under its name with `.partial`, what there is.

    Raises:
        CassetteError: it cannot be read, is something else, cut, damaged, or from a newer version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    first, *lines = text.split("\n")
    content = CassetteContent(_place(path, first))
    is_partial = path.name.endswith(PARTIAL)
    last = lines.pop() if lines else ""  # what follows the last newline: nothing, or half a line
    end = None
    for number, line in enumerate(tracked(lines, f"Reading {path.name}"), 2):
        try:
            end = _read_line(content, json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise damaged(path, f"line {number}") from None
    if (end is None or last) and not is_partial:
        raise CassetteError(
            f"{path} was cut: it has {content}, and no end. Restore the file, or record again; renamed to "
            f"{partial_of(path).name} it is replayed as far as it goes"
        )
    if end is not None:
        closing = json.loads(lines[-1])
        if closing.get(CHECKSUM, "") not in {"", checksum([first, *lines[:-1]], closing)}:
            raise CassetteError(
                f"{path} was changed after it was recorded, so nothing was replayed; restore the file, or record "
                f"again. If it was changed on purpose, take the {CHECKSUM} out of its last line"
            )
        content.is_complete, content.tracks[0].head = True, end.get("head")
        if (end.get("requests"), end.get("calls")) != content.counts and not is_partial:
            raise CassetteError(
                f"{path} was changed: lines are missing or too many; restore the file, or record again"
            )
    try:
        _connect(content, {} if end is None else end.get("heads", {}))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise damaged(path, "a line") from None
    return content


def _unreadable(path: Path, error: Exception) -> CassetteError:
    if isinstance(error, UnicodeDecodeError):
        return _foreign(path)
    if isinstance(error, FileNotFoundError) and partial_of(path).exists():
        return CassetteError(
            f"{path} is not there: its recording has not ended. replay({str(partial_of(path))!r}) has what was "
            "recorded until then"
        )
    return CassetteError(
        f"{path} cannot be read: {getattr(error, 'strerror', error)}; give the file of a cassette"
    )


def damaged(path: Path, what: str) -> CassetteError:
    """Return the error of a cassette whose lines are not as they were written."""
    return CassetteError(
        f"{what} of {path} is damaged, so nothing was replayed; restore the file, or record again"
    )


def _foreign(path: Path) -> CassetteError:
    return CassetteError(f"{path} is no cassette; give a file that tract.cassette.record has written")


def _place(path: Path, line: str) -> CassettePlace:
    try:
        found = json.loads(line)
        version = found["cassette"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _foreign(path) from None
    if type(version) is not int:
        raise _foreign(path)
    if version > FORMAT:
        raise CassetteError(
            f"{path} was written by a newer tract_jupyter ({found.get('by')!s:.40}); install that one"
        )
    place = CassettePlace(found.get("tract_id"), found.get("branch"), found.get("head"))
    if not isinstance(place.tract_id, str) or not all(one is None or isinstance(one, str) for one in place):
        raise _foreign(path)
    return place


def _read_line(content: CassetteContent, line: dict[str, Any]) -> dict[str, Any] | None:
    """Read a line into the content; return the end, if it is that."""
    if "end" in line:
        return dict(line["end"])
    number = line.get("of", 0)
    if not _is_number(number):
        raise ValueError("it is of no tract")
    track = content.tracks.setdefault(number, TrackContent())
    if "commit" in line:
        track.times.setdefault(line["on"], []).append((line["commit"], line["at"]))
    elif "drawn" in line:
        track.drawn.setdefault(line["drawn"], deque()).append(line["value"])
    else:
        _check_entry(line)
        if line["n"] in track.entries:
            raise ValueError("it stands there twice")
        track.entries[line["n"]] = CassetteEntry(line["n"], line.get("after", line["n"]), line)
        if "spawn" in line:
            content.tracks.setdefault(line["n"], TrackContent())
    return None


def _check_entry(line: dict[str, Any]) -> None:
    """Check that a request, a call or a spawn has all that it is served by.

    Raises:
        ValueError: it has not.
        KeyError: the same.
    """
    numbers = [line["n"], line.get("after", 0), line.get("within", 0)]
    if "request" in line:
        base, kept = line.get("messages_as", [0, 0])
        refers = [base, line.get("options_as", 0)]
        numbers += [line["request"], kept, *refers]
        is_sound = (
            isinstance(line["messages"], list)
            and isinstance(line["for"], str)
            and isinstance(line["model"], str)
            and ("options_as" in line or isinstance(line["options"], dict))
            and ("reply" in line or isinstance(line["error"], dict))
            and all(isinstance(Delta(*one).text, str) for one in line.get("deltas", ()))
            and max(refers) < line["request"]
        )
    elif "spawn" in line:
        numbers.append(line["spawn"])
        is_sound = (
            line["n"] > 0
            and line["way"] in {"spawn", "deploy"}
            and isinstance(line["id"], str)
            and isinstance(line["arguments"], dict)
            and isinstance(line["result"].get("error", ""), str)
        )
    else:
        result = line["result"]
        numbers.append(line["call"])
        is_sound = (
            isinstance(line["tool"], str)
            and isinstance(line["arguments"], dict)
            and isinstance(result, dict)
            and bool({"output", "shown"} & set(result) or isinstance(result["error"], str))
        )
    if not is_sound or not all(map(_is_number, numbers)):
        raise ValueError("it is not as it was written")


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _connect(content: CassetteContent, heads: Mapping[str, str | None]) -> None:
    """Connect the entries with those that they refer to, and the tracks with the spawns that made their tracts.

    Raises:
        ValueError: one stands there twice, or within another one in a circle.
        KeyError: one refers to what is not there.
    """
    entries = content.entries
    if len(entries) != sum(len(track.entries) for track in content.tracks.values()):
        raise ValueError("a number stands there twice")
    for number in [number for number in content.tracks if number]:
        track = content.tracks[number]
        if number in entries or track.entries:
            _connect_child(number, track, entries[number].line)
            track.head = heads.get(str(number))
        else:
            del content.tracks[number]  # of a spawn that was interrupted there are commits alone
    for track in content.tracks.values():
        track.entries = dict(sorted(track.entries.items()))
        _check_references(track)
        for entry in track.entries.values():
            entry.owner = track.owner
            around = entry.line.get("within", 0)
            if around >= entry.number:
                raise ValueError("it is within itself")
            if around in entries:
                entries[around].parts.append(entry.number)
    for number, track in content.tracks.items():
        if number:  # a child that is made within a call that is served is not made
            entries[number].parts += track.entries


def _connect_child(number: int, track: TrackContent, made_by: Mapping[str, Any]) -> None:
    """Give a track the name of its child.

    Raises:
        ValueError: what made it is no spawn, or is not before it.
    """
    before = [number, *track.entries]
    if "spawn" not in made_by or made_by.get("of", 0) >= number or min(before) != number:
        raise ValueError("it is of no tract")
    track.name = child_name(made_by)


def _check_references(track: TrackContent) -> None:
    """Check that all requests are there that others refer to.

    Raises:
        KeyError: one is not.
    """
    requests = {entry.line["request"]: entry.line for entry in track.entries.values() if entry.is_request}
    for line in requests.values():
        if "messages_as" in line:
            _ = requests[line["messages_as"][0]]
        if "options_as" in line:
            _ = requests[line["options_as"]]["options"]
