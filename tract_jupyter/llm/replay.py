"""Replaying a cassette: each entry is served once, and only to a request or call with the same content.

Entries are found by their content, because parallel agents may send requests in a different order than in the
recording. Entries with the same content are served in their order on the cassette.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.concurrency import BY_PERSON, current_stop
from tract_jupyter.exceptions import (
    CassetteError,
    LLMBudgetError,
    LLMConfigError,
    LLMRequestError,
    LLMResponseError,
)
from tract_jupyter.llm.call import CANCELLED
from tract_jupyter.llm.reading import damaged, name_of, read_cassette
from tract_jupyter.llm.recording import json_data
from tract_jupyter.llm.sse import deltas_of
from tract_jupyter.models import Delta, brief_repr, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from tract_jupyter.llm.reading import RecordedEntry
    from tract_jupyter.llm.recording import SentRequest
    from tract_jupyter.llm.redaction import Redaction

    Made = TypeVar("Made")

_MOST_DIFFERENCES: Final = 5
_AROUND: Final = 30  # characters to show around a difference in a long text
_LONGEST: Final = 90
_REMEDY: Final = "Restore the earlier state, or record again"
_NOTHING: Final = object()


class Player:
    """Replays a cassette. This class is thread-safe."""

    is_paused: Final = False
    """Always False. A replay does not call a user's tool or model, so no request comes from within one."""

    def __init__(self, path: Path, redaction: Callable[[], Redaction]) -> None:
        self.path = path
        self.content = read_cassette(path)
        self.requests = self.calls = 0
        self._redaction = redaction
        self._lock = threading.Lock()
        self._requests, self._calls = list(self.content.requests), list(self.content.calls)
        self._failure: CassetteError | None = None

    @property
    def unused(self) -> tuple[str, ...]:
        """The entries that were not served yet, in words."""
        return tuple(entry.name for entry in (*self._requests, *self._calls))

    def has_requests(self, operation: str) -> bool:
        """Return True if the cassette has a request for an operation."""
        return any(entry.asked["purpose"] == operation for entry in self.content.requests)

    def request(self, sent: SentRequest, asker: str, on_delta: Callable[[Delta], object] | None) -> Any:
        """Return the recorded reply to a request, or raise the recorded error."""
        fields = {
            "tract": asker,
            "purpose": sent.operation,
            "model": sent.model,
            "options": dict(sent.options),
        }
        with self._lock:
            name = name_of("request", self.requests + 1, sent.operation, asker)
            line = self._take(self._requests, name, fields, list(sent.messages)).line
            self.requests += 1
        if on_delta is not None:
            for delta in _deltas(line):
                on_delta(delta)
        if "error" in line:
            raise _error(line["error"])
        return json_data(line["reply"])  # a copy, which the caller may change

    def call(
        self,
        asked: Mapping[str, Any],
        make: Callable[[], Made],
        write: Callable[[Made], Any],
        read: Callable[[Any], Made],
        *,
        again: bool,
    ) -> Made:
        """Return the recorded result of a call.

        Args:
            asked: the fields of the call.
            make: makes the call.
            write: converts a result to JSON data.
            read: converts such data to a result.
            again: also make the call, because it changes the tract.
        """
        with self._lock:
            name = name_of("call", self.calls + 1, asked["tool"], asked.get("tract", ""))
            entry = self._take(self._calls, name, {"tract": "", **asked})
            self.calls += 1
        recorded = entry.line["result"]
        if again:  # the recorded result has the durations and times for the model
            repeated = make()
            result = write(repeated)
            if ("error" in result) is not ("error" in recorded):
                self.calls -= 1
                raise self._fail(name, entry, list(self._differences("result", recorded, result)))
            if "output" not in recorded and "error" not in recorded:
                return repeated
        return read(json_data(recorded))

    def draw(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return the next recorded value. After the last one, return a new value."""
        drawn = make()
        with self._lock:
            values = self.content.drawn.get(kind)
            value = values.popleft() if values else drawn
        if _types(value) != _types(drawn):
            raise damaged(self.path, f"the value of {kind!r}")
        return value

    # --- finding

    def _take(
        self, entries: list[RecordedEntry], name: str, fields: Mapping[str, Any], messages: Sequence[Any] = ()
    ) -> RecordedEntry:
        """Remove the first entry with this content and return it."""
        if self._failure is not None:
            raise CassetteError(*self._failure.args, differences=self._failure.differences)
        try:
            for place, entry in enumerate(entries):
                if entry.count == len(messages) and not self._differing_fields(entry, fields, messages):
                    return entries.pop(place)
            raise self._miss(entries, name, fields, messages)
        except RecursionError:
            raise damaged(self.path, "a value that is nested too deeply") from None

    def _miss(
        self, entries: list[RecordedEntry], name: str, requested: Mapping[str, Any], messages: Sequence[Any]
    ) -> CassetteError:
        """Return the error with the differences from the entry that is most similar."""
        if not entries:
            kind = "requests" if entries is self._requests else "calls"
            self._failure = CassetteError(
                f"{name} is not on the cassette {self.path.name}: all its {kind} were used. {_REMEDY}"
            )
            return self._failure

        def unlikeness(entry: RecordedEntry) -> tuple[bool, int, int]:
            fields = self._differing_fields(entry, requested, messages)
            pairs = enumerate(zip(entry.messages(), messages, strict=False))
            start = next((place for place, (one, other) in pairs if one != other), len(messages))
            return bool({"purpose", "tool"}.intersection(fields)), len(fields), -start

        closest = min(entries, key=unlikeness)
        fields = self._differing_fields(closest, requested, messages)
        differences = [
            one
            for field, (recorded, now) in fields.items()
            for one in self._differences(field, recorded, now)
        ]
        return self._fail(name, closest, differences)

    def _fail(self, name: str, entry: RecordedEntry, differences: list[str]) -> CassetteError:
        listing = "; ".join(differences[:_MOST_DIFFERENCES])
        message = f"{name} is not {entry.name} of the cassette {self.path.name}: {listing}. {_REMEDY}"
        self._failure = CassetteError(message, differences=differences)
        return self._failure

    def _differing_fields(
        self, entry: RecordedEntry, fields: Mapping[str, Any], messages: Sequence[Any]
    ) -> dict[str, tuple[Any, Any]]:
        """Return the recorded and the present value of each field that differs."""
        pairs = {name: (entry.asked[name], value) for name, value in fields.items()}
        if "" in pairs.get("model", ()):  # a model without a name
            del pairs["model"]
        differing = {name: both for name, both in pairs.items() if not self._is_same(*both)}
        recorded = entry.messages()
        now = list(messages)
        is_same = (recorded == now and _is_equal(recorded, now)) or (
            len(recorded) == len(now) and all(map(self._is_same, recorded, now))
        )
        if not is_same:
            differing["messages"] = (recorded, now)
        return differing

    def _is_same(self, recorded: Any, now: Any) -> bool:
        is_same = recorded == now and _is_equal(recorded, now)  # fast if they differ
        return bool(is_same or _is_equal(self._clean(recorded), self._clean(now)))

    # --- comparing

    def _clean(self, value: Any) -> Any:
        """Return a value as a recording writes it. A manually edited cassette may also contain secrets."""
        return value if value is _NOTHING else self._redaction().of(json_data(value))

    def _differences(self, where: str, recorded: Any, now: Any) -> Iterator[str]:
        """Yield the differences of two values, without secrets."""
        if isinstance(recorded, list) and isinstance(now, list):
            for place, (before, other) in enumerate(zip_longest(recorded, now, fillvalue=_NOTHING)):
                if not _is_equal(before, other):
                    yield from _differing(f"{where}[{place}]", self._clean(before), self._clean(other))
        else:
            yield from _differing(where, self._clean(recorded), self._clean(now))


def _is_equal(recorded: Any, now: Any) -> bool:
    """Return True for the same JSON data. For Python, 1 equals True, and NaN does not equal NaN."""
    if type(recorded) is not type(now):
        return False
    copied = frozen(recorded)  # ten times as fast as JSON, but the order of keys counts
    return (copied is not None and copied == frozen(now)) or _text(recorded) == _text(now)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(json_data(value), sort_keys=True)


def _types(value: Any) -> Any:
    return [type(item) for item in value] if isinstance(value, list) else type(value)


def _differing(where: str, recorded: Any, now: Any) -> Iterator[str]:
    """Yield each difference of two values of JSON data."""
    if _is_equal(recorded, now):
        return
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(recorded, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*recorded, *now])
        pairs = [(f".{key}", recorded.get(key, _NOTHING), now.get(key, _NOTHING)) for key in keys]
    elif isinstance(recorded, list) and isinstance(now, list):
        both = enumerate(zip_longest(recorded, now, fillvalue=_NOTHING))
        pairs = [(f"[{place}]", before, other) for place, (before, other) in both]
    for part, before, other in pairs:
        yield from _differing(where + part, before, other)
    if not pairs:
        yield f"{where}: recorded {_shown(recorded, now)}, now {_shown(now, recorded)}"


def _shown(value: Any, other: Any) -> str:
    """Return a value for a message. From a long text, return only the part that differs from the other text."""
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, dict) and "role" in value:
        return f"a message of {value['role']!r}, {brief_repr(value.get('content'))}"
    if not isinstance(value, str) or not isinstance(other, str):
        return brief_repr(value)
    if len(value) <= _LONGEST:
        return repr(value)
    pairs = enumerate(zip(value, other, strict=False))
    start = next((place for place, (a, b) in pairs if a != b), min(len(value), len(other)))
    first, last = max(0, start - _AROUND), start + 2 * _AROUND
    before, after = "…" if first else "", "…" if last < len(value) else ""
    return repr(f"{before}{value[first:last]}{after}")


# --- replies and errors


def _deltas(line: Mapping[str, Any]) -> Iterator[Delta]:
    yield from (Delta(*piece) for piece in line.get("pieces", ()))
    if isinstance(line.get("reply"), dict):
        # a reply of a wrong form is refused by its reader
        with suppress(KeyError, TypeError, IndexError, AttributeError):
            yield from (delta for delta in deltas_of(line["reply"]) if isinstance(delta.text, str))


_ERRORS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        LLMBudgetError, LLMConfigError, LLMResponseError, TimeoutError, ConnectionError, OSError, ValueError, TypeError,
        KeyError, RuntimeError, AttributeError, IndexError,
    )
}  # fmt: skip


def _error(data: Mapping[str, Any]) -> Exception:
    """Return the error of a request. An unknown type becomes an `LLMRequestError` that names the type."""
    message, kind = str(data.get("message", "")), str(data.get("type", ""))
    if kind in _ERRORS:
        return _ERRORS[kind](message)
    if kind != LLMRequestError.__name__:
        is_interrupt = kind in {"KeyboardInterrupt", "CancelledError", "SystemExit"}
        if is_interrupt:
            current_stop().set(BY_PERSON)
        return LLMRequestError(f"{kind}: {message}", code=CANCELLED if is_interrupt else "provider_error")
    names = ("code", "status", "retry_after", "is_transient", "reason")
    error = LLMRequestError(message, **{name: data[name] for name in names if name in data})
    error.partial = data.get("partial")
    if error.code == CANCELLED:
        # the user who pressed Stop then does not do it now
        current_stop().set(str(data.get("why", "")) or BY_PERSON)
    return error
