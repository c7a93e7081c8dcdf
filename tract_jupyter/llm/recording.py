"""Recording a cassette: a file of JSON lines, one for each request, tool call and drawn value, without keys.

The first line has the start of the recording, the last one the numbers of requests and calls. A request repeats most
messages of the previous one, and often its options, so the file refers to these instead.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tract_jupyter.concurrency import current_stop
from tract_jupyter.exceptions import CassetteError, LLMRequestError
from tract_jupyter.llm.call import CANCELLED
from tract_jupyter.models import make_private_folder, open_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tract_jupyter.llm.redaction import Redaction
    from tract_jupyter.models import Delta

    Made = TypeVar("Made")

FORMAT: Final = 1
"""The version of the file's form."""
PARTIAL: Final = ".partial"
"""The end of the name of a file whose recording has not ended."""
_paused: ContextVar[tuple[object, ...]] = ContextVar("tract_cassette_paused", default=())


class CassettePlace(NamedTuple):
    """A position in a store: the id of a tract, its branch, and its newest commit."""

    tract_id: str
    branch: str | None
    head: str | None


@dataclass(frozen=True)
class SentRequest:
    """A request to a model.

    Attributes:
        operation: its purpose: `chat`, `compress`, ...
        model: the provider's name of the model; empty if the model has none.
        messages: the conversation.
        options: the client's options that affect the reply.
    """

    operation: str
    model: str
    messages: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls, operation: str, model: str, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> SentRequest:
        """Describe a request with the options of a call, except `abort` and `model`."""
        recorded = {name: value for name, value in options.items() if name not in {"abort", "model"}}
        return cls(operation, model, messages, recorded)


class RecordedModel:
    """A stand-in for a client during a replay. The cassette serves its requests first."""

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:  # noqa: ARG002 # as of clients
        """Refuse."""
        raise CassetteError(
            "a cassette is replayed, but this request bypasses it, so it was not sent; use a client of "
            "tract.models.client_for"
        )


def json_data(value: Any) -> Any:
    """Return a copy of a value as JSON data; the name of its type if it has no such form."""
    try:
        return json.loads(json.dumps(value, default=_type_name, skipkeys=True))
    except (ValueError, RecursionError):
        return _type_name(value)


def _type_name(value: object) -> dict[str, str]:
    return {"no_json": type(value).__name__}


def partial_of(path: Path) -> Path:
    """Return the file of a recording that has not ended."""
    return path.with_name(path.name + PARTIAL)


class Recorder:
    """Records a cassette, and writes it when the recording ends. This class is thread-safe.

    Requests within a user's tool or model are not recorded, because a replay does not call it.
    """

    def __init__(
        self,
        path: Path,
        place: CassettePlace,
        redaction: Callable[[], Redaction],
        *,
        by: str,
        at: str,
        replace: bool = False,
    ) -> None:
        self.path = path
        self.requests = self.calls = 0
        self._redaction = redaction
        self._lock = threading.Lock()
        self._previous: dict[tuple[str, str], _Written] = {}
        self._lines: list[bytes] = []
        self._is_over = False
        self._replaces = replace
        self._add({"cassette": FORMAT, "by": by, "at": at, **place._asdict()})
        self._write("wb" if replace else "xb")

    @property
    def is_paused(self) -> bool:
        """True within a user's tool or model."""
        return self in _paused.get()

    def request(
        self,
        sent: SentRequest,
        asker: str,
        send: Callable[[Callable[[Delta], object] | None], Any],
        on_delta: Callable[[Delta], object] | None,
    ) -> Any:
        """Send a request, and record it with its reply or error."""
        pieces: dict[tuple[str, int, str], str] = {}

        def keep(delta: Delta) -> None:
            key = (delta.kind, delta.index, delta.name)
            pieces[key] = pieces.get(key, "") + delta.text
            if on_delta is not None:
                on_delta(delta)

        key = (asker, sent.operation)
        messages, options = list(sent.messages), dict(sent.options)
        parts = _new_parts(messages, options, self._previous.get(key))
        outcome: dict[str, Any] = {}
        try:
            with self._pause():
                reply = send(None if on_delta is None else keep)
        except BaseException as error:
            outcome["error"] = _error_data(error)
            if pieces:  # a successful reply contains its pieces
                outcome["pieces"] = [
                    [kind, text, index, name] for (kind, index, name), text in pieces.items()
                ]
            raise
        else:
            outcome["reply"] = json_data(reply)
            return reply
        finally:
            with self._lock:
                if not self._is_over:
                    self.requests += 1
                    self._previous[key] = _Written(self.requests, messages, options)
                    line = {"request": self.requests, "for": sent.operation, "model": sent.model}
                    self._add({**line, **({"tract": asker} if asker else {}), **parts, **outcome})

    def call(
        self, asked: Mapping[str, Any], make: Callable[[], Made], write: Callable[[Made], Any], *, again: bool
    ) -> Made:
        """Make a call and record it with its result. An interrupted call is not recorded."""
        with nullcontext() if again else self._pause():
            result = make()
        with self._lock:
            if not self._is_over:
                self.calls += 1
                self._add({"call": self.calls, **asked, "result": write(result)})
        return result

    def draw(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return a value that another run would not repeat, and record it."""
        value = make()
        with self._lock:
            if not self._is_over:
                self._add({"drawn": kind, "value": value})
        return value

    def end(self, head: str | None) -> None:
        """Write the cassette."""
        with self._lock:
            self._is_over = True
            self._add({"end": {"requests": self.requests, "calls": self.calls, "head": head}})
        self._write("wb")
        if self.path.exists() and not self._replaces:
            raise CassetteError(
                f"{self.path} was created during the recording, so it is not overwritten. The recording is in "
                f"{partial_of(self.path)}; rename that file"
            )
        try:
            partial_of(self.path).replace(self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    @contextmanager
    def _pause(self) -> Iterator[None]:
        token = _paused.set((*_paused.get(), self))
        try:
            yield
        finally:
            _paused.reset(token)

    def _add(self, line: dict[str, Any]) -> None:
        clean = self._redaction().of(line)
        try:
            self._lines.append(f"{json.dumps(clean, ensure_ascii=False)}\n".encode())
        except UnicodeEncodeError:  # half a character
            self._lines.append(f"{json.dumps(clean)}\n".encode())

    def _write(self, mode: str) -> None:
        partial = partial_of(self.path)
        try:
            make_private_folder(self.path.parent)
            with open(partial, mode, opener=open_private) as file:
                file.writelines(self._lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if not (isinstance(error, FileExistsError) and partial.exists()):
                raise _unwritable(self.path, error) from error
            raise CassetteError(
                f"{partial} exists: another recording to this file has not ended, or its process was killed. End "
                "that recording with tract.cassette.stop(), or use record(..., replace=True)"
            ) from error


def _unwritable(path: Path, error: OSError) -> CassetteError:
    return CassetteError(f"{path} cannot be written: {error.strerror}; use another file")


class _Written(NamedTuple):
    """A request that is on the cassette."""

    number: int
    messages: list[Any]
    options: dict[str, Any]


def _new_parts(messages: list[Any], options: dict[str, Any], before: _Written | None) -> dict[str, Any]:
    """Return the data to write for a request: a reference to the previous request, and the new messages and options."""
    if before is None:
        return {"messages": json_data(messages), "options": json_data(options)}
    same = len(before.messages)
    if messages[:same] != before.messages:  # fast, because most of them are the same objects
        pairs = enumerate(zip(messages, before.messages, strict=False))
        same = next((at for at, (new, other) in pairs if new != other), min(len(messages), same))
    line = {"after": [before.number, same], "messages": json_data(messages[same:])}
    return line if options == before.options else {**line, "options": json_data(options)}


def _error_data(error: BaseException) -> dict[str, Any]:
    data: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, LLMRequestError):
        names = ("code", "status", "retry_after", "is_transient", "reason", "partial")
        data |= {name: json_data(getattr(error, name)) for name in names if getattr(error, name)}
        if error.code == CANCELLED and current_stop().reason:
            data["why"] = current_stop().reason
    return data
