"""Writing a cassette: a file of JSON lines, one for each request, call, spawn and commit, without keys.

The first line says what it is and where it began, the last one that it is complete. What is asked again with each
request, the messages so far and the options, is written once; later lines refer to it. A recording lies beside its
place as `FILE.partial` until it ends, line by line: what a killed process has written can be replayed from there.

Each tract has a track of its own: the one that the cassette was begun on, and those that are spawned from it. A track
has an order of its own, so that two children may be at work at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from tract_jupyter.exceptions import CassetteError, LLMRequestError, TractError
from tract_jupyter.llm.call import CANCELLED, why_ended
from tract_jupyter.models import brief_repr, make_private_folder, open_private

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_within: ContextVar[tuple[tuple[Recorder, int], ...]] = ContextVar("tract_cassette_within", default=())
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


class Member(Protocol):
    """What a track asks of the tract that it belongs to."""

    def place(self) -> CassettePlace:
        """Return where the tract stands."""

    def secrets(self) -> Iterable[str]:
        """Return the keys that are in use."""


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
            "tract.models.client_for"
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


class Track:
    """What one tract has on a cassette, for as long as it is recorded or replayed.

    Args:
        number: of the spawn that made the tract; 0 for the one that the cassette was begun on.
        name: of a child in a sentence.
        member: that tract, while it is open.

    Attributes:
        head: the newest commit of a tract that was closed meanwhile.
    """

    def __init__(self, number: int, name: str = "", member: Member | None = None) -> None:
        self.number = number
        self.name = name
        self.member = member
        self.head: str | None = None

    @property
    def is_root(self) -> bool:
        """True if the cassette was begun on this tract."""
        return not self.number

    def head_now(self) -> str | None:
        """Return the newest commit; None if there is none, or no such tract any more."""
        if self.member is not None:
            with suppress(TractError):  # of a branch that was deleted, or a spawn that was rolled back
                self.head = self.member.place().head
        return self.head


def child_name(line: Mapping[str, Any]) -> str:
    """Return how a child is called in a sentence, of the line of its spawn."""
    if line["way"] == "deploy":
        return f"agent {brief_repr(line['arguments'].get('branch_name'))}"
    which = f" ({line['id']:.8})" if line.get("id") else ""
    return f"child {brief_repr(line['arguments'].get('display_name'))}{which}"


class Recorder:
    """Writes a cassette. Threads may share it.

    Args:
        path: of the cassette.
        member: the tract that it begins on.
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
        member: Member,
        redaction: Callable[[], Redaction],
        *,
        by: str,
        at: str,
        replace: bool = False,
    ) -> None:
        self.path = path
        self.requests = self.calls = 0
        self.lock = threading.Lock()
        self.redaction = redaction
        self._begun = self._commits = 0
        self._thread = threading.get_ident()
        self._written = hashlib.sha256()
        self._is_over = False
        self._failed: CassetteError | None = None
        place = member.place()
        self._file = _held(path, replace=replace)
        self.root = RecordedTrack(self, 0, member=member)
        self.tracks = {0: self.root}
        self._write({"cassette": FORMAT, "by": by, "at": at, **place._asdict()})

    def end(self) -> None:
        """Put the recording into its place.

        Raises:
            CassetteError: that cannot be written.
        """
        heads = {str(track.number): track.head_now() for track in list(self.tracks.values())}
        with self.lock:
            told = {
                "requests": self.requests,
                "calls": self.calls,
                "commits": self._commits,
                "head": heads.pop("0"),
                **({"heads": heads} if heads else {}),
            }
            partial = partial_of(self.path)
            try:
                self._check_writable()
                self._write({"end": told}, is_last=True)
                self._is_over = True
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
                self._is_over = True
                with suppress(OSError):  # what could not be written is written once more
                    self._file.close()  # and no earlier, as until then nobody else writes there

    # --- for tracks, which hold the lock

    def begun(self) -> int:
        """Return the number of what begins now.

        Raises:
            CassetteError: nothing can be written any more, so it had better not begin.
        """
        self._check_writable()
        self._begun += 1
        return self._begun

    def is_beginner(self) -> bool:
        """Return True in the thread that began the recording."""
        return threading.get_ident() == self._thread

    def note(self, line: dict[str, Any]) -> None:
        """Write a line; what ends after the recording is not on it any more."""
        if self._is_over:
            return
        self._check_writable()
        self.requests += "request" in line
        self.calls += "call" in line
        self._commits += "commit" in line
        self._write(line)

    def pieces(self, pieces: Sequence[tuple[int, Delta]]) -> dict[str, Any]:
        """Return the pieces of a reply as they are written; without their bounds where a secret lies across these."""
        if not pieces:
            return {}
        whole: dict[tuple[str, int, str], str] = {}
        for _, one in pieces:
            key = (one.kind, one.index, one.name)
            whole[key] = whole.get(key, "") + one.text
        redaction = self.redaction()
        if any(redaction.text(text) != text for text in whole.values()):
            return {"deltas": [[kind, text, index, name] for (kind, index, name), text in whole.items()]}
        return {
            "deltas": [
                [one.kind, one.text, *([one.index, one.name] if one.index or one.name else [])]
                for _, one in pieces
            ],
            "milliseconds": [at for at, _ in pieces],
        }

    # ---

    def _write(self, line: dict[str, Any], *, is_last: bool = False) -> None:
        clean = self.redaction().of(line)
        data = _line_of(clean)
        self._written.update(data)
        if is_last:
            data = _line_of({**clean, CHECKSUM: self._written.hexdigest()})
        try:
            self._file.write(data)
            self._file.flush()
        except (OSError, ValueError) as error:
            self._failed = CassetteError(
                f"{self.path} cannot be written: {error}. Nothing is asked until tract.cassette.stop() ends the "
                f"recording; {partial_of(self.path).name} has what was recorded before"
            )
            raise self._failed from error

    def _check_writable(self) -> None:
        if self._failed is not None:
            raise CassetteError(*self._failed.args)


class RecordedTrack(Track):
    """Notes what one tract does, in its order."""

    def __init__(self, tape: Recorder, number: int, name: str = "", member: Member | None = None) -> None:
        super().__init__(number, name, member)
        self.tape = tape
        self._of = {"of": number} if number else {}
        self._requests = self._calls = self._spawns = self._last_ended = 0
        self._open: set[int] = set()
        self._asked: dict[str, _Asked] = {}
        self._spawning: list[tuple[int, int]] = []  # the spawns that were begun last, and their threads

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

        with self.tape.lock:
            self._requests += 1
            number, base = self._requests, self._asked.get(sent.operation)
        line = {"request": number, "for": sent.operation, "model": sent.model}
        with self._entry(line) as (_, came):
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
                came.update(self.tape.pieces(pieces))
                with self.tape.lock:
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
        with self.tape.lock:
            self._calls += 1
            line = {
                "call": self._calls,
                "tool": tool,
                "actor": actor,
                "arguments": json_data(dict(arguments)),
            }
        with self._entry({**line, **({"again": True} if again else {})}) as (_, came):
            made = make()
            came["result"] = write(made)
            return made

    @contextmanager
    def spawn(
        self, way: str, arguments: Mapping[str, Any], make_id: Callable[[], str]
    ) -> Iterator[tuple[str, RecordedTrack]]:
        """Have a child made, and note it.

        Args:
            way: `spawn` or `deploy`.
            arguments: what it is made with.
            make_id: makes its id.

        Yields:
            The id, and the child's track.
        """
        with self.tape.lock:
            self._spawns += 1
            line = {
                "spawn": self._spawns,
                "way": way,
                "arguments": json_data(dict(arguments)),
                "id": make_id(),
            }
        with self._entry(line) as (number, came):
            track = RecordedTrack(self.tape, number, child_name(line))
            try:
                yield line["id"], track
            except Exception as error:
                came["result"] = {"error": str(error)}
                raise
            came["result"] = {}
            with self.tape.lock:
                self.tape.tracks[number] = track

    def time_of(self, parent: str | None, hash_at: Callable[[str], str], now: Callable[[], str]) -> str:
        """Return the present, and note the commit that is made now."""
        at = now()
        with self.tape.lock:
            self.tape.note({**self._of, "commit": hash_at(at), "on": parent, "at": at})
        return at

    def drawn(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, and note it."""
        value = make()
        with self.tape.lock:
            self.tape.note({**self._of, "drawn": kind, "value": value})
        return value

    @contextmanager
    def _entry(self, line: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Number what begins now, and write it once it has ended; nothing of what an interrupt ended on the way."""
        tape = self.tape
        around = [number for recorder, number in _within.get() if recorder is tape]
        with tape.lock:
            number = tape.begun()
            # all before this had ended when it began; calls that it is a part of have not, and need not
            after = min(self._open.difference(around), default=number)
            is_beside = _is_beside.get()
            if is_beside:  # that others which may come in any order had ended was chance
                after = min(after, self._last_ended + 1)
            if "spawn" in line or not tape.is_beginner():
                after = min(after, self._before_spawns(number))
            self._open.add(number)
            self._spawning = [*self._spawning, (number, threading.get_ident())] if "spawn" in line else []
        line |= {"n": number, **self._of}
        if after != number:
            line["after"] = after
        if around:
            line["within"] = around[-1]
        came: dict[str, Any] = {}
        token = _within.set((*_within.get(), (tape, number)))
        try:
            yield number, came
        finally:
            _within.reset(token)
            with tape.lock:
                self._open.discard(number)
                if not is_beside:
                    self._last_ended = max(self._last_ended, number)
                if came:
                    tape.note({**line, **came})

    def _before_spawns(self, number: int) -> int:
        """Return what the spawns of other threads came after that were begun since; their order was chance."""
        for spawn, thread in reversed(self._spawning):
            if thread == threading.get_ident():
                break
            number = spawn
        return number


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
        make_private_folder(path.parent)
        while True:
            file = open(partial, "ab", opener=open_private)  # noqa: SIM115 # it stays open
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
            "tract.cassette.stop() there ends it; or give another file"
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
