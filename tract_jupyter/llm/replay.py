"""Serving from a cassette: each request, call and spawn once, in the order of its tract, and nothing that differs.

An entry may be served once all are served that had ended when it began. What went on side by side, such as the reads of
one step, may so come in another order; anything else may not.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager, suppress
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
from tract_jupyter.llm.reading import damaged, read_cassette
from tract_jupyter.llm.recording import Track, child_name, json_data
from tract_jupyter.llm.sse import deltas_of
from tract_jupyter.models import Delta, brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import TypeVar

    from tract_jupyter.llm.reading import CassetteEntry, TrackContent
    from tract_jupyter.llm.recording import Member, SentRequest
    from tract_jupyter.llm.redaction import Redaction

    Made = TypeVar("Made")

_MOST_DIFFERENCES: Final = 5
_AROUND: Final = 30  # characters of a long text that are shown around a difference
_LONGEST: Final = 90
_EXPANDED: Final = 8
_WHAT_TO_DO: Final = "Make it what it was, or record again"


class Player:
    """Serves what is on a cassette. Threads may share it.

    Args:
        path: of the cassette.
        member: the tract that asks for what was recorded of the one that the recording began on.
        redaction: gives what takes secrets out, as they are not on the cassette.

    Raises:
        CassetteError: see `read_cassette`.
    """

    def __init__(self, path: Path, member: Member, redaction: Callable[[], Redaction]) -> None:
        self.path = path
        self.content = read_cassette(path)
        self.lock = threading.Lock()
        self.failed: CassetteError | None = None
        self.redaction = redaction
        self.tracks = {
            number: PlayedTrack(self, number, content) for number, content in self.content.tracks.items()
        }
        self.root = self.tracks[0]
        self.root.member = member
        self._owner = {entry: track for track in self.tracks.values() for entry in track.left}

    @property
    def requests(self) -> int:
        """How many requests were served."""
        return sum(track.requests for track in self.tracks.values())

    @property
    def calls(self) -> int:
        """How many calls were served."""
        return sum(track.calls for track in self.tracks.values())

    @property
    def unused(self) -> tuple[CassetteEntry, ...]:
        """What was not asked for yet."""
        left = [entry for track in self.tracks.values() for entry in track.left.values()]
        return tuple(sorted(left, key=lambda entry: entry.number))

    def take_parts(self, entry: CassetteEntry) -> None:
        """Take what went on within a call that is served as a whole, in whichever tract."""
        waiting = list(entry.parts)
        while waiting:
            number = waiting.pop()
            part = self._owner[number].left.pop(number, None)
            if part is not None:
                waiting += part.parts


class PlayedTrack(Track):
    """Serves what one tract asks for, in its order.

    Attributes:
        tape: the cassette.
        content: what that has of the tract.
        is_made: whether the tract is there: that of a child is not before its spawn.
        left: what was not asked for yet, by its number.
        requests: how many were served.
        calls: how many were served.
    """

    def __init__(self, tape: Player, number: int, content: TrackContent) -> None:
        super().__init__(number, content.name)
        self.tape = tape
        self.content = content
        self.is_made = number == 0
        self.left = dict(content.entries)
        self.requests = self.calls = self._spawns = 0
        self._left_commits = {parent: list(times) for parent, times in content.times.items()}
        self._drawn = {kind: deque(values) for kind, values in content.drawn.items()}
        self._numbered = {
            entry.line["request"]: entry for entry in content.entries.values() if entry.is_request
        }
        self._expanded: dict[int, list[Any]] = {}
        self._horizon = self._horizons()

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
        with self.tape.lock:
            what = f"request {self.requests + 1} ({sent.operation}){self.content.owner}"
            entry = self._served(
                lambda entry: self._request_differs(entry, sent), what, "for", sent.operation
            )
            self.requests += 1
            self.tape.take_parts(entry)
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
        with self.tape.lock:
            what = f"call {self.calls + 1} ({tool}){self.content.owner}"
            entry = self._served(lambda entry: self._call_differs(entry, asked), what, "tool", tool)
            self.calls += 1
            if not again:
                self.tape.take_parts(entry)
        recorded = entry.line["result"]
        if again:  # for what it does; what it gave is recorded, with the seconds that it took
            made = make()
            now = write(made)
            if ("error" in now) is not ("error" in recorded):
                self.calls -= 1
                self.tape.failed = self._other_end(entry, "result", recorded, now)
                raise self.tape.failed
            if "output" not in recorded and "error" not in recorded:
                return made
        return read(json_data(recorded))

    @contextmanager
    def spawn(
        self, way: str, arguments: Mapping[str, Any], make_id: Callable[[], str]
    ) -> Iterator[tuple[str, PlayedTrack]]:
        """Have a child made as it was made then.

        Args:
            way: `spawn` or `deploy`.
            arguments: what it is made with.
            make_id: makes its id.

        Yields:
            The id that it had, and its track.

        Raises:
            CassetteError: it is not the spawn that comes next, or comes to something else than it did.
        """
        made = make_id()
        asked = {"way": way, "arguments": json_data(dict(arguments))}
        with self.tape.lock:
            what = f"spawn {self._spawns + 1} ({child_name(asked)}){self.content.owner}"
            entry = self._served(lambda entry: self._spawn_differs(entry, asked), what, "way", way)
            self._spawns += 1
        error = entry.line["result"].get("error")
        track = self.tape.tracks[entry.number]
        try:
            yield (made if way == "deploy" else entry.line["id"]), track
        except Exception as now:
            if error is None and self.tape.failed is None:
                self.tape.failed = self._other_end(entry, "result", "a child", str(now))
            raise
        if error is not None:
            self.tape.failed = self._other_end(entry, "result", error, "a child")
            raise self.tape.failed
        track.is_made = True

    def time_of(self, parent: str | None, hash_at: Callable[[str], str], now: Callable[[], str]) -> str:
        """Return when a commit was made, if it is the one that was; else the present."""
        with self.tape.lock:
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
        with self.tape.lock:
            values = self._drawn.get(kind)
            found = values.popleft() if values else made
        if _form(found) != _form(made):
            raise damaged(self.tape.path, f"what was drawn for {kind!r}")
        return found

    # --- finding

    def _served(
        self, differs: Callable[[CassetteEntry], list[str]], what: str, key: str, name: str
    ) -> CassetteEntry:
        """Take the entry that something asks for.

        Raises:
            CassetteError: nothing that may be served now is the same; from then on for all that is asked.
        """
        if self.tape.failed is not None:
            raise CassetteError(*self.tape.failed.args) from None
        nearest: tuple[int, CassetteEntry, list[str]] | None = None
        for entry in self._servable():
            if key not in entry.line:
                continue
            differences = differs(entry)
            if not differences:
                del self.left[entry.number]
                return entry
            distance = len(differences) + (0 if entry.line[key] == name else _MOST_DIFFERENCES + 1)
            if nearest is None or distance < nearest[0]:
                nearest = (distance, entry, differences)
        self.tape.failed = self._miss(what, nearest)
        raise self.tape.failed

    def _miss(self, what: str, nearest: tuple[int, CassetteEntry, list[str]] | None) -> CassetteError:
        if nearest is not None:
            _, entry, differences = nearest
            fields = "; ".join(differences[:_MOST_DIFFERENCES])
            told = f"{what} is not {entry.name} of the cassette {self.tape.path.name}: {fields}"
            return CassetteError(f"{told}. {_WHAT_TO_DO}", differences=tuple(differences))
        following = next(iter(self.left.values()), None)
        if following is not None:
            told = f"{what} is not what comes next on the cassette {self.tape.path.name}: that is {following}"
        else:
            why = "it has ended" if self.tape.content.is_complete else "its recording did not go further"
            told = f"{what} is not on the cassette {self.tape.path.name}: {why}"
        return CassetteError(f"{told}. {_WHAT_TO_DO}")

    def _servable(self) -> Iterator[CassetteEntry]:
        """Yield the entries before which nothing is left that had ended when they began."""
        first = next(iter(self.left), None)
        if first is None:
            return
        for entry in self.left.values():
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

    def _other_end(self, entry: CassetteEntry, where: str, recorded: Any, now: Any) -> CassetteError:
        return self._miss(str(entry), (0, entry, self._differences(where, recorded, now)))

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

    def _spawn_differs(self, entry: CassetteEntry, asked: Mapping[str, Any]) -> list[str]:
        if entry.line["way"] != asked["way"]:
            return [_differs("way", entry.line["way"], asked["way"])]
        if entry.line["arguments"] == asked["arguments"]:
            return []
        return self._differences("arguments", entry.line["arguments"], asked["arguments"])

    def _differences(self, where: str, recorded: Any, now: Any) -> list[str]:
        """Return where two values differ, as they would stand on a cassette."""
        if isinstance(recorded, list) and isinstance(now, list | tuple):
            pairs = zip_longest(recorded, now, fillvalue=_NONE)
            each = (self._differences(f"{where}[{at}]", a, b) for at, (a, b) in enumerate(pairs) if a != b)
            return [one for found in each for one in found]
        return list(_differing(where, self._clean(recorded), self._clean(now)))

    def _clean(self, value: Any) -> Any:
        """Return a value as it would stand on a cassette; also what somebody has written into one."""
        return value if value is _NONE else self.tape.redaction().of(json_data(value))

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
