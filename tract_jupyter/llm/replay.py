"""Reading a cassette, and serving from it: each request and call once, in order, and nothing that differs.

An entry may be served once all are served that had ended when it began. What went on side by side, such as the reads of
one step, may so come in another order; anything else may not.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    CassetteError,
    LLMBudgetError,
    LLMConfigError,
    LLMRequestError,
    LLMResponseError,
)
from tract_jupyter.llm.call import CANCELLED, end_ambient
from tract_jupyter.llm.recording import (
    CHECKSUM,
    FORMAT,
    PARTIAL,
    CassettePlace,
    checksum,
    json_data,
    partial_of,
)
from tract_jupyter.llm.sse import deltas_of
from tract_jupyter.models import Delta, brief_repr, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import TypeVar

    from tract_jupyter.llm.recording import SentRequest
    from tract_jupyter.llm.redaction import Redaction

    Made = TypeVar("Made")

_MOST_DIFFERENCES: Final = 5
_AROUND: Final = 30  # characters of a long text that are shown around a difference
_LONGEST: Final = 90
_EXPANDED: Final = 8
_WHAT_TO_DO: Final = "Make it what it was, or record again"


@dataclass
class CassetteEntry:
    """A request or a call, as it is on a cassette."""

    number: int
    after: int
    line: Mapping[str, Any]
    parts: list[int] = field(default_factory=list)

    @property
    def is_request(self) -> bool:
        """True if it is a request, not a call."""
        return "request" in self.line

    def __str__(self) -> str:
        if self.is_request:
            return f"request {self.line['request']} ({self.line['for']})"
        return f"call {self.line['call']} ({self.line['tool']})"


@dataclass
class CassetteContent:
    """What a cassette holds.

    Attributes:
        place: where the recording began.
        head: the newest commit when it ended; None if there was none, or it did not end.
        is_complete: whether it ended.
        entries: requests and calls, by their numbers.
        times: commits by the one before: their hashes and times.
        drawn: what was drawn, by kind, in order.
    """

    place: CassettePlace
    head: str | None = None
    is_complete: bool = False
    entries: dict[int, CassetteEntry] = field(default_factory=dict)
    times: dict[str | None, list[tuple[str, str]]] = field(default_factory=dict)
    drawn: dict[str, deque[Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        requests = sum(entry.is_request for entry in self.entries.values())
        calls = len(self.entries) - requests
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
    for number, line in enumerate(lines, 2):
        try:
            end = _read_line(content, json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _damaged(path, f"line {number}") from None
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
        content.is_complete, content.head = True, end.get("head")
        requests = sum(entry.is_request for entry in content.entries.values())
        found = [requests, len(content.entries) - requests]
        if [end.get("requests"), end.get("calls")] != found and not is_partial:
            raise CassetteError(
                f"{path} was changed: lines are missing or too many; restore the file, or record again"
            )
    try:
        _connect(content)
    except KeyError:
        raise _damaged(path, "a line") from None
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


def _damaged(path: Path, what: str) -> CassetteError:
    return CassetteError(
        f"{what} of {path} is damaged, so nothing was replayed; restore the file, or record again"
    )


def _foreign(path: Path) -> CassetteError:
    return CassetteError(f"{path} is no cassette; give a file that t.cassette.record has written")


def _place(path: Path, line: str) -> CassettePlace:
    try:
        found = json.loads(line)
        version = found["cassette"]
    except (ValueError, KeyError, TypeError):
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
    if "commit" in line:
        content.times.setdefault(line["on"], []).append((line["commit"], line["at"]))
    elif "drawn" in line:
        content.drawn.setdefault(line["drawn"], deque()).append(line["value"])
    else:
        _check_entry(line)
        number = line["n"]
        content.entries[number] = CassetteEntry(number, line.get("after", number), line)
    return None


def _check_entry(line: dict[str, Any]) -> None:
    """Check that a request or a call has all that it is served by.

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
    else:
        result = line["result"]
        numbers.append(line["call"])
        is_sound = (
            isinstance(line["tool"], str)
            and isinstance(line["arguments"], dict)
            and isinstance(result, dict)
            and bool({"output", "shown"} & set(result) or isinstance(result["error"], str))
        )
    if not is_sound or not all(type(one) is int and one >= 0 for one in numbers):
        raise ValueError("it is not as it was written")


def _connect(content: CassetteContent) -> None:
    """Connect the entries with those that they refer to.

    Raises:
        KeyError: one refers to a request that is not there.
    """
    content.entries = dict(sorted(content.entries.items()))
    requests = {entry.line["request"]: entry.line for entry in content.entries.values() if entry.is_request}
    for line in requests.values():
        if "messages_as" in line:
            _ = requests[line["messages_as"][0]]
        if "options_as" in line:
            _ = requests[line["options_as"]]["options"]
    for entry in content.entries.values():
        around = content.entries.get(entry.line.get("within", 0))
        if around is not None:
            around.parts.append(entry.number)


class Player:
    """Serves what is on a cassette. Threads may share it.

    Args:
        path: of the cassette.
        redaction: gives what takes secrets out, as they are not on the cassette.

    Raises:
        CassetteError: see `read_cassette`.
    """

    def __init__(self, path: Path, redaction: Callable[[], Redaction]) -> None:
        self.path = path
        self.content = read_cassette(path)
        self.requests = self.calls = 0
        self._redaction = redaction
        self._lock = threading.Lock()
        self._left = dict(self.content.entries)
        self._left_commits = {parent: list(times) for parent, times in self.content.times.items()}
        self._drawn = {kind: deque(values) for kind, values in self.content.drawn.items()}
        self._numbered = {
            entry.line["request"]: entry for entry in self.content.entries.values() if entry.is_request
        }
        self._expanded: dict[int, list[Any]] = {}
        self._failed: CassetteError | None = None
        self._horizon = self._horizons()

    @property
    def unused(self) -> tuple[CassetteEntry, ...]:
        """What was not asked for yet."""
        return tuple(self._left.values())

    def has_requests(self, operation: str) -> bool:
        """Return True if there is a request for this."""
        return any(entry.line["for"] == operation for entry in self._numbered.values())

    # --- what happens

    def request(self, sent: SentRequest, on_delta: Callable[[Delta], object] | None) -> Any:
        """Serve the reply to a request, with its pieces, or raise what was raised then.

        Raises:
            CassetteError: it is not the one that comes next.
            LLMError: as it was recorded.
        """
        with self._lock:
            what = f"request {self.requests + 1} ({sent.operation})"
            entry = self._served(
                lambda entry: self._request_differs(entry, sent), what, "for", sent.operation
            )
            self.requests += 1
            self._take_parts(entry)
            # the next one has most of the same objects, which takes no time to see
            self._keep(entry.line["request"], list(sent.messages))
        line = entry.line
        if on_delta is not None:
            for delta in self._deltas(line):
                on_delta(delta)
        if "error" in line:
            raise _error(line["error"])
        return json_data(line["reply"])  # whoever gets it may change it

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        actor: str,
        make: Callable[[], Made],
        write: Callable[[Made], Any],
        read: Callable[[Any], Made],
        *,
        again: bool,
    ) -> Made:
        """Serve the result of a call; or make it again, if it is one of the tract's own.

        Raises:
            CassetteError: it is not the one that comes next.
        """
        asked = {"tool": tool, "actor": actor, "arguments": json_data(dict(arguments))}
        with self._lock:
            what = f"call {self.calls + 1} ({tool})"
            entry = self._served(lambda entry: self._call_differs(entry, asked), what, "tool", tool)
            self.calls += 1
            if not again:
                self._take_parts(entry)
        recorded = entry.line["result"]
        if again:  # for what it does; what it gave is recorded, with the seconds that it took
            made = make()
            now = write(made)
            if ("error" in now) is not ("error" in recorded):
                self.calls -= 1
                self._failed = self._miss(str(entry), (0, entry, self._differences("result", recorded, now)))
                raise self._failed
            if "output" not in recorded and "error" not in recorded:
                return made
        return read(json_data(recorded))

    def time_of(self, parent: str | None, hash_at: Callable[[str], str], now: Callable[[], str]) -> str:
        """Return when a commit was made, if it is the one that was; else the present."""
        with self._lock:
            there = self._left_commits.get(parent, [])
            for place, (commit, at) in enumerate(there):
                if hash_at(at) == commit:
                    del there[place]
                    return at
        return now()

    def drawn(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return what was drawn then; what `make` gives where nothing more was.

        Raises:
            CassetteError: what was drawn then has another form than what is drawn now.
        """
        made = make()
        with self._lock:
            values = self._drawn.get(kind)
            found = values.popleft() if values else made
        if _form(found) != _form(made):
            raise _damaged(self.path, f"what was drawn for {kind!r}")
        return found

    # --- finding

    def _served(
        self, differs: Callable[[CassetteEntry], list[str]], what: str, key: str, name: str
    ) -> CassetteEntry:
        """Take the entry that something asks for.

        Raises:
            CassetteError: nothing that may be served now is the same; from then on for all that is asked.
        """
        if self._failed is not None:
            raise CassetteError(*self._failed.args) from None
        nearest: tuple[int, CassetteEntry, list[str]] | None = None
        for entry in self._servable():
            if key not in entry.line:
                continue
            differences = differs(entry)
            if not differences:
                del self._left[entry.number]
                return entry
            distance = len(differences) + (0 if entry.line[key] == name else _MOST_DIFFERENCES + 1)
            if nearest is None or distance < nearest[0]:
                nearest = (distance, entry, differences)
        self._failed = self._miss(what, nearest)
        raise self._failed

    def _miss(self, what: str, nearest: tuple[int, CassetteEntry, list[str]] | None) -> CassetteError:
        if nearest is not None:
            _, entry, differences = nearest
            fields = "; ".join(differences[:_MOST_DIFFERENCES])
            told = f"{what} is not {entry} of the cassette {self.path.name}: {fields}"
            return CassetteError(f"{told}. {_WHAT_TO_DO}", differences=tuple(differences))
        following = next(iter(self._left.values()), None)
        if following is not None:
            told = f"{what} is not what comes next on the cassette {self.path.name}: that is {following}"
        else:
            why = "it has ended" if self.content.is_complete else "its recording did not go further"
            told = f"{what} is not on the cassette {self.path.name}: {why}"
        return CassetteError(f"{told}. {_WHAT_TO_DO}")

    def _servable(self) -> Iterator[CassetteEntry]:
        """Yield the entries before which nothing is left that had ended when they began."""
        first = next(iter(self._left), None)
        if first is None:
            return
        for entry in self._left.values():
            if self._horizon[entry.number] > first:
                return
            if entry.after <= first:
                yield entry

    def _horizons(self) -> dict[int, int]:
        """Return, for each entry, the least that it and all later ones wait for."""
        found: dict[int, int] = {}
        least: int | None = None
        for entry in reversed(self.content.entries.values()):
            least = entry.after if least is None else min(least, entry.after)
            found[entry.number] = least
        return found

    def _take_parts(self, entry: CassetteEntry) -> None:
        """Take what went on within a call that is served as a whole."""
        waiting = list(entry.parts)
        while waiting:
            part = self._left.pop(waiting.pop(), None)
            if part is not None:
                waiting += part.parts

    # --- comparing

    def _request_differs(self, entry: CassetteEntry, sent: SentRequest) -> list[str]:
        line = entry.line
        found = []
        if line["for"] != sent.operation:
            found.append(_differs("purpose", line["for"], sent.operation))
        if line["model"] and sent.model and line["model"] != sent.model:
            found += self._differences("model", line["model"], sent.model)
        expected = self._messages(line["request"])
        if list(sent.messages) != expected:
            found += self._differences("messages", expected, list(sent.messages))
        options = self._options(line)
        if dict(sent.options) != options:
            found += self._differences("options", options, dict(sent.options))
        return found

    def _call_differs(self, entry: CassetteEntry, asked: Mapping[str, Any]) -> list[str]:
        found = [
            _differs(name, self._clean(entry.line.get(name)), self._clean(asked[name]))
            for name in ("tool", "actor")
            if entry.line.get(name) != asked[name]
        ]
        if entry.line["arguments"] != asked["arguments"]:
            found += self._differences("arguments", entry.line["arguments"], asked["arguments"])
        return found

    def _differences(self, where: str, recorded: Any, now: Any) -> list[str]:
        """Return where two values differ, as they would stand on a cassette."""
        if isinstance(recorded, list) and isinstance(now, list | tuple):
            pairs = zip_longest(recorded, now, fillvalue=_NONE)
            each = (self._differences(f"{where}[{at}]", a, b) for at, (a, b) in enumerate(pairs) if a != b)
            return [one for found in each for one in found]
        return list(_differing(where, self._clean(recorded), self._clean(now)))

    def _clean(self, value: Any) -> Any:
        """Return a value as it would stand on a cassette; also what somebody has written into one."""
        return value if value is _NONE else self._redaction().of(json_data(value))

    def _messages(self, number: int) -> list[Any]:
        """Return the messages of a request, put together from those that it refers to."""
        refers: list[int] = []
        at: int | None = number
        while at is not None and at not in self._expanded:
            refers.append(at)
            base = self._numbered[at].line.get("messages_as")
            at = None if base is None else base[0]
        for one in reversed(refers):
            line = self._numbered[one].line
            base = line.get("messages_as")
            before = [] if base is None else self._expanded[base[0]][: base[1]]
            self._keep(one, [*before, *line["messages"]])
        return self._expanded[number]

    def _keep(self, number: int, messages: list[Any]) -> None:
        self._expanded[number] = messages
        while len(self._expanded) > _EXPANDED:
            del self._expanded[next(key for key in self._expanded if key != number)]

    def _options(self, line: Mapping[str, Any]) -> Any:
        return (self._numbered[line["options_as"]].line if "options_as" in line else line)["options"]

    def _deltas(self, line: Mapping[str, Any]) -> Iterator[Delta]:
        if "deltas" in line:
            yield from (Delta(*one) for one in line["deltas"])
        elif isinstance(line.get("reply"), dict):
            # it may be no reply, as whoever reads it will say
            with suppress(KeyError, TypeError, IndexError, AttributeError):
                yield from (one for one in deltas_of(line["reply"]) if isinstance(one.text, str))


def _form(value: Any) -> Any:
    """Return the types of JSON data."""
    return [type(one) for one in value] if isinstance(value, list) else type(value)


_NONE: Final = object()


def _differing(where: str, recorded: Any, now: Any) -> Iterator[str]:
    """Yield each difference of two values of JSON data."""
    if recorded == now and type(recorded) is type(now):
        return
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*recorded, *now]):
            a, b = recorded.get(key, _NONE), now.get(key, _NONE)
            if a is _NONE or b is _NONE:
                yield _differs(f"{where}.{key}", a, b)
            else:
                yield from _differing(f"{where}.{key}", a, b)
    elif isinstance(recorded, list) and isinstance(now, list):
        for at, (a, b) in enumerate(zip_longest(recorded, now, fillvalue=_NONE)):
            if a is _NONE or b is _NONE:
                yield _differs(f"{where}[{at}]", a, b)
            else:
                yield from _differing(f"{where}[{at}]", a, b)
    else:
        yield _differs(where, recorded, now)


def _differs(where: str, recorded: Any, now: Any) -> str:
    if isinstance(recorded, str) and isinstance(now, str):
        start = next((at for at, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b), None)
        start = min(len(recorded), len(now)) if start is None else start
        return f"{where}: recorded {_shown(recorded, start)}, now {_shown(now, start)}"
    return f"{where}: recorded {_brief(recorded)}, now {_brief(now)}"


def _shown(text: str, start: int) -> str:
    """Return a text, a long one around the place where it differs."""
    if len(text) <= _LONGEST:
        return repr(text)
    first, last = max(0, start - _AROUND), start + 2 * _AROUND
    before, after = "…" if first else "", "…" if last < len(text) else ""
    return repr(f"{before}{text[first:last]}{after}")


def _brief(value: Any) -> str:
    if value is _NONE:
        return "nothing"
    return brief_repr(value) if not isinstance(value, dict) or "role" not in value else (
        f"a message of {value['role']!r}, {brief_repr(value.get('content'))}"
    )  # fmt: skip


_ERRORS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        LLMBudgetError, LLMConfigError, LLMResponseError, TimeoutError, ConnectionError, OSError, ValueError, TypeError,
        KeyError, RuntimeError, AttributeError, IndexError,
    )
}  # fmt: skip


def _error(told: Mapping[str, Any]) -> Exception:
    """Return the error of a request again; one of an unknown type as an `LLMRequestError` that names it."""
    message, kind = str(told.get("message", "")), str(told.get("type", ""))
    if kind in _ERRORS:
        return _ERRORS[kind](message)
    if kind != LLMRequestError.__name__:
        is_interrupt = kind in {"KeyboardInterrupt", "CancelledError", "SystemExit"}
        if is_interrupt:
            end_ambient()
        return LLMRequestError(f"{kind}: {message}", code=CANCELLED if is_interrupt else "provider_error")
    given = {
        name: told[name]
        for name in ("code", "status", "retry_after", "is_transient", "reason")
        if name in told
    }
    error = LLMRequestError(message, **given)
    error.partial = told.get("partial")
    if error.code == CANCELLED:
        end_ambient(str(told.get("why", "")))  # whoever pressed Stop then does not do it again
    return error
