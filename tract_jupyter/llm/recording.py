"""Writing a cassette: a file of JSON lines, one for each request, call and commit, without keys.

The first line says what it is and where it began, the last one that it is complete. What is asked again with each
request, the messages so far and the options, is written once; later lines refer to it. A recording lies beside its
place as `FILE.partial` until it ends, line by line: what a killed process has written can be replayed from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tract_jupyter.exceptions import CassetteError, LLMRequestError
from tract_jupyter.llm.call import CANCELLED, why_ended

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from tract_jupyter.llm.redaction import Redaction
    from tract_jupyter.models import Delta

    Made = TypeVar("Made")

FORMAT: Final = 1
"""The version of the file's form."""
CHECKSUM: Final = "sha256"
"""Names, in the last line, the sha256 of all lines, for changes by mistake; it is no signature."""
PARTIAL: Final = ".partial"
"""The end of the name of a recording that goes on, or was not ended."""
_FAR: Final = 2**30  # bytes: behind the end of any cassette
_within: ContextVar[tuple[int, ...]] = ContextVar("tract_cassette_within", default=())
_is_beside: ContextVar[bool] = ContextVar("tract_cassette_beside", default=False)


@contextmanager
def side_by_side() -> Iterator[None]:
    """Let requests and calls within this come in any order with what goes on in other such places."""
    token = _is_beside.set(True)
    try:
        yield
    finally:
        _is_beside.reset(token)


class CassettePlace(NamedTuple):
    """Where a tract stands: its id, its branch, and the newest commit."""

    tract_id: str
    branch: str | None
    head: str | None


@dataclass(frozen=True)
class SentRequest:
    """A request as it goes to a model.

    Attributes:
        operation: what it is for: `chat`, `compress`, ...
        model: the provider's name of the model; empty if nobody named one.
        messages: what to reply to.
        options: those of the client that have to do with the reply.
    """

    operation: str
    model: str
    messages: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]


class RecordedModel:
    """Stands where a client would: what is asked of it is on a cassette, and it is never reached."""

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:  # noqa: ARG002 # as of clients
        """Refuse.

        Raises:
            CassetteError: always.
        """
        raise CassetteError(
            "a cassette is replayed, and this request did not go through it, so it was not sent; ask through "
            "t.models.client_for"
        )


def json_data(value: Any) -> Any:
    """Return a value as JSON data, with its keys in their order; of what has no such form the name of its type."""
    try:
        return json.loads(json.dumps(value, default=_type_name, skipkeys=True))
    except (ValueError, RecursionError):
        return _type_name(value)


def _type_name(value: object) -> dict[str, str]:
    return {"no_json": type(value).__name__}


def error_data(error: BaseException) -> dict[str, Any]:
    """Return what a failed request is recorded as."""
    told: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, LLMRequestError):
        names = ("code", "status", "retry_after", "is_transient", "reason", "partial")
        told |= {name: json_data(getattr(error, name)) for name in names if getattr(error, name)}
        if error.code == CANCELLED and why_ended():
            told["why"] = why_ended()
    return told


@dataclass
class _Asked:
    """The request that later ones refer to, as it was written."""

    number: int
    messages: list[Any]
    options: dict[str, Any]
    options_from: int  # the request with which these options are written


class Recorder:
    """Writes a cassette. Threads may share it.

    Args:
        path: of the cassette.
        place: where the recording begins.
        redaction: gives what takes secrets out, at any time.
        by: who writes it.
        at: the present.
        replace: take the place of a recording whose process ended before it did.

    Raises:
        CassetteError: it cannot be written, it is being recorded already, or a recording that did not end lies there.
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
        self._begun = self._commits = self._last_ended = 0
        self._open: set[int] = set()
        self._asked: dict[str, _Asked] = {}
        self._written = hashlib.sha256()
        self._file = _held(path, replace=replace)
        self._write({"cassette": FORMAT, "by": by, "at": at, **place._asdict()})

    # --- what happens

    def request(
        self,
        sent: SentRequest,
        send: Callable[[Callable[[Delta], object] | None], Any],
        on_delta: Callable[[Delta], object] | None,
    ) -> Any:
        """Send a request, and note what came of it."""
        pieces: list[tuple[int, Delta]] = []
        began = time.monotonic()

        def keep(delta: Delta) -> None:
            pieces.append((int(1_000 * (time.monotonic() - began)), delta))
            if on_delta is not None:
                on_delta(delta)

        with self._lock:
            self.requests += 1
            number, base = self.requests, self._asked.get(sent.operation)
        line = {"request": number, "for": sent.operation, "model": sent.model}
        with self._entry(line) as came:
            asked, told = _told(sent, number, base)
            line |= told
            try:
                reply = send(None if on_delta is None else keep)
            except BaseException as error:
                came["error"] = error_data(error)
                raise
            else:
                came["reply"] = json_data(reply)
                return reply
            finally:
                came.update(self._pieces(pieces))
                with self._lock:
                    self._asked[sent.operation] = asked

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        actor: str,
        make: Callable[[], Made],
        write: Callable[[Made], Any],
        *,
        again: bool,
    ) -> Made:
        """Make a call, and note what came of it."""
        with self._lock:
            self.calls += 1
            line = {"call": self.calls, "tool": tool, "actor": actor, "arguments": json_data(dict(arguments))}
        with self._entry({**line, **({"again": True} if again else {})}) as came:
            made = make()
            came["result"] = write(made)
            return made

    def time_of(self, parent: str | None, hash_at: Callable[[str], str], now: Callable[[], str]) -> str:
        """Return the present, and note the commit that is made now."""
        at = now()
        with self._lock:
            self._commits += 1
            self._write({"commit": hash_at(at), "on": parent, "at": at})
        return at

    def drawn(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, and note it."""
        value = make()
        with self._lock:
            self._write({"drawn": kind, "value": value})
        return value

    # --- the end

    def end(self, place: CassettePlace) -> None:
        """Put the recording into its place.

        Raises:
            CassetteError: that cannot be written.
        """
        with self._lock:
            told = {
                "requests": self.requests,
                "calls": self.calls,
                "commits": self._commits,
                "head": place.head,
            }
            partial = partial_of(self.path)
            try:
                self._write({"end": told}, is_last=True)
                if not _lies_at(self._file, partial):
                    raise CassetteError(
                        f"{partial} was removed or replaced while it was written, so nothing is recorded; record again"
                    )
                os.fsync(self._file.fileno())
                if sys.platform == "win32":  # which moves no open file
                    self._file.close()
                partial.replace(self.path)
            except OSError as error:
                raise CassetteError(
                    f"{self.path} cannot be written: {error.strerror}; {partial} has the recording"
                ) from error
            finally:
                self._file.close()  # and no earlier, as until then nobody else writes there

    # ---

    @contextmanager
    def _entry(self, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Number what begins now, and write it once it has ended; nothing of what an interrupt ended on the way."""
        around = _within.get()
        with self._lock:
            self._begun += 1
            number = self._begun
            # all before this had ended when it began; calls that it is a part of have not, and need not
            after = min(self._open.difference(around), default=number)
            is_beside = _is_beside.get()
            if is_beside:  # that others which may come in any order had ended was chance
                after = min(after, self._last_ended + 1)
            self._open.add(number)
        line["n"] = number
        if after != number:
            line["after"] = after
        if around:
            line["within"] = around[-1]
        came: dict[str, Any] = {}
        token = _within.set((*around, number))
        try:
            yield came
        finally:
            _within.reset(token)
            with self._lock:
                self._open.discard(number)
                if not is_beside:
                    self._last_ended = max(self._last_ended, number)
                if came:
                    self._write({**line, **came})

    def _pieces(self, pieces: list[tuple[int, Delta]]) -> dict[str, Any]:
        """Return the pieces of a reply as they are written; without their bounds where a secret lies across these."""
        if not pieces:
            return {}
        whole: dict[tuple[str, int, str], str] = {}
        for _, one in pieces:
            key = (one.kind, one.index, one.name)
            whole[key] = whole.get(key, "") + one.text
        redaction = self._redaction()
        if any(redaction.text(text) != text for text in whole.values()):
            return {"deltas": [[kind, text, index, name] for (kind, index, name), text in whole.items()]}
        return {
            "deltas": [
                [one.kind, one.text, *([one.index, one.name] if one.index or one.name else [])]
                for _, one in pieces
            ],
            "milliseconds": [at for at, _ in pieces],
        }

    def _write(self, line: dict[str, Any], *, is_last: bool = False) -> None:
        clean = self._redaction().of(line)
        data = _line_of(clean)
        self._written.update(data)
        if is_last:
            data = _line_of({**clean, CHECKSUM: self._written.hexdigest()})
        try:
            self._file.write(data)
            self._file.flush()
        except (OSError, ValueError) as error:
            raise CassetteError(
                f"{self.path} cannot be written: {error}; the recording has stopped"
            ) from error


def _line_of(line: dict[str, Any]) -> bytes:
    """Return JSON data as a line of a cassette."""
    try:
        return f"{json.dumps(line, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # half a character
        return f"{json.dumps(line)}\n".encode()


def checksum(lines: Sequence[str], last: Mapping[str, Any]) -> str:
    """Return the checksum of a cassette: of its lines, and of what its last one says besides that."""
    written = hashlib.sha256("".join(f"{line}\n" for line in lines).encode())
    written.update(_line_of({name: value for name, value in last.items() if name != CHECKSUM}))
    return written.hexdigest()


def partial_of(path: Path) -> Path:
    """Return where the recording of a cassette lies until it ends."""
    return path.with_name(path.name + PARTIAL)


def _held(path: Path, *, replace: bool) -> BinaryIO:
    """Return the empty file of a recording, which is held against others until it is closed.

    Raises:
        CassetteError: as of `Recorder`.
    """
    partial = partial_of(path)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
        while True:
            file = open(partial, "ab")  # noqa: SIM115, PTH123 # it stays open
            try:
                _hold(file)
                if not _lies_at(file, partial):  # its recording has ended just now
                    file.close()
                    continue
                if file.tell() and not replace:
                    raise CassetteError(
                        f"{partial} is there, a recording whose process ended before it did. replay() of that file has "
                        "what was recorded until then; record(..., replace=True) begins anew"
                    )
                file.truncate(0)
            except BaseException:
                file.close()
                raise
            return file
    except BlockingIOError as error:
        raise CassetteError(
            f"{path} is being recorded already, in this process or another, so nothing was begun. "
            "t.cassette.stop() there ends it; or give another file"
        ) from error
    except OSError as error:
        raise CassetteError(f"{path} cannot be written: {error.strerror}; give another file") from error


def _hold(file: BinaryIO) -> None:
    """Hold a file until it is closed, or its process ends.

    Raises:
        BlockingIOError: somebody else holds it.
    """
    if sys.platform == "win32":
        file.seek(_FAR)  # a lock hides what it covers
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(*error.args) from error
        file.seek(0, os.SEEK_END)
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return


def _lies_at(file: BinaryIO, path: Path) -> bool:
    """Return True if it is this file that lies there."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _told(sent: SentRequest, number: int, base: _Asked | None) -> tuple[_Asked, dict[str, Any]]:
    """Return a request in full, and what is written of it: what the request before it did not say."""
    told: dict[str, Any] = {}
    before = base.messages if base is not None else []
    same = len(before)
    if list(sent.messages[:same]) != before:  # most of them are the same objects, which takes no time to see
        pairs = enumerate(zip(sent.messages, before, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), min(len(sent.messages), len(before)))
    new = [json_data(one) for one in sent.messages[same:]]
    options = dict(sent.options)
    if base is not None and same:
        told["messages_as"] = [base.number, same]
    told["messages"] = new
    if base is not None and options == base.options:
        told["options_as"] = base.options_from
        return _Asked(number, list(sent.messages), base.options, base.options_from), told
    told["options"] = json_data(options)
    return _Asked(number, list(sent.messages), told["options"], number), told
